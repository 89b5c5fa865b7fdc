/* Sources that hold text: files of CSV or JSON lines, read at a terminal straight into the devices'
 * shards, and columns of text given from memory.
 *
 *   file rows    0 .. 3264 | 3265 .. 6529 | ...      the usual borders over the mesh
 *                    v              v
 *                device 0       device 1             one buffer a column and a device
 *
 * What was read stays with the frame, so a second terminal on it reads only columns that are new.
 * */
#include "frame/chain/plan.h"

#include "io/csv/csv.h"
#include "io/json/json.h"
#include "io/rows/classes.h"
#include "io/text/dict.h"
#include "io/text/option_list.h"
#include "tessera/read.h"

#include <stdio.h>

/* ---- opening ----------------------------------------------------------------------------- */

/* The frame's schema by what the file's says now. */
static tsr_status take_schema(tsr_frame *df, tsr__error *error)
{
  const tsr__read_column *column;
  const tsr__reader *reader = &df->source->reader;
  int count = reader->ops->columns(reader->file, &column);
  tsr__arena *arena = &df->node.scope->arena;
  tsr__field *field = tsr__arena_new(arena, (size_t)(count ? count : 1) * sizeof *field);
  if (!field) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  for (int i = 0; i < count; i++) {
    field[i].name = tsr__arena_text(arena, column[i].name, strlen(column[i].name));
    field[i].type = (uint8_t)column[i].type;
    field[i].vacant = column[i].vacant;
    if (!field[i].name) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  }
  df->schema = (tsr__schema){ count, field, NULL };
  return tsr__schema_index(df, error);
}

tsr_status tsr__scan_sharding(const tsr_frame *df, const tsr_mesh *mesh, const char *rows,
                              tsr_sharding *out, tsr__error *error)
{
  tsr_scope *scope = df->node.scope;
  if (!mesh) mesh = tsr_mesh_default(scope->rt, NULL);
  if (!rows) rows = tsr_mesh_axis_name(mesh, 0);
  tsr_sharding sharding = tsr_on_dims(mesh, 1, &rows);
  tsr_shape none = { 1, { 0 } };
  if (tsr__sharding_check(&sharding, &none, error)) return error->status;
  if (mesh->rt != scope->rt)
    return tsr__error_set(error, TSR_EARG, "%s: the mesh belongs to another runtime", df->what);
  *out = tsr__sharding_canon(&sharding);
  return TSR_OK;
}

tsr_status tsr__scan_take(tsr_frame *df, tsr__reader reader, const tsr_sharding *sharding,
                          tsr__error *error)
{
  const tsr__read_column *column;
  if (!reader.file) return error->status;
  /* A column may be read twice, sifted and whole: room for two dictionaries of it. */
  df->source = tsr__source_new(df->node.scope, 2 * reader.ops->columns(reader.file, &column));
  if (!df->source) {
    reader.ops->close(reader.file);
    return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  }
  df->source->reader = reader;
  df->source->sharding = *sharding;
  df->source->path = reader.ops->path(reader.file);
  return take_schema(df, error);
}

tsr_status tsr__take_opts(const char *what, const void *opts, void *own, size_t known,
                          tsr__error *error)
{
  size_t size = 0;
  if (!opts) return TSR_OK;
  memcpy(&size, opts, sizeof size);
  if (tsr__opts_beyond(opts, size, known))
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: an option is set that version %s does not know; load the library "
                          "the program was compiled for",
                          what, tsr_version());
  memcpy(own, opts, size && size < known ? size : known);
  return TSR_OK;
}

