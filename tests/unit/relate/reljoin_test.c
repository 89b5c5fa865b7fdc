/* Joins of tables: how they are done and what they move, limits, lost memory, cancelling. What they
 * give is the law test's. */
#include <stdio.h>
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

/* Two tables on the devices of a mesh "x=...", the right one placed as `of_right` says. */
typedef struct pair {
  tsr_runtime *rt;
  host_table host[2];
  tsr__rel left, right;
  tsr__rel_key key;
  int take[1];
  tsr__rel_join_ask ask;
} pair;

static void put(pair *p, tsr_runtime *rt, const char *mesh_spec, const char *of_right)
{
  tsr_sharding at[2] = { { .mesh = NULL }, { .mesh = NULL } };
  if (mesh_spec) {
    const tsr_mesh *mesh = tsr_mesh_make(rt, mesh_spec);
    at[0] = tsr_on(mesh, "x");
    at[1] = tsr_on(mesh, of_right);
  }
  p->rt = rt;
  host_put(&p->host[0], rt, &at[0], NULL, &p->left);
  host_put(&p->host[1], rt, &at[1], NULL, &p->right);
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

/* What put made, and the runtime. */
static void drop(pair *p)
{
  tsr__rel_free(&p->left);
  tsr__rel_free(&p->right);
  tsr_runtime_close(p->rt);
}

/* Keys of the rows r: r * step % keys. */
typedef struct keys {
  int64_t rows, keys, step;
} keys;

static void open_pair(pair *p, tsr_runtime *rt, const char *mesh_spec, const char *of_right,
                      const keys sides[2])
{
  for (int i = 0; i < 2; i++) fill(&p->host[i], sides[i].rows, sides[i].keys, sides[i].step);
  put(p, rt, mesh_spec, of_right);
}

static void close_pair(pair *p)
{
  drop(p);
  host_free(&p->host[0]);
  host_free(&p->host[1]);
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
  pair p;
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  open_pair(&p, rt, "x=4", "-", (keys[2]){ { 1000, 100, 7 }, { 80, 80, 1 } });
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
  close_pair(&p);
}

/* Left rows that all stay share their buffers with the left table. */
TEST(rows_that_stay_are_not_copied)
{
  pair p;
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  open_pair(&p, rt, "x=2", "-", (keys[2]){ { 500, 80, 7 }, { 80, 80, 1 } });
  tsr__rel out;
  tsr__rel_stats stats;
  join(&p, TSR__MATCH_INNER, &out, &stats);
  for (int c = 0; c < 2; c++)
    for (int at = 0; at < 2; at++)
      CHECK(out.column[c].values->parts[at] == p.left.column[c].values->parts[at]);
  CHECK(!out.column[2].valid);
  tsr__rel_free(&out);
  close_pair(&p);
}

TEST(small_right_sides_go_to_all)
{
  pair p;
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  open_pair(&p, rt, "x=4", "x", (keys[2]){ { 2000, 100, 7 }, { 80, 80, 1 } });
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
  close_pair(&p);
}

/* Left columns and row numbers never travel: a key there, a bit back, and the matched right
 * rows. */
TEST(keys_of_large_tables_meet_at_owners)
{
  pair p;
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  open_pair(&p, rt, "x=4", "x", (keys[2]){ { 1000, 1100, 7 }, { 1000, 1000, 3 } });
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
  close_pair(&p);
}

/* {a, b}: right rows hold both ends of all 64 bits as one key, and as two of 32. */
static void fill_ends(host_table *table, int64_t rows, tsr_dtype dtype)
{
  bool wide = dtype == TSR_I64;
  int64_t ends[2] = { wide ? INT64_MIN : INT32_MIN, wide ? INT64_MAX : INT32_MAX };
  host_new(table, rows, 2);
  for (int c = 0; c < 2; c++) {
    table->column[c].dtype = dtype;
    for (int64_t r = 0; r < rows; r++)
      table->column[c].value[r] = r % 5 < 2 ? ends[r % 5] : ends[0] + r;
  }
}

static void check_ends(int parts, int how, int count)
{
  char devices[16], mesh[16];
  tsr__rel_key both[2] = { { .column = 0 }, { .column = 1 } };
  tsr__rel found;
  tsr__rel_stats stats;
  pair p;
  snprintf(devices, sizeof devices, "cpu:%d", parts);
  snprintf(mesh, sizeof mesh, "x=%d", parts);
  for (int side = 0; side < 2; side++)
    fill_ends(&p.host[side], side ? 500 : 10, count == 1 ? TSR_I64 : TSR_I32);
  put(&p, tsr_runtime_open(devices), mesh, "x");
  p.ask.left_keys = p.ask.right_keys = both;
  p.ask.key_count = count;
  join(&p, how, &found, &stats);
  if (parts > 2) CHECK_STR(stats.method, "keys exchanged");
  tsr__rel_free(&found);
  close_pair(&p);
}

TEST(ends_of_64_bits_meet_at_owners)
{
  for (int parts = 1; parts <= 8; parts++)
    for (int how = TSR__MATCH_INNER; how <= TSR__MATCH_ANTI; how++)
      for (int count = 1; count <= 2; count++) check_ends(parts, how, count);
}

/* Each device must hold its limit's worth for the way taken; the message comes before anything is
 * held. */
TEST(limits_are_told_before_anything_is_held)
{
  static const char *const specs[] = { "-", "x" };
  for (int s = 0; s < 2; s++) {
    pair p;
    tsr_runtime *rt = tsr_runtime_open("cpu:2", .memory_limit = 1 << 20);
    open_pair(&p, rt, "x=2", specs[s],
              (keys[2]){ { 40000, 40000, 7 }, { s ? 40000 : 20000, 40000, 3 } });
    int64_t held = tsr_device_memory(rt, 0).now;
    tsr__error error = { .status = TSR_OK };
    tsr__rel out;
    tsr__rel_stats stats;
    bool repeats;
    CHECK_STATUS(tsr__rel_join(&p.ask, &out, &repeats, &stats, &error), TSR_ENOMEM, NULL);
    CHECK_STR_HAS(error.text, "join needs ");
    CHECK_STR_HAS(error.text, "of the 1048576 bytes that .memory_limit allows");
    CHECK_I64(tsr_device_memory(rt, 0).now, held);
    CHECK_I64(tsr_device_memory(rt, 0).peak, held);
    close_pair(&p);
  }
}

/* The result is what has no room: known once matches are counted, before it is made. */
TEST(results_too_large_are_told_before_they_are_made)
{
  pair p;
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .memory_limit = 8 << 20);
  open_pair(&p, rt, NULL, NULL, (keys[2]){ { 2000, 1, 1 }, { 2000, 1, 1 } });
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
  close_pair(&p);
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
    pair p = { .host = { host[0], host[1] } };
    put(&p, rt, "x=3", right_spec);
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
    rt->progress_gap = 0;
    pair p = { .host = { host[0], host[1] } };
    put(&p, rt, "x=2", "x");
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
  }
  host_free(&host[0]);
  host_free(&host[1]);
}
