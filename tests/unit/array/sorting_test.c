/* Order and prefixes along a dim: NumPy's values, and what moves. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "kernel/exact/exact.h"
#include "support/golden_arrays.h"
#include "support/naive_program.h"
#include "tessera.h"

static void apply(const char *op, int dim, tsr_array *const *in, tsr_array **out)
{
  tsr_array *x = in[0];
  if (!strcmp(op, "descending")) {
    out[0] = tsr_sort(x, dim, .descending = true);
    out[1] = tsr_argsort(x, dim, .descending = true);
  } else if (!strcmp(op, "lexsort")) {
    out[0] = tsr_lexsort(in, 3, dim);
  } else if (!strcmp(op, "partition")) {
    out[0] = tsr_partition(x, -1, dim);
    out[1] = tsr_argpartition(x, 0, dim);
  } else if (!strcmp(op, "cumsum_back")) out[0] = tsr_cumsum(x, dim, .reverse = true);
  else if (!strcmp(op, "cumprod_back")) out[0] = tsr_cumprod(x, dim, .reverse = true);
  else if (!strcmp(op, "cummax_back")) out[0] = tsr_cummax(x, dim, .reverse = true);
  else if (!strcmp(op, "cummin_back")) out[0] = tsr_cummin(x, dim, .reverse = true);
  else if (!strcmp(op, "nancumsum")) out[0] = tsr_nancumsum(x, dim);
  else if (!strcmp(op, "nancumprod")) out[0] = tsr_nancumprod(x, dim);
  else FAIL("no operation %s", op);
}

TEST_TIMEOUT(orders_and_prefixes_are_numpys, 200)
{
  CHECK(golden_arrays_check("golden/sorting.txt", apply) >= 250);
}

/* ---- prefixes of long lines, and of lines over devices ---- */

enum { LONG = 300001 };

/* Values far apart, sums that cancel, specials late. */
static void draw_line(test_rng *rng, double *x, bool wide)
{
  for (int64_t i = 0; i < LONG; i++) {
    x[i] = ldexp((double)test_range(rng, -1000000, 1000000), (int)test_range(rng, -30, 5));
    if (wide && i % 7 == 0) x[i] = ldexp(x[i], (int)test_range(rng, -900, 850));
    if (i % 11 == 5) x[i] = -x[i - 1];
    if (i < 9) x[i] = -0.0;
  }
  x[LONG - 3] = INFINITY;
  x[LONG - 1] = NAN;
}

/* Each element is the sum of an accumulator that took the values one by one. */
static void check_sums(const double *x, const void *y, tsr_dtype dtype, bool reverse)
{
  static tsr__acc acc;
  memset(&acc, 0, sizeof acc);
  for (int64_t i = 0; i < LONG; i++) {
    int64_t at = reverse ? LONG - 1 - i : i;
    double found = dtype == TSR_F32 ? (double)((const float *)y)[at] : ((const double *)y)[at];
    tsr__acc_add(&acc, x[at]);
    double expected = tsr__acc_sum(&acc, dtype);
    if (memcmp(&found, &expected, sizeof found) && !(isnan(found) && isnan(expected)))
      FAIL("prefix %lld: %a, expected %a", (long long)i, found, expected);
  }
}

static void check_cumsum(tsr_scope *s, const double *x, tsr_dtype dtype, tsr_sharding at)
{
  double *y = malloc(LONG * sizeof *y);
  float *narrow = malloc(LONG * sizeof *narrow);
  for (int64_t i = 0; i < LONG; i++) narrow[i] = (float)x[i];
  const void *data = dtype == TSR_F32 ? (const void *)narrow : x;
  tsr_array *a = tsr_put(s, data, dtype, TSR_SHAPE(LONG), at);
  for (int back = 0; back < 2; back++) {
    tsr_array *sums = tsr_cumsum(a, 0, .reverse = back);
    CHECK_STATUS(tsr_read(sums, y, LONG * tsr_dtype_size(dtype)), TSR_OK, s);
    tsr_run_stats stats = tsr_last_run(s);
    CHECK_I64(stats.bytes_counted, stats.bytes_explained + stats.bytes_escaped);
    CHECK_I64(stats.bytes_explained, at.mesh ? 24 * (tsr_mesh_device_count(at.mesh) - 1) : 0);
    check_sums(x, y, dtype, back);
  }
  free(y);
  free(narrow);
}

