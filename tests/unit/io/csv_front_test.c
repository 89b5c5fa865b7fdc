/* The first rows of files: how many bytes are read for them, and that they are what a whole reading
 * gives, whatever stands behind them. */
#include "tessera.h"

#include "harness.h"
#include "io/csv/csv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 400000 };

static void write_large(const char *name, int64_t rows)
{
  FILE *out = fopen(test_tmp(name), "w");
  CHECK(out != NULL);
  fprintf(out, "id,x,word\n");
  for (int64_t r = 0; r < rows; r++)
    fprintf(out, "%" PRId64 ",%" PRId64 ".5,w%" PRId64 "\n", r, r % 1000, r % 17);
  CHECK_I64(fclose(out), 0);
}

/* Bytes that the process has read from files. */
static int64_t bytes_read(void)
{
  long long bytes = -1;
  FILE *in = fopen("/proc/self/io", "r");
  if (!in || fscanf(in, "rchar: %lld", &bytes) != 1) SKIP("the system does not count");
  fclose(in);
  return bytes;
}

static int64_t pread_counted(void *user, int fd, void *to, size_t length, int64_t offset)
{
  int64_t got = pread(fd, to, length, offset);
  *(int64_t *)user += got > 0 ? got : 0;
  return got;
}

TEST(the_reader_stops_behind_the_first_rows)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr__error error = { 0 };
  int64_t bytes = 0, rows;
  write_large("large.csv", ROWS);
  tsr__csv_opts opts = { .read = pread_counted, .user = &bytes };
  tsr__csv *csv = tsr__csv_open_with(rt, test_tmp("large.csv"), &opts, &error);
  int64_t opened = bytes;
  CHECK(csv && opened < 1 << 20);
  CHECK_STATUS(tsr__csv_front(csv, 3, &rows, &error), TSR_OK, NULL);
  CHECK(rows >= 3 && bytes - opened <= 100 << 10);
  bytes = 0;
  CHECK_STATUS(tsr__csv_front(csv, 3, &rows, &error), TSR_OK, NULL);
  CHECK_I64(bytes, 0);
  CHECK_STATUS(tsr__csv_front(csv, 50000, &rows, &error), TSR_OK, NULL);
  CHECK(rows >= 50000 && bytes <= 3 << 20);
  CHECK_STATUS(tsr__csv_count(csv, &rows, &error), TSR_OK, NULL);
  CHECK_I64(rows, ROWS);
  tsr__csv_close(csv);
  tsr_runtime_close(rt);
}

static int64_t first_id(tsr_frame *df, int64_t expected)
{
  tsr_table *t = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &t), TSR_OK, NULL);
  CHECK_I64(tsr_table_row_count(t), expected);
  return tsr_table_i64(t, 0, tsr_table_find(t, "id"));
}

/* What a head chooses is all that is read, with columns made and left out before it, and for what
 * follows it; a condition before it needs rows until so many passed it. */
TEST(heads_of_frames_read_no_more)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  write_large("large.csv", ROWS);
  int64_t at = bytes_read();
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("large.csv"));
  CHECK_I64(first_id(tsr_frame_head(df, 3), 3), 0);
  CHECK_I64(first_id(tsr_frame_limit(df, 1000, 5), 5), 1000);
  tsr_frame *made = tsr_frame_select(tsr_frame_assign(df, "y", "x + id"), "id, y");
  CHECK_I64(first_id(tsr_frame_sort(tsr_frame_head(made, 7), "y desc"), 7), 6);
  CHECK_I64(first_id(tsr_frame_filter(tsr_frame_head(df, 100), "id > 50"), 49), 51);
  CHECK_STR_HAS(tsr_frame_explain(tsr_frame_head(df, 9)), "no more than the first 9 rows are read");
  tsr_frame *few = tsr_frame_assign(tsr_frame_filter(df, "x > 3"), "z", "x * 2");
  CHECK_I64(first_id(tsr_frame_head(few, 3), 3), 3);
  CHECK_I64(first_id(tsr_frame_sort(tsr_frame_limit(few, 500, 20), "id desc"), 20), 522);
  CHECK_STR_HAS(tsr_frame_explain(tsr_frame_head(few, 3)), "are read until 3 of them pass");
  CHECK(bytes_read() - at < 4 << 20);
  CHECK_I64(first_id(tsr_frame_head(tsr_frame_filter(df, "id > 399990"), 5), 5), 399991);
  CHECK(bytes_read() - at > 6 << 20);
  int64_t rows;
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, s);
  CHECK_I64(rows, ROWS);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_head(df, ROWS + 1), &rows), TSR_OK, s);
  CHECK_I64(rows, ROWS);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_runtime_close(rt);
}

/* Conditions that few rows pass, early, late and never, on their way through fronts of several
 * lengths to a whole reading: rows are those that the numbers say. */
