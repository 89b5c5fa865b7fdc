/* The law of grouping: on every mesh and with any counts of rows on its devices, groups come in
 * order of their first row with the values that a loop over a table on the host gives. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/naive_group.h"
#include "support/rel_fixture.h"

enum { KEYS = 5, AGGS = 6 };

static int64_t trials(int64_t quick, int64_t usual)
{
  return test_quick() ? quick : usual;
}

static test_rng seeded(uint64_t usual)
{
  const char *only = getenv("LAW_SEED");
  return test_seeded(only ? strtoull(only, NULL, 10) : usual);
}

static bool real(tsr_dtype dtype)
{
  return tsr__dtype_is_real(dtype);
}

static item item_of(tsr_dtype dtype, uint64_t cell)
{
  item out = { 0 };
  if (real(dtype)) out.f = tsr__dtype_get_real(dtype, &cell, 0);
  else out.i = tsr__dtype_get_whole(dtype, &cell, 0);
  return out;
}

/* ---- groups on the host ---- */

typedef struct host_groups {
  int64_t count;
  int64_t *group, *first; /* of rows; of groups */
} host_groups;

static bool equal_rows(const rel_host *host, const tsr__rel_key *keys, int count, int64_t a,
                       int64_t b)
{
  for (int k = 0; k < count; k++) {
    int c = keys[k].column;
    if (host->null[c][a] != host->null[c][b]) return false;
    if (host->null[c][a]) continue;
    if (rel_compare_cells(host->dtype[c], host->cell[c][a], host->cell[c][b])) return false;
  }
  return true;
}

static host_groups group_host(const rel_host *host, const tsr__rel_key *keys, int count)
{
  host_groups out = { 0, calloc((size_t)host->rows + 1, sizeof(int64_t)),
                      calloc((size_t)host->rows + 1, sizeof(int64_t)) };
  for (int64_t r = 0; r < host->rows; r++) {
    int64_t g = 0;
    while (g < out.count && !equal_rows(host, keys, count, out.first[g], r)) g++;
    if (g == out.count) out.first[out.count++] = r;
    out.group[r] = g;
  }
  return out;
}

static void groups_free(host_groups *groups)
{
  free(groups->group);
  free(groups->first);
}

/* ---- checking ---- */

/* Whether a column has correlations at all. */
static bool pairs(tsr_dtype dtype)
{
  return dtype == TSR_F64 || !real(dtype);
}

/* Whether two have, with the same nulls: both integers, u64 only with its like, or one f64. */
static bool pairs_up(const rel_host *host, int a, int b)
{
  bool mixed = real(host->dtype[a]) != real(host->dtype[b]);
  if (!pairs(host->dtype[a]) || !pairs(host->dtype[b])) return false;
  if (!mixed && (host->dtype[a] == TSR_U64) != (host->dtype[b] == TSR_U64)) return false;
  if (host->nulls[a] != host->nulls[b]) return false;
  return !memcmp(host->null[a], host->null[b], (size_t)host->rows * sizeof *host->null[a]);
}

/* Whether an aggregate computes nothing of the ends of a type. */
static bool picks(int op)
{
  return op == TSR__GROUP_MIN || op == TSR__GROUP_MAX || op == TSR__GROUP_FIRST ||
         op == TSR__GROUP_LAST || op == TSR__GROUP_ANY || op == TSR__GROUP_ALL;
}

