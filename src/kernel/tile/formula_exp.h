/* exp, log and log1p of f64, which other functions are made of (formula_*_tile.c).
 *
 * Coefficients: Chebyshev interpolation of the function named beside them, in 70 digits, rounded.
 * Errors are measured against 60-digit arithmetic (tests/unit/kernel/formula_test.c) and stated in
 * docs/NUMERICS.md. */
#ifndef TSR_KERNEL_FORMULA_EXP_H
#define TSR_KERNEL_FORMULA_EXP_H

#include "kernel/tile/formula_inner.h"

/* ln 2 in two parts; multiples of the first by up to 11 bits are exact. */
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define LOG2_E 0x1.71547652b82fep+0

/* exp x = 2^k exp r with |r| <= ln 2 / 2; exp r = 1 + r + r^2 q(r) = first + rest, summed so that
 * only the last addition, which is left to who asks, rounds visibly. */
typedef struct exp_parts {
  val first, rest;
  val tagged; /* k, for scaled_by_tag */
} exp_parts;

INLINE exp_parts parts_of_exp(val x)
{
  static const double q[] = { /* (exp r - 1 - r) / r^2 */
                              0x1.1f731ea5352cap-29,
                              0x1.af4e196027428p-26,
                              0x1.27e4db57442fbp-22,
                              0x1.71de021a90822p-19,
                              0x1.a01a01a6dcaffp-16,
                              0x1.a01a01abef415p-13,
                              0x1.6c16c16c162ccp-10,
                              0x1.11111111100cep-7,
                              0x1.5555555555556p-5,
                              0x1.5555555555557p-3,
                              0x1.0p-1
  };
  val near = at_most(at_least(x, -746), 710);
  val tagged = fused(near, real(LOG2_E), real(WHOLE));
  val k = tagged - real(WHOLE);
  val high = fused(k, real(-LN2_HIGH), near);
  val low = k * real(LN2_LOW);
  val r = high - low;
  val lost = (high - r) - low;
  val rest = fused(r * r, polynomial(r, q, 11), lost);
  val one = real(1);
  val first = one + r;
  val second = (one - first) + r;
  return (exp_parts){ first, second + rest, tagged };
}

INLINE val exp_of(val x)
{
  exp_parts p = parts_of_exp(x);
  return scaled_by_tag(p.first + p.rest, p.tagged);
}

/* exp(x + more), `more` being the rounding error of x: exp x times 1 + more, rounded once. */
INLINE val exp_sum(val x, val more)
{
  exp_parts p = parts_of_exp(x);
  return scaled_by_tag(p.first + fused(more, p.first + p.rest, p.rest), p.tagged);
}

/* L(z) of log_sum. */
INLINE val atanh_tail(val z)
{
  static const double l[] = { /* (2 atanh s - 2 s) / (s z) */
                              0x1.2b5f68a50d903p-3, 0x1.39fdcceb4bb45p-3, 0x1.7462b91b8df65p-3,
                              0x1.c71c62d5e53e0p-3, 0x1.2492492dfd86cp-2, 0x1.9999999995273p-2,
                              0x1.5555555555558p-1
  };
  return polynomial(z, l, 7);
}

/* k ln 2 + log(1 + f) + c for f in [sqrt 1/2 - 1, sqrt 2 - 1) and a small c. With s = f / (2 + f):
 * log(1 + f) = 2 atanh s = f - f^2/2 + s (f^2/2 + z L(z)), z = s^2. */
INLINE val log_sum(val k, val f, val c)
{
  val half_square = (f * real(0.5)) * f;
  val s = f / (f + real(2));
  val z = s * s;
  val sum = fused(z, atanh_tail(z), half_square);
  val small = fused(s, sum, fused(k, real(LN2_LOW), c));
  val rest = half_square - small;
  return fused(k, real(LN2_HIGH), f - rest);
}

#include "kernel/tile/formula_log.h"

#endif
