/* Files to bytes: plain, packed, cut off at every byte, from standard input, by patterns. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "io/file/files.h"
#include "io/file/outfile.h"
#include "tessera.h"

enum { LENGTH = 30000 };

static char *some_text(void)
{
  char *text = malloc(LENGTH);
  test_rng rng = test_seeded(7);
  for (int i = 0; i < LENGTH; i++) text[i] = "abcde\n"[test_random(&rng) % 6];
  return text;
}

static const char *put_file(tsr_runtime *rt, const char *name, const char *text, size_t length)
{
  const char *path = test_tmp(name);
  tsr__error error = { 0 };
  tsr__outfile *out = tsr__out_open(&rt->heap, path, NULL, &error);
  CHECK(out != NULL);
  CHECK_STATUS(tsr__out_put(out, text, length, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__out_close(out, true, &error), TSR_OK, NULL);
  return path;
}

static tsr_status load(tsr_runtime *rt, const char *path, const tsr__file_opts *opts,
                       tsr__loaded *out, tsr__error *error)
{
  tsr__load_ask ask = {
    .rt = rt, .path = path, .format = "CSV", .what = "test", .pad = 100, .opts = opts
  };
  *error = (tsr__error){ 0 };
  return tsr__file_load(&ask, out, error);
}

static void check_load(tsr_runtime *rt, const char *path, const char *text, size_t length)
{
  static const int64_t pieces[] = { 0, 1, 777, LENGTH, LENGTH + 1 };
  static const char zeros[100];
  for (int i = 0; i < 5; i++) {
    tsr__loaded loaded;
    tsr__error error;
    if (pieces[i] == 1 && length > 1000) continue;
    if (load(rt, path, &(tsr__file_opts){ .piece = pieces[i] }, &loaded, &error))
      FAIL("%s", error.text);
    CHECK_I64(loaded.size, (int64_t)length);
    CHECK_BYTES(loaded.data, text, length);
    CHECK_BYTES(loaded.data + length, zeros, 100);
    tsr__loaded_free(&loaded);
  }
}

/* Ranges of shards: all of them in their order, and one that lacks is an error. */
TEST(ranges_in_paths)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  static const char *const files[] = { "s-008.x", "s-009.x", "s-010.x", "s-011.x", "s-a.x",
                                       "s-b.x",   "t{1..2}", "9.y",     "10.y" };
  static const struct {
    const char *pattern, *names; /* NULL: what lacks is told */
  } cases[] = { { "s-{008..011}.x", "s-008.x s-009.x s-010.x s-011.x " },
                { "s-{011..008}.x", "s-011.x s-010.x s-009.x s-008.x " },
                { "s-{008..011..2}.x", "s-008.x s-010.x " },
                { "s-{a..b}.x", "s-a.x s-b.x " },
                { "{9..10}.y", "9.y 10.y " },
                { "s-0{0..1}{8..9}.x", NULL },
                { "s-0{0..1}*.x", "s-008.x s-009.x s-010.x s-011.x " },
                { "s-{a,b}.x", "s-a.x s-b.x " },
                { "t{1..2}", "t{1..2} " },
                { "s-{010..013}*.x", NULL } };
  char path[700], found[300];
  for (int i = 0; i < 9; i++) test_write(test_tmp(files[i]), "x", 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr__paths paths;
    tsr__error error = { 0 };
    snprintf(path, sizeof path, "%s", test_tmp(cases[i].pattern));
    tsr__path_ask ask = { .path = path };
    tsr__paths_find(&rt->heap, &ask, &paths, &error);
    found[0] = 0;
    bool all = !error.status;
    for (int k = 0; all && k < paths.count; k++) {
      all = !access(paths.path[k], F_OK);
      snprintf(found + strlen(found), 100, "%s ", strrchr(paths.path[k], '/') + 1);
    }
    CHECK(all == (cases[i].names != NULL));
    if (all) CHECK_STR(found, cases[i].names);
    tsr__paths_free(&paths);
  }
  tsr_runtime_close(rt);
}

TEST(plain_and_packed_files_give_the_same_bytes)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 3);
  char *text = some_text();
  static const char *const names[] = { "a.csv", "a.csv.gz", "a.csv.zst" };
  for (int i = 0; i < 3; i++) {
    check_load(rt, put_file(rt, names[i], text, LENGTH), text, LENGTH);
    check_load(rt, put_file(rt, names[i], text, 20), text, 20);
    check_load(rt, put_file(rt, names[i], text, 0), text, 0);
  }
  tsr_runtime_close(rt);
  free(text);
}

