/* Places in a sorted table: how many entries are <= x. Small tables are counted through, larger
 * ones halved without branches; both compare with IEEE's <=, so NaN finds place 0. */
#include "kernel/tile/tile_inner.h"

enum { COUNTED = 24 };

/* While halving: entries before `place` are <= v, those from `place + left` on are not. Step by
 * step for all elements of the tile, so that their reads of the table go side by side and no jump
 * is guessed. */
#define SEARCH(dtype, T)                                                           \
  void TSR__ISA_NAME(tsr__search_##dtype)(int64_t * out, const void *x, int64_t n, \
                                          const void *table, int64_t count)        \
  {                                                                                \
    const T *from = x, *entry = table;                                             \
    if (count <= COUNTED) {                                                        \
      for (int64_t i = 0; i < n; i++) out[i] = 0;                                  \
      for (int64_t k = 0; k < count; k++) {                                        \
        const T e = entry[k];                                                      \
        ANY_ORDER for (int64_t i = 0; i < n; i++) out[i] += e <= from[i];          \
      }                                                                            \
      return;                                                                      \
    }                                                                              \
    for (int64_t i = 0; i < n; i++) out[i] = 0;                                    \
    for (int64_t left = count; left > 1; left -= left / 2) {                       \
      const int64_t half = left / 2;                                               \
      ANY_ORDER for (int64_t i = 0; i < n; i++) out[i] +=                          \
          entry[out[i] + half - 1] <= from[i] ? half : 0;                          \
    }                                                                              \
    for (int64_t i = 0; i < n; i++) out[i] += entry[out[i]] <= from[i];            \
  }

SEARCH(i32, int32_t)
SEARCH(i64, int64_t)
SEARCH(u32, uint32_t)
SEARCH(u64, uint64_t)
SEARCH(f32, float)
SEARCH(f64, double)
