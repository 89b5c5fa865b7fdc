/* Several files as one, packed files, standard input; files that change, vanish or are damaged;
 * reads that fail; work that is cancelled. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "tessera.h"

#include "harness.h"
#include "support/csv_table.h"

enum { ROWS = 900 };

/* ---- files to read --------------------------------------------------------------------------- */

static char *texts_of(int64_t from, int64_t to, int order, bool crlf, size_t *length)
{
  char *out = malloc(200 + (size_t)(to - from) * 200);
  const char *end = crlf ? "\r\n" : "\n";
  char *at = out;
  at += sprintf(at, order ? "word,n,text,\"x,y\"%s" : "n,text,\"x,y\",word%s", end);
  for (int64_t r = from; r < to; r++) {
    char n[32], text[64], x[32], word[32];
    snprintf(n, sizeof n, "%" PRId64, r * 7919 % 1000);
    snprintf(text, sizeof text, r % 5 ? "t%" PRId64 : "\"a, \"\"%" PRId64 "\"\"\nb\"", r % 23);
    snprintf(x, sizeof x, r % 11 ? "%" PRId64 ".25" : "NA", r);
    snprintf(word, sizeof word, "w%" PRId64, (ROWS - r) / 10);
    if (order) at += sprintf(at, "%s,%s,%s,%s%s", word, n, text, x, end);
    else at += sprintf(at, "%s,%s,%s,%s%s", n, text, x, word, end);
  }
  *length = (size_t)(at - out);
  return out;
}

