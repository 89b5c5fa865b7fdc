/* Device routines: NumPy's values at each instruction set, and long lines. Runs at each ISA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execute/execute.h"
#include "harness.h"
#include "support/golden_arrays.h"
#include "tessera.h"

static void apply(const char *op, int dim, tsr_array *const *in, tsr_array **out)
{
  if (!strcmp(op, "cumsum")) out[0] = tsr_cumsum(in[0], dim);
  else if (!strcmp(op, "cumprod")) out[0] = tsr_cumprod(in[0], dim);
  else if (!strcmp(op, "cummax")) out[0] = tsr_cummax(in[0], dim);
  else if (!strcmp(op, "cummin")) out[0] = tsr_cummin(in[0], dim);
  else if (!strcmp(op, "sort")) out[0] = tsr_sort(in[0], dim), out[1] = tsr_argsort(in[0], dim);
  else if (!strcmp(op, "top_k"))
    out[0] = tsr_top_k(in[0], 2, dim), out[1] = tsr_arg_top_k(in[0], 2, dim);
  else if (!strcmp(op, "scatter_add")) out[0] = tsr_scatter_add(in[0], in[1], in[2], dim);
  else if (!strcmp(op, "matmul")) out[0] = tsr_matmul(in[0], in[1]);
  else FAIL("no operation %s", op);
}

TEST_TIMEOUT(routines_are_numpys, 200)
{
  CHECK(golden_arrays_check("golden/routines.txt", apply) >= 430);
}

/* Where a dim that a routine needs whole is sharded, short lines are cut along another dim instead,
 * and explain says so. */
TEST(a_sharded_dim_changes_places)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  tsr_array *a = tsr_full(s, 1, TSR_F64, TSR_SHAPE(8, 6), tsr_on(mesh, "x,-"));
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
  tsr_array *kept = tsr_cumsum(a, 1), *moved = tsr_arg_top_k(a, 8, 0);
  CHECK_STR(tsr_explain(&kept, 1), "nothing moves between devices\n"
                                   "cumsum over f64[8,6]@(x,-): reads 1 array (384 bytes), stores "
                                   "1\n");
  CHECK_STR_HAS(tsr_explain(&moved, 1), "all-to-all");
  CHECK_STR_HAS(tsr_explain(&moved, 1), "because top_k at routine_test.c");
  int64_t last[48];
  CHECK_STATUS(tsr_read(moved, last, sizeof last), TSR_OK, s);
  CHECK_I64(last[47], 7);
  CHECK_I64(tsr_last_run(s).bytes_counted, tsr_last_run(s).bytes_explained);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Products of many blocks, whose edges fit no panel, lie as NumPy's order of k has it: element by
 * element a loop over k, on one device and on three. */
TEST_TIMEOUT(large_products_are_those_of_a_loop, 200)
{
  enum { M = 101, N = 300, K = 530 };
  double *a = malloc(M * K * sizeof *a), *b = malloc(K * N * sizeof *b);
  double *c = malloc(M * N * sizeof *c);
  test_rng rng = test_seeded(9);
  for (int i = 0; i < M * K; i++) a[i] = test_uniform(&rng) - 0.5;
  for (int i = 0; i < K * N; i++) b[i] = test_uniform(&rng) - 0.5;
  for (int devices = 1; devices <= 3; devices += 2) {
    char text[16];
    snprintf(text, sizeof text, "cpu:%d", devices);
    tsr_runtime *rt = tsr_runtime_open(text);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_default(rt, "x");
    tsr_array *x = tsr_put(s, a, TSR_F64, TSR_SHAPE(M, K), tsr_on(mesh, "x,-"));
    tsr_array *y = tsr_put(s, b, TSR_F64, TSR_SHAPE(K, N), tsr_on(mesh, "-,-"));
    tsr_array *product = tsr_matmul(x, y);
    CHECK_STATUS(tsr_read(product, c, M * N * sizeof *c), TSR_OK, s);
    CHECK_I64(tsr_last_run(s).bytes_counted, 0);
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        double sum = 0;
        for (int k = 0; k < K; k++) sum = fma(a[i * K + k], b[k * N + j], sum);
        CHECK_F64_BITS(c[i * N + j], sum);
      }
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
  free(a);
  free(b);
  free(c);
}

/* Lines beyond a leaf of the sort go to all workers; values and places are one step's. */
TEST_TIMEOUT(long_lines_are_sorted, 200)
{
  enum { LONG = 150001, LINES = 3 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  test_rng rng = test_seeded(3);
  float *x = malloc(LONG * LINES * sizeof *x), *y = malloc(LONG * LINES * sizeof *y);
  int64_t *at = malloc(LONG * LINES * sizeof *at);
  for (int64_t i = 0; i < LONG * LINES; i++) {
    x[i] = (float)test_range(&rng, -50000, 50000);
    if (i % 1000 == 7) x[i] = NAN;
  }
  for (int dim = 0; dim < 2; dim++) {
    int64_t step = dim ? 1 : LINES, apart = dim ? LONG : 1;
    tsr_shape shape = dim ? TSR_SHAPE(LINES, LONG) : TSR_SHAPE(LONG, LINES);
    tsr_array *a = tsr_put(s, x, TSR_F32, shape, tsr_on(mesh, dim ? "x,-" : "-,x"));
    tsr_array *both[2] = { tsr_sort(a, dim), tsr_argsort(a, dim) };
    CHECK_STATUS(tsr_eval(both, 2), TSR_OK, s);
    CHECK_I64(tsr_last_run(s).bytes_counted, 0);
    CHECK_STATUS(tsr_read(both[0], y, LONG * LINES * sizeof *y), TSR_OK, s);
    CHECK_STATUS(tsr_read(both[1], at, LONG * LINES * sizeof *at), TSR_OK, s);
    for (int64_t line = 0; line < LINES; line++)
      for (int64_t i = 0, k = line * apart; i < LONG; i++, k += step) {
        CHECK(at[k] >= 0 && at[k] < LONG);
        CHECK_F32_BITS(y[k], x[line * apart + at[k] * step]);
        if (!i) continue;
        bool same = y[k - step] == y[k] || (isnan(y[k - step]) && isnan(y[k]));
        CHECK(same ? at[k - step] < at[k] : y[k - step] < y[k] || isnan(y[k]));
      }
  }
  free(x);
  free(y);
  free(at);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Both results of one array come of one step, and nobody makes what nobody reads. */
TEST(two_results_are_one_step)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr__plan_shape shape;
  tsr__error error;
  tsr_array *a = tsr_full(s, 1, TSR_F64, TSR_SHAPE(1 << 17), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, s);
  tsr_array *both[2] = { tsr_sort(a, 0), tsr_argsort(a, 0) };
  CHECK_STATUS(tsr__plan_shape_of(s, both, 2, &shape, &error), TSR_OK, s);
  CHECK_I64(shape.operators, 1);
  CHECK_I64(shape.kernels, 0);
  CHECK_STR_HAS(tsr_explain(both, 2), "sort over f64[131072]");
  CHECK_STR_HAS(tsr_explain(both, 2), "stores 2");
  CHECK_STR_HAS(tsr_explain(both, 1), "stores 1");
  int64_t before = tsr_device_memory(rt, 0).now;
  CHECK_STATUS(tsr_eval(&both[1], 1), TSR_OK, s);
  CHECK_I64(tsr_device_memory(rt, 0).now - before, 8 << 17);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
