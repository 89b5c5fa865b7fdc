/* Folders of steps.
 *
 *   ckpt/step_11/tessera.json, data-...     a step
 *   ckpt/step_12/data-...                   none: being written, or left by who was killed
 *
 * What a crash may leave: names are forced to the disk in the order in which they are needed - the
 * folder before what lies in it, data before the catalog - and a step is deleted by its catalog
 * first.
 *
 * Invariant: only names of our own are ever deleted. */
#include "checkpoint/checkpoint_room.h"
#include "io/file/files.h"
#include "io/file/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Numbers without zeros in front: folders do not sort by name, and none stands for two steps. */
static const char prefix[] = "step_";

tsr_status tsr__step_path_of(const char *path, int64_t step, const char *name, tsr__step_path *out,
                             tsr__error *error)
{
  int length = snprintf(out->at, sizeof out->at, "%s/%s%lld%s%s", path, prefix, (long long)step,
                        name ? "/" : "", name ? name : "");
  if (length >= 0 && length < (int)sizeof out->at) return TSR_OK;
  return tsr__file_error(path, "use the path", ENAMETOOLONG, error);
}

/* fsync of the folder itself: that of a file says nothing of its name. */
tsr_status tsr__folder_sync(const char *path, tsr__error *error)
{
  int fd = tsr__sys_open(path, O_RDONLY | O_DIRECTORY);
  int code = fd < 0 || tsr__sys_sync(fd) ? errno : 0;
  if (fd >= 0 && tsr__sys_close(fd) && !code) code = errno;
  return code ? tsr__file_error(path, "write the folder", code, error) : TSR_OK;
}

/* The folder that a path lies in. "a/b//" lies in "a", "/a" in "/", "a" in ".". */
static const char *folder_of(const char *path, char out[TSR__CHECKPOINT_PATH])
{
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  while (length && path[length - 1] != '/') length--;
  while (length > 1 && path[length - 1] == '/') length--;
  if (!length || length >= TSR__CHECKPOINT_PATH) return ".";
  memcpy(out, path, length);
  out[length] = '\0';
  return out;
}

/* Only the last part is made: a path whose folder is missing is rather misspelt. */
tsr_status tsr__folder_make(const char *path, tsr__error *error)
{
  char outer[TSR__CHECKPOINT_PATH];
  struct stat info;
  if (mkdir(path, 0777)) {
    if (errno != EEXIST) return tsr__file_error(path, "make the folder", errno, error);
    if (!stat(path, &info) && !S_ISDIR(info.st_mode))
      return tsr__file_error(path, "make the folder", ENOTDIR, error);
  }
  /* Also of one that is there: who made it may have been killed before this. */
  return tsr__folder_sync(folder_of(path, outer), error);
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The number of "step_12"; -1: it is no step's name. */
static int64_t number_of(const char *name)
{
  int64_t number = 0;
  size_t start = sizeof prefix - 1;
  if (strncmp(name, prefix, start) || !name[start]) return -1;
  if (name[start] == '0' && name[start + 1]) return -1;
  for (const char *at = name + start; *at; at++)
    if (*at < '0' || *at > '9' || __builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, *at - '0', &number))
      return -1;
  return number;
}

/* By the name of its catalog alone: that it can be read is for who opens it. */
bool tsr__step_is_there(const char *path, int64_t step, tsr__error *error)
{
  tsr__step_path catalog;
  struct stat info;
  if (tsr__step_path_of(path, step, TSR__CATALOG, &catalog, error)) return false;
  if (!stat(catalog.at, &info)) return true;
  if (errno != ENOENT && errno != ENOTDIR) tsr__file_error(catalog.at, "examine", errno, error);
  return false;
}

/* Calls `each` for every step's folder, whole or not; false: the folder cannot be read. */
typedef void step_fn(void *user, const char *path, int64_t step);
/* In the order of the folder, which is none. `each` may delete: a step that is gone by its turn has
 * no catalog and nothing to be deleted. */
static bool each_step(const char *path, step_fn *each, void *user)
{
  DIR *folder = opendir(path);
  if (!folder) return false;
  for (struct dirent *item; (item = readdir(folder));) {
    int64_t step = number_of(item->d_name);
    if (step >= 0) each(user, path, step);
  }
  closedir(folder);
  return true;
}

typedef struct finding {
  int64_t newest;
  tsr__error *error;
} finding;

static void take_newest(void *user, const char *path, int64_t step)
{
  finding *f = user;
  if (step > f->newest && tsr__step_is_there(path, step, f->error)) f->newest = step;
}

