/* The law of sums: whatever the order, split, mask, alignment or tile length, and however hostile
 * the values, every reducer gives the bits of exact arithmetic. Runs at each ISA.
 *
 * The oracle is a naive fixed-point adder of single bytes, written here for its slowness: two
 * long numbers (of the positive and of the negative values), schoolbook products, and rounding by
 * trying the neighbours of a first guess. It shares nothing with the library.
 * Computes on no device. */
#include "harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/exact/exact_bins.h"
#include "kernel/tile/isa.h"

/* ---- the oracle ------------------------------------------------------------------------------ */

/* A whole number of base-256 digits, low first; its unit is 2^-2400 (so that squares, and halves
 * of squares, are whole). */
enum { DIGITS = 700, UNIT = 2400 };

typedef struct digits {
  uint8_t d[DIGITS];
} digits;

static void digits_add(digits *to, const digits *x)
{
  unsigned up = 0;
  for (int i = 0; i < DIGITS; i++) {
    up += (unsigned)to->d[i] + x->d[i];
    to->d[i] = (uint8_t)up;
    up >>= 8;
  }
  CHECK(up == 0);
}

static int digits_compare(const digits *a, const digits *b)
{
  for (int i = DIGITS - 1; i >= 0; i--)
    if (a->d[i] != b->d[i]) return a->d[i] < b->d[i] ? -1 : 1;
  return 0;
}

static void digits_subtract(digits *to, const digits *x)
{
  int up = 0;
  for (int i = 0; i < DIGITS; i++) {
    up += (int)to->d[i] - x->d[i];
    to->d[i] = (uint8_t)(up & 255);
    up = up < 0 ? -1 : 0;
  }
  CHECK(up == 0);
}

/* whole * 2^exponent, digit by digit. */
static digits digits_of(uint64_t whole, int exponent)
{
  digits out = { { 0 } };
  for (int bit = 0; bit < 64; bit++) {
    if (!(whole >> bit & 1)) continue;
    int at = bit + exponent + UNIT;
    CHECK(at >= 0 && at < 8 * DIGITS);
    out.d[at / 8] |= (uint8_t)(1 << (at % 8));
  }
  return out;
}

static digits digits_of_f64(double size)
{
  int exponent;
  double fraction = frexp(size, &exponent);
  return digits_of((uint64_t)ldexp(fraction, 53), exponent - 53);
}

static digits digits_times(const digits *x, uint64_t by)
{
  digits out = { { 0 } };
  tsr__u128 up = 0;
  for (int i = 0; i < DIGITS; i++) {
    up += (tsr__u128)x->d[i] * by;
    out.d[i] = (uint8_t)up;
    up >>= 8;
  }
  CHECK(up == 0);
  return out;
}

/* What a sum remembers. */
typedef struct oracle {
  digits up, down, squares;
  int64_t n, nan, pinf, ninf, negative_zeros;
} oracle;

static digits square_of(double value)
{
  int exponent;
  uint64_t whole = (uint64_t)ldexp(frexp(fabs(value), &exponent), 53);
  exponent -= 53;
  uint64_t high = whole >> 32, low = whole & 0xffffffff;
  digits out = digits_of(high * high, 2 * exponent + 64);
  digits cross = digits_of(high * low, 2 * exponent + 33);
  digits last = digits_of(low * low, 2 * exponent);
  digits_add(&out, &cross);
  digits_add(&out, &last);
  return out;
}

static void oracle_add(oracle *o, double value, bool squares)
{
  o->n++;
  if (isnan(value)) {
    o->nan++;
  } else if (isinf(value)) {
    *(value > 0 ? &o->pinf : &o->ninf) += 1;
  } else if (value == 0) {
    o->negative_zeros += signbit(value) != 0;
  } else {
    digits size = digits_of_f64(fabs(value));
    digits_add(value > 0 ? &o->up : &o->down, &size);
    if (squares) {
      digits square = square_of(value);
      digits_add(&o->squares, &square);
    }
  }
}

/* The f64 or f32 nearest to a size: the one whose neighbours are both farther, by comparing the
 * size with the midpoints around a candidate, which bisection finds among the bits. */
static digits candidate(uint64_t bits, bool narrow)
{
  int width = narrow ? 23 : 52, bias = narrow ? 149 : 1074;
  uint64_t fraction = bits & (((uint64_t)1 << width) - 1);
  int field = (int)(bits >> width);
  if (field) fraction |= (uint64_t)1 << width;
  return digits_of(fraction, (field ? field - 1 : 0) - bias);
}

/* size * 2 * n against the sum of two neighbours, times n: no division, no rounding. */
static int against_middle(const digits *size, uint64_t n, uint64_t bits, bool narrow)
{
  digits a = candidate(bits, narrow), b = candidate(bits + 1, narrow);
  digits_add(&a, &b);
  digits left = digits_times(size, 2), right = digits_times(&a, n);
  return digits_compare(&left, &right);
}

