/* Programs by the book: every node whole, element by element, with no sharding, no fusion and sums
 * in one long accumulator. What the kernel room computes must equal this bit for bit. */
#ifndef TESTS_SUPPORT_NAIVE_PROGRAM_H
#define TESTS_SUPPORT_NAIVE_PROGRAM_H

#include "graph/graph.h"
#include "harness.h"

typedef union cell {
  int64_t i; /* bool, i32, i64 */
  double f;  /* f32 (its exact value), f64 */
} cell;

bool naive_is_real(int dtype);
void naive_put(void *array, int dtype, int64_t at, cell c);
cell naive_get(const void *array, int dtype, int64_t at);
cell naive_random(test_rng *rng, int dtype); /* any value, the odd ones often */
cell naive_cast(int from, int to, cell x);
/* An elementwise operation on operands of `dtype` (where: of the values). */
cell naive_element(tsr__op op, int dtype, int count, const cell *in);
/* Fails the test where two cells are not the same value (NaNs are all the same). */
void naive_check(const char *what, int64_t at, int dtype, cell found, cell expected);

/* Words 0 and 1, as one number, that Philox4x32-10 makes of words 0 and 1 and words 2 and 3 of a
 * counter. */
uint64_t naive_philox(uint64_t key, uint64_t place, uint64_t stream);
/* What is drawn from it: bits, or of dtypes of floats a uniform number. */
cell naive_draw(int dtype, uint64_t bits);

/* Evaluates every node into `value[node]` (malloced cells); leaves are there already. Formulas and
 * steps are left NULL, and so is what needs them. */
void naive_program(const tsr__program *program, cell **value);

#endif
