/* sin, and the steps that cos and tan share with it.
 *
 *   x --turn--> y, |y| < 2^20 --k = y 2/pi--> r = y - k pi/2 in two parts --> sin r, cos r --k-->
 *   result
 *
 * turn leaves small numbers as they are; it reduces large ones by whole quarters (angle.h) and
 * keeps the rounding error and the number of quarters modulo 4. pi/2 is taken off in parts of 33
 * bits, whose products with k are exact, and the rounding error of each subtraction is kept.
 *
 * Coefficients: Chebyshev interpolation in 70 digits, rounded. Errors are measured against long
 * double (tests/unit/kernel/formula_test.c) and stated in docs/NUMERICS.md. */
#ifndef TSR_KERNEL_FORMULA_TRIG_H
#define TSR_KERNEL_FORMULA_TRIG_H

#include "kernel/tile/angle.h"
#include "kernel/tile/formula_inner.h"

/* An angle less than about pi/4 in two parts, and the quarters taken off. */
typedef struct angle {
  val high, low, quarters;
} angle;

/* The rounding error of x - y. */
INLINE val lost_of(val x, val y, val difference)
{
  val back = difference - x;
  val first = x - (difference - back);
  return first - (y + back);
}

/* Reduces a large x: the rest after whole quarters in two parts, and the number of quarters. */
INLINE void reduce_large_val(val x, val *y, val *low, val *quarters)
{
  *y = x;
  *low = *quarters = real(0);
  if (!any(~(size_of(x) < real(0x1p20)))) return;
  for (int i = 0; i < LANES; i++) {
    turned left = turned_angle(x[i]);
    (*y)[i] = left.high;
    (*low)[i] = left.low;
    (*quarters)[i] = left.quarters;
  }
}

INLINE angle reduce_to_angle(val x)
{
  val y, low, quarters;
  reduce_large_val(x, &y, &low, &quarters);
  val tagged = fused(y, real(0x1.45f306dc9c883p-1), real(WHOLE));
  val k = tagged - real(WHOLE);
  val first = fused(k, real(-0x1.921fb54400000p+0), y);
  val part = k * real(0x1.0b4611a600000p-34);
  val second = first - part;
  val lost = lost_of(first, part, second);
  part = k * real(0x1.3198a2e000000p-69);
  val third = second - part;
  lost = lost + lost_of(second, part, third);
  lost = fused(k, real(-0x1.b839a252049c1p-104), lost);
  lost = lost + low;
  angle a;
  a.high = third + lost;
  a.low = (third - a.high) + lost;
  a.quarters = k + quarters;
  return a;
}

/* r + r^3 S(r^2), plus the low part's share. */
INLINE val sine_of_angle(angle a)
{
  static const double s[] = { /* (sin r - r) / r^3 in r^2 */
                              -0x1.ab175606bdb81p-41, 0x1.61217e35b462cp-33,
                              -0x1.ae645411b788bp-26, 0x1.71de3a545ffa4p-19,
                              -0x1.a01a01a019933p-13, 0x1.1111111111110p-7
  };
  val z = a.high * a.high, cube = z * a.high;
  val rest = cube * polynomial(z, s, 6);
  rest = fused(a.low, real(-0.5), rest);
  rest = fused(z, rest, a.low);
  rest = fused(cube, real(-0x1.5555555555555p-3), rest);
  return a.high + rest;
}

/* 1 - r^2 / 2 + r^4 C(r^2): the rounding error of 1 - r^2 / 2 is put back. */
INLINE val cosine_of_angle(angle a)
{
  static const double c[] = { /* (cos r - 1 + r^2 / 2) / r^4 in r^2 */
                              -0x1.907d30a6379b0p-37, 0x1.1eeb6849e83dap-29,
                              -0x1.27e4fa17411afp-22, 0x1.a01a019f4e3a1p-16,
                              -0x1.6c16c16c16965p-10, 0x1.5555555555555p-5
  };
  val z = a.high * a.high, half = a.high * real(-0.5);
  val main = fused(half, a.high, real(1));
  val lost = fused(half, a.high, real(1) - main);
  lost = fused(half, a.low + a.low, lost);
  val rest = fused(z * z, polynomial(z, c, 6), lost);
  return main + rest;
}

/* Whether bit `bit` of a whole number is set. */
INLINE mask has_bit(val number, int64_t bit)
{
  return bits_differ(bits_and(number + real(WHOLE), whole(bit)), whole(0));
}

/* The sine of an angle `ahead` quarters on. */
INLINE val turned_sine(val x, double ahead)
{
  angle a = reduce_to_angle(x);
  val quarters = a.quarters + real(ahead);
  val result = where(has_bit(quarters, 1), cosine_of_angle(a), sine_of_angle(a));
  return where(has_bit(quarters, 2), -result, result);
}

INLINE val sin_of(val x)
{
  val result = turned_sine(x, 0);
  return where(x == real(0), x, result); /* -0 stays */
}

#endif
