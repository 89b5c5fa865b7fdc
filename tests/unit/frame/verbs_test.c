/* The short calls on frames: drop, rename, nulls, counts of values, descriptions. Values are
 * pandas' (golden/make_verbs.py), on meshes of several sizes; here are also names, types and what
 * is refused. */
#include "support/first_axis.h"
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"
#include "support/golden_rows.h"

#include <stdlib.h>
#include <string.h>

/* ---- values ------------------------------------------------------------------------------ */

static tsr_frame *build(tsr_frame *df, const char *name)
{
  if (!strcmp(name, "drop")) return tsr_frame_drop(df, "n, \"odd name\"");
  if (!strcmp(name, "rename")) return tsr_frame_rename(df, "n = id, id = n, plain = \"odd name\"");
  if (!strcmp(name, "is_null")) return tsr_frame_is_null(df);
  if (!strcmp(name, "drop_nulls")) return tsr_frame_drop_nulls(df, NULL);
  if (!strcmp(name, "drop_nulls_of")) return tsr_frame_drop_nulls(df, "x, \"odd name\"");
  if (!strcmp(name, "fill_numbers")) return tsr_frame_fill_null(df, NULL, "?", 0);
  if (!strcmp(name, "fill_named")) return tsr_frame_fill_null(df, "n, \"odd name\"", "id");
  if (!strcmp(name, "fill_wider")) return tsr_frame_fill_null(df, "n", "0.5");
  if (!strcmp(name, "fill_date")) return tsr_frame_fill_null(df, "d", "?", "2000-02-29");
  if (!strcmp(name, "counts_text")) return tsr_frame_value_counts(df, "t");
  if (!strcmp(name, "counts_two")) return tsr_frame_value_counts(df, "b, t");
  if (!strcmp(name, "counts_null")) return tsr_frame_value_counts(df, "n");
  if (!strcmp(name, "describe")) return tsr_frame_describe(df);
  if (!strcmp(name, "describe_few"))
    return tsr_frame_describe(tsr_frame_select(tsr_frame_head(df, 3), "\"odd name\", b, x"));
  if (!strcmp(name, "fill_bool")) return tsr_frame_fill_null(df, NULL, "true");
  return NULL;
}

TEST(short_calls_give_what_pandas_gives)
{
  static const char *const meshes[] = { "data=1", "data=3", "data=8" };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int m = 0; m < 3; m++) {
    char *text = test_read(test_file("golden/verbs.txt"), NULL);
    golden_reader r = { .next = text };
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_read_csv(s, test_file("golden/verbs.csv"),
                                       .on = first_axis(tsr_mesh_make(rt, meshes[m])));
    int queries = 0;
    for (golden_step(&r); golden_after(&r, "query"); queries++) {
      tsr_table *table = NULL;
      tsr_frame *asked = build(df, golden_after(&r, "query"));
      if (!asked) break;
      CHECK_STATUS(tsr_frame_collect(asked, &table), TSR_OK, s);
      golden_step(&r);
      golden_check_rows(&r, table);
    }
    CHECK_I64(queries, 15);
    tsr_scope_close(s);
    free(text);
  }
  tsr_runtime_close(rt);
}

/* ---- names and types ----------------------------------------------------------------------- */

struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_frame *df;
};

static void open_fixture(struct fixture *f)
{
  f->rt = tsr_runtime_open("cpu:3");
  f->s = tsr_scope_open(f->rt);
  f->df = tsr_frame_read_csv(f->s, test_file("golden/verbs.csv"));
  CHECK_STR(tsr_message(f->s), "");
}

static void expect(tsr_scope *s, tsr_status status, const char *part)
{
  CHECK_STATUS(tsr_scope_status(s), status, s);
  CHECK_STR_HAS(tsr_message(s), part);
  tsr_scope_clear(s);
}

TEST(short_calls_keep_names_and_types)
{
  struct fixture f;
  open_fixture(&f);
  CHECK_STR(tsr_frame_schema(tsr_frame_drop(f.df, "t, d, b")),
            "id        i64\nn         i64\nx         f64\nodd name  i64\n");
  CHECK_STR(tsr_frame_schema(tsr_frame_rename(f.df, "\"another one\" = t, \"is\" = b")),
            "id           i64\nn            i64\nx            f64\nanother one  text\n"
            "d            date\nis           bool\nodd name     i64\n");
  CHECK_STR(tsr_frame_schema(tsr_frame_is_null(tsr_frame_select(f.df, "id, t"))),
            "id  bool\nt   bool\n");
  /* nobody named the columns: a fraction leaves integers alone, a text leaves dates alone */
  CHECK_STR(tsr_frame_schema(tsr_frame_fill_null(f.df, NULL, "0.5")), tsr_frame_schema(f.df));
  CHECK_STR(tsr_frame_schema(tsr_frame_fill_null(f.df, NULL, "'x'")), tsr_frame_schema(f.df));
  CHECK_STR(tsr_frame_schema(tsr_frame_fill_null(tsr_frame_select(f.df, "n"), "n", "0.5")),
            "n  f64\n");
  CHECK_STR(tsr_message(f.s), "");
  tsr_runtime_close(f.rt);
}

