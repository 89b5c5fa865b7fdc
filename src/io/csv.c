/* Opening a CSV file: recognise it, read the header, guess each column's type from a sample.
 *
 *   small file   loaded at once, sampled whole
 *   large file   three windows: its start, middle and end. Of the latter two it is not known
 *                whether they begin inside quotes: both are tried, and a window counts only if
 *                one of the two gives rows of the right length with quotes in the right places
 *
 * A column of nothing but nulls in the sample is looked up in the whole file, so that no type
 * is ever made up. A wrong guess costs time, never data: see tsr__csv_read_parts. */
#include "io/csv_inner.h"

#include <unistd.h>

enum { WINDOW_MIN = 4 << 10, MAGIC_LOOK = 512 };

/* A run of the file's bytes, borrowed from csv->data or a buffer of its own. */
struct window {
  const char *at, *end;
};

/* ---- the dialect ------------------------------------------------------------------------- */

static bool has_mark(const char *bytes, size_t length)
{
  return length >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0;
}

/* LF if there is one outside quotes; else, in a whole file, CR if there is one; 0: not known. */
static char find_newline(const char *bytes, size_t length, bool whole)
{
  bool quoted = false, returns = false;
  for (size_t i = 0; i < length; i++) {
    if (bytes[i] == '"') quoted = !quoted;
    if (quoted) continue;
    if (bytes[i] == '\n') return '\n';
    returns |= bytes[i] == '\r';
  }
  if (!whole) return 0;
  return returns ? '\r' : '\n';
}

/* ---- the header --------------------------------------------------------------------------- */

static tsr_status no_memory(const tsr__csv *csv, tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "%s: no memory to open it", csv->path);
}

/* Copies a field of the header without its quotes; a nameless column is called by its place. */
static tsr_status name_column(tsr__csv *csv, int column, tsr__csv_field f, tsr__error *error)
{
  tsr__text name;
  tsr__text_init(&name, csv->heap);
  bool quoted = f.length >= 2 && f.at[0] == '"';
  if (quoted) f.at++, f.length -= 2;
  for (size_t i = 0; i < f.length; i++) {
    tsr__text_put(&name, f.at + i, 1);
    if (quoted && f.at[i] == '"') i++;
  }
  if (name.length == 0) tsr__text_add(&name, "column_%d", column + 1);
  bool good = tsr__utf8_valid(tsr__text_get(&name), name.length) &&
              strlen(tsr__text_get(&name)) == name.length;
  csv->columns[column].name = good ? tsr__new(csv->heap, name.length + 1) : NULL;
  if (csv->columns[column].name && !name.failed)
    memcpy(csv->columns[column].name, tsr__text_get(&name), name.length);
  bool failed = name.failed || (good && !csv->columns[column].name);
  tsr__text_free(&name);
  if (failed) return no_memory(csv, error);
  if (good) return TSR_OK;
  return tsr__error_set(error, TSR_EPARSE,
                        "%s: the name of column %d in the header is not UTF-8 text; convert the "
                        "file (iconv -f LATIN1 -t UTF-8)",
                        csv->path, column + 1);
}

static tsr_status check_names(tsr__csv *csv, tsr__error *error)
{
  tsr__dict_local names;
  tsr_status status = TSR_OK;
  tsr__dict_local_init(&names, csv->heap);
  for (int c = 0; c < csv->column_count && !status; c++) {
    const char *name = csv->columns[c].name;
    bool added;
    int32_t first = tsr__dict_code(&names, name, strlen(name), false, &added);
    if (first < 0) status = no_memory(csv, error);
    else if (!added)
      status = tsr__error_set(error, TSR_ECOLUMN,
                              "%s: columns %d and %d of the header are both called \"%s\"; rename "
                              "one, names must be unique",
                              csv->path, first + 1, c + 1, name);
  }
  tsr__dict_local_free(&names);
  return status;
}

