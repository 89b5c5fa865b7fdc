/* A permutation in constant memory: a Feistel network over two digits of mixed radix (Morris,
 * Rogaway and Stegers, 2009, have its kind).
 *
 *   x = high digit * low + low digit          high * low >= count, by less than `low`
 *   a round: one digit += f(other digit, key), modulo its radix, then the other one's turn
 *
 * A round undoes itself by subtracting, so all rounds are a bijection of [0, high * low). What
 * lands at or past `count` goes through again until it does not: the cycle that begins below
 * `count` comes back there, so what remains is a bijection of [0, count). Fewer than one in
 * sqrt(count) goes through twice.
 *
 * Rounds run over lanes of positions (kernel/tile/rounds.h), so that the multiplications of one
 * hide behind the others. */
#include "pipeline/permute.h"

__extension__ typedef unsigned __int128 wide;

enum { LANES = 128, SMALL = 1024, ROUNDS = 6 };

uint64_t tsr__mix(uint64_t a, uint64_t b)
{
  /* The finaliser of SplitMix64, twice: `a` must not cancel against `b`. */
  for (int i = 0; i < 2; i++) {
    a += UINT64_C(0x9E3779B97F4A7C15) + (i ? b : 0);
    a = (a ^ a >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    a = (a ^ a >> 27) * UINT64_C(0x94D049BB133111EB);
    a ^= a >> 31;
  }
  return a;
}

/* The least a with a * a >= n, for n below 2^62. */
static uint64_t root_above(uint64_t n)
{
  uint64_t low = 1, high = UINT64_C(1) << 31;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (middle * middle >= n) high = middle;
    else low = middle + 1;
  }
  return low;
}

void tsr__permutation_make(tsr__permutation *p, const char *isa, uint64_t count, uint64_t seed,
                           uint64_t epoch)
{
  uint64_t low = root_above(count), key = tsr__mix(seed, epoch);
  /* A round turns digits in circles, which are even permutations where all radices are odd: then
   * only what goes through again makes odd ones. Of whole squares nothing does, and of few records
   * it is nearly always the same number. */
  uint64_t rows = low ? (count + low - 1) / low : 0;
  if (low > 1 && low % 2 && rows % 2 && (count < SMALL || low * low == count)) low++;
  tsr__rounds *r = &p->rounds;
  p->count = count;
  p->inverse = low > 1 ? UINT64_MAX / low : 0;
  p->run = tsr__rounds_of(isa);
  r->low = (uint32_t)low;
  r->high = count ? (uint32_t)((count + low - 1) / low) : 1;
  /* Digits of a few values mix little in a round. */
  r->count = count < SMALL ? TSR__MOST_ROUNDS : ROUNDS;
  for (int i = 0; i < r->count; i++) r->key[i] = (uint32_t)(tsr__mix(key, (uint64_t)i) >> 32);
}

static inline uint64_t divide(const tsr__permutation *p, uint64_t x)
{
  if (!p->inverse) return x;
  /* The inverse is rounded down, so the quotient is right or one too small. */
  uint64_t q = (uint64_t)((wide)x * p->inverse >> 64);
  return q + (x - q * p->rounds.low >= p->rounds.low);
}

static void permute_lanes(const tsr__permutation *p, const int64_t *from, int64_t *to, int lanes)
{
  uint32_t high[LANES], low[LANES], radix = p->rounds.low;
  for (int i = 0; i < lanes; i++) {
    uint64_t x = (uint64_t)from[i], q = divide(p, x);
    high[i] = (uint32_t)q;
    low[i] = (uint32_t)(x - q * radix);
  }
  p->run(&p->rounds, high, low, lanes);
  for (int i = 0; i < lanes; i++) {
    uint64_t x = (uint64_t)high[i] * radix + low[i];
    while (x >= p->count) {
      p->run(&p->rounds, &high[i], &low[i], 1);
      x = (uint64_t)high[i] * radix + low[i];
    }
    to[i] = (int64_t)x;
  }
}

void tsr__permute(const tsr__permutation *p, const int64_t *from, int64_t *to, int64_t n)
{
  for (int64_t at = 0; at < n; at += LANES)
    permute_lanes(p, from + at, to + at, n - at < LANES ? (int)(n - at) : LANES);
}
