/* What the files of the CSV reader share. See csv.h for the contract.
 *
 *   head           body                                        end
 *   |a,b,c\n       |1,2,3\n4,"x\ny",6\n                          |
 *                  |granule 0  |granule 1  |granule 2 ...
 *
 * csv_file.c   bytes: opening, magic numbers, loading in parallel
 * csv_scan.c   bit masks of quotes, newlines, separators (per instruction set), counting
 * csv_rows.c   the index of rows; careful reading of one row; where a row begins
 * csv_parse.c  fields to values; what class of value a text is
 * csv_read.c   stripes of rows in parallel, types that turn out wrong, dictionaries
 * csv.c        opening, names, sampling types
 *
 * Invariant: the text that is parsed ends with a row end: `end` is behind the last newline, or
 * behind the one that the padding supplies when the file's last row has none. */
#ifndef TSR_IO_CSV_INNER_H
#define TSR_IO_CSV_INNER_H

#include "io/csv.h"
#include "io/decimal.h"
#include "io/dict.h"

enum {
  TSR__CSV_PAD = 128,          /* newlines behind the file's bytes: masks may look ahead */
  TSR__CSV_GRANULE = 16 << 10, /* bytes an entry of the row index covers */
  TSR__CSV_SAMPLE = 512 << 10, /* files up to this size are sampled whole */
  TSR__CSV_WORDS = 32,         /* 64-byte words whose masks are made at a time */
  TSR__CSV_KINDS = 4,
  TSR__CSV_SLACK = 64 /* offsets that flattening may write behind the last one */
};

/* What a field can be. A column's type is a function of the set of classes it holds. */
enum {
  TSR__CLASS_NULL = 1,
  TSR__CLASS_BOOL = 2,
  TSR__CLASS_INT = 4,    /* an integer that fits i64 */
  TSR__CLASS_BIG = 8,    /* an integer that does not */
  TSR__CLASS_FLOAT = 16, /* a point, an exponent, inf or nan */
  TSR__CLASS_DATE = 32,
  TSR__CLASS_TIME = 64,
  TSR__CLASS_TEXT = 128
};

/* One entry of the row index: what lies in some bytes, for both answers to the question whether
 * they begin inside quotes ([0]: outside). */
typedef struct tsr__csv_granule {
  uint32_t ends[2];    /* row ends */
  uint8_t flips;       /* an odd number of quotes */
  uint8_t stray[2];    /* quotes that stand where RFC 4180 has none */
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
} tsr__csv_scan;

typedef struct tsr__csv_info {
  unsigned seen;       /* classes seen so far */
  int64_t widened_row; /* -1: none */
  char widened_text[80];
} tsr__csv_info;

struct tsr__csv {
  tsr_runtime *rt;
  tsr__heap *heap;
  tsr__csv_opts opts;
  char *path;
  size_t path_size;
  int fd;                /* -1 once loaded */
  int64_t size, changed; /* bytes and time of last change when opened */
  char *data;            /* the file and TSR__CSV_PAD newlines; NULL until loaded */
  size_t data_size;
  tsr__csv_dialect dialect;
  int64_t head, body, end;
  int column_count;
  tsr__csv_column *columns;
  tsr__csv_info *info;
  tsr__decimal *decimal;
  const tsr__csv_scan *scan;
  tsr__csv_granule *granules; /* NULL until counted */
  int64_t granule_count, granule_bytes;
  int64_t rows;
  bool careful; /* quotes stand in odd places: rows are found byte by byte */
};

/* A few rows, split. Field c of row r lies between the byte before it and the byte that ends it:
 * in the first column begins[r] + 1, in the others ends[r * columns + c - 1] + 1; up to
 * ends[r * columns + c], in the last column lasts[r] (a CR before the newline is no data). */
typedef struct tsr__csv_batch {
  const char *base;
  int64_t first_row;
  int rows, columns;
  uint32_t *ends, *begins, *lasts;
} tsr__csv_batch;

/* ---- csv_file.c ---- */

