/* uniform and normal: 2^24 draws of f32, one device, two threads. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2, ROUNDS = 9 };
static const int64_t count = 1 << 24;

/* Makes and evaluates draws by another key each time: seconds, negative where it failed. `mean`, if
 * any, gets that of their sizes. */
static double once(tsr_scope *outer, bool normal, uint64_t key, double *mean)
{
  tsr_scope *s = tsr_scope_open(outer);
  double start = bench_now();
  tsr_array *x = normal ? tsr_normal(s, .key = key, .dtype = TSR_F32, .shape = TSR_SHAPE(count))
                        : tsr_uniform(s, .key = key, .dtype = TSR_F32, .shape = TSR_SHAPE(count));
  tsr_status status = tsr_wait(x);
  double seconds = bench_now() - start;
  if (!status && mean) status = tsr_read_scalar(tsr_mean(tsr_cast(tsr_abs(x), TSR_F64)), mean);
  if (status) fprintf(stderr, "draws: %s\n", tsr_message(s));
  tsr_scope_close(s);
  return status ? -1 : seconds;
}

int bench_draws(bool normal)
{
  const char *name = normal ? "normal" : "uniform";
  double expected = normal ? sqrt(2 / M_PI) : 0.5, mean = 0;
  double ours[BENCH_ROUNDS], theirs[BENCH_ROUNDS], limits[BENCH_ROUNDS];
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = THREADS);
  tsr_scope *s = tsr_scope_open(rt);
  bench_peer *peer = bench_peer_open("draws.py", name);
  int failed = 0;
  for (int r = -1; r < ROUNDS && !failed; r++) {
    char said[64] = "";
    double mine = once(s, normal, (uint64_t)r + 2, r < 0 ? &mean : NULL);
    if (bench_short(mine)) mine = once(s, normal, (uint64_t)r + 20, NULL);
    double other = peer ? bench_peer_run(peer, said, sizeof said) : -1;
    failed = mine < 0 || fabs(mean - expected) > 1e-3 ||
             (other > 0 && fabs(strtod(said, NULL) - expected) > 1e-3);
    if (r >= 0) ours[r] = mine, theirs[r] = other, limits[r] = bench_copy(count * 2, THREADS);
  }
  if (failed) fprintf(stderr, "%s: a mean size of %g, expected %g\n", name, mean, expected);
  else
    bench_line(name, bench_median(ours, ROUNDS) * 1e3, "jax jit",
               peer ? bench_median(theirs, ROUNDS) * 1e3 : -1, bench_median(limits, ROUNDS) * 1e3,
               "ms");
  if (peer) bench_peer_close(peer);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}
