/* Frames as Arrow C streams.
 *
 *   stream --get_next--> batch (a device's rows)      each struct has a release of its own and
 *                          column   values, valid      owns references to the buffers it shows:
 *                            dictionary                consumer may keep any of them by itself
 *                          column   views, valid
 *                            bytes of the list of texts, as buffers
 *
 * Invariant: what a consumer holds stays as it is: buffers and dictionaries are immutable and live
 * until the last reference goes, the scope's end or not. */
#include "frame/out/out.h"

#include "io/arrow/arrow_views.h"
#include "tessera/arrow.h"

#include <errno.h>

static const char what[] = "tsr_frame_to_arrow";

/* ---- what a stream gives ------------------------------------------------------------------- */

typedef struct out_column {
  char *name;
  uint8_t type;
  bool views;      /* texts as views of bytes, else as codes */
  tsr__dict *dict; /* text: a reference */
} out_column;

typedef struct out_stream {
  tsr_runtime *rt;
  tsr_arrow_texts texts;
  int column_count;
  out_column *column;
  int batch_room, batch_count, next;
  struct ArrowArray *batch; /* those not given yet */
  const char *error;        /* static; of the last call */
} out_stream;

/* Frees what a consumer had. The runtime may have been closed long ago, and ends here. */
static void end_of(tsr_runtime *rt, void *own, size_t size)
{
  tsr__del(&rt->heap, own, size);
  tsr__runtime_let_go(rt);
}

/* ---- schemas --------------------------------------------------------------------------------- */

/* One block: a schema's private data with the pointers and structs of its children. */
typedef struct out_schema {
  tsr_runtime *rt; /* held, as consumers may let go after it closed */
  size_t size;
  struct ArrowSchema **pointer;
  struct ArrowSchema *child; /* its children, or its dictionary */
} out_schema;

/* Consumers may have moved children out and marked them as released: those that are left are
 * released with it. */
static void release_schema(struct ArrowSchema *schema)
{
  out_schema *own = schema->private_data;
  for (int64_t i = 0; i < schema->n_children; i++)
    if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
  if (schema->dictionary && schema->dictionary->release)
    schema->dictionary->release(schema->dictionary);
  schema->release = NULL;
  end_of(own->rt, own, own->size);
}

/* A schema with a copy of its name and room for children; false out of memory. */
static bool make_schema(tsr_runtime *rt, const char *format, const char *name, int children,
                        struct ArrowSchema *out)
{
  size_t length = strlen(name) + 1, room = (size_t)(children ? children : 1);
  size_t size = sizeof(out_schema) + room * (sizeof(void *) + sizeof *out) + length;
  out_schema *own = tsr__new(&rt->heap, size);
  *out = (struct ArrowSchema){ 0 };
  if (!own) return false;
  own->rt = rt;
  tsr__runtime_hold(rt);
  own->size = size;
  /* The block in order: the struct, pointers to children, children, the name. */
  own->pointer = (struct ArrowSchema **)(own + 1);
  own->child = (struct ArrowSchema *)(own->pointer + room);
  char *copy = memcpy(own->child + room, name, length);
  for (int i = 0; i < children; i++) own->pointer[i] = &own->child[i];
  *out = (struct ArrowSchema){ .format = format,
                               .name = copy,
                               .flags = ARROW_FLAG_NULLABLE,
                               .children = children ? own->pointer : NULL,
                               .release = release_schema,
                               .private_data = own };
  return true;
}

/* Codes of texts are i32, days and microseconds as they lie (tdD, tsu), so no value is converted.
 */
static const char *format_of(const out_column *column)
{
  switch (column->type) {
  case TSR_COL_DATE: return "tdD";
  case TSR_COL_TIME: return "tsu:UTC";
  case TSR_COL_TEXT: return column->views ? "vu" : "i";
  default: return tsr__dtype_info_of((tsr_dtype)column->type)->arrow;
  }
}

