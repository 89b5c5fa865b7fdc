/* Permutations of 0 .. count - 1 that are computed instead of kept. */
#ifndef TSR_PIPELINE_PERMUTE_H
#define TSR_PIPELINE_PERMUTE_H

#include "kernel/tile/rounds.h"

typedef struct tsr__permutation {
  uint64_t count;     /* below 2^62 */
  uint64_t inverse;   /* 2^64 / low, rounded down; 0 where low is 1 */
  tsr__rounds rounds; /* the least `high` with high * low >= count */
  tsr__rounds_fn *run;
} tsr__permutation;

/* 64 bits that look random, of two numbers: for keys. */
uint64_t tsr__mix(uint64_t a, uint64_t b);

/* That of a seed and an epoch, the same with every instruction set (`rt->isa`). The algorithm is
 * part of what states name: it never changes. */
void tsr__permutation_make(tsr__permutation *p, const char *isa, uint64_t count, uint64_t seed,
                           uint64_t epoch);
/* Where each of `n` positions goes; `to` may be `from`. */
void tsr__permute(const tsr__permutation *p, const int64_t *from, int64_t *to, int64_t n);

#endif
