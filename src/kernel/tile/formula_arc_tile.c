/* Inverse sines and tangents of f64.
 *
 *   atan s = s + s^3 A(s^2)   for 0 <= s <= 1; beyond, what a quarter leaves of that of 1 / s
 *   asin s = s + s^3 B(s^2)   for 0 <= s <= 1/2; beyond, a quarter less 2 asin sqrt((1 - s) / 2)
 *
 * Coefficients: Chebyshev interpolation in 70 digits, rounded. Errors are measured against long
 * double (tests/unit/formula_test.c) and stated in docs/NUMERICS.md. */
#include "kernel/tile/formula_exp.h"

#define PI 0x1.921fb54442d18p+1
#define QUARTER 0x1.921fb54442d18p+0 /* pi / 2 in two parts */
#define QUARTER_LOW 0x1.1a62633145c07p-54

INLINE val arctangent(val s)
{
  static const double a[] = {
    /* (atan s - s) / s^3 in s^2 */
    0x1.2f07811f9f6e9p-16, -0x1.a359b96a4eee4p-13, 0x1.1325b2f8964bep-10, -0x1.ca3677db66678p-9,
    0x1.123baedb61abdp-7,  -0x1.fd0e4de8fed90p-7,  0x1.843f4bca23369p-6,  -0x1.00390504e9f2fp-5,
    0x1.3328700bb8169p-5,  -0x1.5d02278205cc7p-5,  0x1.841dcf603a209p-5,  -0x1.aebbb1647a168p-5,
    0x1.e1d0239d392a6p-5,  -0x1.110fff599e4d2p-4,  0x1.3b1399d1dcdc7p-4,  -0x1.745d15ee35819p-4,
    0x1.c71c71bb00a6cp-4,  -0x1.24924924753ecp-3,  0x1.9999999999620p-3,  -0x1.5555555555555p-2
  };
  val square = s * s;
  return fused(square * s, polynomial(square, a, 20), s);
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
  val axis = where(left, real(PI), zero), rest = where(left, real(2 * QUARTER_LOW), zero);
  axis = where(steep, real(QUARTER), axis);
  rest = where(steep, real(QUARTER_LOW), rest);
  return axis + (rest + angle);
}

INLINE val atan_of(val x)
{
  return with_sign_of(angle_of(size_of(x), real(1)), x);
}

/* Of y and x. */
INLINE val atan2_of(val y, val x)
{
  val angle = with_sign_of(angle_of(size_of(y), x), y);
  val sum = x + y;
  mask broken = (x != x) | (y != y);
  return where(broken, sum, angle);
}

/* The pieces of asin and acos of a size: the root sqrt((1 - s) / 2) in two parts beyond 1/2, and
 * what is added to it or to s there. */
typedef struct arcsine {
  mask beyond; /* s > 1/2 */
  val root, root_low, tail;
} arcsine;

INLINE arcsine arcsine_of(val s)
{
  static const double c[] = { /* (asin s - s) / s^3 in s^2 */
                              0x1.d72b2bc8155f8p-6, -0x1.e6aaa8a0a04ccp-7, 0x1.1d189408314eep-6,
                              0x1.65a9c4dfcf8b2p-8, 0x1.52420b04b37bep-7,  0x1.782651caa6547p-7,
                              0x1.c9cf07674736ap-7, 0x1.1c4d35cf95421p-6,  0x1.6e8bb1c8209a2p-6,
                              0x1.f1c71c1db0623p-6, 0x1.6db6db6e31f13p-5,  0x1.3333333332ecap-4,
                              0x1.5555555555556p-3
  };
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
  out.tail = (square * out.root) * polynomial(square, c, 13);
  return out;
}

/* Twice the root's arcsine, and a number less that. */
INLINE val twice(const arcsine *a)
{
  val sum = a->root + (a->tail + a->root_low);
  return sum + sum;
}

INLINE val less(const arcsine *a, double high, double low)
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
  return with_sign_of(where(a.beyond, less(&a, QUARTER, QUARTER_LOW), near), x);
}

INLINE val acos_of(val x)
{
  mask minus = is_minus(x);
  arcsine a = arcsine_of(size_of(x));
  val far = where(minus, less(&a, PI, 2 * QUARTER_LOW), twice(&a));
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
