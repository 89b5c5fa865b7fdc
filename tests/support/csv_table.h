/* Reads a whole CSV file for tests and keeps every value in one plain form, whatever its type. */
#ifndef TESTS_SUPPORT_CSV_TABLE_H
#define TESTS_SUPPORT_CSV_TABLE_H

#include "io/csv/csv.h"

struct table_cell {
  bool null;
  uint64_t bits;    /* f64 bits, or the integer */
  const char *text; /* text columns; in the dictionary */
  size_t length;
};

struct table {
  int64_t rows;
  int columns;
  tsr__read_column *schema; /* copies */
  int64_t *nulls;
  struct table_cell *cells; /* column after column */
  tsr__dict **dicts;
  int64_t bad_rows;
  int retypes; /* how often a read ended with another type */
};

struct table_how {
  tsr__csv_opts opts;
  int parts;     /* 0 = 1 */
  uint64_t seed; /* 0: even parts; else random borders, empty parts too */
};

/* Everything is malloced and freed by table_free; on error `out` is zeroed. */
tsr_status table_read(tsr_runtime *rt, const char *path, const struct table_how *how,
                      struct table *out, tsr__error *error);
void table_free(struct table *table);
/* NULL if equal, else what differs; in a static buffer. */
const char *table_differs(const struct table *a, const struct table *b);

const char *table_type_name(tsr_coltype type);
/* A runtime of that instruction set ("baseline", "avx2", "avx512", NULL) and threads. */
tsr_runtime *table_runtime(const char *isa, int threads);

#endif
