/* The lock of a folder of steps: one save at a time writes and deletes there.
 *
 *   ckpt/tessera.lock    process 0 of 4, pid 4711 on host node3, job unix:/tmp/tessera-x/job
 *                        4711 6f1c..-pid:[4026531836]          number and machine
 *
 * What counts is the system's lock on that file: it ends with the process that has it, however that
 * ends, and file systems which several hosts share take it back from a host that is gone. So what
 * a killed save has left is no lock, on whatever host that was. The text says whose the lock is, to
 * whoever comes meanwhile.
 *
 * Where a file system has no locks the file is the lock by its name: one process alone creates it.
 * One that was left is taken away if its process ran on this machine and has ended; of another
 * machine's nothing can be known, and the error names the file that is to be deleted.
 *
 * Invariant: who holds the lock of the file that stands under the name now holds the folder. The
 * name goes before the lock does. */
#include "checkpoint/checkpoint_room.h"
#include "io/file/files.h"
#include "io/file/system.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Times that a file is looked at which its owner deletes or has not yet written to. */
enum { TRIES = 100, NAP_NS = 10000000, OWNER_MOST = 1024 };

/* What the file says of its owner. */
typedef struct owner {
  char text[512]; /* for messages; "": nothing */
  long pid;
  char machine[128];
} owner;

/* The boot and the namespace of process numbers: only where both are the same does a number mean
 * the same process, whatever hosts are called. Empty where the system tells no boot. */
static void own_machine(char out[128])
{
  char boot[64] = "", space[48] = "";
  int fd = tsr__sys_open("/proc/sys/kernel/random/boot_id", O_RDONLY);
  int64_t got = fd < 0 ? 0 : tsr__sys_read_all(fd, boot, 36, 0);
  boot[got > 0 ? got : 0] = '\0';
  if (fd >= 0) tsr__sys_close(fd);
  ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  space[length > 0 ? length : 0] = '\0';
  out[0] = '\0';
  if (*boot) snprintf(out, 128, "%s-%s", boot, space);
}

/* Writes the owner, and keeps the text in the lock. */
static bool write_owner(tsr__folder_lock *lock, int fd, tsr_runtime *rt)
{
  char host[128] = "", machine[128];
  const tsr__comm *comm = tsr__comm_of(rt);
  const tsr__role *role = comm ? tsr__comm_role(comm) : NULL;
  if (gethostname(host, sizeof host - 1)) host[0] = '\0';
  bool joined = role && *role->coordinator;
  own_machine(machine);
  int length =
      snprintf(lock->owner, sizeof lock->owner,
               "process %d of %d, pid %ld on host %s%s%s\n%ld %s\n", tsr_process_index(rt),
               tsr_process_count(rt), (long)getpid(), role && *role->host ? role->host : host,
               joined ? ", job " : "", joined ? role->coordinator : "", (long)getpid(), machine);
  return !ftruncate(fd, 0) && !tsr__sys_write_all(fd, lock->owner, (size_t)length, 0);
}

/* The text of the file; "" and an errno where it cannot be read. */
static int read_text(const char *path, char text[OWNER_MOST])
{
  int fd = tsr__sys_open(path, O_RDONLY);
  int64_t got = fd < 0 ? -1 : tsr__sys_read_all(fd, text, OWNER_MOST - 1, 0);
  int code = got < 0 ? errno : 0;
  if (fd >= 0) tsr__sys_close(fd);
  text[got > 0 ? got : 0] = '\0';
  return code;
}

static void parse_owner(const char *text, owner *out)
{
  char *end;
  *out = (owner){ .text = "" };
  size_t line = strcspn(text, "\n");
  if (!line || !text[line]) return; /* not written yet, or not to its end */
  snprintf(out->text, sizeof out->text, "%.*s", (int)line, text);
  out->pid = strtol(text + line + 1, &end, 10);
  if (*end == ' ')
    snprintf(out->machine, sizeof out->machine, "%.*s", (int)strcspn(end + 1, "\n"), end + 1);
}

/* Whether the process has surely ended. One that has its number by now is taken for it. */
static bool has_ended(const owner *who)
{
  char machine[128];
  own_machine(machine);
  return who->pid > 0 && *machine && !strcmp(machine, who->machine) && kill((pid_t)who->pid, 0) &&
         errno == ESRCH;
}

/* Whether the name stands for the file that is open here, and not for a later one, or for none.
 * False with the error set where that cannot be seen. */
static bool still_named(int fd, const char *path, tsr__error *error)
{
  struct stat own, named;
  if (!fstat(fd, &own) && !stat(path, &named))
    return own.st_ino == named.st_ino && own.st_dev == named.st_dev;
  if (errno != ENOENT) tsr__file_error(path, "examine", errno, error);
  return false;
}

