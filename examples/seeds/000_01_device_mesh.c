/* Frames, block 1: a mesh over all devices, and one of 2 x 4 with named axes. */
#include "check.h"

int main(void)
{
  check c = check_open("000_01");
  tsr_runtime *rt = tsr_runtime_open("cpu:8");

  tsr_mesh *mesh = tsr_mesh_default(rt, "data");
  check_mesh(&c, "default_mesh", mesh, "data=8");
  mesh = tsr_mesh_make(rt, "data=2,model=4");
  check_mesh(&c, "custom_mesh", mesh, "data=2,model=4");

  tsr_runtime_close(rt);
  return check_close(&c);
}
