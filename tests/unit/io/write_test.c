/* Writing CSV and JSON lines: exact bytes, files that appear whole or not at all, every failure of
 * the device. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "io/rows/write.h"
#include "tessera.h"

/* ---- exact bytes --------------------------------------------------------------------------- */

static tsr_frame *small_frame(tsr_scope *s)
{
  static const double f[4] = { 1, -0.0, 0.1, NAN };
  static const float g[4] = { 16777216.0f, 0.1f, INFINITY, -1e-45f };
  static const int64_t i[4] = { INT64_MIN, 0, -7, INT64_MAX };
  static const bool b[4] = { true, false, true, false };
  static const char *const t[4] = { "plain", "a,\"b\"\nc", "", NULL };
  tsr_frame *df =
      tsr_frame_new(s, { "f", tsr_put(s, f, TSR_F64, TSR_SHAPE(4), (tsr_sharding){ 0 }) },
                    { "g", tsr_put(s, g, TSR_F32, TSR_SHAPE(4), (tsr_sharding){ 0 }) },
                    { "i", tsr_put(s, i, TSR_I64, TSR_SHAPE(4), (tsr_sharding){ 0 }) },
                    { "b", tsr_put(s, b, TSR_BOOL, TSR_SHAPE(4), (tsr_sharding){ 0 }) });
  return tsr_frame_text_column(df, "t, u", t, 4);
}

static void check_file(const char *path, const char *expected)
{
  char *found = test_read(path, NULL);
  CHECK_STR(found, expected);
  free(found);
}

static const char csv_text[] = "f,g,i,b,\"t, u\"\n"
                               "1.0,16777216.0,-9223372036854775808,true,plain\n"
                               "-0.0,0.1,0,false,\"a,\"\"b\"\"\nc\"\n"
                               "0.1,inf,-7,true,\"\"\n"
                               "nan,-1e-45,9223372036854775807,false,\n";

TEST(csv_is_written_with_quotes_where_they_are_needed)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("a.csv");
  CHECK_STATUS(tsr_frame_write_csv(small_frame(s), path), TSR_OK, s);
  check_file(path, csv_text);
  CHECK_STATUS(tsr_frame_write_csv(tsr_frame_head(small_frame(s), 0), path), TSR_OK, s);
  check_file(path, "f,g,i,b,\"t, u\"\n");
  static const char *const t[6] = { "NA", "none", " x", "y\t", "a;b", NULL };
  static const int64_t n[6] = { 1, 2, 3, 4, 5, 6 };
  tsr_frame *df =
      tsr_frame_new(s, { "n", tsr_put(s, n, TSR_I64, TSR_SHAPE(6), (tsr_sharding){ 0 }) });
  df = tsr_frame_text_column(df, "t", t, 6);
  CHECK_STATUS(tsr_frame_write_csv(df, path, .separator = ';', .no_header = true, .null = "none"),
               TSR_OK, s);
  check_file(path, "1;\"NA\"\n2;\"none\"\n3;\" x\"\n4;\"y\t\"\n5;\"a;b\"\n6;none\n");
  CHECK_STATUS(tsr_frame_write_csv(df, path, .separator = '5'), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "tsr_frame_write_csv: the separator is byte 53");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(a_null_alone_in_its_line_is_no_empty_line)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  static const double a[2] = { 1, 2 };
  tsr_frame *df =
      tsr_frame_new(s, { "a", tsr_put(s, a, TSR_F64, TSR_SHAPE(2), (tsr_sharding){ 0 }) });
  df = tsr_frame_select(df, "x = if(a > 1, a, null)");
  if (tsr_frame_is_inert(df)) SKIP("if() is not there yet");
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("n.csv")), TSR_OK, s);
  check_file(test_tmp("n.csv"), "x\n\"\"\n2.0\n");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(json_lines_are_json)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("a.jsonl");
  CHECK_STATUS(tsr_frame_write_json(small_frame(s), path), TSR_OK, s);
  check_file(
      path,
      "{\"f\":1.0,\"g\":16777216.0,\"i\":-9223372036854775808,\"b\":true,\"t, u\":\"plain\"}\n"
      "{\"f\":-0.0,\"g\":0.1,\"i\":0,\"b\":false,\"t, u\":\"a,\\\"b\\\"\\nc\"}\n"
      "{\"f\":0.1,\"g\":null,\"i\":-7,\"b\":true,\"t, u\":\"\"}\n"
      "{\"f\":null,\"g\":-1e-45,\"i\":9223372036854775807,\"b\":false,\"t, u\":null}\n");
  static const char *const t[1] = { "\x01\x1f\\/\b\f\r\t\xc3\xa9\x7f" };
  static const int64_t one[1] = { 1 };
  tsr_frame *df =
      tsr_frame_new(s, { "n", tsr_put(s, one, TSR_I64, TSR_SHAPE(1), (tsr_sharding){ 0 }) });
  df = tsr_frame_text_column(df, "t\"", t, 1);
  CHECK_STATUS(tsr_frame_write_json(df, path), TSR_OK, s);
  check_file(path, "{\"n\":1,\"t\\\"\":\"\\u0001\\u001f\\\\/\\b\\f\\r\\t\xc3\xa9\x7f\"}\n");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- by the path's name -------------------------------------------------------------------- */

