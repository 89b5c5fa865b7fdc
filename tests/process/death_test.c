/* Processes that die, are stopped, fail or do not come: every survivor gets an error that names
 * them, soon, and never a hang. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/process_fixture.h"

enum { COUNT = 4 };

static int victim;

/* What a survivor must be told of the victim. */
static void check_told(tsr_runtime *rt, tsr_scope *s, tsr_status status, const char *how)
{
  char name[64];
  snprintf(name, sizeof name, victim ? "process %d (pid " : "process %d, the coordinator", victim);
  CHECK_STATUS(status, TSR_EPEER, s);
  CHECK_STR_HAS(tsr_message(s), name);
  CHECK_STR_HAS(tsr_message(s), how);
  CHECK(!victim || !tsr_process_alive(rt, victim));
}

static void start_all(const char *name, fixture_work work, pid_t ids[COUNT])
{
  for (int i = 0; i < COUNT; i++) ids[i] = fixture_start(name, i, COUNT, work);
}

static void end_all(pid_t ids[COUNT], int victims_code)
{
  for (int i = 0; i < COUNT; i++) CHECK_I64(fixture_end(ids[i]), i == victim ? victims_code : 0);
}

static int dies_at_a_barrier(tsr_runtime *rt, tsr_scope *s, int index)
{
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == victim) raise(SIGKILL);
  double began = fixture_now();
  tsr_status status = tsr_sync(s, "after", .timeout = 30);
  check_told(rt, s, status, victim ? "its connection closed without a goodbye" : "has closed the");
  CHECK(fixture_now() - began < 5);
  tsr_scope_clear(s);
  return 0;
}

TEST(a_killed_process_is_named_at_a_barrier)
{
  pid_t ids[COUNT];
  for (victim = 0; victim < COUNT; victim++) {
    start_all("killed", dies_at_a_barrier, ids);
    end_all(ids, 128 + SIGKILL);
  }
}

static int dies_before_it_sets_a_key(tsr_runtime *rt, tsr_scope *s, int index)
{
  tsr_value value;
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == victim) _exit(3);
  tsr_status status = tsr_store_get(s, "never", &value, .timeout = 30);
  check_told(rt, s, status, "its connection closed without a goodbye");
  tsr_scope_clear(s);
  /* The cause stays, and what needs nobody works on. */
  status = tsr_sync(s, "again", .timeout = 30);
  check_told(rt, s, status, "its connection closed without a goodbye");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_store_set(s, "mine", "1", 1, .overwrite = true), TSR_OK, s);
  CHECK_STATUS(tsr_store_find(s, "mine", &value), TSR_OK, s);
  CHECK_STR(value.data, "1");
  return 0;
}

TEST(who_exits_without_goodbye_is_named_where_a_key_is_waited_for)
{
  pid_t ids[COUNT];
  victim = 2;
  start_all("exited", dies_before_it_sets_a_key, ids);
  end_all(ids, 3);
}

static int gives_up(tsr_runtime *rt, tsr_scope *s, int index)
{
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == victim) {
    CHECK_STATUS(tsr_process_fail(s, "the disk is full"), TSR_OK, s);
    return 0;
  }
  check_told(rt, s, tsr_sync(s, "after", .timeout = 30), "failed: the disk is full");
  tsr_scope_clear(s);
  return 0;
}

TEST(the_cause_that_a_process_gives_is_told_to_all)
{
  pid_t ids[COUNT];
  victim = 1;
  start_all("gives_up", gives_up, ids);
  end_all(ids, 0);
}

/* Two fail, one because of the other: the first one is the cause for all. */
static int follows(tsr_runtime *rt, tsr_scope *s, int index)
{
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == victim) raise(SIGKILL);
  if (index == 1) {
    CHECK_STATUS(tsr_sync(s, "after", .timeout = 30), TSR_EPEER, s);
    tsr_process_fail(s, "because of another");
    tsr_scope_clear(s);
    return 0;
  }
  double began = fixture_now();
  while (tsr_process_alive(rt, 1) && fixture_now() - began < 20) usleep(1000);
  check_told(rt, s, tsr_sync(s, "after", .timeout = 30), "its connection closed");
  CHECK(!strstr(tsr_message(s), "because of another"));
  tsr_scope_clear(s);
  return 0;
}

