/* The tests' own guard: the memory of devices is seen through their table and where it is mapped,
 * staging buffers until they are given or dropped, and nothing else. Guards the devices. */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/device/cpu.h"
#include "kernel/device/staging.h"
#include "support/guarded_devices.h"
#include "support/parts_fixture.h"
#include "tessera.h"

static tsr_runtime *open_guarded(parts_fixture *f)
{
  setenv("TEST_GUARD", "1", 1);
  parts_open(f, 2, NULL);
  return f->rt;
}

/* The signal that ends a child of this process in which `fn` runs; 0: none. */
static int signal_of(void (*fn)(void *), void *user)
{
  int how;
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    fn(user);
    _exit(0);
  }
  CHECK(child > 0 && waitpid(child, &how, 0) == child);
  return WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}

static void look(void *user)
{
  *(volatile char *)user;
}

static void scribble(void *user)
{
  *(volatile char *)user = 1;
}

static void release(void *user)
{
  tsr__buffer_release(user);
}

TEST(memory_is_hidden_but_where_it_is_mapped)
{
  parts_fixture f;
  tsr_runtime *rt = open_guarded(&f);
  const tsr__device_ops *ops = tsr__devices_of(rt)->ops;
  tsr__error error = { 0 };
  tsr__buffer *a = ops->take(rt, 0, 800, &error), *b = ops->take(rt, 1, 800, &error);
  CHECK(a && b);
  CHECK(guard_hides(tsr__cpu_data(a)) && guard_hides(tsr__cpu_data(b)));
  ops->number(a, 7, 100);
  const int64_t *seen = ops->map(a);
  CHECK(!guard_hides(tsr__cpu_data(a)) && guard_hides(tsr__cpu_data(b)));
  CHECK_I64(seen[99], 106);
  ops->fill(b, 0xFF);
  CHECK_I64(seen[0], 7);
  CHECK_I64(signal_of(look, tsr__cpu_data(a)), 0);
  CHECK_I64(signal_of(scribble, tsr__cpu_data(a)), SIGSEGV);
  ops->number(a, 9, 100); /* entries may write there, and nobody else afterwards */
  CHECK_I64(seen[99], 108);
  CHECK_I64(signal_of(scribble, tsr__cpu_data(a)), SIGSEGV);
  ops->unmap(a);
  CHECK(guard_hides(tsr__cpu_data(a)));
  tsr__buffer_release(a);
  tsr__buffer_release(b);
  parts_close(&f);
}

TEST(a_stray_look_dies)
{
  parts_fixture f;
  tsr_runtime *rt = open_guarded(&f);
  tsr__error error = { 0 };
  tsr__buffer *a = tsr__devices_of(rt)->ops->take(rt, 0, 8, &error);
  tsr__devices_of(rt)->ops->fill(a, 1);
  CHECK_I64(signal_of(look, tsr__cpu_data(a)), SIGSEGV);
  tsr__buffer_release(a);
  parts_close(&f);
}

/* ---- staging buffers ------------------------------------------------------------------------- */

static void check_elements(tsr__buffer *buffer, int64_t first, bool same)
{
  const int64_t *seen = buffer->ops->map(buffer);
  for (int i = 0; i < 100; i++) CHECK((seen[i] == first + i) == same);
  buffer->ops->unmap(buffer);
}

/* The buffer has the staging buffer's elements once it is given, and neither the old ones nor the
 * new ones before. */
