/* Reading rows in parallel.
 *
 *   parts     |      0       |   1  |          2          |     where values go
 *   stripes   |    0   |      1     |       2     |   3   |     who parses
 *   batches   |..|..|..|..|..|.|....|
 *
 * A stripe is a run of rows parsed by one task; its borders lie at a part's border or a multiple
 * of 64 rows behind it, so that no two stripes write one word of bits. A batch is some rows of
 * one stripe in one part, split into fields, then parsed column by column while in cache.
 *
 * Invariant: what comes out (values, codes, errors, types) is the same for any stripes. Errors
 * are those of the earliest row; types follow from the set of all values (csv_parse.c). */
#include "io/csv_inner.h"

#include <inttypes.h>

enum fault { FAULT_NONE, FAULT_MEMORY, FAULT_FIELDS, FAULT_JUNK, FAULT_SPAN };

struct stripe {
  int64_t first, last; /* rows */
  enum fault fault;
  int64_t fault_row, fault_offset, fault_fields;
  tsr__csv_lane *lanes; /* one a target */
};

struct reading {
  tsr__csv *csv;
  tsr__csv_read *read;
  const int *columns; /* of the targets */
  int target_count;
  int batch_rows;
  struct stripe *stripes;
  int stripe_count;
  tsr__csv_lane *lanes; /* stripe_count * target_count */
};

/* ---- splitting rows into fields --------------------------------------------------------------- */

static void fail_at(struct stripe *stripe, enum fault fault, int64_t row, int64_t offset)
{
  stripe->fault = fault;
  stripe->fault_row = row;
  stripe->fault_offset = offset;
}

/* One row at a time: for files with odd quotes, empty lines, and to find what is wrong. */
static const char *split_careful(const tsr__csv *csv, tsr__csv_batch *batch, int want,
                                 struct stripe *stripe)
{
  const char *at = batch->base, *end = csv->data + csv->end;
  size_t columns = (size_t)batch->columns;
  tsr__csv_row row;
  for (int r = 0; r < want; r++) {
    tsr__csv_found found = tsr__csv_next_row(&csv->dialect, at, end, &row);
    int64_t begin = row.begin - csv->data;
    if (found != TSR__CSV_ROW || row.fields != (int64_t)columns) {
      fail_at(stripe, found == TSR__CSV_ROW ? FAULT_FIELDS : FAULT_JUNK, batch->first_row + r,
              begin);
      stripe->fault_fields = row.fields;
      return NULL;
    }
    if (row.next - batch->base > (int64_t)UINT32_MAX) {
      fail_at(stripe, FAULT_SPAN, batch->first_row + r, begin);
      return NULL;
    }
    batch->begins[r] = (uint32_t)(row.begin - batch->base) - 1;
    tsr__csv_split_row(&csv->dialect, &row, batch->base, batch->ends + (size_t)r * columns,
                       columns);
    at = row.next;
  }
  return at;
}

/* By masks; NULL if the rows are not all plain, and nothing is known then. */
static const char *split_fast(const tsr__csv *csv, tsr__csv_batch *batch, int want)
{
  const char *from = batch->base, *to = csv->data + csv->end;
  size_t columns = (size_t)batch->columns, need = (size_t)want * columns;
  if (to - from > (int64_t)UINT32_MAX) to = from + UINT32_MAX;
  tsr__csv_flat flat = { .ends = batch->ends, .want = need };
  size_t found = csv->scan->flatten(&csv->dialect, from, to, &flat);
  if (found < need || flat.newlines != (size_t)want) return NULL;
  uint32_t before = UINT32_MAX;
  for (int r = 0; r < want; r++) {
    uint32_t last = batch->ends[((size_t)r + 1) * columns - 1];
    if (from[last] != csv->dialect.newline) return NULL;
    batch->begins[r] = before;
    before = last;
  }
  /* Empty lines of one-column files are rows; in others they would have made a row too short. */
  return from + before + 1;
}

static const char *split(const tsr__csv *csv, tsr__csv_batch *batch, int want,
                         struct stripe *stripe)
{
  const char *next = csv->careful ? NULL : split_fast(csv, batch, want);
  if (!next) next = split_careful(csv, batch, want, stripe);
  batch->rows = next ? want : 0;
  if (next) tsr__csv_trim_returns(csv, batch);
  return next;
}