/* As `cat a.gz b.gz`, and with the zeros that tapes add. */
TEST(members_that_follow_each_other_are_one_file)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  char *text = some_text();
  static const char *const ends[] = { ".gz", ".zst" };
  for (int i = 0; i < 2; i++) {
    char name[16];
    size_t n[2], zeros = i ? 0 : 300;
    snprintf(name, sizeof name, "a%s", ends[i]);
    char *a = test_read(put_file(rt, name, text, 10000), &n[0]);
    snprintf(name, sizeof name, "b%s", ends[i]);
    char *b = test_read(put_file(rt, name, text + 10000, LENGTH - 10000), &n[1]);
    char *both = calloc(n[0] + n[1] + zeros, 1);
    memcpy(both, a, n[0]);
    memcpy(both + n[0], b, n[1]);
    const char *path = test_tmp("both");
    test_write(path, both, n[0] + n[1] + zeros);
    check_load(rt, path, text, LENGTH);
    tsr__loaded loaded;
    tsr__error error;
    memcpy(both + n[0], "junk", 4);
    test_write(path, both, n[0] + 4);
    CHECK_STATUS(load(rt, path, NULL, &loaded, &error), TSR_EPARSE, NULL);
    CHECK_STR_HAS(error.text, "data is damaged");
    free(a);
    free(b);
    free(both);
  }
  tsr_runtime_close(rt);
  free(text);
}

TEST(packed_files_cut_anywhere_are_refused)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  char *text = some_text();
  static const char *const names[] = { "a.gz", "a.zst" };
  for (int i = 0; i < 2; i++) {
    size_t length;
    char *packed = test_read(put_file(rt, names[i], text, 300), &length);
    for (size_t cut = 4; cut < length; cut++) {
      tsr__loaded loaded;
      tsr__error error;
      test_write(test_tmp("cut"), packed, cut);
      CHECK_STATUS(load(rt, test_tmp("cut"), NULL, &loaded, &error), TSR_EPARSE, NULL);
      CHECK_STR_HAS(error.text, "cut: the ");
      CHECK(loaded.data == NULL);
    }
    for (size_t at = 4; at < length; at++) { /* a changed byte never gives other text */
      tsr__loaded loaded;
      tsr__error error;
      packed[at] ^= 0x10;
      test_write(test_tmp("bad"), packed, length);
      if (!load(rt, test_tmp("bad"), NULL, &loaded, &error)) {
        CHECK_I64(loaded.size, 300);
        CHECK_BYTES(loaded.data, text, 300);
        tsr__loaded_free(&loaded);
      }
      packed[at] ^= 0x10;
    }
    free(packed);
  }
  tsr_runtime_close(rt);
  free(text);
}

TEST(standard_input_is_read_to_its_end)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  char *text = some_text();
  static const char *const names[] = { "a.csv", "a.csv.gz", "a.csv.zst" };
  for (int i = 0; i < 3; i++) {
    char command[4200];
    snprintf(command, sizeof command, "cat %s", put_file(rt, names[i], text, LENGTH));
    FILE *pipe = popen(command, "r");
    CHECK(dup2(fileno(pipe), STDIN_FILENO) == STDIN_FILENO);
    tsr__loaded loaded;
    tsr__error error;
    CHECK_STATUS(load(rt, "-", &(tsr__file_opts){ .piece = 1000 }, &loaded, &error), TSR_OK, NULL);
    CHECK_I64(loaded.size, LENGTH);
    CHECK_BYTES(loaded.data, text, LENGTH);
    tsr__loaded_free(&loaded);
    pclose(pipe);
  }
  tsr_runtime_close(rt);
  free(text);
}

static int64_t short_read(void *user, int fd, void *to, size_t length, int64_t offset)
{
  int64_t *end = user;
  if (*end < 0) {
    errno = EIO;
    return -1;
  }
  if (offset >= *end) return 0;
  if (length > 100) length = 100;
  if ((int64_t)length > *end - offset) length = (size_t)(*end - offset);
  return pread(fd, to, length, (off_t)offset);
}

