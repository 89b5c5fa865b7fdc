/* Sources in host memory: the program's own, an archive's, arrays', and numbers that are counted.
 *
 *   column 0: | r0 | r1 | r2 | ...     records lie one after the other, `bytes` each
 *
 * A record is read by one copy a field. Records of other positions than the last are asked for in
 * any order, so memory is touched a few records ahead of the copy. */
#include "execute/execute.h"
#include "io/file/files.h"
#include "io/npy/npyfile.h"
#include "io/npy/zip.h"
#include "pipeline/memory_source.h"
#include "tessera/sources.h"

typedef struct memory_source {
  tsr_source source;
  const char *label;       /* the file, or "" */
  const char **data;       /* by column */
  const int64_t **offsets; /* by column: where a record of a ragged one begins, in elements */
  /* Blocks that are its own, by column; NULL: borrowed. */
  char **block;
  size_t *block_size;
} memory_source;

static void copy_column(const char *data, size_t bytes, int column, const tsr__ask_rows *ask)
{
  int64_t ahead = tsr__ahead(bytes);
  for (int64_t i = 0; i < ask->count && i < ahead; i++)
    tsr__touch(data + (size_t)ask->at[i] * bytes, bytes);
  for (int64_t i = 0; i < ask->count; i++) {
    if (i + ahead < ask->count) tsr__touch(data + (size_t)ask->at[i + ahead] * bytes, bytes);
    memcpy(tsr__cell_of(ask, column, i), data + (size_t)ask->at[i] * bytes, bytes);
  }
}

/* Positions are asked of the same record as often as somebody wants to: nothing is held, nothing
 * has to be given back, since the memory outlives the source. Of a ragged record it is what is
 * there without the zeros behind it; lengths lie nowhere. */
static bool lend_memory(const tsr_source *source, int column, const tsr__ask_rows *ask,
                        const char **to)
{
  const memory_source *m = (const memory_source *)source;
  const tsr__column *c = &source->columns[column];
  if (column && m->offsets[column - 1]) return false;
  if (!m->offsets[column]) {
    for (int64_t i = 0; i < ask->count; i++)
      to[i] = m->data[column] + (size_t)ask->at[i] * c->bytes;
    return true;
  }
  /* The zeros behind a record do not lie in memory: who needs them gets a copy. */
  if (!ask->partial) return false;
  size_t element = c->bytes / (size_t)c->shape.dims[0];
  for (int64_t i = 0; i < ask->count; i++)
    to[i] = m->data[column] + (size_t)m->offsets[column][ask->at[i]] * element;
  return true;
}

/* Records of a ragged column, and their lengths to the column behind it. Offsets were checked when
 * the source was made; memory that the program changes later is its own mistake, as for any memory
 * that is borrowed. */
static void copy_ragged(const memory_source *m, int column, const tsr__ask_rows *ask)
{
  const tsr__column *c = &m->source.columns[column];
  size_t element = c->bytes / (size_t)c->shape.dims[0];
  for (int64_t i = 0; i < ask->count; i++) {
    const int64_t *offset = m->offsets[column] + ask->at[i];
    size_t used = (size_t)(offset[1] - offset[0]) * element;
    /* The pointer may be NULL where no record has an element. */
    if (ask->cells[column].data && used)
      memcpy(tsr__cell_of(ask, column, i), m->data[column] + (size_t)offset[0] * element, used);
    tsr__ragged_end(&m->source, ask, column, i, (int64_t)used);
  }
}

/* No check of positions: those of a question are below `count`, by who asks. A ragged column has
 * its length behind it. */
static tsr_status read_memory(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  (void)error;
  const memory_source *m = (const memory_source *)source;
  for (int c = 0; c < source->column_count; c++) {
    if (m->offsets[c]) {
      if (ask->cells[c].data || ask->cells[c + 1].data) copy_ragged(m, c, ask);
      c++;
    } else if (ask->cells[c].data) copy_column(m->data[c], source->columns[c].bytes, c, ask);
  }
  return TSR_OK;
}

/* Nothing but the file's name: memory has none, and its contents are the program's word. */
static void about_memory(const tsr_source *source, tsr__text *out)
{
  tsr__text_add(out, "%s", ((const memory_source *)source)->label);
}

