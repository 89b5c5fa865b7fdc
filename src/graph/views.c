/* Views: operations whose elements are elements of their operands, found by an affine map of
 * indices. What each does to each dim stands here once; sharding rules, fusion and the loads of
 * kernels follow from it. */
#include "graph/graph.h"

static const void *attr_of(const tsr__program *program, const tsr__gnode *g)
{
  return program->attrs + g->attr;
}

/* Aligned at the last dim; what is 1 there and not here is repeated. What a view's own function
 * leaves as it is is passed on. */
static tsr__viewing aligned(const tsr__gnode *g, const tsr__gnode *in)
{
  tsr__viewing view = { .dims = { { 0 } } };
  for (int d = 0; d < TSR_MAX_RANK; d++) view.high[d] = INT64_MAX;
  for (int k = 0; k < in->rank; k++) {
    int d = g->rank - in->rank + k;
    if (d < 0) continue; /* of another shape */
    bool flat = in->dims[k] == 1 && g->dims[d] != 1;
    view.dims[k] = (tsr__viewdim){ .dim = d, .step = !flat, .same = !flat };
  }
  return view;
}

/* ---- by row of the table -------------------------------------------------------------------- */

void tsr__view_slice(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  const tsr__slice_attr *attr = attr_of(program, g);
  (void)i;
  for (int d = 0; d < g->rank; d++)
    if (attr->step[d])
      /* Not `same`: borders of a cut dim move with start and step. A dim that stays as it is has
       * step 0. */
      view->dims[d] = (tsr__viewdim){ .dim = d, .start = attr->start[d], .step = attr->step[d] };
}

void tsr__view_order(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  const tsr__order_attr *attr = attr_of(program, g);
  (void)i;
  for (int d = 0; d < g->rank; d++)
    /* By dims of the operand, so the permutation is turned round. */
    view->dims[attr->dims[d]] = (tsr__viewdim){ .dim = d, .step = 1, .same = true };
}

/* Aligned is all it is. */
void tsr__view_broadcast(const tsr__program *program, const tsr__gnode *g, int i,
                         tsr__viewing *view)
{
  (void)program;
  (void)g;
  (void)i;
  (void)view;
}

/* Shows `size` elements along dim `d` from `from` on.
 *
 *   result    0 1 2 3 4 5      from 2, size 3:  low 2, high 5
 *   operand       0 1 2        index of the operand = index - 2 */
static void show_part(tsr__viewing *view, int d, int64_t from, int64_t size)
{
  view->dims[d] = (tsr__viewdim){ .dim = d, .start = -from, .step = 1 };
  view->low[d] = from;
  view->high[d] = from + size;
}

/* The number, operand 1, lies everywhere else. A border below 0 cuts off: then the part that shows
 * the operand begins before the result, or ends behind it. */
void tsr__view_pad(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  const tsr__pad_attr *attr = attr_of(program, g);
  const tsr__gnode *in = &program->nodes[tsr__in(program, g, 0)];
  for (int d = 0; d < g->rank && !i; d++)
    if (attr->low[d] || attr->high[d]) show_part(view, d, attr->low[d], in->dims[d]);
}

/* Operand 0 behind the shift, operand 1, which is the same, what went beyond the end.
 *
 *   x   0 1 2 3 4     shifted by 2:   3 4 | 0 1 2      index < 2: operand 1 at index + 3
 *                                                      else: operand 0 at index - 2 */
void tsr__view_roll(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  const tsr__roll_attr *attr = attr_of(program, g);
  int d = (int)attr->dim;
  int64_t size = g->dims[d], shift = attr->count;
  if (!shift) return;
  view->dims[d] = (tsr__viewdim){ .dim = d, .start = i ? size - shift : -shift, .step = 1 };
  view->low[d] = i ? 0 : shift;
  view->high[d] = i ? shift : size;
}