static tsr__csv_opts reading_of(const tsr_csv_opts *opts)
{
  return (tsr__csv_opts){ .separator = opts->separator,
                          .comment = opts->comment,
                          .no_header = opts->no_header,
                          .decimal_comma = opts->decimal_comma,
                          .text_nulls = opts->text_nulls,
                          .skip_rows = opts->skip_rows,
                          .names = opts->names,
                          .columns = opts->columns,
                          .types = opts->types,
                          .nulls = opts->nulls,
                          .bad_rows = (tsr__csv_bad)opts->bad_rows,
                          .more = opts->more,
                          .more_count = opts->more_count,
                          .literal_path = opts->literal_path,
                          .unpack_limit = opts->unpack_limit,
                          .unique_names = opts->unique_names };
}

static tsr_status open_csv(tsr_frame *df, const char *path, const tsr_csv_opts *opts,
                           tsr__error *error)
{
  tsr_sharding rows;
  tsr_csv_opts all = { 0 };
  if (!path) return tsr__error_set(error, TSR_EARG, "%s: the path is NULL", df->what);
  if (tsr__take_opts(df->what, opts, &all, sizeof all, error)) return error->status;
  if (tsr__scan_sharding(df, all.mesh, all.rows, &rows, error)) return error->status;
  tsr__csv_opts how = reading_of(&all);
  tsr__csv *csv = tsr__csv_open_with(df->node.scope->rt, path, &how, error);
  if (tsr__scan_take(df, (tsr__reader){ &tsr__csv_reader, csv }, &rows, error))
    return error->status;
  if (all.bad_rows_found) *all.bad_rows_found = tsr__csv_bad_rows(csv);
  return TSR_OK;
}

tsr_frame *tsr_frame_read_csv_with(tsr_scope *scope, const char *path, const tsr_csv_opts *opts,
                                   const char *site)
{
  tsr_frame *df = tsr__frame_make(scope, TSR__FRAME_FILE, "tsr_frame_read_csv", site);
  tsr__error error = { 0 };
  if (df->inert || !open_csv(df, path, opts, &error)) return df;
  return tsr__frame_fail(df, &error);
}

const char *tsr_frame_notes(const tsr_frame *df)
{
  if (!tsr__frame_usable(df) || df->kind != TSR__FRAME_FILE) return "";
  const tsr__reader *reader = &df->source->reader;
  return reader->ops->notes ? reader->ops->notes(reader->file) : "";
}

/* ---- JSON lines ---------------------------------------------------------------------------- */

static tsr_status type_named(const char *what, const char *word, tsr_coltype *out,
                             tsr__error *error)
{
  int type = tsr__type_named(word);
  if (type < 0)
    return tsr__error_set(error, TSR_EARG,
                          "%s, types: '%.40s' is no type; expected bool, i32, i64, f32, f64, date, "
                          "time or text",
                          what, word);
  *out = (tsr_coltype)type;
  return TSR_OK;
}

/* The lists of the options, in an arena. */
static tsr_status json_lists(tsr__arena *arena, const tsr_json_opts *opts, tsr__json_opts *out,
                             tsr__error *error)
{
  tsr__list columns, types;
  if (tsr__list_read(arena, &(tsr__list_ask){ "columns", opts->columns, false }, &columns, error) ||
      tsr__list_read(arena, &(tsr__list_ask){ "types", opts->types, true }, &types, error))
    return error->status;
  const char **names = tsr__arena_new(arena, (size_t)(columns.count + 1) * sizeof *names);
  tsr__json_type *forced = tsr__arena_new(arena, (size_t)(types.count + 1) * sizeof *forced);
  if (!names || !forced)
    return tsr__error_set(error, TSR_ENOMEM, "tsr_frame_read_json: out of memory");
  for (int i = 0; i < columns.count; i++) names[i] = columns.item[i].text;
  for (int i = 0; i < types.count; i++) {
    forced[i].name = types.item[i].text;
    if (type_named("tsr_frame_read_json", types.item[i].word, &forced[i].type, error))
      return error->status;
  }
  out->columns = names;
  out->column_count = columns.count;
  out->types = forced;
  out->type_count = types.count;
  return TSR_OK;
}