static size_t gzip_to(char *out, size_t room, const char *text, size_t length)
{
  z_stream z = { 0 };
  CHECK_I64(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = (unsigned char *)(uintptr_t)text;
  z.avail_in = (unsigned)length;
  z.next_out = (unsigned char *)out;
  z.avail_out = (unsigned)room;
  CHECK_I64(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  return room - z.avail_out;
}

static size_t zstd_to(char *out, size_t room, const char *text, size_t length)
{
  ZSTD_CCtx *context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  size_t size = ZSTD_compress2(context, out, room, text, length);
  CHECK(!ZSTD_isError(size));
  ZSTD_freeCCtx(context);
  return size;
}

/* Packs a text as `members` members; packing 0: none, 1: gzip, 2: zstd. */
static char *pack(const char *text, size_t length, int packing, int members, size_t *size)
{
  size_t room = length * 2 + 1000 * (size_t)members;
  char *out = malloc(room);
  *size = 0;
  for (int m = 0; m < members; m++) {
    size_t from = length * (size_t)m / (size_t)members;
    size_t to = length * ((size_t)m + 1) / (size_t)members;
    char *at = out + *size;
    if (packing == 0) memcpy(at, text + from, to - from), *size += to - from;
    else if (packing == 1) *size += gzip_to(at, room - *size, text + from, to - from);
    else *size += zstd_to(at, room - *size, text + from, to - from);
  }
  return out;
}

static void write_packed(const char *name, const char *text, size_t length, int packing)
{
  size_t size;
  char *packed = pack(text, length, packing, 1 + packing, &size);
  test_write(test_tmp(name), packed, size);
  free(packed);
}

static void write_rows(const char *name, int64_t from, int64_t to, int kind)
{
  size_t length;
  char *text = texts_of(from, to, kind % 2, kind % 3 == 1, &length);
  write_packed(name, text, length, kind % 3);
  free(text);
}

static void must_read(tsr_runtime *rt, const char *path, const struct table_how *how,
                      struct table *out)
{
  tsr__error error = { 0 };
  if (table_read(rt, path, how, out, &error)) FAIL("%s: %s", path, error.text);
}

static void must_be(const struct table *t, const struct table *expected, const char *what, int n)
{
  const char *differs = table_differs(t, expected);
  if (differs) FAIL("%s %d: %s", what, n, differs);
}

/* ---- several files --------------------------------------------------------------------------- */

/* Columns in other orders, line ends and packings of their own, cut between any two rows. */
TEST_TIMEOUT(several_files_are_one, 120)
{
  struct table expected, t;
  write_rows("whole.csv", 0, ROWS, 0);
  tsr_runtime *rt = table_runtime(NULL, 2), *other = table_runtime("baseline", 1);
  must_read(rt, test_tmp("whole.csv"), NULL, &expected);
  int step = test_quick() ? 97 : 13;
  for (int cut = 0; cut <= ROWS; cut += step) {
    write_rows("part-1.csv", 0, cut / 2, cut);
    write_rows("part-2.csv", cut / 2, cut, cut + 1);
    write_rows("part-3.csv.x", cut, ROWS, cut + 2);
    struct table_how how = { .opts = { .columns = "n, text, \"x,y\", word",
                                       .granule = cut % 7 * 10,
                                       .stripes = cut % 5,
                                       .sample = cut % 3 * 400,
                                       .batch_rows = cut % 4 * 3,
                                       .piece = cut % 2 * 1000 },
                             .parts = 1 + cut % 3,
                             .seed = (uint64_t)cut };
    must_read(cut % 2 ? rt : other, test_tmp("part-*.csv*"), &how, &t);
    must_be(&t, &expected, "cut", cut);
    table_free(&t);
  }
  table_free(&expected);
  tsr_runtime_close(other);
  tsr_runtime_close(rt);
}

TEST(patterns)
{
  struct table t;
  tsr__error error = { 0 };
  tsr_runtime *rt = table_runtime(NULL, 1);
  const char *names[] = { "p-1.csv", "p-2.csv", "p-10.csv", "q[1].csv" };
  for (int i = 0; i < 4; i++) {
    char text[32];
    snprintf(text, sizeof text, "a\n%d\n", i);
    test_write(test_tmp(names[i]), text, strlen(text));
  }
  const struct {
    const char *pattern;
    int64_t rows, first, last;
  } cases[] = { { "p-*.csv", 3, 0, 1 },      { "p-?.csv", 2, 0, 1 },     { "p-{2,1}.csv", 2, 0, 1 },
                { "p-{1,1*}.csv", 2, 0, 2 }, { "p-[2-9].csv", 1, 1, 1 }, { "q[1].csv", 1, 3, 3 } };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    must_read(rt, test_tmp(cases[i].pattern), NULL, &t);
    CHECK_I64(t.rows, cases[i].rows);
    CHECK_I64((int64_t)t.cells[0].bits, cases[i].first);
    CHECK_I64((int64_t)t.cells[t.rows - 1].bits, cases[i].last);
    table_free(&t);
  }
  CHECK_STATUS(table_read(rt, test_tmp("none-*.csv"), NULL, &t, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "none-*.csv: no file matches this pattern");
  tsr_runtime_close(rt);
}

/* Types widen over all files, whichever holds the odd value; a header alone knows none. */
TEST(types_widen_over_files)
{
  static const char *const files[4] = { "a,b,c\n1,1,\n", "c,b,a\n,2.5,2\n", "a,b,c\n",
                                        "a,b,c\n3,4,9\n" };
  tsr_runtime *rt = table_runtime(NULL, 2);
  for (int turn = 0; turn < 4; turn++) {
    for (int i = 0; i < 4; i++) {
      char name[16];
      snprintf(name, sizeof name, "w-%d.csv", i);
      const char *text = files[(i + turn) % 4];
      test_write(test_tmp(name), text, strlen(text));
    }
    for (int64_t sample = 0; sample < 3; sample++) {
      struct table t;
      must_read(rt, test_tmp("w-*.csv"), &(struct table_how){ .opts = { .sample = sample } }, &t);
      CHECK_I64(t.rows, 3);
      for (int c = 0; c < 3; c++) {
        const char *type = t.schema[c].name[0] == 'b' ? "f64" : "i64";
        CHECK_STR(table_type_name(t.schema[c].type), type);
        CHECK_I64(t.nulls[c], t.schema[c].name[0] == 'c' ? 2 : 0);
      }
      table_free(&t);
    }
  }
  tsr_runtime_close(rt);
}

static void check_unlike(const char *first, const char *second, tsr__csv_opts opts,
                         tsr_status status, const char *part)
{
  struct table t;
  tsr__error error = { 0 };
  tsr_runtime *rt = table_runtime(NULL, 1);
  test_write(test_tmp("u-1.csv"), first, strlen(first));
  test_write(test_tmp("u-2.csv"), second, strlen(second));
  CHECK_STATUS(table_read(rt, test_tmp("u-*.csv"), &(struct table_how){ .opts = opts }, &t, &error),
               status, NULL);
  CHECK_STR_HAS(error.text, part);
  CHECK_STR_HAS(error.text, "u-2.csv");
  tsr_runtime_close(rt);
}

TEST(files_that_do_not_go_together)
{
  tsr__csv_opts none = { 0 };
  check_unlike("a,b\n1,2\n", "a,c\n1,2\n", none, TSR_ECOLUMN,
               "u-2.csv: lacks column \"b\", but the column is in ");
  check_unlike("a,b\n1,2\n", "a,b,c\n1,2,3\n", none, TSR_ECOLUMN,
               "u-2.csv: has a column \"c\", but the column is not in ");
  check_unlike("a,b\n1,2\n", "a\n1\n", none, TSR_ECOLUMN, "lacks column \"b\"");
  check_unlike("a,b\n1,2\n", "a,b\n1\n", none, TSR_EPARSE, "u-2.csv:2:1: row 1 has 1 field");
  check_unlike("a,b\n1,2\n", "b,a\n1,x\n\xe9,3\n", none, TSR_EPARSE, "u-2.csv:3:1: row 2, column");
  tsr__csv_opts chosen = { .columns = "b", .types = "b i64" };
  check_unlike("a,b\n1,2\n", "z,y,b\n1,x,q\n", chosen, TSR_EPARSE, "u-2.csv:2:5: row 1, column");
}

/* A file of nothing among others gives no rows, wherever it stands; alone it is an error. */
TEST(empty_files_are_left_out)
{
  char nothing[60];
  size_t packed = gzip_to(nothing, sizeof nothing, "", 0);
  struct {
    const char *text;
    size_t length;
  } empty[] = { { "", 0 }, { "\n\n", 2 }, { "\xef\xbb\xbf", 3 }, { nothing, packed } };
  tsr_runtime *rt = table_runtime(NULL, 2);
  struct table t;
  tsr__error error = { 0 };
  for (int i = 0; i < 4; i++)
    for (int holds = 1; holds < 8; holds++) {
      const char *a = empty[i].text;
      size_t length = empty[i].length;
      test_write(test_tmp("n-1.csv"), holds & 1 ? "a,b\n1,x\n" : a, holds & 1 ? 8 : length);
      test_write(test_tmp("n-2.csv"), holds & 2 ? "b,a\ny,2\n" : a, holds & 2 ? 8 : length);
      test_write(test_tmp("n-3.csv"), holds & 4 ? "a,b\n3,z\n" : a, holds & 4 ? 8 : length);
      must_read(rt, test_tmp("n-*.csv"), NULL, &t);
      CHECK_I64(t.rows, __builtin_popcount((unsigned)holds));
      CHECK_I64(t.columns, 2);
      table_free(&t);
    }
  for (int n = 1; n <= 3; n++) {
    char name[16];
    snprintf(name, sizeof name, "n-%d.csv", n);
    test_write(test_tmp(name), "", 0);
  }
  CHECK_STATUS(table_read(rt, test_tmp("n-*.csv"), NULL, &t, &error), TSR_EPARSE, NULL);
  CHECK_STR_HAS(error.text, "all of its 3 files are empty");
  error.status = TSR_OK;
  CHECK_STATUS(table_read(rt, test_tmp("n-1.csv"), NULL, &t, &error), TSR_EPARSE, NULL);
  CHECK_STR_HAS(error.text, "n-1.csv: is empty");
  tsr_runtime_close(rt);
}

/* ---- packed files ---------------------------------------------------------------------------- */

TEST_TIMEOUT(packed_files_are_unpacked, 120)
{
  struct table expected, t;
  size_t length, size;
  char *text = texts_of(0, ROWS, 0, false, &length);
  test_write(test_tmp("plain.csv"), text, length);
  tsr_runtime *rt = table_runtime(NULL, 2);
  must_read(rt, test_tmp("plain.csv"), NULL, &expected);
  for (int packing = 1; packing <= 2; packing++)
    for (int members = 1; members <= 4; members++)
      for (int64_t piece = 1; piece < 200000; piece *= members + 6)
        for (int64_t sample = 0; sample < 2000; sample += 900) {
          char *packed = pack(text, length, packing, members, &size);
          test_write(test_tmp("packed.csv"), packed, size);
          struct table_how how = { .opts = { .piece = piece, .sample = sample } };
          must_read(rt, test_tmp("packed.csv"), &how, &t);
          must_be(&t, &expected, "members", members);
          table_free(&t);
          free(packed);
        }
  table_free(&expected);
  free(text);
  tsr_runtime_close(rt);
}

/* A small file that unpacks to a large one is refused before it takes the memory. */
TEST(unpacking_has_a_limit)
{
  enum { LARGE = 4 << 20 };
  static char text[LARGE];
  struct table t;
  size_t size;
  tsr_runtime *rt = table_runtime(NULL, 1);
  memcpy(text, "a\n", 2);
  for (int i = 2; i < LARGE; i += 2) memcpy(text + i, "1\n", 2);
  for (int packing = 1; packing <= 2; packing++) {
    tsr__error error = { 0 };
    char *packed = pack(text, LARGE, packing, 1, &size);
    test_write(test_tmp("bomb.csv"), packed, size);
    free(packed);
    struct table_how how = { .opts = { .unpack_limit = 1 << 20, .held = 1 } };
    CHECK_STATUS(table_read(rt, test_tmp("bomb.csv"), &how, &t, &error), TSR_ENOMEM, NULL);
    CHECK_STR_HAS(error.text, "unpack to more than 1048576; if the file is meant to be");
    how.opts.unpack_limit = LARGE;
    must_read(rt, test_tmp("bomb.csv"), &how, &t);
    table_free(&t);
    how.opts.unpack_limit = 0;
    rt->opts.memory_limit = 1 << 20;
    error = (tsr__error){ 0 };
    CHECK_STATUS(table_read(rt, test_tmp("bomb.csv"), &how, &t, &error), TSR_ENOMEM, NULL);
    CHECK_STR_HAS(error.text, "and .memory_limit if there is one");
    rt->opts.memory_limit = 0;
    tsr_runtime_close(rt);
    rt = table_runtime(NULL, 1);
  }
  tsr_runtime_close(rt);
}

/* What a packed file holds counts towards the host's share of the limit, which the message
 * names. */
TEST(unpacked_text_counts_towards_the_limit)
{
  enum { LARGE = 8 << 20 };
  char *text = malloc(LARGE);
  size_t size;
  memcpy(text, "x\n", 2);
  for (int i = 2; i < LARGE; i += 2) memcpy(text + i, "1\n", 2);
  char *packed = pack(text, LARGE, 1, 1, &size);
  test_write(test_tmp("tight.csv.gz"), packed, size);
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1, .memory_limit = 1 << 30);
  for (int fits = 0; fits <= 1; fits++) {
    tsr_scope *s = tsr_scope_open(rt);
    int64_t used = rt->heap.used;
    rt->heap.limit = used + (fits ? 3 * LARGE : LARGE / 2);
    tsr_frame *df = tsr_frame_read_csv(s, test_tmp("tight.csv.gz"));
    tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "n = sum(x)"));
    CHECK_STATUS(tsr_row_status(row), fits ? TSR_OK : TSR_ENOMEM, s);
    if (fits) CHECK_I64(tsr_row_i64(row, "n"), LARGE / 2 - 1);
    else CHECK_STR_HAS(tsr_message(s), "but .memory_limit allows");
    if (!fits) CHECK(rt->heap.used <= used + (1 << 20));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
  free(packed);
  free(text);
}

