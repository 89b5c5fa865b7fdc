/* The vectors that the exact reducers are written in: LANES doubles, their bits, and masks. Only
 * *_tile.c files include this; the compiler's flags decide LANES. Vector arithmetic is that of GNU
 * C; an intrinsic or, for the baseline, a plain form supplies the rest. All functions are forced
 * inline so that no vector crosses a call. */
#ifndef TSR_KERNEL_EXACT_LANES_H
#define TSR_KERNEL_EXACT_LANES_H

#include <stdint.h>
#include <string.h>

#include "kernel/exact/exact_tile.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define LANES 8
#define LANES_AVX512
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#define LANES 4
#define LANES_AVX2
#include <immintrin.h>
#else
#define LANES 2
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#endif

#define INLINE static inline __attribute__((always_inline))

typedef double vd __attribute__((vector_size(8 * LANES)));
typedef int64_t vi __attribute__((vector_size(8 * LANES)));
typedef uint64_t vu __attribute__((vector_size(8 * LANES)));
typedef float vf __attribute__((vector_size(4 * LANES)));    /* LANES floats: half as wide */
typedef uint32_t vw __attribute__((vector_size(8 * LANES))); /* as wide: twice as many */
typedef int32_t vh __attribute__((vector_size(4 * LANES)));  /* LANES ints: half as wide */

/* A choice of lanes. */
#ifdef LANES_AVX512
typedef __mmask8 vm;
#else
typedef vi vm;
#endif

INLINE vd all(double value)
{
  return value - (vd){ 0 }; /* not plus: -0 stays -0 */
}

INLINE vi all_bits(int64_t value)
{
  return value + (vi){ 0 };
}

/* Like tsr__two_sum, a lane each: six additions, none of which is contracted or reordered. */
INLINE vd two_sum_of_lanes(vd a, vd b, vd *low)
{
  vd sum = a + b;
  vd part = sum - a;
  *low = (a - (sum - part)) + (b - part);
  return sum;
}

INLINE vd load_doubles(const double *from)
{
  vd out;
  memcpy(&out, from, sizeof out);
  return out;
}

INLINE vd load_floats(const float *from)
{
#if defined(LANES_AVX512)
  return _mm512_cvtps_pd(_mm256_loadu_ps(from));
#elif defined(LANES_AVX2)
  return _mm256_cvtps_pd(_mm_loadu_ps(from));
#else
  vf out;
  memcpy(&out, from, sizeof out);
  return __builtin_convertvector(out, vd);
#endif
}

INLINE vi load_i64(const int64_t *from)
{
  vi out;
  memcpy(&out, from, sizeof out);
  return out;
}

INLINE vi load_i32(const int32_t *from)
{
#if defined(LANES_AVX512)
  return (vi)_mm512_cvtepi32_epi64(_mm256_loadu_si256((const void *)from));
#elif defined(LANES_AVX2)
  return (vi)_mm256_cvtepi32_epi64(_mm_loadu_si128((const void *)from));
#else
  vh out;
  memcpy(&out, from, sizeof out);
  return __builtin_convertvector(out, vi);
#endif
}

/* The first `count` < LANES integers, the other lanes 0. */
INLINE vi load_some_i64(const int64_t *from, int count)
{
  vi out = { 0 };
  for (int i = 0; i < LANES; i++)
    if (i < count) out[i] = from[i];
  return out;
}

INLINE vi load_some_i32(const int32_t *from, int count)
{
  vi out = { 0 };
  for (int i = 0; i < LANES; i++)
    if (i < count) out[i] = from[i];
  return out;
}

INLINE void store_doubles(double *to, vd value)
{
  memcpy(to, &value, sizeof value);
}

/* Rounded to f32 each. */
INLINE void store_floats(float *to, vd value)
{
#if defined(LANES_AVX512)
  _mm256_storeu_ps(to, _mm512_cvtpd_ps(value));
#elif defined(LANES_AVX2)
  _mm_storeu_ps(to, _mm256_cvtpd_ps(value));
#else
  vf out = __builtin_convertvector(value, vf);
  memcpy(to, &out, sizeof out);
#endif
}

/* The first `count` < LANES elements, the other lanes 0; reads nothing after them. */
INLINE vd load_some_doubles(const double *from, int count)
{
#ifdef LANES_AVX512
  return _mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), from);
#else
  vd out = { 0 };
  for (int i = 0; i < LANES; i++)
    if (i < count) out[i] = from[i];
  return out;
#endif
}

INLINE vd load_some_f32(const float *from, int count)
{
#ifdef LANES_AVX512
  return _mm512_cvtps_pd(_mm256_maskz_loadu_ps((__mmask8)((1u << count) - 1), from));
#else
  vd out = { 0 };
  for (int i = 0; i < LANES; i++)
    if (i < count) out[i] = (double)from[i];
  return out;
#endif
}

