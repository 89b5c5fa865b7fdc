/* Any bytes as a CSV file under any options: never a crash or a leak; cutting it differently, packing
 * it, or reading it with another instruction set, gives the same rows, values and errors. The first
 * six bytes choose how the file is cut and the options. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "io/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)     \
  do {                         \
    if (!(condition)) abort(); \
  } while (0)

/* A summary of all that a read says. */
struct result {
  tsr_status status;
  int64_t rows;
  int columns;
  uint64_t hash;
  char text[1000];
};

static size_t value_bytes(tsr__coltype type, int64_t rows)
{
  if (type == TSR__COL_BOOL) return (size_t)(rows + 63) / 64 * 8;
  bool wide = type == TSR__COL_I64 || type == TSR__COL_F64 || type == TSR__COL_TIME;
  return (size_t)rows * (wide ? 8 : 4);
}

static void hash_part(struct result *r, const void *bytes, size_t length)
{
  r->hash = tsr__hash(bytes, length, r->hash);
}

/* One column of all rows in two parts. */
static void read_column(tsr__csv *csv, int column, int64_t border, struct result *r)
{
  const tsr__csv_column *columns;
  tsr__error error = { 0 };
  int64_t rows[3] = { 0, border, r->rows };
  for (int turn = 0;; turn++) {
    REQUIRE(turn < 3);
    tsr__csv_columns(csv, &columns);
    tsr__coltype type = columns[column].type;
    size_t bytes[2] = { value_bytes(type, border), value_bytes(type, r->rows - border) };
    void *values[2] = { malloc(bytes[0]), malloc(bytes[1]) };
    size_t words[2] = { (size_t)(border + 63) / 64 * 8, (size_t)(r->rows - border + 63) / 64 * 8 };
    uint64_t *validity[2] = { malloc(words[0]), malloc(words[1]) };
    tsr__csv_target target = { .column = column, .values = values, .validity = validity };
    tsr__csv_read read = { .parts = 2, .rows = rows, .target_count = 1, .targets = &target };
    r->status = tsr__csv_read_parts(csv, &read, &error);
    if (!r->status && !read.retyped) {
      hash_part(r, &type, sizeof type);
      hash_part(r, columns[column].name, strlen(columns[column].name));
      for (int p = 0; p < 2; p++) {
        hash_part(r, values[p], bytes[p]);
        hash_part(r, validity[p], words[p]);
      }
      if (target.dict) hash_part(r, target.dict->bytes, target.dict->bytes_size);
      tsr__dict_release(target.dict);
    }
    for (int p = 0; p < 2; p++) {
      free(values[p]);
      free(validity[p]);
    }
    if (r->status) strcpy(r->text, error.text);
    if (r->status || !read.retyped) return;
  }
}

/* `part`: out of 4, where the border between the parts lies. */
static struct result read_file(const char *path, const char *isa, const tsr__csv_opts *opts,
                               int part)
{
  struct result r = { 0 };
  tsr__error error = { 0 };
  tsr_runtime *rt = tsr__runtime_new(
      &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .threads = 1, .isa = isa });
  tsr__csv *csv = tsr__csv_open_with(rt, path, opts, &error);
  r.status = csv ? tsr__csv_count(csv, &r.rows, &error) : error.status;
  if (r.status) {
    REQUIRE(error.text[0]);
    strcpy(r.text, error.text);
  } else {
    const tsr__csv_column *columns;
    r.columns = tsr__csv_columns(csv, &columns);
    for (int c = 0; c < r.columns && !r.status; c++) read_column(csv, c, r.rows * part / 4, &r);
  }
  tsr__csv_close(csv);
  tsr_runtime_close(rt);
  return r;
}

/* Options from three bytes; all zero: none. */
static tsr__csv_opts options_of(const uint8_t *bytes)
{
  static const char separators[] = ",;\t| x", comments[] = { 0, '#', '-', '1' };
  static const char *const nulls[] = { NULL, "-", "0, x, 1.5", "\"\", NA, true" };
  static const char *const types[] = { NULL,     "column_1 i64", "column_1 f64, column_2 text",
                                       "a i32",  "a f32",        "a bool, b date",
                                       "a time", "a text" };
  static const char *const columns[] = { NULL, "a", "column_2, column_1", "b, a" };
  return (tsr__csv_opts){ .no_header = bytes[0] & 1,
                          .decimal_comma = bytes[0] >> 1 & 1,
                          .text_nulls = bytes[0] >> 2 & 1,
                          .bad_rows = (tsr__csv_bad)((bytes[0] >> 3 & 3) % 3),
                          .comment = comments[bytes[0] >> 5 & 3],
                          .skip_rows = bytes[0] >> 7,
                          .separator = separators[(bytes[1] & 7) % 6],
                          .nulls = nulls[bytes[1] >> 3 & 3],
                          .names = bytes[1] >> 5 & 1 ? "a, b" : NULL,
                          .types = types[bytes[2] & 7],
                          .columns = columns[bytes[2] >> 3 & 3] };
}

static int file_of(const void *bytes, size_t length, char path[64])
{
  int fd = memfd_create("csv", 0);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, bytes, length) == (ssize_t)length);
  snprintf(path, 64, "/proc/self/fd/%d", fd);
  return fd;
}

static int packed_of(const uint8_t *bytes, size_t length, char path[64])
{
  uint8_t *packed = malloc(length * 2 + 1000);
  z_stream z = { 0 };
  REQUIRE(deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  z.next_in = (uint8_t *)(uintptr_t)bytes;
  z.avail_in = (unsigned)length;
  z.next_out = packed;
  z.avail_out = (unsigned)length * 2 + 1000;
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  int fd = file_of(packed, (size_t)z.total_out, path);
  deflateEnd(&z);
  free(packed);
  return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  enum { CHOICES = 6 };
  char path[64], other[64];
  if (size < CHOICES || size > 1 << 16) return 0;
  const uint8_t *text = data + CHOICES;
  size_t length = size - CHOICES;
  int fd = file_of(text, length, path), packed = packed_of(text, length, other);
  tsr__csv_opts whole = options_of(data + 3), cut = whole;
  cut.granule = 1 + data[0];
  cut.stripes = 1 + data[1] % 5;
  cut.batch_rows = data[1] >> 4;
  cut.sample = data[2];
  cut.piece = 1 + data[0] * 3;
  struct result a = read_file(path, NULL, &whole, 4), b = read_file(path, "baseline", &cut, 4);
  struct result c = read_file(path, "avx2", &cut, 4), d = read_file(other, NULL, &cut, 4);
  close(fd);
  close(packed);
  REQUIRE(a.status == b.status && b.status == c.status);
  REQUIRE(a.status || (a.rows == b.rows && a.columns == b.columns && a.hash == b.hash));
  REQUIRE(b.hash == c.hash && strcmp(b.text, c.text) == 0);
  /* Packed bytes that are packed again are refused; all else is as it was. */
  bool twice =
      length >= 2 && (memcmp(text, "\x1f\x8b", 2) == 0 || text[0] == 0x28 || text[0] >> 4 == 5);
  REQUIRE(twice || (a.status == d.status && (a.status || a.hash == d.hash)));
  return 0;
}
