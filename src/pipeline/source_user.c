/* Sources that others stand behind: a function of the program, a frame, files of fixed records.
 *
 *   file 0 [header | r0 r1 r2 | footer]   file 1 [header | r3 r4 | footer]     first[k]: 0, 3, 5
 *
 * Files are read by record when they are asked for; neighbours that are asked for together are one
 * reading. A file is opened once and read by several threads at their own places. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "frame/chain/chain.h"
#include "io/file/files.h"
#include "io/file/system.h"
#include "pipeline/records.h"

/* ---- a function ------------------------------------------------------------------------------ */

typedef struct user_source {
  tsr_source source;
  tsr_source_fn *fn;
  void *user;
  const char *name;
} user_source;

/* Record by record, as the program knows no blocks: which fields are wanted it is not told
 * either, so that one function serves all who ask. */
static tsr_status read_user(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const user_source *u = (const user_source *)source;
  tsr__heap *heap = &source->node.scope->rt->heap;
  size_t widest = 1;
  for (int c = 0; c < source->column_count; c++)
    if (source->columns[c].bytes > widest) widest = source->columns[c].bytes;
  /* Each reading has its own: threads call the function side by side, and it may write any field.
   * */
  char *spare = tsr__new_raw(heap, widest); /* for fields that nobody asks for */
  if (!spare) return tsr__error_set(error, TSR_ENOMEM, "no memory for a record");
  for (int64_t i = 0; i < ask->count && !error->status; i++) {
    void *out[TSR_MAX_FIELDS];
    for (int c = 0; c < source->column_count; c++)
      out[c] = ask->cells[c].data ? tsr__cell_of(ask, c, i) : spare;
    /* The name comes last and goes first: who reads it as not NULL finds the record that belongs to
     * it. */
    if (ask->where) {
      atomic_store_explicit(&ask->where->record, ask->at[i], memory_order_relaxed);
      atomic_store_explicit(&ask->where->name, u->name, memory_order_release);
    }
    tsr_status status = u->fn(ask->at[i], out, u->user);
    if (ask->where) atomic_store_explicit(&ask->where->name, NULL, memory_order_relaxed);
    if (status)
      tsr__error_set(error, status, "%s: record %lld: the function returned %s (%s)", u->name,
                     (long long)ask->at[i], tsr_status_name(status), tsr_status_text(status));
    else if (tsr__records_stop(ask))
      tsr__error_set(error, TSR_ECANCELLED, "the pipeline is being closed");
  }
  tsr__del(heap, spare, widest);
  return error->status;
}

/* Of a function its name is all that a state can compare. */
static void about_user(const tsr_source *source, tsr__text *out)
{
  tsr__text_add(out, "%s", ((const user_source *)source)->name);
}

static const tsr__records_ops user_ops = { "callback", read_user, NULL, about_user, NULL, NULL };

tsr_source *tsr_source_callback_with(tsr_scope *scope, const tsr_source_callback_args *given,
                                     const char *site)
{
  const char *call = "tsr_source_callback";
  tsr_source_callback_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR_MAX_FIELDS];
  int count = 0;
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (!args.fn) tsr__error_set(&error, TSR_EARG, "the function is NULL; give one");
    else if (args.count < 0 || args.count >= INT64_C(1) << 62)
      tsr__error_set(&error, TSR_EARG, "%lld records, expected 0 to 2^62 - 1",
                     (long long)args.count);
    else count = tsr__columns_of(args.fields, columns, &error);
  }
  const char *name = args.name ? args.name : "callback";
  name = tsr__arena_text(&scope->arena, name, strlen(name));
  if (!name) tsr__error_set(&error, TSR_ENOMEM, "no memory for a name");
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call,  site, &user_ops, sizeof(user_source), args.count, columns,
                             count, NULL, 0 };
  tsr_source *source = tsr__records_new(scope, &make);
  if (source->inert) return source;
  user_source *u = (user_source *)source;
  u->fn = args.fn;
  u->user = args.user;
  u->name = name;
  /* Then its slices are filled by extra threads alone, and who asks for a batch waits (ring.c). */
  source->blocking = args.blocking;
  return source;
}

/* ---- a frame --------------------------------------------------------------------------------- */

/* A column as an array, under a name that fields may have. Rows without a value have no other form
 * in an array: NaN where there is one, an error elsewhere, which the column's call tells. */
