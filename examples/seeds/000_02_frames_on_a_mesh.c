/* Frames, block 2: a frame of columns whose rows are split over `data`; another one from a table
 * that exists already. 100 rows over 8 devices have shards of 13 and 12: no row is padded. */
#include "check.h"
#include "inputs.h"

/* The first row of each device's shard and the one after its last. */
static bool check_borders(check *c, const char *name, tsr_array *column)
{
  int64_t borders[16] = { 0 };
  for (int p = 0; p < 8; p++) {
    tsr_shard shard;
    if (tsr_shard_view(column, p, &shard)) return check_fail(c, "%s has no shard %d", name, p);
    borders[2 * p] = shard.box.start[0];
    borders[2 * p + 1] = shard.box.start[0] + shard.box.size[0];
  }
  check_ints(c, name, borders, 16);
  return true;
}

static void make_frames(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=4");
  tsr_sharding rows = tsr_on(mesh, "data");

  tsr_frame *df = tsr_frame_new(s, { "a", input_i64(s, 1000000, input_index, rows) },
                                { "b", input_f64(s, 1000000, input_n, rows) });
  check_frame(c, "big.df", df);

  int64_t x[100], y[100];
  for (int i = 0; i < 100; i++) x[i] = y[i] = i;
  df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_I64, TSR_SHAPE(100), rows) },
                     { "y", tsr_put(s, y, TSR_I64, TSR_SHAPE(100), rows) });
  check_frame(c, "small.df", df);

  df = input_xy(s, tsr_on(tsr_mesh_make(rt, "data=8"), "data"));
  check_borders(c, "small.rows_on_data8", tsr_frame_column(df, "x"));
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_02");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  make_frames(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
