/* .npy files: what NumPy writes, what it never would, and what is written here. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "io/npy/npyfile.h"

/* A file of a version with a header's text and data. */
static const char *make(int version, const char *header, const void *data, size_t length)
{
  const char *path = test_tmp("x.npy");
  FILE *file = fopen(path, "wb");
  size_t n = strlen(header);
  CHECK(file != NULL);
  fwrite("\x93NUMPY", 1, 6, file);
  fputc(version, file);
  fputc(0, file);
  for (int i = 0; i < (version == 1 ? 2 : 4); i++) fputc((int)(n >> (8 * i) & 0xff), file);
  fwrite(header, 1, n, file);
  if (length) fwrite(data, 1, length, file);
  CHECK_I64(fclose(file), 0);
  return path;
}

static tsr_status save(const char *path, tsr_dtype dtype, const tsr_shape *shape, const void *data,
                       tsr__error *error)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__npy array = { .dtype = dtype, .shape = *shape, .data = data };
  tsr_status status = tsr__npy_write(&heap, path, &array, NULL, error);
  CHECK_I64(heap.live, 0);
  return status;
}

/* A file's array in memory; release `data`. */
static tsr_status load(const char *path, tsr__npy *npy, tsr__error *error)
{
  tsr__npy_file file;
  tsr_status status = tsr__npy_open(path, &file, npy, error);
  if (status) return status;
  char *data = malloc((size_t)file.data_size + 1);
  status = tsr__npy_read(&file, data, 0, file.data_size, error);
  npy->data = data;
  tsr__npy_close(&file);
  return status;
}

static void unload(tsr__npy *npy)
{
  free((void *)npy->data);
}

static void check_bad(const char *path, tsr_status status, const char *part)
{
  tsr__npy npy = { .dtype = 42 };
  tsr__npy_file file;
  tsr__error error = { 0 };
  CHECK_STATUS(tsr__npy_open(path, &file, &npy, &error), status, NULL);
  CHECK_STR_HAS(error.text, part);
  CHECK_STR_HAS(error.text, path);
  CHECK_U64(npy.dtype, 42);
  CHECK_I64(file.fd, -1);
}

static void check_header(const char *header, tsr_status status, const char *part)
{
  check_bad(make(1, header, "12345678", 8), status, part);
}

/* Written by numpy.save(numpy.arange(6, dtype="f4").reshape(2, 3)) of NumPy 1.24. */
TEST(reads_what_numpy_writes)
{
  char header[119];
  snprintf(header, sizeof header, "%-117s\n",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  static const float data[6] = { 0, 1, 2, 3, 4, 5 };
  tsr__npy npy;
  tsr__error error = { 0 };
  CHECK_STATUS(load(make(1, header, data, sizeof data), &npy, &error), TSR_OK, NULL);
  CHECK_I64(npy.dtype, TSR_F32);
  CHECK_I64(npy.shape.rank, 2);
  CHECK_I64(npy.shape.dims[0], 2);
  CHECK_I64(npy.shape.dims[1], 3);
  CHECK_BYTES(npy.data, data, sizeof data);
  unload(&npy);
}

TEST(all_versions_and_odd_offsets)
{
  static const double data[2] = { 1.5, -2.5 };
  char header[128];
  for (int version = 1; version <= 3; version++)
    for (int pad = 0; pad < 16; pad++) {
      snprintf(header, sizeof header,
               "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}%*s\n", pad, "");
      tsr__npy npy;
      tsr__error error = { 0 };
      CHECK_STATUS(load(make(version, header, data, sizeof data), &npy, &error), TSR_OK, NULL);
      CHECK_BYTES(npy.data, data, sizeof data);
      unload(&npy);
    }
}

TEST(headers_in_other_spellings)
{
  static const char *const good[] = {
    "{'descr':'<i8','fortran_order':False,'shape':(1,)}",
    "{\"shape\": (1L,), \"fortran_order\": True, \"descr\": \"<i8\", }   \n",
    "  { 'descr' : '<i8' , 'fortran_order' : True , 'shape' : ( 1 , 1 ) , } \n\n",
    "{'descr': '<i8', 'fortran_order': False, 'shape': ()}",
  };
  static const int64_t value = 77;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    tsr__npy npy;
    tsr__error error = { 0 };
    if (load(make(1, good[i], &value, 8), &npy, &error)) FAIL("%s", error.text);
    CHECK_BYTES(npy.data, &value, 8);
    unload(&npy);
  }
}

