/* What becomes of processes when one of them fails, by .on_failure, and how all stop at one step:
 * they end by themselves, save and close, or go on as fewer with the bits of a run that began so.
 * Programs that a process starts are none of the job. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "support/process_fixture.h"

enum { COUNT = 4, VICTIM = 2 };

/* A process that opens its runtime by the environment, does `work`, which closes it, and ends with
 * what that returns. What it says on standard error goes to a file of its number. */
static pid_t start(int index, int (*work)(tsr_runtime *rt, int index))
{
  char name[16];
  fflush(NULL);
  pid_t process = fork();
  CHECK(process >= 0);
  if (process) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  snprintf(name, sizeof name, "err.%d", index);
  int file = open(test_tmp(name), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  CHECK(file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
  setenv("TSR_COORDINATOR", fixture_socket("job"), 1);
  snprintf(name, sizeof name, "%d", index);
  setenv("TSR_PROCESS_INDEX", name, 1);
  tsr_runtime *rt = tsr_initialize("cpu:2", .start_timeout = 30, .close_timeout = 20);
  if (tsr_runtime_status(rt)) FAIL("%s", tsr_runtime_message(rt));
  int code = work(rt, index);
  fflush(NULL);
  _exit(code);
}

static void start_all(pid_t ids[COUNT], int (*work)(tsr_runtime *rt, int index))
{
  setenv("TSR_PROCESS_COUNT", "4", 1);
  for (int i = 0; i < COUNT; i++) ids[i] = start(i, work);
}

static void end_all(pid_t ids[COUNT], const int codes[COUNT])
{
  for (int i = 0; i < COUNT; i++) {
    char name[16];
    int code = fixture_end(ids[i]);
    snprintf(name, sizeof name, "err.%d", i);
    if (code == codes[i]) continue;
    FAIL("process %d ended with %d, expected %d\n%s", i, code, codes[i],
         test_read(test_tmp(name), NULL));
  }
}

static char *said_by(int index)
{
  char name[16];
  snprintf(name, sizeof name, "err.%d", index);
  return test_read(test_tmp(name), NULL);
}

/* The sum of 0 to 23 over all devices. */
static tsr_status total(tsr_scope *s, tsr_runtime *rt, double *out)
{
  float data[24];
  for (int i = 0; i < 24; i++) data[i] = (float)i;
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *a = tsr_put(s, data, TSR_F32, TSR_SHAPE(24), tsr_on(mesh, "x"));
  return tsr_read_scalar(tsr_cast(tsr_sum(a), TSR_F64), out);
}

/* Until one fails, which the victim does. */
static void lose_one(tsr_runtime *rt, tsr_scope *s, int index)
{
  double sum = 0;
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == VICTIM) raise(SIGKILL);
  tsr_status status = TSR_OK;
  while (!status) status = total(s, rt, &sum);
  CHECK_STATUS(status, TSR_EPEER, s);
  CHECK_STR_HAS(tsr_message(s), "process 2 (pid ");
  tsr_scope_clear(s);
}

/* ---- shutdown -------------------------------------------------------------------------------- */

/* Process 1 does not mind, 3 is busy with something else and never sees it, 0 closes. */
static int goes_down(tsr_runtime *rt, int index)
{
  tsr_scope *s = tsr_scope_open(rt);
  if (index == 3) CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  else lose_one(rt, s, index);
  while (index) pause();
  tsr_runtime_close(rt);
  return 7;
}

TEST(shutdown_says_the_cause_and_ends)
{
  pid_t ids[COUNT];
  double began = fixture_now();
  setenv("TSR_GRACE_TIMEOUT", "2", 1);
  start_all(ids, goes_down);
  end_all(ids, (const int[]){ 7, 75, 128 + SIGKILL, 75 });
  CHECK(fixture_now() - began < 20);
  for (int i = 1; i < COUNT; i += 2) {
    char line[80];
    snprintf(line, sizeof line, "; process %d of 4 ends in 2 s, or when it closes", i);
    char *said = said_by(i);
    CHECK_STR_HAS(said, "tessera: process 2 (pid ");
    CHECK_STR_HAS(said, "failed: its connection closed without a goodbye");
    CHECK_STR_HAS(said, line);
    free(said);
  }
}

static int loses_the_coordinator(tsr_runtime *rt, int index)
{
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == 0) raise(SIGKILL);
  while (true) pause();
  return 0;
}

