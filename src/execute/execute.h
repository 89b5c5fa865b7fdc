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

/* A sum that is not reduced, as the accumulators of its devices: by position, NULL where the device
 * belongs to another process. Immutable, but for who has the only reference. */
typedef struct tsr__kept {
  _Atomic int refs;
  uint8_t row; /* of accums.def */
  uint8_t scale_count;
  tsr__scale_by scales[TSR__MOST_SCALES]; /* what is done to the value when it is rounded */
  struct tsr__kept *of;                   /* whose accumulators these are; NULL: its own */
  tsr_runtime *rt;
  int count;
  tsr__partial *partials[];
} tsr__kept;

/* With room for as many, which the caller sets; NULL with the error set. */
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
  tsr__kept *kept;       /* what it is instead of elements: there are no parts then; or NULL */
  tsr__value *follows;   /* the kept one in whose place this is: others may look at it yet */
  tsr__buffer **parts;
};

/* What a value is made of. `rows` (copied; NULL: the usual borders) makes it ragged. */
typedef struct tsr__layout {
  tsr_dtype dtype;
  const tsr_shape *shape;
  const tsr_sharding *sharding;
  const int64_t *rows;
} tsr__layout;

/* Makes a value with buffers for all addressable positions, contents undefined but for zeros
 * where parts of a sum are. NULL with the error set on failure; refs is 1. */
tsr__value *tsr__value_new(tsr_runtime *rt, const tsr__layout *layout, tsr__error *error);
/* So many values of a layout will be made and released by turns, for long: a hint to devices. */
void tsr__value_expect(tsr_runtime *rt, const tsr__layout *layout, int count);
/* As tsr__value_new but without buffers: the caller sets them. */
tsr__value *tsr__value_frame(tsr_runtime *rt, const tsr__layout *layout, tsr__error *error);
void tsr__value_hold(tsr__value *value);
/* The part of the global array that a position holds. */
void tsr__value_box(const tsr__value *value, int position, tsr_box *out);
/* The copy of a whole part: all of its `box`, which is borrowed, dense on both sides. */
tsr__box_copy tsr__part_copy(const tsr__value *value, const tsr_box *box);
/* The rows before each part of dim 0, from the rows at each position: positions with equal
 * coordinates on the axes of dim 0 hold the same rows, counted once. Returns the total. */
int64_t tsr__number_rows(const tsr_sharding *sharding, int positions, const int64_t *rows,
                         int64_t *before);
/* Where a position's rows start. */
int64_t tsr__rows_before(const tsr_sharding *sharding, const int64_t *before, int position);
/* Copies from host memory: dense C order, bool as bytes. False: the progress callback cancelled
 * (never for TSR__AT_ONCE elements or fewer). */
enum { TSR__AT_ONCE = 65536 };
bool tsr__value_from_host(tsr__value *value, const void *data);
/* The same from whoever reads elements at .. of the whole array to `out`, in host memory's form,
 * from several threads; false: it failed and will say why itself. Returns TSR_OK; TSR_ECANCELLED,
 * TSR_ENOMEM, or TSR_EIO where reading failed. */
typedef bool tsr__reading_fn(void *user, int64_t at, int64_t count, void *out);
tsr_status tsr__value_from_reading(tsr__value *value, tsr__reading_fn *read, void *user);
/* A position's buffer as the host reads or fills it (the device table's map); NULL where it is not
 * addressable. Positions with the same part (replicas) each need filling. */
void *tsr__value_map(const tsr__value *value, int position);
void tsr__value_unmap(const tsr__value *value, int position);
/* Gives the positions that hold a part again what its first one got; counts what moves. */
void tsr__value_replicate(tsr__value *value, tsr__traffic *traffic);

/* An addressable position that holds what `position` does, itself if it can be; -1: the part lies
 * in other processes only. */
int tsr__value_near(const tsr__value *value, int position);
/* TSR_EUNSUPPORTED where some part lies in other processes only; `what` begins the error's text. */
tsr_status tsr__value_here(const tsr__value *value, const char *what, tsr__error *error);
/* How many elements of a bool array of rank 1 are true at a position of a value that is here. */
int64_t tsr__value_true(const tsr__value *value, int position);

/* ---- parts of other processes (sight.c) -------------------------------------------------- */

/* The other processes of a runtime; NULL: there are none, or none that can be reached. */
tsr__peers *tsr__peers_of(const tsr_runtime *rt);
/* The device of a position; an array without a mesh lies on the first device of each process. */
static inline int tsr__home_device(const tsr_runtime *rt, const tsr_sharding *sharding,
                                   int position)
{
  return sharding->mesh ? tsr__position_device(sharding, position) : tsr__devices_of(rt)->first;
}

/* Values with all their parts, for as long as it lasts; empty where there is nothing to be seen. */
typedef struct tsr__sight {
  tsr_runtime *rt;
  int count, told_count;
  bool met, large; /* large: it is not kept for longer than it is read */
  size_t room_bytes;
  tsr__value **made; /* [count] */
  tsr__buffer **told;
  uint64_t *offsets;
  size_t *sizes; /* of parts, of what is lacked one after the other */
  tsr__peers_note *notes;
  int64_t *next;
  bool *wanted;           /* [count]: whether it lacks something here */
  const int64_t *promise; /* NULL, or what tsr__peers_promise is told where it can be */
  int result_count;       /* the last ones of the values, which others write */
  bool ends;              /* behind it nothing but the end of the run comes */
  struct tsr__sight *next_held;
} tsr__sight;

