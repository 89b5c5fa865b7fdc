/* Products of panels: a matrix product's step for a small block of its result, all of which stays
 * in registers meanwhile.
 *
 * Each element of c takes its products one after the other in order of k, each by one fused
 * multiply-add (integers: modulo 2^bits), so lanes and blocks cannot show.
 *
 *   c [high][wide]     stays in registers for all k       a   a column of `high` numbers for each k
 *                                                         b   a row of `wide` vectors for each k
 *
 * One step reads high numbers and wide vectors and does high * wide multiply-adds, 14 * 2 with
 * AVX-512: so the caches are asked for far less than the arithmetic takes. */
#include "kernel/tile/tile_inner.h"

enum { BYTES = PRODUCT_BYTES, HIGH = PRODUCT_HIGH, FEW = HIGH < 8 ? HIGH : 8, MOST = 8 };

#define UNROLLED _Pragma("GCC unroll 16")

#define VECTOR(T, suffix) \
  typedef T vector_##suffix __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
VECTOR(float, f32)
VECTOR(double, f64)
VECTOR(uint32_t, u32)
VECTOR(uint64_t, u64)

/* c + a b, rounded once. */
#if defined(TILE_AVX512)
#define ADD_f32(c, a, b) _mm512_fmadd_ps(_mm512_set1_ps(a), b, c)
#define ADD_f64(c, a, b) _mm512_fmadd_pd(_mm512_set1_pd(a), b, c)
#elif defined(TILE_AVX2)
#define ADD_f32(c, a, b) _mm256_fmadd_ps(_mm256_set1_ps(a), b, c)
#define ADD_f64(c, a, b) _mm256_fmadd_pd(_mm256_set1_pd(a), b, c)
#else
#define ADD_EACH(suffix, T, FMA)                                                         \
  INLINE vector_##suffix add_##suffix(vector_##suffix c, T a, vector_##suffix b)         \
  {                                                                                      \
    UNROLLED for (int i = 0; i < BYTES / (int)sizeof(T); i++) c[i] = FMA(a, b[i], c[i]); \
    return c;                                                                            \
  }
ADD_EACH(f32, float, fmaf)
ADD_EACH(f64, double, fma)
#define ADD_f32(c, a, b) add_f32(c, a, b)
#define ADD_f64(c, a, b) add_f64(c, a, b)
#endif
#define ADD_u32(c, a, b) ((c) + (a) * (b))
#define ADD_u64(c, a, b) ((c) + (a) * (b))

/* Operands read in memory are prefetched into the second cache so many k ahead. Packed panels need
 * no asking: they are in the cache since they were packed. */
enum { AHEAD = 24, LINE = 64 };

/* One row by columns where they lie, so many lines of b (each one k) at a time: each of these is
 * read as a stream, the lines that come next are asked for meanwhile. */
