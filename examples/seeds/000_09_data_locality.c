/* Frames, block 9: a chain that keeps its sharding, and a row-sharded frame plus a replicated one.
 * Every device has the replicated rows already: its slice of them costs no communication. */
#include "check.h"
#include "inputs.h"

static void locality(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=4");
  tsr_frame *df = input_ab(s, 1000, tsr_on(mesh, "data"));

  tsr_frame *df2 = tsr_frame_mul(df, 2);
  tsr_frame *df3 = tsr_frame_add(df2, 1);
  tsr_frame *df4 = tsr_frame_div(df3, tsr_frame_max(df3));
  check_explained(c, "df4", tsr_frame_explain(df4));
  check_frame(c, "df2", df2);
  check_frame(c, "df3", df3);
  check_frame(c, "df4", df4);

  tsr_frame *rows = input_ab(s, 1000, tsr_on(mesh, "data"));
  tsr_frame *whole = input_ab(s, 1000, tsr_on(mesh, "-"));
  tsr_frame *result = tsr_frame_add(rows, whole);
  if (tsr_frame_incompatible(rows, whole)) check_fail(c, "%s", tsr_frame_incompatible(rows, whole));
  check_explained(c, "row_plus_replicated", tsr_frame_explain(result));
  check_frame(c, "row_plus_replicated", result);
  check_ran(c, "row_plus_replicated", s);
  check_frame(c, "row_plus_replicated", tsr_frame_add(whole, rows));
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_09");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  locality(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
