/* Records that are kept in a file, which is written once and whole.
 *
 *   "TSRCACH1" | crc (4) | length (4) | records (8) | bytes of one (8) | text of the source
 *   fields of record 0 | crc (4)     fields of record 1 | crc (4)     ...
 * and where some could not be read: the number of each (8), how many (8), crc of these (4), "MISS"
 *
 * Numbers are little-endian; each crc is the CRC-32C of what follows it in the head, and of the
 * fields before it. The text says what was kept: a file of another source is refused, as it would
 * give other records. It appears by a rename, so that it is there whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "io/file/crc32c.h"
#include "io/file/files.h"
#include "io/file/outfile.h"
#include "io/file/system.h"
#include "pipeline/stage_cache.h"

enum { MAGIC = 8, HEAD = MAGIC + 4 + 4 + 8 + 8, CRC = 4, TAIL = 8 + CRC + 4 };
static const char magic[] = "TSRCACH1", missing_magic[] = "MISS";

typedef struct disk_source {
  tsr_source source;
  const char *path;
  /* Nodes come cleared, and 0 is a descriptor like any other. */
  int fd;            /* plus one; 0: not open */
  int64_t head, row; /* bytes before the first record; of a record, its crc included */
  int64_t size;      /* of the file, as it was opened */
  int64_t *missing;  /* records that the file has not, ascending: they are read below */
  size_t missing_count;
  size_t offset[TSR__MAX_COLUMNS];
} disk_source;

/* ---- reading --------------------------------------------------------------------------------- */

/* Records `at` .. of the file to the room, each as it was written. */
static tsr_status read_run(const disk_source *d, int64_t at, int64_t count, char *room,
                           tsr__error *error)
{
  char text[128];
  int64_t bytes = count * d->row;
  int64_t got = tsr__sys_read_all(d->fd - 1, room, (size_t)bytes, d->head + at * d->row);
  if (got < 0)
    return tsr__error_set(error, tsr__sys_status(errno), "%s: record %lld: %s", d->path,
                          (long long)at, tsr__sys_text(errno, text, sizeof text));
  if (got < bytes)
    return tsr__error_set(error, TSR_EIO, "%s: record %lld: the file has become shorter", d->path,
                          (long long)(at + got / d->row));
  /* Each time, not only when it is opened: caches lie on disks for months. */
  for (int64_t i = 0; i < count; i++) {
    const char *record = room + i * d->row;
    uint32_t crc;
    memcpy(&crc, record + d->row - CRC, CRC);
    if (crc == tsr__crc32c(0, record, (size_t)d->row - CRC)) continue;
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: record %lld at byte %lld is damaged: it does not match its "
                          "checksum; delete the file to make the cache anew",
                          d->path, (long long)(at + i), (long long)(d->head + (at + i) * d->row));
  }
  return TSR_OK;
}

