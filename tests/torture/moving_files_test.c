/* Files that vanish, shrink, grow, are replaced or are no files, for every reader, at every moment
 * between opening them and having their rows: a clear error or the rows of one whole version, never
 * rows of two, never a crash; and a later, quiet look gives the right rows. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "tessera.h"

enum { LINES = 4000 };

/* ---- readers --------------------------------------------------------------------------------- */

/* The sum of column a, by any reader; `between` runs when the file is open and not yet read. */
typedef void (*change_fn)(const char *path);

struct reader {
  const char *name;
  const char *file;
};

static const struct reader readers[] = {
  { "csv", "m.csv" },    { "csv.gz", "m.csv.gz" },    { "csv.zst", "m.csv.zst" },
  { "json", "m.jsonl" }, { "json.gz", "m.jsonl.gz" }, { "npy", "m.npy" },
  { "npz", "m.npz" },    { "pattern", "m?.csv" },
};
enum { READERS = sizeof readers / sizeof *readers };

static const char *first_file(const struct reader *reader)
{
  return test_tmp(strcmp(reader->name, "pattern") == 0 ? "m1.csv" : reader->file);
}

static tsr_status sum_of(tsr_frame *df, double *out)
{
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "s = sum(a)"));
  if (!tsr_row_status(row)) *out = tsr_row_f64(row, "s");
  return tsr_row_status(row);
}

/* Reads with the change made in between; the error's text goes to `message`. */
static tsr_status read_sum(const struct reader *reader, change_fn between, double *out,
                           char message[600])
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding at = tsr_on(tsr_mesh_default(rt, "d"), "d");
  const char *path = test_tmp(reader->file), *first = first_file(reader);
  tsr_status status;
  if (strstr(reader->name, "json")) {
    tsr_frame *df = tsr_frame_read_json(s, path);
    if (between) between(first);
    status = sum_of(df, out);
  } else if (!strcmp(reader->name, "npy")) {
    tsr_array *a = tsr_load_npy(s, path, at);
    if (between) between(first);
    status = tsr_read_scalar(tsr_sum(a), out);
  } else if (!strcmp(reader->name, "npz")) {
    tsr_npz *npz = tsr_load_npz(s, path);
    if (between) between(first);
    status = tsr_read_scalar(tsr_sum(tsr_npz_array(npz, "a", at)), out);
  } else {
    tsr_frame *df = tsr_frame_read_csv(s, path);
    if (between) between(first);
    status = sum_of(df, out);
  }
  snprintf(message, 600, "%s", tsr_message(s));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return status;
}

