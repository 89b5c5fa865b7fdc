/* Frames, block 1: a mesh over all devices, and one of 2 x 4 with named axes. */
#include "check.h"

static void check_mesh(check *c, const char *name, const tsr_mesh *mesh, const char *text)
{
  int64_t ids[8];
  int count = tsr_mesh_device_count(mesh);
  for (int i = 0; i < count && i < 8; i++) ids[i] = tsr_mesh_device(mesh, i);
  if (count != 8) check_fail(c, "%s has %d devices", name, count);
  if (strcmp(tsr_mesh_text(mesh), text) != 0)
    check_fail(c, "%s is %s, expected %s", name, tsr_mesh_text(mesh), text);
  check_ints(c, name, ids, 8);
}

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
