/* Claims follow the priorities that users give dims: a spec such as "x:p1" passes on after all p0
 * dims.
 *
 *   w f32[k,n]@(data:p1,model)         round 0: model cuts n, data cuts the rows of x and so the
 *   x f32[rows,k]@(data,-)             product's; w is gathered along data, however few bytes it
 *   x @ w                              would take to gather x instead
 *
 * Each priority but the last has a round, in order. In its round each dim of that priority claims
 * its axes, and claims pass along the factors of nodes, forward and back: first through operations
 * that combine nothing, such as those of elements and views, then through products and reductions.
 * A factor takes the longest cut that all tensors agree on; if they disagree, the larger tensor
 * wins, then the first operand, then the dim. Earlier claims stand.
 *
 * A claim of a node is part of every way to do it (propagate.c): bytes decide the rest only. If all
 * dims have one priority, there are no claims. */
#include "partition/flow.h"

static const tsr__gnode *claimed_node(const tsr__flow *flow, int n)
{
  return &flow->program->nodes[n];
}

/* Whether the planner chooses the node's place. */
static bool can_claim(const tsr__flow *flow, int n)
{
  return !flow->fixed[n] && !flow->free[n];
}

/* ---- the factors of a node ---- */

/* Adds the axes by which a place cuts dims, as far as they agree with the cuts so far. Axes of two
 * meshes are not compared: the claims of a node are of its first tensor's mesh. */
static void add_cuts(const tsr_sharding *place, const int8_t *map, const tsr__terms *terms,
                     tsr__cuts *out)
{
  if (!place->mesh || (out->mesh && out->mesh != place->mesh)) return;
  out->mesh = place->mesh;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    int f = map[d], count = place->first[d + 1] - place->first[d];
    if (!count || f < 0) continue;
    if (terms->kind[f] == TSR__FACTOR_REPLICATE || terms->kind[f] == TSR__FACTOR_MEET) continue;
    const uint8_t *axis = &place->axis[place->first[d]];
    tsr__axes *mine = &out->axes[f];
    for (int k = tsr__axes_begin(mine, axis, count); k == mine->count && k < count; k++) {
      if (out->used >> axis[k] & 1) break;
      mine->axis[mine->count++] = axis[k];
      out->used |= 1u << axis[k];
    }
  }
}

/* The next of a node's operands and itself (-1) by size, the largest first, then by index, itself
 * last; -2: the end. Operands after the first 63 do not count. */
static int next_by_size(const tsr__flow *flow, int n, uint64_t *done)
{
  const tsr__gnode *node = claimed_node(flow, n);
  int64_t most = -1;
  int next = -2, count = node->in_count < 63 ? node->in_count : 63;
  for (int i = 0; i <= count; i++) {
    int o = i < count ? tsr__in(flow->program, node, i) : n;
    if (o < 0 || *done >> i & 1 || tsr__memo_elements(flow, o) <= most) continue;
    most = tsr__memo_elements(flow, o);
    next = i < count ? i : -1;
  }
  if (next > -2) *done |= UINT64_C(1) << (next < 0 ? count : next);
  return next;
}

bool tsr__flow_claimed(tsr__flow *flow, int n, const tsr__terms *terms, tsr__cuts *out)
{
  uint64_t done = 0;
  memset(out, 0, sizeof *out);
  for (int i = next_by_size(flow, n, &done); i > -2; i = next_by_size(flow, n, &done)) {
    int o = i < 0 ? n : tsr__in(flow->program, claimed_node(flow, n), i);
    add_cuts(&flow->claims[o], i < 0 ? terms->out : terms->in[i], terms, out);
  }
  return out->used;
}

/* ---- passing on ---- */

/* Cuts the dims of a claim by the axes of their factors, if these begin with the dim's axes. A
 * claim only ever grows at its end: an earlier round's axes are its beginning.
 *
 *   claim (x | -)   factors (x,y | z)   ->  (x,y | z)
 *   claim (y | -)   factors (x,y | z)   ->  (y | z)      dim 0 was claimed otherwise */
static void extend_claim(tsr_sharding *claim, const int8_t *map, int rank, const tsr__cuts *cuts)
{
  tsr_sharding old = *claim;
  unsigned used = tsr__used_axes(&old);
  uint8_t end = 0;
  if (old.mesh && old.mesh != cuts->mesh) return;
  claim->mesh = cuts->mesh;
  claim->rank = TSR_MAX_RANK;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    int count = old.first[d + 1] - old.first[d];
    const uint8_t *axis = &old.axis[old.first[d]];
    const tsr__axes *to = d < rank && map[d] >= 0 ? &cuts->axes[map[d]] : NULL;
    for (int k = 0; k < count; k++) claim->axis[end++] = axis[k];
    bool fits = to && tsr__axes_begin(to, axis, count) == count;
    for (int k = count; fits && k < to->count && !(used >> to->axis[k] & 1); k++) {
      claim->axis[end++] = to->axis[k];
      used |= 1u << to->axis[k];
    }
    claim->first[d + 1] = end;
  }
  if (!end) memset(claim, 0, sizeof *claim);
}

