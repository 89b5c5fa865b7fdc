/* What terminals need at least is told before they begin, and is never more than they take. */
#include "tessera.h"

#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 60000, SMALL = 3000 };

/* Three columns of numbers; one row, where no sample looks, has `late` in each. */
static const char *file_of(const char *name, int rows, const char *late)
{
  char *text = malloc((size_t)rows * 40 + 100), *at = text + sprintf(text, "k,a,b\n");
  for (int i = 0; i < rows; i++)
    if (i == rows / 10 * 7) at += sprintf(at, "%s,%s,%s\n", late, late, late);
    else at += sprintf(at, "%d,%d.5,%d\n", i * 7919 % (rows / 2), i, 1000000 + i);
  test_write(test_tmp(name), text, (size_t)(at - text));
  free(text);
  return test_tmp(name);
}

enum { SORT, SORT_MORE, TOP, LEFT, INNER, SEMI, CONCAT, MEDIAN, FILTER, GATHER, HEAD, CHAIN, JOBS };

static tsr_frame *job_of(tsr_scope *s, const char *path, int job)
{
  tsr_frame *df = tsr_frame_read_csv(s, path);
  switch (job) {
  case SORT: return tsr_frame_sort(df, "a desc");
  case SORT_MORE: return tsr_frame_sort(tsr_frame_assign(df, "a2", "a is null"), "k, b");
  case TOP: return tsr_frame_head(tsr_frame_sort(df, "a"), 10);
  case LEFT:
    return tsr_frame_join(df, tsr_frame_select(df, "k, b2 = b, c = a"), "b = b2",
                          .how = TSR_JOIN_LEFT);
  case INNER: return tsr_frame_join(df, tsr_frame_select(df, "b2 = b, c = a"), "b = b2");
  case SEMI: return tsr_frame_join(df, tsr_frame_select(df, "b"), "b", .how = TSR_JOIN_SEMI);
  case CONCAT: return tsr_frame_concat(df, df, tsr_frame_head(df, 1));
  case MEDIAN: return tsr_frame_group_agg(df, "k", "m = median(b), f = first(a)");
  case FILTER: return tsr_frame_sort(tsr_frame_filter(df, "b >= 1000010"), "a");
  case GATHER: return tsr_frame_gather(df);
  case HEAD: return tsr_frame_sort(tsr_frame_head(df, 5), "a");
  default: break;
  }
  df = tsr_frame_sort(tsr_frame_concat(df, df), "b");
  return tsr_frame_sort(tsr_frame_agg(df, "n = count(), m = max(b)"), "n");
}

static tsr_status run(const char *devices, int64_t limit, const char *path, int job, int64_t *peak,
                      char *message)
{
  tsr_runtime *rt = tsr_runtime_open(devices, .memory_limit = limit);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_table *table;
  tsr_status status = tsr_frame_collect(job_of(s, path, job), &table);
  snprintf(message, 1000, "%s", tsr_message(s));
  *peak = 0;
  for (int d = 0; d < tsr_device_count(rt); d++)
    if (tsr_device_memory(rt, d).peak > *peak) *peak = tsr_device_memory(rt, d).peak;
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status;
}

/* With as much as a job took where there was no limit, nothing is refused beforehand: of files
 * whose types are known, and of one whose columns turn out to be text after all. */
TEST_TIMEOUT(room_is_a_lower_bound, 300)
{
  static const char *const devices[] = { "cpu:1", "cpu:4" };
  const char *path[] = { file_of("small.csv", SMALL, "7"), file_of("large.csv", ROWS, "7"),
                         file_of("late.csv", ROWS, "word") };
  char message[1000];
  for (int d = 0; d < 2; d++)
    for (int p = 0; p < 3; p++)
      for (int job = 0; job < JOBS; job++) {
        int64_t peak, peak_again;
        tsr_status status = run(devices[d], 0, path[p], job, &peak, message);
        if (status) CHECK(p == 2 && status != TSR_ENOMEM);
        if (status) continue;
        run(devices[d], peak, path[p], job, &peak_again, message);
        if (strstr(message, "at least")) printf("# %s, %d %d: %s\n", devices[d], p, job, message);
        CHECK(!strstr(message, "at least"));
      }
}

/* What cannot have room is told by one message, before anything is read. */
TEST(room_is_told_before_work)
{
  static const struct {
    int job;
    int64_t need; /* bytes a row of the file */
    const char *step;
  } cases[] = {
    { SORT, 24 + 4 + 24, "tsr_frame_sort" },
    { LEFT, 24 + 16, "tsr_frame_join" },
    { CONCAT, 24 + 48, "tsr_frame_concat" },
    { CHAIN, 8 + 16 + 8 + 16, "tsr_frame_sort" },
  };
  const char *path = file_of("small.csv", SMALL, "7");
  for (int i = 0; i < 4; i++) {
    char message[1000], least[100];
    int64_t peak, need = cases[i].need * SMALL;
    snprintf(least, sizeof least, "needs at least %lld more bytes for its %s", (long long)need,
             cases[i].step);
    CHECK_I64(run("cpu:1", need - 1, path, cases[i].job, &peak, message), TSR_ENOMEM);
    CHECK_STR_HAS(message, least);
    CHECK_STR_HAS(message, "that .memory_limit allows");
    CHECK_I64(peak, 0);
    run("cpu:1", need, path, cases[i].job, &peak, message);
    CHECK(!strstr(message, "at least"));
  }
}

/* The first rows of a file have room where all of them have none, also when they were counted. */
TEST(room_of_the_first_rows)
{
  const char *path = file_of("large.csv", ROWS, "7");
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .memory_limit = ROWS * 9);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, path);
  tsr_table *table;
  CHECK_I64(tsr_row_i64(tsr_frame_row(tsr_frame_agg(df, "n = count()")), "n"), ROWS);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_head(df, 5), &table), TSR_OK, s);
  CHECK_I64(tsr_table_row_count(table), 5);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_ENOMEM, s);
  tsr_runtime_close(rt);
}
