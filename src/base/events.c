/* The recorder of a runtime: a list of events under the runtime's lock, up to a limit.
 *
 * Events come when what they tell of is over, so inner ones stand before outer ones.
 *
 *   recorder   events  | inner | outer | inner | ..      threads  | first caller | .. |  32 at most
 *
 * Invariant: `on` is written under the lock and read without it: who reads an old value tells of
 * something that the lock then refuses, or is silent about what began as recording did. */
#include "base/events.h"

#include <time.h>

/* 56 MiB of them; what comes then is counted. */
#define MOST_EVENTS ((size_t)1 << 20)

/* Monotonic, so that no duration is negative when somebody sets the clock. */
int64_t tsr__now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The number of the calling thread in order of their first events; those past the last share. A
 * thread that begins after another ended may have its handle, and then its lane: they do not
 * overlap. */
static int32_t thread_number(tsr__recorder *r)
{
  pthread_t self = pthread_self();
  int n = 0;
  while (n < r->thread_count && !pthread_equal(r->threads[n], self)) n++;
  if (n == r->thread_count && n < TSR__LANES) r->threads[r->thread_count++] = self;
  return n < TSR__LANES ? n : TSR__LANES - 1;
}

/* What began before recording did is not told of. */
static bool is_told(const tsr__recorder *r, const tsr__event *event)
{
  return atomic_load_explicit(&r->on, memory_order_relaxed) && event->start >= r->origin;
}

/* Moves the events to `wider` if there are more places in that, and gives what is left over. */
static tsr__events widen(tsr__recorder *r, tsr__events wider)
{
  tsr__events spare = { .at = r->events, .room = r->room };
  if (wider.room <= r->room) return wider;
  if (r->count) memcpy(wider.at, r->events, r->count * sizeof *r->events);
  r->events = wider.at;
  r->room = wider.room;
  return spare;
}

/* Called under the lock, and lets it go meanwhile: the allocator is the user's, and may wait for a
 * thread that waits for the lock. Others add, widen, begin and end while it does. False: out of
 * memory. */
static bool make_room(tsr_runtime *rt)
{
  tsr__recorder *r = &rt->recorder;
  tsr__events wider = { .room = r->room ? 2 * r->room : 64 };
  pthread_mutex_unlock(&rt->lock);
  wider.at = tsr__new_raw(&rt->heap, wider.room * sizeof *wider.at);
  pthread_mutex_lock(&rt->lock);
  if (!wider.at) return false;
  tsr__events spare = widen(r, wider);
  pthread_mutex_unlock(&rt->lock);
  tsr__events_free(rt, &spare);
  pthread_mutex_lock(&rt->lock);
  return true;
}

/* The end is taken before the lock is waited for. */
void tsr__events_add(tsr_runtime *rt, const tsr__event *event)
{
  tsr__recorder *r = &rt->recorder;
  if (!event->start) return;
  int64_t end = event->end ? event->end : tsr__now();
  pthread_mutex_lock(&rt->lock);
  while (is_told(r, event) && r->count == r->room && r->room < MOST_EVENTS && make_room(rt))
    continue;
  bool told = is_told(r, event);
  if (told && r->count == r->room) {
    r->lost++;
  } else if (told) {
    r->events[r->count] = *event;
    r->events[r->count].thread = thread_number(r);
    r->events[r->count++].end = end;
  }
  pthread_mutex_unlock(&rt->lock);
}

bool tsr__events_open(tsr_runtime *rt)
{
  tsr__recorder *r = &rt->recorder;
  pthread_mutex_lock(&rt->lock);
  bool open = !atomic_load_explicit(&r->on, memory_order_relaxed);
  if (open) {
    r->origin = tsr__now();
    r->lost = r->thread_count = 0;
    /* The thread that begins is the first lane. */
    thread_number(r);
    atomic_store_explicit(&r->on, true, memory_order_relaxed);
  }
  pthread_mutex_unlock(&rt->lock);
  return open;
}

bool tsr__events_take(tsr_runtime *rt, tsr__events *out)
{
  tsr__recorder *r = &rt->recorder;
  pthread_mutex_lock(&rt->lock);
  bool on = atomic_load_explicit(&r->on, memory_order_relaxed);
  if (on) {
    *out = (tsr__events){ r->events, r->count, r->room, r->origin, r->lost };
    r->events = NULL;
    r->count = r->room = 0;
    atomic_store_explicit(&r->on, false, memory_order_relaxed);
  }
  pthread_mutex_unlock(&rt->lock);
  return on;
}

void tsr__events_free(tsr_runtime *rt, tsr__events *events)
{
  tsr__del(&rt->heap, events->at, events->room * sizeof *events->at);
  *events = (tsr__events){ 0 };
}

/*   first   0 until somebody has set it, then the least of all that come
 *   last    the greatest
 *
 * Each by a loop that ends when it is beaten: no lock, as every task of a kernel comes by. */
void tsr__busy_add(tsr__busy *busy, int64_t start)
{
  if (!start) return;
  int64_t end = tsr__now(), none = 0, seen = atomic_load(&busy->last);
  atomic_compare_exchange_strong(&busy->first, &none, start);
  for (int64_t first = atomic_load(&busy->first);
       start < first && !atomic_compare_exchange_weak(&busy->first, &first, start);)
    continue;
  while (end > seen && !atomic_compare_exchange_weak(&busy->last, &seen, end)) continue;
}
