/* The law of files: rows cut into any number of files are the rows of one file: as a pattern, as
 * arguments, and joined by tsr_frame_concat; names, types and values in every bit. Columns of every
 * type are empty in some of the files, files have no rows or their columns in another order, and
 * numbers lie beyond what f64 holds. And the law of packed files: each query answers as it does of
 * the plain file, wherever in the file the types show. */
#include "tessera.h"

#include "harness.h"
#include "support/dealt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { COLUMNS = 10, PARTS = 5, ROWS = 60, CELL = 40 };

static const char *const names[COLUMNS] = { "id",   "x",    "day",  "at",   "ok",
                                            "word", "tiny", "huge", "half", "code" };
static const char types[] = "tiny i8, huge u64, half f16"; /* forced */

/* A table, and where it is cut: part p holds rows border[p] .. border[p + 1] - 1. */
typedef struct table {
  test_rng rng;
  bool json;
  int rows, parts, border[PARTS + 1];
  char cell[ROWS][COLUMNS][CELL]; /* "": null */
} table;

static int64_t pick(table *t, int64_t first, int64_t last)
{
  return test_range(&t->rng, first, last);
}

static void fill_cell(table *t, char *to, int column)
{
  int day = (int)pick(t, 1, 28), odd = (int)pick(t, 0, 1000);
  const char *quote = t->json ? "\"" : "";
  switch (column) {
  case 0: snprintf(to, CELL, "%" PRId64, INT64_C(9007199254740993) + 2 * odd); break;
  case 1: snprintf(to, CELL, odd % 3 ? "%d.25" : "%d", odd); break;
  case 2: snprintf(to, CELL, "%s2013-02-%02d%s", quote, day, quote); break;
  case 3: snprintf(to, CELL, "%s2013-02-%02dT10:00:00.%06d%s", quote, day, odd, quote); break;
  case 4: snprintf(to, CELL, odd % 2 ? "true" : "false"); break;
  case 6: snprintf(to, CELL, "%d", odd % 256 - 128); break;
  case 7:
    snprintf(to, CELL, "%" PRIu64, UINT64_MAX - (uint64_t)odd * (odd % 2 ? 1 : INT64_MAX / 700));
    break;
  case 8: snprintf(to, CELL, "%d.%d", odd - 500, odd % 97); break;
  case 9: snprintf(to, CELL, "%s%05d%s", quote, odd, quote); break; /* text by its zeros */
  default: snprintf(to, CELL, "%sw%d%s", quote, odd % 7, quote);
  }
}

static void fill(table *t)
{
  t->rows = (int)pick(t, 1, ROWS);
  t->parts = (int)pick(t, 2, PARTS);
  memset(t->cell, 0, sizeof t->cell);
  for (int p = 0; p <= t->parts; p++) t->border[p] = p ? t->rows : 0;
  for (int p = 1; p < t->parts; p++) t->border[p] = (int)pick(t, t->border[p - 1], t->rows);
  for (int p = 0; p < t->parts; p++)
    for (int c = 0; c < COLUMNS; c++) {
      bool empty = pick(t, 0, 2) == 0;
      for (int r = t->border[p]; r < t->border[p + 1]; r++)
        if (!empty && pick(t, 0, 4)) fill_cell(t, t->cell[r][c], c);
    }
}

static void write_row(FILE *out, table *t, int row, int turn)
{
  const char *comma = "";
  if (t->json) fputc('{', out);
  for (int i = 0; i < COLUMNS; i++) {
    int c = (i + turn) % COLUMNS;
    const char *cell = t->cell[row][c];
    if (!t->json) fprintf(out, "%s%s", i ? "," : "", cell);
    else if (*cell) fprintf(out, "%s\"%s\":%s", comma, names[c], cell), comma = ",";
    else if (pick(t, 0, 1)) fprintf(out, "%s\"%s\":null", comma, names[c]), comma = ",";
  }
  fputs(t->json ? "}\n" : "\n", out);
}

/* Writes rows to a file, with the columns from number `turn` on. */
static void write_rows(table *t, const char *name, int from, int to, int turn)
{
  FILE *out = fopen(test_tmp(name), "w");
  CHECK(out != NULL);
  for (int i = 0; i < COLUMNS && !t->json; i++)
    fprintf(out, "%s%s", names[(i + turn) % COLUMNS], i + 1 < COLUMNS ? "," : "\n");
  for (int r = from; r < to; r++) write_row(out, t, r, turn);
  CHECK_I64(fclose(out), 0);
}

