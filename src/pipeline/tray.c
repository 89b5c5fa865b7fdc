/* The way of a batch's rows to devices: straight into the staging buffers of the devices' shards
 * where a device's row is a record's bytes (on CPU devices that is the shard itself), and by way of
 * a field in host memory where it is not (bools, which are bits on devices, and fields whose other
 * dims are sharded).
 *
 *   rows   0        3        6     8      10 rows of a field over data=4
 *   edges  |        |        |     |   |  where any field's shard ends
 *   slices |------------|------------|--  as many rows each, whatever the shards: a claim each
 *   blocks |--------|---|----|-----|---|  what a source is asked at once
 *
 * Invariant: a block lies in one shard of each field, so its rows are `stride` apart there. */
#include <stdlib.h>

#include "base/events.h"
#include "pipeline/pipeline_room.h"

/* Bytes of a slice: enough to be worth a claim, and little enough that a batch of a few megabytes
 * is several threads' work. */
enum { SLICE = 1 << 20 };

/* ---- how columns lie ------------------------------------------------------------------------- */

static const tsr_sharding *asked_for(const tsr_pipeline_args *args, const char *name)
{
  for (int i = 0; i < TSR_MAX_FIELDS && args->fields[i].name; i++)
    if (!strcmp(args->fields[i].name, name)) return &args->fields[i].on;
  return &args->on;
}

/* The cut of dim 0 alone. */
static tsr_sharding rows_of(const tsr_sharding *on)
{
  tsr_sharding rows = *on;
  for (int d = 2; d <= TSR_MAX_RANK; d++) rows.first[d] = rows.first[1];
  if (rows.rank > 1) rows.rank = 1;
  return rows;
}

static tsr_shape batch_shape(const tsr__column *column, int64_t rows)
{
  tsr_shape shape = { .rank = column->shape.rank + 1, .dims = { rows } };
  memcpy(shape.dims + 1, column->shape.dims, (size_t)column->shape.rank * sizeof *shape.dims);
  return shape;
}

/* Rows of the last batch of an epoch, or of one of a bucket, where it is shorter; else 0. */
static int64_t short_rows(const tsr_pipeline *p, const tsr__bucket *bucket)
{
  if (p->stream || p->args.remainder != TSR_KEEP_SHORT) return 0;
  return bucket ? bucket->records % bucket->size : p->source->count % p->args.batch_size;
}

/* Whether batches can lie so, of each size that comes; where uneven parts are an error, short ones
 * as well. */
static void check_rows(const tsr_pipeline *p, const tsr__column *column, const tsr_sharding *on,
                       const tsr__bucket *bucket, tsr__error *error)
{
  tsr_shape shape = batch_shape(column, bucket ? bucket->size : p->args.batch_size);
  tsr__error cause = { 0 };
  if (!tsr__shape_check(&shape, error))
    tsr__check_place(p->node.scope, on, column->dtype, &shape, error);
  shape.dims[0] = short_rows(p, bucket);
  if (error->status || !on->strict || !shape.dims[0]) return;
  if (tsr__check_place(p->node.scope, on, column->dtype, &shape, &cause))
    tsr__error_set(error, cause.status,
                   "the last batch has %lld rows: %s; use TSR_DROP, TSR_PAD_AND_MASK or TSR_WRAP, "
                   "which keep batch sizes equal",
                   (long long)shape.dims[0], cause.text);
}

