/* Other shapes and orders: where they are cut, and what of them moves. Runs at each ISA. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
} fixture;

static fixture open_fixture(const char *devices, const char *mesh)
{
  fixture f = { .rt = tsr_runtime_open(devices) };
  f.s = tsr_scope_open(f.rt);
  f.mesh = tsr_mesh_make(f.rt, mesh);
  return f;
}

/* 0, 1, 2 ... of i32. */
static tsr_array *counting(const fixture *f, tsr_shape shape, const char *spec)
{
  int32_t x[4096];
  for (int i = 0; i < 4096; i++) x[i] = i;
  return tsr_put(f->s, x, TSR_I32, shape, spec ? tsr_on(f->mesh, spec) : (tsr_sharding){ 0 });
}

/* Evaluates an array; checks its elements, bytes, and where it lies. */
static void check_lies(const fixture *f, tsr_array *a, const char *spec, int64_t bytes)
{
  char text[64];
  CHECK_STATUS(tsr_wait(a), TSR_OK, f->s);
  tsr_sharding at = tsr_sharding_of(a);
  tsr_sharding_text(&at, tsr_shape_of(a).rank, text, sizeof text);
  CHECK_STR(text, spec);
  CHECK_I64(tsr_last_run(f->s).bytes_counted, bytes);
  CHECK_I64(tsr_last_run(f->s).bytes_explained, bytes);
}

static void check_counts(const fixture *f, tsr_array *a, int count)
{
  int32_t out[4096];
  CHECK_STATUS(tsr_read(a, out, (size_t)count * sizeof *out), TSR_OK, f->s);
  for (int i = 0; i < count; i++) CHECK_I64(out[i], i);
}

/* ---- reshape --------------------------------------------------------------------------------- */

/* What JAX keeps cut when dims are split and merged: the major dim of each. Nothing moves. */
TEST(what_is_cut_stays_cut_along_major_dims)
{
  fixture f = open_fixture("cpu:4", "x=2,y=2");
  static const struct {
    tsr_shape from;
    const char *spec;
    tsr_shape to;
    const char *expected;
  } rows[] = {
    { { 3, { 4, 6, 8 } }, "x,-,y", { 4, { 4, 2, 3, 8 } }, "(x,-,-,y)" },
    { { 3, { 4, 6, 8 } }, "x,y,-", { 4, { 4, 2, 3, 8 } }, "(x,y,-,-)" },
    { { 3, { 4, 12, 8 } }, "-,x+y,-", { 4, { 4, 4, 3, 8 } }, "(-,x+y,-,-)" },
    { { 4, { 4, 2, 3, 8 } }, "-,y,-,x", { 3, { 4, 6, 8 } }, "(-,y,x)" },
    { { 4, { 4, 2, 3, 8 } }, "x,y,-,-", { 3, { 4, 6, 8 } }, "(x,y,-)" },
    { { 3, { 16, 8, 4 } }, "x,y,-", { 3, { 16, 32, 1 } }, "(x,y,-)" },
    { { 3, { 16, 32, 1 } }, "x,y,-", { 3, { 16, 8, 4 } }, "(x,y,-)" },
    { { 2, { 4, 6 } }, "x,y", { 5, { 1, 4, 1, 6, 1 } }, "(-,x,-,y,-)" },
    { { 2, { 8, 6 } }, "x+y", { 1, { 48 } }, "(x+y)" },
    { { 1, { 48 } }, "x+y", { 3, { 4, 2, 6 } }, "(x+y,-,-)" },
    { { 2, { 5, 6 } }, "x", { 1, { 30 } }, "(x)" }, /* 3 and 2 rows: borders do not meet */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_array *a = tsr_reshape(counting(&f, rows[i].from, rows[i].spec), rows[i].to);
    check_lies(&f, a, rows[i].expected, i + 1 < sizeof rows / sizeof *rows ? 0 : 2 * 3 * 4);
    int count = 1;
    for (int d = 0; d < rows[i].to.rank; d++) count *= (int)rows[i].to.dims[d];
    check_counts(&f, a, count);
  }
  tsr_runtime_close(f.rt);
}

/* A minor dim that is cut must be whole before it can become part of another: its axis cuts the
 * major dim instead, as nobody asks for a whole result. */
TEST(what_is_cut_along_minor_dims_moves_and_is_explained)
{
  fixture f = open_fixture("cpu:4", "x=2,y=2");
  tsr_array *a = tsr_reshape(counting(&f, TSR_SHAPE(4, 2, 6, 8), "-,-,y,x"), TSR_SHAPE(4, 12, 8));
  CHECK_STR_HAS(tsr_explain(&a, 1), "all-to-all over y=2: 768 bytes");
  check_lies(&f, a, "(-,y,x)", 768);
  check_counts(&f, a, 384);
  tsr_runtime_close(f.rt);
}

