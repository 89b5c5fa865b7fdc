/* Grouping when memory is short, when somebody cancels, and what is said of it; results are the
 * law's (tests/law/group_law_test.c). */
#include "harness.h"

#include <string.h>

#include "support/rel_fixture.h"

enum { ROWS = 400, LARGE = 120000 };

typedef struct bench {
  tsr_runtime *rt;
  tsr__rel in;
  tsr__rel_stats stats;
  tsr__error error;
} bench;

/* A key of few values, one of many, one of several words, and values. */
static void bench_open(bench *b, const tsr_runtime_opts *opts, int layout, int64_t rows)
{
  test_rng rng = test_seeded(81);
  rel_host host, like = { .count = 4, .dtype = { TSR_I32, TSR_I64, TSR_F64, TSR_F64 } };
  like.nulls[2] = true;
  memset(b, 0, sizeof *b);
  b->rt = rel_open(opts);
  rel_host_like(&host, &like, rows);
  for (int64_t i = 0; i < rows; i++) {
    double value = (double)test_range(&rng, -1000, 1000) / 8;
    host.cell[0][i] = (uint64_t)test_range(&rng, 0, 20);
    host.cell[1][i] = test_random(&rng) % ((uint64_t)rows / 2) * UINT64_C(0x9e3779b97f4a7c15);
    host.null[2][i] = !test_range(&rng, 0, 9);
    if (!host.null[2][i]) memcpy(&host.cell[2][i], &value, sizeof value);
    memcpy(&host.cell[3][i], &value, sizeof value);
  }
  tsr_sharding sharding = rel_sharding(b->rt, layout);
  rel_make(b->rt, &sharding, &host, NULL, &b->in);
  rel_host_free(&host);
}

static void bench_close(bench *b)
{
  tsr__rel_free(&b->in);
  tsr_runtime_close(b->rt);
}

/* ---- what is run ---- */

static const tsr__group_agg sums[] = { { .op = TSR__GROUP_SUM, .column = 2 },
                                       { .op = TSR__GROUP_STD, .column = 3 },
                                       { .op = TSR__GROUP_FIRST, .column = 2 } };
static const tsr__group_agg ordered[] = { { .op = TSR__GROUP_QUANTILE, .column = 2, .q = 0.5 },
                                          { .op = TSR__GROUP_NUNIQUE, .column = 3 },
                                          { .op = TSR__GROUP_LAST, .column = 3 } };

typedef struct job {
  int keys; /* column 0, then 1, 2 */
  const tsr__group_agg *aggs;
  int agg_count;
} job;

static const job jobs[] = { { 1, sums, 3 }, { 2, sums, 3 }, { 3, ordered, 3 },
                            { 0, sums, 2 }, { 1, NULL, 0 }, { 0, ordered, 3 } };
enum { JOBS = 6 };

static tsr_status run(bench *b, const job *j, tsr__rel *out)
{
  tsr__rel_key keys[3] = { { .column = 0 }, { .column = 1 }, { .column = 2 } };
  tsr__rel_group_ask ask = { &b->in, keys, j->keys, j->aggs, j->agg_count };
  return tsr__rel_group(&ask, out, &b->stats, &b->error);
}

static tsr_status keep(bench *b, tsr__value **out)
{
  tsr__rel_key key = { .column = 1 };
  tsr__rel_group_ask ask = { &b->in, &key, 1, NULL, 0 };
  return tsr__rel_first_of_group(&ask, 2, out, &b->stats, &b->error);
}

/* ---- memory ---- */

/* Fails allocation n of a job (NULL: of keeping first rows). False: there were fewer. */
static bool fail_one(const job *j, int layout, int64_t n, int64_t *failures)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &allocator };
  bench b;
  tsr__rel out = { 0 };
  tsr__value *mask = NULL;
  bench_open(&b, &opts, layout, ROWS);
  state.fail_at = state.count + n;
  tsr_status status = j ? run(&b, j, &out) : keep(&b, &mask);
  bool failed = state.count >= state.fail_at;
  state.fail_at = 0;
  if (status) CHECK(!out.column && !mask && status == TSR_ENOMEM && *b.error.text);
  *failures += status != TSR_OK;
  tsr__rel_free(&out);
  tsr__value_release(mask);
  bench_close(&b);
  CHECK_I64(state.live, 0);
  if (!failed) CHECK_I64(status, TSR_OK);
  return failed;
}

TEST_TIMEOUT(nothing_leaks_when_memory_is_short, 300)
{
  static const int layouts[] = { 0, 3, 9 };
  for (int l = 0; l < (test_quick() ? 2 : 3); l++)
    for (int k = 0; k <= JOBS; k++) {
      int64_t failures = 0, n = 1;
      while (fail_one(k < JOBS ? &jobs[k] : NULL, layouts[l], n, &failures)) n++;
      CHECK(failures > 3);
    }
}

/* A job takes no more than it says, succeeds with that much, and says so before it starts with
 * less. */
static void check_need(const job *j, int layout)
{
  bench b;
  tsr__rel out;
  bench_open(&b, NULL, layout, LARGE);
  int64_t held = rel_most_held(b.rt, false);
  CHECK_STATUS(run(&b, j, &out), TSR_OK, NULL);
  int64_t need = b.stats.need, taken = rel_most_held(b.rt, true) - held;
  if (taken > need)
    FAIL("layout %d, %d keys: took %lld bytes more and said %lld", layout, j->keys,
         (long long)taken, (long long)need);
  tsr__rel_free(&out);
  bench_close(&b);
  tsr_runtime_opts opts = { .size = sizeof opts, .memory_limit = held + need };
  bench_open(&b, &opts, layout, LARGE);
  tsr_status status = run(&b, j, &out);
  if (status) FAIL("layout %d, %d keys: %s", layout, j->keys, b.error.text);
  tsr__rel_free(&out);
  bench_close(&b);
  opts.memory_limit = held + need / 20;
  bench_open(&b, &opts, layout, LARGE);
  int64_t before = rel_most_held(b.rt, true);
  CHECK_I64(run(&b, j, &out), TSR_ENOMEM);
  CHECK_STR_HAS(b.error.text, "group by needs");
  CHECK_STR_HAS(b.error.text, ".memory_limit");
  CHECK_I64(rel_most_held(b.rt, true), before);
  bench_close(&b);
}

