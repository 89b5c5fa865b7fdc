/* Values made ready to be added to records, and tested whether records can hold them.
 *
 *   x = -1.5    field 1023, in units of 2^(1020 - 1075)    -(1.5 * 2^52 << 3)    |low 64|high 64|
 *
 * Invariant: a value that records cannot hold is 0 in units, so that records stay whole numbers.
 * Every loop has one shape, which compilers turn into vectors. */
#include "kernel/tile/tile_inner.h"

#define SIGN (UINT64_C(1) << 63)
#define INFINITE (UINT64_C(0x7ff) << 52)
#define HIDDEN (UINT64_C(1) << 52)

/* A mantissa of 53 bits is moved up by its exponent, as an integer of 128 bits in two words; a
 * negative one is all bits turned, and one more. */
bool TSR__ISA_NAME(tsr__units)(uint64_t *restrict low, uint64_t *restrict high,
                               const double *restrict x, int n, const tsr__unit *unit)
{
  const uint64_t base = (uint64_t)unit->low, width = (uint64_t)unit->width;
  const uint64_t finite = unit->special ? INFINITE : UINT64_MAX;
  const uint64_t zero = unit->special ? 0 : SIGN;
  uint64_t lost = 0;
  for (int i = 0; i < n; i++) {
    uint64_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    uint64_t minus = 0 - (bits >> 63), size = bits & ~SIGN, shift = (size >> 52) - base;
    uint64_t held = shift <= width ? UINT64_MAX : 0;
    uint64_t mantissa = ((bits & (HIDDEN - 1)) | HIDDEN) & held;
    uint64_t down = mantissa << (shift & 63), up = mantissa >> 1 >> (63 - (shift & 63));
    low[i] = (down ^ minus) - minus;
    high[i] = (up ^ minus) + (down ? 0 : minus & 1);
    lost |= (size && size < finite ? UINT64_MAX : bits & zero) & ~held;
  }
  return !lost;
}

/* A negative x counts as -1 - x. All are joined by `or`, which is no larger than a `most` of ones
 * where each is not. */
bool TSR__ISA_NAME(tsr__within)(const int64_t *x, int n, int64_t most)
{
  uint64_t sizes = 0;
  for (int i = 0; i < n; i++) sizes |= (uint64_t)(x[i] ^ (x[i] >> 63));
  return sizes <= (uint64_t)most;
}
