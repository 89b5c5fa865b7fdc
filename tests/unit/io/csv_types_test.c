/* Types that turn out wrong, errors and their wording, memory and reading that fail. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "support/csv_table.h"
#include "tessera.h"

static const char *write_text(const char *name, const char *text)
{
  const char *path = test_tmp(name);
  test_write(path, text, strlen(text));
  return path;
}

/* A message without the folder, which differs from run to run. */
static const char *without_folder(const char *message)
{
  const char *path = test_tmp("x");
  size_t folder = strlen(path) - 1;
  return strncmp(message, path, folder) == 0 ? message + folder : message;
}

/* ---- late values ----------------------------------------------------------------------------- */

/* `rows` lines of `early`, then `late`, then `rows` of early again, with a second column. */
static const char *write_late(const char *early, const char *late, int rows)
{
  const char *path = test_tmp("late.csv");
  FILE *file = fopen(path, "w");
  fprintf(file, "k,v\n");
  for (int i = 0; i <= 2 * rows; i++) fprintf(file, "%d,%s\n", i, i == rows ? late : early);
  CHECK_I64(fclose(file), 0);
  return path;
}

static void check_cell(const struct table *t, int64_t row, const char *text)
{
  const struct table_cell *cell = &t->cells[t->rows + row];
  double value;
  memcpy(&value, &cell->bits, 8);
  switch (t->schema[1].type) {
  case TSR_COL_TEXT:
    CHECK_U64(cell->length, strlen(text));
    CHECK_BYTES(cell->text, text, cell->length);
    break;
  case TSR_COL_F64:
    if (strcmp(text, "NA") == 0) CHECK(cell->null);
    else CHECK_F64_BITS(value, strtod(text, NULL));
    break;
  default: break;
  }
}

static void check_late(const char *early, const char *late, tsr_coltype expected, int retypes)
{
  const int rows = 300;
  const char *path = write_late(early, late, rows);
  for (int stripes = 1; stripes <= 7; stripes += 3) {
    tsr_runtime *rt = table_runtime(NULL, 2);
    struct table t;
    tsr__error error = { 0 };
    struct table_how how = { .opts = { .sample = 64, .stripes = stripes }, .parts = stripes };
    if (table_read(rt, path, &how, &t, &error)) FAIL("%s", error.text);
    if (t.schema[1].type != expected)
      FAIL("%s, then %s is %s", early, late, table_type_name(t.schema[1].type));
    CHECK_I64(t.retypes, retypes);
    CHECK_I64(t.rows, 2 * rows + 1);
    check_cell(&t, 0, early);
    check_cell(&t, rows, late);
    check_cell(&t, 2 * rows, early);
    table_free(&t);
    tsr_runtime_close(rt);
  }
}

TEST(late_values_widen)
{
  check_late("1", "hello", TSR_COL_TEXT, 1);
  check_late("1", "2.5", TSR_COL_F64, 1);
  check_late("1", "nan", TSR_COL_F64, 1);
  check_late("1", "9223372036854775808", TSR_COL_TEXT, 1);
  check_late("1", "2013-01-01", TSR_COL_TEXT, 1);
  check_late("1", "true", TSR_COL_TEXT, 1);
  check_late("1", "NA", TSR_COL_I64, 0);
  check_late("1.5", "7", TSR_COL_F64, 0);
  check_late("1.5", "9223372036854775808", TSR_COL_F64, 0);
  check_late("1.5", "x", TSR_COL_TEXT, 1);
  check_late("true", "1", TSR_COL_TEXT, 1);
  check_late("2013-01-01", "2013-01-01T06:00:00Z", TSR_COL_TIME, 1);
  check_late("2013-01-01", "2013-02-30", TSR_COL_TEXT, 1);
  check_late("2013-01-01T06:00:00Z", "2013-01-01", TSR_COL_TIME, 0);
  check_late("2013-01-01T06:00:00Z", "5", TSR_COL_TEXT, 1);
  check_late("x", "1", TSR_COL_TEXT, 0);
}

/* What a number would lose of a code, wherever in the file the first one stands. */
TEST(zeros_in_front_are_kept)
{
  check_late("1", "007", TSR_COL_TEXT, 1);
  check_late("1", "00", TSR_COL_TEXT, 1);
  check_late("1", "-01", TSR_COL_TEXT, 1);
  check_late("1", "+01", TSR_COL_TEXT, 1);
  check_late("1.5", "02134", TSR_COL_TEXT, 1);
  check_late("1", "09223372036854775808", TSR_COL_TEXT, 1);
  check_late("NA", "00000", TSR_COL_TEXT, 0);
  check_late("02134", "1", TSR_COL_TEXT, 0);
  check_late("1", "0", TSR_COL_I64, 0);
  check_late("1", "-0", TSR_COL_I64, 0);
  check_late("1.5", "00.5", TSR_COL_F64, 0);
  check_late("1.5", "0e1", TSR_COL_F64, 0);
}

