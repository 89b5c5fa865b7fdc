/* Arrays, block 11: a function over named axes. Its text names both dims and reduces neither, which
 * is refused: the result would differ along one that it has no dim for. What is meant is the sum
 * over the features of each row of a batch; the batch lies over the devices. */
#include "check.h"
#include "inputs.h"

static tsr_array *sum(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_psum(in[0], "features");
}

static tsr_array *as_written(tsr_scope *s, tsr_array *const *in, void *user)
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
  tsr_function *none = tsr_xmap(tsr_function_make(s, as_written), .in_axes = { "batch,features" },
                                .out_axes = { "batch" }, .mesh = mesh);
  c.outputs++;
  if (!tsr_is_inert(tsr_call(none, x)) || !strstr(tsr_message(s), "may differ along features"))
    check_fail(&c, "what is not reduced is taken for the same");
  tsr_scope_clear(s);
  tsr_function *f = tsr_xmap(tsr_function_make(s, sum), .in_axes = { "batch,features" },
                             .out_axes = { "batch" }, .mesh = mesh);
  check_array(&c, "f", tsr_call(f, x));
  check_ran(&c, "f", s);

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
