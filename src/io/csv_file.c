/* The bytes of a CSV file: opened, recognised, read into memory by all workers.
 *
 * Invariant: what is parsed is a copy that nobody else can change or shorten. A file that
 * changed between the opening and the end of the reading is refused. */
#include "io/csv_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 4 << 20, HUGE_PAGE = 2 << 20 };

/* strerror may share a buffer among threads; this one does not. */
static const char *why(int code, char *buffer, size_t size)
{
  return strerror_r(code, buffer, size);
}

static tsr_status io_error(const tsr__csv *csv, const char *what, int code, tsr__error *error)
{
  char buffer[128];
  return tsr__error_set(error, TSR_EIO, "%s: cannot %s: %s", csv->path, what,
                        why(code, buffer, sizeof buffer));
}

static int64_t changed_at(const struct stat *info)
{
  return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

tsr_status tsr__csv_file_open(tsr__csv *csv, tsr__error *error)
{
  /* Without NONBLOCK a pipe without a writer would wait here for ever. */
  csv->fd = open(csv->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (csv->fd < 0) return io_error(csv, "open", errno, error);
  struct stat info;
  if (fstat(csv->fd, &info)) return io_error(csv, "examine", errno, error);
  if (S_ISDIR(info.st_mode))
    return tsr__error_set(error, TSR_EIO, "%s: is a directory; name a CSV file in it", csv->path);
  if (!S_ISREG(info.st_mode))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: is no regular file; pipes and devices cannot be read in parts, "
                          "save them to a file first",
                          csv->path);
  csv->size = (int64_t)info.st_size;
  csv->changed = changed_at(&info);
  if (csv->size == 0)
    return tsr__error_set(error, TSR_EPARSE, "%s: is empty; a CSV file begins with a header line",
                          csv->path);
  return TSR_OK;
}

static int64_t read_some(const tsr__csv *csv, char *to, size_t length, int64_t offset)
{
  if (csv->opts.read) return csv->opts.read(csv->opts.user, csv->fd, to, length, offset);
  return pread(csv->fd, to, length, (off_t)offset);
}

/* Reads all of it; returns 0, an errno, or -1 when the file ended early (`*got` tells where). */
static int read_fully(const tsr__csv *csv, char *to, int64_t offset, int64_t length, int64_t *got)
{
  for (*got = 0; *got < length;) {
    int64_t n = read_some(csv, to + *got, (size_t)(length - *got), offset + *got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return -1;
    *got += n;
  }
  return 0;
}

static tsr_status shrunk(const tsr__csv *csv, int64_t found, tsr__error *error)
{
  return tsr__error_set(error, TSR_EIO,
                        "%s: ended at byte %" PRId64 " while it was read, it had %" PRId64
                        " bytes when it was opened; is it still being written?",
                        csv->path, found, csv->size);
}

tsr_status tsr__csv_file_read(tsr__csv *csv, char *to, int64_t offset, int64_t length,
                              tsr__error *error)
{
  int64_t got;
  int code = read_fully(csv, to, offset, length, &got);
  if (code < 0) return shrunk(csv, offset + got, error);
  return code ? io_error(csv, "read", code, error) : TSR_OK;
}

/* ---- other formats ------------------------------------------------------------------------ */

struct magic {
  const char *bytes;
  uint8_t length;
  const char *name, *advice;
};

static const struct magic magics[] = {
  { "PAR1", 4, "Parquet", "this reader takes CSV only" },
  { "ARROW1", 6, "Arrow IPC (Feather)", "this reader takes CSV only" },
  { "ORC", 3, "ORC", "this reader takes CSV only" },
  { "\x93NUMPY", 6, "NumPy .npy", "this reader takes CSV only" },
  { "SQLite format 3", 15, "SQLite", "export a table as CSV" },
  { "\x1f\x8b", 2, "gzip", "decompress it first (gunzip)" },
  { "\x28\xb5\x2f\xfd", 4, "zstd", "decompress it first (unzstd)" },
  { "\x04\x22\x4d\x18", 4, "lz4", "decompress it first (unlz4)" },
  { "\xfd"
    "7zXZ",
    5, "xz", "decompress it first (unxz)" },
  { "BZh", 3, "bzip2", "decompress it first (bunzip2)" },
  { "PK\x03\x04", 4, "a zip archive (or a spreadsheet)", "unpack it, or save it as CSV" },
  { "\xff\xfe", 2, "UTF-16 text", "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)" },
  { "\xfe\xff", 2, "UTF-16 text", "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)" },
};

/* Letters alone may begin a CSV header; then only a file that goes on in binary is meant. */
static bool is_letters(const struct magic *magic)
{
  for (int i = 0; i < magic->length; i++)
    if ((unsigned char)magic->bytes[i] < ' ' || (unsigned char)magic->bytes[i] > '~') return false;
  return true;
}

tsr_status tsr__csv_magic(const tsr__csv *csv, const char *bytes, size_t length, tsr__error *error)
{
  for (size_t m = 0; m < sizeof magics / sizeof *magics; m++) {
    const struct magic *magic = &magics[m];
    if (length < magic->length || memcmp(bytes, magic->bytes, magic->length) != 0) continue;
    if (is_letters(magic)) {
      size_t look = length < 512 ? length : 512, control = 0;
      for (size_t i = 0; i < look; i++) control += (unsigned char)bytes[i] < 9;
      if (control == 0) continue;
    }
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s: is %s, not CSV; %s", csv->path, magic->name,
                          magic->advice);
  }
  return TSR_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

struct load {
  tsr__csv *csv;
  _Atomic int code;    /* the first failure: errno, or -1 for a short file */
  _Atomic int64_t end; /* where a short file ended */
};

static void load_piece(void *user, int64_t task, int worker)
{
  (void)worker;
  struct load *load = user;
  tsr__csv *csv = load->csv;
  int64_t from = task * PIECE, length = csv->size - from < PIECE ? csv->size - from : PIECE, got;
  if (atomic_load(&load->code)) return;
  int code = read_fully(csv, csv->data + from, from, length, &got);
  int none = 0;
  if (code && atomic_compare_exchange_strong(&load->code, &none, code))
    atomic_store(&load->end, from + got);
}

/* Big blocks in huge pages: a page fault every 4 KiB would cost as much as the reading. */
static void advise_huge(char *data, size_t size)
{
  uintptr_t first = ((uintptr_t)data + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
  uintptr_t last = ((uintptr_t)data + size) & ~(uintptr_t)(HUGE_PAGE - 1);
  if (last > first) (void)madvise((void *)first, last - first, MADV_HUGEPAGE);
}

static tsr_status allocate(tsr__csv *csv, tsr__error *error)
{
  csv->data_size = (size_t)csv->size + TSR__CSV_PAD;
  csv->data = tsr__new_raw(csv->heap, csv->data_size);
  if (!csv->data)
    return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for its %" PRId64 " bytes", csv->path,
                          csv->size);
  advise_huge(csv->data, csv->data_size);
  return TSR_OK;
}

static tsr_status check_loaded(tsr__csv *csv, struct load *load, tsr__error *error)
{
  struct stat info;
  int code = atomic_load(&load->code);
  if (code < 0) return shrunk(csv, atomic_load(&load->end), error);
  if (code) return io_error(csv, "read", code, error);
  if (fstat(csv->fd, &info)) return io_error(csv, "examine", errno, error);
  if ((int64_t)info.st_size != csv->size || changed_at(&info) != csv->changed)
    return tsr__error_set(error, TSR_EIO,
                          "%s: changed since it was opened; is it still being written?", csv->path);
  return TSR_OK;
}

void tsr__csv_end_rows_with(tsr__csv *csv, char newline)
{
  csv->dialect.newline = newline;
  if (!csv->data) return;
  memset(csv->data + csv->size, newline, TSR__CSV_PAD);
  csv->end = csv->size + (csv->data[csv->size - 1] != newline);
}

tsr_status tsr__csv_load(tsr__csv *csv, tsr__error *error)
{
  if (csv->data) return TSR_OK;
  tsr_status status = allocate(csv, error);
  if (status) return status;
  struct load load = { .csv = csv };
  tsr__parallel(csv->rt, (csv->size + PIECE - 1) / PIECE, load_piece, &load);
  status = check_loaded(csv, &load, error);
  if (status) {
    tsr__del(csv->heap, csv->data, csv->data_size);
    csv->data = NULL;
    return status;
  }
  close(csv->fd);
  csv->fd = -1;
  tsr__csv_end_rows_with(csv, csv->dialect.newline);
  return TSR_OK;
}
