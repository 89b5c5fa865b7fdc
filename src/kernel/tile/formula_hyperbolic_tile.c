/* Functions that are a few exponentials of f64: hyperbolic ones, the logistic function, and the
 * logarithm of a sum of powers. */
#include "kernel/tile/formula_exp.h"

/* exp x / 2 for x beyond where exp ends, as the square of a smaller power. */
INLINE val half_power(val x, val power)
{
  val half = real(0.5), root = exp_of(x * half);
  val far = (root * half) * root;
  val near = power * half;
  return where(x < real(709), near, far);
}

/* Of |x|: up to 1 x + x^3 S(x^2), beyond half of exp |x| less half of its inverse. */
INLINE val sinh_of(val x)
{
  static const double s[] = { /* (sinh x - x) / x^3 in x^2 */
                              0x1.b41232cf9950fp-41, 0x1.611cb330c1fe8p-33, 0x1.ae6460fae3728p-26,
                              0x1.71de3a4e14f40p-19, 0x1.a01a01a01ee70p-13, 0x1.11111111110fdp-7,
                              0x1.5555555555555p-3
  };
  val size = size_of(x), square = x * x;
  val near = fused(square * size, polynomial(square, s, 7), size);
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

/* The larger one and log1p(exp -d), d what they are apart. */
INLINE val logaddexp_of(val x, val y)
{
  val high = most(x, y), low = least(x, y);
  val apart = low - high;
  apart = where(low == high, real(0), apart); /* two infinities */
  return high + log1p_of(exp_of(apart));
}

TILE_OF_1(sinh)
TILE_OF_1(cosh)
TILE_OF_1(sigmoid)
TILE_OF_2(logaddexp)
