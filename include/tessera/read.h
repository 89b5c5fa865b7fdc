/* Reading files of rows: CSV and JSON lines to frames. frame.h has frames themselves. */
#ifndef TESSERA_READ_H
#define TESSERA_READ_H

#include "frame.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The treatment of bad rows in a CSV or JSON-lines file: too many or too few fields, text that is
 * not UTF-8, a value that a forced type cannot hold. */
typedef enum tsr_bad_rows {
  TSR_BAD_ROWS_ERROR = 0, /* TSR_EPARSE at the terminal, with file, line, column and text */
  TSR_BAD_ROWS_SKIP,      /* leave the row out; `bad_rows_found` counts it */
  TSR_BAD_ROWS_NULL       /* wrong and missing fields become null; counted too */
} tsr_bad_rows;

/* Options of tsr_frame_read_csv. Zero means default. */
typedef struct tsr_csv_opts {
  size_t size TSR_REST_BY_NAME;
  tsr_sharding on;     /* the rows' sharding: tsr_on(mesh, "data"); zero = all devices of the
                        * runtime */
  char separator;      /* ',', '\t', ';', '|', ...; 0 = found in the first rows: see below */
  char comment;        /* leaves out lines that begin with it; 0 = none */
  bool no_header;      /* the first line is data; columns are column_1, column_2, ... */
  bool decimal_comma;  /* 1,5 is 1.5 (with another separator) */
  bool text_nulls;     /* the empty unquoted field and the null markers are null in text columns
                        * too */
  int skip_rows;       /* number of lines to leave out before the header */
  const char *names;   /* "a, b, c": replaces the header's names */
  const char *columns; /* "a, c": the columns of the frame, in this order; NULL = all */
  const char *types;   /* "a i64, day text": forced types; a value that does not fit makes a bad
                        * row */
  const char *nulls;   /* "NA, -, none": null markers beside the empty field; NULL = "NA" */
  tsr_bad_rows bad_rows;
  int64_t *bad_rows_found; /* number of bad rows, set when the file was read; NULL = not wanted */
  const char *const *more; /* paths and patterns of further files, whose rows follow */
  int more_count;
  bool literal_path; /* a path is a file name, never a pattern */
  bool unique_names; /* a name that a header has twice is an error; without it the second name gets
                      * a number */
  /* most bytes that a packed file may unpack to, more is TSR_ENOMEM; 0 = a thousand times its
   * packed size, but at least 256 MiB. Never more than the runtime's .memory_limit */
  int64_t unpack_limit;
} tsr_csv_opts;

/* Opens CSV (RFC 4180, UTF-8) as a frame and samples its schema. Terminals read the rows, in
 * parallel, and only the columns that the chain needs.
 *
 * Paths: `path` is a file, a pattern ("orders-*.csv", also with ?, [a-z] and {a,b}: the files in
 * order of their names), a pipe, or "-" for standard input. gzip and zstd are recognised by their
 * first bytes. Several files, of a pattern or of `more`, are one frame: they have the same columns,
 * in any order, and each column has one type, that of all its values in all files; an empty file
 * among them has no rows. This call already reads standard input, pipes, and files whose bad rows
 * are skipped or nulled.
 *
 * Separator: without `separator`, it is the one of ',', ';', tab and '|' by which most of the first
 * rows have as many fields as the header; of several such, the one with the most fields
 * (tsr_frame_notes reports one that is not a comma).
 *
 * Types: `NA` and the empty field are null in columns that are not text. A column of a file without
 * rows is text, a column of nulls only is f64, and both take any type that a query needs. Integers
 * that begin with zeros (02134) make a column text. Later values that contradict the sampled type
 * widen the column: a number becomes text as the file has it, and a call that does not fit a
 * sampled type checks all values first. Only integers beyond 2^53 in a column that also has
 * fractions are rounded, to f64. Forced types are those of tsr_coltype_name; integers out of their
 * range make bad rows, floats are the nearest ones to their text.
 *
 * Pushdown: filters on single columns run while reading; fields of the rows that they drop still
 * widen columns and are errors where they are bad. A tsr_frame_head or tsr_frame_limit directly on
 * the file, or after columns made or selected, reads no more than its rows: later rows widen no
 * column and are no errors then. With filters between, the same holds for rows after the first 16
 * thousand, 131 thousand or million that contain enough rows. A row with too few or too many fields
 * is an error for every call that needs all rows, even if only their number.
 *
 * Other encodings and formats are refused by name. Returns a frame owned by the scope. Errors:
 * TSR_EIO, TSR_EPARSE, TSR_EAXIS, TSR_ECOLUMN, TSR_EARG, TSR_EUNSUPPORTED, TSR_ECANCELLED.
 * Collective, same arguments. */
TSR_API tsr_frame *tsr_frame_read_csv_with(tsr_scope *scope, const char *path,
                                           const tsr_csv_opts *opts, const char *site);

/* Returns remarks from opening the file of a frame, one a line: a separator other than the comma,
 * repeated names that got a number, empty files, codes that are text; also columns for which a
 * terminal found another type. "" without remarks, and for frames made from other frames. Owned by
 * the frame. Local. */
TSR_API const char *tsr_frame_notes(const tsr_frame *df);

/* Options of tsr_frame_read_json. Zero means default. */
typedef struct tsr_json_opts {
  size_t size TSR_REST_BY_NAME;
  tsr_sharding on;     /* as in tsr_csv_opts */
  const char *columns; /* "a, c"; NULL = all */
  const char *types;   /* "a i64": forced types */
  tsr_bad_rows bad_rows;
  int64_t *bad_rows_found;
  const char *const *more;
  int more_count;
  bool literal_path;
  int64_t unpack_limit;
} tsr_json_opts;

/* Returns a frame of JSON lines, one object a line, or of a file that is one array of objects.
 * Values are numbers, texts, true, false and null; a nested value is a text column of its JSON.
 * Numbers beyond the range of f64 make a column text. Columns are the union of the names in order
 * of appearance, missing values are null. Paths, compression and types as tsr_frame_read_csv. Owned
 * by the scope. Errors as there. Collective, same arguments. */
TSR_API tsr_frame *tsr_frame_read_json_with(tsr_scope *scope, const char *path,
                                            const tsr_json_opts *opts, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
/* clang-format off */
/* tsr_frame_read_csv(s, "a.csv"), tsr_frame_read_csv(s, "a.csv", .on = tsr_on(mesh, "data")) */
#define tsr_frame_read_csv(...) \
  TSR_NEEDS_2_("tsr_frame_read_csv(scope, path)", TSR_READ_CSV_, __VA_ARGS__)
#define TSR_READ_CSV_(scope, path, ...) \
  tsr_frame_read_csv_with((scope), (path), \
      &(tsr_csv_opts){ .size = sizeof(tsr_csv_opts), __VA_ARGS__ }, TSR_HERE)
/* tsr_frame_read_json(s, "a.jsonl"), as tsr_frame_read_csv */
#define tsr_frame_read_json(...) \
  TSR_NEEDS_2_("tsr_frame_read_json(scope, path)", TSR_READ_JSON_, __VA_ARGS__)
#define TSR_READ_JSON_(scope, path, ...) \
  tsr_frame_read_json_with((scope), (path), \
      &(tsr_json_opts){ .size = sizeof(tsr_json_opts), __VA_ARGS__ }, TSR_HERE)
/* clang-format on */
#endif

#endif
