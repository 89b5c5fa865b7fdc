/* Batching of what looks into tables and writes to places. Where both vary, the tables lie behind
 * each other as one, and each element's places are counted from the start of its own:
 *
 *   tables [b, 3]   a b c | d e f        at [b, 2]   0 2 | 1 1
 *   as one [b*3]    a b c   d e f        at          0 2   4 4  */
#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "transform/batch.h"

typedef tsr__batched node;

tsr_array *tsr__batch_move(const node *x, tsr_array *a, int from, int to)
{
  return from == to || a->inert ? a : tsr_moveaxis_at(a, from, to, x->site);
}

tsr_array *tsr__batch_numbered(const node *x, tsr_array *at, int64_t size)
{
  tsr_shape front = { .rank = at->shape.rank, .dims = { x->batch->size } };
  for (int d = 1; d < front.rank; d++) front.dims[d] = 1;
  tsr_array *first =
      tsr_iota_at(x->batch->replay.scope, TSR_I64, front, 0, (tsr_sharding){ 0 }, x->site);
  return tsr_add_at(at, TSR_OPERAND(tsr_mul_at(first, TSR_OPERAND(size), x->site)), x->site);
}

/* Dims of each element's table, from `dim` on, as one with the front: [front * size, others].
 *
 *   [b, 2, 5, 4], dim 1 of an element       moved [b, 5, 2, 4]       joined [b*5, 2, 4]
 */
static tsr_array *behind(const node *x, tsr_array *table, int dim, int more)
{
  for (int i = 0; i <= more; i++) table = tsr__batch_move(x, table, dim + 1 + i, 1 + i);
  for (int i = 0; i <= more; i++) table = tsr__join_dims(table, 0, x->site);
  return table;
}

/* 0 of an inert table: what is made of it is inert, too. */
static int64_t size_of(const tsr_array *table, int dim, int more)
{
  int64_t size = 1;
  for (int i = 0; i <= more && !table->inert; i++) size *= table->shape.dims[dim + 1 + i];
  return size;
}

static tsr_array *take_rows(const node *x, tsr_array *table, tsr_array *at)
{
  return tsr__make(x->batch->replay.scope, TSR__OP_TAKE, TSR__IN(table, at),
                   &(tsr__ask){ TSR__ATTR(tsr__dim_attr, .dim = 0) }, x->site);
}

/* A place below 0 counts from the end. */
static tsr_array *from_end(const node *x, tsr_array *at, int64_t size)
{
  tsr_array *low = tsr_lt_at(at, TSR_OPERAND(0), x->site);
  tsr_array *moved = tsr_add_at(at, TSR_OPERAND(size), x->site);
  return tsr_where_at(low, TSR_OPERAND(moved), TSR_OPERAND(at), x->site);
}

/* Places of a dim, of which negative ones count from its end; one out of range fails the run.
 * Before places are counted from each element's own start: behind it one that is out of its table
 * would be a place in the next one. */
