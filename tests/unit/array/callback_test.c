/* Arrays made of what a callback fills, and arrays given up for what is made of them.
 * Guards the devices. */
#include "harness.h"

#include <string.h>

#include "tessera.h"

/* ---- callbacks ---- */

/* What a callback was asked. */
typedef struct asked {
  int calls, fails_at; /* the call that fails; 0: none */
  tsr_box boxes[16];
  int64_t columns; /* of the whole */
} asked;

/* Elements are their index in the whole array. */
static tsr_status fill(const tsr_box *box, void *out, void *user)
{
  asked *a = user;
  int32_t *to = out;
  a->boxes[a->calls++] = *box;
  if (a->calls == a->fails_at) return TSR_EIO;
  for (int64_t r = 0; r < box->size[0]; r++)
    for (int64_t c = 0; c < box->size[1]; c++)
      *to++ = (int32_t)((box->start[0] + r) * a->columns + box->start[1] + c);
  return TSR_OK;
}

TEST(a_callback_is_asked_once_a_device)
{
  static const struct {
    const char *spec;
    int calls;
  } rows[] = { { "x,y", 8 }, { "x", 8 }, { "y+x", 8 }, { "-,y", 8 }, { "", 1 }, { "-,-", 1 } };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    asked a = { .columns = 3 };
    int32_t out[10 * 3];
    tsr_sharding on = tsr_on(mesh, rows[i].spec);
    tsr_array *made = tsr_from_callback(s, fill, .user = &a, .dtype = TSR_I32,
                                        .shape = TSR_SHAPE(10, 3), .on = on);
    CHECK_STATUS(tsr_read(made, out, sizeof out), TSR_OK, s);
    for (int k = 0; k < 30; k++) CHECK_I64(out[k], k);
    CHECK_I64(a.calls, rows[i].calls);
    for (int p = 0; p < a.calls; p++) {
      tsr_box box;
      CHECK_STATUS(tsr_shard_box(&on, TSR_SHAPE(10, 3), p, &box), TSR_OK, NULL);
      CHECK_BYTES(&a.boxes[p], &box, sizeof box);
    }
    for (int p = 0; p < 8; p++) {
      tsr_shard shard;
      CHECK_STATUS(tsr_shard_view(made, p, &shard), TSR_OK, s);
      if (shard.box.size[0] && shard.box.size[1])
        CHECK_I64(*(const int32_t *)shard.data, shard.box.start[0] * 3 + shard.box.start[1]);
    }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(callbacks_that_fail_leave_nothing)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  const struct {
    tsr_callback_args args;
    tsr_status status;
    const char *text;
  } rows[] = {
    { { .fill = fill, .dtype = TSR_I32, .shape = { 2, { 8, 3 } }, .on = tsr_on(mesh, "x") },
      TSR_EIO,
      "tsr_from_callback: the callback failed for the shard of device 2 (input or output failed)" },
    { { .dtype = TSR_I32, .shape = { 2, { 8, 3 } }, .on = tsr_on(mesh, "x") },
      TSR_EARG,
      "tsr_from_callback: the callback is NULL" },
    { { .fill = fill, .dtype = (tsr_dtype)99, .shape = { 1, { 8 } } }, TSR_EDTYPE, "" },
    { { .fill = fill, .dtype = TSR_I32, .shape = { 1, { -8 } } }, TSR_ESHAPE, "" },
    { { .fill = fill, .dtype = TSR_I32, .shape = { 1, { 8 } }, .on = tsr_on(mesh, "q") },
      TSR_EAXIS,
      "no axis 'q'" },
    { { .fill = fill, .dtype = TSR_I32, .shape = { 1, { 8 } }, .on = tsr_on(mesh, "?") },
      TSR_EAXIS,
      "leaves dim 0 to the planner" },
    { { .fill = fill,
        .dtype = TSR_I32,
        .shape = { 1, { 8 } },
        .on = tsr_on(tsr_mesh_abstract(rt, "x=4"), "x") },
      TSR_EAXIS,
      "mesh x=4 is abstract" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    asked a = { .fails_at = 3, .columns = 3 };
    tsr_callback_args args = rows[i].args;
    args.user = &a;
    CHECK(tsr_is_inert(tsr_from_callback_at(s, &args, TSR_HERE)));
    CHECK_STATUS(tsr_scope_status(s), rows[i].status, s);
    CHECK_STR_HAS(tsr_message(s), rows[i].text);
    CHECK_I64(a.calls, i == 0 ? 3 : 0);
    CHECK_I64(tsr_device_memory(rt, 0).now, 0);
    tsr_scope_close(s);
  }
  tsr_scope *s = tsr_scope_open(rt);
  CHECK(tsr_is_inert(tsr_from_callback_at(s, NULL, TSR_HERE)));
  tsr_runtime_close(rt);
}

/* ---- given up ---- */

/* What is deleted is gone for later uses, while what was made of it before has it; its memory goes
 * with the run that reads it last. */
TEST(a_donated_array_is_gone)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, "x=4"), "x");
  tsr_array *x = tsr_iota(s, TSR_F32, TSR_SHAPE(4096), 0, on);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  int64_t one = tsr_device_memory(rt, 0).now;
  CHECK(one >= 4096);
  tsr_array *y = tsr_mul(x, 2);
  tsr_delete(x);
  CHECK_I64(tsr_device_memory(rt, 0).now, one);
  double sum;
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, s);
  CHECK_I64(tsr_device_memory(rt, 0).now, one);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(y), &sum), TSR_OK, s);
  CHECK_F64_BITS(sum, 4095.0 * 4096);
  CHECK_STATUS(tsr_wait(x), TSR_ESTATE, s);
  CHECK_STR_HAS(tsr_message(s), "was deleted by tsr_delete");
  tsr_runtime_close(rt);
}

/* JAX's reshard between orders of the same devices: the values stay, and so does the source. */
TEST(devices_can_change_their_order)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  int32_t out[64], again[64];
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr_mesh *back = tsr_mesh_make_with(rt, &(tsr_mesh_opts){ .size = sizeof(tsr_mesh_opts),
                                                            .axis_count = 2,
                                                            .names = { "x", "y" },
                                                            .sizes = { 2, 2 },
                                                            .devices = (int[]){ 3, 2, 1, 0 } });
  asked a = { .columns = 8 };
  tsr_array *x = tsr_from_callback(s, fill, .user = &a, .dtype = TSR_I32, .shape = TSR_SHAPE(8, 8),
                                   .on = tsr_on(mesh, "x,y"));
  tsr_array *y = tsr_reshard(x, tsr_on(back, "x,y"));
  CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, s);
  CHECK_STATUS(tsr_read(x, again, sizeof again), TSR_OK, s);
  CHECK_BYTES(out, again, sizeof out);
  tsr_shard shard;
  CHECK_STATUS(tsr_shard_view(y, 0, &shard), TSR_OK, s);
  CHECK_I64(shard.device, 3);
  CHECK_I64(*(const int32_t *)shard.data, 0);
  tsr_runtime_close(rt);
}
