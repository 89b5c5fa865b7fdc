/* Whether the loops of a program hold in their last turns no more than in those from the third on:
 * bytes on devices, and nodes in scopes. A loop is a line that is met again in one runtime. Some
 * turn of the last quarter must hold no more nodes than some of the first half, and no more bytes
 * than some turn before. A pipeline whose threads read ahead is given the time to fill its batches
 * before each turn, so that a busy machine does not make a loop seem to grow. Bytes may rise again
 * by as much as they were seen to fall, which those of a loop that only grows never do. A program
 * with a loop that grows ends with a message and status 70. */
#include "support/turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "pipeline/pipeline_room.h"
#include "transform/transform.h"

enum { LINES = 64, TURNS = 2000 };

typedef struct held {
  int64_t bytes, nodes;
} held;

typedef struct line {
  const char *site;
  const tsr_runtime *rt;
  uint64_t seed; /* of the runtime: another one may have its address */
  int turns;
  held held[TURNS];
} line;

static line lines[LINES];
static int line_count;

/* False: a body is being traced, which is no turn of its own. */
static bool held_now(tsr_runtime *rt, held *out)
{
  held now = { 0, 0 };
  bool traces = false;
  for (int d = 0; d < tsr_device_count(rt); d++) now.bytes += tsr_device_memory(rt, d).now;
  pthread_mutex_lock(&rt->lock);
  for (int i = 0; i < TSR__SCOPE_LISTS; i++)
    for (tsr_scope *s = rt->open[i]; s; s = s->older) {
      now.nodes += s->node_count;
      traces |= s->body;
    }
  pthread_mutex_unlock(&rt->lock);
  *out = now;
  return !traces;
}

static void check_line(const line *l)
{
  int half = l->turns / 2 < 3 ? 3 : l->turns / 2, late = l->turns - l->turns / 4;
  if (l->turns < 4) return;
  held most = { 0, 0 }, least = { INT64_MAX, INT64_MAX };
  int64_t top = 0, fall = 0;
  for (int i = 2; i < l->turns; i++) {
    const held *now = &l->held[i];
    if (now->bytes > top) top = now->bytes;
    if (top - now->bytes > fall) fall = top - now->bytes;
    if (i < late && now->bytes > most.bytes) most.bytes = now->bytes;
    if (i < half && now->nodes > most.nodes) most.nodes = now->nodes;
    if (i >= late && now->bytes < least.bytes) least.bytes = now->bytes;
    if (i >= late && now->nodes < least.nodes) least.nodes = now->nodes;
  }
  if (least.bytes <= most.bytes + fall && least.nodes <= most.nodes) return;
  fprintf(stderr,
          "%s: a loop grows: %lld bytes on devices and %lld nodes in its last turns, %lld and "
          "%lld before\n",
          l->site, (long long)least.bytes, (long long)least.nodes, (long long)most.bytes,
          (long long)most.nodes);
  fflush(NULL);
  _exit(70);
}

static void check_lines(void)
{
  for (int i = 0; i < line_count; i++) check_line(&lines[i]);
}

static void met(tsr_runtime *rt, const char *site)
{
  int i = 0;
  held now;
  while (i < line_count && strcmp(lines[i].site, site)) i++;
  if (i == LINES || !held_now(rt, &now)) return;
  if (!line_count) atexit(check_lines);
  line *l = &lines[i];
  if (i == line_count) line_count++;
  if (l->rt != rt || l->seed != rt->heap.seed) {
    check_line(l);
    l->site = site, l->rt = rt, l->seed = rt->heap.seed, l->turns = 0;
  }
  if (l->turns < TURNS) l->held[l->turns++] = now;
}

void turns_scope(const tsr_scope *scope, const char *site)
{
  if (scope && !scope->inert) met(scope->rt, site);
}

void turns_call(const tsr_function *function, const char *site)
{
  const tsr_scope *scope = function ? function->node.scope : NULL;
  if (scope && !scope->inert) met(scope->rt, site);
}

/* Whether threads have nothing left to fill until the next batch is delivered. Threads that have
 * are woken: where batches are small they would sleep until all of them are delivered. */
static bool is_filled(tsr_pipeline *p)
{
  pthread_mutex_lock(&p->lock);
  bool filled = p->failed || p->opened == p->total || p->opened - p->delivered >= p->depth;
  for (int64_t n = p->delivered; n < p->opened && !p->failed; n++)
    filled = filled && p->trays[n % p->depth].ready;
  if (!filled) pthread_cond_broadcast(&p->work);
  pthread_mutex_unlock(&p->lock);
  return filled;
}

tsr_batch *turns_next(tsr_pipeline *pipeline, const char *site)
{
  enum { MOST_WAITS = 10000 }; /* of a millisecond each: a function of the program may not return */
  tsr_batch *batch = tsr_pipeline_next_at(pipeline, site);
  bool ahead = batch && pipeline->threads > 0;
  for (int i = 0; ahead && i < MOST_WAITS && !is_filled(pipeline); i++) usleep(1000);
  return batch;
}
