/* Reductions of a tile: into one element, run by run into elements of an array, or by group.
 *
 *   across   a run along a reduced dim goes into one element
 *   along    a run along a kept dim goes into neighbouring elements, one each
 *   scatter  each element goes where its group code says
 *
 * All ways of one class keep the same accumulators (partial.h), and all but products of floats are
 * exact, so how a domain was cut into runs cannot show. */
#include "kernel/tile/interp.h"

/* The part of a tile that one run covers. */
typedef struct run {
  const tsr__redinfo *info;
  tsr__reducing *red;
  const tsr__tiles *tiles;
  const void *x;        /* of bools: bits of the run */
  const uint64_t *mask; /* bits of the run, or NULL */
  int64_t element;      /* of the outputs: the first */
  int64_t n;
} run;

static bool taken(const uint64_t *mask, int64_t i)
{
  return !mask || (mask[i / 64] >> (i % 64) & 1);
}

/* How many elements of a bool run are true and taken. */
static int64_t count_true(const run *r)
{
  if (!r->x) return r->mask ? r->tiles->count(r->mask, NULL, r->n) : r->n;
  return r->tiles->count(r->x, r->mask, r->n);
}

/* ---- across ---------------------------------------------------------------------------------- */

/* Runs so short that setting up vectors would cost more than adding one by one. */
enum { SHORT_RUN = 12 };

static double float_at(const run *r, int64_t i)
{
  return r->info->dtype == TSR_F64 ? ((const double *)r->x)[i] : (double)((const float *)r->x)[i];
}

/* Adds the run to one element, or to one each. */
static void short_run(const run *r, bool each)
{
  tsr__rows *rows = r->red->to->rows;
  bool both = r->red->to->form == TSR__FORM_ROWS2;
  for (int64_t i = 0; i < r->n; i++) {
    if (!taken(r->mask, i)) continue;
    int64_t element = r->element + (each ? i : 0);
    double value = float_at(r, i);
    tsr__rows_add(&rows[0], element, value);
    if (both) tsr__rows_add_product(&rows[1], element, value, value);
  }
}

static void across_float(const run *r)
{
  const tsr__exact_ops *ops = r->tiles->exact;
  tsr__partial *to = r->red->to;
  tsr__grid *grid = &r->red->grid;
  bool wide = r->info->dtype == TSR_F64;
  int n = (int)r->n;
  if (to->form == TSR__FORM_ACC) {
    if (wide) ops->sum_f64(to->data, grid, r->x, n, r->mask);
    else ops->sum_f32(to->data, grid, r->x, n, r->mask);
  } else if (to->form == TSR__FORM_SPREAD) {
    if (wide) ops->spread_f64(to->data, grid, r->x, n, r->mask);
    else ops->spread_f32(to->data, grid, r->x, n, r->mask);
  } else if (n <= SHORT_RUN) {
    short_run(r, false);
  } else {
    bool both = to->form == TSR__FORM_ROWS2;
    tsr__rows_at at = { &to->rows[0], r->element, both ? &to->rows[1] : NULL };
    if (wide) (both ? ops->rows_spread_f64 : ops->rows_run_f64)(at, grid, r->x, n, r->mask);
    else (both ? ops->rows_spread_f32 : ops->rows_run_f32)(at, grid, r->x, n, r->mask);
  }
}

static void sum_u64(tsr__i128 *sum, const run *r)
{
  const uint64_t *x = r->x;
  tsr__u128 all = 0;
  for (int64_t i = 0; i < r->n; i++) all += taken(r->mask, i) ? x[i] : 0;
  *sum += (tsr__i128)all;
}

static void across_i128(const run *r)
{
  tsr__i128 *sum = (tsr__i128 *)r->red->to->data + r->element;
  if (r->info->dtype == TSR_BOOL) *sum += count_true(r);
  else if (r->info->dtype == TSR_I32) r->tiles->exact->sum_i32(sum, r->x, (int)r->n, r->mask);
  else if (r->info->dtype == TSR_U64) sum_u64(sum, r);
  else r->tiles->exact->sum_i64(sum, r->x, (int)r->n, r->mask);
}

static void across_prod(const run *r)
{
  if (r->info->dtype == TSR_F64) {
    double product = ((double *)r->red->to->data)[r->element];
    for (int64_t i = 0; i < r->n; i++)
      if (taken(r->mask, i)) product *= ((const double *)r->x)[i];
    ((double *)r->red->to->data)[r->element] = product;
    return;
  }
  uint64_t product = ((uint64_t *)r->red->to->data)[r->element];
  for (int64_t i = 0; i < r->n; i++)
    if (taken(r->mask, i)) product *= ((const uint64_t *)r->x)[i];
  ((uint64_t *)r->red->to->data)[r->element] = product;
}

