/* Sizes and numbers at the edge of what there is: right answers, or errors that say what was asked
 * and what there is; never a crash, never a run that grows with the square. SIZES_FULL=1 (`make
 * torture`) takes the full sizes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

static bool full(void)
{
  return getenv("SIZES_FULL") != NULL;
}

typedef struct text {
  char *at;
  size_t used, room;
} text;

static void add(text *t, const char *format, ...)
{
  va_list args;
  if (t->room - t->used < 64) t->at = realloc(t->at, t->room = 2 * t->room + 4096);
  va_start(args, format);
  t->used += (size_t)vsnprintf(t->at + t->used, t->room - t->used, format, args);
  va_end(args);
}

static void check_error(tsr_scope *s, tsr_status found, tsr_status expected, const char *part)
{
  CHECK_STATUS(found, expected, s);
  CHECK_STR_HAS(tsr_message(s), part);
  tsr_scope_clear(s);
}

/* ---- many columns ---- */

static int64_t columns(void)
{
  return full() ? 1000000 : test_quick() ? 4000 : 40000;
}

static const char *wide_file(int64_t count)
{
  text t = { 0 };
  for (int row = -1; row < 3; row++)
    for (int64_t c = 0; c < count; c++) {
      if (row < 0) add(&t, "c%lld", (long long)c);
      else add(&t, "%lld", (long long)((c * 7 + row) % 1000));
      add(&t, c + 1 < count ? "," : "\n");
    }
  const char *path = test_tmp("wide.csv");
  test_write(path, t.at, t.used);
  free(t.at);
  return path;
}

TEST_TIMEOUT(a_file_of_very_many_columns, 900)
{
  int64_t count = columns();
  char last[64];
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, wide_file(count));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(tsr_frame_column_count(df), count);
  snprintf(last, sizeof last, "a = sum(c%lld), b = max(c5)", (long long)count - 1);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, last));
  CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
  int64_t first = (count - 1) * 7 % 1000, sum = 0;
  for (int r = 0; r < 3; r++) sum += (first + r) % 1000;
  CHECK_I64(tsr_row_i64(row, "a"), sum);
  CHECK_I64(tsr_row_i64(row, "b"), 37);
  CHECK(strlen(tsr_frame_schema(df)) > (size_t)count * 6);
  CHECK_STR_HAS(tsr_frame_explain(tsr_frame_agg(df, last)), "csv");
  tsr_table *table;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_filter(df, "c0 == 1"), &table), TSR_OK, s);
  CHECK_I64(tsr_table_row_count(table), 1);
  CHECK_I64(tsr_table_i64(table, 0, (int)count - 1), (first + 1) % 1000);
  CHECK_STR_HAS(tsr_frame_text(df), "c0");
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("out.csv")), TSR_OK, s);
  size_t a, b;
  char *in = test_read(test_tmp("wide.csv"), &a), *out = test_read(test_tmp("out.csv"), &b);
  CHECK(a == b && !memcmp(in, out, a));
  free(in);
  free(out);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* A list may have 256 items, so lists name some of the columns. */