TEST(the_first_failure_is_the_cause)
{
  pid_t ids[COUNT];
  victim = 3;
  start_all("follows", follows, ids);
  end_all(ids, 128 + SIGKILL);
}

/* ---- stopped --------------------------------------------------------------------------------- */

static int is_stopped_for_a_while(tsr_runtime *rt, tsr_scope *s, int index)
{
  char text[24];
  tsr_value value;
  double began = fixture_now();
  snprintf(text, sizeof text, "%d", (int)getpid());
  if (index == victim) CHECK_STATUS(tsr_store_set(s, "pid", text, strlen(text)), TSR_OK, s);
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == victim) {
    raise(SIGSTOP);
  } else {
    while (tsr_process_alive(rt, victim) && fixture_now() - began < 20) usleep(1000);
    /* After two missed signs of life, one a second. */
    double silent = fixture_now() - began;
    CHECK(silent > 1.5 && silent < 15);
    CHECK_STATUS(tsr_sync(s, "epoch", .timeout = 0.1), TSR_EPEER, NULL);
    CHECK_STR_HAS(tsr_message(s), "process 2 (pid ");
    CHECK_STR_HAS(tsr_message(s), ", without a heartbeat for ");
    tsr_scope_clear(s);
  }
  if (index == 0) {
    CHECK_STATUS(tsr_store_get(s, "pid", &value), TSR_OK, s);
    kill((pid_t)strtol(value.data, NULL, 10), SIGCONT);
  }
  /* It is told that it came too late, and all is well again. */
  if (index == victim) CHECK_STATUS(tsr_sync(s, "epoch", .timeout = 0.1), TSR_EPEER, NULL);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_sync(s, "epoch", .timeout = 20), TSR_OK, s);
  CHECK(tsr_process_alive(rt, victim));
  CHECK_STATUS(tsr_sync(s, "end", .timeout = 20), TSR_OK, s);
  return 0;
}

TEST(a_stopped_process_is_named_and_may_go_on)
{
  pid_t ids[COUNT];
  victim = 2;
  start_all("stopped", is_stopped_for_a_while, ids);
  end_all(ids, 0);
}

static int is_stopped_for_good(tsr_runtime *rt, tsr_scope *s, int index)
{
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == victim) raise(SIGSTOP);
  tsr_status status = tsr_sync(s, "after", .timeout = 30);
  CHECK_STATUS(status, TSR_EPEER, s);
  CHECK_STR_HAS(tsr_message(s), victim ? "process 1 (pid " : "process 0, the coordinator");
  CHECK_STR_HAS(tsr_message(s), "no heartbeat");
  CHECK(!victim || !tsr_process_alive(rt, victim));
  tsr_scope_clear(s);
  return 0;
}

/* Both at once: of one group process 1 is stopped, of the other the coordinator's. */
TEST(a_process_that_stays_stopped_is_given_up)
{
  pid_t ids[2][COUNT];
  setenv("TSR_STALL_TIMEOUT", "3", 1);
  setenv("TSR_CLOSE_TIMEOUT", "1", 1);
  for (victim = 0; victim < 2; victim++)
    start_all(victim ? "member" : "coordinator", is_stopped_for_good, ids[victim]);
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < COUNT; i++)
      if (i != k) CHECK_I64(fixture_end(ids[k][i]), 0);
  for (int k = 0; k < 2; k++) {
    kill(ids[k][k], SIGKILL);
    CHECK_I64(fixture_end(ids[k][k]), 128 + SIGKILL);
  }
}

/* ---- who may come ---------------------------------------------------------------------------- */

static tsr_runtime *try_join(int index, int count, const char *secret, double seconds)
{
  return tsr_initialize("cpu:1", .coordinator = fixture_socket("gate"), .process_count = count,
                        .process_index = index, .secret = secret, .start_timeout = seconds);
}

static void check_refused(tsr_runtime *rt, tsr_status status, const char *text)
{
  CHECK_STATUS(tsr_runtime_status(rt), status, NULL);
  CHECK_STR_HAS(tsr_runtime_message(rt), text);
  tsr_runtime_close(rt);
}

static int waits_for_the_others(tsr_runtime *rt, tsr_scope *s, int index)
{
  (void)rt, (void)index;
  return tsr_sync(s, "ready", .timeout = 20) != TSR_OK;
}

