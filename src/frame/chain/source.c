/* Frames that stand on nothing before them: files, opened and their schema known, and columns of
 * text from memory. What a terminal reads of a file, run/scan.c says.
 *
 *   path, options -> reader of the format (io/) -> schema of the frame
 */
#include "frame/chain/chain.h"

#include "io/csv/csv.h"
#include "io/json/json.h"
#include "io/rows/classes.h"
#include "io/text/dict.h"
#include "io/text/option_list.h"
#include "tessera/read.h"

/* ---- opening ----------------------------------------------------------------------------- */

/* The frame's schema by what the file's says now. Called again when a late value retyped a column;
 * the caller counts the frame's version up. */
tsr_status tsr__file_schema(tsr_frame *df, tsr__error *error)
{
  const tsr__read_column *column;
  const tsr__reader *reader = &df->source->reader;
  int count = reader->ops->columns(reader->file, &column);
  tsr__arena *arena = &df->node.scope->arena;
  tsr__field *field = tsr__arena_new(arena, (size_t)(count ? count : 1) * sizeof *field);
  if (!field) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  /* Names are copied: the reader may change its own when a column is retyped. */
  for (int i = 0; i < count; i++) {
    field[i].name = tsr__arena_text(arena, column[i].name, strlen(column[i].name));
    field[i].type = (uint8_t)column[i].type;
    field[i].vacant = column[i].vacant;
    if (!field[i].name) return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  }
  df->schema = (tsr__schema){ count, field, NULL };
  return tsr__schema_index(df, error);
}

/* Rows lie along the first axis of the default mesh where nobody says otherwise. */
tsr_status tsr__scan_sharding(const tsr_frame *df, const tsr_sharding *on, tsr_sharding *out,
                              tsr__error *error)
{
  tsr_scope *scope = df->node.scope;
  tsr_sharding sharding = *on;
  /* A spec is checked without its rows, whose number the file has yet to tell. */
  tsr_shape none = { 1, { 0 } };
  /* A mesh of all devices. */
  if (!on->mesh) {
    const tsr_mesh *mesh = tsr_mesh_default(scope->rt, NULL);
    const char *axis = tsr_mesh_axis_name(mesh, 0);
    sharding = tsr_on_dims(mesh, 1, &axis);
  }
  if (tsr__sharding_check(&sharding, &none, error)) return error->status;
  if (sharding.mesh->rt != scope->rt)
    return tsr__error_set(
        error, TSR_EARG,
        "%s: the mesh belongs to another runtime; make it with the runtime of the scope", df->what);
  *out = tsr__sharding_canon(&sharding);
  return TSR_OK;
}

/* One process that cannot open its file keeps all from going on without it. A file that only one
 * process lacks is an error of all, told in the words of the one that found it. */
static tsr_status open_together(tsr_frame *df, const tsr__reader *reader,
                                const tsr_sharding *sharding, tsr__error *error)
{
  tsr_status status = reader->file ? TSR_OK : error->status;
  df->shared = tsr__source_apart(df, sharding);
  if (!tsr__source_apart(df, sharding)) return status;
  if (status) return tsr__frame_meet(df, df->what, df->node.site, status, error);
  if (tsr__source_enter(df, error)) return error->status;
  status = tsr__source_same(df, reader, -1, error);
  return tsr__source_leave(df, status, error);
}

/* Ends a call that is wrong in this process alone where the others wait with the file open. */
static tsr_status refuse_open(tsr_frame *df, const tsr_sharding *on, tsr__error *error)
{
  tsr_sharding rows;
  tsr__error unused = { .status = TSR_OK };
  const tsr_sharding anywhere = { .mesh = NULL };
  bool own = on->mesh && on->mesh->own;
  if (own || tsr__scan_sharding(df, &anywhere, &rows, &unused)) return error->status;
  return open_together(df, &(tsr__reader){ .ops = NULL }, &rows, error);
}

/* The reader is the frame's from here on and closed by it, or closed here where that fails. */
tsr_status tsr__scan_take(tsr_frame *df, tsr__reader reader, const tsr_sharding *sharding,
                          tsr__error *error)
{
  const tsr__read_column *column;
  /* It failed to open, which is said already. */
  tsr_status status = open_together(df, &reader, sharding, error);
  if (status && reader.file) reader.ops->close(reader.file);
  if (status) return status;
  /* A column may be read twice, pushed and whole: room for two dictionaries of it. */
  df->source = tsr__source_new(df->node.scope, 2 * reader.ops->columns(reader.file, &column));
  if (!df->source) {
    reader.ops->close(reader.file);
    return tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  }
  df->source->reader = reader;
  df->source->sharding = *sharding;
  df->source->path = reader.ops->path(reader.file);
  return tsr__file_schema(df, error);
}