static tsr_frame *open_frame(tsr_scope *s, const table *t, const char *path,
                             const char *const *more, int more_count)
{
  if (t->json)
    return tsr_frame_read_json(s, path, .more = more, .more_count = more_count, .types = types);
  return tsr_frame_read_csv(s, path, .more = more, .more_count = more_count, .text_nulls = true,
                            .types = types);
}

/* A value as its bits say. */
static void put_value(FILE *out, const tsr_table *t, int64_t row, int column)
{
  size_t length = 0;
  tsr_coltype type = tsr_table_type(t, column);
  bool real = type == TSR_COL_F64 || type == TSR_COL_F32 || type == TSR_COL_F16;
  if (tsr_table_is_null(t, row, column)) fputs("null", out);
  else if (real) fprintf(out, "%a", tsr_table_f64(t, row, column));
  else if (type != TSR_COL_TEXT) fprintf(out, "%" PRId64, tsr_table_i64(t, row, column));
  else {
    const char *text = tsr_table_bytes(t, row, column, &length);
    fprintf(out, "'%.*s'", (int)length, text);
  }
}

/* Types and values, in the order of the columns' names. */
static char *all_of(tsr_scope *s, tsr_frame *df)
{
  const char *list = "at, code, day, half, huge, id, ok, tiny, word, x";
  df = tsr_frame_select_at(df, &(tsr_formula){ .text = list }, TSR_HERE);
  tsr_table *found = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &found), TSR_OK, s);
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  fputs(tsr_frame_schema(df), out);
  for (int64_t r = 0; r < tsr_table_row_count(found); r++)
    for (int c = 0; c < 9; c++) {
      put_value(out, found, r, c);
      fputc(c < 8 ? ',' : '\n', out);
    }
  fclose(out);
  return text;
}

static void check_same(tsr_scope *s, const char *how, tsr_frame *df, const char *expected)
{
  char *found = all_of(s, df);
  if (strcmp(found, expected) != 0) FAIL("%s:\n%s\nexpected\n%s", how, found, expected);
  free(found);
}

static void check_cut(tsr_scope *outer, table *t)
{
  char path[PARTS][32], *at[PARTS];
  tsr_frame *frame[PARTS];
  tsr_scope *s = tsr_scope_open(outer);
  const char *end = t->json ? "jsonl" : "csv";
  int open = 0;
  for (int p = 0; p < t->parts; p++) {
    snprintf(path[p], sizeof path[p], "part-%d.%s", p, end);
    write_rows(t, path[p], t->border[p], t->border[p + 1], (int)pick(t, 0, COLUMNS - 1));
    at[p] = strdup(test_tmp(path[p]));
  }
  write_rows(t, "one.x", 0, t->rows, 0);
  char *expected = all_of(s, open_frame(s, t, test_tmp("one.x"), NULL, 0));
  char pattern[40];
  snprintf(pattern, sizeof pattern, "part-[0-%d].%s", t->parts - 1, end);
  check_same(s, "a pattern", open_frame(s, t, test_tmp(pattern), NULL, 0), expected);
  const char *const *more = (const char *const *)(const void *)(at + 1);
  check_same(s, "arguments", open_frame(s, t, at[0], more, t->parts - 1), expected);
  for (int p = 0; p < t->parts && !t->json; p++) frame[open++] = open_frame(s, t, at[p], NULL, 0);
  if (open) check_same(s, "concat", tsr_frame_concat_at(frame, open, TSR_HERE), expected);
  for (int p = 0; p < t->parts; p++) free(at[p]);
  free(expected);
  tsr_scope_close(s);
}

TEST_TIMEOUT(rows_of_any_files_are_those_of_one, 240)
{
  static table t;
  tsr_runtime *rt = tsr_runtime_open(dealt(3).text);
  tsr_scope *s = tsr_scope_open(rt);
  for (uint64_t seed = 1; seed <= (test_quick() ? 40 : 400); seed++) {
    if (!test_share(seed)) continue;
    t.rng = test_seeded(seed);
    t.json = seed % 4 == 3;
    fill(&t);
    /* JSON lines without any name are refused, however many files they are. */
    for (int c = 0; c < COLUMNS; c++) fill_cell(&t, t.cell[0][c], c);
    check_cut(s, &t);
  }
  tsr_runtime_close(rt);
}

