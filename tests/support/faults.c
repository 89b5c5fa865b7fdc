/* Calls that fail as told.
 *
 *   library -> open = __wrap_open -> is it its turn? yes: errno, -1    no: __real_open
 *
 * Invariant: what is not the fault's turn does what the system does, in any number of threads. */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

static struct fault now;
static void (*watch)(const struct fault_seen *what, void *user);
static void *watch_user;
static bool set;
enum { FILES = 1024 };

static _Atomic int64_t counts[FAULT_CALLS], files;
static _Atomic bool opened[FILES]; /* by open, not by what opens files in other ways */

const char *fault_name(enum fault_call call)
{
  static const char *const names[FAULT_CALLS] = { "open",   "stat",   "read",   "write",  "close",
                                                  "rename", "unlink", "mkdir",  "fchmod", "sync",
                                                  "flock",  "mmap",   "memory", "thread" };
  return names[call];
}

void fault_set(const struct fault *fault)
{
  set = fault;
  if (fault) now = *fault;
  for (int i = 0; i < FAULT_CALLS; i++) counts[i] = 0;
}

int64_t fault_count(enum fault_call call)
{
  return counts[call];
}

int64_t fault_files(void)
{
  return files;
}

void fault_watch(void (*seen)(const struct fault_seen *what, void *user), void *user)
{
  watch = seen;
  watch_user = user;
}

static void tell(struct fault_seen what)
{
  if (watch) watch(&what, watch_user);
}

/* Counts a call; whether it is one to fail. */
static bool turn(enum fault_call call)
{
  int64_t n = ++counts[call];
  if (!set || now.call != call) return false;
  bool own =
      n == now.at || (n > now.at && (now.stay || (now.each && (n - now.at) % now.each == 0)));
  if (own && now.how == FAULT_DIES) kill(getpid(), SIGKILL);
  return own;
}

/* Whether a call that gives 0 or -1 is to fail; errno is set then. */
static bool refused(enum fault_call call)
{
  if (!turn(call)) return false;
  errno = now.code;
  return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
  va_list args;
  va_start(args, flags);
  mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
  va_end(args);
  if (refused(FAULT_OPEN)) return -1;
  int fd = __real_open(path, flags, mode);
  if (fd >= 0 && fd < FILES) {
    opened[fd] = true;
    files++;
    tell((struct fault_seen){ FAULT_OPEN, .path = path, .fd = fd, .flags = flags });
  }
  return fd;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
  bool bad = turn(FAULT_CLOSE);
  if (fd >= 0 && fd < FILES && atomic_exchange(&opened[fd], false)) files--;
  tell((struct fault_seen){ FAULT_CLOSE, .fd = fd });
  int result = __real_close(fd);
  if (!bad) return result;
  errno = now.code;
  return -1;
}

#define WRAP(name, call, params, args)              \
  int __real_##name params;                         \
  int __wrap_##name params;                         \
  int __wrap_##name params                          \
  {                                                 \
    return refused(call) ? -1 : __real_##name args; \
  }
WRAP(fstat, FAULT_STAT, (int fd, struct stat *out), (fd, out))
WRAP(stat, FAULT_STAT, (const char *path, struct stat *out), (path, out))
WRAP(lstat, FAULT_STAT, (const char *path, struct stat *out), (path, out))
WRAP(fchmod, FAULT_MODE, (int fd, mode_t mode), (fd, mode))
WRAP(flock, FAULT_LOCK, (int fd, int how), (fd, how))

/* The same, and who watches is told what was done. */
#define WRAP_TOLD(name, call, params, args, ...)                 \
  int __real_##name params;                                      \
  int __wrap_##name params;                                      \
  int __wrap_##name params                                       \
  {                                                              \
    int result = refused(call) ? -1 : __real_##name args;        \
    if (!result) tell((struct fault_seen){ call, __VA_ARGS__ }); \
    return result;                                               \
  }
WRAP_TOLD(rename, FAULT_RENAME, (const char *from, const char *to), (from, to), .path = from,
          .to = to)
WRAP_TOLD(unlink, FAULT_UNLINK, (const char *path), (path), .path = path)
WRAP_TOLD(rmdir, FAULT_UNLINK, (const char *path), (path), .path = path)
WRAP_TOLD(mkdir, FAULT_FOLDER, (const char *path, mode_t mode), (path, mode), .path = path)
WRAP_TOLD(fdatasync, FAULT_SYNC, (int fd), (fd), .fd = fd)

/* How many bytes a call moves whose turn it is; below 0: it fails. */
static int64_t moved(size_t length)
{
  errno = now.code;
  return now.how == FAULT_FAILS ? -1 : now.how == FAULT_END ? 0 : length > 0;
}

ssize_t __real_read(int fd, void *to, size_t length);
ssize_t __wrap_read(int fd, void *to, size_t length);
ssize_t __wrap_read(int fd, void *to, size_t length)
{
  int64_t n = turn(FAULT_READ) ? moved(length) : 2;
  return n == 2 ? __real_read(fd, to, length) : n == 1 ? __real_read(fd, to, 1) : n;
}

