/* Partials meet: members send theirs to the leader, which rounds each result once, and get it back.
 *
 * Invariant: what is sent is exact, so neither the number of members nor their order can show
 * (products of floats excepted: they are multiplied in order of the members). */
#include "kernel/tile/accum.h"

static const tsr__partial *leaders(const tsr__all_reduce *c, int accum)
{
  int first = 0, count = c->accum_count; /* ascending */
  while (count > 1) {
    int half = count / 2;
    if (c->accums[first + half] <= accum) first += half;
    count -= half;
  }
  return count && c->accums[first] == accum ? c->partials[0][first] : NULL;
}

/* Bytes of a result as they travel: of bools, whole bytes. */
static size_t travel_bytes(int dtype, int64_t count)
{
  return dtype == TSR_BOOL ? (size_t)(count + 7) / 8
                           : (size_t)count * tsr_dtype_size((tsr_dtype)dtype);
}

/* The results of a slice of elements; a slice begins at a whole word of bools. */
static tsr_status read_slice(const tsr__final *all, int64_t first, int64_t count, tsr__error *error)
{
  tsr__final f = *all;
  int dtype = f.node->dtype;
  tsr__partial main = tsr__partial_slice(all->main, first, count), counts;
  f.main = &main;
  if (f.count) {
    counts = tsr__partial_slice(all->count, first, count);
    f.count = &counts;
  }
  f.out = (char *)f.out + travel_bytes(dtype, first);
  f.elements = count;
  return main.ops->read(&f, error);
}

typedef struct finishing {
  const tsr__all_reduce *c;
  int k; /* which result */
  const tsr__final *f;
  tsr__progress *progress;
  tsr__traffic *traffic;
} finishing;

/* All results, and their way to the other devices. */
static tsr_status read_all(const finishing *all, tsr__error *error)
{
  const tsr__all_reduce *c = all->c;
  const tsr__final *f = all->f;
  for (int64_t at = 0; at < f->elements; at += TSR__PARTIAL_SLICE) {
    int64_t left = f->elements - at, count = left < TSR__PARTIAL_SLICE ? left : TSR__PARTIAL_SLICE;
    if (tsr__progress_stops(all->progress, 0)) return tsr__cancelled(error, TSR__PROGRAM);
    tsr_status status = read_slice(f, at, count, error);
    if (status) return status;
    size_t begin = travel_bytes(f->node->dtype, at), bytes = travel_bytes(f->node->dtype, count);
    for (int m = 1; m < c->member_count; m++)
      tsr__cpu_move(&(tsr__transfer){ (char *)c->outputs[m][all->k]->data + begin,
                                      (char *)f->out + begin, bytes, c->devices[m], c->devices[0] },
                    all->traffic);
  }
  return TSR_OK;
}

static tsr_status finish(const tsr__all_reduce *c, int k, tsr__progress *progress,
                         tsr__traffic *traffic, tsr__error *error)
{
  int n = c->finals[k];
  int count = c->schedule->final_count[n];
  tsr__final f = { .node = &c->program->nodes[n],
                   .attr = tsr__reduce_of(c->program, &c->program->nodes[n]),
                   .main = leaders(c, c->schedule->final_main[n]),
                   .count = count < 0 ? NULL : leaders(c, count),
                   .population = c->populations[k],
                   .elements = c->out_counts[k],
                   .out = c->outputs[0][k]->data };
  TSR_INVARIANT(f.main && (count < 0 || f.count));
  if (f.main->rows[0].failed || f.main->rows[1].failed)
    return tsr__error_set(error, TSR_ENOMEM,
                          "no memory left for sums that do not fit three doubles");
  return read_all(&(finishing){ c, k, &f, progress, traffic }, error);
}

tsr_status tsr__cpu_all_reduce(const tsr__all_reduce *c, tsr__traffic *traffic, tsr__error *error)
{
  const tsr__tiles *tiles = tsr__cpu_of(c->rt)->tiles;
  tsr__progress progress = { .rt = c->rt, .what = TSR__PROGRAM };
  for (int a = 0; a < c->accum_count; a++)
    for (int m = 1; m < c->member_count; m++)
      if (!tsr__partial_send(c->partials[0][a], c->partials[m][a], tiles, &progress, traffic))
        return tsr__error_set(error, TSR_ENOMEM,
                              "device %d has no memory to combine the partial "
                              "results of a reduction; free arrays",
                              c->devices[0]);
  if (progress.stop) return tsr__cancelled(error, TSR__PROGRAM);
  for (int k = 0; k < c->final_count; k++) {
    tsr_status status = finish(c, k, &progress, traffic, error);
    if (status) return status;
  }
  return TSR_OK;
}
