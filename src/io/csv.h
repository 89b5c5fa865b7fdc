/* Reading CSV: sample a schema, count rows, read chosen columns of chosen rows in parallel.
 *
 * A source is one file mapped into memory. Sampling happens at open: names and types from
 * rows at the start, middle and end. Counting finds where the rows of each block begin (quotes
 * may hold newlines), so that borders over devices are the usual ones and every part can be
 * read by itself. Reading writes straight into the buffers it is given (the devices' shards):
 * this room knows nothing of devices, frames or arrays. */
#ifndef TSR_IO_CSV_H
#define TSR_IO_CSV_H

#include "base/base.h"
#include "tessera/topology.h"

typedef struct tsr__csv tsr__csv;

/* What a column holds. Dates are i32 days, time stamps i64 microseconds, both since
 * 1970-01-01 UTC; text is i32 codes into the column's dictionary. */
typedef enum tsr__coltype {
  TSR__COL_BOOL, TSR__COL_I64, TSR__COL_F64, TSR__COL_DATE, TSR__COL_TIME, TSR__COL_TEXT
} tsr__coltype;

typedef struct tsr__csv_column {
  char *name;          /* UTF-8, unique */
  tsr__coltype type;
  bool nullable;       /* a null was seen in what has been read so far */
} tsr__csv_column;

/* A dictionary: distinct texts in order of first appearance in the FILE (rows, not threads),
 * so codes are the same however the file was split. Refcounted, shared by columns. */
typedef struct tsr__dict {
  tsr__heap *heap;
  _Atomic int refs;
  int32_t count;
  int64_t *offsets;    /* count + 1 */
  char *bytes;
  size_t offsets_size, bytes_size; /* allocated sizes, for release */
} tsr__dict;

void tsr__dict_release(tsr__dict *dict);

/* Opens and samples. `rt` for heap, workers and log. On error returns NULL and fills error
 * with file:line:column where that makes sense. Detected: UTF-8 BOM, CRLF, a header row, RFC 4180
 * quotes. An empty file is an error; a header alone is a frame of 0 rows. */
tsr__csv *tsr__csv_open(tsr_runtime *rt, const char *path, tsr__error *error);
void tsr__csv_close(tsr__csv *csv);
int tsr__csv_columns(const tsr__csv *csv, const tsr__csv_column **out);
const char *tsr__csv_path(const tsr__csv *csv);

/* Finds the rows (in parallel, once; cached). */
tsr_status tsr__csv_count(tsr__csv *csv, int64_t *rows, tsr__error *error);

/* Where one column's part goes: values of `rows[part+1]-rows[part]` elements each, bool as one
 * bit an element LSB first, validity one bit an element (always written: 1 = valid). */
typedef struct tsr__csv_target {
  int column;
  void **values;          /* one pointer a part */
  uint64_t **validity;    /* one pointer a part */
  int64_t nulls;          /* out: nulls written over all parts */
  tsr__dict *dict;        /* out, text columns only: owned by the caller */
} tsr__csv_target;

typedef struct tsr__csv_read {
  int parts;
  const int64_t *rows;    /* parts + 1 borders, rows[0] .. rows[parts] */
  int target_count;
  tsr__csv_target *targets;
  int retyped;            /* out: number of columns whose type changed (see below) */
} tsr__csv_read;

/* Reads. When a value contradicts its column's sampled type, nothing is lost: the column's
 * type is widened in the schema (i64 -> f64 -> text, anything else -> text), `retyped` says how
 * many, TSR_OK is returned and the targets' contents are undefined: the caller allocates
 * anew by the new types and calls again. A row with too many or too few fields is an error
 * that names file, line and the counts. */
tsr_status tsr__csv_read_parts(tsr__csv *csv, tsr__csv_read *read, tsr__error *error);

/* The first row (0-based) and text that widened a column, for messages; row -1: none. */
int64_t tsr__csv_widened(const tsr__csv *csv, int column, const char **text);

#endif
