/* Reading CSV: sample a schema, count rows, read chosen columns of chosen rows in parallel.
 *
 * A source is one file, standard input, or several files whose rows follow each other. Sampling
 * happens at open: names and types from rows at the start, middle and end. Counting reads the
 * files (not mapped: a file that shrinks is an error, not a signal) and finds where rows
 * begin (quotes may hold newlines), so that borders over devices are the usual ones and every part
 * can be read by itself. Reading writes straight into the buffers it is given (the devices'
 * shards): this room knows nothing of devices, frames or arrays. One thread at a time uses a
 * source; it uses the runtime's workers.
 *
 * Paths. A name with * ? [ or { that is no file's is a pattern: its files in the order of their
 * names (bytes), columns matched by name. gzip and zstd are seen by their first bytes. Standard
 * input, and what must be looked at whole before anything is known of it (bad rows that are left
 * out), are read at open.
 *
 * Rows. Fields are separated by what the options say, else by what most of the first hundred rows
 * agree on with the first line, as to the number of fields: a comma, a semicolon, a tab or a bar;
 * of several by what makes the most fields; where there are no rows by a comma if the line has one.
 * The separator of each file is its own. The first line is the header; a column without a name is
 * called column_3 by its place, another "a" a_3 (with unique_names, and among names that are given,
 * an error). Rows end with LF or CRLF, in any mixture, or with CR in a file without LF; the last
 * one may lack it. Empty lines are skipped, but in a file of one column they are rows with an empty
 * field. A row with more or fewer fields than the header is bad. A field that begins with a quote
 * ends at the closing one, which a separator or the row's end must follow, and a doubled quote
 * inside stands for one; a quote elsewhere is a character like others. A UTF-8 mark at the start is
 * skipped; UTF-16 and other formats are TSR_EUNSUPPORTED with their name.
 *
 * Values. In all columns but text, spaces and tabs around a value do not count, quotes around it
 * make no difference, and the empty field and NA are null. In text columns every field is text
 * as it stands (empty text, NA; NUL bytes and spaces kept), must be UTF-8, and nothing is null
 * (with text_nulls the markers and the empty field are, where they stand without quotes).
 *   bool   true True TRUE false False FALSE
 *   i64    [+-] digits; where the type is given leading zeros do not count (007 is 7)
 *   f64    with a point or an exponent, and inf, infinity, nan in any case with [+-]; correctly
 *          rounded; overflow gives an infinity
 *   date   YYYY-MM-DD, a real day
 *   time   YYYY-MM-DD[T ]HH:MM[:SS[.f]][Z|+hh:mm], UTC where no offset is given; up to nine
 *          digits of a fraction, but those past the sixth must be zeros
 *
 * Types. A column's type follows from the set of what it holds, in any order:
 *   nothing, no rows                text
 *   nothing but nulls               f64 (only after the whole file was looked at)
 *   bool only                       bool
 *   an integer that begins with
 *   zeros: 02134, 007, -01, 00      text, whatever else: as a number it would lose them. 0, -0,
 *                                   0.5 and 00.5 are numbers
 *   integers that fit i64           i64
 *   those and longer integers       text (f64 would lose digits)
 *   any integers and some f64       f64 (an integer past 2^53 is rounded as any decimal text is)
 *   dates                           date
 *   time stamps, or both            time (a date is its first microsecond)
 *   any other mixture               text */
#ifndef TSR_IO_CSV_H
#define TSR_IO_CSV_H

#include "base/base.h"
#include "io/file/files.h"
#include "io/rows/reader.h"

typedef struct tsr__csv tsr__csv;

/* What to do with rows that have too many or too few fields, text that is no UTF-8, or a value that
 * a forced type cannot hold. */
typedef enum tsr__csv_bad { TSR__CSV_BAD_ERROR, TSR__CSV_BAD_SKIP, TSR__CSV_BAD_NULL } tsr__csv_bad;