static const char *const json_array = "[\n{\"n\":1,\"t\":\"a\"},\n{\"n\":2,\"t\":null}\n]\n";
static const char *const json_lines = "{\"n\":1,\"t\":\"a\"}\n{\"n\":2,\"t\":null}\n";

static tsr_frame *two_rows(tsr_scope *s)
{
  static const char *const t[2] = { "a", NULL };
  static const int64_t n[2] = { 1, 2 };
  tsr_frame *df =
      tsr_frame_new(s, { "n", tsr_put(s, n, TSR_I64, TSR_SHAPE(2), (tsr_sharding){ 0 }) });
  return tsr_frame_text_column(df, "t", t, 2);
}

TEST(json_is_an_array_where_the_name_says_json)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  static const char *const names[] = { "a.json", "a.jsonl", "a.ndjson", "a", ".json", "a.json.x" };
  for (int i = 0; i < 6; i++) {
    CHECK_STATUS(tsr_frame_write_json(two_rows(s), test_tmp(names[i])), TSR_OK, s);
    check_file(test_tmp(names[i]), i == 0 || i == 4 ? json_array : json_lines);
  }
  CHECK_STATUS(tsr_frame_write_json(tsr_frame_head(two_rows(s), 0), test_tmp("a.json")), TSR_OK, s);
  check_file(test_tmp("a.json"), "[]\n");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Rows of several blocks, made by several threads: one comma between two, none at the end. */
