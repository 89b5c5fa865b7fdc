/* plan.*: what a node costs before anything is computed.
 *
 *   traced    calls make the nodes in a scope of their own, which is then closed
 *   cached    tsr_eval of a program whose plan is known, on so few elements that its run is nearly
 *             nothing
 *   planned   what tsr_eval takes longer where the plan is not known
 *
 * Nine of ten nodes are elementwise and a chain, the tenth sums what the chain has become; the sums
 * and the end of the chain are evaluated. Which operations the first nodes are says the program's
 * number, so that there are more programs than plans are kept.
 *
 * plan.N.placed: the same on a mesh of 2x2, where no two operands lie alike: every node is asked
 * where it should be done. The sums are over rows, and after each the chain is constrained in turn
 * to one of two placements. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { DIGITS = 8, ROUNDS = 9, SIZES = 3, LEAVES = 4, SIDE = 8 };

static const int sizes[SIZES] = { 10, 1000, 10000 };

static const char *const specs[LEAVES] = { "x,y", "y,x", "x+y,-", "-,y" };

typedef struct side {
  tsr_runtime *rt;
  tsr_scope *s;
  const tsr_mesh *mesh; /* NULL: nothing is placed */
  int leaves;
  tsr_array *leaf[LEAVES];
  tsr_array **roots;
} side;

static bool open_side(side *d, bool placed)
{
  float data[SIDE * SIDE];
  for (int i = 0; i < SIDE * SIDE; i++) data[i] = (float)i * 0.5f;
  d->rt = tsr_runtime_open(placed ? "cpu:4" : "cpu:1", .threads = 2);
  d->s = tsr_scope_open(d->rt);
  d->mesh = placed ? tsr_mesh_make(d->rt, "x=2,y=2") : NULL;
  d->leaves = placed ? LEAVES : 2;
  d->roots = malloc((size_t)(sizes[SIZES - 1] / 10 + 1) * sizeof(tsr_array *));
  tsr_shape shape = placed ? TSR_SHAPE(SIDE, SIDE) : TSR_SHAPE(SIDE);
  for (int i = 0; i < d->leaves; i++) {
    tsr_sharding on = placed ? tsr_on(d->mesh, specs[i]) : (tsr_sharding){ 0 };
    d->leaf[i] = tsr_put(d->s, data, TSR_F32, shape, on);
  }
  return d->roots && !tsr_eval(d->leaf, d->leaves);
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

/* A root, and what the chain goes on with. */
static tsr_array *add_root(const side *d, tsr_array *x, int root)
{
  d->roots[root] = d->mesh ? tsr_sum(x, .dims = TSR_DIMS(0)) : tsr_sum(x);
  return d->mesh ? tsr_constrain(x, tsr_on(d->mesh, specs[root % 2])) : x;
}

/* Makes program `number` of so many nodes; returns how many roots it has. */
static int make(const side *d, tsr_scope *s, int nodes, int number)
{
  tsr_array *x = tsr_keep(s, d->leaf[0]);
  int roots = 0;
  for (int i = 0, made = 0; i < nodes; i++) {
    if (i % 10 == 9) {
      x = add_root(d, x, roots++);
      continue;
    }
    int digit = made < DIGITS ? number >> 2 * made & 3 : made & 3;
    x = step(x, d->leaf[made++ % d->leaves], digit);
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

static void say(int nodes, bool placed, const char *what, double us, double bar)
{
  char name[64];
  snprintf(name, sizeof name, "plan.%d.%s%s", nodes, placed ? "placed." : "", what);
  bench_line(name, us, "bar", bar, -1, "us");
}

int bench_plans(int nodes, bool placed)
{
  int programs = nodes < 1000 ? 500 : nodes < 10000 ? 20 : 3, number = 0;
  double traced[BENCH_ROUNDS], cached[BENCH_ROUNDS], planned[BENCH_ROUNDS];
  tsr_status status = TSR_OK;
  side d;
  if (!open_side(&d, placed)) return 1;
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
  say(nodes, placed, "traced", bench_median(traced, ROUNDS), 0.3);
  say(nodes, placed, "planned", bench_median(planned, ROUNDS), 1.5);
  say(nodes, placed, "cached", bench_median(cached, ROUNDS), 0.3);
  return 0;
}
