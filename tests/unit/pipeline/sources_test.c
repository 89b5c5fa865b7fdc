/* Sources of records that differ in length, and indexes kept beside files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

#include "harness.h"
#include "support/record_writer.h"
#include "tessera.h"

/* ---- what a source should give --------------------------------------------------------------- */

enum { MOST = 400 };

/* Texts by record, as a test knows them. */
typedef struct expected {
  char *text[MOST];
  int64_t length[MOST], count, longest;
} expected;

static void expect(expected *e, const char *text, int64_t length)
{
  CHECK(e->count < MOST);
  e->text[e->count] = memcpy(malloc((size_t)length + 1), text, (size_t)length);
  e->length[e->count++] = length;
  if (length > e->longest) e->longest = length;
}

static void forget(expected *e)
{
  for (int64_t i = 0; i < e->count; i++) free(e->text[i]);
  *e = (expected){ .count = 0 };
}

/* A number from 0 to one less. */
static int64_t below(test_rng *rng, int64_t count)
{
  return test_range(rng, 0, count - 1);
}

/* Rows of a batch's ragged field against the texts of their ids, cut to what the field holds. */
static void check_ragged(tsr_batch *b, const char *name, const expected *e)
{
  char length_name[80];
  snprintf(length_name, sizeof length_name, "%s_length", name);
  tsr_array *field = tsr_batch_field(b, name);
  int64_t rows = tsr_batch_row_count(b), wide = tsr_shape_of(field).dims[1];
  char *bytes = malloc((size_t)(rows * wide));
  int64_t *lengths = malloc((size_t)rows * sizeof *lengths);
  CHECK_STATUS(tsr_read(field, bytes, (size_t)(rows * wide)), TSR_OK, tsr_batch_scope(b));
  CHECK_STATUS(tsr_read(tsr_batch_field(b, length_name), lengths, (size_t)rows * sizeof *lengths),
               TSR_OK, tsr_batch_scope(b));
  for (int64_t i = 0; i < rows; i++) {
    int64_t id = tsr_batch_ids(b)[i];
    int64_t length = e->length[id] < wide ? e->length[id] : wide;
    CHECK_I64(lengths[i], length);
    CHECK_BYTES(bytes + i * wide, e->text[id], (size_t)length);
    for (int64_t k = length; k < wide; k++) CHECK_I64(bytes[i * wide + k], 0);
  }
  free(bytes);
  free(lengths);
}

/* All records of a source in some order against the texts. */
static void check_source(tsr_source *source, const char *name, const expected *e, uint64_t seed)
{
  CHECK_I64(tsr_source_count(source), e->count);
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 1 + (int64_t)(seed % 40), .ids = true,
                                      .shuffle = seed % 2, .seed = seed,
                                      .threads = seed % 3 ? (int)(seed % 3) : -1);
  int64_t met = 0;
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) {
    check_ragged(b, name, e);
    met += tsr_batch_count(b);
  }
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  CHECK_I64(met, e->count);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* A file of lines drawn at random, ended in every way, and what they are. */
static void draw_lines(const char *path, test_rng *rng, expected *e)
{
  FILE *f = fopen(path, "wb");
  CHECK(f);
  if (!below(rng, 3)) fputs("\xEF\xBB\xBF", f);
  int64_t lines = below(rng, 30);
  for (int64_t i = 0; i < lines; i++) {
    char line[300];
    int64_t length = below(rng, below(rng, 4) ? 20 : 300);
    for (int64_t k = 0; k < length; k++) line[k] = (char)('a' + (int)below(rng, 26));
    for (int64_t k = 0; k + 1 < length; k++)
      if (!below(rng, 40)) line[k] = "\r\t\xC3"[below(rng, 3)];
    bool last = i + 1 == lines, bare = last && length && below(rng, 2);
    expect(e, line, length);
    fwrite(line, 1, (size_t)length, f);
    if (!bare) fputs(below(rng, 3) ? "\n" : "\r\n", f);
  }
  CHECK(!fclose(f));
}

