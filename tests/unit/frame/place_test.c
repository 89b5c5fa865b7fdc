/* Tables sorted and moved when memory is short, when somebody cancels, and when nothing need
 * move. */
#include "harness.h"

#include <string.h>

#include "support/rel_fixture.h"

enum { TABLES = 2 };

/* ---- the operators, by name ---- */

typedef struct bench {
  tsr_runtime *rt;
  tsr__rel in[TABLES];
  tsr_sharding to;
  tsr__rel_stats stats;
  tsr__error error;
} bench;

typedef tsr_status (*operator_fn)(bench *b, tsr__rel *out);

static tsr_status do_sort(bench *b, tsr__rel *out)
{
  static const tsr__rel_key keys[2] = { { .column = 1, .descending = true }, { .column = 0 } };
  tsr__rel_sort_ask ask = { &b->in[0], keys, 2 };
  return tsr__rel_sort(&ask, out, &b->stats, &b->error);
}

static tsr_status do_place(bench *b, tsr__rel *out)
{
  return tsr__rel_place(&b->in[0], &b->to, out, &b->stats, &b->error);
}

static tsr_status do_concat(bench *b, tsr__rel *out)
{
  const tsr__rel *both[2] = { &b->in[0], &b->in[1] };
  return tsr__rel_concat(both, 2, out, &b->stats, &b->error);
}

static const operator_fn operators[] = { do_sort, do_place, do_concat };
enum { OPERATORS = 3 };

/* Two tables of equal columns of every type, on the layout; ragged the first. */
static void bench_open(bench *b, const tsr_runtime_opts *opts, int layout, int64_t rows)
{
  test_rng rng = test_seeded(71);
  rel_host like = { .count = 5,
                    .dtype = { TSR_I64, TSR_F64, TSR_BOOL, TSR_I32, TSR_F32 },
                    .nulls = { false, true, true, false, true } };
  memset(b, 0, sizeof *b);
  b->rt = rel_open(opts);
  b->to = rel_sharding(b->rt, 4);
  for (int t = 0; t < TABLES; t++) {
    rel_host host;
    rel_host_like(&host, &like, rows);
    for (int c = 0; c < host.count; c++)
      for (int64_t i = 0; i < rows; i++) {
        host.null[c][i] = like.nulls[c] && !test_range(&rng, 0, 9);
        if (host.null[c][i]) continue;
        double value = test_uniform(&rng) - 0.5;
        float small = (float)value;
        uint64_t cell =
            like.dtype[c] == TSR_BOOL ? test_random(&rng) & 1 : test_random(&rng) % 1000;
        if (like.dtype[c] == TSR_F64) memcpy(&cell, &value, sizeof value);
        if (like.dtype[c] == TSR_F32) memcpy(&cell, &small, sizeof small);
        host.cell[c][i] = cell;
      }
    tsr_sharding sharding = rel_sharding(b->rt, layout);
    rel_make(b->rt, &sharding, &host, t ? NULL : &rng, &b->in[t]);
    rel_host_free(&host);
  }
}

static void bench_close(bench *b)
{
  for (int t = 0; t < TABLES; t++) tsr__rel_free(&b->in[t]);
  tsr_runtime_close(b->rt);
}

/* ---- memory ---- */

static void fail_each(operator_fn run, int layout)
{
  int64_t failures = 0;
  for (int64_t n = 1; n < 3000; n++) {
    struct test_alloc state = { 0 };
    tsr_allocator allocator = test_allocator(&state);
    bench b;
    tsr__rel out = { 0 };
    bench_open(&b, &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .allocator = &allocator },
               layout, 300);
    state.fail_at = state.count + n;
    tsr_status status = run(&b, &out);
    bool failed = state.count >= state.fail_at;
    state.fail_at = 0;
    if (status) CHECK(!out.column && status == TSR_ENOMEM && *b.error.text);
    failures += status != TSR_OK;
    tsr__rel_free(&out);
    bench_close(&b);
    CHECK_I64(state.live, 0);
    if (failed) continue;
    CHECK_STATUS(status, TSR_OK, NULL);
    CHECK(failures > 3);
    return;
  }
  FAIL("the operator never ran out of failures");
}

TEST_TIMEOUT(no_operator_leaks_when_memory_is_short, 300)
{
  for (int i = 0; i < OPERATORS; i++) {
    fail_each(operators[i], 0);
    fail_each(operators[i], 3);
    if (!test_quick()) fail_each(operators[i], 9);
  }
}

