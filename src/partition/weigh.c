/* Weighing chooses one of the ways that propagation found for each node.
 *
 *   down    the least bytes with which a node can be done each way, over the ways of its operands;
 *           bytes that several users share are divided among them
 *   up      each node takes the way that is cheapest for itself and for its users' chosen ways
 *   sweeps  each node is asked again, given all its neighbours, until nothing improves
 *
 * For trees the first two find the minimum. With shared results they run twice, the second time
 * knowing the wants of others, and the sweeps mend the rest. Costs are bytes that cross between
 * devices, weighted by the speed of the axis that they cross where the mesh has speeds
 * (crossing.c): an operand that is needed elsewhere counts once however many users need it there,
 * and a reduction counts its partials and the copies of its result. Products also count the work
 * that several devices repeat: otherwise each device would compute the gradients of weights whole,
 * from all examples, to save an all-reduce. Equal costs go to the way that cuts the node's work
 * into more parts, so that slices come before the nodes computed from them and gathers after, and
 * then to the earlier one. All passes are linear, and a move between two placements of a shape is
 * weighed once.
 *
 * Each node has these lists while it is weighed:
 *
 *   ways[n]     the ways left, the best so far first; `bytes` of each: the node and its operands
 *   wants[n]    place -> number of users that take it there; counts change as users change ways
 *   users[n]    number of reads, by which its bytes are divided */
#include "partition/flow.h"

enum { SWEEPS = 4, KNOWN = 128, LARGE = 1 << 20 };

/* A place where users need a node, and the number of these users. */
typedef struct want {
  struct want *next;
  uint16_t place;
  int32_t users;
} want;

/* The known cost of a move of a type from a place to a place. */
typedef struct known {
  uint64_t move; /* 0: none */
  int64_t bytes;
} known;

typedef struct tsr__scale scale;

struct tsr__scale {
  tsr__flow *flow;
  uint8_t *due; /* by node: a neighbour has changed its way since the node was asked */
  /* A key of 0 is no move: from and to differ in every move that is looked up. */
  known *known; /* by hash, at most half full */
  unsigned known_count, known_room;
  want **wants;   /* by node */
  int32_t *users; /* by node */
};

/* The sum of two costs, at most TSR__MUCH. */
static int64_t add_costs(int64_t a, int64_t b)
{
  return a + b < TSR__MUCH ? a + b : TSR__MUCH;
}

/* ---- costs ---- */

/* Dims that only the run knows get a guess that is the same for all ways: the costs serve
 * comparison only. */
static int64_t weigh_move(const tsr__flow *flow, const tsr__gnode *node, int from, int to)
{
  const tsr_sharding *a = &flow->places[from], *b = &flow->places[to];
  tsr_shape shape = tsr__gnode_shape(node);
  if (a->mesh && b->mesh && !tsr__same_devices(a->mesh, b->mesh)) return TSR__MUCH;
  for (int d = 0; d < shape.rank; d++)
    if (shape.dims[d] < 0) shape.dims[d] = LARGE;
  return tsr__flow_move_cost(flow, &(tsr__reshard){ a, b, &shape, NULL, 0 },
                             (tsr_dtype)node->dtype);
}

/* Open addressing: the search stops at the move or at the free entry for it; half of the list is
 * free. */
