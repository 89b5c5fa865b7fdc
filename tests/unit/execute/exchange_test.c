/* The ragged all-to-all against a list of rows on the host. */
#include "harness.h"

#include <string.h>

#include "execute/exchange.h"
#include "support/parts_fixture.h"

enum { ROWS = 20000, COLUMNS = 3 };

static int64_t number_of(tsr_dtype dtype, const tsr__buffer *buffer, int64_t row)
{
  const void *data = tsr__cpu_data(buffer);
  if (dtype == TSR_BOOL) return ((const uint64_t *)data)[row / 64] >> (row % 64) & 1;
  int64_t bits = 0;
  memcpy(&bits, (const char *)data + (size_t)row * tsr_dtype_size(dtype), tsr_dtype_size(dtype));
  return bits;
}

static bool there(tsr__buffer *const *valid, int p, int64_t row)
{
  return !valid[p] || number_of(TSR_BOOL, valid[p], row);
}

typedef struct table {
  parts_column column[COLUMNS];
  tsr__colparts parts[COLUMNS];
  uint16_t *dest[PARTS_MOST];
} table;

static void table_new(parts_fixture *f, test_rng *rng, bool in_order, table *t)
{
  static uint16_t room[PARTS_MOST][ROWS];
  int64_t rows[PARTS_MOST];
  for (int p = 0; p < f->parts.count; p++)
    rows[p] = test_range(rng, 0, 3) ? test_range(rng, 0, ROWS) : 0;
  parts_set(f, rows);
  for (int c = 0; c < COLUMNS; c++) {
    parts_column_new(f, fixture_dtype(test_range(rng, 0, 99)), test_range(rng, 0, 1),
                     &t->column[c]);
    for (int p = 0; p < f->parts.count; p++) parts_column_fill(f, rng, &t->column[c], p, 1 << 30);
    t->parts[c] = t->column[c].parts;
  }
  for (int p = 0; p < f->parts.count; p++) {
    int64_t last = 0;
    t->dest[p] = room[p];
    for (int64_t r = 0; r < rows[p]; r++) {
      if (in_order && test_range(rng, 0, 300)) room[p][r] = (uint16_t)last;
      else room[p][r] = (uint16_t)test_range(rng, last, f->parts.count - 1);
      if (in_order) last = room[p][r];
    }
  }
}

/* Each receiver's rows are the senders' in order; what crossed is what was counted. */
static void check_arrived(const parts_fixture *f, const table *t, const tsr__exchange *done)
{
  int parts = f->parts.count;
  int64_t moved = 0, bytes = 0;
  for (int to = 0; to < parts; to++) {
    int64_t at = 0;
    for (int p = 0; p < parts; p++) {
      int64_t here = 0;
      for (int64_t r = 0; r < f->rows[p]; r++) {
        if (t->dest[p][r] != to) continue;
        for (int c = 0; c < COLUMNS; c++) {
          tsr_dtype dtype = t->parts[c].dtype;
          bool expected = there(t->column[c].valid, p, r);
          CHECK_I64(there(done->valid + c * parts, to, at), expected);
          CHECK_I64(number_of(dtype, done->values[c * parts + to], at),
                    number_of(dtype, t->column[c].values[p], r));
        }
        at++;
        here++;
      }
      if (p == to) continue;
      moved += here;
      for (int c = 0; c < COLUMNS; c++) {
        tsr_dtype dtype = t->parts[c].dtype;
        bytes += dtype == TSR_BOOL ? (here + 7) / 8 : here * (int64_t)tsr_dtype_size(dtype);
        if (t->column[c].valid[p]) bytes += (here + 7) / 8;
      }
    }
    CHECK_I64(done->rows[to], at);
  }
  CHECK_I64(done->moved->rows, moved);
  CHECK_I64(done->moved->bytes, bytes);
}

/* Destinations as a device has them. */
static bool lend(parts_fixture *f, uint16_t *const *dest, tsr__buffer **out)
{
  bool all = true;
  for (int p = 0; p < f->parts.count; p++) {
    tsr__foreign memory = { .data = dest[p], .bytes = (size_t)f->rows[p] * sizeof **dest };
    out[p] = tsr__devices_of(f->rt)->ops->adopt(f->rt, f->device[p], &memory);
    all = all && out[p];
  }
  return all;
}

static void take_back(parts_fixture *f, tsr__buffer **lent)
{
  for (int p = 0; p < f->parts.count; p++) tsr__buffer_release(lent[p]);
}

enum { LIE, LISTED, GIVEN, WAYS }; /* rows by destination, a list of them, destinations */

