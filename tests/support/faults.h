/* The system's calls as the library sees them, made to fail: executables whose source says "Wraps
 * the system's calls" are linked so that open, read, write, ... go through here.
 *
 * A fault is one class of calls, which of them fails, and how. Calls of other classes, and of none
 * while no fault is set, are the system's own. All calls are counted, as are files left open. */
#ifndef TESTS_SUPPORT_FAULTS_H
#define TESTS_SUPPORT_FAULTS_H

#include "harness.h"

enum fault_call {
  FAULT_OPEN,   /* open */
  FAULT_STAT,   /* fstat, stat, lstat */
  FAULT_READ,   /* read, pread */
  FAULT_WRITE,  /* write, pwrite */
  FAULT_CLOSE,  /* close: the file is closed, and the call fails */
  FAULT_RENAME, /* rename */
  FAULT_UNLINK, /* unlink, rmdir */
  FAULT_FOLDER, /* mkdir */
  FAULT_MODE,   /* fchmod */
  FAULT_SYNC,   /* fdatasync */
  FAULT_LOCK,   /* flock */
  FAULT_MAP,    /* mmap */
  FAULT_MEMORY, /* aligned_alloc, realloc, codecs' contexts, glob: code is ENOMEM */
  FAULT_THREAD, /* pthread_create */
  FAULT_CALLS
};

enum fault_how {
  FAULT_FAILS, /* -1 and errno */
  FAULT_SHORT, /* reads and writes move one byte */
  FAULT_END,   /* reads find the end of the file, writes take no bytes */
  FAULT_DIES   /* the process is killed before it is made */
};

struct fault {
  enum fault_call call;
  int64_t at;   /* 1 = the first call from now on */
  bool stay;    /* and all later ones */
  int64_t each; /* and every so many-th one after it; 0 = none */
  enum fault_how how;
  int code; /* errno */
};

const char *fault_name(enum fault_call call);

/* Sets the one fault there is and begins to count anew; NULL: none. */
void fault_set(const struct fault *fault);
/* Calls of a class since fault_set. */
int64_t fault_count(enum fault_call call);
/* Files opened and not yet closed by the library. */
int64_t fault_files(void);

/* A call that changes files and was made: open (with O_CREAT or of a folder, too), write, sync,
 * close, rename, unlink, rmdir or mkdir. */
struct fault_seen {
  enum fault_call call;
  const char *path, *to; /* of open, mkdir, unlink, rmdir; rename: to that */
  int fd, flags;
  const void *data;
  size_t length;
  int64_t at; /* of a write; -1: behind the last */
};
/* Has every such call told, in the thread that made it; NULL: none. */
void fault_watch(void (*seen)(const struct fault_seen *what, void *user), void *user);

#endif
