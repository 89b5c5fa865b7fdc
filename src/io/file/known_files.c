/* Files that are known, and the descriptors of those that are open.
 *
 *   list     oldest <-> ... <-> newest        open files of all sources, `most` at most
 *   taken    readers > 0                      never closed; the oldest of the others makes room
 *
 * A descriptor that finds no room in the list is its reader's own and closed behind the reading. */
#include "io/file/known_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "io/file/files.h"
#include "io/file/system.h"

enum { MOST = 256 }; /* a quarter of what the process may have, if that is less */

typedef struct kept_list {
  pthread_mutex_t lock;
  pthread_cond_t given; /* a descriptor was given back */
  tsr__kept_file *oldest, *newest;
  int count, most;
  int taken; /* descriptors, those that are in no list included */
} kept_list;

static void free_list(tsr_runtime *rt, void *slot)
{
  kept_list *list = slot;
  pthread_cond_destroy(&list->given);
  pthread_mutex_destroy(&list->lock);
  tsr__del(&rt->heap, list, sizeof *list);
}

static int most_open(void)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 4 >= MOST) return MOST;
  return limit.rlim_cur < 8 ? 1 : (int)(limit.rlim_cur / 4);
}

/* NULL: there is none yet, or with `make` no memory for one. Memory is asked for without the lock,
 * as the allocator is the user's: of two threads that make one the later throws its own away. */
static kept_list *list_of(tsr_runtime *rt, bool make)
{
  pthread_mutex_lock(&rt->lock);
  kept_list *list = rt->slots[TSR__SLOT_FILES];
  pthread_mutex_unlock(&rt->lock);
  if (list || !make) return list;
  kept_list *fresh = tsr__new(&rt->heap, sizeof *fresh);
  if (!fresh) return NULL;
  pthread_mutex_init(&fresh->lock, NULL);
  pthread_cond_init(&fresh->given, NULL);
  fresh->most = most_open();
  pthread_mutex_lock(&rt->lock);
  list = rt->slots[TSR__SLOT_FILES];
  if (!list) {
    rt->slots[TSR__SLOT_FILES] = fresh;
    rt->slot_free[TSR__SLOT_FILES] = free_list;
  }
  pthread_mutex_unlock(&rt->lock);
  if (!list) return fresh;
  free_list(rt, fresh);
  return list;
}

/* ---- the list; all under its lock ------------------------------------------------------------ */

static void take_out(kept_list *list, tsr__kept_file *file)
{
  if (file->before) file->before->after = file->after;
  else list->oldest = file->after;
  if (file->after) file->after->before = file->before;
  else list->newest = file->before;
  file->before = file->after = NULL;
}

static void put_newest(kept_list *list, tsr__kept_file *file)
{
  file->before = list->newest;
  if (list->newest) list->newest->after = file;
  else list->oldest = file;
  list->newest = file;
}

static void close_kept(kept_list *list, tsr__kept_file *file)
{
  take_out(list, file);
  file->open = false;
  tsr__sys_close(file->fd);
  list->count--;
}

/* Closes the one that nobody reads and that was read longest ago; false: all are read. */
static bool make_room(kept_list *list)
{
  for (tsr__kept_file *file = list->oldest; file; file = file->after)
    if (!file->readers) return close_kept(list, file), true;
  return false;
}

/* A descriptor of a file that is open already; -1: it is not. */
static int take_open(kept_list *list, tsr__kept_file *file)
{
  if (!file->open) return -1;
  take_out(list, file);
  put_newest(list, file);
  file->readers++;
  list->taken++;
  return file->fd;
}

