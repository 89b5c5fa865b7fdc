/* The tests' own guard: what devices hold is seen through their table and what is mapped, and by
 * nobody else. Guards the devices. */
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel/device/cpu.h"
#include "support/guarded_devices.h"
#include "support/parts_fixture.h"

static tsr_runtime *open_guarded(parts_fixture *f)
{
  setenv("TEST_GUARD", "1", 1);
  parts_open(f, 2, NULL);
  return f->rt;
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
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    signal(SIGSEGV, SIG_DFL);
    _exit(*(volatile char *)tsr__cpu_data(a));
  }
  int how;
  CHECK(child > 0 && waitpid(child, &how, 0) == child);
  CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV);
  tsr__buffer_release(a);
  parts_close(&f);
}