static tsr_status make_columns(tsr__csv *csv, const tsr__csv_row *row, tsr__error *error)
{
  if (row->fields > INT32_MAX / 1024)
    return tsr__error_set(error, TSR_EUNSUPPORTED, "%s: has more than %d columns", csv->path,
                          INT32_MAX / 1024);
  size_t count = (size_t)row->fields;
  csv->columns = tsr__new(csv->heap, count * sizeof *csv->columns);
  csv->info = tsr__new(csv->heap, count * sizeof *csv->info);
  csv->column_count = (int)count;
  size_t size = (count + 2) * sizeof(uint32_t);
  uint32_t *ends = tsr__new(csv->heap, size);
  if (!csv->columns || !csv->info || !ends) {
    tsr__del(csv->heap, ends, size);
    return no_memory(csv, error);
  }
  tsr__csv_batch batch = { .base = row->begin,
                           .rows = 1,
                           .columns = (int)count,
                           .ends = ends,
                           .begins = ends + count,
                           .lasts = ends + count + 1 };
  tsr__csv_split_row(&csv->dialect, row, row->begin, ends, count);
  batch.begins[0] = UINT32_MAX;
  tsr__csv_trim_returns(csv, &batch);
  tsr_status status = TSR_OK;
  for (int c = 0; c < csv->column_count && !status; c++) {
    csv->info[c].widened_row = -1;
    status = name_column(csv, c, tsr__csv_field_of(&batch, 0, c), error);
  }
  tsr__del(csv->heap, ends, size);
  return status ? status : check_names(csv, error);
}

/* Reads the header from the file's first bytes, or, where those do not suffice, from all. */
static tsr_status read_header(tsr__csv *csv, struct window *head, tsr__error *error)
{
  csv->dialect.skip_blank = true;
  tsr__csv_row row;
  const char *begin = csv->data ? csv->data : head->at;
  const char *end = csv->data ? csv->data + csv->end : head->end;
  tsr__csv_found found = tsr__csv_next_row(&csv->dialect, begin + csv->head, end, &row);
  if (found != TSR__CSV_ROW && !csv->data) {
    tsr_status status = tsr__csv_load(csv, error);
    return status ? status : read_header(csv, head, error);
  }
  if (found == TSR__CSV_END)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: holds no header, only empty lines; a CSV file begins with one",
                          csv->path);
  if (found != TSR__CSV_ROW) return tsr__csv_row_error(csv, found, &row, error);
  csv->body = row.next - begin;
  csv->dialect.skip_blank = row.fields > 1;
  return make_columns(csv, &row, error);
}

/* ---- sampling ------------------------------------------------------------------------------- */

static bool is_plain(const char *at, const char *end)
{
  return !memchr(at, '"', (size_t)(end - at));
}

/* Quotes only around whole fields. */
static bool quotes_in_place(const tsr__csv *csv, const tsr__csv_batch *batch)
{
  for (int c = 0; c < csv->column_count; c++) {
    tsr__csv_field f = tsr__csv_field_of(batch, 0, c);
    if (f.length && f.at[0] != '"' && !is_plain(f.at, f.at + f.length)) return false;
  }
  return true;
}

/* Adds the classes of a window's rows to seen[] up to a row that the window cuts; returns how
 * many rows, or -1 when one is not as rows should be. `sure`: it begins with a row. */
static int64_t sample_rows(const tsr__csv *csv, struct window window, tsr__csv_batch *batch,
                           unsigned *seen, bool sure)
{
  tsr__csv_row row;
  tsr__csv_value value;
  tsr__csv_found found;
  int64_t rows = 0;
  const char *at = window.at;
  for (; (found = tsr__csv_next_row(&csv->dialect, at, window.end, &row)) == TSR__CSV_ROW; rows++) {
    if (row.fields != csv->column_count) return -1;
    batch->base = row.begin;
    tsr__csv_split_row(&csv->dialect, &row, row.begin, batch->ends, (size_t)batch->columns);
    tsr__csv_trim_returns(csv, batch);
    if (!sure && !quotes_in_place(csv, batch)) return -1;
    for (int c = 0; c < csv->column_count; c++)
      seen[c] |= tsr__csv_classify(csv->decimal, tsr__csv_field_of(batch, 0, c), &value);
    at = row.next;
  }
  return found == TSR__CSV_JUNK ? -1 : rows;
}

/* Behind the first row end of a window that begins somewhere in the file, assuming that it
 * begins outside (or inside) quotes. */
static const char *first_row(const tsr__csv *csv, struct window window, bool inside)
{
  const char *at = window.at;
  for (; at < window.end; at++) {
    if (*at == '"') inside = !inside;
    if (*at == csv->dialect.newline && !inside) return at + 1;
  }
  return at;
}

/* `seen` has room for two answers. Rows of one field have no wrong length that would give the
 * wrong answer away. */
