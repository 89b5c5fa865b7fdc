/* Inside kernel/routine: scattering, and how what devices made of their own updates is joined. */
#ifndef TSR_KERNEL_SCATTER_H
#define TSR_KERNEL_SCATTER_H

#include "kernel/exact/exact_bins.h"
#include "kernel/routine/routine.h"
#include "tessera/indexing.h"

enum { TSR__SCATTER_WIDTH = 64 }; /* the most lines of a strip */

/* What a strip is made of: updates, and where those go. */
typedef struct tsr__scattering {
  const tsr__strip *strip;
  tsr_dtype dtype;
  const tsr__scatter_attr *attr;
  const tsr__gnode *x;
  const void *at; /* i64, or i32 where `narrow` */
  bool narrow;
  _Atomic bool *outside; /* set where an index is none of the dim's */
  const void *updates;
  void *to;
  int64_t count, size, left; /* count: indices here; size: of the dim in the whole; left: of
                                tsr__strip_goes_on */
  int64_t begin, end;        /* of the updates these are meant: all, unless set */
} tsr__scattering;

/* Joins `n` lines of `width` elements into places of an array; lines begin `after` elements from
 * each other in both. A place of -1 is none. */
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
/* Joins the updates here into what is there. */
void tsr__scatter_fold(tsr__scattering *a, tsr__join_fn *join);

/* Takes floats, each with its place: element t of line j of a strip has t * count + j; -1 is none.
 * Those of the operand lie in a row. */
typedef void tsr__take_fn(void *user, const int64_t *place, const tsr__reals *x);

/* Blocks of the operand, in order of their places, and of the updates, in theirs. */
void tsr__scatter_each_x(tsr__scattering *a, tsr__take_fn *take, void *user);
void tsr__scatter_each_update(tsr__scattering *a, tsr__take_fn *take, void *user);

/* How many lines a strip may have, and how many dims behind the first are one with it. */
int64_t tsr__scatter_width(const tsr__call *call);
int tsr__scatter_more(const tsr__call *call);

/* Whether it makes sums of floats. */
bool tsr__scatter_sums(const tsr__call *call);
/* Whether the order of updates cannot show, nor how they are joined. */
bool tsr__scatter_free(const tsr__call *call);
/* Of the parts that are here, the first index that is none of the dim's, by where it stands among
 * all; INT64_MAX: there is none, or such updates are dropped. And what is said of it. */
typedef struct tsr__scatter_wrong {
  int64_t position, value;
} tsr__scatter_wrong;
tsr__scatter_wrong tsr__scatter_find_wrong(const tsr__call *call);
tsr_status tsr__scatter_refuse(const tsr__call *call, const tsr__scatter_wrong *wrong,
                               tsr__error *error);
/* Where the updates are cut, or may be (scatter_apart.c). */
tsr_status tsr__scatter_apart(const tsr__call *call, _Atomic bool *outside, tsr__error *error);

#endif
