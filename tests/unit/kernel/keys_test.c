/* Packed keys: their order is the order of the rows, decided value by value. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "support/parts_fixture.h"

enum { KEYS_MOST = 5 };

/* ---- the order, by the book ---- */

static int compare_numbers(double a, double b)
{
  if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
  return (a > b) - (a < b);
}

static int compare_values(const parts_column *c, const int64_t a[2], const int64_t b[2])
{
  const void *x = tsr__cpu_data(c->values[a[0]]), *y = tsr__cpu_data(c->values[b[0]]);
  int64_t i = a[1], j = b[1];
  tsr_dtype dtype = c->parts.dtype;
  if (dtype == TSR_BOOL)
    return (int)(((const uint64_t *)x)[i / 64] >> (i % 64) & 1) -
           (int)(((const uint64_t *)y)[j / 64] >> (j % 64) & 1);
  if (tsr__dtype_is_real(dtype))
    return compare_numbers(tsr__dtype_get_real(dtype, x, i), tsr__dtype_get_real(dtype, y, j));
  int64_t v = tsr__dtype_get_whole(dtype, x, i), w = tsr__dtype_get_whole(dtype, y, j);
  if (dtype == TSR_U64) return ((uint64_t)v > (uint64_t)w) - ((uint64_t)v < (uint64_t)w);
  return (v > w) - (v < w);
}

static bool is_null(const parts_column *c, const int64_t at[2])
{
  if (!c->valid[at[0]]) return false;
  return !(((const uint64_t *)tsr__cpu_data(c->valid[at[0]]))[at[1] / 64] >> (at[1] % 64) & 1);
}

static int compare_rows(const parts_column *columns, const tsr__key *keys, int count,
                        int64_t (*at)[2])
{
  for (int k = 0; k < count; k++) {
    bool a = is_null(&columns[k], at[0]), b = is_null(&columns[k], at[1]);
    int order = 0;
    if (a || b) order = keys[k].nulls_first ? b - a : a - b;
    else order = compare_values(&columns[k], at[0], at[1]) * (keys[k].descending ? -1 : 1);
    if (order) return order;
  }
  return 0;
}

static int compare_packed(const parts_fixture *f, const tsr__packed_keys *packed, int64_t (*at)[2])
{
  for (int w = 0; w < packed->words; w++) {
    uint64_t a = packed->word[at[0][0]][w * f->rows[at[0][0]] + at[0][1]];
    uint64_t b = packed->word[at[1][0]][w * f->rows[at[1][0]] + at[1][1]];
    if (a != b) return a < b ? -1 : 1;
  }
  return 0;
}

static int sign(int x)
{
  return (x > 0) - (x < 0);
}

static void check_order(parts_fixture *f, test_rng *rng, int count, int64_t most)
{
  parts_column columns[KEYS_MOST];
  tsr__colparts colparts[KEYS_MOST];
  tsr__key keys[KEYS_MOST] = { 0 };
  int64_t rows[PARTS_MOST];
  int bits;
  for (int p = 0; p < f->parts.count; p++) rows[p] = test_range(rng, 0, 1500);
  rows[0] += 2;
  parts_set(f, rows);
  for (int k = 0; k < count; k++) {
    keys[k].descending = test_range(rng, 0, 1);
    keys[k].nulls_first = test_range(rng, 0, 1);
    parts_column_new(f, fixture_dtype(test_range(rng, 0, 99)), test_range(rng, 0, 1), &columns[k]);
    for (int p = 0; p < f->parts.count; p++) parts_column_fill(f, rng, &columns[k], p, most);
    colparts[k] = columns[k].parts;
  }
  tsr__range_ask range = { &f->parts, colparts, keys, count };
  CHECK_STATUS(tsr__keys_range(f->rt, &range, &f->error), TSR_OK, NULL);
  int words = tsr__keys_settle(keys, count, &bits);
  tsr__packed_keys packed;
  tsr__pack_ask pack = { &f->parts, colparts, keys, count, true };
  CHECK_STATUS(tsr__pack_keys(f->rt, &pack, &packed, &f->error), TSR_OK, NULL);
  CHECK_I64(packed.words, words);
  CHECK_I64(packed.bits, bits);
  for (int i = 0; i < 4000; i++) {
    int64_t at[2][2];
    for (int n = 0; n < 2; n++) {
      do at[n][0] = test_range(rng, 0, f->parts.count - 1);
      while (!rows[at[n][0]]);
      at[n][1] = test_range(rng, 0, rows[at[n][0]] - 1);
    }
    CHECK_I64(sign(compare_packed(f, &packed, at)), sign(compare_rows(columns, keys, count, at)));
    bool null = false;
    for (int k = 0; k < count; k++) null = null || is_null(&columns[k], at[0]);
    CHECK_I64(packed.null[at[0][0]][at[0][1] / 64] >> (at[0][1] % 64) & 1, null);
    if (packed.words == 1 && bits < 64) CHECK(packed.word[at[0][0]][at[0][1]] >> bits == 0);
  }
  tsr__packed_free(f->rt, &packed);
  for (int k = 0; k < count; k++) parts_column_free(&columns[k]);
}

