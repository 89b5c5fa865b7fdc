/* Arrays, block 15: asking where an array lies, outside and inside a function. */
#include "check.h"
#include "inputs.h"

static void say(char out[128], tsr_array *x)
{
  tsr_sharding at = tsr_sharding_of(x);
  tsr_sharding_text(&at, tsr_shape_of(x).rank, out, 64);
  size_t length = strlen(out);
  snprintf(out + length, 128 - length, " on %s", tsr_mesh_text(at.mesh));
}

static tsr_array *f(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  say(user, in[0]);
  return tsr_mul(in[0], 2);
}

int main(void)
{
  check c = check_open("001_15");
  char outside[128], inside[128] = "";
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  tsr_array *x = input_s(s, TSR_SHAPE(8, 8), 1, tsr_on(mesh, "x,y"));
  say(outside, x);
  tsr_array *twice = tsr_call(tsr_function_make(s, f, .user = inside), x);
  check_print(&c, "seen", 0, outside);
  check_print(&c, "seen", 1, inside);
  check_array(&c, "f", twice);

  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return check_close(&c);
}