static void release_memory(tsr_source *source)
{
  memory_source *m = (memory_source *)source;
  /* Lists come from the arena in one order, `block` last: without it there is nothing to free. */
  for (int c = 0; m->block && c < source->column_count; c++)
    tsr__del(&source->node.scope->rt->heap, m->block[c], m->block_size[c]);
}

static const tsr__records_ops memory_ops = { "memory",       read_memory, NULL, about_memory,
                                             release_memory, lend_memory, NULL };
static const tsr__records_ops ragged_ops = { "ragged",       read_memory, NULL, about_memory,
                                             release_memory, lend_memory, NULL };
static const tsr__records_ops npz_ops = { "npz",          read_memory, NULL, about_memory,
                                          release_memory, lend_memory, NULL };

static bool memory_lists(memory_source *m, tsr__arena *arena)
{
  size_t n = (size_t)m->source.column_count + 1;
  m->data = tsr__arena_new(arena, n * sizeof *m->data);
  m->offsets = tsr__arena_new(arena, n * sizeof *m->offsets);
  m->block_size = tsr__arena_new(arena, n * sizeof *m->block_size);
  if (m->data && m->offsets && m->block_size)
    m->block = tsr__arena_new(arena, n * sizeof *m->block);
  return m->block;
}

void tsr__found_drop(tsr__found *f)
{
  for (int i = 0; i < f->count; i++) tsr__del(&f->scope->rt->heap, f->block[i], f->block_size[i]);
}

/* Before a column is added, so that `found` has only good ones to be dropped or taken over. */
static tsr_status check_found(const tsr__found *f, tsr__column *column, tsr__error *error)
{
  if (tsr__column_check(column, error)) return error->status;
  if (tsr__column_find(f->column, f->count, column->name) >= 0)
    return tsr__error_set(error, TSR_EARG,
                          "the name '%.80s' is given twice; give each field a name of its own",
                          column->name);
  return TSR_OK;
}

/* Makes the source; what was found is its own then, or gone. */
static tsr_source *memory_of(tsr__found *f, const tsr__records_ops *ops, const char *call,
                             const char *label, const char *site)
{
  tsr__records_make make = { call,     site, ops, sizeof(memory_source), f->records, f->column,
                             f->count, NULL, 0 };
  tsr_source *source = tsr__records_new(f->scope, &make);
  memory_source *m = (memory_source *)source;
  if (!source->inert) {
    /* Borrowed names of files end with the list of paths that they were found in. */
    m->label = tsr__arena_text(&f->scope->arena, label, strlen(label));
    if (m->label && memory_lists(m, &f->scope->arena)) {
      size_t n = (size_t)f->count;
      memcpy(m->data, f->data, n * sizeof *m->data);
      memcpy(m->offsets, f->offsets, n * sizeof *m->offsets);
      memcpy(m->block, f->block, n * sizeof *m->block);
      memcpy(m->block_size, f->block_size, n * sizeof *m->block_size);
      return source;
    }
    tsr__error error = { 0 };
    tsr__error_set(&error, TSR_ENOMEM, "no memory for the description of a source");
    source->inert = true;
    tsr__fail(f->scope, site, error.status, "%s: %s", call, error.text);
  }
  /* Blocks of an archive belong to nobody else yet. */
  tsr__found_drop(f);
  return source;
}

/* ---- the program's memory -------------------------------------------------------------------- */

static tsr_status check_lists(int64_t count, const void *fields, int columns, tsr__error *error)
{
  if (count < 0)
    return tsr__error_set(error, TSR_EARG, ".count is %lld records, expected 0 or more",
                          (long long)count);
  if (columns < 1 || columns > TSR__MAX_COLUMNS || !fields)
    return tsr__error_set(error, TSR_EARG, "%d fields, expected 1 to %d", columns,
                          TSR__MAX_COLUMNS);
  return TSR_OK;
}

