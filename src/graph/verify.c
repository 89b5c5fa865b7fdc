/* The promises of a program, checked: whoever makes or rewrites one may be wrong. */
#include "graph/graph.h"

static tsr_status broken(tsr__error *error, int node, const tsr__gnode *g, const char *what)
{
  return tsr__error_set(error, TSR_ESTATE, "a program is malformed at %%%d (%s): %s", node,
                        g->op < TSR__OPS ? tsr__ops[g->op].name : "?", what);
}

static tsr_status check_node(const tsr__program *program, int n, tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[n];
  if (g->op >= TSR__OPS) return broken(error, n, g, "no such operation");
  if (g->dtype < TSR_BOOL || g->dtype > TSR_F64) return broken(error, n, g, "no such dtype");
  if (g->rank > TSR_MAX_RANK) return broken(error, n, g, "too many dims");
  for (int d = 0; d < TSR_MAX_RANK; d++)
    if (d < g->rank ? g->dims[d] < TSR__DYNAMIC : g->dims[d] != 0)
      return broken(error, n, g, "a dim is wrong");
  if (g->sharding && g->sharding >= program->sharding_count)
    return broken(error, n, g, "no such sharding");
  if (!g->sharding && g->reduce_axes) return broken(error, n, g, "combines axes but is unplaced");
  for (int i = 0; i < 3; i++) {
    if (g->in[i] >= n || g->in[i] < -1)
      return broken(error, n, g, "an operand stands after its user");
    if (i < tsr__ops[g->op].least && g->in[i] < 0)
      return broken(error, n, g, "an operand is missing");
    if (i >= tsr__ops[g->op].most && g->in[i] >= 0)
      return broken(error, n, g, "an operand too many");
  }
  if ((g->attr.param_count > 0) != (g->param >= 0))
    return broken(error, n, g, "numbers are missing");
  return TSR_OK;
}

/* A sharding must be canonical and use each axis once, on dims that are there. */
static tsr_status check_sharding(const tsr__program *program, int n, tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[n];
  if (!g->sharding) return TSR_OK;
  const tsr_sharding *s = &program->shardings[g->sharding];
  unsigned seen = 0;
  for (int i = 0; i < s->first[TSR_MAX_RANK]; i++) {
    if (seen >> s->axis[i] & 1) return broken(error, n, g, "an axis is used twice");
    seen |= 1u << s->axis[i];
  }
  for (int d = g->rank; d < TSR_MAX_RANK; d++)
    if (tsr__dim_axes(s, d)) return broken(error, n, g, "a dim that is not there is sharded");
  if (seen & g->reduce_axes) return broken(error, n, g, "sharded over an axis that is combined");
  return TSR_OK;
}

static tsr_status check_types(const tsr__program *program, int n, tsr__error *error)
{
  const tsr__gnode *g = &program->nodes[n];
  tsr__type in[3] = { { .dtype = 0 } };
  tsr__ask ask = { .dtype = (tsr_dtype)g->dtype, .shape = tsr__gnode_shape(g), .attr = g->attr };
  tsr__inferred type;
  tsr__error inner = { .status = TSR_OK };
  if (g->op == TSR__OP_LEAF) return TSR_OK;
  for (int i = 0; i < 3; i++) {
    if (g->in[i] < 0) continue;
    const tsr__gnode *operand = &program->nodes[g->in[i]];
    in[i].dtype = (tsr_dtype)operand->dtype;
    in[i].shape = tsr__gnode_shape(operand);
  }
  if (tsr__infer((tsr__op)g->op, in, &ask, &type, &inner)) return broken(error, n, g, inner.text);
  for (int i = 0; i < 3; i++)
    if (type.operand[i] != in[i].dtype) return broken(error, n, g, "an operand lacks its cast");
  if (type.dtype != (tsr_dtype)g->dtype) return broken(error, n, g, "the dtype is not the table's");
  if (type.shape.rank != g->rank || memcmp(type.shape.dims, g->dims, sizeof g->dims) != 0)
    return broken(error, n, g, "the shape is not the table's");
  return TSR_OK;
}

tsr_status tsr__program_verify(const tsr__program *program, tsr__error *error)
{
  if (program->failed) return tsr__error_set(error, TSR_ENOMEM, "a program was not finished");
  for (int n = 0; n < program->node_count; n++) {
    if (check_node(program, n, error)) return error->status;
    if (check_sharding(program, n, error)) return error->status;
    if (check_types(program, n, error)) return error->status;
  }
  return TSR_OK;
}
