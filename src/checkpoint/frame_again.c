/* Frames read from a step: rows go to where they are to lie, as elements of arrays do, so that each
 * process reads what its devices need; dictionaries all read.
 *
 *   entries --read--> column   | values | valid |     dictionary  | ends | texts |
 *
 * Invariant: nothing that a file says is used before it was checked: texts are UTF-8, each once,
 * and every row that is no null has one of them. */
#include "checkpoint/checkpoint_room.h"
#include "frame/out/out.h"
#include "kernel/device/staging.h"

static const char call_name[] = "tsr_checkpoint_frame";

/* What was saved of a column. */
typedef struct again {
  const tsr__listed *values, *valid, *ends, *texts;
  tsr__dict *dict; /* owned */
} again;

/* Columns that are read; each value is the read's until a frame holds it. */
typedef struct frame_read {
  tsr__heap *heap;
  int count;
  tsr__shard_column *column;
  again *again; /* by column */
} frame_read;

/* ---- finding --------------------------------------------------------------------------------- */

/* What stands behind "frame:what:" in an entry's name; NULL: it is none of those. The rest is the
 * column's name, whatever signs it has. */
static const char *column_name(const tsr__listed *entry, const char *frame, const char *what)
{
  size_t length = strlen(frame), more = strlen(what);
  const char *name = entry->name;
  bool own = entry->kind == TSR_SAVED_COLUMN && !strncmp(name, frame, length) &&
             name[length] == ':' && !strncmp(name + length + 1, what, more) &&
             name[length + 1 + more] == ':';
  return own ? name + length + more + 2 : NULL;
}

/* Column types of numbers are dtypes with the same names. */
static tsr_coltype type_named(const char *name)
{
  TSR__FOR_DTYPES(dtype)
  if (!strcmp(name, tsr_coltype_name((tsr_coltype)dtype))) return (tsr_coltype)dtype;
  for (int type = TSR_COL_DATE; type <= TSR_COL_TEXT; type++)
    if (!strcmp(name, tsr_coltype_name((tsr_coltype)type))) return (tsr_coltype)type;
  return (tsr_coltype)0;
}

/* Every column has values; the rest depends on its type and on nulls. */
static int count_columns(const tsr__catalog *c, const char *frame)
{
  int count = 0;
  for (size_t i = 0; i < c->entries; i++)
    count += column_name(&c->entry[i], frame, "values") != NULL;
  return count;
}

/* Whether what was saved of a column fits together. Columns are of rank 1 (catalog_read.c), so
 * dims[0] is there. Codes are i32, and so is how many texts there may be. */
static bool is_good(const again *a, tsr_coltype type, int64_t rows)
{
  const tsr__listed *valid = a->valid;
  if (!type || a->values->dtype != tsr__column_dtype(type)) return false;
  if (a->values->shape.dims[0] != rows) return false;
  if (valid && (valid->dtype != TSR_BOOL || valid->shape.dims[0] != rows)) return false;
  if (type != TSR_COL_TEXT) return !a->ends && !a->texts;
  if (!a->ends || !a->texts || a->ends->shape.dims[0] < 1) return false;
  if (a->ends->shape.dims[0] > INT32_MAX || a->texts->dtype != TSR_U8) return false;
  return a->ends->dtype == TSR_I64;
}

static tsr_status misfit(const char *frame, tsr__error *error)
{
  return tsr__error_set(error, TSR_EPARSE, "the columns of frame '%s' do not fit together", frame);
}

/* Columns in their order, each with what follows it. Entries of two frames may be mixed in a text
 * that somebody wrote; names tell them apart. */
