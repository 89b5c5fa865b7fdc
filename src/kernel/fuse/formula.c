/* exp, logarithms and tanh of f64 as instructions: exact steps and polynomials, every fma named, so
 * all instruction sets give the same bits. f32 is computed through f64 and rounded. Sines are in
 * formula_trig.c, powers in formula_pow.c.
 *
 * Coefficients: Chebyshev interpolation of the function named beside them, in 70 digits, rounded.
 * Errors are measured against long double (tests/unit/formula_test.c) and stated in
 * docs/NUMERICS.md. */
#include "kernel/fuse/formula_inner.h"

#include <math.h>

/* ln 2 in two parts; multiples of the first by up to 11 bits are exact. */
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define LOG2_E 0x1.71547652b82fep+0

/* 2^k for the integer in the low bits of `k`, where that is a normal number. */
static val power_of_two(tsr__kbuild *b, val k)
{
  return bit2(b, TSR__K_SHL, bit2(b, TSR__K_ADD, k, whole(b, 1023)), whole(b, 52));
}

/* 2^k is applied in two halves: results below 2^-1022 round once more. */
val tsr__formula_scale(tsr__kbuild *b, val y, val tagged)
{
  val high = bit2(b, TSR__K_SHL, tagged, whole(b, 13));
  val half = bit2(b, TSR__K_SAR, high, whole(b, 14));
  val other = bit2(b, TSR__K_SUB, bit2(b, TSR__K_SAR, high, whole(b, 13)), half);
  return op2(b, TSR__K_MUL, op2(b, TSR__K_MUL, y, power_of_two(b, half)), power_of_two(b, other));
}

/* exp x = 2^k exp r with |r| <= ln 2 / 2; exp r = 1 + r + r^2 q(r), summed so that only the
 * last addition rounds visibly. */
val tsr__formula_exp(tsr__kbuild *b, val x)
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
  val near = op2(b, TSR__K_MIN, op2(b, TSR__K_MAX, x, real(b, -746)), real(b, 710));
  val tagged = fused(b, near, real(b, LOG2_E), real(b, WHOLE));
  val k = op2(b, TSR__K_SUB, tagged, real(b, WHOLE));
  val high = fused(b, k, real(b, -LN2_HIGH), near);
  val low = op2(b, TSR__K_MUL, k, real(b, LN2_LOW));
  val r = op2(b, TSR__K_SUB, high, low);
  val lost = op2(b, TSR__K_SUB, op2(b, TSR__K_SUB, high, r), low);
  val rest = fused(b, op2(b, TSR__K_MUL, r, r), polynomial(b, r, q, 11), lost);
  val one = real(b, 1);
  val first = op2(b, TSR__K_ADD, one, r);
  val second = op2(b, TSR__K_ADD, op2(b, TSR__K_SUB, one, first), r);
  val y = op2(b, TSR__K_ADD, first, op2(b, TSR__K_ADD, second, rest));
  return tsr__formula_scale(b, y, tagged);
}

/* x = 2^k m with m in [sqrt 1/2, sqrt 2). */
static split split_number(tsr__kbuild *b, val x)
{
  val root = whole(b, 0x3fe6a09e667f3bcd); /* bits of sqrt 1/2 */
  val k = bit2(b, TSR__K_SAR, bit2(b, TSR__K_SUB, x, root), whole(b, 52));
  val m = bit2(b, TSR__K_SUB, x, bit2(b, TSR__K_SHL, k, whole(b, 52)));
  return (split){ tsr__kbuild_op(b, TSR__K_TO_F64, TSR_I64, TSR_F64, &k), m };
}

/* L(z) of log_sum. */
static val atanh_tail(tsr__kbuild *b, val z)
{
  static const double l[] = { /* (2 atanh s - 2 s) / (s z) */
                              0x1.2b5f68a50d903p-3, 0x1.39fdcceb4bb45p-3, 0x1.7462b91b8df65p-3,
                              0x1.c71c62d5e53e0p-3, 0x1.2492492dfd86cp-2, 0x1.9999999995273p-2,
                              0x1.5555555555558p-1
  };
  return polynomial(b, z, l, 7);
}

/* k ln 2 + log(1 + f) + c for f in [sqrt 1/2 - 1, sqrt 2 - 1) and a small c. With s = f / (2 + f):
 * log(1 + f) = 2 atanh s = f - f^2/2 + s (f^2/2 + z L(z)), z = s^2. */
