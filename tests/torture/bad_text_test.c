/* Frames, files and texts in hostile hands: names, expressions, CSV and .npy files that lie, vanish
 * or are no such thing; tables without rows; more devices than rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/bad_input.h"

/* ---- frames ---- */

static void is_inert_frame(tsr_frame *df, const char *call)
{
  if (!df || !tsr_frame_is_inert(df)) FAIL("%s is not inert", call);
}

/* Every call that makes a frame of `a`; `b` is another operand. All must be inert. */
static void every_frame_call(tsr_frame *a, tsr_frame *b)
{
  const tsr_formula sum = { .text = "n = count()" }, none = { 0 };
  tsr_frame *(*const pairs[])(tsr_frame *, tsr_frame_operand,
                              const char *) = { tsr_frame_add_at, tsr_frame_sub_at,
                                                tsr_frame_mul_at, tsr_frame_div_at };
  tsr_frame *(*const ones[])(tsr_frame *, const char *) = { tsr_frame_sum_at,   tsr_frame_mean_at,
                                                            tsr_frame_min_at,   tsr_frame_max_at,
                                                            tsr_frame_count_at, tsr_frame_var_at,
                                                            tsr_frame_std_at };
  for (int i = 0; i < 4; i++) {
    is_inert_frame(pairs[i](a, tsr_frame_operand_frame(b), NULL), "arithmetic");
    is_inert_frame(pairs[i](b, tsr_frame_operand_frame(a), NULL), "arithmetic, turned round");
    is_inert_frame(pairs[i](a, tsr_frame_operand_int(2), NULL), "arithmetic with a number");
  }
  for (int i = 0; i < 7; i++) is_inert_frame(ones[i](a, NULL), "reduction");
  is_inert_frame(tsr_frame_text_column_at(a, "t", NULL, 0, NULL), "text column");
  is_inert_frame(tsr_frame_text_column_at(a, NULL, (const char *const[]){ "x" }, 1, NULL), "text");
  is_inert_frame(tsr_frame_filter_at(a, &sum, NULL), "filter");
  is_inert_frame(tsr_frame_filter_at(a, NULL, NULL), "filter");
  is_inert_frame(tsr_frame_filter_at(a, &none, NULL), "filter");
  is_inert_frame(tsr_frame_assign_at(a, "x", &sum, NULL), "assign");
  is_inert_frame(tsr_frame_assign_at(a, NULL, &none, NULL), "assign");
  is_inert_frame(tsr_frame_assign_at(a, "x", NULL, NULL), "assign");
  is_inert_frame(tsr_frame_select_at(a, NULL, NULL), "select");
  is_inert_frame(tsr_frame_select_at(a, &none, NULL), "select");
  is_inert_frame(tsr_frame_head_at(a, -1, NULL), "head");
  is_inert_frame(tsr_frame_agg_at(a, NULL, NULL), "agg");
  is_inert_frame(tsr_frame_agg_at(a, &none, NULL), "agg");
  is_inert_frame(tsr_frame_group_agg_at(a, NULL, &sum, NULL), "group_agg");
  is_inert_frame(tsr_frame_group_agg_at(a, "", &sum, NULL), "group_agg");
  is_inert_frame(tsr_frame_group_agg_at(a, "x", NULL, NULL), "group_agg");
}

static void every_frame_end_fails(tsr_frame *df)
{
  int64_t rows = 7;
  tsr_table *table = NULL;
  FAILS(tsr_frame_row_count(df, &rows));
  FAILS(tsr_frame_collect(df, &table));
  FAILS(tsr_frame_print(df, stdout));
  CHECK(rows == 7 && !table);
  CHECK(tsr_frame_is_inert(df));
  CHECK_I64(tsr_frame_column_count(df), 0);
  CHECK(!tsr_frame_column_name(df, 0));
  CHECK_I64(tsr_frame_column_type(df, 0), 0);
  CHECK(tsr_frame_schema(df) && tsr_frame_explain(df) && tsr_frame_text(df));
  CHECK(tsr_frame_devices(df));
  is_inert(tsr_frame_column_with(df, "x", NULL, NULL), "column");
  is_inert(tsr_frame_column_with(df, NULL, NULL, NULL), "column");
  tsr_row *row = tsr_frame_row_at(df, NULL);
  CHECK(row);
  FAILS(tsr_row_status(row));
  CHECK(tsr_row_is_null(row, "x") && isnan(tsr_row_f64(row, "x")) && !tsr_row_text(row, "x"));
  CHECK_I64(tsr_row_i64(row, NULL), 0);
}

