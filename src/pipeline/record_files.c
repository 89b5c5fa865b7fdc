/* Files of records: found, opened, walked along, read.
 *
 * Invariant: marks and texts of a file lie behind those of the files before it, and those of all
 * files but the one that is being walked along are complete. */
#include <errno.h>

#include "io/file/system.h"
#include "io/file/unpack.h"
#include "io/file/wide.h"
#include "pipeline/record_files.h"

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
    return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for the positions of %lld records",
                          w->file->path, (long long)w->records);
  f->marks[f->mark_count++] = mark;
  return TSR_OK;
}

/* ---- what is read as other bytes ------------------------------------------------------------- */

enum { LOOKED_AT = 512 }; /* first bytes of a file, by which its form is known */

/* How a file is stored, by its first bytes. */
typedef struct stored {
  char head[LOOKED_AT];
  int64_t have;
  tsr__packing packing;
  tsr__wide wide; /* of formats of text */
} stored;

/* Whether a name's ending is one of "gz,zst". */
static bool ends_with(const char *path, const char *endings)
{
  const char *dot = strrchr(path, '.');
  for (const char *at = endings; dot; at++) {
    size_t length = strcspn(at, ",");
    if (strlen(dot + 1) == length && !memcmp(dot + 1, at, length)) return true;
    at += length;
    if (!*at) break;
  }
  return false;
}

static bool says_packed(const char *path)
{
  return ends_with(path, "gz,tgz,gzip,zst,zstd");
}

/* What is plainly something else is refused by name: of text by its first bytes; of records of any
 * bytes, which may begin like anything, where the name says so as well. */
static tsr_status refuse_others(const tsr__record_file *file, const tsr__file_format *format,
                                const char *bytes, size_t length, tsr__error *error)
{
  bool any = format->packed == TSR__PACKED_IF_WHOLE;
  if (length > LOOKED_AT) length = LOOKED_AT;
  if (any && !ends_with(file->path, "bz2,xz,lz4,zip,7z")) return TSR_OK;
  if (!any && !format->text) return TSR_OK;
  return tsr__file_magic(file->path, any ? "records of bytes" : format->text, bytes, length, error);
}

static tsr_status look(const tsr__file_walk *w, const tsr__file_format *format, stored *out,
                       tsr__error *error)
{
  *out = (stored){ .have = 0 };
  if (format->packed == TSR__NEVER_PACKED) return TSR_OK;
  out->have = tsr__sys_read_all(w->fd, out->head, sizeof out->head, 0);
  if (out->have < 0) return tsr__file_error(w->file->path, "read", errno, error);
  out->packing = tsr__packing_of(out->head, (size_t)out->have);
  /* Records of any bytes can begin like a packed file does by chance: the format's word counts
   * more. */
  if (format->is_plain && format->is_plain((const unsigned char *)out->head))
    out->packing = TSR__PLAIN;
  if (format->text) out->wide = tsr__wide_of(out->head, (size_t)out->have);
  return TSR_OK;
}

/* A file that is not read as it is: its bytes, in the place of its descriptor's. */
static tsr_status load(tsr__file_walk *w, const tsr__record_files_ask *ask, tsr__error *error)
{
  const tsr__file_format *format = ask->format;
  tsr__record_file *file = w->file;
  tsr__load_ask how = {
    .rt = w->files->rt, .path = file->path, .what = format->kind, .unpack_limit = ask->unpack_limit
  };
  tsr__error cause = { 0 };
  stored form;
  tsr__wide wide = { 0 };
  if (look(w, format, &form, error)) return error->status;
  if (form.packing == TSR__PLAIN && !form.wide.width)
    return refuse_others(file, format, form.head, (size_t)form.have, error);
  if (tsr__file_load(&how, &file->unpacked, &cause)) {
    /* By chance no bytes unpack to their end, so these may be records themselves. */
    bool chance = format->packed == TSR__PACKED_IF_WHOLE && cause.status == TSR_EPARSE;
    if (chance && !says_packed(file->path)) return TSR_OK;
    return *error = cause, error->status;
  }
  if (format->text) wide = tsr__wide_of(file->unpacked.data, (size_t)file->unpacked.size);
  if (wide.width) tsr__wide_to_utf8(file->path, wide, &file->unpacked, error);
  else refuse_others(file, format, file->unpacked.data, (size_t)file->unpacked.size, error);
  file->size = file->unpacked.size;
  return error->status;
}

/* ---- the files of a list --------------------------------------------------------------------- */

static tsr_status open_file(tsr__file_walk *w, tsr__error *error)
{
  w->file->kept.path = w->file->path;
  w->fd = tsr__kept_look(w->files->rt, &w->file->kept, error);
  w->file->size = w->file->kept.size;
  return error->status;
}

