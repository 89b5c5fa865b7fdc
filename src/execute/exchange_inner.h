/* Inside execute/: shared by both ways of the ragged all-to-all. */
#ifndef TSR_EXECUTE_EXCHANGE_INNER_H
#define TSR_EXECUTE_EXCHANGE_INNER_H

#include "execute/exchange.h"

/* [from * parts + to]: the start of rows in the sender's order and in the receiver's buffer, and
 * the place of the next row; `traffic` by part. */
typedef struct tsr__exchange_room {
  int64_t *start, *place, *cursor;
  tsr__traffic *traffic;
} tsr__exchange_room;

/* Fresh buffers of all receivers for values of a type, each beside that which its part sends; bits
 * are set. */
tsr_status tsr__exchange_receivers(const tsr__exchange *ask, tsr_dtype dtype,
                                   tsr__buffer *const *from, tsr__buffer **out, tsr__error *error);

/* ---- exchange_apart.c ---- */

/* Whether a part is this process's. */
bool tsr__exchange_here(const tsr__exchange *ask, int part);
/* Fills in how many rows other processes' parts send. */
tsr_status tsr__exchange_tell_counts(const tsr__exchange *ask, tsr__error *error);
/* Moves a column to the receivers of this process; all processes do that together. */
tsr_status tsr__exchange_apart(const tsr__exchange *ask, int column, const tsr__exchange_room *room,
                               tsr__error *error);

#endif
