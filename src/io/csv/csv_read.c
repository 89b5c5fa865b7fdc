/* Reading rows in parallel.
 *
 *   parts     |      0       |   1  |          2          |     where values go
 *   stripes   |    0   |      1     |       2     |   3   |     who parses
 *   files     |           a               |       b       |
 *   batches   |..|..|..|..|..|.|....|
 *
 * A stripe is a run of rows parsed by one task; its borders lie at a part's border or a multiple
 * of 64 rows behind it, so that no two stripes write one word of bits. A batch is some rows of
 * one stripe in one part and one file, split into fields, then parsed column by column while in
 * cache. What is learnt on the way is kept by worker: workers get stripes in the order of the rows.
 *
 * Invariant: what comes out (values, codes, errors, types) is the same for any stripes and any
 * workers. Errors are those of the earliest row; types follow from the set of all values
 * (csv_parse.c). */
#include "base/utf8.h"
#include "io/csv/csv_inner.h"
#include "io/rows/rows_together.h"
#include "io/text/dict_flow.h"

enum fault { FAULT_NONE, FAULT_MEMORY, FAULT_FIELDS, FAULT_JUNK, FAULT_SPAN, FAULT_READ };

struct stripe {
  int64_t first, last; /* rows of all files */
  int worker;          /* who parsed it */
  enum fault fault;
  int64_t fault_row;
  int code;    /* READ: what tsr__csv_view_rows said, */
  int64_t end; /* and where the file ended */
};

struct reading {
  tsr__csv *csv;
  tsr__read_ask *read;
  const int *columns; /* of the targets */
  int target_count;
  int batch_rows;
  size_t offsets; /* fields of a batch, and room for what is written behind them */
  struct stripe *stripes;
  int stripe_count;
  /* Set by whoever finds an earlier fault, read by all: stripes that begin behind it are not
   * begun. */
  _Atomic int64_t first_fault; /* no row behind it matters */
  /* By worker: a lane a target, and room for a batch's offsets (NULL until it is used). */
  tsr__csv_lane *lanes;
  uint32_t **buffers;
  tsr__csv_view *views; /* by worker */
  tsr__judged *judged;  /* by worker: one a predicate */
  int workers;
  tsr__dict_flows flows; /* of texts that are put in their lists meanwhile */
  bool looks; /* some text column is sparse or told: texts that are not kept must be UTF-8 */
  tsr__progress progress;
};

static tsr__csv_lane *lane_of(const struct reading *reading, int worker, int target)
{
  return &reading->lanes[(size_t)worker * (size_t)reading->target_count + (size_t)target];
}

/* ---- splitting rows into fields -------------------------------------------------------------- */

static void fail_at(struct reading *reading, struct stripe *stripe, enum fault fault, int64_t row)
{
  stripe->fault = fault;
  stripe->fault_row = row;
  /* Only ever lowered: of two that fail at once the earlier row must win. */
  int64_t first = atomic_load(&reading->first_fault);
  while (row < first && !atomic_compare_exchange_weak(&reading->first_fault, &first, row)) {
  }
}

/* What is split, and where that goes wrong. */
struct splitting {
  const tsr__csv_file *file;
  int want;
  enum fault fault;
  int64_t fault_row;
};

/* One row at a time: for files with odd quotes, empty lines, and to find what is wrong. */
static const char *split_careful(struct splitting *s, tsr__csv_batch *batch)
{
  const tsr__csv_file *file = s->file;
  const char *at = batch->base, *end = file->data + file->end;
  size_t columns = (size_t)batch->columns;
  tsr__csv_row row;
  for (int r = 0; r < s->want; r++) {
    /* Found one by one, so that what is wrong is named by its own row and not by its batch's. */
    tsr__csv_found found = tsr__csv_next_row(&file->dialect, at, end, &row);
    s->fault_row = batch->first_row + r;
    if (found != TSR__CSV_ROW) s->fault = FAULT_JUNK;
    else if (row.fields != (int64_t)columns) s->fault = FAULT_FIELDS;
    /* Offsets are 32 bits wide, from the batch's beginning: 4 GiB in one batch need enormous
     * fields. */
    else if (row.next - batch->base > (int64_t)UINT32_MAX) s->fault = FAULT_SPAN;
    if (s->fault) return NULL;
    /* Where the field before the row would end: the byte before it, -1 at the beginning of the
     * text. Then every field begins one behind the end of another, the first of a row, too. */
    batch->begins[r] = (uint32_t)(row.begin - batch->base) - 1;
    tsr__csv_split_row(&file->dialect, &row, batch->base, batch->ends + (size_t)r * columns,
                       columns);
    at = row.next;
  }
  return at;
}

/* By masks; NULL if the rows are not all plain, and nothing is known then. */
static const char *split_fast(const struct splitting *s, tsr__csv_batch *batch)
{
  const tsr__csv_file *file = s->file;
  const char *from = batch->base, *to = file->data + file->end;
  size_t columns = (size_t)batch->columns, need = (size_t)s->want * columns;
  /* Behind that, offsets would wrap: what ends there goes the careful way, which says so. */
  if (to - from > (int64_t)UINT32_MAX) to = from + UINT32_MAX;
  tsr__csv_flat flat = { .ends = batch->ends, .want = need };
  size_t found = file->csv->scan->flatten(&file->dialect, from, to, &flat);
  /* As many separators and newlines as fields; were one of the newlines not a row's last, some row
   * is too long or too short. */
  if (found < need || flat.newlines != (size_t)s->want) return NULL;
  uint32_t before = UINT32_MAX;
  for (int r = 0; r < s->want; r++) {
    uint32_t last = batch->ends[((size_t)r + 1) * columns - 1];
    /* The counts may agree by chance (a row too long, the next too short), so each last mark is
     * looked at. */
    if (from[last] != file->dialect.newline) return NULL;
    batch->begins[r] = before;
    before = last;
  }
  /* Empty lines of one-column files are rows; in others they would have made a row too short. */
  return from + before + 1;
}

