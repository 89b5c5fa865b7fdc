/* Level 7: what training takes beside gradients. Compositions of calls on arrays and trees; this
 * room has no operations and no state of its own. */
#ifndef TSR_TRAIN_TRAIN_ROOM_H
#define TSR_TRAIN_TRAIN_ROOM_H

#include "tessera/train.h"
#include "transform/transform.h"

/* The arrays of a tree, all of them floats; NULL: the error is recorded in the name of `call`. */
tsr_array **tsr__floats_of(tsr_array *tree, const char *call, int *count, const char *site);

static inline tsr_array *tsr__times_number(tsr_array *a, double factor, const char *site)
{
  return tsr_mul_at(a, tsr_operand_float(factor), site);
}

#endif
