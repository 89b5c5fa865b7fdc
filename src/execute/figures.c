/* The flops, traffic and memory of a plan, counted without running it.
 *
 *   flops    by node: elements that it computes, or that it reads where it reduces; two for each
 *            product of a dot
 *   moves    by kind: the notes of the plan, those that travel together as one
 *   memory   by step: what is made is there from its step to the last that reads it
 *   peak     memory once more: the arrays at the step that needs the most
 *   loops    the figures of a region, as often as it runs: of a scan once a step, of a while once,
 *            as nobody knows how many turns there will be; of a choice the most of any body's
 *
 * The figures of one device are those of the first position of each node, which has the most
 * elements. Dims that are known at run time count as 0. */
#include "execute/engine.h"

#include <limits.h>
#include <stdlib.h>

/* The bytes of a node at the first position. A node of several results counts by its RESULT
 * nodes. An unreduced sum counts as accumulators, by the bytes that travel. */
static int64_t local_bytes(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  if (g->result_count || !g->dtype) return 0;
  if (g->flags & TSR__KEPT)
    return tsr__wire_bytes(g->cause, g->dtype, tsr__node_elements(program, node, true));
  return (int64_t)tsr__device_bytes((tsr_dtype)g->dtype, tsr__node_elements(program, node, true));
}

/* The flops of a node; sources, views and moves compute nothing. */
static double flops_of(const tsr__program *program, int node, bool local)
{
  tsr__flops_fn *flops = tsr__ops[program->nodes[node].op].flops;
  return flops ? flops(program, node, local) : 0;
}

/* ---- traffic ------- */

/* Finds a kind by its name, or adds it. Names are static texts, so they are compared as
 * pointers. */
static tsr_kind_figures *find_kind_figures(tsr_figures *out, const char *kind)
{
  int k = 0;
  while (k < out->kind_count && out->kinds[k].kind != kind) k++;
  if (k == out->kind_count) out->kinds[out->kind_count++] = (tsr_kind_figures){ .kind = kind };
  return &out->kinds[k];
}

/* Counts moves by kind; a note without bytes is left out. The bytes of notes that travel
 * together add up and count as one move. */
static void count_planned_moves(const tsr__partitioned *parts, tsr_figures *out)
{
  for (int i = 0; i < parts->note_count; i++) {
    const tsr__note *note = &parts->notes[i];
    if (!note->bytes) continue;
    tsr_kind_figures *kind = find_kind_figures(out, tsr__move_name(note->move));
    kind->bytes += note->bytes;
    kind->count += note->lead == i;
  }
}

/* ---- figures of regions ---- */

/* The product, or INT64_MAX where it overflows. */
static int64_t multiply_bounded(int64_t one, int64_t count)
{
  int64_t all;
  return __builtin_mul_overflow(one, count, &all) ? INT64_MAX : all;
}