tsr_status tsr__csv_file_open(tsr__csv *csv, tsr__error *error);
/* Reads length bytes at an offset into `to`, all of them or fails. */
tsr_status tsr__csv_file_read(tsr__csv *csv, char *to, int64_t offset, int64_t length,
                              tsr__error *error);
tsr_status tsr__csv_load(tsr__csv *csv, tsr__error *error); /* whole file, once */
/* Sets the byte that ends rows, in the padding of loaded text too. */
void tsr__csv_end_rows_with(tsr__csv *csv, char newline);
/* Refuses what is plainly another format, by its first bytes. */
tsr_status tsr__csv_magic(const tsr__csv *csv, const char *bytes, size_t length, tsr__error *error);

/* ---- csv_scan.c ---- */

const tsr__csv_scan *tsr__csv_scan_for(const tsr_runtime *rt);
/* Offset behind the n-th (n >= 1) row end of a granule that is known to hold it. */
int64_t tsr__csv_nth_end(const tsr__csv *csv, const tsr__csv_granule *granule, int64_t from,
                         int64_t n);

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

/* Reads one row byte by byte: the reference for csv_scan.c. `ends` receives offsets from `base`
 * of the bytes that end its first `capacity` fields; NULL with capacity 0 is allowed. */
tsr__csv_found tsr__csv_next_row(const tsr__csv_dialect *dialect, const char *at, const char *end,
                                 tsr__csv_row *row);
size_t tsr__csv_split_row(const tsr__csv_dialect *dialect, const tsr__csv_row *row,
                          const char *base, uint32_t *ends, size_t capacity);
/* Fills batch->lasts: the ends of the last fields without the CR before a newline. */
void tsr__csv_trim_returns(const tsr__csv *csv, tsr__csv_batch *batch);
/* Offset at which data row `row` begins (0 <= row <= rows); empty lines may stand before it. */
int64_t tsr__csv_locate(const tsr__csv *csv, int64_t row);
/* 1-based line and column (in bytes) of an offset. */
void tsr__csv_place(const tsr__csv *csv, int64_t offset, int64_t *line, int64_t *column);
tsr_status tsr__csv_row_error(const tsr__csv *csv, tsr__csv_found found, const tsr__csv_row *row,
                              tsr__error *error);

/* ---- csv_parse.c ---- */

typedef struct tsr__csv_value {
  int64_t integer; /* INT, DATE (days), TIME (microseconds), BOOL */
  double real;     /* INT, BIG, FLOAT */
} tsr__csv_value;

tsr__csv_field tsr__csv_field_of(const tsr__csv_batch *batch, int row, int column);
/* The class of a field as it stands in the file (quotes and all), and its value. */
unsigned tsr__csv_classify(const tsr__decimal *decimal, tsr__csv_field field,
                           tsr__csv_value *value);
tsr__coltype tsr__csv_type_of(unsigned seen);

/* What one stripe knows of one target. */
typedef struct tsr__csv_lane {
  bool classify; /* a value did not fit: only classes are collected from here on */
  unsigned seen;
  int64_t nulls;
  int64_t contrary_row; /* -1: none */
  char contrary_text[80];
  tsr__dict_local dict;
  int64_t bad_row; /* first row of invalid UTF-8, -1: none */
  bool no_memory;
} tsr__csv_lane;

/* Where a batch's values go; all unused when classifying. */
typedef struct tsr__csv_sink {
  void *values;
  uint64_t *validity;
  int64_t at; /* the element of the batch's first row, a multiple of 64 */
} tsr__csv_sink;

/* Parses a column of a batch into values and validity words, or classifies. */
void tsr__csv_parse(const tsr__csv *csv, int column, const tsr__csv_batch *batch,
                    tsr__csv_lane *lane, const tsr__csv_sink *sink);

/* ---- csv_read.c ---- */

/* Adds to info[].seen what the whole file holds in the columns flagged in `which`. */
tsr_status tsr__csv_discover(tsr__csv *csv, const bool *which, tsr__error *error);

#endif
