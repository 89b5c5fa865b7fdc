/* exp and logarithms, tanh and the inverse hyperbolic functions. */
#include "kernel/tile/formula_exp.h"

/* log(1 + f) of log_sum in two parts, whose sum has some 10 bits more than f64. */
INLINE pair log_pair(val f)
{
  val half_square = (f * real(0.5)) * f;
  val s = f / (f + real(2));
  val z = s * s;
  val rest = s * fused(z, atanh_tail(z), half_square);
  val high = f - half_square;
  val lost = (f - high) - half_square;
  return (pair){ high, lost + rest };
}

/* To another base: k times log 2 in two parts (the first times k is exact) and the log times
 * 1 / ln base in two parts. The larger of what is added comes first. */
typedef struct base {
  double two_high, two_low, scale, scale_low;
} base;

INLINE val log_base(val x, const base *to)
{
  split parts = split_of(x);
  pair log = log_pair(parts.m);
  val scale = real(to->scale);
  val main = log.high * scale;
  val low = fused(log.high, scale, -main); /* what rounding cut off */
  low = fused(log.high + log.low, real(to->scale_low), low);
  low = fused(log.low, scale, low);
  low = fused(parts.k, real(to->two_low), low);
  val whole_part = parts.k * real(to->two_high);
  val sum = whole_part + main;
  val lost = (whole_part - sum) + main;
  return log_ends(x, 0, sum + (low + lost));
}

INLINE val log2_of(val x)
{
  return log_base(x, &(base){ 1, 0, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56 });
}

INLINE val log10_of(val x)
{
  return log_base(x, &(base){ 0x1.34413509f7000p-2, 0x1.3fde623e2566bp-43, 0x1.bcb7b1526e50ep-2,
                              0x1.95355baaafad3p-57 });
}

/* Up to 0.55 in size x + x^3 T(x^2); beyond 1 - 2 / (exp 2|x| + 1), with the sign of x. */
INLINE val tanh_of(val x)
{
  static const double t[] = {
    /* (tanh x - x) / x^3 in x^2 */
    -0x1.59962093e21d0p-16, 0x1.64f707d11ba4fp-14, -0x1.ec0e9550d42c9p-13, 0x1.34c57de48a611p-11,
    -0x1.7d97cb7a94b76p-10, 0x1.d6d338edc6017p-9,  -0x1.226e32eebbb26p-7,  0x1.664f48770be76p-6,
    -0x1.ba1ba1b9feb3cp-5,  0x1.1111111111032p-3,  -0x1.5555555555555p-2
  };
  val size = size_of(x), z = x * x;
  val near = fused(x * z, polynomial(z, t, 11), x);
  val power = exp_of(size + size);
  val rest = real(2) / (power + real(1));
  val far = real(1) - rest;
  far = where(x < real(0), -far, far);
  val result = where(size < real(0.55), near, far);
  return where(x == real(0), x, result); /* -0 stays */
}

/* log1p of `x` + `more`, and where x is not below 2^60 the log of 2 x. */
INLINE val log_of_sum(val x, val more)
{
  mask near = x < real(0x1p60);
  val zero = real(0);
  val log = log1p_of(x + where(near, more, zero));
  return log + where(near, zero, real(LN2_HIGH + LN2_LOW));
}

/* Of |x| it is log1p(|x| + x^2 / (1 + sqrt(1 + x^2))). */
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
  return where(inside, log_of_sum(t, root), real((double)NAN));
}

/* Of |x| it is log1p(2 |x| / (1 - |x|)) / 2. */
INLINE val atanh_of(val x)
{
  val size = size_of(x), rest = real(1) - size;
  val ratio = (size + size) / rest;
  val half = log1p_of(ratio) * real(0.5);
  half = where(size < real(0x1p-1000), size, half);
  return with_sign_of(half, x);
}

TILE_OF_1(exp)
TILE_OF_1(log)
TILE_OF_1(log1p)
TILE_OF_1(log2)
TILE_OF_1(log10)
TILE_OF_1(tanh)
TILE_OF_1(asinh)
TILE_OF_1(acosh)
TILE_OF_1(atanh)
