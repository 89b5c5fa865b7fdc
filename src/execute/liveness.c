/* How long the values of a plan live.
 *
 *   step          0          1          2
 *   reads, makes  x -> a     a -> b     x, b -> r      r is a root and stays (-1)
 *   gone after    -          a          x, b           lists a step, threaded through next_gone
 *
 * Invariant: a run looks at each node that goes once, at the step that touches it last. */
#include "execute/engine.h"

/* Later steps overwrite earlier ones: what stays is the last. */
static void use_nodes(tsr__plan *plan, const int *nodes, int count, int step)
{
  for (int i = 0; i < count; i++) plan->last_use[nodes[i]] = step;
}

/* The nodes by the step after which they go, so that a run looks at each of them once. A list a
 * step, threaded through next_gone: going down, the lowest node comes to stand first. Roots and
 * nodes that nobody makes have -1 and are in no list. */
static void list_gone(tsr__plan *plan)
{
  for (int s = 0; s < plan->gone_steps; s++) plan->first_gone[s] = -1;
  for (int n = plan->parts.program.node_count - 1; n >= 0; n--) {
    int step = plan->last_use[n];
    if (step < 0) continue;
    plan->next_gone[n] = plan->first_gone[step];
    plan->first_gone[step] = n;
  }
}

/* A node of several results is needed as long as any of them is; one that nobody reads goes with
 * the step that made it. Pass 0: a part that nobody reads goes when the whole was made. Pass 1:
 * the whole stays as long as its last part. In this order, or an unread part would look as if it
 * were read last of all. */
static void use_parts(tsr__plan *plan)
{
  const tsr__program *program = &plan->parts.program;
  for (int pass = 0; pass < 2; pass++)
    for (int n = 0; n < program->node_count; n++) {
      const tsr__gnode *node = &program->nodes[n];
      if (!tsr__takes_result(node->op)) continue;
      int *mine = &plan->last_use[n], *whole = &plan->last_use[tsr__in(program, node, 0)];
      if (!pass && *mine < 0) *mine = *whole; /* the step that made it: no part was raised yet */
      if (pass && *mine > *whole) *whole = *mine;
    }
}

/* A leaf may be a root's home without being one: what was asked to lie as it does. */
static void keep_forever(tsr__plan *plan)
{
  for (int n = 0; n < plan->key.node_count; n++)
    if (plan->key.nodes[n].flags & TSR__ROOT && plan->parts.home[n] >= 0)
      plan->last_use[plan->parts.home[n]] = -1;
  const tsr__program *program = &plan->parts.program;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    bool root = node->flags & TSR__ROOT;
    if (root) plan->last_use[n] = -1;
    if (root && tsr__takes_result(node->op)) plan->last_use[tsr__in(program, node, 0)] = -1;
  }
}

/* When each value is read for the last time. Roots stay (-1): they belong to the caller. Leaves
 * belong to their nodes, and a run lets go of them early: where a node gave its value up, it goes.
 * A value nobody reads goes after the step that made it. Steps are walked in order, so the last one
 * to touch a node wins. A combining step reads what meets whole, and makes the values of its
 * reductions for as long as somebody reads them afterwards. */
tsr_status tsr__plan_last_uses(tsr_runtime *rt, tsr__plan *plan, tsr__error *error)
{
  const tsr__program *program = &plan->parts.program;
  plan->gone_steps = plan->schedule.step_count;
  plan->last_use = tsr__new(&rt->heap, tsr__plan_use_bytes(plan));
  if (!plan->last_use) return tsr__error_set(error, TSR_ENOMEM, "no memory for a plan");
  plan->next_gone = plan->last_use + program->node_count;
  plan->first_gone = plan->next_gone + program->node_count;
  plan->apart = plan->first_gone + plan->gone_steps;
  for (int n = 0; n < program->node_count; n++) plan->last_use[n] = -1;
  for (int s = 0; s < plan->schedule.step_count; s++) {
    const tsr__step *step = &plan->schedule.steps[s];
    if (step->kind == TSR__STEP_ALL_REDUCE) plan->apart[s] = tsr__step_is_apart(rt, plan, step);
    if (step->kind == TSR__STEP_KERNEL) {
      const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
      use_nodes(plan, io->inputs, io->input_count, s);
      use_nodes(plan, io->outputs, io->output_count, s);
      plan->kernels++;
    } else if (step->kind != TSR__STEP_ALL_REDUCE) {
      for (int n = step->node; n >= 0; n = tsr__fellow(program, step->node, n)) {
        TSR_FOR_OPERANDS (program, &program->nodes[n], i, o) plan->last_use[o] = s;
        plan->last_use[n] = s;
      }
    } else {
      const tsr__schedule *schedule = &plan->schedule;
      for (int a = step->first; a < step->first + step->count; a++) {
        if (schedule->accums[a].whole || schedule->accums[a].kept)
          plan->last_use[schedule->accums[a].operand] = s;
        for (int n = schedule->first_final[a]; n >= 0; n = schedule->next_final[n])
          plan->last_use[n] = s;
      }
    }
  }
  use_parts(plan);
  keep_forever(plan);
  list_gone(plan);
  return TSR_OK;
}
