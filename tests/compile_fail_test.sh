#!/bin/sh
# What must not compile: values whose type the macros' selections do not list. Each line is a statement
# that compiles, and what takes the place of `@` in it to make one that must not.
#   tests/compile_fail_test.sh CC INCLUDE_DIR
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# compiles STATEMENT: whether a function with it does.
compiles()
{
  cat >"$work/a.c" <<END
#include <tessera.h>
void f(tsr_scope *s, tsr_array *x, tsr_frame *df);
void f(tsr_scope *s, tsr_array *x, tsr_frame *df)
{
  (void)s, (void)x, (void)df;
  $1;
}
END
  "$cc" -std=c11 -Wall -Wextra -Werror -I"$include" -fsyntax-only "$work/a.c" 2>"$work/errors"
}

cc=$1 include=$2
while IFS='|' read -r statement good wrong; do
  [ -n "$statement" ] || continue
  for value in $good; do
    compiles "$(printf '%s' "$statement" | sed "s/@/$value/")" && continue
    echo "does not compile: $statement with $value"
    cat "$work/errors"
    bad=1
  done
  for value in $wrong; do
    compiles "$(printf '%s' "$statement" | sed "s/@/$value/")" || continue
    echo "compiles, but must not: $statement with $value"
    bad=1
  done
done <<'END'
tsr_add(x, @)|x 2 2u 2ul 2ull 2.5 2.5f (char)2 (short)2 (bool)1 SIZE_MAX|2.5L (__int128)2 "2" df NULL
tsr_add(@, x)|x 2 2u 2ul 2ull 2.5 2.5f (char)2 (short)2 (bool)1 SIZE_MAX NULL|2.5L (__int128)2 "2" df
tsr_where(x, @, 1)|x 2 2.5|2.5L "2" df
tsr_full(s, @, TSR_F32, TSR_SHAPE(4), tsr_on(NULL, NULL))|2 2.5 x|2.5L "2"
tsr_num(s, @)|2 2ull 2.5 (bool)1|2.5L x
tsr_frame_mul(df, @)|df 2 2ul 2.5f|2.5L (__int128)2 "2" x
tsr_frame_filter(df, "a == ?", @)|2 2ul 2.5 "2" (bool)1|2.5L (__int128)2 x
END
exit $bad
