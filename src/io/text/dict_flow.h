/* Columns whose texts are put in their list while the rows are being read: a stripe's go there when
 * it was read, out of the cache, and lie nowhere else in memory.
 *
 *   stripes   0 | 1 | 2 | 3 | 4 | 5      in the order of rows; read by a b a b b a
 *   list      (entries of 0 1 2) texts of 3 | of 4 | of 5
 *
 * A column whose texts repeat does not flow. It begins to with the first stripe of which texts were
 * added unseen; entries of those before stand first, and are put there at the end. Where a stripe's
 * texts go is known once all before it were read: who comes early keeps them until then.
 *
 * Invariant: texts stand in the list in the order of their rows; neither stripes nor workers
 * show. */
#ifndef TSR_IO_DICT_FLOW_H
#define TSR_IO_DICT_FLOW_H

#include "base/latch.h"
#include "io/text/dict.h"

/* A column's list. */
typedef struct tsr__dict_flow {
  tsr__reserve bytes, offsets;
  bool open;           /* there are addresses for it */
  bool flows;          /* it began to */
  int64_t texts, sum;  /* of the stripes that have their place, and their bytes */
  int64_t head, heads; /* texts and bytes of those before it began */
} tsr__dict_flow;

typedef struct tsr__dict_stripe tsr__dict_stripe;

typedef struct tsr__dict_flows {
  tsr__heap *heap;
  int stripe_count, worker_count, column_count;
  tsr__dict_flow *flow;       /* by column; NULL: none flows */
  tsr__dict_local **local;    /* [worker * columns + column] */
  tsr__dict_stripe **stripe;  /* that were read, and are not yet in the lists */
  tsr__dict_stripe **waiting; /* by worker: its own, in their order */
  tsr__latch latch; /* of what follows, of the flows' sums and whether stripes are placed */
  int next;         /* the first stripe without a place */
} tsr__dict_flows;

typedef struct tsr__dict_flows_ask {
  int stripes, workers, columns;
  int64_t texts, bytes; /* what a column may have at most */
  const bool *flowing;  /* by column: whether it may */
} tsr__dict_flows_ask;

/* Zeroed memory is closed. `local` is the ask's caller's to fill in. False: out of memory. */
bool tsr__dict_flows_open(tsr__dict_flows *flows, tsr__heap *heap, const tsr__dict_flows_ask *ask);
void tsr__dict_flows_close(tsr__dict_flows *flows);
/* A worker's stripe was read; each worker's come in their order. False: out of memory. */
bool tsr__dict_flows_stripe(tsr__dict_flows *flows, int stripe, int worker);
/* All stripes were read: what the worker's still wait with. */
bool tsr__dict_flows_rest(tsr__dict_flows *flows, int worker);
/* Whether a column flows; all workers' rest is there then. */
static inline bool tsr__dict_flows_has(const tsr__dict_flows *flows, int column)
{
  return flows->flow && flows->flow[column].flows;
}
/* The list of a column that does, as tsr__dict_unify would have made it; it repeats. */
tsr__dict *tsr__dict_flows_end(tsr__dict_flows *flows, int column);

#endif
