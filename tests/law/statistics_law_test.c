/* The law of statistics: over random shapes, dims, types, meshes and specs, each has on every mesh
 * the bits of one device, and is what a loop over long doubles says. A failure names its seed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/naive_program.h"
#include "tessera.h"

enum { MOST = 70000, KINDS = 12 };

typedef struct trial {
  test_rng rng;
  uint64_t seed;
  int kind, dim, between;
  tsr_dtype dtype;
  tsr_shape shape;
  int64_t count, inner, line,
      lines; /* an element of line l: (l / inner * line + i) * inner + ... */
  double q;
  bool skip, tail; /* all dims from `dim` on */
  char host[MOST * 8], weight[MOST * 8], first[MOST * 8], found[MOST * 8];
} trial;

static const char *const names[KINDS] = { "ptp",     "norm",        "logsumexp", "softmax",
                                          "average", "log_softmax", "quantile",  "median",
                                          "sum",     "min",         "allclose",  "array_equal" };

static int64_t place(const trial *t, int64_t l, int64_t i)
{
  return (l / t->inner * t->line + i) * t->inner + l % t->inner;
}

static void draw(trial *t)
{
  static const int64_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 13 };
  t->kind = (int)test_range(&t->rng, 0, KINDS - 1);
  do t->dtype = (tsr_dtype)test_range(&t->rng, TSR_BOOL, TSR_F64);
  while (t->dtype == TSR_BOOL && t->kind != 1 && t->kind < 10);
  t->shape = (tsr_shape){ .rank = (int)test_range(&t->rng, 1, 3) };
  t->count = t->inner = 1;
  for (int d = 0; d < t->shape.rank; d++) t->shape.dims[d] = sizes[test_range(&t->rng, 0, 7)];
  t->shape = law_deep(&t->rng, t->shape, TSR_MAX_RANK);
  /* Of three dims, as what is expected of softmax costs the square of a line. */
  if (test_range(&t->rng, 0, 199) == 0) t->shape = law_large(&t->rng, 3, 3);
  t->dim = (int)test_range(&t->rng, 0, t->shape.rank - 1);
  /* A line has elements, but there may be no line. */
  if (test_range(&t->rng, 0, 31) == 0) t->shape.dims[(t->dim + 1) % t->shape.rank] = 0;
  if (!t->shape.dims[t->dim]) t->shape.dims[t->dim] = 1;
  for (int d = 0; d < t->shape.rank; d++) t->count *= t->shape.dims[d];
  for (int d = t->dim + 1; d < t->shape.rank; d++) t->inner *= t->shape.dims[d];
  t->line = t->shape.dims[t->dim];
  t->tail = (t->kind == 6 || t->kind == 7) && t->inner && test_range(&t->rng, 0, 1);
  if (t->tail) t->line *= t->inner, t->inner = 1;
  t->lines = t->count / t->line;
  t->q = (double)test_range(&t->rng, 0, 8) / 8;
  t->between = (int)test_range(&t->rng, 0, 4);
  t->skip = test_range(&t->rng, 0, 1);
  bool nan = test_range(&t->rng, 0, 2) == 0;
  for (int64_t i = 0; i < t->count; i++) {
    cell c = { .f = (double)test_range(&t->rng, -64, 64) / 16 };
    cell w = { .f = (double)test_range(&t->rng, 1, 15) };
    if (!naive_is_real((int)t->dtype))
      c.f = (double)test_range(&t->rng, 0, t->dtype == TSR_BOOL ? 1 : 9);
    if (nan && test_range(&t->rng, 0, 5) == 0) c.f = (double)NAN;
    naive_put(t->host, (int)t->dtype, i, naive_cast(TSR_F64, (int)t->dtype, c));
    naive_put(t->weight, (int)t->dtype, i, naive_cast(TSR_F64, (int)t->dtype, w));
  }
}

static tsr_array *make(trial *t, tsr_array *x, tsr_array *w)
{
  tsr_dims dims = tsr_dims_of(&t->dim, 1);
  for (int d = t->dim; d < t->shape.rank && t->tail; d++) dims.bits |= 1u << d;
  tsr_reduce_args args = { .x = x, .dims = dims, .skip_nan = t->skip };
  tsr_quantile_args ask = { .x = x, .q = t->q, .dims = dims, .skip_nan = t->skip };
  ask.between = (tsr_between)t->between;
  switch (t->kind) {
  case 0: return tsr_ptp_at(&args, TSR_HERE);
  case 1: return tsr_norm_at(&args, TSR_HERE);
  case 2: return tsr_logsumexp_at(&args, TSR_HERE);
  case 3: return tsr_softmax(x, t->dim);
  case 4: return tsr_average(x, .weights = w, .dims = dims);
  case 5: return tsr_log_softmax(x, t->dim - t->shape.rank);
  case 6: return tsr_quantile_at(&ask, TSR_HERE);
  case 7: return tsr_median_at(&ask, TSR_HERE);
  case 8:
    args.dtype = TSR_F64;
    args.initial = TSR_OPERAND(0.5);
    return tsr_sum_at(&args, TSR_HERE);
  case 9: args.initial = TSR_OPERAND(2); return tsr_min_at(&args, TSR_HERE);
  case 10: return tsr_allclose(x, t->skip ? w : x, .equal_nan = t->skip);
  default: return tsr_array_equal(x, t->skip ? x : w, .equal_nan = true);
  }
}