TEST(lines_at_random)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  test_rng rng = test_seeded(1);
  for (uint64_t round = 0; round < (test_quick() ? 20 : 200); round++) {
    expected e = { .count = 0 };
    char path[3][600];
    int files = 1 + (int)below(&rng, 3);
    for (int i = 0; i < 3; i++) {
      snprintf(path[i], sizeof path[i], "%s", test_tmp(i ? i > 1 ? "l2.txt" : "l1.txt" : "l0.txt"));
      remove(path[i]);
      if (i < files) draw_lines(path[i], &rng, &e);
    }
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *lines = tsr_source_lines(s, test_tmp("l?.txt"), .index = round % 2,
                                         .longest = round % 5 ? 0 : 9, .cut = true);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    check_source(lines, "text", &e, round);
    tsr_scope_close(s);
    forget(&e);
  }
  tsr_runtime_close(rt);
}

/* Lines and their ends across the border of what is seen of a file at once. */
TEST(lines_across_windows)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  const char *path = test_tmp("long.txt");
  for (int64_t shift = -3; shift < 4; shift++) {
    expected e = { .count = 0 };
    FILE *f = fopen(path, "wb");
    int64_t size = (1 << 18) + shift;
    char *line = malloc((size_t)size);
    memset(line, 'x', (size_t)size);
    fwrite(line, 1, (size_t)size, f);
    fputs("\r\nsecond\r\n\r\nthird\n", f);
    CHECK(!fclose(f));
    expect(&e, line, size);
    expect(&e, "second", 6);
    expect(&e, "", 0);
    expect(&e, "third", 5);
    free(line);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *lines = tsr_source_lines(s, path, .longest = 0);
    CHECK_I64(tsr_source_field_of(lines, 0).shape.dims[0], size);
    check_source(lines, "text", &e, 4);
    tsr_scope_close(s);
    forget(&e);
  }
  tsr_runtime_close(rt);
}

/* What reading all lines of a file says. */
static tsr_status read_lines(tsr_source *source)
{
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 1, .threads = -1);
  for (tsr_batch *b; (b = tsr_pipeline_next(p));) tsr_batch_release(b);
  return tsr_pipeline_close(p);
}

TEST(lines_that_are_refused)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("bad.txt");
  test_write(path, "fine\ntoo long\n\xFF here\n", 21);
  CHECK_STATUS(read_lines(tsr_source_lines(s, path, .longest = 4)), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(s),
                "bad.txt: record 1 at byte 5: the line has 8 bytes, expected at most 4 (.longest)");
  tsr_scope_clear(s);
  CHECK_STATUS(read_lines(tsr_source_lines(s, path, .utf8 = true)), TSR_EPARSE, NULL);
  CHECK_STR_HAS(tsr_message(s), "bad.txt: record 2 at byte 14: byte 0 of the line is not UTF-8");
  tsr_scope_clear(s);
  tsr_source *lines = tsr_source_lines(s, path, .longest = 10);
  CHECK_I64(tsr_source_count(lines), 3);
  test_write(path, "fine\n", 5);
  CHECK_STATUS(read_lines(lines), TSR_EIO, NULL);
  CHECK_STR_HAS(tsr_message(s), "bad.txt: record 0 at byte 0: the file has become shorter");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- indexes that are kept ------------------------------------------------------------------- */

static int64_t count_lines(tsr_runtime *rt, const char *path)
{
  tsr_scope *s = tsr_scope_open(rt);
  int64_t count = tsr_source_count(tsr_source_lines(s, path, .index = true));
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  return count;
}

/* Writes a file, and gives it a time. */
static void write_at(const char *path, const char *text, int64_t seconds)
{
  test_write(path, text, strlen(text));
  struct timespec times[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };
  CHECK(!utimensat(AT_FDCWD, path, times, 0));
}

/* An index is used while size and time are the file's: other bytes go unseen then, which is how
 * its use is seen here; and one that is stale or damaged is made anew. */
