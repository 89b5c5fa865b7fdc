/* Sharding guide, block 6: one program for one device and for many; sums of batches are the same on
 * all. */
#include "check.h"
#include "inputs.h"

enum { BATCHES = 8 };

/* The sums of all batches, and the devices of the mesh: 0 where there is none. */
static int64_t sums_on(check *c, const char *devices, double *images, int64_t *labels)
{
  tsr_runtime *rt = tsr_runtime_open(devices);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *all = tsr_mesh_default(rt, "data");
  tsr_mesh *mesh = tsr_mesh_device_count(all) >= 2 ? all : NULL;
  tsr_source *source = input_images(s, 1024, TSR_SHAPE(32, 32, 3));
  tsr_pipeline *p =
      tsr_pipeline_open(source, .batch_size = 128, .on = tsr_on(mesh, mesh ? "data" : ""));
  int n = 0;
  for (tsr_batch *b; n < BATCHES && (b = tsr_pipeline_next(p)); n++, tsr_batch_release(b)) {
    tsr_array *image = tsr_cast(tsr_batch_field(b, "image"), TSR_F64);
    if (tsr_read_scalar(tsr_sum(image), &images[n]) ||
        tsr_read_i64(tsr_sum(tsr_batch_field(b, "label")), &labels[n]))
      check_fail(c, "%s", tsr_message(tsr_batch_scope(b)));
  }
  if (n != BATCHES || tsr_pipeline_close(p)) check_fail(c, "%d batches: %s", n, tsr_message(s));
  int64_t count = mesh ? tsr_mesh_axis_size(mesh, "data") : 0;
  tsr_runtime_close(rt);
  return count;
}

int main(void)
{
  static const char *const devices[] = { "cpu:1", "cpu:2", "cpu:4", "cpu:8" };
  check c = check_open("002_06");
  int64_t sizes[4], sharded[4], labels[BATCHES];
  double images[BATCHES];
  for (int i = 0; i < 4; i++) {
    sizes[i] = sums_on(&c, devices[i], images, labels);
    sharded[i] = sizes[i] > 0;
    check_numbers(&c, "image_batch_sums", images, BATCHES);
    check_ints(&c, "label_batch_sums", labels, BATCHES);
  }
  check_ints(&c, "use_sharding", sharded, 4);
  check_ints(&c, "mesh_size", sizes, 4);
  return check_close(&c);
}
