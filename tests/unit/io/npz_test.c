/* .npz archives: what NumPy writes and reads, sizes beyond 32 bits, directories that lie. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "harness.h"
#include "io/npy/zip.h"
#include "support/allocations.h"
#include "tessera.h"

TEST(what_is_saved_is_read)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_scope *s = tsr_scope_open(rt);
  static const double f[10] = { 0, 0.1, -2, 3, 4, 5, 6, 7, 8, 9 };
  static const bool b[3] = { true, false, true };
  tsr_array *x = tsr_put(s, f, TSR_F64, TSR_SHAPE(5, 2), tsr_on(mesh, "x"));
  tsr_array *y = tsr_put(s, b, TSR_BOOL, TSR_SHAPE(3), tsr_on(mesh, "x"));
  tsr_array *z = tsr_cast(tsr_sum(x), TSR_I32),
            *e = tsr_iota(s, TSR_I64, TSR_SHAPE(0), 0, tsr_on(mesh, "x"));
  const char *path = test_tmp("a.npz");
  CHECK_STATUS(tsr_save_npz(s, path, { "x", x }, { "a/y", y }, { "\xc3\xa9", z }, { "e", e }),
               TSR_OK, s);
  tsr_npz *npz = tsr_load_npz(s, path);
  CHECK_I64(tsr_npz_count(npz), 4);
  CHECK_STR(tsr_npz_name(npz, 0), "x");
  CHECK_STR(tsr_npz_name(npz, 1), "a/y");
  CHECK_STR(tsr_npz_name(npz, 2), "\xc3\xa9");
  CHECK_STR(tsr_npz_name(npz, 4), NULL);
  double found[10];
  bool bools[3];
  CHECK_STATUS(tsr_read(tsr_npz_array(npz, "x", tsr_on(mesh, "x")), found, sizeof found), TSR_OK,
               s);
  CHECK_BYTES(found, f, sizeof f);
  CHECK_STATUS(tsr_read(tsr_npz_array(npz, "a/y", tsr_on(mesh, "-")), bools, sizeof bools), TSR_OK,
               s);
  CHECK_BYTES(bools, b, sizeof b);
  int32_t one;
  CHECK_STATUS(tsr_read(tsr_npz_array(npz, "\xc3\xa9", tsr_on(mesh, "-")), &one, sizeof one),
               TSR_OK, s);
  CHECK_I64(one, 40);
  CHECK_STATUS(tsr_eval(&(tsr_array *){ tsr_npz_array(npz, "e", tsr_on(mesh, "x")) }, 1), TSR_OK,
               s);
  CHECK(tsr_is_inert(tsr_npz_array(npz, "X", tsr_on(mesh, "x"))));
  CHECK_STR_HAS(tsr_message(s), "a.npz holds no array 'X'; did you mean 'x'?");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_save_npz(s, path, { "x", x }, { "x", y }), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "tsr_save_npz: two items are named 'x'");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_save_npz(s, path, { "x", NULL }), TSR_EARG, NULL);
  CHECK_STATUS(tsr_save_npz(s, path, { "", x }), TSR_EARG, NULL);
  CHECK_STATUS(tsr_save_npz(s, test_tmp("no/a.npz"), { "x", x }), TSR_EIO, NULL);
  CHECK_I64(tsr_npz_count(tsr_load_npz(s, test_tmp("none"))), 0);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(other_formats_are_named)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const char *path = test_tmp("x.npz");
  test_write(path, "PAR1\x15\x04\x15\x10PAR1", 12);
  CHECK_I64(tsr_npz_count(tsr_load_npz(s, path)), 0);
  CHECK_STR_HAS(tsr_message(s),
                "x.npz: is Parquet, not a .npz archive; this format is not supported yet");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_load_npy(s, path, (tsr_sharding){ 0 })));
  CHECK_STR_HAS(tsr_message(s), "x.npz: is Parquet, not a .npy file; this format is not supported");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* The format has no bf16; f32 has all of its values. */
