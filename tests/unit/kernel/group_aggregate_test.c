/* Aggregates of groups against a naive evaluation, group by group, with the exact sums of the
 * oracle: every dtype, nulls, every way of keeping sums, few groups and many, several parts. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/naive_group.h"
#include "support/parts_fixture.h"

static bool real(tsr_dtype dtype)
{
  return tsr__dtype_is_real(dtype);
}

static bool bit(const void *bits, int64_t i)
{
  return ((const uint64_t *)bits)[i / 64] >> (i % 64) & 1;
}

static item item_at(tsr_dtype dtype, const void *data, int64_t r)
{
  if (dtype == TSR_BOOL) return (item){ 0, bit(data, r) };
  if (real(dtype)) return (item){ tsr__dtype_get_real(dtype, data, r), 0 };
  return (item){ 0, tsr__dtype_get_whole(dtype, data, r) };
}

/* Whether spreads of floats can be told by the oracle. */
static bool tellable;

/* ---- checking -------------------------------------------------------------------------------- */

typedef struct checked {
  parts_fixture *f;
  tsr__grouped groups;
} checked;

/* Groups of `distinct` numbers at random, each part for itself. */
static void make_groups(checked *c, test_rng *rng, int64_t distinct)
{
  parts_column keys;
  parts_column_new(c->f, TSR_I64, false, &keys);
  uint64_t *word[PARTS_MOST];
  int bits = 1;
  while (distinct > INT64_C(1) << bits) bits++;
  for (int p = 0; p < c->f->parts.count; p++) {
    word[p] = tsr__cpu_data(keys.values[p]);
    for (int64_t r = 0; r < c->f->rows[p]; r++)
      word[p][r] = (uint64_t)test_range(rng, 0, distinct - 1);
  }
  tsr__packed_keys packed = { .parts = c->f->parts.count, .words = 1, .bits = bits, .word = word };
  CHECK_I64(tsr__group_rows(c->f->rt, &c->f->parts, &packed, &c->groups, &c->f->error), TSR_OK);
  parts_column_free(&keys);
}

static const char *const names[] = {
  "count", "sum", "mean",  "var",  "std",      "min",     "max",
  "any",   "all", "first", "last", "quantile", "nunique", "corr"
};

/* The rows of a part by group. */
typedef struct grouped_rows {
  int64_t *row, *start;
} grouped_rows;

static grouped_rows rows_by_group(const checked *c, int p)
{
  int64_t rows = c->f->rows[p], groups = c->groups.count[p];
  grouped_rows out = { calloc((size_t)rows + 1, sizeof(int64_t)),
                       calloc((size_t)groups + 2, sizeof(int64_t)) };
  for (int64_t r = 0; r < rows; r++) out.start[c->groups.group[p][r] + 2]++;
  for (int64_t g = 1; g <= groups; g++) out.start[g + 1] += out.start[g];
  for (int64_t r = 0; r < rows; r++) out.row[out.start[c->groups.group[p][r] + 1]++] = r;
  return out;
}

static void check_agg(const checked *c, const parts_column *columns, const tsr__group_agg *agg,
                      int p, tsr__buffer *const found[2])
{
  const parts_column *column = &columns[agg->column < 0 ? 0 : agg->column];
  const parts_column *other = &columns[agg->other];
  tsr_dtype from = agg->column < 0 ? TSR_I64 : column->parts.dtype;
  tsr_dtype dtype = tsr__group_dtype(agg->op, from);
  grouped_rows by = rows_by_group(c, p);
  item *items = calloc((size_t)c->f->rows[p] + 1, sizeof *items);
  item *others = calloc((size_t)c->f->rows[p] + 1, sizeof *others);
  bool *nulls = calloc((size_t)c->f->rows[p] + 1, 1);
  for (int64_t g = 0; g < c->groups.count[p]; g++) {
    int64_t count = by.start[g + 1] - by.start[g];
    for (int64_t k = 0; k < count; k++) {
      int64_t row = by.row[by.start[g] + k];
      items[k] = item_at(column->parts.dtype, tsr__cpu_data(column->values[p]), row);
      others[k] = item_at(other->parts.dtype, tsr__cpu_data(other->values[p]), row);
      nulls[k] = column->valid[p] && !bit(tsr__cpu_data(column->valid[p]), row);
    }
    group_items of = { from, items, nulls, count, tellable };
    group_items with = { other->parts.dtype, others, nulls, count, tellable };
    expected e = agg->op == TSR__GROUP_CORR ? naive_corr(&of, &with) : naive_aggregate(&of, agg);
    bool null = found[1] && !bit(tsr__cpu_data(found[1]), g);
    if (null != e.null) FAIL("%s, group %lld: null %d", names[agg->op], (long long)g, null);
    if (null) continue;
    item x = item_at(dtype, tsr__cpu_data(found[0]), g);
    if (!naive_same(agg->op, dtype, x, &e))
      FAIL("%s, group %lld: %.17g or %lld, expected %.17g or %lld", names[agg->op], (long long)g,
           x.f, (long long)x.i, e.value.f, (long long)e.value.i);
  }
  free(items);
  free(others);
  free(nulls);
  free(by.row);
  free(by.start);
}

