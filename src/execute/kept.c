/* Sums that are left unreduced: accumulators of devices as the value of a node.
 *
 *   x f64[4,2]@(a)   device 0  1 2 | 3 4        kept   {4, 6}       each exact, and as many
 *   sum over dim 0   device 1  5 6 | 7 8               {12, 14}     accumulators as elements
 *
 * Nothing has moved, nothing is rounded. A view of such a sum shows the accumulators of the
 * elements that it shows; where the value is needed they meet as those of any reduction do. What is
 * kept is shared by reference: who adds to it has the only one, or a copy. */
#include "execute/engine.h"

/* Makes the value of a node without elements. It has no parts: plans see to it that no step
 * reads its elements. */
static tsr_status hang(tsr__exec *exec, int node, tsr__kept *kept)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  tsr_shape shape = tsr__gnode_shape(g);
  exec->values[node] = tsr__value_frame(
      exec->rt, &(tsr__layout){ (tsr_dtype)g->dtype, &shape, tsr__sharding_of(exec, node), NULL },
      exec->error);
  if (!exec->values[node]) return exec->error->status;
  exec->values[node]->kept = kept;
  atomic_fetch_add_explicit(&kept->refs, 1, memory_order_relaxed);
  return TSR_OK;
}

/* The partials change hands: from the run, which would free them, to what is kept. Several nodes
 * may be the value of one accumulator, and each holds it. */
tsr_status tsr__exec_keep(tsr__exec *exec, int accum)
{
  const tsr__schedule *schedule = &exec->plan->schedule;
  const tsr__accum *of = &schedule->accums[accum];
  int positions = tsr__positions(tsr__sharding_of(exec, of->node));
  tsr__kept *kept = tsr__kept_new(exec->rt, of->row, positions, exec->error);
  if (!kept) return exec->error->status;
  memcpy(kept->partials, exec->partials[accum], (size_t)positions * sizeof *kept->partials);
  exec->partials[accum] = NULL;
  tsr_status status = TSR_OK;
  for (int n = schedule->first_final[accum]; n >= 0 && !status; n = schedule->next_final[n])
    status = hang(exec, n, kept);
  tsr__kept_release(kept);
  return status;
}

/* ---- views ---- */

/* Lists the operand's elements that a position shows, in order. No element is on another device,
 * so both sides count within the position's box. `at` walks over the operand as an odometer
 * does: a dim that turns over takes back its way. NULL: all elements, in order. */
static tsr_status find_shown(tsr__exec *exec, int node, int position, int64_t **out)
{
  const tsr__program *program = exec->program;
  const tsr__gnode *g = &program->nodes[node];
  int in = tsr__in(program, g, 0), rank = program->nodes[in].rank;
  tsr__viewing view = tsr__view_of(program, g, 0);
  tsr_shape shape = tsr__gnode_shape(g), from_shape = tsr__gnode_shape(&program->nodes[in]);
  tsr_box to, from;
  int64_t stride[TSR_MAX_RANK] = { 0 }, index[TSR_MAX_RANK] = { 0 }, inner = 1, at = 0;
  *out = NULL;
  if (view.linear) return TSR_OK;
  tsr__box(tsr__sharding_of(exec, node), &shape, position, &to);
  tsr__box(tsr__sharding_of(exec, in), &from_shape, position, &from);
  for (int k = rank - 1; k >= 0; k--) {
    const tsr__viewdim *dim = &view.dims[k];
    int64_t start = dim->start;
    if (dim->step) start += dim->step * to.start[dim->dim];
    at += (start - from.start[k]) * inner;
    if (dim->step) stride[dim->dim] += dim->step * inner;
    inner *= from.size[k];
  }
  int64_t count = tsr__box_count(&to, shape.rank);
  int64_t *list = tsr__arena_new(exec->scratch, (size_t)(count + 1) * sizeof *list);
  if (!list) return tsr__no_memory_to_run(exec);
  for (int64_t i = 0; i < count; i++) {
    list[i] = at;
    int d = shape.rank - 1;
    for (; d >= 0 && ++index[d] == to.size[d]; d--) {
      at -= stride[d] * (to.size[d] - 1);
      index[d] = 0;
    }
    if (d >= 0) at += stride[d];
  }
  *out = list;
  return TSR_OK;
}

/* Lists the scales of a node, in order, from the program: a scaled sum that stays unreduced is
 * scaled only when it is rounded. */