TEST(short_calls_refuse)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame_drop(f.df, "nn");
  expect(f.s, TSR_ECOLUMN, "tsr_frame_drop: no column 'nn'; columns: id, n, x");
  tsr_frame_drop(f.df, NULL);
  expect(f.s, TSR_EARG, "tsr_frame_drop: the list of columns is NULL; name at least one column");
  tsr_frame_drop(f.df, "");
  expect(f.s, TSR_EPARSE, "tsr_frame_drop: the expression is empty; write one");
  tsr_frame_drop(f.df, "n + 1");
  expect(f.s, TSR_EPARSE, "expected the name of a column");
  tsr_frame_drop(tsr_frame_select(f.df, "n, x"), "x, n");
  expect(f.s, TSR_ECOLUMN, "all 2 columns are left out; keep at least one");
  tsr_frame_rename(f.df, "n");
  expect(f.s, TSR_EPARSE, "expected 'new = old'");
  tsr_frame_rename(f.df, "z = n + 1");
  expect(f.s, TSR_EPARSE, "expected 'new = old'");
  tsr_frame_rename(f.df, "x = n");
  expect(f.s, TSR_ECOLUMN, "the name 'x' is taken by another column");
  tsr_frame_rename(f.df, "z = n, z = x");
  expect(f.s, TSR_ECOLUMN, "the name 'z' is taken by another column");
  tsr_frame_rename(f.df, "z = n, y = n");
  expect(f.s, TSR_ECOLUMN, "column 'n' is renamed twice");
  tsr_frame_rename(f.df, "z = nothing");
  expect(f.s, TSR_ECOLUMN, "no column 'nothing'");
  tsr_frame_rename(f.df, NULL);
  expect(f.s, TSR_EARG, "tsr_frame_rename: the list of columns is NULL; name at least one column");
  tsr_frame_fill_null(f.df, "n", "'x'");
  expect(f.s, TSR_EDTYPE, "column 'n' is i64, so a value of type text cannot fill its nulls");
  tsr_frame_fill_null(f.df, "b", "1");
  expect(f.s, TSR_EDTYPE, "column 'b' is bool, so a value of type i64 cannot fill its nulls");
  tsr_frame_fill_null(f.df, "d", "'soon'");
  expect(f.s, TSR_EDTYPE, "'soon' is not a date");
  tsr_frame_fill_null(f.df, "n", "sum(n)");
  expect(f.s, TSR_EDTYPE, "sum(...) reduces rows and cannot stand here");
  tsr_frame_fill_null(f.df, "n", "");
  expect(f.s, TSR_EPARSE, "tsr_frame_fill_null: the expression is empty; write one");
  tsr_frame_value_counts(f.df, "t, zz");
  expect(f.s, TSR_ECOLUMN, "tsr_frame_value_counts: no column 'zz'");
  tsr_frame_value_counts(tsr_frame_rename(f.df, "count = t"), "count");
  expect(f.s, TSR_ECOLUMN, "the name 'count' is taken");
  tsr_frame_describe(tsr_frame_rename(f.df, "statistic = t"));
  expect(f.s, TSR_ECOLUMN, "tsr_frame_describe: there is a column 'statistic'");
  tsr_frame_drop_nulls(f.df, "zz");
  expect(f.s, TSR_ECOLUMN, "tsr_frame_drop_nulls: no column 'zz'");
  tsr_runtime_close(f.rt);
}

TEST(short_calls_on_inert_frames)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *bad = tsr_frame_filter(f.df, "nothing");
  tsr_frame *const all[] = { tsr_frame_drop(bad, "n"),
                             tsr_frame_rename(bad, "m = n"),
                             tsr_frame_is_null(bad),
                             tsr_frame_drop_nulls(bad, NULL),
                             tsr_frame_fill_null(bad, "n", "0"),
                             tsr_frame_drop(NULL, "n"),
                             tsr_frame_value_counts(bad, NULL),
                             tsr_frame_describe(bad) };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) CHECK(tsr_frame_is_inert(all[i]));
  tsr_runtime_close(f.rt);
}

