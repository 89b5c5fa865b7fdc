/* The .npy format.
 *
 *   \x93NUMPY  major minor  length (2 bytes; 4 from version 2)  header text   data
 *   header:    {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
 *
 * Invariant: nothing of the header is believed before it was compared with the file's size, and no
 * element before it was read: a file that is shortened meanwhile is an error. */
#include "io/npy/npyfile.h"

#include "io/file/files.h"
#include "io/file/outfile.h"
#include "io/file/system.h"
#include "topology/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* NumPy pads the header so that data begins at a multiple of 64 bytes. */
enum { HEADER_MAX = 1 << 16, ALIGN = 64 };

static tsr_status io_error(const char *path, const char *what, tsr__error *error)
{
  return tsr__file_error(path, what, errno, error);
}

/* ---- the header's text ------------------------------------------------------------------- */

/* A Python dictionary of three known keys, read from left to right. NumPy writes literals only;
 * what else a dictionary could say is refused. */
struct header {
  const char *path;
  const char *at, *end;
  tsr__error *error;
  bool seen[3];
  tsr_dtype dtype;
  bool fortran;
  tsr_shape shape;
};

static tsr_status bad_header(const struct header *h, const char *what)
{
  return tsr__error_set(h->error, TSR_EPARSE, "%s: the .npy header is damaged: %s", h->path, what);
}

static void skip_spaces(struct header *h)
{
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t')) h->at++;
}

/* Whether the next character, behind blanks, is this one; then it is taken. */
static bool take(struct header *h, char c)
{
  skip_spaces(h);
  if (h->at == h->end || *h->at != c) return false;
  h->at++;
  return true;
}

static bool take_word(struct header *h, const char *word)
{
  size_t length = strlen(word);
  skip_spaces(h);
  if ((size_t)(h->end - h->at) < length || memcmp(h->at, word, length) != 0) return false;
  h->at += length;
  return true;
}

/* 'text' or "text" without escapes; cut to the buffer. */
static bool take_text(struct header *h, char *out, size_t size)
{
  skip_spaces(h);
  if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return false;
  /* What a backslash would mean is not looked at: NumPy writes none into types and keys. */
  const char *begin = h->at + 1, *stop = memchr(begin, *h->at, (size_t)(h->end - begin));
  if (!stop) return false;
  size_t length = (size_t)(stop - begin);
  if (length >= size) length = size - 1;
  /* A type that is longer than the buffer is no type that is known, cut or not. */
  memcpy(out, begin, length);
  out[length] = 0;
  h->at = stop + 1;
  return true;
}

/* The type whose name this is, 0 for none; NumPy writes bool in three ways. */
tsr_dtype tsr__npy_dtype(tsr_dtype dtype)
{
  const tsr__dtype_info *info = tsr__dtype_info_of(dtype);
  return *info->npy ? dtype : (tsr_dtype)info->computes;
}

static tsr_dtype dtype_of_descr(const char *descr)
{
  if (strcmp(descr, "?") == 0 || strcmp(descr, "b1") == 0) return TSR_BOOL;
  /* Types have one name each but bool. */
  TSR__FOR_DTYPES(dtype)
  if (*descr && strcmp(descr, tsr__dtype_info_of((tsr_dtype)dtype)->npy) == 0)
    return (tsr_dtype)dtype;
  return (tsr_dtype)0;
}

static tsr_status read_descr(struct header *h)
{
  /* 31 characters hold every type that is read; of longer ones the message shows as many. */
  char descr[32];
  skip_spaces(h);
  if (h->at < h->end && *h->at == '[')
    return tsr__error_set(h->error, TSR_EDTYPE,
                          "%s: holds records of several fields; save each field by itself",
                          h->path);
  if (!take_text(h, descr, sizeof descr)) return bad_header(h, "'descr' is not a text");
  h->dtype = dtype_of_descr(descr);
  if (h->dtype) return TSR_OK;
  /* The type's name goes into a message: control characters must not. */
  for (char *c = descr; *c; c++)
    if (*c < ' ' || *c > '~') *c = '?';
  return tsr__error_set(h->error, TSR_EDTYPE,
                        "%s: holds elements of type '%s', expected one of bool ('|b1'), integers "
                        "('|i1' ... '<i8', '|u1' ... '<u8') and floats ('<f2', '<f4', '<f8'); "
                        "convert it with astype",
                        h->path, descr);
}

static tsr_status read_order(struct header *h)
{
  if (take_word(h, "False")) h->fortran = false;
  else if (take_word(h, "True")) h->fortran = true;
  else return bad_header(h, "'fortran_order' is neither True nor False");
  return TSR_OK;
}