/* size / n, rounded: the first bits whose upper midpoint is not below it. */
static double nearest(const digits *size, uint64_t n, bool narrow)
{
  uint64_t first = 0, last = narrow ? 0x7f800000u : UINT64_C(0x7ff0000000000000);
  while (first < last) {
    uint64_t middle = first + (last - first) / 2;
    int order = against_middle(size, n, middle, narrow);
    bool enough = order < 0 || (order == 0 && (middle & 1) == 0);
    if (enough) last = middle;
    else first = middle + 1;
  }
  if (narrow) {
    uint32_t bits = (uint32_t)first;
    float out;
    memcpy(&out, &bits, sizeof out);
    return (double)out;
  }
  double out;
  memcpy(&out, &first, sizeof out);
  return out;
}

static double oracle_mean(const oracle *o, int64_t n, bool narrow)
{
  if (n <= 0 || o->nan || (o->pinf && o->ninf)) return NAN;
  if (o->pinf) return INFINITY;
  if (o->ninf) return -INFINITY;
  int order = digits_compare(&o->up, &o->down);
  if (!order) return o->n && o->negative_zeros == o->n ? -0.0 : 0.0;
  digits size = order > 0 ? o->up : o->down;
  digits_subtract(&size, order > 0 ? &o->down : &o->up);
  double out = nearest(&size, (uint64_t)n, narrow);
  return order > 0 ? out : -out;
}

/* ---- values ---------------------------------------------------------------------------------- */

enum kind {
  UNIFORM,
  SPAN,
  WIDE,
  CANCEL,
  DENORMAL,
  ZEROS,
  SPECIALS,
  HUGE_ONES,
  OUTLIERS,
  INTEGERS,
  ANYTHING,
  KINDS
};

static double one_value(test_rng *rng, enum kind kind, int64_t i, int span)
{
  double u = test_uniform(rng) - 0.25;
  switch (kind) {
  case UNIFORM: return u * 100;
  case SPAN: return ldexp(1 + fabs(u), (int)test_range(rng, 0, span)) * (u < 0 ? -1 : 1);
  case WIDE: return ldexp(u, (int)test_range(rng, -40, 40));
  case CANCEL: return i % 2 ? u * 1e18 : ldexp(u, -60);
  case DENORMAL: return ldexp(u, -1040 - (int)test_range(rng, 0, 40));
  case ZEROS: return test_range(rng, 0, 3) ? (test_range(rng, 0, 1) ? 0.0 : -0.0) : u;
  case SPECIALS: {
    const double special[] = { INFINITY, -INFINITY, NAN, 0.0, -0.0, DBL_MAX };
    int64_t which = test_range(rng, 0, 60);
    return which < 6 ? special[which] : u;
  }
  case HUGE_ONES: return copysign(ldexp(1 + fabs(u), 1023 - (int)test_range(rng, 0, 2)), u);
  case OUTLIERS: return test_range(rng, 0, 99) ? u : ldexp(u, (int)test_range(rng, -900, 900));
  case INTEGERS: return (double)test_range(rng, -1000, 1000);
  default: return test_any_f64(rng);
  }
}

/* n values of a kind, with a switch of scale in the middle so that a grid must follow. */
static void fill(test_rng *rng, enum kind kind, double *x, int64_t n)
{
  bool even = kind == HUGE_ONES || kind == DENORMAL || kind == SPAN || kind == ANYTHING;
  int scale = (int)test_range(rng, -30, 30), span = (int)test_range(rng, 10, 40);
  for (int64_t i = 0; i < n; i++) {
    x[i] = one_value(rng, kind, i, span);
    if (i > n / 2 && !even) x[i] = ldexp(x[i], scale);
  }
}

static void fill_mask(test_rng *rng, uint64_t *mask, int64_t n)
{
  int64_t density = test_range(rng, 0, 3);
  for (int64_t i = 0; i < (n + 63) / 64; i++) {
    uint64_t bits = test_random(rng);
    if (density == 0) bits &= test_random(rng) & test_random(rng) & test_random(rng);
    if (density == 1) bits |= test_random(rng) | test_random(rng) | test_random(rng);
    if (density == 2 && i % 2) bits = 0;
    mask[i] = bits;
  }
}

static bool taken(const uint64_t *mask, int64_t i)
{
  return !mask || (mask[i >> 6] >> (i & 63) & 1);
}

