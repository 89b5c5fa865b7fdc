/* Level 4: values on devices, plans and their cache, and running a plan.
 *
 * tsr__execute is what every terminal comes down to: trace the nodes into a program, find its plan
 * (or make one: partition, fuse, liveness), run the steps on the addressable devices, and hang
 * the roots' values on their nodes. Programs of several threads run side by side. */
#ifndef TSR_EXECUTE_EXECUTE_H
#define TSR_EXECUTE_EXECUTE_H

#include "base/base.h"
#include "comm/peers.h"
#include "graph/graph.h"
#include "kernel/device/device.h"
#include "kernel/fuse/schedule.h"
#include "partition/partition.h"
#include "tessera/inspect.h"

/* ---- values ---------------------------------------------------------------------------- */

/* An unreduced sum, as the accumulators of its devices: by position, NULL where the device
 * belongs to another process. It is immutable except for an owner with the only reference. */
typedef struct tsr__kept {
  _Atomic int refs;
  uint8_t row; /* its row of accums.def */
  uint8_t scale_count;
  tsr__scale_by scales[TSR__MOST_SCALES]; /* applied to the value when it is rounded */
  struct tsr__kept *of; /* the owner of these accumulators; NULL: this sum itself */
  tsr_runtime *rt;
  int count;
  tsr__partial *partials[];
} tsr__kept;

/* A new sum with `count` partials, which the caller sets; NULL with the error set. */
tsr__kept *tsr__kept_new(tsr_runtime *rt, int row, int count, tsr__error *error);
void tsr__kept_release(tsr__kept *kept); /* NULL is allowed */

/* The elements of a global array: one buffer a mesh position, replicas included, NULL where the
 * device belongs to another process. Immutable once filled; shared by reference. */
struct tsr__value {
  _Atomic int refs;
  tsr_runtime *rt;
  uint8_t dtype;
  tsr_shape shape;       /* global */
  tsr_sharding sharding; /* canonical */
  int part_count;        /* positions of the sharding */
  int64_t *rows;         /* ragged: each position's size of dim 0; NULL = the usual borders */
  int64_t *before;       /* ragged: rows before each part of dim 0 */
  /* an unreduced sum instead of elements: `parts` are all NULL then; or NULL */
  tsr__kept *kept;
  /* the unreduced value that this one replaced: other threads may still read it */
  tsr__value *follows;
  tsr__buffer **parts;
};

/* The description of a value. `rows` (copied; NULL: the usual borders) makes it ragged. */
typedef struct tsr__layout {
  tsr_dtype dtype;
  const tsr_shape *shape;
  const tsr_sharding *sharding;
  const int64_t *rows;
} tsr__layout;

/* Makes a value with buffers for all addressable positions, contents undefined except for zeros
 * at positions that do not hold the addends of an unreduced sum. NULL with the error set on
 * failure; refs is 1. */
tsr__value *tsr__value_new(tsr_runtime *rt, const tsr__layout *layout, tsr__error *error);
/* Tells devices that `count` values of a layout will be made and released in turn, for long: a
 * hint. */
void tsr__value_expect(tsr_runtime *rt, const tsr__layout *layout, int count);
/* Makes a value like tsr__value_new but without buffers, which the caller sets. */
tsr__value *tsr__value_frame(tsr_runtime *rt, const tsr__layout *layout, tsr__error *error);
void tsr__value_hold(tsr__value *value);
/* The part of the global array that a position holds. */
void tsr__value_box(const tsr__value *value, int position, tsr_box *out);
/* The bytes of that part on a device. */
size_t tsr__part_bytes(const tsr__value *value, int position);
/* The copy of a whole part: all of its `box`, which is borrowed, dense on both sides. */
tsr__box_copy tsr__part_copy(const tsr__value *value, const tsr_box *box);
/* Computes the rows before each part of dim 0 from the rows at each position: positions with
 * equal coordinates on the axes of dim 0 hold the same rows, counted once. Returns the total. */
int64_t tsr__number_rows(const tsr_sharding *sharding, int positions, const int64_t *rows,
                         int64_t *before);
/* The first row of a position. */
int64_t tsr__rows_before(const tsr_sharding *sharding, const int64_t *before, int position);
/* Copies from host memory: dense C order, bool as bytes. False: the progress callback cancelled
 * (never for TSR__AT_ONCE elements or fewer). */
enum { TSR__AT_ONCE = 65536 };
bool tsr__value_from_host(tsr__value *value, const void *data);
/* Fills a value through `read`, which reads `count` elements from `at` of the whole array to
 * `out`, in host memory's form, from several threads; if `read` returns false, it reports the
 * reason itself. Returns TSR_OK; TSR_ECANCELLED, TSR_ENOMEM, or TSR_EIO where reading failed. */
