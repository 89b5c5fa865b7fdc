/* Propagation finds the ways to do each node.
 *
 *   forward    a node follows its operands: each factor is cut like the largest operand cuts it,
 *              ties go to the first; an axis is used once. If operands disagree, the wish of each
 *              is a way of its own; so is a reduction whose operand moves to a cut of a kept dim,
 *              instead of its partials, and a product that gathers the dims it contracts
 *   backward   the place that a way needs an operand at is a way to do that operand
 *   forward    again, from the ways that the backward pass added
 *
 *   x f32[8]@(a)                 ways of %1: as x lies (a), or as the constraint asks (b)
 *   %1 = cast(x)   f64[8]
 *   constrain(%1)  @(b)          (b) moves f32, (a) f64 afterwards: weigh.c takes (b)
 *
 * If users ranked dims (claim.c), all ways of a node cut the dims that were claimed.
 *
 * A user's placement stands: leaves, constraints, reshards and sources with a place have one way.
 * Rows whose number is known at run time and nodes with regions, which propagation does not look
 * into, have one way too: the first. The first way is also taken if no other is cheaper. Nodes that
 * depend on unplaced data only stay unplaced, on one device, unless a user gains by having them
 * elsewhere. A node computed from numbers alone lies at the place that its users need. */
#include "partition/flow.h"

/* A node of many operands could have a way for each place of each of them, and each of those ways
 * one at the next node. A bound keeps all passes linear; the ways that come first in the list, and
 * stay, are those that operands and users ask for most directly. */
enum { MOST_WAYS = 8 };

/* The rule that makes a way; part of a node's question (memo.c). */
enum how { AS_OPERANDS, AS_LED, AS_JOINED, AS_ASKED, AS_KEPT, AS_WHOLE, AS_UNCUT };

/* A way in the making: the axes that cut each factor. */
typedef struct choice {
  const tsr__terms *terms;
  const tsr_mesh *mesh; /* NULL: unplaced */
  unsigned used;        /* axes that cut a factor */
  bool joins;           /* factors are cut by the axes of all operands */
  int keeper;           /* the operand that may be an unreduced sum, as the result then is; -1 */
  unsigned sums;        /* axes over which that operand is unreduced */
  bool settled[TSR__MAX_FACTORS];
  uint8_t claimed[TSR__MAX_FACTORS]; /* number of its leading axes that must not change */
  tsr__axes axes[TSR__MAX_FACTORS];
} choice;

static const tsr__gnode *flow_node(const tsr__flow *flow, int n)
{
  return &flow->program->nodes[n];
}

/* The rank of a node's result; if it has several, which lie alike, the rank of the first. Drafts of
 * reductions and of sorts are written by the same lines, so both ask this function. */
static int rank_of(const tsr__flow *flow, int n)
{
  return tsr__rank_of(flow->program, flow_node(flow, n));
}

static bool is_const(const tsr__flow *flow, int n)
{
  return flow_node(flow, n)->op == TSR__OP_CONST;
}

bool tsr__made_anywhere(const tsr__program *program, int n)
{
  const tsr__gnode *node = &program->nodes[n];
  bool made = tsr__ops[node->op].source;
  TSR_FOR_OPERANDS (program, node, i, o) made &= program->nodes[o].op == TSR__OP_CONST;
  return made && !(node->flags & TSR__PLACED);
}

/* ---- places ---- */

/* Grows the list of places. The old list stays in the arena, and a place never changes: pointers
 * into it stay valid while new places are added. Places are numbers of 16 bits, and 65,536
 * different ones count as no memory. */
static bool grow_places(tsr__flow *flow, int room)
{
  size_t count = (size_t)flow->place_count;
  tsr_sharding *places = tsr__arena_new(flow->arena, (size_t)room * sizeof *places);
  bool *full = tsr__arena_new(flow->arena, (size_t)room);
  if (!places || !full || room > UINT16_MAX) return false;
  if (count) memcpy(places, flow->places, count * sizeof *places);
  if (count) memcpy(full, flow->full, count);
  flow->places = places;
  flow->full = full;
  flow->place_room = room;
  return true;
}

/* Whether a place uses all axes of its mesh. Axes of one device cut nothing and stand in no
 * place. */
static bool uses_all(const tsr_sharding *place)
{
  int count = 0;
  for (int a = 0; a < place->mesh->axis_count; a++) count += place->mesh->sizes[a] > 1;
  return count == place->first[TSR_MAX_RANK];
}

/* The search runs from the newest place back: most requests are for a place made a moment ago.
 * Places are compared as bytes, so callers clear a place before they fill it. */
static int place_number(tsr__flow *flow, const tsr_sharding *place)
{
  if (!place->mesh) return 0;
  for (int i = flow->place_count - 1; i > 0; i--)
    if (!memcmp(&flow->places[i], place, sizeof *place)) return i;
  if (flow->place_count == flow->place_room)
    flow->failed |= !grow_places(flow, 2 * flow->place_room);
  if (flow->failed) return 0;
  flow->places[flow->place_count] = *place;
  flow->full[flow->place_count] = uses_all(place);
  return flow->place_count++;
}

/* The factors that cut the dims of an array. Each dim has one, and may have one that cuts it
 * further; -1 is none. */
typedef struct cut_dims {
  const int8_t *by;
  const tsr__further *further; /* may be NULL */
  int rank;
} cut_dims;

/* The place whose dims are cut as a choice cuts their factors; `sums`: axes over which parts add
 * up. */
