/* Inside formula*.c: instructions on f64 values by short names. */
#ifndef TSR_KERNEL_FORMULA_INNER_H
#define TSR_KERNEL_FORMULA_INNER_H

#include "kernel/fuse/kir.h"

#define WHOLE 0x1.8p52 /* added to a small number, leaves its nearest integer in the low bits */

typedef tsr__kval val;

/* The sum of two, the second far smaller than the first. */
typedef struct pair {
  val high, low;
} pair;

/* x as 2^k (1 + m), m from sqrt 1/2 - 1 on and below sqrt 2 - 1. */
typedef struct split {
  val k, m;
} split;

static inline val real(tsr__kbuild *b, double value)
{
  return tsr__kbuild_const_f(b, TSR_F64, value);
}

static inline val whole(tsr__kbuild *b, int64_t value)
{
  return tsr__kbuild_const_i(b, TSR_I64, value);
}

static inline val op2(tsr__kbuild *b, tsr__kop op, val x, val y)
{
  return tsr__kbuild_op(b, op, TSR_F64, TSR_F64, (val[]){ x, y });
}

/* On the bits of numbers. */
static inline val bit2(tsr__kbuild *b, tsr__kop op, val x, val y)
{
  return tsr__kbuild_op(b, op, TSR_I64, TSR_I64, (val[]){ x, y });
}

static inline val test2(tsr__kbuild *b, tsr__kop op, val x, val y)
{
  return tsr__kbuild_op(b, op, TSR_F64, TSR_BOOL, (val[]){ x, y });
}

static inline val fused(tsr__kbuild *b, val x, val y, val z)
{
  return tsr__kbuild_op(b, TSR__K_FMA, TSR_F64, TSR_F64, (val[]){ x, y, z });
}

static inline val where(tsr__kbuild *b, val condition, val x, val y)
{
  return tsr__kbuild_op(b, TSR__K_WHERE, TSR_F64, TSR_F64, (val[]){ condition, x, y });
}

/* A polynomial, highest coefficient first. */
static inline val polynomial(tsr__kbuild *b, val x, const double *coefficient, int count)
{
  val sum = real(b, coefficient[0]);
  for (int i = 1; i < count; i++) sum = fused(b, x, sum, real(b, coefficient[i]));
  return sum;
}

/* Of a number above 0, which may be denormal. */
split tsr__formula_split(tsr__kbuild *b, val x);
/* y 2^k for the integer k in the low bits of `tagged`, |k| <= 1200. */
val tsr__formula_scale(tsr__kbuild *b, val y, val tagged);

static inline val op1(tsr__kbuild *b, tsr__kop op, val x)
{
  return tsr__kbuild_op(b, op, TSR_F64, TSR_F64, &x);
}

/* Whether the sign is -, of 0 and NaN too. */
static inline val is_minus(tsr__kbuild *b, val x)
{
  return tsr__kbuild_op(b, TSR__K_LT, TSR_I64, TSR_BOOL, (val[]){ x, whole(b, 0) });
}

static inline val with_sign_of(tsr__kbuild *b, val size, val x)
{
  return where(b, is_minus(b, x), op1(b, TSR__K_NEG, size), size);
}

#endif
