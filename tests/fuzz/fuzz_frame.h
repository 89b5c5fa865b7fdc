/* What a frame's terminal says, so that two runs can be compared. */
#ifndef TESTS_FUZZ_FRAME_H
#define TESTS_FUZZ_FRAME_H

#include "base/base.h"
#include "fuzz.h"
#include "tessera.h"

typedef struct fuzz_outcome {
  tsr_status status;
  int64_t rows;
  uint64_t hash;     /* of names, types and all values, or of the message */
  char message[400]; /* its beginning */
} fuzz_outcome;

static inline uint64_t fuzz_hash_text(const char *text, uint64_t hash)
{
  return text ? tsr__hash(text, strlen(text) + 1, hash) : tsr__hash("\1", 1, hash);
}

static inline uint64_t fuzz_hash_table(const tsr_table *table)
{
  uint64_t hash = 0;
  for (int c = 0; c < tsr_table_column_count(table); c++) {
    hash = fuzz_hash_text(tsr_table_name(table, c), hash);
    hash = fuzz_hash_text(tsr_coltype_name(tsr_table_type(table, c)), hash);
    for (int64_t r = 0; r < tsr_table_row_count(table); r++) {
      const char *text = tsr_table_text(table, r, c);
      REQUIRE(tsr_table_is_null(table, r, c) == !text);
      hash = fuzz_hash_text(text, hash);
    }
  }
  return hash;
}

/* Collects a frame of a scope without errors, and clears the scope. A message that begins with the
 * place of a call is compared without it. */
static inline fuzz_outcome fuzz_collect(tsr_scope *scope, tsr_frame *df)
{
  fuzz_outcome out = { 0 };
  tsr_table *table;
  out.status = tsr_frame_collect(df, &table);
  REQUIRE(out.status == tsr_scope_status(scope));
  if (!out.status) {
    out.rows = tsr_table_row_count(table);
    out.hash = fuzz_hash_table(table);
    return out;
  }
  const char *message = strstr(tsr_message(scope), tsr_status_name(out.status));
  REQUIRE(message);
  fuzz_message(message, 3000);
  out.hash = fuzz_hash_text(message, 0);
  snprintf(out.message, sizeof out.message, "%s", message);
  tsr_scope_clear(scope);
  return out;
}

static inline void fuzz_same(const char *what, const fuzz_outcome *a, const fuzz_outcome *b)
{
  if (a->status == b->status && a->rows == b->rows && a->hash == b->hash) return;
  fprintf(stderr, "%s differs: status %d, %d, rows %lld, %lld\n%s\n%s\n", what, (int)a->status,
          (int)b->status, (long long)a->rows, (long long)b->rows, a->message, b->message);
  abort();
}

#endif
