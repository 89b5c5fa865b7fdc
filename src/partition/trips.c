/* Trips: movements of one kind, over the same axes of one mesh, travel together if they can be made
 * at one time. Such movements are one step of the schedule and one collective. A movement that
 * takes memory waits for its first user.
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
 * order the kernels that read them (tsr__meeting_stages).
 *
 *   late        a movement whose result takes more memory than its operand, such as the gather of
 *               a layer's weights: its time is the last before its first user
 *
 *       c   ......|--|            a late one is made early with another of its kind if all that
 *       d   .........|--|         wait so take at most EARLY_BYTES: a weight of a million elements
 *                                 alone, hundreds of short biases together */
#include "partition/flow.h"

#include <limits.h>
#include <stdlib.h>

/* The memory of a device that may be taken before it is needed: about the bytes that travel in the
 * time that a collective takes to begin. */
enum { EARLY_BYTES = 32 << 10 };

/* A note that moves elements from place to place, alone or with others of its kind. */
typedef struct trip {
  int64_t time;
  int64_t growth; /* bytes that it adds to the memory of a device */
  int32_t note;
  int32_t with; /* the trip at whose time it is made; it may be itself */
  /* A late trip that others are made with has: */
  int64_t made;    /* the time of all */
  int64_t ready;   /* the earliest time at which all can be made */
  int64_t waiting; /* growth of those that are needed later than at that time, */
  int64_t needed;  /* and of those that are needed then */
} trip;

