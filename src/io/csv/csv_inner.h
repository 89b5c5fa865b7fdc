/* What the files of the CSV reader share. See csv.h for the contract.
 *
 *   head           body                                        end
 *   |a,b,c\n       |1,2,3\n4,"x\ny",6\n                          |
 *                  |granule 0  |granule 1  |granule 2 ...
 *
 * csv.c         opening and closing a source
 * csv_format.c  options, and lists given as text
 * csv_paths.c   patterns to files
 * csv_file.c    bytes: opening, loading in parallel
 * csv_magic.c   other formats, refused by name
 * csv_window.c  large files through buffers that are used again
 * csv_front.c   the first rows only
 * csv_head.c    marks, headers, names, which field is which column
 * csv_sample.c  types from a sample
 * csv_clean.c   comments and bad rows, taken out of the text
 * csv_scan.c    bit masks of quotes, newlines, separators (per instruction set), counting
 * csv_rows.c    the index of rows; careful reading of one row; where a row begins
 * csv_numbers.c short numbers, several at a time
 * csv_parse.c   fields to values; what class of value a text is
 * csv_read.c    stripes of rows in parallel, types that turn out wrong, dictionaries
 * csv_apart.c   what processes that read together tell each other
 * csv_error.c   places in files, and what is wrong there
 *
 * Invariant: the text that is parsed ends with a row end: `end` is behind the last newline, or
 * behind the one that the padding supplies when the file's last row has none. */
#ifndef TSR_IO_CSV_INNER_H
#define TSR_IO_CSV_INNER_H

#include "io/csv/csv.h"
#include "io/file/unpack.h"
#include "io/rows/classes.h"
#include "io/rows/predicate.h"
#include "io/text/decimal.h"
#include "io/text/dict.h"
#include "io/text/option_list.h"

enum {
  TSR__CSV_FRONT = 64,         /* newlines before the file's bytes: masks may look back */
  TSR__CSV_PAD = 128,          /* newlines behind them: masks may look ahead */
  TSR__CSV_GRANULE = 16 << 10, /* bytes an entry of the row index covers */
  TSR__CSV_SAMPLE = 512 << 10, /* files up to this size are sampled whole */
  TSR__CSV_PIECE = 1 << 20,    /* bytes loaded, unpacked or looked through at a time */
  TSR__CSV_WINDOW = 512 << 10, /* bytes of a large file in a worker's buffer, about */
  TSR__CSV_NULL = 0xff,        /* the one byte of a field that cleaning made null */
  TSR__CSV_WORDS = 32,         /* 64-byte words whose masks are made at a time */
  TSR__CSV_KINDS = 4,
  TSR__CSV_SLACK = 64 /* offsets that flattening may write behind the last one */
};

/* One entry of the row index: what lies in some bytes, for both answers to the question whether
 * they begin inside quotes ([0]: outside). */
typedef struct tsr__csv_granule {
  uint32_t ends[2];    /* row ends */
  uint8_t flips;       /* an odd number of quotes */
  uint8_t stray[2];    /* quotes that stand where RFC 4180 has none */
  uint8_t counted;     /* while the file was loaded */
  uint8_t inside;      /* resolved: begins inside quotes */
  int64_t ends_before; /* resolved: row ends before this granule */
  int64_t anchor;      /* careful reading: offset of the row after `ends_before` ends */
} tsr__csv_granule;

typedef struct tsr__csv_dialect {
  char separator, newline;
  bool skip_blank; /* more than one column: empty lines are no rows */
} tsr__csv_dialect;

typedef struct tsr__csv_flat {
  uint32_t *ends;  /* in: room for `want` + TSR__CSV_SLACK offsets */
  size_t want;     /* in */
  size_t newlines; /* out: row ends among the offsets */
} tsr__csv_flat;

/* The fields of one column of a batch: row r's lies between base + before[r * before_step] + 1 and
 * base + end[r * end_step]. */