TEST(zeros_in_front_are_noted)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = write_text("zip.csv", "zip,n,w\n02134,1,01\n10001,2,x\n");
  tsr_frame *df = tsr_frame_read_csv(s, path);
  CHECK_STR(without_folder(tsr_frame_notes(df)),
            "zip.csv: column \"zip\" is text, as integers in it begin with zeros; the option types "
            "makes it a number\n");
  df = tsr_frame_read_csv(s, path, .types = "zip i64");
  CHECK_STR(tsr_frame_notes(df), "");
  CHECK_I64(tsr_frame_column_type(df, 0), TSR_COL_I64);
  df = tsr_frame_read_csv(s, path, .types = "zip u16", .bad_rows = TSR_BAD_ROWS_NULL);
  int64_t rows = 0;
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "zip == 2134"), &rows), TSR_OK, s);
  CHECK_I64(rows, 1);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_runtime_close(rt);
}

/* Nothing but nulls in the sample: the whole file decides before a type is told. */
TEST(late_values_after_nulls)
{
  check_late("NA", "7", TSR_COL_I64, 0);
  check_late("NA", "7.5", TSR_COL_F64, 0);
  check_late("NA", "true", TSR_COL_BOOL, 0);
  check_late("NA", "2013-01-01", TSR_COL_DATE, 0);
  check_late("NA", "2013-01-01T00:00Z", TSR_COL_TIME, 0);
  check_late("NA", "x", TSR_COL_TEXT, 0);
  check_late("NA", "NA", TSR_COL_F64, 0);
  check_late("", "9223372036854775808", TSR_COL_TEXT, 0);
}

/* Two late values that contradict the sample, and each other, in either order. */
TEST(late_values_in_any_order)
{
  const char *values[2] = { "1.5", "9223372036854775808" };
  for (int swap = 0; swap < 2; swap++) {
    const char *path = test_tmp("two.csv");
    FILE *file = fopen(path, "w");
    fprintf(file, "k,v\n");
    for (int i = 0; i < 400; i++)
      fprintf(file, "%d,%s\n", i, i == 150 ? values[swap] : i == 350 ? values[1 - swap] : "1");
    CHECK_I64(fclose(file), 0);
    tsr_runtime *rt = table_runtime(NULL, 1);
    struct table t;
    tsr__error error = { 0 };
    struct table_how how = { .opts = { .sample = 64, .stripes = 4 } };
    if (table_read(rt, path, &how, &t, &error)) FAIL("%s", error.text);
    CHECK_STR(table_type_name(t.schema[1].type), "f64");
    CHECK_I64(t.retypes, 1);
    table_free(&t);
    tsr_runtime_close(rt);
  }
}

TEST(the_value_that_widened_is_named)
{
  const char *path = write_late("1", "hello, that is \"\"quoted\"\"", 200), *text = "unset";
  path = write_late("1", "\"hello\"", 200);
  tsr_runtime *rt = table_runtime(NULL, 1);
  tsr__error error = { 0 };
  tsr__csv_opts opts = { .sample = 64 };
  tsr__csv *csv = tsr__csv_open_with(rt, path, &opts, &error);
  CHECK(csv != NULL);
  CHECK_I64(tsr__csv_widened(csv, 1, &text), -1);
  CHECK_STR(text, "unset");
  int64_t rows[2] = { 0, 401 }, values[401];
  uint64_t validity[7], *bits = validity;
  void *data = values;
  tsr__read_target target = { .column = 1, .values = &data, .validity = &bits };
  tsr__read_ask read = { .parts = 1, .rows = rows, .target_count = 1, .targets = &target };
  CHECK_STATUS(tsr__csv_read_parts(csv, &read, &error), TSR_OK, NULL);
  CHECK_I64(read.retyped, 1);
  CHECK_I64(tsr__csv_widened(csv, 1, &text), 200);
  CHECK_STR(text, "\"hello\"");
  CHECK_I64(tsr__csv_widened(csv, 0, &text), -1);
  tsr__csv_close(csv);
  tsr_runtime_close(rt);
}

