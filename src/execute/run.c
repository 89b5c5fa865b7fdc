/* Running a plan: its steps in order on all addressable devices.
 *
 *   values[node]              set by the step that makes the node, released after its last use
 *   partials[accum][position] made by a KERNEL step, merged and freed by the ALL_REDUCE step of
 *                             that or a later stage, or kept by that step as the value of a sum
 *                             that is left unreduced
 *
 * All memory of a run except device memory comes from its room. */
#include "execute/engine.h"
#include "kernel/fallback/fallback.h"

/* ---- kernels ---- */

/* Whether an operand brings run-time rows to a domain. */
static bool brings_rows(const tsr__exec *exec, int domain, int input)
{
  const tsr__gnode *d = &exec->program->nodes[domain], *g = &exec->program->nodes[input];
  return g->rank == d->rank && g->rank > 0 && g->dims[0] < 0;
}

/* The rows of a kernel's domain where they are known at run time only: those of its operands, which
 * must agree. */
static tsr_status find_domain_extent(const tsr__exec *exec, const tsr__kernel_io *io,
                                     tsr__extent *out)
{
  /* A single operand brings its rows; of several the first serves, as all must agree. An operand
   * without run-time rows (a broadcast row, a table) has no say. */
  const tsr__value *first = NULL;
  *out = (tsr__extent){ .total = -1 };
  if (exec->program->nodes[io->domain].dims[0] >= 0) return TSR_OK;
  for (int i = 0; i < io->input_count; i++) {
    if (!brings_rows(exec, io->domain, io->inputs[i])) continue;
    const tsr__value *value = exec->values[io->inputs[i]];
    if (!first) first = value;
    bool same = value->shape.dims[0] == first->shape.dims[0] && !value->rows == !first->rows;
    if (same && value->rows && value->part_count == first->part_count)
      same = !memcmp(value->rows, first->rows, (size_t)value->part_count * sizeof *value->rows);
    if (!same)
      return tsr__error_set(exec->error, TSR_ESHAPE,
                            "two filtered arrays of %lld and %lld rows do not line up; filter both "
                            "together, or rebalance both",
                            (long long)first->shape.dims[0], (long long)value->shape.dims[0]);
  }
  if (first) *out = (tsr__extent){ .total = first->shape.dims[0], .rows = first->rows };
  return TSR_OK;
}

/* A dim of TSR__DYNAMIC is negative; only dim 0 may be. */
static bool has_run_time_rows(const tsr__exec *exec, int node)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  return g->rank > 0 && g->dims[0] < 0;
}

/* The program's shape with this run's number of rows. */
static tsr_shape run_shape(const tsr__exec *exec, int node, const tsr__extent *extent)
{
  tsr_shape shape = tsr__gnode_shape(&exec->program->nodes[node]);
  if (has_run_time_rows(exec, node)) shape.dims[0] = extent->total;
  return shape;
}

/* The new value takes the domain's row counts, so that rows of all results line up. */
static tsr_status make_node_value(tsr__exec *exec, int node, const tsr__extent *extent)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  tsr_shape shape = run_shape(exec, node, extent);
  const int64_t *rows = has_run_time_rows(exec, node) ? extent->rows : NULL;
  exec->values[node] = tsr__value_new(
      exec->rt, &(tsr__layout){ (tsr_dtype)g->dtype, &shape, tsr__sharding_of(exec, node), rows },
      exec->error);
  return exec->values[node] ? TSR_OK : exec->error->status;
}

/* Makes a result in the memory of another value. Buffers are held, so that either value may be
 * freed first. */
static tsr_status share_memory(tsr__exec *exec, const tsr__value *from, int node)
{
  tsr_shape shape = tsr__gnode_shape(&exec->program->nodes[node]);
  tsr__layout layout = { (tsr_dtype)from->dtype, &shape, tsr__sharding_of(exec, node), NULL };
  tsr__value *to = tsr__value_frame(exec->rt, &layout, exec->error);
  if (!to) return exec->error->status;
  for (int p = 0; p < to->part_count; p++) {
    if (!from->parts[p]) continue;
    tsr__buffer_hold(from->parts[p]);
    to->parts[p] = from->parts[p];
  }
  exec->values[node] = to;
  return TSR_OK;
}

/* Whether the result of a kernel can lie in an input's memory: the input is a donated leaf with
 * no other owner, which this step reads last and only at the element that is computed. */