/* An aggregate that the column has: no sums or quantiles that frames would not ask for. */
static tsr__group_agg some_agg(test_rng *rng, const rel_host *host)
{
  static const double quantiles[] = { 0, 0.1, 0.5, 0.75, 1 };
  tsr__group_agg agg = { .op = (uint8_t)test_range(rng, 0, TSR__GROUP_CORR),
                         .column = (int)test_range(rng, 0, host->count - 1),
                         .other = (int)test_range(rng, 0, host->count - 1),
                         .q = quantiles[test_range(rng, 0, 4)] };
  if (agg.op == TSR__GROUP_CORR && !pairs_up(host, agg.column, agg.other)) agg.other = agg.column;
  if (agg.op == TSR__GROUP_CORR && !pairs(host->dtype[agg.column])) agg.op = TSR__GROUP_VAR;
  if (host->corners[agg.column] && agg.op != TSR__GROUP_COUNT && !picks(agg.op))
    agg.op = TSR__GROUP_NUNIQUE;
  if (agg.op == TSR__GROUP_CORR && host->corners[agg.other]) agg.other = agg.column;
  if (agg.op == TSR__GROUP_COUNT && test_range(rng, 0, 1)) agg.column = -1;
  return agg;
}

static void check_agg(const rel_host *host, const host_groups *groups, const tsr__group_agg *agg,
                      const rel_host *found, int column)
{
  int from = agg->column < 0 ? 0 : agg->column;
  item *items = calloc((size_t)host->rows + 1, sizeof *items);
  item *others = calloc((size_t)host->rows + 1, sizeof *others);
  bool *nulls = calloc((size_t)host->rows + 1, 1);
  for (int64_t g = 0; g < found->rows; g++) {
    int64_t n = 0;
    for (int64_t r = 0; r < host->rows; r++) {
      if (groups->group[r] != g) continue;
      nulls[n] = host->null[from][r];
      others[n] = item_of(host->dtype[agg->other], host->cell[agg->other][r]);
      items[n++] = item_of(host->dtype[from], host->cell[from][r]);
    }
    group_items of = { .dtype = host->dtype[from], .items = items, .null = nulls, .count = n };
    group_items with = { .dtype = host->dtype[agg->other], .items = others, .count = n };
    expected e = agg->op == TSR__GROUP_CORR ? naive_corr(&of, &with) : naive_aggregate(&of, agg);
    item x = item_of(found->dtype[column], found->cell[column][g]);
    if (e.null != found->null[column][g])
      FAIL("op %d, group %lld: null %d", agg->op, (long long)g, found->null[column][g]);
    if (!e.null && !naive_same(agg->op, found->dtype[column], x, &e))
      FAIL("op %d, group %lld: %.17g or %lld, expected %.17g or %lld", agg->op, (long long)g, x.f,
           (long long)x.i, e.value.f, (long long)e.value.i);
  }
  free(items);
  free(others);
  free(nulls);
}

static void check_keys(const rel_host *host, const host_groups *groups, const tsr__rel_key *keys,
                       int count, const rel_host *found)
{
  for (int64_t g = 0; g < groups->count; g++)
    for (int k = 0; k < count; k++) {
      int c = keys[k].column;
      int64_t r = groups->first[g];
      CHECK_I64(found->null[k][g], host->null[c][r]);
      if (!found->null[k][g] && !real(host->dtype[c]))
        CHECK_U64(found->cell[k][g], host->cell[c][r]);
      if (!found->null[k][g])
        CHECK(!rel_compare_cells(host->dtype[c], found->cell[k][g], host->cell[c][r]));
    }
}

static int some_keys(test_rng *rng, const rel_host *host, tsr__rel_key *keys)
{
  int count = (int)test_range(rng, 0, KEYS);
  for (int k = 0; k < count; k++)
    keys[k] = (tsr__rel_key){ .column = (int)test_range(rng, 0, host->count - 1) };
  return count;
}

