/* Functions of f64 or f32 that are a few exponentials or logarithms: hyperbolic ones and their
 * inverses, the logistic function, and the logarithm of a sum of powers. `sinh_tail` stands before
 * this, and EXP_MOST, up to which exp is a number. */
#ifndef TSR_KERNEL_FORMULA_HYPERBOLIC_H
#define TSR_KERNEL_FORMULA_HYPERBOLIC_H

#include "kernel/tile/formula_inner.h"

/* exp x / 2 for x beyond where exp ends, as the square of a smaller power. */
INLINE val half_power(val x, val power)
{
  val half = real(0.5), root = exp_of(x * half);
  val far = (root * half) * root;
  val near = power * half;
  return where(x < real(EXP_MOST), near, far);
}

/* sinh |x|: up to 1 x + x^3 S(x^2), beyond half of exp |x| less half of its inverse. */
INLINE val sinh_of(val x)
{
  val size = size_of(x), square = x * x;
  val near = fused(square * size, polynomial(square, TABLE(sinh_tail)), size);
  val power = exp_of(size);
  val far = half_power(size, power) - (real(0.5) / power);
  return with_sign_of(where(size < real(1), near, far), x);
}

INLINE val cosh_of(val x)
{
  val size = size_of(x), power = exp_of(size);
  return half_power(size, power) + (real(0.5) / power);
}

/* 1 / (1 + exp -x), from exp -|x| on both sides. */
INLINE val sigmoid_of(val x)
{
  val one = real(1), size = size_of(x);
  val power = exp_of(-size);
  val above = where(x < real(0), power, one);
  return above / (one + power);
}

/* The larger one and log1p(exp -d), d being their distance. The rounding error of d is made good:
 * the farther they are apart the more of it the power would show. */
INLINE val logaddexp_of(val x, val y)
{
  val high = most(x, y), low = least_of_vals(x, y);
  val apart = low - high, back = low - apart;
  val lost = (low - (apart + back)) + (back - high);
  lost = where(size_of(lost) < real(1), lost, real(0)); /* infinities */
  apart = where(low == high, real(0), apart);           /* two of them */
  val power = exp_of(apart);
  return high + log1p_of(fused(power, lost, power));
}

/* log1p of `x` + `more`, and where x is not below 2^60 the log of 2 x. */
INLINE val log_of_sum(val x, val more)
{
  mask near = x < real(0x1p60f);
  val zero = real(0);
  val log = log1p_of(x + where(near, more, zero));
  return log + where(near, zero, real(LN2_HIGH + LN2_LOW));
}

/* asinh |x| is log1p(|x| + x^2 / (1 + sqrt(1 + x^2))). */
INLINE val asinh_of(val x)
{
  val one = real(1), square = x * x;
  val root = root_of(square + one);
  val more = square / (one + root);
  return with_sign_of(log_of_sum(size_of(x), more), x);
}

/* With t = x - 1 it is log1p(t + sqrt(2 t + t^2)). */
INLINE val acosh_of(val x)
{
  val one = real(1), t = x - one;
  val root = root_of(fused(t, t, t + t));
  mask inside = x >= one;
  return where(inside, log_of_sum(t, root), real((element)NAN));
}

/* atanh |x| is log1p(2 |x| / (1 - |x|)) / 2. */
INLINE val atanh_of(val x)
{
  val size = size_of(x), rest = real(1) - size;
  val ratio = (size + size) / rest;
  val half = log1p_of(ratio) * real(0.5);
  half = where(size < real(0x1p-60f), size, half);
  return with_sign_of(half, x);
}

TILE_OF_1(sinh)
TILE_OF_1(cosh)
TILE_OF_1(asinh)
TILE_OF_1(acosh)
TILE_OF_1(atanh)
TILE_OF_1(sigmoid)
TILE_OF_2(logaddexp)

#endif
