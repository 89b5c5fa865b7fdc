/* Partitioning turns a global program into the program of each device.
 *
 *   inline calls (graph/inline.c) -> plan the regions of loops (loops.c) ->
 *   propagate (propagate.c, follow.c) -> weigh (weigh.c) -> rewrite (here) -> notes (notes.c)
 *
 * If there are ways in which devices share work that each would make all of, a plan is made with
 * them and one without, and the one that costs less is taken (work.c).
 *
 *   %2 = %0 + %1                       %2 = reshard(%1)      operand
 *   %0 @(x,-)  %1 @(-,x)       -->     %3 = %0 + %2
 *
 * Invariants of the result: operands of a node lie as the node cuts its factors, or are constants
 * without a place; reductions name the mesh axes over which their partials meet; nodes that
 * only place, reshards that would move nothing and nodes that nobody reads are gone. `home` and
 * `origin` tie the result to the traced program.
 *
 * Two lists lead from a traced node to its nodes of the result:
 *
 *   home[traced]         the node of the result that holds it, where it was made
 *   first_move[home] ->  its copies elsewhere, newest first, chained by next_move
 *
 * Operands come first in a program, so one pass in order finds the home of each operand settled;
 * only roots that are unreduced sums are settled after the pass. */
#include "partition/flow.h"

#include <stdio.h>

/* All lists but `out` live in the arena of the plan. Lists by node of the result have entries for
 * the most nodes there can be (most_nodes), so that no list grows while it is indexed. */
typedef struct rewrite {
  const tsr__program *in;
  const tsr__flow *flow;
  tsr__partitioned *out;
  int32_t *first_move; /* by node of the result: its newest RESHARD, -1 = none */
  int32_t *next_move;  /* by RESHARD node: the one before it of the same operand */
  int32_t *links;      /* room for the operands of one node */
  /* Unreduced sums; nodes of the traced program, or -1. */
  int32_t *scaled;        /* by traced node: the node that scales its home last */
  int32_t *scaled_before; /* by scaling node: the one that scales before it */
  int32_t *scaled_by;     /* by node of the result in a list of moves: its last scaling */
  tsr__error *error;
} rewrite;

/* ---- adding nodes ---- */

/* Adds a node on account of traced node `n`, which is its origin unless the caller changes that.
 * This function reports a failure: callers that get -1 return r->error->status. */
static int add_result_node(rewrite *r, const tsr__gnode *node, tsr__links in, int n)
{
  int index = tsr__program_add(&r->out->program, node, in, tsr__site_at(r->in, n));
  if (index < 0) {
    tsr__plan_no_memory(r->error);
    return -1;
  }
  r->out->origin[index] = n;
  r->first_move[index] = r->next_move[index] = r->scaled_by[index] = -1;
  return index;
}

typedef struct place_text {
  char text[200];
} place_text;

/* "f64[8]@(x) on mesh (x=4)" */
static place_text placed_type_text(const tsr__gnode *node, const tsr_sharding *at)
{
  place_text out;
  char type[140];
  tsr_type_text((tsr_dtype)node->dtype, tsr__gnode_shape(node), at, type, sizeof type);
  if (at->mesh)
    snprintf(out.text, sizeof out.text, "%s on mesh (%s)", type, tsr_mesh_text(at->mesh));
  else snprintf(out.text, sizeof out.text, "%s, unplaced", type);
  return out;
}

/* Weighing gives a move between different sets of devices a prohibitive cost (weigh.c, MUCH). Such
 * a move comes here only if the node had no other way, and only here is the asking node known: so
 * the rewriting reports the error, with both places and the user's site. */
static tsr_status check_move(rewrite *r, int user, const tsr__gnode *operand,
                             const tsr_sharding *from, const tsr_sharding *to)
{
  const char *name = tsr__ops[r->in->nodes[user].op].name, *site = tsr__site_at(r->in, user);
  if (from->mesh && to->mesh && !tsr__same_devices(from->mesh, to->mesh))
    return tsr__error_set(r->error, TSR_EAXIS,
                          "tsr_%s: %s is needed as %s, but the meshes have different devices; "
                          "place both arrays on the same devices%s%s",
                          name, placed_type_text(operand, from).text,
                          placed_type_text(operand, to).text, site ? "\n    used at " : "",
                          site ? site : "");
  return TSR_OK;
}

/* Only the run knows the borders of ragged rows, but a RESHARD copies by borders that the plan
 * knows. A rebalance is a node of its own (EVEN), which never comes here as a move. */
static tsr_status check_move_rows(rewrite *r, int user, int operand, const tsr_sharding *from,
                                  const tsr_sharding *to)
{
  const tsr__gnode *node = &r->in->nodes[operand];
  if (!r->flow->ragged[operand]) return TSR_OK;
  return tsr__error_set(
      r->error, TSR_EUNSUPPORTED,
      "tsr_%s: %s has uneven rows after a filter and is needed as %s; rebalance the array first",
      tsr__ops[r->in->nodes[user].op].name, placed_type_text(node, from).text,
      placed_type_text(node, to).text);
}

/* The reshard or constraint on whose account operands of `user` move: `user` itself, or a later
 * node that its way was made for; -1: no such node. */
static int asker_of(const rewrite *r, int user)
{
  if (tsr__is_placing(r->in->nodes[user].op)) return user;
  return r->flow->ways[user]->asker;
}

/* Whether a dim of an operand becomes whole because its user cannot work on a shard of it. */
static bool needs_whole(const rewrite *r, int user, int i, const tsr_sharding *from,
                        const tsr_sharding *to)
{
  const tsr__gnode *node = &r->in->nodes[user];
  bool table = tsr__ops[node->op].looks_up && i == 0;
  tsr__factors factors;
  int8_t map[TSR_MAX_RANK];
  tsr__factors_of(r->in, user, &factors);
  tsr__factors_in(&factors, i, map);
  for (int d = 0; d < r->in->nodes[tsr__in(r->in, node, i)].rank; d++) {
    bool whole = tsr__dim_axes(from, d) && !tsr__dim_axes(to, d) && map[d] >= 0;
    if (whole && (table || factors.kind[map[d]] == TSR__FACTOR_REPLICATE)) return true;
  }
  return false;
}