TEST(heads_behind_conditions_are_the_first_that_pass)
{
  static const int64_t from[] = {
    0, 10, 16383, 16384, 16390, 131071, 131080, 399999, ROWS, ROWS + 5
  };
  write_large("large.csv", ROWS);
  for (int devices = 1; devices <= 5; devices += 4)
    for (int i = 0; i < 10; i++)
      for (int step = 1; step <= 1001; step += 500) {
        char where[100], name[10];
        snprintf(name, sizeof name, "cpu:%d", devices);
        snprintf(where, sizeof where, "id >= %" PRId64 " and id %% %d == 0 and word != 'w3'",
                 from[i], step);
        tsr_runtime *rt = tsr_runtime_open(name, .threads = 2);
        tsr_scope *s = tsr_scope_open(rt);
        tsr_frame *df = tsr_frame_read_csv(s, test_tmp("large.csv"));
        tsr_table *t = NULL;
        df = tsr_frame_head(tsr_frame_filter(tsr_frame_with_row_index(df, "row"), where), 40);
        CHECK_STATUS(tsr_frame_collect(tsr_frame_sort(df, "id desc"), &t), TSR_OK, s);
        CHECK_STATUS(tsr_frame_collect(df, &t), TSR_OK, s);
        int64_t rows = 0;
        for (int64_t id = from[i]; id < ROWS && rows < 40; id++) {
          if (id % step || id % 17 == 3) continue;
          CHECK_I64(tsr_table_i64(t, rows, 0), id);
          CHECK_I64(tsr_table_i64(t, rows++, 1), id);
        }
        CHECK_I64(tsr_table_row_count(t), rows);
        tsr_runtime_close(rt);
      }
}

/* A value behind the first rows widens their column once it is read, not before. */
TEST(later_rows_are_seen_later)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  write_large("late.csv", ROWS / 4);
  FILE *out = fopen(test_tmp("late.csv"), "a");
  fprintf(out, "x,1,2\n");
  for (int r = 0; r < ROWS / 20; r++) fprintf(out, "%d,1,2\n", r);
  CHECK_I64(fclose(out), 0);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("late.csv"));
  tsr_frame *head = tsr_frame_head(df, 2);
  CHECK_I64(first_id(head, 2), 0);
  CHECK_STR(tsr_coltype_name(tsr_frame_column_type(head, 0)), "i64");
  tsr_table *t = NULL;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_select(df, "id"), &t), TSR_OK, s);
  CHECK_STATUS(tsr_frame_collect(head, &t), TSR_OK, s);
  CHECK_STR(tsr_coltype_name(tsr_frame_column_type(head, 0)), "text");
  CHECK_STR(tsr_table_text(t, 1, 0), "1");
  tsr_runtime_close(rt);
}

/* A limit that is far above what is needed changes nothing of that. Where rows must be looked for
 * in a longer front the shorter one is gone: the limit allows what the last of them needs. */
TEST(a_limit_reads_no_other_rows)
{
  enum { NEED = ROWS * 8 + ROWS / 8 };
  static const int64_t limits[] = { 0, INT64_C(1) << 33, NEED + NEED / 5 };
  write_large("late.csv", ROWS);
  FILE *out = fopen(test_tmp("late.csv"), "a");
  fprintf(out, "%d,x\n", ROWS);
  CHECK_I64(fclose(out), 0);
  for (int i = 0; i < 3; i++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1, .memory_limit = limits[i]);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_select(tsr_frame_read_csv(s, test_tmp("late.csv")), "id");
    CHECK_I64(first_id(tsr_frame_head(tsr_frame_filter(df, "id > 9"), 5), 5), 10);
    CHECK_I64(first_id(tsr_frame_head(tsr_frame_filter(df, "id > 130000"), 5), 5), 130001);
    tsr_runtime_close(rt);
    write_large("large.csv", ROWS);
    rt = tsr_runtime_open("cpu:1", .threads = 1, .memory_limit = limits[i]);
    s = tsr_scope_open(rt);
    df = tsr_frame_select(tsr_frame_read_csv(s, test_tmp("large.csv")), "id");
    CHECK_I64(first_id(tsr_frame_head(tsr_frame_filter(df, "id > 399990"), 5), 5), 399991);
    tsr_runtime_close(rt);
  }
}

/* Of two files that are wrong the first that is read is told of, though under a limit the rows of
 * both are counted before any is. */
