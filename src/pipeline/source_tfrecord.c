/* TFRecord files of tf.Example messages.
 *
 *   record   | length (8) | checksum of it (4) | message | checksum of it (4) |
 *
 * Numbers are little-endian, checksums CRC-32C, turned and with a constant added, as the format has
 * it. Lengths are read once, when the source is made, each compared with its checksum: a wrong one
 * loses its place for good. From then on a record is one reading at a known place; its message is
 * compared with its checksum each time and its features are copied straight to their cells.
 *
 * `at` has the places of the records of all files, and after those of each file its end: record r
 * of file k lies from at[r + k] to at[r + k + 1]. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "io/file/crc32c.h"
#include "io/file/files.h"
#include "io/file/system.h"
#include "pipeline/example.h"
#include "pipeline/records.h"

enum { HEAD = 12, TAIL = 4, WINDOW = 1 << 18 };

typedef struct tfrecord_source {
  tsr_source source;
  tsr__paths paths;
  int *fd;        /* by file; -1: not open */
  int64_t *first; /* [files + 1]: the first record of each */
  int64_t *at;
  size_t room;     /* of `at` */
  int64_t longest; /* bytes of a record, with what is around the message */
  bool defaults, unchecked;
} tfrecord_source;

static uint32_t masked(const void *data, size_t length)
{
  uint32_t crc = tsr__crc32c(0, data, length);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static uint64_t little(const unsigned char *from, int bytes)
{
  uint64_t number = 0;
  for (int i = 0; i < bytes; i++) number |= (uint64_t)from[i] << 8 * i;
  return number;
}

static int file_of(const tfrecord_source *t, int64_t record)
{
  int low = 0, high = t->paths.count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (t->first[middle] <= record) low = middle;
    else high = middle - 1;
  }
  return low;
}

/* ---- the index ------------------------------------------------------------------------------- */

/* A file that is walked along, and a window of it. */
typedef struct walk {
  const char *path;
  int fd;
  int64_t size, from, held; /* of the file; where the window begins, and its bytes */
  unsigned char *window;
} walk;

/* The next bytes at a place that is HEAD bytes before the end or more; NULL where reading fails. */
static const unsigned char *look(walk *w, int64_t at)
{
  if (at < w->from || at + HEAD > w->from + w->held) {
    w->from = at;
    w->held = tsr__sys_read_all(w->fd, w->window, WINDOW, at);
    if (w->held < HEAD) return NULL;
  }
  return w->window + (at - w->from);
}

static tsr_status keep_place(tfrecord_source *t, int64_t entry, int64_t at, tsr__error *error)
{
  if (!tsr__grow(&t->source.node.scope->rt->heap, (void **)&t->at, &t->room, (size_t)entry + 1,
                 sizeof *t->at))
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the places of %lld records",
                          (long long)entry);
  t->at[entry] = at;
  return TSR_OK;
}

/* The length of the record at a place, compared with its checksum and with the file. */
static int64_t length_at(walk *w, int64_t at, int64_t record, tsr__error *error)
{
  const unsigned char *head = w->size - at < HEAD + TAIL ? NULL : look(w, at);
  uint64_t length = head ? little(head, 8) : 0;
  if (w->size - at < HEAD + TAIL)
    tsr__error_set(error, TSR_EPARSE, "%s: record %lld at byte %lld is cut off", w->path,
                   (long long)record, (long long)at);
  else if (!head)
    tsr__error_set(error, w->held < 0 ? tsr__sys_status(errno) : TSR_EIO,
                   "%s: byte %lld cannot be read", w->path, (long long)at);
  else if (masked(head, 8) != little(head + 8, 4))
    tsr__error_set(error, TSR_EPARSE,
                   "%s: record %lld at byte %lld: its length does not match its checksum; this is "
                   "no TFRecord file, or it is damaged",
                   w->path, (long long)record, (long long)at);
  else if (length > (uint64_t)(w->size - at - HEAD - TAIL))
    tsr__error_set(error, TSR_EPARSE,
                   "%s: record %lld at byte %lld is cut off: %llu bytes, of which %lld are there",
                   w->path, (long long)record, (long long)at, (unsigned long long)length,
                   (long long)(w->size - at - HEAD));
  return (int64_t)length;
}

