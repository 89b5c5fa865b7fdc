/* Inside kernel/: mirrors, the copies in host memory of buffers that only their device can read.
 *
 * A function of type tsr__touch_fn lists the buffers of an ask, those that are read first. One walk
 * over this list brings the mirrors, another brings results back, so that an entry says once which
 * buffers it uses. The CPU's functions find a mirror at the buffer's `data` and need no other ask.
 *
 * All entries that use a buffer at one time share its mirror: it is filled when the first comes and
 * brought back when the last goes. Buffers of host memory may stand in any list: nothing happens to
 * them. */
#ifndef TSR_KERNEL_MIRROR_H
#define TSR_KERNEL_MIRROR_H

#include "kernel/fallback/fallback.h"

/* The error and the traffic of an entry of a run, set until its work is over: on a kind with
 * queues. */
typedef struct tsr__late {
  struct tsr__late *next;
  const tsr__error *of_run; /* the error of the run, which tells the runs apart */
  uint64_t after;           /* the number of the work that was queued last before the entry */
  tsr__error error;
  tsr__traffic traffic;
} tsr__late;

/* Devices of a kind beside the CPU's: the slot TSR__SLOT_DEVICES. */
typedef struct tsr__other {
  tsr__devices base;   /* all devices of the runtime */
  int first, count;    /* those of the kind */
  bool mixed;          /* the others are CPU devices */
  tsr__device_ops ops; /* complete */
  tsr__device_kind kind;
  pthread_mutex_t making;         /* held by the thread that prepares a kernel */
  pthread_mutex_t lock;           /* guards the fields of mirrors */
  _Atomic int64_t bytes, between; /* to and from mirrors; between devices of different kinds */
  _Atomic bool lost;              /* a mirror found no memory */
  tsr_runtime *rt;
  /* Under the lock, and of a kind with queues: the last number of all and of each device, and
   * buffers without references whose work is not over, oldest first. */
  uint64_t clock, *marked;
  tsr__queued *leaving, **leaving_end;
  tsr__late *told, **told_end; /* records of all runs, in the order of their entries */
} tsr__other;

static inline tsr__other *tsr__other_of(const tsr_runtime *rt)
{
  return rt->slots[TSR__SLOT_DEVICES];
}
static inline const tsr__device_ops *tsr__own_of(const tsr_runtime *rt)
{
  return tsr__devices_of(rt)->own;
}

/* Whether the host reads a buffer's memory in place. */
static inline bool tsr__on_host(const tsr__buffer *buffer)
{
  return !buffer->ops->get;
}

/* Whether a device is of the kind: each is, but where CPU devices are beside. */
static inline bool tsr__is_of_kind(const tsr__other *other, int device)
{
  return !other->mixed || (device >= other->first && device < other->first + other->count);
}

enum tsr__use {
  TSR__READS,
  TSR__WRITES, /* all of it, so that nothing is brought before */
  TSR__CHANGES
};

typedef struct tsr__touch {
  enum {
    TSR__TOUCH_BEFORE,
    TSR__TOUCH_AFTER,
    TSR__TOUCH_OPEN,
    TSR__TOUCH_CLOSE,
    TSR__TOUCH_SIDES, /* which of host and devices the buffers lie on */
    /* queues: which devices write; the host waits; a device waits; its work has a number */
    TSR__TOUCH_WRITERS,
    TSR__TOUCH_AWAIT,
    TSR__TOUCH_FOLLOW,
    TSR__TOUCH_MARK
  } step;
  int64_t count; /* buffers that were opened, or are to be closed */
  bool good;
  unsigned sides;    /* SIDES: bits of enum tsr__side */
  tsr__other *other; /* that of the listed buffers; NULL: all are of host memory */
  int device;        /* FOLLOW, MARK: whose work it is */
  int first, last;   /* WRITERS: the range of these devices */
  uint64_t number;   /* MARK */
} tsr__touch;

/* Whether a list may leave out the part of an ask that is another device's work. */
static inline bool tsr__touch_skips(const tsr__touch *touch, int device)
{
  return touch->step >= TSR__TOUCH_FOLLOW && touch->device != device;
}

/* A device works for the ask, whether or not it writes a buffer: accumulators are in no list. */
void tsr__touch_device(tsr__touch *touch, const tsr_runtime *rt, int device);
/* NULL is allowed. */
void tsr__touch_buffer(tsr__touch *touch, const tsr__buffer *buffer, enum tsr__use use);
void tsr__touch_buffers(tsr__touch *touch, tsr__buffer *const *buffers, int64_t count,
                        enum tsr__use use);

