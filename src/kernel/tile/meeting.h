/* Inside kernel/tile: a member's piece of a result, and the runs in which it lies in the
 * partials. */
#ifndef TSR_KERNEL_MEETING_H
#define TSR_KERNEL_MEETING_H

#include "kernel/tile/accum.h"

typedef struct tsr__meeting_now {
  const tsr__all_reduce *c;
  const tsr__tiles *tiles;
  tsr__progress *progress;
  tsr__traffic *traffic;
  tsr__error *error;
  bool streams; /* results are more than caches hold */
} tsr__meeting_now;

/* Elements of a partial, and their place in a result. */
typedef struct tsr__piece_run {
  int64_t first, count, at;
} tsr__piece_run;

/* A member's piece, run by run in C order: the dims after the last one that is cut are whole, so
 * that a run covers them and it.
 *
 *   size 4 x 6 x 5, a box of 2 x 3 x 5:   inner 5, and two runs of 3 x 5 elements */
typedef struct tsr__piece_runs {
  const tsr__pieces *pieces;
  const tsr_box *box;
  int last; /* the last dim that is cut; -1: no dim is cut */
  int64_t inner, length, runs;
} tsr__piece_runs;

/* The runs of a result of `elements` elements, unless pieces say otherwise. */
tsr__piece_runs tsr__runs_of(const tsr__all_reduce *c, int member, int64_t elements);
tsr__piece_run tsr__piece_run_at(const tsr__piece_runs *piece, int64_t index);

/* The next member, from `member` on, that finishes a piece of the results on a device of this
 * process, for all that get the same piece; member_count: no member is left. */
int tsr__next_leader(const tsr__all_reduce *c, int member);
/* Copies a member's finished run of result `k` to the others that get it. */
void tsr__send_results(const tsr__meeting_now *m, int member, int k, const tsr__piece_run *r);

/* Finishes the results of which devices bring the elements themselves (meet_whole.c). */
tsr_status tsr__meet_whole(const tsr__meeting_now *m);

#endif
