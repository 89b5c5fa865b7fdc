/* Powers of ten in 128 bits, for reading and writing decimal numbers.
 *
 *   10^q = (T + d) * 2^e     T = high:low with its top bit set, 0 <= d < 1; d = 0 for 0 <= q <= 55
 */
#ifndef TSR_BASE_POWERS_H
#define TSR_BASE_POWERS_H

#include <stdint.h>

enum { TSR__POWER_LEAST = -342, TSR__POWER_MOST = 324, TSR__POWER_EXACT = 55 };

typedef struct tsr__power {
  uint64_t high, low;
} tsr__power;

extern const tsr__power tsr__powers[TSR__POWER_MOST - TSR__POWER_LEAST + 1];

/* T of 10^q. */
static inline tsr__power tsr__power_of(int q)
{
  return tsr__powers[q - TSR__POWER_LEAST];
}

/* floor(log2(10^q)) = e + 127; the factor is log2(10) * 2^19. */
static inline int tsr__power_log2(int q)
{
  return q * 1741647 >> 19;
}

#endif
