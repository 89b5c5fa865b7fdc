/* The entries of a device table for rows: the kind's own where it has them, else the CPU's in
 * mirrors of the columns.
 *
 *   columns          the device's: mirrored while they are read, brought to the device when made
 *   keys, indices,   host memory from the first to the last of them: nothing is copied
 *   groups, records
 *   came             columns that other parts sent: they lie where those lie that the part itself
 *                    sent; on a device they are mirrored or brought
 *
 * Each entry is the function tsr__NAME with the same arguments.
 *
 *   entry                              columns that are read          made or filled
 *   keys_range, pack_keys              keys
 *   packed_came, homes_meet            words that came: brought
 *   gather_column, match_keep          the column                     brought to the device
 *   aggregate_groups, tallied_read,    columns of aggregates          brought to the device
 *     homes_aggregate
 *   group_record_groups                columns of aggregates
 *   route_rows                         destinations
 *   match_owners_of, match_answers                                    destinations, answers
 *   match_at_home, homes_settle,       answers and numbers that came
 *     homes_order
 *   homes_by_code, leaving_count,      codes and records that came
 *     _take, _join
 *   homes_route, _dest, _keep                                         a value for each row
 *   all others                         lists of host memory alone
 *
 * A result that is brought to the device goes there when the entry is over: its buffer in host
 * memory is replaced in the caller's list. */
#include "kernel/fallback/mirror.h"

#include "kernel/rows/group_record.h"
#include "kernel/rows/row_ops.h"

/* Buffers that came may lie on both kinds where CPU devices are beside. */
#define HAS(rt, entry) \
  (!tsr__other_of(rt)->mixed && tsr__own_of(rt)->rows && tsr__own_of(rt)->rows->entry)

/* Declares `status` of the kind's own entry or of the CPU's in mirrors. */
#define EITHER(on, entry, touch, ask, ...)                            \
  const tsr__row_ops *own = tsr__own_of(on)->rows;                    \
  tsr_status status = tsr__mirrors_check(tsr__other_of(on), error);   \
  if (status) return status;                                          \
  if (tsr__is_for_cpu(on, touch, ask)) {                              \
    status = tsr__##entry(__VA_ARGS__);                               \
  } else if (own && own->entry && tsr__device_can(touch, ask)) {      \
    status = own->entry(__VA_ARGS__);                                 \
    tsr__device_did(touch, ask);                                      \
    return status;                                                    \
  } else {                                                            \
    if (!tsr__mirrors_open(touch, ask)) return tsr__no_mirror(error); \
    status = tsr__##entry(__VA_ARGS__);                               \
    tsr__mirrors_close(touch, ask);                                   \
  }

static void touch_nothing(tsr__touch *t, const void *ask)
{
  (void)t, (void)ask;
}

/* An entry that reads and makes lists of host memory alone. */
#define ON_LISTS(entry, on, params, ...)                 \
  static tsr_status entry params                         \
  {                                                      \
    EITHER(on, entry, touch_nothing, NULL, __VA_ARGS__); \
    return status;                                       \
  }

static void touch_columns(tsr__touch *t, const tsr__colparts *columns, int count, int parts)
{
  for (int c = 0; c < count; c++) {
    tsr__touch_buffers(t, columns[c].values, parts, TSR__READS);
    tsr__touch_buffers(t, columns[c].valid, parts, TSR__READS);
  }
}

/* Brings fresh columns to the devices; on a failure none is left. */
static tsr_status bring_columns(tsr_status status, tsr__buffer **buffers, int64_t count,
                                tsr__error *error)
{
  for (int64_t i = 0; i < count && !status; i++) status = tsr__bring_to_device(&buffers[i], error);
  for (int64_t i = 0; i < count && status; i++) {
    tsr__buffer_release(buffers[i]);
    buffers[i] = NULL;
  }
  return status;
}