static bool can_replace(const tsr__exec *exec, const tsr__step *step, int input, int node)
{
  int n = tsr__kernel_io_of(step->kernel)->inputs[input];
  const tsr__value *from = exec->values[n];
  const tsr__gnode *g = &exec->program->nodes[node];
  int at = (int)(step - exec->plan->schedule.steps);
  /* Intermediate values get fresh memory from the pool's cache, which is warm as well; the
   * checks pay only for donated leaves. */
  bool leaf = tsr__is_leaf(exec->program->nodes[n].op);
  if (!leaf || exec->plan->last_use[n] != at) return false;
  /* Only the run's reference may be left; other owners would read the new elements. */
  if (atomic_load(&from->refs) != 1 || from->rows || from->dtype != g->dtype) return false;
  if (g->dtype == TSR_BOOL || from->shape.rank != g->rank ||
      memcmp(from->shape.dims, g->dims, (size_t)g->rank * sizeof *g->dims))
    return false;
  if (from->sharding.mesh != tsr__sharding_of(exec, node)->mesh) return false;
  for (int p = 0; p < from->part_count; p++)
    if (from->parts[p] && !tsr__buffer_alone(from->parts[p])) return false;
  return tsr__kernel_reads_own(step->kernel, input);
}

/* Makes the result of a kernel, in the memory of an input where possible. If the shardings are
 * equal, too, it is the input's value itself, which has no other owner. */
static tsr_status make_result(tsr__exec *exec, const tsr__step *step, int node,
                              const tsr__extent *extent)
{
  const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
  int input = 0;
  while (input < io->input_count && !can_replace(exec, step, input, node)) input++;
  if (input == io->input_count) return make_node_value(exec, node, extent);
  tsr__value *from = exec->values[io->inputs[input]];
  if (memcmp(&from->sharding, tsr__sharding_of(exec, node), sizeof from->sharding))
    return share_memory(exec, from, node);
  tsr__value_hold(from);
  exec->values[node] = from;
  return TSR_OK;
}

/* The box gives the count of rows with the usual borders; the run gives that of filtered rows. */
static int64_t count_held_elements(const tsr__exec *exec, int node, int position,
                                   const tsr__extent *extent)
{
  if (!exec->program->nodes[node].rank) return 1;
  tsr_shape shape = run_shape(exec, node, extent);
  tsr_box box;
  tsr__box(tsr__sharding_of(exec, node), &shape, position, &box);
  if (extent->rows && has_run_time_rows(exec, node)) box.size[0] = extent->rows[position];
  return tsr__box_count(&box, shape.rank);
}

/* Elements of a reduction's partials at a position, which may be more than its result has there. */
int64_t tsr__partial_count(const tsr__exec *exec, int accum, int position)
{
  int node = exec->plan->schedule.accums[accum].node;
  const tsr__extent *extent = &exec->extents[accum];
  const tsr__gnode *g = &exec->program->nodes[node];
  if (!tsr__is_scattered(exec->program, g))
    return count_held_elements(exec, node, position, extent);
  tsr_shape shape = tsr__gnode_shape(g);
  tsr_sharding at = tsr__partial_place(tsr__sharding_of(exec, node), g->reduce_axes);
  tsr_box box;
  tsr__box(&at, &shape, position, &box);
  return tsr__box_count(&box, shape.rank);
}

/* Keeps the row counts of the domain for the combining step, since the domain's values may be
 * gone by then. */
static tsr_status keep_extent(tsr__exec *exec, int accum, const tsr__value *domain)
{
  tsr__extent *extent = &exec->extents[accum];
  *extent = (tsr__extent){ .total = domain->shape.rank ? domain->shape.dims[0] : 0 };
  if (!domain->rows) return TSR_OK;
  size_t size = (size_t)domain->part_count * sizeof(int64_t);
  int64_t *rows = tsr__arena_new(exec->scratch, size);
  if (!rows) return tsr__no_memory_to_run(exec);
  memcpy(rows, domain->rows, size);
  extent->rows = rows;
  return TSR_OK;
}

/* Makes one partial a position, also for replicas: each device sums its own elements, and the
 * members of a group are never replicas of each other. */
static tsr_status make_partials(tsr__exec *exec, int accum, const tsr__value *domain)
{
  if (keep_extent(exec, accum, domain)) return exec->error->status;
  const tsr__accum *acc = &exec->plan->schedule.accums[accum];
  const tsr__topology *topology = tsr__topology_of(exec->rt);
  const tsr__devices *devices = tsr__devices_of(exec->rt);
  size_t size = (size_t)domain->part_count * sizeof(tsr__partial *);
  exec->partials[accum] = tsr__arena_new(exec->scratch, size);
  if (!exec->partials[accum]) return tsr__no_memory_to_run(exec);
  for (int p = 0; p < domain->part_count; p++) {
    int device = tsr__home_device(exec->rt, &domain->sharding, p);
    if (!tsr__device_local(topology, device)) continue;
    int64_t count = tsr__partial_count(exec, accum, p);
    tsr__partial_ask ask = { device, exec->program, acc, count };
    exec->partials[accum][p] = devices->ops->partial(exec->rt, &ask, exec->error);
    if (!exec->partials[accum][p]) return exec->error->status;
  }
  return TSR_OK;
}

