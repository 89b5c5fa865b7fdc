/* Movements that are made again. The whole of a sharded array takes memory from its first user to
 * its last. Between the forward and the backward pass of a layer that is the memory of all layers
 * after it.
 *
 *   users      forward 1   2   3   4   5   6  |  6   5   4   3   2   1  backward
 *   whole 1    |---|                                             again |---|
 *   whole 6                            |-----------|
 *
 * A value that was given to the program sharded can be let go and moved once more, and so can
 * formulas and views of such values alone. All such values of a program wait if they hold at most
 * the memory of SHALLOW of the largest. Otherwise those that wait hold at most that of DEEP: the
 * value whose next user is farthest is let go, as a cache does that knows its future (Belady 1966).
 * A gradient on its way from whole to sharded takes the memory of two more. So the layers of
 * a network take the memory of four, however deep it is, for half as many bytes more (ZeRO's third
 * stage), and a network of four layers moves each once. Short values always wait: they hold little,
 * and a collective would cost more. */
#include "partition/flow.h"

#include <stdlib.h>

enum {
  SHALLOW = 4,
  DEEP = 3,
  LEAST_BYTES = 32 << 10 /* on a device: a value that holds less always waits */
};

/* One operand that can be made again. */
typedef struct use {
  int64_t time;
  int32_t node, operand; /* the operand's node, and its place in the program's operands */
  int32_t next;          /* use of the same node; -1: it is the last */
} use;

/* A copy reads a copy. */
typedef struct link {
  int32_t node, copy, operand; /* the operand's place among those of the node */
  int32_t reads;               /* which copy of that operand */
} link;

typedef struct again {
  tsr__partitioned *out;
  bool *can;       /* by node: it can be made again */
  int64_t *growth; /* by node that can: bytes of a device while its value waits */
  int32_t *copies; /* by node: how often it is made again */
  int32_t *turn;   /* by node: the turn in which it was made again last */
  int32_t turns;   /* values that were let go */
  int32_t *copy;   /* by operand: which copy it reads; 0 is the first */
  link *links;
  size_t link_count, link_room;
  use *uses; /* by time */
  int use_count;
  int32_t *waiting; /* uses after which a value waits for the next one */
  int waiting_count;
  int64_t held, most;
} again;

/* Finds the nodes that can be made again, and the memory that each takes to wait: that of a
 * movement's operand is taken anyway. Returns whether there can be more at once than may wait. */
static bool can_be_much(again *a)
{
  const tsr__program *program = &a->out->program;
  int64_t all = 0, largest = 0;
  for (int n = 0; n < program->node_count; n++) {
    int64_t growth = tsr__move_growth(program, n);
    int from = tsr__in(program, &program->nodes[n], 0);
    bool moves = growth > 0 && tsr__is_leaf(program->nodes[from].op);
    bool seen = program->nodes[n].flags & (TSR__ROOT | TSR__SEEN);
    a->can[n] = !seen && (moves || tsr__computed_of(program, n, a->can));
    if (!a->can[n]) continue;
    int64_t bytes = moves ? growth : tsr__node_device_bytes(program, n);
    a->growth[n] = bytes < LEAST_BYTES ? 0 : bytes;
    all += a->growth[n];
    if (a->growth[n] > largest) largest = a->growth[n];
  }
  a->most = DEEP * largest;
  return all > SHALLOW * largest;
}

/* Fills the stages as they will be when movements that take memory are late (trips.c), so that a
 * formula of such waits for its user here, too. */
static void find_use_stages(const again *a, int *stage)
{
  tsr__program *program = &a->out->program;
  for (int n = 0; n < program->node_count; n++)
    if (a->can[n] && program->nodes[n].op == TSR__OP_RESHARD) program->nodes[n].flags |= TSR__LATE;
  tsr__stages(program, stage);
}

static int by_use_time(const void *a, const void *b)
{
  const use *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->operand > y->operand) - (x->operand < y->operand);
}

/* Lists the uses in order of their stages and, in a stage, of their nodes. `last`, by node: the use
 * that was met last, + 1. */
static void list_value_uses(again *a, const int *stage, int32_t *last)
{
  const tsr__program *program = &a->out->program;
  int64_t far = program->node_count;
  for (int n = 0; n < program->node_count; n++)
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o)
      if (a->growth[o])
        a->uses[a->use_count++] =
            (use){ stage[n] * far + n, o, program->nodes[n].first_in + i, -1 };
  qsort(a->uses, (size_t)a->use_count, sizeof *a->uses, by_use_time);
  for (int u = 0; u < a->use_count; u++) {
    int32_t *before = &last[a->uses[u].node];
    if (*before) a->uses[*before - 1].next = u;
    *before = u + 1;
  }
}

/* Makes a node again, with all that it is computed of, each once a turn; returns the copy, -1 out
 * of memory. */
static int32_t copy_value(again *a, int n)
{
  const tsr__program *program = &a->out->program;
  if (a->turn[n] == a->turns) return a->copies[n];
  int32_t copy = ++a->copies[n];
  a->turn[n] = a->turns;
  TSR_FOR_OPERANDS (program, &program->nodes[n], i, o) {
    if (!a->can[o]) continue;
    int32_t reads = copy_value(a, o);
    if (reads < 0 || !tsr__grow(program->heap, (void **)&a->links, &a->link_room, a->link_count + 1,
                                sizeof *a->links))
      return -1;
    a->links[a->link_count++] = (link){ n, copy, i, reads };
  }
  return copy;
}

