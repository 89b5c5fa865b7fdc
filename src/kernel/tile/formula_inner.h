/* Inside formula_*_tile.c: functions of f64 on as many numbers as a register of the instruction set
 * holds. They are written once, as exact steps and polynomials, every fma named, so that all
 * instruction sets give the same bits. f32 is computed through f64 and rounded.
 *
 * A `val` is a vector of numbers, a `mask` one of comparisons: -1 where true, 0 where not. Both are
 * the compiler's own vectors, so + - * / < & mean each element by itself. */
#ifndef TSR_KERNEL_FORMULA_INNER_H
#define TSR_KERNEL_FORMULA_INNER_H

#include "kernel/tile/tile_inner.h"

#include <math.h>

#if defined(TILE_AVX512)
enum { LANES = 8 };
#elif defined(TILE_AVX2)
enum { LANES = 4 };
#else
enum { LANES = 2 };
#endif

typedef double val __attribute__((vector_size(LANES * 8)));
typedef int64_t mask __attribute__((vector_size(LANES * 8)));
typedef uint64_t words __attribute__((vector_size(LANES * 8)));
typedef float narrow __attribute__((vector_size(LANES * 4)));

#define WHOLE 0x1.8p52 /* added to a small number, leaves its nearest integer in the low bits */

/* The sum of two, the second far smaller than the first. */
typedef struct pair {
  val high, low;
} pair;

/* x as 2^k (1 + m), m from sqrt 1/2 - 1 on and below sqrt 2 - 1. */
typedef struct split {
  val k, m;
} split;

INLINE val real(double value)
{
  val x;
  for (int i = 0; i < LANES; i++) x[i] = value;
  return x;
}

INLINE val whole(int64_t value)
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

INLINE val bits_up(val x, val by)
{
  return (val)((words)x << (words)by);
}

/* The sign comes after. */
INLINE val bits_down(val x, val by)
{
  return (val)((mask)x >> (mask)by);
}

INLINE mask bits_below(val x, val y)
{
  return (mask)x < (mask)y;
}

INLINE mask bits_differ(val x, val y)
{
  return (mask)x != (mask)y;
}

INLINE bool any(mask x)
{
  int64_t all = 0;
  for (int i = 0; i < LANES; i++) all |= x[i];
  return all != 0;
}

/* ---- what has no operator ---- */

/* An integer as a number. */
INLINE val number_of(val x)
{
  for (int i = 0; i < LANES; i++) x[i] = f64_of_i64(((mask)x)[i]);
  return x;
}

#if defined(TILE_AVX512)
INLINE val fused(val x, val y, val z)
{
  return (val)_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z);
}

INLINE val root_of(val x)
{
  return (val)_mm512_sqrt_pd((__m512d)x);
}

INLINE val floor_of(val x)
{
  return (val)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

INLINE val rint_of(val x)
{
  return (val)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(TILE_AVX2)
INLINE val fused(val x, val y, val z)
{
  return (val)_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z);
}

INLINE val root_of(val x)
{
  return (val)_mm256_sqrt_pd((__m256d)x);
}

INLINE val floor_of(val x)
{
  return (val)_mm256_floor_pd((__m256d)x);
}

INLINE val rint_of(val x)
{
  return (val)_mm256_round_pd((__m256d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
INLINE val fused(val x, val y, val z)
{
  for (int i = 0; i < LANES; i++) x[i] = fma(x[i], y[i], z[i]); /* libm's is exact */
  return x;
}

INLINE val root_of(val x)
{
  for (int i = 0; i < LANES; i++) x[i] = sqrt(x[i]);
  return x;
}

INLINE val floor_of(val x)
{
  for (int i = 0; i < LANES; i++) x[i] = floor(x[i]);
  return x;
}

INLINE val rint_of(val x)
{
  for (int i = 0; i < LANES; i++) x[i] = rint(x[i]);
  return x;
}
#endif

INLINE val size_of(val x)
{
  return bits_and(x, whole(INT64_MAX));
}

/* What the operations minimum and maximum give: NaN wins, -0 < +0. */
INLINE val least(val x, val y)
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
  return where(is_minus(x), -size, size);
}

/* A polynomial, highest coefficient first. */
INLINE val polynomial(val x, const double *coefficient, int count)
{
  val sum = real(coefficient[0]);
  for (int i = 1; i < count; i++) sum = fused(x, sum, real(coefficient[i]));
  return sum;
}

/* ---- tile functions ---- */

/* Elements at, at + 1 ... of an operand, or its one element; past the last are copies of it. */
INLINE val load_f64(const double *from, int64_t at, int64_t n, bool one)
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

INLINE val load_f32(const float *from, int64_t at, int64_t n, bool one)
{
  narrow x;
  if (one) return real((double)*from);
  if (at + LANES <= n) memcpy(&x, from + at, sizeof x);
  else
    for (int i = 0; i < LANES; i++) x[i] = from[at + i < n ? at + i : n - 1];
  return __builtin_convertvector(x, val);
}

INLINE void store_f64(double *to, int64_t at, int64_t n, val x)
{
  memcpy(to + at, &x, (size_t)(n - at < LANES ? n - at : LANES) * sizeof *to);
}

INLINE void store_f32(float *to, int64_t at, int64_t n, val x)
{
  narrow out = __builtin_convertvector(x, narrow);
  memcpy(to + at, &out, (size_t)(n - at < LANES ? n - at : LANES) * sizeof *to);
}

#define TILE_OF(name, suffix, T, CALL)                 \
  void TSR__ISA_NAME(tsr__##name##_##suffix)(OPERANDS) \
  {                                                    \
    SPAN;                                              \
    const T *from = a, *second = b;                    \
    T *to = out;                                       \
    UNUSED_3(second, c, scalar);                       \
    for (int64_t i = 0; i < n; i += LANES) {           \
      val x = load_##suffix(from, i, n, scalar & 1);   \
      store_##suffix(to, i, n, CALL);                  \
    }                                                  \
  }

/* The tile functions of NAME_of(x). */
#define TILE_OF_1(name)                    \
  TILE_OF(name, f64, double, name##_of(x)) \
  TILE_OF(name, f32, float, name##_of(x))
/* Those of NAME_of(x, y). */
#define TILE_OF_2(name)                                                        \
  TILE_OF(name, f64, double, name##_of(x, load_f64(second, i, n, scalar & 2))) \
  TILE_OF(name, f32, float, name##_of(x, load_f32(second, i, n, scalar & 2)))

#endif
