/* Inverse sines and tangents of f64 as instructions.
 *
 *   atan s = s + s^3 A(s^2)   for 0 <= s <= 1; beyond, what a quarter leaves of that of 1 / s
 *   asin s = s + s^3 B(s^2)   for 0 <= s <= 1/2; beyond, a quarter less 2 asin sqrt((1 - s) / 2)
 *
 * Coefficients: Chebyshev interpolation in 70 digits, rounded. Errors are measured against long
 * double (tests/unit/formula_test.c) and stated in docs/NUMERICS.md. */
#include "kernel/fuse/formula_inner.h"

#include <math.h>

#define PI 0x1.921fb54442d18p+1
#define QUARTER 0x1.921fb54442d18p+0 /* pi / 2 in two parts */
#define QUARTER_LOW 0x1.1a62633145c07p-54

static val arctangent(tsr__kbuild *b, val s)
{
  static const double a[] = {
    /* (atan s - s) / s^3 in s^2 */
    0x1.2f07811f9f6e9p-16, -0x1.a359b96a4eee4p-13, 0x1.1325b2f8964bep-10, -0x1.ca3677db66678p-9,
    0x1.123baedb61abdp-7,  -0x1.fd0e4de8fed90p-7,  0x1.843f4bca23369p-6,  -0x1.00390504e9f2fp-5,
    0x1.3328700bb8169p-5,  -0x1.5d02278205cc7p-5,  0x1.841dcf603a209p-5,  -0x1.aebbb1647a168p-5,
    0x1.e1d0239d392a6p-5,  -0x1.110fff599e4d2p-4,  0x1.3b1399d1dcdc7p-4,  -0x1.745d15ee35819p-4,
    0x1.c71c71bb00a6cp-4,  -0x1.24924924753ecp-3,  0x1.9999999999620p-3,  -0x1.5555555555555p-2
  };
  val square = op2(b, TSR__K_MUL, s, s);
  return fused(b, op2(b, TSR__K_MUL, square, s), polynomial(b, square, a, 20), s);
}

/* The angle of a point `up` high and |right| wide, on the left where `right` is minus: up to an
 * eighth of a turn from the nearest half axis, which is added in two parts. */
static val angle_of(tsr__kbuild *b, val up, val right)
{
  val zero = real(b, 0), width = op1(b, TSR__K_ABS, right), left = is_minus(b, right);
  val steep = test2(b, TSR__K_GT, up, width);
  val low = where(b, steep, width, up), high = where(b, steep, up, width);
  val s = op2(b, TSR__K_DIV, low, high);
  s = where(b, test2(b, TSR__K_EQ, low, high), real(b, 1), s); /* two infinities */
  s = where(b, test2(b, TSR__K_EQ, high, zero), zero, s);
  val angle = arctangent(b, s);
  val back = tsr__kbuild_op(b, TSR__K_XOR, TSR_BOOL, TSR_BOOL, (val[]){ steep, left });
  angle = where(b, back, op1(b, TSR__K_NEG, angle), angle);
  val axis = where(b, left, real(b, PI), zero),
      rest = where(b, left, real(b, 2 * QUARTER_LOW), zero);
  axis = where(b, steep, real(b, QUARTER), axis);
  rest = where(b, steep, real(b, QUARTER_LOW), rest);
  return op2(b, TSR__K_ADD, axis, op2(b, TSR__K_ADD, rest, angle));
}

val tsr__formula_atan(tsr__kbuild *b, val x)
{
  return with_sign_of(b, angle_of(b, op1(b, TSR__K_ABS, x), real(b, 1)), x);
}

/* Of y and x. */
val tsr__formula_atan2(tsr__kbuild *b, val y, val x)
{
  val angle = with_sign_of(b, angle_of(b, op1(b, TSR__K_ABS, y), x), y);
  val sum = op2(b, TSR__K_ADD, x, y);
  val broken = tsr__kbuild_op(b, TSR__K_OR, TSR_BOOL, TSR_BOOL,
                              (val[]){ test2(b, TSR__K_NE, x, x), test2(b, TSR__K_NE, y, y) });
  return where(b, broken, sum, angle);
}

