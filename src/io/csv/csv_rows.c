/* The index of rows: how many there are and where each begins.
 *
 * The text behind the header is cut into granules of equal size. All are counted in parallel
 * without knowing whether they begin inside quotes, for both answers; then one pass over the
 * granules settles the answers and adds up. To find row r: the granule in which row r - 1 ends,
 * by bisection, then its row ends by masks.
 *
 * Where quotes stand in odd places (5" pipe), bytes inside quotes cannot be told by parity. Such
 * a file is counted byte by byte instead, and each granule remembers where the next row begins. */
#include "io/csv/csv_inner.h"

/* ---- one row, byte by byte --------------------------------------------------------------- */

const char *tsr__csv_field_end(const tsr__csv_dialect *d, const char *at, const char *end,
                               const char **junk)
{
  /* RFC 4180: in quotes anything may stand, a quote twice; behind the closing one only the field's
   * end. */
  if (at < end && *at == '"') {
    at++;
    for (;;) {
      at = memchr(at, '"', (size_t)(end - at));
      if (!at) return NULL;
      at++;
      /* Two quotes are one, inside; one is the end. */
      if (at == end || *at != '"') break;
      at++;
    }
    if (at == end) return NULL;
    /* CR LF ends a line; a CR alone behind a quote is text that should not be there. */
    if (*at == '\r' && d->newline != '\r' && at + 1 < end && at[1] == d->newline) at++;
    if (*at == d->separator || *at == d->newline) return at;
    *junk = at;
    return NULL;
  }
  /* A quote inside an unquoted field (5" pipe) is a byte like others. */
  while (at < end && *at != d->separator && *at != d->newline) at++;
  return at < end ? at : NULL;
}

static const char *skip_blank(const tsr__csv_dialect *d, const char *at, const char *end)
{
  if (!d->skip_blank) return at;
  for (;;) {
    if (at < end && *at == d->newline) at++;
    else if (end - at >= 2 && *at == '\r' && at[1] == d->newline) at += 2;
    else return at;
  }
}

tsr__csv_found tsr__csv_next_row(const tsr__csv_dialect *dialect, const char *at, const char *end,
                                 tsr__csv_row *row)
{
  /* Empty lines in front of a row belong to nobody. They end with the text: no row follows. */
  at = skip_blank(dialect, at, end);
  if (at == end) return TSR__CSV_END;
  *row = (tsr__csv_row){ .begin = at };
  for (;;) {
    const char *junk = NULL, *stop = tsr__csv_field_end(dialect, at, end, &junk);
    row->fields++;
    /* No end of the field before that of the text: inside quotes, or in a text that was cut off. */
    if (!stop) {
      row->fault = junk ? junk : at;
      return junk ? TSR__CSV_JUNK : TSR__CSV_CUT;
    }
    at = stop + 1;
    if (*stop == dialect->newline) break;
  }
  row->next = at;
  return TSR__CSV_ROW;
}

size_t tsr__csv_split_row(const tsr__csv_dialect *dialect, const tsr__csv_row *row,
                          const char *base, uint32_t *ends, size_t capacity)
{
  const char *at = row->begin, *junk;
  size_t count = 0;
  /* The fields were counted before: this finds the same ones, and no fault. */
  while (at < row->next && count < capacity) {
    const char *stop = tsr__csv_field_end(dialect, at, row->next, &junk);
    ends[count++] = (uint32_t)(stop - base);
    at = stop + 1;
  }
  return count;
}

tsr__text_span tsr__csv_next_field(const tsr__csv_dialect *dialect, const char **at,
                                   const char *end)
{
  const char *junk = NULL, *from = *at, *stop = tsr__csv_field_end(dialect, from, end, &junk);
  if (!stop) stop = end;
  *at = stop < end ? stop + 1 : end;
  /* Only what ends a line loses its CR: one before a separator is text. */
  bool returns = stop < end && *stop == dialect->newline && dialect->newline == '\n' &&
                 stop > from && stop[-1] == '\r';
  return (tsr__text_span){ from, (size_t)(stop - from) - returns };
}

void tsr__csv_trim_returns(const tsr__csv_dialect *dialect, tsr__csv_batch *batch)
{
  size_t columns = (size_t)batch->columns;
  for (int r = 0; r < batch->rows; r++) {
    uint32_t last = batch->ends[((size_t)r + 1) * columns - 1];
    uint32_t begin =
        (columns > 1 ? batch->ends[((size_t)r + 1) * columns - 2] : batch->begins[r]) + 1;
    /* CR before LF is a line end's. An empty last field has none of its own to lose. */
    bool trim = dialect->newline == '\n' && last > begin && batch->base[last - 1] == '\r';
    batch->lasts[r] = last - trim;
  }
}

/* ---- counting ------------------------------------------------------------------------------- */

static void bounds_of(const tsr__csv_file *file, int64_t granule, int64_t *from, int64_t *to)
{
  int64_t bytes = file->csv->granule_bytes;
  *from = file->body + granule * bytes;
  /* The last granule ends with the text. */
  *to = *from + bytes < file->end ? *from + bytes : file->end;
}