static tsr_status find_columns(frame_read *r, const tsr__catalog *catalog, const char *frame,
                               tsr__error *error)
{
  int at = -1;
  for (size_t i = 0; i < catalog->entries; i++) {
    const tsr__listed *entry = &catalog->entry[i];
    const char *name = column_name(entry, frame, "values");
    if (name) {
      r->again[++at].values = entry;
      r->column[at].name = name;
      r->column[at].type = (uint8_t)type_named(entry->spec);
    }
    if (at < 0) continue;
    again *a = &r->again[at];
    const char *own = r->column[at].name;
    if ((name = column_name(entry, frame, "valid")) && !strcmp(name, own)) a->valid = entry;
    if ((name = column_name(entry, frame, "ends")) && !strcmp(name, own)) a->ends = entry;
    if ((name = column_name(entry, frame, "texts")) && !strcmp(name, own)) a->texts = entry;
  }
  for (int i = 0; i < r->count; i++)
    if (!is_good(&r->again[i], (tsr_coltype)r->column[i].type, r->again[0].values->shape.dims[0]))
      return misfit(frame, error);
  return TSR_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static tsr__value *new_value(tsr_runtime *rt, const tsr__listed *entry, const tsr_sharding *on,
                             tsr__error *error)
{
  return tsr__value_new(rt, &(tsr__layout){ (tsr_dtype)entry->dtype, &entry->shape, on, NULL },
                        error);
}

/* Memory for all of it. Reading writes right into the dictionary's own memory: ends to its offsets,
 * texts to its bytes. */
static tsr_status make_columns(frame_read *r, tsr_runtime *rt, const tsr_sharding *on,
                               tsr__error *error)
{
  for (int i = 0; i < r->count && !error->status; i++) {
    again *a = &r->again[i];
    tsr__shard_column *c = &r->column[i];
    c->values = new_value(rt, a->values, on, error);
    if (c->values && a->valid) c->valid = new_value(rt, a->valid, on, error);
    if (error->status || c->type != TSR_COL_TEXT) continue;
    int64_t count = a->ends->shape.dims[0] - 1;
    c->dict = a->dict = tsr__dict_new(r->heap, (int32_t)count, a->texts->shape.dims[0]);
    if (!a->dict) tsr__error_set(error, TSR_ENOMEM, "no memory for the texts of '%s'", c->name);
  }
  return error->status;
}

static tsr_status read_columns(const frame_read *r, const tsr_saved_step *step, tsr__error *error)
{
  /* Values, validity, ends and texts at most. */
  size_t room = (size_t)r->count * 4 + 1;
  tsr__restoring *target = tsr__new(r->heap, room * sizeof *target);
  tsr__restore_ask ask = {
    .rt = step->rt, .catalog = &step->catalog, .folder = step->folder, .target = target
  };
  if (!target) return tsr__error_set(error, TSR_ENOMEM, "no memory to read a frame's columns");
  for (int i = 0; i < r->count; i++) {
    const again *a = &r->again[i];
    const tsr__shard_column *c = &r->column[i];
    target[ask.count++] = (tsr__restoring){ .entry = a->values, .value = c->values };
    if (c->valid) target[ask.count++] = (tsr__restoring){ .entry = a->valid, .value = c->valid };
    if (!a->dict) continue;
    target[ask.count++] = (tsr__restoring){ .entry = a->ends, .data = a->dict->offsets };
    target[ask.count++] = (tsr__restoring){ .entry = a->texts, .data = a->dict->bytes };
  }
  tsr__restore(&ask, error);
  tsr__del(r->heap, target, room * sizeof *target);
  return error->status;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Each text once: equal texts of two codes would be two groups, and not equal to each other. */
static bool good_texts(const frame_read *r, const again *a, tsr__error *error)
{
  const tsr__dict *dict = a->dict;
  tsr__dict_local seen;
  bool good = dict->offsets[0] == 0 && dict->offsets[dict->count] == a->texts->shape.dims[0];
  for (int32_t i = 0; i < dict->count && good; i++)
    good = dict->offsets[i + 1] >= dict->offsets[i] &&
           dict->offsets[i + 1] <= dict->offsets[dict->count];
  tsr__dict_local_init(&seen, r->heap);
  for (int32_t i = 0; i < dict->count && good; i++) {
    const char *text = dict->bytes + dict->offsets[i];
    size_t length = (size_t)(dict->offsets[i + 1] - dict->offsets[i]);
    bool added = false;
    good = tsr__utf8_valid(text, length) &&
           tsr__dict_code(&seen, text, length, false, &added) >= 0 && added;
  }
  if (seen.failed) tsr__error_set(error, TSR_ENOMEM, "no memory to compare the texts of a frame");
  tsr__dict_local_free(&seen);
  return good;
}

/* Codes of nulls may be anything, and become 0 in the part's staging buffer. Each process looks at
 * its own parts. */
static bool good_codes(const tsr__shard_column *c, int position, tsr__error *error)
{
  tsr_box box;
  tsr__staging staging;
  int32_t count = c->dict->count;
  bool good = true;
  tsr__value_box(c->values, position, &box);
  if (tsr__staging_reopen(c->values->parts[position], &staging, error)) return false;
  int32_t *code = staging.memory;
  /* Bools lie as bits in devices, the first row lowest. */
  const uint8_t *valid = c->valid ? tsr__value_map(c->valid, position) : NULL;
  for (int64_t i = 0; i < box.size[0]; i++) {
    if (code[i] >= 0 && code[i] < count) continue;
    good = good && valid && !(valid[i / 8] >> i % 8 & 1);
    code[i] = 0;
  }
  if (valid) tsr__value_unmap(c->valid, position);
  tsr__staging_give(&staging);
  return good;
}

static tsr_status check_texts(const frame_read *r, const char *frame, tsr__error *error)
{
  for (int i = 0; i < r->count && !error->status; i++) {
    const tsr__shard_column *c = &r->column[i];
    bool good = !c->dict || good_texts(r, &r->again[i], error);
    for (int p = 0; c->dict && good && p < c->values->part_count; p++)
      good = !c->values->parts[p] || good_codes(c, p, error);
    if (!good && !error->status) misfit(frame, error);
  }
  return error->status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Frames hold what they took, so what is released here is only the reading's own hold. */
static void free_read(frame_read *r)
{
  for (int i = 0; r->column && r->again && i < r->count; i++) {
    if (r->column[i].values) tsr__value_release(r->column[i].values);
    if (r->column[i].valid) tsr__value_release(r->column[i].valid);
    tsr__dict_release(r->again[i].dict);
  }
  tsr__del(r->heap, r->column, (size_t)r->count * sizeof *r->column);
  tsr__del(r->heap, r->again, (size_t)r->count * sizeof *r->again);
  *r = (frame_read){ 0 };
}

static tsr_status open_read(const tsr_saved_step *step, const char *frame, const tsr_sharding *on,
                            frame_read *out, tsr__error *error)
{
  frame_read r = { .heap = &step->rt->heap, .count = count_columns(&step->catalog, frame) };
  if (!r.count) {
    char quoted[TSR__QUOTE];
    return tsr__error_set(error, TSR_EARG, "step %lld has no frame '%s'",
                          (long long)step->catalog.step, tsr__quote(frame, strlen(frame), quoted));
  }
  /* Zeroed: find_columns leaves NULL what a column has not, and free_read releases what is
   * there. */
  r.column = tsr__new(r.heap, (size_t)r.count * sizeof *r.column);
  r.again = tsr__new(r.heap, (size_t)r.count * sizeof *r.again);
  if (!r.column || !r.again) tsr__error_set(error, TSR_ENOMEM, "no memory for a frame's columns");
  else if (!find_columns(&r, &step->catalog, frame, error) &&
           !make_columns(&r, step->rt, on, error) && !read_columns(&r, step, error))
    check_texts(&r, frame, error);
  if (error->status) free_read(&r);
  else *out = r;
  return error->status;
}
/* ---- the call -------------------------------------------------------------------------------- */

/* Where a frame's rows lie that nobody said a place for: on the one device of a process alone, else
 * over all. */
static tsr_status place_rows(const tsr_frame *df, const tsr_sharding *on, tsr_sharding *out,
                             tsr__error *error)
{
  tsr_runtime *rt = df->node.scope->rt;
  if (on->mesh || tsr__peers_of(rt)) return tsr__scan_sharding(df, on, out, error);
  tsr_sharding one = tsr_on_device(rt, tsr__devices_of(rt)->first);
  *out = tsr__sharding_canon(&one);
  return TSR_OK;
}

/* All processes read the same columns and meet once, so that a frame is there on all or on none. */
tsr_frame *tsr_checkpoint_frame_at(tsr_saved_step *c, const char *name, tsr_sharding on,
                                   const char *site)
{
  tsr__error error = { .status = TSR_OK };
  tsr__text all;
  frame_read read = { 0 };
  tsr_sharding rows;
  bool met = false;
  tsr_scope *scope = c ? tsr__scope_here(c->node.scope) : NULL;
  if (!c || c->inert) tsr__step_why_inert(c, call_name, site);
  tsr_frame *df = tsr__frame_make(scope, TSR__FRAME_ARRAYS, call_name, site);
  if (!c || c->inert) return tsr__frame_fail(df, &error);
  if (df->inert) tsr__error_set(&error, TSR_ENOMEM, "no memory for a frame");
  else if (!name) tsr__error_set(&error, TSR_EARG, "the name is NULL; give one");
  else if (!place_rows(df, &on, &rows, &error)) open_read(c, name, &rows, &read, &error);
  tsr__text_init(&all, &c->rt->heap);
  tsr__agree(c->rt, &(tsr__agreement){ "tsr checkpoint frame", 0, NULL, &met }, &all, &error);
  tsr__text_free(&all);
  if (!error.status) df = tsr__frame_of_shards(df, read.column, read.count);
  free_read(&read);
  if (!error.status) return df;
  tsr__error said = { .status = TSR_OK };
  tsr__error_set(&said, error.status, "%s: %s", call_name, error.text);
  return tsr__frame_fail(df, &said);
}
