/* Random draws: the same numbers on every mesh, and the distributions they are said to have.
 * Runs at each ISA. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

enum { N = 200000 };

typedef tsr_array *(*draw_fn)(tsr_scope *, tsr_shape, tsr_sharding);

static tsr_array *draw_uniform(tsr_scope *s, tsr_shape shape, tsr_sharding sharding)
{
  return tsr_uniform(s, .key = 5, .stream = 2, .shape = shape, .on = sharding);
}

static tsr_array *draw_uniform_f32(tsr_scope *s, tsr_shape shape, tsr_sharding sharding)
{
  return tsr_cast(tsr_uniform(s, .key = 5, .dtype = TSR_F32, .shape = shape, .on = sharding),
                  TSR_F64);
}

static tsr_array *draw_exponential(tsr_scope *s, tsr_shape shape, tsr_sharding sharding)
{
  return tsr_exponential(s, 100, .key = 6, .shape = shape, .on = sharding);
}

static tsr_array *draw_poisson(tsr_scope *s, tsr_shape shape, tsr_sharding sharding)
{
  return tsr_cast(tsr_poisson(s, 5, .key = 7, .shape = shape, .on = sharding), TSR_F64);
}

static const draw_fn draws[] = { draw_uniform, draw_uniform_f32, draw_exponential, draw_poisson };
enum { DRAWS = 4 };

TEST(draws_do_not_depend_on_the_mesh)
{
  static const char *const specs[] = { "-,-", "x,-", "-,x", "x,y", "y,x", "-,x+y", "y+x,-" };
  static double first[37 * 53], next[37 * 53];
  tsr_runtime *rt = tsr_runtime_open("cpu:6");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=3");
  for (int d = 0; d < DRAWS; d++) {
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
      tsr_scope *s = tsr_scope_open(rt);
      tsr_array *a = draws[d](s, TSR_SHAPE(37, 53), tsr_on(mesh, specs[i]));
      CHECK_STATUS(tsr_read(a, i ? next : first, sizeof first), TSR_OK, s);
      if (i) CHECK_BYTES(next, first, sizeof first);
      CHECK_I64(tsr_last_run(s).bytes_counted, 0);
      tsr_scope_close(s);
    }
  }
  tsr_runtime_close(rt);
}

/* Mean and variance within five standard errors: chances of a false alarm below one in a million,
 * and the key is fixed. */
TEST(draws_have_their_mean_and_variance)
{
  static const double mean[] = { 0.5, 0.5, 100, 5 }, variance[] = { 1 / 12.0, 1 / 12.0, 1e4, 5 };
  static const double fourth[] = { 1 / 80.0, 1 / 80.0, 9e8, 80 }; /* central moments */
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int d = 0; d < DRAWS; d++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = draws[d](s, TSR_SHAPE(N), tsr_on(tsr_mesh_default(rt, "x"), "x"));
    double m = 0, v = 0;
    CHECK_STATUS(tsr_read_scalar(tsr_mean(a), &m), TSR_OK, s);
    CHECK_STATUS(tsr_read_scalar(tsr_var(a), &v), TSR_OK, s);
    CHECK(fabs(m - mean[d]) < 5 * sqrt(variance[d] / N));
    CHECK(fabs(v - variance[d]) < 5 * sqrt((fourth[d] - variance[d] * variance[d]) / N));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(uniform_draws_fill_their_range)
{
  static double x[N];
  int64_t bins[20] = { 0 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_read(draw_uniform(s, TSR_SHAPE(N), (tsr_sharding){ 0 }), x, sizeof x), TSR_OK,
               s);
  for (int i = 0; i < N; i++) {
    CHECK(x[i] >= 0 && x[i] < 1);
    CHECK(x[i] * 0x1p53 == floor(x[i] * 0x1p53));
    bins[(int)(x[i] * 20)]++;
  }
  for (int b = 0; b < 20; b++) CHECK(llabs(bins[b] - N / 20) < 500);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(poisson_draws_have_their_probabilities)
{
  static int64_t x[N];
  static const double rates[] = { 0.1, 5, 30, 1000 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  for (int r = 0; r < 4; r++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = tsr_poisson(s, rates[r], .key = 9, .shape = TSR_SHAPE(N));
    CHECK(tsr_dtype_of(a) == TSR_I64);
    CHECK_STATUS(tsr_read(a, x, sizeof x), TSR_OK, s);
    int64_t mode = (int64_t)rates[r];
    for (int64_t k = mode > 3 ? mode - 3 : 0; k < mode + 4; k++) {
      int64_t seen = 0;
      for (int i = 0; i < N; i++) seen += x[i] == k;
      double p = exp((double)k * log(rates[r]) - rates[r] - lgamma((double)k + 1));
      CHECK(fabs((double)seen - p * N) < 5 * sqrt(p * N) + 5);
    }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(edges_of_draws)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  double most = 1;
  CHECK_STATUS(tsr_read_scalar(tsr_max(tsr_poisson(s, 0, .key = 1, .shape = TSR_SHAPE(100))),
                               &most),
               TSR_OK, s);
  CHECK_F64_BITS(most, 0);
  CHECK_STATUS(tsr_read_scalar(tsr_mean(tsr_poisson(s, 10000, .key = 1, .shape = TSR_SHAPE(10000))),
                               &most),
               TSR_OK, s);
  CHECK(fabs(most - 10000) < 5);
  int32_t narrow[50];
  int64_t wide[50];
  tsr_array *small = tsr_poisson(s, 5, .key = 9, .dtype = TSR_I32, .shape = TSR_SHAPE(50));
  CHECK_STATUS(tsr_read(small, narrow, sizeof narrow), TSR_OK, s);
  tsr_array *large = tsr_poisson(s, 5, .key = 9, .shape = TSR_SHAPE(50));
  CHECK_STATUS(tsr_read(large, wide, sizeof wide), TSR_OK, s);
  for (int i = 0; i < 50; i++) CHECK_I64(narrow[i], wide[i]);
  tsr_array *none = tsr_uniform(s, .key = 1, .shape = TSR_SHAPE(0));
  CHECK_STATUS(tsr_eval(&none, 1), TSR_OK, s);
  CHECK(tsr_is_inert(tsr_poisson(s, -1, .key = 1, .shape = TSR_SHAPE(3))));
  CHECK(tsr_is_inert(tsr_poisson(s, NAN, .key = 1, .shape = TSR_SHAPE(3))));
  CHECK(tsr_is_inert(tsr_exponential(s, 0, .key = 1, .shape = TSR_SHAPE(3))));
  CHECK(tsr_is_inert(tsr_uniform(s, .key = 1, .dtype = TSR_I32, .shape = TSR_SHAPE(3))));
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
