/* Inside kernel/routine: declarations that the sorts share. */
#ifndef TSR_KERNEL_SORT_LINE_H
#define TSR_KERNEL_SORT_LINE_H

#include "kernel/routine/routine.h"
#include "kernel/rows/pieces.h"

/* Elements at, at + step, ...: n of them. */
typedef struct tsr__line {
  tsr_dtype dtype;
  const void *from;
  int64_t at, step, n;
  int64_t to, kept;       /* begin of the results' line, and the elements that it takes */
  int64_t order;          /* tsr__sort_order */
  const uint32_t *places; /* its elements' places in a longer line; NULL: 0, 1, ... */
} tsr__line;

/* Line number `number` of a part's shard of operand `key`. */
tsr__line tsr__line_of(const tsr__call *call, const tsr__call_part *part, int key, int64_t number);

/* Elements that a loop over words does at once. */
enum { TSR__LINE_BLOCK = 1024 };

/* Whether words of 32 bits are enough. */
static inline bool tsr__line_narrow(const tsr__line *line)
{
  return tsr_dtype_size(line->dtype) <= sizeof(uint32_t);
}

/* A word for each element, in the order of the elements: -0 is 0, NaN last of all. Words of 32 bits
 * are for narrow elements, those of 64 for the others; they tell whether there are elements that
 * tsr__line_put would not give back: -0 and NaN. */
void tsr__line_words(const tsr__line *line, uint64_t *word);
bool tsr__line_words32(const tsr__line *line, uint32_t *word);
bool tsr__line_words64(const tsr__line *line, uint64_t *word);

/* The elements of `n` words, to elements line->to, line->to + line->step, ... of `out`. */
void tsr__line_put32(const tsr__line *line, const uint32_t *word, int64_t n, void *out);
void tsr__line_put64(const tsr__line *line, const uint64_t *word, int64_t n, void *out);
/* Whether a narrow float's word may be that of -0 or NaN, too. */
static inline bool tsr__line_odd(const tsr__line *line, uint32_t word)
{
  uint32_t all = UINT32_MAX >> (32 - 8 * tsr_dtype_size(line->dtype)), zero = (all >> 1) + 1;
  uint32_t x = line->order == TSR__ORDER_ASCENDING ? word : word ^ all;
  return x == zero || x == all || x == 0;
}

/* The memory for a part's elements and places, NULL for a result that nobody reads; several keys
 * give places alone. */
void tsr__line_results(const tsr__call *call, const tsr__call_part *part, void *results[2]);

/* Copies the elements, one after the other. */
void tsr__line_gather(const tsr__line *line, void *to);

/* Writes elements row[0], row[1] .. of a line as elements first .. of the results' line: to->n of
 * them, but none beyond its end. Writes their places, too, if wanted: the rows themselves, unless
 * the line lists other places. NULL: nobody wants that result. */
void tsr__line_take(const tsr__line *from, const uint32_t *row, const tsr__line *to, int64_t first,
                    void *const results[2]);

/* ---- one line of each device, all side by side (sort_lines.c) ------------------------------ */

typedef struct tsr__line_sort {
  tsr_runtime *rt;
  const tsr__parts *parts; /* rows: the elements of a line; none: it sits out */
  const tsr__line *lines;  /* [key * parts->count + part]; the last key decides first */
  int keys;
  bool want[2];          /* elements, which are of the only key; places */
  int way;               /* sort_lines.c's, like all that follows */
  _Atomic bool odd;      /* words do not tell some elements (-0, NaN) */
  tsr__buffer **buffers; /* two a part, or one a part for words */
  void **at, **spare;    /* records */
  uint64_t **word;
  _Atomic uint64_t *ones, *zeros; /* bits that some words have, and that some have not */
  uint64_t *differ;
  tsr__index order;
} tsr__line_sort;

/* The most scratch bytes a row, if words tell all elements. */
int64_t tsr__line_sort_room(tsr_dtype dtype, int keys, bool places);
/* Finds the order. tsr__line_sort_end releases its memory, on failure too. */
tsr_status tsr__line_sort_run(tsr__line_sort *sort, tsr__error *error);
void tsr__line_sort_end(tsr__line_sort *sort);

/* Writes some of a part's elements in order, and their places, as elements first .. of a line, like
 * tsr__line_take. */
void tsr__line_sort_take(const tsr__line_sort *sort, const tsr__piece *run, const tsr__line *to,
                         int64_t first, void *const results[2]);

/* ---- lines that are cut over devices (routine_sort_apart.c) -------------------------------- */

tsr_status tsr__sort_apart(const tsr__call *call, const tsr__line_groups *groups,
                           tsr__error *error);

#endif
