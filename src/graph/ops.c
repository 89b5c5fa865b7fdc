/* The table of operations as data: ops.def, one row an operation. */
#include "graph/graph.h"

#define OP(id, text, low, high, want, dtype, shape, rule, nums, grad, batch, lower) \
  [TSR__OP_##id] = {                                                                \
    .name = text,                                                                   \
    .least = low,                                                                   \
    .most = high,                                                                   \
    .wants = TSR__WANT_##want,                                                      \
    .dtype_rule = TSR__DT_##dtype,                                                  \
    .shape_rule = TSR__SH_##shape,                                                  \
    .factors = rule,                                                                \
    .numbers = nums,                                                                \
    .gradient = TSR__RULE_##grad,                                                   \
    .batching = TSR__RULE_##batch,                                                  \
    .lowering = TSR__LOW_##lower,                                                   \
  },
const tsr__opinfo tsr__ops[TSR__OPS] = {
#include "graph/ops.def"
};
#undef OP