static tsr_status exchange(parts_fixture *f, table *t, int way)
{
  int parts = f->parts.count;
  int64_t counts[PARTS_MOST * PARTS_MOST], rows[PARTS_MOST];
  tsr__index order = { 0 };
  tsr__moved moved = { 0 };
  tsr__buffer *values[COLUMNS * PARTS_MOST], *valid[COLUMNS * PARTS_MOST];
  tsr__buffer *dest[PARTS_MOST] = { NULL };
  bool lent = lend(f, t->dest, dest);
  tsr__routes routes = { &f->parts, dest, way == LISTED ? &order : NULL, counts };
  tsr_status status = lent ? tsr__route_rows(f->rt, &routes, &f->error) : TSR_ENOMEM;
  if (status) {
    take_back(f, dest);
    return status;
  }
  tsr__exchange ask = { .rt = f->rt,
                        .from = &f->parts,
                        .counts = counts,
                        .dest = way == GIVEN ? dest : NULL,
                        .order = way == LISTED ? &order : NULL,
                        .column_count = COLUMNS,
                        .columns = t->parts,
                        .values = values,
                        .valid = valid,
                        .rows = rows,
                        .moved = &moved };
  status = tsr__exchange_rows(&ask, &f->error);
  if (!status) check_arrived(f, t, &ask);
  for (int i = 0; i < COLUMNS * parts; i++) {
    tsr__buffer_release(values[i]);
    tsr__buffer_release(valid[i]);
  }
  tsr__index_free(f->rt, &order);
  take_back(f, dest);
  return status;
}

TEST(rows_arrive_in_order_of_the_senders)
{
  test_rng rng = test_seeded(41);
  for (int devices = 1; devices <= PARTS_MOST; devices++) {
    parts_fixture f;
    parts_open(&f, devices, NULL);
    for (int i = 0; i < 5 * WAYS; i++) {
      table t;
      table_new(&f, &rng, i % WAYS == LIE, &t);
      CHECK_STATUS(exchange(&f, &t, i % WAYS), TSR_OK, NULL);
      for (int c = 0; c < COLUMNS; c++) parts_column_free(&t.column[c]);
    }
    parts_close(&f);
  }
}

/* Pieces of a part are numbered apart: order is stable over their borders. */
TEST(large_parts_are_ordered_in_pieces)
{
  enum { MANY = 300000 };
  static uint16_t dest[MANY];
  test_rng rng = test_seeded(42);
  parts_fixture f;
  parts_open(&f, 2, NULL);
  parts_set(&f, (const int64_t[]){ MANY, 3 });
  for (int i = 0; i < MANY; i++) dest[i] = (uint16_t)test_range(&rng, 0, 1);
  tsr__buffer *both[2];
  CHECK(lend(&f, (uint16_t *[2]){ dest, dest }, both));
  tsr__index order;
  int64_t counts[4], at = 0;
  tsr__routes routes = { &f.parts, both, &order, counts };
  CHECK_STATUS(tsr__route_rows(f.rt, &routes, &f.error), TSR_OK, NULL);
  for (int to = 0; to < 2; to++)
    for (int i = 0; i < MANY; i++)
      if (dest[i] == to) CHECK_I64(order.at[0][at++], i);
  CHECK_I64(counts[0] + counts[1], MANY);
  CHECK_I64(counts[2] + counts[3], 3);
  tsr__index_free(f.rt, &order);
  take_back(&f, both);
  parts_close(&f);
}

/* Every allocation fails once: an error, and nothing is left behind. */
TEST(an_exchange_without_memory_leaks_nothing)
{
  for (int64_t n = 1; n < 400; n++) {
    test_rng rng = test_seeded(43);
    struct test_alloc state = { 0 };
    tsr_allocator allocator = test_allocator(&state);
    parts_fixture f;
    table t;
    parts_open(&f, 4,
               &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .allocator = &allocator });
    table_new(&f, &rng, false, &t);
    int64_t before = state.count;
    state.fail_at = before + n;
    tsr_status status = exchange(&f, &t, n % WAYS ? GIVEN : LISTED);
    bool failed = state.count >= state.fail_at;
    state.fail_at = 0;
    for (int c = 0; c < COLUMNS; c++) parts_column_free(&t.column[c]);
    parts_close(&f);
    CHECK_I64(state.live, 0);
    if (status) CHECK_STATUS(status, TSR_ENOMEM, NULL);
    if (!failed) return;
  }
  FAIL("the exchange never ran out of failures");
}
