/* Rows of JAX's own tests, as values, specs and what moves: reductions, products, other shapes,
 * uneven and turned shardings, arrays made of parts. */
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

/* ---- parts of an array, each against what its index map says of the whole ---- */

/* The place of a part's element `k` in row order of the whole. */
static int64_t place_in(const tsr_box *box, tsr_shape shape, int64_t k)
{
  int64_t at = 0, step = 1;
  for (int d = shape.rank - 1; d >= 0; d--, step *= shape.dims[d + 1]) {
    at += (box->start[d] + k % box->size[d]) * step;
    k /= box->size[d];
  }
  return at;
}

/* Every device has what a sharding gives it: `scale` times the place of each element. */
static void check_parts(tsr_array *a, tsr_sharding on, int scale)
{
  tsr_shape shape = tsr_shape_of(a);
  for (int p = 0; p < tsr_mesh_device_count(on.mesh); p++) {
    tsr_shard shard;
    tsr_box box;
    int64_t count = 1;
    CHECK_I64(tsr_shard_view(a, p, &shard), TSR_OK);
    CHECK_I64(tsr_shard_box(&on, shape, p, &box), TSR_OK);
    CHECK_BYTES(&shard.box, &box, sizeof box);
    CHECK_I64(shard.device, tsr_mesh_device(on.mesh, p));
    CHECK_I64(shard.replica, tsr_shard_replica(&on, p));
    for (int d = 0; d < shape.rank; d++) count *= box.size[d];
    for (int64_t k = 0; k < count; k++)
      CHECK_I64(((const int32_t *)shard.data)[k], scale * place_in(&box, shape, k));
  }
}

/* Element k in row order is k. */
static tsr_array *counting(tsr_scope *s, tsr_shape shape, tsr_sharding on)
{
  enum { MOST = 1 << 19 };
  static int32_t values[MOST];
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  CHECK(count <= MOST);
  for (int k = 0; k < count; k++) values[k] = k;
  return tsr_put(s, values, TSR_I32, shape, on);
}

/* ---- other shapes: where they lie in JAX, which moves nothing then; NULL: it refuses ---- */

typedef struct reshape_row {
  tsr_shape from, to;
  const char *lies, *becomes;
} reshape_row;

