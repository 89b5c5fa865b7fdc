/* Aggregates of groups.
 *
 *   few groups     each worker reads a stretch of rows into records of its own; they are joined
 *   many groups    rows are dealt into clusters of neighbouring groups, a task each, whose records
 *                  stay in the cache and are read out at once
 *
 * Columns are taken to be like some of their rows. If adding finds that one is not, all is done
 * again after a look at all rows.
 *
 * Invariant: records join exactly (group_record.h), so neither the way nor the workers can show.
 * First and last rows are looked up by number; quantiles and distinct values have their own
 * file. */
#include "kernel/rows/group_inner.h"
#include "kernel/rows/group_record.h"

#define DIRECT_BYTES (INT64_C(8) << 20)    /* for one worker's records */
#define CLUSTER_BYTES (INT64_C(128) << 10) /* for a cluster's records */

enum {
  PIECE = 1 << 17,     /* rows of a task that deals */
  ROUND = 1 << 22,     /* values a worker reads before others get their turn */
  READ = 1 << 12,      /* groups of a task that reads records out; a multiple of 64 */
  MAX_CLUSTERS = 4096, /* in a part */
  MOST_TALLIES = 8     /* an aggregate */
};

/* The clusters of a part, its rows dealt to them. */
typedef struct cluster_part {
  int shift; /* groups of a cluster: 1 << shift */
  int64_t count, first_piece, first;
  uint32_t *row, *group;
  uint32_t *start; /* [piece][cluster] */
  int64_t *border; /* [cluster]: its first row; [count]: all rows */
} cluster_part;

typedef struct job {
  tsr_runtime *rt;
  const tsr__aggregate_ask *ask;
  tsr__error *error;
  tsr__loans loans;
  tsr__tallies plan;
  uint8_t *summed;       /* [column] */
  tsr__reading *reading; /* one an aggregate */
  tsr__index last;       /* last rows, once some aggregate wants them */
  tsr__buffer **values, **valid;
  _Atomic int64_t *nulls; /* [aggregate * parts + part] */
  bool empty;             /* some group has no rows */
  int workers, slots, state_count;
  int64_t round, round_rows;
  tsr__group_record_state *state; /* [part * slots + slot], or one a worker */
  cluster_part *clusters;
  tsr__group_record_state *kept; /* records of all groups of each part; NULL: read out at once */
  _Atomic bool failed;
  _Atomic int outside; /* the dtype that a sum of integers left; 0: none */
  _Atomic bool misled; /* a column is not like the rows that were looked at */
} job;

static const char what[] = "group by";

static tsr_status no_aggregate_memory(job *j)
{
  return tsr__error_set(j->error, TSR_ENOMEM, "%s: no memory for the aggregates; free arrays",
                        what);
}

