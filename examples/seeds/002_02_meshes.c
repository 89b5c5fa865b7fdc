/* Loading, block 2: how many devices there are; a mesh of all of them along one axis, and one of
 * 2 x 2 where there are enough. With more than four devices it takes the first four. */
#include "check.h"

static void make_meshes(check *c, const char *devices)
{
  tsr_runtime *rt = tsr_runtime_open(devices);
  int count = tsr_device_count(rt);
  char line[64];
  snprintf(line, sizeof line, "Available devices: %d", count);

  tsr_mesh *mesh_1d = tsr_mesh_default(rt, "data");
  if (count == 4) {
    check_print(c, "printed", 0, line);
    check_mesh(c, "mesh_1d", mesh_1d, "data=4");
    printf("Created 1D mesh: %s\n", tsr_mesh_text(mesh_1d));
  }
  tsr_mesh *mesh_2d = tsr_mesh_make(rt, "data=2,model=2");
  if (count >= 4) check_mesh(c, "mesh_2d", mesh_2d, "data=2,model=2");
  else if (!strstr(tsr_mesh_message(mesh_2d), "needs 4 devices; the runtime has 2"))
    check_fail(c, "2 x 2 of %d devices: %s", count, tsr_mesh_message(mesh_2d));
  if (count >= 4) printf("Created 2D mesh: %s\n", tsr_mesh_text(mesh_2d));
  tsr_runtime_close(rt);
}

int main(void)
{
  check c = check_open("002_02");
  make_meshes(&c, "cpu:4");
  make_meshes(&c, "cpu:8");
  make_meshes(&c, "cpu:2");
  return check_close(&c);
}
