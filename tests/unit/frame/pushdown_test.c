/* Filters that the reader of a file judges: what stands in rows that they drop, what explain says,
 * and frames used with and without them. */
#include "tessera.h"

#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 60000, ODD = 21000 };

/* k is the row's number; `odd` stands in column x of row ODD, far from all that is sampled. */
static const char *put_file(const char *odd)
{
  const char *path = test_tmp("sift.csv");
  FILE *out = fopen(path, "wb");
  fputs("k,x,name\n", out);
  for (int r = 0; r < ROWS; r++)
    fprintf(out, "%d,%s,%s%d\n", r, r == ODD ? odd : "7", r == ODD + 1 ? "odd" : "name", r % 1000);
  fclose(out);
  return path;
}

static int64_t sum_where(tsr_frame *df, const char *filter, const char *sum)
{
  tsr_row *row = tsr_frame_row(tsr_frame_agg(tsr_frame_filter(df, filter), sum));
  return tsr_row_status(row) ? -1 : tsr_row_i64(row, "s");
}

TEST(a_frame_is_used_with_and_without_filters)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, put_file("7"));
  for (int twice = 0; twice < 2; twice++) {
    CHECK_I64(sum_where(df, "k < 100", "s = sum(x)"), 700);
    CHECK_I64(sum_where(df, "k < 100", "s = nunique(name)"), 100);
    CHECK_I64(sum_where(df, "k < 100 and name < 'name2'", "s = sum(x)"), 7 * 12);
    CHECK_I64(sum_where(df, "k >= 100", "s = sum(x)"), 7 * (ROWS - 100));
    CHECK_I64(sum_where(df, "k >= 0", "s = nunique(name)"), 1001);
  }
  tsr_table *table;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, s);
  CHECK_STR(tsr_table_text(table, 59123, 2), "name123");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(explain_says_what_was_dropped)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, put_file("7"));
  tsr_frame *few = tsr_frame_filter(df, "name == 'name7' and k < 5000 and x * k > 1");
  tsr_frame *agg = tsr_frame_agg(few, "n = count(), s = sum(x)");
  const char *drops = "name == 'name7' and k < 5000 keeps 5 of 60000\n";
  CHECK(!strstr(tsr_frame_explain(agg), "while reading")); /* x is asked by the filter, too */
  tsr_frame *other = tsr_frame_read_csv(s, test_tmp("sift.csv"));
  few = tsr_frame_filter(other, "name == 'name7' and k < 5000");
  agg = tsr_frame_agg(few, "n = count(), s = sum(x)");
  CHECK_STR_HAS(tsr_frame_explain(agg), drops);
  CHECK(!strstr(tsr_frame_explain(agg), "~"));
  CHECK(!strstr(tsr_frame_explain(tsr_frame_agg(other, "s = sum(x)")), "while reading"));
  /* x is there for all rows now; which of them pass was seen while they were read. */
  CHECK_STR_HAS(tsr_frame_explain(agg), drops);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static int64_t count_where(tsr_frame *df, const char *filter)
{
  tsr_row *row = tsr_frame_row(tsr_frame_agg(tsr_frame_filter(df, filter), "s = count()"));
  return tsr_row_status(row) ? -1 : tsr_row_i64(row, "s");
}

/* Texts that only a filter asks for are asked as they lie in the file. Twice on one frame: the
 * second time nothing is read. Then texts are asked for, and other filters stand there. */
