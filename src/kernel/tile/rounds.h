/* Inside kernel/ and for orders that are computed: rounds of a Feistel network over two digits.
 *
 *   lane i   high[i] | low[i]     a round: high += f(low, key), then low += f(high, next key)
 *
 * Whole numbers alone, so that all instruction sets give the same. */
#ifndef TSR_KERNEL_ROUNDS_H
#define TSR_KERNEL_ROUNDS_H

#include <stdint.h>

enum { TSR__MOST_ROUNDS = 32 };

typedef struct tsr__rounds {
  uint32_t high, low; /* radices, 1 to 2^31; digits are below them */
  int count;          /* even */
  uint32_t key[TSR__MOST_ROUNDS];
} tsr__rounds;

/* All rounds of so many lanes, in place; `high` and `low` do not overlap. */
typedef void tsr__rounds_fn(const tsr__rounds *rounds, uint32_t *restrict high,
                            uint32_t *restrict low, int lanes);

/* The function for the instruction set of a runtime, `rt->isa`. */
tsr__rounds_fn *tsr__rounds_of(const char *isa);

#endif