TEST(shutdown_where_the_coordinator_goes)
{
  pid_t ids[COUNT];
  setenv("TSR_GRACE_TIMEOUT", "1", 1);
  start_all(ids, loses_the_coordinator);
  end_all(ids, (const int[]){ 128 + SIGKILL, 75, 75, 75 });
  char *said = said_by(3);
  CHECK_STR_HAS(said, "tessera: process 0, the coordinator");
  free(said);
}

/* ---- error ----------------------------------------------------------------------------------- */

/* Longer than the grace that it does not have. */
static int lives_on(tsr_runtime *rt, int index)
{
  tsr_value value;
  tsr_scope *s = tsr_scope_open(rt);
  lose_one(rt, s, index);
  sleep(2);
  CHECK_STATUS(tsr_store_set(s, "mine", "1", 1, .overwrite = true), TSR_OK, s);
  CHECK_STATUS(tsr_store_find(s, "mine", &value), TSR_OK, s);
  CHECK_STATUS(tsr_sync(s, "again"), TSR_EPEER, NULL);
  tsr_scope_clear(s);
  tsr_runtime_close(rt);
  return 0;
}

TEST(error_leaves_the_others_alone)
{
  pid_t ids[COUNT];
  setenv("TSR_ON_FAILURE", "error", 1);
  setenv("TSR_GRACE_TIMEOUT", "1", 1);
  start_all(ids, lives_on);
  end_all(ids, (const int[]){ 0, 0, 128 + SIGKILL, 0 });
  char *said = said_by(1);
  CHECK_STR(said, "");
  free(said);
}

/* Process 0 ends; the others come back from waiting for it. */
static tsr_scope *outlive_0(tsr_runtime *rt, int index)
{
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == 0) raise(SIGKILL);
  CHECK_STATUS(tsr_sync(s, "again"), TSR_EPEER, NULL);
  return s;
}

/* What nobody takes any more is not put by. */
static int goes_on_alone(tsr_runtime *rt, int index)
{
  enum { TIMES = 10000 };
  tsr_scope *s = outlive_0(rt, index);
  tsr_scope_clear(s);
  int64_t before = atomic_load(&rt->heap.used);
  for (int i = 0; i < TIMES; i++) CHECK_STATUS(tsr_process_stop(s), TSR_OK, s);
  CHECK_I64(atomic_load(&rt->heap.used), before);
  tsr_runtime_close(rt);
  return 0;
}

TEST(nothing_is_kept_for_a_lost_connection)
{
  pid_t ids[COUNT];
  setenv("TSR_ON_FAILURE", "error", 1);
  start_all(ids, goes_on_alone);
  end_all(ids, (const int[]){ 128 + SIGKILL, 0, 0, 0 });
}

/* ---- shrink ---------------------------------------------------------------------------------- */

enum { ROWS = 48, WIDTH = 6, STEPS = 14, DEATH = 5 };

/* A step of a line through points, whose sums are exact, so that no mesh shows. */
static tsr_status step(tsr_scope *s, tsr_mesh *mesh, const float *before, float *after)
{
  float x[ROWS * WIDTH], y[ROWS];
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)((i * 37 % 101) - 50) / 64;
  for (int i = 0; i < ROWS; i++) y[i] = (float)(i % 7) / 3;
  tsr_array *a = tsr_put(s, x, TSR_F32, TSR_SHAPE(ROWS, WIDTH), tsr_on(mesh, "x,-"));
  tsr_array *b = tsr_put(s, y, TSR_F32, TSR_SHAPE(ROWS), tsr_on(mesh, "x"));
  tsr_array *w = tsr_put(s, before, TSR_F32, TSR_SHAPE(WIDTH), tsr_on(mesh, "-"));
  tsr_array *off = tsr_sub(tsr_sum(tsr_mul(a, w), .dims = TSR_DIMS(1)), b);
  tsr_array *slope = tsr_sum(tsr_mul(a, tsr_expand_dims(off, TSR_DIMS(1))), .dims = TSR_DIMS(0));
  return tsr_read(tsr_sub(w, tsr_mul(slope, 0.01)), after, WIDTH * sizeof(float));
}

