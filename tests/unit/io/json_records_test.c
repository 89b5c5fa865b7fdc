/* JSON lines read by position: what a test drew and wrote itself, and lines that are none. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "harness.h"
#include "tessera.h"

enum { MOST = 300, TOKENS = 7, TEXT = 40 };

/* A record as the test knows it. */
typedef struct known {
  int64_t whole;
  double real;
  float grid[2][3];
  bool flag;
  int tokens, letters;
  uint16_t token[TOKENS];
  unsigned char text[TEXT];
} known;

/* ---- writing --------------------------------------------------------------------------------- */

static int below(test_rng *rng, int64_t count)
{
  return (int)test_range(rng, 0, count - 1);
}

static void blank(FILE *f, test_rng *rng)
{
  while (!below(rng, 4)) fputc(" \t"[below(rng, 2)], f);
}

/* A letter of one to three bytes, as it is or escaped. */
static int put_letter(FILE *f, test_rng *rng, unsigned char *to)
{
  static const struct {
    const char *bytes, *escape;
  } letters[] = { { "a", "\\u0061" }, { "\"", "\\\"" },
                  { "\\", "\\\\" },   { "/", "\\/" },
                  { "\n", "\\n" },    { "\xC3\xA4", "\\u00e4" },
                  { "z", "z" },       { "\xE2\x82\xAC", "\\u20AC" } };
  int k = below(rng, 8);
  bool plain = (k == 0 || k > 4 || k == 3) && below(rng, 2);
  fputs(plain ? letters[k].bytes : letters[k].escape, f);
  memcpy(to, letters[k].bytes, strlen(letters[k].bytes));
  return (int)strlen(letters[k].bytes);
}

static void put_member(FILE *f, test_rng *rng, int member, known *k)
{
  switch (member) {
  case 0: fprintf(f, "\"whole\":%" PRId64, k->whole); break;
  case 1: fprintf(f, "\"re\\u0061l\": %.17g", k->real); break;
  case 2:
    fputs("\"grid\":[", f);
    for (int i = 0; i < 2; i++) {
      fputs(i ? ",[" : "[", f);
      for (int j = 0; j < 3; j++) fprintf(f, "%s%.9g", j ? " ," : "", (double)k->grid[i][j]);
      fputc(']', f);
    }
    fputc(']', f);
    break;
  case 3: fprintf(f, "\"flag\":%s", k->flag ? "true" : "false"); break;
  case 4:
    fputs("\"tokens\":[", f);
    for (int i = 0; i < k->tokens; i++) fprintf(f, "%s%d", i ? "," : "", k->token[i]);
    fputc(']', f);
    break;
  case 5:
    fputs("\"text\":\"", f);
    for (int n = below(rng, 13); n > 0; n--) k->letters += put_letter(f, rng, k->text + k->letters);
    fputc('"', f);
    break;
  default: fputs("\"other\":{\"whole\":[1,{\"text\":null}]}", f);
  }
}

static void draw(known *k, test_rng *rng)
{
  *k = (known){ .whole = test_range(rng, INT64_MIN, INT64_MAX), .flag = below(rng, 2) };
  k->real = ldexp((double)test_range(rng, -(INT64_C(1) << 53), INT64_C(1) << 53), below(rng, 90));
  for (int i = 0; i < 6; i++)
    k->grid[i / 3][i % 3] = ldexpf((float)below(rng, 1 << 24), below(rng, 40) - 30);
  k->tokens = below(rng, TOKENS + 1);
  for (int i = 0; i < k->tokens; i++) k->token[i] = (uint16_t)below(rng, 65536);
}

