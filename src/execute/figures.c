/* What running a plan takes, counted without running it.
 *
 *   flops    by node: elements that it computes, or that it reads where it reduces; two for each
 *            product of a dot
 *   moves    by kind: the notes of the plan, those that travel together as one
 *   memory   by step: what is made is there from its step to the last that reads it
 *
 * Of one device the first position of each node is looked at, which has the most. Dims that are
 * known at run time count as 0. */
#include "execute/engine.h"

/* Elements of a node on all devices together, or at the first position. */
static int64_t elements(const tsr__program *program, int node, bool local)
{
  const tsr__gnode *g = &program->nodes[node];
  int64_t count = 1;
  for (int d = 0; d < g->rank; d++) {
    int64_t size = g->dims[d] < 0 ? 0 : g->dims[d];
    const tsr_sharding *at = &program->shardings[g->sharding];
    count *= local && at->mesh ? tsr__dim_span(at, d, size, 0).length : size;
  }
  return count;
}

static int64_t local_bytes(const tsr__program *program, int node)
{
  const tsr__gnode *g = &program->nodes[node];
  if (g->result_count || !g->dtype) return 0;
  return (int64_t)tsr__device_bytes((tsr_dtype)g->dtype, elements(program, node, true));
}

/* The sizes of a product's indices, from whichever has them. A cut index is as long as the part
 * that the first position has. */
static void index_sizes(const tsr__program *program, int node, bool local, double sizes[32])
{
  const tsr__gnode *g = &program->nodes[node];
  const tsr__dot_attr *attr = tsr__dot_of(program, g);
  const uint8_t *const indices[3] = { attr->left, attr->right, attr->out };
  const int nodes[3] = { tsr__in(program, g, 0), tsr__in(program, g, 1), node };
  for (int i = 0; i < 3; i++) {
    const tsr__gnode *of = &program->nodes[nodes[i]];
    const tsr_sharding *at = &program->shardings[of->sharding];
    for (int d = 0; d < of->rank; d++) {
      /* Along windows the dim of the left operand is no index of its own. */
      if (!indices[i][d] || (!i && attr->window[d])) continue;
      bool cut = local && at->mesh;
      sizes[indices[i][d] & 31] =
          (double)(cut ? tsr__dim_span(at, d, of->dims[d], 0).length : of->dims[d]);
    }
  }
}

/* A product of all indices, one multiplication and one addition each. */
static double dot_flops(const tsr__program *program, int node, bool local)
{
  double sizes[32], flops = 2;
  const tsr__dot_attr *attr = tsr__dot_of(program, &program->nodes[node]);
  for (int i = 0; i < 32; i++) sizes[i] = 1;
  index_sizes(program, node, local, sizes);
  for (int i = 0; i < 32; i++) flops *= sizes[i];
  return !local && attr->parts ? flops / (double)attr->parts : flops;
}

/* Sources make numbers of nothing; views and moves compute nothing. */
static double flops_of(const tsr__program *program, int node, bool local)
{
  const tsr__gnode *g = &program->nodes[node];
  const tsr__opinfo *row = &tsr__ops[g->op];
  if (row->shape_rule == TSR__SH_DOT) return dot_flops(program, node, local);
  switch (row->lowering) {
  case TSR__LOW_TILE:
  case TSR__LOW_FORMULA: return tsr__is_source(g->op) ? 0 : (double)elements(program, node, local);
  case TSR__LOW_REDUCE:
  case TSR__LOW_ROUTINE: return (double)elements(program, tsr__in(program, g, 0), local);
  default: return 0;
  }
}

/* ---- what moves ---- */

/* By kind, found again by its name; one that moves nothing is left out. */
static void count_moves(const tsr__partitioned *parts, tsr_figures *out)
{
  for (int i = 0; i < parts->note_count; i++) {
    const tsr__note *note = &parts->notes[i];
    const char *name = tsr__move_name(note->move);
    int k = 0;
    if (!note->bytes) continue;
    while (k < out->kind_count && out->kinds[k].kind != name) k++;
    if (k == out->kind_count) out->kinds[out->kind_count++].kind = name;
    out->kinds[k].bytes += note->bytes;
    out->kinds[k].count += note->lead == i;
  }
}

