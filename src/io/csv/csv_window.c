/* Large plain files are never in memory as a whole: their rows are counted, and later parsed,
 * through buffers that each worker uses again and again, which stay in its cache and cost no fresh
 * pages.
 *
 *   file     |head|granule 0|granule 1|granule 2|granule 3| ...
 *   window             |..|granule 1|granule 2|..|           a few bytes around it, newlines beyond
 *                                                            the file's ends
 *
 * A view is a copy of the file whose `data` is such that offsets in the file find the window's
 * bytes: what works on a loaded file works on a view, within the window.
 *
 * Invariant: a window is a copy, which nobody can change. A file that changed since it was opened
 * is refused after it was counted and after each reading; nothing trusts that it did not change
 * between: rows that are not where they were are errors. */
#include "comm/peers.h"
#include "io/csv/csv_inner.h"
#include "io/file/files.h"

enum { HELD = 8 << 20, OPEN_FILES = 64, ROOM = 64 << 10 };

bool tsr__csv_windowed(const tsr__csv_file *file)
{
  return file->indexed && !file->data;
}

/* Shows bytes from .. to - 1 of a file's text; returns 0, an errno, NO_ROOM or SHORT. */
static int view_open(tsr__csv_view *view, const tsr__csv_file *file, int64_t from, int64_t to)
{
  int64_t first = from > TSR__CSV_FRONT ? from - TSR__CSV_FRONT : 0, got;
  int64_t last = to + TSR__CSV_PAD < file->size ? to + TSR__CSV_PAD : file->size;
  size_t need = (size_t)(to - from) + TSR__CSV_FRONT + TSR__CSV_PAD;
  /* In steps of 64 KiB, so that windows of about one size do not move the buffer each time. */
  if (need > view->room) {
    tsr__del(file->csv->heap, view->block, view->room);
    view->room = (need + ROOM - 1) / ROOM * ROOM;
    view->block = tsr__new_raw(file->csv->heap, view->room);
    if (!view->block) view->room = 0;
    if (!view->block) return TSR__CSV_NO_ROOM;
  }
  /* block + FRONT is where the byte at `from` lies. */
  size_t before = (size_t)(TSR__CSV_FRONT - (from - first));
  /* At the beginning of the file there is nothing to look back at: newlines stand in. */
  memset(view->block, file->dialect.newline, before);
  int code = tsr__csv_file_read(file, view->block + before, first, last - first, &got);
  if (code) return code;
  view->end = first + got;
  if (got < last - first) return TSR__CSV_SHORT;
  size_t used = before + (size_t)got;
  /* And behind its end, where the last row's newline may be missing. */
  memset(view->block + used, file->dialect.newline, need - used);
  view->file = *file;
  /* A difference of numbers, not of pointers: no object begins there. */
  view->file.data =
      (char *)((uintptr_t)view->block + TSR__CSV_FRONT - (uintptr_t)from); /* offsets begin there */
  view->file.end = to;
  return 0;
}

void tsr__csv_view_close(tsr__csv_view *view, tsr__heap *heap)
{
  tsr__del(heap, view->block, view->room);
}

tsr_status tsr__csv_view_error(const tsr__csv_file *file, int code, int64_t end, tsr__error *error)
{
  if (code == TSR__CSV_NO_ROOM) return tsr__csv_no_memory(file->csv, error);
  if (code == TSR__CSV_SHORT) return tsr__file_shrunk(file->path, end, file->stored, error);
  return tsr__file_error(file->path, "read", code, error);
}

int tsr__csv_view_rows(tsr__csv_view *view, const tsr__csv_file *file, int64_t first, int64_t last)
{
  int64_t from, to = tsr__csv_granules_of(file, first, last, &from);
  return view_open(view, file, from, to);
}

/* ---- counting ------------------------------------------------------------------------------ */

static bool can_index(const tsr__csv *csv)
{
  const tsr__csv_opts *opts = &csv->opts;
  /* Files of up to 8 MiB are sooner held whole. Comments and bad rows change the text, so it must
   * be held, too. */
  int64_t held = opts->held > 0 ? opts->held : HELD;
  bool fine = csv->file_count <= OPEN_FILES && !opts->comment && !opts->bad_rows;
  for (int f = 0; f < csv->file_count && fine; f++) {
    const tsr__csv_file *file = &csv->files[f];
    /* A stream comes once, and packed bytes have no offsets of text. */
    fine = !file->data && !file->stream && file->packing == TSR__PLAIN && file->stored > held;
  }
  return fine;
}

struct survey {
  tsr__csv *csv;
  tsr__csv_view *views;          /* by worker */
  int64_t granules;              /* a task's */
  int64_t first_task;            /* of this process */
  _Atomic int code;              /* the first failure */
  const tsr__csv_file *bad_file; /* where, */
  int64_t bad_end;               /* and where it ended */
};

static void failed(struct survey *s, const tsr__csv_file *file, int code, int64_t end)
{
  int none = 0;
  if (!atomic_compare_exchange_strong(&s->code, &none, code)) return;
  s->bad_file = file;
  s->bad_end = end;
}

