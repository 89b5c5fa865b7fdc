/* Every allocation of the main job fails once, and once for good: always a clear status, never a
 * leak, and the right answer as soon as memory is there. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
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

static void fail_each(bool stay)
{
  double expected[3] = { 0 }, found[3] = { 0 };
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  CHECK_STATUS(main_job(&allocator, expected), TSR_OK, NULL);
  CHECK_I64(state.live, 0);
  int64_t total = state.count, failures = 0;
  CHECK(total > 20);
  for (int64_t n = 1; n <= total; n++) {
    state = (struct test_alloc){ .fail_at = n, .stay = stay };
    tsr_status status = main_job(&allocator, found);
    if (state.live)
      FAIL("allocation %lld of %lld fails: %lld blocks leak", (long long)n, (long long)total,
           (long long)state.live);
    if (status == TSR_OK) {
      for (int i = 0; i < 3; i++) CHECK_F64_BITS(found[i], expected[i]);
      continue;
    }
    failures++;
    CHECK_STATUS(status, TSR_ENOMEM, NULL);
  }
  CHECK(failures > 10);
}

TEST_TIMEOUT(any_allocation_of_the_main_job_may_fail_once, 300)
{
  fail_each(false);
}

TEST_TIMEOUT(memory_may_end_at_any_allocation_of_the_main_job, 300)
{
  fail_each(true);
}
