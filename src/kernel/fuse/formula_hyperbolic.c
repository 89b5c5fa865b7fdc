/* Functions that are a few exponentials of f64: hyperbolic ones, the logistic function, and the
 * logarithm of a sum of powers. */
#include "kernel/fuse/formula_inner.h"

#include <math.h>

/* exp x / 2 for x beyond where exp ends, as the square of a smaller power. */
static val half_power(tsr__kbuild *b, val x, val power)
{
  val half = real(b, 0.5), root = tsr__formula_exp(b, op2(b, TSR__K_MUL, x, half));
  val far = op2(b, TSR__K_MUL, op2(b, TSR__K_MUL, root, half), root);
  val near = op2(b, TSR__K_MUL, power, half);
  return where(b, test2(b, TSR__K_LT, x, real(b, 709)), near, far);
}

/* Of |x|: up to 1 x + x^3 S(x^2), beyond half of exp |x| less half of its inverse. */
val tsr__formula_sinh(tsr__kbuild *b, val x)
{
  static const double s[] = { /* (sinh x - x) / x^3 in x^2 */
                              0x1.b41232cf9950fp-41, 0x1.611cb330c1fe8p-33, 0x1.ae6460fae3728p-26,
                              0x1.71de3a4e14f40p-19, 0x1.a01a01a01ee70p-13, 0x1.11111111110fdp-7,
                              0x1.5555555555555p-3
  };
  val size = op1(b, TSR__K_ABS, x), square = op2(b, TSR__K_MUL, x, x);
  val near = fused(b, op2(b, TSR__K_MUL, square, size), polynomial(b, square, s, 7), size);
  val power = tsr__formula_exp(b, size);
  val far = op2(b, TSR__K_SUB, half_power(b, size, power), op2(b, TSR__K_DIV, real(b, 0.5), power));
  return with_sign_of(b, where(b, test2(b, TSR__K_LT, size, real(b, 1)), near, far), x);
}

val tsr__formula_cosh(tsr__kbuild *b, val x)
{
  val size = op1(b, TSR__K_ABS, x), power = tsr__formula_exp(b, size);
  return op2(b, TSR__K_ADD, half_power(b, size, power), op2(b, TSR__K_DIV, real(b, 0.5), power));
}

/* 1 / (1 + exp -x), from exp -|x| on both sides. */
val tsr__formula_sigmoid(tsr__kbuild *b, val x)
{
  val one = real(b, 1), size = op1(b, TSR__K_ABS, x);
  val power = tsr__formula_exp(b, op1(b, TSR__K_NEG, size));
  val above = where(b, test2(b, TSR__K_LT, x, real(b, 0)), power, one);
  return op2(b, TSR__K_DIV, above, op2(b, TSR__K_ADD, one, power));
}

/* The larger one and log1p(exp -d), d what they are apart. */
val tsr__formula_logaddexp(tsr__kbuild *b, val x, val y)
{
  val high = op2(b, TSR__K_MAX, x, y), low = op2(b, TSR__K_MIN, x, y);
  val apart = op2(b, TSR__K_SUB, low, high);
  apart = where(b, test2(b, TSR__K_EQ, low, high), real(b, 0), apart); /* two infinities */
  return op2(b, TSR__K_ADD, high, tsr__formula_log1p(b, tsr__formula_exp(b, apart)));
}