TEST(a_long_json_array_is_whole)
{
  enum { ROWS = 60000 };
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = 4);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df =
      tsr_frame_new(s, { "i", tsr_iota(s, TSR_I64, TSR_SHAPE(ROWS), 0, tsr_on_device(rt, 0)) });
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("long.json")), TSR_OK, s);
  char *found = test_read(test_tmp("long.json"), NULL), *expected = malloc(ROWS * 24 + 16);
  char *at = expected + sprintf(expected, "[\n");
  for (int i = 0; i < ROWS; i++) at += sprintf(at, "{\"i\":%d}%s\n", i, i + 1 < ROWS ? "," : "");
  sprintf(at, "]\n");
  CHECK_STR(found, expected);
  free(found);
  free(expected);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(markdown_is_one_line_a_row)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("a.md");
  CHECK_STATUS(tsr_frame_write_markdown(small_frame(s), path), TSR_OK, s);
  check_file(path, "| f | g | i | b | t, u |\n|--:|--:|--:|---|---|\n"
                   "| 1 | 16777216 | -9223372036854775808 | true | plain |\n"
                   "| -0 | 0.1 | 0 | false | a,\"b\"<br>c |\n"
                   "| 0.1 | inf | -7 | true |  |\n"
                   "| nan | -1e-45 | 9223372036854775807 | false |  |\n");
  static const char *const t[2] = { "a|b\\c\r\n\td",
                                    "\x1b[2J\xc2\x9b\x37m\xe2\x80\xae\xc3\xa9\xc2\xa0" };
  tsr_frame *df = tsr_frame_text_column(two_rows(s), "x|y", t, 2);
  CHECK_STATUS(tsr_frame_write_markdown(tsr_frame_select(df, "\"x|y\""), path), TSR_OK, s);
  check_file(path, "| x\\|y |\n|---|\n| a\\|b\\\\c<br> d |\n|  [2J 7m \xc3\xa9\xc2\xa0 |\n");
  CHECK_STATUS(tsr_frame_write_markdown(two_rows(s), ""), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "tsr_frame_write_markdown: the path is empty");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(a_table_in_a_file_has_all_rows)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df =
      tsr_frame_new(s, { "i", tsr_iota(s, TSR_I64, TSR_SHAPE(100), 0, tsr_on_device(rt, 0)) });
  CHECK_STATUS(tsr_frame_write_text(df, test_tmp("t.txt")), TSR_OK, s);
  char *found = test_read(test_tmp("t.txt"), NULL), line[40];
  for (int i = 0; i < 100; i++) {
    snprintf(line, sizeof line, "│ %4d │\n", i);
    CHECK_STR_HAS(found, line);
  }
  CHECK_STR_HAS(found, "100 rows, 1 column\n");
  free(found);
  tsr_show_opts few = { .size = sizeof few, .rows = 2 };
  CHECK_STATUS(tsr_frame_write_text_with(df, test_tmp("t.txt"), &few, TSR_HERE), TSR_OK, s);
  check_file(test_tmp("t.txt"), tsr_frame_text_with(df, &few));
  CHECK_STATUS(tsr_frame_write_text(df, test_tmp("no/t.txt")), TSR_EIO, NULL);
  CHECK_STR_HAS(tsr_message(s), "tsr_frame_write_text: ");
  CHECK_STATUS(tsr_frame_write_text(NULL, test_tmp("t.txt")), TSR_EARG, NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- many rows ------------------------------------------------------------------------------- */

enum { MANY = 200000 };

typedef struct many {
  int64_t *i;
  double *f;
  tsr__out_column column[2];
} many;

static many many_rows(void)
{
  many m = { malloc(MANY * sizeof *m.i), malloc(MANY * sizeof *m.f), { { 0 } } };
  for (int r = 0; r < MANY; r++) {
    m.i[r] = (int64_t)r * 7919 - 5;
    m.f[r] = r / 8.0;
  }
  m.column[0] = (tsr__out_column){ "i", TSR_COL_I64, m.i, NULL, NULL };
  m.column[1] = (tsr__out_column){ "f", TSR_COL_F64, m.f, NULL, NULL };
  return m;
}

static void many_free(many *m)
{
  free(m->i);
  free(m->f);
}

static char *expected_csv(const many *m, size_t *length)
{
  char *text = malloc(MANY * 48 + 16), *at = text, number[32];
  at += sprintf(at, "i,f\n");
  for (int r = 0; r < MANY; r++) {
    tsr__text_f64(number, m->f[r]);
    at += sprintf(at, "%lld,%s%s\n", (long long)m->i[r], number, strchr(number, '.') ? "" : ".0");
  }
  *length = (size_t)(at - text);
  return text;
}

static tsr_status write_many(tsr_runtime *rt, const many *m, const char *path,
                             const tsr__out_opts *opts, tsr__error *error)
{
  tsr__write_ask ask = { .rt = rt,
                         .what = "test",
                         .path = path,
                         .rows = MANY,
                         .count = 2,
                         .column = m->column,
                         .opts = opts };
  return tsr__csv_write(&ask, &(tsr__csv_style){ 0 }, error);
}

TEST(rows_keep_their_order_whatever_the_threads)
{
  many m = many_rows();
  size_t want, length;
  char *expected = expected_csv(&m, &want);
  for (int threads = 1; threads <= 5; threads += 2) {
    tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = threads);
    tsr__error error = { 0 };
    CHECK_STATUS(write_many(rt, &m, test_tmp("m.csv"), NULL, &error), TSR_OK, NULL);
    char *found = test_read(test_tmp("m.csv"), &length);
    CHECK_U64(length, want);
    CHECK_BYTES(found, expected, want);
    free(found);
    tsr_runtime_close(rt);
  }
  free(expected);
  many_free(&m);
}

