/* Aggregates that need the values of a group beside each other or told apart.
 *
 *   rows      g0 g1 g0 g1 g1          dealt to groups, nulls left out
 *   keys     |g0 g0|g1 g1 g1|         a quantile is one of them, or lies between two
 *
 * A quantile is found by narrowing: the group's keys are counted into 256 equal stretches between
 * the smallest and the largest, and the stretch that holds the one looked for is the next range.
 * Only counts are kept, so groups of any size need no memory. Distinct values are groups of (group,
 * value). */
#include "kernel/rows/group_inner.h"
#include "kernel/tile/interp_tile.h"

enum { PIECE = 1 << 17, ASK_ROWS = 1 << 16, FEW = 48, STRETCHES = 256 };

#define SIGN (UINT64_C(1) << 63)
#define TASK_ROWS 65536

static const char what[] = "group by";

static tsr_status no_quantile_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for the quantiles; free arrays", what);
}

/* ---- one group ------------------------------------------------------------------------------- */

/* Whom to ask whether to go on. */
typedef struct asker {
  tsr__progress *progress;
  int worker;
} asker;

/* Passes over few keys are too short to ask for a stop. */
static bool quantile_stops(const asker *ask, int64_t n)
{
  return n >= ASK_ROWS && tsr__progress_stops(ask->progress, ask->worker);
}

/* Keys in [low, low + span]: how many lie below, and how many within. */
typedef struct range {
  uint64_t low, span;
  int64_t below, within;
} range;

/* The range of a group's keys. */
static range whole_range(const uint64_t *key, int64_t n)
{
  uint64_t low = UINT64_MAX, high = 0;
  for (int64_t i = 0; i < n; i++) {
    low = key[i] < low ? key[i] : low;
    high = key[i] > high ? key[i] : high;
  }
  return (range){ low, high - low, 0, n };
}

/* The stretch of a range that holds key number k.
 *
 *   keys of a range   . ..:. :...:: .     in 256 stretches of equal width, each counted
 *   key number k      ----------^          lies in one of them, which is the next range
 *
 * Each pass takes 8 bits of the span away, so at most eight are needed; nothing is moved, and a
 * group's keys are read as they lie. */
static range narrow_key_range(const uint64_t *key, int64_t n, range r, int64_t k)
{
  uint32_t count[STRETCHES + 1] = { 0 };
  /* Bits of the span below its top eight. */
  int shift = 56 - __builtin_clzll(r.span | 255);
  for (int64_t i = 0; i < n; i++) {
    /* Unsigned: keys below the range wrap to large numbers. */
    uint64_t up = key[i] - r.low;
    /* Keys outside the range go to one more counter instead of a branch. */
    count[up <= r.span ? up >> shift : STRETCHES]++;
  }
  int64_t below = r.below;
  int s = 0;
  /* The stretch in which the count passes k. */
  for (; below + count[s] <= k; s++) below += count[s];
  uint64_t first = (uint64_t)s << shift, last = first + ((UINT64_C(1) << shift) - 1);
  if (last > r.span) last = r.span;
  return (range){ r.low + first, last - first, below, count[s] };
}

/* Key number k of a range of few keys. */
static uint64_t pick_few(const uint64_t *key, int64_t n, range r, int64_t k)
{
  uint64_t few[FEW];
  int count = 0;
  for (int64_t i = 0; i < n; i++) {
    if (key[i] - r.low > r.span) continue;
    int at = count++;
    /* Inserted in order: there are few. */
    for (; at > 0 && few[at - 1] > key[i]; at--) few[at] = few[at - 1];
    few[at] = key[i];
  }
  return few[k - r.below];
}

/* The smallest key above `key`. */
static uint64_t next_above(const uint64_t *keys, int64_t n, uint64_t key)
{
  uint64_t next = UINT64_MAX;
  for (int64_t i = 0; i < n; i++)
    if (keys[i] > key && keys[i] < next) next = keys[i];
  return next;
}

/* Keys number k and k + 1 (the same where there is no other) in order. Asks between passes over
 * large groups whether to go on. */