/* The tests run from the narrowest reason to the widest, and the first that holds is explained: a
 * routine that needs a dim whole would move it whoever asked; a placement would move it on one mesh
 * as well. Across meshes whole dims are no reason, since axes of two meshes are not compared. */
static int cause_of(const rewrite *r, int user, int i, const tsr_sharding *from,
                    const tsr_sharding *to)
{
  bool moves = from->mesh && from->mesh == to->mesh;
  if (moves && needs_whole(r, user, i, from, to)) return TSR__CAUSE_WHOLE;
  if (asker_of(r, user) >= 0) return TSR__CAUSE_PLACED;
  if (!from->mesh) return TSR__CAUSE_UNPLACED;
  return from->mesh != to->mesh ? TSR__CAUSE_MESH : TSR__CAUSE_OPERAND;
}

/* Lists a move, or a node that stands for one, so that later users at the same place reuse it. */
static int keep_move(rewrite *r, int at, int index)
{
  if (index < 0) return index;
  r->next_move[index] = r->first_move[at];
  return r->first_move[at] = index;
}

/* A source of numbers alone is made again instead of being moved. The first node stays the root:
 * the copy is no result of the program. The copy stands in the list of moves all the same, so that
 * a second user there takes it. The copy's origin is the traced source, as no collective was
 * inserted that an explanation would have to name. */
static int made_there(rewrite *r, int n, int sharding)
{
  tsr__gnode node = r->in->nodes[n];
  int number = tsr__in(r->in, &node, 0), at = r->out->home[n];
  node.sharding = (uint16_t)sharding;
  node.flags &= (uint8_t)~TSR__ROOT;
  if (number >= 0) number = r->out->home[number];
  int index = add_result_node(r, &node, (tsr__links){ &number, node.in_count }, n);
  return keep_move(r, at, index);
}

/* Why a move is made, and on whose account: a traced node. */
typedef struct move_cause {
  int user, cause;
} move_cause;

/* Adds a RESHARD of a node of the result, with the reason that its user gives. The RESHARD does not
 * take over flags: the moved node stays the root or the unreduced sum. */
static int add_reshard_node(rewrite *r, int at, int sharding, move_cause why)
{
  const tsr__gnode *node = &r->out->program.nodes[at];
  tsr__gnode move = { .op = TSR__OP_RESHARD,
                      .dtype = node->dtype,
                      .rank = node->rank,
                      .flags = TSR__PLACED,
                      .sharding = (uint16_t)sharding,
                      .cause = (uint8_t)why.cause,
                      .attr_bytes = sizeof(tsr__place_attr),
                      .param = -1 };
  tsr__place_attr attr = { .why = TSR__WHY_ASKED };
  if (why.cause == TSR__CAUSE_PLACED) attr.why = tsr__why_of(r->in, &r->in->nodes[why.user]);
  memcpy(move.dims, node->dims, sizeof move.dims);
  move.attr = tsr__program_attr(&r->out->program, &attr, sizeof attr);
  int index = add_result_node(r, &move, TSR__LINKS(at), why.user);
  if (index >= 0) r->out->origin[index] = -1;
  return index;
}

/* Adds the moves of a node of the result to a place: two where a move over slow axes stops on its
 * way. Moves to the stop are reused as moves to the place are.
 *
 *   data=2@25e9,model=4@900e9      %1 @(data)
 *                                  %2 = reshard(%1) @(model)    the stop
 *                                  %3 = reshard(%2) @(-)        the place
 *
 * Weighing counted the same steps, as both ask tsr__flow_stop. Sizes of the run have no stop. */
static int add_moves(rewrite *r, int at, int sharding, move_cause why)
{
  tsr__program *program = &r->out->program;
  tsr__gnode node = program->nodes[at];
  tsr_sharding from = program->shardings[node.sharding], to = program->shardings[sharding], stop;
  tsr_shape shape = tsr__gnode_shape(&node);
  tsr__reshard move = { &from, &to, &shape, NULL, 0 };
  bool known = true;
  for (int d = 0; d < shape.rank; d++) known &= shape.dims[d] >= 0;
  if (!known || !tsr__flow_stop(r->flow, &move, (tsr_dtype)node.dtype, &stop))
    return add_reshard_node(r, at, sharding, why);
  int there = tsr__program_sharding(program, &stop), m = r->first_move[at];
  while (m >= 0 && program->nodes[m].sharding != there) m = r->next_move[m];
  if (m < 0) m = keep_move(r, at, add_reshard_node(r, at, there, why));
  return m < 0 ? m : add_reshard_node(r, m, sharding, why);
}

/* ---- unreduced sums ---- */

/* The accumulators of an unreduced sum stay where they are, and views show them. Scaling is put
 * off: the value is rounded first, then scaled, as if the sum had not been left unreduced.
 *
 *   %1 = sum(%0)  @(-;sum(x))      %1  kept
 *   %2 = %1 * 2   @(-;sum(x))          (waits: %1, scaled by %2)
 *   %3 = %2[1:5]  @(-;sum(x))      %2 = %1[1:5]  kept
 *   %4 = %3 + 1   @(-)             %3 = sum(%2)  over no dims: it meets
 *                                  %4 = %3 * 2   %5 = %4 + 1 */

static const tsr_sharding *unreduced_place(const rewrite *r, int at)
{
  return &r->out->program.shardings[r->out->program.nodes[at].sharding];
}

/* The one unreduced operand of a traced node that can leave it so, or -1. The other operands of a
 * scaling node are numbers. A broadcast is a view that shows one element many times, so its sums
 * would be added up as often. */
