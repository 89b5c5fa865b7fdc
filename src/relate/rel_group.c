/* Grouping a table.
 *
 *   one part       keys packed -> groups -> aggregates; keys from first rows
 *   several        each part's groups -> their homes (group_owners.c) -> records to the homes ->
 *                  aggregates (group_records.c); where records cannot hold an aggregate, rows to
 *                  the owners of their groups -> aggregates -> results to the homes
 *
 *   part 0   a b a c    home of a, b, c        out  a b c
 *   part 1   c d a      home of d                   d
 *
 * Key columns never travel: a group's home has its first row, so it has its keys.
 *
 * Invariant: rows come to an owner in order of part and row, so what depends on their order
 * (first, last) is what it would be on one part. */
#include "relate/group_owners.h"

/* A grouping of all slices: what is the same for each, and the arrays one slice needs at a
 * time. */
typedef struct grouping {
  const tsr__rel_group_ask *ask;
  tsr_runtime *rt;
  tsr__error *error;
  tsr__rel_stats *stats;
  int parts, words, bits;
  bool by_records;
  tsr__key *keys;
  tsr__colparts *key_columns;
  tsr__group_agg *aggs;             /* as asked, columns of what came */
  tsr__colparts *columns;           /* number at the owner, then the columns that aggregates read */
  int *taken;                       /* which columns of the table those are */
  int column_count;                 /* of `taken` */
  tsr__buffer **values, **valid;    /* [aggregate * parts + part] */
  tsr__buffer **came, **came_valid; /* [column * parts + part] */
  tsr__buffer **home, **home_valid; /* results at home, [1 + aggregate][part] */
  int64_t *counts, *rows;
  int64_t *held; /* what each part's device held before */
  void *block;
  size_t size;
} grouping;

static tsr_status no_memory(tsr__error *error, int columns)
{
  return tsr__error_set(error, TSR_ENOMEM,
                        "group by: no memory for the description of %d columns; free some arrays",
                        columns);
}

