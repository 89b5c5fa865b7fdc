#!/bin/sh
# Runs a program as one of several that take themselves for processes of different hosts: of
# `tessera run`, or of a launcher of an MPI.
#   tests/support/on_hosts.sh PROCESSES_A_HOST PROGRAM ...
index=${TSR_PROCESS_INDEX:-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}}
TSR_HOST=host$((index / $1)) TEST_PROCESS=$index
export TSR_HOST TEST_PROCESS
shift
exec "$@"
