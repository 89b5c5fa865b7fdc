/* Places in programs that no compiler wrote down: a set of texts, each kept once until the runtime
 * closes, so that nodes of any scope and plans of any age may point to them.
 *
 * Invariant: a table of a power of two of slots, at most half of them taken; under the runtime's
 * lock. */
#include "base/base.h"

/* The slot of a text: the one that holds it, or the free one where it belongs. */
static char **slot_of(char **slots, size_t capacity, const char *text, uint64_t seed)
{
  size_t at = tsr__hash(text, strlen(text), seed) & (capacity - 1);
  while (slots[at] && strcmp(slots[at], text) != 0) at = (at + 1) & (capacity - 1);
  return &slots[at];
}

static bool grow(tsr_runtime *rt)
{
  tsr__sites *sites = &rt->sites;
  size_t capacity = sites->capacity ? 2 * sites->capacity : 64;
  char **slots = tsr__new(&rt->heap, capacity * sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < sites->capacity; i++)
    if (sites->slots[i])
      *slot_of(slots, capacity, sites->slots[i], rt->heap.seed) = sites->slots[i];
  tsr__del(&rt->heap, sites->slots, sites->capacity * sizeof *slots);
  sites->slots = slots;
  sites->capacity = capacity;
  return true;
}

static const char *keep(tsr_runtime *rt, const char *text)
{
  tsr__sites *sites = &rt->sites;
  if (2 * sites->count >= sites->capacity && !grow(rt)) return NULL;
  char **slot = slot_of(sites->slots, sites->capacity, text, rt->heap.seed);
  if (*slot) return *slot;
  size_t size = strlen(text) + 1;
  *slot = tsr__new_raw(&rt->heap, size);
  if (!*slot) return NULL;
  memcpy(*slot, text, size);
  sites->count++;
  return *slot;
}

const char *tsr_runtime_site(tsr_runtime *rt, const char *text)
{
  if (!rt || rt == &tsr__inert_runtime || !text) return NULL;
  pthread_mutex_lock(&rt->lock);
  const char *kept = keep(rt, text);
  pthread_mutex_unlock(&rt->lock);
  return kept;
}

void tsr__sites_free(tsr_runtime *rt)
{
  tsr__sites *sites = &rt->sites;
  for (size_t i = 0; i < sites->capacity; i++)
    if (sites->slots[i]) tsr__del(&rt->heap, sites->slots[i], strlen(sites->slots[i]) + 1);
  tsr__del(&rt->heap, sites->slots, sites->capacity * sizeof *sites->slots);
}
