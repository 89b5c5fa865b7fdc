/* Sums of integers in 128 bits, compiled once for each instruction set.
 *
 * A tile of 64-bit integers is added twice: wrapped to 64 bits, and its upper halves. The upper
 * halves say how large the sum is to within 2^42, the wrapped sum then says which one it is. */
#include "kernel/exact/exact_lanes.h"

INLINE int64_t across_bits(vi value)
{
  uint64_t sum = 0;
  for (int i = 0; i < LANES; i++) sum += (uint64_t)value[i];
  return (int64_t)sum;
}

/* Unsigned, because the wrapped sum is meant to wrap.
 *
 *    value          upper 32 bits | lower 32 bits
 *    upper          sum of the upper halves: off by less than n * 2^32, n <= 1,024 values
 *    wrapped        the sum modulo 2^64 */
typedef struct halves {
  vu wrapped;
  vi upper;
} halves;

/* `value >> 32` rounds down, so the true sum lies between base and base + 2^42: only one number in
 * that range agrees with `wrapped` modulo 2^64. */
INLINE void halves_add(halves *h, vi value)
{
  h->wrapped += (vu)value;
  h->upper += value >> 32;
}

INLINE unsigned mask_lanes_at(const uint64_t *mask, int i)
{
  return mask ? (unsigned)(mask[i >> 6] >> (i & 63)) : ~0u;
}

void TSR__ISA_NAME(tsr__sum_i64)(tsr__i128 *sum, const int64_t *x, int n, const uint64_t *mask)
{
  halves h[2] = { { { 0 }, { 0 } }, { { 0 }, { 0 } } };
  int i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    vi one = load_i64(x + i), two = load_i64(x + i + LANES);
    unsigned bits = mask_lanes_at(mask, i);
    halves_add(&h[0], mask ? keep_bits(mask_of_bits(bits), one) : one);
    halves_add(&h[1], mask ? keep_bits(mask_of_bits(bits >> LANES), two) : two);
  }
  for (; i < n; i += LANES) {
    vi value = n - i < LANES ? load_some_i64(x + i, n - i) : load_i64(x + i);
    halves_add(&h[0], keep_bits(mask_of_bits(mask_lanes_at(mask, i)), value));
  }
  tsr__i128 base = (tsr__i128)across_bits(h[0].upper + h[1].upper) * ((int64_t)1 << 32);
  uint64_t wrapped = (uint64_t)across_bits((vi)(h[0].wrapped + h[1].wrapped));
  /* wrapped - base, modulo 2^64, is that distance. */
  *sum += base + (tsr__i128)(wrapped - (uint64_t)base);
}

void TSR__ISA_NAME(tsr__sum_i32)(tsr__i128 *sum, const int32_t *x, int n, const uint64_t *mask)
{
  vi total = { 0 };
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    vi value = load_i32(x + i);
    total += mask ? keep_bits(mask_of_bits(mask_lanes_at(mask, i)), value) : value;
  }
  if (i < n) total += keep_bits(mask_of_bits(mask_lanes_at(mask, i)), load_some_i32(x + i, n - i));
  /* 1,024 values of 32 bits fit 64. */
  *sum += across_bits(total);
}

void TSR__ISA_NAME(tsr__spread_i64)(tsr__int_spread *out, const int64_t *x, int n,
                                    const uint64_t *mask)
{
  TSR__ISA_NAME(tsr__sum_i64)(&out->sum, x, n, mask);
  /* Squares of i64 need 128 bits, which no vector multiplies: one by one. */
  for (int i = 0; i < n; i++)
    if (mask_lanes_at(mask, i) & 1) tsr__isq_add(&out->squares, x[i]);
}

void TSR__ISA_NAME(tsr__spread_i32)(tsr__int_spread *out, const int32_t *x, int n,
                                    const uint64_t *mask)
{
  tsr__u128 squares = 0;
  TSR__ISA_NAME(tsr__sum_i32)(&out->sum, x, n, mask);
  for (int i = 0; i < n; i++) {
    int64_t value = mask_lanes_at(mask, i) & 1 ? x[i] : 0;
    squares += (uint64_t)(value * value);
  }
  tsr__isq more = { { (uint64_t)squares, (uint64_t)(squares >> 64), 0 } };
  tsr__isq_merge(&out->squares, &more);
}
