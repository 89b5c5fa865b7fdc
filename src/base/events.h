/* What a runtime did and when, while somebody records it (tsr_profile_begin). Off, all that is left
 * of it is one load at each place that would tell something. */
#ifndef TSR_BASE_EVENTS_H
#define TSR_BASE_EVENTS_H

#include "base/base.h"

/* A stretch of time on a lane: a thread of the host, or a device as a thread had it work. Texts are
 * static or of the runtime (tsr_runtime_site). */
struct tsr__event {
  const char *name, *kind, *site; /* site: NULL where there is none */
  int32_t device;                 /* -1: the host */
  int32_t thread;                 /* filled in: the number of the calling thread */
  int64_t start, end;             /* nanoseconds; end 0: now */
  int64_t bytes;                  /* that crossed between devices */
};

/* Events taken out of a runtime. */
typedef struct tsr__events {
  tsr__event *at;
  size_t count, room;
  int64_t origin; /* when recording began */
  int64_t lost;   /* so many more found no room */
} tsr__events;

/* Nanoseconds of a clock that never goes back. */
int64_t tsr__now(void);

/* When something begins that may be told of: 0 where nobody records. */
static inline int64_t tsr__events_begin(const tsr_runtime *rt)
{
  return atomic_load_explicit(&rt->recorder.on, memory_order_relaxed) ? tsr__now() : 0;
}

/* Tells of what began at event->start; nothing where that is 0. From any thread. */
void tsr__events_add(tsr_runtime *rt, const tsr__event *event);

/* Begins to record; false: it is recorded already. */
bool tsr__events_open(tsr_runtime *rt);
/* Ends it and gives what was recorded, which the caller frees; false: nobody records. */
bool tsr__events_take(tsr_runtime *rt, tsr__events *out);
void tsr__events_free(tsr_runtime *rt, tsr__events *events);

/* From the first to the last work that tasks did for a device; zeros: none. Any worker adds. */
typedef struct tsr__busy {
  _Atomic int64_t first, last;
} tsr__busy;

/* Adds what began at `start`; nothing where that is 0. */
void tsr__busy_add(tsr__busy *busy, int64_t start);

#endif