static void pick_two_keys(const uint64_t *key, int64_t n, int64_t k, uint64_t out[2],
                          const asker *ask)
{
  range r = whole_range(key, n);
  /* A span of 0 is one value, however often it is there. */
  while (r.within > FEW && r.span && !quantile_stops(ask, n)) r = narrow_key_range(key, n, r, k);
  out[0] = out[1] = r.low;
  if (quantile_stops(ask, n)) return;
  if (r.span) out[0] = out[1] = pick_few(key, n, r, k);
  if (quantile_stops(ask, n)) return;
  int64_t up_to = 0;
  /* How many keys are not above it: those below and all equal ones. */
  for (int64_t i = 0; i < n; i++) up_to += key[i] <= out[0];
  /* Equal keys may go on after k; only if they end at k is the next key another. */
  if (k + 1 < n && up_to <= k + 1) out[1] = next_above(key, n, out[0]);
}

/* `part` of the way from a to b, both in order. */
static double value_between(double a, double b, double part)
{
  if (part == 0 || a == b) return a;
  /* Any part of the way from an infinity to a number is that infinity. */
  if (isinf(a) && !isnan(b) && !isinf(b)) return a;
  /* A median is the middle, rounded once where the sum does not overflow. */
  if (part == 0.5) return isinf(a + b) && !isinf(b) ? a / 2 + b / 2 : (a + b) / 2;
  double way = b - a;
  return isinf(way) && !isinf(b) ? a * (1 - part) + b * part : a + way * part;
}

/* ---- the job --------------------------------------------------------------------------------- */

typedef struct part {
  int64_t rows, groups;
  uint64_t *key;   /* by group */
  uint32_t *start; /* [slot][group]: place of the next key */
  int64_t *border; /* [group], and the end */
} part;

typedef struct job {
  tsr_runtime *rt;
  const tsr__ordered_agg *one;
  const tsr__colparts *column;
  tsr__loans loans;
  part *part;
  int slots;
  int64_t step; /* groups of a task that picks */
  tsr__progress progress;
  _Atomic int64_t nulls;
} job;

static bool has_real_column(const job *j)
{
  return tsr__dtype_is_real((tsr_dtype)j->column->dtype);
}

/* Keys are unsigned and in the order of values: signed numbers have the sign bit turned, NaN is
 * above all. */
static uint64_t key_of_row_value(const job *j, const void *data, int64_t row)
{
  double value;
  switch (j->column->dtype) {
  case TSR_BOOL: return (((const uint64_t *)data)[row / 64] >> (row % 64) & 1) ^ SIGN;
  case TSR_I32: return (uint64_t)(int64_t)((const int32_t *)data)[row] ^ SIGN;
  case TSR_I64: return ((const uint64_t *)data)[row] ^ SIGN;
  case TSR_U64: return ((const uint64_t *)data)[row];
  case TSR_F32: value = (double)((const float *)data)[row]; break;
  case TSR_F64: value = ((const double *)data)[row]; break;
  case TSR_F16:
  case TSR_BF16: value = tsr__dtype_get_real(j->column->dtype, data, row); break;
  default: return (uint64_t)tsr__dtype_get_whole(j->column->dtype, data, row) ^ SIGN;
  }
  return (uint64_t)(value != value ? INT64_MAX : tsr__key_of_f64(value)) ^ SIGN;
}

static double value_of_order_key(const job *j, uint64_t key)
{
  int64_t ordered = (int64_t)(key ^ SIGN);
  if (j->column->dtype == TSR_U64) return (double)key;
  if (!has_real_column(j)) return (double)ordered;
  return ordered == INT64_MAX ? (double)NAN : tsr__f64_of_key(ordered);
}

/* The rows of a slot. */
static tsr__piece slot_of(const job *j, int64_t task)
{
  int p = (int)(task / j->slots);
  int64_t s = task % j->slots, rows = j->part[p].rows;
  int64_t start = rows * s / j->slots;
  return (tsr__piece){ p, start, rows * (s + 1) / j->slots - start };
}

static const uint64_t *valid_of(const job *j, int p)
{
  return j->column->valid && j->column->valid[p] ? tsr__cpu_data(j->column->valid[p]) : NULL;
}

