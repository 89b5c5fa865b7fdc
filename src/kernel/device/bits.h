/* Runs of bits in 64-bit words, LSB first: bool columns, masks and validity. */
#ifndef TSR_KERNEL_BITS_H
#define TSR_KERNEL_BITS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a mask has element i; NULL has all. */
static inline bool tsr__taken(const uint64_t *mask, int64_t i)
{
  return !mask || (mask[i / 64] >> (i % 64) & 1);
}

/* The `n` <= 64 bits from bit `at` on; touches only words that hold some of them. */
static inline uint64_t tsr__bits_get(const uint64_t *bits, int64_t at, int n)
{
  int shift = (int)(at % 64);
  uint64_t value = bits[at / 64] >> shift;
  if (shift + n > 64) value |= bits[at / 64 + 1] << (64 - shift);
  return n == 64 ? value : value & ((UINT64_C(1) << n) - 1);
}

static inline void tsr__bits_put(uint64_t *bits, int64_t at, int n, uint64_t value)
{
  int shift = (int)(at % 64);
  uint64_t mask = n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1;
  uint64_t *word = bits + at / 64;
  word[0] = (word[0] & ~(mask << shift)) | (value & mask) << shift;
  if (shift + n > 64)
    word[1] = (word[1] & ~(mask >> (64 - shift))) | (value & mask) >> (64 - shift);
}

static inline void tsr__bits_copy(uint64_t *to, int64_t to_at, const uint64_t *from,
                                  int64_t from_at, int64_t n)
{
  for (int64_t i = 0; i < n; i += 64) {
    int some = n - i < 64 ? (int)(n - i) : 64;
    tsr__bits_put(to, to_at + i, some, tsr__bits_get(from, from_at + i, some));
  }
}

/* How many of bits 0 .. n - 1 are set. */
static inline int64_t tsr__bits_count(const uint64_t *bits, int64_t n)
{
  int64_t count = 0;
  for (int64_t i = 0; i < n / 64; i++) count += __builtin_popcountll(bits[i]);
  if (n % 64) count += __builtin_popcountll(tsr__bits_get(bits, n / 64 * 64, (int)(n % 64)));
  return count;
}

#endif