/* Zeros behind a gzip member fill a block; empty members hold nothing. */
TEST(gzip_with_odd_members)
{
  char packed[400] = { 0 };
  struct table t;
  tsr_runtime *rt = table_runtime(NULL, 1);
  size_t used = gzip_to(packed, 100, "", 0);
  used += gzip_to(packed + used, 100, "a,b\n1,", 6);
  used += gzip_to(packed + used, 100, "", 0);
  used += gzip_to(packed + used, 100, "2\n", 2);
  for (size_t zeros = 0; zeros < 20; zeros++) {
    test_write(test_tmp("odd.gz"), packed, used + zeros);
    must_read(rt, test_tmp("odd.gz"), NULL, &t);
    CHECK_I64(t.rows, 1);
    CHECK_I64((int64_t)t.cells[1].bits, 2);
    table_free(&t);
  }
  tsr_runtime_close(rt);
}

/* Cut anywhere, or with one byte changed, a packed file is an error or, where the byte did not
 * matter, the same table: never another one. */
TEST_TIMEOUT(damaged_files_are_refused, 120)
{
  size_t length, size;
  char *text = texts_of(0, 60, 0, false, &length);
  tsr_runtime *rt = table_runtime(NULL, 1);
  test_write(test_tmp("plain.csv"), text, length);
  struct table expected, t;
  must_read(rt, test_tmp("plain.csv"), NULL, &expected);
  for (int packing = 1; packing <= 2; packing++) {
    char *packed = pack(text, length, packing, 1, &size);
    for (size_t at = 4; at < size; at++)
      for (int64_t sample = 0; sample < 200; sample += 150) {
        tsr__error error = { 0 };
        struct table_how how = { .opts = { .sample = sample } };
        test_write(test_tmp("cut.csv"), packed, at);
        CHECK(table_read(rt, test_tmp("cut.csv"), &how, &t, &error) != TSR_OK);
        CHECK(error.text[0]);
        packed[at] ^= 4;
        test_write(test_tmp("cut.csv"), packed, size);
        error = (tsr__error){ 0 };
        if (!table_read(rt, test_tmp("cut.csv"), &how, &t, &error))
          must_be(&t, &expected, "byte", (int)at);
        table_free(&t);
        packed[at] ^= 4;
      }
    free(packed);
  }
  free(text);
  table_free(&expected);
  tsr_runtime_close(rt);
}

