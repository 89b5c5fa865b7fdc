/* Starting threads that take none of the program's signals, moving them, and their turns. */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What a thread brings about itself must reach it: a fault whose signal is blocked ends the process
 * without the program's handler, so that a crash here would leave no report, and a profiler would
 * not see the threads that do the work. */
static const int own_signals[] = { SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                   SIGTRAP, SIGABRT, SIGSYS, SIGPROF };

bool tsr__thread_start(pthread_t *out, tsr__thread_work work, size_t stack, void *(*run)(void *),
                       void *user)
{
  pthread_t thread;
  pthread_attr_t attr;
  sigset_t most, before;
  if (pthread_attr_init(&attr)) return false;
  /* A size that the system does not take is its own choice again. */
  if (stack) pthread_attr_setstacksize(&attr, stack);
  sigfillset(&most);
  for (size_t i = 0; i < sizeof own_signals / sizeof *own_signals; i++)
    sigdelset(&most, own_signals[i]);
  if (work == TSR__THREAD_USERS) sigdelset(&most, SIGPIPE);
  /* Threads inherit the mask of their maker, so it is set around their making and put back: set by
   * the thread itself, it would leave a moment in which a signal comes there. */
  pthread_sigmask(SIG_BLOCK, &most, &before);
  bool started = !pthread_create(&thread, &attr, run, user);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  if (started) *out = thread;
  return started;
}

/* A system may wake a thread where its waker runs, and in a virtual machine take a core that sleeps
 * for one that is not there, so two that wait for each other share a core for long. */
bool tsr__thread_step_aside(const int16_t *cores, int count)
{
  cpu_set_t all, others;
  int own = sched_getcpu();
  CPU_ZERO(&all);
  if (own < 0 || own >= CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all)) return false;
  others = all;
  CPU_CLR((size_t)own, &others);
  for (int i = 0; i < count; i++)
    if (cores[i] >= 0 && cores[i] < CPU_SETSIZE) CPU_CLR((size_t)cores[i], &others);
  if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof others, &others)) return false;
  (void)sched_setaffinity(0, sizeof all, &all);
  return true;
}

/* The request of sched_setattr, whose header not every C library has. */
typedef struct sched_request {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
} sched_request;

/* A thread whose turn is shorter than that of the thread on the core goes first when it is woken.
 * Turns are of 3 ms by default. */
void tsr__thread_wake_soon(void)
{
  enum { FIRST_VERSION = 48, TURN_NS = 500000 };
  sched_request r = { .size = FIRST_VERSION };
  if (syscall(SYS_sched_getattr, 0, &r, FIRST_VERSION, 0) || r.policy != SCHED_OTHER) return;
  r.runtime = TURN_NS;
  (void)syscall(SYS_sched_setattr, 0, &r, 0);
}
