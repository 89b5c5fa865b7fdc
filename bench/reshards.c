/* reshard.rows_cols, all_gather, all_to_all, reduce.sharded: 256 MiB of f32 on 8 devices.
 *
 * What an array is moved to is 256 MiB on all devices together (of the gathered one, 32 MiB each).
 * The limit is a copy of as many bytes by as many threads, of the reduction reading its operand.
 * The peer is JAX on 8 host devices. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

enum { RUNS = 7, DEVICES = 8, THREADS = 2 };

typedef struct line {
  const char *name, *from, *to;
  int64_t dims[3];
  bool sums; /* over the first dim, with the result at `to` */
} line;

static const line lines[] = {
  { "reshard.rows_cols", "x,-", "-,x", { 8192, 8192 }, false },
  { "all_gather", "x,-", "-,-", { 1024, 8192 }, false },
  { "all_to_all", "x,-,-", "-,x,-", { 64, 1024, 1024 }, false },
  { "reduce.sharded", "x,-", "x", { 8192, 8192 }, true },
};

static tsr_status once(tsr_scope *s, tsr_array *x, const tsr_mesh *mesh, const line *l)
{
  tsr_scope *inner = tsr_scope_open(s);
  tsr_array *kept = tsr_keep(inner, x);
  tsr_sharding to = tsr_on(mesh, l->to);
  tsr_array *y =
      l->sums ? tsr_constrain(tsr_sum(kept, .dims = TSR_DIMS(0)), to) : tsr_reshard(kept, to);
  tsr_status status = tsr_eval(&y, 1);
  if (status) fprintf(stderr, "%s: %s\n", l->name, tsr_message(inner));
  tsr_scope_close(inner);
  return status;
}

static double limit_of(const line *l, tsr_array *x)
{
  bench_span spans[DEVICES];
  if (!l->sums) return bench_copy((int64_t)256 << 20, THREADS);
  for (int p = 0; p < DEVICES; p++) {
    tsr_shard shard;
    if (tsr_shard_view(x, p, &shard)) return -1;
    spans[p] = (bench_span){ shard.data, ((int64_t)256 << 20) / DEVICES };
  }
  return bench_read_spans(spans, DEVICES, THREADS);
}

static int run(const line *l)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = THREADS);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=8");
  tsr_shape shape = { .rank = l->dims[2] ? 3 : 2, .dims = { l->dims[0], l->dims[1], l->dims[2] } };
  tsr_array *x =
      tsr_uniform(s, .key = 3, .dtype = TSR_F32, .shape = shape, .on = tsr_on(mesh, l->from));
  double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS], limit[BENCH_ROUNDS];
  char rest[64];
  bench_peer *peer = bench_peer_open("reshard.py", l->name);
  bool failed = tsr_eval(&x, 1);
  for (int r = -1; r < RUNS && !failed; r++) {
    double mine = 0;
    for (int k = 0; k < 2 && bench_short(mine) && !failed; k++) {
      double start = bench_now();
      failed = once(s, x, mesh, l);
      mine = bench_now() - start;
    }
    double its = bench_peer_run(peer, rest, sizeof rest);
    if (r < 0) continue;
    ours[r] = mine;
    theirs[r] = its;
    limit[r] = limit_of(l, x);
  }
  bench_peer_close(peer);
  if (!failed)
    bench_line(l->name, bench_median(ours, RUNS) * 1e3, "jax", bench_median(theirs, RUNS) * 1e3,
               bench_median(limit, RUNS) * 1e3, "ms");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}

int bench_reshards(const char *only)
{
  int failed = 0;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!only || strcmp(only, lines[i].name) == 0) failed |= run(&lines[i]);
  return failed;
}
