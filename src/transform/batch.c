/* Batching: a region replayed with one more dim in front of all that varies.
 *
 *   region     x [3]   w [3]          y = x * w      z = sum(y)       one element
 *   replay     x [b,3] w [3]          y [b,3]        z [b]            all b of them
 *
 * A row names in the column BATCH of ops.def how operands with a dim in front are taken: attributes
 * that name dims name the next ones, shapes get one more, and a contraction one more letter. Rows
 * that look into tables are in batch_lookup.c.
 *
 * Invariant: what varies has the front as dim 0, and nothing else has it; what does not vary is
 * made once. `varies` of a node is final when it was made, as its operands stand before it. */
#include "transform/batch.h"

#include "tessera/indexing.h"
#include "tessera/shape.h"

typedef tsr__batched node;

/* The column BATCH: how a row is mapped over, or why it is not. */
typedef struct rule {
  tsr__batch_fn *map;
  const char *none;
} rule;

#define BATCH(name) .map = tsr__batch_##name,
#define NO_BATCH(reason) .none = reason,
#define OP(id, text, kernel, ...) [TSR__OP_##id] = { __VA_ARGS__ },
static const rule rules[TSR__OPS] = {
#include "graph/ops.def"
};

const char *tsr__batch_kind(int op)
{
  return rules[op].map ? "rule" : rules[op].none;
}

/* Of an operand of all dims the rank goes beyond TSR_MAX_RANK; the call made of it tells. */
tsr_shape tsr__batch_shape(const tsr__batch *b, tsr_shape shape)
{
  tsr_shape out = { .rank = shape.rank + 1, .dims = { b->size } };
  for (int d = 0; d < shape.rank && d + 1 < TSR_MAX_RANK; d++) out.dims[d + 1] = shape.dims[d];
  return out;
}

tsr_array *tsr__batch_repeat(const tsr__batch *b, tsr_array *a, const char *site)
{
  return tsr_broadcast_to_at(a, tsr__batch_shape(b, a->shape), site);
}

/* For rows that need all operands alike. A broadcast is a way of reading, so nothing is copied
 * for it where a kernel reads. */
static void repeat_all(const node *x)
{
  for (int i = 0; i < x->count; i++)
    if (x->in[i] && !x->varies[i]) x->in[i] = tsr__batch_repeat(x->batch, x->in[i], x->site);
}

/* The row on the operands as they are now, with another attribute and shape. A shape of rank 0
 * where inference finds it from the operands. Sharding is not taken along: of one element it says
 * nothing of all. */
tsr_array *tsr__batch_make(const node *x, const void *attr, tsr_shape shape)
{
  tsr__region *regions[TSR__MAX_REGIONS];
  tsr__ask ask = tsr__replay_ask(&x->batch->replay, x->n, regions);
  ask.shape = shape;
  ask.attr = attr;
  return tsr__make(x->batch->replay.scope, (tsr__op)x->g->op, (tsr__operands){ x->in, x->count },
                   &ask, x->site);
}

const void *tsr__batch_attr(const node *x)
{
  return x->g->attr_bytes ? tsr__attr_of(x->batch->replay.program, x->g) : NULL;
}

tsr_array *tsr__batch_as_it_is(const node *x)
{
  return tsr__batch_make(x, tsr__batch_attr(x), tsr__batch_shape(x->batch, tsr__gnode_shape(x->g)));
}

/* ---- rules ----------------------------------------------------------------------------------- */

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

/* Broadcasting aligns last dims, and the front must not meet one of an element's:
 *
 *   element    x [3]     w [2,3]              x + w  [2,3]
 *   all        x [b,3]   w [2,3]      wrong: b would meet 2
 *              x [b,1,3] w [2,3]              x + w  [b,2,3] */
tsr_array *tsr__batch_element(const node *x)
{
  int rank = 0;
  for (int i = 0; i < x->count; i++) {
    int own = x->in[i] ? x->in[i]->shape.rank - x->varies[i] : 0;
    rank = own > rank ? own : rank;
  }
  for (int i = 0; i < x->count; i++)
    if (x->in[i] && x->varies[i]) x->in[i] = aligned(x, x->in[i], rank);
  return tsr__batch_as_it_is(x);
}

