/* Types from a sample.
 *
 *   small file   sampled whole
 *   large file   three windows: its start, middle and end. Of the latter two it is not known
 *                whether they begin inside quotes: both are tried, and a window counts only if
 *                one of the two gives rows of the right length with quotes in the right places
 *
 * A column of nothing but nulls in the sample is looked up in all files, so that no type is ever
 * made up. A wrong guess costs time, never data: see tsr__csv_read_parts. */
#include "io/csv/csv_inner.h"
#include "io/file/files.h"

enum { WINDOW_MIN = 4 << 10 };

static bool is_plain(const char *at, const char *end)
{
  return !memchr(at, '"', (size_t)(end - at));
}

/* Quotes only around whole fields. */
static bool quotes_in_place(const tsr__csv_file *file, const tsr__csv_row *row)
{
  const char *at = row->begin;
  /* Most rows have no quote at all. */
  if (is_plain(row->begin, row->next)) return true;
  for (int i = 0; i < file->fields; i++) {
    tsr__text_span f = tsr__csv_next_field(&file->dialect, &at, row->next);
    if (f.length && f.at[0] != '"' && !is_plain(f.at, f.at + f.length)) return false;
  }
  return true;
}

/* Adds the classes of a window's rows to seen[] up to a row that the window cuts; returns how
 * many rows, or -1 when one is not as rows should be. `sure`: it begins with a row. */
static int64_t sample_rows(const tsr__csv_file *file, tsr__csv_window window, unsigned *seen,
                           bool sure)
{
  tsr__csv_row row;
  tsr__read_value value;
  tsr__csv_found found;
  int64_t rows = 0;
  const char *at = window.at;
  for (; (found = tsr__csv_next_row(&file->dialect, at, window.end, &row)) == TSR__CSV_ROW;
       rows++) {
    /* Read from the wrong side of a quote rows come out too long or too short. */
    if (row.fields != file->fields) return -1;
    if (!sure && !quotes_in_place(file, &row)) return -1;
    at = row.begin;
    for (int i = 0; i < file->fields; i++) {
      tsr__text_span field = tsr__csv_next_field(&file->dialect, &at, row.next);
      seen[i] |= tsr__csv_classify(file->csv, field, &value);
    }
    at = row.next;
  }
  /* A window that ends within quotes is cut, not wrong. */
  return found == TSR__CSV_JUNK ? -1 : rows;
}

/* Behind the first row end of a window that begins somewhere in the file, assuming that it
 * begins outside (or inside) quotes. */
static const char *first_row(const tsr__csv_file *file, tsr__csv_window window, bool inside)
{
  const char *at = window.at;
  for (; at < window.end; at++) {
    if (*at == '"') inside = !inside;
    if (*at == file->dialect.newline && !inside) return at + 1;
  }
  return at;
}

static void add_seen(const tsr__csv_file *file, const unsigned *seen)
{
  for (int c = 0; c < file->csv->column_count; c++) file->csv->info[c].seen |= seen[file->at[c]];
}

/* `seen` has room for two answers. Rows of one field have no wrong length that would give the
 * wrong answer away. */
static void sample_window(tsr__csv_file *file, tsr__csv_window window, unsigned *seen)
{
  size_t fields = (size_t)file->fields;
  /* In a file of one column every row has the right length: only a window without quotes is
   * sure. */
  if (fields == 1 && !is_plain(window.at, window.end)) return;
  memset(seen, 0, 2 * fields * sizeof *seen);
  int64_t rows[2];
  for (int inside = 0; inside < 2; inside++) {
    tsr__csv_window from = { first_row(file, window, inside), window.end };
    rows[inside] = sample_rows(file, from, seen + (inside ? fields : 0), false);
  }
  /* One answer only: if both look right nobody can tell, and the window is left out. */
  if ((rows[0] > 0) != (rows[1] > 0)) add_seen(file, seen + (rows[0] > 0 ? 0 : fields));
}

int64_t tsr__csv_sample_size(const tsr__csv *csv)
{
  return csv->opts.sample > 0 ? csv->opts.sample : TSR__CSV_SAMPLE;
}

/* Middle and end, of the loaded text or through a buffer. Comments make rows that are none. */
static tsr_status sample_far(tsr__csv_file *file, int64_t length, unsigned *seen, tsr__error *error)
{
  int64_t size = file->data ? file->size : file->stored, got;
  /* Small windows would tell little; windows as long as the file are the beginning once more. */
  if (length < WINDOW_MIN || length >= size) return TSR_OK;
  /* A packed file has no middle that could be reached without the rest. */
  if (!file->data && (file->csv->opts.comment || file->packing)) return TSR_OK;
  int64_t offsets[2] = { size / 2, size - length };
  char *buffer = file->data ? NULL : tsr__new_raw(file->csv->heap, (size_t)length);
  if (!file->data && !buffer) return tsr__csv_no_memory(file->csv, error);
  tsr_status status = TSR_OK;
  for (int i = 0; i < 2 && !status; i++) {
    const char *from = file->data ? file->data + offsets[i] : buffer;
    /* It would begin in the header. */
    if (offsets[i] < file->body) continue;
    int code = buffer ? tsr__csv_file_read(file, buffer, offsets[i], length, &got) : 0;
    if (code) status = tsr__file_error(file->path, "read", code, error);
    else if (buffer && got < length)
      status = tsr__file_shrunk(file->path, offsets[i] + got, file->stored, error);
    else sample_window(file, (tsr__csv_window){ from, from + length }, seen);
  }
  tsr__del(file->csv->heap, buffer, (size_t)length);
  return status;
}

