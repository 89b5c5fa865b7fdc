/* Runs of processes that read each other's memory, meeting by meeting: who is slow, who dies at a
 * run's end, and runs that are very long. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "comm/peers_room.h"
#include "execute/execute.h"
#include "support/process_fixture.h"

static const tsr__peers_work work = { .fingerprint = 7, .what = "a test" };

/* Where each process has something, and how much. */
typedef struct place {
  uint64_t at;
} place;

static tsr_status tell(tsr__peers *peers, const void *block, place *out, int count)
{
  tsr__error error = { .status = TSR_OK };
  tsr__peers_note all[8];
  place mine = { block ? tsr__peers_offset(peers, block) : 0 };
  tsr_status status = tsr__peers_gather(peers, &mine, sizeof mine, all, &error);
  for (int p = 0; p < count && !status; p++) memcpy(&out[p], all[p].data, sizeof *out);
  return status;
}

/* What each brings is a number. */
static tsr_status gather_number(tsr__peers *peers, int64_t mine, int64_t *out, int count,
                                tsr__error *error)
{
  tsr__peers_note all[8];
  tsr_status status = tsr__peers_gather(peers, &mine, sizeof mine, all, error);
  for (int p = 0; p < count && !status; p++) {
    CHECK_U64(all[p].size, sizeof mine);
    memcpy(&out[p], all[p].data, sizeof mine);
  }
  return status;
}

/* ---- who dies at the end --------------------------------------------------------------------- */

enum { LENDER, VICTIM, READER, COUNT, BYTES = 1 << 20 };

/* Shared by the processes of a test: how many have all that a gathering told. A victim that died
 * before would be seen by those that still gather. */
static _Atomic int *gathered;

static void wait_until_all_gathered(void)
{
  atomic_fetch_add(gathered, 1);
  while (atomic_load(gathered) < COUNT) usleep(1000);
}

/* As if the memory were somebody else's from here on. */
static void take_back(void *block, bool came)
{
  (void)came;
  memset(block, 0xee, BYTES);
}

/* One lends memory until the next meeting, one dies when it has come to the end, one comes there
 * late and has read until then. */
static int reads_late(tsr_runtime *rt, tsr_scope *s, int index)
{
  tsr__peers *peers = tsr__peers_of(rt);
  tsr__error error = { .status = TSR_OK };
  const struct itimerval soon = { .it_value = { 0, 300000 } };
  place places[COUNT];
  bool whole = true;
  (void)s;
  char *block = tsr__peers_take(peers, BYTES);
  CHECK(block != NULL);
  memset(block, 1 + index, BYTES);
  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  CHECK_STATUS(tell(peers, block, places, COUNT), TSR_OK, NULL);
  if (index == LENDER) tsr__peers_later(peers, take_back, block);
  wait_until_all_gathered();
  if (index == VICTIM) setitimer(ITIMER_REAL, &soon, NULL);
  tsr_status status = TSR_OK;
  if (index == READER) {
    const char *theirs = tsr__peers_at(peers, LENDER, places[LENDER].at, BYTES);
    while (tsr_process_alive(rt, VICTIM)) usleep(1000);
    usleep(300000);
    tsr__peers_fetch(peers, LENDER, theirs, &(tsr__peers_runs){ BYTES, 1, 0 });
    status = tsr__peers_fetched(peers, &error);
    for (int i = 0; i < BYTES; i++) whole = whole && theirs[i] == 1 + LENDER;
  }
  status = tsr__peers_leave(peers, status, &error);
  if (status) CHECK_STR_HAS(error.text, "process 1 (pid ");
  if (index == READER && !status && !whole) FAIL("a run that went well read what was given back");
  return 0;
}

