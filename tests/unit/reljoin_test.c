/* Joins of tables: how they are done and what they move, limits, lost memory, cancelling. What they
 * give is the law test's. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/join_fixture.h"
#include "tessera.h"

/* {k i64, v f64} with `rows` rows: keys i * step % keys. */
static void fill(host_table *table, int64_t rows, int64_t keys, int64_t step)
{
  host_new(table, rows, 2);
  table->column[0].dtype = TSR_I64;
  table->column[1].dtype = TSR_F64;
  for (int64_t r = 0; r < rows; r++) {
    double number = (double)r;
    table->column[0].value[r] = r * step % keys;
    memcpy(&table->column[1].value[r], &number, sizeof number);
  }
}

typedef struct pair {
  host_table host[2];
  tsr__rel left, right;
  tsr__rel_key key;
  int take[1];
  tsr__rel_join_ask ask;
} pair;

static void put(pair *p, tsr_runtime *rt, tsr_sharding of_left, tsr_sharding of_right)
{
  host_put(&p->host[0], rt, &of_left, NULL, &p->left);
  host_put(&p->host[1], rt, &of_right, NULL, &p->right);
  p->key = (tsr__rel_key){ .column = 0 };
  p->take[0] = 1;
  p->ask = (tsr__rel_join_ask){ .left = &p->left,
                                .right = &p->right,
                                .left_keys = &p->key,
                                .right_keys = &p->key,
                                .key_count = 1,
                                .how = TSR__MATCH_INNER,
                                .take = p->take,
                                .take_count = 1 };
}

static void drop(pair *p)
{
  tsr__rel_free(&p->left);
  tsr__rel_free(&p->right);
}

static void join(const pair *p, int how, tsr__rel *out, tsr__rel_stats *stats)
{
  tsr__error error = { .status = TSR_OK };
  tsr__rel_join_ask ask = p->ask;
  host_table expected;
  bool repeats, want;
  ask.how = how;
  tsr_status status = tsr__rel_join(&ask, out, &repeats, stats, &error);
  if (status) FAIL("%s", error.text);
  host_join(&ask, &p->host[0], &p->host[1], &expected, &want);
  host_check(&expected, out);
  CHECK(repeats == want);
  host_free(&expected);
}

TEST(nothing_moves_where_the_right_side_is_whole)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  const tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  pair p;
  fill(&p.host[0], 1000, 100, 7);
  fill(&p.host[1], 80, 80, 1);
  put(&p, rt, tsr_on(mesh, "x"), tsr_on(mesh, "-"));
  count_copies(rt);
  for (int how = TSR__MATCH_INNER; how <= TSR__MATCH_ANTI; how++) {
    tsr__rel out;
    tsr__rel_stats stats;
    join(&p, how, &out, &stats);
    CHECK_STR(stats.method, "direct table");
    CHECK_I64(stats.move_count, 0);
    CHECK(stats.need > 0);
    tsr__rel_free(&out);
  }
  CHECK_I64(copied_bytes(), 0);
  drop(&p);
  host_free(&p.host[0]);
  host_free(&p.host[1]);
  tsr_runtime_close(rt);
}

/* Left rows that all stay share their buffers with the left table. */
TEST(rows_that_stay_are_not_copied)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  const tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  pair p;
  fill(&p.host[0], 500, 80, 7);
  fill(&p.host[1], 80, 80, 1);
  put(&p, rt, tsr_on(mesh, "x"), tsr_on(mesh, "-"));
  tsr__rel out;
  tsr__rel_stats stats;
  join(&p, TSR__MATCH_INNER, &out, &stats);
  for (int c = 0; c < 2; c++)
    for (int at = 0; at < 2; at++)
      CHECK(out.column[c].values->parts[at] == p.left.column[c].values->parts[at]);
  CHECK(!out.column[2].valid);
  tsr__rel_free(&out);
  drop(&p);
  host_free(&p.host[0]);
  host_free(&p.host[1]);
  tsr_runtime_close(rt);
}

