/* Processes that are started in different ways: an error in each of them, which names the option
 * and both sides. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "support/process_fixture.h"
#include "tessera.h"

typedef struct starting {
  const char *devices;
  tsr_process_opts opts;
  tsr_runtime_opts runtime;
  const char *said; /* of process 1; process 0 has all defaults but stall_timeout */
} starting;

static const starting table[] = {
  { "cpu:2",
    { 0 },
    { 0 },
    "process 1 was started with devices 2 of each process, but process 0 with devices 1 of each "
    "process" },
  { "cpu:1", { .on_failure = "error" }, { 0 }, ".on_failure \"error\", but process 0 with" },
  { "cpu:1", { .on_failure = "shrink" }, { 0 }, ".on_failure \"shrink\", but process 0 with" },
  { "cpu:1",
    { .stall_timeout = 5 },
    { 0 },
    ".stall_timeout 5, but process 0 with .stall_timeout 20" },
  { "cpu:1",
    { .wait_timeout = 77 },
    { 0 },
    ".wait_timeout 77, but process 0 with .wait_timeout 1800" },
  { "cpu:1", { 0 }, { .memory_limit = 1 << 20 }, ".memory_limit 1048576, but process 0 with" },
  { "cpu:1", { 0 }, { .plan_cache = 4 }, ".plan_cache 4, but process 0 with .plan_cache 256" },
  { "cpu:1", { 0 }, { .check_floats = "nan" }, ".check_floats \"nan\", but process 0 with" },
};

TEST_PROCESSES(what_differs_is_named, 2)
{
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    bool other = test_process() == 1;
    char address[400];
    snprintf(address, sizeof address, "unix:%s.%zu", test_tmp("alike"), i);
    tsr_runtime_opts runtime = table[i].runtime;
    tsr_process_opts opts = table[i].opts;
    if (!other) opts = (tsr_process_opts){ 0 }, runtime = (tsr_runtime_opts){ 0 };
    runtime.size = sizeof runtime;
    opts.size = sizeof opts;
    opts.coordinator = address;
    opts.process_count = 2;
    opts.process_index = test_process();
    opts.start_timeout = 60;
    opts.close_timeout = 20;
    if (opts.stall_timeout == 0) opts.stall_timeout = 20;
    opts.runtime = &runtime;
    tsr_runtime *rt = tsr_initialize_with(other ? table[i].devices : "cpu:1", &opts);
    CHECK_STATUS(tsr_runtime_status(rt), TSR_EARG, NULL);
    CHECK_STR_HAS(tsr_runtime_message(rt), table[i].said);
    tsr_runtime_close(rt);
  }
}

/* ---- who is missing -------------------------------------------------------------------------- */

static void look(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)level, (void)area;
  if (strstr(line, "1 of 2 processes have joined; missing: process 1; process 0 listens at "))
    *(bool *)user = true;
}

/* Long before the start is given up. */
TEST_PROCESSES(who_is_missing_is_said, 2)
{
  bool said = false;
  const tsr_runtime_opts runtime = { .size = sizeof runtime, .log = look, .log_user = &said };
  if (test_process() == 1) usleep(3500000);
  tsr_runtime *rt = fixture_join("late", .stall_timeout = 2, .runtime = &runtime);
  CHECK(said == (test_process() == 0));
  tsr_runtime_close(rt);
}

/* ---- who is waited for ----------------------------------------------------------------------- */

typedef struct words {
  const char *awaited[3];
  bool said[3];
} words;

static void look_for(tsr_log_level level, const char *area, const char *line, void *user)
{
  words *w = user;
  (void)level, (void)area;
  for (int i = 0; i < 3; i++)
    if (strstr(line, w->awaited[i])) w->said[i] = true;
}

/* Every wait says after .stall_timeout for whom, while the other is alive: of a barrier, a key, and
 * the others' goodbye. */
TEST_PROCESSES(who_is_waited_for_is_said, 2)
{
  words w = { .awaited = { "1 of 2 processes have arrived; missing: process 1",
                           "no process has set key 'late' for 3",
                           "s for the goodbye of process 1" } };
  const tsr_runtime_opts runtime = { .size = sizeof runtime, .log = look_for, .log_user = &w };
  tsr_runtime *rt = fixture_join("waits", .stall_timeout = 3, .runtime = &runtime);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_value value;
  bool first = test_process() == 0;
  if (!first) usleep(4500000);
  CHECK_STATUS(tsr_sync(s, "late", .timeout = 60), TSR_OK, s);
  if (!first) usleep(4500000);
  if (!first) CHECK_STATUS(tsr_store_set(s, "late", "", 0), TSR_OK, s);
  else CHECK_STATUS(tsr_store_get(s, "late", &value, .timeout = 60), TSR_OK, s);
  tsr_scope_close(s);
  if (!first) usleep(4500000);
  tsr_runtime_close(rt);
  for (int i = 0; i < 3; i++)
    if (w.said[i] != first) FAIL("%s", w.awaited[i]);
}

/* A name that stands for several addresses, or for another one than that of loopback, does on one
 * host without a secret. */
TEST_PROCESSES(a_host_by_its_name, 2)
{
  char name[256] = "", address[400];
  CHECK(!gethostname(name, sizeof name - 1));
  snprintf(address, sizeof address, "%s%s", name, strrchr(fixture_port(), ':'));
  tsr_runtime *rt = tsr_initialize("cpu:1", .coordinator = address, .process_count = 2,
                                   .process_index = test_process(), .start_timeout = 60);
  if (strstr(tsr_runtime_message(rt), "Name or service not known")) SKIP("the host has no name");
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  tsr_runtime_close(rt);
}

/* A sum is added once, however long process 0 is stopped: a call that waits does not end before it
 * is known whether it was carried out. */
TEST_PROCESSES(a_sum_is_added_once, 2)
{
  tsr_runtime *rt = fixture_join("stopped", .stall_timeout = 60);
  tsr_scope *s = tsr_scope_open(rt);
  int64_t total = 0, pid = getpid();
  if (test_process() == 0) CHECK_STATUS(tsr_store_set(s, "pid", &pid, sizeof pid), TSR_OK, s);
  CHECK_STATUS(tsr_sync(s, "begin"), TSR_OK, s);
  if (test_process() == 1) {
    tsr_value value;
    CHECK_STATUS(tsr_store_get(s, "pid", &value), TSR_OK, s);
    pid_t zero = (pid_t) * (const int64_t *)value.data;
    CHECK(!kill(zero, SIGSTOP));
    pid_t waker = fork();
    if (!waker) {
      usleep(6500000); /* longer than a call would wait for an answer that comes at once */
      kill(zero, SIGCONT);
      _exit(0);
    }
    CHECK_STATUS(tsr_store_add(s, "done", 1, &total), TSR_OK, s);
    CHECK_I64(total, 1);
    CHECK_I64(fixture_end(waker), 0);
  }
  CHECK_STATUS(tsr_sync(s, "end", .timeout = 60), TSR_OK, s);
  CHECK_STATUS(tsr_store_add(s, "done", 0, &total), TSR_OK, s);
  CHECK_I64(total, 1);
  tsr_runtime_close(rt);
}
