/* Products whose contracted dims are cut: each device sums its own part, and the parts are added.
 *
 *   a f32[64,80]@(-,x)               part   f32[4,64,16]@(x,-,-)    each its own
 *   b f32[80,16]@(x,-)    x=4        met    f32[4,64,16]@(-,x,-)    all parts of a shard
 *   a b      @(-,-)                  sum    f32[64,16]@(x,-)        added up as a tree
 *                                    at     f32[64,16]@(-,-)        a replica each, if needed
 *
 * The two moves are a reduce-scatter and an all-gather. f16 and bf16 meet as f32: the sum is
 * rounded once. If the result is sharded anyway, the last move is not needed, or gathers along the
 * axes that do not cut it. */
#include "partition/flow.h"

/* The axes of the contracted dims in the order in which they cut them, so that parts stand in the
 * order of the contracted elements. `right` gives the order of its axes; an axis that `right` does
 * not name cuts the left side alone and comes after, by number. */
static int order_axes(const tsr__meeting *m, const tsr_sharding *right, uint8_t axis[TSR_MAX_AXES])
{
  unsigned left = m->axes;
  int count = 0;
  for (int i = 0; i < right->first[TSR_MAX_RANK]; i++) {
    if (!(left >> right->axis[i] & 1)) continue;
    axis[count++] = right->axis[i];
    left &= ~(1u << right->axis[i]);
  }
  for (int a = 0; a < TSR_MAX_AXES; a++)
    if (left >> a & 1) axis[count++] = (uint8_t)a;
  return count;
}

tsr_sharding tsr__cut_further(const tsr_sharding *at, int dim, const uint8_t *axis, int count)
{
  tsr_sharding out = *at;
  uint8_t used = 0;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    for (int i = at->first[d]; i < at->first[d + 1]; i++) out.axis[used++] = at->axis[i];
    for (int i = 0; d == dim && i < count; i++) out.axis[used++] = axis[i];
    out.first[d + 1] = used;
  }
  return out;
}

/* The place of an array with one more whole dim in front. */
static tsr_sharding behind_a_dim(const tsr_sharding *at)
{
  tsr_sharding out = *at;
  for (int d = TSR_MAX_RANK; d > 0; d--) out.first[d] = at->first[d - 1];
  return out;
}

int tsr__longest_dim(const tsr__gnode *node, const tsr_sharding *at)
{
  int longest = -1;
  int64_t most = 1;
  for (int d = 0; d < node->rank; d++) {
    int64_t size = node->dims[d] / tsr__dim_parts(at, d);
    if (size > most) longest = d;
    if (size > most) most = size;
  }
  return longest;
}

/* The place where parts are added up: the result's place, cut further by all axes over which the
 * parts meet and that do not cut it yet. Each device adds as few elements as possible; if no dim is
 * worth cutting, all devices add all elements. */
static tsr_sharding sum_place(const tsr__meeting *m, const uint8_t *axis, int count)
{
  uint8_t others[TSR_MAX_AXES];
  tsr_sharding out = *m->at;
  out.unreduced = 0;
  int longest = tsr__longest_dim(m->node, &out), left = 0;
  for (int i = 0; i < count; i++)
    if (!(tsr__used_axes(m->at) >> axis[i] & 1)) others[left++] = axis[i];
  return longest < 0 ? out : tsr__cut_further(&out, longest, others, left);
}

void tsr__split_of(const tsr__meeting *m, const tsr_sharding *right, tsr__split *out)
{
  uint8_t axis[TSR_MAX_AXES];
  int count = order_axes(m, right, axis);
  tsr_sharding whole = tsr__partial_place(m->at, m->axes);
  out->made = behind_a_dim(&whole);
  out->made = tsr__cut_further(&out->made, 0, axis, count);
  out->sum = sum_place(m, axis, count);
  out->met = behind_a_dim(&out->sum);
  out->part = *m->node;
  out->part.rank++;
  out->part.dims[0] = tsr__dim_parts(&out->made, 0);
  for (int d = 0; d < m->node->rank; d++) out->part.dims[d + 1] = m->node->dims[d];
  bool narrow = tsr__dtype_is_real((tsr_dtype)m->node->dtype) &&
                tsr_dtype_size((tsr_dtype)m->node->dtype) < 4;
  if (narrow) out->part.dtype = TSR_F32;
}

