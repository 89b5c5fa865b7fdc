/* Arrays, block 1: a process joins the others. Started by `tessera run -n 2` it has a coordinator
 * and a number; alone it looks what happens where another process never comes. */
#include "check.h"
#include "several.h"

/* A second call joins nobody: the runtime that is there stays as it is. */
static void call_twice(check *c, tsr_runtime *rt, tsr_scope *s)
{
  tsr_runtime *second = tsr_initialize("cpu:4", .process_count = 2, .start_timeout = 5,
                                       .process_index = tsr_process_index(rt));
  if (!tsr_runtime_status(second)) check_fail(c, "a second call was not refused");
  else if (!strstr(tsr_runtime_message(second), "tsr_initialize: "))
    check_fail(c, "the second call says %s", tsr_runtime_message(second));
  tsr_runtime_close(second);
  several_each(c, "process_index", s, tsr_process_index(rt));
}

/* Who is missing is named, and the wait ends. */
static void miss_another(check *c)
{
  tsr_runtime *rt = tsr_initialize("cpu:4", .coordinator = "127.0.0.1:0", .process_count = 2,
                                   .process_index = 0, .start_timeout = 0.2);
  const char *message = tsr_runtime_message(rt);
  if (tsr_runtime_status(rt) != TSR_EPEER || !strstr(message, "process 1"))
    check_fail(c, "nobody came: %s", message);
  tsr_runtime_close(rt);
}

int main(void)
{
  check c = check_open("001_01");
  tsr_runtime *rt = tsr_initialize("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  if (tsr_runtime_status(rt)) check_fail(&c, "%s", tsr_runtime_message(rt));
  if (tsr_process_count(rt) == 2) {
    several_each(&c, "process_index", s, tsr_process_index(rt));
    several_each(&c, "process_count", s, tsr_process_count(rt));
    several_each(&c, "device_count", s, tsr_device_count(rt));
    several_each(&c, "local_device_count", s, tsr_local_device_count(rt));
    call_twice(&c, rt, s);
  } else {
    miss_another(&c);
  }
  tsr_runtime_close(rt);
  return check_close(&c);
}