static tsr_array *inside(const node *x, tsr_array *at, int64_t size, int dim, int whom)
{
  tsr__ask ask = { TSR__ATTR(tsr__within_attr, .size = size, .dim = dim, .whom = whom) };
  return tsr__make(x->batch->replay.scope, TSR__OP_WITHIN,
                   TSR__IN(tsr_cast_at(at, TSR_I64, x->site)), &ask, x->site);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static tsr_array *take_at(const node *x, int dim, int more)
{
  tsr__span_attr span = { .dim = dim, .more = more };
  tsr__dim_attr one = { .dim = dim };
  bool spans = x->row->attr == TSR__ATTR_SPAN;
  return tsr__batch_make(x, spans ? (const void *)&span : &one, (tsr_shape){ 0 });
}

static tsr_array *take_own(const node *x, int dim, int more)
{
  int whom = x->row->attr == TSR__ATTR_SPAN ? TSR__WITHIN_GATHER : TSR__WITHIN_TAKE;
  int64_t size = size_of(x->in[0], dim, more);
  tsr_array *at = inside(x, x->in[1], size, dim, whom);
  tsr_array *out = take_rows(x, behind(x, x->in[0], dim, more), tsr__batch_numbered(x, at, size));
  /* [front, places .., before .., behind ..]: what was before the dim goes to the front again */
  int places = x->in[1]->shape.rank - 1;
  for (int d = 0; d < dim; d++) out = tsr__batch_move(x, out, 1 + places + d, 1 + d);
  return out;
}

/*   table varies   places vary     what is made
 *   yes            no              the same along the dim behind the front
 *   no             yes             the same; the front came where the dim was, and goes in front
 *   yes            yes             tables behind each other (take_own)
 */
tsr_array *tsr__batch_take(const node *x)
{
  int dim = tsr__dim_of(x->batch->replay.program, x->g);
  int more = tsr__more_of(x->batch->replay.program, x->g);
  if (x->varies[0] && x->varies[1]) return take_own(x, dim, more);
  if (x->varies[0]) return take_at(x, dim + 1, more);
  return tsr__batch_move(x, take_at(x, dim, more), dim, 0);
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

/* Places of each element's table as those of all; what is left out stays out of all of them. */
static tsr_array *places_of_all(const node *x, tsr_array *at, int64_t size)
{
  const tsr__scatter_attr *attr = tsr__batch_attr(x);
  if (!attr->drops)
    return tsr__batch_numbered(x, inside(x, at, size, (int)attr->dim, TSR__WITHIN_SCATTER), size);
  at = tsr_cast_at(at, TSR_I64, x->site);
  at = from_end(x, at, size);
  tsr_array *there = tsr_and_at(tsr_ge_at(at, TSR_OPERAND(0), x->site),
                                TSR_OPERAND(tsr_lt_at(at, TSR_OPERAND(size), x->site)), x->site);
  return tsr_where_at(there, TSR_OPERAND(tsr__batch_numbered(x, at, size)),
                      /* Behind all tables: out for all of them. */
                      TSR_OPERAND(x->batch->size * size), x->site);
}

/* A scatter along dim 0. */
static tsr_array *scatter_rows(const node *x, tsr_array *to, tsr_array *at, tsr_array *updates,
                               tsr__scatter_attr attr)
{
  tsr_array *in[] = { to, at, updates };
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  attr.dim = attr.more = 0;
  return tsr__make(x->batch->replay.scope, TSR__OP_SCATTER, (tsr__operands){ in, 3 }, &ask,
                   x->site);
}

/* Rows of all as elements, with `more` dims of theirs: what `behind` made undone. [b*5, 2, 4] as
 * [b, 5, 2, 4], and the dims that stood before go before again: [b, 2, 5, 4]. */
static tsr_array *apart(const node *x, tsr_array *a, int dim, int more, const tsr_shape *own)
{
  if (a->inert) return a;
  tsr_shape shape = { .rank = own->rank + 1, .dims = { x->batch->size } };
  for (int i = 0; i <= more; i++) shape.dims[1 + i] = own->dims[dim + i];
  for (int d = 0; d < dim; d++) shape.dims[2 + more + d] = own->dims[d];
  for (int d = dim + more + 1; d < own->rank; d++) shape.dims[1 + d] = own->dims[d];
  a = tsr_reshape_at(a, shape, x->site);
  for (int d = 0; d < dim; d++) a = tsr__batch_move(x, a, 2 + more + d, 1 + d);
  return a;
}

tsr_array *tsr__batch_scatter(const node *x)
{
  tsr__scatter_attr attr = *(const tsr__scatter_attr *)tsr__batch_attr(x);
  tsr_shape own = tsr__gnode_shape(x->g);
  int dim = (int)attr.dim, more = (int)attr.more, places = x->in[1]->shape.rank - 1;
  for (int i = 0; i < 3; i += 2)
    if (!x->varies[i]) x->in[i] = tsr__batch_repeat(x->batch, x->in[i], x->site);
  if (!x->varies[1]) {
    attr.dim++;
    return tsr__batch_make(x, &attr, (tsr_shape){ 0 });
  }
  int64_t size = size_of(x->in[0], dim, more);
  tsr_array *updates = x->in[2];
  for (int i = 0; i < places; i++) updates = tsr__batch_move(x, updates, 1 + dim + i, 1 + i);
  tsr_array *out = scatter_rows(x, behind(x, x->in[0], dim, more), places_of_all(x, x->in[1], size),
                                updates, attr);
  return apart(x, out, dim, more, &own);
}

/* ---- boxes ----------------------------------------------------------------------------------- */

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
  tsr_array *table = x->in[0], *at = box_places(x, &whole, box);
  if (x->varies[0]) at = tsr__batch_numbered(x, at, tsr__shape_count(&whole));
  for (int d = 0; d < whole.rank - !x->varies[0]; d++) table = tsr__join_dims(table, 0, x->site);
  return take_rows(x, table, at);
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
  tsr_array *at = tsr__batch_numbered(x, box_places(x, &whole, box), tsr__shape_count(&whole));
  tsr_array *to = tsr_cast_at(x->in[0], by, x->site), *part = tsr_cast_at(x->in[2], by, x->site);
  for (int d = 0; d < whole.rank; d++) to = tsr__join_dims(to, 0, x->site);
  to = scatter_rows(x, to, at, part, (tsr__scatter_attr){ .how = TSR_SCATTER_SET });
  to = tsr_reshape_at(to, tsr__batch_shape(x->batch, whole), x->site);
  return tsr_cast_at(to, dtype, x->site);
}
