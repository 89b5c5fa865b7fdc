/* Files that change after a source has looked at them: at any place, whether or not they are open,
 * and more of them than a process may have open. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "harness.h"
#include "support/record_writer.h"
#include "tessera.h"

enum { LINES, JSON, EXAMPLES, TAR, BINARY, NPY, TENSORS, FORMATS };
static const char *const endings[] = { "txt", "jsonl", "tfrecord",   "tar",
                                       "bin", "npy",   "safetensors" };

static void put_text(written *w, const char *text)
{
  written_put(w, text, strlen(text));
}

/* `count` records of one number each, from `first` on, as a file of a format. */
static void write_file(const char *path, int format, int64_t first, int64_t count)
{
  written w = { .size = 0 }, message = { .size = 0 };
  char text[300];
  if (format == NPY || format == TENSORS) {
    int head =
        format == NPY
            ? snprintf(text, sizeof text,
                       "{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }", (int)count)
            : snprintf(text, sizeof text,
                       "{\"x\":{\"dtype\":\"I64\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                       (int)count, (int)count * 8);
    if (format == NPY) {
      while ((head + 11) % 64) text[head++] = ' ';
      text[head++] = '\n';
      written_put(&w, "\x93NUMPY\1\0", 8);
      written_put(&w, (unsigned char[]){ (unsigned char)head, 0 }, 2);
    } else written_put(&w, (unsigned char[]){ (unsigned char)head, 0, 0, 0, 0, 0, 0, 0 }, 8);
    written_put(&w, text, (size_t)head);
  }
  for (int64_t i = first; i < first + count; i++) {
    snprintf(text, sizeof text, format == LINES ? "%06d\n" : "{\"x\":%d}\n", (int)i);
    if (format == LINES || format == JSON) put_text(&w, text);
    if (format == EXAMPLES) example_integers(&message, "x", &i, 1), example_end(&message, &w);
    if (format == TAR) {
      char name[20];
      snprintf(name, sizeof name, "%06d.x", (int)i);
      snprintf(text, sizeof text, "%d", (int)i);
      tar_member(&w, name, text, strlen(text));
    }
    if (format >= BINARY) written_put(&w, &i, 8);
  }
  if (format == TAR) tar_end(&w);
  written_to(&w, path);
}

static tsr_source *open_files(tsr_scope *s, int format, const char *path)
{
  switch (format) {
  case LINES: return tsr_source_lines(s, path);
  case JSON: return tsr_source_json(s, path, .fields = { { "x", TSR_I64, { 0 } } });
  case EXAMPLES: return tsr_source_tfrecord(s, path, .fields = { { "x", TSR_I64, { 0 } } });
  case TAR: return tsr_source_tar(s, path, .fields = { { "x", TSR_I64, { 0 } } });
  case BINARY: return tsr_source_binary(s, path, .fields = { { "x", TSR_I64, { 0 } } });
  case NPY: return tsr_source_npy(s, path);
  default: return tsr_source_safetensors(s, path, NULL);
  }
}

/* The number of record `at`; the status of reading it. */
static tsr_status read_one(tsr_scope *s, tsr_source *source, int format, int64_t at,
                           int64_t *number, char message[600])
{
  tsr_pipeline *p =
      tsr_pipeline_open(tsr_source_slice(source, TSR_RANGE(at, at + 1)), .threads = -1);
  tsr_batch *b = tsr_pipeline_next(p);
  char text[8] = { 0 };
  if (b && format == LINES) {
    CHECK_I64(tsr_read(tsr_batch_field(b, "text"), text, 6), TSR_OK);
    *number = atoi(text);
  } else if (b) {
    CHECK_I64(tsr_read(tsr_batch_field(b, format == NPY ? "data" : "x"), number, 8), TSR_OK);
  }
  tsr_batch_release(b);
  tsr_status status = tsr_pipeline_close(p);
  snprintf(message, 600, "%s", tsr_message(s));
  tsr_scope_clear(s);
  return status;
}

/* What may happen to a file; each leaves one that a careless reader would take. */
static void change(const char *path, int how, int format, int64_t first)
{
  struct stat was;
  CHECK(!stat(path, &was));
  char other[700];
  snprintf(other, sizeof other, "%s.new", path);
  usleep(20000); /* clocks of files may tick every 10 ms */
  switch (how) {
  case 0: /* another one in its place, as long and as old */
    write_file(other, format, first + 500, 3);
    CHECK(!utimensat(AT_FDCWD, other, (struct timespec[]){ was.st_atim, was.st_mtim }, 0));
    CHECK(!rename(other, path));
    break;
  case 1: write_file(path, format, first + 500, 3); break; /* the same one written anew */
  case 2: write_file(path, format, first + 500, 2); break;
  case 3: write_file(path, format, first + 500, 9); break;
  case 4: CHECK(!unlink(path)); break;
  default: CHECK(!truncate(path, was.st_size - 1)); break;
  }
}

TEST(changes_are_noticed_at_any_place)
{
  enum { FILES = 300 };
  test_rng rng = test_seeded(1);
  char pattern[600], path[600], message[600];
  for (int format = 0; format < FORMATS; format++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:1");
    tsr_scope *s = tsr_scope_open(rt);
    for (int i = 0; i < FILES; i++) {
      snprintf(path, sizeof path, "%s-%03d.%s", test_tmp("c"), i, endings[format]);
      write_file(path, format, i * 3, 3);
    }
    snprintf(pattern, sizeof pattern, "%s-*.%s", test_tmp("c"), endings[format]);
    tsr_source *source = open_files(s, format, pattern);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    CHECK_I64(tsr_source_count(source), FILES * 3);
    /* Those first and last in the list, and some in between. */
    for (int how = 0; how < 6; how++) {
      static const int places[] = { 0, 100, 199, 255, 270, 290 };
      int file = places[how] + how + (int)test_range(&rng, 0, 2);
      int64_t at = file * 3 + 2, number = -1;
      CHECK_I64(read_one(s, source, format, at, &number, message), TSR_OK);
      CHECK_I64(number, at);
      snprintf(path, sizeof path, "%s-%03d.%s", test_tmp("c"), file, endings[format]);
      change(path, how, format, file * 3);
      CHECK_I64(read_one(s, source, format, at, &number, message), TSR_EIO);
      CHECK_STR_HAS(message, path);
      if (how < 4) CHECK_STR_HAS(message, how ? "has " : "removed or replaced");
      /* Others are read as before, and so is this one by who looks at it anew. */
      CHECK_I64(read_one(s, source, format, 3 * 50, &number, message), TSR_OK);
      CHECK_I64(number, 150);
      if (how > 3) continue;
      tsr_source *anew = open_files(s, format, path);
      CHECK_I64(read_one(s, anew, format, 1, &number, message), TSR_OK);
      CHECK_I64(number, file * 3 + 501);
    }
    tsr_scope_close(s);
    tsr_runtime_close(rt);
    for (int i = 0; i < FILES; i++) {
      snprintf(path, sizeof path, "%s-%03d.%s", test_tmp("c"), i, endings[format]);
      unlink(path);
    }
  }
}

/* An allocator is the user's, and may make scopes: who asks it for memory holds no lock. */
static _Atomic(tsr_runtime *) asked;

static void *allocate(size_t size, size_t alignment, void *user)
{
  (void)user;
  static _Thread_local bool inside;
  tsr_runtime *rt = atomic_load(&asked);
  if (rt && !inside) {
    inside = true;
    tsr_scope_close(tsr_scope_open(rt));
    inside = false;
  }
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void release(void *pointer, size_t size, void *user)
{
  (void)size, (void)user;
  free(pointer);
}

TEST(no_lock_is_held_while_memory_is_asked_for)
{
  const tsr_allocator own = { allocate, release, NULL };
  char path[600], message[600];
  for (int format = 0; format < FORMATS; format++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:1", .allocator = &own);
    tsr_scope *s = tsr_scope_open(rt);
    int64_t number = -1;
    snprintf(path, sizeof path, "%s.%s", test_tmp("a"), endings[format]);
    write_file(path, format, 0, 3);
    atomic_store(&asked, rt);
    tsr_source *source = open_files(s, format, path);
    CHECK_I64(read_one(s, source, format, 2, &number, message), TSR_OK);
    CHECK_I64(number, 2);
    tsr_scope_close(s);
    atomic_store(&asked, NULL);
    tsr_runtime_close(rt);
  }
}

/* Any number of files of any number of sources, by several threads, whatever the process may have
 * open. */
TEST(fewer_descriptors_than_files)
{
  enum { FILES = 120, SOURCES = 4 };
  char pattern[600], path[600];
  for (int i = 0; i < FILES; i++) {
    snprintf(path, sizeof path, "%s-%03d.bin", test_tmp("d"), i);
    write_file(path, BINARY, i * 3, 3);
  }
  snprintf(pattern, sizeof pattern, "%s-*.bin", test_tmp("d"));
  struct rlimit old, few = { .rlim_cur = 40 };
  CHECK(!getrlimit(RLIMIT_NOFILE, &old));
  few.rlim_max = old.rlim_max;
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  CHECK(!setrlimit(RLIMIT_NOFILE, &few));
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *source[SOURCES];
  tsr_pipeline *p[SOURCES];
  for (int i = 0; i < SOURCES; i++) {
    source[i] = open_files(s, BINARY, pattern);
    p[i] = tsr_pipeline_open(source[i], .batch_size = 7, .shuffle = true, .seed = (uint64_t)i,
                             .threads = 4, .ids = true);
  }
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  /* What others opened meanwhile leaves none at all, but for those that are given back. */
  int taken[64], count = 0;
  while (count < 64 && (taken[count] = open("/dev/null", O_RDONLY)) >= 0) count++;
  CHECK(count < 64);
  for (int i = 0; i < SOURCES; i++) {
    int64_t met = 0;
    for (tsr_batch *b; (b = tsr_pipeline_next(p[i])); tsr_batch_release(b)) {
      int64_t x[7], rows = tsr_batch_row_count(b);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "x"), x, (size_t)rows * 8), TSR_OK, s);
      CHECK_BYTES(x, tsr_batch_ids(b), (size_t)rows * 8);
      met += rows;
    }
    CHECK_STATUS(tsr_pipeline_close(p[i]), TSR_OK, s);
    CHECK_I64(met, FILES * 3);
  }
  while (count) close(taken[--count]);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  CHECK(!setrlimit(RLIMIT_NOFILE, &old));
}

