/* Slices and updates at places that arrays say: JAX's starts, and what moves. Runs at each ISA. */
#include <string.h>

#include "harness.h"
#include "tessera.h"

static tsr_array *starts_at(tsr_scope *s, int64_t row, int64_t column)
{
  return tsr_put(s, ((int64_t[]){ row, column }), TSR_I64, TSR_SHAPE(2), (tsr_sharding){ 0 });
}

/* jax.lax.dynamic_slice(arange(12).reshape(4, 3), (row, column), (2, 2)). */
TEST(starts_are_moved_inside_as_in_jax)
{
  static const struct {
    int64_t row, column;
    int32_t out[4];
  } rows[] = {
    { 1, 1, { 4, 5, 7, 8 } },   { 9, 9, { 7, 8, 10, 11 } },   { -1, 0, { 6, 7, 9, 10 } },
    { -3, -2, { 4, 5, 7, 8 } }, { -99, -99, { 0, 1, 3, 4 } },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=3");
  int32_t x[12], out[12];
  for (int i = 0; i < 12; i++) x[i] = i;
  tsr_array *a = tsr_put(s, x, TSR_I32, TSR_SHAPE(4, 3), tsr_on(mesh, "x"));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_array *at = starts_at(s, rows[i].row, rows[i].column);
    CHECK_STATUS(tsr_read(tsr_dynamic_slice(a, at, TSR_SHAPE(2, 2)), out, 16), TSR_OK, s);
    CHECK_BYTES(out, rows[i].out, 16);
    tsr_array *full = tsr_full(s, -1, TSR_I32, TSR_SHAPE(2, 2), (tsr_sharding){ 0 });
    CHECK_STATUS(tsr_read(tsr_dynamic_update_slice(a, full, at), out, 48), TSR_OK, s);
    for (int e = 0; e < 12; e++) {
      bool written = false;
      for (int k = 0; k < 4; k++) written = written || rows[i].out[k] == e;
      CHECK_I64(out[e], written ? -1 : e);
    }
  }
  tsr_runtime_close(rt);
}

/* Dims that are not cut stay where they are; what is written over stays, too. */
TEST(only_what_is_cut_and_what_is_written_moves)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  double x[64] = { 0 };
  char text[32];
  tsr_sharding whole = tsr_on(mesh, "");
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(16, 4), tsr_on(mesh, "x"));
  tsr_array *at = tsr_put(s, ((int64_t[]){ 3, 1 }), TSR_I64, TSR_SHAPE(2), whole);
  tsr_array *columns = tsr_dynamic_slice(a, at, TSR_SHAPE(16, 2));
  CHECK_STATUS(tsr_wait(columns), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  tsr_array *update = tsr_put(s, x, TSR_F64, TSR_SHAPE(5, 2), whole);
  tsr_array *written = tsr_dynamic_update_slice(a, update, at);
  CHECK_STATUS(tsr_wait(written), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, 0);
  tsr_sharding lies = tsr_sharding_of(written);
  tsr_sharding_text(&lies, 2, text, sizeof text);
  CHECK_STR(text, "(x,-)");
  tsr_array *rows = tsr_dynamic_slice(a, at, TSR_SHAPE(5, 4));
  CHECK_STATUS(tsr_wait(rows), TSR_OK, s);
  CHECK_I64(tsr_last_run(s).bytes_counted, 3 * 64 * 8);
  CHECK_I64(tsr_last_run(s).bytes_explained, 3 * 64 * 8);
  tsr_runtime_close(rt);
}
