/* Batching of look-ups and scatters. If table and indices vary, the front is one more of the batch
 * dims that they share (tsr__span_attr), so that rows which are cut stay on their devices. If only
 * one of them varies, the front is another dim of that one, and comes after the batch dims that
 * they share already:
 *
 *   one element, batch 1    table [g, 5]      indices [g, 2]       dim 1    found [g, 2]
 *   the table varies        table [g, b, 5]   indices [g, 2]       dim 2    found [g, b, 2]
 *   the indices vary        table [g, 5]      indices [g, b, 2]    dim 1    found [g, b, 2]
 *   both, batch 2           table [b, g, 5]   indices [b, g, 2]    dim 2    found [b, g, 2] */
#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "transform/batch.h"

typedef tsr__batched node;

/* ---- tables ---------------------------------------------------------------------------------- */

tsr_array *tsr__batch_take(const node *x)
{
  tsr__span_attr attr = *(const tsr__span_attr *)tsr__batch_attr(x);
  int dim = (int)attr.dim, batch = (int)attr.batch;
  bool both = x->varies[0] && x->varies[1];
  if (x->varies[0]) attr.dim++;
  if (both) attr.batch++;
  for (int i = 0; i < 2 && !both; i++)
    if (x->varies[i]) x->in[i] = tsr__move_dim(x->in[i], 0, batch, x->site);
  tsr_array *out = tsr__batch_make(x, &attr, (tsr_shape){ 0 });
  return both ? out : tsr__move_dim(out, x->varies[0] ? batch : dim, 0, x->site);
}

/* Tables that vary are counted through. A place in a sorted table is the number of its elements
 * that are not above: counted instead of searched where each element has a table of its own: each
 * value is compared with all of its table. */
tsr_array *tsr__batch_search(const node *x)
{
  if (!x->varies[0]) return tsr__batch_as_it_is(x);
  tsr_array *table = x->in[0], *at = x->in[1];
  if (!x->varies[1]) at = tsr__batch_repeat(x->batch, at, x->site);
  int rank = at->shape.rank;
  for (int d = 1; d < rank; d++)
    table = tsr_expand_dims_at(table, tsr_dims_of((int[]){ d }, 1), x->site);
  at = tsr_expand_dims_at(at, tsr_dims_of((int[]){ rank }, 1), x->site);
  tsr_array *below = tsr_le_at(table, TSR_OPERAND(at), x->site);
  tsr_reduce_args count = { .size = sizeof count, .x = below };
  count.dims = tsr_dims_of((int[]){ rank }, 1);
  return tsr_count_at(&count, x->site);
}

/* ---- places ---------------------------------------------------------------------------------- */

tsr_array *tsr__batch_scatter(const node *x)
{
  tsr__scatter_attr attr = *(const tsr__scatter_attr *)tsr__batch_attr(x);
  int front = x->varies[1] ? 0 : (int)attr.batch;
  attr.dim++;
  if (x->varies[1]) attr.batch++;
  for (int i = 0; i < 3; i += 2) {
    if (!x->varies[i]) x->in[i] = tsr__batch_repeat(x->batch, x->in[i], x->site);
    x->in[i] = tsr__move_dim(x->in[i], 0, front, x->site);
  }
  return tsr__move_dim(tsr__batch_make(x, &attr, (tsr_shape){ 0 }), front, 0, x->site);
}

/* ---- boxes ----------------------------------------------------------------------------------- */

/* A place below 0 counts from the end. */
static tsr_array *from_end(const node *x, tsr_array *at, int64_t size)
{
  tsr_array *low = tsr_lt_at(at, TSR_OPERAND(0), x->site);
  tsr_array *moved = tsr_add_at(at, TSR_OPERAND(size), x->site);
  return tsr_where_at(low, TSR_OPERAND(moved), TSR_OPERAND(at), x->site);
}

/* Where in C order the elements of boxes lie that start elsewhere in each element: [front, box]. A
 * start is moved to where all of the box lies inside. */
