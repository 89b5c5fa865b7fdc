/* Asking for the different values of a column, and the place of each row's value among them.
 *
 *   values     7 3 3 9 7         list    3 7 9        place    1 0 0 2 1
 *
 * This is how functions of two text columns learn which pairs of texts there are, and how numbers
 * become texts: what is asked is asked once of each different value, and rows look it up. Only a
 * run tells them (run/find_distinct.c), so whoever lowers asks, goes on with nulls, and is asked to
 * lower the same again when they were found. */
#include "frame/lower/functions.h"

/* Whether what is asked about stands around the aggregates of all rows: it is one value then, and
 * not as many as the rows that are lowered over. */
static bool is_one(const tsr__lower *low)
{
  return tsr__frame_aggregates(low->frame) && !low->of_rows && !low->leaves;
}

/* The list is short, one entry for each function of two texts or cast to text, so it is walked. */
const tsr__distinct *tsr__ask_distinct(tsr__lower *low, const tsr__distinct *ask)
{
  tsr__bind *bind = low->bind;
  if (tsr_scope_status(low->scope)) return NULL; /* cancelled, perhaps: no more work */
  /* By place in the tree: when the same is lowered again, what was found is found again. An
   * expression may ask for several things, its `part`s. */
  for (const tsr__distinct *d = bind->distinct; d; d = d->next)
    if (d->frame == low->frame && d->expr == ask->expr && d->part == ask->part)
      return d->found ? d : NULL;
  tsr__distinct *d = tsr__lower_room(low, 1, sizeof *d);
  if (!d) return NULL;
  *d = *ask;
  /* Rows that the selection leaves out are not asked about: they may hold values without number. */
  if (!is_one(low)) {
    d->values = tsr__spread(low, d->values);
    d->mask = tsr__both(low, low->in->mask, d->mask);
    if (d->mask) d->mask = tsr__spread(low, d->mask);
  }
  if (d->values->inert || (d->mask && d->mask->inert)) return NULL;
  d->frame = low->frame;
  d->site = low->site;
  d->next = bind->distinct;
  bind->distinct = d;
  bind->asked = true;
  return NULL;
}

tsr_array *tsr__place_of(tsr__lower *low, const tsr__distinct *of)
{
  tsr_dtype dtype = (tsr_dtype)of->values->dtype;
  if (!of->count) return tsr__const_i(low, TSR_I64, 0);
  tsr_array *list = tsr__table_leaf(low, dtype, of->list, of->count);
  tsr_array *at = tsr__make(low->scope, TSR__OP_SEARCH, TSR__IN(list, of->values),
                            &(tsr__ask){ .dtype = TSR_I64 }, low->site);
  /* SEARCH counts the entries that are not above a value, so its own place is one less. Rows left
   * out above may hold anything: they get place 0, which is there. */
  at = tsr__op2(low, TSR__OP_SUB, at, tsr__const_i(low, TSR_I64, 1));
  return tsr__op2(low, TSR__OP_MAXIMUM, at, tsr__const_i(low, TSR_I64, 0));
}