TEST_TIMEOUT(long_prefix_sums_are_exact_on_any_mesh, 300)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  test_rng rng = test_seeded(4);
  double *x = malloc(LONG * sizeof *x);
  const char *meshes[] = { NULL, "x=3", "x=8" };
  for (int m = 0; m < 3; m++) {
    const tsr_mesh *mesh = meshes[m] ? tsr_mesh_make(rt, meshes[m]) : NULL;
    tsr_sharding at = mesh ? tsr_on(mesh, "x") : (tsr_sharding){ 0 };
    draw_line(&rng, x, true);
    check_cumsum(s, x, TSR_F64, at);
    draw_line(&rng, x, false);
    for (int64_t i = 0; i < LONG; i++) x[i] = (double)(float)x[i];
    check_cumsum(s, x, TSR_F32, at);
  }
  free(x);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(a_scan_over_devices_tells_what_it_passes_on)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  tsr_array *a = tsr_full(s, 1, TSR_F64, TSR_SHAPE(8, 6), tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
  tsr_array *sums = tsr_cumsum(a, 0);
  CHECK_STR_HAS(tsr_explain(&sums, 1), "prefix over x=4: 432 bytes\n"
                                       "    because cumsum at sorting_test.c");
  CHECK_STR_HAS(tsr_explain(&sums, 1), "runs along the sharded dim 0 of %0");
  double last[48];
  CHECK_STATUS(tsr_read(sums, last, sizeof last), TSR_OK, s);
  CHECK_F64_BITS(last[47], 8);
  CHECK_I64(tsr_last_run(s).bytes_counted, 432);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Of eight devices each keeps an eighth of what it has, about. */
TEST(a_sort_over_devices_moves_each_element_once)
{
  enum { MANY = 80000 };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  test_rng rng = test_seeded(9);
  float *x = malloc(MANY * sizeof *x);
  for (int64_t i = 0; i < MANY; i++) x[i] = (float)test_range(&rng, -1000000, 1000000);
  tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(MANY), tsr_on(tsr_mesh_make(rt, "x=8"), "x"));
  tsr_array *sorted = tsr_sort(a, 0);
  CHECK_STR_HAS(tsr_explain(&sorted, 1), "sort over x=8: bytes known after the run\n"
                                         "    because sort at sorting_test.c");
  CHECK_STATUS(tsr_eval(&sorted, 1), TSR_OK, s);
  tsr_run_stats stats = tsr_last_run(s);
  CHECK_I64(stats.bytes_explained, 0);
  CHECK_I64(stats.bytes_counted, stats.bytes_escaped);
  CHECK(stats.bytes_counted > MANY * 4 * 6 / 8 && stats.bytes_counted < MANY * 4);
  free(x);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- long lines of any bits ---- */

enum { BITS = 140001 };

typedef struct bits_case {
  tsr_dtype dtype;
  bool down;
  char x[BITS * 8], values[BITS * 8];
  int64_t places[BITS];
} bits_case;

/* 1: the element at `a` belongs behind the one at `b`, -1: before it. */
static int order_of(const bits_case *c, int64_t a, int64_t b)
{
  cell x = naive_get(c->x, (int)c->dtype, a), y = naive_get(c->x, (int)c->dtype, b);
  bool real = naive_is_real((int)c->dtype);
  if (real && (isnan(x.f) || isnan(y.f))) return isnan(x.f) - isnan(y.f);
  int order = real ? (x.f > y.f) - (x.f < y.f)
              : c->dtype == TSR_U64
                  ? ((uint64_t)x.i > (uint64_t)y.i) - ((uint64_t)x.i < (uint64_t)y.i)
                  : (x.i > y.i) - (x.i < y.i);
  return c->down ? -order : order;
}

/* In order, stable, each element once, and values are theirs in every bit. */
static void check_bits(const bits_case *c, const char *what)
{
  size_t size = tsr_dtype_size(c->dtype);
  bool *met = calloc(BITS, 1);
  for (int64_t i = 0; i < BITS; i++) {
    int64_t p = c->places[i], before = i ? c->places[i - 1] : p;
    CHECK(p >= 0 && p < BITS && !met[p]);
    met[p] = true;
    int order = order_of(c, before, p);
    if (order > 0 || (!order && before > p))
      FAIL("%s of %s: place %lld", what, tsr_dtype_name(c->dtype), (long long)i);
    if (memcmp(c->values + (size_t)i * size, c->x + (size_t)p * size, size))
      FAIL("%s of %s: value %lld", what, tsr_dtype_name(c->dtype), (long long)i);
  }
  free(met);
}

static void sort_bits(tsr_scope *outer, bits_case *c, tsr_sharding at, const char *what)
{
  tsr_scope *s = tsr_scope_open(outer);
  tsr_array *a = tsr_put(s, c->x, c->dtype, TSR_SHAPE(BITS), at);
  size_t bytes = BITS * tsr_dtype_size(c->dtype);
  tsr_array *both[2] = { tsr_sort(a, 0, .descending = c->down),
                         tsr_argsort(a, 0, .descending = c->down) };
  CHECK_STATUS(tsr_read(both[0], c->values, bytes), TSR_OK, s); /* alone */
  CHECK_STATUS(tsr_read(both[1], c->places, sizeof c->places), TSR_OK, s);
  check_bits(c, what);
  tsr_array *again = tsr_put(s, c->x, c->dtype, TSR_SHAPE(BITS), at);
  both[0] = tsr_sort(again, 0, .descending = c->down);
  both[1] = tsr_argsort(again, 0, .descending = c->down);
  CHECK_STATUS(tsr_eval(both, 2), TSR_OK, s);
  CHECK_STATUS(tsr_read(both[0], c->values, bytes), TSR_OK, s);
  check_bits(c, what);
  tsr_scope_close(s);
}

/* Random bits; without -0 and NaN; few values that differ in the middle. */
static void draw_bits(test_rng *rng, bits_case *c, int kind)
{
  for (int64_t i = 0; i < BITS; i++) {
    uint64_t bits = test_random(rng);
    if (kind == 2) bits = (bits & UINT64_C(0x0070007000700070)) | UINT64_C(0x4000400040004000);
    memcpy(c->x + (size_t)i * tsr_dtype_size(c->dtype), &bits, tsr_dtype_size(c->dtype));
    cell x = naive_get(c->x, (int)c->dtype, i);
    if (kind == 1 && naive_is_real((int)c->dtype) && (isnan(x.f) || x.f == 0))
      naive_put(c->x, (int)c->dtype, i, (cell){ .f = 1 });
  }
}

TEST_TIMEOUT(long_lines_of_any_bits_are_sorted, 600)
{
  static bits_case c;
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  test_rng rng = test_seeded(6);
  tsr_sharding cut = tsr_on(tsr_mesh_make(rt, "x=8"), "x");
  for (int d = TSR_I8; d <= TSR_F64; d++)
    for (int kind = 0; kind < 3; kind++) {
      c.dtype = (tsr_dtype)d;
      c.down = test_range(&rng, 0, 1);
      draw_bits(&rng, &c, kind);
      sort_bits(s, &c, (tsr_sharding){ 0 }, "a whole line");
      sort_bits(s, &c, cut, "a line on eight devices");
    }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Short lines go to one device each; of a single one each element goes where it belongs. */
TEST(sorts_of_short_lines_move_each_element_once)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=8");
  test_rng rng = test_seeded(3);
  float x[64 * 512];
  for (int i = 0; i < 64 * 512; i++) x[i] = (float)test_range(&rng, -1000, 1000);
  tsr_array *lines = tsr_put(s, x, TSR_F32, TSR_SHAPE(64, 512), tsr_on(mesh, "-,x"));
  tsr_array *line = tsr_put(s, x, TSR_F32, TSR_SHAPE(1000), tsr_on(mesh, "x"));
  tsr_array *sorted[] = { tsr_sort(lines, 1), tsr_sort(line, 0), tsr_top_k(line, 10, 0) };
  const int64_t most[] = { 64 * 512 * 4 * 7 / 8, 1000 * 4 * 3 / 2, 80 * 4 * 2 };
  for (int i = 0; i < 3; i++) {
    CHECK_STATUS(tsr_eval(&sorted[i], 1), TSR_OK, s);
    int64_t bytes = tsr_last_run(s).bytes_counted;
    if (bytes > most[i] || bytes * 4 < most[i])
      FAIL("sort %d: %lld bytes, at most %lld", i, (long long)bytes, (long long)most[i]);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- bools ---- */

TEST(bools_are_ordered_and_picked)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  const bool x[] = { false, true, false, true };
  const double y[] = { 2, 1, 0, -1 };
  tsr_sharding cut = tsr_on(tsr_mesh_default(rt, "x"), "x");
  tsr_array *a = tsr_put(s, x, TSR_BOOL, TSR_SHAPE(4), cut);
  tsr_array *b = tsr_put(s, y, TSR_F64, TSR_SHAPE(4), cut);
  bool found[4];
  int64_t places[4];
  CHECK_STATUS(tsr_read(tsr_cummax(a, 0), found, 4), TSR_OK, s);
  CHECK(!found[0] && found[1] && found[2] && found[3]);
  CHECK_STATUS(tsr_read(tsr_cummin(a, 0, .reverse = true), found, 4), TSR_OK, s);
  CHECK(!found[0] && !found[1] && !found[2] && found[3]);
  CHECK_STATUS(tsr_read(tsr_lexsort((tsr_array *[]){ b, a }, 2, 0), places, sizeof places), TSR_OK,
               s);
  CHECK(places[0] == 2 && places[1] == 0 && places[2] == 3 && places[3] == 1);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
