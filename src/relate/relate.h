/* Level 5: relational operators over tables of values: sort, group, join, and moving rows.
 *
 * A table is columns of one layout: values as execute/ keeps them, rows over devices with whatever
 * counts a filter left. An operator takes whole columns and gives whole columns, on the same mesh,
 * and its result, the order of rows included, does not depend on the mesh. Rows travel only by
 * the ragged all-to-all (execute/exchange.h) and by copies that are counted.
 *
 * Positions that hold the same rows (replicas over other mesh axes) each compute for themselves,
 * slice by slice, so that replicas cost no communication and never count twice.
 *
 * Memory: every operator first computes what it needs on each device and fails with TSR_ENOMEM,
 * naming need and limit, before it allocates anything. */
#ifndef TSR_RELATE_RELATE_H
#define TSR_RELATE_RELATE_H

#include "execute/exchange.h"
#include "execute/execute.h"
#include "kernel/rows/columns.h"

typedef struct tsr__rel_column {
  tsr__value *values, *valid; /* rank 1; valid: bool, NULL: no nulls. References are the table's */
} tsr__rel_column;

typedef struct tsr__rel {
  tsr_runtime *rt;
  tsr_sharding sharding; /* canonical; mesh NULL: unplaced, one position */
  int64_t total;         /* rows over all devices, replicas counted once */
  int count;
  tsr__rel_column *column; /* heap */
} tsr__rel;

/* Makes a table of `count` columns without values yet and total 0; the caller sets them.
 * TSR_ENOMEM. */
tsr_status tsr__rel_new(tsr_runtime *rt, const tsr_sharding *sharding, int count, tsr__rel *out,
                        tsr__error *error);
void tsr__rel_free(tsr__rel *rel); /* releases the values; an empty one is allowed */

/* Whether all processes work on what lies so together: on a mesh, where there are several. */
bool tsr__rel_apart(const tsr_runtime *rt, const tsr_sharding *sharding);

/* As tsr__agreeing has it; `user` is the runtime. Within a run of all processes. */
tsr_status tsr__agree_found(void *user, void *found, size_t size, tsr__join_found *join,
                            tsr__error *error);

/* What an operator did, for explain. `method` is static text: "radix sort", "direct table", ... */
enum { TSR__REL_MOVES = 6 };
typedef struct tsr__rel_move {
  const char *what; /* static: "left keys", "rows by key", "right rows to all" */
  int64_t rows, bytes;
} tsr__rel_move;
typedef struct tsr__rel_stats {
  const char *method;
  int64_t need; /* bytes of the busiest device beyond its input */
  int move_count;
  tsr__rel_move move[TSR__REL_MOVES];
} tsr__rel_stats;

/* A key: a column's number, its order, and for text what its codes stand for. */
typedef struct tsr__rel_key {
  int column;
  bool descending, nulls_first;
  const int32_t *map;
  int64_t map_count;
} tsr__rel_key;

/* Rows in order of the keys, stable over all devices. Every column is carried along; devices hold
 * even shares afterwards or nearly so. */
typedef struct tsr__rel_sort_ask {
  const tsr__rel *in;
  const tsr__rel_key *keys;
  int key_count;
} tsr__rel_sort_ask;
tsr_status tsr__rel_sort(const tsr__rel_sort_ask *ask, tsr__rel *out, tsr__rel_stats *stats,
                         tsr__error *error);

/* The first `count` rows of that order, without sorting the rest where they are few. */
tsr_status tsr__rel_top(const tsr__rel_sort_ask *ask, int64_t count, tsr__rel *out,
                        tsr__rel_stats *stats, tsr__error *error);

/* One row a group of equal keys (0 keys: one group, also of no rows): the keys of its first row in
 * order, then the aggregates. Groups come in order of their first row over all devices. */
typedef struct tsr__rel_group_ask {
  const tsr__rel *in;
  const tsr__rel_key *keys;
  int key_count;
  const tsr__group_agg *aggs;
  int agg_count;
} tsr__rel_group_ask;
tsr_status tsr__rel_group(const tsr__rel_group_ask *ask, tsr__rel *out, tsr__rel_stats *stats,
                          tsr__error *error);

/* Keeps the first `count` rows of each group of equal keys, in order: distinct is count 1. The
 * result is a bool value for the rows of `in` (replicas included). */
tsr_status tsr__rel_first_of_group(const tsr__rel_group_ask *ask, int64_t count, tsr__value **out,
                                   tsr__rel_stats *stats, tsr__error *error);

/* Joins: `left` columns then the right columns listed in `take`. Rows come in order of the left
 * ones, then of the right ones, and lie where the left row lay. A right side that is whole on every
 * device is joined without moving anything; otherwise it is broadcast or keys are exchanged,
 * whatever moves fewer bytes. */
typedef struct tsr__rel_join_ask {
  const tsr__rel *left, *right;
  const tsr__rel_key *left_keys, *right_keys; /* maps: right codes in the left's dictionary */
  int key_count;
  int how;         /* tsr__match_how */
  const int *take; /* columns of `right` */
  int take_count;
} tsr__rel_join_ask;
tsr_status tsr__rel_join(const tsr__rel_join_ask *ask, tsr__rel *out, bool *repeats,
                         tsr__rel_stats *stats, tsr__error *error);

/* The same rows in the same order, lying as `to` says with the usual borders: scatter, gather,
 * rebalance. */
tsr_status tsr__rel_place(const tsr__rel *in, const tsr_sharding *to, tsr__rel *out,
                          tsr__rel_stats *stats, tsr__error *error);
/* The rows of several tables of equal columns one after the other, with the first one's
 * sharding. */
tsr_status tsr__rel_concat(const tsr__rel *const *in, int count, tsr__rel *out,
                           tsr__rel_stats *stats, tsr__error *error);

/* What an operator is about to ask of a device beyond what it holds: TSR_ENOMEM, naming need and
 * limit, if that is too much; else notes it as `need` of the stats (NULL allowed) if it is the
 * most. */
typedef struct tsr__need {
  tsr_runtime *rt;
  const char *what; /* "sort" */
  tsr__rel_stats *stats;
} tsr__need;
tsr_status tsr__need_check(const tsr__need *need, int device, int64_t bytes, tsr__error *error);

#endif