static tsr_array *box_places(const node *x, const tsr_shape *whole, tsr_shape box)
{
  tsr_scope *scope = x->batch->replay.scope;
  tsr_shape shape = tsr__batch_shape(x->batch, box), ones = shape;
  tsr_array *place =
      tsr_full_at(scope, TSR_OPERAND(0), TSR_I64, shape, (tsr_sharding){ 0 }, x->site);
  int64_t stride = 1;
  for (int d = 1; d < ones.rank; d++) ones.dims[d] = 1;
  for (int d = whole->rank - 1; d >= 0; stride *= whole->dims[d], d--) {
    int64_t size = whole->dims[d];
    tsr_array *at = tsr__part(x->in[1], 1, (tsr_range){ d, d + 1, 1 }, x->site);
    at = tsr_reshape_at(at, ones, x->site);
    at = tsr_maximum_at(from_end(x, at, size), TSR_OPERAND(0), x->site);
    at = tsr_minimum_at(at, TSR_OPERAND(size - box.dims[d]), x->site);
    tsr_array *step = tsr_iota_at(scope, TSR_I64, shape, d + 1, (tsr_sharding){ 0 }, x->site);
    at = tsr_mul_at(tsr_add_at(at, TSR_OPERAND(step), x->site), TSR_OPERAND(stride), x->site);
    place = tsr_add_at(place, TSR_OPERAND(at), x->site);
  }
  return place;
}

/* One start for all elements: the front is whole. */
static tsr_array *with_zero(const node *x, tsr_array *starts)
{
  tsr_pad_args pad = { .size = sizeof pad, .x = starts, .low = { 1 } };
  return tsr_pad_at(&pad, x->site);
}

static tsr_shape own_shape(const node *x, int i)
{
  const tsr__program *program = x->batch->replay.program;
  return tsr__gnode_shape(&program->nodes[tsr__in(program, x->g, i)]);
}

tsr_array *tsr__batch_box(const node *x)
{
  tsr_shape whole = own_shape(x, 0), box = tsr__gnode_shape(x->g);
  if (!x->varies[1]) {
    x->in[1] = with_zero(x, x->in[1]);
    return tsr__batch_slice(x);
  }
  /* A number is its own box. */
  if (!whole.rank) return x->varies[0] ? x->in[0] : tsr__batch_repeat(x->batch, x->in[0], x->site);
  tsr_array *at = box_places(x, &whole, box);
  tsr__span_attr attr = { .dim = x->varies[0], .batch = x->varies[0], .more = whole.rank - 1 };
  return tsr__make(x->batch->replay.scope, TSR__OP_GATHER, TSR__IN(x->in[0], at),
                   &(tsr__ask){ .attr = &attr, .attr_bytes = sizeof attr }, x->site);
}

/* Bools go through u8, as a scatter has none of them. */
tsr_array *tsr__batch_update(const node *x)
{
  tsr_shape whole = own_shape(x, 0), box = own_shape(x, 2);
  tsr_dtype dtype = (tsr_dtype)x->g->dtype, by = dtype == TSR_BOOL ? TSR_U8 : dtype;
  for (int i = 0; i < 3; i += 2)
    if (!x->varies[i]) x->in[i] = tsr__batch_repeat(x->batch, x->in[i], x->site);
  if (!x->varies[1]) {
    x->in[1] = with_zero(x, x->in[1]);
    return tsr__batch_make(x, NULL, (tsr_shape){ 0 });
  }
  if (!whole.rank) return x->in[2];
  tsr__scatter_attr attr = { .dim = 1, .batch = 1, .more = whole.rank - 1, .how = TSR_SCATTER_SET };
  tsr_array *to = tsr_cast_at(x->in[0], by, x->site), *part = tsr_cast_at(x->in[2], by, x->site);
  to = tsr__make(x->batch->replay.scope, TSR__OP_SCATTER,
                 TSR__IN(to, box_places(x, &whole, box), part),
                 &(tsr__ask){ .attr = &attr, .attr_bytes = sizeof attr }, x->site);
  return tsr_cast_at(to, dtype, x->site);
}
