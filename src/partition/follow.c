/* Nodes that lie as another does (the column FOLLOWS of the table), such as a gradient and the
 * array that it is the gradient by.
 *
 *   %0 = leaf         @(x,-)          a user placed it: propagation sees a constraint to (x,-)
 *   %9 = like(%8, %0)
 *
 *   %1 = %0 * 2                       the planner places %1: propagation sees %9 without a place
 *   %9 = like(%8, %1)                 until all nodes have one, and then with that of %1
 *
 * The node may state a sharding, as the gradient of a constraint does. Then it follows a place that
 * cuts this sharding further alone: partial sums meet there at once, and are nowhere whole.
 *
 * Shardings that all users of a node state hold. A node that is no result may also be cut further
 * than the node that it follows, if that moves less: an optimiser whose state is cut takes a
 * gradient by whole weights as it comes out of its sums.
 *
 * Propagation reads a copy of the nodes in which such a node has operand 0 only. A node that others
 * only follow has a place and moves nothing; the result has no such node. */
#include "partition/flow.h"

static bool cuts_further_than(const tsr_sharding *place, const tsr_sharding *than)
{
  return place->mesh == than->mesh && tsr__cuts_begin(than, place);
}

/* Whether a node takes a place that the node it follows has. An unreduced sum is a place of sums
 * only, and rows that the run counts lie where they are made. */
static bool takes_place(const tsr__program *program, const tsr__gnode *node,
                        const tsr_sharding *place)
{
  const tsr_sharding *stated = &program->shardings[node->sharding];
  if (!place->mesh || place->unreduced || (node->rank && node->dims[0] == TSR__DYNAMIC))
    return false;
  if (!(node->flags & TSR__PLACED)) return true;
  return !stated->unreduced && cuts_further_than(place, stated);
}

/* The place of a node is a bound of its cuts; the place of a result may have no more. */
static void bound_cuts(tsr__flow *flow, int n, int place)
{
  if (!(flow->program->nodes[n].flags & TSR__ROOT)) flow->least[n] = (uint16_t)place;
}

bool tsr__follow_allows(const tsr__flow *flow, int n, int place)
{
  if (!flow->least || !flow->least[n]) return true;
  const tsr_sharding *at = &flow->places[place];
  return !at->unreduced && cuts_further_than(at, &flow->places[flow->least[n]]);
}

/* Writes node `n`, which follows `like`, as propagation sees it. */
static void show_following(tsr__flow *flow, tsr__gnode *nodes, int n, int like)
{
  const tsr__program *program = flow->program;
  const tsr_sharding *place = &program->shardings[nodes[like].sharding];
  bool stated = nodes[n].flags & TSR__PLACED;
  bool known = nodes[like].flags & TSR__PLACED && flow->follows[like] < 0 && !place->open;
  if (known && takes_place(program, &nodes[n], place)) {
    nodes[n].flags |= TSR__PLACED;
    nodes[n].sharding = nodes[like].sharding;
  }
  if (nodes[n].flags & TSR__PLACED) nodes[n].op = TSR__OP_CONSTRAIN;
  nodes[n].in_count = 1;
  if (!known) flow->follows[n] = like;
  else if (!stated && nodes[n].flags & TSR__PLACED) bound_cuts(flow, n, nodes[n].sharding);
}

/* Users of a node: any, those that read its elements, those that state no sharding for them, or a
 * whole one: whatever is gathered lies somewhere before. */
enum { USED = 1, READ = 2, UNSAID = 4 };

/* Marks the nodes whose elements nobody reads, though others follow them. Leaves stay, as the run
 * binds them. */