typedef struct tsr__csv_fields {
  const char *base;
  const uint32_t *before, *end;
  size_t before_step, end_step;
} tsr__csv_fields;

/* The instruction-set dependent part. */
typedef struct tsr__csv_scan {
  const char *isa;
  void (*masks)(const char *at, int words, const char *bytes, int kinds,
                uint64_t out[TSR__CSV_KINDS][TSR__CSV_WORDS]);
  /* Counts the row ends of [from, to); from[-2 .. -1] and to[0 .. 65] are readable. */
  void (*count)(const tsr__csv_dialect *dialect, const char *from, const char *to,
                tsr__csv_granule *out);
  /* Writes the offsets of separators and newlines outside quotes, `from` being the start of a row,
   * at most `want`; returns how many. */
  size_t (*flatten)(const tsr__csv_dialect *dialect, const char *from, const char *to,
                    tsr__csv_flat *flat);
  /* Parse fields that are short numbers; bit i of the result: field row + i was one, its value is
   * in out[i]. Other elements of `out` are undefined. NULL: no such way. */
  uint64_t (*integers)(const tsr__csv_fields *fields, int row, int count, int64_t *out);
  uint64_t (*reals)(const tsr__csv_fields *fields, int row, int count, char point, double *out);
} tsr__csv_scan;

typedef struct tsr__csv_info {
  bool forced;         /* the type was given: other values are bad */
  bool read;           /* it was read, and is not likely to be again */
  unsigned seen;       /* classes seen so far */
  int64_t widened_row; /* -1: none */
  char widened_text[80];
} tsr__csv_info;

/* Lines that were taken out of the text before an offset of what is left. */
typedef struct tsr__csv_cut {
  int64_t at, lines;
} tsr__csv_cut;

typedef struct tsr__csv_file {
  struct tsr__csv *csv;
  const char *path;        /* in the source's arena */
  int fd;                  /* -1: not open */
  bool stream;             /* standard input, or a pipe: can be read once */
  bool pipe;               /* it is open as `fd` */
  bool empty;              /* it holds nothing, and is left out */
  uint8_t packing;         /* tsr__packing */
  uint64_t device, inode;  /* who it was when it was opened, */
  int64_t stored, changed; /* its bytes, and the time of its last change */
  int64_t size;            /* bytes of its text; -1: not known yet */
  char *block;             /* what is allocated: data with padding on both sides */
  size_t block_size;
  char *data;   /* its text, TSR__CSV_FRONT into the block; NULL until loaded */
  bool partial; /* only its beginning, which may end within a row: csv_front.c */
  bool bare;    /* comments were taken out */
  bool indexed; /* its rows were found through windows: it is loaded only where an error is told */
  tsr__csv_dialect dialect;
  int64_t head, body, end;
  int fields;                 /* of every row */
  const int *at;              /* by column: its field */
  tsr__csv_granule *granules; /* NULL until counted */
  int64_t granule_count, granule_room;
  int64_t rows, first_row; /* of all files' rows, once counted */
  bool careful;            /* quotes stand in odd places: rows are found byte by byte */
  tsr__csv_cut *cuts;
  size_t cut_count, cut_capacity;
  tsr__unpack *unpack; /* while it is being unpacked */
  char *packed;        /* standard input: its stored bytes, where they are packed */
  size_t packed_size;
  int64_t task; /* the first of its tasks in a job over files */
} tsr__csv_file;

