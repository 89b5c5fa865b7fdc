/* Frames in a step: columns as arrays of rank 1.
 *
 *   frame "seen", column temp    seen:values:temp  f64[rows]     pieces are the rows of each device
 *                                seen:valid:temp   bool[rows]    where there are nulls
 *   column shop, of text         seen:values:shop  i32[rows]     codes: which text
 *                                seen:ends:shop    i64[n + 1]    text k ends at ends[k + 1]
 *                                seen:texts:shop   u8[...]
 *
 * Rows are written by the processes that hold them, as elements of arrays are; a dictionary, which
 * all of them have, by the first.
 *
 * Invariant: a column's entries follow each other, `values` first, in the order of the columns, and
 * are the same on all processes. */
#include "checkpoint/checkpoint_room.h"
#include "frame/out/out.h"

static tsr_status no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "no memory to list a frame's columns");
}

/* As devices have them: days, codes, microseconds. */
tsr_dtype tsr__column_dtype(tsr_coltype type)
{
  return type == TSR_COL_DATE || type == TSR_COL_TEXT ? TSR_I32
         : type == TSR_COL_TIME                       ? TSR_I64
                                                      : (tsr_dtype)type;
}

/* ---- one column ------------------------------------------------------------------------------ */

typedef struct listing {
  tsr__saving *s;
  const char *frame;
} listing;

/* The column's type stands where arrays have their spec; of dates and texts the dtype would not
 * tell it. */
static bool add_entry(const listing *l, const char *what, const tsr__shard_column *column,
                      tsr_dtype dtype, int64_t length)
{
  tsr__text name;
  tsr__listed *entry = tsr__catalog_entry(&l->s->catalog);
  if (!entry) return false;
  tsr__text_init(&name, &l->s->rt->heap);
  tsr__text_add(&name, "%s:%s:", l->frame, what);
  tsr__text_put(&name, column->name, strlen(column->name));
  entry->kind = TSR_SAVED_COLUMN;
  entry->dtype = (uint8_t)dtype;
  entry->shape = (tsr_shape){ .rank = 1, .dims = { length } };
  entry->spec = !strcmp(what, "values") ? tsr_coltype_name((tsr_coltype)column->type) : "";
  entry->name = name.failed ? NULL : tsr__arena_text(&l->s->catalog.arena, name.data, name.length);
  tsr__text_free(&name);
  return entry->name != NULL;
}

/* The length is that of the whole column, over all processes. */
static bool add_rows(const listing *l, const char *what, const tsr__shard_column *column,
                     tsr__value *value)
{
  return add_entry(l, what, column, (tsr_dtype)value->dtype, value->shape.dims[0]) &&
         tsr__saving_value(l->s, value);
}

/* The dictionary is held until it is written. */
static bool hold_dict(tsr__saving *s, const tsr__dict *dict)
{
  if (!tsr__grow(&s->rt->heap, (void **)&s->dict, &s->dict_room, (size_t)s->dict_count + 1,
                 sizeof *s->dict))
    return false;
  s->dict[s->dict_count++] = tsr__dict_hold(dict);
  return true;
}

/* A column without a text has no dictionary: one end, 0, and no bytes. The entries are listed on
 * all processes, the pieces on the first. */
static bool add_texts(const listing *l, const tsr__shard_column *column)
{
  static const int64_t none[1] = { 0 };
  tsr__saving *s = l->s;
  const tsr__dict *dict = column->dict;
  const int64_t *ends = dict ? dict->offsets : none;
  int64_t count = dict ? dict->count : 0, bytes = ends[count];
  tsr_box box = { .size = { count + 1 } }, byte_box = { .size = { bytes } };
  return (!dict || hold_dict(s, dict)) && add_entry(l, "ends", column, TSR_I64, count + 1) &&
         (s->process || tsr__saving_part(s, &box, ends)) &&
         add_entry(l, "texts", column, TSR_U8, bytes) &&
         (s->process || tsr__saving_part(s, &byte_box, dict ? dict->bytes : ""));
}

/* In the order that find_columns of frame_again.c reads. */
static tsr_status add_column(void *user, const tsr__shard_column *column, tsr__error *error)
{
  const listing *l = user;
  bool good = add_rows(l, "values", column, column->values) &&
              (!column->valid || add_rows(l, "valid", column, column->valid)) &&
              (column->type != TSR_COL_TEXT || add_texts(l, column));
  return good ? TSR_OK : no_memory(error);
}

/* ---- frames ---------------------------------------------------------------------------------- */

tsr_status tsr__saving_frame(tsr__saving *s, const tsr_frame_item *item, const tsr_scope *scope,
                             tsr__error *error)
{
  listing l = { s, item->name };
  tsr_status status = tsr__frame_shards(item->frame, "tsr_checkpoint_save", add_column, &l);
  if (!status) return TSR_OK;
  return tsr__error_set(error, status, "frame '%s' cannot be evaluated: %s", item->name,
                        tsr_scope_status(scope) ? tsr_message(scope) : tsr_status_text(status));
}