static tsr_array *frame_field(tsr_scope *scope, tsr_frame *df, int at, const char **name,
                              const char *site)
{
  const char *own = tsr_frame_column_name(df, at);
  char *clean = tsr__arena_text(&scope->arena, own, strlen(own));
  tsr__name_clean(clean);
  *name = clean ? clean : "_";
  tsr_frame_column_opts opts = { .size = sizeof opts };
  tsr_coltype type = tsr_frame_column_type(df, at);
  if (type == TSR_COL_F16 || type == TSR_COL_BF16 || type == TSR_COL_F32 || type == TSR_COL_F64)
    opts.null_value = tsr_scalar_float(__builtin_nan(""));
  return tsr_frame_column_with(df, own, &opts, site);
}

tsr_source *tsr_source_frame_at(tsr_frame *df, const char *site)
{
  const char *call = "tsr_source_frame";
  tsr_scope *scope = df ? tsr__scope_here(df->node.scope) : NULL;
  tsr__error error = { 0 };
  tsr_field_args fields[TSR_MAX_FIELDS];
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  TSR__CALL(scope, "source_frame");
  int count = tsr_frame_column_count(df);
  if (count > TSR_MAX_FIELDS || !count)
    tsr__error_set(&error, TSR_EARG, "%d columns, expected 1 to %d; tsr_frame_select takes some",
                   count, TSR_MAX_FIELDS);
  for (int i = 0; i < count && !error.status; i++) {
    tsr_coltype type = tsr_frame_column_type(df, i);
    if (type == TSR_COL_TEXT)
      tsr__error_set(&error, TSR_EDTYPE,
                     "column %.80s is of %s, expected another; tsr_frame_select takes "
                     "others",
                     tsr_frame_column_name(df, i), tsr_coltype_name(type));
    else fields[i].array = frame_field(scope, df, i, &fields[i].name, site);
  }
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  /* Computed at the call, all columns together: reading records runs no program. */
  return tsr_source_arrays_at(scope, tsr_tree_at(scope, fields, count, site), site);
}

/* ---- records of fixed size ------------------------------------------------------------------- */

typedef struct binary_source {
  tsr_source source;
  tsr__paths paths;
  int *fd;        /* by file; -1: not open */
  int64_t *first; /* [files + 1]: the first record of each */
  int64_t header, row;
  size_t *offset; /* of each column in a record */
} binary_source;

/* Empty files have the same first record as the one behind them: of equal ones the last is found.
 * */
