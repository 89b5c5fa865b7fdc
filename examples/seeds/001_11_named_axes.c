/* Arrays, block 11: a function over named axes. Its text maps over both and reduces neither; what
 * is meant is the sum over the features of each row of a batch. */
#include "check.h"
#include "inputs.h"

static tsr_array *sum(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(in[0]);
}

int main(void)
{
  check c = check_open("001_11");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "batch=8");

  tsr_array *x = input_s(s, TSR_SHAPE(8, 4), 1, tsr_on(mesh, "batch"));
  tsr_function *f = tsr_vmap(tsr_function_make(s, sum), .axis = "batch");
  check_array(&c, "f", tsr_call(f, x));
  check_ran(&c, "f", s);

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
