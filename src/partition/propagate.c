/* Propagation: where every node lies.
 *
 *   forward    a node follows its operands: each factor is cut like the largest operand cuts it,
 *              ties go to the first; an axis is used once
 *   backward   what is computed from numbers alone (iota, full, random draws and elementwise
 *              operations on them) lies where its users need it
 *
 * Both are repeated until nothing changes; a node's place, once known, stays, so this ends. Nodes
 * that depend on unplaced data only stay unplaced, on one device. */
#include "partition/flow.h"

#define ROUNDS 16
#define MANY ((int64_t)1 << 40) /* stands for a size known at run time */

/* ---- axes and shardings ---- */

static tsr__axes axes_of_dim(const tsr_sharding *s, int dim)
{
  tsr__axes out = { .count = (uint8_t)(s->first[dim + 1] - s->first[dim]) };
  memcpy(out.axis, &s->axis[s->first[dim]], out.count);
  return out;
}

/* The sharding whose dim d is cut like factor map[d]; canonical. */
static tsr_sharding sharding_of(const tsr__choice *choice, const int8_t *map, int rank)
{
  tsr_sharding out;
  memset(&out, 0, sizeof out);
  if (!choice->mesh) return out;
  out.mesh = choice->mesh;
  out.rank = TSR_MAX_RANK;
  uint8_t used = 0;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    const tsr__axes *axes = d < rank && map[d] >= 0 ? &choice->axes[map[d]] : NULL;
    for (int i = 0; axes && i < axes->count; i++) out.axis[used++] = axes->axis[i];
    out.first[d + 1] = used;
  }
  return out;
}

tsr_sharding tsr__choice_operand(const tsr__choice *choice, int i, int rank)
{
  int8_t map[TSR_MAX_RANK];
  tsr__factors_in(&choice->factors, i, map);
  return sharding_of(choice, map, rank);
}

tsr_sharding tsr__choice_result(const tsr__choice *choice, int rank)
{
  return sharding_of(choice, choice->factors.out, rank);
}

unsigned tsr__choice_reduced(const tsr__choice *choice)
{
  unsigned mask = 0;
  for (int f = 0; f < choice->factors.count; f++)
    for (int i = 0; choice->factors.kind[f] == TSR__FACTOR_REDUCE && i < choice->axes[f].count; i++)
      mask |= 1u << choice->axes[f].axis[i];
  return mask;
}

/* ---- choosing ---- */

static int64_t weight_of(const tsr__gnode *node)
{
  int64_t count = 1;
  for (int d = 0; d < node->rank; d++) {
    int64_t size = node->dims[d] < 0 ? MANY : node->dims[d];
    if (size > 0 && count > INT64_MAX / size) return INT64_MAX;
    count *= size;
  }
  return count;
}

/* The operand that lies somewhere and comes next after `last` (-1: first of all) in order of
 * weight, the largest first, then of place; -1: there is none. */
static int next_by_weight(const tsr__flow *flow, int n, int last)
{
  const tsr__program *program = flow->program;
  const tsr__gnode *node = &program->nodes[n];
  int64_t bound = last < 0 ? 0 : weight_of(&program->nodes[tsr__in(program, node, last)]);
  int64_t most = -1;
  int next = -1;
  TSR_FOR_OPERANDS (program, node, i, o) {
    int64_t weight = weight_of(&program->nodes[o]);
    bool after = last < 0 || weight < bound || (weight == bound && i > last);
    if (!flow->at[o].mesh || !after || weight <= most) continue;
    most = weight;
    next = i;
  }
  return next;
}

/* Takes for a factor as many leading axes as no other factor uses. */
static void take_axes(tsr__choice *choice, int factor, tsr__axes axes, unsigned *used)
{
  tsr__axes *mine = &choice->axes[factor];
  for (int i = 0; i < axes.count && !(*used >> axes.axis[i] & 1); i++) {
    mine->axis[mine->count++] = axes.axis[i];
    *used |= 1u << axes.axis[i];
  }
}

