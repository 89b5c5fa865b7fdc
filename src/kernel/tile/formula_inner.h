/* Inside formula_*_tile.c: functions of floats on as many numbers as a register of the instruction
 * set holds. The functions are written once, as exact steps and polynomials, every fma named, so
 * that all instruction sets give the same bits. Numbers are f64, or f32 in files that define
 * FORMULA_F32 before anything else; f32 functions that have no such file are computed through f64
 * and rounded.
 *
 * A `val` is a vector of numbers, a `mask` one of comparisons: -1 where true, 0 where not. Vals and
 * masks are the compiler's own vectors, so + - * / < & mean each element by itself. */
#ifndef TSR_KERNEL_FORMULA_INNER_H
#define TSR_KERNEL_FORMULA_INNER_H

#include "kernel/tile/tile_inner.h"

#include <float.h>
#include <math.h>

#if defined(FORMULA_F32)
typedef float element;
typedef int32_t element_bits;
typedef uint32_t element_word;
#define WHOLE 0x1.8p23f /* added to a small number, leaves its nearest integer in the low bits */
#define LEAST_NORMAL FLT_MIN
#define ROOT_HALF 0x1.6a09e6p-1f
#define OF_ELEMENT(name) name##f /* the C library's name */
enum { MANTISSA = 23, BIAS = 127 };
#else
typedef double element;
typedef int64_t element_bits;
typedef uint64_t element_word;
#define WHOLE 0x1.8p52
#define LEAST_NORMAL DBL_MIN
#define ROOT_HALF 0x1.6a09e667f3bcdp-1
#define OF_ELEMENT(name) name
enum { MANTISSA = 52, BIAS = 1023 };
#endif

#if defined(TILE_AVX512)
enum { VECTOR = 64 };
#elif defined(TILE_AVX2)
enum { VECTOR = 32 };
#else
enum { VECTOR = 16 };
#endif
enum { LANES = VECTOR / (int)sizeof(element) };

typedef element val __attribute__((vector_size(VECTOR)));
typedef element_bits mask __attribute__((vector_size(VECTOR)));
typedef element_word words __attribute__((vector_size(VECTOR)));

/* The sum of two, the second far smaller than the first. */
typedef struct pair {
  val high, low;
} pair;

/* x as 2^k (1 + m), m from sqrt 1/2 - 1 on and below sqrt 2 - 1. */
typedef struct split {
  val k, m;
} split;

INLINE val real(element value)
{
  val x;
  for (int i = 0; i < LANES; i++) x[i] = value;
  return x;
}

INLINE val whole(element_bits value)
{
  mask x;
  for (int i = 0; i < LANES; i++) x[i] = value;
  return (val)x;
}

INLINE val where(mask condition, val x, val y)
{
  return (val)((condition & (mask)x) | (~condition & (mask)y));
}

/* ---- on the bits of numbers ---- */

INLINE val bits_add(val x, val y)
{
  return (val)((words)x + (words)y);
}

INLINE val bits_sub(val x, val y)
{
  return (val)((words)x - (words)y);
}

INLINE val bits_and(val x, val y)
{
  return (val)((words)x & (words)y);
}

INLINE val bits_or(val x, val y)
{
  return (val)((words)x | (words)y);
}

INLINE val bits_up(val x, int by)
{
  return (val)((words)x << by);
}

/* The sign comes after. */
INLINE val bits_down(val x, int by)
{
  return (val)((mask)x >> by);
}

INLINE mask bits_differ(val x, val y)
{
  return (mask)x != (mask)y;
}

INLINE bool any(mask x)
{
  element_bits all = 0;
  for (int i = 0; i < LANES; i++) all |= x[i];
  return all != 0;
}

/* ---- operations without an operator ---- */

/* An integer as a number. */
INLINE val number_of_bits(val x)
{
#if defined(FORMULA_F32)
  return __builtin_convertvector((mask)x, val);
#else
  for (int i = 0; i < LANES; i++) x[i] = f64_of_i64(((mask)x)[i]);
  return x;
#endif
}

