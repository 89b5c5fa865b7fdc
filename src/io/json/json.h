/* Reading JSON lines, an object a line, and files that are one array of objects. Like csv.h: open,
 * count, read chosen columns of chosen rows into buffers that are given, in parallel.
 *
 * Opening reads the files and looks at every line once, since a name may appear in the last one:
 * the columns and their types are final from then on, so that a read never retypes.
 *
 * Lines. RFC 8259, strictly: no comments, no commas at the end, no NaN. A name twice in an object
 * of a row, objects nested more than 200 deep, a lone surrogate and what is no UTF-8 are bad rows.
 * Empty lines are skipped; CR before LF is a blank. An array may be laid out in any way: each of
 * its values is a row, and what is wrong between them is an error. Columns come in order of first
 * appearance over all files.
 *
 * Values. A number without point and exponent is an integer; one that f64 does not reach (1e400) is
 * text as it stands; texts that are dates or time stamps (as csv.h has them) make date and time
 * columns; an object or array inside a row is text: its JSON, as it stands. Absent and null are
 * null. Types follow csv.h's table of classes; in a column that becomes text a number, true or
 * false is its text as it stands in the file. */
#ifndef TSR_IO_JSON_H
#define TSR_IO_JSON_H

#include "io/file/files.h"
#include "io/rows/reader.h"

typedef struct tsr__json tsr__json;

typedef enum tsr__json_bad { TSR__JSON_ERROR, TSR__JSON_SKIP, TSR__JSON_NULL } tsr__json_bad;

/* A forced type. */
typedef struct tsr__json_type {
  const char *name;
  tsr_coltype type;
} tsr__json_type;

typedef struct tsr__json_opts {
  int column_count; /* 0: all */
  const char *const *columns;
  int type_count;
  const tsr__json_type *types;
  tsr__json_bad bad_rows;
  const char *const *more; /* as in tsr__csv_opts */
  int more_count;
  bool literal_path;
  int64_t unpack_limit;
  /* For tests; 0 = default. */
  int64_t block;  /* bytes looked at in a task (1 MiB) */
  int64_t stripe; /* rows read in a task, a multiple of 64 */
  tsr__file_opts file;
} tsr__json_opts;

/* Reads and looks at the files that a path means. NULL with the error set: TSR_EIO, TSR_EPARSE
 * (with file:line:column), TSR_EUNSUPPORTED, TSR_ECOLUMN, TSR_ENOMEM, TSR_ECANCELLED. */
tsr__json *tsr__json_open(tsr_runtime *rt, const char *path, const tsr__json_opts *opts,
                          tsr__error *error);
void tsr__json_close(tsr__json *json);
int tsr__json_columns(const tsr__json *json, const tsr__read_column **out);
int64_t tsr__json_rows(const tsr__json *json);
/* Rows that were left out, or in which something was made null. */
int64_t tsr__json_bad_rows(const tsr__json *json);
/* As tsr__csv_read_parts; nothing is ever retyped. */
tsr_status tsr__json_read_parts(tsr__json *json, tsr__read_ask *read, tsr__error *error);

/* The same as a table of calls. */
extern const tsr__reader_ops tsr__json_reader;

#endif