TEST_TIMEOUT(a_frame_of_very_many_columns_is_chosen_from_and_renamed, 300)
{
  enum { LISTED = 256 };
  int count = full() ? 100000 : test_quick() ? 2000 : 10000;
  tsr_runtime *rt = tsr_runtime_open("cpu");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_column *column = malloc((size_t)count * sizeof *column);
  char *names = malloc((size_t)count * 16);
  text select = { 0 }, rename = { 0 }, sums = { 0 };
  for (int i = 0; i < count; i++) {
    int64_t value = i;
    char *name = names + 16 * i;
    snprintf(name, 16, "c%d", i);
    column[i] = (tsr_column){ name, tsr_put(s, &value, TSR_I64, TSR_SHAPE(1), tsr_on(NULL, "")) };
    if (i >= LISTED) continue;
    add(&select, "%sc%d", i ? ", " : "", LISTED - 1 - i);
    add(&rename, "%sn%d = c%d", i ? ", " : "", i, i);
    add(&sums, "%ss%d = sum(c%d) + 1", i ? ", " : "", i, i);
  }
  tsr_frame *df = tsr_frame_new_at(s, column, count, "here");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_frame *turned = tsr_frame_select(df, select.at);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_STR(tsr_frame_column_name(turned, 0), names + 16 * (LISTED - 1));
  tsr_frame *renamed = tsr_frame_rename(df, rename.at);
  tsr_frame *more = tsr_frame_drop(tsr_frame_assign(renamed, "z", "n3 + n5"), "n4");
  CHECK_I64(tsr_frame_column_count(more), count);
  tsr_table *table;
  CHECK_STATUS(tsr_frame_collect(more, &table), TSR_OK, s);
  CHECK_I64(tsr_table_i64(table, 0, tsr_table_find(table, "n7")), 7);
  CHECK_I64(tsr_table_i64(table, 0, tsr_table_find(table, "z")), 8);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_agg(df, sums.at), &table), TSR_OK, s);
  CHECK_I64(tsr_table_i64(table, 0, LISTED - 1), LISTED);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_concat(df, df), &table), TSR_OK, s);
  CHECK_I64(tsr_table_row_count(table), 2);
  CHECK_I64(tsr_table_i64(table, 1, 9), 9);
  column[count - 1].name = "c0";
  CHECK(tsr_frame_is_inert(tsr_frame_new_at(s, column, count, "here")));
  check_error(s, tsr_scope_status(s), TSR_ECOLUMN, "two columns are named 'c0'");
  free(column);
  free(names);
  free(select.at);
  free(rename.at);
  free(sums.at);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- long texts ---- */

static tsr_frame *small(tsr_scope *s)
{
  static const int64_t v[3] = { 1, 2, 3 };
  return tsr_frame_new(s, { "x", tsr_put(s, v, TSR_I64, TSR_SHAPE(3), tsr_on(NULL, "")) });
}

static void repeat(text *t, const char *part, int count)
{
  for (int i = 0; i < count; i++) add(t, "%s", part);
}

/* Whatever it says of them, it says it, and a later formula is read as ever. */
static void long_expression(const char *before, const char *part, const char *middle,
                            const char *after)
{
  tsr_runtime *rt = tsr_runtime_open("cpu");
  tsr_scope *s = tsr_scope_open(rt);
  text t = { 0 };
  int count = test_quick() ? 20000 : 100000;
  add(&t, "%s", before);
  repeat(&t, part, count);
  add(&t, "%s", middle);
  if (*after) repeat(&t, after, count);
  tsr_table *table;
  tsr_frame *df = tsr_frame_assign(small(s), "y", t.at);
  tsr_status status = tsr_frame_collect(df, &table);
  if (status) {
    CHECK(strlen(tsr_message(s)) > 20 && strlen(tsr_message(s)) < 2000);
    CHECK(status == TSR_EPARSE || status == TSR_EUNSUPPORTED || status == TSR_EDTYPE);
  }
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_assign(small(s), "y", "x + 1"), &table), TSR_OK, s);
  free(t.at);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(expressions_of_megabytes)
{
  long_expression("x", " + 1", "", "");
  long_expression("x", " ** 1", "", "");
  long_expression("", "(", "x", ")");
  long_expression("", "-", "x", "");
  long_expression("", "not ", "true", "");
  long_expression("", "abs(", "x", ")");
  long_expression("", "if(x > 1, ", "x", ", 0)");
  long_expression("x in (1", ", 7", ")", "");
  long_expression("coalesce(x", ", x", ")", "");
  long_expression("'", "longtext", "'", "");
  long_expression("", "name", "", "");
  long_expression("1", "0", "", "");
  long_expression("\"", "odd name", "\"", "");
  long_expression("x > 0", " and x > 0", "", "");
}

TEST(names_of_a_megabyte)
{
  tsr_runtime *rt = tsr_runtime_open("cpu");
  tsr_scope *s = tsr_scope_open(rt);
  text t = { 0 };
  add(&t, "a,");
  repeat(&t, "0123456789", 100000);
  add(&t, "\n1,2\n");
  test_write(test_tmp("name.csv"), t.at, t.used);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("name.csv"));
  tsr_row *row = tsr_frame_row(df);
  if (!tsr_row_status(row)) CHECK_I64(tsr_row_i64(row, "a"), 1);
  else CHECK(strlen(tsr_message(s)) < 3000);
  CHECK(strlen(tsr_frame_text(df)) > 0);
  tsr_scope_clear(s);
  t.at[t.used - 5] = 0;
  CHECK(tsr_frame_is_inert(tsr_frame_select(small(s), t.at + 2)));
  CHECK(strlen(tsr_message(s)) < 3000);
  free(t.at);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- one field that is a file ---- */

