/* Inside kernel/: the record of each group, its aggregate state while rows are read.
 *
 *   record of group g   | count | sum, 128 bits | largest key |     `stride` bytes, zero at first
 *
 * Every kind starts from zero and joins by adding, by the larger one, or by or, so neither the
 * order of rows nor the worker that reads them changes a result. Sums of floats are whole numbers
 * of a unit that all values of the column are multiples of, where 128 bits hold them; else they are
 * kept as exact_rows.h has it, beside the records.
 *
 * Some rows of a column propose its span; adding checks that all rows lie within it. */
#ifndef TSR_KERNEL_GROUP_RECORD_H
#define TSR_KERNEL_GROUP_RECORD_H

#include "kernel/device/cpu.h"
#include "kernel/exact/exact_rows.h"
#include "kernel/rows/columns.h"
#include "kernel/tile/interp_tile.h"

enum tsr__group_record_kind {
  TSR__RECORD_COUNT, /* 8 bytes */
  TSR__RECORD_I64,   /* 8: a sum that fits, whatever the groups; also of products */
  TSR__RECORD_I128,  /* 16 */
  TSR__RECORD_I192,  /* 24: products of integers */
  TSR__RECORD_FIX,   /* 16: a sum of floats in units */
  TSR__RECORD_FIX2,  /* 24: products in units, of both columns */
  TSR__RECORD_SAW,   /* 8: TSR__SAW_* */
  TSR__RECORD_KEY,   /* 8: the largest order key; a minimum inverts keys */
  TSR__RECORD_TRUE,  /* 8: some value is true; `inverted`: is false */
  TSR__RECORD_LAST,  /* 8: the largest row */
  TSR__RECORD_ROWS,  /* a tsr__rows: a sum of floats of any size */
  TSR__RECORD_ROWS2  /* a tsr__rows: products */
};

typedef struct tsr__group_record {
  uint8_t kind;
  bool inverted;
  int column, other; /* column -1: rows. Adds column * other; other -1: column */
  uint32_t offset;   /* in the record; ROWS and ROWS2: their number */
  const int32_t *map;
  int64_t map_count;
} tsr__group_record;

/* The span of a column's values. */
typedef struct tsr__column_span {
  bool narrow,
      narrow_squares; /* sums and sums of squares: integers fit 64 bits, units hold floats */
  int64_t most;       /* integers, if narrow: the bound of tsr__tiles.within */
  tsr__unit unit;     /* floats, where narrow */
} tsr__column_span;

enum tsr__summed { TSR__NOT_SUMMED, TSR__SUMMED, TSR__SQUARED };

typedef struct tsr__tallies {
  int count, rows_count, column_count;
  size_t stride; /* bytes a record, at least 8 */
  tsr__group_record *item;
  const tsr__colparts *columns;
  tsr__column_span *span; /* [column] */
  const tsr__tiles *tiles;
} tsr__tallies;

/* The records of `groups` groups and the rows of doubles beside them. */
typedef struct tsr__group_record_state {
  int64_t groups;
  char *record;
  tsr__rows *rows;
} tsr__group_record_state;

/* Rows to be read: `row` NULL: from `start` on; `group` of each, less `base`. */
typedef struct tsr__group_record_rows {
  int part;
  int64_t start, count;
  const uint32_t *row, *group;
  uint32_t base;
} tsr__group_record_rows;

/* False: some value lies outside its column's span, and the records are worthless. */
bool tsr__group_record_add(const tsr__tallies *plan, tsr__group_record_state *state,
                           const tsr__group_record_rows *rows);
/* Joins the records of groups first .. first + count - 1. */
void tsr__group_record_merge(const tsr__tallies *plan, tsr__group_record_state *into,
                             const tsr__group_record_state *from, int64_t first, int64_t count);

/* The ask of records in the making, and their runtime. */
const tsr__aggregate_ask *tsr__group_records_ask(const tsr__group_records *records);
tsr_runtime *tsr__group_records_rt(const tsr__group_records *records);

void tsr__group_record_join(const tsr__tallies *plan, char *records, const tsr__joining *from);

/* Finds `span` of the columns that are summed, from `all` rows or from some of them. */
typedef struct tsr__group_record_look {
  const tsr__parts *parts;
  const uint8_t *summed; /* [column]: TSR__SUMMED .. */
  bool all;
  const tsr__agreeing *agree; /* or NULL */
} tsr__group_record_look;

tsr_status tsr__group_record_scan(tsr_runtime *rt, const tsr__group_record_look *look,
                                  tsr__tallies *plan, tsr__error *error);

/* One aggregate and the tallies it is read from (-1: none). */
typedef struct tsr__reading {
  const tsr__tallies *plan;
  const tsr__group_agg *agg;
  tsr_dtype dtype; /* the result's */
  int main, squares, count, saw;
  int other_main, other_squares, other_saw, both; /* correlations */
  int64_t least;                                  /* null where fewer values count; 0: never */
} tsr__reading;

/* Results first .. first + count - 1, read from groups from .. of the state; `first` is a multiple
 * of 64. */
typedef struct tsr__read_to {
  int64_t first, from, count;
  void *values;
  uint64_t *valid; /* NULL: none is null */
  int64_t nulls;   /* out: added to */
} tsr__read_to;

/* False: a sum of integers does not fit. */
bool tsr__group_record_read(const tsr__reading *reading, const tsr__group_record_state *state,
                            tsr__read_to *to);

#endif