static int unreduced_operand_of(const rewrite *r, int n)
{
  const tsr__gnode *node = &r->in->nodes[n];
  const tsr__opinfo *row = &tsr__ops[node->op];
  bool view = tsr__is_view(node->op) && !row->repeats;
  int keeper = -1, others = 0;
  if (!view && !row->scales) return -1;
  TSR_FOR_OPERANDS (r->in, node, i, o) {
    int at = r->out->home[o];
    if (r->out->program.nodes[at].flags & TSR__KEPT) keeper = i;
    else others += r->in->nodes[o].op != TSR__OP_CONST;
  }
  return others ? -1 : keeper;
}

/* The operand whose accumulators a node shows or scales, each once and all where they are; -1: no
 * such operand. */
static int passes_kept(const rewrite *r, int n)
{
  const tsr__gnode *node = &r->in->nodes[n];
  int keeper = unreduced_operand_of(r, n);
  if (keeper < 0 || !tsr__may_stay(node)) return -1;
  int operand = tsr__in(r->in, node, keeper);
  const tsr_sharding *from = unreduced_place(r, r->out->home[operand]),
                     *at = tsr__flow_at(r->flow, n);
  /* Accumulators lie beside their device and are viewed there alone: a view that exchanges elements
   * needs the value. A value is also needed beyond TSR__MOST_SCALES scalings. */
  bool moves = tsr__view_moves(&(tsr__viewed){ r->in, node, at, &from });
  bool good = at->unreduced == from->unreduced && !moves &&
              !memcmp(from, tsr__flow_need(r->flow, n, keeper), sizeof *from);
  int scales = tsr__ops[node->op].scales;
  for (int s = r->scaled[operand]; s >= 0 && scales <= TSR__MOST_SCALES; s = r->scaled_before[s])
    scales++;
  return good && scales <= TSR__MOST_SCALES ? keeper : -1;
}

/* Marks a node that leaves its sum unreduced; its operand (`keeper`) or its row names the
 * accumulator. `cause` of an unreduced node is the row of its accumulator, from which later readers
 * know the form of the data; `cause` of a move is its reason. No node is both. */
static void mark_unreduced(rewrite *r, tsr__gnode *node, int n, int keeper)
{
  tsr__accum accums[2];
  if (keeper >= 0) {
    node->cause = r->out->program.nodes[r->links[keeper]].cause;
    r->scaled[n] = r->scaled[tsr__in(r->in, node, keeper)];
  } else if (tsr__keeps_sum(r->in, node, tsr__flow_at(r->flow, n), node->reduce_axes) &&
             tsr__accums_of(r->in, n, accums)) {
    node->cause = accums[0].row;
  } else {
    return;
  }
  node->reduce_axes = 0;
  node->flags &= (uint8_t) ~(TSR__ROOT | TSR__KEEP); /* keep_root sets them */
  node->flags |= TSR__KEPT;
}

/* A scaling of an unreduced node waits until its accumulators meet. */
static tsr_status put_off(rewrite *r, int n, int keeper)
{
  int operand = tsr__in(r->in, &r->in->nodes[n], keeper);
  r->out->home[n] = r->out->home[operand];
  r->scaled_before[n] = r->scaled[operand];
  r->scaled[n] = n;
  return TSR_OK;
}

/* Adds a sum over no dims: the accumulators of a node meet so that its value lies at a place. */
static int add_meeting(rewrite *r, int at, int sharding, int n)
{
  tsr__program *program = &r->out->program;
  const tsr__reduce_attr attr = { .dims = 0 };
  const tsr__gnode *kept = &program->nodes[at];
  tsr__gnode sum = { .op = TSR__OP_SUM,
                     .dtype = kept->dtype,
                     .rank = kept->rank,
                     .reduce_axes = unreduced_place(r, at)->unreduced,
                     .sharding = (uint16_t)sharding,
                     .attr_bytes = sizeof attr,
                     .param = -1 };
  memcpy(sum.dims, kept->dims, sizeof sum.dims);
  sum.attr = tsr__program_attr(program, &attr, sizeof attr);
  return add_result_node(r, &sum, TSR__LINKS(at), n);
}

/* Adds traced node `scale` again, applied to node `of` of the result instead of its operand. Both
 * operands are `of` at first and constants are put back where they stood, so a node that scales
 * from the left still does. Rank and dims are those of `of`: views between the sum and this node
 * may come before the scaling as well as after. */
static int add_scale(rewrite *r, int scale, int of, int n)
{
  tsr__gnode node = r->in->nodes[scale], like = r->out->program.nodes[of];
  int32_t links[2] = { of, of };
  TSR_FOR_OPERANDS (r->in, &node, i, o)
    if (r->in->nodes[o].op == TSR__OP_CONST) links[i] = r->out->home[o];
  node.flags = like.flags & TSR__KEPT;
  node.cause = node.flags ? like.cause : 0;
  node.rank = like.rank;
  node.sharding = like.sharding;
  memcpy(node.dims, like.dims, sizeof node.dims);
  int index = add_result_node(r, &node, (tsr__links){ links, node.in_count }, n);
  if (index >= 0) r->out->origin[index] = -1;
  return index;
}

/* The value of an unreduced node at a place, scaled by `scale` and the scalings before it. The
 * recursion adds one node for each scaling, TSR__MOST_SCALES at most, and lists each: another user
 * that needs fewer scalings finds its value there. A value is identified by its place and its last
 * scaling; the earlier scalings follow from the last. */
static int add_reduced_value(rewrite *r, int at, int scale, int sharding, int n)
{
  for (int m = r->first_move[at]; m >= 0; m = r->next_move[m])
    if (r->out->program.nodes[m].sharding == sharding && r->scaled_by[m] == scale) return m;
  int before = scale < 0 ? -1 : add_reduced_value(r, at, r->scaled_before[scale], sharding, n);
  if (scale >= 0 && before < 0) return -1;
  int index = scale < 0 ? add_meeting(r, at, sharding, n) : add_scale(r, scale, before, n);
  if (index < 0) return -1;
  r->out->origin[index] = -1;
  r->scaled_by[index] = scale;
  return keep_move(r, at, index);
}

