/* How many rows a step is likely to leave, before it ran: for explanations only, nothing is decided
 * by it; and what a terminal counted, which is better. The shares are the customary ones for values
 * nobody has counted.
 *
 *   a == b, a in (b, c)      a tenth each          a < b, a >= b ...     a third
 *   a is null                a twentieth           other bools           a half
 *   x and y                  share(x) * share(y)   not x                 1 - share(x) */
#include "frame/chain/chain.h"

#include <math.h>

static double in_bounds(double share)
{
  return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* The share of rows for which a bool expression is likely to hold: 0 .. 1. */
static double share_of(const tsr__expr *expr)
{
  double a, b;
  switch (expr->kind) {
  case TSR__E_BOOL: return expr->i ? 1 : 0;
  case TSR__E_NULL: return 0;
  case TSR__E_NOT: return 1 - share_of(expr->arg[0]);
  case TSR__E_AND: return share_of(expr->arg[0]) * share_of(expr->arg[1]);
  case TSR__E_OR:
    /* As if both were independent: P(a) + P(b) - P(a and b). */
    a = share_of(expr->arg[0]);
    b = share_of(expr->arg[1]);
    return a + b - a * b;
  case TSR__E_ISNULL: return expr->negated ? 0.95 : 0.05;
  case TSR__E_IN: a = in_bounds(0.1 * (expr->count - 1)); return expr->negated ? 1 - a : a;
  case TSR__E_BINARY:
    if (expr->op == TSR__B_EQ) return 0.1;
    if (expr->op == TSR__B_NE) return 0.9;
    return 1.0 / 3;
  default: return 0.5;
  }
}

/* Kept as if rows had been made: an explanation reads both at one place. rows_in of -1 is not
 * known. */
void tsr__note_count(tsr_frame *df, int64_t rows)
{
  /* The rows of a source are known. */
  if (tsr__frame_is_source(df)) return;
  if (!df->making.done) df->making.rows_in = -1;
  df->making.done = true;
  df->making.rows_out = rows;
}

/* How many texts a list has that differ; 0: unknown. */
static double texts_of(const tsr__dict *dict)
{
  const tsr__dict_once *once = dict->repeats ? atomic_load(&((tsr__dict *)dict)->once) : NULL;
  if (dict->repeats && !once) return 0;
  return once && once->dict ? once->dict->count : dict->count;
}

/* The values that a key takes, where its type or its dictionary tells; 0: unknown.
 *
 *   select b = a | filter | file a      b is followed as a below the select, to a's dictionary
 *
 * A dictionary has at least the texts that are left, so filters between make the guess too large,
 * and nothing worse. */
static double values_of(const tsr_frame *df, const tsr__expr *expr)
{
  if (expr->type == TSR_COL_BOOL) return 2;
  /* A name is followed to where its column comes from. */
  if (expr->kind != TSR__E_COLUMN) return 0;
  for (const char *name = expr->text; df; df = df->parent) {
    int at = tsr__schema_find(&df->schema, name);
    /* A column that was computed has another number of values. */
    if (at < 0 || (df->kind == TSR__FRAME_ASSIGN && !strcmp(df->name, name))) return 0;
    if (df->kind == TSR__FRAME_SELECT && df->formula.item[at].expr->kind != TSR__E_COLUMN) return 0;
    if (df->kind == TSR__FRAME_SELECT) name = df->formula.item[at].expr->text;
    if (df->kind == TSR__FRAME_TEXT && !strcmp(df->name, name)) at = 0;
    else if (df->kind == TSR__FRAME_TEXT) continue;
    const tsr__source *source = df->source;
    if (source && source->col[at].dict) return texts_of(source->col[at].dict);
    if (source && source->pushed && source->pushed->col[at].dict)
      return texts_of(source->pushed->col[at].dict);
  }
  return 0;
}

/* How many groups the keys of a frame are likely to make of so many rows. */
static double groups_of(const tsr_frame *df, double rows)
{
  double groups = 1;
  for (int i = 0; i < df->keys.formula.count; i++) {
    /* Keys as if they were independent. */
    double values = values_of(df->parent, df->keys.formula.item[i].expr);
    /* A tenth of the rows where nothing is known. */
    groups *= values > 0 ? values : rows > 10 ? rows / 10 : 1;
  }
  return groups < rows ? groups : rows;
}

/* ---- rows of verbs ------------------------------------------------------------------------ */

static double between(double rows, double most)
{
  return rows < 0 ? 0 : rows < most ? rows : most;
}

/* Fewer rows than those before; known exactly where they are, unless the values decide. */
static tsr__amount likely(double rows)
{
  return (tsr__amount){ round(rows), false };
}

static tsr__amount exact(double rows, const tsr__amount *from)
{
  return (tsr__amount){ rows, from->counted };
}

tsr__amount tsr__estimate_same(const tsr_frame *df, const tsr__amount *const *from)
{
  (void)df;
  return *from[0];
}

tsr__amount tsr__estimate_filter(const tsr_frame *df, const tsr__amount *const *from)
{
  return likely(from[0]->rows * share_of(df->formula.item[0].expr));
}

/* What comes of exact numbers by arithmetic alone is exact; `counted` goes along with them. */
tsr__amount tsr__estimate_head(const tsr_frame *df, const tsr__amount *const *from)
{
  return exact(between(from[0]->rows - (double)df->first, (double)df->count), from[0]);
}

tsr__amount tsr__estimate_tail(const tsr_frame *df, const tsr__amount *const *from)
{
  return exact(between(from[0]->rows, (double)df->count), from[0]);
}

tsr__amount tsr__estimate_sort(const tsr_frame *df, const tsr__amount *const *from)
{
  return df->count ? tsr__estimate_tail(df, from) : *from[0];
}

tsr__amount tsr__estimate_sample(const tsr_frame *df, const tsr__amount *const *from)
{
  if (df->sample.rows <= 0) return likely(from[0]->rows * df->sample.fraction);
  return exact(between(from[0]->rows, (double)df->sample.rows), from[0]);
}

tsr__amount tsr__estimate_firsts(const tsr_frame *df, const tsr__amount *const *from)
{
  double rows = from[0]->rows;
  return likely(between(groups_of(df, rows) * (double)df->count, rows));
}

tsr__amount tsr__estimate_group(const tsr_frame *df, const tsr__amount *const *from)
{
  return likely(groups_of(df, from[0]->rows));
}

tsr__amount tsr__estimate_describe(const tsr_frame *df, const tsr__amount *const *from)
{
  (void)df;
  (void)from;
  return (tsr__amount){ 9, true };
}

tsr__amount tsr__estimate_arith(const tsr_frame *df, const tsr__amount *const *from)
{
  /* One row beside many is repeated: the other side has the rows. */
  return *from[df->other && df->parent->one_row];
}

tsr__amount tsr__estimate_join(const tsr_frame *df, const tsr__amount *const *from)
{
  /* A semi or anti join keeps some of the left rows; others are guessed to meet one row each. */
  bool half = df->join->how == TSR_JOIN_SEMI || df->join->how == TSR_JOIN_ANTI;
  return likely(half ? from[0]->rows / 2 : from[0]->rows);
}

tsr__amount tsr__estimate_concat(const tsr_frame *df, const tsr__amount *const *from)
{
  tsr__amount sum = { 0, true };
  for (int i = 0; i < df->part_count; i++) {
    sum.rows += from[i]->rows;
    sum.counted = sum.counted && from[i]->counted;
  }
  return sum;
}
