/* x to the y, 2 to the x and e to the x less 1 of f64 as instructions. A power is 2 to the y
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
#include "kernel/fuse/formula_inner.h"

#include <math.h>

static val add(tsr__kbuild *b, val x, val y)
{
  return op2(b, TSR__K_ADD, x, y);
}

static val sub(tsr__kbuild *b, val x, val y)
{
  return op2(b, TSR__K_SUB, x, y);
}

static val mul(tsr__kbuild *b, val x, val y)
{
  return op2(b, TSR__K_MUL, x, y);
}

/* The exact sum of numbers of which the first is the larger one, or 0. */
static pair sum_of(tsr__kbuild *b, val x, val y)
{
  val high = add(b, x, y);
  return (pair){ high, add(b, sub(b, x, high), y) };
}

/* The exact product. */
static pair product_of(tsr__kbuild *b, val x, val y)
{
  val high = mul(b, x, y);
  return (pair){ high, fused(b, x, y, op1(b, TSR__K_NEG, high)) };
}

static pair times(tsr__kbuild *b, pair x, pair y)
{
  pair out = product_of(b, x.high, y.high);
  out.low = add(b, out.low, fused(b, x.high, y.low, mul(b, x.low, y.high)));
  return out;
}

/* x, which is larger, and y. */
static pair plus(tsr__kbuild *b, pair x, pair y)
{
  pair out = sum_of(b, x.high, y.high);
  out.low = add(b, out.low, add(b, x.low, y.low));
  return out;
}

/* (m - 1) / (m + 1). */
static pair ratio(tsr__kbuild *b, val less_one)
{
  val two = real(b, 2);
  pair below = sum_of(b, two, less_one);
  val high = op2(b, TSR__K_DIV, less_one, below.high);
  val minus = op1(b, TSR__K_NEG, high);
  val rest = fused(b, minus, below.low, fused(b, minus, below.high, less_one));
  return (pair){ high, op2(b, TSR__K_DIV, rest, below.high) };
}

/* log2 of a number above 0. */
static pair log2_pair(tsr__kbuild *b, val x)
{
  static const double t[] = { /* (atanh s / s - 1 - z/3 - z^2/5) / z^3 in z = s^2 */
                              0x1.b2e0d3d39579dp-5, 0x1.acf8448fd9b6bp-5, 0x1.e1effabc4b110p-5,
                              0x1.1110f80547522p-4, 0x1.3b13b16b4b833p-4, 0x1.745d1745a3ef0p-4,
                              0x1.c71c71c71c822p-4, 0x1.2492492492492p-3
  };
  split parts = tsr__formula_split(b, x);
  pair s = ratio(b, parts.m), z = times(b, s, s);
  pair fifth = { real(b, 0x1.999999999999ap-3), real(b, -0x1.999999999999ap-57) };
  pair third = { real(b, 0x1.5555555555555p-2), real(b, 0x1.5555555555555p-56) };
  pair scale = { real(b, 0x1.71547652b82fep+1), real(b, 0x1.777d0ffda0d24p-55) };
  pair tail = { mul(b, z.high, polynomial(b, z.high, t, 8)), real(b, 0) };
  pair sum = plus(b, third, times(b, z, plus(b, fifth, tail)));
  pair twice = times(b, s, scale);
  pair log = plus(b, twice, times(b, twice, times(b, z, sum)));
  return plus(b, (pair){ parts.k, real(b, 0) }, log);
}

/* v + v^2/2 + v^3 E(v) for |v| <= ln 2 / 2, the first two apart from what is small beside them. */
typedef struct series {
  pair square;
  val small;
} series;

static series series_of(tsr__kbuild *b, pair v)
{
  static const double e[] = { /* (exp v - 1 - v - v^2/2) / v^3 */
                              0x1.1f6717774d5e0p-29, 0x1.af390ba7e6f47p-26, 0x1.27e4e1dcf773bp-22,
                              0x1.71de0d85293b8p-19, 0x1.a01a01a48116fp-16, 0x1.a01a01a7cebcdp-13,
                              0x1.6c16c16c167dap-10, 0x1.11111111109a6p-7,  0x1.5555555555555p-5,
                              0x1.5555555555556p-3
  };
  val cube = mul(b, mul(b, v.high, v.high), v.high);
  return (series){ product_of(b, mul(b, v.high, real(b, 0.5)), v.high),
                   fused(b, cube, polynomial(b, v.high, e, 10), fused(b, v.low, v.high, v.low)) };
}