/* Once, when the pipeline is opened: what each batch does follows from `direct` and `positions`. */
static tsr_status place_column(tsr_pipeline *p, const tsr_pipeline_args *args, int c,
                               tsr__error *error)
{
  const tsr__column *column = &p->source->columns[c];
  const tsr_sharding *on = asked_for(args, column->name);
  tsr__placing *placing = &p->placing[c];
  tsr__error cause = { 0 };
  /* Batches have their elements: there is nothing to be summed, and nothing to be decided later. */
  if (on->unreduced || on->open)
    return tsr__error_set(
        error, TSR_EARG,
        "field %.80s: its spec has '?' or ';sum', expected axes or '-' for every dim",
        column->name);
  const tsr__dealer *dealer = p->source->dealer;
  for (int b = 0; b < (dealer ? dealer->bucket_count : 1) && !cause.status; b++)
    check_rows(p, column, on, dealer ? &dealer->buckets[b] : NULL, &cause);
  if (cause.status)
    return tsr__error_set(error, cause.status, "field %.80s: %s", column->name, cause.text);
  placing->on = tsr__sharding_canon(on);
  placing->positions = tsr__positions(&placing->on);
  if (column->bytes > p->widest) p->widest = column->bytes;
  /* A field that is cut to a batch's length is shorter on its devices than in records. */
  placing->direct = column->dtype != TSR_BOOL && (!p->source->fitted || c != p->source->fit_column);
  for (int d = 1; d <= column->shape.rank; d++)
    if (tsr__dim_parts(&placing->on, d) > 1) placing->direct = false;
  if (placing->positions > p->most_positions) p->most_positions = placing->positions;
  return TSR_OK;
}

static tsr_status unknown_field(const tsr_source *source, const char *name, tsr__error *error)
{
  tsr__known known = { .count = 0 };
  char hint[TSR__HINT];
  for (int c = 0; c < source->column_count; c++)
    tsr__known_add(&known, source->columns[c].name, strlen(source->columns[c].name));
  return tsr__error_set(error, TSR_EARG,
                        ".fields names '%.80s', but the source has no such field%s", name,
                        tsr__known_hint(&known, name, hint));
}

tsr_status tsr__place_columns(tsr_pipeline *p, const tsr_pipeline_args *args, tsr__error *error)
{
  const tsr_source *source = p->source;
  p->placing =
      tsr__arena_new(&p->node.scope->arena, (size_t)source->column_count * sizeof *p->placing);
  if (!p->placing) return tsr__error_set(error, TSR_ENOMEM, "no memory for a pipeline");
  for (int i = 0; i < TSR_MAX_FIELDS && args->fields[i].name; i++)
    if (tsr__column_find(source->columns, source->column_count, args->fields[i].name) < 0)
      return unknown_field(source, args->fields[i].name, error);
  for (int c = 0; c < source->column_count && !error->status; c++) place_column(p, args, c, error);
  p->mask_on = rows_of(&args->on);
  if (error->status) return error->status;
  p->mask_on = tsr__sharding_canon(&p->mask_on);
  return TSR_OK;
}

/* ---- cutting --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Sorts and drops what stands twice. */
static int sort_once(int64_t *at, int count)
{
  int kept = 0;
  qsort(at, (size_t)count, sizeof *at, by_value);
  for (int i = 0; i < count; i++)
    if (!kept || at[kept - 1] != at[i]) at[kept++] = at[i];
  return kept;
}

/* Where functions wait, all threads are to wait side by side. */
static int64_t rows_of_slice(const tsr_pipeline *p, int64_t rows)
{
  const tsr_source *source = p->source;
  size_t bytes = 1;
  for (int c = 0; c < source->column_count; c++) bytes += source->columns[c].bytes;
  int64_t most = SLICE / (int64_t)bytes;
  int64_t share = rows / (p->args.threads ? p->args.threads : 1);
  if (source->blocking && most > share) most = share;
  if (most < 1) most = 1;
  int64_t slices = (rows + most - 1) / most; /* none is much shorter than the others */
  return slices ? (rows + slices - 1) / slices : 1;
}

static bool cut_tray(tsr_pipeline *p, tsr__tray *tray)
{
  const tsr_source *source = p->source;
  int64_t rows = tray->rows;
  size_t need = (size_t)(source->column_count * p->most_positions) + 2;
  int count = 0;
  if (tray->cut_rows == rows && tray->edges) return true;
  if (!tsr__grow(&p->node.scope->rt->heap, (void **)&tray->edges, &tray->edge_room, need,
                 sizeof *tray->edges))
    return false;
  /* Of all fields together: a block between two edges lies in one shard of each, however they are
   * cut. They follow from the number of rows alone, which mostly is the last batch's. */
  for (int c = 0; c < source->column_count; c++)
    for (int k = 0; k < p->placing[c].positions; k++)
      tray->edges[count++] = tsr__dim_span(&p->placing[c].on, 0, rows, k).start;
  tray->edges[count++] = 0;
  tray->edges[count++] = rows;
  sort_once(tray->edges, count);
  tray->slice_rows = rows_of_slice(p, rows);
  tray->slices = (int)((rows + tray->slice_rows - 1) / tray->slice_rows);
  tray->cut_rows = rows;
  return true;
}

