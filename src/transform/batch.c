/* Batching: a region replayed with one more dim in front of all that varies.
 *
 *   region     x [3]   w [3]          y = x * w      z = sum(y)       one element
 *   replay     x [b,3] w [3]          y [b,3]        z [b]            all b of them
 *
 * What a row makes of operands with a dim in front follows from its shape rule: attributes that
 * name dims name the next ones, shapes get one more, and a contraction one more letter. So no row
 * says it for itself; those that cannot be mapped over are the rules that are missing below. */
#include "transform/batch.h"

#include "tessera/indexing.h"
#include "tessera/shape.h"

/* One node in the making: its operands, and which of them have the dim in front. */
typedef struct node {
  tsr__batch *batch;
  int n;
  const tsr__gnode *g;
  const tsr__opinfo *row;
  tsr_array **in;
  bool *varies;
  int count;
  const char *site;
} node;

static tsr_array *refuse(const node *x, const char *why)
{
  tsr__fail(x->batch->replay.scope, x->site, TSR_EUNSUPPORTED,
            "tsr_%s: it cannot be mapped over %s", x->row->name, why);
  return tsr__make_inert(x->batch->replay.scope, x->site);
}

static tsr_shape with_front(const tsr__batch *b, tsr_shape shape)
{
  tsr_shape out = { .rank = shape.rank + 1, .dims = { b->size } };
  for (int d = 0; d < shape.rank && d + 1 < TSR_MAX_RANK; d++) out.dims[d + 1] = shape.dims[d];
  return out;
}

tsr_array *tsr__batch_repeat(const tsr__batch *b, tsr_array *a, const char *site)
{
  return tsr_broadcast_to_at(a, with_front(b, a->shape), site);
}

static void repeat_all(const node *x)
{
  for (int i = 0; i < x->count; i++)
    if (x->in[i] && !x->varies[i]) x->in[i] = tsr__batch_repeat(x->batch, x->in[i], x->site);
}

/* The row on the operands as they are now, with another attribute and shape. */
static tsr_array *make(const node *x, const void *attr, tsr_shape shape)
{
  tsr__region *regions[TSR__MAX_REGIONS];
  tsr__ask ask = tsr__replay_ask(&x->batch->replay, x->n, regions);
  ask.shape = shape;
  ask.attr = attr;
  return tsr__make(x->batch->replay.scope, (tsr__op)x->g->op, (tsr__operands){ x->in, x->count },
                   &ask, x->site);
}

static const void *attr_of(const node *x)
{
  return x->g->attr_bytes ? tsr__attr_of(x->batch->replay.program, x->g) : NULL;
}

static tsr_array *as_it_is(const node *x)
{
  return make(x, attr_of(x), with_front(x->batch, tsr__gnode_shape(x->g)));
}

/* ---- by shape rule --------------------------------------------------------------------------- */

/* What varies, with dims of size 1 behind the front, so that its own stay aligned at the last ones
 * of `rank` dims of an element. */
static tsr_array *aligned(const node *x, tsr_array *a, int rank)
{
  tsr_shape shape = { .rank = rank + 1, .dims = { x->batch->size } };
  int skip = rank + 1 - a->shape.rank;
  for (int d = 1; d < shape.rank && d < TSR_MAX_RANK; d++)
    shape.dims[d] = d <= skip ? 1 : a->shape.dims[d - skip];
  return skip ? tsr_reshape_at(a, shape, x->site) : a;
}

static tsr_array *element(const node *x)
{
  int rank = 0;
  for (int i = 0; i < x->count; i++) {
    int own = x->in[i] ? x->in[i]->shape.rank - x->varies[i] : 0;
    rank = own > rank ? own : rank;
  }
  for (int i = 0; i < x->count; i++)
    if (x->in[i] && x->varies[i]) x->in[i] = aligned(x, x->in[i], rank);
  return as_it_is(x);
}

/* A broadcast, or FULL of a number that varies. */
static tsr_array *spread(const node *x)
{
  return tsr_broadcast_to_at(aligned(x, x->in[0], x->g->rank),
                             with_front(x->batch, tsr__gnode_shape(x->g)), x->site);
}