/* Operands of one type, of which the attribute names no dim. */
tsr_array *tsr__batch_alike(const node *x)
{
  repeat_all(x);
  return tsr__batch_as_it_is(x);
}

/* A broadcast, or FULL of a number that varies. */
tsr_array *tsr__batch_spread(const node *x)
{
  return tsr_broadcast_to_at(aligned(x, x->in[0], x->g->rank),
                             tsr__batch_shape(x->batch, tsr__gnode_shape(x->g)), x->site);
}

/* Places in all elements as places in each, of argmin and argmax in groups. Below 0 stands for a
 * group without elements, and stays so. */
static tsr_array *own_places(const node *x, tsr_array *at)
{
  const tsr__program *program = x->batch->replay.program;
  tsr_shape one = tsr__gnode_shape(&program->nodes[tsr__in(program, x->g, 0)]);
  int64_t count = tsr__shape_count(&one);
  tsr_array *none = tsr_lt_at(at, TSR_OPERAND(0), x->site);
  tsr_array *own = tsr_mod_at(at, TSR_OPERAND(count ? count : 1), x->site);
  return tsr_where_at(none, TSR_OPERAND(at), TSR_OPERAND(own), x->site);
}

static tsr_array *put_in_groups(const node *x, tsr_array *to, tsr_array *at, tsr_array *part,
                                int how)
{
  tsr__scatter_attr attr = { .dim = 1, .batch = 1, .how = how, .drops = 1 };
  return tsr__make(x->batch->replay.scope, TSR__OP_SCATTER, TSR__IN(to, at, part),
                   &(tsr__ask){ .attr = &attr, .attr_bytes = sizeof attr }, x->site);
}

/* Sums and counts by group are added to the groups of each element, so that rows which are cut stay
 * where they are. A sum of -0 alone is -0, and that of no element is 0. */
static tsr_array *summed_by_group(const node *x, int64_t groups)
{
  tsr_dtype dtype = (tsr_dtype)x->g->dtype;
  tsr_array *at = tsr_cast_at(x->in[2], TSR_I64, x->site), *mask = x->count > 1 ? x->in[1] : NULL;
  tsr_array *part = tsr_cast_at(x->in[0], dtype, x->site);
  tsr_array *none = tsr_lt_at(at, TSR_OPERAND(0), x->site);
  at = tsr_where_at(none, TSR_OPERAND(groups), TSR_OPERAND(at), x->site);
  if (mask) at = tsr_where_at(mask, TSR_OPERAND(at), TSR_OPERAND(groups), x->site);
  tsr_array *to =
      tsr_full_at(x->batch->replay.scope, TSR_OPERAND(0), dtype,
                  tsr__batch_shape(x->batch, tsr__gnode_shape(x->g)), (tsr_sharding){ 0 }, x->site);
  if (tsr__dtype_rounds(dtype)) {
    tsr_array *zeros = tsr_full_at(x->batch->replay.scope, TSR_OPERAND(-0.0), dtype, part->shape,
                                   (tsr_sharding){ 0 }, x->site);
    to = put_in_groups(x, to, at, zeros, TSR_SCATTER_SET);
  }
  return put_in_groups(x, to, at, part, TSR_SCATTER_ADD);
}

/* Numbers below `size` of each element as numbers of all elements, i64. */
static tsr_array *numbered_through(const node *x, tsr_array *at, int64_t size)
{
  tsr_shape front = { .rank = at->shape.rank, .dims = { x->batch->size } };
  for (int d = 1; d < front.rank; d++) front.dims[d] = 1;
  tsr_array *first =
      tsr_iota_at(x->batch->replay.scope, TSR_I64, front, 0, (tsr_sharding){ 0 }, x->site);
  return tsr_add_at(at, TSR_OPERAND(tsr_mul_at(first, TSR_OPERAND(size), x->site)), x->site);
}