static tsr_dtype apply(trial *t, tsr_runtime *rt, const tsr_mesh *mesh, char *out, int64_t *count)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on[2] = { { 0 } };
  for (int i = 0; i < 2 && mesh; i++) on[i] = law_sharding(&t->rng, mesh, t->shape.rank);
  tsr_array *x = tsr_put(s, t->host, t->dtype, t->shape, on[0]);
  tsr_array *r = make(t, x, tsr_put(s, t->weight, t->dtype, t->shape, on[1]));
  tsr_shape shape = tsr_shape_of(r);
  tsr_dtype dtype = tsr_dtype_of(r);
  *count = 1;
  for (int d = 0; d < shape.rank; d++) *count *= shape.dims[d];
  if (tsr_read(r, out, (size_t)*count * tsr_dtype_size(dtype)))
    FAIL("seed %llu, %s: %s", (unsigned long long)t->seed, names[t->kind], tsr_message(s));
  tsr_scope_close(s);
  return dtype;
}

/* ---- by loops -------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double quantile_of(const trial *t, double *x, int64_t n)
{
  static const int linear = TSR_BETWEEN_LINEAR;
  if (n == 0 || (n < t->line && !t->skip)) return (double)NAN;
  qsort(x, (size_t)n, sizeof *x, ascending);
  double at = (t->kind == 7 ? 0.5 : t->q) * (double)(n - 1), low = floor(at);
  double a = x[(int64_t)low], b = x[(int64_t)ceil(at)];
  int how = t->between;
  if (how == TSR_BETWEEN_LOWER) return a;
  if (how == TSR_BETWEEN_HIGHER) return b;
  if (how == TSR_BETWEEN_NEAREST) return x[(int64_t)rint(at)];
  return how == linear ? a + (b - a) * (at - low) : (a + b) / 2;
}

/* Of the line `l`, and of its element `i` where the result has it. */
static long double expected(const trial *t, int64_t l, int64_t i)
{
  static double x[MOST];
  int64_t n = 0;
  long double sum = 0, squares = 0, powers = 0, weighted = 0, weights = 0;
  bool skip = t->skip && t->kind != 3 && t->kind != 4 && t->kind != 5;
  double low = (double)INFINITY, high = -low, here = 0, nan = 0;
  for (int64_t k = 0; k < t->line; k++) {
    cell c = naive_get(t->host, (int)t->dtype, place(t, l, k));
    cell w = naive_get(t->weight, (int)t->dtype, place(t, l, k));
    double v = naive_is_real((int)t->dtype) ? c.f : (double)c.i;
    double u = naive_is_real((int)t->dtype) ? w.f : (double)w.i;
    if (k == i) here = v;
    if (isnan(v)) nan = v;
    if (isnan(v) && (skip || t->kind == 6 || t->kind == 7)) continue;
    x[n++] = v;
    sum += (long double)v;
    squares += (long double)v * (long double)v;
    powers += expl((long double)v);
    weighted += (long double)v * (long double)u;
    weights += (long double)u;
    if (v < low || isnan(v)) low = v;
    if (v > high || isnan(v)) high = v;
  }
  if (!skip && isnan(nan)) low = high = nan;
  switch (t->kind) {
  case 0: return (long double)high - (long double)low;
  case 1: return sqrtl(squares);
  case 2: return logl(powers);
  case 3: return expl((long double)here) / powers;
  case 4: return weighted / weights;
  case 5: return (long double)here - logl(powers);
  case 8: return sum + 0.5L;
  case 9: return (long double)(low > 2 ? 2 : low);
  default: return (long double)quantile_of(t, x, n);
  }
}

static bool is_near(long double found, long double exact, int dtype)
{
  double unit = dtype == TSR_F64   ? 0x1p-52
                : dtype == TSR_F32 ? 0x1p-23
                : dtype == TSR_F16 ? 0x1p-10
                                   : 0x1p-7;
  if (isnan(exact) || isnan(found)) return isnan(exact) && isnan(found);
  if (found == exact) return true;
  return (double)fabsl(found - exact) <= 16 * unit * (1 + (double)fabsl(exact));
}