/* The first edge behind a row; the last one is behind all. */
static int64_t edge_behind(const tsr__tray *tray, int64_t row)
{
  const int64_t *edge = tray->edges;
  while (*edge <= row) edge++;
  return *edge;
}

/* ---- preparing ------------------------------------------------------------------------------- */

static tsr__lot *lots_of(const tsr_pipeline *p, const tsr__tray *tray, int c)
{
  return tray->lots + (size_t)c * (size_t)p->most_positions;
}

void tsr__tray_expect(tsr_pipeline *p, int trays)
{
  const tsr_source *source = p->source;
  for (int c = 0; c < source->column_count; c++) {
    tsr_shape shape = batch_shape(&source->columns[c], p->args.batch_size);
    tsr__layout layout = { source->columns[c].dtype, &shape, &p->placing[c].on, NULL };
    /* What differs from batch to batch is of other sizes. */
    if (!source->dealer && !(source->fitted && c == source->fit_column))
      tsr__value_expect(p->node.scope->rt, &layout, trays);
  }
}

/* A field that is ordered by length is as long as this batch needs. */
static tsr_shape tray_shape(const tsr_pipeline *p, const tsr__tray *tray, int c)
{
  const tsr_source *source = p->source;
  tsr_shape shape = batch_shape(&source->columns[c], tray->rows);
  if (!source->fitted || c != source->fit_column) return shape;
  int64_t left = tray->home + tray->around - tray->first, rows = tray->meant;
  int64_t some = rows < left ? rows : left; /* the others are the first ones, wrapped */
  shape.dims[1] = source->fit(source->fitted, tray->epoch, tray->first, some);
  for (int64_t more = rows - some; more > 0; more -= tray->around) {
    some = more < tray->around ? more : tray->around;
    int64_t wrapped = source->fit(source->fitted, tray->epoch, tray->home, some);
    if (wrapped > shape.dims[1]) shape.dims[1] = wrapped;
  }
  return shape;
}

/* direct    lots[k].staging is open until the tray is finished
 * else      staged: the whole field on the host, which goes to its devices at the end */
static tsr_status prepare_column(tsr_pipeline *p, tsr__tray *tray, int c)
{
  tsr_runtime *rt = p->node.scope->rt;
  const tsr__placing *placing = &p->placing[c];
  tsr_shape shape = tray_shape(p, tray, c);
  tsr__layout layout = { p->source->columns[c].dtype, &shape, &placing->on, NULL };
  tsr__value *value = tray->values[c] = tsr__value_new(rt, &layout, &tray->error);
  if (!value) return tray->error.status;
  tsr__lot *lots = lots_of(p, tray, c);
  for (int k = 0; k < placing->positions; k++) {
    tsr__span span = tsr__dim_span(&placing->on, 0, tray->rows, k);
    lots[k].start = span.start;
    lots[k].rows = span.length;
    if (placing->direct && tsr__staging_open(value->parts[k], &lots[k].staging, &tray->error))
      return tray->error.status;
  }
  if (placing->direct) return TSR_OK;
  /* On the host in full rows; devices get their part of it when all is there (spread). */
  tray->staged_size[c] = (size_t)tray->rows * p->source->columns[c].bytes + 1;
  tray->staged[c] = tsr__new_raw(&rt->heap, tray->staged_size[c]);
  if (tray->staged[c]) return TSR_OK;
  return tsr__error_set(&tray->error, TSR_ENOMEM, "no memory for %zu bytes of field %s",
                        tray->staged_size[c], p->source->columns[c].name);
}

