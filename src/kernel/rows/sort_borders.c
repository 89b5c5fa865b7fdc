/* Searching many words among sorted borders.
 *
 *   border    10 20 20 30 max max max        bucket of a word: how many borders are not above it
 *
 * Invariant: borders are padded to 2^depth - 1 of the highest word, so that all searches take
 * `depth` steps; the highest word, which reaches the padding, is brought back to the last
 * bucket. */
#include "kernel/rows/sort.h"

int tsr__sort_pad_borders(uint64_t *border, int count)
{
  int depth = 0;
  while ((1 << depth) - 1 < count) depth++;
  for (int i = count; i < (1 << depth) - 1; i++) border[i] = UINT64_MAX;
  return depth;
}

#define STEP(b, w) b += border[b + step - 1] <= (w) ? step : 0
#define BUCKET(b) (uint16_t)((b) < last ? (b) : last)

/* Eight searches go side by side, as each step waits for the one before; they are spelled out so
 * that their places stay in registers. */
void tsr__sort_search_borders(const tsr__sort_borders *borders, const uint64_t *word, int64_t n,
                              uint16_t *bucket)
{
  const uint64_t *border = borders->border;
  uint64_t last = (uint64_t)borders->count, top = UINT64_C(1) << borders->depth >> 1;
  for (; n >= 8; n -= 8, word += 8, bucket += 8) {
    uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
    for (uint64_t step = top; step; step >>= 1) {
      STEP(a, word[0]);
      STEP(b, word[1]);
      STEP(c, word[2]);
      STEP(d, word[3]);
      STEP(e, word[4]);
      STEP(f, word[5]);
      STEP(g, word[6]);
      STEP(h, word[7]);
    }
    const uint64_t found[8] = { a, b, c, d, e, f, g, h };
    for (int k = 0; k < 8; k++) bucket[k] = BUCKET(found[k]);
  }
  for (; n; n--, word++, bucket++) {
    uint64_t a = 0;
    for (uint64_t step = top; step; step >>= 1) STEP(a, *word);
    *bucket = BUCKET(a);
  }
}