/* A query that does not fit a sampled type is one of the type that the whole file gives. */
TEST(a_query_is_of_all_values)
{
  const char *path = write_late("1", "abc", 60000); /* beyond the sample's windows */
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t rows = 0;
  tsr_frame *df = tsr_frame_read_csv(s, path);
  CHECK_I64(tsr_frame_column_type(df, 1), TSR_COL_I64);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "v == 'abc'"), &rows), TSR_OK, s);
  CHECK_I64(rows, 1);
  df = tsr_frame_assign(tsr_frame_read_csv(s, path), "w", "v");
  df = tsr_frame_filter(df, "k >= 0");
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "starts_with(w, 'a')"), &rows), TSR_OK, s);
  CHECK_I64(rows, 1);
  df = tsr_frame_read_csv(s, path);
  tsr_frame *key = tsr_frame_select(df, "v = cast(k, 'text')");
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_join(df, key, "v", .how = TSR_JOIN_ANTI), &rows),
               TSR_OK, s);
  CHECK_I64(rows, 1);
  /* What stands between does not go with that type. */
  df = tsr_frame_assign(tsr_frame_read_csv(s, path), "w", "v + 1");
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "v == 'abc'"), &rows), TSR_EDTYPE, s);
  CHECK_STR_HAS(tsr_message(s), "tsr_frame_assign: '+' needs numbers, found text");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_EDTYPE, s);
  tsr_scope_clear(s);
  /* And what no file says is an error as it stands. */
  df = tsr_frame_read_csv(s, path, .types = "v i64", .bad_rows = TSR_BAD_ROWS_SKIP);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(df, "v == 'abc'"), &rows), TSR_EDTYPE, s);
  tsr_runtime_close(rt);
}

/* ---- windows of large files ------------------------------------------------------------------ */

/* Sixty thousand bytes, of which the sample takes the first, the middle and the last. */
static int64_t retypes_of(const char *odd, int odd_row, const char *text)
{
  const char *path = test_tmp("large.csv");
  FILE *file = fopen(path, "w");
  fprintf(file, "k,v,t\n");
  for (int i = 0; i < 4000; i++)
    fprintf(file, "%d,%s,%s\n", 1000 + i % 100, i == odd_row ? odd : "1", text);
  CHECK_I64(fclose(file), 0);
  tsr_runtime *rt = table_runtime(NULL, 1);
  struct table t;
  tsr__error error = { 0 };
  struct table_how how = { .opts = { .sample = 32 << 10 } };
  if (table_read(rt, path, &how, &t, &error)) FAIL("%s", error.text);
  CHECK_I64(t.rows, 4000);
  CHECK_STR(table_type_name(t.schema[0].type), "i64");
  CHECK_STR(table_type_name(t.schema[1].type), odd_row < 0 ? "i64" : "f64");
  CHECK_STR(table_type_name(t.schema[2].type), "text");
  int64_t retypes = t.retypes;
  table_free(&t);
  tsr_runtime_close(rt);
  return retypes;
}

TEST(windows_see_the_middle_and_the_end)
{
  CHECK_I64(retypes_of("1", -1, "abc"), 0);
  CHECK_I64(retypes_of("1.5", 10, "abc"), 0);
  CHECK_I64(retypes_of("1.5", 2100, "abc"), 0);
  CHECK_I64(retypes_of("1.5", 3990, "abc"), 0);
  CHECK_I64(retypes_of("1.5", 3990, "\"a,c\""), 0);
}

/* Wherever the header and the rows end beside the sample's borders, a column has the type that its
 * values have, and the reading finds nothing to widen. */
TEST(samples_of_any_size_give_the_types)
{
  char *name = calloc(1, 801);
  memset(name, 'n', 800);
  for (int long_name = 0; long_name <= 800; long_name += 40)
    for (int sample = 1; sample <= 2048; sample *= 2)
      for (int clean = 0; clean < 2; clean++) {
        const char *path = test_tmp("sampled.csv");
        FILE *file = fopen(path, "w");
        fprintf(file, "k%.*s,v\n", long_name, name);
        for (int i = 0; i < 3; i++) fprintf(file, "%d,%0*d.5\n", i, long_name / 4, i + 1);
        CHECK_I64(fclose(file), 0);
        tsr_runtime *rt = table_runtime(NULL, 1);
        struct table t;
        tsr__error error = { 0 };
        struct table_how how = { .opts = { .sample = sample } };
        if (clean) how.opts.bad_rows = TSR__CSV_BAD_SKIP;
        if (table_read(rt, path, &how, &t, &error)) FAIL("%s", error.text);
        if (t.schema[0].type != TSR_COL_I64 || t.schema[1].type != TSR_COL_F64)
          FAIL("a name of %d bytes, a sample of %d: %s, %s", long_name, sample,
               table_type_name(t.schema[0].type), table_type_name(t.schema[1].type));
        table_free(&t);
        tsr_runtime_close(rt);
      }
  free(name);
}

