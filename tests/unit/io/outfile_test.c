/* Files that appear whole or not at all: their permissions from the first moment, names nobody can
 * guess, links, and bytes that are on the disk before the name is.
 *
 * Wraps the system's calls (support/faults.h). */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "io/file/outfile.h"
#include "support/faults.h"

/* The temporary file that stands in the test's folder while something is written. */
struct seen {
  char name[256];
  int files;
  mode_t mode;
};

static int64_t look(void *user, int fd, const void *from, size_t length)
{
  struct seen *seen = user;
  struct dirent *entry;
  struct stat info;
  DIR *folder = opendir(test_tmp("."));
  seen->files = 0;
  while ((entry = readdir(folder)))
    if (strstr(entry->d_name, ".tmp")) {
      snprintf(seen->name, sizeof seen->name, "%s", entry->d_name);
      seen->files++;
    }
  closedir(folder);
  CHECK_I64(fstat(fd, &info), 0);
  seen->mode = info.st_mode & 0777;
  return write(fd, from, length);
}

static tsr_status write_some(const char *path, struct seen *seen, tsr__error *error)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr__out_opts opts = { .write = look, .user = seen };
  *error = (tsr__error){ 0 };
  tsr__outfile *out = tsr__out_open(&rt->heap, path, seen ? &opts : NULL, error);
  if (out) {
    tsr__out_put(out, "after", 5, error);
    tsr__out_close(out, !error->status, error);
  }
  tsr_runtime_close(rt);
  return error->status;
}

static void check_text(const char *path, const char *expected)
{
  char *found = test_read(path, NULL);
  CHECK_STR(found, expected);
  free(found);
}

static mode_t mode_of(const char *path)
{
  struct stat info;
  CHECK_I64(stat(path, &info), 0);
  return info.st_mode & 0777;
}

/* Without fchmod a file has the permissions that it was made with. */
TEST(a_private_file_is_private_from_the_first_moment)
{
  struct seen seen;
  tsr__error error;
  const char *path = test_tmp("secret");
  static const mode_t modes[] = { 0600, 0640, 0666, 0755, 0400 };
  for (int i = 0; i < 5; i++) {
    umask(i % 2 ? 077 : 0);
    test_write(path, "before", 6);
    CHECK_I64(chmod(path, modes[i]), 0);
    struct fault refused = { FAULT_MODE, 1, .stay = true, .code = EPERM };
    fault_set(&refused);
    CHECK_STATUS(write_some(path, &seen, &error), TSR_OK, NULL);
    fault_set(NULL);
    CHECK_I64(seen.mode & ~modes[i], 0);
    CHECK_I64(mode_of(path) & ~modes[i], 0);
    CHECK_I64(unlink(path), 0);
    test_write(path, "before", 6);
    CHECK_I64(chmod(path, modes[i]), 0);
    CHECK_STATUS(write_some(path, &seen, &error), TSR_OK, NULL);
    CHECK_I64(seen.mode, modes[i]);
    CHECK_I64(mode_of(path), modes[i]);
    CHECK_I64(unlink(path), 0);
  }
  umask(027);
  CHECK_STATUS(write_some(path, NULL, &error), TSR_OK, NULL);
  CHECK_I64(mode_of(path), 0640); /* a new file has the usual ones */
}

TEST(nobody_can_tell_the_temporary_name)
{
  struct seen one = { 0 }, two = { 0 };
  tsr__error error;
  char guess[64];
  snprintf(guess, sizeof guess, "%d", (int)getpid());
  CHECK_STATUS(write_some(test_tmp("x"), &one, &error), TSR_OK, NULL);
  CHECK_STATUS(write_some(test_tmp("x"), &two, &error), TSR_OK, NULL);
  CHECK_I64(one.files, 1);
  CHECK_I64(two.files, 1);
  CHECK(strncmp(one.name, "x.", 2) == 0);
  CHECK(strcmp(one.name, two.name) != 0);
  CHECK(!strstr(one.name, guess) || !strstr(two.name, guess));
  check_text(test_tmp("x"), "after");
}

