/* Files to bytes.
 *
 *   orders-*.csv  ->  orders-1.csv, orders-2.csv.gz       patterns, in order of the names
 *   bytes         ->  plain | gzip | zstd                 by what they begin with
 *                 ->  |data .......|pad|                  one block of memory
 *
 * Invariant: what is parsed is a copy that nobody else can change or shorten. A file that changed
 * while it was read is refused. */
#include "io/file/files.h"
#include "io/file/system.h"
#include "io/file/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Some C libraries have no braces in patterns: there they are ordinary characters. */
#if !defined(GLOB_BRACE)
#define GLOB_BRACE 0
#endif

enum { PIECE = 4 << 20 };

tsr_status tsr__file_error(const char *path, const char *what, int code, tsr__error *error)
{
  char buffer[128];
  return tsr__error_set(error, tsr__sys_status(code), "%s: cannot %s: %s", path, what,
                        tsr__sys_text(code, buffer, sizeof buffer));
}

tsr_status tsr__file_shrunk(const char *path, int64_t found, int64_t stored, tsr__error *error)
{
  return tsr__error_set(error, TSR_EIO,
                        "%s: ended at byte %" PRId64 " while it was read, but had %" PRId64
                        " bytes when it was opened; is the file still being written?",
                        path, found, stored);
}

static tsr_status no_memory(const char *path, int64_t bytes, tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "%s: no memory for its %" PRId64 " bytes", path, bytes);
}

/* ---- patterns ------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Keeps a copy of a name; names are freed with the list. */
static tsr_status keep_path(tsr__paths *out, const char *name, tsr__error *error)
{
  size_t length = strlen(name) + 1, need = (size_t)out->count + 1;
  char *copy = NULL;
  if (tsr__grow(out->heap, (void **)&out->path, &out->room, need, sizeof *out->path))
    copy = tsr__new_raw(out->heap, length);
  if (!copy) return no_memory(name, (int64_t)length, error);
  out->path[out->count++] = memcpy(copy, name, length);
  return TSR_OK;
}

/* glob whatever the locale, by which [a-z] would mean other letters. */
static int find_names(const char *pattern, glob_t *found)
{
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) return GLOB_NOSPACE;
  locale_t before = uselocale(plain); /* of this thread */
  /* uselocale is the thread's, not the process's: others see nothing of it. NOSORT, since sorting
   * by the locale would differ between machines. */
  int code = glob(pattern, GLOB_NOSORT | GLOB_BRACE, NULL, found);
  uselocale(before);
  freelocale(plain);
  return code;
}

/* The files of a pattern, in order; one with braces may name a file twice. */
static tsr_status keep_matches(tsr__paths *out, const glob_t *found, tsr__error *error)
{
  char **name = found->gl_pathv;
  tsr_status status = TSR_OK;
  /* By bytes: the same order everywhere. */
  qsort(name, found->gl_pathc, sizeof *name, by_name);
  for (size_t i = 0; i < found->gl_pathc && !status; i++)
    if (!i || strcmp(name[i], name[i - 1]) != 0) status = keep_path(out, name[i], error);
  return status;
}

/* "{000..099}" in a path: each number, or letter, in its turn. */
typedef struct range {
  size_t at, length;       /* of all of it */
  int64_t first, last, by; /* `by` below 0: downwards */
  int width;               /* digits at least, zeros in front; 0: letters */
} range;

/* A whole number of at most nine digits with a sign; how many bytes it takes, 0: it is none. */
static size_t take_number(const char *at, int64_t *out, int *width)
{
  size_t minus = at[0] == '-', length = strspn(at + minus, "0123456789");
  if (!length || length > 9) return 0;
  *out = strtoll(at, NULL, 10);
  bool zeros = length > 1 && at[minus] == '0';
  if (zeros && (int)(length + minus) > *width) *width = (int)(length + minus);
  return minus + length;
}

/* What stands between the braces, behind the first of them; false: it is no range. */
static bool take_range(const char *at, range *out)
{
  const char *from = at;
  int64_t step = 1;
  size_t length;
  bool letters = ((at[0] | 32) >= 'a' && (at[0] | 32) <= 'z') && !strncmp(at + 1, "..", 2) &&
                 ((at[3] | 32) >= 'a' && (at[3] | 32) <= 'z');
  out->width = 1;
  if (letters) {
    out->first = at[0];
    out->last = at[3];
    out->width = 0;
    at += 4;
  } else {
    if (!(length = take_number(at, &out->first, &out->width))) return false;
    at += length;
    if (strncmp(at, "..", 2) != 0 || !(length = take_number(at + 2, &out->last, &out->width)))
      return false;
    at += 2 + length;
  }
  if (!strncmp(at, "..", 2)) {
    int none = 0;
    if (!(length = take_number(at + 2, &step, &none)) || !step) return false;
    at += 2 + length;
  }
  if (*at != '}') return false;
  step = step < 0 ? -step : step;
  out->by = out->first <= out->last ? step : -step;
  out->length = (size_t)(at - from) + 2;
  return true;
}