/* Texts that look like rows when read with the quotes the wrong way round. */
TEST(windows_in_quotes_are_left_out)
{
  CHECK_I64(retypes_of("1", -1, "\"x,y,z\nx,y,z\nx,y,z\nx,y,z\n\""), 0);
  CHECK_I64(retypes_of("1", -1, "\"\n,,\n\""), 0);
  CHECK_I64(retypes_of("1", -1, "\",\n\""), 0);
  /* Right both ways: a row is 1000 | 1 | text, or x... | y | text. */
  char text[64] = "\"\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx,y,\"";
  for (int i = 0; i < 12; i++, memmove(text + 2, text + 3, strlen(text + 2)))
    CHECK_I64(retypes_of("1", -1, text), 0);
}

/* ---- some columns of some rows --------------------------------------------------------------- */

TEST(reads_columns_and_rows_by_choice)
{
  const char *path = test_tmp("some.csv");
  FILE *file = fopen(path, "w");
  fprintf(file, "a,b,c\n");
  for (int i = 0; i < 1000; i++) fprintf(file, "%d,\"x\n%d\",%d.5\n", i, i % 10, i);
  CHECK_I64(fclose(file), 0);
  tsr_runtime *rt = table_runtime(NULL, 2);
  tsr__error error = { 0 };
  tsr__csv *csv = tsr__csv_open_with(rt, path, NULL, &error);
  CHECK(csv != NULL);
  int64_t rows[4] = { 137, 200, 200, 901 };
  double *parts[3];
  uint64_t *bits[3];
  for (int p = 0; p < 3; p++) {
    parts[p] = malloc((size_t)(rows[p + 1] - rows[p]) * 8 + 1);
    bits[p] = malloc((size_t)(rows[p + 1] - rows[p] + 63) / 64 * 8 + 1);
  }
  tsr__read_target target = { .column = 2, .values = (void **)parts, .validity = bits };
  tsr__read_ask read = { .parts = 3, .rows = rows, .target_count = 1, .targets = &target };
  CHECK_STATUS(tsr__csv_read_parts(csv, &read, &error), TSR_OK, NULL);
  for (int p = 0; p < 3; p++) {
    for (int64_t r = rows[p]; r < rows[p + 1]; r++)
      CHECK_F64_BITS(parts[p][r - rows[p]], (double)r + 0.5);
    free(parts[p]);
    free(bits[p]);
  }
  CHECK_I64(target.nulls, 0);
  CHECK(target.dict == NULL);
  tsr__csv_close(csv);
  tsr_runtime_close(rt);
}