static pid_t keep_gate(const char *secret)
{
  setenv("TSR_SECRET", secret, 1);
  pid_t gate = fixture_start("gate", 0, 2, waits_for_the_others);
  unsetenv("TSR_SECRET");
  return gate;
}

TEST(only_who_knows_the_secret_may_join)
{
  pid_t gate = keep_gate("right");
  check_refused(try_join(1, 2, "wrong", 20), TSR_EPEER,
                "takes only processes that know its secret, but this process has another secret; "
                "set .secret or TSR_SECRET to the same text for all");
  check_refused(try_join(1, 2, NULL, 20), TSR_EPEER, "but this process has no secret");
  check_refused(try_join(1, 3, "right", 20), TSR_EARG,
                "this process was started as one of 3 processes, but process 0 as one of 2");
  check_refused(try_join(0, 1, "right", 20), TSR_EIO, "process 0 cannot listen at");
  tsr_runtime *rt = try_join(1, 2, "right", 20);
  CHECK_STR(tsr_runtime_message(rt), "");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  check_refused(try_join(1, 2, "right", 20), TSR_EARG, "process 1 has joined already (pid ");
  tsr_runtime_close(rt);
  CHECK_I64(fixture_end(gate), 0);
}

TEST(a_secret_that_process_0_lacks_is_an_error)
{
  pid_t gate = keep_gate("");
  check_refused(try_join(1, 2, "some", 20), TSR_EPEER, "has no secret, but this process has one");
  tsr_runtime *rt = try_join(1, 2, NULL, 20);
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  tsr_runtime_close(rt);
  CHECK_I64(fixture_end(gate), 0);
}

TEST(who_does_not_come_is_named)
{
  double began = fixture_now();
  check_refused(try_join(0, 3, NULL, 0.3), TSR_EPEER,
                "tsr_initialize: 'the start': after 0.3 s 1 of 3 processes have arrived; missing: "
                "process 1, not joined yet and process 2, not joined yet");
  check_refused(try_join(1, 3, NULL, 0.3), TSR_EPEER, "process 1 cannot reach process 0 at unix:");
  CHECK(fixture_now() - began < 10);
}

TEST(process_0_may_be_the_last)
{
  char address[300];
  snprintf(address, sizeof address, "%s", fixture_socket("gate"));
  pid_t late = fork();
  if (late == 0) {
    usleep(300000);
    tsr_runtime *rt = try_join(0, 2, NULL, 20);
    bool good = tsr_runtime_status(rt) == TSR_OK;
    tsr_runtime_close(rt);
    _exit(!good);
  }
  tsr_runtime *rt = try_join(1, 2, NULL, 20);
  CHECK_STR(tsr_runtime_message(rt), "");
  tsr_runtime_close(rt);
  CHECK_I64(fixture_end(late), 0);
}

/* A socket that a killed process left is no obstacle. */
TEST(a_socket_that_was_left_behind_is_taken)
{
  pid_t killed = fork();
  if (killed == 0) {
    tsr_runtime *rt = try_join(0, 1, NULL, 20);
    kill(getpid(), tsr_runtime_status(rt) ? SIGTERM : SIGKILL);
  }
  CHECK_I64(fixture_end(killed), 128 + SIGKILL);
  CHECK_I64(access(test_tmp("gate"), F_OK), 0);
  tsr_runtime *rt = try_join(0, 1, NULL, 20);
  CHECK_STR(tsr_runtime_message(rt), "");
  tsr_runtime_close(rt);
  CHECK(access(test_tmp("gate"), F_OK) != 0);
}

/* A child that was forked has a copy, which says no goodbye when it is closed. */
TEST_PROCESSES(a_forked_child_is_nobody, 2)
{
  tsr_runtime *rt = fixture_join("forked");
  tsr_scope *s = tsr_scope_open(rt);
  pid_t child = fork();
  if (child == 0) {
    tsr_runtime_close(rt);
    _exit(0);
  }
  CHECK_I64(fixture_end(child), 0);
  CHECK_STATUS(tsr_sync(s, "after"), TSR_OK, s);
  CHECK(tsr_process_alive(rt, 0) && tsr_process_alive(rt, 1));
  CHECK_STATUS(tsr_sync(s, "end"), TSR_OK, s); /* until here nobody leaves */
  tsr_runtime_close(rt);
}