/* An instruction set's intrinsic, by its name there. */
#if defined(TILE_AVX512)
#define OF_SET(name, suffix) _mm512_##name##_##suffix
#define RAW(suffix) __m512##suffix
#define ROUNDED(x, mode) ON_SET(roundscale)((raw)(x), (mode) | _MM_FROUND_NO_EXC)
#elif defined(TILE_AVX2)
#define OF_SET(name, suffix) _mm256_##name##_##suffix
#define RAW(suffix) __m256##suffix
#define ROUNDED(x, mode) ON_SET(round)((raw)(x), (mode) | _MM_FROUND_NO_EXC)
#endif

#if defined(OF_SET)
#if defined(FORMULA_F32)
#define ON_SET(name) OF_SET(name, ps)
typedef RAW() raw;
#else
#define ON_SET(name) OF_SET(name, pd)
typedef RAW(d) raw;
#endif

INLINE val fused(val x, val y, val z)
{
  return (val)ON_SET(fmadd)((raw)x, (raw)y, (raw)z);
}

INLINE val root_of(val x)
{
  return (val)ON_SET(sqrt)((raw)x);
}

#pragma GCC diagnostic push
/* Unoptimised builds take macros instead of functions. */
#pragma GCC diagnostic ignored "-Wsign-conversion"
INLINE val floor_of(val x)
{
  return (val)ROUNDED(x, _MM_FROUND_TO_NEG_INF);
}

INLINE val rint_of(val x)
{
  return (val)ROUNDED(x, _MM_FROUND_TO_NEAREST_INT);
}
#pragma GCC diagnostic pop

/* x, or the limit where x is beyond it; NaN stays. */
INLINE val at_least(val x, element limit)
{
  return (val)ON_SET(max)((raw)real(limit), (raw)x);
}

INLINE val at_most(val x, element limit)
{
  return (val)ON_SET(min)((raw)real(limit), (raw)x);
}
#else
INLINE val fused(val x, val y, val z)
{
  for (int i = 0; i < LANES; i++) x[i] = OF_ELEMENT(fma)(x[i], y[i], z[i]); /* libm's is exact */
  return x;
}

INLINE val root_of(val x)
{
  for (int i = 0; i < LANES; i++) x[i] = OF_ELEMENT(sqrt)(x[i]);
  return x;
}

INLINE val floor_of(val x)
{
  for (int i = 0; i < LANES; i++) x[i] = OF_ELEMENT(floor)(x[i]);
  return x;
}

INLINE val rint_of(val x)
{
  for (int i = 0; i < LANES; i++) x[i] = OF_ELEMENT(rint)(x[i]);
  return x;
}

INLINE val at_least(val x, element limit)
{
  return where(real(limit) > x, real(limit), x);
}

INLINE val at_most(val x, element limit)
{
  return where(real(limit) < x, real(limit), x);
}
#endif

INLINE val size_of(val x)
{
  return bits_and(x, whole((element_bits)((element_word)-1 >> 1)));
}

/* The results of the operations minimum and maximum: NaN wins, -0 < +0. */
INLINE val least_of_vals(val x, val y)
{
  val alike = where((x != x) | (y != y), x + y, bits_or(x, y));
  return where(x < y, x, where(y < x, y, alike));
}

INLINE val most(val x, val y)
{
  val alike = where((x != x) | (y != y), x + y, bits_and(x, y));
  return where(x > y, x, where(y > x, y, alike));
}

/* Whether the sign is -, of 0 and NaN too. */
INLINE mask is_minus(val x)
{
  return (mask)x < 0;
}

INLINE val with_sign_of(val size, val x)
{
  return bits_or(size_of(size), bits_and(x, real(-(element)0)));
}

/* The coefficients of a table, and how many. */
#define TABLE(name) name, (int)(sizeof name / sizeof *name)

/* A polynomial, highest coefficient first. */
INLINE val polynomial(val x, const element *coefficient, int count)
{
  val sum = real(coefficient[0]);
  for (int i = 1; i < count; i++) sum = fused(x, sum, real(coefficient[i]));
  return sum;
}

/* ---- powers of two ---- */

/* 2^k for the integer k in the low bits of `tagged`, where that is a normal number. */
INLINE val power_of_two(val tagged)
{
  return bits_up(bits_add(tagged, whole(BIAS)), MANTISSA);
}

/* y 2^k for the integer k in the low bits of `tagged`, which is k + WHOLE, |k| <= 1200 (f32: 240):
 * results that are no normal numbers round once more. */