/* 2 to a sum of two within +-1100. */
static val exp2_pair(tsr__kbuild *b, pair x)
{
  val tagged = add(b, x.high, real(b, WHOLE));
  /* What x.low can be beside is a multiple of twice its size, or 0. */
  pair r = sum_of(b, sub(b, x.high, sub(b, tagged, real(b, WHOLE))), x.low);
  pair ln2 = { real(b, 0x1.62e42fefa39efp-1), real(b, 0x1.abc9e3b39803fp-56) };
  pair v = times(b, r, ln2);
  series more = series_of(b, v);
  pair first = sum_of(b, real(b, 1), v.high), second = sum_of(b, first.high, more.square.high);
  val rest = add(b, add(b, first.low, second.low), add(b, more.square.low, more.small));
  return tsr__formula_scale(b, add(b, second.high, rest), tagged);
}

/* |x| to the y; log2 of 0 and of infinity are infinite. */
static val power_of_size(tsr__kbuild *b, val size, val y)
{
  val top = real(b, (double)INFINITY), far = real(b, 1100), huge = real(b, 1e300);
  pair log = log2_pair(b, size);
  log.high = where(b, test2(b, TSR__K_LT, size, top), log.high, size);
  log.high = where(b, test2(b, TSR__K_EQ, size, real(b, 0)), real(b, -(double)INFINITY), log.high);
  /* So that infinity times the 0 that is the logarithm of 1 is 0. */
  y = op2(b, TSR__K_MAX, op2(b, TSR__K_MIN, y, huge), real(b, -1e300));
  pair whole_log = product_of(b, y, log.high);
  val low = fused(b, y, log.low, whole_log.low);
  val near = test2(b, TSR__K_LT, op1(b, TSR__K_ABS, whole_log.high), far);
  val high = op2(b, TSR__K_MAX, op2(b, TSR__K_MIN, whole_log.high, far), real(b, -1100));
  return exp2_pair(b, (pair){ high, where(b, near, low, real(b, 0)) });
}

static val both(tsr__kbuild *b, val x, val y)
{
  return tsr__kbuild_op(b, TSR__K_AND, TSR_BOOL, TSR_BOOL, (val[]){ x, y });
}

/* The sign that a power of a number below 0 has, and none where its exponent is not whole. */
static val with_sign(tsr__kbuild *b, val x, val y, val power)
{
  val half = mul(b, y, real(b, 0.5));
  val whole_y = test2(b, TSR__K_EQ, op1(b, TSR__K_FLOOR, y), y);
  val uneven = test2(b, TSR__K_NE, op1(b, TSR__K_FLOOR, half), half);
  val below = both(b, test2(b, TSR__K_LT, x, real(b, 0)),
                   test2(b, TSR__K_GT, x, real(b, -(double)INFINITY)));
  power =
      where(b, both(b, is_minus(b, x), both(b, whole_y, uneven)), op1(b, TSR__K_NEG, power), power);
  val broken = both(b, below, test2(b, TSR__K_NE, op1(b, TSR__K_FLOOR, y), y));
  return where(b, broken, real(b, (double)NAN), power);
}

val tsr__formula_pow(tsr__kbuild *b, val x, val y)
{
  val one = real(b, 1), zero = real(b, 0);
  val power = with_sign(b, x, y, power_of_size(b, op1(b, TSR__K_ABS, x), y));
  val root = add(b, op1(b, TSR__K_SQRT, x), zero);
  root =
      where(b, test2(b, TSR__K_EQ, x, real(b, -(double)INFINITY)), real(b, (double)INFINITY), root);
  power = where(b, test2(b, TSR__K_EQ, y, real(b, 2)), mul(b, x, x), power);
  power = where(b, test2(b, TSR__K_EQ, y, real(b, 0.5)), root, power);
  power = where(b, test2(b, TSR__K_EQ, y, zero), one, power);
  return where(b, test2(b, TSR__K_EQ, x, one), one, power);
}

val tsr__formula_exp2(tsr__kbuild *b, val x)
{
  val near = op2(b, TSR__K_MAX, op2(b, TSR__K_MIN, x, real(b, 1100)), real(b, -1100));
  return exp2_pair(b, (pair){ near, real(b, 0) });
}

/* The series without its 1 where that is near, else exp less 1. */
val tsr__formula_expm1(tsr__kbuild *b, val x)
{
  val zero = real(b, 0);
  val is_near = test2(b, TSR__K_LT, op1(b, TSR__K_ABS, x), real(b, 0.3465));
  series more = series_of(b, (pair){ x, zero });
  pair sum = sum_of(b, x, more.square.high);
  val near = add(b, sum.high, add(b, sum.low, add(b, more.square.low, more.small)));
  near = where(b, test2(b, TSR__K_EQ, x, zero), x, near); /* -0 stays */
  return where(b, is_near, near, sub(b, tsr__formula_exp(b, x), real(b, 1)));
}