/* Numbers decide which is the newest, and not times: copies of folders keep their order. */
tsr_status tsr__step_find(const char *path, tsr__step_path *out, tsr__error *error)
{
  struct stat info;
  finding f = { -1, error };
  int length = snprintf(out->at, sizeof out->at, "%s/%s", path, TSR__CATALOG);
  if (length < 0 || length >= (int)sizeof out->at)
    return tsr__file_error(path, "use the path", ENAMETOOLONG, error);
  if (!stat(out->at, &info)) {
    /* The path as it was given. */
    out->at[strlen(path)] = '\0';
    return TSR_OK;
  }
  if (errno != ENOENT && errno != ENOTDIR) return tsr__file_error(out->at, "examine", errno, error);
  if (!each_step(path, take_newest, &f))
    return tsr__file_error(path, "open the folder", errno, error);
  if (error->status) return error->status;
  if (f.newest < 0)
    return tsr__error_set(error, TSR_EIO,
                          "%s: holds no committed step: no folder step_NUMBER with %s in it", path,
                          TSR__CATALOG);
  return tsr__step_path_of(path, f.newest, NULL, out, error);
}

/* ---- deleting -------------------------------------------------------------------------------- */

static bool is_named(const tsr__catalog *catalog, const char *name)
{
  for (size_t i = 0; catalog && i < catalog->files; i++)
    if (!strcmp(catalog->file[i].name, name)) return true;
  return false;
}

static bool begins(const char *name, const char *with)
{
  return !strncmp(name, with, strlen(with));
}

/* Deletes what saves wrote into a step's folder but for what a catalog names, and, without one, the
 * folder. "tessera.json." begins the temporary file of a catalog that was never renamed. */
static void delete_data(const char *path, int64_t step, const tsr__catalog *but)
{
  tsr__step_path at;
  tsr__error error = { .status = TSR_OK };
  DIR *folder = tsr__step_path_of(path, step, NULL, &at, &error) ? NULL : opendir(at.at);
  if (!folder) return;
  for (struct dirent *item; (item = readdir(folder));) {
    const char *name = item->d_name;
    bool ours = begins(name, "data-") || begins(name, TSR__CATALOG ".");
    if (ours && !is_named(but, name) && !tsr__step_path_of(path, step, name, &at, &error))
      unlink(at.at);
  }
  closedir(folder);
  if (!but && !tsr__step_path_of(path, step, NULL, &at, &error)) rmdir(at.at);
}

static void delete_step(const char *path, int64_t step)
{
  tsr__step_path at;
  tsr__error error = { .status = TSR_OK };
  if (tsr__step_path_of(path, step, TSR__CATALOG, &at, &error) ||
      (unlink(at.at) && errno != ENOENT))
    return;
  /* No power failure may leave a catalog whose data is gone. */
  if (!tsr__step_path_of(path, step, NULL, &at, &error) && !tsr__folder_sync(at.at, &error))
    delete_data(path, step, NULL);
}

/* Steps newer than the one saved may be of a run that went further, behind which somebody goes on
 * now: they are left alone. */
typedef struct pruning {
  int64_t step;    /* that was saved: nothing newer is touched */
  int64_t *newest; /* [keep], ascending: the steps that stay */
  int keep;
} pruning;

/* The newest `keep` steps up to that one.
 *
 *   keep 3, steps 9 4 7 12 5     newest  -1 -1 9   -1 4 9   4 7 9   7 9 12   (5 is below 7)
 *
 * newest[0] is the oldest that stays; with fewer steps than `keep` it is -1, and nothing goes. */
static void choose(void *user, const char *path, int64_t step)
{
  pruning *p = user;
  tsr__error error = { .status = TSR_OK };
  if (step > p->step || step <= p->newest[0] || !tsr__step_is_there(path, step, &error)) return;
  int at = 0;
  for (; at + 1 < p->keep && p->newest[at + 1] < step; at++) p->newest[at] = p->newest[at + 1];
  p->newest[at] = step;
}

/* An older folder without a catalog was left by a save that was cut off, as the lock of the folder
 * is held by one save at a time. Where it cannot be seen whether there is one, nothing is deleted.
 * */
static void drop(void *user, const char *path, int64_t step)
{
  pruning *p = user;
  tsr__error error = { .status = TSR_OK };
  if (step >= p->step) return;
  bool there = tsr__step_is_there(path, step, &error);
  if (error.status) return;
  if (!there) delete_data(path, step, NULL);
  else if (p->keep && step < p->newest[0]) delete_step(path, step);
}

/* Two walks over the folder: which steps stay is known only when all were seen. */
void tsr__step_prune(const char *path, const tsr__catalog *catalog, int keep)
{
  pruning p = { .step = catalog->step, .keep = keep };
  delete_data(path, catalog->step, catalog);
  p.newest = tsr__new(catalog->heap, (size_t)(keep + 1) * sizeof *p.newest);
  if (!p.newest) return; /* what should have gone goes the next time */
  for (int i = 0; i < keep; i++) p.newest[i] = -1;
  if (keep) each_step(path, choose, &p);
  each_step(path, drop, &p);
  tsr__del(catalog->heap, p.newest, (size_t)(keep + 1) * sizeof *p.newest);
}