/* Whether a traced node is a placed sum over no dims of an unreduced operand. */
static bool is_meeting(const tsr__program *program, int n)
{
  const tsr__gnode *node = &program->nodes[n];
  if (tsr__ops[node->op].acc != TSR__ACC_SUM || !(node->flags & TSR__PLACED)) return false;
  const tsr__gnode *x = &program->nodes[tsr__in(program, node, 0)];
  return x->flags & TSR__KEPT && x->dtype == node->dtype && !tsr__reduce_of(program, node)->dims;
}

/* The elements of an unreduced traced node: at the needed place if accumulators can meet there,
 * else at the sum's place, on the first devices. Any other place would need a meeting and a move in
 * one; so the sum is made where its accumulators are, and the caller moves it like any node. */
static int met(rewrite *r, int operand, const tsr_sharding *to, int n)
{
  int at = r->out->home[operand];
  tsr_sharding from = *unreduced_place(r, at), whole = tsr__partial_place(&from, from.unreduced);
  const tsr_sharding *there = tsr__meets_at(&whole, from.unreduced, to) ? to : &from;
  return add_reduced_value(r, at, r->scaled[operand],
                           tsr__program_sharding(&r->out->program, there), n);
}

/* Settles an unreduced root: its scalings are added for it alone, or its accumulators meet after
 * all. Roots come after all nodes, because home[n] has to be the sum before scaling as long as
 * other nodes read it. `chain` is filled from the last scaling to the first and applied
 * backwards. */
static tsr_status keep_root(rewrite *r, int n)
{
  const tsr__gnode *node = &r->in->nodes[n];
  int at = r->out->home[n], chain[TSR__MOST_SCALES], count = 0;
  for (int s = r->scaled[n]; s >= 0; s = r->scaled_before[s]) chain[count++] = s;
  if (!tsr__may_stay(node)) at = met(r, n, unreduced_place(r, at), n);
  else
    while (count > 0 && at >= 0) at = add_scale(r, chain[--count], at, n);
  if (at < 0) return r->error->status;
  r->out->program.nodes[at].flags |= node->flags & (TSR__ROOT | TSR__KEEP);
  r->out->home[n] = at;
  if (r->out->origin[at] < 0) r->out->origin[at] = n;
  return TSR_OK;
}

/* Whether an unreduced node lies as a user asks, and the user may stay unreduced as well. */
static bool stays_unreduced(const rewrite *r, int at, const tsr_sharding *to,
                            const tsr__gnode *user)
{
  return r->out->program.nodes[at].flags & TSR__KEPT && tsr__may_stay(user) &&
         !memcmp(unreduced_place(r, at), to, sizeof *to);
}

/* The node of the result that holds operand `i` of a traced node in the sharding that this user
 * needs. */
static int operand_in_place(rewrite *r, int user, int i, const tsr_sharding *to)
{
  tsr__program *program = &r->out->program;
  int operand = tsr__in(r->in, &r->in->nodes[user], i), at = r->out->home[operand];
  if (program->nodes[at].flags & TSR__KEPT) at = met(r, operand, to, user);
  if (at < 0) return at;
  tsr__gnode node = program->nodes[at];
  tsr_sharding from = program->shardings[node.sharding];
  tsr_shape shape = tsr__gnode_shape(&node);
  /* Two places may differ in words and not in fact, by axes of size 1 or an empty dim: no move. */
  if (node.op == TSR__OP_CONST || node.result_count)
    return at; /* several results stay at their places */
  if (tsr__same_places(&from, to, &shape)) return at;
  if (check_move(r, user, &node, &from, to) || check_move_rows(r, user, operand, &from, to))
    return -1;
  int sharding = tsr__program_sharding(program, to);
  for (int m = r->first_move[at]; m >= 0; m = r->next_move[m])
    if (program->nodes[m].sharding == sharding) return m;
  if (tsr__made_anywhere(r->in, operand) && !to->unreduced) return made_there(r, operand, sharding);
  int cause = cause_of(r, user, i, &from, to);
  int asker = asker_of(r, user);
  if (asker < 0 || cause == TSR__CAUSE_WHOLE) asker = user;
  return keep_move(r, at, add_moves(r, at, sharding, (move_cause){ asker, cause }));
}

/* ---- nodes ---- */

/* A number with a placement is made at that place. */
static int place_const(rewrite *r, int n)
{
  tsr__gnode full = r->in->nodes[n];
  full.op = TSR__OP_FULL;
  full.attr = 0, full.attr_bytes = 0; /* the reason belongs to the placement */
  int number = r->out->home[tsr__in(r->in, &full, 0)];
  full.sharding = (uint16_t)tsr__program_sharding(&r->out->program, tsr__flow_at(r->flow, n));
  return add_result_node(r, &full, TSR__LINKS(number), n);
}

/* Rewrites a placement: a move, or no node if the operand lies there already. In that case home[n]
 * becomes the operand, which takes over the flags of a root, and the origin is set only if no
 * earlier node has it, so that explanations name the first node that a user wrote. */
static tsr_status rewrite_placement(rewrite *r, int n)
{
  const tsr__gnode *node = &r->in->nodes[n];
  int in = r->out->home[tsr__in(r->in, node, 0)];
  bool number = r->out->program.nodes[in].op == TSR__OP_CONST;
  const tsr_sharding *to = tsr__flow_at(r->flow, n);
  if (stays_unreduced(r, in, to, node)) {
    r->out->home[n] = in;
    r->scaled[n] = r->scaled[tsr__in(r->in, node, 0)];
    return TSR_OK;
  }
  int at = number ? place_const(r, n) : operand_in_place(r, n, 0, to);
  if (at < 0) return r->error->status;
  r->out->home[n] = at;
  r->out->program.nodes[at].flags |= node->flags & (TSR__ROOT | TSR__KEEP);
  if (r->out->origin[at] < 0) r->out->origin[at] = n;
  return TSR_OK;
}

