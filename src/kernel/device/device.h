/* Work on devices, through one table of functions per device kind: buffers, copies that count their
 * bytes, kernels and the collectives inside a process.
 *
 * Above kernel/ a buffer is opaque: readers of its elements call an entry of the table, and tests
 * run the laws with the devices' memory unreadable outside of them.
 *
 * A device holds shards in a memory of its own and has no thread: run() covers all local devices at
 * once and cuts the work into tasks for the runtime's workers; small work (SMALL_RUN in
 * tile/interp.c) runs on the calling thread without waking anybody. The sub-rooms further up define
 * kernels, partials and entries for rows: fuse/schedule.h, tile/partial.h, rows/row_ops.h. */
#ifndef TSR_KERNEL_DEVICE_H
#define TSR_KERNEL_DEVICE_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/spares.h"
#include "tessera/array.h"
#include "topology/topology.h"

#define TSR__PROGRAM "program" /* names of kernels and copies for the progress callback */

#define TSR__NO_ROW UINT32_MAX /* in a list of rows: no row */

/* ---- buffers --------------------------------------------------------------------------- */

/* The header of a buffer: a piece of one device's memory, held by reference. Bool elements are
 * bits, LSB first, in 64-bit words; the unused bits of the last word are undefined. Each kind of
 * device puts its own fields after the header (device/cpu.h). Only rooms inside kernel/ read `data`
 * and the fields after `lent`, which are those of a mirror (fallback/mirror.h). */
typedef struct tsr__buffer {
  _Atomic int refs;
  int device;
  size_t bytes;
  const struct tsr__device_ops *ops; /* the device's table */
  tsr_runtime *rt;
  void *data;  /* where the host reads the bytes; NULL: the memory is the device's alone */
  bool lent;   /* the memory is the user's or another process's */
  bool filled; /* the mirror has the device's bytes, or is being filled by the host */
  bool newer;  /* the host wrote to the mirror */
  int mirrors; /* entries that use the mirror now */
} tsr__buffer;

/* Bytes that `count` elements take on a device. */
size_t tsr__device_bytes(tsr_dtype dtype, int64_t count);

/* Bytes that moved between the pools of different devices. */
typedef struct tsr__traffic {
  int64_t bytes;   /* all, escapes included; counted by the copy routine itself */
  int64_t escapes; /* those that depend on elements: bytes of sums that did not fit their fixed
                    * part, elements that a sort moves */
  int64_t host;    /* no part of `bytes`: between devices and mirrors in host memory */
  int64_t kinds;   /* those of `bytes` that were copied between devices of different kinds */
} tsr__traffic;

/* A strided box of elements to copy: `size` of each dim from `from_start` of a dense array of
 * `from_dims` to `to_start` of a dense array of `to_dims`, along each dim every `from_step`th one
 * (any sign; 0: the same again; NULL: all 1). */
typedef struct tsr__box_copy {
  tsr_dtype dtype;
  int rank;
  const int64_t *from_dims, *from_start, *to_dims, *to_start, *size;
  tsr__progress *progress; /* asked while it goes on, by `worker`; NULL: no progress */
  int worker;
  const int64_t *from_step;
  bool streams; /* it is part of more than caches hold: written past them */
} tsr__box_copy;

/* A part to be put together of its pieces (topology.h), which lie in buffers that are listed by
 * position. Only elements slab_start .. slab_end - 1 of dim `slab_dim` are copied; -1: all. */
typedef struct tsr__assembly {
  tsr_dtype dtype;
  tsr__buffer *to;
  tsr__piece_grid pieces;
  int64_t to_dims[TSR_MAX_RANK];
  int slab_dim;
  int64_t slab_start, slab_end;
  tsr__progress *progress; /* these as of a copy */
  int worker;
  bool streams;
} tsr__assembly;

/* One call assembles up to this many parts, so that lines read for one are in the cache for the
 * others. */
enum { TSR__MOST_ASSEMBLED = 32 };

/* Rows of a column to copy: `count` of them, listed in `rows` (u32) from place `first` on, to row
 * `at` on. */
typedef struct tsr__pick {
  tsr_dtype dtype;
  const tsr__buffer *rows;
  int64_t first, count, at;
} tsr__pick;

