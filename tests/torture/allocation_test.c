/* Every allocation of the main job, of a job on a table and of one on arrays fails once, and once
 * for good: always a clear status, never a leak, and the right answer once memory is there. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "support/first_axis.h"
#include "tessera.h"

enum { ROWS = 3000 };

/* The main job on 4 devices: 0 and the sums, or the status of what failed. */
static tsr_status main_job(const tsr_allocator *allocator, double out[3])
{
  static double revenue[ROWS];
  static int64_t sessions[ROWS];
  for (int i = 0; i < ROWS; i++) {
    revenue[i] = i % 200 + 0.25;
    sessions[i] = i % 9;
  }
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .allocator = allocator, .threads = 1);
  tsr_mesh *mesh = tsr_mesh_default(rt, "data");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_new(
      s, { "revenue", tsr_put(s, revenue, TSR_F64, TSR_SHAPE(ROWS), tsr_on(mesh, "data")) },
      { "sessions", tsr_put(s, sessions, TSR_I64, TSR_SHAPE(ROWS), tsr_on(mesh, "data")) });
  df = tsr_frame_filter(df, "revenue > ? and sessions > 0", 50);
  df = tsr_frame_assign(df, "rps", "revenue / sessions");
  df = tsr_frame_agg(df, "a = sum(revenue), b = sum(sessions), c = max(rps)");
  tsr_table *table = NULL;
  tsr_status status = tsr_frame_collect(df, &table);
  if (status) CHECK(strlen(tsr_message(s)) > 0 || tsr_runtime_status(rt) != TSR_OK);
  for (int i = 0; i < 3 && !status; i++) out[i] = tsr_table_f64(table, 0, i);
  if (status) CHECK(table == NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status;
}

/* A CSV file read, filtered, derived, grouped, printed and turned into an array. */
static tsr_status table_job(const tsr_allocator *allocator, double out[3])
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3", .allocator = allocator, .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("t.csv"));
  df = tsr_frame_filter(df, "a > ? and (t != ? or t is null)", 1.5, "z");
  df = tsr_frame_assign(df, "c", "a * b + 1");
  tsr_frame *by = tsr_frame_group_agg(df, "t, d", "n = count(), s = sum(c), m = mean(a)");
  FILE *sink = fopen("/dev/null", "w");
  tsr_status status = tsr_frame_print(by, sink);
  fclose(sink);
  tsr_table *table = NULL;
  if (!status) status = tsr_frame_collect(by, &table);
  if (!status) out[0] = tsr_table_f64(table, 1, 3);
  tsr_row *row = tsr_frame_row(tsr_frame_sum(tsr_frame_select(tsr_frame_head(df, 5), "a, c")));
  if (!status) status = tsr_row_status(row);
  if (!status) out[1] = tsr_row_f64(row, "c");
  tsr_array *a = tsr_frame_column(df, "a");
  if (!status) status = tsr_read_scalar(tsr_sum(a), &out[2]);
  if (status) CHECK(strlen(tsr_message(s)) > 0 || tsr_runtime_status(rt) != TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status;
}

/* Draws, reshards, takes, chooses, saves and reads arrays. */
static tsr_status array_job(const tsr_allocator *allocator, double out[3])
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .allocator = allocator, .threads = 1);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  tsr_scope *outer = tsr_scope_open(rt), *s = tsr_scope_open(outer);
  tsr_array *u = tsr_uniform(s, .key = 3, .shape = TSR_SHAPE(9, 5), .on = tsr_on(mesh, "x,y"));
  tsr_array *moved = tsr_reshard(u, tsr_on(mesh, "y+x,-"));
  tsr_array *taken = tsr_take(moved, tsr_iota(s, TSR_I64, TSR_SHAPE(4), 0, tsr_on(mesh, "x")), 0);
  tsr_array *chosen = tsr_where(tsr_gt(taken, 0.5), taken, 0);
  tsr_array *drawn = tsr_poisson(s, 4, .key = 5, .shape = TSR_SHAPE(30), .on = tsr_on(mesh, "x"));
  tsr_array *kept = tsr_keep(outer, tsr_var(chosen, .dims = TSR_DIMS(1)));
  tsr_status status = tsr_save_npy(moved, test_tmp("m.npy"));
  tsr_array *again = tsr_load_npy(s, test_tmp("m.npy"), tsr_on(mesh, "-,x+y"));
  if (!status) status = tsr_read_scalar(tsr_sum(again), &out[0]);
  if (!status) status = tsr_read_scalar(tsr_sum(kept), &out[1]);
  if (!status) status = tsr_read_scalar(tsr_max(drawn), &out[2]);
  CHECK(tsr_text_of(chosen) && tsr_devices_of(moved) && tsr_dump(again) && tsr_explain(&again, 1));
  if (status)
    CHECK(strlen(tsr_message(s)) > 0 || strlen(tsr_message(outer)) > 0 ||
          tsr_runtime_status(rt) != TSR_OK);
  tsr_scope_close(s);
  tsr_scope_close(outer);
  tsr_runtime_close(rt);
  return status;
}