static void huge_field(bool json)
{
  size_t length = full() ? (size_t)1 << 30 : (size_t)1 << 24, at = 0;
  char *bytes = malloc(length + 64);
  at += (size_t)sprintf(bytes, json ? "{\"a\": 1, \"t\": \"" : "a,t\n1,");
  memset(bytes + at, 'x', length);
  at += length;
  at += (size_t)sprintf(bytes + at, json ? "\"}\n{\"a\": 2}\n" : "\n2,y\n");
  const char *path = test_tmp(json ? "f.jsonl" : "f.csv");
  test_write(path, bytes, at);
  free(bytes);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = json ? tsr_frame_read_json(s, path) : tsr_frame_read_csv(s, path);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "n = sum(a), l = max(length(t))"));
  CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
  CHECK_I64(tsr_row_i64(row, "n"), 3);
  CHECK_I64(tsr_row_i64(row, "l"), (int64_t)length);
  CHECK(strlen(tsr_frame_text(df)) < 100000);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(one_field_of_a_gigabyte_in_csv, 600)
{
  huge_field(false);
}

TEST_TIMEOUT(one_field_of_a_gigabyte_in_json, 600)
{
  huge_field(true);
}

/* ---- results that are too large ---- */

TEST_TIMEOUT(a_join_of_more_rows_than_there_can_be, 120)
{
  enum { ROWS = 1000000 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_array *key = tsr_full(s, 1, TSR_I64, TSR_SHAPE(ROWS), on);
  tsr_frame *a = tsr_frame_new(s, { "k", key }, { "x", key });
  tsr_frame *b = tsr_frame_new(s, { "k", key }, { "y", key });
  tsr_table *table;
  tsr_status status = tsr_frame_collect(tsr_frame_join(a, b, "k"), &table);
  CHECK(status == TSR_ENOMEM || status == TSR_EUNSUPPORTED || status == TSR_EVALUE);
  CHECK(strlen(tsr_message(s)) > 20);
  printf("# %s\n", tsr_message(s));
  CHECK(tsr_device_memory(rt, 0).peak < INT64_C(4000000000));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static void keys_and_limit(const char *name, int64_t limit, int64_t keys)
{
  tsr_runtime *rt = tsr_runtime_open("cpu", .memory_limit = limit);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_array *k = tsr_iota(s, TSR_I64, TSR_SHAPE(keys), 0, on);
  tsr_frame *df = tsr_frame_new(s, { "k", tsr_mul(k, 7919) }, { "x", k });
  tsr_frame *out = df;
  if (!strcmp(name, "group")) out = tsr_frame_group_agg(df, "k", "sum(x)");
  if (!strcmp(name, "median")) out = tsr_frame_group_agg(df, "k", "median(x)");
  if (!strcmp(name, "distinct")) out = tsr_frame_distinct(df, "k");
  if (!strcmp(name, "counts")) out = tsr_frame_value_counts(df, "k");
  if (!strcmp(name, "sort")) out = tsr_frame_sort(df, "k desc");
  if (!strcmp(name, "join")) out = tsr_frame_join(df, tsr_frame_select(df, "k, y = x"), "k");
  int64_t rows = 0;
  tsr_table *table;
  tsr_status status = tsr_frame_collect(out, &table);
  if (status) {
    CHECK_I64(status, TSR_ENOMEM);
    CHECK_STR_HAS(tsr_message(s), "memory_limit");
  } else {
    rows = tsr_table_row_count(table);
    CHECK_I64(rows, keys);
  }
  CHECK(!limit || tsr_device_memory(rt, 0).peak <= limit);
  if (!limit) CHECK_STATUS(status, TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(very_many_keys_and_a_limit_of_memory, 300)
{
  static const char *const names[] = { "group", "median", "distinct", "counts", "sort", "join" };
  int64_t keys = full() ? 10000000 : test_quick() ? 100000 : 1000000;
  for (int i = 0; i < 6; i++)
    for (int share = 0; share < 5; share++)
      keys_and_limit(names[i], share ? keys * 8 * (1 << 2 * share) / 4 : 0, keys);
}

TEST(shapes_beyond_what_can_be_counted)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .memory_limit = 1 << 20);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(NULL, "");
  static const int64_t sides[] = { INT64_MAX,        INT64_MAX / 8,    INT64_C(1) << 61,
                                   INT64_C(1) << 40, INT64_C(1) << 32, -1,
                                   INT64_MIN };
  for (int i = 0; i < 7; i++)
    for (int j = 0; j < 7; j++) {
      tsr_array *a = tsr_full(s, 1.5, TSR_F64, TSR_SHAPE(sides[i], sides[j]), on);
      tsr_status status = tsr_eval(&a, 1);
      CHECK(status != TSR_OK && strlen(tsr_message(s)) > 20);
      tsr_scope_clear(s);
      a = tsr_iota(s, TSR_I64, TSR_SHAPE(sides[i], sides[j]), 0, on);
      a = tsr_sum(tsr_add(a, tsr_iota(s, TSR_I64, TSR_SHAPE(sides[j]), 0, on)));
      status = sides[i] > INT64_C(1) << 41 || sides[j] < 0 ? tsr_eval(&a, 1) : TSR_EARG;
      CHECK(status != TSR_OK);
      tsr_scope_clear(s);
    }
  CHECK(tsr_mesh_make(rt, "x=1000000000,y=1000000000,z=1000000000") != NULL);
  text t = { 0 };
  for (int i = 0; i < 100000; i++) add(&t, "%sx%d", i ? "," : "", i);
  tsr_array *one = tsr_full(s, 1, TSR_F64, TSR_SHAPE(4), tsr_on(tsr_mesh_default(rt, "d"), t.at));
  CHECK(tsr_eval(&one, 1) != TSR_OK);
  CHECK(strlen(tsr_message(s)) < 3000);
  free(t.at);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- counts of rows ---- */

static int64_t rows_of(tsr_frame *df)
{
  int64_t rows = -1;
  tsr_status status = tsr_frame_row_count(df, &rows);
  return status ? -(int64_t)status : rows;
}

TEST(limits_at_the_ends_of_what_there_is)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = small(s);
  CHECK_I64(rows_of(tsr_frame_head(df, 0)), 0);
  CHECK_I64(rows_of(tsr_frame_head(df, INT64_MAX)), 3);
  CHECK_I64(rows_of(tsr_frame_tail(df, 0)), 0);
  CHECK_I64(rows_of(tsr_frame_tail(df, INT64_MAX)), 3);
  CHECK_I64(rows_of(tsr_frame_limit(df, 0, INT64_MAX)), 3);
  CHECK_I64(rows_of(tsr_frame_limit(df, 1, INT64_MAX)), 2);
  CHECK_I64(rows_of(tsr_frame_limit(df, INT64_MAX, INT64_MAX)), 0);
  CHECK_I64(rows_of(tsr_frame_limit(df, 3, 1)), 0);
  CHECK_I64(rows_of(tsr_frame_sample(df, .rows = INT64_MAX, .seed = 1)), 3);
  CHECK_I64(rows_of(tsr_frame_group_head(df, "x", INT64_MAX)), 3);
  CHECK_I64(rows_of(tsr_frame_group_head(df, "x", 0)), 0);
  CHECK_I64(rows_of(tsr_frame_assign(df, "y", "cast(x, 'text')")), 3);
  tsr_table *table;
  CHECK_STATUS(tsr_frame_collect(
                   tsr_frame_assign(
                       df, "t", "slice(cast(x, 'text'), 9223372036854775807, 9223372036854775807)"),
                   &table),
               TSR_OK, s);
  CHECK_STR(tsr_table_text(table, 0, 1), "");
  static const int64_t wrong[] = { -1, INT64_MIN };
  for (int i = 0; i < 2; i++) {
    CHECK(tsr_frame_is_inert(tsr_frame_head(df, wrong[i])));
    check_error(s, tsr_scope_status(s), TSR_EARG, "tsr_frame_head");
    CHECK(tsr_frame_is_inert(tsr_frame_tail(df, wrong[i])));
    check_error(s, tsr_scope_status(s), TSR_EARG, "tsr_frame_tail");
    CHECK(tsr_frame_is_inert(tsr_frame_limit(df, wrong[i], 1)));
    check_error(s, tsr_scope_status(s), TSR_EARG, "tsr_frame_limit");
    CHECK(tsr_frame_is_inert(tsr_frame_limit(df, 1, wrong[i])));
    check_error(s, tsr_scope_status(s), TSR_EARG, "tsr_frame_limit");
    CHECK(tsr_frame_is_inert(tsr_frame_sample(df, .rows = wrong[i])));
    check_error(s, tsr_scope_status(s), TSR_EARG, "tsr_frame_sample");
    CHECK(tsr_frame_is_inert(tsr_frame_group_head(df, "x", wrong[i])));
    check_error(s, tsr_scope_status(s), TSR_EARG, "tsr_frame_group_head");
  }
  CHECK(tsr_frame_is_inert(tsr_frame_agg(df, "quantile(x, 1.5)")));
  tsr_scope_clear(s);
  CHECK(tsr_frame_is_inert(tsr_frame_agg(df, "quantile(x, -0.1)")));
  tsr_scope_clear(s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- integers ---- */

static const char edge_file[] = "a,b,u\n"
                                "9223372036854775807,1,9223372036854775808\n"
                                "-9223372036854775808,-1,1\n"
                                "0,-1,2\n"
                                "9223372036854775807,2,3\n"
                                "-9223372036854775807,0,-9223372036854775809\n";

static void expect(tsr_frame *df, const char *expression, const char *first, const char *second)
{
  tsr_table *table = NULL;
  tsr_scope *s = tsr_scope_open_at(NULL, NULL);
  (void)s;
  tsr_status status = tsr_frame_collect(tsr_frame_assign(df, "y", expression), &table);
  int at = status ? 0 : tsr_table_find(table, "y");
  if (status ||
      strcmp(tsr_table_text(table, 0, at) ? tsr_table_text(table, 0, at) : "null", first) ||
      strcmp(tsr_table_text(table, 1, at) ? tsr_table_text(table, 1, at) : "null", second))
    FAIL("%s: %s, expected %s and %s", expression,
         status ? tsr_status_name(status) : tsr_table_text(table, 0, at), first, second);
}

static void overflows(tsr_scope *s, tsr_frame *df, const char *expression)
{
  tsr_table *table;
  tsr_status status = tsr_frame_collect(tsr_frame_assign(df, "y", expression), &table);
  if (status != TSR_EVALUE) FAIL("%s: %s", expression, tsr_status_name(status));
  CHECK_STR_HAS(tsr_message(s), "row");
  tsr_scope_clear(s);
}

TEST(integers_at_both_ends)
{
  test_write(test_tmp("e.csv"), edge_file, sizeof edge_file - 1);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("e.csv"));
  CHECK_I64(tsr_frame_column_type(df, 0), TSR_COL_I64);
  expect(df, "a", "9223372036854775807", "-9223372036854775808");
  expect(df, "a - b * 0", "9223372036854775807", "-9223372036854775808");
  expect(df, "a == 9223372036854775807", "true", "false");
  expect(df, "a == -9223372036854775808", "false", "true");
  expect(df, "a < 9223372036854775807", "false", "true");
  expect(df, "cast(a, 'text')", "9223372036854775807", "-9223372036854775808");
  expect(df, "try_cast(a, 'i32')", "null", "null");
  expect(df, "a // 1", "9223372036854775807", "-9223372036854775808");
  expect(df, "a % 10", "7", "2");
  expect(df, "a % b", "0", "0");
  overflows(s, df, "a + 1");
  overflows(s, df, "a - 1");
  overflows(s, df, "a * 2");
  overflows(s, df, "-a");
  overflows(s, df, "abs(a)");
  overflows(s, df, "a // -1");
  overflows(s, df, "cast(a, 'i32')");
  tsr_table *table;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_sort(df, "a"), &table), TSR_OK, s);
  CHECK_I64(tsr_table_i64(table, 0, 0), INT64_MIN);
  CHECK_I64(tsr_table_i64(table, 4, 0), INT64_MAX);
  CHECK_I64(tsr_table_i64(table, 1, 0), -INT64_MAX);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(df, "a", "n = count()"), &table), TSR_OK, s);
  CHECK_I64(tsr_table_row_count(table), 4);
  CHECK_I64(tsr_table_i64(table, 0, 1), 2);
  tsr_frame *self = tsr_frame_select(df, "a, z = b");
  CHECK_STATUS(tsr_frame_collect(tsr_frame_join(df, self, "a"), &table), TSR_OK, s);
  CHECK_I64(tsr_table_row_count(table), 7);
  tsr_row *row = tsr_frame_row(
      tsr_frame_agg(tsr_frame_filter(df, "b != 2"), "lo = min(a), hi = max(a), t = sum(a)"));
  CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
  CHECK_I64(tsr_row_i64(row, "lo"), INT64_MIN);
  CHECK_I64(tsr_row_i64(row, "hi"), INT64_MAX);
  CHECK_I64(tsr_row_i64(row, "t"), INT64_MIN);
  row = tsr_frame_row(tsr_frame_agg(tsr_frame_filter(df, "a > 0"), "t = sum(a)"));
  CHECK_STATUS(tsr_row_status(row), TSR_EVALUE, s);
  tsr_scope_clear(s);
  row = tsr_frame_row(tsr_frame_agg(df, "m = median(a), q = nunique(a)"));
  CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
  CHECK_I64(tsr_row_i64(row, "q"), 4);
  CHECK(strlen(tsr_frame_text(df)) > 0);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- many small things ---- */