/* The pieces of asin and acos of a size: the root sqrt((1 - s) / 2) in two parts beyond 1/2, and
 * what is added to it or to s there. */
typedef struct arcsine {
  val beyond; /* bool: s > 1/2 */
  val root, root_low, tail;
} arcsine;

static arcsine arcsine_of(tsr__kbuild *b, val s)
{
  static const double c[] = { /* (asin s - s) / s^3 in s^2 */
                              0x1.d72b2bc8155f8p-6, -0x1.e6aaa8a0a04ccp-7, 0x1.1d189408314eep-6,
                              0x1.65a9c4dfcf8b2p-8, 0x1.52420b04b37bep-7,  0x1.782651caa6547p-7,
                              0x1.c9cf07674736ap-7, 0x1.1c4d35cf95421p-6,  0x1.6e8bb1c8209a2p-6,
                              0x1.f1c71c1db0623p-6, 0x1.6db6db6e31f13p-5,  0x1.3333333332ecap-4,
                              0x1.5555555555556p-3
  };
  arcsine out;
  val half = real(b, 0.5);
  out.beyond = test2(b, TSR__K_GT, s, half);
  val rest = op2(b, TSR__K_MUL, op2(b, TSR__K_SUB, real(b, 1), s), half); /* exact beyond */
  val square = where(b, out.beyond, rest, op2(b, TSR__K_MUL, s, s));
  val root = op1(b, TSR__K_SQRT, rest);
  out.root = where(b, out.beyond, root, s);
  val lost = fused(b, op1(b, TSR__K_NEG, root), root, rest);
  lost = op2(b, TSR__K_DIV, lost, op2(b, TSR__K_ADD, root, root));
  lost = where(b, test2(b, TSR__K_GT, root, real(b, 0)), lost, real(b, 0));
  out.root_low = where(b, out.beyond, lost, real(b, 0));
  out.tail = op2(b, TSR__K_MUL, op2(b, TSR__K_MUL, square, out.root), polynomial(b, square, c, 13));
  return out;
}

/* Twice the root's arcsine, and a number less that. */
static val twice(tsr__kbuild *b, const arcsine *a)
{
  val sum = op2(b, TSR__K_ADD, a->root, op2(b, TSR__K_ADD, a->tail, a->root_low));
  return op2(b, TSR__K_ADD, sum, sum);
}

static val less(tsr__kbuild *b, const arcsine *a, double high, double low)
{
  val small = op2(b, TSR__K_ADD, a->tail, a->root_low), root = a->root;
  val rest = op2(b, TSR__K_SUB, real(b, low), op2(b, TSR__K_ADD, small, small));
  val top = real(b, high), more = op2(b, TSR__K_ADD, root, root);
  val main = op2(b, TSR__K_SUB, top, more);
  val lost = op2(b, TSR__K_SUB, op2(b, TSR__K_SUB, top, main), more);
  return op2(b, TSR__K_ADD, main, op2(b, TSR__K_ADD, lost, rest));
}

val tsr__formula_asin(tsr__kbuild *b, val x)
{
  arcsine a = arcsine_of(b, op1(b, TSR__K_ABS, x));
  val near = op2(b, TSR__K_ADD, a.root, a.tail);
  return with_sign_of(b, where(b, a.beyond, less(b, &a, QUARTER, QUARTER_LOW), near), x);
}

val tsr__formula_acos(tsr__kbuild *b, val x)
{
  val minus = is_minus(b, x);
  arcsine a = arcsine_of(b, op1(b, TSR__K_ABS, x));
  val far = where(b, minus, less(b, &a, PI, 2 * QUARTER_LOW), twice(b, &a));
  val root = with_sign_of(b, a.root, x), tail = with_sign_of(b, a.tail, x);
  val quarter = real(b, QUARTER), main = op2(b, TSR__K_SUB, quarter, root);
  val lost = op2(b, TSR__K_SUB, op2(b, TSR__K_SUB, quarter, main), root);
  lost = op2(b, TSR__K_ADD, lost, op2(b, TSR__K_SUB, real(b, QUARTER_LOW), tail));
  return where(b, a.beyond, far, op2(b, TSR__K_ADD, main, lost));
}
