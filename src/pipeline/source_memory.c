/* Sources in host memory: the program's own, an archive's, arrays', and numbers that are counted.
 *
 *   column 0: | r0 | r1 | r2 | ...     records lie one after the other, `bytes` each
 *
 * A record is read by one copy a field. Records of other positions than the last are asked for in
 * any order, so memory is touched a few records ahead of the copy. */
#include "execute/execute.h"
#include "io/npy/npyfile.h"
#include "io/npy/zip.h"
#include "pipeline/records.h"

typedef struct memory_source {
  tsr_source source;
  const char *label; /* the file, or "" */
  const char **data; /* by column */
  /* Blocks that are its own, by column; NULL: borrowed. */
  char **block;
  size_t *block_size;
  tsr__npy_file file; /* of a .npy file that is read when asked; fd -1: none */
} memory_source;

enum { AHEAD = 8, LINE = 64, TOUCHED = 512 };

/* Asks for the memory of a record, up to a page of it: beyond, the processor sees the stream. */
static inline void touch(const char *data, size_t bytes)
{
  for (size_t b = 0; b < bytes && b < TOUCHED; b += LINE) __builtin_prefetch(data + b);
}

static void copy_column(const char *data, size_t bytes, int column, const tsr__ask_rows *ask)
{
  for (int64_t i = 0; i < ask->count && i < AHEAD; i++)
    touch(data + (size_t)ask->at[i] * bytes, bytes);
  for (int64_t i = 0; i < ask->count; i++) {
    if (i + AHEAD < ask->count) touch(data + (size_t)ask->at[i + AHEAD] * bytes, bytes);
    memcpy(tsr__cell_of(ask, column, i), data + (size_t)ask->at[i] * bytes, bytes);
  }
}

static tsr_status read_memory(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  (void)error;
  const memory_source *m = (const memory_source *)source;
  for (int c = 0; c < source->column_count; c++)
    if (ask->cells[c].data) copy_column(m->data[c], source->columns[c].bytes, c, ask);
  return TSR_OK;
}

static void about_memory(const tsr_source *source, tsr__text *out)
{
  tsr__text_add(out, "%s", ((const memory_source *)source)->label);
}

static void release_memory(tsr_source *source)
{
  memory_source *m = (memory_source *)source;
  for (int c = 0; m->block && c < source->column_count; c++)
    tsr__del(&source->node.scope->rt->heap, m->block[c], m->block_size[c]);
}

static const tsr__records_ops memory_ops = { "memory", read_memory, NULL, about_memory,
                                             release_memory };
static const tsr__records_ops npz_ops = { "npz", read_memory, NULL, about_memory, release_memory };

static bool memory_lists(memory_source *m, tsr__arena *arena)
{
  size_t n = (size_t)m->source.column_count + 1;
  m->data = tsr__arena_new(arena, n * sizeof *m->data);
  m->block_size = tsr__arena_new(arena, n * sizeof *m->block_size);
  if (m->data && m->block_size) m->block = tsr__arena_new(arena, n * sizeof *m->block);
  return m->block;
}

/* Columns are found before there is a source, in one of these. */
typedef struct found {
  tsr_scope *scope;
  int count;
  int64_t records; /* -1: not known yet */
  tsr__column column[TSR_MAX_FIELDS];
  char *block[TSR_MAX_FIELDS];
  size_t block_size[TSR_MAX_FIELDS];
  const char *data[TSR_MAX_FIELDS];
} found;

static void drop_found(found *f)
{
  for (int i = 0; i < f->count; i++) tsr__del(&f->scope->rt->heap, f->block[i], f->block_size[i]);
}

static tsr_status check_found(const found *f, tsr__column *column, tsr__error *error)
{
  if (tsr__column_check(column, error)) return error->status;
  if (tsr__column_find(f->column, f->count, column->name) >= 0)
    return tsr__error_set(error, TSR_EARG,
                          "the name '%.80s' stands twice; fields need names that "
                          "differ",
                          column->name);
  return TSR_OK;
}

/* Takes the first dim off a shape: the number of records, which all columns share. */
static tsr_status found_records(found *f, tsr__column *column, tsr__error *error)
{
  tsr_shape *shape = &column->shape;
  if (!shape->rank)
    return tsr__error_set(error, TSR_ESHAPE,
                          "'%.80s' is one element without dims; its first dim counts the records",
                          column->name);
  int64_t records = shape->dims[0];
  if (f->records >= 0 && f->records != records)
    return tsr__error_set(error, TSR_ESHAPE,
                          "'%.80s' has %lld records and '%.80s' %lld; all fields need the same",
                          column->name, (long long)records, f->column[0].name,
                          (long long)f->records);
  f->records = records;
  memmove(shape->dims, shape->dims + 1, (size_t)--shape->rank * sizeof *shape->dims);
  shape->dims[shape->rank] = 0;
  return TSR_OK;
}