/* NULL at a fault; the rows before it are in the batch, since one of them may hold an earlier
 * error. */
static const char *split(struct splitting *s, tsr__csv_batch *batch)
{
  const char *next = s->file->careful ? NULL : split_fast(s, batch);
  if (!next) next = split_careful(s, batch);
  batch->rows = next ? s->want : (int)(s->fault_row - batch->first_row);
  tsr__csv_trim_returns(&s->file->dialect, batch);
  return next;
}

/* ---- a stripe -------------------------------------------------------------------------------- */

/* A batch of a stripe in a part. */
struct place {
  struct stripe *stripe;
  const tsr__csv_file *file;
  const tsr__csv_batch *batch;
  int part;
  /* A bit a predicate: its texts are judged as they lie, and put where they go when it is known
   * which are kept. So it is where each is another; of those that repeat codes are asked, once
   * each. */
  uint64_t late;
};

static bool is_filtered(const struct reading *reading, const struct place *p, int target)
{
  for (int s = 0; reading->read && s < reading->read->predicate_count; s++)
    if (reading->read->predicates[s].target == target) return !(p->late >> s & 1);
  return false;
}

static tsr__csv_sink sink_of(const struct reading *reading, const struct place *p, int target)
{
  const tsr__read_ask *read = reading->read;
  /* Looking for classes only: nothing is written down. */
  if (!read) return (tsr__csv_sink){ 0 };
  const tsr__read_target *t = &read->targets[target];
  if (t->told) return (tsr__csv_sink){ .at = p->batch->first_row - read->rows[p->part] };
  return (tsr__csv_sink){ .values = t->values[p->part],
                          .validity = t->validity[p->part],
                          .at = p->batch->first_row - read->rows[p->part],
                          .kept = t->sparse && read->kept && !is_filtered(reading, p, target)
                                      ? read->kept[p->part]
                                      : NULL };
}

static bool is_told(const struct reading *reading, int target)
{
  return reading->read && reading->read->targets[target].told;
}

static void parse_targets(struct reading *reading, const struct place *p, bool filtered)
{
  for (int t = 0; t < reading->target_count; t++) {
    if (is_filtered(reading, p, t) != filtered) continue;
    tsr__csv_lane *lane = lane_of(reading, p->stripe->worker, t);
    tsr__csv_sink sink = sink_of(reading, p, t);
    if (is_told(reading, t)) tsr__csv_look(p->file, reading->columns[t], p->batch, lane);
    else tsr__csv_parse(p->file, reading->columns[t], p->batch, lane, &sink);
    /* The row is the batch's first: memory fails for no row of its own. */
    if (lane->no_memory) fail_at(reading, p->stripe, FAULT_MEMORY, p->batch->first_row);
  }
}

/* Texts as they lie in the batch. */
static uint64_t judge_told(const struct place *p, const tsr__judge *judge, tsr__csv_lane *lane,
                           tsr__csv_run run)
{
  tsr__text_span texts[64];
  uint64_t all = run.count == 64 ? UINT64_MAX : (UINT64_C(1) << run.count) - 1;
  uint64_t valid = tsr__csv_texts(p->file, p->batch, lane, run, texts);
  if (judge->predicate->op == TSR__PREDICATE_NULL) return ~valid & all;
  return tsr__judge_texts(judge, texts, valid);
}

/* Which rows of a word pass all predicates; where a column is being retyped nothing that is read
 * counts. */
static uint64_t judge_word(struct reading *reading, const struct place *p, int64_t at, int count)
{
  const tsr__read_ask *read = reading->read;
  /* 64 rows to a word, or what is left of a part. */
  uint64_t bits = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
  for (int s = 0; s < read->predicate_count && bits; s++) {
    const tsr__predicate *predicate = &read->predicates[s];
    int target = predicate->target, worker = p->stripe->worker;
    tsr__csv_lane *lane = lane_of(reading, worker, target);
    tsr__csv_sink sink = sink_of(reading, p, target);
    tsr__judge judge = { .predicate = predicate,
                         .type = reading->csv->columns[reading->columns[target]].type,
                         .values = sink.values,
                         .validity = sink.validity,
                         .dict = &lane->dict,
                         .judged = &reading->judged[worker * read->predicate_count + s],
                         .no_memory = &lane->no_memory };
    /* Its values are those of a type that is given up; the frame is read once more. */
    if (lane->classify || lane->no_memory) continue;
    tsr__csv_run rows = { reading->columns[target], (int)(at - sink.at), count };
    bool lies = p->late >> s & 1 || is_told(reading, target);
    bits &= lies ? judge_told(p, &judge, lane, rows) : tsr__judge_word(&judge, at, count);
    if (lane->no_memory) fail_at(reading, p->stripe, FAULT_MEMORY, p->batch->first_row);
  }
  return bits;
}

