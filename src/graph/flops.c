/* The flops of nodes: the column FLOPS of the table of operations, a function each.
 *
 * The figures of one device are those of the first position of a node, which has the most elements.
 * Dims that are known at run time count as 0. */
#include "graph/graph.h"

int64_t tsr__node_elements(const tsr__program *program, int node, bool local)
{
  const tsr__gnode *g = &program->nodes[node];
  int64_t count = 1;
  for (int d = 0; d < g->rank; d++) {
    int64_t size = g->dims[d] < 0 ? 0 : g->dims[d];
    const tsr_sharding *at = &program->shardings[g->sharding];
    count *= local && at->mesh ? tsr__dim_span(at, d, size, 0).length : size;
  }
  return count;
}

int64_t tsr__node_device_bytes(const tsr__program *program, int node)
{
  size_t size = tsr_dtype_size((tsr_dtype)program->nodes[node].dtype);
  return tsr__node_elements(program, node, true) * (int64_t)size;
}

double tsr__flops_result(const tsr__program *program, int node, bool local)
{
  return (double)tsr__node_elements(program, node, local);
}

double tsr__flops_operand(const tsr__program *program, int node, bool local)
{
  int operand = tsr__in(program, &program->nodes[node], 0);
  return (double)tsr__node_elements(program, operand, local);
}

/* The sizes of a product's indices, from any operand that has them. An index that `places` (NULL:
 * all is whole) cut is as long as the first position's part. */
static void index_sizes(const tsr__program *program, int node, const tsr_sharding *const places[3],
                        double sizes[32])
{
  const tsr__gnode *g = &program->nodes[node];
  const tsr__dot_attr *attr = tsr__dot_of(program, g);
  const uint8_t *const indices[3] = { attr->left, attr->right, attr->out };
  const int nodes[3] = { tsr__in(program, g, 0), tsr__in(program, g, 1), node };
  for (int i = 0; i < 3; i++) {
    const tsr__gnode *of = &program->nodes[nodes[i]];
    const tsr_sharding *at = places && places[i]->mesh ? places[i] : NULL;
    for (int d = 0; d < of->rank; d++) {
      int64_t size = of->dims[d] < 0 ? 0 : of->dims[d];
      /* A dim of the left operand along windows is no index of its own. */
      if (!indices[i][d] || (!i && attr->window[d])) continue;
      sizes[indices[i][d] & 31] = (double)(at ? tsr__dim_span(at, d, size, 0).length : size);
    }
  }
}

double tsr__flops_dot_at(const tsr__program *program, int node, const tsr_sharding *const at[3])
{
  double sizes[32], flops = 2;
  for (int i = 0; i < 32; i++) sizes[i] = 1;
  index_sizes(program, node, at, sizes);
  for (int i = 0; i < 32; i++) flops *= sizes[i];
  return flops;
}

/* One multiplication and one addition for each combination of indices. A product in parts has
 * the devices as one more dim, which multiplies nothing. */
double tsr__flops_dot(const tsr__program *program, int node, bool local)
{
  const tsr__gnode *g = &program->nodes[node];
  const tsr__dot_attr *attr = tsr__dot_of(program, g);
  const int nodes[3] = { tsr__in(program, g, 0), tsr__in(program, g, 1), node };
  const tsr_sharding *at[3];
  for (int i = 0; i < 3; i++) at[i] = &program->shardings[program->nodes[nodes[i]].sharding];
  double flops = tsr__flops_dot_at(program, node, local ? at : NULL);
  return !local && attr->parts ? flops / (double)attr->parts : flops;
}