/* Several results lie alike, except those of loops, which their regions placed. The result list is
 * shared with the traced program by index (tsr__program_share), so this function writes it in
 * place, one entry a result. */
static void set_result_places(rewrite *r, tsr__gnode *node, int sharding)
{
  for (int i = 0; i < node->result_count && tsr__ops[node->op].loops; i++) {
    const tsr__result *said = &r->in->results[node->first_result + i];
    r->out->program.results[node->first_result + i].sharding =
        (uint16_t)tsr__program_sharding(&r->out->program, &r->in->shardings[said->sharding]);
  }
  if (tsr__ops[node->op].loops) return;
  if (!node->result_count) node->sharding = (uint16_t)sharding;
  for (int i = 0; i < node->result_count; i++)
    r->out->program.results[node->first_result + i].sharding = (uint16_t)sharding;
}

/* ---- products whose parts meet ---- */

/* A node at the place where it is needed: itself, or a move. */
static int met_at(rewrite *r, int at, const tsr_sharding *to, int n)
{
  tsr__program *program = &r->out->program;
  tsr_shape shape = tsr__gnode_shape(&program->nodes[at]);
  tsr_sharding from = program->shardings[program->nodes[at].sharding];
  if (tsr__same_places(&from, to, &shape)) return at;
  int sharding = tsr__program_sharding(program, to);
  return add_moves(r, at, sharding, (move_cause){ n, TSR__CAUSE_PARTS });
}

/* Adds the parts of a product that devices make: the result has one dim more. Indices of an einsum
 * are small numbers: the new dim takes the first one that neither operand has.
 *
 *   ik,kj->ij   over 4 devices     ik,kj->pij, p = 4 parts */
static int add_product_parts(rewrite *r, const tsr__split *split, const tsr__dot_attr *of,
                             tsr__links in, int n)
{
  tsr__gnode part = split->part;
  tsr__dot_attr attr = *of;
  uint8_t last = 0;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    if (attr.left[d] > last) last = attr.left[d];
    if (attr.right[d] > last) last = attr.right[d];
  }
  for (int d = part.rank - 1; d > 0; d--) attr.out[d] = attr.out[d - 1];
  attr.out[0] = (uint8_t)(last + 1);
  attr.parts = part.dims[0];
  part.attr = tsr__program_attr(&r->out->program, &attr, sizeof attr);
  part.flags &= (uint8_t)~TSR__ROOT;
  part.sharding = (uint16_t)tsr__program_sharding(&r->out->program, &split->made);
  return add_result_node(r, &part, in, n);
}

/* Adds parts up along dim 0 in their order, as a tree whose shape depends on the number of parts
 * alone. A sum would be as good for integers; floats of a product keep their order. */
static int add_fold(rewrite *r, int parts, const tsr_sharding *to, int n)
{
  tsr__gnode fold = r->in->nodes[n];
  tsr__reduce_attr attr = { .dims = 1 };
  fold.op = TSR__OP_FOLD;
  fold.attr = tsr__program_attr(&r->out->program, &attr, sizeof attr);
  fold.attr_bytes = sizeof attr;
  fold.flags &= (uint8_t)~TSR__ROOT;
  fold.sharding = (uint16_t)tsr__program_sharding(&r->out->program, to);
  return add_result_node(r, &fold, TSR__LINKS(parts), n);
}

/* Adds a node that takes another in blocks with borders of their own. */
static int add_blocks_node(rewrite *r, int at, const tsr__blocks_attr *blocks, move_cause why)
{
  tsr__gnode node = r->out->program.nodes[at];
  tsr__gnode made = { .op = TSR__OP_BLOCKS,
                      .dtype = node.dtype,
                      .rank = node.rank,
                      .sharding = node.sharding,
                      .cause = (uint8_t)why.cause,
                      .attr_bytes = sizeof *blocks,
                      .param = -1 };
  made.attr = tsr__program_attr(&r->out->program, blocks, sizeof *blocks);
  for (int d = 0; d < node.rank; d++)
    made.dims[d] = blocks->parts[d] ? blocks->parts[d] * tsr__block_size(blocks, d) : node.dims[d];
  return add_result_node(r, &made, TSR__LINKS(at), why.user);
}

/* Operand `i` of a product with the borders of its leaves: whole nodes of their tree. */
static int at_leaves(rewrite *r, int at, int i, int n)
{
  const tsr__dot_attr *attr = tsr__dot_of(r->in, &r->in->nodes[n]);
  const tsr__gnode *node = &r->out->program.nodes[at];
  tsr__blocks_attr blocks;
  memset(&blocks, 0, sizeof blocks);
  if (!tsr__leaf_blocks(node, i ? attr->right : attr->left, attr->leaf,
                        &r->out->program.shardings[node->sharding], &blocks))
    return at;
  return add_blocks_node(r, at, &blocks, (move_cause){ n, TSR__CAUSE_LEAVES });
}

/* Operand 0 of a product in blocks with all elements that its windows read; the numbers of windows
 * go to the attribute. */
static int at_windows(rewrite *r, int at, tsr__dot_attr *attr, int n)
{
  const tsr__gnode *node = &r->in->nodes[n];
  tsr_sharding place = *tsr__flow_at(r->flow, n);
  tsr__blocks_attr blocks;
  if (!place.mesh ||
      !tsr__window_blocks(&(tsr__meeting){ r->in, node, &place, r->flow->ways[n]->meet }, &blocks))
    return at;
  for (int d = 0; d < TSR_MAX_RANK; d++)
    for (int k = 0; k < node->rank && blocks.parts[d]; k++)
      if (attr->out[k] == attr->left[d]) attr->places[d] = node->dims[k];
  return add_blocks_node(r, at, &blocks, (move_cause){ n, TSR__CAUSE_WINDOWS });
}

