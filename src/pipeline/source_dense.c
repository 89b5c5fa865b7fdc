/* Files of arrays whose first dim counts the records: .npy and safetensors.
 *
 *   file 0  | header | a: r0 r1 r2 | b: r0 r1 r2 |      file 1 | header | b: r3 | a: r3 |
 *
 * A file's marks are where the data of each column begins in it. Records are read from there when
 * they are asked for; neighbours in the question that are neighbours in the cells are one
 * reading. */
#include <errno.h>

#include "io/file/files.h"
#include "io/file/system.h"
#include "io/json/json_inner.h"
#include "io/npy/npyfile.h"
#include "pipeline/record_files.h"
#include "tessera/sources.h"

enum { HEADER_MOST = 100000000 }; /* bytes, as the format's own reader has it */

typedef struct dense_source {
  tsr_source source;
  tsr__record_files files;
} dense_source;

/* The columns while files are walked along: those of the first file, which the others repeat. */
typedef struct dense_walk {
  tsr__arena *arena;
  tsr__chosen names;
  tsr__column column[TSR__MAX_COLUMNS];
  int count;
  bool done; /* with the first file */
} dense_walk;

/* ---- columns --------------------------------------------------------------------------------- */

/* Which column an array of a file is; -1 with the error set. Its first dim is the file's number of
 * records, `first` where it is the first array of it. */
static int place_array(dense_walk *d, tsr__file_walk *w, tsr__column *column, bool first,
                       tsr__error *error)
{
  /* Each file has its own number of records; only what a record is must be the same in all. */
  int64_t records = first ? -1 : w->records;
  if (tsr__column_records(column, &records, error)) return -1;
  w->records = records;
  int c = tsr__column_find(d->column, d->count, column->name);
  if (!d->done && c >= 0)
    tsr__error_set(error, TSR_EPARSE,
                   "two arrays would be called '%.80s'; give each a name of its own", column->name);
  else if (!d->done && d->count == TSR__MAX_COLUMNS)
    tsr__error_set(error, TSR_EARG,
                   "more than %d arrays, the most fields a record can have; name fewer",
                   TSR__MAX_COLUMNS);
  else if (!d->done && !tsr__column_check(column, error)) d->column[c = d->count++] = *column;
  else if (!error->status && c >= 0) {
    const tsr__column *is = &d->column[c];
    if (is->dtype != column->dtype || !tsr__shape_same(&is->shape, &column->shape))
      tsr__error_set(error, TSR_ESHAPE,
                     "a record of '%.80s' has another type than in the first file", column->name);
  }
  return error->status ? -1 : c;
}

/* ---- .npy ------------------------------------------------------------------------------------ */

static tsr_status walk_npy(tsr__file_walk *w, tsr__error *error)
{
  dense_walk *d = w->user;
  tsr__npy_file file;
  tsr__npy npy;
  tsr__error cause = { 0 };
  if (tsr__npy_open(w->file->path, &file, &npy, error)) return error->status;
  tsr__column column = { .name = "data", .dtype = npy.dtype, .shape = npy.shape };
  int c = place_array(d, w, &column, true, &cause);
  if (c >= 0) tsr__walk_mark(w, file.data_at, &cause);
  tsr__npy_close(&file);
  if (cause.status == TSR_ESHAPE && d->done)
    return tsr__error_set(error, cause.status, "%s: %s", w->file->path, cause.text);
  if (cause.status) *error = cause;
  d->done = true;
  return error->status;
}

static const tsr__file_format npy_format = { "npy", walk_npy, NULL, TSR__NEVER_PACKED, NULL, NULL };

/* ---- safetensors ----------------------------------------------------------------------------- */

/* An array as the header has it. */
typedef struct tensor {
  tsr__column column;
  int64_t begin, end; /* behind the header */
  int parts;          /* of dtype, shape and data_offsets that were there */
} tensor;

static tsr_status broken(const char *why, tsr__error *error)
{
  return tsr__error_set(error, TSR_EPARSE,
                        "its header %s; the file is not a safetensors file, or is damaged", why);
}