static uint16_t place_from_choice(tsr__flow *flow, const choice *c, cut_dims dims, unsigned sums)
{
  tsr_sharding out;
  if (!c->mesh) return 0;
  memset(&out, 0, sizeof out);
  out.mesh = c->mesh;
  out.rank = TSR_MAX_RANK;
  out.unreduced = (uint8_t)sums;
  uint8_t used = 0;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    int f = d < dims.rank ? dims.by[d] : -1;
    int more = d < dims.rank && dims.further ? dims.further[d].factor : -1;
    for (int i = 0; f >= 0 && i < c->axes[f].count; i++) out.axis[used++] = c->axes[f].axis[i];
    for (int i = 0; more >= 0 && i < c->axes[more].count; i++)
      out.axis[used++] = c->axes[more].axis[i];
    out.first[d + 1] = used;
  }
  return (uint16_t)place_number(flow, &out);
}

/* ---- ways ---- */

static bool same_way(const tsr__way *a, const tsr__way *b, int needs)
{
  bool same = a->at == b->at && a->meet == b->meet;
  for (int i = 0; i < needs && same; i++) same = a->need[i] == b->need[i];
  return same;
}

/* Adds a copy of a way unless it is there; a free node prefers a way that it is asked for to its
 * first way. */
static void add_way(tsr__flow *flow, int n, const tsr__way *made, int asker)
{
  int needs = flow_node(flow, n)->in_count, count = 0;
  tsr__way **end = &flow->ways[n];
  if (*end && !tsr__follow_allows(flow, n, made->at)) return;
  for (; *end; end = &(*end)->next) {
    /* Weights are not compared: a way found again for another asker is the same way. */
    if (same_way(*end, made, needs) || ++count == MOST_WAYS) return;
    if (flow->free[n] && !(*end)->next) break;
  }
  size_t bytes = sizeof(tsr__way) + (size_t)needs * sizeof made->need[0];
  tsr__way *way = tsr__arena_raw(flow->arena, bytes);
  flow->failed |= !way;
  if (!way) return;
  memcpy(way, made, bytes);
  flow->open |= count > 0;
  way->asker = asker;
  way->fresh = 1;
  way->next = *end;
  *end = way;
}

/* The number of parts into which a choice cuts the work of its node. MEET factors do not count: all
 * devices search for the elements that they join. */
static uint16_t count_choice_parts(const choice *c)
{
  int64_t parts = 1;
  for (int f = 0; f < c->terms->count; f++)
    for (int i = 0; c->terms->kind[f] != TSR__FACTOR_MEET && i < c->axes[f].count; i++)
      parts *= c->mesh->sizes[c->axes[f].axis[i]];
  return (uint16_t)(parts < UINT16_MAX ? parts : UINT16_MAX);
}

/* The number of leading axes that cut a factor into so many parts; -1: none do. */
static int axes_for(const choice *c, int factor, int64_t parts)
{
  const tsr__axes *axes = &c->axes[factor];
  int64_t made = 1;
  int count = 0;
  while (count < axes->count && made < parts) made *= c->mesh->sizes[axes->axis[count++]];
  return made == parts ? count : -1;
}

/* Axes beyond those that cut a factor into single elements cut the factor that cuts its dim
 * further; that is not cut if no axes do.
 *
 *   [8] -> [2,4], x=2, y=4     8 is cut by (x,y): 2 gets (x), 4 gets (y)
 *                              by (y) or (y,x): 2 gets these, 4 none */
static void settle_further(choice *c, const int8_t *by, const tsr__further *further)
{
  for (int d = 0; d < TSR_MAX_RANK && c->mesh; d++) {
    if (further[d].factor < 0 || !further[d].single) continue;
    tsr__axes *first = &c->axes[by[d]], *then = &c->axes[further[d].factor], rest = *then;
    int count = axes_for(c, by[d], further[d].single);
    then->count = 0;
    for (int i = count; count >= 0 && i < first->count; i++)
      then->axis[then->count++] = first->axis[i];
    for (int i = 0; count >= 0 && i < rest.count; i++) then->axis[then->count++] = rest.axis[i];
    if (count >= 0) first->count = (uint8_t)count;
  }
}

/* Writes the way that a choice leads to into the draft. An axis that cuts a factor cannot at once
 * be one over which its parts add up. A constant has no place: its need stays 0, which means
 * none. */
static void write_way_draft(tsr__flow *flow, int n, const choice *c)
{
  const tsr__gnode *node = flow_node(flow, n);
  tsr__way *way = flow->draft;
  memset(way, 0, sizeof *way + (size_t)node->in_count * sizeof *way->need);
  unsigned sums = c->sums & ~c->used;
  cut_dims result = { c->terms->out, c->terms->further, rank_of(flow, n) };
  way->at = place_from_choice(flow, c, result, sums);
  TSR_FOR_OPERANDS (flow->program, node, i, o) {
    cut_dims operand = { c->terms->in[i], i ? NULL : c->terms->further_in, rank_of(flow, o) };
    if (!is_const(flow, o))
      way->need[i] = place_from_choice(flow, c, operand, i == c->keeper ? sums : 0);
  }
  for (int f = 0; f < c->terms->count; f++) {
    int kind = c->terms->kind[f];
    bool meets = kind == TSR__FACTOR_REDUCE || kind == TSR__FACTOR_MEET;
    for (int i = 0; meets && i < c->axes[f].count; i++)
      way->meet |= (uint8_t)(1u << c->axes[f].axis[i]);
  }
  way->parts = count_choice_parts(c);
}

/* ---- choosing ---- */

/* Cuts that users ranked before the rest are settled before the choice begins. */
static void keep_claims(tsr__flow *flow, int n, choice *c)
{
  tsr__cuts cuts;
  if (flow->fixed[n] || !tsr__flow_claimed(flow, n, c->terms, &cuts) || cuts.mesh != c->mesh)
    return;
  c->used = cuts.used;
  memcpy(c->axes, cuts.axes, sizeof c->axes);
  for (int f = 0; f < c->terms->count; f++) c->claimed[f] = c->axes[f].count;
}