void tsr__view_concat(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  int dim = tsr__dim_of(program, g);
  int64_t before = 0;
  for (int k = 0; k < i; k++) before += program->nodes[tsr__in(program, g, k)].dims[dim];
  show_part(view, dim, before, program->nodes[tsr__in(program, g, i)].dims[dim]);
}

/* Operand 1, a number, lies where the table names no element. */
void tsr__view_pick(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  const tsr__pick_attr *attr = attr_of(program, g);
  int d = (int)attr->dim;
  if (i) return;
  view->dims[d] = (tsr__viewdim){ .dim = d, .step = 1 };
  view->picks = attr->picks;
  view->picked = d;
}

/* Both dims are read along one of the result:
 *
 *   offset 1, 3 x 4      element i of the diagonal is (0 + i, 1 + i) of the matrix
 *   offset -1            (1 + i, 0 + i)
 *
 * The dims after the second one move up, and aligned at the last they are right already. */
void tsr__view_diagonal(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  const tsr__diagonal_attr *attr = attr_of(program, g);
  const tsr__gnode *in = &program->nodes[tsr__in(program, g, i)];
  int d = (int)attr->dim;
  int64_t down = attr->offset < 0 ? -attr->offset : 0;
  for (int k = 0; k < d; k++) view->dims[k] = (tsr__viewdim){ .dim = k, .step = 1, .same = true };
  bool all = in->dims[d] == g->dims[d];
  view->dims[d] = (tsr__viewdim){ .dim = d, .start = down, .step = 1, .same = all };
  view->dims[d + 1] =
      (tsr__viewdim){ .dim = d, .start = down + attr->offset, .step = 1, .again = true };
}

/* ---- other shapes --------------------------------------------------------------------------- */

/* The first dim from `d` on that is not 1. */
static int next_dim(const tsr__gnode *g, int d)
{
  while (d < g->rank && g->dims[d] == 1) d++;
  return d;
}

/* How many elements an index of the major dims stands for: of the first equal on both sides exactly
 * where these are of one size. */
static void measure_side(tsr__fold_side *side, const tsr__gnode *g, int last, int64_t size)
{
  side->inner = size / g->dims[side->dim];
  int next = next_dim(g, side->dim + 1);
  if (next > last) return;
  side->next = (int8_t)next;
  side->next_inner = side->inner / g->dims[next];
}

int tsr__folds_of(const tsr__gnode *from, const tsr__gnode *to, tsr__fold out[TSR_MAX_RANK])
{
  /* Both shapes are walked at once, and the side whose product is less takes its next dim. Equal
   * counts make sure that both end together:
   *
   *   from   6    10          6 | 10        6 < 12: times 10, 60; 12 < 60: times 5
   *   to     12    5     ->   one fold, 60 on either side */
  int count = 0, i = next_dim(from, 0), j = next_dim(to, 0);
  for (int d = 0; d < from->rank; d++)
    /* A product that became 0 would meet no other: shapes without elements have no folds. */
    if (!from->dims[d]) return 0;
  while (i < from->rank && j < to->rank) {
    tsr__fold *fold = &out[count++];
    int64_t left = from->dims[i], right = to->dims[j];
    fold->from = (tsr__fold_side){ .dim = (int8_t)i, .next = -1 };
    fold->to = (tsr__fold_side){ .dim = (int8_t)j, .next = -1 };
    while (left != right) {
      if (left < right) left *= from->dims[++i];
      else right *= to->dims[++j];
    }
    fold->size = left;
    measure_side(&fold->from, from, i, left);
    measure_side(&fold->to, to, j, left);
    i = next_dim(from, i + 1);
    j = next_dim(to, j + 1);
  }
  return count;
}

static bool next_is_cut(const tsr_sharding *at, const tsr__fold_side *side)
{
  return side->next >= 0 && tsr__dim_axes(at, side->next);
}

tsr__span tsr__fold_span(const tsr_sharding *at, const tsr__fold_side *side, int64_t size,
                         int position)
{
  int64_t inner = side->inner;
  tsr__span span = tsr__dim_span(at, side->dim, size / inner, position);
  if (!next_is_cut(at, side)) return (tsr__span){ span.start * inner, span.length * inner };
  tsr__span next = tsr__dim_span(at, side->next, inner / side->next_inner, position);
  return (tsr__span){ span.start * inner + next.start * side->next_inner,
                      span.length * next.length * side->next_inner };
}