static int64_t larger(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* Bytes that an aggregate keeps of a group while rows are read, at most, and beyond that of a
 * row. Too little here and a run fails half way instead of before it began. */
static int64_t kept_bytes(int op, int64_t *row)
{
  switch (op) {
  case TSR__GROUP_QUANTILE: *row = larger(*row, 8); return 20;
  case TSR__GROUP_NUNIQUE: *row = larger(*row, 56); return 0;
  case TSR__GROUP_CORR: return 136;
  case TSR__GROUP_VAR:
  case TSR__GROUP_STD: return 64;
  case TSR__GROUP_SUM:
  case TSR__GROUP_MEAN: return 40;
  default: return 16;
  }
}

/* Linear: aggregates of one group by are few, and a column is looked for once for each. */
static int take(grouping *g, int column)
{
  int at = 0;
  while (at < g->column_count && g->taken[at] != column) at++;
  if (at == g->column_count) g->taken[g->column_count++] = column;
  return at;
}

/* The columns that aggregates read, each once. `aggs` read numbers of `taken`, not of the table:
 * the columns that come to an owner lie in that order. group_here reads the table itself and so
 * uses the aggregates as they were asked. */
static void find_taken(grouping *g)
{
  for (int a = 0; a < g->ask->agg_count; a++) {
    tsr__group_agg *agg = &g->aggs[a];
    *agg = g->ask->aggs[a];
    if (agg->column >= 0) agg->column = take(g, agg->column);
    if (agg->op == TSR__GROUP_CORR) agg->other = take(g, agg->other);
  }
}

/* Room for what is there of each column: of the table, up to two an aggregate, or of the results;
 * and for one more. */
static size_t lists_of(const grouping *g)
{
  return 2 * (size_t)g->ask->agg_count + 1;
}

/* The six lists of buffers stand one after the other, from `values` to `home_valid`, so that
 * drop_lists releases them as one. */
static tsr_status grouping_new(grouping *g, const tsr__views *views)
{
  size_t parts = (size_t)views->parts, keys = (size_t)g->ask->key_count;
  size_t lists = lists_of(g);
  g->parts = views->parts;
  g->size = keys * (sizeof *g->keys + sizeof *g->key_columns) +
            lists * (sizeof *g->aggs + 2 * sizeof *g->columns + 6 * parts * sizeof *g->values) +
            parts * (parts + 2) * sizeof *g->rows + lists * sizeof *g->taken;
  g->block = tsr__new(&g->rt->heap, g->size);
  if (!g->block) return no_memory(g->error, g->ask->key_count + g->ask->agg_count);
  g->keys = g->block;
  g->key_columns = (tsr__colparts *)(g->keys + keys);
  g->columns = g->key_columns + keys;
  g->aggs = (tsr__group_agg *)(g->columns + 2 * lists);
  g->values = (tsr__buffer **)(g->aggs + lists);
  g->valid = g->values + lists * parts;
  g->came = g->valid + lists * parts;
  g->came_valid = g->came + lists * parts;
  g->home = g->came_valid + lists * parts;
  g->home_valid = g->home + lists * parts;
  g->counts = (int64_t *)(g->home_valid + lists * parts);
  g->rows = g->counts + parts * parts;
  g->held = g->rows + parts;
  g->taken = (int *)(g->held + parts);
  find_taken(g);
  return TSR_OK;
}

static void drop_lists(grouping *g)
{
  tsr__drop_buffers(g->values, 6 * (int64_t)lists_of(g) * g->parts);
}

static void grouping_free(grouping *g)
{
  if (!g->block) return;
  drop_lists(g);
  tsr__del(&g->rt->heap, g->block, g->size);
}

/* ---- one part -------------------------------------------------------------------------------- */

/* Keys of the groups' first rows. The draft takes the gathered buffers, and the list is cleared
 * for the next column. */
static tsr_status put_keys(grouping *g, const tsr__view *view, const tsr__index *first,
                           tsr__draft *draft)
{
  for (int k = 0; k < g->ask->key_count; k++) {
    tsr__gather gather = { &view->parts, first, &view->columns[g->ask->keys[k].column], false };
    tsr_status status =
        tsr__on_rows(g->rt)->gather_column(g->rt, &gather, g->home, g->home_valid, g->error);
    if (status) return status;
    tsr__draft_put(draft, k, view, g->home, g->home_valid);
    memset(g->home, 0, (size_t)g->parts * sizeof *g->home);
    memset(g->home_valid, 0, (size_t)g->parts * sizeof *g->home_valid);
  }
  for (int p = 0; p < g->parts; p++) draft->rows[view->position[p]] = first->rows[p];
  return TSR_OK;
}

/* The draft takes all aggregates. */
static void put_aggs(grouping *g, const tsr__view *view, tsr__draft *draft)
{
  for (int a = 0; a < g->ask->agg_count; a++) {
    tsr__buffer **values = g->values + a * g->parts, **valid = g->valid + a * g->parts;
    tsr__draft_put(draft, g->ask->key_count + a, view, values, valid);
    memset(values, 0, (size_t)g->parts * sizeof *values);
    memset(valid, 0, (size_t)g->parts * sizeof *valid);
  }
}

/* Groups that lie where they are: each part has all rows of its groups. */
static tsr_status group_here(grouping *g, tsr__group_owners *owners, tsr__draft *draft)
{
  const tsr__view *view = owners->view;
  tsr__aggregate_ask ask = { &view->parts, &owners->homes.local, view->columns,
                             g->ask->aggs, g->ask->agg_count,    NULL };
  tsr_status status =
      tsr__on_rows(g->rt)->aggregate_groups(g->rt, &ask, g->values, g->valid, g->error);
  if (!status) status = put_keys(g, view, &owners->homes.local.first, draft);
  if (!status) put_aggs(g, view, draft);
  return status;
}

/* ---- several parts --------------------------------------------------------------------------- */

/* The homes of a slice's groups; of those that are known by codes only, their owners as well.
 * Packed keys are needed for the time of this call only; what groups are is known by numbers
 * afterwards. Without keys there is one group of all rows, for which one word of nothing will
 * do. */
static tsr_status find_homes(grouping *g, tsr__group_owners *owners, bool counted)
{
  const tsr__rel_group_ask *ask = g->ask;
  const tsr__view *view = owners->view;
  tsr__packed_keys packed = { .parts = g->parts, .words = 1 };
  tsr_status status = TSR_OK;
  for (int k = 0; k < ask->key_count; k++) g->key_columns[k] = view->columns[ask->keys[k].column];
  tsr__pack_ask pack = { &view->parts, g->key_columns, g->keys, ask->key_count, false };
  if (ask->key_count) status = tsr__on_rows(g->rt)->pack_keys(g->rt, &pack, &packed, g->error);
  if (!status)
    status = (owners->homes.coded ? tsr__group_owners_seek
                                  : tsr__group_owners_find)(owners, &packed, counted);
  tsr__packed_free(g->rt, &packed);
  return status;
}

/* The need is told as what a device takes beyond this, since values that the caller holds are
 * there as well. */
static int64_t held_now(const grouping *g, const tsr__view *view, int part)
{
  if (!view->here[part]) return 0;
  return tsr__devices_of(g->rt)->ops->memory(g->rt, view->parts.device[part]).now;
}

/* Now that it is known how many rows come to each part: whether it has room for them, once sent
 * and once more for their aggregates. The first check, before anything ran, assumed that keys
 * spread evenly. A key that most rows have puts most rows on one owner: only here, with the
 * counts, can that be seen. */
static tsr_status check_coming(const grouping *g, const tsr__view *view)
{
  tsr__need need = { g->rt, "group by", NULL };
  int64_t row = 8 + 4;
  for (int a = 0; a < g->ask->agg_count; a++) kept_bytes(g->ask->aggs[a].op, &row);
  for (int c = 0; c < g->column_count; c++)
    row += 1 + tsr__row_bits(&view->columns[g->taken[c]], g->parts) / 8;
  for (int to = 0; to < g->parts; to++) {
    int64_t rows = 0;
    for (int p = 0; p < g->parts; p++) rows += g->counts[p * g->parts + to];
    int64_t more = held_now(g, view, to) - g->held[to] + rows * row;
    tsr_status status = tsr__need_check(&need, view->parts.device[to], rows * row, g->error);
    if (status) return status;
    if (g->stats) g->stats->need = larger(g->stats->need, more);
  }
  return TSR_OK;
}

static void add_counts(void *into, const void *other, size_t size)
{
  int64_t *to = into;
  const int64_t *from = other;
  for (size_t i = 0; i < size / sizeof *to; i++) to[i] += from[i];
}

/* How many rows come to this process's parts from those of others: before anything moves. */
static tsr_status know_counts(grouping *g, const tsr__view *view)
{
  size_t size = (size_t)g->parts * (size_t)g->parts * sizeof *g->counts;
  return view->apart ? tsr__agree_found(g->rt, g->counts, size, add_counts, g->error) : TSR_OK;
}

/* Rows of the columns that aggregates read go to the owners of their groups. `home` and `values`
 * serve as scratch: neither holds anything yet. */
static tsr_status send_rows(grouping *g, const tsr__group_owners *owners)
{
  const tsr__view *view = owners->view;
  int parts = g->parts;
  tsr__buffer **owner = g->home, **number = g->values;
  tsr_status status = tsr__part_buffers(owners, TSR_I32, view->parts.rows, owner);
  if (!status) status = tsr__part_buffers(owners, TSR_I32, view->parts.rows, number);
  if (!status)
    status = tsr__on_rows(g->rt)->homes_route(g->rt, &owners->homes, owner, number, g->error);
  tsr__routes routes = { &view->parts, owner, NULL, g->counts };
  if (!status) status = tsr__on_rows(g->rt)->route_rows(g->rt, &routes, g->error);
  /* The number of a row's group at its owner travels as a column like the others, so that nobody
   * there has to hash keys a second time. */
  g->columns[0] = (tsr__colparts){ .dtype = TSR_I32, .values = number };
  for (int c = 0; c < g->column_count; c++) g->columns[1 + c] = view->columns[g->taken[c]];
  if (!status) status = know_counts(g, view);
  if (!status) status = check_coming(g, view);
  tsr__sending send = { .what = "rows by key",
                        .from = view->parts.rows,
                        .counts = g->counts,
                        .dest = owner,
                        .count = 1 + g->column_count,
                        .columns = g->columns,
                        .values = g->came,
                        .valid = g->came_valid,
                        .came = g->rows };
  if (!status) status = tsr__send(owners, &send);
  tsr__drop_buffers(owner, parts);
  tsr__drop_buffers(number, parts);
  return status;
}

/* Aggregates of the groups at their owners. Column 0 of what came is the number of the group. The
 * columns move down by one, as aggregates count them without it. */
static tsr_status aggregate_came(grouping *g, const tsr__group_owners *owners)
{
  int parts = g->parts;
  tsr__parts at = { parts, owners->view->parts.device, g->rows };
  for (int c = 0; c < g->column_count; c++)
    g->columns[c] = (tsr__colparts){ g->columns[1 + c].dtype, g->came + (1 + c) * parts,
                                     g->came_valid + (1 + c) * parts };
  tsr__homes_rows ask = { &owners->homes, &at, g->came, g->columns, g->aggs, g->ask->agg_count };
  tsr_status status =
      tsr__on_rows(g->rt)->homes_aggregate(g->rt, &ask, g->values, g->valid, g->error);
  tsr__drop_buffers(g->came, (int64_t)(1 + g->column_count) * parts);
  tsr__drop_buffers(g->came_valid, (int64_t)(1 + g->column_count) * parts);
  return status;
}

/* Results from the owners to the homes: [0] is the number there, then the aggregates. An owner
 * has a group's results; the row of the result lies at its home. The number there comes along,
 * for what arrives is in order of the owners, not of the groups. */
static tsr_status send_results(grouping *g, const tsr__group_owners *owners)
{
  int parts = g->parts, aggs = g->ask->agg_count;
  const int64_t *owned = owners->homes.owned.count;
  tsr__buffer **to = g->came;
  tsr_status status = tsr__part_buffers(owners, TSR_I32, owned, to);
  if (!status) status = tsr__on_rows(g->rt)->homes_dest(g->rt, &owners->homes, to, g->error);
  tsr__parts lie = { parts, owners->view->parts.device, owned };
  tsr__routes routes = { &lie, to, NULL, g->counts };
  if (!status) status = tsr__on_rows(g->rt)->route_rows(g->rt, &routes, g->error);
  g->columns[0] = (tsr__colparts){ .dtype = TSR_I32, .values = owners->homes.owned_number };
  for (int a = 0; a < aggs; a++) {
    int column = g->ask->aggs[a].column;
    tsr_dtype dtype = column < 0 ? TSR_I64 : owners->view->columns[column].dtype;
    g->columns[1 + a] = (tsr__colparts){ tsr__group_dtype(g->ask->aggs[a].op, dtype),
                                         g->values + a * parts, g->valid + a * parts };
  }
  tsr__sending send = { .what = "results",
                        .from = owned,
                        .counts = g->counts,
                        .dest = to,
                        .count = 1 + aggs,
                        .columns = g->columns,
                        .values = g->home,
                        .valid = g->home_valid,
                        .came = g->rows };
  if (!status) status = tsr__send(owners, &send);
  tsr__drop_buffers(to, parts);
  return status;
}

/* What came is put in order by an index and gathered once more: results are one row a group, so
 * this costs little beside the rows themselves. */
static tsr_status put_results(grouping *g, const tsr__group_owners *owners, tsr__draft *draft)
{
  int parts = g->parts;
  const tsr__view *view = owners->view;
  tsr__index order = { 0 };
  tsr__parts lie = { parts, view->parts.device, owners->homes.own.rows };
  tsr_status status =
      tsr__on_rows(g->rt)->homes_order(g->rt, &owners->homes, g->home, &order, g->error);
  tsr__drop_buffers(g->values, (int64_t)g->ask->agg_count * parts);
  tsr__drop_buffers(g->valid, (int64_t)g->ask->agg_count * parts);
  for (int a = 0; a < g->ask->agg_count && !status; a++) {
    tsr__colparts from = { g->columns[1 + a].dtype, g->home + (1 + a) * parts,
                           g->home_valid + (1 + a) * parts };
    tsr__gather gather = { &lie, &order, &from, false };
    status = tsr__on_rows(g->rt)->gather_column(g->rt, &gather, g->values, g->valid, g->error);
    if (status) break;
    tsr__draft_put(draft, g->ask->key_count + a, view, g->values, g->valid);
    memset(g->values, 0, (size_t)parts * sizeof *g->values);
    memset(g->valid, 0, (size_t)parts * sizeof *g->valid);
  }
  tsr__index_free(g->rt, &order);
  tsr__drop_buffers(g->home, (int64_t)(1 + g->ask->agg_count) * parts);
  tsr__drop_buffers(g->home_valid, (int64_t)(1 + g->ask->agg_count) * parts);
  return status;
}

/* By records of each part's groups; *done is false where records cannot hold what is asked.
 * `first` lends its rows: the groups of this part as it owns them, not a new grouping. */
static tsr_status group_by_records(grouping *g, const tsr__group_owners *owners, tsr__index *first,
                                   tsr__draft *draft, bool *done)
{
  const tsr__view *view = owners->view;
  tsr__group_records *tallied;
  tsr__agreeing agree = { tsr__agree_found, g->rt };
  tsr__aggregate_ask ask = { &view->parts, &owners->homes.local, view->columns,
                             g->ask->aggs, g->ask->agg_count,    view->apart ? &agree : NULL };
  tsr__grouped own = { .parts = g->parts, .count = owners->homes.own.rows, .first = *first };
  tsr_status status = tsr__on_rows(g->rt)->group_record_groups(g->rt, &ask, &tallied, g->error);
  /* The same in all processes: records are laid out by what all of them found. */
  *done = tallied != NULL;
  if (status || !tallied) return status;
  status = tsr__join_records(owners, tallied);
  if (!status)
    status = tsr__on_rows(g->rt)->tallied_read(tallied, &own, g->values, g->valid, g->error);
  tsr__tallied_free(tallied);
  if (!status) put_aggs(g, view, draft);
  return status;
}

/* Keys first: they are gathered from rows that lie here, before anything moves. Without
 * aggregates (distinct) that is all there is to do.
 *
 * Records are tried next. They move one record a group and part instead of rows, but hold only
 * what can be joined from parts; a kernel may refuse for reasons that only values show, and then
 * rows travel. */
static tsr_status group_apart(grouping *g, tsr__group_owners *owners, tsr__draft *draft)
{
  tsr__index first = { 0 };
  bool done = !g->ask->agg_count;
  tsr_status status = tsr__on_rows(g->rt)->homes_first(g->rt, &owners->homes, &first, g->error);
  if (!status) status = put_keys(g, owners->view, &first, draft);
  if (!status && !done) status = group_by_records(g, owners, &first, draft, &done);
  tsr__index_free(g->rt, &first);
  g->by_records = done;
  if (status || done) return status;
  /* Codes told who the home is without any owner. Rows need owners, so those are found after
   * all. */
  if (owners->homes.coded) status = find_homes(g, owners, false);
  if (!status) status = send_rows(g, owners);
  if (!status) status = aggregate_came(g, owners);
  if (!status) status = send_results(g, owners);
  return status ? status : put_results(g, owners, draft);
}

/* ---- the operator ---------------------------------------------------------------------------- */

/* The ranges of the keys, which are the same on all slices, and so the words a key takes. */
static tsr_status find_ranges(grouping *g, const tsr__view *view)
{
  const tsr__rel_group_ask *ask = g->ask;
  g->words = 1;
  if (!ask->key_count) return TSR_OK;
  tsr__view_keys(view, ask->keys, ask->key_count, g->keys, g->key_columns);
  tsr__range_ask range = { &view->parts, g->key_columns, g->keys, ask->key_count };
  tsr_status status = tsr__on_rows(g->rt)->keys_range(g->rt, &range, g->error);
  if (!status) status = tsr__agree_keys(g->rt, view->apart, g->keys, ask->key_count, g->error);
  g->words = tsr__keys_settle(g->keys, ask->key_count, &g->bits);
  return status;
}

/* Whether records can hold the aggregates, as far as one can tell without a look at values. The
 * order of rows decides the last value, and a quantile or a count of distinct values needs all of
 * them: nothing smaller than the rows can be joined. */
static bool may_record(const tsr__rel_group_ask *ask)
{
  for (int a = 0; a < ask->agg_count; a++) {
    int op = ask->aggs[a].op;
    if (op == TSR__GROUP_LAST || op == TSR__GROUP_QUANTILE || op == TSR__GROUP_NUNIQUE)
      return false;
  }
  return true;
}

static tsr__group_owners owners_of(const grouping *g, const tsr__view *view)
{
  return (tsr__group_owners){ .rt = g->rt,
                              .error = g->error,
                              .stats = g->stats,
                              .view = view,
                              .parts = g->parts,
                              .homes.parts = &view->parts };
}

static tsr_status group_slice(grouping *g, const tsr__view *view, tsr__draft *draft)
{
  tsr__group_owners owners = owners_of(g, view);
  /* Known before homes are looked for, as finding them by codes is of use to records only. */
  owners.records = may_record(g->ask);
  for (int p = 0; p < g->parts; p++) g->held[p] = held_now(g, view, p);
  tsr_status status = find_homes(g, &owners, false);
  /* A sum of no rows is one row all the same: the group that no row belongs to is made by hand. */
  bool nothing = !g->ask->key_count && !g->ask->in->total;
  if (!status && nothing)
    status = tsr__on_rows(g->rt)->homes_of_nothing(g->rt, &owners.homes, g->error);
  if (!status) status = (g->parts == 1 || nothing ? group_here : group_apart)(g, &owners, draft);
  tsr__group_owners_free(&owners);
  drop_lists(g);
  return status;
}

/* Whether keys are few enough for a table with a place for each that could be: 4 bytes times
 * 2^22 is 16 MiB, and no hashing. The kernel hashes all the same where rows are few beside the
 * places. */
static bool dense(const grouping *g)
{
  return g->words == 1 && g->bits <= 22;
}

/* What a part takes beyond its input at the worst moment: while its keys are grouped; while homes
 * are found; while rows are read. All groups it may have are counted, and rows that come are as
 * many as rows that go. Three moments are looked at, and the largest counts, for what one leaves
 * is freed before the next: `find` groups local keys, `homes` sends them to owners, `read` reads
 * rows into accumulators. */
static int64_t part_need(const grouping *g, const tsr__view *view, int64_t rows)
{
  const tsr__rel_group_ask *ask = g->ask;
  int64_t groups = rows, word = 8 * g->words, row = 8, group = 0, results = 0;
  bool many = g->parts > 1;
  /* Workers that may be at one part at once: each has tables of its own. */
  int slots = (tsr__worker_count(g->rt) + g->parts - 1) / g->parts;
  if (g->words == 1 && g->bits < 32 && groups > INT64_C(1) << g->bits)
    groups = INT64_C(1) << g->bits;
  int64_t tables = dense(g) ? (INT64_C(4) << g->bits) * slots : rows * (word + 11);
  int64_t find = rows * (word + 5) + 4 * groups + tables;
  int64_t kept = many && dense(g) ? INT64_C(4) << g->bits : 0;
  int64_t homes = many ? rows * (word + 5) + groups * (5 * word + 130) + kept : 0;
  for (int k = 0; k < ask->key_count; k++)
    results += tsr__row_bits(&view->columns[ask->keys[k].column], g->parts);
  for (int a = 0; a < ask->agg_count; a++) {
    group += kept_bytes(ask->aggs[a].op, &row);
    results += 65;
  }
  for (int c = 0; many && c < g->column_count; c++)
    row += 1 + tsr__row_bits(&view->columns[g->taken[c]], g->parts) / 8;
  /* Few groups have records at each worker; those of many lie in a cache, or in one place. */
  int64_t few = INT64_C(8) << 20, records = groups * group;
  records = larger((records < few ? records : few) * slots, many ? records : INT64_C(1) << 20);
  int64_t read = rows * (5 + row + (many ? 24 : 0)) + groups * (results / 8 + 5) + records +
                 (many ? groups * (76 + 2 * group + results / 8) + kept : 0);
  int64_t most = larger(larger(find, homes), read);
  return most + most / 16;
}

static tsr_status check_need(const grouping *g, const tsr__views *views)
{
  tsr__need need = { g->rt, "group by", g->stats };
  for (int v = 0; v < views->slices; v++) {
    const tsr__view *view = &views->view[v];
    for (int p = 0; p < g->parts; p++) {
      int64_t bytes = part_need(g, view, view->parts.rows[p]);
      tsr_status status = tsr__need_check(&need, view->parts.device[p], bytes, g->error);
      if (status) return status;
    }
  }
  return TSR_OK;
}

/* A count reads no column (-1): it is i64 whatever is counted. */
static void set_dtypes(const grouping *g, tsr__draft *draft)
{
  const tsr__rel *in = g->ask->in;
  int keys = g->ask->key_count;
  for (int k = 0; k < keys; k++)
    draft->dtype[k] = (tsr_dtype)in->column[g->ask->keys[k].column].values->dtype;
  for (int a = 0; a < g->ask->agg_count; a++) {
    int column = g->ask->aggs[a].column;
    tsr_dtype dtype = column < 0 ? TSR_I64 : (tsr_dtype)in->column[column].values->dtype;
    draft->dtype[keys + a] = tsr__group_dtype(g->ask->aggs[a].op, dtype);
  }
}

static const char *method_of(const grouping *g)
{
  if (g->parts > 1 && g->by_records)
    return dense(g) ? "direct tables, then records" : "hash tables, then records";
  if (g->parts > 1) return dense(g) ? "direct tables, then rows" : "hash tables, then rows";
  return dense(g) ? "direct table" : "hash tables";
}

/* All that may fail for want of memory is checked before the draft is made. Slices follow one
 * another, so scratch of one serves all; drop_lists leaves it empty in between. */
static tsr_status group(const tsr__rel_group_ask *ask, tsr__rel *out, tsr__rel_stats *stats,
                        tsr__error *error)
{
  const tsr__rel *in = ask->in;
  tsr__views views;
  tsr__draft draft = { 0 };
  grouping g = { .ask = ask, .rt = in->rt, .error = error, .stats = stats };
  tsr_status status = tsr__views_new(in, &views, error);
  if (!status) status = grouping_new(&g, &views);
  if (!status) status = find_ranges(&g, &views.view[0]);
  if (!status) status = check_need(&g, &views);
  if (!status)
    status = tsr__draft_new(in->rt, &in->sharding, ask->key_count + ask->agg_count, &draft, error);
  if (!status) set_dtypes(&g, &draft);
  for (int v = 0; v < views.slices && !status; v++)
    status = group_slice(&g, &views.view[v], &draft);
  if (!status) status = tsr__draft_finish(&draft, out, error);
  if (!status && stats) stats->method = method_of(&g);
  tsr__draft_free(&draft);
  grouping_free(&g);
  tsr__views_free(&views);
  return status;
}

tsr_status tsr__rel_group(const tsr__rel_group_ask *ask, tsr__rel *out, tsr__rel_stats *stats,
                          tsr__error *error)
{
  tsr__rel_meeting meeting = { .rt = ask->in->rt, .error = error, .stats = stats };
  tsr_status status = tsr__rel_enter(&meeting, "group by", ask->in, NULL);
  if (status) return status;
  return tsr__rel_leave(&meeting, group(ask, out, stats, error), out);
}

/* ---- the first rows of each group ------------------------------------------------------------ */

/* `values` lends its places to the buffers of the result, which homes_keep writes to; they are
 * cleared, not released, as they are the result's. */
static tsr_status keep_slice(grouping *g, const tsr__view *view, int64_t most, tsr__value *out)
{
  tsr__group_owners owners = owners_of(g, view);
  tsr_status status = find_homes(g, &owners, true);
  for (int p = 0; p < g->parts && !status; p++)
    g->values[p] = view->here[p] ? out->parts[view->position[p]] : view->none;
  if (!status)
    status = tsr__on_rows(g->rt)->homes_keep(g->rt, &owners.homes, most, g->values, g->error);
  memset(g->values, 0, (size_t)g->parts * sizeof *g->values);
  tsr__group_owners_free(&owners);
  return status;
}

static tsr_status first_of_group(const tsr__rel_group_ask *ask, int64_t count, tsr__value **out,
                                 tsr__rel_stats *stats, tsr__error *error)
{
  const tsr__rel *in = ask->in;
  /* Aggregates would only make room for lists that nobody fills. */
  tsr__rel_group_ask keys_only = { .in = in, .keys = ask->keys, .key_count = ask->key_count };
  tsr__views views;
  grouping g = { .ask = &keys_only, .rt = in->rt, .error = error, .stats = stats };
  tsr_status status = tsr__views_new(in, &views, error);
  *out = NULL;
  if (!status) status = grouping_new(&g, &views);
  if (!status) status = find_ranges(&g, &views.view[0]);
  if (!status) status = check_need(&g, &views);
  if (!status) {
    tsr_shape shape = { 1, { in->total } };
    /* The mask must line up with the rows it is of, so it takes their layout, ragged or not. */
    const int64_t *rows = in->count ? in->column[0].values->rows : NULL;
    *out = tsr__value_new(in->rt, &(tsr__layout){ TSR_BOOL, &shape, &in->sharding, rows }, error);
    if (!*out) status = error->status;
  }
  for (int v = 0; v < views.slices && !status; v++)
    status = keep_slice(&g, &views.view[v], count, *out);
  if (status) {
    tsr__value_release(*out);
    *out = NULL;
  } else if (stats) {
    stats->method = method_of(&g);
  }
  grouping_free(&g);
  tsr__views_free(&views);
  return status;
}

tsr_status tsr__rel_first_of_group(const tsr__rel_group_ask *ask, int64_t count, tsr__value **out,
                                   tsr__rel_stats *stats, tsr__error *error)
{
  tsr__rel_meeting meeting = { .rt = ask->in->rt, .error = error, .stats = stats };
  tsr_status status = tsr__rel_enter(&meeting, "distinct", ask->in, NULL);
  *out = NULL;
  if (status) return status;
  status = tsr__rel_leave(&meeting, first_of_group(ask, count, out, stats, error), NULL);
  if (!status) return TSR_OK;
  tsr__value_release(*out);
  *out = NULL;
  return status;
}
