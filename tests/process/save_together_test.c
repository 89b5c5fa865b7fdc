/* Steps saved by several processes and restored by another number of them: each writes what it
 * holds, all know how it went, and whoever reads finds one array. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/process_fixture.h"

/* f32[8,16] = 0, 1, 2 ...: made where it lies. */
static tsr_array *counted(tsr_scope *s, tsr_sharding on)
{
  tsr_array *flat = tsr_iota(s, TSR_F32, TSR_SHAPE(128), 0, tsr_on(on.mesh, ""));
  return tsr_constrain(tsr_reshape(flat, TSR_SHAPE(8, 16)), on);
}

static void check_counted(tsr_scope *s, tsr_array *a)
{
  float found[128];
  CHECK_STATUS(tsr_read(a, found, sizeof found), TSR_OK, s);
  for (int i = 0; i < 128; i++) CHECK_F32_BITS(found[i], (float)i);
}

static tsr_status save(tsr_runtime *rt, tsr_scope *s, const char *path, int64_t step)
{
  char mesh_text[32];
  int devices = tsr_device_count(rt);
  snprintf(mesh_text, sizeof mesh_text, "x=%d,y=%d", devices > 1 ? 2 : 1,
           devices > 1 ? devices / 2 : 1);
  tsr_mesh *mesh = tsr_mesh_make(rt, mesh_text);
  tsr_array *tree = tsr_tree(s, { "w", counted(s, tsr_on(mesh, "x,y")) },
                             { "all", counted(s, tsr_on(mesh, "")) }, { "own", tsr_num(s, 3) });
  char name[32];
  int me = tsr_process_index(rt);
  snprintf(name, sizeof name, "state/%d", me);
  return tsr_checkpoint_save(s, path, tree, .step = step,
                             .blobs = { { name, name, strlen(name) }, { "same", &me, sizeof me } });
}

static void restore(tsr_runtime *rt, tsr_scope *s, const char *path, int writers)
{
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  CHECK_STR(tsr_message(s), "");
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *on = tsr_abstract(s, TSR_F32, TSR_SHAPE(8, 16), tsr_on(mesh, "x"));
  tsr_array *back = tsr_checkpoint_restore(c, tsr_tree(s, { "w", on }, { "all", on }));
  check_counted(s, tsr_field(back, "w"));
  check_counted(s, tsr_field(back, "all"));
  double own = 0;
  CHECK_STATUS(tsr_read_scalar(tsr_checkpoint_restore(c, NULL, .path = "own"), &own), TSR_OK, s);
  CHECK_F64_BITS(own, 3);
  for (int p = 0; p < writers; p++) {
    char name[32];
    tsr_value value = { NULL, 0 };
    snprintf(name, sizeof name, "state/%d", p);
    CHECK_STATUS(tsr_checkpoint_blob(c, name, &value), TSR_OK, s);
    CHECK_STR(value.data, name);
    CHECK_STATUS(tsr_checkpoint_blob(c, "same", &value), TSR_OK, s);
    CHECK_I64(*(const int *)value.data, 0);
  }
}

static void there_and_back(const char *socket, int devices)
{
  char spec[16];
  snprintf(spec, sizeof spec, "cpu:%d", devices);
  tsr_runtime *rt = tsr_initialize(spec, .coordinator = fixture_socket(socket),
                                   .process_count = test_process_count(),
                                   .process_index = test_process(), .start_timeout = 30);
  CHECK_STR(tsr_runtime_message(rt), "");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("ckpt");
  CHECK_STATUS(save(rt, s, path, 7), TSR_OK, s);
  restore(rt, s, path, test_process_count());
  /* The step is there: on all the same error, from process 0. */
  CHECK_STATUS(save(rt, s, path, 7), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "step_7 is there already");
  tsr_scope_clear(s);
  CHECK_STATUS(save(rt, s, path, 8), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_PROCESSES(two_of_two_devices, 2)
{
  there_and_back("two", 2);
}

TEST_PROCESSES(four_of_one_device, 4)
{
  there_and_back("four", 1);
}

/* What four wrote one reads, and the other way round. */
static int save_as_one_of(tsr_runtime *rt, tsr_scope *s, int index)
{
  (void)index;
  return save(rt, s, test_tmp("ckpt"), 1) ? 1 : 0;
}

static int restore_as_one_of(tsr_runtime *rt, tsr_scope *s, int index)
{
  (void)index;
  restore(rt, s, test_tmp("ckpt"), 1);
  return 0;
}

static void run_all(const char *name, int count, fixture_work work)
{
  pid_t process[4];
  for (int i = 0; i < count; i++) process[i] = fixture_start(name, i, count, work);
  for (int i = 0; i < count; i++) CHECK_I64(fixture_end(process[i]), 0);
}

TEST(another_number_reads)
{
  run_all("four", 4, save_as_one_of);
  for (int count = 1; count <= 4; count++) {
    char name[16];
    snprintf(name, sizeof name, "read%d", count);
    run_all(name, count, restore_as_one_of);
  }
}

/* ---- when one fails -------------------------------------------------------------------------- */

/* Process 1 cannot write: all hear why, nothing stays, and the step before is the newest. */
TEST_PROCESSES(who_cannot_write_tells_all, 3)
{
  tsr_runtime *rt = fixture_join("fails");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("ckpt");
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *x = tsr_iota(s, TSR_F32, TSR_SHAPE(300), 0, tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_checkpoint_save(s, path, x, .step = 1), TSR_OK, s);
  /* Of another tree than the others'. */
  tsr_array *other = test_process() == 1 ? tsr_tuple(s, x) : x;
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  CHECK_STATUS(tsr_checkpoint_save(s, path, other, .step = 2), TSR_EPEER, NULL);
  CHECK_STR_HAS(tsr_message(s), "process 1 saves step 2 of another tree than process 0 does");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_sync(s, "undone"), TSR_OK, s);
  CHECK_I64(tsr_checkpoint_step(tsr_checkpoint_open(s, path)), 1);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