TEST(bf16_is_saved_as_f32)
{
  static const uint16_t values[5] = { 0x3f80, 0xc040, 0x7f7f, 0x0001, 0xff80 };
  static const float expected[5] = { 1, -3, 0x1.fep127f, 0x1p-133f, -INFINITY };
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_default(rt, "x"), "x");
  tsr_array *x = tsr_put(s, values, TSR_BF16, TSR_SHAPE(5), on);
  CHECK_STATUS(tsr_save_npz(s, test_tmp("h.npz"), { "x", x }), TSR_OK, s);
  CHECK_STATUS(tsr_save_npy(x, test_tmp("h.npy")), TSR_OK, s);
  tsr_array *back[2] = { tsr_npz_array(tsr_load_npz(s, test_tmp("h.npz")), "x", on),
                         tsr_load_npy(s, test_tmp("h.npy"), on) };
  for (int i = 0; i < 2; i++) {
    float found[5];
    CHECK_I64(tsr_dtype_of(back[i]), TSR_F32);
    CHECK_STATUS(tsr_read(back[i], found, sizeof found), TSR_OK, s);
    CHECK_BYTES(found, expected, sizeof found);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static bool save_and_read(tsr_runtime *rt, bool fails, const void *user)
{
  static const double f[3] = { 1, 2, 3 };
  const char *path = user;
  double found[3] = { 0 };
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, f, TSR_F64, TSR_SHAPE(3), tsr_on(tsr_mesh_default(rt, NULL), "-"));
  tsr_status status = tsr_save_npz(s, path, { "x", x }, { "y", x });
  tsr_npz *npz = tsr_load_npz(s, path);
  tsr_array *y = tsr_npz_array(npz, "y", (tsr_sharding){ 0 });
  tsr_status read = tsr_read(y, found, sizeof found);
  if (!status && read != TSR_OK) status = read;
  if (fails && status) CHECK_STATUS(status, TSR_ENOMEM, s);
  else CHECK_STATUS(status, TSR_OK, s);
  if (!status) CHECK_BYTES(found, f, sizeof f); /* some memory can be done without */
  tsr_scope_close(s);
  return status != TSR_OK;
}

TEST_TIMEOUT(any_allocation_may_fail, 300)
{
  CHECK(each_allocation_fails("cpu:2", save_and_read, test_tmp("a.npz")) > 10);
}

/* ---- archives by hand ------------------------------------------------------------------------ */

/* One member "a.npy" of an i32 array of `count` zeros. */
typedef struct archive {
  char *bytes;
  size_t length, entry; /* where the directory begins */
} archive;

