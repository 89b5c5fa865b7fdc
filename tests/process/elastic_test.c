/* Training that loses a process, goes on as fewer from the last step that was saved, and comes to
 * the bits of a run that was started as so many from that step. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "support/process_fixture.h"

enum { COUNT = 4, ROWS = 48, WIDTH = 24, STEPS = 40, EVERY = 4 };

/* ---- one death after another ----------------------------------------------------------------- */

enum { FIRST = 3, SECOND = 2 }; /* who dies, in this order, of four */

/* What is said when a process joins: the second time is that of going on as fewer. */
static void die_at(tsr_log_level level, const char *room, const char *message, void *user)
{
  int *left = user;
  (void)level, (void)room;
  if (*left > 0 && strstr(message, ", coordinator ") && !--*left) raise(SIGKILL);
}

static void go_on(int index, const char *address)
{
  int left = index == SECOND ? 2 : 0;
  double sum = 0;
  const tsr_runtime_opts runtime = { .size = sizeof runtime, .log = die_at, .log_user = &left };
  setenv("TSR_LOG", "process", 1);
  tsr_runtime *rt = tsr_initialize("cpu:2", .coordinator = address, .process_count = 4,
                                   .process_index = index, .on_failure = "shrink",
                                   .stall_timeout = 3, .start_timeout = 60, .runtime = &runtime);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  if (index == FIRST) raise(SIGKILL);
  tsr_scope *s = tsr_scope_open(rt);
  while (!tsr_sync(s, "until one is gone", .timeout = 30)) continue;
  tsr_scope_close(s);
  rt = tsr_process_regroup(rt, "cpu:2");
  if (tsr_runtime_status(rt)) FAIL("%s", tsr_runtime_message(rt));
  CHECK_I64(tsr_process_count(rt), 2);
  CHECK_I64(tsr_process_index(rt), index);
  s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_default(rt, "x"), "x");
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_iota(s, TSR_F64, TSR_SHAPE(8), 0, on)), &sum), TSR_OK,
               s);
  CHECK(sum == 28);
  tsr_runtime_close(rt);
  exit(0);
}

/* A process that dies while those that are left of a job meet is not waited for until the end of
 * all time, and the job goes on. */
TEST_TIMEOUT(a_second_death_while_they_regroup, 120)
{
  pid_t ids[4];
  char address[600];
  snprintf(address, sizeof address, "unix:%s", test_tmp("twice"));
  for (int i = 0; i < 4; i++)
    if (!(ids[i] = fork())) go_on(i, address);
  CHECK_I64(fixture_end(ids[0]), 0);
  CHECK_I64(fixture_end(ids[1]), 0);
  CHECK_I64(fixture_end(ids[SECOND]), 128 + SIGKILL);
  CHECK_I64(fixture_end(ids[FIRST]), 128 + SIGKILL);
}

/* ---- the training ---------------------------------------------------------------------------- */

typedef struct data {
  tsr_array *x, *y;
} data;

/* Rows over all devices. */
static data put_data(tsr_scope *s, tsr_mesh *mesh)
{
  static float x[ROWS * WIDTH], y[ROWS];
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)((i * 37 % 101) - 50) / 64;
  for (int i = 0; i < ROWS; i++) y[i] = (float)(i % 7) / 3;
  return (data){ tsr_put(s, x, TSR_F32, TSR_SHAPE(ROWS, WIDTH), tsr_on(mesh, "x,-")),
                 tsr_put(s, y, TSR_F32, TSR_SHAPE(ROWS), tsr_on(mesh, "x")) };
}

/* Weights on every device, what moves them cut over all. */
static tsr_array *begin(tsr_scope *s, tsr_mesh *mesh)
{
  return tsr_tree(s, { "w", tsr_full(s, 0.125, TSR_F32, TSR_SHAPE(WIDTH), tsr_on(mesh, "")) },
                  { "speed", tsr_full(s, 0, TSR_F32, TSR_SHAPE(WIDTH), tsr_on(mesh, "x")) });
}

static tsr_array *step(tsr_scope *s, data d, tsr_mesh *mesh, tsr_array *state)
{
  tsr_array *w = tsr_field(state, "w");
  tsr_array *off = tsr_sub(tsr_sum(tsr_mul(d.x, w), .dims = TSR_DIMS(1)), d.y);
  tsr_array *slope = tsr_sum(tsr_mul(d.x, tsr_expand_dims(off, TSR_DIMS(1))), .dims = TSR_DIMS(0));
  tsr_array *speed = tsr_add(tsr_mul(tsr_field(state, "speed"), 0.9), tsr_mul(slope, 0.003));
  return tsr_tree(s, { "w", tsr_constrain(tsr_sub(w, speed), tsr_on(mesh, "")) },
                  { "speed", tsr_constrain(speed, tsr_on(mesh, "x")) });
}

