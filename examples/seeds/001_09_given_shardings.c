/* Arrays, block 9: a product with given shardings of what goes in and comes out. */
#include "check.h"
#include "inputs.h"

static tsr_array *f(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_matmul(in[0], in[1]);
}

int main(void)
{
  check c = check_open("001_09");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  static const struct {
    const char *name, *in[2], *out;
  } cases[] = { { "(x,-)@(-,y)", { "x,-", "-,y" }, "x,y" },
                { "(x,y)@(y,-)", { "x,y", "y,-" }, "x,-" },
                { "(x,y)@(x,y)", { "x,y", "x,y" }, "x,y" } };

  for (int i = 0; i < 3; i++) {
    tsr_function *sharded =
        tsr_function_make(s, f, .mesh = mesh, .in_specs = { cases[i].in[0], cases[i].in[1] },
                          .out_specs = { cases[i].out });
    tsr_array *x = input_s(s, TSR_SHAPE(8, 16), 1, tsr_on(mesh, cases[i].in[0]));
    tsr_array *y = input_s(s, TSR_SHAPE(16, 8), 2, tsr_on(mesh, cases[i].in[1]));
    check_array(&c, cases[i].name, tsr_call(sharded, x, y));
    check_ran(&c, cases[i].name, s);
  }

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
