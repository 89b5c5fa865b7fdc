/* What frames ask of a file or stream of rows, whatever its format: csv.h, json.h and arrow_read.h say
 * what each call does. */
#ifndef TSR_IO_READER_H
#define TSR_IO_READER_H

#include "io/arrow/arrow_read.h"
#include "io/csv/csv.h"
#include "io/json/json.h"

typedef struct tsr__reader_ops {
  const char *format; /* "csv" */
  void (*close)(void *file);
  int (*columns)(const void *file, const tsr__csv_column **out);
  const char *(*path)(const void *file);
  tsr_status (*count)(void *file, int64_t *rows, tsr__error *error);
  tsr_status (*read)(void *file, tsr__csv_read *read, tsr__error *error);
  int64_t (*widened)(const void *file, int column, const char **text);
  int64_t (*bytes)(const void *file);     /* of text that a read takes; NULL: it takes no sieves */
  const char *(*notes)(const void *file); /* NULL: there are none */
  /* As tsr__csv_front; NULL: all is read when it is opened. */
  tsr_status (*front)(void *file, int64_t want, int64_t *rows, tsr__error *error);
  bool (*borrow)(void *file, int column, tsr__foreign *out); /* NULL: nothing is */
} tsr__reader_ops;

/* An open file; `ops` NULL: none. */
typedef struct tsr__reader {
  const tsr__reader_ops *ops;
  void *file;
} tsr__reader;

extern const tsr__reader_ops tsr__csv_reader, tsr__json_reader, tsr__arrow_reader;

#endif