static void start_choice(tsr__flow *flow, int n, const tsr__terms *terms, const tsr_mesh *mesh,
                         choice *c)
{
  memset(c, 0, sizeof *c);
  c->keeper = -1;
  c->terms = terms;
  c->mesh = mesh;
  for (int f = 0; f < terms->count; f++) c->settled[f] = terms->kind[f] == TSR__FACTOR_REPLICATE;
  if (flow->claims) keep_claims(flow, n, c);
}

/* A factor takes the leading axes that no other factor uses; a reduced factor, or one where
 * operands join, takes any unused axis. Borders are made axis by axis, so a cut by the later axes
 * of a list has other borders than a cut by all of them: once an axis is taken, those after it are
 * of no use. Parts that are summed may have any borders. */
static void take_axes(choice *c, int factor, const uint8_t *axis, int count)
{
  tsr__axes *mine = &c->axes[factor];
  for (int i = 0; i < count; i++) {
    bool taken = c->used >> axis[i] & 1;
    if (taken && !c->joins && c->terms->kind[factor] != TSR__FACTOR_REDUCE) return;
    if (taken) continue;
    mine->axis[mine->count++] = axis[i];
    c->used |= 1u << axis[i];
  }
}

/* Cuts the factors that are not settled like a place cuts the dims they stand for; `whole`: dims
 * that it does not cut stay so. */
static void cut_like(choice *c, const tsr_sharding *place, const int8_t *map, int rank, bool whole)
{
  if (place->mesh != c->mesh) return;
  for (int d = 0; d < rank; d++) {
    int f = map[d], count = place->first[d + 1] - place->first[d];
    if (f < 0 || c->settled[f] || (!count && !whole)) continue;
    const uint8_t *axis = &place->axis[place->first[d]];
    /* A claimed factor is cut further only by a place that begins with the claimed axes, and then
     * by the rest:
     *
     *   claimed (x)    place (x, y)   -> (x, y)       place (y)   -> (x), y may cut another dim */
    int kept = c->claimed[f] && !c->joins ? tsr__axes_begin(&c->axes[f], axis, count) : 0;
    if (kept == c->claimed[f] || c->joins) take_axes(c, f, axis + kept, count - kept);
    else if (!whole) continue;
    c->settled[f] = whole || (c->axes[f].count > c->claimed[f] && !c->joins);
  }
}

/* A node's elements; a free node weighs less than any other, since it goes wherever others are. */
static int64_t weight_of(const tsr__flow *flow, int n)
{
  return flow->free[n] ? -1 : tsr__memo_elements(flow, n);
}

/* The placed operand that comes next after `last` (-1: first of all) in order of weight, the
 * largest first, then of index; -1: no more. Each call searches anew instead of sorting: most nodes
 * have one or two operands, and a list would need memory. */
static int next_by_weight(const tsr__flow *flow, int n, int last)
{
  const tsr__gnode *node = flow_node(flow, n);
  int64_t bound = last < 0 ? 0 : weight_of(flow, tsr__in(flow->program, node, last)), most = -2;
  int next = -1;
  TSR_FOR_OPERANDS (flow->program, node, i, o) {
    if (!tsr__flow_at(flow, o)->mesh) continue;
    int64_t weight = weight_of(flow, o);
    bool after = last < 0 || weight < bound || (weight == bound && i > last);
    if (!after || weight <= most) continue;
    most = weight;
    next = i;
  }
  return next;
}

/* The largest operand decides and smaller ones cut the factors that it left open. So the first way
 * moves the small to the large, which mostly costs the fewest bytes. */
static void cut_like_operands(const tsr__flow *flow, int n, choice *c)
{
  const tsr__gnode *node = flow_node(flow, n);
  for (int i = next_by_weight(flow, n, -1); i >= 0; i = next_by_weight(flow, n, i)) {
    int o = tsr__in(flow->program, node, i);
    cut_like(c, tsr__flow_at(flow, o), c->terms->in[i], rank_of(flow, o), false);
  }
}

/* The operand of a node that leaves a sum unreduced, as views and numbers that scale do; -1. */
static int unreduced_operand(const tsr__flow *flow, int n)
{
  const tsr__gnode *node = flow_node(flow, n);
  int keeper = -1, others = 0;
  TSR_FOR_OPERANDS (flow->program, node, i, o) {
    if (is_const(flow, o)) continue;
    keeper = i;
    others++;
  }
  bool shows = (tsr__is_view(node->op) && node->in_count == 1) || tsr__ops[node->op].follows;
  return others == 1 && (shows || tsr__ops[node->op].scales) ? keeper : -1;
}

/* Nodes that can leave a sum unreduced follow the unreduced axes of a place. */
static void keep_sums(const tsr__flow *flow, int n, const tsr_sharding *place, choice *c)
{
  if (place->mesh != c->mesh || !place->unreduced) return;
  c->keeper = unreduced_operand(flow, n);
  c->sums = c->keeper < 0 ? 0 : place->unreduced;
}

/* A node whose lines are too short to be cut has no other way: the axes of the lines cut the
 * largest of the other dims instead, so that each line goes to one device and not to all. */
static void cut_other_dim(const tsr__flow *flow, int n, choice *c)
{
  const tsr__gnode *node = flow_node(flow, n);
  if (!node->result_count || !tsr__ops[node->op].least_cut) return;
  int o = tsr__in(flow->program, node, 0), dim = tsr__dim_of(flow->program, node), other = -1;
  const tsr_sharding *place = tsr__flow_at(flow, o);
  const tsr__gnode *x = flow_node(flow, o);
  if (c->terms->kind[c->terms->in[0][dim]] != TSR__FACTOR_REPLICATE || place->mesh != c->mesh)
    return;
  for (int d = 0; d < x->rank; d++)
    if (d != dim && x->dims[d] > 1 && (other < 0 || x->dims[d] > x->dims[other])) other = d;
  if (other >= 0)
    take_axes(c, c->terms->in[0][other], &place->axis[place->first[dim]],
              place->first[dim + 1] - place->first[dim]);
}

