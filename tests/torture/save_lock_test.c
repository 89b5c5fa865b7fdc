/* Two saves in one folder: one at a time writes, the other hears whose turn it is, and whatever
 * ends the first one leaves the folder to the next.
 *
 *   child     save ... stops at a call ............ goes on, or is killed
 *   parent                              its own saves       looks at what is there
 *
 * Wraps the system's calls (support/faults.h). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/faults.h"
#include "tessera.h"

enum { LENGTH = 3000 };

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
} world;

static world open_world(void)
{
  world w = { .rt = tsr_runtime_open("cpu:2", .threads = 1) };
  CHECK_STATUS(tsr_runtime_status(w.rt), TSR_OK, NULL);
  w.s = tsr_scope_open(w.rt);
  w.mesh = tsr_mesh_default(w.rt, "x");
  return w;
}

static void start_anew(void)
{
  char command[600];
  snprintf(command, sizeof command, "rm -rf '%s'", test_tmp("ckpt"));
  CHECK_I64(system(command), 0);
}

static void put_lock(const char *text)
{
  test_write(test_tmp("ckpt/tessera.lock"), text, strlen(text));
}

/* A step of an array of `number`. */
static tsr_status save_step(world *w, int64_t step, double number, bool background)
{
  tsr_scope *s = w->s;
  tsr_array *a = tsr_full(s, number, TSR_F64, TSR_SHAPE(LENGTH), tsr_on(w->mesh, "x"));
  return tsr_checkpoint_save(s, test_tmp("ckpt"), a, .step = step, .keep = 1, .overwrite = true,
                             .background = background);
}

/* The number that all elements of the newest step have. */
static double newest(int64_t step)
{
  static double a[LENGTH];
  tsr_runtime *rt = tsr_runtime_open("cpu:3", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_saved_step *c = tsr_checkpoint_open(s, test_tmp("ckpt"));
  CHECK_I64(tsr_checkpoint_step(c), step);
  CHECK_STATUS(tsr_checkpoint_verify(c), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_checkpoint_restore(c, NULL), a, sizeof a), TSR_OK, s);
  for (int i = 0; i < LENGTH; i++) CHECK(a[i] == a[0]);
  tsr_runtime_close(rt);
  return a[0];
}

/* ---- a save that stands still ---------------------------------------------------------------- */

/* Where the child stops: the n-th call of a kind. */
static struct {
  enum fault_call call;
  int at, seen;
  int told, waits; /* pipes */
} stop;

static void stop_here(const struct fault_seen *what, void *user)
{
  char byte = 0;
  (void)user;
  if (what->call != stop.call || ++stop.seen != stop.at) return;
  if (write(stop.told, &byte, 1) != 1 || read(stop.waits, &byte, 1) != 1) _exit(3);
}

typedef struct other {
  pid_t pid;
  int told, go;
} other;

/* Saves step 1 of ones in a process of its own, up to that call; its pid is 0 where it ended
 * before. */
static other begin_other(enum fault_call call, int at)
{
  int told[2], go[2];
  char byte;
  CHECK(!pipe(told) && !pipe(go));
  fflush(NULL);
  other o = { fork(), told[0], go[1] };
  CHECK(o.pid >= 0);
  if (!o.pid) {
    close(told[0]);
    close(go[1]);
    world w = open_world();
    stop.call = call, stop.at = at, stop.told = told[1], stop.waits = go[0];
    fault_watch(stop_here, NULL);
    tsr_status status = save_step(&w, 1, 1, false);
    fault_watch(NULL, NULL);
    if (status) fprintf(stderr, "%s\n", tsr_message(w.s));
    tsr_runtime_close(w.rt);
    _exit(status != TSR_OK);
  }
  close(told[1]);
  close(go[0]);
  if (read(told[0], &byte, 1) == 1) return o;
  int ended;
  CHECK(waitpid(o.pid, &ended, 0) == o.pid && ended == 0);
  o.pid = 0;
  return o;
}

static void end_other(other *o, bool killed)
{
  int ended;
  if (killed) kill(o->pid, SIGKILL);
  else CHECK_I64(write(o->go, "", 1), 1);
  CHECK_I64(waitpid(o->pid, &ended, 0), o->pid);
  if (!killed) CHECK_I64(ended, 0);
  close(o->told);
  close(o->go);
}