static const tsr__exact_ops *reducers(void)
{
  const char *isa = getenv("TSR_ISA");
  const tsr__tiles *tiles = tsr__tiles_of(isa ? isa : "baseline");
  CHECK(tiles != NULL);
  return tiles->exact;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* The same values as f64 and as f32 (rounded), against guard pages, at an odd start. */
typedef struct input {
  int n;
  double *f64;
  float *f32;
  uint64_t *mask; /* or NULL */
} input;

static input make_input(test_rng *rng, enum kind kind, int n)
{
  input in = { .n = n };
  in.f64 = test_guarded((size_t)n * sizeof(double));
  in.f32 = test_guarded((size_t)n * sizeof(float));
  fill(rng, kind, in.f64, n);
  for (int i = 0; i < n; i++) in.f32[i] = (float)in.f64[i];
  if (test_range(rng, 0, 1)) {
    in.mask = test_guarded((size_t)(n + 63) / 64 * 8);
    fill_mask(rng, in.mask, n);
  }
  return in;
}

static void check_sum(const tsr__acc *acc, const oracle *want, const char *what, const input *in)
{
  double sum = tsr__acc_sum(acc, TSR_F64), exact = oracle_mean(want, 1, false);
  float sum32 = (float)tsr__acc_sum(acc, TSR_F32), exact32 = (float)oracle_mean(want, 1, true);
  if (memcmp(&sum, &exact, sizeof sum) && !(isnan(sum) && isnan(exact)))
    FAIL("%s of %d values: %a, exactly %a", what, in->n, sum, exact);
  if (memcmp(&sum32, &exact32, sizeof sum32) && !(isnan(sum32) && isnan(exact32)))
    FAIL("%s of %d values to f32: %a, exactly %a", what, in->n, (double)sum32, (double)exact32);
  CHECK_F64_BITS(tsr__acc_mean(acc, want->n, TSR_F64), oracle_mean(want, want->n, false));
  CHECK_F32_BITS((float)tsr__acc_mean(acc, want->n, TSR_F32),
                 (float)oracle_mean(want, want->n, true));
}

/* The squares, as wire bytes: equal exact values have equal bytes. */
static void check_squares(const tsr__acc2 *acc, const oracle *want)
{
  if (want->nan || want->pinf || want->ninf) {
    CHECK(acc->flags & (TSR__SAW_NAN | TSR__SAW_PINF | TSR__SAW_NINF));
    return;
  }
  unsigned char wire[TSR__ACC2_WIRE];
  tsr__acc2_pack(acc, wire);
  digits got = { { 0 } };
  for (int i = 0; i < 4 * TSR__ACC2_WORDS; i++) {
    int at = 8 * i + UNIT + TSR__ACC2_BASE;
    CHECK(at % 4 == 0);
    got.d[at / 8] |= (uint8_t)(wire[i] << (at % 8));
    if (at % 8) got.d[at / 8 + 1] |= (uint8_t)(wire[i] >> (8 - at % 8));
  }
  CHECK(digits_compare(&got, &want->squares) == 0);
}

/* The tile again, the grid as other data left it. */
static tsr__grid any_grid(test_rng *rng)
{
  tsr__grid grid = { 0 };
  grid.exponent = (int16_t)test_range(rng, -90, 100);
  grid.careful = (uint8_t)test_range(rng, 0, 1);
  grid.streak = (uint8_t)test_range(rng, 0, 20);
  return grid;
}

static void check_tile(test_rng *rng, const input *in)
{
  const tsr__exact_ops *ops = reducers();
  oracle want = { 0 }, want32 = { 0 };
  for (int i = 0; i < in->n; i++) {
    if (!taken(in->mask, i)) continue;
    oracle_add(&want, in->f64[i], true);
    oracle_add(&want32, (double)in->f32[i], true);
  }
  tsr__grid grid = any_grid(rng), grid32 = grid;
  for (int again = 0; again < 3; again++) {
    tsr__acc sum = { 0 }, sum32 = { 0 };
    ops->sum_f64(&sum, &grid, in->f64, in->n, in->mask);
    ops->sum_f32(&sum32, &grid32, in->f32, in->n, in->mask);
    check_sum(&sum, &want, "sum_f64", in);
    check_sum(&sum32, &want32, "sum_f32", in);
  }
  grid = grid32 = any_grid(rng);
  tsr__spread both = { 0 }, both32 = { 0 };
  ops->spread_f64(&both, &grid, in->f64, in->n, in->mask);
  ops->spread_f32(&both32, &grid32, in->f32, in->n, in->mask);
  check_sum(&both.sum, &want, "spread_f64", in);
  check_sum(&both32.sum, &want32, "spread_f32", in);
  check_squares(&both.squares, &want);
  check_squares(&both32.squares, &want32);
}

TEST_TIMEOUT(tiles_of_every_short_length, 300)
{
  test_rng rng = test_seeded(1);
  for (int n = 0; n <= 70; n++)
    for (int kind = 0; kind < KINDS; kind++) {
      if (test_quick() && (n + kind) % 3) continue;
      input in = make_input(&rng, (enum kind)kind, n);
      check_tile(&rng, &in);
    }
}

TEST_TIMEOUT(tiles_of_full_length, 300)
{
  test_rng rng = test_seeded(2);
  for (int round = 0; round < (test_quick() ? 1 : 6); round++)
    for (int kind = 0; kind < KINDS; kind++) {
      int n = TSR__TILE - (int)test_range(&rng, 0, 1) * (int)test_range(&rng, 0, 40);
      input in = make_input(&rng, (enum kind)kind, n);
      check_tile(&rng, &in);
    }
}

/* ---- many tiles, in any order, over several accumulators ------------------------------------- */

static void check_split(test_rng *rng, enum kind kind, int64_t n)
{
  const tsr__exact_ops *ops = reducers();
  double *x = test_guarded((size_t)n * sizeof *x);
  fill(rng, kind, x, n);
  oracle want = { 0 };
  for (int64_t i = 0; i < n; i++) oracle_add(&want, x[i], false);
  for (int64_t i = n - 1; i > 0; i--) { /* any order */
    int64_t k = test_range(rng, 0, i);
    double swap = x[i];
    x[i] = x[k];
    x[k] = swap;
  }
  enum { PARTS = 5 };
  tsr__acc part[PARTS] = { 0 }, total = { 0 };
  tsr__grid grid[PARTS] = { 0 };
  for (int64_t i = 0; i < n;) {
    int64_t to = test_range(rng, 0, PARTS - 1);
    int64_t most = n - i < TSR__TILE ? n - i : TSR__TILE;
    int64_t count = test_range(rng, 0, 2) ? most : test_range(rng, 0, most);
    ops->sum_f64(&part[to], &grid[to], x + i, (int)count, NULL);
    i += count;
  }
  int64_t first = test_range(rng, 0, PARTS - 1);
  for (int64_t i = 0; i < PARTS; i++) tsr__acc_merge(&total, &part[(first + 2 * i) % PARTS]);
  input in = { .n = (int)n };
  check_sum(&total, &want, "split", &in);
}

TEST_TIMEOUT(orders_and_splits_do_not_show, 300)
{
  test_rng rng = test_seeded(3);
  for (int round = 0; round < (test_quick() ? 1 : 4); round++)
    for (int kind = 0; kind < KINDS; kind++)
      check_split(&rng, (enum kind)kind, test_range(&rng, 0, 9000));
}

/* ---- integers -------------------------------------------------------------------------------- */

static void check_integers(test_rng *rng, int n)
{
  const tsr__exact_ops *ops = reducers();
  int64_t *wide = test_guarded((size_t)n * sizeof *wide);
  int32_t *narrow = test_guarded((size_t)n * sizeof *narrow);
  uint64_t *mask = test_range(rng, 0, 1) ? test_guarded((size_t)(n + 63) / 64 * 8) : NULL;
  int extreme = (int)test_range(rng, 0, 3);
  if (mask) fill_mask(rng, mask, n);
  oracle want[2] = { 0 };
  for (int i = 0; i < n; i++) {
    wide[i] = (int64_t)test_random(rng) >> test_range(rng, 0, 60);
    if (extreme == 0) wide[i] = INT64_MIN;
    if (extreme == 1) wide[i] = INT64_MAX - (int64_t)test_range(rng, 0, 1);
    narrow[i] = extreme == 0 ? INT32_MIN : (int32_t)wide[i];
    if (!taken(mask, i)) continue;
    for (int k = 0; k < 2; k++) {
      int64_t value = k ? narrow[i] : wide[i];
      uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
      digits one = digits_of(size, 0), square = digits_times(&one, size);
      digits_add(value < 0 ? &want[k].down : &want[k].up, &one);
      digits_add(&want[k].squares, &square);
      want[k].n++;
    }
  }
  tsr__int_spread got[2] = { 0 };
  tsr__i128 sum[2] = { 0, 0 };
  ops->sum_i64(&sum[0], wide, n, mask);
  ops->sum_i32(&sum[1], narrow, n, mask);
  ops->spread_i64(&got[0], wide, n, mask);
  ops->spread_i32(&got[1], narrow, n, mask);
  for (int k = 0; k < 2; k++) {
    CHECK(got[k].sum == sum[k]);
    bool negative = sum[k] < 0;
    tsr__u128 size = negative ? -(tsr__u128)sum[k] : (tsr__u128)sum[k];
    digits total = digits_of((uint64_t)size, 0), high = digits_of((uint64_t)(size >> 64), 64);
    digits_add(&total, &high);
    digits_add(&total, negative ? &want[k].up : &want[k].down);
    CHECK(digits_compare(&total, negative ? &want[k].down : &want[k].up) == 0);
    digits squares = { { 0 } };
    for (int i = 0; i < 3; i++) {
      digits word = digits_of(got[k].squares.word[i], 64 * i);
      digits_add(&squares, &word);
    }
    CHECK(digits_compare(&squares, &want[k].squares) == 0);
  }
}

TEST(integers_in_128_bits)
{
  test_rng rng = test_seeded(4);
  for (int n = 0; n <= 70; n++) check_integers(&rng, n);
  for (int round = 0; round < 8; round++) check_integers(&rng, TSR__TILE);
}

/* ---- rows ------------------------------------------------------------------------------------ */

enum { ROWS = 21 };

/* Rows of `width` values are added, masked or not, to three sets of sums that are then merged. */
typedef struct grid_case {
  enum kind kind;
  int width, height;
  double *x; /* height rows of width */
  oracle want[ROWS], want32[ROWS];
} grid_case;

typedef struct row_sums {
  tsr__rows sum, squares;
} row_sums;

static void open_sums(row_sums *s, tsr__heap *heap, int width)
{
  tsr__rows_init(&s->sum, heap, test_guarded(tsr__rows_bytes(width)), width);
  tsr__rows_init(&s->squares, heap, test_guarded(tsr__rows_bytes(width)), width);
}

static void close_sums(row_sums *s)
{
  CHECK(!s->sum.failed && !s->squares.failed);
  tsr__rows_free(&s->sum);
  tsr__rows_free(&s->squares);
}

static void add_row(test_rng *rng, grid_case *g, int row, row_sums *to, row_sums *to32)
{
  const tsr__exact_ops *ops = reducers();
  uint64_t bits = test_range(rng, 0, 1) ? test_random(rng) : UINT64_MAX;
  const uint64_t *mask = bits == UINT64_MAX ? NULL : &bits;
  double *x = g->x + row * g->width;
  float *x32 = test_guarded((size_t)g->width * sizeof *x32);
  for (int i = 0; i < g->width; i++) {
    x32[i] = (float)x[i];
    if (!taken(mask, i)) continue;
    oracle_add(&g->want[i], x[i], true);
    oracle_add(&g->want32[i], (double)x32[i], true);
  }
  ops->rows_add_f64(&to->sum, 0, x, g->width, mask);
  ops->rows_square_f64(&to->squares, 0, x, g->width, mask);
  ops->rows_add_f32(&to32->sum, 0, x32, g->width, mask);
  ops->rows_square_f32(&to32->squares, 0, x32, g->width, mask);
}

static void check_rows(const row_sums *got, const oracle *want, int width)
{
  double sum[ROWS], mean[ROWS];
  float sum32[ROWS], mean32[ROWS];
  int64_t counts[ROWS];
  for (int i = 0; i < width; i++) counts[i] = want[i].n;
  tsr__rows_read read = { .counts = counts, .ddof = 1 };
  tsr__rows_sum(&got->sum, &(tsr__rows_read){ .to = TSR_F64 }, sum);
  tsr__rows_sum(&got->sum, &(tsr__rows_read){ .to = TSR_F32 }, sum32);
  read.to = TSR_F64;
  tsr__rows_mean(&got->sum, &read, mean);
  read.to = TSR_F32;
  tsr__rows_mean(&got->sum, &read, mean32);
  for (int i = 0; i < width; i++) {
    CHECK_F64_BITS(sum[i], oracle_mean(&want[i], 1, false));
    CHECK_F32_BITS(sum32[i], (float)oracle_mean(&want[i], 1, true));
    CHECK_F64_BITS(mean[i], oracle_mean(&want[i], want[i].n, false));
    CHECK_F32_BITS(mean32[i], (float)oracle_mean(&want[i], want[i].n, true));
    tsr__acc2 squares;
    tsr__rows_get(&got->squares, i, &squares);
    check_squares(&squares, &want[i]);
  }
}

/* var of rows equals var of the accumulators, which the golden file has checked. */
static void check_row_spreads(const row_sums *got, int width)
{
  for (int root = 0; root < 2; root++) {
    tsr__rows_read read = { .n = 9, .ddof = 1, .root = root };
    tsr__spread_read one = { .n = 9, .ddof = 1, .root = root };
    double wide[ROWS];
    float narrow[ROWS];
    read.to = TSR_F64;
    tsr__rows_spread(&got->sum, &got->squares, &read, wide);
    read.to = TSR_F32;
    tsr__rows_spread(&got->sum, &got->squares, &read, narrow);
    for (int i = 0; i < width; i++) {
      tsr__acc2 sum, squares;
      tsr__rows_get(&got->sum, i, &sum);
      tsr__rows_get(&got->squares, i, &squares);
      CHECK_F64_BITS(wide[i], tsr__acc2_spread(&sum, &squares, &one, TSR_F64));
      CHECK_F32_BITS(narrow[i], (float)tsr__acc2_spread(&sum, &squares, &one, TSR_F32));
    }
  }
}

static void check_grid(test_rng *rng, enum kind kind, int width, int height)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr__heap heap;
  tsr__heap_init(&heap, &allocator);
  grid_case *g = calloc(1, sizeof *g);
  g->kind = kind;
  g->width = width;
  g->height = height;
  g->x = malloc((size_t)(width * height + 1) * sizeof *g->x);
  fill(rng, kind, g->x, width * height);
  row_sums part[3], part32[3];
  for (int k = 0; k < 3; k++) {
    open_sums(&part[k], &heap, width);
    open_sums(&part32[k], &heap, width);
  }
  for (int row = 0; row < height; row++) {
    int64_t to = test_range(rng, 0, 2);
    add_row(rng, g, row, &part[to], &part32[to]);
  }
  for (int k = 1; k < 3; k++) {
    reducers()->rows_merge(&part[0].sum, 0, &part[k].sum);
    reducers()->rows_merge(&part[0].squares, 0, &part[k].squares);
    reducers()->rows_merge(&part32[0].sum, 0, &part32[k].sum);
    reducers()->rows_merge(&part32[0].squares, 0, &part32[k].squares);
  }
  check_rows(&part[0], g->want, width);
  check_rows(&part32[0], g->want32, width);
  check_row_spreads(&part[0], width);
  check_row_spreads(&part32[0], width);
  for (int k = 0; k < 3; k++) {
    close_sums(&part[k]);
    close_sums(&part32[k]);
  }
  CHECK_I64(state.live, 0);
  free(g->x);
  free(g);
}

