#include "support/join_fixture.h"

#include "kernel/device/cpu.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- tables on the host ---- */

void host_new(host_table *table, int64_t rows, int count)
{
  memset(table, 0, sizeof *table);
  table->rows = rows;
  table->count = count;
  for (int c = 0; c < count; c++) {
    table->column[c].value = calloc((size_t)rows + 1, sizeof(int64_t));
    table->column[c].valid = malloc((size_t)rows + 1);
    memset(table->column[c].valid, true, (size_t)rows + 1);
  }
}

void host_free(host_table *table)
{
  for (int c = 0; c < table->count; c++) {
    free(table->column[c].value);
    free(table->column[c].valid);
  }
}

static int64_t random_value(test_rng *rng, tsr_dtype dtype, int64_t distinct)
{
  int64_t n = test_range(rng, 0, distinct - 1);
  bool odd = !test_range(rng, 0, 7);
  double number = odd ? (test_range(rng, 0, 1) ? NAN : -0.0) : (double)(n - distinct / 2) / 4;
  int64_t bits = 0;
  if (dtype == TSR_BOOL) return n & 1;
  if (!tsr__dtype_is_real(dtype))
    return tsr_dtype_size(dtype) == 8                          ? distinct % 2 ? n * 123456789123 : n
           : tsr__dtype_info_of(dtype)->kind == TSR__DTYPE_INT ? n - distinct / 2
                                                               : n;
  tsr__dtype_put_real(dtype, &bits, 0, number);
  return bits;
}

static int64_t corner_value(test_rng *rng, tsr_dtype dtype)
{
  const tsr__dtype_info *info = tsr__dtype_info_of(dtype);
  int64_t bits = 0, top = info->precision < 63 ? (INT64_C(1) << info->precision) - 1 : INT64_MAX;
  if (dtype == TSR_BOOL) return test_range(rng, 0, 1);
  if (info->kind != TSR__DTYPE_FLOAT) /* of u64 as bits */
    return test_corner(rng, info->kind == TSR__DTYPE_INT || info->bits == 64 ? -top - 1 : 0, top);
  tsr__dtype_put_real(dtype, &bits, 0, test_corner_f64(rng));
  return bits;
}

void host_fill(host_table *table, int column, test_rng *rng, int64_t distinct)
{
  host_column *c = &table->column[column];
  for (int64_t r = 0; r < table->rows; r++) {
    c->value[r] = c->corners ? corner_value(rng, c->dtype) : random_value(rng, c->dtype, distinct);
    c->valid[r] = !c->nullable || test_range(rng, 0, 5);
  }
}

/* ---- on devices and back ---- */

static void *dense(const host_column *column, int64_t rows, bool valid)
{
  char *out = malloc((size_t)rows * 8 + 1);
  size_t size = valid || column->dtype == TSR_BOOL ? 1 : tsr_dtype_size(column->dtype);
  for (int64_t r = 0; r < rows; r++) {
    if (valid) out[r] = column->valid[r];
    else memcpy(out + (size_t)r * size, &column->value[r], size);
  }
  return out;
}

static tsr__value *put(const host_column *column, bool valid, tsr_runtime *rt,
                       const tsr__layout *layout)
{
  tsr__error error = { .status = TSR_OK };
  tsr__value *value = tsr__value_new(rt, layout, &error);
  CHECK(value);
  void *data = dense(column, layout->shape->dims[0], valid);
  tsr__value_from_host(value, data);
  free(data);
  return value;
}

static void random_borders(const tsr_sharding *sharding, int64_t total, test_rng *rng,
                           int64_t *rows)
{
  int64_t parts = tsr__dim_parts(sharding, 0), left = total, part[64];
  for (int64_t i = 0; i < parts; i++) {
    part[i] = i + 1 == parts ? left : test_range(rng, 0, left);
    left -= part[i];
  }
  for (int p = 0; p < tsr__positions(sharding); p++) rows[p] = part[tsr__dim_index(sharding, 0, p)];
}

