/* Where the rows of a batch go: straight into the devices' memory where a device's row is a
 * record's bytes, and by way of the host where it is not (bools, which are bits there, and fields
 * whose other dims are cut).
 *
 *   rows   0        3        6     8      10 rows of a field over data=4
 *   slices |--|-----|--|-----|-----|--|   cut where any field's shard ends, and not too long
 *
 * Invariant: a slice lies in one shard of each field, so its rows are `stride` apart there. */
#include <stdlib.h>

#include "pipeline/pipeline_room.h"

enum { SLICE = 1 << 18 }; /* bytes of a slice: enough to be worth a claim */

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

static tsr_status place_column(tsr_pipeline *p, const tsr_pipeline_args *args, int c,
                               tsr__error *error)
{
  const tsr__column *column = &p->source->columns[c];
  const tsr_sharding *on = asked_for(args, column->name);
  tsr__placing *placing = &p->placing[c];
  tsr_shape shape = batch_shape(column, args->batch_size);
  tsr__error cause = { 0 };
  if (on->unreduced || on->open)
    return tsr__error_set(error, TSR_EARG,
                          "field %.80s: a spec with '?' or ';sum'; say where its "
                          "rows lie",
                          column->name);
  if (tsr__shape_check(&shape, &cause) ||
      tsr__check_place(p->node.scope, on, column->dtype, &shape, &cause))
    return tsr__error_set(error, cause.status, "field %.80s: %s", column->name, cause.text);
  placing->on = tsr__sharding_canon(on);
  placing->positions = tsr__positions(&placing->on);
  placing->direct = column->dtype != TSR_BOOL;
  for (int d = 1; d < shape.rank; d++)
    if (tsr__dim_parts(&placing->on, d) > 1) placing->direct = false;
  if (placing->positions > p->most_positions) p->most_positions = placing->positions;
  return TSR_OK;
}

tsr_status tsr__place_columns(tsr_pipeline *p, const tsr_pipeline_args *args, tsr__error *error)
{
  const tsr_source *source = p->source;
  p->placing =
      tsr__arena_new(&p->node.scope->arena, (size_t)source->column_count * sizeof *p->placing);
  if (!p->placing) return tsr__error_set(error, TSR_ENOMEM, "no memory for a pipeline");
  for (int i = 0; i < TSR_MAX_FIELDS && args->fields[i].name; i++)
    if (tsr__column_find(source->columns, source->column_count, args->fields[i].name) < 0)
      return tsr__error_set(error, TSR_EARG, ".fields names '%.80s', which the source has not",
                            args->fields[i].name);
  for (int c = 0; c < source->column_count && !error->status; c++) place_column(p, args, c, error);
  p->mask_on = rows_of(&args->on);
  if (!error->status) p->mask_on = tsr__sharding_canon(&p->mask_on);
  return error->status;
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

static int64_t rows_of_slice(const tsr_source *source)
{
  size_t bytes = 1;
  for (int c = 0; c < source->column_count; c++) bytes += source->columns[c].bytes;
  int64_t rows = SLICE / (int64_t)bytes;
  return rows < 1 ? 1 : rows;
}

/* The borders of all shards, then pieces of them. */
static bool cut_tray(tsr_pipeline *p, tsr__tray *tray)
{
  const tsr_source *source = p->source;
  int64_t most = rows_of_slice(source), rows = tray->rows;
  size_t borders = (size_t)(source->column_count * p->most_positions) + 2;
  size_t need = 2 * borders + (size_t)(rows / most) + 2;
  int count = 0;
  if (tray->cut_rows == rows && tray->cuts) return true;
  if (!tsr__grow(&p->node.scope->rt->heap, (void **)&tray->cuts, &tray->cut_room, need,
                 sizeof *tray->cuts))
    return false;
  int64_t *border = tray->cuts + (need - borders); /* behind what is made of them */
  for (int c = 0; c < source->column_count; c++)
    for (int k = 0; k < p->placing[c].positions; k++)
      border[count++] = tsr__dim_span(&p->placing[c].on, 0, rows, k).start;
  border[count++] = 0;
  border[count++] = rows;
  count = sort_once(border, count);
  tray->slices = 0;
  for (int i = 0; i + 1 < count; i++)
    for (int64_t at = border[i], end = border[i + 1]; at < end; at += most)
      tray->cuts[tray->slices++] = at;
  tray->cuts[tray->slices] = rows;
  tray->cut_rows = rows;
  return true;
}

/* ---- preparing ------------------------------------------------------------------------------- */

static tsr__lot *lots_of(const tsr_pipeline *p, const tsr__tray *tray, int c)
{
  return tray->lots + (size_t)c * (size_t)p->most_positions;
}

static tsr_status prepare_column(tsr_pipeline *p, tsr__tray *tray, int c)
{
  tsr_runtime *rt = p->node.scope->rt;
  const tsr__placing *placing = &p->placing[c];
  tsr_shape shape = batch_shape(&p->source->columns[c], tray->rows);
  tsr__layout layout = { p->source->columns[c].dtype, &shape, &placing->on, NULL };
  tsr__value *value = tray->values[c] = tsr__value_new(rt, &layout, &tray->error);
  if (!value) return tray->error.status;
  tsr__lot *lots = lots_of(p, tray, c);
  for (int k = 0; k < placing->positions; k++) {
    tsr__span span = tsr__dim_span(&placing->on, 0, tray->rows, k);
    lots[k].start = span.start;
    lots[k].rows = span.length;
    lots[k].memory = placing->direct ? tsr__value_map(value, k) : NULL;
  }
  if (placing->direct) return TSR_OK;
  tray->staged_size[c] = (size_t)tray->rows * p->source->columns[c].bytes + 1;
  tray->staged[c] = tsr__new_raw(&rt->heap, tray->staged_size[c]);
  if (tray->staged[c]) return TSR_OK;
  return tsr__error_set(&tray->error, TSR_ENOMEM, "no memory for %zu bytes of field %s",
                        tray->staged_size[c], p->source->columns[c].name);
}

void tsr__tray_prepare(tsr_pipeline *p, tsr__tray *tray)
{
  tsr_runtime *rt = p->node.scope->rt;
  tsr__error *error = &tray->error;
  *error = (tsr__error){ 0 };
  tray->slices = tray->cut_rows == tray->rows ? tray->slices : 0;
  tray->ready = false;
  tray->failed = -1;
  tray->began = tsr__now();
  for (int c = 0; c < p->source->column_count && !error->status; c++) prepare_column(p, tray, c);
  if (!error->status && p->args.remainder == TSR_PAD_AND_MASK) {
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
  if (error->status) tray->failed = 0;
  tray->next = 0;
  tray->left = error->status ? 0 : tray->slices;
}

/* ---- filling --------------------------------------------------------------------------------- */

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
      if (lots[k].memory && row >= lots[k].start && row < lots[k].start + lots[k].rows)
        cells[c].data = lots[k].memory + (size_t)(row - lots[k].start) * bytes;
    here = here || cells[c].data;
  }
  return here;
}