static tsr_status run_aggregate_tasks(job *j, int64_t tasks, tsr__task_fn fn)
{
  if (!tsr__parallel_long(j->rt, what, tasks, fn, j)) return tsr__cancelled(j->error, what);
  if (atomic_load(&j->failed)) return no_aggregate_memory(j);
  int outside = atomic_load(&j->outside);
  if (outside)
    return tsr__error_set(j->error, TSR_EVALUE,
                          "%s: a sum of integers does not fit %s; cast the column to f64 first",
                          what, tsr_dtype_name((tsr_dtype)outside));
  return TSR_OK;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* Whether records keep sums of values and of products; the result is a formula of these sums. */
static bool is_moment(int op)
{
  return op == TSR__GROUP_SUM || op == TSR__GROUP_MEAN || op == TSR__GROUP_VAR ||
         op == TSR__GROUP_STD || op == TSR__GROUP_CORR;
}

/* Looked up by row, not read from records. */
static bool reads_one_row(int op)
{
  return op == TSR__GROUP_FIRST || op == TSR__GROUP_LAST;
}

static bool needs_value_order(int op)
{
  return op == TSR__GROUP_QUANTILE || op == TSR__GROUP_NUNIQUE;
}

/* By part: a column with validity whose parts all have none has no nulls. */
static bool column_has_nulls(const tsr__aggregate_ask *ask, int column)
{
  const tsr__colparts *from = &ask->columns[column];
  for (int p = 0; from->valid && p < ask->parts->count; p++)
    if (from->valid[p]) return true;
  return false;
}

/* Returns the tally of that kind, made at first need.
 *    record of a group   | tally 0 | tally 1 | ...        `stride` bytes, `offset` of each
 *    beside records      rows[0], rows[1] ...              exact sums of floats that need parts
 * A mean, a sum and a var of one column share tallies: a tally is found again by its kind and
 * columns. Sizes are multiples of 8, so offsets are, too. Tallies beside the records have size 0,
 * and their offset is a number. */
static int tally(job *j, tsr__group_record want)
{
  /* Bytes of each kind in a record. */
  static const uint8_t size[] = {
    [TSR__RECORD_COUNT] = 8, [TSR__RECORD_I64] = 8,  [TSR__RECORD_I128] = 16,
    [TSR__RECORD_I192] = 24, [TSR__RECORD_FIX] = 16, [TSR__RECORD_FIX2] = 24,
    [TSR__RECORD_SAW] = 8,   [TSR__RECORD_KEY] = 8,  [TSR__RECORD_TRUE] = 8,
    [TSR__RECORD_LAST] = 8,  [TSR__RECORD_ROWS] = 0, [TSR__RECORD_ROWS2] = 0
  };
  /* Few tallies an ask: they are looked through. */
  tsr__tallies *plan = &j->plan;
  for (int k = 0; k < plan->count; k++) {
    const tsr__group_record *have = &plan->item[k];
    if (have->kind == want.kind && have->column == want.column && have->other == want.other &&
        have->inverted == want.inverted && have->map == want.map)
      return k;
  }
  /* Sums of doubles lie beside the records, one list for all groups. */
  if (!size[want.kind]) want.offset = (uint32_t)plan->rows_count++;
  else want.offset = (uint32_t)plan->stride;
  plan->stride += size[want.kind];
  plan->item[plan->count] = want;
  return plan->count++;
}

static int tally_of(job *j, int kind, int column)
{
  return tally(j, (tsr__group_record){ .kind = (uint8_t)kind, .column = column, .other = -1 });
}

/* The sum of a column's values, and of its products with another column's (-1: none): `units` where
 * 64 bits hold all of them, or units all floats. `saw` has flags of NaN and infinities, which
 * numbers in units cannot hold. */
typedef struct sums {
  int sum, products, saw;
} sums;

/*    floats in units of 2^k that fit     FIX    (16 bytes)     products FIX2  (24)
 *    floats of any size                  ROWS   (three doubles beside the record)
 *    integers whose sum fits 64 bits     I64                   products I64
 *    others                              I128                  products I192
 * All kinds are exact. The narrow kinds are only faster, and chosen by the spans of sampled
 * rows. */
static bool is_real(const job *j, int column)
{
  return tsr__dtype_is_real((tsr_dtype)j->ask->columns[column].dtype);
}

static sums plan_sums(job *j, int column, int other, bool units)
{
  /* The span is a guess where only some rows were looked at: adding holds each value against it,
   * and the job is done again if one breaks it. */
  const tsr__column_span *span = &j->plan.span[column];
  bool floats = is_real(j, column);
  bool fits = floats ? units : span->narrow;
  int kind = floats ? fits ? TSR__RECORD_FIX : TSR__RECORD_ROWS
             : fits ? TSR__RECORD_I64
                    : TSR__RECORD_I128;
  int products = floats  ? units ? TSR__RECORD_FIX2 : TSR__RECORD_ROWS2
                 : units ? TSR__RECORD_I64
                         : TSR__RECORD_I192;
  sums out = { tally_of(j, kind, column), -1, -1 };
  if (other >= 0)
    out.products =
        tally(j,
              (tsr__group_record){ .kind = (uint8_t)products, .column = column, .other = other });
  if (floats && units && span->unit.special) out.saw = tally_of(j, TSR__RECORD_SAW, column);
  return out;
}

/* Plans an integer with a float: sums of each by itself, and products as the float's.
 *
 *   integer    64 bits | a float in units    53 + 31 | rows, 43      in 191: narrow squares are */
static void plan_mixed(job *j, tsr__reading *r)
{
  bool turned = is_real(j, r->agg->column);
  int whole = turned ? r->agg->other : r->agg->column;
  int real = turned ? r->agg->column : r->agg->other;
  sums of_whole = plan_sums(j, whole, whole, j->plan.span[whole].narrow_squares);
  bool units = j->plan.span[real].narrow_squares;
  sums of_real = plan_sums(j, real, real, units);
  r->main = of_whole.sum;
  r->squares = of_whole.products;
  r->other_main = of_real.sum;
  r->other_squares = of_real.products;
  r->other_saw = of_real.saw;
  r->both = plan_sums(j, real, whole, units).products;
}

static void plan_moment(job *j, tsr__reading *r)
{
  /* Both columns of a correlation are summed alike, so that products fit the same units. */
  const tsr__column_span *span = j->plan.span;
  int column = r->agg->column, other = r->agg->other, op = r->agg->op;
  /* Products need a span half as wide, so a column that is squared anywhere is judged for that. */
  bool squares = op == TSR__GROUP_VAR || op == TSR__GROUP_STD || op == TSR__GROUP_CORR;
  bool units = squares ? span[column].narrow_squares : span[column].narrow;
  bool pair = op == TSR__GROUP_CORR;
  if (pair && is_real(j, column) != is_real(j, other)) {
    plan_mixed(j, r);
    return;
  }
  /* The product of two columns is in units only if both are. */
  if (pair) units = units && span[other].narrow_squares;
  sums own = plan_sums(j, column, squares ? column : -1, units);
  r->main = own.sum;
  r->squares = own.products;
  r->saw = own.saw;
  if (!pair) return;
  own = plan_sums(j, other, other, units);
  r->other_main = own.sum;
  r->other_squares = own.products;
  r->other_saw = own.saw;
  r->both = plan_sums(j, column, other, units).products;
}

static void plan_one(job *j, tsr__reading *r)
{
  const tsr__group_agg *agg = r->agg;
  int op = agg->op, column = agg->column;
  bool holes = column >= 0 && column_has_nulls(j->ask, column);
  bool truth = op == TSR__GROUP_ANY || op == TSR__GROUP_ALL;
  /* Nothing to keep: they are made from the rows themselves (compute_from_rows). */
  if (needs_value_order(op) || op == TSR__GROUP_FIRST) return;
  if (op == TSR__GROUP_LAST) {
    r->main = tally_of(j, TSR__RECORD_LAST, -1);
    return;
  }
  if (op == TSR__GROUP_MIN || op == TSR__GROUP_MAX || op == TSR__GROUP_MEAN)
    /* How many values a group must have to have a result; 0 where no group can be without. */
    r->least = holes || j->empty;
  if (op == TSR__GROUP_VAR || op == TSR__GROUP_STD || op == TSR__GROUP_CORR) r->least = 2;
  if (r->least || op == TSR__GROUP_COUNT || op == TSR__GROUP_MEAN)
    /* Columns without nulls all count the rows, so they share one tally (column -1). */
    r->count = tally_of(j, TSR__RECORD_COUNT, holes ? column : -1);
  if (is_moment(op)) plan_moment(j, r);
  else if (op == TSR__GROUP_MIN || op == TSR__GROUP_MAX)
    r->main = tally(j, (tsr__group_record){ .kind = TSR__RECORD_KEY,
                                            .inverted = op == TSR__GROUP_MIN,
                                            .column = column,
                                            .other = -1,
                                            .map = agg->map,
                                            .map_count = agg->map_count });
  else if (truth)
    r->main = tally(j, (tsr__group_record){ .kind = TSR__RECORD_TRUE,
                                            .inverted = op == TSR__GROUP_ALL,
                                            .column = column,
                                            .other = -1 });
}

/* Room for the plan. MOST_TALLIES: a corr needs two sums, three sums of products, two notes of
 * specials, and a count. */
static bool plan_room(job *j)
{
  tsr__heap *heap = &j->rt->heap;
  const tsr__aggregate_ask *ask = j->ask;
  size_t aggs = (size_t)ask->count;
  for (int a = 0; a < ask->count; a++) {
    const tsr__group_agg *agg = &ask->aggs[a];
    /* Columns are listed up to the highest that is asked for. */
    int last = agg->op == TSR__GROUP_CORR && agg->other > agg->column ? agg->other : agg->column;
    if (last >= j->plan.column_count) j->plan.column_count = last + 1;
  }
  size_t columns = (size_t)j->plan.column_count;
  j->plan.columns = ask->columns;
  j->plan.item = tsr__new(heap, (MOST_TALLIES * aggs + 1) * sizeof *j->plan.item);
  j->plan.span = tsr__new(heap, (columns + 1) * sizeof *j->plan.span);
  j->reading = tsr__new(heap, (aggs + 1) * sizeof *j->reading);
  j->nulls = tsr__new(heap, (aggs * (size_t)ask->parts->count + 1) * sizeof *j->nulls);
  j->summed = tsr__new(heap, columns + 1);
  return j->plan.item && j->plan.span && j->reading && j->nulls && j->summed;
}

static tsr_status plan_new(job *j)
{
  const tsr__aggregate_ask *ask = j->ask;
  if (!plan_room(j)) return no_aggregate_memory(j);
  for (int a = 0; a < ask->count; a++) {
    int op = ask->aggs[a].op;
    if (!is_moment(op)) continue;
    bool plain = op == TSR__GROUP_SUM || op == TSR__GROUP_MEAN;
    uint8_t *need = &j->summed[ask->aggs[a].column];
    /* The strongest need of all aggregates of a column decides how it is looked at. */
    if (!plain) *need = TSR__SQUARED;
    else if (*need == TSR__NOT_SUMMED) *need = TSR__SUMMED;
    if (op == TSR__GROUP_CORR) j->summed[ask->aggs[a].other] = TSR__SQUARED;
  }
  for (int p = 0; p < ask->parts->count; p++)
    /* A part with groups and without rows has groups of nothing, whose results are null. */
    j->empty = j->empty || (ask->groups->count[p] && !ask->parts->rows[p]);
  return TSR_OK;
}

/* Plans the record of a group from `all` rows or a sample. Called twice if the sample misled:
 * everything that follows from spans is made anew here, while results' memory and columns' needs
 * stay. */
static tsr_status plan_records(job *j, bool all)
{
  const tsr__aggregate_ask *ask = j->ask;
  tsr__group_record_look look = { ask->parts, j->summed, all, ask->agree };
  tsr_status status = tsr__group_record_scan(j->rt, &look, &j->plan, j->error);
  if (status) return status;
  j->plan.tiles = tsr__cpu_of(j->rt)->tiles;
  j->plan.count = j->plan.rows_count = 0;
  j->plan.stride = 0;
  for (int a = 0; a < ask->count; a++) {
    const tsr__group_agg *agg = &ask->aggs[a];
    tsr_dtype dtype = agg->column < 0 ? TSR_I64 : ask->columns[agg->column].dtype;
    j->reading[a] = (tsr__reading){ .plan = &j->plan,
                                    .agg = agg,
                                    .dtype = tsr__group_dtype(agg->op, dtype),
                                    .main = -1,
                                    .squares = -1,
                                    .count = -1,
                                    .saw = -1,
                                    .other_saw = -1 };
    plan_one(j, &j->reading[a]);
  }
  /* Records of nothing still need an address each. */
  if (!j->plan.stride) j->plan.stride = 8;
  return TSR_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Room for the results of all groups; validity only where some result may be null. */
static tsr_status make_result_buffers(job *j)
{
  const tsr__aggregate_ask *ask = j->ask;
  for (int a = 0; a < ask->count; a++) {
    /* Aggregates over rows and over values in order make their own buffers when they are computed,
     * after the records are read. */
    if (reads_one_row(ask->aggs[a].op) || needs_value_order(ask->aggs[a].op)) continue;
    for (int p = 0; p < ask->parts->count; p++) {
      int at = a * ask->parts->count + p, device = ask->parts->device[p];
      int64_t groups = ask->groups->count[p];
      /* The dtype of the result, not of the column. */
      size_t bytes = tsr__device_bytes(j->reading[a].dtype, groups);
      j->values[at] = tsr__cpu_take(j->rt, device, bytes, j->error);
      if (!j->values[at]) return j->error->status;
      if (!j->reading[a].least) continue;
      j->valid[at] = tsr__cpu_take(j->rt, device, tsr__device_bytes(TSR_BOOL, groups), j->error);
      if (!j->valid[at]) return j->error->status;
    }
  }
  return TSR_OK;
}

/* Groups first .. of a part are groups `from` .. of the state: reads all their aggregates.
 * `to.from` counts groups of the state, `to.first` groups of the part: a cluster's state begins at
 * 0. */
static void read_out(job *j, int part, const tsr__group_record_state *state, tsr__read_to to)
{
  const tsr__aggregate_ask *ask = j->ask;
  for (int a = 0; a < ask->count; a++) {
    /* Last rows are row numbers: they are looked up later. */
    const tsr__reading *r = &j->reading[a];
    int at = a * ask->parts->count + part;
    if (ask->aggs[a].op == TSR__GROUP_LAST) {
      const tsr__group_record *last = &j->plan.item[r->main];
      for (int64_t g = 0; g < to.count; g++) {
        const void *word = state->record + (size_t)(to.from + g) * j->plan.stride + last->offset;
        j->last.at[part][to.first + g] =
            ask->parts->rows[part] ? (uint32_t) * (const uint64_t *)word : TSR__NO_ROW;
      }
      continue;
    }
    if (!j->values[at]) continue;
    to.values = tsr__cpu_data(j->values[at]);
    to.valid = j->valid[at] ? tsr__cpu_data(j->valid[at]) : NULL;
    to.nulls = 0;
    /* Exact sums of integers that the result's type does not hold: told once all tasks are done. */
    if (!tsr__group_record_read(r, state, &to)) atomic_store(&j->outside, (int)r->dtype);
    if (to.nulls) atomic_fetch_add(&j->nulls[at], to.nulls);
  }
}

/* Drops bitmaps without a null. The bitmaps were made before any result was known to be null or
 * not. */
static void drop_valid(job *j)
{
  int count = j->ask->count * j->ask->parts->count;
  for (int at = 0; at < count; at++) {
    if (!j->valid[at] || atomic_load(&j->nulls[at]) || !j->reading[at / j->ask->parts->count].least)
      continue;
    tsr__buffer_release(j->valid[at]);
    j->valid[at] = NULL;
  }
}

/* ---- records --------------------------------------------------------------------------------- */

/* 24: three doubles of an exact sum. */
static size_t state_bytes(const job *j, int64_t groups)
{
  return (size_t)groups * (j->plan.stride + 24 * (size_t)j->plan.rows_count);
}

static void state_clear(const job *j, tsr__group_record_state *state)
{
  /* All kinds start from zero (group_record.h): clearing is one call, whatever is kept. */
  memset(state->record, 0, (size_t)state->groups * j->plan.stride);
  for (int k = 0; k < j->plan.rows_count; k++) tsr__rows_clear(&state->rows[k]);
}

/* Records and sums are one block, so that a cluster's are near each other. */
static bool state_room(job *j, tsr__group_record_state *state, int device, int64_t groups)
{
  int count = j->plan.rows_count;
  state->groups = groups;
  state->record = tsr__loan(&j->loans, device, state_bytes(j, groups));
  state->rows = tsr__new(&j->rt->heap, (size_t)(count + 1) * sizeof *state->rows);
  if (!state->record || !state->rows) return false;
  char *at = state->record + (size_t)groups * j->plan.stride;
  for (int k = 0; k < count; k++, at += tsr__rows_bytes(groups))
    state->rows[k] =
        (tsr__rows){ .heap = &j->rt->heap, .count = groups, .part = { (double *)(void *)at } };
  return true;
}

/* An exact sum that found no memory for an escape says so itself. */
static bool state_failed(const job *j, const tsr__group_record_state *state)
{
  for (int k = 0; k < j->plan.rows_count; k++)
    if (state->rows[k].failed) return true;
  return false;
}

/* ---- few groups ------------------------------------------------------------------------------ */

/* A slot has a stretch of the part and a state of its own; in each round it reads some of it, so
 * that tasks stay short enough to be cancelled between. */
static void direct_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  int part = (int)(task / j->slots);
  int64_t s = task % j->slots, rows = j->ask->parts->rows[part];
  /* Even stretches without a remainder; the product of rows and slots stays far below 2^63. */
  int64_t start = rows * s / j->slots, end = rows * (s + 1) / j->slots;
  tsr__group_record_state *state = &j->state[task];
  if (!j->round) state_clear(j, state);
  start += j->round * j->round_rows;
  if (end > start + j->round_rows) end = start + j->round_rows;
  if (start >= end) return;
  /* Rows in order of the part: no list of rows is needed. */
  tsr__group_record_rows read = {
    .part = part, .start = start, .count = end - start, .group = j->ask->groups->group[part] + start
  };
  /* Other tasks go on; their counts are discarded, which is rare. */
  if (!tsr__group_record_add(&j->plan, state, &read)) atomic_store(&j->misled, true);
  if (state_failed(j, state)) atomic_store(&j->failed, true);
}

/* Joins the sums beside the records; task = (part, which of them). One task an exact sum: merging
 * moves escapes, which are lists, so groups cannot be split here. */
static void join_rows_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  int64_t part = task / j->plan.rows_count, k = task % j->plan.rows_count;
  tsr__group_record_state *state = &j->state[part * j->slots];
  const tsr__exact_ops *exact = tsr__cpu_of(j->rt)->tiles->exact;
  for (int s = 1; s < j->slots; s++) {
    exact->rows_merge(&state[0].rows[k], 0, &state[s].rows[k]);
    if (state[0].rows[k].failed) atomic_store(&j->failed, true);
  }
}