TEST(other_formats_inside)
{
  char packed[400];
  struct table t;
  tsr_runtime *rt = table_runtime(NULL, 1);
  static const struct {
    const char *bytes, *part;
  } cases[] = { { "PAR1\x15\x04\x15\x01zzzz", "is Parquet, not packed CSV" },
                { "{\"a\": 1}\n{\"a\": 2}\n", "is JSON, not packed CSV" },
                { "\x1f\x8b\x08zzzzzzzz", "is packed twice" } };
  for (size_t i = 0; i < 3; i++)
    for (int packing = 1; packing <= 2; packing++) {
      tsr__error error = { 0 };
      size_t length = strlen(cases[i].bytes);
      size_t size = packing == 1 ? gzip_to(packed, sizeof packed, cases[i].bytes, length)
                                 : zstd_to(packed, sizeof packed, cases[i].bytes, length);
      test_write(test_tmp("other.csv"), packed, size);
      CHECK_STATUS(table_read(rt, test_tmp("other.csv"), NULL, &t, &error), TSR_EUNSUPPORTED, NULL);
      CHECK_STR_HAS(error.text, cases[i].part);
    }
  tsr_runtime_close(rt);
}

/* ---- standard input -------------------------------------------------------------------------- */

TEST(standard_input_is_read)
{
  struct table expected, t;
  tsr_runtime *rt = table_runtime(NULL, 2);
  write_rows("in.csv", 0, ROWS, 0);
  must_read(rt, test_tmp("in.csv"), NULL, &expected);
  int before = dup(0);
  for (int packing = 0; packing <= 2; packing++)
    for (int64_t piece = 100; piece <= 1000000; piece *= 100) {
      write_rows("in.csv", 0, ROWS, packing == 1 ? 4 : packing);
      int fd = open(test_tmp("in.csv"), O_RDONLY);
      CHECK(dup2(fd, 0) == 0);
      close(fd);
      struct table_how how = {
        .opts = { .piece = piece, .columns = "n, text, \"x,y\", word", .sample = piece / 2 }
      };
      must_read(rt, "-", &how, &t);
      must_be(&t, &expected, "packing", packing);
      table_free(&t);
    }
  int ends[2];
  CHECK_I64(pipe(ends), 0);
  CHECK_I64(write(ends[1], "a,b\n1,\xff\n", 8), 8);
  close(ends[1]);
  CHECK(dup2(ends[0], 0) == 0);
  close(ends[0]);
  tsr__error error = { 0 };
  CHECK_STATUS(table_read(rt, "-", NULL, &t, &error), TSR_EPARSE, NULL);
  CHECK_STR_HAS(error.text, "standard input:2:3: row 0");
  dup2(before, 0);
  table_free(&expected);
  tsr_runtime_close(rt);
}

