/* What users see of a frame: tables drawn, plans explained; and its columns as values. */
#ifndef TSR_FRAME_OUT_H
#define TSR_FRAME_OUT_H

#include "frame/run/run.h"

/* Evaluates the rows that are to be shown and draws them (NULL: as tsr_frame_text); `text` is the
 * caller's to free after success. `apart` (NULL allowed): whether rows lay over several
 * processes. */
tsr_status tsr__frame_draw(tsr_frame *df, const tsr_show_opts *opts, tsr__text *text, bool *apart,
                           const char *site);
/* A step to be said in words: the numbers of the steps that it stands on, in the order of the
 * frame's parents; -1: none. */
typedef struct tsr__words {
  const tsr__visit *visit;
  const int *from;
} tsr__words;
/* Adds what a step does (verb_words.c). */
void tsr__verb_words(const tsr__words *words, tsr__text *out);
/* The shape of the plan of a frame's columns (tests). */
tsr_status tsr__frame_plan_shape(tsr_frame *df, tsr__plan_shape *out);

/* ---- frames as values (frame_shards.c) ------------------------------------------------------- */

/* A column's rows where they lie; `valid` NULL: no nulls. Types are those of tsr__shard_type. */
typedef struct tsr__shard_column {
  const char *name;
  uint8_t type;
  tsr__value *values, *valid;
  const tsr__dict *dict; /* text; NULL: only nulls */
} tsr__shard_column;
/* Is given each column, of which it may hold what it likes. */
typedef tsr_status tsr__shards_fn(void *user, const tsr__shard_column *column, tsr__error *error);
/* Evaluates a frame as all processes that have rows of it do together; errors as those of a
 * terminal `what` (static) in the frame's scope. */
tsr_status tsr__frame_shards(tsr_frame *df, const char *what, tsr__shards_fn *each, void *user);
/* Makes a fresh frame of kind ARRAYS one of columns that lie alike, one at least, whose names are
 * copied and whose values and dictionaries are held; inert out of memory. */
tsr_frame *tsr__frame_of_shards(tsr_frame *df, const tsr__shard_column *columns, int count);

#endif
