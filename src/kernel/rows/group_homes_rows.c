/* Rows of groups that lie over several parts: their way to the owners of their groups, their
 * aggregates there, and the first rows.
 *
 *   part 0   a b a c    to the owners of a, b, c       number at the owner: 0 0 0 1
 *   owner 1  a a c ..   aggregates of a, c             to their homes, in order of the groups there
 *
 * Invariant: rows come to an owner in order of part and row, so results that depend on row order
 * (first, last) are those of one part. */
#include "kernel/device/cpu.h"
#include "kernel/rows/group_homes.h"

typedef struct job {
  const tsr__group_homes *homes;
  tsr__buffer **a, **b; /* [part], as each task has it */
  const int64_t *rows;
  const tsr__index *index;
  int64_t most;
} job;

/* A row's owner and its number there are its group's: two reads a row, of lists as long as the
 * part's groups. */
static void route_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const job *j = user;
  const tsr__group_homes *h = j->homes;
  const uint32_t *group = h->local.group[p];
  const uint16_t *owner = tsr__cpu_data(h->owner[p]);
  const int32_t *owned_as = tsr__cpu_data(h->owned_as[p]);
  uint16_t *to = tsr__cpu_data(j->a[p]);
  int32_t *number = tsr__cpu_data(j->b[p]);
  for (int64_t i = 0; i < h->parts->rows[p]; i++) {
    to[i] = owner[group[i]];
    number[i] = owned_as[group[i]];
  }
}

tsr_status tsr__homes_route(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **owner,
                            tsr__buffer **number, tsr__error *error)
{
  job j = { .homes = homes, .a = owner, .b = number };
  return tsr__homes_each(rt, homes->parts->count, route_task, &j, error);
}

/* ---- at the owners --------------------------------------------------------------------------- */

/* The first row of each group among rows that came. From the last row to the first, so that the
 * first one's write stands. */
static void find_first_rows_task(void *user, int64_t o, int worker)
{
  (void)worker;
  const job *j = user;
  const uint32_t *group = tsr__cpu_data(j->a[o]);
  uint32_t *first = j->index->at[o];
  for (int64_t i = j->rows[o] - 1; i >= 0; i--) first[group[i]] = (uint32_t)i;
}

tsr_status tsr__homes_aggregate(tsr_runtime *rt, const tsr__homes_rows *ask, tsr__buffer **values,
                                tsr__buffer **valid, tsr__error *error)
{
  const tsr__group_homes *homes = ask->homes;
  int parts = homes->parts->count;
  size_t size = (size_t)parts * sizeof(uint32_t *);
  tsr__parts of = tsr__homes_lie(homes, homes->owned.count);
  /* The rows that came, as if grouped here: their numbers are known, only first rows must be
   * found. */
  tsr__grouped groups = { .parts = parts, .count = homes->owned.count, .buffers = ask->number };
  job j = { .homes = homes, .a = ask->number, .rows = ask->parts->rows, .index = &groups.first };
  groups.group = tsr__new(&rt->heap, size);
  if (!groups.group)
    return tsr__error_set(error, TSR_ENOMEM,
                          "group by: no memory for the description of groups on %d devices; free "
                          "some arrays",
                          parts);
  tsr_status status = tsr__index_new(rt, &of, &groups.first, error);
  if (!status) status = tsr__homes_each(rt, parts, find_first_rows_task, &j, error);
  for (int p = 0; p < parts && !status; p++) groups.group[p] = tsr__cpu_data(ask->number[p]);
  tsr__aggregate_ask all = { ask->parts, &groups, ask->columns, ask->aggs, ask->count, NULL };
  if (!status) status = tsr__aggregate_groups(rt, &all, values, valid, error);
  tsr__index_free(rt, &groups.first);
  tsr__del(&rt->heap, groups.group, size);
  return status;
}

static void dest_task(void *user, int64_t o, int worker)
{
  (void)worker;
  const job *j = user;
  const int32_t *home = tsr__cpu_data(j->homes->owned_home[o]);
  uint16_t *to = tsr__cpu_data(j->a[o]);
  for (int64_t i = 0; i < j->homes->owned.count[o]; i++) to[i] = (uint16_t)home[i];
}

