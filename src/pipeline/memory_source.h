/* Inside pipeline/: records in host memory, column by column, before they are a source. */
#ifndef TSR_PIPELINE_MEMORY_SOURCE_H
#define TSR_PIPELINE_MEMORY_SOURCE_H

#include "pipeline/records.h"
#include "tessera/sources.h"

typedef struct tsr__found {
  tsr_scope *scope;
  int count;
  int64_t records; /* -1: not known yet, the first array decides */
  tsr__column column[TSR__MAX_COLUMNS];
  char *block[TSR__MAX_COLUMNS]; /* of the heap, its own; NULL: the memory is borrowed */
  size_t block_size[TSR__MAX_COLUMNS];
  const char *data[TSR__MAX_COLUMNS];
  const int64_t *offsets[TSR__MAX_COLUMNS]; /* of ragged ones, as tsr_ragged_field has them */
} tsr__found;

/* Frees the blocks of what does not become a source. */
void tsr__found_drop(tsr__found *found);
/* Adds an array, copied to the host. */
tsr_status tsr__found_array(tsr__found *found, tsr_array *array, const char *name,
                            tsr__error *error);
/* Adds a ragged field and its length; the memory is borrowed, or becomes the column's block. */
tsr_status tsr__found_ragged(tsr__found *found, const tsr_ragged_field *field, tsr__error *error);
/* Makes the source; what was found is its own then, or gone. */
tsr_source *tsr__found_source(tsr__found *found, const char *call, const char *site);

#endif
