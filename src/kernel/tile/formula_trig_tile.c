/* sin, cos and tan. */
#include "kernel/tile/formula_trig.h"

INLINE val cos_of(val x)
{
  return turned_sine(x, 1);
}

/* tan r = t is r + r^3 / 3 + r^5 T(r^2), a part of which the low part turns by 1 + t^2. In odd
 * quarters the result is -1 / t, and the rounding error of that quotient is put back. */
INLINE val tan_of(val x)
{
  static const double t[] = { /* (tan r - r - r^3 / 3) / r^5 in r^2 */
                              0x1.f2d246ee3bba1p-18,  -0x1.d0c72b255faacp-17, 0x1.d6d4466e8996cp-16,
                              -0x1.b084cbbd4fdb5p-20, 0x1.9917180821fd8p-15,  0x1.87a10c42fb9aep-14,
                              0x1.f76c7abf53a80p-13,  0x1.3541e08403dd7p-11,  0x1.7da4be5ed2945p-10,
                              0x1.d6d3c354bab48p-9,   0x1.226e3586f3487p-7,   0x1.664f488242f0dp-6,
                              0x1.ba1ba1ba1c3bep-5,   0x1.1111111111110p-3
  };
  angle a = reduce_to_angle(x);
  val z = a.high * a.high, cube = z * a.high, one = real(1);
  val rest = (z * cube) * polynomial(z, t, 14);
  rest = fused(cube, real(0x1.5555555555555p-2), rest);
  val near = a.high + rest;
  rest = fused(a.low, fused(near, near, one), rest);
  near = a.high + rest;
  val inverse = real(-1) / near;
  val lack = fused(inverse, rest, fused(inverse, a.high, one));
  val result = where(has_bit(a.quarters, 1), fused(inverse, lack, inverse), near);
  return where(x == real(0), x, result);
}

TILE_OF_1(sin)
TILE_OF_1(cos)
TILE_OF_1(tan)
