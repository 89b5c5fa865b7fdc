/* The law of moving and sorting: on every mesh and with any counts of rows on its devices, an
 * operator gives the rows, in the order, that a loop over a table on the host gives. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/rel_fixture.h"

enum { KEYS = 4 };

static int64_t trials(int64_t quick, int64_t usual)
{
  return test_quick() ? quick : usual;
}

/* ---- sorting ---- */

typedef struct order {
  const rel_host *host;
  const tsr__rel_key *keys;
  int count;
} order;

static int by_keys(const void *a, const void *b, void *user)
{
  const order *o = user;
  int64_t rows[2] = { *(const int64_t *)a, *(const int64_t *)b };
  int found = rel_compare(o->host, o->keys, o->count, rows);
  return found ? found : (rows[0] > rows[1]) - (rows[0] < rows[1]);
}

static void sort_host(const rel_host *host, const tsr__rel_key *keys, int count, rel_host *out)
{
  int64_t *rows = malloc(((size_t)host->rows + 1) * sizeof *rows);
  order o = { host, keys, count };
  for (int64_t i = 0; i < host->rows; i++) rows[i] = i;
  qsort_r(rows, (size_t)host->rows, sizeof *rows, by_keys, &o);
  rel_host_like(out, host, host->rows);
  for (int64_t i = 0; i < host->rows; i++) rel_host_copy_row(out, i, host, rows[i]);
  free(rows);
}

/* No part holds much more than its share. */
static void check_shares(const tsr__rel *rel)
{
  int64_t parts = tsr__dim_parts(&rel->sharding, 0);
  tsr_box box;
  for (int p = 0; p < tsr__positions(&rel->sharding); p++) {
    tsr__value_box(rel->column[0].values, p, &box);
    if (box.size[0] > rel->total / parts + rel->total / parts / 3 + 16)
      FAIL("part %d has %lld of %lld rows on %lld parts", p, (long long)box.size[0],
           (long long)rel->total, (long long)parts);
  }
}

static void check_sort(tsr_runtime *rt, test_rng *rng, const rel_host *host, int layout)
{
  tsr__rel_key keys[KEYS];
  tsr__rel in, out;
  tsr__rel_stats stats = { 0 };
  tsr__error error = { .status = TSR_OK };
  rel_host expected, found;
  char what[80];
  int count = (int)test_range(rng, 1, KEYS);
  for (int k = 0; k < count; k++)
    keys[k] = (tsr__rel_key){ .column = (int)test_range(rng, 0, host->count - 1),
                              .descending = test_range(rng, 0, 1),
                              .nulls_first = test_range(rng, 0, 1) };
  tsr_sharding sharding = rel_sharding(rt, layout);
  rel_make(rt, &sharding, host, test_range(rng, 0, 2) ? rng : NULL, &in);
  tsr__rel_sort_ask ask = { &in, keys, count };
  CHECK_STATUS(tsr__rel_sort(&ask, &out, &stats, &error), TSR_OK, NULL);
  snprintf(what, sizeof what, "sort by %d keys, mesh %s @ %s", count, rel_layouts[layout].mesh,
           rel_layouts[layout].spec);
  sort_host(host, keys, count, &expected);
  rel_read(&out, &found);
  rel_check(&found, &expected, what);
  check_shares(&out);
  CHECK(stats.method && (stats.need > 0 || !host->rows));
  CHECK((tsr__dim_parts(&sharding, 0) == 1) == (stats.move_count == 0));
  rel_host_free(&expected);
  rel_host_free(&found);
  tsr__rel_free(&in);
  tsr__rel_free(&out);
}

static int64_t some_rows(test_rng *rng)
{
  switch (test_range(rng, 0, 5)) {
  case 0: return test_range(rng, 0, 2);
  case 1: return test_range(rng, 3, 70);
  default: return test_range(rng, 100, 3000);
  }
}