/* A choice on the mesh of the operands, cut nowhere: a value that several users need whole is
 * gathered once. Claims stand all the same (start_choice). */
static void choose_uncut(tsr__flow *flow, int n, const tsr__terms *terms, choice *c)
{
  const tsr__gnode *node = flow_node(flow, n);
  int lead = next_by_weight(flow, n, -1), o = lead < 0 ? -1 : tsr__in(flow->program, node, lead);
  bool nowhere =
      o < 0 || tsr__ops[flow_node(flow, o)->op].loops; /* its results say where they are */
  const tsr_mesh *mesh = nowhere ? NULL : tsr__flow_at(flow, o)->mesh;
  start_choice(flow, n, terms, mesh, c);
}

/* A choice that follows the operands' first ways; unplaced if no operand is placed. `whole`: MEET
 * factors are not cut. */
static void choose_as_operands(tsr__flow *flow, int n, const tsr__terms *terms, bool whole,
                               choice *c)
{
  choose_uncut(flow, n, terms, c);
  for (int f = 0; whole && f < terms->count; f++)
    if (terms->kind[f] == TSR__FACTOR_MEET) c->settled[f] = true;
  if (!c->mesh) return;
  cut_like_operands(flow, n, c);
  cut_other_dim(flow, n, c);
  int lead = next_by_weight(flow, n, -1);
  keep_sums(flow, n, tsr__flow_at(flow, tsr__in(flow->program, flow_node(flow, n), lead)), c);
}

/* The largest dim of a reduction's result; -1: no dim is worth cutting. */
static int kept_dim(const tsr__flow *flow, int n, const tsr__terms *terms)
{
  const tsr__gnode *node = flow_node(flow, n);
  int kept = -1;
  for (int d = 0; d < node->rank; d++)
    if (terms->out[d] >= 0 && (kept < 0 || node->dims[d] > node->dims[kept])) kept = d;
  return kept >= 0 && node->dims[kept] >= 2 ? kept : -1;
}

/* A reduction whose operand moves, so that a kept dim is cut instead of the reduced ones: the
 * partials stay where they are. A lead of -1 is no dim in a product: its contracted dims are
 * gathered. */
static void choose_kept_cut(tsr__flow *flow, int n, const tsr__question *q, choice *c)
{
  const tsr__terms *terms = q->terms;
  choose_as_operands(flow, n, terms, false, c);
  tsr__axes *to = q->lead < 0 ? NULL : &c->axes[terms->out[q->lead]];
  for (int f = 0; f < terms->count; f++) {
    if (terms->kind[f] != TSR__FACTOR_REDUCE || c->claimed[f]) continue;
    for (int i = 0; i < c->axes[f].count && to; i++) to->axis[to->count++] = c->axes[f].axis[i];
    c->axes[f].count = 0;
  }
}

/* A choice that follows one operand's place; if it joins, also the places of the others. */
static void choose_led(tsr__flow *flow, int n, const tsr__question *q, choice *c)
{
  const tsr_sharding *place = &flow->places[q->place];
  int o = tsr__in(flow->program, flow_node(flow, n), q->lead);
  start_choice(flow, n, q->terms, place->mesh, c);
  c->joins = q->how == AS_JOINED;
  cut_like(c, place, q->terms->in[q->lead], rank_of(flow, o), false);
  cut_like_operands(flow, n, c);
  keep_sums(flow, n, place, c);
}

/* A choice that puts the result at a place, as far as its factors can be cut so; factors left open
 * follow the operands. */
static void choose_as_asked(tsr__flow *flow, int n, const tsr__question *q, choice *c)
{
  const tsr_sharding *place = &flow->places[q->place];
  start_choice(flow, n, q->terms, place->mesh, c);
  cut_like(c, place, q->terms->out, rank_of(flow, n), true);
  cut_like_operands(flow, n, c);
  keep_sums(flow, n, place, c);
}

/* The way that answers a question, which may have been asked before. NULL out of memory. The
 * returned way is valid until the next question: all questions share one draft, and add_way takes a
 * copy. */
static const tsr__way *answer_question(tsr__flow *flow, int n, const tsr__question *q)
{
  choice c;
  if (flow->failed) return NULL;
  const tsr__way *known = tsr__memo_find_way(flow, q);
  if (known || flow->failed) return known;
  switch (q->how) {
  case AS_OPERANDS: choose_as_operands(flow, n, q->terms, false, &c); break;
  case AS_WHOLE: choose_as_operands(flow, n, q->terms, true, &c); break;
  case AS_UNCUT: choose_uncut(flow, n, q->terms, &c); break;
  case AS_KEPT: choose_kept_cut(flow, n, q, &c); break;
  case AS_ASKED: choose_as_asked(flow, n, q, &c); break;
  default: choose_led(flow, n, q, &c); break;
  }
  settle_further(&c, q->terms->out, q->terms->further);
  if (q->terms->operands) settle_further(&c, q->terms->in[0], q->terms->further_in);
  write_way_draft(flow, n, &c);
  tsr__memo_keep_way(flow, n, q, flow->draft);
  return flow->failed ? NULL : flow->draft;
}

static void add_answer(tsr__flow *flow, int n, const tsr__question *q)
{
  const tsr__way *way = answer_question(flow, n, q);
  if (way) add_way(flow, n, way, -1);
}

/* ---- forward ---- */

/* A place that takes all axes leaves none for other operands to join. Following such a place clears
 * the question's first places (tsr__question_set_place), since they cannot matter then. This
 * function restores them for the next place. */
static void add_led_way(tsr__flow *flow, int n, tsr__question *q, int how, int place)
{
  uint16_t first[TSR__FEW];
  if (!place) return;
  for (int i = 0; i < TSR__FEW; i++) first[i] = q->first[i];
  q->how = (uint8_t)how;
  bool all = tsr__question_set_place(flow, q, q->terms->in[q->lead], place);
  if (!all || how != AS_JOINED) add_answer(flow, n, q);
  for (int i = 0; i < TSR__FEW; i++) q->first[i] = first[i];
}

