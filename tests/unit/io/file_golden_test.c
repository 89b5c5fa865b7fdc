/* One table of every type in every format, as other libraries wrote it and as it is written here;
 * see golden/make_files.py, which has the others read what is written here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

enum { COLUMNS = 9, ROWS = 8 };

/* What the table holds, a column a line. */
typedef struct fixture {
  char *text;
  char name[COLUMNS][40], type[COLUMNS][8];
  char *cell[COLUMNS][ROWS]; /* see cell() in make_files.py */
} fixture;

static void unhex(char *to, const char *from)
{
  for (; from[0] && from[1]; from += 2) {
    unsigned byte;
    CHECK_I64(sscanf(from, "%2x", &byte), 1);
    *to++ = (char)byte;
  }
  *to = 0;
}

static fixture load(void)
{
  fixture f = { .text = test_read(test_file("golden/files/fixture.txt"), NULL) };
  char *line = f.text, *word;
  for (int c = 0; c < COLUMNS; c++) {
    char *end = strchr(line, '\n');
    CHECK(end != NULL);
    *end = 0;
    unhex(f.name[c], strtok_r(line, " ", &word));
    snprintf(f.type[c], sizeof f.type[c], "%s", strtok_r(NULL, " ", &word));
    for (int r = 0; r < ROWS; r++) f.cell[c][r] = strtok_r(NULL, " ", &word);
    line = end + 1;
  }
  return f;
}

/* A format that cannot tell these apart. */
typedef struct losses {
  bool nan_is_null, infinite_is_null, empty_is_null;
} losses;

static bool float_is_null(double value, losses lossy)
{
  return (isnan(value) && lossy.nan_is_null) || (!isfinite(value) && lossy.infinite_is_null);
}

static void check_float(const char *cell, const tsr_table *table, int r, int c, losses lossy)
{
  bool single = tsr_table_type(table, c) == TSR_COL_F32;
  uint64_t bits = strtoull(cell, NULL, 16);
  double expected, found = tsr_table_f64(table, r, c);
  if (single) {
    float narrow;
    memcpy(&narrow, &(uint32_t){ (uint32_t)bits }, 4);
    expected = (double)narrow;
  } else {
    memcpy(&expected, &bits, 8);
  }
  if (tsr_table_is_null(table, r, c)) CHECK(float_is_null(expected, lossy));
  else CHECK_F64_BITS(found, expected);
}

static void check_cell(const fixture *f, const tsr_table *table, int r, int c, losses lossy)
{
  const char *cell = f->cell[c][r];
  char text[500];
  if (cell[0] == '=') unhex(text, cell + 1);
  if (cell[0] == '~' || (cell[0] == '=' && !text[0] && lossy.empty_is_null)) {
    if (!tsr_table_is_null(table, r, c)) FAIL("%s, row %d: not null", f->name[c], r);
  } else if (f->type[c][0] == 'f') {
    check_float(cell, table, r, c, lossy);
  } else if (cell[0] == '=') {
    CHECK_STR(tsr_table_text(table, r, c), text);
  } else {
    CHECK(!tsr_table_is_null(table, r, c));
    CHECK_I64(tsr_table_i64(table, r, c), strtoll(cell, NULL, 10));
  }
}

static void check_frame(const fixture *f, tsr_scope *s, tsr_frame *df, int rows, losses lossy)
{
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, s);
  CHECK_I64(tsr_table_row_count(table), rows);
  CHECK_I64(tsr_table_column_count(table), COLUMNS);
  for (int c = 0; c < COLUMNS; c++) {
    CHECK_STR(tsr_table_name(table, c), f->name[c]);
    CHECK_STR(tsr_coltype_name(tsr_table_type(table, c)), f->type[c]);
    for (int r = 0; r < rows; r++) check_cell(f, table, r, c, lossy);
  }
}

static const char types[] = "b bool, i i32, l i64, f f32, g f64, d date, w time, "
                            "\"t, \"\"x\"\"\" text, \xe5\x90\x8d text";

static const char *path_of(const char *who, int rows, const char *ending)
{
  static char name[100];
  snprintf(name, sizeof name, "golden/files/%s_%d.%s", who, rows, ending);
  return test_file(name);
}

typedef void (*try_fn)(const fixture *f, tsr_scope *s, int rows);

