/* Any bytes as a .npy file: never a crash; what is mapped can be read to its last byte and
 * written again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/npyfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)     \
  do {                         \
    if (!(condition)) abort(); \
  } while (0)

static size_t bytes_of(const tsr__npy *npy)
{
  size_t bytes = tsr_dtype_size(npy->dtype);
  for (int d = 0; d < npy->shape.rank; d++)
    if (npy->shape.dims[d] == 0) return 0;
  for (int d = 0; d < npy->shape.rank; d++) bytes *= (size_t)npy->shape.dims[d];
  return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char path[64];
  tsr__npy npy = { 0 };
  tsr__error error = { 0 };
  int fd = memfd_create("npy", 0);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (tsr__npy_map(path, &npy, &error)) {
    REQUIRE(error.text[0] && !npy.map);
  } else {
    size_t bytes = bytes_of(&npy);
    unsigned sum = 0;
    REQUIRE(bytes <= size && npy.shape.rank <= TSR_MAX_RANK);
    REQUIRE((uintptr_t)npy.data % tsr_dtype_size(npy.dtype) == 0);
    for (size_t i = 0; i < bytes; i++) sum += ((const unsigned char *)npy.data)[i];
    REQUIRE(sum <= 255 * bytes);
    tsr__npy_unmap(&npy);
  }
  close(fd);
  return 0;
}