static tsr_array *reduce(const node *x)
{
  tsr__reduce_attr attr = *(const tsr__reduce_attr *)attr_of(x);
  if (attr.groups) return refuse(x, "with groups");
  repeat_all(x);
  bool scalars = x->in[0]->shape.rank == 1; /* one gets a dim to reduce: not all return itself */
  for (int i = 0; i < x->count && scalars; i++)
    if (x->in[i]) x->in[i] = aligned(x, x->in[i], 1);
  attr.dims = scalars ? 2 : attr.dims << 1;
  attr.keep = attr.keep && !scalars;
  return make(x, &attr, (tsr_shape){ 0 });
}

/* Families whose first field is a dim, counted from the front. */
static tsr_array *next_dim(const node *x)
{
  char attr[sizeof(tsr__scatter_attr) + sizeof(tsr__sort_attr)];
  int64_t dim;
  memcpy(attr, attr_of(x), x->g->attr_bytes);
  memcpy(&dim, attr, sizeof dim);
  dim++;
  memcpy(attr, &dim, sizeof dim);
  return make(x, attr, (tsr_shape){ 0 });
}

static tsr_array *along(const node *x)
{
  repeat_all(x);
  return next_dim(x);
}

static tsr_array *slice(const node *x)
{
  const tsr__slice_attr *from = attr_of(x);
  tsr__slice_attr attr = { .start = { 0 } };
  if (x->count > 1) return refuse(x, "where its start varies");
  for (int d = 0; d + 1 < TSR_MAX_RANK; d++) {
    attr.start[d + 1] = from->start[d];
    attr.step[d + 1] = from->step[d];
    attr.size[d + 1] = from->size[d];
  }
  return make(x, &attr, (tsr_shape){ 0 });
}

static tsr_array *order(const node *x)
{
  const tsr__order_attr *from = attr_of(x);
  tsr__order_attr attr = { .dims = { 0 } };
  for (int d = 0; d + 1 < TSR_MAX_RANK && d < x->g->rank; d++)
    attr.dims[d + 1] = (uint8_t)(from->dims[d] + 1);
  return make(x, &attr, (tsr_shape){ 0 });
}

static tsr_array *pad(const node *x)
{
  const tsr__pad_attr *from = attr_of(x);
  tsr__pad_attr attr = { .low = { 0 } };
  if (x->varies[1]) return refuse(x, "where the number around it varies");
  for (int d = 0; d + 1 < TSR_MAX_RANK; d++) {
    attr.low[d + 1] = from->low[d];
    attr.high[d + 1] = from->high[d];
  }
  return make(x, &attr, (tsr_shape){ 0 });
}

/* One more letter, in front of all that vary. */
static tsr_array *dot(const node *x)
{
  const tsr__dot_attr *from = attr_of(x);
  tsr__dot_attr attr = *from;
  uint8_t letter = 1;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    letter = from->left[d] >= letter ? (uint8_t)(from->left[d] + 1) : letter;
    letter = from->right[d] >= letter ? (uint8_t)(from->right[d] + 1) : letter;
    letter = from->window[d] >= letter ? (uint8_t)(from->window[d] + 1) : letter;
  }
  for (int d = TSR_MAX_RANK - 1; d > 0; d--) {
    attr.out[d] = from->out[d - 1];
    if (x->varies[1]) attr.right[d] = from->right[d - 1];
    if (!x->varies[0]) continue;
    attr.left[d] = from->left[d - 1];
    attr.window[d] = from->window[d - 1];
    attr.stride[d] = from->stride[d - 1];
    attr.dilation[d] = from->dilation[d - 1];
    attr.places[d] = from->places[d - 1];
  }
  attr.out[0] = letter;
  if (x->varies[1]) attr.right[0] = letter;
  if (x->varies[0]) {
    attr.left[0] = letter;
    attr.window[0] = 0;
    attr.stride[0] = attr.dilation[0] = attr.places[0] = 0;
  }
  return make(x, &attr, (tsr_shape){ 0 });
}

/* ---- tables ---------------------------------------------------------------------------------- */

static tsr_array *move(const node *x, tsr_array *a, int from, int to)
{
  return from == to || a->inert ? a : tsr_moveaxis_at(a, from, to, x->site);
}

static tsr_array *take_at(const node *x, tsr_array *table, tsr_array *at, int dim, int more)
{
  tsr__span_attr span = { .dim = dim, .more = more };
  tsr__dim_attr one = { .dim = dim };
  bool spans = x->row->attr == TSR__ATTR_SPAN;
  tsr__ask ask = { .attr = spans ? (const void *)&span : &one,
                   .attr_bytes = spans ? sizeof span : sizeof one };
  return tsr__make(x->batch->replay.scope, (tsr__op)x->g->op, TSR__IN(table, at), &ask, x->site);
}

