/* The table of verbs as chains see it, and what follows from a row.
 *
 *   verbs.def   ->   tsr__verb (here)        columns, needs, places, estimates
 *               ->   tsr__verb_run (run/)    rows and nodes
 *               ->   words (out/)            explanations
 *
 * Invariant: whoever asks what kind of verb a frame is asks its row. */
#include "frame/chain/chain.h"

#define VERB(kind, rows, type, needs, origin, lies, estimate, ...) \
  { TSR__ROWS_##rows,     tsr__type_##type, tsr__needs_##needs,    \
    tsr__origin_##origin, tsr__lies_##lies, tsr__estimate_##estimate },
static const tsr__verb verbs[TSR__FRAME_KINDS] = {
#include "frame/chain/verbs.def"
};
#undef VERB

const tsr__verb *tsr__verb_of(const tsr_frame *df)
{
  return &verbs[df->kind];
}

/* ---- rows -------------------------------------------------------------------------------- */

/* Whether an aggregate is no plain reduction. Anywhere in the tree: "median(a) / 2" is an item as
 * well. */
static bool needs_rows(const tsr__expr *expr)
{
  if (expr->kind == TSR__E_AGG && tsr__agg_needs_rows(expr->op)) return true;
  for (int i = 0; i < expr->count; i++)
    if (needs_rows(expr->arg[i])) return true;
  return false;
}

bool tsr__frame_aggregates(const tsr_frame *df)
{
  return df->kind == TSR__FRAME_AGG || df->kind == TSR__FRAME_GROUP;
}

bool tsr__frame_by_rows(const tsr_frame *df)
{
  for (int i = 0; tsr__frame_aggregates(df) && i < df->formula.count; i++)
    if (needs_rows(df->formula.item[i].expr)) return true;
  return false;
}

/* An INDEX numbers rows by their places, which a mask before it would leave gaps in: only then are
 * the rows made first. An AGG is one row of one program, unless an aggregate of it is no
 * reduction. */
bool tsr__frame_breaks(const tsr_frame *df)
{
  switch (tsr__verb_of(df)->rows) {
  case TSR__ROWS_MOVES:
  case TSR__ROWS_MAKES: return true;
  case TSR__ROWS_NUMBERS: return tsr__frame_masked(df->parent);
  case TSR__ROWS_ONE: return tsr__frame_by_rows(df);
  default: return false;
  }
}

/* From the frame down to what made rows the last time: masks before that are in these rows already.
 * Below one row there is nothing to leave out. */
bool tsr__frame_masked(const tsr_frame *df)
{
  for (; df && !df->one_row; df = df->parent) {
    tsr__rows rows = tsr__verb_of(df)->rows;
    if (rows == TSR__ROWS_MASKS) return true;
    if (rows == TSR__ROWS_MOVES || rows == TSR__ROWS_MAKES) return false;
    if (df->other && tsr__frame_masked(df->other)) return true;
  }
  return false;
}

bool tsr__frame_same_count(const tsr_frame *df)
{
  switch (tsr__verb_of(df)->rows) {
  case TSR__ROWS_KEEPS:
  case TSR__ROWS_MAPS:
  case TSR__ROWS_NUMBERS:
  case TSR__ROWS_MOVES: return !df->count; /* the first rows of a sort are fewer */
  default: return false;
  }
}

/* ---- columns and parents ------------------------------------------------------------------- */

int tsr__frame_key_columns(const tsr_frame *df)
{
  return df->kind == TSR__FRAME_GROUP ? df->keys.formula.count : 0;
}

int tsr__frame_numbers(const tsr_frame *df)
{
  return tsr__verb_of(df)->rows == TSR__ROWS_NUMBERS;
}

/* An INDEX has a name as well, but its column stands in front and moves all others. */
int tsr__frame_added(const tsr_frame *df)
{
  if (!df->name || tsr__frame_numbers(df)) return -1;
  return tsr__schema_find(&df->schema, df->name);
}

/* A CONCAT lists all its parents in `part`, the first of which is `parent` as well. */
int tsr__frame_parent_count(const tsr_frame *df)
{
  return df->part_count ? df->part_count : (df->parent != NULL) + (df->other != NULL);
}

tsr_frame *tsr__frame_parent(const tsr_frame *df, int at)
{
  if (df->part_count) return df->part[at];
  return at ? df->other : df->parent;
}