TEST_TIMEOUT(rows_of_every_kind, 300)
{
  test_rng rng = test_seeded(5);
  for (int round = 0; round < (test_quick() ? 1 : 5); round++)
    for (int kind = 0; kind < KINDS; kind++)
      check_grid(&rng, (enum kind)kind, (int)test_range(&rng, 1, ROWS),
                 (int)test_range(&rng, 0, 40));
}

/* Columns of many rows at once, some of which no window holds. */
static void check_columns(test_rng *rng, enum kind kind, int width, int height)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  row_sums sums, spreads;
  open_sums(&sums, &heap, width);
  open_sums(&spreads, &heap, width);
  oracle *want = calloc(ROWS, sizeof *want);
  int stride = width + (int)test_range(rng, 0, 3);
  float *x = test_guarded((size_t)(stride * (height - 1) + width) * sizeof *x);
  for (int r = 0; r < height; r++) {
    input in =
        make_input(rng, r % 100 == 70 ? (enum kind)test_range(rng, 0, KINDS - 1) : kind, width);
    for (int i = 0; i < width; i++) {
      x[r * stride + i] = in.f32[i];
      oracle_add(&want[i], (double)in.f32[i], true);
    }
  }
  tsr__columns all = { x, width, height, stride };
  reducers()->rows_down_f32((tsr__rows_at){ &sums.sum, 0, NULL }, &all);
  reducers()->rows_down_f32((tsr__rows_at){ &spreads.sum, 0, &spreads.squares }, &all);
  check_rows(&spreads, want, width);
  double once[ROWS], again[ROWS];
  tsr__rows_sum(&sums.sum, &(tsr__rows_read){ .to = TSR_F64 }, once);
  tsr__rows_sum(&spreads.sum, &(tsr__rows_read){ .to = TSR_F64 }, again);
  CHECK_BYTES(once, again, (size_t)width * sizeof *once);
  free(want);
  close_sums(&sums);
  close_sums(&spreads);
}

