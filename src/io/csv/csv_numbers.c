/* Short numbers, eight fields at a time (AVX-512). A field is loaded by its last bytes, so that its
 * digits stand at the end of a lane whatever their number; what stands before them becomes zeros.
 *
 *   ...,-12.5|,...     bytes before the end    . . . , - 1 2 . 5
 *                      lane                    0 0 0 0 0 0 1 2 5    and 1 digit behind the point
 *
 * Invariant: a field is taken only if it is what tsr__csv_classify calls a number, with the same
 * value: its digits make an integer below 2^53, so one division rounds correctly. */
#include "io/csv/csv_inner.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512bw,avx512dq,avx512cd,avx512vl,bmi,popcnt")))
#define INLINE static inline __attribute__((always_inline)) TARGET

/* Eight fields: where they end, and how long they are. */
struct eight {
  __m512i end, length;
};

INLINE struct eight load_places(const tsr__csv_fields *f, int row)
{
  /* A field begins one behind where the one before it ends. -1, before the first one of a text,
   * becomes 0. */
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i before = _mm256_mullo_epi32(lanes, _mm256_set1_epi32((int)f->before_step));
  __m256i end = _mm256_mullo_epi32(lanes, _mm256_set1_epi32((int)f->end_step));
  const int *from = (const int *)(const void *)(f->before + (size_t)row * f->before_step);
  const int *to = (const int *)(const void *)(f->end + (size_t)row * f->end_step);
  __m256i begins = _mm256_i32gather_epi32(from, before, 4),
          ends = _mm256_i32gather_epi32(to, end, 4);
  begins = _mm256_add_epi32(begins, _mm256_set1_epi32(1));
  return (struct eight){ _mm512_cvtepu32_epi64(ends),
                         _mm512_cvtepu32_epi64(_mm256_sub_epi32(ends, begins)) };
}

/* The lanes' eight bytes that end `back` bytes before the fields' ends. These may begin before the
 * text: TSR__CSV_FRONT bytes stand there. */
INLINE __m512i load_bytes(const tsr__csv_fields *f, __m512i end, int back)
{
  return _mm512_i64gather_epi64(end, (const void *)(f->base - back), 1);
}

/* Makes all but the last `length` bytes of each lane '0'; lengths beyond 8 are 8, below 0 are 0. */
INLINE __m512i blank_before(__m512i x, __m512i length)
{
  const __m512i zeros = _mm512_set1_epi8('0'), eight = _mm512_set1_epi64(8);
  length = _mm512_max_epi64(_mm512_min_epi64(length, eight), _mm512_setzero_si512());
  __m512i shift = _mm512_slli_epi64(_mm512_sub_epi64(eight, length), 3);
  __m512i keep = _mm512_sllv_epi64(_mm512_set1_epi64(-1), shift);
  return _mm512_ternarylogic_epi64(keep, x, zeros, 0xca); /* keep ? x : zeros */
}

/* The number that eight digits in each lane are; `*bad`: lanes that hold something else. */
INLINE __m512i digits_of(__m512i x, __mmask8 *bad)
{
  /* Saturating: what is above 9 stays above 0. A byte below '0' wraps round to a large one. */
  __m512i d = _mm512_sub_epi8(x, _mm512_set1_epi8('0'));
  __m512i over = _mm512_subs_epu8(d, _mm512_set1_epi8(9));
  *bad |= _mm512_test_epi64_mask(over, over);
  /* Neighbours become one number, three times: 10 a + b in 16 bits, 100 a + b in 32 and 10,000 a +
   * b in 64. The first byte has the lowest address, so it is the low half. */
  __m512i two = _mm512_maddubs_epi16(d, _mm512_set1_epi16(0x010a));
  __m512i four = _mm512_madd_epi16(two, _mm512_set1_epi32(0x00010064));
  __m512i high = _mm512_mul_epu32(four, _mm512_set1_epi64(10000));
  return _mm512_add_epi64(high, _mm512_srli_epi64(four, 32));
}

/* Lanes whose field begins with a minus; the byte becomes '0' in x, where the last `length` bytes
 * of the lane begin. */
INLINE __mmask8 take_minus(__m512i *x, __m512i length)
{
  const __m512i eight = _mm512_set1_epi64(8);
  __m512i shift = _mm512_slli_epi64(_mm512_sub_epi64(eight, length), 3);
  __mmask8 within = _mm512_cmple_epi64_mask(length, eight) &
                    _mm512_cmpgt_epi64_mask(length, _mm512_setzero_si512());
  __m512i first = _mm512_and_si512(_mm512_srlv_epi64(*x, shift), _mm512_set1_epi64(0xff));
  __mmask8 minus = _mm512_mask_cmpeq_epi64_mask(within, first, _mm512_set1_epi64('-'));
  *x = _mm512_mask_xor_epi64(*x, minus, *x, _mm512_sllv_epi64(_mm512_set1_epi64('-' ^ '0'), shift));
  return minus;
}