/* Where a training runs; `folder` NULL: it saves nothing. */
typedef struct place {
  tsr_scope *s;
  tsr_mesh *mesh;
  const char *folder;
} place;

static place open_place(tsr_runtime *rt, const char *folder)
{
  return (place){ tsr_scope_open(rt), tsr_mesh_default(rt, "x"), folder };
}

/* From the state of step `*at` to the end, with a step saved now and then; the weights of the end
 * to `out`. */
static tsr_status train(place p, tsr_array *state, int64_t *at, float *out)
{
  tsr_scope *s = p.s;
  data d = put_data(s, p.mesh);
  tsr_status status = TSR_OK;
  while (!status && *at < STEPS) {
    state = tsr_tree_keep(s, step(s, d, p.mesh, state));
    if (tsr_is_inert(state)) status = tsr_scope_status(s);
    if (!status) ++*at;
    if (!status && p.folder && *at % EVERY == 0)
      status = tsr_checkpoint_save(s, p.folder, state, .step = *at, .overwrite = true,
                                   .background = *at % 8 == 0);
  }
  if (!status) status = tsr_checkpoint_wait(s);
  if (!status) status = tsr_read(tsr_field(state, "w"), out, WIDTH * sizeof *out);
  return status;
}

/* The state of the newest step of a folder, or of a step, on all devices that there are. */
static tsr_array *resume(place p, const char *path, int64_t *at)
{
  tsr_saved_step *c = tsr_checkpoint_open(p.s, path);
  CHECK_STR(tsr_message(p.s), "");
  *at = tsr_checkpoint_step(c);
  return tsr_checkpoint_restore(c, begin(p.s, p.mesh));
}

/* ---- a run that loses one -------------------------------------------------------------------- */

/* What a process came to: from which step it went on, and the weights at the end. */
typedef struct ending {
  int64_t from;
  float w[WIDTH];
} ending;

static void tell(const char *name, int index, const ending *end)
{
  char path[32];
  snprintf(path, sizeof path, "%s.%d", name, index);
  test_write(test_tmp(path), (const char *)end, sizeof *end);
}

static ending told(const char *name, int index)
{
  char path[32];
  size_t length;
  snprintf(path, sizeof path, "%s.%d", name, index);
  char *bytes = test_read(test_tmp(path), &length);
  ending end;
  CHECK_I64((int64_t)length, (int64_t)sizeof end);
  memcpy(&end, bytes, sizeof end);
  free(bytes);
  return end;
}

/* Whether the victim dies by itself after a step, or is killed by the test at any moment. */
typedef struct way {
  int victim;
  int64_t dies_at; /* -1: it is killed from outside */
  int ready;       /* a pipe: a byte of each that has saved once */
} way;

static void live(tsr_runtime *rt, const way *how, int index)
{
  ending end = { 0 };
  int64_t at = 0;
  place p = open_place(rt, test_tmp("ckpt"));
  tsr_scope *s = p.s;
  tsr_array *state = begin(s, p.mesh);
  CHECK_STATUS(tsr_checkpoint_save(s, test_tmp("ckpt"), state, .step = 0), TSR_OK, s);
  if (how->ready >= 0) CHECK_I64(write(how->ready, "", 1), 1);
  tsr_status status = TSR_OK;
  /* Again and again, where the test kills. */
  while (!status) {
    bool dies = index == how->victim && how->dies_at >= 0;
    if (dies) {
      data d = put_data(s, p.mesh);
      for (; at < how->dies_at; at++) {
        state = tsr_tree_keep(s, step(s, d, p.mesh, state));
        if ((at + 1) % EVERY == 0)
          CHECK_STATUS(tsr_checkpoint_save(s, test_tmp("ckpt"), state, .step = at + 1,
                                           .overwrite = true, .background = (at + 1) % 8 == 0),
                       TSR_OK, s);
      }
      CHECK_STATUS(tsr_checkpoint_wait(s), TSR_OK, s); /* of step 8 */
      raise(SIGKILL);
    }
    status = train(p, state, &at, end.w);
    at = 0;
  }
  CHECK_STATUS(status, TSR_EPEER, s);
  char name[32];
  snprintf(name, sizeof name, "process %d (pid ", how->victim);
  CHECK_STR_HAS(tsr_message(s), name);
  rt = tsr_process_regroup(rt, "cpu:2");
  CHECK_STR(tsr_runtime_message(rt), "");
  CHECK_I64(tsr_process_count(rt), COUNT - 1);
  p = open_place(rt, NULL);
  state = resume(p, test_tmp("ckpt"), &at);
  end.from = at;
  CHECK_STATUS(train(p, state, &at, end.w), TSR_OK, p.s);
  tell("ended", tsr_process_index(rt), &end);
  tsr_runtime_close(rt);
}

