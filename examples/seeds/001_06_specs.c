/* Arrays, block 6: four specs on one mesh: dim 0 over one axis; both dims; dim 1 over both axes,
 * the first being the major one; and all of it on every device. */
#include "check.h"

int main(void)
{
  check c = check_open("001_06");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");

  static const char *const specs[] = { "x", "x,y", "-,x+y", "" };
  for (int i = 0; i < 4; i++) {
    tsr_sharding sharding = tsr_on(mesh, specs[i]);
    char name[64] = "bounds"; /* and the spec as it is printed: "bounds(x,-)" */
    tsr_sharding_text(&sharding, 2, name + strlen(name), sizeof name - strlen(name));
    check_bounds(&c, name, sharding, TSR_SHAPE(8, 8));
  }

  tsr_runtime_close(rt);
  return check_close(&c);
}
