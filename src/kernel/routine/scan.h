/* Inside kernel/routine: prefixes along a dim, which may be cut over devices.
 *
 *   line      |  piece 0  |  piece 1  |  piece 2  |      of one device each, or of one that is long
 *   1         total 0      total 1                       all pieces side by side
 *   2         nothing ->   total 0 ->  total 0 + 1       what is before a piece, in order
 *   3         prefixes     prefixes    prefixes          all pieces side by side
 *
 * Only the state travels: the total of all pieces before a piece. Joining states is exact and knows
 * no order, so pieces do not change results; if joining is not exact, elements are taken in order:
 * each piece begins when the piece before it is done. */
#ifndef TSR_KERNEL_SCAN_H
#define TSR_KERNEL_SCAN_H

#include "kernel/routine/routine.h"

/* The totals of some lines so far. */
typedef struct tsr__scan_state {
  int64_t count; /* lines */
  bool empty;    /* no element yet */
  void *memory;
  tsr__rows sums; /* exact sums of floats, over the memory */
} tsr__scan_state;

/* `runs` runs of a state's `count` elements each, a line an element: the first begins at `at`, the
 * others `step` elements after the one before, or in front of it if `step` is negative. */
typedef struct tsr__scan_block {
  const tsr__tiles *tiles;
  tsr_dtype dtype;
  const void *from;
  void *to; /* the prefixes; NULL: only the state is wanted */
  int64_t at, step, runs;
} tsr__scan_block;

typedef struct tsr__scan_work {
  bool sums;        /* states are exact sums of floats: three f64; else a word a line */
  bool ordered;     /* elements must be met one after the other */
  uint64_t neutral; /* the word of no element */
  void (*go)(const tsr__scan_block *block, tsr__scan_state *state);
} tsr__scan_work;

tsr_status tsr__scan_lines(const tsr__call *call, const tsr__scan_work *work, tsr__error *error);

#endif
