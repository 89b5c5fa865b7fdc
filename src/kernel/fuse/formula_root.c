/* Cube roots and lengths of f64 as instructions: a polynomial's guess or a root, and then what
 * exact products say that it lacks. */
#include "kernel/fuse/formula_inner.h"

#include <math.h>

/* |x| = 2^(3 j + i) m with m from sqrt 1/2 on: the root of a = 2^i m is guessed to 25 bits and
 * mended by Halley's step, which triples them. */
static val root_of(tsr__kbuild *b, val a, val m, val i)
{
  static const double g[] = { /* m^(1/3) */
                              0x1.ef6684e7ec74ap-7,  -0x1.0e2040ad1a642p-3, 0x1.0289f481035a9p-1,
                              -0x1.1dd369c7d9155p+0, 0x1.9640fc65317c6p+0,  -0x1.8fbc7ec870ed1p+0,
                              0x1.5280bfd24fc05p+0,  0x1.85b9b4dec7ccfp-2
  };
  val scale = where(b, test2(b, TSR__K_EQ, i, real(b, 1)), real(b, 0x1.428a2f98d728bp+0),
                    real(b, 0x1.965fea53d6e3dp+0));
  scale = where(b, test2(b, TSR__K_EQ, i, real(b, 0)), real(b, 1), scale);
  val y = op2(b, TSR__K_MUL, polynomial(b, m, g, 8), scale);
  val square = op2(b, TSR__K_MUL, y, y);
  val low = fused(b, y, y, op1(b, TSR__K_NEG, square));
  val over = fused(b, square, y, op1(b, TSR__K_NEG, a)); /* y^3 - a */
  over = fused(b, low, y, over);
  val below = fused(b, real(b, 3), a, op2(b, TSR__K_ADD, over, over));
  return op2(b, TSR__K_SUB, y, op2(b, TSR__K_DIV, op2(b, TSR__K_MUL, y, over), below));
}

val tsr__formula_cbrt(tsr__kbuild *b, val x)
{
  val size = op1(b, TSR__K_ABS, x), one = real(b, 1);
  split parts = tsr__formula_split(b, size);
  val third = fused(b, parts.k, real(b, 1.0 / 3), real(b, 1.0 / 6)); /* never near a whole one */
  val j = op1(b, TSR__K_FLOOR, third);
  val i = fused(b, j, real(b, -3), parts.k), m = op2(b, TSR__K_ADD, parts.m, one);
  val scale = where(b, test2(b, TSR__K_EQ, i, one), real(b, 2), real(b, 4));
  scale = where(b, test2(b, TSR__K_EQ, i, real(b, 0)), one, scale);
  val root = root_of(b, op2(b, TSR__K_MUL, m, scale), m, i);
  root = tsr__formula_scale(b, root, op2(b, TSR__K_ADD, j, real(b, WHOLE)));
  val ends = tsr__kbuild_op(b, TSR__K_OR, TSR_BOOL, TSR_BOOL,
                            (val[]){ test2(b, TSR__K_EQ, x, op2(b, TSR__K_ADD, x, x)),
                                     test2(b, TSR__K_NE, x, x) }); /* 0, infinities, NaN */
  return where(b, ends, x, with_sign_of(b, root, x));
}

/* The squares are of numbers scaled so that none leaves the range or gets lost where it counts. */
val tsr__formula_hypot(tsr__kbuild *b, val x, val y)
{
  val top = real(b, (double)INFINITY), ax = op1(b, TSR__K_ABS, x), ay = op1(b, TSR__K_ABS, y);
  val high = op2(b, TSR__K_MAX, ax, ay), low = op2(b, TSR__K_MIN, ax, ay);
  val far = test2(b, TSR__K_GT, high, real(b, 0x1p500));
  val near = test2(b, TSR__K_LT, high, real(b, 0x1p-400));
  val scale = where(b, near, real(b, 0x1p600), real(b, 1));
  scale = where(b, far, real(b, 0x1p-600), scale);
  val back = where(b, near, real(b, 0x1p-600), real(b, 1));
  back = where(b, far, real(b, 0x1p600), back);
  high = op2(b, TSR__K_MUL, high, scale);
  low = op2(b, TSR__K_MUL, low, scale);
  val sum = fused(b, high, high, op2(b, TSR__K_MUL, low, low));
  val length = op2(b, TSR__K_MUL, op1(b, TSR__K_SQRT, sum), back);
  val endless =
      tsr__kbuild_op(b, TSR__K_OR, TSR_BOOL, TSR_BOOL,
                     (val[]){ test2(b, TSR__K_EQ, ax, top), test2(b, TSR__K_EQ, ay, top) });
  return where(b, endless, top, length);
}