enum { MOST_AGGS = 80 };

static void check_aggs(checked *c, const parts_column *columns, int column_count,
                       const tsr__group_agg *aggs, int count)
{
  tsr__colparts colparts[8];
  tsr__buffer *values[MOST_AGGS * PARTS_MOST], *valid[MOST_AGGS * PARTS_MOST];
  CHECK(count <= MOST_AGGS);
  for (int k = 0; k < column_count; k++) {
    colparts[k] = columns[k].parts;
    colparts[k].values = columns[k].values;
    colparts[k].valid = columns[k].valid;
  }
  tsr__aggregate_ask ask = { &c->f->parts, &c->groups, colparts, aggs, count, NULL };
  tsr_status status = tsr__aggregate_groups(c->f->rt, &ask, values, valid, &c->f->error);
  if (status) FAIL("%s: %s", tsr_status_name(status), c->f->error.text);
  for (int a = 0; a < count; a++) {
    for (int p = 0; p < c->f->parts.count; p++)
      check_agg(c, columns, &aggs[a], p,
                (tsr__buffer *[2]){ values[a * c->f->parts.count + p],
                                    valid[a * c->f->parts.count + p] });
  }
  for (int at = 0; at < count * c->f->parts.count; at++) {
    tsr__buffer_release(values[at]);
    tsr__buffer_release(valid[at]);
  }
}

/* All aggregates of a column; var and std where they can be told. */
static int all_aggs(int column, bool spreads, tsr__group_agg *out)
{
  int n = 0;
  for (int op = TSR__GROUP_COUNT; op <= TSR__GROUP_NUNIQUE; op++) {
    bool spread = op == TSR__GROUP_VAR || op == TSR__GROUP_STD;
    if (spread && !spreads) continue;
    out[n++] = (tsr__group_agg){ .op = (uint8_t)op, .column = column, .q = 0.5 };
  }
  out[n++] = (tsr__group_agg){ .op = TSR__GROUP_QUANTILE, .column = column, .q = 0.9 };
  out[n++] = (tsr__group_agg){ .op = TSR__GROUP_QUANTILE, .column = column, .q = 0 };
  return n;
}

static void set_float(parts_column *column, int p, int64_t r, double x)
{
  tsr__dtype_put_real(column->parts.dtype, tsr__cpu_data(column->values[p]), r, x);
}

enum kinds { PLAIN, SPECIAL, MILD, WILD, KINDS };

/* PLAIN: multiples of 1/1024, no more than 30 bits; SPECIAL: NaN, infinities and -0 too; MILD: some
 * 20 binades of 53 bits; WILD: all. */
static void fill_floats(parts_fixture *f, test_rng *rng, parts_column *column, int kind)
{
  static const double odd[] = { NAN, INFINITY, -INFINITY, -0.0, 0.0 };
  for (int p = 0; p < f->parts.count; p++)
    for (int64_t r = 0; r < f->rows[p]; r++) {
      double x = (double)test_range(rng, -1000000, 1000000) / 1024;
      if (kind == SPECIAL && !test_range(rng, 0, 20)) x = odd[test_range(rng, 0, 4)];
      if (kind == MILD) x = ldexp(test_uniform(rng) - 0.5, (int)test_range(rng, -10, 10));
      if (kind == WILD) x = test_range(rng, 0, 3) ? test_any_f64(rng) : odd[test_range(rng, 0, 4)];
      if (kind == WILD && column->parts.dtype != TSR_F64) x = fmod(x, 1e38);
      set_float(column, p, r, x);
    }
}

