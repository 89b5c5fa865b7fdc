/* Files of records: found, opened, walked along, read.
 *
 * Invariant: marks and texts of a file lie behind those of the files before it, and those of all
 * files but the one that is being walked along are complete. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "io/file/system.h"
#include "pipeline/record_files.h"

enum { KEPT_OPEN = 256 }; /* files; what is left of the process's descriptors is others' */

/* ---- walking --------------------------------------------------------------------------------- */

const unsigned char *tsr__walk_look(tsr__file_walk *w, int64_t at, int64_t need, int64_t *have,
                                    tsr__error *error)
{
  /* All of an unpacked file is a window that never moves. */
  if (w->file->unpacked.data) {
    if (tsr__progress_stops(&w->progress, 0)) {
      tsr__cancelled(error, "a walk along a file");
      return NULL;
    }
    if (have) *have = w->file->size - at;
    return (const unsigned char *)w->file->unpacked.data + at;
  }
  /* Walks go forwards, so what lies before `at` is not wanted again. The window begins anew there,
   * rather than being moved and filled up: it is read from the page cache. */
  if (at < w->from || at + need > w->from + w->held) {
    w->from = at;
    w->held = 0;
    int64_t got = tsr__sys_read_all(w->fd, w->window, TSR__WINDOW, at);
    if (got < 0) tsr__file_error(w->file->path, "read", errno, error);
    else if (got < need) tsr__file_shrunk(w->file->path, at + got, w->file->size, error);
    else if (tsr__progress_stops(&w->progress, 0)) tsr__cancelled(error, "a walk along a file");
    if (error->status) return NULL;
    w->held = got;
  }
  if (have) *have = w->from + w->held - at;
  return w->window + (at - w->from);
}

tsr_status tsr__walk_mark(tsr__file_walk *w, int64_t mark, tsr__error *error)
{
  tsr__record_files *f = w->files;
  if (!tsr__grow(&f->rt->heap, (void **)&f->marks, &f->mark_room, f->mark_count + 1,
                 sizeof *f->marks))
    return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for the places of %lld records",
                          w->file->path, (long long)w->records);
  f->marks[f->mark_count++] = mark;
  return TSR_OK;
}

/* A packed file of a format that is read so: its bytes, in the place of its descriptor's. */
static tsr_status unpack(tsr__file_walk *w, const tsr__file_format *format, tsr__error *error)
{
  static const unsigned char gzip[3] = { 0x1F, 0x8B, 8 }, zstd[4] = { 0x28, 0xB5, 0x2F, 0xFD };
  unsigned char head[TSR__FILE_HEAD] = { 0 };
  if (!format->unpacks) return TSR_OK;
  if (tsr__sys_read_all(w->fd, head, sizeof head, 0) < 0)
    return tsr__file_error(w->file->path, "read", errno, error);
  if (memcmp(head, gzip, sizeof gzip) != 0 && memcmp(head, zstd, sizeof zstd) != 0) return TSR_OK;
  /* Records of any bytes can begin like a packed file does by chance: the format's word counts
   * more. */
  if (format->is_plain && format->is_plain(head)) return TSR_OK;
  tsr__load_ask ask = { .rt = w->files->rt, .path = w->file->path, .what = format->kind };
  if (!tsr__file_load(&ask, &w->file->unpacked, error)) w->file->size = w->file->unpacked.size;
  return error->status;
}

static tsr_status open_file(tsr__file_walk *w, int number, tsr__error *error)
{
  struct stat stat;
  const char *path = w->file->path;
  w->fd = tsr__sys_open(path, O_RDONLY | O_CLOEXEC);
  if (w->fd < 0) return tsr__file_error(path, "open", errno, error);
  /* From here on the list closes it, whatever fails; w->fd alone is walk_all's to close. */
  if (number < KEPT_OPEN) w->file->fd = w->fd;
  if (fstat(w->fd, &stat)) return tsr__file_error(path, "open", errno, error);
  /* A pipe or a device has no places to go back to. */
  if (!S_ISREG(stat.st_mode))
    return tsr__error_set(error, TSR_EIO, "%s: no plain file, which records are read from", path);
  w->file->size = (int64_t)stat.st_size;
  w->file->changed = (int64_t)stat.st_mtim.tv_sec * 1000000000 + stat.st_mtim.tv_nsec;
  return TSR_OK;
}

/* open -> unpack -> index that was kept, or walk and keep one
 *
 * A format's walk sees plain bytes and no difference. */
static tsr_status walk_file(tsr__file_walk *w, int number, const tsr__record_files_ask *ask,
                            tsr__error *error)
{
  if (open_file(w, number, error) || unpack(w, ask->format, error)) return error->status;
  /* Behind unpacking: marks are places in what is unpacked. */
  if (ask->index && tsr__record_index_load(w, ask->format)) return TSR_OK;
  if (ask->format->walk(w, error)) return error->status;
  if (w->files->texts.failed)
    return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for its names", w->file->path);
  if (ask->index) tsr__record_index_save(w, ask->format);
  return TSR_OK;
}

