/* Inside pack_tile.c and lines_tile.c: squares of elements of some lines, turned in registers.
 *
 * Squares are turned inside lanes of 16 bytes, a line each; registers with two lanes have the
 * following lines in the upper one.
 *
 *   a0 a1 a2 a3 | e0 e1 e2 e3        a0 b0 c0 d0 | e0 f0 g0 h0
 *   b0 b1 b2 b3 | f0 f1 f2 f3   to   a1 b1 c1 d1 | e1 f1 g1 h1
 *   c0 ...                           a2 ...                                                      */
#ifndef TSR_KERNEL_SQUARES_H
#define TSR_KERNEL_SQUARES_H

#include "kernel/tile/tile_inner.h"

#if defined(TILE_AVX512)
enum { LANES = 2 };
#define IN_LANES_4(a, b, c, d) a, b, c, d, (a) + 4, (b) + 4, (c) + 4, (d) + 4
#define IN_LANES_8(a, b) a, b, (a) + 2, (b) + 2
#else
enum { LANES = 1 };
#define IN_LANES_4(a, b, c, d) a, b, c, d
#define IN_LANES_8(a, b) a, b
#endif

/* A square has so many lines in a lane, and as many steps. */
enum { SQUARE_4 = 4, SQUARE_8 = 2, UP_4 = 4 * LANES, UP_8 = 2 * LANES };

#define LANE(T, size) \
  typedef T lanes_##size __attribute__((vector_size(16 * LANES), aligned(4), may_alias));
LANE(uint32_t, 4)
LANE(uint64_t, 8)

/* Loads line i and the line `square` further. */
#if defined(TILE_AVX512)
INLINE lanes_8 join_lanes(const void *low, const void *high)
{
  const __m256i first = _mm256_castsi128_si256(_mm_loadu_si128(low));
  return (lanes_8)_mm256_inserti128_si256(first, _mm_loadu_si128(high), 1);
}
#define READ(i, square) join_lanes(from + line[i], from + line[(i) + (square)])
#else
#define READ(i, square) (*(const lanes_8 *)(const void *)(from + line[i]))
#endif

#define LOW_8(a, b) __builtin_shufflevector(a, b, IN_LANES_8(0, UP_8))
#define HIGH_8(a, b) __builtin_shufflevector(a, b, IN_LANES_8(1, UP_8 + 1))
#define LOW_4(a, b) \
  (lanes_8) __builtin_shufflevector((lanes_4)(a), (lanes_4)(b), IN_LANES_4(0, UP_4, 1, UP_4 + 1))
#define HIGH_4(a, b) \
  (lanes_8)          \
      __builtin_shufflevector((lanes_4)(a), (lanes_4)(b), IN_LANES_4(2, UP_4 + 2, 3, UP_4 + 3))

/* to[i]: step i of all lines. Two rounds of pairs, as in a transpose of four by four by halves:
 *
 *    a0 b0 a1 b1      ab     by twos      a0 b0 c0 d0      first step
 *    c0 d0 c1 d1      cd                  a1 b1 c1 d1      second step */
INLINE void square_4(const uint32_t *from, const int64_t *line, lanes_4 *to)
{
  const lanes_8 a = READ(0, 4), b = READ(1, 4), c = READ(2, 4), d = READ(3, 4);
  const lanes_8 ab = LOW_4(a, b), cd = LOW_4(c, d), ab_2 = HIGH_4(a, b), cd_2 = HIGH_4(c, d);
  to[0] = (lanes_4)LOW_8(ab, cd);
  to[1] = (lanes_4)HIGH_8(ab, cd);
  to[2] = (lanes_4)LOW_8(ab_2, cd_2);
  to[3] = (lanes_4)HIGH_8(ab_2, cd_2);
}

INLINE void square_8(const uint64_t *from, const int64_t *line, lanes_8 *to)
{
  const lanes_8 a = READ(0, 2), b = READ(1, 2);
  to[0] = LOW_8(a, b);
  to[1] = HIGH_8(a, b);
}

#endif
