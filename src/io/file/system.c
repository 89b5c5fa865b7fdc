/* The system's calls on files.
 *
 * Invariant: EINTR and EAGAIN never leave this file. An interrupted close counts as done: Linux
 * gives the descriptor up first, and closing it again could close another's. */
#include "io/file/system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 1 << 30 }; /* bytes a call; the system takes no more than 2 GiB */

tsr_status tsr__sys_status(int code)
{
  return code == ENOMEM ? TSR_ENOMEM : TSR_EIO;
}

static int open_with(const char *path, int flags, mode_t mode)
{
  /* Not to be seen by programs that this one starts. */
  for (;;) {
    int fd = open(path, flags | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EINTR) return fd;
  }
}

int tsr__sys_open(const char *path, int flags)
{
  return open_with(path, flags, 0);
}

int tsr__sys_create(const char *path, mode_t mode)
{
  return open_with(path, O_WRONLY | O_CREAT | O_EXCL, mode);
}

/* flock and not fcntl: its lock is the descriptor's and not the process's, where another close of
 * the same file would give it back. NFS makes one of the other. What says that there are no locks
 * differs by file system. */
tsr__sys_locked tsr__sys_lock(int fd)
{
  for (;;) {
    if (!flock(fd, LOCK_EX | LOCK_NB)) return TSR__SYS_LOCKED;
    if (errno == EWOULDBLOCK || errno == EAGAIN) return TSR__SYS_BUSY;
    if (errno == ENOSYS || errno == ENOLCK || errno == EINVAL) errno = EOPNOTSUPP;
    if (errno != EINTR) return TSR__SYS_NO_LOCK;
  }
}

int tsr__sys_sync(int fd)
{
  for (;;) {
    /* Pipes and some devices cannot be synchronised (EINVAL); what they got is beyond our reach. */
    if (!fdatasync(fd) || errno == EINVAL || errno == ENOSYS) return 0;
    if (errno != EINTR) return -1;
  }
}

void tsr__sys_sync_begin(int fd, int64_t at, size_t length)
{
  /* What cannot be begun is done by tsr__sys_sync, which also says what went wrong. */
  (void)sync_file_range(fd, at, (off_t)length, SYNC_FILE_RANGE_WRITE);
}

bool tsr__sys_streams(int fd)
{
  struct stat info;
  return fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || isatty(fd));
}

bool tsr__sys_ready(int fd, int milliseconds)
{
  struct pollfd wait = { .fd = fd, .events = POLLIN };
  /* What cannot be waited for is read, and says itself what is wrong. */
  return poll(&wait, 1, milliseconds) != 0;
}

int tsr__sys_close(int fd)
{
  return close(fd) && errno != EINTR ? -1 : 0;
}

/* Whether a call that failed is to be tried again; waits where there is something to wait for. */
static bool again(int fd, short events)
{
  if (errno == EINTR) return true;
  /* Somebody else's non-blocking pipe: wait until it is ready instead of turning in a loop. */
  if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
  struct pollfd wait = { .fd = fd, .events = events };
  return poll(&wait, 1, -1) >= 0 || errno == EINTR;
}

int64_t tsr__sys_read(int fd, void *to, size_t length, int64_t at)
{
  size_t some = length < MOST ? length : MOST;
  for (;;) {
    /* pread moves no offset that threads share. */
    ssize_t n = at < 0 ? read(fd, to, some) : pread(fd, to, some, (off_t)at);
    if (n >= 0 || !again(fd, POLLIN)) return n;
  }
}

int64_t tsr__sys_read_all(int fd, void *to, size_t length, int64_t at)
{
  size_t got = 0;
  while (got < length) {
    int64_t n = tsr__sys_read(fd, (char *)to + got, length - got, at + (int64_t)got);
    if (n < 0) return n;
    /* The end of the file: fewer bytes are the answer, and no error. */
    if (n == 0) break;
    got += (size_t)n;
  }
  return (int64_t)got;
}

int64_t tsr__sys_write(int fd, const void *from, size_t length)
{
  size_t some = length < MOST ? length : MOST;
  for (;;) {
    ssize_t n = write(fd, from, some);
    if (n >= 0 || !again(fd, POLLOUT)) return n;
  }
}

int tsr__sys_write_all(int fd, const void *from, size_t length, int64_t at)
{
  const char *rest = from;
  while (length) {
    size_t some = length < MOST ? length : MOST;
    ssize_t n = pwrite(fd, rest, some, (off_t)at);
    if (n < 0 && again(fd, POLLOUT)) continue;
    /* Would be tried for ever. */
    if (n == 0) errno = EIO;
    if (n <= 0) return -1;
    rest += n;
    at += n;
    length -= (size_t)n;
  }
  return 0;
}