/* An operator takes no more than it says, and with exactly that much it succeeds. */
static void check_need(operator_fn run, int layout)
{
  bench b;
  tsr__rel out;
  tsr_runtime_opts opts = { .size = sizeof opts };
  bench_open(&b, NULL, layout, 100000);
  int64_t held = rel_most_held(b.rt, false);
  CHECK_STATUS(run(&b, &out), TSR_OK, NULL);
  int64_t need = b.stats.need;
  CHECK(need > 100000);
  int64_t taken = rel_most_held(b.rt, true) - held;
  if (taken > need)
    FAIL("layout %d: took %lld bytes more and said %lld", layout, (long long)taken,
         (long long)need);
  tsr__rel_free(&out);
  bench_close(&b);

  opts.memory_limit = held + need;
  bench_open(&b, &opts, layout, 100000);
  CHECK_STATUS(run(&b, &out), TSR_OK, NULL);
  tsr__rel_free(&out);
  bench_close(&b);

  opts.memory_limit = held + need / 2;
  bench_open(&b, &opts, layout, 100000);
  int64_t before = rel_most_held(b.rt, true);
  CHECK_STATUS(run(&b, &out), TSR_ENOMEM, NULL);
  CHECK_I64(rel_most_held(b.rt, true), before); /* it failed before it began */
  CHECK_STR_HAS(b.error.text, ".memory_limit");
  CHECK_STR_HAS(b.error.text, "more bytes on device");
  bench_close(&b);
}

TEST(operators_say_what_they_need)
{
  check_need(do_sort, 0);
  check_need(do_sort, 4);
  check_need(do_sort, 9);
  check_need(do_concat, 4);
  check_need(do_place, 0);
}

/* ---- cancelling ---- */

static bool never(const char *what, int64_t done, int64_t total, void *user)
{
  (void)what, (void)done, (void)total;
  return --*(int *)user > 0;
}

/* However late the callback says no, nothing is left behind. */
TEST(operators_can_be_cancelled)
{
  for (int calls = 1; calls < 4; calls++)
    for (int i = 0; i < OPERATORS; i++) {
      int left = 1 << 30;
      struct test_alloc state = { 0 };
      tsr_allocator allocator = test_allocator(&state);
      bench b;
      tsr__rel out = { 0 };
      tsr_runtime_opts opts = {
        .size = sizeof opts, .allocator = &allocator, .progress = never, .progress_user = &left
      };
      bench_open(&b, &opts, 4, 200000);
      b.rt->progress_gap = 0;
      left = calls;
      tsr_status status = operators[i](&b, &out);
      if (calls == 1 || status) {
        CHECK_STATUS(status, TSR_ECANCELLED, NULL);
        CHECK_STR_HAS(b.error.text, "cancelled");
      }
      tsr__rel_free(&out);
      bench_close(&b);
      CHECK_I64(state.live, 0);
    }
}

/* ---- nothing to move ---- */

TEST(what_lies_right_is_shared)
{
  bench b;
  tsr__rel out;
  bench_open(&b, NULL, 4, 1000);
  CHECK_STATUS(tsr__rel_place(&b.in[1], &b.in[1].sharding, &out, &b.stats, &b.error), TSR_OK, NULL);
  CHECK_I64(b.stats.move_count, 0);
  CHECK_I64(b.stats.need, 0);
  for (int c = 0; c < out.count; c++)
    for (int p = 0; p < 4; p++)
      CHECK(out.column[c].values->parts[p] == b.in[1].column[c].values->parts[p]);
  tsr__rel_free(&out);
  bench_close(&b);
}

/* From replicas to shares: each device has its rows already. */
TEST(replicas_are_cut_without_moving)
{
  bench b;
  tsr__rel whole, out;
  bench_open(&b, NULL, 0, 1000);
  tsr_mesh *mesh = tsr_mesh_make(b.rt, "x=4");
  tsr_sharding all = tsr_on(mesh, "-"), cut = tsr_on(mesh, "x");
  CHECK_STATUS(tsr__rel_place(&b.in[0], &all, &whole, &b.stats, &b.error), TSR_OK, NULL);
  CHECK_I64(b.stats.move[0].rows, 3000);
  b.stats = (tsr__rel_stats){ 0 };
  CHECK_STATUS(tsr__rel_place(&whole, &cut, &out, &b.stats, &b.error), TSR_OK, NULL);
  CHECK_I64(b.stats.move_count, 0);
  tsr__rel_free(&out);
  tsr__rel_free(&whole);
  bench_close(&b);
}

TEST(tables_of_other_columns_do_not_follow)
{
  bench b;
  tsr__rel out;
  bench_open(&b, NULL, 0, 10);
  b.in[1].count = 4;
  const tsr__rel *both[2] = { &b.in[0], &b.in[1] };
  CHECK_STATUS(tsr__rel_concat(both, 2, &out, NULL, &b.error), TSR_EDTYPE, NULL);
  CHECK_STR_HAS(b.error.text, "table 1 has other columns");
  b.in[1].count = 5;
  bench_close(&b);
}