/* A column of codes (i) has a dictionary of texts with 64-bit offsets (U). */
static bool make_column_schema(tsr_runtime *rt, const out_column *column, struct ArrowSchema *out)
{
  if (!make_schema(rt, format_of(column), column->name, 0, out)) return false;
  if (column->type != TSR_COL_TEXT || column->views) return true;
  struct ArrowSchema *entries = ((out_schema *)out->private_data)->child;
  if (make_schema(rt, "U", "", 0, entries)) out->dictionary = entries;
  return out->dictionary != NULL;
}

/* Each call makes a new one, as the interface has it: the consumer owns what it is given. */
static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
  out_stream *own = stream->private_data;
  tsr_runtime *rt = own->rt;
  /* Out of memory unless all of it is made: the text is set first. */
  own->error = "out of memory";
  if (!make_schema(rt, "+s", "", own->column_count, out)) return ENOMEM;
  for (int i = 0; i < own->column_count; i++) {
    bool made = make_column_schema(rt, &own->column[i], out->children[i]);
    /* Children that were made must be released, those behind them not. */
    if (out->children[i]->release) out->n_children = i + 1;
    if (made) continue;
    release_schema(out);
    return ENOMEM;
  }
  own->error = NULL;
  return 0;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* One block: what an array shows and owns. */
typedef struct out_array {
  tsr_runtime *rt; /* held */
  size_t size;
  const tsr__device_ops *ops;
  tsr__buffer *held[2]; /* mapped */
  tsr__dict *dict;
  char *views; /* made for it, and the sizes of its buffers of texts */
  size_t views_size;
  const void **buffers;
  struct ArrowArray **pointer;
  struct ArrowArray *child; /* its children, or its dictionary */
} out_array;

/* A consumer may release on any thread, and after the runtime's scopes closed: buffers and
 * dictionaries count their references atomically, and the heap is the runtime's. */
static void release_array(struct ArrowArray *array)
{
  out_array *own = array->private_data;
  for (int64_t i = 0; i < array->n_children; i++)
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
  if (array->dictionary && array->dictionary->release)
    array->dictionary->release(array->dictionary);
  /* Each array gives back what it mapped and held itself. */
  for (int i = 0; i < 2; i++) {
    if (own->held[i]) own->ops->unmap(own->held[i]);
    tsr__buffer_release(own->held[i]);
  }
  tsr__dict_release(own->dict);
  tsr__del_once(&own->rt->heap, own->views, own->views_size);
  array->release = NULL;
  end_of(own->rt, own, own->size);
}

/* An array of `length` elements with room for children and buffers; false out of memory. A batch
 * has one buffer, its validity, which is left out; a column two, validity and values; texts three,
 * with offsets between, and views one more for each that their texts lie in. */
static bool make_array(tsr_runtime *rt, int64_t length, int children, int64_t buffers,
                       struct ArrowArray *out)
{
  size_t room = (size_t)(children ? children : 1);
  size_t size =
      sizeof(out_array) + room * (sizeof(void *) + sizeof *out) + (size_t)buffers * sizeof(void *);
  out_array *own = tsr__new(&rt->heap, size);
  *out = (struct ArrowArray){ 0 };
  if (!own) return false;
  /* As that of a schema, with buffers where its name is. */
  own->rt = rt;
  tsr__runtime_hold(rt);
  own->size = size;
  own->pointer = (struct ArrowArray **)(own + 1);
  own->child = (struct ArrowArray *)(own->pointer + room);
  own->buffers = (const void **)(own->child + room);
  for (int i = 0; i < children; i++) own->pointer[i] = &own->child[i];
  *out = (struct ArrowArray){ .length = length,
                              .n_buffers = buffers,
                              .buffers = own->buffers,
                              .children = children ? own->pointer : NULL,
                              .release = release_array,
                              .private_data = own };
  return true;
}

/* The texts of a column. Each batch shows the same dictionary and holds it, so that one may outlive
 * the others. */
