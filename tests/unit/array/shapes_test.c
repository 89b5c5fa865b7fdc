/* What is made of views: NumPy's values, dtypes, what moves. Runs at each ISA. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/golden_views.h"
#include "tessera.h"

/* ---- goldens --------------------------------------------------------------------------------- */

/* A call as the goldens write it: its name and numbers. */
typedef struct call {
  tsr_scope *s;
  tsr_array *a;
  tsr_sharding on;
  const char *name;
  double v[8];
  int64_t i[8]; /* the same as integers */
  int count;
} call;

static void read_call(char *text, call *c)
{
  char *rest = NULL;
  c->name = strtok_r(text, " ", &rest);
  for (char *word; (word = strtok_r(NULL, " ", &rest)); c->count++) {
    c->v[c->count] = strtod(word, NULL);
    c->i[c->count] = (int64_t)c->v[c->count];
  }
}

static bool is(const call *c, const char *name)
{
  return !strcmp(c->name, name);
}

static tsr_array *made(const call *c)
{
  tsr_shape square = { .rank = 2, .dims = { c->i[0], c->i[1] } };
  if (is(c, "eye")) return tsr_eye(c->s, TSR_F64, square, c->i[2], c->on);
  if (is(c, "arange"))
    return tsr_arange(c->s, .start = c->v[0], .stop = c->v[1], .step = c->v[2], .on = c->on);
  if (is(c, "linspace"))
    return tsr_linspace(c->s, c->v[0], c->v[1], c->i[2], .open = c->i[3] != 0, .on = c->on);
  FAIL("call %s", c->name);
}

static tsr_array *padded(const call *c)
{
  tsr_pad_args args = { .size = sizeof args, .x = c->a };
  args.low[c->i[3]] = c->i[1];
  args.high[c->i[3]] = c->i[2];
  return tsr_pad_like_at(&args, (tsr_pad_mode)c->i[0], TSR_HERE);
}

static tsr_array *apply(const call *c)
{
  tsr_array *a = c->a, *parts[3];
  const int64_t *i = c->i;
  if (is(c, "moveaxis")) return tsr_moveaxis(a, (int)i[0], (int)i[1]);
  if (is(c, "swapaxes")) return tsr_swapaxes(a, (int)i[0], (int)i[1]);
  if (is(c, "diff")) return tsr_diff(a, (int)i[0], (int)i[1]);
  if (is(c, "repeat")) return tsr_repeat(a, i[0], (int)i[1]);
  if (is(c, "roll")) return tsr_roll(a, i[0], (int)i[1]);
  if (is(c, "rot90")) return tsr_rot90(a, i[0], (int)i[1], (int)i[2]);
  if (is(c, "pad")) return padded(c);
  if (is(c, "stack")) return tsr_stack((tsr_array *[]){ a, tsr_add(a, 1) }, 2, (int)i[0]);
  if (is(c, "tile")) return tsr_tile_at(a, i, c->count, TSR_HERE);
  if (is(c, "diag")) return tsr_diag(a, i[0]);
  if (is(c, "tril")) return tsr_tril(a, i[0]);
  if (is(c, "triu")) return tsr_triu(a, i[0]);
  if (is(c, "atleast")) return tsr_atleast(a, (int)i[0]);
  if (is(c, "each")) {
    tsr_array *counts = tsr_put(c->s, i, TSR_I64, TSR_SHAPE(3), (tsr_sharding){ 0 });
    return tsr_repeat_each(a, counts, i[0] + i[1] + i[2], -1);
  }
  if (!is(c, "split")) return made(c);
  tsr_split(a, (int)i[0], (int)i[2], parts);
  return parts[i[1]];
}

static tsr_array *apply_call(tsr_scope *s, tsr_array *a, char *text, tsr_sharding on)
{
  call c = { .s = s, .a = a, .on = on };
  read_call(text, &c);
  return apply(&c);
}

TEST(what_is_made_of_views_is_numpys)
{
  CHECK(golden_views_check("golden/shapes.txt", apply_call) >= 300);
}

