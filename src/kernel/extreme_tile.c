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

#define ACROSS(T, KEY, largest, nan, other)                                     \
  {                                                                             \
    int64_t lane[8];                                                            \
    for (int k = 0; k < 8; k++) lane[k] = other;                                \
    for (int64_t at = 0; at < n; at += 8) {                                     \
      int64_t key[8];                                                           \
      int64_t count = n - at < 8 ? n - at : 8;                                  \
      uint64_t bits = mask ? mask[at / 64] >> (at % 64) : ~UINT64_C(0);         \
      if (count == 8)                                                           \
        for (int k = 0; k < 8; k++) {                                           \
          T v = from[at + k];                                                   \
          key[k] = KEY;                                                         \
        }                                                                       \
      else                                                                      \
        for (int k = 0; k < 8; k++) {                                           \
          T v = k < count ? from[at + k] : 0;                                   \
          key[k] = k < count ? KEY : other;                                     \
        }                                                                       \
      for (int k = 0; k < 8; k++) key[k] = bits >> k & 1 ? key[k] : other;      \
      for (int k = 0; k < 8; k++) lane[k] = best(lane[k], key[k], largest);     \
    }                                                                           \
    for (int k = 0; k < 8; k++) *to.key = best(*to.key, lane[k], largest);      \
  }

#define ALONG(T, KEY, largest, nan)                                             \
  for (int64_t i = 0; i < n; i++) {                                             \
    T v = from[i];                                                              \
    int64_t now = to.key[i], next = best(now, KEY, largest);                    \
    to.key[i] = !mask || taken(mask, i) ? next : now;                           \
  }

#define EXTREME(dtype, T, KEY)                                                          \
  void TSR__ISA_NAME(tsr__extreme_##dtype)(tsr__extreme to, const void *x, int64_t n,   \
                                           const uint64_t *mask)                        \
  {                                                                                     \
    const T *from = x;                                                                  \
    const int64_t nan = to.largest ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;               \
    const int64_t least = INT64_MIN, most = INT64_MAX;                                  \
    (void)nan;                                                                          \
    if (to.flat && to.largest)                                                          \
      ACROSS(T, KEY, true, nan, least)                                                  \
    else if (to.flat)                                                                   \
      ACROSS(T, KEY, false, nan, most)                                                  \
    else if (to.largest)                                                                \
      ALONG(T, KEY, true, nan)                                                          \
    else                                                                                \
      ALONG(T, KEY, false, nan)                                                         \
  }

EXTREME(i32, int32_t, v)
EXTREME(i64, int64_t, v)
EXTREME(f32, float, f64_key((double)v, nan))
EXTREME(f64, double, f64_key(v, nan))
