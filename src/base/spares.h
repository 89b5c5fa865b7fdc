/* Blocks of one size that are gone, kept for who asks next: what small runs make then asks for no
 * memory. Zeroed memory is an empty list. Where a sanitizer watches memory nothing is kept, as that
 * would hide that somebody still uses it. */
#ifndef TSR_BASE_SPARES_H
#define TSR_BASE_SPARES_H

#include "base/base.h"
#include "base/latch.h"

typedef struct tsr__spares {
  tsr__latch latch;
  int count;
  int more;     /* blocks that are kept beyond the usual number */
  size_t bytes; /* of each */
  void *first;  /* linked through their first bytes */
} tsr__spares;

/* `bytes` is the same in all calls. Not zeroed; NULL when refused. */
void *tsr__spares_take(tsr__spares *spares, tsr__heap *heap, size_t bytes);
/* NULL is allowed. */
void tsr__spares_give(tsr__spares *spares, tsr__heap *heap, void *block, size_t bytes);
void tsr__spares_free(tsr__spares *spares, tsr__heap *heap);

#endif
