/* tf.Example: a message of named features, each a list of floats, integers or bytes. */
#ifndef TSR_PIPELINE_EXAMPLE_H
#define TSR_PIPELINE_EXAMPLE_H

#include "pipeline/records.h"

/* A message, and where its features go: by column a record's bytes, NULL: not wanted. */
typedef struct tsr__example {
  const unsigned char *message;
  int64_t length;
  const tsr__column *columns; /* of f32, i64, u8 */
  int count;
  bool defaults; /* features that are not there are zeros */
  char *to[TSR_MAX_FIELDS];
} tsr__example;

/* Copies the wanted features; unknown fields and other features are skipped, of a feature that
 * stands twice the last counts. Errors: TSR_EPARSE. */
tsr_status tsr__example_read(const tsr__example *example, tsr__error *error);

#endif
