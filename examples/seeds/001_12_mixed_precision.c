/* Arrays, block 12: a cast to bf16, a constraint, and a product of the array with itself. Products
 * and sums are f32, over devices too, and rounded once at the end; these are exact in f32, so that
 * they have the same bits however the array lies. */
#include "check.h"
#include "inputs.h"

typedef struct place {
  const tsr_mesh *mesh;
  const char *spec;
} place;

static tsr_array *mixed_precision(tsr_scope *s, tsr_array *const *in, void *user)
{
  const place *at = user;
  tsr_array *x = tsr_constrain(tsr_cast(in[0], TSR_BF16), tsr_on(at->mesh, at->spec));
  (void)s;
  return tsr_matmul(x, tsr_transpose(x));
}

int main(void)
{
  check c = check_open("001_12");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  const char *const specs[] = { "x,y", "x,-", "-,x+y", "-,-" };

  tsr_array *x = input_s(s, TSR_SHAPE(16, 32), 1, tsr_on(mesh, "x,y"));
  check_array(&c, "x_bf16", tsr_cast(x, TSR_BF16));
  for (int i = 0; i < 4; i++) {
    place at = { mesh, specs[i] };
    tsr_scope *in = tsr_scope_open(s);
    tsr_function *f =
        tsr_function_make(in, mixed_precision, .user = &at, .mesh = mesh, .out_specs = { "x,-" });
    check_array(&c, "y", tsr_call(f, x));
    if (i == 0) check_ran(&c, "y", in);
    if (tsr_scope_status(in)) check_fail(&c, "%s", tsr_message(in));
    tsr_scope_close(in);
  }
  if (tsr_scope_status(s)) check_fail(&c, "%s", tsr_message(s));

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