static void fill(checked *c, test_rng *rng, parts_column *column, int kind)
{
  for (int p = 0; p < c->f->parts.count; p++)
    parts_column_fill(c->f, rng, column, p, kind == WILD ? INT64_C(1) << 45 : 100);
  /* Of all bits of u64 no two sum to a u64. */
  for (int p = 0; column->parts.dtype == TSR_U64 && p < c->f->parts.count; p++)
    for (int64_t r = 0; r < c->f->rows[p]; r++)
      ((int64_t *)tsr__cpu_data(column->values[p]))[r] &=
          (INT64_C(1) << (kind == WILD ? 45 : 7)) - 1;
  if (real(column->parts.dtype)) fill_floats(c->f, rng, column, kind);
}

static void check_column(checked *c, test_rng *rng, tsr_dtype dtype, bool nulls, int kind)
{
  parts_column column;
  tsr__group_agg aggs[MOST_AGGS];
  parts_column_new(c->f, dtype, nulls, &column);
  fill(c, rng, &column, kind);
  bool spreads = real(dtype) || kind != WILD;
  tellable = kind == PLAIN || kind == SPECIAL;
  int n = all_aggs(0, spreads, aggs);
  aggs[n++] = (tsr__group_agg){ .op = TSR__GROUP_COUNT, .column = -1 };
  check_aggs(c, &column, 1, aggs, n);
  parts_column_free(&column);
}

/* Correlations of two columns with the same nulls, each with itself, and of one with a sum. */
static void check_pairs(checked *c, test_rng *rng, const tsr_dtype dtype[2], const int kind[2])
{
  parts_column column[2];
  bool nulls = test_range(rng, 0, 1);
  for (int k = 0; k < 2; k++) {
    parts_column_new(c->f, dtype[k], nulls, &column[k]);
    fill(c, rng, &column[k], kind[k]);
  }
  /* Beside floats integers may have all their bits: they are not added up by themselves. */
  bool wide = real(dtype[0]) != real(dtype[1]) && kind[0] == WILD;
  for (int p = 0; p < c->f->parts.count && wide; p++)
    for (int64_t r = 0; r < c->f->rows[p]; r++)
      ((uint64_t *)tsr__cpu_data(column[0].values[p]))[r] = test_random(rng);
  for (int p = 0; p < c->f->parts.count && nulls; p++)
    memcpy(tsr__cpu_data(column[1].valid[p]), tsr__cpu_data(column[0].valid[p]),
           (size_t)(c->f->rows[p] + 63) / 64 * 8);
  tsr__group_agg aggs[] = { { .op = TSR__GROUP_CORR, .other = 1 },
                            { .op = TSR__GROUP_CORR, .column = 1 },
                            { .op = TSR__GROUP_CORR },
                            { .op = TSR__GROUP_SUM, .column = 1 },
                            { .op = TSR__GROUP_MEAN } };
  tellable = kind[0] <= SPECIAL && kind[1] <= SPECIAL;
  int count = kind[1] == WILD && !real(dtype[1]) ? 3 : 5;
  check_aggs(c, column, 2, aggs, wide ? 2 : count);
  for (int k = 0; k < 2; k++) parts_column_free(&column[k]);
}