/* Writes all files anew: a = from, from + 1, ... */
static void write_files(int64_t from, int64_t lines)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_add(tsr_iota(s, TSR_I64, TSR_SHAPE(lines), 0, tsr_on_device(rt, 0)), from);
  tsr_frame *df = tsr_frame_new(s, { "a", a });
  const char *const csv[] = { "m.csv", "m.csv.gz", "m.csv.zst", "m1.csv", "m2.csv" };
  for (int i = 0; i < 5; i++)
    CHECK_STATUS(tsr_frame_write_csv(i == 4 ? tsr_frame_head(df, 1) : df, test_tmp(csv[i])), TSR_OK,
                 s);
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("m.jsonl")), TSR_OK, s);
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("m.jsonl.gz")), TSR_OK, s);
  CHECK_STATUS(tsr_save_npy(a, test_tmp("m.npy")), TSR_OK, s);
  CHECK_STATUS(tsr_save_npz(s, test_tmp("m.npz"), { "a", a }), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static double expected_sum(const struct reader *reader, int64_t from, int64_t lines)
{
  double sum = (double)lines * (double)from + (double)lines * (double)(lines - 1) / 2;
  return sum + (strcmp(reader->name, "pattern") == 0 ? (double)from : 0);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void vanish(const char *path)
{
  CHECK_I64(unlink(path), 0);
}

static void empty(const char *path)
{
  CHECK_I64(truncate(path, 0), 0);
}

static void halve(const char *path)
{
  struct stat info;
  CHECK_I64(stat(path, &info), 0);
  CHECK_I64(truncate(path, info.st_size / 2), 0);
}

static void append(const char *path)
{
  int fd = open(path, O_WRONLY | O_APPEND);
  CHECK_I64(write(fd, "7777777\n", 8), 8);
  close(fd);
}

/* The same length, another content, another time. */
static void overwrite(const char *path)
{
  int fd = open(path, O_WRONLY);
  struct stat info;
  CHECK(fd >= 0 && !fstat(fd, &info));
  usleep(20000); /* clocks of files may tick every 10 ms */
  CHECK_I64(pwrite(fd, "9", 1, info.st_size - 3), 1);
  close(fd);
}

static void touch(const char *path)
{
  CHECK_I64(utimensat(AT_FDCWD, path, (struct timespec[2]){ { 1, 0 }, { 1, 0 } }, 0), 0);
}

static void become_folder(const char *path)
{
  vanish(path);
  CHECK_I64(mkdir(path, 0777), 0);
}

static void become_pipe(const char *path)
{
  vanish(path);
  CHECK_I64(mkfifo(path, 0666), 0);
}

static void become_link_to_itself(const char *path)
{
  vanish(path);
  CHECK_I64(symlink(path, path), 0);
}

static const struct {
  const char *name;
  change_fn make;
} changes[] = {
  { "vanishes", vanish },
  { "is emptied", empty },
  { "is halved", halve },
  { "grows", append },
  { "is overwritten", overwrite },
  { "is touched", touch },
  { "is a folder", become_folder },
  { "is a pipe", become_pipe },
  { "is a loop", become_link_to_itself },
};
enum { CHANGES = sizeof changes / sizeof *changes };

static void undo(void)
{
  for (int r = 0; r < READERS; r++) {
    const char *path = first_file(&readers[r]);
    if (unlink(path)) rmdir(path);
  }
}

/* A change while the file is open: the old rows where nothing more is read, else an error that
 * names the file. What has changed is never read as if it had not. */
TEST_TIMEOUT(files_that_change_between_opening_and_reading, 300)
{
  for (int r = 0; r < READERS; r++)
    for (int c = 0; c < CHANGES; c++) {
      char message[600];
      double sum = -1, want = expected_sum(&readers[r], 1, LINES);
      undo();
      write_files(1, LINES);
      tsr_status status = read_sum(&readers[r], changes[c].make, &sum, message);
      if (status && status != TSR_EIO && status != TSR_EPARSE && status != TSR_EUNSUPPORTED)
        FAIL("%s that %s: %s", readers[r].name, changes[c].name, message);
      if (status) CHECK_STR_HAS(message, first_file(&readers[r]));
      /* A file that was read when it was opened, or whose name alone went, gives what it had. */
      if (!status && sum != want) FAIL("%s that %s: other rows", readers[r].name, changes[c].name);
    }
  undo();
}

/* The same before it is opened. */
TEST_TIMEOUT(what_is_no_file_is_refused, 300)
{
  for (int r = 0; r < READERS; r++)
    for (int c = 0; c < CHANGES; c++) {
      char message[600];
      double sum = -1;
      undo();
      write_files(1, LINES);
      change_fn make = changes[c].make;
      if (make == append || make == overwrite || make == touch) continue;
      /* Others of a pattern are there without it, and a pipe of rows is waited for. */
      bool pattern = strcmp(readers[r].name, "pattern") == 0;
      if ((make == vanish || make == empty) && pattern) continue;
      if (make == become_pipe && !strstr(first_file(&readers[r]), ".np")) continue;
      make(first_file(&readers[r]));
      tsr_status status = read_sum(&readers[r], NULL, &sum, message);
      bool cut_text = make == halve && !status;
      if (cut_text && sum >= expected_sum(&readers[r], 1, LINES))
        FAIL("%s that %s: all of its rows", readers[r].name, changes[c].name);
      if (!cut_text && status != TSR_EIO && status != TSR_EPARSE && status != TSR_EUNSUPPORTED)
        FAIL("%s that %s: status %d: %s", readers[r].name, changes[c].name, (int)status, message);
      if (status) CHECK_STR_HAS(message, first_file(&readers[r]));
    }
  undo();
}

TEST(files_without_permission_are_refused)
{
  if (geteuid() == 0 && setuid(65534)) SKIP("runs as root");
  char folder[] = "/tmp/tessera-moving-XXXXXX", path[100];
  CHECK(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/a.csv", folder);
  test_write(path, "a\n1\n", 4);
  CHECK_I64(chmod(path, 0), 0);
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  CHECK(tsr_frame_is_inert(tsr_frame_read_csv(s, path)));
  CHECK_STR_HAS(tsr_message(s), "a.csv: cannot open: Permission denied");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_load_npy(s, path, (tsr_sharding){ 0 })));
  CHECK_STR_HAS(tsr_message(s), "a.csv: cannot open: Permission denied");
  tsr_scope_clear(s);
  CHECK_I64(chmod(folder, 0500), 0);
  tsr_array *a = tsr_num(s, 1);
  char out[120];
  snprintf(out, sizeof out, "%s/new.npy", folder);
  CHECK_STATUS(tsr_save_npy(a, out), TSR_EIO, NULL);
  CHECK_STR_HAS(tsr_message(s), "new.npy: cannot create: Permission denied");
  CHECK_I64(chmod(folder, 0700), 0);
  CHECK(!unlink(path) && !rmdir(folder));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- changes at any moment ------------------------------------------------------------------- */

struct changer {
  _Atomic bool stop;
  int64_t made;
};

/* Replaces the files by a second version and back, as writers of ours do: whole, by renaming. */
static void *replace_files(void *user)
{
  struct changer *changer = user;
  while (!changer->stop) {
    changer->made++;
    write_files(changer->made % 2 ? 100001 : 1, LINES);
  }
  return NULL;
}

static void read_while(void *(*change)(void *), bool whole)
{
  int rounds = test_quick() ? 4 : 16;
  int64_t read = 0, refused = 0;
  undo();
  write_files(1, LINES);
  struct changer changer = { 0 };
  pthread_t thread;
  CHECK_I64(pthread_create(&thread, NULL, change, &changer), 0);
  for (int i = 0; i < rounds; i++)
    for (int r = 0; r < READERS; r++) {
      char message[600];
      double sum = -1;
      tsr_status status = read_sum(&readers[r], NULL, &sum, message);
      bool mixed = strcmp(readers[r].name, "pattern") == 0; /* each of its files is whole */
      if (status) refused++;
      else read++;
      bool named = status == TSR_EIO || status == TSR_EPARSE || status == TSR_EUNSUPPORTED;
      /* What a file holds for a moment may be another table: of text, without the column. */
      if (status && !named && (whole || (status != TSR_EDTYPE && status != TSR_ECOLUMN)))
        FAIL("%s: %s", readers[r].name, message);
      if (status && named && !strstr(message, test_tmp("m")))
        FAIL("%s: a message without the file: %s", readers[r].name, message);
      if (!status && whole && !mixed && sum != expected_sum(&readers[r], 1, LINES) &&
          sum != expected_sum(&readers[r], 100001, LINES))
        FAIL("%s: rows of two versions", readers[r].name);
    }
  changer.stop = true;
  pthread_join(thread, NULL);
  printf("# %lld read, %lld refused, %lld changes\n", (long long)read, (long long)refused,
         (long long)changer.made);
  undo();
}

TEST_TIMEOUT(files_that_are_replaced_at_any_moment, 300)
{
  read_while(replace_files, true);
}

/* Shortens and lengthens files in place, as nobody should. */
static void *resize_files(void *user)
{
  struct changer *changer = user;
  uint64_t state = 1;
  while (!changer->stop) {
    const char *path = first_file(&readers[changer->made++ % READERS]);
    struct stat info;
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (stat(path, &info)) continue;
    off_t size = info.st_size;
    if (truncate(path, (off_t)(state >> 33) % (size + 1))) continue;
    usleep(100);
    if (truncate(path, size)) continue; /* zeros where rows were */
    if (changer->made % 64 == 0) write_files(1, LINES);
  }
  return NULL;
}

TEST_TIMEOUT(files_that_shrink_and_grow_at_any_moment, 300)
{
  read_while(resize_files, false);
}

/* ---- limits on what may be written ----------------------------------------------------------- */

static const char *const out_names[] = { "o.csv",   "o.csv.gz", "o.csv.zst",
                                         "o.jsonl", "o.npy",    "o.npz" };

static tsr_status write_one(tsr_scope *s, const char *path)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *own = tsr_scope_open(rt);
  tsr_array *a = tsr_uniform(own, .key = 1, .shape = TSR_SHAPE(20000), .on = tsr_on_device(rt, 0));
  tsr_frame *df = tsr_frame_new(own, { "a", a });
  tsr_status status = strstr(path, ".csv")     ? tsr_frame_write_csv(df, path)
                      : strstr(path, ".jsonl") ? tsr_frame_write_json(df, path)
                      : strstr(path, ".npy")   ? tsr_save_npy(a, path)
                                               : tsr_save_npz(own, path, { "a", a });
  if (status) tsr_fail(s, status, "%s", tsr_message(own));
  tsr_scope_close(own);
  tsr_runtime_close(rt);
  return status;
}

/* Where SIGXFSZ is ignored every limit is an error; where it is not, the process ends as its user
 * asked for, and still no half file stands under the name. */
TEST_TIMEOUT(a_limit_on_file_sizes_leaves_no_half_file, 120)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  signal(SIGXFSZ, SIG_IGN);
  for (int i = 0; i < 6; i++) {
    const char *path = test_tmp(out_names[i]);
    struct rlimit old;
    getrlimit(RLIMIT_FSIZE, &old);
    test_write(path, "before", 6);
    for (rlim_t limit = 1; limit < 100000; limit = limit * 7 + 1) {
      setrlimit(RLIMIT_FSIZE, &(struct rlimit){ limit, old.rlim_max });
      tsr_status status = write_one(s, path);
      setrlimit(RLIMIT_FSIZE, &old);
      CHECK_STATUS(status, TSR_EIO, NULL);
      CHECK_STR_HAS(tsr_message(s), "File too large");
      tsr_scope_clear(s);
      char *text = test_read(path, NULL);
      CHECK_STR(text, "before");
      free(text);
    }
    CHECK_STATUS(write_one(s, path), TSR_OK, s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