static tsr_status read_dim(struct header *h, int64_t *out)
{
  int64_t value = 0;
  const char *begin = h->at;
  /* More digits than 64 bits hold are refused, not cut. */
  for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, *h->at - '0', &value))
      return tsr__error_set(h->error, TSR_ESHAPE, "%s: a dim of the shape overflows 64 bits",
                            h->path);
  if (h->at == begin) return bad_header(h, "'shape' is not a tuple of sizes");
  /* Nothing but digits, so a sign or a float is refused by whoever reads on. */
  if (h->at < h->end && *h->at == 'L') h->at++; /* Python 2 wrote long integers so */
  *out = value;
  return TSR_OK;
}

static tsr_status read_shape(struct header *h)
{
  h->shape = (tsr_shape){ 0 };
  if (!take(h, '(')) return bad_header(h, "'shape' is not a tuple of sizes");
  /* "()" is one element, "(3,)" one dim: a comma may stand behind the last. */
  while (!take(h, ')')) {
    int64_t dim = 0;
    tsr_status status = read_dim(h, &dim);
    if (status) return status;
    if (h->shape.rank == TSR_MAX_RANK)
      return tsr__error_set(h->error, TSR_EUNSUPPORTED, "%s: has more than %d dims", h->path,
                            TSR_MAX_RANK);
    h->shape.dims[h->shape.rank++] = dim;
    skip_spaces(h);
    if (!take(h, ',') && (h->at == h->end || *h->at != ')'))
      return bad_header(h, "'shape' is not a tuple of sizes");
  }
  return TSR_OK;
}

static tsr_status read_item(struct header *h)
{
  /* Each of the three once, in any order. */
  static const char *const keys[3] = { "descr", "fortran_order", "shape" };
  char key[32];
  if (!take_text(h, key, sizeof key)) return bad_header(h, "a key is missing");
  int k = 0;
  while (k < 3 && strcmp(key, keys[k]) != 0) k++;
  if (k == 3) return bad_header(h, "the header has an unknown key");
  if (h->seen[k]) return bad_header(h, "a key stands twice");
  h->seen[k] = true;
  if (!take(h, ':')) return bad_header(h, "a ':' is missing");
  return k == 0 ? read_descr(h) : k == 1 ? read_order(h) : read_shape(h);
}

static tsr_status read_header(struct header *h)
{
  if (!take(h, '{')) return bad_header(h, "the header does not begin with '{'");
  /* Python writes a comma behind the last item, too; a dictionary may be in any order. */
  while (!take(h, '}')) {
    tsr_status status = read_item(h);
    if (status) return status;
    if (take(h, ',')) continue;
    if (!take(h, '}')) return bad_header(h, "a ',' or '}' is missing");
    break;
  }
  skip_spaces(h);
  if (h->at != h->end) return bad_header(h, "text follows the '}'");
  if (!h->seen[0] || !h->seen[1] || !h->seen[2]) return bad_header(h, "a key is missing");
  /* With one dim that is not 1 at most, both orders are the same. */
  int wide = 0;
  for (int d = 0; d < h->shape.rank; d++) wide += h->shape.dims[d] != 1;
  if (h->fortran && wide > 1)
    return tsr__error_set(
        h->error, TSR_EUNSUPPORTED,
        "%s: is in Fortran order, expected C order; save numpy.ascontiguousarray(x) instead",
        h->path);
  return TSR_OK;
}

/* ---- the file ------------------------------------------------------------------------------- */

/* All of it, or -1: errno 0 for a file that ends early. */
static int read_at(const tsr__npy_file *file, void *to, size_t length, int64_t offset)
{
  /* A member of an archive was unpacked whole; a file is read in place, by many threads at once. */
  if (file->memory) {
    memcpy(to, file->memory + offset, length); /* sizes were compared with file->size */
    return 0;
  }
  /* Several threads read one file: the offset is in the call. */
  int64_t got = tsr__sys_read_all(file->fd, to, length, offset);
  if (got == (int64_t)length) return 0;
  /* Fewer bytes than asked for are no error of the system's: the file has become shorter. */
  if (got >= 0) errno = 0;
  return -1;
}

static tsr_status read_error(const tsr__npy_file *file, tsr__error *error)
{
  if (errno) return io_error(file->path, "read", error);
  return tsr__error_set(error, TSR_EIO,
                        "%s: ended while it was read; is the file still being written?",
                        file->path);
}

