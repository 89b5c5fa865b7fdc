/* Frames in a step: columns as arrays of rank 1.
 *
 *   frame "seen", column temp    seen:values:temp  f64[rows]     pieces are the rows of each device
 *                                seen:valid:temp   bool[rows]    where there are nulls
 *   column shop, of text         seen:values:shop  i32[rows]     codes: which text
 *                                seen:ends:shop    i64[n + 1]    text k ends at ends[k + 1]
 *                                seen:texts:shop   u8[...]
 *
 * Columns come and go through the Arrow C stream interface, as other libraries' do: what a frame is
 * made of is its own room's. What is shown there is held until it is written.
 *
 * Invariant: a column's entries follow each other, `values` first, in the order of the columns. */
#include "checkpoint/checkpoint_room.h"

static tsr_status no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "no memory to list a frame's columns");
}

/* The type of a column by what its format says. */
static tsr_coltype type_of(const struct ArrowSchema *column)
{
  if (column->dictionary) return TSR_COL_TEXT;
  if (!strcmp(column->format, "tdD")) return TSR_COL_DATE;
  if (!strncmp(column->format, "tsu:", 4)) return TSR_COL_TIME;
  TSR__FOR_DTYPES(dtype)
  if (!strcmp(column->format, tsr__dtype_info_of((tsr_dtype)dtype)->arrow))
    return (tsr_coltype)dtype;
  return (tsr_coltype)0;
}

tsr_dtype tsr__column_dtype(tsr_coltype type)
{
  return type == TSR_COL_DATE || type == TSR_COL_TEXT ? TSR_I32
         : type == TSR_COL_TIME                       ? TSR_I64
                                                      : (tsr_dtype)type;
}

/* Bits, from number `first` on, as bytes in the catalog's memory; `bits` NULL: all set. */
static const void *bytes_of(tsr__saving *s, const uint8_t *bits, int64_t first, int64_t count)
{
  uint8_t *out = tsr__arena_raw(&s->catalog.arena, (size_t)count + 1);
  for (int64_t i = 0; out && i < count; i++)
    out[i] = !bits || (bits[(first + i) / 8] >> (first + i) % 8 & 1);
  return out;
}

/* ---- one column ------------------------------------------------------------------------------ */

/* A column in all batches of a frame. */
typedef struct column {
  tsr__saving *s;
  const char *frame, *name;
  const tsr__shown_frame *from;
  int index;
  tsr_coltype type;
} column;

static const struct ArrowArray *batch_of(const column *c, int batch)
{
  return c->from->batch[batch].children[c->index];
}

static bool add_entry(const column *c, const char *what, tsr_dtype dtype, int64_t length)
{
  tsr__text name;
  tsr__listed *entry = tsr__catalog_entry(&c->s->catalog);
  if (!entry) return false;
  tsr__text_init(&name, &c->s->rt->heap);
  tsr__text_add(&name, "%s:%s:", c->frame, what);
  tsr__text_put(&name, c->name, strlen(c->name));
  entry->kind = TSR_SAVED_COLUMN;
  entry->dtype = (uint8_t)dtype;
  entry->shape = (tsr_shape){ .rank = 1, .dims = { length } };
  entry->spec = !strcmp(what, "values") ? tsr_coltype_name(c->type) : "";
  entry->name = name.failed ? NULL : tsr__arena_text(&c->s->catalog.arena, name.data, name.length);
  tsr__text_free(&name);
  return entry->name != NULL;
}

/* The rows of each batch, of one buffer of it: `at` 0 is validity, 1 values. */
static bool add_rows(const column *c, const char *what, tsr_dtype dtype, int at)
{
  int64_t row = 0, size = (int64_t)tsr_dtype_size(dtype);
  if (!add_entry(c, what, dtype, c->from->rows)) return false;
  for (int b = 0; b < c->from->batch_count && c->s->process == 0; b++) {
    const struct ArrowArray *array = batch_of(c, b);
    const char *data = array->buffers[at];
    tsr_box box = { .start = { row }, .size = { array->length } };
    if (!array->length) continue;
    const void *from = dtype == TSR_BOOL
                           ? bytes_of(c->s, array->buffers[at], array->offset, array->length)
                           : data + array->offset * size;
    if (!from || !tsr__saving_part(c->s, &box, from)) return false;
    row += array->length;
  }
  return c->from->rows || c->s->process || tsr__saving_part(c->s, &(tsr_box){ 0 }, "");
}

