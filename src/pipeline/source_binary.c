/* Records of fixed size, one after the other, in files: the places of all follow from the layout.
 *
 *   | header | record | skipped | record | skipped | ... | footer | */
#include "pipeline/record_files.h"

typedef struct binary_source {
  tsr_source source;
  tsr__record_files files;
  int64_t header, row;
  size_t *offset; /* of each column in a record */
} binary_source;

/* What a walk is to know of the layout. */
typedef struct layout {
  int64_t header, footer, row;
  bool partial;
} layout;

/* Nothing is looked at: how many records a file has says its size. */
static tsr_status walk_binary(tsr__file_walk *w, tsr__error *error)
{
  const layout *l = w->user;
  int64_t around = l->header + l->footer, inside = w->file->size - around;
  /* A wrong layout would give plausible noise, so a remainder is an error unless it was asked to be
   * cut off. */
  if (inside < 0 || (inside % l->row && !l->partial))
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: %lld bytes less %lld of header and footer are no whole number of "
                          "records of %lld bytes%s",
                          w->file->path, (long long)w->file->size, (long long)around,
                          (long long)l->row,
                          inside < 0 ? "" : "; set .partial to leave out a record that is cut off");
  w->records = inside / l->row;
  return TSR_OK;
}

static const tsr__file_format binary_format = { "binary", walk_binary, NULL, TSR__PACKED_IF_WHOLE,
                                                NULL,     NULL };

/* ---- reading --------------------------------------------------------------------------------- */

/* Records `at` .. of one file to the scratch. */
static tsr_status read_run(const binary_source *b, int64_t at, int64_t count, char *room,
                           tsr__error *error)
{
  int file = tsr__record_files_find(&b->files, at);
  int64_t place = b->header + (at - b->files.file[file].first) * b->row;
  tsr__error cause = { 0 };
  if (!tsr__record_files_read(&b->files, (tsr__record_place){ file, place, count * b->row }, room,
                              &cause))
    return TSR_OK;
  return tsr__error_set(error, cause.status, "%s: record %lld at byte %lld: %s",
                        b->files.file[file].path, (long long)at, (long long)place, cause.text);
}

/* Records lie in files as rows, in cells as columns. */
static void deal_run(const binary_source *b, const tsr__ask_rows *ask, int64_t first, int64_t count,
                     const char *room)
{
  for (int c = 0; c < b->source.column_count; c++)
    for (int64_t i = 0; ask->cells[c].data && i < count; i++)
      memcpy(tsr__cell_of(ask, c, first + i), room + (size_t)(i * b->row) + b->offset[c],
             b->source.columns[c].bytes);
}

static tsr_status read_binary(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const binary_source *b = (const binary_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  int64_t most = (1 << 18) / b->row;
  most = most < 1 ? 1 : most > ask->count ? ask->count : most;
  size_t bytes = (size_t)(most * b->row);
  char *room = tsr__new_raw(heap, bytes);
  if (!room) return tsr__error_set(error, TSR_ENOMEM, "no memory for %zu bytes of records", bytes);
  for (int64_t i = 0, n; i < ask->count && !error->status; i += n) {
    int64_t end = b->files.file[tsr__record_files_find(&b->files, ask->at[i]) + 1].first;
    /* A run ends with its file, even where the next record is the first of the next one. */
    for (n = 1; n < most && i + n < ask->count && ask->at[i + n] == ask->at[i] + n; n++)
      if (ask->at[i + n] == end) break;
    if (!read_run(b, ask->at[i], n, room, error)) deal_run(b, ask, i, n, room);
  }
  tsr__del(heap, room, bytes);
  return error->status;
}

static void about_binary(const tsr_source *source, tsr__text *out)
{
  const binary_source *b = (const binary_source *)source;
  uint64_t names = 0;
  for (int i = 0; i < b->files.count; i++) {
    const char *path = b->files.file[i].path, *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    names = tsr__hash(name, strlen(name), names);
  }
  tsr__text_add(out, "%d files, %016llx, %lld bytes each", b->files.count,
                (unsigned long long)names, (long long)b->row);
}

static void release_binary(tsr_source *source)
{
  tsr__record_files_close(&((binary_source *)source)->files);
}

static void where_binary(const tsr_source *source, int64_t record, tsr__text *out)
{
  const binary_source *b = (const binary_source *)source;
  int file = tsr__record_files_find(&b->files, record);
  tsr__record_files_where(&b->files, record,
                          b->header + (record - b->files.file[file].first) * b->row, out);
}

static const tsr__records_ops binary_ops = { "binary",       read_binary, NULL,        about_binary,
                                             release_binary, NULL,        where_binary };

/* ---- the call -------------------------------------------------------------------------------- */

static tsr_status open_files(binary_source *b, const char *path, const tsr_binary_args *args,
                             tsr__error *error)
{
  tsr_source *source = &b->source;
  layout l = { args->header, args->footer, b->row, args->partial };
  tsr__record_files_ask ask = { .scope = source->node.scope,
                                .call = "tsr_source_binary",
                                .path = path,
                                .format = &binary_format,
                                .user = &l,
                                .unpack_limit = args->unpack_limit };
  if (tsr__record_files_open(&b->files, &ask, error)) return error->status;
  /* Counts are known only now, when the node is there already: what failed stays with none. */
  source->extent = source->count = tsr__record_files_total(&b->files);
  return tsr__record_files_tell(&b->files, source, error);
}

static tsr_source *binary_of(tsr_scope *scope, const char *path, const tsr_binary_args *args,
                             const tsr__records_make *make)
{
  tsr__error error = { 0 };
  binary_source *b = (binary_source *)tsr__records_new(scope, make);
  if (b->source.inert) return &b->source;
  b->header = args->header;
  b->row = args->skipped;
  b->offset = tsr__arena_new(&scope->arena, (size_t)make->column_count * sizeof *b->offset);
  if (!b->offset) tsr__error_set(&error, TSR_ENOMEM, "no memory for the description of a source");
  int64_t used = 0;
  for (int c = 0; b->offset && c < make->column_count; c++) {
    b->offset[c] = (size_t)used;
    used += (int64_t)make->columns[c].bytes;
  }
  b->row += used;
  if (!error.status && b->row < 1) tsr__error_set(&error, TSR_ESHAPE, "a record has no bytes");
  if (!error.status && !open_files(b, path, args, &error)) return &b->source;
  return tsr__records_refused(scope, make->site, make->call, &error);
}

tsr_source *tsr_source_binary_with(tsr_scope *scope, const char *path, const tsr_binary_args *given,
                                   const char *site)
{
  const char *call = "tsr_source_binary";
  tsr_binary_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR__MAX_COLUMNS];
  int count = 0;
  /* Sums of a few such numbers, and their products with a record's number in a file, do not
   * overflow. */
  const int64_t most = INT64_C(1) << 40;
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (!path) tsr__error_set(&error, TSR_EARG, "the path is NULL; give the path of a file");
    else if (args.header < 0 || args.footer < 0 || args.skipped < 0 || args.header > most ||
             args.footer > most || args.skipped > most)
      tsr__error_set(
          &error, TSR_EARG,
          ".header, .footer and .skipped are %lld, %lld and %lld bytes, expected 0 or more",
          (long long)args.header, (long long)args.footer, (long long)args.skipped);
    else count = tsr__columns_of(args.fields, columns, &error);
  }
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call, site, &binary_ops, sizeof(binary_source), 0, columns, count,
                             NULL, 0 };
  return binary_of(scope, path, &args, &make);
}
