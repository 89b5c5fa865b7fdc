/* Buffers that processes open by handles, and the tests' own guard, which hides them in each of the
 * processes. Guards the devices. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/peers.h"
#include "execute/execute.h"
#include "harness.h"
#include "kernel/device/cpu.h"
#include "support/among.h"
#include "support/guarded_devices.h"

enum { NUMBERS = 10000, MOST = 4 };

/* One device in each process, with a buffer; and all buffers as this process opens them. */
typedef struct world {
  tsr_runtime *rt;
  tsr__peers *peers;
  const tsr__device_ops *ops;
  tsr__buffer *mine, *all[MOST];
} world;

/* The number at a place of a process's buffer. */
static int64_t number(int process, int64_t place)
{
  return 1000000 * (process + 1) + place;
}

static void open_world(world *w)
{
  static const tsr__peers_work work = { .fingerprint = 1, .what = "a test" };
  tsr__peers_note notes[MOST];
  tsr__error error = { .status = TSR_OK };
  uint64_t handle;
  w->rt = among_open(1);
  w->peers = tsr__peers_of(w->rt);
  w->ops = tsr__devices_of(w->rt)->ops;
  w->mine = w->ops->take(w->rt, test_process(), NUMBERS * sizeof(int64_t), &error);
  CHECK(w->mine != NULL);
  w->ops->number(w->mine, number(test_process(), 0), NUMBERS);
  CHECK(w->ops->share(w->mine, &handle) && !(handle >> 63));
  CHECK_STATUS(tsr__peers_enter(w->peers, &work, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__peers_gather(w->peers, &handle, sizeof handle, notes, &error), TSR_OK, NULL);
  for (int p = 0; p < test_process_count(); p++) {
    memcpy(&handle, notes[p].data, sizeof handle);
    w->all[p] = w->ops->open_shared(w->rt, p, handle, w->mine->bytes, &error);
    CHECK(w->all[p] && w->all[p]->bytes == w->mine->bytes && tsr__buffer_lent(w->all[p]));
  }
}

/* All have read before anything is given back. */
static void close_world(world *w)
{
  tsr__error error = { .status = TSR_OK };
  CHECK_STATUS(tsr__peers_part(w->peers, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__peers_leave(w->peers, TSR_OK, &error), TSR_OK, NULL);
  for (int p = 0; p < test_process_count(); p++) tsr__buffer_release(w->all[p]);
  tsr__buffer_release(w->mine);
  tsr_runtime_close(w->rt);
}

static void read_numbers(const world *w, tsr__buffer *from, int64_t *out)
{
  const int64_t zero = 0, all = NUMBERS;
  const tsr__box_copy copy = { .dtype = TSR_I64,
                               .rank = 1,
                               .from_dims = &all,
                               .from_start = &zero,
                               .to_dims = &all,
                               .to_start = &zero,
                               .size = &all };
  w->ops->to_host(&copy, from, out);
}

/* ---- handles --------------------------------------------------------------------------------- */

/* Compares all numbers of each buffer, or three runs of them: others may not have come. */
static void check_runs(const world *w, const tsr__byte_runs *runs)
{
  static int64_t found[NUMBERS];
  tsr__error error = { .status = TSR_OK };
  for (int p = 0; p < test_process_count(); p++) w->ops->fetch(w->all[p], runs);
  CHECK_STATUS(tsr__peers_fetched(w->peers, &error), TSR_OK, NULL);
  for (int p = 0; p < test_process_count(); p++) {
    read_numbers(w, w->all[p], found);
    for (size_t i = 0; i < runs->count; i++)
      for (size_t k = 0; k < runs->bytes / sizeof *found; k++) {
        size_t place = (runs->first + i * runs->stride) / sizeof *found + k;
        CHECK_I64(found[place], number(p, (int64_t)place));
      }
  }
}

static void read_all_by_handles(void)
{
  world w;
  open_world(&w);
  check_runs(&w, &(tsr__byte_runs){ 8 * 50, 8 * 7, 3, 8 * 2000 });
  check_runs(&w, &(tsr__byte_runs){ 0, 8 * NUMBERS, 1, 0 });
  close_world(&w);
}

AMONG_2_AND_4(a_handle_opens_the_same_bytes, read_all_by_handles)

TEST_PROCESSES(a_handle_beyond_the_memory_opens_nothing, 2)
{
  world w;
  tsr__error error = { .status = TSR_OK };
  open_world(&w);
  CHECK(!w.ops->open_shared(w.rt, 1 - test_process(), UINT64_C(1) << 62, 8, &error));
  CHECK_STATUS(error.status, TSR_ENOMEM, NULL);
  close_world(&w);
}

TEST_PROCESSES(memory_of_the_user_has_no_handle, 2)
{
  int64_t numbers[4] = { 1, 2, 3, 4 };
  tsr_runtime *rt = among_open(1);
  const tsr__device_ops *ops = tsr__devices_of(rt)->ops;
  tsr__buffer *lent =
      ops->adopt(rt, test_process(), &(tsr__foreign){ numbers, sizeof numbers, NULL, NULL });
  uint64_t handle = 7;
  CHECK(lent && !ops->share(lent, &handle) && handle == 7);
  tsr__buffer_release(lent);
  tsr_runtime_close(rt);
}

TEST(alone_nobody_has_a_handle)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  const tsr__device_ops *ops = tsr__devices_of(rt)->ops;
  tsr__error error = { .status = TSR_OK };
  tsr__buffer *buffer = ops->take(rt, 0, 8, &error);
  uint64_t handle;
  CHECK(buffer && !ops->share(buffer, &handle));
  tsr__buffer_release(buffer);
  tsr_runtime_close(rt);
}

/* ---- the guard ------------------------------------------------------------------------------- */

/* How a child ends that looks at a buffer: its signal, or 0. */
static int stray_look(const tsr__buffer *buffer)
{
  int how;
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    signal(SIGSEGV, SIG_DFL);
    _exit(((volatile char *)tsr__cpu_data(buffer))[buffer->bytes - 1] & 0);
  }
  CHECK(child > 0 && waitpid(child, &how, 0) == child);
  return WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}

