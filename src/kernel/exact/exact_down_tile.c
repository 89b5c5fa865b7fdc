/* Exact sums down columns of f32, compiled once for each instruction set: many rows at once into a
 * row of elements, each kept as three doubles (exact_rows.h).
 *
 *   band of columns    x x x x x x    rows of a group, four at a time
 *                      x x x x x x
 *                      s s s s s s    sums in f64, and of squares `high` and `low`, as exact_tile.c
 *                      m m m m m m    has them; the largest and the smallest size that was met
 *
 * No addition rounds in a group of 64 rows whose sizes in a column are at most 22 binades apart:
 *
 *     x    24 bits, 22 binades and 64 of them                            52 bits
 *     low  of squares below 2^G: multiples of 2^(G - 92), sums 2^(G-40)  52 bits
 *
 * That is found out afterwards. A column of which it is not true, or of nothing but zeros, whose
 * sign may count, is added row by row. Invariant: `high` was begun for squares below 2^G. */
#include "kernel/exact/exact_lanes.h"

enum {
  GROUP = 64,  /* rows */
  BAND = 1024, /* columns: narrower ones read memory in pieces too short for it */
  WORDS = 2 * LANES,
  FAR = 22,     /* binades */
  ROOM = 2,     /* binades above the sizes of the group before */
  SPECIAL = 255 /* the exponent of NaN and infinities */
};

/* Some rows of a band: `n` columns of them, `stride` values from each other. */
typedef struct group {
  const float *x;
  int64_t stride;
  int n, rows;
} group;

/* State per column of a band. */
typedef struct band {
  double sum[BAND], high[BAND], low[BAND];
  uint32_t most[BAND], least[BAND]; /* bits of sizes; `least` is 1 less, so that 0 is the largest */
  int top[BAND];                    /* the exponent that sizes stay below, as f32 have it */
} band;

INLINE vw words_at(const void *from)
{
  vw out;
  memcpy(&out, from, sizeof out);
  return out;
}

INLINE vw larger_of(vw a, vw b)
{
#if defined(LANES_AVX512)
  return (vw)_mm512_max_epu32((__m512i)a, (__m512i)b);
#elif defined(LANES_AVX2)
  return (vw)_mm256_max_epu32((__m256i)a, (__m256i)b);
#else
  vw first = (vw)(a > b);
  return (a & first) | (b & ~first);
#endif
}

INLINE vw smaller_of(vw a, vw b)
{
#if defined(LANES_AVX512)
  return (vw)_mm512_min_epu32((__m512i)a, (__m512i)b);
#elif defined(LANES_AVX2)
  return (vw)_mm256_min_epu32((__m256i)a, (__m256i)b);
#else
  vw first = (vw)(a < b);
  return (a & first) | (b & ~first);
#endif
}

/* 1.5 * 2^(G + 7), where squares stay below 2^G: room for 64 of them, and the last place is
 * 2^(G - 45). */