static void each_table(test_rng *rng, int64_t count,
                       void (*check)(tsr_runtime *, test_rng *, const rel_host *, int))
{
  static const int64_t most[] = { 1, 5, 1000, INT64_MAX };
  tsr_runtime *rt = rel_open(NULL);
  for (int64_t i = 0; i < count; i++) {
    rel_host host;
    rel_host_new(&host, rng, (int)test_range(rng, 1, 5), some_rows(rng), most[i % 4]);
    check(rt, rng, &host, (int)(i % REL_LAYOUTS));
    rel_host_free(&host);
  }
  tsr_runtime_close(rt);
}

static test_rng seeded(uint64_t usual)
{
  const char *only = getenv("LAW_SEED");
  return test_seeded(only ? strtoull(only, NULL, 10) : usual);
}

TEST(rows_are_sorted_on_any_mesh)
{
  test_rng rng = seeded(61);
  each_table(&rng, trials(150, 1500), check_sort);
}

/* Text by ranks: codes compare as their map says. */
TEST(text_is_sorted_by_its_ranks)
{
  test_rng rng = seeded(62);
  tsr_runtime *rt = rel_open(NULL);
  int32_t map[64];
  for (int i = 0; i < 64; i++) map[i] = i * 29 % 64;
  for (int layout = 0; layout < REL_LAYOUTS; layout++) {
    rel_host like = { .count = 2, .dtype = { TSR_I32, TSR_I64 }, .nulls = { true } }, host;
    rel_host expected, found;
    tsr__rel in, out;
    tsr__error error = { .status = TSR_OK };
    rel_host_like(&host, &like, 1000);
    for (int64_t i = 0; i < 1000; i++) {
      host.null[0][i] = !test_range(&rng, 0, 9);
      host.cell[0][i] = host.null[0][i] ? 0 : (uint64_t)test_range(&rng, 0, 63);
      host.cell[1][i] = (uint64_t)i;
    }
    tsr__rel_key key = { .column = 0, .descending = layout % 2, .map = map, .map_count = 64 };
    tsr_sharding sharding = rel_sharding(rt, layout);
    rel_make(rt, &sharding, &host, &rng, &in);
    tsr__rel_sort_ask ask = { &in, &key, 1 };
    CHECK_STATUS(tsr__rel_sort(&ask, &out, NULL, &error), TSR_OK, NULL);
    sort_host(&host, &key, 1, &expected);
    rel_read(&out, &found);
    rel_check(&found, &expected, "text");
    rel_host_free(&host);
    rel_host_free(&expected);
    rel_host_free(&found);
    tsr__rel_free(&in);
    tsr__rel_free(&out);
  }
  tsr_runtime_close(rt);
}

/* ---- moving ---- */

static int64_t row_bits(const rel_host *host)
{
  int64_t bits = 0;
  for (int c = 0; c < host->count; c++)
    bits += (host->dtype[c] == TSR_BOOL ? 1 : 8 * (int64_t)tsr_dtype_size(host->dtype[c])) +
            host->nulls[c];
  return bits;
}

/* Rows that lie on a device where they did not lie before. */
static int64_t strangers(const tsr__rel *in, const tsr__rel *out)
{
  int64_t count = 0;
  for (int to = 0; to < tsr__positions(&out->sharding); to++) {
    tsr_box want, have;
    tsr__value_box(out->column[0].values, to, &want);
    int64_t own = 0;
    for (int p = 0; p < tsr__positions(&in->sharding); p++) {
      int device = tsr__position_device(&out->sharding, to);
      int from = tsr__position_device(&in->sharding, p);
      /* What has no mesh each process has on its first device. */
      if (!in->sharding.mesh && out->sharding.mesh)
        from = tsr__first_beside(out->sharding.mesh, device);
      if (from != device) continue;
      tsr__value_box(in->column[0].values, p, &have);
      int64_t low = have.start[0] > want.start[0] ? have.start[0] : want.start[0];
      int64_t high = have.start[0] + have.size[0];
      if (high > want.start[0] + want.size[0]) high = want.start[0] + want.size[0];
      own += high > low ? high - low : 0;
    }
    count += want.size[0] - own;
  }
  return count;
}

