/* Smallest and largest: elements become order keys, and keys meet as integers.
 *
 *   i32 -> itself   f32 -> 32 bits   i64 -> itself   f64 -> 64 bits   in the dtype's width
 *   \______________________________________________________________/
 *                     one key of 64 bits a call (interp_tile.h)
 *
 * Invariant: key order is value order with -0 below +0, and a NaN's key lies beyond all others on
 * the side that wins, so the result depends on no order of the elements. */
#include "kernel/tile/tile_inner.h"

#include "kernel/device/bits.h"

INLINE int64_t f64_key(double v, int64_t nan)
{
  int64_t key = tsr__key_of_f64(v);
  return v == v ? key : nan;
}

INLINE int64_t best(int64_t a, int64_t b, bool largest)
{
  return largest ? (a > b ? a : b) : (a < b ? a : b);
}

/* The key that never wins, and the one that always does. An element of i64 may have that key, too,
 * which then is the result as well. */
INLINE int64_t losing_key(bool largest)
{
  return largest ? INT64_MIN : INT64_MAX;
}

INLINE int64_t key_of_nan(bool largest)
{
  return largest ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;
}

/* ---- all elements into one key -------------------------------------------------------------- */

#ifdef TILE_AVX512

/* Elements that the mask leaves out are not loaded and meet nothing. Two accumulators a and b,
 * since a minimum waits for the one before it: two chains hide that. */
#define MEET_INT(dtype, T, M, s)                                                                 \
  INLINE __m512i meet_##dtype(__m512i a, uint64_t bits, const T *x, bool largest)                \
  {                                                                                              \
    const M m = (M)bits;                                                                         \
    const __m512i v = _mm512_maskz_loadu_##s(m, x);                                              \
    return largest ? _mm512_mask_max_##s(a, m, a, v) : _mm512_mask_min_##s(a, m, a, v);          \
  }                                                                                              \
  INLINE int64_t across_##dtype(const T *x, int64_t n, const uint64_t *mask, bool largest)       \
  {                                                                                              \
    enum { LANES = 64 / sizeof(T) };                                                             \
    __m512i a = largest ? _mm512_set1_##s(LEAST_##dtype) : _mm512_set1_##s(MOST_##dtype), b = a; \
    for (int64_t at = 0; at < n; at += 64) {                                                     \
      const uint64_t bits = block_bits(mask, at, n);                                             \
      for (int k = 0; k < 64; k += 2 * LANES) {                                                  \
        a = meet_##dtype(a, bits >> k, x + at + k, largest);                                     \
        b = meet_##dtype(b, bits >> (k + LANES), x + at + k + LANES, largest);                   \
      }                                                                                          \
    }                                                                                            \
    if (largest) return _mm512_reduce_max_##s(_mm512_max_##s(a, b));                             \
    return _mm512_reduce_min_##s(_mm512_min_##s(a, b));                                          \
  }

/* vrange orders -0 before +0; NaN is looked for beside it. The intrinsic's last argument: 4 takes
 * the smaller one, 5 the larger one, with their own signs. */
#define MEET_FLOAT(dtype, T, V, M, s)                                                             \
  INLINE V meet_##dtype(V a, uint64_t bits, const T *x, bool largest, unsigned *odd)              \
  {                                                                                               \
    const M m = (M)bits;                                                                          \
    const V v = _mm512_maskz_loadu_##s(m, x);                                                     \
    *odd |= _mm512_cmp_##s##_mask(v, v, _CMP_UNORD_Q);                                            \
    return largest ? _mm512_mask_range_##s(a, m, a, v, 5) : _mm512_mask_range_##s(a, m, a, v, 4); \
  }                                                                                               \
  INLINE int64_t across_##dtype(const T *x, int64_t n, const uint64_t *mask, bool largest)        \
  {                                                                                               \
    enum { LANES = 64 / sizeof(T) };                                                              \
    V a = _mm512_set1_##s(largest ? -(T)INFINITY : (T)INFINITY), b = a;                           \
    unsigned odd = 0;                                                                             \
    for (int64_t at = 0; at < n; at += 64) {                                                      \
      const uint64_t bits = block_bits(mask, at, n);                                              \
      for (int k = 0; k < 64; k += 2 * LANES) {                                                   \
        a = meet_##dtype(a, bits >> k, x + at + k, largest, &odd);                                \
        b = meet_##dtype(b, bits >> (k + LANES), x + at + k + LANES, largest, &odd);              \
      }                                                                                           \
    }                                                                                             \
    if (odd) return key_of_nan(largest);                                                          \
    T lane[LANES];                                                                                \
    int64_t key = losing_key(largest);                                                            \
    _mm512_storeu_##s(lane, largest ? _mm512_range_##s(a, b, 5) : _mm512_range_##s(a, b, 4));     \
    for (int k = 0; k < LANES; k++) key = best(key, tsr__key_of_f64((double)lane[k]), largest);   \
    return key;                                                                                   \
  }

#define LEAST_i32 INT32_MIN
#define MOST_i32 INT32_MAX
#define LEAST_i64 INT64_MIN
#define MOST_i64 INT64_MAX

/* Which of the 64 elements from `at` on there are and count. */
INLINE uint64_t block_bits(const uint64_t *mask, int64_t at, int64_t n)
{
  uint64_t bits = mask ? mask[at / 64] : ~UINT64_C(0);
  return n - at < 64 ? bits & ((UINT64_C(1) << (n - at)) - 1) : bits;
}

MEET_INT(i32, int32_t, __mmask16, epi32)
MEET_INT(i64, int64_t, __mmask8, epi64)
MEET_FLOAT(f32, float, __m512, __mmask16, ps)
MEET_FLOAT(f64, double, __m512d, __mmask8, pd)

