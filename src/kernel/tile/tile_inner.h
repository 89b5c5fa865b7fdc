/* Inside *_tile.c files: masks, and names that carry the instruction set. */
#ifndef TSR_KERNEL_TILE_INNER_H
#define TSR_KERNEL_TILE_INNER_H

#include <math.h>

#include "kernel/tile/interp_tile.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define TILE_AVX512
#include <immintrin.h>
#elif defined(__AVX2__)
#define TILE_AVX2
#include <immintrin.h>
#elif defined(__SSE2__)
#define TILE_SSE2
#include <emmintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* Loops over elements that may be done in any order: operands never overlap the result. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* some operations have no vector form */
#define ANY_ORDER _Pragma("clang loop vectorize(enable) interleave(enable)")
#else
#define ANY_ORDER _Pragma("GCC ivdep")
#endif

/* A tile function's parameters, and its number of elements. */
#define UNUSED_3(a, b, c) ((void)(a), (void)(b), (void)(c))

#define OPERANDS void *restrict out, const void *a, const void *b, const void *c, tsr__stretch span
#define SPAN                           \
  const int64_t n = span.n;            \
  const unsigned scalar = span.scalar; \
  (void)scalar

/* A function of one operand; HEAD: its storage class, type and name. */
#define UNARY_AS(HEAD, T, R, EXPRESSION)      \
  HEAD(OPERANDS)                              \
  {                                           \
    SPAN;                                     \
    R *to = out;                              \
    const T *from = a;                        \
    UNUSED_3(b, c, scalar);                   \
    ANY_ORDER for (int64_t i = 0; i < n; i++) \
    {                                         \
      T v = from[i];                          \
      to[i] = EXPRESSION;                     \
    }                                         \
  }
#define UNARY(name, T, R, EXPRESSION) UNARY_AS(static void name, T, R, EXPRESSION)

/* 64 bytes that are 0 or 1, as bits. */
INLINE uint64_t pack64(const uint8_t *byte)
{
  uint64_t bits = 0;
#if defined(TILE_AVX512)
  __m512i v = _mm512_loadu_si512(byte);
  bits = _mm512_test_epi8_mask(v, v);
#elif defined(TILE_AVX2)
  for (int i = 0; i < 2; i++) {
    __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(byte + 32 * i));
    v = _mm256_sub_epi8(_mm256_setzero_si256(), v);
    bits |= (uint64_t)(uint32_t)_mm256_movemask_epi8(v) << (32 * i);
  }
#elif defined(TILE_SSE2)
  for (int i = 0; i < 4; i++) {
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(byte + 16 * i));
    v = _mm_sub_epi8(_mm_setzero_si128(), v);
    bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(v) << (16 * i);
  }
#else
  for (int i = 0; i < 64; i++) bits |= (uint64_t)byte[i] << i;
#endif
  return bits;
}

/* An i64 as f64, rounded once. Without an instruction for it: both halves are placed in the
 * mantissas of 2^84 and 2^52, which are taken off again; only the last addition rounds. */
INLINE double f64_of_i64(int64_t value)
{
#if defined(TILE_AVX512)
  return (double)value;
#else
  uint64_t high = ((uint64_t)value >> 32) ^ UINT64_C(0x4530000080000000);
  uint64_t low = ((uint64_t)value & UINT64_C(0xffffffff)) | UINT64_C(0x4330000000000000);
  double upper, lower;
  memcpy(&upper, &high, sizeof upper);
  memcpy(&lower, &low, sizeof lower);
  return (upper - 0x1.00000801p84) + lower;
#endif
}

/* The parts of tsr__tiles that have files of their own. */
#define TILE_EXTREME(dtype)                                                           \
  void TSR__ISA_NAME(tsr__extreme_##dtype)(tsr__extreme to, const void *x, int64_t n, \
                                           const uint64_t *mask);
TILE_EXTREME(i32)
TILE_EXTREME(i64)
TILE_EXTREME(f32)
TILE_EXTREME(f64)
#define TILE_SEARCH(dtype)                                                         \
  void TSR__ISA_NAME(tsr__search_##dtype)(int64_t * out, const void *x, int64_t n, \
                                          const void *table, int64_t count);
