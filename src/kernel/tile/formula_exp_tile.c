/* exp, logarithms and tanh of f64. */
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

/* To another base: k times log 2 in two parts (the first times k is exact) and the log times 1 / ln
 * base in two parts. The larger addend comes first. */
typedef struct base {
  double two_high, two_low, scale, scale_low;
} base;

INLINE val log_in_base_f64(val x, const base *to)
{
  split parts = split_of(x);
  pair log = log_pair(parts.m);
  val scale = real(to->scale);
  val main = log.high * scale;
  val low = fused(log.high, scale, -main); /* the rounding error */
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
  return log_in_base_f64(x, &(base){ 1, 0, 0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56 });
}

INLINE val log10_of(val x)
{
  return log_in_base_f64(x, &(base){ 0x1.34413509f7000p-2, 0x1.3fde623e2566bp-43,
                                     0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57 });
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

TILE_OF_1(exp)
TILE_OF_1(log)
TILE_OF_1(log1p)
TILE_OF_1(log2)
TILE_OF_1(log10)
TILE_OF_1(tanh)