/* An object with its members in any order, blanks between them. */
static void put_object(FILE *f, test_rng *rng, known *k)
{
  int order[7] = { 0, 1, 2, 3, 4, 5, 6 };
  for (int i = 6; i > 0; i--) {
    int j = below(rng, i + 1), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  blank(f, rng);
  fputc('{', f);
  for (int i = 0; i < 7; i++) {
    if (i) fputc(',', f);
    blank(f, rng);
    put_member(f, rng, order[i], k);
    blank(f, rng);
  }
  fputc('}', f);
}

/* A file of so many records, with blank lines between; the last one may not end. */
static void draw_file(const char *path, test_rng *rng, known *all, int count)
{
  FILE *f = fopen(path, "wb");
  CHECK(f);
  if (!below(rng, 3)) fputs("\xEF\xBB\xBF", f);
  for (int i = 0; i < count; i++) {
    while (!below(rng, 5)) fputs(below(rng, 2) ? "\n" : " \t\r\n", f);
    draw(&all[i], rng);
    put_object(f, rng, &all[i]);
    if (i + 1 < count || below(rng, 2)) fputs(below(rng, 2) ? "\n" : "\r\n", f);
  }
  CHECK(!fclose(f));
}

/* ---- reading --------------------------------------------------------------------------------- */

static tsr_source *open_all(tsr_scope *s, const char *path, bool index)
{
  return tsr_source_json(s, path, .ragged = "tokens,text", .index = index,
                         .fields = { { "whole", TSR_I64, { 0 } },
                                     { "real", TSR_F64, { 0 } },
                                     { "grid", TSR_F32, TSR_SHAPE(2, 3) },
                                     { "flag", TSR_BOOL, { 0 } },
                                     { "tokens", TSR_U16, TSR_SHAPE(TOKENS) },
                                     { "text", TSR_U8, TSR_SHAPE(TEXT) } });
}

static void read_field(tsr_batch *b, const char *name, void *to, size_t bytes)
{
  CHECK_STATUS(tsr_read(tsr_batch_field(b, name), to, bytes), TSR_OK, tsr_batch_scope(b));
}

static void check_batch(tsr_batch *b, const known *all)
{
  enum { ROWS = 16 };
  int64_t whole[ROWS], tokens[ROWS], letters[ROWS], rows = tsr_batch_row_count(b);
  double real[ROWS];
  float grid[ROWS][2][3];
  bool flag[ROWS];
  uint16_t token[ROWS][TOKENS];
  unsigned char text[ROWS][TEXT];
  size_t n = (size_t)rows;
  CHECK(rows <= ROWS);
  read_field(b, "whole", whole, n * sizeof *whole);
  read_field(b, "real", real, n * sizeof *real);
  read_field(b, "grid", grid, n * sizeof *grid);
  read_field(b, "flag", flag, n * sizeof *flag);
  read_field(b, "tokens", token, n * sizeof *token);
  read_field(b, "tokens_length", tokens, n * sizeof *tokens);
  read_field(b, "text", text, n * sizeof *text);
  read_field(b, "text_length", letters, n * sizeof *letters);
  for (int64_t i = 0; i < rows; i++) {
    const known *k = &all[tsr_batch_ids(b)[i]];
    CHECK_I64(whole[i], k->whole);
    CHECK_BYTES(&real[i], &k->real, sizeof *real);
    CHECK_BYTES(grid[i], k->grid, sizeof *grid);
    CHECK_I64(flag[i], k->flag);
    CHECK_I64(tokens[i], k->tokens);
    CHECK_BYTES(token[i], k->token, sizeof *token);
    CHECK_I64(letters[i], k->letters);
    CHECK_BYTES(text[i], k->text, sizeof *text);
  }
}

static void check_all(tsr_source *source, const known *all, int count, uint64_t seed)
{
  int64_t met = 0;
  CHECK_I64(tsr_source_count(source), count);
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 1 + (int64_t)(seed % 16), .ids = true,
                                      .shuffle = seed % 2, .seed = seed,
                                      .threads = seed % 3 ? (int)(seed % 3) : -1);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    check_batch(b, all);
    met += tsr_batch_count(b);
  }
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  CHECK_I64(met, count);
}

TEST(objects_at_random)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  test_rng rng = test_seeded(5);
  known *all = malloc(MOST * sizeof *all);
  for (uint64_t round = 0; round < (test_quick() ? 10 : 80); round++) {
    char path[2][600], both[600];
    int count[2] = { below(&rng, MOST / 2), below(&rng, MOST / 2) };
    for (int i = 0; i < 2; i++) {
      snprintf(path[i], sizeof path[i], "%s", test_tmp(i ? "j1.jsonl" : "j0.jsonl"));
      draw_file(path[i], &rng, all + i * count[0], count[i]);
    }
    snprintf(both, sizeof both, "%s", test_tmp("j*.jsonl"));
    tsr_scope *s = tsr_scope_open(rt);
    check_all(open_all(s, both, false), all, count[0] + count[1], round);
    /* Made, and read again. */
    check_all(open_all(s, both, true), all, count[0] + count[1], round + 1);
    check_all(open_all(s, both, true), all, count[0] + count[1], round + 2);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    tsr_scope_close(s);
  }
  free(all);
  tsr_runtime_close(rt);
}

