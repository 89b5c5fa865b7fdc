/* Frames, block 11: a map over a frame's columns, and a function from frame to frame, traced once.
 * To both a frame is the tree of its columns. */
#include "check.h"
#include "inputs.h"

static tsr_array *scale(tsr_scope *s, tsr_array *const *column, void *user)
{
  (void)s, (void)user;
  return tsr_mul(column[0], 0.9);
}

static tsr_array *process(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_frame *df = tsr_frame_from_tree(in[0]);
  (void)s, (void)user;
  return tsr_frame_to_tree(tsr_frame_add(tsr_frame_mul(df, 2), 1));
}

int main(void)
{
  check c = check_open("000_11");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=4");
  tsr_frame *df = input_xy(s, tsr_on(mesh, "data"));

  check_frame(&c, "scaled", tsr_frame_map(df, scale, NULL));
  tsr_function *f = tsr_function_make(s, process, .name = "process");
  check_frame(&c, "result", tsr_frame_call(f, df));
  check_frame(&c, "result", tsr_frame_call(f, df));
  if (tsr_trace_count(f) != 1) check_fail(&c, "process was traced %d times", tsr_trace_count(f));
  if (tsr_scope_status(s)) check_fail(&c, "%s", tsr_message(s));

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
