/* Philox4x32-10: random numbers as a pure function of key and counter (J. K. Salmon et al.,
 * "Parallel random numbers: as easy as 1, 2, 3", 2011). Counter words 0 and 1 are the element's
 * global index, 2 and 3 the stream; the key is the seed. So no sharding and no order of work can
 * show in what is drawn. */
#include "kernel/tile/tile_inner.h"

/* Lanes of 64 bits of which the lower halves count; multiply() looks at nothing else. */
#if defined(TILE_AVX512)
enum { LANES = 8 };
typedef uint64_t lanes __attribute__((vector_size(64)));
#define multiply(a, b) ((lanes)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#elif defined(TILE_AVX2)
enum { LANES = 4 };
typedef uint64_t lanes __attribute__((vector_size(32)));
#define multiply(a, b) ((lanes)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#elif defined(TILE_SSE2)
enum { LANES = 2 };
typedef uint64_t lanes __attribute__((vector_size(16)));
#define multiply(a, b) ((lanes)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#else
enum { LANES = 2 };
typedef uint64_t lanes __attribute__((vector_size(16)));
#define multiply(a, b) (((a)&UINT64_C(0xffffffff)) * ((b)&UINT64_C(0xffffffff)))
#endif

enum { GROUPS = 4, BLOCK = GROUPS * LANES, ROUNDS = 10 };

/* Words 0 and 1, as the halves of one number, of BLOCK counters from `first` on. Independent groups
 * of lanes go side by side, since a product takes several cycles. */
INLINE void philox(uint64_t *out, int64_t first, const int64_t key[2])
{
  lanes c[GROUPS][4], step = { 0 };
  uint64_t k0 = (uint64_t)key[0], k1 = (uint64_t)key[0] >> 32;
  for (int i = 0; i < LANES; i++) step[i] = (uint64_t)i;
  for (int g = 0; g < GROUPS; g++) {
    lanes index = step + ((uint64_t)first + (uint64_t)(g * LANES));
    c[g][0] = index;
    c[g][1] = index >> 32;
    c[g][2] = (lanes){ 0 } + (uint64_t)key[1];
    c[g][3] = c[g][2] >> 32;
  }
  const lanes m0 = (lanes){ 0 } + UINT64_C(0xD2511F53), m1 = (lanes){ 0 } + UINT64_C(0xCD9E8D57);
  for (int round = 0; round < ROUNDS; round++) {
    for (int g = 0; g < GROUPS; g++) {
      lanes a = multiply(c[g][0], m0), b = multiply(c[g][2], m1);
      c[g][0] = (b >> 32) ^ c[g][1] ^ k0;
      c[g][1] = b;
      c[g][2] = (a >> 32) ^ c[g][3] ^ k1;
      c[g][3] = a;
    }
    k0 += UINT64_C(0x9E3779B9);
    k1 += UINT64_C(0xBB67AE85);
  }
  for (int g = 0; g < GROUPS; g++) {
    lanes both = (c[g][1] << 32) | (c[g][0] & UINT64_C(0xffffffff));
    memcpy(out + g * LANES, &both, sizeof both);
  }
}

/* Multiples of 2^-53 in [0, 1): the top 53 bits of words 0 (high) and 1. */
void TSR__ISA_NAME(tsr__uniform_f64)(double *out, int64_t first, int64_t n, const int64_t key[2])
{
  uint64_t word[BLOCK];
  for (int64_t at = 0; at < n; at += BLOCK) {
    philox(word, first + at, key);
    int64_t count = n - at < BLOCK ? n - at : BLOCK;
    ANY_ORDER for (int64_t i = 0; i < count; i++) out[at + i] =
        f64_of_i64((int64_t)(word[i] >> 11)) * 0x1p-53;
  }
}

/* Multiples of 2^-24 in [0, 1): the top 24 bits of word 0. */
void TSR__ISA_NAME(tsr__uniform_f32)(float *out, int64_t first, int64_t n, const int64_t key[2])
{
  uint64_t word[BLOCK];
  for (int64_t at = 0; at < n; at += BLOCK) {
    philox(word, first + at, key);
    int64_t count = n - at < BLOCK ? n - at : BLOCK;
    ANY_ORDER for (int64_t i = 0; i < count; i++) out[at + i] =
        (float)(int32_t)((uint32_t)word[i] >> 8) * 0x1p-24f;
  }
}