/* A wide frame makes no deep tree, and a list may name all its columns. */
TEST(short_calls_on_a_wide_frame)
{
  enum { WIDE = 1500 };
  static const int64_t data[2] = { 1, 2 };
  static char names[WIDE][8];
  static tsr_column columns[WIDE];
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, data, TSR_I64, TSR_SHAPE(2), (tsr_sharding){ 0 });
  for (int i = 0; i < WIDE; i++) {
    snprintf(names[i], sizeof names[i], "c%d", i);
    columns[i] = (tsr_column){ names[i], x };
  }
  tsr_frame *df = tsr_frame_new_at(s, columns, WIDE, TSR_HERE);
  CHECK_I64(tsr_frame_column_count(tsr_frame_drop(df, "c7")), WIDE - 1);
  int64_t rows = 0;
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_drop_nulls(df, NULL), &rows), TSR_OK, s);
  CHECK_I64(rows, 2);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_is_null(df), &rows), TSR_OK, s);
  CHECK_STR(tsr_frame_column_name(tsr_frame_rename(df, "z = c1499"), WIDE - 1), "z");
  static char list[WIDE * 8];
  for (int i = WIDE - 1, at = 0; i >= 0; i--)
    at += snprintf(list + at, sizeof list - (size_t)at, "%s%s", names[i], i ? "," : "");
  tsr_frame *all = tsr_frame_sort(tsr_frame_select(df, list), list);
  CHECK_STATUS(tsr_frame_row_count(all, &rows), TSR_OK, s);
  CHECK_I64(tsr_frame_column_count(all), WIDE);
  CHECK_STR(tsr_frame_column_name(all, 0), "c1499");
  tsr_runtime_close(rt);
}

/* Of no rows, of all columns, and of descriptions again. */
TEST(summaries_of_little)
{
  struct fixture f;
  open_fixture(&f);
  tsr_table *table = NULL;
  tsr_frame *none = tsr_frame_filter(f.df, "id > 1000");
  CHECK_STATUS(tsr_frame_collect(tsr_frame_describe(none), &table), TSR_OK, f.s);
  CHECK_I64(tsr_table_row_count(table), 9);
  CHECK_F64_BITS(tsr_table_f64(table, 0, 1), 0);
  CHECK_STR(tsr_table_text(table, 0, tsr_table_find(table, "t")), "0");
  for (int row = 2; row < 9; row++)
    for (int c = 1; c < tsr_table_column_count(table); c++) CHECK(tsr_table_is_null(table, row, c));
  CHECK_STATUS(tsr_frame_collect(tsr_frame_value_counts(none, "t"), &table), TSR_OK, f.s);
  CHECK_I64(tsr_table_row_count(table), 0);
  tsr_frame *all = tsr_frame_value_counts(tsr_frame_select(f.df, "b, half = id // 20"), NULL);
  CHECK_STR(tsr_frame_schema(all), "b      bool\nhalf   i64\ncount  i64\n");
  CHECK_STATUS(tsr_frame_collect(all, &table), TSR_OK, f.s);
  CHECK_I64(tsr_table_row_count(table), 6);
  tsr_frame *twice = tsr_frame_describe(tsr_frame_drop(tsr_frame_describe(f.df), "statistic"));
  CHECK_STATUS(tsr_frame_collect(tsr_frame_select(twice, "x"), &table), TSR_OK, f.s);
  CHECK_F64_BITS(tsr_table_f64(table, 0, 0), 9);
  tsr_runtime_close(f.rt);
}

TEST_TIMEOUT(short_calls_out_of_memory, 300)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  int64_t total = 1 << 30, failed = 0;
  for (int64_t n = 0; n <= total; n += test_quick() ? 1 + n / 40 : 1) {
    state = (struct test_alloc){ .fail_at = n };
    tsr_runtime *rt = tsr_runtime_open("cpu:2", .allocator = &allocator, .threads = 1);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_read_csv(s, test_file("golden/verbs.csv"));
    df = tsr_frame_rename(tsr_frame_drop_nulls(tsr_frame_drop(df, "d"), "t"), "z = x");
    df = tsr_frame_fill_null(df, "z", "?", 1.5);
    tsr_table *table = NULL;
    tsr_status status = tsr_frame_collect(tsr_frame_describe(df), &table);
    if (!status) status = tsr_frame_collect(tsr_frame_value_counts(df, "t"), &table);
    if (status != TSR_OK && status != TSR_ENOMEM)
      FAIL("allocation %lld: %s", (long long)n, tsr_message(s));
    failed += status != TSR_OK;
    tsr_runtime_close(rt);
    if (state.live) FAIL("allocation %lld: %lld blocks leak", (long long)n, (long long)state.live);
    if (n == 0) total = state.count;
  }
  CHECK(failed > 10);
}