static void judge_batch(struct reading *reading, const struct place *p)
{
  uint64_t *kept = reading->read->kept[p->part];
  int64_t at = p->batch->first_row - reading->read->rows[p->part], end = at + p->batch->rows;
  while (at < end) {
    int count = 64 - (int)(at % 64);
    if (count > end - at) count = (int)(end - at);
    uint64_t bits = judge_word(reading, p, at, count);
    /* A word may be begun by another batch of the same stripe. Stripes begin at multiples of 64, so
     * no other worker writes to it. */
    kept[at / 64] = at % 64 ? kept[at / 64] | bits << (at % 64) : bits;
    at += count;
  }
}

static uint64_t find_late(struct reading *reading, int worker)
{
  const tsr__read_ask *read = reading->read;
  uint64_t late = 0;
  for (int s = 0; s < read->predicate_count; s++) {
    int target = read->predicates[s].target;
    bool unseen = lane_of(reading, worker, target)->dict.unseen;
    late |= (uint64_t)(read->targets[target].sparse && unseen) << s;
  }
  return late;
}

/* Codes that were asked about of rows that are dropped become 0, as those are that nobody asked. */
static void forget_dropped(const struct reading *reading, const struct place *p)
{
  const tsr__read_ask *read = reading->read;
  for (int t = 0; t < reading->target_count; t++) {
    if (!read->targets[t].sparse || !is_filtered(reading, p, t)) continue;
    const uint64_t *kept = read->kept[p->part];
    int32_t *codes = read->targets[t].values[p->part];
    int64_t at = p->batch->first_row - read->rows[p->part], end = at + p->batch->rows;
    for (; at < end; at++)
      if (!(kept[at / 64] >> (at % 64) & 1)) codes[at] = 0;
  }
}

/* Whether a batch's text is ASCII, which saves looking at texts that nobody wants. */
static bool is_ascii(const tsr__csv_batch *batch)
{
  size_t last = (size_t)batch->rows * (size_t)batch->columns - 1;
  return tsr__all_ascii(batch->base, batch->ends[last]);
}

/* Whether texts of a batch must be UTF-8 beside those that a dictionary has not met. */
static bool looks(const struct reading *reading, int worker)
{
  bool any = reading->looks;
  for (int t = 0; t < reading->target_count && !any; t++)
    any = lane_of(reading, worker, t)->dict.unseen;
  return any;
}

static void parse_batch(struct reading *reading, struct place *p, tsr__csv_batch *batch)
{
  const tsr__read_ask *read = reading->read;
  batch->ascii = batch->rows && looks(reading, p->stripe->worker) && is_ascii(batch);
  /* Columns with conditions come first, so that the others know which rows are wanted. */
  if (read && read->predicate_count) {
    p->late = find_late(reading, p->stripe->worker);
    parse_targets(reading, p, true);
    judge_batch(reading, p);
    forget_dropped(reading, p);
  }
  parse_targets(reading, p, false);
}

static int64_t least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* The file of a row; of one read by views the stripe's part. NULL: it could not be read. */
static const tsr__csv_file *file_at(struct reading *reading, struct stripe *stripe, int64_t row)
{
  const tsr__csv_file *file = tsr__csv_file_of(reading->csv, row);
  if (!tsr__csv_windowed(file)) return file;
  tsr__csv_view *view = &reading->views[stripe->worker];
  /* Text of a view is a copy of some windows: as far as the stripe goes, and not beyond its
   * file. */
  int64_t last = least(stripe->last - file->first_row, file->rows);
  stripe->code = tsr__csv_view_rows(view, file, row - file->first_row, last);
  stripe->end = view->end;
  if (!stripe->code) return &view->file;
  fail_at(reading, stripe, FAULT_READ, row);
  return NULL;
}

static bool is_here(const struct reading *reading, int part)
{
  return !reading->read || !reading->read->here || reading->read->here[part];
}

static void parse_stripe(struct reading *reading, struct stripe *stripe, tsr__csv_batch *batch)
{
  const tsr__csv_file *file = NULL;
  const char *at = NULL;
  int part = 0;
  for (int64_t row = stripe->first; row < stripe->last && !stripe->fault;) {
    int64_t stop = stripe->last;
    /* Borders of parts, of files and of the stripe cut a batch, whichever comes first. */
    if (reading->read) {
      while (reading->read->rows[part + 1] <= row) part++;
      stop = least(stop, reading->read->rows[part + 1]);
    }
    /* Another process reads it. */
    if (!is_here(reading, part)) {
      row = stop;
      file = NULL;
      continue;
    }
    if (!file || row >= file->first_row + file->rows) {
      file = file_at(reading, stripe, row);
      if (!file) return;
      at = file->data + tsr__csv_locate(file, row - file->first_row);
    }
    stop = least(stop, file->first_row + file->rows);
    /* As many rows as there is room for their offsets, but one at least. */
    int64_t rows = least((int64_t)(reading->offsets / (size_t)file->fields), reading->batch_rows);
    struct splitting s = { .file = file, .want = (int)least(stop - row, rows) };
    batch->columns = file->fields;
    batch->base = at;
    batch->first_row = row;
    at = split(&s, batch);
    /* Those before a fault are parsed even so: one of them may hold an error of an earlier row. */
    if (batch->rows) parse_batch(reading, &(struct place){ stripe, file, batch, part, 0 }, batch);
    if (!at) fail_at(reading, stripe, s.fault, s.fault_row);
    row += s.want;
  }
}

