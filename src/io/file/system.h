/* The system's calls on files, as this room uses them: interruptions by signals are never seen, and
 * a descriptor that somebody else made non-blocking waits. */
#ifndef TSR_IO_SYSTEM_H
#define TSR_IO_SYSTEM_H

#include "base/base.h"

#include <sys/types.h>

/* What a code of the system is to a user: memory that ended, or a file that failed. */
tsr_status tsr__sys_status(int code);
/* Opens what is there. -1 with errno. */
int tsr__sys_open(const char *path, int flags);
/* Creates a file, with these permissions but for the umask's, to write to. -1 with errno: EEXIST
 * also for a link that leads nowhere. */
int tsr__sys_create(const char *path, mode_t mode);
/* Takes the lock of a file for this descriptor and its copies, which the last close gives back,
 * also that of a process that is killed. */
typedef enum tsr__sys_locked {
  TSR__SYS_LOCKED,
  TSR__SYS_BUSY,   /* another descriptor has it */
  TSR__SYS_NO_LOCK /* errno: EOPNOTSUPP where the file system has no locks */
} tsr__sys_locked;
tsr__sys_locked tsr__sys_lock(int fd);
/* Waits until the bytes of a file are on its disk; where a file system has no such thing, that is
 * all right. -1 with errno. */
int tsr__sys_sync(int fd);
/* Has the disk begin with bytes that were written, for a tsr__sys_sync that comes later and then
 * finds less to do. It waits for nothing and may do nothing. */
void tsr__sys_sync_begin(int fd, int64_t at, size_t length);
/* Whether what is open there is read as it comes: a pipe or a terminal. */
bool tsr__sys_streams(int fd);
/* Waits some milliseconds for bytes, or for an end, of what streams; false: neither came. A pipe
 * that nobody has opened to write to has no end. */
bool tsr__sys_ready(int fd, int milliseconds);
/* Closes; the descriptor is gone, whatever is returned. -1 with errno where bytes may be lost. */
int tsr__sys_close(int fd);
/* Reads at most `length` bytes at an offset, or, where `at` is below 0, what comes next. Returns
 * how many, 0 at the end, or -1 with errno. */
int64_t tsr__sys_read(int fd, void *to, size_t length, int64_t at);
/* Reads `length` bytes at an offset; fewer only at the end. Returns as tsr__sys_read. */
int64_t tsr__sys_read_all(int fd, void *to, size_t length, int64_t at);
/* Writes some of the bytes. Returns how many, or -1 with errno. */
int64_t tsr__sys_write(int fd, const void *from, size_t length);
/* Writes all of them at an offset. -1 with errno. */
int tsr__sys_write_all(int fd, const void *from, size_t length, int64_t at);

#endif