/* The first operand whose dims stand for the same factors: a place of either leads alike. */
static int leader_like(const tsr__terms *terms, int i)
{
  for (int k = 0; k < i && k < TSR__FEW; k++)
    if (!memcmp(terms->in[k], terms->in[i], sizeof terms->in[i])) return k;
  return i;
}

/* Adds a way that follows each way of each operand, and one that joins all of them. */
static void add_operands_ways(tsr__flow *flow, int n)
{
  const tsr__gnode *node = flow_node(flow, n);
  tsr__question q;
  tsr__memo_question(flow, n, &q);
  uint64_t led = 0; /* places already followed for this lead */
  if (flow->failed) return;
  TSR_FOR_OPERANDS (flow->program, node, i, o) {
    int before = (int)q.lead;
    q.lead = leader_like(q.terms, i);
    if (q.lead != before) led = 0;
    for (const tsr__way *way = flow->ways[o]; way; way = way->next) {
      /* The bit only saves a second question; beyond place 64, add_way finds that the way is
       * there. */
      uint64_t bit = way->at < 64 ? UINT64_C(1) << way->at : 0;
      if (!(led & bit)) add_led_way(flow, n, &q, AS_LED, way->at);
      led |= bit;
    }
    add_led_way(flow, n, &q, AS_LED, flow->asked[o]);
    add_led_way(flow, n, &q, AS_JOINED, flow->ways[o]->at);
  }
}

/* Whether all operands lie as the first way needs them, and lie no other way for others. Such a
 * node has nothing to choose, and most nodes of most programs are so: the test keeps a plan without
 * conflicts at one pass. */
static bool agrees(const tsr__flow *flow, int n)
{
  const tsr__way *way = flow->ways[n];
  TSR_FOR_OPERANDS (flow->program, flow_node(flow, n), i, o) {
    if (way->need[i] != flow->ways[o]->at || flow->ways[o]->next) return false;
    if (flow->asked[o] && flow->asked[o] != way->need[i]) return false;
  }
  return true;
}

/* The place of a node without its priorities. Dims that a constraint leaves open are cut like its
 * operand cuts them, by the axes that the other dims leave. An open dim of an operand on another
 * mesh stays whole: its axes mean nothing here. */
static int close_dims(tsr__flow *flow, int n)
{
  const tsr__gnode *node = flow_node(flow, n);
  const tsr_sharding *asked = &flow->places[node->sharding];
  if (!asked->open && !tsr__has_priority(asked)) return node->sharding;
  const tsr_sharding *operand = asked;
  if (asked->open) operand = tsr__flow_at(flow, tsr__in(flow->program, node, 0));
  unsigned taken = tsr__used_axes(asked) | asked->unreduced;
  tsr_sharding out;
  uint8_t used = 0;
  memset(&out, 0, sizeof out);
  out.mesh = asked->mesh;
  out.rank = TSR_MAX_RANK;
  out.unreduced = asked->unreduced;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    bool open = asked->open >> d & 1;
    const tsr_sharding *from = open ? operand : asked;
    for (int i = from->first[d]; i < from->first[d + 1] && from->mesh == asked->mesh; i++)
      if (!open || !(taken >> from->axis[i] & 1)) out.axis[used++] = from->axis[i];
    out.first[d + 1] = used;
  }
  return place_number(flow, &out);
}

/* Whether the operands could be cut along a factor that the result lacks. */
static bool may_meet(const tsr__terms *terms)
{
  int f = 0;
  while (f < terms->count && terms->kind[f] != TSR__FACTOR_MEET) f++;
  return f < terms->count;
}

static bool is_product(const tsr__flow *flow, int n)
{
  return tsr__ops[flow_node(flow, n)->op].contracts;
}

/* Adds ways that need no meeting of partials: a product may cut any one kept dim, or no dim. The
 * loop's -1 is no dim: all contracted dims are gathered and nothing else is cut for it. A dim that
 * a product keeps but cannot pass on (of windows, of size 1) is skipped. */
static void add_kept_ways(tsr__flow *flow, int n, tsr__question *q)
{
  const tsr__gnode *node = flow_node(flow, n);
  int kept = kept_dim(flow, n, q->terms);
  q->how = AS_KEPT;
  q->lead = kept;
  if (!is_product(flow, n)) {
    if (kept >= 0) add_answer(flow, n, q);
    return;
  }
  for (q->lead = -1; q->lead < node->rank && !flow->failed; q->lead++) {
    int f = q->lead < 0 ? -1 : q->terms->out[q->lead];
    if (f < 0 ? q->lead < 0 : q->terms->kind[f] == TSR__FACTOR_PASS && node->dims[q->lead] > 1)
      add_answer(flow, n, q);
  }
}

bool tsr__meets_at(const tsr_sharding *whole, unsigned axes, const tsr_sharding *place)
{
  tsr_sharding without = tsr__partial_place(place, axes);
  bool fits = !memcmp(&without, whole, sizeof without) && !(place->unreduced & ~axes);
  for (int d = 0; d < TSR_MAX_RANK && fits; d++) {
    bool cut = false;
    for (int i = place->first[d]; i < place->first[d + 1]; i++) {
      bool meets = axes >> place->axis[i] & 1;
      fits &= meets || !cut;
      cut |= meets;
    }
  }
  return fits;
}

/* Whether partials of a way can meet so that the result lies at a place that is not the way's.
 * Products of floats keep an order. */
static bool comes_to(const tsr__flow *flow, int n, const tsr__way *way, const tsr_sharding *place)
{
  tsr__accum accums[2];
  unsigned further = tsr__used_axes(place) & way->meet;
  bool fits =
      (further | place->unreduced) && tsr__meets_at(&flow->places[way->at], way->meet, place);
  int count = further && fits ? tsr__accums_of(flow->program, n, accums) : 0;
  for (int k = 0; k < count; k++)
    fits = fits && !(tsr__accum_infos[accums[k].row].takes & TSR__TAKES_ORDERED);
  return fits;
}

