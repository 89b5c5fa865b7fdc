/* CSV with a border at every byte of hostile files: of granules, of pieces loaded and unpacked, of
 * what one read of the file gives, of the sample, of the file itself; under every way with bad
 * rows, for each instruction set. What must come out is written beside each file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "harness.h"
#include "support/csv_table.h"

/* ---- hostile files --------------------------------------------------------------------------- */

/* What a file holds: cells with '|', rows with '~', nulls as "NULL". Where it has bad rows,
 * `message` is part of the error that they are, `skipped` what is left without them and `nulled`
 * what they become. */
struct hostile {
  const char *name, *text;
  size_t length; /* 0: that of the text */
  tsr__csv_opts opts;
  const char *cells, *message, *skipped, *nulled;
  int64_t bad;
};

#define SIXTY "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqr"
#define NULS "a,b\n1,x\0y\n2,\"\0\n\0\"\n\0"

static const struct hostile files[] = {
  { .name = "all that is allowed",
    .text = "\xef\xbb\xbf\"a\n1\",b,\"c \"\"x\"\"\"\r\n"
            "1,\"x,y\",\"\"\"\"\r\n"
            "\r\n\n"
            "-7,\"l\r\nm\n\",\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\n"
            "NA,,\"\"\"\"\"\"\r\n"
            "\"2\",\"\"\"q\"\",\"\"\",\"\n\"\"\n\"\n"
            "9223372036854775807," SIXTY SIXTY ",\"" SIXTY "\"\"" SIXTY "\"\r\n"
            "\r\n\n\r\n\n3,\"\n\n\",\r\n\r\n",
    .cells =
        "1|x,y|\"~-7|l\r\nm\n|\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80~NULL||\"\"~2|\"q\",\"|\n\"\n~"
        "9223372036854775807|" SIXTY SIXTY "|" SIXTY "\"" SIXTY "~3|\n\n|~" },
  { .name = "quotes in odd places",
    .text = "a,b\n5\" pipe,x\"y\n7,\"y \"\"q\"\" z\"\n8\"\",a\"b\"c\n\"9\n\",'\"'\nx\"\n,\"\"\n",
    .message = ":7:1: row 4 has 1 field",
    .skipped = "5\" pipe|x\"y~7|y \"q\" z~8\"\"|a\"b\"c~9\n|'\"'~|~",
    .nulled = "5\" pipe|x\"y~7|y \"q\" z~8\"\"|a\"b\"c~9\n|'\"'~x\"|NULL~|~",
    .bad = 1 },
  { .name = "comments and lines left out",
    .text = "junk \"\r\nmore,\"junk\"\n# a \"comment\r\na;b\n#\n1;\"#x\n#y\"\n#\"\n\n2;#z\n"
            "#3;4\n3;\"\"\"#\"\n# the end",
    .opts = { .separator = ';', .comment = '#', .skip_rows = 2 },
    .cells = "1|#x\n#y~2|#z~3|\"#~" },
  { .name = "bad rows of every kind",
    .text =
        "a,b,c\n1,x,2\nq,y,3\n4,5\n,z,\n6,\"caf\xe9\",7\n8,\"u\" v,9\n1,2,3,4\n99999999999,w,5\n"
        "10,\"t\nt\",NA\n",
    .opts = { .types = "a i32" },
    .message =
        ":7:6: text follows a closing quote", /* where rows end is known before what they hold */
    .skipped = "1|x|2~NULL|z|NULL~10|t\nt|NULL~",
    .nulled =
        "1|x|2~NULL|y|3~4|5|NULL~NULL|z|NULL~6|NULL|7~8|NULL|NULL~1|2|3~NULL|w|5~10|t\nt|NULL~",
    .bad = 6 },
  { .name = "a quote that is never closed",
    .text = "a,b\n1,\"x\ny\"\n2,\"z\n3,w\n4,\n",
    .message = ":4:3: the quote that opens here is never closed",
    .skipped = "1|x\ny~",
    .nulled = "1|x\ny~2|NULL~",
    .bad = 1 },
  { .name = "options of values",
    .text = "1,5;x;-;true;2013-01-31\r\n-0,25;;none;FALSE;\r\n\"1e3\";\"-\";7;-;1969-12-31\r\n",
    .opts = { .separator = ';',
              .no_header = true,
              .decimal_comma = true,
              .text_nulls = true,
              .nulls = "-, none",
              .names = "f, t, i, b, d",
              .columns = "d, t, i, b, f" },
    .cells = "15736|x|NULL|1|1.5~NULL|NULL|NULL|0|-0.25~-1|-|7|NULL|1000~" },
  { .name = "forced types",
    .text = "i,f,t\n007,1.5,12\n-2147483648,1e40,2013-01-31\n,-0,NA\n",
    .opts = { .types = "i i32, f f32, t text" },
    .cells = "7|1.5|12~-2147483648|inf|2013-01-31~NULL|-0|NA~" },
  { .name = "lines that end with CR",
    .text = "a,b\r1,\"x\r\ry\"\r\r2,\xe2\x82\xac\r",
    .cells = "1|x\r\ry~2|\xe2\x82\xac~" },
  { .name = "lines that end with CR and quotes in odd places",
    .text = "a,b\r5\" pipe,\"x\ny\"\r7\",\"\n\"\r,x\"\r",
    .cells = "5\" pipe|x\ny~7\"|\n~|x\"~" },
  { .name = "one column with empty lines",
    .text = "a\n\nx\r\n\"\"\n\r\n\"\n\"\n",
    .cells = "~x~~~\n~" },
  { .name = "bytes of zero", .text = NULS, .length = sizeof NULS - 1, .cells = NULL, .bad = -1 },
};