static int pointers_of(const tsr__kernel_io *io)
{
  return io->input_count + io->output_count + io->accum_count;
}

/* Lists the buffers that one device reads and writes in a kernel. part->inputs has room for all
 * pointers and is divided into three lists. No buffer is held here, since exec->values holds all
 * inputs and results. */
static void fill_kernel_part(tsr__exec *exec, const tsr__kernel_io *io, const tsr__value *domain,
                             int position, tsr__run_part *part)
{
  tsr__buffer **inputs = (tsr__buffer **)(uintptr_t)part->inputs;
  tsr__buffer **outputs = inputs + io->input_count;
  tsr__partial **partials = (tsr__partial **)(outputs + io->output_count);
  for (int i = 0; i < io->input_count; i++)
    inputs[i] = exec->values[io->inputs[i]]->parts[position];
  for (int i = 0; i < io->output_count; i++)
    outputs[i] = exec->values[io->outputs[i]]->parts[position];
  for (int i = 0; i < io->accum_count; i++) partials[i] = exec->partials[io->accums[i]][position];
  part->device = tsr__home_device(exec->rt, &domain->sharding, position);
  part->position = position;
  tsr__value_box(domain, position, &part->box);
  part->outputs = outputs;
  part->partials = partials;
}

/* Whether an array with the planned sharding is the same bytes in another shape on every device.
 * Elements of a box lie in the whole array's order, and a device makes its result from its own
 * elements: two boxes of equal size have the same elements in the same order. Memory lent by the
 * user is not shared, since another array, for which it was not lent, would read it. */
static bool shows_same_bytes(const tsr__exec *exec, const tsr__value *from, int node)
{
  const tsr_sharding *to = tsr__sharding_of(exec, node);
  const tsr_sharding *as = tsr__sharding_of(exec, exec->plan->shows[node]);
  const tsr__extent none = { .total = -1 };
  if (from->rows || from->sharding.mesh != to->mesh) return false;
  if (memcmp(&from->sharding, as, sizeof *as) && !tsr__sharding_equal(&from->sharding, as))
    return false;
  for (int p = 0; p < from->part_count; p++) {
    tsr_box box;
    if (!from->parts[p]) continue;
    tsr__value_box(from, p, &box);
    if (tsr__box_count(&box, from->shape.rank) != count_held_elements(exec, node, p, &none) ||
        tsr__buffer_lent(from->parts[p]) || tsr__holds(&from->sharding, p) != tsr__holds(to, p))
      return false;
  }
  return true;
}

/* Whether all results of a kernel lie in memory already. Then no kernel runs. */
static bool only_shows(const tsr__exec *exec, const tsr__kernel_io *io)
{
  if (io->accum_count || has_run_time_rows(exec, io->domain)) return false;
  for (int i = 0; i < io->output_count; i++) {
    int from = exec->plan->shows[io->outputs[i]];
    if (from < 0 || !shows_same_bytes(exec, exec->values[from], io->outputs[i])) return false;
  }
  return true;
}

/* Gives each result the buffers of its input under a description of its own. */
static tsr_status show_inputs(tsr__exec *exec, const tsr__kernel_io *io)
{
  tsr_status status = TSR_OK;
  for (int i = 0; i < io->output_count && !status; i++) {
    int from = exec->plan->shows[io->outputs[i]];
    status = share_memory(exec, exec->values[from], io->outputs[i]);
  }
  return status;
}