/* ---- a stripe ----------------------------------------------------------------------------------- */

static void parse_batch(const struct reading *reading, struct stripe *stripe,
                        const tsr__csv_batch *batch, int part)
{
  const tsr__csv_read *read = reading->read;
  for (int t = 0; t < reading->target_count; t++) {
    tsr__csv_sink sink = { 0 };
    if (read)
      sink = (tsr__csv_sink){ .values = read->targets[t].values[part],
                              .validity = read->targets[t].validity[part],
                              .at = batch->first_row - read->rows[part] };
    tsr__csv_parse(reading->csv, reading->columns[t], batch, &stripe->lanes[t], &sink);
    if (stripe->lanes[t].no_memory) fail_at(stripe, FAULT_MEMORY, batch->first_row, 0);
  }
}

static void parse_stripe(const struct reading *reading, struct stripe *stripe,
                         tsr__csv_batch *batch)
{
  const tsr__csv *csv = reading->csv;
  const char *at = csv->data + tsr__csv_locate(csv, stripe->first);
  int part = 0;
  for (int64_t row = stripe->first; row < stripe->last && !stripe->fault;) {
    int64_t stop = stripe->last;
    if (reading->read) {
      while (reading->read->rows[part + 1] <= row) part++;
      if (reading->read->rows[part + 1] < stop) stop = reading->read->rows[part + 1];
    }
    int want = stop - row < reading->batch_rows ? (int)(stop - row) : reading->batch_rows;
    batch->base = at;
    batch->first_row = row;
    at = split(csv, batch, want, stripe);
    if (!at) return;
    parse_batch(reading, stripe, batch, part);
    row += want;
  }
}

static void stripe_task(void *user, int64_t task, int worker)
{
  (void)worker;
  struct reading *reading = user;
  struct stripe *stripe = &reading->stripes[task];
  tsr__heap *heap = reading->csv->heap;
  size_t rows = (size_t)reading->batch_rows, columns = (size_t)reading->csv->column_count;
  size_t most = rows * columns + TSR__CSV_SLACK, size = (most + 2 * rows) * sizeof(uint32_t);
  uint32_t *buffer = tsr__new_raw(heap, size);
  if (!buffer) {
    fail_at(stripe, FAULT_MEMORY, stripe->first, 0);
    return;
  }
  tsr__csv_batch batch = {
    .columns = (int)columns, .ends = buffer, .begins = buffer + most, .lasts = buffer + most + rows
  };
  parse_stripe(reading, stripe, &batch);
  tsr__del(heap, buffer, size);
}

/* ---- cutting rows into stripes ----------------------------------------------------------------- */

/* The allowed border at or before a row. */
static int64_t border_before(const tsr__csv_read *read, int64_t first, int64_t row)
{
  int64_t origin = first;
  if (read) {
    int low = 0, high = read->parts;
    while (high - low > 1) {
      int middle = low + (high - low) / 2;
      if (read->rows[middle] <= row) low = middle;
      else high = middle;
    }
    origin = read->rows[low];
  }
  return origin + (row - origin) / 64 * 64;
}

static int stripes_for(const tsr__csv *csv, int64_t rows)
{
  int64_t want = csv->opts.stripes;
  if (want <= 0) {
    want = 4 * (int64_t)tsr__worker_count(csv->rt);
    int64_t by_size = (csv->end - csv->body) / (256 << 10) + 1;
    if (by_size < want) want = by_size;
  }
  int64_t most = rows / 64 + 1;
  return (int)(want < most ? want : most);
}

static int batch_rows_for(const tsr__csv *csv)
{
  if (csv->opts.batch_rows > 0) return csv->opts.batch_rows;
  int rows = 4096 / csv->column_count / 64 * 64;
  return rows < 64 ? 64 : rows > 512 ? 512 : rows;
}

static void free_reading(struct reading *reading)
{
  tsr__heap *heap = reading->csv->heap;
  size_t lanes = (size_t)reading->stripe_count * (size_t)reading->target_count;
  if (reading->lanes)
    for (size_t l = 0; l < lanes; l++) tsr__dict_local_free(&reading->lanes[l].dict);
  tsr__del(heap, reading->lanes, (lanes + 1) * sizeof *reading->lanes);
  tsr__del(heap, reading->stripes, (size_t)reading->stripe_count * sizeof *reading->stripes);
}

