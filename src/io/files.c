/* Files to bytes.
 *
 *   orders-*.csv  ->  orders-1.csv, orders-2.csv.gz       patterns, in order of the names
 *   bytes         ->  plain | gzip | zstd                 by what they begin with
 *                 ->  |data .......|pad|                  one block of memory
 *
 * Invariant: what is parsed is a copy that nobody else can change or shorten. A file that changed
 * while it was read is refused. */
#include "io/files.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { PIECE = 4 << 20, GZIP_WINDOW = 15 + 16 };

static tsr_status io_error(const char *path, const char *what, int code, tsr__error *error)
{
  char buffer[128];
  return tsr__error_set(error, code == ENOMEM ? TSR_ENOMEM : TSR_EIO, "%s: cannot %s: %s", path,
                        what, strerror_r(code, buffer, sizeof buffer));
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

static tsr_status keep_paths(tsr__heap *heap, char **names, size_t count, tsr__paths *out,
                             tsr__error *error)
{
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += strlen(names[i]) + 1;
  out->heap = heap;
  out->size = count * sizeof(char *) + bytes;
  out->path = tsr__new(heap, out->size);
  if (!out->path) return no_memory(names[0], (int64_t)out->size, error);
  char *at = (char *)(out->path + count);
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(names[i]) + 1;
    out->path[i] = memcpy(at, names[i], length);
    at += length;
  }
  out->count = (int)count;
  return TSR_OK;
}

tsr_status tsr__paths_find(tsr__heap *heap, const char *path, tsr__paths *out, tsr__error *error)
{
  struct stat info;
  *out = (tsr__paths){ 0 };
  if (!strpbrk(path, "*?[{") || stat(path, &info) == 0)
    return keep_paths(heap, (char *[]){ (char *)(uintptr_t)path }, 1, out, error);
  glob_t found = { 0 };
  int code = glob(path, GLOB_NOSORT | GLOB_BRACE, NULL, &found);
  tsr_status status = TSR_OK;
  if (code == GLOB_NOSPACE) status = no_memory(path, 0, error);
  else if (code == GLOB_ABORTED) status = io_error(path, "read a folder of", errno, error);
  else if (code == GLOB_NOMATCH || found.gl_pathc == 0)
    status = tsr__error_set(error, TSR_EIO, "%s: no file matches this pattern", path);
  else if (found.gl_pathc > 1000000)
    status = tsr__error_set(error, TSR_EUNSUPPORTED, "%s: matches %zu files, at most 1,000,000",
                            path, found.gl_pathc);
  if (!status) {
    qsort(found.gl_pathv, found.gl_pathc, sizeof(char *), by_name);
    status = keep_paths(heap, found.gl_pathv, found.gl_pathc, out, error);
  }
  globfree(&found);
  return status;
}