static tsr_status open_json(tsr_frame *df, const char *path, const tsr_json_opts *opts,
                            tsr__error *error)
{
  tsr_sharding rows;
  tsr_runtime *rt = df->node.scope->rt;
  tsr_json_opts all = { 0 };
  if (!path) return tsr__error_set(error, TSR_EARG, "%s: the path is NULL", df->what);
  if (tsr__take_opts(df->what, opts, &all, sizeof all, error)) return error->status;
  tsr__json_opts how = { .bad_rows = (tsr__json_bad)all.bad_rows,
                         .more = all.more,
                         .more_count = all.more_count,
                         .literal_path = all.literal_path,
                         .unpack_limit = all.unpack_limit };
  if (tsr__scan_sharding(df, all.mesh, all.rows, &rows, error)) return error->status;
  tsr__arena arena;
  tsr__arena_init(&arena, &rt->heap);
  tsr__json *json = NULL;
  if (!json_lists(&arena, &all, &how, error)) json = tsr__json_open(rt, path, &how, error);
  tsr__arena_free(&arena);
  if (json && all.bad_rows_found) *all.bad_rows_found = tsr__json_bad_rows(json);
  return tsr__scan_take(df, (tsr__reader){ &tsr__json_reader, json }, &rows, error);
}

tsr_frame *tsr_frame_read_json_with(tsr_scope *scope, const char *path, const tsr_json_opts *opts,
                                    const char *site)
{
  tsr_frame *df = tsr__frame_make(scope, TSR__FRAME_FILE, "tsr_frame_read_json", site);
  tsr__error error = { 0 };
  if (df->inert || !open_json(df, path, opts, &error)) return df;
  return tsr__frame_fail(df, &error);
}

/* ---- reading ----------------------------------------------------------------------------- */

/* One reading: values and validity of each column, and which positions hold which part. */
typedef struct reading {
  tsr_frame *df;
  tsr__source *source; /* the frame's, or its front */
  tsr__error *error;
  int parts;
  int *position; /* by part: the position that is read into */
  int64_t *rows;
  int count;
  tsr__read_target *target;
  tsr__value **values, **valid;
  const tsr__sift *sift; /* NULL: all rows count */
  tsr__sifted *sifted;   /* where sparse columns go */
} reading;

static void *room(reading *r, tsr_scope *scope, int count, size_t element)
{
  void *out = tsr__arena_new(&scope->arena, (size_t)(count > 0 ? count : 1) * element);
  if (!out) tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
  return out;
}

/* Parts in order of their rows; replicas are filled later. */
static tsr_status find_parts(reading *r, tsr_scope *scope)
{
  const tsr_sharding *sharding = &r->source->sharding;
  int positions = tsr__positions(sharding);
  tsr_shape shape = { 1, { r->source->rows } };
  r->position = room(r, scope, positions, sizeof *r->position);
  r->rows = room(r, scope, positions + 1, sizeof *r->rows);
  if (!r->position || !r->rows) return r->error->status;
  int64_t parts = tsr__dim_parts(sharding, 0);
  for (int64_t part = 0; part < parts; part++) {
    for (int p = 0; p < positions; p++) {
      int64_t at, unused;
      tsr__dim_part(sharding, 0, parts, p, &at, &unused);
      if (at != part || tsr__replica_leader(sharding, p) != p) continue;
      tsr_box box;
      tsr__box(sharding, &shape, p, &box);
      r->position[r->parts] = p;
      r->rows[r->parts++] = box.start[0];
    }
  }
  r->rows[r->parts] = shape.dims[0];
  return TSR_OK;
}