/* Joins, sorts, numbers and cuts rows of a file and of arrays. */
static tsr_status rows_job(const tsr_allocator *allocator, double out[3])
{
  static const int64_t key[4] = { 5, 2, 4, 2 };
  static const char *const words[4] = { "w", "x", NULL, "y\ny" };
  tsr_runtime *rt = tsr_runtime_open("cpu:3", .allocator = allocator, .threads = 1);
  tsr_mesh *mesh = tsr_mesh_default(rt, "data");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("t.csv"), .on = first_axis(mesh));
  tsr_frame *right =
      tsr_frame_new(s, { "b", tsr_put(s, key, TSR_I64, TSR_SHAPE(4), tsr_on(mesh, "data")) });
  right = tsr_frame_text_column(right, "t", words, 4);
  tsr_frame *both = tsr_frame_join(tsr_frame_filter(df, "a < 7"), right, "t", .how = TSR_JOIN_LEFT);
  tsr_frame *sorted = tsr_frame_sort(both, "t desc nulls first, a + 1 desc");
  sorted = tsr_frame_tail(tsr_frame_with_row_index(tsr_frame_limit(sorted, 1, 9), "row"), 4);
  tsr_table *table = NULL;
  tsr_status status = tsr_frame_collect(sorted, &table);
  if (!status) out[0] = tsr_table_f64(table, 1, 1);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(sorted, "x = sum(row * a)"));
  if (!status) status = tsr_row_status(row);
  if (!status) out[1] = tsr_row_f64(row, "x");
  tsr_frame *by = tsr_frame_group_agg(tsr_frame_sort(df, "a desc"), "t desc", "m = max(b)");
  if (!status) status = tsr_frame_collect(by, &table);
  if (!status) out[2] = tsr_table_f64(table, 0, 1);
  if (status) CHECK(strlen(tsr_message(s)) > 0 || tsr_runtime_status(rt) != TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status;
}

/* The first rows of more than are sorted at once. */
static tsr_status top_job(const tsr_allocator *allocator, double out[3])
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3", .allocator = allocator, .threads = 1);
  tsr_sharding at = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_uniform(s, .key = 5, .shape = TSR_SHAPE(5000), .on = at);
  tsr_frame *df = tsr_frame_assign(tsr_frame_new(s, { "x", x }), "y", "if(x < 0.5, null, x)");
  tsr_table *table = NULL;
  tsr_frame *top = tsr_frame_head(tsr_frame_sort(df, "y desc, x"), 3);
  tsr_status status = tsr_frame_collect(top, &table);
  for (int i = 0; i < 3 && !status; i++) out[i] = tsr_table_f64(table, i, 1);
  if (status) CHECK(strlen(tsr_message(s)) > 0 || tsr_runtime_status(rt) != TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status;
}

/* Groups by keys of all kinds, distinct rows, samples, several frames after one another, moved. */
static tsr_status groups_job(const tsr_allocator *allocator, double out[3])
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3", .allocator = allocator, .threads = 1);
  tsr_mesh *mesh = tsr_mesh_default(rt, "data");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("t.csv"), .on = first_axis(mesh));
  df = tsr_frame_concat(df, tsr_frame_assign(tsr_frame_gather(df), "t", "'new'"),
                        tsr_frame_scatter(tsr_frame_head(df, 3), tsr_on(mesh, "-")));
  tsr_frame *by =
      tsr_frame_group_agg(df, "a, t desc",
                          "m = median(b) + count(), u = nunique(d), l = max(t), s = sum(a)");
  tsr_table *table = NULL;
  tsr_status status = tsr_frame_collect(by, &table);
  if (!status) out[0] = tsr_table_f64(table, 1, 2);
  tsr_frame *some = tsr_frame_sample(tsr_frame_distinct(df, "t, b"), .rows = 4, .seed = 3);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(some, "x = sum(a), y = quantile(a, 0.5)"));
  if (!status) status = tsr_row_status(row);
  if (!status) out[1] = tsr_row_f64(row, "x") + tsr_row_f64(row, "y");
  tsr_frame *even = tsr_frame_rebalance(tsr_frame_group_head(some, "t", 1));
  tsr_frame *same =
      tsr_frame_join(even, even, "lower(t), cast(a, 'text') = cast(a, 'text')", .unique = true);
  if (!status) status = tsr_frame_collect(tsr_frame_div(tsr_frame_select(same, "a"), 2), &table);
  if (!status) out[2] = tsr_table_f64(table, 0, 0);
  if (status) CHECK(strlen(tsr_message(s)) > 0 || tsr_runtime_status(rt) != TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status;
}

