/* Files that are read at known places as long as somebody wants to.
 *
 * What is known of a file was found out when it was looked at: each reading asks whether it is
 * still that one, by device, inode, size and time, and is refused otherwise. Descriptors are the
 * runtime's: a part of what the process may have, kept for the files that were read last, and
 * opened anew for others, so that any number of files can be known. */
#ifndef TSR_IO_KNOWN_FILES_H
#define TSR_IO_KNOWN_FILES_H

#include "base/base.h"

/* A file; `path` is borrowed. The rest is for this room. */
typedef struct tsr__kept_file tsr__kept_file;
struct tsr__kept_file {
  const char *path;
  int64_t size;
  int64_t changed; /* nanoseconds */
  uint64_t device, inode;
  bool linked; /* some folder has it; files of no folder exist, too */
  /* Under the lock of the runtime's list. */
  bool open;
  int fd, readers;
  tsr__kept_file *before, *after; /* in the list, which begins with what was read longest ago */
};

/* Looks at a plain file: from then on it is that one. The descriptor is to be given back, -1 with
 * the error set. */
int tsr__kept_look(tsr_runtime *rt, tsr__kept_file *file, tsr__error *error);
void tsr__kept_give(tsr_runtime *rt, tsr__kept_file *file, int fd);
/* Reads bytes, all of them; several threads may. The error names the byte and not the file. Errors:
 * TSR_EIO. */
typedef struct tsr__kept_part {
  int64_t at, bytes;
} tsr__kept_part;
tsr_status tsr__kept_read(tsr_runtime *rt, tsr__kept_file *file, tsr__kept_part part, void *to,
                          tsr__error *error);
/* Forgets a file that nobody reads. */
void tsr__kept_close(tsr_runtime *rt, tsr__kept_file *file);

#endif
