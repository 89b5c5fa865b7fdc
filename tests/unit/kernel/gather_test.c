/* Index vectors and gathered columns, against loops over host arrays. */
#include "harness.h"

#include <string.h>

#include "support/parts_fixture.h"

enum { ROWS = 3000 };

static int64_t number_of(tsr_dtype dtype, const void *data, int64_t row)
{
  if (dtype == TSR_BOOL) return ((const uint64_t *)data)[row / 64] >> (row % 64) & 1;
  int64_t bits = 0;
  memcpy(&bits, (const char *)data + (size_t)row * tsr_dtype_size(dtype), tsr_dtype_size(dtype));
  return bits;
}

static bool bit_of(const tsr__buffer *bits, int64_t row)
{
  return !bits || number_of(TSR_BOOL, tsr__cpu_data(bits), row);
}

static void check_gather(parts_fixture *f, test_rng *rng, tsr_dtype dtype, bool may_miss)
{
  int64_t rows[PARTS_MOST], taken[PARTS_MOST];
  int nulls = (int)test_range(rng, 0, 2);
  for (int p = 0; p < f->parts.count; p++) {
    rows[p] = test_range(rng, 0, 3) ? test_range(rng, 1, ROWS) : test_range(rng, 0, 1);
    taken[p] = rows[p] || may_miss ? test_range(rng, 0, ROWS) : 0;
  }
  parts_set(f, rows);
  parts_column column;
  parts_column_new(f, dtype, nulls == 1, &column);
  for (int p = 0; p < f->parts.count; p++) parts_column_fill(f, rng, &column, p, INT64_C(1) << 40);
  tsr__parts to = { f->parts.count, f->parts.device, taken };
  tsr__index index;
  CHECK_STATUS(tsr__index_new(f->rt, &to, &index, &f->error), TSR_OK, NULL);
  for (int p = 0; p < to.count; p++)
    for (int64_t i = 0; i < taken[p]; i++)
      index.at[p][i] = may_miss && (!rows[p] || !test_range(rng, 0, 4))
                           ? TSR__NO_ROW
                           : (uint32_t)test_range(rng, 0, rows[p] - 1);
  tsr__buffer *values[PARTS_MOST], *valid[PARTS_MOST];
  tsr__gather ask = { &to, &index, &column.parts, may_miss };
  CHECK_STATUS(tsr__gather_column(f->rt, &ask, values, valid, &f->error), TSR_OK, NULL);
  for (int p = 0; p < to.count; p++) {
    CHECK_I64(values[p]->device, f->parts.device[p]);
    CHECK((valid[p] != NULL) == (may_miss || nulls == 1));
    for (int64_t i = 0; i < taken[p]; i++) {
      uint32_t row = index.at[p][i];
      bool there = row != TSR__NO_ROW && bit_of(column.valid[p], row);
      CHECK_I64(bit_of(valid[p], i), there);
      if (there)
        CHECK_I64(number_of(dtype, tsr__cpu_data(values[p]), i),
                  number_of(dtype, tsr__cpu_data(column.values[p]), row));
    }
    tsr__buffer_release(values[p]);
    tsr__buffer_release(valid[p]);
  }
  tsr__index_free(f->rt, &index);
  parts_column_free(&column);
}

TEST(columns_are_gathered)
{
  test_rng rng = test_seeded(21);
  for (int devices = 1; devices <= PARTS_MOST; devices += 3) {
    parts_fixture f;
    parts_open(&f, devices, NULL);
    for (int i = 0; i < 40; i++) check_gather(&f, &rng, fixture_dtype(i), test_range(&rng, 0, 1));
    parts_close(&f);
  }
}

/* No vector at all: the rows as they lie, fewer of them if the index says so. */
TEST(an_index_without_a_vector_is_the_identity)
{
  test_rng rng = test_seeded(22);
  parts_fixture f;
  parts_open(&f, 2, NULL);
  TSR__FOR_DTYPES(type)
  {
    parts_set(&f, (const int64_t[]){ 70000, 130 });
    parts_column column;
    parts_column_new(&f, (tsr_dtype)type, true, &column);
    for (int p = 0; p < 2; p++) parts_column_fill(&f, &rng, &column, p, 1000);
    int64_t rows[2] = { 66000, 0 };
    uint32_t *at[2] = { NULL, NULL };
    tsr__index index = { 2, rows, at, NULL };
    tsr__buffer *values[2], *valid[2];
    tsr__gather ask = { &f.parts, &index, &column.parts, false };
    CHECK_STATUS(tsr__gather_column(f.rt, &ask, values, valid, &f.error), TSR_OK, NULL);
    for (int64_t i = 0; i < rows[0]; i++) {
      CHECK_I64(bit_of(valid[0], i), bit_of(column.valid[0], i));
      CHECK_I64(number_of((tsr_dtype)type, tsr__cpu_data(values[0]), i),
                number_of((tsr_dtype)type, tsr__cpu_data(column.values[0]), i));
    }
    for (int p = 0; p < 2; p++) {
      tsr__buffer_release(values[p]);
      tsr__buffer_release(valid[p]);
    }
    parts_column_free(&column);
  }
  parts_close(&f);
}