TEST(links_stay_links_also_where_nothing_is_behind_them)
{
  tsr__error error;
  struct stat info;
  CHECK_I64(mkdir(test_tmp("there"), 0777), 0);
  CHECK_I64(symlink("there/real", test_tmp("dangling")), 0);
  CHECK_I64(symlink("dangling", test_tmp("link")), 0);
  CHECK_I64(symlink(test_tmp("absolute"), test_tmp("there/up")), 0);
  CHECK_I64(symlink("there/up", test_tmp("far")), 0);
  CHECK_STATUS(write_some(test_tmp("link"), NULL, &error), TSR_OK, NULL);
  CHECK_STATUS(write_some(test_tmp("far"), NULL, &error), TSR_OK, NULL);
  check_text(test_tmp("there/real"), "after");
  check_text(test_tmp("absolute"), "after");
  static const char *const links[] = { "dangling", "link", "there/up", "far" };
  for (int i = 0; i < 4; i++) CHECK(!lstat(test_tmp(links[i]), &info) && S_ISLNK(info.st_mode));
  CHECK_I64(symlink("round", test_tmp("round")), 0);
  CHECK_STATUS(write_some(test_tmp("round"), NULL, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "round: cannot ");
  CHECK(!lstat(test_tmp("round"), &info) && S_ISLNK(info.st_mode));
  CHECK_I64(symlink("nowhere/real", test_tmp("lost")), 0);
  CHECK_STATUS(write_some(test_tmp("lost"), NULL, &error), TSR_EIO, NULL);
  CHECK(!lstat(test_tmp("lost"), &info) && S_ISLNK(info.st_mode));
}

/* /dev/stdout is a link whose text names nothing where a pipe is behind it. */
TEST(what_is_no_file_is_written_to_also_behind_a_link)
{
  int ends[2];
  char name[64], got[16] = "";
  tsr__error error;
  CHECK_I64(pipe(ends), 0);
  snprintf(name, sizeof name, "/proc/self/fd/%d", ends[1]);
  CHECK_I64(symlink(name, test_tmp("piped")), 0);
  CHECK_STATUS(write_some(name, NULL, &error), TSR_OK, NULL);
  CHECK_STATUS(write_some(test_tmp("piped"), NULL, &error), TSR_OK, NULL);
  CHECK_I64(read(ends[0], got, sizeof got - 1), 10);
  CHECK_STR(got, "afterafter");
  CHECK_I64(symlink("/dev/null", test_tmp("away")), 0);
  CHECK_STATUS(write_some(test_tmp("away"), NULL, &error), TSR_OK, NULL);
}

TEST(bytes_are_on_the_disk_before_the_name_is)
{
  struct seen seen;
  tsr__error error;
  const char *path = test_tmp("kept");
  test_write(path, "before", 6);
  fault_set(NULL);
  CHECK_STATUS(write_some(path, NULL, &error), TSR_OK, NULL);
  CHECK_I64(fault_count(FAULT_SYNC), 1);
  struct fault fault = { FAULT_SYNC, 1, .code = EIO };
  test_write(path, "before", 6);
  fault_set(&fault);
  CHECK_STATUS(write_some(path, NULL, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "kept: cannot write: Input/output error");
  CHECK_I64(fault_count(FAULT_RENAME), 0);
  check_text(path, "before");
  fault.code = EINTR;
  fault_set(&fault);
  CHECK_STATUS(write_some(path, &seen, &error), TSR_OK, NULL);
  CHECK_I64(fault_count(FAULT_SYNC), 2);
  fault.code = EINVAL; /* a file system that knows no such call */
  fault_set(&fault);
  CHECK_STATUS(write_some(path, &seen, &error), TSR_OK, NULL);
  fault_set(NULL);
  check_text(path, "after");
  CHECK_STATUS(write_some("/dev/null", NULL, &error), TSR_OK, NULL);
  CHECK_I64(fault_count(FAULT_SYNC), 0); /* nothing that is replaced */
}
