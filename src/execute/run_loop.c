/* The step of a loop: the plans of its regions, run on this run's buffers as often as it takes.
 *
 *   values of operands --> leaves of the region's plan --> its steps --> its results
 *        carries  <------------------------------------------------------   |
 *        stacks   <-- each step's place of it ------------------------------+
 *
 * A region's run is a run like any other, with values, partials and numbers of its own; its
 * small arrays are made anew each time in the same memory. Carries are handed on: the run that
 * reads a carry is the last to hold it, so that its buffers serve the next step. */
#include "execute/engine.h"

/* A region at work. */
typedef struct body {
  const tsr__inner *inner;
  tsr__exec exec;
  tsr__program program; /* the plan's, with this run's numbers */
  tsr__arena scratch;
  char first[4096];
} body;

/* The arrays of all steps, one after another. */
typedef struct stack {
  tsr__value *of;  /* NULL: nobody reads it */
  int64_t *each;   /* elements of a step on each device */
  tsr__value *one; /* of slices: the last step's slice */
} stack;

/* A loop's memory lies in the arena of the run around it, except that of its bodies' runs, which
 * is emptied before each step: a loop of a million steps takes as much as one of two. */
typedef struct looping {
  tsr__exec *exec;
  int node, region_count, count;
  const tsr__gnode *g;
  const tsr__loop_attr *attr;
  body **bodies;       /* by region */
  tsr__value **values; /* by operand, held: the arguments of bodies */
  tsr__value **results;
  stack *slices;
  bool *read; /* by result: whether some node reads it */
} looping;

/* ---- a region -------------------------------------------------------------------------------- */

/* Binds a region's numbers: those of its node, counted on over the regions, and the step's
 * number. The latter is the last parameter: tsr__inner says how many come before it. */
static bool bind_region_numbers(const looping *l, body *b, int at)
{
  const tsr__exec *exec = l->exec;
  size_t own = (size_t)b->inner->number;
  b->program = b->exec.plan->parts.program;
  b->program.params = tsr__arena_new(exec->scratch, (own + 1) * sizeof(tsr__num));
  if (!b->program.params) return false;
  if (own)
    memcpy(b->program.params, tsr__inner_numbers(&exec->plan->parts, at, exec->program->params),
           own * sizeof(tsr__num));
  b->program.param_count = (int)own + 1;
  b->exec.program = &b->program;
  return true;
}

/* Opens the run of a region. Its plan and program are the plan's, the rest lives as long as the
 * step. */
static body *open_body(const looping *l, int at)
{
  tsr__exec *exec = l->exec;
  tsr__arena *scratch = exec->scratch;
  body *b = tsr__arena_new(scratch, sizeof *b);
  if (!b) return NULL;
  const tsr__plan *plan = exec->plan->inner[at];
  size_t nodes = (size_t)plan->parts.program.node_count + 1;
  size_t accums = (size_t)plan->schedule.accum_count + 1;
  b->inner = &exec->plan->parts.inner[at];
  tsr__arena_init(&b->scratch, &exec->rt->heap);
  b->exec = (tsr__exec){ .rt = exec->rt,
                         .plan = plan,
                         .scratch = &b->scratch,
                         .error = exec->error,
                         .values = tsr__arena_new(scratch, nodes * sizeof(tsr__value *)),
                         .partials = tsr__arena_new(scratch, accums * sizeof(tsr__partial **)),
                         .extents = tsr__arena_new(scratch, accums * sizeof(tsr__extent)) };
  bool good = b->exec.values && b->exec.partials && b->exec.extents;
  return good && bind_region_numbers(l, b, at) ? b : NULL;
}

/* Releases the values of the run before; carries that were handed on are held elsewhere. */
static void clear_values(body *b)
{
  for (int n = 0; n < b->program.node_count; n++) {
    tsr__value_release(b->exec.values[n]);
    b->exec.values[n] = NULL;
  }
}

/* Adds the region's traffic and counts to the step's. */
static void close_body(looping *l, body *b)
{
  if (!b) return;
  tsr__exec_free(&b->exec);
  l->exec->traffic.bytes += b->exec.traffic.bytes;
  l->exec->traffic.escapes += b->exec.traffic.escapes;
  l->exec->kernels += b->exec.kernels;
  l->exec->collectives += b->exec.collectives;
  tsr__arena_free(&b->scratch);
}

