/* The table of powers of ten against long arithmetic: 5^q by multiplying, 2^n / 5^q by dividing. */
#include "base/powers.h"

#include "harness.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

enum { LIMBS = 20 };

/* The top 128 bits of a number of LIMBS limbs (little end first), cut off below. */
static void check_top(const uint64_t *limbs, int q)
{
  int n = LIMBS;
  while (limbs[n - 1] == 0) n--;
  int shift = __builtin_clzll(limbs[n - 1]);
  uint64_t a = limbs[n - 1], b = n > 1 ? limbs[n - 2] : 0, c = n > 2 ? limbs[n - 3] : 0;
  uint64_t high = shift ? a << shift | b >> (64 - shift) : a;
  uint64_t low = shift ? b << shift | c >> (64 - shift) : b;
  if (tsr__power_of(q).high != high || tsr__power_of(q).low != low)
    FAIL("10^%d is not what long arithmetic gives", q);
  /* 5^q below 2^(64 n - shift), and 10^q = 5^q * 2^q */
  if (q >= 0) CHECK_I64(tsr__power_log2(q), 64 * n - shift - 1 + q);
  else CHECK_I64(tsr__power_log2(q), 64 * n - shift - 1 + q - (64 * LIMBS - 1));
}

TEST(powers_are_those_of_long_arithmetic)
{
  uint64_t limbs[LIMBS] = { 1 };
  for (int q = 0; q <= TSR__POWER_MOST; q++) {
    check_top(limbs, q);
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
      wide product = (wide)limbs[i] * 5 + carry;
      limbs[i] = (uint64_t)product;
      carry = (uint64_t)(product >> 64);
    }
  }
  /* floor(floor(x / 5^k) / 5) = floor(x / 5^(k + 1)): dividing on loses nothing. */
  memset(limbs, 0, sizeof limbs);
  limbs[LIMBS - 1] = UINT64_C(1) << 63;
  for (int q = -1; q >= TSR__POWER_LEAST; q--) {
    uint64_t rest = 0;
    for (int i = LIMBS - 1; i >= 0; i--) {
      wide part = (wide)rest << 64 | limbs[i];
      limbs[i] = (uint64_t)(part / 5);
      rest = (uint64_t)(part % 5);
    }
    check_top(limbs, q);
  }
}
