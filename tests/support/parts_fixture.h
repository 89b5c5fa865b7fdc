/* Columns in parts on devices, filled at random, for tests of the relational primitives. */
#ifndef TESTS_SUPPORT_PARTS_FIXTURE_H
#define TESTS_SUPPORT_PARTS_FIXTURE_H

#include "kernel/device/cpu.h"
#include "kernel/rows/columns.h"
#include "support/topology_fixture.h"

enum { PARTS_MOST = 8 };

typedef struct parts_fixture {
  tsr_runtime *rt;
  tsr__parts parts;
  int device[PARTS_MOST];
  int64_t rows[PARTS_MOST];
  tsr__error error;
} parts_fixture;

/* `opts` NULL: the default. A device a part. */
void parts_open(parts_fixture *f, int devices, const tsr_runtime_opts *opts);
void parts_close(parts_fixture *f);
void parts_set(parts_fixture *f, const int64_t *rows);

typedef struct parts_column {
  tsr__colparts parts;
  int count;
  tsr__buffer *values[PARTS_MOST], *valid[PARTS_MOST]; /* valid NULL: no nulls */
} parts_column;

/* Buffers of the fixture's rows, undefined. */
void parts_column_new(parts_fixture *f, tsr_dtype dtype, bool nulls, parts_column *out);
void parts_column_free(parts_column *column);
/* Random values of part p: integers below `most` on both sides of 0; floats now and then NaN, -0,
 * infinite; nulls over rubbish. A small `most` gives many equal rows. */
void parts_column_fill(parts_fixture *f, test_rng *rng, parts_column *column, int p, int64_t most);

#endif