TEST(a_limit_tells_the_same_error)
{
  char said[2][500];
  static const char *const wrong[] = { "1,2,\xff\n", "1,2,\"w\n" };
  static const char *const names[] = { "first.csv", "second.csv" };
  for (int f = 0; f < 2; f++) {
    write_large(names[f], 60000);
    FILE *out = fopen(test_tmp(names[f]), "a");
    fprintf(out, "%s", wrong[f]);
    for (int r = 0; r < 60000; r++) fprintf(out, "%d,1,w\n", r);
    CHECK_I64(fclose(out), 0);
  }
  for (int i = 0; i < 2; i++) {
    tsr_runtime *rt =
        tsr_runtime_open("cpu:2", .threads = 1, .memory_limit = i * (INT64_C(1) << 33));
    tsr_scope *s = tsr_scope_open(rt);
    tsr_table *t = NULL;
    tsr_frame *a = tsr_frame_read_csv(s, test_tmp(names[0]));
    tsr_frame *b = tsr_frame_read_csv(s, test_tmp(names[1]));
    tsr_frame *both = tsr_frame_join(a, b, "id", .suffix = "_b");
    CHECK_STATUS(tsr_frame_collect(both, &t), TSR_EPARSE, s);
    snprintf(said[i], sizeof said[i], "%s", tsr_message(s));
    tsr_runtime_close(rt);
  }
  CHECK_STR_HAS(said[0], "first.csv");
  CHECK_STR(said[1], said[0]);
}

/* What rows first rows are of changes between terminals: distinct rows that were found in some are
 * found anew in others. */
TEST(distinct_rows_follow_the_rows_that_are_read)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_table *t = NULL;
  write_large("large.csv", ROWS);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("large.csv"));
  tsr_frame *late = tsr_frame_head(tsr_frame_filter(df, "id >= 20000"), 40);
  tsr_frame *words = tsr_frame_distinct(late, "word"), *two = tsr_frame_group_head(late, "word", 2);
  tsr_frame *first = tsr_frame_distinct(tsr_frame_head(df, 40), "word");
  for (int i = 0; i < 3; i++) {
    CHECK_I64(first_id(words, 17), 20000);
    CHECK_I64(first_id(two, 34), 20000);
    CHECK_I64(first_id(first, 17), 0);
    if (i == 1) CHECK_STATUS(tsr_frame_collect(df, &t), TSR_OK, s);
  }
  tsr_runtime_close(rt);
}

/* Asks for all rows in one way or another. */
static tsr_status ask_all(tsr_frame *df, int way)
{
  tsr_table *t = NULL;
  tsr_frame *row = tsr_frame_with_row_index(df, "row");
  int64_t rows;
  switch (way) {
  case 0: return tsr_frame_collect(df, &t);
  case 1: return tsr_frame_row_count(df, &rows);
  case 2: return tsr_frame_collect(tsr_frame_agg(df, "count()"), &t);
  case 3: return tsr_frame_collect(tsr_frame_select(row, "row"), &t);
  case 4: return tsr_frame_collect(tsr_frame_select(df, "one = 1"), &t);
  case 5: return tsr_frame_row_count(tsr_frame_sort(df, "id"), &rows);
  case 6: return tsr_frame_row_count(tsr_frame_head(df, ROWS), &rows);
  case 7: return tsr_frame_row_count(tsr_frame_tail(df, 1), &rows);
  case 8: return tsr_frame_row_count(tsr_frame_concat(df, df), &rows);
  default: return tsr_frame_collect(tsr_frame_agg(df, "count(), sum(x)"), &t);
  }
}

/* A row that is wrong is told to whoever asks for all rows, whichever columns that needs; and to
 * nobody who asks for rows before it. */
TEST(wrong_rows_are_told_to_who_counts)
{
  static const char *const wrong[] = { "1,2,3,4\n", "1,2\n", "7\n", "1,\"a\" b,3\n" };
  for (int kind = 0; kind < 4; kind++)
    for (int rows = 10; rows <= 50000; rows += 49990) {
      char said[1000] = "";
      write_large("wrong.csv", rows);
      FILE *out = fopen(test_tmp("wrong.csv"), "a");
      fprintf(out, "%s7,8,9\n", wrong[kind]);
      CHECK_I64(fclose(out), 0);
      for (int way = 0; way < 10; way++) {
        tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 1);
        tsr_scope *s = tsr_scope_open(rt);
        tsr_frame *df = tsr_frame_read_csv(s, test_tmp("wrong.csv"));
        int64_t count = 0;
        if (!tsr_frame_is_inert(df)) {
          if (rows > 10)
            CHECK_STATUS(tsr_frame_row_count(tsr_frame_head(df, 5), &count), TSR_OK, s);
          if (rows > 10) CHECK_I64(count, 5);
          CHECK_STATUS(ask_all(df, way), TSR_EPARSE, s);
        }
        const char *text = strstr(tsr_message(s), "wrong.csv:");
        CHECK(text != NULL);
        if (way) CHECK_STR(text, said);
        snprintf(said, sizeof said, "%s", text ? text : "");
        tsr_runtime_close(rt);
      }
    }
}