/* ---- a run that begins there ----------------------------------------------------------------- */

static void begin_there(tsr_runtime *rt, const char *name, int index)
{
  char path[600];
  ending expected = told("ended", 0), end = { .from = expected.from };
  int64_t at = 0;
  place p = open_place(rt, NULL);
  snprintf(path, sizeof path, "%s/step_%lld", test_tmp("ckpt"), (long long)expected.from);
  tsr_array *state = resume(p, path, &at);
  CHECK_I64(at, expected.from);
  CHECK_STATUS(train(p, state, &at, end.w), TSR_OK, p.s);
  tell(name, index, &end);
  tsr_runtime_close(rt);
}

/* As process `index` of so many, of two devices each; `how` NULL: begins from the step. */
static pid_t start(const char *socket, int index, int count, const way *how)
{
  char address[300];
  snprintf(address, sizeof address, "%s", fixture_socket(socket));
  fflush(NULL);
  pid_t process = fork();
  CHECK(process >= 0);
  if (process) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  tsr_runtime *rt = tsr_initialize("cpu:2", .coordinator = address, .process_count = count,
                                   .process_index = index, .start_timeout = 30, .close_timeout = 20,
                                   .on_failure = "shrink");
  if (tsr_runtime_status(rt)) FAIL("%s", tsr_runtime_message(rt));
  if (how) live(rt, how, index);
  else begin_there(rt, "begun", index);
  fflush(NULL);
  _exit(0);
}

static void check_same(void)
{
  pid_t ids[COUNT];
  for (int i = 0; i < COUNT - 1; i++) ids[i] = start("fewer", i, COUNT - 1, NULL);
  for (int i = 0; i < COUNT - 1; i++) CHECK_I64(fixture_end(ids[i]), 0);
  ending first = told("ended", 0);
  for (int i = 0; i < COUNT - 1; i++) {
    ending ended = told("ended", i), begun = told("begun", i);
    CHECK_I64(ended.from, first.from);
    CHECK_BYTES(ended.w, first.w, sizeof first.w);
    CHECK_BYTES(begun.w, first.w, sizeof first.w);
  }
  /* And as one process of as many devices. */
  tsr_runtime *alone = tsr_runtime_open("cpu:6");
  begin_there(alone, "alone", 0);
  ending one = told("alone", 0);
  CHECK_BYTES(one.w, first.w, sizeof first.w);
}

TEST_TIMEOUT(goes_on_from_the_last_step, 120)
{
  pid_t ids[COUNT];
  const way how = { .victim = 2, .dies_at = 11, .ready = -1 };
  for (int i = 0; i < COUNT; i++) ids[i] = start("job", i, COUNT, &how);
  for (int i = 0; i < COUNT; i++) CHECK_I64(fixture_end(ids[i]), i == 2 ? 128 + SIGKILL : 0);
  CHECK_I64(told("ended", 0).from, 8);
  check_same();
}

/* Killed at any moment of steps, saves, or saves in the background. */
TEST_TIMEOUT(killed_at_any_moment, 600)
{
  const char *text = getenv("TEST_KILLS");
  int runs = text ? atoi(text) : test_quick() ? 1 : 3;
  test_rng random = test_seeded(5);
  for (int run = 0; run < runs; run++) {
    char command[700], socket[16], bytes[COUNT];
    int ends[2];
    pid_t ids[COUNT];
    CHECK_I64(pipe(ends), 0);
    way how = { .victim = (int)test_range(&random, 1, COUNT - 1), .dies_at = -1, .ready = ends[1] };
    snprintf(command, sizeof command, "rm -rf '%s'", test_tmp("ckpt"));
    CHECK_I64(system(command), 0);
    snprintf(socket, sizeof socket, "job%d", run);
    for (int i = 0; i < COUNT; i++) ids[i] = start(socket, i, COUNT, &how);
    close(ends[1]);
    for (int got = 0; got < COUNT;) {
      ssize_t more = read(ends[0], bytes, sizeof bytes);
      CHECK(more > 0);
      got += (int)more;
    }
    usleep((useconds_t)test_range(&random, 0, 200000));
    kill(ids[how.victim], SIGKILL);
    for (int i = 0; i < COUNT; i++)
      CHECK_I64(fixture_end(ids[i]), i == how.victim ? 128 + SIGKILL : 0);
    close(ends[0]);
    check_same();
  }
}
