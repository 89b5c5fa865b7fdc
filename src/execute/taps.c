/* Arrays shown to callbacks on their way through a program.
 *
 *   when it is planned   tsr_inspect_sharding: how it lies; not where the plan is found again
 *   when it runs         tsr_callback, tsr_print: its elements in host memory, whole or by device
 *
 * A tap's value is its operand's, shared. Callbacks run on the thread of the terminal, one after
 * another in the order of the plan's steps. */
#include "execute/engine.h"

static const tsr__tap_attr *tap_of(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  return tsr__ops[g->op].attr == TSR__ATTR_TAP ? tsr__attr_of(program, g) : NULL;
}

static void tell_shardings(const tsr__plan *plan)
{
  const tsr__program *program = &plan->parts.program;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__tap_attr *tap = tap_of(program, n);
    if (!tap || tap->kind != TSR__TAP_SHARDING) continue;
    const tsr__gnode *g = &program->nodes[n];
    tsr_sharding at = program->shardings[g->sharding];
    if (at.rank > g->rank) at.rank = g->rank;
    ((tsr_sharding_fn *)(uintptr_t)tap->fn)(at, (tsr_dtype)g->dtype, tsr__gnode_shape(g),
                                            (void *)(uintptr_t)tap->user);
  }
  for (int i = 0; i < plan->parts.inner_count; i++) tell_shardings(plan->inner[i]);
}

/* By the first who has the plan in use, and not where it is made: callbacks run under no lock. */
void tsr__tap_plan(tsr__plan *plan)
{
  if (atomic_load(&plan->untold) && atomic_exchange(&plan->untold, false)) tell_shardings(plan);
}

/* Gives the callback what lies in `data`. */
static tsr_status call_tap(const tsr__exec *exec, int node, tsr__shown *shown)
{
  const tsr__tap_attr *tap = shown->attr;
  tsr_status status =
      ((tsr_seen_fn *)(uintptr_t)tap->fn)(&shown->seen, (void *)(uintptr_t)tap->user);
  const char *site = exec->program->sites ? exec->program->sites[node] : NULL;
  if (!status) return TSR_OK;
  return tsr__error_set(
      exec->error, status,
      "the callback of tsr_callback at %s failed with %s; the callback knows the reason",
      site ? site : "an unknown line", tsr_status_name(status));
}

/* One position's elements, or all. Bytes of the host's heap for as long as the callback runs; who
 * wants to keep elements copies them. */
static tsr_status show_tap_part(const tsr__exec *exec, int node, int position)
{
  const tsr__value *value = exec->values[node];
  tsr__heap *heap = &exec->rt->heap;
  tsr__shown shown = { .attr = tap_of(exec->program, node),
                       .process = tsr__topology_of(exec->rt)->process_index };
  tsr_seen *seen = &shown.seen;
  *seen = (tsr_seen){ .dtype = (tsr_dtype)value->dtype,
                      .shape = value->shape,
                      .sharding = value->sharding,
                      .device = -1 };
  memcpy(seen->box.size, value->shape.dims, sizeof value->shape.dims);
  if (position >= 0) {
    seen->device = tsr__home_device(exec->rt, &value->sharding, position);
    tsr__value_box(value, position, &seen->box);
    memcpy(seen->shape.dims, seen->box.size, sizeof seen->shape.dims);
  }
  size_t bytes = (size_t)tsr__shape_count(&seen->shape) * tsr_dtype_size(seen->dtype) + 1;
  void *data = tsr__new_raw(heap, bytes);
  if (!data) return tsr__error_set(exec->error, TSR_ENOMEM, "no memory to show an array");
  seen->data = data;
  tsr_status status = TSR_OK;
  if (position < 0) {
    status = tsr__value_fetch(value, data, "tsr_callback", exec->error);
  } else {
    tsr__box_copy copy = tsr__part_copy(value, &seen->box);
    tsr__devices_of(exec->rt)->ops->to_host(&copy, value->parts[position], data);
  }
  if (!status) status = call_tap(exec, node, &shown);
  tsr__del(heap, data, bytes);
  return status;
}

/* By device, each process shows its own; whole, all of them show the same. */
tsr_status tsr__exec_tap(tsr__exec *exec, int node)
{
  const tsr__tap_attr *tap = tap_of(exec->program, node);
  tsr__value *value = tsr__value_in(exec, node, 0);
  tsr__value_hold(value);
  exec->values[node] = value;
  if (tap->kind == TSR__TAP_SHARDING) return TSR_OK;
  if (!tap->shards) return show_tap_part(exec, node, -1);
  tsr_status status = TSR_OK;
  for (int p = 0; p < value->part_count && !status; p++)
    if (value->parts[p]) status = show_tap_part(exec, node, p);
  return status;
}