INLINE val scaled_by_tag(val y, val tagged)
{
#if defined(TILE_AVX512)
  return (val)ON_SET(scalef)((raw)y, (raw)(tagged - real(WHOLE)));
#else
  val k = bits_sub(tagged, real(WHOLE));
  val half = bits_down(k, 1);
  return (y * power_of_two(half)) * power_of_two(bits_sub(k, half));
#endif
}

/* x = 2^k m with m in [sqrt 1/2, sqrt 2). */
INLINE split split_number(val x)
{
  val k = bits_down(bits_sub(x, real(ROOT_HALF)), MANTISSA);
  val m = bits_sub(x, bits_up(k, MANTISSA));
  return (split){ number_of_bits(k), m };
}

/* Takes a number above 0, which may be denormal. */
INLINE split split_of(val x)
{
  mask tiny = x < real(LEAST_NORMAL);
  split parts = split_number(where(tiny, x * real(0x1p54f), x));
  parts.k = where(tiny, parts.k - real(54), parts.k);
  parts.m = parts.m - real(1);
  return parts;
}

/* ---- tile functions ---- */

/* Elements at, at + 1 ... from an operand, or its one element; past the last are copies of it. */
INLINE val load_vals(const element *from, int64_t at, int64_t n, bool one)
{
  val x;
  if (one) return real(*from);
  if (at + LANES <= n) {
    memcpy(&x, from + at, sizeof x);
    return x;
  }
  for (int i = 0; i < LANES; i++) x[i] = from[at + i < n ? at + i : n - 1];
  return x;
}

INLINE void store_vals(element *to, int64_t at, int64_t n, val x)
{
  memcpy(to + at, &x, (size_t)(n - at < LANES ? n - at : LANES) * sizeof *to);
}

#define TILE_OF(name, suffix, T, load, store, CALL)    \
  void TSR__ISA_NAME(tsr__##name##_##suffix)(OPERANDS) \
  {                                                    \
    SPAN;                                              \
    const T *from = a, *second = b;                    \
    T *to = out;                                       \
    UNUSED_3(second, c, scalar);                       \
    for (int64_t i = 0; i < n; i += LANES) {           \
      val x = load(from, i, n, scalar & 1);            \
      store(to, i, n, CALL);                           \
    }                                                  \
  }

/* The tile functions of NAME_of(x) and of NAME_of(x, y), of the file's own numbers. */
#if defined(FORMULA_F32)
#define TILE_OF_1(name) TILE_OF(name, f32, float, load_vals, store_vals, name##_of(x))
#define TILE_OF_2(name)                            \
  TILE_OF(name, f32, float, load_vals, store_vals, \
          name##_of(x, load_vals(second, i, n, scalar & 2)))
#else
#define TILE_OF_1(name) TILE_OF(name, f64, double, load_vals, store_vals, name##_of(x))
#define TILE_OF_2(name)                             \
  TILE_OF(name, f64, double, load_vals, store_vals, \
          name##_of(x, load_vals(second, i, n, scalar & 2)))

/* And those of f32, computed in f64 and rounded. */
typedef float narrow __attribute__((vector_size(LANES * 4)));

INLINE val load_vals_f32(const float *from, int64_t at, int64_t n, bool one)
{
  narrow x;
  if (one) return real((double)*from);
  if (at + LANES <= n) memcpy(&x, from + at, sizeof x);
  else
    for (int i = 0; i < LANES; i++) x[i] = from[at + i < n ? at + i : n - 1];
  return __builtin_convertvector(x, val);
}

INLINE void store_vals_f32(float *to, int64_t at, int64_t n, val x)
{
  narrow out = __builtin_convertvector(x, narrow);
  memcpy(to + at, &out, (size_t)(n - at < LANES ? n - at : LANES) * sizeof *to);
}

#define TILE_THROUGH_1(name) \
  TILE_OF_1(name)            \
  TILE_OF(name, f32, float, load_vals_f32, store_vals_f32, name##_of(x))
#define TILE_THROUGH_2(name)                               \
  TILE_OF_2(name)                                          \
  TILE_OF(name, f32, float, load_vals_f32, store_vals_f32, \
          name##_of(x, load_vals_f32(second, i, n, scalar & 2)))
#endif

#endif
