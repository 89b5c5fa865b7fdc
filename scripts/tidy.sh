#!/bin/sh
# Runs clang-tidy over the library and the tool; what it finds fails the run.
#   scripts/tidy.sh BUILD_FOLDER [JOBS]
set -eu
cd "$(dirname "$0")/.."
found=$(mktemp)
trap 'rm -f "$found"' EXIT
status=0
# Exit status 255 would stop xargs at the first finding, so each run ends with 0 or 1.
find src tools -name '*.c' | sort |
  xargs -P "${2:-1}" -n 1 sh -c 'clang-tidy -p "$0" --quiet "$1" 2>/dev/null || exit 1' "$1" \
    >"$found" || status=1
cat "$found"
if [ "$status" -eq 0 ]; then
  echo "tidy: nothing that fails, $(grep -c ' warning: ' "$found" || true) paths to read"
fi
exit "$status"