/* Writes a file's bytes to a pipe, some at a time, from another process. */
static pid_t write_pipe(const char *pipe, const char *from)
{
  pid_t child = fork();
  if (child) return child;
  size_t length, step = 3000;
  char *bytes = test_read(from, &length);
  usleep(20000); /* the reader is there first, mostly; nothing depends on it */
  int fd = open(pipe, O_WRONLY);
  for (size_t at = 0; at < length; at += step)
    if (write(fd, bytes + at, length - at < step ? length - at : step) < 0) _exit(1);
  _exit(0);
}

/* All rows of a frame as CSV. */
static char *rows_of(tsr_scope *s, tsr_frame *df)
{
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("rows.csv")), TSR_OK, s);
  return test_read(test_tmp("rows.csv"), NULL);
}

/* What a shell makes of <(zcat a.gz). */
TEST(pipes_are_read_as_they_come)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  char *pipe = strdup(test_tmp("pipe")), *in = strdup(test_tmp("in.csv"));
  CHECK_I64(mkfifo(pipe, 0600), 0);
  for (int packing = 0; packing <= 2; packing++) {
    write_rows("in.csv", 0, ROWS, packing == 1 ? 4 : packing);
    char *expected = rows_of(s, tsr_frame_read_csv(s, in));
    pid_t child = write_pipe(pipe, in);
    char *found = rows_of(s, tsr_frame_read_csv(s, pipe));
    CHECK_STR(found, expected);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    free(expected);
    free(found);
  }
  test_write(in, "[{\"a\":1},\n{\"a\":2}]\n", 19);
  pid_t child = write_pipe(pipe, in);
  char *found = rows_of(s, tsr_frame_read_json(s, pipe));
  CHECK_STR(found, "a\n1\n2\n");
  CHECK(waitpid(child, NULL, 0) == child);
  CHECK_STATUS(tsr_frame_write_csv(tsr_frame_read_csv(s, "/dev/zero"), in), TSR_EUNSUPPORTED, s);
  CHECK_STR_HAS(tsr_message(s), "/dev/zero: is a device, expected a file or a pipe");
  free(found);
  free(pipe);
  free(in);
  tsr_runtime_close(rt);
}