tsr_source *tsr_source_memory_at(tsr_scope *scope, int64_t count, const tsr_source_field *fields,
                                 int field_count, const char *site)
{
  tsr__error error = { 0 };
  tsr__found f = { .scope = scope, .records = count };
  check_lists(count, fields, field_count, &error);
  for (int i = 0; i < field_count && !error.status; i++) {
    tsr__column column = { .name = fields[i].name,
                           .dtype = fields[i].dtype,
                           .shape = fields[i].shape };
    if (check_found(&f, &column, &error)) break;
    /* Of no records, or records of no bytes, nothing is ever read. */
    if (!fields[i].data && count && column.bytes)
      tsr__error_set(&error, TSR_EARG, "field %.80s: data is NULL, expected %lld records",
                     column.name, (long long)count);
    f.data[f.count] = fields[i].data;
    f.column[f.count++] = column;
  }
  if (error.status) return tsr__records_refused(scope, site, "tsr_source_memory", &error);
  return memory_of(&f, &memory_ops, "tsr_source_memory", "", site);
}

/* The most elements that a record has; -1 with the error set. */
static int64_t longest_of(const tsr_ragged_field *field, int64_t count, tsr__error *error)
{
  int64_t longest = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t from = field->offsets[i], to = field->offsets[i + 1];
    if (from < 0 || to < from) {
      tsr__error_set(error, TSR_EARG,
                     "field %.80s: record %lld lies from %lld to %lld, expected offsets that begin "
                     "at 0 or more and never fall",
                     field->name, (long long)i, (long long)from, (long long)to);
      return -1;
    }
    if (to - from > longest) longest = to - from;
  }
  return longest;
}

tsr_status tsr__found_ragged(tsr__found *f, const tsr_ragged_field *field, tsr__error *error)
{
  tsr__column columns[2] = {
    { .name = field->name, .dtype = field->dtype, .shape = field->shape }
  };
  if (tsr__column_check(&columns[0], error)) return error->status;
  if (f->count + 2 > TSR__MAX_COLUMNS)
    return tsr__error_set(error, TSR_EARG, "more than %d fields, counting the fields of lengths",
                          TSR__MAX_COLUMNS);
  if (f->records && (!field->offsets || (!field->data && field->offsets[f->records])))
    return tsr__error_set(error, TSR_EARG, "field %.80s: %s is NULL, expected %lld records",
                          field->name, field->offsets ? "data" : "offsets", (long long)f->records);
  int64_t longest = longest_of(field, f->records, error);
  if (error->status || tsr__ragged_columns(&f->scope->arena, columns, longest, error) ||
      check_found(f, &columns[0], error) || check_found(f, &columns[1], error))
    return error->status;
  f->offsets[f->count] = field->offsets;
  f->data[f->count] = field->data;
  f->column[f->count++] = columns[0];
  f->column[f->count++] = columns[1];
  return TSR_OK;
}

tsr_source *tsr_source_ragged_at(tsr_scope *scope, int64_t count, const tsr_ragged_field *fields,
                                 int field_count, const char *site)
{
  const char *call = "tsr_source_ragged";
  tsr__error error = { 0 };
  tsr__found f = { .scope = scope, .records = count };
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  check_lists(count, fields, 2 * field_count, &error);
  for (int i = 0; i < field_count && !error.status; i++) tsr__found_ragged(&f, &fields[i], &error);
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  return memory_of(&f, &ragged_ops, call, "", site);
}

/* ---- archives -------------------------------------------------------------------------------- */

/* The length of a name without ".npy"; -1 for members that are no arrays. */
static int64_t stem_of(const char *name)
{
  size_t length = strlen(name);
  /* Archives may hold anything beside arrays; it is left out, as by NumPy. */
  return length > 4 && !memcmp(name + length - 4, ".npy", 4) ? (int64_t)length - 4 : -1;
}

