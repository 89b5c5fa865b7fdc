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

#include "io/rows/predicate.h"

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
/* Makes all targets' rows of a stripe null and 0, and lets none of them pass. */
void tsr__stripe_clear(tsr__stripes *stripes, int64_t stripe);
/* Counts the targets' nulls in a stripe, once its rows are read. */
void tsr__stripe_count(tsr__stripes *stripes, int64_t stripe);
/* Unifies the dictionaries, makes codes theirs and sets the targets' nulls. `what` names the work.
 * TSR_ENOMEM, TSR_ECANCELLED. */
tsr_status tsr__stripes_finish(tsr__stripes *stripes, const char *what, tsr__error *error);

/* Rows of a stripe that lie in one word of bits; `from` counts in the part, as the stripe's do. */
typedef struct tsr__stripe_word {
  int64_t stripe, from;
  int count;
} tsr__stripe_word;

/* Where predicates find texts: as they lie in what is read, so that those of rows which are dropped
 * go nowhere. */
typedef struct tsr__stripe_asks {
  /* Of rows in `ask`, bit 0 the first, which hold a text that is one of those asked for: any with
   * `judge` NULL, else one that passes it. */
  uint64_t (*texts)(void *user, int target, tsr__stripe_word rows, uint64_t ask,
                    const tsr__judge *judge);
  void *user;
  tsr__judged judged; /* the stripe's */
  bool no_memory;     /* out */
} tsr__stripe_asks;

/* Judges rows from .. from + count - 1 of a stripe, once its targets of predicates that are no
 * texts hold them: sets their bits of `kept`, which are 0. */
void tsr__stripe_judge(const tsr__stripes *stripes, int64_t stripe, int64_t from, int64_t count,
                       tsr__stripe_asks *asks);
/* Whether a target must be read before rows are judged. */
bool tsr__stripes_judged(const tsr__stripes *stripes, int target);
/* The bits of a stripe's part that say which of a target's texts are wanted; NULL: all. */
const uint64_t *tsr__stripe_kept(const tsr__stripes *stripes, int64_t stripe, int target);

static inline bool tsr__stripe_wants(const uint64_t *kept, int64_t row)
{
  return !kept || kept[row / 64] >> (row % 64) & 1;
}

/* Whether values of a target go anywhere. */
static inline bool tsr__stripes_reads(const tsr__stripes *stripes, int target)
{
  const tsr__read_target *t = &stripes->read->targets[target];
  return !t->told && !t->there;
}

static inline tsr_coltype tsr__stripes_type(const tsr__stripes *stripes, int target)
{
  return stripes->columns[stripes->read->targets[target].column].type;
}

static inline tsr__dict_local *tsr__stripe_dict(tsr__stripes *stripes, int64_t stripe, int target)
{
  return &stripes->dicts[stripe * stripes->read->target_count + target];
}

#endif