/* The texts of a dictionary, which all batches show. */
static bool add_texts(const column *c)
{
  static const int64_t none[1] = { 0 };
  const struct ArrowArray *texts = c->from->batch_count ? batch_of(c, 0)->dictionary : NULL;
  const int64_t *ends = texts && texts->length ? texts->buffers[1] : none;
  int64_t count = texts ? texts->length : 0, bytes = ends[count];
  const void *data = bytes ? texts->buffers[2] : "";
  tsr_box box = { .size = { count + 1 } }, byte_box = { .size = { bytes } };
  return add_entry(c, "ends", TSR_I64, count + 1) &&
         (c->s->process || tsr__saving_part(c->s, &box, ends)) &&
         add_entry(c, "texts", TSR_U8, bytes) &&
         (c->s->process || tsr__saving_part(c->s, &byte_box, data));
}

static bool add_column(const column *c)
{
  bool nulls = false;
  for (int b = 0; b < c->from->batch_count; b++)
    nulls = nulls || (batch_of(c, b)->null_count && batch_of(c, b)->buffers[0]);
  return add_rows(c, "values", tsr__column_dtype(c->type), 1) &&
         (!nulls || add_rows(c, "valid", TSR_BOOL, 0)) && (c->type != TSR_COL_TEXT || add_texts(c));
}

/* ---- frames ---------------------------------------------------------------------------------- */

void tsr__shown_free(tsr__heap *heap, tsr__shown_frame *shown)
{
  for (int b = 0; b < shown->batch_count; b++)
    if (shown->batch[b].release) shown->batch[b].release(&shown->batch[b]);
  if (shown->schema.release) shown->schema.release(&shown->schema);
  tsr__del(heap, shown->batch, shown->batch_room * sizeof *shown->batch);
}

/* All that the stream gives. */
static bool take_batches(tsr__heap *heap, struct ArrowArrayStream *stream, tsr__shown_frame *out)
{
  if (stream->get_schema(stream, &out->schema)) return false;
  for (;;) {
    if (!tsr__grow(heap, (void **)&out->batch, &out->batch_room, (size_t)out->batch_count + 1,
                   sizeof *out->batch))
      return false;
    struct ArrowArray *batch = &out->batch[out->batch_count];
    if (stream->get_next(stream, batch)) return false;
    if (!batch->release) return true;
    out->rows += batch->length;
    out->batch_count++;
  }
}

tsr_status tsr__saving_frame(tsr__saving *s, const tsr_frame_item *item, const tsr_scope *scope,
                             tsr__error *error)
{
  struct ArrowArrayStream stream = { 0 };
  if (!tsr__grow(&s->rt->heap, (void **)&s->shown, &s->shown_room, (size_t)s->shown_count + 1,
                 sizeof *s->shown))
    return no_memory(error);
  tsr_status status = tsr_frame_to_arrow_at(item->frame, &stream, NULL);
  if (status)
    return tsr__error_set(error, status, "frame '%s' cannot be evaluated: %s", item->name,
                          tsr_scope_status(scope) ? tsr_message(scope) : tsr_status_text(status));
  tsr__shown_frame *shown = &s->shown[s->shown_count++];
  *shown = (tsr__shown_frame){ 0 };
  bool good = take_batches(&s->rt->heap, &stream, shown);
  stream.release(&stream);
  for (int64_t i = 0; good && i < shown->schema.n_children; i++) {
    const struct ArrowSchema *field = shown->schema.children[i];
    column c = { s, item->name, field->name, shown, (int)i, type_of(field) };
    good = c.type && add_column(&c);
  }
  return good ? TSR_OK : no_memory(error);
}
