/* The bytes of a CSV file: opened, read in pieces, held with padding on both sides.
 *
 *   block   |\n\n..\n|a,b\n1,2\n        |\n\n..\n|
 *            FRONT    data .. data+size  PAD
 *
 * Invariant: what is parsed is a copy that nobody else can change or shorten. */
#include "io/csv/csv_inner.h"
#include "io/file/files.h"
#include "io/file/system.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ------------------------------------------------------------------------------ */

/* Notes who the file is, or, where it was open before, sees that it is the same. */
static tsr_status identify(tsr__csv_file *file, tsr__error *error)
{
  struct stat info;
  if (fstat(file->fd, &info)) return tsr__file_error(file->path, "examine", errno, error);
  if (S_ISDIR(info.st_mode))
    return tsr__error_set(error, TSR_EIO, "%s: is a directory; name a CSV file in it", file->path);
  /* A file that became a pipe is another file. */
  file->stream = file->pipe = !file->inode && tsr__sys_streams(file->fd);
  file->csv->streams |= file->stream;
  if (file->stream) return TSR_OK;
  if (!S_ISREG(info.st_mode) && !file->inode)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: is a device, expected a file or a pipe; copy it to a file first",
                          file->path);
  /* Size and time may stay the same when a file is replaced by another; its number does not. */
  int64_t changed = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
  if (file->inode && (file->device != info.st_dev || file->inode != info.st_ino ||
                      file->stored != info.st_size || file->changed != changed))
    return tsr__error_set(error, TSR_EIO,
                          "%s: changed since it was opened; is the file still being written?",
                          file->path);
  file->device = info.st_dev;
  file->inode = info.st_ino;
  file->stored = info.st_size;
  file->changed = changed;
  return TSR_OK;
}

tsr_status tsr__csv_file_open(tsr__csv_file *file, tsr__error *error)
{
  if (file->stream || file->fd >= 0) return TSR_OK;
  /* Without NONBLOCK a pipe without a writer would wait here for ever. */
  file->fd = tsr__sys_open(file->path, O_RDONLY | O_NONBLOCK);
  if (file->fd < 0) return tsr__file_error(file->path, "open", errno, error);
  return identify(file, error);
}

tsr_status tsr__csv_file_same(tsr__csv_file *file, tsr__error *error)
{
  return file->stream ? TSR_OK : identify(file, error);
}

void tsr__csv_file_close(tsr__csv_file *file)
{
  if (file->fd >= 0) tsr__sys_close(file->fd);
  file->fd = -1;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int64_t read_some(const tsr__csv_file *file, char *to, size_t length, int64_t offset)
{
  const tsr__csv_opts *opts = &file->csv->opts;
  if (opts->read) return opts->read(opts->user, file->fd, to, length, offset);
  if (file->stream) return tsr__sys_read(file->pipe ? file->fd : STDIN_FILENO, to, length, -1);
  return tsr__sys_read(file->fd, to, length, offset);
}

int tsr__csv_file_read(const tsr__csv_file *file, char *to, int64_t offset, int64_t length,
                       int64_t *got)
{
  *got = 0;
  if (file->packed) {
    /* Standard input that was packed: its bytes were all read, and lie here. */
    int64_t left = file->stored - offset;
    *got = left < length ? left : length;
    memcpy(to, file->packed + TSR__CSV_FRONT + offset, (size_t)*got);
    return 0;
  }
  while (*got < length) {
    int64_t n = read_some(file, to + *got, (size_t)(length - *got), offset + *got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    /* Fewer bytes than asked for: the caller knows whether the file should have had them. */
    if (n == 0) return 0;
    *got += n;
  }
  return 0;
}

/* ---- the text -------------------------------------------------------------------------------- */

static char *text_of(const tsr__csv_file *file)
{
  return file->block ? file->block + TSR__CSV_FRONT : NULL;
}

bool tsr__csv_file_room(tsr__csv_file *file, int64_t size, int64_t used)
{
  size_t need = (size_t)size + TSR__CSV_FRONT + TSR__CSV_PAD;
  if (need <= file->block_size) return true;
  /* Not resized in place: the front padding moves with the text, and pages of the old block are
   * given back at once. */
  char *block = tsr__new_raw(file->csv->heap, need);
  if (!block) return false;
  if (used) memcpy(block + TSR__CSV_FRONT, text_of(file), (size_t)used);
  tsr__del(file->csv->heap, file->block, file->block_size);
  file->block = block;
  file->block_size = need;
  if (file->data) file->data = text_of(file);
  return true;
}

void tsr__csv_end_rows_with(tsr__csv_file *file, char newline)
{
  file->dialect.newline = newline;
  if (!file->data) return;
  /* Before and behind the text: masks look a word further, and must find ends of rows there. */
  memset(file->block, newline, TSR__CSV_FRONT);
  memset(file->data + file->size, newline, TSR__CSV_PAD);
  /* A mark of UTF-8 that nothing follows, once all rows were left out, is no row that lacks its
   * end. */
  bool open = file->size && file->size != file->body && file->data[file->size - 1] != newline;
  file->end = file->size + open;
}

void tsr__csv_file_done(tsr__csv_file *file, int64_t size)
{
  file->data = text_of(file);
  file->size = size;
  tsr__csv_end_rows_with(file, file->dialect.newline);
}

void tsr__csv_file_drop(tsr__csv_file *file)
{
  tsr__heap *heap = file->csv->heap;
  tsr__del(heap, file->block, file->block_size);
  tsr__del(heap, file->packed, file->packed_size);
  tsr__del(heap, file->granules, (size_t)file->granule_room * sizeof *file->granules);
  tsr__del(heap, file->cuts, file->cut_capacity * sizeof *file->cuts);
  file->block = file->data = file->packed = NULL;
  file->block_size = file->packed_size = file->cut_capacity = file->cut_count = 0;
  file->granules = NULL;
  file->cuts = NULL;
  /* What was known of a prefix says nothing of the file. */
  if (file->partial) file->size = -1;
  file->bare = file->indexed = file->partial = false;
}