TEST(kept_indexes)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  const char *path = test_tmp("kept.txt");
  char index[600];
  snprintf(index, sizeof index, "%s.tsridx", path);
  write_at(path, "a\nb\nc\n", 1000);
  CHECK_I64(count_lines(rt, path), 3);
  CHECK(!access(index, R_OK));
  write_at(path, "a.b\nc\n", 1000);
  CHECK_I64(count_lines(rt, path), 3);
  write_at(path, "a.b\nc\n", 1001);
  CHECK_I64(count_lines(rt, path), 2);
  write_at(path, "a.b\nc\nd", 1001);
  CHECK_I64(count_lines(rt, path), 3);
  size_t size;
  char *bytes = test_read(index, &size);
  for (size_t i = 0; i <= size; i++) {
    if (i < size) bytes[i] ^= 4;
    test_write(index, bytes, i < size ? size : size - 1);
    CHECK_I64(count_lines(rt, path), 3);
    if (i < size) bytes[i] ^= 4;
  }
  free(bytes);
  /* Of another kind. */
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source_tfrecord(s, path, .index = true, .fields = { { "x", TSR_U8, { 0 } } });
  CHECK_STATUS(tsr_scope_status(s), TSR_EPARSE, s);
  tsr_scope_close(s);
  /* One that cannot be kept is none. */
  remove(index);
  CHECK(!mkdir(index, 0700));
  CHECK_I64(count_lines(rt, path), 3);
  tsr_runtime_close(rt);
}

TEST(kept_indexes_of_examples)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  size_t size;
  char *bytes = test_read(test_file("golden/files/examples_1.tfrecord"), &size);
  const char *path = test_tmp("e.tfrecord");
  test_write(path, bytes, size);
  char text[2][200];
  for (int again = 0; again < 2; again++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_source *source =
        tsr_source_tfrecord(s, path, .index = true, .fields = { { "label", TSR_I64, { 0 } } });
    CHECK_STATUS(read_lines(source), TSR_OK, s);
    CHECK_I64(tsr_source_count(source), 7);
    snprintf(text[again], sizeof text[again], "%s", tsr_source_text(source));
    tsr_scope_close(s);
    CHECK(!access(test_tmp("e.tfrecord.tsridx"), R_OK));
  }
  CHECK_STR(text[0], text[1]);
  free(bytes);
  tsr_runtime_close(rt);
}

/* ---- tar ------------------------------------------------------------------------------------- */

/* Checks a batch of the golden archives: tests/golden/make_archives.py says what is in them. */
static void check_samples(tsr_batch *b, bool texts)
{
  int64_t number[9], bin_length[9], text_length[9], rows = tsr_batch_row_count(b);
  float vec[9][3];
  char bin[9 * 403], text[9 * 40];
  tsr_scope *s = tsr_batch_scope(b);
  size_t n = (size_t)rows;
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "cls"), number, n * 8), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "vec_npy"), vec, n * 12), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "bin"), bin, n * 403), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "bin_length"), bin_length, n * 8), TSR_OK, s);
  if (texts) {
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "txt"), text, n * 40), TSR_OK, s);
    CHECK_STATUS(tsr_read(tsr_batch_field(b, "txt_length"), text_length, n * 8), TSR_OK, s);
  }
  for (int64_t i = 0; i < rows; i++) {
    int64_t id = tsr_batch_ids(b)[i], length = id * 100 + 3 < 403 ? id * 100 + 3 : 403;
    CHECK_I64(number[i], id * id - 10);
    CHECK_I64(bin_length[i], length);
    for (int64_t k = 0; k < 403; k++)
      CHECK_I64((uint8_t)bin[i * 403 + k], k < length ? (37 * id + k) % 256 : 0);
    for (int k = 0; k < 3; k++) CHECK_F32_BITS(vec[i][k], (float)id / 2 - (float)k);
    if (!texts) continue;
    CHECK_I64(text_length[i], id == 4 ? 0 : 5 * id);
    for (int64_t k = 0; k < 40; k++)
      CHECK_I64(text[i * 40 + k], k < text_length[i] ? "text "[k % 5] : 0);
  }
}

TEST(samples_of_archives)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  const char *archives = test_file("golden/files/samples_?.tar");
  for (uint64_t round = 0; round < 6; round++) {
    tsr_scope *s = tsr_scope_open(rt);
    bool texts = round % 2;
    tsr_source *source = texts ? tsr_source_tar(s, archives, .defaults = true,
                                                .fields = { { "cls", TSR_I64, { 0 } },
                                                            { "txt", TSR_U8, { 0 } },
                                                            { "bin", TSR_U8, { 0 } },
                                                            { "vec_npy", TSR_F32, TSR_SHAPE(3) } })
                               : tsr_source_tar(s, archives,
                                                .fields = { { "bin", TSR_U8, TSR_SHAPE(403) },
                                                            { "vec_npy", TSR_F32, TSR_SHAPE(3) },
                                                            { "cls", TSR_I64, { 0 } } });
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    CHECK_I64(tsr_source_count(source), 9);
    tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 1 + (int64_t)round, .ids = true,
                                        .shuffle = round > 2, .seed = round);
    for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b)) check_samples(b, texts);
    CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* Fields by the first sample; samples that lack a member left out; keys. */
