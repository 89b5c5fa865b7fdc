#!/bin/sh
# Runs a test by the launcher of an MPI, its processes as if on two hosts:
#   tests/support/under_mpi.sh openmpi|mpich PROCESSES PROGRAM
# The program's tests run one after the other in each process, which MPI is begun in once. Exits
# with 77 where the launcher is not installed.
mpi=$1 count=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
case $mpi in
  openmpi) launcher="mpirun.openmpi --oversubscribe"
    [ "$(id -u)" -ne 0 ] || launcher="$launcher --allow-run-as-root" ;;
  mpich) launcher=mpiexec.hydra ;;
esac
command -v "${launcher%% *}" >/dev/null || { echo "$launcher is not installed"; exit 77; }
export TSR_PROCESS_COUNT="$count" TSR_COORDINATOR="unix:$folder/job" TEST_FOLDER="$folder"
# shellcheck disable=SC2086 # words are wanted
$launcher -n "$count" "$(dirname "$0")/on_hosts.sh" $((count / 2)) "$@" --among "$count"