/* On meshes of several sizes, with 0, 1 and all rows. */
static void for_all(try_fn fn)
{
  fixture f = load();
  for (int devices = 1; devices <= 8; devices += 3) {
    char spec[16];
    snprintf(spec, sizeof spec, "cpu:%d", devices);
    tsr_runtime *rt = tsr_runtime_open(spec);
    for (int i = 0; i < 3; i++) {
      tsr_scope *s = tsr_scope_open(rt);
      fn(&f, s, i < 2 ? i : ROWS);
      tsr_scope_close(s);
    }
    tsr_runtime_close(rt);
  }
  free(f.text);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void read_csv(const fixture *f, tsr_scope *s, int rows)
{
  static const struct {
    const char *who, *ending;
    losses lossy;
  } files[] = { { "pyarrow", "csv", { 0 } },
                { "polars", "csv", { 0 } },
                { "tessera", "csv", { 0 } },
                { "pandas", "csv.gz", { .nan_is_null = true, .empty_is_null = true } } };
  for (int i = 0; i < 4; i++) {
    tsr_frame *df = tsr_frame_read_csv(s, path_of(files[i].who, rows, files[i].ending),
                                       .types = types, .text_nulls = true, .nulls = "\"\"");
    check_frame(f, s, df, rows, files[i].lossy);
  }
}

TEST(csv_of_others_is_read)
{
  for_all(read_csv);
}

static void read_json(const fixture *f, tsr_scope *s, int rows)
{
  static const char *const files[] = { "python", "polars", "tessera" };
  const losses lossy = { .infinite_is_null = true };
  for (int i = 0; i < 3; i++) {
    const char *path = path_of(files[i], rows, "jsonl");
    if (rows == 0) { /* no line, no names */
      CHECK(tsr_frame_is_inert(tsr_frame_read_json(s, path)));
      CHECK_STR_HAS(tsr_message(s), "is empty");
      tsr_scope_clear(s);
      continue;
    }
    check_frame(f, s, tsr_frame_read_json(s, path, .types = types), rows, lossy);
  }
}

TEST(json_lines_of_others_are_read)
{
  for_all(read_json);
}

/* Types are found where nothing forces them. */
TEST(types_are_found)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  static const char *const kinds[] = { "bool", "i64", "i64", "f64", "f64", "date", "time", "text" };
  tsr_frame *csv = tsr_frame_read_csv(s, path_of("tessera", ROWS, "csv"));
  tsr_frame *json = tsr_frame_read_json(s, path_of("tessera", ROWS, "jsonl"));
  for (int c = 0; c < 8; c++) {
    CHECK_STR(tsr_coltype_name(tsr_frame_column_type(csv, c)), kinds[c]);
    CHECK_STR(tsr_coltype_name(tsr_frame_column_type(json, c)), kinds[c]);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void check_same(const char *found, const char *expected)
{
  size_t length, want;
  char *a = test_read(found, &length), *b = test_read(expected, &want);
  CHECK_U64(length, want);
  CHECK_BYTES(a, b, want);
  free(a);
  free(b);
}

static void write_all(const fixture *f, tsr_scope *s, int rows)
{
  static const char *const packed[] = { "x.csv.gz", "x.csv.zst" };
  tsr_frame *df = tsr_frame_read_csv(s, path_of("pyarrow", rows, "csv"), .types = types,
                                     .text_nulls = true, .nulls = "\"\"");
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("x.csv")), TSR_OK, s);
  check_same(test_tmp("x.csv"), path_of("tessera", rows, "csv"));
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("x.jsonl")), TSR_OK, s);
  check_same(test_tmp("x.jsonl"), path_of("tessera", rows, "jsonl"));
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tsr_frame_write_csv(df, test_tmp(packed[i])), TSR_OK, s);
    tsr_frame *again = tsr_frame_read_csv(s, test_tmp(packed[i]), .types = types,
                                          .text_nulls = true, .nulls = "\"\"");
    check_frame(f, s, again, rows, (losses){ 0 });
  }
  struct ArrowArrayStream stream;
  CHECK_STATUS(tsr_frame_to_arrow(df, &stream), TSR_OK, s);
  check_frame(f, s, tsr_frame_from_arrow(s, &stream), rows, (losses){ 0 });
}

TEST(what_is_written_is_what_others_read)
{
  for_all(write_all);
}

/* ---- archives -------------------------------------------------------------------------------- */

TEST(archives_of_numpy_are_read_and_written)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_scope *s = tsr_scope_open(rt);
  static const char *const names[] = { "numpy_stored", "numpy_deflated", "tessera" };
  for (int i = 0; i < 3; i++) {
    char name[100];
    tsr_npz_item items[16];
    snprintf(name, sizeof name, "golden/files/%s.npz", names[i]);
    tsr_npz *npz = tsr_load_npz(s, test_file(name));
    int count = tsr_npz_count(npz);
    CHECK_I64(count, 8);
    for (int k = 0; k < count; k++) {
      const char *array = tsr_npz_name(npz, k);
      bool scalar = !strcmp(array, "s");
      items[k] =
          (tsr_npz_item){ array, tsr_npz_array(npz, array, tsr_on(mesh, scalar ? "" : "x")) };
    }
    CHECK_STATUS(tsr_save_npz_with(s, test_tmp("x.npz"), items, count, TSR_HERE), TSR_OK, s);
    check_same(test_tmp("x.npz"), test_file("golden/files/tessera.npz"));
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