TEST(packed_and_larger_than_a_window)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  char path[600];
  snprintf(path, sizeof path, "%s", test_tmp("packed.jsonl"));
  /* Lines of 100 KB, so that they lie across the windows of a walk. */
  for (int packed = 0; packed < 2; packed++) {
    gzFile f = gzopen(path, packed ? "wb" : "wbT");
    for (int i = 0; i < 20; i++) {
      gzprintf(f, "{\"x\":[");
      for (int k = 0; k < 20000 + i; k++) gzprintf(f, k ? ",%d" : "%d", (i * 31 + k) % 10000);
      gzprintf(f, "]}\n\n");
    }
    CHECK_I64(gzclose(f), Z_OK);
    tsr_source *source =
        tsr_source_json(s, path, .ragged = "x", .fields = { { "x", TSR_I32, TSR_SHAPE(20019) } });
    tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 20);
    tsr_batch *b = tsr_pipeline_next(p);
    CHECK(b);
    int32_t *x = malloc(sizeof *x * 20 * 20019);
    int64_t length[20];
    read_field(b, "x", x, sizeof *x * 20 * 20019);
    read_field(b, "x_length", length, sizeof length);
    for (int i = 0; i < 20; i++) {
      CHECK_I64(length[i], 20000 + i);
      for (int k = 0; k < 20000 + i; k++) CHECK_I64(x[i * 20019 + k], (i * 31 + k) % 10000);
    }
    free(x);
    tsr_batch_release(b);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  tsr_runtime_close(rt);
}

/* ---- lines that are not as they should be ---------------------------------------------------- */

static const char *write_lines(const char *text)
{
  static char path[600];
  snprintf(path, sizeof path, "%s", test_tmp("odd.jsonl"));
  FILE *f = fopen(path, "wb");
  CHECK(f && fputs(text, f) >= 0 && !fclose(f));
  return path;
}

static tsr_source *open_odd(tsr_scope *s, const char *path, bool defaults, bool cut)
{
  return tsr_source_json(s, path, .ragged = "r", .defaults = defaults, .cut = cut,
                         .fields = { { "x", TSR_I8, { 0 } },
                                     { "u", TSR_U64, { 0 } },
                                     { "h", TSR_F16, TSR_SHAPE(2) },
                                     { "b", TSR_BOOL, { 0 } },
                                     { "r", TSR_U8, TSR_SHAPE(3) } });
}

/* What reading a line says. */
static void refused(tsr_runtime *rt, const char *line, tsr_status status, const char *why)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_pipeline *p = tsr_pipeline_open(open_odd(s, write_lines(line), false, false));
  tsr_batch *b = tsr_pipeline_next(p);
  if (b) fprintf(stderr, "not refused: %s\n", line);
  CHECK(!b);
  CHECK_I64(tsr_pipeline_close(p), status);
  CHECK_STR_HAS(tsr_message(s), why);
  CHECK_STR_HAS(tsr_message(s), "record 0 at byte ");
  tsr_scope_close(s);
}

#define GOOD "\"u\":0,\"h\":[1,2],\"b\":true,\"r\":\"\""