static val log_sum(tsr__kbuild *b, val k, val f, val c)
{
  val half_square = op2(b, TSR__K_MUL, op2(b, TSR__K_MUL, f, real(b, 0.5)), f);
  val s = op2(b, TSR__K_DIV, f, op2(b, TSR__K_ADD, f, real(b, 2)));
  val z = op2(b, TSR__K_MUL, s, s);
  val sum = fused(b, z, atanh_tail(b, z), half_square);
  val small = fused(b, s, sum, fused(b, k, real(b, LN2_LOW), c));
  val rest = op2(b, TSR__K_SUB, half_square, small);
  return fused(b, k, real(b, LN2_HIGH), op2(b, TSR__K_SUB, f, rest));
}

/* log(1 + f) of log_sum in two parts, whose sum has some 10 bits more than f64. */
static pair log_pair(tsr__kbuild *b, val f)
{
  val half_square = op2(b, TSR__K_MUL, op2(b, TSR__K_MUL, f, real(b, 0.5)), f);
  val s = op2(b, TSR__K_DIV, f, op2(b, TSR__K_ADD, f, real(b, 2)));
  val z = op2(b, TSR__K_MUL, s, s);
  val rest = op2(b, TSR__K_MUL, s, fused(b, z, atanh_tail(b, z), half_square));
  val high = op2(b, TSR__K_SUB, f, half_square);
  val lost = op2(b, TSR__K_SUB, op2(b, TSR__K_SUB, f, high), half_square);
  return (pair){ high, op2(b, TSR__K_ADD, lost, rest) };
}

/* Replaces the result where x is 0 (`at`: the number whose log is infinite), negative beyond it,
 * infinite or NaN. */
static val log_ends(tsr__kbuild *b, val x, double at, val result)
{
  val edge = real(b, at), top = real(b, (double)INFINITY);
  result = where(b, test2(b, TSR__K_LT, x, top), result, x);
  result = where(b, test2(b, TSR__K_EQ, x, edge), real(b, -(double)INFINITY), result);
  return where(b, test2(b, TSR__K_LT, x, edge), real(b, (double)NAN), result);
}

split tsr__formula_split(tsr__kbuild *b, val x)
{
  val tiny = test2(b, TSR__K_LT, x, real(b, 0x1p-1022));
  val up = where(b, tiny, op2(b, TSR__K_MUL, x, real(b, 0x1p54)), x);
  split parts = split_number(b, up);
  parts.k = where(b, tiny, op2(b, TSR__K_SUB, parts.k, real(b, 54)), parts.k);
  parts.m = op2(b, TSR__K_SUB, parts.m, real(b, 1));
  return parts;
}

val tsr__formula_log(tsr__kbuild *b, val x)
{
  split parts = tsr__formula_split(b, x);
  return log_ends(b, x, 0, log_sum(b, parts.k, parts.m, real(b, 0)));
}

/* To another base: k times log 2 in two parts (the first times k is exact) and the log times
 * 1 / ln base in two parts. The larger of what is added comes first. */
typedef struct base {
  double two_high, two_low, scale, scale_low;
} base;

static val log_base(tsr__kbuild *b, val x, const base *to)
{
  split parts = tsr__formula_split(b, x);
  pair log = log_pair(b, parts.m);
  val scale = real(b, to->scale);
  val main = op2(b, TSR__K_MUL, log.high, scale);
  val low = fused(b, log.high, scale, op1(b, TSR__K_NEG, main)); /* what rounding cut off */
  low = fused(b, op2(b, TSR__K_ADD, log.high, log.low), real(b, to->scale_low), low);
  low = fused(b, log.low, scale, low);
  low = fused(b, parts.k, real(b, to->two_low), low);
  val whole_part = op2(b, TSR__K_MUL, parts.k, real(b, to->two_high));
  val sum = op2(b, TSR__K_ADD, whole_part, main);
  val lost = op2(b, TSR__K_ADD, op2(b, TSR__K_SUB, whole_part, sum), main);
  return log_ends(b, x, 0, op2(b, TSR__K_ADD, sum, op2(b, TSR__K_ADD, low, lost)));
}

val tsr__formula_log2(tsr__kbuild *b, val x)
{
  return log_base(b, x, &(base){ 1, 0, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56 });
}

val tsr__formula_log10(tsr__kbuild *b, val x)
{
  return log_base(b, x,
                  &(base){ 0x1.34413509f7000p-2, 0x1.3fde623e2566bp-43, 0x1.bcb7b1526e50ep-2,
                           0x1.95355baaafad3p-57 });
}