static void stripe_task(void *user, int64_t task, int worker)
{
  struct reading *reading = user;
  struct stripe *stripe = &reading->stripes[task];
  size_t rows = (size_t)reading->batch_rows, most = reading->offsets + TSR__CSV_SLACK;
  uint32_t **buffer = &reading->buffers[worker];
  /* What it holds cannot matter any more. */
  if (stripe->first > atomic_load(&reading->first_fault)) return;
  stripe->worker = worker;
  /* Stripes of others lie between this one and the worker's last. */
  for (int t = 0; t < reading->target_count; t++) lane_of(reading, worker, t)->dict.broken = true;
  /* One buffer a worker, made on its first stripe: ends of fields, and two lists of a word a
   * row. */
  if (!*buffer) *buffer = tsr__new_raw(reading->csv->heap, (most + 2 * rows) * sizeof(uint32_t));
  if (!*buffer) {
    fail_at(reading, stripe, FAULT_MEMORY, stripe->first);
    return;
  }
  tsr__csv_batch batch = { .ends = *buffer,
                           .begins = *buffer + most,
                           .lasts = *buffer + most + rows };
  parse_stripe(reading, stripe, &batch);
  if (!stripe->fault && !tsr__dict_flows_stripe(&reading->flows, (int)task, worker))
    fail_at(reading, stripe, FAULT_MEMORY, stripe->first);
}

/* ---- cutting rows into stripes --------------------------------------------------------------- */

/* The allowed border at or before a row: a multiple of 64 rows behind the beginning of its part,
 * which is found by bisection. 64 rows from there are 64 bits from that of its words. */
static int64_t border_before(const tsr__read_ask *read, int64_t first, int64_t row)
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

enum { STRIPE_BYTES = 1 << 20 };

/* Of files whose extent is known: those that are not yet loaded or counted weigh nothing. */
static int64_t text_bytes(const tsr__csv *csv)
{
  int64_t bytes = 0;
  for (int f = 0; f < csv->file_count; f++)
    if (csv->files[f].data || csv->files[f].indexed)
      bytes += csv->files[f].end - csv->files[f].body;
  return bytes;
}

static int stripes_for(const tsr__csv *csv, int64_t rows)
{
  int64_t want = csv->opts.stripes, most = rows / 64 + 1, bytes = text_bytes(csv);
  bool windowed = tsr__csv_windowed(&csv->files[0]);
  /* By windows a stripe is as much as a worker holds at a time; else small enough for workers to
   * end together. */
  if (want <= 0) want = bytes / (windowed ? (int)TSR__CSV_WINDOW : STRIPE_BYTES) + 1;
  want = least(want, INT32_MAX / 2);
  return (int)least(want, most);
}

/* Rows by the number of their fields, so that a batch stays in cache; one row at least. */
static void size_batches(struct reading *reading)
{
  const tsr__csv *csv = reading->csv;
  int64_t fields = 1, rows = csv->opts.batch_rows;
  for (int f = 0; f < csv->file_count; f++)
    if (csv->files[f].fields > fields) fields = csv->files[f].fields;
  /* Some 4,096 fields, whole words of rows where there are as many. */
  if (rows <= 0) rows = 4096 / fields / 64 * 64;
  if (rows <= 0) rows = 4096 / fields ? 4096 / fields : 1;
  reading->batch_rows = (int)least(rows, csv->opts.batch_rows > 0 ? rows : 512);
  reading->offsets = (size_t)(reading->batch_rows * fields);
}

static void free_reading(struct reading *reading)
{
  tsr__heap *heap = reading->csv->heap;
  size_t workers = (size_t)reading->workers, targets = (size_t)reading->target_count;
  tsr__dict_flows_close(&reading->flows);
  size_t size = (reading->offsets + TSR__CSV_SLACK + 2 * (size_t)reading->batch_rows);
  for (size_t l = 0; reading->lanes && l < workers * targets; l++)
    tsr__dict_local_free(&reading->lanes[l].dict);
  for (size_t w = 0; reading->buffers && w < workers; w++)
    tsr__del(heap, reading->buffers[w], size * sizeof(uint32_t));
  size_t judged = workers * (size_t)(reading->read ? reading->read->predicate_count : 0);
  for (size_t i = 0; reading->judged && i < judged; i++)
    tsr__judged_close(&reading->judged[i], heap);
  tsr__del(heap, reading->judged, (judged + 1) * sizeof *reading->judged);
  for (size_t w = 0; reading->views && w < workers; w++)
    tsr__csv_view_close(&reading->views[w], heap);
  tsr__del(heap, reading->views, workers * sizeof *reading->views);
  tsr__del(heap, reading->lanes, (workers * targets + 1) * sizeof *reading->lanes);
  tsr__del(heap, reading->buffers, workers * sizeof *reading->buffers);
  tsr__del(heap, reading->stripes, (size_t)reading->stripe_count * sizeof *reading->stripes);
}