/* Positions of other processes' devices have no part here, and their parts of values are NULL. */
static tsr_status run_kernel(tsr__exec *exec, const tsr__step *step)
{
  const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
  if (only_shows(exec, io)) return show_inputs(exec, io);
  exec->kernels++;
  const tsr__topology *topology = tsr__topology_of(exec->rt);
  const tsr__devices *devices = tsr__devices_of(exec->rt);
  tsr__extent extent;
  if (find_domain_extent(exec, io, &extent)) return exec->error->status;
  /* A value without buffers stands for the domain: its boxes are the local shapes, and
   * tsr__value_box serves a filtered domain as it does values that exist. */
  tsr_shape shape = run_shape(exec, io->domain, &extent);
  const tsr_sharding *sharding = tsr__sharding_of(exec, io->domain);
  int positions = tsr__positions(sharding);
  tsr__value domain = { .rt = exec->rt,
                        .shape = shape,
                        .sharding = *sharding,
                        .part_count = positions,
                        .rows = (int64_t *)extent.rows };
  if (extent.rows) {
    /* A part's box then says which of all rows it has. */
    domain.before = tsr__arena_new(exec->scratch, (size_t)positions * sizeof(int64_t));
    if (!domain.before) return tsr__no_memory_to_run(exec);
    tsr__number_rows(sharding, positions, extent.rows, domain.before);
  }
  /* Outputs and accumulators are made on all devices before any runs, so that a shortage of
   * memory is found here and not in the middle of a pass. */
  tsr_status status = TSR_OK;
  for (int i = 0; i < io->output_count && !status; i++)
    status = make_result(exec, step, io->outputs[i], &extent);
  for (int i = 0; i < io->accum_count && !status; i++)
    status = make_partials(exec, io->accums[i], &domain);
  size_t pointers = (size_t)pointers_of(io);
  tsr__run_part *parts =
      tsr__arena_new(exec->scratch,
                     (size_t)positions * (sizeof *parts + pointers * sizeof(void *)));
  if (!status && !parts) status = tsr__no_memory_to_run(exec);
  if (status) return status;
  tsr__buffer **room = (tsr__buffer **)(parts + positions);
  int count = 0;
  for (int p = 0; p < positions; p++) {
    int device = tsr__home_device(exec->rt, sharding, p);
    if (!tsr__device_local(topology, device)) continue;
    parts[count].inputs = room + (size_t)count * pointers;
    fill_kernel_part(exec, io, &domain, p, &parts[count++]);
  }
  if (!count) return TSR_OK; /* other processes have all positions */
  tsr__span_parts(exec, count);
  tsr__run run = { .rt = exec->rt,
                   .program = exec->program,
                   .schedule = &exec->plan->schedule,
                   .kernel = step->kernel,
                   .part_count = count,
                   .parts = parts,
                   .guesses = exec->plan->guesses,
                   .busy = exec->busy };
  return devices->ops->run(&run, exec->error);
}

/* ---- reductions over devices ---- */

typedef tsr__crossing crossing;

/* Reductions over equal axes of one mesh travel as one message: a mean and a variance of the
 * same rows cost one latency, not four. A sum that stays unreduced travels alone. */
static bool same_crossing(const tsr__exec *exec, const tsr__accum *a, const tsr__accum *b)
{
  const tsr__gnode *nodes = exec->program->nodes;
  if (nodes[a->node].flags & TSR__KEPT || nodes[b->node].flags & TSR__KEPT) return a == b;
  return a->axes == b->axes &&
         tsr__sharding_of(exec, a->node)->mesh == tsr__sharding_of(exec, b->node)->mesh &&
         tsr__scattered_alike(exec->program, &nodes[a->node], &nodes[b->node]);
}

/* How many elements meet in each output of a reduction without a mask and groups. Nobody needs
 * to count then: the divisor of a mean follows from the shape. */
static int64_t population(const tsr__exec *exec, int node, const tsr__extent *extent)
{
  const tsr__gnode *g = &exec->program->nodes[node];
  const tsr__gnode *x = &exec->program->nodes[tsr__in(exec->program, g, 0)];
  uint32_t dims = tsr__reduce_of(exec->program, g)->dims;
  int64_t count = 1;
  for (int d = 0; d < x->rank; d++) {
    if (!(dims >> d & 1)) continue;
    count *= x->dims[d] >= 0 ? x->dims[d] : extent->total;
  }
  return count;
}

/* The operand of an accumulator without partials: with other processes' shards while they meet,
 * else the run's own value. */
static const tsr__value *whole_operand(const tsr__exec *exec, const crossing *c, int a)
{
  if (exec->whole) return exec->whole[c->accums[a] - c->step->first];
  return exec->values[exec->plan->schedule.accums[c->accums[a]].operand];
}

/* The value of a result: with other processes' shards if this process writes parts of them. */
static const tsr__value *crossing_result(const tsr__exec *exec, const crossing *c, int f)
{
  return c->given ? exec->whole[c->given + f] : exec->values[c->finals[f]];
}

/* A group's lists by member, of one crossing's groups in turn:
 *
 *    partials[m]  -> accum_count partials
 *    elements[m]  -> accum_count buffers, of those without partials
 *    outputs[m]   -> final_count buffers */
typedef struct group_lists {
  tsr__partial ***partials;
  tsr__buffer ***elements, ***outputs;
  int64_t *counts; /* by result */
  int *devices;
  tsr_box *boxes;    /* of a scattered result: each member's piece; */
  int *first, *next; /* members with the same piece */
} group_lists;

/* One block: partials | elements | outputs, by member | the lists that these point to, member by
 * member | counts | devices | first | next. Boxes lie in another block. */