/* A file's name without its folders: the same data may lie elsewhere when a state comes back. */
static const char *base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static tsr_status read_member(tsr__found *f, tsr__zip *zip, int member, tsr__chosen *names,
                              tsr__error *error)
{
  tsr__column column = { 0 };
  tsr__npy npy;
  char *block;
  int64_t stem = stem_of(zip->member[member].name);
  if (stem < 0) return TSR_OK;
  column.name = tsr__chosen_name(names, zip->member[member].name, (size_t)stem);
  if (!column.name) return tsr__error_set(error, TSR_ENOMEM, "no memory for a name");
  if (!*column.name && names->list.count) return TSR_OK;
  if (f->count == TSR__MAX_COLUMNS)
    return tsr__error_set(
        error, TSR_EARG,
        "more than %d arrays, the most fields a record can have; choose some with .names",
        TSR__MAX_COLUMNS);
  if (tsr__zip_read(zip, member, &block, error)) return error->status;
  int64_t size = zip->member[member].size;
  if (!tsr__npy_in(zip->member[member].name, block, size, &npy, error)) {
    column.dtype = npy.dtype;
    column.shape = npy.shape;
    if (!tsr__column_records(&column, &f->records, error) && !check_found(f, &column, error)) {
      f->data[f->count] = npy.data;
      f->block[f->count] = block;
      f->block_size[f->count] = (size_t)size + 1;
      f->column[f->count++] = column;
      return TSR_OK;
    }
  }
  tsr__del(&f->scope->rt->heap, block, (size_t)size + 1);
  return error->status;
}

static tsr_source *npz_of(tsr_scope *scope, const char *path, const char *names, const char *site)
{
  tsr__error error = { 0 };
  tsr__found f = { .scope = scope, .records = -1 };
  tsr__zip zip;
  tsr__progress progress = { .rt = scope->rt, .what = "npz" };
  tsr__chosen chosen;
  if (!tsr__chosen_open(&chosen, &scope->arena, names, &error) &&
      !tsr__zip_open(&scope->rt->heap, path, &zip, &error)) {
    zip.progress = &progress;
    for (int i = 0; i < zip.count && !error.status; i++) read_member(&f, &zip, i, &chosen, &error);
    tsr__zip_close(&zip);
    if (!error.status) tsr__chosen_check(&chosen, &error);
    if (!error.status && !f.count) tsr__error_set(&error, TSR_EPARSE, "the file holds no arrays");
    if (error.status) {
      tsr__found_drop(&f);
      tsr__error named = { 0 };
      bool has = strstr(error.text, path); /* what the archive's reader says names it itself */
      tsr__error_set(&named, error.status, "%s%s%s", has ? "" : path, has ? "" : ": ", error.text);
      return tsr__records_refused(scope, site, "tsr_source_npz", &named);
    }
  }
  if (error.status) return tsr__records_refused(scope, site, "tsr_source_npz", &error);
  return memory_of(&f, &npz_ops, "tsr_source_npz", base_name(path), site);
}

