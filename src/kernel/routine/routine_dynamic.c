/* Slices and updates at places that arrays say: boxes copied on each device. A start below 0 counts
 * from the end; then it is moved to where all of the box lies inside.
 *
 *   x          0 1 2 3 4 5      cut in two: 0 1 2 | 3 4 5
 *   update at 2   [a b c]       the first device writes a, the second b c */
#include "kernel/routine/routine.h"

#include "kernel/device/cpu.h"

/* The start along a dim of `size` for a box of `length`. */
static int64_t start_of(const tsr__call_part *part, int d, int64_t size, int64_t length)
{
  int64_t start = ((const int64_t *)tsr__cpu_data(part->in[1].buffer))[d];
  if (start < 0) start += size;
  return start < 0 ? 0 : start > size - length ? size - length : start;
}

/* A box of one shard of the device to another. */
typedef struct copying {
  const tsr__shard *from, *to;
  int64_t from_start[TSR_MAX_RANK], to_start[TSR_MAX_RANK], size[TSR_MAX_RANK];
} copying;

static void copy_box_between(const tsr__call *call, const copying *c)
{
  const tsr__gnode *node = tsr__call_node(call);
  tsr__box_copy copy = { .dtype = (tsr_dtype)node->dtype,
                         .rank = node->rank,
                         .from_dims = c->from->box.size,
                         .from_start = c->from_start,
                         .to_dims = c->to->box.size,
                         .to_start = c->to_start,
                         .size = c->size };
  tsr__cpu_copy(&copy, c->from->buffer, c->to->buffer, NULL);
}

tsr_status tsr__routine_dynamic_slice(const tsr__call *call, tsr__error *error)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__gnode *x = &call->program->nodes[tsr__in(call->program, node, 0)];
  (void)error;
  for (int p = 0; p < call->part_count; p++) {
    const tsr__call_part *part = &call->parts[p];
    copying c = { .from = &part->in[0], .to = &part->out[0] };
    for (int d = 0; d < node->rank; d++) {
      c.size[d] = part->out[0].box.size[d];
      if (x->dims[d] != node->dims[d]) /* whole here */
        c.from_start[d] = start_of(part, d, x->dims[d], node->dims[d]);
    }
    copy_box_between(call, &c);
  }
  return TSR_OK;
}

/* Writes the part of the update that lies on the device. */
static void write_update(const tsr__call *call, const tsr__call_part *part)
{
  const tsr__gnode *node = tsr__call_node(call);
  const tsr__gnode *update = &call->program->nodes[tsr__in(call->program, node, 2)];
  const tsr_box *mine = &part->out[0].box, *have = &part->in[2].box;
  copying c = { .from = &part->in[2], .to = &part->out[0] };
  for (int d = 0; d < node->rank; d++) {
    int64_t start = start_of(part, d, node->dims[d], update->dims[d]);
    int64_t first = start + have->start[d], end = first + have->size[d];
    int64_t last = mine->start[d] + mine->size[d];
    int64_t low = first > mine->start[d] ? first : mine->start[d];
    c.to_start[d] = low - mine->start[d];
    c.from_start[d] = low - first;
    c.size[d] = (end < last ? end : last) - low;
  }
  copy_box_between(call, &c);
}

tsr_status tsr__routine_dynamic_update(const tsr__call *call, tsr__error *error)
{
  (void)error;
  for (int p = 0; p < call->part_count; p++) {
    const tsr__call_part *part = &call->parts[p];
    copying c = { .from = &part->in[0], .to = &part->out[0] };
    memcpy(c.size, part->out[0].box.size, sizeof c.size);
    copy_box_between(call, &c);
    write_update(call, part);
  }
  return TSR_OK;
}