/* Nothing is copied for a kernel to read another shape of what is in memory. */
TEST(other_shapes_cost_no_kernel)
{
  fixture f = open_fixture("cpu:4", "x=4");
  tsr_array *a = counting(&f, TSR_SHAPE(8, 6), "x");
  double sum;
  tsr_array *b = tsr_reshape(tsr_reshape(a, TSR_SHAPE(8, 2, 3)), TSR_SHAPE(4, -1));
  tsr_array *c = tsr_sum(tsr_mul(tsr_transpose(b), 2));
  CHECK_STATUS(tsr_read_scalar(c, &sum), TSR_OK, f.s);
  CHECK_F64_BITS(sum, 47 * 48);
  CHECK_I64(tsr_last_run(f.s).kernels, 1);
  CHECK_I64(tsr_shape_of(tsr_ravel(b)).dims[0], 48);
  CHECK_I64(tsr_shape_of(tsr_ravel(tsr_reshape(b, TSR_SHAPE(0 + 48)))).rank, 1);
  tsr_runtime_close(f.rt);
}

static void note_release(void *data, void *user)
{
  (void)data;
  *(bool *)user = true;
}

/* Where no device gets other elements, an array in another shape has no memory of its own; it is
 * held by both, and given up by neither alone. */
TEST(another_shape_shares_its_memory)
{
  _Alignas(64) static int32_t lent[48];
  fixture f = open_fixture("cpu:4", "x=4");
  bool released = false;
  tsr_array *a = counting(&f, TSR_SHAPE(8, 6), "x");
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, f.s);
  int64_t before = tsr_device_memory(f.rt, 0).now;
  tsr_array *b = tsr_reshape(tsr_expand_dims(a, TSR_DIMS(1)), TSR_SHAPE(4, 12));
  CHECK_STATUS(tsr_eval(&b, 1), TSR_OK, f.s);
  CHECK_I64(tsr_device_memory(f.rt, 0).now, before);
  CHECK_I64(tsr_last_run(f.s).kernels, 0);
  tsr_array *c = tsr_mul(b, 2);
  CHECK_STATUS(tsr_donate(b), TSR_OK, f.s);
  CHECK_STATUS(tsr_eval(&c, 1), TSR_OK, f.s);
  check_counts(&f, a, 48);
  tsr_delete(a);
  check_counts(&f, tsr_floordiv(c, 2), 48);
  /* What the user lent is read by nothing else than what it was lent for. */
  for (int i = 0; i < 48; i++) lent[i] = i;
  tsr_array *d = tsr_adopt(f.s, lent, .dtype = TSR_I32, .shape = TSR_SHAPE(48),
                           .release = note_release, .user = &released);
  tsr_array *e = tsr_reshape(d, TSR_SHAPE(6, 8));
  CHECK_STATUS(tsr_eval(&e, 1), TSR_OK, f.s);
  tsr_delete(d);
  CHECK(released);
  memset(lent, 0, sizeof lent);
  check_counts(&f, e, 48);
  tsr_runtime_close(f.rt);
}

/* Views that show all elements in their order have no memory of their own either; others that show
 * as many do. */
TEST(views_in_order_share_memory)
{
  fixture f = open_fixture("cpu:4", "x=4");
  tsr_array *a = counting(&f, TSR_SHAPE(8, 1, 6), "x");
  CHECK_STATUS(tsr_eval(&a, 1), TSR_OK, f.s);
  int64_t before = tsr_device_memory(f.rt, 0).now;
  tsr_array *b[] = { tsr_transpose(a, 0, 2, 1), tsr_transpose(a, 1, 0, 2),
                     tsr_transpose(a, 0, 1, 2), tsr_broadcast_to(a, TSR_SHAPE(1, 8, 1, 6)),
                     tsr_transpose(tsr_reshape(tsr_transpose(a, 1, 0, 2), TSR_SHAPE(8, 6, 1)), 2, 0,
                                   1) };
  CHECK_STATUS(tsr_eval(b, 5), TSR_OK, f.s);
  CHECK_I64(tsr_device_memory(f.rt, 0).now, before);
  for (int i = 0; i < 5; i++) check_counts(&f, b[i], 48);
  int32_t out[36];
  tsr_array *turned = tsr_flip(a, TSR_DIMS(2));
  CHECK_STATUS(tsr_eval(&turned, 1), TSR_OK, f.s);
  CHECK(tsr_device_memory(f.rt, 0).now > before);
  check_counts(&f, tsr_flip(turned, TSR_DIMS(2)), 48);
  tsr_array *square = counting(&f, TSR_SHAPE(6, 1, 6), NULL);
  CHECK_STATUS(tsr_read(tsr_transpose(square, 2, 1, 0), out, sizeof out), TSR_OK, f.s);
  for (int i = 0; i < 36; i++) CHECK_I64(out[i], i % 6 * 6 + i / 6);
  tsr_delete(a);
  for (int i = 0; i < 5; i++) check_counts(&f, b[i], 48);
  tsr_runtime_close(f.rt);
}