/* Each element has groups of its own, behind those of the one before. */
static tsr_array *grouped(const node *x, tsr__reduce_attr *attr)
{
  int64_t groups = attr->groups, size = x->batch->size;
  tsr_shape shape = tsr__batch_shape(x->batch, tsr__gnode_shape(x->g));
  tsr_sharding any = { .mesh = NULL };
  /* No elements: groups times 0 would be none at all, which stands for "not grouped". */
  if (!size)
    return tsr_full_at(x->batch->replay.scope, TSR_OPERAND(0), (tsr_dtype)x->g->dtype, shape, any,
                       x->site);
  /*   element 0   codes 0 2 1     element 1   codes 1 1 -1        3 groups each
   *   all         codes 0 2 1                       4 4 -1        6 groups: one pass over memory
   *
   * A code below 0 is in no group. */
  repeat_all(x);
  bool sums = x->row->acc == TSR__ACC_SUM && x->row->finish == TSR__FINISH_VALUE;
  if (sums || x->row->acc == TSR__ACC_COUNT) return summed_by_group(x, groups);
  tsr_array *codes = tsr_cast_at(x->in[2], TSR_I64, x->site);
  tsr_array *none = tsr_lt_at(codes, TSR_OPERAND(0), x->site);
  tsr_array *own = numbered_through(x, codes, groups);
  x->in[2] = tsr_where_at(none, TSR_OPERAND(codes), TSR_OPERAND(own), x->site);
  attr->groups *= size;
  attr->dims = (UINT32_C(1) << x->in[0]->shape.rank) - 1;
  tsr_array *out = tsr__split_dim(tsr__batch_make(x, attr, (tsr_shape){ 0 }), 0, size, x->site);
  bool places = x->row->acc == TSR__ACC_ARGMIN || x->row->acc == TSR__ACC_ARGMAX;
  return places ? own_places(x, out) : out;
}

/* A reduction of a number reduces nothing: as a dim of size 1 behind the front it does the same. */
tsr_array *tsr__batch_reduce(const node *x)
{
  tsr__reduce_attr attr = *(const tsr__reduce_attr *)tsr__batch_attr(x);
  if (attr.groups) return grouped(x, &attr);
  repeat_all(x);
  bool scalars = x->in[0]->shape.rank == 1; /* one gets a dim to reduce: not all return itself */
  for (int i = 0; i < x->count && scalars; i++)
    if (x->in[i]) x->in[i] = aligned(x, x->in[i], 1);
  /* Bits of dims: each is one further back now. */
  attr.dims = scalars ? 2 : attr.dims << 1;
  attr.keep = attr.keep && !scalars;
  return tsr__batch_make(x, &attr, (tsr_shape){ 0 });
}

/* Families whose first field is a dim, counted from the front. All of the operands, as sorts and
 * their like take arrays of one shape. */
tsr_array *tsr__batch_along(const node *x)
{
  /* Room for any of these families. */
  char attr[sizeof(tsr__scatter_attr) + sizeof(tsr__sort_attr)];
  int64_t dim;
  memcpy(attr, tsr__batch_attr(x), x->g->attr_bytes);
  /* The attributes of all these rows begin with their dim. */
  memcpy(&dim, attr, sizeof dim);
  dim++;
  memcpy(attr, &dim, sizeof dim);
  repeat_all(x);
  return tsr__batch_make(x, attr, (tsr_shape){ 0 });
}

/* Step 0 in front: the front is shown as it is. */
tsr_array *tsr__batch_slice(const node *x)
{
  const tsr__slice_attr *from = tsr__batch_attr(x);
  tsr__slice_attr attr = { .start = { 0 } };
  for (int d = 0; d + 1 < TSR_MAX_RANK; d++) {
    attr.start[d + 1] = from->start[d];
    attr.step[d + 1] = from->step[d];
    attr.size[d + 1] = from->size[d];
  }
  return tsr__batch_make(x, &attr, (tsr_shape){ 0 });
}

/* dims[0] stays 0: the front is where it was. */
tsr_array *tsr__batch_order(const node *x)
{
  const tsr__order_attr *from = tsr__batch_attr(x);
  tsr__order_attr attr = { .dims = { 0 } };
  for (int d = 0; d + 1 < TSR_MAX_RANK && d < x->g->rank; d++)
    attr.dims[d + 1] = (uint8_t)(from->dims[d] + 1);
  return tsr__batch_make(x, &attr, (tsr_shape){ 0 });
}

