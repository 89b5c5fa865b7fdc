/* Rounds over lanes: each round is one after the other, so it is lanes that fill a vector, and many
 * of them that fill the time its multiplications take. */
#include "kernel/tile/rounds.h"

#include "kernel/tile/tile_inner.h"

/* 32 bits of 32 and a key, brought to [0, radix) by their upper end. */
INLINE uint32_t round_of(uint32_t x, uint32_t key, uint32_t radix)
{
  x = (x ^ key) * 0x85EBCA6Bu;
  x = (x ^ x >> 15) * 0xC2B2AE35u;
  x ^= x >> 13;
  return (uint32_t)((uint64_t)x * radix >> 32);
}

/* A sum below 2^32. Less the radix it is smaller where it holds one, and wraps to a larger number
 * where it does not: the smaller of both needs no comparison of its own, nor a branch. */
INLINE uint32_t add_modulo(uint32_t a, uint32_t b, uint32_t radix)
{
  uint32_t sum = a + b, less = sum - radix;
  return less < sum ? less : sum;
}

void TSR__ISA_NAME(tsr__rounds)(const tsr__rounds *rounds, uint32_t *restrict high,
                                uint32_t *restrict low, int lanes)
{
  uint32_t tall = rounds->high, broad = rounds->low;
  for (int r = 0; r < rounds->count; r += 2) {
    uint32_t one = rounds->key[r], two = rounds->key[r + 1];
    ANY_ORDER for (int i = 0; i < lanes; i++) high[i] =
        add_modulo(high[i], round_of(low[i], one, tall), tall);
    ANY_ORDER for (int i = 0; i < lanes; i++) low[i] =
        add_modulo(low[i], round_of(high[i], two, broad), broad);
  }
}