static void across(const run *r)
{
  tsr__partial *to = r->red->to;
  int64_t *word = (int64_t *)to->data + r->element;
  switch (to->cls) {
  case TSR__ACC_SUM:
    if (to->form == TSR__FORM_I128) across_i128(r);
    else across_float(r);
    break;
  case TSR__ACC_SQUARES:
    if (to->form != TSR__FORM_ISPREAD) across_float(r);
    else if (r->info->dtype == TSR_I32)
      r->tiles->exact->spread_i32((tsr__int_spread *)to->data + r->element, r->x, (int)r->n,
                                  r->mask);
    else
      r->tiles->exact->spread_i64((tsr__int_spread *)to->data + r->element, r->x, (int)r->n,
                                  r->mask);
    break;
  case TSR__ACC_PROD: across_prod(r); break;
  case TSR__ACC_MIN:
  case TSR__ACC_MAX:
    r->tiles->extreme[r->info->dtype]((tsr__extreme){ word, true, to->cls == TSR__ACC_MAX }, r->x,
                                      r->n, r->mask);
    break;
  case TSR__ACC_ANY: *word |= count_true(r) > 0; break;
  case TSR__ACC_ALL:
    *word &= count_true(r) == (r->mask ? r->tiles->count(r->mask, NULL, r->n) : r->n);
    break;
  default: *word += count_true(r);
  }
}

/* ---- element by element: along and scatter --------------------------------------------------- */

/* Adds element i of the run to output `e`; floats' sums have their own ways. */
static void add_one(const run *r, int64_t e, int64_t i)
{
  tsr__partial *to = r->red->to;
  int64_t *word = (int64_t *)to->data + e;
  int dtype = r->info->dtype;
  int64_t whole = dtype == TSR_BOOL  ? r->x && taken(r->x, i)
                  : dtype == TSR_I32 ? ((const int32_t *)r->x)[i]
                  : dtype == TSR_I64 ? ((const int64_t *)r->x)[i]
                                     : 0;
  switch (to->form) {
  case TSR__FORM_I128:
    ((tsr__i128 *)to->data)[e] += dtype == TSR_U64 ? (tsr__i128)((const uint64_t *)r->x)[i] : whole;
    break;
  case TSR__FORM_ISPREAD: {
    tsr__int_spread *spread = (tsr__int_spread *)to->data + e;
    spread->sum += whole;
    tsr__isq_add(&spread->squares, whole);
    break;
  }
  case TSR__FORM_F64: ((double *)to->data)[e] *= ((const double *)r->x)[i]; break;
  default:
    if (to->cls == TSR__ACC_PROD) *word = (int64_t)((uint64_t)*word * (uint64_t)whole);
    else if (to->cls == TSR__ACC_ANY) *word |= whole;
    else if (to->cls == TSR__ACC_ALL) *word &= whole;
    else *word += r->x ? whole : 1; /* count */
  }
}

static void along_float(const run *r)
{
  const tsr__exact_ops *ops = r->tiles->exact;
  tsr__rows *rows = r->red->to->rows;
  bool wide = r->info->dtype == TSR_F64;
  if (r->n <= SHORT_RUN) {
    short_run(r, true);
    return;
  }
  if (wide) ops->rows_add_f64(&rows[0], r->element, r->x, r->n, r->mask);
  else ops->rows_add_f32(&rows[0], r->element, r->x, r->n, r->mask);
  if (r->red->to->form != TSR__FORM_ROWS2) return;
  if (wide) ops->rows_square_f64(&rows[1], r->element, r->x, r->n, r->mask);
  else ops->rows_square_f32(&rows[1], r->element, r->x, r->n, r->mask);
}

static void along(const run *r)
{
  tsr__partial *to = r->red->to;
  if (to->form == TSR__FORM_ROWS || to->form == TSR__FORM_ROWS2) {
    along_float(r);
  } else if (to->form == TSR__FORM_KEY) {
    r->tiles->extreme[r->info->dtype]((tsr__extreme){ (int64_t *)to->data + r->element, false,
                                                      to->cls == TSR__ACC_MAX },
                                      r->x, r->n, r->mask);
  } else {
    for (int64_t i = 0; i < r->n; i++)
      if (taken(r->mask, i)) add_one(r, r->element + i, i);
  }
}

/* A key for each element, straight from its value; see interp_tile.h. */
static int64_t key_at(const run *r, int64_t i, bool largest)
{
  double value;
  switch (r->info->dtype) {
  case TSR_I32: return ((const int32_t *)r->x)[i];
  case TSR_I64: return ((const int64_t *)r->x)[i];
  case TSR_F32: value = (double)((const float *)r->x)[i]; break;
  default: value = ((const double *)r->x)[i];
  }
  if (value != value) return largest ? TSR__KEY_NAN_MAX : TSR__KEY_NAN_MIN;
  return tsr__key_of_f64(value);
}

static void scatter_keys(const run *r, const int32_t *codes)
{
  int64_t *key = r->red->to->data;
  bool largest = r->red->to->cls == TSR__ACC_MAX;
  for (int64_t i = 0; i < r->n; i++) {
    if (codes[i] < 0) continue;
    int64_t now = key_at(r, i, largest), *best = key + codes[i];
    if (largest ? now > *best : now < *best) *best = now;
  }
}