static void check_group(tsr_runtime *rt, test_rng *rng, const rel_host *host, int layout)
{
  tsr__rel_key keys[KEYS];
  tsr__group_agg aggs[AGGS];
  tsr__rel in, out;
  tsr__rel_stats stats = { 0 };
  tsr__error error = { .status = TSR_OK };
  rel_host found;
  int count = some_keys(rng, host, keys), agg_count = (int)test_range(rng, !count, 3);
  for (int a = 0; a < agg_count; a++) aggs[a] = some_agg(rng, host);
  tsr_sharding sharding = rel_sharding(rt, layout);
  rel_make(rt, &sharding, host, test_range(rng, 0, 2) ? rng : NULL, &in);
  tsr__rel_group_ask ask = { &in, keys, count, aggs, agg_count };
  tsr_status status = tsr__rel_group(&ask, &out, &stats, &error);
  if (status) FAIL("%s: %s", tsr_status_name(status), error.text);
  host_groups groups = group_host(host, keys, count);
  if (!count) groups.count = 1;
  CHECK_I64(out.total, groups.count);
  CHECK_I64(out.count, count + agg_count);
  rel_read(&out, &found);
  if (host->rows) check_keys(host, &groups, keys, count, &found);
  for (int a = 0; a < agg_count; a++) check_agg(host, &groups, &aggs[a], &found, count + a);
  CHECK(stats.method && (stats.need > 0 || !host->rows));
  groups_free(&groups);
  rel_host_free(&found);
  tsr__rel_free(&in);
  tsr__rel_free(&out);
}

static void check_first(tsr_runtime *rt, test_rng *rng, const rel_host *host, int layout)
{
  tsr__rel_key keys[KEYS];
  tsr__rel in, out;
  tsr__error error = { .status = TSR_OK };
  rel_host found;
  int count = some_keys(rng, host, keys);
  int64_t most = test_range(rng, 0, 3);
  tsr_sharding sharding = rel_sharding(rt, layout);
  rel_make(rt, &sharding, host, test_range(rng, 0, 2) ? rng : NULL, &in);
  tsr__rel_group_ask ask = { &in, keys, count, NULL, 0 };
  CHECK_STATUS(tsr__rel_new(rt, &sharding, 1, &out, &error), TSR_OK, NULL);
  out.total = host->rows;
  tsr_status status = tsr__rel_first_of_group(&ask, most, &out.column[0].values, NULL, &error);
  if (status) FAIL("%s: %s", tsr_status_name(status), error.text);
  rel_read(&out, &found);
  host_groups groups = group_host(host, keys, count);
  int64_t *seen = calloc((size_t)groups.count + 1, sizeof *seen);
  for (int64_t r = 0; r < host->rows; r++)
    CHECK_I64((int64_t)found.cell[0][r], seen[groups.group[r]]++ < most);
  free(seen);
  groups_free(&groups);
  rel_host_free(&found);
  tsr__rel_free(&in);
  tsr__rel_free(&out);
}

/* Without numbers near 0, floats lie close enough for sums in units. */
static void tame(rel_host *host)
{
  for (int c = 0; c < host->count; c++)
    for (int64_t r = 0; r < host->rows; r++) {
      item x = item_of(host->dtype[c], host->cell[c][r]);
      if (real(host->dtype[c]) && x.f > 0 && x.f < 0.1) host->cell[c][r] = 0;
    }
}

static int64_t some_rows(test_rng *rng)
{
  switch (test_range(rng, 0, 5)) {
  case 0: return test_range(rng, 0, 2);
  case 1: return test_range(rng, 3, 70);
  default: return test_range(rng, 100, 600);
  }
}

static void each_table(test_rng *rng, int64_t count,
                       void (*check)(tsr_runtime *, test_rng *, const rel_host *, int))
{
  static const int64_t most[] = { 1, 5, 1000, 1000000 };
  tsr_runtime *rt = rel_open(NULL);
  for (int64_t i = 0; i < count; i++) {
    rel_host host;
    rel_host_new(&host, rng, (int)test_range(rng, 1, 6), some_rows(rng), most[i % 4]);
    if (test_range(rng, 0, 2)) tame(&host);
    check(rt, rng, &host, (int)(i % REL_LAYOUTS));
    rel_host_free(&host);
  }
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(groups_are_the_same_on_any_mesh, 300)
{
  test_rng rng = seeded(71);
  each_table(&rng, trials(280, 3000), check_group);
}

TEST_TIMEOUT(first_rows_of_groups_are_the_same_on_any_mesh, 300)
{
  test_rng rng = seeded(72);
  each_table(&rng, trials(200, 2000), check_first);
}
