/* Exponentials, logarithms and tanh of f32. */
#include "kernel/tile/formula_f32.h"

/* Beyond the ends the power is 0 or infinite, as it is at them. */
INLINE val exp2_of(val x)
{
  val near = at_most(at_least(x, -151), 129);
  val tagged = near + real(WHOLE);
  val r = near - (tagged - real(WHOLE));
  return scaled_by_tag(fused(r, polynomial(r, TABLE(exp2_tail)), real(1)), tagged);
}

/* 2^k exp r - 1, by halves, as 2^128 is no number; with k = 0 it is exp r - 1 itself. Below -20 it
 * is -1 once it is rounded. */
INLINE val expm1_of(val x)
{
  parted p = power_of(at_most(at_least(x, -20), 89));
  val rest = less_one(p.r), half = power_of_two(bits_sub(p.tagged, whole(1)));
  val far = fused(half, rest, half - real(0.5f));
  val result = where(p.tagged == real(WHOLE), rest, far + far);
  return with_sign_of(result, x); /* -0 stays */
}

/* With e = exp(-2 |x|) - 1 it is -e / (2 + e). */
INLINE val tanh_of(val x)
{
  val size = size_of(x);
  parted p = power_of(at_least(real(-2) * size, -20));
  val scale = power_of_two(p.tagged);
  val e = fused(scale, less_one(p.r), scale - real(1));
  return with_sign_of(e / (real(2) + e), x);
}

/* To another base, of which `log` are 1 / ln base and `two` the logarithm of 2. */
typedef struct base {
  float two_high, two_low, high, low;
} base;

INLINE val log_in_base_f32(val x, const base *to)
{
  split parts = split_of(x);
  val rest = log_rest(parts.m, real(0)), high = real(to->high);
  val small = fused(parts.m, real(to->low), parts.k * real(to->two_low));
  small = fused(parts.m, high, fused(rest, high, small));
  return log_ends(x, 0, fused(parts.k, real(to->two_high), small));
}

INLINE val log2_of(val x)
{
  return log_in_base_f32(x, &(base){ 1, 0, LOG2_E_HIGH, LOG2_E_LOW });
}

/* The logarithm of 2 in two parts; the high one meets k in a fused step, so that their product is
 * not rounded. */
INLINE val log10_of(val x)
{
  return log_in_base_f32(x, &(base){ LOG10_2_HIGH, LOG10_2_LOW, LOG10_E_HIGH, LOG10_E_LOW });
}

TILE_OF_1(exp)
TILE_OF_1(exp2)
TILE_OF_1(expm1)
TILE_OF_1(log)
TILE_OF_1(log1p)
TILE_OF_1(log2)
TILE_OF_1(log10)
TILE_OF_1(tanh)
