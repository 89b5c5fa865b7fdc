/* Any bytes as a .npz archive: never a crash or a leak; what is read of a member is as long as its
 * directory says and has its checksum, and memory stays near what the file's size allows. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/npyfile.h"
#include "io/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)     \
  do {                         \
    if (!(condition)) abort(); \
  } while (0)

static void read_member(const tsr__zip *zip, int i, size_t file_size)
{
  const tsr__zip_member *member = &zip->member[i];
  tsr__error error = { 0 };
  tsr__npy npy;
  char *bytes;
  REQUIRE(member->size >= 0 && (uint64_t)member->size <= (uint64_t)file_size * 1033);
  if (tsr__zip_read(zip, i, &bytes, &error)) {
    REQUIRE(error.text[0]);
    return;
  }
  REQUIRE(tsr__zip_crc(0, bytes, (size_t)member->size) == member->crc);
  if (!tsr__npy_in(member->name, bytes, member->size, &npy, &error)) {
    const char *data = npy.data;
    REQUIRE(data >= bytes && data <= bytes + member->size);
    REQUIRE((uintptr_t)data % tsr_dtype_size(npy.dtype) == 0);
  } else {
    REQUIRE(error.text[0]);
  }
  tsr__del(zip->heap, bytes, (size_t)member->size + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char path[64];
  tsr__heap heap;
  tsr__zip zip;
  tsr__error error = { 0 };
  tsr__heap_init(&heap, NULL);
  int fd = memfd_create("npz", 0);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (tsr__zip_open(&heap, path, &zip, &error)) {
    REQUIRE(error.text[0]);
  } else {
    for (int i = 0; i < zip.count && i < 20; i++) read_member(&zip, i, size);
    tsr__zip_close(&zip);
  }
  REQUIRE(heap.live == 0);
  close(fd);
  return 0;
}
