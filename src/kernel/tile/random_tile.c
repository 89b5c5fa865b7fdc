/* Philox4x32-10: random numbers as a pure function of key and counter (J. K. Salmon et al.,
 * "Parallel random numbers: as easy as 1, 2, 3", 2011). Counter words 0 and 1 are the element's
 * global index, word 2 is the stream, word 3 counts its draws; the key is the seed. So neither the
 * sharding nor the order of work can show in the numbers. */
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

/* The words of counters, and the halves of their keys. */
typedef struct counters {
  lanes word[GROUPS][4], key[GROUPS][2];
} counters;

/* Words 0 and 1 that BLOCK counters give, as the halves of one number. Independent groups of lanes
 * go side by side, since a product takes several cycles. `alike`: all groups have the key of the
 * first one. Rounds end with new keys (the two added constants), but for the last. */
INLINE void philox(uint64_t *out, counters *c, bool alike)
{
  const lanes m0 = (lanes){ 0 } + UINT64_C(0xD2511F53), m1 = (lanes){ 0 } + UINT64_C(0xCD9E8D57);
  const int keys = alike ? 1 : GROUPS;
  for (int round = 1; round < ROUNDS; round++) {
    for (int g = 0; g < GROUPS; g++) {
      lanes *w = c->word[g], *k = c->key[alike ? 0 : g];
      lanes p = multiply(w[0], m0), q = multiply(w[2], m1);
      w[0] = (q >> 32) ^ w[1] ^ k[0];
      w[1] = q;
      w[2] = (p >> 32) ^ w[3] ^ k[1];
      w[3] = p;
    }
    for (int g = 0; g < keys; g++) {
      c->key[g][0] += UINT64_C(0x9E3779B9);
      c->key[g][1] += UINT64_C(0xBB67AE85);
    }
  }
  for (int g = 0; g < GROUPS; g++) { /* the last round gives two words only */
    lanes q = multiply(c->word[g][2], m1);
    lanes first = (q >> 32) ^ c->word[g][1] ^ c->key[alike ? 0 : g][0];
    lanes both = (q << 32) | (first & UINT64_C(0xffffffff));
    memcpy(out + g * LANES, &both, sizeof both);
  }
}

/* Sets a pair of words, or of key halves, to the halves of a number. */
INLINE void halves(lanes pair[2], lanes value)
{
  pair[0] = value;
  pair[1] = value >> 32;
}

/* Numbers of BLOCK counters from `first` on, with one key and stream.
 *
 *   word 0, 1   index + lane       word 2, 3   the stream, and the draw in its upper half */
INLINE void philox_from(uint64_t *out, int64_t first, const int64_t key[2])
{
  counters c;
  lanes step = { 0 };
  for (int i = 0; i < LANES; i++) step[i] = (uint64_t)i;
  halves(c.key[0], (lanes){ 0 } + (uint64_t)key[0]);
  for (int g = 0; g < GROUPS; g++) {
    halves(c.word[g], step + ((uint64_t)first + (uint64_t)(g * LANES)));
    halves(c.word[g] + 2, (lanes){ 0 } + (uint64_t)key[1]);
  }
  philox(out, &c, true);
}

/* BLOCK elements of an operand from `at` on, or its one element; lanes after the last element do
 * not count. */
INLINE void take_operand_lanes(lanes to[GROUPS], const uint64_t *from, bool one, int64_t left)
{
  uint64_t few[BLOCK];
  for (int g = 0; one && g < GROUPS; g++) to[g] = (lanes){ 0 } + *from;
  if (one) return;
  /* Elements beyond the operand must not be read. */
  if (left < BLOCK) {
    memset(few, 0, sizeof few);
    memcpy(few, from, (size_t)left * sizeof *few);
    from = few;
  }
  memcpy(to, from, sizeof few);
}

/* The key is a, words 0 and 1 of the counters are b, words 2 and 3 are c; the results are words 0
 * and 1. */
void TSR__ISA_NAME(tsr__philox_u64)(OPERANDS)
{
  SPAN;
  const bool one[3] = { scalar & 1, scalar & 2, scalar & 4 };
  uint64_t word[BLOCK], *to = out;
  for (int64_t at = 0; at < n; at += BLOCK) {
    lanes x[3][GROUPS];
    counters all;
    take_operand_lanes(x[0], (const uint64_t *)a + (one[0] ? 0 : at), one[0], n - at);
    take_operand_lanes(x[1], (const uint64_t *)b + (one[1] ? 0 : at), one[1], n - at);
    take_operand_lanes(x[2], (const uint64_t *)c + (one[2] ? 0 : at), one[2], n - at);
    for (int g = 0; g < GROUPS; g++) {
      halves(all.key[g], x[0][g]);
      halves(all.word[g], x[1][g]);
      halves(all.word[g] + 2, x[2][g]);
    }
    /* Twice, so that `alike` is a constant in each: with one key for all its halves stay in two
     * registers. */
    if (one[0]) philox(word, &all, true);
    else philox(word, &all, false);
    memcpy(to + at, word, (size_t)(n - at < BLOCK ? n - at : BLOCK) * sizeof *word);
  }
}

/* Multiples of 2^-53 in [0, 1): the top 53 bits of words 1 (high) and 0. */
void TSR__ISA_NAME(tsr__uniform_f64)(double *out, int64_t first, int64_t n, const int64_t key[2])
{
  uint64_t word[BLOCK];
  for (int64_t at = 0; at < n; at += BLOCK) {
    philox_from(word, first + at, key);
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
    philox_from(word, first + at, key);
    int64_t count = n - at < BLOCK ? n - at : BLOCK;
    ANY_ORDER for (int64_t i = 0; i < count; i++) out[at + i] =
        (float)(int32_t)((uint32_t)word[i] >> 8) * 0x1p-24f;
  }
}
