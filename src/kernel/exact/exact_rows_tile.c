/* Vertical exact sums, compiled once for each instruction set: a row of values is added to a row
 * of elements, each kept as three doubles (exact_rows.h).
 *
 *     value -> (a) -> the rest of a -> (b) -> the rest of b -> (c) -> must be 0
 *
 * An f32 value nearly always fits `a` whole, and the rest of a square fits `b` whole: then the next
 * parts are not touched. Invariant: a lane whose last remainder is not 0, or whose numbers are so
 * large that an error-free addition could overflow, is left as it was, and goes the hard way. */
#include "kernel/exact/exact_lanes.h"

typedef struct row_lanes {
  vd a, b, c;
} row_lanes;

/* The lanes in which sum is a + value without loss. If |a| is the larger one, sum - a is the part
 * taken of the value, exactly; else sum - value is the part taken of a. The bits of a decide, so
 * that -0, the element without a value, is refused. */
INLINE vm takes_all(vd a, vd value, vd sum)
{
#ifdef LANES_AVX512
  __mmask8 same = _mm512_cmpeq_epi64_mask((__m512i)(sum - value), (__m512i)a);
  return _mm512_mask_cmp_pd_mask(same, (__m512d)(sum - a), (__m512d)value, _CMP_EQ_OQ);
#else
  return (vi)((vi)(sum - value) == (vi)a) & (vi)(sum - a == value);
#endif
}

/* Adds one value a lane; returns the lanes that must go the hard way, unchanged here. */
INLINE unsigned lanes_add(row_lanes *at, vd value, unsigned bits)
{
  row_lanes next;
  vd low0, low1, low2;
  next.a = two_sum_of_lanes(at->a, value, &low0);
  next.b = two_sum_of_lanes(at->b, low0, &low1);
  next.c = two_sum_of_lanes(at->c, low1, &low2);
  /* None of `low2` but its sign may be set: +0 and -0 mean that the three parts took all. */
  vm fits = both_masks(both_masks(smaller(value, TSR__ROWS_VALUE_LIMIT),
                                  smaller(next.a, TSR__ROWS_PART_LIMIT)),
                       no_bits_of((vi)low2, all_bits(INT64_MAX)));
  unsigned good = chosen(fits) & bits;
  /* Nearly always: one store of three vectors, no blending. */
  if (good == (1u << LANES) - 1) {
    *at = next;
    return 0;
  }
  vm take = mask_of_bits(good);
  at->a = pick_lanes(take, next.a, at->a);
  at->b = pick_lanes(take, next.b, at->b);
  at->c = pick_lanes(take, next.c, at->c);
  /* Finite values do not change a sum that is special already. The scalar way would find the same
   * and do nothing; it is left out here because a column with one infinity would go there at every
   * value. */
  unsigned special = ~chosen(smaller(at->a, INFINITY)) & chosen(smaller(value, INFINITY));
  return bits & ~good & ~special;
}

/* Lanes beyond the end are 0: their bits are never set, and they are not stored. */
INLINE row_lanes lanes_load(const tsr__rows *rows, int64_t at, int left)
{
  row_lanes out;
  out.a =
      left < LANES ? load_some_doubles(rows->part[0] + at, left) : load_doubles(rows->part[0] + at);
  out.b =
      left < LANES ? load_some_doubles(rows->part[1] + at, left) : load_doubles(rows->part[1] + at);
  out.c =
      left < LANES ? load_some_doubles(rows->part[2] + at, left) : load_doubles(rows->part[2] + at);
  return out;
}

/* Behind the last element lies another column's memory or nothing. */
INLINE void lanes_store(tsr__rows *rows, int64_t at, int left, const row_lanes *from)
{
  if (left >= LANES) {
    store_doubles(rows->part[0] + at, from->a);
    store_doubles(rows->part[1] + at, from->b);
    store_doubles(rows->part[2] + at, from->c);
    return;
  }
  for (int i = 0; i < LANES; i++) {
    if (i >= left) break;
    rows->part[0][at + i] = from->a[i];
    rows->part[1][at + i] = from->b[i];
    rows->part[2][at + i] = from->c[i];
  }
}

/* One operand of a vertical addition. */
typedef struct vertical {
  const double *f64;
  const float *f32;
  const uint64_t *mask;
  int64_t n;
} vertical;

/* A step begins at a multiple of LANES, which divides 64: the bits of a step are in one word. */
INLINE unsigned mask_bits(const vertical *in, int64_t i)
{
  unsigned bits = (1u << LANES) - 1;
  if (in->n - i < LANES) bits = (1u << (in->n - i)) - 1;
  return in->mask ? bits & (unsigned)(in->mask[i >> 6] >> (i & 63)) : bits;
}

