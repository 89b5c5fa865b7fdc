/* Any bytes as a .npy file: never a crash; its elements can be read to the last byte, and written
 * and read again gives the same; in memory it is the same array as in a file, and an array on three
 * devices holds its values. */
#include "io/npy/npyfile.h"

#include "fuzz.h"
#include "tessera.h"

static size_t bytes_of(const tsr__npy *npy)
{
  size_t bytes = tsr_dtype_size(npy->dtype);
  for (int d = 0; d < npy->shape.rank; d++)
    if (npy->shape.dims[d] == 0) return 0;
  for (int d = 0; d < npy->shape.rank; d++) bytes *= (size_t)npy->shape.dims[d];
  return bytes;
}

static void same_array(const tsr__npy *a, const tsr__npy *b)
{
  size_t bytes = bytes_of(a);
  REQUIRE(a->dtype == b->dtype && a->shape.rank == b->shape.rank && bytes == bytes_of(b));
  for (int d = 0; d < a->shape.rank; d++) REQUIRE(a->shape.dims[d] == b->shape.dims[d]);
  REQUIRE(!bytes || !memcmp(a->data, b->data, bytes));
}

/* A file's array in memory; release `data`. */
static tsr_status load(const char *path, tsr__npy *npy, tsr__error *error)
{
  tsr__npy_file file;
  tsr_status status = tsr__npy_open(path, &file, npy, error);
  if (status) return status;
  REQUIRE(file.data_size == (int64_t)bytes_of(npy) && file.data_at + file.data_size <= file.size);
  char *data = malloc((size_t)file.data_size + 1);
  REQUIRE(!tsr__npy_read(&file, data, 0, file.data_size, error));
  npy->data = data;
  tsr__npy_close(&file);
  return TSR_OK;
}

/* Whether the same bytes in memory, where they may be moved, are the same array. */
static void check_memory(const uint8_t *data, size_t size, const tsr__npy *read)
{
  tsr__error error = { 0 };
  tsr__npy npy;
  char *copy = fuzz_text(data, size);
  if (tsr__npy_in("memory", copy, (int64_t)size, &npy, &error)) {
    fuzz_message(error.text, sizeof error.text);
    REQUIRE(!read);
  } else {
    REQUIRE(read && (const char *)npy.data >= copy);
    REQUIRE((const char *)npy.data + bytes_of(&npy) <= copy + size);
    REQUIRE((uintptr_t)npy.data % tsr_dtype_size(npy.dtype) == 0);
    same_array(read, &npy);
  }
  free(copy);
}

static void check_again(const tsr__npy *npy)
{
  char header[TSR__NPY_HEADER], path[FUZZ_PATH];
  tsr__npy_sizes sizes;
  tsr__error error = { 0 };
  tsr__npy again;
  REQUIRE(!tsr__npy_header("again", npy, header, &sizes, &error));
  REQUIRE(sizes.data == bytes_of(npy) && sizes.header % 64 == 0 && sizes.header <= sizeof header);
  int fd = fuzz_file(header, sizes.header, path);
  REQUIRE(!sizes.data || write(fd, npy->data, sizes.data) == (ssize_t)sizes.data);
  REQUIRE(!load(path, &again, &error));
  same_array(npy, &again);
  free((void *)again.data);
  close(fd);
}

/* Whether an array has no elements, but dims whose product leaves 64 bits: no placement has
 * that. */
static bool beyond(const tsr__npy *npy)
{
  int64_t count = 8;
  for (int d = 0; d < npy->shape.rank; d++)
    if (npy->shape.dims[d] && __builtin_mul_overflow(count, npy->shape.dims[d], &count))
      return true;
  return false;
}

/* Through the public call, with the first dim split. */
static void check_devices(const char *path, const tsr__npy *npy)
{
  static tsr_runtime *rt;
  if (!rt) rt = tsr_runtime_open("cpu:3", .threads = 1);
  size_t bytes = npy ? bytes_of(npy) : 0;
  tsr_scope *s = tsr_scope_open(rt);
  bool split = npy && npy->shape.rank;
  tsr_array *x = tsr_load_npy(s, path, tsr_on(tsr_mesh_default(rt, "x"), split ? "x" : "-"));
  char *values = malloc(bytes + 1);
  tsr_status status = tsr_read(x, values, bytes);
  REQUIRE(!status == (npy != NULL) || (npy && beyond(npy)));
  if (status) fuzz_message(tsr_message(s), 2000);
  if (!status && npy->dtype == TSR_BOOL)
    for (size_t i = 0; i < bytes; i++)
      REQUIRE(!values[i] == !((const char *)npy->data)[i] && (values[i] & ~1) == 0);
  else if (!status) REQUIRE(!bytes || !memcmp(values, npy->data, bytes));
  free(values);
  tsr_scope_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char path[FUZZ_PATH];
  tsr__npy npy = { 0 };
  tsr__error error = { 0 };
  int fd = fuzz_file(data, size, path);
  if (load(path, &npy, &error)) {
    fuzz_message(error.text, sizeof error.text);
    REQUIRE(!npy.data);
    check_memory(data, size, NULL);
    check_devices(path, NULL);
  } else {
    REQUIRE(bytes_of(&npy) <= size && npy.shape.rank <= TSR_MAX_RANK);
    check_memory(data, size, &npy);
    check_again(&npy);
    check_devices(path, &npy);
    free((void *)npy.data);
  }
  close(fd);
  return 0;
}