static void find_scales(const tsr__exec *exec, int node, tsr__kept *out)
{
  const tsr__program *program = exec->program;
  const tsr__gnode *g = &program->nodes[node];
  tsr__scale_by mine = { .op = g->op };
  int below = -1;
  TSR_FOR_OPERANDS (program, g, i, o) {
    if (program->nodes[o].flags & TSR__KEPT) below = o;
    else mine.number = program->params[program->nodes[o].param];
  }
  if (!tsr__ops[g->op].scales) return;
  find_scales(exec, below, out);
  TSR_INVARIANT(out->scale_count < TSR__MOST_SCALES);
  out->scales[out->scale_count++] = mine;
}

/* Makes a scaled sum of the same accumulators. `of` keeps them alive: a sum with `of` frees none
 * of the partials it lists. */
static tsr_status scale(tsr__exec *exec, int node)
{
  int in = -1;
  TSR_FOR_OPERANDS (exec->program, &exec->program->nodes[node], i, o)
    if (exec->program->nodes[o].flags & TSR__KEPT) in = o;
  tsr__kept *from = exec->values[in]->kept;
  tsr__kept *kept = tsr__kept_new(exec->rt, from->row, from->count, exec->error);
  if (!kept) return exec->error->status;
  memcpy(kept->partials, from->partials, (size_t)from->count * sizeof *kept->partials);
  kept->of = from;
  atomic_fetch_add_explicit(&from->refs, 1, memory_order_relaxed);
  find_scales(exec, node, kept);
  tsr_status status = hang(exec, node, kept);
  tsr__kept_release(kept);
  return status;
}

/* A view has copies of the accumulators it shows, so that adding to one does not change the
 * other. */
tsr_status tsr__exec_kept_step(tsr__exec *exec, int node)
{
  if (tsr__ops[exec->program->nodes[node].op].scales) return scale(exec, node);
  const tsr__kept *from = tsr__value_in(exec, node, 0)->kept;
  tsr_shape shape = tsr__gnode_shape(&exec->program->nodes[node]);
  tsr__kept *kept = tsr__kept_new(exec->rt, from->row, from->count, exec->error);
  tsr_status status = kept ? TSR_OK : exec->error->status;
  for (int p = 0; !status && p < from->count; p++) {
    int64_t *shown;
    tsr_box box;
    if (!from->partials[p]) continue;
    tsr__box(tsr__sharding_of(exec, node), &shape, p, &box);
    status = find_shown(exec, node, p, &shown);
    if (status) break;
    kept->partials[p] =
        tsr__devices_of(exec->rt)->ops->partial_take(from->partials[p], shown,
                                                     tsr__box_count(&box, shape.rank), exec->error);
    if (!kept->partials[p]) status = exec->error->status;
  }
  if (!status) status = hang(exec, node, kept);
  tsr__kept_release(kept);
  return status;
}

/* ---- meeting ---- */

/* Whether nobody reads a kept sum after an accumulator of a step, nor another one of it. */
static bool reads_last(const tsr__exec *exec, const tsr__step *step, int accum)
{
  const tsr__accum *accums = exec->plan->schedule.accums;
  int operand = accums[accum].operand;
  const tsr__value *value = exec->values[operand];
  bool last = exec->plan->last_use[operand] == (int)(step - exec->plan->schedule.steps);
  for (int a = step->first; a < step->first + step->count; a++)
    last = last && (a == accum || !accums[a].kept || accums[a].operand != operand);
  return last && !value->kept->of && atomic_load(&value->refs) == 1 &&
         atomic_load(&value->kept->refs) == 1;
}

/* Combining adds to the first member's accumulator, so a sum that is read later is copied. The
 * caller gets a reference of its own either way. */
tsr__kept *tsr__exec_kept_meets(tsr__exec *exec, const tsr__step *step, int accum)
{
  tsr__kept *from = exec->values[exec->plan->schedule.accums[accum].operand]->kept;
  if (reads_last(exec, step, accum)) {
    atomic_fetch_add_explicit(&from->refs, 1, memory_order_relaxed);
    return from;
  }
  tsr__kept *kept = tsr__kept_new(exec->rt, from->row, from->count, exec->error);
  for (int p = 0; kept && p < from->count; p++) {
    if (!from->partials[p]) continue;
    kept->partials[p] =
        tsr__devices_of(exec->rt)->ops->partial_take(from->partials[p], NULL, 0, exec->error);
    if (kept->partials[p]) continue;
    tsr__kept_release(kept);
    return NULL;
  }
  return kept;
}
