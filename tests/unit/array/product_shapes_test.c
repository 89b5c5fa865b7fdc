/* Matrix products of thin and odd shapes, whose blocks, panels and registers have other sizes: the
 * chains of fused products that NUMERICS.md promises, bit for bit. Runs at each ISA. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

/* How an operand lies: as it is read, turned, or every other row and column of a larger one. */
enum lie { PLAIN, TURNED, SPREAD, LIES };

typedef struct shape {
  int64_t m, k, n;
} shape;

/* Of element (i, j): few bits of mantissa less than there are, so that products round. */
static double number(int64_t i, int64_t j, uint64_t salt)
{
  uint64_t bits = (uint64_t)(i * 1000003 + j + 1) * UINT64_C(0x9E3779B97F4A7C15) + salt;
  bits = (bits ^ bits >> 31) * UINT64_C(0xBF58476D1CE4E5B9);
  return (double)(int64_t)(bits >> 12) * 0x1p-51 - 1;
}

static tsr_array *put(tsr_scope *s, int64_t rows, int64_t columns, uint64_t salt, tsr_dtype dtype,
                      enum lie lie)
{
  int64_t step = lie == SPREAD ? 2 : 1, down = rows * step, across = columns * step;
  int64_t high = lie == TURNED ? across : down, wide = lie == TURNED ? down : across;
  double *x = calloc((size_t)(down * across), sizeof *x);
  CHECK(x);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      x[lie == TURNED ? j * wide + i : i * step * wide + j * step] = number(i, j, salt);
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(high, wide), (tsr_sharding){ 0 });
  if (dtype == TSR_I32 || dtype == TSR_I64) a = tsr_mul(a, 1e6);
  a = tsr_cast(a, dtype);
  CHECK_STATUS(tsr_wait(a), TSR_OK, s);
  free(x);
  if (lie == TURNED) return tsr_transpose(a);
  if (lie == PLAIN) return a;
  tsr_range every = { .start = 0, .stop = TSR_END, .step = 2 };
  return tsr_slice(a, every, every);
}

static double *read_all(tsr_scope *s, tsr_array *a, int64_t count)
{
  double *x = calloc((size_t)count, sizeof *x);
  CHECK(x);
  CHECK_STATUS(tsr_read(tsr_cast(a, TSR_F64), x, (size_t)count * sizeof *x), TSR_OK, s);
  return x;
}

/* An element as NUMERICS.md says. */
static double chain(const double *a, const double *b, shape p, tsr_dtype dtype)
{
  float narrow = -0.0f;
  double wide = -0.0;
  uint64_t whole = 0;
  for (int64_t k = 0; k < p.k; k++) {
    double x = a[k], y = b[k * p.n];
    narrow = fmaf((float)x, (float)y, narrow);
    wide = fma(x, y, wide);
    whole += (uint64_t)(int64_t)x * (uint64_t)(int64_t)y;
  }
  if (dtype == TSR_F32) return narrow;
  return dtype == TSR_F64 ? wide : dtype == TSR_I64 ? (double)(int64_t)whole : (int32_t)whole;
}

static void check_product(tsr_scope *s, tsr_array *a, tsr_array *b)
{
  shape p = { tsr_shape_of(a).dims[0], tsr_shape_of(a).dims[1], tsr_shape_of(b).dims[1] };
  tsr_dtype dtype = tsr_dtype_of(a);
  double *x = read_all(s, a, p.m * p.k), *y = read_all(s, b, p.k * p.n);
  double *found = read_all(s, tsr_matmul(a, b), p.m * p.n);
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      double expected = chain(x + i * p.k, y + j, p, dtype);
      if (memcmp(&found[i * p.n + j], &expected, sizeof expected))
        FAIL("%s [%lld,%lld,%lld] at %lld, %lld: found %a, expected %a", tsr_dtype_name(dtype),
             (long long)p.m, (long long)p.k, (long long)p.n, (long long)i, (long long)j,
             found[i * p.n + j], expected);
    }
  free(x), free(y), free(found);
}

static void check_shape(tsr_scope *outer, shape p, tsr_dtype dtype, enum lie left, enum lie right)
{
  tsr_scope *s = tsr_scope_open(outer);
  check_product(s, put(s, p.m, p.k, 1, dtype, left), put(s, p.k, p.n, 2, dtype, right));
  tsr_scope_close(s);
}

