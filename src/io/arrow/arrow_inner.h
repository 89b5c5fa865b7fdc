/* What the files of the Arrow reader share.
 *
 *   arrow_schema.c   formats to columns, structure of batches
 *   arrow_read.c     opening, rows of batches in parallel
 *   arrow_values.c   elements of arrays to numbers and texts */
#ifndef TSR_IO_ARROW_INNER_H
#define TSR_IO_ARROW_INNER_H

#include "io/arrow/arrow_read.h"
#include "io/text/decimal.h"
#include "io/text/dict.h"

/* How values lie in a buffer. */
typedef enum tsr__arrow_layout {
  TSR__ARROW_NULL,
  TSR__ARROW_BOOL,
  TSR__ARROW_I8,
  TSR__ARROW_U8,
  TSR__ARROW_I16,
  TSR__ARROW_U16,
  TSR__ARROW_I32,
  TSR__ARROW_U32,
  TSR__ARROW_I64,
  TSR__ARROW_U64,
  TSR__ARROW_F16,
  TSR__ARROW_F32,
  TSR__ARROW_F64,
  TSR__ARROW_DECIMAL,    /* integers of 4 to 32 bytes, times a power of ten */
  TSR__ARROW_TEXT,       /* offsets of 32 bits */
  TSR__ARROW_LARGE_TEXT, /* of 64 */
  TSR__ARROW_TEXT_VIEW
} tsr__arrow_layout;

/* Bytes of a number. */
static inline size_t tsr__arrow_size(int layout)
{
  static const uint8_t size[] = {
    [TSR__ARROW_I8] = 1,  [TSR__ARROW_U8] = 1,  [TSR__ARROW_I16] = 2, [TSR__ARROW_U16] = 2,
    [TSR__ARROW_I32] = 4, [TSR__ARROW_U32] = 4, [TSR__ARROW_I64] = 8, [TSR__ARROW_U64] = 8,
    [TSR__ARROW_F16] = 2, [TSR__ARROW_F32] = 4, [TSR__ARROW_F64] = 8
  };
  return size[layout];
}

typedef struct tsr__arrow_type {
  uint8_t layout; /* of the values, which a dictionary's entries are too */
  uint8_t index;  /* layout of the indices into a dictionary; 0: there is none */
  uint8_t bytes;  /* decimals: of one */
  int32_t scale;  /* decimals: value = integer / 10^scale */
  /* Dates and times: value * factor / divisor, which must be whole. */
  int64_t factor, divisor;
} tsr__arrow_type;

/* A batch, shared by those who borrowed from it. */
typedef struct tsr__arrow_batch {
  tsr__heap *heap;
  _Atomic int refs;
  struct ArrowArray array;
} tsr__arrow_batch;

struct tsr__arrow {
  tsr_runtime *rt;
  tsr__heap *heap;
  int column_count;
  tsr__read_column *columns;
  tsr__arrow_type *types;
  tsr__decimal *decimal; /* NULL: no column has decimals */
  tsr__arrow_batch **batches;
  int64_t *first; /* of each batch: its first row; one more: the end */
  size_t batch_room, first_room;
  int64_t batch_count;
};

tsr_status tsr__arrow_no_memory(tsr__error *error);
/* Reads a stream's schema into columns and types, which the caller releases on an error too. */
tsr_status tsr__arrow_schema(tsr__arrow *arrow, const struct ArrowSchema *schema,
                             tsr__error *error);
/* Checks the structure of a batch against the types. */
tsr_status tsr__arrow_check(const tsr__arrow *arrow, const struct ArrowArray *batch,
                            tsr__error *error);

/* ---- elements of arrays (arrow_values.c) ----------------------------------------------------- */

static inline bool tsr__arrow_bit(const void *bits, int64_t at)
{
  return ((const uint8_t *)bits)[at / 8] >> (at % 8) & 1;
}

/* What went wrong in a stripe. */
typedef struct tsr__arrow_fault {
  bool no_memory;
  int64_t row; /* of the stream, counted from 1; 0: none */
  int column;
  const char *why;
} tsr__arrow_fault;

/* Rows of one batch on their way to one column of one stripe. */
typedef struct tsr__arrow_run {
  tsr__arrow_fault *fault; /* its row counts from the run's first */
  const struct ArrowArray *array;
  const tsr__arrow_type *type;
  const tsr__decimal *decimal;
  tsr_coltype column_type;
  int64_t from; /* the first one's element in the array's buffers */
  int64_t count;
  int64_t at; /* its element in the part */
  void *out;  /* NULL: texts are looked at, and no more */
  uint64_t *valid;
  const uint64_t *kept; /* as valid, of texts: which are wanted; NULL: all */
  tsr__dict_local *dict;
} tsr__arrow_run;

/* Puts the rows where they belong; false with the fault set. */
bool tsr__arrow_put(tsr__arrow_run *run);
/* The text of a run's row, and which entry of a dictionary it is (-1: of none); false where there
 * is none, or none that can be. */
bool tsr__arrow_text(const tsr__arrow_run *run, int64_t row, tsr__text_span *text, int64_t *entry);
/* Whether a decimal without a fraction is an i64. */
bool tsr__arrow_decimal_fits(const struct ArrowArray *array, int bytes, int64_t at);

#endif