enum { FILES = sizeof files / sizeof *files };

static size_t length_of(const struct hostile *h)
{
  return h->length ? h->length : strlen(h->text);
}

static void add_cell(char **to, const struct table *t, int64_t r, int c)
{
  const struct table_cell *cell = &t->cells[c * t->rows + r];
  double value;
  memcpy(&value, &cell->bits, sizeof value);
  if (c) *(*to)++ = '|';
  if (cell->null) *to += sprintf(*to, "NULL");
  else if (t->schema[c].type == TSR_COL_TEXT)
    *to += sprintf(*to, "%.*s", (int)cell->length, cell->text);
  else if (t->schema[c].type == TSR_COL_F64 || t->schema[c].type == TSR_COL_F32)
    *to += sprintf(*to, "%g", value);
  else *to += sprintf(*to, "%" PRId64, (int64_t)cell->bits);
}

static const char *cells_of(const struct table *t, char out[2000])
{
  char *to = out;
  *to = 0;
  for (int64_t r = 0; r < t->rows; r++) {
    for (int c = 0; c < t->columns; c++) add_cell(&to, t, r, c);
    to += sprintf(to, "~");
  }
  return out;
}

/* ---- reading a file in a way ----------------------------------------------------------------- */

struct outcome {
  tsr_status status;
  struct table table;
  tsr__error error;
};

static void read_way(tsr_runtime *rt, const char *path, const struct table_how *how,
                     struct outcome *out)
{
  out->error = (tsr__error){ 0 };
  out->status = table_read(rt, path, how, &out->table, &out->error);
}

static void compare(const struct outcome *found, const struct outcome *expected, bool words,
                    const char *where)
{
  if (found->status != expected->status)
    FAIL("%s: %s \"%s\", expected %s \"%s\"", where, tsr_status_name(found->status),
         found->error.text, tsr_status_name(expected->status), expected->error.text);
  if (found->status) {
    if (words && strcmp(found->error.text, expected->error.text) != 0)
      FAIL("%s: \"%s\", expected \"%s\"", where, found->error.text, expected->error.text);
    return;
  }
  const char *differs = table_differs(&found->table, &expected->table);
  if (differs) FAIL("%s: %s", where, differs);
  CHECK_I64(found->table.bad_rows, expected->table.bad_rows);
}

/* As pread, but never more than so many bytes. */
static int64_t short_read(void *user, int fd, void *to, size_t length, int64_t offset)
{
  size_t most = *(const size_t *)user;
  return pread(fd, to, length < most ? length : most, offset);
}

struct border_test {
  const struct hostile *hostile;
  tsr__csv_opts opts; /* with a way for bad rows */
  const char *path, *gzip, *zstd;
  tsr_runtime *rt[4];
  struct outcome expected;
};

enum { GRANULE, EVERY_BYTE, PIECE, SHORT_READ, SAMPLE, GZIP, ZSTD, WAYS };

static void check_border(const struct border_test *test, int way, size_t at)
{
  static const char *const names[] = { "granule", "granule 1", "piece", "short read",
                                       "sample",  "gzip",      "zstd" };
  char where[200];
  struct outcome found;
  struct table_how how = { .opts = test->opts, .parts = 1 + (int)(at % 3), .seed = at % 4 };
  tsr__csv_opts *opts = &how.opts;
  const char *path = way == GZIP ? test->gzip : way == ZSTD ? test->zstd : test->path;
  opts->granule = way == EVERY_BYTE ? 1 : way == GRANULE ? (int64_t)at : (int64_t)(1 + at % 50);
  opts->piece = way == GRANULE ? 0 : (int64_t)at;
  opts->batch_rows = (int)(at % 4);
  opts->stripes = 1 + (int)(at % 3);
  if (way == SAMPLE) opts->sample = (int64_t)at;
  if (way == SHORT_READ) {
    opts->read = short_read;
    opts->user = &at;
  }
  snprintf(where, sizeof where, "%s, bad rows %d: %s at byte %zu", test->hostile->name,
           (int)test->opts.bad_rows, names[way], at);
  read_way(test->rt[at % 4], path, &how, &found);
  compare(&found, &test->expected, path == test->path && way != SAMPLE, where);
  table_free(&found.table);
}