static void find_unread(tsr__flow *flow, uint8_t *uses)
{
  const tsr__program *program = flow->program;
  for (int n = program->node_count - 1; n >= 0; n--) {
    const tsr__gnode *node = &program->nodes[n];
    bool needed = node->flags & TSR__ROOT || tsr__is_leaf(node->op) || !uses[n] || uses[n] & READ;
    bool follows = tsr__ops[node->op].follows;
    bool says = !follows && tsr__is_placing(node->op) &&
                tsr__used_axes(&program->shardings[node->sharding]);
    int unsaid = says ? 0 : UNSAID;
    flow->unread[n] = !needed;
    TSR_FOR_OPERANDS (program, node, i, o)
      uses[o] |= (uint8_t)(!needed || (i && follows) ? USED : USED | READ | unsaid);
  }
}

bool tsr__follow_start(tsr__flow *flow)
{
  const tsr__program *program = flow->program;
  size_t count = (size_t)program->node_count;
  int first = 0;
  while (first < program->node_count && !tsr__ops[program->nodes[first].op].follows) first++;
  if (first == program->node_count) return true;
  tsr__program *seen = tsr__arena_new(flow->arena, sizeof *seen);
  tsr__gnode *nodes = tsr__arena_raw(flow->arena, count * sizeof *nodes);
  flow->follows = tsr__arena_raw(flow->arena, count * sizeof *flow->follows);
  flow->unread = tsr__arena_new(flow->arena, 2 * count);
  flow->least = tsr__arena_new(flow->arena, count * sizeof *flow->least);
  if (!seen || !nodes || !flow->follows || !flow->unread || !flow->least) return false;
  uint8_t *uses = flow->unread + count;
  find_unread(flow, uses);
  memcpy(nodes, program->nodes, count * sizeof *nodes);
  memset(flow->follows, -1, count * sizeof *flow->follows);
  for (int n = first; n < program->node_count; n++) {
    int like = tsr__ops[nodes[n].op].follows ? tsr__in(program, &nodes[n], 1) : -1;
    bool said = nodes[n].flags & (TSR__ROOT | TSR__PLACED) || uses[n] != (USED | READ);
    if (like >= 0 && said) show_following(flow, nodes, n, like);
    else if (like >= 0) nodes[n].in_count = 1; /* its users all say where it lies */
  }
  *seen = *program;
  seen->nodes = nodes;
  flow->program = seen;
  return true;
}

/* The place that a node is to take by now, or NULL. Numbers alone lie anywhere. */
static const tsr_sharding *place_to_take(const tsr__flow *flow, int n)
{
  int like = flow->follows[n];
  if (like < 0 || flow->free[like] || flow->least[n]) return NULL;
  const tsr_sharding *place = tsr__flow_at(flow, like);
  return takes_place(flow->program, &flow->program->nodes[n], place) ? place : NULL;
}

/* Puts a node at the place of the node that it follows, which keeps its way. */
static void fix_pair(tsr__flow *flow, int n)
{
  int like = flow->follows[n];
  tsr__way *way = tsr__arena_new(flow->arena, sizeof *way + sizeof way->need[0]);
  flow->failed |= !way;
  if (!way) return;
  flow->ways[like]->next = NULL;
  *way = (tsr__way){ .at = flow->ways[like]->at, .asker = -1, .fresh = 1 };
  way->need[0] = way->at;
  flow->ways[n] = way;
  flow->fixed[like] = 1;
  if (!(flow->program->nodes[n].flags & TSR__PLACED)) bound_cuts(flow, n, way->at);
  flow->fixed[n] = !flow->least[n];
}

bool tsr__follow_settle(tsr__flow *flow)
{
  bool moves = false;
  for (int n = 0; flow->follows && n < flow->program->node_count && !moves; n++) {
    const tsr_sharding *place = place_to_take(flow, n);
    moves = place && place != tsr__flow_at(flow, n);
  }
  /* All pairs are fixed: the next turn may move a node away from the place that another follows. */
  for (int n = 0; moves && n < flow->program->node_count && !flow->failed; n++)
    if (place_to_take(flow, n)) fix_pair(flow, n);
  return moves;
}