void host_put(const host_table *table, tsr_runtime *rt, const tsr_sharding *sharding,
              test_rng *ragged, tsr__rel *out)
{
  tsr__error error = { .status = TSR_OK };
  tsr_sharding at = tsr__sharding_canon(sharding);
  int64_t rows[64];
  tsr_shape shape = { 1, { table->rows } };
  CHECK_STATUS(tsr__rel_new(rt, &at, table->count, out, &error), TSR_OK, NULL);
  out->total = table->rows;
  if (ragged) random_borders(&at, table->rows, ragged, rows);
  for (int c = 0; c < table->count; c++) {
    const host_column *column = &table->column[c];
    tsr__layout layout = { column->dtype, &shape, &at, ragged ? rows : NULL };
    out->column[c].values = put(column, false, rt, &layout);
    layout.dtype = TSR_BOOL;
    if (column->nullable) out->column[c].valid = put(column, true, rt, &layout);
  }
}

/* `bits` NULL: all are set. */
static bool bit_at(const void *bits, int64_t row)
{
  return !bits || ((const uint64_t *)bits)[row / 64] >> (row % 64) & 1;
}

static int64_t value_at(const tsr__value *value, const void *data, int64_t row)
{
  if (value->dtype == TSR_BOOL) return bit_at(data, row);
  tsr_dtype dtype = (tsr_dtype)value->dtype;
  if (!tsr__dtype_is_real(dtype)) return tsr__dtype_get_whole(dtype, data, row);
  size_t size = tsr_dtype_size(dtype);
  int64_t bits = 0;
  memcpy(&bits, (const char *)data + (size_t)row * size, size);
  return bits;
}

void host_check(const host_table *expected, const tsr__rel *found)
{
  CHECK_I64(found->total, expected->rows);
  CHECK_I64(found->count, expected->count);
  for (int c = 0; c < expected->count; c++) {
    const host_column *column = &expected->column[c];
    const tsr__rel_column *got = &found->column[c];
    CHECK_I64(got->values->dtype, column->dtype);
    CHECK_I64(got->values->shape.dims[0], expected->rows);
    for (int p = 0; p < got->values->part_count; p++) {
      tsr_box box;
      tsr__value_box(got->values, p, &box);
      const void *data = tsr__value_map(got->values, p);
      if (!got->values->parts[p]) continue; /* another process looks at it */
      const void *there = got->valid ? tsr__value_map(got->valid, p) : NULL;
      for (int64_t i = 0; i < box.size[0]; i++) {
        int64_t row = box.start[0] + i;
        CHECK_I64(bit_at(there, i), column->valid[row]);
        if (column->valid[row]) CHECK_I64(value_at(got->values, data, i), column->value[row]);
      }
      tsr__value_unmap(got->values, p);
      if (there) tsr__value_unmap(got->valid, p);
    }
  }
}

/* ---- joins by the book ---- */

static bool same_float(double a, double b)
{
  return a == b || (isnan(a) && isnan(b));
}

static int64_t mapped(const tsr__rel_key *key, int64_t value)
{
  return key->map ? key->map[value] : value;
}

static bool same_key(const tsr__rel_join_ask *ask, int k, const host_column *a, int64_t i,
                     const host_column *b, int64_t j)
{
  if (!a->valid[i] || !b->valid[j]) return false;
  if (tsr__dtype_is_real(a->dtype))
    return same_float(tsr__dtype_get_real(a->dtype, &a->value[i], 0),
                      tsr__dtype_get_real(a->dtype, &b->value[j], 0));
  int64_t x = mapped(&ask->left_keys[k], a->value[i]), y = mapped(&ask->right_keys[k], b->value[j]);
  return x == y && (!ask->left_keys[k].map || x >= 0) && (!ask->right_keys[k].map || y >= 0);
}

