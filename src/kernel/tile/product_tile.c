/* Products of panels: what a matrix product does to a block of its result.
 *
 *   a   rows      x depth, a column of ROWS after the other       c   ROWS x COLUMNS, added to
 *   b   depth x COLUMNS, a row of COLUMNS after the other
 *
 * Each element of c takes its products one after the other in order of depth, and every product
 * and every sum is rounded: so lanes and blocks cannot show. */
#include "kernel/tile/tile_inner.h"

#if defined(TILE_AVX512)
enum { BYTES = 64 };
#elif defined(TILE_AVX2)
enum { BYTES = 32 };
#else
enum { BYTES = 16 };
#endif

#define UNROLLED _Pragma("GCC unroll 16")

enum { ROWS = TSR__PRODUCT_ROWS, COLUMNS = TSR__PRODUCT_COLUMNS };

/* Rows of c as vectors of the machine; the compiler keeps all of c in registers where it can. */
#define PRODUCT(suffix, T)                                                                         \
  enum { WIDE_##suffix = COLUMNS * sizeof(T) < BYTES ? COLUMNS * sizeof(T) : BYTES };              \
  typedef T vector_##suffix                                                                        \
      __attribute__((vector_size(WIDE_##suffix), aligned(sizeof(T)), may_alias));                  \
  void TSR__ISA_NAME(tsr__product_##suffix)(void *out, const void *left, const void *right,        \
                                            int64_t depth)                                         \
  {                                                                                                \
    enum { PIECES = COLUMNS * sizeof(T) / WIDE_##suffix };                                         \
    const T *a = left;                                                                             \
    const vector_##suffix *b = right;                                                              \
    vector_##suffix *to = out, c[ROWS][PIECES];                                                    \
    for (int i = 0; i < ROWS; i++)                                                                 \
      for (int v = 0; v < PIECES; v++) c[i][v] = to[i * PIECES + v];                               \
    for (int64_t k = 0; k < depth; k++, a += ROWS, b += PIECES)                                    \
      UNROLLED for (int i = 0; i < ROWS; i++) UNROLLED for (int v = 0; v < PIECES; v++) c[i][v] += \
          a[i] * b[v];                                                                             \
    for (int i = 0; i < ROWS; i++)                                                                 \
      for (int v = 0; v < PIECES; v++) to[i * PIECES + v] = c[i][v];                               \
  }

PRODUCT(f64, double)
PRODUCT(u64, uint64_t)
PRODUCT(u32, uint32_t)
