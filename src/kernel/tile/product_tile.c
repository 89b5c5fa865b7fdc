/* Products of panels: what a matrix product does to a small block of its result, all of which stays
 * in registers meanwhile.
 *
 * Each element of c takes its products one after the other in order of k, each by one fused
 * multiply-add (integers: modulo 2^bits), so lanes and blocks cannot show. */
#include "kernel/tile/tile_inner.h"

/* Registers are 16 (AVX-512: 32) vectors: HIGH rows of two, the two of b, and one of a. */
#if defined(TILE_AVX512)
enum { BYTES = 64, HIGH = 14 };
#elif defined(TILE_AVX2)
enum { BYTES = 32, HIGH = 6 };
#else
enum { BYTES = 16, HIGH = 6 };
#endif

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

/* `high` is a constant where this is called, and `rows` of them are there. */
#define PRODUCT_OF(suffix, T)                                                                    \
  INLINE void product_of_##suffix(const tsr__tile_product *p, int high)                          \
  {                                                                                              \
    const T *a = p->a, *b = p->b;                                                                \
    T *to = p->c;                                                                                \
    vector_##suffix c[HIGH][2];                                                                  \
    const int wide = BYTES / (int)sizeof(T), rows = p->rows;                                     \
    UNROLLED for (int i = 0; i < high; i++) UNROLLED for (int v = 0; v < 2; v++)                 \
    {                                                                                            \
      c[i][v] = -(vector_##suffix){ 0 };                                                         \
      if (!p->fresh && i < rows) c[i][v] = *(vector_##suffix *)(to + i * p->c_row + v * wide);   \
    }                                                                                            \
    for (int64_t k = p->depth; k > 0; k--, a += p->a_step, b += p->b_step) {                     \
      const vector_##suffix low = *(const vector_##suffix *)b;                                   \
      const vector_##suffix up = *(const vector_##suffix *)(b + wide);                           \
      UNROLLED for (int i = 0; i < high; i++)                                                    \
      {                                                                                          \
        c[i][0] = ADD_##suffix(c[i][0], a[i], low);                                              \
        c[i][1] = ADD_##suffix(c[i][1], a[i], up);                                               \
      }                                                                                          \
    }                                                                                            \
    UNROLLED for (int i = 0; i < high; i++) UNROLLED for (int v = 0; v < 2; v++) if (i < rows) * \
        (vector_##suffix *)(to + i * p->c_row + v * wide) = c[i][v];                             \
  }                                                                                              \
  static void product_##suffix(const tsr__tile_product *p)                                       \
  {                                                                                              \
    if (p->rows <= 1) product_of_##suffix(p, 1);                                                 \
    else if (p->rows <= 2) product_of_##suffix(p, 2);                                            \
    else if (p->rows <= 4) product_of_##suffix(p, 4);                                            \
    else if (p->rows <= 8 && HIGH > 8) product_of_##suffix(p, HIGH < 8 ? HIGH : 8);              \
    else product_of_##suffix(p, HIGH);                                                           \
  }

PRODUCT_OF(f32, float)
PRODUCT_OF(f64, double)
PRODUCT_OF(u32, uint32_t)
PRODUCT_OF(u64, uint64_t)

#define PACK(kind, dtype) [TSR_##dtype] = TSR__ISA_NAME(tsr__pack_##dtype##_##kind),
#define PRODUCTS(suffix, T, ...)                                                             \
  {                                                                                          \
    .high = HIGH, .wide = 2 * BYTES / (int)sizeof(T), .product = product_##suffix, .pack = { \
      __VA_ARGS__                                                                            \
    }                                                                                        \
  }

const tsr__products TSR__ISA_NAME(tsr__products)[TSR__PRODUCT_KINDS] = {
  [TSR__PRODUCT_F32] = PRODUCTS(f32, float, TILE_PACKS_f32(PACK)),
  [TSR__PRODUCT_F64] = PRODUCTS(f64, double, TILE_PACKS_f64(PACK)),
  [TSR__PRODUCT_U32] = PRODUCTS(u32, uint32_t, TILE_PACKS_u32(PACK)),
  [TSR__PRODUCT_U64] = PRODUCTS(u64, uint64_t, TILE_PACKS_u64(PACK)),
};