TEST_TIMEOUT(correlations_of_every_kind, 120)
{
  static const tsr_dtype pairs[][2] = { { TSR_I64, TSR_I64 }, { TSR_I32, TSR_BOOL },
                                        { TSR_I64, TSR_I32 }, { TSR_F64, TSR_F64 },
                                        { TSR_U64, TSR_U64 }, { TSR_U8, TSR_I16 },
                                        { TSR_I64, TSR_F64 }, { TSR_U64, TSR_F64 } };
  enum { PAIRS = 8 };
  int64_t rows[3] = { 3000, 0, 40 };
  for (int k = 0; k < PAIRS * KINDS * KINDS; k++) {
    parts_fixture f;
    test_rng rng = test_seeded((uint64_t)k);
    int kind[2] = { k / PAIRS % KINDS, k / PAIRS / KINDS };
    parts_open(&f, 3, NULL);
    parts_set(&f, rows);
    checked c = { .f = &f };
    make_groups(&c, &rng, k % 7 ? 30 : 1500);
    check_pairs(&c, &rng, pairs[k % PAIRS], kind);
    tsr__grouped_free(f.rt, &c.groups);
    parts_close(&f);
  }
}

static void check_shape(int parts, const int64_t *rows, int64_t distinct, uint64_t seed)
{
  parts_fixture f;
  tsr_runtime_opts opts = { .size = sizeof opts, .threads = (int)(seed % 3) + 1 };
  test_rng rng = test_seeded(seed);
  parts_open(&f, parts, &opts);
  parts_set(&f, rows);
  checked c = { .f = &f };
  make_groups(&c, &rng, distinct);
  TSR__FOR_DTYPES(dtype)
  for (int kind = 0; kind < KINDS; kind++)
    check_column(&c, &rng, (tsr_dtype)dtype, (seed + (uint64_t)kind) % 2, kind);
  tsr__grouped_free(f.rt, &c.groups);
  parts_close(&f);
}

TEST_TIMEOUT(few_rows_of_every_kind, 120)
{
  static const int64_t rows[] = { 1, 2, 63, 64, 65, 500, 3000 };
  for (int k = 0; k < 7; k++) {
    check_shape(1, &rows[k], 1, (uint64_t)k + 1);
    check_shape(1, &rows[k], 7, (uint64_t)k + 2);
    check_shape(1, &rows[k], 2000, (uint64_t)k + 3);
  }
}

TEST_TIMEOUT(several_parts, 120)
{
  static const int64_t rows[] = { 700, 0, 1, 3000, 64, 5, 0, 900 };
  check_shape(8, rows, 5, 1);
  check_shape(8, rows, 300, 2);
  check_shape(2, rows, 100, 3);
}

/* Records of all groups do not fit a worker's share: rows are dealt into clusters. */
TEST_TIMEOUT(many_groups_are_read_cluster_by_cluster, 120)
{
  int64_t rows[2] = { 260000, 30000 };
  parts_fixture f;
  test_rng rng = test_seeded(9);
  parts_open(&f, 2, NULL);
  parts_set(&f, rows);
  checked c = { .f = &f };
  make_groups(&c, &rng, 250000);
  check_column(&c, &rng, TSR_F64, true, PLAIN);
  if (!test_quick()) check_column(&c, &rng, TSR_F64, false, WILD);
  check_column(&c, &rng, TSR_I32, true, PLAIN);
  tsr__grouped_free(f.rt, &c.groups);
  parts_close(&f);
}

TEST_TIMEOUT(many_rows_of_few_groups_are_shared_by_workers, 120)
{
  int64_t rows = 600000;
  parts_fixture f;
  tsr_runtime_opts opts = { .size = sizeof opts, .threads = 2 };
  test_rng rng = test_seeded(10);
  parts_open(&f, 1, &opts);
  parts_set(&f, &rows);
  checked c = { .f = &f };
  make_groups(&c, &rng, 40);
  check_column(&c, &rng, TSR_F64, false, PLAIN);
  if (!test_quick()) check_column(&c, &rng, TSR_F32, true, WILD);
  if (!test_quick()) check_column(&c, &rng, TSR_I64, false, PLAIN);
  tsr__grouped_free(f.rt, &c.groups);
  parts_close(&f);
}