TEST(fields_of_archives)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *archives = test_file("golden/files/samples_[01].tar");
  tsr_source *found = tsr_source_tar(s, archives, .skip = true);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(tsr_source_count(found), 5);
  CHECK_I64(tsr_source_field_count(found), 6);
  CHECK_STR(tsr_source_field_of(found, 3).name, "vec_npy");
  CHECK_I64(tsr_source_field_of(found, 3).dtype, TSR_F32);
  CHECK_I64(tsr_source_field_of(found, 2).dtype, TSR_I64);
  tsr_source *keys = tsr_source_tar(s, archives, .fields = { { "__key__", TSR_U8, { 0 } } });
  expected e = { .count = 0 };
  for (int n = 0; n < 6; n++) {
    char key[300] = "";
    if (n % 3 == 1) memset(key, 'd', 120), key[120] = 0;
    else if (n == 5) {
      memset(key, 'n', 181), key[90] = '/', key[181] = 0;
    } else snprintf(key, sizeof key, "a.b");
    size_t at = strlen(key);
    snprintf(key + at, sizeof key - at, "/%04d", n);
    expect(&e, key, (int64_t)strlen(key));
  }
  check_source(keys, "__key__", &e, 5);
  forget(&e);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* What reading all samples of an archive says. */
static tsr_status read_samples(tsr_scope *s, const char *path, int64_t *count)
{
  tsr_source *source = tsr_source_tar(s, path,
                                      .fields = { { "bin", TSR_U8, { 0 } },
                                                  { "cls", TSR_I64, { 0 } },
                                                  { "vec_npy", TSR_F32, TSR_SHAPE(3) } });
  *count = tsr_source_count(source);
  return tsr_scope_status(s) ? tsr_scope_status(s) : read_lines(source);
}

/* A byte that changes in a header is found; any end is an error or a whole number of members. */
TEST(damaged_archives)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  size_t size;
  char *whole = test_read(test_file("golden/files/samples_1.tar"), &size);
  const char *path = test_tmp("x.tar");
  /* The first header: its checksum says it, but for the bytes that it is itself. */
  for (size_t i = 0; i < 512; i += i == 147 ? 9 : 1) {
    tsr_scope *s = tsr_scope_open(rt);
    int64_t count;
    whole[i] ^= 0x11;
    test_write(path, whole, size);
    CHECK_STATUS(read_samples(s, path, &count), TSR_EPARSE, s);
    CHECK_STR_HAS(tsr_message(s), "x.tar: member 0 at byte 0: its header does not match");
    whole[i] ^= 0x11;
    tsr_scope_close(s);
  }
  for (size_t i = 0; i < size; i += test_quick() ? 2011 : 307) {
    tsr_scope *s = tsr_scope_open(rt);
    int64_t count;
    whole[i] ^= 0x11;
    test_write(path, whole, size);
    tsr_status status = read_samples(s, path, &count);
    CHECK(status == TSR_OK || status == TSR_EPARSE || status == TSR_EUNSUPPORTED ||
          status == TSR_EDTYPE || status == TSR_ESHAPE);
    if (status) CHECK_STR_HAS(tsr_message(s), "x.tar: ");
    tsr_scope_clear(s);
    whole[i] ^= 0x11;
    test_write(path, whole, i);
    status = read_samples(s, path, &count);
    CHECK(status == TSR_OK ? count <= 3 : status == TSR_EPARSE);
    tsr_scope_close(s);
  }
  free(whole);
  tsr_runtime_close(rt);
}