static int64_t add_bounded(int64_t a, int64_t b)
{
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int multiply_bounded_int(int one, int64_t count)
{
  int64_t all = multiply_bounded(one, count);
  return all < INT_MAX ? (int)all : INT_MAX;
}

static int add_bounded_int(int a, int b)
{
  return a > INT_MAX - b ? INT_MAX : a + b;
}

/* Adds the figures of a region that runs `count` times, except its memory. */
static void add_times_figures(tsr_figures *to, const tsr_figures *one, int64_t count)
{
  to->flops += one->flops * (double)count;
  to->device_flops += one->device_flops * (double)count;
  to->device_bytes = add_bounded(to->device_bytes, multiply_bounded(one->device_bytes, count));
  to->bytes_moved = add_bounded(to->bytes_moved, multiply_bounded(one->bytes_moved, count));
  to->collectives = add_bounded_int(to->collectives, multiply_bounded_int(one->collectives, count));
  to->kernels = add_bounded_int(to->kernels, multiply_bounded_int(one->kernels, count));
  for (int k = 0; k < one->kind_count; k++) {
    tsr_kind_figures *kind = find_kind_figures(to, one->kinds[k].kind);
    kind->count = add_bounded_int(kind->count, multiply_bounded_int(one->kinds[k].count, count));
    kind->bytes = add_bounded(kind->bytes, multiply_bounded(one->kinds[k].bytes, count));
  }
}

#define AT_LEAST(to, value) ((to) = (to) < (value) ? (value) : (to))

/* Raises each figure to the most of any body, since one of them runs. The result is a bound and
 * not the figures of one body: no body may have all of these. */
static void take_most(tsr_figures *to, const tsr_figures *one)
{
  AT_LEAST(to->flops, one->flops);
  AT_LEAST(to->device_flops, one->device_flops);
  AT_LEAST(to->device_bytes, one->device_bytes);
  AT_LEAST(to->bytes_moved, one->bytes_moved);
  AT_LEAST(to->collectives, one->collectives);
  AT_LEAST(to->kernels, one->kernels);
  for (int k = 0; k < one->kind_count; k++) {
    tsr_kind_figures *kind = find_kind_figures(to, one->kinds[k].kind);
    AT_LEAST(kind->count, one->kinds[k].count);
    AT_LEAST(kind->bytes, one->kinds[k].bytes);
  }
}

/* ---- memory ---- */

/* A plan whose figures are counted, with its numbers, and the loop that runs it if it is a
 * region's. */
typedef struct asked {
  const tsr__plan *plan;
  const tsr__num *params;
  const tsr__inner *inner;    /* NULL: a program */
  const tsr__program *around; /* that has the loop */
  int64_t carries;            /* the first arguments, which nobody else holds */
  tsr__costs *costs;          /* that list the arrays at the peak; NULL: nobody asks */
  tsr_runtime *rt;
  tsr__arena *scratch;
  tsr__error *error;
} asked;

/* The memory of a plan at each step. A node is held from the step that makes it to the last that
 * reads it:
 *
 *    step        1  2  3  4      now    bytes of all that is held
 *    held a      #######         peak   arguments, and the most of now + room over the steps
 *    held b            ##### */
typedef struct memory {
  const asked *of;
  const tsr__plan *plan;
  int64_t *held;     /* by node: its bytes that a step made */
  int64_t *partials; /* by accumulator */
  int64_t now;
  int64_t room; /* scratch memory of the current step */
  /* by node: a leaf that nobody else holds, freed after its last reader */
  bool *given;
  tsr_figures *out;
  int step;
  int worst;  /* the step that needs the most; -1: none needs more than the arguments */
  bool lists; /* `worst` is known, and its arrays are listed */
} memory;

static tsr_status count_plan(const asked *of, tsr_figures *out);

static tsr_status no_memory_for_figures(tsr__error *error)
{
  return tsr__error_set(error, TSR_ENOMEM, "no memory for the figures of a plan");
}

/* Takes the bytes of a node, once. A node that is not held has 0 bytes, and a node of 0 bytes
 * may be taken any number of times. */
static void take_node_bytes(memory *m, int node)
{
  if (m->held[node]) return;
  m->held[node] = local_bytes(&m->plan->parts.program, node);
  m->now += m->held[node];
}

/* Takes the bytes of a node that was made: of several results those that some RESULT node takes
 * out. */
static void take_made(memory *m, int node)
{
  const tsr__program *program = &m->plan->parts.program;
  if (program->nodes[node].result_count)
    for (int n = node + 1; n < program->node_count; n++)
      if (tsr__is_part(program, n, node)) take_node_bytes(m, n);
  take_node_bytes(m, node);
}

static void count_io(memory *m, const int *nodes, int count)
{
  for (int i = 0; i < count; i++)
    m->out->device_bytes += local_bytes(&m->plan->parts.program, nodes[i]);
}

/* Whether a kernel's result reuses the memory of a carry, as in a run (run.c). The bytes then
 * count under the new node. */
static bool replaces(memory *m, int step, int node)
{
  const tsr__kernel *kernel = m->plan->schedule.steps[step].kernel;
  const tsr__kernel_io *io = tsr__kernel_io_of(kernel);
  const tsr__program *program = &m->plan->parts.program;
  const tsr__gnode *to = &program->nodes[node];
  for (int i = 0; i < io->input_count; i++) {
    const tsr__gnode *from = &program->nodes[io->inputs[i]];
    if (!m->given[io->inputs[i]] || m->plan->last_use[io->inputs[i]] != step) continue;
    if (from->dtype != to->dtype || to->dtype == TSR_BOOL || from->rank != to->rank ||
        memcmp(from->dims, to->dims, to->rank * sizeof *to->dims) ||
        !tsr__kernel_reads_own(kernel, i))
      continue;
    m->held[node] = m->held[io->inputs[i]];
    m->held[io->inputs[i]] = 0;
    m->given[io->inputs[i]] = false;
    return true;
  }
  return false;
}

/* ---- accumulators and routines ---- */

/* Elements of a partial at the first position. If the sum is scattered, each device has a larger
 * part than its result's. */
static int64_t partial_count(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  const tsr_sharding *at = &program->shardings[g->sharding];
  if (!tsr__is_scattered(program, g)) return tsr__node_elements(program, node, true);
  tsr_sharding own = tsr__partial_place(at, g->reduce_axes);
  int64_t count = 1;
  for (int d = 0; d < g->rank; d++)
    count *= tsr__dim_span(&own, d, g->dims[d] < 0 ? 0 : g->dims[d], 0).length;
  return count;
}

/* Takes the bytes of a partial, which lives from the kernel that fills it to the step that reads
 * it. */
static void take_partial(memory *m, int accum)
{
  const tsr__accum *a = &m->plan->schedule.accums[accum];
  const tsr__program *program = &m->plan->parts.program;
  tsr__partial_ask ask = { 0, program, a, partial_count(program, a->node) };
  const tsr__device_ops *ops = tsr__devices_of(m->of->rt)->ops;
  m->partials[accum] = (int64_t)ops->partial_bytes(&ask, false);
  m->now += m->partials[accum];
}

static void meet_partial(memory *m, int accum)
{
  const tsr__accum *a = &m->plan->schedule.accums[accum];
  const tsr__program *program = &m->plan->parts.program;
  tsr__partial_ask ask = { 0, program, a, partial_count(program, a->node) };
  const tsr__device_ops *ops = tsr__devices_of(m->of->rt)->ops;
  if (!a->whole && a->axes) AT_LEAST(m->room, (int64_t)ops->partial_bytes(&ask, true));
}

static void drop_partial_bytes(memory *m, const tsr__step *step)
{
  for (int a = step->first; a < step->first + step->count; a++) {
    m->now -= m->partials[a];
    m->partials[a] = 0;
  }
}

/* The first position's box of an operand or result. */
static void find_first_box(const tsr_sharding *at, const tsr_shape *shape, tsr__shard *out)
{
  tsr_shape known = *shape;
  for (int d = 0; d < known.rank; d++)
    if (known.dims[d] < 0) known.dims[d] = 0;
  tsr__box(at, &known, 0, &out->box);
}

/* Counts the scratch memory of a routine. The device's table knows what its routines allocate;
 * it gets boxes and no buffers. */
static tsr_status take_routine_scratch(memory *m, int node)
{
  const tsr__program *program = &m->plan->parts.program;
  const tsr__gnode *g = &program->nodes[node];
  int outs = g->result_count ? g->result_count : 1;
  size_t count = (size_t)(g->in_count + outs);
  tsr__shard *in = tsr__arena_new(m->of->scratch, count * sizeof *in), *out = in + g->in_count;
  bool *wanted = tsr__arena_new(m->of->scratch, (size_t)outs + 1);
  if (!in || !wanted) return no_memory_for_figures(m->of->error);
  TSR_FOR_OPERANDS (program, g, i, o) {
    tsr_shape shape = tsr__gnode_shape(&program->nodes[o]);
    find_first_box(&program->shardings[program->nodes[o].sharding], &shape, &in[i]);
  }
  /* Results that nobody takes out have no node: they are not wanted and have no box. */
  for (int n = node; n < program->node_count; n++) {
    bool part = g->result_count && tsr__is_part(program, n, node);
    if (!part && (n > node || g->result_count)) continue;
    tsr_shape shape = tsr__gnode_shape(&program->nodes[n]);
    int i = part ? tsr__index_of(program, &program->nodes[n]) : 0;
    wanted[i] = true;
    find_first_box(&program->shardings[program->nodes[n].sharding], &shape, &out[i]);
  }
  tsr__call_part one = { .in = in, .out = out };
  tsr__call call = {
    .rt = m->of->rt, .program = program, .node = node, .part_count = 1, .parts = &one
  };
  AT_LEAST(m->room, tsr__devices_of(m->of->rt)->ops->call_room(&call, wanted));
  return TSR_OK;
}

/* ---- the peak ---- */

/* Adds an array in a role to the list. */
static void list_array(const asked *of, const tsr__program *program, int node, const char *role,
                       int64_t bytes)
{
  tsr__costs *costs = of->costs;
  const tsr__gnode *g = &program->nodes[node];
  tsr_shape shape = tsr__gnode_shape(g);
  tsr__text type;
  if (!bytes || of->error->status) return;
  tsr__text_init(&type, &of->rt->heap);
  tsr__type_add(&type, (tsr_dtype)g->dtype, &shape, &program->shardings[g->sharding]);
  const char *text = tsr__arena_text(of->scratch, tsr__text_get(&type), type.length);
  bool failed = type.failed || !text ||
                !tsr__arena_grow(of->scratch, (void **)&costs->peak, &costs->capacity, costs->count,
                                 sizeof *costs->peak);
  tsr__text_free(&type);
  if (failed) no_memory_for_figures(of->error);
  else
    costs->peak[costs->count++] = (tsr_peak_array){ bytes, role, text, tsr__ops[g->op].name,
                                                    program->sites ? program->sites[node] : NULL };
}

/* Lists the carries of the step before that a region's step still has: a carry that was given up
 * and read is gone. */
static void list_carries(const memory *m)
{
  const asked *of = m->of;
  const tsr__gnode *loop = &of->around->nodes[of->inner->node];
  const tsr__loop_attr *attr = tsr__attr_of(of->around, loop);
  for (int c = 0; c < attr->carries; c++) {
    int operand = tsr__in(of->around, loop, c);
    int64_t bytes = local_bytes(of->around, operand);
    for (int i = 0; i < of->inner->argument_count && c < of->carries; i++) {
      int argument = of->inner->arguments[i];
      if (of->inner->operands[i] == c)
        bytes -= local_bytes(&m->plan->parts.program, argument) - m->held[argument];
    }
    list_array(of, of->around, operand, "carry", bytes);
  }
}

/* Lists the arrays of a step, but for its scratch memory. A region's arguments are operands of
 * its loop, and its carries are the step's before. */
static void list_held(const memory *m)
{
  const tsr__program *program = &m->plan->parts.program;
  const tsr__schedule *schedule = &m->plan->schedule;
  for (int n = 0; n < program->node_count; n++) {
    bool leaf = tsr__is_leaf(program->nodes[n].op);
    if (!leaf) list_array(m->of, program, n, "value", m->held[n]);
    else if (!m->of->inner && !program->nodes[n].param_count)
      list_array(m->of, program, n, "argument", local_bytes(program, n));
  }
  for (int a = 0; a < schedule->accum_count; a++)
    list_array(m->of, program, schedule->accums[a].node, "sum", m->partials[a]);
  if (m->of->inner) list_carries(m);
}

/* Lists the scratch memory of a step; a loop has listed its own. */
static void list_scratch(const memory *m)
{
  const tsr__schedule *schedule = &m->plan->schedule;
  const tsr__step *step = &schedule->steps[m->step];
  bool combines = step->kind == TSR__STEP_ALL_REDUCE;
  if (step->kind != TSR__STEP_LOOP)
    list_array(m->of, &m->plan->parts.program,
               combines ? schedule->accums[step->first].node : step->node, "scratch", m->room);
}

static int compare_texts(const char *a, const char *b)
{
  return strcmp(a ? a : "", b ? b : "");
}

static int larger_first(const void *one, const void *other)
{
  const tsr_peak_array *a = one, *b = other;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  int order = compare_texts(a->site, b->site);
  if (!order) order = strcmp(a->operation, b->operation);
  return order ? order : strcmp(a->type, b->type);
}

/* ---- loops ---- */

/* A region's plan as it is asked for its figures alone. */
static asked ask_region(const memory *m, int i)
{
  const tsr__partitioned *parts = &m->plan->parts;
  const tsr__inner *region = &parts->inner[i];
  const tsr__loop_attr *attr = tsr__attr_of(&parts->program, &parts->program.nodes[region->node]);
  /* The condition of a while leaves the carries to the body. */
  bool asks = attr->kind == TSR__LOOP_WHILE && !region->region;
  asked inner = *m->of;
  inner.plan = m->plan->inner[i];
  inner.params = tsr__inner_numbers(parts, i, m->of->params);
  inner.inner = region;
  inner.around = &parts->program;
  inner.carries = asks ? 0 : attr->carries;
  inner.costs = NULL;
  return inner;
}

/* Lists the slices of a loop's step, and the arrays at the peak of its region `worst`. */
static tsr_status list_loop(const memory *m, int node, int worst, int64_t steps)
{
  const tsr__program *program = &m->plan->parts.program;
  const tsr__gnode *g = &program->nodes[node];
  const tsr__loop_attr *attr = tsr__attr_of(program, g);
  asked inner = ask_region(m, worst);
  tsr_figures again;
  inner.costs = m->of->costs;
  for (int i = (int)attr->carries; i < attr->carries + attr->slices; i++) {
    int operand = tsr__in(program, g, i);
    list_array(m->of, program, operand, "slice", local_bytes(program, operand) / steps);
  }
  return count_plan(&inner, &again);
}

/* Counts the memory of a loop beside its operands: the carries of the step before, the slices
 * that a step reads, and the values of its regions. `room` is the need of its worst step, over
 * the operands and the values made before. */
static tsr_status count_loop(memory *m, int node)
{
  const tsr__partitioned *parts = &m->plan->parts;
  const tsr__program *program = &parts->program;
  const tsr__gnode *g = &program->nodes[node];
  const tsr__loop_attr *attr = tsr__attr_of(program, g);
  bool scan = attr->kind == TSR__LOOP_SCAN, chooses = attr->kind == TSR__LOOP_SWITCH;
  int64_t steps = scan ? tsr__loop_steps(attr, g, m->of->params) : 1;
  tsr_figures most = { 0 };
  int worst = -1;
  int64_t room = 0;
  if (steps <= 0) return TSR_OK;
  for (int i = 0; i < parts->inner_count; i++) {
    if (parts->inner[i].node != node) continue;
    asked inner = ask_region(m, i);
    tsr_figures one;
    if (count_plan(&inner, &one)) return m->of->error->status;
    if (worst < 0 || room < one.peak_bytes - one.argument_bytes) {
      room = one.peak_bytes - one.argument_bytes;
      worst = i;
    }
    if (chooses) take_most(&most, &one);
    else add_times_figures(m->out, &one, steps);
  }
  m->room += room;
  add_times_figures(m->out, &most, 1);
  for (int i = 0; i < attr->carries + attr->slices; i++) {
    int64_t bytes = local_bytes(program, tsr__in(program, g, i));
    m->room += i < attr->carries ? bytes : bytes / steps;
    /* Each slice is copied for the step that reads it. */
    if (i >= attr->carries) m->out->device_bytes += 2 * bytes;
  }
  return m->lists && m->step == m->worst ? list_loop(m, node, worst, steps) : TSR_OK;
}

/* Stacked results are held from the first step on, the last carries after the last step. */
static tsr_status run_loop(memory *m, int node)
{
  const tsr__program *program = &m->plan->parts.program;
  const tsr__loop_attr *attr = tsr__attr_of(program, &program->nodes[node]);
  for (int n = node + 1; n < program->node_count && attr->kind == TSR__LOOP_SCAN; n++)
    if (tsr__is_part(program, n, node) &&
        tsr__index_of(program, &program->nodes[n]) >= attr->carries) {
      take_node_bytes(m, n);
      /* Each step's slice is read and stored. */
      m->out->device_bytes += 2 * m->held[n];
    }
  return count_loop(m, node);
}

/* ---- all steps ---- */

/* Counts the nodes that a step makes and the bytes that it reads and writes. A combining step
 * makes the results of its accumulators. */
static tsr_status count_step_figures(memory *m, int at)
{
  const tsr__step *step = &m->plan->schedule.steps[at];
  const tsr__program *program = &m->plan->parts.program;
  const tsr__schedule *schedule = &m->plan->schedule;
  /* `room` is this step's alone; nodes that outlive it are taken. */
  m->room = 0;
  if (step->kind == TSR__STEP_KERNEL) {
    const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
    for (int i = 0; i < io->output_count; i++)
      if (!replaces(m, at, io->outputs[i])) take_node_bytes(m, io->outputs[i]);
    for (int i = 0; i < io->accum_count; i++) take_partial(m, io->accums[i]);
    count_io(m, io->inputs, io->input_count);
    count_io(m, io->outputs, io->output_count);
  } else if (step->kind == TSR__STEP_ALL_REDUCE) {
    for (int a = step->first; a < step->first + step->count; a++) {
      for (int n = schedule->first_final[a]; n >= 0; n = schedule->next_final[n])
        take_node_bytes(m, n);
      meet_partial(m, a);
    }
  } else if (step->kind == TSR__STEP_LOOP) {
    return run_loop(m, step->node);
  } else {
    for (int n = step->node; n >= 0; n = tsr__fellow(program, step->node, n)) {
      take_made(m, n);
      TSR_FOR_OPERANDS (program, &program->nodes[n], i, o) count_io(m, &o, 1);
      count_io(m, &n, 1);
    }
    if (step->kind == TSR__STEP_ROUTINE) return take_routine_scratch(m, step->node);
  }
  return TSR_OK;
}

static void drop_used_bytes(memory *m, int step)
{
  for (int n = m->plan->first_gone[step]; n >= 0; n = m->plan->next_gone[n]) {
    m->now -= m->held[n];
    m->held[n] = 0;
  }
}

/* The memory of a step, where it is the most so far, and its list, where it is the most of all. */
static void note_peak(memory *m)
{
  int64_t bytes = m->out->argument_bytes + m->now + m->room;
  if (m->lists && m->step == m->worst) {
    list_held(m);
    list_scratch(m);
  }
  if (bytes <= m->out->peak_bytes) return;
  m->out->peak_bytes = bytes;
  if (!m->lists) m->worst = m->step;
}

/* Leaves are held from start to end, except donated ones; nodes that steps make are held beside
 * them. The nodes left at the end are the results. */
static tsr_status count_memory(memory *m)
{
  const tsr__program *program = &m->plan->parts.program;
  const tsr__schedule *schedule = &m->plan->schedule;
  tsr_figures *out = m->out;
  for (int n = 0; n < program->node_count; n++)
    if (tsr__is_leaf(program->nodes[n].op) && !program->nodes[n].param_count)
      out->argument_bytes += local_bytes(program, n);
  out->peak_bytes = out->argument_bytes;
  if (m->lists && m->worst < 0) list_held(m);
  for (int s = 0; s < schedule->step_count; s++) {
    m->step = s;
    if (count_step_figures(m, s)) return m->of->error->status;
    note_peak(m);
    /* A loop's results are held after it ran; its worst step was counted before. */
    if (schedule->steps[s].kind == TSR__STEP_LOOP) take_made(m, schedule->steps[s].node);
    if (schedule->steps[s].kind == TSR__STEP_ALL_REDUCE) drop_partial_bytes(m, &schedule->steps[s]);
    drop_used_bytes(m, s);
  }
  out->result_bytes = m->now;
  return TSR_OK;
}

/* Marks carries: they are a region's own, since the step before gave them up, and are freed
 * after their last read. Their bytes are among the arguments' and not in `now`, which may so
 * fall below 0: both are added up. */
static void find_given(memory *m)
{
  const tsr__inner *inner = m->of->inner;
  for (int i = 0; inner && i < inner->argument_count; i++) {
    if (inner->operands[i] >= m->of->carries) continue;
    m->given[inner->arguments[i]] = true;
    m->held[inner->arguments[i]] = local_bytes(&m->plan->parts.program, inner->arguments[i]);
  }
}

static tsr_status open_memory(const asked *of, tsr_figures *out, memory *m)
{
  size_t nodes = (size_t)of->plan->parts.program.node_count + 1;
  *m = (memory){ .of = of, .plan = of->plan, .out = out, .worst = -1 };
  m->held = tsr__arena_new(of->scratch, nodes * sizeof *m->held);
  m->given = tsr__arena_new(of->scratch, nodes);
  m->partials =
      tsr__arena_new(of->scratch, ((size_t)of->plan->schedule.accum_count + 1) * sizeof *m->held);
  if (!m->held || !m->given || !m->partials) return no_memory_for_figures(of->error);
  find_given(m);
  return TSR_OK;
}

/* Goes through the memory once more, now that the worst step is known. */
static tsr_status list_peak(const asked *of, int worst)
{
  memory m;
  tsr_figures again = { 0 };
  if (open_memory(of, &again, &m)) return of->error->status;
  m.worst = worst;
  m.lists = true;
  tsr_status status = count_memory(&m);
  return status ? status : of->error->status;
}

static tsr_status count_plan(const asked *of, tsr_figures *out)
{
  const tsr__plan *plan = of->plan;
  const tsr__program *program = &plan->parts.program;
  memory m;
  *out = (tsr_figures){ .bytes_moved = plan->explained,
                        .collectives = plan->collectives,
                        .kernels = plan->kernels };
  if (open_memory(of, out, &m)) return of->error->status;
  for (int n = 0; n < program->node_count; n++) {
    out->flops += flops_of(program, n, false);
    out->device_flops += flops_of(program, n, true);
  }
  count_planned_moves(&plan->parts, out);
  tsr_status status = count_memory(&m);
  return status || !of->costs ? status : list_peak(of, m.worst);
}

/* `out` is written on success alone. */
tsr_status tsr__plan_figures(tsr_scope *scope, const tsr__plan *plan, const tsr__num *params,
                             tsr__costs *out, tsr__error *error)
{
  tsr__costs costs = { .count = 0 };
  asked all = { .plan = plan,
                .params = params,
                .costs = &costs,
                .rt = scope->rt,
                .scratch = &scope->arena,
                .error = error };
  tsr_status status = count_plan(&all, &costs.figures);
  if (status) return status;
  if (costs.count) qsort(costs.peak, (size_t)costs.count, sizeof *costs.peak, larger_first);
  *out = costs;
  return TSR_OK;
}

int64_t tsr__plan_explained(const tsr__plan *plan, const tsr__num *params)
{
  const tsr__partitioned *parts = &plan->parts;
  int64_t all = plan->explained, most = 0;
  for (int i = 0; i < parts->inner_count; i++) {
    const tsr__inner *inner = &parts->inner[i];
    const tsr__gnode *node = &parts->program.nodes[inner->node];
    const tsr__loop_attr *attr = tsr__attr_of(&parts->program, node);
    int64_t one = tsr__plan_explained(plan->inner[i], tsr__inner_numbers(parts, i, params));
    if (attr->kind == TSR__LOOP_SCAN)
      one = multiply_bounded(one, tsr__loop_steps(attr, node, params));
    if (attr->kind != TSR__LOOP_SWITCH) {
      all = add_bounded(all, one);
      continue;
    }
    /* Regions of a node follow each other: the most begins at 0 with the first and is added with
     * the last. */
    if (!inner->region) most = 0;
    AT_LEAST(most, one);
    if (inner->region == node->region_count - 1) all = add_bounded(all, most);
  }
  return all;
}