/* The span of a column is told by some rows of it. Here the last ones are unlike them. */
TEST_TIMEOUT(a_column_unlike_its_first_rows, 120)
{
  static const double odd[] = { NAN,      -0.0,    INFINITY, 0x1p-1060, 0x1p60,
                                -0x1p-40, 0x1p400, -0x1p30,  0x1p-20 };
  static const int64_t sizes[] = { INT64_C(1) << 30, INT64_C(1) << 60, -(INT64_C(1) << 60),
                                   INT64_MIN / 2 };
  int64_t rows[2] = { 4000, 1500 };
  for (int k = 0; k < 9; k++) {
    parts_fixture f;
    test_rng rng = test_seeded((uint64_t)k);
    parts_open(&f, 2, NULL);
    parts_set(&f, rows);
    checked c = { .f = &f };
    make_groups(&c, &rng, k % 3 ? 40 : 3000);
    parts_column column;
    parts_column_new(&f, TSR_F64, k % 2, &column);
    for (int p = 0; p < 2; p++) parts_column_fill(&f, &rng, &column, p, 100);
    fill_floats(&f, &rng, &column, PLAIN);
    for (int64_t r = 3990; r < 4000; r++) set_float(&column, 0, r, odd[k]);
    tsr__group_agg aggs[MOST_AGGS];
    tellable = false;
    check_aggs(&c, &column, 1, aggs, all_aggs(0, true, aggs));
    parts_column_free(&column);
    if (k < 4) {
      parts_column_new(&f, TSR_I64, k % 2, &column);
      for (int p = 0; p < 2; p++) parts_column_fill(&f, &rng, &column, p, 100);
      ((int64_t *)tsr__cpu_data(column.values[0]))[3999] = sizes[k];
      check_aggs(&c, &column, 1, aggs, all_aggs(0, true, aggs));
      parts_column_free(&column);
    }
    tsr__grouped_free(f.rt, &c.groups);
    parts_close(&f);
  }
}

TEST(text_has_the_order_of_its_ranks)
{
  static const int32_t rank[6] = { 3, 5, 0, 1, 4, 2 };
  int64_t rows = 1000;
  parts_fixture f;
  test_rng rng = test_seeded(4);
  parts_open(&f, 1, NULL);
  parts_set(&f, &rows);
  checked c = { .f = &f };
  make_groups(&c, &rng, 200);
  for (int nulls = 0; nulls < 2; nulls++) {
    parts_column codes;
    parts_column_new(&f, TSR_I32, nulls, &codes);
    parts_column_fill(&f, &rng, &codes, 0, 1);
    for (int64_t r = 0; r < rows; r++)
      ((int32_t *)tsr__cpu_data(codes.values[0]))[r] = (int32_t)test_range(&rng, 0, 5);
    tsr__group_agg aggs[2] = { { .op = TSR__GROUP_MIN, .map = rank, .map_count = 6 },
                               { .op = TSR__GROUP_MAX, .map = rank, .map_count = 6 } };
    check_aggs(&c, &codes, 1, aggs, 2);
    parts_column_free(&codes);
  }
  tsr__grouped_free(f.rt, &c.groups);
  parts_close(&f);
}

/* One group of no rows, as no keys give. */
TEST(a_group_of_no_rows)
{
  int64_t none = 0, one = 1;
  parts_fixture f;
  parts_open(&f, 1, NULL);
  parts_set(&f, &none);
  checked c = { .f = &f };
  test_rng rng = test_seeded(4);
  make_groups(&c, &rng, 1);
  tsr__index_free(f.rt, &c.groups.first);
  tsr__parts single = { 1, f.device, &one };
  CHECK_I64(tsr__index_new(f.rt, &single, &c.groups.first, &f.error), TSR_OK);
  c.groups.first.at[0][0] = TSR__NO_ROW;
  c.groups.count[0] = 1;
  check_column(&c, &rng, TSR_F64, false, PLAIN);
  check_column(&c, &rng, TSR_I32, true, PLAIN);
  check_column(&c, &rng, TSR_BOOL, false, PLAIN);
  tsr__grouped_free(f.rt, &c.groups);
  parts_close(&f);
}

