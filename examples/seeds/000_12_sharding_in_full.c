/* Frames, block 12: a sharding given in full, one entry a dim: rows over `data`, columns whole. It
 * is the same in all respects as sharding the rows. */
#include "check.h"
#include "inputs.h"

static void custom_spec(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=4");
  tsr_sharding spec = tsr_on_dims(mesh, 2, (const char *const[]){ "data", NULL });
  tsr_sharding rows = tsr_on_dims(mesh, 1, (const char *const[]){ "data" });
  tsr_sharding short_form = tsr_on(mesh, "data");

  check_frame(c, "df", input_ab(s, 1000, rows));
  check_bounds(c, "bounds_of_1000x2", spec, TSR_SHAPE(1000, 2));
  if (!tsr_sharding_same(&rows, &short_form, TSR_SHAPE(1000)))
    check_fail(c, "the full form and the short one differ");
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("000_12");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  custom_spec(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
