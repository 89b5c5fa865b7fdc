/* Arrays, block 7: a constraint inside a function, then a product of an array with itself. */
#include "check.h"
#include "inputs.h"

static tsr_array *f(tsr_scope *s, tsr_array *const *in, void *mesh)
{
  (void)s;
  tsr_array *x = tsr_constrain(in[0], tsr_on((const tsr_mesh *)mesh, "x,y"));
  return tsr_matmul(x, tsr_transpose(x));
}

int main(void)
{
  check c = check_open("001_07");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  tsr_array *x = input_s(s, TSR_SHAPE(8, 16), 1, tsr_on(mesh, "x,y"));
  tsr_function *fn = tsr_function_make(s, f, .user = mesh, .mesh = mesh, .out_specs = { "x,-" });
  check_array(&c, "f", tsr_call(fn, x));
  check_ran(&c, "f", s);

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
