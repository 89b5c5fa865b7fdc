/* Reading files of rows: CSV and JSON lines to frames. Frames themselves are frame.h's. */
#ifndef TESSERA_READ_H
#define TESSERA_READ_H

#include "frame.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What to do with rows that a CSV or JSON-lines file has wrong: too many or too few fields, text
 * that is no UTF-8, a value that a forced type cannot hold. */
typedef enum tsr_bad_rows {
  TSR_BAD_ROWS_ERROR = 0, /* TSR_EPARSE at the terminal, with file, line, column and text */
  TSR_BAD_ROWS_SKIP,      /* leave the row out; `bad_rows_found` counts */
  TSR_BAD_ROWS_NULL       /* the fields that are wrong or missing become null; counted too */
} tsr_bad_rows;

/* Options of tsr_frame_read_csv. Zero means default. */
typedef struct tsr_csv_opts {
  size_t size TSR_REST_BY_NAME;
  tsr_sharding on;     /* where rows lie: tsr_on(mesh, "data"); zero = all devices of the runtime */
  char separator;      /* ',', '\t', ';', '|', ...; 0 = found in the first line: see below */
  char comment;        /* lines that begin with it are left out; 0 = none */
  bool no_header;      /* the first line is data; columns are column_1, column_2, ... */
  bool decimal_comma;  /* 1,5 is 1.5 (the separator is another) */
  bool text_nulls;     /* the empty unquoted field and the markers are null in text columns too */
  int skip_rows;       /* lines left out before the header */
  const char *names;   /* "a, b, c": in place of the header's names */
  const char *columns; /* "a, c": the columns there are, in this order; NULL = all */
  const char *types;   /* "a i64, day text": forced; a value that does not fit is a bad row */
  const char *nulls;   /* "NA, -, none": null markers beside the empty field; NULL = "NA" */
  tsr_bad_rows bad_rows;
  int64_t *bad_rows_found; /* set when the file was read; NULL = not asked */
  const char *const *more; /* paths and patterns whose files follow: their rows come behind */
  int more_count;
  bool literal_path; /* a path means the file of that name, never a pattern */
  bool unique_names; /* a name that stands twice in a header is an error, no name with a number */
  /* bytes that a packed file may unpack to, more is TSR_ENOMEM; 0 = a thousand times what is
   * stored, but at least 256 MiB. Never more than the runtime's .memory_limit */
  int64_t unpack_limit;
} tsr_csv_opts;

/* Opens CSV (RFC 4180, UTF-8) and samples its schema; rows are read at a terminal, in parallel,
 * only the columns that the chain needs. `path` is a file, a pattern ("orders-*.csv", also with ?,
 * [a-z] and {a,b}: the files in order of their names), a pipe, or "-" for standard input; gzip and
 * zstd are seen by their first bytes. Without `separator` it is that of ',', ';', tab and '|' by
 * which most of the first rows have as many fields as the header, and the most of them
 * (tsr_frame_notes says so where it is no comma). Several files, of a pattern or of `more`, are one
 * frame: they have the same columns, in any order, and each column one type, that of all its values
 * in all files; an empty file among them has no rows. Standard input, pipes, and files whose bad
 * rows are not errors, are read at this call. `NA` and the empty field are null in columns that are
 * not text. A column of a file without rows is text, one of nothing but nulls f64, and both are of
 * any type that a query asks for. Integers that begin with zeros (02134) make a column text. Later
 * values that contradict the sampled type widen the column: a number becomes text as it stands in
 * the file, and a call that does not fit a sampled type has all values looked at first. Only
 * integers beyond 2^53 in a column that also holds fractions are rounded, to f64. Forced types are
 * those of tsr_coltype_name; integers out of their range are bad rows, floats are the nearest ones
 * to their text. Filters on single columns are judged while reading; fields of rows that they drop
 * still widen columns and are errors where they are bad. Of what tsr_frame_head or tsr_frame_limit
 * chooses directly, with columns made or chosen between, no more is read than these rows: later
 * ones widen nothing and are no errors then. With filters between it is the same for rows behind
 * the first 16 thousand, 131 thousand or million that hold enough. A row with too few or too many
 * fields is told to who asks for all rows, be it only their number. Other encodings and formats are
 * refused by name. Returns a frame owned by the scope. Errors: TSR_EIO, TSR_EPARSE, TSR_EAXIS,
 * TSR_ECOLUMN, TSR_EARG, TSR_EUNSUPPORTED, TSR_ECANCELLED. Collective, same arguments. */
TSR_API tsr_frame *tsr_frame_read_csv_with(tsr_scope *scope, const char *path,
                                           const tsr_csv_opts *opts, const char *site);

/* Returns what opening the file of a frame found that nobody asked for, a line each: another
 * separator than the comma, names that stood twice and got a number, empty files, codes that are
 * text; of columns that a terminal found to be of another type, too. "" where there is nothing to
 * say, and for frames made of others. Owned by the frame. Local. */
TSR_API const char *tsr_frame_notes(const tsr_frame *df);

/* Options of tsr_frame_read_json. Zero means default. */
typedef struct tsr_json_opts {
  size_t size TSR_REST_BY_NAME;
  tsr_sharding on;     /* as in tsr_csv_opts */
  const char *columns; /* "a, c"; NULL = all */
  const char *types;   /* "a i64": forced */
  tsr_bad_rows bad_rows;
  int64_t *bad_rows_found;
  const char *const *more;
  int more_count;
  bool literal_path;
  int64_t unpack_limit;
} tsr_json_opts;

/* Reads JSON lines, an object a line, or a file that is one array of objects; of numbers, texts,
 * true, false and null. Numbers that f64 does not reach make a column text. Columns are the union
 * of the names in order of appearance, missing ones null; a nested value is a text column of its
 * JSON. Paths, compression and types as tsr_frame_read_csv. Returns a frame owned by the scope.
 * Errors as there. Collective, same arguments. */
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