ssize_t __real_pread(int fd, void *to, size_t length, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t length, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t length, off_t at)
{
  int64_t n = turn(FAULT_READ) ? moved(length) : 2;
  return n == 2 ? __real_pread(fd, to, length, at) : n == 1 ? __real_pread(fd, to, 1, at) : n;
}

ssize_t __real_write(int fd, const void *from, size_t length);
ssize_t __wrap_write(int fd, const void *from, size_t length);
ssize_t __wrap_write(int fd, const void *from, size_t length)
{
  int64_t n = turn(FAULT_WRITE) ? moved(length) : 2;
  if (n < 1) return n;
  ssize_t done = __real_write(fd, from, n == 2 ? length : 1);
  if (done > 0)
    tell((struct fault_seen){ FAULT_WRITE, .fd = fd, .data = from, .length = (size_t)done,
                              .at = -1 });
  return done;
}

ssize_t __real_pwrite(int fd, const void *from, size_t length, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t length, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t length, off_t at)
{
  int64_t n = turn(FAULT_WRITE) ? moved(length) : 2;
  if (n < 1) return n;
  ssize_t done = __real_pwrite(fd, from, n == 2 ? length : 1, at);
  if (done > 0)
    tell((struct fault_seen){ FAULT_WRITE, .fd = fd, .data = from, .length = (size_t)done,
                              .at = at });
  return done;
}

/* ---- memory and threads ---------------------------------------------------------------------- */

void *__real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
  return refused(FAULT_MAP) ? MAP_FAILED : __real_mmap(at, length, protection, flags, fd, offset);
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
  return refused(FAULT_MEMORY) ? NULL : __real_aligned_alloc(alignment, size);
}

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size)
{
  return refused(FAULT_MEMORY) ? NULL : __real_realloc(block, size);
}

int __real_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *out);
int __wrap_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *out);
int __wrap_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *out)
{
  return refused(FAULT_MEMORY) ? GLOB_NOSPACE : __real_glob(pattern, flags, error, out);
}

int __real_inflateInit2_(z_streamp z, int bits, const char *version, int size);
int __wrap_inflateInit2_(z_streamp z, int bits, const char *version, int size);
int __wrap_inflateInit2_(z_streamp z, int bits, const char *version, int size)
{
  return refused(FAULT_MEMORY) ? Z_MEM_ERROR : __real_inflateInit2_(z, bits, version, size);
}

int __real_inflate(z_streamp z, int flush);
int __wrap_inflate(z_streamp z, int flush);
int __wrap_inflate(z_streamp z, int flush)
{
  return refused(FAULT_MEMORY) ? Z_MEM_ERROR : __real_inflate(z, flush);
}

int __real_deflateInit2_(z_streamp z, int level, int method, int bits, int memory, int strategy,
                         const char *version, int size);
int __wrap_deflateInit2_(z_streamp z, int level, int method, int bits, int memory, int strategy,
                         const char *version, int size);
int __wrap_deflateInit2_(z_streamp z, int level, int method, int bits, int memory, int strategy,
                         const char *version, int size)
{
  if (refused(FAULT_MEMORY)) return Z_MEM_ERROR;
  return __real_deflateInit2_(z, level, method, bits, memory, strategy, version, size);
}

#define WRAP_CREATE(type, name)                            \
  type *__real_##name(void);                               \
  type *__wrap_##name(void);                               \
  type *__wrap_##name(void)                                \
  {                                                        \
    return refused(FAULT_MEMORY) ? NULL : __real_##name(); \
  }
WRAP_CREATE(ZSTD_CCtx, ZSTD_createCCtx)
WRAP_CREATE(ZSTD_DCtx, ZSTD_createDCtx)
WRAP_CREATE(ZSTD_DStream, ZSTD_createDStream)

#define WRAP_SIZE(name, params, args)                         \
  size_t __real_##name params;                                \
  size_t __wrap_##name params;                                \
  size_t __wrap_##name params                                 \
  {                                                           \
    size_t none = (size_t)0 - ZSTD_error_memory_allocation;   \
    return refused(FAULT_MEMORY) ? none : __real_##name args; \
  }
WRAP_SIZE(ZSTD_decompressStream, (ZSTD_DCtx * z, ZSTD_outBuffer *to, ZSTD_inBuffer *from),
          (z, to, from))
WRAP_SIZE(ZSTD_compressStream2,
          (ZSTD_CCtx * z, ZSTD_outBuffer *to, ZSTD_inBuffer *from, ZSTD_EndDirective end),
          (z, to, from, end))

locale_t __real_newlocale(int mask, const char *name, locale_t base);
locale_t __wrap_newlocale(int mask, const char *name, locale_t base);
locale_t __wrap_newlocale(int mask, const char *name, locale_t base)
{
  return refused(FAULT_MEMORY) ? (locale_t)0 : __real_newlocale(mask, name, base);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *user)
{
  return refused(FAULT_THREAD) ? EAGAIN : __real_pthread_create(thread, attr, run, user);
}
