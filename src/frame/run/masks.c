/* Masks that only a run tells: what it takes to know which rows they take.
 *
 *   tail            the selection before is counted; rows behind a number of them are taken
 *   first of each   the keys are grouped where they lie; a bit a row, kept with the frame */
#include "frame/run/run.h"

/* ---- the last rows --------------------------------------------------------------------------- */

/* The last rows of a selection are those behind a number of them, and that number only a run
 * tells. FIRSTN of it, negated, is the mask. */
tsr_status tsr__make_tail(tsr__bind *bind, tsr__visit *v, tsr__made *out)
{
  tsr_array *before = v->parent->bound.mask;
  int64_t rows = v->parent->bound.rows;
  (void)out;
  if (before) {
    if (tsr__bind_run(bind, &before, 1))
      return bind->error.status ? bind->error.status : tsr_scope_status(bind->scope);
    if (tsr__mask_rows(bind, before->value, &rows)) return bind->error.status;
  }
  v->skip = rows - v->df->count;
  return TSR_OK;
}

tsr__known tsr__known_tail(const tsr_frame *df, bool ran)
{
  if (!tsr__frame_masked(df->parent)) return TSR__KNOWN;
  return ran ? TSR__KNOWN_COUNTED : TSR__KNOWN_LATER;
}

tsr__known tsr__known_none(const tsr_frame *df, bool ran)
{
  (void)df;
  (void)ran;
  return TSR__KNOWN;
}

/* ---- the first rows of groups ---------------------------------------------------------------- */

/* The keys, and the selection before: rows that it leaves out form groups of their own. A row
 * that the selection leaves out must not be the first of its group, and leaving it out before
 * would move rows. So the selection is one more key: rows left out form groups of their own, and
 * their bits do not matter, as the selection is joined to the mask again. */
typedef struct work {
  tsr__visit *visit;
  tsr__lower low;
  tsr__bound all;
  tsr__carry carry;
  tsr__rel_key *key;
} work;

static tsr_status lower_keys(tsr__bind *bind, void *user)
{
  work *w = user;
  const tsr__formula *keys = &w->visit->df->keys.formula;
  tsr_array *mask = w->visit->parent->bound.mask;
  w->low = tsr__visit_lower(bind, w->visit);
  for (int i = 0; i < keys->count; i++) {
    const tsr__expr *expr = keys->item[i].expr;
    w->carry.col[i] = tsr__lower_key(&w->low, expr, expr->type);
    w->key[i] = (tsr__rel_key){ .column = i };
  }
  if (mask) {
    w->carry.col[keys->count] = (tsr__col){ .type = TSR_COL_BOOL, .values = mask };
    w->key[keys->count] = (tsr__rel_key){ .column = keys->count };
  }
  return tsr_scope_status(bind->scope);
}

static tsr_status note(tsr__bind *bind, tsr_frame *df, const tsr__bound *in, const tsr__rel *keys,
                       const tsr__value *mask)
{
  df->making.done = true;
  df->making.rows_in = in->mask ? -1 : keys->total;
  df->making.rows_out = -1;
  df->making.bytes_in = tsr__rel_bytes(keys);
  return in->mask ? TSR_OK : tsr__mask_rows(bind, mask, &df->making.rows_out);
}

static tsr_status find_firsts(tsr__bind *bind, work *w, tsr__value **out)
{
  tsr_frame *df = w->visit->df;
  const tsr__bound *in = &w->visit->parent->bound;
  tsr__rel rel = { 0 };
  w->all = *in;
  /* All rows where they lie: the mask is to line up with them. */
  w->all.mask = NULL;
  w->low.in = &w->all;
  tsr_status status = tsr__carry_rows(&w->low, &w->carry, &rel);
  tsr__rel_group_ask ask = { .in = &rel, .keys = w->key, .key_count = w->carry.count };
  if (!status)
    status = tsr__rel_first_of_group(&ask, df->count, out, &df->making.stats, &bind->error);
  if (!status) status = note(bind, df, in, &rel, *out);
  if (!status) {
    tsr__bind_moved(bind, &df->making.stats);
    if (!in->ragged) *out = tsr__without_counts(*out, &bind->error);
  }
  tsr__rel_free(&rel);
  return status ? status : bind->error.status;
}

tsr__known tsr__known_firsts(const tsr_frame *df, bool ran)
{
  (void)ran;
  return df->mask && df->mask_version == df->version ? TSR__KNOWN : TSR__KNOWN_LATER;
}

tsr_status tsr__make_firsts(tsr__bind *bind, tsr__visit *v, tsr__made *out)
{
  tsr_frame *df = v->df;
  const tsr__bound *in = &v->parent->bound;
  tsr__value *mask = NULL;
  (void)out;
  v->mask = df->mask;
  if (tsr__known_firsts(df, true) == TSR__KNOWN && df->mask->shape.dims[0] == in->rows)
    return TSR_OK;
  work w = { .visit = v };
  w.carry.count = df->keys.formula.count + (in->mask != NULL);
  w.carry.col = tsr__bind_room(bind, w.carry.count, sizeof *w.carry.col);
  w.key = tsr__bind_room(bind, w.carry.count, sizeof *w.key);
  if (!w.carry.col || !w.key) return bind->error.status;
  tsr_status status = tsr__lower_until_known(bind, lower_keys, &w);
  if (!status) status = find_firsts(bind, &w, &mask);
  if (status) return status;
  v->mask = tsr__value_leaf(df->node.scope, mask, df->node.site);
  if (v->mask->inert)
    return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", bind->what);
  /* Kept with the frame: the next terminal on it needs no run, unless it reads more of a file, or
   * less. */
  if (df->mask) tsr__array_delete(df->mask);
  df->mask = v->mask;
  df->mask_version = df->version;
  return TSR_OK;
}
