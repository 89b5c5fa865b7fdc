/* Inverse sines and tangents of f64 or f32.
 *
 *   atan s = s + s^3 A(s^2)   for 0 <= s <= 1; beyond, a quarter less atan 1 / s
 *   asin s = s + s^3 B(s^2)   for 0 <= s <= 1/2; beyond, a quarter less 2 asin sqrt((1 - s) / 2)
 *
 * A quarter in two parts, `atan_tail` and `asin_tail` stand before this. */
#ifndef TSR_KERNEL_FORMULA_ARC_H
#define TSR_KERNEL_FORMULA_ARC_H

#include "kernel/tile/formula_inner.h"

INLINE val arctangent(val s)
{
  val square = s * s;
  return fused(square * s, polynomial(square, TABLE(atan_tail)), s);
}

/* The angle of a point `up` high and |right| wide, on the left where `right` is minus: up to an
 * eighth of a turn from the nearest half axis, which is added in two parts. */
INLINE val angle_of(val up, val right)
{
  val zero = real(0), width = size_of(right);
  mask left = is_minus(right);
  mask steep = up > width;
  val low = where(steep, width, up), high = where(steep, up, width);
  val s = low / high;
  s = where(low == high, real(1), s); /* two infinities */
  s = where(high == zero, zero, s);
  val angle = arctangent(s);
  mask back = steep ^ left;
  angle = where(back, -angle, angle);
  val axis = where(left, real(2 * QUARTER), zero), rest = where(left, real(2 * QUARTER_LOW), zero);
  axis = where(steep, real(QUARTER), axis);
  rest = where(steep, real(QUARTER_LOW), rest);
  return axis + (rest + angle);
}

INLINE val atan_of(val x)
{
  return with_sign_of(angle_of(size_of(x), real(1)), x);
}

/* The angle of the point (x, y). */
INLINE val atan2_of(val y, val x)
{
  val angle = with_sign_of(angle_of(size_of(y), x), y);
  val sum = x + y;
  mask broken = (x != x) | (y != y);
  return where(broken, sum, angle);
}

/* The pieces of asin and acos of a size: beyond 1/2 the root sqrt((1 - s) / 2) in two parts, and
 * the series that is added to it or to s. */
typedef struct arcsine {
  mask beyond; /* s > 1/2 */
  val root, root_low, tail;
} arcsine;

INLINE arcsine arcsine_of(val s)
{
  arcsine out;
  val half = real(0.5);
  out.beyond = s > half;
  val rest = (real(1) - s) * half; /* exact beyond */
  val square = where(out.beyond, rest, s * s);
  val root = root_of(rest);
  out.root = where(out.beyond, root, s);
  val lost = fused(-root, root, rest);
  lost = lost / (root + root);
  lost = where(root > real(0), lost, real(0));
  out.root_low = where(out.beyond, lost, real(0));
  out.tail = (square * out.root) * polynomial(square, TABLE(asin_tail));
  return out;
}

/* Twice the root's arcsine, and a number less that. */
INLINE val twice_arcsine(const arcsine *a)
{
  val sum = a->root + (a->tail + a->root_low);
  return sum + sum;
}

INLINE val less_arcsine(const arcsine *a, element high, element low)
{
  val small = a->tail + a->root_low, root = a->root;
  val rest = real(low) - (small + small);
  val top = real(high), more = root + root;
  val main = top - more;
  val lost = (top - main) - more;
  return main + (lost + rest);
}

INLINE val asin_of(val x)
{
  arcsine a = arcsine_of(size_of(x));
  val near = a.root + a.tail;
  return with_sign_of(where(a.beyond, less_arcsine(&a, QUARTER, QUARTER_LOW), near), x);
}

INLINE val acos_of(val x)
{
  mask minus = is_minus(x);
  arcsine a = arcsine_of(size_of(x));
  val far = where(minus, less_arcsine(&a, 2 * QUARTER, 2 * QUARTER_LOW), twice_arcsine(&a));
  val root = with_sign_of(a.root, x), tail = with_sign_of(a.tail, x);
  val quarter = real(QUARTER), main = quarter - root;
  val lost = (quarter - main) - root;
  lost = lost + (real(QUARTER_LOW) - tail);
  return where(a.beyond, far, main + lost);
}

TILE_OF_1(asin)
TILE_OF_1(acos)
TILE_OF_1(atan)
TILE_OF_2(atan2)

#endif