/* Rows of a column that part ways: row i goes to row next[dest[i]]++ of that one of `parts`
 * buffers, counts[p] of all to buffer p; `dest` is of u16. Bits there are set before, and cleared
 * where a row's is not. */
typedef struct tsr__disperse {
  tsr_dtype dtype;
  int parts;
  const tsr__buffer *dest;
  int64_t *next;
  const int64_t *counts;
  tsr__progress *progress; /* asked now and then, as `worker`; if it stops, not all rows go */
  int worker;
} tsr__disperse;

/* Rows of `from` (`rows` of `row_elements`) where bit r of `mask` is set, to `to` (exact size). */
typedef struct tsr__compact {
  tsr_dtype dtype;
  int64_t row_elements, rows;
  const tsr__buffer *mask, *from;
  tsr__buffer *to;
  tsr__progress *progress; /* like a copy's */
  int worker;
} tsr__compact;

/* Memory that is not ours, and how it is given back (NULL: not at all). */
typedef struct tsr__foreign {
  void *data;
  size_t bytes;
  tsr_release_fn release;
  void *user;
} tsr__foreign;

/* Runs of bytes of a buffer: `count` runs of `bytes` each, the first at `first`, and `stride` bytes
 * from start to start. */
typedef struct tsr__byte_runs {
  size_t first, bytes, count, stride;
} tsr__byte_runs;

/* ---- one device kind ------------------------------------------------------------------------ */

typedef struct tsr__partial tsr__partial;
typedef struct tsr__partial_ask tsr__partial_ask;
typedef struct tsr__partial_told tsr__partial_told;
typedef struct tsr__run tsr__run;
typedef struct tsr__all_reduce tsr__all_reduce;
typedef struct tsr__call tsr__call;
struct tsr__program;
struct tsr__kernel;

/* Work that a device kind may do for some programs and not for others. */
typedef struct tsr__device_work {
  enum { TSR__WORK_KERNEL, TSR__WORK_ROUTINE, TSR__WORK_ALL_REDUCE } kind;
  const struct tsr__program *program;
  const struct tsr__kernel *kernel; /* of a kernel */
  int node;                         /* of the others: the routine, the first result */
} tsr__device_work;

/* A device kind needs `kind`, `take`, `give`, `memory`, `put` and `get`. Every other entry may be
 * NULL: the host then does the work in mirrors of the buffers (fallback/fallback.h), and the table
 * that a runtime's devices have is complete but for `supports` and `prepare`. Entries about
 * partials are all there or all NULL. */