static known *find_known(const known *list, unsigned room, uint64_t move)
{
  unsigned at = (unsigned)(move * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (room - 1);
  while (list[at].move && list[at].move != move) at = (at + 1) & (room - 1);
  return (known *)&list[at];
}

/* Makes room for one more move; out of memory, the move is not kept. */
static void grow_known(scale *s)
{
  if (2 * (s->known_count + 1) <= s->known_room) return;
  unsigned room = 2 * s->known_room;
  known *list = tsr__arena_new(s->flow->arena, room * sizeof *list);
  s->flow->failed |= !list;
  if (!list) return;
  for (unsigned i = 0; i < s->known_room; i++)
    if (s->known[i].move) *find_known(list, room, s->known[i].move) = s->known[i];
  s->known = list;
  s->known_room = room;
}

static int64_t weigh_known(scale *s, int n, uint64_t move)
{
  int64_t bytes = weigh_move(s->flow, &s->flow->program->nodes[n], (int)(move >> 16 & 0xffff),
                             (int)(move & 0xffff));
  grow_known(s);
  if (s->flow->failed) return bytes;
  s->known_count++;
  *find_known(s->known, s->known_room, move) = (known){ move, bytes };
  return bytes;
}

static inline int64_t move_bytes(scale *s, int n, int from, int to)
{
  if (from == to || s->flow->carry[n] == TSR__CARRY_NONE) return 0;
  /* The cost is not 0, or a source would be made twice although once is enough. */
  if (s->flow->carry[n] == TSR__CARRY_REMADE) return 1; /* made again, for next to nothing */
  uint64_t move = (uint64_t)s->flow->type[n] << 32 | (uint64_t)from << 16 | (uint64_t)to;
  const known *k = find_known(s->known, s->known_room, move);
  return k->move ? k->bytes : weigh_known(s, n, move);
}

/* The bytes that a view exchanges if its elements lie on other devices. */
static int64_t shift_cost(const tsr__flow *flow, int n, const tsr__way *way)
{
  enum { FEW = 8 };
  const tsr__gnode *node = &flow->program->nodes[n];
  const tsr_sharding *few[FEW], **from = few;
  if (!tsr__is_view(node->op)) return 0;
  if (node->in_count > FEW)
    from = tsr__arena_new(flow->arena, (size_t)node->in_count * sizeof *from);
  if (!from) return 0;
  TSR_FOR_OPERANDS (flow->program, node, i, o) from[i] = &flow->places[way->need[i]];
  tsr__viewed viewed = { flow->program, node, &flow->places[way->at], from };
  tsr__crossed crossed = tsr__shift_crosses(&viewed);
  return tsr__flow_cost(flow, &crossed);
}

/* The flops that devices make for nothing, as bytes: all take as long as the device with the most,
 * whether they make the same as others or have nothing to do.
 *
 *   8 devices, work in 2 parts: each part is made 4 times, 3 of them for nothing
 *   a dim of 2 over 8 devices:  2 devices make a part each, and 6 wait as long */
static int64_t repeated_bytes(const tsr__flow *flow, int n, const tsr__way *way)
{
  const tsr_sharding *places = flow->places;
  const tsr_mesh *mesh = places[way->at].mesh;
  if (!mesh) return 0;
  /* Partials are made where they meet, before their sum is cut. */
  tsr_sharding made = tsr__partial_place(&places[way->at], way->meet);
  const tsr_sharding *const at[3] = { &places[way->need[0]], &places[way->need[1]], &made };
  double all = tsr__flops_dot_at(flow->program, n, at) * mesh->device_count;
  double bytes = (all - tsr__flops_dot_at(flow->program, n, NULL)) / tsr__mesh_flops_per_byte(mesh);
  int64_t like = bytes < (double)TSR__MUCH ? (int64_t)bytes : TSR__MUCH;
  tsr__crossed crossed = { .mesh = mesh, .bytes = like };
  crossed.along[mesh->slowest[mesh->axis_count - 1]] = like;
  return tsr__flow_cost(flow, &crossed);
}

/* Prefixes go from device to device, each to the next part of its line. */
static int64_t passing_cost(const tsr__flow *flow, const tsr__meeting *meeting)
{
  tsr__crossed crossed = tsr__passing_crosses(meeting);
  return tsr__flow_cost(flow, &crossed);
}

/* Partials of one accumulator, or the copies of the result (`accum` NULL). */
static int64_t meeting_cost(const tsr__flow *flow, const tsr__meeting *meeting,
                            const tsr__accum *accum)
{
  tsr__crossed crossed = tsr__meeting_crosses(meeting, accum);
  return tsr__flow_cost(flow, &crossed);
}

bool tsr__keeps_sum(const tsr__program *program, const tsr__gnode *node, const tsr_sharding *at,
                    unsigned axes)
{
  const tsr__opinfo *row = &tsr__ops[node->op];
  bool sums = row->acc == TSR__ACC_SUM && row->finish == TSR__FINISH_VALUE;
  if (!sums || !axes || at->unreduced != axes || !tsr__may_stay(node)) return false;
  return !(node->rank && node->dims[0] < 0) && !tsr__reduce_of(program, node)->checked;
}

/* A product moves windows and parts. Products that several devices repeat count as bytes, so that
 * the planner prefers ways in which each device has work of its own. */
static int64_t weigh_product(const tsr__flow *flow, int n, const tsr__way *way)
{
  const tsr__gnode *node = &flow->program->nodes[n];
  tsr__meeting meeting = { flow->program, node, &flow->places[way->at], way->meet };
  int64_t bytes = repeated_bytes(flow, n, way);
  if (way->at) {
    tsr__crossed windows = tsr__window_crosses(&meeting, &flow->places[way->need[0]]);
    bytes = add_costs(bytes, tsr__flow_cost(flow, &windows));
  }
  if (way->meet)
    bytes = add_costs(bytes, tsr__split_cost(flow, &meeting, &flow->places[way->need[1]]));
  return bytes;
}

/* The column WEIGHT of the table of operations: rows that are weighed by a function of their own;
 * the others have NULL. */
typedef struct weight {
  const char *name;
  int64_t (*weigh)(const tsr__flow *flow, int n, const tsr__way *way);
} weight;

#define WEIGHT(function) .weigh = weigh_##function,
#define OP(id, text, kernel, ...) [TSR__OP_##id] = { .name = text, __VA_ARGS__ },
static const weight weights[TSR__OPS] = {
#include "graph/ops.def"
};

/* A row without a weight of its own is weighed by the movement of its node: a node that does not
 * meet passes prefixes on or exchanges elements, a node that joins has no accumulators, an
 * unreduced sum moves nothing yet, and any other reduction moves each accumulator to a leader and
 * the result back. */
int64_t tsr__flow_own_bytes(const tsr__flow *flow, int n, const tsr__way *way)
{
  const tsr__gnode *node = &flow->program->nodes[n];
  tsr__meeting meeting = { flow->program, node, &flow->places[way->at], way->meet };
  if (weights[node->op].weigh) return weights[node->op].weigh(flow, n, way);
  if (!way->meet) return add_costs(passing_cost(flow, &meeting), shift_cost(flow, n, way));
  if (tsr__ops[node->op].acc == TSR__ACC_NONE) {
    tsr__crossed joining = tsr__joining_crosses(&meeting);
    return tsr__flow_cost(flow, &joining);
  }
  if (tsr__keeps_sum(flow->program, node, meeting.at, way->meet)) return 0;
  tsr__accum accums[2];
  int64_t bytes = meeting_cost(flow, &meeting, NULL);
  int count = tsr__accums_of(flow->program, n, accums);
  for (int k = 0; k < count; k++) {
    const tsr_sharding *operand = &flow->places[way->need[0]];
    accums[k].whole = tsr__meets_whole(flow->program, node, operand, way->meet);
    bytes = add_costs(bytes, meeting_cost(flow, &meeting, &accums[k]));
    /* An all-to-all or a reduce-scatter followed by an all-gather would move as many bytes: one
     * collective is better than two. */
    bool scatters = tsr__used_axes(meeting.at) & way->meet;
    if (accums[k].whole && bytes) bytes -= scatters ? 1 : 2;
  }
  return bytes;
}

/* ---- wants ---- */

static want *want_of(scale *s, int n, int place)
{
  want *w = s->wants[n];
  while (w && w->place != place) w = w->next;
  if (w) return w;
  w = tsr__arena_new(s->flow->arena, sizeof *w);
  s->flow->failed |= !w;
  if (!w) return NULL;
  w->next = s->wants[n];
  w->place = (uint16_t)place;
  return s->wants[n] = w;
}

/* The cost of all users' wants if the node lay at a place. */
static int64_t wanted_bytes(scale *s, int n, int at)
{
  int64_t bytes = 0;
  for (const want *w = s->wants[n]; w; w = w->next)
    if (w->users) bytes = add_costs(bytes, move_bytes(s, n, at, w->place));
  return bytes;
}

/* Makes a node want its operands as a way needs them; returns the bytes that move for this node
 * alone. The lists never shrink: a want without users stays for the next user. */
static int64_t begin_wants(scale *s, int n, const tsr__way *way)
{
  const tsr__gnode *node = &s->flow->program->nodes[n];
  int64_t bytes = 0;
  TSR_FOR_OPERANDS (s->flow->program, node, i, o) {
    want *w = want_of(s, o, way->need[i]);
    if (!w) return 0;
    if (!w->users++) bytes = add_costs(bytes, move_bytes(s, o, s->flow->ways[o]->at, way->need[i]));
  }
  return bytes;
}

/* The counterpart of begin_wants for the same way. A node is weighed again only after its wants
 * have ended, or it would count them as those of others. */
static void end_wants(scale *s, int n, const tsr__way *way)
{
  TSR_FOR_OPERANDS (s->flow->program, &s->flow->program->nodes[n], i, o) {
    want *w = want_of(s, o, way->need[i]);
    if (w && w->users) w->users--;
  }
}

/* ---- down ---- */

/* The way of a node that puts it at a place, or NULL. */
static const tsr__way *way_at(const tsr__flow *flow, int n, int place)
{
  const tsr__way *way = flow->ways[n];
  while (way && way->at != place) way = way->next;
  return way;
}

/* The least bytes with which operand `o` can come to lie at a place; the operand's own bytes are
 * divided among its users. If it has one user, no other way with a move beats the way that puts it
 * there: such a way would have been dropped. Dividing is a guess: each of two users pays half,
 * though both pay nothing if a third one moves it. The second pass down knows the wants of others
 * and corrects the guess. */
static int64_t bytes_to(scale *s, int o, int place)
{
  int64_t least = INT64_MAX;
  const want *w = s->wants[o];
  while (w && w->place != place) w = w->next;
  bool shared = w && w->users;
  const tsr__way *there = s->users[o] > 1 || shared ? NULL : way_at(s->flow, o, place);
  if (there) return there->bytes;
  for (const tsr__way *way = s->flow->ways[o]; way; way = way->next) {
    int64_t bytes = way->bytes; /* mostly 0, and dividing is slow */
    if (bytes && s->users[o] > 1) bytes /= s->users[o];
    if (!shared) bytes = add_costs(bytes, move_bytes(s, o, way->at, place));
    if (bytes < least) least = bytes;
  }
  return least;
}

/* Whether an earlier operand is the same node and needed in the same place. The search looks at few
 * operands to stay linear: x * x is the case, not a sum of a hundred equals. */
static bool needed_before(const int32_t *in, const tsr__way *way, int i)
{
  enum { NEAR = 4 };
  for (int k = i > NEAR ? i - NEAR : 0; k < i; k++)
    if (in[k] == in[i] && way->need[k] == way->need[i]) return true;
  return false;
}

static int64_t way_bytes(scale *s, int n, const tsr__way *way)
{
  const tsr__gnode *node = &s->flow->program->nodes[n];
  const int32_t *in = &s->flow->program->operands[node->first_in];
  int64_t bytes = way->own;
  for (int i = 0; i < node->in_count; i++)
    if (in[i] >= 0 && !needed_before(in, way, i))
      bytes = add_costs(bytes, bytes_to(s, in[i], way->need[i]));
  return bytes;
}

/* The number of operands that still have a choice and that others want where this way needs
 * them. */
static int shared_wants(scale *s, int n, const tsr__way *way)
{
  int count = 0;
  TSR_FOR_OPERANDS (s->flow->program, &s->flow->program->nodes[n], i, o) {
    const want *w = s->flow->ways[o]->next ? s->wants[o] : NULL;
    while (w && w->place != way->need[i]) w = w->next;
    count += w && w->users;
  }
  return count;
}

/* Whether a move of this way may serve other users, too. */
static bool may_share(scale *s, int n, const tsr__way *way)
{
  if (s->users[n] > 1 || shared_wants(s, n, way)) return true;
  TSR_FOR_OPERANDS (s->flow->program, &s->flow->program->nodes[n], i, o)
    if (way->need[i] != s->flow->ways[o]->at && s->users[o] > 1) return true;
  return false;
}

/* The number of parts into which a way cuts the work of its node. A root counts as one part: it is
 * not cut further for its users' sake. */
static int counted_parts(const tsr__flow *flow, int n, const tsr__way *way)
{
  return flow->program->nodes[n].flags & TSR__ROOT ? 1 : way->parts;
}

/* Whether another way and a move from there are better, or as good without a loss: the work is in
 * as many parts, and others cannot share the move. */
static bool is_dominated(scale *s, int n, const tsr__way *way)
{
  bool later = false;
  for (const tsr__way *by = s->flow->ways[n]; by; by = by->next) {
    later |= by == way;
    if (by == way) continue;
    int64_t bytes = add_costs(by->bytes, move_bytes(s, n, by->at, way->at));
    if (bytes < way->bytes) return true;
    int finer = counted_parts(s->flow, n, way) - counted_parts(s->flow, n, by);
    bool first = finer < 0 || (!finer && !later);
    if (bytes == way->bytes && first && !may_share(s, n, way)) return true;
  }
  return false;
}

int tsr__flow_weigh_node(tsr__flow *flow, int n)
{
  tsr__way **at = &flow->ways[n];
  int64_t more = 0;
  int change = 0;
  for (tsr__way *way = *at; way; way = way->next) {
    int64_t before = way->bytes;
    if (way->fresh && !way->own) way->own = tsr__flow_own_bytes(flow, n, way);
    way->bytes = way_bytes(flow->scale, n, way);
    if (way->bytes != before) change |= TSR__CHANGED_BYTES;
    if (way == *at) more = way->bytes - before;
    if (way->bytes - before != more && !way->fresh) change |= TSR__CHANGED_WAYS;
  }
  while (*at) {
    bool drops = flow->ways[n]->next && is_dominated(flow->scale, n, *at);
    if (drops != (*at)->fresh) change |= TSR__CHANGED_WAYS;
    (*at)->fresh = 0;
    if (drops) *at = (*at)->next;
    else at = &(*at)->next;
  }
  return change;
}

/* ---- up, and again ---- */

/* Moves the chosen way to the front of the list: from here on flow->ways[n] is read as the way of
 * the node. The rest keeps its order of preference. */
static void take_way(tsr__flow *flow, int n, tsr__way *way)
{
  tsr__way **at = &flow->ways[n];
  if (*at == way) return;
  while (*at != way) at = &(*at)->next;
  *at = way->next;
  way->next = flow->ways[n];
  flow->ways[n] = way;
}

/* The way of least bytes; among equals, the one that cuts its work into the most parts, then the
 * one that shares the most wants with others: its operands have not chosen yet. */
static tsr__way *best_way(scale *s, int n)
{
  tsr__way *best = s->flow->ways[n];
  int64_t least = INT64_MAX;
  int most = 0, parts = 0;
  for (tsr__way *way = best; way && best->next; way = way->next) {
    int64_t bytes = add_costs(way_bytes(s, n, way), wanted_bytes(s, n, way->at));
    if (bytes > least) continue;
    int shared = shared_wants(s, n, way), finer = counted_parts(s->flow, n, way) - parts;
    if (bytes == least && (finer < 0 || (!finer && shared <= most))) continue;
    best = way;
    least = bytes;
    most = shared;
    parts += finer;
  }
  return best;
}

/* The bytes that a node and its neighbours move if it takes a way. Wants begin and end for the
 * count alone: an operand that is used twice must count once. */
static int64_t bytes_here(scale *s, int n, const tsr__way *way)
{
  int64_t bytes = begin_wants(s, n, way);
  end_wants(s, n, way);
  bytes = add_costs(bytes, wanted_bytes(s, n, way->at));
  return add_costs(bytes, way->own);
}

/* The number of operands that do not lie where a way needs them. */
static int moved_operands(const scale *s, int n, const tsr__way *way)
{
  int count = 0;
  TSR_FOR_OPERANDS (s->flow->program, &s->flow->program->nodes[n], i, o)
    count += way->need[i] != s->flow->ways[o]->at;
  return count;
}

/* Takes another way if it moves fewer bytes, or as many with more parts of work or fewer moved
 * operands; true if the way changed. */
static bool choose_again(scale *s, int n)
{
  tsr__way *now = s->flow->ways[n], *best = now;
  if (!now->next) return false;
  end_wants(s, n, now);
  int64_t least = bytes_here(s, n, now);
  int fewest = moved_operands(s, n, now), parts = counted_parts(s->flow, n, now);
  for (tsr__way *way = now->next; way; way = way->next) {
    int64_t bytes = bytes_here(s, n, way);
    if (bytes > least) continue;
    int moved = moved_operands(s, n, way), finer = counted_parts(s->flow, n, way) - parts;
    if (bytes == least && (finer < 0 || (!finer && moved >= fewest))) continue;
    best = way;
    least = bytes;
    fewest = moved;
    parts += finer;
  }
  take_way(s->flow, n, best);
  begin_wants(s, n, best);
  return best != now;
}

/* A changed way marks the node's operands as due at once; its users look at the mark when they are
 * asked. */
static bool choose_if_due(scale *s, int n)
{
  enum { ASKED = 1, TOOK = 2 };
  bool due = s->due[n] & ASKED;
  TSR_FOR_OPERANDS (s->flow->program, &s->flow->program->nodes[n], i, o) due |= s->due[o] & TOOK;
  s->due[n] = 0;
  if (!due || !choose_again(s, n)) return false;
  s->due[n] = TOOK;
  TSR_FOR_OPERANDS (s->flow->program, &s->flow->program->nodes[n], i, o) s->due[o] |= ASKED;
  return true;
}

/* ---- the whole ---- */

void tsr__flow_start_scale(tsr__flow *flow)
{
  const tsr__program *program = flow->program;
  size_t nodes = (size_t)program->node_count + 1;
  scale *s = tsr__arena_new(flow->arena, sizeof *s);
  flow->scale = s;
  flow->failed |= !s;
  if (!s) return;
  s->flow = flow;
  s->known_room = KNOWN;
  s->known = tsr__arena_new(flow->arena, KNOWN * sizeof *s->known);
  s->wants = tsr__arena_new(flow->arena, nodes * sizeof *s->wants);
  s->users = tsr__arena_new(flow->arena, nodes * sizeof *s->users);
  s->due = tsr__arena_new(flow->arena, nodes);
  flow->failed |= !s->known || !s->wants || !s->users || !s->due;
  for (int n = 0; n < program->node_count && !flow->failed; n++)
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o) s->users[o] += !tsr__is_unread(flow, n);
}