TILE_SEARCH(i32)
TILE_SEARCH(i64)
TILE_SEARCH(u32)
TILE_SEARCH(u64)
TILE_SEARCH(f32)
TILE_SEARCH(f64)
#define TILE_KEEP(name) \
  void TSR__ISA_NAME(tsr__##name)(void *out, const void *from, const tsr__keep *keep);
TILE_KEEP(keep_8)
TILE_KEEP(keep_16)
TILE_KEEP(keep_32)
TILE_KEEP(keep_64)
bool TSR__ISA_NAME(tsr__aim)(int64_t *place, const void *at, int64_t n, const tsr__aiming *aim);
bool TSR__ISA_NAME(tsr__units)(uint64_t *low, uint64_t *high, const double *x, int n,
                               const tsr__unit *unit);
/* Products of panels: registers are 16 (AVX-512: 32) vectors, HIGH rows of two, the two of the
 * right, and one of the left. */
#if defined(TILE_AVX512)
enum { PRODUCT_BYTES = 64, PRODUCT_HIGH = 14 };
#elif defined(TILE_AVX2)
enum { PRODUCT_BYTES = 32, PRODUCT_HIGH = 6 };
#else
enum { PRODUCT_BYTES = 16, PRODUCT_HIGH = 6 };
#endif
#define TILE_LINES(kind) void TSR__ISA_NAME(tsr__lines_##kind)(const tsr__lines_product *job);
TILE_LINES(f32)
TILE_LINES(f64)
TILE_LINES(u32)
TILE_LINES(u64)
/* The dtypes that can be packed for a kind of products. */
/* clang-format off */
#define TILE_PACKS_f32(X) X(f32, F32) X(f32, F16) X(f32, BF16)
#define TILE_PACKS_f64(X) X(f64, F64) X(f64, F32) X(f64, F16) X(f64, BF16)
#define TILE_PACKS_u32(X) X(u32, I8) X(u32, I16) X(u32, I32) X(u32, U8) X(u32, U16) X(u32, U32)
#define TILE_PACKS_u64(X) \
  X(u64, I8) X(u64, I16) X(u64, I32) X(u64, I64) X(u64, U8) X(u64, U16) X(u64, U32) X(u64, U64)
/* clang-format on */
#define TILE_PACK(kind, dtype) tsr__pack_fn TSR__ISA_NAME(tsr__pack_##dtype##_##kind);
TILE_PACKS_f32(TILE_PACK) TILE_PACKS_f64(TILE_PACK) TILE_PACKS_u32(TILE_PACK)
    TILE_PACKS_u64(TILE_PACK) extern const tsr__products
    TSR__ISA_NAME(tsr__products)[TSR__PRODUCT_KINDS];
bool TSR__ISA_NAME(tsr__within)(const int64_t *x, int n, int64_t most);
int64_t TSR__ISA_NAME(tsr__turn)(const tsr__turning *job, int64_t size);
extern const tsr__image_tiles TSR__ISA_NAME(tsr__image_tiles);
tsr__rounds_fn TSR__ISA_NAME(tsr__rounds);
tsr__tile_fn TSR__ISA_NAME(tsr__philox_u64);
void TSR__ISA_NAME(tsr__uniform_f64)(double *out, int64_t first, int64_t n, const int64_t key[2]);
void TSR__ISA_NAME(tsr__uniform_f32)(float *out, int64_t first, int64_t n, const int64_t key[2]);

/* Functions of floats (formula_*_tile.c). */
#define TILE_FORMULA(name, count)                  \
  void TSR__ISA_NAME(tsr__##name##_f32)(OPERANDS); \
  void TSR__ISA_NAME(tsr__##name##_f64)(OPERANDS);
TSR__FORMULA_MAP(TILE_FORMULA)

/* The functions of convert_tile.c, by the names of their operations and types. */
/* clang-format off */
#define TILE_CONVERSIONS(X) \
  X(to_i32_bool) X(to_i32_i64) X(to_i32_f32) X(to_i32_f64) \
  X(to_i64_bool) X(to_i64_i32) X(to_i64_u32) X(to_i64_f32) X(to_i64_f64) \
  X(to_u32_f32) X(to_u32_f64) \
  X(to_u64_f32) X(to_u64_f64) \
  X(to_f32_bool) X(to_f32_i32) X(to_f32_u32) X(to_f32_i64) X(to_f32_u64) X(to_f32_f64) \
  X(to_f64_bool) X(to_f64_i32) X(to_f64_u32) X(to_f64_i64) X(to_f64_u64) X(to_f64_f32) \
  X(odd_f64) X(odd_i64) X(odd_u64) \
  X(widen_i8) X(widen_i16) X(widen_u8) X(widen_u16) X(widen_f16) X(widen_bf16) \
  X(narrow_i8) X(narrow_i16) X(narrow_u8) X(narrow_u16) X(narrow_f16) X(narrow_bf16) \
  X(round_i8) X(round_i16) X(round_u8) X(round_u16) X(round_f16) X(round_bf16) \
  X(clamp_i8) X(clamp_i16) X(clamp_u8) X(clamp_u16)
/* clang-format on */
#define TILE_CONVERSION(name) void TSR__ISA_NAME(tsr__##name)(OPERANDS);
TILE_CONVERSIONS(TILE_CONVERSION)

#endif
