/* sin, cos and tan of f64 as instructions.
 *
 *   x --turn--> y, |y| < 2^20 --k = y 2/pi--> r = y - k pi/2 in two parts --> sin r, cos r --k-->
 *   result
 *
 * turn leaves small numbers as they are; large ones it replaces by what whole quarters leave of
 * them (angle_tile.c); turnlow adds what that rounds off, and quarter says how many quarters modulo
 * 4 it was. pi/2 is taken off in parts of 33 bits, whose products with k are exact, and what each
 * subtraction rounds off is kept.
 *
 * Coefficients: Chebyshev interpolation in 70 digits, rounded. Errors are measured against long
 * double (tests/unit/formula_test.c) and stated in docs/NUMERICS.md. */
#include "kernel/fuse/formula_inner.h"

/* An angle less than about pi/4 in two parts, and the quarters taken off. */
typedef struct angle {
  val high, low, quarters;
} angle;

/* What a - b rounds off. */
static val lost_of(tsr__kbuild *b, val x, val y, val difference)
{
  val back = op2(b, TSR__K_SUB, difference, x);
  val first = op2(b, TSR__K_SUB, x, op2(b, TSR__K_SUB, difference, back));
  return op2(b, TSR__K_SUB, first, op2(b, TSR__K_ADD, y, back));
}

static angle reduce(tsr__kbuild *b, val x)
{
  val y = op1(b, TSR__K_TURN, x);
  val tagged = fused(b, y, real(b, 0x1.45f306dc9c883p-1), real(b, WHOLE));
  val k = op2(b, TSR__K_SUB, tagged, real(b, WHOLE));
  val first = fused(b, k, real(b, -0x1.921fb54400000p+0), y);
  val part = op2(b, TSR__K_MUL, k, real(b, 0x1.0b4611a600000p-34));
  val second = op2(b, TSR__K_SUB, first, part);
  val lost = lost_of(b, first, part, second);
  part = op2(b, TSR__K_MUL, k, real(b, 0x1.3198a2e000000p-69));
  val third = op2(b, TSR__K_SUB, second, part);
  lost = op2(b, TSR__K_ADD, lost, lost_of(b, second, part, third));
  lost = fused(b, k, real(b, -0x1.b839a252049c1p-104), lost);
  lost = op2(b, TSR__K_ADD, lost, op1(b, TSR__K_TURNLOW, x));
  angle a;
  a.high = op2(b, TSR__K_ADD, third, lost);
  a.low = op2(b, TSR__K_ADD, op2(b, TSR__K_SUB, third, a.high), lost);
  a.quarters = op2(b, TSR__K_ADD, k, op1(b, TSR__K_QUARTER, x));
  return a;
}

/* r + r^3 S(r^2), with what the low part adds. */
static val sine(tsr__kbuild *b, angle a)
{
  static const double s[] = { /* (sin r - r) / r^3 in r^2 */
                              -0x1.ab175606bdb81p-41, 0x1.61217e35b462cp-33,
                              -0x1.ae645411b788bp-26, 0x1.71de3a545ffa4p-19,
                              -0x1.a01a01a019933p-13, 0x1.1111111111110p-7
  };
  val z = op2(b, TSR__K_MUL, a.high, a.high), cube = op2(b, TSR__K_MUL, z, a.high);
  val rest = op2(b, TSR__K_MUL, cube, polynomial(b, z, s, 6));
  rest = fused(b, a.low, real(b, -0.5), rest);
  rest = fused(b, z, rest, a.low);
  rest = fused(b, cube, real(b, -0x1.5555555555555p-3), rest);
  return op2(b, TSR__K_ADD, a.high, rest);
}

