/* many.*: programs on so many devices that the number of devices decides the time, and their
 * elements hardly count.
 *
 *   many.devices    a step of data parallelism: a sum over rows on 1,024 and 4,096 devices
 *   many.rows_cols  rows to columns: each device takes a piece from each other device
 *   many.sort       as many elements as pieces: each device sends some to each other device
 *   many.mesh       a mesh over a list of 4,096 devices
 *
 * Figures of rows_cols and sort are microseconds a piece. The limit of rows_cols is a copy of the
 * bytes; the limit of a sort is the sort of the same elements on one device. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7, MOST = 4096, MODEL = 4, COLUMNS = 1024, SIDE = 2048, THREADS = 2 };

typedef struct side {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
  tsr_array *x;
} side;

typedef tsr_array *make_fn(const side *on, tsr_array *x);

typedef struct line {
  const char *name, *mesh; /* the figure's name, and the mesh as text */
  int devices;
  bool pieces; /* microseconds a piece; else milliseconds of the whole run */
  double bar;
  make_fn *make;
} line;

static tsr_array *sum_of_rows(const side *on, tsr_array *x)
{
  (void)on;
  return tsr_sum(tsr_mul(x, 2), .dims = TSR_DIMS(0));
}

static tsr_array *columns(const side *on, tsr_array *x)
{
  return tsr_reshard(x, tsr_on(on->mesh, "-,data"));
}

static tsr_array *sorted(const side *on, tsr_array *x)
{
  (void)on;
  return tsr_sort(x, 0);
}

static const line lines[] = {
  { "many.devices.1024", "data=256,model=4", 1024, false, 2, sum_of_rows },
  { "many.devices.4096", "data=1024,model=4", 4096, false, 8, sum_of_rows },
  { "many.rows_cols.256", "data=256", 256, true, 0.2, columns },
  { "many.rows_cols.1024", "data=1024", 1024, true, 0.2, columns },
  { "many.sort.256", "data=256", 256, true, 0.2, sorted },
  { "many.sort.1024", "data=1024", 1024, true, 0.2, sorted },
};

static tsr_shape shape_of(const line *l)
{
  if (l->make == sum_of_rows) return TSR_SHAPE(l->devices / MODEL, COLUMNS);
  return l->make == columns ? TSR_SHAPE(SIDE, SIDE) : TSR_SHAPE((int64_t)l->devices * l->devices);
}

static bool open_side(side *on, const line *l, int devices)
{
  char names[16];
  const char *spec = l->make == sum_of_rows ? "data,model" : l->make == columns ? "data,-" : "data";
  snprintf(names, sizeof names, "cpu:%d", devices);
  on->rt = tsr_runtime_open(names, .threads = THREADS);
  on->s = tsr_scope_open(on->rt);
  on->mesh = tsr_mesh_make(on->rt, devices > 1 ? l->mesh : "data=1");
  on->x = tsr_uniform(on->s, .key = 4, .dtype = TSR_F32, .shape = shape_of(l),
                      .on = tsr_on(on->mesh, spec));
  if (!tsr_eval(&on->x, 1)) return true;
  fprintf(stderr, "%s: %s\n", l->name, tsr_message(on->s));
  return false;
}

static void close_side(side *on)
{
  tsr_scope_close(on->s);
  tsr_runtime_close(on->rt);
}

/* Runs the line once; returns seconds, or -1 after printing an error. */
static double once(const side *on, const line *l)
{
  double start = bench_now();
  tsr_scope *s = tsr_scope_open(on->s);
  tsr_array *y = l->make(on, tsr_keep(s, on->x));
  tsr_status status = tsr_eval(&y, 1);
  if (status) fprintf(stderr, "%s: %s\n", l->name, tsr_message(s));
  tsr_scope_close(s);
  return status ? -1 : bench_now() - start;
}

static double limit_of(const line *l, const side *one)
{
  return l->make == sorted ? once(one, l) : bench_copy((int64_t)SIDE * SIDE * 4, THREADS);
}

static int run(const line *l)
{
  side many, one = { 0 };
  double ours[ROUNDS], limit[ROUNDS] = { 0 };
  bool beside = l->make == sorted;
  bool failed = !open_side(&many, l, l->devices) || (beside && !open_side(&one, l, 1));
  for (int r = -2; r < ROUNDS && !failed; r++) {
    double mine = once(&many, l), least = l->pieces ? limit_of(l, &one) : 0;
    failed = mine < 0 || least < 0;
    if (r >= 0) ours[r] = mine, limit[r] = least;
  }
  double scale = l->pieces ? 1e6 / ((double)l->devices * l->devices) : 1e3;
  if (!failed)
    bench_line(l->name, bench_median(ours, ROUNDS) * scale, "bar", l->bar,
               l->pieces ? bench_median(limit, ROUNDS) * scale : -1, l->pieces ? "us" : "ms");
  if (beside) close_side(&one);
  close_side(&many);
  return failed;
}

/* Each round names its axis anew: a runtime keeps one mesh of those that are equal. */
static int run_mesh(void)
{
  static int devices[MOST];
  double took[ROUNDS];
  tsr_runtime *rt = tsr_runtime_open("cpu:4096", .threads = THREADS);
  bool failed = false;
  for (int p = 0; p < MOST; p++) devices[p] = MOST - 1 - p;
  for (int r = 0; r < ROUNDS; r++) {
    char name[16];
    snprintf(name, sizeof name, "round_%d", r);
    double start = bench_now();
    tsr_mesh *mesh = tsr_mesh_make_with(rt, &(tsr_mesh_opts){ .size = sizeof(tsr_mesh_opts),
                                                              .axis_count = 1,
                                                              .names = { name },
                                                              .sizes = { MOST },
                                                              .devices = devices });
    took[r] = bench_now() - start;
    failed |= tsr_mesh_status(mesh) != TSR_OK;
  }
  bench_line("many.mesh", bench_median(took, ROUNDS) * 1e3, "bar", 5, -1, "ms");
  tsr_runtime_close(rt);
  return failed;
}

int bench_many(const char *only)
{
  int failed = 0;
  size_t length = strlen(only);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!strncmp(lines[i].name, only, length)) failed |= run(&lines[i]);
  if (!strncmp("many.mesh", only, length)) failed |= run_mesh();
  return failed;
}
