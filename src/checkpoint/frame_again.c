/* Frames read from a step: its columns as one batch of an Arrow C stream, which becomes a frame as
 * any other stream does.
 *
 *   entries --read--> buffers | values | valid | ends | texts |     bools become bits in place
 *                                  ^ the stream, its schema, the batch and their children show them
 *
 * Invariant: the block lives as long as anything that shows it; each of them is a reference. */
#include "checkpoint/checkpoint_room.h"

/* A column: what of it is where. The texts of a column are a child of it that is no column. */
typedef struct again_column {
  const tsr__listed *values, *valid, *ends, *texts;
  char *buffer[4]; /* in that order; NULL: there is none */
  const char *name;
  tsr_coltype type;
  const void *shown[3], *shown_texts[3];
  struct ArrowSchema schema, texts_schema;
  struct ArrowArray array, texts_array;
} again_column;

typedef struct again {
  tsr__heap *heap;
  _Atomic int refs;
  int count;
  int64_t rows;
  size_t size;
  bool given;
  const void *none[1];
  struct ArrowSchema **schemas;
  struct ArrowArray **arrays;
  again_column *column; /* [count], behind the block */
} again;

static const tsr__listed *entry_at(const again_column *c, int which)
{
  return which == 0 ? c->values : which == 1 ? c->valid : which == 2 ? c->ends : c->texts;
}

static size_t bytes_at(const again_column *c, int which)
{
  const tsr__listed *entry = entry_at(c, which);
  return (size_t)entry->shape.dims[0] * tsr_dtype_size((tsr_dtype)entry->dtype) + 1;
}

static void drop(again *a)
{
  if (atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1) return;
  for (int i = 0; i < a->count; i++)
    for (int which = 0; which < 4; which++)
      if (a->column[i].buffer[which])
        tsr__del(a->heap, a->column[i].buffer[which], bytes_at(&a->column[i], which));
  tsr__del(a->heap, a, a->size);
}

static again *hold(again *a)
{
  atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
  return a;
}

/* ---- the interface --------------------------------------------------------------------------- */

static void release_schema(struct ArrowSchema *schema)
{
  for (int64_t i = 0; i < schema->n_children; i++)
    if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
  if (schema->dictionary && schema->dictionary->release)
    schema->dictionary->release(schema->dictionary);
  schema->release = NULL;
  drop(schema->private_data);
}

static void release_array(struct ArrowArray *array)
{
  for (int64_t i = 0; i < array->n_children; i++)
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
  if (array->dictionary && array->dictionary->release)
    array->dictionary->release(array->dictionary);
  array->release = NULL;
  drop(array->private_data);
}

static struct ArrowSchema new_schema(again *a, const char *format, const char *name)
{
  return (struct ArrowSchema){ .format = format,
                               .name = name,
                               .flags = ARROW_FLAG_NULLABLE,
                               .release = release_schema,
                               .private_data = hold(a) };
}

static const char *format_of(tsr_coltype type)
{
  return type == TSR_COL_DATE   ? "tdD"
         : type == TSR_COL_TIME ? "tsu:UTC"
         : type == TSR_COL_TEXT ? "i"
                                : tsr__dtype_info_of((tsr_dtype)type)->arrow;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
  again *a = stream->private_data;
  for (int i = 0; i < a->count; i++) {
    again_column *c = &a->column[i];
    c->schema = new_schema(a, format_of(c->type), c->name);
    if (c->type == TSR_COL_TEXT) {
      c->texts_schema = new_schema(a, "U", "");
      c->schema.dictionary = &c->texts_schema;
    }
    a->schemas[i] = &c->schema;
  }
  *out = new_schema(a, "+s", "");
  out->n_children = a->count;
  out->children = a->schemas;
  return 0;
}

static struct ArrowArray new_array(again *a, int64_t length, int64_t buffers, const void **shown)
{
  return (struct ArrowArray){ .length = length,
                              .n_buffers = buffers,
                              .buffers = shown,
                              .release = release_array,
                              .private_data = hold(a) };
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
  again *a = stream->private_data;
  *out = (struct ArrowArray){ 0 };
  if (a->given) return 0;
  a->given = true;
  for (int i = 0; i < a->count; i++) {
    again_column *c = &a->column[i];
    c->array = new_array(a, a->rows, 2, c->shown);
    c->array.null_count = c->valid ? -1 : 0;
    c->shown[0] = c->buffer[1];
    c->shown[1] = c->buffer[0];
    if (c->type == TSR_COL_TEXT) {
      c->texts_array = new_array(a, c->ends->shape.dims[0] - 1, 3, c->shown_texts);
      c->shown_texts[1] = c->buffer[2];
      c->shown_texts[2] = c->buffer[3];
      c->array.dictionary = &c->texts_array;
    }
    a->arrays[i] = &c->array;
  }
  *out = new_array(a, a->rows, 1, a->none);
  out->n_children = a->count;
  out->children = a->arrays;
  return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
  (void)stream;
  return NULL;
}

