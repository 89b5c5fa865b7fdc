/* Products and windows of arrays: NumPy's and JAX's values of all calls and types, wherever
 * operands lie, transposed ones too. Runs at each ISA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execute/execute.h"
#include "harness.h"
#include "support/golden_arrays.h"
#include "tessera.h"

enum { MOST = 256, ARRAYS = 8 };

/* An array of the file: "f32:2x3:1,-2,..." */
typedef struct golden {
  tsr_dtype dtype;
  tsr_shape shape;
  int64_t count;
  double value[MOST];
} golden;

static golden parse(char *text)
{
  golden g = { .count = 1 };
  char *values = golden_type(text, &g.dtype, &g.shape);
  for (int d = 0; d < g.shape.rank; d++) g.count *= g.shape.dims[d];
  CHECK(g.count <= MOST);
  for (int64_t i = 0; i < g.count; i++) {
    g.value[i] = strtod(values, &values);
    values += *values == ',';
  }
  return g;
}

/* Somewhere on the mesh: one of its axes along one dim, or both. */
static tsr_sharding somewhere(const tsr_mesh *mesh, int rank, int turn)
{
  char spec[64] = "";
  int cut = rank ? turn % (rank + 1) : 0;
  if (!rank) return (tsr_sharding){ 0 };
  for (int d = 0; d < rank; d++)
    snprintf(spec + strlen(spec), sizeof spec - strlen(spec), "%s%s", d ? "," : "",
             d == cut ? (turn & 1 ? "x" : "y") : "-");
  return tsr_on(mesh, spec);
}

static void check(const char *line, tsr_scope *s, tsr_array *a, const golden *g)
{
  double found[MOST + 1];
  tsr_array *wide = tsr_cast(a, TSR_F64);
  if (tsr_read(wide, found, (size_t)g->count * sizeof *found)) FAIL("%s: %s", line, tsr_message(s));
  CHECK_STR(tsr_dtype_name(tsr_dtype_of(a)), tsr_dtype_name(g->dtype));
  CHECK_I64(tsr_shape_of(a).rank, g->shape.rank);
  for (int d = 0; d < g->shape.rank; d++) CHECK_I64(tsr_shape_of(a).dims[d], g->shape.dims[d]);
  for (int64_t i = 0; i < g->count; i++)
    if (found[i] != g->value[i])
      FAIL("%s: %g at %lld, expected %g", line, found[i], (long long)i, g->value[i]);
}

/* "0,1" as ints; returns how many, and where they end. */
static int read_ints(const char *text, int *out, const char **end)
{
  int count = 0;
  char *at = (char *)(uintptr_t)text;
  while (*at && *at != ';') {
    out[count++] = (int)strtol(at, &at, 10);
    at += *at == ',';
  }
  *end = *at ? at + 1 : at;
  return count;
}

static void read_wide(const char **text, int64_t *out)
{
  int small[ARRAYS], count = read_ints(*text, small, text);
  for (int i = 0; i < count; i++) out[i] = small[i];
}

static tsr_array *apply_windows(const char *op, const char *asked, tsr_array *const *in)
{
  if (!strcmp(op, "conv")) {
    tsr_conv_args conv = { .size = sizeof conv, .x = in[0], .kernel = in[1] };
    int64_t *const lists[] = { conv.stride,         conv.low,    conv.high, conv.dilation,
                               conv.input_dilation, &conv.groups };
    for (int i = 0; i < 6; i++) read_wide(&asked, lists[i]);
    return tsr_conv_at(&conv, TSR_HERE);
  }
  int64_t kind;
  tsr_window_args window = { .size = sizeof window, .x = in[0] };
  int64_t *const lists[] = { &kind,      window.window, window.stride,
                             window.low, window.high,   window.dilation };
  for (int i = 0; i < 6; i++) read_wide(&asked, lists[i]);
  window.op = (tsr_window_op)kind;
  return tsr_reduce_window_at(&window, TSR_HERE);
}