void tsr__paths_free(tsr__paths *paths)
{
  if (paths->path) tsr__del(paths->heap, paths->path, paths->size);
  *paths = (tsr__paths){ 0 };
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct source {
  const tsr__load_ask *ask;
  tsr__heap *heap;
  tsr__error *error;
  int fd;
  bool standard; /* standard input: read as it comes */
  int64_t size, changed;
  int64_t piece;
  _Atomic int code;    /* loading in pieces: the first failure, an errno or -1 for an early end */
  _Atomic int64_t end; /* where a file that became shorter ended */
  tsr__loaded *out;
} source;

static int64_t read_some(const source *s, void *to, size_t length, int64_t offset)
{
  const tsr__file_opts *opts = s->ask->opts;
  for (;;) {
    int64_t n;
    if (opts && opts->read) n = opts->read(opts->user, s->fd, to, length, offset);
    else if (s->standard) n = read(s->fd, to, length);
    else n = pread(s->fd, to, length, (off_t)offset);
    if (n >= 0 || errno != EINTR) return n;
  }
}

static int64_t changed_at(const struct stat *info)
{
  return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

static tsr_status open_source(source *s)
{
  const char *path = s->ask->path;
  struct stat info;
  if (strcmp(path, "-") == 0) {
    s->fd = STDIN_FILENO;
    s->standard = true;
    return TSR_OK;
  }
  /* Without NONBLOCK a pipe without a writer would wait here for ever. */
  s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (s->fd < 0) return io_error(path, "open", errno, s->error);
  if (fstat(s->fd, &info)) return io_error(path, "examine", errno, s->error);
  if (S_ISDIR(info.st_mode))
    return tsr__error_set(s->error, TSR_EIO, "%s: is a directory; name a file in it, or a pattern",
                          path);
  if (!S_ISREG(info.st_mode))
    return tsr__error_set(s->error, TSR_EUNSUPPORTED,
                          "%s: is no regular file; pipes and devices cannot be read in parts, give "
                          "them as standard input",
                          path);
  s->size = (int64_t)info.st_size;
  s->changed = changed_at(&info);
  return TSR_OK;
}

/* Gives the bytes a block of `room`, keeping the `size` that are there. */
static tsr_status resize(source *s, size_t room)
{
  tsr__loaded *out = s->out;
  char *data = tsr__new_raw(s->heap, room);
  if (!data) return no_memory(s->ask->path, (int64_t)room, s->error);
  if (out->size) memcpy(data, out->data, (size_t)out->size);
  tsr__del(s->heap, out->data, out->room);
  out->data = data;
  out->room = room;
  return TSR_OK;
}

static void load_piece(void *user, int64_t task, int worker)
{
  (void)worker;
  source *s = user;
  int64_t at = task * s->piece, end = at + s->piece < s->size ? at + s->piece : s->size;
  while (at < end && !s->code) {
    int64_t n = read_some(s, s->out->data + at, (size_t)(end - at), at);
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
  if (resize(s, (size_t)s->size + (size_t)s->ask->pad + 1)) return s->error->status;
  int64_t pieces = s->size / s->piece + (s->size % s->piece != 0);
  if (!tsr__parallel_long(s->ask->rt, s->ask->what, pieces, load_piece, s))
    return tsr__cancelled(s->error, s->ask->what);
  if (s->code < 0)
    return tsr__error_set(s->error, TSR_EIO,
                          "%s: ended at byte %" PRId64 " while it was read, it had %" PRId64
                          " bytes when it was opened; is it still being written?",
                          path, s->end, s->size);
  if (s->code) return io_error(path, "read", s->code, s->error);
  if (fstat(s->fd, &info)) return io_error(path, "examine", errno, s->error);
  if ((int64_t)info.st_size != s->size || changed_at(&info) != s->changed)
    return tsr__error_set(s->error, TSR_EIO,
                          "%s: changed while it was read; is it still being written?", path);
  s->out->size = s->size;
  return TSR_OK;
}

/* One step of work that cannot be cut up: the callback is asked between them. */
typedef struct step {
  source *s;
  bool more;
  tsr_status (*run)(struct step *step);
  void *codec;
  const tsr__loaded *packed;
  size_t at; /* in `packed` */
} step;

static void run_step(void *user, int64_t task, int worker)
{
  (void)task;
  (void)worker;
  step *st = user;
  source *s = st->s;
  size_t need = (size_t)s->out->size + (size_t)s->piece + (size_t)s->ask->pad;
  if (s->out->room < need) {
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
  int64_t n = read_some(s, s->out->data + s->out->size, (size_t)s->piece, s->out->size);
  if (n < 0) return io_error(s->ask->path, "read", errno, s->error);
  st->more = n > 0;
  s->out->size += n;
  return TSR_OK;
}

/* ---- unpacking ------------------------------------------------------------------------------- */

static tsr_status damaged(const source *s, const char *format, const char *why)
{
  return tsr__error_set(s->error, TSR_EPARSE, "%s: the %s data is damaged: %s", s->ask->path,
                        format, why);
}

static tsr_status cut_off(const source *s, const char *format)
{
  return damaged(s, format, "it is cut off; was it copied whole?");
}

static bool is_gzip(const char *bytes, size_t length)
{
  return length >= 3 && memcmp(bytes, "\x1f\x8b\x08", 3) == 0;
}

/* What follows a member: another, or zeros that fill a block. */
static tsr_status next_member(step *st)
{
  const char *rest = st->packed->data + st->at;
  size_t left = (size_t)st->packed->size - st->at, zeros = 0;
  while (zeros < left && !rest[zeros]) zeros++;
  if (zeros == left) {
    st->more = false;
    return TSR_OK;
  }
  if (!is_gzip(rest, left)) return damaged(st->s, "gzip", "other bytes follow its end");
  inflateReset(st->codec);
  return TSR_OK;
}

static tsr_status gzip_step(step *st)
{
  source *s = st->s;
  z_stream *z = st->codec;
  size_t left = (size_t)st->packed->size - st->at, some = left < (1u << 30) ? left : 1u << 30;
  z->next_in = (Bytef *)st->packed->data + st->at;
  z->avail_in = (uInt)some;
  z->next_out = (Bytef *)s->out->data + s->out->size;
  z->avail_out = (uInt)s->piece;
  int code = inflate(z, Z_NO_FLUSH);
  st->at += some - z->avail_in;
  s->out->size += s->piece - (int64_t)z->avail_out;
  if (code == Z_STREAM_END) return next_member(st);
  if (code == Z_MEM_ERROR) return no_memory(s->ask->path, s->piece, s->error);
  if (code != Z_OK && code != Z_BUF_ERROR)
    return damaged(s, "gzip", z->msg ? z->msg : "no known block");
  return st->at == (size_t)st->packed->size && z->avail_out ? cut_off(s, "gzip") : TSR_OK;
}

static tsr_status unpack_gzip(step *st)
{
  z_stream z = { 0 };
  st->codec = &z;
  st->run = gzip_step;
  if (inflateInit2(&z, GZIP_WINDOW) != Z_OK) return no_memory(st->s->ask->path, 0, st->s->error);
  tsr_status status = run_steps(st);
  inflateEnd(&z);
  return status;
}

static tsr_status zstd_step(step *st)
{
  source *s = st->s;
  ZSTD_inBuffer in = { st->packed->data, (size_t)st->packed->size, st->at };
  ZSTD_outBuffer out = { s->out->data + s->out->size, (size_t)s->piece, 0 };
  size_t left = ZSTD_decompressStream(st->codec, &out, &in);
  if (ZSTD_isError(left)) return damaged(s, "zstd", ZSTD_getErrorName(left));
  st->at = in.pos;
  s->out->size += (int64_t)out.pos;
  if (left == 0) st->more = in.pos < in.size;
  else if (in.pos == in.size && out.pos < out.size) return cut_off(s, "zstd");
  return TSR_OK;
}

static tsr_status unpack_zstd(step *st)
{
  ZSTD_DCtx *codec = ZSTD_createDCtx();
  if (!codec) return no_memory(st->s->ask->path, 0, st->s->error);
  st->codec = codec;
  st->run = zstd_step;
  tsr_status status = run_steps(st);
  ZSTD_freeDCtx(codec);
  return status;
}

/* Puts what the bytes unpack to in their place. */
static tsr_status unpack(source *s)
{
  tsr__loaded packed = *s->out;
  step st = { .s = s, .packed = &packed };
  bool gzip = is_gzip(packed.data, (size_t)packed.size);
  bool zstd = packed.size >= 4 && memcmp(packed.data, "\x28\xb5\x2f\xfd", 4) == 0;
  if (!gzip && !zstd) return TSR_OK;
  *s->out = (tsr__loaded){ .heap = s->heap };
  tsr_status status = resize(s, (size_t)packed.size * 3 + (size_t)s->piece + (size_t)s->ask->pad);
  if (!status) status = gzip ? unpack_gzip(&st) : unpack_zstd(&st);
  tsr__loaded_free(&packed);
  return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

tsr_status tsr__file_load(const tsr__load_ask *ask, tsr__loaded *out, tsr__error *error)
{
  source s = { .ask = ask, .heap = &ask->rt->heap, .error = error, .fd = -1, .out = out };
  s.piece = ask->opts && ask->opts->piece > 0 ? ask->opts->piece : PIECE;
  *out = (tsr__loaded){ .heap = s.heap };
  tsr_status status = open_source(&s);
  step st = { .s = &s, .run = read_step };
  if (!status) status = s.standard ? run_steps(&st) : load_file(&s);
  if (!status) status = unpack(&s);
  const char *name = s.standard ? "standard input" : ask->path;
  if (!status) status = tsr__file_magic(name, ask->format, out->data, (size_t)out->size, error);
  if (!status) memset(out->data + out->size, 0, (size_t)ask->pad);
  if (s.fd >= 0 && !s.standard) close(s.fd);
  if (status) tsr__loaded_free(out);
  return status;
}

void tsr__loaded_free(tsr__loaded *loaded)
{
  if (loaded->heap) tsr__del(loaded->heap, loaded->data, loaded->room);
  *loaded = (tsr__loaded){ 0 };
}
