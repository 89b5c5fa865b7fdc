/* What must not have happened in a row: an integer that left its range, a value that a cast cannot
 * take. Programs mark it; the host looks after the run and says where.
 *
 *   rows are asked for      one bit a row stays on its device, and the host looks
 *   aggregates are          the first such row is a minimum that travels with them
 *
 * Rows that a filter dropped before, and branches that were not taken, mark nothing. */
#include "frame/lower/lower.h"

/* ---- marking ----------------------------------------------------------------------------- */

/* Whether what is being lowered is of aggregates: it stands in an item, around them. */
static bool among_aggregates(const tsr__lower *low)
{
  return tsr__frame_aggregates(low->frame) && !low->of_rows;
}

void tsr__note_overflow(tsr__lower *low, tsr_array *at, tsr_array *valid)
{
  /* A null's value is anything, and so is that of a branch that is not taken: neither may blame a
   * row. */
  tsr_array *seen = tsr__both(low, tsr__both(low, at, valid), low->guard);
  tsr_array **all = among_aggregates(low) ? &low->late : &low->overflow;
  /* One mark for all operations of an item, since the message names the item and the row. */
  *all = *all ? tsr__op2(low, TSR__OP_OR, *all, seen) : seen;
}

/* The first row (`late`: group) where `at` holds, or a number beyond them. A terminal that gives
 * rows keeps the marks instead, one bit a row, and the host looks: the devices need not talk.
 *
 *   rows asked for      mask and mark        bits     host: first bit, and how many rows that is
 *   aggregates          min(row | mark)      one i64  host: below `rows`? then that row
 *
 * Checks are a list of the terminal, newest first; how they are told is in run/. */
static tsr__run_check *watch(tsr__lower *low, tsr_array *at, bool late, const tsr__expr *expr)
{
  tsr__run_check *watch = tsr__arena_new(&low->scope->arena, sizeof *watch);
  tsr_array *mask = late ? NULL : low->in->mask;
  if (!watch) {
    tsr__fail(low->scope, low->site, TSR_ENOMEM, "%s: out of memory", low->bind->what);
    return NULL;
  }
  watch->rows = late ? low->groups : low->in->rows;
  watch->late = late;
  watch->frame = low->frame;
  watch->from = low->from ? low->from : low->frame;
  watch->expr = expr;
  watch->row = at;
  /* A reduction would make devices talk for a result that stays where it is. */
  bool gives_rows = !low->bind->top->one_row && !tsr__frame_aggregates(low->bind->top);
  if (!at->inert && at->shape.rank > 0 && gives_rows) {
    watch->row = tsr__both(low, at, mask);
  } else if (!at->inert && at->shape.rank > 0) {
    tsr__ask ask = { TSR__ATTR(tsr__reduce_attr, .dims = 1) };
    tsr_array *index = tsr__row_numbers(low);
    watch->row = tsr__make(low->scope, TSR__OP_MIN, TSR__IN(index, tsr__both(low, at, mask)), &ask,
                           low->site);
  }
  watch->next = low->bind->checks;
  low->bind->checks = watch;
  low->bind->check_count++;
  return watch;
}

void tsr__lower_finish(tsr__lower *low, const tsr__expr *expr)
{
  if (low->overflow) watch(low, low->overflow, false, expr);
  if (low->late) watch(low, low->late, true, expr);
  low->overflow = low->late = NULL;
}

tsr__col tsr__lower_row(tsr__lower *low, const tsr__expr *expr, int type)
{
  low->of_rows = true;
  tsr__col out = tsr__lower_as(low, expr, type);
  low->of_rows = false;
  tsr__lower_finish(low, expr);
  return out;
}

tsr__col tsr__lower_key(tsr__lower *low, const tsr__expr *expr, int type)
{
  tsr__col out = tsr__lower_row(low, expr, type);
  tsr__text_distinct(low, &out);
  return out;
}

/* Of i64 keys beside u64 ones: the two have no common type that has all of both. */
tsr__col tsr__lower_natural(tsr__lower *low, const tsr__expr *expr)
{
  tsr__col out = tsr__lower_key(low, expr, TSR_COL_I64);
  tsr_array *some = tsr__op2(low, TSR__OP_GE, out.values, tsr__const_i(low, TSR_I64, 0));
  out.valid = tsr__both(low, out.valid, some);
  out.values = tsr__cast(low, out.values, TSR_U64);
  out.type = TSR_COL_U64;
  return out;
}

/* A cast has a check of its own and not the item's: its message shows the value, and of which
 * cast. */
void tsr__note_cast(tsr__lower *low, const tsr__expr *expr, tsr_array *at, tsr__col from)
{
  tsr_array *seen = tsr__both(low, tsr__both(low, at, from.valid), low->guard);
  tsr__run_check *made = watch(low, seen, among_aggregates(low), expr);
  if (!made) return;
  made->cast = true;
  /* Read only if the check fails. */
  made->shown = from.values;
  made->shown_type = from.type;
  made->dict = from.dict;
}