static tsr_status no_memory(const tsr__csv *csv, tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "%s: no memory to read it", csv->path);
}

static tsr_status make_stripes(struct reading *reading, int64_t first, int64_t last,
                               tsr__error *error)
{
  tsr__csv *csv = reading->csv;
  int count = stripes_for(csv, last - first);
  size_t targets = (size_t)reading->target_count, lanes = (size_t)count * targets;
  reading->batch_rows = batch_rows_for(csv);
  reading->stripe_count = count;
  reading->stripes = tsr__new(csv->heap, (size_t)count * sizeof *reading->stripes);
  reading->lanes = tsr__new(csv->heap, (lanes + 1) * sizeof *reading->lanes);
  if (!reading->stripes || !reading->lanes) return no_memory(csv, error);
  for (int s = 0; s < count; s++) {
    struct stripe *stripe = &reading->stripes[s];
    int64_t ideal = first + (int64_t)((double)(last - first) * (s + 1) / count);
    stripe->first = s ? stripe[-1].last : first;
    stripe->last = s + 1 == count ? last : border_before(reading->read, first, ideal);
    if (stripe->last < stripe->first) stripe->last = stripe->first;
    stripe->lanes = reading->lanes + (size_t)s * targets;
    for (size_t t = 0; t < targets; t++) {
      stripe->lanes[t].contrary_row = stripe->lanes[t].bad_row = -1;
      stripe->lanes[t].classify = !reading->read;
      tsr__dict_local_init(&stripe->lanes[t].dict, csv->heap);
    }
  }
  return TSR_OK;
}

/* ---- what went wrong ------------------------------------------------------------------------------ */

static tsr_status fields_error(const tsr__csv *csv, const struct stripe *stripe, tsr__error *error)
{
  int64_t line, column;
  tsr__csv_place(csv, stripe->fault_offset, &line, &column);
  return tsr__error_set(error, TSR_EPARSE,
                        "%s:%" PRId64 ": row %" PRId64 " has %" PRId64 " field%s, expected %d as "
                        "in the header; a field that holds a '%c' needs quotes around it",
                        csv->path, line, stripe->fault_row, stripe->fault_fields,
                        stripe->fault_fields == 1 ? "" : "s", csv->column_count,
                        csv->dialect.separator);
}

static tsr_status fault_error(const tsr__csv *csv, const struct stripe *stripe, tsr__error *error)
{
  tsr__csv_row row;
  tsr__csv_found found;
  switch (stripe->fault) {
  case FAULT_FIELDS: return fields_error(csv, stripe, error);
  case FAULT_SPAN:
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: the rows around row %" PRId64 " take more than 4 GiB together",
                          csv->path, stripe->fault_row);
  case FAULT_JUNK:
    found = tsr__csv_next_row(&csv->dialect, csv->data + stripe->fault_offset, csv->data + csv->end,
                              &row);
    return tsr__csv_row_error(csv, found, &row, error);
  case FAULT_MEMORY:
  case FAULT_NONE: break;
  }
  return no_memory(csv, error);
}

static tsr_status utf8_error(const tsr__csv *csv, int column, int64_t row, tsr__error *error)
{
  int64_t line, at;
  tsr__csv_place(csv, tsr__csv_locate(csv, row), &line, &at);
  return tsr__error_set(error, TSR_EPARSE,
                        "%s:%" PRId64 ": row %" PRId64 ", column \"%s\": the text is not UTF-8; "
                        "convert the file (iconv -f LATIN1 -t UTF-8)",
                        csv->path, line, row, csv->columns[column].name);
}