TEST(texts_of_a_filter_alone_are_not_kept)
{
  for (int devices = 1; devices < 8; devices += 3) {
    char names[16];
    snprintf(names, sizeof names, "cpu:%d", devices);
    tsr_runtime *rt = tsr_runtime_open(names);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_read_csv(s, put_file("7"));
    for (int twice = 0; twice < 2; twice++) {
      CHECK_I64(count_where(df, "contains(name, 'me99')"), 11 * 60);
      CHECK_I64(sum_where(df, "contains(name, 'me99')", "s = sum(x)"), 7 * 11 * 60);
      CHECK_I64(count_where(df, "ends_with(upper(name), 'E7') and k < 3000"), 3);
    }
    tsr_frame *few = tsr_frame_filter(df, "contains(name, 'me99')");
    CHECK_I64(sum_where(few, "k >= 1000", "s = nunique(name)"), 11);
    CHECK_I64(count_where(few, "starts_with(name, 'name999')"), 60);
    tsr_scope_close(s);
    s = tsr_scope_open(rt);
    df = tsr_frame_read_csv(s, test_tmp("sift.csv"));
    few = tsr_frame_filter(tsr_frame_filter(df, "contains(name, 'odd')"), "name != 'x'");
    tsr_frame *agg = tsr_frame_agg(few, "n = count()");
    for (int twice = 0; twice < 2; twice++) {
      CHECK_STR_HAS(tsr_frame_explain(agg), "'odd') and name != 'x' keeps 1 of");
      CHECK_STR_HAS(tsr_frame_explain(agg), "texts not kept: name (only filters read them)");
    }
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
}

/* Bytes of the lists that a frame's texts lie in. */
static int64_t bytes_of_texts(tsr_scope *s, tsr_frame *df, int64_t *rows)
{
  struct ArrowArrayStream stream;
  struct ArrowArray batch;
  int64_t most = 0;
  CHECK_STATUS(tsr_frame_to_arrow(tsr_frame_select(df, "name"), &stream, .texts = TSR_ARROW_VIEWS),
               TSR_OK, s);
  for (*rows = 0;; *rows += batch.length, batch.release(&batch)) {
    CHECK_I64(stream.get_next(&stream, &batch), 0);
    if (!batch.release) break;
    const struct ArrowArray *a = batch.children[0];
    for (int64_t b = 0; b < a->n_buffers - 3; b++)
      if (((const int64_t *)a->buffers[a->n_buffers - 1])[b] > most)
        most = ((const int64_t *)a->buffers[a->n_buffers - 1])[b];
  }
  stream.release(&stream);
  return most;
}

/* Texts of 30 bytes that a filter asks for and others need: those of rows that it drops are left
 * out, whatever else is asked of the column, unless somebody before the filter needs them. */
TEST(texts_that_a_filter_drops_are_not_kept)
{
  static const char *const filters[] = { "contains(name, '99x')",
                                         "contains(name, '99x') and name != 'a'",
                                         "contains(name, '99x') and k >= 0",
                                         "name is not null and ends_with(upper(name), '99X')" };
  FILE *out = fopen(test_tmp("long.csv"), "wb");
  fputs("k,name\n", out);
  for (int r = 0; r < ROWS; r++)
    fprintf(out, "%d,\"a text of a row, \"\"its\"\" number %dx\"\n", r, r);
  fclose(out);
  setenv("TSR_TEXTS", "views", 1);
  for (int devices = 1; devices < 8; devices += 3)
    for (size_t f = 0; f < sizeof filters / sizeof *filters; f++) {
      char names[16], first[80];
      snprintf(names, sizeof names, "cpu:%d", devices);
      tsr_runtime *rt = tsr_runtime_open(names);
      tsr_scope *s = tsr_scope_open(rt);
      tsr_frame *df = tsr_frame_read_csv(s, test_tmp("long.csv"));
      tsr_frame *few = tsr_frame_filter(df, filters[f]);
      int64_t rows, bytes;
      for (int twice = 0; twice < 2; twice++) {
        bytes = bytes_of_texts(s, few, &rows);
        CHECK_I64(rows, ROWS / 100);
        CHECK(bytes >= rows * 30 && bytes < ROWS * 30 / 2);
        /* The first and the last that are kept, and codes of all. */
        tsr_row *row =
            tsr_frame_row(tsr_frame_agg(few, "a = min(k), b = max(name), n = nunique(name)"));
        CHECK_I64(tsr_row_i64(row, "a"), 99);
        CHECK_I64(tsr_row_i64(row, "n"), ROWS / 100);
        snprintf(first, sizeof first, "a text of a row, \"its\" number 99x");
        CHECK_STR(tsr_row_text(row, "b"), first);
      }
      /* Other filters, and a column that is made before them, need all. */
      CHECK_I64(sum_where(df, "k < 10", "s = nunique(name)"), 10);
      tsr_scope_close(s);
      s = tsr_scope_open(rt);
      df = tsr_frame_read_csv(s, test_tmp("long.csv"));
      df = tsr_frame_filter(tsr_frame_assign(df, "l", "length(name)"), filters[f]);
      CHECK(bytes_of_texts(s, tsr_frame_filter(df, "l > 5"), &rows) >= ROWS * 30);
      CHECK_I64(rows, ROWS / 100);
      tsr_scope_close(s);
      tsr_runtime_close(rt);
    }
  unsetenv("TSR_TEXTS");
}

/* The same of JSON lines and of a stream of as many batches as there are devices. */
static tsr_frame *open_long(tsr_scope *s, bool stream)
{
  struct ArrowArrayStream arrow;
  tsr_frame *df = tsr_frame_read_json(s, test_tmp("long.jsonl"));
  if (!stream) return df;
  CHECK_STATUS(tsr_frame_to_arrow(df, &arrow), TSR_OK, s);
  return tsr_frame_from_arrow(s, &arrow);
}

TEST(texts_of_lines_and_streams_that_a_filter_drops_are_not_kept)
{
  FILE *out = fopen(test_tmp("long.jsonl"), "wb");
  for (int r = 0; r < ROWS; r++)
    fprintf(out, "{\"k\": %d, \"name\": \"a text of a row, \\\"its\\\" number %dx\"}\n", r, r);
  fclose(out);
  for (int ways = 0; ways < 8; ways++) {
    setenv("TSR_TEXTS", ways & 1 ? "views" : "codes", 1);
    tsr_runtime *rt = tsr_runtime_open(ways & 2 ? "cpu:5" : "cpu:1");
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = open_long(s, ways & 4);
    tsr_frame *few = tsr_frame_filter(df, "ends_with(name, '99x') and k >= 1000");
    tsr_frame *agg = tsr_frame_agg(few, "n = count(), a = min(k)");
    int64_t rows, bytes;
    for (int twice = 0; twice < 2; twice++) {
      CHECK_I64(tsr_row_i64(tsr_frame_row(agg), "n"), (ROWS - 1000) / 100);
      CHECK_STR_HAS(tsr_frame_explain(agg), "'99x') and k >= 1000 keeps 590");
      CHECK_STR_HAS(tsr_frame_explain(agg), "texts not kept: name (only filters read them)");
    }
    tsr_scope_close(s);
    s = tsr_scope_open(rt);
    df = open_long(s, ways & 4);
    few = tsr_frame_filter(df, "ends_with(name, '99x') and k >= 1000");
    bytes = bytes_of_texts(s, few, &rows);
    CHECK_I64(rows, (ROWS - 1000) / 100);
    CHECK(bytes >= rows * 30 && bytes < rows * 40);
    /* Other filters ask for all. */
    CHECK_I64(sum_where(df, "k < 10", "s = nunique(name)"), 10);
    CHECK_I64(count_where(df, "starts_with(name, 'a')"), ROWS);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
  unsetenv("TSR_TEXTS");
}

/* Nulls, quotes, and bytes that are no letters, in texts of which nothing is kept. */
TEST(texts_that_are_not_kept_are_texts)
{
  static const char text[] = "k,name\n1,\"a\"\"b\"\n2,\n3,\"x, a\"\"\"\n4,\xc3\xa9\n5,NA\n6,a\"b\n";
  test_write(test_tmp("quotes.csv"), text, sizeof text - 1);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int nulls = 0; nulls < 2; nulls++) {
    tsr_scope *s = tsr_scope_open(rt);
    static const char *const asks[] = { "contains(name, 'a\"')",
                                        "contains(name, '\"b')",
                                        "name is null",
                                        "name != 'q'",
                                        "ends_with(upper(name), '\xc3\x89')",
                                        "name in ('', 'NA')" };
    static const int expected[2][6] = { { 3, 2, 0, 6, 1, 2 }, { 3, 2, 2, 4, 1, 0 } };
    for (int i = 0; i < 6; i++) {
      tsr_frame *df = tsr_frame_read_csv(s, test_tmp("quotes.csv"), .text_nulls = nulls);
      CHECK_I64(count_where(df, asks[i]), expected[nulls][i]);
    }
    tsr_scope_close(s);
  }
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, put_file("\xff"), .types = "x text");
  CHECK_I64(count_where(df, "contains(x, '7')"), -1);
  CHECK_STR_HAS(tsr_message(s), "row 21000, column \"x\": the byte 0xff");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Types and errors are those of the whole file, whatever rows a filter drops. */
TEST(dropped_rows_are_looked_at)
{
  static const struct {
    const char *odd, *types;
    tsr_coltype type; /* 0: an error */
    const char *says;
  } cases[] = {
    { "0.5", NULL, TSR_COL_F64, NULL },
    { "x", NULL, TSR_COL_TEXT, NULL },
    { "x", "x i64", 0, "row 21000, column \"x\": \"x\" is not a valid i64" },
    { "\xff", "x text", 0, "row 21000, column \"x\": the byte 0xff" },
    { "1,2", NULL, 0, "row 21000 has 4 fields" },
    { "", NULL, TSR_COL_I64, NULL },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_read_csv(s, put_file(cases[i].odd), .types = cases[i].types);
    tsr_frame *few = tsr_frame_filter(df, "k < 100");
    tsr_table *table;
    tsr_status status = tsr_frame_collect(few, &table);
    CHECK_STATUS(status, cases[i].type ? TSR_OK : TSR_EPARSE, s);
    if (status) {
      CHECK_STR_HAS(tsr_message(s), cases[i].says);
    } else {
      CHECK_I64(tsr_table_row_count(table), 100);
      CHECK_I64(tsr_table_type(table, 1), cases[i].type);
      if (cases[i].type == TSR_COL_TEXT) CHECK_STR(tsr_table_text(table, 3, 1), "7");
    }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* What is computed before the filter is computed of every row. */
TEST(overflows_before_a_filter_are_found)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, put_file("9223372036854775807"));
  tsr_frame *few = tsr_frame_filter(tsr_frame_assign(df, "y", "x + 1"), "k < 100");
  CHECK(tsr_row_status(tsr_frame_row(tsr_frame_agg(few, "s = sum(y)"))) != TSR_OK);
  CHECK_STR_HAS(tsr_message(s), "row 21000");
  tsr_scope_clear(s);
  few = tsr_frame_assign(tsr_frame_filter(tsr_frame_read_csv(s, test_tmp("sift.csv")), "k < 100"),
                         "y", "x + 1");
  tsr_row *row = tsr_frame_row(tsr_frame_agg(few, "s = sum(y)"));
  CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
  CHECK_I64(tsr_row_i64(row, "s"), 800);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
