/* Saves that are cut off, by SIGKILL and by the power: the newest step that was whole before can
 * always be restored, and what is half is never taken for whole.
 *
 * Killed at every call that changes files, and at random moments. For the power a model of a disk
 * is kept beside the files: what was written and not yet forced to the disk is lost, or, as the
 * system may write anything at any time, some of it is.
 *
 *     file     now  | a b c d |     on the disk  | a b |     until fdatasync
 *     folder   now  x, y.tmp        on the disk  x, y        until fdatasync of the folder
 *
 * TEST_FULL=1: 500 moments. Wraps the system's calls (support/faults.h). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/faults.h"
#include "tessera.h"

enum { STEPS = 4, LENGTH = 3000, KEEP = 2 };

/* What step `k` has: two arrays of k, in pieces on four devices, and k as bytes. */
static tsr_status save_step(tsr_runtime *rt, const char *path, int64_t k, bool overwrite)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *a = tsr_full(s, (double)k, TSR_F64, TSR_SHAPE(LENGTH), tsr_on(mesh, "x"));
  tsr_array *b = tsr_full(s, (double)k, TSR_I16, TSR_SHAPE(7), tsr_on(mesh, ""));
  tsr_status status =
      tsr_checkpoint_save(s, path, tsr_tree(s, { "a", a }, { "b", b }), .step = k / 10,
                          .keep = KEEP, .overwrite = overwrite, .blobs = { { "k", &k, sizeof k } });
  if (status) fprintf(stderr, "%s\n", tsr_message(s));
  tsr_scope_close(s);
  return status;
}

/* The number that a step has everywhere; -1: there is no step, -2: it is not as it was saved. */
static int64_t number_of(tsr_runtime *rt, const char *path)
{
  static double a[LENGTH];
  int16_t b[7];
  tsr_value blob = { NULL, 0 };
  tsr_scope *s = tsr_scope_open(rt);
  tsr_saved_step *c = tsr_checkpoint_open(s, path);
  int64_t k = tsr_checkpoint_step(c);
  if (k >= 0) {
    tsr_array *all = tsr_checkpoint_restore(c, NULL);
    bool good = !tsr_read(tsr_field(all, "a"), a, sizeof a) &&
                !tsr_read(tsr_field(all, "b"), b, sizeof b) &&
                !tsr_checkpoint_blob(c, "k", &blob) && blob.length == sizeof k;
    if (good) memcpy(&k, blob.data, sizeof k);
    for (int i = 0; i < LENGTH; i++) good = good && a[i] == (double)k;
    for (int i = 0; i < 7; i++) good = good && b[i] == k;
    if (!good) fprintf(stderr, "%s: %s\n", path, tsr_message(s));
    if (!good) k = -2;
  } else if (tsr_scope_status(s) == TSR_EPARSE) {
    fprintf(stderr, "%s: %s\n", path, tsr_message(s));
    k = -2;
  }
  tsr_scope_close(s);
  return k;
}

/* Every step that looks whole is; the newest has at least the number `least`. */
static void check_all(tsr_runtime *rt, const char *path, int64_t least, const char *when)
{
  int64_t found = number_of(rt, path);
  if (found < least)
    FAIL("%s: the newest is %lld, and %lld was saved", when, (long long)found, (long long)least);
  for (int step = 0; step <= STEPS; step++) {
    char own[600];
    struct stat info;
    snprintf(own, sizeof own, "%s/step_%d/tessera.json", path, step);
    if (stat(own, &info)) continue;
    snprintf(own, sizeof own, "%s/step_%d", path, step);
    found = number_of(rt, own);
    if (found < 0 || found / 10 != step) FAIL("%s: step %d is not whole", when, step);
  }
}

static tsr_runtime *open_runtime(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4", .threads = 1);
  CHECK_STATUS(tsr_runtime_status(rt), TSR_OK, NULL);
  return rt;
}

/* ---- killed ---------------------------------------------------------------------------------- */

/* Saves steps one after the other, each twice, and tells of each that is done. */
static void save_all(const char *path, int tell)
{
  tsr_runtime *rt = open_runtime();
  for (int64_t k = 10; k <= 10 * STEPS; k += 10)
    for (int64_t again = 0; again < 2; again++) {
      int64_t number = k + again;
      if (save_step(rt, path, number, again)) _exit(1);
      if (write(tell, &number, sizeof number) != sizeof number) _exit(1);
    }
  _exit(0);
}

static void remove_all(const char *path)
{
  char command[700];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  CHECK_I64(system(command), 0);
}

/* Saves in a process of its own, which ends by the fault or after `microseconds`; true: it was
 * done before. */
