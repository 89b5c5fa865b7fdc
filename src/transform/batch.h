/* Inside transform/: a region replayed with one more dim in front. */
#ifndef TSR_TRANSFORM_BATCH_H
#define TSR_TRANSFORM_BATCH_H

#include "transform/transform.h"

typedef struct tsr__batch {
  tsr__replay replay;   /* its arguments as they are mapped: those that vary have the front */
  const char *axis;     /* the name of the mapped axis, or NULL */
  const tsr_mesh *mesh; /* if it has an axis of that name, elements lie along it */
  int64_t size;         /* of the front */
  bool of_mesh;         /* its places are devices: nothing in the body may be placed along it */
  bool *varies;         /* by node: it has the front */
  const bool **parts;   /* by node with regions, a tuple of its results: which of these have it */
} tsr__batch;

/* What does not vary, repeated along a front. */
tsr_array *tsr__batch_repeat(const tsr__batch *batch, tsr_array *a, const char *site);
/* An array with the front, each element on the devices of its place if the front is an axis of a
 * mesh. */
tsr_array *tsr__batch_lay(const tsr__batch *batch, tsr_array *a, tsr__why why, const char *site);
/* Replays all nodes; `arguments`: by index, which of them vary (of all that the region takes).
 * False: out of memory. What cannot be mapped over is an error of the scope. */
bool tsr__batch_through(tsr__batch *batch, const bool *arguments);
/* Whether a row has a "rule", or why it is not mapped over. */
const char *tsr__batch_kind(int op);

/* ---- rules ----------------------------------------------------------------------------------- */

/* One node in the making: its operands, and which of them have the dim in front. */
typedef struct tsr__batched {
  tsr__batch *batch;
  int n;
  const tsr__gnode *g;
  const tsr__opinfo *row;
  tsr_array **in;
  bool *varies;
  bool *result_varies; /* a guess, which a rule may correct */
  int count;
  const char *site;
} tsr__batched;

typedef tsr_array *tsr__batch_fn(const tsr__batched *x);

/* By the names in the column BATCH of ops.def: batch.c, */
tsr__batch_fn tsr__batch_element, tsr__batch_alike, tsr__batch_spread, tsr__batch_reduce,
    tsr__batch_along, tsr__batch_slice, tsr__batch_order, tsr__batch_pick, tsr__batch_pad,
    tsr__batch_dot, tsr__batch_place, tsr__batch_like, tsr__batch_as_it_is, tsr__batch_axis_all,
    tsr__batch_axis_meet, tsr__batch_axis_own, tsr__batch_result;
/* batch_lookup.c, */
tsr__batch_fn tsr__batch_take, tsr__batch_search, tsr__batch_scatter, tsr__batch_box,
    tsr__batch_update;
/* and a tuple of results, of which the batch's `parts` tells which vary: of a loop or choice
 * (batch_control.c), and of a call with a rule, which is mapped over with it (custom.c). */
tsr__batch_fn tsr__batch_loop, tsr__batch_custom;

/* The shape of all elements. */
tsr_shape tsr__batch_shape(const tsr__batch *batch, tsr_shape shape);
const void *tsr__batch_attr(const tsr__batched *x);
/* The row on the operands as they are now, with another attribute and shape. */
tsr_array *tsr__batch_make(const tsr__batched *x, const void *attr, tsr_shape shape);

/* Whether there is a named axis in the regions of a node. */
bool tsr__batch_named(const tsr__program *program, const tsr__gnode *node);

#endif