/* Joins the slots' records and reads them out at once, while they are in the cache. */
static void direct_read_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  tsr__parts groups = { j->ask->parts->count, NULL, j->ask->groups->count };
  tsr__piece piece = tsr__piece_of(&groups, READ, task);
  tsr__group_record_state *state = &j->state[piece.part * j->slots];
  for (int s = 1; s < j->slots; s++)
    tsr__group_record_merge(&j->plan, &state[0], &state[s], piece.start, piece.count);
  if (j->kept || atomic_load(&j->misled)) return;
  read_out(j, piece.part, state,
           (tsr__read_to){ .first = piece.start, .from = piece.start, .count = piece.count });
}

/* A state for each slot of workers of each part: no group is written to by two of them. */
static tsr_status aggregate_direct(job *j)
{
  const tsr__parts *parts = j->ask->parts;
  int64_t most = 0;
  for (int p = 0; p < parts->count; p++) most = parts->rows[p] > most ? parts->rows[p] : most;
  /* Several slots only if a part has enough rows for them. */
  j->slots = most < 4 * PIECE ? 1 : (j->workers + parts->count - 1) / parts->count;
  int states = parts->count * j->slots;
  j->state = tsr__new(&j->rt->heap, (size_t)states * sizeof *j->state);
  if (!j->state) return no_aggregate_memory(j);
  j->state_count = states;
  /* Each on the device of its part. */
  for (int k = 0; k < j->state_count; k++)
    if (!state_room(j, &j->state[k], parts->device[k / j->slots],
                    j->ask->groups->count[k / j->slots]))
      return no_aggregate_memory(j);
  tsr_status status = TSR_OK;
  /* As long a round as possible: another part's records drive this part's from the cache. */
  j->round_rows = 1 + ROUND / (j->plan.count + 1);
  for (j->round = 0; !status && j->round * j->round_rows * j->slots < most + j->slots; j->round++)
    status = run_aggregate_tasks(j, j->state_count, direct_task);
  if (!status && j->slots > 1 && j->plan.rows_count)
    status = run_aggregate_tasks(j, (int64_t)parts->count * j->plan.rows_count, join_rows_task);
  tsr__parts groups = { parts->count, NULL, j->ask->groups->count };
  /* Kept records are slot 0's, which the join below adds the others to. */
  for (int p = 0; j->kept && p < parts->count; p++) j->kept[p] = j->state[p * j->slots];
  return status ? status
                : run_aggregate_tasks(j, tsr__piece_count(&groups, READ), direct_read_task);
}