TEST_TIMEOUT(columns_of_every_kind, 300)
{
  test_rng rng = test_seeded(8);
  for (int round = 0; round < (test_quick() ? 1 : 5); round++)
    for (int kind = 0; kind < KINDS; kind++)
      check_columns(&rng, (enum kind)kind, (int)test_range(&rng, 1, ROWS),
                    (int)test_range(&rng, 1, 150));
}

/* By group: the same sums of the same values. */
/* Some rows of which every column is one sum: it is given, or left where no few parts hold it. */
static int check_few(test_rng *rng, enum kind kind, int n, int count)
{
  enum { MEMBERS = 16 };
  double *wide[MEMBERS], got[TSR__TILE], got32[TSR__TILE];
  float *narrow[MEMBERS], rounded[TSR__TILE];
  const void *x[MEMBERS], *x32[MEMBERS];
  uint64_t left[TSR__TILE / 64], left32[TSR__TILE / 64], left_too[TSR__TILE / 64];
  oracle *want = calloc((size_t)n * 2, sizeof *want), *want32 = want + n;
  int given = 0;
  for (int k = 0; k < count; k++) {
    input in = make_input(rng, kind, n);
    x[k] = wide[k] = test_guarded((size_t)n * sizeof(double));
    x32[k] = narrow[k] = test_guarded((size_t)n * sizeof(float));
    memcpy(wide[k], in.f64, (size_t)n * sizeof(double));
    memcpy(narrow[k], in.f32, (size_t)n * sizeof(float));
    for (int i = 0; i < n; i++) {
      /* What was lost shows where large ones cancel. */
      bool cancels = k && kind == CANCEL && test_range(rng, 0, 2) == 0;
      if (cancels) wide[k][i] = -wide[k - 1][i], narrow[k][i] = -narrow[k - 1][i];
      else if (kind == CANCEL && test_range(rng, 0, 1))
        wide[k][i] *= 0x1p-60, narrow[k][i] *= 0x1p-60f;
      oracle_add(&want[i], wide[k][i], false);
      oracle_add(&want32[i], (double)narrow[k][i], false);
    }
  }
  reducers()->few_f64(got, left, &(tsr__few){ x, count, n });
  reducers()->few_f32(got32, left32, &(tsr__few){ x32, count, n });
  reducers()->few_to_f32(rounded, left_too, &(tsr__few){ x32, count, n }, 0.25);
  CHECK(!memcmp(left_too, left32, ((size_t)n + 63) / 64 * sizeof *left_too));
  for (int i = 0; i < n; i++) {
    if (!(left[i / 64] >> i % 64 & 1)) CHECK_F64_BITS(got[i], oracle_mean(&want[i], 1, false));
    if (left32[i / 64] >> i % 64 & 1) continue;
    CHECK_F64_BITS((double)(float)got32[i], oracle_mean(&want32[i], 1, true));
    CHECK_F64_BITS((double)rounded[i], (double)(float)(got32[i] * 0.25));
    given++;
  }
  free(want);
  return given;
}

