/* What the files of the Arrow reader share.
 *
 *   arrow_schema.c   formats to columns, structure of batches
 *   arrow_read.c     opening, rows of batches to values in parallel */
#ifndef TSR_IO_ARROW_INNER_H
#define TSR_IO_ARROW_INNER_H

#include "io/arrow_read.h"
#include "io/dict.h"

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
  TSR__ARROW_F32,
  TSR__ARROW_F64,
  TSR__ARROW_TEXT,       /* offsets of 32 bits */
  TSR__ARROW_LARGE_TEXT, /* of 64 */
  TSR__ARROW_TEXT_VIEW
} tsr__arrow_layout;

typedef struct tsr__arrow_type {
  uint8_t layout;  /* of the values, or of the indices of a dictionary */
  uint8_t entries; /* a dictionary's layout of texts; 0: none */
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
  tsr__csv_column *columns;
  tsr__arrow_type *types;
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

#endif