static bool make_entries(tsr_runtime *rt, tsr__dict *dict, struct ArrowArray *column)
{
  struct ArrowArray *entries = ((out_array *)column->private_data)->child;
  if (!make_array(rt, dict->count, 0, 3, entries)) return false;
  out_array *own = entries->private_data;
  own->dict = tsr__dict_hold(dict);
  own->buffers[1] = dict->offsets;
  own->buffers[2] = dict->bytes;
  column->dictionary = entries;
  return true;
}

/* Shows a device's piece of a value as buffer `i` of an array. */
static void show_buffer(out_array *own, int i, const tsr__value *value, int position)
{
  own->ops = tsr__devices_of(value->rt)->ops;
  own->held[i] = value->parts[position];
  tsr__buffer_hold(own->held[i]);
  own->buffers[i] = tsr__value_map(value, position);
}

/* Rows of a device. */
typedef struct out_piece {
  int position;
  int64_t rows;
  struct ArrowArray *out;
  tsr__error *error; /* set where it is not a lack of memory */
} out_piece;

/* Shows a device's validity of a column. A bitmap is left out where all rows are valid, as the
 * interface allows. */
static void show_validity(const tsr__col *col, int position, struct ArrowArray *out)
{
  if (!col->valid) return;
  out->null_count = out->length - tsr__value_true(col->valid->value, position);
  if (out->null_count) show_buffer(out->private_data, 0, col->valid->value, position);
}

/* Room for views and, behind them, the sizes of as many buffers of texts. */
static bool make_views(tsr_runtime *rt, int64_t rows, int64_t buffers, struct ArrowArray *out)
{
  size_t size = (size_t)rows * TSR__ARROW_VIEW + (size_t)(buffers + 1) * sizeof(int64_t);
  if (!make_array(rt, rows, 0, buffers + 3, out)) return false;
  out_array *own = out->private_data;
  own->views_size = tsr__whole_pages(size);
  own->views = tsr__new_once(&rt->heap, own->views_size);
  own->buffers[1] = own->views;
  return own->views;
}

/* The list's bytes, which views show; where all texts stand in their views, none of them. */
static void show_texts(const out_column *column, int64_t buffers, bool outside,
                       struct ArrowArray *out)
{
  out_array *own = out->private_data;
  int64_t *sizes = (int64_t *)(void *)(own->views + out->length * TSR__ARROW_VIEW);
  if (!outside) buffers = 0;
  else own->dict = tsr__dict_hold(column->dict);
  for (int64_t i = 0; i < buffers; i++) {
    tsr__text_span texts = tsr__arrow_text_buffer(column->dict, TSR__ARROW_SHIFT, i);
    own->buffers[2 + i] = texts.at;
    sizes[i] = (int64_t)texts.length;
  }
  own->buffers[2 + buffers] = sizes;
  out->n_buffers = 3 + buffers;
}

/* Codes are looked at once and given back: a consumer of views has no use for them. */
static bool make_text_views(const out_column *column, const tsr__col *col, out_piece *piece)
{
  const tsr__value *values = col->values->value;
  int64_t buffers = tsr__arrow_text_buffers(column->dict, TSR__ARROW_SHIFT);
  struct ArrowArray *out = piece->out;
  tsr__arrow_seen seen = { 0 };
  if (!make_views(values->rt, piece->rows, buffers, out)) return false;
  show_validity(col, piece->position, out);
  out_array *own = out->private_data;
  tsr__arrow_rows rows = { .dict = column->dict,
                           .codes = tsr__value_map(values, piece->position),
                           .valid = own->buffers[0],
                           .count = piece->rows,
                           .shift = TSR__ARROW_SHIFT };
  bool done = tsr__arrow_views(values->rt, what, &rows, own->views, &seen);
  tsr__devices_of(values->rt)->ops->unmap(values->parts[piece->position]);
  if (!done) return !tsr__cancelled(piece->error, what);
  if (seen.too_long)
    tsr__error_set(piece->error, TSR_EUNSUPPORTED,
                   "%s: column '%.60s' holds a text of %lld bytes, expected 2147483647 at most for "
                   "a view; ask for .texts = TSR_ARROW_DICTIONARY",
                   what, column->name, (long long)seen.too_long);
  show_texts(column, buffers, seen.outside, out);
  return !seen.too_long;
}

