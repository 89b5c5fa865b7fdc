/* Quick reference, block 3: a mesh along one axis, and the shardings of a batch of images and of
 * its labels: the batch is split, all other dims are whole. */
#include "check.h"

int main(void)
{
  check c = check_open("004_03");
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_default(rt, "data");
  check_mesh(&c, "mesh", mesh, "data=2");

  tsr_sharding data_sharding = tsr_on(mesh, "data,-,-,-"), label_sharding = tsr_on(mesh, "data");
  check_bounds(&c, "image_bounds", data_sharding, TSR_SHAPE(128, 32, 32, 3));
  check_bounds(&c, "label_bounds", label_sharding, TSR_SHAPE(128));

  char line[64];
  snprintf(line, sizeof line, "Mesh: %d devices along 'data' axis",
           (int)tsr_mesh_axis_size(mesh, "data"));
  check_print(&c, "printed", 0, line);
  tsr_runtime_close(rt);
  return check_close(&c);
}