TEST(dims_of_one_come_and_go)
{
  fixture f = open_fixture("cpu:4", "x=4");
  tsr_array *a = counting(&f, TSR_SHAPE(8, 3), "x");
  tsr_array *b = tsr_expand_dims(a, TSR_DIMS(0, -1));
  CHECK_STR(tsr_type_of(b), "i32[1,8,3,1]");
  tsr_array *c = tsr_squeeze(tsr_transpose(b), TSR_DIMS(0, -1));
  CHECK_STR(tsr_type_of(c), "i32[3,8]");
  check_lies(&f, tsr_transpose(c), "(x,-)", 0);
  check_counts(&f, tsr_transpose(c), 24);
  CHECK_STR(tsr_type_of(tsr_squeeze(b, (tsr_dims){ 0 })), "i32[8,3]");
  tsr_runtime_close(f.rt);
}

TEST(sizes_of_zero_take_any_shape)
{
  fixture f = open_fixture("cpu:4", "x=4");
  tsr_array *a = counting(&f, TSR_SHAPE(0, 3), "x");
  CHECK_STR(tsr_type_of(tsr_reshape(a, TSR_SHAPE(5, 0, 2))), "i32[5,0,2]");
  CHECK_STR(tsr_type_of(tsr_reshape(a, TSR_SHAPE(-1, 2))), "i32[0,2]");
  CHECK_STATUS(tsr_wait(tsr_reshape(a, TSR_SHAPE(7, 0))), TSR_OK, f.s);
  CHECK_STATUS(tsr_wait(tsr_roll(a, 3, 0)), TSR_OK, f.s);
  tsr_runtime_close(f.rt);
}

/* ---- neighbours ------------------------------------------------------------------------------ */

/* Only what another device shows crosses. */
TEST(views_of_sharded_dims_exchange_rows_and_gather_nothing)
{
  fixture f = open_fixture("cpu:4", "x=4");
  tsr_array *a = counting(&f, TSR_SHAPE(16, 5), "x");
  const int row = 5 * 4;
  tsr_array *rolled = tsr_roll(a, 1, 0);
  const char *text = tsr_explain(&rolled, 1);
  CHECK_STR_HAS(text, "exchange over x=4: 80 bytes");
  CHECK_STR_HAS(text, "because roll at reshape_test.c:");
  CHECK_STR_HAS(text, "reads elements of other devices");
  check_lies(&f, rolled, "(x,-)", 4 * row);
  check_lies(&f, tsr_roll(a, 16, 0), "(x,-)", 0);
  check_lies(&f, tsr_slice(a, TSR_RANGE(1, TSR_END)), "(x,-)", 3 * row);
  check_lies(&f, tsr_slice(a, TSR_RANGE(0, 12)), "(x,-)", (1 + 2 + 3) * row);
  check_lies(&f, tsr_flip(a, TSR_DIMS(0)), "(x,-)", 16 * row);
  check_lies(&f, tsr_pad(a, .low = { 2 }, .high = { 2 }), "(x,-)", 2 * row);
  check_lies(&f, tsr_concat((tsr_array *[]){ a, a }, 2, 0), "(x,-)", (4 + 8 + 8 + 4) * row);
  check_lies(&f, tsr_slice(a, TSR_ALL, TSR_RANGE(1, 3)), "(x,-)", 0);
  tsr_runtime_close(f.rt);
}

/* Positions are made where they are needed. */
TEST(sources_are_made_and_not_exchanged)
{
  fixture f = open_fixture("cpu:4", "x=4");
  tsr_array *i = tsr_iota(f.s, TSR_I32, TSR_SHAPE(16), 0, (tsr_sharding){ 0 });
  tsr_array *a = tsr_add(counting(&f, TSR_SHAPE(16), "x"), tsr_flip(i, TSR_DIMS(0)));
  int32_t out[16];
  CHECK_STATUS(tsr_read(a, out, sizeof out), TSR_OK, f.s);
  for (int k = 0; k < 16; k++) CHECK_I64(out[k], 15);
  CHECK_I64(tsr_last_run(f.s).bytes_counted, 0);
  tsr_runtime_close(f.rt);
}
