/* Options of the CSV reader against goldens of pandas and PyArrow, for every way to cut a file; bad
 * rows and what is said of them; options that make no sense. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "support/csv_golden.h"

/* ---- goldens ------------------------------------------------------------------------------- */

/* Sets one option `key:hex`; the text stays where it is. */
static void set_option(tsr__csv_opts *opts, char *text)
{
  char *value = strchr(text, ':') + 1;
  value[-1] = 0;
  value[golden_unhex(value)] = 0;
  if (!strcmp(text, "separator")) opts->separator = value[0];
  else if (!strcmp(text, "comment")) opts->comment = value[0];
  else if (!strcmp(text, "no_header")) opts->no_header = true;
  else if (!strcmp(text, "decimal_comma")) opts->decimal_comma = true;
  else if (!strcmp(text, "text_nulls")) opts->text_nulls = true;
  else if (!strcmp(text, "skip_rows")) opts->skip_rows = atoi(value);
  else if (!strcmp(text, "names")) opts->names = value;
  else if (!strcmp(text, "columns")) opts->columns = value;
  else if (!strcmp(text, "types")) opts->types = value;
  else if (!strcmp(text, "nulls")) opts->nulls = value;
  else if (!strcmp(text, "bad_rows")) opts->bad_rows = (tsr__csv_bad)atoi(value);
  else FAIL("no option is called %s", text);
}

struct golden_case {
  char *name, *columns; /* columns: the golden lines */
  tsr__csv_opts opts;
  const char *path;
  size_t length;
};

/* Calls `check` with each case of csv_options.txt. */
static void each_case(void (*check)(const struct golden_case *))
{
  char *text = test_read(test_file("golden/csv_options.txt"), NULL), *at = text, *line;
  int cases = 0;
  while ((line = golden_line(&at))) {
    struct golden_case c = { .columns = at };
    if (strncmp(line, "case ", 5) != 0) continue;
    char *save = NULL, *word[6];
    for (int i = 0; i < 6; i++) word[i] = strtok_r(i ? NULL : line, " ", &save);
    c.name = word[1];
    for (char *option = strtok_r(word[4], ";", &save); option; option = strtok_r(NULL, ";", &save))
      set_option(&c.opts, option);
    c.length = golden_unhex(word[5]);
    c.path = test_tmp("case.csv");
    test_write(c.path, word[5], c.length);
    check(&c);
    cases++;
  }
  CHECK(cases >= 20);
  free(text);
}

static void check_golden(const struct golden_case *c)
{
  tsr_runtime *rt = table_runtime(NULL, 1);
  struct table t;
  tsr__error error = { 0 };
  if (table_read(rt, c->path, &(struct table_how){ .opts = c->opts }, &t, &error))
    FAIL("%s: %s", c->name, error.text);
  char *copy = strdup(c->columns), *at = copy;
  for (int i = 0; i < t.columns; i++) golden_column(&t, i, c->name, &at);
  if (strncmp(at, "case ", 5) != 0 && *at) FAIL("%s: %s is left over", c->name, at);
  free(copy);
  table_free(&t);
  tsr_runtime_close(rt);
}

TEST(options_read_what_pandas_reads)
{
  each_case(check_golden);
}