static void check_place(tsr_runtime *rt, test_rng *rng, const rel_host *host, int layout)
{
  tsr__rel in, out;
  tsr__rel_stats stats = { 0 };
  tsr__error error = { .status = TSR_OK };
  rel_host found;
  int target = (int)test_range(rng, 0, REL_LAYOUTS - 1);
  tsr_sharding from = rel_sharding(rt, layout), to = rel_sharding(rt, target);
  rel_make(rt, &from, host, test_range(rng, 0, 2) ? rng : NULL, &in);
  CHECK_STATUS(tsr__rel_place(&in, &to, &out, &stats, &error), TSR_OK, NULL);
  CHECK(tsr__sharding_equal(&out.sharding, &to));
  CHECK(!out.column[0].values->rows);
  rel_read(&out, &found);
  rel_check(&found, host, "place");
  int64_t moved = strangers(&in, &out), least = moved * row_bits(host) / 8;
  CHECK_I64(stats.move_count ? stats.move[0].rows : 0, moved);
  /* Bits travel in whole bytes, so a little more than their share. */
  int64_t bytes = stats.move_count ? stats.move[0].bytes : 0;
  CHECK(bytes >= least && bytes <= least + 8 * host->count * 16);
  rel_host_free(&found);
  tsr__rel_free(&in);
  tsr__rel_free(&out);
}

TEST(rows_are_placed_on_any_mesh)
{
  test_rng rng = seeded(63);
  each_table(&rng, trials(200, 3000), check_place);
}

static void check_concat(tsr_runtime *rt, test_rng *rng, const rel_host *host, int layout)
{
  enum { TABLES = 3 };
  tsr__rel in[TABLES], out;
  const tsr__rel *list[TABLES];
  tsr__rel_stats stats = { 0 };
  tsr__error error = { .status = TSR_OK };
  rel_host piece[TABLES], found, expected;
  int count = (int)test_range(rng, 1, TABLES);
  int64_t rows = 0;
  for (int i = 0; i < count; i++) rows += piece[i].rows = test_range(rng, 0, host->rows);
  rel_host_like(&expected, host, rows);
  rows = 0;
  for (int i = 0; i < count; i++) {
    int64_t here = piece[i].rows, start = test_range(rng, 0, host->rows - here);
    rel_host_like(&piece[i], host, here);
    for (int c = 0; c < host->count; c++) {
      for (int64_t r = 0; r < here; r++) {
        piece[i].null[c][r] = host->null[c][start + r];
        piece[i].cell[c][r] = host->cell[c][start + r];
      }
      bool none = true;
      for (int64_t r = 0; r < here; r++) none = none && !piece[i].null[c][r];
      if (none) piece[i].nulls[c] = false;
    }
    for (int64_t r = 0; r < here; r++) rel_host_copy_row(&expected, rows + r, &piece[i], r);
    rows += here;
    tsr_sharding sharding = rel_sharding(rt, i ? (int)test_range(rng, 0, REL_LAYOUTS - 1) : layout);
    rel_make(rt, &sharding, &piece[i], test_range(rng, 0, 2) ? rng : NULL, &in[i]);
    list[i] = &in[i];
  }
  CHECK_STATUS(tsr__rel_concat(list, count, &out, &stats, &error), TSR_OK, NULL);
  CHECK(tsr__sharding_equal(&out.sharding, &in[0].sharding));
  rel_read(&out, &found);
  rel_check(&found, &expected, "concat");
  for (int i = 0; i < count; i++) {
    tsr__rel_free(&in[i]);
    rel_host_free(&piece[i]);
  }
  rel_host_free(&found);
  rel_host_free(&expected);
  tsr__rel_free(&out);
}

TEST(tables_follow_each_other)
{
  test_rng rng = seeded(65);
  each_table(&rng, trials(200, 3000), check_concat);
}