/* ---- dtypes, arrays of results --------------------------------------------------------------- */

TEST(ranges_have_the_dtype_that_is_asked_for)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  int16_t whole[5];
  bool bits[4], ones[6];
  CHECK_STATUS(tsr_read(tsr_arange(s, .stop = 5, .dtype = TSR_I16), whole, 10), TSR_OK, s);
  CHECK_BYTES(whole, ((int16_t[]){ 0, 1, 2, 3, 4 }), 10);
  tsr_array *down = tsr_linspace(s, -1, 1, 4, .dtype = TSR_I16);
  CHECK_STATUS(tsr_read(down, whole, 8), TSR_OK, s);
  CHECK_BYTES(whole, ((int16_t[]){ -1, -1, 0, 1 }), 8); /* -1/3 rounds down, as NumPy's */
  tsr_array *b = tsr_put(s, (bool[]){ 1, 0, 0, 1, 1 }, TSR_BOOL, TSR_SHAPE(5), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_read(tsr_diff(b, 1, 0), bits, 4), TSR_OK, s);
  CHECK_BYTES(bits, ((bool[]){ 1, 0, 1, 0 }), 4);
  tsr_array *eye = tsr_eye(s, TSR_BOOL, TSR_SHAPE(2, 3), 1, (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_read(eye, ones, 6), TSR_OK, s);
  CHECK_BYTES(ones, ((bool[]){ 0, 1, 0, 0, 0, 1 }), 6);
  tsr_runtime_close(rt);
}

TEST(grids_and_broadcasts_are_several_arrays)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  int32_t x[3] = { 1, 2, 3 }, y[2] = { 4, 5 }, out[6];
  tsr_array *a = tsr_put(s, x, TSR_I32, TSR_SHAPE(3), (tsr_sharding){ 0 });
  tsr_array *b = tsr_put(s, y, TSR_I32, TSR_SHAPE(2), (tsr_sharding){ 0 }), *grid[2];
  tsr_meshgrid((tsr_array *[]){ a, b }, 2, false, grid);
  CHECK_STR(tsr_type_of(grid[0]), "i32[3,2]");
  CHECK_STATUS(tsr_read(grid[0], out, 24), TSR_OK, s);
  CHECK_BYTES(out, ((int32_t[]){ 1, 1, 2, 2, 3, 3 }), 24);
  CHECK_STATUS(tsr_read(grid[1], out, 24), TSR_OK, s);
  CHECK_BYTES(out, ((int32_t[]){ 4, 5, 4, 5, 4, 5 }), 24);
  tsr_meshgrid((tsr_array *[]){ a, b }, 2, true, grid);
  CHECK_STR(tsr_type_of(grid[1]), "i32[2,3]");
  CHECK_STATUS(tsr_read(grid[0], out, 24), TSR_OK, s);
  CHECK_BYTES(out, ((int32_t[]){ 1, 2, 3, 1, 2, 3 }), 24);
  grid[0] = a;
  grid[1] = tsr_expand_dims(b, TSR_DIMS(1));
  tsr_broadcast_arrays(grid, 2, grid);
  CHECK_STR(tsr_type_of(grid[0]), "i32[2,3]");
  CHECK_STATUS(tsr_read(grid[1], out, 24), TSR_OK, s);
  CHECK_BYTES(out, ((int32_t[]){ 4, 4, 4, 5, 5, 5 }), 24);
  tsr_runtime_close(rt);
}

/* ---- what moves ------------------------------------------------------------------------------ */

/* Rows of neighbours cross, and no more. */
TEST(differences_and_borders_of_sharded_dims_exchange_rows)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  double x[48] = { 0 };
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(16, 3), tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_wait(tsr_diff(a, 1, 0)), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, 3 * 24);
  CHECK_STATUS(tsr_wait(tsr_stack((tsr_array *[]){ a, a }, 2, 0)), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  CHECK_STATUS(tsr_wait(tsr_repeat(a, 3, 0)), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  CHECK_STATUS(tsr_wait(tsr_tril(a, 0)), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  tsr_runtime_close(rt);
}
