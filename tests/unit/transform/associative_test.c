/* Associative scans: JAX's results, those of a loop on every mesh, gradients, mapping. */
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "harness.h"
#include "support/golden_arrays.h"
#include "support/gradient_check.h"
#include "support/law_fixture.h"
#include "tessera.h"

typedef tsr_array *const *given;

static tsr_array *sum(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[0], in[1]);
}

static tsr_array *larger(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_maximum(in[0], in[1]);
}

static tsr_array *either(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_or(in[0], in[1]);
}

static tsr_array *product(tsr_scope *s, given in, void *user)
{
  (void)s, (void)user;
  return tsr_matmul(in[0], in[1]);
}

/* x -> a x + b, one after the other */
static tsr_array *affine(tsr_scope *s, given in, void *user)
{
  (void)user;
  tsr_array *a = tsr_item(in[0], 0), *b = tsr_item(in[0], 1);
  tsr_array *c = tsr_item(in[1], 0), *d = tsr_item(in[1], 1);
  return tsr_tuple(s, tsr_mul(a, c), tsr_add(tsr_mul(b, c), d));
}

/* ---- goldens --------------------------------------------------------------------------------- */

static void apply(const char *op, int dim, tsr_array *const *in, tsr_array **out)
{
  static const struct {
    const char *name;
    tsr_body_fn *combine;
  } all[] = { { "add", sum },
              { "max", larger },
              { "or", either },
              { "affine", affine },
              { "product", product } };
  int i = 0;
  while (strncmp(op, all[i].name, strlen(all[i].name)) != 0) i++;
  bool back = strstr(op, "_back"), pair = all[i].combine == affine;
  tsr_array *x = pair ? tsr_tuple_at(in[0]->node.scope, in, 2, TSR_HERE) : in[0];
  x = tsr_associative_scan(all[i].combine, NULL, x, .dim = dim, .reverse = back);
  if (tsr_leaf_count(x) != pair + 1) FAIL("%s: %s", op, tsr_message(in[0]->node.scope));
  tsr_tree_leaves(x, out, 2);
}

TEST(associative_scans_are_jaxs_bit_for_bit)
{
  CHECK(golden_arrays_check("golden/loops.txt", apply) >= 60);
}

/* ---- a loop, on all meshes ------------------------------------------------------------------- */

enum { MOST = 19 };

/* An affine map for each element: what comes of one after the other, in integers. */
static void check_loop(tsr_scope *s, const tsr_mesh *mesh, uint64_t seed)
{
  int64_t a[3][MOST], b[3][MOST], want[2][3][MOST] = { 0 }, got[3 * MOST];
  test_rng rng = test_seeded(seed);
  int size = (int)test_range(&rng, 0, MOST), dim = (int)test_range(&rng, 0, 1);
  bool reverse = test_range(&rng, 0, 1);
  for (int r = 0; r < 3; r++)
    for (int k = 0; k < size; k++) {
      a[r][k] = test_range(&rng, -1, 1);
      b[r][k] = test_range(&rng, 0, 99);
    }
  for (int r = 0; r < 3; r++)
    for (int k = 0; k < size; k++) {
      int at = reverse ? size - 1 - k : k, last = reverse ? at + 1 : at - 1;
      want[0][r][at] = k ? want[0][r][last] * a[r][at] : a[r][at];
      want[1][r][at] = k ? want[1][r][last] * a[r][at] + b[r][at] : b[r][at];
    }
  tsr_shape shape = dim ? TSR_SHAPE(3, size) : TSR_SHAPE(size, 3);
  tsr_array *maps[2];
  for (int i = 0; i < 2; i++) {
    int64_t flat[3 * MOST];
    for (int r = 0; r < 3; r++)
      for (int k = 0; k < size; k++) flat[dim ? r * size + k : k * 3 + r] = (i ? b : a)[r][k];
    maps[i] = tsr_put(s, flat, TSR_I64, shape, law_sharding(&rng, mesh, 2));
  }
  tsr_array *made = tsr_associative_scan(affine, NULL, tsr_tuple(s, maps[0], maps[1]),
                                         .dim = dim - 2, .reverse = reverse);
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tsr_read(tsr_item(made, i), got, (size_t)size * 3 * sizeof *got), TSR_OK, s);
    for (int r = 0; r < 3; r++)
      for (int k = 0; k < size; k++)
        if (got[dim ? r * size + k : k * 3 + r] != want[i][r][k])
          FAIL("seed %llu: part %d, row %d, element %d of %d", (unsigned long long)seed, i, r, k,
               size);
  }
}