/* What a process keeps of each step: weights [step], of which `done` are there behind the first. */
typedef struct state {
  float weights[STEPS + 1][WIDTH];
  int done;
} state;

static tsr_status train(tsr_runtime *rt, state *kept, int last)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_status status = TSR_OK;
  while (!status && kept->done < last) {
    status = step(s, tsr_mesh_default(rt, "x"), kept->weights[kept->done],
                  kept->weights[kept->done + 1]);
    if (!status) kept->done++;
  }
  tsr_scope_clear(s);
  tsr_scope_close(s);
  return status;
}

/* One may have come a step further than another: all go back to what all have. */
static void go_back(tsr_runtime *rt, state *kept)
{
  tsr_store_keys all;
  char key[32], text[16];
  tsr_scope *s = tsr_scope_open(rt);
  snprintf(key, sizeof key, "done/%d", tsr_process_index(rt));
  snprintf(text, sizeof text, "%d", kept->done);
  CHECK_STATUS(tsr_store_set(s, key, text, strlen(text)), TSR_OK, s);
  CHECK_STATUS(tsr_sync(s, "told"), TSR_OK, s);
  CHECK_STATUS(tsr_store_list(s, "done", &all), TSR_OK, s);
  CHECK_I64(all.count, tsr_process_count(rt));
  for (int i = 0; i < all.count; i++) {
    int theirs = atoi(all.values[i].data);
    if (theirs < kept->done) kept->done = theirs;
  }
  tsr_scope_close(s);
}

static int shrinks(tsr_runtime *rt, int index)
{
  static state kept, alone;
  if (index == VICTIM) {
    CHECK_STATUS(train(rt, &kept, DEATH), TSR_OK, NULL);
    raise(SIGKILL);
  }
  CHECK_STATUS(train(rt, &kept, STEPS), TSR_EPEER, NULL);
  rt = tsr_process_regroup(rt, "cpu:2");
  CHECK_STR(tsr_runtime_message(rt), "");
  CHECK_I64(tsr_process_count(rt), COUNT - 1);
  CHECK_I64(tsr_process_index(rt), index > VICTIM ? index - 1 : index);
  CHECK_I64(tsr_device_count(rt), 2 * (COUNT - 1));
  go_back(rt, &kept);
  CHECK(kept.done == DEATH || kept.done == DEATH - 1);
  memcpy(alone.weights[0], kept.weights[kept.done], sizeof kept.weights[0]);
  int left = STEPS - kept.done;
  CHECK_STATUS(train(rt, &kept, STEPS), TSR_OK, NULL);
  tsr_runtime_close(rt);
  /* A run that begins on so many devices with that state. */
  unsetenv("TSR_PROCESS_COUNT");
  rt = tsr_runtime_open("cpu:6");
  CHECK_STATUS(train(rt, &alone, left), TSR_OK, NULL);
  CHECK_BYTES(kept.weights[STEPS], alone.weights[left], sizeof kept.weights[0]);
  tsr_runtime_close(rt);
  return 0;
}

TEST(shrink_goes_on_as_fewer_with_the_same_bits)
{
  pid_t ids[COUNT];
  setenv("TSR_ON_FAILURE", "shrink", 1);
  start_all(ids, shrinks);
  end_all(ids, (const int[]){ 0, 0, 128 + SIGKILL, 0 });
}

