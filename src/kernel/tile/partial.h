/* Inside kernel/: accumulators of reductions, one a device (in a buffer of it), and private ones of
 * tasks. The row of an accumulator defines its state and functions (accum.h). */
#ifndef TSR_KERNEL_PARTIAL_H
#define TSR_KERNEL_PARTIAL_H

#include "kernel/device/cpu.h"
#include "kernel/fuse/kir.h"
#include "kernel/tile/isa.h"

typedef struct tsr__accum_ops tsr__accum_ops; /* accum.h */

struct tsr__partial {
  tsr_runtime *rt;
  int device;         /* -1: private to a task */
  uint8_t row, dtype; /* like tsr__accum's */
  const tsr__accum_ops *ops;
  int64_t count; /* output elements */
  size_t bytes;  /* of `data` */
  void *data;
  tsr__buffer *memory;  /* a device's partial lies in it, before its data; else NULL */
  bool far;             /* the memory is another process's, to be read alone */
  tsr__buffer *escapes; /* of a far one: the buffer of its escapes, if it has some; else NULL */
  tsr__rows rows[2];
};

/* Fills everything but `data`, which is `bytes` bytes, 64-byte aligned, the caller's. */
void tsr__partial_plan(tsr__partial *partial, int row, int dtype, int64_t count);
/* Makes it the accumulator of no value. */
void tsr__partial_start(tsr__partial *partial, tsr__heap *heap);
/* Frees escapes. */
void tsr__partial_stop(tsr__partial *partial);
/* Adds everything of `from`. False: out of memory (escapes). */
bool tsr__partial_merge(tsr__partial *into, const tsr__partial *from, const tsr__tiles *tiles);
/* Elements first .. first + count - 1 of an accumulator that goes on owning them. */
tsr__partial tsr__partial_slice(const tsr__partial *partial, int64_t first, int64_t count);
enum { TSR__PARTIAL_SLICE = 1 << 16 }; /* elements between two questions whether to go on */
/* The same from another device, of elements first .. first + count - 1: traffic is counted. If
 * `progress` stops, the copy is incomplete. */
typedef struct tsr__sending {
  tsr__partial *into;
  const tsr__partial *from;
  int64_t first, count;
  const tsr__tiles *tiles;
  tsr__progress *progress;
  tsr__traffic *traffic;
} tsr__sending;

/* The entry `partial_bytes` of the device table. */
size_t tsr__cpu_partial_bytes(const tsr__partial_ask *ask, bool meets);
bool tsr__partial_send(const tsr__sending *sending);

tsr__partial *tsr__partial_new(tsr_runtime *rt, const tsr__partial_ask *ask, tsr__error *error);
void tsr__partial_free(tsr__partial *partial);
/* The device table's partial_take. */
tsr__partial *tsr__partial_take(const tsr__partial *from, const int64_t *index, int64_t count,
                                tsr__error *error);
tsr_status tsr__partial_tell(const tsr__partial *partial, tsr__partial_told *out,
                             tsr__buffer **copy, tsr__error *error);
tsr__partial *tsr__partial_far(tsr_runtime *rt, const tsr__partial_ask *ask,
                               const tsr__partial_told *told, tsr__error *error);

/* Combines the partials of a group of devices and finalises (all_reduce.c). */
tsr_status tsr__cpu_all_reduce(const tsr__all_reduce *combine, tsr__traffic *traffic,
                               tsr__error *error);

#endif