TEST(packed_keys_order_as_rows_do)
{
  static const int64_t most[] = { 2, 100, 1 << 20, INT64_MAX / 2, INT64_MAX };
  test_rng rng = test_seeded(31);
  for (int devices = 1; devices <= PARTS_MOST; devices += 7) {
    parts_fixture f;
    parts_open(&f, devices, NULL);
    for (int i = 0; i < (test_quick() ? 60 : 400); i++)
      check_order(&f, &rng, (int)test_range(&rng, 1, KEYS_MOST), most[i % 5]);
    parts_close(&f);
  }
}

/* ---- how many bits ---- */

static int bits_of(const void *values, tsr_dtype dtype, int64_t rows, const uint64_t *valid)
{
  parts_fixture f;
  parts_column column;
  tsr__key key = { 0 };
  int bits;
  parts_open(&f, 1, NULL);
  parts_set(&f, &rows);
  parts_column_new(&f, dtype, valid != NULL, &column);
  memcpy(tsr__cpu_data(column.values[0]), values, column.values[0]->bytes);
  if (valid) memcpy(tsr__cpu_data(column.valid[0]), valid, column.valid[0]->bytes);
  tsr__range_ask range = { &f.parts, &column.parts, &key, 1 };
  CHECK_STATUS(tsr__keys_range(f.rt, &range, &f.error), TSR_OK, NULL);
  tsr__keys_settle(&key, 1, &bits);
  parts_column_free(&column);
  parts_close(&f);
  return bits;
}

TEST(keys_take_the_bits_of_their_range)
{
  const int64_t near[3] = { INT64_MAX, INT64_MAX - 1, INT64_MAX - 6 }, one[3] = { 5, 5, 5 };
  const int64_t all[2] = { INT64_MIN, INT64_MAX };
  const uint64_t most = 3, none = 0;
  CHECK_I64(bits_of(near, TSR_I64, 3, NULL), 3);
  CHECK_I64(bits_of(near, TSR_I64, 3, &most), 2);
  CHECK_I64(bits_of(one, TSR_I64, 3, NULL), 0);
  CHECK_I64(bits_of(one, TSR_I64, 3, &most), 1);
  CHECK_I64(bits_of(one, TSR_I64, 3, &none), 0);
  CHECK_I64(bits_of(one, TSR_I64, 0, NULL), 0);
  CHECK_I64(bits_of(all, TSR_I64, 2, NULL), 64);
}

/* ---- text ---- */

TEST(text_is_ordered_by_its_map)
{
  const int32_t codes[6] = { 0, 1, 2, 3, 7, 1 }, map[4] = { 2, 0, -1, 1 };
  const uint64_t valid = 0x1F; /* row 4 has a code that the map lacks, row 5 is null */
  parts_fixture f;
  parts_column column;
  tsr__packed_keys packed;
  tsr__key key = { .map = map, .map_count = 4 };
  parts_open(&f, 1, NULL);
  parts_set(&f, (const int64_t[]){ 6 });
  parts_column_new(&f, TSR_I32, true, &column);
  memcpy(tsr__cpu_data(column.values[0]), codes, sizeof codes);
  memcpy(tsr__cpu_data(column.valid[0]), &valid, sizeof valid);
  tsr__range_ask range = { &f.parts, &column.parts, &key, 1 };
  CHECK_STATUS(tsr__keys_range(f.rt, &range, &f.error), TSR_OK, NULL);
  tsr__keys_settle(&key, 1, NULL);
  tsr__pack_ask pack = { &f.parts, &column.parts, &key, 1, true };
  CHECK_STATUS(tsr__pack_keys(f.rt, &pack, &packed, &f.error), TSR_OK, NULL);
  const uint64_t expected[6] = { 2, 0, 3, 1, 3, 3 };
  for (int i = 0; i < 6; i++) CHECK_U64(packed.word[0][i], expected[i]);
  CHECK_U64(packed.null[0][0] & 0x3F, 0x34);
  tsr__packed_free(f.rt, &packed);
  parts_column_free(&column);
  parts_close(&f);
}

TEST(keys_without_memory_say_so)
{
  parts_fixture f;
  parts_column column;
  tsr__key key = { .bits = 8 };
  tsr__packed_keys packed;
  parts_open(&f, 1,
             &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .memory_limit = 1 << 20 });
  parts_set(&f, (const int64_t[]){ 100000 });
  parts_column_new(&f, TSR_I32, false, &column);
  tsr__pack_ask pack = { &f.parts, &column.parts, &key, 1, true };
  CHECK_STATUS(tsr__pack_keys(f.rt, &pack, &packed, &f.error), TSR_ENOMEM, NULL);
  CHECK(!packed.buffers);
  parts_column_free(&column);
  parts_close(&f);
}
