/* Exact sums of a few values each, compiled once for each instruction set: a value of each of some
 * rows, nothing kept in memory between them.
 *
 *     f32   one f64 takes all of them, or the element is left
 *     f64   two: what the first could not take the second takes whole, or the element is left;
 *           both are then added, which rounds once
 *
 * Invariant: what is written is what an accumulator would give, -0 included, which is the sum of
 * nothing but -0. Infinities, NaN and what overflows on the way leave remainders that are not 0. */
#include "kernel/exact/exact_lanes.h"

/* The lanes of a step that lie in front of the end. */
INLINE unsigned inside(int left)
{
  return left < LANES ? (1u << left) - 1 : (1u << LANES) - 1;
}

/* Which lanes a + value is without loss in: the smaller one in size comes back whole if the other
 * is taken away, and then so does the larger one. */
INLINE vm takes_both(vd a, vd value, vd sum)
{
  return both(equal(sum - a, value), equal(sum - value, a));
}

INLINE void put(double *out, int left, vd value)
{
  if (left >= LANES) store(out, value);
  else
    for (int i = 0; i < LANES; i++)
      if (i < left) out[i] = value[i];
}

/* A step begins at a multiple of LANES, which divides 64. */
INLINE void leave(uint64_t *left, int i, unsigned bits)
{
  left[i >> 6] |= (uint64_t)bits << (i & 63);
}

void TSR__ISA_NAME(tsr__few_f32)(double *out, uint64_t *left, const tsr__few *x)
{
  memset(left, 0, ((size_t)x->n + 63) / 64 * sizeof *left);
  for (int i = 0; i < x->n; i += LANES) {
    int rest = x->n - i;
    vd sum = all(-0.0);
    vm good = choose((1u << LANES) - 1);
    for (int k = 0; k < x->count; k++) {
      const float *from = (const float *)x->x[k] + i;
      vd value = rest < LANES ? load_some_f32(from, rest) : load_f32(from), next = sum + value;
      good = both(good, takes_both(sum, value, next));
      sum = next;
    }
    put(out + i, rest, sum);
    leave(left, i, ~chosen(good) & inside(rest));
  }
}

/* As tsr__two_sum, a lane each. */
INLINE vd two_sum(vd a, vd b, vd *low)
{
  vd sum = a + b;
  vd part = sum - a;
  *low = (a - (sum - part)) + (b - part);
  return sum;
}

void TSR__ISA_NAME(tsr__few_f64)(double *out, uint64_t *left, const tsr__few *x)
{
  memset(left, 0, ((size_t)x->n + 63) / 64 * sizeof *left);
  for (int i = 0; i < x->n; i += LANES) {
    int rest = x->n - i;
    vd high = all(-0.0), low = all(0.0), none = all(0.0);
    vm good = choose((1u << LANES) - 1);
    for (int k = 0; k < x->count; k++) {
      const double *from = (const double *)x->x[k] + i;
      vd value = rest < LANES ? load_some(from, rest) : load(from), lost, more;
      high = two_sum(high, value, &lost);
      low = two_sum(low, lost, &more);
      good = both(good, equal(more, none));
    }
    /* Adding +0 would make +0 of -0. */
    put(out + i, rest, pick(equal(low, none), high, high + low));
    leave(left, i, ~chosen(good) & inside(rest));
  }
}
