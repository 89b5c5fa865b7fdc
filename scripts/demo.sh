#!/bin/sh
# The library, shown: a sharded frame on real data, then on 100 million rows, and digits learnt.
#   scripts/demo.sh [BUILD_FOLDER]      TESSERA_DEMO_ROWS=n and TESSERA_DEMO_EPOCHS=n make parts smaller
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}
tessera=$build/bin/tessera
weather=examples/data/weather.csv

bold=""
plain=""
if [ -t 1 ]; then
  bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi

title() {
  printf '\n%s%s%s\n\n' "$bold" "$1" "$plain"
}

# Shows a command as it would be typed with the tool in the PATH, long lines broken before an option,
# and runs it. Every option has a value.
shell() {
  line='$ tessera'
  option=
  for word in "$@"; do
    case $word in
      --*) option="$word "; continue ;;
      *[!A-Za-z0-9_./:,=-]*) word="'$word'" ;;
    esac
    word=$option$word
    option=
    if [ $((${#line} + ${#word})) -gt 76 ]; then
      printf '%s \\\n' "$line"
      line='   '
    fi
    line="$line $word"
  done
  printf '%s\n' "$line"
  "$tessera" "$@"
}

title "1. Real data, from the shell: a year of weather at New York's airports"
shell query "$weather" --devices cpu:8 --where 'temp > 90' \
  --with 'celsius = (temp - 32) * 5 / 9' --by origin \
  --agg 'hours = count(), hottest = max(celsius), mean_wind = mean(wind_speed)'

title "2. The same data from C, sharded over 8 devices"
"$build/examples/weather" "$weather"

title "3. Which device holds what: an array over a grid of eight"
shell shard 'f32[8192,1024]@(data,model)' data=4,model=2

title "4. The large example, drawn on the devices"
rows=${TESSERA_DEMO_ROWS:-100000000}
"$build/examples/large" "$rows"
# The same pass by Polars, where there is one, as a line more of the last table.
for python in "${BENCH_PYTHON:-}" python3; do
  command -v "${python:-none}" >/dev/null && "$python" examples/demo/peer.py "$rows" && break
done || true

title "5. Handwritten digits learnt on eight devices"
"$build/examples/train_digits"