static bool find_range(const char *path, range *out)
{
  for (const char *at = path; (at = strchr(at, '{')); at++) {
    out->at = (size_t)(at - path);
    if (take_range(at + 1, out)) return true;
  }
  return false;
}

static tsr_status find_path(tsr__paths *out, const char *path, bool literal, tsr__error *error);

/* Every one of a range must be there, as a list of shards has no gaps: unlike what a star matches,
 * nobody would see that one lacks. */
static tsr_status find_each(tsr__paths *out, const char *path, const range *r, tsr__error *error)
{
  tsr__text one;
  tsr__text_init(&one, out->heap);
  if ((r->last - r->first) / r->by > 1000000)
    tsr__error_set(error, TSR_EUNSUPPORTED, "%s: more than 1,000,000 files", path);
  for (int64_t n = r->first; (r->by > 0 ? n <= r->last : n >= r->last) && !error->status;
       n += r->by) {
    one.length = 0;
    tsr__text_put(&one, path, r->at);
    if (r->width) tsr__text_add(&one, "%0*lld", r->width, (long long)n);
    else tsr__text_add(&one, "%c", (int)n);
    tsr__text_add(&one, "%s", path + r->at + r->length);
    if (one.failed) no_memory(path, 0, error);
    else find_path(out, tsr__text_get(&one), false, error);
  }
  tsr__text_free(&one);
  return error->status;
}

/* A path, or what a pattern matches. */
static tsr_status find_path(tsr__paths *out, const char *path, bool literal, tsr__error *error)
{
  struct stat info;
  if (!path) return tsr__error_set(error, TSR_EARG, "the path of a file to read is NULL");
  /* A file whose name holds a bracket is read, if it is there, before it is taken for a pattern. */
  if (literal || !strpbrk(path, "*?[{") || stat(path, &info) == 0)
    return keep_path(out, path, error);
  range each;
  if (find_range(path, &each)) return find_each(out, path, &each, error);
  glob_t found = { 0 };
  int code = find_names(path, &found);
  tsr_status status = TSR_OK;
  if (code == GLOB_NOSPACE) status = no_memory(path, 0, error);
  else if (code == GLOB_ABORTED) status = tsr__file_error(path, "read a folder of", errno, error);
  else if (code == GLOB_NOMATCH || found.gl_pathc == 0)
    status = tsr__error_set(error, TSR_EIO, "%s: no file matches this pattern", path);
  /* Beyond that somebody meant something else. */
  else if (found.gl_pathc > 1000000)
    status = tsr__error_set(error, TSR_EUNSUPPORTED, "%s: matches %zu files, at most 1,000,000",
                            path, found.gl_pathc);
  if (!status) status = keep_matches(out, &found, error);
  globfree(&found);
  return status;
}

/* All or none: on failure nothing is kept. */
tsr_status tsr__paths_find(tsr__heap *heap, const tsr__path_ask *ask, tsr__paths *out,
                           tsr__error *error)
{
  *out = (tsr__paths){ .heap = heap };
  tsr_status status = find_path(out, ask->path, ask->literal, error);
  for (int i = 0; i < ask->more_count && !status; i++)
    status = find_path(out, ask->more[i], ask->literal, error);
  if (status) tsr__paths_free(out);
  return status;
}

void tsr__paths_free(tsr__paths *paths)
{
  for (int i = 0; i < paths->count; i++)
    tsr__del(paths->heap, paths->path[i], strlen(paths->path[i]) + 1);
  if (paths->path) tsr__del(paths->heap, (void *)paths->path, paths->room * sizeof *paths->path);
  *paths = (tsr__paths){ 0 };
}

