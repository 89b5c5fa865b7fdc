/* Frames, block 7: a small table, the same on all devices. Looking up sharded keys in it needs no
 * communication: every device has the whole table. */
#include "check.h"
#include "inputs.h"

static double rate(int64_t i)
{
  return (double)(i * i) / 8;
}

static int64_t probe(int64_t i)
{
  return i % 16;
}

static void look_up(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=4");
  tsr_sharding replicated = tsr_on(mesh, "-");

  tsr_frame *table = tsr_frame_new(s, { "key", input_i64(s, 16, input_index, replicated) },
                                   { "rate", input_f64(s, 16, rate, replicated) });
  check_frame(c, "lookup_table", table);

  tsr_array *keys = input_i64(s, 1000, probe, tsr_on(mesh, "data"));
  tsr_array *looked_up = tsr_take(tsr_frame_column(table, "rate"), keys, 0);
  check_explained(c, "looked_up", tsr_explain(&looked_up, 1));
  check_array(c, "looked_up", looked_up);
  check_ran(c, "looked_up", s);
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_07");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  look_up(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
