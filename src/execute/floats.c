/* The check of floats: with the runtime's option on, each operation's result is searched for NaN
 * (and Inf) right after its step, and the first result that has one fails the program.
 *
 * Kernels then store every node that they compute (TSR__SEEN), so that "first" is true of what is
 * fused, too; nodes of a step are looked at in the order of the program. Views and moves make no
 * value, and numbers that users give (full, iota) are theirs. A loop's body is a run, too. */
#include "execute/engine.h"

#include <math.h>
#include <stdio.h>

/* Whether a node's result is checked. */
static bool is_seen(const tsr__gnode *g)
{
  return tsr__is_elementwise(g->op) && tsr__dtype_has_nan((tsr_dtype)g->dtype) &&
         !tsr__ops[g->op].source;
}

/* Marks nodes before fusing, since a kernel stores the marked ones. */
void tsr__check_mark(const tsr_runtime *rt, tsr__program *program)
{
  for (int n = 0; n < program->node_count && rt->check; n++)
    if (is_seen(&program->nodes[n])) program->nodes[n].flags |= TSR__SEEN;
}

/* The first element whose exponent is all ones, and the fraction not zero or `inf`; -1: none. */
#define SEARCH(name, type, exponent, fraction)                                           \
  static int64_t name(const type *at, int64_t count, bool inf)                           \
  {                                                                                      \
    for (int64_t i = 0; i < count; i++)                                                  \
      if ((at[i] & (exponent)) == (exponent) && (inf || (at[i] & (fraction)))) return i; \
    return -1;                                                                           \
  }
SEARCH(search_8_bytes, uint64_t, UINT64_C(0x7FF0000000000000), UINT64_C(0x000FFFFFFFFFFFFF))
SEARCH(search_4_bytes, uint32_t, UINT32_C(0x7F800000), UINT32_C(0x007FFFFF))
#undef SEARCH

/* Integers compare faster than floats, and no comparison of NaN is left to a compiler. */
static int64_t search(tsr_dtype dtype, const void *data, int64_t count, bool inf)
{
  size_t size = tsr_dtype_size(dtype);
  if (size == 8) return search_8_bytes(data, count, inf);
  if (size == 4) return search_4_bytes(data, count, inf);
  for (int64_t i = 0; i < count; i++) {
    double value = tsr__dtype_get_real(dtype, data, i);
    if (isnan(value) || (inf && isinf(value))) return i;
  }
  return -1;
}

/* The place of a NaN or Inf in an array. */
typedef struct spot {
  int position;
  tsr_box box;
  int64_t at; /* in the box */
} spot;

/* Positions in order, so of several that have one the first in the mesh is told; replicas have it,
 * too. */
static bool find_not_finite(const tsr__value *value, bool inf, spot *out)
{
  if (!value || !tsr__dtype_has_nan((tsr_dtype)value->dtype)) return false;
  for (int p = 0; p < value->part_count; p++) {
    int64_t count = 1;
    if (!value->parts[p]) continue;
    tsr__value_box(value, p, &out->box);
    for (int d = 0; d < value->shape.rank; d++) count *= out->box.size[d];
    const void *data = tsr__value_map(value, p);
    out->at = search((tsr_dtype)value->dtype, data, count, inf);
    tsr__value_unmap(value, p);
    out->position = p;
    if (out->at >= 0) return true;
  }
  return false;
}

/* "[3,1]" of the whole array. */
static void write_index(const tsr__value *value, const spot *at, char out[TSR_MAX_RANK * 21 + 3])
{
  int64_t index[TSR_MAX_RANK], rest = at->at;
  size_t used = 1;
  for (int d = value->shape.rank - 1; d >= 0; d--) {
    index[d] = at->box.start[d] + rest % at->box.size[d];
    rest /= at->box.size[d];
  }
  out[0] = '[';
  for (int d = 0; d < value->shape.rank; d++)
    used += (size_t)snprintf(out + used, 22, "%s%lld", d ? "," : "", (long long)index[d]);
  snprintf(out + used, 2, "]");
}