/* Up to 0.55 in size x + x^3 T(x^2); beyond 1 - 2 / (exp 2|x| + 1), with the sign of x. */
val tsr__formula_tanh(tsr__kbuild *b, val x)
{
  static const double t[] = {
    /* (tanh x - x) / x^3 in x^2 */
    -0x1.59962093e21d0p-16, 0x1.64f707d11ba4fp-14, -0x1.ec0e9550d42c9p-13, 0x1.34c57de48a611p-11,
    -0x1.7d97cb7a94b76p-10, 0x1.d6d338edc6017p-9,  -0x1.226e32eebbb26p-7,  0x1.664f48770be76p-6,
    -0x1.ba1ba1b9feb3cp-5,  0x1.1111111111032p-3,  -0x1.5555555555555p-2
  };
  val size = op1(b, TSR__K_ABS, x), z = op2(b, TSR__K_MUL, x, x);
  val near = fused(b, op2(b, TSR__K_MUL, x, z), polynomial(b, z, t, 11), x);
  val power = tsr__formula_exp(b, op2(b, TSR__K_ADD, size, size));
  val rest = op2(b, TSR__K_DIV, real(b, 2), op2(b, TSR__K_ADD, power, real(b, 1)));
  val far = op2(b, TSR__K_SUB, real(b, 1), rest);
  far = where(b, test2(b, TSR__K_LT, x, real(b, 0)), op1(b, TSR__K_NEG, far), far);
  val result = where(b, test2(b, TSR__K_LT, size, real(b, 0.55)), near, far);
  return where(b, test2(b, TSR__K_EQ, x, real(b, 0)), x, result); /* -0 stays */
}

/* log1p x is the log of u = 1 + x rounded, and what u lacks divided by u. Near 0, f is x itself. */
val tsr__formula_log1p(tsr__kbuild *b, val x)
{
  val zero = real(b, 0), one = real(b, 1);
  val u = op2(b, TSR__K_ADD, x, one);
  split parts = split_number(b, u);
  val lost_small = op2(b, TSR__K_SUB, x, op2(b, TSR__K_SUB, u, one));
  val lost_large = op2(b, TSR__K_SUB, one, op2(b, TSR__K_SUB, u, x));
  val large = test2(b, TSR__K_GE, x, one);
  val c = op2(b, TSR__K_DIV, where(b, large, lost_large, lost_small), u);
  val near = tsr__kbuild_op(b, TSR__K_AND, TSR_BOOL, TSR_BOOL,
                            (val[]){ test2(b, TSR__K_GT, x, real(b, -0.29)),
                                     test2(b, TSR__K_LT, x, real(b, 0.41)) });
  val f = where(b, near, x, op2(b, TSR__K_SUB, parts.m, one));
  val k = where(b, near, zero, parts.k);
  val result = log_sum(b, k, f, where(b, near, zero, c));
  result = where(b, test2(b, TSR__K_EQ, x, zero), x, result);
  return log_ends(b, x, -1, result);
}

/* log1p of `x` + `more`, and where x is not below 2^60 the log of 2 x. */
static val log_of_sum(tsr__kbuild *b, val x, val more)
{
  val near = test2(b, TSR__K_LT, x, real(b, 0x1p60)), zero = real(b, 0);
  val log = tsr__formula_log1p(b, op2(b, TSR__K_ADD, x, where(b, near, more, zero)));
  return op2(b, TSR__K_ADD, log, where(b, near, zero, real(b, LN2_HIGH + LN2_LOW)));
}

/* Of |x| it is log1p(|x| + x^2 / (1 + sqrt(1 + x^2))). */
val tsr__formula_asinh(tsr__kbuild *b, val x)
{
  val one = real(b, 1), square = op2(b, TSR__K_MUL, x, x);
  val root = op1(b, TSR__K_SQRT, op2(b, TSR__K_ADD, square, one));
  val more = op2(b, TSR__K_DIV, square, op2(b, TSR__K_ADD, one, root));
  return with_sign_of(b, log_of_sum(b, op1(b, TSR__K_ABS, x), more), x);
}

/* With t = x - 1 it is log1p(t + sqrt(2 t + t^2)). */
val tsr__formula_acosh(tsr__kbuild *b, val x)
{
  val one = real(b, 1), t = op2(b, TSR__K_SUB, x, one);
  val root = op1(b, TSR__K_SQRT, fused(b, t, t, op2(b, TSR__K_ADD, t, t)));
  val inside = test2(b, TSR__K_GE, x, one);
  return where(b, inside, log_of_sum(b, t, root), real(b, (double)NAN));
}

/* Of |x| it is log1p(2 |x| / (1 - |x|)) / 2. */
val tsr__formula_atanh(tsr__kbuild *b, val x)
{
  val size = op1(b, TSR__K_ABS, x), rest = op2(b, TSR__K_SUB, real(b, 1), size);
  val ratio = op2(b, TSR__K_DIV, op2(b, TSR__K_ADD, size, size), rest);
  val half = op2(b, TSR__K_MUL, tsr__formula_log1p(b, ratio), real(b, 0.5));
  half = where(b, test2(b, TSR__K_LT, size, real(b, 0x1p-1000)), size, half);
  return with_sign_of(b, half, x);
}
