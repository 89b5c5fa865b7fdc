/* Places in programs that no compiler wrote down: a set of texts, each kept once until the runtime
 * closes, so that nodes of any scope and plans of any age may point to them. Under the runtime's
 * lock. */
#include "base/base.h"

typedef struct site {
  tsr__branch branch; /* its hash is the text's */
  char text[];
} site;

/* Called under the lock. Where the text is not there yet: puts `fresh`, if there is one, and gives
 * that. */
static const site *look_up(tsr_runtime *rt, uint64_t hash, const char *text, site *fresh)
{
  tsr__branch **at = &rt->sites.top;
  for (uint64_t path = hash; *at; at = tsr__branch_below(*at, &path)) {
    const site *there = (const site *)*at;
    if (there->branch.hash == hash && !strcmp(there->text, text)) return there;
  }
  if (fresh) tsr__branch_put(&rt->sites, at, &fresh->branch);
  return fresh;
}

static const site *keep(tsr_runtime *rt, uint64_t hash, const char *text, site *fresh)
{
  pthread_mutex_lock(&rt->lock);
  const site *kept = look_up(rt, hash, text, fresh);
  pthread_mutex_unlock(&rt->lock);
  return kept;
}

/* NULL in, NULL out; and NULL where memory ended. Kept until the runtime closes, so a program that
 * makes ever new texts makes memory grow. Looked up first: most are seen again and again. */
const char *tsr_runtime_site(tsr_runtime *rt, const char *text)
{
  if (!rt || rt == &tsr__inert_runtime || !text) return NULL;
  size_t length = strlen(text) + 1, size = sizeof(site) + length;
  uint64_t hash = tsr__hash(text, length, rt->heap.seed);
  const site *kept = keep(rt, hash, text, NULL);
  if (kept) return kept->text;
  site *fresh = tsr__new(&rt->heap, size);
  if (!fresh) return NULL;
  fresh->branch.hash = hash;
  memcpy(fresh->text, text, length);
  kept = keep(rt, hash, text, fresh);
  if (kept != fresh) tsr__del(&rt->heap, fresh, size); /* another thread was sooner */
  return kept->text;
}

/* At close, when nothing that points to them is left. */
void tsr__sites_free(tsr_runtime *rt)
{
  for (tsr__branch *at = rt->sites.newest, *older; at; at = older) {
    older = at->older;
    tsr__del(&rt->heap, at, sizeof(site) + strlen(((site *)at)->text) + 1);
  }
}