/* A view that shows operand 1 where operand 0 is not shown, and each element has a number of its
 * own. `map`: the view of elements that have one. */
static tsr_array *view_with(const node *x, tsr__batch_fn *map)
{
  tsr_scope *scope = x->batch->replay.scope;
  /* A view shows one number beside all of its operand, so where each element has its own the
   * number is chosen afterwards: viewed with 0, then by a mask of the shape of one element. */
  node with = *x;
  tsr__ask ask = { .attr = tsr__batch_attr(x), .attr_bytes = x->g->attr_bytes };
  tsr__op op = (tsr__op)x->g->op;
  tsr_shape own = tsr__gnode_shape(
      &x->batch->replay.program->nodes[tsr__in(x->batch->replay.program, x->g, 0)]);
  tsr_array *number = aligned(x, x->in[1], x->g->rank), *other[2] = { x->in[0], NULL };
  other[1] = tsr__make_const(scope, (tsr_dtype)x->g->dtype, (tsr__num){ 0 }, x->site);
  with.in = other;
  with.varies = (bool[]){ x->varies[0], false };
  tsr_array *viewed =
      x->varies[0] ? map(&with) : tsr__make(NULL, op, TSR__IN(other[0], other[1]), &ask, x->site);
  tsr_array *inside =
      tsr_full_at(scope, tsr_operand_bool(true), TSR_BOOL, own, (tsr_sharding){ 0 }, x->site);
  tsr_array *border = tsr__make_const(scope, TSR_BOOL, (tsr__num){ 0 }, x->site);
  inside = tsr__make(NULL, op, TSR__IN(inside, border), &ask, x->site);
  return tsr_where_at(inside, TSR_OPERAND(viewed), TSR_OPERAND(number), x->site);
}

tsr_array *tsr__batch_pad(const node *x)
{
  const tsr__pad_attr *from = tsr__batch_attr(x);
  tsr__pad_attr attr = { .low = { 0 } };
  if (x->varies[1]) return view_with(x, tsr__batch_pad);
  for (int d = 0; d + 1 < TSR_MAX_RANK; d++) {
    attr.low[d + 1] = from->low[d];
    attr.high[d + 1] = from->high[d];
  }
  return tsr__batch_make(x, &attr, (tsr_shape){ 0 });
}

tsr_array *tsr__batch_pick(const node *x)
{
  tsr_scope *scope = x->batch->replay.scope;
  if (x->count > 1 && x->varies[1]) return view_with(x, tsr__batch_pick);
  tsr__pick_attr *attr = tsr__arena_new(&scope->arena, x->g->attr_bytes);
  if (!attr) return tsr__or_no_memory(scope, NULL, "tsr_vmap", x->site);
  memcpy(attr, tsr__batch_attr(x), x->g->attr_bytes);
  attr->dim++;
  return tsr__batch_make(x, attr, (tsr_shape){ 0 });
}

/* One more letter, in front of all that vary. */
/*   element   ik,kj->ij          letters are numbers: i 1, k 2, j 3
 *   all       bik,kj->bij        b 4: the first that is free
 *             ik,bkj->bij        where only the right one varies
 *             bik,bkj->bij       a batch of products
 *
 * Of windows the front has none: its stride and width are 0. */
tsr_array *tsr__batch_dot(const node *x)
{
  const tsr__dot_attr *from = tsr__batch_attr(x);
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
  return tsr__batch_make(x, &attr, (tsr_shape){ 0 });
}

/* ---- placing --------------------------------------------------------------------------------- */

/* Of any dim: first[rank] is how many axes there are. */
static bool names_axis(const tsr_sharding *at, const char *name)
{
  for (int i = 0; i < at->first[at->rank]; i++)
    if (!strcmp(at->mesh->names[at->axis[i]], name)) return true;
  return false;
}

/* The devices along a manual axis run the body, each for its own element: nothing is left to cut
 * there. */
static tsr_array *refuse_place(const node *x)
{
  tsr__fail(x->batch->replay.scope, x->site, TSR_EAXIS,
            "tsr_%s: axis %s is manual here: the body runs at one position of the axis; leave the "
            "axis out of the spec, or place the result of tsr_shard_map",
            x->row->name, x->batch->axis);
  return tsr__make_inert(x->batch->replay.scope, x->site);
}

