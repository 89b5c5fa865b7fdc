/* Saves that go on while the program does.
 *
 *   save(.background)   wait for the one before -> evaluate, hold values -> thread
 *   thread                                             writes, agrees, commits -> how it went
 *   open                                    wait until it is over, its error stays to be told
 *   wait, next save, close of the runtime   <-- its error, told once
 *
 * Values never change and are held, so nothing is copied; only blobs are. There is one at a time:
 * who saves faster than the disk writes waits, and memory does not grow. The thread works alone:
 * the workers are the program's.
 *
 * Invariant: under the lock; `running` until the thread has set `done`, and is joined by who sees
 * that. */
#include "base/thread.h"
#include "checkpoint/checkpoint_room.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

/* Who waits asks the progress callback so often, 50 times a second. */
enum { ASK_NS = 20000000 };

/* One a runtime, in its slot, made by the first save that wants it. */
struct tsr__background {
  tsr_runtime *rt;
  pthread_mutex_t lock;
  pthread_cond_t ended;
  pthread_t thread;
  pid_t process; /* whose thread it is: a child of fork has none */
  bool running, done;
  tsr__saving saving;
  tsr__error error; /* of one that nobody was told of yet */
};

/* ---- the runtime's -------------------------------------------------------------------------- */

/* At close of the runtime: the save is finished, as its files would be half written otherwise, and
 * what went wrong has no other place to be told. In a child of fork the thread is not there to be
 * joined, and the lock is in whatever state the parent had it. */
static void background_free(tsr_runtime *rt, void *slot)
{
  tsr__background *b = slot;
  if (b->process == getpid()) {
    if (b->running) pthread_join(b->thread, NULL);
    if (b->error.status)
      tsr__log_last(rt, "checkpoint", "a save in the background failed: %s", b->error.text);
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
  }
  tsr__saving_free(&b->saving);
  tsr__del(&rt->heap, b, sizeof *b);
}

static bool init_locks(tsr__background *b)
{
  if (pthread_mutex_init(&b->lock, NULL)) return false;
  if (!pthread_cond_init(&b->ended, NULL)) return true;
  pthread_mutex_destroy(&b->lock);
  return false;
}

/* Memory is asked for without the lock, as the allocator is the user's: so two threads may both
 * make one, and the later one throws its own away. */
tsr__background *tsr__background_of(tsr_runtime *rt, bool make)
{
  pthread_mutex_lock(&rt->lock);
  tsr__background *b = rt->slots[TSR__SLOT_SAVES];
  pthread_mutex_unlock(&rt->lock);
  if (b || !make) return b;
  tsr__background *fresh = tsr__new(&rt->heap, sizeof *fresh);
  if (!fresh) return NULL;
  fresh->rt = rt;
  fresh->process = getpid();
  /* Enough for tsr__saving_free, which finds no catalog and does nothing. */
  fresh->saving.rt = rt;
  if (!init_locks(fresh)) {
    tsr__del(&rt->heap, fresh, sizeof *fresh);
    return NULL;
  }
  pthread_mutex_lock(&rt->lock);
  b = rt->slots[TSR__SLOT_SAVES];
  if (!b) {
    rt->slot_free[TSR__SLOT_SAVES] = background_free;
    rt->slots[TSR__SLOT_SAVES] = fresh;
  }
  pthread_mutex_unlock(&rt->lock);
  if (!b) return fresh;
  background_free(rt, fresh); /* another thread was sooner */
  return b;
}

/* ---- one save -------------------------------------------------------------------------------- */

/* The saving is the thread's until `done`: nobody else looks at it meanwhile. */
static void *run(void *user)
{
  tsr__background *b = user;
  tsr__error error = { .status = TSR_OK };
  tsr__saving_run(&b->saving, &error);
  pthread_mutex_lock(&b->lock);
  b->error = error;
  b->done = true;
  pthread_cond_broadcast(&b->ended);
  pthread_mutex_unlock(&b->lock);
  return NULL;
}

/* The struct is moved: on success the caller's is not to be freed. Without `progress` the thread
 * does all of it itself and asks no callback, which is the user's and runs on the threads that call
 * us. */
bool tsr__background_start(tsr__background *b, const tsr__saving *saving)
{
  pthread_mutex_lock(&b->lock);
  bool good = !b->running && b->process == getpid();
  if (good) {
    b->saving = *saving;
    /* It is the caller's, on a stack that is gone by then. */
    b->saving.progress = NULL;
    b->done = false;
    good = b->running = tsr__thread_start(&b->thread, TSR__THREAD_OWN, 0, run, b);
    /* It is the caller's still, and must not be freed twice. */
    if (!good) b->saving = (tsr__saving){ .rt = b->rt };
  }
  pthread_mutex_unlock(&b->lock);
  return good;
}

/* Cancelled, it leaves the save going on: only waiting was given up. A child of fork waits for
 * nothing, as the save is its parent's. */
static tsr_status await(tsr__background *b, bool asks, tsr__error *error)
{
  tsr__progress progress = { .rt = b ? b->rt : NULL, .what = TSR__CHECKPOINT };
  bool stop = false;
  if (!b || b->process != getpid()) return TSR_OK;
  pthread_mutex_lock(&b->lock);
  while (b->running && !b->done && !stop) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ASK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&b->ended, &b->lock, &until);
    /* Without the lock: the callback is the user's. */
    pthread_mutex_unlock(&b->lock);
    stop = tsr__progress_stops(&progress, 0);
    pthread_mutex_lock(&b->lock);
  }
  /* Of several that wait one joins; the others find it no longer running. */
  if (b->running && b->done) {
    pthread_join(b->thread, NULL); /* it has nothing left to do but to end */
    tsr__saving_free(&b->saving);
    b->saving = (tsr__saving){ .rt = b->rt };
    b->running = false;
  }
  if (asks && !b->running && b->error.status) {
    tsr__error_set(error, b->error.status, "a save in the background: %s", b->error.text);
    b->error = (tsr__error){ .status = TSR_OK };
  }
  pthread_mutex_unlock(&b->lock);
  return stop && !error->status ? tsr__cancelled(error, TSR__CHECKPOINT) : error->status;
}

tsr_status tsr__background_wait(tsr__background *b, tsr__error *error)
{
  return await(b, true, error);
}

tsr_status tsr__background_settle(tsr__background *b, tsr__error *error)
{
  return await(b, false, error);
}
