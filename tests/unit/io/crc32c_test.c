/* CRC-32C: the values of RFC 3720 B.4, and both ways of computing it alike. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "io/file/crc32c.h"

TEST(published_values)
{
  unsigned char bytes[48];
  memset(bytes, 0, 32);
  CHECK_U64(tsr__crc32c(0, bytes, 32), 0x8a9136aa);
  memset(bytes, 0xff, 32);
  CHECK_U64(tsr__crc32c(0, bytes, 32), 0x62a8ab43);
  for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
  CHECK_U64(tsr__crc32c(0, bytes, 32), 0x46dd794e);
  for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)(31 - i);
  CHECK_U64(tsr__crc32c(0, bytes, 32), 0x113fdb5c);
  CHECK_U64(tsr__crc32c(0, "123456789", 9), 0xe3069283);
  CHECK_U64(tsr__crc32c(0, "", 0), 0);
}

TEST(both_ways_and_any_cut_agree)
{
  enum { MOST = 100000 };
  unsigned char *bytes = malloc(MOST);
  test_rng rng = test_seeded(1);
  for (int i = 0; i < MOST; i++) bytes[i] = (unsigned char)(test_random(&rng) >> 8);
  static const size_t lengths[] = { 0, 1, 7, 8, 9, 24575, 24576, 24577, 49152, 65537, 99990 };
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
    for (size_t at = 0; at < 9; at++) {
      size_t length = lengths[i], half = length / 3;
      uint32_t whole = tsr__crc32c_portable(0, bytes + at, length);
      CHECK_U64(tsr__crc32c(0, bytes + at, length), whole);
      uint32_t first = tsr__crc32c(0, bytes + at, half);
      CHECK_U64(tsr__crc32c(first, bytes + at + half, length - half), whole);
    }
  free(bytes);
}