/* Both vary: tables in a row, of which each place looks into its own. */
static tsr_array *take_own(const node *x, int dim, int more)
{
  tsr_array *table = x->in[0], *at = x->in[1];
  int64_t size = 1;
  tsr_shape flat = { .rank = table->shape.rank - 1 - more };
  for (int i = 0; i <= more; i++) {
    size *= table->shape.dims[dim + 1 + i];
    table = move(x, table, dim + 1 + i, 1 + i);
  }
  flat.dims[0] = x->batch->size * size;
  for (int d = 1; d < flat.rank; d++) flat.dims[d] = table->shape.dims[d + 1 + more];
  table = tsr_reshape_at(table, flat, x->site);
  tsr_shape front = { .rank = at->shape.rank, .dims = { x->batch->size } };
  for (int d = 1; d < front.rank; d++) front.dims[d] = 1;
  tsr_array *first =
      tsr_iota_at(x->batch->replay.scope, TSR_I64, front, 0, (tsr_sharding){ 0 }, x->site);
  at = tsr_add_at(at, TSR_OPERAND(tsr_mul_at(first, TSR_OPERAND(size), x->site)), x->site);
  tsr_array *out = tsr__make(x->batch->replay.scope, TSR__OP_TAKE, TSR__IN(table, at),
                             &(tsr__ask){ TSR__ATTR(tsr__dim_attr, .dim = 0) }, x->site);
  /* [front, places .., before .., behind ..]: what was before the dim goes to the front again */
  int places = at->shape.rank - 1;
  for (int d = 0; d < dim; d++) out = move(x, out, 1 + places + d, 1 + d);
  return out;
}

static tsr_array *take(const node *x)
{
  int dim = tsr__dim_of(x->batch->replay.program, x->g);
  int more = tsr__more_of(x->batch->replay.program, x->g);
  if (x->varies[0] && x->varies[1]) return take_own(x, dim, more);
  if (x->varies[0]) return take_at(x, x->in[0], x->in[1], dim + 1, more);
  return move(x, take_at(x, x->in[0], x->in[1], dim, more), dim, 0);
}

static tsr_array *search(const node *x)
{
  return x->varies[0] ? refuse(x, "where the table varies") : as_it_is(x);
}

/* Places that do not vary are the same in all of them. */
static tsr_array *scatter(const node *x)
{
  if (x->varies[1]) return refuse(x, "where the places vary");
  for (int i = 0; i < x->count; i += 2)
    if (!x->varies[i]) x->in[i] = tsr__batch_repeat(x->batch, x->in[i], x->site);
  return next_dim(x);
}

/* ---- placing --------------------------------------------------------------------------------- */

/* A constraint of an element is one of all of them, which leaves the front to the planner. */
static tsr_array *placed(const node *x)
{
  const tsr__program *program = x->batch->replay.program;
  tsr_sharding at = program->shardings[x->g->sharding], moved = at;
  if (!at.mesh) return x->in[0];
  moved.rank = (uint8_t)(at.rank < TSR_MAX_RANK ? at.rank + 1 : at.rank);
  for (int d = TSR_MAX_RANK; d > 0; d--) moved.first[d] = at.first[d - 1];
  moved.first[0] = 0;
  moved.open = (uint8_t)(at.open << 1 | 1);
  return tsr_constrain_at(x->in[0], moved, x->site);
}

/* ---- named axes ------------------------------------------------------------------------------ */

static bool is_own(const node *x)
{
  const tsr__axis_attr *axis = attr_of(x);
  return x->batch->axis && !strcmp(axis->name, x->batch->axis);
}

/* What varies along the axis is, with its front, the array of all: it varies no more. */
static tsr_array *axis_all(const node *x, bool *varies)
{
  if (!is_own(x)) {
    tsr_array *out = make(x, attr_of(x), (tsr_shape){ 0 });
    return x->varies[0] ? move(x, out, 1, 0) : out;
  }
  *varies = false;
  return x->varies[0] ? x->in[0] : tsr__batch_repeat(x->batch, x->in[0], x->site);
}