static void check_cuts(const struct golden_case *c)
{
  static const char *const isas[] = { "baseline", "avx2", "avx512" };
  tsr_runtime *rt = table_runtime(NULL, 2);
  struct table_how how = { .opts = c->opts };
  struct table expected, t;
  tsr__error error = { 0 };
  if (table_read(rt, c->path, &how, &expected, &error)) FAIL("%s: %s", c->name, error.text);
  for (int i = 0; i < 3; i++) {
    tsr_runtime *other = table_runtime(isas[i], 1 + i % 2);
    for (int g = 1; g <= (int)c->length; g += test_quick() ? 5 : 1)
      for (int parts = 1; parts <= 3; parts += 2) {
        how = (struct table_how){ .opts = c->opts, .parts = parts, .seed = (uint64_t)(g % 4) };
        how.opts.granule = g;
        how.opts.batch_rows = 1 + g % 3;
        how.opts.stripes = 1 + g % 4;
        how.opts.sample = g % 2 ? g : 0;
        how.opts.piece = 1 + g;
        if (table_read(other, c->path, &how, &t, &error)) FAIL("%s: %s", c->name, error.text);
        const char *differs = table_differs(&t, &expected);
        if (differs) FAIL("%s: granule %d, %d parts: %s", c->name, g, parts, differs);
        table_free(&t);
      }
    tsr_runtime_close(other);
  }
  table_free(&expected);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(cuts_do_not_show_under_options, 240)
{
  each_case(check_cuts);
}

/* ---- bad rows ------------------------------------------------------------------------------ */

static const char *write_text(const char *text, size_t length)
{
  const char *path = test_tmp("bad.csv");
  test_write(path, text, length);
  return path;
}

/* Reads under each way with bad rows: the error's text, then the rows of both others as text, cells
 * with ',' and rows with ';', nulls as '-', and how many were bad. */
static void check_bad(const char *text, const char *types, const char *message, const char *skipped,
                      const char *nulled, int bad)
{
  static const char *const isas[] = { NULL, "baseline", "avx2" };
  const char *path = write_text(text, strlen(text));
  for (int way = 0; way < 9; way++) {
    tsr_runtime *rt = table_runtime(isas[way / 3], 1 + way % 2);
    struct table t;
    tsr__error error = { 0 };
    struct table_how how = { .opts = { .types = types,
                                       .bad_rows = (tsr__csv_bad)(way % 3),
                                       .granule = way * 3,
                                       .sample = way > 5 ? 16 : 0 } };
    tsr_status status = table_read(rt, path, &how, &t, &error);
    if (way % 3 == 0) {
      CHECK_STATUS(status, TSR_EPARSE, NULL);
      CHECK_STR_HAS(error.text, message);
      tsr_runtime_close(rt);
      continue;
    }
    CHECK_STATUS(status, TSR_OK, NULL);
    char found[500] = "", *to = found;
    for (int64_t r = 0; r < t.rows; r++) {
      for (int c = 0; c < t.columns; c++) {
        const struct table_cell *cell = &t.cells[c * t.rows + r];
        if (c) *to++ = ',';
        if (cell->null) *to++ = '-';
        else if (t.schema[c].type == TSR_COL_TEXT)
          to += sprintf(to, "%.*s", (int)cell->length, cell->text);
        else to += sprintf(to, "%" PRId64, (int64_t)cell->bits);
      }
      *to++ = ';';
      *to = 0;
    }
    CHECK_STR(found, way % 3 == 1 ? skipped : nulled);
    CHECK_I64(t.bad_rows, bad);
    table_free(&t);
    tsr_runtime_close(rt);
  }
}

TEST(bad_rows_are_told_left_out_or_made_null)
{
  check_bad("a,b\n1,x\n2\n3,y\n", NULL, "bad.csv:3:1: row 1 has 1 field, expected 2", "1,x;3,y;",
            "1,x;2,-;3,y;", 1);
  check_bad("a,b\n1,x\n2,z,w\n3,y\n", NULL, "bad.csv:3:5: row 1 has 3 fields", "1,x;3,y;",
            "1,x;2,z;3,y;", 1);
  check_bad("a,b\n1,x\n2,caf\xe9\n3,y", NULL, "bad.csv:3:6: row 1, column \"b\": the byte 0xe9",
            "1,x;3,y;", "1,x;2,-;3,y;", 1);
  check_bad("a,b\n1,x\nq,z\n3,y\n,\n", "a i64",
            "bad.csv:3:1: row 1, column \"a\": \"q\" is not a valid i64", "1,x;3,y;-,;",
            "1,x;-,z;3,y;-,;", 1);
  check_bad("a,b\n1,x\n3000000000,z\n3,y\n", "a i32", "\"3000000000\" is not a valid i32",
            "1,x;3,y;", "1,x;-,z;3,y;", 1);
  check_bad("a,b\n1,x\n2,\"y\" z\n3,w\n", NULL, "bad.csv:3:6: text follows a closing quote",
            "1,x;3,w;", "1,x;2,-;3,w;", 1);
  check_bad("a,b\n1,x\n2,\"y\n3,w\n", NULL,
            "bad.csv:3:3: the quote that opens here is never closed", "1,x;", "1,x;2,-;", 1);
  check_bad("a,b\n1\n\n2,3,4\n5\n\n", NULL, "bad.csv:2:1: row 0 has 1 field", "", "1,-;2,3;5,-;",
            3);
  check_bad("a,b,c\r\n1,5\" x,2\r\n3\r\n4,5,6\r\n", NULL, "row 1 has 1 field", "1,5\" x,2;4,5,6;",
            "1,5\" x,2;3,-,-;4,5,6;", 1);
  /* The earliest of two, which are found in different ways. */
  check_bad("a,b\n1,x\nq,z\n3\n", "a i64", "bad.csv:3:1: row 1, column \"a\": \"q\"", "1,x;",
            "1,x;-,z;3,-;", 2);
}

/* ---- errors -------------------------------------------------------------------------------- */

static void check_refused(const char *text, tsr__csv_opts opts, tsr_status status, const char *part)
{
  tsr_runtime *rt = table_runtime(NULL, 1);
  struct table t;
  tsr__error error = { 0 };
  const char *path = write_text(text, strlen(text));
  CHECK_STATUS(table_read(rt, path, &(struct table_how){ .opts = opts }, &t, &error), status, NULL);
  CHECK_STR_HAS(error.text, part);
  tsr_runtime_close(rt);
}

TEST(options_that_make_no_sense)
{
  const char *text = "a,b\n1,2\n";
  check_refused(text, (tsr__csv_opts){ .separator = '"' }, TSR_EARG, "the separator cannot be");
  check_refused(text, (tsr__csv_opts){ .separator = '\n' }, TSR_EARG, "the separator cannot be");
  check_refused(text, (tsr__csv_opts){ .comment = ',' }, TSR_EARG, "the comment byte cannot be");
  check_refused(text, (tsr__csv_opts){ .decimal_comma = true }, TSR_EARG, "decimal comma");
  check_refused(text, (tsr__csv_opts){ .skip_rows = -1 }, TSR_EARG, "skip_rows is negative");
  check_refused(text, (tsr__csv_opts){ .skip_rows = 5 }, TSR_EPARSE,
                "fewer lines than skip_rows, 5");
  check_refused(text, (tsr__csv_opts){ .names = "p" }, TSR_ECOLUMN,
                "1 names are given, but the file has 2 columns");
  check_refused(text, (tsr__csv_opts){ .names = "p, p" }, TSR_ECOLUMN, "are both called \"p\"");
  check_refused(text, (tsr__csv_opts){ .columns = "a, x" }, TSR_ECOLUMN,
                "but there is no such column");
  check_refused(text, (tsr__csv_opts){ .columns = "a, a" }, TSR_ECOLUMN, "twice");
  check_refused(text, (tsr__csv_opts){ .columns = "a,,b" }, TSR_EARG, "the list of columns");
  check_refused(text, (tsr__csv_opts){ .types = "a number" }, TSR_EARG, "the type \"number\"");
  check_refused(text, (tsr__csv_opts){ .types = "x i64" }, TSR_ECOLUMN,
                "but there is no such column");
  check_refused(text, (tsr__csv_opts){ .types = "a" }, TSR_EARG, "the list of types");
  check_refused("{\"a\": 1}\n", (tsr__csv_opts){ 0 }, TSR_EUNSUPPORTED,
                "is JSON, not CSV; read JSON lines with tsr_frame_read_json");
  check_refused("[\n {\"a\": 1}]", (tsr__csv_opts){ 0 }, TSR_EUNSUPPORTED, "is JSON");
}

/* Comments do not shift the lines that errors name. */
TEST(lines_count_comments)
{
  tsr__csv_opts opts = { .comment = '#' };
  check_refused("# one\n# two\na,b\n#\n1,2\n# x\n3\n", opts, TSR_EPARSE, "bad.csv:7:1: row 1");
  opts.skip_rows = 1;
  check_refused("# one\n# two\na,b\n#\n1,2\n# x\n3\n", opts, TSR_EPARSE, "bad.csv:7:1: row 1");
}

/* A sample that ends anywhere gives the same columns under every option. */
TEST(values_are_classified_with_markers_and_commas)
{
  tsr_runtime *rt = table_runtime(NULL, 2);
  const char *text = "a;b;c\n1,5;-;true\n2;x;-\n-;y;false\n";
  const char *path = write_text(text, strlen(text));
  for (int sample = 0; sample < 30; sample++) {
    struct table t;
    tsr__error error = { 0 };
    struct table_how how = { .opts = { .separator = ';',
                                       .decimal_comma = true,
                                       .nulls = "-",
                                       .text_nulls = true,
                                       .sample = sample } };
    if (table_read(rt, path, &how, &t, &error)) FAIL("%s", error.text);
    CHECK_STR(table_type_name(t.schema[0].type), "f64");
    CHECK_STR(table_type_name(t.schema[1].type), "text");
    CHECK_STR(table_type_name(t.schema[2].type), "bool");
    CHECK(t.cells[2].null && t.cells[3].null && t.cells[7].null);
    CHECK_U64(t.cells[0].bits, UINT64_C(0x3ff8000000000000));
    table_free(&t);
  }
  tsr_runtime_close(rt);
}

/* ---- separators that rows vote for ----------------------------------------------------------- */

TEST(rows_vote_for_the_separator)
{
  static const struct {
    const char *text;
    char separator;
    int columns;
  } files[] = {
    { "name, first|age|city\nAnn|3|Oslo\nBob|4|Rome\n", '|', 3 },
    { "name, first;age\nDoe, Ann;3\nRoe, Bob;4\n", ';', 2 },
    { "last, first|age|city\nDoe, Ann|3|Oslo\nRoe, Bob|4|Rome\n", '|', 3 },
    { "a,b\tc\n1\t2\n3\t4\n", '\t', 2 },
    { "a;b,c;d\n1,5;2,5;3\n1;2;3\n", ';', 3 },
    { "a,b;c,d\n1,2,3\n4,5,6\n", ',', 3 },
    { "a,b;c;d\n", ',', 2 },                    /* nobody votes */
    { "a,b;c;d\n1,2\n3,4\n", ',', 2 },          /* and odd names */
    { "a,b\n1,2\n3;4,5\n6,7\n", ',', 2 },       /* one row of another */
    { "a|b,c\n1|\"x,y\"\n2|\"z|\"\n", '|', 2 }, /* what is quoted is text */
    { "a,b|c\n\"x|\",1\n\"y\",2\n", ',', 2 },   /* also where quotes are odd */
    { "a,b\n", ',', 2 },
    { "a|b;c;d\n1|2;3;4\n", ';', 3 },
  };
  tsr_runtime *rt = table_runtime(NULL, 1);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    for (int sample = 0; sample < 40; sample += 13) {
      const tsr__read_column *columns;
      tsr__error error = { 0 };
      const char *path = test_tmp("votes.csv");
      test_write(path, files[i].text, strlen(files[i].text));
      tsr__csv *csv = tsr__csv_open_with(rt, path, &(tsr__csv_opts){ .sample = sample }, &error);
      if (!csv) FAIL("%s: %s", files[i].text, error.text);
      int count = tsr__csv_columns(csv, &columns);
      if (count != files[i].columns)
        FAIL("%s has %d columns by '%c', expected %d", files[i].text, count, files[i].separator,
             files[i].columns);
      tsr__csv_close(csv);
    }
  tsr_runtime_close(rt);
}

/* ---- numbers under every instruction set ----------------------------------------------------- */

/* Bytes that numbers are made of, in lengths around those of the short ways. */
static size_t random_number(test_rng *rng, char *out)
{
  static const char *const kinds[] = { "0123456789", "0123456789.", "0123456789.-", "01.-+eE, x" };
  const char *kind = kinds[test_range(rng, 0, 3)];
  size_t length = (size_t)test_range(rng, 0, 19);
  for (size_t i = 0; i < length; i++) {
    char c = kind[test_range(rng, 0, (int64_t)strlen(kind) - 1)];
    if (i > 0 && (c == '-' || c == ',')) c = '7';
    if (c == '.' && i && memchr(out, '.', i) && test_range(rng, 0, 9)) c = '5';
    out[i] = c == ',' ? '-' : c;
  }
  return length;
}

static void write_numbers(const char *path, uint64_t seed, int rows)
{
  FILE *file = fopen(path, "w");
  test_rng rng = test_seeded(seed);
  fprintf(file, "i,f,h,g\n");
  for (int r = 0; r < rows; r++) {
    char text[4][24];
    size_t length[4];
    for (int c = 0; c < 4; c++) length[c] = random_number(&rng, text[c]);
    for (int c = 0; c < 4; c++)
      fprintf(file, "%.*s%c", (int)length[c], text[c], c == 3 ? '\n' : ',');
  }
  CHECK_I64(fclose(file), 0);
}

TEST_TIMEOUT(numbers_are_the_same_on_every_machine, 120)
{
  static const char *const isas[] = { "avx2", "avx512", NULL };
  const char *path = test_tmp("numbers.csv");
  for (uint64_t seed = 1; seed <= (test_quick() ? 5 : 40); seed++) {
    struct table_how how = { .opts = { .types = "i i64, f f64, h f64, g i32",
                                       .bad_rows = TSR__CSV_BAD_NULL } };
    struct table expected, t;
    tsr__error error = { 0 };
    write_numbers(path, seed, 500);
    tsr_runtime *rt = table_runtime("baseline", 1);
    if (table_read(rt, path, &how, &expected, &error)) FAIL("%s", error.text);
    CHECK(expected.nulls[0] < 450 && expected.nulls[1] < 300);
    for (int i = 0; i < 3; i++) {
      tsr_runtime *other = table_runtime(isas[i], 1);
      if (table_read(other, path, &how, &t, &error)) FAIL("%s", error.text);
      const char *differs = table_differs(&t, &expected);
      if (differs) FAIL("seed %" PRIu64 ", %s: %s", seed, isas[i] ? isas[i] : "best", differs);
      table_free(&t);
      tsr_runtime_close(other);
    }
    table_free(&expected);
    tsr_runtime_close(rt);
  }
}

/* A column of integers or decimals of one length, and one that begins so in their midst. */
static void check_zeros(const char *isa, int digits, const char *sign, bool real, const char *begin)
{
  const char *path = test_tmp("zeros.csv"), *rest = "123456789012345678";
  FILE *file = fopen(path, "w");
  tsr__error error = { 0 };
  struct table t;
  struct table_how how = { .opts = { .sample = 64 } };
  int length = digits - (int)strlen(begin);
  fprintf(file, "a,b\n");
  for (int r = 0; r < 64; r++)
    if (r != 45) fprintf(file, "%s%.*s%s,x\n", sign, digits, rest, real ? ".5" : "");
    else fprintf(file, "%s%s%.*s,x\n", sign, begin, length, rest);
  CHECK_I64(fclose(file), 0);
  tsr_runtime *rt = table_runtime(isa, 1);
  if (table_read(rt, path, &how, &t, &error)) FAIL("%s", error.text);
  const char *type = *begin == '0' ? "text" : real ? "f64" : "i64";
  if (strcmp(table_type_name(t.schema[0].type), type) != 0)
    FAIL("%s: %d digits, %s%s..: %s", isa, digits, sign, begin, table_type_name(t.schema[0].type));
  table_free(&t);
  tsr_runtime_close(rt);
}

TEST(zeros_in_front_are_seen_on_every_machine)
{
  static const char *const isas[] = { "baseline", "avx2", "avx512" };
  for (int i = 0; i < 3; i++)
    for (int digits = 2; digits <= 18; digits++)
      for (int sign = 0; sign < 2; sign++)
        for (int real = 0; real < 2; real++) {
          check_zeros(isas[i], digits, sign ? "-" : "", real, "0");
          check_zeros(isas[i], digits, sign ? "-" : "", real, "10");
          if (digits > 2) check_zeros(isas[i], digits, sign ? "-" : "", real, "000");
        }
}

/* ---- hostile sizes --------------------------------------------------------------------------- */

static char *filled(size_t length, char fill)
{
  char *out = malloc(length + 1);
  memset(out, fill, length);
  out[length] = 0;
  return out;
}

/* A field of many bytes, quoted and not, and lines of 10 MB. */
TEST_TIMEOUT(long_fields, 120)
{
  size_t length = test_quick() ? (size_t)20 << 20 : (size_t)256 << 20;
  char *field = filled(length, 'x');
  for (int quoted = 0; quoted < 2; quoted++) {
    const char *path = test_tmp("long.csv");
    FILE *file = fopen(path, "w");
    fprintf(file, quoted ? "a,b\n1,\"" : "a,b\n1,");
    if (quoted) field[length / 2] = '\n', field[length / 3] = ',';
    fwrite(field, 1, length, file);
    fprintf(file, quoted ? "\"\n2,y\n" : "\n2,y\n");
    CHECK_I64(fclose(file), 0);
    tsr_runtime *rt = table_runtime(NULL, 2);
    struct table t;
    tsr__error error = { 0 };
    if (table_read(rt, path, NULL, &t, &error)) FAIL("%s", error.text);
    CHECK_I64(t.rows, 2);
    CHECK_U64(t.cells[2].length, length);
    CHECK(memcmp(t.cells[2].text, field, length) == 0);
    CHECK_U64(t.cells[3].length, 1);
    table_free(&t);
    tsr_runtime_close(rt);
  }
  free(field);
}

/* Very many columns, and rows that have as many fields, or one fewer. */
TEST_TIMEOUT(very_many_columns, 120)
{
  int columns = test_quick() ? 20000 : 200000;
  for (int missing = 0; missing < 2; missing++) {
    const char *path = test_tmp("wide.csv");
    FILE *file = fopen(path, "w");
    for (int c = 0; c < columns; c++) fprintf(file, c ? ",c%d" : "c%d", c);
    for (int r = 0; r < 3; r++) {
      fputc('\n', file);
      for (int c = r == 2 ? missing : 0; c < columns; c++)
        fputs(c + 1 < columns ? "7," : "7", file);
    }
    CHECK_I64(fclose(file), 0);
    tsr_runtime *rt = table_runtime(NULL, 2);
    struct table t;
    tsr__error error = { 0 };
    tsr_status status = table_read(rt, path, NULL, &t, &error);
    CHECK_STATUS(status, missing ? TSR_EPARSE : TSR_OK, NULL);
    if (missing) CHECK_STR_HAS(error.text, "row 2 has ");
    else CHECK_I64((int64_t)t.cells[t.columns * 3 - 1].bits, 7);
    table_free(&t);
    tsr_runtime_close(rt);
  }
}

/* A million rows of one column, empty lines among them. */
TEST_TIMEOUT(very_many_rows, 60)
{
  const char *path = test_tmp("tall.csv");
  FILE *file = fopen(path, "w");
  int rows = test_quick() ? 100000 : 1000000;
  fprintf(file, "a\n");
  for (int r = 0; r < rows; r++) fprintf(file, r % 3 ? "%d\n" : "\n", r);
  CHECK_I64(fclose(file), 0);
  tsr_runtime *rt = table_runtime(NULL, 2);
  struct table t;
  tsr__error error = { 0 };
  if (table_read(rt, path, NULL, &t, &error)) FAIL("%s", error.text);
  CHECK_I64(t.rows, rows);
  CHECK_I64(t.nulls[0], (rows + 2) / 3);
  for (int r = 0; r < rows; r++) CHECK(t.cells[r].null ? r % 3 == 0 : (int)t.cells[r].bits == r);
  table_free(&t);
  tsr_runtime_close(rt);
}
