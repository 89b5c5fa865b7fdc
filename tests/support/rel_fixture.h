/* Tables on the host and on meshes, for tests of the relational operators: made at random, laid out
 * over devices with any counts of rows, and read back. */
#ifndef TESTS_SUPPORT_REL_FIXTURE_H
#define TESTS_SUPPORT_REL_FIXTURE_H

#include "harness.h"
#include "relate/relate.h"

enum { REL_COLUMNS = 8, REL_POSITIONS = 16 };

/* Cells as the bits of their element, zero-extended; null ones are 0. */
typedef struct rel_host {
  int count;
  int64_t rows;
  tsr_dtype dtype[REL_COLUMNS];
  bool nulls[REL_COLUMNS];   /* has validity at all */
  bool corners[REL_COLUMNS]; /* values come from the ends of their type */
  uint64_t *cell[REL_COLUMNS];
  bool *null[REL_COLUMNS];
} rel_host;

/* A random table: types, nulls, NaN, -0; `most` bounds integers, so a small one repeats rows. A
 * column in four has corners instead. */
void rel_host_new(rel_host *host, test_rng *rng, int count, int64_t rows, int64_t most);
/* Room for `rows` rows of the same columns. */
void rel_host_like(rel_host *host, const rel_host *like, int64_t rows);
void rel_host_free(rel_host *host);
/* Row `from` of one is row `to` of the other; -1: all null. */
void rel_host_copy_row(rel_host *to, int64_t to_row, const rel_host *from, int64_t from_row);

/* How rows may lie: a mesh and a spec ("" unplaced). */
typedef struct rel_layout {
  const char *mesh, *spec;
} rel_layout;
extern const rel_layout rel_layouts[];
enum { REL_LAYOUTS = 14, REL_DEVICES = 8 };

tsr_runtime *rel_open(const tsr_runtime_opts *opts); /* REL_DEVICES devices */
tsr_sharding rel_sharding(tsr_runtime *rt, int layout);
/* Bytes on the device that holds the most, now or at its peak. */
int64_t rel_most_held(tsr_runtime *rt, bool peak);

/* A table on devices; `rng` NULL: the usual borders, else random counts, some of them 0. */
void rel_make(tsr_runtime *rt, const tsr_sharding *sharding, const rel_host *host, test_rng *rng,
              tsr__rel *out);
/* Reads a table back, after checking that every replica holds what the first one does. */
void rel_read(const tsr__rel *rel, rel_host *out);
/* Rows of `found` are those of `expected`; `what` goes to the message. */
void rel_check(const rel_host *found, const rel_host *expected, const char *what);

/* The order of two rows by keys, by the book. */
int rel_compare(const rel_host *host, const tsr__rel_key *keys, int count, const int64_t rows[2]);
/* Equality as grouping and joining see it: nulls equal, NaN equal, -0 = 0. */
int rel_compare_cells(tsr_dtype dtype, uint64_t a, uint64_t b);

#endif
