/* Any bytes as a file of records (text lines, also wide ones, TFRecord, tar, safetensors, JSON
 * lines, records of fixed size), as names of its fields, or as an index kept beside one: never a
 * crash or a leak; lines are what a plain reader takes for them; what is refused is refused in
 * words, and records are the same whatever the order they are read in. The first byte chooses.
 * Chance makes no checksums: headers of tar and indexes are tried with ones that are right as
 * well. */
#include <sys/stat.h>

#include "base/base.h"
#include "fuzz.h"
#include "io/file/unpack.h"
#include "io/file/wide.h"
#include "tessera.h"

enum { FORMATS = 4, JSON = 4, BINARY = 5, BATCHES = 20 };

static tsr_source *open_as(tsr_scope *s, const char *path, int format, bool index)
{
  switch (format) {
  case 0: return tsr_source_lines(s, path, .index = index);
  case 1:
    return tsr_source_tfrecord(
        s, path, .index = index, .unchecked = true, .defaults = true, .ragged = "x",
        .fields = { { "x", TSR_U8, TSR_SHAPE(9) }, { "y", TSR_I64, { 0 } } });
  case 2: return tsr_source_tar(s, path, .index = index, .defaults = true);
  case JSON:
    return tsr_source_json(s, path, .index = index, .defaults = true, .ragged = "x,z",
                           .fields = { { "x", TSR_U8, TSR_SHAPE(9) },
                                       { "y", TSR_F16, { 0 } },
                                       { "z", TSR_U64, TSR_SHAPE(3, 2) },
                                       { "b", TSR_BOOL, TSR_SHAPE(2) } });
  case BINARY:
    return tsr_source_binary(s, path, .partial = true, .unpack_limit = 1 << 20,
                             .fields = { { "x", TSR_U8, TSR_SHAPE(3) } });
  default: return tsr_source_safetensors(s, path, NULL);
  }
}

static void message_of(tsr_scope *s)
{
  if (tsr_scope_status(s)) fuzz_message(tsr_message(s), 2000);
}

/* All there is, or the first batches of it; a hash that knows no order, 0 where reading failed. */
static uint64_t read_all(tsr_scope *s, tsr_source *source, bool shuffle)
{
  uint64_t hash = 1;
  int batches = 0;
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 1 + shuffle, .threads = -1,
                                      .shuffle = shuffle, .seed = 3, .ids = true);
  for (tsr_batch *b; batches < BATCHES && (b = tsr_pipeline_next(p)); batches++) {
    for (int c = 0; c < tsr_source_field_count(source); c++) {
      tsr_record_field field = tsr_source_field_of(source, c);
      tsr_array *a = tsr_batch_field(b, field.name);
      size_t bytes = tsr_dtype_size(field.dtype), rows = (size_t)tsr_batch_row_count(b);
      for (int d = 0; d < field.shape.rank; d++) bytes *= (size_t)field.shape.dims[d];
      char *data = malloc(rows * bytes + 1);
      REQUIRE(data);
      if (!tsr_read(a, data, rows * bytes))
        for (size_t i = 0; i < rows; i++)
          hash +=
              tsr__hash(data + i * bytes, bytes, (uint64_t)tsr_batch_ids(b)[i] * 64 + (uint64_t)c);
      free(data);
    }
    tsr_batch_release(b);
  }
  tsr_status status = tsr_pipeline_close(p);
  message_of(s);
  return status || batches == BATCHES ? 0 : hash;
}

/* How many lines a plain reader counts. */
static int64_t count_lines(const uint8_t *data, size_t size)
{
  int64_t count = 0;
  size_t from = size >= 3 && !memcmp(data, "\xEF\xBB\xBF", 3) ? 3 : 0;
  for (size_t i = from; i < size; i++) count += data[i] == '\n' || i + 1 == size;
  return count;
}

/* Whether bytes are lines as they stand: nothing that is unpacked, brought to UTF-8 or refused. */
static bool is_plain(const uint8_t *data, size_t size)
{
  const char *bytes = (const char *)data;
  tsr__error error = { 0 };
  return !tsr__wide_of(bytes, size).width && tsr__packing_of(bytes, size) == TSR__PLAIN &&
         !tsr__file_magic("x", "x", bytes, size, &error);
}

static void try_file(tsr_runtime *rt, int format, const uint8_t *data, size_t size)
{
  char path[FUZZ_PATH];
  int fd = fuzz_file(data, size, path);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *source = open_as(s, path, format, false);
  message_of(s);
  if (format == 0 && is_plain(data, size)) {
    REQUIRE(!tsr_scope_status(s));
    REQUIRE(tsr_source_count(source) == count_lines(data, size));
  }
  if (!tsr_scope_status(s)) {
    uint64_t first = read_all(s, source, false), second = read_all(s, source, true);
    REQUIRE(!first || !second || first == second);
  }
  tsr_scope_close(s);
  close(fd);
}

