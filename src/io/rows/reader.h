/* What frames ask of a file or stream of rows, whatever its format, and what each format is given
 * to read into. csv.h says most of each call; json.h and arrow_read.h what is different there. */
#ifndef TSR_IO_READER_H
#define TSR_IO_READER_H

#include "comm/peers.h"
#include "io/text/dict.h"
#include "kernel/device/device.h"
#include "tessera/frame.h"

/* A column of a file. Dates are i32 days, time stamps i64 microseconds, both since 1970-01-01 UTC;
 * text is i32 codes into the column's dictionary. */
typedef struct tsr__read_column {
  char *name; /* UTF-8, unique */
  tsr_coltype type;
  bool nullable; /* a null was seen in what has been read so far */
  bool vacant;   /* it holds nothing but nulls, or no row: its type says nothing */
  bool loose;    /* a value that was not looked at may still change its type */
} tsr__read_column;

/* Where one column's part goes, in memory of the host: values of `rows[part+1]-rows[part]` elements
 * each, bool as one bit an element LSB first, validity one bit an element (always written: 1 =
 * valid). Bits are written in whole 64-bit words, those behind the last element 0; a null's value
 * is 0. The reader's threads write and read that memory until the read returns, and not later. */
typedef struct tsr__read_target {
  int column;
  bool sparse;         /* values of rows that predicates drop are not wanted: see tsr__predicate */
  bool told;           /* texts that predicates are asked of as they lie in the file, and no more:
                          nothing is written, and there is no dictionary */
  const void *there;   /* values that were read before and hold no null, for predicates, where
                          there is one part: no validity, and nothing is written; or NULL */
  void **values;       /* one pointer a part */
  uint64_t **validity; /* one pointer a part */
  int64_t nulls;       /* out: nulls written over all parts */
  tsr__dict *dict;     /* out, text columns only: owned by the caller */
} tsr__read_target;

/* What a predicate asks of a value. IN and NOT_IN: of `count` constants; TRUE, FALSE: of a bool. */
typedef enum tsr__predicate_op {
  TSR__PREDICATE_EQ,
  TSR__PREDICATE_NE,
  TSR__PREDICATE_LT,
  TSR__PREDICATE_LE,
  TSR__PREDICATE_GT,
  TSR__PREDICATE_GE,
  TSR__PREDICATE_IN,
  TSR__PREDICATE_NOT_IN,
  TSR__PREDICATE_TRUE,
  TSR__PREDICATE_FALSE,
  TSR__PREDICATE_NULL,
  TSR__PREDICATE_NOT_NULL,
  TSR__PREDICATE_TEXT
} tsr__predicate_op;

/* A condition on one column that a reader judges while it reads. A row that some predicate does not
 * let through (what is null passes NULL only) is dropped: it keeps its place, but in sparse targets
 * its value is anything of the column's type, and of a text column the code 0 whose text nobody
 * wanted. Everything else is as if there were no predicate: validity, numbers of nulls, and the
 * checks of every field, so that types widen and errors are found by what stands in dropped rows
 * too. */
typedef struct tsr__predicate {
  int target; /* whose column is judged; a sparse one is of texts */
  tsr__predicate_op op;
  bool real; /* numbers are compared as f64 with `reals`, else as i64 with `whole` */
  int count;
  const int64_t *whole; /* numbers, dates in days, time stamps in microseconds */
  const double *reals;
  /* TEXT: whether a text passes; asked once of each text by each worker, at any time. `made` has
   * two rooms of the worker's to work in; one that failed says that there is no memory. */
  bool (*passes)(const void *user, tsr__text_span text, tsr__text *made);
  const void *user;
} tsr__predicate;

typedef struct tsr__read_ask {
  int parts;
  const int64_t *rows; /* parts + 1 borders, rows[0] .. rows[parts] */
  int target_count;
  tsr__read_target *targets;
  int predicate_count;
  const tsr__predicate *predicates;
  /* By part, a bit a row as in validity: which are not dropped. Written where there are predicates;
   * given without predicates it is what earlier ones wrote. NULL: all, and no target is sparse. */
  uint64_t **kept;
  bool front; /* all rows are among those that tsr__csv_front found */
  /* By part, while processes read together: whether it is read here, and there are pointers of its
   * targets. NULL: all are. */
  const bool *here;
  int retyped; /* out: number of columns whose type changed (see below) */
} tsr__read_ask;

/* ---- readers --------------------------------------------------------------------------------- */

typedef struct tsr__reader_ops {
  const char *format; /* "csv" */
  void (*close)(void *file);
  int (*columns)(const void *file, const tsr__read_column **out);
  const char *(*path)(const void *file);
  tsr_status (*count)(void *file, int64_t *rows, tsr__error *error);
  tsr_status (*read)(void *file, tsr__read_ask *read, tsr__error *error);
  /* As tsr__csv_settle and tsr__csv_widened; NULL: types are final when the file is open. */
  tsr_status (*settle)(void *file, bool *changed, tsr__error *error);
  int64_t (*widened)(const void *file, int column, const char **text);
  int64_t (*bytes)(const void *file); /* of text that a read takes; NULL: nobody knows */
  bool drops_values; /* what predicates drop need not be read; else only their texts are left out */
  int64_t (*size)(const void *file);      /* of what is stored, when it was opened; NULL: unknown */
  const char *(*notes)(const void *file); /* NULL: there are none */
  /* As tsr__csv_front; NULL: all is read when it is opened. */
  tsr_status (*front)(void *file, int64_t want, int64_t *rows, tsr__error *error);
  bool (*borrow)(void *file, int column, tsr__foreign *out); /* NULL: nothing is */
  /* From here on, in runs of these processes, each does a part of what is done; NULL: by itself
   * again. No entry: it cannot, and each must read all. */
  void (*together)(void *file, tsr__peers *peers);
} tsr__reader_ops;

/* An open file; `ops` NULL: none. */
typedef struct tsr__reader {
  const tsr__reader_ops *ops;
  void *file;
} tsr__reader;

#endif