/* Options of users and of the reader are two structs: io/ stands below frames. */
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

static uint64_t hash_text(const char *text, uint64_t hash)
{
  return text ? tsr__hash(text, strlen(text) + 1, hash) : hash + 1;
}

/* All that decides what is read, but the paths: those may differ from host to host. */
static uint64_t hash_csv(const tsr_csv_opts *opts)
{
  const int64_t numbers[] = { opts->separator,  opts->comment,    opts->no_header,
                              opts->text_nulls, opts->skip_rows,  opts->decimal_comma,
                              opts->bad_rows,   opts->more_count, opts->unique_names };
  uint64_t hash = tsr__hash(numbers, sizeof numbers, 1);
  hash = hash_text(opts->names, hash);
  hash = hash_text(opts->columns, hash);
  return hash_text(opts->nulls, hash_text(opts->types, hash));
}

static uint64_t hash_json(const tsr_json_opts *opts)
{
  const int64_t numbers[] = { opts->bad_rows, opts->more_count };
  return hash_text(opts->types, hash_text(opts->columns, tsr__hash(numbers, sizeof numbers, 1)));
}

static tsr_status open_csv(tsr_frame *df, const char *path, const tsr_csv_opts *opts,
                           tsr__error *error)
{
  /* Options first: a mistake in them is told before a file is opened. */
  tsr_sharding rows;
  tsr_csv_opts all = { 0 };
  if (!path)
    tsr__error_set(error, TSR_EARG, "%s: the path is NULL; give the path of a file", df->what);
  if (error->status || tsr__take_opts(df->what, opts, &all, sizeof all, error) ||
      tsr__scan_sharding(df, &all.on, &rows, error))
    return refuse_open(df, &all.on, error);
  tsr__csv_opts how = reading_of(&all);
  df->asked = hash_csv(&all);
  tsr__csv *csv = tsr__csv_open_with(df->node.scope->rt, path, &how, error);
  /* The frame owns the file from here on, after an error too: its scope closes it. */
  if (tsr__scan_take(df, (tsr__reader){ &tsr__csv_reader, csv }, &rows, error))
    return error->status;
  /* Only known once all is well. */
  if (all.bad_rows_found) *all.bad_rows_found = tsr__csv_bad_rows(csv);
  return TSR_OK;
}

/* Whatever is wrong, the frame itself is returned, inert: it owns what was opened. */
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

/* The type of a word, as in "a: f32". */
static tsr_status type_named(const char *what, const char *word, tsr_coltype *out,
                             tsr__error *error)
{
  int type = tsr__type_named(word);
  if (type < 0)
    return tsr__error_set(error, TSR_EARG,
                          "%s, types: '%.40s' is not a type; expected bool, i8 ... i64, u8 ... "
                          "u64, f16, bf16, f32, f64, date, time or text",
                          what, word);
  *out = (tsr_coltype)type;
  return TSR_OK;
}

