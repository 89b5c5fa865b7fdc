/* Starting threads that take none of the program's signals. */
#include "base/thread.h"

#include <signal.h>

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