INLINE vd value_lanes(const vertical *in, int64_t i, bool narrow)
{
  int64_t left = in->n - i;
  if (narrow)
    return left < LANES ? load_some_f32(in->f32 + i, (int)left) : load_floats(in->f32 + i);
  return left < LANES ? load_some_doubles(in->f64 + i, (int)left) : load_doubles(in->f64 + i);
}

/* Whole vectors of f32 from `i` on, as long as each is taken whole; returns where it ended. f32 are
 * too small beside the limits to be held against them. */
INLINE int64_t add_plain(double *a, const float *x, int64_t i, int64_t n)
{
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    vd one = load_floats(x + i), two = load_floats(x + i + LANES);
    vd old = load_doubles(a + i), old_two = load_doubles(a + i + LANES);
    vd sum = old + one, sum_two = old_two + two;
    vm good = both_masks(takes_all(old, one, sum), takes_all(old_two, two, sum_two));
    if (chosen(good) != (1u << LANES) - 1) break;
    store_doubles(a + i, sum);
    store_doubles(a + i + LANES, sum_two);
  }
  return i;
}

INLINE void add_vertical_rows(tsr__rows *rows, int64_t first, const vertical *in, bool narrow)
{
  for (int64_t i = 0; i < in->n; i += LANES) {
    if (narrow && !in->mask) i = add_plain(rows->part[0] + first, in->f32, i, in->n);
    if (i >= in->n) break;
    unsigned bits = mask_bits(in, i);
    if (!bits) continue;
    int left = in->n - i < LANES ? (int)(in->n - i) : LANES;
    vd value = value_lanes(in, i, narrow);
    row_lanes at = lanes_load(rows, first + i, left);
    unsigned hard = lanes_add(&at, value, bits);
    lanes_store(rows, first + i, left, &at);
    /* This follows the store, so that the scalar way sees the lanes that were written. */
    for (; hard; hard &= hard - 1) {
      int k = __builtin_ctz(hard);
      tsr__rows_hard(rows, first + i + k, value[k]);
    }
  }
}

void TSR__ISA_NAME(tsr__rows_add_f64)(tsr__rows *rows, int64_t first, const double *x, int64_t n,
                                      const uint64_t *mask)
{
  vertical in = { .f64 = x, .mask = mask, .n = n };
  add_vertical_rows(rows, first, &in, false);
}

void TSR__ISA_NAME(tsr__rows_add_f32)(tsr__rows *rows, int64_t first, const float *x, int64_t n,
                                      const uint64_t *mask)
{
  vertical in = { .f32 = x, .mask = mask, .n = n };
  add_vertical_rows(rows, first, &in, true);
}

/* Squares are exact as two terms where |x| lies in [2^-400, 2^480), or x is 0. */
INLINE unsigned square_fits(vd value)
{
  unsigned zero = chosen(no_bits_of((vi)value, all_bits(INT64_MAX)));
  return (zero | ~chosen(smaller(value, 0x1p-400))) & chosen(smaller(value, 0x1p480));
}

/* The same of squares of f32, which are doubles: into two parts. */
INLINE int64_t square_plain(double *a, double *b, const vertical *in, int64_t i)
{
  for (; i + LANES <= in->n; i += LANES) {
    vd low, value = load_floats(in->f32 + i), old = load_doubles(a + i), next = load_doubles(b + i);
    vd sum = two_sum_of_lanes(old, value * value, &low), rest = next + low;
    if (chosen(takes_all(next, low, rest)) != (1u << LANES) - 1) break;
    store_doubles(a + i, sum);
    store_doubles(b + i, rest);
  }
  return i;
}

INLINE void square_rows(tsr__rows *rows, int64_t first, const vertical *in, bool narrow)
{
  for (int64_t i = 0; i < in->n; i += LANES) {
    if (narrow && !in->mask) i = square_plain(rows->part[0] + first, rows->part[1] + first, in, i);
    if (i >= in->n) break;
    unsigned bits = mask_bits(in, i);
    if (!bits) continue;
    int left = in->n - i < LANES ? (int)(in->n - i) : LANES;
    vd value = value_lanes(in, i, narrow), product;
    unsigned fits = square_fits(value) & bits;
    vd lacks = square_terms(value, &product);
    row_lanes at = lanes_load(rows, first + i, left);
    /* The two halves of a square are two additions to the same three parts; one may be hard
     * alone. Squares of f32 have no second half. */
    unsigned hard = lanes_add(&at, product, fits);
    unsigned hard_low = narrow ? 0 : lanes_add(&at, lacks, fits);
    lanes_store(rows, first + i, left, &at);
    for (; hard; hard &= hard - 1)
      tsr__rows_hard(rows, first + i + __builtin_ctz(hard), product[__builtin_ctz(hard)]);
    for (; hard_low; hard_low &= hard_low - 1)
      tsr__rows_hard(rows, first + i + __builtin_ctz(hard_low), lacks[__builtin_ctz(hard_low)]);
    for (unsigned wild = bits & ~fits; wild; wild &= wild - 1) {
      double x = value[__builtin_ctz(wild)];
      tsr__rows_hard_product(rows, first + i + __builtin_ctz(wild), x, x);
    }
  }
}