static void check_reshapes(const char *axes, const reshape_row *rows, size_t count)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, axes);
  for (size_t i = 0; i < count; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = counting(s, rows[i].from, tsr_on(mesh, rows[i].lies));
    a = tsr_mul(tsr_reshape(a, rows[i].to), 2);
    CHECK_STATUS(tsr_wait(a), TSR_OK, s);
    tsr_sharding is = tsr_sharding_of(a), to = tsr_on(mesh, rows[i].becomes);
    if (rows[i].becomes) {
      CHECK_I64(tsr_last_run(s).bytes_counted, 0);
      if (!tsr_sharding_same(&is, &to, rows[i].to)) FAIL("row %zu: %s", i, tsr_type_of(a));
    }
    check_parts(a, is, 2);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(reshapes_lie_where_jax_puts_them)
{
  static const reshape_row one_axis[] = {
    { { 2, { 16, 1 } }, { 3, { 1, 16, 1 } }, "x", "-,x" },
    { { 3, { 8, 2, 1 } }, { 3, { 1, 16, 1 } }, "x", "-,x" },
    { { 5, { 1, 4, 1, 6, 1 } }, { 3, { 1, 4, 6 } }, "-,x", "-,x" },
    { { 2, { 4, 6 } }, { 2, { 4, 6 } }, "-,x", "-,x" },
    { { 2, { 64, 256 } }, { 7, { 64, 128, 2, 1, 1, 1, 1 } }, "x", "x" },
    { { 3, { 64, 256, 32 } }, { 6, { 64, 128, 2, 1, 1, 32 } }, "x", "x" },
    { { 2, { 64, 256 } }, { 4, { 64, 1, 1, 256 } }, "x", "x" },
    { { 2, { 64, 256 } }, { 4, { 64, 1, 1, 256 } }, "-,x", "-,-,-,x" },
    { { 6, { 64, 128, 2, 1, 1, 1 } }, { 2, { 64, 256 } }, "x", "x" },
    { { 6, { 64, 128, 2, 1, 1, 1 } }, { 2, { 64, 256 } }, "-,x", "-,x" },
  };
  static const reshape_row two_axes[] = {
    { { 3, { 4, 6, 8 } }, { 4, { 4, 2, 3, 8 } }, "x,-,y", "x,-,-,y" },
    { { 3, { 4, 6, 8 } }, { 5, { 4, 6, 2, 2, 2 } }, "x", "x" },
    { { 3, { 4, 6, 8 } }, { 5, { 4, 2, 3, 4, 2 } }, "x", "x" }, /* JAX: more than one is split */
    { { 3, { 4, 6, 8 } }, { 4, { 4, 2, 3, 8 } }, "x,y", "x,y" },
    { { 3, { 4, 12, 8 } }, { 4, { 4, 4, 3, 8 } }, "-,x+y", "-,x+y" },
    { { 3, { 4, 6, 8 } }, { 4, { 4, 3, 2, 8 } }, "x,y", NULL },
    { { 3, { 4, 6, 8 } }, { 4, { 4, 4, 2, 6 } }, "x", NULL },
    { { 3, { 4, 8, 9 } }, { 6, { 4, 2, 2, 3, 3, 2 } }, "x", NULL },
    { { 2, { 10, 1 } }, { 3, { 2, 5, 1 } }, "x", "x" },
    { { 2, { 10, 1 } }, { 4, { 2, 5, 1, 1 } }, "x", "x" },
    { { 3, { 10, 1, 1 } }, { 4, { 2, 5, 1, 1 } }, "x", "x" },
    { { 2, { 1, 10 } }, { 3, { 1, 2, 5 } }, "-,x", "-,x" },
    { { 4, { 4, 2, 3, 8 } }, { 3, { 4, 6, 8 } }, "x,-,-,y", "x,-,y" },
    { { 4, { 2, 2, 6, 8 } }, { 3, { 4, 6, 8 } }, "-,-,y,x", "-,y,x" },
    { { 5, { 4, 6, 2, 2, 2 } }, { 3, { 4, 6, 8 } }, "x", "x" },
    { { 4, { 4, 2, 3, 8 } }, { 3, { 4, 6, 8 } }, "-,y,-,x", "-,y,x" },
    { { 4, { 4, 4, 3, 8 } }, { 3, { 4, 12, 8 } }, "-,x+y", "-,x+y" },
    { { 5, { 4, 2, 3, 2, 4 } }, { 3, { 4, 6, 8 } }, "x", "x" }, /* JAX: more than one is merged */
    { { 4, { 4, 2, 6, 8 } }, { 3, { 4, 12, 8 } }, "-,-,y,x", NULL },
    { { 4, { 4, 2, 3, 8 } }, { 3, { 4, 8, 6 } }, "-,y,-,x", NULL },
    { { 3, { 2, 5, 1 } }, { 2, { 10, 1 } }, "x", "x" },
    { { 3, { 16, 8, 4 } }, { 3, { 16, 32, 1 } }, "x,y", "x,y" },
    { { 3, { 16, 32, 1 } }, { 3, { 16, 8, 4 } }, "x,y", "x,y" },
  };
  check_reshapes("x=2", one_axis, sizeof one_axis / sizeof *one_axis);
  check_reshapes("x=2,y=2", two_axes, sizeof two_axes / sizeof *two_axes);
}

/* Where the result is said to lie elsewhere, it does. */
TEST(reshapes_lie_where_they_are_asked_to)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = counting(s, TSR_SHAPE(8, 1), tsr_on(mesh, "x"));
  tsr_sharding to = tsr_on(mesh, "-,-,x");
  a = tsr_mul(tsr_constrain(tsr_reshape(a, TSR_SHAPE(1, 4, 2)), to), 2);
  check_parts(a, to, 2);
  tsr_runtime_close(rt);
}

