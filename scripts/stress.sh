#!/bin/bash
# stress.sh BUILD [RUNS [PATTERN]]: the tests of several processes, each RUNS times (20) in a row, twelve processors'
# worth of them at a time, beside ten busy loops. A test that waits for less than its word says, or races, fails here.
# PATTERN is a regular expression of the names of tests.
set -u
build=$1 runs=${2:-20} pattern=${3:-}
loops=()
trap 'kill "${loops[@]}" 2>/dev/null' EXIT
for _ in $(seq 10); do
  while :; do :; done &
  loops+=($!)
done
args=(--test-dir "$build" -L several -j 12 --repeat "until-fail:$runs" --output-on-failure --timeout 3600)
[ -z "$pattern" ] || args+=(-R "$pattern")
ctest "${args[@]}"
