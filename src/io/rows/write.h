/* Writing tables of rows as text: CSV, JSON and Markdown.
 *
 * A table is columns of host memory in neutral types; this room knows no frames. Rows are made into
 * text in blocks, by all workers, and written in order (outfile.h). */
#ifndef TSR_IO_WRITE_H
#define TSR_IO_WRITE_H

#include "io/file/outfile.h"
#include "io/text/dict.h"
#include "tessera/frame.h"

typedef struct tsr__out_column {
  const char *name;
  uint8_t type; /* tsr_coltype: bools as bytes, dates i32 days, times i64 microseconds, text i32
                 * codes of `dict` */
  const void *values;
  const uint8_t *valid; /* a byte a row; NULL: no nulls */
  const tsr__dict *dict;
} tsr__out_column;

/* What is written where; `what` names the call for progress and errors. */
typedef struct tsr__write_ask {
  tsr_runtime *rt;
  const char *what, *path;
  int64_t rows;
  int count;
  const tsr__out_column *column;
  const tsr__out_opts *opts; /* NULL: none */
} tsr__write_ask;

typedef struct tsr__csv_style {
  char separator; /* 0 = ',' */
  bool no_header;
  const char *null; /* how a null is written; NULL = the empty field */
} tsr__csv_style;

/* Writes CSV (RFC 4180, LF). Floats are the shortest that read back, never without a point or an
 * exponent, so that types read back too. Text is quoted where it must be: separators, quotes, line
 * ends, blanks at its ends, the empty text and the texts that stand for null. TSR_EIO, TSR_ENOMEM,
 * TSR_ECANCELLED, TSR_EARG (a separator or null marker that cannot be told from data). */
tsr_status tsr__csv_write(const tsr__write_ask *ask, const tsr__csv_style *style,
                          tsr__error *error);
/* Writes an object a row; NaN and infinities become null: one array of all where the path ends in
 * .json, else a line each. Errors as tsr__csv_write. */
tsr_status tsr__json_write(const tsr__write_ask *ask, tsr__error *error);
/* Writes a table of Markdown: numbers at the right and as short as can be, nulls empty, line ends
 * <br>. Errors as tsr__csv_write. */
tsr_status tsr__markdown_write(const tsr__write_ask *ask, tsr__error *error);

/* ---- for the formats ----------------------------------------------------------------------- */

/* Text being made; out of memory it drops bytes and sets `failed`. */
typedef struct tsr__bytes {
  tsr__heap *heap;
  char *at; /* `used` of `size` bytes are text */
  size_t used, size;
  bool failed;
} tsr__bytes;

/* Makes room for `more` bytes; false out of memory. */
bool tsr__bytes_reserve(tsr__bytes *bytes, size_t more);
void tsr__bytes_free(tsr__bytes *bytes);
void tsr__bytes_put(tsr__bytes *bytes, const char *text, size_t length);

static inline void tsr__bytes_char(tsr__bytes *bytes, char c)
{
  if (bytes->used < bytes->size || tsr__bytes_reserve(bytes, 1)) bytes->at[bytes->used++] = c;
}

/* How whole floats are written: 1.0, so that they are read back as floats, or 1. */
typedef enum tsr__floats { TSR__FLOATS_MARKED, TSR__FLOATS_SHORT } tsr__floats;

/* Writes a value that is neither null nor text: bools, numbers, dates and times. */
void tsr__bytes_value(tsr__bytes *bytes, const tsr__out_column *column, int64_t row,
                      tsr__floats floats);

static inline const char *tsr__out_text(const tsr__out_column *column, int64_t row, size_t *length)
{
  int32_t code = ((const int32_t *)column->values)[row];
  const int64_t *offset = column->dict->offsets + code;
  *length = (size_t)(offset[1] - offset[0]);
  return column->dict->bytes + offset[0];
}

/* Makes the rows from..to - 1 into text; run by several workers at once. */
typedef void (*tsr__rows_fn)(const void *user, tsr__bytes *out, int64_t from, int64_t to);

/* Writes `head`, then all rows. */
tsr_status tsr__write_rows(const tsr__write_ask *ask, const tsr__bytes *head, tsr__rows_fn fn,
                           const void *user, tsr__error *error);

#endif