/* ---- memory ---- */

typedef struct memory {
  const tsr__plan *plan;
  int64_t *held; /* by node: bytes that a step made of it */
  int64_t now;
  tsr_figures *out;
} memory;

/* A node that is there already takes no more. */
static void take(memory *m, int node)
{
  if (m->held[node]) return;
  m->held[node] = local_bytes(&m->plan->parts.program, node);
  m->now += m->held[node];
}

/* A node of several results is made as those that somebody takes out. */
static void take_made(memory *m, int node)
{
  const tsr__program *program = &m->plan->parts.program;
  if (program->nodes[node].result_count)
    for (int n = node + 1; n < program->node_count; n++)
      if (tsr__is_part(program, n, node)) take(m, n);
  take(m, node);
}

static void count_io(memory *m, const int *nodes, int count)
{
  for (int i = 0; i < count; i++)
    m->out->device_bytes += local_bytes(&m->plan->parts.program, nodes[i]);
}

/* What a step makes, and the bytes that it reads and writes. A combining step makes what its
 * accumulators are read as. */
static void run_step(memory *m, const tsr__step *step)
{
  const tsr__program *program = &m->plan->parts.program;
  const tsr__schedule *schedule = &m->plan->schedule;
  if (step->kind == TSR__STEP_KERNEL) {
    const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
    for (int i = 0; i < io->output_count; i++) take(m, io->outputs[i]);
    count_io(m, io->inputs, io->input_count);
    count_io(m, io->outputs, io->output_count);
  } else if (step->kind == TSR__STEP_ALL_REDUCE) {
    for (int a = step->first; a < step->first + step->count; a++)
      for (int n = schedule->first_final[a]; n >= 0; n = schedule->next_final[n]) take(m, n);
  } else {
    for (int n = step->node; n >= 0; n = tsr__fellow(program, step->node, n)) {
      take_made(m, n);
      TSR_FOR_OPERANDS (program, &program->nodes[n], i, o) count_io(m, &o, 1);
      count_io(m, &n, 1);
    }
  }
}

static void drop_used(memory *m, int step)
{
  for (int n = m->plan->first_gone[step]; n >= 0; n = m->plan->next_gone[n]) {
    m->now -= m->held[n];
    m->held[n] = 0;
  }
}

/* Leaves are there from the start to the end; what steps make, beside them. What is left at the end
 * are the results. */
static void count_memory(memory *m)
{
  const tsr__program *program = &m->plan->parts.program;
  tsr_figures *out = m->out;
  for (int n = 0; n < program->node_count; n++)
    if (tsr__ops[program->nodes[n].op].lowering == TSR__LOW_LEAF && !program->nodes[n].param_count)
      out->argument_bytes += local_bytes(program, n);
  out->peak_bytes = out->argument_bytes;
  for (int s = 0; s < m->plan->schedule.step_count; s++) {
    run_step(m, &m->plan->schedule.steps[s]);
    if (out->argument_bytes + m->now > out->peak_bytes)
      out->peak_bytes = out->argument_bytes + m->now;
    drop_used(m, s);
  }
  out->result_bytes = m->now;
}

tsr_status tsr__plan_figures(const tsr__plan *plan, tsr__arena *scratch, tsr_figures *out,
                             tsr__error *error)
{
  const tsr__program *program = &plan->parts.program;
  tsr_figures figures = { .bytes_moved = plan->explained,
                          .collectives = plan->collectives,
                          .kernels = plan->kernels };
  size_t nodes = (size_t)program->node_count + 1;
  memory m = { .plan = plan, .out = &figures };
  m.held = tsr__arena_new(scratch, nodes * sizeof *m.held);
  if (!m.held) return tsr__error_set(error, TSR_ENOMEM, "no memory for the figures of a plan");
  for (int n = 0; n < program->node_count; n++) {
    figures.flops += flops_of(program, n, false);
    figures.device_flops += flops_of(program, n, true);
  }
  count_moves(&plan->parts, &figures);
  count_memory(&m);
  *out = figures;
  return TSR_OK;
}
