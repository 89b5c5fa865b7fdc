/* Files to read: a path, a pattern or "-" to bytes in memory, unpacked. */
#ifndef TSR_IO_FILES_H
#define TSR_IO_FILES_H

#include "base/base.h"

/* Knobs for tests; zero means default. */
typedef struct tsr__file_opts {
  int64_t piece; /* bytes loaded or unpacked at a time (4 MiB) */
  /* Reads as pread does: returns bytes, 0 at the end, -1 with errno. NULL: pread. */
  int64_t (*read)(void *user, int fd, void *to, size_t length, int64_t offset);
  void *user;
} tsr__file_opts;

/* Files as they are asked for; texts are borrowed. */
typedef struct tsr__path_ask {
  const char *path;
  const char *const *more; /* paths of files that come behind those of `path` */
  int more_count;
  bool literal; /* nothing is a pattern */
} tsr__path_ask;

/* The files that paths mean. */
typedef struct tsr__paths {
  tsr__heap *heap;
  int count;
  char **path;
  size_t room;
} tsr__paths;

/* A path with * ? [ or { that is no file's name is a pattern, whose files come in order of their
 * names, each once; others are themselves. "{000..099}", "{a..e}" and "{0..8..2}" are ranges, all
 * of which must be there, in their order. TSR_EIO where a pattern matches nothing, TSR_EARG for a
 * NULL, TSR_ENOMEM; `out` is freed in any case. */
tsr_status tsr__paths_find(tsr__heap *heap, const tsr__path_ask *ask, tsr__paths *out,
                           tsr__error *error);
void tsr__paths_free(tsr__paths *paths);
/* The paths as they were given, for messages: "a.csv and 2 more". NULL out of memory. */
char *tsr__paths_said(tsr__arena *arena, const tsr__path_ask *ask);

/* A file's bytes, which nobody else can change. */
typedef struct tsr__loaded {
  tsr__heap *heap;
  char *data; /* `size` bytes, then `pad` zeros */
  int64_t size;
  size_t room; /* of the block that `data` is */
} tsr__loaded;

typedef struct tsr__load_ask {
  tsr_runtime *rt;
  const char *path;   /* "-": standard input */
  const char *format; /* what is expected, for messages: "CSV", "JSON lines"; NULL: anything */
  const char *what;   /* names the work to the progress callback */
  int pad;
  int64_t unpack_limit;       /* as in unpack.h; 0: the default */
  const tsr__file_opts *opts; /* NULL: none */
} tsr__load_ask;

/* Reads all of a file, with all workers where it is a plain one; gzip and zstd, seen by their first
 * bytes, are unpacked and their checksums looked at. Errors: TSR_EIO, TSR_EPARSE (damaged or cut
 * off), TSR_EUNSUPPORTED (plainly another format, by name), TSR_ENOMEM, TSR_ECANCELLED. */
tsr_status tsr__file_load(const tsr__load_ask *ask, tsr__loaded *out, tsr__error *error);
void tsr__loaded_free(tsr__loaded *loaded);

/* TSR_EIO: "PATH: cannot WHAT: ..." by an errno. */
tsr_status tsr__file_error(const char *path, const char *what, int code, tsr__error *error);
/* TSR_EIO: a file of `stored` bytes ended at `found`. */
tsr_status tsr__file_shrunk(const char *path, int64_t found, int64_t stored, tsr__error *error);

/* Refuses what is plainly another format, by its first bytes, in words that say what to do. */
tsr_status tsr__file_magic(const char *path, const char *format, const char *bytes, size_t length,
                           tsr__error *error);

#endif