/* One after the other, down to one. */
static int shrinks_to_one(tsr_runtime *rt, int index)
{
  double sum = 0;
  for (int count = COUNT; count > 1; count--) {
    tsr_scope *s = tsr_scope_open(rt);
    CHECK_STATUS(total(s, rt, &sum), TSR_OK, s);
    CHECK(sum == 276);
    if (index == count - 1) raise(SIGKILL);
    while (tsr_process_alive(rt, count - 1)) usleep(1000);
    rt = tsr_process_regroup(rt, "cpu:2", .timeout = 30);
    CHECK_STR(tsr_runtime_message(rt), "");
    CHECK_I64(tsr_process_count(rt), count - 1);
    CHECK_I64(tsr_process_index(rt), index);
  }
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(total(s, rt, &sum), TSR_OK, s);
  CHECK(sum == 276);
  tsr_runtime_close(rt);
  return 0;
}

TEST(shrink_down_to_one)
{
  pid_t ids[COUNT];
  const int dead = 128 + SIGKILL;
  setenv("TSR_ON_FAILURE", "shrink", 1);
  start_all(ids, shrinks_to_one);
  end_all(ids, (const int[]){ 0, dead, dead, dead });
}

static int cannot_shrink(tsr_runtime *rt, int index)
{
  outlive_0(rt, index);
  rt = tsr_process_regroup(rt, "cpu:2");
  CHECK_STATUS(tsr_runtime_status(rt), TSR_EPEER, NULL);
  CHECK_STR_HAS(tsr_runtime_message(rt), "the remaining processes cannot go on without process 0");
  tsr_runtime_close(rt);
  return 0;
}

TEST(without_process_0_nobody_goes_on)
{
  pid_t ids[COUNT];
  setenv("TSR_ON_FAILURE", "shrink", 1);
  start_all(ids, cannot_shrink);
  end_all(ids, (const int[]){ 128 + SIGKILL, 0, 0, 0 });
}

static int one_does_not_come(tsr_runtime *rt, int index)
{
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == VICTIM) {
    tsr_value value;
    CHECK_STATUS(tsr_store_get(s, "end", &value), TSR_OK, s);
    tsr_runtime_close(rt);
    return 0;
  }
  if (index) {
    rt = tsr_process_regroup(rt, "cpu:2", .timeout = 1);
    CHECK_STATUS(tsr_runtime_status(rt), TSR_EPEER, NULL);
    CHECK_STR_HAS(tsr_runtime_message(rt),
                  "after 1 s these processes have not called tsr_process_regroup: process 0 ");
    CHECK_STR_HAS(tsr_runtime_message(rt), ", process 2 ");
  } else {
    sleep(2);
    CHECK_STATUS(tsr_store_set(s, "end", "", 0), TSR_OK, s);
  }
  tsr_runtime_close(rt);
  return 0;
}

TEST(who_does_not_come_to_regroup_is_named)
{
  pid_t ids[COUNT];
  setenv("TSR_ON_FAILURE", "shrink", 1);
  start_all(ids, one_does_not_come);
  end_all(ids, (const int[]){ 0, 0, 0, 0 });
}

/* ---- stopping -------------------------------------------------------------------------------- */

static volatile sig_atomic_t handled;

static void handle(int number)
{
  handled = number;
}