static archive make(tsr__heap *heap, bool deflated)
{
  char npy[128 + 400] = { 0 };
  memcpy(npy, "\x93NUMPY\x01\x00\x76\x00", 10);
  snprintf(npy + 10, 119, "%-117s\n",
           "{'descr': '<i4', 'fortran_order': False, 'shape': (100,), }");
  memset(npy + 128, 0, 400);
  const char *path = test_tmp("made.npz");
  tsr__error error = { 0 };
  tsr__zip_writer writer;
  archive a = { 0 };
  CHECK_STATUS(tsr__zip_begin(heap, path, NULL, &writer, &error), TSR_OK, NULL);
  uint32_t crc = tsr__zip_crc(0, npy, sizeof npy, NULL);
  char packed[1000];
  size_t size = sizeof npy;
  if (deflated) {
    z_stream z = { 0 };
    CHECK_I64(deflateInit2(&z, 6, Z_DEFLATED, -15, 8, 0), Z_OK);
    z.next_in = (Bytef *)npy;
    z.avail_in = sizeof npy;
    z.next_out = (Bytef *)packed;
    z.avail_out = sizeof packed;
    CHECK_I64(deflate(&z, Z_FINISH), Z_STREAM_END);
    size = z.total_out;
    deflateEnd(&z);
  }
  CHECK_STATUS(tsr__zip_add(&writer, "a.npy", (int64_t)size, crc, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__out_put(writer.out, deflated ? packed : npy, size, &error), TSR_OK, NULL);
  a.entry = (size_t)tsr__out_length(writer.out);
  CHECK_STATUS(tsr__zip_end(&writer, true, &error), TSR_OK, NULL);
  a.bytes = test_read(path, &a.length);
  if (deflated) { /* method 8 and the true size, in both places */
    a.bytes[8] = a.bytes[a.entry + 10] = 8;
    memcpy(a.bytes + 22, &(uint32_t){ sizeof npy }, 4);
    memcpy(a.bytes + a.entry + 24, &(uint32_t){ sizeof npy }, 4);
  }
  return a;
}

static tsr_status try_archive(tsr__heap *heap, const char *bytes, size_t length, tsr__error *error)
{
  tsr__zip zip;
  char *data;
  const char *path = test_tmp("tried.npz");
  test_write(path, bytes, length);
  *error = (tsr__error){ 0 };
  tsr_status status = tsr__zip_open(heap, path, &zip, error);
  for (int i = 0; i < zip.count && !status; i++) {
    status = tsr__zip_read(&zip, i, &data, error);
    if (!status) tsr__del(heap, data, (size_t)zip.member[i].size + 1);
  }
  tsr__zip_close(&zip);
  CHECK_I64(heap->live, 0);
  if (status) CHECK_STR_HAS(error->text, "tried.npz");
  return status;
}

TEST(stored_and_deflated_members_are_read)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__error error;
  for (int deflated = 0; deflated < 2; deflated++) {
    archive a = make(&heap, deflated);
    CHECK_STATUS(try_archive(&heap, a.bytes, a.length, &error), TSR_OK, NULL);
    for (size_t cut = 0; cut < a.length; cut++)
      CHECK_STATUS(try_archive(&heap, a.bytes, cut, &error), TSR_EPARSE, NULL);
    char *longer = calloc(a.length + 10, 1);
    memcpy(longer, a.bytes, a.length);
    CHECK_STATUS(try_archive(&heap, longer, a.length + 10, &error), TSR_EPARSE, NULL);
    longer[a.length - 2] = 10; /* a comment of ten bytes */
    CHECK_STATUS(try_archive(&heap, longer, a.length + 10, &error), TSR_OK, NULL);
    free(longer);
    free(a.bytes);
  }
}

/* Every field of every record with other values: a clear refusal or the right bytes. */
TEST_TIMEOUT(no_byte_is_believed, 300)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  static const unsigned char values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
  for (int deflated = 0; deflated < 2; deflated++) {
    archive a = make(&heap, deflated);
    for (size_t at = 0; at < a.length; at++) {
      if (at == 64 && !deflated) at = a.entry;
      for (int v = 0; v < 5; v++) {
        char kept = a.bytes[at];
        a.bytes[at] = (char)values[v];
        tsr__error error;
        tsr_status status = try_archive(&heap, a.bytes, a.length, &error);
        if (status != TSR_OK && status != TSR_EPARSE && status != TSR_EUNSUPPORTED)
          FAIL("byte %zu = %02x: %s", at, values[v], error.text);
        a.bytes[at] = kept;
      }
    }
    free(a.bytes);
  }
}

static void check_patch(size_t at, const char *patch, size_t length, tsr_status expected,
                        const char *part)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  archive a = make(&heap, false);
  tsr__error error;
  memcpy(a.bytes + a.entry + at, patch, length);
  CHECK_STATUS(try_archive(&heap, a.bytes, a.length, &error), expected, NULL);
  CHECK_STR_HAS(error.text, part);
  free(a.bytes);
}

