/* The worker pool: every task runs once, whoever runs it; idle threads cost nothing. */
#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

static tsr_runtime *open_threads(int threads)
{
  return tsr__runtime_new(&(tsr_runtime_opts){ .threads = threads });
}

/* Each task marks its own place without synchronisation: TSan sees a lost join. */
struct job {
  int64_t count;
  int runs[2000];
  _Atomic int64_t sum;
  int workers;
  int64_t next_in_order; /* what a single worker must see */
};

static void mark(void *user, int64_t task, int worker)
{
  struct job *job = user;
  CHECK(task >= 0 && task < job->count);
  CHECK(worker >= 0 && worker < job->workers);
  job->runs[task]++;
  atomic_fetch_add(&job->sum, task);
}

static void run_job(tsr_runtime *rt, int64_t count)
{
  static struct job job;
  memset(&job, 0, sizeof job);
  job.count = count;
  job.workers = tsr__worker_count(rt);
  tsr__parallel(rt, count, mark, &job);
  for (int64_t i = 0; i < count; i++) CHECK_I64(job.runs[i], 1);
  CHECK_I64(job.sum, count * (count - 1) / 2);
}

TEST(every_task_runs_once)
{
  static const int threads[] = { 1, 2, 3, 8 };
  for (int i = 0; i < 4; i++) {
    tsr_runtime *rt = open_threads(threads[i]);
    CHECK_I64(tsr__worker_count(rt), threads[i]);
    for (int64_t count = 0; count < 2000; count += 1 + count / 3) run_job(rt, count);
    tsr_runtime_close(rt);
  }
}

TEST(many_rounds)
{
  tsr_runtime *rt = open_threads(3);
  int rounds = test_quick() ? 3000 : 30000;
  for (int i = 0; i < rounds; i++) run_job(rt, i % 7);
  tsr_runtime_close(rt);
}

/* Pauses of all lengths between jobs: workers are caught spinning, yielding, falling asleep. */
TEST(sleepers_wake)
{
  tsr_runtime *rt = open_threads(4);
  test_rng rng = test_seeded(2);
  for (int i = 0; i < 400; i++) {
    struct timespec pause = { 0, test_range(&rng, 0, 400000) };
    nanosleep(&pause, NULL);
    run_job(rt, 9);
  }
  tsr_runtime_close(rt);
}

/* One that was kept off its caller's core when it was woken is free again when it works. */
static void check_cores(void *user, int64_t task, int worker)
{
  cpu_set_t may;
  (void)task, (void)worker;
  CHECK_I64(sched_getaffinity(0, sizeof may, &may), 0);
  CHECK(CPU_EQUAL(&may, (cpu_set_t *)user));
  for (clock_t start = clock(); clock() - start < CLOCKS_PER_SEC / 10000;) continue;
}

TEST(who_was_woken_may_run_anywhere)
{
  cpu_set_t all;
  CHECK_I64(sched_getaffinity(0, sizeof all, &all), 0);
  tsr_runtime *rt = open_threads(3);
  for (int i = 0; i < 50; i++) {
    nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    tsr__parallel(rt, 9, check_cores, &all);
  }
  tsr_runtime_close(rt);
}

static void check_order(void *user, int64_t task, int worker)
{
  struct job *job = user;
  CHECK_I64(worker, 0);
  CHECK_I64(task, job->next_in_order++);
}

TEST(one_task_or_one_worker_runs_here_in_order)
{
  tsr_runtime *rt = open_threads(1);
  struct job job = { 0 };
  tsr__parallel(rt, 100, check_order, &job);
  CHECK_I64(job.next_in_order, 100);
  tsr_runtime_close(rt);
  rt = open_threads(4);
  job.next_in_order = 0;
  tsr__parallel(rt, 1, check_order, &job);
  tsr__parallel(rt, 0, check_order, &job);
  tsr__parallel(rt, -5, check_order, &job);
  CHECK_I64(job.next_in_order, 1);
  CHECK(!rt->workers); /* nothing was started for that */
  tsr_runtime_close(rt);
}

/* Tasks that wait for each other only end if as many workers run at once. */
static void meet(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  _Atomic int *here = user;
  atomic_fetch_add(here, 1);
  while (atomic_load(here) < 3) sched_yield();
}

TEST(workers_run_at_the_same_time)
{
  tsr_runtime *rt = open_threads(3);
  for (int i = 0; i < 20; i++) {
    _Atomic int here = 0;
    if (i % 2) usleep(2000); /* long enough to fall asleep: sleepers must be woken for this */
    tsr__parallel(rt, 3, meet, &here);
    CHECK_I64(here, 3);
  }
  tsr_runtime_close(rt);
}

/* The last task is long, so the caller has to sleep until it is done. */
static void nap(void *user, int64_t task, int worker)
{
  (void)worker;
  struct timespec pause = { 0, task ? 3000000 : 0 };
  nanosleep(&pause, NULL);
  atomic_fetch_add((_Atomic int *)user, 1);
}

