/* Tables on the host and on devices, and joins of them by the book. */
#ifndef TESTS_SUPPORT_JOIN_FIXTURE_H
#define TESTS_SUPPORT_JOIN_FIXTURE_H

#include "harness.h"
#include "relate/relate.h"

enum { HOST_COLUMNS = 12 };

/* A column of any type: integers and bools as they are, floats by their bits. */
typedef struct host_column {
  tsr_dtype dtype;
  bool nullable;
  bool corners; /* values come from the ends of their type */
  int64_t *value;
  bool *valid;
} host_column;

typedef struct host_table {
  int64_t rows;
  int count;
  host_column column[HOST_COLUMNS];
} host_table;

void host_new(host_table *table, int64_t rows, int count);
void host_free(host_table *table);
/* Random values of few distinct ones, or corners; floats are now and then NaN or -0; nulls over
 * rubbish. */
void host_fill(host_table *table, int column, test_rng *rng, int64_t distinct);

/* Puts a table on devices; `ragged`: with random borders. */
void host_put(const host_table *table, tsr_runtime *rt, const tsr_sharding *sharding,
              test_rng *ragged, tsr__rel *out);
/* Checks that a table on devices has these rows on every position that holds them. */
void host_check(const host_table *expected, const tsr__rel *found);

/* The join by nested loops. */
void host_join(const tsr__rel_join_ask *ask, const host_table *left, const host_table *right,
               host_table *out, bool *repeats);

/* From now on counts, beside the library, the bytes that a runtime's devices copy to each other. */
void count_copies(tsr_runtime *rt);
int64_t copied_bytes(void);

#endif