/* ---- files that change while they are read --------------------------------------------------- */

TEST(files_of_many_are_opened_again)
{
  for (int how = 0; how < 4; how++) {
    write_rows("c-1.csv", 0, 300, 0);
    write_rows("c-2.csv", 300, 600, 0);
    write_rows("c-3.csv.gz", 600, 900, 4);
    tsr_runtime *rt = table_runtime(NULL, 2);
    tsr__error error = { 0 };
    tsr__csv_opts opts = { .sample = 256, .columns = "n" };
    tsr__csv *csv = tsr__csv_open_with(rt, test_tmp("c-*"), &opts, &error);
    if (!csv) FAIL("%s", error.text);
    const char *second = test_tmp("c-2.csv");
    int64_t rows = -1;
    if (how == 0) CHECK_I64(unlink(second), 0);
    if (how == 1) CHECK_I64(truncate(second, 1000), 0);
    if (how == 2) CHECK_I64(unlink(test_tmp("c-3.csv.gz")), 0);
    tsr_status status = tsr__csv_count(csv, &rows, &error);
    CHECK_STATUS(status, how < 3 ? TSR_EIO : TSR_OK, NULL);
    if (how == 0) CHECK_STR_HAS(error.text, "c-2.csv: cannot open: No such file or directory");
    if (how == 1) CHECK_STR_HAS(error.text, "c-2.csv: changed since it was opened");
    if (how == 2) CHECK_STR_HAS(error.text, "c-3.csv.gz: cannot open");
    CHECK_I64(rows, how < 3 ? -1 : 900);
    tsr__csv_close(csv);
    tsr_runtime_close(rt);
  }
}

/* ---- reads that fail ------------------------------------------------------------------------- */

/* The n-th read fails, or gives nothing; all give few bytes. */
struct faulty {
  _Atomic int64_t calls;
  int64_t fail_at;
  bool ends;
};

static int64_t faulty_read(void *user, int fd, void *to, size_t length, int64_t offset)
{
  struct faulty *faulty = user;
  int64_t call = atomic_fetch_add(&faulty->calls, 1) + 1;
  if (call == faulty->fail_at && !faulty->ends) errno = EIO;
  if (call == faulty->fail_at) return faulty->ends ? 0 : -1;
  return pread(fd, to, length < 700 ? length : 700, (off_t)offset);
}

/* Reads files of the same rows as whole.csv over and over, with one read more before the one that
 * fails: an error, or the same rows. */