/* The lists of the options, in an arena. */
static tsr_status json_lists(tsr__arena *arena, const tsr_json_opts *opts, tsr__json_opts *out,
                             tsr__error *error)
{
  tsr__option_list columns, types;
  if (tsr__option_list_read(arena, &(tsr__option_list_ask){ "columns", opts->columns, false },
                            &columns, error) ||
      tsr__option_list_read(arena, &(tsr__option_list_ask){ "types", opts->types, true }, &types,
                            error))
    return error->status;
  /* One more than needed, so that empty lists are no failed allocation. */
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

/* A list that cannot be read ends as a file that cannot be opened does, so that other processes
 * learn of it. */
static tsr_status open_json(tsr_frame *df, const char *path, const tsr_json_opts *opts,
                            tsr__error *error)
{
  tsr_sharding rows;
  tsr_runtime *rt = df->node.scope->rt;
  tsr_json_opts all = { 0 };
  if (!path)
    tsr__error_set(error, TSR_EARG, "%s: the path is NULL; give the path of a file", df->what);
  if (error->status || tsr__take_opts(df->what, opts, &all, sizeof all, error))
    return refuse_open(df, &all.on, error);
  tsr__json_opts how = { .bad_rows = (tsr__json_bad)all.bad_rows,
                         .more = all.more,
                         .more_count = all.more_count,
                         .literal_path = all.literal_path,
                         .unpack_limit = all.unpack_limit };
  if (tsr__scan_sharding(df, &all.on, &rows, error)) return refuse_open(df, &all.on, error);
  df->asked = hash_json(&all);
  /* The lists are read while the file is opened and not needed afterwards. */
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

/* ---- text from memory ---------------------------------------------------------------------- */

/* Codes in order of first appearance; NULL is a null of code 0. The dictionary is the caller's;
 * NULL: no memory. */
tsr__dict *tsr__texts_encode(tsr_runtime *rt, const char *const *texts, int64_t count,
                             int32_t *codes, uint8_t *valid)
{
  tsr__dict_local local;
  tsr__dict_local_init(&local, &rt->heap);
  local.layout = tsr__text_layout_asked();
  for (int64_t i = 0; i < count; i++) {
    bool added;
    valid[i] = texts[i] != NULL;
    /* Not copied: the texts stay where they are until one dictionary is made of them. */
    codes[i] = texts[i] ? tsr__dict_code(&local, texts[i], strlen(texts[i]), false, &added) : 0;
  }
  tsr__dict_local *all[] = { &local };
  tsr__dict *dict = local.failed ? NULL : tsr__dict_unify(&rt->heap, all, 1);
  int32_t run = 0;
  for (int64_t i = 0; dict && dict->repeats && i < count; i++)
    if (valid[i]) codes[i] = tsr__dict_final(&local, codes[i], &run);
  tsr__dict_local_free(&local);
  return dict;
}

static tsr_status check_texts(const tsr_frame *df, const char *const *texts, int64_t count,
                              tsr__error *error)
{
  /* Several columns of text stand on each other; below them stands what has rows. */
  const tsr_frame *source = df->parent;
  while (source->kind == TSR__FRAME_TEXT) source = source->parent;
  if (source->kind != TSR__FRAME_ARRAYS)
    return tsr__error_set(error, TSR_EUNSUPPORTED,
                          "%s: only frames made by tsr_frame_new take text "
                          "columns",
                          df->what);
  if (count != source->source->rows || (count && !texts))
    return tsr__error_set(error, TSR_ESHAPE,
                          "%s: %lld texts, expected %lld: one per row of the frame", df->what,
                          (long long)(texts ? count : 0), (long long)source->source->rows);
  /* Checked once, here: what reads texts later takes them for UTF-8. */
  for (int64_t i = 0; i < count; i++)
    if (texts[i] && !tsr__utf8_valid(texts[i], strlen(texts[i])))
      return tsr__error_set(error, TSR_EPARSE, "%s: text %lld is not UTF-8", df->what,
                            (long long)i);
  return TSR_OK;
}

/* Codes and validity lie as the frame's rows do, so that formulas of text and numbers need no move.
 * Putting copies, so that both lists go at the end. */
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
  /* One column, of which the node is the frame. */
  df->source = tsr__source_new(scope, 1);
  if (dict && df->source) {
    tsr_sharding rows = source->source->sharding;
    tsr_shape shape = { 1, { count } };
    df->source->sharding = rows;
    rows.rank = rows.rank ? 1 : 0; /* the canonical form names dims that there are not */
    /* From here on the source releases the dictionary. */
    df->source->dicts[df->source->dict_count++] = dict;
    df->source->rows = count;
    tsr__col *col = &df->source->col[0];
    *col = (tsr__col){ .type = TSR_COL_TEXT, .dict = dict };
    col->values = tsr_put_at(scope, codes, TSR_I32, shape, rows, df->node.site);
    /* Without a null there is no validity to look at. */
    if (count && memchr(valid, 0, (size_t)count))
      col->valid = tsr_put_at(scope, valid, TSR_BOOL, shape, rows, df->node.site);
    if (col->values->inert || (col->valid && col->valid->inert))
      tsr__error_set(error, tsr_scope_status(scope), "%s", df->what);
  } else {
    if (dict) tsr__dict_release(dict);
    tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", df->what);
  }
  tsr__del(&scope->rt->heap, codes, bytes * sizeof *codes);
  tsr__del(&scope->rt->heap, valid, bytes);
  return error->status;
}

/* A frame of its own for each column, on the one before (check_texts). */
tsr_frame *tsr_frame_text_column_at(tsr_frame *df, const char *name, const char *const *texts,
                                    int64_t count, const char *site)
{
  const char *what = "tsr_frame_text_column";
  tsr__error error = { 0 };
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
