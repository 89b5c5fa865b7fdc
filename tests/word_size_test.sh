#!/bin/sh
# Where pointers have 32 bits, the headers and the build say what is wrong, and nothing else does.
#   tests/word_size_test.sh CMAKE SOURCE_FOLDER C_COMPILER
set -eu
cmake=$1 source=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Freestanding: there may be no headers of a C library for 32 bits.
for word in -m32 -mabi=ilp32 none; do
  [ "$word" != none ] || { echo "skipped: $cc makes 64-bit programs only"; exit 77; }
  ! echo 'int x;' | "$cc" "$word" -x c -c - -o "$work/x.o" 2>/dev/null || break
done

echo "# the headers"
for header in tessera.h $(cd "$source/include" && echo tessera/*.h); do
  if echo "#include <$header>" | "$cc" "$word" -std=c11 -fsyntax-only -I"$source/include" -x c - \
    2>"$work/said"; then
    echo "$header is taken" >&2
    exit 1
  fi
  grep -m 1 'error' "$work/said" | grep -q 'Tessera is 64-bit only' ||
    { echo "$header says:" >&2; cat "$work/said" >&2; exit 1; }
done

echo "# the build"
if "$cmake" -S "$source" -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$word" \
  -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY >"$work/said" 2>&1; then
  echo "the build is configured" >&2
  exit 1
fi
grep -q 'Tessera is 64-bit only' "$work/said" || { cat "$work/said" >&2; exit 1; }
