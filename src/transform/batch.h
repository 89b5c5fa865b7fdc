/* Inside transform/: a region replayed with one more dim in front. */
#ifndef TSR_TRANSFORM_BATCH_H
#define TSR_TRANSFORM_BATCH_H

#include "transform/transform.h"

typedef struct tsr__batch {
  tsr__replay replay; /* its arguments as they are mapped: those that vary have the front */
  const char *axis;   /* the name of what is mapped over; NULL: none */
  int64_t size;       /* of the front */
  bool *varies;       /* by node: it has the front */
} tsr__batch;

/* What does not vary, repeated along a front. */
tsr_array *tsr__batch_repeat(const tsr__batch *batch, tsr_array *a, const char *site);
/* Replays all nodes; `arguments`: by index, which of them vary (of all that the region takes).
 * False: out of memory. What cannot be mapped over is an error of the scope. */
bool tsr__batch_through(tsr__batch *batch, const bool *arguments);

/* A call with a rule on operands of which some vary: the rule is mapped over with it. */
tsr_array *tsr__batch_custom(const tsr__batch *batch, int n, tsr_array **in, const bool *varies);

#endif