static tsr_status make_stripes(struct reading *reading, int64_t first, int64_t last,
                               tsr__error *error)
{
  tsr__csv *csv = reading->csv;
  int count = stripes_for(csv, last - first);
  size_t lanes = (size_t)reading->workers * (size_t)reading->target_count;
  tsr__text_layout layout = tsr__text_layout_asked();
  reading->stripe_count = count;
  atomic_init(&reading->first_fault, INT64_MAX);
  size_batches(reading);
  reading->stripes = tsr__new(csv->heap, (size_t)count * sizeof *reading->stripes);
  reading->lanes = tsr__new(csv->heap, (lanes + 1) * sizeof *reading->lanes);
  reading->buffers = tsr__new(csv->heap, (size_t)reading->workers * sizeof *reading->buffers);
  size_t judged =
      (size_t)reading->workers * (size_t)(reading->read ? reading->read->predicate_count : 0);
  reading->judged = tsr__new(csv->heap, (judged + 1) * sizeof *reading->judged);
  for (size_t i = 0; reading->judged && i < judged; i++)
    tsr__judged_open(&reading->judged[i], csv->heap);
  reading->views = tsr__new(csv->heap, (size_t)reading->workers * sizeof *reading->views);
  if (!reading->stripes || !reading->lanes || !reading->buffers || !reading->judged ||
      !reading->views)
    return tsr__csv_no_memory(csv, error);
  /* A border that is rounded down may fall before the stripe's own beginning: that stripe is empty
   * then. Stripes stay in order, side by side, and no row is left out. */
  for (int s = 0; s < count; s++) {
    struct stripe *stripe = &reading->stripes[s];
    int64_t ideal = first + (int64_t)((double)(last - first) * (s + 1) / count);
    stripe->first = s ? stripe[-1].last : first;
    stripe->last = s + 1 == count ? last : border_before(reading->read, first, ideal);
    if (stripe->last < stripe->first) stripe->last = stripe->first;
  }
  for (size_t l = 0; l < lanes; l++) {
    tsr__csv_lane *lane = &reading->lanes[l];
    lane->contrary_row = lane->bad_row = -1;
    lane->classify = !reading->read;
    tsr__dict_local_init(&lane->dict, csv->heap);
    /* What processes tell each other of texts is each once. */
    lane->dict.layout = reading->read && !reading->read->here ? layout : TSR__TEXTS_CODES;
    /* Windows are used again: a text that is kept must be copied out of them. */
    lane->dict.copies = tsr__csv_windowed(&csv->files[0]);
    lane->dict.progress = &reading->progress;
    lane->dict.worker = (int)(l / (size_t)reading->target_count);
  }
  return TSR_OK;
}

/* ---- what went wrong ------------------------------------------------------------------------- */

static tsr_status fault_error(tsr__csv *csv, const struct stripe *stripe, tsr__error *error)
{
  if (stripe->fault == FAULT_MEMORY) return tsr__csv_no_memory(csv, error);
  const tsr__csv_file *file = tsr__csv_file_of(csv, stripe->fault_row);
  if (stripe->fault == FAULT_READ)
    return tsr__csv_view_error(file, stripe->code, stripe->end, error);
  /* The text may have been read by windows only; to be told of, it must be there. */
  if (tsr__csv_hold(csv, stripe->fault_row, error)) return error->status;
  if (stripe->fault == FAULT_SPAN)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: the rows around row %lld take more than 4 GiB together", file->path,
                          (long long)stripe->fault_row);
  /* The row is split once more, by the way that says what is wrong with it. */
  const char *at = file->data + tsr__csv_locate(file, stripe->fault_row - file->first_row);
  tsr__csv_row row;
  tsr__csv_found found = tsr__csv_next_row(&file->dialect, at, file->data + file->end, &row);
  bool whole = found == TSR__CSV_ROW;
  /* A fault that is not found again was not in the file: somebody writes to it. */
  if (found == TSR__CSV_END || (whole ? row.fields == file->fields : stripe->fault != FAULT_JUNK))
    return tsr__error_set(error, TSR_EIO,
                          "%s: changed while it was read; is the file still being written?",
                          file->path);
  if (!whole) return tsr__csv_row_error(file, found, &row, error);
  return tsr__csv_fields_error(file, &row, stripe->fault_row, error);
}

/* The earliest error by row. */
static tsr_status error_here(const struct reading *reading, int64_t *row, tsr__error *error)
{
  const struct stripe *stripe = NULL;
  int64_t bad = -1;
  int column = 0;
  /* In order of rows: stripes are. */
  for (int s = 0; s < reading->stripe_count && !stripe; s++)
    if (reading->stripes[s].fault) stripe = &reading->stripes[s];
  /* Each worker keeps its first bad row, whatever stripe that is in. The least of them is the
   * file's. */
  for (int t = 0; t < reading->target_count; t++)
    for (int w = 0; w < reading->workers; w++) {
      int64_t found = lane_of(reading, w, t)->bad_row;
      if (found >= 0 && (bad < 0 || found < bad)) bad = found, column = reading->columns[t];
    }
  /* Where both are in one row its shape is told: what stands in its fields is then of no
   * meaning. */
  if (stripe && (bad < 0 || stripe->fault_row <= bad)) {
    bool of_row = stripe->fault != FAULT_MEMORY && stripe->fault != FAULT_READ;
    *row = of_row ? stripe->fault_row : -1;
    return fault_error(reading->csv, stripe, error);
  }
  /* Read by windows, and twice: whether the file is still the same is asked once all is well. */
  if (bad < 0) return tsr__csv_windows_same(reading->csv, error);
  *row = bad;
  if (tsr__csv_hold(reading->csv, bad, error)) return error->status;
  return tsr__csv_value_error(reading->csv, bad, column, error);
}