/* A product whose partial sums meet: see split.c. */
static int add_split_product(rewrite *r, const tsr__dot_attr *attr, tsr__links in, int n)
{
  const tsr__gnode *node = &r->in->nodes[n];
  tsr__split s;
  tsr_sharding at = *tsr__flow_at(r->flow, n);
  tsr__meeting meeting = { r->in, node, &at, r->flow->ways[n]->meet };
  tsr__split_of(&meeting, tsr__flow_need(r->flow, n, 1), &s);
  int left = at_leaves(r, in.at[0], 0, n), right = left < 0 ? -1 : at_leaves(r, in.at[1], 1, n);
  int index = right < 0 ? -1 : add_product_parts(r, &s, attr, TSR__LINKS(left, right), n);
  if (index >= 0) index = met_at(r, index, &s.met, n);
  if (index >= 0) index = add_fold(r, index, &s.sum, n);
  return index < 0 ? -1 : met_at(r, index, &at, n);
}

static tsr_status copy_product(rewrite *r, int n, tsr__links in)
{
  tsr__gnode node = r->in->nodes[n];
  tsr__dot_attr attr = *tsr__dot_of(r->in, &node);
  int left = at_windows(r, in.at[0], &attr, n), index;
  if (left < 0) return r->error->status;
  if (r->flow->ways[n]->meet) {
    index = add_split_product(r, &attr, TSR__LINKS(left, in.at[1]), n);
  } else {
    node.attr = tsr__program_attr(&r->out->program, &attr, sizeof attr);
    node.sharding = (uint16_t)tsr__program_sharding(&r->out->program, tsr__flow_at(r->flow, n));
    index = add_result_node(r, &node, TSR__LINKS(left, in.at[1]), n);
  }
  if (index < 0) return r->error->status;
  r->out->program.nodes[index].flags |= node.flags & TSR__ROOT;
  if (r->out->origin[index] < 0) r->out->origin[index] = n;
  r->out->home[n] = index;
  return TSR_OK;
}

/* The place of a loop's operand: that of the constraint before it, or unplaced. */
static const tsr_sharding *loop_place(const rewrite *r, int n, int i)
{
  const tsr__gnode *operand = &r->in->nodes[tsr__in(r->in, &r->in->nodes[n], i)];
  bool placed = operand->op == TSR__OP_CONSTRAIN;
  return &r->in->shardings[placed ? operand->sharding : 0];
}

/* Copies a node with its operands at their places. The regions, listed after the operands, are
 * copied unchanged: they are indices into lists that both programs share. A missing operand stays
 * -1. */
static tsr_status rewrite_node(rewrite *r, int n)
{
  tsr__gnode node = r->in->nodes[n];
  bool loop = tsr__ops[node.op].loops;
  int keeper = passes_kept(r, n);
  if (keeper >= 0 && tsr__ops[node.op].scales) return put_off(r, n, keeper);
  int links = node.in_count + node.region_count;
  for (int i = 0; i < links; i++)
    r->links[i] = i < node.in_count ? -1 : r->in->operands[node.first_in + i];
  for (int i = 0; i < node.in_count; i++) {
    if (tsr__in(r->in, &node, i) < 0) continue;
    const tsr_sharding *need = loop ? loop_place(r, n, i) : tsr__flow_need(r->flow, n, i);
    r->links[i] =
        i == keeper ? r->out->home[tsr__in(r->in, &node, i)] : operand_in_place(r, n, i, need);
    if (r->links[i] < 0) return r->error->status;
  }
  if (tsr__ops[node.op].contracts) return copy_product(r, n, (tsr__links){ r->links, links });
  node.reduce_axes = r->flow->ways[n]->meet;
  mark_unreduced(r, &node, n, keeper);
  set_result_places(r, &node, tsr__program_sharding(&r->out->program, tsr__flow_at(r->flow, n)));
  int index = add_result_node(r, &node, (tsr__links){ r->links, links }, n);
  if (index < 0) return r->error->status;
  r->out->home[n] = index;
  return TSR_OK;
}

static tsr_status rewrite_all(rewrite *r)
{
  for (int n = 0; n < r->in->node_count; n++) {
    r->out->home[n] = -1;
    if (tsr__is_unread(r->flow, n)) continue;
    bool placing = tsr__is_placing(r->in->nodes[n].op) || is_meeting(r->in, n);
    tsr_status status = placing ? rewrite_placement(r, n) : rewrite_node(r, n);
    if (status) return status;
  }
  for (int n = 0; n < r->in->node_count; n++) {
    int at = r->out->home[n];
    bool kept = at >= 0 && r->out->program.nodes[at].flags & TSR__KEPT;
    if (kept && r->in->nodes[n].flags & TSR__ROOT && keep_root(r, n)) return r->error->status;
  }
  return r->out->program.failed ? tsr__plan_no_memory(r->error) : TSR_OK;
}

/* ---- the whole ---- */

/* The most nodes of a result. Each operand adds at most two reshards, after a meeting that may be
 * scaled, and each product, which has two operands, eight nodes. A root may be scaled once more. */
static size_t most_nodes(const tsr__program *program)
{
  return (size_t)program->node_count * (2 + TSR__MOST_SCALES) +
         (size_t)program->operand_count * (7 + TSR__MOST_SCALES) + 1;
}

/* Explanations show the numbers of the traced program, where constants have no number. */
static tsr_status number_result_nodes(const tsr__program *program, tsr__arena *arena,
                                      tsr__partitioned *out, tsr__error *error)
{
  int32_t *traced = tsr__arena_new(arena, ((size_t)program->node_count + 1) * sizeof *traced);
  size_t bytes = ((size_t)out->program.node_count + 1) * sizeof *out->number;
  if (!out->number) out->number = tsr__new(out->program.heap, bytes);
  if (!traced || !out->number) return tsr__plan_no_memory(error);
  for (int n = 0, next = 0; n < program->node_count; n++) {
    traced[n] = next;
    next += program->nodes[n].op != TSR__OP_CONST;
  }
  for (int n = 0; n < out->program.node_count; n++)
    out->number[n] = out->origin[n] < 0 ? -1 : traced[out->origin[n]];
  return TSR_OK;
}