struct tsr__csv {
  tsr_runtime *rt;
  tsr__heap *heap;
  tsr__arena arena;
  tsr__csv_opts opts; /* the texts are not kept */
  const char *path;
  tsr__csv_file *files;
  int file_count, file_room;
  int column_count;
  tsr__read_column *columns;
  tsr__csv_info *info;
  tsr__decimal *decimal;
  const tsr__csv_scan *scan;
  tsr__text_span *marker; /* texts that are null, beside the empty one */
  int marker_count;
  bool odd_markers; /* one of them looks like a value: no value has a short way */
  bool null_bytes;  /* fields of TSR__CSV_NULL are null */
  char point;       /* of numbers */
  tsr__option_list names, chosen, types;
  tsr__text notes; /* what was found at opening that nobody asked for, a line each */
  int64_t granule_bytes;
  int64_t rows;  /* -1: not counted */
  int64_t front; /* rows that are indexed at its beginning, -1: none */
  int64_t bad_rows;
  bool streams;      /* one file is standard input, which can be read once */
  tsr__peers *peers; /* read together; NULL: by this process alone */
};

/* A run of a file's text: its beginning while it is not loaded, or a part of it. */
typedef struct tsr__csv_window {
  const char *at, *end;
} tsr__csv_window;

/* A few rows, split. Field c of row r lies between the byte before it and the byte that ends it:
 * in the first column begins[r] + 1, in the others ends[r * columns + c - 1] + 1; up to
 * ends[r * columns + c], in the last column lasts[r] (a CR before the newline is no data). */
typedef struct tsr__csv_batch {
  const char *base;
  int64_t first_row; /* of all files */
  int rows, columns; /* columns of the file */
  bool ascii;        /* known to hold nothing else: asked where many texts must be UTF-8 */
  uint32_t *ends, *begins, *lasts;
} tsr__csv_batch;

/* ---- csv.c ---- */

/* Gives the files' bytes back, and what is known of their rows but how many there are. */
void tsr__csv_forget(tsr__csv *csv);

/* How much of a file's text is looked at when it is opened. */
typedef struct tsr__csv_head_sizes {
  int64_t small, part; /* all of a text up to `small` bytes, else its first `part` */
} tsr__csv_head_sizes;
tsr__csv_head_sizes tsr__csv_sizes_of(const tsr__csv_file *file);

/* ---- csv_format.c ---- */

/* Checks the options and keeps what they say. */
tsr_status tsr__csv_take_options(tsr__csv *csv, const tsr__csv_opts *opts, tsr__error *error);

/* ---- csv_paths.c ---- */

/* Makes csv->files. */
tsr_status tsr__csv_find_files(tsr__csv *csv, const tsr__path_ask *ask, tsr__error *error);

/* ---- csv_file.c ---- */

tsr_status tsr__csv_file_open(tsr__csv_file *file, tsr__error *error);
void tsr__csv_file_close(tsr__csv_file *file);
/* Reads `length` stored bytes at an offset, fewer only at the end; `*got` says how many. Returns
 * an errno, or 0. */
int tsr__csv_file_read(const tsr__csv_file *file, char *to, int64_t offset, int64_t length,
                       int64_t *got);
/* Makes room for a text of `size` bytes, keeping the first `used`; false: no memory. */
bool tsr__csv_file_room(tsr__csv_file *file, int64_t size, int64_t used);
/* The text stands: sets its size and what surrounds it. */
void tsr__csv_file_done(tsr__csv_file *file, int64_t size);
void tsr__csv_file_drop(tsr__csv_file *file); /* the text and all that is known of its rows */
/* Sets the byte that ends rows, in the padding of loaded text too. */
void tsr__csv_end_rows_with(tsr__csv_file *file, char newline);
/* Refuses a file that is not what it was when it was opened. */
tsr_status tsr__csv_file_same(tsr__csv_file *file, tsr__error *error);

/* ---- csv_load.c ---- */

/* Reads the beginning of a file's text into its block; where that is all of it the file is loaded.
 * Sets the packing. */
tsr_status tsr__csv_load_head(tsr__csv_file *file, tsr__csv_window *head, tsr__error *error);
/* Loads `count` files as far as they are not. */
tsr_status tsr__csv_load(tsr__csv *csv, tsr__csv_file *from, int count, tsr__error *error);

/* Starts a packed file over; NULL out of memory. */
tsr__unpack *tsr__csv_unpack(const tsr__csv_file *file);