/* Sizes that an axis does not divide are JAX's error: here that of .strict alone. */
TEST(uneven_reshapes_are_legal_unless_strict)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = counting(s, TSR_SHAPE(33), tsr_on(mesh, "x")), *b;
  b = tsr_mul(tsr_reshape(a, TSR_SHAPE(11, 3)), 2);
  CHECK_STATUS(tsr_wait(b), TSR_OK, s);
  check_parts(b, tsr_sharding_of(b), 2);
  b = tsr_constrain(tsr_reshape(a, TSR_SHAPE(11, 3)), tsr_on(mesh, "x", .strict = true));
  CHECK(tsr_is_inert(b));
  CHECK_STR_HAS(tsr_message(s), "dim 0 of i32[11,3]@(x,-) is 11, not a multiple of axis x = 4");
  tsr_runtime_close(rt);
}

/* ---- specs: what is the same in JAX is here, and is written so ---- */

TEST(specs_are_the_same_as_in_jax)
{
  static const struct {
    const char *given, *written;
    int rank;
  } rows[] = {
    { "a", "(a)", 1 },
    { "a,b", "(a,b)", 2 },
    { "a+b", "(a+b)", 1 },
    { "a,b+c,-", "(a,b+c,-)", 3 },
    { "-,a", "(-,a)", 2 },
    { "a,b,-;sum(c)", "(a,b,-;sum(c))", 3 },
    { "a;sum(d)", "(a;sum(d))", 1 },
    { "a,c;sum(d+b)", "(a,c;sum(b+d))", 2 }, /* of two specs, one after the other */
  };
  static const char *const wrong[] = { "a+(b+c)", "((a,b),c)", "a,a", "a;sum(a)", "z" };
  tsr_runtime *rt = tsr_runtime_open("cpu:16");
  tsr_mesh *mesh = tsr_mesh_make(rt, "a=2,b=2,c=2,d=2");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[64];
    tsr_sharding on = tsr_on(mesh, rows[i].given);
    tsr_sharding_text(&on, rows[i].rank, text, sizeof text);
    CHECK_STR(text, rows[i].written);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    CHECK_I64(tsr_mesh_status(tsr_on(mesh, wrong[i]).mesh), TSR_EAXIS);
  tsr_runtime_close(rt);
}

/* ---- the same devices in another order ---- */

TEST(arrays_go_to_devices_in_another_order_and_stay)
{
  static const char *const specs[][2] = {
    { "x,y", "x,y" }, { "x", "y" }, { "x,y", "-" }, { "-", "y,x" }, { "x+y", "-,x" },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr_mesh_opts opts = { .size = sizeof opts,
                         .axis_count = 2,
                         .names = { "x", "y" },
                         .sizes = { 2, 2 },
                         .devices = (const int[]){ 3, 2, 1, 0 } };
  tsr_mesh *turned = tsr_mesh_make_with(rt, &opts);
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_sharding from = tsr_on(mesh, specs[i][0]), to = tsr_on(turned, specs[i][1]);
    tsr_array *a = counting(s, TSR_SHAPE(8, 2), from), *b = tsr_reshard(a, to);
    check_parts(b, to, 1);
    check_parts(a, from, 1);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- a product of three dims and two ---- */

TEST(products_of_three_dims_lie_where_jax_puts_them)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = counting(s, TSR_SHAPE(8, 6, 4), tsr_on(mesh, "-,x,y"));
  tsr_array *b = counting(s, TSR_SHAPE(4, 2), tsr_on(mesh, "y")), *c;
  c = tsr_constrain(tsr_matmul(a, b), tsr_on(mesh, "x"));
  for (int p = 0; p < 4; p++) {
    tsr_shard shard;
    const tsr_box expected = { .start = { p / 2 * 4 }, .size = { 4, 6, 2 } };
    CHECK_STATUS(tsr_shard_view(c, p, &shard), TSR_OK, s);
    CHECK_BYTES(&shard.box, &expected, sizeof expected);
    for (int k = 0; k < 48; k++) {
      int row = (p / 2 * 48 + k) / 2, sum = 0;
      for (int m = 0; m < 4; m++) sum += (4 * row + m) * (2 * m + k % 2);
      CHECK_I64(((const int32_t *)shard.data)[k], sum);
    }
  }
  tsr_runtime_close(rt);
}