/* Appends a row; right row -1: nulls. */
static void append(const tsr__rel_join_ask *ask, const host_table *left, int64_t i,
                   const host_table *right, int64_t j, host_table *out)
{
  for (int c = 0; c < out->count; c++) {
    bool of_left = c < left->count;
    const host_column *from =
        of_left ? &left->column[c] : &right->column[ask->take[c - left->count]];
    int64_t row = of_left ? i : j;
    out->column[c].value[out->rows] = row < 0 ? 0 : from->value[row];
    out->column[c].valid[out->rows] = row >= 0 && from->valid[row];
  }
  out->rows++;
}

void host_join(const tsr__rel_join_ask *ask, const host_table *left, const host_table *right,
               host_table *out, bool *repeats)
{
  bool pairs = ask->how == TSR__MATCH_INNER || ask->how == TSR__MATCH_LEFT;
  int columns = left->count + (pairs ? ask->take_count : 0);
  host_new(out, pairs ? left->rows * (right->rows + 1) : left->rows, columns);
  out->rows = 0;
  *repeats = false;
  for (int c = 0; c < columns; c++)
    out->column[c].dtype =
        c < left->count ? left->column[c].dtype : right->column[ask->take[c - left->count]].dtype;
  for (int64_t i = 0; i < left->rows; i++) {
    int64_t found = 0;
    for (int64_t j = 0; j < right->rows; j++) {
      bool same = true;
      for (int k = 0; k < ask->key_count && same; k++)
        same = same_key(ask, k, &left->column[ask->left_keys[k].column], i,
                        &right->column[ask->right_keys[k].column], j);
      if (same && pairs) append(ask, left, i, right, j, out);
      found += same;
    }
    *repeats = *repeats || found > 1;
    bool alone = ask->how == TSR__MATCH_LEFT || ask->how == TSR__MATCH_ANTI;
    if (found ? ask->how == TSR__MATCH_SEMI : alone) append(ask, left, i, right, -1, out);
  }
}

/* ---- what really moves ---- */

static tsr__device_ops counting;
static void (*real_copy)(const tsr__box_copy *, const tsr__buffer *, tsr__buffer *, tsr__traffic *);
static void (*real_pick)(const tsr__pick *, const tsr__buffer *, tsr__buffer *, tsr__traffic *);
static void (*real_disperse)(const tsr__disperse *, const tsr__buffer *, tsr__buffer *const *,
                             tsr__traffic *);
static _Atomic int64_t copied;

static int64_t bytes_of(tsr_dtype dtype, int64_t count)
{
  return dtype == TSR_BOOL ? (count + 7) / 8 : count * (int64_t)tsr_dtype_size(dtype);
}

static void counted_copy(const tsr__box_copy *copy, const tsr__buffer *from, tsr__buffer *to,
                         tsr__traffic *traffic)
{
  int64_t count = 1;
  for (int d = 0; d < copy->rank; d++) count *= copy->size[d];
  if (from->device != to->device) copied += bytes_of(copy->dtype, count);
  real_copy(copy, from, to, traffic);
}

static void counted_pick(const tsr__pick *pick, const tsr__buffer *from, tsr__buffer *to,
                         tsr__traffic *traffic)
{
  if (from->device != to->device) copied += bytes_of(pick->dtype, pick->count);
  real_pick(pick, from, to, traffic);
}

static void counted_disperse(const tsr__disperse *job, const tsr__buffer *from,
                             tsr__buffer *const *to, tsr__traffic *traffic)
{
  for (int p = 0; p < job->parts; p++)
    if (from->device != to[p]->device) copied += bytes_of(job->dtype, job->counts[p]);
  real_disperse(job, from, to, traffic);
}

void count_copies(tsr_runtime *rt)
{
  tsr__devices *devices = tsr__devices_of(rt);
  copied = 0;
  if (devices->ops == &counting) return;
  counting = *devices->ops;
  real_copy = counting.copy;
  counting.copy = counted_copy;
  real_pick = counting.pick;
  counting.pick = counted_pick;
  real_disperse = counting.disperse;
  counting.disperse = counted_disperse;
  devices->ops = &counting;
}

int64_t copied_bytes(void)
{
  return copied;
}