static tsr_status open_lists(tsr__exec *exec, const crossing *c, group_lists *out)
{
  size_t members = (size_t)c->group_size, accums = (size_t)c->accum_count;
  size_t finals = (size_t)c->final_count, cells = members * (2 * accums + finals + 3);
  size_t bytes = cells * sizeof(void *) + finals * sizeof(int64_t) + 3 * members * sizeof(int);
  void **block = tsr__arena_new(exec->scratch, bytes);
  if (!block) return tsr__no_memory_to_run(exec);
  out->partials = (tsr__partial ***)block;
  out->elements = (tsr__buffer ***)(out->partials + members);
  out->outputs = out->elements + members;
  void **next = (void **)(out->outputs + members);
  for (size_t m = 0; m < members; m++, next += 2 * accums + finals) {
    out->partials[m] = (tsr__partial **)next;
    out->elements[m] = (tsr__buffer **)(next + accums);
    out->outputs[m] = (tsr__buffer **)(next + 2 * accums);
  }
  out->counts = (int64_t *)next;
  out->devices = (int *)(out->counts + finals);
  out->first = out->devices + members;
  out->next = out->first + members;
  if (!c->scattered) return TSR_OK;
  out->boxes = tsr__arena_new(exec->scratch, members * sizeof *out->boxes);
  return out->boxes ? TSR_OK : tsr__no_memory_to_run(exec);
}

/* Lists the partials or elements that a member brings, and the buffers of its results. */
static void fill_member(const tsr__exec *exec, const crossing *c, const group_lists *to, int m)
{
  int p = c->members[m];
  to->devices[m] = tsr__home_device(exec->rt, c->sharding, p);
  for (int a = 0; a < c->accum_count; a++) {
    int number = c->accums[a];
    to->partials[m][a] = NULL;
    to->elements[m][a] = NULL;
    if (exec->met && exec->met[number]) to->partials[m][a] = exec->met[number][p];
    else if (c->kept[a]) to->partials[m][a] = c->kept[a]->partials[p];
    else if (exec->plan->schedule.accums[number].whole)
      to->elements[m][a] = whole_operand(exec, c, a)->parts[p];
    else to->partials[m][a] = exec->partials[number][p];
  }
  for (int f = 0; f < c->final_count; f++) {
    const tsr__value *result = crossing_result(exec, c, f);
    to->outputs[m][f] = tsr__holds(&result->sharding, p) ? result->parts[p] : NULL;
  }
}

/* Chains members with the same piece: they differ in combined axes that do not shard the result.
 * The loop goes backwards, so that the chains are in order. */
static void chain_pieces(const crossing *c, const group_lists *to)
{
  const tsr_mesh *mesh = c->sharding->mesh;
  unsigned alike = c->axes & tsr__free_axes(c->sharding);
  for (int m = 0; m < c->group_size; m++) to->next[m] = -1;
  for (int m = c->group_size - 1; m >= 0; m--) {
    int p = c->members[m], index = tsr__mesh_group_index(mesh, alike, p);
    int leader = tsr__mesh_group_leader(mesh, alike, p);
    to->first[m] = tsr__mesh_group_index(mesh, c->axes, leader);
    if (!index) continue;
    int before = leader + tsr__mesh_group_offset(mesh, alike, index - 1);
    to->next[tsr__mesh_group_index(mesh, c->axes, before)] = m;
  }
}

/* Finds the part of a group's partials that each member gets. Starts count within the group's
 * own part, since a partial's first element is the first of that part. */
static tsr__pieces find_pieces(const crossing *c, const group_lists *lists)
{
  tsr_shape shape = tsr__gnode_shape(c->scattered);
  tsr_sharding at = tsr__partial_place(c->sharding, c->axes);
  tsr__pieces pieces = { shape.rank, { 0 }, lists->boxes, lists->first, lists->next };
  tsr_box whole;
  tsr__box(&at, &shape, c->members[0], &whole);
  for (int m = 0; m < c->group_size; m++) {
    tsr__box(c->sharding, &shape, c->members[m], &lists->boxes[m]);
    for (int d = 0; d < shape.rank; d++) lists->boxes[m].start[d] -= whole.start[d];
  }
  memcpy(pieces.size, whole.size, sizeof pieces.size);
  chain_pieces(c, lists);
  return pieces;
}

