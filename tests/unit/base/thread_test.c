/* Threads of the library: which signals they take, their stacks, and what their maker's mask is
 * afterwards. */
#include "base/thread.h"
#include "harness.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct seen {
  sigset_t mask;
  size_t stack;
} seen;

static void *look(void *user)
{
  seen *s = user;
  pthread_attr_t attr;
  pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
  pthread_getattr_np(pthread_self(), &attr);
  pthread_attr_getstacksize(&attr, &s->stack);
  pthread_attr_destroy(&attr);
  return NULL;
}

static seen seen_of(tsr__thread_work work, size_t stack)
{
  seen s = { .stack = 0 };
  pthread_t thread;
  sigset_t before, after;
  sigemptyset(&s.mask);
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  CHECK(tsr__thread_start(&thread, work, stack, look, &s));
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (int i = 1; i < 32; i++) CHECK_I64(sigismember(&after, i), sigismember(&before, i));
  pthread_join(thread, NULL);
  return s;
}

static void check_blocked(const seen *s, bool pipes)
{
  static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD };
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    CHECK_I64(sigismember(&s->mask, signals[i]), 1);
  CHECK_I64(sigismember(&s->mask, SIGPIPE), pipes);
}

TEST(only_threads_that_work_for_users_take_a_signal)
{
  seen own = seen_of(TSR__THREAD_OWN, 0), users = seen_of(TSR__THREAD_USERS, 0);
  check_blocked(&own, true);
  check_blocked(&users, false);
}

static void *page;
static volatile sig_atomic_t taken;

static void take(int signal)
{
  taken = signal;
}

/* Makes the page writable, so that what faulted goes on. */
static void mend(int signal)
{
  taken = signal;
  mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void *raise_one(void *user)
{
  raise(*(const int *)user);
  return NULL;
}

static void *write_page(void *user)
{
  *(volatile char *)user = 1;
  return NULL;
}

/* What a thread's own instructions bring about is taken there: by the program's handler if it has
 * one, and by profilers, which look at the thread that runs. */
TEST(faults_and_profilers_reach_each_thread)
{
  static const int signals[] = {
    SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF
  };
  pthread_t thread;
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    int number = signals[i];
    sigaction(number, &(struct sigaction){ .sa_handler = take }, NULL);
    taken = 0;
    CHECK(tsr__thread_start(&thread, TSR__THREAD_OWN, 0, raise_one, &number));
    pthread_join(thread, NULL);
    CHECK_I64(taken, number);
  }
  page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  sigaction(SIGSEGV, &(struct sigaction){ .sa_handler = mend }, NULL);
  taken = 0;
  CHECK(tsr__thread_start(&thread, TSR__THREAD_OWN, 0, write_page, page));
  pthread_join(thread, NULL);
  CHECK_I64(taken, SIGSEGV);
  CHECK_I64(*(char *)page, 1);
  munmap(page, 4096);
}

TEST(what_their_maker_blocks_stays_blocked)
{
  sigset_t pipes;
  sigemptyset(&pipes);
  sigaddset(&pipes, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipes, NULL);
  seen users = seen_of(TSR__THREAD_USERS, 0);
  check_blocked(&users, true);
}

/* The smaller one first: the C library gives stacks of ended threads again. */
TEST(stacks_are_as_large_as_asked)
{
#ifdef __SANITIZE_THREAD__
  SKIP("the thread sanitizer makes them larger");
#endif
  CHECK_I64((int64_t)seen_of(TSR__THREAD_OWN, 256 << 10).stack, 256 << 10);
  CHECK_I64((int64_t)seen_of(TSR__THREAD_OWN, TSR__THREAD_STACK).stack, 8 << 20);
}

/* ---- moving ---------------------------------------------------------------------------------- */

/* The system may move a thread back at once, so not each time must be seen. */
TEST(a_thread_that_steps_aside_is_on_another_core_and_may_use_all_as_before)
{
  cpu_set_t before, after;
  int moved = 0;
  CHECK(!sched_getaffinity(0, sizeof before, &before));
  for (int i = 0; i < 50; i++) {
    int core = sched_getcpu();
    bool stepped = tsr__thread_step_aside(NULL, 0);
    CHECK(stepped == (CPU_COUNT(&before) > 1));
    moved += stepped && sched_getcpu() != core;
    CHECK(!sched_getaffinity(0, sizeof after, &after));
    CHECK(CPU_EQUAL(&before, &after));
  }
  if (CPU_COUNT(&before) > 1) CHECK(moved > 25);
}

TEST(a_thread_stays_where_no_other_core_is_left)
{
  int16_t cores[CPU_SETSIZE];
  cpu_set_t before, after;
  CHECK(!sched_getaffinity(0, sizeof before, &before));
  for (int i = 0; i < CPU_SETSIZE; i++) cores[i] = (int16_t)i;
  CHECK(!tsr__thread_step_aside(cores, CPU_SETSIZE));
  CHECK(!sched_getaffinity(0, sizeof after, &after));
  CHECK(CPU_EQUAL(&before, &after));
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* The first fields that sched_getattr fills, to the length of a turn. */
typedef struct turns {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t length;
  uint64_t unused[2];
} turns;

static turns own_turns(void)
{
  turns t = { .size = sizeof t };
  CHECK(!syscall(SYS_sched_getattr, 0, &t, sizeof t, 0));
  return t;
}

/* Systems that take no request say a length of 0, before and after. */
TEST(a_thread_that_wakes_soon_has_short_turns_and_keeps_its_priority)
{
  CHECK(!setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 3));
  turns before = own_turns();
  tsr__thread_wake_soon();
  turns after = own_turns();
  CHECK_I64(after.nice, 3);
  CHECK_I64(after.policy, SCHED_OTHER);
  CHECK(after.length < before.length || !before.length);
}

TEST(a_thread_of_another_policy_keeps_its_turns)
{
  CHECK(!sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ .sched_priority = 0 }));
  turns before = own_turns();
  tsr__thread_wake_soon();
  turns after = own_turns();
  CHECK_I64(after.policy, SCHED_BATCH);
  CHECK_I64((int64_t)after.length, (int64_t)before.length);
}