TEST_TIMEOUT(few_of_every_kind, 300)
{
  test_rng rng = test_seeded(21);
  for (int round = 0; round < (test_quick() ? 1 : 5); round++)
    for (int kind = 0; kind < KINDS; kind++) {
      int n = (int)test_range(&rng, 1, 150), count = (int)test_range(&rng, 1, 16);
      int given = check_few(&rng, (enum kind)kind, n, count);
      if (kind == UNIFORM || kind == INTEGERS) CHECK(given >= n / 2);
    }
}

/* Full mantissas at both ends of so many binades: near those that f64 holds just so. What was lost
 * shows where the large ones cancel. */
TEST(few_that_lie_apart)
{
  enum { MEMBERS = 16, N = 40 };
  float x[MEMBERS][N], got[N];
  const void *rows[MEMBERS];
  uint64_t left[1];
  test_rng rng = test_seeded(22);
  for (int gap = 18; gap < 36; gap++)
    for (int count = 3; count <= MEMBERS; count++) {
      oracle want[N] = { 0 };
      int given = 0;
      for (int k = 0; k < count; k++) rows[k] = x[k];
      for (int i = 0; i < N; i++)
        for (int k = 0; k < count; k++) {
          float low = 1 + (float)test_range(&rng, 0, 0x3fffff) * 0x1p-22f + 0x1p-23f;
          bool large = k != 1 && i % 3;
          x[k][i] = large ? ldexpf(2 - 0x1p-23f, gap) : low;
          if (large && 2 * k > count) x[k][i] = -x[k][i];
          oracle_add(&want[i], (double)x[k][i], false);
        }
      reducers()->few_to_f32(got, left, &(tsr__few){ rows, count, N }, 1);
      for (int i = 0; i < N; i++) {
        if (left[0] >> i & 1) continue;
        CHECK_F64_BITS((double)got[i], oracle_mean(&want[i], 1, true));
        given++;
      }
      CHECK(given == N || gap > 23);
    }
}