/* Of all processes where several read. What is no row's own is told as this process's failure. */
static tsr_status first_error(const struct reading *reading, tsr__error *error)
{
  int64_t row = -1;
  tsr_status status = error_here(reading, &row, error);
  if (!reading->csv->peers || !reading->read || (status && row < 0)) return status;
  return tsr__csv_agree_error(reading->csv, row, error);
}

/* ---- types ----------------------------------------------------------------------------------- */

/* The text of a value that contradicts its column's type. */
static void note_contrary(tsr__csv *csv, int column, tsr__csv_found_in *found)
{
  tsr__error unread = { 0 }; /* the next reading will say so */
  tsr__text_span field = { "", 0 };
  int64_t row = found->contrary_row;
  if (!tsr__csv_hold(csv, row, &unread)) field = tsr__csv_field_in(csv, row, column);
  size_t most = sizeof found->contrary - 1, length = field.length < most ? field.length : most;
  memcpy(found->contrary, field.at, length);
  found->contrary[length] = 0;
}

static void keep_contrary(tsr__csv *csv, int column, const tsr__csv_found_in *found)
{
  tsr__csv_info *info = &csv->info[column];
  memcpy(info->widened_text, found->contrary, sizeof info->widened_text);
  info->widened_row = found->contrary_row;
  tsr__log(csv->rt, TSR_LOG_INFO, "io", "%s: column \"%s\" is retyped because of row %lld",
           csv->path, csv->columns[column].name, (long long)found->contrary_row);
}

/* What the workers saw of a target's column. */
static tsr__csv_found_in found_by_workers(const struct reading *reading, int t)
{
  tsr__csv_found_in found = { .contrary_row = -1 };
  for (int w = 0; w < reading->workers; w++) {
    const tsr__csv_lane *lane = lane_of(reading, w, t);
    int64_t row = lane->contrary_row;
    found.seen |= lane->seen;
    found.nulls += lane->nulls;
    /* The least row of all workers: which worker met which row is chance, the least is not. */
    if (row >= 0 && (found.contrary_row < 0 || row < found.contrary_row)) found.contrary_row = row;
  }
  if (found.contrary_row >= 0) note_contrary(reading->csv, reading->columns[t], &found);
  return found;
}