TEST(damaged_headers)
{
  const tsr_status parse = TSR_EPARSE;
  check_header("", parse, "the header does not begin with '{'");
  check_header("[]", parse, "the header does not begin with '{'");
  check_header("{", parse, "a key is missing");
  check_header("{}", parse, "a key is missing");
  check_header("{'descr': '<f8', 'fortran_order': False}", parse, "a key is missing");
  check_header("{'descr': '<f8', 'descr': '<f8'}", parse, "a key stands twice");
  check_header("{'colour': 1}", parse, "the header has an unknown key");
  check_header("{'descr' '<f8'}", parse, "a ':' is missing");
  check_header("{'descr': '<f8' 'shape': (1,)}", parse, "a ',' or '}' is missing");
  check_header("{'descr': <f8}", parse, "'descr' is not a text");
  check_header("{'descr': '<f8", parse, "'descr' is not a text");
  check_header("{'fortran_order': 0}", parse, "'fortran_order' is neither True nor False");
  check_header("{'shape': 1}", parse, "'shape' is not a tuple of sizes");
  check_header("{'shape': (1", parse, "'shape' is not a tuple of sizes");
  check_header("{'shape': (1 2)}", parse, "'shape' is not a tuple of sizes");
  check_header("{'shape': (-1,)}", parse, "'shape' is not a tuple of sizes");
  check_header("{'shape': (,)}", parse, "'shape' is not a tuple of sizes");
  check_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} x", parse,
               "text follows the '}'");
}

TEST(shapes_that_lie)
{
  static const char head[] = "{'descr': '<f8', 'fortran_order': False, 'shape': ";
  static const struct {
    const char *shape;
    tsr_status status;
    const char *part;
  } cases[] = {
    { "(2,)}", TSR_EPARSE, "is cut off: its shape takes 16 bytes of data, but the file has 8" },
    { "(1000000000000,)}", TSR_EPARSE, "its shape takes 8000000000000 bytes of data" },
    { "(9223372036854775807,)}", TSR_ESHAPE, "the bytes of its shape overflow 64 bits" },
    { "(4294967296, 4294967296)}", TSR_ESHAPE, "the bytes of its shape overflow 64 bits" },
    { "(4294967296, 4294967296, 4294967296)}", TSR_ESHAPE, "overflow 64 bits" },
    { "(9223372036854775808,)}", TSR_ESHAPE, "a dim of the shape overflows 64 bits" },
    { "(99999999999999999999999,)}", TSR_ESHAPE, "a dim of the shape overflows 64 bits" },
    { "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}", TSR_EUNSUPPORTED, "has more than 16 dims" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char header[200];
    snprintf(header, sizeof header, "%s%s", head, cases[i].shape);
    check_header(header, cases[i].status, cases[i].part);
  }
  /* No elements need no bytes, whatever the other dims say. */
  tsr__npy npy;
  tsr__error error = { 0 };
  char header[200];
  snprintf(header, sizeof header, "%s(9223372036854775807, 0, 9223372036854775807)}", head);
  CHECK_STATUS(load(make(1, header, NULL, 0), &npy, &error), TSR_OK, NULL);
  unload(&npy);
}

TEST(types_that_are_not_ours)
{
  static const char *const descrs[] = { ">f2", "<u3", ">f8", "|S5", "<M8[ns]", "|O", "<c16" };
  for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++) {
    char header[200], part[100];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (1,)}",
             descrs[i]);
    snprintf(part, sizeof part, "holds elements of type '%s', expected one of bool", descrs[i]);
    check_header(header, TSR_EDTYPE, part);
  }
  check_header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", TSR_EDTYPE,
               "holds records of several fields");
  check_bad(make(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 1, 1)}", "12345678", 7),
            TSR_EPARSE, "is cut off");
  check_header("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2)}", TSR_EUNSUPPORTED,
               "is in Fortran order");
}