enum { GRANULES_A_TASK = 64, ROWS_A_STEP = 1 << 16 };

static void count_task(void *user, int64_t task, int worker)
{
  (void)worker;
  /* Which file the task is of: granules are numbered through all files. */
  tsr__csv *csv = user;
  int low = 0, high = csv->file_count;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (csv->files[middle].task <= task) low = middle;
    else high = middle;
  }
  tsr__csv_file *file = &csv->files[low];
  int64_t first = (task - file->task) * GRANULES_A_TASK, last = first + GRANULES_A_TASK, from, to;
  if (last > file->granule_count) last = file->granule_count;
  for (int64_t g = first; g < last; g++) {
    /* While pieces were loaded some were counted already (tsr__csv_count_piece). */
    if (file->granules[g].counted) continue;
    bounds_of(file, g, &from, &to);
    csv->scan->count(&file->dialect, file->data + from, file->data + to, &file->granules[g]);
  }
}

/* Settles which granules begin inside quotes; false if quotes stand where they should not. `*open`:
 * the text ends inside some. */
static bool settle(tsr__csv_file *file, bool *open)
{
  /* The true answer for each granule follows from the parity of all before it; this is the only
   * step that must go in order, and it takes no look at the text. */
  int inside = 0;
  int64_t rows = 0;
  for (int64_t g = 0; g < file->granule_count; g++) {
    tsr__csv_granule *granule = &file->granules[g];
    /* Parity means nothing in this file: it is read byte by byte. */
    if (granule->stray[inside]) return false;
    granule->inside = (uint8_t)inside;
    granule->ends_before = rows;
    rows += granule->ends[inside];
    inside ^= granule->flips;
  }
  file->rows = rows;
  *open = inside;
  return true;
}

/* Careful counting, some rows at a time so that it can be cancelled. */
struct careful {
  tsr__csv_file *file;
  const char *at;
  int64_t granule, rows;
  tsr__csv_found found;
  tsr__csv_row row;
};

static void careful_step(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  struct careful *c = user;
  tsr__csv_file *file = c->file;
  const char *end = file->data + file->end;
  int64_t from, to;
  for (int i = 0; i < ROWS_A_STEP; i++) {
    c->found = tsr__csv_next_row(&file->dialect, c->at, end, &c->row);
    if (c->found != TSR__CSV_ROW) return;
    /* Of the granules that begin behind the row before, up to this row, it is the first to find. */
    for (; c->granule < file->granule_count; c->granule++) {
      bounds_of(file, c->granule, &from, &to);
      if (c->at - file->data < from) break;
      file->granules[c->granule].ends_before = c->rows;
      file->granules[c->granule].anchor = c->at - file->data;
    }
    c->at = c->row.next;
    c->rows++;
  }
}

static tsr_status count_careful(tsr__csv_file *file, tsr__error *error)
{
  struct careful c = { .file = file, .at = file->data + file->body, .found = TSR__CSV_ROW };
  /* From here on rows are found from the anchors. */
  file->careful = true;
  while (c.found == TSR__CSV_ROW)
    if (!tsr__parallel_long(file->csv->rt, "csv", 1, careful_step, &c))
      return tsr__cancelled(error, file->csv->path);
  if (c.found != TSR__CSV_END) return tsr__csv_row_error(file, c.found, &c.row, error);
  /* Behind the last row: the end. */
  for (int64_t g = c.granule; g < file->granule_count; g++) {
    file->granules[g].ends_before = c.rows;
    file->granules[g].anchor = file->end;
  }
  file->rows = c.rows;
  return TSR_OK;
}

static void forget_rows(tsr__csv *csv)
{
  for (int f = 0; f < csv->file_count; f++) {
    tsr__csv_file *file = &csv->files[f];
    tsr__del(csv->heap, file->granules, (size_t)file->granule_room * sizeof *file->granules);
    file->granules = NULL;
    file->indexed = false;
  }
}

tsr_status tsr__csv_make_granules(tsr__csv_file *file, int64_t end, tsr__error *error)
{
  tsr__csv *csv = file->csv;
  /* The last granule may be short. */
  csv->granule_bytes = csv->opts.granule > 0 ? csv->opts.granule : TSR__CSV_GRANULE;
  file->granule_count = (end - file->body + csv->granule_bytes - 1) / csv->granule_bytes;
  if (file->granules) return TSR_OK;
  file->granule_room = file->granule_count + 1;
  file->granules = tsr__new(csv->heap, (size_t)file->granule_room * sizeof *file->granules);
  if (file->granules) return TSR_OK;
  return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for the index of its rows", file->path);
}

/* Comments and bad rows change the text after it was read: counted then, not while loading. */
tsr_status tsr__csv_expect_rows(tsr__csv_file *file, tsr__error *error)
{
  if (file->indexed || !file->fields || file->csv->opts.comment || file->csv->opts.bad_rows)
    return TSR_OK;
  return tsr__csv_make_granules(file, file->stored + 1,
                                error); /* a newline may be missing at its end */
}