TEST_TIMEOUT(ten_thousand_scopes_and_very_many_nodes, 120)
{
  int scopes = test_quick() ? 2000 : 10000, nodes = test_quick() ? 20000 : 100000;
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope **all = malloc((size_t)scopes * sizeof *all);
  for (int i = 0; i < scopes; i++) all[i] = i % 2 ? tsr_scope_open(all[i - 1]) : tsr_scope_open(rt);
  for (int i = 0; i < scopes; i += 2) tsr_scope_close(all[i]);
  free(all);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, (double[]){ 1, 2 }, TSR_F64, TSR_SHAPE(2), tsr_on(NULL, ""));
  for (int i = 0; i < nodes; i++) x = tsr_add(x, 1);
  double value = 0;
  tsr_status status = tsr_read_scalar(tsr_sum(x), &value);
  if (status) CHECK(strlen(tsr_message(s)) > 20);
  else CHECK_F64_BITS(value, 3 + 2.0 * nodes);
  tsr_scope_clear(s);
  x = tsr_put(s, (double[]){ 1, 2 }, TSR_F64, TSR_SHAPE(2), tsr_on(NULL, ""));
  int chain = nodes / 20;
  for (int i = 0; i < chain; i++) x = tsr_sub(x, tsr_mean(x));
  CHECK_STATUS(tsr_read_scalar(tsr_max(x), &value), TSR_OK, s);
  CHECK_F64_BITS(value, 0.5);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(ten_thousand_files_as_one, 120)
{
  int files = full() ? 10000 : test_quick() ? 200 : 2000;
  char name[64];
  for (int i = 0; i < files; i++) {
    char body[64];
    snprintf(name, sizeof name, "g%05d.csv", i);
    int length = snprintf(body, sizeof body, "a,b\n%d,x%d\n", i, i % 7);
    test_write(test_tmp(name), body, (size_t)length);
  }
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("g*.csv"));
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "n = sum(a), t = nunique(b)"));
  CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
  CHECK_I64(tsr_row_i64(row, "n"), (int64_t)files * (files - 1) / 2);
  CHECK_I64(tsr_row_i64(row, "t"), 7);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(four_thousand_devices, 120)
{
  int count = test_quick() ? 256 : 4096;
  char devices[32];
  snprintf(devices, sizeof devices, "cpu:%d", count);
  tsr_runtime *rt = tsr_runtime_open(devices);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "data");
  tsr_array *n = tsr_iota(s, TSR_I64, TSR_SHAPE(10000), 0, tsr_on(mesh, "data"));
  double value;
  CHECK_STATUS(tsr_read_scalar(tsr_sum(n), &value), TSR_OK, s);
  CHECK_F64_BITS(value, 49995000.0);
  tsr_array *whole =
      tsr_reshard(tsr_iota(s, TSR_I64, TSR_SHAPE(8), 0, tsr_on(mesh, "data")), tsr_on(mesh, "-"));
  CHECK_STATUS(tsr_read_scalar(tsr_sum(whole), &value), TSR_OK, s);
  CHECK_F64_BITS(value, 28.0);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
