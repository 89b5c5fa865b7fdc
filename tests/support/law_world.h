/* Programs of random arrays on a random mesh, against the naive evaluator: what laws of nodes
 * share. */
#ifndef TESTS_SUPPORT_LAW_WORLD_H
#define TESTS_SUPPORT_LAW_WORLD_H

#include "support/naive_program.h"
#include "tessera.h"

enum { LAW_MOST = 64 };

typedef struct law_world {
  test_rng rng;
  uint64_t seed;
  tsr_scope *s;
  tsr_mesh *mesh;
  tsr_array *leaf[LAW_MOST], *made[LAW_MOST];
  cell *cells[LAW_MOST]; /* of leaves */
  int leaves, count;
  bool whole; /* factors are small whole numbers, so that no sum of products rounds */
  int64_t (*seen)[TSR__DTYPES]; /* NULL, or by operation and type of its first operand: how often */
} law_world;

int64_t law_draw(law_world *w, int64_t first, int64_t last); /* both ends included */
int64_t law_count(tsr_shape shape);
/* Of rank `least` to `most`, small sizes, some of them 0. */
tsr_shape law_shape(law_world *w, int least, int most);
/* An array of random values, placed somewhere; `most` > 0: integers of -most .. most - 1. */
tsr_array *law_leaf(law_world *w, tsr_dtype dtype, tsr_shape shape, int64_t most);
/* Runs what was made as one program: each value is, bit for bit, the naive evaluator's, and the
 * bytes that explain predicts are those counted. What the evaluator leaves out (functions, draws,
 * placing) is asked of the operation alone, on one device. Closes the world. */
void law_check(law_world *w);

#endif