/* ---- packed files ---------------------------------------------------------------------------- */

/* What stands in column c of all rows but one, in that one, and what is asked of it. */
static const struct {
  const char *usual, *odd;
} kinds[] = { { "1", "abc" },        { "1", "2.5" },
              { "", "7" },           { "", "abc" },
              { "1", "007" },        { "2013-01-01", "2013-01-01T06:00:00Z" },
              { "1.5", "x" },        { "true", "1" },
              { "2013-01-01", "5" }, { "1", "9223372036854775808" } };

static const char *const asked[] = {
  "?c == 'abc'",       "?c > 1",          "?c is null",        "=length(c)",  "=c + 1", "=year(c)",
  "+min(c), count(c)", "+sum(k), max(k)", "?contains(c, '7')", "+nunique(c)", "?c",     "=c // 2"
};

/* A text of one usual line over and over, with an odd one somewhere. */
static char *make_text(test_rng *rng, size_t *length)
{
  int kind = (int)test_range(rng, 0, sizeof kinds / sizeof *kinds - 1);
  int rows = (int)(test_range(rng, 0, 1) ? test_range(rng, 1, 400) : test_range(rng, 30000, 90000));
  int odd = (int)test_range(rng, 0, rows - 1);
  char *text = malloc((size_t)rows * 40 + 100), *to = text + sprintf(text, "k,c\n");
  for (int r = 0; r < rows; r++)
    to += sprintf(to, "%d,%s\n", r, r == odd ? kinds[kind].odd : kinds[kind].usual);
  *length = (size_t)(to - text);
  return text;
}

/* Writes a text as it is, as gzip and as zstd. */
static void write_packings(const char *text, size_t length)
{
  size_t room = ZSTD_compressBound(length);
  char *packed = malloc(room);
  test_write(test_tmp("all.csv"), text, length);
  gzFile out = gzopen(test_tmp("all.csv.gz"), "wb1");
  CHECK(out && gzwrite(out, text, (unsigned)length) == (int)length && gzclose(out) == Z_OK);
  size_t size = ZSTD_compress(packed, room, text, length, 1);
  CHECK(!ZSTD_isError(size));
  test_write(test_tmp("all.csv.zst"), packed, size);
  free(packed);
}

/* The rows that a query gives, or its error without where the file lies. */
static char *answer_of(tsr_scope *outer, const char *name, const char *query, bool front)
{
  tsr_scope *s = tsr_scope_open(outer);
  const tsr_formula text = { .text = query + 1 };
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp(name));
  if (*query == '?') df = tsr_frame_filter_at(df, &text, TSR_HERE);
  else if (*query == '=') df = tsr_frame_assign_at(df, "z", &text, TSR_HERE);
  else df = tsr_frame_agg_at(df, &text, TSR_HERE);
  if (front) df = tsr_frame_head(df, 3);
  tsr_status status = tsr_frame_write_csv(df, test_tmp("answer.csv"));
  char *out = status ? strdup(tsr_status_name(status)) : test_read(test_tmp("answer.csv"), NULL);
  tsr_scope_close(s);
  return out;
}

TEST_TIMEOUT(packed_files_answer_as_plain_ones, 240)
{
  static const char *const packings[] = { "all.csv.gz", "all.csv.zst" };
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  test_rng rng = test_seeded(7);
  for (int turn = 0; turn < (test_quick() ? 4 : 20); turn++) {
    size_t length;
    char *text = make_text(&rng, &length);
    write_packings(text, length);
    for (size_t q = 0; q < sizeof asked / sizeof *asked; q++) {
      char *plain = answer_of(s, "all.csv", asked[q], turn % 2);
      for (int p = 0; p < 2; p++) {
        char *packed = answer_of(s, packings[p], asked[q], turn % 2);
        if (strcmp(plain, packed) != 0)
          FAIL("turn %d, %s of %s:\n%.200s\nexpected\n%.200s", turn, asked[q], packings[p], packed,
               plain);
        free(packed);
      }
      free(plain);
    }
    free(text);
  }
  tsr_runtime_close(rt);
}