static tsr_status add_target(reading *r, tsr_scope *scope, int column, bool sparse)
{
  tsr_runtime *rt = scope->rt;
  tsr_shape shape = { 1, { r->source->rows } };
  const tsr_sharding *sharding = &r->source->sharding;
  tsr_dtype dtype = tsr__dtype_of_type(r->df->schema.field[column].type);
  tsr__read_target *target = &r->target[r->count];
  tsr__value *values =
      tsr__value_new(rt, &(tsr__layout){ dtype, &shape, sharding, NULL }, r->error);
  tsr__value *valid =
      values ? tsr__value_new(rt, &(tsr__layout){ TSR_BOOL, &shape, sharding, NULL }, r->error)
             : NULL;
  r->values[r->count] = values;
  r->valid[r->count] = valid;
  target->column = column;
  target->sparse = sparse;
  target->values = room(r, scope, r->parts, sizeof *target->values);
  target->validity = room(r, scope, r->parts, sizeof *target->validity);
  r->count++;
  if (!valid || !target->values || !target->validity) return r->error->status;
  for (int i = 0; i < r->parts; i++) {
    target->values[i] = tsr__value_data(values, r->position[i]);
    target->validity[i] = tsr__value_data(valid, r->position[i]);
  }
  return TSR_OK;
}

/* Replicas get what their leader was read. */
static void fill_replicas(const tsr__value *value)
{
  for (int p = 0; p < value->part_count; p++) {
    int leader = tsr__replica_leader(&value->sharding, p);
    tsr_box box;
    if (leader == p) continue;
    tsr__value_box(value, p, &box);
    void *to = tsr__value_data(value, p);
    size_t bytes = tsr__device_bytes((tsr_dtype)value->dtype, box.size[0]);
    if (to && bytes) memcpy(to, tsr__value_data(value, leader), bytes);
  }
}

static tsr_array *leaf(tsr_frame *df, tsr__value *value)
{
  fill_replicas(value);
  return tsr__make_leaf(df->node.scope, (tsr_dtype)value->dtype, &value->shape, &value->sharding,
                        value, df->node.site);
}

/* Keeps what was read with the frame; the reading's references go over. */
static tsr_status keep(reading *r)
{
  tsr__source *source = r->source;
  for (int i = 0; i < r->count; i++) {
    tsr__read_target *target = &r->target[i];
    tsr__col col = { .type = r->df->schema.field[target->column].type, .dict = target->dict };
    if (target->dict) source->dicts[source->dict_count++] = target->dict;
    target->dict = NULL; /* the source's now, even if what follows fails */
    col.values = leaf(r->df, r->values[i]);
    r->values[i] = NULL;
    if (target->nulls) {
      col.valid = leaf(r->df, r->valid[i]);
      r->valid[i] = NULL;
    }
    if (col.values->inert || (col.valid && col.valid->inert))
      return tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
    if (target->sparse) r->sifted->col[target->column] = col;
    else source->col[target->column] = col;
  }
  return TSR_OK;
}

static void drop(reading *r, bool dicts)
{
  for (int i = 0; i < r->count; i++) {
    tsr__value_release(r->values[i]);
    tsr__value_release(r->valid[i]);
    if (dicts && r->target[i].dict) tsr__dict_release(r->target[i].dict);
  }
}

/* Takes a column's memory as it lies, where the reader offers that; false: it must be read. */
static bool borrow(reading *r, int column)
{
  tsr_frame *df = r->df;
  const tsr__reader *reader = &df->source->reader;
  tsr_runtime *rt = df->node.scope->rt;
  tsr_shape shape = { 1, { r->source->rows } };
  const tsr_sharding *sharding = &r->source->sharding;
  tsr__error none = { 0 };
  tsr__foreign memory;
  if (!reader->ops->borrow || tsr__positions(sharding) != 1) return false;
  if (!reader->ops->borrow(reader->file, column, &memory)) return false;
  uint8_t type = df->schema.field[column].type;
  tsr__layout layout = { tsr__dtype_of_type(type), &shape, sharding, NULL };
  tsr__value *value = tsr__value_frame(rt, &layout, &none);
  int device = tsr__position_device(sharding, 0);
  if (value) value->parts[0] = tsr__buffer_adopt(rt, device, &memory);
  if (!value || !value->parts[0]) {
    tsr__value_release(value);
    memory.release(memory.data, memory.user);
    return false;
  }
  tsr_array *values = leaf(df, value);
  if (!values->inert) r->source->col[column] = (tsr__col){ .type = type, .values = values };
  return !values->inert;
}

