#!/bin/sh
# Builds the fuzz targets (tests/fuzz/*.c) and runs each for a while. Seeds are read from
# tests/fuzz/corpus/NAME; what is learnt stays in build/fuzz/corpus/NAME, crashes in build/fuzz.
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
for name in $targets; do
  learnt=build/fuzz/corpus/$name seeds=tests/fuzz/corpus/$name log=build/fuzz/$name.log
  mkdir -p "$learnt"
  [ -d "$seeds" ] || seeds=
  # shellcheck disable=SC2086 # an empty word is none
  if build/fuzz/fuzz/"$name" -max_total_time="$seconds" -artifact_prefix=build/fuzz/"$name"- \
      -print_final_stats=1 "$learnt" $seeds >"$log" 2>&1; then
    echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, no finding"
  else
    tail -n 40 "$log"
    echo "fuzz: $name failed; the whole output is in $log"
    exit 1
  fi
done
