/* Processes of other hosts: an engine, the thread that answers for this process, and who helps it.
 *
 *   who waits    help ... help ... nap              |
 *   the thread         (stays out)     progress ... | poll ...      while nobody waits
 *
 * Both go into the engine under one lock. The thread stays out while another one helps: it would
 * only take the core from it.
 *
 * Invariant: `left` is raised before a get begins and falls when it has come to its end, under the
 * lock both times.
 *
 *    lock    held by whoever calls the engine, whose calls back come under it, too
 *    park    the thread's rest while others help; not held in the engine
 *
 * Counters are atomic, as they are read without either. */
#include "comm/far.h"

#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Between two looks at an engine that cannot tell when something comes: soon after something came,
 * and each time twice as long. */
#define ASK_FIRST_NS 50000
#define ASK_MOST_NS 1000000

enum {
  FUTEX_OF_ONE_WAIT = 128, /* of one process's threads */
  FUTEX_OF_ONE_WAKE = 129,
  TRIES = 1000,     /* to send a note, of a ms each */
  STACK = 256 << 10 /* UCX's own calls are deep */
};

struct tsr__far {
  tsr__heap *heap;
  const tsr__plugin_calls *calls;
  tsr__plugin *plugin;
  tsr__plugin_host host; /* whose `user` the engine does not see */
  pid_t process;         /* a child that was forked has no thread */
  pthread_mutex_t lock;  /* of the engine */
  pthread_mutex_t park;  /* of the thread's rest */
  pthread_cond_t alone;  /* nobody helps any more */
  bool parked;
  _Atomic int helpers;
  pthread_t thread;
  bool started;
  _Atomic bool stop;
  int wake;
  _Atomic int left;
  _Atomic bool in_vain;
  _Atomic uint32_t bell; /* raised when a get has come */
};

/* ---- the engine calls back ------------------------------------------------------------------- */

/* The order is what tsr__far_left and tsr__far_nap rely on: who sees the count fall sees whether
 * it was in vain, and who saw the bell before does not sleep. */
static void on_got(void *user, bool good)
{
  tsr__far *far = user;
  if (!good) atomic_store(&far->in_vain, true);
  atomic_fetch_sub(&far->left, 1);
  atomic_fetch_add(&far->bell, 1);
  syscall(SYS_futex, &far->bell, FUTEX_OF_ONE_WAKE, INT_MAX, NULL, NULL, 0);
}

