/* What all fuzz targets have in common. A target says what must hold of any bytes; it is run by
 * libFuzzer (`make fuzz`) and, over the inputs kept in tests/fuzz/corpus, by the tests. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process, which is what a fuzzer takes for a finding. */
#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                \
    }                                                                         \
  } while (0)

enum { FUZZ_PATH = 64 };

/* A file in memory that can be opened by `path` until the number returned is closed. */
static inline int fuzz_file(const void *bytes, size_t length, char path[FUZZ_PATH])
{
  int fd = memfd_create("fuzz", 0);
  REQUIRE(fd >= 0);
  REQUIRE(!length || write(fd, bytes, length) == (ssize_t)length);
  snprintf(path, FUZZ_PATH, "/proc/self/fd/%d", fd);
  return fd;
}

/* The bytes that choose: each is used once, and zeros follow the last. */
typedef struct fuzz_bytes {
  const uint8_t *at, *end;
} fuzz_bytes;

static inline uint8_t fuzz_byte(fuzz_bytes *bytes)
{
  return bytes->at < bytes->end ? *bytes->at++ : 0;
}

/* An exact copy as text, so that a byte read past its end is noticed. The caller frees it. */
static inline char *fuzz_text(const void *bytes, size_t length)
{
  char *text = malloc(length + 1);
  REQUIRE(text);
  if (length) memcpy(text, bytes, length);
  text[length] = '\0';
  return text;
}

/* A message that can be shown: something, cut to what an error holds, that steers no terminal. */
static inline void fuzz_message(const char *message, size_t room)
{
  REQUIRE(message[0] && strlen(message) < room);
  for (const char *at = message; *at; at++)
    REQUIRE((unsigned char)*at >= 0x20 ? *at != 0x7f : *at == '\n' || *at == '\t');
}

#endif