/* All nodes count as changed, and are weighed again. */
void tsr__flow_forget_wants(tsr__flow *flow)
{
  size_t count = (size_t)flow->program->node_count;
  memset(flow->scale->wants, 0, count * sizeof *flow->scale->wants);
  memset(flow->changed, TSR__CHANGED_WANTS, count);
}

/* Called between the two forward passes: fixed nodes have one way, so their wants are known before
 * other nodes choose, and never end. The operands count the want as a change and are weighed
 * again. */
void tsr__flow_want_fixed(tsr__flow *flow)
{
  for (int n = 0; n < flow->program->node_count && !flow->failed; n++) {
    if (!flow->fixed[n] || tsr__is_unread(flow, n)) continue;
    begin_wants(flow->scale, n, flow->ways[n]);
    TSR_FOR_OPERANDS (flow->program, &flow->program->nodes[n], i, o)
      flow->changed[o] |= TSR__CHANGED_WANTS;
  }
}

/* The second pass down: all nodes have chosen once, and the wants of all others count. Nodes with
 * one way keep their wants, which cannot change. */
static void weigh_again(scale *s, int n)
{
  tsr__way *now = s->flow->ways[n];
  bool chooses = now->next;
  if (chooses) end_wants(s, n, now);
  for (tsr__way *way = now; way; way = way->next) way->bytes = way_bytes(s, n, way);
  if (chooses) begin_wants(s, n, now);
}