/* ---- csv_window.c ---- */

/* A worker's buffer, and what it shows of a file. */
typedef struct tsr__csv_view {
  char *block;
  size_t room;
  int64_t end;        /* where the file ended, if that is what went wrong */
  tsr__csv_file file; /* finds the window's bytes at their offsets in the file */
} tsr__csv_view;

enum { TSR__CSV_NO_ROOM = -1, TSR__CSV_SHORT = -2 };

/* Whether a file is read by views. */
bool tsr__csv_windowed(const tsr__csv_file *file);
/* Shows rows first .. last - 1, which there are. */
int tsr__csv_view_rows(tsr__csv_view *view, const tsr__csv_file *file, int64_t first, int64_t last);
void tsr__csv_view_close(tsr__csv_view *view, tsr__heap *heap);
tsr_status tsr__csv_view_error(const tsr__csv_file *file, int code, int64_t end, tsr__error *error);
/* Counts the granules of files that are large and plain; others must be loaded. */
tsr_status tsr__csv_survey(tsr__csv *csv, tsr__error *error);
/* Refuses files read by views that changed. */
tsr_status tsr__csv_windows_same(tsr__csv *csv, tsr__error *error);
/* Loads the file of a row, to tell what is wrong there. */
tsr_status tsr__csv_hold(tsr__csv *csv, int64_t row, tsr__error *error);

/* ---- csv_front.c ---- */

/* Gives back what a front holds. */
void tsr__csv_front_drop(tsr__csv *csv);

/* ---- csv_magic.c ---- */

/* Refuses what is plainly another format, by its first bytes. `packing` NULL: unpacked text, else
 * set. */
tsr_status tsr__csv_magic(const tsr__csv_file *file, tsr__csv_window head, uint8_t *packing,
                          tsr__error *error);

/* ---- csv_head.c ---- */

/* Reads the beginning of a file, loading it where that does not suffice: marks, line ends, the
 * header. The first file's names become the columns, those of others are matched with them. What
 * is left of `head` without comments goes there. */
tsr_status tsr__csv_read_head(tsr__csv_file *file, tsr__csv_window *head, tsr__error *error);

/* ---- csv_sample.c ---- */

int64_t tsr__csv_sample_size(const tsr__csv *csv);
/* Adds to info[].seen the classes of a file's values: of its beginning, and in the first file of
 * its middle and end. `head` is looked at only while the file is not loaded. Clears `whole` where
 * some row of the file was left out. */
tsr_status tsr__csv_sample(tsr__csv_file *file, tsr__csv_window head, bool *whole,
                           tsr__error *error);
/* Notes that a column is text only since integers in it begin with zeros, if that is so. */
void tsr__csv_note_zeros(tsr__csv *csv, int column);
/* Settles the columns' types. `whole`: all rows were seen. */
tsr_status tsr__csv_settle_types(tsr__csv *csv, bool whole, tsr__error *error);

/* ---- csv_clean.c ---- */

/* Takes the lines that begin with the comment byte out of a file's beginning, which begins with a
 * line; returns the length of what is left. */
int64_t tsr__csv_uncomment_head(const tsr__csv_file *file, char *text, int64_t length);
/* Takes them out of a loaded file, from its head on, once. */
tsr_status tsr__csv_uncomment_file(tsr__csv_file *file, tsr__error *error);
/* Takes bad rows out of a loaded file, or makes them good, by opts.bad_rows. */
tsr_status tsr__csv_clean_rows(tsr__csv_file *file, tsr__error *error);

/* ---- csv_scan.c ---- */

const tsr__csv_scan *tsr__csv_scan_for(const tsr_runtime *rt);
/* Offset behind the n-th (n >= 1) row end of a granule that is known to hold it. */
int64_t tsr__csv_nth_end(const tsr__csv_file *file, const tsr__csv_granule *granule, int64_t from,
                         int64_t n);