/* Whether a node combines no elements, so that it passes its operands' dims on unchanged. */
static bool passes_dims_on(const tsr__terms *terms)
{
  for (int f = 0; f < terms->count; f++)
    if (terms->kind[f] == TSR__FACTOR_REDUCE || terms->kind[f] == TSR__FACTOR_MEET) return false;
  return true;
}

/* Passes claims between a node and its operands. A fixed node that no user placed takes no part:
 * its place follows from run-time rows or regions, which claims do not look into. */
static void pass_claims(tsr__flow *flow, int n, bool all)
{
  const tsr__gnode *node = claimed_node(flow, n);
  if (!node->in_count || (flow->fixed[n] && !(node->flags & TSR__PLACED))) return;
  const tsr__terms *terms = tsr__memo_terms(flow, n);
  tsr__cuts cuts;
  if (!terms || (!all && !passes_dims_on(terms)) || !tsr__flow_claimed(flow, n, terms, &cuts))
    return;
  if (can_claim(flow, n)) extend_claim(&flow->claims[n], terms->out, node->rank, &cuts);
  TSR_FOR_OPERANDS (flow->program, node, i, o)
    if (can_claim(flow, o))
      extend_claim(&flow->claims[o], terms->in[i], claimed_node(flow, o)->rank, &cuts);
}

/* ---- rounds ---- */

/* Adds to a node's claims the dims of a priority that its user placed. */
static void claim_dims(tsr__flow *flow, int n, int priority)
{
  const tsr__gnode *node = claimed_node(flow, n);
  const tsr_sharding *place = &flow->places[node->sharding];
  int8_t map[TSR_MAX_RANK];
  tsr__cuts cuts = { .mesh = place->mesh };
  if (!(node->flags & TSR__PLACED) || !place->mesh) return;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    map[d] = (int8_t)d;
    if (tsr__dim_priority(place, d) != priority) continue;
    for (int i = place->first[d]; i < place->first[d + 1]; i++)
      cuts.axes[d].axis[cuts.axes[d].count++] = place->axis[i];
  }
  extend_claim(&flow->claims[n], map, TSR_MAX_RANK, &cuts);
}

/* Each turn runs three times over the program, so that a claim goes from a leaf to its users, back
 * to their other operands, and on to the other users of these. Nodes that combine elements wait for
 * the second turn, when elementwise neighbours, where a claim costs no bytes, have it already. */
static void claim_round(tsr__flow *flow, int priority)
{
  int count = flow->program->node_count;
  for (int n = 0; n < count; n++) claim_dims(flow, n, priority);
  for (int all = 0; all < 2; all++) {
    for (int n = 0; n < count; n++) pass_claims(flow, n, all);
    for (int n = count - 1; n >= 0; n--) pass_claims(flow, n, all);
    for (int n = 0; n < count; n++) pass_claims(flow, n, all);
  }
}

/* The priorities of dims that users cut, a bit each. */
static unsigned given(const tsr__flow *flow)
{
  unsigned mask = 0;
  for (int n = 0; n < flow->program->node_count; n++) {
    const tsr__gnode *node = claimed_node(flow, n);
    const tsr_sharding *place = &flow->places[node->sharding];
    if (!(node->flags & TSR__PLACED)) continue;
    for (int d = 0; d < TSR_MAX_RANK; d++)
      if (place->first[d] < place->first[d + 1]) mask |= 1u << tsr__dim_priority(place, d);
  }
  return mask;
}

void tsr__flow_claim(tsr__flow *flow)
{
  const tsr__program *program = flow->program;
  bool ranked = false;
  for (int i = 1; i < program->sharding_count; i++)
    ranked |= tsr__has_priority(&program->shardings[i]);
  unsigned mask = ranked ? given(flow) : 0;
  if (!(mask & (mask - 1))) return; /* at most one: nothing comes first */
  flow->claims = tsr__arena_new(flow->arena, (size_t)program->node_count * sizeof *flow->claims);
  flow->failed |= !flow->claims;
  for (int p = 0; mask >> (p + 1) && !flow->failed; p++)
    if (mask >> p & 1) claim_round(flow, p);
}
