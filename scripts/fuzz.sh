#!/bin/sh
# Builds the fuzz targets (tests/fuzz/*.c) and runs each for a while. Seeds are read from
# tests/fuzz/corpus/NAME, words from tests/fuzz/NAME.dict; what is learnt stays in
# build/fuzz/corpus/NAME, crashes in build/fuzz. An input that broke something goes, once that is mended,
# to tests/fuzz/corpus/NAME, which the tests replay. Before a release each target runs ten minutes:
# make fuzz FUZZ_SECONDS=600.
#   scripts/fuzz.sh SECONDS [NAME]
set -eu
cd "$(dirname "$0")/.."
seconds=$1 only=${2:-}
targets=
for source in tests/fuzz/*.c; do
  [ -e "$source" ] || continue
  name=$(basename "$source" .c)
  if [ -z "$only" ] || [ "$only" = "$name" ]; then targets="$targets $name"; fi
done
if [ -z "$targets" ]; then
  echo "fuzz: there is no target${only:+ named $only} in tests/fuzz"
  [ -z "$only" ]
  exit
fi

[ -f build/fuzz/Makefile ] || cmake --preset fuzz --log-level=WARNING >/dev/null
# shellcheck disable=SC2086 # words are wanted
cmake --build build/fuzz -j "$(nproc)" --target $targets -- -s >/dev/null
failed=
for name in $targets; do
  learnt=build/fuzz/corpus/$name seeds=tests/fuzz/corpus/$name log=build/fuzz/$name.log
  words=tests/fuzz/$name.dict
  mkdir -p "$learnt"
  [ -d "$seeds" ] || seeds=
  if [ -f "$words" ]; then words=-dict=$words; else words=; fi
  # shellcheck disable=SC2086 # an empty word is none
  if build/fuzz/fuzz/"$name" -max_total_time="$seconds" -artifact_prefix=build/fuzz/"$name"- \
      -timeout=25 -print_final_stats=1 $words "$learnt" $seeds >"$log" 2>&1; then
    said="no finding"
  else
    tail -n 40 "$log"
    said="a finding; the whole output is in $log" failed=1
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  edges=$(sed -n 's/^#.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  echo "fuzz: $name: ${runs:-?} inputs, ${edges:-?} edges, $said"
done
[ -z "$failed" ]