/* ---- rows that filters drop ---------------------------------------------------------------- */

tsr__col tsr__scan_column(const tsr__source *source, int column, const tsr__sift *sift)
{
  const tsr__sifted *sifted = source->sifted;
  bool whole = source->col[column].values || !sifted || !sift || sift->whole[column];
  return whole || !tsr__sift_holds(sifted, sift) ? source->col[column] : sifted->col[column];
}

const tsr__sifted *tsr__scan_sifted(const tsr__visit *file)
{
  const tsr__source *source = file->df->source;
  bool any = false;
  if (!file->sift || !source || !source->sifted) return NULL;
  for (int i = 0; i < file->df->schema.count; i++)
    any = any || (file->need[i] && !source->col[i].values &&
                  tsr__scan_column(source, i, file->sift).values);
  return any ? source->sifted : NULL;
}

/* Whether a reading can leave out values of rows that its sieves drop: their columns are read with
 * it, and others that need no dropped row. */
static bool can_sift(const reading *r, const bool *need)
{
  const tsr__source *source = r->source;
  bool any = false;
  if (!r->sift || !r->sift->count || !r->df->source->reader.ops->bytes || source->sifted)
    return false;
  for (int s = 0; s < r->sift->count; s++)
    if (!need[r->sift->sieve[s].target] || source->col[r->sift->sieve[s].target].values)
      return false;
  for (int i = 0; i < r->df->schema.count; i++)
    any = any || (need[i] && !r->sift->whole[i] && !source->col[i].values);
  return any;
}

static const char *sieve_words(const tsr__sift *sift, tsr_scope *scope)
{
  tsr__text words;
  tsr__text_init(&words, &scope->rt->heap);
  for (int s = 0; s < sift->count; s++) {
    tsr__text_add(&words, "%s", s ? " and " : "");
    tsr__expr_print(sift->expr[s], &words);
  }
  const char *text = tsr__text_get(&words);
  char *out = words.failed ? NULL : tsr__arena_text(&scope->arena, text, strlen(text));
  tsr__text_free(&words);
  return out;
}

/* What sieves are to give, in the frame's scope. */
static tsr_status make_sifted(reading *r)
{
  tsr_scope *scope = r->df->node.scope;
  const tsr__sift *sift = r->sift;
  tsr__sifted *out = room(r, scope, 1, sizeof *out);
  if (!out) return r->error->status;
  out->count = sift->count;
  out->key = room(r, scope, sift->count, sizeof *out->key);
  out->col = room(r, scope, r->df->schema.count, sizeof *out->col);
  out->kept = room(r, scope, r->parts, sizeof *out->kept);
  out->words = sieve_words(sift, scope);
  if (!out->key || !out->col || !out->kept || !out->words)
    return tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
  for (int k = 0; k < sift->count; k++) {
    char *key = room(r, scope, (int)sift->key[k].length, 1);
    if (!key) return r->error->status;
    memcpy(key, sift->key[k].at, sift->key[k].length);
    out->key[k] = (tsr__sift_key){ key, sift->key[k].length };
  }
  for (int p = 0; p < r->parts; p++) {
    int64_t words = (r->rows[p + 1] - r->rows[p] + 63) / 64;
    out->kept[p] = tsr__arena_new(&scope->arena, (size_t)(words + 1) * sizeof(uint64_t));
    if (!out->kept[p])
      return tsr__error_set(r->error, TSR_ENOMEM, "%s: out of memory", r->df->what);
  }
  r->sifted = out;
  return TSR_OK;
}

