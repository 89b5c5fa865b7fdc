/* Inside kernel/tile: what members of a group get of a result, and in which runs it lies in what
 * they bring. */
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

/* Elements of what is brought, and where they lie in a result. */
typedef struct tsr__piece_run {
  int64_t first, count, at;
} tsr__piece_run;

/* A member's piece, run by run in C order: dims behind the last that is cut are whole, so that a
 * run goes over them and over it.
 *
 *   size 4 x 6 x 5, a box of 2 x 3 x 5:   inner 5, and two runs of 3 x 5 elements */
typedef struct tsr__piece_runs {
  const tsr__pieces *pieces;
  const tsr_box *box;
  int last; /* the last dim that is cut; -1: none is */
  int64_t inner, length, runs;
} tsr__piece_runs;

/* Of a result of so many elements, where no pieces say otherwise. */
tsr__piece_runs tsr__runs_of(const tsr__all_reduce *c, int member, int64_t elements);
tsr__piece_run tsr__piece_run_at(const tsr__piece_runs *piece, int64_t index);

/* The next member, from `member` on, that finishes a piece of the results on a device of this
 * process, for all that get the same piece; member_count: there is none. */
int tsr__next_leader(const tsr__all_reduce *c, int member);
/* To the others that get what a member finished of result `k`. */
void tsr__send_results(const tsr__meeting_now *m, int member, int k, const tsr__piece_run *r);

/* Finishes the results of which devices bring the elements themselves (meet_whole.c). */
tsr_status tsr__meet_whole(const tsr__meeting_now *m);

#endif
