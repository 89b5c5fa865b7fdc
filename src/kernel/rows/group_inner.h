/* Inside kernel/: shared by grouping and aggregates: working memory of devices, and the rank of a
 * row among marked rows. */
#ifndef TSR_KERNEL_GROUP_INNER_H
#define TSR_KERNEL_GROUP_INNER_H

#include "kernel/device/cpu.h"
#include "kernel/rows/columns.h"
#include "kernel/rows/pieces.h"

/* ---- working memory -------------------------------------------------------------------------- */

/* Device memory that is given back all at once. */
typedef struct tsr__loans {
  tsr_runtime *rt;
  tsr__error *error;
  tsr__buffer **held;
  size_t count, capacity;
} tsr__loans;

/* NULL with the error set. The memory is not cleared. */
void *tsr__loan(tsr__loans *loans, int device, size_t bytes);
void tsr__loans_return(tsr__loans *loans);

/* ---- aggregates that need values in order (group_quantile.c) --------------------------------- */

/* Aggregate number `agg` of an ask: fills values[agg * parts + p] and valid. */
typedef struct tsr__ordered_agg {
  const tsr__aggregate_ask *ask;
  int agg;
  tsr__buffer **values, **valid;
} tsr__ordered_agg;

tsr_status tsr__group_quantile(tsr_runtime *rt, const tsr__ordered_agg *one, tsr__error *error);
tsr_status tsr__group_nunique(tsr_runtime *rt, const tsr__ordered_agg *one, tsr__error *error);

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Marked rows and, for each word of marks, how many come before it. */
typedef struct tsr__marks {
  uint64_t *bits;
  uint32_t *before;
} tsr__marks;

static inline uint32_t tsr__rank(const tsr__marks *marks, uint32_t row)
{
  uint64_t lower = marks->bits[row / 64] & ((UINT64_C(1) << (row % 64)) - 1);
  return marks->before[row / 64] + (uint32_t)__builtin_popcountll(lower);
}

#endif