/* Values, slices and ids for the rows that a tray has. */
static void reserve(tsr_pipeline *p, tsr__tray *tray)
{
  tsr_runtime *rt = p->node.scope->rt;
  tsr__error *error = &tray->error;
  *error = (tsr__error){ 0 };
  /* Where this fails nobody may claim slices that an earlier batch of other rows had. */
  tray->slices = tray->cut_rows == tray->rows ? tray->slices : 0;
  for (int c = 0; c < p->source->column_count && !error->status; c++) prepare_column(p, tray, c);
  if (!error->status && (p->args.remainder == TSR_PAD_AND_MASK || p->args.bad == TSR_BAD_MASK)) {
    tsr_shape shape = { .rank = 1, .dims = { tray->rows } };
    tsr__layout layout = { TSR_BOOL, &shape, &p->mask_on, NULL };
    tray->mask = tsr__value_new(rt, &layout, error);
  }
  if (!error->status && !cut_tray(p, tray))
    tsr__error_set(error, TSR_ENOMEM, "no memory for the slices of a batch");
  if (!error->status && p->args.ids) {
    tray->ids = tsr__new_raw(&rt->heap, (size_t)tray->rows * sizeof *tray->ids + 1);
    if (!tray->ids) tsr__error_set(error, TSR_ENOMEM, "no memory for the ids of a batch");
  }
}

void tsr__tray_prepare(tsr_pipeline *p, tsr__tray *tray)
{
  tray->ready = false;
  tray->began = tsr__now();
  reserve(p, tray);
  tray->failed = tray->error.status ? 0 : -1;
  tray->next = 0;
  tray->left = tray->error.status ? 0 : tray->slices;
}

/* ---- filling --------------------------------------------------------------------------------- */

/* The address of a row in a lot's staging buffer; NULL: the row does not lie there. */
static char *row_in_lot(const tsr__lot *lot, int64_t row, size_t bytes)
{
  char *memory = lot->staging.memory;
  if (!memory || row < lot->start || row >= lot->start + lot->rows) return NULL;
  return memory + (size_t)(row - lot->start) * bytes;
}

/* Where rows from `row` on go, and whether anybody here holds them. */
static bool aim(const tsr_pipeline *p, const tsr__tray *tray, int64_t row, tsr__cell *cells)
{
  bool here = false;
  for (int c = 0; c < p->source->column_count; c++) {
    size_t bytes = p->source->columns[c].bytes;
    const tsr__lot *lots = lots_of(p, tray, c);
    cells[c] = (tsr__cell){ NULL, bytes };
    if (tray->staged[c]) cells[c].data = tray->staged[c] + (size_t)row * bytes;
    for (int k = 0; k < p->placing[c].positions && !cells[c].data; k++)
      cells[c].data = row_in_lot(&lots[k], row, bytes);
    here = here || cells[c].data;
  }
  return here;
}

/* Replicas get what the first of them got. */
static void repeat_rows(const tsr_pipeline *p, const tsr__tray *tray, int64_t row, int64_t rows,
                        const tsr__cell *cells)
{
  /* What is read once is copied, rather than read again: in cache, it costs less than any source.
   * */
  for (int c = 0; c < p->source->column_count; c++) {
    size_t bytes = p->source->columns[c].bytes;
    const tsr__lot *lots = lots_of(p, tray, c);
    for (int k = 0; k < p->placing[c].positions && cells[c].data; k++) {
      char *to = row_in_lot(&lots[k], row, bytes);
      if (to && to != cells[c].data) memcpy(to, cells[c].data, (size_t)rows * bytes);
    }
  }
}

/* Rows beyond the records of the batch are zeros. */
static void pad_rows(const tsr_pipeline *p, const tsr__cell *cells, int64_t rows)
{
  for (int c = 0; c < p->source->column_count; c++)
    if (cells[c].data && cells[c].stride) /* none: the scratch of one record */
      memset(cells[c].data, 0, (size_t)rows * p->source->columns[c].bytes);
}