/* How a message names several files: the first, and how many more. */
char *tsr__paths_said(tsr__arena *arena, const tsr__path_ask *ask)
{
  char more[32];
  size_t length = strlen(ask->path);
  int tail = ask->more_count ? snprintf(more, sizeof more, " and %d more", ask->more_count) : 0;
  char *text = tsr__arena_new(arena, length + (size_t)tail + 1);
  if (!text) return NULL;
  memcpy(text, ask->path, length);
  /* The arena's memory is zeros, which end the text. */
  memcpy(text + length, more, (size_t)tail);
  return text;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct source {
  const tsr__load_ask *ask;
  tsr__heap *heap;
  tsr__error *error;
  int fd;
  bool streams; /* standard input, a pipe: read as it comes */
  int64_t size, changed;
  int64_t piece;
  _Atomic int code;    /* loading in pieces: the first failure, an errno or -1 for an early end */
  _Atomic int64_t end; /* where a file that became shorter ended */
  tsr__loaded *out;
} source;

/* The caller may read in another way (opts->read); a signal is no failure. */
static int64_t read_some(const source *s, void *to, size_t length, int64_t offset)
{
  const tsr__file_opts *opts = s->ask->opts;
  for (;;) {
    int64_t n;
    /* What streams has no offsets: it comes in order. */
    if (opts && opts->read) n = opts->read(opts->user, s->fd, to, length, offset);
    else n = tsr__sys_read(s->fd, to, length, s->streams ? -1 : offset);
    if (n >= 0 || errno != EINTR) return n;
  }
}

static int64_t changed_at(const struct stat *info)
{
  /* Nanoseconds: 64 bits of them last until 2262. */
  return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

/* A file is read in parts; standard input, pipes and terminals as they come. */
static tsr_status open_source(source *s)
{
  const char *path = s->ask->path;
  struct stat info;
  if (strcmp(path, "-") == 0) {
    s->fd = STDIN_FILENO;
    s->streams = true;
    return TSR_OK;
  }
  /* Without NONBLOCK a pipe without a writer would wait here for ever. */
  s->fd = tsr__sys_open(path, O_RDONLY | O_NONBLOCK);
  if (s->fd < 0) return tsr__file_error(path, "open", errno, s->error);
  if (fstat(s->fd, &info)) return tsr__file_error(path, "examine", errno, s->error);
  if (S_ISDIR(info.st_mode))
    return tsr__error_set(s->error, TSR_EIO, "%s: is a directory; name a file in it, or a pattern",
                          path);
  s->streams = tsr__sys_streams(s->fd);
  if (!S_ISREG(info.st_mode) && !s->streams)
    return tsr__error_set(s->error, TSR_EUNSUPPORTED,
                          "%s: is a device, expected a file or a pipe; copy it to a file first",
                          path);
  s->size = (int64_t)info.st_size;
  s->changed = changed_at(&info);
  return TSR_OK;
}

/* Gives the bytes a block of `room`, keeping the `size` that are there. */
static tsr_status resize(source *s, size_t room)
{
  tsr__loaded *out = s->out;
  room = tsr__whole_pages(room);
  char *data = tsr__new_once(s->heap, room);
  if (!data) return no_memory(s->ask->path, (int64_t)room, s->error);
  if (out->size) memcpy(data, out->data, (size_t)out->size);
  tsr__del_once(s->heap, out->data, out->room);
  out->data = data;
  out->room = room;
  return TSR_OK;
}

/* Tasks read pieces side by side; the first failure is kept. */
static void load_piece(void *user, int64_t task, int worker)
{
  (void)worker;
  source *s = user;
  int64_t at = task * s->piece, end = at + s->piece < s->size ? at + s->piece : s->size;
  /* `code` is asked before each piece: after a failure nobody reads on. */
  while (at < end && !s->code) {
    int64_t n = read_some(s, s->out->data + at, (size_t)(end - at), at);
    /* 0: the file ends here now, though it was longer; that is told with the place. */
    if (n <= 0) {
      int none = 0;
      if (n == 0) s->end = at;
      atomic_compare_exchange_strong(&s->code, &none, n == 0 ? -1 : errno);
      return;
    }
    at += n;
  }
}

static tsr_status load_file(source *s)
{
  const char *path = s->ask->path;
  struct stat info;
  /* Room for the padding that parsers read beyond the end. */
  if (resize(s, (size_t)s->size + (size_t)s->ask->pad + 1)) return s->error->status;
  int64_t pieces = s->size / s->piece + (s->size % s->piece != 0);
  if (!tsr__parallel_long(s->ask->rt, s->ask->what, pieces, load_piece, s))
    return tsr__cancelled(s->error, s->ask->what);
  if (s->code < 0) return tsr__file_shrunk(path, s->end, s->size, s->error);
  if (s->code) return tsr__file_error(path, "read", s->code, s->error);
  /* Size and time of change as they were: nobody wrote to it while it was read. */
  if (fstat(s->fd, &info)) return tsr__file_error(path, "examine", errno, s->error);
  if ((int64_t)info.st_size != s->size || changed_at(&info) != s->changed)
    return tsr__error_set(s->error, TSR_EIO,
                          "%s: changed while it was read; is the file still being written?", path);
  s->out->size = s->size;
  return TSR_OK;
}

/* One step of work that cannot be cut up: the callback is asked between them. */
typedef struct step {
  source *s;
  bool more;
  tsr_status (*run)(struct step *step);
  tsr__unpack *unpack; /* NULL: nothing is packed */
} step;

static void run_step(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  step *st = user;
  source *s = st->s;
  size_t need = (size_t)s->out->size + (size_t)s->piece + (size_t)s->ask->pad;
  if (s->out->room < need) {
    /* Doubled: what is moved is at most twice the whole. */
    size_t twice = s->out->room * 2;
    if (resize(s, need > twice ? need : twice)) return;
  }
  st->run(st);
}

static tsr_status run_steps(step *st)
{
  source *s = st->s;
  for (st->more = true; st->more && !s->error->status;)
    if (!tsr__parallel_long(s->ask->rt, s->ask->what, 1, run_step, st))
      return tsr__cancelled(s->error, s->ask->what);
  return s->error->status;
}

static tsr_status read_step(step *st)
{
  source *s = st->s;
  /* A pipe may have to wait for who writes to it; between waits it is asked whether to go on. */
  if (s->fd != STDIN_FILENO && !tsr__sys_ready(s->fd, 100)) return TSR_OK;
  int64_t n = read_some(s, s->out->data + s->out->size, (size_t)s->piece, s->out->size);
  if (n < 0) return tsr__file_error(s->ask->path, "read", errno, s->error);
  st->more = n > 0;
  s->out->size += n;
  return TSR_OK;
}

/* ---- unpacking ------------------------------------------------------------------------------- */

static int read_packed(const void *user, char *to, int64_t offset, int64_t length, int64_t *got)
{
  const tsr__loaded *packed = user;
  int64_t left = packed->size - offset;
  *got = left < length ? left : length;
  memcpy(to, packed->data + offset, (size_t)*got);
  return 0;
}

static tsr_status unpack_step(step *st)
{
  source *s = st->s;
  int64_t got;
  if (tsr__unpack_some(st->unpack, s->out->data + s->out->size, s->piece, &got, s->error))
    return s->error->status;
  /* A piece that is not full is the last. */
  st->more = got == s->piece;
  s->out->size += got;
  return TSR_OK;
}

/* Puts what the bytes unpack to in their place. */
static tsr_status unpack(source *s)
{
  /* The packed bytes stay until the last was used; the text has a block of its own. */
  tsr__loaded packed = *s->out;
  tsr__packed from = { .heap = s->heap,
                       .path = s->ask->path,
                       .packing = tsr__packing_of(packed.data, (size_t)packed.size),
                       .stored = packed.size,
                       .limit = tsr__unpack_limit(s->ask->rt, packed.size, s->ask->unpack_limit),
                       .read = read_packed,
                       .user = &packed };
  if (from.packing == TSR__PLAIN) return TSR_OK;
  *s->out = (tsr__loaded){ .heap = s->heap };
  step st = { .s = s, .run = unpack_step, .unpack = tsr__unpack_open(&from) };
  if (!st.unpack) {
    no_memory(s->ask->path, packed.size, s->error);
  } else {
    /* A good guess saves moving; room for one piece more lets the end be noticed without
     * growing. */
    int64_t guess = tsr__unpack_guess(st.unpack) + s->piece + s->ask->pad;
    if (!resize(s, (size_t)guess)) run_steps(&st);
  }
  tsr__unpack_close(st.unpack);
  tsr__loaded_free(&packed);
  return s->error->status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

tsr_status tsr__file_load(const tsr__load_ask *ask, tsr__loaded *out, tsr__error *error)
{
  source s = { .ask = ask, .heap = &ask->rt->heap, .error = error, .fd = -1, .out = out };
  s.piece = ask->opts && ask->opts->piece > 0 ? ask->opts->piece : PIECE;
  *out = (tsr__loaded){ .heap = s.heap };
  tsr_status status = open_source(&s);
  step st = { .s = &s, .run = read_step };
  if (!status) status = s.streams ? run_steps(&st) : load_file(&s);
  if (!status) status = unpack(&s);
  bool standard = s.fd == STDIN_FILENO;
  const char *name = standard ? "standard input" : ask->path;
  /* Asked of what was unpacked, too. */
  if (!status && ask->format)
    status = tsr__file_magic(name, ask->format, out->data, (size_t)out->size, error);
  /* Zeros behind the text: who parses may look a few bytes ahead. */
  if (!status) memset(out->data + out->size, 0, (size_t)ask->pad);
  if (s.fd >= 0 && !standard) tsr__sys_close(s.fd);
  if (status) tsr__loaded_free(out);
  return status;
}

void tsr__loaded_free(tsr__loaded *loaded)
{
  if (loaded->heap) tsr__del_once(loaded->heap, loaded->data, loaded->room);
  *loaded = (tsr__loaded){ 0 };
}