#else

/* The order key of an f32, as that of an f64. */
INLINE int32_t f32_key(float v, int32_t nan)
{
  int32_t bits;
  memcpy(&bits, &v, sizeof bits);
  bits ^= (int32_t)((uint32_t)(bits >> 31) >> 1);
  return v == v ? bits : nan;
}

/* The change of bits is its own way back. */
INLINE float f32_of_key(int32_t key)
{
  float value;
  key ^= (int32_t)((uint32_t)(key >> 31) >> 1);
  memcpy(&value, &key, sizeof value);
  return value;
}

/* Blocks of as many elements as a key K has bits meet in as many lanes; every loop has one shape,
 * which compilers turn into vectors. Elements that the mask leaves out become `none`. `take` is all
 * ones or all zeros, so the choice is two logical operations and no branch. The last block is
 * shorter: lanes after its end are `none`, too. */
#define BLOCKS(name, T, K, U, KEY)                                                        \
  INLINE K name(const T *x, int64_t n, const uint64_t *mask, bool largest, K nan, K none) \
  {                                                                                       \
    enum { BLOCK = 8 * sizeof(K) };                                                       \
    K lane[BLOCK], key[BLOCK];                                                            \
    (void)nan;                                                                            \
    for (int k = 0; k < BLOCK; k++) lane[k] = none;                                       \
    for (int64_t at = 0; at < n; at += BLOCK) {                                           \
      const U bits = mask ? (U)(mask[at / 64] >> (at % 64)) : (U)~UINT64_C(0);            \
      if (n - at >= BLOCK) {                                                              \
        for (int k = 0; k < BLOCK; k++) {                                                 \
          T v = x[at + k];                                                                \
          key[k] = KEY;                                                                   \
        }                                                                                 \
      } else {                                                                            \
        for (int k = 0; k < BLOCK; k++) {                                                 \
          T v = k < n - at ? x[at + k] : 0;                                               \
          key[k] = k < n - at ? KEY : none;                                               \
        }                                                                                 \
      }                                                                                   \
      for (int k = 0; k < BLOCK; k++) {                                                   \
        const K take = -(K)(bits >> k & 1);                                               \
        key[k] = (key[k] & take) | (none & ~take);                                        \
      }                                                                                   \
      if (largest)                                                                        \
        for (int k = 0; k < BLOCK; k++) lane[k] = lane[k] > key[k] ? lane[k] : key[k];    \
      else                                                                                \
        for (int k = 0; k < BLOCK; k++) lane[k] = lane[k] < key[k] ? lane[k] : key[k];    \
    }                                                                                     \
    for (int k = 1; k < BLOCK; k++) lane[0] = (K)best(lane[0], lane[k], largest);         \
    return lane[0];                                                                       \
  }

BLOCKS(blocks_i32, int32_t, int32_t, uint32_t, v)
BLOCKS(blocks_i64, int64_t, int64_t, uint64_t, v)
BLOCKS(blocks_f32, float, int32_t, uint32_t, f32_key(v, nan))
BLOCKS(blocks_f64, double, int64_t, uint64_t, f64_key(v, nan))

INLINE int64_t across_i32(const int32_t *x, int64_t n, const uint64_t *mask, bool largest)
{
  return blocks_i32(x, n, mask, largest, 0, largest ? INT32_MIN : INT32_MAX);
}

INLINE int64_t across_i64(const int64_t *x, int64_t n, const uint64_t *mask, bool largest)
{
  return blocks_i64(x, n, mask, largest, 0, losing_key(largest));
}

INLINE int64_t across_f32(const float *x, int64_t n, const uint64_t *mask, bool largest)
{
  const int32_t nan = largest ? INT32_MAX : INT32_MIN, none = largest ? INT32_MIN : INT32_MAX;
  const int32_t key = blocks_f32(x, n, mask, largest, nan, none);
  /* No element was taken, or only elements that never win: the caller treats both alike. */
  if (key == none) return losing_key(largest);
  return key == nan ? key_of_nan(largest) : tsr__key_of_f64((double)f32_of_key(key));
}

INLINE int64_t across_f64(const double *x, int64_t n, const uint64_t *mask, bool largest)
{
  return blocks_f64(x, n, mask, largest, key_of_nan(largest), losing_key(largest));
}
#endif

/* ---- the functions -------------------------------------------------------------------------- */

/* Each element meets the key that it stands beside. */
#define ALONG(T, KEY, largest)                               \
  for (int64_t i = 0; i < n; i++) {                          \
    T v = from[i];                                           \
    int64_t now = to.key[i], next = best(now, KEY, largest); \
    to.key[i] = tsr__taken(mask, i) ? next : now;            \
  }

/* `flat`: all elements meet in one key; else there is one for each of them. */
#define EXTREME(dtype, T, KEY)                                                                  \
  void TSR__ISA_NAME(tsr__extreme_##dtype)(tsr__extreme to, const void *x, int64_t n,           \
                                           const uint64_t *mask)                                \
  {                                                                                             \
    const T *from = x;                                                                          \
    const int64_t nan = key_of_nan(to.largest);                                                 \
    (void)nan;                                                                                  \
    if (to.flat && to.largest) *to.key = best(*to.key, across_##dtype(x, n, mask, true), true); \
    else if (to.flat) *to.key = best(*to.key, across_##dtype(x, n, mask, false), false);        \
    else if (to.largest) ALONG(T, KEY, true)                                                    \
    else ALONG(T, KEY, false)                                                                   \
  }

EXTREME(i32, int32_t, v)
EXTREME(i64, int64_t, v)
EXTREME(f32, float, f64_key((double)v, nan))
EXTREME(f64, double, f64_key(v, nan))