/* What is opened must be a regular file; the caller closes it. */
static tsr_status open_file(tsr__npy_file *file, tsr__error *error)
{
  struct stat info;
  /* Not blocking: a named pipe without a writer would hang here before it could be refused. */
  file->fd = tsr__sys_open(file->path, O_RDONLY | O_NONBLOCK);
  if (file->fd < 0) return io_error(file->path, "open", error);
  if (fstat(file->fd, &info)) return io_error(file->path, "examine", error);
  if (S_ISDIR(info.st_mode))
    return tsr__error_set(error, TSR_EIO, "%s: is a directory, expected a .npy file", file->path);
  if (!S_ISREG(info.st_mode))
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s: is not a regular file", file->path);
  file->size = (int64_t)info.st_size;
  return TSR_OK;
}

/* Where the header's text lies. */
static tsr_status read_prefix(tsr__npy_file *file, tsr__error *error)
{
  /* The longest beginning that is looked at; a shorter file has zeros behind. */
  unsigned char p[12] = { 0 };
  size_t have = file->size < 12 ? (size_t)file->size : 12;
  if (read_at(file, p, have, 0)) return read_error(file, error);
  if (have >= 4 && memcmp(p, "PK\x03\x04", 4) == 0)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: is a .npz archive; open the archive with tsr_load_npz", file->path);
  bool numpy = have >= 6 && memcmp(p, "\x93NUMPY", 6) == 0;
  if (!numpy && tsr__file_magic(file->path, "a .npy file", (const char *)p, have, error))
    return error->status;
  if (!numpy)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: is not a .npy file: it does not begin with \\x93NUMPY", file->path);
  /* Version 2 counts the header in 32 bits, 3 lets its text be UTF-8. */
  if (have > 6 && (p[6] < 1 || p[6] > 3))
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s: is of .npy version %d, expected 1, 2 or 3",
                          file->path, p[6]);
  int64_t at = p[6] == 1 ? 10 : 12, length = p[8] | p[9] << 8;
  /* Little-endian, whatever the machine. */
  if (p[6] > 1) length |= (int64_t)p[10] << 16 | (int64_t)p[11] << 24;
  if (file->size < at || length > file->size - at)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: is cut off: its header ends at byte %" PRId64
                          ", but the file has %" PRId64 " bytes",
                          file->path, at + length, file->size);
  if (length > HEADER_MAX)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: its header has %" PRId64 " bytes, more than any array needs",
                          file->path, length);
  file->header_at = at;
  file->header_size = length;
  return TSR_OK;
}

static tsr_status check_size(tsr__npy_file *file, const struct header *h, tsr__error *error)
{
  int64_t bytes = (int64_t)tsr_dtype_size(h->dtype);
  bool fits = true, empty = false;
  /* An empty array may have dims whose product overflows; no byte of it exists. */
  for (int d = 0; d < h->shape.rank; d++) empty |= h->shape.dims[d] == 0;
  for (int d = 0; d < h->shape.rank && !empty; d++)
    fits &= !__builtin_mul_overflow(bytes, h->shape.dims[d], &bytes);
  if (empty) bytes = 0;
  if (!fits)
    return tsr__error_set(error, TSR_ESHAPE, "%s: the bytes of its shape overflow 64 bits",
                          file->path);
  /* Bytes behind the data are let stand, as NumPy does: several arrays may follow each other in a
   * file. */
  if (bytes > file->size - file->data_at)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: is cut off: its shape takes %" PRId64
                          " bytes of data, but the file has %" PRId64,
                          file->path, bytes, file->size - file->data_at);
  file->data_size = bytes;
  return TSR_OK;
}

/* ---- the header and the elements ------------------------------------------------------------- */

static tsr_status read_array(tsr__npy_file *file, tsr__npy *out, tsr__error *error)
{
  size_t length = (size_t)file->header_size;
  /* On the stack: its length was compared with HEADER_MAX before. */
  char text[HEADER_MAX];
  struct header h = { .path = file->path, .at = text, .end = text + length, .error = error };
  tsr_status status = TSR_OK;
  if (read_at(file, text, length, file->header_at)) status = read_error(file, error);
  if (!status) status = read_header(&h);
  if (status) return status;
  file->data_at = file->header_at + file->header_size;
  out->dtype = h.dtype;
  out->shape = h.shape;
  return check_size(file, &h, error);
}