TEST(refuses_borders_and_columns_that_are_not_there)
{
  tsr_runtime *rt = table_runtime(NULL, 1);
  tsr__error error = { 0 };
  tsr__csv *csv = tsr__csv_open_with(rt, write_text("few.csv", "a\n1\n2\n"), NULL, &error);
  int64_t far[2] = { 0, 3 }, back[3] = { 0, 2, 1 }, good[2] = { 0, 2 };
  tsr__read_ask read = { .parts = 1, .rows = far };
  CHECK_STATUS(tsr__csv_read_parts(csv, &read, &error), TSR_EARG, NULL);
  read = (tsr__read_ask){ .parts = 2, .rows = back };
  CHECK_STATUS(tsr__csv_read_parts(csv, &read, &error), TSR_EARG, NULL);
  tsr__read_target target = { .column = 1 };
  read = (tsr__read_ask){ .parts = 1, .rows = good, .target_count = 1, .targets = &target };
  CHECK_STATUS(tsr__csv_read_parts(csv, &read, &error), TSR_ECOLUMN, NULL);
  tsr__csv_close(csv);
  tsr_runtime_close(rt);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void check_error_bytes(const char *data, size_t length, tsr_status status,
                              const char *message)
{
  const char *path = test_tmp("bad.csv");
  test_write(path, data, length);
  for (int i = 0; i < 6; i++) {
    tsr_runtime *rt = table_runtime(i % 2 ? "baseline" : NULL, 1 + i % 2);
    struct table t;
    tsr__error error = { 0 };
    struct table_how how = {
      .opts = { .granule = i, .stripes = i, .sample = i > 3 ? 32 : 0, .unique_names = true }
    };
    CHECK_STATUS(table_read(rt, path, &how, &t, &error), status, NULL);
    CHECK_STR(without_folder(error.text), message);
    tsr_runtime_close(rt);
  }
}

static void check_error(const char *text, tsr_status status, const char *message)
{
  check_error_bytes(text, strlen(text), status, message);
}

TEST(errors_in_rows)
{
  check_error("a,b\n1,2\n3\n", TSR_EPARSE,
              "bad.csv:3:1: row 1 has 1 field, expected 2 as in the header: \"3\"; a field that "
              "holds a ',' needs quotes around it (or see the option bad_rows)");
  check_error(
      "a,b\n\"\n\",2\n\n\n3,4,5\n6\n", TSR_EPARSE,
      "bad.csv:6:5: row 1 has 3 fields, expected 2 as in the header: \"3,4,5\"; a field that holds "
      "a ',' needs quotes around it (or see the option bad_rows)");
  check_error("a,b\n1,2\n  \n", TSR_EPARSE,
              "bad.csv:3:1: row 1 has 1 field, expected 2 as in the header: \"  \"; a field that "
              "holds a ',' needs quotes around it (or see the option bad_rows)");
  check_error(
      "a,b\n1,\"x\n2,y\n3,z\n", TSR_EPARSE,
      "bad.csv:2:3: the quote that opens here is never closed; a quote inside a quoted field "
      "is written twice");
  check_error("a,b\n1,x\n2,\"y\" z\n", TSR_EPARSE,
              "bad.csv:3:6: text follows a closing quote, expected ',' or the end of the line; a "
              "quote inside a quoted field is written twice");
  check_error("a,b\n1,x\n2,\"y\"\rz\n", TSR_EPARSE,
              "bad.csv:3:6: text follows a closing quote, expected ',' or the end of the line; a "
              "quote inside a quoted field is written twice");
  check_error("a,b\n1,x\n2,\"y\"z\"\n", TSR_EPARSE,
              "bad.csv:3:6: text follows a closing quote, expected ',' or the end of the line; a "
              "quote inside a quoted field is written twice");
  check_error("a,b\n1,x\n2,caf\xe9\n3,caf\xe9\n", TSR_EPARSE,
              "bad.csv:3:6: row 1, column \"b\": the byte 0xe9 in \"caf\\xe9\" is not UTF-8, as in "
              "Latin-1 or other old encodings; convert the file (iconv -f LATIN1 -t UTF-8)");
}

TEST(errors_in_the_header)
{
  check_error(
      "a,b,a\n1,2,3\n", TSR_ECOLUMN,
      "bad.csv: columns 1 and 3 of the header are both called \"a\"; rename one, names must "
      "be unique");
  check_error("a,column_3,\n1,2,3\n", TSR_ECOLUMN,
              "bad.csv: columns 2 and 3 of the header are both called \"column_3\"; rename one, "
              "names must be unique");
  check_error("a,caf\xe9\n1,2\n", TSR_EPARSE,
              "bad.csv:1:3: the name of column 2 in the header is not UTF-8 text; convert the file "
              "(iconv -f LATIN1 -t UTF-8)");
  check_error(
      "\"a,b\n1,2\n", TSR_EPARSE,
      "bad.csv:1:1: the quote that opens here is never closed; a quote inside a quoted field "
      "is written twice");
  check_error("a,\"b\"c\n1,2\n", TSR_EPARSE,
              "bad.csv:1:6: text follows a closing quote, expected ',' or the end of the line; a "
              "quote inside a quoted field is written twice");
  check_error("", TSR_EPARSE, "bad.csv: is empty; a CSV file begins with a header line");
  check_error("\n\r\n\n", TSR_EPARSE,
              "bad.csv: holds no header, only empty lines; a CSV file begins with a header line");
  check_error("\xef\xbb\xbf", TSR_EPARSE,
              "bad.csv: holds no header, only empty lines; a CSV file begins with a header line");
  check_error_bytes(
      "a\0b,c\n1,2\n", 10, TSR_EPARSE,
      "bad.csv:1:1: the name of column 1 in the header is not UTF-8 text; convert the "
      "file (iconv -f LATIN1 -t UTF-8)");
}

TEST(other_formats)
{
  static const struct {
    const char *bytes;
    size_t length;
    const char *message;
  } cases[] = {
    { "PAR1\x15\x04\x15\x00", 8,
      "bad.csv: is Parquet, not CSV; this format is not supported yet; convert the file first" },
    { "ARROW1\0\0\xff\xff", 10,
      "bad.csv: is Arrow IPC (Feather), not CSV; this format is not supported yet; convert the "
      "file first" },
    { "\xff\xfe"
      "a\0,\0b\0\n\0",
      10,
      "bad.csv: is UTF-16 text, not CSV; convert the file to UTF-8 (iconv -f UTF-16 -t UTF-8)" },
    { "\xfe\xff\0a", 4,
      "bad.csv: is UTF-16 text, not CSV; convert the file to UTF-8 (iconv -f UTF-16 -t UTF-8)" },
    { "PK\x03\x04", 4,
      "bad.csv: is an Excel workbook or another zip archive, not CSV; unpack the file, or export a "
      "sheet first" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_error_bytes(cases[i].bytes, cases[i].length, TSR_EUNSUPPORTED, cases[i].message);
}

/* Letters alone make no other format. */
TEST(headers_that_look_like_formats)
{
  static const char *const texts[] = { "PAR1,b\n1,2\n", "ORC,b\n1,2\n", "BZh,b\n1,2\n" };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tsr_runtime *rt = table_runtime(NULL, 1);
    struct table t;
    tsr__error error = { 0 };
    CHECK_STATUS(table_read(rt, write_text("ok.csv", texts[i]), NULL, &t, &error), TSR_OK, NULL);
    CHECK_I64(t.rows, 1);
    table_free(&t);
    tsr_runtime_close(rt);
  }
}

static void check_no_open(const char *path, tsr_status status, const char *part)
{
  tsr_runtime *rt = table_runtime(NULL, 1);
  tsr__error error = { 0 };
  CHECK(tsr__csv_open_with(rt, path, NULL, &error) == NULL);
  CHECK_STATUS(error.status, status, NULL);
  CHECK_STR_HAS(error.text, part);
  tsr_runtime_close(rt);
}

TEST(files_that_cannot_be_opened)
{
  check_no_open(test_tmp("nowhere.csv"), TSR_EIO,
                "nowhere.csv: cannot open: No such file or directory");
  const char *folder = test_tmp("folder.csv");
  CHECK_I64(mkdir(folder, 0777), 0);
  check_no_open(folder, TSR_EIO, "folder.csv: is a directory");
  check_no_open("/dev/null", TSR_EUNSUPPORTED, "/dev/null: is a device, expected a file or a pipe");
  if (geteuid() == 0) return; /* root reads everything */
  const char *secret = write_text("secret.csv", "a\n");
  CHECK_I64(chmod(secret, 0), 0);
  check_no_open(secret, TSR_EIO, "secret.csv: cannot open: Permission denied");
}

/* ---- bytes that do not come ------------------------------------------------------------------ */

/* Gives one byte at a time, with interruptions; or stops, or fails, at some offset. */
struct slow {
  int64_t stop_at, fail_at;
  int calls;
};

static int64_t slow_read(void *user, int fd, void *to, size_t length, int64_t offset)
{
  struct slow *slow = user;
  if (slow->calls++ % 3 == 1) {
    errno = EINTR;
    return -1;
  }
  if (slow->fail_at && offset >= slow->fail_at) {
    errno = EIO;
    return -1;
  }
  if (slow->stop_at && offset >= slow->stop_at) return 0;
  return pread(fd, to, length < 1 ? length : 1, (off_t)offset);
}

static tsr_status read_slowly(const char *path, struct slow *slow, int64_t sample,
                              tsr__error *error)
{
  tsr_runtime *rt = table_runtime(NULL, 1);
  struct table t;
  struct table_how how = { .opts = { .read = slow_read, .user = slow, .sample = sample } };
  tsr_status status = table_read(rt, path, &how, &t, error);
  if (!status) CHECK_I64(t.rows, 3);
  table_free(&t);
  tsr_runtime_close(rt);
  return status;
}

TEST(short_reads)
{
  const char *path = write_text("short.csv", "a,b\n1,x\n2,y\n3,z\n");
  for (int64_t sample = 0; sample <= 8; sample += 8) {
    tsr__error error = { 0 };
    CHECK_STATUS(read_slowly(path, &(struct slow){ 0 }, sample, &error), TSR_OK, NULL);
    for (int64_t at = 1; at < 16; at++) {
      error = (tsr__error){ 0 };
      CHECK_STATUS(read_slowly(path, &(struct slow){ .stop_at = at }, sample, &error), TSR_EIO,
                   NULL);
      CHECK_STR_HAS(error.text,
                    "but had 16 bytes when it was opened; is the file still being written?");
      error = (tsr__error){ 0 };
      CHECK_STATUS(read_slowly(path, &(struct slow){ .fail_at = at }, sample, &error), TSR_EIO,
                   NULL);
      CHECK_STR_HAS(error.text, "short.csv: cannot read: Input/output error");
    }
  }
}

/* Shortened, or rewritten, between the opening and the reading. */
TEST(files_that_change)
{
  for (int how = 0; how < 3; how++) {
    const char *path = test_tmp("change.csv");
    FILE *file = fopen(path, "w");
    fprintf(file, "a,b\n");
    for (int i = 0; i < 500; i++) fprintf(file, "%d,%d\n", i, i);
    CHECK_I64(fclose(file), 0);
    tsr_runtime *rt = table_runtime(NULL, 1);
    tsr__error error = { 0 };
    tsr__csv_opts opts = { .sample = 256 };
    tsr__csv *csv = tsr__csv_open_with(rt, path, &opts, &error);
    CHECK(csv != NULL);
    int64_t rows = -1;
    if (how == 0) CHECK_I64(truncate(path, 1000), 0);
    else if (how == 1) test_write(path, "a,b\n", 4);
    else CHECK_I64(utimensat(AT_FDCWD, path, (struct timespec[2]){ { 0 } }, 0), 0);
    CHECK_STATUS(tsr__csv_count(csv, &rows, &error), TSR_EIO, NULL);
    CHECK_STR_HAS(error.text, "is the file still being written?");
    CHECK_I64(rows, -1);
    tsr__csv_close(csv);
    tsr_runtime_close(rt);
  }
}

/* A file that is gone, or replaced, after the opening is read all the same. */
TEST(files_that_vanish)
{
  const char *path = test_tmp("vanish.csv");
  FILE *file = fopen(path, "w");
  fprintf(file, "a,b\n");
  for (int i = 0; i < 500; i++) fprintf(file, "%d,%d\n", i, i);
  CHECK_I64(fclose(file), 0);
  tsr_runtime *rt = table_runtime(NULL, 1);
  tsr__error error = { 0 };
  tsr__csv_opts opts = { .sample = 256 };
  tsr__csv *csv = tsr__csv_open_with(rt, path, &opts, &error);
  CHECK(csv != NULL);
  CHECK_I64(unlink(path), 0);
  int64_t rows = -1;
  CHECK_STATUS(tsr__csv_count(csv, &rows, &error), TSR_OK, NULL);
  CHECK_I64(rows, 500);
  tsr__csv_close(csv);
  tsr_runtime_close(rt);
}

/* ---- memory that is refused ------------------------------------------------------------------ */

TEST(nth_allocation_fails)
{
  const char *path = test_tmp("memory.csv");
  FILE *file = fopen(path, "w");
  fprintf(file, "k,t,f,n\n");
  for (int i = 0; i < 300; i++)
    fprintf(file, "%s,\"a \"\"%d\"\"\",%d.25,NA\n", i == 250 ? "late" : "1", i, i);
  CHECK_I64(fclose(file), 0);
  bool done = false;
  for (int64_t n = 1; !done; n++) {
    struct test_alloc state = { 0 };
    tsr_allocator allocator = test_allocator(&state);
    tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){
        .size = sizeof(tsr_runtime_opts), .allocator = &allocator, .threads = 1 });
    struct table t;
    tsr__error error = { 0 };
    struct table_how how = { .opts = { .sample = 256, .stripes = 3 }, .parts = 2 };
    state.fail_at = state.count + n;
    tsr_status status = table_read(rt, path, &how, &t, &error);
    done = state.count < state.fail_at;
    state.fail_at = 0;
    if (done) CHECK_STATUS(status, TSR_OK, NULL);
    else if (status) CHECK_STATUS(status, TSR_ENOMEM, NULL);
    table_free(&t);
    tsr_runtime_close(rt);
    CHECK_I64(state.live, 0);
    CHECK_I64(state.bytes, 0);
    CHECK(n < 10000);
  }
}