/* The earliest error by row; stripes are in the order of rows, so the first that has one. */
static tsr_status first_error(const struct reading *reading, tsr__error *error)
{
  for (int s = 0; s < reading->stripe_count; s++) {
    const struct stripe *stripe = &reading->stripes[s];
    int64_t bad = -1;
    int column = 0;
    for (int t = 0; t < reading->target_count; t++) {
      int64_t row = stripe->lanes[t].bad_row;
      if (row >= 0 && (bad < 0 || row < bad)) bad = row, column = reading->columns[t];
    }
    if (stripe->fault && (bad < 0 || stripe->fault_row <= bad))
      return fault_error(reading->csv, stripe, error);
    if (bad >= 0) return utf8_error(reading->csv, column, bad, error);
  }
  return TSR_OK;
}

/* ---- types ------------------------------------------------------------------------------------------ */

/* Adds what the stripes saw to the schema; true if the target's type changed. */
static bool merge_types(const struct reading *reading, int t)
{
  int column = reading->columns[t];
  tsr__csv_info *info = &reading->csv->info[column];
  tsr__csv_column *schema = &reading->csv->columns[column];
  const tsr__csv_lane *first = NULL;
  for (int s = 0; s < reading->stripe_count; s++) {
    const tsr__csv_lane *lane = &reading->stripes[s].lanes[t];
    info->seen |= lane->seen;
    if (lane->contrary_row >= 0 && !first) first = lane;
  }
  if (first) schema->type = tsr__csv_type_of(info->seen);
  schema->nullable = schema->type != TSR__COL_TEXT && (info->seen & TSR__CLASS_NULL);
  if (!first) return false;
  info->widened_row = first->contrary_row;
  memcpy(info->widened_text, first->contrary_text, sizeof info->widened_text);
  tsr__log(reading->csv->rt, TSR_LOG_INFO, "io",
           "%s: column \"%s\" is retyped because of row %" PRId64, reading->csv->path, schema->name,
           first->contrary_row);
  return true;
}

/* ---- dictionaries ------------------------------------------------------------------------------------ */

struct unify {
  struct reading *reading;
  tsr__dict **dicts;        /* one a target */
  tsr__dict_local **locals; /* stripe_count a target */
};

static void unify_task(void *user, int64_t task, int worker)
{
  (void)worker;
  struct unify *unify = user;
  struct reading *reading = unify->reading;
  if (reading->csv->columns[reading->columns[task]].type != TSR__COL_TEXT) return;
  tsr__dict_local **locals = unify->locals + task * reading->stripe_count;
  for (int s = 0; s < reading->stripe_count; s++) locals[s] = &reading->stripes[s].lanes[task].dict;
  unify->dicts[task] = tsr__dict_unify(reading->csv->heap, locals, reading->stripe_count);
}

/* Turns a stripe's own codes into those of the dictionary. */
static void recode(const struct reading *reading, const struct stripe *stripe, int t)
{
  const tsr__csv_read *read = reading->read;
  const tsr__dict_entry *entries = stripe->lanes[t].dict.entries;
  for (int part = 0; part < read->parts; part++) {
    int64_t begin = read->rows[part], end = read->rows[part + 1];
    int32_t *codes = read->targets[t].values[part];
    int64_t first = stripe->first > begin ? stripe->first : begin;
    int64_t last = stripe->last < end ? stripe->last : end;
    for (int64_t row = first; row < last; row++)
      codes[row - begin] = entries[codes[row - begin]].code;
  }
}

static void recode_task(void *user, int64_t task, int worker)
{
  (void)worker;
  struct reading *reading = user;
  for (int t = 0; t < reading->target_count; t++)
    if (reading->csv->columns[reading->columns[t]].type == TSR__COL_TEXT)
      recode(reading, &reading->stripes[task], t);
}

