/* Powers of f64 (formula_pow.h), and 2 to the x and e to the x less 1, which have the same
 * series. */
#include "kernel/tile/formula_exp.h"

#define LN2_NEAR 0x1.62e42fefa39efp-1
#define LN2_REST 0x1.abc9e3b39803fp-56
#define LOG2_E_HIGH 0x1.71547652b82fep+0
#define LOG2_E_LOW 0x1.777d0ffda0d24p-56
#define FIFTH_HIGH 0x1.999999999999ap-3
#define FIFTH_LOW -0x1.999999999999ap-57
#define THIRD_HIGH 0x1.5555555555555p-2
#define THIRD_LOW 0x1.5555555555555p-56
#define FAR 1100
#define MOST_EXPONENT 1e300

/* (atanh s / s - 1 - z/3 - z^2/5) / z^3 in z = s^2 */
static const double atanh_tail5[] = { 0x1.b2e0d3d39579dp-5, 0x1.acf8448fd9b6bp-5,
                                      0x1.e1effabc4b110p-5, 0x1.1110f80547522p-4,
                                      0x1.3b13b16b4b833p-4, 0x1.745d1745a3ef0p-4,
                                      0x1.c71c71c71c822p-4, 0x1.2492492492492p-3 };

/* (exp v - 1 - v - v^2/2) / v^3 */
static const double exp_tail3[] = { 0x1.1f6717774d5e0p-29, 0x1.af390ba7e6f47p-26,
                                    0x1.27e4e1dcf773bp-22, 0x1.71de0d85293b8p-19,
                                    0x1.a01a01a48116fp-16, 0x1.a01a01a7cebcdp-13,
                                    0x1.6c16c16c167dap-10, 0x1.11111111109a6p-7,
                                    0x1.5555555555555p-5,  0x1.5555555555556p-3 };

#include "kernel/tile/formula_pow.h"

INLINE val exp2_of(val x)
{
  val near = at_most(at_least(x, -FAR), FAR);
  return exp2_pair((pair){ near, real(0) });
}

/* The series without its 1 where that is near, else exp less 1. */
INLINE val expm1_of(val x)
{
  val zero = real(0);
  mask is_near = size_of(x) < real(0.3465);
  series more = series_of((pair){ x, zero });
  pair sum = sum_pair(x, more.square.high);
  val near = sum.high + (sum.low + (more.square.low + more.small));
  near = where(x == zero, x, near); /* -0 stays */
  return where(is_near, near, exp_of(x) - real(1));
}

TILE_OF_1(exp2)
TILE_OF_1(expm1)