TEST(archives_that_are_refused)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_file("golden/files/samples_1.tar");
  tsr_source_tar(s, path, .fields = { { "txt", TSR_U8, { 0 } } });
  CHECK_STATUS(tsr_scope_status(s), TSR_EPARSE, s);
  CHECK_STR_HAS(tsr_message(s), "0004 at byte ");
  CHECK_STR_HAS(
      tsr_message(s),
      "has no member .txt; set .defaults to fill zeros, or .skip to leave the sample out");
  tsr_scope_clear(s);
  tsr_source_tar(s, path, .fields = { { "bin", TSR_F32, { 0 } } });
  CHECK_STATUS(tsr_scope_status(s), TSR_EDTYPE, s);
  tsr_scope_clear(s);
  static const struct {
    tsr_record_field field;
    tsr_status status;
    const char *says;
  } cases[] = {
    { { "bin", TSR_I64, { 0 } }, TSR_EPARSE, "the member is not a whole number that fits i64" },
    { { "bin", TSR_U8, { 1, { 50 } } }, TSR_EVALUE, "303 bytes, expected at most 50" },
    { { "vec_npy", TSR_F32, { 1, { 4 } } }, TSR_ESHAPE, "an array of f32[3], expected" },
    { { "vec_npy", TSR_F64, { 1, { 3 } } }, TSR_ESHAPE, "an array of f32[3], expected" },
  };
  for (int i = 0; i < 4; i++) {
    CHECK_STATUS(read_lines(tsr_source_tar(s, path, .fields = { cases[i].field })), cases[i].status,
                 NULL);
    CHECK_STR_HAS(tsr_message(s), cases[i].says);
    CHECK_STR_HAS(tsr_message(s), "samples_1.tar: sample a.b/0003, ");
    tsr_scope_clear(s);
  }
  tsr_source *cut =
      tsr_source_tar(s, path, .cut = true, .fields = { { "bin", TSR_U8, TSR_SHAPE(50) } });
  CHECK_STATUS(read_lines(cut), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- packed files ---------------------------------------------------------------------------- */

/* Packs a file's bytes; returns how many there are. */
static size_t pack(const char *from, bool zstd, char **out)
{
  size_t size, room;
  char *bytes = test_read(from, &size);
  room = 2 * size + 1024;
  *out = malloc(room);
  if (zstd) {
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    room = ZSTD_compress2(c, *out, room, bytes, size);
    ZSTD_freeCCtx(c);
  } else {
    z_stream z = { .next_in = (unsigned char *)bytes,
                   .avail_in = (unsigned)size,
                   .next_out = (unsigned char *)*out,
                   .avail_out = (unsigned)room };
    CHECK_I64(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    CHECK_I64(deflate(&z, Z_FINISH), Z_STREAM_END);
    room = z.total_out;
    deflateEnd(&z);
  }
  free(bytes);
  return room;
}

static tsr_source *open_kind(tsr_scope *s, int kind, const char *path)
{
  if (kind == 0) return tsr_source_tar(s, path, .fields = { { "bin", TSR_U8, { 0 } } });
  if (kind == 1) return tsr_source_lines(s, path);
  return tsr_source_tfrecord(
      s, path, .fields = { { "image", TSR_U8, TSR_SHAPE(6) }, { "label", TSR_I64, TSR_SCALAR } });
}

/* All bytes of the first field, in one order drawn alike. */
static size_t all_bytes(tsr_source *source, char *out, size_t room)
{
  const char *name = tsr_source_field_of(source, 0).name;
  tsr_pipeline *p =
      tsr_pipeline_open(source, .batch_size = tsr_source_count(source), .shuffle = true, .seed = 2);
  tsr_batch *b = tsr_pipeline_next(p);
  CHECK(b);
  tsr_array *a = tsr_batch_field(b, name);
  size_t bytes = (size_t)(tsr_shape_of(a).dims[0] * tsr_shape_of(a).dims[1]);
  CHECK(bytes <= room);
  CHECK_STATUS(tsr_read(a, out, bytes), TSR_OK, tsr_batch_scope(b));
  tsr_batch_release(b);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, NULL);
  return bytes;
}

/* Packed files have the records that plain ones have; cut off or damaged they are refused. */
TEST(packed_files)
{
  static const char *const plain[] = { "golden/files/samples_1.tar", "golden/files/polars_0.csv",
                                       "golden/files/examples_1.tfrecord" };
  enum { ROOM = 100000 };
  char *wanted = malloc(ROOM), *found = malloc(ROOM);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int kind = 0; kind < 3; kind++)
    for (int zstd = 0; zstd < 2; zstd++) {
      tsr_scope *s = tsr_scope_open(rt);
      char *bytes;
      size_t size = pack(test_file(plain[kind]), zstd, &bytes);
      test_write(test_tmp("packed"), bytes, size);
      tsr_source *all = open_kind(s, kind, test_file(plain[kind]));
      tsr_source *packed = open_kind(s, kind, test_tmp("packed"));
      CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
      CHECK_I64(tsr_source_count(packed), tsr_source_count(all));
      size_t length = all_bytes(all, wanted, ROOM);
      CHECK(all_bytes(packed, found, ROOM) == length);
      CHECK_BYTES(found, wanted, length);
      for (size_t cut = 8; cut < size; cut += size / 7 + 1) {
        test_write(test_tmp("packed"), bytes, cut);
        open_kind(s, kind, test_tmp("packed"));
        CHECK_STATUS(tsr_scope_status(s), TSR_EPARSE, s);
        tsr_scope_clear(s);
      }
      bytes[size / 2] ^= 0x55;
      test_write(test_tmp("packed"), bytes, size);
      open_kind(s, kind, test_tmp("packed"));
      CHECK_STATUS(tsr_scope_status(s), TSR_EPARSE, s);
      free(bytes);
      tsr_scope_close(s);
    }
  free(wanted);
  free(found);
  tsr_runtime_close(rt);
}

