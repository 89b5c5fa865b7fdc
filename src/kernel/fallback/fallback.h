/* Devices of a kind that cannot do everything: the host does the rest.
 *
 *   an entry of the runtime's table calls
 *     the kind's own entry     where the kind has one and supports this work
 *     the CPU's function       otherwise, on mirrors of the buffers
 *
 *   device   [ operand ]                    [ result ]
 *                |  get                         ^  put       bytes are counted: tsr__host_bytes
 *   host     [ mirror ]  -> CPU's entry -> [ mirror ]
 *
 * Accumulators of a kind without entries for them, and the lists of rows (packed keys, indices,
 * groups, records), lie in host memory and never on the device; columns are the device's.
 *
 * A new kind of devices begins with five functions and adds those that are worth it:
 *
 *   take, give, memory     buffers of the kind; `ops` of a header is the runtime's table, `data` is
 *                          NULL, and the kind's own fields follow the header
 *   put, get               any range of bytes, over when the call returns; for different buffers on
 *                          several threads at once; they call no entry of the table
 *   from_host, to_host     worth it where boxes are no runs of bytes; bools are bits on the device
 *   copy, assemble         worth it first of the rest: moves between devices then stay there
 *   fill, number           constants that are not worth a copy
 *   run, call, all_reduce  with `supports`, one kernel, routine or reduction after the other;
 *                          kernels with accumulators need the entries about partials as well
 *   prepare                where a kernel has a form of the kind's own, such as compiled code: made
 *                          once, and freed with the plan
 *   map, unmap             where the host can read the memory in place
 *   staging_open, _close   where the host can fill the memory in place, or has memory for transfers
 *   share, open_shared,    for runtimes of several processes, which are refused without these
 *   fetch
 *   adopt                  where devices can read the user's memory; else it is copied once
 *   rows                   any of the entries; each gets columns on devices, and lists on the host
 *
 * An own entry is called on buffers of its kind alone, and mirrors that were written to are brought
 * back before. The entry may be called by several threads at once, on one receiver too.
 *
 * Entries may return before their work is over where the kind has queues (tsr__device_queue): the
 * runtime then orders the queues, waits before the host reads, and keeps memory until
 * its last reader and its last writer are over (queues.c).
 *
 * Devices of a kind may stand beside CPU devices in one runtime ("cpu:4,late:2"). Each buffer is
 * memory of its device, so that where the buffers of an ask lie decides:
 *
 *   all of the CPU     the CPU's function, as in a runtime of CPU devices alone
 *   all of the kind    as above
 *   of both            run: parts of each kind by their own function; assemble: the same for parts
 *                      to be assembled; copy: put or get of the device; all others: the host, in
 *                      mirrors
 *
 * Beside CPU devices a kind's entries about partials are not called: partial results of both kinds
 * meet, and lie on the host therefore. One kind stands beside the CPU, not several: a buffer is
 * then the host's or the device's, and no entry learns of more kinds than its own.
 *
 * An entry without a status cannot say that the host has no memory for a mirror. The runtime then
 * keeps that error: every later run and read fails with it (tsr__devices_check). */
#ifndef TSR_KERNEL_FALLBACK_H
#define TSR_KERNEL_FALLBACK_H

#include "kernel/device/device.h"
#include "kernel/fuse/schedule.h"

/* The function that opens the devices of each kind, ids first .. first + count - 1. */
#define KIND(name) tsr_status tsr__open_##name(tsr_runtime *rt, int first, int count);
#include "topology/kinds.def"

/* The queues of a kind whose entries may return before their work is over: one a device, in order.
 *
 *   device 0   | run | run | number 3 |
 *   device 1   | after 3 of device 0 | copy | number 4 |      a token is a device and a number
 *
 * Numbers are the runtime's and ascend in each queue. An entry queues its work at the devices of
 * the buffers that it writes: fill, number, put, from_host, copy, assemble, pick, disperse, run
 * and other entries without an answer to the host. A kernel or an all-reduce is queued at the
 * devices of its accumulators, too. All other entries, get and those about accumulators among
 * them, are over when they return; a kind frees an accumulator after the work that uses it.
 *
 * Several threads call entries at once. Work of several devices that begins together is queued on
 * all of them before other work is: devices that met in two orders would wait for each other.
 *
 * `put` and `from_host` take the host's bytes at the call. An ask's lists are the caller's again
 * when the entry returns, and so are the numbers of a program (params); all else of program,
 * kernel and guesses stays until the run is over, and buffers until their work is. A kind copies
 * the lists, counts traffic at the call, and asks no progress callback later. The `error` of run,
 * call and all_reduce may be set, and the traffic of the last two added, until the work is over:
 * the first error by position, if there are several. */
