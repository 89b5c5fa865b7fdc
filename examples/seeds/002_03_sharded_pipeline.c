/* Sharding guide, block 3: a pipeline whose batch size is a number a device times the devices; each
 * device gets its 64 images and labels of a batch, with no batch in one piece anywhere. */
#include "check.h"
#include "inputs.h"

enum { DEVICES = 4, A_DEVICE = 64 };

/* The guide's drawing: a pipeline with batches of 256 over 2 x 2 devices. Each half of a batch lies
 * on both devices of its row. */
static void draw_architecture(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=2");
  tsr_pipeline *p = tsr_pipeline_open(input_images(s, 256, TSR_SHAPE(4, 4, 3)), .batch_size = 256,
                                      .on = tsr_on(mesh, "data"));
  tsr_batch *b = tsr_pipeline_next(p);
  tsr_array *label = tsr_batch_field(b, "label");
  printf("%s", tsr_visualize_sharding(s, tsr_sharding_of(label), tsr_shape_of(label)));
  for (int d = 0; d < DEVICES; d++) {
    tsr_shard image;
    if (tsr_eval(&(tsr_array *){ tsr_batch_field(b, "image") }, 1) ||
        tsr_shard_view(tsr_batch_field(b, "image"), d, &image) || image.box.size[0] != 128 ||
        image.box.start[0] != d / 2 * 128)
      check_fail(c, "device %d has other rows than %d to %d", d, d / 2 * 128, d / 2 * 128 + 127);
  }
  tsr_batch_release(b);
  if (tsr_pipeline_close(p)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("002_03");
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  tsr_scope *s = tsr_scope_open(rt);
  char line[128];
  int64_t total = A_DEVICE * tsr_mesh_axis_size(mesh, "data");
  tsr_pipeline *pipeline = tsr_pipeline_open(input_images(s, 1024, TSR_SHAPE(32, 32, 3)),
                                             .batch_size = total, .on = tsr_on(mesh, "data"));
  double images[16], labels[16];
  int n = 0;
  for (tsr_batch *b; n < 4 && (b = tsr_pipeline_next(pipeline)); n++, tsr_batch_release(b)) {
    tsr_array *image = tsr_batch_field(b, "image"), *label = tsr_batch_field(b, "label");
    check_add_parts(&c, image, DEVICES, images + n * DEVICES);
    check_add_parts(&c, label, DEVICES, labels + n * DEVICES);
    if (n == 0) check_array(&c, "image0", image), check_array(&c, "label0", label);
    if (n == 3) check_array(&c, "image_last", image), check_array(&c, "label_last", label);
  }
  check_numbers(&c, "image_device_sums", images, n * DEVICES);
  check_numbers(&c, "label_device_sums", labels, n * DEVICES);

  snprintf(line, sizeof line, "Total batch size: %lld", (long long)total);
  check_print(&c, "printed", 0, line);
  snprintf(line, sizeof line, "Per-device batch size: %lld",
           (long long)(total / tsr_mesh_device_count(mesh)));
  check_print(&c, "printed", 1, line);
  tsr_sharding image_on = tsr_on(mesh, "data,-,-,-");
  char spec[64];
  tsr_sharding_text(&image_on, 4, spec, sizeof spec);
  printf("Image sharding: %s\n", spec); /* JAX: P('data', None, None, None) */
  if (strcmp(spec, "(data,-,-,-)") != 0) check_fail(&c, "the spec is %s", spec);
  if (tsr_pipeline_close(pipeline)) check_fail(&c, "%s", tsr_message(s));
  draw_architecture(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