/* 1 - r^2 / 2 + r^4 C(r^2): what 1 - r^2 / 2 rounds off is put back. */
static val cosine(tsr__kbuild *b, angle a)
{
  static const double c[] = { /* (cos r - 1 + r^2 / 2) / r^4 in r^2 */
                              -0x1.907d30a6379b0p-37, 0x1.1eeb6849e83dap-29,
                              -0x1.27e4fa17411afp-22, 0x1.a01a019f4e3a1p-16,
                              -0x1.6c16c16c16965p-10, 0x1.5555555555555p-5
  };
  val z = op2(b, TSR__K_MUL, a.high, a.high), half = op2(b, TSR__K_MUL, a.high, real(b, -0.5));
  val main = fused(b, half, a.high, real(b, 1));
  val lost = fused(b, half, a.high, op2(b, TSR__K_SUB, real(b, 1), main));
  lost = fused(b, half, op2(b, TSR__K_ADD, a.low, a.low), lost);
  val rest = fused(b, op2(b, TSR__K_MUL, z, z), polynomial(b, z, c, 6), lost);
  return op2(b, TSR__K_ADD, main, rest);
}

/* Whether bit `bit` of a whole number is set. */
static val has_bit(tsr__kbuild *b, val number, int64_t bit)
{
  val bits = op2(b, TSR__K_ADD, number, real(b, WHOLE));
  val one = bit2(b, TSR__K_AND, bits, whole(b, bit));
  return tsr__kbuild_op(b, TSR__K_NE, TSR_I64, TSR_BOOL, (val[]){ one, whole(b, 0) });
}

/* The sine of an angle `ahead` quarters on. */
static val turned_sine(tsr__kbuild *b, val x, double ahead)
{
  angle a = reduce(b, x);
  val quarters = op2(b, TSR__K_ADD, a.quarters, real(b, ahead));
  val result = where(b, has_bit(b, quarters, 1), cosine(b, a), sine(b, a));
  return where(b, has_bit(b, quarters, 2), op1(b, TSR__K_NEG, result), result);
}

val tsr__formula_sin(tsr__kbuild *b, val x)
{
  val result = turned_sine(b, x, 0);
  return where(b, test2(b, TSR__K_EQ, x, real(b, 0)), x, result); /* -0 stays */
}

val tsr__formula_cos(tsr__kbuild *b, val x)
{
  return turned_sine(b, x, 1);
}

/* tan r = t is r + r^3 / 3 + r^5 T(r^2), a part of which the low part turns by 1 + t^2. In odd
 * quarters the result is -1 / t, and what that quotient lacks is put back. */
val tsr__formula_tan(tsr__kbuild *b, val x)
{
  static const double t[] = { /* (tan r - r - r^3 / 3) / r^5 in r^2 */
                              0x1.f2d246ee3bba1p-18,  -0x1.d0c72b255faacp-17, 0x1.d6d4466e8996cp-16,
                              -0x1.b084cbbd4fdb5p-20, 0x1.9917180821fd8p-15,  0x1.87a10c42fb9aep-14,
                              0x1.f76c7abf53a80p-13,  0x1.3541e08403dd7p-11,  0x1.7da4be5ed2945p-10,
                              0x1.d6d3c354bab48p-9,   0x1.226e3586f3487p-7,   0x1.664f488242f0dp-6,
                              0x1.ba1ba1ba1c3bep-5,   0x1.1111111111110p-3
  };
  angle a = reduce(b, x);
  val z = op2(b, TSR__K_MUL, a.high, a.high), cube = op2(b, TSR__K_MUL, z, a.high),
      one = real(b, 1);
  val rest = op2(b, TSR__K_MUL, op2(b, TSR__K_MUL, z, cube), polynomial(b, z, t, 14));
  rest = fused(b, cube, real(b, 0x1.5555555555555p-2), rest);
  val near = op2(b, TSR__K_ADD, a.high, rest);
  rest = fused(b, a.low, fused(b, near, near, one), rest);
  near = op2(b, TSR__K_ADD, a.high, rest);
  val inverse = op2(b, TSR__K_DIV, real(b, -1), near);
  val lack = fused(b, inverse, rest, fused(b, inverse, a.high, one));
  val result = where(b, has_bit(b, a.quarters, 1), fused(b, inverse, lack, inverse), near);
  return where(b, test2(b, TSR__K_EQ, x, real(b, 0)), x, result);
}
