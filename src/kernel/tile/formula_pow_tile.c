/* x to the y, 2 to the x and e to the x less 1 of f64. A power is 2 to the y
 * log2 |x|, logarithm and product in two parts with some 70 bits together, so that what is rounded
 * visibly is the last addition only.
 *
 *   |x| = 2^k m     s = (m - 1) / (m + 1), z = s^2
 *   log2 |x| = k + 2 / ln 2 (s + s z (1/3 + z (1/5 + z T(z))))
 *   y log2 |x| = n + r, n whole
 *   result = 2^n e^v, v = r ln 2:  1 + v + v^2/2 + v^3 E(v)
 *
 * An exponent of 2 is one product and one of 0.5 one root. Numbers that have no logarithm, signs
 * and exponents without end are as C11's Annex F has them. */
#include "kernel/tile/formula_exp.h"

/* The exact sum of numbers of which the first is the larger one, or 0. */
INLINE pair sum_of(val x, val y)
{
  val high = x + y;
  return (pair){ high, (x - high) + y };
}

/* The exact product. */
INLINE pair product_of(val x, val y)
{
  val high = x * y;
  return (pair){ high, fused(x, y, -high) };
}

INLINE pair times(pair x, pair y)
{
  pair out = product_of(x.high, y.high);
  out.low = out.low + fused(x.high, y.low, x.low * y.high);
  return out;
}

/* x, which is larger, and y. */
INLINE pair plus(pair x, pair y)
{
  pair out = sum_of(x.high, y.high);
  out.low = out.low + (x.low + y.low);
  return out;
}

/* (m - 1) / (m + 1). */
INLINE pair ratio(val less_one)
{
  val two = real(2);
  pair below = sum_of(two, less_one);
  val high = less_one / below.high;
  val minus = -high;
  val rest = fused(minus, below.low, fused(minus, below.high, less_one));
  return (pair){ high, rest / below.high };
}

/* log2 of a number above 0. */
INLINE pair log2_pair(val x)
{
  static const double t[] = { /* (atanh s / s - 1 - z/3 - z^2/5) / z^3 in z = s^2 */
                              0x1.b2e0d3d39579dp-5, 0x1.acf8448fd9b6bp-5, 0x1.e1effabc4b110p-5,
                              0x1.1110f80547522p-4, 0x1.3b13b16b4b833p-4, 0x1.745d1745a3ef0p-4,
                              0x1.c71c71c71c822p-4, 0x1.2492492492492p-3
  };
  split parts = split_of(x);
  pair s = ratio(parts.m), z = times(s, s);
  pair fifth = { real(0x1.999999999999ap-3), real(-0x1.999999999999ap-57) };
  pair third = { real(0x1.5555555555555p-2), real(0x1.5555555555555p-56) };
  pair scale = { real(0x1.71547652b82fep+1), real(0x1.777d0ffda0d24p-55) };
  pair tail = { z.high * polynomial(z.high, t, 8), real(0) };
  pair sum = plus(third, times(z, plus(fifth, tail)));
  pair twice = times(s, scale);
  pair log = plus(twice, times(twice, times(z, sum)));
  return plus((pair){ parts.k, real(0) }, log);
}

/* v + v^2/2 + v^3 E(v) for |v| <= ln 2 / 2, the first two apart from what is small beside them. */
typedef struct series {
  pair square;
  val small;
} series;

INLINE series series_of(pair v)
{
  static const double e[] = { /* (exp v - 1 - v - v^2/2) / v^3 */
                              0x1.1f6717774d5e0p-29, 0x1.af390ba7e6f47p-26, 0x1.27e4e1dcf773bp-22,
                              0x1.71de0d85293b8p-19, 0x1.a01a01a48116fp-16, 0x1.a01a01a7cebcdp-13,
                              0x1.6c16c16c167dap-10, 0x1.11111111109a6p-7,  0x1.5555555555555p-5,
                              0x1.5555555555556p-3
  };
  val cube = (v.high * v.high) * v.high;
  return (series){ product_of(v.high * real(0.5), v.high),
                   fused(cube, polynomial(v.high, e, 10), fused(v.low, v.high, v.low)) };
}

/* 2 to a sum of two within +-1100. */
INLINE val exp2_pair(pair x)
{
  val tagged = x.high + real(WHOLE);
  /* What x.low can be beside is a multiple of twice its size, or 0. */
  pair r = sum_of(x.high - (tagged - real(WHOLE)), x.low);
  pair ln2 = { real(0x1.62e42fefa39efp-1), real(0x1.abc9e3b39803fp-56) };
  pair v = times(r, ln2);
  series more = series_of(v);
  pair first = sum_of(real(1), v.high), second = sum_of(first.high, more.square.high);
  val rest = (first.low + second.low) + (more.square.low + more.small);
  return scale_of(second.high + rest, tagged);
}

/* |x| to the y; log2 of 0 and of infinity are infinite. */
INLINE val power_of_size(val size, val y)
{
  val top = real((double)INFINITY), far = real(1100), huge = real(1e300);
  pair log = log2_pair(size);
  log.high = where(size < top, log.high, size);
  log.high = where(size == real(0), real(-(double)INFINITY), log.high);
  /* So that infinity times the 0 that is the logarithm of 1 is 0. */
  y = most(least(y, huge), real(-1e300));
  pair whole_log = product_of(y, log.high);
  val low = fused(y, log.low, whole_log.low);
  mask near = size_of(whole_log.high) < far;
  val high = most(least(whole_log.high, far), real(-1100));
  return exp2_pair((pair){ high, where(near, low, real(0)) });
}

/* The sign that a power of a number below 0 has, and none where its exponent is not whole. */
INLINE val with_sign(val x, val y, val power)
{
  val half = y * real(0.5);
  mask whole_y = floor_of(y) == y;
  mask uneven = floor_of(half) != half;
  mask below = (x < real(0)) & (x > real(-(double)INFINITY));
  power = where(is_minus(x) & (whole_y & uneven), -power, power);
  mask broken = below & (floor_of(y) != y);
  return where(broken, real((double)NAN), power);
}

INLINE val pow_of(val x, val y)
{
  val one = real(1), zero = real(0);
  val power = with_sign(x, y, power_of_size(size_of(x), y));
  val root = root_of(x) + zero;
  root = where(x == real(-(double)INFINITY), real((double)INFINITY), root);
  power = where(y == real(2), x * x, power);
  power = where(y == real(0.5), root, power);
  power = where(y == zero, one, power);
  return where(x == one, one, power);
}

INLINE val exp2_of(val x)
{
  val near = most(least(x, real(1100)), real(-1100));
  return exp2_pair((pair){ near, real(0) });
}

/* The series without its 1 where that is near, else exp less 1. */
INLINE val expm1_of(val x)
{
  val zero = real(0);
  mask is_near = size_of(x) < real(0.3465);
  series more = series_of((pair){ x, zero });
  pair sum = sum_of(x, more.square.high);
  val near = sum.high + (sum.low + (more.square.low + more.small));
  near = where(x == zero, x, near); /* -0 stays */
  return where(is_near, near, exp_of(x) - real(1));
}

TILE_OF_1(exp2)
TILE_OF_1(expm1)
TILE_OF_2(pow)