static bool kill_one(tsr_runtime *rt, const struct fault *fault, int64_t microseconds)
{
  char path[512], when[80];
  int ends[2], status;
  int64_t done = -1;
  snprintf(path, sizeof path, "%s", test_tmp("ckpt"));
  remove_all(path);
  CHECK_I64(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (!child) {
    fault_set(fault);
    save_all(path, ends[1]);
  }
  close(ends[1]);
  if (!fault) {
    usleep((useconds_t)microseconds);
    kill(child, SIGKILL);
  }
  CHECK_I64(waitpid(child, &status, 0), child);
  for (int64_t number; read(ends[0], &number, sizeof number) == sizeof number;) done = number;
  close(ends[0]);
  if (WIFEXITED(status) && WEXITSTATUS(status)) FAIL("a save failed without being killed");
  snprintf(when, sizeof when, "%s %lld", fault ? fault_name(fault->call) : "after",
           (long long)(fault ? fault->at : microseconds));
  check_all(rt, path, done, when);
  /* Whatever is left, the next save works and clears up. */
  CHECK_STATUS(save_step(rt, path, 10 * (STEPS + 1), false), TSR_OK, NULL);
  check_all(rt, path, 10 * (STEPS + 1), when);
  return WIFEXITED(status);
}

TEST_TIMEOUT(killed_before_every_call, 600)
{
  static const enum fault_call calls[] = { FAULT_OPEN,   FAULT_WRITE,  FAULT_SYNC,  FAULT_CLOSE,
                                           FAULT_RENAME, FAULT_UNLINK, FAULT_FOLDER };
  const char *full = getenv("TEST_FULL");
  int step = full && *full == '1' ? 1 : test_quick() ? 11 : 5, killed = 0;
  tsr_runtime *rt = open_runtime();
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
    for (int64_t n = 1 + (int64_t)c % step;; n += step, killed++)
      if (kill_one(rt, &(struct fault){ calls[c], n, .how = FAULT_DIES }, 0)) break;
  printf("# killed %d times\n", killed);
  CHECK(killed > 20);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(killed_at_random_moments, 900)
{
  const char *full = getenv("TEST_FULL");
  int times = full && *full == '1' ? 500 : 20;
  test_rng rng = test_seeded(7);
  tsr_runtime *rt = open_runtime();
  for (int i = 0; i < times; i++) kill_one(rt, NULL, test_range(&rng, 0, 20000));
  tsr_runtime_close(rt);
}

/* ---- the power ------------------------------------------------------------------------------- */

enum { FILES = 400, NAMES = 400, OPEN = 64, PATH = 300 };

struct bytes {
  char *at;
  size_t length;
};

/* A file or a folder; `sure` is what of it is on the disk. */
struct file {
  bool folder;
  struct bytes now, sure;
};

/* What stands under a path, now and on the disk; -1: nothing. */
struct name {
  char path[PATH];
  int now, sure;
};

static struct {
  struct file file[FILES];
  struct name name[NAMES];
  int file_count, name_count;
  int open[1024];
  int64_t at[1024];
  int64_t calls;
  int64_t done; /* the number that was saved last */
  tsr_runtime *rt;
  test_rng rng;
  int64_t cuts;
} disk;

static struct name *name_at(const char *path)
{
  for (int i = 0; i < disk.name_count; i++)
    if (!strcmp(disk.name[i].path, path)) return &disk.name[i];
  CHECK(disk.name_count < NAMES && strlen(path) < PATH);
  struct name *name = &disk.name[disk.name_count++];
  snprintf(name->path, PATH, "%s", path);
  name->now = name->sure = -1;
  return name;
}

static int new_file(bool folder)
{
  CHECK(disk.file_count < FILES);
  disk.file[disk.file_count] = (struct file){ .folder = folder };
  return disk.file_count++;
}

static void copy_bytes(struct bytes *to, const struct bytes *from)
{
  to->at = realloc(to->at, from->length + 1);
  CHECK(to->at);
  if (from->length) memcpy(to->at, from->at, from->length);
  to->length = from->length;
}

/* Whether a path lies right inside a folder. */
static bool inside(const char *path, const char *folder)
{
  size_t length = strlen(folder);
  return !strncmp(path, folder, length) && path[length] == '/' && !strchr(path + length + 1, '/');
}

static void write_to(struct bytes *to, const void *data, size_t length, size_t at)
{
  if (at + length > to->length) {
    to->at = realloc(to->at, at + length + 1);
    CHECK(to->at);
    memset(to->at + to->length, 0, at + length - to->length);
    to->length = at + length;
  }
  memcpy(to->at + at, data, length);
}

/* A folder's names, or a file's bytes, are on the disk. */
static void sync_file(int fd)
{
  struct file *file = &disk.file[disk.open[fd]];
  if (!file->folder) {
    copy_bytes(&file->sure, &file->now);
    return;
  }
  const char *folder = NULL;
  for (int i = 0; i < disk.name_count; i++)
    if (disk.name[i].now == disk.open[fd]) folder = disk.name[i].path;
  for (int i = 0; folder && i < disk.name_count; i++)
    if (inside(disk.name[i].path, folder)) disk.name[i].sure = disk.name[i].now;
}

/* What is on the disk when the power fails, as files. With `luck` some of what was not sure is
 * there, too: names by themselves, and bytes up to anywhere. */
static void lay_out(const char *to, bool luck)
{
  const char *from = test_tmp("");
  char root[PATH];
  snprintf(root, sizeof root, "%s", from);
  size_t cut = strlen(root);
  while (cut && root[cut - 1] == '/') root[--cut] = '\0';
  remove_all(to);
  CHECK_I64(mkdir(to, 0777), 0);
  for (int i = 0; i < disk.name_count; i++) {
    const struct name *name = &disk.name[i];
    int which = luck && test_range(&disk.rng, 0, 1) ? name->now : name->sure;
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s%s", to, name->path + cut);
    if (which < 0) continue;
    const struct file *file = &disk.file[which];
    const struct bytes *bytes = &file->sure;
    if (file->folder) {
      if (mkdir(path, 0777)) CHECK(errno == ENOENT || !name->path[cut]);
      continue;
    }
    size_t length = bytes->length;
    if (luck && test_range(&disk.rng, 0, 1)) {
      bytes = &file->now;
      length = (size_t)test_range(&disk.rng,
                                  (int64_t)file->sure.length < (int64_t)bytes->length
                                      ? (int64_t)file->sure.length
                                      : (int64_t)bytes->length,
                                  (int64_t)bytes->length);
    }
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0666);
    if (fd < 0) continue; /* its folder is not there */
    CHECK_I64(write(fd, bytes->length ? bytes->at : "", length), (int64_t)length);
    close(fd);
  }
}

static void watch_call(const struct fault_seen *what, void *user);

static void cut_power(void)
{
  char to[512], path[600], when[80];
  snprintf(to, sizeof to, "%s", test_tmp("after"));
  fault_watch(NULL, NULL);
  for (int luck = 0; luck < (test_quick() ? 3 : 6); luck++, disk.cuts++) {
    lay_out(to, luck > 0);
    snprintf(path, sizeof path, "%s/ckpt", to);
    snprintf(when, sizeof when, "power cut after call %lld, %s", (long long)disk.calls,
             luck ? "with luck" : "without");
    check_all(disk.rt, path, disk.done, when);
  }
  remove_all(to);
  fault_watch(watch_call, NULL);
}

/* The model follows each call, and then the power fails. */
static void watch_call(const struct fault_seen *what, void *user)
{
  (void)user;
  struct name *name = what->path ? name_at(what->path) : NULL;
  switch (what->call) {
  case FAULT_OPEN:
    if (what->flags & O_CREAT && name->now < 0) name->now = new_file(false);
    disk.open[what->fd] = name->now;
    disk.at[what->fd] = 0;
    if (!(what->flags & O_CREAT)) return;
    break;
  case FAULT_WRITE: {
    if (disk.open[what->fd] < 0) return;
    int64_t at = what->at < 0 ? disk.at[what->fd] : what->at;
    write_to(&disk.file[disk.open[what->fd]].now, what->data, what->length, (size_t)at);
    if (what->at < 0) disk.at[what->fd] += (int64_t)what->length;
    break;
  }
  case FAULT_SYNC: sync_file(what->fd); break;
  case FAULT_CLOSE: disk.open[what->fd] = -1; return;
  case FAULT_RENAME:
    name_at(what->to)->now = name_at(what->path)->now;
    name_at(what->path)->now = -1;
    break;
  case FAULT_UNLINK: name->now = -1; break;
  case FAULT_FOLDER: name->now = new_file(true); break;
  default: return;
  }
  disk.calls++;
  cut_power();
}

TEST_TIMEOUT(the_power_fails_after_every_call, 600)
{
  char path[PATH], root[PATH];
  snprintf(path, sizeof path, "%s", test_tmp("ckpt"));
  snprintf(root, sizeof root, "%.*s", (int)(strrchr(path, '/') - path), path);
  struct name *top = name_at(root);
  top->now = top->sure = new_file(true);
  for (int i = 0; i < 1024; i++) disk.open[i] = -1;
  disk.done = -1;
  disk.rng = test_seeded(11);
  disk.rt = open_runtime();
  tsr_runtime *rt = open_runtime();
  for (int64_t k = 10; k <= 10 * STEPS; k += 10)
    for (int64_t again = 0; again < 2; again++) {
      fault_watch(watch_call, NULL);
      CHECK_STATUS(save_step(rt, path, k + again, again), TSR_OK, NULL);
      fault_watch(NULL, NULL);
      disk.done = k + again;
    }
  printf("# %lld calls, %lld times\n", (long long)disk.calls, (long long)disk.cuts);
  CHECK(disk.calls > 100);
  tsr_runtime_close(rt);
  tsr_runtime_close(disk.rt);
}