/* ---- csv_numbers.c ---- */

#if defined(__x86_64__)
uint64_t tsr__csv_integers_avx512(const tsr__csv_fields *f, int row, int count, int64_t *out);
uint64_t tsr__csv_reals_avx512(const tsr__csv_fields *f, int row, int count, char point,
                               double *out);
#endif

/* ---- csv_rows.c ---- */

typedef enum tsr__csv_found {
  TSR__CSV_ROW,
  TSR__CSV_END, /* no more rows */
  TSR__CSV_CUT, /* the text ends inside a row: an open quote, or no newline */
  TSR__CSV_JUNK /* text after a closing quote */
} tsr__csv_found;

typedef struct tsr__csv_row {
  const char *begin; /* the first field's first byte */
  const char *next;  /* behind the row's newline */
  const char *fault; /* CUT: where the unfinished field begins; JUNK: the junk */
  int64_t fields;    /* how many there are, also beyond the capacity */
} tsr__csv_row;

/* Reads one row byte by byte: the reference for csv_scan.c. */
tsr__csv_found tsr__csv_next_row(const tsr__csv_dialect *dialect, const char *at, const char *end,
                                 tsr__csv_row *row);
/* The byte that ends the field at `at`: a separator or a newline. NULL: the text ends inside the
 * field, or `*junk` stands behind its closing quote. */
const char *tsr__csv_field_end(const tsr__csv_dialect *d, const char *at, const char *end,
                               const char **junk);
/* Moves `*at` behind the field that begins there and returns it, without the CR before a newline;
 * the row must be a good one up to there. */
tsr__text_span tsr__csv_next_field(const tsr__csv_dialect *dialect, const char **at,
                                   const char *end);
size_t tsr__csv_split_row(const tsr__csv_dialect *dialect, const tsr__csv_row *row,
                          const char *base, uint32_t *ends, size_t capacity);
/* Fills batch->lasts: the ends of the last fields without the CR before a newline. */
void tsr__csv_trim_returns(const tsr__csv_dialect *dialect, tsr__csv_batch *batch);
/* Makes room for the index of rows of a text that ends at `end`. */
tsr_status tsr__csv_make_granules(tsr__csv_file *file, int64_t end, tsr__error *error);
/* The bytes of granules in which rows first .. last - 1 lie: from `*from` to what is returned. */
int64_t tsr__csv_granules_of(const tsr__csv_file *file, int64_t first, int64_t last, int64_t *from);
/* Makes room for the index of a file's rows before it is loaded, where it can be counted then. */
tsr_status tsr__csv_expect_rows(tsr__csv_file *file, tsr__error *error);
/* Counts the rows of a held file, or of its held beginning; false in `*plain`: that takes a look at
 * every byte, or at what lies behind it. */
tsr_status tsr__csv_index(tsr__csv_file *file, bool *plain, tsr__error *error);
/* Counts granules of bytes that were just read, those that lie in them with what surrounds them. */
void tsr__csv_count_piece(const tsr__csv_file *file, const char *data, int64_t from, int64_t to);
/* Offset at which the file's row `row` begins (0 <= row <= rows); empty lines may stand before. */
int64_t tsr__csv_locate(const tsr__csv_file *file, int64_t row);
/* The file that holds a row of all; the last one that has any for the row behind the last. */
tsr__csv_file *tsr__csv_file_of(const tsr__csv *csv, int64_t row);

/* ---- csv_error.c ---- */

tsr_status tsr__csv_no_memory(const tsr__csv *csv, tsr__error *error);
/* 1-based line and column (in bytes) of a place in a file's text, or in its beginning. */
void tsr__csv_place(const tsr__csv_file *file, tsr__csv_window text, const char *at, int64_t *line,
                    int64_t *column);
tsr_status tsr__csv_row_error(const tsr__csv_file *file, tsr__csv_found found,
                              const tsr__csv_row *row, tsr__error *error);