tsr_status tsr__npy_open(const char *path, tsr__npy_file *file, tsr__npy *out, tsr__error *error)
{
  tsr__npy npy = { 0 };
  *file = (tsr__npy_file){ .path = path, .fd = -1 };
  tsr_status status = open_file(file, error);
  if (!status) status = read_prefix(file, error);
  if (!status) status = read_array(file, &npy, error);
  if (status) tsr__npy_close(file);
  else *out = npy;
  return status;
}

/* Elements `at` to `at + size` in bytes of the data; they lie within it, which was compared with
 * the file. */
tsr_status tsr__npy_read(const tsr__npy_file *file, void *to, int64_t at, int64_t size,
                         tsr__error *error)
{
  if (read_at(file, to, (size_t)size, file->data_at + at)) return read_error(file, error);
  return TSR_OK;
}

void tsr__npy_close(tsr__npy_file *file)
{
  if (file->fd >= 0) tsr__sys_close(file->fd);
  file->fd = -1;
}

tsr_status tsr__npy_in(const char *name, void *memory, int64_t size, tsr__npy *out,
                       tsr__error *error)
{
  tsr__npy_file file = { .path = name, .memory = memory, .fd = -1, .size = size };
  tsr__npy npy = { 0 };
  tsr_status status = read_prefix(&file, error);
  if (!status) status = read_array(&file, &npy, error);
  if (status) return status;
  char *data = (char *)memory + file.data_at;
  /* Data may begin anywhere in the member, but memory is read by elements: moved to the front,
   * where it is aligned, over the header that was read already. */
  if ((uintptr_t)data % tsr_dtype_size(npy.dtype)) {
    memmove(memory, data, (size_t)file.data_size);
    data = memory;
  }
  npy.data = data;
  *out = npy;
  return TSR_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The first bytes of a file of version 1, padded so that the data is aligned. The two bytes at 8
 * are the length of what follows them. */
static size_t write_header(char *out, size_t size, const char *descr, const tsr_shape *shape)
{
  size_t length = 10;
  length += (size_t)snprintf(out + length, size - length,
                             "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  /* A tuple of one has a comma behind it. */
  for (int d = 0; d < shape->rank; d++)
    length += (size_t)snprintf(out + length, size - length, "%s%" PRId64 "%s", d ? " " : "",
                               shape->dims[d], d + 1 < shape->rank || d == 0 ? "," : "");
  length += (size_t)snprintf(out + length, size - length, "), }");
  /* The newline that ends the header is its last byte. */
  while ((length + 1) % ALIGN) out[length++] = ' ';
  out[length++] = '\n';
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)((length - 10) & 0xff);
  out[9] = (char)((length - 10) >> 8);
  return length;
}

static const char *descr_of(tsr_dtype dtype)
{
  const char *descr = tsr__dtype_info_of(dtype)->npy;
  return *descr ? descr : NULL;
}

/* Whether the sizes multiply to something that memory could hold. */
static tsr_status check_array(const char *path, tsr_dtype dtype, const tsr_shape *shape,
                              size_t *bytes, tsr__error *error)
{
  *bytes = tsr_dtype_size(dtype);
  bool good = descr_of(dtype) && shape->rank >= 0 && shape->rank <= TSR_MAX_RANK;
  for (int d = 0; good && d < shape->rank; d++)
    good = shape->dims[d] >= 0 && !__builtin_mul_overflow(*bytes, (size_t)shape->dims[d], bytes);
  if (good) return TSR_OK;
  return tsr__error_set(error, TSR_EARG, "%s: a .npy file cannot hold this element type and shape",
                        path);
}

tsr_status tsr__npy_header(const char *path, const tsr__npy *array, char header[TSR__NPY_HEADER],
                           tsr__npy_sizes *out, tsr__error *error)
{
  if (check_array(path, array->dtype, &array->shape, &out->data, error)) return error->status;
  out->header = write_header(header, TSR__NPY_HEADER, descr_of(array->dtype), &array->shape);
  return TSR_OK;
}

tsr_status tsr__npy_write(tsr__heap *heap, const char *path, const tsr__npy *array,
                          tsr__progress *progress, tsr__error *error)
{
  char header[TSR__NPY_HEADER];
  tsr__npy_sizes sizes;
  if (tsr__npy_header(path, array, header, &sizes, error)) return error->status;
  /* .plain: the name's ending packs nothing here. */
  tsr__outfile *out =
      tsr__out_open(heap, path, &(tsr__out_opts){ .plain = true, .progress = progress }, error);
  if (!out) return error->status;
  bool put = !tsr__out_put(out, header, sizes.header, error) &&
             !tsr__out_put(out, array->data, sizes.data, error);
  return tsr__out_close(out, put, error);
}