void TSR__ISA_NAME(tsr__rows_square_f64)(tsr__rows *rows, int64_t first, const double *x, int64_t n,
                                         const uint64_t *mask)
{
  vertical in = { .f64 = x, .mask = mask, .n = n };
  square_rows(rows, first, &in, false);
}

void TSR__ISA_NAME(tsr__rows_square_f32)(tsr__rows *rows, int64_t first, const float *x, int64_t n,
                                         const uint64_t *mask)
{
  vertical in = { .f32 = x, .mask = mask, .n = n };
  square_rows(rows, first, &in, true);
}

/* A size below 2^40 plus 1.5 * 2^52 has its whole part in the last bits: taking the constant off
 * again gives back a whole number. Held against the value itself, since a quotient may vanish that
 * is not 0. */
INLINE unsigned units_of(int64_t *out, vd value, double scale, double unit)
{
  const vd magic = all(0x1.8p52);
  vd size = value * scale, moved = size + magic;
  vm fits = both_masks(equal((moved - magic) * unit, value), smaller(size, TSR__BINS_MOST));
  vi whole = keep_bits(fits, (vi)((vu)moved - (vu)magic)); /* unsigned: the others may wrap */
  memcpy(out, &whole, sizeof whole);
  return ~chosen(fits) & ((1u << LANES) - 1);
}

/* 64 of them: no jump, and the bits stay in a register. */
INLINE uint64_t units_of_64(int64_t *out, const tsr__reals *x, int at, double unit)
{
  const double scale = 1 / unit;
  uint64_t left = 0;
  for (int i = 0; i < 64; i += LANES) {
    vd value = x->f32 ? load_floats(x->f32 + at + i) : load_doubles(x->f64 + at + i);
    left |= (uint64_t)units_of(out + i, value, scale, unit) << i;
  }
  return left;
}

void TSR__ISA_NAME(tsr__whole_units)(int64_t *out, uint64_t *left, const tsr__reals *x, double unit)
{
  int i = 0;
  for (; i + 64 <= x->n; i += 64)
    left[i / 64] = x->f32 ? units_of_64(out + i, &(tsr__reals){ .f32 = x->f32 }, i, unit)
                          : units_of_64(out + i, &(tsr__reals){ .f64 = x->f64 }, i, unit);
  if (i == x->n) return;
  double rest[64] = { 0 };
  int64_t whole[64];
  for (int k = i; k < x->n; k++) rest[k - i] = x->f32 ? (double)x->f32[k] : x->f64[k];
  left[i / 64] = units_of_64(whole, &(tsr__reals){ .f64 = rest }, 0, unit);
  memcpy(out + i, whole, (size_t)(x->n - i) * sizeof *out);
}

/* The three parts are added like values, but a zero of part 1 or 2 is no value: adding -0 instead
 * changes nothing. Elements of no value (part 1 is -0) are left out. */
void TSR__ISA_NAME(tsr__rows_merge)(tsr__rows *into, int64_t first, const tsr__rows *from)
{
  for (int64_t i = 0; i < from->count; i += LANES) {
    int left = from->count - i < LANES ? (int)(from->count - i) : LANES;
    row_lanes add = lanes_load(from, i, left), at = lanes_load(into, first + i, left);
    /* -0 in part 1 says "no value". Merging it would turn the -0 of an untouched element into
     * +0. */
    unsigned empty = chosen(no_bits_of((vi)add.b ^ INT64_MIN, all_bits(-1)));
    unsigned bits = ((1u << left) - 1) & ~empty;
    vd value[3] = { add.a, add.b, add.c };
    unsigned hard[3];
    for (int k = 0; k < 3; k++) {
      vm zero = no_bits_of((vi)value[k], all_bits(INT64_MAX));
      /* A +0 in part 1 or 2 is only "nothing left over". Added as +0 it would make a sum of -0
       * into +0. */
      if (k) value[k] = pick_lanes(zero, all(-0.0), value[k]);
      hard[k] = lanes_add(&at, value[k], bits);
    }
    lanes_store(into, first + i, left, &at);
    for (int k = 0; k < 3; k++)
      for (; hard[k]; hard[k] &= hard[k] - 1)
        tsr__rows_hard(into, first + i + __builtin_ctz(hard[k]), value[k][__builtin_ctz(hard[k])]);
  }
  for (size_t i = 0; i < from->escape_count; i++)
    tsr__rows_escape(into, first + from->escape[i].element, &from->escape[i].sum);
  into->failed = into->failed || from->failed;
}
