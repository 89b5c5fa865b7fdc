/* x to the y, of f64 or f32. A power is 2 to the y log2 |x|, logarithm and product in two parts
 * with some half as many bits again, so that only the last addition rounds visibly.
 *
 *   |x| = 2^k m     s = (m - 1) / (m + 1), z = s^2
 *   log2 |x| = k + 2 / ln 2 (s + s z (1/3 + z (1/5 + z T(z))))
 *   y log2 |x| = n + r, n whole
 *   result = 2^n e^v, v = r ln 2:  1 + v + v^2/2 + v^3 E(v)
 *
 * An exponent of 2 is one product and one of 0.5 one root. Numbers that have no logarithm, signs
 * and exponents without end are as C11's Annex F has them. `atanh_tail5` and `exp_tail3` stand
 * before this, numbers in two parts, FAR and MOST_EXPONENT: logarithms of a power and exponents
 * beyond give 0 or infinity. */
#ifndef TSR_KERNEL_FORMULA_POW_H
#define TSR_KERNEL_FORMULA_POW_H

#include "kernel/tile/formula_inner.h"

/* The exact sum of numbers of which the first is the larger one, or 0. */
INLINE pair sum_pair(val x, val y)
{
  val high = x + y;
  return (pair){ high, (x - high) + y };
}

/* The exact product. */
INLINE pair product_pair(val x, val y)
{
  val high = x * y;
  return (pair){ high, fused(x, y, -high) };
}

INLINE pair times_pair(pair x, pair y)
{
  pair out = product_pair(x.high, y.high);
  out.low = out.low + fused(x.high, y.low, x.low * y.high);
  return out;
}

/* x, which is larger, and y. */
INLINE pair plus_pair(pair x, pair y)
{
  pair out = sum_pair(x.high, y.high);
  out.low = out.low + (x.low + y.low);
  return out;
}

/* (m - 1) / (m + 1). */
INLINE pair ratio(val less_one)
{
  val two = real(2);
  pair below = sum_pair(two, less_one);
  val high = less_one / below.high;
  val minus = -high;
  val rest = fused(minus, below.low, fused(minus, below.high, less_one));
  return (pair){ high, rest / below.high };
}

/* log2 of a number above 0. */
INLINE pair log2_pair(val x)
{
  split parts = split_of(x);
  pair s = ratio(parts.m), z = times_pair(s, s);
  pair fifth = { real(FIFTH_HIGH), real(FIFTH_LOW) };
  pair third = { real(THIRD_HIGH), real(THIRD_LOW) };
  pair scale = { real(2 * LOG2_E_HIGH), real(2 * LOG2_E_LOW) };
  pair tail = { z.high * polynomial(z.high, TABLE(atanh_tail5)), real(0) };
  pair sum = plus_pair(third, times_pair(z, plus_pair(fifth, tail)));
  pair twice = times_pair(s, scale);
  pair log = plus_pair(twice, times_pair(twice, times_pair(z, sum)));
  return plus_pair((pair){ parts.k, real(0) }, log);
}

/* v + v^2/2 + v^3 E(v) for |v| <= ln 2 / 2, the first two apart from the small rest. */
typedef struct series {
  pair square;
  val small;
} series;

INLINE series series_of(pair v)
{
  val cube = (v.high * v.high) * v.high;
  return (series){ product_pair(v.high * real(0.5), v.high),
                   fused(cube, polynomial(v.high, TABLE(exp_tail3)), fused(v.low, v.high, v.low)) };
}

/* 2 to a sum of two within +-FAR. */
INLINE val exp2_pair(pair x)
{
  val tagged = x.high + real(WHOLE);
  /* The other addend is 0 or a multiple of twice the size of x.low. */
  pair r = sum_pair(x.high - (tagged - real(WHOLE)), x.low);
  pair ln2 = { real(LN2_NEAR), real(LN2_REST) };
  pair v = times_pair(r, ln2);
  series more = series_of(v);
  pair first = sum_pair(real(1), v.high), second = sum_pair(first.high, more.square.high);
  val rest = (first.low + second.low) + (more.square.low + more.small);
  return scaled_by_tag(second.high + rest, tagged);
}

/* |x| to the y; log2 of 0 and of infinity are infinite. */
INLINE val power_of_size(val size, val y)
{
  val top = real((element)INFINITY), far = real(FAR);
  pair log = log2_pair(size);
  log.high = where(size < top, log.high, size);
  log.high = where(size == real(0), real(-(element)INFINITY), log.high);
  /* So that infinity times the 0 that is the logarithm of 1 is 0. */
  y = at_most(at_least(y, -MOST_EXPONENT), MOST_EXPONENT);
  pair whole_log = product_pair(y, log.high);
  val low = fused(y, log.low, whole_log.low);
  mask near = size_of(whole_log.high) < far;
  val high = at_most(at_least(whole_log.high, -FAR), FAR);
  return exp2_pair((pair){ high, where(near, low, real(0)) });
}

/* Gives a power of a number below 0 its sign, and NaN where the exponent is not whole. */
INLINE val with_sign(val x, val y, val power)
{
  val half = y * real(0.5);
  mask whole_y = floor_of(y) == y;
  mask uneven = floor_of(half) != half;
  mask below = (x < real(0)) & (x > real(-(element)INFINITY));
  power = where(is_minus(x) & (whole_y & uneven), -power, power);
  mask broken = below & (floor_of(y) != y);
  return where(broken, real((element)NAN), power);
}

INLINE val pow_of(val x, val y)
{
  val one = real(1), zero = real(0);
  val power = with_sign(x, y, power_of_size(size_of(x), y));
  val root = root_of(x) + zero;
  root = where(x == real(-(element)INFINITY), real((element)INFINITY), root);
  power = where(y == real(2), x * x, power);
  power = where(y == real(0.5), root, power);
  power = where(y == zero, one, power);
  return where(x == one, one, power);
}

TILE_OF_2(pow)

#endif
