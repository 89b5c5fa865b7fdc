/* Frames, block 3: arithmetic with numbers, frames and column means keeps the sharding. Only the
 * mean needs the devices to talk, once for both columns. */
#include "check.h"
#include "inputs.h"

static void arithmetic(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=4");
  tsr_frame *df = input_xy(s, tsr_on(mesh, "data"));

  tsr_frame *df2 = tsr_frame_mul(df, 2);
  tsr_frame *df3 = tsr_frame_add(df, df);
  tsr_frame *df4 = tsr_frame_sub(df, 100);
  tsr_frame *df5 = tsr_frame_div(df, tsr_frame_mean(df));

  check_explained(c, "df2", tsr_frame_explain(df2));
  check_explained(c, "df3", tsr_frame_explain(df3));
  check_explained(c, "df4", tsr_frame_explain(df4));
  check_explained(c, "df5", tsr_frame_explain(df5));
  check_frame(c, "df2", df2);
  check_frame(c, "df3", df3);
  check_frame(c, "df4", df4);
  check_frame(c, "df5", df5);
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_03");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  arithmetic(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