/* Several archives are one source behind the other. */
tsr_source *tsr_source_npz_with(tsr_scope *scope, const char *path, const tsr_npz_args *given,
                                const char *site)
{
  tsr_npz_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__paths paths;
  if (!scope || scope->inert) return tsr__records_refused(scope, site, "tsr_source_npz", NULL);
  tsr__path_ask ask = { .path = path };
  if (!tsr__take_opts("tsr_source_npz", given, &args, sizeof args, &error) && !path)
    tsr__error_set(&error, TSR_EARG, "the path is NULL; give the path of a file");
  if (error.status || tsr__paths_find(&scope->rt->heap, &ask, &paths, &error))
    return tsr__records_refused(scope, site, "tsr_source_npz", &error);
  tsr_source *made = NULL, **all = NULL;
  if (paths.count == 1) made = npz_of(scope, paths.path[0], args.names, site);
  else all = tsr__arena_new(&scope->arena, (size_t)paths.count * sizeof *all);
  for (int i = 0; all && i < paths.count && !made; i++) {
    all[i] = npz_of(scope, paths.path[i], args.names, site);
    if (all[i]->inert) made = all[i];
  }
  if (!made && all) made = tsr_source_concat_at(all, paths.count, site);
  if (!made) {
    tsr__error_set(&error, TSR_ENOMEM, "no memory for a list of files");
    made = tsr__records_refused(scope, site, "tsr_source_npz", &error);
  }
  tsr__paths_free(&paths);
  return made;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

tsr_status tsr__found_array(tsr__found *f, tsr_array *a, const char *name, tsr__error *error)
{
  tsr__heap *heap = &f->scope->rt->heap;
  tsr__column column = { .name = name, .dtype = (tsr_dtype)a->dtype, .shape = a->shape };
  if (f->count == TSR__MAX_COLUMNS)
    return tsr__error_set(error, TSR_EARG, "more than %d arrays, the most fields a record can have",
                          TSR__MAX_COLUMNS);
  if (tsr__column_records(&column, &f->records, error) || check_found(f, &column, error))
    return error->status;
  size_t size = column.bytes * (size_t)f->records + 1;
  char *block = tsr__new_raw(heap, size);
  if (!block)
    return tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes of '%.80s'", size, name);
  if (tsr__value_fetch(a->value, block, "tsr_source_arrays", error)) {
    tsr__del(heap, block, size);
    return error->status;
  }
  f->data[f->count] = f->block[f->count] = block;
  f->block_size[f->count] = size;
  f->column[f->count++] = column;
  return TSR_OK;
}

tsr_source *tsr__found_source(tsr__found *f, const char *call, const char *site)
{
  return memory_of(f, &memory_ops, call, "", site);
}

/* Leaves in order, under their paths. */
static tsr_status fetch_tree(tsr__found *f, tsr_array *tree, const char *path, tsr__error *error)
{
  if (!tsr_is_tree(tree)) return tsr__found_array(f, tree, *path ? path : "data", error);
  for (int i = 0; i < tsr_item_count(tree) && !error->status; i++) {
    tsr__text name;
    char number[16];
    tsr__text_init(&name, &f->scope->rt->heap);
    const char *own = tsr_item_name(tree, i);
    if (!own) number[tsr__text_i64(number, i)] = 0;
    tsr__text_add(&name, "%s%s%s", path, *path ? "_" : "", own ? own : number);
    const char *kept =
        name.failed ? NULL : tsr__arena_text(&f->scope->arena, tsr__text_get(&name), name.length);
    tsr__text_free(&name);
    if (!kept) return tsr__error_set(error, TSR_ENOMEM, "no memory for a name");
    fetch_tree(f, tsr_item_at(tree, i, NULL), kept, error);
  }
  return error->status;
}

tsr_source *tsr_source_arrays_at(tsr_scope *scope, tsr_array *tree, const char *site)
{
  tsr__error error = { 0 };
  tsr__found f = { .scope = scope, .records = -1 };
  if (!scope || scope->inert) return tsr__records_refused(scope, site, "tsr_source_arrays", NULL);
  if (!tree || tree->inert || tsr_eval_at(&tree, 1, site)) {
    if (!tree) tsr__error_set(&error, TSR_EARG, "the array is NULL; give one");
    return tsr__records_refused(scope, site, "tsr_source_arrays", &error);
  }
  fetch_tree(&f, tree, "", &error);
  if (!error.status && !f.count) tsr__error_set(&error, TSR_EARG, "the tree holds no arrays");
  if (!error.status) return tsr__found_source(&f, "tsr_source_arrays", site);
  tsr__found_drop(&f);
  return tsr__records_refused(scope, site, "tsr_source_arrays", &error);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static tsr_status read_range(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  (void)source, (void)error;
  for (int64_t i = 0; ask->cells[0].data && i < ask->count; i++)
    memcpy(tsr__cell_of(ask, 0, i), &ask->at[i], sizeof *ask->at);
  return TSR_OK;
}

static void about_range(const tsr_source *source, tsr__text *out)
{
  (void)source, (void)out;
}

static const tsr__records_ops range_ops = {
  "range", read_range, NULL, about_range, NULL, NULL, NULL
};

tsr_source *tsr_source_range_at(tsr_scope *scope, int64_t count, const char *site)
{
  tsr__error error = { 0 };
  if (count < 0 || count >= INT64_C(1) << 62)
    tsr__error_set(&error, TSR_EARG, "%lld records, expected 0 to 2^62 - 1", (long long)count);
  if (error.status) return tsr__records_refused(scope, site, "tsr_source_range", &error);
  tsr__column column = { .name = "index", .dtype = TSR_I64, .bytes = sizeof(int64_t) };
  tsr__records_make make = {
    "tsr_source_range", site, &range_ops, sizeof(tsr_source), count, &column, 1, NULL, 0
  };
  return tsr__records_new(scope, &make);
}
