/* Inside kernel/routine: scattering, and the join of results that devices made of their own
 * updates. */
#ifndef TSR_KERNEL_SCATTER_H
#define TSR_KERNEL_SCATTER_H

#include "kernel/exact/exact_bins.h"
#include "kernel/routine/routine.h"
#include "tessera/indexing.h"

enum { TSR__SCATTER_WIDTH = 64 }; /* the most lines of a strip */

/* The operands of a strip: updates, and the places that they go to. */
typedef struct tsr__scattering {
  const tsr__strip *strip;
  tsr_dtype dtype;
  const tsr__scatter_attr *attr;
  const tsr__gnode *x;
  const void *at; /* i64, or i32 where `narrow` */
  bool narrow;
  _Atomic bool *outside; /* set if an index is outside of the dim */
  const void *updates;
  void *to;
  int64_t count, size, left; /* count: indices here; size: of the dim in the whole; left: for
                                tsr__strip_goes_on */
  int64_t begin, end;        /* the updates to take: all, unless set */
} tsr__scattering;

/* Joins `n` lines of `width` elements into places of an array; lines begin `after` elements from
 * each other in both. A place of -1 is skipped. */
typedef struct tsr__joined {
  void *to;
  const void *from;
  const int64_t *place;
  int64_t n, width, after;
} tsr__joined;

typedef void tsr__join_fn(const tsr__joined *what);

tsr__scattering tsr__scattering_of(const tsr__strip *strip);
/* Which element of a line of the shard update `j` goes to; -1: none of them. */
int64_t tsr__scatter_place(const tsr__scattering *a, int64_t j);
/* NULL: sums and products of floats, which are kept wider until they are read. */
tsr__join_fn *tsr__scatter_join(const tsr__scattering *a);
/* Joins the updates of this device into the array `to`. */
void tsr__scatter_fold(tsr__scattering *a, tsr__join_fn *join);

/* Takes floats, each with its place: element t of line j of a strip has t * count + j; -1 is
 * skipped. The operand's places lie in a row. */
typedef void tsr__take_fn(void *user, const int64_t *place, const tsr__reals *x);

/* Blocks of the operand, in order of their places, and of the updates, in theirs. */
void tsr__scatter_each_x(tsr__scattering *a, tsr__take_fn *take, void *user);
void tsr__scatter_each_update(tsr__scattering *a, tsr__take_fn *take, void *user);

/* Elements of the batch dims that lie with a part; each has indices of its own. */
int64_t tsr__scatter_batch(const tsr__call *call, const tsr__call_part *part);
/* The most lines that a strip may have, and the number of dims after the first that are one with
 * it. */
int64_t tsr__scatter_width(const tsr__call *call);
int tsr__scatter_more(const tsr__call *call);

/* Whether it makes sums of floats. */
bool tsr__scatter_sums(const tsr__call *call);
/* Whether the order of updates cannot show, nor how they are joined. */
bool tsr__scatter_free(const tsr__call *call);
/* The first index outside of the dim among the parts that are here, by its position among all;
 * INT64_MAX: no such index, or such updates are dropped. `value` is the index, for the message. */
typedef struct tsr__scatter_wrong {
  int64_t position, value;
} tsr__scatter_wrong;
tsr__scatter_wrong tsr__scatter_find_wrong(const tsr__call *call);
tsr_status tsr__scatter_refuse(const tsr__call *call, const tsr__scatter_wrong *wrong,
                               tsr__error *error);
/* Scatters updates that are sharded, or shared out to workers (scatter_apart.c). */
tsr_status tsr__scatter_apart(const tsr__call *call, _Atomic bool *outside, tsr__error *error);

#endif