static void open_guarded_world(world *w)
{
  if (getenv("TEST_HOSTS")) SKIP("devices of several hosts are not guarded");
  setenv("TEST_GUARD", "1", 1);
  open_world(w);
}

/* Buffers of others are hidden and read by an entry in turns. */
static void look_at_hidden(void)
{
  world w;
  static int64_t found[NUMBERS];
  open_guarded_world(&w);
  for (int p = 0; p < test_process_count(); p++) {
    const tsr__buffer *seen = w.all[p];
    CHECK(guard_hides(tsr__cpu_data(seen)));
    CHECK_I64(stray_look(seen), SIGSEGV);
    read_numbers(&w, w.all[p], found);
    CHECK_I64(found[NUMBERS - 1], number(p, NUMBERS - 1));
    CHECK_I64(stray_look(seen), SIGSEGV);
  }
  CHECK_I64(stray_look(w.mine), SIGSEGV);
  close_world(&w);
}

AMONG_2_AND_4(what_others_hold_is_hidden, look_at_hidden)

/* A process writes into the memory of another one, as it does with results. */
TEST_PROCESSES(entries_write_into_hidden_memory, 2)
{
  world w;
  static int64_t found[NUMBERS];
  tsr__error error = { .status = TSR_OK };
  int other = 1 - test_process();
  open_guarded_world(&w);
  CHECK_STATUS(tsr__peers_part(w.peers, &error), TSR_OK, NULL);
  w.ops->number(w.all[other], number(7, 0), NUMBERS);
  CHECK_STATUS(tsr__peers_part(w.peers, &error), TSR_OK, NULL);
  read_numbers(&w, w.mine, found);
  CHECK_I64(found[0], number(7, 0));
  CHECK_I64(found[NUMBERS - 1], number(7, NUMBERS - 1));
  CHECK(guard_hides(tsr__cpu_data(w.mine)) && guard_hides(tsr__cpu_data(w.all[other])));
  close_world(&w);
}