static void count_group_keys_task(void *user, int64_t task, int worker)
{
  job *j = user;
  tsr__piece rows = slot_of(j, task);
  part *at = &j->part[rows.part];
  const uint32_t *group = j->one->ask->groups->group[rows.part];
  const uint64_t *valid = valid_of(j, rows.part);
  /* Each slot counts for itself, so no counter is shared; place_group_keys_task turns counts into
   * places. */
  uint32_t *count = at->start + task % j->slots * at->groups;
  memset(count, 0, (size_t)at->groups * sizeof *count);
  for (int64_t r = rows.start; r < rows.start + rows.count; r++) {
    if (r % ASK_ROWS == 0 && tsr__progress_stops(&j->progress, worker)) return;
    if (!valid || (valid[r / 64] >> (r % 64) & 1)) count[group[r]]++;
  }
}

/* Serial in each part: counters are far fewer than rows. */
static void place_group_keys_task(void *user, int64_t task, int worker)
{
  (void)worker;
  job *j = user;
  part *at = &j->part[task];
  int64_t place = 0;
  for (int64_t g = 0; g < at->groups; g++) {
    at->border[g] = place;
    /* Slots of a group one after the other, so that keys of a group are together and in order of
     * rows. */
    for (int s = 0; s < j->slots; s++) {
      uint32_t *here = at->start + s * at->groups + g, count = *here;
      *here = (uint32_t)place;
      place += count;
    }
  }
  at->border[at->groups] = place;
}

static void deal_group_keys_task(void *user, int64_t task, int worker)
{
  job *j = user;
  tsr__piece rows = slot_of(j, task);
  part *at = &j->part[rows.part];
  const uint32_t *group = j->one->ask->groups->group[rows.part];
  const uint64_t *valid = valid_of(j, rows.part);
  const void *data = tsr__cpu_data(j->column->values[rows.part]);
  uint32_t *place = at->start + task % j->slots * at->groups;
  for (int64_t r = rows.start; r < rows.start + rows.count; r++) {
    if (r % ASK_ROWS == 0 && tsr__progress_stops(&j->progress, worker)) return;
    if (!valid || (valid[r / 64] >> (r % 64) & 1))
      at->key[place[group[r]]++] = key_of_row_value(j, data, r);
  }
}

/* Every quantile of the column that is asked for: aggregates from `agg` on. */
static bool same_column(const job *j, int a)
{
  const tsr__group_agg *agg = &j->one->ask->aggs[a];
  return agg->op == TSR__GROUP_QUANTILE && agg->column == j->one->ask->aggs[j->one->agg].column;
}

/* Aggregate `a` of group `g` of part `p`. */
static void pick_group(job *j, int p, int64_t g, int a, int worker)
{
  const tsr__aggregate_ask *ask = j->one->ask;
  const tsr__group_agg *agg = &ask->aggs[a];
  int at = a * ask->parts->count + p;
  const part *of = &j->part[p];
  const uint64_t *key = of->key + of->border[g];
  int64_t n = of->border[g + 1] - of->border[g];
  void *values = tsr__cpu_data(j->one->values[at]);
  double value = 0;
  if (n) {
    uint64_t *valid = tsr__cpu_data(j->one->valid[at]);
    /* As NumPy: a share of the way from the first to the last. */
    double place = agg->q * (double)(n - 1);
    int64_t k = (int64_t)place;
    if (k > n - 1) k = n - 1;
    uint64_t two[2];
    pick_two_keys(key, n, k, two, &(asker){ &j->progress, worker });
    value = value_between(value_of_order_key(j, two[0]), value_of_order_key(j, two[1]),
                          place - (double)k);
    /* Neighbouring groups may be picked by other tasks. */
    __atomic_fetch_or(&valid[g / 64], UINT64_C(1) << (g % 64), __ATOMIC_RELAXED);
  }
  /* A group without values has 0 under its null. */
  if (j->column->dtype == TSR_F32) ((float *)values)[g] = (float)value;
  else ((double *)values)[g] = value;
}