/* Stopped at each call that changes files, of any kind: whoever saves the same step, or another,
 * with .keep = 1 hears who is there, and the step of who went on is whole. */
static int one_at_a_time(enum fault_call call, int step)
{
  int refused = 0;
  for (int at = 1; at < 100; at += step) {
    char owner[64];
    start_anew();
    other o = begin_other(call, at);
    if (!o.pid) {
      CHECK(at > 1);
      break;
    }
    world w = open_world();
    snprintf(owner, sizeof owner, "pid %d on host ", (int)o.pid);
    struct stat info;
    /* The lock is there from its first sign on to its end. */
    bool locked = !stat(test_tmp("ckpt/tessera.lock"), &info) && info.st_size;
    for (int64_t k = 1; k <= 2 && locked; k++, refused++) {
      CHECK_STATUS(save_step(&w, k, 2, k == 2), k == 1 ? TSR_ESTATE : TSR_OK, NULL);
      if (k == 2) CHECK_STATUS(tsr_checkpoint_wait(w.s), TSR_ESTATE, NULL);
      CHECK_STR_HAS(tsr_message(w.s), "another save writes to the folder: process 0 of 1");
      CHECK_STR_HAS(tsr_message(w.s), owner);
      tsr_scope_clear(w.s);
    }
    end_other(&o, false);
    CHECK_F64_BITS(newest(1), 1);
    CHECK_STATUS(save_step(&w, 2, 2, false), TSR_OK, w.s);
    CHECK_F64_BITS(newest(2), 2);
    CHECK(stat(test_tmp("ckpt/tessera.lock"), &info) && stat(test_tmp("ckpt/step_1"), &info));
    tsr_runtime_close(w.rt);
  }
  return refused;
}

TEST_TIMEOUT(two_jobs_do_not_delete_each_others_data, 300)
{
  CHECK(one_at_a_time(FAULT_SYNC, 1) >= 4);
  CHECK(one_at_a_time(FAULT_RENAME, 1) > 0);
  CHECK(one_at_a_time(FAULT_WRITE, test_quick() ? 2 : 1) >= 4);
  one_at_a_time(FAULT_UNLINK, 1);
}

/* A lock that was left is none, wherever its save was killed. */
TEST_TIMEOUT(a_killed_save_leaves_the_folder_to_the_next, 300)
{
  static const enum fault_call calls[] = { FAULT_OPEN, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME,
                                           FAULT_UNLINK };
  world w = open_world();
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
    for (int at = 1; at < 100; at += test_quick() ? 3 : 1) {
      start_anew();
      other o = begin_other(calls[c], at);
      if (!o.pid) break;
      end_other(&o, true);
      CHECK_STATUS(save_step(&w, 1, 2, false), TSR_OK, w.s);
      CHECK_F64_BITS(newest(1), 2);
    }
  tsr_runtime_close(w.rt);
}

/* ---- file systems without locks -------------------------------------------------------------- */