/* Whether a reduction that a user placed comes to lie there by the meeting of its partials
 * alone. */
static bool meets_there(tsr__flow *flow, int n, const tsr__question *q, int place)
{
  tsr__question whole = *q;
  if (!tsr__is_reduction(flow_node(flow, n)->op)) return false;
  whole.how = AS_WHOLE;
  const tsr__way *way = answer_question(flow, n, &whole);
  return way && way->meet && comes_to(flow, n, way, &flow->places[place]);
}

/* Adds the way of a reduction or product whose partials meet at a place. Bits stay together in
 * words. */
static void add_scattered(tsr__flow *flow, int n, int place, int asker)
{
  const tsr__gnode *node = flow_node(flow, n);
  bool reduces = tsr__is_reduction(node->op) && node->dtype != TSR_BOOL;
  if (!reduces && !is_product(flow, n)) return;
  if (node->rank && node->dims[0] == TSR__DYNAMIC) return;
  for (const tsr__way *way = flow->ways[n]; way; way = way->next) {
    if (!way->meet || !comes_to(flow, n, way, &flow->places[place])) continue;
    memcpy(flow->draft, way, sizeof *way + (size_t)node->in_count * sizeof *way->need);
    flow->draft->at = (uint16_t)place;
    /* The way is weighed anew: copies of the result cost other bytes than at the first way's
     * place. */
    flow->draft->own = 0;
    add_way(flow, n, flow->draft, asker);
    return;
  }
}

/* The sum of a product may stay where its parts are added up, if its users go on there: otherwise
 * all devices would gather the gradients and all of them would make the optimiser's whole step. */
static void add_summed(tsr__flow *flow, int n)
{
  const tsr__gnode *node = flow_node(flow, n);
  const tsr__way *way = flow->ways[n];
  tsr__meeting meeting = { flow->program, node, &flow->places[way->at], way->meet };
  tsr__split split;
  if (node->flags & TSR__ROOT) return;
  tsr__split_of(&meeting, &flow->places[way->need[1]], &split);
  int place = place_number(flow, &split.sum);
  if (place != way->at) add_scattered(flow, n, place, -1);
}

/* The axes that a way leaves idle and that are faster than an axis over which its partials meet. */
static unsigned idle_fast_axes(const tsr__flow *flow, int n, const tsr__way *way)
{
  const tsr_mesh *mesh = flow->places[way->at].mesh;
  unsigned idle = tsr__flow_idle_axes(flow, n, way), fast = 0;
  for (int k = 0, slow = 0; k < mesh->axis_count; k++) {
    int a = mesh->slowest[k];
    if (!slow && way->meet >> a & 1) slow = k + 1;
    bool faster = slow && mesh->bytes_per_s[a] > mesh->bytes_per_s[mesh->slowest[slow - 1]];
    if (faster && idle >> a & 1 && mesh->sizes[a] > 1) fast |= 1u << a;
  }
  return fast;
}

void tsr__flow_add_cut_way(tsr__flow *flow, int n, tsr_sharding place, int dim, unsigned axes)
{
  uint8_t axis[TSR_MAX_AXES];
  int count = 0;
  tsr__question q;
  for (int a = 0; a < TSR_MAX_AXES; a++)
    if (axes >> a & 1) axis[count++] = (uint8_t)a;
  place = tsr__cut_further(&place, dim, axis, count);
  tsr__memo_question(flow, n, &q);
  if (flow->failed) return;
  q.how = AS_ASKED;
  tsr__question_set_place(flow, &q, q.terms->out, place_number(flow, &place));
  add_answer(flow, n, &q);
}

/* Partials that meet over a slow axis are fewer on each device if idle fast axes cut the result:
 *
 *   data=2@25e9,model=4@900e9     sum of x f32[64,64]@(data,-) over dim 0
 *   at (-)                        each device sends 64 partials along data
 *   at (model)                    16 along data; users gather along model */
static void add_spread_way(tsr__flow *flow, int n)
{
  const tsr__way *way = flow->ways[n];
  const tsr_sharding *place = &flow->places[way->at];
  unsigned fast = tsr__mesh_has_speeds(place->mesh) ? idle_fast_axes(flow, n, way) : 0;
  int dim = tsr__longest_dim(flow_node(flow, n), place);
  if (!fast || dim < 0) return;
  /* Less than a collective takes is not worth one. */
  if (tsr__flow_own_bytes(flow, n, way) <= tsr__flow_step_cost(flow, place->mesh)) return;
  tsr__flow_add_cut_way(flow, n, *place, dim, fast);
}

/* The first way is special: it stands if nobody gains by another, fixed nodes have no other, and it
 * lies at the user's place if there is one, whatever the choice led to. A node whose partials meet
 * may have more ways, which need no meeting. */
static void add_first_way(tsr__flow *flow, int n)
{
  const tsr__gnode *node = flow_node(flow, n);
  tsr__question q;
  tsr__memo_question(flow, n, &q);
  bool placed = node->flags & TSR__PLACED && node->sharding;
  int place = placed ? close_dims(flow, n) : 0;
  if (flow->failed) return;
  q.how = placed && !meets_there(flow, n, &q, place) ? AS_ASKED : AS_WHOLE;
  if (q.how == AS_ASKED) tsr__question_set_place(flow, &q, q.terms->out, place);
  add_answer(flow, n, &q);
  if (flow->failed) return;
  if (placed) flow->ways[n]->at = (uint16_t)place;
  if (q.how == AS_ASKED && node->in_count && flow->places[place].unreduced)
    flow->ways[n]->need[0] = (uint16_t)place; /* for nodes that leave a sum unreduced */
  if (flow->fixed[n]) return;
  q.how = AS_OPERANDS;
  if (flow->sharing) tsr__work_add_ways(flow, n);
  if (flow->failed) return;
  if (flow->ways[n]->meet) {
    add_kept_ways(flow, n, &q);
    if (is_product(flow, n) && !flow->failed) add_summed(flow, n);
    if (!flow->failed) add_spread_way(flow, n);
  } else if (may_meet(q.terms)) {
    add_answer(flow, n, &q);
    q.how = AS_UNCUT;
    if (!flow->failed) add_answer(flow, n, &q);
  }
}