TARGET uint64_t tsr__csv_integers_avx512(const tsr__csv_fields *f, int row, int count, int64_t *out)
{
  /* By the number of digits less one: below these it begins with a zero. */
  const __m512i least = _mm512_setr_epi64(0, 10, 100, 1000, 10000, 100000, 1000000, 10000000);
  uint64_t good = 0;
  /* Whole eights only. Rows behind the last of them have no bit in `good`: the caller reads
   * them. */
  for (int i = 0; i + 8 <= count; i += 8) {
    struct eight at = load_places(f, row + i);
    __m512i x = blank_before(load_bytes(f, at.end, 8), at.length);
    __mmask8 minus = take_minus(&x, at.length), bad = 0;
    __m512i value = digits_of(x, &bad), digits = _mm512_set1_epi64(1);
    digits = _mm512_sub_epi64(_mm512_mask_sub_epi64(at.length, minus, at.length, digits), digits);
    bad |= _mm512_cmplt_epi64_mask(value, _mm512_permutexvar_epi64(digits, least));
    value = _mm512_mask_sub_epi64(value, minus, _mm512_setzero_si512(), value);
    _mm512_storeu_si512(out + i, value);
    /* At least one digit, and all of the field in the eight bytes that were looked at. */
    bad |= _mm512_cmplt_epi64_mask(digits, _mm512_setzero_si512());
    bad |= _mm512_cmpgt_epi64_mask(at.length, _mm512_set1_epi64(8));
    good |= (uint64_t)(uint8_t)~bad << i;
  }
  return good;
}

/* Takes the point out of the last eight bytes of lanes that have one there: the digits before it
 * move up by a byte. `*places`: how many digits stand behind it. */
INLINE __mmask8 take_point(__m512i *low, __m512i *high, char point, __m512i *places)
{
  __m512i found = _mm512_movm_epi8(_mm512_cmpeq_epi8_mask(*low, _mm512_set1_epi8(point)));
  __mmask8 has = _mm512_test_epi64_mask(found, found);
  /* `first` has the lowest bit of the point's byte. A second point stays where it is and is no
   * digit. */
  __m512i first = _mm512_and_si512(found, _mm512_sub_epi64(_mm512_setzero_si512(), found));
  __m512i ones = _mm512_set1_epi64(-1);
  __m512i before = _mm512_add_epi64(first, ones);
  __m512i behind = _mm512_add_epi64(_mm512_slli_epi64(first, 8), ones);
  /* Bytes before the point move up into its place, those behind it stay, and the last byte of
   * `high` comes in from below. */
  __m512i moved = _mm512_slli_epi64(_mm512_and_si512(*low, before), 8);
  moved = _mm512_or_si512(moved, _mm512_andnot_si512(behind, *low));
  moved = _mm512_or_si512(moved, _mm512_srli_epi64(*high, 56));
  __m512i shifted = _mm512_or_si512(_mm512_slli_epi64(*high, 8), _mm512_set1_epi64('0'));
  *low = _mm512_mask_mov_epi64(*low, has, moved);
  *high = _mm512_mask_mov_epi64(*high, has, shifted);
  /* Whole bytes above the point's. */
  *places = _mm512_maskz_srli_epi64(has, _mm512_lzcnt_epi64(first), 3);
  return has;
}

TARGET uint64_t tsr__csv_reals_avx512(const tsr__csv_fields *f, int row, int count, char point,
                                      double *out)
{
  const __m512d tens = _mm512_setr_pd(1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7);
  const __m512i one = _mm512_set1_epi64(1), eight = _mm512_set1_epi64(8);
  /* As above, of up to 16 digits. */
  const __m512i least = _mm512_setr_epi64(0, 10, 100, 1000, 10000, 100000, 1000000, 10000000);
  const __m512i more =
      _mm512_mullo_epi64(_mm512_setr_epi64(1, 10, 100, 1000, 10000, 100000, 1000000, 10000000),
                         _mm512_set1_epi64(100000000));
  uint64_t good = 0;
  for (int i = 0; i + 8 <= count; i += 8) {
    struct eight at = load_places(f, row + i);
    __m512i above = _mm512_sub_epi64(at.length, eight), places;
    __m512i low = blank_before(load_bytes(f, at.end, 8), at.length);
    __m512i high = blank_before(load_bytes(f, at.end, 16), above);
    /* A field begins in one of the two halves; in the other one its length is out of range. */
    __mmask8 minus = take_minus(&low, at.length) | take_minus(&high, above), bad = 0;
    __mmask8 has = take_point(&low, &high, point, &places);
    __m512i whole = _mm512_mullo_epi64(digits_of(high, &bad), _mm512_set1_epi64(100000000));
    whole = _mm512_add_epi64(whole, digits_of(low, &bad));
    /* Both numbers are exact, so the quotient is rounded once: it is the nearest double. */
    __m512d value = _mm512_div_pd(_mm512_cvtepi64_pd(whole), _mm512_permutexvar_pd(places, tens));
    value = _mm512_mask_xor_pd(value, minus, value, _mm512_set1_pd(-0.0));
    _mm512_storeu_pd(out + i, value);
    /* The sign and the point are no digits. A point further to the left than `low` reaches is left
     * there, and is found bad as a digit. */
    __m512i digits = _mm512_mask_sub_epi64(at.length, minus, at.length, one);
    digits = _mm512_mask_sub_epi64(digits, has, digits, one);
    __m512i zeros = _mm512_permutex2var_epi64(least, _mm512_sub_epi64(digits, one), more);
    bad |= (__mmask8)~has & _mm512_cmplt_epi64_mask(whole, zeros); /* an integer that begins so */
    bad |= _mm512_cmplt_epi64_mask(digits, one);
    bad |= _mm512_cmpgt_epi64_mask(digits, _mm512_set1_epi64(15));
    bad |= _mm512_cmpgt_epi64_mask(at.length, _mm512_set1_epi64(16));
    good |= (uint64_t)(uint8_t)~bad << i;
  }
  return good;
}
#endif
