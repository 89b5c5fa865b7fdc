/* Quick reference, block 4: the first two batches, each half on one of two devices. They come
 * placed: nothing is put. */
#include "check.h"
#include "inputs.h"

int main(void)
{
  check c = check_open("004_04");
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_default(rt, "data");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_pipeline *pipeline = tsr_pipeline_open(input_images(s, 1024, TSR_SHAPE(32, 32, 3)),
                                             .batch_size = 128, .on = tsr_on(mesh, "data"));
  double images[4], labels[4];
  for (int i = 0; i < 2; i++) {
    tsr_batch *b = tsr_pipeline_next(pipeline);
    tsr_array *image = tsr_batch_field(b, "image"), *label = tsr_batch_field(b, "label");
    check_array(&c, i ? "image_last" : "image0", image);
    check_array(&c, i ? "label_last" : "label0", label);
    check_add_parts(&c, image, 2, images + 2 * i);
    check_add_parts(&c, label, 2, labels + 2 * i);
    tsr_sharding on = tsr_sharding_of(image);
    char spec[64];
    tsr_sharding_text(&on, 4, spec, sizeof spec);
    printf("Batch %d:\n  Image sharding: %s on %s\n", i, spec, tsr_mesh_text(on.mesh));
    if (strcmp(spec, "(data,-,-,-)") != 0) check_fail(&c, "the spec is %s", spec);
    tsr_batch_release(b);
  }
  check_numbers(&c, "image_device_sums", images, 4);
  check_numbers(&c, "label_device_sums", labels, 4);
  if (tsr_pipeline_close(pipeline)) check_fail(&c, "%s", tsr_message(s));
  tsr_runtime_close(rt);
  return check_close(&c);
}
