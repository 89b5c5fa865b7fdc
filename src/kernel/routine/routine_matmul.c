/* Matrix products of nodes: which indices an operation's products go over, and how far apart
 * elements lie along them in the shards. */
#include "kernel/routine/product.h"

/* Steps along the dims of a dense shard. */
static void steps_of(const tsr__shard *shard, int rank, int64_t steps[TSR_MAX_RANK])
{
  int64_t step = 1;
  for (int d = rank - 1; d >= 0; step *= shard->box.size[d--]) steps[d] = step;
}

static void describe(const tsr__call_part *from, int rank, tsr__product_part *to)
{
  int64_t left[TSR_MAX_RANK], right[TSR_MAX_RANK], out[TSR_MAX_RANK];
  const int64_t *size = from->in[0].box.size;
  steps_of(&from->in[0], rank, left);
  steps_of(&from->in[1], rank, right);
  steps_of(&from->out[0], rank, out);
  to->left = from->in[0].buffer->data;
  to->right = from->in[1].buffer->data;
  to->out = from->out[0].buffer->data;
  for (int side = 0; side < TSR__SIDES; side++) to->list[side].size = 1;
  for (int d = 0; d < rank - 2; d++)
    tsr__product_add(to, TSR__BATCH, (tsr__product_index){ size[d], left[d], right[d], out[d] });
  int m = rank - 2, n = rank - 1;
  tsr__product_add(to, TSR__ROWS, (tsr__product_index){ size[m], left[m], 0, out[m] });
  tsr__product_add(to, TSR__COLUMNS,
                   (tsr__product_index){ from->in[1].box.size[n], 0, right[n], out[n] });
  tsr__product_add(to, TSR__DEPTH, (tsr__product_index){ size[n], left[n], right[m], 0 });
}

tsr_status tsr__routine_matmul(const tsr__call *call, tsr__error *error)
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
                                .part_count = call->part_count,
                                .parts = (void *)room->memory };
  memset(room->memory, 0, (size_t)call->part_count * sizeof(tsr__product_part));
  for (int p = 0; p < call->part_count; p++)
    describe(&call->parts[p], node->rank, &product.parts[p]);
  tsr_status status = tsr__product_run(&product, error);
  tsr__scratch_give(call->rt, room);
  return status;
}
