/* Columns of the table of operations that the library itself knows nothing of (graph/ops.def): what
 * documents promise of a row, and where tests may draw its operands. */
#ifndef TESTS_SUPPORT_ROW_COLUMNS_H
#define TESTS_SUPPORT_ROW_COLUMNS_H

#include "graph/graph.h"
#include "harness.h"

typedef struct row_range {
  double least, most;
} row_range;

typedef struct row_columns {
  const char *rule; /* GRADIENT: its name; NULL: there is none, */
  const char *none; /* NO_GRADIENT: and why */
  struct {
    double f64, f32;
  } ulp;                   /* 0: not stated */
  row_range tries, beside; /* of operand 0, of the others: empty ones are not stated */
  double away;
  bool jumps;
  const char *untried;
} row_columns;

extern const row_columns row_columns_of[TSR__OPS];

/* What the row of that name states of results of a float type: those of 16 bits are rounded from
 * f32. */
double row_ulp(const char *name, tsr_dtype dtype);

/* Whether a gradient flows through the row, or should where it says that none does: it makes floats
 * of floats. */
bool row_has_slope(int op);
/* Whether floats can be drawn for all of its operands. */
bool row_has_range(int op);
/* Where operand `i` may be. */
row_range row_range_of(int op, int i);
/* A number of part `k` of `count` of a range, away from 0 where the row says so. */
double row_draw(int op, row_range range, test_rng *rng, int k, int count);

#endif