static tsr_status combine_group(tsr__exec *exec, const crossing *c, const group_lists *lists)
{
  tsr__pieces pieces;
  for (int m = 0; m < c->group_size; m++) fill_member(exec, c, lists, m);
  if (tsr__deal_copy(exec, c, lists->partials)) return exec->error->status;
  for (int f = 0; f < c->final_count; f++) {
    int accum = exec->plan->schedule.final_main[c->finals[f]];
    /* The first member's count holds for all: they differ in combined axes only, which do not
     * shard a result that is not scattered. */
    lists->counts[f] =
        count_held_elements(exec, c->finals[f], c->members[0], &exec->extents[accum]);
  }
  if (c->scattered) pieces = find_pieces(c, lists);
  tsr__all_reduce combine = {
    .rt = exec->rt,
    .pieces = c->scattered ? &pieces : NULL,
    .share = tsr__deal_share(exec, c),
    .program = exec->program,
    .schedule = &exec->plan->schedule,
    .member_count = c->group_size,
    .devices = lists->devices,
    .accum_count = c->accum_count,
    .accums = c->accums,
    .partials = (tsr__partial *const *const *)lists->partials,
    .elements = (tsr__buffer *const *const *)lists->elements,
    .final_count = c->final_count,
    .finals = c->finals,
    .outputs = (tsr__buffer *const *const *)lists->outputs,
    .out_counts = lists->counts,
    .populations = c->populations,
  };
  if (tsr__together_want(exec, &combine)) return exec->error->status;
  return tsr__devices_of(exec->rt)->ops->all_reduce(&combine, &exec->traffic, exec->error);
}

static tsr_status combine_groups(tsr__exec *exec, crossing *c)
{
  group_lists lists = { 0 };
  tsr_status status = open_lists(exec, c, &lists);
  for (int g = 0; g < tsr__crossing_groups(c) && !status; g++) {
    tsr__crossing_group(exec, c, g);
    status = combine_group(exec, c, &lists);
    tsr__deal_drop(exec, c);
  }
  return status;
}

/* Adds an accumulator and its results to a crossing. Either way the crossing has one reference
 * to an unreduced sum, which drop_crossings gives back. */
static tsr_status take_along(tsr__exec *exec, const tsr__step *step, int accum, crossing *c)
{
  const tsr__schedule *schedule = &exec->plan->schedule;
  int at = c->accum_count++;
  c->accums[at] = accum;
  if (schedule->accums[accum].kept) {
    c->kept[at] = exec->kept ? exec->kept[accum - step->first] : NULL;
    if (c->kept[at]) atomic_fetch_add_explicit(&c->kept[at]->refs, 1, memory_order_relaxed);
    else c->kept[at] = tsr__exec_kept_meets(exec, step, accum);
    if (!c->kept[at]) return exec->error->status;
  }
  for (int n = schedule->first_final[accum]; n >= 0; n = schedule->next_final[n]) {
    /* The rows are the domain's at the time of accumulation, though its values may be gone. */
    tsr_status status = make_node_value(exec, n, &exec->extents[accum]);
    if (status) return status;
    c->populations[c->final_count] = population(exec, n, &exec->extents[accum]);
    c->finals[c->final_count++] = n;
  }
  return TSR_OK;
}

/* Collects the accumulators that travel with `accum` and the nodes they finalise, as the last
 * crossing of the list. Values of the results are made here, not by the kernel that filled the
 * accumulators: between them other steps ran, and no memory was held for results that nobody
 * could read yet. */
static tsr_status begin_crossing(tsr__exec *exec, const tsr__step *step, int accum,
                                 crossing ***last)
{
  const tsr__schedule *schedule = &exec->plan->schedule;
  const tsr_sharding *sharding = tsr__sharding_of(exec, schedule->accums[accum].node);
  const tsr__gnode *node = &exec->program->nodes[schedule->accums[accum].node];
  int finals = 0;
  for (int a = step->first; a < step->first + step->count; a++)
    for (int n = schedule->first_final[a]; n >= 0; n = schedule->next_final[n]) finals++;
  /*   c | kept[count] | populations[finals] | finals[finals] | accums[count]
   *     | members[group_size] */
  size_t count = (size_t)step->count, few = (size_t)finals;
  int group_size = tsr__mesh_group_size(sharding->mesh, schedule->accums[accum].axes);
  crossing *c =
      tsr__arena_new(exec->scratch, sizeof *c + count * (sizeof *c->kept + sizeof *c->accums) +
                                        few * (sizeof *c->populations + sizeof *c->finals) +
                                        (size_t)group_size * sizeof *c->members);
  if (!c) return tsr__no_memory_to_run(exec);
  *c = (crossing){ .step = step,
                   .axes = schedule->accums[accum].axes,
                   .sharding = sharding,
                   .group_size = group_size };
  if (tsr__is_scattered(exec->program, node)) c->scattered = node;
  c->kept = (tsr__kept **)(c + 1);
  c->populations = (int64_t *)(c->kept + count);
  c->finals = (int *)(c->populations + few);
  c->accums = c->finals + few;
  c->members = c->accums + count;
  **last = c;
  *last = &c->next;
  tsr_status status = TSR_OK;
  for (int a = step->first; a < step->first + step->count && !status; a++)
    if (same_crossing(exec, &schedule->accums[a], &schedule->accums[accum]))
      status = take_along(exec, step, a, c);
  return status ? status : tsr__deal(exec, c);
}

