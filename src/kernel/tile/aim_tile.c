/* Indices made places. Each loop has one shape, which compilers turn into vectors. */
#include "kernel/tile/tile_inner.h"

/* One comparison for both ends: a negative index is large as an unsigned number. */
#define AIM(T)                                               \
  for (int64_t i = 0; i < n; i++) {                          \
    uint64_t index = (uint64_t)(int64_t)((const T *)at)[i];  \
    uint64_t behind = index >> 63 ? size : 0;                \
    outside |= index + size >= 2 * size ? 1 : 0;             \
    uint64_t from_start = index + behind - start;            \
    place[i] = from_start < here ? (int64_t)from_start : -1; \
  }

bool TSR__ISA_NAME(tsr__aim)(int64_t *restrict place, const void *restrict at, int64_t n,
                             const tsr__aiming *aim)
{
  const uint64_t size = (uint64_t)aim->size, start = (uint64_t)aim->start;
  const uint64_t here = (uint64_t)aim->here;
  uint64_t outside = 0;
  if (aim->narrow) AIM(int32_t)
  else AIM(int64_t)
  return !outside;
}
