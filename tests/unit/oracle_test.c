/* Rows of JAX's own tests, as values, specs and what moves: reductions, products, uneven and turned
 * shardings, arrays made of parts. */
#include "harness.h"

#include <string.h>

#include "tessera.h"

/* Element (i, j) is its place in row order. */
static tsr_array *places(tsr_scope *s, tsr_shape shape, tsr_sharding on)
{
  int64_t count = shape.dims[0] * shape.dims[1];
  tsr_array *flat = tsr_iota(s, TSR_I32, ((tsr_shape){ 1, { count } }), 0, (tsr_sharding){ 0 });
  int32_t values[64];
  CHECK(count <= 64);
  CHECK_STATUS(tsr_read(flat, values, (size_t)count * 4), TSR_OK, s);
  return tsr_put(s, values, TSR_I32, shape, on);
}

/* ---- reductions: which dims, how they lie before and after, whether anything must move ---- */

TEST(reductions_lie_where_jax_puts_them)
{
  static const struct {
    const char *from, *to;
    int dim; /* -1: all */
    bool moves;
  } rows[] = {
    { "x,y", "", -1, true },   { "x,y", "y", 0, true },      { "x,y", "x", 1, true },
    { "x+y,-", "-", 0, true }, { "x+y,-", "x+y", 1, false },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int most = 0; most < 2; most++) {
      tsr_scope *s = tsr_scope_open(rt);
      tsr_array *a = places(s, TSR_SHAPE(8, 2), tsr_on(mesh, rows[i].from));
      tsr_dims dims = rows[i].dim < 0 ? (tsr_dims){ 0 } : TSR_DIMS(rows[i].dim);
      tsr_array *r = most ? tsr_max(a, .dims = dims) : tsr_sum(a, .dims = dims);
      tsr_sharding to = tsr_on(mesh, rows[i].to), is;
      r = tsr_constrain(tsr_cast(r, TSR_I64), to);
      int64_t out[8], expected[8] = { 0 };
      int count = rows[i].dim < 0 ? 1 : rows[i].dim == 0 ? 2 : 8;
      CHECK_STATUS(tsr_eval(&r, 1), TSR_OK, s);
      CHECK_I64(tsr_last_run(s).bytes_counted > 0, rows[i].moves);
      is = tsr_sharding_of(r);
      CHECK(tsr_sharding_same(&is, &to, tsr_shape_of(r)));
      CHECK_STATUS(tsr_read(r, out, (size_t)count * 8), TSR_OK, s);
      for (int k = 0; k < 16; k++) {
        int at = rows[i].dim < 0 ? 0 : rows[i].dim == 0 ? k % 2 : k / 2;
        expected[at] = most ? k : expected[at] + k;
      }
      CHECK_BYTES(out, expected, (size_t)count * 8);
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}

/* ---- products ---- */

TEST(products_of_sharded_matrices_have_their_values)
{
  static const char *const specs[][3] = {
    { "x,y", "y", "x" },   { "x,-", "-,y", "x,y" }, { "x,-", "-,-", "x,-" },
    { "x,y", "-,-", "x" }, { "x,-", "x,-", "x,-" }, { "-,y", "-,y", "-,y" },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = places(s, TSR_SHAPE(8, 4), tsr_on(mesh, specs[i][0]));
    tsr_array *b = places(s, TSR_SHAPE(4, 2), tsr_on(mesh, specs[i][1]));
    tsr_array *c = tsr_constrain(tsr_matmul(a, b), tsr_on(mesh, specs[i][2]));
    int32_t out[16];
    CHECK_STATUS(tsr_read(c, out, sizeof out), TSR_OK, s);
    for (int r = 0; r < 8; r++)
      for (int k = 0; k < 2; k++) {
        int sum = 0;
        for (int m = 0; m < 4; m++) sum += (4 * r + m) * (2 * m + k);
        CHECK_I64(out[2 * r + k], sum);
      }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- uneven constraints ---- */

TEST(uneven_constraints_keep_their_values)
{
  enum { COUNT = 113003 };
  static int32_t out[COUNT];
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  static const char *const meshes[] = { "x=2", "x=8", "x=3" };
  for (int i = 0; i < 3; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_sharding on = tsr_on(tsr_mesh_make(rt, meshes[i]), "x");
    tsr_array *a = tsr_iota(s, TSR_I32, TSR_SHAPE(COUNT), 0, (tsr_sharding){ .mesh = on.mesh });
    tsr_array *b = tsr_add(tsr_constrain(tsr_mul(a, 2), on), 1);
    CHECK_STATUS(tsr_read(b, out, sizeof out), TSR_OK, s);
    for (int k = 0; k < COUNT; k++)
      if (out[k] != 2 * k + 1) FAIL("element %d is %d on %s", k, out[k], meshes[i]);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- arrays of parts ---- */

TEST(parts_must_be_those_of_the_sharding)
{
  static const int32_t part[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
  const void *parts[5] = { part, part, part, part, part };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  const struct {
    int count;
    tsr_dtype dtype;
    const char *spec, *text;
    tsr_status status;
  } rows[] = {
    { 3, TSR_I32, "x", "3 shards, expected 4: one for each addressable device", TSR_EARG },
    { 5, TSR_I32, "x", "5 shards, expected 4: one for each addressable device", TSR_EARG },
    { 0, TSR_I32, "x", "0 shards, expected 4: one for each addressable device", TSR_EARG },
    { 4, (tsr_dtype)14, "x", "", TSR_EDTYPE },
    { 4, TSR_I32, "-,-,x", "spec (-,-,x) names 3 dims", TSR_ESHAPE },
    { 4, TSR_I32, "x,x", "axis 'x' is used twice", TSR_EAXIS },
    { 4, TSR_I32, "x,?", "leaves dim 1 to the planner", TSR_EAXIS },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = tsr_from_shards(s, parts, .count = rows[i].count, .dtype = rows[i].dtype,
                                   .shape = TSR_SHAPE(8, 2), .on = tsr_on(mesh, rows[i].spec));
    CHECK(tsr_is_inert(a));
    CHECK_STATUS(tsr_scope_status(s), rows[i].status, s);
    CHECK_STR_HAS(tsr_message(s), rows[i].text);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
