/* Cube roots and lengths of f64: a polynomial's guess or a root, and then what
 * exact products say that it lacks. */
#include "kernel/tile/formula_exp.h"

/* |x| = 2^(3 j + i) m with m from sqrt 1/2 on: the root of a = 2^i m is guessed to 25 bits and
 * mended by Halley's step, which triples them. */
INLINE val cube_root(val a, val m, val i)
{
  static const double g[] = { /* m^(1/3) */
                              0x1.ef6684e7ec74ap-7,  -0x1.0e2040ad1a642p-3, 0x1.0289f481035a9p-1,
                              -0x1.1dd369c7d9155p+0, 0x1.9640fc65317c6p+0,  -0x1.8fbc7ec870ed1p+0,
                              0x1.5280bfd24fc05p+0,  0x1.85b9b4dec7ccfp-2
  };
  val scale = where(i == real(1), real(0x1.428a2f98d728bp+0), real(0x1.965fea53d6e3dp+0));
  scale = where(i == real(0), real(1), scale);
  val y = polynomial(m, g, 8) * scale;
  val square = y * y;
  val low = fused(y, y, -square);
  val over = fused(square, y, -a); /* y^3 - a */
  over = fused(low, y, over);
  val below = fused(real(3), a, over + over);
  return y - ((y * over) / below);
}

INLINE val cbrt_of(val x)
{
  val size = size_of(x), one = real(1);
  split parts = split_of(size);
  val third = fused(parts.k, real(1.0 / 3), real(1.0 / 6)); /* never near a whole one */
  val j = floor_of(third);
  val i = fused(j, real(-3), parts.k), m = parts.m + one;
  val scale = where(i == one, real(2), real(4));
  scale = where(i == real(0), one, scale);
  val root = cube_root(m * scale, m, i);
  root = scale_of(root, j + real(WHOLE));
  mask ends = (x == (x + x)) | (x != x); /* 0, infinities, NaN */
  return where(ends, x, with_sign_of(root, x));
}

/* The squares are of numbers scaled so that none leaves the range or gets lost where it counts. */
INLINE val hypot_of(val x, val y)
{
  val top = real((double)INFINITY), ax = size_of(x), ay = size_of(y);
  val high = most(ax, ay), low = least(ax, ay);
  mask far = high > real(0x1p500);
  mask near = high < real(0x1p-400);
  val scale = where(near, real(0x1p600), real(1));
  scale = where(far, real(0x1p-600), scale);
  val back = where(near, real(0x1p-600), real(1));
  back = where(far, real(0x1p600), back);
  high = high * scale;
  low = low * scale;
  val sum = fused(high, high, low * low);
  val length = root_of(sum) * back;
  mask endless = ((ax == top) | (ay == top));
  return where(endless, top, length);
}

TILE_OF_1(cbrt)
TILE_OF_2(hypot)
