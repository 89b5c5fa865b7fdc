/* Smallest and largest: elements become order keys, and keys meet as integers.
 *
 * Invariant: key order is value order with -0 below +0, and a NaN's key lies beyond all others on
 * the side that wins, so the result depends on no order of the elements. */
#include "kernel/tile_inner.h"

INLINE int64_t f64_key(double v, int64_t nan)
{
  int64_t key = tsr__key_of_f64(v);
  return v == v ? key : nan;
}

INLINE bool taken(const uint64_t *mask, int64_t i)
{
  return mask[i / 64] >> (i % 64) & 1;
}

/* Elements that the mask leaves out become the other end, which never wins. */
INLINE int64_t best(int64_t a, int64_t b, bool largest)
{
  return largest ? (a > b ? a : b) : (a < b ? a : b);
}

enum { BLOCK = 64 };

/* Blocks of 64 meet in 64 lanes; every loop has one shape, which compilers turn into vectors. */
#define ACROSS(T, KEY, largest, nan, other)                                     \
  {                                                                             \
    int64_t lane[BLOCK], key[BLOCK];                                            \
    for (int k = 0; k < BLOCK; k++) lane[k] = other;                            \
    for (int64_t at = 0; at < n; at += BLOCK) {                                 \
      uint64_t bits = mask ? mask[at / 64] : ~UINT64_C(0);                      \
      if (n - at >= BLOCK) {                                                    \
        for (int k = 0; k < BLOCK; k++) {                                       \
          T v = from[at + k];                                                   \
          key[k] = KEY;                                                         \
        }                                                                       \
      } else {                                                                  \
        for (int k = 0; k < BLOCK; k++) {                                       \
          T v = k < n - at ? from[at + k] : 0;                                  \
          key[k] = k < n - at ? KEY : other;                                    \
        }                                                                       \
      }                                                                         \
      for (int k = 0; k < BLOCK; k++) {                                         \
        const int64_t take = -(int64_t)(bits >> k & 1);                         \
        key[k] = (key[k] & take) | (other & ~take);                             \
      }                                                                         \
      for (int k = 0; k < BLOCK; k++) lane[k] = best(lane[k], key[k], largest); \
    }                                                                           \
    for (int k = 0; k < BLOCK; k++) *to.key = best(*to.key, lane[k], largest);  \
  }

#define ALONG(T, KEY, largest, nan)                          \
  for (int64_t i = 0; i < n; i++) {                          \
    T v = from[i];                                           \
    int64_t now = to.key[i], next = best(now, KEY, largest); \
    to.key[i] = !mask || taken(mask, i) ? next : now;        \
  }

#define EXTREME_LINKAGE_i32
#define EXTREME_LINKAGE_i64
#define EXTREME_LINKAGE_f32
#define EXTREME_LINKAGE_f64
#define EXTREME_LINKAGE_f64_by_key static

#define EXTREME(dtype, T, KEY)                                                               \
  EXTREME_LINKAGE_##dtype void TSR__ISA_NAME(                                                \
      tsr__extreme_##dtype)(tsr__extreme to, const void *x, int64_t n, const uint64_t *mask) \
  {                                                                                          \
    const T *from = x;                                                                       \
    const int64_t nan = to.largest ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;                    \
    const int64_t least = INT64_MIN, most = INT64_MAX;                                       \
    (void)nan;                                                                               \
    if (to.flat && to.largest) ACROSS(T, KEY, true, nan, least)                              \
    else if (to.flat) ACROSS(T, KEY, false, nan, most)                                       \
    else if (to.largest) ALONG(T, KEY, true, nan)                                            \
    else ALONG(T, KEY, false, nan)                                                           \
  }

#ifdef TILE_AVX512
/* vrangepd orders -0 before +0; NaN is looked for beside it. Its last argument: 4 takes the smaller
 * one, 5 the larger one, with their own signs. */
#define RANGE_F64(name, choice)                                                           \
  INLINE double name(const double *x, int64_t n, const uint8_t *mask, bool *nan)          \
  {                                                                                       \
    const double none = (choice) == 4 ? (double)INFINITY : -(double)INFINITY;             \
    __m512d a = _mm512_set1_pd(none), b = a;                                              \
    unsigned odd = 0;                                                                     \
    int64_t i = 0;                                                                        \
    for (; i + 16 <= n; i += 16) {                                                        \
      __mmask8 m = mask ? mask[i / 8] : 0xff, m2 = mask ? mask[i / 8 + 1] : 0xff;         \
      __m512d v = _mm512_loadu_pd(x + i), w = _mm512_loadu_pd(x + i + 8);                 \
      odd |= _mm512_mask_cmp_pd_mask(m, v, v, _CMP_UNORD_Q);                              \
      odd |= _mm512_mask_cmp_pd_mask(m2, w, w, _CMP_UNORD_Q);                             \
      a = _mm512_mask_range_pd(a, m, a, v, choice);                                       \
      b = _mm512_mask_range_pd(b, m2, b, w, choice);                                      \
    }                                                                                     \
    for (; i < n; i += 8) {                                                               \
      unsigned some = n - i < 8 ? (1u << (n - i)) - 1 : 0xff;                             \
      __mmask8 m = (__mmask8)(mask ? mask[i / 8] & some : some);                          \
      __m512d v = _mm512_maskz_loadu_pd(m, x + i);                                        \
      odd |= _mm512_mask_cmp_pd_mask(m, v, v, _CMP_UNORD_Q);                              \
      a = _mm512_mask_range_pd(a, m, a, v, choice);                                       \
    }                                                                                     \
    *nan = odd != 0;                                                                      \
    double lane[8];                                                                       \
    _mm512_storeu_pd(lane, _mm512_range_pd(a, b, choice));                                \
    int64_t key = tsr__key_of_f64(lane[0]);                                               \
    for (int k = 1; k < 8; k++) key = best(key, tsr__key_of_f64(lane[k]), (choice) == 5); \
    return tsr__f64_of_key(key);                                                          \
  }

RANGE_F64(smallest, 4)
RANGE_F64(largest_of, 5)

INLINE void across_f64(tsr__extreme to, const double *x, int64_t n, const uint64_t *mask)
{
  bool nan;
  const uint8_t *bytes = (const uint8_t *)mask;
  double value = to.largest ? largest_of(x, n, bytes, &nan) : smallest(x, n, bytes, &nan);
  int64_t key = tsr__key_of_f64(value);
  if (nan) key = to.largest ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;
  *to.key = best(*to.key, key, to.largest);
}
#endif

EXTREME(i32, int32_t, v)
EXTREME(i64, int64_t, v)
EXTREME(f32, float, f64_key((double)v, nan))
#ifdef TILE_AVX512
EXTREME(f64_by_key, double, f64_key(v, nan))

void TSR__ISA_NAME(tsr__extreme_f64)(tsr__extreme to, const void *x, int64_t n,
                                     const uint64_t *mask)
{
  if (to.flat) across_f64(to, x, n, mask);
  else TSR__ISA_NAME(tsr__extreme_f64_by_key)(to, x, n, mask);
}
#else
EXTREME(f64, double, f64_key(v, nan))
#endif
