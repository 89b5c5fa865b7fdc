/* Image folders: a folder for each class, the files of a class anywhere below it.
 *
 *   train/cat/1.jpg     class 0, "cat"      classes by name, files by path: the same order
 *   train/cat/more/2.png                    everywhere, whatever the system lists first
 *   train/dog/1.jpg     class 1, "dog"
 *
 * Files are listed when the source is made, with their sizes; a record opens its file, reads it and
 * closes it again. Links are followed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "io/file/files.h"
#include "io/file/system.h"
#include "pipeline/records.h"
#include "tessera/sources.h"

enum { DEPTH = 32 }; /* of folders below a class: links may go round */

typedef struct listed {
  char *path; /* below the source's folder */
  int64_t bytes;
  int64_t label;
} listed;

typedef struct folder_source {
  tsr_source source;
  tsr__heap *heap;
  tsr__text root; /* with '/' at its end */
  listed *file;
  size_t file_count, file_room;
  char **class; /* names of folders, in order */
  size_t class_count, class_room;
  int64_t longest, longest_name;
  bool cut, names;
  int name_column;
} folder_source;

/* ---- listing --------------------------------------------------------------------------------- */

/* What is handed down while folders are listed; `label` is that of the class they belong to. */
typedef struct listing {
  folder_source *f;
  const char *endings; /* "jpg,png" */
  tsr__known others;   /* endings of files that are not read */
  tsr__progress progress;
  int64_t label;
} listing;

/* Each on the heap by itself, as only pointers are moved to sort them (drop_folder frees them). */
static char *keep_text(tsr__heap *heap, const char *text)
{
  size_t length = strlen(text) + 1;
  char *own = tsr__new_raw(heap, length);
  return own ? memcpy(own, text, length) : NULL;
}

static tsr_status no_memory(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "no memory for the names of files");
}