void tsr__flow_choose(const tsr__flow *flow, int n, tsr__choice *out)
{
  const tsr__gnode *node = &flow->program->nodes[n];
  bool settled[TSR__MAX_FACTORS] = { false };
  unsigned used = 0;
  int first = next_by_weight(flow, n, -1);
  memset(out, 0, sizeof *out);
  tsr__factors_of(flow->program, n, &out->factors);
  const tsr__factors *factors = &out->factors;
  out->mesh = flow->at[n].mesh;
  if (!out->mesh && first >= 0) out->mesh = flow->at[tsr__in(flow->program, node, first)].mesh;
  for (int f = 0; f < factors->count; f++) settled[f] = factors->kind[f] == TSR__FACTOR_REPLICATE;
  for (int d = 0; flow->at[n].mesh && d < tsr__rank_of(flow->program, node); d++) {
    if (factors->out[d] < 0 || settled[factors->out[d]]) continue;
    take_axes(out, factors->out[d], axes_of_dim(&flow->at[n], d), &used);
    settled[factors->out[d]] = true;
  }
  for (int i = first; i >= 0; i = next_by_weight(flow, n, i)) {
    int in = tsr__in(flow->program, node, i);
    const tsr__gnode *operand = &flow->program->nodes[in];
    const tsr_sharding *place = &flow->at[in];
    int8_t map[TSR_MAX_RANK];
    if (place->mesh != out->mesh) continue;
    tsr__factors_in(factors, i, map);
    for (int d = 0; d < tsr__rank_of(flow->program, operand); d++) {
      int f = map[d];
      tsr__axes axes = axes_of_dim(place, d);
      if (f < 0 || settled[f] || !axes.count) continue;
      take_axes(out, f, axes, &used);
      settled[f] = out->axes[f].count > 0;
    }
  }
}

/* ---- the two directions ---- */

static bool is_source(const tsr__gnode *node)
{
  return node->op == TSR__OP_IOTA || node->op == TSR__OP_FULL || node->op == TSR__OP_UNIFORM;
}

static bool forward(tsr__flow *flow)
{
  bool changed = false;
  tsr__choice choice;
  for (int n = 0; n < flow->program->node_count; n++) {
    const tsr__gnode *node = &flow->program->nodes[n];
    if (flow->at[n].mesh || is_source(node) || tsr__ops[node->op].lowering == TSR__LOW_LEAF)
      continue;
    bool known = false;
    TSR_FOR_OPERANDS (flow->program, node, i, o) known = known || flow->at[o].mesh;
    if (!known) continue;
    tsr__flow_choose(flow, n, &choice);
    flow->at[n] = tsr__choice_result(&choice, tsr__rank_of(flow->program, node));
    changed = true;
  }
  return changed;
}

/* Puts a free node where a user needs it, as far as its own factors can be cut. */
static void adopt(tsr__flow *flow, int n, const tsr_sharding *need)
{
  tsr__choice choice;
  flow->at[n] = *need;
  tsr__flow_choose(flow, n, &choice);
  flow->at[n] = tsr__choice_result(&choice, flow->program->nodes[n].rank);
}

/* Whether a node waits to be told by its users where to lie. */
static bool asked(const tsr__flow *flow, int n)
{
  return flow->free[n] && !flow->at[n].mesh && flow->program->nodes[n].op != TSR__OP_CONST;
}

static bool backward(tsr__flow *flow)
{
  bool changed = false;
  tsr__choice choice;
  for (int n = flow->program->node_count - 1; n >= 0; n--) {
    const tsr__gnode *node = &flow->program->nodes[n];
    bool asks = false;
    TSR_FOR_OPERANDS (flow->program, node, i, in) asks = asks || asked(flow, in);
    if (!asks || !flow->at[n].mesh) continue;
    tsr__flow_choose(flow, n, &choice);
    TSR_FOR_OPERANDS (flow->program, node, i, in) {
      if (!asked(flow, in)) continue;
      tsr_sharding need = tsr__choice_operand(&choice, i, flow->program->nodes[in].rank);
      adopt(flow, in, &need);
      changed = true;
    }
  }
  return changed;
}

