/* Results of kernels that are their operand's bytes in another shape: found once, when a plan is
 * made.
 *
 *    [1, 2, 2, 9] cut along dim 1 by x     each device has [1, 1, 2, 9]
 *    transposed to [1, 2, 2, 9], cut along dim 2            [1, 2, 1, 9]: the same bytes in order
 *
 * A run shares such memory where values lie as the plan says (run.c). */
#include "execute/engine.h"

/* Whether each device has one index of a dim. */
static bool is_single(const tsr__program *program, const tsr__gnode *g, int d)
{
  const tsr_sharding *at = &program->shardings[g->sharding];
  int64_t cuts = 1;
  if (!at->mesh || d >= at->rank) return g->dims[d] == 1;
  for (int k = at->first[d]; k < at->first[d + 1]; k++) cuts *= at->mesh->sizes[at->axis[k]];
  return g->dims[d] == cuts;
}

/* Whether a dim of the operand is cut by the same axes, in their order, as one of the result. By
 * the same axes: as many parts over other axes would lie on other devices. */
static bool cut_alike(const tsr_sharding *a, int from, const tsr_sharding *b, int to)
{
  int first = from < a->rank ? a->first[from] : 0, other = to < b->rank ? b->first[to] : 0;
  int count = from < a->rank ? a->first[from + 1] - first : 0;
  if (a->mesh != b->mesh || count != (to < b->rank ? b->first[to + 1] - other : 0)) return false;
  return !count || !memcmp(a->axis + first, b->axis + other, (size_t)count);
}

/* The first dim from `d` on of which devices have more than one index. */
static int next_cut_dim(const tsr__program *program, const tsr__gnode *g, int d)
{
  while (d < g->rank && is_single(program, g, d)) d++;
  return d;
}

/* Whether a view passes on all of an operand's dim, cut as it was. */
static bool view_passes_dim(const tsr__program *program, const tsr__gnode *g,
                            const tsr__viewdim *dim, int k)
{
  const tsr__gnode *in = &program->nodes[tsr__in(program, g, 0)];
  if (dim->start || dim->step != 1 || in->dims[k] != g->dims[dim->dim]) return false;
  return cut_alike(&program->shardings[in->sharding], k, &program->shardings[g->sharding],
                   dim->dim);
}

/* Whether a node is a view that shows on each device each element of its operand once and in order:
 * a reshape, or dims of which devices have one index that move, come or go while the others keep
 * their order and show all they have. */
static bool shows_in_order(const tsr__program *program, const tsr__gnode *g)
{
  if (!tsr__is_view(g->op) || g->in_count != 1) return false;
  const tsr__gnode *in = &program->nodes[tsr__in(program, g, 0)];
  tsr__viewing view = tsr__view_of(program, g, 0);
  int to = next_cut_dim(program, g, 0);
  if (view.linear) return true;
  for (int k = 0; k < in->rank; k++) {
    const tsr__viewdim *dim = &view.dims[k];
    if (is_single(program, in, k)) {
      if (in->dims[k] > 1 && !view_passes_dim(program, g, dim, k)) return false;
      continue;
    }
    if (to == g->rank || dim->dim != to || dim->start || dim->step != 1) return false;
    if (in->dims[k] != g->dims[to]) return false;
    to = next_cut_dim(program, g, to + 1);
  }
  return to == g->rank;
}

/* The input of a kernel whose elements an output is in their order, seen through views; -1: it is
 * none. Views follow each other inside of a kernel; each of them must keep the order. */
static int shown_by(const tsr__program *program, const tsr__kernel_io *io, int output)
{
  for (int n = output; shows_in_order(program, &program->nodes[n]);) {
    n = tsr__in(program, &program->nodes[n], 0);
    for (int i = 0; i < io->input_count; i++)
      if (io->inputs[i] == n) return n;
  }
  return -1;
}

/* What lies as planned is only known in a run, as values may lie otherwise (a filter's rows); so
 * this says what could be shared, and the run looks once more. */
tsr_status tsr__plan_shows(tsr_runtime *rt, tsr__plan *plan, tsr__error *error)
{
  const tsr__program *program = &plan->parts.program;
  plan->shows = tsr__new(&rt->heap, (size_t)program->node_count * sizeof(int));
  if (!plan->shows) return tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
  for (int n = 0; n < program->node_count; n++) plan->shows[n] = -1;
  for (int s = 0; s < plan->schedule.step_count; s++) {
    const tsr__step *step = &plan->schedule.steps[s];
    const tsr__kernel_io *io =
        step->kind == TSR__STEP_KERNEL ? tsr__kernel_io_of(step->kernel) : NULL;
    for (int i = 0; io && i < io->output_count; i++)
      plan->shows[io->outputs[i]] = shown_by(program, io, io->outputs[i]);
  }
  return TSR_OK;
}