/* The file cut off at a byte: whatever it is then, its borders do not show. */
static void check_cut(const struct border_test *test, size_t at)
{
  char where[200];
  struct outcome found, expected;
  const char *path = test_tmp("cut.csv");
  struct table_how how = { .opts = test->opts };
  test_write(path, test->hostile->text, at);
  read_way(test->rt[0], path, &how, &expected);
  for (int turn = 0; turn < 3; turn++) {
    how.opts.granule = turn == 0   ? 1
                       : turn == 1 ? (int64_t)(1 + at % 13)
                                   : (int64_t)(at > 1 ? at - 1 : 1);
    how.opts.piece = turn == 0 ? 1 + (int64_t)at / 2 : 1;
    how.opts.batch_rows = turn;
    snprintf(where, sizeof where, "%s, bad rows %d: cut off at byte %zu, turn %d",
             test->hostile->name, (int)test->opts.bad_rows, at, turn);
    read_way(test->rt[1 + turn], path, &how, &found);
    compare(&found, &expected, true, where);
    table_free(&found.table);
  }
  table_free(&expected.table);
}

static void write_packed(const struct border_test *test)
{
  char bytes[4000];
  size_t length = length_of(test->hostile);
  z_stream z = { .next_in = (Bytef *)(uintptr_t)test->hostile->text,
                 .avail_in = (uInt)length,
                 .next_out = (Bytef *)bytes,
                 .avail_out = sizeof bytes };
  CHECK_I64(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
  CHECK_I64(deflate(&z, Z_FINISH), Z_STREAM_END);
  test_write(test->gzip, bytes, z.total_out);
  deflateEnd(&z);
  size_t packed = ZSTD_compress(bytes, sizeof bytes, test->hostile->text, length, 3);
  CHECK(!ZSTD_isError(packed));
  test_write(test->zstd, bytes, packed);
}

/* That the whole file is what was written beside it. */
static void check_whole(const struct border_test *test)
{
  const struct hostile *h = test->hostile;
  const struct outcome *whole = &test->expected;
  char found[2000];
  if (h->bad < 0) return; /* only equal to itself */
  if (h->message && !test->opts.bad_rows) {
    CHECK_STATUS(whole->status, TSR_EPARSE, NULL);
    CHECK_STR_HAS(whole->error.text, h->message);
    return;
  }
  if (whole->status) FAIL("%s: %s", h->name, whole->error.text);
  CHECK_I64(whole->table.bad_rows, h->bad);
  CHECK_STR(cells_of(&whole->table, found), !h->message                                ? h->cells
                                            : test->opts.bad_rows == TSR__CSV_BAD_SKIP ? h->skipped
                                                                                       : h->nulled);
}

static void check_file(const struct hostile *hostile, tsr__csv_bad bad)
{
  struct border_test test = { .hostile = hostile, .opts = hostile->opts };
  static const char *const isas[] = { NULL, "baseline", "avx2", "avx512" };
  test.opts.bad_rows = bad;
  test.path = strdup(test_tmp("border.csv"));
  test.gzip = strdup(test_tmp("border.csv.gz"));
  test.zstd = strdup(test_tmp("border.csv.zst"));
  size_t length = length_of(hostile);
  test_write(test.path, hostile->text, length);
  write_packed(&test);
  for (int i = 0; i < 4; i++) test.rt[i] = table_runtime(isas[i], 1 + (i == 0));
  read_way(test.rt[0], test.path, &(struct table_how){ .opts = test.opts }, &test.expected);
  check_whole(&test);
  for (size_t at = 1; at <= length + 1; at += test_quick() ? 5 : 1) {
    for (int way = 0; way < WAYS; way++) check_border(&test, way, at);
    if (at < length) check_cut(&test, at);
  }
  table_free(&test.expected.table);
  for (int i = 0; i < 4; i++) tsr_runtime_close(test.rt[i]);
  free((void *)(uintptr_t)test.path);
  free((void *)(uintptr_t)test.gzip);
  free((void *)(uintptr_t)test.zstd);
}

TEST_TIMEOUT(a_border_at_every_byte, 240)
{
  for (int i = 0; i < FILES; i++) check_file(&files[i], TSR__CSV_BAD_ERROR);
}

TEST_TIMEOUT(a_border_at_every_byte_rows_left_out, 240)
{
  for (int i = 0; i < FILES; i++) check_file(&files[i], TSR__CSV_BAD_SKIP);
}

TEST_TIMEOUT(a_border_at_every_byte_values_made_null, 240)
{
  for (int i = 0; i < FILES; i++) check_file(&files[i], TSR__CSV_BAD_NULL);
}