static tsr_status busy(const char *folder, const char *path, const owner *who, bool by_name,
                       tsr__error *error)
{
  return tsr__error_set(error, TSR_ESTATE,
                        "%s: another save writes to the folder: %s; wait until that save ends, or "
                        "give each job a folder of its own%s%s%s",
                        folder, *who->text ? who->text : "an unknown process",
                        by_name ? "; if that process has ended, delete " : "", by_name ? path : "",
                        by_name ? ", as this file system has no locks" : "");
}

/* What came of one look at the file. */
typedef enum look { GOT_IT, NOT_YET, REFUSED } look;

static look give_up(int fd, look why)
{
  if (fd >= 0) tsr__sys_close(fd);
  return why;
}

/* Who created the file has it where there are no locks. */
static look judge(int fd, bool created, const char *folder, const char *path, tsr__error *error)
{
  tsr__sys_locked locked = tsr__sys_lock(fd);
  int code = errno;
  char text[OWNER_MOST];
  owner who;
  if (locked == TSR__SYS_NO_LOCK && code != EOPNOTSUPP) {
    tsr__file_error(path, "lock", code, error);
    return REFUSED;
  }
  if (locked == TSR__SYS_LOCKED || (locked == TSR__SYS_NO_LOCK && created))
    return still_named(fd, path, error) ? GOT_IT : error->status ? REFUSED : NOT_YET;
  read_text(path, text);
  parse_owner(text, &who);
  bool by_name = locked == TSR__SYS_NO_LOCK;
  if (by_name && has_ended(&who)) unlink(path);
  else busy(folder, path, &who, by_name, error);
  return by_name && !error->status ? NOT_YET : *who.text ? REFUSED : NOT_YET;
}

static look try_once(tsr__folder_lock *lock, const char *folder, tsr_runtime *rt, tsr__error *error)
{
  const char *path = lock->path.at;
  int fd = tsr__sys_create(path, 0666);
  bool created = fd >= 0;
  if (!created && errno == EEXIST) fd = tsr__sys_open(path, O_RDWR);
  if (fd < 0 && (errno == ENOENT || errno == EEXIST)) return NOT_YET; /* deleted meanwhile */
  if (fd < 0) {
    tsr__file_error(path, "create the lock", errno, error);
    return REFUSED;
  }
  look found = judge(fd, created, folder, path, error);
  if (found != GOT_IT) return give_up(fd, found);
  if (!write_owner(lock, fd, rt)) {
    tsr__file_error(path, "write the lock", errno, error);
    unlink(path);
    return give_up(fd, REFUSED);
  }
  lock->fd = fd;
  lock->held = true;
  return GOT_IT;
}

tsr_status tsr__folder_lock_take(tsr_runtime *rt, const char *folder, tsr__folder_lock *lock,
                                 tsr__error *error)
{
  const struct timespec nap = { .tv_nsec = NAP_NS };
  tsr__error why = { .status = TSR_OK };
  look found = NOT_YET;
  int length = snprintf(lock->path.at, sizeof lock->path.at, "%s/%s", folder, TSR__LOCK);
  if (length < 0 || length >= (int)sizeof lock->path.at)
    return tsr__file_error(folder, "use the path", ENAMETOOLONG, error);
  for (int i = 0; i < TRIES && found == NOT_YET; i++) {
    if (i) nanosleep(&nap, NULL);
    why.status = TSR_OK;
    found = try_once(lock, folder, rt, &why);
  }
  if (found == GOT_IT) return TSR_OK;
  if (!why.status) tsr__file_error(lock->path.at, "lock", EAGAIN, &why);
  *error = why;
  return error->status;
}

/* A file system that took the lock back from a process that stood still, or a user who deleted the
 * file, gave it to somebody else. */
tsr_status tsr__folder_lock_check(const tsr__folder_lock *lock, const char *folder,
                                  tsr__error *error)
{
  owner who;
  char text[OWNER_MOST] = "";
  bool ours = still_named(lock->fd, lock->path.at, error);
  int code = error->status ? 0 : read_text(lock->path.at, text);
  if (code && code != ENOENT) tsr__file_error(lock->path.at, "read the lock", code, error);
  if (error->status || (ours && !strcmp(text, lock->owner))) return error->status;
  parse_owner(text, &who);
  return tsr__error_set(error, TSR_ESTATE,
                        "%s: the lock of this save was removed during the save%s%s; save again",
                        folder, *who.text ? ", by " : "", who.text);
}

/* The name first: who comes between finds a file that is no longer named, and looks again. */
void tsr__folder_lock_give(tsr__folder_lock *lock)
{
  if (!lock->held) return;
  unlink(lock->path.at);
  tsr__sys_close(lock->fd);
  lock->held = false;
}
