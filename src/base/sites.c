/* Places in programs that no compiler wrote down: a set of texts, each kept once until the runtime
 * closes, so that nodes of any scope and plans of any age may point to them. Under the runtime's
 * lock. */
#include "base/base.h"

/* Looks the text up first: most sites are seen again and again. */
static const char *keep(tsr_runtime *rt, const char *text)
{
  tsr__sites *sites = &rt->sites;
  size_t size = strlen(text) + 1;
  uint64_t hash = tsr__hash(text, size, rt->heap.seed);
  int32_t at;
  /* Zeros until the first text, so there is nothing to open. */
  sites->table.heap = &rt->heap;
  TSR_FOR_HASHED (&sites->table, hash, at)
    if (!strcmp(sites->text[at], text)) return sites->text[at];
  at = sites->table.count;
  if (!tsr__grow(&rt->heap, (void **)&sites->text, &sites->capacity, (size_t)at + 1,
                 sizeof(char *)))
    return NULL;
  char *kept = tsr__new_raw(&rt->heap, size);
  if (!kept) return NULL;
  /* Last, as it is what makes the text count. */
  if (!tsr__table_add(&sites->table, hash, at)) {
    tsr__del(&rt->heap, kept, size);
    return NULL;
  }
  memcpy(kept, text, size);
  return sites->text[at] = kept;
}

/* NULL in, NULL out; and NULL where memory ended. Kept until the runtime closes, so a program that
 * makes ever new texts makes memory grow. */
const char *tsr_runtime_site(tsr_runtime *rt, const char *text)
{
  if (!rt || rt == &tsr__inert_runtime || !text) return NULL;
  pthread_mutex_lock(&rt->lock);
  const char *kept = keep(rt, text);
  pthread_mutex_unlock(&rt->lock);
  return kept;
}

/* At close, when nothing that points to them is left. */
void tsr__sites_free(tsr_runtime *rt)
{
  tsr__sites *sites = &rt->sites;
  for (int32_t i = 0; i < sites->table.count; i++)
    tsr__del(&rt->heap, sites->text[i], strlen(sites->text[i]) + 1);
  tsr__del(&rt->heap, sites->text, sites->capacity * sizeof *sites->text);
  tsr__table_free(&sites->table);
}
