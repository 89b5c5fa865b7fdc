/* Columns that a reader of files wrote, so that two reads of one file can be compared. */
#ifndef TESTS_FUZZ_COLUMNS_H
#define TESTS_FUZZ_COLUMNS_H

#include "fuzz.h"
#include "io/csv/csv.h"

static const tsr_coltype fuzz_types[16] = {
  TSR_COL_BOOL, TSR_COL_I8,   TSR_COL_I16,  TSR_COL_I32, TSR_COL_I64,  TSR_COL_U8,
  TSR_COL_U16,  TSR_COL_U32,  TSR_COL_U64,  TSR_COL_F16, TSR_COL_BF16, TSR_COL_F32,
  TSR_COL_F64,  TSR_COL_DATE, TSR_COL_TIME, TSR_COL_TEXT
};

/* Which type two bytes force upon a column, about one in two; -1: none, as for every column where
 * both are 0. */
static inline int fuzz_forced(const uint8_t choice[2], int column)
{
  unsigned state = choice[0] | (unsigned)choice[1] << 8;
  if (!state) return -1;
  for (int c = 0; c <= column; c++) state = state * 1103515245u + 12345u;
  return state >> 20 & 1 ? -1 : (int)fuzz_types[state >> 16 & 15];
}

/* A summary of all that a read says. */
typedef struct fuzz_result {
  tsr_status status;
  int64_t rows, bad_rows;
  int columns;
  uint64_t hash;
  char text[1000];
} fuzz_result;

/* Of a value that is no bool. */
static inline size_t fuzz_value_size(tsr_coltype type)
{
  if (type == TSR_COL_TIME) return 8;
  return type == TSR_COL_DATE || type == TSR_COL_TEXT ? 4 : tsr_dtype_size((tsr_dtype)type);
}

static inline size_t fuzz_value_bytes(tsr_coltype type, int64_t rows)
{
  if (type == TSR_COL_BOOL) return (size_t)(rows + 63) / 64 * 8;
  return (size_t)rows * fuzz_value_size(type);
}

static inline void fuzz_hash_part(fuzz_result *r, const void *bytes, size_t length)
{
  r->hash = tsr__hash(bytes, length, r->hash);
}

/* One column's two parts. */
typedef struct fuzz_held {
  void *values[2];
  uint64_t *validity[2];
} fuzz_held;

static inline void fuzz_hold(fuzz_held *h, tsr_coltype type, const int64_t rows[3])
{
  for (int p = 0; p < 2; p++) {
    h->values[p] = malloc(fuzz_value_bytes(type, rows[p + 1] - rows[p]));
    h->validity[p] = malloc((size_t)(rows[p + 1] - rows[p] + 63) / 64 * 8);
  }
}

static inline bool fuzz_bit(const uint64_t *words, int64_t i)
{
  return words[i / 64] >> i % 64 & 1;
}

/* Each value for itself, so that the border does not show; a null's is 0, a text's its code. */
static inline void fuzz_hash_part_rows(const fuzz_held *h, int part, tsr_coltype type, int64_t rows,
                                       fuzz_result *r)
{
  const uint64_t *valid = h->validity[part];
  size_t size = fuzz_value_size(type);
  for (int64_t i = 0; i < rows; i++) {
    uint64_t cell[2] = { 0, fuzz_bit(valid, i) };
    if (type == TSR_COL_BOOL) cell[0] = fuzz_bit(h->values[part], i);
    else memcpy(cell, (const char *)h->values[part] + (size_t)i * size, size);
    REQUIRE(cell[1] || !cell[0]);
    fuzz_hash_part(r, cell, sizeof cell);
  }
  for (int64_t i = rows; i % 64; i++)
    REQUIRE(!fuzz_bit(valid, i) && (type != TSR_COL_BOOL || !fuzz_bit(h->values[part], i)));
}

static inline void fuzz_hash_column(const tsr__read_column *column, const fuzz_held *h,
                                    const tsr__read_target *target, const int64_t rows[3],
                                    fuzz_result *r)
{
  fuzz_hash_part(r, &column->type, sizeof column->type);
  fuzz_hash_part(r, column->name, strlen(column->name));
  fuzz_hash_part(r, &target->nulls, sizeof target->nulls);
  for (int p = 0; p < 2; p++) fuzz_hash_part_rows(h, p, column->type, rows[p + 1] - rows[p], r);
  REQUIRE((column->type == TSR_COL_TEXT) == (target->dict != NULL));
  if (target->dict)
    fuzz_hash_part(r, target->dict->bytes, (size_t)target->dict->offsets[target->dict->count]);
}

static inline void fuzz_show(const fuzz_result *r)
{
  fprintf(stderr, "status %d, rows %lld, bad %lld, columns %d, hash %llx, %s\n", (int)r->status,
          (long long)r->rows, (long long)r->bad_rows, r->columns, (unsigned long long)r->hash,
          r->text);
}

static inline void fuzz_same_result(const fuzz_result *a, const fuzz_result *b)
{
  if (a->status == b->status && a->status) return;
  if (a->status == b->status && a->rows == b->rows && a->columns == b->columns &&
      a->hash == b->hash && a->bad_rows == b->bad_rows)
    return;
  fuzz_show(a);
  fuzz_show(b);
  abort();
}

#endif