/* file 0: first 0, marks 0 .. | file 1: first 7, marks 8 .. | end: first 12, marks 14
 *
 * Each file ends where the next one begins, so one entry more than files is written. */
static tsr_status walk_all(tsr__record_files *f, const tsr__record_files_ask *ask,
                           unsigned char *window, tsr__error *error)
{
  for (int i = 0; i < f->count && !error->status; i++) {
    tsr__file_walk w = { .files = f, .file = &f->file[i], .fd = -1, .window = window };
    w.user = ask->user;
    w.progress = (tsr__progress){ .rt = f->rt, .what = ask->format->kind };
    walk_file(&w, i, ask, error);
    if (w.fd >= 0 && w.file->fd < 0) tsr__sys_close(w.fd);
    if (w.longest > f->longest) f->longest = w.longest;
    f->file[i + 1].first = f->file[i].first + w.records;
    f->file[i + 1].mark = f->mark_count;
    f->file[i + 1].text = f->texts.length;
  }
  return error->status;
}

tsr_status tsr__record_files_open(tsr__record_files *f, const tsr__record_files_ask *ask,
                                  tsr__error *error)
{
  tsr_runtime *rt = ask->scope->rt;
  tsr__path_ask paths = { .path = ask->path };
  *f = (tsr__record_files){ .rt = rt };
  /* `rt` is set before anything can fail: it is what says that there is something to close. */
  tsr__text_init(&f->texts, &rt->heap);
  if (tsr__paths_find(&rt->heap, &paths, &f->paths, error)) return error->status;
  size_t files = (size_t)f->paths.count;
  f->file = tsr__arena_new(&ask->scope->arena, (files + 1) * sizeof *f->file);
  unsigned char *window = tsr__new_raw(&rt->heap, TSR__WINDOW);
  if (!f->file || !window) tsr__error_set(error, TSR_ENOMEM, "no memory for a list of files");
  else {
    for (size_t i = 0; i < files; i++)
      f->file[i] = (tsr__record_file){ .path = f->paths.path[i], .fd = -1 };
    f->count = f->paths.count;
    walk_all(f, ask, window, error);
  }
  tsr__del(&rt->heap, window, TSR__WINDOW);
  return error->status;
}

void tsr__record_files_close(tsr__record_files *f)
{
  /* Never opened, or closed already. */
  if (!f->rt) return;
  for (int i = 0; i < f->count; i++) {
    if (f->file[i].fd >= 0) tsr__sys_close(f->file[i].fd);
    tsr__loaded_free(&f->file[i].unpacked);
  }
  tsr__del(&f->rt->heap, f->marks, f->mark_room * sizeof *f->marks);
  tsr__text_free(&f->texts);
  tsr__paths_free(&f->paths);
  *f = (tsr__record_files){ 0 };
}

/* ---- asking ---------------------------------------------------------------------------------- */

int64_t tsr__record_files_total(const tsr__record_files *f)
{
  return f->file[f->count].first;
}

tsr_status tsr__record_files_tell(const tsr__record_files *f, tsr_source *source, tsr__error *error)
{
  int64_t *first =
      tsr__arena_new(&source->node.scope->arena, ((size_t)f->count + 1) * sizeof *first);
  if (!first)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the places of %d files", f->count);
  for (int i = 0; i <= f->count; i++) first[i] = f->file[i].first;
  source->files = first;
  source->file_count = f->count;
  return TSR_OK;
}

/* The last of equal starts, as files without records have no record to be found. */
int tsr__record_files_find(const tsr__record_files *f, int64_t record)
{
  int low = 0, high = f->count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (f->file[middle].first <= record) low = middle;
    else high = middle - 1;
  }
  return low;
}

const int64_t *tsr__record_marks(const tsr__record_files *f, int file)
{
  return f->marks ? f->marks + f->file[file].mark : NULL;
}

tsr__record_place tsr__record_place_of(const tsr__record_files *f, int64_t record)
{
  int file = tsr__record_files_find(f, record);
  const int64_t *mark = tsr__record_marks(f, file) + (record - f->file[file].first);
  return (tsr__record_place){ file, mark[0], mark[1] - mark[0] };
}

/* Record ask->at[first] and those behind it. */
typedef struct record_run {
  int64_t first, count;
  tsr__record_place place; /* of all of them */
} record_run;

static record_run run_of(const tsr__record_files *f, const tsr__ask_rows *ask, int64_t first)
{
  int64_t record = ask->at[first];
  record_run r = { first, 1, tsr__record_place_of(f, record) };
  const tsr__record_file *file = &f->file[r.place.file];
  const int64_t *mark = tsr__record_marks(f, r.place.file) + (record - file->first);
  int64_t most =
      file[1].first - record < ask->count - first ? file[1].first - record : ask->count - first;
  for (; r.count < most && ask->at[first + r.count] == record + r.count; r.count++) {
    /* A long record alone is read whole however long it is. */
    if (mark[r.count + 1] - mark[0] > TSR__WINDOW) break;
    r.place.bytes = mark[r.count + 1] - mark[0];
  }
  return r;
}