/* The number of operands that do not lie where they are needed. Some moves serve several users,
 * which leaves entries for nodes that products and loops add; the lists can still grow. */
static int count_moved_operands(const tsr__program *program, const tsr__flow *flow)
{
  int count = 0;
  for (int n = 0; n < program->node_count; n++)
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o)
      count += flow->ways[n]->need[i] != flow->ways[o]->at;
  return count;
}

/* The number of nodes is not known beforehand: `origin` is filled in the arena and copied to its
 * exact length, by which tsr__partitioned_free frees it. On a failure the caller frees `out`, so
 * lists that are not there yet are NULL. */
static tsr_status build(const tsr__program *program, const tsr__flow *flow, tsr__arena *arena,
                        tsr__partitioned *out, tsr__error *error)
{
  size_t most = most_nodes(program);
  rewrite r = { .in = program, .flow = flow, .out = out, .error = error };
  /* The lists hold the most nodes possible; few of their pages are touched. */
  int32_t *origin = tsr__arena_raw(arena, most * sizeof *origin);
  r.first_move = tsr__arena_raw(arena, most * sizeof *r.first_move);
  r.next_move = tsr__arena_raw(arena, most * sizeof *r.next_move);
  r.scaled_by = tsr__arena_raw(arena, most * sizeof *r.scaled_by);
  r.scaled = tsr__arena_raw(arena, 2 * ((size_t)program->node_count + 1) * sizeof *r.scaled);
  r.links = tsr__arena_new(arena, ((size_t)program->operand_count + 1) * sizeof *r.links);
  tsr__heap *heap = out->program.heap;
  out->home_count = program->node_count;
  out->home = tsr__new(heap, ((size_t)program->node_count + 1) * sizeof *out->home);
  int moves = count_moved_operands(program, flow);
  bool room = tsr__program_reserve(&out->program, program->node_count + moves + 4,
                                   program->operand_count + moves + 4);
  if (!room || !origin || !r.first_move || !r.next_move || !r.links || !r.scaled_by || !r.scaled ||
      !out->home)
    return tsr__plan_no_memory(error);
  r.scaled_before = r.scaled + program->node_count;
  memset(r.scaled, -1, (size_t)program->node_count * sizeof *r.scaled);
  out->origin = origin;
  tsr_status status = rewrite_all(&r);
  size_t bytes = ((size_t)out->program.node_count + 1) * sizeof *origin;
  out->origin = status ? NULL : tsr__new(heap, bytes);
  if (status) return status;
  if (!out->origin) return tsr__plan_no_memory(error);
  memcpy(out->origin, origin, bytes - sizeof *origin);
  return number_result_nodes(program, arena, out, error);
}

/* Ties the result to the program that the flat one replaced, as if that program had been
 * planned. */
static tsr_status tie_to_traced(const tsr__flat *flat, tsr__arena *arena, tsr__partitioned *out,
                                tsr__error *error)
{
  const tsr__program *program = flat->of;
  const int32_t *place = flat->place;
  size_t bytes = ((size_t)program->node_count + 1) * sizeof *place;
  int32_t *from = tsr__arena_new(arena, ((size_t)flat->program.node_count + 1) * sizeof *from);
  int32_t *home = tsr__new(out->program.heap, bytes);
  if (!from || !home) {
    tsr__del(out->program.heap, home, bytes);
    return tsr__plan_no_memory(error);
  }
  memset(from, -1, (size_t)flat->program.node_count * sizeof *from);
  /* The loop runs downwards, so that the first of several nodes in one place becomes its origin. */
  for (int n = program->node_count - 1; n >= 0; n--) {
    home[n] = place[n] < 0 ? -1 : out->home[place[n]];
    if (place[n] >= 0) from[place[n]] = n;
  }
  for (int n = 0; n < out->program.node_count; n++)
    if (out->origin[n] >= 0) out->origin[n] = from[out->origin[n]];
  tsr__del(out->program.heap, out->home, ((size_t)out->home_count + 1) * sizeof *out->home);
  out->home = home;
  out->home_count = program->node_count;
  return number_result_nodes(program, arena, out, error);
}

static tsr_status partition_flat(const tsr__program *program, tsr__arena *arena,
                                 tsr__sharing *sharing, tsr__partitioned *out, tsr__error *error)
{
  tsr__flow flow;
  if (!tsr__program_share(&out->program, program)) return tsr__plan_no_memory(error);
  tsr_status status =
      tsr__flow_run(program, (tsr__flow_opts){ .sharing = sharing }, arena, &flow, error);
  if (!status) status = build(flow.program, &flow, arena, out, error);
  if (!status && !tsr__moves_again(out, arena)) status = tsr__plan_no_memory(error);
  return status ? status : tsr__notes_make(arena, out, error);
}

/* Regions get the numbers of their nodes in the result; those of nodes that it lacks go. */
static void keep_inner_of_nodes(const tsr__flat *flat, tsr__partitioned *out)
{
  int count = 0;
  for (int i = 0; i < out->inner_count; i++) {
    tsr__inner *inner = &out->inner[i];
    inner->node = out->home[flat->place[inner->node]];
    if (inner->node < 0) tsr__inner_free(inner, out->program.heap);
    else out->inner[count++] = *inner;
  }
  out->inner_count = count;
}

/* Plans a program with loops, whose regions get plans of their own. The loops of these plans have
 * the numbers of the given program, which `place` and `home` map to the result; then the flat
 * program is freed: the result shares no list with it. */
static tsr_status partition_looped(const tsr__program *program, tsr__arena *arena,
                                   tsr__sharing *sharing, tsr__partitioned *out, tsr__error *error)
{
  tsr__flat flat = { .of = program };
  tsr_status status = tsr__loops_open(&flat, arena, sharing, out, error);
  if (!status) status = partition_flat(&flat.program, arena, sharing, out, error);
  if (!status) keep_inner_of_nodes(&flat, out);
  if (!status) status = tie_to_traced(&flat, arena, out, error);
  tsr__program_free(&flat.program);
  return status;
}

