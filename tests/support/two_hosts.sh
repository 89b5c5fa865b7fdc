#!/bin/sh
# Runs a program as four processes on two hosts, each of which has names, processes and a network
# of its own, with one link between them:
#   tests/support/two_hosts.sh well|slow|gone|cut FOLDER PROGRAM
# slow: 100 Mbit/s. cut: the link goes down once every process has written "computed"; gone: it comes
# back after 6 seconds. What process N writes stands in FOLDER/N; the exit codes in FOLDER/codes. 77: the machine forbids it.
set -eu
how=$1 folder=$2 program=$3

# A host lives as long as its first process, whose number stands in FOLDER/host.N.
start_host() {
  unshare --net --uts --ipc --mount --pid --fork --kill-child sh -c '
    mount -t proc proc /proc && mount -t sysfs sysfs /sys && hostname "host$0" &&
      ip link set lo up && : >"$1/ready.$0" && exec sleep 300' "$1" "$folder" &
  outer=$!
  for _ in $(seq 100); do
    [ -e "$folder/ready.$1" ] && break
    kill -0 $outer 2>/dev/null || exit 77
    sleep 0.05
  done
  pgrep -P $outer >"$folder/host.$1"
  hosts="${hosts:-} $outer"
}

# within HOST COMMAND ...
within() {
  host=$1
  shift
  nsenter -t "$(cat "$folder/host.$host")" -n -u -i -m -p --wd="$PWD" "$@"
}

# shellcheck disable=SC2086 # words are wanted
trap 'kill -9 ${hosts:-} 2>/dev/null' EXIT
unshare --net --pid --fork true 2>/dev/null || exit 77
start_host 0
start_host 1
ip link add tsr0 netns "$(cat "$folder/host.0")" type veth \
  peer name tsr1 netns "$(cat "$folder/host.1")" || exit 77
for host in 0 1; do
  within $host ip addr add 10.77.0.$((host + 1))/24 dev tsr$host
  within $host ip link set tsr$host up
  [ "$how" != slow ] || within $host tc qdisc add dev tsr$host root tbf rate 100mbit burst 64k \
    latency 50ms || exit 77
done
# A network without a carrier is none to whoever looks for one.
for host in 0 1; do
  for _ in $(seq 100); do
    within $host ip link show tsr$host | grep -q 'state UP' && break
    sleep 0.05
  done
done

TSR_PROCESS_COUNT=4 TSR_COORDINATOR=10.77.0.1:7000 TSR_SECRET=twohosts TSR_START_TIMEOUT=60
export TSR_PROCESS_COUNT TSR_COORDINATOR TSR_SECRET TSR_START_TIMEOUT
pids=
for index in 0 1 2 3; do
  TSR_PROCESS_INDEX=$index within $((index / 2)) "$program" >"$folder/$index" 2>&1 &
  pids="$pids $!"
done
if [ "$how" = cut ] || [ "$how" = gone ]; then
  for _ in $(seq 600); do
    [ "$(cat "$folder/0" "$folder/1" "$folder/2" "$folder/3" | grep -c computed)" = 4 ] && break
    sleep 0.1
  done
  within 1 ip link set tsr1 down
fi
if [ "$how" = gone ]; then
  sleep 6
  within 1 ip link set tsr1 up
fi
for pid in $pids; do
  code=0
  wait "$pid" || code=$?
  echo $code >>"$folder/codes"
done
