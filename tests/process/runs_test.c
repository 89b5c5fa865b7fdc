/* Runs of processes that read each other's memory, meeting by meeting: who is slow, who dies at a
 * run's end, and runs that are very long. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- who dies at the end --------------------------------------------------------------------- */

enum { LENDER, VICTIM, READER, COUNT, BYTES = 1 << 20 };

/* As if the memory were somebody else's from here on. */
static void take_back(void *block)
{
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
  if (index == VICTIM) setitimer(ITIMER_REAL, &soon, NULL);
  tsr_status status = TSR_OK;
  if (index == READER) {
    const char *theirs = tsr__peers_at(peers, LENDER, places[LENDER].at);
    while (tsr_process_alive(rt, VICTIM)) usleep(1000);
    usleep(300000);
    tsr__peers_fetch(peers, LENDER, theirs, BYTES);
    status = tsr__peers_fetched(peers, &error);
    for (int i = 0; i < BYTES; i++) whole = whole && theirs[i] == 1 + LENDER;
  }
  status = tsr__peers_leave(peers, status, &error);
  if (status) CHECK_STR_HAS(error.text, "process 1 (pid ");
  if (index == READER && !status && !whole) FAIL("a run that went well read what was given back");
  return 0;
}

TEST(nothing_is_given_back_under_who_may_still_end_well)
{
  pid_t ids[COUNT];
  setenv("TSR_ON_FAILURE", "error", 1);
  for (int i = 0; i < COUNT; i++) ids[i] = fixture_start("end", i, COUNT, reads_late);
  for (int i = 0; i < COUNT; i++) CHECK_I64(fixture_end(ids[i]), i == VICTIM ? 128 + SIGALRM : 0);
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
  pid_t ids[2];
  setenv("TSR_WAIT_TIMEOUT", "3", 1);
  for (int i = 0; i < 2; i++) ids[i] = fixture_start("slow", i, 2, is_slow);
  for (int i = 0; i < 2; i++) CHECK_I64(fixture_end(ids[i]), 0);
}

/* ---- very long runs -------------------------------------------------------------------------- */

/* Meetings beyond those that a run has numbers for, from shortly before their end. */
static int meets_often(tsr_runtime *rt, tsr_scope *s, int index)
{
  enum { MEETINGS = 40, RUNS = 3 };
  tsr__peers *peers = tsr__peers_of(rt);
  tsr__error error = { .status = TSR_OK };
  tsr__peers_note all[4];
  (void)s;
  for (int run = 0; run < RUNS; run++) {
    CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
    for (int64_t i = 0; i < MEETINGS; i++) {
      int64_t mine = 1000 * run + 10 * i + index, theirs;
      /* By an even number further: notes of two meetings in a row have two places. */
      if (i % 16 == 8) peers->meeting = END - 3 - (peers->meeting & 1);
      CHECK_STATUS(tsr__peers_gather(peers, &mine, sizeof mine, all, &error), TSR_OK, NULL);
      for (int p = 0; p < 4; p++) {
        memcpy(&theirs, all[p].data, sizeof theirs);
        CHECK_I64(theirs, mine - index + p);
      }
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
  pid_t ids[4];
  for (int i = 0; i < 4; i++) ids[i] = fixture_start("long", i, 4, meets_often);
  for (int i = 0; i < 4; i++) CHECK_I64(fixture_end(ids[i]), 0);
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
  pid_t ids[4];
  for (int i = 0; i < 4; i++) ids[i] = fixture_start("late", i, 4, fails_late);
  for (int i = 0; i < 4; i++) CHECK_I64(fixture_end(ids[i]), 0);
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
  if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2) return 0;
  CPU_ZERO(&one);
  for (size_t core = 0; core < CPU_SETSIZE && !CPU_COUNT(&one); core++)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  CHECK(!sched_setaffinity(0, sizeof one, &one));
  CHECK_STATUS(tsr__peers_enter(peers, &work, &error), TSR_OK, NULL);
  for (int i = 0; i < MEETINGS; i++) CHECK_STATUS(tell(peers, NULL, places, 2), TSR_OK, NULL);
  CHECK((peers->aside_at != 0) == (index == 1));
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
  pid_t ids[2];
  for (int i = 0; i < 2; i++) ids[i] = fixture_start("core", i, 2, shares_a_core);
  for (int i = 0; i < 2; i++) CHECK_I64(fixture_end(ids[i]), 0);
}
