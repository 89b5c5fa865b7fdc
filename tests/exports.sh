#!/bin/sh
# Compares what a shared library exports with a list (check), or writes the list (write).
#   tests/exports.sh check|write LIBRARY LIST
set -eu
export LC_ALL=C
found=$(nm -D --defined-only "$2" | awk '{ print $3 }' | sort)

foreign=$(printf '%s\n' "$found" | grep -v '^tsr_[^_]' || true)
if [ -n "$foreign" ]; then
  echo "exported, but no public name (tsr_...):"
  echo "$foreign"
  exit 1
fi
if [ "$1" = write ]; then
  printf '%s\n' "$found" >"$3"
  exit 0
fi
if ! printf '%s\n' "$found" | diff -u "$3" - ; then
  echo "The exported symbols differ from $3. If that is meant, run: make exports"
  exit 1
fi