INLINE double magic_of_top(int top)
{
  uint64_t bits = ((uint64_t)(2 * (top - 127) + 7 + 1023) << 52) | UINT64_C(1) << 51;
  double out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

INLINE void meet_sizes(band *b, int i, const group *g)
{
  vw most = words_at(b->most + i), least = words_at(b->least + i);
  for (int r = 0; r < g->rows; r++) {
    vw size = words_at(g->x + r * g->stride + i) & INT32_MAX;
    most = larger_of(most, size);
    least = smaller_of(least, size - 1);
  }
  memcpy(b->most + i, &most, sizeof most);
  memcpy(b->least + i, &least, sizeof least);
}

/* LANES columns of some rows. */
INLINE void add_down(band *b, int i, const group *g, bool squares)
{
  vd sum = load_doubles(b->sum + i), high = all(0), low = all(0);
  if (squares) high = load_doubles(b->high + i);
  if (squares) low = load_doubles(b->low + i);
  for (int r = 0; r < g->rows; r++) {
    vd value = load_floats(g->x + r * g->stride + i);
    sum = add_aside(sum, value);
    if (!squares) continue;
    vd next = add_square(high, value);
    low += square_less(value, next - high);
    high = next;
  }
  store_doubles(b->sum + i, sum);
  if (squares) store_doubles(b->high + i, high);
  if (squares) store_doubles(b->low + i, low);
}

/* The rows of the next group are prefetched meanwhile, a line a step, into the second cache: lines
 * of eight rows a power of two apart, and the sums, are more than a set of the first one has room
 * for. */
INLINE void add_some_rows(band *b, const group *g, bool squares)
{
  for (int i = 0; i + WORDS <= g->n; i += WORDS) {
    for (int r = 0; r < g->rows; r++)
      __builtin_prefetch((const void *)((uintptr_t)(g->x + i) +
                                        (uintptr_t)((g->rows + r) * g->stride) * sizeof *g->x),
                         0, 2);
    meet_sizes(b, i, g);
    add_down(b, i, g, squares);
    add_down(b, i + LANES, g, squares);
  }
}

/* Numbers of rows are literals in the calls, so that the loops over them are unrolled. */
INLINE void add_group(band *b, const group *g, bool squares)
{
  memset(b->sum, 0, sizeof b->sum);
  memset(b->low, 0, sizeof b->low);
  memset(b->most, 0, sizeof b->most);
  memset(b->least, -1, sizeof b->least);
  for (int i = 0; i < g->n && squares; i++) b->high[i] = magic_of_top(b->top[i]);
  int r = 0;
  for (; r + 4 <= g->rows; r += 4)
    add_some_rows(b, &(group){ g->x + r * g->stride, g->stride, g->n, 4 }, squares);
  for (; r < g->rows; r++)
    add_some_rows(b, &(group){ g->x + r * g->stride, g->stride, g->n, 1 }, squares);
}

/* Whether the additions in a column were exact. The exponents of denormals count as those of the
 * smallest normal numbers, whose last place they share. */
INLINE bool is_column_exact(const band *b, int i, bool squares)
{
  int most = (int)(b->most[i] >> 23), least = (int)((b->least[i] + 1) >> 23);
  int from = squares ? b->top[i] - 1 : most;
  return b->most[i] && most < SPECIAL && most <= from && from - (least ? least : 1) <= FAR;
}

/* Raises the bounds that the next group may meet. */
INLINE void raise_tops(band *b, int n)
{
  for (int i = 0; i < n; i++) {
    int most = (int)(b->most[i] >> 23);
    b->top[i] = most < SPECIAL - ROOM ? most + 1 + ROOM : SPECIAL;
  }
}

/* Columns of a group, row by row: those that `mask` chooses. */
static void add_each(tsr__rows_at at, const tsr__columns *x, const uint64_t *mask)
{
  for (int64_t r = 0; r < x->rows; r++) {
    const float *row = x->at + r * x->stride;
    TSR__ISA_NAME(tsr__rows_add_f32)(at.rows, at.element, row, x->n, mask);
    if (at.squares) TSR__ISA_NAME(tsr__rows_square_f32)(at.squares, at.element, row, x->n, mask);
  }
}

/* A group's sums to the elements; columns whose sums are not exact row by row. */
INLINE void commit_band(band *b, tsr__rows_at at, const tsr__columns *x, bool squares)
{
  uint64_t good[BAND / 64] = { 0 }, bad[BAND / 64], left = 0;
  for (int i = 0; i < x->n; i++)
    good[i / 64] |= (uint64_t)is_column_exact(b, i, squares) << (i % 64);
  for (int i = 0; i < BAND / 64; i++) bad[i] = ~good[i];
  for (int i = 0; i < x->n; i++) left |= bad[i / 64] >> (i % 64) & 1;
  TSR__ISA_NAME(tsr__rows_add_f64)(at.rows, at.element, b->sum, x->n, good);
  if (squares) {
    for (int i = 0; i < x->n; i++) b->high[i] -= magic_of_top(b->top[i]);
    TSR__ISA_NAME(tsr__rows_add_f64)(at.squares, at.element, b->high, x->n, good);
    TSR__ISA_NAME(tsr__rows_add_f64)(at.squares, at.element, b->low, x->n, good);
  }
  if (left) add_each(at, x, bad);
}

/* A band of whole vectors. */
INLINE void add_band(tsr__rows_at at, const tsr__columns *x, bool squares)
{
  band b;
  tsr__columns some = *x;
  group first = { x->at, x->stride, (int)x->n, x->rows < 4 ? 1 : 4 };
  memset(b.most, 0, sizeof b.most);
  memset(b.least, 0, sizeof b.least);
  for (int i = 0; i < x->n && squares; i += WORDS) meet_sizes(&b, i, &first);
  raise_tops(&b, (int)x->n);
  for (int64_t r = 0; r < x->rows; r += GROUP) {
    some.at = x->at + r * x->stride;
    some.rows = x->rows - r < GROUP ? x->rows - r : GROUP;
    add_group(&b, &(group){ some.at, x->stride, (int)x->n, (int)some.rows }, squares);
    commit_band(&b, at, &some, squares);
    raise_tops(&b, (int)x->n);
  }
}

void TSR__ISA_NAME(tsr__rows_down_f32)(tsr__rows_at at, const tsr__columns *x)
{
  const int64_t whole = x->rows < 4 ? 0 : x->n / WORDS * WORDS;
  for (int64_t i = 0; i < whole; i += BAND) {
    tsr__columns some = { x->at + i, whole - i < BAND ? whole - i : BAND, x->rows, x->stride };
    tsr__rows_at to = { at.rows, at.element + i, at.squares };
    if (at.squares) add_band(to, &some, true);
    else add_band(to, &some, false);
  }
  if (whole == x->n) return;
  tsr__columns rest = { x->at + whole, x->n - whole, x->rows, x->stride };
  add_each((tsr__rows_at){ at.rows, at.element + whole, at.squares }, &rest, NULL);
}
