/* Exact sums of tiles, compiled once for each instruction set.
 *
 * Values in a window of 32 binades, 2^(G-32) <= |v| < 2^G, are added without any rounding:
 *
 *     2^(G+10)    2^G                2^(G-32)   2^(G-41)              2^(G-84)
 *     | room for  |<------ values: first bit ----->|                       |
 *     | 1,024 of  |      |<------------------------- 53 bits of a value -->|
 *     |<---------- high: multiples of 2^(G-41) --->|<---- low: the rest -->|
 *
 * `high` starts at 1.5 * 2^(G+11), so its last place stays 2^(G-41), and each addition's rounding
 * error goes to `low`, where it is exact too: at most 2^(G-42) each, 1,024 of them, multiples of
 * 2^(G-84). Invariant: a loop adds exactly all that it reports as done; the window (tsr__grid) is
 * only a guess, and values outside it are added one by one.
 *
 * The quick loops assume that all values lie in the window and find out at the end. The
 * careful loop tests each value, and leaves out those that do not. */
#include "kernel/exact/exact_tile.h"

#include "kernel/exact/exact_lanes.h"

enum {
  STEP = 4 * LANES, /* four chains hide the latency of additions */
  AHEAD = 2048,     /* bytes; a prefetch after the end of the operand does nothing */
  FEW = 16,         /* more values outside the window than this: guess again */
  LONG_STREAK = 128
};

/* bits(|v|) - bits(first value of the window) has these bits clear exactly for the values in a
 * window of 32 or 16 binades; the sign bit does not matter. */
#define FAR32 INT64_C(0x7e00000000000000)
#define FAR16 INT64_C(0x7f00000000000000)
#define FAR16_F32 INT64_C(0x7800000078000000) /* two f32 at a time */
#define EXPONENT_BITS INT64_C(0x7ff0000000000000)

/* Which exponents a grid may take, so that no border or product leaves the range of f64.
 *
 * f32 leaves no room above and takes a narrow window, because its sums then need no second chain
 * at all (quick_f32). Squares double the exponents, hence half the range. */
typedef struct limits {
  int lowest, highest;
  int window; /* binades */
  int room;   /* binades to leave free above the values, for larger ones to come */
} limits;

static const limits limits_f64 = { -980, 1000, 32, 1 };
static const limits limits_f32 = { -100, 130, 16, 0 };
static const limits limits_spread = { -460, 500, 16, 0 };

/* An operand: f64 or f32, the other one is NULL. */
typedef struct operand {
  const double *f64;
  const float *f32;
  const uint64_t *mask;
  int n;
} operand;

/* The exact sum so far, and the elements that remain to be added one by one. `part` and `square`
 * are doubles that together are the exact sum of the values in the window. */
typedef struct tile {
  double part[2];   /* of x */
  double square[4]; /* sum of x * x */
  uint32_t flags;
  int rest_count;
  uint32_t rest[TSR__TILE / 32]; /* bits */
} tile;

typedef struct chain {
  vd high, low;
} chain;