TEST(small_right_sides_go_to_all)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  const tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  pair p;
  fill(&p.host[0], 2000, 100, 7);
  fill(&p.host[1], 80, 80, 1);
  put(&p, rt, tsr_on(mesh, "x"), tsr_on(mesh, "x"));
  tsr__rel out;
  tsr__rel_stats stats;
  count_copies(rt);
  join(&p, TSR__MATCH_LEFT, &out, &stats);
  CHECK_STR(stats.method, "broadcast");
  CHECK_I64(stats.move_count, 1);
  CHECK_STR(stats.move[0].what, "right rows to all");
  CHECK_I64(stats.move[0].rows, 3 * 80);
  CHECK_I64(stats.move[0].bytes, 3 * 80 * 16);
  CHECK_I64(copied_bytes(), 3 * 80 * 16);
  CHECK(out.column[2].valid != NULL);
  tsr__rel_free(&out);
  drop(&p);
  host_free(&p.host[0]);
  host_free(&p.host[1]);
  tsr_runtime_close(rt);
}

/* Left columns and row numbers never travel: a key there, a bit back, and the matched right rows. */
TEST(keys_of_large_tables_meet_at_owners)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  const tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  pair p;
  fill(&p.host[0], 1000, 1100, 7);
  fill(&p.host[1], 1000, 1000, 3);
  put(&p, rt, tsr_on(mesh, "x"), tsr_on(mesh, "x"));
  tsr__rel out;
  tsr__rel_stats stats;
  count_copies(rt);
  join(&p, TSR__MATCH_INNER, &out, &stats);
  CHECK_STR(stats.method, "keys exchanged");
  CHECK_I64(stats.move_count, 4);
  CHECK_STR(stats.move[0].what, "left keys to owners");
  CHECK_I64(stats.move[0].bytes, stats.move[0].rows * 8);
  CHECK(stats.move[0].rows < 1000);
  CHECK_STR(stats.move[1].what, "right rows to owners");
  CHECK_I64(stats.move[1].bytes, stats.move[1].rows * 16);
  CHECK_STR(stats.move[2].what, "answers to left rows");
  CHECK(stats.move[2].bytes <= stats.move[2].rows / 8 + 16);
  CHECK_STR(stats.move[3].what, "right rows back");
  CHECK_I64(stats.move[3].bytes, stats.move[3].rows * 8);
  int64_t told = 0;
  for (int i = 0; i < 4; i++) told += stats.move[i].bytes;
  CHECK_I64(told, copied_bytes());
  tsr__rel_free(&out);
  join(&p, TSR__MATCH_SEMI, &out, &stats);
  CHECK_STR(stats.method, "keys exchanged");
  CHECK_I64(stats.move_count, 3);
  CHECK_I64(stats.move[1].bytes, stats.move[1].rows * 8);
  tsr__rel_free(&out);
  drop(&p);
  host_free(&p.host[0]);
  host_free(&p.host[1]);
  tsr_runtime_close(rt);
}

/* Each device must hold its limit's worth for the way taken; the message comes before anything is
 * held. */
TEST(limits_are_told_before_anything_is_held)
{
  static const char *const specs[] = { "-", "x" };
  for (int s = 0; s < 2; s++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:2", .memory_limit = 1 << 20);
    const tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
    pair p;
    fill(&p.host[0], 40000, 40000, 7);
    fill(&p.host[1], s ? 40000 : 20000, 40000, 3);
    put(&p, rt, tsr_on(mesh, "x"), tsr_on(mesh, specs[s]));
    int64_t held = tsr_device_memory(rt, 0).now;
    tsr__error error = { .status = TSR_OK };
    tsr__rel out;
    tsr__rel_stats stats;
    bool repeats;
    CHECK_STATUS(tsr__rel_join(&p.ask, &out, &repeats, &stats, &error), TSR_ENOMEM, NULL);
    CHECK_STR_HAS(error.text, "join needs ");
    CHECK_STR_HAS(error.text, "of the 1048576 that .memory_limit allows");
    CHECK_I64(tsr_device_memory(rt, 0).now, held);
    CHECK_I64(tsr_device_memory(rt, 0).peak, held);
    drop(&p);
    host_free(&p.host[0]);
    host_free(&p.host[1]);
    tsr_runtime_close(rt);
  }
}