TEST(files_that_are_none)
{
  const char *path = test_tmp("y.npy");
  check_bad(test_tmp("nowhere.npy"), TSR_EIO, "cannot open: No such file or directory");
  check_bad(make(4, "{}", NULL, 0), TSR_EUNSUPPORTED, "is of .npy version 4");
  check_bad(make(0, "{}", NULL, 0), TSR_EUNSUPPORTED, "is of .npy version 0");
  test_write(path, "", 0);
  check_bad(path, TSR_EPARSE, "is not a .npy file");
  test_write(path, "a,b\n1,2\n", 8);
  check_bad(path, TSR_EPARSE, "is not a .npy file");
  test_write(path, "PK\x03\x04", 4);
  check_bad(path, TSR_EUNSUPPORTED, "is a .npz archive");
  test_write(path, "\x93NUMPY\x01\x00", 8);
  check_bad(path, TSR_EPARSE, "is cut off: its header ends at byte 10, but the file has 8");
  test_write(path, "\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14);
  check_bad(path, TSR_EPARSE, "its header ends at byte 4294967307, but the file has 14");
  const char *folder = test_tmp("folder.npy");
  CHECK_I64(mkdir(folder, 0777), 0);
  check_bad(folder, TSR_EIO, "is a directory");
  const char *pipe = test_tmp("pipe.npy");
  CHECK_I64(mkfifo(pipe, 0777), 0);
  check_bad(pipe, TSR_EUNSUPPORTED, "is not a regular file");
}

/* Every file that ends too early is refused. */
TEST(every_truncation)
{
  static const char data[24] = { 1, 2, 3 };
  const char *path =
      make(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n", data, sizeof data);
  size_t length;
  char *bytes = test_read(path, &length);
  for (size_t n = 0; n < length; n++) {
    tsr__npy npy;
    tsr__error error = { 0 };
    test_write(path, bytes, n);
    CHECK_STATUS(load(path, &npy, &error), TSR_EPARSE, NULL);
  }
  free(bytes);
}

static void check_written(tsr_dtype dtype, const tsr_shape *shape, const void *data, size_t size)
{
  const char *path = test_tmp("out.npy");
  tsr__npy npy;
  tsr__error error = { 0 };
  if (save(path, dtype, shape, data, &error)) FAIL("%s", error.text);
  if (load(path, &npy, &error)) FAIL("%s", error.text);
  CHECK_I64(npy.dtype, dtype);
  CHECK_I64(npy.shape.rank, shape->rank);
  for (int d = 0; d < shape->rank; d++) CHECK_I64(npy.shape.dims[d], shape->dims[d]);
  CHECK_BYTES(npy.data, data, size);
  unload(&npy);
}

TEST(what_is_written_is_read)
{
  static const char data[4096] = { 1, 0, 1, 1 };
  check_written(TSR_BOOL, &TSR_SHAPE(3, 5), data, 15);
  check_written(TSR_I32, &TSR_SHAPE(7), data, 28);
  check_written(TSR_I64, &TSR_SHAPE(2, 2, 2), data, 64);
  check_written(TSR_F32, &TSR_SCALAR, data, 4);
  check_written(TSR_F64, &TSR_SHAPE(0, 4), data, 0);
  check_written(TSR_F64, &TSR_SHAPE(1, 1, 1, 1, 1, 1, 1, 512), data, 4096);
}

/* The header is the one that NumPy writes, byte for byte. */
TEST(writes_what_numpy_would)
{
  const char *path = test_tmp("same.npy");
  tsr__error error = { 0 };
  char expected[160];
  static const int64_t data[2] = { 1, 2 };
  CHECK_STATUS(save(path, TSR_I64, &TSR_SHAPE(2), data, &error), TSR_OK, NULL);
  memcpy(expected, "\x93NUMPY\x01\x00\x76\x00", 10);
  snprintf(expected + 10, sizeof expected - 10, "%-117s\n",
           "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }");
  memcpy(expected + 128, data, sizeof data);
  size_t length;
  char *found = test_read(path, &length);
  CHECK_U64(length, 144);
  CHECK_BYTES(found, expected, 144);
  free(found);
}

TEST(a_failed_write_leaves_nothing)
{
  const char *path = test_tmp("busy");
  tsr__error error = { 0 };
  static const double data[1] = { 1 };
  CHECK_I64(mkdir(path, 0777), 0);
  CHECK_STATUS(save(path, TSR_F64, &TSR_SHAPE(1), data, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "busy: cannot create: ");
  DIR *folder = opendir(test_tmp("."));
  for (struct dirent *entry; (entry = readdir(folder));) CHECK(!strstr(entry->d_name, ".tmp"));
  closedir(folder);
  error = (tsr__error){ 0 };
  CHECK_STATUS(save(test_tmp("no/where.npy"), TSR_F64, &TSR_SHAPE(1), data, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "where.npy: cannot create: No such file or directory");
  error = (tsr__error){ 0 };
  CHECK_STATUS(save(path, (tsr_dtype)99, &TSR_SHAPE(1), data, &error), TSR_EARG, NULL);
}
