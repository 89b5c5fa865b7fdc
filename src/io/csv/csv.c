/* Opening a source: its files are found, recognised, their headers matched, types guessed.
 *
 *   path -> files -> each: beginning, header, a sample  -> columns and their types
 *
 * Invariant: what is told at open stays true but for types, which widen when more is read.
 *
 * A file is looked at in four steps: opened, its beginning read, its header taken, some of its rows
 * sampled. Files after the first only have to agree with it. */
#include "io/csv/csv_inner.h"

enum { MAGIC_LOOK = 512, OTHER_HEAD = 32 << 10 };

/* ---- opening ------------------------------------------------------------------------------ */

tsr__csv_head_sizes tsr__csv_sizes_of(const tsr__csv_file *file)
{
  int64_t sample = tsr__csv_sample_size(file->csv);
  tsr__csv_head_sizes sizes = { sample, sample / 2 + MAGIC_LOOK };
  if (file == file->csv->files) return sizes;
  if (sizes.small > OTHER_HEAD) sizes.small = OTHER_HEAD;
  if (sizes.part > OTHER_HEAD) sizes.part = OTHER_HEAD;
  return sizes;
}

/* Reads a file's beginning and samples it; `*whole`: there was no more of it. */
static tsr_status open_file(tsr__csv_file *file, bool *whole, tsr__error *error)
{
  tsr__csv *csv = file->csv;
  tsr__csv_window head = { NULL, NULL };
  tsr_status status = tsr__csv_file_open(file, error);
  if (!status) status = tsr__csv_load_head(file, &head, error);
  if (!status && !file->empty) status = tsr__csv_read_head(file, &head, error);
  if (status || file->empty) return status;
  /* Bad rows are taken out of a whole text; a stream cannot be read twice. */
  bool now = csv->opts.bad_rows || file->stream; /* else it can be read later */
  if (now) status = tsr__csv_load(csv, file, 1, error);
  if (!status && csv->opts.bad_rows) status = tsr__csv_clean_rows(file, error);
  if (!status) status = tsr__csv_sample(file, head, whole, error);
  /* Of many files none stays open: the system has a limit. */
  if (csv->file_count > 1) tsr__csv_file_close(file);
  if (!file->data) tsr__csv_file_drop(file);
  return status;
}

/* Looks at all files and leaves out those that are empty. */
static tsr_status open_files(tsr__csv *csv, bool *whole, tsr__error *error)
{
  int kept = 0;
  for (int f = 0; f < csv->file_count; f++) {
    tsr__csv_file *file = &csv->files[kept];
    /* The first of those that are kept stands first: its columns are those of all. */
    if (f > kept) {
      *file = csv->files[f];
      csv->files[f] = (tsr__csv_file){ .csv = csv, .fd = -1 };
    }
    if (open_file(file, whole, error)) return error->status;
    if (!file->empty) {
      kept++;
      continue;
    }
    tsr__text_add(&csv->notes, "%s: is empty, and gives no rows\n", file->path);
    tsr__csv_file_close(file);
    tsr__csv_file_drop(file);
  }
  if (!kept)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: all of its %d files are empty; a CSV file begins with a header line",
                          csv->path, csv->file_count);
  csv->file_count = kept;
  return TSR_OK;
}

static tsr_status open_all(tsr__csv *csv, const char *path, const tsr__csv_opts *opts,
                           tsr__error *error)
{
  tsr__path_ask ask = { path, opts ? opts->more : NULL, opts ? opts->more_count : 0,
                        opts && opts->literal_path };
  csv->path = tsr__paths_said(&csv->arena, &ask);
  csv->decimal = tsr__decimal_open(csv->heap);
  if (!csv->path || !csv->decimal)
    return tsr__error_set(error, TSR_ENOMEM, "%s: no memory to open it", path);
  tsr_status status = tsr__csv_take_options(csv, opts, error);
  if (!status) status = tsr__csv_find_files(csv, &ask, error);
  bool whole = true;
  if (!status) status = open_files(csv, &whole, error);
  return status ? status : tsr__csv_settle_types(csv, whole, error);
}

