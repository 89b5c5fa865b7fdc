/* Philox4x32-10: random numbers as a pure function of key and counter (J. K. Salmon et al.,
 * "Parallel random numbers: as easy as 1, 2, 3", 2011). Counter words 0 and 1 are the element's
 * global index, 2 and 3 the stream; the key is the seed. So no sharding and no order of work can
 * show in what is drawn. */
#include "kernel/tile_inner.h"

enum { BLOCK = 64, ROUNDS = 10 };

/* The four words of each of BLOCK counters from `first` on. Products are 32 x 32 -> 64 bits. */
INLINE void philox(uint64_t word[4][BLOCK], int64_t first, const int64_t key[2])
{
  const uint64_t low = UINT64_C(0xffffffff);
  uint64_t k0 = (uint64_t)key[0] & low, k1 = (uint64_t)key[0] >> 32;
  for (int i = 0; i < BLOCK; i++) {
    uint64_t index = (uint64_t)first + (uint64_t)i;
    word[0][i] = index & low;
    word[1][i] = index >> 32;
    word[2][i] = (uint64_t)key[1] & low;
    word[3][i] = (uint64_t)key[1] >> 32;
  }
  for (int round = 0; round < ROUNDS; round++) {
    ANY_ORDER for (int i = 0; i < BLOCK; i++)
    {
      uint64_t a = word[0][i] * UINT64_C(0xD2511F53), b = word[2][i] * UINT64_C(0xCD9E8D57);
      word[0][i] = (b >> 32) ^ word[1][i] ^ k0;
      word[1][i] = b & low;
      word[2][i] = (a >> 32) ^ word[3][i] ^ k1;
      word[3][i] = a & low;
    }
    k0 = (k0 + UINT64_C(0x9E3779B9)) & low;
    k1 = (k1 + UINT64_C(0xBB67AE85)) & low;
  }
}

/* Multiples of 2^-53 in [0, 1): the top 53 bits of words 0 (high) and 1. */
void TSR__ISA_NAME(tsr__uniform_f64)(double *out, int64_t first, int64_t n, const int64_t key[2])
{
  uint64_t word[4][BLOCK];
  for (int64_t at = 0; at < n; at += BLOCK) {
    philox(word, first + at, key);
    int64_t count = n - at < BLOCK ? n - at : BLOCK;
    ANY_ORDER for (int64_t i = 0; i < count; i++) out[at + i] =
        (double)(int64_t)((word[1][i] << 32 | word[0][i]) >> 11) * 0x1p-53;
  }
}

/* Multiples of 2^-24 in [0, 1): the top 24 bits of word 0. */
void TSR__ISA_NAME(tsr__uniform_f32)(float *out, int64_t first, int64_t n, const int64_t key[2])
{
  uint64_t word[4][BLOCK];
  for (int64_t at = 0; at < n; at += BLOCK) {
    philox(word, first + at, key);
    int64_t count = n - at < BLOCK ? n - at : BLOCK;
    ANY_ORDER for (int64_t i = 0; i < count; i++) out[at + i] =
        (float)(int32_t)(word[0][i] >> 8) * 0x1p-24f;
  }
}
