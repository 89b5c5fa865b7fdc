/* Writing files.
 *
 *   put -> [deflate | zstd] -> chunk of 1 MiB -> write       path.5f3a91c0.tmp
 *   close, all well:                       fdatasync, then rename to path
 *
 * Invariant: under the path stands what stood there before, or all of what was put, also after the
 * power failed. Whatever else fails, the temporary file goes away with the struct. At no moment may
 * anybody read it who may not read what it replaces. */
#include "io/file/outfile.h"

#include "io/file/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum {
  CHUNK = 1 << 20,
  PIECE = 8 << 20,
  PATH_BYTES = 4096,
  MOST_LINKS = 40,
  GZIP_WINDOW = 15 + 16
};

enum packing { PLAIN, GZIP, ZSTD };

struct tsr__outfile {
  tsr__heap *heap;
  tsr__out_opts opts;
  int fd;
  uint8_t packing;
  bool standard;         /* not ours to close */
  bool rename;           /* written to `name`, to become `path` */
  bool failed;           /* `error` says why */
  char path[PATH_BYTES]; /* links followed */
  char name[PATH_BYTES]; /* the temporary file's */
  char *chunk;           /* bytes on their way to the file */
  size_t used;           /* of CHUNK */
  int64_t length;
  z_stream deflate;
  ZSTD_CCtx *zstd;
  tsr__error error;
};

/* ---- failing ------------------------------------------------------------------------------- */

static tsr_status fail(tsr__outfile *out, tsr_status status, const char *what, const char *why)
{
  out->failed = true;
  return tsr__error_set(&out->error, status, "%s: cannot %s: %s", out->path, what, why);
}

static tsr_status fail_code(tsr__outfile *out, const char *what, int code)
{
  char buffer[128];
  return fail(out, tsr__sys_status(code), what, tsr__sys_text(code, buffer, sizeof buffer));
}

static tsr_status hand_over(const tsr__outfile *out, tsr__error *error)
{
  return tsr__error_set(error, out->error.status, "%s", out->error.text);
}

/* ---- opening ------------------------------------------------------------------------------- */

/* A number that nobody foresees, so that nobody can take the name first. */
static uint32_t any_number(int attempt)
{
  uint32_t number;
  struct timespec now;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number) return number;
  clock_gettime(CLOCK_REALTIME, &now); /* early in a boot; a name that is taken is refused anyway */
  return (uint32_t)tsr__hash(&now, sizeof now, (uint64_t)attempt);
}