typedef struct tsr__device_ops {
  const char *kind;                /* "cpu" */
  const struct tsr__row_ops *rows; /* functions that read and write rows: rows/row_ops.h */
  /* Whether the device does such work, for which it has an entry; NULL: all of it. */
  bool (*supports)(const tsr__device_work *work);
  /* The device's form of a kernel, such as compiled code, which `run` finds at its `code`.
   * Without this entry, or if it returns NULL, the kernel has no such form. One thread at a time
   * calls the entry before the first run of the kernel on the kind, and again after a call that set
   * the error, which fails its run. The form is kept with the plan. */
  struct tsr__code *(*prepare)(tsr_runtime *rt, const struct tsr__program *program,
                               const struct tsr__kernel *kernel, tsr__error *error);
  /* A buffer of `bytes` on a device, refs 1; NULL with the error set past the limit. */
  tsr__buffer *(*take)(tsr_runtime *rt, int device, size_t bytes, tsr__error *error);
  /* The memory of a buffer without references goes back to where it came from, and its header goes
   * with it. Called by tsr__buffer_release alone. */
  void (*give)(tsr__buffer *buffer);
  /* A buffer over memory that is not ours. NULL without memory for the header: the foreign memory
   * stays the caller's then. */
  tsr__buffer *(*adopt)(tsr_runtime *rt, int device, const tsr__foreign *memory);
  /* Bytes in use on a device, their peak and their limit; zeros for a device of another process. */
  tsr_memory (*memory)(const tsr_runtime *rt, int device);
  /* Bytes of a buffer as they lie there, from byte `at` on, from and to host memory. NULL on CPU
   * devices: their bytes lie at `data`. */
  void (*put)(tsr__buffer *to, size_t at, const void *host, size_t bytes);
  void (*get)(const tsr__buffer *from, size_t at, void *host, size_t bytes);
  /* So many buffers of a size will be in use by turns, for long. A hint. */
  void (*expect)(tsr_runtime *rt, int device, size_t bytes, int count);
  /* Every byte of a buffer becomes `byte`. */
  void (*fill)(tsr__buffer *buffer, uint8_t byte);
  /* Elements first, first + 1, ... of I64. */
  void (*number)(tsr__buffer *buffer, int64_t first, int64_t count);
  /* The buffer as the host reads it, as it lies there (bools are bits), until unmap or until the
   * buffer is released. On CPU devices that is the memory itself. */
  const void *(*map)(tsr__buffer *buffer);
  void (*unmap)(tsr__buffer *buffer);
  /* Host memory in which a buffer is filled: staging.h. With `keeps` it begins with the buffer's
   * elements, else with anything. NULL with the error set. staging_close ends the use of that
   * memory; with `filled` the buffer has its elements from then on. On CPU devices that memory is
   * the buffer's own. */
  void *(*staging_open)(tsr__buffer *buffer, bool keeps, tsr__error *error);
  void (*staging_close)(tsr__buffer *buffer, void *memory, bool filled);
  /* Host memory (dense, bool as bytes) to and from part of a device's dense buffer. */
  void (*from_host)(const tsr__box_copy *copy, const void *host, tsr__buffer *to);
  void (*to_host)(const tsr__box_copy *copy, const tsr__buffer *from, void *host);
  /* Device to device; counts bytes in `traffic` when the devices differ. */
  void (*copy)(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
               tsr__traffic *traffic);
  /* Pieces of several buffers to `count` parts; counts as copy does. False: a piece has no buffer,
   * and was left out. */
  bool (*assemble)(const tsr__assembly *parts, int count, tsr__buffer *const *from,
                   tsr__traffic *traffic);
  /* Rows picked from a buffer, to a run of another; counts as copy does. */
  void (*pick)(const tsr__pick *pick, const tsr__buffer *from, tsr__buffer *to,
               tsr__traffic *traffic);
  /* Bytes that a partial takes of its device, or, with `meets`, beside it where others come. */
  size_t (*partial_bytes)(const tsr__partial_ask *ask, bool meets);
  /* Rows of a buffer to several; counts as copy does. */
  void (*disperse)(const tsr__disperse *job, const tsr__buffer *from, tsr__buffer *const *to,
                   tsr__traffic *traffic);
  /* A zeroed partial for an accumulator with `count` output elements; NULL with the error set. */
  tsr__partial *(*partial)(tsr_runtime *rt, const tsr__partial_ask *ask, tsr__error *error);
  void (*partial_free)(tsr__partial *partial);
  /* One of the same device with elements of another: number `index[i]` of it, each at most once;
   * no index: all of it, in order. NULL with the error set. */
  tsr__partial *(*partial_take)(const tsr__partial *from, const int64_t *index, int64_t count,
                                tsr__error *error);
  /* partial_tell describes a partial to other processes; `copy` is a buffer of elements that only
   * the host had, or NULL, and the caller's to release after they have read. partial_far opens a
   * partial of another process, the device's, that was made for `ask`: read only, and freed as
   * others are; as with open_shared, its bytes may have to come first. NULL with the error set. */
  tsr_status (*partial_tell)(const tsr__partial *partial, tsr__partial_told *out,
                             tsr__buffer **copy, tsr__error *error);
  tsr__partial *(*partial_far)(tsr_runtime *rt, const tsr__partial_ask *ask,
                               const tsr__partial_told *told, tsr__error *error);
  tsr_status (*run)(const tsr__run *run, tsr__error *error);
  /* A device routine: sort, prefix sums, ... (routine/). */
  tsr_status (*call)(const tsr__call *call, tsr__error *error);
  /* The mesh axes along which the devices of such a node work together; 0: each by itself. */
  unsigned (*call_axes)(const struct tsr__program *program, int node);
  /* One process's share of the work when several processes take part: a tsr__call_apart. */
  int (*call_apart)(const struct tsr__program *program, int node);
  tsr_status (*all_reduce)(const tsr__all_reduce *combine, tsr__traffic *traffic,
                           tsr__error *error);
  /* rows of `from` (rows x row_elements) where bit r of mask is set, to `to` (exact size). */
  int64_t (*mask_count)(const tsr__buffer *mask, int64_t rows);
  /* The place of the `n`-th bit equal to `bit`, counted from 0; `rows` where there are fewer. */
  int64_t (*mask_find)(const tsr__buffer *mask, int64_t rows, bool bit, int64_t n);
  void (*compact)(const tsr__compact *job);
  /* keeps the first `keep` true bits of `rows`, clears later ones. */
  void (*mask_first)(const tsr__buffer *mask, int64_t rows, int64_t keep, tsr__buffer *to);
  /* Bytes that a routine works in on a device, beside operands and results, at the most. The call
   * has one part, without buffers; `wanted`: one flag per result, whether somebody reads it. */
  int64_t (*call_room)(const tsr__call *call, const bool *wanted);
  /* The handle, below 2^63, by which other processes open a buffer of this process. False: they
   * cannot reach its memory, as it is the user's; every buffer of `take` has a handle. */
  bool (*share)(const tsr__buffer *buffer, uint64_t *handle);
  /* A lent buffer over the memory of another process, the device's, at a handle. NULL with the
   * error set. */
  tsr__buffer *(*open_shared)(tsr_runtime *rt, int device, uint64_t handle, size_t bytes,
                              tsr__error *error);
  /* Requests bytes of an opened buffer from a process on another host: tsr__peers_fetched waits
   * for them. Bytes on this host need no request, and it does nothing. */
  void (*fetch)(const tsr__buffer *opened, const tsr__byte_runs *runs);
} tsr__device_ops;

