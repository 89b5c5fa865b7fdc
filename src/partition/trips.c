/* Trips: movements of one kind, over the same axes of one mesh, travel together if they can be made
 * at one time. Such movements are one step of the schedule and one collective.
 *
 *   times       a node's earliest: its stage, for a reduction the stage where it meets; in it
 *               0 for kernels and reductions, from 1 on for steps, each after the steps of its
 *               stage that it needs
 *   a movement  can be made from its own time on until the first of its users
 *
 *       a   |--------------|          made with b, as its users can wait so long
 *       b          |-------|
 *       c   |---|                     alone
 *
 * The latest movement comes first and is made at its own time; an earlier one is made with the
 * newest of its kind if its users can wait for that. No fewer times would do for one kind, and
 * kernels stay in their stages. Reductions wait for each other by a rule of their own, as stages
 * order the kernels that read them (tsr__meeting_stages). */
#include "partition/flow.h"

#include <stdlib.h>

/* A note that moves elements from place to place, alone or with others of its kind. */
typedef struct trip {
  int64_t time;
  int32_t note;
  int32_t with; /* the trip at whose time it is made; it may be itself */
} trip;

typedef struct trips {
  tsr__partitioned *out;
  const int *stage, *meets;
  int64_t *time, *until; /* by node: its earliest time, and the time of its first user */
  trip *list;
  int count;
} trips;

static bool is_step(const tsr__program *program, int n)
{
  int op = program->nodes[n].op;
  bool there = tsr__is_leaf(op) || tsr__takes_result(op);
  return !there && !tsr__is_reduction(op) && !tsr__in_kernel(program, n);
}

/* The time at which a stage begins. Stages are as far apart as a program has nodes, and a step adds
 * one to its operands' latest time, so that steps of a stage never reach the time of the next.
 * Leaves, in stage -1, begin at 0. */
static int64_t begin_of(const trips *t, int stage)
{
  return (int64_t)(stage + 1) * (t->out->program.node_count + 1);
}

static void find_times(trips *t)
{
  const tsr__program *program = &t->out->program;
  for (int n = 0; n < program->node_count; n++) {
    const tsr__gnode *node = &program->nodes[n];
    bool step = is_step(program, n);
    t->time[n] = begin_of(t, t->meets[n]) + step;
    if (tsr__takes_result(node->op)) t->time[n] = t->time[tsr__in(program, node, 0)];
    TSR_FOR_OPERANDS (program, node, i, o)
      if (step && t->time[o] >= t->time[n]) t->time[n] = t->time[o] + 1;
  }
}

/* Whether a note is a movement that could be made with others. */
static bool can_join(const tsr__partitioned *out, const tsr__note *note)
{
  if (note->cause == TSR__CAUSE_REDUCED || note->bytes <= 0) return false;
  return tsr__ops[out->program.nodes[note->node].op].moves || note->move == TSR__MOVE_EXCHANGE;
}

/* Finds the first users other than movements; movements can wait themselves, so join_trips limits
 * one by another. Reductions read their operands before they meet. */
static void find_users(trips *t, const bool *moves)
{
  const tsr__program *program = &t->out->program;
  for (int n = 0; n < program->node_count; n++) t->until[n] = INT64_MAX;
  for (int n = 0; n < program->node_count; n++) {
    bool reads = t->meets[n] != t->stage[n];
    int64_t time = reads ? begin_of(t, t->stage[n]) : t->time[n];
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o)
      if (!moves[n] && time < t->until[o]) t->until[o] = time;
  }
}

/* Whether two trips are of one kind. Views and reshards are not: exchanges of views are explained
 * and made by rules of their own. */
static bool same_kind(const trips *t, const trip *a, const trip *b)
{
  const tsr__note *x = &t->out->notes[a->note], *y = &t->out->notes[b->note];
  const tsr__gnode *nodes = t->out->program.nodes;
  bool work = tsr__same_work(nodes[x->node].op, nodes[y->node].op);
  return x->move == y->move && x->axes == y->axes && x->mesh == y->mesh && work;
}

/* Orders trips with the latest first; at one time, the later note first. */
static int by_time(const void *a, const void *b)
{
  const trip *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? 1 : -1;
  return x->note < y->note ? 1 : -1;
}

static int by_note(const void *a, const void *b)
{
  const trip *x = a, *y = b;
  return (x->note > y->note) - (x->note < y->note);
}

/* Joins each trip with the newest of its kind if its users can wait. `newest`: the last trip of
 * each kind; kinds are few. */
static void join_trips(trips *t, int32_t *newest)
{
  const tsr__program *program = &t->out->program;
  int kinds = 0;
  for (int i = 0; i < t->count; i++) {
    trip *mine = &t->list[i];
    int n = t->out->notes[mine->note].node, kind = 0;
    while (kind < kinds && !same_kind(t, &t->list[newest[kind]], mine)) kind++;
    bool found = kind < kinds && t->list[newest[kind]].time < t->until[n];
    mine->with = found ? newest[kind] : i;
    newest[kind] = mine->with;
    kinds += kind == kinds;
    int64_t at = t->list[mine->with].time;
    TSR_FOR_OPERANDS (program, &program->nodes[n], k, o)
      if (at < t->until[o]) t->until[o] = at;
  }
}

/* Ties each note, in order, to those that travel with it, and their nodes likewise. `last`, by the
 * trip that others join: the last note tied, + 1. */
static void tie_trips(trips *t, int32_t *last)
{
  tsr__note *notes = t->out->notes;
  tsr__gnode *nodes = t->out->program.nodes;
  /* Numbers in `with` are of the list before this sort: now they name a group, not an index. */
  qsort(t->list, (size_t)t->count, sizeof *t->list, by_note);
  for (int i = 0; i < t->count; i++) {
    trip *mine = &t->list[i];
    tsr__note *note = &notes[mine->note];
    if (last[mine->with]) {
      tsr__note *before = &notes[last[mine->with] - 1];
      note->lead = before->lead;
      before->next = mine->note;
      nodes[before->node].with = note->node + 1;
      nodes[note->node].with = notes[note->lead].node + 1;
    }
    last[mine->with] = mine->note + 1;
  }
}

/* Notes without bytes, such as slices, are not trips: no data travels. */
bool tsr__trips(tsr__partitioned *out, const int *stage, const int *meets, tsr__arena *arena)
{
  size_t nodes = (size_t)out->program.node_count + 1, notes = (size_t)out->note_count + 1;
  trips t = { .out = out, .stage = stage, .meets = meets };
  bool *moves = tsr__arena_new(arena, nodes * sizeof *moves);
  int32_t *room = tsr__arena_new(arena, 2 * notes * sizeof *room);
  t.time = tsr__arena_new(arena, 2 * nodes * sizeof *t.time);
  t.list = tsr__arena_new(arena, notes * sizeof *t.list);
  if (!moves || !room || !t.time || !t.list) return false;
  t.until = t.time + nodes;
  find_times(&t);
  for (int i = 0; i < out->note_count; i++) {
    if (!can_join(out, &out->notes[i])) continue;
    moves[out->notes[i].node] = true;
    t.list[t.count++] = (trip){ t.time[out->notes[i].node], i, 0 };
  }
  find_users(&t, moves);
  qsort(t.list, (size_t)t.count, sizeof *t.list, by_time);
  join_trips(&t, room);
  tie_trips(&t, room + notes);
  return true;
}