/* The name of the file is the lock then. */
TEST_TIMEOUT(where_there_are_no_locks_the_file_is_one, 300)
{
  static const int codes[] = { ENOSYS, ENOLCK, EOPNOTSUPP };
  world w = open_world();
  struct fault none = { FAULT_LOCK, 1, .stay = true };
  struct stat info;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    none.code = codes[i];
    fault_set(&none);
    start_anew();
    other o = begin_other(FAULT_SYNC, 3); /* it has the same fault */
    CHECK(o.pid);
    fault_set(&none);
    CHECK_STATUS(save_step(&w, 2, 2, false), TSR_ESTATE, NULL);
    CHECK_STR_HAS(tsr_message(w.s), "another save writes to the folder: process 0 of 1");
    CHECK_STR_HAS(tsr_message(w.s), "if that process has ended, delete ");
    tsr_scope_clear(w.s);
    /* Killed, on this machine: known to have ended. */
    end_other(&o, true);
    CHECK(!stat(test_tmp("ckpt/tessera.lock"), &info));
    CHECK_STATUS(save_step(&w, 2, 2, false), TSR_OK, w.s);
    CHECK_F64_BITS(newest(2), 2);
    CHECK(stat(test_tmp("ckpt/tessera.lock"), &info));
    /* Of another machine nothing is known. */
    put_lock("process 0 of 1, pid 7 on host b\n7 other\n");
    CHECK_STATUS(save_step(&w, 3, 3, false), TSR_ESTATE, NULL);
    CHECK_STR_HAS(tsr_message(w.s), "pid 7 on host b");
    tsr_scope_clear(w.s);
    unlink(test_tmp("ckpt/tessera.lock"));
    CHECK_STATUS(save_step(&w, 3, 3, false), TSR_OK, w.s);
    fault_set(NULL);
    CHECK_F64_BITS(newest(3), 3);
  }
  /* With locks it is only a file that was left. */
  put_lock("process 0 of 1, pid 7 on host b\n7 other\n");
  CHECK_STATUS(save_step(&w, 4, 4, false), TSR_OK, w.s);
  CHECK_F64_BITS(newest(4), 4);
  /* What fails in another way is an error. */
  fault_set(&(struct fault){ FAULT_LOCK, 1, .stay = true, .code = EIO });
  CHECK_STATUS(save_step(&w, 5, 5, false), TSR_EIO, NULL);
  fault_set(NULL);
  tsr_runtime_close(w.rt);
}

/* ---- a lock that was taken away -------------------------------------------------------------- */

static void steal(const struct fault_seen *what, void *user)
{
  int *left = user;
  if (what->call != FAULT_SYNC || --*left) return;
  unlink(test_tmp("ckpt/tessera.lock"));
  put_lock("process 0 of 9, pid 8 on host c\n8 other\n");
}

/* Who stood still for so long that its lock went to another does not finish its step. */
TEST(a_lock_that_was_taken_away_ends_the_save)
{
  world w = open_world();
  int left = 3;
  CHECK_STATUS(save_step(&w, 1, 1, false), TSR_OK, w.s);
  fault_watch(steal, &left);
  CHECK_STATUS(save_step(&w, 2, 2, false), TSR_ESTATE, NULL);
  fault_watch(NULL, NULL);
  CHECK_STR_HAS(tsr_message(w.s),
                "was removed during the save, by process 0 of 9, pid 8 on host c");
  CHECK(left <= 0);
  CHECK_F64_BITS(newest(1), 1);
  tsr_runtime_close(w.rt);
}

/* ---- a save of this process ------------------------------------------------------------------ */

static void take_long(const struct fault_seen *what, void *user)
{
  (void)user;
  if (what->call == FAULT_SYNC) usleep(100000);
}

/* What is opened while a save goes on is what it makes, and not what it is about to delete. A save
 * that fails leaves the step before, and its error is told to who asks. */
TEST(open_waits_for_a_save_of_its_process)
{
  world w = open_world();
  CHECK_STATUS(save_step(&w, 1, 1, false), TSR_OK, w.s);
  fault_watch(take_long, NULL);
  CHECK_STATUS(save_step(&w, 2, 2, true), TSR_OK, w.s);
  tsr_saved_step *c = tsr_checkpoint_open(w.s, test_tmp("ckpt"));
  CHECK_I64(tsr_checkpoint_step(c), 2);
  CHECK_STATUS(tsr_checkpoint_wait(w.s), TSR_OK, w.s);
  CHECK_STATUS(tsr_checkpoint_verify(c), TSR_OK, w.s);
  fault_set(&(struct fault){ FAULT_RENAME, 1, .code = ENOSPC });
  CHECK_STATUS(save_step(&w, 3, 3, true), TSR_OK, w.s);
  CHECK_I64(tsr_checkpoint_step(tsr_checkpoint_open(w.s, test_tmp("ckpt"))), 2);
  CHECK_STR(tsr_message(w.s), "");
  fault_set(NULL);
  CHECK_STATUS(tsr_checkpoint_wait(w.s), TSR_EIO, NULL);
  CHECK_STR_HAS(tsr_message(w.s), "a save in the background: ");
  fault_watch(NULL, NULL);
  tsr_runtime_close(w.rt);
}
