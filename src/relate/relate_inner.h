/* Inside relate/: a table seen slice by slice, and results put together from what slices gave.
 *
 *   mesh 2x2, rows on x       position (x,y)   0,0  0,1  1,0  1,1
 *                             slice            0    1    0    1        each slice holds every row
 *                             part             0    0    1    1        once, in order of its parts
 *
 * An operator computes slice after slice with the same steps on the same rows, so all slices come
 * to the same counts; its result is put together once all are done. */
#ifndef TSR_RELATE_RELATE_INNER_H
#define TSR_RELATE_RELATE_INNER_H

#include "kernel/rows/row_ops.h"
#include "relate/relate.h"

/* One slice of a table: parts in order of the rows, and each column's buffers by part. */
typedef struct tsr__view {
  tsr__parts parts;
  const int *position; /* by part */
  tsr__colparts *columns;
} tsr__view;

typedef struct tsr__views {
  const tsr__rel *rel;
  int slices, parts; /* parts a slice */
  tsr__view *view;   /* by slice */
  size_t size;       /* of the block that holds all of it */
} tsr__views;

/* TSR_EUNSUPPORTED where a device belongs to another process. */
tsr_status tsr__views_new(const tsr__rel *rel, tsr__views *out, tsr__error *error);
void tsr__views_free(tsr__views *views);

/* A result while it is made: `values` and `valid` [column * positions + position] hold one
 * reference each; `rows` by position. */
typedef struct tsr__draft {
  tsr_runtime *rt;
  tsr_sharding sharding;
  int count, positions;
  tsr_dtype *dtype;
  int64_t *rows;
  tsr__buffer **values, **valid;
} tsr__draft;

tsr_status tsr__draft_new(tsr_runtime *rt, const tsr_sharding *sharding, int count, tsr__draft *out,
                          tsr__error *error);
/* Takes the buffers of a column of a slice, by part; valid NULL, or NULL for a part: no nulls. */
void tsr__draft_put(tsr__draft *draft, int column, const tsr__view *view,
                    tsr__buffer *const *values, tsr__buffer *const *valid);
/* Makes the table; the draft is empty afterwards, also on failure. */
tsr_status tsr__draft_finish(tsr__draft *draft, tsr__rel *out, tsr__error *error);
void tsr__draft_free(tsr__draft *draft);

/* Releases `count` buffers (NULL allowed) and clears them. */
void tsr__drop_buffers(tsr__buffer **buffers, int64_t count);

/* What a row of a column takes on a device, validity included, in bits. */
int64_t tsr__row_bits(const tsr__colparts *column, int parts);
int64_t tsr__view_bits(const tsr__view *view, int count);

/* Adds a movement to the stats (NULL allowed): of equal name, to the one that is there. */
void tsr__stats_add(tsr__rel_stats *stats, const char *what, const tsr__moved *moved);

/* Fills key columns and keys from an operator's keys; `keys` and `columns` hold `count`. */
void tsr__view_keys(const tsr__view *view, const tsr__rel_key *from, int count, tsr__key *keys,
                    tsr__colparts *columns);

#endif
