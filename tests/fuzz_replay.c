/* Runs a fuzz target over kept inputs, for compilers without libFuzzer and for the test suite:
 *   NAME FOLDER_OR_FILE ...
 * Each input is run as it stands, from a block of exactly its size, and cut off at several places.
 * Fails where there was none; what an input breaks ends the process, with its name printed last. */
#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

static int inputs;

static void run_bytes(const uint8_t *bytes, size_t length)
{
  uint8_t *exact = malloc(length ? length : 1);
  REQUIRE(exact);
  if (length) memcpy(exact, bytes, length);
  LLVMFuzzerTestOneInput(exact, length);
  free(exact);
}

static void run_file(const char *path)
{
  enum { CUTS = 4 };
  struct stat info;
  FILE *file = fopen(path, "rb");
  REQUIRE(file && fstat(fileno(file), &info) == 0);
  size_t length = (size_t)info.st_size;
  uint8_t *bytes = malloc(length + 1);
  REQUIRE(bytes && fread(bytes, 1, length, file) == length);
  fclose(file);
  printf("%s, %zu bytes\n", path, length);
  fflush(stdout);
  run_bytes(bytes, length);
  for (size_t cut = 1; cut < CUTS; cut++) run_bytes(bytes, length * cut / CUTS);
  free(bytes);
  inputs++;
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    struct dirent *entry;
    DIR *folder = opendir(argv[i]);
    if (!folder) {
      run_file(argv[i]);
      continue;
    }
    while ((entry = readdir(folder))) {
      char path[4096];
      if (entry->d_name[0] == '.') continue;
      REQUIRE(snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name) < (int)sizeof path);
      run_file(path);
    }
    closedir(folder);
  }
  printf("%d inputs\n", inputs);
  return inputs == 0;
}
