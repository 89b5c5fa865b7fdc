/* Waiting for a latch, which is rare: few threads take memory of one device at once. */
#include "base/latch.h"

#include <sched.h>
#include <time.h>

#include "base/thread.h"

enum { SPINS = 100, YIELDS = 100, NAP_NS = 50000 };

void tsr__latch_wait(tsr__latch *latch)
{
  for (int turn = 0;; turn++) {
    /* Looked at before it is asked for: asking takes the line away from who is to open it. */
    if (!atomic_load_explicit(&latch->closed, memory_order_relaxed) &&
        !atomic_exchange_explicit(&latch->closed, true, memory_order_acquire))
      return;
    if (turn < SPINS) tsr__pause();
    else if (turn < SPINS + YIELDS) sched_yield();
    else nanosleep(&(struct timespec){ 0, NAP_NS }, NULL);
  }
}
