/* Functions of expressions against plain Python and Polars (golden/make_expressions.py), value by
 * value, on meshes of several sizes, over all rows, a selection of them, and none. */
#include "tessera.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 64 };

typedef struct words {
  char *word[MOST_ROWS];
  int count;
} words;

static words split(char *line)
{
  words out = { .count = 0 };
  char *rest = NULL;
  for (char *w = strtok_r(line, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
    CHECK(out.count < MOST_ROWS);
    out.word[out.count++] = w;
  }
  return out;
}

static char *next_line(char **at)
{
  char *line = *at;
  if (!line || !*line) return NULL;
  char *end = strchr(line, '\n');
  *at = end ? end + 1 : NULL;
  if (end) *end = 0;
  return line;
}

static void hex_text(const char *hex, char *out)
{
  for (hex++; hex[0] && hex[1]; hex += 2) {
    char pair[3] = { hex[0], hex[1], 0 };
    *out++ = (char)strtol(pair, NULL, 16);
  }
  *out = 0;
}

static double real_of(const char *word)
{
  if (!strcmp(word, "nan")) return (double)NAN;
  uint64_t bits = strtoull(word, NULL, 16);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* ---- the table ----------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 16 };

typedef struct table {
  words column[MOST_COLUMNS]; /* name, type, values */
  int count;
} table;

static bool there(const words *column, int row)
{
  return strcmp(column->word[row + 2], "null") != 0;
}

/* The values as an array; where there is none, something that would overflow. */
static tsr_array *values_of(tsr_scope *s, tsr_sharding at, const words *column)
{
  int64_t whole[MOST_ROWS];
  double real[MOST_ROWS];
  const char *type = column->word[1];
  int rows = column->count - 2;
  for (int i = 0; i < rows; i++) {
    const char *word = column->word[i + 2];
    whole[i] = there(column, i) ? strtoll(word, NULL, 10) : INT64_MAX;
    real[i] = there(column, i) && type[0] == 'f' ? real_of(word) : 1e308;
  }
  tsr_array *out = type[0] == 'f' ? tsr_put(s, real, TSR_F64, TSR_SHAPE(rows), at)
                                  : tsr_put(s, whole, TSR_I64, TSR_SHAPE(rows), at);
  if (!strcmp(type, "f32")) return tsr_cast(out, TSR_F32);
  if (!strcmp(type, "bool")) return tsr_cast(out, TSR_BOOL);
  return !strcmp(type, "i32") || !strcmp(type, "date") ? tsr_cast(out, TSR_I32) : out;
}

static tsr_array *have_of(tsr_scope *s, tsr_sharding at, const words *column)
{
  bool have[MOST_ROWS];
  int rows = column->count - 2;
  for (int i = 0; i < rows; i++) have[i] = there(column, i);
  return tsr_put(s, have, TSR_BOOL, TSR_SHAPE(rows), at);
}

static tsr_frame *add_text(tsr_frame *df, const words *column)
{
  char texts[MOST_ROWS][200];
  const char *text[MOST_ROWS];
  int rows = column->count - 2;
  for (int i = 0; i < rows; i++) {
    text[i] = there(column, i) ? texts[i] : NULL;
    if (text[i]) hex_text(column->word[i + 2], texts[i]);
  }
  return tsr_frame_text_column(df, column->word[0], text, rows);
}

/* The table as a frame, its columns made from values and whether they are there; "row" numbers. */
static tsr_frame *frame_of(tsr_scope *s, tsr_sharding at, const table *t)
{
  tsr_column made[2 * MOST_COLUMNS + 1];
  char names[2 * MOST_COLUMNS][32];
  int count = 0, rows = t->column[0].count - 2;
  made[count++] = (tsr_column){ "row", tsr_iota(s, TSR_I64, TSR_SHAPE(rows), 0, at) };
  for (int c = 0; c < t->count; c++) {
    const words *column = &t->column[c];
    if (!strcmp(column->word[1], "text")) continue;
    snprintf(names[2 * c], sizeof names[0], "raw_%s", column->word[0]);
    snprintf(names[2 * c + 1], sizeof names[0], "have_%s", column->word[0]);
    made[count++] = (tsr_column){ names[2 * c], values_of(s, at, column) };
    made[count++] = (tsr_column){ names[2 * c + 1], have_of(s, at, column) };
  }
  tsr_frame *df = tsr_frame_new_at(s, made, count, TSR_HERE);
  for (int c = 0; c < t->count; c++) {
    const words *column = &t->column[c];
    const char *name = column->word[0], *type = column->word[1];
    char formula[100];
    bool cast = !strcmp(type, "date") || !strcmp(type, "time");
    if (cast)
      snprintf(formula, sizeof formula, "if(have_%s, cast(raw_%s, '%s'), null)", name, name, type);
    else snprintf(formula, sizeof formula, "if(have_%s, raw_%s, null)", name, name);
    df = !strcmp(type, "text") ? add_text(df, column) : tsr_frame_assign(df, name, formula);
  }
  return df;
}

/* ---- comparing ----------------------------------------------------------------------------- */

static void check_value(const tsr_table *found, int64_t row, const char *word, const char *expr)
{
  char text[400];
  tsr_coltype type = tsr_table_type(found, 0);
  bool null = tsr_table_is_null(found, row, 0);
  if (null != !strcmp(word, "null"))
    FAIL("%s: row %d: null or not, expected %s", expr, (int)row, word);
  if (null) return;
  if (word[0] == 'x') {
    hex_text(word, text);
    if (strcmp(tsr_table_text(found, row, 0), text))
      FAIL("%s: row %d: '%s', expected '%s'", expr, (int)row, tsr_table_text(found, row, 0), text);
  } else if (type == TSR_COL_F64 || type == TSR_COL_F32) {
    double value = tsr_table_f64(found, row, 0), expected = real_of(word);
    bool same = memcmp(&value, &expected, sizeof value) == 0 || (isnan(value) && isnan(expected));
    if (!same) FAIL("%s: row %d: %.17g, expected %.17g", expr, (int)row, value, expected);
  } else if (tsr_table_i64(found, row, 0) != strtoll(word, NULL, 10)) {
    FAIL("%s: row %d: %lld, expected %s", expr, (int)row, (long long)tsr_table_i64(found, row, 0),
         word);
  }
}

/* Rows where row % step == rest. */
static void check_rows(tsr_scope *s, tsr_frame *df, char *expr, const words *expected, int step)
{
  char *text = strchr(expr, ' ');
  char filter[60], item[300];
  tsr_table *found = NULL;
  int row = 0;
  *text = 0;
  snprintf(filter, sizeof filter, "row %% %d == 1", step);
  snprintf(item, sizeof item, "z = %s", text + 1);
  if (step > 1) df = tsr_frame_filter(df, filter);
  tsr_frame *made = tsr_frame_select(df, item);
  if (tsr_frame_collect(made, &found)) FAIL("%s: %s", text + 1, tsr_message(s));
  CHECK_STR(tsr_coltype_name(tsr_table_type(found, 0)), expr);
  for (int i = 0; i < expected->count; i++)
    if (step == 1 || i % step == 1) check_value(found, row++, expected->word[i], text + 1);
  CHECK_I64(tsr_table_row_count(found), row);
  *text = ' ';
}

static int check_file(tsr_runtime *rt, const char *axes, const char *rows, int step)
{
  char *file = test_read(test_file("golden/expressions.txt"), NULL), *at = file, *line;
  table t = { .count = 0 };
  int checked = 0;
  while ((line = next_line(&at)) && !strncmp(line, "column ", 7))
    t.column[t.count++] = split(line + 7);
  tsr_mesh *mesh = tsr_mesh_make(rt, axes);
  for (; line; line = next_line(&at), checked++) {
    tsr_scope *s = tsr_scope_open(rt);
    CHECK(!strncmp(line, "expr ", 5));
    words expected = split(next_line(&at));
    tsr_frame *df = frame_of(s, tsr_on(mesh, rows), &t);
    CHECK_STR(tsr_message(s), "");
    check_rows(s, df, line + 5, &expected, step);
    tsr_scope_close(s);
  }
  free(file);
  return checked;
}

TEST(expr_functions_give_what_python_and_polars_give)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  CHECK(check_file(rt, "data=1", "data", 1) > 100);
  check_file(rt, "data=3", "data", 1);
  check_file(rt, "data=8", "data", 3);
  check_file(rt, "a=2,b=2", "a", 2);
  check_file(rt, "data=8", "data", 1000);
  tsr_runtime_close(rt);
}
