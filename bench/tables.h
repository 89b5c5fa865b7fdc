/* The made tables that the lines on frames read: db-benchmark's shapes, the same for every peer. */
#ifndef BENCH_TABLES_H
#define BENCH_TABLES_H

#include "bench.h"

/* Rows of the made tables: 1e7, or $BENCH_TABLE_ROWS. */
int64_t bench_table_rows(void);

/* The CSV file with columns id1 .. id6, v1, v2, v3, written once; NULL when it cannot be. The path
 * stays valid until the next call. */
const char *bench_table_csv(void);

/* The CSV file with columns id (each another), s (sentences) and v, of half as many rows, and that
 * with id and w of every fifth of these; written once. NULL and validity as above. */
const char *bench_text_csv(bool right);

/* A fifth of the rows of that of bench_table_csv as JSON lines, and that file packed by gzip; as
 * above. */
const char *bench_table_json(void);
const char *bench_table_gz(void);

/* Writes <folder>/join_<name>_{lk,lv,rk,rw}.npy once: left keys and values, right keys and
 * values. */
typedef struct bench_join {
  const char *name;
  int64_t right_rows;
} bench_join;
bool bench_join_files(const bench_join *join);

/* A number from 64 bits, spread evenly: the same for a place in every run. */
uint64_t bench_mix(uint64_t place);

#endif