TEST(a_staging_buffer_is_given_once)
{
  parts_fixture f;
  tsr_runtime *rt = open_guarded(&f);
  tsr__error error = { 0 };
  tsr__staging staging;
  tsr__buffer *a = tsr__devices_of(rt)->ops->take(rt, 0, 800, &error);
  a->ops->number(a, 7, 100);
  CHECK_I64(tsr__staging_open(a, &staging, &error), TSR_OK);
  int64_t *memory = staging.memory;
  CHECK(!guard_hides(memory) && guard_hides(tsr__cpu_data(a)));
  CHECK_I64(signal_of(look, memory) + signal_of(scribble, memory), 0);
  for (int i = 0; i < 100; i++) memory[i] = 50 + i;
  check_elements(a, 7, false);
  check_elements(a, 50, false);
  tsr__staging_give(&staging);
  check_elements(a, 50, true);
  CHECK(guard_hides(memory));
  CHECK_I64(signal_of(look, memory), SIGSEGV);
  CHECK_I64(signal_of(scribble, memory), SIGSEGV);
  /* The buffer's elements are where they were given, and in no memory that is used again. */
  CHECK_I64(tsr__staging_reopen(a, &staging, &error), TSR_OK);
  CHECK(staging.memory != memory);
  memory = staging.memory;
  for (int i = 0; i < 100; i++) CHECK_I64(memory[i], 50 + i);
  tsr__staging_drop(&staging);
  check_elements(a, 50, true);
  CHECK_I64(signal_of(scribble, memory), SIGSEGV);
  tsr__buffer_release(a);
  parts_close(&f);
}

TEST(a_buffer_outlives_its_staging_buffer)
{
  parts_fixture f;
  tsr_runtime *rt = open_guarded(&f);
  tsr__error error = { 0 };
  tsr__staging staging;
  tsr__buffer *a = tsr__devices_of(rt)->ops->take(rt, 0, 800, &error);
  CHECK_I64(tsr__staging_open(a, &staging, &error), TSR_OK);
  CHECK_I64(signal_of(release, a), SIGABRT);
  tsr__staging_drop(&staging);
  CHECK_I64(signal_of(release, a), 0);
  tsr__buffer_release(a);
  parts_close(&f);
}

/* ---- no memory for staging buffers ----------------------------------------------------------- */

static tsr_status look_at_frame(tsr_scope *s, tsr_frame *df)
{
  (void)tsr_frame_text(df);
  return tsr_scope_status(s);
}

static tsr_status read_frame(tsr_scope *s, tsr_sharding on)
{
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("a.csv"), .on = on);
  return look_at_frame(s, tsr_frame_filter(df, "n > 2"));
}

static tsr_status read_batches(tsr_scope *s, tsr_sharding on)
{
  tsr_source *source = tsr_source_range(s, 40);
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 8, .on = on);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) continue;
  tsr_status status = tsr_pipeline_close(p);
  return status ? status : tsr_scope_status(s);
}

static tsr_status restore_frame(tsr_scope *s, tsr_sharding on)
{
  tsr_saved_step *step = tsr_checkpoint_open(s, test_tmp("ckpt"));
  return look_at_frame(s, tsr_checkpoint_frame(step, "frame", on));
}

static tsr_status restore_array(tsr_scope *s, tsr_sharding on)
{
  tsr_saved_step *step = tsr_checkpoint_open(s, test_tmp("ckpt"));
  (void)tsr_checkpoint_restore(step, tsr_abstract(s, TSR_I64, TSR_SHAPE(100), on));
  return tsr_scope_status(s);
}

/* Each staging buffer of a call fails in turn: an error, and afterwards all is as before. */
TEST(staging_buffers_that_fail_are_errors)
{
  static tsr_status (*const calls[])(tsr_scope *, tsr_sharding) = { read_frame, read_batches,
                                                                    restore_frame, restore_array };
  static const char csv[] = "n,text\n1,a\n2,b\n3,\n4,c\n5,a\n";
  setenv("TEST_GUARD", "1", 1);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, "x=2"), "x");
  tsr_scope *s = tsr_scope_open(rt);
  test_write(test_tmp("a.csv"), csv, sizeof csv - 1);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("a.csv"), .on = on);
  CHECK_STATUS(tsr_checkpoint_save(s, test_tmp("ckpt"), tsr_iota(s, TSR_I64, TSR_SHAPE(100), 0, on),
                                   .frames = { { "frame", df } }),
               TSR_OK, s);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    int failed = 0;
    for (tsr_status status = TSR_ENOMEM; status; failed += status != TSR_OK) {
      tsr_scope *inner = tsr_scope_open(rt);
      guard_fail_staging(failed + 1);
      status = calls[i](inner, on);
      guard_fail_staging(0);
      if (status) CHECK_STATUS(status, TSR_ENOMEM, inner);
      tsr_scope_close(inner);
    }
    CHECK(failed >= 2); /* a part each, at the least */
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