static tsr_array *apply(const char *op, const char *asked, tsr_array *const *in, int count)
{
  int a[ARRAYS], b[ARRAYS];
  const char *rest = asked;
  if (!strcmp(op, "matmul")) return tsr_matmul(in[0], in[1]);
  if (!strcmp(op, "dot")) return tsr_dot(in[0], in[1]);
  if (!strcmp(op, "inner")) return tsr_inner(in[0], in[1]);
  if (!strcmp(op, "vdot")) return tsr_vdot(in[0], in[1]);
  if (!strcmp(op, "kron")) return tsr_kron(in[0], in[1]);
  if (!strcmp(op, "outer")) return tsr_outer(in[0], in[1]);
  if (!strcmp(op, "einsum")) return tsr_einsum_with(asked, in, count);
  if (!strcmp(op, "conv") || !strcmp(op, "window")) return apply_windows(op, asked, in);
  if (!strcmp(op, "trace")) {
    read_ints(asked, a, &rest);
    read_ints(rest, b, &rest);
    return tsr_trace(in[0], .offset = a[0], .dims = { b[0], b[1] });
  }
  CHECK_STR(op, "tensordot");
  int n = read_ints(asked, a, &rest);
  CHECK_I64(read_ints(rest, b, &rest), n);
  return tsr_tensordot(in[0], in[1], n, a, b);
}

/* "op asked operand ... > result" */
static void run_case(tsr_scope *outer, const tsr_mesh *mesh, char *line, int turn)
{
  char *rest = NULL, whole[160];
  snprintf(whole, sizeof whole, "%s", line);
  const char *op = strtok_r(line, " ", &rest);
  char *asked = strtok_r(NULL, " ", &rest);
  for (char *c = asked; *c; c++) *c = (char)(*c == '_' ? ' ' : *c);
  tsr_array *in[ARRAYS];
  int count = 0;
  tsr_scope *s = tsr_scope_open(outer);
  for (char *word; *(word = strtok_r(NULL, " ", &rest)) != '>'; count++) {
    golden g = parse(word);
    tsr_array *x =
        tsr_put(s, g.value, TSR_F64, g.shape, somewhere(mesh, g.shape.rank, turn + count));
    in[count] = tsr_cast(x, g.dtype);
    if (turn % 3 == 0) in[count] = tsr_transpose(tsr_transpose(in[count]));
    if (turn % 3 == 1) CHECK_STATUS(tsr_wait(in[count]), TSR_OK, s);
  }
  golden g = parse(strtok_r(NULL, " ", &rest));
  check(whole, s, apply(op, asked, in, count), &g);
  tsr_scope_close(s);
}

TEST_TIMEOUT(products_are_numpys, 200)
{
  static const char *const meshes[] = { "x=1,y=1", "x=3,y=1", "x=4,y=2" };
  for (int m = 0; m < 3; m++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:8");
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_make(rt, meshes[m]);
    char *text = test_read(test_file("golden/products.txt"), NULL), *rest = NULL;
    int turn = m;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
      run_case(s, mesh, line, turn++);
    free(text);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
}

TEST(pools_are_windows)
{
  static const float x[] = { 1, 5, 2, 8, -3, 7 };
  float most[3], mean[3];
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(1, 6, 1), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_read(tsr_max_pool(a, .window = { 2 }), most, sizeof most), TSR_OK, s);
  CHECK(most[0] == 5 && most[1] == 8 && most[2] == 7);
  CHECK_STATUS(tsr_read(tsr_avg_pool(a, .window = { 2 }), mean, sizeof mean), TSR_OK, s);
  CHECK(mean[0] == 3 && mean[1] == 5 && mean[2] == 2);
  tsr_array *inside = tsr_avg_pool(a, .window = { 4 }, .stride = { 3 }, .low = { 2 }, .high = { 1 },
                                   .inside = true);
  CHECK_STATUS(tsr_read(inside, mean, 2 * sizeof *mean), TSR_OK, s);
  CHECK(mean[0] == 3 && mean[1] == 3);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Zeros that keep ceil(size / stride) windows, the odd one behind. */
TEST(same_keeps_the_size)
{
  static const float x[] = { 1, 2, 3, 4, 5 }, k[] = { 1, 10 };
  float out[5];
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(1, 5, 1), (tsr_sharding){ 0 });
  tsr_array *b = tsr_put(s, k, TSR_F32, TSR_SHAPE(2, 1, 1), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_read(tsr_conv(a, b, .same = true), out, sizeof out), TSR_OK, s);
  CHECK(out[0] == 21 && out[3] == 54 && out[4] == 5);
  CHECK_STATUS(tsr_read(tsr_conv(a, b, .same = true, .stride = { 2 }), out, 12), TSR_OK, s);
  CHECK(out[0] == 21 && out[1] == 43 && out[2] == 5);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