/* A good frame asked for what is not there. */
static void ask_too_much(tsr_frame *df)
{
  int64_t rows;
  tsr_table *table = NULL;
  FAILS(tsr_frame_row_count(df, NULL));
  FAILS(tsr_frame_collect(df, NULL));
  FAILS(tsr_frame_print(df, NULL));
  CHECK(!tsr_frame_column_name(df, -1) && !tsr_frame_column_name(df, 99));
  CHECK(!tsr_frame_column_type(df, -1) && !tsr_frame_column_type(df, 99));
  is_inert(tsr_frame_column_with(df, NULL, NULL, NULL), "column NULL");
  is_inert(tsr_frame_column_with(df, "", NULL, NULL), "column of no name");
  is_inert(tsr_frame_column_with(df, "none", NULL, NULL), "a column that is not there");
  FAILS(tsr_row_status(tsr_frame_row_at(df, NULL)));
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, NULL);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, NULL);
  const int columns[] = { -1, 0, 99 };
  const int64_t places[] = { -1, INT64_MIN, INT64_MAX, rows };
  for (int c = 0; c < 3; c++)
    for (int r = 0; r < 4; r++) {
      CHECK(tsr_table_is_null(table, places[r], columns[c]));
      CHECK(isnan(tsr_table_f64(table, places[r], columns[c])));
      CHECK_I64(tsr_table_i64(table, places[r], columns[c]), 0);
      CHECK(!tsr_table_text(table, places[r], columns[c]));
    }
  CHECK(!tsr_table_name(table, -1) && !tsr_table_name(table, 99) && !tsr_table_type(table, 99));
  CHECK_I64(tsr_table_find(table, NULL), -1);
  CHECK_I64(tsr_table_find(table, "none"), -1);
}

static void null_tables(void)
{
  CHECK_I64(tsr_table_row_count(NULL), 0);
  CHECK_I64(tsr_table_column_count(NULL), 0);
  CHECK(!tsr_table_name(NULL, 0) && !tsr_table_type(NULL, 0) && !tsr_table_text(NULL, 0, 0));
  CHECK_I64(tsr_table_find(NULL, "x"), -1);
  CHECK(tsr_table_is_null(NULL, 0, 0) && isnan(tsr_table_f64(NULL, 0, 0)));
  CHECK_I64(tsr_table_i64(NULL, 0, 0), 0);
  FAILS(tsr_row_status(NULL));
  CHECK(tsr_row_is_null(NULL, "x") && isnan(tsr_row_f64(NULL, "x")) && !tsr_row_text(NULL, "x"));
  CHECK_I64(tsr_row_i64(NULL, "x"), 0);
  CHECK_STR(tsr_coltype_name((tsr_coltype)99), "?");
  CHECK_I64(tsr_scalar_text(NULL).kind, TSR_SCALAR_TEXT);
}

static void frames_of_null(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_iota(s, TSR_F64, TSR_SHAPE(5), 0, (tsr_sharding){ 0 });
  tsr_frame *good = tsr_frame_new(s, { "x", x });
  const tsr_column no_name[] = { { NULL, x } }, no_array[] = { { "x", NULL } };
  const tsr_column scalar[] = { { "x", tsr_num(s, 1) } };
  null_tables();
  tsr_frame *bad[] = {
    NULL,
    tsr_frame_new_at(s, NULL, 3, NULL),
    tsr_frame_new_at(s, no_name, 0, NULL),
    tsr_frame_new_at(s, no_name, -1, NULL),
    tsr_frame_new_at(s, no_name, 1, NULL),
    tsr_frame_new_at(s, no_array, 1, NULL),
    tsr_frame_new_at(s, scalar, 1, NULL),
    tsr_frame_new_at(NULL, NULL, 1, NULL),
    tsr_frame_read_csv_with(s, NULL, NULL, NULL),
    tsr_frame_read_csv_with(NULL, NULL, NULL, NULL),
    tsr_frame_read_csv_with(NULL, "x.csv", NULL, NULL),
    tsr_frame_text_column(good, "t", NULL, 5),
    tsr_frame_text_column(good, "t", NULL, -5),
    tsr_frame_head(good, -1),
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    every_frame_call(bad[i], bad[i]);
    every_frame_end_fails(bad[i]);
    is_inert_frame(tsr_frame_add(good, bad[i]), "good + bad");
  }
  tsr_scope_clear(s);
  is_inert_frame(tsr_frame_filter_at(good, NULL, NULL), "filter NULL");
  is_inert_frame(tsr_frame_filter_at(good, &(tsr_formula){ 0 }, NULL), "filter by no text");
  is_inert_frame(tsr_frame_filter_at(good, &(tsr_formula){ "x > 1", -1, { { 0 } } }, NULL), "f");
  is_inert_frame(tsr_frame_filter_at(good, &(tsr_formula){ "x > 1", 99, { { 0 } } }, NULL), "f");
  is_inert_frame(tsr_frame_filter_at(good, &(tsr_formula){ "x > ?", 1, { { 0 } } }, NULL), "f");
  is_inert_frame(tsr_frame_filter_at(good, &(tsr_formula){ "x > ?", 1, { { .kind = 77 } } }, NULL),
                 "f");
  is_inert_frame(tsr_frame_assign_at(good, NULL, &(tsr_formula){ .text = "x" }, NULL), "assign");
  is_inert_frame(tsr_frame_assign_at(good, "y", NULL, NULL), "assign NULL");
  is_inert_frame(tsr_frame_select_at(good, NULL, NULL), "select NULL");
  is_inert_frame(tsr_frame_agg_at(good, NULL, NULL), "agg NULL");
  is_inert_frame(tsr_frame_group_agg_at(good, NULL, NULL, NULL), "group NULL");
  is_inert_frame(tsr_frame_group_agg_at(good, "x", NULL, NULL), "group NULL");
  is_inert_frame(tsr_frame_add_at(good, (tsr_frame_operand){ .number.kind = (tsr_scalar_kind)9 },
                                  NULL),
                 "add of a kind");
  tsr_scope_clear(s);
  ask_too_much(good);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(null_for_everything_of_frames)
{
  frames_of_null();
}

/* ---- no rows ---- */

static void check_rows(tsr_scope *s, tsr_frame *df, int64_t expected)
{
  int64_t rows = -1;
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, s);
  CHECK_I64(rows, expected);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, s);
  CHECK_I64(tsr_table_row_count(table), expected);
  CHECK(strlen(tsr_frame_text(df)) > 0 && strlen(tsr_frame_devices(df)) > 0);
  CHECK(strlen(tsr_frame_schema(df)) > 0 && strlen(tsr_frame_explain(df)) > 0);
}