/* ---- many groups ----------------------------------------------------------------------------- */

static uint32_t *cluster_counts_of(const cluster_part *c, int64_t piece)
{
  return c->start + (piece - c->first_piece) * c->count;
}

/* A cluster is a run of numbers of groups. */
static void count_clusters_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  tsr__piece piece = tsr__piece_of(j->ask->parts, PIECE, task);
  const cluster_part *c = &j->clusters[piece.part];
  const uint32_t *group = j->ask->groups->group[piece.part] + piece.start;
  uint32_t *count = cluster_counts_of(c, task);
  memset(count, 0, (size_t)c->count * sizeof *count);
  for (int64_t i = 0; i < piece.count; i++) count[group[i] >> c->shift]++;
}

/* Turns counts into where the rows of each piece start in each cluster. Cluster by cluster over the
 * pieces, so that rows of a cluster stay in their order. */
static void place_clusters(cluster_part *c, int64_t pieces)
{
  int64_t place = 0;
  for (int64_t k = 0; k < c->count; k++) {
    c->border[k] = place;
    for (int64_t piece = 0; piece < pieces; piece++) {
      uint32_t count = c->start[piece * c->count + k];
      c->start[piece * c->count + k] = (uint32_t)place;
      place += count;
    }
  }
  c->border[c->count] = place;
}

