/* exp, log and log1p of f32, which other functions are made of (formula_*_f32_tile.c).
 *
 * All of it is f32. A sum of two or three f32 is taken off an argument, each multiplied and taken
 * off in one rounding, so that the rest is as exact as its own bits. Polynomials are those of
 * scripts/formulas.py. `make ulp` looks at every f32; docs/NUMERICS.md states the largest
 * errors. */
#ifndef TSR_KERNEL_FORMULA_F32_H
#define TSR_KERNEL_FORMULA_F32_H

#define FORMULA_F32
#include "kernel/tile/formula_f32_tables.h"
#include "kernel/tile/formula_inner.h"

/* x = k ln 2 + r, |r| <= ln 2 / 2; `tagged` is k + WHOLE. */
typedef struct parted {
  val r, tagged;
} parted;

INLINE parted power_of(val x)
{
  val tagged = fused(x, real(LOG2_E_HIGH), real(WHOLE));
  val k = tagged - real(WHOLE);
  val r = fused(k, real(-LN2_HIGH), x);
  return (parted){ fused(k, real(-LN2_LOW), r), tagged };
}

/* y 2^k exp r, the product y (exp r - 1) added to y: one rounding less than a product. */
INLINE val exp_times(parted p, val y)
{
  val rest = fused(p.r * p.r, polynomial(p.r, TABLE(exp_tail)), p.r);
  return scaled_by_tag(fused(y, rest, y), p.tagged);
}

INLINE val exp_of(val x)
{
  return exp_times(power_of(at_most(at_least(x, -104), 89)), real(1));
}

/* exp r - 1. */
INLINE val less_one(val r)
{
  return fused(r * r, polynomial(r, TABLE(expm1_tail)), r);
}

/* log(1 + f) - f, and more that is small. */
INLINE val log_rest(val f, val more)
{
  val square = f * f;
  more = fused(square, real(-0.5f), more);
  return fused(square * f, polynomial(f, TABLE(log_tail)), more);
}

INLINE val log_sum(val k, val f, val c)
{
  val rest = log_rest(f, fused(k, real(LN2_LOW), c));
  return fused(k, real(LN2_HIGH), f + rest);
}

#include "kernel/tile/formula_log.h"

#endif