/* The changes of the operands' ways since the node looked last; a place that an operand is asked
 * for counts as a way. */
static int operands_change(const tsr__flow *flow, int n)
{
  int change = 0;
  TSR_FOR_OPERANDS (flow->program, flow_node(flow, n), i, o)
    change |= flow->changed[o] | (flow->asked[o] ? TSR__CHANGED_WAYS : 0);
  return change;
}

/* Fills flow->was_cut of a node, whose operands come before it. */
static void note_cuts(tsr__flow *flow, int n)
{
  unsigned cut = tsr__used_axes(tsr__flow_at(flow, n));
  TSR_FOR_OPERANDS (flow->program, flow_node(flow, n), i, o) cut |= flow->was_cut[o];
  flow->was_cut[n] = (uint8_t)cut;
}

static bool has_fresh(const tsr__way *way)
{
  while (way && !way->fresh) way = way->next;
  return way;
}

static void forward(tsr__flow *flow, int n)
{
  bool first = !flow->ways[n];
  int change = first ? TSR__CHANGED_WAYS : operands_change(flow, n);
  if (first) add_first_way(flow, n);
  if (first && !flow->failed) note_cuts(flow, n);
  if (flow->failed || tsr__is_unread(flow, n)) return;
  if (change & TSR__CHANGED_WAYS && !agrees(flow, n)) {
    flow->open = true;
    if (!flow->fixed[n]) add_operands_ways(flow, n);
  }
  bool weigh = !flow->failed && (change || has_fresh(flow->ways[n]));
  /* Users come later in the same pass and see this node's changes; wants were set between the
   * passes and stay for them, too. */
  flow->changed[n] &= TSR__CHANGED_WANTS;
  if (weigh) flow->changed[n] |= (uint8_t)tsr__flow_weigh_node(flow, n);
}

/* ---- backward ---- */

static bool lies_so(const tsr__flow *flow, int n, int place)
{
  for (const tsr__way *way = flow->ways[n]; way; way = way->next)
    if (way->at == place) return true;
  return false;
}

/* A place that a way needs an operand at becomes a way of that operand. `asker` goes down with it:
 * the explanation of a move that follows names the asker. */
static void ask_operand(tsr__flow *flow, int o, int place, int asker)
{
  if (!place || flow->fixed[o]) return;
  if (!lies_so(flow, o, place)) {
    tsr__question q;
    tsr__memo_question(flow, o, &q);
    if (flow->failed) return;
    q.how = AS_ASKED;
    tsr__question_set_place(flow, &q, q.terms->out, place);
    const tsr__way *way = answer_question(flow, o, &q);
    if (way) add_way(flow, o, way, asker);
  }
  if (!flow->failed) add_scattered(flow, o, place, asker);
}

/* The pass runs backwards over the program, so that a wish reaches an operand's operands in the
 * same pass. */
static void backward(tsr__flow *flow, int n)
{
  if (tsr__is_unread(flow, n)) return;
  bool asks = tsr__is_placing(flow_node(flow, n)->op) &&
              (flow->fixed[n] || (flow->least && flow->least[n]));
  if (asks) flow->asked[tsr__in(flow->program, flow_node(flow, n), 0)] = flow->ways[n]->at;
  for (const tsr__way *way = flow->ways[n]; way && !flow->failed; way = way->next)
    TSR_FOR_OPERANDS (flow->program, flow_node(flow, n), i, o)
      ask_operand(flow, o, way->need[i], asks ? n : way->asker);
}

/* ---- the start ---- */

/*   free     computed from numbers alone, without data. Sources are free whatever they read
 *   fixed    one way: leaves, nodes that a user placed, nodes with regions or several results,
 *            nodes that read rows counted at run time
 *   ragged   its rows end where a filter left them, until a rebalance makes borders even */
static void start_node(tsr__flow *flow, int n)
{
  const tsr__program *program = flow->program;
  const tsr__gnode *node = &program->nodes[n];
  const tsr__opinfo *row = &tsr__ops[node->op];
  bool leaf = tsr__is_leaf(node->op);
  bool dynamic = node->rank > 0 && node->dims[0] == TSR__DYNAMIC, rows = dynamic;
  bool regions = node->region_count || node->result_count;
  bool all_free = node->op == TSR__OP_CONST || !leaf;
  bool ragged = node->flags & TSR__RAGGED || row->ragged;
  TSR_FOR_OPERANDS (program, node, i, o) {
    const tsr__gnode *operand = &program->nodes[o];
    all_free &= flow->free[o] || row->source;
    ragged |= flow->ragged[o] && dynamic;
    rows |= operand->rank > 0 && operand->dims[0] == TSR__DYNAMIC;
    regions |= operand->result_count > 0;
  }
  flow->free[n] = all_free;
  bool placed = node->flags & TSR__PLACED && !(flow->least && flow->least[n]);
  flow->fixed[n] = leaf || placed || regions || tsr__is_unread(flow, n) ||
                   (rows && (!all_free || tsr__is_step(node->op)));
  flow->ragged[n] = ragged && !row->even;
  flow->carry[n] = node->op == TSR__OP_CONST ? TSR__CARRY_NONE : TSR__CARRY_BYTES;
  if (tsr__made_anywhere(program, n)) flow->carry[n] = TSR__CARRY_REMADE;
  tsr__memo_type(flow, n);
}

