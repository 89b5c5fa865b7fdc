/* Inside kernel/: the CPU devices' own state, the buffer, and those functions of the device table
 * that need only buffers. The table itself, which names those of tile/ too, is in kernel/cpu.c. */
#ifndef TSR_KERNEL_CPU_H
#define TSR_KERNEL_CPU_H

#include "kernel/device/bits.h"
#include "kernel/device/device.h"

/* A buffer of a CPU device: the header, and where the bytes lie. */
typedef struct tsr__cpu_buffer {
  tsr__buffer head;
  void *data;
  tsr_release_fn release; /* adopted memory: called instead of giving back to the pool */
  void *user;
} tsr__cpu_buffer;

static inline void *tsr__cpu_data(const tsr__buffer *buffer)
{
  return ((const tsr__cpu_buffer *)buffer)->data;
}

/* Working memory of one task, kept from run to run; taken and given back newest first, so that
 * it stays in the cache. */
typedef struct tsr__scratch {
  struct tsr__scratch *next;
  size_t size; /* of `memory` */
  unsigned char *memory;
} tsr__scratch;

/* The slot TSR__SLOT_DEVICES of a "cpu:n" runtime. */
typedef struct tsr__cpu {
  tsr__devices base;
  tsr__pool **pools;              /* one a device */
  const struct tsr__tiles *tiles; /* for the instruction set: tile/interp_tile.h */
  _Atomic(tsr__scratch *) near;   /* the idle one that was given back last, without the lock */
  pthread_mutex_t lock;
  tsr__scratch *idle;  /* the others */
  tsr__spares headers; /* free buffer headers */
} tsr__cpu;

static inline tsr__cpu *tsr__cpu_of(const tsr_runtime *rt)
{
  return rt->slots[TSR__SLOT_DEVICES];
}
/* NULL when memory is short. */
tsr__scratch *tsr__scratch_take(tsr_runtime *rt, size_t size);
void tsr__scratch_give(tsr_runtime *rt, tsr__scratch *scratch);

/* cpu_memory.c */
tsr__buffer *tsr__cpu_take(tsr_runtime *rt, int device, size_t bytes, tsr__error *error);
void tsr__cpu_give(tsr__buffer *buffer);
tsr__buffer *tsr__cpu_adopt(tsr_runtime *rt, int device, const tsr__foreign *memory);
tsr_memory tsr__cpu_memory(const tsr_runtime *rt, int device);
void tsr__cpu_expect(tsr_runtime *rt, int device, size_t bytes, int count);
void tsr__cpu_fill(tsr__buffer *buffer, uint8_t byte);
void tsr__cpu_number(tsr__buffer *buffer, int64_t first, int64_t count);
const void *tsr__cpu_map(tsr__buffer *buffer);
void tsr__cpu_unmap(tsr__buffer *buffer);
void *tsr__cpu_staging_open(tsr__buffer *buffer, bool keeps, tsr__error *error);
void tsr__cpu_staging_close(tsr__buffer *buffer, void *memory, bool filled);

/* copy.c */
void tsr__cpu_from_host(const tsr__box_copy *copy, const void *host, tsr__buffer *to);
void tsr__cpu_to_host(const tsr__box_copy *copy, const tsr__buffer *from, void *host);
void tsr__cpu_copy(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
                   tsr__traffic *traffic);
/* assemble.c */
bool tsr__cpu_assemble(const tsr__assembly *parts, int count, tsr__buffer *const *from,
                       tsr__traffic *traffic);
/* The one routine that moves bytes from one device's pool to another's, and counts them. */
typedef struct tsr__transfer {
  void *to;
  const void *from;
  size_t bytes;
  int to_device, from_device;
  bool streams; /* past the caches */
} tsr__transfer;
void tsr__cpu_move(const tsr__transfer *carry, tsr__traffic *traffic);

/* pick.c */
void tsr__cpu_pick(const tsr__pick *pick, const tsr__buffer *from, tsr__buffer *to,
                   tsr__traffic *traffic);
/* Copies the elements of the rows listed in `at`, one after the other: the index is tsr__size_log
 * of their size, and whether rows may be NO_ROW, which gives 0. Bits always allow NO_ROW; whole
 * words of them: the last one's unused bits are 0. */
typedef void tsr__pick_fn(const uint32_t *at, int64_t n, const void *from, void *to);
extern tsr__pick_fn *const tsr__picks[TSR__SIZES][2];
void tsr__pick_bits(const uint32_t *at, int64_t n, const uint64_t *from, uint64_t *to);

/* disperse.c */
void tsr__cpu_disperse(const tsr__disperse *job, const tsr__buffer *from, tsr__buffer *const *to,
                       tsr__traffic *traffic);

/* compact.c */
int64_t tsr__cpu_mask_count(const tsr__buffer *mask, int64_t rows);
int64_t tsr__cpu_mask_find(const tsr__buffer *mask, int64_t rows, bool bit, int64_t n);
void tsr__cpu_compact(const tsr__compact *job);
void tsr__cpu_mask_first(const tsr__buffer *mask, int64_t rows, int64_t keep, tsr__buffer *to);

#endif