/* ---- bytes that are stored otherwise --------------------------------------------------------- */

static void write_gzip(const char *path, const void *bytes, size_t size)
{
  gzFile f = gzopen(path, "wb");
  CHECK(f && gzwrite(f, bytes, (unsigned)size) == (int)size && gzclose(f) == Z_OK);
}

TEST(packed_records_of_any_bytes)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  int64_t data[50], number;
  char message[600];
  for (int i = 0; i < 50; i++) data[i] = i;
  /* Whatever the name: what unpacks to its end is packed. */
  static const char *const names[] = { "p.bin.gz", "p.bin" };
  for (int i = 0; i < 2; i++) {
    write_gzip(test_tmp(names[i]), data, sizeof data);
    tsr_source *source = open_files(s, BINARY, test_tmp(names[i]));
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    CHECK_I64(tsr_source_count(source), 50);
    CHECK_I64(read_one(s, source, BINARY, 33, &number, message), TSR_OK);
    CHECK_I64(number, 33);
  }
  /* Records that begin like a packed file by chance are records. */
  static const char *const heads[] = { "\x1F\x8B\x08\0\0\0\0\0", "\x28\xB5\x2F\xFD\0\0\0\0",
                                       "PK\3\4\0\0\0\0", "BZh91AY&",
                                       ("\xFD"
                                        "7zXZ\0\0\0") };
  for (int i = 0; i < 5; i++) {
    memcpy(data, heads[i], 8);
    test_write(test_tmp("h.bin"), data, sizeof data);
    tsr_source *source = open_files(s, BINARY, test_tmp("h.bin"));
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    CHECK_I64(tsr_source_count(source), 50);
    CHECK_I64(read_one(s, source, BINARY, 0, &number, message), TSR_OK);
    CHECK_I64(number, data[0]);
    /* Of a file whose name says that it is packed it is an error. */
    static const char *const packed[] = { "h.bin.gz", "h.bin.zst", "h.bin.zip", "h.bin.bz2",
                                          "h.bin.xz" };
    test_write(test_tmp(packed[i]), data, sizeof data);
    open_files(s, BINARY, test_tmp(packed[i]));
    CHECK(tsr_scope_status(s) == (i < 2 ? TSR_EPARSE : TSR_EUNSUPPORTED) || i == 3);
    if (tsr_scope_status(s)) CHECK_STR_HAS(tsr_message(s), packed[i]);
    tsr_scope_clear(s);
  }
  /* More than may be. */
  char *zeros = calloc(1, 1 << 20);
  write_gzip(test_tmp("z.bin.gz"), zeros, 1 << 20);
  free(zeros);
  tsr_source_binary(s, test_tmp("z.bin.gz"), .unpack_limit = 1000,
                    .fields = { { "x", TSR_I64, { 0 } } });
  CHECK_STATUS(tsr_scope_status(s), TSR_ENOMEM, s);
  CHECK_STR_HAS(tsr_message(s), "unpack_limit");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static char told[1000];