static tsr_status make_dicts(struct reading *reading, tsr__dict **dicts, tsr__error *error)
{
  tsr__csv *csv = reading->csv;
  size_t targets = (size_t)reading->target_count;
  size_t size = (targets * (size_t)reading->stripe_count + 1) * sizeof(tsr__dict_local *);
  struct unify unify = { .reading = reading, .dicts = dicts };
  unify.locals = tsr__new(csv->heap, size);
  if (!unify.locals) return no_memory(csv, error);
  tsr__parallel(csv->rt, reading->target_count, unify_task, &unify);
  tsr__del(csv->heap, unify.locals, size);
  bool whole = true;
  for (size_t t = 0; t < targets; t++)
    whole &= dicts[t] || csv->columns[reading->columns[t]].type != TSR__COL_TEXT;
  if (whole) {
    tsr__parallel(csv->rt, reading->stripe_count, recode_task, reading);
    return TSR_OK;
  }
  for (size_t t = 0; t < targets; t++) {
    tsr__dict_release(dicts[t]);
    dicts[t] = NULL;
  }
  return no_memory(csv, error);
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static tsr_status finish(struct reading *reading, tsr__dict **dicts, tsr__error *error)
{
  int retyped = 0;
  for (int t = 0; t < reading->target_count; t++) retyped += merge_types(reading, t);
  if (!retyped) {
    tsr_status status = make_dicts(reading, dicts, error);
    if (status) return status;
  }
  tsr__csv_read *read = reading->read;
  for (int t = 0; t < reading->target_count; t++) {
    read->targets[t].dict = dicts[t];
    read->targets[t].nulls = 0;
    for (int s = 0; s < reading->stripe_count; s++)
      read->targets[t].nulls += reading->stripes[s].lanes[t].nulls;
  }
  read->retyped = retyped;
  return TSR_OK;
}

static tsr_status run(struct reading *reading, int64_t first, int64_t last, tsr__error *error)
{
  tsr_status status = make_stripes(reading, first, last, error);
  if (status) return status;
  tsr__parallel(reading->csv->rt, reading->stripe_count, stripe_task, reading);
  return first_error(reading, error);
}

static tsr_status check_read(const tsr__csv *csv, const tsr__csv_read *read, int64_t rows,
                             tsr__error *error)
{
  bool good = read->parts >= 1 && read->rows[0] >= 0 && read->rows[read->parts] <= rows;
  for (int p = 0; good && p < read->parts; p++) good = read->rows[p] <= read->rows[p + 1];
  if (!good)
    return tsr__error_set(error, TSR_EARG,
                          "%s: the borders of the parts do not rise within its %" PRId64 " rows",
                          csv->path, rows);
  for (int t = 0; t < read->target_count; t++)
    if (read->targets[t].column < 0 || read->targets[t].column >= csv->column_count)
      return tsr__error_set(error, TSR_ECOLUMN, "%s: has no column %d, only 0 to %d", csv->path,
                            read->targets[t].column, csv->column_count - 1);
  return TSR_OK;
}

tsr_status tsr__csv_read_parts(tsr__csv *csv, tsr__csv_read *read, tsr__error *error)
{
  int64_t rows;
  tsr_status status = tsr__csv_count(csv, &rows, error);
  if (!status) status = check_read(csv, read, rows, error);
  if (status) return status;
  size_t targets = (size_t)read->target_count + 1;
  size_t size = targets * (sizeof(tsr__dict *) + sizeof(int));
  tsr__dict **dicts = tsr__new(csv->heap, size);
  if (!dicts) return no_memory(csv, error);
  int *columns = (int *)(dicts + targets);
  for (int t = 0; t < read->target_count; t++) columns[t] = read->targets[t].column;
  struct reading reading = {
    .csv = csv, .read = read, .columns = columns, .target_count = read->target_count
  };
  status = run(&reading, read->rows[0], read->rows[read->parts], error);
  if (!status) status = finish(&reading, dicts, error);
  free_reading(&reading);
  tsr__del(csv->heap, dicts, size);
  return status;
}

tsr_status tsr__csv_discover(tsr__csv *csv, const bool *which, tsr__error *error)
{
  int64_t rows;
  tsr_status status = tsr__csv_count(csv, &rows, error);
  if (status) return status;
  size_t size = ((size_t)csv->column_count + 1) * sizeof(int);
  int *columns = tsr__new(csv->heap, size), count = 0;
  if (!columns) return no_memory(csv, error);
  for (int c = 0; c < csv->column_count; c++)
    if (which[c]) columns[count++] = c;
  struct reading reading = { .csv = csv, .columns = columns, .target_count = count };
  status = run(&reading, 0, rows, error);
  for (int t = 0; !status && t < count; t++)
    for (int s = 0; s < reading.stripe_count; s++)
      csv->info[columns[t]].seen |= reading.stripes[s].lanes[t].seen;
  free_reading(&reading);
  tsr__del(csv->heap, columns, size);
  return status;
}