typedef struct tsr__device_queue {
  /* All that was queued on the device until now has this number. */
  void (*mark)(tsr_runtime *rt, int device, uint64_t number);
  /* The highest number that is over. */
  uint64_t (*done)(const tsr_runtime *rt, int device);
  /* Returns when `done` is that much, or after some milliseconds: users are asked meanwhile.
   * The number is not past the device's last. */
  void (*await)(tsr_runtime *rt, int device, uint64_t number);
  /* Work that is queued on the device from now on begins when a number of another one is over. */
  void (*follow)(tsr_runtime *rt, int device, int other, uint64_t number);
  /* Whether the device is lost: its memory and all its work, which then counts as over and uses
   * nothing of the runtime any more. The entry at which it was lost may have said so by
   * tsr__device_lost. NULL: no device of the kind ever is. */
  bool (*lost)(const tsr_runtime *rt, int device);
} tsr__device_queue;

/* The buffers of a kind with queues begin with this, and the kind's own fields follow. */
typedef struct tsr__queued {
  tsr__buffer head;
  uint64_t here;      /* the last work of its own device that reads or writes it */
  uint64_t elsewhere; /* the last work of other devices that reads it */
  struct tsr__queued *next;
} tsr__queued;

/* A kind of devices, for a runtime whose CPU devices are installed. */
typedef struct tsr__device_kind {
  const tsr__device_ops *ops;                  /* borrowed; entries may be NULL as device.h says */
  void *state;                                 /* the kind's: tsr__kind_state */
  void (*close)(tsr_runtime *rt, void *state); /* when the runtime closes; NULL: nothing to do */
  const tsr__device_queue *queue;              /* NULL: entries are over when they return */
  int first, count;                            /* its devices; no count: all of the runtime */
} tsr__device_kind;

/* Makes devices of the runtime those of a kind. */
tsr_status tsr__devices_add(tsr_runtime *rt, const tsr__device_kind *kind);
void *tsr__kind_state(const tsr_runtime *rt);

/* Bytes that were copied between devices and mirrors until now. */
int64_t tsr__host_bytes_of(const tsr__devices *devices);
static inline int64_t tsr__host_bytes(const tsr_runtime *rt)
{
  const tsr__devices *devices = tsr__devices_of(rt);
  return devices->own ? tsr__host_bytes_of(devices) : 0;
}

/* Bytes that were copied between devices of different kinds until now. */
int64_t tsr__kind_bytes_of(const tsr__devices *devices);
static inline int64_t tsr__kind_bytes(const tsr_runtime *rt)
{
  const tsr__devices *devices = tsr__devices_of(rt);
  return devices->own ? tsr__kind_bytes_of(devices) : 0;
}

/* Checks bytes that the host has just read: TSR_ENOMEM once a mirror found no memory, TSR_EIO once
 * a device is lost, and the first error of work that the run of `error` has queued, for which it
 * waits. */
tsr_status tsr__read_check(const tsr__devices *devices, tsr__error *error);
static inline tsr_status tsr__devices_check(const tsr_runtime *rt, tsr__error *error)
{
  const tsr__devices *devices = tsr__devices_of(rt);
  return devices->own ? tsr__read_check(devices, error) : TSR_OK;
}

/* Sets and returns the error of a device that is lost. */
tsr_status tsr__device_lost(const tsr_runtime *rt, int device, tsr__error *error);

/* Whether the devices' kind has queues. The next four are for such a kind alone: the number of the
 * work that was queued last; a number for all that was queued, which each device reaches as soon as
 * its share is over (`since` itself where nothing was queued after that number); whether all work
 * up to a number is over; and a wait for it, of some milliseconds at the most. */
bool tsr__queues_exist(const tsr__devices *devices);
uint64_t tsr__queues_clock(const tsr__devices *devices);
uint64_t tsr__queues_mark(const tsr__devices *devices, uint64_t since);
bool tsr__queues_over(const tsr__devices *devices, uint64_t number);
void tsr__queues_await(const tsr__devices *devices, uint64_t number);
/* Waits until all queued work is over, and gives back the memory that it used. */
void tsr__queues_settle(const tsr__devices *devices);
/* A run whose work is queued. */
typedef struct tsr__queued_run {
  tsr_status status;
  tsr__error *error;
  tsr__traffic *traffic;
  uint64_t last;   /* the number of the work that was queued last */
  uint64_t failed; /* work with a number up to here came before the run's own failure */
} tsr__queued_run;
/* Waits for the work of a run, which uses the run's program, and adds the traffic that the work
 * told. Returns the run's own status, or in its place the first error of work that was queued
 * before the run failed, or TSR_EIO once a device is lost. */
tsr_status tsr__queues_end_run(const tsr__devices *devices, const tsr__queued_run *run);

/* Whether the host does some work because the devices' kind lacks it. */
bool tsr__host_does(const tsr_runtime *rt, const tsr__device_work *work);
/* Adds a line for each kind of step that the host does, or devices of two kinds; nothing on CPU
 * devices. */
void tsr__host_explain(const tsr_runtime *rt, const tsr__program *program,
                       const tsr__schedule *schedule, tsr__text *out);
/* Adds the same for functions of rows. */
void tsr__host_explain_rows(const tsr_runtime *rt, tsr__text *out);

#endif