/* Asks the source for the records of rows `row` .. on, TSR__BLOCK at most. */
static tsr_status read_rows(tsr_pipeline *p, tsr__tray *tray, int64_t row,
                            const tsr__ask_rows *rows, tsr__error *error)
{
  int64_t at[TSR__BLOCK], inside = tray->first - tray->home;
  tsr__ask_rows ask = *rows;
  for (int64_t i = 0; i < ask.count; i++) {
    at[i] = inside + (tray->listed ? tray->list[row + i] : row + i);
    if (at[i] >= tray->around) at[i] %= tray->around; /* wrapped */
    at[i] += tray->home;
  }
  ask.at = at;
  if (tray->ids) tsr__records_ids(p->source, tray->epoch, at, ask.count, tray->ids + row);
  if (!ask.cells) return TSR_OK;
  if (tsr__records_read(p->source, &ask, error) && tsr__bad_forgives(p, error))
    tsr__bad_read_each(p, tray, row, &ask, error);
  return error->status;
}

/* Whether the mask of a row is here, where others than its device may be asked about the row. */
static bool mask_here(const tsr_pipeline *p, const tsr__tray *tray, int64_t row)
{
  for (int k = 0; tray->mask && k < tray->mask->part_count; k++) {
    tsr__span span = tsr__dim_span(&p->mask_on, 0, tray->rows, k);
    if (tray->mask->parts[k] && row >= span.start && row < span.start + span.length) return true;
  }
  return false;
}

/* Rows from `row` on, at most so many of one kind as stand together: records, or padding. */
static tsr_status fill_rows(tsr_pipeline *p, tsr__tray *tray, int64_t row, tsr__ask_rows *ask,
                            tsr__error *error)
{
  int64_t held = p->args.remainder == TSR_WRAP && !tray->listed ? tray->rows : tray->records;
  const tsr__cell *cells = ask->cells;
  if (row < held) {
    if (ask->count > held - row) ask->count = held - row;
    read_rows(p, tray, row, ask, error);
  } else {
    if (cells) pad_rows(p, cells, ask->count);
    for (int64_t i = 0; tray->ids && i < ask->count; i++) tray->ids[row + i] = -1;
  }
  if (!error->status && cells) repeat_rows(p, tray, row, ask->count, cells);
  return error->status;
}

/* Where processes share a row, a part of it could be read where another cannot: each that has any
 * of it, or its mask, reads all, what it has not to a scratch that is written over and over. */
tsr_status tsr__tray_fill(tsr_pipeline *p, tsr__tray *tray, int slice, tsr__doing *doing,
                          tsr__error *error)
{
  int64_t first = slice * tray->slice_rows, end = first + tray->slice_rows;
  tsr__cell cells[TSR__MAX_COLUMNS];
  bool whole = p->apart && p->args.bad != TSR_BAD_FAIL;
  size_t widest = p->widest + 1;
  tsr__heap *heap = &p->node.scope->rt->heap;
  char *spare = whole ? tsr__new_raw(heap, widest) : NULL;
  if (whole && !spare)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for a record of %zu bytes", widest);
  tsr__ask_rows ask = { .epoch = tray->epoch,
                        .pipeline = p,
                        .where = doing->where,
                        .meter = &doing->meter,
                        .progress = doing->progress,
                        .worker = doing->worker };
  int64_t begin = tsr__now();
  if (end > tray->rows) end = tray->rows;
  for (int64_t row = first; row < end && !error->status; row += ask.count) {
    int64_t edge = edge_behind(tray, row), most = (edge < end ? edge : end) - row;
    ask.count = most < TSR__BLOCK ? most : TSR__BLOCK;
    /* Rows that lie in other processes alone are not read here: each reads its own. */
    bool here = aim(p, tray, row, cells) || (whole && mask_here(p, tray, row));
    for (int c = 0; whole && here && c < p->source->column_count; c++)
      if (!cells[c].data) cells[c] = (tsr__cell){ spare, 0 };
    ask.cells = here ? cells : NULL;
    if (here || tray->ids) fill_rows(p, tray, row, &ask, error);
    if (ask.meter) doing->timed = tsr__now() - begin;
    ask.meter = NULL; /* of a slice the first block is timed */
    if (!error->status && tsr__records_stop(&ask))
      tsr__error_set(error, TSR_ECANCELLED, "the pipeline is being closed");
  }
  doing->filled = tsr__now() - begin;
  tsr__del(heap, spare, whole ? widest : 0);
  return error->status;
}

/* ---- finishing ------------------------------------------------------------------------------- */

