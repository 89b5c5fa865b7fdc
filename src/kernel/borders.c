/* Searching many words among sorted borders.
 *
 *   border    10 20 20 30 max max max        bucket of a word: how many borders are not above it
 *
 * Invariant: borders are padded to 2^depth - 1 of the highest word, so that all searches take `depth`
 * steps; the highest word, which reaches the padding, is brought back to the last bucket. */
#include "kernel/sorts.h"

int tsr__pad_borders(uint64_t *border, int count)
{
  int depth = 0;
  while ((1 << depth) - 1 < count) depth++;
  for (int i = count; i < (1 << depth) - 1; i++) border[i] = UINT64_MAX;
  return depth;
}

/* Eight searches go side by side, as each step waits for the one before. */
void tsr__search_borders(const tsr__borders *borders, const uint64_t *word, int64_t n,
                         uint16_t *bucket)
{
  enum { ABREAST = 8 };
  const uint64_t *border = borders->border;
  uint64_t last = (uint64_t)borders->count;
  int64_t i = 0;
  for (; i + ABREAST <= n; i += ABREAST) {
    uint64_t b[ABREAST] = { 0 };
    for (uint64_t step = UINT64_C(1) << borders->depth >> 1; step; step >>= 1)
      for (int k = 0; k < ABREAST; k++) b[k] += border[b[k] + step - 1] <= word[i + k] ? step : 0;
    for (int k = 0; k < ABREAST; k++) bucket[i + k] = (uint16_t)(b[k] < last ? b[k] : last);
  }
  for (; i < n; i++) {
    uint64_t b = 0;
    for (uint64_t step = UINT64_C(1) << borders->depth >> 1; step; step >>= 1)
      b += border[b + step - 1] <= word[i] ? step : 0;
    bucket[i] = (uint16_t)(b < last ? b : last);
  }
}