static tsr_status partition_so(const tsr__program *program, tsr__arena *scratch,
                               tsr__sharing *sharing, tsr__partitioned *out, tsr__error *error);

/* Plans a program whose calls are replaced by the nodes of their functions. The inlined program
 * goes to partition_so again, with loops at most: each form is planned by the next simpler one.
 * `out` holds an empty program until then. */
static tsr_status partition_inlined(const tsr__program *program, tsr__arena *arena,
                                    tsr__sharing *sharing, tsr__partitioned *out, tsr__error *error)
{
  tsr__flat flat = { .of = program };
  bool good = tsr__program_inline(program, false, arena, &flat.program, &flat.place) &&
              tsr__program_drop_others(&flat.program, arena, flat.place, program->node_count);
  tsr_status status =
      good ? partition_so(&flat.program, arena, sharing, out, error) : tsr__plan_no_memory(error);
  if (!status) status = tie_to_traced(&flat, arena, out, error);
  tsr__program_free(&flat.program);
  return status;
}

/* Whether other nodes take the place of some. */
static bool has_call_nodes(const tsr__program *program)
{
  for (int n = 0; n < program->node_count; n++)
    if (tsr__is_call(program->nodes[n].op) || tsr__is_label(program->nodes[n].op)) return true;
  return false;
}

/* Nodes were checked when they were made. Sizes of a run may have become known since, so that two
 * sizes that seemed to fit may differ. */
static bool may_be_wrong(const tsr__program *program)
{
  for (int n = 0; n < program->node_count; n++)
    for (int d = 0; d < program->nodes[n].rank; d++)
      if (program->nodes[n].dims[d] == TSR__DYNAMIC) return true;
  return false;
}

/* Plans a program with or without ways that share work. */
static tsr_status partition_so(const tsr__program *program, tsr__arena *scratch,
                               tsr__sharing *sharing, tsr__partitioned *out, tsr__error *error)
{
  tsr__heap *heap = scratch->heap;
  tsr__partitioned made;
  memset(&made, 0, sizeof made);
  tsr__program_init(&made.program, heap);
  tsr_status status = may_be_wrong(program) ? tsr__program_verify(program, error) : TSR_OK;
  bool calls = has_call_nodes(program);
  bool loops = program->region_count && tsr__has_loops(program);
  if (!status)
    status = (calls   ? partition_inlined
              : loops ? partition_looped
                      : partition_flat)(program, scratch, sharing, &made, error);
  if (status) tsr__partitioned_free(&made, heap);
  else *out = made;
  return status;
}

/* Plans a program with ways that share work, and without them if there are any; the plan that takes
 * less time stays, and of equals the plain one. A program without such ways is planned once. */
static tsr_status partition_best(const tsr__program *program, tsr__arena *scratch,
                                 tsr__sharing *sharing, tsr__partitioned *out, tsr__error *error)
{
  tsr__partitioned shared, plain;
  tsr_status status = partition_so(program, scratch, sharing, &shared, error);
  if (!status && sharing->found) {
    status = partition_so(program, scratch, NULL, &plain, error);
    bool gains = !status && tsr__plan_seconds(&shared) < tsr__plan_seconds(&plain);
    tsr__partitioned_free(gains ? &plain : &shared, scratch->heap);
    if (!status && !gains) shared = plain;
  }
  if (!status) *out = shared;
  return status;
}

tsr_status tsr__partition_in(const tsr__program *program, tsr__arena *scratch,
                             tsr__partitioned *out, tsr__error *error)
{
  tsr__sharing sharing = { .found = false };
  tsr__partitioned made;
  tsr_status status = partition_best(program, scratch, &sharing, &made, error);
  if (status) return status;
  status = tsr__repeated_make(scratch, &made, error);
  if (status) tsr__partitioned_free(&made, scratch->heap);
  else *out = made;
  return status;
}

tsr_status tsr__partition_region(const tsr__program *program, tsr__heap *heap,
                                 tsr__sharing *sharing, tsr__partitioned *out, tsr__error *error)
{
  tsr__arena scratch;
  tsr__sharing own = { .found = false };
  tsr__arena_init(&scratch, heap);
  tsr_status status = tsr__program_verify(program, error);
  if (!status)
    status = sharing ? partition_best(program, &scratch, &own, out, error)
                     : partition_so(program, &scratch, NULL, out, error);
  if (sharing) sharing->found |= own.found;
  tsr__arena_free(&scratch);
  return status;
}

tsr_status tsr__partition(const tsr__program *program, tsr__heap *heap, tsr__partitioned *out,
                          tsr__error *error)
{
  tsr__arena scratch;
  tsr__arena_init(&scratch, heap);
  tsr_status status = tsr__program_verify(program, error);
  if (!status) status = tsr__partition_in(program, &scratch, out, error);
  tsr__arena_free(&scratch);
  return status;
}

void tsr__partitioned_free(tsr__partitioned *partitioned, tsr__heap *heap)
{
  size_t nodes = (size_t)partitioned->program.node_count + 1;
  tsr__del(heap, partitioned->origin, nodes * sizeof *partitioned->origin);
  tsr__del(heap, partitioned->number, nodes * sizeof *partitioned->number);
  size_t traced = (size_t)partitioned->home_count + 1;
  tsr__del(heap, partitioned->home, traced * sizeof *partitioned->home);
  size_t notes = (size_t)partitioned->note_count * sizeof *partitioned->notes;
  tsr__del(heap, partitioned->notes, notes);
  size_t repeated = (size_t)partitioned->repeated_count * sizeof *partitioned->repeated;
  tsr__del(heap, partitioned->repeated, repeated);
  for (int i = 0; i < partitioned->inner_count; i++) tsr__inner_free(&partitioned->inner[i], heap);
  tsr__del(heap, partitioned->inner, partitioned->inner_room * sizeof *partitioned->inner);
  tsr__program_free(&partitioned->program);
  memset(partitioned, 0, sizeof *partitioned);
}