/* ---- folders --------------------------------------------------------------------------------- */

/* A folder with what people have in one: links that lead nowhere, endings of any letters, formats
 * that are no images. */
TEST(folders_as_they_are)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK(!mkdir(test_tmp("g"), 0700) && !mkdir(test_tmp("g/a"), 0700));
  static const char *const files[] = { "g/a/1.JPG",  "g/a/2.jpeg", "g/a/3.Png",
                                       "g/a/4.webp", "g/a/5.gif",  "g/a/read.me" };
  for (int i = 0; i < 6; i++) test_write(test_tmp(files[i]), "x", 1);
  CHECK(!symlink("nowhere", test_tmp("g/a/6.jpg")) && !symlink("nowhere", test_tmp("g/gone")) &&
        !symlink("nowhere", test_tmp("g/a/7.txt")));
  static const struct {
    const char *endings;
    int64_t count;
  } cases[] = { { NULL, 4 },      { "jpg", 2 },          { "JPG,.PNG", 3 },
                { "jpg;png", 3 }, { ".gif ; .webp", 2 }, { "me", 1 } };
  for (int i = 0; i < 6; i++) {
    CHECK_I64(tsr_source_count(tsr_source_folder(s, test_tmp("g"), .endings = cases[i].endings)),
              cases[i].count);
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  }
  /* The link is a record that cannot be read. */
  tsr_pipeline *p = tsr_pipeline_open(tsr_source_folder(s, test_tmp("g"), .names = true),
                                      .batch_size = 4, .bad = TSR_BAD_SKIP);
  tsr_batch *b = tsr_pipeline_next(p);
  CHECK_I64(tsr_batch_count(b), 3);
  tsr_batch_release(b);
  CHECK_STR_HAS(tsr_pipeline_report(p), "g/a/6.jpg");
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_source_folder(s, test_tmp("g"), .endings = "tiff");
  CHECK_STATUS(tsr_scope_status(s), TSR_EARG, s);
  CHECK_STR_HAS(tsr_message(s), "no file ends with one of 'tiff'; did you mean 'gif'?");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Members by endings of any letters, or the first of several. */
