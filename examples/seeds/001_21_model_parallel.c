/* Arrays, block 21: a model that is split over the devices, used for inference: by the features
 * that go in, whose products are summed over devices, and by those that come out. */
#include "check.h"
#include "inputs.h"

typedef struct inference {
  tsr_mesh *mesh;
  bool by_outputs;
} inference;

static tsr_array *infer(tsr_scope *s, tsr_array *const *in, void *user)
{
  const inference *i = user;
  (void)s;
  tsr_array *model = tsr_constrain(in[0], tsr_on(i->mesh, "model_parallel,-"));
  return tsr_matmul(in[1], i->by_outputs ? tsr_transpose(model) : model);
}

int main(void)
{
  check c = check_open("001_21");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  inference a = { tsr_mesh_make(rt, "model_parallel=8"), false }, b = { a.mesh, true };

  tsr_array *model = input_s(s, TSR_SHAPE(32, 16), 1, tsr_on(a.mesh, "model_parallel,-"));
  tsr_function *fa = tsr_function_make(s, infer, .user = &a, .mesh = a.mesh, .out_specs = { "" });
  tsr_function *fb =
      tsr_function_make(s, infer, .user = &b, .mesh = a.mesh, .out_specs = { "-,model_parallel" });
  check_array(&c, "outputs_a",
              tsr_call(fa, model, input_s(s, TSR_SHAPE(4, 32), 2, tsr_on(a.mesh, ""))));
  check_ran(&c, "outputs_a", s);
  check_array(&c, "outputs_b",
              tsr_call(fb, model, input_s(s, TSR_SHAPE(4, 16), 2, tsr_on(a.mesh, ""))));
  check_ran(&c, "outputs_b", s);

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