/* What unpacks to how much, by what the files say of themselves. */
typedef struct packed_sum {
  int64_t files, stored, bytes;
} packed_sum;

static int read_stored(const void *user, char *to, int64_t offset, int64_t length, int64_t *got)
{
  *got = tsr__sys_read_all(*(const int *)user, to, (size_t)length, offset);
  return *got < 0 ? errno : 0;
}

static void add_packed(const tsr__file_walk *w, const tsr__record_files_ask *ask,
                       tsr__packing packing, packed_sum *sum)
{
  tsr__packed packed = { .heap = &w->files->rt->heap,
                         .path = w->file->path,
                         .packing = packing,
                         .stored = w->file->size,
                         .limit = tsr__unpack_limit(w->files->rt, w->file->size, ask->unpack_limit),
                         .read = read_stored,
                         .user = &w->fd };
  sum->files++;
  sum->stored += packed.stored;
  sum->bytes += tsr__packed_guess(&packed) - 1; /* it asks for room for one more */
}

/* Says what packed files will take, before any of them is unpacked. */
static tsr_status tell_packed(tsr__record_files *f, const tsr__record_files_ask *ask,
                              tsr__error *error)
{
  packed_sum sum = { 0 };
  stored form;
  if (ask->format->packed == TSR__NEVER_PACKED) return TSR_OK;
  for (int i = 0; i < f->count && !error->status; i++) {
    tsr__file_walk w = { .files = f, .file = &f->file[i], .fd = -1 };
    if (!open_file(&w, error) && !look(&w, ask->format, &form, error) && form.packing != TSR__PLAIN)
      add_packed(&w, ask, form.packing, &sum);
    if (w.fd >= 0) tsr__kept_give(f->rt, &w.file->kept, w.fd);
  }
  if (sum.files && !error->status)
    tsr__log(f->rt, TSR_LOG_INFO, "pipeline",
             "%s: %lld packed files of %lld bytes are unpacked into memory, about %lld bytes, and "
             "stay there; .unpack_limit bounds the unpacked bytes of a file",
             ask->path, (long long)sum.files, (long long)sum.stored, (long long)sum.bytes);
  return error->status;
}

/* open -> unpack -> index that was kept, or walk and keep one
 *
 * A format's walk sees plain bytes and no difference. */
static tsr_status walk_file(tsr__file_walk *w, const tsr__record_files_ask *ask, tsr__error *error)
{
  if (open_file(w, error) || load(w, ask, error)) return error->status;
  /* Behind unpacking: marks are places in what is unpacked. */
  if (ask->index && tsr__record_index_load(w, ask->format)) return TSR_OK;
  if (ask->format->walk(w, error)) return error->status;
  if (w->files->texts.failed)
    return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for the names of files", w->file->path);
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
    walk_file(&w, ask, error);
    if (w.fd >= 0) tsr__kept_give(f->rt, &w.file->kept, w.fd);
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
    for (size_t i = 0; i < files; i++) f->file[i].path = f->paths.path[i];
    f->count = f->paths.count;
    if (!tell_packed(f, ask, error)) walk_all(f, ask, window, error);
  }
  tsr__del(&rt->heap, window, TSR__WINDOW);
  return error->status;
}

void tsr__record_files_close(tsr__record_files *f)
{
  /* Never opened, or closed already. */
  if (!f->rt) return;
  for (int i = 0; i < f->count; i++) {
    tsr__kept_close(f->rt, &f->file[i].kept);
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
    return tsr__error_set(error, TSR_ENOMEM, "no memory for the positions of %d files", f->count);
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
  tsr__record_file *from = &f->file[place.file];
  if (!from->unpacked.data)
    return tsr__kept_read(f->rt, &from->kept, (tsr__kept_part){ place.at, place.bytes }, to, error);
  memcpy(to, from->unpacked.data + place.at, (size_t)place.bytes);
  return TSR_OK;
}

tsr_status tsr__record_failed(const tsr__record_files *f, int64_t record, const tsr__error *cause,
                              tsr__error *error)
{
  tsr__record_place p = tsr__record_place_of(f, record);
  return tsr__error_set(error, cause->status, "%s: record %lld at byte %lld: %s",
                        f->file[p.file].path, (long long)record, (long long)p.at, cause->text);
}

void tsr__record_files_where(const tsr__record_files *f, int64_t record, int64_t byte,
                             tsr__text *out)
{
  tsr__text_add(out, "; the record is in %s, record %lld at byte %lld",
                f->file[tsr__record_files_find(f, record)].path, (long long)record,
                (long long)byte);
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