static void check_groups(test_rng *rng, enum kind kind, int n)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  row_sums s;
  open_sums(&s, &heap, ROWS);
  input in = make_input(rng, kind, n);
  int32_t *group = test_guarded((size_t)n * sizeof *group);
  oracle *want = calloc(ROWS, sizeof *want);
  for (int i = 0; i < n; i++) {
    group[i] = (int32_t)test_range(rng, -1, ROWS - 1);
    if (taken(in.mask, i) && group[i] >= 0) oracle_add(&want[group[i]], in.f64[i], true);
  }
  tsr__scatter how = { .group = group, .mask = in.mask, .n = n };
  tsr__rows_scatter_f64(&s.sum, in.f64, &how);
  how.squares = true;
  tsr__rows_scatter_f64(&s.squares, in.f64, &how);
  check_rows(&s, want, ROWS);
  free(want);
  close_sums(&s);
}

/* A tile into one element: first its sum, then both sums. */
static void check_run(test_rng *rng, enum kind kind, int n)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  row_sums wide, narrow;
  open_sums(&wide, &heap, 2);
  open_sums(&narrow, &heap, 2);
  input in = make_input(rng, kind, n);
  oracle *want = calloc(2, sizeof *want), *want32 = calloc(2, sizeof *want32);
  for (int i = 0; i < n; i++) {
    if (!taken(in.mask, i)) continue;
    oracle_add(&want[1], in.f64[i], true);
    oracle_add(&want32[1], (double)in.f32[i], true);
  }
  const tsr__exact_ops *ops = reducers();
  tsr__grid grid = any_grid(rng), grid32 = any_grid(rng);
  double sum[2];
  float sum32[2];
  ops->rows_run_f64((tsr__rows_at){ &wide.sum, 1, NULL }, &grid, in.f64, n, in.mask);
  ops->rows_run_f32((tsr__rows_at){ &narrow.sum, 1, NULL }, &grid32, in.f32, n, in.mask);
  tsr__rows_sum(&wide.sum, &(tsr__rows_read){ .to = TSR_F64 }, sum);
  tsr__rows_sum(&narrow.sum, &(tsr__rows_read){ .to = TSR_F32 }, sum32);
  CHECK_F64_BITS(sum[1], oracle_mean(&want[1], 1, false));
  CHECK_F32_BITS(sum32[1], (float)oracle_mean(&want32[1], 1, true));
  tsr__rows_clear(&wide.sum);
  tsr__rows_clear(&narrow.sum);
  ops->rows_spread_f64((tsr__rows_at){ &wide.sum, 1, &wide.squares }, &grid, in.f64, n, in.mask);
  ops->rows_spread_f32((tsr__rows_at){ &narrow.sum, 1, &narrow.squares }, &grid32, in.f32, n,
                       in.mask);
  check_rows(&wide, want, 2);
  check_rows(&narrow, want32, 2);
  free(want);
  free(want32);
  close_sums(&wide);
  close_sums(&narrow);
}

TEST_TIMEOUT(groups_and_runs, 300)
{
  test_rng rng = test_seeded(6);
  for (int round = 0; round < (test_quick() ? 1 : 5); round++)
    for (int kind = 0; kind < KINDS; kind++) {
      check_groups(&rng, (enum kind)kind, (int)test_range(&rng, 0, TSR__TILE));
      check_run(&rng, (enum kind)kind, (int)test_range(&rng, 0, TSR__TILE));
      check_run(&rng, (enum kind)kind, 32 * (int)test_range(&rng, 1, TSR__TILE / 32)); /* no rest */
    }
}

/* ---- bins ------------------------------------------------------------------------------------ */

static tsr__bins open_bins(tsr__heap *heap, int count)
{
  tsr__bins bins;
  tsr__bins_init(&bins, reducers(), heap, test_guarded(tsr__bins_bytes(count)), count);
  return bins;
}

