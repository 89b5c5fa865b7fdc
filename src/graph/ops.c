/* The table of operations as data: ops.def, one row an operation. */
#include "graph/graph.h"

_Static_assert(sizeof(tsr__reduce_attr) == 4 + 2 + 2 + 8 + 8 && sizeof(tsr__dim_attr) == 8 &&
                   sizeof(tsr__index_attr) == 8 && sizeof(tsr__result) == 8 + 8 * TSR_MAX_RANK,
               "no padding: attributes are compared as bytes");

static const tsr__reduce_attr no_reduce;
static const tsr__dim_attr no_dim;
static const tsr__index_attr no_index;

const tsr__attr_info tsr__attrs[TSR__ATTR_FAMILIES] = {
  [TSR__ATTR_NONE] = { 0, NULL },
  [TSR__ATTR_REDUCE] = { sizeof no_reduce, &no_reduce },
  [TSR__ATTR_DIM] = { sizeof no_dim, &no_dim },
  [TSR__ATTR_INDEX] = { sizeof no_index, &no_index },
};

#define MANY TSR__MANY
#define OP(id, text, low, high, outs, nested, want, dtype, shape, rule, family, nums, grad, batch, \
           lower)                                                                                  \
  [TSR__OP_##id] = {                                                                               \
    .name = text,                                                                                  \
    .least = low,                                                                                  \
    .most = high,                                                                                  \
    .results = outs,                                                                               \
    .regions = nested,                                                                             \
    .wants = TSR__WANT_##want,                                                                     \
    .dtype_rule = TSR__DT_##dtype,                                                                 \
    .shape_rule = TSR__SH_##shape,                                                                 \
    .factors = rule,                                                                               \
    .attr = TSR__ATTR_##family,                                                                    \
    .numbers = nums,                                                                               \
    .gradient = TSR__RULE_##grad,                                                                  \
    .batching = TSR__RULE_##batch,                                                                 \
    .lowering = TSR__LOW_##lower,                                                                  \
  },
const tsr__opinfo tsr__ops[TSR__OPS] = {
#include "graph/ops.def"
};
#undef OP
#undef MANY