/* Whole numbers of 0 or more in a list; how many, or -1. */
static int take_list(const tsr__json_token *list, int64_t *out, int most)
{
  tsr__json_cursor cursor = { .at = list->at, .end = list->at + list->length };
  tsr__json_token item;
  int more, count = 0;
  if (list->kind != TSR__JSON_IS_NESTED) return -1;
  for (; (more = tsr__json_item(&cursor, &item)) == 1; count++) {
    if (count == most || item.kind != TSR__JSON_IS_NUMBER) return -1;
    out[count] = 0;
    for (size_t i = 0; i < item.length; i++) {
      bool digit = item.at[i] >= '0' && item.at[i] <= '9';
      /* Below this neither the next digit nor a sum of two places overflows. */
      if (!digit || out[count] > INT64_MAX / 100) return -1;
      out[count] = out[count] * 10 + (item.at[i] - '0');
    }
  }
  return more < 0 ? -1 : count;
}

/* "F32" is f32 here. */
static bool dtype_of(const tsr__json_token *text, tsr_dtype *out)
{
  char name[8] = { 0 };
  if (text->kind != TSR__JSON_IS_TEXT || text->escaped || text->length >= sizeof name) return false;
  for (size_t i = 0; i < text->length; i++) {
    char c = text->at[i];
    name[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  /* Names that are not ours (F8_E4M3, ...) fall through: an array of them can be left out by name.
   * */
  for (int d = TSR_BOOL; d <= TSR_F64; d++)
    if (!strcmp(tsr_dtype_name((tsr_dtype)d), name)) {
      *out = (tsr_dtype)d;
      return true;
    }
  return false;
}

/* Keys with escapes are none of the format's own. */
static bool key_is(const tsr__json_token *key, const char *name)
{
  return !key->escaped && key->length == strlen(name) && !memcmp(key->at, name, key->length);
}

/* "name": { "dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24] }
 *
 * Each of the three once, in any order; other keys are left to those who know them. */
static tsr_status take_tensor(const tsr__json_token *value, tensor *t, tsr__error *error)
{
  tsr__json_cursor cursor = { .at = value->at, .end = value->at + value->length };
  tsr__json_token key, item;
  int more = 0;
  while (!error->status && (more = tsr__json_next(&cursor, &key, &item)) == 1) {
    int64_t offsets[2];
    if (key_is(&key, "dtype")) {
      if (!dtype_of(&item, &t->column.dtype))
        return tsr__error_set(error, TSR_EDTYPE, "'%.80s' has dtype %.*s, which is not supported",
                              t->column.name, (int)(item.length < 16 ? item.length : 16), item.at);
    } else if (key_is(&key, "shape")) {
      t->column.shape.rank = take_list(&item, t->column.shape.dims, TSR_MAX_RANK);
      if (t->column.shape.rank < 0) return broken("has a shape that is not a list of sizes", error);
    } else if (key_is(&key, "data_offsets")) {
      if (take_list(&item, offsets, 2) != 2)
        return broken("has data_offsets that are not two numbers", error);
      t->begin = offsets[0];
      t->end = offsets[1];
    } else continue;
    t->parts++;
  }
  return more < 0 || t->parts != 3
             ? broken("describes an array without dtype, shape or data_offsets", error)
             : TSR_OK;
}

/* Whether an array's bytes are what its shape says, and lie in the file. */
static bool has_room(const tensor *t, int64_t data)
{
  int64_t count = tsr__shape_count(&t->column.shape),
          size = (int64_t)tsr_dtype_size(t->column.dtype);
  /* Numbers of the header are a stranger's: only here do they become bytes that are read. */
  if (count < 0 || __builtin_mul_overflow(count, size, &count)) return false;
  return t->begin <= t->end && t->end <= data && t->end - t->begin == count;
}

/* As tsr__chosen_name, of a name as it stands in the header. */
static const char *field_name(dense_walk *d, const tsr__json_token *key)
{
  char *name = tsr__arena_new(d->arena, key->length + 1);
  return name ? tsr__chosen_name(&d->names, name, tsr__json_unescape(key, name)) : NULL;
}

/* Arrays of a header to the marks of the file: -1 of those that are not there. */
static tsr_status take_header(tsr__file_walk *w, const char *text, int64_t length, int64_t *places,
                              tsr__error *error)
{
  dense_walk *d = w->user;
  tsr__json_cursor cursor = { .at = text, .end = text + length };
  tsr__json_token key, value;
  int more = 0;
  bool first = true;
  while (!error->status && (more = tsr__json_next(&cursor, &key, &value)) == 1) {
    /* The one key of the format that is no array. */
    if (key_is(&key, "__metadata__")) continue;
    tensor t = { .column.name = field_name(d, &key) };
    if (!t.column.name) return tsr__error_set(error, TSR_ENOMEM, "no memory for a name");
    if (!*t.column.name && d->names.list.count) continue;
    if (take_tensor(&value, &t, error)) break;
    if (!has_room(&t, w->file->size - 8 - length))
      return tsr__error_set(error, TSR_EPARSE,
                            "'%.80s' has another number of bytes than its shape needs, or lies "
                            "after the end of the file",
                            t.column.name);
    int c = place_array(d, w, &t.column, first, error);
    first = false;
    if (c >= 0) places[c] = 8 + length + t.begin;
  }
  return more < 0 ? broken("is not JSON", error) : error->status;
}

static tsr_status walk_header(tsr__file_walk *w, tsr__error *error)
{
  dense_walk *d = w->user;
  tsr__heap *heap = &w->files->rt->heap;
  int64_t places[TSR__MAX_COLUMNS];
  uint64_t length = 0;
  const unsigned char *head = w->file->size < 8 ? NULL : tsr__walk_look(w, 0, 8, NULL, error);
  if (error->status) return error->status;
  for (int i = 0; head && i < 8; i++) length |= (uint64_t)head[i] << 8 * i;
  /* Before memory is taken for it. */
  if (!head || length > (uint64_t)w->file->size - 8 || length > HEADER_MOST)
    return broken("has an impossible length", error);
  char *text = tsr__new_raw(heap, (size_t)length + 1);
  if (!text) return tsr__error_set(error, TSR_ENOMEM, "no memory for the header");
  for (int c = 0; c < TSR__MAX_COLUMNS; c++) places[c] = -1;
  /* Headers may be longer than a window, so it is not looked at through one. */
  int64_t got = tsr__sys_read_all(w->fd, text, (size_t)length, 8);
  if (got < 0) tsr__file_error(w->file->path, "read", errno, error);
  else if (got != (int64_t)length) tsr__error_set(error, TSR_EIO, "its header cannot be read");
  else take_header(w, text, (int64_t)length, places, error);
  tsr__del(heap, text, (size_t)length + 1);
  for (int c = 0; c < d->count && !error->status; c++) {
    if (places[c] >= 0) tsr__walk_mark(w, places[c], error);
    else tsr__error_set(error, TSR_EPARSE, "there is no array '%.80s'", d->column[c].name);
  }
  if (!d->done && !error->status) tsr__chosen_check(&d->names, error);
  if (!d->count && !error->status) tsr__error_set(error, TSR_EPARSE, "the file has no arrays");
  d->done = true;
  return error->status;
}

static tsr_status walk_safetensors(tsr__file_walk *w, tsr__error *error)
{
  tsr__error cause = { 0 };
  if (!walk_header(w, &cause)) return TSR_OK;
  /* Readers of bytes name the file themselves, those of the header do not. */
  bool has = strstr(cause.text, w->file->path);
  return tsr__error_set(error, cause.status, "%s%s%s", has ? "" : w->file->path, has ? "" : ": ",
                        cause.text);
}

static const tsr__file_format safetensors_format = { "safetensors", walk_safetensors,
                                                     NULL,          TSR__NEVER_PACKED,
                                                     NULL,          NULL };

/* ---- reading --------------------------------------------------------------------------------- */

static tsr_status read_column(const dense_source *s, const tsr__ask_rows *ask, int column,
                              tsr__error *error)
{
  int64_t bytes = (int64_t)s->source.columns[column].bytes;
  for (int64_t i = 0, n; i < ask->count && bytes && !error->status; i += n) {
    tsr__error cause = { 0 };
    int64_t record = ask->at[i];
    int file = tsr__record_files_find(&s->files, record);
    char *to = tsr__cell_of(ask, column, i);
    /* One reading for a run straight to the cells: the file must go on, and so must the rows. */
    for (n = 1; i + n < ask->count && ask->at[i + n] == record + n; n++)
      if (record + n == s->files.file[file + 1].first ||
          tsr__cell_of(ask, column, i + n) != to + n * bytes)
        break;
    int64_t at =
        tsr__record_marks(&s->files, file)[column] + (record - s->files.file[file].first) * bytes;
    if (tsr__record_files_read(&s->files, (tsr__record_place){ file, at, n * bytes }, to, &cause))
      tsr__error_set(error, cause.status, "%s: record %lld at byte %lld: %s",
                     s->files.file[file].path, (long long)record, (long long)at, cause.text);
  }
  return error->status;
}

static tsr_status read_dense(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  for (int c = 0; c < source->column_count && !error->status; c++)
    if (ask->cells[c].data) read_column((const dense_source *)source, ask, c, error);
  return error->status;
}

/* One file by its name, several by all there is to know. */
static void about_dense(const tsr_source *source, tsr__text *out)
{
  const tsr__record_files *f = &((const dense_source *)source)->files;
  const char *path = f->file[0].path, *slash = strrchr(path, '/');
  if (f->count == 1) tsr__text_add(out, "%s", slash ? slash + 1 : path);
  else tsr__record_files_about(f, out);
}

static void release_dense(tsr_source *source)
{
  tsr__record_files_close(&((dense_source *)source)->files);
}

static const tsr__records_ops npy_ops = { "npy",         read_dense, NULL, about_dense,
                                          release_dense, NULL,       NULL };
static const tsr__records_ops safetensors_ops = { "safetensors", read_dense, NULL, about_dense,
                                                  release_dense, NULL,       NULL };

/* ---- the calls ------------------------------------------------------------------------------- */

/* Files first, since it is they that say what a record is; the source takes them over. */
static tsr_source *dense_of(tsr__record_files_ask *ask, const tsr__records_ops *ops,
                            const char *names, const char *site)
{
  tsr__error error = { 0 };
  tsr__record_files files = { 0 };
  dense_walk walk = { .arena = &ask->scope->arena };
  ask->user = &walk;
  if (!ask->path) tsr__error_set(&error, TSR_EARG, "the path is NULL; give the path of a file");
  else if (!tsr__chosen_open(&walk.names, walk.arena, names, &error))
    tsr__record_files_open(&files, ask, &error);
  int64_t count = error.status ? 0 : tsr__record_files_total(&files);
  tsr__records_make make = { ask->call,  site, ops, sizeof(dense_source), count, walk.column,
                             walk.count, NULL, 0 };
  tsr_source *source = error.status ? tsr__records_refused(ask->scope, site, ask->call, &error)
                                    : tsr__records_new(ask->scope, &make);
  if (source->inert) tsr__record_files_close(&files);
  else ((dense_source *)source)->files = files;
  return source;
}

tsr_source *tsr_source_npy_at(tsr_scope *scope, const char *path, const char *site)
{
  if (!scope || scope->inert) return tsr__records_refused(scope, site, "tsr_source_npy", NULL);
  tsr__record_files_ask ask = {
    .scope = scope, .call = "tsr_source_npy", .path = path, .format = &npy_format
  };
  return dense_of(&ask, &npy_ops, NULL, site);
}

tsr_source *tsr_source_safetensors_at(tsr_scope *scope, const char *path, const char *names,
                                      const char *site)
{
  if (!scope || scope->inert)
    return tsr__records_refused(scope, site, "tsr_source_safetensors", NULL);
  tsr__record_files_ask ask = {
    .scope = scope, .call = "tsr_source_safetensors", .path = path, .format = &safetensors_format
  };
  return dense_of(&ask, &safetensors_ops, names, site);
}