static void check_bin_sums(tsr__bins *bins, const oracle *want)
{
  double sum[ROWS];
  tsr__bins_empty(bins);
  CHECK(!bins->rows.failed);
  tsr__rows_sum(&bins->rows, &(tsr__rows_read){ .to = TSR_F64 }, sum);
  for (int i = 0; i < ROWS; i++) CHECK_F64_BITS(sum[i], oracle_mean(&want[i], 1, false));
  tsr__rows_free(&bins->rows);
}

/* Blocks of any length at places of which -1 is none, in one of several tables that are joined
 * then, of which the first has values to begin with. */
static void check_bins(test_rng *rng, enum kind kind, bool narrow)
{
  enum { TABLES = 3 };
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__bins bins[TABLES];
  for (int k = 0; k < TABLES; k++) bins[k] = open_bins(&heap, ROWS);
  oracle *want = calloc(ROWS, sizeof *want);
  input in = make_input(rng, kind, ROWS);
  for (int i = 0; i < ROWS; i++) oracle_add(&want[i], in.f64[i], true);
  for (int i = 0; i < TABLES * ROWS; i++)
    bins[i / ROWS].plain |= in.f64[i % ROWS] == 0 && signbit(in.f64[i % ROWS]);
  tsr__bins_begin(&bins[0]);
  tsr__rows_begin(&bins[0].rows, 0, &(tsr__reals){ .f64 = in.f64, .n = ROWS });
  for (int block = 0; block < 8; block++) {
    int n = (int)test_range(rng, 1, TSR__BINS_BLOCK);
    if (block == 3) kind = (enum kind)test_range(rng, 0, KINDS - 1); /* another unit */
    in = make_input(rng, kind, n);
    int64_t *place = test_guarded((size_t)n * sizeof *place);
    for (int i = 0; i < n; i++) {
      place[i] = test_range(rng, -1, ROWS - 1);
      double value = narrow ? (double)in.f32[i] : in.f64[i];
      if (place[i] >= 0) oracle_add(&want[place[i]], value, true);
    }
    tsr__bins_add(&bins[test_range(rng, 0, TABLES - 1)], place,
                  &(tsr__reals){ narrow ? NULL : in.f64, narrow ? in.f32 : NULL, n });
  }
  for (int k = 1; k < TABLES; k++) tsr__bins_join(&bins[0], &bins[k]);
  check_bin_sums(&bins[0], want);
  for (int k = 1; k < TABLES; k++) tsr__rows_free(&bins[k].rows);
  free(want);
}

TEST_TIMEOUT(bins_of_every_kind, 300)
{
  test_rng rng = test_seeded(7);
  for (int round = 0; round < (test_quick() ? 1 : 5); round++)
    for (int kind = 0; kind < KINDS; kind++) {
      check_bins(&rng, (enum kind)kind, false);
      check_bins(&rng, (enum kind)kind, true);
    }
}

/* So many of the largest values that they would fill more than 63 bits, and of each part emptied on
 * the way more than 53. */
TEST(bins_never_overflow)
{
  enum { BLOCKS = 48800, LENGTH = TSR__BINS_BLOCK - 1, MOST_ADDED = 1 << 22 };
  static double x[LENGTH];
  static int64_t place[LENGTH]; /* 0 */
  const int64_t units = ((int64_t)1 << 39) - 1;
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__bins bins = open_bins(&heap, 1), more = open_bins(&heap, 1);
  double sum;
  for (int i = 0; i < LENGTH; i++) x[i] = (double)units * 0x1p-39;
  for (int k = 0; k < BLOCKS; k++)
    tsr__bins_add(k % 2 ? &bins : &more, place, &(tsr__reals){ .f64 = x, .n = LENGTH });
  CHECK(bins.added + more.added > MOST_ADDED); /* in one table they would be too many */
  tsr__bins_join(&bins, &more);
  tsr__bins_empty(&bins);
  tsr__rows_sum(&bins.rows, &(tsr__rows_read){ .to = TSR_F64 }, &sum);
  const tsr__i128 all = (tsr__i128)units * LENGTH * BLOCKS;
  CHECK_F64_BITS(sum, (double)all * 0x1p-39);
  tsr__rows_add(&bins.rows, 0, -sum); /* what rounding took shows that nothing else was lost */
  tsr__rows_sum(&bins.rows, &(tsr__rows_read){ .to = TSR_F64 }, &sum);
  CHECK_F64_BITS(sum, (double)(all - (tsr__i128)(double)all) * 0x1p-39);
  CHECK(!bins.plain);
}

TEST(an_escape_without_memory_is_reported)
{
  struct test_alloc state = { .fail_at = 1, .stay = true };
  tsr_allocator allocator = test_allocator(&state);
  tsr__heap heap;
  tsr__heap_init(&heap, &allocator);
  double memory[3];
  tsr__rows rows;
  tsr__rows_init(&rows, &heap, memory, 1);
  tsr__rows_add(&rows, 0, 1.0);
  CHECK(!rows.failed);
  tsr__rows_add(&rows, 0, 0x1p1020);
  CHECK(rows.failed);
  tsr__rows_free(&rows);
}