/* Lane i is chosen if bit i is set; bits from LANES on do not matter. */
INLINE vm mask_of_bits(unsigned bits)
{
#if defined(LANES_AVX512)
  return (__mmask8)bits;
#elif defined(LANES_AVX2)
  static const int64_t lanes[16][4] __attribute__((aligned(32))) = {
    { 0, 0, 0, 0 },   { -1, 0, 0, 0 },   { 0, -1, 0, 0 },   { -1, -1, 0, 0 },
    { 0, 0, -1, 0 },  { -1, 0, -1, 0 },  { 0, -1, -1, 0 },  { -1, -1, -1, 0 },
    { 0, 0, 0, -1 },  { -1, 0, 0, -1 },  { 0, -1, 0, -1 },  { -1, -1, 0, -1 },
    { 0, 0, -1, -1 }, { -1, 0, -1, -1 }, { 0, -1, -1, -1 }, { -1, -1, -1, -1 },
  };
  return load_i64(lanes[bits & 15]);
#else
  static const int64_t lanes[4][2]
      __attribute__((aligned(16))) = { { 0, 0 }, { -1, 0 }, { 0, -1 }, { -1, -1 } };
  return load_i64(lanes[bits & 3]);
#endif
}

INLINE vm both_masks(vm a, vm b)
{
#ifdef LANES_AVX512
  return _kand_mask8(a, b);
#else
  return a & b;
#endif
}

INLINE unsigned chosen(vm mask)
{
#if defined(LANES_AVX512)
  return mask;
#elif defined(LANES_AVX2)
  return (unsigned)_mm256_movemask_pd((__m256d)mask);
#elif defined(__SSE2__)
  return (unsigned)_mm_movemask_pd((__m128d)mask);
#else
  return (unsigned)(mask[0] & 1) | (unsigned)(mask[1] & 2);
#endif
}

/* The lanes in which all bits of `test` are 0. */
INLINE vm no_bits_of(vi bits, vi test)
{
#ifdef LANES_AVX512
  return _mm512_testn_epi64_mask((__m512i)bits, (__m512i)test);
#else
  return (bits & test) == 0;
#endif
}

/* bits(value) - first, as wrapping whole numbers. */
INLINE vi distance(vd value, vi first)
{
  return (vi)((vu)value - (vu)first);
}

INLINE vi or3(vi a, vi b, vi c)
{
#ifdef LANES_AVX512
  return (vi)_mm512_ternarylogic_epi64((__m512i)a, (__m512i)b, (__m512i)c, 0xfe);
#else
  return a | b | c;
#endif
}

/* a + b in the chosen lanes, a in the others. */
INLINE vd add_some(vm mask, vd a, vd b)
{
#ifdef LANES_AVX512
  return _mm512_mask_add_pd(a, mask, a, b);
#else
  return a + (vd)((vi)b & mask); /* adding +0 could only turn -0 into +0: no sum starts so */
#endif
}

/* Which lanes are smaller in size than `limit`: NaN is not. Positive doubles are in the order of
 * their bits. */
INLINE vm smaller(vd value, double limit)
{
  vi bits = (vi)value & INT64_MAX, border = (vi)all(limit);
#ifdef LANES_AVX512
  return _mm512_cmplt_epi64_mask((__m512i)bits, (__m512i)border);
#else
  return bits < border;
#endif
}

/* Lane by lane, as numbers without sign. */
INLINE vw larger_words(vw a, vw b)
{
#if defined(LANES_AVX512)
  return (vw)_mm512_max_epu32((__m512i)a, (__m512i)b);
#elif defined(LANES_AVX2)
  return (vw)_mm256_max_epu32((__m256i)a, (__m256i)b);
#else
  vw less = (vw)(a < b);
  return (b & less) | (a & ~less);
#endif
}

INLINE vw lesser(vw a, vw b)
{
#if defined(LANES_AVX512)
  return (vw)_mm512_min_epu32((__m512i)a, (__m512i)b);
#elif defined(LANES_AVX2)
  return (vw)_mm256_min_epu32((__m256i)a, (__m256i)b);
#else
  vw less = (vw)(a < b);
  return (a & less) | (b & ~less);
#endif
}

/* Whether a lane is larger than `limit`. */
INLINE bool any_beyond(vw value, uint32_t limit)
{
#if defined(LANES_AVX512)
  return _mm512_cmpgt_epu32_mask((__m512i)value, _mm512_set1_epi32((int)limit)) != 0;
#elif defined(LANES_AVX2)
  return _mm256_movemask_epi8((__m256i)(value > limit)) != 0;
#else
  vi beyond = (vi)(value > limit);
  return (beyond[0] | beyond[1]) != 0;
#endif
}

/* Which lanes are equal, as numbers: NaN is not. */
INLINE vm equal(vd a, vd b)
{
#ifdef LANES_AVX512
  return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_EQ_OQ);
#else
  return a == b;
#endif
}

/* The chosen lanes, 0 in the others. */
INLINE vd keep_lanes(vm mask, vd value)
{
#ifdef LANES_AVX512
  return _mm512_maskz_mov_pd(mask, value);
#else
  return (vd)((vi)value & mask);
#endif
}

