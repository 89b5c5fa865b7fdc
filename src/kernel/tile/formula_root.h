/* Cube roots and lengths of f64 or f32: a polynomial's guess or a root, and then a correction from
 * exact products. `cbrt_guess` stands before this, cube roots of 2 and 4, the sizes from which
 * squares are too large or too small, and the factor that scales them then. */
#ifndef TSR_KERNEL_FORMULA_ROOT_H
#define TSR_KERNEL_FORMULA_ROOT_H

#include "kernel/tile/formula_inner.h"

/* |x| = 2^(3 j + i) m with m from sqrt 1/2 on: the root of a = 2^i m is guessed and mended by
 * Halley's step, which triples the bits that are right. */
INLINE val cube_root(val a, val m, val i)
{
  val scale = where(i == real(1), real(CBRT_2), real(CBRT_4));
  scale = where(i == real(0), real(1), scale);
  val y = polynomial(m, TABLE(cbrt_guess)) * scale;
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
  const element one_third = (element)(1.0 / 3);
  val third = fused(parts.k, real(one_third), real(one_third / 2)); /* never near a whole one */
  val j = floor_of(third);
  val i = fused(j, real(-3), parts.k), m = parts.m + one;
  val scale = where(i == one, real(2), real(4));
  scale = where(i == real(0), one, scale);
  val root = cube_root(m * scale, m, i);
  root = scaled_by_tag(root, j + real(WHOLE));
  mask ends = (x == (x + x)) | (x != x); /* 0, infinities, NaN */
  return where(ends, x, with_sign_of(root, x));
}

/* The squares are of numbers scaled so that no square leaves the range or gets lost where it
 * counts. */
INLINE val hypot_of(val x, val y)
{
  val top = real((element)INFINITY), ax = size_of(x), ay = size_of(y);
  val high = most(ax, ay), low = least_of_vals(ax, ay);
  mask far = high > real(TOO_LARGE);
  mask near = high < real(TOO_SMALL);
  val scale = where(near, real(1 / SCALE), real(1));
  scale = where(far, real(SCALE), scale);
  val back = where(near, real(SCALE), real(1));
  back = where(far, real(1 / SCALE), back);
  high = high * scale;
  low = low * scale;
  val sum = fused(high, high, low * low);
  val length = root_of(sum) * back;
  mask endless = ((ax == top) | (ay == top));
  return where(endless, top, length);
}

TILE_OF_1(cbrt)
TILE_OF_2(hypot)

#endif
