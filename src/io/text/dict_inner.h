/* What the files that make lists of texts share: dict_runs.c, dict_list.c, dict_flow.c. */
#ifndef TSR_IO_DICT_INNER_H
#define TSR_IO_DICT_INNER_H

#include "io/text/dict.h"

static inline size_t tsr__text_run_bytes(const tsr__text_run *run)
{
  return run->count ? run->ends[1 - run->count] : 0;
}

/* Frees the block that goes with a run. */
void tsr__text_run_drop(tsr__heap *heap, tsr__text_run *run);
/* The last run takes the block over, so that it goes when that run is done with. */
void tsr__dict_leave_block(tsr__dict_local *local);
/* All runs were put somewhere: the block they lay in, which is in the cache, is begun anew. */
void tsr__dict_use_again(tsr__dict_local *local);

/* Part of a list being filled: texts before it, and their bytes, are others' to put. */
typedef struct tsr__filling {
  char *bytes;
  int64_t *offsets;
  int64_t count, sum;
} tsr__filling;

void tsr__filling_put_entry(tsr__filling *filling, const tsr__dict_entry *entry);
void tsr__filling_put_run(tsr__filling *filling, tsr__text_run *run);

/* A list that may repeat, of what was reserved for it, which is closed: offsets and bytes of
 * `count` texts, and a NUL behind them. NULL: out of memory. */
tsr__dict *tsr__dict_of(tsr__heap *heap, int32_t count, tsr__reserve *offsets, tsr__reserve *bytes);

#endif