/* Copies the numbers of rows and groups to where their clusters lie; values are read where they
 * are. */
static void deal_clusters_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  tsr__piece piece = tsr__piece_of(j->ask->parts, PIECE, task);
  const cluster_part *c = &j->clusters[piece.part];
  const uint32_t *group = j->ask->groups->group[piece.part] + piece.start;
  uint32_t place[MAX_CLUSTERS];
  memcpy(place, cluster_counts_of(c, task), (size_t)c->count * sizeof *place);
  for (int64_t i = 0; i < piece.count; i++) {
    uint32_t to = place[group[i] >> c->shift]++;
    c->row[to] = (uint32_t)(piece.start + i);
    c->group[to] = group[i];
  }
}

/* If records are kept, the task writes to its stretch of them; else to the worker's own state,
 * which the next cluster uses again. */
static void cluster_task(void *user, int64_t task, int worker)
{
  job *j = user;
  int part = 0;
  while (task >= j->clusters[part].first + j->clusters[part].count) part++;
  const cluster_part *c = &j->clusters[part];
  int64_t k = task - c->first, groups = j->ask->groups->count[part], first = k << c->shift;
  int64_t count = groups - first < INT64_C(1) << c->shift ? groups - first : INT64_C(1) << c->shift;
  tsr__group_record_state here = { .groups = count }, *state = j->kept ? &here : &j->state[worker];
  /* Unlike the direct way it stops here: clusters are many, and all of them would be done again. */
  if (atomic_load(&j->failed) || atomic_load(&j->misled)) return;
  /* Kept records are those of all groups: a cluster's are a stretch of them. */
  if (j->kept) here.record = j->kept[part].record + (size_t)first * j->plan.stride;
  state_clear(j, state);
  /* Groups are counted from the cluster's first. */
  tsr__group_record_rows read = { .part = part,
                                  .count = c->border[k + 1] - c->border[k],
                                  .row = c->row + c->border[k],
                                  .group = c->group + c->border[k],
                                  .base = (uint32_t)first };
  if (!tsr__group_record_add(&j->plan, state, &read)) atomic_store(&j->misled, true);
  else if (state_failed(j, state)) atomic_store(&j->failed, true);
  else if (!j->kept) read_out(j, part, state, (tsr__read_to){ .first = first, .count = count });
}

