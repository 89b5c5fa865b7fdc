/* Exact sums of a few values each, compiled once for each instruction set: a value of each of some
 * rows, nothing kept in memory between them.
 *
 *     f32   one f64 takes all of them, which their exponents say at once or each addition shows,
 *           or the element is left; two of them, whose sum is wanted in f32, the machine adds and
 *           rounds once
 *     f64   two: the second takes the rest of the first whole, or the element is left;
 *           both are then added, which rounds once
 *
 * Invariant: the written sum is the one that an accumulator would give, -0 included, which is the
 * sum of nothing but -0. Infinities, NaN and overflows on the way leave remainders that are not
 * 0. */
#include "kernel/exact/exact_lanes.h"

/* The lanes of a step that lie in front of the end. */
INLINE unsigned lanes_before_end(int left)
{
  return left < LANES ? (1u << left) - 1 : (1u << LANES) - 1;
}

/* Which lanes a + value is without loss in: the smaller one in size comes back whole if the other
 * is taken away, and then so does the larger one. */
INLINE vm takes_both(vd a, vd value, vd sum)
{
  return both_masks(equal(sum - a, value), equal(sum - value, a));
}

INLINE void put_lane_values(double *out, int left, vd value)
{
  if (left >= LANES) store_doubles(out, value);
  else
    for (int i = 0; i < LANES; i++)
      if (i < left) out[i] = value[i];
}

/* A step begins at a multiple of LANES, which divides 64. */
INLINE void leave_lanes(uint64_t *left, int i, unsigned bits)
{
  left[i >> 6] |= (uint64_t)bits << (i & 63);
}

/* The lanes from `i` on, `rest` of them at most, added one by one; those with a loss are left. */
INLINE vd add_careful(const tsr__few *x, int i, int rest, uint64_t *left)
{
  vd sum = all(-0.0);
  vm good = mask_of_bits((1u << LANES) - 1);
  for (int k = 0; k < x->count; k++) {
    const float *from = (const float *)x->x[k] + i;
    vd value = rest < LANES ? load_some_f32(from, rest) : load_floats(from), next = sum + value;
    good = both_masks(good, takes_both(sum, value, next));
    sum = next;
  }
  leave_lanes(left, i, ~chosen(good) & lanes_before_end(rest));
  return sum;
}

/* Sizes of f32 twice as wide as lanes of f64, and the order of numbers: bits moved up by the sign.
 *
 *   sums of n values of exponents e .. E are whole numbers of 2^(e - 23), below n 2^(E + 1):
 *   f64, which holds 53 bits, holds them if E - e <= 29 - log2 n */
typedef struct sizes {
  vw most, least; /* least: less 1, so that 0, which any sum takes, is the most there is */
} sizes;

INLINE sizes take_sizes(sizes all, const float *from)
{
  vw bits;
  memcpy(&bits, from, sizeof bits);
  bits += bits;
  return (sizes){ larger_words(all.most, bits), lesser(all.least, bits - 1) };
}

/* Whether exponents of all lanes lie close enough, and no lane has that of infinities and NaN. */
INLINE bool lie_close(sizes all, uint32_t room)
{
  vw far = (all.most >> 24) - ((all.least + 1) >> 24);
  return !any_beyond(far, room) && !any_beyond(all.most, 0xfeffffff);
}

enum { WIDE = 2 * LANES };

/* Sums of WIDE elements each: fast where sizes say that nothing can be lost. */
INLINE void add_wide(const tsr__few *x, int i, uint32_t room, vd sum[2], uint64_t *left)
{
  vw none = { 0 };
  sizes of = { none, ~none };
  sum[0] = sum[1] = all(-0.0);
  for (int k = 0; k < x->count; k++) {
    const float *from = (const float *)x->x[k] + i;
    of = take_sizes(of, from);
    sum[0] += load_floats(from);
    sum[1] += load_floats(from + LANES);
  }
  if (lie_close(of, room)) return;
  sum[0] = add_careful(x, i, LANES, left);
  sum[1] = add_careful(x, i + LANES, LANES, left);
}