/* Both moves are weighed as the rewriting makes them, which may be in two steps. */
int64_t tsr__split_cost(const tsr__flow *flow, const tsr__meeting *m, const tsr_sharding *right)
{
  tsr__split split;
  tsr__split_of(m, right, &split);
  tsr_shape part = tsr__gnode_shape(&split.part), shape = tsr__gnode_shape(m->node);
  tsr__reshard met = { &split.made, &split.met, &part, NULL, 0 };
  tsr__reshard out = { &split.sum, m->at, &shape, NULL, 0 };
  int64_t cost = tsr__flow_move_cost(flow, &met, (tsr_dtype)split.part.dtype);
  return cost + tsr__flow_move_cost(flow, &out, (tsr_dtype)m->node->dtype);
}

/* ---- windows: a device takes all elements of sharded dims that its windows read -------------- */

static int dim_of_index(const uint8_t *indices, int rank, int index)
{
  int dim = 0;
  while (dim < rank && indices[dim] != index) dim++;
  return dim;
}

/* The blocks that a device takes of a dim, in elements of operand 0:
 *
 *   windows of 3, step 1, of 10 elements:  8 windows, 4 a device over 2
 *   device 0  [0 1 2 3 4 5]            windows 0 to 3
 *   device 1          [4 5 6 7 8 9]    windows 4 to 7: 4 and 5 are on both
 *
 * A window over each element alone needs no halo, and neither does a whole dim. */
bool tsr__window_blocks(const tsr__meeting *m, tsr__blocks_attr *out)
{
  const tsr__dot_attr *attr = tsr__dot_of(m->program, m->node);
  const tsr__gnode *x = &m->program->nodes[tsr__in(m->program, m->node, 0)];
  const tsr__gnode *kernel = &m->program->nodes[tsr__in(m->program, m->node, 1)];
  tsr_sharding at = tsr__partial_place(m->at, m->axes);
  bool any = false;
  memset(out, 0, sizeof *out);
  for (int d = 0; d < x->rank; d++) {
    if (!attr->window[d]) continue;
    int along = dim_of_index(attr->out, m->node->rank, attr->left[d]);
    int64_t parts = tsr__dim_parts(&at, along), windows = m->node->dims[along];
    int64_t width = kernel->dims[dim_of_index(attr->right, kernel->rank, attr->window[d])];
    bool same = x->dims[d] == windows && attr->stride[d] == 1 && width == 1;
    if (parts == 1 || !windows || !width || same) continue;
    out->parts[d] = parts;
    out->items[d] = windows;
    out->step[d] = attr->stride[d];
    out->width[d] = (width - 1) * attr->dilation[d] + 1;
    any = true;
  }
  return any;
}

tsr__crossed tsr__window_crosses(const tsr__meeting *m, const tsr_sharding *left)
{
  const tsr__gnode *x = &m->program->nodes[tsr__in(m->program, m->node, 0)];
  tsr_shape shape = tsr__gnode_shape(x);
  tsr__blocks_attr blocks;
  if (!tsr__window_blocks(m, &blocks)) return (tsr__crossed){ .mesh = left->mesh };
  return tsr__move_crosses(&(tsr__reshard){ left, left, &shape, &blocks, 0 }, (tsr_dtype)x->dtype);
}

/* ---- leaves ---------------------------------------------------------------------------------- */

/* Blocks are the smallest power of two of leaves with which all elements fit; the last devices may
 * have fewer elements, or no elements:
 *
 *   100 elements over 4, leaves of 32:   0-31  32-63  64-95  96-99
 *   300 elements over 4:                 0-127  128-255  256-299  none
 *
 * So each device sums whole nodes of the one tree that any mesh has, and bits are the same. The
 * size of leaves, 32, is a promise of docs/NUMERICS.md. */
bool tsr__leaf_blocks(const tsr__gnode *operand, const uint8_t *indices, int64_t leaf,
                      const tsr_sharding *at, tsr__blocks_attr *out)
{
  int dim = dim_of_index(indices, operand->rank, (int)leaf);
  if (!leaf || dim == operand->rank) return false;
  int64_t parts = tsr__dim_parts(at, dim), size = operand->dims[dim], block = TSR__LEAF;
  while (block * parts < size) block *= 2;
  if (block * parts == size || parts == 1) return false;
  out->parts[dim] = parts;
  out->items[dim] = block * parts;
  out->step[dim] = out->width[dim] = 1;
  return true;
}