/* Steps take different times; process 1 is told at step 20, and has a handler of its own. */
static int stops(tsr_runtime *rt, int index)
{
  bool stop = false;
  int64_t at = 0;
  char key[16], text[16];
  tsr_store_keys all;
  tsr_scope *s = tsr_scope_open(rt);
  if (index == 1) signal(SIGTERM, handle);
  for (; !stop; at++) {
    CHECK(at < 5000);
    if (index == 1 && at == 20) kill(getpid(), SIGTERM);
    usleep((useconds_t)(500 * (1 + index)));
    CHECK_STATUS(tsr_process_should_stop(s, at, &stop), TSR_OK, s);
  }
  CHECK(at > 20);
  CHECK_STATUS(tsr_process_should_stop(s, at, &stop), TSR_OK, s);
  CHECK(stop);
  CHECK_STATUS(tsr_process_should_stop(s, 3, &stop), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "the step is 3, but was ");
  tsr_scope_clear(s);
  for (int i = 0; index == 1 && !handled && i < 1000; i++) usleep(1000);
  CHECK(handled == (index == 1 ? SIGTERM : 0));
  snprintf(key, sizeof key, "at/%d", index);
  snprintf(text, sizeof text, "%d", (int)at);
  CHECK_STATUS(tsr_store_set(s, key, text, strlen(text)), TSR_OK, s);
  CHECK_STATUS(tsr_sync(s, "told"), TSR_OK, s);
  CHECK_STATUS(tsr_store_list(s, "at", &all), TSR_OK, s);
  CHECK_I64(all.count, COUNT);
  for (int i = 0; i < COUNT; i++) CHECK_STR(all.values[i].data, text);
  tsr_runtime_close(rt);
  return 0;
}

TEST(a_signal_to_one_stops_all_at_one_step)
{
  pid_t ids[COUNT];
  setenv("TSR_STOP_SIGNAL", "15", 1);
  start_all(ids, stops);
  end_all(ids, (const int[]){ 0, 0, 0, 0 });
}

/* Before any step was asked about, and where one is gone. */
static int stops_at_once(tsr_runtime *rt, int index)
{
  bool stop = false;
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(tsr_sync(s, "ready"), TSR_OK, s);
  if (index == VICTIM) raise(SIGKILL);
  if (index == 3) CHECK_STATUS(tsr_process_stop(s), TSR_OK, s);
  for (int64_t at = 0; !stop; at++) {
    CHECK(at < 20000);
    usleep(1000);
    CHECK_STATUS(tsr_process_should_stop(s, at, &stop), TSR_OK, s);
  }
  tsr_runtime_close(rt);
  return 0;
}

TEST(all_but_the_dead_stop)
{
  pid_t ids[COUNT];
  setenv("TSR_ON_FAILURE", "error", 1);
  start_all(ids, stops_at_once);
  end_all(ids, (const int[]){ 0, 0, 128 + SIGKILL, 0 });
}

/* ---- who keeps others waiting ---------------------------------------------------------------- */

static int is_waited_for(tsr_runtime *rt, int index)
{
  double sum = 0, began = fixture_now();
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(total(s, rt, &sum), TSR_OK, s);
  if (index == VICTIM) {
    while (tsr_process_alive(rt, VICTIM) && fixture_now() - began < 30) usleep(10000);
    CHECK(!tsr_process_alive(rt, VICTIM));
  } else {
    CHECK_STATUS(total(s, rt, &sum), TSR_EPEER, s);
    CHECK_STR_HAS(tsr_message(s), "process 2 (pid ");
    CHECK_STR_HAS(tsr_message(s), "it is alive, but for 6 s has not reached ");
    CHECK_STR_HAS(tsr_message(s), "fate_test.c:");
    tsr_scope_clear(s);
  }
  tsr_runtime_close(rt);
  return 0;
}

TEST(who_is_waited_for_is_named_and_given_up)
{
  pid_t ids[COUNT];
  setenv("TSR_STALL_TIMEOUT", "4", 1);
  setenv("TSR_WAIT_TIMEOUT", "6", 1);
  start_all(ids, is_waited_for);
  end_all(ids, (const int[]){ 0, 0, 0, 0 });
  char *said = said_by(1);
  CHECK_STR_HAS(said, "tessera: a long wait: process 1 waits for process 2 in run ");
  CHECK_STR_HAS(said, "; that process was last seen in ");
  free(said);
}

static int waits_for_the_stopped(tsr_runtime *rt, int index)
{
  double sum = 0;
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STATUS(total(s, rt, &sum), TSR_OK, s);
  if (index == VICTIM) raise(SIGSTOP);
  CHECK_STATUS(total(s, rt, &sum), TSR_EPEER, s);
  CHECK_STR_HAS(tsr_message(s), "process 2 (pid ");
  CHECK_STR_HAS(tsr_message(s), "it sent no heartbeat for 6 s");
  tsr_scope_clear(s);
  tsr_runtime_close(rt);
  return 0;
}