/* The sharding of all elements in which one lies as the node says: the front is the planner's. */
static tsr_sharding with_front(const node *x)
{
  tsr_sharding at = x->batch->replay.program->shardings[x->g->sharding], moved = at;
  moved.rank = (uint8_t)(at.rank < TSR_MAX_RANK ? at.rank + 1 : at.rank);
  for (int d = TSR_MAX_RANK; d > 0; d--) moved.first[d] = at.first[d - 1];
  /* No axes for the front, and it is open: an element that is to lie somewhere says nothing of
   * where elements lie. */
  moved.first[0] = 0;
  moved.open = (uint16_t)(at.open << 1 | 1);
  return moved;
}

/* A constraint of an element is one of all of them. */
tsr_array *tsr__batch_place(const node *x)
{
  const tsr__program *program = x->batch->replay.program;
  const tsr_sharding *at = &program->shardings[x->g->sharding];
  if (!at->mesh) return x->in[0];
  if (x->batch->of_mesh && names_axis(at, x->batch->axis)) return refuse_place(x);
  tsr_sharding all = x->varies[0] ? with_front(x) : *at;
  return tsr__constrain_for(x->in[0], all, tsr__why_of(program, x->g), x->site);
}

/* All elements lie as all of another. Where one of both is the same for all elements, the other
 * says nothing of how it lies, and the stated sharding holds. */
tsr_array *tsr__batch_like(const node *x)
{
  tsr_sharding all = with_front(x);
  *x->result_varies = x->varies[0];
  bool says = x->varies[0] == x->varies[1] && (x->varies[0] || !all.mesh);
  if (!says) return tsr__batch_place(x);
  const tsr__ask ask = { .attr = tsr__batch_attr(x),
                         .attr_bytes = sizeof(tsr__place_attr),
                         .sharding = all.mesh ? &all : NULL,
                         .opens = true };
  return tsr__make(NULL, TSR__OP_LIKE, TSR__IN(x->in[0], x->in[1]), &ask, x->site);
}

/* ---- named axes ------------------------------------------------------------------------------ */

static bool is_own(const node *x)
{
  const tsr__axis_attr *axis = tsr__batch_attr(x);
  return x->batch->axis && !strcmp(axis->name, x->batch->axis);
}

/* What varies along the axis is, with its front, the array of all: it varies no more. */
/* Operations by the name of an axis. If it is that of this front, they say what the front is:
 *
 *   all     what each place has, as a dim: x [b,3] is that already, the same for all places
 *   own     of an array with such a dim each place's row: x [b,3] is that with b as the front
 *   meet    a value on its way between what varies along the axis and what does not, as gradients
 *           have it: the sum of what varies, or what does not as many times
 *
 * Of another axis they are done to each element, whose dims are one further back. */
tsr_array *tsr__batch_axis_all(const node *x)
{
  if (!is_own(x)) {
    tsr_array *out = tsr__batch_make(x, tsr__batch_attr(x), (tsr_shape){ 0 });
    return x->varies[0] ? tsr__move_dim(out, 1, 0, x->site) : out;
  }
  *x->result_varies = false;
  return x->varies[0] ? x->in[0] : tsr__batch_repeat(x->batch, x->in[0], x->site);
}

tsr_array *tsr__batch_axis_meet(const node *x)
{
  /* Operand 0 is what is due, 1 the result it is due to, those behind it are what it goes to. */
  bool from = x->varies[0] || x->varies[1], to = false;
  if (!is_own(x)) return tsr__batch_make(x, tsr__batch_attr(x), (tsr_shape){ 0 });
  for (int i = 2; i < x->count; i++) to |= x->varies[i];
  if (to || !from) return x->in[0];
  *x->result_varies = false;
  /* Of nothing there is nothing to add up: no place waits for others. */
  tsr_shape own = tsr__gnode_shape(x->g);
  if (!tsr__shape_count(&own))
    return tsr_full_at(x->batch->replay.scope, TSR_OPERAND(0), (tsr_dtype)x->g->dtype, own,
                       (tsr_sharding){ 0 }, x->site);
  /* Each place gives the same, so the sum over all of them is a product. */
  if (!x->varies[0]) return tsr_mul_at(x->in[0], TSR_OPERAND(x->batch->size), x->site);
  tsr_reduce_args sum = { .size = sizeof sum, .x = x->in[0], .dims = { .bits = 1 } };
  return tsr_sum_at(&sum, x->site);
}