static tsr_status end_crossing(tsr__exec *exec, crossing *c)
{
  tsr_status status = combine_groups(exec, c);
  /* Processes take results from each other only where they met; else each result is complete by
   * now. */
  return status || !exec->met ? status : tsr__deal_take(exec, c);
}

/* Called after combining. tsr__exec_free calls it for accumulators that a failed run left. */
static void drop_accum_partials(tsr__exec *exec, int accum)
{
  if (!exec->partials[accum]) return;
  int positions = tsr__positions(tsr__sharding_of(exec, exec->plan->schedule.accums[accum].node));
  for (int p = 0; p < positions; p++)
    if (exec->partials[accum][p])
      tsr__devices_of(exec->rt)->ops->partial_free(exec->partials[accum][p]);
  exec->partials[accum] = NULL;
}

tsr_status tsr__begin_crossings(tsr__exec *exec, const tsr__step *step)
{
  const tsr__accum *accums = exec->plan->schedule.accums;
  crossing **last = &exec->crossings;
  tsr_status status = TSR_OK;
  if (exec->crossings) return TSR_OK;
  for (int a = step->first; a < step->first + step->count && !status; a++) {
    bool done = exec->program->nodes[accums[a].node].flags & TSR__KEPT;
    /* A step may have accumulators of several crossings; the first one of a crossing collects
     * the rest. */
    for (int b = step->first; b < a && !done; b++)
      done = same_crossing(exec, &accums[a], &accums[b]);
    if (!done) status = begin_crossing(exec, step, a, &last);
  }
  return status;
}

/* Allocations within the arena's current block cannot fail; the lists of a group's members are
 * allocated there. */
bool tsr__crossings_are_sure(const tsr__exec *exec, const tsr__step *step)
{
  size_t room = 0;
  for (int a = step->first; a < step->first + step->count; a++) {
    const tsr__accum *accum = &exec->plan->schedule.accums[a];
    bool kept = exec->program->nodes[accum->node].flags & TSR__KEPT;
    if (!accum->whole || accum->kept || kept) return false;
  }
  for (const crossing *c = exec->crossings; c; c = c->next) {
    size_t lists = 2 * (size_t)c->accum_count + 2 * (size_t)c->final_count + 4;
    size_t members = (size_t)c->group_size;
    room += members * (lists * sizeof(void *) + sizeof(tsr_box) + 2 * _Alignof(max_align_t));
    if (members * (size_t)c->final_count > TSR__FEW_RESULTS) return false;
    if (!tsr__deal_is_complete(exec, c)) return false;
  }
  return room <= tsr__arena_left(exec->scratch);
}

static tsr_status cross_all(tsr__exec *exec, const tsr__step *step)
{
  const tsr__accum *accums = exec->plan->schedule.accums;
  tsr_status status = tsr__begin_crossings(exec, step);
  for (int a = step->first; a < step->first + step->count && !status; a++)
    if (exec->program->nodes[accums[a].node].flags & TSR__KEPT) status = tsr__exec_keep(exec, a);
  for (crossing *c = exec->crossings; c && !status; c = c->next) status = end_crossing(exec, c);
  return status;
}

/* Releases the sums of all crossings, also of crossings that failed. */
static void drop_crossings(tsr__exec *exec)
{
  for (const crossing *c = exec->crossings; c; c = c->next)
    for (int a = 0; a < c->accum_count; a++) tsr__kept_release(c->kept[a]);
  exec->crossings = NULL;
}

/* Partials are freed also on failure: a failed run does not go on. */
static tsr_status run_combine(tsr__exec *exec, const tsr__step *step)
{
  bool apart = exec->plan->apart[step - exec->plan->schedule.steps];
  tsr_status status = apart ? tsr__meet_step(exec, step, cross_all) : cross_all(exec, step);
  drop_crossings(exec);
  for (int a = step->first; a < step->first + step->count; a++) drop_accum_partials(exec, a);
  return status;
}

/* ---- all steps ---- */

/* Runs a step, which makes its values in exec->values; drop_used_values frees them later. */
static tsr_status run_plan_step(tsr__exec *exec, const tsr__step *step)
{
  switch (step->kind) {
  case TSR__STEP_KERNEL: return run_kernel(exec, step);
  case TSR__STEP_ALL_REDUCE: return run_combine(exec, step);
  case TSR__STEP_RESHARD: return tsr__exec_reshard(exec, step->node);
  case TSR__STEP_SHIFT: return tsr__exec_shift(exec, step->node);
  case TSR__STEP_KEPT: return tsr__exec_kept_step(exec, step->node);
  case TSR__STEP_COMPACT: return tsr__exec_compact(exec, step->node);
  case TSR__STEP_FIRSTN: return tsr__exec_firstn(exec, step->node);
  case TSR__STEP_TAP: return tsr__exec_tap(exec, step->node);
  case TSR__STEP_ROUTINE: return tsr__exec_routine(exec, step->node);
  case TSR__STEP_LOOP: return tsr__exec_loop(exec, step->node);
  default: return tsr__exec_rebalance(exec, step->node);
  }
}

