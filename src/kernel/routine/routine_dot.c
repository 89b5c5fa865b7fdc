/* Matrix products of nodes: which indices an operation's products go over, and how far apart
 * elements lie along them in the shards. */
#include "kernel/routine/product.h"

/* Steps along the dims of a dense shard. */
static void steps_of(const tsr__shard *shard, int rank, int64_t steps[TSR_MAX_RANK])
{
  int64_t step = 1;
  for (int d = rank - 1; d >= 0; step *= shard->box.size[d--]) steps[d] = step;
}

/* How far one along an index is in an array, which may have it along several dims.
 *
 *   a diagonal, aa->a:   one along a is one along both dims: steps add up */
static int64_t step_of_label(const uint8_t *indices, int rank, int index, const int64_t *steps)
{
  int64_t step = 0;
  for (int d = 0; d < rank; d++) step += indices[d] == index ? steps[d] : 0;
  return step;
}

/* The same in the left operand, where windows have strides.
 *
 *   windows, place = stride * index + dilation * window: each index has its own step */
static int64_t left_step(const tsr__dot_attr *attr, int rank, int index, const int64_t *steps)
{
  int64_t step = 0;
  for (int d = 0; d < rank; d++) {
    bool windows = attr->window[d];
    if (attr->left[d] == index) step += steps[d] * (windows ? attr->stride[d] : 1);
    if (attr->window[d] == index) step += steps[d] * attr->dilation[d];
  }
  return step;
}

static int dim_of_label(const uint8_t *indices, int rank, int index)
{
  for (int d = 0; d < rank; d++)
    if (indices[d] == index) return d;
  return -1;
}

typedef struct ranks {
  int left, right, out;
} ranks;

/* The elements that a block of leaves has. Leaves of a sharded dim lie in blocks of one size; the
 * last block may be longer than the rest of the dim. */
static int64_t there(const tsr__dot_attr *attr, const tsr_box *box, int dim)
{
  int64_t left = attr->length - box->start[dim];
  return left < 0 ? 0 : left < box->size[dim] ? left : box->size[dim];
}

/* Adds an index to the list where it belongs. */
static void add_product_index(const tsr__dot_attr *attr, ranks rank, int index,
                              const tsr__call_part *from, tsr__product_part *to)
{
  int64_t steps[3][TSR_MAX_RANK];
  steps_of(&from->in[0], rank.left, steps[0]);
  steps_of(&from->in[1], rank.right, steps[1]);
  steps_of(&from->out[0], rank.out, steps[2]);
  int left = dim_of_label(attr->left, rank.left, index),
      right = dim_of_label(attr->right, rank.right, index);
  int out = dim_of_label(attr->out, rank.out, index);
  bool kept = out >= 0;
  /* The size on the device: the result's where the index is kept, else the right operand's, which
   * has no windows. */
  int64_t size = kept ? from->out[0].box.size[out] : from->in[1].box.size[right];
  if (attr->leaf == index && right >= 0) size = there(attr, &from->in[1].box, right);
  tsr__product_index added = { .size = size,
                               .left = left_step(attr, rank.left, index, steps[0]),
                               .right = step_of_label(attr->right, rank.right, index, steps[1]),
                               .out = step_of_label(attr->out, rank.out, index, steps[2]) };
  tsr__product_add(to,
                   !kept       ? TSR__DEPTH
                   : left < 0  ? TSR__COLUMNS
                   : right < 0 ? TSR__ROWS
                               : TSR__BATCH,
                   added);
}

/* Lists the indices of the result in its order, then contracted indices: that of the leaves
 * first. */
static void describe_product(const tsr__call *call, const tsr__call_part *from,
                             tsr__product_part *to)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__dot_attr *attr = tsr__dot_of(call->program, node);
  ranks rank = { call->program->nodes[tsr__in(call->program, node, 0)].rank,
                 call->program->nodes[tsr__in(call->program, node, 1)].rank, node->rank };
  to->left = tsr__cpu_data(from->in[0].buffer);
  to->right = tsr__cpu_data(from->in[1].buffer);
  to->out = tsr__cpu_data(from->out[0].buffer);
  for (int side = 0; side < TSR__SIDES; side++) to->list[side].size = 1;
  for (int d = 0; d < node->rank; d++) add_product_index(attr, rank, attr->out[d], from, to);
  if (attr->leaf) add_product_index(attr, rank, (int)attr->leaf, from, to);
  for (int i = 1; i <= TSR__PRODUCT_INDICES; i++)
    if (dim_of_label(attr->right, rank.right, i) >= 0 && dim_of_label(attr->out, rank.out, i) < 0 &&
        attr->leaf != i)
      add_product_index(attr, rank, i, from, to);
}

/* The first device that has the same box of an operand: the same numbers, unless only the first of
 * them has the sum that the others left unreduced. */
static int same_as(const tsr__call *call, int part, int operand)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__gnode *in = &call->program->nodes[tsr__in(call->program, node, operand)];
  const tsr_box *box = &call->parts[part].in[operand].box;
  if (call->program->shardings[in->sharding].unreduced) return part;
  for (int p = 0; p < part; p++) {
    const tsr_box *other = &call->parts[p].in[operand].box;
    size_t bytes = (size_t)in->rank * sizeof box->start[0];
    if (!memcmp(box->start, other->start, bytes) && !memcmp(box->size, other->size, bytes))
      return p;
  }
  return part;
}

/* The number of products of a leaf: all of the indices after that of the leaves. */
static int64_t products_of_leaf(const tsr__dot_attr *attr, const tsr__product_part *part)
{
  int64_t leaf = attr->leaf ? TSR__LEAF : 0;
  for (int d = 1; d < part->list[TSR__DEPTH].count; d++) leaf *= part->list[TSR__DEPTH].at[d].size;
  return leaf;
}

/* Whether it is a part of a sum that has any products. */
static bool has_products(const tsr__call *call)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__gnode *b = &call->program->nodes[tsr__in(call->program, node, 1)];
  bool any = tsr__dot_of(call->program, node)->parts > 0;
  for (int d = 0; d < b->rank; d++) any &= b->dims[d] > 0;
  return any;
}

tsr_status tsr__routine_dot(const tsr__call *call, tsr__error *error)
{
  const tsr__gnode *node = tsr__call_node(call);
  tsr__scratch *room =
      tsr__scratch_take(call->rt, (size_t)call->part_count * sizeof(tsr__product_part));
  if (!room)
    return tsr__error_set(error, TSR_ENOMEM,
                          "tsr_%s: no memory; free arrays or raise .memory_limit",
                          tsr__ops[node->op].name);
  tsr__product_call product = { .rt = call->rt,
                                .name = tsr__ops[node->op].name,
                                .in = tsr__call_dtype(call, 0),
                                .out = (tsr_dtype)node->dtype,
                                .adds = has_products(call),
                                .part_count = call->part_count,
                                .parts = (void *)room->memory };
  memset(room->memory, 0, (size_t)call->part_count * sizeof(tsr__product_part));
  for (int p = 0; p < call->part_count; p++) {
    describe_product(call, &call->parts[p], &product.parts[p]);
    product.parts[p].left_as = same_as(call, p, 0);
    product.parts[p].right_as = same_as(call, p, 1);
  }
  /* All parts have the same indices after that of the leaves, so the first tells. */
  if (call->part_count)
    product.leaf = products_of_leaf(tsr__dot_of(call->program, node), product.parts);
  tsr_status status = tsr__product_run(&product, error);
  tsr__scratch_give(call->rt, room);
  return status;
}
