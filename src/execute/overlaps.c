/* The geometry of the moves of a plan: which part of an array has which elements of another's, dim
 * by dim, found once when the plan is made.
 *
 * Invariant: a plan is a function of its program, and so are its overlaps; values of a run that lie
 * otherwise than planned get their own, which take about as long as the parts' list is. */
#include "execute/engine.h"

/* Whether two moves of one node have the same overlaps. Their blocks are the node's, and the device
 * that a move without a mesh ends on has no part in them. */
static bool same_move(const tsr__reshard *a, const tsr__reshard *b)
{
  return !memcmp(a->from, b->from, sizeof *a->from) && !memcmp(a->to, b->to, sizeof *a->to) &&
         tsr__shape_same(a->shape, b->shape);
}

/* A row count that only a run knows is cut by nothing yet. */
static tsr_status make_overlaps(tsr__plan *plan, int node, tsr__error *error)
{
  tsr_shape shape;
  tsr__reshard move = tsr__reshard_of(&plan->parts.program, node, &shape);
  for (int d = 0; d < shape.rank; d++)
    if (shape.dims[d] < 0) return TSR_OK;
  tsr__overlaps *made = tsr__arena_raw(&plan->geometry, sizeof *made);
  if (!made || !tsr__overlaps_make(&move, &plan->geometry, made))
    return tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
  plan->overlaps[node] = made;
  return TSR_OK;
}

tsr_status tsr__plan_overlaps(tsr_runtime *rt, tsr__plan *plan, tsr__error *error)
{
  const tsr__program *program = &plan->parts.program;
  tsr_status status = TSR_OK;
  tsr__arena_init(&plan->geometry, &rt->heap);
  for (int s = 0; s < plan->schedule.step_count && !status; s++) {
    const tsr__step *step = &plan->schedule.steps[s];
    if (step->kind != TSR__STEP_RESHARD) continue;
    size_t bytes = (size_t)program->node_count * sizeof *plan->overlaps;
    if (!plan->overlaps) plan->overlaps = tsr__arena_new(&plan->geometry, bytes);
    if (!plan->overlaps) return tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
    for (int n = step->node; n >= 0 && !status; n = tsr__fellow(program, step->node, n))
      status = make_overlaps(plan, n, error);
  }
  return status;
}

const tsr__overlaps *tsr__exec_overlaps(const tsr__exec *exec, int node, const tsr__reshard *move)
{
  const tsr__overlaps *planned = exec->plan->overlaps ? exec->plan->overlaps[node] : NULL;
  tsr_shape shape;
  tsr__reshard as = tsr__reshard_of(exec->program, node, &shape);
  if (planned && same_move(&as, move)) return planned;
  tsr__overlaps *made = tsr__arena_raw(exec->scratch, sizeof *made);
  return made && tsr__overlaps_make(move, exec->scratch, made) ? made : NULL;
}