/* Dims of size 1 that come or go are an affine map, and cost nothing under any operation. */
void tsr__view_reshape(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  const tsr__gnode *in = &program->nodes[tsr__in(program, g, i)];
  int from = next_dim(in, 0), to = next_dim(g, 0);
  /* Dims were aligned at the last, which is not how they correspond here: they do in order, ones
   * left out. A step of 0 for those that are 1. */
  memset(view->dims, 0, sizeof view->dims);
  for (; from < in->rank && to < g->rank; from = next_dim(in, from + 1), to = next_dim(g, to + 1)) {
    view->linear |= in->dims[from] != g->dims[to];
    view->dims[from] = (tsr__viewdim){ .dim = to, .step = 1, .same = true };
  }
  view->linear |= from < in->rank || to < g->rank;
}

/* ---- of any ---------------------------------------------------------------------------------- */

tsr__viewing tsr__view_of(const tsr__program *program, const tsr__gnode *g, int i)
{
  tsr__viewing view = aligned(g, &program->nodes[tsr__in(program, g, i)]);
  tsr__ops[g->op].view(program, g, i, &view);
  return view;
}

/* ---- what moves ------------------------------------------------------------------------------ */

/* Whether the ranges of a fold that some position holds differ before and after. By position:
 * uneven cuts may agree in some parts and differ in others. Equal inner sizes give equal
 * borders, and what is not cut has none. */
static bool borders_differ(const tsr__viewed *v)
{
  tsr__fold folds[TSR_MAX_RANK];
  const tsr__gnode *in = &v->program->nodes[tsr__in(v->program, v->node, 0)];
  int count = tsr__folds_of(in, v->node, folds);
  for (int k = 0; k < count; k++) {
    const tsr__fold *f = &folds[k];
    if (f->from.inner == f->to.inner) continue;
    if (!tsr__dim_axes(v->to, f->to.dim) && !next_is_cut(v->to, &f->to)) continue;
    for (int p = 0; p < tsr__positions(v->to); p++) {
      tsr__span a = tsr__fold_span(v->from[0], &f->from, f->size, p);
      tsr__span b = tsr__fold_span(v->to, &f->to, f->size, p);
      /* What is empty may begin anywhere. */
      if (a.length != b.length || (a.length && a.start != b.start)) return true;
    }
  }
  return false;
}

bool tsr__view_moves(const tsr__viewed *v)
{
  /* Where nothing is cut each device has all of it: no element can lie elsewhere. */
  if (!tsr__is_view(v->node->op) || !(tsr__used_axes(v->to) | tsr__used_axes(v->from[0])))
    return false;
  TSR_FOR_OPERANDS (v->program, v->node, i, o) {
    tsr__viewing view = tsr__view_of(v->program, v->node, i);
    if (view.linear) return borders_differ(v);
    for (int k = 0; k < v->program->nodes[o].rank; k++) {
      const tsr__viewdim *dim = &view.dims[k];
      if (dim->step && !dim->same && tsr__dim_axes(v->to, dim->dim)) return true;
      if (dim->again && tsr__dim_axes(v->from[i], k)) return true;
    }
  }
  return false;
}

bool tsr__node_moves(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  if (!tsr__is_view(g->op) || !g->sharding) return false;
  /* Only reshapes ask how their operand lies, and they have one. */
  int first = tsr__in(program, g, 0);
  const tsr_sharding *from = &program->shardings[program->nodes[first].sharding];
  return tsr__view_moves(&(tsr__viewed){ program, g, &program->shardings[g->sharding], &from });
}

bool tsr__node_shifts(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  return (tsr__is_view(g->op) && tsr__view_of(program, g, 0).picks) ||
         tsr__node_moves(program, node);
}