tsr_status tsr__homes_dest(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **dest,
                           tsr__error *error)
{
  job j = { .homes = homes, .a = dest };
  return tsr__homes_each(rt, homes->parts->count, dest_task, &j, error);
}

/* ---- at home --------------------------------------------------------------------------------- */

/* Results came in order of the owners. `number` says which local group each is of, and `own`
 * lists the local groups at home in their order; together they say where each result belongs.
 * owned_as has served its turn and lends its room. */
static void order_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const job *j = user;
  const tsr__index *own = &j->homes->own;
  const int32_t *number = tsr__cpu_data(j->a[p]);
  /* The place of each local group among the groups that are at home. */
  int32_t *place = tsr__cpu_data(j->homes->owned_as[p]);
  for (int64_t i = 0; i < own->rows[p]; i++) place[own->at[p][i]] = (int32_t)i;
  for (int64_t i = 0; i < own->rows[p]; i++) j->index->at[p][place[number[i]]] = (uint32_t)i;
}

tsr_status tsr__homes_order(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **number,
                            tsr__index *order, tsr__error *error)
{
  tsr__parts lie = tsr__homes_lie(homes, homes->own.rows);
  job j = { .homes = homes, .a = number, .index = order };
  tsr_status status = tsr__index_new(rt, &lie, order, error);
  return status ? status : tsr__homes_each(rt, homes->parts->count, order_task, &j, error);
}

static void first_rows_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const job *j = user;
  const tsr__index *own = &j->homes->own;
  for (int64_t i = 0; i < own->rows[p]; i++)
    j->index->at[p][i] = j->homes->local.first.at[p][own->at[p][i]];
}

tsr_status tsr__homes_first(tsr_runtime *rt, const tsr__group_homes *homes, tsr__index *first,
                            tsr__error *error)
{
  tsr__parts lie = tsr__homes_lie(homes, homes->own.rows);
  job j = { .homes = homes, .index = first };
  tsr_status status = tsr__index_new(rt, &lie, first, error);
  return status ? status : tsr__homes_each(rt, homes->parts->count, first_rows_task, &j, error);
}

/* `before` counts up as rows are met: a row is kept while fewer than `most` of its group were, on
 * earlier parts and here. */
static void keep_first_rows_task(void *user, int64_t p, int worker)
{
  (void)worker;
  const job *j = user;
  const uint32_t *group = j->homes->local.group[p];
  int64_t rows = j->homes->parts->rows[p];
  uint64_t *out = tsr__cpu_data(j->a[p]);
  int64_t *seen = tsr__cpu_data(j->homes->before[p]);
  for (int64_t r = 0; r < rows; r += 64) {
    int some = rows - r < 64 ? (int)(rows - r) : 64;
    uint64_t bits = 0;
    for (int i = 0; i < some; i++) bits |= (uint64_t)(seen[group[r + i]]++ < j->most) << i;
    out[r / 64] = bits;
  }
}

/* One part has no rows on earlier ones. */
static tsr_status none_before(tsr_runtime *rt, tsr__group_homes *homes, tsr__error *error)
{
  tsr__parts local = tsr__homes_lie(homes, homes->local.count);
  tsr_status status = tsr__buffers_of(rt, &local, TSR_I64, homes->before, error);
  if (!status) memset(tsr__cpu_data(homes->before[0]), 0, (size_t)local.rows[0] * sizeof(int64_t));
  return status;
}

tsr_status tsr__homes_keep(tsr_runtime *rt, tsr__group_homes *homes, int64_t most,
                           tsr__buffer **bits, tsr__error *error)
{
  job j = { .homes = homes, .a = bits, .most = most };
  tsr_status status = homes->parts->count == 1 ? none_before(rt, homes, error) : TSR_OK;
  return status ? status
                : tsr__homes_each(rt, homes->parts->count, keep_first_rows_task, &j, error);
}