static bool cluster_room(job *j, int64_t *groups)
{
  const tsr__parts *parts = j->ask->parts;
  tsr__heap *heap = &j->rt->heap;
  int64_t pieces = 0, first = 0;
  j->clusters = tsr__new(heap, (size_t)parts->count * sizeof *j->clusters);
  for (int p = 0; j->clusters && p < parts->count; p++) {
    cluster_part *c = &j->clusters[p];
    int64_t have = j->ask->groups->count[p], here = (parts->rows[p] + PIECE - 1) / PIECE;
    size_t rows = (size_t)parts->rows[p];
    /* At least 64 groups a cluster, so that validity of two clusters is never in one word. */
    c->shift = 6;
    /* Larger as long as twice as many still fit the cache, or as there would be too many clusters
     * for the counters on the stack. */
    while (state_bytes(j, INT64_C(2) << c->shift) <= (size_t)CLUSTER_BYTES ||
           (have - 1) >> c->shift >= MAX_CLUSTERS)
      c->shift++;
    c->count = (have + (INT64_C(1) << c->shift) - 1) >> c->shift;
    c->first_piece = pieces;
    c->first = first;
    pieces += here;
    first += c->count;
    if (INT64_C(1) << c->shift > *groups) *groups = INT64_C(1) << c->shift;
    c->row = tsr__loan(&j->loans, parts->device[p], rows * sizeof(uint32_t));
    c->group = tsr__loan(&j->loans, parts->device[p], rows * sizeof(uint32_t));
    c->start = tsr__loan(&j->loans, parts->device[p], (size_t)(here * c->count) * sizeof(uint32_t));
    c->border = tsr__loan(&j->loans, parts->device[p], (size_t)(c->count + 1) * sizeof(int64_t));
    if (!c->row || !c->group || !c->start || !c->border) return false;
  }
  return j->clusters != NULL;
}

static tsr_status aggregate_clusters(job *j)
{
  const tsr__parts *parts = j->ask->parts;
  int64_t groups = 0, clusters = 0;
  if (!cluster_room(j, &groups)) return no_aggregate_memory(j);
  int states = j->kept ? parts->count : j->workers;
  j->state = tsr__new(&j->rt->heap, (size_t)states * sizeof *j->state);
  if (!j->state) return no_aggregate_memory(j);
  j->state_count = states;
  /* Without keeping, a state a worker with room for a cluster's groups, on the first device; else
   * one a part. */
  for (int k = 0; k < states; k++) {
    int64_t count = j->kept ? j->ask->groups->count[k] : groups;
    if (!state_room(j, &j->state[k], parts->device[j->kept ? k : 0], count))
      return no_aggregate_memory(j);
    if (j->kept) j->kept[k] = j->state[k];
  }
  int64_t pieces = tsr__piece_count(parts, PIECE);
  tsr_status status = run_aggregate_tasks(j, pieces, count_clusters_task);
  if (status) return status;
  for (int p = 0; p < parts->count; p++) {
    place_clusters(&j->clusters[p], (parts->rows[p] + PIECE - 1) / PIECE);
    clusters += j->clusters[p].count;
  }
  status = run_aggregate_tasks(j, pieces, deal_clusters_task);
  return status ? status : run_aggregate_tasks(j, clusters, cluster_task);
}

/* ---- the two together ------------------------------------------------------------------------ */