/* All end well but the victim, which a signal ends. */
static void run_with_victim(const char *name, fixture_work work_of, int signal)
{
  pid_t ids[COUNT];
  gathered =
      mmap(NULL, sizeof *gathered, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(gathered != MAP_FAILED);
  setenv("TSR_ON_FAILURE", "error", 1);
  for (int i = 0; i < COUNT; i++) ids[i] = fixture_start(name, i, COUNT, work_of);
  for (int i = 0; i < COUNT; i++) CHECK_I64(fixture_end(ids[i]), i == VICTIM ? 128 + signal : 0);
}

TEST(nothing_is_given_back_under_who_may_still_end_well)
{
  run_with_victim("end", reads_late, SIGALRM);
}

/* ---- who does not come ----------------------------------------------------------------------- */

static void note_came(void *user, bool came)
{
  *(int *)user = came ? 1 : 2;
}

/* One dies between the last gathering and the end, where others might be writing what it lent. */
static int lacks_one(tsr_runtime *rt, tsr_scope *s, int index)
{
  tsr__peers *peers = tsr__peers_of(rt);
  tsr__error error = { .status = TSR_OK };
  place places[COUNT];
  int called = 0;
  (void)s;
  for (int run = 0; run < 2; run++) {
    CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
    CHECK_STATUS(tell(peers, NULL, places, COUNT), TSR_OK, NULL);
    CHECK(tsr__peers_met(peers));
    CHECK_STATUS(tsr__peers_still_here(peers, &error), TSR_OK, NULL);
    called = 0;
    tsr__peers_later(peers, note_came, &called);
    if (run) wait_until_all_gathered();
    if (run && index == VICTIM) raise(SIGKILL);
    tsr_status status = tsr__peers_leave(peers, TSR_OK, &error);
    CHECK_I64(status != TSR_OK, run);
    CHECK_I64(called, run ? 2 : 1);
    error.status = TSR_OK;
  }
  /* Nobody finds what is told once somebody is lacking. */
  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  tsr_status status = tell(peers, NULL, places, COUNT);
  CHECK(status != TSR_OK && !tsr__peers_met(peers));
  CHECK(tsr__peers_leave(peers, status, &error) != TSR_OK);
  return 0;
}

TEST(what_is_put_by_hears_whether_all_came)
{
  run_with_victim("lack", lacks_one, SIGKILL);
}

/* Who is behind is as one that was stopped: it comes to a gathering whose others went on. */
static int is_left(tsr_runtime *rt, tsr_scope *s, int index)
{
  tsr__peers *peers = tsr__peers_of(rt);
  tsr__error error = { .status = TSR_OK };
  place places[2];
  (void)s;
  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  CHECK_STATUS(tell(peers, NULL, places, 2), TSR_OK, NULL);
  if (index) {
    usleep(500000);
  } else {
    uint64_t was = atomic_fetch_add(&head_of(peers, 1)->word, UINT64_C(1) << MEETING_BITS);
    CHECK(tsr__peers_still_here(peers, &error) == TSR_EPEER);
    CHECK_STR_HAS(error.text, "process 1 has gone on without this process");
    atomic_store(&head_of(peers, 1)->word, was);
  }
  CHECK_STATUS(tsr__peers_leave(peers, TSR_OK, &error), TSR_OK, NULL);
  return 0;
}

TEST(who_was_left_behind_finds_out)
{
  fixture_run("left", 2, is_left);
}

/* ---- long results of a run within another one ------------------------------------------------ */

static tsr_array *join(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_psum(in[0], "x");
}

/* The inner run has no meeting at its end: what it made is whole when it returns, though one
 * process is late each time. */
static int nests(tsr_runtime *rt, tsr_scope *s, int index)
{
  enum { N = 1 << 15, TURNS = 6 };
  tsr__peers *peers = tsr__peers_of(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr__error error = { .status = TSR_OK };
  float *got = malloc(N * sizeof *got);
  for (int turn = 1; turn <= TURNS; turn++) {
    tsr_scope *inner = tsr_scope_open(s);
    int wrong = 0;
    tsr_array *x = tsr_full(inner, turn, TSR_F32, TSR_SHAPE(2 * N), tsr_on(mesh, "x"));
    CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, inner);
    CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
    if (turn % 2 == index) usleep(20000);
    tsr_array *y =
        tsr_shard_map(mesh, join, NULL, .in = { x }, .in_specs = { "x" }, .out_specs = { "" });
    CHECK_STATUS(tsr_read(y, got, N * sizeof *got), TSR_OK, inner);
    for (int i = 0; i < N; i++) wrong += got[i] != (float)(2 * turn);
    CHECK_STATUS(tsr__peers_leave(peers, TSR_OK, &error), TSR_OK, NULL);
    CHECK_I64(wrong, 0);
    tsr_scope_close(inner);
  }
  free(got);
  return 0;
}

TEST(long_results_are_whole_within_another_run)
{
  fixture_run("nest", 2, nests);
}

/* ---- who is slow ----------------------------------------------------------------------------- */

/* Slow at each meeting, for less than may be waited, and for longer than that in all. */
static int is_slow(tsr_runtime *rt, tsr_scope *s, int index)
{
  enum { MEETINGS = 14 };
  tsr__peers *peers = tsr__peers_of(rt);
  tsr__error error = { .status = TSR_OK };
  place places[2];
  (void)s;
  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  for (int i = 0; i < MEETINGS; i++) {
    if (index) usleep(500000);
    CHECK_STATUS(tell(peers, NULL, places, 2), TSR_OK, NULL);
  }
  CHECK_STATUS(tsr__peers_leave(peers, TSR_OK, &error), TSR_OK, NULL);
  return 0;
}

TEST(who_is_slow_at_each_meeting_is_not_given_up)
{
  setenv("TSR_WAIT_TIMEOUT", "3", 1);
  fixture_run("slow", 2, is_slow);
}

/* ---- very long runs -------------------------------------------------------------------------- */

/* Meetings beyond those that a run has numbers for, from shortly before their end. */
static int meets_often(tsr_runtime *rt, tsr_scope *s, int index)
{
  enum { MEETINGS = 40, RUNS = 3 };
  tsr__peers *peers = tsr__peers_of(rt);
  tsr__error error = { .status = TSR_OK };
  (void)s;
  for (int run = 0; run < RUNS; run++) {
    CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
    for (int64_t i = 0; i < MEETINGS; i++) {
      int64_t mine = 1000 * run + 10 * i + index, theirs[4];
      /* By an even number further: notes of two meetings in a row have two places. */
      if (i % 16 == 8) peers->meeting = END - 3 - (peers->meeting & 1);
      CHECK_STATUS(gather_number(peers, mine, theirs, 4, &error), TSR_OK, NULL);
      for (int p = 0; p < 4; p++) CHECK_I64(theirs[p], mine - index + p);
      if (i % 3 == 0) CHECK_STATUS(tsr__peers_part(peers, &error), TSR_OK, NULL);
    }
    int64_t numbers[TSR__PEERS_NUMBERS] = { index, 1 };
    CHECK_STATUS(tsr__peers_leave_with(peers, TSR_OK, numbers, &error), TSR_OK, NULL);
    CHECK_I64(numbers[0], 6);
    CHECK_I64(numbers[1], 4);
  }
  return 0;
}

TEST(a_run_has_as_many_meetings_as_it_likes)
{
  fixture_run("long", 4, meets_often);
}

/* Who fails where the numbers end, or behind that, is named to all, who go on together. */
static int fails_late(tsr_runtime *rt, tsr_scope *s, int index)
{
  enum { MEETINGS = 6 };
  tsr__peers *peers = tsr__peers_of(rt);
  tsr__peers_note all[4];
  (void)s;
  for (int at = 0; at < MEETINGS; at++) {
    tsr__error error = { .status = TSR_OK };
    tsr_status status = TSR_OK;
    CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
    peers->meeting = END - 4;
    for (int i = 0; i < MEETINGS && !status; i++) {
      if (index == 3 && i == at) status = tsr__error_set(&error, TSR_EVALUE, "it failed at %d", at);
      else status = tsr__peers_gather(peers, &i, sizeof i, all, &error);
    }
    CHECK_STATUS(tsr__peers_leave(peers, status, &error), TSR_EVALUE, NULL);
    if (index != 3) CHECK_STR_HAS(error.text, "process 3: it failed at ");
  }
  return 0;
}

TEST(who_fails_in_a_very_long_run_is_named)
{
  fixture_run("late", 4, fails_late);
}

/* ---- runs that end with their last gathering ------------------------------------------------- */

/* The last one leaves when the others say that they have left. Then one does not promise, and
 * leaves later than the others, who wait. */
static int leaves_last(tsr_runtime *rt, tsr_scope *s, int index)
{
  enum { OTHERS = 2 };
  tsr__peers *peers = tsr__peers_of(rt);
  tsr__error error = { .status = TSR_OK };
  int64_t numbers[TSR__PEERS_NUMBERS] = { index + 1, 10 }, places[3];
  bool here = tsr__peers_hosts(peers) == 1;
  (void)s;
  _Atomic int64_t *left = tsr__peers_take(peers, sizeof *left);
  atomic_store(left, 0);
  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  CHECK_STATUS(gather_number(peers, (int64_t)tsr__peers_offset(peers, left), places, 3, &error),
               TSR_OK, NULL);
  CHECK(tsr__peers_promise(peers, numbers) == here);
  CHECK_STATUS(gather_number(peers, index, (int64_t[3]){ 0 }, 3, &error), TSR_OK, NULL);
  _Atomic int64_t *of_last =
      tsr__peers_at(peers, OTHERS, (uint64_t)places[OTHERS], sizeof *of_last);
  while (here && index == OTHERS && atomic_load(left) < OTHERS) usleep(100);
  CHECK_STATUS(tsr__peers_leave_with(peers, TSR_OK, numbers, &error), TSR_OK, NULL);
  CHECK_I64(numbers[0], 6);
  CHECK_I64(numbers[1], 30);
  if (here && index < OTHERS) atomic_fetch_add(of_last, 1);

  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  numbers[0] = numbers[1] = index;
  if (index) tsr__peers_promise(peers, numbers);
  CHECK_STATUS(gather_number(peers, index, (int64_t[3]){ 0 }, 3, &error), TSR_OK, NULL);
  CHECK(!peers->all_promised);
  if (!index) usleep(100000);
  numbers[0] = 7;
  CHECK_STATUS(tsr__peers_leave_with(peers, TSR_OK, numbers, &error), TSR_OK, NULL);
  CHECK_I64(numbers[0], 21);
  CHECK_I64(numbers[1], 3);
  return 0;
}

TEST(a_run_of_which_all_promise_that_it_ends_well_is_left_without_waiting)
{
  fixture_run("promise", 3, leaves_last);
}

/* Runs of any number of gatherings and parts, with promises and without, some of which one fails
 * before or in: what each brought to each is seen, and failures are told in the run that they are
 * of; only those of who promised, in the next one. */
static int mixes(tsr_runtime *rt, tsr_scope *s, int index)
{
  enum { ALL = 4 };
  tsr__peers *peers = tsr__peers_of(rt);
  /* Where others work on the cores each meeting of two hosts waits for turns of four processes. */
  int runs = tsr__peers_hosts(peers) > 1 ? 400 : test_quick() ? 1000 : 4000;
  test_rng random = { 11 };
  bool broken = false;
  (void)s;
  for (int run = 0; run < runs; run++) {
    tsr__error error = { .status = TSR_OK };
    tsr_status status = TSR_OK;
    int64_t brought[ALL], numbers[TSR__PEERS_NUMBERS] = { run, index };
    int gathers = 1 + (int)(test_random(&random) % 3);
    int fails = (int)(test_random(&random) % 16), at = (int)(test_random(&random) % 4);
    bool promises = test_random(&random) % 4 > 0, slow = test_random(&random) % 8 == 0;
    bool breaks = false;
    CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
    for (int g = 0; g < gathers && !status; g++) {
      if (fails == index && g == at) {
        status = tsr__error_set(&error, TSR_EVALUE, "run %d failed", run);
        break;
      }
      if (g == 1) status = tsr__peers_part(peers, &error);
      if (g == gathers - 1 && promises && !status) tsr__peers_promise(peers, numbers);
      if (!status) status = gather_number(peers, 100 * run + 10 * g + index, brought, ALL, &error);
      if (slow && index == run % ALL) sched_yield();
      for (int p = 0; p < ALL && !status; p++) CHECK_I64(brought[p], 100 * run + 10 * g + p);
    }
    breaks = !status && fails == index && at == gathers;
    if (breaks) status = tsr__error_set(&error, TSR_EVALUE, "run %d failed", run);
    bool all = peers->all_promised;
    status = tsr__peers_leave_with(peers, status, numbers, &error);
    /* What is expected: the one that is drawn fails the run, unless it had promised. */
    bool failed = fails < ALL && at <= gathers;
    bool late = failed && at == gathers && promises && tsr__peers_hosts(peers) == 1;
    if (broken) {
      CHECK_STATUS(status, TSR_EVALUE, NULL);
    } else if (late) {
      CHECK(all && (status == TSR_EVALUE) == (fails == index));
    } else {
      CHECK_STATUS(status, failed ? TSR_EVALUE : TSR_OK, NULL);
      if (!failed) CHECK_I64(numbers[0], (int64_t)ALL * run);
      if (!failed) CHECK_I64(numbers[1], 6);
    }
    broken = late && !broken;
  }
  return 0;
}

TEST_TIMEOUT(runs_that_end_in_all_ways_follow_each_other, 180)
{
  fixture_run("mixed", 4, mixes);
}

/* ---- who share a core ------------------------------------------------------------------------ */

/* Both on one core, then wherever they like: the second one tries to go, and goes. */
static int shares_a_core(tsr_runtime *rt, tsr_scope *s, int index)
{
  enum { MEETINGS = 200, MOST = 200000 };
  tsr__peers *peers = tsr__peers_of(rt);
  tsr__error error = { .status = TSR_OK };
  place places[2];
  cpu_set_t all, one, now;
  int64_t apart = 0;
  (void)s;
  /* Of other hosts it is heard by the engine, wherever that runs. */
  if (tsr__peers_hosts(peers) > 1) return 0;
  if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2) return 0;
  CPU_ZERO(&one);
  for (size_t core = 0; core < CPU_SETSIZE && !CPU_COUNT(&one); core++)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  CHECK(!sched_setaffinity(0, sizeof one, &one));
  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  for (int i = 0; i < MEETINGS; i++) CHECK_STATUS(tell(peers, NULL, places, 2), TSR_OK, NULL);
  /* The first one goes only where it was woken. */
  CHECK(!index || peers->aside_at);
  CHECK(!sched_getaffinity(0, sizeof now, &now) && CPU_EQUAL(&now, &one));
  CHECK(!sched_setaffinity(0, sizeof all, &all));
  for (int i = 0; i < MOST && !apart; i++) {
    int64_t mine = head_of(peers, 0)->core != head_of(peers, 1)->core;
    tsr__peers_note note[2];
    CHECK_STATUS(tsr__peers_gather(peers, &mine, sizeof mine, note, &error), TSR_OK, NULL);
    memcpy(&apart, note[0].data, sizeof apart);
  }
  CHECK(apart);
  CHECK_STATUS(tsr__peers_leave(peers, TSR_OK, &error), TSR_OK, NULL);
  CHECK(!sched_getaffinity(0, sizeof now, &now) && CPU_EQUAL(&now, &all));
  return 0;
}

TEST(who_share_a_core_part)
{
  fixture_run("core", 2, shares_a_core);
}