tsr_status tsr__csv_sample(tsr__csv_file *file, tsr__csv_window head, bool *whole,
                           tsr__error *error)
{
  tsr__csv *csv = file->csv;
  size_t size = 2 * (size_t)file->fields * sizeof(unsigned);
  unsigned *seen = tsr__new(csv->heap, size);
  if (!seen) return tsr__csv_no_memory(csv, error);
  int64_t most = tsr__csv_sample_size(csv);
  /* Held whole it is sampled from memory, and as a file would be that is not held. */
  tsr__csv_head_sizes sizes = tsr__csv_sizes_of(file);
  if (file->size <= sizes.small || sizes.part > file->end) sizes.part = file->end;
  if (file->data) head = (tsr__csv_window){ file->data, file->data + sizes.part };
  head.at += file->body;
  if (head.end - head.at > most) head.end = head.at + most;
  bool all = file->data && head.end == file->data + file->end;
  tsr_status status = TSR_OK;
  if (head.at < head.end) {
    all = sample_rows(file, head, seen, true) >= 0 && all;
    add_seen(file, seen);
    /* Only the first file: others must fit its types anyway, or retype them. */
    if (file == csv->files) status = sample_far(file, (head.end - head.at) / 2, seen, error);
  }
  tsr__del(csv->heap, seen, size);
  *whole &= all;
  return status;
}

/* Columns of which nothing but nulls is known: all files decide. */
static tsr_status settle_unknown(tsr__csv *csv, tsr__error *error)
{
  size_t size = (size_t)csv->column_count * sizeof(bool);
  bool *which = tsr__new(csv->heap, size), any = false;
  if (!which) return tsr__csv_no_memory(csv, error);
  for (int c = 0; c < csv->column_count; c++)
    any |= which[c] = !csv->info[c].forced && !(csv->info[c].seen & ~(unsigned)TSR__CLASS_NULL);
  tsr_status status = any ? tsr__csv_discover(csv, which, error) : TSR_OK;
  tsr__del(csv->heap, which, size);
  return status;
}

tsr_status tsr__csv_settle(tsr__csv *csv, bool *changed, tsr__error *error)
{
  size_t size = (size_t)csv->column_count * sizeof(bool);
  bool *which = tsr__new(csv->heap, size), any = false;
  *changed = false;
  if (!which) return tsr__csv_no_memory(csv, error);
  for (int c = 0; c < csv->column_count; c++) any |= which[c] = csv->columns[c].loose;
  tsr_status status = any ? tsr__csv_discover(csv, which, error) : TSR_OK;
  for (int c = 0; c < csv->column_count && !status; c++) {
    tsr__read_column *column = &csv->columns[c];
    tsr_coltype type = which[c] ? tsr__classes_type(csv->info[c].seen) : column->type;
    column->loose = false;
    if (type == column->type) continue;
    column->type = type;
    column->nullable = type != TSR_COL_TEXT && (csv->info[c].seen & TSR__CLASS_NULL);
    tsr__csv_note_zeros(csv, c);
    *changed = true;
  }
  tsr__del(csv->heap, which, size);
  return status;
}

void tsr__csv_note_zeros(tsr__csv *csv, int column)
{
  unsigned seen = csv->info[column].seen;
  bool number = tsr__classes_type(seen & ~(unsigned)TSR__CLASS_CODE) != TSR_COL_TEXT;
  if (!(seen & TSR__CLASS_CODE) || !number) return;
  tsr__text_add(&csv->notes,
                "%s: column \"%.100s\" is text, as integers in it begin with zeros; the option "
                "types makes it a number\n",
                csv->path, csv->columns[column].name);
}

tsr_status tsr__csv_settle_types(tsr__csv *csv, bool whole, tsr__error *error)
{
  /* The whole was in the sample: a column of nulls is one. */
  tsr_status status = whole ? TSR_OK : settle_unknown(csv, error);
  for (int c = 0; c < csv->column_count && !status; c++) {
    tsr__read_column *column = &csv->columns[c];
    if (!csv->info[c].forced) {
      column->type = tsr__classes_type(csv->info[c].seen);
      tsr__csv_note_zeros(csv, c);
    }
    column->vacant = !csv->info[c].forced && !(csv->info[c].seen & ~(unsigned)TSR__CLASS_NULL);
    /* A type by a sample may be retyped; text never is, since everything fits it. */
    column->loose = !whole && !csv->info[c].forced && column->type != TSR_COL_TEXT;
    column->nullable = column->type != TSR_COL_TEXT && (csv->info[c].seen & TSR__CLASS_NULL);
  }
  return status;
}
