/* The newest is taken first: it is the one that lies in the caches. The heap is asked and given to
 * without the latch, as it may be the user's. */
#include "base/spares.h"

#include "base/watched.h"

enum { MOST = 256 };

void *tsr__spares_take(tsr__spares *spares, tsr__heap *heap, size_t bytes)
{
  tsr__latch_close(&spares->latch);
  void *block = spares->first;
  if (block) {
    memcpy(&spares->first, block, sizeof spares->first);
    spares->count--;
  }
  tsr__latch_open(&spares->latch);
  return block ? block : tsr__new_raw(heap, bytes);
}

void tsr__spares_give(tsr__spares *spares, tsr__heap *heap, void *block, size_t bytes)
{
  if (!block) return;
  tsr__latch_close(&spares->latch);
  bool kept = !TSR__WATCHED && spares->count < MOST + spares->more;
  if (kept) {
    memcpy(block, &spares->first, sizeof spares->first);
    spares->first = block;
    spares->bytes = bytes;
    spares->count++;
  }
  tsr__latch_open(&spares->latch);
  if (!kept) tsr__del(heap, block, bytes);
}

void tsr__spares_free(tsr__spares *spares, tsr__heap *heap)
{
  for (void *block = spares->first, *next; block; block = next) {
    memcpy(&next, block, sizeof next);
    tsr__del(heap, block, spares->bytes);
  }
  *spares = (tsr__spares){ .count = 0 };
}
