/* Exact sums of many values at few places: a stage before the sums of exact_rows.h.
 *
 * Values that are whole numbers of one unit, and not many binades apart, are added as integers: a
 * load, an addition and a store each. The unit is a guess; a value that is no whole number of it
 * goes to `rows` one by one, and after some million values all bins are emptied there, so that
 * nothing overflows.
 *
 *   unit      2^-39 of the largest value of a block, doubled
 *   f32       of 16 binades and more below that are whole, all that f16 and bf16 may be nearly
 *
 * The guess does not show in the results: both ways are exact. */
#ifndef TSR_KERNEL_EXACT_BINS_H
#define TSR_KERNEL_EXACT_BINS_H

#include "kernel/exact/exact_tile.h"

typedef struct tsr__bins {
  tsr__rows rows; /* once emptied, all that was added */
  const tsr__exact_ops *ops;
  int64_t *sum; /* in units; sum[-1] takes values without a place */
  double unit;
  int64_t added; /* no sum is larger than so many times TSR__BINS_MOST units */
  bool plain;    /* integers are no use: all goes to `rows` */
  bool begun;    /* `rows` are sums: before, their memory may be anything */
} tsr__bins;

static inline size_t tsr__bins_bytes(int64_t count)
{
  return tsr__rows_bytes(count) + ((size_t)count + 1) * sizeof(int64_t);
}

/* Takes `memory` (tsr__bins_bytes, borrowed, 8-byte aligned) for sums of no value. */
void tsr__bins_init(tsr__bins *bins, const tsr__exact_ops *ops, tsr__heap *heap, void *memory,
                    int64_t count);
/* Makes `rows` sums of no value, unless they are sums: for callers that add to them directly. */
void tsr__bins_begin(tsr__bins *bins);
/* Adds each of x, at most TSR__BINS_BLOCK, to its place; -1 is no place. Unless `plain`, zeros
 * leave no trace: a value other than -0 must be known to be there, here or where this is joined
 * to. */
void tsr__bins_add(tsr__bins *bins, const int64_t *place, const tsr__reals *x);
/* Adds all of `from`, which has as many places and can only be freed afterwards. */
void tsr__bins_join(tsr__bins *into, tsr__bins *from);
/* Brings all to `rows`. */
void tsr__bins_empty(tsr__bins *bins);

#endif