tsr__csv *tsr__csv_open_with(tsr_runtime *rt, const char *path, const tsr__csv_opts *opts,
                             tsr__error *error)
{
  tsr__csv *csv = tsr__new(&rt->heap, sizeof *csv);
  if (!csv) {
    tsr__error_set(error, TSR_ENOMEM, "%s: no memory to open it", path);
    return NULL;
  }
  /* -1: not counted, and no front yet. */
  csv->rt = rt;
  csv->heap = &rt->heap;
  csv->scan = tsr__csv_scan_for(rt);
  csv->rows = csv->front = -1;
  tsr__arena_init(&csv->arena, csv->heap);
  tsr__text_init(&csv->notes, csv->heap);
  if (!open_all(csv, path, opts, error)) return csv;
  tsr__csv_close(csv);
  return NULL;
}

/* ---- closing ------------------------------------------------------------------------------- */

/* Texts go, what was learned of them stays. */
void tsr__csv_forget(tsr__csv *csv)
{
  for (int f = 0; f < csv->file_count; f++) {
    tsr__csv_file_close(&csv->files[f]);
    tsr__csv_file_drop(&csv->files[f]);
  }
}

void tsr__csv_close(tsr__csv *csv)
{
  if (!csv) return;
  tsr__heap *heap = csv->heap;
  tsr__csv_forget(csv);
  tsr__del(heap, csv->files, (size_t)csv->file_room * sizeof *csv->files);
  tsr__decimal_close(csv->decimal);
  tsr__text_free(&csv->notes);
  tsr__arena_free(&csv->arena);
  tsr__del(heap, csv, sizeof *csv);
}

/* ---- queries -------------------------------------------------------------------------------- */

int tsr__csv_columns(const tsr__csv *csv, const tsr__read_column **out)
{
  *out = csv->columns;
  return csv->column_count;
}

int64_t tsr__csv_bad_rows(const tsr__csv *csv)
{
  return csv->bad_rows;
}

/* -1: the column has its first type. */
int64_t tsr__csv_widened(const tsr__csv *csv, int column, const char **text)
{
  const tsr__csv_info *info = &csv->info[column];
  if (info->widened_row >= 0) *text = info->widened_text;
  return info->widened_row;
}

/* ---- as a reader ----------------------------------------------------------------------------- */

static void csv_close(void *file)
{
  tsr__csv_close(file);
}

static int csv_columns(const void *file, const tsr__read_column **out)
{
  return tsr__csv_columns(file, out);
}

static const char *csv_path(const void *file)
{
  const tsr__csv *csv = file;
  return csv->path;
}

static tsr_status csv_count(void *file, int64_t *rows, tsr__error *error)
{
  return tsr__csv_count(file, rows, error);
}

static tsr_status csv_settle(void *file, bool *changed, tsr__error *error)
{
  return tsr__csv_settle(file, changed, error);
}

static tsr_status csv_read(void *file, tsr__read_ask *read, tsr__error *error)
{
  return tsr__csv_read_parts(file, read, error);
}

static int64_t csv_widened(const void *file, int column, const char **text)
{
  return tsr__csv_widened(file, column, text);
}

/* Of packed files that were not read yet, what they hold packed: the only size known by then. */
static int64_t csv_bytes(const void *file)
{
  const tsr__csv *csv = file;
  int64_t bytes = 0;
  for (int f = 0; f < csv->file_count; f++)
    bytes += csv->files[f].size >= 0 ? csv->files[f].size : csv->files[f].stored;
  return bytes;
}

static const char *csv_notes(const void *file)
{
  const tsr__csv *csv = file;
  return tsr__text_get(&csv->notes);
}

static void csv_together(void *file, tsr__peers *peers)
{
  tsr__csv *csv = file;
  csv->peers = peers;
}

static tsr_status csv_front(void *file, int64_t want, int64_t *rows, tsr__error *error)
{
  return tsr__csv_front(file, want, rows, error);
}

const tsr__reader_ops tsr__csv_reader = { .format = "csv",
                                          .close = csv_close,
                                          .columns = csv_columns,
                                          .path = csv_path,
                                          .count = csv_count,
                                          .read = csv_read,
                                          .settle = csv_settle,
                                          .widened = csv_widened,
                                          .bytes = csv_bytes,
                                          .drops_values = true,
                                          .size = csv_bytes,
                                          .notes = csv_notes,
                                          .front = csv_front,
                                          .together = csv_together };
