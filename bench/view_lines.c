/* Views read in place, beside a plain loop over the same elements in the same order. */
#include "bench.h"

#include <stdio.h>

enum { ROWS = 4096, COLUMNS = 4000 };

/* The largest sum of two neighbours' elements: of every third column, or across. */
static double plain_slice(const double *x, const double *y)
{
  double most = 0;
  for (int64_t i = 0; i < ROWS; i++)
    for (int64_t j = 0; j < COLUMNS / 3; j++) {
      double sum = x[i * COLUMNS + 3 * j] + y[i * (COLUMNS / 3) + j];
      if (sum > most) most = sum;
    }
  return most;
}

static double plain_transpose(const double *x, const double *y)
{
  double most = 0;
  for (int64_t j = 0; j < COLUMNS; j++)
    for (int64_t i = 0; i < ROWS; i++) {
      double sum = x[i * COLUMNS + j] + y[j * ROWS + i];
      if (sum > most) most = sum;
    }
  return most;
}

static tsr_array *seen(tsr_array *x, bool across)
{
  return across ? tsr_transpose(x) : tsr_slice(x, TSR_ALL, TSR_STEPS(0, COLUMNS / 3 * 3, 3));
}

static tsr_status once(tsr_scope *s, tsr_array *x, tsr_array *y, bool across, double *out)
{
  tsr_scope *inner = tsr_scope_open(s);
  tsr_status status = tsr_read_scalar(tsr_max(tsr_add(seen(tsr_keep(inner, x), across), y)), out);
  tsr_scope_close(inner);
  return status;
}

int bench_view(bool across)
{
  enum { RUNS = 7 };
  const char *name = across ? "view.transpose" : "view.slice";
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_uniform(s, .key = 4, .shape = TSR_SHAPE(ROWS, COLUMNS));
  tsr_array *y = tsr_uniform(s, .key = 5, .shape = tsr_shape_of(seen(x, across)));
  double ours[BENCH_ROUNDS], plain[BENCH_ROUNDS], found = 0, expected = 0;
  tsr_shard a, b;
  int failed = tsr_shard_view(x, 0, &a) || tsr_shard_view(y, 0, &b);
  for (int r = -1; r < RUNS && !failed; r++) {
    double start = bench_now();
    failed = once(s, x, y, across, &found) != TSR_OK;
    double mine = bench_now() - start;
    start = bench_now();
    expected = across ? plain_transpose(a.data, b.data) : plain_slice(a.data, b.data);
    double theirs = bench_now() - start;
    failed = failed || found != expected;
    if (r >= 0) ours[r] = mine, plain[r] = theirs;
  }
  if (failed) fprintf(stderr, "%s: %s\n", name, tsr_message(s));
  else
    bench_line(name, bench_median(ours, RUNS) * 1e3, "plain loop", bench_median(plain, RUNS) * 1e3,
               bench_median(plain, RUNS) * 1e3, "ms");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return failed;
}
