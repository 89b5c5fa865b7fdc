/* Views: operations whose elements are elements of their operands, found by an affine map of
 * indices. What each does to each dim stands here once; sharding rules, fusion and the loads of
 * kernels follow from it. */
#include "graph/graph.h"

static const void *attr_of(const tsr__program *program, const tsr__gnode *g)
{
  return program->attrs + g->attr;
}

/* Aligned at the last dim; what is 1 there and not here is repeated. */
static tsr__viewing aligned(const tsr__gnode *g, const tsr__gnode *in)
{
  tsr__viewing view = { .dims = { { 0 } } };
  for (int d = 0; d < TSR_MAX_RANK; d++) view.high[d] = INT64_MAX;
  for (int k = 0; k < in->rank; k++) {
    int d = g->rank - in->rank + k;
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
      view->dims[d] = (tsr__viewdim){ .dim = d, .start = attr->start[d], .step = attr->step[d] };
}

void tsr__view_order(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  const tsr__order_attr *attr = attr_of(program, g);
  (void)i;
  for (int d = 0; d < g->rank; d++)
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

/* Shows `size` elements along dim `d` from `from` on. */
static void show_part(tsr__viewing *view, int d, int64_t from, int64_t size)
{
  view->dims[d] = (tsr__viewdim){ .dim = d, .start = -from, .step = 1 };
  view->low[d] = from;
  view->high[d] = from + size;
}

/* The number, operand 1, lies everywhere else. */
void tsr__view_pad(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  const tsr__pad_attr *attr = attr_of(program, g);
  const tsr__gnode *in = &program->nodes[tsr__in(program, g, 0)];
  for (int d = 0; d < g->rank && !i; d++)
    if (attr->low[d] || attr->high[d]) show_part(view, d, attr->low[d], in->dims[d]);
}

void tsr__view_concat(const tsr__program *program, const tsr__gnode *g, int i, tsr__viewing *view)
{
  int dim = tsr__dim_of(program, g);
  int64_t before = 0;
  for (int k = 0; k < i; k++) before += program->nodes[tsr__in(program, g, k)].dims[dim];
  show_part(view, dim, before, program->nodes[tsr__in(program, g, i)].dims[dim]);
}

tsr__viewing tsr__view_of(const tsr__program *program, const tsr__gnode *g, int i)
{
  tsr__viewing view = aligned(g, &program->nodes[tsr__in(program, g, i)]);
  tsr__ops[g->op].view(program, g, i, &view);
  return view;
}
