/* Inside pipeline/: stages whose records have some fields more, or other ones, made of each record
 * by itself: maps of the program's functions, and those of the library. */
#ifndef TSR_PIPELINE_STAGE_FIELDS_H
#define TSR_PIPELINE_STAGE_FIELDS_H

#include "pipeline/stage.h"

struct tsr__field_source;

/* Makes the fields of a record; its message says of which record. */
typedef tsr_status tsr__own_fn(const struct tsr__field_source *f, const tsr_record *record,
                               tsr__error *error);

typedef struct tsr__field_source {
  tsr_source source;
  int from[TSR__MAX_COLUMNS]; /* by column: that of the source below; -1: the function's */
  tsr_record_fn *fn;
  void *user;
  const char *name;
  uint64_t seed;
  int made;   /* the first column that the function makes */
  size_t row; /* bytes of a record below */
  tsr__columns uses;
  tsr__own_fn *own; /* NULL: fn */
  const void *data; /* of `own` */
} tsr__field_source;

typedef struct tsr__fields_make {
  const char *call, *site;
  const tsr__records_ops *ops; /* with tsr__fields_read and tsr__fields_ids */
  const tsr__column *columns;  /* those made; of the source's the ones of other names stay */
  int count;
  tsr__columns uses; /* fields of the source that `own` reads */
  tsr__own_fn *own;
  const void *data; /* copied */
  size_t data_size;
} tsr__fields_make;

tsr_source *tsr__fields_new(tsr_source *source, const tsr__fields_make *make, tsr__error *error);
tsr_status tsr__fields_read(const tsr_source *source, const tsr__ask_rows *ask, tsr__error *error);
void tsr__fields_ids(const tsr_source *source, int64_t epoch, const int64_t *at, int64_t count,
                     int64_t *to);

#endif