/* Functions of texts and dates, pairs of texts, casts to and from text, and a correlation. */
static tsr_status functions_job(const tsr_allocator *allocator, double out[3])
{
  static const double x[4] = { 1.5, -2, 0, 3 };
  static const char *const words[4] = { "Ab", "12", NULL, "ab" };
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .allocator = allocator, .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding at = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_frame *df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(4), at) });
  df = tsr_frame_text_column(df, "w", words, 4);
  df = tsr_frame_assign(df, "k", "concat(lower(w), '-', replace(w, 'b', 'cc'))");
  df = tsr_frame_assign(df, "n", "coalesce(try_cast(slice(w, 0, 1), 'i64'), length(w), 7)");
  df = tsr_frame_assign(df, "t", "concat(cast(x, 'text'), '@', cast(cast(n, 'date'), 'text'))");
  tsr_frame *by =
      tsr_frame_group_agg(df, "u = upper(w)", "n = count(), r = corr(x, n), l = max(length(t))");
  tsr_table *table = NULL;
  tsr_status status = tsr_frame_collect(by, &table);
  if (!status) out[0] = tsr_table_f64(table, 0, 1);
  if (!status) out[1] = tsr_table_f64(table, 0, 3);
  if (!status) status = tsr_frame_collect(tsr_frame_filter(df, "contains(t, k) or n > 1"), &table);
  if (!status) out[2] = (double)tsr_table_row_count(table);
  if (status) CHECK(strlen(tsr_message(s)) > 0 || tsr_runtime_status(rt) != TSR_OK);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status;
}

typedef tsr_status (*job_fn)(const tsr_allocator *allocator, double out[3]);

static void fail_each(job_fn job, bool stay)
{
  double expected[3] = { 0 }, found[3] = { 0 };
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  CHECK_STATUS(job(&allocator, expected), TSR_OK, NULL);
  CHECK_I64(state.live, 0);
  int64_t total = state.count, failures = 0;
  CHECK(total > 20);
  for (int64_t n = 1; n <= total; n++) {
    state = (struct test_alloc){ .fail_at = n, .stay = stay };
    tsr_status status = job(&allocator, found);
    if (state.live)
      FAIL("allocation %lld of %lld fails: %lld blocks leak", (long long)n, (long long)total,
           (long long)state.live);
    if (status == TSR_OK) {
      for (int i = 0; i < 3; i++) CHECK_F64_BITS(found[i], expected[i]);
      continue;
    }
    failures++;
    if (status != TSR_ENOMEM)
      FAIL("allocation %lld of %lld fails: %s", (long long)n, (long long)total,
           tsr_status_name(status));
  }
  CHECK(failures > 10);
}

TEST_TIMEOUT(any_allocation_of_the_main_job_may_fail_once, 300)
{
  fail_each(main_job, false);
}

TEST_TIMEOUT(memory_may_end_at_any_allocation_of_the_main_job, 300)
{
  fail_each(main_job, true);
}

static void write_table(void)
{
  static const char text[] =
      "a,b,t,d\n1,2,x,2013-01-01\n2,3,\"y\ny\",2013-01-02\n2.5,,x,2013-01-01\n"
      "4,5,,2013-01-03\n5,6,z,\n6,7,x,2013-01-01\n7,NA,w,2013-01-02\n";
  test_write(test_tmp("t.csv"), text, sizeof text - 1);
}

TEST_TIMEOUT(any_allocation_of_a_table_job_may_fail_once, 300)
{
  write_table();
  fail_each(table_job, false);
}

TEST_TIMEOUT(memory_may_end_at_any_allocation_of_a_table_job, 300)
{
  write_table();
  fail_each(table_job, true);
}

TEST_TIMEOUT(any_allocation_of_an_array_job_may_fail_once, 300)
{
  fail_each(array_job, false);
}

TEST_TIMEOUT(memory_may_end_at_any_allocation_of_an_array_job, 300)
{
  fail_each(array_job, true);
}

TEST_TIMEOUT(any_allocation_of_a_rows_job_may_fail_once, 300)
{
  write_table();
  fail_each(rows_job, false);
}

TEST_TIMEOUT(memory_may_end_at_any_allocation_of_a_rows_job, 300)
{
  write_table();
  fail_each(rows_job, true);
}

TEST_TIMEOUT(any_allocation_of_a_top_job_may_fail_once, 300)
{
  fail_each(top_job, false);
}

TEST_TIMEOUT(memory_may_end_at_any_allocation_of_a_top_job, 300)
{
  fail_each(top_job, true);
}

TEST_TIMEOUT(any_allocation_of_a_groups_job_may_fail_once, 300)
{
  write_table();
  fail_each(groups_job, false);
}

TEST_TIMEOUT(memory_may_end_at_any_allocation_of_a_groups_job, 300)
{
  write_table();
  fail_each(groups_job, true);
}

TEST_TIMEOUT(any_allocation_of_a_functions_job_may_fail_once, 300)
{
  fail_each(functions_job, false);
}

TEST_TIMEOUT(memory_may_end_at_any_allocation_of_a_functions_job, 300)
{
  fail_each(functions_job, true);
}
