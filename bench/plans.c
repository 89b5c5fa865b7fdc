/* plan.*: what a node costs before anything is computed.
 *
 *   traced    calls make the nodes in a scope of their own, which is then closed
 *   cached    tsr_eval of a program whose plan is known, on so few elements that its run is nearly
 *             nothing
 *   planned   what tsr_eval takes longer where the plan is not known
 *
 * Nine of ten nodes are elementwise and a chain, the tenth sums what the chain has become; the sums
 * and the end of the chain are evaluated. Which operations the first nodes are says the program's
 * number, so that there are more programs than plans are kept. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { DIGITS = 8, ROUNDS = 9, SIZES = 3 };

static const int sizes[SIZES] = { 10, 1000, 10000 };

typedef struct side {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_array *leaf[2];
  tsr_array **roots;
} side;

static bool open_side(side *d)
{
  float data[2][8];
  for (int i = 0; i < 16; i++) data[i / 8][i % 8] = (float)i * 0.5f;
  d->rt = tsr_runtime_open("cpu:1", .threads = 2);
  d->s = tsr_scope_open(d->rt);
  d->roots = malloc((size_t)(sizes[SIZES - 1] / 10 + 1) * sizeof(tsr_array *));
  for (int i = 0; i < 2; i++)
    d->leaf[i] = tsr_put(d->s, data[i], TSR_F32, TSR_SHAPE(8), (tsr_sharding){ 0 });
  return d->roots && !tsr_eval(d->leaf, 2);
}

static void close_side(side *d)
{
  free(d->roots);
  tsr_scope_close(d->s);
  tsr_runtime_close(d->rt);
}

static tsr_array *step(tsr_array *a, tsr_array *b, int digit)
{
  switch (digit) {
  case 0: return tsr_add(a, b);
  case 1: return tsr_sub(a, b);
  case 2: return tsr_maximum(a, b);
  default: return tsr_minimum(a, b);
  }
}

/* Makes program `number` of so many nodes; returns how many roots it has. */
static int make(const side *d, tsr_scope *s, int nodes, int number)
{
  tsr_array *x = tsr_keep(s, d->leaf[0]);
  int roots = 0;
  for (int i = 0, made = 0; i < nodes; i++) {
    if (i % 10 == 9) {
      d->roots[roots++] = tsr_sum(x);
      continue;
    }
    int digit = made < DIGITS ? number >> 2 * made & 3 : made & 3;
    x = step(x, d->leaf[made++ & 1], digit);
  }
  d->roots[roots++] = x;
  return roots;
}

/* Seconds that making and closing take, and that evaluating takes. */
static tsr_status once(const side *d, int nodes, int number, double took[2])
{
  double start = bench_now();
  tsr_scope *s = tsr_scope_open(d->s);
  int roots = make(d, s, nodes, number);
  double made = bench_now();
  tsr_status status = tsr_eval(d->roots, roots);
  double ran = bench_now();
  if (status) fprintf(stderr, "plan.%d: %s\n", nodes, tsr_message(s));
  tsr_scope_close(s);
  took[0] += made - start + bench_now() - ran;
  took[1] += ran - made;
  return status;
}

int bench_plans(int nodes)
{
  int programs = nodes < 1000 ? 500 : nodes < 10000 ? 20 : 3, number = 0;
  double traced[BENCH_ROUNDS], cached[BENCH_ROUNDS], planned[BENCH_ROUNDS];
  tsr_status status = TSR_OK;
  side d;
  if (!open_side(&d)) return 1;
  for (int r = -1; r < ROUNDS && !status; r++) {
    double fresh[2] = { 0 }, known[2] = { 0 };
    for (int p = 0; p < programs && !status; p++) {
      status = once(&d, nodes, ++number, fresh);
      if (!status) status = once(&d, nodes, number, known);
    }
    double scale = 1e6 / ((double)programs * nodes);
    if (r < 0) continue;
    traced[r] = (fresh[0] + known[0]) * scale / 2;
    cached[r] = known[1] * scale;
    planned[r] = (fresh[1] - known[1]) * scale;
  }
  close_side(&d);
  if (status) return 1;
  char name[64];
  snprintf(name, sizeof name, "plan.%d.traced", nodes);
  bench_line(name, bench_median(traced, ROUNDS), "bar", 0.3, -1, "us");
  snprintf(name, sizeof name, "plan.%d.planned", nodes);
  bench_line(name, bench_median(planned, ROUNDS), "bar", 1.5, -1, "us");
  snprintf(name, sizeof name, "plan.%d.cached", nodes);
  bench_line(name, bench_median(cached, ROUNDS), "bar", 0.3, -1, "us");
  return 0;
}
