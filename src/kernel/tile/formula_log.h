/* log and log1p of f64 or f32, from log_sum(k, f, c), which is k ln 2 + log(1 + f) + c for f in
 * [sqrt 1/2 - 1, sqrt 2 - 1) and a small c, and stands before this. */
#ifndef TSR_KERNEL_FORMULA_LOG_H
#define TSR_KERNEL_FORMULA_LOG_H

#include "kernel/tile/formula_inner.h"

/* Replaces the result where x is 0 (`at`: the number whose log is infinite), negative beyond it,
 * infinite or NaN. */
INLINE val log_ends(val x, element at, val result)
{
  val edge = real(at), top = real((element)INFINITY);
  result = where(x < top, result, x);
  result = where(x == edge, real(-(element)INFINITY), result);
  return where(x < edge, real((element)NAN), result);
}

INLINE val log_of(val x)
{
  split parts = split_of(x);
  return log_ends(x, 0, log_sum(parts.k, parts.m, real(0)));
}

/* log1p x is the log of u = 1 + x rounded, and the rounding error of u divided by u. Near 0, f is x
 * itself. */
INLINE val log1p_of(val x)
{
  val zero = real(0), one = real(1);
  val u = x + one;
  split parts = split_number(u);
  val lost_small = x - (u - one);
  val lost_large = one - (u - x);
  mask large = x >= one;
  val c = where(large, lost_large, lost_small) / u;
  mask near = (x > real((element)-0.29)) & (x < real((element)0.41));
  val f = where(near, x, parts.m - one);
  val k = where(near, zero, parts.k);
  val result = log_sum(k, f, where(near, zero, c));
  result = where(x == zero, x, result);
  return log_ends(x, -1, result);
}

#endif