/* Gives a region its arguments. `take`: the carries are its own from now on. Kernels may
 * overwrite a value that a body owns alone; so a carry of a large array costs one buffer and not
 * one a step. */
static void bind_values(looping *l, body *b, bool take)
{
  for (int i = 0; i < b->inner->argument_count; i++) {
    int operand = b->inner->operands[i];
    bool own = take && operand < l->attr->carries + l->attr->slices;
    b->exec.values[b->inner->arguments[i]] = l->values[operand];
    if (own) l->values[operand] = NULL;
    else tsr__value_hold(l->values[operand]);
  }
}

/* Runs a body; of its numbers only the step's changes. */
static tsr_status run_body(body *b, int64_t number)
{
  tsr__arena_reset(&b->scratch, b->first, sizeof b->first);
  b->program.params[b->inner->number].i = number;
  tsr__event event = { .name = "step", .kind = "loop", .device = -1 };
  event.start = tsr__events_begin(b->exec.rt);
  tsr_status status = tsr__exec_run(&b->exec);
  tsr__events_add(b->exec.rt, &event);
  return status;
}

/* Takes the carries out of a run before its values are released: they are the next step's
 * arguments. The new value is held before the old one is released: a step may return its own
 * argument. */
static void take_carries(const looping *l, body *b, tsr__value **out)
{
  for (int i = 0; i < l->attr->carries; i++) {
    tsr__value *made = b->exec.values[b->inner->results[i]];
    tsr__value_hold(made);
    tsr__value_release(out[i]);
    out[i] = made;
  }
  clear_values(b);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* A stack is whole along its first dim on each device, so that a step's array is a range of
 * elements of each part. */
static bool open_stack(const looping *l, stack *s, tsr__value *of)
{
  s->of = of;
  if (!of) return true;
  s->each = tsr__arena_new(l->exec->scratch, ((size_t)of->part_count + 1) * sizeof *s->each);
  for (int p = 0; s->each && p < of->part_count; p++) {
    tsr_box box;
    tsr__value_box(of, p, &box);
    box.size[0] = box.size[0] > 0;
    s->each[p] = tsr__box_count(&box, of->shape.rank);
  }
  return s->each;
}

/* Copies between an array and its place number `at` in a stack, on each device. */
static void copy_step(const stack *s, const tsr__value *one, int64_t at, bool out)
{
  const tsr__devices *devices = tsr__devices_of(s->of->rt);
  const int64_t zero = 0, steps = s->of->shape.dims[0];
  tsr__traffic traffic = { 0 };
  for (int p = 0; p < s->of->part_count; p++) {
    const int64_t *each = &s->each[p], start = at * *each, all = steps * *each;
    if (!s->of->parts[p]) continue;
    tsr__box_copy copy = { .dtype = (tsr_dtype)s->of->dtype,
                           .rank = 1,
                           .from_dims = out ? &all : each,
                           .from_start = out ? &start : &zero,
                           .to_dims = out ? each : &all,
                           .to_start = out ? &zero : &start,
                           .size = each };
    devices->ops->copy(&copy, (out ? s->of : one)->parts[p], (out ? one : s->of)->parts[p],
                       &traffic);
  }
}

/* Whether nobody else holds a step's slice or its memory. This is checked before each step: a
 * region may have returned its slice as a carry, or as part of one. */
static bool is_free(const tsr__value *one)
{
  if (atomic_load_explicit(&one->refs, memory_order_acquire) != 1) return false;
  for (int p = 0; p < one->part_count; p++)
    if (one->parts[p] && !tsr__buffer_alone(one->parts[p])) return false;
  return true;
}

/* The value for a step's slice: the one of the step before, unless somebody still holds it. */
static tsr__value *find_slice_memory(const looping *l, const body *b, int argument, stack *s)
{
  if (s->one && is_free(s->one)) return s->one;
  const tsr__gnode *leaf = &b->program.nodes[argument];
  tsr_shape shape = tsr__gnode_shape(leaf);
  tsr__layout layout = { (tsr_dtype)leaf->dtype, &shape, &b->program.shardings[leaf->sharding],
                         NULL };
  tsr__value_release(s->one);
  s->one = tsr__value_new(l->exec->rt, &layout, l->exec->error);
  return s->one;
}

/* Copies out the slices of a step. Each is an array of its own, which the region reads like any. */
static tsr_status take_slices(looping *l, body *b, int64_t at)
{
  for (int i = 0; i < b->inner->argument_count; i++) {
    int operand = b->inner->operands[i];
    if (operand < l->attr->carries || operand >= l->attr->carries + l->attr->slices) continue;
    stack *s = &l->slices[operand - l->attr->carries];
    tsr__value *one = find_slice_memory(l, b, b->inner->arguments[i], s);
    if (!one) return l->exec->error->status;
    copy_step(s, one, at, true);
    tsr__value_hold(one);
    l->values[operand] = one;
  }
  return TSR_OK;
}

/* Makes the stacked results that some node reads. */
static tsr_status make_stacks(const looping *l, stack *stacks)
{
  const tsr__program *program = l->exec->program;
  for (int i = (int)l->attr->carries; i < l->count; i++) {
    const tsr__result *r = &program->results[l->g->first_result + i];
    tsr_shape shape = { .rank = r->rank };
    memcpy(shape.dims, r->dims, sizeof shape.dims);
    tsr__layout layout = { (tsr_dtype)r->dtype, &shape, &program->shardings[r->sharding], NULL };
    if (!l->read[i]) continue;
    l->results[i] = tsr__value_new(l->exec->rt, &layout, l->exec->error);
    if (!l->results[i]) return l->exec->error->status;
    if (!open_stack(l, &stacks[i], l->results[i])) return tsr__no_memory_to_run(l->exec);
  }
  return TSR_OK;
}

/* Copies a step's results to their place in the stacks. */
static void put_slices(const looping *l, const body *b, const stack *stacks, int64_t at)
{
  for (int i = (int)l->attr->carries; i < l->count; i++)
    if (stacks[i].of) copy_step(&stacks[i], b->exec.values[b->inner->results[i]], at, false);
}

/* ---- the three ------------------------------------------------------------------------------- */

/* Invariant: before step k the carries are values[0 .. carries - 1], and the stacks hold the
 * places of all steps before. */
static tsr_status run_scan(looping *l)
{
  body *b = l->bodies[0];
  int64_t steps = tsr__loop_steps(l->attr, l->g, l->exec->program->params);
  stack *stacks = tsr__arena_new(l->exec->scratch, ((size_t)l->count + 1) * sizeof *stacks);
  tsr_status status = stacks ? make_stacks(l, stacks) : tsr__no_memory_to_run(l->exec);
  for (int64_t k = 0; k < steps && !status; k++) {
    int64_t at = l->attr->reverse ? steps - 1 - k : k;
    status = take_slices(l, b, at);
    if (status) break;
    bind_values(l, b, true);
    status = run_body(b, at);
    if (status) break;
    put_slices(l, b, stacks, at);
    take_carries(l, b, l->values);
  }
  /* The last carries are the results; they change hands. */
  for (int i = 0; i < l->attr->carries; i++) {
    l->results[i] = l->values[i];
    l->values[i] = NULL;
  }
  return status;
}

/* The condition reads the carries and leaves them; the body takes them. The host fetches one
 * element each turn. In several processes the fetch is a meeting, so all take as many turns. */
static tsr_status run_while(looping *l)
{
  tsr_status status = TSR_OK;
  for (;;) {
    uint8_t on = 0;
    bind_values(l, l->bodies[0], false);
    status = run_body(l->bodies[0], 0);
    if (status) break;
    tsr__value *asked = l->bodies[0]->exec.values[l->bodies[0]->inner->results[0]];
    status = tsr__value_fetch(asked, &on, "tsr_while", l->exec->error);
    clear_values(l->bodies[0]);
    if (status || !on) break;
    bind_values(l, l->bodies[1], true);
    status = run_body(l->bodies[1], 0);
    if (status) break;
    take_carries(l, l->bodies[1], l->values);
  }
  for (int i = 0; i < l->count; i++) {
    l->results[i] = l->values[i];
    l->values[i] = NULL;
  }
  return status;
}

/* Runs the region of a number; out of range, the first or last region. */
static tsr_status run_switch(looping *l)
{
  int64_t at = 0, last = l->region_count - 1;
  tsr_status status = tsr__value_fetch(l->values[0], &at, "tsr_switch", l->exec->error);
  body *b = l->bodies[at < 0 ? 0 : at > last ? last : at];
  if (status) return status;
  bind_values(l, b, true);
  status = run_body(b, 0);
  for (int i = 0; i < l->count && !status; i++) {
    l->results[i] = b->exec.values[b->inner->results[i]];
    tsr__value_hold(l->results[i]);
  }
  clear_values(b);
  return status;
}

/* ---- the step -------------------------------------------------------------------------------- */

/* The first of a node's regions among all of the plan's. They follow each other in the order of
 * the regions. */
static int first_inner(const tsr__plan *plan, int node)
{
  int i = 0;
  while (plan->parts.inner[i].node != node) i++;
  return i;
}

/* Opens the bodies and holds the operands, except slices, for all steps. */
static tsr_status hold_loop_operands(looping *l)
{
  tsr__exec *exec = l->exec;
  tsr__arena *scratch = exec->scratch;
  int first = first_inner(exec->plan, l->node);
  size_t most = (size_t)(l->count > 1 ? l->count : 1), ins = (size_t)l->g->in_count + most;
  l->bodies = tsr__arena_new(scratch, (size_t)l->region_count * sizeof *l->bodies);
  l->values = tsr__arena_new(scratch, ins * sizeof *l->values);
  l->results = tsr__arena_new(scratch, most * sizeof *l->results);
  l->read = tsr__arena_new(scratch, most);
  l->slices = tsr__arena_new(scratch, ((size_t)l->attr->slices + 1) * sizeof *l->slices);
  if (!l->bodies || !l->values || !l->results || !l->read || !l->slices)
    return tsr__no_memory_to_run(exec);
  for (int r = 0; r < l->region_count; r++) {
    l->bodies[r] = open_body(l, first + r);
    if (!l->bodies[r]) return tsr__no_memory_to_run(exec);
  }
  /* Slices are read in place, a step at a time. */
  for (int i = 0; i < l->g->in_count; i++) {
    bool slice = i >= l->attr->carries && i < l->attr->carries + l->attr->slices;
    if (slice) { /* a step's own */
      stack *s = &l->slices[i - l->attr->carries];
      if (!open_stack(l, s, tsr__value_in(exec, l->node, i))) return tsr__no_memory_to_run(exec);
      continue;
    }
    l->values[i] = tsr__value_in(exec, l->node, i);
    tsr__value_hold(l->values[i]);
  }
  return TSR_OK;
}

/* Marks the results that RESULT nodes read, or with `give` hands them out. RESULT nodes follow
 * their node; each holds its own value. */
static void for_parts(looping *l, bool give)
{
  const tsr__program *program = l->exec->program;
  for (int n = l->node + 1; n < program->node_count; n++) {
    if (!tsr__is_part(program, n, l->node)) continue;
    int i = tsr__index_of(program, &program->nodes[n]);
    l->read[i] = true;
    if (!give) continue;
    l->exec->values[n] = l->results[i];
    tsr__value_hold(l->results[i]);
  }
}

/* Values that nobody reads are released with the step. */
tsr_status tsr__exec_loop(tsr__exec *exec, int node)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  looping l = { .exec = exec,
                .node = node,
                .region_count = g->region_count,
                .count = g->result_count,
                .g = g,
                .attr = tsr__attr_of(exec->program, g) };
  tsr_status status = hold_loop_operands(&l);
  if (!status) {
    for_parts(&l, false);
    status = l.attr->kind == TSR__LOOP_SCAN    ? run_scan(&l)
             : l.attr->kind == TSR__LOOP_WHILE ? run_while(&l)
                                               : run_switch(&l);
  }
  if (!status) for_parts(&l, true);
  for (int i = 0; l.results && i < l.count; i++) tsr__value_release(l.results[i]);
  for (int i = 0; l.values && i < g->in_count; i++) tsr__value_release(l.values[i]);
  for (int i = 0; l.slices && i < l.attr->slices; i++) tsr__value_release(l.slices[i].one);
  for (int r = 0; l.bodies && r < l.region_count; r++) close_body(&l, l.bodies[r]);
  return status;
}