static void release_stream(struct ArrowArrayStream *stream)
{
  drop(stream->private_data);
  stream->release = NULL;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* What stands behind "frame:what:" in an entry's name; NULL: it is none of those. */
static const char *column_name(const tsr__listed *entry, const char *frame, const char *what)
{
  size_t length = strlen(frame), more = strlen(what);
  const char *name = entry->name;
  bool own = entry->kind == TSR_SAVED_COLUMN && !strncmp(name, frame, length) &&
             name[length] == ':' && !strncmp(name + length + 1, what, more) &&
             name[length + 1 + more] == ':';
  return own ? name + length + more + 2 : NULL;
}

static tsr_coltype type_named(const char *name)
{
  TSR__FOR_DTYPES(dtype)
  if (!strcmp(name, tsr_coltype_name((tsr_coltype)dtype))) return (tsr_coltype)dtype;
  for (int type = TSR_COL_DATE; type <= TSR_COL_TEXT; type++)
    if (!strcmp(name, tsr_coltype_name((tsr_coltype)type))) return (tsr_coltype)type;
  return (tsr_coltype)0;
}

static int count_columns(const tsr__catalog *c, const char *frame)
{
  int count = 0;
  for (size_t i = 0; i < c->entries; i++)
    count += column_name(&c->entry[i], frame, "values") != NULL;
  return count;
}

/* Whether what was saved of a column fits together. */
static bool is_good(const again *a, const again_column *c)
{
  const tsr__listed *valid = c->valid;
  bool text = c->type == TSR_COL_TEXT;
  if (!c->type || c->values->dtype != tsr__column_dtype(c->type)) return false;
  if (c->values->shape.dims[0] != a->rows) return false;
  if (valid && (valid->dtype != TSR_BOOL || valid->shape.dims[0] != a->rows)) return false;
  if (!text) return !c->ends && !c->texts;
  if (!c->ends || !c->texts || c->ends->shape.dims[0] < 1) return false;
  if (c->texts->dtype != TSR_U8) return false;
  return c->ends->dtype == TSR_I64;
}

/* Columns in their order, each with what follows it. */
static tsr_status find_columns(again *a, const tsr__catalog *catalog, const char *frame,
                               tsr__error *error)
{
  again_column *c = a->column - 1;
  for (size_t i = 0; i < catalog->entries; i++) {
    const tsr__listed *entry = &catalog->entry[i];
    const char *name = column_name(entry, frame, "values");
    if (name) {
      *++c = (again_column){ .values = entry, .name = name, .type = type_named(entry->spec) };
      if (c == a->column) a->rows = entry->shape.dims[0];
    }
    if (c < a->column) continue;
    name = column_name(entry, frame, "valid");
    if (name && !strcmp(name, c->name)) c->valid = entry;
    name = column_name(entry, frame, "ends");
    if (name && !strcmp(name, c->name)) c->ends = entry;
    name = column_name(entry, frame, "texts");
    if (name && !strcmp(name, c->name)) c->texts = entry;
  }
  for (int i = 0; i < a->count; i++)
    if (!is_good(a, &a->column[i]))
      return tsr__error_set(error, TSR_EPARSE, "the columns of frame '%s' do not fit together",
                            frame);
  return TSR_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A byte an element to a bit each, from the front on: what is written was read before. */
static void pack_bits(char *bytes, int64_t count)
{
  for (int64_t i = 0; i < count; i += 8) {
    unsigned bits = 0;
    for (int64_t k = i; k < count && k < i + 8; k++) bits |= (bytes[k] != 0 ? 1u : 0u) << (k - i);
    bytes[i / 8] = (char)bits;
  }
}

static tsr_status read_columns(again *a, const tsr_saved_step *step, tsr__error *error)
{
  size_t room = (size_t)a->count * 4;
  tsr__restoring *target = tsr__new(a->heap, (room + 1) * sizeof *target);
  tsr__restore_ask ask = {
    .rt = step->rt, .catalog = &step->catalog, .folder = step->folder, .target = target
  };
  bool good = target != NULL;
  for (int i = 0; i < a->count && good; i++)
    for (int which = 0; which < 4 && good; which++) {
      again_column *c = &a->column[i];
      if (!entry_at(c, which)) continue;
      c->buffer[which] = tsr__new_raw(a->heap, bytes_at(c, which));
      good = c->buffer[which] != NULL;
      target[ask.count++] =
          (tsr__restoring){ .entry = entry_at(c, which), .data = c->buffer[which] };
    }
  if (!good) tsr__error_set(error, TSR_ENOMEM, "no memory to read a frame's columns");
  else tsr__restore(&ask, error);
  for (int i = 0; i < a->count && !error->status; i++) {
    if (a->column[i].type == TSR_COL_BOOL) pack_bits(a->column[i].buffer[0], a->rows);
    if (a->column[i].valid) pack_bits(a->column[i].buffer[1], a->rows);
  }
  tsr__del(a->heap, target, (room + 1) * sizeof *target);
  return error->status;
}

tsr_status tsr__frame_stream(const tsr_saved_step *step, const char *frame,
                             struct ArrowArrayStream *out, tsr__error *error)
{
  tsr__heap *heap = &step->rt->heap;
  int count = count_columns(&step->catalog, frame);
  size_t each = sizeof(again_column) + sizeof(struct ArrowSchema *) + sizeof(struct ArrowArray *);
  size_t size = sizeof(again) + (size_t)count * each;
  if (!count) {
    char quoted[TSR__QUOTE];
    return tsr__error_set(error, TSR_EARG, "step %lld has no frame '%s'",
                          (long long)step->catalog.step, tsr__quote(frame, strlen(frame), quoted));
  }
  again *a = tsr__new(heap, size);
  if (!a) return tsr__error_set(error, TSR_ENOMEM, "no memory for a frame's columns");
  a->heap = heap;
  a->size = size;
  a->count = count;
  atomic_init(&a->refs, 1);
  a->column = (again_column *)(a + 1);
  a->schemas = (struct ArrowSchema **)(a->column + count);
  a->arrays = (struct ArrowArray **)(a->schemas + count);
  if (find_columns(a, &step->catalog, frame, error) || read_columns(a, step, error)) {
    drop(a);
    return error->status;
  }
  *out = (struct ArrowArrayStream){ get_schema, get_next, get_last_error, release_stream, a };
  return TSR_OK;
}