static void pick_task(void *user, int64_t task, int worker)
{
  job *j = user;
  const tsr__aggregate_ask *ask = j->one->ask;
  tsr__parts groups = { ask->parts->count, NULL, ask->groups->count };
  tsr__piece piece = tsr__piece_of(&groups, j->step, task);
  /* All quantiles of the column while the group's keys are in the cache. */
  for (int64_t g = piece.start; g < piece.start + piece.count; g++)
    for (int a = j->one->agg; a < ask->count; a++)
      if (same_column(j, a)) pick_group(j, piece.part, g, a, worker);
}

/* ---- room ------------------------------------------------------------------------------------ */

static bool make_quantile_buffers(job *j, int a, tsr__error *error)
{
  const tsr__aggregate_ask *ask = j->one->ask;
  tsr_dtype dtype = tsr__group_dtype(ask->aggs[a].op, j->column->dtype);
  for (int p = 0; p < ask->parts->count; p++) {
    int at = a * ask->parts->count + p, device = ask->parts->device[p];
    int64_t groups = ask->groups->count[p];
    size_t bits = tsr__device_bytes(TSR_BOOL, groups);
    j->one->values[at] = tsr__cpu_take(j->rt, device, tsr__device_bytes(dtype, groups), error);
    if (!j->one->values[at]) return false;
    if (ask->aggs[a].op == TSR__GROUP_NUNIQUE) continue;
    j->one->valid[at] = tsr__cpu_take(j->rt, device, bits, error);
    if (!j->one->valid[at]) return false;
    memset(tsr__cpu_data(j->one->valid[at]), 0, bits);
  }
  return true;
}

static bool make_key_buffers(job *j, tsr__error *error)
{
  const tsr__aggregate_ask *ask = j->one->ask;
  int64_t rows = 0, groups = 0;
  for (int p = 0; p < ask->parts->count; p++) {
    rows = ask->parts->rows[p] > rows ? ask->parts->rows[p] : rows;
    groups = ask->groups->count[p] > groups ? ask->groups->count[p] : groups;
  }
  j->slots = (tsr__worker_count(j->rt) + ask->parts->count - 1) / ask->parts->count;
  if (rows < PIECE) j->slots = 1;
  /* Counters of all slots must not be more than the rows they count. */
  while (j->slots > 1 && j->slots * groups > 2 * rows) j->slots--;
  /* Groups of about TASK_ROWS rows. */
  j->step = rows > TASK_ROWS ? groups * TASK_ROWS / rows : groups;
  if (j->step < 1) j->step = 1;
  j->part = tsr__new(&j->rt->heap, (size_t)ask->parts->count * sizeof *j->part);
  for (int p = 0; j->part && p < ask->parts->count; p++) {
    part *at = &j->part[p];
    int device = ask->parts->device[p];
    at->rows = ask->parts->rows[p];
    at->groups = ask->groups->count[p];
    at->key = tsr__loan(&j->loans, device, (size_t)at->rows * sizeof *at->key);
    at->start = tsr__loan(&j->loans, device, (size_t)(at->groups * j->slots) * sizeof *at->start);
    at->border = tsr__loan(&j->loans, device, (size_t)(at->groups + 1) * sizeof *at->border);
    if (!at->key || !at->start || !at->border) return false;
  }
  for (int a = j->one->agg; j->part && a < ask->count; a++)
    if (same_column(j, a) && !make_quantile_buffers(j, a, error)) return false;
  return j->part != NULL;
}

tsr_status tsr__group_quantile(tsr_runtime *rt, const tsr__ordered_agg *one, tsr__error *error)
{
  const tsr__aggregate_ask *ask = one->ask;
  if (one->values[one->agg * ask->parts->count]) return TSR_OK; /* came with an earlier one */
  job j = { .rt = rt,
            .one = one,
            .column = &ask->columns[ask->aggs[one->agg].column],
            .loans = { .rt = rt, .error = error },
            .progress = { .rt = rt, .what = what } };
  tsr_status status = make_key_buffers(&j, error) ? TSR_OK : no_quantile_memory(error);
  tsr__parts groups = { ask->parts->count, NULL, ask->groups->count };
  int64_t slots = (int64_t)ask->parts->count * j.slots;
  /* Each step needs the one before for all parts. */
  if (!status) {
    tsr__progress *progress = &j.progress;
    bool all = tsr__parallel_progress(progress, slots, count_group_keys_task, &j) &&
               tsr__parallel_progress(progress, ask->parts->count, place_group_keys_task, &j) &&
               tsr__parallel_progress(progress, slots, deal_group_keys_task, &j) &&
               tsr__parallel_progress(progress, tsr__piece_count(&groups, j.step), pick_task, &j);
    if (!all) status = tsr__cancelled(error, what);
  }
  tsr__loans_return(&j.loans);
  tsr__del(&rt->heap, j.part, (size_t)ask->parts->count * sizeof *j.part);
  return status;
}