/* The result is what has no room: known once matches are counted, before it is made. */
TEST(results_too_large_are_told_before_they_are_made)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .memory_limit = 8 << 20);
  pair p;
  fill(&p.host[0], 2000, 1, 1);
  fill(&p.host[1], 2000, 1, 1);
  put(&p, rt, (tsr_sharding){ .mesh = NULL }, (tsr_sharding){ .mesh = NULL });
  int64_t held = tsr_device_memory(rt, 0).now;
  tsr__error error = { .status = TSR_OK };
  tsr__rel out;
  tsr__rel_stats stats;
  bool repeats;
  CHECK_STATUS(tsr__rel_join(&p.ask, &out, &repeats, &stats, &error), TSR_ENOMEM, NULL);
  CHECK_STR_HAS(error.text, "join needs 1");
  CHECK_STR_HAS(error.text, "8388608");
  CHECK_I64(tsr_device_memory(rt, 0).now, held);
  CHECK(tsr_device_memory(rt, 0).peak < held + 200000);
  drop(&p);
  host_free(&p.host[0]);
  host_free(&p.host[1]);
  tsr_runtime_close(rt);
}

/* Every allocation of a join fails once: a clear status, nothing held, nothing leaked. */
static void check_losses(const char *right_spec, int64_t right_rows, int how, const char *method)
{
  bool worked = false;
  host_table host[2];
  fill(&host[0], 300, 130, 7);
  fill(&host[1], right_rows, right_rows > 130 ? 120 : 130, 1);
  host[1].column[1].nullable = true;
  for (int64_t n = 1; !worked; n++) {
    struct test_alloc state = { 0 };
    tsr_allocator allocator = test_allocator(&state);
    tsr_runtime *rt = tsr_runtime_open("cpu:3", .threads = 1, .allocator = &allocator);
    const tsr_mesh *mesh = tsr_mesh_make(rt, "x=3");
    pair p = { .host = { host[0], host[1] } };
    put(&p, rt, tsr_on(mesh, "x"), tsr_on(mesh, right_spec));
    p.ask.how = how;
    int64_t held = tsr_device_memory(rt, 1).now, live = state.live;
    state.fail_at = state.count + n;
    tsr__error error = { .status = TSR_OK };
    tsr__rel out;
    tsr__rel_stats stats;
    bool repeats;
    tsr_status status = tsr__rel_join(&p.ask, &out, &repeats, &stats, &error);
    worked = status == TSR_OK;
    if (worked) {
      CHECK_STR(stats.method, method);
      tsr__rel_free(&out);
    } else {
      CHECK_STATUS(status, TSR_ENOMEM, NULL);
      CHECK(error.text[0]);
      CHECK(!out.column);
    }
    CHECK_I64(tsr_device_memory(rt, 1).now, held);
    CHECK(state.live >= live);
    drop(&p);
    tsr_runtime_close(rt);
    CHECK_I64(state.live, 0);
  }
  host_free(&host[0]);
  host_free(&host[1]);
}

TEST(every_allocation_may_fail)
{
  check_losses("-", 50, TSR__MATCH_LEFT, "direct table");
  check_losses("x", 20, TSR__MATCH_INNER, "broadcast");
  check_losses("x", 400, TSR__MATCH_LEFT, "keys exchanged");
  check_losses("x", 400, TSR__MATCH_ANTI, "keys exchanged");
}

static bool stop(const char *what, int64_t done, int64_t total, void *user)
{
  (void)what;
  (void)done;
  (void)total;
  return --*(int *)user > 0;
}

/* Wherever the callback says no, the join ends and nothing is held. */
TEST(the_callback_cancels_anywhere)
{
  host_table host[2];
  fill(&host[0], 400000, 400000, 7);
  fill(&host[1], 400000, 200000, 3);
  for (int calls = 1; calls < 4; calls++) {
    int left_calls = calls;
    tsr_runtime *rt =
        tsr_runtime_open("cpu:2", .threads = 2, .progress = stop, .progress_user = &left_calls);
    const tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
    pair p = { .host = { host[0], host[1] } };
    put(&p, rt, tsr_on(mesh, "x"), tsr_on(mesh, "x"));
    int64_t held = tsr_device_memory(rt, 0).now;
    tsr__error error = { .status = TSR_OK };
    tsr__rel out;
    tsr__rel_stats stats;
    bool repeats;
    tsr_status status = tsr__rel_join(&p.ask, &out, &repeats, &stats, &error);
    if (calls == 1) CHECK_STATUS(status, TSR_ECANCELLED, NULL);
    if (!status) tsr__rel_free(&out);
    else CHECK_STATUS(status, TSR_ECANCELLED, NULL);
    CHECK_I64(tsr_device_memory(rt, 0).now, held);
    drop(&p);
    tsr_runtime_close(rt);
  }
  host_free(&host[0]);
  host_free(&host[1]);
}