TEST(endings_of_archives)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  written tar = { .size = 0 };
  tar_member(&tar, "0.JPG", "aa", 2);
  tar_member(&tar, "0.Cls", "5", 1);
  tar_member(&tar, "1.png", "b", 1);
  tar_member(&tar, "1.cls", "6", 1);
  tar_member(&tar, "2.png", "ccc", 3);
  tar_member(&tar, "2.jpg", "d", 1);
  tar_member(&tar, "2.CLS", "7", 1);
  tar_end(&tar);
  written_to(&tar, test_tmp("e.tar"));
  static const char *const names[] = { "jpg;png", "png;jpg", "PNG;JPG" };
  static const char *const first[] = { "aabd", "aabccc", "aabccc" };
  for (int i = 0; i < 3; i++) {
    tsr_source *source =
        tsr_source_tar(s, test_tmp("e.tar"),
                       .fields = { { names[i], TSR_U8, { 0 } }, { "cls", TSR_I64, { 0 } } });
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    char list[64], all[10] = "";
    snprintf(list, sizeof list, "%s=image,%s_length=image_length,cls", names[i], names[i]);
    tsr_pipeline *p = tsr_pipeline_open(tsr_source_select(source, list), .batch_size = 1);
    for (int64_t r = 0; r < 3; r++) {
      tsr_batch *b = tsr_pipeline_next(p);
      char bytes[3];
      int64_t length, label;
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "image"), bytes, i ? 3 : 2), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "image_length"), &length, 8), TSR_OK, s);
      CHECK_STATUS(tsr_read(tsr_batch_field(b, "cls"), &label, 8), TSR_OK, s);
      CHECK_I64(label, 5 + r);
      strncat(all, bytes, (size_t)length);
      tsr_batch_release(b);
    }
    CHECK_STR(all, first[i]);
    CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  }
  /* Without .fields an ending is the same whatever its letters. */
  CHECK_STR(tsr_source_field_of(tsr_source_tar(s, test_tmp("e.tar"), .skip = true), 0).name, "jpg");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(folders_of_classes)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  static const char *const made[] = { "f/", "f/dog/", "f/cat/", "f/cat/more/", "f/ape/" };
  static const char *const files[] = { "f/dog/b.JPG", "f/cat/z.png",      "f/dog/a.jpeg",
                                       "f/cat/a.jpg", "f/cat/more/1.png", "f/cat/no.txt",
                                       "f/stray.jpg", "f/cat/.hidden.png" };
  static const char *const order[] = { "cat/a.jpg", "cat/more/1.png", "cat/z.png", "dog/a.jpeg",
                                       "dog/b.JPG" };
  static const int64_t labels[] = { 1, 1, 1, 2, 2 };
  for (int i = 0; i < 5; i++) CHECK(!mkdir(test_tmp(made[i]), 0700));
  for (int i = 0; i < 8; i++) test_write(test_tmp(files[i]), files[i] + 2, strlen(files[i]) - 2);
  expected e = { .count = 0 };
  for (int i = 0; i < 5; i++) expect(&e, order[i], (int64_t)strlen(order[i]));
  tsr_scope *s = tsr_scope_open(rt);
  tsr_source *images = tsr_source_folder(s, test_tmp("f"), .names = true);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  for (uint64_t seed = 0; seed < 6; seed++) {
    check_source(images, "image", &e, seed);
    check_source(images, "name", &e, seed);
  }
  int64_t found[5];
  tsr_pipeline *p = tsr_pipeline_open(tsr_source_select(images, "label"), .batch_size = 5);
  tsr_batch *b = tsr_pipeline_next(p);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "label"), found, sizeof found), TSR_OK, s);
  CHECK_BYTES(found, labels, sizeof labels);
  tsr_batch_release(b);
  CHECK_I64(tsr_pipeline_close(p), TSR_OK);
  tsr_source *mixed = tsr_source_shuffle(images, .seed = 1);
  CHECK_I64(tsr_source_class_count(mixed), 3);
  CHECK_STR(tsr_source_class_name(mixed, 0), "ape");
  CHECK_STR(tsr_source_class_name(mixed, 2), "dog");
  CHECK(!tsr_source_class_name(mixed, 3) && !tsr_source_class_name(mixed, -1));
  CHECK_I64(tsr_source_class_count(tsr_source_range(s, 3)), 0);
  test_write(test_tmp("f/dog/a.jpeg"), "a longer file than it was", 25);
  CHECK_STATUS(read_lines(images), TSR_EVALUE, NULL);
  CHECK_STR_HAS(tsr_message(s), "f/dog/a.jpeg: has 25 bytes, expected at most ");
  tsr_scope_clear(s);
  CHECK(!remove(test_tmp("f/cat/a.jpg")));
  CHECK_STATUS(read_lines(images), TSR_EIO, NULL);
  CHECK_STR_HAS(tsr_message(s), "f/cat/a.jpg: cannot open");
  tsr_scope_clear(s);
  CHECK(!symlink("..", test_tmp("f/cat/loop")));
  CHECK(tsr_source_folder(s, test_tmp("f"), .endings = "txt"));
  CHECK_STATUS(tsr_scope_status(s), TSR_EIO, s);
  CHECK_STR_HAS(tsr_message(s), "folders deep; does a link form a loop?");
  forget(&e);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