/* The field from the host, where it has the dims `from`, to each device's box of it. */
static void spread(tsr__value *value, const void *data, const int64_t *from)
{
  for (int k = 0; k < value->part_count; k++) {
    tsr_box box;
    if (!value->parts[k]) continue;
    tsr__value_box(value, k, &box);
    tsr__box_copy copy = tsr__part_copy(value, &box);
    copy.from_dims = from;
    copy.from_start = box.start;
    tsr__devices_of(value->rt)->ops->from_host(&copy, data, value->parts[k]);
  }
}

static void finish_mask(tsr_pipeline *p, tsr__tray *tray)
{
  tsr__heap *heap = &p->node.scope->rt->heap;
  size_t rows = (size_t)tray->rows, records = (size_t)tray->records;
  char *bytes = tsr__new(heap, rows + 1);
  if (!bytes) {
    tsr__error_set(&tray->error, TSR_ENOMEM, "no memory for the mask of a batch");
    return;
  }
  memset(bytes, 1, records);
  for (int i = 0; p->args.bad == TSR_BAD_MASK && i < tray->fault_count; i++)
    bytes[tray->faults[i].row] = 0;
  spread(tray->mask, bytes, tray->mask->shape.dims);
  tsr__del(heap, bytes, rows + 1);
}

/* Ends the staging of a column: its shards are given to their devices, or dropped. */
static void end_staging(const tsr_pipeline *p, const tsr__tray *tray, int c, bool give)
{
  tsr__lot *lots = lots_of(p, tray, c);
  for (int k = 0; k < p->placing[c].positions; k++)
    if (give) tsr__staging_give(&lots[k].staging);
    else tsr__staging_drop(&lots[k].staging);
}

/* Fills a tray again without the records that are bad: where they are found out their rows have
 * places already. It is its last slices' filler that does, alone. */
static void fill_again(tsr_pipeline *p, tsr__tray *tray)
{
  tsr__error none = { 0 };
  tsr__doing doing = { .where = NULL };
  /* Records that move up into the batch may be bad as well; each turn leaves fewer to try. */
  int had = tray->fault_count;
  bool pads = p->args.remainder == TSR_PAD_AND_MASK;
  pthread_mutex_lock(&p->lock);
  tsr__tray_empty(p, tray);
  if (!tsr__bad_list(p, tray))
    tsr__error_set(&tray->error, TSR_ENOMEM, "no memory for the records of a batch");
  if (!tray->error.status) {
    tray->rows = pads ? tray->rows : tray->records;
    reserve(p, tray);
  }
  tray->next = tray->slices; /* nobody claims any */
  pthread_mutex_unlock(&p->lock);
  for (int i = 0; i < tray->slices && !tray->error.status; i++)
    if (tsr__tray_fill(p, tray, i, &doing, &none)) tray->error = none;
  if (!tray->error.status && tray->fault_count > had) fill_again(p, tray);
}

void tsr__tray_finish(tsr_pipeline *p, tsr__tray *tray)
{
  tsr__bad_sort(tray);
  if (tray->fault_count && p->args.bad == TSR_BAD_SKIP && !tray->error.status) fill_again(p, tray);
  for (int c = 0; c < p->source->column_count; c++) {
    end_staging(p, tray, c, !tray->error.status);
    if (!tray->staged[c] || tray->error.status) continue;
    tsr_shape shape = batch_shape(&p->source->columns[c], tray->rows);
    spread(tray->values[c], tray->staged[c], shape.dims);
  }
  if (tray->mask && !tray->error.status) finish_mask(p, tray);
}

void tsr__tray_empty(tsr_pipeline *p, tsr__tray *tray)
{
  tsr__heap *heap = &p->node.scope->rt->heap;
  for (int c = 0; c < p->source->column_count; c++) {
    end_staging(p, tray, c, false);
    tsr__value_release(tray->values[c]);
    tsr__del(heap, tray->staged[c], tray->staged_size[c]);
    tray->values[c] = NULL;
    tray->staged[c] = NULL;
  }
  tsr__value_release(tray->mask);
  tsr__del(heap, tray->ids, (size_t)tray->rows * sizeof *tray->ids + 1);
  tray->mask = NULL;
  tray->ids = NULL;
}
