/* The index of rows: how many there are and where each begins.
 *
 * The text behind the header is cut into granules of equal size. All are counted in parallel
 * without knowing whether they begin inside quotes, for both answers; then one pass over the
 * granules settles the answers and adds up. To find row r: the granule in which row r - 1 ends,
 * by bisection, then its row ends by masks.
 *
 * Where quotes stand in odd places (5" pipe), bytes inside quotes cannot be told by parity. Such
 * a file is counted byte by byte instead, and each granule remembers where the next row begins. */
#include "io/csv_inner.h"

#include <inttypes.h>

/* ---- one row, byte by byte --------------------------------------------------------------- */

/* The byte that ends the field at `at`: a separator or a newline. NULL: the text ends inside the
 * field, or `*junk` stands behind its closing quote. */
static const char *field_end(const tsr__csv_dialect *d, const char *at, const char *end,
                             const char **junk)
{
  if (at < end && *at == '"') {
    at++;
    for (;;) {
      at = memchr(at, '"', (size_t)(end - at));
      if (!at) return NULL;
      at++;
      if (at == end || *at != '"') break;
      at++;
    }
    if (at == end) return NULL;
    if (*at == '\r' && d->newline != '\r' && at + 1 < end && at[1] == d->newline) at++;
    if (*at == d->separator || *at == d->newline) return at;
    *junk = at;
    return NULL;
  }
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
  at = skip_blank(dialect, at, end);
  if (at == end) return TSR__CSV_END;
  *row = (tsr__csv_row){ .begin = at };
  for (;;) {
    const char *junk = NULL, *stop = field_end(dialect, at, end, &junk);
    row->fields++;
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
  while (at < row->next && count < capacity) {
    const char *stop = field_end(dialect, at, row->next, &junk);
    ends[count++] = (uint32_t)(stop - base);
    at = stop + 1;
  }
  return count;
}

void tsr__csv_trim_returns(const tsr__csv *csv, tsr__csv_batch *batch)
{
  size_t columns = (size_t)batch->columns;
  for (int r = 0; r < batch->rows; r++) {
    uint32_t last = batch->ends[((size_t)r + 1) * columns - 1];
    uint32_t begin =
        (columns > 1 ? batch->ends[((size_t)r + 1) * columns - 2] : batch->begins[r]) + 1;
    bool trim = csv->dialect.newline == '\n' && last > begin && batch->base[last - 1] == '\r';
    batch->lasts[r] = last - trim;
  }
}

/* ---- where things are, for messages ------------------------------------------------------- */

void tsr__csv_place(const tsr__csv *csv, int64_t offset, int64_t *line, int64_t *column)
{
  const char *at = csv->data, *to = csv->data + offset, *found;
  *line = 1;
  while (at < to && (found = memchr(at, csv->dialect.newline, (size_t)(to - at)))) {
    at = found + 1;
    ++*line;
  }
  *column = to - at + 1;
}

tsr_status tsr__csv_row_error(const tsr__csv *csv, tsr__csv_found found, const tsr__csv_row *row,
                              tsr__error *error)
{
  int64_t line, column;
  tsr__csv_place(csv, row->fault - csv->data, &line, &column);
  if (found == TSR__CSV_CUT)
    return tsr__error_set(error, TSR_EPARSE,
                          "%s:%" PRId64 ":%" PRId64 ": the quote that opens here is never closed; "
                          "a quote inside a quoted field is written twice",
                          csv->path, line, column);
  return tsr__error_set(error, TSR_EPARSE,
                        "%s:%" PRId64 ":%" PRId64 ": text follows a closing quote, expected '%c' "
                        "or the end of the line; a quote inside a quoted field is written twice",
                        csv->path, line, column, csv->dialect.separator);
}

/* ---- counting ------------------------------------------------------------------------------- */

static void bounds_of(const tsr__csv *csv, int64_t granule, int64_t *from, int64_t *to)
{
  *from = csv->body + granule * csv->granule_bytes;
  *to = *from + csv->granule_bytes < csv->end ? *from + csv->granule_bytes : csv->end;
}

enum { GRANULES_A_TASK = 64 };

static void count_task(void *user, int64_t task, int worker)
{
  (void)worker;
  tsr__csv *csv = user;
  int64_t last = (task + 1) * GRANULES_A_TASK, from, to;
  if (last > csv->granule_count) last = csv->granule_count;
  for (int64_t g = task * GRANULES_A_TASK; g < last; g++) {
    bounds_of(csv, g, &from, &to);
    csv->scan->count(&csv->dialect, csv->data + from, csv->data + to, &csv->granules[g]);
  }
}

/* Settles which granules begin inside quotes; false if quotes stand where they should not. */
static bool settle(tsr__csv *csv)
{
  int inside = 0;
  int64_t rows = 0;
  for (int64_t g = 0; g < csv->granule_count; g++) {
    tsr__csv_granule *granule = &csv->granules[g];
    if (granule->stray[inside]) return false;
    granule->inside = (uint8_t)inside;
    granule->ends_before = rows;
    rows += granule->ends[inside];
    inside ^= granule->flips;
  }
  csv->rows = rows;
  return !inside;
}

static tsr_status count_careful(tsr__csv *csv, tsr__error *error)
{
  const char *at = csv->data + csv->body, *end = csv->data + csv->end;
  int64_t rows = 0, g = 0, from, to;
  tsr__csv_row row;
  tsr__csv_found found;
  csv->careful = true;
  while ((found = tsr__csv_next_row(&csv->dialect, at, end, &row)) == TSR__CSV_ROW) {
    for (; g < csv->granule_count; g++) {
      bounds_of(csv, g, &from, &to);
      if (at - csv->data < from) break;
      csv->granules[g].ends_before = rows;
      csv->granules[g].anchor = at - csv->data;
    }
    at = row.next;
    rows++;
  }
  if (found != TSR__CSV_END) return tsr__csv_row_error(csv, found, &row, error);
  for (; g < csv->granule_count; g++) {
    csv->granules[g].ends_before = rows;
    csv->granules[g].anchor = csv->end;
  }
  csv->rows = rows;
  return TSR_OK;
}

tsr_status tsr__csv_count(tsr__csv *csv, int64_t *rows, tsr__error *error)
{
  if (!csv->granules) {
    tsr_status status = tsr__csv_load(csv, error);
    if (status) return status;
    int64_t bytes = csv->end - csv->body;
    csv->granule_bytes = csv->opts.granule > 0 ? csv->opts.granule : TSR__CSV_GRANULE;
    csv->granule_count = (bytes + csv->granule_bytes - 1) / csv->granule_bytes;
    size_t size = ((size_t)csv->granule_count + 1) * sizeof *csv->granules;
    csv->granules = tsr__new(csv->heap, size);
    if (!csv->granules)
      return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for the index of its rows",
                            csv->path);
    int64_t tasks = (csv->granule_count + GRANULES_A_TASK - 1) / GRANULES_A_TASK;
    tsr__parallel(csv->rt, tasks, count_task, csv);
    if (!settle(csv) && (status = count_careful(csv, error))) {
      tsr__del(csv->heap, csv->granules, size);
      csv->granules = NULL;
      return status;
    }
  }
  *rows = csv->rows;
  return TSR_OK;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The last granule before which fewer than `ends` rows end (or at most, when `equal`). */
static int64_t granule_of(const tsr__csv *csv, int64_t ends, bool equal)
{
  int64_t low = 0, high = csv->granule_count;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    int64_t before = csv->granules[middle].ends_before;
    if (before < ends || (equal && before == ends)) low = middle;
    else high = middle;
  }
  return low;
}

int64_t tsr__csv_locate(const tsr__csv *csv, int64_t row)
{
  if (row <= 0 || csv->granule_count == 0) return csv->body;
  int64_t from, to;
  if (!csv->careful) {
    int64_t g = granule_of(csv, row, false);
    bounds_of(csv, g, &from, &to);
    return tsr__csv_nth_end(csv, &csv->granules[g], from, row - csv->granules[g].ends_before);
  }
  const tsr__csv_granule *granule = &csv->granules[granule_of(csv, row, true)];
  const char *at = csv->data + granule->anchor, *end = csv->data + csv->end;
  tsr__csv_row found;
  for (int64_t r = granule->ends_before; r < row; r++) {
    if (tsr__csv_next_row(&csv->dialect, at, end, &found) != TSR__CSV_ROW) break;
    at = found.next;
  }
  return at - csv->data;
}