/* A group of no rows (of no keys, or a part that owns groups without rows) has TSR__NO_ROW. */
static tsr_status gather_row_values(job *j, int a, const tsr__index *index)
{
  const tsr__aggregate_ask *ask = j->ask;
  tsr__gather gather = { .parts = ask->parts,
                         .index = index,
                         .from = &ask->columns[ask->aggs[a].column],
                         .may_miss = j->empty };
  int at = a * ask->parts->count;
  return tsr__gather_column(j->rt, &gather, j->values + at, j->valid + at, j->error);
}

static void drop_states(job *j)
{
  tsr__heap *heap = &j->rt->heap;
  for (int k = 0; k < j->state_count; k++) {
    tsr__group_record_state *state = &j->state[k];
    for (int i = 0; state->rows && i < j->plan.rows_count; i++) tsr__rows_free(&state->rows[i]);
    tsr__del(heap, state->rows, (size_t)(j->plan.rows_count + 1) * sizeof *state->rows);
  }
  tsr__del(heap, j->state, (size_t)j->state_count * sizeof *j->state);
  tsr__del(heap, j->clusters, (size_t)j->ask->parts->count * sizeof *j->clusters);
  tsr__loans_return(&j->loans);
  j->state = NULL;
  j->clusters = NULL;
  j->state_count = 0;
}

/* Reads the rows into records, and out of them unless they are kept. */
static tsr_status tally_rows(job *j)
{
  const tsr__aggregate_ask *ask = j->ask;
  int64_t most = 0;
  for (int p = 0; p < ask->parts->count; p++)
    most = ask->groups->count[p] > most ? ask->groups->count[p] : most;
  /* Nothing is kept of any group: all aggregates are looked up. */
  if (!j->plan.count && !j->kept) return TSR_OK;
  /* The part with most groups decides for all: one way a run. */
  bool direct = (int64_t)state_bytes(j, most) <= DIRECT_BYTES;
  return direct ? aggregate_direct(j) : aggregate_clusters(j);
}

/* Starts over after a look at all rows. Counts of nulls that were read out already would be
 * counted twice. */
static tsr_status plan_again(job *j)
{
  drop_states(j);
  atomic_store(&j->misled, false);
  for (int at = 0; at < j->ask->count * j->ask->parts->count; at++) atomic_store(&j->nulls[at], 0);
  return plan_records(j, true);
}

/* Aggregates that are looked up by row or need values in order. */
static tsr_status compute_from_rows(job *j)
{
  const tsr__aggregate_ask *ask = j->ask;
  tsr_status status = TSR_OK;
  for (int a = 0; a < ask->count && !status; a++) {
    int op = ask->aggs[a].op;
    tsr__ordered_agg one = { ask, a, j->values, j->valid };
    if (op == TSR__GROUP_FIRST) status = gather_row_values(j, a, &ask->groups->first);
    else if (op == TSR__GROUP_LAST) status = gather_row_values(j, a, &j->last);
    else if (op == TSR__GROUP_NUNIQUE) status = tsr__group_nunique(j->rt, &one, j->error);
    else if (op == TSR__GROUP_QUANTILE) status = tsr__group_quantile(j->rt, &one, j->error);
  }
  /* Validity is there before results are, and goes where no result was null. */
  if (!status) drop_valid(j);
  return status;
}

/* Looking at all rows costs a pass, so some are looked at first, and all only if that misled. */
static tsr_status aggregate_all(job *j)
{
  const tsr__aggregate_ask *ask = j->ask;
  tsr_status status = plan_new(j);
  bool last = false;
  if (!status) status = plan_records(j, false);
  for (int a = 0; a < ask->count; a++) last = last || ask->aggs[a].op == TSR__GROUP_LAST;
  if (!status) status = make_result_buffers(j);
  if (!status && last) {
    tsr__parts of = { ask->parts->count, ask->parts->device, ask->groups->count };
    status = tsr__index_new(j->rt, &of, &j->last, j->error);
  }
  if (!status) status = tally_rows(j);
  if (!status && atomic_load(&j->misled)) {
    status = plan_again(j);
    if (!status) status = tally_rows(j);
  }
  return status ? status : compute_from_rows(j);
}

static void aggregate_job_free(job *j)
{
  tsr__heap *heap = &j->rt->heap;
  size_t aggs = (size_t)j->ask->count, parts = (size_t)j->ask->parts->count;
  drop_states(j);
  tsr__del(heap, j->plan.item, (MOST_TALLIES * aggs + 1) * sizeof *j->plan.item);
  tsr__del(heap, j->plan.span, (size_t)(j->plan.column_count + 1) * sizeof *j->plan.span);
  tsr__del(heap, j->summed, (size_t)j->plan.column_count + 1);
  tsr__del(heap, j->reading, (aggs + 1) * sizeof *j->reading);
  tsr__del(heap, j->nulls, (aggs * parts + 1) * sizeof *j->nulls);
  tsr__index_free(j->rt, &j->last);
}

static void drop_results(job *j)
{
  for (int at = 0; at < j->ask->count * j->ask->parts->count; at++) {
    tsr__buffer_release(j->values[at]);
    tsr__buffer_release(j->valid[at]);
    j->values[at] = j->valid[at] = NULL;
  }
}

static void job_start(job *j, tsr_runtime *rt, const tsr__aggregate_ask *ask, tsr__error *error)
{
  *j = (job){ .rt = rt,
              .ask = ask,
              .error = error,
              .loans = { .rt = rt, .error = error },
              .workers = tsr__worker_count(rt) };
}