/* Within a run that all processes are in: what `values` (NULL ones are skipped) lack here is read
 * where it lies, through values that take their places in the list. */
tsr_status tsr__see(tsr_runtime *rt, const tsr__value **values, int count, tsr__sight *sight,
                    tsr__error *error);
/* The same of what is being made, whose replicas are not filled yet. What is read of it must be
 * asked for first, by elements in the order of a part, and have come. */
tsr_status tsr__see_made(tsr_runtime *rt, const tsr__value **values, int count, tsr__sight *sight,
                         tsr__error *error);
typedef struct tsr__sight_part {
  int value, position; /* which one of the list */
  int64_t first, count;
} tsr__sight_part;
void tsr__sight_want(const tsr__sight *sight, const tsr__sight_part *part);
/* The same of values that are there, but that nothing is read which was not asked for: by what will
 * be copied of a part. Where that is on this host, or nobody else is, nothing needs to be done.
 * sight->promise is set for the last meeting of a run, behind which nothing is left that may fail,
 * but for this: where what is seen is short all of its memory is taken before.
 * sight->result_count, on one host: the last values of the list are results that are made here and
 * will be filled, and written by whoever finishes a part of them, until tsr__unsee; where
 * sight->ends is set until the run's end, which takes the place of one more meeting. */
tsr_status tsr__see_pieces(tsr_runtime *rt, const tsr__value **values, int count, tsr__sight *sight,
                           tsr__error *error);
bool tsr__sight_is_far(const tsr__sight *sight);
void tsr__sight_want_box(const tsr__sight *sight, const tsr__buffer *from,
                         const tsr__box_copy *copy);
/* All of a value of the list that is not here. */
void tsr__sight_want_all(const tsr__sight *sight, int value);
tsr_status tsr__sight_come(const tsr__sight *sight, tsr__error *error);
/* This process has read; `status` is its own, and what is returned where it is not TSR_OK. What it
 * told others of stays as it is until they have read, too. */
tsr_status tsr__unsee(tsr__sight *sight, tsr_status status, tsr__error *error);
/* The same as a run of its own, for the host; what the value lacks without other processes is
 * refused, in the name of `what`. */
tsr_status tsr__host_sees(const tsr__value **value, const char *what, tsr__sight *sight,
                          tsr__error *error);
tsr_status tsr__host_saw(tsr__sight *sight, tsr_status status, tsr__error *error);

/* A terminal that fails in this process before it began: the others, where they wait for this one
 * in it, are told why. Whether they do follows from how the arrays lie and whether they are
 * evaluated. `looks`: the terminal wants elements; `fetches`: to copy them. */
typedef struct tsr__refusal {
  tsr_status status;
  bool looks, fetches;
  const char *message, *site;
} tsr__refusal;
void tsr__refuse_all(tsr__operands arrays, const tsr__refusal *refusal);
/* The same of values that are fetched one after the other, of which this is the rest; false: nobody
 * waits for any of them. */
bool tsr__refuse_fetches(tsr__value *const *values, int count, const tsr__refusal *refusal);

/* ---- the host looks ---------------------------------------------------------------------- */

/* Each is one point where all processes meet, and tells of the whole array: TSR_EUNSUPPORTED where
 * a part lies in other processes only. */

/* Copies an array to host memory: dense C order, bool as bytes. TSR_ECANCELLED (never for
 * TSR__AT_ONCE elements or fewer). */
tsr_status tsr__value_fetch(const tsr__value *value, void *out, const char *what,
                            tsr__error *error);
/* Of a bool array of rank 1: how many elements are true. */
tsr_status tsr__value_count(const tsr__value *mask, int64_t *out, const char *what,
                            tsr__error *error);
/* The row where the `n`-th element that is `bit` stands, counted from 0; the number of rows where
 * there are fewer. */
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
/* The same where nobody looks: sums that are not reduced may stay accumulators. */
tsr_status tsr__evaluate(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error);

/* As tsr__evaluate, but returns when the program is on its way: the roots know it, and whoever
 * needs them waits. Errors of the run are told then. */
tsr_status tsr__start(tsr_scope *scope, tsr_array *const *roots, int count, tsr__error *error);

/* What a callback is given is the first member of one of these. */
typedef struct tsr__shown {
  tsr_seen seen;
  const tsr__tap_attr *attr;
  int process; /* that shows it */
} tsr__shown;

/* Whether an array is computed of a function's argument: its body is being traced. False with the
 * error set where that cannot be found out. */
bool tsr__in_body(tsr_array *a, tsr__error *error);

/* Traces roots to a program of the caller's; nodes[i] is the node of the i-th. Arrays know their
 * node of one program at a time, and those that are evaluated any thread may trace: hence by the
 * engine, under its lock. */
tsr_status tsr__trace_roots(tsr_runtime *rt, tsr__program *program, tsr__operands roots,
                            int32_t *nodes, tsr__error *error);

/* The text of tsr_dump for an array, appended. */
tsr_status tsr__dump(tsr_array *a, tsr__text *out, tsr__error *error);
/* The text of tsr_explain for roots, appended; nothing is run. */
tsr_status tsr__explain(tsr_scope *scope, tsr_array *const *roots, int count, tsr__text *out,
                        tsr__error *error);

/* What a program of these roots takes; nothing is run. */
tsr_status tsr__figures(tsr_scope *scope, tsr_array *const *roots, int count, tsr_figures *out,
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