TEST_TIMEOUT(the_need_is_said_before_it_is_taken, 120)
{
  static const int layouts[] = { 0, 3, 8, 9 };
  for (int l = 0; l < 4; l++)
    for (int k = 0; k < JOBS; k++) check_need(&jobs[k], layouts[l]);
}

/* ---- cancelling ---- */

static bool stop(const char *what, int64_t done, int64_t total, void *user)
{
  (void)what;
  (void)done;
  (void)total;
  return (*(int64_t *)user)-- > 0;
}

TEST_TIMEOUT(the_progress_callback_cancels, 120)
{
  static const int layouts[] = { 0, 4 };
  for (int l = 0; l < 2; l++)
    for (int k = 0; k < JOBS; k++) {
      int64_t left = INT64_MAX; /* until the rows are there */
      tsr_runtime_opts opts = {
        .size = sizeof opts, .threads = 1, .progress = stop, .progress_user = &left
      };
      bench b;
      tsr__rel out = { 0 };
      bench_open(&b, &opts, layouts[l], LARGE);
      int64_t held = rel_most_held(b.rt, false);
      left = 0;
      b.rt->progress_gap = 0;
      CHECK_I64(run(&b, &jobs[k], &out), TSR_ECANCELLED);
      CHECK_STR_HAS(b.error.text, "cancelled");
      CHECK_I64(rel_most_held(b.rt, false), held);
      bench_close(&b);
    }
}

/* ---- what is said ---- */

static int64_t rows_of(const tsr__rel_stats *stats, const char *what)
{
  for (int i = 0; i < stats->move_count; i++)
    if (!strcmp(stats->move[i].what, what)) return stats->move[i].rows;
  return -1;
}

TEST(few_groups_move_no_rows)
{
  bench b;
  tsr__rel out;
  bench_open(&b, NULL, 4, LARGE); /* x=4 */
  CHECK_STATUS(run(&b, &jobs[0], &out), TSR_OK, NULL);
  CHECK_STR(b.stats.method, "direct tables, then records");
  CHECK_I64(rows_of(&b.stats, "records of groups"), 3 * 21);
  CHECK_I64(rows_of(&b.stats, "rows by key"), -1);
  CHECK_I64(out.total, 21);
  tsr__rel_free(&out);
  b.stats = (tsr__rel_stats){ 0 };
  CHECK_STATUS(run(&b, &jobs[2], &out), TSR_OK, NULL);
  CHECK_STR(b.stats.method, "hash tables, then rows");
  CHECK(rows_of(&b.stats, "rows by key") > LARGE / 2);
  tsr__rel_free(&out);
  bench_close(&b);
}

TEST(one_part_and_replicas_move_nothing)
{
  static const int layouts[] = { 0, 1, 12 }; /* unplaced, x=1, replicated over x=3 */
  for (int l = 0; l < 3; l++)
    for (int k = 0; k < JOBS; k++) {
      bench b;
      tsr__rel out;
      bench_open(&b, NULL, layouts[l], ROWS);
      CHECK_STATUS(run(&b, &jobs[k], &out), TSR_OK, NULL);
      CHECK_I64(b.stats.move_count, 0);
      tsr__rel_free(&out);
      bench_close(&b);
    }
}

/* ---- keys that nearly all differ ---- */

/* Groups of `in` as they are on one part, and which rows are kept. */
static void compare_with_one_part(const job *j, int layout, int64_t rows)
{
  rel_host expected, found;
  tsr__rel out;
  bench one, many;
  bench_open(&one, NULL, 0, rows);
  bench_open(&many, NULL, layout, rows);
  CHECK_STATUS(run(&one, j, &out), TSR_OK, NULL);
  rel_read(&out, &expected);
  tsr__rel_free(&out);
  CHECK_STATUS(run(&many, j, &out), TSR_OK, NULL);
  rel_read(&out, &found);
  tsr__rel_free(&out);
  CHECK(found.rows > rows / 3 && found.rows < rows);
  rel_check(&found, &expected, "groups");
  rel_host_free(&expected);
  rel_host_free(&found);
  bench_close(&one);
  bench_close(&many);
}

TEST_TIMEOUT(keys_that_nearly_all_differ, 120)
{
  /* Large enough that parts leave their rows alone. */
  enum { MANY = 600000 };
  compare_with_one_part(&jobs[1], 2, MANY);
  compare_with_one_part(&jobs[2], 4, MANY);
  bench one, many;
  tsr__value *expected, *found;
  bench_open(&one, NULL, 0, MANY);
  bench_open(&many, NULL, 2, MANY);
  CHECK_STATUS(keep(&one, &expected), TSR_OK, NULL);
  CHECK_STATUS(keep(&many, &found), TSR_OK, NULL);
  uint8_t *a = test_guarded(MANY), *b = test_guarded(MANY);
  tsr__error error = { 0 };
  CHECK_I64(tsr__value_fetch(expected, a, "test", &error), TSR_OK);
  CHECK_I64(tsr__value_fetch(found, b, "test", &error), TSR_OK);
  CHECK_BYTES(b, a, MANY);
  tsr__value_release(expected);
  tsr__value_release(found);
  bench_close(&one);
  bench_close(&many);
}