static void scatter_counts(const run *r, const int32_t *codes)
{
  int64_t *count = r->red->to->data;
  for (int64_t i = 0; i < r->n; i++)
    if (codes[i] >= 0) count[codes[i]]++;
}

static void scatter_i64(const run *r, const int32_t *codes)
{
  tsr__i128 *sum = r->red->to->data;
  const int64_t *x = r->x;
  for (int64_t i = 0; i < r->n; i++)
    if (codes[i] >= 0) sum[codes[i]] += x[i];
}

/* Codes below 0 are left out, the mask's choice included. */
static void scatter(const run *r, const int32_t *codes)
{
  tsr__partial *to = r->red->to;
  if (to->form == TSR__FORM_ROWS || to->form == TSR__FORM_ROWS2) {
    for (int k = 0; k < (to->form == TSR__FORM_ROWS2 ? 2 : 1); k++) {
      tsr__scatter how = { .group = codes, .n = r->n, .squares = k == 1 };
      if (r->info->dtype == TSR_F64) tsr__rows_scatter_f64(&to->rows[k], r->x, &how);
      else tsr__rows_scatter_f32(&to->rows[k], r->x, &how);
    }
  } else if (to->form == TSR__FORM_KEY) {
    scatter_keys(r, codes);
  } else if (to->cls == TSR__ACC_COUNT && !r->x) {
    scatter_counts(r, codes);
  } else if (to->form == TSR__FORM_I128 && r->info->dtype == TSR_I64) {
    scatter_i64(r, codes);
  } else {
    for (int64_t i = 0; i < r->n; i++)
      if (codes[i] >= 0) add_one(r, codes[i], i);
  }
}

static bool in_group(const run *r, int32_t code, int64_t i)
{
  return (code >= 0) & (code < r->info->groups) & taken(r->mask, i);
}

/* Scatters the elements that count. Under a mask they are put side by side first, without a jump:
 * where it follows no pattern, every loop above would guess wrong at every other element. */
static void scatter_taken(run *r, const int32_t *codes, int32_t *room)
{
  uint16_t place[TSR__TILE];
  _Alignas(8) unsigned char values[TSR__TILE * 8];
  const char *x = r->x;
  int64_t count = 0, n = r->n;
  if (!r->mask || (x && r->info->dtype == TSR_BOOL)) {
    for (int64_t i = 0; i < n; i++) room[i] = in_group(r, codes[i], i) ? codes[i] : -1;
    scatter(r, room);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    room[count] = codes[i];
    place[count] = (uint16_t)i;
    count += in_group(r, codes[i], i);
  }
  if (x && tsr_dtype_size((tsr_dtype)r->info->dtype) == 8)
    for (int64_t k = 0; k < count; k++) memcpy(values + 8 * k, x + 8 * place[k], 8);
  else if (x)
    for (int64_t k = 0; k < count; k++) memcpy(values + 4 * k, x + 4 * place[k], 4);
  if (x) r->x = values;
  r->n = count;
  scatter(r, room);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* `n` bits from bit `at` on, moved to the start of `room` if they do not start a word. */
static const uint64_t *bits_from(const uint64_t *bits, int64_t at, int64_t n, uint64_t *room)
{
  if (!bits) return NULL;
  if (at % 64 == 0) return bits + at / 64;
  for (int64_t i = 0; i < n; i += 64)
    room[i / 64] = tsr__bits_get(bits, at + i, n - i < 64 ? (int)(n - i) : 64);
  return room;
}

void tsr__do_reduce(tsr__task *task, const tsr__inst *inst, int64_t at, int64_t n)
{
  const tsr__redinfo *info = &task->kernel->reds[inst->extra];
  tsr__reducing *red = &task->reds[inst->extra];
  const void *x = task->slot[info->value];
  const uint64_t *mask = task->slot[info->mask];
  run r = { .info = info, .red = red, .tiles = task->tiles, .x = x, .mask = mask, .n = n };
  if (info->codes >= 0) {
    scatter_taken(&r, task->slot[info->codes], task->codes);
    return;
  }
  const tsr__walk *walk = &red->walk;
  if (walk->rank == 1 && walk->step[0] == 0) {
    across(&r);
    return;
  }
  uint64_t x_room[TSR__TILE / 64], mask_room[TSR__TILE / 64];
  bool inner_kept = walk->step[walk->rank - 1] != 0, bits = info->dtype == TSR_BOOL;
  size_t size = tsr_dtype_size((tsr_dtype)info->dtype);
  for (int64_t i = 0; i < n; i += r.n) {
    r.element = tsr__walk_at(walk, at + i, &r.n);
    if (r.n > n - i) r.n = n - i;
    r.mask = bits_from(mask, i, r.n, mask_room);
    if (x)
      r.x = bits ? (const void *)bits_from(x, i, r.n, x_room) : (const char *)x + (size_t)i * size;
    if (inner_kept) along(&r);
    else across(&r);
  }
}
