#!/bin/sh
# Runs a program as one of several that take themselves for processes of different hosts.
#   tests/support/on_hosts.sh PROCESSES_A_HOST PROGRAM ...
TSR_HOST=host$((TSR_PROCESS_INDEX / $1))
export TSR_HOST
shift
exec "$@"