static tsr_status sum_as(parts_fixture *f, tsr_dtype dtype, const void *x, int64_t rows,
                         int64_t *out)
{
  parts_set(f, &rows);
  checked c = { .f = f };
  test_rng rng = test_seeded(1);
  make_groups(&c, &rng, 1);
  parts_column column;
  parts_column_new(f, dtype, false, &column);
  memcpy(tsr__cpu_data(column.values[0]), x, (size_t)rows * tsr_dtype_size(dtype));
  tsr__group_agg agg = { .op = TSR__GROUP_SUM };
  tsr__aggregate_ask ask = { &f->parts, &c.groups, &column.parts, &agg, 1, NULL };
  tsr__buffer *values, *valid;
  tsr_status status = tsr__aggregate_groups(f->rt, &ask, &values, &valid, &f->error);
  if (!status) *out = *(int64_t *)tsr__cpu_data(values);
  tsr__buffer_release(status ? NULL : values);
  parts_column_free(&column);
  tsr__grouped_free(f->rt, &c.groups);
  return status;
}

static tsr_status sum_of(parts_fixture *f, const int64_t *x, int64_t rows, int64_t *out)
{
  return sum_as(f, TSR_I64, x, rows, out);
}

TEST(sums_of_naturals_use_all_64_bits_and_no_more)
{
  int64_t sum = 0;
  parts_fixture f;
  parts_open(&f, 1, NULL);
  uint64_t half = UINT64_C(1) << 63;
  CHECK_I64(sum_as(&f, TSR_U64, (uint64_t[]){ half, half - 1 }, 2, &sum), TSR_OK);
  CHECK_U64((uint64_t)sum, UINT64_MAX);
  CHECK_I64(sum_as(&f, TSR_U8, (uint8_t[]){ 255, 255, 255 }, 3, &sum), TSR_OK);
  CHECK_I64(sum, 765);
  CHECK_I64(sum_as(&f, TSR_I8, (int8_t[]){ -128, -128 }, 2, &sum), TSR_OK);
  CHECK_I64(sum, -256);
  CHECK_I64(sum_as(&f, TSR_U64, (uint64_t[]){ half, half }, 2, &sum), TSR_EVALUE);
  CHECK_STR_HAS(f.error.text, "does not fit u64");
  parts_close(&f);
}

TEST(sums_of_integers_use_all_64_bits_and_no_more)
{
  int64_t sum = 0;
  parts_fixture f;
  parts_open(&f, 1, NULL);
  CHECK_I64(sum_of(&f, (int64_t[]){ INT64_MAX, 1, -1 }, 3, &sum), TSR_OK);
  CHECK_I64(sum, INT64_MAX);
  CHECK_I64(sum_of(&f, (int64_t[]){ INT64_MIN, INT64_MIN, INT64_MAX, 1 }, 4, &sum), TSR_OK);
  CHECK_I64(sum, INT64_MIN);
  CHECK_I64(sum_of(&f, (int64_t[]){ INT64_MAX, 1 }, 2, &sum), TSR_EVALUE);
  CHECK_STR_HAS(f.error.text, "does not fit i64");
  CHECK_I64(tsr_device_memory(f.rt, 0).now, 0);
  parts_close(&f);
}

/* Values of u64 that no i64 holds, among small ones: what of them can be told without a sum. */
TEST(naturals_beyond_i64)
{
  static const uint64_t far[] = {
    UINT64_MAX, UINT64_C(1) << 63, UINT64_MAX - 1, (UINT64_C(1) << 63) - 1, 0, 7
  };
  int64_t rows[2] = { 3000, 40 };
  for (int k = 0; k < 3; k++) {
    parts_fixture f;
    test_rng rng = test_seeded((uint64_t)k);
    parts_open(&f, 2, NULL);
    parts_set(&f, rows);
    checked c = { .f = &f };
    make_groups(&c, &rng, k ? 400 : 7);
    parts_column column;
    parts_column_new(&f, TSR_U64, k % 2, &column);
    for (int p = 0; p < 2; p++) {
      parts_column_fill(&f, &rng, &column, p, 3);
      for (int64_t r = k == 2 ? rows[p] - 9 : 0; r < rows[p]; r++)
        ((uint64_t *)tsr__cpu_data(column.values[p]))[r] = far[test_range(&rng, 0, 5)];
    }
    tsr__group_agg aggs[MOST_AGGS], some[MOST_AGGS];
    int n = all_aggs(0, false, aggs), count = 0;
    for (int a = 0; a < n; a++)
      if (aggs[a].op != TSR__GROUP_SUM) some[count++] = aggs[a];
    check_aggs(&c, &column, 1, some, count);
    parts_column_free(&column);
    tsr__grouped_free(f.rt, &c.groups);
    parts_close(&f);
  }
}