/* Waits for a descriptor where the process has no more; false: it will not get any. */
static bool await_room(kept_list *list, int code)
{
  if (code != EMFILE && code != ENFILE) return false;
  if (make_room(list)) return true;
  if (!list->taken) return false;
  pthread_cond_wait(&list->given, &list->lock);
  return true;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* The descriptor of a file, for as long as it is not given back; -1 with errno. */
static int take(kept_list *list, tsr__kept_file *file)
{
  pthread_mutex_lock(&list->lock);
  int fd = take_open(list, file), code = 0;
  while (fd < 0) {
    pthread_mutex_unlock(&list->lock);
    /* Not under the lock: a file system may wait. NONBLOCK, as a pipe without a writer would. */
    int own = tsr__sys_open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    code = errno;
    pthread_mutex_lock(&list->lock);
    fd = take_open(list, file); /* another thread may have been faster */
    if (fd >= 0 && own >= 0) tsr__sys_close(own);
    if (fd >= 0) break;
    if (own < 0) {
      if (await_room(list, code)) continue;
      break;
    }
    fd = own;
    list->taken++;
    if (list->count >= list->most && !make_room(list)) break;
    file->fd = fd;
    file->open = true;
    file->readers = 1;
    list->count++;
    put_newest(list, file);
  }
  pthread_mutex_unlock(&list->lock);
  errno = code;
  return fd;
}

void tsr__kept_give(tsr_runtime *rt, tsr__kept_file *file, int fd)
{
  kept_list *list = list_of(rt, false);
  pthread_mutex_lock(&list->lock);
  bool kept = file->open && file->fd == fd;
  if (kept) file->readers--;
  list->taken--;
  pthread_cond_signal(&list->given);
  pthread_mutex_unlock(&list->lock);
  if (!kept) tsr__sys_close(fd);
}

void tsr__kept_close(tsr_runtime *rt, tsr__kept_file *file)
{
  kept_list *list = list_of(rt, false);
  if (!list) return;
  pthread_mutex_lock(&list->lock);
  if (file->open) close_kept(list, file);
  pthread_mutex_unlock(&list->lock);
}

/* ---- which file it is ------------------------------------------------------------------------ */

static int64_t changed_at(const struct stat *info)
{
  return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

int tsr__kept_look(tsr_runtime *rt, tsr__kept_file *file, tsr__error *error)
{
  struct stat info;
  kept_list *list = list_of(rt, true);
  if (!list) return tsr__error_set(error, TSR_ENOMEM, "no memory for a list of files"), -1;
  int fd = take(list, file);
  if (fd < 0 || fstat(fd, &info)) tsr__file_error(file->path, "open", errno, error);
  /* A pipe or a device has no places to go back to. */
  else if (!S_ISREG(info.st_mode))
    tsr__error_set(error, TSR_EIO,
                   "%s: is not a plain file, and records are read from plain files only",
                   file->path);
  if (error->status) {
    if (fd >= 0) tsr__kept_give(rt, file, fd);
    return -1;
  }
  file->size = (int64_t)info.st_size;
  file->changed = changed_at(&info);
  file->device = (uint64_t)info.st_dev;
  file->inode = (uint64_t)info.st_ino;
  file->linked = info.st_nlink > 0;
  return fd;
}

/* Also of a descriptor that was open all the time: its file may be in no folder any more, and then
 * another one stands there that was not looked at. */
static tsr_status check_same(const tsr__kept_file *file, int fd, tsr__error *error)
{
  struct stat info;
  char text[128];
  if (fstat(fd, &info))
    return tsr__error_set(error, TSR_EIO, "the file cannot be examined: %s",
                          tsr__sys_text(errno, text, sizeof text));
  bool other = (uint64_t)info.st_dev != file->device || (uint64_t)info.st_ino != file->inode;
  if (other || (file->linked && !info.st_nlink))
    return tsr__error_set(error, TSR_EIO,
                          "the file was removed or replaced since its records were counted; open "
                          "the source anew");
  if (info.st_size < file->size)
    return tsr__error_set(error, TSR_EIO, "the file has become shorter: it ends at byte %lld",
                          (long long)info.st_size);
  if (info.st_size != file->size || changed_at(&info) != file->changed)
    return tsr__error_set(error, TSR_EIO,
                          "the file has changed since its records were counted; open the source "
                          "anew");
  return TSR_OK;
}

tsr_status tsr__kept_read(tsr_runtime *rt, tsr__kept_file *file, tsr__kept_part part, void *to,
                          tsr__error *error)
{
  char text[128];
  int fd = take(list_of(rt, false), file);
  /* Readings say where they begin, so threads share a descriptor without a lock. */
  int64_t got = fd < 0 ? -1 : tsr__sys_read_all(fd, to, (size_t)part.bytes, part.at);
  if (got < 0)
    tsr__error_set(error, tsr__sys_status(errno), "byte %lld cannot be read: %s",
                   (long long)part.at, tsr__sys_text(errno, text, sizeof text));
  /* Behind the reading: what was read before a change is what the file had. */
  else if (!check_same(file, fd, error) && got < part.bytes)
    tsr__error_set(error, TSR_EIO, "the file has become shorter: it ends at byte %lld",
                   (long long)(part.at + got));
  if (fd >= 0) tsr__kept_give(rt, file, fd);
  return error->status;
}