TEST(bad_lines_are_told)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  refused(rt, "[1]", TSR_EPARSE, "column 1 of the line: a row must be an object");
  refused(rt, "{\"x\":1", TSR_EPARSE, "column 7 of the line: the line ends inside an object");
  refused(rt, "{\"x\":1} {}", TSR_EPARSE, "text follows the object");
  refused(rt, "{\"x\":1," GOOD ",\"z\":[01]}", TSR_EPARSE, "must not begin with zeros");
  refused(rt, "{\"x\":1,\"y\":\"\xFF\"," GOOD "}", TSR_EPARSE, "the line is not UTF-8");
  refused(rt, "{\"x\":1,\"\\u0078\":2," GOOD "}", TSR_EPARSE, "the name x is given twice");
  refused(rt, "{\"x\":1,\"x\":null," GOOD "}", TSR_EPARSE, "the name x is given twice");
  refused(rt, "{" GOOD "}", TSR_EVALUE,
          "there is no field x, or it is null; set .defaults to fill zeros");
  refused(rt, "{\"x\":null," GOOD "}", TSR_EVALUE, "there is no field x");
  refused(rt, "{\"x\":128," GOOD "}", TSR_EVALUE, "field x has '128', expected a whole number");
  refused(rt, "{\"x\":-129," GOOD "}", TSR_EVALUE, "field x has '-129'");
  refused(rt, "{\"x\":1.0," GOOD "}", TSR_EVALUE, "field x has '1.0'");
  refused(rt, "{\"x\":true," GOOD "}", TSR_EVALUE, "field x has 'true'");
  refused(rt, "{\"x\":[1]," GOOD "}", TSR_EVALUE, "field x has '[1]'");
  refused(rt, "{\"x\":\"1\"," GOOD "}", TSR_EVALUE, "field x has '1', expected a whole number");
  refused(rt, "{\"x\":1,\"u\":-1}", TSR_EVALUE, "field u has '-1'");
  refused(rt, "{\"x\":1,\"u\":18446744073709551616}", TSR_EVALUE, "field u has '1844674407370955");
  refused(rt, "{\"x\":1,\"u\":0,\"h\":[1]}", TSR_EVALUE, "field h has 1 values, expected 2");
  refused(rt, "{\"x\":1,\"u\":0,\"h\":[1,2,3]}", TSR_EVALUE, "field h has 3 values, expected 2");
  refused(rt, "{\"x\":1,\"u\":0,\"h\":[1,65520]}", TSR_EVALUE,
          "field h has '65520', expected a num");
  refused(rt, "{\"x\":1,\"u\":0,\"h\":{\"a\":1}}", TSR_EVALUE,
          "field h has '{\"a\":1}', expected a list");
  refused(rt, "{\"x\":1,\"u\":0,\"h\":\"ab\"}", TSR_EVALUE, "field h has 'ab', expected a list");
  refused(rt, "{\"x\":1,\"b\":1}", TSR_EVALUE, "field b has '1', expected true or false");
  refused(rt, "{\"r\":\"abcd\"}", TSR_EVALUE, "field r has 4 values, expected 3 at most; set .cut");
  refused(rt, "{\"r\":[1,2,3,4]}", TSR_EVALUE,
          "field r has 4 values, expected 3 at most; set .cut");
  refused(rt, "{\"r\":[256]}", TSR_EVALUE, "field r has '256'");
  refused(rt, "{\"r\":7}", TSR_EVALUE, "field r has '7', expected a list or a text");
  tsr_runtime_close(rt);
}

TEST(ends_defaults_and_cuts)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  static const char lines[] =
      "{\"x\":-128,\"u\":18446744073709551615,\"h\":[65504,-0.0],\"b\":true,\"r\":\"\\u0000bcd\"}\n"
      "{\"h\":[1e-8,2.5E0],\"r\":[7,8,9,10,11]}\n"
      "{}\n";
  tsr_pipeline *p = tsr_pipeline_open(open_odd(s, write_lines(lines), true, true), .batch_size = 3);
  tsr_batch *b = tsr_pipeline_next(p);
  CHECK(b);
  int8_t x[3];
  uint64_t u[3];
  double h[3][2];
  unsigned char r[3][3];
  int64_t length[3];
  read_field(b, "x", x, sizeof x);
  read_field(b, "u", u, sizeof u);
  read_field(b, "r", r, sizeof r);
  read_field(b, "r_length", length, sizeof length);
  CHECK_STATUS(tsr_read(tsr_cast(tsr_batch_field(b, "h"), TSR_F64), h, sizeof h), TSR_OK, s);
  CHECK_BYTES(x, "\x80\0\0", 3);
  CHECK(u[0] == UINT64_MAX && !u[1] && !u[2]);
  CHECK_BYTES(r, "\0bc\7\10\11\0\0\0", 9);
  CHECK(length[0] == 3 && length[1] == 3 && !length[2]);
  CHECK(h[0][0] == 65504 && h[0][1] == 0 && signbit(h[0][1]) && h[1][1] == 2.5 && h[2][0] == 0);
  /* Half of the least f16 is 2^-25, 2.98e-8. */
  CHECK(h[1][0] == 0);
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_runtime_close(rt);
}