static bool is_missing(const disk_source *d, int64_t at)
{
  size_t low = 0, high = d->missing_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (d->missing[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low < d->missing_count && d->missing[low] == at;
}

/* A record that could not be read when the file was written may be readable by now, or is the error
 * of who asks for it. */
static tsr_status read_missing(const disk_source *d, const tsr__ask_rows *ask, int64_t i,
                               tsr__error *error)
{
  int64_t place = tsr__place_of(ask, i);
  tsr__ask_rows below = *ask;
  below.epoch = 0;
  below.at = &ask->at[i];
  below.place = &place;
  below.count = 1;
  return tsr__records_read(d->source.children[0], &below, error);
}

/* Runs of neighbours are one reading, a room at a time, and go to their cells field by field. */
static tsr_status read_disk(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const disk_source *d = (const disk_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  int64_t most = TSR__ROOM / d->row;
  most = most < 1 ? 1 : most > ask->count ? ask->count : most;
  size_t bytes = (size_t)(most * d->row);
  char *room = tsr__new_raw(heap, bytes);
  if (!room) return tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes of records", bytes);
  for (int64_t i = 0, n; i < ask->count && !error->status; i += n) {
    n = 1;
    if (is_missing(d, ask->at[i])) {
      read_missing(d, ask, i, error);
      continue;
    }
    while (n < most && i + n < ask->count && ask->at[i + n] == ask->at[i] + n &&
           !is_missing(d, ask->at[i + n]))
      n++;
    if (read_run(d, ask->at[i], n, room, error)) break;
    for (int c = 0; c < source->column_count; c++)
      for (int64_t k = 0; ask->cells[c].data && k < n; k++)
        memcpy(tsr__cell_of(ask, c, i + k), room + (size_t)(k * d->row) + d->offset[c],
               source->columns[c].bytes);
  }
  tsr__del(heap, room, bytes);
  return error->status;
}

/* Not where it lies: a state goes on with the same records from another folder. */
static void about_disk(const tsr_source *source, tsr__text *out)
{
  (void)source;
  tsr__text_add(out, "file");
}

static void release_disk(tsr_source *source)
{
  disk_source *d = (disk_source *)source;
  if (d->fd) tsr__sys_close(d->fd - 1);
  tsr__del(&source->node.scope->rt->heap, d->missing, d->missing_count * sizeof *d->missing);
}

static const tsr__records_ops disk_ops = { "cache",    read_disk,    tsr__cache_ids,
                                           about_disk, release_disk, NULL,
                                           NULL };

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct writing {
  const disk_source *d;
  tsr__outfile *out;
  char *record;
  tsr__text missing;
  tsr__error error; /* of what stands for these */
} writing;

static tsr_status put_record(writing *w, tsr__error *error)
{
  uint32_t crc = tsr__crc32c(0, w->record, (size_t)w->d->row - CRC);
  memcpy(w->record + w->d->row - CRC, &crc, CRC);
  return tsr__out_put(w->out, w->record, (size_t)w->d->row, error);
}

/* Zeros, which nobody gets to see: they keep the places of the others. */
static void write_missing(void *user, int64_t record)
{
  writing *w = user;
  tsr__text_put(&w->missing, (const char *)&record, sizeof record);
  memset(w->record, 0, (size_t)w->d->row);
  if (!w->error.status) put_record(w, &w->error);
}

/* The numbers of what could not be read, behind the records. */
static tsr_status write_list(writing *w, tsr__error *error)
{
  tsr__text *all = &w->missing;
  int64_t count = (int64_t)(all->length / sizeof count);
  tsr__text_put(all, (const char *)&count, sizeof count);
  uint32_t crc = tsr__crc32c(0, tsr__text_get(all), all->length);
  tsr__text_put(all, (const char *)&crc, CRC);
  tsr__text_put(all, missing_magic, 4);
  if (all->failed) return tsr__error_set(error, TSR_ENOMEM, "no memory for a list of records");
  return tsr__out_put(w->out, tsr__text_get(all), all->length, error);
}

/* Field behind field without gaps, as `offset` has them; the checksum is the record's end. */
static tsr_status write_some(void *user, const tsr__room *room, int64_t first, int64_t count,
                             tsr__error *error)
{
  writing *w = user;
  const tsr_source *source = w->d->source.children[0];
  (void)first;
  for (int64_t i = 0; i < count && !error->status; i++) {
    for (int c = 0; c < source->column_count; c++)
      memcpy(w->record + w->d->offset[c], room->cells[c].data + (size_t)i * room->cells[c].stride,
             source->columns[c].bytes);
    put_record(w, error);
  }
  return error->status;
}

/* The head as it is written and as it is expected, in `out`. Records are checked one by one as they
 * are read; the head is compared with what would be written now, so that what was kept under
 * another text is never taken for this. */
static void make_head(const disk_source *d, tsr__text *out)
{
  const tsr_source *source = d->source.children[0];
  tsr__text text;
  char head[HEAD];
  tsr__text_init(&text, &source->node.scope->rt->heap);
  tsr__records_about(source, &text);
  for (int c = 0; c < source->column_count; c++) {
    tsr__text_add(&text, c ? ", " : "; ");
    tsr__column_text(&source->columns[c], &text);
  }
  /* Texts of sources are a few hundred bytes; hashes stand in them for what would be long. */
  uint32_t length = (uint32_t)text.length;
  memcpy(head, magic, MAGIC);
  memcpy(head + 12, &length, 4);
  memcpy(head + 16, &source->count, 8);
  memcpy(head + 24, &d->row, 8);
  uint32_t crc = tsr__crc32c(tsr__crc32c(0, head + 12, HEAD - 12), tsr__text_get(&text), length);
  memcpy(head + 8, &crc, 4);
  tsr__text_put(out, head, HEAD);
  tsr__text_put(out, tsr__text_get(&text), length);
  out->failed = out->failed || text.failed;
  tsr__text_free(&text);
}

static tsr_status write_cache(const disk_source *d, const tsr__text *head, tsr__error *error)
{
  tsr_source *source = d->source.children[0];
  tsr__heap *heap = &source->node.scope->rt->heap;
  tsr__out_opts opts = { .plain = true };
  writing w = { .d = d, .record = tsr__new_raw(heap, (size_t)d->row) };
  tsr__text_init(&w.missing, heap);
  tsr__scan scan = { source, tsr__all_columns, "tsr_source_cache", "cache", write_some,
                     &w,     write_missing };
  if (!w.record)
    tsr__error_set(error, TSR_ENOMEM, "no memory for a record of %lld bytes", (long long)d->row);
  else w.out = tsr__out_open(heap, d->path, &opts, error);
  if (w.out && !tsr__out_put(w.out, tsr__text_get(head), head->length, error) &&
      !tsr__scan_all(&scan, error) && w.error.status)
    *error = w.error;
  if (w.out && !error->status && w.missing.length) write_list(&w, error);
  tsr__text_free(&w.missing);
  /* Closing is where a full disk is told, but what failed first is what the user is to read. */
  tsr__error closing = { 0 };
  if (w.out && tsr__out_close(w.out, !error->status, &closing) && !error->status) *error = closing;
  tsr__del(heap, w.record, (size_t)d->row);
  return error->status;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Reads `count` bytes at `at`; false: there never were as many, or the error says why they cannot
 * be read. */
static bool read_part(const disk_source *d, char *room, int64_t count, int64_t at,
                      tsr__error *error)
{
  /* As the file was when it was opened; one that shrinks later is told where it is read. */
  if (at + count > d->size) return false;
  int64_t got = tsr__sys_read_all(d->fd - 1, room, (size_t)count, at);
  if (got < 0) tsr__file_error(d->path, "read", errno, error);
  else if (got < count) tsr__error_set(error, TSR_EIO, "%s: the file has become shorter", d->path);
  return got == count;
}

/* What lies behind the records: nothing, or the numbers of those that are missing. */
static bool check_end(disk_source *d, tsr__error *error)
{
  int64_t behind = d->head + d->source.count * d->row, size = d->size - behind, count, last = -1;
  tsr__heap *heap = &d->source.node.scope->rt->heap;
  if (size < TAIL || (size - TAIL) % 8) return !size;
  d->missing_count = (size_t)(size - TAIL) / 8;
  char tail[TAIL];
  d->missing = tsr__new_raw(heap, d->missing_count * sizeof *d->missing);
  if (!d->missing)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for a list of records"), false;
  if (!read_part(d, (char *)d->missing, size - TAIL, behind, error) ||
      !read_part(d, tail, TAIL, d->size - TAIL, error))
    return false;
  uint32_t crc, own = tsr__crc32c(0, d->missing, (size_t)size - TAIL);
  memcpy(&count, tail, sizeof count);
  memcpy(&crc, tail + 8, CRC);
  bool good = !memcmp(tail + 8 + CRC, missing_magic, 4) && count == (size - TAIL) / 8 &&
              crc == tsr__crc32c(own, tail, 8);
  for (size_t i = 0; good && i < d->missing_count; last = d->missing[i++])
    good = d->missing[i] > last && d->missing[i] < d->source.count;
  return good;
}

/* Whether the file begins with what is expected; it is read and compared a piece at a time. */
static tsr_status check_head(disk_source *d, const tsr__text *head, tsr__error *error)
{
  const char *expected = tsr__text_get(head);
  char found[512];
  bool is_cache = read_part(d, found, HEAD, 0, error) && !memcmp(found, magic, MAGIC);
  if (error->status) return error->status;
  if (!is_cache)
    return tsr__error_set(error, TSR_EPARSE, "%s: is not a cache of records; name another file",
                          d->path);
  bool same = !memcmp(found, expected, HEAD);
  for (int64_t at = HEAD, n; same && at < (int64_t)head->length; at += n) {
    n = (int64_t)head->length - at < (int64_t)sizeof found ? (int64_t)head->length - at
                                                           : (int64_t)sizeof found;
    same = read_part(d, found, n, at, error) && !memcmp(found, expected + at, (size_t)n);
  }
  if (error->status) return error->status;
  if (same && check_end(d, error)) return TSR_OK;
  if (error->status) return error->status;
  if (same)
    return tsr__error_set(
        error, TSR_EPARSE,
        "%s: has %lld bytes, expected %lld; delete the file to make the cache anew", d->path,
        (long long)d->size, (long long)(d->head + d->source.count * d->row));
  int64_t got = tsr__sys_read(d->fd - 1, found, 200, HEAD);
  return tsr__error_set(
      error, TSR_ESTATE,
      "%s: caches other records: '%.*s' instead of '%.200s'; delete the file, or name another one",
      d->path, got > 0 ? (int)got : 0, found, expected + HEAD);
}

static tsr_status open_cache(disk_source *d, const tsr__text *head, tsr__error *error)
{
  struct stat stat;
  int fd = tsr__sys_open(d->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return tsr__file_error(d->path, "open", errno, error);
  d->fd = fd + 1;
  if (fstat(fd, &stat)) return tsr__file_error(d->path, "open", errno, error);
  if (!S_ISREG(stat.st_mode))
    return tsr__error_set(error, TSR_EIO,
                          "%s: is not a plain file, and records are cached in plain files only",
                          d->path);
  d->size = (int64_t)stat.st_size;
  return check_head(d, head, error);
}

static tsr_status make_cache(disk_source *d, tsr__error *error)
{
  struct stat stat;
  tsr__text head;
  tsr__text_init(&head, &d->source.node.scope->rt->heap);
  make_head(d, &head);
  d->head = (int64_t)head.length;
  if (head.failed) tsr__error_set(error, TSR_ENOMEM, "no memory for the head of a cache");
  else if (d->source.count > (INT64_MAX >> 1) / d->row)
    tsr__error_set(error, TSR_EARG, "%lld records of %lld bytes are more than a file can hold",
                   (long long)d->source.count, (long long)d->row);
  /* Only where there is nothing: a file of something else is not written over. Of two programs that
   * make it at once, both write a whole one and the last rename stays. */
  else if (lstat(d->path, &stat) && errno == ENOENT) write_cache(d, &head, error);
  if (!error->status) open_cache(d, &head, error);
  tsr__text_free(&head);
  return error->status;
}

tsr_source *tsr__cache_file(tsr_source *source, const char *path, const char *site)
{
  const char *call = "tsr_source_cache";
  tsr__error error = { 0 };
  tsr_source *made = tsr__records_over(source, call, &disk_ops, sizeof(disk_source), site);
  if (made->inert) return made;
  tsr__records_follow(made, source);
  disk_source *d = (disk_source *)made;
  d->path = tsr__arena_text(&made->node.scope->arena, path, strlen(path));
  for (int c = 0; c < source->column_count; c++) {
    d->offset[c] = (size_t)d->row;
    d->row += (int64_t)source->columns[c].bytes;
  }
  d->row += CRC;
  if (!d->path) tsr__error_set(&error, TSR_ENOMEM, "no memory for a path");
  if (!error.status && !make_cache(d, &error)) return made;
  return tsr__stage_refused(source, call, &error, site);
}