static void sample_window(tsr__csv *csv, struct window window, tsr__csv_batch *batch,
                          unsigned *seen)
{
  size_t columns = (size_t)csv->column_count;
  if (columns == 1 && !is_plain(window.at, window.end)) return;
  memset(seen, 0, 2 * columns * sizeof *seen);
  int64_t rows[2];
  for (int inside = 0; inside < 2; inside++) {
    struct window from = { first_row(csv, window, inside), window.end };
    rows[inside] = sample_rows(csv, from, batch, seen + (inside ? columns : 0), false);
  }
  if ((rows[0] > 0) == (rows[1] > 0)) return;
  for (size_t c = 0; c < columns; c++) csv->info[c].seen |= seen[rows[0] > 0 ? c : columns + c];
}

static int64_t sample_size(const tsr__csv *csv)
{
  return csv->opts.sample > 0 ? csv->opts.sample : TSR__CSV_SAMPLE;
}

/* Middle and end of a file that is not loaded, through the head's buffer. */
static tsr_status sample_rest(tsr__csv *csv, struct window head, tsr__csv_batch *batch,
                              unsigned *seen, tsr__error *error)
{
  int64_t length = (head.end - head.at) / 2;
  if (length < WINDOW_MIN) return TSR_OK;
  int64_t offsets[2] = { csv->size / 2, csv->size - length };
  char *buffer = tsr__new_raw(csv->heap, (size_t)length + 1);
  if (!buffer) return no_memory(csv, error);
  tsr_status status = TSR_OK;
  for (int i = 0; i < 2 && !status; i++) {
    status = tsr__csv_file_read(csv, buffer, offsets[i], length, error);
    if (!status) sample_window(csv, (struct window){ buffer, buffer + length }, batch, seen);
  }
  tsr__del(csv->heap, buffer, (size_t)length + 1);
  return status;
}

static tsr_status sample(tsr__csv *csv, struct window head, tsr__csv_batch *batch, unsigned *seen,
                         tsr__error *error)
{
  int64_t most = sample_size(csv), body = csv->body;
  struct window rows = { head.at + body, head.end };
  if (csv->data) {
    int64_t left = csv->end - body;
    rows = (struct window){ csv->data + body, csv->data + body + (left < most ? left : most) };
  }
  (void)sample_rows(csv, rows, batch, seen, true);
  for (int c = 0; c < csv->column_count; c++) csv->info[c].seen |= seen[c];
  return csv->data ? TSR_OK : sample_rest(csv, head, batch, seen, error);
}

/* Columns of which nothing but nulls is known: the whole file decides. */
static tsr_status settle_unknown(tsr__csv *csv, tsr__error *error)
{
  size_t size = (size_t)csv->column_count * sizeof(bool);
  bool *which = tsr__new(csv->heap, size), any = false;
  if (!which) return no_memory(csv, error);
  for (int c = 0; c < csv->column_count; c++)
    any |= which[c] = !(csv->info[c].seen & ~(unsigned)TSR__CLASS_NULL);
  tsr_status status = any ? tsr__csv_discover(csv, which, error) : TSR_OK;
  tsr__del(csv->heap, which, size);
  return status;
}

static tsr_status find_types(tsr__csv *csv, struct window head, tsr__error *error)
{
  size_t columns = (size_t)csv->column_count, size = (3 * columns + 2) * sizeof(uint32_t);
  uint32_t *buffer = tsr__new(csv->heap, size);
  if (!buffer) return no_memory(csv, error);
  tsr__csv_batch batch = { .rows = 1,
                           .columns = csv->column_count,
                           .ends = buffer,
                           .begins = buffer + columns,
                           .lasts = buffer + columns + 1 };
  batch.begins[0] = UINT32_MAX;
  tsr_status status = sample(csv, head, &batch, buffer + columns + 2, error);
  tsr__del(csv->heap, buffer, size);
  bool whole = csv->data && csv->end - csv->body <= sample_size(csv);
  if (!status && !whole) status = settle_unknown(csv, error);
  for (int c = 0; c < csv->column_count && !status; c++) {
    csv->columns[c].type = tsr__csv_type_of(csv->info[c].seen);
    csv->columns[c].nullable =
        csv->columns[c].type != TSR__COL_TEXT && (csv->info[c].seen & TSR__CLASS_NULL);
  }
  return status;
}

