/* Frames, block 13: gathering to one device and scattering back. Values, types, order and shards
 * are those from before, also where devices do not divide the rows. */
#include "check.h"
#include "inputs.h"

/* Compares the values of a frame that lies elsewhere than the golden says. */
static void check_gathered(check *c, const char *name, tsr_frame *df)
{
  static const char *const columns[] = { "x", "y" };
  tsr_table *table = NULL;
  if (tsr_frame_collect(df, &table)) return;
  for (int i = 0; i < 2; i++) {
    int64_t values[100];
    char output[64];
    int at = tsr_table_find(table, columns[i]);
    for (int row = 0; row < 100; row++) values[row] = tsr_table_i64(table, row, at);
    snprintf(output, sizeof output, "%s.%s", name, columns[i]);
    check_ints(c, output, values, 100);
  }
}

static void round_trip(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=4");
  tsr_frame *df = input_xy(s, tsr_on(mesh, "data"));

  tsr_frame *local = tsr_frame_gather(df);
  tsr_frame *dist = tsr_frame_scatter(local, tsr_on(mesh, "data,-"));
  check_gathered(c, "local", local);
  check_frame(c, "dist", dist);

  int64_t bounds[16];
  tsr_sharding eight = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_array *x = tsr_frame_column(tsr_frame_scatter(tsr_frame_gather(df), eight), "x");
  for (int p = 0; p < 8; p++) {
    tsr_shard shard;
    if (tsr_shard_view(x, p, &shard)) check_fail(c, "device %d has no rows", p);
    bounds[2 * p] = shard.box.start[0];
    bounds[2 * p + 1] = shard.box.start[0] + shard.box.size[0];
  }
  check_ints(c, "rows_on_data8", bounds, 16);
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_13");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  round_trip(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