/* Brings values and validity, or neither. */
static tsr_status bring_results(tsr_status status, tsr__buffer **values, tsr__buffer **valid,
                                int64_t count, tsr__error *error)
{
  if (status) return status;
  status = bring_columns(status, values, count, error);
  tsr_status both = bring_columns(status, valid, count, error);
  if (both && !status) bring_columns(both, values, count, error);
  return both;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void touch_range(tsr__touch *t, const void *ask)
{
  const tsr__range_ask *a = ask;
  touch_columns(t, a->columns, a->count, a->parts->count);
}

static tsr_status keys_range(tsr_runtime *rt, const tsr__range_ask *ask, tsr__error *error)
{
  EITHER(rt, keys_range, touch_range, ask, rt, ask, error);
  return status;
}

static void touch_pack(tsr__touch *t, const void *ask)
{
  const tsr__pack_ask *a = ask;
  touch_columns(t, a->columns, a->count, a->parts->count);
}

static tsr_status pack_keys(tsr_runtime *rt, const tsr__pack_ask *ask, tsr__packed_keys *out,
                            tsr__error *error)
{
  EITHER(rt, pack_keys, touch_pack, ask, rt, ask, out, error);
  return status;
}

static tsr_status bring_to_host(tsr__buffer **buffers, int64_t count, tsr__error *error)
{
  for (int64_t i = 0; buffers && i < count; i++)
    if (tsr__bring_to_host(&buffers[i], error)) return error->status;
  return TSR_OK;
}

/* The host's packed keys point into these columns from now on, so a mirror would not do. */
static tsr_status packed_came(tsr_runtime *rt, const tsr__keys_came *came, tsr__packed_keys *out,
                              tsr__error *error)
{
  int parts = came->parts->count;
  if (!HAS(rt, packed_came) && (bring_to_host(came->columns, came->words * parts, error) ||
                                bring_to_host(came->nulls, parts, error)))
    return error->status;
  EITHER(rt, packed_came, touch_nothing, came, rt, came, out, error);
  return status;
}

/* ---- gathering, sorting, routes -------------------------------------------------------------- */

static void touch_gather(tsr__touch *t, const void *ask)
{
  const tsr__gather *a = ask;
  touch_columns(t, a->from, 1, a->parts->count);
}

static tsr_status gather_column(tsr_runtime *rt, const tsr__gather *ask, tsr__buffer **values,
                                tsr__buffer **valid, tsr__error *error)
{
  EITHER(rt, gather_column, touch_gather, ask, rt, ask, values, valid, error);
  return bring_results(status, values, valid, ask->parts->count, error);
}

ON_LISTS(sort_rows, rt,
         (tsr_runtime * rt, const tsr__parts *parts, const tsr__packed_keys *keys, tsr__index *out,
          tsr__error *error),
         rt, parts, keys, out, error)
ON_LISTS(top_rows, rt,
         (tsr_runtime * rt, const tsr__top_ask *ask, tsr__index *out, tsr__error *error), rt, ask,
         out, error)
ON_LISTS(sort_sample_rows, rt,
         (tsr_runtime * rt, const tsr__sample_ask *ask, tsr__sort_sample *out, tsr__error *error),
         rt, ask, out, error)
ON_LISTS(sort_split_rows, rt,
         (tsr_runtime * rt, const tsr__split_ask *ask, tsr__sort_split *out, tsr__error *error), rt,
         ask, out, error)

static void touch_routes(tsr__touch *t, const void *ask)
{
  const tsr__routes *a = ask;
  tsr__touch_buffers(t, a->dest, a->parts->count, TSR__READS);
}

static tsr_status route_rows(tsr_runtime *rt, const tsr__routes *routes, tsr__error *error)
{
  EITHER(rt, route_rows, touch_routes, routes, rt, routes, error);
  return status;
}

/* ---- aggregates ------------------------------------------------------------------------------ */

/* A column that several aggregates read is listed as often. */
static void touch_aggregated(tsr__touch *t, const tsr__colparts *columns,
                             const tsr__group_agg *aggs, int count, int parts)
{
  for (int a = 0; a < count; a++) {
    if (aggs[a].column >= 0) touch_columns(t, &columns[aggs[a].column], 1, parts);
    if (aggs[a].op == TSR__GROUP_CORR) touch_columns(t, &columns[aggs[a].other], 1, parts);
  }
}

static void touch_aggregate(tsr__touch *t, const void *ask)
{
  const tsr__aggregate_ask *a = ask;
  touch_aggregated(t, a->columns, a->aggs, a->count, a->parts->count);
}

static tsr_status aggregate_groups(tsr_runtime *rt, const tsr__aggregate_ask *ask,
                                   tsr__buffer **values, tsr__buffer **valid, tsr__error *error)
{
  EITHER(rt, aggregate_groups, touch_aggregate, ask, rt, ask, values, valid, error);
  return bring_results(status, values, valid, (int64_t)ask->count * ask->parts->count, error);
}

static tsr_status group_record_groups(tsr_runtime *rt, const tsr__aggregate_ask *ask,
                                      tsr__group_records **out, tsr__error *error)
{
  EITHER(rt, group_record_groups, touch_aggregate, ask, rt, ask, out, error);
  return status;
}

/* First rows are read from the columns that the records were made of. */
static tsr_status tallied_read(tsr__group_records *records, const tsr__grouped *groups,
                               tsr__buffer **values, tsr__buffer **valid, tsr__error *error)
{
  const tsr__aggregate_ask *ask = tsr__group_records_ask(records);
  tsr_runtime *rt = tsr__group_records_rt(records);
  EITHER(rt, tallied_read, touch_aggregate, ask, records, groups, values, valid, error);
  return bring_results(status, values, valid, (int64_t)ask->count * ask->parts->count, error);
}

/* ---- matching -------------------------------------------------------------------------------- */

ON_LISTS(match_find, rt,
         (tsr_runtime * rt, const tsr__match_ask *ask, tsr__matched *out, tsr__error *error), rt,
         ask, out, error)
ON_LISTS(match_left, matched->rt, (const tsr__matched *matched, tsr__index *out, tsr__error *error),
         matched, out, error)
ON_LISTS(match_right, matched->rt, (tsr__matched * matched, tsr__index *out, tsr__error *error),
         matched, out, error)

typedef struct keeping {
  const tsr__colparts *from;
  int parts;
} keeping;

static void touch_keeping(tsr__touch *t, const void *ask)
{
  const keeping *k = ask;
  touch_columns(t, k->from, 1, k->parts);
}

/* A column that stays as it is lies on the device already. */
static tsr_status match_keep(const tsr__matched *matched, const tsr__colparts *from,
                             tsr__buffer **values, tsr__error *error)
{
  const keeping ask = { from, matched->parts };
  EITHER(matched->rt, match_keep, touch_keeping, &ask, matched, from, values, error);
  return status ? status : bring_columns(status, values, matched->parts, error);
}

ON_LISTS(match_extent_of, rt,
         (tsr_runtime * rt, const tsr__extent_ask *ask, tsr__match_extent *out, tsr__error *error),
         rt, ask, out, error)

/* Both sides' destinations are made here, one for each row. */
static void touch_owners(tsr__touch *t, const void *ask)
{
  const tsr__match_owners *a = ask;
  for (int side = 0; side < 2; side++)
    tsr__touch_buffers(t, a->dest[side], a->parts[side]->count, TSR__WRITES);
}

static tsr_status match_owners_of(tsr_runtime *rt, const tsr__match_owners *ask, tsr__error *error)
{
  EITHER(rt, match_owners_of, touch_owners, ask, rt, ask, error);
  return status;
}

static void touch_answers(tsr__touch *t, const void *ask)
{
  const tsr__match_answer *a = ask;
  tsr__touch_buffers(t, a->answers, a->matched->parts, TSR__WRITES);
}

static tsr_status match_answers(const tsr__match_answer *ask, tsr__error *error)
{
  EITHER(ask->matched->rt, match_answers, touch_answers, ask, ask, error);
  return status;
}

static void touch_home(tsr__touch *t, const void *ask)
{
  const tsr__match_home *a = ask;
  tsr__touch_buffers(t, a->answers, a->parts->count, TSR__READS);
}

static tsr_status match_at_home(tsr_runtime *rt, const tsr__match_home *ask, tsr__matched *out,
                                tsr__error *error)
{
  EITHER(rt, match_at_home, touch_home, ask, rt, ask, out, error);
  return status;
}

/* ---- homes of groups ------------------------------------------------------------------------- */

/* Lists of one buffer a part. Codes of all parts are read wherever groups are found by codes. */
typedef struct homing {
  const tsr__group_homes *homes;
  tsr__buffer **read, **written[2]; /* NULL: no such list */
  int reads;                        /* buffers of `read` */
} homing;

static void touch_homes(tsr__touch *t, const void *ask)
{
  const homing *h = ask;
  int parts = h->homes->parts->count;
  tsr__touch_buffers(t, h->read, h->reads, TSR__READS);
  if (h->homes->coded) tsr__touch_buffers(t, h->homes->everyone, parts, TSR__READS);
  for (int i = 0; i < 2; i++) tsr__touch_buffers(t, h->written[i], parts, TSR__CHANGES);
}

ON_LISTS(homes_group, rt,
         (tsr_runtime * rt, tsr__group_homes *homes, const tsr__packed_keys *keys,
          tsr__error *error),
         rt, homes, keys, error)
ON_LISTS(homes_of_nothing, rt, (tsr_runtime * rt, tsr__group_homes *homes, tsr__error *error), rt,
         homes, error)
ON_LISTS(homes_send, rt, (tsr_runtime * rt, const tsr__homes_keys *ask, tsr__error *error), rt, ask,
         error)

/* The words that came become packed keys, as in packed_came. */
static tsr_status homes_meet(tsr_runtime *rt, const tsr__homes_keys *came, tsr__buffer **answers,
                             tsr__error *error)
{
  int64_t buffers = (came->keys->words + 1 + came->counted) * came->homes->parts->count;
  if (!HAS(rt, homes_meet) && bring_to_host(came->columns, buffers, error)) return error->status;
  EITHER(rt, homes_meet, touch_nothing, NULL, rt, came, answers, error);
  return status;
}

static tsr_status homes_settle(tsr_runtime *rt, const tsr__homes_told *told, tsr__error *error)
{
  int columns = TSR__HOMES_ANSWERS - !told->counted;
  const homing ask = { .homes = told->homes,
                       .read = told->answers,
                       .reads = columns * told->homes->parts->count };
  EITHER(rt, homes_settle, touch_homes, &ask, rt, told, error);
  return status;
}

ON_LISTS(homes_codes, rt,
         (tsr_runtime * rt, const tsr__group_homes *homes, tsr__buffer **mine, tsr__index *order,
          tsr__error *error),
         rt, homes, mine, order, error)

static tsr_status homes_by_code(tsr_runtime *rt, tsr__group_homes *homes, tsr__buffer **mine,
                                tsr__error *error)
{
  const homing ask = { .homes = homes };
  EITHER(rt, homes_by_code, touch_homes, &ask, rt, homes, mine, error);
  return status;
}

static tsr_status homes_route(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **owner,
                              tsr__buffer **number, tsr__error *error)
{
  const homing ask = { .homes = homes, .written = { owner, number } };
  EITHER(rt, homes_route, touch_homes, &ask, rt, homes, owner, number, error);
  return status;
}

static void touch_homes_rows(tsr__touch *t, const void *ask)
{
  const tsr__homes_rows *a = ask;
  tsr__touch_buffers(t, a->number, a->parts->count, TSR__READS);
  touch_aggregated(t, a->columns, a->aggs, a->count, a->parts->count);
}

static tsr_status homes_aggregate(tsr_runtime *rt, const tsr__homes_rows *ask, tsr__buffer **values,
                                  tsr__buffer **valid, tsr__error *error)
{
  EITHER(rt, homes_aggregate, touch_homes_rows, ask, rt, ask, values, valid, error);
  return bring_results(status, values, valid, (int64_t)ask->count * ask->parts->count, error);
}

static tsr_status homes_dest(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **dest,
                             tsr__error *error)
{
  const homing ask = { .homes = homes, .written = { dest } };
  EITHER(rt, homes_dest, touch_homes, &ask, rt, homes, dest, error);
  return status;
}

static tsr_status homes_order(tsr_runtime *rt, const tsr__group_homes *homes, tsr__buffer **number,
                              tsr__index *order, tsr__error *error)
{
  const homing ask = { .homes = homes, .read = number, .reads = homes->parts->count };
  EITHER(rt, homes_order, touch_homes, &ask, rt, homes, number, order, error);
  return status;
}

ON_LISTS(homes_first, rt,
         (tsr_runtime * rt, const tsr__group_homes *homes, tsr__index *first, tsr__error *error),
         rt, homes, first, error)

static tsr_status homes_keep(tsr_runtime *rt, tsr__group_homes *homes, int64_t most,
                             tsr__buffer **bits, tsr__error *error)
{
  const homing ask = { .homes = homes, .written = { bits } };
  EITHER(rt, homes_keep, touch_homes, &ask, rt, homes, most, bits, error);
  return status;
}

/* ---- records that leave ---------------------------------------------------------------------- */

/* Buffers that are sent are host memory, taken by tsr__buffers_of, and need no mirror. */
static void touch_leaving(tsr__touch *t, const void *ask)
{
  const tsr__leaving *l = ask;
  int parts = l->homes->parts->count;
  if (l->homes->coded) tsr__touch_buffers(t, l->homes->everyone, parts, TSR__READS);
  tsr__touch_buffers(t, l->came_number, parts, TSR__READS);
  tsr__touch_buffers(t, l->came, parts, TSR__READS);
}

static tsr_status leaving_count(tsr_runtime *rt, const tsr__leaving *leaving, tsr__error *error)
{
  EITHER(rt, leaving_count, touch_leaving, leaving, rt, leaving, error);
  return status;
}

static tsr_status leaving_take(tsr_runtime *rt, const tsr__leaving *leaving, tsr__error *error)
{
  EITHER(rt, leaving_take, touch_leaving, leaving, rt, leaving, error);
  return status;
}

static tsr_status leaving_join(tsr_runtime *rt, tsr__leaving *leaving, tsr__error *error)
{
  EITHER(rt, leaving_join, touch_leaving, leaving, rt, leaving, error);
  return status;
}

const tsr__row_ops tsr__rows_or_host = {
  .keys_range = keys_range,
  .pack_keys = pack_keys,
  .packed_came = packed_came,
  .gather_column = gather_column,
  .sort_rows = sort_rows,
  .top_rows = top_rows,
  .sort_sample_rows = sort_sample_rows,
  .sort_split_rows = sort_split_rows,
  .route_rows = route_rows,
  .aggregate_groups = aggregate_groups,
  .group_record_groups = group_record_groups,
  .tallied_read = tallied_read,
  .match_find = match_find,
  .match_left = match_left,
  .match_right = match_right,
  .match_keep = match_keep,
  .match_extent_of = match_extent_of,
  .match_owners_of = match_owners_of,
  .match_answers = match_answers,
  .match_at_home = match_at_home,
  .homes_group = homes_group,
  .homes_of_nothing = homes_of_nothing,
  .homes_send = homes_send,
  .homes_meet = homes_meet,
  .homes_settle = homes_settle,
  .homes_codes = homes_codes,
  .homes_by_code = homes_by_code,
  .homes_route = homes_route,
  .homes_aggregate = homes_aggregate,
  .homes_dest = homes_dest,
  .homes_order = homes_order,
  .homes_first = homes_first,
  .homes_keep = homes_keep,
  .leaving_count = leaving_count,
  .leaving_take = leaving_take,
  .leaving_join = leaving_join,
};