/* How files are to be read, then knobs for tests; zero means default. Texts are borrowed for the
 * call; lists are items separated by commas, in double quotes where they hold one. */
typedef struct tsr__csv_opts {
  char separator, comment;
  bool no_header, decimal_comma, text_nulls;
  int skip_rows;
  const char *names, *columns, *types, *nulls; /* as in tsr_csv_opts */
  tsr__csv_bad bad_rows;
  const char *const *more; /* `more_count` paths of files whose rows follow */
  int more_count;
  bool literal_path;
  int64_t unpack_limit; /* bytes; 0: as in unpack.h */
  bool unique_names;    /* a name that stands twice is an error */

  int64_t granule; /* bytes an entry of the row index covers (16 KiB) */
  int64_t sample;  /* bytes sampled; smaller files are sampled whole (512 KiB) */
  int stripes;     /* pieces of rows that are parsed in parallel (of about 1 MiB) */
  int batch_rows;  /* rows split at a time (by the number of columns) */
  int64_t piece;   /* bytes loaded or unpacked at a time */
  int64_t front;   /* bytes of a file in which its first rows are looked for (64 KiB, then more) */
  int64_t held;    /* files up to this size are held in memory while they are of use (8 MiB) */
  /* Reads as pread does: returns bytes, 0 at the end, -1 with errno. NULL: pread. */
  int64_t (*read)(void *user, int fd, void *to, size_t length, int64_t offset);
  void *user;
} tsr__csv_opts;

/* Opens and samples. `rt` for heap, workers and log; `opts` may be NULL. On error returns NULL and
 * fills error with file:line:column where that makes sense. An empty file is an error; a header
 * alone is a frame of 0 rows. */
tsr__csv *tsr__csv_open_with(tsr_runtime *rt, const char *path, const tsr__csv_opts *opts,
                             tsr__error *error);
void tsr__csv_close(tsr__csv *csv);
int tsr__csv_columns(const tsr__csv *csv, const tsr__read_column **out);
/* Rows that were left out, or in which something was made null; known once rows are counted. */
int64_t tsr__csv_bad_rows(const tsr__csv *csv);

/* Finds the rows (in parallel, once; cached). From here on the bytes of small files, and of those
 * that cannot be read in parts (packed ones, comments, bad rows, odd quotes), are held in memory
 * until all columns were read or the source is closed; others stay open and are read again by each
 * reading, which refuses a file that changed. */
tsr_status tsr__csv_count(tsr__csv *csv, int64_t *rows, tsr__error *error);
/* Finds the first `want` rows, or all where there are fewer, mostly without looking at what lies
 * behind them; `*rows` is how many were found. To be asked before each reading of them. */
tsr_status tsr__csv_front(tsr__csv *csv, int64_t want, int64_t *rows, tsr__error *error);
/* Looks at all values of columns whose types are a sample's; `*changed`: some are of others. Types
 * are final then. */
tsr_status tsr__csv_settle(tsr__csv *csv, bool *changed, tsr__error *error);
/* Reads. When a value contradicts its column's sampled type, nothing is lost: the column's
 * type is widened in the schema by the table above, `retyped` says how many, TSR_OK is returned and
 * the targets' contents are undefined: the caller allocates anew by the new types and calls again.
 * A row with too many or too few fields, and a value that a forced type cannot hold, is an error
 * that names file, line and column. Can be cancelled (TSR_ECANCELLED), as counting can. */
tsr_status tsr__csv_read_parts(tsr__csv *csv, tsr__read_ask *read, tsr__error *error);

/* The first row (0-based) and text (cut to 79 bytes) that widened a column, for messages; row -1:
 * none, then `text` is untouched. The text is owned by the source. */
int64_t tsr__csv_widened(const tsr__csv *csv, int column, const char **text);

/* The same as a table of calls. */
extern const tsr__reader_ops tsr__csv_reader;

#endif