static void one_seed(uint64_t seed)
{
  static tsr_runtime *rt;
  if (!rt) rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  check_loop(s, tsr_mesh_make(rt, law_meshes[seed % LAW_MESHES]), seed);
  tsr_scope_close(s);
}

TEST_TIMEOUT(prefixes_are_those_of_a_loop_on_every_mesh, 200)
{
  law_each_seed(1, 96, one_seed);
}

TEST(arrays_of_all_dims_have_prefixes)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  for (int dim = 0; dim < TSR_MAX_RANK; dim++) {
    tsr_shape shape = { .rank = TSR_MAX_RANK };
    for (int d = 0; d < TSR_MAX_RANK; d++) shape.dims[d] = d == dim ? 5 : 1 + d % 2;
    tsr_array *x = tsr_add(tsr_iota(s, TSR_I64, shape, dim, (tsr_sharding){ 0 }), 3);
    tsr_array *off = tsr_sub(tsr_associative_scan(sum, NULL, x, .dim = dim), tsr_cumsum(x, dim));
    int64_t most = 1;
    CHECK_STATUS(tsr_read(tsr_max(tsr_abs(off)), &most, sizeof most), TSR_OK, s);
    CHECK_I64(most, 0);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- gradients and mapping ------------------------------------------------------------------- */

/* h_k = a_k h_{k-1} + b_k, all at once */
static tsr_array *recurrence(tsr_scope *s, given in, void *user)
{
  tsr_array *x = tsr_tuple(s, tsr_sin(in[0]), in[1]);
  x = tsr_associative_scan(affine, NULL, x, .reverse = user != NULL);
  return tsr_item(x, 1);
}

TEST(gradients_go_through_prefixes)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  for (int i = 0; i < 6; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    const char *const specs[] = { "", "x", "y" };
    tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
    tsr_array *n = tsr_arange(s, 0, 11, .dtype = TSR_F64);
    tsr_array *a = tsr_reshard(tsr_mul(n, 0.1), tsr_on(mesh, specs[i / 2]));
    tsr_array *in[] = { a, tsr_sub(tsr_cos(n), 0.2) };
    gradient_check(&(gradient_case){ .name = "recurrence",
                                     .s = s,
                                     .body = recurrence,
                                     .user = i % 2 ? rt : NULL,
                                     .in = in,
                                     .count = 2,
                                     .depth = 2,
                                     .seed = (uint64_t)i });
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(prefixes_of_many_are_those_of_each)
{
  enum { ROWS = 6, N = 9 };
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  const char *const specs[] = { "", "x,y", "-,x" };
  for (int i = 0; i < 3; i++) {
    double all[ROWS][N], one[N];
    tsr_array *n = tsr_arange(s, 0, ROWS * N, .dtype = TSR_F64);
    tsr_array *x = tsr_reshape(tsr_sin(n), TSR_SHAPE(ROWS, N));
    tsr_array *a = tsr_reshard(x, tsr_on(mesh, specs[i])), *b = tsr_mul(x, 2);
    tsr_function *f = tsr_function_make(s, recurrence);
    tsr_array *made = tsr_call(tsr_vmap(f), a, b);
    CHECK_STATUS(tsr_read(made, all, sizeof all), TSR_OK, s);
    for (int r = 0; r < ROWS; r++) {
      tsr_array *own[] = { tsr_reshape(tsr_slice(x, TSR_RANGE(r, r + 1)), TSR_SHAPE(N)),
                           tsr_reshape(tsr_slice(b, TSR_RANGE(r, r + 1)), TSR_SHAPE(N)) };
      CHECK_STATUS(tsr_read(tsr_call_at(f, own, 2, TSR_HERE), one, sizeof one), TSR_OK, s);
      CHECK(!memcmp(one, all[r], sizeof one));
    }
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