/* Adds what was seen to the schema; true if the target's type changed. */
static bool merge_types(const struct reading *reading, int t, const tsr__csv_found_in *found)
{
  int column = reading->columns[t];
  tsr__csv *csv = reading->csv;
  tsr__csv_info *info = &csv->info[column];
  tsr__read_column *schema = &csv->columns[column];
  int64_t first = found->contrary_row, nulls = found->nulls;
  info->seen |= found->seen;
  if (first >= 0) schema->type = tsr__classes_type(info->seen);
  /* Text is nullable by what was read; other types by whether any of their values ever was. */
  schema->nullable =
      schema->type == TSR_COL_TEXT ? first < 0 && nulls > 0 : (info->seen & TSR__CLASS_NULL) != 0;
  if (first >= 0) {
    keep_contrary(csv, column, found);
    tsr__csv_note_zeros(csv, column);
  }
  return first >= 0;
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

/* Whether a target gets codes of texts. */
static bool is_text(const struct reading *reading, int64_t t)
{
  return reading->csv->columns[reading->columns[t]].type == TSR_COL_TEXT &&
         !is_told(reading, (int)t);
}

struct unify {
  struct reading *reading;
  tsr__dict **dicts;        /* one a target */
  tsr__dict_local **locals; /* one a worker, for each target */
  _Atomic bool no_memory;
};

static void unify_task(void *user, int64_t task, int worker)
{
  struct unify *unify = user;
  struct reading *reading = unify->reading;
  if (!is_text(reading, task)) return;
  if (tsr__dict_flows_has(&reading->flows, (int)task)) {
    unify->dicts[task] = tsr__dict_flows_end(&reading->flows, (int)task);
    return;
  }
  tsr__dict_local **locals = unify->locals + task * reading->workers;
  for (int w = 0; w < reading->workers; w++) {
    /* One task a column. The locals are those of all workers, merged by the row where a text came
     * first (dict.c). */
    locals[w] = &lane_of(reading, w, (int)task)->dict;
    locals[w]->worker = worker; /* who asks from here on */
  }
  unify->dicts[task] = tsr__dict_unify(reading->csv->heap, locals, reading->workers);
}

/* Turns a worker's own codes into those of the dictionary; nulls keep their 0. */
static void recode(const struct reading *reading, const struct stripe *stripe, int t)
{
  const tsr__read_ask *read = reading->read;
  const tsr__csv_lane *lane = lane_of(reading, stripe->worker, t);
  int32_t run = 0;
  /* Codes that did not move need no second pass over the column. */
  if (!lane->dict.recoded) return;
  for (int part = 0; part < read->parts; part++) {
    int64_t begin = read->rows[part], end = read->rows[part + 1];
    int32_t *codes = read->targets[t].values[part];
    const uint64_t *valid = read->targets[t].validity[part];
    const uint64_t *kept = read->targets[t].sparse && read->kept ? read->kept[part] : NULL;
    if (!is_here(reading, part)) continue;
    int64_t first = (stripe->first > begin ? stripe->first : begin) - begin;
    int64_t last = least(stripe->last, end) - begin;
    /* The common case has no nulls and no filter: a loop without a branch. */
    if (!lane->nulls && !kept)
      for (int64_t i = first; i < last; i++)
        codes[i] = tsr__dict_final(&lane->dict, codes[i], &run);
    else
      for (int64_t i = first; i < last; i++)
        if ((valid[i / 64] & (kept ? kept[i / 64] : UINT64_MAX)) >> (i % 64) & 1)
          codes[i] = tsr__dict_final(&lane->dict, codes[i], &run);
  }
}

static void rest_task(void *user, int64_t task, int worker)
{
  (void)worker;
  struct unify *unify = user;
  if (!tsr__dict_flows_rest(&unify->reading->flows, (int)task))
    atomic_store(&unify->no_memory, true);
}

static void recode_task(void *user, int64_t task, int worker)
{
  (void)worker;
  struct reading *reading = user;
  for (int t = 0; t < reading->target_count; t++)
    if (is_text(reading, t)) recode(reading, &reading->stripes[task], t);
}

/* Column by column, as what processes tell each other is one column's. */
static tsr_status unify_together(struct reading *reading, struct unify *unify, tsr__error *error)
{
  tsr_status status = TSR_OK;
  for (int t = 0; t < reading->target_count && !status; t++) {
    if (!is_text(reading, t)) continue;
    tsr__dict_local **locals = unify->locals + t * reading->workers;
    for (int w = 0; w < reading->workers; w++) locals[w] = &lane_of(reading, w, t)->dict;
    unify->dicts[t] = tsr__dict_together(reading->csv->peers, reading->csv->heap, locals,
                                         reading->workers, error);
    if (!unify->dicts[t]) status = error->status;
  }
  return status;
}

static tsr_status make_dicts(struct reading *reading, tsr__dict **dicts, tsr__error *error)
{
  tsr__csv *csv = reading->csv;
  size_t targets = (size_t)reading->target_count;
  size_t size = (targets * (size_t)reading->workers + 1) * sizeof(tsr__dict_local *);
  struct unify unify = { .reading = reading, .dicts = dicts };
  unify.locals = tsr__new(csv->heap, size);
  if (!unify.locals) return tsr__csv_no_memory(csv, error);
  bool whole = true;
  tsr_status status = TSR_OK;
  if (csv->peers) status = unify_together(reading, &unify, error);
  else
    whole = tsr__parallel_progress(&reading->progress, reading->workers, rest_task, &unify) &&
            tsr__parallel_progress(&reading->progress, reading->target_count, unify_task, &unify);
  tsr__del(csv->heap, unify.locals, size);
  if (status) return status;
  if (!whole) return tsr__cancelled(error, csv->path);
  if (unify.no_memory) return tsr__csv_no_memory(csv, error);
  for (size_t t = 0; t < targets; t++)
    if (!dicts[t] && is_text(reading, (int64_t)t)) return tsr__csv_no_memory(csv, error);
  whole = tsr__parallel_progress(&reading->progress, reading->stripe_count, recode_task, reading);
  return whole ? TSR_OK : tsr__cancelled(error, csv->path);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static tsr_status finish(struct reading *reading, tsr__dict **dicts, tsr__error *error)
{
  int retyped = 0;
  tsr__csv *csv = reading->csv;
  size_t size = ((size_t)reading->target_count + 1) * sizeof(tsr__csv_found_in);
  tsr__csv_found_in *found = tsr__new(csv->heap, size);
  if (!found) return tsr__csv_no_memory(csv, error);
  for (int t = 0; t < reading->target_count; t++) found[t] = found_by_workers(reading, t);
  tsr_status status =
      csv->peers ? tsr__csv_agree_types(csv, found, reading->target_count, error) : TSR_OK;
  for (int t = 0; t < reading->target_count && !status; t++) {
    retyped += merge_types(reading, t, &found[t]);
    reading->read->targets[t].nulls = found[t].nulls;
  }
  tsr__del(csv->heap, found, size);
  if (status) return status;
  /* A column that turned out to be of another type is read again from the start, by the caller;
   * nothing is made of it. */
  if (!retyped && make_dicts(reading, dicts, error)) {
    for (int t = 0; t < reading->target_count; t++) tsr__dict_release(dicts[t]);
    return error->status;
  }
  tsr__read_ask *read = reading->read;
  for (int t = 0; t < reading->target_count; t++) read->targets[t].dict = dicts[t];
  read->retyped = retyped;
  return TSR_OK;
}

/* Texts may flow to their lists where some may be added unseen. */
static tsr_status open_flows(struct reading *reading, int64_t rows, tsr__error *error)
{
  tsr__csv *csv = reading->csv;
  size_t targets = (size_t)reading->target_count;
  tsr__text_layout layout = targets ? lane_of(reading, 0, 0)->dict.layout : TSR__TEXTS_CODES;
  bool any = layout != TSR__TEXTS_CODES && (layout != TSR__TEXTS_CHOSEN || rows > TSR__TEXTS_TRIAL);
  bool *flowing = any ? tsr__new(csv->heap, targets) : NULL;
  if (!any) return TSR_OK;
  for (size_t t = 0; flowing && t < targets; t++) flowing[t] = is_text(reading, (int64_t)t);
  tsr__dict_flows_ask ask = { reading->stripe_count, reading->workers, reading->target_count, rows,
                              text_bytes(csv),       flowing };
  bool fine = flowing && tsr__dict_flows_open(&reading->flows, csv->heap, &ask);
  size_t lanes = reading->flows.local ? (size_t)reading->workers * targets : 0;
  for (size_t l = 0; l < lanes; l++) reading->flows.local[l] = &reading->lanes[l].dict;
  tsr__del(csv->heap, flowing, targets);
  return fine ? TSR_OK : tsr__csv_no_memory(csv, error);
}

static tsr_status run(struct reading *reading, int64_t first, int64_t last, tsr__error *error)
{
  tsr__csv *csv = reading->csv;
  tsr_status status = make_stripes(reading, first, last, error);
  if (!status) status = open_flows(reading, last - first, error);
  if (status) return status;
  reading->progress.rt = csv->rt;
  reading->progress.what = "csv";
  if (!tsr__parallel_progress(&reading->progress, reading->stripe_count, stripe_task, reading))
    return tsr__cancelled(error, csv->path);
  return first_error(reading, error);
}

static tsr_status check_read(const tsr__csv *csv, const tsr__read_ask *read, int64_t rows,
                             tsr__error *error)
{
  /* Borders come from the frame's parts; the rows behind the last may be left out (a head). */
  bool good = read->parts >= 1 && read->rows[0] >= 0 && read->rows[read->parts] <= rows;
  for (int p = 0; good && p < read->parts; p++) good = read->rows[p] <= read->rows[p + 1];
  if (!good)
    return tsr__error_set(error, TSR_EARG,
                          "%s: the borders of the devices' rows do not rise within its %lld rows",
                          csv->path, (long long)rows);
  for (int t = 0; t < read->target_count; t++)
    if (read->targets[t].column < 0 || read->targets[t].column >= csv->column_count)
      return tsr__error_set(error, TSR_ECOLUMN, "%s: has no column %d, only 0 to %d", csv->path,
                            read->targets[t].column, csv->column_count - 1);
  for (int s = 0; s < read->predicate_count; s++) {
    const tsr__read_target *t = &read->targets[read->predicates[s].target];
    TSR_INVARIANT(read->kept && (!t->sparse || csv->columns[t->column].type == TSR_COL_TEXT));
  }
  return TSR_OK;
}

/* Gives the text back once all columns were read, where it could be loaded again. */
static void note_read(tsr__csv *csv, const tsr__read_ask *read)
{
  /* Bad rows were taken out of the text, and a stream came once: these cannot be read again. */
  bool all = !csv->opts.bad_rows && !csv->streams;
  for (int t = 0; t < read->target_count; t++) csv->info[read->targets[t].column].read = true;
  for (int c = 0; c < csv->column_count && all; c++) all = csv->info[c].read;
  if (all) tsr__csv_forget(csv);
}

/* Counts the rows, and holds the text again where it was given back after a reading. */
static tsr_status count_held(tsr__csv *csv, int64_t *rows, tsr__error *error)
{
  if (!csv->files[0].data && !csv->files[0].indexed) csv->rows = -1;
  return tsr__csv_count(csv, rows, error);
}

tsr_status tsr__csv_read_parts(tsr__csv *csv, tsr__read_ask *read, tsr__error *error)
{
  int64_t rows = csv->front;
  bool front = read->front && rows >= 0;
  tsr_status status = TSR_OK;
  if (!front) status = count_held(csv, &rows, error);
  if (!status) status = check_read(csv, read, rows, error);
  if (status) return status;
  /* One block for both lists. */
  size_t targets = (size_t)read->target_count + 1;
  size_t size = targets * (sizeof(tsr__dict *) + sizeof(int));
  tsr__dict **dicts = tsr__new(csv->heap, size);
  if (!dicts) return tsr__csv_no_memory(csv, error);
  int *columns = (int *)(dicts + targets);
  for (int t = 0; t < read->target_count; t++) columns[t] = read->targets[t].column;
  struct reading reading = { .csv = csv,
                             .read = read,
                             .columns = columns,
                             .target_count = read->target_count,
                             .workers = tsr__worker_count(csv->rt) };
  /* Whether the text is ASCII is asked once a batch instead of once a dropped text. */
  for (int t = 0; t < read->target_count && read->kept; t++)
    reading.looks |= read->targets[t].told || (read->targets[t].sparse && is_text(&reading, t));
  status = run(&reading, read->rows[0], read->rows[read->parts], error);
  if (!status) status = finish(&reading, dicts, error);
  free_reading(&reading);
  tsr__del(csv->heap, dicts, size);
  if (!status && !read->retyped && !front) note_read(csv, read);
  return status;
}

tsr_status tsr__csv_discover(tsr__csv *csv, const bool *which, tsr__error *error)
{
  int64_t rows;
  tsr_status status = count_held(csv, &rows, error);
  if (status) return status;
  size_t size = ((size_t)csv->column_count + 1) * sizeof(int);
  int *columns = tsr__new(csv->heap, size), count = 0;
  if (!columns) return tsr__csv_no_memory(csv, error);
  for (int c = 0; c < csv->column_count; c++)
    if (which[c]) columns[count++] = c;
  /* Only the classes of values are wanted. Without targets to read into nothing is written. */
  struct reading reading = {
    .csv = csv, .columns = columns, .target_count = count, .workers = tsr__worker_count(csv->rt)
  };
  status = run(&reading, 0, rows, error);
  for (int t = 0; !status && t < count; t++)
    for (int w = 0; w < reading.workers; w++)
      csv->info[columns[t]].seen |= lane_of(&reading, w, t)->seen;
  free_reading(&reading);
  tsr__del(csv->heap, columns, size);
  return status;
}
