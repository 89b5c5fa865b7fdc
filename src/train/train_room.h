/* Level 7: what training takes beside gradients. Compositions of calls on arrays and trees; this
 * room has no operations and no state of its own. */
#ifndef TSR_TRAIN_TRAIN_ROOM_H
#define TSR_TRAIN_TRAIN_ROOM_H

#include "tessera/train.h"
#include "transform/transform.h"

/* Whether all arrays of a tree are floats; else the error is recorded in the name of `call`. */
bool tsr__tree_of_floats(tsr_array *tree, const char *call, const char *site);

/* Whether two shapes are alike in their first dims. */
static inline bool tsr__same_dims(const tsr_shape *a, const tsr_shape *b, int dims)
{
  return !memcmp(a->dims, b->dims, (size_t)dims * sizeof *a->dims);
}

static inline tsr_array *tsr__times(tsr_array *a, double factor, const char *site)
{
  return tsr_mul_at(a, tsr_operand_float(factor), site);
}

#endif