static void survey_task(void *user, int64_t task, int worker)
{
  struct survey *s = user;
  tsr__csv *csv = s->csv;
  tsr__csv_view *view = &s->views[worker];
  int f = 0;
  task += s->first_task;
  /* Few files at a time, and a task is a window of one of them. */
  while (f + 1 < csv->file_count && csv->files[f + 1].task <= task) f++;
  tsr__csv_file *file = &csv->files[f];
  int64_t bytes = csv->granule_bytes, first = (task - file->task) * s->granules;
  int64_t last =
      first + s->granules < file->granule_count ? first + s->granules : file->granule_count;
  int64_t from = file->body + first * bytes, to = file->body + last * bytes;
  /* Somebody failed: the rest is not looked at. */
  if (atomic_load(&s->code)) return;
  if (to > file->end) to = file->end;
  int code = view_open(view, file, from, to);
  if (code) {
    failed(s, file, code, view->end);
    return;
  }
  for (int64_t g = first; g < last; g++, from += bytes) {
    const char *data = view->file.data, *end = data + (from + bytes < to ? from + bytes : to);
    csv->scan->count(&file->dialect, data + from, end, &file->granules[g]);
    file->granules[g].counted = true;
  }
}

/* Where a file's text ends: behind the newline that its last row may lack. */
static tsr_status find_end(tsr__csv_file *file, tsr__error *error)
{
  char last;
  int64_t got;
  /* One byte at the end of the file says whether a newline must be supplied. */
  int code = tsr__csv_file_read(file, &last, file->stored - 1, 1, &got);
  if (code) return tsr__file_error(file->path, "read", code, error);
  if (got < 1) return tsr__file_shrunk(file->path, file->stored - 1, file->stored, error);
  file->size = file->stored;
  file->end = file->size + (last != file->dialect.newline);
  return TSR_OK;
}

/* File by file: the granules of tasks up to `last_task` were counted here. */
static tsr_status tell_counts(const struct survey *s, int64_t last_task, tsr__error *error)
{
  tsr_status status = TSR_OK;
  for (int f = 0; f < s->csv->file_count && !status; f++) {
    tsr__csv_file *file = &s->csv->files[f];
    int64_t first = (s->first_task - file->task) * s->granules;
    int64_t last = (last_task - file->task) * s->granules, all = file->granule_count;
    first = first < 0 ? 0 : first > all ? all : first;
    last = last < first ? first : last > all ? all : last;
    status = tsr__csv_agree_counts(s->csv, &(tsr__csv_counted){ file, first, last }, error);
  }
  return status;
}

static tsr_status run_survey(struct survey *s, tsr__error *error)
{
  tsr__csv *csv = s->csv;
  int64_t tasks = 0, piece = csv->opts.piece > 0 ? csv->opts.piece : TSR__CSV_WINDOW;
  for (int f = 0; f < csv->file_count; f++) {
    tsr__csv_file *file = &csv->files[f];
    if (tsr__csv_file_open(file, error) || find_end(file, error) ||
        tsr__csv_make_granules(file, file->end, error))
      return error->status;
    s->granules = piece / csv->granule_bytes + 1;
    file->task = tasks;
    tasks += (file->granule_count + s->granules - 1) / s->granules;
  }
  /* Processes that read together count a share each. */
  int64_t shares = csv->peers ? tsr__peers_count(csv->peers) : 1;
  int64_t share = csv->peers ? tsr__peers_index(csv->peers) : 0;
  s->first_task = tasks * share / shares;
  if (!tsr__parallel_long(csv->rt, "csv", tasks * (share + 1) / shares - s->first_task, survey_task,
                          s))
    return tsr__cancelled(error, csv->path);
  int code = atomic_load(&s->code);
  if (code) return tsr__csv_view_error(s->bad_file, code, s->bad_end, error);
  if (csv->peers && tell_counts(s, tasks * (share + 1) / shares, error)) return error->status;
  return tsr__csv_windows_same(csv, error);
}

tsr_status tsr__csv_survey(tsr__csv *csv, tsr__error *error)
{
  size_t workers = (size_t)tsr__worker_count(csv->rt), size = workers * sizeof(tsr__csv_view);
  struct survey s = { .csv = csv };
  if (!can_index(csv)) return TSR_OK;
  /* From here on the files count as windowed; what fails takes that back below. */
  for (int f = 0; f < csv->file_count; f++) csv->files[f].indexed = true;
  s.views = tsr__new(csv->heap, size);
  tsr_status status = s.views ? run_survey(&s, error) : tsr__csv_no_memory(csv, error);
  for (size_t w = 0; s.views && w < workers; w++) tsr__csv_view_close(&s.views[w], csv->heap);
  tsr__del(csv->heap, s.views, size);
  for (int f = 0; f < csv->file_count && status; f++) {
    csv->files[f].indexed = false;
    csv->files[f].size = -1;
  }
  return status;
}

/* ---- all the same --------------------------------------------------------------------------- */

tsr_status tsr__csv_windows_same(tsr__csv *csv, tsr__error *error)
{
  for (int f = 0; f < csv->file_count; f++)
    if (tsr__csv_windowed(&csv->files[f]) && tsr__csv_file_same(&csv->files[f], error))
      return error->status;
  return TSR_OK;
}

tsr_status tsr__csv_hold(tsr__csv *csv, int64_t row, tsr__error *error)
{
  tsr__csv_file *file = tsr__csv_file_of(csv, row);
  /* A whole file is read to tell of one row: errors are rare, and say where they stand. */
  return file->data ? TSR_OK : tsr__csv_load(csv, file, 1, error);
}