/* Makes the source; what was found is its own then, or gone. */
static tsr_source *memory_of(found *f, const tsr__records_ops *ops, const char *call,
                             const char *label, const char *site)
{
  tsr__records_make make = { call,     site, ops, sizeof(memory_source), f->records, f->column,
                             f->count, NULL, 0 };
  tsr_source *source = tsr__records_new(f->scope, &make);
  memory_source *m = (memory_source *)source;
  if (!source->inert) {
    m->label = tsr__arena_text(&f->scope->arena, label, strlen(label));
    if (m->label && memory_lists(m, &f->scope->arena)) {
      size_t n = (size_t)f->count;
      memcpy(m->data, f->data, n * sizeof *m->data);
      memcpy(m->block, f->block, n * sizeof *m->block);
      memcpy(m->block_size, f->block_size, n * sizeof *m->block_size);
      return source;
    }
    tsr__error error = { 0 };
    tsr__error_set(&error, TSR_ENOMEM, "no memory for the description of a source");
    source->inert = true;
    tsr__fail(f->scope, site, error.status, "%s: %s", call, error.text);
  }
  drop_found(f);
  return source;
}

/* ---- the program's memory -------------------------------------------------------------------- */

tsr_source *tsr_source_memory_at(tsr_scope *scope, int64_t count, const tsr_source_field *fields,
                                 int field_count, const char *site)
{
  tsr__error error = { 0 };
  found f = { .scope = scope, .records = count };
  if (count < 0)
    tsr__error_set(&error, TSR_EARG, "%lld records, expected 0 or more", (long long)count);
  else if (field_count < 1 || field_count > TSR_MAX_FIELDS || !fields)
    tsr__error_set(&error, TSR_EARG, "%d fields, expected 1 to %d", field_count, TSR_MAX_FIELDS);
  for (int i = 0; i < field_count && !error.status; i++) {
    tsr__column column = { .name = fields[i].name,
                           .dtype = fields[i].dtype,
                           .shape = fields[i].shape };
    if (check_found(&f, &column, &error)) break;
    if (!fields[i].data && count && column.bytes)
      tsr__error_set(&error, TSR_EARG, "field %.80s: data is NULL, expected %lld records",
                     column.name, (long long)count);
    f.data[f.count] = fields[i].data;
    f.column[f.count++] = column;
  }
  if (error.status) return tsr__records_refused(scope, site, "tsr_source_memory", &error);
  return memory_of(&f, &memory_ops, "tsr_source_memory", "", site);
}

/* ---- archives -------------------------------------------------------------------------------- */

/* The name without ".npy", with '_' for what names of fields have not; false for members that are
 * no arrays. */
static bool stem_of(tsr__arena *arena, const char *name, const char **stem)
{
  size_t length = strlen(name);
  if (length <= 4 || memcmp(name + length - 4, ".npy", 4) != 0) return false;
  char *own = tsr__arena_text(arena, name, length - 4);
  for (char *c = own; c && *c; c++)
    if (!tsr__name_char(*c)) *c = '_';
  *stem = own;
  return true;
}