/* ---- random tables --------------------------------------------------------------------------- */

enum { MAX_COLUMNS = 5, MAX_ROWS = 400 };

/* What was written, to be found again. */
struct written {
  int kinds[MAX_COLUMNS], columns, rows;
  struct table_cell cells[MAX_COLUMNS][MAX_ROWS];
  char text[MAX_COLUMNS][MAX_ROWS][32];
};

static void write_field(FILE *file, const char *text, size_t length, int quoting, test_rng *rng)
{
  bool must = false;
  for (size_t i = 0; i < length; i++) must |= strchr(",\"\r\n", text[i]) != NULL && text[i];
  must |= quoting == 2 || (quoting == 1 && test_range(rng, 0, 1));
  if (must) fputc('"', file);
  for (size_t i = 0; i < length; i++) {
    if (text[i] == '"') fputc('"', file);
    fputc(text[i], file);
  }
  if (must) fputc('"', file);
}

/* A value of a kind as text, and what reading it must give. */
static size_t make_value(test_rng *rng, int kind, struct table_cell *cell, char *text)
{
  static const char alphabet[] = "ab,\"\r\n \0x";
  double real;
  *cell = (struct table_cell){ 0 };
  if (kind != 4 && test_range(rng, 0, 9) == 0) {
    cell->null = true;
    return (size_t)sprintf(text, "%s", test_range(rng, 0, 1) ? "NA" : "");
  }
  switch (kind) {
  case 0:
    cell->bits = test_random(rng) >> test_range(rng, 1, 63);
    if (test_range(rng, 0, 1)) cell->bits = 0 - cell->bits;
    return (size_t)sprintf(text, "%" PRId64, (int64_t)cell->bits);
  case 1:
    real = test_any_f64(rng);
    memcpy(&cell->bits, &real, 8);
    return (size_t)sprintf(text, "%.17e", real);
  case 2:
    cell->bits = test_random(rng) & 1;
    return (size_t)sprintf(text, "%s", cell->bits ? "true" : "false");
  case 3: {
    int64_t second = test_range(rng, 0, 59);
    cell->bits = (uint64_t)(INT64_C(1356998400000000) + second * 1000000);
    return (size_t)sprintf(text, "2013-01-01T00:00:%02dZ", (int)second);
  }
  default: cell->text = text; cell->length = (size_t)test_range(rng, 0, 20);
  }
  for (size_t i = 0; i < cell->length; i++) text[i] = alphabet[test_range(rng, 0, 8)];
  /* One CR before the row's end would be taken as part of it, and a lone one is no newline. */
  if (cell->length) text[cell->length - 1] = 'z';
  return cell->length;
}