/* Releases values that no later step reads; roots live until the end. */
static void drop_used_values(tsr__exec *exec, int step)
{
  for (int n = exec->plan->first_gone[step]; n >= 0; n = exec->plan->next_gone[n]) {
    if (!exec->values[n]) continue;
    tsr__value_release(exec->values[n]);
    exec->values[n] = NULL;
  }
}

/* ---- the last meeting ------------------------------------------------------------------------ */

/* Runs the steps after the current one early: they share its memory, which is allocated and not
 * filled yet. False: one of them cannot. */
static bool show_rest(tsr__exec *exec)
{
  const tsr__schedule *schedule = &exec->plan->schedule;
  for (int s = exec->step + 1; s < schedule->step_count; s++) {
    const tsr__kernel_io *io = tsr__kernel_io_of(schedule->steps[s].kernel);
    if (!only_shows(exec, io) || show_inputs(exec, io)) return false;
    exec->ahead = s + 1;
  }
  return true;
}

/* A progress callback between steps may stop a run, and a check of floats may fail it: nothing
 * is promised then. The step's traffic is announced before it moves; an earlier run without a
 * promise counted it (count_closing). */
const int64_t *tsr__exec_promise(tsr__exec *exec)
{
  const tsr__plan *plan = exec->plan;
  int64_t bytes = atomic_load_explicit(&plan->closing_bytes, memory_order_relaxed);
  if (!exec->outer || plan->closes != exec->step || bytes < 0) return NULL;
  if (exec->rt->check || exec->rt->opts.progress || !show_rest(exec)) return NULL;
  exec->promised[0] = exec->traffic.bytes + bytes;
  exec->promised[1] = exec->traffic.escapes;
  return exec->promised;
}

/* Records the closing step's traffic for the next run; if it differs from the last time, nothing
 * is promised again. */
static void count_closing(const tsr__exec *exec, const tsr__traffic *before)
{
  tsr__plan *plan = (tsr__plan *)exec->plan;
  int64_t bytes = exec->traffic.bytes - before->bytes;
  int64_t last = atomic_load_explicit(&plan->closing_bytes, memory_order_relaxed);
  if (last == bytes || last == TSR__NO_BYTES) return;
  bool first = last == TSR__UNKNOWN_BYTES && exec->traffic.escapes == before->escapes;
  atomic_store_explicit(&plan->closing_bytes, first ? bytes : TSR__NO_BYTES, memory_order_relaxed);
}

/* ---- the run ------------------------------------------------------------------------------- */

/* After an error tsr__exec_free releases the values. */
tsr_status tsr__exec_run(tsr__exec *exec)
{
  const tsr__schedule *schedule = &exec->plan->schedule;
  tsr__progress progress = { .rt = exec->rt, .what = TSR__PROGRAM, .total = schedule->step_count };
  for (int i = 0; i < schedule->step_count; i++) {
    tsr_status status = TSR_OK;
    /* The loop asks between steps; steps that take long ask for themselves. */
    if (tsr__run_stops(exec, &progress, i)) return tsr__cancelled(exec->error, progress.what);
    int64_t start = tsr__events_begin(exec->rt);
    const tsr__traffic before = exec->traffic;
    exec->step = i;
    if (i >= exec->ahead) status = run_plan_step(exec, &schedule->steps[i]);
    if (!status && exec->rt->check) status = tsr__check_step(exec, &schedule->steps[i]);
    if (status) return status;
    if (i == exec->plan->closes) count_closing(exec, &before);
    if (start) tsr__span_step(exec, &schedule->steps[i], start, before.bytes);
    drop_used_values(exec, i);
    if (exec->ends)
      exec->ends[i] =
          tsr__queues_mark(tsr__devices_of(exec->rt), i ? exec->ends[i - 1] : exec->first);
  }
  exec->collectives += exec->plan->collectives;
  return TSR_OK;
}

/* Values of roots survive in the arrays that they were hung on, which hold them as well. */
void tsr__exec_free(tsr__exec *exec)
{
  for (int a = 0; exec->partials && a < exec->plan->schedule.accum_count; a++)
    drop_accum_partials(exec, a);
  for (int n = 0; exec->values && n < exec->program->node_count; n++)
    tsr__value_release(exec->values[n]);
}