/* The bytes up to a zero as the name of a field, and what follows as the file. */
static void try_name(tsr_runtime *rt, const uint8_t *data, size_t size)
{
  const uint8_t *end = memchr(data, 0, size);
  if (!end || end == data) return;
  char path[FUZZ_PATH], list[600] = "\"", *to = list + 1;
  const char *name = (const char *)data;
  int fd = fuzz_file(end + 1, size - (size_t)(end + 1 - data), path);
  for (const char *at = name; *at && to < list + 500; at++) {
    if (*at == '"') *to++ = '"';
    *to++ = *at;
  }
  memcpy(to, "\"=y", 4);
  for (int kind = 0; kind < 3; kind++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *source =
        kind == 0
            ? tsr_source_json(s, path, .defaults = true, .fields = { { name, TSR_I64, { 0 } } })
        : kind == 1 ? tsr_source_tfrecord(s, path, .defaults = true, .unchecked = true,
                                          .fields = { { name, TSR_I64, { 0 } } })
                    : tsr_source_memory(s, 1, { name, TSR_U8, { 0 }, "x" });
    /* Whatever a file has, a name that was taken is found again. */
    if (!tsr_scope_status(s) && strlen(name) < 200) {
      tsr_source *some = tsr_source_select(source, list);
      REQUIRE(!tsr_scope_status(s) && !strcmp(tsr_source_field_of(some, 0).name, "y"));
      read_all(s, some, true);
    }
    message_of(s);
    tsr_scope_close(s);
  }
  close(fd);
}

/* A text in two bytes a character. */
static void try_wide(tsr_runtime *rt, const uint8_t *data, size_t size)
{
  uint8_t *wide = malloc(size + 2);
  REQUIRE(wide);
  memcpy(wide, "\xFF\xFE", 2);
  if (size) memcpy(wide + 2, data, size);
  try_file(rt, 0, wide, size + 2);
  try_file(rt, JSON, wide, size + 2);
  free(wide);
}

/* The same with the checksums of headers that tar should have. */
static void try_tar(tsr_runtime *rt, const uint8_t *data, size_t size)
{
  uint8_t *copy = (uint8_t *)fuzz_text(data, size);
  for (size_t at = 0; at + 512 <= size; at += 512) {
    unsigned sum = 0;
    memset(copy + at + 148, ' ', 8);
    for (int i = 0; i < 512; i++) sum += copy[at + (size_t)i];
    if (sum == 8 * ' ') memset(copy + at + 148, 0, 8);
    else snprintf((char *)copy + at + 148, 8, "%06o", sum);
  }
  try_file(rt, 2, copy, size);
  free(copy);
}

/* Bytes as an index of a small file, whole by its hash. */
static void try_index(tsr_runtime *rt, int format, const uint8_t *data, size_t size)
{
  static const char *const kinds[] = { "lines", "tfrecord", "tar", "", "json" };
  static char folder[64], path[96], index[112];
  const int64_t size_and_time[2] = { 700, 5000000000 };
  if (!*folder) {
    snprintf(folder, sizeof folder, "/tmp/source_fuzz.XXXXXX");
    REQUIRE(mkdtemp(folder));
  }
  snprintf(path, sizeof path, "%s/data", folder);
  snprintf(index, sizeof index, "%s.tsridx", path);
  FILE *file = fopen(path, "w");
  for (int i = 0; i < 700; i++) fputc(i % 7 ? 'a' : '\n', file);
  REQUIRE(!fclose(file));
  const struct timespec times[2] = { { .tv_sec = 5 }, { .tv_sec = 5 } };
  REQUIRE(!utimensat(AT_FDCWD, path, times, 0));
  size_t whole = size + 24 + 16 + 8;
  uint8_t *bytes = calloc(whole, 1);
  memcpy(bytes, "TSRIDX01", 8);
  snprintf((char *)bytes + 8, 16, "%s", kinds[format]);
  memcpy(bytes + 24, size_and_time, 16);
  if (size) memcpy(bytes + 40, data, size);
  uint64_t hash = tsr__hash(bytes, whole - 8, 0);
  memcpy(bytes + whole - 8, &hash, 8);
  file = fopen(index, "w");
  REQUIRE(fwrite(bytes, 1, whole, file) == whole && !fclose(file));
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *source = open_as(s, path, format, true);
  message_of(s);
  if (!tsr_scope_status(s)) read_all(s, source, true);
  tsr_scope_close(s);
  free(bytes);
  unlink(index);
  unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static tsr_runtime *rt;
  if (!rt) rt = tsr_runtime_open("cpu:1", .threads = 1, .memory_limit = 64 << 20);
  if (!size) return 0;
  int choice = data[0] % (2 * FORMATS);
  /* Beside the others, whose inputs are kept. */
  if (data[0] == 'j') try_file(rt, JSON, data + 1, size - 1);
  else if (data[0] == 'J') try_index(rt, JSON, data + 1, size - 1);
  else if (data[0] == 'b') try_file(rt, BINARY, data + 1, size - 1);
  else if (data[0] == 'n') try_name(rt, data + 1, size - 1);
  else if (data[0] == 'w') try_wide(rt, data + 1, size - 1);
  else if (choice < FORMATS) try_file(rt, choice, data + 1, size - 1);
  else if (choice < FORMATS + 3) try_index(rt, choice - FORMATS, data + 1, size - 1);
  else try_tar(rt, data + 1, size - 1);
  return 0;
}
