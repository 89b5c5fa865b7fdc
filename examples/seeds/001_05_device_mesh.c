/* Arrays, block 5: a mesh of 2 x 4 devices with named axes, and the sharding that splits dim 0 over
 * one and dim 1 over the other. A mesh takes the devices in order; a spec is one short text. */
#include "check.h"

int main(void)
{
  check c = check_open("001_05");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");

  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  tsr_sharding sharding = tsr_on(mesh, "x,y");
  check_mesh(&c, "mesh", mesh, "x=2,y=4");
  check_bounds(&c, "bounds", sharding, TSR_SHAPE(8, 8));

  /* The same from one text a dim, as PartitionSpec takes them. */
  tsr_sharding pspec = tsr_on_dims(mesh, 2, (const char *const[]){ "x", "y" });
  if (!tsr_sharding_same(&sharding, &pspec, TSR_SHAPE(8, 8)))
    check_fail(&c, "the text and the list of dims differ");

  tsr_runtime_close(rt);
  return check_close(&c);
}
