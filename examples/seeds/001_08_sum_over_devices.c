/* Arrays, block 8: a function mapped over the devices that sums over all of them. The axis that it
 * sums over has to be named where it is mapped, too: without that the call says so. */
#include "check.h"
#include "inputs.h"

static tsr_array *parallel(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_psum(in[0], "i");
}

int main(void)
{
  check c = check_open("001_08");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "i=8");

  tsr_array *data = input_s(s, TSR_SHAPE(8, 4), 1, tsr_on(mesh, "i"));
  tsr_function *fn = tsr_function_make(s, parallel);
  tsr_array *result = tsr_call(tsr_vmap(fn, .axis = "i"), data);
  check_array(&c, "result", tsr_constrain(result, tsr_on(mesh, "i")));
  check_ran(&c, "result", s);

  c.outputs++;
  if (!tsr_is_inert(tsr_call(tsr_vmap(fn), data))) check_fail(&c, "an axis that is not there");
  if (!strstr(tsr_message(s), "no axis \"i\" is mapped over here")) check_fail(&c, "the message");

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
