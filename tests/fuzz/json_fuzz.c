/* Any bytes as a file of JSON lines: never a crash or a leak; cutting it differently gives the same
 * rows, values and errors, and what is kept of bad rows does not depend on it either. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)     \
  do {                         \
    if (!(condition)) abort(); \
  } while (0)

/* A summary of all that a read says. */
struct result {
  tsr_status status;
  int64_t rows, bad_rows;
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

static void read_column(tsr__json *json, int column, struct result *r)
{
  const tsr__csv_column *columns;
  tsr__error error = { 0 };
  int64_t rows[2] = { 0, r->rows };
  tsr__json_columns(json, &columns);
  size_t bytes = value_bytes(columns[column].type, r->rows),
         words = (size_t)(r->rows + 63) / 64 * 8;
  void *values = malloc(bytes);
  uint64_t *validity = malloc(words);
  tsr__csv_target target = { .column = column, .values = &values, .validity = &validity };
  tsr__csv_read read = { .parts = 1, .rows = rows, .target_count = 1, .targets = &target };
  REQUIRE(!tsr__json_read_parts(json, &read, &error) && !read.retyped);
  hash_part(r, &columns[column].type, sizeof columns[column].type);
  hash_part(r, columns[column].name, strlen(columns[column].name));
  hash_part(r, values, bytes);
  hash_part(r, validity, words);
  if (target.dict) hash_part(r, target.dict->bytes, target.dict->bytes_size);
  tsr__dict_release(target.dict);
  free(values);
  free(validity);
}

static struct result read_file(const char *path, const tsr__json_opts *opts)
{
  struct result r = { 0 };
  tsr__error error = { 0 };
  tsr_runtime *rt =
      tsr__runtime_new(&(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .threads = 1 });
  tsr__json *json = tsr__json_open(rt, path, opts, &error);
  r.status = error.status;
  if (json) {
    const tsr__csv_column *columns;
    REQUIRE(!error.status);
    r.columns = tsr__json_columns(json, &columns);
    r.rows = tsr__json_rows(json);
    r.bad_rows = tsr__json_bad_rows(json);
    for (int c = 0; c < r.columns && c < 20; c++) read_column(json, c, &r);
  } else {
    REQUIRE(error.status && error.text[0]);
    strcpy(r.text, error.text);
  }
  tsr__json_close(json);
  REQUIRE(rt->heap.live >= 0);
  tsr_runtime_close(rt);
  return r;
}

static void require_equal(const struct result *a, const struct result *b)
{
  REQUIRE(a->status == b->status && a->rows == b->rows && a->bad_rows == b->bad_rows);
  REQUIRE(a->columns == b->columns && a->hash == b->hash && strcmp(a->text, b->text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char path[64];
  int fd = memfd_create("json", 0);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  for (int bad = TSR__JSON_ERROR; bad <= TSR__JSON_NULL; bad++) {
    tsr__json_opts whole = { .bad_rows = (tsr__json_bad)bad }, cut = whole;
    cut.block = 1 + (int64_t)(size ? data[0] % 40 : 0);
    cut.stripe = 64;
    struct result a = read_file(path, &whole), b = read_file(path, &cut);
    require_equal(&a, &b);
  }
  close(fd);
  return 0;
}