TEST(files_that_shrink_or_cannot_be_read)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  char *text = some_text();
  const char *path = put_file(rt, "a.csv", text, LENGTH);
  tsr__loaded loaded;
  tsr__error error;
  int64_t end = LENGTH;
  tsr__file_opts opts = { .piece = 5000, .read = short_read, .user = &end };
  CHECK_STATUS(load(rt, path, &opts, &loaded, &error), TSR_OK, NULL);
  CHECK_BYTES(loaded.data, text, LENGTH);
  tsr__loaded_free(&loaded);
  end = 12345;
  CHECK_STATUS(load(rt, path, &opts, &loaded, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "while it was read, but had 30000 bytes");
  end = -1;
  CHECK_STATUS(load(rt, path, &opts, &loaded, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "a.csv: cannot read: Input/output error");
  CHECK_STATUS(load(rt, test_tmp("none"), NULL, &loaded, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "none: cannot open: No such file or directory");
  CHECK_I64(mkdir(test_tmp("folder"), 0777), 0);
  CHECK_STATUS(load(rt, test_tmp("folder"), NULL, &loaded, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "is a directory");
  tsr_runtime_close(rt);
  free(text);
}

static tsr_status find_paths(tsr__heap *heap, const char *path, tsr__paths *out, tsr__error *error)
{
  return tsr__paths_find(heap, &(tsr__path_ask){ .path = path }, out, error);
}

TEST(patterns_give_names_in_order)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__paths paths;
  tsr__error error = { 0 };
  static const char *const names[] = { "p-2.csv", "p-10.csv", "p-1.csv", "p[3].csv", "q.csv" };
  for (int i = 0; i < 5; i++) test_write(test_tmp(names[i]), "a\n", 2);
  CHECK_STATUS(find_paths(&heap, test_tmp("p-*.csv"), &paths, &error), TSR_OK, NULL);
  CHECK_I64(paths.count, 3);
  CHECK_STR_HAS(paths.path[0], "p-1.csv");
  CHECK_STR_HAS(paths.path[1], "p-10.csv");
  CHECK_STR_HAS(paths.path[2], "p-2.csv");
  tsr__paths_free(&paths);
  CHECK_STATUS(find_paths(&heap, test_tmp("{p-?,q}.csv"), &paths, &error), TSR_OK, NULL);
  CHECK_I64(paths.count, 3);
  tsr__paths_free(&paths);
  CHECK_STATUS(find_paths(&heap, test_tmp("p[3].csv"), &paths, &error), TSR_OK, NULL);
  CHECK_I64(paths.count, 1);
  CHECK_STR_HAS(paths.path[0], "p[3].csv");
  tsr__paths_free(&paths);
  CHECK_STATUS(find_paths(&heap, "plain", &paths, &error), TSR_OK, NULL);
  CHECK_STR(paths.path[0], "plain");
  tsr__paths_free(&paths);
  CHECK_STATUS(find_paths(&heap, test_tmp("z*"), &paths, &error), TSR_EIO, NULL);
  CHECK_STR_HAS(error.text, "no file matches this pattern");
  /* Braces may name a file twice; arguments mean what they say each time. */
  char *first = strdup(test_tmp("p-?.csv")), *twice = strdup(test_tmp("{p-1,p-1}.csv"));
  const char *more[] = { "plain", twice, "plain" };
  tsr__path_ask ask = { .path = first, .more = more, .more_count = 3 };
  error.status = TSR_OK;
  CHECK_STATUS(tsr__paths_find(&heap, &ask, &paths, &error), TSR_OK, NULL);
  CHECK_I64(paths.count, 5);
  CHECK_STR_HAS(paths.path[1], "p-2.csv");
  CHECK_STR(paths.path[2], "plain");
  CHECK_STR_HAS(paths.path[3], "p-1.csv");
  CHECK_STR(paths.path[4], "plain");
  tsr__paths_free(&paths);
  ask.literal = true;
  CHECK_STATUS(tsr__paths_find(&heap, &ask, &paths, &error), TSR_OK, NULL);
  CHECK_I64(paths.count, 4);
  CHECK_STR(paths.path[0], ask.path);
  tsr__paths_free(&paths);
  more[1] = NULL;
  CHECK_STATUS(tsr__paths_find(&heap, &ask, &paths, &error), TSR_EARG, NULL);
  CHECK_I64(heap.live, 0);
  free(first);
  free(twice);
}

TEST(other_formats_are_named)
{
  static const struct {
    const char *bytes;
    size_t length;
    const char *name;
  } cases[] = {
    { "PAR1\x15\x04", 6, "is Parquet, not CSV; this format is not supported yet" },
    { "ARROW1\0\0", 8, "is Arrow IPC (Feather), not CSV; this format is not supported yet" },
    { "\xff\xff\xff\xff\x20", 5, "is an Arrow IPC stream" },
    { "PK\x03\x04", 4, "zip archive" },
    { "\xff\xfe", 2, "UTF-16" },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  for (int i = 0; i < 5; i++) {
    tsr__loaded loaded;
    tsr__error error;
    test_write(test_tmp("x"), cases[i].bytes, cases[i].length);
    CHECK_STATUS(load(rt, test_tmp("x"), NULL, &loaded, &error), TSR_EUNSUPPORTED, NULL);
    CHECK_STR_HAS(error.text, cases[i].name);
  }
  tsr__error error;
  tsr__loaded loaded;
  test_write(test_tmp("x"), "PAR1,ORC\n", 9); /* letters alone are a header */
  CHECK_STATUS(load(rt, test_tmp("x"), NULL, &loaded, &error), TSR_OK, NULL);
  tsr__loaded_free(&loaded);
  tsr_runtime_close(rt);
}
