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
  const bool *here;    /* by part: it is this process's */
  bool apart;          /* what is found of it must be agreed on: see below */
  tsr__buffer *none;   /* apart: stands for buffers of other processes */
  tsr__colparts *columns;
} tsr__view;

typedef struct tsr__views {
  const tsr__rel *rel;
  int slices, parts; /* parts a slice */
  tsr__view *view;   /* by slice */
  bool apart;
  size_t size;       /* of the block that holds all of it */
  tsr__buffer *none; /* of the views of it */
  tsr__sight sight;  /* what is seen of other processes, as a table of its own */
  tsr__rel seen;
} tsr__views;

/* Of a table on a mesh over several processes (`apart`) parts of other processes have no rows; what
 * is found of all rows is agreed on. */
tsr_status tsr__views_new(const tsr__rel *rel, tsr__views *out, tsr__error *error);
/* All rows, those of other processes to be read where they lie, and of another host's once they
 * were asked for of `sight` and have come: one meeting of all processes, and one in
 * tsr__views_close, which gives `status` or what became of it. */
tsr_status tsr__views_see(const tsr__rel *rel, tsr__views *out, tsr__error *error);
tsr_status tsr__views_close(tsr__views *views, tsr_status status, tsr__error *error);
void tsr__views_free(tsr__views *views);

/* ---- several processes (rel_together.c) -------------------------------------------------- */

/* An operator, as all processes begin and end it together. */
typedef struct tsr__rel_meeting {
  tsr_runtime *rt;
  tsr__error *error;
  tsr__peers *peers; /* NULL: each process by itself */
  tsr__rel_stats *stats;
} tsr__rel_meeting;

/* Begins what `what` names, of a table and, where it is not NULL, to where its rows go; every
 * operator that others call is one run. */
tsr_status tsr__rel_enter(tsr__rel_meeting *m, const char *what, const tsr__rel *rel,
                          const tsr_sharding *to);
/* Ends it with this process's status; adds up what moved. A table that was made is released where
 * another process failed. */
tsr_status tsr__rel_leave(const tsr__rel_meeting *m, tsr_status status, tsr__rel *out);

/* What the processes found becomes one; without `apart` it is what it is. */
tsr_status tsr__agree_any(tsr_runtime *rt, bool apart, bool *any, tsr__error *error);
tsr_status tsr__agree_sum(tsr_runtime *rt, bool apart, int64_t *sum, tsr__error *error);
tsr_status tsr__agree_keys(tsr_runtime *rt, bool apart, tsr__key *keys, int count,
                           tsr__error *error);
tsr_status tsr__agree_extent(tsr_runtime *rt, bool apart, tsr__match_extent *extent,
                             tsr__error *error);
tsr_status tsr__agree_sample(tsr_runtime *rt, bool apart, tsr__sort_sample *sample,
                             tsr__error *error);

/* A result while it is made: `values` and `valid` [column * positions + position] hold one
 * reference each; `rows` by position. */
typedef struct tsr__draft {
  tsr_runtime *rt;
  tsr_sharding sharding;
  int count, positions;
  tsr_dtype *dtype;
  int64_t *rows;
  bool *nulls; /* by column: found at the end */
  tsr__buffer **values, **valid;
} tsr__draft;

tsr_status tsr__draft_new(tsr_runtime *rt, const tsr_sharding *sharding, int count, tsr__draft *out,
                          tsr__error *error);
/* Takes the buffers of a column of a slice, by part; valid NULL, or NULL for a part: no nulls. */
void tsr__draft_put(tsr__draft *draft, int column, const tsr__view *view,
                    tsr__buffer *const *values, tsr__buffer *const *valid);
/* Makes the table; the draft is empty afterwards, also on failure. */
tsr_status tsr__draft_finish(tsr__draft *draft, tsr__rel *out, tsr__error *error);
/* The rows of other processes' positions, and for each column whether any process has nulls. */
tsr_status tsr__agree_draft(tsr__draft *draft, tsr__error *error);
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

/* The operators as others call them, within a run of theirs. */
tsr_status tsr__sort_table(const tsr__rel_sort_ask *ask, tsr__rel *out, tsr__rel_stats *stats,
                           tsr__error *error);
tsr_status tsr__place_table(const tsr__rel *in, const tsr_sharding *to, tsr__rel *out,
                            tsr__rel_stats *stats, tsr__error *error);
/* The first `count` rows (all where there are fewer), where they lie. */
tsr_status tsr__first_of_table(const tsr__rel *in, int64_t count, tsr__rel *out, tsr__error *error);

#endif