TEST(the_caller_waits_for_the_last_task)
{
  tsr_runtime *rt = open_threads(2);
  for (int i = 0; i < 30; i++) {
    _Atomic int done = 0;
    tsr__parallel(rt, 2, nap, &done);
    CHECK_I64(done, 2);
  }
  tsr_runtime_close(rt);
}

static void *call_often(void *argument)
{
  tsr_runtime *rt = argument;
  for (int i = 0; i < 300; i++) {
    struct job *job = calloc(1, sizeof *job);
    job->count = i % 50;
    job->workers = tsr__worker_count(rt);
    tsr__parallel(rt, job->count, mark, job);
    for (int64_t k = 0; k < job->count; k++) CHECK_I64(job->runs[k], 1);
    free(job);
  }
  return NULL;
}

TEST(concurrent_callers_are_served_in_turn)
{
  tsr_runtime *rt = open_threads(3);
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&thread[i], NULL, call_often, rt));
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  tsr_runtime_close(rt);
}

TEST(opening_and_closing_never_hangs)
{
  for (int i = 0; i < 200; i++) {
    tsr_runtime *rt = open_threads(2 + i % 5);
    if (i % 3) run_job(rt, 5);
    if (i % 7 == 0) usleep(300); /* some close while the workers sleep */
    tsr_runtime_close(rt);
  }
}

static int64_t cpu_microseconds(void)
{
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * (int64_t)1000000 +
         usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

TEST(idle_workers_use_no_cpu)
{
  tsr_runtime *rt = open_threads(2);
  run_job(rt, 100);
  int64_t before = cpu_microseconds();
  usleep(300000);
  int64_t used = cpu_microseconds() - before;
  CHECK(used < 100000); /* a spinning thread would use 300000 */
  run_job(rt, 100);
  tsr_runtime_close(rt);
}

TEST(without_memory_the_caller_does_it_all)
{
  struct test_alloc state = { .fail_at = 2, .stay = true };
  tsr_allocator user = test_allocator(&state);
  tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){ .threads = 4, .allocator = &user });
  run_job(rt, 100);
  CHECK(!rt->workers);
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
}

TEST(without_threads_the_caller_does_it_all)
{
  struct rlimit none = { 0, 0 };
  if (geteuid() == 0 && setuid(65534)) SKIP("the limit on threads does not bind root");
  CHECK(!setrlimit(RLIMIT_NPROC, &none));
  tsr_runtime *rt = open_threads(4);
  run_job(rt, 100);
  tsr_runtime_close(rt);
  _exit(0); /* leak checkers need threads of their own at exit */
}

TEST(a_child_of_fork_can_use_and_close_its_copy)
{
#ifdef __SANITIZE_THREAD__
  SKIP("the thread sanitizer cannot follow threads that a child of fork starts");
#endif
  tsr_runtime *rt = open_threads(3);
  for (int i = 0; i < 40; i++) {
    run_job(rt, 100);
    if (i % 4) usleep((unsigned)i * 10); /* the threads work, spin, go to sleep or sleep */
    pid_t child = fork();
    if (child == 0) {
      for (int k = 0; k < 4; k++) {
        run_job(rt, 100);
        if (k % 2) usleep(500);
      }
      tsr_runtime_close(rt);
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_I64(status, 0);
  }
  tsr_runtime_close(rt);
}

static void start_inside(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  tsr__parallel(user, 2, nap, user);
}

TEST(a_job_inside_a_task_is_caught)
{
  pid_t child = fork();
  if (child == 0) {
    close(2);
    tsr_runtime *rt = open_threads(2);
    tsr__parallel(rt, 2, start_inside, rt);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
}

TEST(at_least_one_core)
{
  CHECK(tsr__core_count() >= 1);
  CHECK_I64(tsr__worker_count(NULL), 1);
}

/* ---- progress ---- */

struct heard {
  char text[200];
};

static bool hear(const char *what, int64_t done, int64_t total, void *user)
{
  struct heard *h = user;
  (void)done;
  (void)total;
  strcat(strcat(h->text, what), " ");
  return true;
}

static void nothing(void *user, int64_t task, int worker)
{
  (void)user;
  (void)task;
  (void)worker;
}

/* However soon it comes: whoever draws a line of progress wipes it before a result is written. */
TEST(other_work_is_always_told_of)
{
  struct heard h = { "" };
  tsr_runtime *rt =
      tsr__runtime_new(&(tsr_runtime_opts){ .threads = 2, .progress = hear, .progress_user = &h });
  rt->progress_gap = INT64_MAX / 2;
  static const char *const work[] = { "sort", "write" };
  for (int i = 0; i < 6; i++) CHECK(tsr__parallel_long(rt, work[i / 2 % 2], i, nothing, NULL));
  CHECK_STR(h.text, "sort write sort ");
  tsr_runtime_close(rt);
}
