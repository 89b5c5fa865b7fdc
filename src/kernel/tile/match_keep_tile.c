/* Elements of the rows that a join keeps, moved together: a row is kept by whether its match is
 * there.
 *
 *   match  7 - 3 - - 1      from  a b c d e f      out  a c f       (hits)    b d e   (misses)
 *
 * Invariant: nothing beyond the `kept` elements is written; elements after them may be another
 * task's. */
#include "kernel/tile/tile_inner.h"

/* Each element is written, and stays if it is kept. */
#define KEEP(name, T)                                                                 \
  void TSR__ISA_NAME(tsr__##name)(void *out, const void *from, const tsr__keep *keep) \
  {                                                                                   \
    const T *x = from;                                                                \
    T *to = out;                                                                      \
    int64_t at = 0;                                                                   \
    for (int64_t i = 0; at < keep->kept; i++) {                                       \
      to[at] = x[i];                                                                  \
      at += (keep->match[i] != UINT32_MAX) == keep->hits;                             \
    }                                                                                 \
  }

KEEP(keep_8, uint8_t)
KEEP(keep_16, uint16_t)

#if defined(TILE_AVX512)

/* The lanes of 16 rows (of those that are left) that are kept. */
INLINE __mmask16 kept_lanes(const uint32_t *match, int64_t left, bool hits)
{
  __mmask16 here = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xFFFFu);
  __m512i row = _mm512_maskz_loadu_epi32(here, match);
  __mmask16 hit = _mm512_mask_cmpneq_epi32_mask(here, row, _mm512_set1_epi32(-1));
  return hits ? hit : (__mmask16)(here & ~hit);
}

/* Lanes that are kept are packed to the front, and only so many are stored. */
void TSR__ISA_NAME(tsr__keep_32)(void *out, const void *from, const tsr__keep *keep)
{
  const uint32_t *x = from;
  uint32_t *to = out;
  for (int64_t i = 0; i < keep->rows; i += 16) {
    __mmask16 lanes = kept_lanes(keep->match + i, keep->rows - i, keep->hits);
    __m512i packed = _mm512_maskz_compress_epi32(lanes, _mm512_maskz_loadu_epi32(lanes, x + i));
    int count = __builtin_popcount(lanes);
    _mm512_mask_storeu_epi32(to, (__mmask16)((1u << count) - 1), packed);
    to += count;
  }
}

void TSR__ISA_NAME(tsr__keep_64)(void *out, const void *from, const tsr__keep *keep)
{
  const uint64_t *x = from;
  uint64_t *to = out;
  for (int64_t i = 0; i < keep->rows; i += 16) {
    __mmask16 both = kept_lanes(keep->match + i, keep->rows - i, keep->hits);
    for (int half = 0; half < 2; half++) {
      __mmask8 lanes = (__mmask8)(both >> (8 * half));
      __m512i packed =
          _mm512_maskz_compress_epi64(lanes, _mm512_maskz_loadu_epi64(lanes, x + i + 8 * half));
      int count = __builtin_popcount(lanes);
      _mm512_mask_storeu_epi64(to, (__mmask8)((1u << count) - 1), packed);
      to += count;
    }
  }
}

#else

KEEP(keep_32, uint32_t)
KEEP(keep_64, uint64_t)

#endif
