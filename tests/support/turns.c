/* Whether the loops of a program hold in their last turns no more than in those from the third on:
 * bytes on devices, and nodes in scopes. A loop is a line that is met again in one runtime. Some
 * turn of the last quarter must hold no more nodes than some of the first half, and no more bytes
 * than some turn before. Batches that threads read ahead come and go: bytes may rise again by as
 * much as they were seen to fall, which those of a loop that only grows never do. A program with a
 * loop that grows ends with a message and status 70. */
#include "support/turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "transform/transform.h"

enum { LINES = 64, TURNS = 2000, FEW = 8, MANY = 32 };

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

/* Whether bytes may have risen by batches that were read ahead alone. */
static bool may_be_ahead(const line *l)
{
  int rises = 0;
  for (int i = 3; i < l->turns; i++) rises += l->held[i].bytes > l->held[i - 1].bytes;
  return l->turns < FEW || (l->turns < MANY && rises * 4 < (l->turns - 3) * 3);
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
  bool bytes_stay = least.bytes <= most.bytes + fall || may_be_ahead(l);
  if (bytes_stay && least.nodes <= most.nodes) return;
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