/* Users come before operands (tsr__flow_choose goes backwards), so wants of n are all there. */
static void choose_node_way(scale *s, int n, bool again)
{
  tsr__flow *flow = s->flow;
  if (flow->fixed[n] || (again && !flow->ways[n]->next)) return;
  if (again) end_wants(s, n, flow->ways[n]);
  take_way(flow, n, best_way(s, n));
  begin_wants(s, n, flow->ways[n]);
}

/* Sweeps go to and fro, as a node's change reaches its operands in a backward sweep and its users
 * in a forward one. A node changes only to a way with fewer bytes, more parts or fewer moved
 * operands, so the sweeps end of themselves; SWEEPS bounds the time of a long program. */
void tsr__flow_choose(tsr__flow *flow)
{
  int count = flow->program->node_count;
  bool better = true;
  for (int again = 0; again < 2; again++) {
    for (int n = 0; n < count && again && !flow->failed; n++) weigh_again(flow->scale, n);
    for (int n = count - 1; n >= 0 && !flow->failed; n--) choose_node_way(flow->scale, n, again);
  }
  memset(flow->scale->due, 1, (size_t)count);
  for (int sweep = 0; sweep < SWEEPS && better && !flow->failed; sweep++) {
    better = false;
    for (int k = 0; k < count && !flow->failed; k++)
      better |= choose_if_due(flow->scale, sweep % 2 ? count - 1 - k : k);
  }
}