TEST(hostile_directories_are_refused)
{
  check_patch(8, "\x01\x08", 2, TSR_EUNSUPPORTED, "member 'a.npy' is encrypted");
  check_patch(10, "\x0c", 1, TSR_EUNSUPPORTED, "compressed by method 12");
  check_patch(10, "\x08", 1, TSR_EPARSE, "does not match the directory");
  check_patch(24, "\xf0\xff\xff\x7f", 4, TSR_EPARSE, "size is larger than its data can be");
  check_patch(20, "\xf0\xff\xff\x7f\xf0\xff\xff\x7f", 8, TSR_EPARSE, "before the directory");
  check_patch(42, "\xf0\xff\xff\x7f", 4, TSR_EPARSE, "before the directory");
  check_patch(24, "\xff\xff\xff\xff", 4, TSR_EPARSE, "an extra field is cut off");
  check_patch(16, "\0\0\0\0", 4, TSR_EPARSE, "'a.npy' is damaged: its bytes have another CRC-32");
  check_patch(46, "\0", 1, TSR_EPARSE, "name is empty or not UTF-8");
  check_patch(46, "\xff", 1, TSR_EPARSE, "name is empty or not UTF-8");
}

/* A deflated member that says it is small, and one that says it is large. */
TEST(members_unpack_to_what_they_say_or_not_at_all)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  archive a = make(&heap, true);
  tsr__error error;
  for (int change = -1; change <= 1; change += 2) {
    uint32_t size = (uint32_t)(528 + change);
    memcpy(a.bytes + a.entry + 24, &size, 4);
    CHECK_STATUS(try_archive(&heap, a.bytes, a.length, &error), TSR_EPARSE, NULL);
    CHECK_STR_HAS(error.text, "does not unpack to the expected number of bytes");
  }
  uint32_t bomb = 0x70000000;
  memcpy(a.bytes + a.entry + 24, &bomb, 4);
  CHECK_STATUS(try_archive(&heap, a.bytes, a.length, &error), TSR_EPARSE, NULL);
  CHECK_STR_HAS(error.text, "size is larger than its data can be");
  free(a.bytes);
}

/* ---- beyond 4 GiB ---------------------------------------------------------------------------- */

/* Zeros become holes. */
static int64_t sparse_write(void *user, int fd, const void *from, size_t length)
{
  const char *bytes = from;
  (void)user;
  if (length >= 4096 && bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0)
    return lseek(fd, (off_t)length, SEEK_CUR) < 0 ? -1 : (int64_t)length;
  return write(fd, from, length);
}