/* What the usual tools unpack is what was put in. */
TEST(compressed_files_unpack_to_the_same)
{
  many m = many_rows();
  size_t want, length;
  char *expected = expected_csv(&m, &want), command[5000];
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr__error error = { 0 };
  static const char *const names[] = { "m.csv.gz", "m.csv.zst" };
  static const char *const tools[] = { "gzip", "zstd" };
  for (int i = 0; i < 2; i++) {
    const char *path = test_tmp(names[i]), *out = test_tmp("unpacked");
    CHECK_STATUS(write_many(rt, &m, path, NULL, &error), TSR_OK, NULL);
    char *packed = test_read(path, &length);
    CHECK(length < want / 2);
    CHECK_BYTES(packed, i ? "\x28\xb5\x2f\xfd" : "\x1f\x8b\x08\x00", 4);
    free(packed);
    snprintf(command, sizeof command, "command -v %s >/dev/null && %s -dc %s > %s", tools[i],
             tools[i], path, out);
    if (system(command)) continue; /* the tool is not there */
    char *found = test_read(out, &length);
    CHECK_U64(length, want);
    CHECK_BYTES(found, expected, want);
    free(found);
  }
  tsr_runtime_close(rt);
  free(expected);
  many_free(&m);
}

/* ---- failing devices ------------------------------------------------------------------------- */

struct device {
  int64_t calls, fail_at, most; /* fails from call `fail_at` on; takes at most so many bytes */
  int code;
};

static int64_t faulty_write(void *user, int fd, const void *from, size_t length)
{
  struct device *device = user;
  int64_t call = ++device->calls;
  if (device->most && call % 3 == 1) {
    errno = EINTR;
    return -1;
  }
  if (device->fail_at && call >= device->fail_at) {
    errno = device->code;
    return -1;
  }
  if (device->most && length > (size_t)device->most) length = (size_t)device->most;
  return write(fd, from, length);
}

static int files_in_folder(void)
{
  char command[5000];
  snprintf(command, sizeof command, "ls $(dirname %s) | wc -l", test_tmp("x"));
  FILE *pipe = popen(command, "r");
  int count = -1;
  CHECK_I64(fscanf(pipe, "%d", &count), 1);
  pclose(pipe);
  return count;
}

TEST(short_and_interrupted_writes_are_continued)
{
  many m = many_rows();
  size_t want, length;
  char *expected = expected_csv(&m, &want);
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  struct device device = { .most = 40000 };
  tsr__error error = { 0 };
  tsr__out_opts opts = { .write = faulty_write, .user = &device };
  CHECK_STATUS(write_many(rt, &m, test_tmp("m.csv"), &opts, &error), TSR_OK, NULL);
  char *found = test_read(test_tmp("m.csv"), &length);
  CHECK_U64(length, want);
  CHECK_BYTES(found, expected, want);
  free(found);
  free(expected);
  tsr_runtime_close(rt);
  many_free(&m);
}

