/* Any bytes as a CSV file: never a crash or a leak; cutting it differently, or reading it with
 * another instruction set, gives the same rows, values and errors. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
  return (size_t)rows * (type == TSR__COL_DATE || type == TSR__COL_TEXT ? 4 : 8);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char path[64];
  if (size < 3 || size > 1 << 16) return 0;
  int fd = memfd_create("csv", 0);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, data + 3, size - 3) == (ssize_t)(size - 3));
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  tsr__csv_opts whole = { 0 };
  tsr__csv_opts cut = { .granule = 1 + data[0], .stripes = 1 + data[1] % 5, .sample = data[2] };
  struct result a = read_file(path, NULL, &whole, 4), b = read_file(path, "baseline", &cut, 4);
  struct result c = read_file(path, "avx2", &cut, 4);
  close(fd);
  REQUIRE(a.status == b.status && b.status == c.status);
  REQUIRE(a.status || (a.rows == b.rows && a.columns == b.columns && a.hash == b.hash));
  REQUIRE(b.hash == c.hash && strcmp(b.text, c.text) == 0);
  return 0;
}
