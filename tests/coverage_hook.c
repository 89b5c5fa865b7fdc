/* What the compiler calls at the beginning of every function of a build for coverage (the preset
 * `coverage`): the folder TEST_COVERAGE gets, of each object that holds the library, OBJECT.seen, a
 * byte for each function that is 1 once it ran, and OBJECT.at, where in the object each begins.
 *
 * The bytes are shared memory, so that what forked, was killed or crashed is seen too. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void __sanitizer_cov_trace_pc_guard_init(uint32_t *first, uint32_t *end);
void __sanitizer_cov_pcs_init(const uintptr_t *first, const uintptr_t *end);
void __sanitizer_cov_trace_pc_guard(uint32_t *guard);

static uint8_t *seen; /* [guard - 1] */

static int open_beside(const char *suffix)
{
  static const char here;
  const char *folder = getenv("TEST_COVERAGE");
  char path[4096];
  Dl_info object;
  if (!folder || !dladdr(&here, &object)) return -1;
  const char *slash = strrchr(object.dli_fname, '/'), *name = slash ? slash + 1 : object.dli_fname;
  snprintf(path, sizeof path, "%s/%s.%s", folder, name, suffix);
  return open(path, O_RDWR | O_CREAT, 0666);
}

/* Called once for each source file, always with the same range. */
void __sanitizer_cov_trace_pc_guard_init(uint32_t *first, uint32_t *end)
{
  size_t count = (size_t)(end - first);
  if (!count || *first || seen) return;
  int fd = open_beside("seen");
  if (fd < 0) return;
  if (!ftruncate(fd, (off_t)count)) {
    void *bytes = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes != MAP_FAILED) seen = bytes;
  }
  close(fd);
  for (size_t i = 0; i < count && seen; i++) first[i] = (uint32_t)i + 1;
}

/* Pairs: where a function begins, and what it is. */
void __sanitizer_cov_pcs_init(const uintptr_t *first, const uintptr_t *end)
{
  Dl_info object;
  static bool told;
  if (told || !seen || !dladdr(&seen, &object)) return;
  told = true;
  int fd = open_beside("at");
  FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
  if (!file) return;
  fprintf(file, "%s\n", object.dli_fname);
  for (const uintptr_t *at = first; at < end; at += 2)
    fprintf(file, "%#zx\n", (size_t)(*at - (uintptr_t)object.dli_fbase));
  fclose(file);
}

void __sanitizer_cov_trace_pc_guard(uint32_t *guard)
{
  if (!*guard) return;
  seen[*guard - 1] = 1;
  *guard = 0;
}