/* ---- open and close ----------------------------------------------------------------------------- */

static tsr_status open_head(tsr__csv *csv, struct window head, tsr__error *error)
{
  size_t length = (size_t)(head.end - head.at);
  tsr_status status = tsr__csv_magic(csv, head.at, length, error);
  if (status) return status;
  csv->head = has_mark(head.at, length) ? 3 : 0;
  char newline = find_newline(head.at, length, false);
  if (!newline || csv->size <= sample_size(csv)) status = tsr__csv_load(csv, error);
  if (!status && !newline) newline = find_newline(csv->data, (size_t)csv->size, true);
  if (!status) tsr__csv_end_rows_with(csv, newline);
  if (!status) status = read_header(csv, &head, error);
  return status ? status : find_types(csv, head, error);
}

static tsr_status open_file(tsr__csv *csv, tsr__error *error)
{
  tsr_status status = tsr__csv_file_open(csv, error);
  if (status) return status;
  int64_t length = sample_size(csv) / 2 + MAGIC_LOOK;
  if (length > csv->size) length = csv->size;
  char *head = tsr__new_raw(csv->heap, (size_t)length);
  if (!head) return no_memory(csv, error);
  status = tsr__csv_file_read(csv, head, 0, length, error);
  if (!status) status = open_head(csv, (struct window){ head, head + length }, error);
  tsr__del(csv->heap, head, (size_t)length);
  return status;
}

tsr__csv *tsr__csv_open_with(tsr_runtime *rt, const char *path, const tsr__csv_opts *opts,
                             tsr__error *error)
{
  tsr__csv *csv = tsr__new(&rt->heap, sizeof *csv);
  size_t path_size = strlen(path) + 1;
  char *copy = tsr__new(&rt->heap, path_size);
  tsr__decimal *decimal = tsr__decimal_open(&rt->heap);
  if (!csv || !copy || !decimal) {
    tsr__del(&rt->heap, csv, sizeof *csv);
    tsr__del(&rt->heap, copy, path_size);
    tsr__decimal_close(decimal);
    tsr__error_set(error, TSR_ENOMEM, "%s: no memory to open it", path);
    return NULL;
  }
  memcpy(copy, path, path_size);
  *csv = (tsr__csv){ .rt = rt,
                     .heap = &rt->heap,
                     .path = copy,
                     .path_size = path_size,
                     .fd = -1,
                     .decimal = decimal,
                     .scan = tsr__csv_scan_for(rt),
                     .dialect = { .separator = ',', .newline = '\n' } };
  if (opts) csv->opts = *opts;
  if (open_file(csv, error)) {
    tsr__csv_close(csv);
    return NULL;
  }
  return csv;
}

tsr__csv *tsr__csv_open(tsr_runtime *rt, const char *path, tsr__error *error)
{
  return tsr__csv_open_with(rt, path, NULL, error);
}

void tsr__csv_close(tsr__csv *csv)
{
  if (!csv) return;
  tsr__heap *heap = csv->heap;
  size_t columns = (size_t)csv->column_count;
  if (csv->fd >= 0) close(csv->fd);
  tsr__del(heap, csv->data, csv->data_size);
  if (csv->granules)
    tsr__del(heap, csv->granules, ((size_t)csv->granule_count + 1) * sizeof *csv->granules);
  for (size_t c = 0; csv->columns && c < columns; c++)
    if (csv->columns[c].name)
      tsr__del(heap, csv->columns[c].name, strlen(csv->columns[c].name) + 1);
  tsr__del(heap, csv->columns, columns * sizeof *csv->columns);
  tsr__del(heap, csv->info, columns * sizeof *csv->info);
  tsr__decimal_close(csv->decimal);
  tsr__del(heap, csv->path, csv->path_size);
  tsr__del(heap, csv, sizeof *csv);
}

/* ---- queries ----------------------------------------------------------------------------------------- */

int tsr__csv_columns(const tsr__csv *csv, const tsr__csv_column **out)
{
  *out = csv->columns;
  return csv->column_count;
}

const char *tsr__csv_path(const tsr__csv *csv)
{
  return csv->path;
}

int64_t tsr__csv_widened(const tsr__csv *csv, int column, const char **text)
{
  const tsr__csv_info *info = &csv->info[column];
  if (info->widened_row >= 0) *text = info->widened_text;
  return info->widened_row;
}
