/* Rows of all parts cut into stripes that are read in parallel, for readers whose rows need no
 * splitting first (json_read.c, arrow_read.c).
 *
 *   part 0 |stripe 0|stripe 1|   part 1 |stripe 2|     a stripe begins at a multiple of 64 rows
 *                                                       of its part: no two share a word of bits
 *
 * A stripe's texts have dictionaries of their own; unified in order they give codes by first
 * appearance. */
#ifndef TSR_IO_STRIPES_H
#define TSR_IO_STRIPES_H

#include "io/rows/reader.h"

typedef struct tsr__stripe {
  int part;
  int64_t from, to; /* rows of the part */
} tsr__stripe;

typedef struct tsr__stripes {
  tsr_runtime *rt;
  tsr__read_ask *read;
  const tsr__read_column *columns; /* what read->targets[].column counts */
  int64_t count;
  tsr__stripe *stripe;
  tsr__dict_local *dicts; /* [stripe * targets + target] */
  _Atomic int64_t *nulls; /* [target] */
  tsr__peers *peers;      /* set by the user: with whom it is read; NULL: alone */
  size_t sizes[3];
} tsr__stripes;

/* Cuts `read`, of its parts those that are here, into stripes of `rows` rows, a multiple of 64 (0:
 * the usual). False: out of memory. */
bool tsr__stripes_open(tsr__stripes *stripes, tsr_runtime *rt, tsr__read_ask *read,
                       const tsr__read_column *columns, int64_t rows);
void tsr__stripes_close(tsr__stripes *stripes);
/* Makes a target's rows of a stripe null and 0. */
void tsr__stripe_clear(tsr__stripes *stripes, int64_t stripe, int target);
/* Counts the nulls of a target's rows in a stripe, once they are read. */
void tsr__stripe_count(tsr__stripes *stripes, int64_t stripe, int target);
/* Unifies the dictionaries, makes codes theirs and sets the targets' nulls. `what` names the work.
 * TSR_ENOMEM, TSR_ECANCELLED. */
tsr_status tsr__stripes_finish(tsr__stripes *stripes, const char *what, tsr__error *error);

static inline tsr_coltype tsr__stripes_type(const tsr__stripes *stripes, int target)
{
  return stripes->columns[stripes->read->targets[target].column].type;
}

static inline tsr__dict_local *tsr__stripe_dict(tsr__stripes *stripes, int64_t stripe, int target)
{
  return &stripes->dicts[stripe * stripes->read->target_count + target];
}

#endif