/* No buffer is made yet: a NULL needs no release. */
static void set_results(job *j, tsr__buffer **values, tsr__buffer **valid)
{
  size_t count = (size_t)j->ask->count * (size_t)j->ask->parts->count;
  j->values = values;
  j->valid = valid;
  memset(values, 0, count * sizeof *values);
  memset(valid, 0, count * sizeof *valid);
}

tsr_status tsr__aggregate_groups(tsr_runtime *rt, const tsr__aggregate_ask *ask,
                                 tsr__buffer **values, tsr__buffer **valid, tsr__error *error)
{
  job j;
  job_start(&j, rt, ask, error);
  set_results(&j, values, valid);
  tsr_status status = aggregate_all(&j);
  if (status) drop_results(&j);
  aggregate_job_free(&j);
  return status;
}

/* ---- records kept, to be joined with other parts' -------------------------------------------- */

struct tsr__group_records {
  job job;
  tsr__aggregate_ask ask; /* a copy: reading has groups of its own */
};

const tsr__aggregate_ask *tsr__group_records_ask(const tsr__group_records *records)
{
  return &records->ask;
}

tsr_runtime *tsr__group_records_rt(const tsr__group_records *records)
{
  return records->job.rt;
}

/* Whether records say all; last rows, quantiles and distinct values need the rows themselves, and
 * sums of floats far apart in size have parts beside the records. The plan knows the values' spans
 * and decides here; the caller has looked at the kinds only. */
static bool recorded(const job *j)
{
  for (int a = 0; a < j->ask->count; a++)
    if (needs_value_order(j->ask->aggs[a].op) || j->ask->aggs[a].op == TSR__GROUP_LAST)
      return false;
  return !j->plan.rows_count;
}

static void join_misled(void *into, const void *other, size_t size)
{
  (void)size;
  bool *to = into;
  *to = *to || *(const bool *)other;
}

/* Whether the look at some rows misled here, or in another process whose records are to be joined
 * with these. */
static tsr_status was_misled(job *j, bool *out)
{
  const tsr__agreeing *agree = j->ask->agree;
  *out = atomic_load(&j->misled);
  return agree ? agree->meet(agree->user, out, sizeof *out, join_misled, j->error) : TSR_OK;
}

tsr_status tsr__group_record_groups(tsr_runtime *rt, const tsr__aggregate_ask *ask,
                                    tsr__group_records **out, tsr__error *error)
{
  size_t parts = (size_t)ask->parts->count;
  tsr__group_records *t = tsr__new(&rt->heap, sizeof *t);
  *out = NULL;
  if (!t) return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for the aggregates", what);
  job *j = &t->job;
  /* The ask is copied: it is read again when records come out, with the groups of that time. */
  t->ask = *ask;
  job_start(j, rt, &t->ask, error);
  tsr_status status = plan_new(j);
  if (!status) status = plan_records(j, false);
  bool use = !status && recorded(j);
  if (use) j->kept = tsr__new(&rt->heap, parts * sizeof *j->kept);
  if (use) status = j->kept ? tally_rows(j) : no_aggregate_memory(j);
  bool misled = false;
  if (use && !status) status = was_misled(j, &misled);
  if (use && !status && misled) {
    /* A look at all rows may find that records cannot hold the sums. */
    status = plan_again(j);
    use = !status && recorded(j);
    if (use) status = tally_rows(j);
  }
  if (use && !status) *out = t;
  else tsr__tallied_free(t);
  return status;
}

void tsr__tallied_free(tsr__group_records *t)
{
  if (!t) return;
  tsr_runtime *rt = t->job.rt;
  tsr__del(&rt->heap, t->job.kept, (size_t)t->ask.parts->count * sizeof *t->job.kept);
  aggregate_job_free(&t->job);
  tsr__del(&rt->heap, t, sizeof *t);
}

int tsr__tallied_words(const tsr__group_records *t)
{
  return (int)(t->job.plan.stride / sizeof(uint64_t));
}

uint64_t *tsr__tallied_records(const tsr__group_records *t, int part)
{
  return (uint64_t *)(void *)t->job.kept[part].record;
}

void tsr__tallied_join(tsr__group_records *t, int part, const tsr__joining *from)
{
  tsr__group_record_join(&t->job.plan, t->job.kept[part].record, from);
}

static void kept_read_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  tsr__parts groups = { j->ask->parts->count, NULL, j->ask->groups->count };
  tsr__piece piece = tsr__piece_of(&groups, READ, task);
  read_out(j, piece.part, &j->kept[piece.part],
           (tsr__read_to){ .first = piece.start, .from = piece.start, .count = piece.count });
}

/* Groups at home may be others than those that the records were made of: their number is the
 * reader's. */
tsr_status tsr__tallied_read(tsr__group_records *t, const tsr__grouped *groups,
                             tsr__buffer **values, tsr__buffer **valid, tsr__error *error)
{
  job *j = &t->job;
  t->ask.groups = groups;
  j->error = error;
  set_results(j, values, valid);
  tsr__parts of = { t->ask.parts->count, NULL, groups->count };
  tsr_status status = make_result_buffers(j);
  if (!status) status = run_aggregate_tasks(j, tsr__piece_count(&of, READ), kept_read_task);
  if (!status) status = compute_from_rows(j);
  if (status) drop_results(j);
  return status;
}
