/* Distributions against their formulas: distances of Kolmogorov and Smirnov, chi-square, moments;
 * ends, and what is refused. Keys are fixed: what passes once passes always. Runs at each ISA. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/naive_program.h"
#include "tessera.h"

enum { N = 100000 };

typedef struct world {
  tsr_runtime *rt;
  tsr_scope *s;
} world;

static world opened(void)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3", .threads = 2);
  return (world){ rt, tsr_scope_open(rt) };
}

static void closed(world *w)
{
  tsr_scope_close(w->s);
  tsr_runtime_close(w->rt);
}

static void read_f64(world *w, tsr_array *a, double *out, int64_t count)
{
  CHECK_STATUS(tsr_read(tsr_cast(a, TSR_F64), out, (size_t)count * sizeof *out), TSR_OK, w->s);
}

static void read_i64(world *w, tsr_array *a, int64_t *out, int64_t count)
{
  CHECK_STATUS(tsr_read(tsr_cast(a, TSR_I64), out, (size_t)count * sizeof *out), TSR_OK, w->s);
}

/* ---- of numbers ---- */

static int by_value(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

typedef struct curve {
  double (*below)(double x, double a, double b); /* the share of draws that are not above x */
  double a, b;
} curve;

/* One draw of N in 10^4 lies further away. `grain`: how far apart numbers of a narrow dtype are. */
static void check_curve(world *w, tsr_array *a, const curve *c, double grain)
{
  double *x = malloc(N * sizeof *x), far = 0;
  read_f64(w, a, x, N);
  qsort(x, N, sizeof *x, by_value);
  for (int i = 0; i < N; i += 23) { /* formulas are slow, and neighbours alike */
    double low = c->below(x[i] - grain, c->a, c->b), high = c->below(x[i] + grain, c->a, c->b);
    far = fmax(far, fmax(low - (i + 1) / (double)N, i / (double)N - high));
  }
  if (!(far < 2.23 / sqrt(N))) FAIL("distance %g of %g, %g", far * sqrt(N), c->a, c->b);
  free(x);
}

static double normal_below(double x, double a, double b)
{
  (void)a, (void)b;
  return erfc(-x * M_SQRT1_2) / 2;
}

static double cut_below(double x, double low, double high)
{
  double from = normal_below(low, 0, 0), to = normal_below(high, 0, 0);
  return x <= low ? 0 : x >= high ? 1 : (normal_below(x, 0, 0) - from) / (to - from);
}

static double exponential_below(double x, double scale, double b)
{
  (void)b;
  return x > 0 ? -expm1(-x / scale) : 0;
}

/* The lower incomplete gamma function by its series, and beyond the mode by what is left of 1. */
static double gamma_below(double x, double a, double b)
{
  (void)b;
  if (x <= 0) return 0;
  double front = exp(a * log(x) - x - lgamma(a)), sum = 1 / a, term = 1 / a;
  if (x < a + 1) {
    for (int n = 1; n < 5000; n++) sum += term *= x / (a + n);
    return front * sum;
  }
  double f = 0; /* Legendre's continued fraction, from its far end */
  for (int n = 3000; n > 0; n--) f = n * (n - a) / (x + 2 * n + 1 - a - f);
  return 1 - front / (x + 1 - a - f);
}

TEST_TIMEOUT(draws_follow_their_curves, 300)
{
  static const struct {
    tsr_dtype dtype;
    double grain;
  } types[] = { { TSR_F64, 0 }, { TSR_F32, 0x1p-22 }, { TSR_F16, 0x1p-9 }, { TSR_BF16, 0x1p-6 } };
  world w = opened();
  for (int t = 0; t < 4; t++) {
    tsr_random_args args = {
      .size = sizeof args, .key = 12, .dtype = types[t].dtype, .shape = TSR_SHAPE(N / 10, 10)
    };
    check_curve(&w, tsr_normal_at(w.s, &args, TSR_HERE), &(curve){ normal_below, 0, 0 },
                types[t].grain);
    check_curve(&w, tsr_exponential_at(w.s, 3, &args, TSR_HERE),
                &(curve){ exponential_below, 3, 0 }, types[t].grain * 8);
    check_curve(&w, tsr_truncated_normal_at(w.s, -1, 0.5, &args, TSR_HERE),
                &(curve){ cut_below, -1, 0.5 }, types[t].grain);
    check_curve(&w, tsr_gamma_at(w.s, tsr_operand_float(2.5), &args, TSR_HERE),
                &(curve){ gamma_below, 2.5, 0 }, types[t].grain * 8);
  }
  closed(&w);
}

TEST_TIMEOUT(gamma_draws_of_many_shapes, 300)
{
  static const double shapes[] = { 0.05, 0.5, 0.99, 1, 1.01, 3, 10, 200, 1e5 };
  world w = opened();
  for (int i = 0; i < 9; i++)
    check_curve(&w, tsr_gamma(w.s, shapes[i], .key = 3, .stream = 1, .shape = TSR_SHAPE(N)),
                &(curve){ gamma_below, shapes[i], 0 }, 0);
  closed(&w);
}

TEST(truncated_draws_of_many_ranges)
{
  static const double ends[][2] = { { -INFINITY, INFINITY }, { 0, INFINITY }, { -INFINITY, -1 },
                                    { -0.001, 0.001 },       { 3, 4 },        { -4.5, -4 },
                                    { 4.5, INFINITY } };
  world w = opened();
  for (int i = 0; i < 7; i++) {
    tsr_array *a =
        tsr_truncated_normal(w.s, ends[i][0], ends[i][1], .key = 4, .shape = TSR_SHAPE(N));
    check_curve(&w, a, &(curve){ cut_below, ends[i][0], ends[i][1] }, 0);
    double least, most;
    CHECK_STATUS(tsr_read_scalar(tsr_min(a), &least), TSR_OK, w.s);
    CHECK_STATUS(tsr_read_scalar(tsr_max(a), &most), TSR_OK, w.s);
    CHECK(least >= ends[i][0] && most <= ends[i][1] && isfinite(least) && isfinite(most));
  }
  closed(&w);
}

/* Of independent draws, products of neighbours and of draws by keys of one split have mean 0. */
TEST(draws_know_nothing_of_each_other)
{
  world w = opened();
  tsr_array *keys = tsr_random_split(tsr_random_key(w.s, 5), 2);
  tsr_array *both = tsr_normal(w.s, .keys = keys, .shape = TSR_SHAPE(N));
  tsr_array *one = tsr_slice(both, TSR_RANGE(0, 1)), *other = tsr_slice(both, TSR_RANGE(1, 2));
  tsr_array *late = tsr_slice(one, TSR_ALL, TSR_RANGE(1, N)),
            *soon = tsr_slice(one, TSR_ALL, TSR_RANGE(0, N - 1));
  tsr_array *streams = tsr_normal(w.s, .key = 5, .stream = 1, .shape = TSR_SHAPE(N));
  tsr_array *products[] = { tsr_mul(one, other), tsr_mul(late, soon), tsr_mul(one, streams),
                            tsr_mul(streams, tsr_normal(w.s, .key = 5, .shape = TSR_SHAPE(N))) };
  for (int i = 0; i < 4; i++) {
    double mean;
    CHECK_STATUS(tsr_read_scalar(tsr_mean(products[i]), &mean), TSR_OK, w.s);
    CHECK(fabs(mean) < 4 / sqrt(N));
  }
  closed(&w);
}

/* ---- of counts and places ---- */

/* Chi-square of counts against probabilities: one in some 10^4 is larger. */
static void check_counts(const int64_t *count, const double *p, int bins, double total)
{
  double sum = 0, free_bins = -1;
  for (int i = 0; i < bins; i++) {
    if (p[i] == 0) CHECK_I64(count[i], 0);
    if (p[i] == 0) continue;
    sum += ((double)count[i] - p[i] * total) * ((double)count[i] - p[i] * total) / (p[i] * total);
    free_bins++;
  }
  if (!(sum < free_bins + 4 * sqrt(2 * free_bins) + 8)) FAIL("chi-square %g of %g", sum, free_bins);
}

/* How often each of 0 .. bins - 1 is there; others fail. */
static void tally(world *w, tsr_array *a, int64_t n, int64_t *count, int bins)
{
  int64_t *x = malloc((size_t)n * sizeof *x);
  memset(count, 0, (size_t)bins * sizeof *count);
  read_i64(w, a, x, n);
  for (int64_t i = 0; i < n; i++) {
    CHECK(x[i] >= 0 && x[i] < bins);
    count[x[i]]++;
  }
  free(x);
}

TEST(integers_of_a_range_are_alike)
{
  static const tsr_dtype dtypes[] = { TSR_I8, TSR_I16, TSR_I32, TSR_I64,
                                      TSR_U8, TSR_U16, TSR_U32, TSR_U64 };
  int64_t count[60];
  double p[60];
  world w = opened();
  for (int i = 0; i < 60; i++) p[i] = 1 / 60.0;
  for (int t = 0; t < 8; t++) {
    int64_t low = t < 4 ? -17 : 40;
    tsr_array *a =
        tsr_randint(w.s, low, low + 60, .key = 8, .dtype = dtypes[t], .shape = TSR_SHAPE(N));
    CHECK(tsr_dtype_of(a) == dtypes[t]);
    tally(&w, tsr_sub(tsr_cast(a, TSR_I64), low), N, count, 60);
    check_counts(count, p, 60, N);
  }
  /* the widest range, whose length is no i64 */
  int64_t wide[1000];
  read_i64(&w, tsr_randint(w.s, INT64_MIN, INT64_MAX, .key = 1, .shape = TSR_SHAPE(1000)), wide,
           1000);
  int64_t minus = 0;
  for (int i = 0; i < 1000; i++) minus += wide[i] < 0;
  CHECK(minus > 440 && minus < 560);
  closed(&w);
}

TEST(coins_fall_as_often_as_asked)
{
  static const double chances[] = { 0, 1e-3, 0.3, 0.5, 0.999, 1 };
  int64_t count[2];
  world w = opened();
  for (int i = 0; i < 6; i++) {
    tsr_array *a = tsr_bernoulli(w.s, chances[i], .key = 9, .shape = TSR_SHAPE(N));
    CHECK(tsr_dtype_of(a) == TSR_BOOL);
    tally(&w, a, N, count, 2);
    check_counts(count, (double[]){ 1 - chances[i], chances[i] }, 2, N);
  }
  closed(&w);
}

/* ---- by arrays ---- */

/* Each line of draws by an element of an array, behind keys too. */
TEST(draws_by_arrays_are_those_by_their_elements)
{
  static const double shapes[4] = { 0.3, 1, 2.5, 400 }, chances[4] = { 0, 0.25, 0.8, 1 };
  world w = opened();
  tsr_array *a = tsr_put(w.s, shapes, TSR_F64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_array *p = tsr_put(w.s, chances, TSR_F64, TSR_SHAPE(4, 1), (tsr_sharding){ 0 });
  tsr_array *gammas = tsr_gamma(w.s, a, .key = 3, .shape = TSR_SHAPE(50, 4));
  tsr_array *coins = tsr_bernoulli(w.s, p, .key = 3, .shape = TSR_SHAPE(4, 50));
  for (int64_t i = 0; i < 4; i++) {
    tsr_array *alone = tsr_gamma(w.s, shapes[i], .key = 3, .shape = TSR_SHAPE(50, 4));
    tsr_array *tossed = tsr_bernoulli(w.s, chances[i], .key = 3, .shape = TSR_SHAPE(4, 50));
    int64_t same[2];
    read_i64(&w,
             tsr_array_equal(tsr_slice(gammas, TSR_ALL, TSR_RANGE(i, i + 1)),
                             tsr_slice(alone, TSR_ALL, TSR_RANGE(i, i + 1))),
             &same[0], 1);
    read_i64(&w,
             tsr_array_equal(tsr_slice(coins, TSR_RANGE(i, i + 1)),
                             tsr_slice(tossed, TSR_RANGE(i, i + 1))),
             &same[1], 1);
    CHECK(same[0] && same[1]);
  }
  CHECK_STR(tsr_type_of(tsr_gamma(w.s, a, .key = 1)), "f64[4]");
  tsr_array *keys = tsr_random_split(tsr_random_key(w.s, 1), 4);
  CHECK_STR(tsr_type_of(tsr_bernoulli(w.s, a, .keys = keys)), "bool[4]");
  CHECK_STR(tsr_type_of(tsr_poisson(w.s, p, .keys = keys, .shape = TSR_SHAPE(7))), "i64[4,7]");
  closed(&w);
}

/* Rates on both sides of what is inverted, all in one array. */
TEST_TIMEOUT(poisson_draws_by_an_array_of_rates, 300)
{
  enum { RATES = 7, EACH = 10000, MOST = 400 };
  static const double rates[RATES] = { 0, 0.1, 3, 9.99, 10, 40, 250 };
  static double p[MOST];
  static int64_t count[MOST];
  world w = opened();
  tsr_array *rate = tsr_put(w.s, rates, TSR_F64, TSR_SHAPE(RATES, 1), (tsr_sharding){ 0 });
  tsr_array *a = tsr_poisson(w.s, rate, .key = 5, .shape = TSR_SHAPE(RATES, EACH));
  for (int64_t i = 0; i < RATES; i++) {
    for (int k = 0; k < MOST; k++)
      p[k] = rates[i] > 0 ? exp(k * log(rates[i]) - rates[i] - lgamma(k + 1.0)) : k == 0;
    tally(&w, tsr_slice(a, TSR_RANGE(i, i + 1)), EACH, count, MOST);
    check_counts(count, p, MOST, EACH);
  }
  closed(&w);
}

TEST(what_draws_by_arrays_cannot_have)
{
  static const double bad[3] = { -1, NAN, INFINITY };
  double gammas[3], rates[3], coins[3];
  world w = opened();
  tsr_array *x = tsr_put(w.s, bad, TSR_F64, TSR_SHAPE(3), (tsr_sharding){ 0 });
  read_f64(&w, tsr_gamma(w.s, x, .key = 1), gammas, 3);
  read_f64(&w, tsr_poisson(w.s, x, .key = 1), rates, 3);
  read_f64(&w, tsr_bernoulli(w.s, x, .key = 1), coins, 3);
  CHECK(isnan(gammas[0]) && isnan(gammas[1]) && rates[0] == 0 && rates[1] == 0);
  CHECK(coins[0] == 0 && coins[1] == 0 && coins[2] == 1);
  closed(&w);
}

TEST(categories_come_as_their_logits_say)
{
  static const double p[6] = { 0.1, 0, 0.4, 0.05, 0.25, 0.2 };
  double logits[2][6];
  int64_t count[6];
  world w = opened();
  for (int i = 0; i < 6; i++) logits[0][i] = log(p[i]) + 5, logits[1][i] = log(p[5 - i]);
  tsr_array *x = tsr_put(w.s, logits, TSR_F64, TSR_SHAPE(2, 6), (tsr_sharding){ 0 });
  tsr_array *a = tsr_categorical(x, 1, .key = 3, .shape = TSR_SHAPE(N));
  CHECK_STR(tsr_type_of(a), "i64[100000,2]");
  tally(&w, tsr_slice(a, TSR_ALL, TSR_RANGE(0, 1)), N, count, 6);
  check_counts(count, p, 6, N);
  tally(&w, tsr_add(tsr_neg(tsr_slice(a, TSR_ALL, TSR_RANGE(1, 2))), 5), N, count, 6);
  check_counts(count, p, 6, N);
  tsr_array *turned = tsr_categorical(tsr_cast(tsr_transpose(x), TSR_F32), -2, .key = 3,
                                      .shape = TSR_SHAPE(N), .dtype = TSR_U8);
  CHECK_STR(tsr_type_of(turned), "u8[100000,2]");
  tally(&w, tsr_slice(turned, TSR_ALL, TSR_RANGE(0, 1)), N, count, 6);
  check_counts(count, p, 6, N);
  closed(&w);
}

/* Each of the 24 orders of four as often as another; each number once in a long one. */
TEST(orders_are_alike)
{
  enum { KEYS = 20000, LONG = 30011 };
  int64_t *x = malloc(KEYS * 4 * sizeof *x), count[256] = { 0 }, places[24];
  double p[24];
  world w = opened();
  tsr_array *keys = tsr_random_split(tsr_random_key(w.s, 6), KEYS);
  read_i64(&w, tsr_permutation(w.s, 4, .keys = keys), x, KEYS * 4);
  for (int i = 0; i < KEYS; i++) {
    int64_t code = x[4 * i] | x[4 * i + 1] << 2 | x[4 * i + 2] << 4 | x[4 * i + 3] << 6;
    CHECK(code >= 0 && code < 256);
    count[code]++;
  }
  int found = 0;
  for (int i = 0; i < 256; i++)
    if (count[i]) CHECK(found < 24), p[found] = 1 / 24.0, places[found++] = count[i];
  CHECK_I64(found, 24);
  check_counts(places, p, 24, KEYS);
  read_i64(&w, tsr_permutation(w.s, LONG, .key = 2), x, LONG);
  char *seen = calloc(LONG, 1);
  int64_t fixed = 0;
  for (int i = 0; i < LONG; i++) {
    CHECK(x[i] >= 0 && x[i] < LONG && !seen[x[i]]);
    seen[x[i]] = 1;
    fixed += x[i] == i;
  }
  CHECK(fixed < 8);
  free(seen);
  free(x);
  closed(&w);
}

TEST(a_shuffle_is_a_permutation_of_slices)
{
  world w = opened();
  tsr_array *x = tsr_reshape(tsr_arange(w.s, .stop = 60), TSR_SHAPE(3, 20));
  tsr_array *order = tsr_permutation(w.s, 20, .key = 4);
  double found[60], expected[60];
  read_f64(&w, tsr_shuffle(x, -1, .key = 4), found, 60);
  read_f64(&w, tsr_take(x, order, 1), expected, 60);
  CHECK_BYTES(found, expected, sizeof found);
  closed(&w);
}

TEST(choices_with_replacement_are_as_often_as_their_weights)
{
  static const double p[5] = { 0.3, 0, 0.2, 0.5, 0 };
  int64_t count[5];
  double alike[5] = { 0.2, 0.2, 0.2, 0.2, 0.2 }, weights[5];
  world w = opened();
  for (int i = 0; i < 5; i++) weights[i] = p[i] * 37;
  tsr_array *x = tsr_iota(w.s, TSR_I32, TSR_SHAPE(5), 0, (tsr_sharding){ 0 });
  tsr_array *by = tsr_put(w.s, weights, TSR_F64, TSR_SHAPE(5), (tsr_sharding){ 0 });
  tsr_array *a = tsr_choice(x, N, .replace = true, .by = { .key = 7 });
  CHECK_STR(tsr_type_of(a), "i32[100000]");
  tally(&w, a, N, count, 5);
  check_counts(count, alike, 5, N);
  tally(&w, tsr_choice(x, N, .replace = true, .weights = by, .by = { .key = 7 }), N, count, 5);
  check_counts(count, p, 5, N);
  closed(&w);
}

/* Pairs in their order: p(i) p(j) / (1 - p(i)). */
TEST(choices_without_replacement_are_of_what_is_left)
{
  enum { KEYS = 50000 };
  static const double weights[4] = { 1, 2, 0, 5 };
  double p[16] = { 0 }, alike[16] = { 0 };
  int64_t count[16];
  world w = opened();
  tsr_array *keys = tsr_random_split(tsr_random_key(w.s, 9), KEYS);
  tsr_array *x = tsr_iota(w.s, TSR_I64, TSR_SHAPE(4), 0, (tsr_sharding){ 0 });
  tsr_array *by = tsr_put(w.s, weights, TSR_F64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  for (int i = 0; i < 16; i++) {
    double first = weights[i / 4] / 8, second = weights[i % 4] / 8;
    if (i / 4 != i % 4) p[i] = first * second / (1 - first), alike[i] = 1 / 12.0;
  }
  tsr_array *pairs[2] = { tsr_choice(x, 2, .by = { .keys = keys }),
                          tsr_choice(x, 2, .weights = by, .by = { .keys = keys }) };
  for (int k = 0; k < 2; k++) {
    CHECK_STR(tsr_type_of(pairs[k]), "i64[50000,2]");
    tsr_array *first = tsr_slice(pairs[k], TSR_ALL, TSR_RANGE(0, 1));
    tsr_array *second = tsr_slice(pairs[k], TSR_ALL, TSR_RANGE(1, 2));
    tally(&w, tsr_add(tsr_mul(first, 4), second), KEYS, count, 16);
    check_counts(count, k ? p : alike, 16, KEYS);
  }
  int64_t all[4];
  read_i64(&w, tsr_choice(x, 4, .weights = by, .by = { .key = 3 }), all, 4);
  CHECK_I64(all[3], 2); /* of weight 0 comes last */
  closed(&w);
}

/* ---- none, and what is wrong ---- */

TEST(draws_of_nothing)
{
  world w = opened();
  tsr_array *none = tsr_put(w.s, "", TSR_U64, TSR_SHAPE(0), (tsr_sharding){ 0 });
  tsr_array *no_rows = tsr_full(w.s, 1, TSR_F64, TSR_SHAPE(0, 3), (tsr_sharding){ 0 });
  tsr_array *made[] = { tsr_normal(w.s, .keys = none, .shape = TSR_SHAPE(3)),
                        tsr_gamma(w.s, 2, .shape = TSR_SHAPE(3, 0), .key = 1),
                        tsr_randint(w.s, 0, 3, .shape = TSR_SHAPE(0), .key = 1),
                        tsr_bernoulli(w.s, 0.5, .shape = TSR_SHAPE(0), .key = 1),
                        tsr_truncated_normal(w.s, 0, 1, .shape = TSR_SHAPE(0), .key = 1),
                        tsr_categorical(no_rows, 1, .key = 1),
                        tsr_permutation(w.s, 0, .key = 1),
                        tsr_permutation(w.s, 5, .keys = none),
                        tsr_shuffle(no_rows, 0, .key = 1),
                        tsr_shuffle(no_rows, 1, .key = 1),
                        tsr_choice(no_rows, 0, .by = { .key = 1 }),
                        tsr_choice(no_rows, 0, .replace = true, .by = { .key = 1 }) };
  int64_t one = 7;
  for (size_t i = 0; i < sizeof made / sizeof *made; i++)
    CHECK_STATUS(tsr_eval(&made[i], 1), TSR_OK, w.s);
  read_i64(&w, tsr_randint(w.s, 5, 6, .shape = TSR_SCALAR, .key = 1), &one, 1);
  CHECK_I64(one, 5);
  read_i64(&w, tsr_permutation(w.s, 1, .key = 1), &one, 1);
  CHECK_I64(one, 0);
  closed(&w);
}

static void says(world *w, tsr_array *a, const char *part)
{
  CHECK(tsr_is_inert(a));
  CHECK_STR_HAS(tsr_message(w->s), part);
  tsr_scope_clear(w->s);
}

#define COUNT(n) tsr_iota(w.s, TSR_F64, TSR_SHAPE(n), 0, (tsr_sharding){ 0 })

TEST(what_is_no_distribution_is_told)
{
  const tsr_shape four = TSR_SHAPE(4);
  world w = opened();
  says(&w, tsr_randint(w.s, 3, 3, .shape = four, .key = 1),
       "TSR_EARG: tsr_randint: low is 3 and high is 3, expected low below high");
  says(&w, tsr_randint(w.s, -1, 9, .dtype = TSR_U8, .shape = four, .key = 1),
       "TSR_EARG: tsr_randint: -1 to 8 do not all fit u8; ask for a wider dtype");
  says(&w, tsr_randint(w.s, 0, 257, .dtype = TSR_U8, .shape = four, .key = 1),
       "0 to 256 do not all fit u8");
  says(&w, tsr_truncated_normal(w.s, 2, 1, .shape = four, .key = 1),
       "tsr_truncated_normal: the range is -1");
  says(&w, tsr_truncated_normal(w.s, NAN, 1, .shape = four, .key = 1), "the range is nan long");
  says(&w, tsr_truncated_normal(w.s, 7, INFINITY, .shape = four, .key = 1),
       "of all normal numbers, expected 1e-6 or more");
  says(&w, tsr_gamma(w.s, 0, .shape = four, .key = 1),
       "TSR_EARG: tsr_gamma: the shape parameter is 0, expected a positive");
  says(&w, tsr_gamma(w.s, NAN, .shape = four, .key = 1), "tsr_gamma: the shape parameter is nan");
  says(&w, tsr_gamma(w.s, INFINITY, .shape = four, .key = 1),
       "tsr_gamma: the shape parameter is inf");
  says(&w, tsr_bernoulli(w.s, -0.1, .shape = four, .key = 1),
       "tsr_bernoulli: the probability is -0.1, expected 0..1");
  says(&w, tsr_bernoulli(w.s, NAN, .shape = four, .key = 1),
       "tsr_bernoulli: the probability is nan");
  says(&w, tsr_bernoulli(w.s, 0.5, .dtype = TSR_I32, .shape = four, .key = 1),
       "is i32, expected bool");
  says(&w, tsr_categorical(tsr_cast(COUNT(3), TSR_I32), 0, .key = 1),
       "TSR_EDTYPE: tsr_categorical: logits are i32[3], expected floats; cast them first");
  says(&w, tsr_categorical(COUNT(3), 1, .key = 1), "tsr_categorical: dim 1 of f64[3]");
  says(&w, tsr_categorical(COUNT(0), 0, .key = 1), "TSR_E");
  says(&w, tsr_permutation(w.s, -3, .key = 1), "tsr_permutation: dim 0 of shape [-3] is -3");
  says(&w, tsr_shuffle(COUNT(3), 1, .key = 1), "tsr_shuffle: dim 1 of f64[3]");
  says(&w, tsr_shuffle(COUNT(3), 0, .shape = TSR_SHAPE(2), .key = 1),
       "TSR_ESHAPE: tsr_shuffle: the keys give orders of");
  says(&w, tsr_choice(COUNT(3), 4, .by = { .key = 1 }),
       "TSR_EARG: tsr_choice: 4 draws from 3 slices without replacement; draw fewer, or set "
       ".replace");
  says(&w, tsr_choice(COUNT(3), -1, .by = { .key = 1 }), "tsr_choice: -1 draws from 3 slices");
  says(&w, tsr_choice(COUNT(0), 1, .replace = true, .by = { .key = 1 }),
       "tsr_choice: 1 draws from 0 slices");
  says(&w, tsr_choice(tsr_num(w.s, 3), 1, .by = { .key = 1 }),
       "TSR_ESHAPE: tsr_choice: i64[] has no dim 0");
  says(&w, tsr_choice(COUNT(3), 1, .weights = COUNT(4), .by = { .key = 1 }),
       "TSR_ESHAPE: tsr_choice: .weights are f64[4], expected 3 numbers");
  says(&w, tsr_choice(COUNT(3), 1, .by = { .stream = UINT64_C(1) << 40 }), "tsr_choice: .stream ");
  tsr_array *zeros = tsr_full(w.s, 0, TSR_F64, TSR_SHAPE(3), (tsr_sharding){ 0 });
  tsr_array *never = tsr_choice(COUNT(3), 2, .replace = true, .weights = zeros, .by = { .key = 1 });
  CHECK_STATUS(tsr_eval(&never, 1), TSR_EVALUE, NULL);
  CHECK(tsr_is_inert(tsr_shuffle(NULL, 0, .key = 1)) &&
        tsr_is_inert(tsr_categorical(NULL, 0, .key = 1)));
  CHECK(tsr_is_inert(tsr_choice_at(NULL, NULL)) && tsr_is_inert(tsr_choice(NULL, 3)));
  CHECK(tsr_is_inert(tsr_gamma_at(w.s, tsr_operand_int(1), NULL, NULL)) &&
        tsr_is_inert(tsr_randint(NULL, 0, 9, .key = 1)));
  closed(&w);
}
