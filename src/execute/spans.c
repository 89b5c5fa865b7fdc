/* Steps of a run as the recorder has them: one event on the thread that runs the step, and one on
 * the lane of each device that has part in it.
 *
 *   host      |------ scan ----------------------|
 *              |- step -||- step -|
 *   device 0  |------ scan ----------------------|
 *              |dot| |tanh|                          a kernel: from the first task of the device's
 *   device 1   |dot|   |tanh|                        part to the last; others: as long as the step
 *
 * A kernel's name follows from the results that it stores and reduces. */
#include "execute/engine.h"

#include <stdio.h>

enum { NAMES = 4, NAME_BYTES = 120 };

/* The names of the results of a kernel or a combining step, "tanh, sum". */
typedef struct naming {
  const tsr__exec *exec;
  int count;
  size_t used;
  char text[NAME_BYTES];
  const char *site;
} naming;

/* A kernel of many results is named by its first few, and stands at the line of the last one. */
static void add_node_name(naming *n, int node)
{
  const tsr__program *program = n->exec->program;
  if (program->sites && program->sites[node]) n->site = program->sites[node];
  if (n->count++ >= NAMES || n->used >= NAME_BYTES) return;
  int more = snprintf(n->text + n->used, NAME_BYTES - n->used, "%s%s", n->count > 1 ? ", " : "",
                      tsr__ops[program->nodes[node].op].name);
  n->used += more > 0 ? (size_t)more : 0;
}

static void add_finals(naming *n, int accum)
{
  const tsr__schedule *schedule = &n->exec->plan->schedule;
  for (int f = schedule->first_final[accum]; f >= 0; f = schedule->next_final[f])
    add_node_name(n, f);
}

/* The plan's note of a node that crosses devices, or NULL. */
static const tsr__note *find_move_note(const tsr__exec *exec, int node)
{
  const tsr__partitioned *parts = &exec->plan->parts;
  for (int i = 0; i < parts->note_count; i++)
    if (parts->notes[i].node == node && parts->notes[i].bytes) return &parts->notes[i];
  return NULL;
}

/* Names a step; if the plan has a note of its traffic, the name of the collective follows. */
static void name_step(naming *n, const tsr__step *step, tsr__event *event)
{
  const tsr__schedule *schedule = &n->exec->plan->schedule;
  const tsr__note *note = NULL;
  event->kind = "move";
  if (step->kind == TSR__STEP_KERNEL) {
    const tsr__kernel_io *io = tsr__kernel_io_of(step->kernel);
    event->kind = "kernel";
    for (int i = 0; i < io->output_count; i++) add_node_name(n, io->outputs[i]);
    for (int i = 0; i < io->accum_count; i++) add_finals(n, io->accums[i]);
  } else if (step->kind == TSR__STEP_ALL_REDUCE) {
    n->used = (size_t)snprintf(n->text, NAME_BYTES, "combine ");
    for (int a = step->first; a < step->first + step->count; a++) {
      if (!note) note = find_move_note(n->exec, schedule->accums[a].node);
      add_finals(n, a);
    }
    if (!note) event->kind = "kernel";
  } else {
    note = find_move_note(n->exec, step->node);
    bool moves = step->kind < TSR__STEP_ROUTINE;
    if (!moves) event->kind = step->kind == TSR__STEP_LOOP ? "loop" : "routine";
    add_node_name(n, step->node);
  }
  if (note && n->used < NAME_BYTES)
    snprintf(n->text + n->used, NAME_BYTES - n->used, " (%s)", tsr__move_name(note->move));
  event->site = n->site;
  event->name = tsr_runtime_site(n->exec->rt, n->text);
}

/* A node of the step, which says which devices have part in it. */
static const tsr_sharding *find_step_sharding(const tsr__exec *exec, const tsr__step *step)
{
  const tsr__program *program = exec->program;
  int node = step->node;
  if (step->kind == TSR__STEP_KERNEL) node = tsr__kernel_io_of(step->kernel)->domain;
  if (step->kind == TSR__STEP_ALL_REDUCE) node = exec->plan->schedule.accums[step->first].node;
  const tsr__gnode *g = &program->nodes[node];
  return &program->shardings[g->result_count ? program->results[g->first_result].sharding
                                             : g->sharding];
}

/* Only while somebody records: the tasks of a kernel then write when a part was first and last at
 * work. */
void tsr__span_parts(tsr__exec *exec, int parts)
{
  exec->busy = NULL;
  if (!tsr__events_begin(exec->rt)) return;
  exec->busy = tsr__arena_new(exec->scratch, ((size_t)parts + 1) * sizeof *exec->busy);
}

void tsr__span_step(const tsr__exec *exec, const tsr__step *step, int64_t start, int64_t bytes)
{
  naming n = { .exec = exec };
  tsr__event event = {
    .device = -1, .start = start, .end = tsr__now(), .bytes = exec->traffic.bytes - bytes
  };
  name_step(&n, step, &event);
  if (!event.name) return; /* without memory it is not told */
  tsr__events_add(exec->rt, &event);
  event.bytes = 0; /* they are of all devices */
  const tsr_sharding *sharding = find_step_sharding(exec, step);
  const tsr__busy *busy = step->kind == TSR__STEP_KERNEL ? exec->busy : NULL;
  int positions = tsr__positions(sharding), part = 0;
  for (int p = 0; p < positions; p++) {
    tsr__event own = event;
    own.device = tsr__home_device(exec->rt, sharding, p);
    if (!tsr__device_local(tsr__topology_of(exec->rt), own.device)) continue;
    const tsr__busy *b = busy ? &busy[part++] : NULL;
    if (b && atomic_load(&b->first)) {
      own.start = atomic_load(&b->first);
      own.end = atomic_load(&b->last);
    }
    tsr__events_add(exec->rt, &own);
  }
}