/* Which lines are bad shows in their rows alone, and in the report. */
TEST(bad_lines_are_masked)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = write_lines("{\"x\":1}\nnone\n{\"x\":3}\n{\"x\":400}\n{\"x\":5}");
  tsr_source *source = tsr_source_json(s, path, .fields = { { "x", TSR_U8, { 0 } } });
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 5, .bad = TSR_BAD_MASK);
  tsr_batch *b = tsr_pipeline_next(p);
  CHECK(b);
  unsigned char x[5];
  bool mask[5];
  read_field(b, "x", x, sizeof x);
  CHECK_STATUS(tsr_read(tsr_batch_mask(b), mask, sizeof mask), TSR_OK, s);
  CHECK_BYTES(x, "\1\0\3\0\5", 5);
  for (int i = 0; i < 5; i++) CHECK_I64(mask[i], i % 2 == 0);
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_bad_count(p), 2);
  CHECK_STR_HAS(tsr_pipeline_report(p), "odd.jsonl");
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_runtime_close(rt);
}

/* Members that nobody asks for are not looked at, but the line must be an object. */
TEST(some_fields_alone)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = write_lines("{\"x\":1}\n{\"x\":2,\"r\":[1,2]}\n{\"x\":900,\"r\":\"abc\","
                                 "\"u\":null,\"h\":null,\"b\":null}\n");
  tsr_source *odd = open_odd(s, path, true, false);
  tsr_pipeline *p = tsr_pipeline_open(tsr_source_select(odd, "r_length"), .batch_size = 3);
  tsr_batch *b = tsr_pipeline_next(p);
  CHECK(b);
  int64_t length[3];
  read_field(b, "r_length", length, sizeof length);
  CHECK(!length[0] && length[1] == 2 && length[2] == 3);
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  p = tsr_pipeline_open(tsr_source_select(open_odd(s, path, false, false), "x"), .batch_size = 2);
  b = tsr_pipeline_next(p);
  CHECK(b);
  unsigned char x[2];
  read_field(b, "x", x, sizeof x);
  CHECK_BYTES(x, "\1\2", 2);
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_runtime_close(rt);
}

TEST(a_file_that_shrinks)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = write_lines("{\"x\":1}\n{\"x\":2}\n");
  tsr_source *source = tsr_source_json(s, path, .fields = { { "x", TSR_U8, { 0 } } });
  write_lines("{\"x\":1}\n{\"x\"");
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 2);
  CHECK(!tsr_pipeline_next(p));
  CHECK_I64(tsr_pipeline_close(p), TSR_EIO);
  CHECK_STR_HAS(tsr_message(s), "the file has become shorter");
  tsr_runtime_close(rt);
}

TEST(wrong_calls)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  const char *path = write_lines("{}");
  for (int i = 0; i < 5; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *source =
        i == 0   ? tsr_source_json(s, NULL, .fields = { { "x", TSR_U8, { 0 } } })
        : i == 1 ? tsr_source_json(s, path, .cut = true)
        : i == 2 ? tsr_source_json(s, path, .ragged = "x", .fields = { { "x", TSR_U8, { 0 } } })
        : i == 3 ? tsr_source_json(s, path, .ragged = "x",
                                   .fields = { { "x", TSR_U8, TSR_SHAPE(1) },
                                               { "x_length", TSR_I64, { 0 } } })
                 : tsr_source_json(s, "there/is/none.jsonl", .fields = { { "x", TSR_U8, { 0 } } });
    static const char *const why[] = {
      "the path is NULL; give the path of a file", "no .fields",
      "field x is ragged, but has no dims",
      "two fields would be called 'x_length'; give each a name of its own",
      "there/is/none.jsonl: cannot open"
    };
    CHECK_I64(tsr_source_count(source), 0);
    CHECK_STR_HAS(tsr_message(s), why[i]);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