static char small(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether a name ends with one of "jpg,.png", whatever the size of letters. Of ASCII alone: a
 * locale must not change which files a source has. */
static bool is_wanted(const char *name, const char *endings)
{
  const char *dot = strrchr(name, '.'), *slash = strrchr(name, '/');
  if (!dot || !dot[1] || (slash && slash > dot)) return false;
  size_t length = strlen(dot + 1);
  for (const char *at = endings; *at;) {
    at += strspn(at, ",;. ");
    size_t of = strcspn(at, ",; ");
    bool same = of == length;
    for (size_t i = 0; same && i < of; i++) same = small(dot[1 + i]) == small(at[i]);
    if (same) return true;
    at += of;
  }
  return false;
}

/* The longest of both decide the widths of fields, so that no file is opened for a schema. */
static tsr_status keep_file(listing *l, const char *path, int64_t bytes, tsr__error *error)
{
  folder_source *f = l->f;
  if (!tsr__grow(f->heap, (void **)&f->file, &f->file_room, f->file_count + 1, sizeof *f->file))
    return no_memory(error);
  char *own = keep_text(f->heap, path);
  if (!own) return no_memory(error);
  f->file[f->file_count++] = (listed){ own, bytes, l->label };
  if (bytes > f->longest) f->longest = bytes;
  if ((int64_t)strlen(path) > f->longest_name) f->longest_name = (int64_t)strlen(path);
  return TSR_OK;
}

/* The two call each other; DEPTH ends that where a link goes round. */
static tsr_status list_folder(listing *l, const char *below, int depth, tsr__error *error);

/* A file that is not read. */
static void pass_over(listing *l, const char *path)
{
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  if (dot) tsr__known_add(&l->others, dot + 1, strlen(dot + 1));
}

/* Whether a name leads to nothing, rather than to what the system cannot tell about now. */
static bool leads_nowhere(int code)
{
  return code == ENOENT || code == ENOTDIR || code == ELOOP || code == EACCES;
}

/* What a folder has: a class at depth 0, else a folder or a file of the class. */
static tsr_status list_entry(listing *l, const char *path, int depth, tsr__error *error)
{
  folder_source *f = l->f;
  struct stat stat_of;
  tsr__text whole;
  tsr__text_init(&whole, f->heap);
  tsr__text_add(&whole, "%s%s", tsr__text_get(&f->root), path);
  const char *name = tsr__text_get(&whole);
  if (whole.failed) no_memory(error);
  /* stat, not lstat: data sets are often folders of links. One that leads nowhere is a record that
   * cannot be read, rather than one less. */
  else if (stat(name, &stat_of)) {
    if (!leads_nowhere(errno)) tsr__file_error(name, "examine", errno, error);
    else if (depth && is_wanted(path, l->endings)) keep_file(l, path, 0, error);
  } else if (S_ISDIR(stat_of.st_mode) && !depth) {
    char *own = keep_text(f->heap, path);
    if (!own || !tsr__grow(f->heap, (void **)&f->class, &f->class_room, f->class_count + 1,
                           sizeof *f->class)) {
      if (own) tsr__del(f->heap, own, strlen(own) + 1);
      no_memory(error);
    } else f->class[f->class_count++] = own;
  } else if (S_ISDIR(stat_of.st_mode)) {
    if (depth > DEPTH)
      tsr__error_set(error, TSR_EIO, "%s: more than %d folders deep; does a link form a loop?",
                     name, DEPTH);
    else list_folder(l, path, depth, error);
  } else if (depth && S_ISREG(stat_of.st_mode)) {
    if (is_wanted(path, l->endings)) keep_file(l, path, (int64_t)stat_of.st_size, error);
    else pass_over(l, path);
  }
  tsr__text_free(&whole);
  return error->status;
}

static tsr_status list_folder(listing *l, const char *below, int depth, tsr__error *error)
{
  tsr__text path;
  tsr__text_init(&path, l->f->heap);
  tsr__text_add(&path, "%s%s", tsr__text_get(&l->f->root), below);
  DIR *dir = path.failed ? NULL : opendir(tsr__text_get(&path));
  if (path.failed) no_memory(error);
  else if (!dir) tsr__file_error(tsr__text_get(&path), "list", errno, error);
  for (struct dirent *entry; dir && !error->status && (errno = 0, entry = readdir(dir));) {
    /* Itself, its parent, and what systems and tools leave behind. */
    if (entry->d_name[0] == '.') continue;
    path.length = 0;
    tsr__text_add(&path, "%s%s%s", below, *below ? "/" : "", entry->d_name);
    if (path.failed) no_memory(error);
    else list_entry(l, tsr__text_get(&path), depth + 1, error);
    if (tsr__progress_stops(&l->progress, 0)) tsr__cancelled(error, "tsr_source_folder");
  }
  if (dir) closedir(dir);
  tsr__text_free(&path);
  return error->status;
}

static int by_text(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* By bytes, in no locale: the order of records is part of what states name. */
static int by_path(const void *a, const void *b)
{
  const listed *x = a, *y = b;
  if (x->label != y->label) return x->label < y->label ? -1 : 1;
  return strcmp(x->path, y->path);
}

/* The classes, which are the folders directly below the root. */
static tsr_status list_classes(listing *l, tsr__error *error)
{
  folder_source *f = l->f;
  if (list_folder(l, "", -1, error)) return error->status;
  if (!f->class_count)
    return tsr__error_set(error, TSR_EARG,
                          "%s: the folder has no folders, expected one for each class",
                          tsr__text_get(&f->root));
  /* Sorted before files are listed: the label of a file is its class's place in this order. */
  qsort(f->class, f->class_count, sizeof *f->class, by_text);
  for (size_t i = 0; i < f->class_count && !error->status; i++) {
    l->label = (int64_t)i;
    list_folder(l, f->class[i], 1, error);
  }
  if (f->file_count) qsort(f->file, f->file_count, sizeof *f->file, by_path);
  char hint[TSR__HINT];
  if (!f->file_count && l->others.count && !error->status)
    tsr__error_set(error, TSR_EARG,
                   "%s: no file ends with one of '%.80s'%s; name other endings in .endings",
                   tsr__text_get(&f->root), l->endings,
                   tsr__known_hint(&l->others, l->endings, hint));
  return error->status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A whole file, of at most `most` bytes, to `to`. */
static tsr_status read_whole(const char *path, const folder_source *f, char *to, int64_t *bytes,
                             tsr__error *error)
{
  struct stat stat_of;
  int64_t most = (int64_t)f->source.columns[0].bytes, got = 0;
  int fd = tsr__sys_open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return tsr__file_error(path, "open", errno, error);
  /* Of the open file, not the size that was listed: it may have been replaced since. */
  if (fstat(fd, &stat_of)) tsr__file_error(path, "look at", errno, error);
  else if (stat_of.st_size > most && !f->cut)
    tsr__error_set(error, TSR_EVALUE,
                   "%s: has %lld bytes, expected at most %lld; set .cut to keep the first bytes",
                   path, (long long)stat_of.st_size, (long long)most);
  else {
    *bytes = stat_of.st_size < most ? (int64_t)stat_of.st_size : most;
    /* Without `to` it is the length that is wanted, which is checked all the same. */
    if (to) got = tsr__sys_read_all(fd, to, (size_t)*bytes, 0);
    if (got < 0) tsr__file_error(path, "read", errno, error);
    else if (to && got < *bytes) tsr__file_shrunk(path, got, *bytes, error);
  }
  tsr__sys_close(fd);
  return error->status;
}

/* Columns 0 and 1 are the bytes and their length, 2 the label, 3 and 4 the name and its length.
 * Where only labels are wanted no file is opened. */
static tsr_status read_record(const folder_source *f, const tsr__ask_rows *ask, int64_t i,
                              tsr__error *error)
{
  const listed *file = &f->file[ask->at[i]];
  int64_t bytes = 0;
  if (ask->cells[2].data) memcpy(tsr__cell_of(ask, 2, i), &file->label, sizeof file->label);
  if (f->names) {
    int64_t length = (int64_t)strlen(file->path);
    if (ask->cells[3].data) memcpy(tsr__cell_of(ask, 3, i), file->path, (size_t)length);
    tsr__ragged_end(&f->source, ask, 3, i, length);
  }
  if (!ask->cells[0].data && !ask->cells[1].data) return TSR_OK;
  tsr__text path;
  tsr__text_init(&path, f->heap);
  tsr__text_add(&path, "%s%s", tsr__text_get(&f->root), file->path);
  char *to = ask->cells[0].data ? tsr__cell_of(ask, 0, i) : NULL;
  if (path.failed) no_memory(error);
  else if (!read_whole(tsr__text_get(&path), f, to, &bytes, error))
    tsr__ragged_end(&f->source, ask, 0, i, bytes);
  tsr__text_free(&path);
  return error->status;
}

static tsr_status read_folder(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error)
{
  const folder_source *f = (const folder_source *)source;
  for (int64_t i = 0; i < ask->count && !error->status; i++) read_record(f, ask, i, error);
  return error->status;
}

/* Paths and sizes, not contents: a state must not cost a reading of all files. */
static void about_folder(const tsr_source *source, tsr__text *out)
{
  const folder_source *f = (const folder_source *)source;
  uint64_t hash = 0;
  for (size_t i = 0; i < f->file_count; i++) {
    hash = tsr__hash(f->file[i].path, strlen(f->file[i].path), hash);
    hash = tsr__hash(&f->file[i].bytes, sizeof f->file[i].bytes, hash);
  }
  tsr__text_add(out, "%zu classes, %016llx", f->class_count, (unsigned long long)hash);
}

static void drop_folder(folder_source *f)
{
  if (!f->heap) return;
  for (size_t i = 0; i < f->file_count; i++)
    tsr__del(f->heap, f->file[i].path, strlen(f->file[i].path) + 1);
  for (size_t i = 0; i < f->class_count; i++)
    tsr__del(f->heap, f->class[i], strlen(f->class[i]) + 1);
  tsr__del(f->heap, f->file, f->file_room * sizeof *f->file);
  tsr__del(f->heap, (void *)f->class, f->class_room * sizeof *f->class);
  tsr__text_free(&f->root);
}

static void release_folder(tsr_source *source)
{
  drop_folder((folder_source *)source);
}

static void where_folder(const tsr_source *source, int64_t record, tsr__text *out)
{
  const folder_source *f = (const folder_source *)source;
  tsr__text_add(out, "; the file is %s%s", tsr__text_get(&f->root), f->file[record].path);
}

static const tsr__records_ops folder_ops = { "folder",       read_folder, NULL,        about_folder,
                                             release_folder, NULL,        where_folder };

/* ---- the call -------------------------------------------------------------------------------- */

static int folder_columns(folder_source *f, tsr_scope *scope, int64_t longest, tsr__column *columns,
                          tsr__error *error)
{
  columns[0] = (tsr__column){ .name = "image", .dtype = TSR_U8 };
  columns[2] = (tsr__column){ .name = "label", .dtype = TSR_I64, .bytes = sizeof(int64_t) };
  columns[3] = (tsr__column){ .name = "name", .dtype = TSR_U8 };
  tsr__ragged_columns(&scope->arena, &columns[0], longest ? longest : f->longest, error);
  if (f->names && !error->status)
    tsr__ragged_columns(&scope->arena, &columns[3], f->longest_name, error);
  return f->names ? 5 : 3;
}

static tsr_source *folder_of(tsr_scope *scope, const char *path, const tsr_folder_args *args,
                             const char *site)
{
  const char *call = "tsr_source_folder";
  tsr__error error = { 0 };
  tsr__column columns[5];
  int count = 0;
  folder_source made = { .heap = &scope->rt->heap, .cut = args->cut, .names = args->names };
  listing l = { .f = &made,
                /* Those that tsr_source_images reads. */
                .endings = args->endings ? args->endings : "jpeg,jpg,png" };
  l.progress = (tsr__progress){ .rt = scope->rt, .what = "folder" };
  tsr__text_init(&made.root, made.heap);
  size_t length = strlen(path);
  tsr__text_add(&made.root, "%s%s", path, length && path[length - 1] == '/' ? "" : "/");
  if (made.root.failed) no_memory(&error);
  else list_classes(&l, &error);
  if (!error.status) count = folder_columns(&made, scope, args->longest, columns, &error);
  tsr__records_make make = {
    call, site, &folder_ops, sizeof made, (int64_t)made.file_count, columns, count, NULL, 0
  };
  tsr_source *source = error.status ? tsr__records_refused(scope, site, call, &error)
                                    : tsr__records_new(scope, &make);
  if (source->inert) {
    drop_folder(&made);
    return source;
  }
  /* The node's own part was made by the call above; the rest is listed before there is a node. */
  made.source = *source;
  *(folder_source *)source = made;
  return source;
}

tsr_source *tsr_source_folder_with(tsr_scope *scope, const char *path, const tsr_folder_args *given,
                                   const char *site)
{
  const char *call = "tsr_source_folder";
  tsr_folder_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  if (!scope || scope->inert) return tsr__records_refused(scope, site, call, NULL);
  if (!tsr__take_opts(call, given, &args, sizeof args, &error))
    tsr__ragged_check(path, args.longest, &error);
  if (!error.status) return folder_of(scope, path, &args, site);
  return tsr__records_refused(scope, site, call, &error);
}

static const folder_source *folder_below(const tsr_source *source)
{
  const tsr_source *leaf = tsr__records_usable(source) ? source->leaf : NULL;
  return leaf && leaf->ops == &folder_ops ? (const folder_source *)leaf : NULL;
}

int64_t tsr_source_class_count(const tsr_source *source)
{
  const folder_source *f = folder_below(source);
  return f ? (int64_t)f->class_count : 0;
}

const char *tsr_source_class_name(const tsr_source *source, int64_t label)
{
  const folder_source *f = folder_below(source);
  return f && label >= 0 && label < (int64_t)f->class_count ? f->class[label] : NULL;
}