/* ---- distinct values ------------------------------------------------------------------------- */

typedef struct distinct {
  const tsr__ordered_agg *one;
  const tsr__colparts *column;
  const tsr__grouped *pairs;
} distinct;

/* Each pair of group and value counts once, by its first row. */
static void distinct_task(void *user, int64_t task, int worker)
{
  (void)worker;
  const distinct *d = user;
  const tsr__aggregate_ask *ask = d->one->ask;
  tsr__parts pairs = { ask->parts->count, NULL, d->pairs->count };
  tsr__piece piece = tsr__piece_of(&pairs, PIECE, task);
  const uint32_t *first = d->pairs->first.at[piece.part] + piece.start;
  const uint32_t *group = ask->groups->group[piece.part];
  const tsr__buffer *valid = d->column->valid ? d->column->valid[piece.part] : NULL;
  const uint64_t *bits = valid ? tsr__cpu_data(valid) : NULL;
  int64_t *out = tsr__cpu_data(d->one->values[d->one->agg * ask->parts->count + piece.part]);
  for (int64_t i = 0; i < piece.count; i++) {
    uint32_t r = first[i];
    if (bits && !(bits[r / 64] >> (r % 64) & 1)) continue;
    /* Pairs of one group may be in several tasks; counting knows no order. */
    __atomic_fetch_add(&out[group[r]], 1, __ATOMIC_RELAXED);
  }
}

/* Numbers the pairs of group and value by grouping them again, the group as the first key. */
static tsr_status group_pairs(tsr_runtime *rt, const distinct *d, tsr__grouped *pairs,
                              tsr__error *error)
{
  const tsr__aggregate_ask *ask = d->one->ask;
  tsr__colparts columns[2] = { { .dtype = TSR_I32, .values = ask->groups->buffers }, *d->column };
  tsr__key keys[2] = { 0 };
  tsr__range_ask look = { ask->parts, columns, keys, 2 };
  tsr_status status = tsr__keys_range(rt, &look, error);
  if (status) return status;
  tsr__keys_settle(keys, 2, NULL);
  tsr__packed_keys packed;
  tsr__pack_ask pack = { ask->parts, columns, keys, 2, false };
  status = tsr__pack_keys(rt, &pack, &packed, error);
  if (status) return status;
  status = tsr__group_rows(rt, ask->parts, &packed, pairs, error);
  tsr__packed_free(rt, &packed);
  return status;
}

tsr_status tsr__group_nunique(tsr_runtime *rt, const tsr__ordered_agg *one, tsr__error *error)
{
  const tsr__aggregate_ask *ask = one->ask;
  tsr__grouped pairs = { 0 };
  distinct d = { one, &ask->columns[ask->aggs[one->agg].column], &pairs };
  job j = { .rt = rt, .one = one, .column = d.column };
  if (!make_quantile_buffers(&j, one->agg, error)) return no_quantile_memory(error);
  for (int p = 0; p < ask->parts->count; p++)
    memset(tsr__cpu_data(one->values[one->agg * ask->parts->count + p]), 0,
           (size_t)ask->groups->count[p] * sizeof(int64_t));
  tsr_status status = group_pairs(rt, &d, &pairs, error);
  if (status) return status;
  tsr__parts of = { ask->parts->count, NULL, pairs.count };
  if (!tsr__parallel_long(rt, what, tsr__piece_count(&of, PIECE), distinct_task, &d))
    status = tsr__cancelled(error, what);
  tsr__grouped_free(rt, &pairs);
  return status;
}
