/* The law of windows over dims that are cut: reductions of windows and pools give on any mesh what
 * loops give, devices exchange the elements that windows show of their neighbours and gather
 * nothing, and as many bytes are counted as explained. Runs at each ISA. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "tessera.h"

enum { MOST = 48, LONG = 20000 };

/* Windows of two dims: rows and columns. */
typedef struct windows {
  tsr_window_op op;
  int64_t window[2], stride[2], low[2], high[2], dilation[2];
} windows;

typedef struct trial {
  test_rng rng;
  tsr_scope *s;
  int64_t rows, columns;
  double data[3 * LONG];
  windows w;
} trial;

static windows any_windows(trial *t)
{
  windows w = { .op = (tsr_window_op)test_range(&t->rng, TSR_WINDOW_SUM, TSR_WINDOW_PROD) };
  for (int d = 0; d < 2; d++) {
    w.window[d] = test_range(&t->rng, 1, 7);
    w.stride[d] = test_range(&t->rng, 1, 4);
    w.dilation[d] = test_range(&t->rng, 0, 3) ? 1 : 2;
    w.low[d] = test_range(&t->rng, 0, 2);
    w.high[d] = test_range(&t->rng, 0, 2);
  }
  return w;
}

static double joined(tsr_window_op op, double a, double b)
{
  switch (op) {
  case TSR_WINDOW_MAX: return fmax(a, b);
  case TSR_WINDOW_MIN: return fmin(a, b);
  case TSR_WINDOW_PROD: return a * b;
  default: return a + b;
  }
}

static double empty(tsr_window_op op)
{
  if (op == TSR_WINDOW_MAX) return -(double)INFINITY;
  return op == TSR_WINDOW_MIN ? (double)INFINITY : op == TSR_WINDOW_PROD;
}

/* What one window holds; borders hold nothing. */
static double one_window(const trial *t, int64_t row, int64_t column)
{
  double out = empty(t->w.op);
  for (int64_t i = 0; i < t->w.window[0]; i++)
    for (int64_t j = 0; j < t->w.window[1]; j++) {
      int64_t r = row * t->w.stride[0] + i * t->w.dilation[0] - t->w.low[0];
      int64_t c = column * t->w.stride[1] + j * t->w.dilation[1] - t->w.low[1];
      bool inside = r >= 0 && r < t->rows && c >= 0 && c < t->columns;
      if (inside) out = joined(t->w.op, out, t->data[r * t->columns + c]);
    }
  return out;
}

static int64_t windows_along(const windows *w, int d, int64_t size)
{
  int64_t room = size + w->low[d] + w->high[d] - (w->window[d] - 1) * w->dilation[d] - 1;
  return room < 0 ? 0 : room / w->stride[d] + 1;
}

static tsr_array *reduce(const trial *t, tsr_array *x)
{
  tsr_window_args args = { .size = sizeof args, .x = x, .op = t->w.op };
  for (int d = 0; d < 2; d++) {
    args.window[d] = t->w.window[d];
    args.stride[d] = t->w.stride[d];
    args.dilation[d] = t->w.dilation[d];
    args.low[d] = t->w.low[d];
    args.high[d] = t->w.high[d];
  }
  return tsr_reduce_window_at(&args, TSR_HERE);
}

/* Evaluates, by halos alone. */
static void check_traffic(const trial *t, tsr_array *a)
{
  const char *text = tsr_explain(&a, 1);
  if (strstr(text, "gather")) FAIL("something is gathered:\n%s", text);
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, t->s);
  tsr_run_stats stats = tsr_last_run(t->s);
  CHECK_I64(stats.bytes_counted, stats.bytes_explained);
}

/* Small integers, so that no order shows in floats. */
static bool one_trial(tsr_runtime *rt, uint64_t seed)
{
  trial *t = calloc(1, sizeof *t);
  t->rng = test_seeded(seed);
  t->s = tsr_scope_open(rt);
  const tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&t->rng, 0, LAW_MESHES - 1)]);
  t->rows = test_range(&t->rng, 1, MOST);
  t->columns = test_range(&t->rng, 1, MOST);
  /* Few rows, of which devices hold none; at times as long ones as are cut into tasks. */
  if (test_range(&t->rng, 0, 3) == 0) t->rows = test_range(&t->rng, 0, 3);
  if (t->rows <= 3 && test_range(&t->rng, 0, 3) == 0)
    t->columns = test_range(&t->rng, LONG / 2, LONG);
  if (test_range(&t->rng, 0, 1)) {
    int64_t rows = t->rows;
    t->rows = t->columns;
    t->columns = rows;
  }
  t->w = any_windows(t);
  int64_t count = t->rows * t->columns;
  for (int64_t i = 0; i < count; i++)
    t->data[i] = (double)test_range(&t->rng, t->w.op == TSR_WINDOW_PROD ? 1 : -9, 2);
  tsr_shape shape = TSR_SHAPE(t->rows, t->columns);
  tsr_array *x = tsr_put(t->s, t->data, TSR_F64, shape, law_sharding(&t->rng, mesh, shape.rank));
  tsr_array *made = reduce(t, x);
  check_traffic(t, made);
  int64_t rows = windows_along(&t->w, 0, t->rows), columns = windows_along(&t->w, 1, t->columns);
  tsr_shape found_shape = tsr_shape_of(made);
  CHECK(found_shape.dims[0] == rows && found_shape.dims[1] == columns);
  size_t bytes = (size_t)(rows * columns) * sizeof(double);
  double *found = malloc(bytes + 8);
  CHECK_STATUS(tsr_read(made, found, bytes), TSR_OK, t->s);
  for (int64_t i = 0; i < rows * columns; i++) {
    double expected = one_window(t, i / columns, i % columns);
    if (!(found[i] == expected))
      FAIL("seed %llu: window %lld is %g, expected %g", (unsigned long long)seed, (long long)i,
           found[i], expected);
  }
  free(found);
  tsr_scope_close(t->s);
  free(t);
  return rows * columns > 0;
}

TEST_TIMEOUT(windows_of_cut_dims_exchange_halos, 600)
{
  law_each_seed_on_8(1, test_quick() ? 150 : 1500, 0.5, one_trial);
}

/* Windows that end where devices do need nobody; others what they show of their neighbour. */
TEST(pools_move_what_windows_show)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_default(rt, "x"), "-,x");
  tsr_array *x = tsr_iota(s, TSR_F32, TSR_SHAPE(1, 64, 8, 3), 1, on);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  tsr_array *apart = tsr_max_pool(x, .window = { 2, 2 });
  tsr_array *over = tsr_max_pool(x, .window = { 2, 2 }, .stride = { 1, 1 });
  tsr_array *means = tsr_avg_pool(x, .window = { 2, 2 });
  trial t = { .s = s };
  check_traffic(&t, apart);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  check_traffic(&t, means);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  check_traffic(&t, over); /* 63 rows of 64: borders move by up to a row, and one row is shown */
  CHECK(tsr_last_run(s).bytes_counted > 0 && tsr_last_run(s).bytes_counted <= 3 * 2 * 96);
  tsr_runtime_close(rt);
}