typedef bool tsr__reading_fn(void *user, int64_t at, int64_t count, void *out);
tsr_status tsr__value_from_reading(tsr__value *value, tsr__reading_fn *read, void *user);
/* A position's buffer as the host reads it (the device table's map); NULL where the position is
 * not addressable. A buffer is filled by way of its staging buffer (kernel/device/staging.h). */
const void *tsr__value_map(const tsr__value *value, int position);
void tsr__value_unmap(const tsr__value *value, int position);
/* Copies each part from its first position to its other replicas and counts the traffic. */
void tsr__value_replicate(tsr__value *value, tsr__traffic *traffic);

/* An addressable position with the same part as `position`, which itself comes first; -1: only
 * other processes hold the part. */
int tsr__value_near(const tsr__value *value, int position);
/* Returns TSR_EUNSUPPORTED where some part lies in other processes only; `what` begins the
 * error's text. */
tsr_status tsr__value_here(const tsr__value *value, const char *what, tsr__error *error);
/* The number of true elements of a bool array of rank 1 at a position of a value that is here. */
int64_t tsr__value_true(const tsr__value *value, int position);

/* ---- parts of other processes (sight.c) -------------------------------------------------- */

/* The device of a position; an array without a mesh lies on the first device of each process. */
static inline int tsr__home_device(const tsr_runtime *rt, const tsr_sharding *sharding,
                                   int position)
{
  return sharding->mesh ? tsr__position_device(sharding, position) : tsr__devices_of(rt)->first;
}

/* Remote parts of values, readable between tsr__see and tsr__unsee; empty where no part is
 * remote. */
typedef struct tsr__sight {
  tsr_runtime *rt;
  int count, told_count;
  bool met, large; /* large: it is closed as soon as all processes have read */
  size_t room_bytes;
  tsr__value **made; /* [count] */
  tsr__buffer **told;
  uint64_t *places; /* of the told parts: handles, or offsets into the note (sight.c) */
  size_t *sizes;    /* of each part, of the wanted values one after another */
  tsr__peers_note *notes;
  int64_t *next;
  bool *wanted; /* [count]: whether some process lacks a part of it */
  /* NULL, or the traffic to give to tsr__peers_promise if possible */
  const int64_t *promise;
  int result_count; /* the last of the values, which other processes write */
  bool ends;        /* only the end of the run comes after it */
  struct tsr__sight *next_held;
} tsr__sight;

/* Makes remote parts readable, within a run that all processes are in: `values` (NULL ones are
 * skipped) with remote parts are replaced in the list by values that have all parts. */
tsr_status tsr__see(tsr_runtime *rt, const tsr__value **values, int count, tsr__sight *sight,
                    tsr__error *error);
/* Does the same for values that are being made, whose replicas are not filled yet. Before
 * reading a remote part, request its elements with tsr__sight_want and wait for tsr__sight_come. */
tsr_status tsr__see_made(tsr_runtime *rt, const tsr__value **values, int count, tsr__sight *sight,
                         tsr__error *error);
typedef struct tsr__sight_part {
  int value, position; /* `value`: its index in the list */
  int64_t first, count;
} tsr__sight_part;
void tsr__sight_want(const tsr__sight *sight, const tsr__sight_part *part);
/* Does the same for values that exist, but copies nothing from other hosts that was not
 * requested with tsr__sight_want_box before. On one host no request is needed. sight->promise is
 * set for the last meeting of a run: nothing after it may fail, so where all parts are short
 * their memory is allocated before the meeting. sight->result_count, on one host: the last
 * values of the list are results that were made here, and the processes that finish parts of
 * them write them, until tsr__unsee; where sight->ends is set until the run's end, which saves
 * one more meeting. */
tsr_status tsr__see_pieces(tsr_runtime *rt, const tsr__value **values, int count, tsr__sight *sight,
                           tsr__error *error);
bool tsr__sight_is_far(const tsr__sight *sight);
void tsr__sight_want_box(const tsr__buffer *from, const tsr__box_copy *copy);
/* Requests all remote elements of a value of the list. */
void tsr__sight_want_all(const tsr__sight *sight, int value);
tsr_status tsr__sight_come(const tsr__sight *sight, tsr__error *error);
/* Ends this process's reads; `status` is its own, and is returned where it is not TSR_OK. The
 * parts that it published stay unchanged until the other processes have read them. */
tsr_status tsr__unsee(tsr__sight *sight, tsr_status status, tsr__error *error);
/* Does the same for the host, as a run of its own. If parts of the value cannot be read from
 * other processes, it is refused in the name of `what`. */
tsr_status tsr__host_sees(const tsr__value **value, const char *what, tsr__sight *sight,
                          tsr__error *error);
