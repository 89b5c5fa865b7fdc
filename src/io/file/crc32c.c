/* CRC-32C (Castagnoli), as iSCSI, ext4 and Zarr have it.
 *
 *   data   | lane 0 | lane 1 | lane 2 | lane 0 | ...     three at once: the instruction takes three
 *                                                        cycles, and a new one begins each cycle
 *
 * A checksum is a polynomial over GF(2), its lowest power in the highest bit. That of A then B is
 * crc(A) * x^(8 |B|) + crc(B), so what lanes found is put together by two products.
 *
 * Invariant: every way gives the same number. */
#include "io/file/crc32c.h"

#include <string.h>

#define POLYNOMIAL UINT32_C(0x82f63b78)

/* ---- by bytes -------------------------------------------------------------------------------- */

/* What a byte adds, worked out bit by bit and kept for one call: 256 numbers take a microsecond. */
static void make_table(uint32_t table[256])
{
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
    table[byte] = crc;
  }
}

uint32_t tsr__crc32c_portable(uint32_t crc, const void *data, size_t length)
{
  const unsigned char *at = data;
  uint32_t table[256];
  make_table(table);
  crc = ~crc;
  for (size_t i = 0; i < length; i++) crc = crc >> 8 ^ table[(crc ^ at[i]) & 255];
  return ~crc;
}

/* ---- by instruction -------------------------------------------------------------------------- */

#if defined(__x86_64__)

enum { LANE = 8192 };

/* The product of two polynomials. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
  uint32_t product = 0;
  for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
  }
  return product;
}

/* x^(8 * length) */
static uint32_t power(size_t length)
{
  uint32_t result = UINT32_C(1) << 31, square = UINT32_C(1) << 23; /* 1 and x^8 */
  for (; length; length >>= 1) {
    if (length & 1) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

__attribute__((target("sse4.2"))) static uint64_t step(uint64_t crc, const unsigned char *at)
{
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return __builtin_ia32_crc32di(crc, word);
}

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const void *data,
                                                                 size_t length)
{
  const unsigned char *at = data;
  uint64_t one = ~crc & UINT32_MAX;
  uint32_t lane = length >= 3 * LANE ? power(LANE) : 0;
  for (; length >= 3 * LANE; at += 3 * LANE, length -= 3 * LANE) {
    uint64_t two = 0, three = 0;
    for (int i = 0; i < LANE; i += 8) {
      one = step(one, at + i);
      two = step(two, at + LANE + i);
      three = step(three, at + 2 * LANE + i);
    }
    one = multiply(multiply((uint32_t)one, lane) ^ (uint32_t)two, lane) ^ (uint32_t)three;
  }
  for (; length >= 8; at += 8, length -= 8) one = step(one, at);
  uint32_t rest = (uint32_t)one;
  for (; length; at++, length--) rest = __builtin_ia32_crc32qi(rest, *at);
  return ~rest;
}

uint32_t tsr__crc32c(uint32_t crc, const void *data, size_t length)
{
  if (__builtin_cpu_supports("sse4.2")) return by_instruction(crc, data, length);
  return tsr__crc32c_portable(crc, data, length);
}

#else

uint32_t tsr__crc32c(uint32_t crc, const void *data, size_t length)
{
  return tsr__crc32c_portable(crc, data, length);
}

#endif
