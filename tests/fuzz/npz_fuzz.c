/* Any bytes as a .npz archive: never a crash or a leak; what is read of a member is as long as its
 * directory says and has its checksum, and memory stays near what the file's size allows. Since
 * chance makes no checksums, the same bytes are tried a second time with checksums and sizes that
 * are right. */
#include <zlib.h>

#include "fuzz.h"
#include "io/npy/npyfile.h"
#include "io/npy/zip.h"
#include "tessera.h"

enum { MOST_MEMBERS = 20 };

static void read_member(const tsr__zip *zip, int i, size_t file_size)
{
  const tsr__zip_member *member = &zip->member[i];
  tsr__error error = { 0 };
  tsr__npy npy;
  char *bytes;
  REQUIRE(member->size >= 0 && (uint64_t)member->size <= (uint64_t)file_size * 1033);
  if (tsr__zip_read(zip, i, &bytes, &error)) {
    fuzz_message(error.text, sizeof error.text);
    return;
  }
  REQUIRE(tsr__zip_crc(0, bytes, (size_t)member->size, NULL) == member->crc);
  if (!tsr__npy_in(member->name, bytes, member->size, &npy, &error)) {
    const char *data = npy.data;
    REQUIRE(data >= bytes && data <= bytes + member->size);
    REQUIRE((uintptr_t)data % tsr_dtype_size(npy.dtype) == 0);
  } else {
    fuzz_message(error.text, sizeof error.text);
  }
  tsr__del(zip->heap, bytes, (size_t)member->size + 1);
}

/* By the internal calls; the number of members, -1 where it is no archive. */
static int read_members(const char *path, size_t size)
{
  tsr__heap heap;
  tsr__zip zip;
  tsr__error error = { 0 };
  int count = -1;
  tsr__heap_init(&heap, NULL);
  if (tsr__zip_open(&heap, path, &zip, &error)) {
    fuzz_message(error.text, sizeof error.text);
  } else {
    count = zip.count;
    for (int i = 0; i < count && i < MOST_MEMBERS; i++) read_member(&zip, i, size);
    tsr__zip_close(&zip);
  }
  REQUIRE(heap.live == 0);
  return count;
}

/* By the public calls, to three devices. */
static void read_arrays(const char *path, int count)
{
  static tsr_runtime *rt;
  if (!rt) rt = tsr_runtime_open("cpu:3", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_npz *npz = tsr_load_npz(s, path);
  REQUIRE(!tsr_scope_status(s) == (count >= 0) && tsr_npz_count(npz) <= (count > 0 ? count : 0));
  for (int i = 0; i < tsr_npz_count(npz) && i < MOST_MEMBERS; i++) {
    tsr_array *x = tsr_npz_array(npz, tsr_npz_name(npz, i), (tsr_sharding){ 0 });
    if (tsr_eval(&x, 1)) fuzz_message(tsr_message(s), 2000);
    tsr_scope_clear(s);
  }
  tsr_scope_close(s);
}

/* ---- checksums that are right ---------------------------------------------------------------- */

static uint32_t get(const uint8_t *at, int bytes)
{
  uint32_t value = 0;
  for (int i = 0; i < bytes; i++) value |= (uint32_t)at[i] << 8 * i;
  return value;
}

static void put(uint8_t *at, uint32_t value)
{
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> 8 * i);
}

/* Unpacks what stands at `from`; sizes and checksum of what came out, to `entry`. */
static void mend_deflated(uint8_t *entry, const uint8_t *from, size_t packed)
{
  enum { ROOM = 1 << 16 };
  static uint8_t room[ROOM];
  z_stream z = { .next_in = (uint8_t *)(uintptr_t)from,
                 .avail_in = (unsigned)packed,
                 .next_out = room,
                 .avail_out = ROOM };
  REQUIRE(inflateInit2(&z, -15) == Z_OK);
  if (inflate(&z, Z_FINISH) == Z_STREAM_END) {
    put(entry + 16, (uint32_t)crc32(0, room, (unsigned)z.total_out));
    put(entry + 20, (uint32_t)z.total_in);
    put(entry + 24, (uint32_t)z.total_out);
  }
  inflateEnd(&z);
}

/* One entry of the directory, as far as what it points to lies in the file. */
static void mend_entry(uint8_t *bytes, size_t size, uint8_t *entry)
{
  size_t at = get(entry + 42, 4), packed = get(entry + 20, 4);
  if (at > size || size - at < 30) return;
  size_t from = at + 30 + get(bytes + at + 26, 2) + get(bytes + at + 28, 2);
  if (from > size || packed > size - from) return;
  if (get(entry + 10, 2) == 8) {
    mend_deflated(entry, bytes + from, packed);
  } else {
    put(entry + 16, (uint32_t)crc32(0, bytes + from, (unsigned)packed));
    put(entry + 24, (uint32_t)packed);
  }
  memmove(bytes + at + 14, entry + 16, 12);
}

static void mend(uint8_t *bytes, size_t size)
{
  for (size_t i = 0; i + 46 <= size; i++)
    if (memcmp(bytes + i, "PK\1\2", 4) == 0) mend_entry(bytes, size, bytes + i);
}

static void run(const void *bytes, size_t size)
{
  char path[FUZZ_PATH];
  int fd = fuzz_file(bytes, size, path), count = read_members(path, size);
  read_arrays(path, count);
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  run(data, size);
  char *copy = fuzz_text(data, size);
  mend((uint8_t *)copy, size);
  if (size && memcmp(copy, data, size)) run(copy, size);
  free(copy);
  return 0;
}