/* A full array of a computed number follows that number when nobody else places it. */
static bool settle_fulls(tsr__flow *flow)
{
  bool changed = false;
  for (int n = 0; n < flow->program->node_count; n++) {
    const tsr__gnode *node = &flow->program->nodes[n];
    if (node->op != TSR__OP_FULL || flow->at[n].mesh) continue;
    int number = tsr__in(flow->program, node, 0);
    if (!flow->at[number].mesh) continue;
    flow->at[n] = flow->at[number];
    changed = true;
  }
  return changed;
}

/* ---- the start ---- */

static void start_node(tsr__flow *flow, int n)
{
  const tsr__program *program = flow->program;
  const tsr__gnode *node = &program->nodes[n];
  int lowering = tsr__ops[node->op].lowering;
  bool all_free = node->op == TSR__OP_CONST || lowering == TSR__LOW_TILE ||
                  lowering == TSR__LOW_FORMULA || lowering == TSR__LOW_VIEW;
  bool ragged = node->flags & TSR__RAGGED || node->op == TSR__OP_COMPACT;
  TSR_FOR_OPERANDS (program, node, i, o) {
    all_free &= flow->free[o] || node->op == TSR__OP_FULL;
    ragged |= flow->ragged[o] && node->rank > 0 && node->dims[0] == TSR__DYNAMIC;
  }
  flow->free[n] = all_free;
  flow->ragged[n] = ragged && node->op != TSR__OP_REBALANCE;
  if (node->flags & TSR__PLACED) flow->at[n] = program->shardings[node->sharding];
}

/* Rows that a filter left in place line up only with rows that the same devices filtered. */
static tsr_status check_rows(const tsr__flow *flow, int n, tsr__error *error)
{
  const tsr__gnode *node = &flow->program->nodes[n];
  if (tsr__ops[node->op].lowering == TSR__LOW_STEP || !node->rank) return TSR_OK;
  int seen[2] = { -1, -1 };
  TSR_FOR_OPERANDS (flow->program, node, i, in) {
    const tsr__gnode *operand = &flow->program->nodes[in];
    if (operand->rank && operand->dims[0] == TSR__DYNAMIC) seen[flow->ragged[in]] = in;
  }
  if (seen[0] < 0 || seen[1] < 0) return TSR_OK;
  return tsr__error_set(
      error, TSR_ESHAPE,
      "tsr_%s: one operand's rows lie as a filter left them and the other's at even "
      "borders; rebalance the filtered one",
      tsr__ops[node->op].name);
}

tsr_status tsr__flow_run(const tsr__program *program, tsr__arena *arena, tsr__flow *out,
                         tsr__error *error)
{
  size_t count = (size_t)program->node_count;
  tsr__flow flow = { .program = program };
  flow.at = tsr__arena_new(arena, (count + 1) * sizeof *flow.at);
  flow.free = tsr__arena_new(arena, count + 1);
  flow.ragged = tsr__arena_new(arena, count + 1);
  if (!flow.at || !flow.free || !flow.ragged)
    return tsr__error_set(error, TSR_ENOMEM,
                          "no memory to plan a program; close scopes that are done");
  for (int n = 0; n < program->node_count; n++) {
    start_node(&flow, n);
    if (check_rows(&flow, n, error)) return error->status;
  }
  for (int round = 0; round < ROUNDS; round++) {
    bool changed = forward(&flow);
    changed |= backward(&flow);
    if (!changed && !settle_fulls(&flow)) break;
  }
  *out = flow;
  return TSR_OK;
}