/* All that can be done with a frame of columns a (f64), b (i64) and t (text) and no rows. */
static void use_no_rows(tsr_scope *s, tsr_frame *df)
{
  check_rows(s, df, 0);
  check_rows(s, tsr_frame_filter(df, "a > 1 and t == 'x'"), 0);
  check_rows(s, tsr_frame_assign(df, "c", "a / b + 1"), 0);
  check_rows(s, tsr_frame_select(df, "t, b, z = t is null"), 0);
  check_rows(s, tsr_frame_head(df, 5), 0);
  check_rows(s, tsr_frame_head(df, 0), 0);
  check_rows(s, tsr_frame_head(tsr_frame_filter(df, "b > 0"), INT64_MAX), 0);
  check_rows(s, tsr_frame_group_agg(df, "t", "count(), sum(a), max(b)"), 0);
  check_rows(s, tsr_frame_group_agg(df, "t, b", "n = count(a)"), 0);
  check_rows(s, tsr_frame_group_agg(tsr_frame_filter(df, "a > 1"), "b", "mean(a)"), 0);
  check_rows(s, tsr_frame_mul(tsr_frame_select(df, "a, b"), 2), 0);
  check_rows(s, tsr_frame_count(df), 1);
  tsr_frame *agg =
      tsr_frame_agg(df, "n = count(), s = sum(b), f = sum(a), m = mean(a), lo = min(a),"
                        " hi = max(b), v = var(a), d = std(b), c = count(t),"
                        " y = any(a > 1), z = all(a > 1)");
  check_rows(s, agg, 1);
  tsr_row *row = tsr_frame_row(agg);
  CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
  CHECK_I64(tsr_row_i64(row, "n"), 0);
  CHECK_I64(tsr_row_i64(row, "s"), 0);
  CHECK_F64_BITS(tsr_row_f64(row, "f"), 0);
  CHECK(!tsr_row_is_null(row, "s") && tsr_row_is_null(row, "m") && tsr_row_is_null(row, "lo"));
  CHECK(tsr_row_is_null(row, "hi") && tsr_row_is_null(row, "v") && tsr_row_is_null(row, "d"));
  FAILS(tsr_row_status(tsr_frame_row(df)));
  tsr_scope_clear(s);
  tsr_array *a = tsr_frame_column(df, "a");
  CHECK_STATUS(tsr_read(a, NULL, 0), TSR_OK, s);
  CHECK_I64(tsr_shape_of(a).dims[0], 0);
  check_rows(s, tsr_frame_new(s, { "again", a }), 0);
}

static tsr_frame *frame_of_arrays(tsr_scope *s, int64_t rows, tsr_sharding at)
{
  static const char *const texts[] = { "x", "y", NULL };
  tsr_array *a = tsr_iota(s, TSR_F64, TSR_SHAPE(rows), 0, at);
  tsr_frame *df = tsr_frame_new(s, { "a", a }, { "b", tsr_cast(a, TSR_I64) });
  return tsr_frame_text_column(df, "t", texts, rows);
}