tsr_status tsr__host_saw(tsr__sight *sight, tsr_status status, tsr__error *error);

/* The error of a terminal that failed in this process before its run began. Other processes that
 * wait for this one in the run get it. Whether they wait follows from the arrays' shardings and
 * from whether they are evaluated. `looks`: the terminal wants elements; `fetches`: to copy
 * them. */
typedef struct tsr__refusal {
  tsr_status status;
  bool looks, fetches;
  const char *message, *site;
} tsr__refusal;
void tsr__refuse_all(tsr__operands arrays, const tsr__refusal *refusal);
/* Reports the error for the remaining values of several fetches; false: nobody waits for any of
 * them. */
bool tsr__refuse_fetches(tsr__value *const *values, int count, const tsr__refusal *refusal);

/* ---- the host looks ---------------------------------------------------------------------- */

/* Each call covers the whole array. If some process lacks a shard, the call is a run of its own
 * in which all processes take part; otherwise no process waits. TSR_EUNSUPPORTED: only another
 * process has a shard, and the processes share no memory. */

/* Copies an array to host memory: dense C order, bool as bytes. TSR_ECANCELLED (never for
 * TSR__AT_ONCE elements or fewer). */
tsr_status tsr__value_fetch(const tsr__value *value, void *out, const char *what,
                            tsr__error *error);
/* Counts the true elements of a bool array of rank 1. */
tsr_status tsr__value_count(const tsr__value *mask, int64_t *out, const char *what,
                            tsr__error *error);
/* The row of the `n`-th element equal to `bit`, counted from 0; the number of rows if there are
 * fewer. */
typedef struct tsr__value_place {
  bool bit;
  int64_t n;
} tsr__value_place;
tsr_status tsr__value_find(const tsr__value *mask, tsr__value_place place, int64_t *row,
                           const char *what, tsr__error *error);
/* Copies the element of a row of an array of rank 1, bool as a byte. */
tsr_status tsr__value_at(const tsr__value *value, int64_t row, void *out, const char *what,
                         tsr__error *error);

/* ---- running --------------------------------------------------------------------------- */

/* Evaluates roots as one program; their nodes hold their values afterwards, as elements. The error
 * is not yet recorded in any scope: callers pass it to tsr__fail_error, or use tsr_eval. */
tsr_status tsr__execute(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error);
/* Evaluates roots whose elements nobody reads: sums among them may stay accumulators. */
tsr_status tsr__evaluate(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error);

/* Starts what tsr__evaluate does and returns while the program is queued or runs: the roots
 * refer to it, and readers of them wait. Errors of the run are returned to them. */
tsr_status tsr__start(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error);

/* A callback's argument is the first member of one of these. */
typedef struct tsr__shown {
  tsr_seen seen;
  const tsr__tap_attr *attr;
  int process; /* the process that calls the callback */
} tsr__shown;

/* Whether an array is computed from a function's argument: its body is being traced. False with
 * the error set where that cannot be found out. */
bool tsr__in_body(tsr_array *a, tsr__error *error);

/* Traces roots to a program of the caller's; nodes[i] is the node of the i-th root. An array has
 * its node's number of one program at a time, and any thread may trace an evaluated array: so
 * the engine does this under its lock. */
tsr_status tsr__trace_roots(tsr_runtime *rt, tsr__program *program, tsr__operands roots,
                            int32_t *nodes, tsr__error *error);

/* The text of tsr_dump for an array, appended. */
tsr_status tsr__dump(tsr_array *a, tsr__text *out, tsr__error *error);
/* The text of tsr_explain for roots, appended; nothing is run. */
tsr_status tsr__explain(tsr_scope *scope, tsr_array *const *roots, int count, tsr__text *out,
                        tsr__error *error);

/* The figures of a plan, and the arrays at its peak, the largest first, in memory of a scope. */
typedef struct tsr__costs {
  tsr_figures figures;
  tsr_peak_array *peak;
  int count, capacity; /* of `peak` */
} tsr__costs;

/* The costs of a program of these roots; nothing is run. */
tsr_status tsr__figures(tsr_scope *scope, tsr_array *const *roots, int count, tsr__costs *out,
                        tsr__error *error);

/* Counts for tests and explain: how many kernels and steps of each kind a program of these roots
 * takes. */
typedef struct tsr__plan_shape {
  int kernels, combines, reshards, operators;
} tsr__plan_shape;
tsr_status tsr__plan_shape_of(tsr_scope *scope, tsr_array *const *roots, int count,
                              tsr__plan_shape *out, tsr__error *error);

/* Fills the slot TSR__SLOT_PLANS. */
tsr_status tsr__engine_install(tsr_runtime *rt);

#endif