static const char *node_site(const tsr__exec *exec, int node)
{
  const char *site = exec->program->sites ? exec->program->sites[node] : NULL;
  return site ? site : "an unknown line";
}

/* The first operand in memory that has a NaN or Inf itself, or -1. A value that was fused and
 * not stored cannot be searched, so this option stores every node that computes. */
static int operand_with(const tsr__exec *exec, int node, bool inf)
{
  spot at;
  TSR_FOR_OPERANDS (exec->program, &exec->program->nodes[node], i, o)
    if (find_not_finite(exec->values[o], inf, &at)) return o;
  return -1;
}

/* Reports the element; if Inf is searched for as well, a NaN is still named as NaN. */
static tsr_status report_not_finite(const tsr__exec *exec, int node, const spot *at)
{
  const tsr__value *value = exec->values[node];
  const tsr__gnode *g = &exec->program->nodes[node];
  bool inf = exec->rt->check == TSR__CHECK_INF;
  bool nan = true;
  char index[TSR_MAX_RANK * 21 + 3], from[160] = "from operands without one";
  write_index(value, at, index);
  if (inf) {
    spot same;
    nan =
        find_not_finite(value, false, &same) && same.position == at->position && same.at == at->at;
  }
  int o = operand_with(exec, node, inf);
  if (tsr__takes_result(g->op)) g = &exec->program->nodes[tsr__in(exec->program, g, 0)];
  if (o >= 0)
    snprintf(from, sizeof from, "from an operand that has one, made at %.100s", node_site(exec, o));
  return tsr__error_set(exec->error, TSR_EVALUE,
                        "%s at %s computed %s at %s on device %d, %s; fix the program there, or "
                        "open the runtime without .check_floats",
                        tsr__ops[g->op].name, node_site(exec, node), nan ? "a NaN" : "an Inf",
                        index, tsr__position_device(&value->sharding, at->position), from);
}

/* The lowest node of those looked at so far. */
typedef struct looking {
  tsr__exec *exec;
  int node; /* -1: none has one */
  spot at;
} looking;

static void look_at_node(looking *l, int node)
{
  spot at;
  if (l->node >= 0 && l->node < node) return;
  if (!find_not_finite(l->exec->values[node], l->exec->rt->check == TSR__CHECK_INF, &at)) return;
  l->node = node;
  l->at = at;
}

/* Of several results each is looked at, under the number of its own node. */
static void look_at_routine(looking *l, int node)
{
  const tsr__program *program = l->exec->program;
  if (!program->nodes[node].result_count) look_at_node(l, node);
  for (int n = node + 1; program->nodes[node].result_count && n < program->node_count; n++)
    if (tsr__is_part(program, n, node)) look_at_node(l, n);
}

/* Checks all results of the step and names the lowest node that has a NaN or Inf: later nodes
 * may have it from there. */
tsr_status tsr__check_step(tsr__exec *exec, const tsr__step *step)
{
  const tsr__schedule *schedule = &exec->plan->schedule;
  looking l = { .exec = exec, .node = -1 };
  if (step->kind == TSR__STEP_KERNEL) {
    const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
    for (int i = 0; i < io->output_count; i++)
      if (is_seen(&exec->program->nodes[io->outputs[i]])) look_at_node(&l, io->outputs[i]);
  } else if (step->kind == TSR__STEP_ALL_REDUCE) {
    for (int a = step->first; a < step->first + step->count; a++)
      for (int n = schedule->first_final[a]; n >= 0; n = schedule->next_final[n])
        look_at_node(&l, n);
  } else if (step->kind == TSR__STEP_ROUTINE) {
    look_at_routine(&l, step->node);
  }
  return l.node < 0 ? TSR_OK : report_not_finite(exec, l.node, &l.at);
}
