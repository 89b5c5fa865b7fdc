/* Sums of integers at places, and how they get to exact_rows.h. Invariant: the sum of a place is
 * rows' and sum * unit together; |sum| <= added * 2^40 stays below 2^62. */
#include "kernel/exact/exact_bins.h"

enum { BLOCK = TSR__BINS_BLOCK, MOST_ADDED = 1 << 22, ROOM = 40 };

void tsr__bins_init(tsr__bins *b, const tsr__exact_ops *ops, tsr__heap *heap, void *memory,
                    int64_t count)
{
  *b = (tsr__bins){ .ops = ops, .unit = 1 };
  tsr__rows_over(&b->rows, heap, memory, count);
  b->sum = (int64_t *)(void *)((char *)memory + tsr__rows_bytes(count));
  /* One more in front: a place of -1, nowhere, is a sum that is never read, so adding needs no
   * branch. */
  memset(b->sum++, 0, ((size_t)count + 1) * sizeof *b->sum);
}

/* The sums are three times as large as the integers, and many bins never need them. */
void tsr__bins_begin(tsr__bins *b)
{
  if (!b->begun) tsr__rows_clear(&b->rows);
  b->begun = true;
}

/* The sums first .. as pairs of doubles whose sums they are. Returns which bits of the places are
 * not 0 in `some`, and whether the second ones matter. */
static bool split_sums(const tsr__bins *b, int64_t first, int n, double high[2][BLOCK])
{
  const int64_t *sum = b->sum + first;
  uint64_t large = 0;
  for (int i = 0; i < n; i++) large |= (uint64_t)(sum[i] ^ (sum[i] >> 63));
  /* Up to 53 bits a sum is one double. Else the low 31 bits are taken apart, which leaves 31
   * above them: both are exact. */
  bool two = large >> 53;
  for (int i = 0; i < n; i++) {
    int64_t low = two ? sum[i] & INT32_MAX : 0;
    high[0][i] = (double)(sum[i] - low) * b->unit;
    high[1][i] = (double)low * b->unit;
  }
  return two;
}

/* Which of `n` numbers are something, as bits. */
static bool find_some(const double *x, int n, uint64_t *bits)
{
  uint64_t any = 0;
  memset(bits, 0, BLOCK / 8);
  for (int i = 0; i < n; i++) bits[i / 64] |= (uint64_t)(x[i] != 0) << (i % 64);
  for (int i = 0; i < BLOCK / 64; i++) any |= bits[i];
  return any;
}

void tsr__bins_empty(tsr__bins *b)
{
  double part[2][BLOCK];
  uint64_t some[BLOCK / 64];
  tsr__bins_begin(b);
  for (int64_t at = 0; b->added && at < b->rows.count; at += BLOCK) {
    int n = b->rows.count - at < BLOCK ? (int)(b->rows.count - at) : BLOCK;
    bool two = split_sums(b, at, n, part);
    for (int k = 0; k <= two; k++)
      /* Places of 0 are left out: adding a zero would make a sum of -0 into +0. */
      if (find_some(part[k], n, some)) b->ops->rows_add_f64(&b->rows, at, part[k], n, some);
  }
  if (b->added) memset(b->sum, 0, (size_t)b->rows.count * sizeof *b->sum);
  b->added = 0;
}

/* Joins integers, in the smaller of both units; false: they could become too large. */
static bool join_bin_sums(tsr__bins *into, const tsr__bins *from)
{
  int up = into->added ? ilogb(into->unit) - ilogb(from->unit) : 0, most = 22;
  if (up > most || -up > most) return false;
  const int64_t mine = up > 0 ? INT64_C(1) << up : 1, other = up < 0 ? INT64_C(1) << -up : 1;
  int64_t added = into->added * mine + from->added * other;
  if (added > MOST_ADDED) return false;
  for (int64_t i = 0; i < from->rows.count; i++)
    into->sum[i] = into->sum[i] * mine + from->sum[i] * other;
  if (up > 0 || !into->added) into->unit = from->unit;
  into->added = added;
  return true;
}

void tsr__bins_join(tsr__bins *into, tsr__bins *from)
{
  if (from->added && !join_bin_sums(into, from)) tsr__bins_empty(from);
  if (!from->begun) return;
  tsr__bins_begin(into);
  into->ops->rows_merge(&into->rows, 0, &from->rows);
}

/* A unit that suits the largest of some values; any unit will do if all values are 0 or not
 * finite. */
static double unit_for(const tsr__reals *x)
{
  double most = 0;
  int exponent;
  for (int i = 0; i < x->n; i++) {
    double size = fabs(tsr__real_at(x, i));
    if (size > most && isfinite(size)) most = size;
  }
  /* Within these exponents unit and sums are normal doubles, so that scaling is exact. */
  frexp(most < 0x1p900 ? most : 0x1p900, &exponent);
  return ldexp(1, (exponent > -900 ? exponent : -900) + 1 - ROOM);
}

static int count_value_bits(const uint64_t *bits, int n)
{
  int count = 0;
  for (int i = 0; i < n; i += 64)
    for (uint64_t word = bits[i / 64]; word; word &= word - 1) count++;
  return count;
}

/* Values as whole numbers. If many values are not whole numbers, the unit is guessed anew, provided
 * that emptying the bins costs no more than the additions since the last time; and if that does not
 * help, no more. */
static void to_units(tsr__bins *b, const tsr__reals *x, int64_t *whole, uint64_t *left)
{
  b->ops->whole_units(whole, left, x, b->unit);
  if (count_value_bits(left, x->n) <= x->n / 8 || (b->added && b->added < b->rows.count)) return;
  if (b->added) tsr__bins_empty(b);
  b->unit = unit_for(x);
  b->ops->whole_units(whole, left, x, b->unit);
  /* Values too far apart for any unit: from here on each is added the general way. */
  b->plain = count_value_bits(left, x->n) > x->n / 2;
}

static void add_left(tsr__bins *b, const int64_t *place, const tsr__reals *x, const uint64_t *left)
{
  for (int at = 0; at < x->n; at += 64)
    for (uint64_t bits = left[at / 64]; bits; bits &= bits - 1) {
      int i = at + __builtin_ctzll(bits);
      tsr__bins_begin(b);
      if (place[i] >= 0) tsr__rows_add(&b->rows, place[i], tsr__real_at(x, i));
    }
}

void tsr__bins_add(tsr__bins *b, const int64_t *place, const tsr__reals *x)
{
  int64_t whole[BLOCK], *sum = b->sum;
  uint64_t left[BLOCK / 64];
  if (b->plain) {
    tsr__bins_begin(b);
    for (int i = 0; i < x->n; i++)
      if (place[i] >= 0) tsr__rows_add(&b->rows, place[i], tsr__real_at(x, i));
    return;
  }
  /* 2^22 values below 2^40 units stay below 2^62. */
  if (b->added > MOST_ADDED - BLOCK) tsr__bins_empty(b);
  to_units(b, x, whole, left);
  for (int i = 0; i < x->n; i++) sum[place[i]] += whole[i];
  b->added += x->n;
  add_left(b, place, x, left);
}