static void keep_line(tsr_log_level level, const char *area, const char *line, void *user)
{
  (void)level, (void)user;
  if (!strcmp(area, "pipeline")) snprintf(told, sizeof told, "%s", line);
}

TEST(packed_files_are_told_before_they_are_unpacked)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .log = keep_line);
  tsr_scope *s = tsr_scope_open(rt);
  char *lines = malloc(90000), pattern[600];
  for (int i = 0; i < 10000; i++) memcpy(lines + 9 * i, "a line..\n", 9);
  write_gzip(test_tmp("t1.txt.gz"), lines, 90000);
  write_gzip(test_tmp("t2.txt.gz"), lines, 9000);
  snprintf(pattern, sizeof pattern, "%s", test_tmp("t?.txt.gz"));
  tsr_source_lines(s, pattern);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_STR_HAS(told, "2 packed files of ");
  CHECK_STR_HAS(told, ".unpack_limit");
  test_write(test_tmp("plain.txt"), lines, 900);
  told[0] = 0;
  tsr_source_lines(s, test_tmp("plain.txt"));
  CHECK_STR(told, "");
  free(lines);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* A text in UTF-8 in another form, with a mark or without. */
static void put_wide(written *w, const char *text, int width, bool big, bool mark)
{
  for (const unsigned char *at = (const unsigned char *)text; *at || mark;) {
    uint32_t c = 0xFEFF;
    if (!mark) {
      int more = *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC0 ? 1 : 0;
      c = more ? *at & (0x3FU >> more) : *at;
      for (at++; more; more--) c = c << 6 | (*at++ & 0x3F);
    }
    mark = false;
    uint32_t units[2] = { c, 0 };
    int count = 1;
    if (width == 2 && c > 0xFFFF) {
      units[0] = 0xD800 + ((c - 0x10000) >> 10);
      units[1] = 0xDC00 + ((c - 0x10000) & 0x3FF);
      count = 2;
    }
    for (int i = 0; i < count; i++)
      for (int k = 0; k < width; k++) {
        unsigned char byte = (unsigned char)(units[i] >> 8 * (big ? width - 1 - k : k));
        written_put(w, &byte, 1);
      }
  }
}

