/* Gradients of what bodies know of each other (axes.c), of which all collectives are made.
 *
 *   along a mesh's axis        forward                 back
 *   all: each place gets all   x differs, all is one   own of what is due, which is one, too
 *   own: each takes its own    a is one, own differs   all of what is due
 *   anything else              an operand that is one, of a result that differs: all parts, summed
 *
 * So what is summed goes back as it is, what is gathered is dealt out in sums, and what all places
 * have gets an all-reduce that nobody wrote: backward.c puts axis_meet at each part, and mapping
 * knows what differs. Along the axis of a vmap nothing is one: each element has its own gradient of
 * all of what is not mapped, and what is due to what all have is added up first. */
#include "tessera/shape.h"
#include "transform/backward.h"

typedef tsr_array array;

static array *along(const tsr__pull *p, tsr__op op, array *a)
{
  tsr__ask ask = { .attr = p->attr, .attr_bytes = sizeof(tsr__axis_attr) };
  return tsr__make(NULL, op, TSR__IN(a), &ask, p->site);
}

void tsr__grad_axis_all(const tsr__pull *p)
{
  const tsr__axis_attr *axis = p->attr;
  array *due = p->due;
  if (!axis->of_mesh) {
    tsr_reduce_args sum = { .size = sizeof sum, .dims = { .bits = 1 } };
    sum.x = along(p, TSR__OP_AXIS_ALL, due);
    due = tsr_sum_at(&sum, p->site);
  }
  tsr__give(p, 0, along(p, TSR__OP_AXIS_OWN, due));
}

/* Zeros but for the row of this place. */
static array *own_row(const tsr__pull *p)
{
  const tsr__axis_attr *axis = p->attr;
  tsr_shape line = { .rank = 1, .dims = { axis->size } };
  array *rows = tsr_iota_at(tsr__home(p->due), TSR_I64, line, 0, (tsr_sharding){ 0 }, p->site);
  array *here = tsr_eq_at(rows, tsr_operand_array(along(p, TSR__OP_AXIS_OWN, rows)), p->site);
  for (int d = 1; d < p->in[0]->shape.rank; d++) line.dims[line.rank++] = 1;
  return tsr__only(p, tsr_reshape_at(here, line, p->site), p->due);
}

void tsr__grad_axis_own(const tsr__pull *p)
{
  const tsr__axis_attr *axis = p->attr;
  if (axis->of_mesh) tsr__give_of_all(p, 0, along(p, TSR__OP_AXIS_ALL, p->due), axis);
  else tsr__give(p, 0, own_row(p));
}

/* Where it multiplied or added up, what is due is one at all places, and each part gets that; but a
 * part that is one was counted as often as there are places, and so is what is due to it. */
void tsr__grad_axis_meet(const tsr__pull *p)
{
  int count = p->node->in_count;
  array **in = tsr__arena_new(&tsr__home(p->due)->arena, ((size_t)count + 1) * sizeof *in);
  tsr__ask ask = { .attr = p->attr, .attr_bytes = sizeof(tsr__axis_attr) };
  if (!in) return;
  in[0] = p->due;
  for (int i = 1; i < count; i++) in[i] = p->in[i];
  in[count] = p->in[0];
  tsr__give(p, 0,
            tsr__make(NULL, TSR__OP_AXIS_MEET, (tsr__operands){ in, count + 1 }, &ask, p->site));
}