static int file_of(const binary_source *b, int64_t at)
{
  int low = 0, high = b->paths.count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (b->first[middle] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

/* Records `at` .. of one file to the scratch. */
static tsr_status read_run(const binary_source *b, int64_t at, int64_t count, char *room,
                           tsr__error *error)
{
  char text[128];
  int file = file_of(b, at);
  int64_t place = b->header + (at - b->first[file]) * b->row, bytes = count * b->row;
  int64_t got = tsr__sys_read_all(b->fd[file], room, (size_t)bytes, place);
  if (got == bytes) return TSR_OK;
  if (got < 0)
    return tsr__error_set(error, tsr__sys_status(errno), "%s: record %lld at byte %lld: %s",
                          b->paths.path[file], (long long)at, (long long)place,
                          tsr__sys_text(errno, text, sizeof text));
  return tsr__error_set(error, TSR_EIO, "%s: record %lld at byte %lld: the file has become shorter",
                        b->paths.path[file], (long long)(at + got / b->row),
                        (long long)(place + got / b->row * b->row));
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
    int64_t end = b->first[file_of(b, ask->at[i]) + 1];
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
  for (int i = 0; i < b->paths.count; i++) {
    const char *slash = strrchr(b->paths.path[i], '/');
    const char *name = slash ? slash + 1 : b->paths.path[i];
    names = tsr__hash(name, strlen(name), names);
  }
  tsr__text_add(out, "%d files, %016llx, %lld bytes each", b->paths.count,
                (unsigned long long)names, (long long)b->row);
}

static void release_binary(tsr_source *source)
{
  binary_source *b = (binary_source *)source;
  for (int i = 0; b->fd && i < b->paths.count; i++)
    if (b->fd[i] >= 0) tsr__sys_close(b->fd[i]);
  tsr__paths_free(&b->paths);
}

static const tsr__records_ops binary_ops = { "binary",     read_binary,    NULL,
                                             about_binary, release_binary, NULL };

/* Opens a file and counts its records. */
static tsr_status open_file(binary_source *b, int i, const tsr_binary_args *args, tsr__error *error)
{
  const char *path = b->paths.path[i];
  struct stat stat;
  b->fd[i] = tsr__sys_open(path, O_RDONLY | O_CLOEXEC);
  if (b->fd[i] < 0 || fstat(b->fd[i], &stat)) return tsr__file_error(path, "open", errno, error);
  if (!S_ISREG(stat.st_mode))
    return tsr__error_set(error, TSR_EIO, "%s: no plain file, which records are read from", path);
  int64_t around = b->header + args->footer, inside = (int64_t)stat.st_size - around;
  /* A wrong layout would give plausible noise, so a remainder is an error unless it was asked to be
   * cut off. */
  if (inside < 0 || (inside % b->row && !args->partial))
    return tsr__error_set(error, TSR_EPARSE,
                          "%s: %lld bytes are %lld of header and footer and no whole number of "
                          "records of %lld bytes%s",
                          path, (long long)stat.st_size, (long long)around, (long long)b->row,
                          inside < 0 ? "" : "; .partial leaves out what is cut off");
  b->first[i + 1] = b->first[i] + inside / b->row;
  return TSR_OK;
}

static tsr_status open_files(binary_source *b, const char *path, const tsr_binary_args *args,
                             tsr__error *error)
{
  tsr__arena *arena = &b->source.node.scope->arena;
  tsr__path_ask ask = { .path = path };
  if (tsr__paths_find(&b->source.node.scope->rt->heap, &ask, &b->paths, error)) {
    /* A search that failed leaves nothing to free, and release must not look at it. */
    b->paths.count = 0;
    return error->status;
  }
  size_t files = (size_t)b->paths.count;
  int *fd = tsr__arena_new(arena, files * sizeof *fd + 1);
  b->first = tsr__arena_new(arena, (files + 1) * sizeof *b->first);
  if (!fd || !b->first) return tsr__error_set(error, TSR_ENOMEM, "no memory for a list of files");
  for (size_t i = 0; i < files; i++) fd[i] = -1;
  /* Set when all are -1: release closes what it finds there. */
  b->fd = fd;
  for (int i = 0; i < b->paths.count && !error->status; i++) open_file(b, i, args, error);
  /* Counts are known only now, when the node is there already: what failed stays with none. */
  b->source.count = error->status ? 0 : b->first[files];
  b->source.files = b->first;
  b->source.file_count = b->paths.count;
  return error->status;
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
  if (!error.status && b->row < 1) tsr__error_set(&error, TSR_ESHAPE, "records of no bytes");
  if (!error.status && !open_files(b, path, args, &error)) {
    b->source.extent = b->source.count;
    return &b->source;
  }
  return tsr__records_refused(scope, make->site, make->call, &error);
}

tsr_source *tsr_source_binary_with(tsr_scope *scope, const char *path, const tsr_binary_args *given,
                                   const char *site)
{
  const char *call = "tsr_source_binary";
  tsr_binary_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  tsr__column columns[TSR_MAX_FIELDS];
  int count = 0;
  /* Sums of a few such numbers, and their products with a record's number in a file, do not
   * overflow. */
  const int64_t most = INT64_C(1) << 40;
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error)) {
    if (!path) tsr__error_set(&error, TSR_EARG, "the path is NULL; give one");
    else if (args.header < 0 || args.footer < 0 || args.skipped < 0 || args.header > most ||
             args.footer > most || args.skipped > most)
      tsr__error_set(&error, TSR_EARG,
                     "%lld, %lld and %lld bytes of header, footer and skipped, "
                     "expected 0 or more",
                     (long long)args.header, (long long)args.footer, (long long)args.skipped);
    else count = tsr__columns_of(args.fields, columns, &error);
  }
  if (error.status) return tsr__records_refused(scope, site, call, &error);
  tsr__records_make make = { call, site, &binary_ops, sizeof(binary_source), 0, columns, count,
                             NULL, 0 };
  return binary_of(scope, path, &args, &make);
}