/* How far exponents may lie from each other. */
INLINE uint32_t lanes_room(int count)
{
  uint32_t room = 29;
  for (int n = 1; n < count; n *= 2) room--;
  return room;
}

void TSR__ISA_NAME(tsr__few_f32)(double *out, uint64_t *left, const tsr__few *x)
{
  uint32_t room = lanes_room(x->count);
  int i = 0;
  memset(left, 0, ((size_t)x->n + 63) / 64 * sizeof *left);
  for (; i + WIDE <= x->n; i += WIDE) {
    vd sum[2];
    add_wide(x, i, room, sum, left);
    store_doubles(out + i, sum[0]);
    store_doubles(out + i + LANES, sum[1]);
  }
  for (; i < x->n; i += LANES)
    put_lane_values(out + i, x->n - i, add_careful(x, i, x->n - i, left));
}

typedef float wide_floats __attribute__((vector_size(sizeof(vw))));

/* Sums of two as the machine rounds them, which is right but for the bits of NaN; sums that are NaN
 * or too large are left. Returns how many elements are done. */
INLINE int add_two_rows(float *out, uint64_t *left, const tsr__few *x)
{
  const float *one = x->x[0], *two = x->x[1];
  int i = 0;
  for (; i + WIDE <= x->n; i += WIDE) {
    wide_floats a, b;
    memcpy(&a, one + i, sizeof a);
    memcpy(&b, two + i, sizeof b);
    a += b;
    vw bits;
    memcpy(&bits, &a, sizeof bits);
    memcpy(out + i, &a, sizeof a);
    bits += bits;
    if (!any_beyond(bits, 0xfeffffff)) continue;
    for (int e = 0; e < WIDE; e++)
      if (bits[e] > 0xfeffffff) leave_lanes(left, i + e, 1);
  }
  return i;
}

void TSR__ISA_NAME(tsr__few_to_f32)(float *out, uint64_t *left, const tsr__few *x, double scale)
{
  uint32_t room = lanes_room(x->count);
  vd by = all(scale);
  int i = 0;
  memset(left, 0, ((size_t)x->n + 63) / 64 * sizeof *left);
  if (x->count == 2 && scale == 1) i = add_two_rows(out, left, x);
  for (; i + WIDE <= x->n; i += WIDE) {
    vd sum[2];
    add_wide(x, i, room, sum, left);
    store_floats(out + i, sum[0] * by);
    store_floats(out + i + LANES, sum[1] * by);
  }
  for (; i < x->n; i += LANES) {
    vd sum = add_careful(x, i, x->n - i, left) * by;
    for (int e = 0; e < LANES && i + e < x->n; e++) out[i + e] = (float)sum[e];
  }
}

void TSR__ISA_NAME(tsr__few_f64)(double *out, uint64_t *left, const tsr__few *x)
{
  memset(left, 0, ((size_t)x->n + 63) / 64 * sizeof *left);
  for (int i = 0; i < x->n; i += LANES) {
    int rest = x->n - i;
    vd high = all(-0.0), low = all(0.0), none = all(0.0);
    vm good = mask_of_bits((1u << LANES) - 1);
    for (int k = 0; k < x->count; k++) {
      const double *from = (const double *)x->x[k] + i;
      vd value = rest < LANES ? load_some_doubles(from, rest) : load_doubles(from), lost, more;
      high = two_sum_of_lanes(high, value, &lost);
      low = two_sum_of_lanes(low, lost, &more);
      good = both_masks(good, equal(more, none));
    }
    /* Adding +0 would make +0 of -0. */
    put_lane_values(out + i, rest, pick_lanes(equal(low, none), high, high + low));
    leave_lanes(left, i, ~chosen(good) & lanes_before_end(rest));
  }
}