/* Lets go of the value whose next use is farthest: the list then lacks it. False: no memory. */
static bool let_value_go(again *a)
{
  int far = 0;
  for (int w = 1; w < a->waiting_count; w++)
    if (a->uses[a->waiting[w]].next > a->uses[a->waiting[far]].next) far = w;
  const use *gone = &a->uses[a->waiting[far]];
  a->turns++;
  int32_t copy = copy_value(a, gone->node);
  a->held -= a->growth[gone->node];
  a->copy[a->uses[gone->next].operand] = copy;
  a->waiting[far] = a->waiting[--a->waiting_count];
  return copy >= 0;
}

/* Takes a use's value off the list, if it waited. The copy that a use reads is the one that was
 * read before, unless that was let go. */
static void stop_waiting(again *a, int u)
{
  for (int w = 0; w < a->waiting_count; w++) {
    const use *before = &a->uses[a->waiting[w]];
    if (before->next != u) continue;
    a->copy[a->uses[u].operand] = a->copy[before->operand];
    a->held -= a->growth[before->node];
    a->waiting[w] = a->waiting[--a->waiting_count];
    return;
  }
}

static bool choose_copies(again *a)
{
  for (int u = 0; u < a->use_count; u++) {
    stop_waiting(a, u);
    if (a->uses[u].next < 0) continue;
    a->waiting[a->waiting_count++] = u;
    a->held += a->growth[a->uses[u].node];
    while (a->held > a->most)
      if (!let_value_go(a)) return false;
  }
  return true;
}

/* Replaces a list by node of the partitioned program; copies have -1. */
static void stretch_list(again *a, int32_t **list, int32_t *longer, const int32_t *place, int count)
{
  const tsr__program *program = &a->out->program;
  memset(longer, -1, ((size_t)program->node_count + 1) * sizeof *longer);
  for (int n = 0; n < count; n++) longer[place[n]] = (*list)[n];
  tsr__del(program->heap, *list, ((size_t)count + 1) * sizeof **list);
  *list = longer;
}

/* Puts the copies in their places, and their numbers into the operands that read them. */
static bool make_again(again *a, int copies, int32_t *place)
{
  tsr__partitioned *out = a->out;
  tsr__program *program = &out->program;
  int count = program->node_count, operands = program->operand_count;
  size_t bytes = ((size_t)(count + copies) + 1) * sizeof *place;
  int32_t *origin = tsr__new(program->heap, bytes), *number = tsr__new(program->heap, bytes);
  if (!origin || !number || !tsr__program_copy_nodes(program, a->copies, place)) {
    tsr__del(program->heap, origin, bytes);
    tsr__del(program->heap, number, bytes);
    return false;
  }
  for (int i = 0; i < operands; i++)
    if (a->copy[i]) program->operands[i] += a->copy[i];
  for (size_t l = 0; l < a->link_count; l++) {
    const link *by = &a->links[l];
    const tsr__gnode *node = &program->nodes[place[by->node] + by->copy];
    program->operands[node->first_in + by->operand] += by->reads;
  }
  for (int n = 0; n < count; n++)
    for (int k = 1; k <= a->copies[n]; k++) {
      tsr__gnode *node = &program->nodes[place[n] + k];
      if (node->op == TSR__OP_RESHARD) node->flags |= TSR__AGAIN;
    }
  for (int n = 0; n < out->home_count; n++)
    if (out->home[n] >= 0) out->home[n] = place[out->home[n]];
  stretch_list(a, &out->origin, origin, place, count);
  stretch_list(a, &out->number, number, place, count);
  return true;
}

/* `room`: two lists by node, of zeros. */
static bool move_again(again *a, int32_t *room, int *stage)
{
  int count = a->out->program.node_count, copies = 0;
  find_use_stages(a, stage);
  list_value_uses(a, stage, room);
  if (!choose_copies(a)) return false;
  for (int n = 0; n < count; n++) copies += a->copies[n];
  return !copies || make_again(a, copies, room + count);
}

bool tsr__moves_again(tsr__partitioned *out, tsr__arena *arena)
{
  size_t nodes = (size_t)out->program.node_count + 1;
  size_t operands = (size_t)out->program.operand_count + 1;
  again a = { .out = out };
  a.can = tsr__arena_new(arena, nodes * sizeof *a.can);
  a.growth = tsr__arena_new(arena, nodes * sizeof *a.growth);
  if (!a.can || !a.growth) return false;
  if (!can_be_much(&a)) return true;
  int *stage = tsr__arena_new(arena, nodes * sizeof *stage);
  int32_t *room = tsr__arena_new(arena, 2 * nodes * sizeof *room);
  a.copies = tsr__arena_new(arena, nodes * sizeof *a.copies);
  a.turn = tsr__arena_new(arena, nodes * sizeof *a.turn);
  a.copy = tsr__arena_new(arena, operands * sizeof *a.copy);
  a.uses = tsr__arena_new(arena, operands * sizeof *a.uses);
  a.waiting = tsr__arena_new(arena, operands * sizeof *a.waiting);
  if (!stage || !room || !a.copies || !a.turn || !a.copy || !a.uses || !a.waiting) return false;
  bool good = move_again(&a, room, stage);
  tsr__del(out->program.heap, a.links, a.link_room * sizeof *a.links);
  return good;
}
