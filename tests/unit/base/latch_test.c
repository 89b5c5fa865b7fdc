/* Latches: one holder at a time, however many ask, and those who wait let the holder come to an
 * end. */
#include "base/latch.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "harness.h"

enum { THREADS = 6, TIMES = 400000 };

typedef struct shared {
  tsr__latch latch;
  int64_t count; /* written by the holder alone, without any order of its own */
  int inside;
  bool crowded;
  _Atomic int waiting; /* until all of them are there */
} shared;

static void *count_up(void *user)
{
  shared *s = user;
  atomic_fetch_sub(&s->waiting, 1);
  while (atomic_load(&s->waiting) > 0) sched_yield();
  for (int i = 0; i < TIMES; i++) {
    tsr__latch_close(&s->latch);
    s->crowded = s->crowded || s->inside++;
    for (volatile int k = 0; k < 20; k++) continue; /* so that others come meanwhile */
    s->count++;
    s->inside--;
    tsr__latch_open(&s->latch);
  }
  return NULL;
}

TEST(there_is_one_holder_at_a_time)
{
  shared s = { .waiting = THREADS };
  pthread_t thread[THREADS];
  for (int t = 0; t < THREADS; t++) CHECK(!pthread_create(&thread[t], NULL, count_up, &s));
  for (int t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
  CHECK_I64(s.count, THREADS * TIMES);
  CHECK(!s.crowded);
}

/* Longer than spinning and yielding last. */
TEST(who_waits_for_long_sleeps_and_gets_it)
{
  shared s = { .count = 0 };
  pthread_t thread;
  tsr__latch_close(&s.latch);
  CHECK(!pthread_create(&thread, NULL, count_up, &s));
  nanosleep(&(struct timespec){ 0, 50 * 1000000L }, NULL);
  CHECK_I64(s.count, 0);
  tsr__latch_open(&s.latch);
  pthread_join(thread, NULL);
  CHECK_I64(s.count, TIMES);
}
