/* tf.Example: a message of named features, each a list of floats, integers or bytes. */
#ifndef TSR_PIPELINE_EXAMPLE_H
#define TSR_PIPELINE_EXAMPLE_H

#include "pipeline/records.h"

/* A message, and where its features go: by column. */
typedef struct tsr__example {
  const unsigned char *message;
  int64_t length;
  const tsr__column *columns; /* of f32, i64, u8 */
  int count;
  bool defaults; /* features that are not there are zeros */
  bool cut;      /* ragged ones are cut to what their columns hold; else more is an error */
  /* By column: whether it is a feature that is wanted, whether it is ragged, and where its values
   * go (NULL: nowhere). */
  bool wanted[TSR__MAX_COLUMNS], ragged[TSR__MAX_COLUMNS];
  char *to[TSR__MAX_COLUMNS];
  int64_t used[TSR__MAX_COLUMNS]; /* out: bytes of values, of ragged columns */
} tsr__example;

/* Copies the wanted features, those that are ragged without zeros behind; unknown fields and other
 * features are skipped, of a feature that stands twice the last counts. Errors: TSR_EPARSE,
 * TSR_EVALUE. */
tsr_status tsr__example_read(tsr__example *example, tsr__error *error);

/* Sets met[c] of columns whose features the message has, and adds the names of all of them.
 * Errors: TSR_EPARSE. */
tsr_status tsr__example_names(const tsr__example *example, bool *met, tsr__known *known,
                              tsr__error *error);

#endif
