#!/bin/sh
# Runs a command with a Slurm of two nodes, both this machine, that lives as long as the command:
#   slurm.sh FOLDER PORT PORT PORT COMMAND...
# Exits with what the command does; 77: the Slurm did not come up, and why is printed.
set -eu
folder=$1 control=$2 one=$3 two=$4
shift 4
host=$(hostname -s)
second=zz-second
mkdir -p "$folder/state" "$folder/$host.tmp" "$folder/$second.tmp"
cd "$folder"
(umask 077; head -c 1024 /dev/urandom >munge.key)

# The first node of a step, by name, is where process 0 is looked for: the one with this host's.
cat >slurm.conf <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$control
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
SlurmctldPidFile=$folder/control.pid
SlurmdPidFile=$folder/%n.pid
SlurmdSpoolDir=$folder/%n.spool
SlurmdParameters=config_overrides
StateSaveLocation=$folder/state
TmpFS=$folder/%n.tmp
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
ReturnToService=2
PropagateResourceLimits=NONE
NodeName=$host NodeHostname=$host NodeAddr=127.0.0.1 Port=$one CPUs=8
NodeName=$second NodeHostname=$host NodeAddr=127.0.0.1 Port=$two CPUs=8
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF="$folder/slurm.conf"
PATH=$PATH:/usr/sbin:/sbin

daemons=
# A step's own daemon of this version stops for good now and then while its step is killed, and
# slurmd waits for it.
stop() {
  # shellcheck disable=SC2086 # words are wanted
  if [ -n "$daemons" ]; then
    kill $daemons 2>/dev/null || true
    (
      sleep 5
      steps=$(grep -lsz "SLURM_CONF=$folder/" /proc/[0-9]*/environ | cut -d/ -f3)
      kill -9 $daemons $(for p in $steps; do grep -ls slurmstepd "/proc/$p/comm"; done |
        cut -d/ -f3) 2>/dev/null
    ) &
    last=$!
    # shellcheck disable=SC2086
    wait $daemons || true
    kill "$last" 2>/dev/null || true
  fi
}
trap stop EXIT
trap 'exit 1' INT TERM

# daemon NAME COMMAND...
daemon() {
  name=$1
  shift
  "$@" >"$name.out" 2>&1 &
  daemons="$! $daemons"
}

daemon munged munged --force --foreground --key-file="$folder/munge.key" \
  --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
tries=0
until [ -S munge.socket ] || [ $tries = 200 ]; do sleep 0.05; tries=$((tries + 1)); done
daemon control slurmctld -D -f slurm.conf
daemon first slurmd -D -f slurm.conf -N "$host"
daemon second slurmd -D -f slurm.conf -N "$second"
until timeout 5 sinfo -h -o '%D %t' 2>&1 | grep -q '^2 idle'; do
  tries=$((tries + 1))
  alive=true
  for one in $daemons; do kill -0 "$one" 2>/dev/null || alive=false; done
  if ! $alive || [ $tries -ge 400 ]; then
    tail -n 5 ./*.out
    exit 77
  fi
  sleep 0.1
done
set +e
"$@"
exit $?