/* Another reference. The caller holds one already, so no order is needed. */
static inline void tsr__buffer_hold(tsr__buffer *buffer)
{
  atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
}

void tsr__buffer_release(tsr__buffer *buffer); /* NULL is allowed */

/* A buffer on a device, in host memory if `like`, another buffer of this device, is: lists of rows,
 * which only the host uses, stay there. `like` may be NULL. NULL with the error set past the
 * limit. */
tsr__buffer *tsr__take_beside(const tsr__buffer *like, tsr_runtime *rt, int device, size_t bytes,
                              tsr__error *error);

/* Whether the buffer has one reference and its memory is the library's: then the holder may write
 * there. Lent memory is never alone, as the user may be looking at it. */
static inline bool tsr__buffer_alone(const tsr__buffer *buffer)
{
  return !buffer->lent && atomic_load_explicit(&buffer->refs, memory_order_acquire) == 1;
}

/* Whether the memory is the user's or another process's. */
static inline bool tsr__buffer_lent(const tsr__buffer *buffer)
{
  return buffer->lent;
}

/* Whether a device may take so many more bytes; a limit of 0 allows all. */
static inline bool tsr__memory_fits(const tsr_memory *memory, int64_t bytes)
{
  return !memory->limit || bytes <= memory->limit - memory->now;
}

/* The devices of a runtime (slot TSR__SLOT_DEVICES). */
typedef struct tsr__devices {
  const tsr__device_ops *ops; /* complete */
  const tsr__device_ops *own; /* the table, as it is, of the kind beside the CPU; or NULL */
  int count;                  /* addressable devices */
  int first;                  /* id of the first of them */
  tsr__spares values;         /* execute's: free values of few parts */
} tsr__devices;

/* Opens the devices of all kinds, after the topology. */
tsr_status tsr__devices_install(tsr_runtime *rt);
/* Opens devices first .. first + count - 1 of a kind by its function (kinds.def). Tests that have
 * kinds of their own define this function. */
tsr_status tsr__kind_open(tsr_runtime *rt, const char *kind, int first, int count);
static inline tsr__devices *tsr__devices_of(const tsr_runtime *rt)
{
  return rt->slots[TSR__SLOT_DEVICES];
}

#endif