static tsr_array *axis_own(const node *x, bool *varies)
{
  tsr_array *a = x->in[0];
  if (!is_own(x)) {
    x->in[0] = x->varies[0] ? move(x, a, 1, 0) : a;
    return make(x, attr_of(x), (tsr_shape){ 0 });
  }
  *varies = true;
  if (!x->varies[0]) return a;
  /* [front, axis, ..]: the diagonal of two dims of one size, as rows of both as one */
  tsr_shape flat = { .rank = a->shape.rank - 1, .dims = { x->batch->size * x->batch->size } };
  for (int d = 1; d < flat.rank; d++) flat.dims[d] = a->shape.dims[d + 1];
  tsr_array *rows = tsr_iota_at(x->batch->replay.scope, TSR_I64,
                                (tsr_shape){ .rank = 1, .dims = { x->batch->size } }, 0,
                                (tsr_sharding){ 0 }, x->site);
  tsr_array *at = tsr_mul_at(rows, TSR_OPERAND(x->batch->size + 1), x->site);
  return tsr_take_at(&(tsr_take_args){ .size = sizeof(tsr_take_args),
                                       .x = tsr_reshape_at(a, flat, x->site),
                                       .indices = at },
                     x->site);
}

/* ---- all ------------------------------------------------------------------------------------- */

static tsr_array *batch_node(const node *x, bool *varies)
{
  switch (x->row->shape_rule) {
  case TSR__SH_ELEMENT: return element(x);
  case TSR__SH_REDUCE: return reduce(x);
  case TSR__SH_FIRST: return placed(x);
  case TSR__SH_TAKE: return take(x);
  case TSR__SH_SEARCH: return search(x);
  case TSR__SH_TAKE_ALONG:
  case TSR__SH_ALONG:
  case TSR__SH_KEYS:
  case TSR__SH_TOP:
  case TSR__SH_ROLL:
  case TSR__SH_CONCAT: return along(x);
  case TSR__SH_SCATTER: return scatter(x);
  case TSR__SH_DOT: return dot(x);
  case TSR__SH_SLICE: return slice(x);
  case TSR__SH_ORDER: return order(x);
  case TSR__SH_SOURCE:
  case TSR__SH_BROADCAST: return spread(x);
  case TSR__SH_PAD: return pad(x);
  case TSR__SH_RESHAPE: return as_it_is(x);
  case TSR__SH_RESULT: return as_it_is(x);
  case TSR__SH_CALL: return tsr__batch_custom(x->batch, x->n, x->in, x->varies);
  case TSR__SH_AXIS_ALL: return axis_all(x, varies);
  case TSR__SH_AXIS_OWN: return axis_own(x, varies);
  default: return refuse(x, "yet");
  }
}

static bool batch_one(tsr__batch *b, int n)
{
  const tsr__program *program = b->replay.program;
  const tsr__gnode *g = &program->nodes[n];
  tsr_scope *scope = b->replay.scope;
  size_t room = (size_t)g->in_count + 1;
  node x = { .batch = b,
             .n = n,
             .g = g,
             .row = &tsr__ops[g->op],
             .in = tsr__arena_new(&scope->arena, room * sizeof *x.in),
             .varies = tsr__arena_new(&scope->arena, room),
             .count = g->in_count,
             .site = program->sites[n] ? program->sites[n] : b->replay.site };
  if (!x.in || !x.varies) return false;
  bool any = x.row->lowering == TSR__LOW_NAMED;
  for (int i = 0; i < g->in_count; i++) {
    int o = tsr__in(program, g, i);
    x.in[i] = o < 0 ? NULL : b->replay.at[o];
    x.varies[i] = o >= 0 && b->varies[o];
    any |= x.varies[i];
    if (x.in[i] && x.in[i]->inert) {
      b->replay.at[n] = x.in[i];
      return true;
    }
  }
  bool varies = any && (x.row->lowering != TSR__LOW_NAMED || x.varies[0]);
  b->replay.at[n] = any ? batch_node(&x, &varies)
                        : tsr__replay_make(&b->replay, n, (tsr__operands){ x.in, x.count });
  b->varies[n] = varies;
  return true;
}

bool tsr__batch_through(tsr__batch *b, const bool *arguments)
{
  const tsr__program *program = b->replay.program;
  tsr_scope *scope = b->replay.scope;
  size_t room = (size_t)program->node_count + 1;
  b->varies = tsr__arena_new(&scope->arena, room);
  if (!b->varies) return false;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *g = &program->nodes[n];
    if (g->op == TSR__OP_ARG) b->varies[n] = arguments[tsr__index_of(program, g)];
    else if (!batch_one(b, n)) return false;
  }
  return true;
}