/* A file's name without its folders: the same data may lie elsewhere when a state comes back. */
static const char *base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static tsr_status read_member(found *f, tsr__zip *zip, int member, tsr__error *error)
{
  tsr__column column = { 0 };
  tsr__npy npy;
  char *block;
  if (!stem_of(&f->scope->arena, zip->member[member].name, &column.name)) return TSR_OK;
  if (!column.name) return tsr__error_set(error, TSR_ENOMEM, "no memory for a name");
  if (f->count == TSR_MAX_FIELDS)
    return tsr__error_set(error, TSR_EARG,
                          "more than %d arrays; fields of a record are at most as "
                          "many",
                          TSR_MAX_FIELDS);
  if (tsr__zip_read(zip, member, &block, error)) return error->status;
  int64_t size = zip->member[member].size;
  if (!tsr__npy_in(zip->member[member].name, block, size, &npy, error)) {
    column.dtype = npy.dtype;
    column.shape = npy.shape;
    if (!found_records(f, &column, error) && !check_found(f, &column, error)) {
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

tsr_source *tsr_source_npz_at(tsr_scope *scope, const char *path, const char *site)
{
  tsr__error error = { 0 };
  found f = { .scope = scope, .records = -1 };
  tsr__zip zip;
  if (!scope || scope->inert) return tsr__records_refused(scope, site, NULL, NULL);
  tsr__progress progress = { .rt = scope->rt, .what = "npz" };
  if (!path) tsr__error_set(&error, TSR_EARG, "the path is NULL; give one");
  else if (!tsr__zip_open(&scope->rt->heap, path, &zip, &error)) {
    zip.progress = &progress;
    for (int i = 0; i < zip.count && !error.status; i++) read_member(&f, &zip, i, &error);
    tsr__zip_close(&zip);
    if (!error.status && !f.count) tsr__error_set(&error, TSR_EPARSE, "it holds no arrays");
    if (error.status) {
      drop_found(&f);
      tsr__error named = { 0 };
      bool has = strstr(error.text, path); /* what the archive's reader says names it itself */
      tsr__error_set(&named, error.status, "%s%s%s", has ? "" : path, has ? "" : ": ", error.text);
      return tsr__records_refused(scope, site, "tsr_source_npz", &named);
    }
  }
  if (error.status) return tsr__records_refused(scope, site, "tsr_source_npz", &error);
  return memory_of(&f, &npz_ops, "tsr_source_npz", base_name(path), site);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Copies one array of the tree to the host. */
static tsr_status fetch_array(found *f, tsr_array *a, const char *name, tsr__error *error)
{
  tsr__heap *heap = &f->scope->rt->heap;
  tsr__column column = { .name = name, .dtype = (tsr_dtype)a->dtype, .shape = a->shape };
  if (f->count == TSR_MAX_FIELDS)
    return tsr__error_set(error, TSR_EARG, "more than %d arrays", TSR_MAX_FIELDS);
  if (found_records(f, &column, error) || check_found(f, &column, error)) return error->status;
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

/* Leaves in order, under their paths. */
static tsr_status fetch_tree(found *f, tsr_array *tree, const char *path, tsr__error *error)
{
  if (!tsr_is_tree(tree)) return fetch_array(f, tree, *path ? path : "data", error);
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
  found f = { .scope = scope, .records = -1 };
  if (!scope || scope->inert) return tsr__records_refused(scope, site, NULL, NULL);
  if (!tree || tree->inert || tsr_eval_at(&tree, 1, site)) {
    if (!tree) tsr__error_set(&error, TSR_EARG, "the array is NULL; give one");
    return tsr__records_refused(scope, site, "tsr_source_arrays", &error);
  }
  fetch_tree(&f, tree, "", &error);
  if (!error.status && !f.count) tsr__error_set(&error, TSR_EARG, "the tree holds no arrays");
  if (!error.status) return memory_of(&f, &memory_ops, "tsr_source_arrays", "", site);
  drop_found(&f);
  return tsr__records_refused(scope, site, "tsr_source_arrays", &error);
}

/* ---- a .npy file ----------------------------------------------------------------------------- */

/* Neighbours in the question that are neighbours in the file and in the cells are one reading. */
static tsr_status read_file(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const memory_source *m = (const memory_source *)source;
  size_t bytes = source->columns[0].bytes;
  if (!ask->cells[0].data) return TSR_OK;
  for (int64_t i = 0, n; i < ask->count; i += n) {
    for (n = 1; i + n < ask->count && ask->at[i + n] == ask->at[i] + n; n++)
      if (tsr__cell_of(ask, 0, i + n) != tsr__cell_of(ask, 0, i) + (size_t)n * bytes) break;
    if (tsr__npy_read(&m->file, tsr__cell_of(ask, 0, i), ask->at[i] * (int64_t)bytes,
                      n * (int64_t)bytes, error))
      return error->status;
  }
  return TSR_OK;
}

static void release_file(tsr_source *source)
{
  tsr__npy_close(&((memory_source *)source)->file);
}

static const tsr__records_ops npy_ops = { "npy", read_file, NULL, about_memory, release_file };

tsr_source *tsr_source_npy_at(tsr_scope *scope, const char *path, const char *site)
{
  const char *call = "tsr_source_npy";
  tsr__error error = { 0 };
  found f = { .scope = scope, .records = -1 };
  tsr__npy_file file;
  tsr__npy npy;
  if (!scope || scope->inert) return tsr__records_refused(scope, site, NULL, NULL);
  if (!path) tsr__error_set(&error, TSR_EARG, "the path is NULL; give one");
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  const char *kept = tsr__arena_text(&scope->arena, path, strlen(path));
  if (!kept) tsr__error_set(&error, TSR_ENOMEM, "no memory for a path");
  else if (!tsr__npy_open(kept, &file, &npy, &error)) {
    tsr__column column = { .name = "data", .dtype = npy.dtype, .shape = npy.shape };
    if (found_records(&f, &column, &error) || check_found(&f, &column, &error))
      tsr__npy_close(&file);
    else f.column[f.count++] = column;
  }
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call, site, &npy_ops, sizeof(memory_source), f.records, f.column,
                             1,    NULL, 0 };
  tsr_source *source = tsr__records_new(scope, &make);
  if (source->inert) {
    tsr__npy_close(&file);
    return source;
  }
  ((memory_source *)source)->label = base_name(kept);
  ((memory_source *)source)->file = file;
  return source;
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

static const tsr__records_ops range_ops = { "range", read_range, NULL, about_range, NULL };

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