TEST(a_full_device_leaves_what_was_there)
{
  many m = many_rows();
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  const char *names[] = { "m.csv", "m.csv.gz", "m.csv.zst" };
  for (int i = 0; i < 3; i++) {
    const char *path = test_tmp(names[i]);
    test_write(path, "before", 6);
    int before = files_in_folder();
    struct device device = { 0 };
    tsr__out_opts opts = { .write = faulty_write, .user = &device };
    for (int64_t n = 1; n <= 64; n++) {
      device = (struct device){ .fail_at = n, .code = n % 2 ? ENOSPC : EIO };
      tsr__error error = { 0 };
      tsr_status status = write_many(rt, &m, path, &opts, &error);
      if (!status) {
        CHECK(n > 1);
        break;
      }
      CHECK_STATUS(status, TSR_EIO, NULL);
      CHECK_STR_HAS(error.text, n % 2 ? ": cannot write: No space left on device"
                                      : ": cannot write: Input/output error");
      CHECK_STR_HAS(error.text, "test: ");
      check_file(path, "before");
      CHECK_I64(files_in_folder(), before);
    }
  }
  tsr_runtime_close(rt);
  many_free(&m);
}

TEST(a_limit_on_file_sizes_is_an_error)
{
  many m = many_rows();
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr__error error = { 0 };
  int before = files_in_folder();
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 100000, 100000 });
  CHECK_STATUS(write_many(rt, &m, test_tmp("m.csv"), NULL, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "m.csv: cannot write: File too large");
  CHECK_I64(files_in_folder(), before);
  tsr_runtime_close(rt);
  many_free(&m);
}

TEST(devices_and_links_are_not_replaced)
{
  many m = many_rows();
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr__error error = { 0 };
  CHECK_STATUS(write_many(rt, &m, "/dev/null", NULL, &error), TSR_OK, NULL);
  struct stat info;
  CHECK(!stat("/dev/null", &info) && S_ISCHR(info.st_mode));
  CHECK_STATUS(write_many(rt, &m, "/dev/full", NULL, &error), TSR_EIO, NULL);
  test_write(test_tmp("real"), "x", 1);
  CHECK_I64(chmod(test_tmp("real"), 0600), 0);
  CHECK_I64(symlink("real", test_tmp("link")), 0);
  error = (tsr__error){ 0 };
  CHECK_STATUS(write_many(rt, &m, test_tmp("link"), NULL, &error), TSR_OK, NULL);
  CHECK(!lstat(test_tmp("link"), &info) && S_ISLNK(info.st_mode));
  CHECK(!stat(test_tmp("real"), &info) && info.st_size > 1000 && (info.st_mode & 0777) == 0600);
  tsr_runtime_close(rt);
  many_free(&m);
}

/* ---- memory and cancelling ------------------------------------------------------------------- */

TEST(every_allocation_may_fail)
{
  many m = many_rows();
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .allocator = &allocator, .threads = 1);
  int64_t live = state.live, before;
  tsr__error error = { 0 };
  CHECK_STATUS(write_many(rt, &m, test_tmp("m.csv"), NULL, &error), TSR_OK, NULL);
  before = state.count;
  CHECK_STATUS(write_many(rt, &m, test_tmp("m.csv"), NULL, &error), TSR_OK, NULL);
  int64_t total = state.count - before;
  CHECK(total > 10);
  for (int64_t n = 1; n <= total; n += 1 + n / 8) {
    state.count = 0;
    state.fail_at = n;
    error = (tsr__error){ 0 };
    CHECK_STATUS(write_many(rt, &m, test_tmp("m.csv"), NULL, &error), TSR_ENOMEM, NULL);
    CHECK_I64(state.live, live);
  }
  tsr_runtime_close(rt);
  many_free(&m);
}

static bool stop_soon(const char *what, int64_t done, int64_t total, void *user)
{
  (void)what;
  (void)total;
  *(int64_t *)user = done;
  return false;
}

TEST(cancelling_leaves_nothing)
{
  many m = many_rows();
  int64_t seen = -1;
  tsr_runtime *rt =
      tsr_runtime_open("cpu:1", .progress = stop_soon, .progress_user = &seen, .threads = 1);
  tsr__error error = { 0 };
  int before = files_in_folder();
  CHECK_STATUS(write_many(rt, &m, test_tmp("m.csv"), NULL, &error), TSR_ECANCELLED, NULL);
  CHECK(seen >= 0);
  CHECK_I64(files_in_folder(), before);
  tsr_runtime_close(rt);
  many_free(&m);
}