/* `row` has the source and the question. */
static tsr_status read_run(const tsr__record_files *f, tsr__record_row row, const record_run *r,
                           const tsr__record_taker *taker, tsr__error *error)
{
  tsr__heap *heap = &f->rt->heap;
  tsr__error cause = { 0 };
  size_t bytes = (size_t)r->place.bytes, room = (taker->spares ? 2 * bytes : bytes) + 1;
  char *text = tsr__new_raw(heap, room);
  row.i = r->first;
  row.at = text;
  row.spare = taker->spares && text ? text + bytes : NULL;
  if (!text) tsr__error_set(&cause, TSR_ENOMEM, "no memory for %zu bytes of lines", room);
  else tsr__record_files_read(f, r->place, text, &cause);
  for (; row.i < r->first + r->count && !cause.status; row.i++) {
    row.bytes = tsr__record_place_of(f, row.ask->at[row.i]).bytes;
    if (taker->take(&row, &cause)) break;
    row.at += row.bytes;
  }
  tsr__del(heap, text, room);
  /* Where the reading itself failed that is still the run's first record, which is as good as
   * any. */
  return cause.status ? tsr__record_failed(f, row.ask->at[row.i], &cause, error) : TSR_OK;
}

tsr_status tsr__record_rows_read(const tsr__record_files *f, const tsr_source *source,
                                 const tsr__ask_rows *ask, const tsr__record_taker *taker,
                                 tsr__error *error)
{
  for (int64_t i = 0; i < ask->count && !error->status;) {
    record_run r = run_of(f, ask, i);
    read_run(f, (tsr__record_row){ .source = source, .ask = ask }, &r, taker, error);
    i += r.count;
  }
  return error->status;
}

/* Marks of an index that was kept are a stranger's numbers: whoever reads records relies on them
 * for the bytes that it copies to a cell of `longest`. */
bool tsr__record_places_fit(const tsr__file_walk *w)
{
  const int64_t *marks = w->files->marks + w->file->mark;
  size_t count = w->files->mark_count - w->file->mark;
  if (!count || (uint64_t)w->records != count - 1 || marks[0] < 0) return false;
  if (w->longest > w->file->size) return false;
  for (size_t i = 1; i < count; i++)
    if (marks[i] < marks[i - 1] || marks[i] - marks[i - 1] > w->longest) return false;
  return marks[count - 1] <= w->file->size;
}

tsr_status tsr__record_files_read(const tsr__record_files *f, tsr__record_place place, void *to,
                                  tsr__error *error)
{
  const tsr__record_file *from = &f->file[place.file];
  if (from->unpacked.data) {
    memcpy(to, from->unpacked.data + place.at, (size_t)place.bytes);
    return TSR_OK;
  }
  /* Readings say where they begin, so threads share a descriptor without a lock. */
  int fd = from->fd >= 0 ? from->fd : tsr__sys_open(from->path, O_RDONLY | O_CLOEXEC);
  int64_t got = fd < 0 ? -1 : tsr__sys_read_all(fd, to, (size_t)place.bytes, place.at);
  char text[128];
  if (got < 0)
    tsr__error_set(error, tsr__sys_status(errno), "byte %lld cannot be read: %s",
                   (long long)place.at, tsr__sys_text(errno, text, sizeof text));
  else if (got < place.bytes)
    tsr__error_set(error, TSR_EIO, "the file has become shorter: it ends at byte %lld",
                   (long long)(place.at + got));
  /* errno was told above, before this may change it. */
  if (fd >= 0 && from->fd < 0) tsr__sys_close(fd);
  return error->status;
}

tsr_status tsr__record_failed(const tsr__record_files *f, int64_t record, const tsr__error *cause,
                              tsr__error *error)
{
  tsr__record_place p = tsr__record_place_of(f, record);
  return tsr__error_set(error, cause->status, "%s: record %lld at byte %lld: %s",
                        f->file[p.file].path, (long long)record, (long long)p.at, cause->text);
}

/* Names without folders: states go on where the same files lie elsewhere. Marks stand for contents,
 * which are not read. */
void tsr__record_files_about(const tsr__record_files *f, tsr__text *out)
{
  uint64_t hash = tsr__hash(f->marks, f->mark_count * sizeof *f->marks, 0);
  for (int i = 0; i < f->count; i++) {
    const char *slash = strrchr(f->file[i].path, '/');
    const char *name = slash ? slash + 1 : f->file[i].path;
    hash = tsr__hash(&f->file[i].size, sizeof f->file[i].size, hash);
    hash = tsr__hash(name, strlen(name), hash);
  }
  tsr__text_add(out, "%d files, %016llx", f->count, (unsigned long long)hash);
}
