/* Dims that users rank, "x:p1": what moves for them, and that values know nothing of it. Which
 * placements follow stands in partition_test. */
#include "harness.h"

#include <string.h>

#include "tessera.h"

enum { ROWS = 8, INNER = 32, COLUMNS = 64 };

static float batch[ROWS * INNER], weights[INNER * COLUMNS];

static void fill(void)
{
  for (int i = 0; i < ROWS * INNER; i++) batch[i] = (float)(i % 13) - 5;
  for (int i = 0; i < INNER * COLUMNS; i++) weights[i] = (float)(i % 7) - 3;
}

static tsr_array *layer(tsr_scope *s, const tsr_mesh *mesh, const char *spec)
{
  tsr_array *x = tsr_put(s, batch, TSR_F32, TSR_SHAPE(ROWS, INNER), tsr_on(mesh, "x,-"));
  tsr_array *w = tsr_put(s, weights, TSR_F32, TSR_SHAPE(INNER, COLUMNS), tsr_on(mesh, spec));
  return tsr_tanh(tsr_matmul(x, w));
}

TEST(ranks_decide_what_moves_and_no_value)
{
  static const char *const specs[] = { "x,y", "x:p1,y", "x:p3,y:p1", "y:p1,x", "x+y:p2,-" };
  float expected[ROWS * COLUMNS], out[ROWS * COLUMNS];
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  fill();
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *r = layer(s, mesh, specs[i]);
    CHECK_STATUS(tsr_read(r, i ? out : expected, sizeof out), TSR_OK, s);
    if (i) CHECK_BYTES(out, expected, sizeof out); /* sums of small integers are exact */
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(explanations_show_what_ranks_move)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *r = layer(s, mesh, "x,y");
  CHECK_STR_HAS(tsr_explain(&r, 1), "%0 f32[8,32]@(x,-) -> ");
  r = layer(s, mesh, "x:p1,y");
  CHECK_STR_HAS(tsr_explain(&r, 1), "%1 f32[32,64]@(x,y) -> f32[32,64]@(-,y)");
  tsr_runtime_close(rt);
}

/* The spec of what was put is printed as it was typed; what is computed has no ranks. */
TEST(ranks_are_printed_as_typed)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding to = tsr_on(mesh, "-,x:p2"), is;
  char text[64];
  tsr_array *w = tsr_put(s, weights, TSR_F32, TSR_SHAPE(INNER, COLUMNS), tsr_on(mesh, "x:p1,y"));
  is = tsr_sharding_of(w);
  tsr_type_text(TSR_F32, tsr_shape_of(w), &is, text, sizeof text);
  CHECK_STR(text, "f32[32,64]@(x:p1,y)");
  tsr_array *moved = tsr_reshard(tsr_neg(w), to);
  CHECK_STATUS(tsr_wait(moved), TSR_OK, s);
  is = tsr_sharding_of(moved);
  CHECK(tsr_sharding_same(&is, &to, tsr_shape_of(moved)));
  tsr_type type;
  CHECK_I64(tsr_type_parse(s, mesh, "f32[4,4]@(x:p3,-)", &type), TSR_OK);
  tsr_type_text(type.dtype, type.shape, &type.on, text, sizeof text);
  CHECK_STR(text, "f32[4,4]@(x:p3,-)");
  tsr_runtime_close(rt);
}