static void fail_each_read(const char *name, const tsr__csv_opts *opts)
{
  struct table expected, t;
  write_rows("whole.csv", 0, 150, 0);
  tsr_runtime *rt = table_runtime(NULL, 2);
  must_read(rt, test_tmp("whole.csv"), NULL, &expected);
  for (int ends = 0; ends < 2; ends++) {
    bool done = false, cuts_packed = ends && !opts->held;
    for (int64_t n = 1; !done; n++) {
      tsr__error error = { 0 };
      struct faulty faulty = { .fail_at = n, .ends = ends };
      struct table_how how = { .opts = *opts };
      how.opts.read = faulty_read;
      how.opts.user = &faulty;
      how.opts.columns = "n, text, \"x,y\", word";
      tsr_status status = table_read(rt, test_tmp(name), &how, &t, &error);
      done = faulty.calls < n;
      CHECK(n < 1000);
      if (status) CHECK(status == TSR_EIO || (cuts_packed && status == TSR_EPARSE));
      else must_be(&t, &expected, "read", (int)n);
      if (done) CHECK_STATUS(status, TSR_OK, NULL);
      table_free(&t);
    }
  }
  table_free(&expected);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(nth_read_fails, 120)
{
  write_rows("n-1.csv", 0, 60, 0);
  write_rows("n-2.csv.gz", 60, 100, 4);
  write_rows("n-3.csv.zst", 100, 150, 2);
  fail_each_read("n-*", &(tsr__csv_opts){ .piece = 999, .sample = 1000 });
}

/* The same for large files, which are read twice through windows. */
TEST_TIMEOUT(nth_read_of_windows_fails, 120)
{
  write_rows("w-1.csv", 0, 60, 0);
  write_rows("w-2.csv", 60, 150, 0);
  tsr__csv_opts opts = { .held = 1, .piece = 999, .granule = 256, .stripes = 4, .sample = 1000 };
  fail_each_read("w-*", &opts);
}

/* Bytes that change between the counting and the reading, and nothing tells: any result will do,
 * none that is out of bounds. */
static int64_t garbling_read(void *user, int fd, void *to, size_t length, int64_t offset)
{
  static const char junk[] = ",\n\"x1\r;";
  struct faulty *faulty = user;
  int64_t call = atomic_fetch_add(&faulty->calls, 1) + 1,
          got = pread(fd, to, length, (off_t)offset);
  for (int64_t i = 0; i < got && call >= faulty->fail_at; i++)
    if ((offset + i + call) % 23 == 0) ((char *)to)[i] = junk[(offset + i) % 7];
  return got;
}

TEST_TIMEOUT(bytes_that_change_unseen_do_no_harm, 120)
{
  struct table t;
  write_rows("g-1.csv", 0, 200, 0);
  tsr_runtime *rt = table_runtime(NULL, 2);
  int told = 0;
  for (int64_t n = 3; n < 60; n++) {
    tsr__error error = { 0 };
    struct faulty faulty = { .fail_at = n };
    struct table_how how = { .opts = { .read = garbling_read,
                                       .user = &faulty,
                                       .held = 1,
                                       .piece = 999,
                                       .granule = 64 + n,
                                       .stripes = 1 + (int)n % 7,
                                       .sample = 1000 } };
    tsr_status status = table_read(rt, test_tmp("g-1.csv"), &how, &t, &error);
    told += status != 0;
    table_free(&t);
  }
  CHECK(told > 0);
  tsr_runtime_close(rt);
}

/* From the n-th read on a quote stands where the row of too many fields begins. */
static const int64_t bad_row_at = 4 + 150 * 4;

static int64_t quoting_read(void *user, int fd, void *to, size_t length, int64_t offset)
{
  struct faulty *faulty = user;
  int64_t call = atomic_fetch_add(&faulty->calls, 1) + 1,
          got = pread(fd, to, length, (off_t)offset);
  bool there = offset <= bad_row_at && bad_row_at < offset + got;
  if (call >= faulty->fail_at && there) ((char *)to)[bad_row_at - offset] = '"';
  return got;
}

TEST(a_bad_row_that_changes_is_no_row)
{
  char text[2048] = "a,b\n";
  for (int r = 0; r < 300; r++) strcat(text, r == 150 ? "1,2,3\n" : "1,2\n");
  test_write(test_tmp("b.csv"), text, strlen(text));
  tsr_runtime *rt = table_runtime(NULL, 2);
  int changed = 0;
  for (int64_t n = 1; n < 60; n++) {
    struct table t;
    tsr__error error = { 0 };
    struct faulty faulty = { .fail_at = n };
    struct table_how how = { .opts = { .read = quoting_read,
                                       .user = &faulty,
                                       .held = 1,
                                       .piece = 99,
                                       .granule = 128,
                                       .sample = 128 } };
    tsr_status status = table_read(rt, test_tmp("b.csv"), &how, &t, &error);
    CHECK(status == TSR_EPARSE || status == TSR_EIO);
    changed += status == TSR_EIO && strstr(error.text, "changed while it was read");
    table_free(&t);
  }
  CHECK(changed > 0);
  tsr_runtime_close(rt);
}

/* What is done to a large file between its opening, its counting and its reading. */
TEST(large_files_that_change_are_refused)
{
  for (int how = 0; how < 6; how++) {
    write_rows("l.csv", 0, 900, 0);
    tsr_runtime *rt = table_runtime(NULL, 2);
    tsr__error error = { 0 };
    tsr__csv_opts opts = { .sample = 256, .columns = "n", .held = 1 };
    tsr__csv *csv = tsr__csv_open_with(rt, test_tmp("l.csv"), &opts, &error);
    if (!csv) FAIL("%s", error.text);
    int64_t count = 0, rows[2] = { 0, 900 }, values[900];
    uint64_t validity[15], *bits = validity;
    void *data = values;
    tsr__read_target target = { .column = 0, .values = &data, .validity = &bits };
    tsr__read_ask read = { .parts = 1, .rows = rows, .target_count = 1, .targets = &target };
    const char *path = test_tmp("l.csv");
    if (how < 3) CHECK_STATUS(tsr__csv_count(csv, &count, &error), TSR_OK, NULL);
    if (how % 3 == 0) CHECK_I64(unlink(path), 0);
    if (how % 3 == 1) CHECK_I64(truncate(path, 1000), 0);
    if (how % 3 == 2) write_rows("l.csv", 0, 1000, 0);
    tsr_status status = tsr__csv_read_parts(csv, &read, &error);
    /* An open file that is unlinked is there as long as it is open. */
    CHECK_STATUS(status, how % 3 ? TSR_EIO : TSR_OK, NULL);
    if (status) CHECK_STR_HAS(error.text, "still being written?");
    tsr__csv_close(csv);
    tsr_runtime_close(rt);
  }
}

TEST_TIMEOUT(nth_allocation_fails_over_files, 120)
{
  struct table t;
  write_rows("m-1.csv", 0, 60, 0);
  write_rows("m-2.csv.gz", 60, 100, 4);
  bool done = false;
  for (int64_t n = 1; !done; n++) {
    struct test_alloc state = { 0 };
    tsr_allocator allocator = test_allocator(&state);
    tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){
        .size = sizeof(tsr_runtime_opts), .allocator = &allocator, .threads = 1 });
    tsr__error error = { 0 };
    struct table_how how = { .opts = { .sample = 256,
                                       .comment = 't',
                                       .bad_rows = TSR__CSV_BAD_NULL,
                                       .types = "word i64",
                                       .columns = "word, n",
                                       .nulls = "w3" } };
    state.fail_at = state.count + n;
    tsr_status status = table_read(rt, test_tmp("m-*"), &how, &t, &error);
    done = state.count < state.fail_at;
    state.fail_at = 0;
    if (done) CHECK_STATUS(status, TSR_OK, NULL);
    else if (status) CHECK_STATUS(status, TSR_ENOMEM, NULL);
    table_free(&t);
    tsr_runtime_close(rt);
    CHECK_I64(state.live, 0);
    CHECK(n < 10000);
  }
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static bool stop_after(const char *what, int64_t done, int64_t total, void *user)
{
  int *left = user;
  CHECK_STR(what, "csv");
  CHECK(done <= total);
  return --*left > 0;
}