static void on_note(void *user, int from, tsr__plugin_note note)
{
  tsr__far *far = user;
  far->host.note(far->host.user, from, note);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void rest_ms(int64_t ms)
{
  const struct timespec some = { ms / 1000, ms % 1000 * 1000000 };
  nanosleep(&some, NULL);
}

/* While others help.
 * `helpers` is looked at again under the lock under which the last helper signals: so that
 * signal cannot come between the look and the wait. */
static void stay_out(tsr__far *far)
{
  pthread_mutex_lock(&far->park);
  far->parked = true;
  while (atomic_load(&far->helpers) && !atomic_load(&far->stop))
    pthread_cond_wait(&far->alone, &far->park);
  far->parked = false;
  pthread_mutex_unlock(&far->park);
}

/* An engine with a file is armed under the lock right after its progress: only if it is sure to
 * tell of what comes from now on does the thread sleep without a limit. Without a file the
 * thread asks by the clock, less often the longer nothing came. `wake` ends either. */
static void *answer(void *user)
{
  tsr__far *far = user;
  struct pollfd files[2] = { { far->wake, POLLIN, 0 }, { -1, POLLIN, 0 } };
  tsr__thread_wake_soon();
  if (far->calls->file) files[1].fd = far->calls->file(far->plugin);
  bool tells = files[1].fd >= 0;
  struct timespec pause = { 0, ASK_FIRST_NS };
  while (!atomic_load(&far->stop)) {
    bool armed = true;
    pthread_mutex_lock(&far->lock);
    bool any = far->calls->progress(far->plugin);
    if (tells) armed = far->calls->arm(far->plugin);
    pthread_mutex_unlock(&far->lock);
    pause.tv_nsec = any ? ASK_FIRST_NS : pause.tv_nsec * 2;
    if (pause.tv_nsec > ASK_MOST_NS) pause.tv_nsec = ASK_MOST_NS;
    if (armed) ppoll(files, 2, tells ? NULL : &pause, NULL);
    if (atomic_load(&far->helpers)) stay_out(far);
  }
  return NULL;
}

/* Only counted: the thread sees it at its next turn. Until then both are in the engine by turns,
 * under its lock. */
void tsr__far_begin(tsr__far *far)
{
  atomic_fetch_add(&far->helpers, 1);
}

void tsr__far_end(tsr__far *far)
{
  if (atomic_fetch_sub(&far->helpers, 1) > 1) return;
  pthread_mutex_lock(&far->park);
  if (far->parked) pthread_cond_signal(&far->alone);
  pthread_mutex_unlock(&far->park);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Also of one whose engine did not open: `plugin` is not looked at. */
static void free_far(tsr__far *far)
{
  if (far->wake >= 0) close(far->wake);
  pthread_cond_destroy(&far->alone);
  pthread_mutex_destroy(&far->park);
  pthread_mutex_destroy(&far->lock);
  tsr__del(far->heap, far, sizeof *far);
}

/* The engine's `user` is this end, and not the caller's, whose note is called from on_note:
 * counters here come first. */
tsr_status tsr__far_open(const tsr__far_ask *ask, tsr__far **out, tsr__plugin_address *address,
                         tsr__error *error)
{
  char why[TSR__PLUGIN_WHY] = "";
  tsr__far *far = tsr__new(ask->heap, sizeof *far);
  if (!far) return tsr__error_set(error, TSR_ENOMEM, "no memory for processes of other hosts");
  far->heap = ask->heap;
  far->calls = ask->calls;
  far->host = ask->host;
  far->process = getpid();
  pthread_mutex_init(&far->lock, NULL);
  pthread_mutex_init(&far->park, NULL);
  pthread_cond_init(&far->alone, NULL);
  far->wake = eventfd(0, EFD_CLOEXEC);
  tsr__plugin_host host = ask->host;
  host.user = far;
  host.note = on_note;
  host.got = on_got;
  if (far->wake >= 0 && far->calls->open(&host, &far->plugin, address, why)) {
    *out = far;
    return TSR_OK;
  }
  free_far(far);
  return tsr__error_set(error, TSR_EIO, "the engine '%s' cannot be opened: %s", ask->engine,
                        *why ? why : "the process cannot open more files");
}

tsr_status tsr__far_connect(tsr__far *far, int process, const tsr__plugin_address *address,
                            tsr__error *error)
{
  char why[TSR__PLUGIN_WHY] = "";
  if (far->calls->connect(far->plugin, process, address, why)) return TSR_OK;
  return tsr__error_set(error, TSR_EIO, "the engine '%s' cannot reach process %d: %s",
                        far->calls->name, process, why);
}

tsr_status tsr__far_start(tsr__far *far, tsr__error *error)
{
  far->started = tsr__thread_start(&far->thread, TSR__THREAD_OWN, STACK, answer, far);
  if (far->started) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM, "the system has no thread for the engine");
}

/* It may rest in either place, so both are woken: by the signal where it is parked, by the file
 * where it polls. `stop` is set under the lock that guards the rest, or the signal could come
 * before the wait. */
static void end_thread(tsr__far *far)
{
  pthread_mutex_lock(&far->park);
  atomic_store(&far->stop, true);
  pthread_cond_signal(&far->alone);
  pthread_mutex_unlock(&far->park);
  eventfd_write(far->wake, 1);
  pthread_join(far->thread, NULL);
}

/* In a child of fork the engine is the parent's: to touch it would speak for the parent. The
 * same holds for close, where the copy is left as it is. */
bool tsr__far_flushed(tsr__far *far, int process)
{
  if (!far->started || far->process != getpid()) return true;
  pthread_mutex_lock(&far->lock);
  bool out = far->calls->flushed(far->plugin, process);
  pthread_mutex_unlock(&far->lock);
  return out;
}

void tsr__far_close(tsr__far *far, bool broken)
{
  if (!far || far->process != getpid()) return;
  if (far->started) end_thread(far);
  far->calls->close(far->plugin, broken);
  free_far(far);
}

/* ---- sending and getting --------------------------------------------------------------------- */

/* The lock is let go between the tries: memory for notes comes back by progress, which the
 * thread or a helper makes. */
bool tsr__far_send(tsr__far *far, int process, tsr__plugin_note note)
{
  for (int i = 0; i < TRIES; i++) {
    pthread_mutex_lock(&far->lock);
    bool sent = far->calls->send(far->plugin, process, note);
    pthread_mutex_unlock(&far->lock);
    if (sent) return true;
    rest_ms(1);
  }
  return false;
}

/* Counted before it begins, as a get that fails at once calls `got` within the call. One that
 * did not begin has no `got`, and is taken back here. */
void tsr__far_get(tsr__far *far, const tsr__plugin_get *get)
{
  pthread_mutex_lock(&far->lock);
  atomic_fetch_add(&far->left, 1);
  if (!far->calls->get(far->plugin, get)) {
    atomic_fetch_sub(&far->left, 1);
    atomic_store(&far->in_vain, true);
  }
  pthread_mutex_unlock(&far->lock);
}

/* The count is read first: a get that failed says so before it falls, so none is missed. Once
 * all have come the sign is wiped for those that are begun next. */
int tsr__far_left(tsr__far *far, bool *in_vain)
{
  int left = atomic_load(&far->left);
  *in_vain = atomic_load(&far->in_vain);
  if (!left) atomic_store(&far->in_vain, false);
  return left;
}

void tsr__far_help(tsr__far *far)
{
  pthread_mutex_lock(&far->lock);
  far->calls->progress(far->plugin);
  pthread_mutex_unlock(&far->lock);
}

/* The bell is read before the count: one that comes in between has rung, and the system does not
 * sleep on an old number. */
void tsr__far_nap(tsr__far *far, int64_t ms)
{
  const struct timespec some = { ms / 1000, ms % 1000 * 1000000 };
  uint32_t bell = atomic_load(&far->bell);
  if (atomic_load(&far->left))
    syscall(SYS_futex, &far->bell, FUTEX_OF_ONE_WAIT, bell, &some, NULL, 0);
}