typedef void tsr__touch_fn(tsr__touch *touch, const void *ask);
tsr__touch_fn tsr__touch_read; /* the ask is a buffer, which is read */

/* The sides on which buffers of an ask lie. */
enum tsr__side { TSR__ON_HOST = 1, TSR__ON_DEVICES = 2, TSR__ON_BOTH = 3 };
unsigned tsr__ask_sides(tsr__touch_fn *fn, const void *ask);
/* Whether no buffer is of the kind, in a runtime that has CPU devices beside: the CPU's function
 * then serves the ask as it is. */
static inline bool tsr__is_for_cpu(const tsr_runtime *rt, tsr__touch_fn *fn, const void *ask)
{
  return tsr__other_of(rt)->mixed && !(tsr__ask_sides(fn, ask) & TSR__ON_DEVICES);
}

/* Whether the device itself can work on all of an ask's buffers. Brings their changed mirrors back
 * before. */
bool tsr__device_can(tsr__touch_fn *fn, const void *ask);
/* Fills the open mirrors of buffers that the device wrote. */
void tsr__device_did(tsr__touch_fn *fn, const void *ask);
/* Makes the mirrors. False: no memory, and nothing is held. */
bool tsr__mirrors_open(tsr__touch_fn *fn, const void *ask);
/* The same for an entry without a status: a failure is kept for tsr__devices_check. */
bool tsr__mirrors_open_or_lose(tsr_runtime *rt, tsr__touch_fn *fn, const void *ask);
void tsr__mirrors_close(tsr__touch_fn *fn, const void *ask);
/* Frees the mirror that a buffer still has when its last reference goes. */
void tsr__mirror_drop(tsr__buffer *buffer);
/* Whether a range of bytes was copied straight from or to a device's memory: not where a mirror is
 * in use. */
bool tsr__put_straight(tsr__buffer *to, size_t at, const void *host, size_t bytes);
bool tsr__get_straight(const tsr__buffer *from, size_t at, void *host, size_t bytes);

/* The order of queued work (queues.c); without queues they do nothing. tsr__queues_begin
 * comes before an own entry that uses the buffers of an ask, and waits where the entry writes none;
 * tsr__queues_end comes after it. */
void tsr__queues_begin(tsr__touch_fn *fn, const void *ask);
void tsr__queues_end(tsr__touch_fn *fn, const void *ask);
/* One step of these walks, under the lock. */
void tsr__queues_touch_device(tsr__touch *touch, int device);
void tsr__queues_touch(tsr__touch *touch, tsr__buffer *buffer, enum tsr__use use);
/* The kind's put and get, in order, under the lock. */
void tsr__queued_put(tsr__other *other, tsr__buffer *to, size_t at, const void *host, size_t bytes);
void tsr__queued_get(tsr__other *other, const tsr__buffer *from, size_t at, void *host,
                     size_t bytes);
/* Error: TSR_EIO once a device is lost. */
tsr_status tsr__queues_check(const tsr__other *other, tsr__error *error);
/* Error: that of tsr__queues_check, and TSR_ENOMEM once a mirror found no memory. */
tsr_status tsr__mirrors_check(const tsr__other *other, tsr__error *error);
/* A record for an own entry of a run, on a kind with queues: it lives until the run is over. NULL
 * without memory, with the run's error set. */
tsr__late *tsr__late_new(tsr__other *other, tsr__error *of_run);
/* Entries of the table of a kind with queues: memory that is not over is not taken again. */
tsr__buffer *tsr__queued_take(tsr_runtime *rt, int device, size_t bytes, tsr__error *error);
void tsr__queued_give(tsr__buffer *buffer);

/* Replaces a buffer of the device by one of host memory, or the contrary; NULL stays, and buffers
 * of CPU devices do. Error: TSR_ENOMEM, nothing replaced. */
tsr_status tsr__bring_to_host(tsr__buffer **buffer, tsr__error *error);
tsr_status tsr__bring_to_device(tsr__buffer **buffer, tsr__error *error);

tsr_status tsr__no_mirror(tsr__error *error); /* sets and returns TSR_ENOMEM */

/* The table's entries for rows (rows_on_host.c). */
extern const struct tsr__row_ops tsr__rows_or_host;
/* Completes the other entries (on_host.c); the kind's own are there. */
void tsr__complete(tsr__other *other);

#endif
