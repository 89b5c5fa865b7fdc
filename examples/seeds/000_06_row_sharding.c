/* Frames, block 6: rows over `data`. A filter keeps rows in order and on their device; arithmetic
 * on the unfiltered frame has all rows still. */
#include "check.h"
#include "inputs.h"

static tsr_frame *large(tsr_scope *s, tsr_sharding rows)
{
  return tsr_frame_new(s, { "id", input_i64(s, 1000000, input_index, rows) },
                       { "value", input_f64(s, 1000000, input_n, rows) });
}

static void row_sharding(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  int64_t rows[8];
  tsr_frame *df = large(s, tsr_on(tsr_mesh_make(rt, "data=2,model=4"), "data"));

  tsr_frame *filtered = tsr_frame_filter(df, "value > 0");
  tsr_frame *transformed = tsr_frame_add(tsr_frame_mul(df, 2), 1);

  check_frame(c, "filtered", filtered);
  check_frame(c, "transformed", transformed);
  if (!check_rows_by_device(filtered, rows))
    check_fail(c, "rows a device: %s", tsr_frame_devices(filtered));
  /* Devices 0 to 3 hold the first half of the rows, each the same; 4 to 7 the other one. */
  check_ints(c, "filtered.rows_per_data_index", (int64_t[]){ rows[0], rows[4] }, 2);
  if (rows[3] != rows[0] || rows[7] != rows[4]) check_fail(c, "replicas differ in their rows");

  df = large(s, tsr_on(tsr_mesh_default(rt, "data"), "data"));
  if (!check_rows_by_device(tsr_frame_filter(df, "value > 0"), rows))
    check_fail(c, "rows on data=8");
  check_ints(c, "filtered.rows_on_data8", rows, 8);
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_06");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  row_sharding(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