/* Replicas get what the first of them got. */
static void repeat_rows(const tsr_pipeline *p, const tsr__tray *tray, int64_t row, int64_t rows,
                        const tsr__cell *cells)
{
  for (int c = 0; c < p->source->column_count; c++) {
    size_t bytes = p->source->columns[c].bytes;
    const tsr__lot *lots = lots_of(p, tray, c);
    for (int k = 0; k < p->placing[c].positions && cells[c].data; k++) {
      if (!lots[k].memory || row < lots[k].start || row >= lots[k].start + lots[k].rows) continue;
      char *to = lots[k].memory + (size_t)(row - lots[k].start) * bytes;
      if (to != cells[c].data) memcpy(to, cells[c].data, (size_t)rows * bytes);
    }
  }
}

/* Rows beyond the records of the batch are zeros. */
static void pad_rows(const tsr_pipeline *p, const tsr__cell *cells, int64_t rows)
{
  for (int c = 0; c < p->source->column_count; c++)
    if (cells[c].data) memset(cells[c].data, 0, (size_t)rows * p->source->columns[c].bytes);
}

/* Asks the source for the records of rows `row` .. on, TSR__BLOCK at most. */
static tsr_status read_rows(tsr_pipeline *p, tsr__tray *tray, int64_t row, tsr__ask_rows *ask,
                            tsr__error *error)
{
  int64_t at[TSR__BLOCK], count = p->source->count;
  for (int64_t i = 0; i < ask->count; i++) {
    at[i] = tray->first + row + i;
    if (at[i] >= count) at[i] %= count; /* wrapped */
  }
  ask->at = at;
  if (tray->ids) tsr__records_ids(p->source, tray->epoch, at, ask->count, tray->ids + row);
  return tsr__records_read(p->source, ask, error);
}

tsr_status tsr__tray_fill(tsr_pipeline *p, tsr__tray *tray, int slice, tsr__where *where,
                          tsr__error *error)
{
  int64_t end = tray->cuts[slice + 1], held = p->args.remainder == TSR_WRAP ? end : tray->records;
  tsr__cell cells[TSR_MAX_FIELDS];
  for (int64_t row = tray->cuts[slice], n; row < end && !error->status; row += n) {
    n = end - row < TSR__BLOCK ? end - row : TSR__BLOCK;
    if (!aim(p, tray, row, cells) && !tray->ids) continue;
    if (row < held) {
      if (n > held - row) n = held - row;
      tsr__ask_rows ask = {
        .epoch = tray->epoch, .count = n, .cells = cells, .pipeline = p, .where = where
      };
      read_rows(p, tray, row, &ask, error);
    } else {
      pad_rows(p, cells, n);
      for (int64_t i = 0; tray->ids && i < n; i++) tray->ids[row + i] = -1;
    }
    if (!error->status) repeat_rows(p, tray, row, n, cells);
  }
  return error->status;
}

/* ---- finishing ------------------------------------------------------------------------------- */

/* The whole field from the host to each device's box of it. */
static void spread(tsr__value *value, const void *data)
{
  for (int k = 0; k < value->part_count; k++) {
    tsr_box box;
    if (!value->parts[k]) continue;
    tsr__value_box(value, k, &box);
    tsr__box_copy copy = tsr__part_copy(value, &box);
    copy.from_dims = value->shape.dims;
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
  spread(tray->mask, bytes);
  tsr__del(heap, bytes, rows + 1);
}

void tsr__tray_finish(tsr_pipeline *p, tsr__tray *tray)
{
  for (int c = 0; c < p->source->column_count; c++) {
    if (!tray->values[c]) continue;
    for (int k = 0; k < p->placing[c].positions; k++)
      if (lots_of(p, tray, c)[k].memory) tsr__value_unmap(tray->values[c], k);
    if (tray->staged[c] && !tray->error.status) spread(tray->values[c], tray->staged[c]);
  }
  if (tray->mask && !tray->error.status) finish_mask(p, tray);
}

void tsr__tray_empty(tsr_pipeline *p, tsr__tray *tray)
{
  tsr__heap *heap = &p->node.scope->rt->heap;
  for (int c = 0; c < p->source->column_count; c++) {
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