void tsr__csv_count_piece(const tsr__csv_file *file, const char *data, int64_t from, int64_t to)
{
  /* A granule is counted in the piece that holds all of it and two bytes before and PAD behind,
   * which counting looks at; those over a border wait. */
  int64_t bytes = file->csv->granule_bytes, look = TSR__CSV_PAD;
  if (!file->granules || file->indexed) return;
  int64_t g = from + look > file->body ? (from + look - file->body + bytes - 1) / bytes : 0;
  for (; g < file->granule_count; g++) {
    int64_t begin = file->body + g * bytes, end = begin + bytes;
    if (begin < from + 2 || end + look > to) break;
    file->csv->scan->count(&file->dialect, data + begin, data + end, &file->granules[g]);
    file->granules[g].counted = true;
  }
}

tsr_status tsr__csv_index(tsr__csv_file *file, bool *plain, tsr__error *error)
{
  int64_t from, to;
  bool open = false;
  if (tsr__csv_make_granules(file, file->end, error)) return error->status;
  for (int64_t g = 0; g < file->granule_count; g++) {
    bounds_of(file, g, &from, &to);
    file->csv->scan->count(&file->dialect, file->data + from, file->data + to, &file->granules[g]);
  }
  /* Of a partial file the last quotes may be closed in what was not read. */
  *plain = settle(file, &open) && (file->partial || !open);
  return TSR_OK;
}

static tsr_status count_files(tsr__csv *csv, tsr__error *error)
{
  int64_t tasks = 0;
  for (int f = 0; f < csv->file_count; f++) {
    tsr__csv_file *file = &csv->files[f];
    if (tsr__csv_make_granules(file, file->end, error)) return error->status;
    file->task = tasks;
    tasks += (file->granule_count + GRANULES_A_TASK - 1) / GRANULES_A_TASK;
  }
  if (!tsr__parallel_long(csv->rt, "csv", tasks, count_task, csv))
    return tsr__cancelled(error, csv->path);
  int64_t rows = 0;
  for (int f = 0; f < csv->file_count; f++) {
    tsr__csv_file *file = &csv->files[f];
    bool open = false, plain = settle(file, &open) && !open;
    /* Windowed files hold no text: to be read byte by byte it must be there. */
    if (!plain && !file->data && tsr__csv_load(csv, file, 1, error)) return error->status;
    if (!plain && count_careful(file, error)) return error->status;
    file->first_row = rows;
    rows += file->rows;
  }
  csv->rows = rows;
  return TSR_OK;
}

tsr_status tsr__csv_count(tsr__csv *csv, int64_t *rows, tsr__error *error)
{
  if (csv->rows < 0) {
    tsr__csv_front_drop(csv);
    tsr_status status = tsr__csv_survey(csv, error);
    if (!status && !csv->files[0].indexed)
      status = tsr__csv_load(csv, csv->files, csv->file_count, error);
    if (!status) status = count_files(csv, error);
    if (status) {
      /* A half-counted file must not be taken for one that is counted. */
      forget_rows(csv);
      return status;
    }
  }
  *rows = csv->rows;
  return TSR_OK;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The last granule before which fewer than `ends` rows end (or at most, when `equal`). */
static int64_t granule_of(const tsr__csv_file *file, int64_t ends, bool equal)
{
  int64_t low = 0, high = file->granule_count;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    /* `equal` asks for the granule in which the row begins, else for that in which the row before
     * it ends. */
    int64_t before = file->granules[middle].ends_before;
    if (before < ends || (equal && before == ends)) low = middle;
    else high = middle;
  }
  return low;
}

int64_t tsr__csv_granules_of(const tsr__csv_file *file, int64_t first, int64_t last, int64_t *from)
{
  int64_t unused, to;
  /* From the granule in which the row before `first` ends to that in which row `last` - 1 ends: all
   * of the rows lie between. */
  *from = file->body;
  if (first > 0) bounds_of(file, granule_of(file, first, false), from, &unused);
  bounds_of(file, granule_of(file, last, false), &unused, &to);
  return to;
}

/* Row r begins where row r - 1 ends: its r-th end, counted from 1. */
int64_t tsr__csv_locate(const tsr__csv_file *file, int64_t row)
{
  if (row <= 0 || file->granule_count == 0) return file->body;
  int64_t from, to;
  if (!file->careful) {
    int64_t g = granule_of(file, row, false);
    bounds_of(file, g, &from, &to);
    return tsr__csv_nth_end(file, &file->granules[g], from, row - file->granules[g].ends_before);
  }
  /* From the anchor on, row by row; a granule's rows are few. */
  const tsr__csv_granule *granule = &file->granules[granule_of(file, row, true)];
  const char *at = file->data + granule->anchor, *end = file->data + file->end;
  tsr__csv_row found;
  for (int64_t r = granule->ends_before; r < row; r++) {
    if (tsr__csv_next_row(&file->dialect, at, end, &found) != TSR__CSV_ROW) break;
    at = found.next;
  }
  return at - file->data;
}

tsr__csv_file *tsr__csv_file_of(const tsr__csv *csv, int64_t row)
{
  int low = 0, high = csv->file_count;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    if (csv->files[middle].first_row <= row) low = middle;
    else high = middle;
  }
  return &csv->files[low];
}