/* The sieves with the numbers of their targets; `scope` holds them. */
static tsr_status take_sieves(reading *r, tsr_scope *scope, tsr__read_ask *read)
{
  tsr__sieve *sieves = room(r, scope, r->sift->count, sizeof *sieves);
  if (!sieves) return r->error->status;
  for (int s = 0; s < r->sift->count; s++) {
    sieves[s] = r->sift->sieve[s];
    for (int t = 0; t < r->count; t++)
      if (r->target[t].column == r->sift->sieve[s].target) sieves[s].target = t;
  }
  read->sieve_count = r->sift->count;
  read->sieves = sieves;
  return TSR_OK;
}

static void count_kept(reading *r)
{
  for (int p = 0; p < r->parts; p++)
    for (int64_t w = 0; w * 64 < r->rows[p + 1] - r->rows[p]; w++)
      r->sifted->rows += __builtin_popcountll(r->sifted->kept[p][w]);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static bool is_there(const reading *r, int column)
{
  return tsr__scan_column(r->source, column, r->sift).values != NULL;
}

/* All that a reading will hold, before the first buffer is taken. */
static tsr_status check_room(const reading *r, const bool *need)
{
  const tsr_frame *df = r->df;
  const tsr_sharding *sharding = &df->source->sharding;
  tsr_shape shape = { 1, { df->source->rows } };
  tsr__need ask = { df->node.scope->rt, df->what, NULL };
  for (int p = 0; p < tsr__positions(sharding); p++) {
    tsr_box box;
    int64_t bytes = 0;
    tsr__box(sharding, &shape, p, &box);
    for (int i = 0; i < df->schema.count; i++) {
      if (!need[i] || is_there(r, i)) continue;
      tsr_dtype dtype = tsr__dtype_of_type(df->schema.field[i].type);
      bytes += (int64_t)(tsr__device_bytes(dtype, box.size[0]) +
                         tsr__device_bytes(TSR_BOOL, box.size[0]));
    }
    if (tsr__need_check(&ask, tsr__position_device(sharding, p), bytes, r->error))
      return r->error->status;
  }
  return TSR_OK;
}

/* Reads into fresh buffers; `scope` holds the reading's small arrays. */
static tsr_status read_columns(reading *r, tsr_scope *scope, const bool *need)
{
  tsr_frame *df = r->df;
  int columns = df->schema.count;
  bool first = can_sift(r, need);
  if (find_parts(r, scope)) return r->error->status;
  r->target = room(r, scope, columns, sizeof *r->target);
  r->values = room(r, scope, columns, sizeof(tsr__value *));
  r->valid = room(r, scope, columns, sizeof(tsr__value *));
  if (!r->target || !r->values || !r->valid) return r->error->status;
  r->sifted = r->source->sifted;
  bool sparse = first || (r->sifted && r->sift && tsr__sift_holds(r->sifted, r->sift));
  if (first && make_sifted(r)) return r->error->status;
  for (int i = 0; i < columns; i++)
    if (need[i] && !is_there(r, i)) (void)borrow(r, i);
  if (check_room(r, need)) return r->error->status;
  for (int i = 0; i < columns; i++)
    if (need[i] && !is_there(r, i) && add_target(r, scope, i, sparse && !r->sift->whole[i]))
      return r->error->status;
  if (!r->count) return TSR_OK;
  tsr__read_ask read = { .parts = r->parts,
                         .rows = r->rows,
                         .target_count = r->count,
                         .targets = r->target,
                         .front = r->source != df->source };
  if (sparse) read.kept = r->sifted->kept;
  if (first && take_sieves(r, scope, &read)) return r->error->status;
  const tsr__reader *reader = &df->source->reader;
  if (reader->ops->read(reader->file, &read, r->error)) return r->error->status;
  if (first && !read.retyped) {
    count_kept(r);
    r->source->sifted = r->sifted;
  }
  if (!read.retyped) return keep(r);
  df->version++;
  return take_schema(df, r->error);
}

/* Whether what a visit needs of a file is there, of all its rows. */
static bool whole_is_there(const tsr__visit *file)
{
  const tsr__source *source = file->df->source;
  bool there = source->rows >= 0;
  for (int i = 0; i < file->df->schema.count && there; i++)
    there = !file->need[i] || source->col[i].values;
  return there;
}

/* Sees that the frame's source has a front of so many rows, or of all. */
static tsr_status open_front(tsr_frame *df, int64_t enough, tsr__error *error)
{
  tsr__source *whole = df->source, *front = whole->front;
  const tsr__reader *reader = &whole->reader;
  bool fresh = !front || front->version != df->version || enough > front->enough;
  int64_t want = fresh ? enough : front->rows, rows;
  tsr_status status = reader->ops->front(reader->file, want, &rows, error);
  if (status || !fresh) return status;
  front = tsr__source_new(df->node.scope, df->schema.count);
  if (!front) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  front->rows = rows < enough ? rows : enough;
  front->enough = rows < enough ? INT64_MAX : enough;
  front->sharding = whole->sharding;
  front->version = df->version;
  front->front = whole->front; /* what that one holds is the frame's until its end */
  whole->front = front;
  return TSR_OK;
}

/* Chooses which rows of a file are read: all, or a front. */
static tsr_status open_rows(tsr__visit *file, tsr__error *error)
{
  tsr_frame *df = file->df;
  tsr__source *source = df->source;
  const tsr__reader *reader = &source->reader;
  if (!reader->ops->front || whole_is_there(file)) file->front = -1;
  if (source->rows >= 0 && source->rows <= file->front) file->front = -1;
  if (file->front >= 0) return open_front(df, file->front, error);
  return source->rows < 0 ? reader->ops->count(reader->file, &source->rows, error) : TSR_OK;
}

tsr__source *tsr__scan_source(const tsr__visit *file)
{
  tsr__source *source = file->df->source;
  return source && source->front && file->front >= 0 ? source->front : source;
}

tsr_status tsr__scan_read(tsr__visit *file, tsr__error *error)
{
  tsr_frame *df = file->df;
  tsr_scope *scope = tsr_scope_nest_at(df->node.scope, df->node.site);
  reading r = { .df = df, .error = error, .sift = file->sift };
  int before = df->version;
  if (scope->inert) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  tsr_status status = open_rows(file, error);
  r.source = tsr__scan_source(file);
  if (!status) status = read_columns(&r, scope, file->need);
  drop(&r, status != TSR_OK || df->version != before);
  tsr_scope_close(scope);
  return status;
}

void tsr__scan_blame(const tsr__visit *visits, tsr__error *error)
{
  for (const tsr__visit *v = visits; v; v = v->next) {
    if (v->df->kind != TSR__FRAME_FILE) continue;
    for (int i = 0; i < v->df->schema.count; i++) {
      const char *text;
      size_t used = strlen(error->text);
      const tsr__reader *reader = &v->df->source->reader;
      bool may = v->need[i] && reader->ops->widened;
      int64_t row = may ? reader->ops->widened(reader->file, i, &text) : -1;
      if (row < 0) continue;
      snprintf(error->text + used, sizeof error->text - used,
               "\n    column '%.60s' is %s since row %lld of %.200s, which holds '%.79s'",
               v->df->schema.field[i].name,
               tsr_coltype_name((tsr_coltype)v->df->schema.field[i].type), (long long)row,
               v->df->source->path, text);
    }
  }
}

/* ---- text from memory ---------------------------------------------------------------------- */

tsr__dict *tsr__texts_encode(tsr_runtime *rt, const char *const *texts, int64_t count,
                             int32_t *codes, uint8_t *valid)
{
  tsr__dict_local local;
  tsr__dict_local_init(&local, &rt->heap);
  for (int64_t i = 0; i < count; i++) {
    bool added;
    valid[i] = texts[i] != NULL;
    codes[i] = texts[i] ? tsr__dict_code(&local, texts[i], strlen(texts[i]), false, &added) : 0;
  }
  tsr__dict_local *all[] = { &local };
  tsr__dict *dict = local.failed ? NULL : tsr__dict_unify(&rt->heap, all, 1);
  tsr__dict_local_free(&local);
  return dict;
}

static tsr_status check_texts(const tsr_frame *df, const char *const *texts, int64_t count,
                              tsr__error *error)
{
  const tsr_frame *source = df->parent;
  while (source->kind == TSR__FRAME_TEXT) source = source->parent;
  if (source->kind != TSR__FRAME_ARRAYS)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: only frames made by tsr_frame_new take text "
                          "columns",
                          df->what);
  if (count != source->source->rows || (count && !texts))
    return tsr__error_set(error, TSR_ESHAPE, "%s: %lld texts, expected %lld as the frame has rows",
                          df->what, (long long)(texts ? count : 0),
                          (long long)source->source->rows);
  for (int64_t i = 0; i < count; i++)
    if (texts[i] && !tsr__utf8_valid(texts[i], strlen(texts[i])))
      return tsr__error_set(error, TSR_EPARSE, "%s: text %lld is no UTF-8", df->what, (long long)i);
  return TSR_OK;
}

