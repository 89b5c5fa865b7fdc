/* sin, cos and tan of f32.
 *
 *   x --k = x 2/pi--> r = x - k pi/2 --> sin r, cos r --k--> result
 *
 * Up to 2^17 pi/2 is taken off in three parts; larger angles go lane by lane in f64, through
 * angle.h. */
#include "kernel/tile/angle.h"
#include "kernel/tile/formula_f32.h"

/* |r| a little above pi/4 at most; the low bits of `tagged`: the quarters taken off. */
typedef struct angle {
  val r, tagged;
} angle;

/* angle.h leaves small numbers as they are, and of others less than a quarter. */
INLINE void turn_large_lanes(val x, angle *a)
{
  mask large = ~(size_of(x) < real(0x1p17f));
  if (!any(large)) return;
  for (int i = 0; i < LANES; i++) {
    if (!large[i]) continue;
    a->r[i] = a->tagged[i] = NAN;
    if (!isfinite(x[i])) continue;
    turned left = turned_angle((double)x[i]);
    double k = rint(left.high * 0x1.45f306dc9c883p-1);
    double r = fma(k, -0x1.921fb54442d18p+0, left.high);
    r = fma(k, -0x1.1a62633145c07p-54, r) + left.low;
    int quarters = (int)(k - 4 * floor(k / 4)) + left.quarters;
    a->r[i] = (float)r;
    a->tagged[i] = WHOLE + (float)quarters;
  }
}

INLINE angle reduce_to_tagged(val x)
{
  angle a;
  a.tagged = fused(x, real(0x1.45f306p-1f), real(WHOLE));
  val k = a.tagged - real(WHOLE);
  val r = fused(k, real(-HALF_PI_HIGH), x);
  r = fused(k, real(-HALF_PI_LOW), r);
  a.r = fused(k, real(-HALF_PI_LAST), r);
  turn_large_lanes(x, &a);
  return a;
}

INLINE val sine_series(val r)
{
  val square = r * r;
  return fused(square * r, polynomial(square, TABLE(sin_tail)), r);
}

INLINE val cosine_series(val r)
{
  val square = r * r;
  val rest = fused(square, polynomial(square, TABLE(cos_tail)), real(-0.5f));
  return fused(square, rest, real(1));
}

/* Lanes with an odd number of quarters. */
INLINE mask uneven(val tagged)
{
  return bits_differ(bits_and(tagged, whole(1)), whole(0));
}

/* With - where bit 1 of the quarters is set. */
INLINE val turned_by(val x, val quarters)
{
  return (val)((words)x ^ (words)bits_up(bits_and(quarters, whole(2)), 30));
}

INLINE val sin_of(val x)
{
  angle a = reduce_to_tagged(x);
  val result = where(uneven(a.tagged), cosine_series(a.r), sine_series(a.r));
  result = turned_by(result, a.tagged);
  return where(x == real(0), x, result); /* -0 stays */
}

/* The sine one quarter on. */
INLINE val cos_of(val x)
{
  angle a = reduce_to_tagged(x);
  val result = where(uneven(a.tagged), sine_series(a.r), cosine_series(a.r));
  return turned_by(result, bits_add(a.tagged, whole(1)));
}

/* sin / cos; in uneven quarters -cos / sin. */
INLINE val tan_of(val x)
{
  angle a = reduce_to_tagged(x);
  val s = sine_series(a.r), c = cosine_series(a.r);
  mask odd = uneven(a.tagged);
  val result = where(odd, -c, s) / where(odd, s, c);
  return where(x == real(0), x, result);
}

TILE_OF_1(sin)
TILE_OF_1(cos)
TILE_OF_1(tan)