static tsr_status walk_file(tfrecord_source *t, int file, walk *w, tsr__progress *progress,
                            tsr__error *error)
{
  int64_t record = t->first[file], at = 0;
  for (; !error->status && at < w->size; record++) {
    int64_t length = length_at(w, at, record, error);
    if (error->status || keep_place(t, record + file, at, error)) break;
    if (length + HEAD + TAIL > t->longest) t->longest = length + HEAD + TAIL;
    at += length + HEAD + TAIL;
    if (!(record & 1023) && tsr__progress_stops(progress, 0))
      tsr__cancelled(error, "tsr_source_tfrecord");
  }
  if (!error->status) keep_place(t, record + file, at, error);
  t->first[file + 1] = record;
  return error->status;
}

static tsr_status open_file(tfrecord_source *t, int file, walk *w, tsr__progress *progress,
                            tsr__error *error)
{
  struct stat stat;
  *w = (walk){ .path = t->paths.path[file], .window = w->window };
  w->fd = t->fd[file] = tsr__sys_open(w->path, O_RDONLY | O_CLOEXEC);
  if (w->fd < 0 || fstat(w->fd, &stat)) return tsr__file_error(w->path, "open", errno, error);
  if (!S_ISREG(stat.st_mode))
    return tsr__error_set(error, TSR_EIO, "%s: no plain file, which records are read from",
                          w->path);
  w->size = (int64_t)stat.st_size;
  return walk_file(t, file, w, progress, error);
}