typedef struct trips {
  tsr__partitioned *out;
  int *stage, *meets;
  int64_t *time, *until; /* by node: its earliest time, and the time of its first user */
  bool *moves;           /* by node: it is a trip's */
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

/* Reductions read their operands before they meet. */
static int64_t reading_time(const trips *t, int n)
{
  return t->meets[n] != t->stage[n] ? begin_of(t, t->stage[n]) : t->time[n];
}

/* Whether a note is a movement that could be made with others. */
static bool can_join(const tsr__partitioned *out, const tsr__note *note)
{
  if (note->cause == TSR__CAUSE_REDUCED || note->bytes <= 0) return false;
  return tsr__ops[out->program.nodes[note->node].op].moves || note->move == TSR__MOVE_EXCHANGE;
}

/* Finds the first users, `moves`: movements among them. Those can wait themselves, so join_trips
 * limits one by another. */
static void find_reading_times(trips *t, bool moves)
{
  const tsr__program *program = &t->out->program;
  for (int n = 0; n < program->node_count; n++) t->until[n] = INT64_MAX;
  for (int n = 0; n < program->node_count; n++) {
    int64_t time = reading_time(t, n);
    TSR_FOR_OPERANDS (program, &program->nodes[n], i, o)
      if ((moves || !t->moves[n]) && time < t->until[o]) t->until[o] = time;
  }
}

/* ---- late ones ------------------------------------------------------------------------------- */

int64_t tsr__move_growth(const tsr__program *program, int n)
{
  const tsr__gnode *node = &program->nodes[n];
  if (node->op != TSR__OP_RESHARD) return 0;
  return tsr__node_device_bytes(program, n) -
         tsr__node_device_bytes(program, tsr__in(program, node, 0));
}

/* Marks late movements: those that take memory, whose operand is no movement itself, and whose
 * result somebody reads. Returns whether there is one. */
static bool mark_late(trips *t)
{
  const tsr__program *program = &t->out->program;
  bool any = false;
  find_reading_times(t, false);
  for (int k = 0; k < t->count; k++) {
    int n = t->out->notes[t->list[k].note].node;
    tsr__gnode *node = &t->out->program.nodes[n];
    bool late = t->list[k].growth > 0 && t->until[n] < INT64_MAX;
    TSR_FOR_OPERANDS (program, node, i, o) late = late && !t->moves[o];
    if (late) node->flags |= TSR__LATE;
    any = any || late;
  }
  return any;
}

static bool trip_is_late(const trips *t, const trip *one)
{
  return t->out->program.nodes[t->out->notes[one->note].node].flags & TSR__LATE;
}

/* The times at which each late movement can be made first, and last. */
static void find_late_times(trips *t)
{
  const tsr__program *program = &t->out->program;
  for (int k = 0; k < t->count; k++) {
    trip *mine = &t->list[k];
    const tsr__gnode *node = &program->nodes[t->out->notes[mine->note].node];
    mine->ready = 0;
    TSR_FOR_OPERANDS (program, node, i, o)
      if (t->time[o] >= mine->ready) mine->ready = t->time[o] + 1;
  }
  find_reading_times(t, true);
  for (int k = 0; k < t->count; k++) {
    trip *mine = &t->list[k];
    if (trip_is_late(t, mine)) mine->time = t->until[t->out->notes[mine->note].node] - 1;
  }
}

/* Joins a late trip with later ones of its kind, if these can be made so early. */
static bool join_late(trip *with, const trip *mine)
{
  int64_t waiting = with->waiting + (mine->time < with->made ? with->needed : 0);
  if (with->ready > mine->time || waiting > EARLY_BYTES) return false;
  with->needed = mine->growth + (mine->time < with->made ? 0 : with->needed);
  with->waiting = waiting;
  with->made = mine->time;
  if (mine->ready > with->ready) with->ready = mine->ready;
  return true;
}

/* ---- company --------------------------------------------------------------------------------- */

/* Whether two trips are of one kind. Views and reshards are not: exchanges of views are explained
 * and made by rules of their own. */
static bool same_kind(const trips *t, const trip *a, const trip *b)
{
  const tsr__note *x = &t->out->notes[a->note], *y = &t->out->notes[b->note];
  const tsr__gnode *nodes = t->out->program.nodes;
  bool work = tsr__same_work(nodes[x->node].op, nodes[y->node].op);
  bool wait = trip_is_late(t, a) == trip_is_late(t, b);
  return x->move == y->move && x->axes == y->axes && x->mesh == y->mesh && work && wait;
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

/* Joins an early trip with the newest of its kind, if its users can wait. */
static bool join_early(trips *t, const trip *newest, const trip *mine)
{
  return newest->time < t->until[t->out->notes[mine->note].node];
}

/* Joins each trip with the newest of its kind if it can. `newest`: the last trip of each kind;
 * kinds are few. */
static void join_trips(trips *t, int32_t *newest)
{
  const tsr__program *program = &t->out->program;
  int kinds = 0;
  for (int i = 0; i < t->count; i++) {
    trip *mine = &t->list[i];
    int n = t->out->notes[mine->note].node, kind = 0;
    while (kind < kinds && !same_kind(t, &t->list[newest[kind]], mine)) kind++;
    trip *last = kind < kinds ? &t->list[newest[kind]] : NULL;
    bool late = trip_is_late(t, mine);
    bool found = last && (late ? join_late(last, mine) : join_early(t, last, mine));
    mine->with = found ? newest[kind] : i;
    mine->made = mine->time;
    mine->needed = mine->growth;
    newest[kind] = mine->with;
    kinds += kind == kinds;
    int64_t at = t->list[mine->with].time;
    TSR_FOR_OPERANDS (program, &program->nodes[n], k, o)
      if (!late && at < t->until[o]) t->until[o] = at;
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
static void list_trips(trips *t)
{
  const tsr__partitioned *out = t->out;
  for (int i = 0; i < out->note_count; i++) {
    int n = out->notes[i].node;
    if (!can_join(out, &out->notes[i])) continue;
    t->moves[n] = true;
    t->list[t->count++] = (trip){ .note = i, .growth = tsr__move_growth(&out->program, n) };
  }
}

/* Late movements have other stages than those by which notes were made, and so have the nodes that
 * wait with them. */
static void find_late_stages(trips *t)
{
  tsr__stages(&t->out->program, t->stage);
  tsr__meeting_stages(&t->out->program, t->stage, t->meets);
  find_times(t);
}

bool tsr__trips(tsr__partitioned *out, int *stage, int *meets, tsr__arena *arena)
{
  size_t nodes = (size_t)out->program.node_count + 1, notes = (size_t)out->note_count + 1;
  trips t = { .out = out, .stage = stage, .meets = meets };
  int32_t *room = tsr__arena_new(arena, 2 * notes * sizeof *room);
  t.moves = tsr__arena_new(arena, nodes * sizeof *t.moves);
  t.time = tsr__arena_new(arena, 2 * nodes * sizeof *t.time);
  t.list = tsr__arena_new(arena, notes * sizeof *t.list);
  if (!t.moves || !room || !t.time || !t.list) return false;
  t.until = t.time + nodes;
  list_trips(&t);
  find_times(&t);
  bool late = mark_late(&t);
  if (late) find_late_stages(&t);
  for (int i = 0; i < t.count; i++) t.list[i].time = t.time[out->notes[t.list[i].note].node];
  if (late) find_late_times(&t);
  find_reading_times(&t, false);
  qsort(t.list, (size_t)t.count, sizeof *t.list, by_time);
  join_trips(&t, room);
  tie_trips(&t, room + notes);
  return true;
}