TEST_TIMEOUT(frames_without_rows, 300)
{
  static const char *const devices[] = { "cpu:1", "cpu:3", "cpu:64" };
  static const char header[] = "a,b,t\n", typed[] = "a,b,t\n1.5,2,x\n2.5,3,\n";
  test_write(test_tmp("none.csv"), header, sizeof header - 1);
  test_write(test_tmp("two.csv"), typed, sizeof typed - 1);
  for (int d = 0; d < 3; d++) {
    tsr_runtime *rt = tsr_runtime_open_with(devices[d], NULL);
    tsr_mesh *mesh = tsr_mesh_default(rt, "d");
    tsr_scope *s = tsr_scope_open(rt);
    use_no_rows(s, frame_of_arrays(s, 0, tsr_on(mesh, "d")));
    use_no_rows(s, frame_of_arrays(s, 0, (tsr_sharding){ 0 }));
    use_no_rows(s, tsr_frame_filter(frame_of_arrays(s, 3, tsr_on(mesh, "d")), "a > 99"));
    use_no_rows(s, tsr_frame_head(frame_of_arrays(s, 3, tsr_on(mesh, "d")), 0));
    use_no_rows(s, tsr_frame_filter(tsr_frame_read_csv(s, test_tmp("two.csv")), "a > 99"));
    tsr_frame *none = tsr_frame_read_csv(s, test_tmp("none.csv"));
    CHECK_I64(tsr_frame_column_count(none), 3);
    check_rows(s, none, 0);
    check_rows(s, tsr_frame_head(none, 3), 0);
    check_rows(s, tsr_frame_agg(none, "count(), n = count(a)"), 1);
    check_rows(s, tsr_frame_group_agg(tsr_frame_assign(none, "t", "b is null"), "t", "count()"), 0);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
}

TEST_TIMEOUT(more_devices_than_rows, 300)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4096");
  tsr_mesh *mesh = tsr_mesh_default(rt, "d");
  tsr_scope *s = tsr_scope_open(rt);
  double out[3];
  tsr_frame *df = frame_of_arrays(s, 3, tsr_on(mesh, "d"));
  check_rows(s, df, 3);
  check_rows(s, tsr_frame_filter(df, "a > 0"), 2);
  check_rows(s, tsr_frame_head(df, 2), 2);
  check_rows(s, tsr_frame_group_agg(df, "t", "sum(a), count()"), 3);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "s = sum(a), m = mean(b)"));
  CHECK_F64_BITS(tsr_row_f64(row, "s"), 3);
  CHECK_F64_BITS(tsr_row_f64(row, "m"), 1);
  tsr_array *left = tsr_frame_column(tsr_frame_filter(df, "a != 1"), "a");
  CHECK_STATUS(tsr_read(left, out, 2 * sizeof *out), TSR_OK, s);
  CHECK_F64_BITS(out[1], 2);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(devices_that_cannot_be)
{
  static const char *const texts[] = {
    "",         "cpu",        "cpu:",   "cpu:0",  "cpu:-1", "cpu:4097000",
    "cpu:1e3",  "cpu: 8",     "cpu:8,", "cpu:8x", "gpu:1",  "cpu:99999999999999999999",
    "\xff\xfe", "cpu:8\ncpu", "CPU:8",  ":",      "cpu:+3", "cpu:0x10",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tsr_runtime *rt = tsr_runtime_open_with(texts[i], NULL);
    if (tsr_runtime_status(rt)) CHECK(strlen(tsr_runtime_message(rt)) > 0);
    tsr_mesh *mesh = tsr_mesh_make(rt, "x=1");
    tsr_scope *s = tsr_scope_open(rt);
    CHECK_STATUS(tsr_scope_status(s), tsr_runtime_status(rt), s);
    tsr_array *x = tsr_put(s, &(float){ 1 }, TSR_F32, TSR_SHAPE(1), tsr_on(mesh, "x"));
    if (tsr_runtime_status(rt)) every_array_end_fails(x);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
}

/* ---- files ---- */

static void write_text(const char *name, const char *text)
{
  test_write(test_tmp(name), text, strlen(text));
}

TEST(csv_files_that_cannot_be_read)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  mkdir(test_tmp("folder"), 0700);
  CHECK(symlink("nowhere", test_tmp("dangling")) == 0);
  CHECK(symlink("loop", test_tmp("loop")) == 0);
  write_text("empty.csv", "");
  write_text("twice.csv", "a,b,a\n1,2,3\n");
  write_text("nameless.csv", "a,,b\n1,2,3\n");
  write_text("ragged.csv", "a,b\n1,2\n3\n4,5,6\n");
  write_text("open.csv", "a,b\n1,\"never closed\n2,3\n");
  write_text("latin.csv", "a,b\n1,caf\xe9\n");
  test_write(test_tmp("nul.csv"), "a,b\n1,\0\n2,3\n", 12);
  write_text("bom.csv", "\xef\xbb\xbf");
  write_text("folder/plain.csv", "a\n1\n");
  static const char *const names[] = {
    "folder",     "dangling",      "loop",      "empty.csv", "twice.csv",         "nameless.csv",
    "ragged.csv", "open.csv",      "latin.csv", "nul.csv",   "bom.csv",           "none.csv",
    "folder/",    "none/none.csv", "",          "plain/x/y", "folder/plain.csv/x"
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_read_csv(s, *names[i] ? test_tmp(names[i]) : "");
    tsr_table *table = NULL;
    tsr_status status = tsr_frame_collect(df, &table);
    if (!status) {
      for (int c = 0; c < tsr_table_column_count(table); c++)
        CHECK(strlen(tsr_table_name(table, c)));
    } else if (!*tsr_message(s)) {
      FAIL("%s fails without a word", names[i]);
    } else if (tsr_scope_status(s) != status) {
      FAIL("%s: %s", names[i], tsr_message(s));
    }
    if (i < 4) CHECK(status == TSR_EIO || status == TSR_EPARSE);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* A file that changes between the call, which sees its schema, and the terminal. */
TEST(csv_files_that_change_while_they_are_open)
{
  static const char *const after[] = {
    NULL, "", "a,b\n", "a,b\n1,2\n", "x\n1\n", "a,b\n1,2\n3,4\n5,6\n7,8\n9,10\n\"\n"
  };
  for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:2");
    tsr_scope *s = tsr_scope_open(rt);
    write_text("c.csv", "a,b\n1,2\n3,4\n5,6\n");
    tsr_frame *df = tsr_frame_read_csv(s, test_tmp("c.csv"));
    CHECK_I64(tsr_frame_column_count(df), 2);
    tsr_frame *agg = tsr_frame_agg(df, "s = sum(a)");
    if (after[i]) {
      unlink(test_tmp("c.csv"));
      write_text("c.csv", after[i]);
    } else {
      unlink(test_tmp("c.csv"));
    }
    tsr_table *table = NULL;
    tsr_status status = tsr_frame_collect(agg, &table);
    CHECK((status == TSR_OK) == !!table);
    if (status) CHECK(strlen(tsr_message(s)) > 0);
    else CHECK(tsr_table_i64(table, 0, 0) >= 0);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
}

/* A .npy file of version 1.0 with this header, and `bytes` zeros. */
static void write_npy(const char *header, size_t bytes)
{
  unsigned char file[4096] = "\x93NUMPY\x01";
  size_t length = strlen(header);
  file[8] = (unsigned char)length;
  file[9] = (unsigned char)(length >> 8);
  memcpy(file + 10, header, length);
  test_write(test_tmp("h.npy"), file, 10 + length + bytes);
}

TEST(npy_files_that_lie)
{
  static const char *const headers[] = {
    "{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807,), }\n",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0), }\n",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,), }\n",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }\n",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (2,, }\n",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (((((((((((2,), }\n",
    "{'descr': '<f8', 'fortran_order': True, 'shape': (2,2), }\n",
    "{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }\n",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }\n",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }\n",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n",
    "{'descr': '<f8', 'fortran_order': False}\n",
    "{'shape': (2,)}\n",
    "{}\n",
    "",
    "{'descr': '<f8",
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_default(rt, "d");
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    write_npy(headers[i], 16);
    tsr_array *x = tsr_load_npy(s, test_tmp("h.npy"), tsr_on(mesh, "d"));
    double out[2];
    if (tsr_read(x, out, sizeof out) == TSR_OK) FAIL("%s is read", headers[i]);
    if (!*tsr_message(s)) FAIL("%s fails without a word", headers[i]);
    tsr_scope_close(s);
  }
  mkdir(test_tmp("folder"), 0700);
  static const char *const names[] = { "folder", "none.npy", "folder/", "none/x.npy" };
  for (int i = 0; i < 4; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *x = tsr_load_npy(s, test_tmp(names[i]), tsr_on(mesh, "d"));
    CHECK_STATUS(tsr_eval(&x, 1), TSR_EIO, s);
    CHECK_STR_HAS(tsr_message(s), names[i]);
    tsr_scope_close(s);
  }
  /* Every length of a good file but the last one is too short. */
  char header[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n";
  write_npy(header, 16);
  size_t length;
  char *whole = test_read(test_tmp("h.npy"), &length);
  for (size_t n = 0; n < length; n++) {
    tsr_scope *s = tsr_scope_open(rt);
    test_write(test_tmp("h.npy"), whole, n);
    tsr_array *x = tsr_load_npy(s, test_tmp("h.npy"), tsr_on(mesh, "d"));
    CHECK(tsr_eval(&x, 1) != TSR_OK && *tsr_message(s));
    tsr_scope_close(s);
  }
  free(whole);
  tsr_runtime_close(rt);
}

TEST(saves_that_fail_leave_nothing)
{
  double data[3] = { 1, 2, 3 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, data, TSR_F64, TSR_SHAPE(3), tsr_on(tsr_mesh_default(rt, "d"), "d"));
  mkdir(test_tmp("folder"), 0700);
  mkdir(test_tmp("folder/full.npy"), 0700);
  write_text("folder/full.npy/x", "");
  static const char *const paths[] = { "/nowhere/x.npy", "/proc/x.npy", "" };
  for (int i = 0; i < 3; i++) {
    CHECK(tsr_save_npy(x, paths[i]) != TSR_OK);
    CHECK(*tsr_message(s));
    tsr_scope_clear(s);
  }
  CHECK_STATUS(tsr_save_npy(x, test_tmp("folder/full.npy")), TSR_EIO, NULL);
  CHECK(rmdir(test_tmp("folder")) != 0 && unlink(test_tmp("folder/full.npy/x")) == 0);
  CHECK(rmdir(test_tmp("folder/full.npy")) == 0);
  CHECK(rmdir(test_tmp("folder")) == 0); /* so no temporary file is left */
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- texts ---- */

/* A filter, an assign, a select, aggregates and keys of a text: each works, or says why not. */
static void try_text(tsr_runtime *rt, const char *text)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = frame_of_arrays(s, 3, (tsr_sharding){ 0 });
  const tsr_formula formula = { .text = text };
  tsr_frame *made[] = { tsr_frame_filter_at(df, &formula, NULL),
                        tsr_frame_assign_at(df, "n", &formula, NULL),
                        tsr_frame_assign_at(df, text, &(tsr_formula){ .text = "a" }, NULL),
                        tsr_frame_select_at(df, &formula, NULL),
                        tsr_frame_agg_at(df, &formula, NULL),
                        tsr_frame_group_agg_at(df, text, &(tsr_formula){ .text = "count()" }, NULL),
                        tsr_frame_group_agg_at(df, "t", &formula, NULL) };
  int failed = 0;
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
    tsr_table *table = NULL;
    failed += tsr_frame_is_inert(made[i]);
    CHECK((tsr_frame_collect(made[i], &table) == TSR_OK) == !!table);
    CHECK(tsr_frame_text(made[i]) && tsr_frame_explain(made[i]) && tsr_frame_schema(made[i]));
  }
  if (failed) CHECK(*tsr_message(s));
  tsr_array *x = tsr_iota(s, TSR_F64, TSR_SHAPE(4), 0, tsr_on(tsr_mesh_default(rt, "d"), text));
  double out[4];
  if (tsr_read(x, out, sizeof out)) CHECK(*tsr_message(s));
  tsr_mesh *mesh = tsr_mesh_make(rt, text);
  if (tsr_mesh_status(mesh)) CHECK(*tsr_mesh_message(mesh));
  tsr_scope_close(s);
}

static char *repeat(const char *open, const char *middle, const char *close, int count)
{
  size_t a = strlen(open), b = strlen(middle), c = strlen(close), n = (size_t)count;
  char *text = malloc((a + c) * n + b + 1), *at = text;
  CHECK(text);
  for (size_t i = 0; i < n; i++, at += a) memcpy(at, open, a);
  memcpy(at, middle, b);
  at += b;
  for (size_t i = 0; i < n; i++, at += c) memcpy(at, close, c);
  *at = 0;
  return text;
}

TEST_TIMEOUT(texts_as_long_and_deep_as_can_be, 300)
{
  static const struct {
    const char *open, *middle, *close;
    int count;
  } cases[] = {
    { "(", "a", ")", 10000 },
    { "(", "a > 1", ")", 100 },
    { "(", "", "", 10000 },
    { "", "a", ")", 10000 },
    { "-", "a", "", 10000 },
    { "not ", "true", "", 10000 },
    { "a + ", "a", "", 10000 },
    { "a ** ", "a", "", 10000 },
    { "abs(", "a", ")", 10000 },
    { "sum(", "a", ")", 1000 },
    { "a, ", "a", "", 10000 },
    { "?", "", "", 10000 },
    { "x", "", "", 1 << 20 },
    { "\"", "", "", 1 << 20 },
    { "'", "", "", (1 << 20) + 1 },
    { "9", "", "", 1 << 20 },
    { "a in (", "1", ")", 1000 },
    { " ", "", "", 1 << 20 },
    { "a > 1 and ", "b > 2", "", 3000 },
    { "\n", "a >", "", 5000 },
    { "x=2,", "y=2", "", 1000 },
    { "-,", "-", "", 10000 },
    { "d+", "d", "", 10000 },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text = repeat(cases[i].open, cases[i].middle, cases[i].close, cases[i].count);
    try_text(rt, text);
    free(text);
  }
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(texts_that_are_nothing, 300)
{
  static const char *const texts[] = {
    "\xff",
    "a > \xc3",
    "\xed\xa0\x80 > 1",
    "\xf5\x80\x80\x80",
    "'\xff'",
    "\"\xff\" > 1",
    "a > '\xc3(",
    "\x01",
    "a\x7f",
    "\xe2\x80\xa8",
    "",
    " ",
    ",",
    "=",
    "a =",
    "= a",
    "a = = a",
    "==",
    "a ==",
    "()",
    "sum",
    "sum(",
    "sum()",
    "sum(a",
    "sum(a,b)",
    "count(,)",
    "a b",
    "a > ",
    "a >> 1",
    "a > 1 >",
    "1 2",
    "a is",
    "a is not",
    "a in",
    "a in (",
    "a in ()",
    "a in (1,",
    "in (1)",
    "not",
    "and",
    "or",
    "a and",
    "null",
    "null + 1",
    "null is null",
    "1e999 > a",
    "1e-999 > a",
    "99999999999999999999 > b",
    "0x10",
    "1.2.3",
    "1..2",
    ".5",
    "5.",
    "1e",
    "1e+",
    "a.b",
    "a[0]",
    "a;b",
    "a#b",
    "a\\b",
    "a`b",
    "a$b",
    "@",
    "?",
    "b / 0",
    "b // 0",
    "b % 0",
    "b ** -1",
    "b ** 99",
    "0 ** 0",
    "-9223372036854775808 + b",
    "9223372036854775807 + b",
    "b * 9223372036854775807",
    "-(-9223372036854775807 - 1 - b)",
    "abs(b) > t",
    "t > 1",
    "t + t",
    "t == 'x'",
    "t in ('x', null)",
    "t > 'a' and t < 'z'",
    "-t",
    "sqrt(t)",
    "sqrt(-1)",
    "log(0)",
    "a = a",
    "a = 1, a = 2",
    "\"\" > 1",
    "\"a\" > 1",
    "'a' > 1",
    "x = sum(a), x = sum(b)",
    "sum(sum(a))",
    "a > sum(a)",
    "sum(a) > 1",
    "mean(t)",
    "min(t)",
    "max(t)",
    "any(a)",
    "all(t)",
    "std(1)",
    "count(null)",
    "sum(null)",
    "if(a, b)",
    "where(a > 1, a, b)",
    "a if b else c",
    "d",
    "A",
    "tt",
    "sun(a)",
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) try_text(rt, texts[i]);
  tsr_runtime_close(rt);
}

TEST(parameters_must_be_as_many_as_their_places)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = frame_of_arrays(s, 3, (tsr_sharding){ 0 });
  is_inert_frame(tsr_frame_filter(df, "a > ?"), "one missing");
  CHECK_STR_HAS(tsr_message(s), "?");
  is_inert_frame(tsr_frame_filter(df, "a > 1", 1), "one too many");
  is_inert_frame(tsr_frame_filter(df, "a > ? and b > ?", 1), "second missing");
  is_inert_frame(tsr_frame_filter(df, "a > ?", "x"), "text for a number");
  is_inert_frame(tsr_frame_filter(df, "t == '?'", 1), "a mark in quotes is no place");
  tsr_scope_clear(s);
  check_rows(s, tsr_frame_filter(df, "a in (?,?,?,?,?,?,?,?)", 1, 2, 3, 4, 5, 6, 7, 8), 2);
  check_rows(s, tsr_frame_filter(df, "t == ?", "y"), 1);
  check_rows(s, tsr_frame_filter(df, "a < ?", NAN), 0);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(names_that_need_quotes)
{
  static const char *const names[] = { "a b", "1",    "sum", "and", "\xc3\xa9", "x,y", "it's",
                                       "(",   "null", " ",   "?",   "a\nb",     "-" };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_iota(s, TSR_F64, TSR_SHAPE(4), 0, (tsr_sharding){ 0 });
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char text[64];
    tsr_frame *df = tsr_frame_new(s, { names[i], x }, { "b", x });
    snprintf(text, sizeof text, "\"%s\" > 1", names[i]);
    check_rows(s, tsr_frame_filter_at(df, &(tsr_formula){ .text = text }, NULL), 2);
    snprintf(text, sizeof text, "s = sum(\"%s\")", names[i]);
    tsr_row *row = tsr_frame_row(tsr_frame_agg_at(df, &(tsr_formula){ .text = text }, NULL));
    CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
    CHECK_F64_BITS(tsr_row_f64(row, "s"), 6);
    CHECK_STATUS(tsr_read(tsr_frame_column(df, names[i]), (double[4]){ 0 }, 32), TSR_OK, s);
    CHECK(strlen(tsr_frame_text(df)) > 0);
  }
  is_inert_frame(tsr_frame_new(s, { "a", x }, { "a", x }), "a name twice");
  CHECK_STATUS(tsr_scope_status(s), TSR_ECOLUMN, s);
  is_inert_frame(tsr_frame_new(s, { "", x }), "an empty name");
  is_inert_frame(tsr_frame_new(s, { "\xff", x }), "not UTF-8");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(overflow_names_the_row)
{
  int64_t data[5] = { 1, 2, INT64_MAX, 3, INT64_MAX };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_default(rt, "d");
  static const char *const texts[] = { "b + 1", "b * 2", "-b - 2", "b + b" };
  for (int i = 0; i < 4; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *b = tsr_put(s, data, TSR_I64, TSR_SHAPE(5), tsr_on(mesh, "d"));
    tsr_frame *df = tsr_frame_assign_at(tsr_frame_new(s, { "b", b }), "c",
                                        &(tsr_formula){ .text = texts[i] }, NULL);
    tsr_table *table = NULL;
    CHECK_STATUS(tsr_frame_collect(df, &table), TSR_EVALUE, s);
    CHECK_STR_HAS(tsr_message(s), "row 2");
    tsr_scope_clear(s);
    CHECK(tsr_frame_collect(tsr_frame_agg(tsr_frame_new(s, { "b", b }), "sum(b)"), &table));
    CHECK(!table && *tsr_message(s));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(frames_on_a_runtime_that_failed)
{
  write_text("t.csv", "a\n1\n");
  tsr_runtime *rt = tsr_runtime_open("gpu:many");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("t.csv"));
  every_frame_end_fails(df);
  every_frame_call(df, df);
  CHECK_STATUS(tsr_scope_status(s), tsr_runtime_status(rt), s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(nulls_take_only_numbers_that_fit)
{
  static const char text[] = "n,d\n1,2013-01-01\n,\n";
  const tsr_scalar odd[] = { { .kind = (tsr_scalar_kind)9 },
                             { .kind = (tsr_scalar_kind)-1 },
                             TSR_VALUE("1"),
                             TSR_VALUE(1.5),
                             TSR_VALUE((double)NAN),
                             TSR_VALUE(UINT64_MAX),
                             TSR_VALUE(INT64_MAX) };
  write_text("t.csv", text);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("t.csv"));
  for (int i = 0; i < 7; i++) {
    is_inert(tsr_frame_column(df, "d", .null_value = odd[i]), "a date column");
    CHECK_STATUS(tsr_scope_status(s), TSR_EDTYPE, s);
    tsr_scope_clear(s);
    if (i < 6) is_inert(tsr_frame_column(df, "n", .null_value = odd[i]), "an integer column");
    tsr_scope_clear(s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* A scope keeps its first error; a later one that fails is a failure all the same. */
TEST(terminals_fail_after_an_earlier_error_too)
{
  int64_t data[2] = { INT64_MAX, 1 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *b = tsr_put(s, data, TSR_I64, TSR_SHAPE(2), (tsr_sharding){ 0 });
  tsr_frame *df = tsr_frame_assign(tsr_frame_new(s, { "b", b }), "c", "b + 1");
  is_inert_frame(tsr_frame_filter(df, "none > 1"), "filter");
  CHECK_STATUS(tsr_scope_status(s), TSR_ECOLUMN, s);
  int64_t rows;
  tsr_table *table = NULL;
  FILE *sink = tmpfile();
  CHECK_STATUS(tsr_frame_print(df, sink), TSR_EVALUE, NULL);
  CHECK_I64(ftell(sink), 0);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_EVALUE, NULL);
  CHECK_STATUS(tsr_row_status(tsr_frame_row(df)), TSR_EVALUE, NULL);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "c > 1"), &rows), TSR_EVALUE, NULL);
  is_inert(tsr_frame_column(df, "c"), "column");
  /* What is well goes on. */
  CHECK_STATUS(tsr_frame_print(tsr_frame_select(df, "b"), sink), TSR_OK, NULL);
  CHECK(ftell(sink) > 0);
  CHECK_STATUS(tsr_scope_status(s), TSR_ECOLUMN, s);
  fclose(sink);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* The library prints nothing, whatever it is asked. */
TEST_TIMEOUT(nothing_is_printed, 300)
{
  check_silent(frames_of_null);
}
