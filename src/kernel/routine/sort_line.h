/* Inside kernel/routine: what the sorts share. */
#ifndef TSR_KERNEL_SORT_LINE_H
#define TSR_KERNEL_SORT_LINE_H

#include "kernel/routine/routine.h"

/* Elements at, at + step, ...: n of them. */
typedef struct tsr__line {
  tsr_dtype dtype;
  const void *from;
  int64_t at, step, n;
  int64_t to, kept;       /* where the results' line begins, and how many of them it takes */
  int64_t order;          /* tsr__sort_order */
  const uint32_t *places; /* of its elements in a longer line; NULL: 0, 1, 2, ... */
} tsr__line;

/* Line number `number` of a part's shard of operand `key`. */
tsr__line tsr__line_of(const tsr__call *call, const tsr__call_part *part, int key, int64_t number);

/* A word for each element, in the order of the elements: -0 is 0, NaN last of all. */
void tsr__line_words(const tsr__line *line, uint64_t *word);

/* Where a part's elements and places go, NULL for what nobody reads; of several keys places
 * alone. */
void tsr__line_results(const tsr__call *call, const tsr__call_part *part, void *results[2]);

/* The elements one behind the other. */
void tsr__line_gather(const tsr__line *line, void *to);

/* Elements row[0] .. of a line become elements first .. of the results' line, of which `to` has n
 * and no more than its end; where the result of places is wanted, too: theirs, which are the rows
 * unless the line lists others. NULL: nobody wants that result. */
void tsr__line_take(const tsr__line *from, const uint32_t *row, const tsr__line *to, int64_t first,
                    void *const results[2]);

/* Lines that are cut over devices. */
tsr_status tsr__sort_apart(const tsr__call *call, const tsr__line_groups *groups,
                           tsr__error *error);

#endif