static tsr_status put_texts(tsr_frame *df, const char *const *texts, int64_t count,
                            tsr__error *error)
{
  tsr_scope *scope = df->node.scope;
  const tsr_frame *source = df->parent;
  while (source->kind == TSR__FRAME_TEXT) source = source->parent;
  size_t bytes = (size_t)(count ? count : 1);
  int32_t *codes = tsr__new_raw(&scope->rt->heap, bytes * sizeof *codes);
  uint8_t *valid = tsr__new_raw(&scope->rt->heap, bytes);
  tsr__dict *dict =
      codes && valid ? tsr__texts_encode(scope->rt, texts, count, codes, valid) : NULL;
  df->source = tsr__source_new(scope, 1);
  if (dict && df->source) {
    tsr_sharding rows = source->source->sharding;
    tsr_shape shape = { 1, { count } };
    df->source->sharding = rows;
    rows.rank = rows.rank ? 1 : 0; /* the canonical form names dims that there are not */
    df->source->dicts[df->source->dict_count++] = dict;
    df->source->rows = count;
    tsr__col *col = &df->source->col[0];
    *col = (tsr__col){ .type = TSR_COL_TEXT, .dict = dict };
    col->values = tsr_put_at(scope, codes, TSR_I32, shape, rows, df->node.site);
    if (count && memchr(valid, 0, (size_t)count))
      col->valid = tsr_put_at(scope, valid, TSR_BOOL, shape, rows, df->node.site);
    if (col->values->inert) tsr__error_set(error, tsr_scope_status(scope), "%s", df->what);
  } else {
    if (dict) tsr__dict_release(dict);
    tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  }
  tsr__del(&scope->rt->heap, codes, bytes * sizeof *codes);
  tsr__del(&scope->rt->heap, valid, bytes);
  return error->status;
}

tsr_frame *tsr_frame_text_column_at(tsr_frame *df, const char *name, const char *const *texts,
                                    int64_t count, const char *site)
{
  const char *what = "tsr_frame_text_column";
  tsr__error error = { 0 };
  if (!tsr__frame_usable(df)) return tsr__frame_inert_like(df, site);
  tsr_frame *out = tsr__frame_begin(df, TSR__FRAME_TEXT, what, site);
  if (out->inert) return out;
  if (tsr__check_name(what, name, &error) || check_texts(out, texts, count, &error))
    return tsr__frame_fail(out, &error);
  out->name = tsr__arena_text(&out->node.scope->arena, name, strlen(name));
  if (!out->name) tsr__error_set(&error, TSR_ENOMEM, "%s: out of memory", what);
  if (error.status || put_texts(out, texts, count, &error) || tsr__frame_type(out, &error))
    return tsr__frame_fail(out, &error);
  return out;
}
