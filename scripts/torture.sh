#!/bin/bash
# torture.sh BUILD: the tests of tests/torture at their full sizes, one after the other. Needs about 16 GB of
# memory and an hour; `make test` runs the same at small sizes.
set -u
build=$1
failed=0
run() {
  echo "== $*"
  env "$@" || failed=1
}
run CANCEL_ROWS=10000000 TEST_TIMEOUT_SCALE=4 "$build/tests/torture/cancel_test" --no-fork --filter report
run TEST_TIMEOUT_SCALE=4 "$build/tests/torture/cancel_test"
run SIZES_FULL=1 TEST_TIMEOUT_SCALE=4 "$build/tests/torture/sizes_test"
for test in verb_memory verb_system save_crash moving_files signals allocation loops collectives_wide; do
  run TEST_FULL=1 TEST_TIMEOUT_SCALE=4 "$build/tests/torture/${test}_test"
done
run TEST_KILLS=25 TEST_TIMEOUT_SCALE=4 "$build/tests/process/kill_test"
run TEST_HOSTS=2 TEST_KILLS=25 TEST_TIMEOUT_SCALE=4 "$build/tests/process/kill_test"
for mpi in openmpi mpich; do
  [ ! -f "$build/lib/tessera_mpi_$mpi.so" ] ||
    run TEST_MPI=$mpi TEST_KILLS=25 TEST_TIMEOUT_SCALE=4 "$build/tests/process/kill_test"
done
run TOOL_LINES=10000 TEST_TIMEOUT_SCALE=20 "$build/tests/torture/tool_random_test"
[ $failed = 0 ] && echo "torture: all passed"
exit $failed
