/* A lock for a handful of instructions that call nobody: one exchange to close it and a store to
 * open it, half of what a mutex takes. Zeroed memory is an open one, and there is nothing to be
 * freed. Who holds one may be taken off its core meanwhile: those who wait first spin, then let
 * others run, and at last sleep, so that also a thread that goes before all others lets the holder
 * come to an end. */
#ifndef TSR_BASE_LATCH_H
#define TSR_BASE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct tsr__latch {
  _Atomic bool closed;
} tsr__latch;

void tsr__latch_wait(tsr__latch *latch);

static inline void tsr__latch_close(tsr__latch *latch)
{
  if (atomic_exchange_explicit(&latch->closed, true, memory_order_acquire)) tsr__latch_wait(latch);
}

static inline void tsr__latch_open(tsr__latch *latch)
{
  atomic_store_explicit(&latch->closed, false, memory_order_release);
}

#endif