static void check(const trial *t, int out, int64_t count)
{
  bool whole = count == t->count && (t->kind == 3 || t->kind == 5);
  for (int64_t r = 0; r < count && t->kind < 10; r++) {
    int64_t l = whole ? r / (t->line * t->inner) * t->inner + r % t->inner : r;
    int64_t i = whole ? r / t->inner % t->line : -1;
    cell c = naive_get(t->found, out, r);
    long double found = naive_is_real(out) ? (long double)c.f : (long double)c.i;
    long double exact = expected(t, l, i);
    bool empty = t->kind == 0 && isinf((double)exact); /* nothing but NaN, all left out */
    if (!empty && !is_near(found, exact, naive_is_real(out) ? out : TSR_F64))
      FAIL("seed %llu: %s of %s, line %lld is %Lg, expected %Lg", (unsigned long long)t->seed,
           names[t->kind], tsr_dtype_name(t->dtype), (long long)l, found, exact);
  }
  if (t->kind < 10) return;
  bool alike = true, nan = false;
  for (int64_t k = 0; k < t->count; k++) {
    cell a = naive_get(t->host, (int)t->dtype, k), b = naive_get(t->weight, (int)t->dtype, k);
    bool real = naive_is_real((int)t->dtype);
    alike = alike && (real ? a.f == b.f : a.i == b.i);
    nan = nan || (real && isnan(a.f));
  }
  bool self = (t->kind == 10) != t->skip;
  CHECK_I64(naive_get(t->found, out, 0).i, self ? !nan || t->kind == 11 : alike);
}

static bool one_trial(tsr_runtime *rt, uint64_t seed)
{
  static trial t;
  int64_t count, again;
  t.rng = test_seeded(seed);
  t.seed = seed;
  draw(&t);
  const tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&t.rng, 0, LAW_MESHES - 1)]);
  tsr_dtype alone = apply(&t, rt, NULL, t.first, &count),
            out = apply(&t, rt, mesh, t.found, &again);
  CHECK(alone == out && count == again);
  if (memcmp(t.first, t.found, (size_t)count * tsr_dtype_size(out)))
    FAIL("seed %llu: %s of %s has other bits on %s", (unsigned long long)seed, names[t.kind],
         tsr_dtype_name(t.dtype), tsr_mesh_text(mesh));
  check(&t, (int)out, count);
  return true;
}

TEST_TIMEOUT(statistics_are_what_loops_say, 600)
{
  law_each_seed_on_8(1, test_quick() ? 2000 : 10000, 0.5, one_trial);
}

/* ---- what NumPy says ------------------------------------------------------------------------- */

/* numpy.quantile(x, 0.3, axis=(0, 2)), of x = arange(24) * 7 % 24 as [2,3,4]; the median of all;
 * averages by weights of the first dim. */
TEST(several_dims_are_one)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=3");
  double x[24], found[3];
  const double weights[] = { 1, 3 },
               quantiles[] = { 0x1.ccccccccccccdp+2, 6.5, 0x1.0666666666666p+3 };
  for (int i = 0; i < 24; i++) x[i] = i * 7 % 24;
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(2, 3, 4), tsr_on(mesh, "x,y"));
  tsr_array *w = tsr_put(s, weights, TSR_F64, TSR_SHAPE(2), (tsr_sharding){ 0 });
  tsr_array *q = tsr_quantile(a, .q = 0.3, .dims = TSR_DIMS(0, 2), .keep_dims = true);
  CHECK_STR_HAS(tsr_type_of(q), "f64[1,3,1]");
  CHECK_STATUS(tsr_read(q, found, sizeof found), TSR_OK, s);
  for (int i = 0; i < 3; i++) CHECK_F64_BITS(found[i], quantiles[i]);
  CHECK_STATUS(tsr_read_scalar(tsr_median(a), found), TSR_OK, s);
  CHECK_F64_BITS(found[0], 11.5);
  tsr_array *mean = tsr_average(a, .weights = w, .dims = TSR_DIMS(0));
  CHECK_STR_HAS(tsr_type_of(mean), "f64[3,4]");
  CHECK_STATUS(tsr_read_scalar(tsr_slice(mean, TSR_RANGE(0, 1), TSR_RANGE(1, 2)), found), TSR_OK,
               s);
  CHECK_F64_BITS(found[0], (x[1] + 3 * x[13]) / 4);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(covariances_are_numpys)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  const double x[] = { 0, 1, 2, 2, 1, 0, 1, 4, -1 };
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=3");
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(3, 3), tsr_on(mesh, "x"));
  const double cov[] = { 1, -1, -1, -1, 1, 1, -1, 1, 19.0 / 3 };
  double found[9];
  CHECK_STATUS(tsr_read(tsr_cov(a), found, sizeof found), TSR_OK, s);
  for (int i = 0; i < 9; i++) CHECK(fabs(found[i] - cov[i]) < 1e-14);
  tsr_runtime_close(rt);
}