/* x and 0 have the variance x^2 / 2; x is 2^64 - 1. */
TEST(the_spread_of_naturals_beyond_i64)
{
  static const uint8_t ops[] = { TSR__GROUP_SUM, TSR__GROUP_VAR, TSR__GROUP_STD };
  static const double spread[] = { 0, 0x1p127, 13043817825332782212.0 };
  int64_t rows = 2;
  parts_fixture f;
  parts_open(&f, 1, NULL);
  parts_set(&f, &rows);
  checked c = { .f = &f };
  test_rng rng = test_seeded(1);
  make_groups(&c, &rng, 1);
  parts_column column;
  parts_column_new(&f, TSR_U64, false, &column);
  memcpy(tsr__cpu_data(column.values[0]), (uint64_t[]){ UINT64_MAX, 0 }, 16);
  tsr__group_agg agg[3];
  tsr__buffer *values[3], *valid[3];
  for (int k = 0; k < 3; k++) agg[k] = (tsr__group_agg){ .op = ops[k] };
  tsr__aggregate_ask ask = { &f.parts, &c.groups, &column.parts, agg, 3, NULL };
  CHECK_I64(tsr__aggregate_groups(f.rt, &ask, values, valid, &f.error), TSR_OK);
  CHECK_U64(*(uint64_t *)tsr__cpu_data(values[0]), UINT64_MAX);
  for (int k = 1; k < 3; k++) CHECK_F64_BITS(*(double *)tsr__cpu_data(values[k]), spread[k]);
  for (int k = 0; k < 3; k++) {
    tsr__buffer_release(values[k]);
    tsr__buffer_release(valid[k]);
  }
  parts_column_free(&column);
  tsr__grouped_free(f.rt, &c.groups);
  parts_close(&f);
}

TEST(any_allocation_may_fail)
{
  static const uint8_t ops[] = { TSR__GROUP_SUM, TSR__GROUP_CORR, TSR__GROUP_LAST,
                                 TSR__GROUP_QUANTILE, TSR__GROUP_NUNIQUE };
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr_runtime_opts opts = { .size = sizeof opts, .threads = 2, .allocator = &allocator };
  int64_t rows[2] = { 2000, 300 };
  tsr__group_agg aggs[5];
  for (int k = 0; k < 5; k++) aggs[k] = (tsr__group_agg){ .op = ops[k], .q = 0.5 };
  int failures = 0;
  bool over = false;
  for (int64_t n = 1; !over; n++) {
    parts_fixture f;
    test_rng rng = test_seeded(3);
    state.fail_at = 0;
    parts_open(&f, 2, &opts);
    parts_set(&f, rows);
    checked c = { .f = &f };
    make_groups(&c, &rng, 200);
    parts_column column;
    parts_column_new(&f, TSR_F64, true, &column);
    for (int p = 0; p < 2; p++) parts_column_fill(&f, &rng, &column, p, 100);
    fill_floats(&f, &rng, &column, WILD);
    tsr__aggregate_ask ask = { &f.parts, &c.groups, &column.parts, aggs, 5, NULL };
    tsr__buffer *values[10], *valid[10];
    column.parts.values = column.values;
    column.parts.valid = column.valid;
    state.count = 0;
    state.fail_at = n;
    tsr_status status = tsr__aggregate_groups(f.rt, &ask, values, valid, &f.error);
    over = state.count < n;
    state.fail_at = 0;
    for (int at = 0; at < 10; at++) {
      tsr__buffer_release(values[at]);
      tsr__buffer_release(valid[at]);
    }
    if (status) CHECK_I64(status, TSR_ENOMEM);
    failures += status != TSR_OK;
    parts_column_free(&column);
    tsr__grouped_free(f.rt, &c.groups);
    parts_close(&f);
    CHECK_I64(state.live, 0);
  }
  CHECK(failures > 20);
}
