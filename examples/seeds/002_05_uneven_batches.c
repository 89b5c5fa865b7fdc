/* Sharding guide, block 5: ten records on four or eight devices. Every field is padded, labels too,
 * and a mask tells rows that are records; or nothing is padded, and devices hold 3, 3, 2 and 2. */
#include "check.h"
#include "inputs.h"

static void padded(check *c, const char *devices, const char *axes, int64_t rows)
{
  static const char *const fields[] = { "image", "label", "mask" };
  tsr_runtime *rt = tsr_runtime_open(devices);
  tsr_mesh *mesh = tsr_mesh_make(rt, axes);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_pipeline *p = tsr_pipeline_open(input_images(s, 10, TSR_SHAPE(4, 4, 3)), .batch_size = rows,
                                      .remainder = TSR_PAD_AND_MASK, .on = tsr_on(mesh, "data"));
  tsr_batch *b = tsr_pipeline_next(p);
  for (int i = 0; i < 3; i++) {
    char name[32];
    tsr_array *a = i == 2 ? tsr_batch_mask(b) : tsr_batch_field(b, fields[i]);
    snprintf(name, sizeof name, "data%d.%s", tsr_mesh_device_count(mesh), fields[i]);
    check_array(c, name, a);
  }
  if (tsr_batch_count(b) != 10) check_fail(c, "%lld records", (long long)tsr_batch_count(b));
  tsr_batch_release(b);
  if (tsr_pipeline_close(p)) check_fail(c, "%s", tsr_message(s));
  tsr_runtime_close(rt);
}

int main(void)
{
  check c = check_open("002_05");
  padded(&c, "cpu:4", "data=4", 12);
  padded(&c, "cpu:8", "data=8", 16);

  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_pipeline *p = tsr_pipeline_open(input_images(s, 10, TSR_SHAPE(4, 4, 3)), .batch_size = 12,
                                      .on = tsr_on(mesh, "data"));
  tsr_batch *b = tsr_pipeline_next(p); /* what is left over is a shorter batch */
  tsr_array *image = tsr_batch_field(b, "image");
  int64_t bounds[8];
  for (int i = 0; i < 4; i++) {
    tsr_shard shard;
    if (tsr_eval(&image, 1) || tsr_shard_view(image, i, &shard)) check_fail(&c, "no part %d", i);
    bounds[2 * i] = shard.box.start[0];
    bounds[2 * i + 1] = shard.box.start[0] + shard.box.size[0];
  }
  check_ints(&c, "true_size.rows_on_data4", bounds, 8);
  tsr_batch_release(b);
  if (tsr_pipeline_close(p)) check_fail(&c, "%s", tsr_message(s));
  tsr_runtime_close(rt);
  return check_close(&c);
}