TEST_TIMEOUT(sizes_beyond_32_bits_are_zip64, 300)
{
  enum { PIECE = 16 << 20 };
  const int64_t size = (INT64_C(4) << 30) + 5;
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  char *zeros = calloc(PIECE, 1);
  tsr__zip_writer writer;
  tsr__error error = { 0 };
  const char *path = test_tmp("large.npz");
  CHECK_STATUS(tsr__zip_begin(&heap, path, &(tsr__out_opts){ .write = sparse_write }, &writer,
                              &error),
               TSR_OK, NULL);
  for (int member = 0; member < 2; member++) {
    CHECK_STATUS(tsr__zip_add(&writer, member ? "b.npy" : "a.npy", size, 7, &error), TSR_OK, NULL);
    for (int64_t left = size; left > 0; left -= PIECE)
      CHECK_STATUS(tsr__out_put(writer.out, zeros, left < PIECE ? (size_t)left : PIECE, &error),
                   TSR_OK, NULL);
  }
  uint32_t crc = tsr__zip_crc(0, "tail", 4, NULL);
  CHECK_STATUS(tsr__zip_add(&writer, "c.npy", 4, crc, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__out_put(writer.out, "tail", 4, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__zip_end(&writer, true, &error), TSR_OK, NULL);
  tsr__zip zip;
  CHECK_STATUS(tsr__zip_open(&heap, path, &zip, &error), TSR_OK, NULL);
  CHECK_I64(zip.count, 3);
  CHECK_I64(zip.member[0].size, size);
  CHECK_I64(zip.member[1].size, size);
  CHECK_I64(zip.member[1].at, size + 30 + 5 + 20);
  CHECK_I64(zip.member[2].at, 2 * (size + 30 + 5 + 20));
  char *data;
  CHECK_STATUS(tsr__zip_read(&zip, 2, &data, &error), TSR_OK, NULL);
  CHECK_BYTES(data, "tail", 4);
  tsr__del(&heap, data, 5);
  tsr__zip_close(&zip);
  struct stat info;
  CHECK(!stat(path, &info) && info.st_blocks < 100000); /* it is sparse */
  char command[5000];
  snprintf(command, sizeof command,
           "command -v unzip >/dev/null || exit 0; unzip -l %s | grep -q '4294967301.*b.npy'",
           path);
  CHECK_I64(system(command), 0);
  CHECK_I64(heap.live, 0);
  free(zeros);
}

TEST(many_members_need_zip64_too)
{
  enum { MANY = 70000 };
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__zip_writer writer;
  tsr__error error = { 0 };
  const char *path = test_tmp("many.npz");
  CHECK_STATUS(tsr__zip_begin(&heap, path, NULL, &writer, &error), TSR_OK, NULL);
  for (int i = 0; i < MANY; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d.npy", i);
    CHECK_STATUS(tsr__zip_add(&writer, name, 0, 0, &error), TSR_OK, NULL);
  }
  CHECK_STATUS(tsr__zip_end(&writer, true, &error), TSR_OK, NULL);
  tsr__zip zip;
  CHECK_STATUS(tsr__zip_open(&heap, path, &zip, &error), TSR_OK, NULL);
  CHECK_I64(zip.count, MANY);
  CHECK_STR(zip.member[MANY - 1].name, "69999.npy");
  tsr__zip_close(&zip);
  CHECK_I64(heap.live, 0);
}

/* ---- .npy files on meshes -------------------------------------------------------------------- */

static void check_npy(tsr_scope *s, tsr_mesh *mesh, tsr_shape shape, tsr_dtype dtype)
{
  static const char *const specs[] = { "x", "y", "x+y", "-", "-,x", "x,y", "y,x" };
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  size_t bytes = (size_t)count * tsr_dtype_size(dtype);
  unsigned char *data = malloc(bytes + 1), *found = malloc(bytes + 1);
  for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)(i * 2654435761u >> 13 & 1);
  const char *path = test_tmp("slabs.npy");
  tsr_array *x = tsr_put(s, data, dtype, shape, tsr_on(mesh, "-"));
  CHECK_STATUS(tsr_save_npy(x, path), TSR_OK, s);
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
    if (shape.rank < (strchr(specs[i], ',') ? 2 : specs[i][0] != '-')) continue;
    memset(found, 7, bytes);
    CHECK_STATUS(tsr_read(tsr_load_npy(s, path, tsr_on(mesh, specs[i])), found, bytes), TSR_OK, s);
    CHECK_BYTES(found, data, bytes);
  }
  free(data);
  free(found);
}

/* Rows shorter and longer than what is read at once, in every kind of part. */
TEST(npy_files_reach_every_part)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:6");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=3");
  static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_I32, TSR_F64 };
  for (int i = 0; i < 3; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    check_npy(s, mesh, TSR_SHAPE(700001), dtypes[i]);
    check_npy(s, mesh, TSR_SHAPE(50021, 7), dtypes[i]);
    check_npy(s, mesh, TSR_SHAPE(5, 300007), dtypes[i]);
    check_npy(s, mesh, TSR_SHAPE(2, 301, 3), dtypes[i]);
    check_npy(s, mesh, TSR_SHAPE(1), dtypes[i]);
    check_npy(s, mesh, TSR_SHAPE(0, 3), dtypes[i]);
    check_npy(s, mesh, (tsr_shape){ 0 }, dtypes[i]);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