/* Stops at the n-th question, and nothing is left behind. */
TEST_TIMEOUT(cancelled_work_leaves_nothing, 120)
{
  size_t length = 0, used = 0;
  char *text = texts_of(0, ROWS, 0, false, &length);
  char *large = malloc(length * 40);
  for (int i = 0; i < 40; i++) {
    size_t header = i ? strcspn(text, "\n") + 1 : 0;
    memcpy(large + used, text + header, length - header);
    used += length - header;
  }
  for (int kind = 0; kind < 4; kind++) {
    write_packed("large.csv", large, used, kind % 3);
    int stopped = 0;
    for (int n = 1; n < 400; n += 1 + n / 4) {
      struct test_alloc state = { 0 };
      tsr_allocator allocator = test_allocator(&state);
      int left = n;
      tsr_runtime *rt = tsr__runtime_new(&(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts),
                                                              .allocator = &allocator,
                                                              .threads = 2,
                                                              .progress = stop_after,
                                                              .progress_user = &left });
      struct table t;
      tsr__error error = { 0 };
      struct table_how how = { .opts = { .sample = 256,
                                         .piece = 20000,
                                         .comment = kind == 3 ? '#' : 0,
                                         .bad_rows = kind == 3 ? TSR__CSV_BAD_SKIP : 0 } };
      tsr_status status = table_read(rt, test_tmp("large.csv"), &how, &t, &error);
      if (status) CHECK_STATUS(status, TSR_ECANCELLED, NULL);
      if (status) CHECK_STR_HAS(error.text, "cancelled by the progress callback");
      stopped += status != 0;
      table_free(&t);
      tsr_runtime_close(rt);
      CHECK_I64(state.live, 0);
      if (!status) break;
    }
    CHECK(stopped > 0);
  }
  free(text);
  free(large);
}

/* ---- reading again --------------------------------------------------------------------------- */

/* The text is given back when all columns were read, and loaded again for who asks once more; a
 * file that is gone by then is an error. */
TEST(columns_are_read_again)
{
  write_rows("r-1.csv", 0, 100, 0);
  write_rows("r-2.csv.gz", 100, 200, 4);
  tsr_runtime *rt = table_runtime(NULL, 2);
  tsr__error error = { 0 };
  tsr__csv_opts opts = { .columns = "n", .comment = '#' };
  tsr__csv *csv = tsr__csv_open_with(rt, test_tmp("r-*"), &opts, &error);
  if (!csv) FAIL("%s", error.text);
  for (int turn = 0; turn < 4; turn++) {
    int64_t rows[2] = { 0, 200 }, values[200];
    uint64_t validity[4], *bits = validity;
    void *data = values;
    tsr__read_target target = { .column = 0, .values = &data, .validity = &bits };
    tsr__read_ask read = { .parts = 1, .rows = rows, .target_count = 1, .targets = &target };
    if (turn == 3) CHECK_I64(unlink(test_tmp("r-2.csv.gz")), 0);
    tsr_status status = tsr__csv_read_parts(csv, &read, &error);
    CHECK_STATUS(status, turn < 3 ? TSR_OK : TSR_EIO, NULL);
    for (int r = 0; r < 200 && !status; r++) CHECK_I64(values[r], r * 7919 % 1000);
  }
  tsr__csv_close(csv);
  tsr_runtime_close(rt);
}
