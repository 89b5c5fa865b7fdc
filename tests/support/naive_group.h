/* Aggregates of one group by the book: values one by one, sums by the oracle's exact arithmetic. */
#ifndef TESTS_SUPPORT_NAIVE_GROUP_H
#define TESTS_SUPPORT_NAIVE_GROUP_H

#include "harness.h"
#include "kernel/rows/columns.h"

/* A value as f or i, whichever its dtype is. */
typedef struct item {
  double f;
  int64_t i;
} item;

typedef struct expected {
  bool null;
  item value;
} expected;

/* The rows of one group in order; `null` NULL: none is. */
typedef struct group_items {
  tsr_dtype dtype;
  const item *items;
  const bool *null;
  int64_t count;
  bool tellable; /* floats are multiples of 1/1024 below 2^20: spreads are checked twice */
} group_items;

/* An aggregate of a group; of rows where its column is -1. */
expected naive_aggregate(const group_items *group, const tsr__group_agg *agg);

/* The correlation of a group's pairs; nulls are those of `x`. Two integers: below
 * 2^50 in size. */
expected naive_corr(const group_items *x, const group_items *y);

/* Whether a result is what is expected: equal bits, any NaN; a quantile of 0 has any sign. */
bool naive_same(int op, tsr_dtype dtype, item found, const expected *e);

#endif