/* Named after two missed signs of life, given up after .stall_timeout. */
TEST(who_is_stopped_is_named_before_it_is_given_up)
{
  pid_t ids[COUNT];
  setenv("TSR_STALL_TIMEOUT", "6", 1);
  start_all(ids, waits_for_the_stopped);
  for (int i = 0; i < COUNT; i++)
    if (i != VICTIM) CHECK_I64(fixture_end(ids[i]), 0);
  kill(ids[VICTIM], SIGKILL);
  CHECK_I64(fixture_end(ids[VICTIM]), 128 + SIGKILL);
  char *said = said_by(1);
  const char *named = strstr(
                 said,
                 "tessera: process 2 sends no heartbeat: process 1 waits for process 2 in run "),
             *given_up = strstr(said, "it sent no heartbeat for 6 s");
  if (!named || !given_up || named > given_up) FAIL("%s", said);
  free(said);
}

/* ---- programs that a process starts ---------------------------------------------------------- */

/* Memory whose size is kept before it, and compared when it is given back. */
static void *take_sized(size_t size, size_t alignment, void *user)
{
  (void)user;
  if (alignment < 64) alignment = 64;
  char *block = aligned_alloc(alignment, (size + 2 * alignment - 1) / alignment * alignment);
  if (!block) return NULL;
  memcpy(block, &alignment, sizeof alignment);
  block += alignment;
  memcpy(block - sizeof size, &size, sizeof size);
  memcpy(block - 2 * sizeof size, &alignment, sizeof alignment);
  return block;
}

static void give_sized(void *block, size_t size, void *user)
{
  int *wrong = user;
  size_t took, alignment;
  memcpy(&took, (char *)block - sizeof size, sizeof took);
  memcpy(&alignment, (char *)block - 2 * sizeof size, sizeof alignment);
  *wrong += took != size;
  free((char *)block - alignment);
}

/* This test itself, as such a program. */
__attribute__((constructor)) static void be_nested(void)
{
  int wrong = 0;
  tsr_allocator memory = { take_sized, give_sized, &wrong };
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &memory };
  if (!getenv("TEST_NESTED")) return;
  tsr_runtime *rt = tsr_initialize("cpu:3", .start_timeout = 20, .runtime = &opts);
  bool good =
      tsr_runtime_status(rt) == TSR_OK && tsr_process_count(rt) == 1 && tsr_device_count(rt) == 3;
  if (!good) fprintf(stderr, "%s\n", tsr_runtime_message(rt));
  tsr_runtime_close(rt);
  if (wrong) fprintf(stderr, "%d blocks were given back by another size\n", wrong);
  good = good && !wrong;
  rt = tsr_runtime_open("cpu:8");
  good = good && tsr_runtime_status(rt) == TSR_OK && tsr_process_count(rt) == 1 &&
         tsr_device_count(rt) == 8;
  tsr_runtime_close(rt);
  _exit(good ? 0 : 3);
}

static int starts_programs(tsr_runtime *rt, int index)
{
  char self[1000], command[1100];
  double sum = 0;
  tsr_scope *s = tsr_scope_open(rt);
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(length > 0);
  self[length] = '\0';
  snprintf(command, sizeof command, "TEST_NESTED=1 '%s'; exit $?", self);
  CHECK_I64(system(command), 0);
  CHECK_STATUS(total(s, rt, &sum), TSR_OK, s);
  CHECK(sum == 276);
  (void)index;
  tsr_runtime_close(rt);
  return 0;
}

TEST(programs_that_a_process_starts_are_alone)
{
  pid_t ids[COUNT];
  start_all(ids, starts_programs);
  end_all(ids, (const int[]){ 0, 0, 0, 0 });
}