/* Rows that a filter left in place line up only with rows that the same devices filtered. */
static tsr_status check_ragged_operands(const tsr__flow *flow, int n, tsr__error *error)
{
  const tsr__gnode *node = flow_node(flow, n);
  if (tsr__is_step(node->op) || !node->rank) return TSR_OK;
  int seen[2] = { -1, -1 };
  TSR_FOR_OPERANDS (flow->program, node, i, in) {
    const tsr__gnode *operand = flow_node(flow, in);
    if (operand->rank && operand->dims[0] == TSR__DYNAMIC) seen[flow->ragged[in]] = in;
  }
  if (seen[0] < 0 || seen[1] < 0) return TSR_OK;
  return tsr__error_set(error, TSR_ESHAPE,
                        "tsr_%s: one operand has uneven rows after a filter, and the other has "
                        "even rows; rebalance the filtered operand",
                        tsr__ops[node->op].name);
}

/* Manual axes cut nothing here: a user's placement along one is an error. */
static tsr_status check_manual(const tsr__flow *flow, int n, tsr__error *error)
{
  const tsr__gnode *node = flow_node(flow, n);
  const tsr_sharding *place = &flow->places[node->flags & TSR__PLACED ? node->sharding : 0];
  unsigned both = tsr__used_axes(place) & flow->manual;
  if (!both) return TSR_OK;
  int axis = 0;
  while (!(both >> axis & 1)) axis++;
  return tsr__error_set(error, TSR_EAXIS,
                        "tsr_%s: %%%d is placed along axis \"%s\", which is manual here; leave the "
                        "axis out of its spec",
                        tsr__ops[node->op].name, n, place->mesh->names[axis]);
}

/* Six lists of bytes share one piece of the arena. Places of the program keep their numbers, so a
 * node's `sharding` is a place as it is; those that propagation finds come after them. */
static bool start_flow(tsr__flow *flow)
{
  const tsr__program *program = flow->program;
  int most = 0;
  for (int n = 0; n < program->node_count; n++)
    if (program->nodes[n].in_count > most) most = program->nodes[n].in_count;
  flow->draft =
      tsr__arena_new(flow->arena, sizeof(tsr__way) + (size_t)most * sizeof flow->draft->need[0]);
  size_t count = (size_t)program->node_count + 1;
  flow->ways = tsr__arena_new(flow->arena, count * sizeof(tsr__way *));
  flow->terms = tsr__arena_new(flow->arena, count * sizeof(tsr__terms *));
  flow->type = tsr__arena_new(flow->arena, count * sizeof *flow->type);
  flow->asked = tsr__arena_new(flow->arena, count * sizeof *flow->asked);
  flow->free = tsr__arena_new(flow->arena, 6 * count);
  if (!flow->draft || !flow->ways || !flow->terms || !flow->type || !flow->asked || !flow->free ||
      !grow_places(flow, 2 * program->sharding_count + 16) || !tsr__memo_start(flow))
    return false;
  flow->fixed = flow->free + count;
  flow->ragged = flow->fixed + count;
  flow->carry = flow->ragged + count;
  flow->changed = flow->carry + count;
  flow->was_cut = flow->changed + count;
  flow->place_count = program->sharding_count > 0 ? program->sharding_count : 1;
  if (program->sharding_count)
    memcpy(flow->places, program->shardings,
           (size_t)program->sharding_count * sizeof *flow->places);
  for (int i = 1; i < flow->place_count; i++) flow->full[i] = uses_all(&flow->places[i]);
  return true;
}

/* A program without places has one way for each node. All nodes share one way of zeros: unplaced,
 * with unplaced needs. The shared way has entries for the needs of the node with the most
 * operands. */
static void stay_unplaced(tsr__flow *flow)
{
  flow->draft->asker = -1;
  for (int n = 0; n < flow->program->node_count; n++) flow->ways[n] = flow->draft;
}

/* All passes of propagation. If the first pass finds one way for each node and no conflict of
 * places, there is nothing to weigh; most programs are so. */
static void propagate(tsr__flow *flow)
{
  int count = flow->program->node_count;
  tsr__flow_start_rates(flow);
  tsr__flow_start_scale(flow);
  tsr__flow_claim(flow);
  for (int n = 0; n < count && !flow->failed; n++) forward(flow, n);
  /* Each turn but the last fixes nodes that follow others. */
  bool turn = !flow->failed && (flow->open || tsr__follow_settle(flow));
  for (int again = 0; turn && !flow->failed; again++) {
    if (again) tsr__flow_forget_wants(flow);
    for (int n = count - 1; n >= 0 && !flow->failed; n--) backward(flow, n);
    tsr__flow_want_fixed(flow);
    for (int n = 0; n < count && !flow->failed; n++) forward(flow, n);
    if (!flow->failed) tsr__flow_choose(flow);
    turn = !flow->failed && tsr__follow_settle(flow);
  }
}

tsr_status tsr__flow_run(const tsr__program *program, tsr__flow_opts opts, tsr__arena *arena,
                         tsr__flow *out, tsr__error *error)
{
  tsr__flow flow = {
    .program = program, .arena = arena, .manual = opts.manual, .sharing = opts.sharing
  };
  bool placed = false;
  flow.failed = !tsr__follow_start(&flow) || !start_flow(&flow);
  for (int n = 0; n < program->node_count && !flow.failed; n++) {
    start_node(&flow, n);
    placed |= flow.program->nodes[n].flags & TSR__PLACED;
    if (check_ragged_operands(&flow, n, error) || check_manual(&flow, n, error))
      return error->status;
  }
  if (!flow.failed && placed) propagate(&flow);
  else if (!flow.failed) stay_unplaced(&flow);
  if (flow.failed)
    return tsr__error_set(error, TSR_ENOMEM,
                          "no memory to plan a program; close scopes that are no longer needed");
  *out = flow;
  return TSR_OK;
}
