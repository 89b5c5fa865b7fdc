/* The error function of f32, its complement, and the normal distribution's gelu, by the formulas of
 * f64 (formula_erf_tile.c); and the inverse, by a shorter one. */
#include "kernel/tile/formula_f32.h"

/* Takes a size below 1. */
INLINE val erf_near(val x)
{
  return fused(x, polynomial(x * x, TABLE(erf_tail)), x);
}

/* exp(x^2) erfc x for x from 0.47 to 11.5. */
INLINE val scaled_rest_f32(val x)
{
  val four = real(4), t = (x - four) / (x + four);
  return polynomial(t, TABLE(erfc_rest)) / fused(real(2), x, real(1));
}

/* y exp(-scale x^2) for a scale that is a power of two; the rounding error of the square is put
 * back. */
INLINE val bell_times(val y, val x, float scale)
{
  val square = x * x, low = fused(x, x, -square);
  parted p = power_of(at_least(square * real(-scale), -104));
  p.r = fused(low, real(-scale), p.r);
  return exp_times(p, y);
}

/* erfc of a size from 0.47 on; 11 is far enough. */
INLINE val erfc_far(val size)
{
  val x = at_most(size, 11);
  return bell_times(scaled_rest_f32(x), x, 1);
}

#include "kernel/tile/formula_erf.h"

INLINE val gelu_of(val x)
{
  val size = at_most(size_of(x), 16), half = size * real(0.5f);
  val end = bell_times(half * scaled_rest_f32(size * real(ROOT_HALF)), size, 0.5f);
  val far = where(is_minus(x), -end, x - end);
  val part = x * real(0.5f);
  val near = fused(part, erf_near(x * real(ROOT_HALF)), part);
  val result = where(size < real(0.7f), near, far);
  return where(x == real(0), x, result); /* -0 stays */
}

/* x times a polynomial in w = -log(1 - x^2), or in its root where w is large. 1 - x^2 is rounded
 * once, which shows little: near 1 the polynomial is flat, elsewhere it is a root. */
INLINE val erfinv_of(val x)
{
  val size = size_of(x), w = -log_of(fused(-x, x, real(1)));
  val near = polynomial(w - real(2.5f), TABLE(erfinv_near));
  val far = polynomial(root_of(w) - real(3), TABLE(erfinv_far));
  val result = x * where(w < real(5), near, far);
  result = where(size == real(1), with_sign_of(real((float)INFINITY), x), result);
  return where(size > real(1), real((float)NAN), result);
}

TILE_OF_1(erf)
TILE_OF_1(erfc)
TILE_OF_1(erfinv)
TILE_OF_1(gelu)