enum { STREAMS = 8 };
#define LINES_OF(suffix, T)                                                             \
  INLINE void lines_##suffix(const tsr__tile_product *p, int64_t k, int lines)          \
  {                                                                                     \
    const int lanes = BYTES / (int)sizeof(T);                                           \
    const int64_t ahead = lines * p->b_step;                                            \
    const T *a = (const T *)p->a + k * p->a_step, *b = (const T *)p->b + k * p->b_step; \
    T *to = p->c, x[STREAMS];                                                           \
    for (int i = 0; i < lines; i++) x[i] = a[i * p->a_step];                            \
    for (int64_t j = 0; j < p->columns; j += lanes) {                                   \
      vector_##suffix c = *(vector_##suffix *)(to + j);                                 \
      UNROLLED for (int i = 0; i < lines; i++)                                          \
      {                                                                                 \
        const T *line = b + i * p->b_step + j;                                          \
        __builtin_prefetch(line + ahead, 0, 2);                                         \
        c = ADD_##suffix(c, x[i], *(const vector_##suffix *)line);                      \
      }                                                                                 \
      *(vector_##suffix *)(to + j) = c;                                                 \
    }                                                                                   \
  }
#define LINE_OF(suffix, T)                                                       \
  LINES_OF(suffix, T)                                                            \
  static void line_##suffix(const tsr__tile_product *p)                          \
  {                                                                              \
    const int lanes = BYTES / (int)sizeof(T);                                    \
    int64_t k = 0;                                                               \
    for (int64_t j = 0; p->fresh && j < p->columns; j += lanes)                  \
      *(vector_##suffix *)((T *)p->c + j) = -(vector_##suffix){ 0 };             \
    for (; k + STREAMS <= p->depth; k += STREAMS) lines_##suffix(p, k, STREAMS); \
    for (; k < p->depth; k++) lines_##suffix(p, k, 1);                           \
  }

/* `high` and `wide` (in vectors) are constants where this is called; `rows` of them are there. A
 * panel of b is read as vectors, a number of a is repeated over one: high * wide sums and the
 * vectors of b fit the registers. If rows of a lie in memory, their offsets do not fit: they are
 * read again at each k, from the first cache, while the arithmetic takes twice as long. -0 is where
 * a chain begins, since adding a product to it is that product, sign and all. */
#define PRODUCT_OF(suffix, T)                                                                   \
  INLINE void product_of_##suffix(const tsr__tile_product *p, int high, int wide, int lines)    \
  {                                                                                             \
    const T *a = p->a, *b = p->b;                                                               \
    T *to = p->c;                                                                               \
    vector_##suffix c[HIGH][MOST];                                                              \
    const int lanes = BYTES / (int)sizeof(T), rows = p->rows;                                   \
    const int64_t ahead = p->in_place ? AHEAD * p->b_step : 0;                                  \
    const int64_t *line = p->line, *step = p->step;                                             \
    UNROLLED for (int i = 0; i < high; i++) UNROLLED for (int v = 0; v < wide; v++)             \
    {                                                                                           \
      c[i][v] = -(vector_##suffix){ 0 };                                                        \
      if (!p->fresh && i < rows) c[i][v] = *(vector_##suffix *)(to + i * p->c_row + v * lanes); \
    }                                                                                           \
    for (int64_t k = p->depth; k > 0; k--, b += p->b_step) {                                    \
      vector_##suffix x[MOST];                                                                  \
      if (lines) a = (const T *)p->a + *step++;                                                 \
      UNROLLED for (int v = 0; v < wide; v++) x[v] = *(const vector_##suffix *)(b + v * lanes); \
      if (high <= FEW || lines)                                                                 \
        UNROLLED for (int at = 0; at < wide * BYTES; at += LINE)                                \
            __builtin_prefetch((const char *)(b + ahead) + at, 0, 2);                           \
      UNROLLED for (int i = 0; i < high; i++)                                                   \
      {                                                                                         \
        const T left = lines ? a[line[i]] : a[i];                                               \
        UNROLLED for (int v = 0; v < wide; v++) c[i][v] = ADD_##suffix(c[i][v], left, x[v]);    \
      }                                                                                         \
      if (!lines) a += p->a_step;                                                               \
    }                                                                                           \
    UNROLLED for (int i = 0; i < high; i++)                                                     \
            UNROLLED for (int v = 0; v < wide; v++) if (i < rows) *                             \
        (vector_##suffix *)(to + i * p->c_row + v * lanes) = c[i][v];                           \
  }                                                                                             \
  LINE_OF(suffix, T)                                                                            \
  static void product_##suffix(const tsr__tile_product *p)                                      \
  {                                                                                             \
    if (p->line) product_of_##suffix(p, HIGH, 2, 1);                                            \
    else if (p->rows <= 1 && p->in_place) line_##suffix(p);                                     \
    else if (p->rows <= 1) product_of_##suffix(p, 1, 2, 0);                                     \
    else if (p->rows <= 2 && p->columns > 2 * BYTES / (int)sizeof(T))                           \
      product_of_##suffix(p, 2, 4, 0);                                                          \
    else if (p->rows <= 2) product_of_##suffix(p, 2, 2, 0);                                     \
    else if (p->rows <= 4) product_of_##suffix(p, 4, 2, 0);                                     \
    else if (p->rows <= 8 && HIGH > 8) product_of_##suffix(p, FEW, 2, 0);                       \
    else product_of_##suffix(p, HIGH, 2, 0);                                                    \
  }

PRODUCT_OF(f32, float)
PRODUCT_OF(f64, double)
PRODUCT_OF(u32, uint32_t)
PRODUCT_OF(u64, uint64_t)

#define PACK(kind, dtype) [TSR_##dtype] = TSR__ISA_NAME(tsr__pack_##dtype##_##kind),
#define PRODUCTS(suffix, T, ...)                                                   \
  {                                                                                \
    .high = HIGH, .wide = 2 * BYTES / (int)sizeof(T), .product = product_##suffix, \
    .lines = TSR__ISA_NAME(tsr__lines_##suffix), .pack = {                         \
      __VA_ARGS__                                                                  \
    }                                                                              \
  }

const tsr__products TSR__ISA_NAME(tsr__products)[TSR__PRODUCT_KINDS] = {
  [TSR__PRODUCT_F32] = PRODUCTS(f32, float, TILE_PACKS_f32(PACK)),
  [TSR__PRODUCT_F64] = PRODUCTS(f64, double, TILE_PACKS_f64(PACK)),
  [TSR__PRODUCT_U32] = PRODUCTS(u32, uint32_t, TILE_PACKS_u32(PACK)),
  [TSR__PRODUCT_U64] = PRODUCTS(u64, uint64_t, TILE_PACKS_u64(PACK)),
};