static tsr_status open_files(tfrecord_source *t, const char *path, tsr__error *error)
{
  tsr_runtime *rt = t->source.node.scope->rt;
  tsr__arena *arena = &t->source.node.scope->arena;
  tsr__path_ask ask = { .path = path };
  tsr__progress progress = { .rt = rt, .what = "tfrecord" };
  if (tsr__paths_find(&rt->heap, &ask, &t->paths, error)) {
    t->paths.count = 0;
    return error->status;
  }
  size_t files = (size_t)t->paths.count;
  int *fd = tsr__arena_new(arena, files * sizeof *fd + 1);
  t->first = tsr__arena_new(arena, (files + 1) * sizeof *t->first);
  walk w = { .window = tsr__new_raw(&rt->heap, WINDOW) };
  for (size_t i = 0; fd && i < files; i++) fd[i] = -1;
  t->fd = fd;
  if (!fd || !t->first || !w.window)
    tsr__error_set(error, TSR_ENOMEM, "no memory for a list of files");
  for (int i = 0; i < t->paths.count && !error->status; i++) open_file(t, i, &w, &progress, error);
  tsr__del(&rt->heap, w.window, WINDOW);
  t->source.extent = t->source.count = error->status ? 0 : t->first[files];
  return error->status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* One record whole, compared with its checksum; the message lies HEAD bytes into the room. */
static tsr_status read_message(const tfrecord_source *t, int64_t record, unsigned char *room,
                               int64_t *length, tsr__error *error)
{
  int file = file_of(t, record);
  int64_t at = t->at[record + file], bytes = t->at[record + file + 1] - at;
  int64_t got = tsr__sys_read_all(t->fd[file], room, (size_t)bytes, at);
  const char *path = t->paths.path[file];
  *length = bytes - HEAD - TAIL;
  if (got != bytes)
    return tsr__error_set(error, got < 0 ? tsr__sys_status(errno) : TSR_EIO,
                          "%s: record %lld at byte %lld: %s", path, (long long)record,
                          (long long)at,
                          got < 0 ? "it cannot be read" : "the file has become shorter");
  if (t->unchecked || masked(room + HEAD, (size_t)*length) == little(room + bytes - TAIL, 4))
    return TSR_OK;
  return tsr__error_set(error, TSR_EPARSE,
                        "%s: record %lld at byte %lld: its message does not match its checksum",
                        path, (long long)record, (long long)at);
}

static tsr_status read_tfrecord(const tsr_source *source, const tsr__ask_rows *ask,
                                tsr__error *error)
{
  const tfrecord_source *t = (const tfrecord_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  unsigned char *room = tsr__new_raw(heap, (size_t)t->longest + 1);
  if (!room)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for a record of %lld bytes",
                          (long long)t->longest);
  for (int64_t i = 0; i < ask->count && !error->status; i++) {
    tsr__example example = { .columns = source->columns,
                             .count = source->column_count,
                             .defaults = t->defaults };
    if (read_message(t, ask->at[i], room, &example.length, error)) break;
    example.message = room + HEAD;
    for (int c = 0; c < source->column_count; c++)
      example.to[c] = ask->cells[c].data ? tsr__cell_of(ask, c, i) : NULL;
    tsr__error cause = { 0 };
    if (tsr__example_read(&example, &cause)) {
      int file = file_of(t, ask->at[i]);
      tsr__error_set(error, cause.status, "%s: record %lld at byte %lld: %s", t->paths.path[file],
                     (long long)ask->at[i], (long long)t->at[ask->at[i] + file], cause.text);
    }
  }
  tsr__del(heap, room, (size_t)t->longest + 1);
  return error->status;
}

static void about_tfrecord(const tsr_source *source, tsr__text *out)
{
  const tfrecord_source *t = (const tfrecord_source *)source;
  size_t places = (size_t)(source->count + t->paths.count) * sizeof *t->at;
  tsr__text_add(out, "%d files, %016llx", t->paths.count,
                (unsigned long long)tsr__hash(t->at, places, 0));
}

static void release_tfrecord(tsr_source *source)
{
  tfrecord_source *t = (tfrecord_source *)source;
  for (int i = 0; t->fd && i < t->paths.count; i++)
    if (t->fd[i] >= 0) tsr__sys_close(t->fd[i]);
  tsr__paths_free(&t->paths);
  tsr__del(&source->node.scope->rt->heap, t->at, t->room * sizeof *t->at);
}

static const tsr__records_ops tfrecord_ops = { "tfrecord", read_tfrecord, NULL, about_tfrecord,
                                               release_tfrecord };

/* The lists that a feature may be: floats, int64s, bytes. */
static bool is_feature(tsr_dtype dtype)
{
  static const tsr_dtype lists[] = { TSR_F32, TSR_I64, TSR_U8 };
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (lists[i] == dtype) return true;
  return false;
}

tsr_source *tsr_source_tfrecord_with(tsr_scope *scope, const char *path,
                                     const tsr_tfrecord_args *given, const char *site)
{
  const char *call = "tsr_source_tfrecord";
  tsr_tfrecord_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR_MAX_FIELDS];
  int count = 0;
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (!path) tsr__error_set(&error, TSR_EARG, "the path is NULL; give one");
    else count = tsr__columns_of(args.fields, columns, &error);
  }
  for (int c = 0; c < count && !error.status; c++)
    if (!is_feature(columns[c].dtype))
      tsr__error_set(&error, TSR_EDTYPE,
                     "field %.80s is of %s; features are f32, i64, or u8 for bytes",
                     columns[c].name, tsr_dtype_name(columns[c].dtype));
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call, site, &tfrecord_ops, sizeof(tfrecord_source), 0, columns, count,
                             NULL, 0 };
  tsr_source *source = tsr__records_new(scope, &make);
  tfrecord_source *t = (tfrecord_source *)source;
  if (source->inert) return source;
  t->defaults = args.defaults;
  t->unchecked = args.unchecked;
  if (!open_files(t, path, &error)) return source;
  return tsr__records_refused(scope, site, call, &error);
}