/* 2^exponent from its bits; the limits keep it normal. */
INLINE double power_of_exponent(int exponent)
{
  uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

/* 1.5 and not 1: then adding numbers of either sign never changes the exponent of `high`. */
INLINE vd magic_of_exponent(int exponent)
{
  return all(1.5 * power_of_exponent(exponent + 11));
}

INLINE vi border_of_window(int exponent)
{
  return all_bits((int64_t)(exponent + 1023) << 52);
}

INLINE chain chain_begin(int exponent)
{
  return (chain){ magic_of_exponent(exponent), all(0) };
}

/* next - high is the exact part that the addition took, as both have equal last places; the rest of
 * the value goes to `low`, which the file's drawing shows to have room for it. */
INLINE void chain_add(chain *c, vd value)
{
  vd next = c->high + value;
  c->low += value - (next - c->high);
  c->high = next;
}

/* chain_add of x * x, which is a double: x is one of f32. */
INLINE void chain_add_square(chain *c, vd x)
{
  vd next = add_square(c->high, x);
  c->low += square_less(x, next - c->high);
  c->high = next;
}

/* Lanes not chosen may hold anything, NaN too. Adding a masked 0 would do, but on AVX-512 leaving
 * lanes alone is the same instruction. */
INLINE void chain_add_some(chain *c, vd value, vm mask)
{
#ifdef LANES_AVX512
  vd next = add_some(mask, c->high, value);
  c->low = add_some(mask, c->low, value - (next - c->high));
  c->high = next;
#else
  chain_add(c, keep_lanes(mask, value));
#endif
}

INLINE void chains_begin(chain c[4], int exponent)
{
  for (int k = 0; k < 4; k++) c[k] = chain_begin(exponent);
}

/* None of these additions rounds: the sums of 1,024 values fit the same grids. A magic off each
 * chain first: then sums of up to four chains and all lanes stay multiples of one last place and
 * below 53 bits. */
INLINE void chains_end(const chain c[4], int exponent, double part[2])
{
  vd magic = magic_of_exponent(exponent);
  part[0] = sum_of_lanes(((c[0].high - magic) + (c[1].high - magic)) +
                         ((c[2].high - magic) + (c[3].high - magic)));
  part[1] = sum_of_lanes((c[0].low + c[1].low) + (c[2].low + c[3].low));
}

INLINE unsigned lane_bits_at(const uint64_t *mask, int i)
{
  return (unsigned)(mask[i >> 6] >> (i & 63));
}

INLINE unsigned bits_below(int count)
{
  return (1u << count) - 1;
}

/* LANES values from i on, of which `left` exist. */
INLINE vd load_at(const operand *in, int i, int left, bool narrow)
{
  if (narrow) return left < LANES ? load_some_f32(in->f32 + i, left) : load_floats(in->f32 + i);
  return left < LANES ? load_some_doubles(in->f64 + i, left) : load_doubles(in->f64 + i);
}

/* Prefetches the lines that the next tile is likely to read: the hardware alone is late where
 * memory, not arithmetic, is the limit. */
INLINE void fetch_ahead(const void *at, size_t bytes)
{
  for (size_t i = 0; i < bytes; i += 64)
    __builtin_prefetch((const void *)((uintptr_t)at + AHEAD + i));
}

/* The chosen lanes whose values must lie in the window: zeros need not, as adding them changes
 * nothing. Columns of counts are full of them, so that one look at each value here saves the
 * careful loop; without masks in registers it would cost as much as that. */
INLINE vm matter(vm mask, vd value)
{
#ifdef LANES_AVX512
  return _mm512_mask_test_epi64_mask(mask, (__m512i)value, (__m512i)all_bits(INT64_MAX));
#else
  (void)value;
  return mask;
#endif
}

/* Or-ed differences are kept over the tile and looked at once at its end: the loop has no
 * branch. */
INLINE bool any_bits(vi bits, int64_t test)
{
  return chosen(no_bits_of(bits, all_bits(test))) != bits_below(LANES);
}

/* ---- the quick loop over f64 --------------------------------------------------------------- */

/* `far` collects the differences of all values, in which FAR32 shows a value outside the window. */
typedef struct quick {
  chain c[4];
  vi first, far; /* the window's border; differences to it, or-ed */
} quick;

/* Two vectors, on chains k and k + 1. */
INLINE void quick_two(quick *q, int k, vd one, vd two)
{
  const vm every = mask_of_bits(~0u);
  q->far = or3(q->far, keep_bits(matter(every, one), distance(one, q->first)),
               keep_bits(matter(every, two), distance(two, q->first)));
  chain_add(&q->c[k], one);
  chain_add(&q->c[k + 1], two);
}

INLINE void quick_two_some(quick *q, int k, const double *x, unsigned bits)
{
  vm mask = mask_of_bits(bits), mask2 = mask_of_bits(bits >> LANES);
  vd one = load_doubles(x), two = load_doubles(x + LANES);
  q->far = or3(q->far, keep_bits(matter(mask, one), distance(one, q->first)),
               keep_bits(matter(mask2, two), distance(two, q->first)));
  chain_add_some(&q->c[k], one, mask);
  chain_add_some(&q->c[k + 1], two, mask2);
}

INLINE void quick_some(quick *q, vd value, vm mask)
{
  q->far |= keep_bits(matter(mask, value), distance(value, q->first));
  chain_add_some(&q->c[0], value, mask);
}

INLINE void quick_step(quick *q, const double *x, int i, const uint64_t *mask)
{
  fetch_ahead(x + i, STEP * sizeof *x);
  if (!mask) {
    quick_two(q, 0, load_doubles(x + i), load_doubles(x + i + LANES));
    quick_two(q, 2, load_doubles(x + i + 2 * LANES), load_doubles(x + i + 3 * LANES));
    return;
  }
  unsigned bits = lane_bits_at(mask, i);
  quick_two_some(q, 0, x + i, bits);
  quick_two_some(q, 2, x + i + 2 * LANES, bits >> 2 * LANES);
}

/* False: some value was outside. The computed parts are worthless then, and the caller's state is
 * unchanged. */
INLINE bool quick_f64(double part[2], int exponent, const operand *in, const uint64_t *mask)
{
  quick q = { .first = border_of_window(exponent - 32) };
  chains_begin(q.c, exponent);
  int i = 0;
  for (; i + STEP <= in->n; i += STEP) quick_step(&q, in->f64, i, mask);
  /* The last elements, with masks of the lanes that exist; all on one chain, which has room for
   * 1,024 values and gets few. */
  for (; i < in->n; i += LANES) {
    int left = in->n - i < LANES ? in->n - i : LANES;
    unsigned bits = mask ? lane_bits_at(mask, i) : ~0u;
    quick_some(&q, load_at(in, i, left, false), mask_of_bits(bits & bits_below(left)));
  }
  chains_end(q.c, exponent, part);
  return !any_bits(q.far, FAR32);
}

/* ---- the quick loop over f32 --------------------------------------------------------------- */

/* In f64 a tile of f32 of one window of 16 binades adds up without rounding at all: 24 bits, 16
 * of the window and 10 of the count make 50. Without a mask the test reads the values once
 * more, as twice as many 32-bit words. */
typedef struct quick32 {
  vd sum[4];
  vw first_word, far_word;
  vi first, far;
} quick32;

INLINE void quick32_some(quick32 *q, int k, vd value, vm mask)
{
  q->far |= keep_bits(matter(mask, value), distance(value, q->first));
  q->sum[k] = add_some(mask, q->sum[k], value);
}

/* 4 LANES values, tested as words; on AVX-512 zeros need not lie in the window, as above. */
#ifdef LANES_AVX512
INLINE void quick32_test(quick32 *q, const float *x, unsigned bits)
{
  const __m512i size = _mm512_set1_epi32(INT32_MAX);
  __m512i one = _mm512_loadu_si512(x), two = _mm512_loadu_si512(x + 16);
  __mmask16 m = _mm512_mask_test_epi32_mask((__mmask16)bits, one, size);
  __mmask16 m2 = _mm512_mask_test_epi32_mask((__mmask16)(bits >> 16), two, size);
  one = _mm512_maskz_sub_epi32(m, one, (__m512i)q->first_word);
  two = _mm512_maskz_sub_epi32(m2, two, (__m512i)q->first_word);
  q->far_word = (vw)or3((vi)q->far_word, (vi)one, (vi)two);
}

INLINE void quick32_chosen(quick32 *q, const float *x, unsigned bits)
{
  quick32_test(q, x, bits);
  for (int k = 0; k < 4; k++)
    q->sum[k] = add_some(mask_of_bits(bits >> k * LANES), q->sum[k], load_floats(x + k * LANES));
}

INLINE void quick32_all(quick32 *q, const float *x)
{
  quick32_chosen(q, x, ~0u);
}
#else
INLINE void quick32_test(quick32 *q, const float *x, unsigned bits)
{
  vw one, two;
  (void)bits; /* all */
  memcpy(&one, x, sizeof one);
  memcpy(&two, x + 2 * LANES, sizeof two);
  q->far_word = (vw)or3((vi)q->far_word, (vi)(one - q->first_word), (vi)(two - q->first_word));
}

INLINE void quick32_all(quick32 *q, const float *x)
{
  quick32_test(q, x, ~0u);
  for (int k = 0; k < 4; k++) q->sum[k] += load_floats(x + k * LANES);
}

INLINE void quick32_chosen(quick32 *q, const float *x, unsigned bits)
{
  for (int k = 0; k < 4; k++)
    quick32_some(q, k, load_floats(x + k * LANES), mask_of_bits(bits >> k * LANES));
}
#endif

INLINE quick32 quick32_begin(int exponent)
{
  quick32 q = { .first = border_of_window(exponent - 16) };
  /* The border as an f32 has it: values are compared before they are widened, twice as many at
   * once. */
  q.first_word = (vw){ 0 } + ((unsigned)(exponent - 16 + 127) << 23);
  return q;
}

/* False: some value was outside. */
INLINE bool quick32_end(const quick32 *q, double part[2])
{
  part[0] = sum_of_lanes((q->sum[0] + q->sum[1]) + (q->sum[2] + q->sum[3]));
  part[1] = 0;
  return !any_bits(q->far, FAR16) && !any_bits((vi)q->far_word, FAR16_F32);
}

INLINE bool quick_f32(double part[2], int exponent, const operand *in, const uint64_t *mask)
{
  quick32 q = quick32_begin(exponent);
  int i = 0;
  for (; i + STEP <= in->n; i += STEP) {
    fetch_ahead(in->f32 + i, STEP * sizeof *in->f32);
    if (mask) quick32_chosen(&q, in->f32 + i, lane_bits_at(mask, i));
    else quick32_all(&q, in->f32 + i);
  }
  for (; i < in->n; i += LANES) {
    int left = in->n - i < LANES ? in->n - i : LANES;
    unsigned bits = mask ? lane_bits_at(mask, i) : ~0u;
    quick32_some(&q, 0, load_at(in, i, left, true), mask_of_bits(bits & bits_below(left)));
  }
  return quick32_end(&q, part);
}

/* The same with squares, which are doubles of a window of 32 binades; all elements. */
INLINE bool quick_squares(tile *t, int exponent, const operand *in)
{
  quick32 q = quick32_begin(exponent);
  chain c[4];
  chains_begin(c, 2 * exponent);
  int i = 0;
  for (; i + STEP <= in->n; i += STEP) {
    fetch_ahead(in->f32 + i, STEP * sizeof *in->f32);
    quick32_test(&q, in->f32 + i, ~0u);
    for (int k = 0; k < 4; k++) {
      vd value = load_floats(in->f32 + i + k * LANES);
      q.sum[k] = add_aside(q.sum[k], value);
      chain_add_square(&c[k], value);
    }
  }
  for (; i < in->n; i += LANES) {
    int left = in->n - i < LANES ? in->n - i : LANES;
    vd value = load_at(in, i, left, true); /* zeros after the end */
    quick32_some(&q, 0, value, mask_of_bits(bits_below(left)));
    chain_add_square(&c[0], value);
  }
  chains_end(c, 2 * exponent, t->square);
  t->square[2] = t->square[3] = 0;
  return quick32_end(&q, t->part);
}

/* ---- the careful loops --------------------------------------------------------------------- */

/* `plain`: f32 of 16 binades, which add up without rounding. */
typedef struct window {
  vi first, far;
  bool plain;
} window;

INLINE vm in_window(const window *w, vd value)
{
  return no_bits_of(distance(value, w->first), w->far);
}

/* Adds the values of the window; returns the bits of the others. In a plain window additions
 * do not round, and `high` alone takes the sum. */
INLINE unsigned careful_add(chain *c, const window *w, vd value, vm mask)
{
  vm in = in_window(w, value), take = both_masks(in, mask);
  if (w->plain) c->high = add_some(take, c->high, value);
  else chain_add_some(c, value, take);
  return bits_below(LANES) & ~chosen(in);
}

/* Eight elements that exist; returns the bits of those left out, chosen or not. */
INLINE unsigned careful_eight(chain *c, const window *w, const operand *in, int at, bool narrow)
{
  unsigned out = 0, bits = in->mask ? lane_bits_at(in->mask, at) : ~0u;
  for (int k = 0; k < 8 / LANES; k++) {
    vd value = load_at(in, at + k * LANES, LANES, narrow);
    out |= careful_add(&c[k], w, value, mask_of_bits(bits >> k * LANES)) << k * LANES;
  }
  return out;
}

/* The last elements, fewer than 32. */
INLINE unsigned careful_tail(chain *c, const window *w, const operand *in, int from)
{
  unsigned out = 0;
  for (int at = from; at < in->n; at += LANES) {
    int left = in->n - at < LANES ? in->n - at : LANES;
    unsigned bits = (in->mask ? lane_bits_at(in->mask, at) : ~0u) & bits_below(left);
    vd value = load_at(in, at, left, in->f32 != NULL);
    out |= (bits & careful_add(c, w, value, mask_of_bits(bits))) << (at - from);
  }
  return out;
}

/* `rest` gets a word of bits for 32 elements, which is why the loop takes 32: no bit of it is
 * written twice. */
INLINE bool careful_sum(tile *t, chain c[4], const window *w, const operand *in, bool narrow)
{
  uint32_t any = 0;
  int i = 0;
  for (; i + 32 <= in->n; i += 32) {
    /* One, two or four vectors make eight elements: give each its own chain. */
    uint32_t out = careful_eight(c, w, in, i, narrow);
    out |= careful_eight(c + (8 / LANES & 3), w, in, i + 8, narrow) << 8;
    out |= careful_eight(c + (16 / LANES & 3), w, in, i + 16, narrow) << 16;
    out |= careful_eight(c + (24 / LANES & 3), w, in, i + 24, narrow) << 24;
    if (in->mask) out &= lane_bits_at(in->mask, i);
    t->rest[i / 32] = out;
    any |= out;
  }
  if (i < in->n) any |= t->rest[i / 32] = careful_tail(c, w, in, i);
  return any != 0;
}

/* Any values: two chains of 32 binades. A literal without a mask lets the compiler make a loop of
 * its own for that, as the quick ones are. */
INLINE bool careful_wide(tile *t, int exponent, const operand *in, bool narrow)
{
  window w = { border_of_window(exponent - 32), all_bits(FAR32), false };
  chain c[4];
  chains_begin(c, exponent);
  bool any = in->mask ? careful_sum(t, c, &w, in, narrow)
                      : careful_sum(t, c, &w, &(operand){ in->f64, in->f32, NULL, in->n }, narrow);
  chains_end(c, exponent, t->part);
  return any;
}

/* f32 of 16 binades, as in quick_f32. */
static bool careful_f32(tile *t, int exponent, const operand *in)
{
  window w = { border_of_window(exponent - 16), all_bits(FAR16), true };
  chain c[4] = { { all(0), all(0) }, { all(0), all(0) }, { all(0), all(0) }, { all(0), all(0) } };
  bool any = in->mask ? careful_sum(t, c, &w, in, true)
                      : careful_sum(t, c, &w, &(operand){ NULL, in->f32, NULL, in->n }, true);
  t->part[0] = sum_of_lanes((c[0].high + c[1].high) + (c[2].high + c[3].high));
  t->part[1] = 0;
  return any;
}

/* x, the rounded square and its rounding error: each on its own grid. The squares of a window of 16
 * binades fill one of 32; their errors are below 2^-53 of them.
 *
 *    x          grid of exponent G          p = rounded x x     grid of 2 G
 *                                           e = x x - p         grid of 2 G - 53 (f64 only) */
typedef struct squarer {
  window w;
  chain x[2], p[2], e[2];
} squarer;

/* LANES elements; returns the bits of those left out. */
INLINE unsigned square_add(squarer *s, int k, vd value, unsigned bits, bool narrow)
{
  vd product;
  vm inside = in_window(&s->w, value);
  /* Zeroed before squaring: a value outside must not become an infinity that masks cannot undo. */
  value = keep_lanes(both_masks(inside, mask_of_bits(bits)), value);
  vd lacks = square_terms(value, &product);
  chain_add(&s->x[k], value);
  chain_add(&s->p[k], product);
  if (!narrow) chain_add(&s->e[k], lacks);
  return bits & bits_below(LANES) & ~chosen(inside);
}

/* Two chains as one. */
INLINE void pair_end(const chain c[2], int exponent, double part[2])
{
  vd magic = magic_of_exponent(exponent);
  part[0] = sum_of_lanes((c[0].high - magic) + (c[1].high - magic));
  part[1] = sum_of_lanes(c[0].low + c[1].low);
}

INLINE uint32_t square_tail(squarer *s, const operand *in, int from, bool narrow)
{
  uint32_t out = 0;
  for (int at = from; at < in->n; at += LANES) {
    int left = in->n - at < LANES ? in->n - at : LANES;
    unsigned bits = (in->mask ? lane_bits_at(in->mask, at) : ~0u) & bits_below(left);
    out |= square_add(s, 0, load_at(in, at, left, narrow), bits, narrow) << (at - from);
  }
  return out;
}

INLINE bool careful_spread(tile *t, int exponent, const operand *in, bool narrow)
{
  /* The error of a rounded product is at most half of its last place, 2^-53 of its size. */
  const int high = 2 * exponent, low = 2 * exponent - 53;
  squarer s = { .w = { border_of_window(exponent - 16), all_bits(FAR16), true } };
  for (int k = 0; k < 2; k++) {
    s.x[k] = chain_begin(exponent);
    s.p[k] = chain_begin(high);
    s.e[k] = chain_begin(low);
  }
  uint32_t any = 0;
  int i = 0;
  for (; i + 32 <= in->n; i += 32) {
    uint32_t out = 0, bits = in->mask ? lane_bits_at(in->mask, i) : ~0u;
    for (int k = 0; k < 32; k += 2 * LANES) {
      vd one = load_at(in, i + k, LANES, narrow), two = load_at(in, i + k + LANES, LANES, narrow);
      out |= square_add(&s, 0, one, bits >> k, narrow) << k;
      out |= square_add(&s, 1, two, bits >> (k + LANES), narrow) << (k + LANES);
    }
    t->rest[i / 32] = out;
    any |= out;
  }
  if (i < in->n) any |= t->rest[i / 32] = square_tail(&s, in, i, narrow);
  pair_end(s.x, exponent, t->part);
  pair_end(s.p, high, t->square);
  pair_end(s.e, low, t->square + 2);
  return any != 0;
}

/* ---- values outside the window -------------------------------------------------------------- */

INLINE double value_at(const operand *in, int i)
{
  return in->f64 ? in->f64[i] : (double)in->f32[i];
}

INLINE uint32_t flag_of(double value)
{
  uint32_t infinity = value > 0 ? TSR__SAW_PINF : TSR__SAW_NINF;
  return TSR__SAW_OTHER | (value != value ? (uint32_t)TSR__SAW_NAN : infinity);
}

/* Which of 32 elements are zeros, or specials: `test` bits all clear, of the value or of its
 * complement. Elements after the end may show as zeros here; `rest` has no bits for them. */
INLINE uint32_t all_clear(const operand *in, int at, int64_t test, int64_t flip)
{
  uint32_t out = 0;
  for (int i = 0; i < 32 && at + i < in->n; i += LANES) {
    vd value = load_at(in, at + i, in->n - at - i, in->f32 != NULL);
    out |= (uint32_t)chosen(no_bits_of((vi)value ^ all_bits(flip), all_bits(test))) << i;
  }
  return out;
}

/* Takes zeros and specials out of the rest of 32 elements, specials as flags. Few are looked at
 * one by one, many together. */
static uint32_t settle_word(tile *t, const operand *in, int at, uint32_t rest)
{
  if (__builtin_popcount(rest) > 3) {
    rest &= ~all_clear(in, at, INT64_MAX, 0);
    if (__builtin_popcount(rest) <= 3) return settle_word(t, in, at, rest);
    uint32_t special = all_clear(in, at, EXPONENT_BITS, -1) & rest;
    rest &= ~special;
    for (; special; special &= special - 1)
      t->flags |= flag_of(value_at(in, at + __builtin_ctz(special)));
    return rest;
  }
  uint32_t keep_rest = 0;
  for (; rest; rest &= rest - 1) {
    double value = value_at(in, at + __builtin_ctz(rest));
    if (value - value != 0) t->flags |= flag_of(value);
    else if (value != 0) keep_rest |= rest & -rest;
  }
  return keep_rest;
}

/* After a careful loop that left something out. The careful loop leaves out zeros (far below
 * every window) and specials as well as values; only values cost something, so the others are
 * taken out first, before FEW is asked. */
static void settle_tile(tile *t, const operand *in)
{
  t->flags = 0;
  t->rest_count = 0;
  for (int at = 0; at < in->n; at += 32) {
    uint32_t rest = t->rest[at >> 5];
    if (!rest) continue;
    rest = settle_word(t, in, at, rest);
    t->rest[at >> 5] = rest;
    t->rest_count += __builtin_popcount(rest);
  }
}

/* The flags of a tile whose sum is zero: which zeros were in it, or anything else. Only then does
 * it matter which zeros there were: -0 alone makes -0. Every other sum says OTHER by being
 * something. */
static uint32_t flags_of_zero(const operand *in)
{
  uint32_t flags = 0;
  for (int i = 0; i < in->n && !(flags & TSR__SAW_OTHER); i += LANES) {
    int left = in->n - i < LANES ? in->n - i : LANES;
    unsigned bits = (in->mask ? lane_bits_at(in->mask, i) : ~0u) & bits_below(left);
    vd value = load_at(in, i, left, in->f32 != NULL);
    unsigned negative = chosen(no_bits_of((vi)value ^ INT64_MIN, all_bits(-1))) & bits;
    if (negative) flags |= TSR__SAW_NEG_ZERO;
    if (bits != negative) flags |= TSR__SAW_OTHER;
  }
  return flags;
}

/* ---- the guess ------------------------------------------------------------------------------- */

/* Counts the chosen finite values by exponent. */
static void histogram(uint16_t seen[2048], const operand *in)
{
  memset(seen, 0, 2048 * sizeof seen[0]);
  for (int i = 0; i < in->n; i++) {
    if (in->mask && !(lane_bits_at(in->mask, i) & 1)) continue;
    double value = value_at(in, i);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    seen[bits >> 52 & 0x7ff]++;
  }
}

/* Moves the window to where it holds most of the values, with some room above them. Returns whether
 * it moved. `inside` slides over the histogram. Several windows may hold equally many values; the
 * first and the last of them are remembered, and the one with room above is taken, since larger
 * values follow more often. */
static bool guess_window(tsr__grid *grid, const operand *in, limits to)
{
  uint16_t seen[2048];
  histogram(seen, in);
  const uint16_t *top = seen + 1022; /* top[g]: values in [2^(g-1), 2^g) */
  int inside = 0, best = 0, first = grid->exponent, last = first;
  for (int g = to.lowest - to.window + 1; g <= to.highest; g++) {
    inside += top[g];
    if (g < to.lowest) continue;
    if (inside > best) {
      best = inside;
      first = last = g;
    } else if (inside == best && last == g - 1) {
      last = g;
    }
    inside -= top[g - to.window + 1];
  }
  int exponent = first + to.room < last ? first + to.room : last;
  bool moved = exponent != grid->exponent;
  grid->exponent = (int16_t)exponent;
  return moved;
}

/* Whether to try the quick loop: not for a while after it failed twice in a row. A tile that
 * fails is added twice, quickly and carefully. Data of mixed sizes fails often, so the quick loop
 * is left out for 16, and then for 128 tiles; one success forgets it all. */
INLINE bool hopeful(tsr__grid *grid)
{
  if (!grid->careful) return true;
  grid->careful--;
  return false;
}

static void quick_worked(tsr__grid *grid)
{
  grid->streak = 0;
}

/* Once may be an outlier. The second time in a row the window is guessed anew. */
static void quick_failed(tsr__grid *grid, const operand *in, limits to)
{
  if (!grid->streak) {
    grid->streak = 1;
    return;
  }
  guess_window(grid, in, to);
  grid->streak = grid->streak < 16 ? 16 : LONG_STREAK;
  grid->careful = grid->streak;
}

/* ---- one tile -------------------------------------------------------------------------------- */

/* `in->mask ? ... : NULL`: a constant NULL, of which the compiler makes a loop without masks. */
INLINE bool quick_loop(tile *t, int exponent, const operand *in, bool narrow)
{
  if (narrow)
    return in->mask ? quick_f32(t->part, exponent, in, in->mask)
                    : quick_f32(t->part, exponent, in, NULL);
  return in->mask ? quick_f64(t->part, exponent, in, in->mask)
                  : quick_f64(t->part, exponent, in, NULL);
}

static void settle_if(bool any, tile *t, const operand *in)
{
  t->rest_count = 0;
  if (any) settle_tile(t, in);
}

/* Tries the window as it is, then a better one; f32 values that still do not fit get a wide one.
 * More than FEW left over means that the window is wrong, not that the values are wild. */
INLINE void careful_tile(tile *t, tsr__grid *grid, const operand *in, bool narrow)
{
  limits to = narrow ? limits_f32 : limits_f64;
  for (int tries = 0; tries < 2; tries++) {
    settle_if(narrow ? careful_f32(t, grid->exponent, in)
                     : careful_wide(t, grid->exponent, in, false),
              t, in);
    if (t->rest_count <= FEW) return;
    if (!guess_window(grid, in, to)) break;
  }
  if (narrow && t->rest_count > FEW) settle_if(careful_wide(t, grid->exponent, in, true), t, in);
}

/* The sum of a tile: each value is in t->part, in t->flags or waits in t->rest. */
INLINE void sum_tile(tile *t, tsr__grid *grid, const operand *in, bool narrow)
{
  limits to = narrow ? limits_f32 : limits_f64;
  t->flags = 0;
  t->rest_count = 0;
  if (hopeful(grid)) {
    if (quick_loop(t, grid->exponent, in, narrow)) {
      quick_worked(grid);
      if (t->part[0] == 0 && t->part[1] == 0) t->flags = flags_of_zero(in);
      return;
    }
    quick_failed(grid, in, to);
  }
  careful_tile(t, grid, in, narrow);
  if (t->part[0] == 0 && t->part[1] == 0) t->flags |= flags_of_zero(in);
}

/* f32 of any exponent that f32 has a window for. */
static bool may_square(const tsr__grid *grid, const operand *in)
{
  return !in->mask && grid->exponent >= limits_f32.lowest && grid->exponent <= limits_f32.highest;
}

INLINE void spread_tile(tile *t, tsr__grid *grid, const operand *in, bool narrow)
{
  t->flags = 0;
  t->rest_count = 0;
  if (narrow && may_square(grid, in) && hopeful(grid)) {
    if (quick_squares(t, grid->exponent, in)) {
      quick_worked(grid);
      if (t->part[0] == 0) t->flags = flags_of_zero(in);
      return;
    }
    quick_failed(grid, in, limits_spread);
  }
  for (int tries = 0; tries < 2; tries++) {
    settle_if(careful_spread(t, grid->exponent, in, narrow), t, in);
    if (t->rest_count <= FEW || !guess_window(grid, in, limits_spread)) break;
  }
  if (t->part[0] == 0 && t->part[1] == 0) t->flags |= flags_of_zero(in);
}

/* ---- adding a tile to accumulators ----------------------------------------------------------- */

/* Calls for each element that waits: `i` is its index. The second loop runs over the set bits of
 * a word; its condition sets `i` on the way. */
#define EACH_REST(i, t, n)                                   \
  for (int at_ = 0; (t)->rest_count && at_ < (n); at_ += 32) \
    for (uint32_t left_ = (t)->rest[at_ >> 5], i = 0;        \
         left_ && (i = (uint32_t)(at_ + __builtin_ctz(left_)), 1); left_ &= left_ - 1)

/* Two additions to the accumulator for a tile of 1,024 values: this is why exact sums are as fast
 * as memory. */
INLINE void add_tile_parts(tsr__acc *acc, const tile *t)
{
  acc->flags |= t->flags;
  if (t->part[0] != 0) tsr__acc_add(acc, t->part[0]);
  if (t->part[1] != 0) tsr__acc_add(acc, t->part[1]);
}

INLINE void sum_to_acc(tsr__acc *acc, tsr__grid *grid, const operand *in, bool narrow)
{
  tile t;
  sum_tile(&t, grid, in, narrow);
  add_tile_parts(acc, &t);
  EACH_REST(i, &t, in->n) tsr__acc_add(acc, value_at(in, (int)i));
}

static void sum_f64(tsr__acc *acc, tsr__grid *grid, const double *x, int n, const uint64_t *mask)
{
  operand in = { .f64 = x, .mask = mask, .n = n };
  sum_to_acc(acc, grid, &in, false);
}

static void sum_f32(tsr__acc *acc, tsr__grid *grid, const float *x, int n, const uint64_t *mask)
{
  operand in = { .f32 = x, .mask = mask, .n = n };
  sum_to_acc(acc, grid, &in, true);
}

/* The square of an infinity of either sign is +infinity; of -0, 0. */
static uint32_t flags_squared(uint32_t flags)
{
  bool infinite = flags & (TSR__SAW_PINF | TSR__SAW_NINF);
  return TSR__SAW_OTHER | (flags & TSR__SAW_NAN) | (infinite ? (uint32_t)TSR__SAW_PINF : 0);
}

INLINE void spread_to_acc(tsr__spread *out, tsr__grid *grid, const operand *in, bool narrow)
{
  tile t;
  spread_tile(&t, grid, in, narrow);
  add_tile_parts(&out->sum, &t);
  if (t.flags) out->squares.flags |= flags_squared(t.flags);
  for (int k = 0; k < 4; k++)
    if (t.square[k] != 0) tsr__acc2_add(&out->squares, t.square[k]);
  EACH_REST(i, &t, in->n)
  {
    tsr__acc_add(&out->sum, value_at(in, (int)i));
    tsr__acc2_add_square(&out->squares, value_at(in, (int)i));
  }
}

static void spread_f64(tsr__spread *out, tsr__grid *grid, const double *x, int n,
                       const uint64_t *mask)
{
  operand in = { .f64 = x, .mask = mask, .n = n };
  spread_to_acc(out, grid, &in, false);
}

static void spread_tile_f32(tsr__spread *out, tsr__grid *grid, const float *x, int n,
                            const uint64_t *mask)
{
  operand in = { .f32 = x, .mask = mask, .n = n };
  spread_to_acc(out, grid, &in, true);
}

/* Rows keep no flags: each one is added as a value that has its effect. */
static void flags_to_row(tsr__rows *rows, int64_t element, uint32_t flags)
{
  if (flags & TSR__SAW_NEG_ZERO) tsr__rows_add(rows, element, -0.0);
  if (flags & TSR__SAW_OTHER) tsr__rows_add(rows, element, 0.0);
  if (flags & TSR__SAW_NAN) tsr__rows_add(rows, element, NAN);
  if (flags & TSR__SAW_PINF) tsr__rows_add(rows, element, INFINITY);
  if (flags & TSR__SAW_NINF) tsr__rows_add(rows, element, -INFINITY);
}

INLINE void parts_to_row(tsr__rows *rows, int64_t element, const double *part, int count)
{
  for (int k = 0; k < count; k++)
    if (part[k] != 0) tsr__rows_add(rows, element, part[k]);
}

INLINE void sum_to_rows(tsr__rows_at at, tsr__grid *grid, const operand *in, bool narrow)
{
  tile t;
  sum_tile(&t, grid, in, narrow);
  parts_to_row(at.rows, at.element, t.part, 2);
  EACH_REST(i, &t, in->n) tsr__rows_add(at.rows, at.element, value_at(in, (int)i));
  if (t.flags) flags_to_row(at.rows, at.element, t.flags);
}

INLINE void spread_to_rows(tsr__rows_at at, tsr__grid *grid, const operand *in, bool narrow)
{
  tile t;
  spread_tile(&t, grid, in, narrow);
  parts_to_row(at.rows, at.element, t.part, 2);
  parts_to_row(at.squares, at.element, t.square, 4);
  EACH_REST(i, &t, in->n)
  {
    double x = value_at(in, (int)i);
    tsr__rows_add(at.rows, at.element, x);
    tsr__rows_add_product(at.squares, at.element, x, x);
  }
  if (!t.flags) return;
  flags_to_row(at.rows, at.element, t.flags);
  flags_to_row(at.squares, at.element, flags_squared(t.flags));
}

static void rows_run_f64(tsr__rows_at at, tsr__grid *grid, const double *x, int n,
                         const uint64_t *mask)
{
  operand in = { .f64 = x, .mask = mask, .n = n };
  sum_to_rows(at, grid, &in, false);
}

static void rows_run_f32(tsr__rows_at at, tsr__grid *grid, const float *x, int n,
                         const uint64_t *mask)
{
  operand in = { .f32 = x, .mask = mask, .n = n };
  sum_to_rows(at, grid, &in, true);
}

static void rows_spread_f64(tsr__rows_at at, tsr__grid *grid, const double *x, int n,
                            const uint64_t *mask)
{
  operand in = { .f64 = x, .mask = mask, .n = n };
  spread_to_rows(at, grid, &in, false);
}

static void rows_spread_f32(tsr__rows_at at, tsr__grid *grid, const float *x, int n,
                            const uint64_t *mask)
{
  operand in = { .f32 = x, .mask = mask, .n = n };
  spread_to_rows(at, grid, &in, true);
}

const tsr__exact_ops TSR__ISA_NAME(tsr__exact_ops) = {
  .sum_f64 = sum_f64,
  .sum_f32 = sum_f32,
  .spread_f64 = spread_f64,
  .spread_f32 = spread_tile_f32,
  .sum_i64 = TSR__ISA_NAME(tsr__sum_i64),
  .sum_i32 = TSR__ISA_NAME(tsr__sum_i32),
  .spread_i64 = TSR__ISA_NAME(tsr__spread_i64),
  .spread_i32 = TSR__ISA_NAME(tsr__spread_i32),
  .rows_add_f64 = TSR__ISA_NAME(tsr__rows_add_f64),
  .rows_add_f32 = TSR__ISA_NAME(tsr__rows_add_f32),
  .rows_square_f64 = TSR__ISA_NAME(tsr__rows_square_f64),
  .rows_square_f32 = TSR__ISA_NAME(tsr__rows_square_f32),
  .whole_units = TSR__ISA_NAME(tsr__whole_units),
  .rows_merge = TSR__ISA_NAME(tsr__rows_merge),
  .rows_run_f64 = rows_run_f64,
  .rows_run_f32 = rows_run_f32,
  .rows_spread_f64 = rows_spread_f64,
  .rows_spread_f32 = rows_spread_f32,
  .rows_down_f32 = TSR__ISA_NAME(tsr__rows_down_f32),
  .few_f32 = TSR__ISA_NAME(tsr__few_f32),
  .few_to_f32 = TSR__ISA_NAME(tsr__few_to_f32),
  .few_f64 = TSR__ISA_NAME(tsr__few_f64),
};