/* A device's rows of one column; the buffers are shared. */
static bool make_column(const out_column *column, const tsr__col *col, out_piece *piece)
{
  const tsr__value *values = col->values->value;
  tsr_runtime *rt = values->rt;
  if (column->views) return make_text_views(column, col, piece);
  if (!make_array(rt, piece->rows, 0, 2, piece->out)) return false;
  show_buffer(piece->out->private_data, 1, values, piece->position);
  show_validity(col, piece->position, piece->out);
  return column->type != TSR_COL_TEXT || make_entries(rt, column->dict, piece->out);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
  out_stream *own = stream->private_data;
  own->error = NULL;
  *out = (struct ArrowArray){ 0 };
  /* The end of the stream is an array that is released already. */
  if (own->next == own->batch_count) return 0;
  *out = own->batch[own->next];
  /* Moved to the consumer, who releases it: ours is marked as gone. */
  own->batch[own->next++].release = NULL;
  return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
  return ((out_stream *)stream->private_data)->error;
}

/* Lets go of a stream and what it has not given yet; of one that is half made, of what there is. */
static void free_stream(out_stream *own)
{
  tsr_runtime *rt = own->rt;
  tsr__heap *heap = &rt->heap;
  for (int b = 0; own->batch && b < own->batch_count; b++)
    if (own->batch[b].release) own->batch[b].release(&own->batch[b]);
  for (int i = 0; own->column && i < own->column_count; i++) {
    if (own->column[i].name) tsr__del(heap, own->column[i].name, strlen(own->column[i].name) + 1);
    tsr__dict_release(own->column[i].dict);
  }
  tsr__del(heap, own->batch, (size_t)own->batch_room * sizeof *own->batch);
  tsr__del(heap, own->column, (size_t)own->column_count * sizeof *own->column);
  end_of(rt, own, sizeof *own);
}

static void release_stream(struct ArrowArrayStream *stream)
{
  free_stream(stream->private_data);
  stream->release = NULL;
}

/* ---- making one ------------------------------------------------------------------------------ */

/* Names are copied and dictionaries held, since the frame's scope may close before the stream. */
static bool take_columns(out_stream *own, const tsr_frame *df, const tsr__col *col)
{
  tsr__heap *heap = &own->rt->heap;
  for (int i = 0; i < own->column_count; i++) {
    const char *name = df->schema.field[i].name;
    size_t length = strlen(name) + 1;
    own->column[i].type = (uint8_t)tsr__shard_type(df->schema.field[i].type);
    own->column[i].name = tsr__new(heap, length);
    if (!own->column[i].name) return false;
    memcpy(own->column[i].name, name, length);
    if (own->column[i].type != TSR_COL_TEXT) continue;
    /* A column of nulls may have no dictionary: it gets an empty one. */
    own->column[i].dict = col[i].dict ? tsr__dict_hold(col[i].dict) : tsr__dict_new(heap, 0, 0);
    if (!own->column[i].dict) return false;
    own->column[i].views = own->texts == TSR_ARROW_VIEWS ||
                           (own->texts == TSR_ARROW_AS_HELD && own->column[i].dict->repeats);
  }
  return true;
}

/* A batch of a position's rows. */
static bool make_batch(const out_stream *own, const tsr__col *col, const out_piece *piece)
{
  struct ArrowArray *out = piece->out;
  if (!make_array(own->rt, piece->rows, own->column_count, 1, out)) return false;
  for (int i = 0; i < own->column_count; i++) {
    out_piece one = *piece;
    one.out = out->children[i];
    bool made = make_column(&own->column[i], &col[i], &one);
    /* As in get_schema: what was made is released with the batch. */
    if (one.out->release) out->n_children = i + 1;
    if (!made) return false;
  }
  return true;
}

/* Batches in order of their rows, those of replicas once.
 *
 *   device 0 rows 0-2    device 1 rows 3-5, device 2 a replica of it    device 3 rows 6-7
 *   batches  0-2         3-5                                            6-7
 *
 * A part is found by where it begins, so order of devices and order of rows need not be one. */