TEST(texts_of_wide_characters)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  static const char *const texts[] = { "one\ntwo\r\nthree",
                                       "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\n\nx", "" };
  for (int i = 0; i < 3; i++)
    for (int form = 0; form < 12; form++) {
      int width = form % 2 ? 4 : 2;
      bool big = form / 2 % 2, mark = form / 4 != 2, packed = form / 4 == 1;
      /* Without a mark only ASCII in two bytes is seen. */
      if (!mark && (width == 4 || i)) continue;
      tsr_scope *s = tsr_scope_open(rt);
      written w = { .size = 0 };
      put_wide(&w, texts[i], width, big, mark);
      const char *path = test_tmp(packed ? "w.txt.gz" : "w.txt");
      if (packed) write_gzip(path, w.bytes, w.size), written_free(&w);
      else written_to(&w, path);
      tsr_source *source = tsr_source_lines(s, path, .longest = 20);
      CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
      test_write(test_tmp("u.txt"), texts[i], strlen(texts[i]));
      tsr_source *plain = tsr_source_lines(s, test_tmp("u.txt"), .longest = 20);
      CHECK_I64(tsr_source_count(source), tsr_source_count(plain));
      for (int64_t r = 0; r < tsr_source_count(plain); r++) {
        char got[2][20];
        for (int k = 0; k < 2; k++) {
          tsr_pipeline *p =
              tsr_pipeline_open(tsr_source_slice(k ? plain : source, TSR_RANGE(r, r + 1)),
                                .threads = -1);
          tsr_batch *b = tsr_pipeline_next(p);
          CHECK(b);
          CHECK_I64(tsr_read(tsr_batch_field(b, "text"), got[k], 20), TSR_OK);
          tsr_batch_release(b);
          CHECK_I64(tsr_pipeline_close(p), TSR_OK);
        }
        CHECK_BYTES(got[0], got[1], 20);
      }
      tsr_scope_close(s);
    }
  /* What begins so and is no such text, and other formats. */
  static const struct {
    const char *bytes;
    int size;
    tsr_status status;
    const char *says;
  } wrong[] = { { "\xFF\xFE"
                  "a\0\0",
                  5, TSR_EPARSE, "byte 4 is not UTF-16 text" },
                { "\xFF\xFE\0\xD8"
                  "a\0",
                  6, TSR_EPARSE, "byte 2 is not UTF-16 text" },
                { "\xFE\xFF\xDC\0", 4, TSR_EPARSE, "byte 2 is not UTF-16 text" },
                { "\xFF\xFE\0\0\0\0\x11\0", 8, TSR_EPARSE, "byte 4 is not UTF-32 text" },
                { "\xFD"
                  "7zXZ\0",
                  6, TSR_EUNSUPPORTED, "is xz" },
                { "PK\3\4abcd", 8, TSR_EUNSUPPORTED, "zip archive" } };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    test_write(test_tmp("x.txt"), wrong[i].bytes, (size_t)wrong[i].size);
    tsr_source_lines(s, test_tmp("x.txt"));
    CHECK_STATUS(tsr_scope_status(s), wrong[i].status, s);
    CHECK_STR_HAS(tsr_message(s), wrong[i].says);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
