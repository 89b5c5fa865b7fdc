/* Finds the different values that lowering asked for (lower/ask_distinct.c): in one run for all
 * that was asked, then as a group and a sort by relate/, unless rows are few. The lists come to
 * the host in order, so that no mesh shows in them. */
#include "frame/lower/functions.h"
#include "frame/run/run.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 1 << 24, FEW = 1 << 12 }; /* rows that are not worth a group */

/* The values that were evaluated, once each and in order; what is not valid is one null. Sorted
 * after grouping: groups come in order of first rows, which a filter before changes; the order of
 * values nothing changes. */
static tsr_status group_values(tsr__lower *low, const tsr__distinct *ask, tsr__rel *out)
{
  tsr__bind *bind = low->bind;
  const tsr_array *values = ask->values;
  tsr__bound rows = { .rows = values->shape.dims[0] };
  tsr__col col = { .values = ask->values, .valid = ask->mask };
  tsr__rel_key key = { .column = 0 };
  tsr__rel in = { 0 }, groups = { 0 };
  tsr__rel_stats stats = { 0 };
  low->in = &rows;
  col.type = values->dtype == TSR_F64 ? TSR_COL_F64 : TSR_COL_I64;
  tsr_status status = tsr__carry_rows(low, &(tsr__carry){ &col, 1 }, &in);
  tsr__rel_group_ask group = { .in = &in, .keys = &key, .key_count = 1 };
  tsr__rel_sort_ask sort = { .in = &groups, .keys = &key, .key_count = 1 };
  if (!status) status = tsr__rel_group(&group, &groups, &stats, &bind->error);
  if (!status) tsr__bind_moved(bind, &stats);
  stats = (tsr__rel_stats){ 0 };
  if (!status) status = tsr__rel_sort(&sort, out, &stats, &bind->error);
  if (!status) tsr__bind_moved(bind, &stats);
  tsr__rel_free(&in);
  tsr__rel_free(&groups);
  return status;
}

/* Leaves out nulls and NaN, and makes one zero of two. Nulls may have any value in their place,
 * and each NaN would be another. */
static int64_t leave_out(void *list, const uint8_t *valid, int64_t count, bool real)
{
  int64_t used = 0;
  uint64_t *bits = list;
  for (int64_t i = 0; i < count; i++) {
    double value;
    memcpy(&value, &bits[i], sizeof value);
    if ((valid && !valid[i]) || (real && isnan(value))) continue;
    bits[used++] = real && value == 0 ? 0 : bits[i];
  }
  return used;
}

static int by_integer(const void *left, const void *right)
{
  const int64_t *a = left, *b = right;
  return *a < *b ? -1 : *a > *b;
}

static int by_real(const void *left, const void *right)
{
  const double *a = left, *b = right;
  return *a < *b ? -1 : *a > *b;
}

/* The list of values in order, or of few in any: these are put in order here. To the host, since
 * what is done with it, making texts, is done there. */
static tsr_status take_list(tsr__bind *bind, const tsr__rel_column *from, bool sorted,
                            tsr__distinct *ask)
{
  bool real = from->values->dtype == TSR_F64;
  int64_t count = from->values->shape.rank ? from->values->shape.dims[0] : 1, used = 0;
  if (count > MOST)
    return tsr__error_set(&bind->error, TSR_EUNSUPPORTED,
                          "%s: more than %d different values or pairs of texts; filter rows first, "
                          "or group the values into fewer",
                          bind->what, MOST);
  uint64_t *list = tsr__bind_room(bind, count, sizeof *list);
  uint8_t *valid = from->valid ? tsr__bind_room(bind, count, 1) : NULL;
  if (!list || (from->valid && !valid)) return bind->error.status;
  if (tsr__value_fetch(from->values, list, bind->what, &bind->error) ||
      (valid && tsr__value_fetch(from->valid, valid, bind->what, &bind->error)))
    return bind->error.status;
  count = leave_out(list, valid, count, real);
  if (!sorted) qsort(list, (size_t)count, sizeof *list, real ? by_real : by_integer);
  /* Equal values stand together now. */
  for (int64_t i = 0; i < count; i++)
    if (!used || list[i] != list[used - 1]) list[used++] = list[i];
  ask->list = list;
  ask->count = used;
  return TSR_OK;
}

static tsr_status find(tsr__bind *bind, tsr__distinct *ask)
{
  tsr__lower low = { .bind = bind, .scope = bind->scope, .site = ask->site, .frame = ask->frame };
  tsr__rel_column own = { .values = ask->values->value };
  tsr__rel rel = { 0 };
  own.valid = ask->mask ? ask->mask->value : NULL;
  /* One value for all rows, or few rows: a group would cost more than a sort on the host. */
  if (ask->values->shape.rank == 0 || ask->values->shape.dims[0] <= FEW)
    return take_list(bind, &own, false, ask);
  tsr_status status = group_values(&low, ask, &rel);
  if (!status) status = take_list(bind, &rel.column[0], true, ask);
  tsr__rel_free(&rel);
  return status;
}

/* Finds all that was asked for since the last time. */
static tsr_status find_asked(tsr__bind *bind)
{
  int count = 0, n = 0;
  for (const tsr__distinct *d = bind->distinct; d && !d->found; d = d->next) count++;
  tsr_array **roots = tsr__bind_room(bind, 2 * count, sizeof *roots);
  if (!roots) return bind->error.status;
  for (const tsr__distinct *d = bind->distinct; d && !d->found; d = d->next) {
    roots[n++] = d->values;
    roots[n++] = d->mask;
  }
  /* New asks are put in front of the list, so those before `found` ones are all that is open. */
  bind->asked = false;
  tsr_status status = tsr__bind_run(bind, roots, n);
  for (tsr__distinct *d = bind->distinct; d && !d->found && !status; d = d->next)
    status = find(bind, d);
  /* Also after an error: nobody asks again for what failed, and the scope has the error. */
  for (tsr__distinct *d = bind->distinct; d && !d->found; d = d->next) d->found = true;
  return status;
}

tsr_status tsr__lower_until_known(tsr__bind *bind, tsr__lowering *lower, void *user)
{
  tsr__run_check *checks = bind->checks;
  int check_count = bind->check_count;
  tsr_status status = lower(bind, user);
  /* Ends: lowering asks for what an expression says, deeper in the tree at each turn. */
  while (bind->asked && !status) {
    bind->checks = checks; /* those of columns that were not known yet say nothing */
    bind->check_count = check_count;
    status = find_asked(bind);
    if (!status) status = lower(bind, user);
  }
  return status;
}