static bool take_batches(out_stream *own, const tsr__col *col, tsr__error *error)
{
  const tsr__value *first = col[0].values->value;
  tsr_box box;
  for (int64_t at = 0;;) {
    int found = -1;
    for (int p = 0; p < first->part_count && found < 0; p++) {
      /* Devices without rows give no batch; replicas begin at the same row and are met once. */
      tsr__value_box(first, p, &box);
      if (first->parts[p] && box.start[0] == at && box.size[0]) found = p;
    }
    if (found < 0) return true;
    out_piece piece = { found, box.size[0], &own->batch[own->batch_count++], error };
    if (!make_batch(own, col, &piece)) return false;
    at += box.size[0];
  }
}

/* A stream that is half made is freed as a whole one is: lists that are not there are NULL. */
static tsr_status make_stream(tsr__bind *bind, const tsr__bound *bound, tsr_arrow_texts texts,
                              out_stream **out)
{
  tsr_runtime *rt = bind->scope->rt;
  tsr__heap *heap = &rt->heap;
  /* Rows of other processes cannot be shown. */
  if (tsr__value_here(bound->col[0].values->value, bind->what, &bind->error))
    return bind->error.status;
  out_stream *own = tsr__new(heap, sizeof *own);
  if (own) {
    own->rt = rt;
    tsr__runtime_hold(rt);
    own->texts = texts;
    own->column_count = bound->count;
    own->column = tsr__new(heap, (size_t)bound->count * sizeof *own->column);
    own->batch_room = bound->col[0].values->value->part_count;
    own->batch = tsr__new(heap, (size_t)own->batch_room * sizeof *own->batch);
    bool made = own->column && own->batch && take_columns(own, bind->top, bound->col) &&
                take_batches(own, bound->col, &bind->error);
    if (made) {
      *out = own;
      return TSR_OK;
    }
    free_stream(own);
  }
  if (bind->error.status) return bind->error.status;
  return tsr__error_set(&bind->error, TSR_ENOMEM, "%s: out of memory", what);
}

static tsr_status take_options(tsr__bind *bind, const struct ArrowArrayStream *out,
                               const tsr_arrow_out_opts *opts, tsr_arrow_texts *texts)
{
  tsr_arrow_out_opts all = { 0 };
  if (!out)
    return tsr__error_set(&bind->error, TSR_EARG, "%s: `out` is NULL; give the address of a stream",
                          what);
  if (tsr__take_opts(what, opts, &all, sizeof all, &bind->error)) return bind->error.status;
  if ((unsigned)all.texts > TSR_ARROW_VIEWS)
    return tsr__error_set(&bind->error, TSR_EARG,
                          "%s: .texts is %d, expected a value of tsr_arrow_texts", what,
                          (int)all.texts);
  *texts = all.texts;
  return TSR_OK;
}

tsr_status tsr_frame_to_arrow_with(tsr_frame *df, struct ArrowArrayStream *out,
                                   const tsr_arrow_out_opts *opts, const char *site)
{
  tsr__bind bind;
  tsr__bound bound;
  tsr_arrow_texts texts = TSR_ARROW_AS_HELD;
  out_stream *own = NULL;
  tsr_status status = tsr__bind_open(&bind, df, what, site);
  if (status) return status;
  /* Equal texts have equal codes in a dictionary alone. */
  (void)take_options(&bind, out, opts, &texts);
  if (!(status = tsr__bind_meet(&bind)) &&
      !(status = tsr__collect_shards(&bind, texts == TSR_ARROW_DICTIONARY, &bound)))
    make_stream(&bind, &bound, texts, &own);
  /* Closing may fail, too: the stream is given only when nothing did. */
  tsr_status closed = tsr__bind_close(&bind);
  if (closed) status = closed;
  if (status && own) free_stream(own);
  if (status) return status;
  *out = (struct ArrowArrayStream){ get_schema, get_next, get_last_error, release_stream, own };
  return TSR_OK;
}
