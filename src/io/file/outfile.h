/* Files that appear whole or not at all: written to a temporary file beside the path, forced to the
 * disk, then renamed. What is replaced keeps its permissions, and a link stays one. "-" is standard
 * output, and what is there and no regular file (a device, a pipe) is written in place. Names that
 * end in .gz or .zst are compressed on the way. */
#ifndef TSR_IO_OUTFILE_H
#define TSR_IO_OUTFILE_H

#include "base/base.h"

typedef struct tsr__outfile tsr__outfile;

/* Knobs; zero means default. */
typedef struct tsr__out_opts {
  bool plain; /* never compress, whatever the name */
  tsr__progress
      *progress; /* asked between pieces, for a writer on the calling thread; NULL: nobody is */
  /* Writes as write does: returns bytes, or -1 with errno. NULL: write. For tests. */
  int64_t (*write)(void *user, int fd, const void *from, size_t length);
  void *user;
} tsr__out_opts;

/* Whether a path ends so (".json"), an ending of a compression left out of account. */
bool tsr__path_ends(const char *path, const char *end);

/* Opens for writing; NULL with the error set (TSR_EIO, TSR_ENOMEM). `opts` may be NULL. */
tsr__outfile *tsr__out_open(tsr__heap *heap, const char *path, const tsr__out_opts *opts,
                            tsr__error *error);
/* Appends. After a failure the file can only be closed, which gives the same error. */
tsr_status tsr__out_put(tsr__outfile *out, const void *data, size_t length, tsr__error *error);
/* Bytes put so far, before compression. */
int64_t tsr__out_length(const tsr__outfile *out);
/* Ends it: with `keep` the file gets its name, else (or after a failure) nothing is left behind.
 * Frees `out`; NULL is allowed without `keep`. */
tsr_status tsr__out_close(tsr__outfile *out, bool keep, tsr__error *error);

#endif