static void check_all(tsr_dtype dtype)
{
  static const int64_t few[] = { 1, 2, 3, 4, 8, 9, 14, 15, 29 };
  static const int64_t deep[] = { 1, 3, 17, 129, 300 };
  static const int64_t many[] = { 7, 16, 31, 33, 64, 300 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  test_rng rng = { 7 };
  for (size_t i = 0; i < sizeof few / sizeof *few; i++)
    for (size_t j = 0; j < sizeof many / sizeof *many; j++) {
      int64_t k = deep[test_random(&rng) % (sizeof deep / sizeof *deep)];
      enum lie left = (enum lie)(test_random(&rng) % LIES);
      enum lie right = (enum lie)(test_random(&rng) % LIES);
      check_shape(s, (shape){ few[i], k, many[j] }, dtype, left, right);
      check_shape(s, (shape){ many[j], k, few[i] }, dtype, right, left);
      check_shape(s, (shape){ few[i], 130, many[j] }, dtype, PLAIN, PLAIN);
      check_shape(s, (shape){ many[j], 130, few[i] }, dtype, PLAIN, PLAIN);
    }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(f32_products_are_chains_whatever_their_shape)
{
  check_all(TSR_F32);
}

TEST(f64_products_are_chains_whatever_their_shape)
{
  check_all(TSR_F64);
}

TEST(i32_products_wrap_whatever_their_shape)
{
  check_all(TSR_I32);
}

/* A vector meets the rows of a matrix where they lie: so many rows at a time, so much of the depth,
 * and what is left of both. */
TEST(a_matrix_by_a_vector_is_chains)
{
  static const int64_t rows[] = { 2, 5, 15, 16, 17, 32, 255, 700 };
  static const int64_t deep[] = { 1, 3, 15, 16, 31, 64, 257, 1000 };
  static const tsr_dtype dtypes[] = { TSR_F32, TSR_F64, TSR_I32, TSR_I64 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t j = 0; j < sizeof deep / sizeof *deep; j++)
      for (int t = 0; t < 4; t++)
        for (int lie = 0; lie < LIES; lie++) {
          shape p = { rows[i], deep[j], 1 };
          check_shape(s, p, dtypes[t], PLAIN, (enum lie)lie);
          check_shape(s, (shape){ 1, p.k, p.m }, dtypes[t], (enum lie)lie, TURNED);
        }
  check_shape(s, (shape){ 17, 70001, 1 }, TSR_F32, PLAIN, PLAIN);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* What several devices have whole is packed once for all of them; where it is large, a stripe of
 * columns after the other. Rows of 8 devices may be uneven, and so few that some have none. */
TEST_TIMEOUT(columns_that_are_packed_for_all_give_the_same_chains, 120)
{
  static const struct {
    shape p;
    const char *left, *right;
  } cases[] = {
    { { 200, 300, 0 }, "x,-", "-,-" },   { { 0, 300, 200 }, "-,-", "-,x" },
    { { 200, 300, 70 }, "x,-", "-,-" },  { { 70, 300, 200 }, "-,-", "-,x" },
    { { 515, 257, 20 }, "x,-", "-,-" },  { { 20, 257, 515 }, "-,-", "-,x" },
    { { 150, 600, 33 }, "x,y", "y,-" },  { { 129, 300, 129 }, "x,-", "-,y" },
    { { 9, 3000, 129 }, "x,-", "-,-" },  { { 300, 64, 300 }, "-,-", "-,-" },
    { { 17, 8400, 200 }, "-,-", "-,-" }, { { 300, 100, 200 }, "x+y,-", "-,-" },
  };
  static const tsr_dtype dtypes[] = { TSR_F32, TSR_F64, TSR_I32 };
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int t = 0; t < 3; t++) {
      /* Long enough for two stripes of f64. */
      if (cases[i].p.k > 4096 && dtypes[t] != TSR_F64) continue;
      bool two = strchr(cases[i].left, 'y') || strchr(cases[i].right, 'y');
      tsr_mesh *mesh = tsr_mesh_make(rt, two ? "x=4,y=2" : "x=8");
      tsr_scope *s = tsr_scope_open(rt);
      shape p = cases[i].p;
      tsr_array *a = put(s, p.m, p.k, 1, dtypes[t], PLAIN);
      tsr_array *b = put(s, p.k, p.n, 2, dtypes[t], t ? PLAIN : TURNED);
      /* Where k is cut, chains are parts: only whole numbers do not show it. */
      if (strcmp(cases[i].left, "x,y") || dtypes[t] == TSR_I32)
        check_product(s, tsr_reshard(a, tsr_on(mesh, cases[i].left)),
                      tsr_reshard(b, tsr_on(mesh, cases[i].right)));
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}