tsr_status tsr__csv_fields_error(const tsr__csv_file *file, const tsr__csv_row *row, int64_t number,
                                 tsr__error *error);
/* A field of a row of all files. */
tsr__text_span tsr__csv_field_in(const tsr__csv *csv, int64_t row, int column);
/* What is bad in a field: its text is no UTF-8, or it does not fit its column's forced type. */
tsr_status tsr__csv_value_error(const tsr__csv *csv, int64_t row, int column, tsr__error *error);

/* ---- csv_parse.c ---- */

/* The class of a field as it stands in the file (quotes and all), and its value. */
unsigned tsr__csv_classify(const tsr__csv *csv, tsr__text_span field, tsr__read_value *value);
/* Whether a value of that class is one of the column's type. */
bool tsr__csv_fits(tsr_coltype type, unsigned class, const tsr__read_value *value);

/* What one worker knows of one target. Workers are given stripes in the order of the rows, so what
 * comes first here came first in the file, among that worker's rows. */
typedef struct tsr__csv_lane {
  bool classify; /* a value did not fit: only classes are collected from here on */
  bool no_memory;
  unsigned seen;
  int64_t nulls;
  int64_t contrary_row; /* first row of another type, -1: none */
  int64_t bad_row;      /* first row of invalid UTF-8 or against a forced type, -1: none */
  tsr__dict_local dict;
} tsr__csv_lane;

/* Where a batch's values go; all unused when classifying. */
typedef struct tsr__csv_sink {
  void *values;
  uint64_t *validity;
  int64_t at;           /* the element of the batch's first row */
  const uint64_t *kept; /* by element: rows that are wanted; NULL: all */
} tsr__csv_sink;

/* Rows of a column of a batch. */
typedef struct tsr__csv_run {
  int column, row, count;
} tsr__csv_run;

/* Parses a column of a batch into values and validity words, or classifies. Words that the batch
 * shares with rows before it are added to. */
void tsr__csv_parse(const tsr__csv_file *file, int column, const tsr__csv_batch *batch,
                    tsr__csv_lane *lane, const tsr__csv_sink *sink);

/* Looks at texts of which nothing is kept: counts nulls, and finds what is no UTF-8. */
void tsr__csv_look(const tsr__csv_file *file, int column, const tsr__csv_batch *batch,
                   tsr__csv_lane *lane);
/* Up to 64 of them from a row of the batch on, without quotes; bit i of the result: text i is no
 * null. The next call may use their bytes again. */
uint64_t tsr__csv_texts(const tsr__csv_file *file, const tsr__csv_batch *batch, tsr__csv_lane *lane,
                        tsr__csv_run run, tsr__text_span *texts);

/* ---- csv_apart.c ---- */

/* What processes found of a column in the rows that each read; joined it is true of all rows. */
typedef struct tsr__csv_found_in {
  unsigned seen;
  int64_t nulls, contrary_row; /* -1: none */
  char contrary[80];           /* its text */
} tsr__csv_found_in;

/* The earliest error by row of all processes (`*row` -1: none here; then it has none): returned and
 * told alike on all. */
tsr_status tsr__csv_agree_error(const tsr__csv *csv, int64_t row, tsr__error *error);
tsr_status tsr__csv_agree_types(const tsr__csv *csv, tsr__csv_found_in *found, int count,
                                tsr__error *error);
/* Granules first .. last - 1 of a file were counted here; those of others become known. */
typedef struct tsr__csv_counted {
  tsr__csv_file *file;
  int64_t first, last;
} tsr__csv_counted;
tsr_status tsr__csv_agree_counts(const tsr__csv *csv, const tsr__csv_counted *counted,
                                 tsr__error *error);

/* ---- csv_read.c ---- */

/* Adds to info[].seen what all files hold in the columns flagged in `which`. */
tsr_status tsr__csv_discover(tsr__csv *csv, const bool *which, tsr__error *error);

#endif