/* Creates a file beside `path` under a name that nobody has. */
static int create_beside(tsr__outfile *out, mode_t mode)
{
  for (int attempt = 0; attempt < 1000; attempt++) {
    int length = snprintf(out->name, PATH_BYTES, "%s.%08x.tmp", out->path, any_number(attempt));
    if (length < 0 || length >= PATH_BYTES) {
      errno = ENAMETOOLONG;
      return -1;
    }
    int fd = tsr__sys_create(out->name, mode);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* Puts what a link names in the place of its path; false with errno. */
static bool follow_one(char path[PATH_BYTES])
{
  char target[PATH_BYTES];
  ssize_t length = readlink(path, target, sizeof target);
  if (length < 0) return false;
  /* An absolute name takes the place of all of the path, a relative one of what stands behind its
   * last slash. A name that was cut off has PATH_BYTES bytes, and is refused below. */
  char *slash = length && target[0] == '/' ? NULL : strrchr(path, '/');
  size_t folder = slash ? (size_t)(slash + 1 - path) : 0;
  if (folder + (size_t)length >= PATH_BYTES) {
    errno = ENAMETOOLONG;
    return false;
  }
  memcpy(path + folder, target, (size_t)length);
  path[folder + (size_t)length] = '\0';
  return true;
}

/* Follows links, so that a link stays one and what it names is replaced, or made where nothing
 * is. */
static bool follow(char path[PATH_BYTES])
{
  struct stat info;
  for (int links = 0; links < MOST_LINKS; links++) {
    if (lstat(path, &info) || !S_ISLNK(info.st_mode)) return true;
    if (!follow_one(path)) return false;
  }
  errno = ELOOP;
  return false;
}

/* Creates the file that is to become `path`. What is replaced (NULL: nothing) keeps its
 * permissions: until they are set, fewer are given, never more. */
static tsr_status create(tsr__outfile *out, const struct stat *before)
{
  mode_t mode = before ? before->st_mode & 0777 : 0666;
  out->fd = create_beside(out, mode);
  if (out->fd < 0) return fail_code(out, "create", errno);
  out->rename = true;
  if (before && fchmod(out->fd, mode)) errno = 0; /* the umask's share of them must do */
  return TSR_OK;
}

static tsr_status open_path(tsr__outfile *out, const char *path)
{
  struct stat info;
  int length = snprintf(out->path, PATH_BYTES, "%s", path);
  if (length < 0 || length >= PATH_BYTES) return fail_code(out, "create", ENAMETOOLONG);
  if (strcmp(path, "-") == 0) {
    snprintf(out->path, PATH_BYTES, "standard output");
    fflush(stdout); /* what the program printed before comes before */
    out->fd = STDOUT_FILENO;
    out->standard = true;
    return TSR_OK;
  }
  bool there = stat(out->path, &info) == 0;
  if (!there && errno != ENOENT && errno != ELOOP) return fail_code(out, "look at", errno);
  if (there && S_ISDIR(info.st_mode)) return fail_code(out, "create", EISDIR);
  if (there && !S_ISREG(info.st_mode)) { /* by its own name: /dev/stdout's text names no pipe */
    out->fd = tsr__sys_open(out->path, O_WRONLY);
    return out->fd < 0 ? fail_code(out, "open", errno) : TSR_OK;
  }
  if (!follow(out->path)) return fail_code(out, "follow", errno);
  return create(out, there ? &info : NULL);
}

static bool ends_in(const char *path, size_t length, const char *end)
{
  size_t n = strlen(end);
  return length > n && memcmp(path + length - n, end, n) == 0;
}

bool tsr__path_ends(const char *path, const char *end)
{
  size_t length = strlen(path);
  if (ends_in(path, length, ".gz")) length -= 3;
  else if (ends_in(path, length, ".zst")) length -= 4;
  return ends_in(path, length, end);
}

static tsr_status open_packing(tsr__outfile *out, const char *path)
{
  size_t length = strlen(path);
  if (out->opts.plain) return TSR_OK;
  if (ends_in(path, length, ".gz")) {
    if (deflateInit2(&out->deflate, 6, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      return fail_code(out, "compress", ENOMEM);
    out->packing = GZIP;
  } else if (ends_in(path, length, ".zst")) {
    out->zstd = ZSTD_createCCtx();
    if (!out->zstd) return fail_code(out, "compress", ENOMEM);
    /* Only on request: with it a damaged copy is found out when it is read. */
    ZSTD_CCtx_setParameter(out->zstd, ZSTD_c_checksumFlag, 1);
    out->packing = ZSTD;
  }
  return TSR_OK;
}

tsr__outfile *tsr__out_open(tsr__heap *heap, const char *path, const tsr__out_opts *opts,
                            tsr__error *error)
{
  tsr__outfile *out = tsr__new(heap, sizeof *out);
  if (!out) {
    tsr__error_set(error, TSR_ENOMEM, "%s: out of memory", path);
    return NULL;
  }
  out->heap = heap;
  out->fd = -1;
  if (opts) out->opts = *opts;
  tsr_status status = open_path(out, path);
  if (!status) status = open_packing(out, path);
  if (!status && !(out->chunk = tsr__new_raw(heap, CHUNK)))
    status = fail_code(out, "write", ENOMEM);
  if (!status) return out;
  /* Whatever was opened is closed, and the temporary file goes. */
  tsr__out_close(out, false, error);
  return NULL;
}

/* ---- writing ------------------------------------------------------------------------------- */

static tsr_status write_all(tsr__outfile *out, const char *data, size_t length)
{
  while (length) {
    /* The system writes less than 2 GiB at a time. */
    size_t some = length < (1u << 30) ? length : 1u << 30;
    int64_t n = out->opts.write ? out->opts.write(out->opts.user, out->fd, data, some)
                                : tsr__sys_write(out->fd, data, some);
    /* A signal came before any byte was taken: once more. */
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_code(out, "write", errno);
    /* Would be tried for ever. */
    if (n == 0) return fail(out, TSR_EIO, "write", "the device took no bytes");
    data += n;
    length -= (size_t)n;
  }
  return TSR_OK;
}

static tsr_status empty_chunk(tsr__outfile *out)
{
  size_t used = out->used;
  out->used = 0;
  return write_all(out, out->chunk, used);
}

static tsr_status put_plain(tsr__outfile *out, const char *data, size_t length)
{
  /* Small pieces gather in the chunk; large ones go by it, uncopied, in order. */
  if (length >= CHUNK - out->used) {
    if (empty_chunk(out)) return out->error.status;
    if (length >= CHUNK) return write_all(out, data, length);
  }
  memcpy(out->chunk + out->used, data, length);
  out->used += length;
  return TSR_OK;
}

/* `last`: what is left in the compressor too. */
static tsr_status put_gzip(tsr__outfile *out, const char *data, size_t length, bool last)
{
  z_stream *z = &out->deflate;
  int code = Z_OK;
  do {
    /* zlib counts bytes in 32 bits. */
    size_t some = length < (1u << 30) ? length : 1u << 30;
    z->next_in = (Bytef *)(uintptr_t)data;
    z->avail_in = (uInt)some;
    data += some;
    length -= some;
    /* Finished only when the compressor says so: what it held back may fill several chunks. */
    do {
      z->next_out = (Bytef *)out->chunk + out->used;
      z->avail_out = (uInt)(CHUNK - out->used);
      code = deflate(z, last && !length ? Z_FINISH : Z_NO_FLUSH);
      out->used = CHUNK - z->avail_out;
      if (!z->avail_out && empty_chunk(out)) return out->error.status;
    } while (z->avail_in || (last && code != Z_STREAM_END));
  } while (length);
  return TSR_OK;
}

static tsr_status put_zstd(tsr__outfile *out, const char *data, size_t length, bool last)
{
  ZSTD_inBuffer in = { data, length, 0 };
  size_t left;
  /* Until all was taken; at the last call, until nothing is left inside either. */
  do {
    ZSTD_outBuffer to = { out->chunk, CHUNK, out->used };
    left = ZSTD_compressStream2(out->zstd, &to, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left)) return fail(out, TSR_ENOMEM, "compress", ZSTD_getErrorName(left));
    out->used = to.pos;
    if (out->used == CHUNK && empty_chunk(out)) return out->error.status;
  } while (in.pos < length || (last && left));
  return TSR_OK;
}

static tsr_status put(tsr__outfile *out, const char *data, size_t length, bool last)
{
  if (out->failed) return out->error.status;
  switch (out->packing) {
  case GZIP: return put_gzip(out, data, length, last);
  case ZSTD: return put_zstd(out, data, length, last);
  default: return put_plain(out, data, length);
  }
}

tsr_status tsr__out_put(tsr__outfile *out, const void *data, size_t length, tsr__error *error)
{
  const char *at = data;
  /* Packing is slower than writing: smaller pieces between two looks at the callback. */
  size_t piece = out->packing == PLAIN ? PIECE : PIECE / 32;
  for (size_t some; length && !out->failed; at += some, length -= some) {
    some = out->opts.progress && length > piece ? piece : length;
    out->length += (int64_t)some;
    if (put(out, at, some, false)) break;
    /* Not behind the last: what is all there is not cancelled. */
    if (some == length || !tsr__progress_stops(out->opts.progress, 0)) continue;
    out->failed = true;
    tsr__cancelled(&out->error, out->path);
  }
  return out->failed ? hand_over(out, error) : TSR_OK;
}

int64_t tsr__out_length(const tsr__outfile *out)
{
  return out->length;
}

/* ---- closing ------------------------------------------------------------------------------- */

static void finish(tsr__outfile *out)
{
  /* The compressor's rest, then the chunk's. */
  if (put(out, "", 0, true) || empty_chunk(out)) return;
  if (out->standard) return;
  /* Data before the name: after a power failure the name must not point at a file that is empty. */
  if (out->rename && tsr__sys_sync(out->fd)) {
    fail_code(out, "write", errno);
    return;
  }
  /* Closed once, whatever it says: closing again might hit another's file. Its error counts:
   * network file systems tell there what could not be written. */
  int fd = out->fd;
  out->fd = -1;
  if (tsr__sys_close(fd)) fail_code(out, "write", errno);
  /* The old file is replaced in one step. */
  else if (out->rename && rename(out->name, out->path)) fail_code(out, "rename to", errno);
  else out->rename = false;
}

tsr_status tsr__out_close(tsr__outfile *out, bool keep, tsr__error *error)
{
  if (!out) return TSR_OK;
  if (keep && !out->failed) finish(out);
  tsr_status status = out->failed ? hand_over(out, error) : TSR_OK;
  if (out->fd >= 0 && !out->standard) tsr__sys_close(out->fd);
  /* Not renamed: nobody shall find it. */
  if (out->rename) unlink(out->name);
  if (out->packing == GZIP) deflateEnd(&out->deflate);
  ZSTD_freeCCtx(out->zstd);
  tsr__del(out->heap, out->chunk, CHUNK);
  tsr__del(out->heap, out, sizeof *out);
  return status;
}