/*   a [b, d]          does not vary: row i is element i's, so it is the array with b as the front
 *   a [b, b, d]       varies: element i's row i, numbers 0, b + 1, 2 (b + 1) .. of rows as one dim
 */
tsr_array *tsr__batch_axis_own(const node *x)
{
  tsr_array *a = x->in[0];
  if (!is_own(x)) {
    x->in[0] = x->varies[0] ? tsr__move_dim(a, 1, 0, x->site) : a;
    return tsr__batch_make(x, tsr__batch_attr(x), (tsr_shape){ 0 });
  }
  *x->result_varies = true;
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

/* Of what has regions some results vary, and others do not. The node before is a tuple, made by
 * map_scan and its like, and not the node itself. */
tsr_array *tsr__batch_result(const node *x)
{
  const tsr__program *program = x->batch->replay.program;
  const bool *parts = x->batch->parts[tsr__in(program, x->g, 0)];
  /* Of a routine, or of what was made as it was: all of its results vary alike. */
  if (!parts) return tsr__batch_as_it_is(x);
  int i = tsr__index_of(program, x->g);
  *x->result_varies = parts[i];
  return tsr_item_at(x->in[0], i, x->site);
}

static tsr_array *refuse(const node *x)
{
  tsr__fail(x->batch->replay.scope, x->site, TSR_EUNSUPPORTED,
            "tsr_%s: the operation cannot be mapped over: %s", x->row->name, rules[x->g->op].none);
  return tsr__make_inert(x->batch->replay.scope, x->site);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* There is no room for the front. */
static tsr_array *refuse_full(const node *x)
{
  tsr_shape shape = tsr__gnode_shape(x->g);
  char type[160];
  tsr_type_text((tsr_dtype)x->g->dtype, shape, NULL, type, sizeof type);
  tsr__fail(x->batch->replay.scope, x->site, TSR_ESHAPE,
            "tsr_%s: the result for each element is %s, which has %d dims, the most an array can "
            "have, and needs a batch dim too; join two of its dims with tsr_reshape",
            x->row->name, type, TSR_MAX_RANK);
  return tsr__make_inert(x->batch->replay.scope, x->site);
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
  /* What does not vary is made once, as it is, and read by all elements. Named operations may
   * begin to vary by themselves: a place knows which it is. */
  bool any = tsr__is_named(g->op) || (b->axis && g->region_count && tsr__batch_named(program, g));
  for (int i = 0; i < g->in_count; i++) {
    int o = tsr__in(program, g, i);
    x.in[i] = o < 0 ? NULL : b->replay.at[o];
    x.varies[i] = o >= 0 && b->varies[o];
    any |= x.varies[i];
    /* The error is told already; what is made of it is the same inert node. */
    if (x.in[i] && x.in[i]->inert) {
      b->replay.at[n] = x.in[i];
      return true;
    }
  }
  /* A first guess, which rows of named axes and results correct. */
  bool varies = any && (!tsr__is_named(g->op) || x.varies[0]);
  bool sure = !tsr__is_named(g->op) && !tsr__takes_result(g->op);
  bool full = any && sure && g->rank == TSR_MAX_RANK;
  x.result_varies = &varies;
  tsr__batch_fn *map = rules[g->op].map ? rules[g->op].map : refuse;
  b->replay.at[n] = full  ? refuse_full(&x)
                    : any ? map(&x)
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
  b->parts = tsr__arena_new(&scope->arena, room * sizeof *b->parts);
  if (!b->varies || !b->parts) return false;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *g = &program->nodes[n];
    if (g->op == TSR__OP_ARG) b->varies[n] = arguments[tsr__index_of(program, g)];
    else if (!batch_one(b, n)) return false;
  }
  return true;
}
