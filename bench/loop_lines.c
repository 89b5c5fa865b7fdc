/* scan: a recurrence of 16 elements over 10,000 steps, one device. Peer: jax.lax.scan. */
#include <math.h>
#include <stdio.h>

#include "bench.h"

enum { RUNS = 9, STEPS = 10000, WIDE = 16 };

/* h = tanh(h w + x), which is stacked, too */
static tsr_array *recur(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *h = tsr_tanh(tsr_add(tsr_mul(in[0], in[2]), in[1]));
  return tsr_tuple(s, h, h);
}

static tsr_array *whole(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_scan(recur, NULL, in[0], .xs = in[1], .with = in[2]);
}

/* Seconds a step; *sum: of the last h. Negative: it failed. */
static double timed(tsr_scope *s, tsr_function *f, tsr_array *const *in, double *sum)
{
  double start = bench_now();
  tsr_scope *inner = tsr_scope_open(s);
  tsr_array *out =
      tsr_call(f, tsr_keep(inner, in[0]), tsr_keep(inner, in[1]), tsr_keep(inner, in[2]));
  tsr_array *both[2] = { tsr_item(out, 0), tsr_item(out, 1) };
  tsr_status status = tsr_eval(both, 2);
  double took = (bench_now() - start) / STEPS;
  if (!status) status = tsr_read_scalar(tsr_sum(both[0]), sum);
  if (status) fprintf(stderr, "scan: %s\n", tsr_message(inner));
  tsr_scope_close(inner);
  return status ? -1 : took;
}

int bench_scan(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding any = { .mesh = NULL };
  tsr_array *h = tsr_full(s, 0.1, TSR_F32, TSR_SHAPE(WIDE), any), *n = tsr_num(s, 0.01);
  tsr_array *x = tsr_sin(tsr_mul(tsr_iota(s, TSR_F32, TSR_SHAPE(STEPS, WIDE), 0, any), n));
  tsr_array *const in[] = { h, tsr_cast(x, TSR_F32), tsr_mul(h, 3) };
  tsr_function *f = tsr_function_make(s, whole, .name = "scan");
  double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS], sum = 0, other = 0;
  char rest[64] = "";
  bench_peer *peer = bench_peer_open("loops.py", "");
  bool failed = tsr_eval(in, 3);
  for (int r = -1; r < RUNS && !failed; r++) {
    double mine = timed(s, f, in, &sum);
    if (bench_short(mine * STEPS)) mine = timed(s, f, in, &sum);
    double its = bench_peer_run(peer, rest, sizeof rest);
    failed = mine < 0;
    if (r >= 0) ours[r] = mine, theirs[r] = its;
  }
  bench_peer_close(peer);
  if (!failed && sscanf(rest, "%lf", &other) == 1 && !(fabs(sum - other) < 1e-3))
    fprintf(stderr, "scan: %g, and the peer says %g\n", sum, other);
  if (!failed)
    bench_line("scan", bench_median(ours, RUNS) * 1e6, "jax", bench_median(theirs, RUNS) * 1e6, -1,
               "us");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}