INLINE vi keep_bits(vm mask, vi value)
{
#ifdef LANES_AVX512
  return (vi)_mm512_maskz_mov_epi64(mask, (__m512i)value);
#else
  return value & mask;
#endif
}

/* Lane by lane: `yes` where chosen, else `no`. */
INLINE vd pick_lanes(vm mask, vd yes, vd no)
{
#ifdef LANES_AVX512
  return _mm512_mask_mov_pd(no, mask, yes);
#else
  return (vd)(((vi)yes & mask) | ((vi)no & ~mask));
#endif
}

/* The sum of the lanes; callers see to it that no addition rounds. */
INLINE double sum_of_lanes(vd value)
{
#if defined(LANES_AVX512)
  return _mm512_reduce_add_pd(value);
#elif defined(LANES_AVX2)
  return (value[0] + value[1]) + (value[2] + value[3]);
#else
  return value[0] + value[1];
#endif
}

/* x * x as two terms: *product is the rounded one, the result is the rounding error. Exact while
 * neither overflows nor reaches below 2^-1074. Without an fma: halves of 26 bits (Dekker 1971). */
INLINE vd square_terms(vd x, vd *product)
{
  vd p = x * x;
  *product = p;
#if defined(LANES_AVX512)
  return _mm512_fmsub_pd(x, x, p);
#elif defined(LANES_AVX2)
  return _mm256_fmsub_pd(x, x, p);
#else
  vd wide = x * 134217729.0; /* 2^27 + 1 */
  vd high = wide - (wide - x);
  vd low = x - high;
  return ((high * high - p) + (high + high) * low) + low * low;
#endif
}

/* to + x * x and x * x - from where the square is exact, as of f32: then it is rounded once,
 * fused or not. Fused, the product goes another way through the core than the additions beside
 * it. */
INLINE vd add_square(vd to, vd x)
{
#if defined(LANES_AVX512)
  return _mm512_fmadd_pd(x, x, to);
#elif defined(LANES_AVX2)
  return _mm256_fmadd_pd(x, x, to);
#else
  return to + x * x;
#endif
}

INLINE vd square_less(vd x, vd from)
{
#if defined(LANES_AVX512)
  return _mm512_fmsub_pd(x, x, from);
#elif defined(LANES_AVX2)
  return _mm256_fmsub_pd(x, x, from);
#else
  return x * x - from;
#endif
}

/* a + b by the way of products, for loops whose additions are in each other's way. */
INLINE vd add_aside(vd a, vd b)
{
#if defined(LANES_AVX512)
  return _mm512_fmadd_pd(b, all(1), a);
#elif defined(LANES_AVX2)
  return _mm256_fmadd_pd(b, all(1), a);
#else
  return a + b;
#endif
}

/* Entries of tsr__exact_ops that have a file of their own. */
void TSR__ISA_NAME(tsr__sum_i64)(tsr__i128 *sum, const int64_t *x, int n, const uint64_t *mask);
void TSR__ISA_NAME(tsr__sum_i32)(tsr__i128 *sum, const int32_t *x, int n, const uint64_t *mask);
void TSR__ISA_NAME(tsr__spread_i64)(tsr__int_spread *out, const int64_t *x, int n,
                                    const uint64_t *mask);
void TSR__ISA_NAME(tsr__spread_i32)(tsr__int_spread *out, const int32_t *x, int n,
                                    const uint64_t *mask);
void TSR__ISA_NAME(tsr__rows_add_f64)(tsr__rows *rows, int64_t first, const double *x, int64_t n,
                                      const uint64_t *mask);
void TSR__ISA_NAME(tsr__rows_add_f32)(tsr__rows *rows, int64_t first, const float *x, int64_t n,
                                      const uint64_t *mask);
void TSR__ISA_NAME(tsr__rows_square_f64)(tsr__rows *rows, int64_t first, const double *x, int64_t n,
                                         const uint64_t *mask);
void TSR__ISA_NAME(tsr__rows_square_f32)(tsr__rows *rows, int64_t first, const float *x, int64_t n,
                                         const uint64_t *mask);
void TSR__ISA_NAME(tsr__rows_down_f32)(tsr__rows_at at, const tsr__columns *x);
void TSR__ISA_NAME(tsr__few_f32)(double *out, uint64_t *left, const tsr__few *x);
void TSR__ISA_NAME(tsr__few_to_f32)(float *out, uint64_t *left, const tsr__few *x, double scale);
void TSR__ISA_NAME(tsr__few_f64)(double *out, uint64_t *left, const tsr__few *x);
void TSR__ISA_NAME(tsr__whole_units)(int64_t *out, uint64_t *left, const tsr__reals *x,
                                     double unit);
void TSR__ISA_NAME(tsr__rows_merge)(tsr__rows *into, int64_t first, const tsr__rows *from);

#endif