static void write_random(test_rng *rng, const char *path, struct written *w)
{
  int quoting = (int)test_range(rng, 0, 2);
  const char *newline = test_range(rng, 0, 1) ? "\n" : "\r\n";
  FILE *file = fopen(path, "wb");
  w->columns = (int)test_range(rng, 1, MAX_COLUMNS);
  w->rows = (int)test_range(rng, 1, MAX_ROWS);
  for (int c = 0; c < w->columns; c++) {
    w->kinds[c] = (int)test_range(rng, 0, 4);
    fprintf(file, "%sc%d", c ? "," : "", c);
  }
  for (int r = 0; r < w->rows; r++) {
    fputs(newline, file);
    for (int c = 0; c < w->columns; c++) {
      size_t length = make_value(rng, w->kinds[c], &w->cells[c][r], w->text[c][r]);
      if (c) fputc(',', file);
      write_field(file, w->text[c][r], length, quoting, rng);
    }
  }
  fputs(newline, file);
  CHECK_I64(fclose(file), 0);
}

static void check_random(const struct written *w, const struct table *t)
{
  static const tsr_coltype types[] = { TSR_COL_I64, TSR_COL_F64, TSR_COL_BOOL, TSR_COL_TIME,
                                       TSR_COL_TEXT };
  CHECK_I64(t->rows, w->rows);
  for (int c = 0; c < w->columns; c++) {
    int nulls = 0;
    for (int r = 0; r < w->rows; r++) nulls += w->cells[c][r].null;
    if (nulls == w->rows) continue;
    if (t->schema[c].type != types[w->kinds[c]])
      FAIL("column %d is %s, expected %s", c, table_type_name(t->schema[c].type),
           table_type_name(types[w->kinds[c]]));
    for (int r = 0; r < w->rows; r++) {
      const struct table_cell *found = &t->cells[c * t->rows + r], *cell = &w->cells[c][r];
      CHECK_I64(found->null, cell->null);
      if (cell->text) {
        CHECK_U64(found->length, cell->length);
        CHECK_BYTES(found->text, cell->text, cell->length);
      } else {
        CHECK_U64(found->bits, cell->bits);
      }
    }
  }
}

TEST_TIMEOUT(random_tables_come_back, 120)
{
  static const char *const isas[] = { "baseline", "avx2", "avx512" };
  struct written *w = malloc(sizeof *w);
  const char *path = test_tmp("random.csv");
  for (uint64_t seed = 1; seed <= (test_quick() ? 30u : 200u); seed++) {
    test_rng rng = test_seeded(seed);
    write_random(&rng, path, w);
    for (int parts = 1; parts <= 8; parts++) {
      tsr_runtime *rt = table_runtime(isas[(seed + (uint64_t)parts) % 3], 1 + parts % 2);
      struct table t;
      tsr__error error = { 0 };
      struct table_how how = { .parts = parts, .seed = parts % 3 ? seed : 0 };
      how.opts.granule = test_range(&rng, 1, 200);
      how.opts.stripes = (int)test_range(&rng, 1, 6);
      how.opts.sample = test_range(&rng, 1, 2000);
      if (table_read(rt, path, &how, &t, &error)) FAIL("seed %d: %s", (int)seed, error.text);
      check_random(w, &t);
      table_free(&t);
      tsr_runtime_close(rt);
    }
  }
  free(w);
}
