/* Products of one row with columns that lie as lines: a matrix by a vector. Lines are turned in
 * registers, squares of elements at a time, so that lanes are columns and each element of c takes
 * its products in order of k.
 *
 *   from + line[0]   k0 k1 k2 ...        a lane for each line: k0 of all of them, times a[0],
 *   from + line[1]   k0 k1 k2 ...        is added to their sums, then k1, ...
 *   ...
 *
 * No panel is written, and each cache line is read once, whole. */
#include "kernel/tile/squares.h"

/* Lines whose sums are in registers at a time: enough chains to hide how long an addition takes,
 * and few enough that the lines of a matrix whose rows are a power of two long, which all meet in
 * one set of the first cache, stay there until they were read. */
enum { TOGETHER = TSR__PRODUCT_LINES, LINE = 64, AHEAD = 32 * LINE };

#define UNROLLED _Pragma("GCC unroll 16")

#define SUMS(T, suffix) \
  typedef T sums_##suffix __attribute__((vector_size(16 * LANES), aligned(4), may_alias));
SUMS(float, f32)
SUMS(double, f64)
SUMS(uint32_t, u32)
SUMS(uint64_t, u64)

/* c + a b, rounded once. */
#if defined(TILE_AVX512)
#define ADD_f32(c, a, b) _mm256_fmadd_ps(_mm256_set1_ps(a), b, c)
#define ADD_f64(c, a, b) _mm256_fmadd_pd(_mm256_set1_pd(a), b, c)
#elif defined(TILE_AVX2)
#define ADD_f32(c, a, b) _mm_fmadd_ps(_mm_set1_ps(a), b, c)
#define ADD_f64(c, a, b) _mm_fmadd_pd(_mm_set1_pd(a), b, c)
#else
#define ADD_EACH(suffix, T, FMA)                                             \
  INLINE sums_##suffix add_##suffix(sums_##suffix c, T a, sums_##suffix b)   \
  {                                                                          \
    for (int i = 0; i < 16 / (int)sizeof(T); i++) c[i] = FMA(a, b[i], c[i]); \
    return c;                                                                \
  }
ADD_EACH(f32, float, fmaf)
ADD_EACH(f64, double, fma)
#define ADD_f32(c, a, b) add_f32(c, a, b)
#define ADD_f64(c, a, b) add_f64(c, a, b)
#endif
#define ADD_u32(c, a, b) ((c) + (a) * (b))
#define ADD_u64(c, a, b) ((c) + (a) * (b))
#define ONE_f32(c, a, b) fmaf(a, b, c)
#define ONE_f64(c, a, b) fma(a, b, c)
#define ONE_u32(c, a, b) ((c) + (a) * (b))
#define ONE_u64(c, a, b) ((c) + (a) * (b))

/* Adds a cache line of each of TOGETHER lines, or the rest of the depth, to their sums. */
#define LINES_OF(suffix, T, size)                                                                \
  INLINE void piece_##suffix(const T *from, const int64_t *line, const T *a, sums_##suffix *sum) \
  {                                                                                              \
    enum { SQUARE = SQUARE_##size, LINES = SQUARE * LANES };                                     \
    UNROLLED for (int i = 0; i < TOGETHER; i++)                                                  \
        __builtin_prefetch((const char *)(from + line[i]) + AHEAD, 0, 2);                        \
    UNROLLED for (int g = 0; g < TOGETHER / LINES; g++)                                          \
        UNROLLED for (int k = 0; k < LINE / size; k += SQUARE)                                   \
    {                                                                                            \
      lanes_##size turned[SQUARE];                                                               \
      square_##size((const void *)(from + k), line + g * LINES, turned);                         \
      UNROLLED for (int i = 0; i < SQUARE; i++) sum[g] =                                         \
          ADD_##suffix(sum[g], a[k + i], (sums_##suffix)turned[i]);                              \
    }                                                                                            \
  }                                                                                              \
  INLINE void together_##suffix(const tsr__lines_product *p, const int64_t *line, T *to)         \
  {                                                                                              \
    enum { LINES = SQUARE_##size * LANES, PIECE = LINE / size };                                 \
    const T *from = p->from, *a = p->a;                                                          \
    const int64_t whole = p->depth / PIECE * PIECE;                                              \
    sums_##suffix sum[TOGETHER / LINES];                                                         \
    memcpy(sum, to, sizeof sum);                                                                 \
    for (int64_t k = 0; k < whole; k += PIECE) piece_##suffix(from + k, line, a + k, sum);       \
    memcpy(to, sum, sizeof sum);                                                                 \
    for (int64_t k = whole; k < p->depth; k++)                                                   \
      for (int i = 0; i < TOGETHER; i++) to[i] = ONE_##suffix(to[i], a[k], from[line[i] + k]);   \
  }                                                                                              \
  void TSR__ISA_NAME(tsr__lines_##suffix)(const tsr__lines_product *p)                           \
  {                                                                                              \
    T *to = p->c;                                                                                \
    for (int64_t j = 0; j < p->lines; j += TOGETHER) {                                           \
      T sum[TOGETHER];                                                                           \
      const int64_t left = p->lines - j, n = left < TOGETHER ? left : TOGETHER;                  \
      for (int i = 0; i < TOGETHER; i++) sum[i] = p->fresh ? -(T)0 : to[j + (i < n ? i : 0)];    \
      together_##suffix(p, p->line + j, sum);                                                    \
      memcpy(to + j, sum, (size_t)n * sizeof(T));                                                \
    }                                                                                            \
  }

LINES_OF(f32, float, 4)
LINES_OF(f64, double, 8)
LINES_OF(u32, uint32_t, 4)
LINES_OF(u64, uint64_t, 8)
