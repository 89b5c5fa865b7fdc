/* Arrays, block 18: shardings that are told, and such that the planner finds. */
#include "check.h"
#include "inputs.h"

static tsr_array *f(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_matmul(in[0], tsr_transpose(in[0]));
}

int main(void)
{
  check c = check_open("001_18");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  tsr_array *x = input_s(s, TSR_SHAPE(8, 16), 1, tsr_on(mesh, "x,y"));
  tsr_function *told =
      tsr_function_make(s, f, .mesh = mesh, .in_specs = { "x,y" }, .out_specs = { "x,y" });
  check_array(&c, "explicit", tsr_call(told, x));
  check_ran(&c, "explicit", s);
  tsr_array *found = tsr_call(tsr_function_make(s, f), x);
  check_array(&c, "inferred", tsr_reshard(found, tsr_on(mesh, "x,-")));

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
