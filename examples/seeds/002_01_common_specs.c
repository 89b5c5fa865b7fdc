/* Loading, block 1: the common specs of a batch of images (batch, height, width, channels): split
 * by images, whole on every device, and split by channels, where sizes need not divide. */
#include "check.h"
#include "inputs.h"

enum { IMAGES = 8, SIDE = 4, CHANNELS = 4, ELEMENTS = IMAGES * SIDE * SIDE * CHANNELS };

static void common_specs(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=2");
  tsr_shape shape = TSR_SHAPE(IMAGES, SIDE, SIDE, CHANNELS);
  float images[ELEMENTS];
  for (int i = 0; i < ELEMENTS; i++) images[i] = (float)input_r(i) / 1024;

  tsr_sharding batch_sharded = tsr_on(mesh, "data,-,-,-");
  tsr_sharding replicated = tsr_on(mesh, "-,-,-,-");
  tsr_sharding model_sharded = tsr_on(mesh, "-,-,-,model");
  check_shard_sums(c, "(data,-,-,-)", tsr_put(s, images, TSR_F32, shape, batch_sharded));
  check_shard_sums(c, "(-,-,-,-)", tsr_put(s, images, TSR_F32, shape, replicated));
  check_shard_sums(c, "(-,-,-,model)", tsr_put(s, images, TSR_F32, shape, model_sharded));
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
  tsr_scope_close(s);
}

/* 3 channels over 2 devices are 2 and 1; who wants even parts alone says so and gets an error. */
static void three_channels(check *c, tsr_runtime *rt)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=2");
  tsr_shape shape = TSR_SHAPE(IMAGES, SIDE, SIDE, 3);
  tsr_array *a = tsr_full(s, 1, TSR_F32, shape, tsr_on(mesh, "-,-,-,model"));
  for (int p = 0; p < 4; p++) {
    tsr_shard shard;
    if (tsr_shard_view(a, p, &shard) || shard.box.size[3] != 2 - p % 2)
      check_fail(c, "device %d does not hold %d of 3 channels", p, 2 - p % 2);
  }
  tsr_full(s, 1, TSR_F32, shape, tsr_on(mesh, "-,-,-,model", .strict = true));
  if (tsr_scope_status(s) != TSR_ESHAPE || !strstr(tsr_message(s), "axis model = 2"))
    check_fail(c, "uneven parts are not refused where they should be: %s", tsr_message(s));
  c->outputs += 2;
  tsr_scope_close(s);
}

int main(void)
{
  check c = check_open("002_01");
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  common_specs(&c, rt);
  three_channels(&c, rt);
  tsr_runtime_close(rt);
  return check_close(&c);
}
