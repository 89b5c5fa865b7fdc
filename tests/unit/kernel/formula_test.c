/* Functions against 60-digit arithmetic (tests/golden/functions.txt), at their ends, and
 * with the same bits from every instruction set and operand length. */
#include "harness.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/kernel_fixture.h"

enum { MOST = 4096 };

typedef struct cases {
  const char *name;
  tsr__op op;
  double limit; /* ULP */
  int count;
  double x[MOST], near[MOST], cut[MOST];
} cases;

static double from_bits(const char *text)
{
  uint64_t bits = strtoull(text, NULL, 16);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void read_cases(cases *c)
{
  char *text = test_read(test_file("golden/functions.txt"), NULL), *save;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    char name[16], x[32], y[32];
    double cut;
    if (sscanf(line, "%15s %31s %31s %lf", name, x, y, &cut) != 4 || strcmp(name, c->name))
      continue;
    CHECK(c->count < MOST);
    c->x[c->count] = from_bits(x);
    c->near[c->count] = from_bits(y);
    c->cut[c->count++] = cut;
  }
  free(text);
  CHECK(c->count > 900);
}

/* Of two operands both are x. */
static void compute(tsr__op op, tsr_dtype dtype, const char *isa, const void *x, int64_t n,
                    void *out)
{
  kernel_fixture k;
  kernel_open(&k, 1, isa, 1);
  int leaf = kernel_leaf(&k, dtype, TSR_SHAPE(n), false, x);
  int y = kernel_op(&k, op, leaf, tsr__ops[op].least == 2 ? leaf : -1, -1);
  kernel_root(&k, y);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  kernel_read(&k, y, out);
  kernel_close(&k);
}

static const char *const isas[] = { "baseline", "avx2", "avx512" };

static void check_golden(cases *c)
{
  static double y[MOST];
  double worst = 0;
  read_cases(c);
  for (int i = 0; i < 3; i++) {
    if (!kernel_has(isas[i])) continue;
    compute(c->op, TSR_F64, isas[i], c->x, c->count, y);
    for (int k = 0; k < c->count; k++) {
      if (isinf(c->near[k])) {
        CHECK_F64_BITS(y[k], c->near[k]);
        continue;
      }
      int exponent;
      frexp(c->near[k], &exponent);
      double ulp = ldexp(1, exponent - 53 < -1074 ? -1074 : exponent - 53);
      double error = fabs((y[k] - c->near[k]) / ulp - c->cut[k]);
      if (error > worst) worst = error;
      if (error > c->limit)
        FAIL("%s(%a) is %a, expected %a: %.2f ULP", c->name, c->x[k], y[k], c->near[k], error);
    }
  }
  if (getenv("SHOW_ULP")) fprintf(stderr, "%s: %.3f ULP\n", c->name, worst);
}

TEST(exp_is_within_1_ulp)
{
  static cases c = { "exp", TSR__OP_EXP, 1, 0, { 0 }, { 0 }, { 0 } };
  check_golden(&c);
}

TEST(log_is_within_1_ulp)
{
  static cases c = { "log", TSR__OP_LOG, 1, 0, { 0 }, { 0 }, { 0 } };
  check_golden(&c);
}

TEST(log1p_is_within_2_ulp)
{
  static cases c = { "log1p", TSR__OP_LOG1P, 2, 0, { 0 }, { 0 }, { 0 } };
  check_golden(&c);
}

TEST(other_logarithms_are_within_1_ulp)
{
  static cases two = { "log2", TSR__OP_LOG2, 1, 0, { 0 }, { 0 }, { 0 } };
  static cases ten = { "log10", TSR__OP_LOG10, 1, 0, { 0 }, { 0 }, { 0 } };
  check_golden(&two);
  check_golden(&ten);
}

TEST(sin_and_cos_are_within_1_ulp)
{
  static cases sine = { "sin", TSR__OP_SIN, 1, 0, { 0 }, { 0 }, { 0 } };
  static cases cosine = { "cos", TSR__OP_COS, 1, 0, { 0 }, { 0 }, { 0 } };
  check_golden(&sine);
  check_golden(&cosine);
}

TEST(tan_and_tanh_are_within_2_ulp)
{
  static cases tan = { "tan", TSR__OP_TAN, 2, 0, { 0 }, { 0 }, { 0 } };
  static cases tanh = { "tanh", TSR__OP_TANH, 2, 0, { 0 }, { 0 }, { 0 } };
  check_golden(&tan);
  check_golden(&tanh);
}

/* ---- many draws against long double ---------------------------------------------------------- */

/* Where a function's errors are looked for. */
typedef struct draws {
  const char *name;
  tsr__op op;
  double stated, f32; /* ULP of f64, of f32 */
  long double (*exact)(long double);
  double (*close)(double); /* the same to some ULP of f64, ten times as fast */
  double (*draw)(test_rng *rng);
} draws;

static double signed_uniform(test_rng *rng)
{
  return 2 * test_uniform(rng) - 1;
}

/* 2^-k u for a random k below `most`: as many near 0 as far from it. */
static double near_zero(test_rng *rng, int most)
{
  return ldexp(signed_uniform(rng), -(int)test_range(rng, 0, most - 1));
}

/* Multiples of pi/4 and both their sides, where quarters end; many sizes beyond. */
static double any_angle(test_rng *rng)
{
  const long double eighth = 0.785398163397448309615660845819875721L;
  static const int64_t multiples[] = { 8, 64, 4096, 1 << 21 };
  switch (test_range(rng, 0, 7)) {
  case 0: return 8 * signed_uniform(rng);
  case 1: return near_zero(rng, 60);
  case 2: return test_any_f64(rng);
  case 3: return ldexp(1 + test_uniform(rng), (int)test_range(rng, 15, 70));
  case 4: return 0.75 + test_uniform(rng) / 16; /* below pi/4 both parts of tan are largest */
  default: {
    int64_t most = multiples[test_range(rng, 0, 3)], m = test_range(rng, -most, most);
    return (double)(eighth * m + (long double)near_zero(rng, 50));
  }
  }
}

static double any_power(test_rng *rng)
{
  const long double ln2 = 0.693147180559945309417232121458176568L;
  switch (test_range(rng, 0, 3)) {
  case 0: return near_zero(rng, 60);
  case 1: return 745 * signed_uniform(rng);
  case 2:
    return (double)(ln2 * (test_range(rng, -2040, 2040) * 0.5L) + (long double)near_zero(rng, 40));
  default: return 4 * signed_uniform(rng);
  }
}

static double any_positive(test_rng *rng)
{
  switch (test_range(rng, 0, 4)) {
  case 0: return fabs(test_any_f64(rng));
  case 1: return 1 + near_zero(rng, 52);
  case 2: return 0.5 + test_uniform(rng);
  case 3: return ldexp(1 + test_uniform(rng), (int)test_range(rng, -8, 8));
  default: return ldexp(M_SQRT2 + near_zero(rng, 40), (int)test_range(rng, -4, 4)); /* the cut */
  }
}

static double any_above_minus_1(test_rng *rng)
{
  switch (test_range(rng, 0, 3)) {
  case 0: return near_zero(rng, 60);
  case 1: return (test_range(rng, 0, 1) ? 0.41 : -0.29) + near_zero(rng, 40) / 16; /* the cuts */
  case 2: return any_positive(rng) - 1;
  default: return test_uniform(rng) * 3 - 1;
  }
}

static double any_bend(test_rng *rng)
{
  switch (test_range(rng, 0, 3)) {
  case 0: return near_zero(rng, 60);
  case 1: return (test_range(rng, 0, 1) ? 0.55 : -0.55) + near_zero(rng, 40) / 16; /* the cuts */
  case 2: return 20 * signed_uniform(rng);
  default: return signed_uniform(rng);
  }
}

static double any_size(test_rng *rng)
{
  double x = test_range(rng, 0, 2) ? near_zero(rng, 40) * 8 : test_any_f64(rng);
  return test_range(rng, 0, 3) ? x : copysign(0x1p60 * (1 + near_zero(rng, 52)), x); /* the cut */
}

static double any_above_1(test_rng *rng)
{
  double x = fabs(any_size(rng));
  return x < 1 ? 1 + x : x;
}

static double any_within_1(test_rng *rng)
{
  double x = near_zero(rng, 60);
  return test_range(rng, 0, 2) ? x : copysign(1 - fabs(x), x);
}

/* Both sides of where erf's formulas change, and both ends of erfc. */
static double any_normal(test_rng *rng)
{
  static const double cuts[] = { 0.47, 0.7, 0.8, 1, 28 };
  switch (test_range(rng, 0, 3)) {
  case 0: return near_zero(rng, 60);
  case 1: return signed_uniform(rng) * 39;
  case 2: return signed_uniform(rng) * 4;
  default:
    return copysign(cuts[test_range(rng, 0, 4)] + near_zero(rng, 40) / 16, signed_uniform(rng));
  }
}

/* Above 0: near 0, the zeros 1 and 2, the cuts, and far. */
static double any_gamma(test_rng *rng)
{
  static const double cuts[] = { 0.6, 1, 2, 1.6, 3, 4, 5, 6, 7, 8 };
  switch (test_range(rng, 0, 3)) {
  case 0: return fabs(near_zero(rng, 60));
  case 1: return test_uniform(rng) * 40;
  case 2: return fabs(any_size(rng));
  default: return cuts[test_range(rng, 0, 9)] + near_zero(rng, 40) / 16;
  }
}

/* Newton's steps from libm's other functions: on what is left of 1 where that is the smaller
 * part. */
static long double exact_erfinv(long double x)
{
  long double a = fabsl(x), y = a < 0.9L ? a : sqrtl(-logl((1 - a) * 2));
  for (int i = 0; i < 60 && a < 1 && a > 0; i++) {
    long double over = a < 0.5L ? erfl(y) - a : (1 - a) - erfcl(y);
    long double step = over * expl(y * y) / 1.128379167095512573896158903121545172L;
    y -= step / (1 + y * step);
    if (fabsl(step) < y * 1e-21L) break;
  }
  return a == 1 ? copysignl(INFINITY, x) : a > 1 ? NAN : copysignl(y, x);
}

static long double exact_sigmoid(long double x)
{
  return 1 / (1 + expl(-x));
}

static long double exact_gelu(long double x)
{
  if (x < -200) return 0;
  return x * erfcl(-x * 0.707106781186547524400844362104849039L) / 2;
}

static double close_erfinv(double x)
{
  double a = fabs(x), y = a < 0.9 ? a : sqrt(-log((1 - a) * 2));
  for (int i = 0; i < 20 && a < 1 && a > 0; i++) {
    double over = a < 0.5 ? erf(y) - a : (1 - a) - erfc(y);
    double step = over * exp(y * y) / 1.1283791670955126;
    y -= step / (1 + y * step);
    if (fabs(step) < y * 1e-9) break;
  }
  return a == 1 ? copysign(INFINITY, x) : a > 1 ? NAN : copysign(y, x);
}

static double close_sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

static double close_gelu(double x)
{
  return x < -200 ? 0 : x * erfc(-x * M_SQRT1_2) / 2;
}

static double ulp_of(long double exact)
{
  int exponent;
  frexpl(exact, &exponent);
  return ldexp(1, exponent - 53 < -1074 ? -1074 : exponent - 53);
}

/* The largest error of some draws in ULP, and where it is. */
static double worst_of(const draws *d, test_rng *rng, int64_t count, double *at)
{
  enum { N = 1 << 16 };
  static double x[N], y[N];
  double worst = 0;
  for (; count > 0; count -= N) {
    for (int i = 0; i < N; i++) x[i] = d->draw(rng);
    compute(d->op, TSR_F64, NULL, x, N, y);
    for (int i = 0; i < N; i++) {
      long double exact = d->exact((long double)x[i]);
      if (!isfinite((double)exact) || !isfinite(y[i]))
        continue; /* the ends have tests of their own */
      double error = (double)(fabsl((long double)y[i] - exact) / (long double)ulp_of(exact));
      if (error <= worst) continue;
      worst = error;
      *at = x[i];
    }
  }
  return worst;
}

static void check_draws(const draws *list, int count)
{
  const char *millions = getenv("ULP_MILLIONS"), *seed = getenv("LAW_SEED");
  int64_t n = millions ? atoll(millions) * 1000000 : test_quick() ? 200000 : 4000000;
  if (LDBL_MANT_DIG < 64) return;
  for (int i = 0; i < count; i++) {
    test_rng rng = test_seeded(seed ? strtoull(seed, NULL, 0) : 5);
    double at = 0, worst = worst_of(&list[i], &rng, n, &at);
    if (getenv("SHOW_ULP")) fprintf(stderr, "%s: %.4f ULP at %a\n", list[i].name, worst, at);
    if (worst > list[i].stated)
      FAIL("%s(%a) is wrong by %.4f ULP, stated is %.2f", list[i].name, at, worst, list[i].stated);
  }
}

static const draws angles[] = {
  { "sin", TSR__OP_SIN, 1, 2, sinl, sin, any_angle },
  { "cos", TSR__OP_COS, 1, 2, cosl, cos, any_angle },
  { "tan", TSR__OP_TAN, 2, 4, tanl, tan, any_angle },
};

TEST_TIMEOUT(angles_stay_within_what_is_stated, 600)
{
  check_draws(angles, (int)(sizeof angles / sizeof *angles));
}

static const draws powers[] = {
  { "exp", TSR__OP_EXP, 1, 2, expl, exp, any_power },
  { "log", TSR__OP_LOG, 1, 1, logl, log, any_positive },
  { "log2", TSR__OP_LOG2, 1, 2, log2l, log2, any_positive },
  { "log10", TSR__OP_LOG10, 1, 1, log10l, log10, any_positive },
  { "log1p", TSR__OP_LOG1P, 1, 1, log1pl, log1p, any_above_minus_1 },
  { "tanh", TSR__OP_TANH, 2, 3, tanhl, tanh, any_bend },
  { "asinh", TSR__OP_ASINH, 4, 3, asinhl, asinh, any_size },
  { "acosh", TSR__OP_ACOSH, 4, 3, acoshl, acosh, any_above_1 },
  { "atanh", TSR__OP_ATANH, 4, 3, atanhl, atanh, any_within_1 },
  { "exp2", TSR__OP_EXP2, 1, 1, exp2l, exp2, any_power },
  { "expm1", TSR__OP_EXPM1, 4, 2, expm1l, expm1, any_power },
};

TEST_TIMEOUT(powers_and_logarithms_stay_within_what_is_stated, 600)
{
  check_draws(powers, (int)(sizeof powers / sizeof *powers));
}

static const draws others[] = {
  { "cbrt", TSR__OP_CBRT, 1, 1, cbrtl, cbrt, test_any_f64 },
  { "asin", TSR__OP_ASIN, 2, 1, asinl, asin, any_within_1 },
  { "acos", TSR__OP_ACOS, 2, 1, acosl, acos, any_within_1 },
  { "atan", TSR__OP_ATAN, 2, 2, atanl, atan, any_size },
  { "sinh", TSR__OP_SINH, 3, 3, sinhl, sinh, any_power },
  { "cosh", TSR__OP_COSH, 3, 3, coshl, cosh, any_power },
  { "erf", TSR__OP_ERF, 2, 2, erfl, erf, any_normal },
  { "erfc", TSR__OP_ERFC, 4, 4, erfcl, erfc, any_normal },
  { "erfinv", TSR__OP_ERFINV, 4, 4, exact_erfinv, close_erfinv, any_within_1 },
  { "sigmoid", TSR__OP_SIGMOID, 3, 3, exact_sigmoid, close_sigmoid, any_power },
  { "gelu", TSR__OP_GELU, 5, 5, exact_gelu, close_gelu, any_normal },
  { "lgamma", TSR__OP_LGAMMA, 4, 4, lgammal, lgamma, any_gamma },
};

TEST_TIMEOUT(functions_of_their_own_kind_stay_within_what_is_stated, 600)
{
  check_draws(others, (int)(sizeof others / sizeof *others));
}

static double f32_error(float got, long double exact)
{
  int exponent;
  frexpl(exact, &exponent);
  double ulp = ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
  return (double)(fabsl((long double)got - exact) / (long double)ulp);
}

/* Whether f64 is enough to tell that y is no further off than `worst`: of its own error some
 * 1e-8 ULP of f32 are seen. */
static bool surely_within(const draws *d, float x, float y, double worst)
{
  double close = d->close((double)x), bits = fabs(close);
  if (isnan(close)) return isnan(y);
  if (bits > 0x1p128) return (double)y == copysign(INFINITY, close);
  if (!(bits < (double)FLT_MAX) || isnan(y) || isinf(y)) return false;
  int64_t unit; /* one ULP of f32 by its bits, the smallest denormal at least */
  memcpy(&unit, &bits, sizeof unit);
  unit = (unit >> 52) - 23;
  unit = (unit < 1023 - 149 ? 1023 - 149 : unit) << 52;
  double ulp;
  memcpy(&ulp, &unit, sizeof ulp);
  return fabs((double)y - close) <= (worst - 1e-6) * ulp;
}

/* Every so many f32; `make ulp`: every one. */
static void check_all_f32(const draws *d, uint64_t step)
{
  enum { N = 1 << 16 };
  static float x[N], y[N];
  double worst = 0, at = 0;
  for (uint64_t first = 0, end = UINT64_C(1) << 32; first < end; first += step * N) {
    for (uint64_t i = 0; i < N; i++) {
      uint32_t bits = (uint32_t)(first + i * step);
      memcpy(&x[i], &bits, sizeof bits);
    }
    compute(d->op, TSR_F32, NULL, x, N, y);
    for (int i = 0; i < N; i++) {
      if (surely_within(d, x[i], y[i], worst)) continue;
      long double exact = d->exact((long double)x[i]);
      if (isnan(exact) || isnan(y[i]) || isinf((float)exact) || isinf(y[i])) {
        bool same = isnan(exact) ? isnan(y[i]) : y[i] == (float)exact;
        if (!same) FAIL("%s(%a) is %a, expected %La", d->name, (double)x[i], (double)y[i], exact);
        continue;
      }
      double error = f32_error(y[i], exact);
      if (error <= worst) continue;
      worst = error;
      at = (double)x[i];
    }
  }
  if (getenv("SHOW_ULP")) fprintf(stderr, "%s of f32: %.4f ULP at %a\n", d->name, worst, at);
  if (worst > d->f32)
    FAIL("%s(%a) of f32 is wrong by %.4f ULP, stated is %.2f", d->name, at, worst, d->f32);
}

static void check_f32_of(const draws *list, int count)
{
  const char *given = getenv("ULP_STEP");
  uint64_t step = given ? strtoull(given, NULL, 0) : test_quick() ? 65537 : 8209;
  if (LDBL_MANT_DIG < 64) return;
  for (int i = 0; i < count; i++) check_all_f32(&list[i], step);
}

TEST_TIMEOUT(f32_of_angles_are_within_what_is_stated, 100000)
{
  check_f32_of(angles, (int)(sizeof angles / sizeof *angles));
}

TEST_TIMEOUT(f32_of_powers_and_logarithms_are_within_what_is_stated, 100000)
{
  check_f32_of(powers, (int)(sizeof powers / sizeof *powers));
}

TEST_TIMEOUT(f32_of_other_kinds_are_within_what_is_stated, 100000)
{
  check_f32_of(others, (int)(sizeof others / sizeof *others));
}

/* ---- powers ---------------------------------------------------------------------------------- */

static void compute_powers(tsr_dtype dtype, const char *isa, const void *x, const void *y,
                           int64_t n, void *out)
{
  kernel_fixture k;
  kernel_open(&k, 1, isa, 1);
  int a = kernel_leaf(&k, dtype, TSR_SHAPE(n), false, x);
  int b = kernel_leaf(&k, dtype, TSR_SHAPE(n), false, y),
      power = kernel_op(&k, TSR__OP_POW, a, b, -1);
  kernel_root(&k, power);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  kernel_read(&k, power, out);
  kernel_close(&k);
}

/* Bases and exponents whose powers are numbers: all sizes, near 1 with large exponents, whole and
 * half ones, results at both ends of what f64 has. */
static void draw_power(test_rng *rng, double *x, double *y)
{
  int kind = (int)test_range(rng, 0, 5);
  *x = kind == 0 ? fabs(test_any_f64(rng)) : kind == 1 ? 1 + near_zero(rng, 52) : any_positive(rng);
  double most = 1080 / fabs(log2(*x));
  if (!isfinite(most)) most = 2000;
  *y = most * signed_uniform(rng);
  if (kind == 2) *y = (double)test_range(rng, -40, 40);
  if (kind == 3) *y = (double)test_range(rng, -80, 80) / 2;
  if (kind == 4) *y = near_zero(rng, 60);
  if (kind == 5) *y = copysign(most * (0.93 + 0.07 * test_uniform(rng)), *y);
  if ((kind == 2 || kind == 5) && test_range(rng, 0, 1)) {
    *x = -*x;
    *y = rint(*y);
  }
}

/* The measure of a number that a power can be: denormals have the unit of the smallest. */
static double power_error(double got, long double exact)
{
  return (double)(fabsl((long double)got - exact) / (long double)ulp_of(exact));
}

TEST_TIMEOUT(powers_stay_within_what_is_stated, 600)
{
  enum { N = 1 << 16 };
  static double x[N], y[N], out[N];
  const char *millions = getenv("ULP_MILLIONS"), *seed = getenv("LAW_SEED");
  int64_t n = millions ? atoll(millions) * 1000000 : test_quick() ? 200000 : 2000000;
  test_rng rng = test_seeded(seed ? strtoull(seed, NULL, 0) : 5);
  double worst = 0, worst_normal = 0, at[2] = { 0 };
  if (LDBL_MANT_DIG < 64) return;
  for (; n > 0; n -= N) {
    for (int i = 0; i < N; i++) draw_power(&rng, &x[i], &y[i]);
    compute_powers(TSR_F64, NULL, x, y, N, out);
    for (int i = 0; i < N; i++) {
      long double exact = powl((long double)x[i], (long double)y[i]);
      if (!isfinite((double)exact)) {
        CHECK(isnan(exact) ? isnan(out[i]) : isinf(out[i]) && (out[i] > 0) == (exact > 0));
        continue;
      }
      double error = power_error(out[i], exact);
      if (fabsl(exact) >= 0x1p-1022L && error > worst_normal) worst_normal = error;
      if (error <= worst) continue;
      worst = error;
      at[0] = x[i];
      at[1] = y[i];
    }
  }
  if (getenv("SHOW_ULP"))
    fprintf(stderr, "pow: %.4f ULP at %a, %a; of normal results %.4f\n", worst, at[0], at[1],
            worst_normal);
  if (worst > 1 || worst_normal > 0.55)
    FAIL("pow(%a, %a) is wrong by %.4f ULP, stated is 1; of normal results by %.4f, stated is 0.55",
         at[0], at[1], worst, worst_normal);
}

/* Powers that f64 holds are exact; squares and roots are rounded once. */
TEST(exact_powers_are_exact)
{
  enum { N = 4096 };
  static double x[N], y[N], exact[N], out[N];
  test_rng rng = test_seeded(6);
  int n = 0;
  for (int base = 2; base < 400; base++) {
    double power = 1;
    for (int e = 1; (power *= base) < 0x1p53 && n < N; e++) {
      x[n] = e % 2 ? -base : base;
      y[n] = e;
      exact[n++] = e % 2 ? -power : power;
    }
  }
  for (int e = -1074; e < 1024 && n < N - 200; e++) {
    x[n] = 2;
    y[n] = e;
    exact[n++] = ldexp(1, e);
  }
  for (; n < N; n++) {
    x[n] = fabs(test_any_f64(&rng));
    y[n] = n % 2 ? 2 : 0.5;
    exact[n] = n % 2 ? x[n] * x[n] : sqrt(x[n]);
  }
  compute_powers(TSR_F64, NULL, x, y, N, out);
  for (int i = 0; i < N; i++) {
    if (isnan(exact[i])) continue;
    if (memcmp(&out[i], &exact[i], 8)) FAIL("%a ** %a is %a, not %a", x[i], y[i], out[i], exact[i]);
  }
}

static bool is_f32(double x)
{
  double back = (double)(float)x;
  return !memcmp(&back, &x, sizeof x);
}

/* C11, F.10.4.4. */
TEST(powers_at_their_ends)
{
  const double inf = INFINITY, nan = NAN, low = 5e-324, top = DBL_MAX;
  const double end[][3] = {
    { 0, -1, inf },
    { -0.0, -1, -inf },
    { -0.0, -3, -inf },
    { 0, -2, inf },
    { -0.0, -2, inf },
    { -0.0, -0.5, inf },
    { 0, -inf, inf },
    { -0.0, -inf, inf },
    { 0, 3, 0 },
    { -0.0, 3, -0.0 },
    { -0.0, 2, 0 },
    { -0.0, 0.5, 0 },
    { 0, inf, 0 },
    { -0.0, 1.5, 0 },
    { -1, inf, 1 },
    { -1, -inf, 1 },
    { 1, nan, 1 },
    { 1, inf, 1 },
    { 1, -3.5, 1 },
    { nan, 0, 1 },
    { nan, -0.0, 1 },
    { inf, 0, 1 },
    { -inf, -0.0, 1 },
    { 0, 0, 1 },
    { -8, 1.0 / 3, nan },
    { -1, 0.5, nan },
    { -low, 0.5, nan },
    { -top, 1.5, nan },
    { 0.5, -inf, inf },
    { -0.5, -inf, inf },
    { 2, -inf, 0 },
    { -2, -inf, 0 },
    { 0.5, inf, 0 },
    { -0.5, inf, 0 },
    { 2, inf, inf },
    { -2, inf, inf },
    { -inf, -3, -0.0 },
    { -inf, -2, 0 },
    { -inf, -0.5, 0 },
    { -inf, 3, -inf },
    { -inf, 2, inf },
    { -inf, 0.5, inf },
    { inf, -low, 0 },
    { inf, low, inf },
    { nan, 1, nan },
    { 2, nan, nan },
    { -1, nan, nan },
    { nan, nan, nan },
    { nan, 2, nan },
    { nan, 0.5, nan },
    { 2, 1024, inf },
    { -2, 1025, -inf },
    { 2, -1074, low },
    { 2, -1075, 0 },
    { 2, -1e300, 0 },
    { top, 1, top },
    { low, 1, low },
    { -low, 1, -low },
    { low, -1, inf },
    { 1 + DBL_EPSILON, 1e300, inf },
    { 1 - DBL_EPSILON / 2, 1e300, 0 },
    { 1 + DBL_EPSILON, low, 1 },
    { -1, 0x1p53, 1 },
    { -1, 0x1p53 - 1, -1 },
    { -3, 1e300, inf },
    { 10, 22, 1e22 },
  };
  for (size_t i = 0; i < sizeof end / sizeof end[0]; i++) {
    double out;
    compute_powers(TSR_F64, NULL, &end[i][0], &end[i][1], 1, &out);
    if (isnan(end[i][2]) ? !isnan(out) : memcmp(&out, &end[i][2], 8) != 0)
      FAIL("%a ** %a is %a, expected %a", end[i][0], end[i][1], out, end[i][2]);
    float x = (float)end[i][0], y = (float)end[i][1], narrow, expected = (float)end[i][2];
    if (!is_f32(end[i][0]) || !is_f32(end[i][1])) continue;
    compute_powers(TSR_F32, NULL, &x, &y, 1, &narrow);
    CHECK_F32_BITS(narrow, expected);
  }
}

TEST(powers_of_f32_stay_within_what_is_stated)
{
  enum { N = 200000 };
  static float x[N], y[N], out[N];
  double worst = 0;
  test_rng rng = test_seeded(7);
  for (int i = 0; i < N; i++) {
    x[i] = (float)(test_uniform(&rng) * (i % 2 ? 4 : 1e6));
    if (i % 5 == 0) x[i] = (float)(1 + near_zero(&rng, 24));
    float most = 126 / fabsf(log2f(x[i]));
    if (!(most < 1e6f)) most = 1e6f;
    y[i] = (float)signed_uniform(&rng) * (i % 3 ? 6 : most);
  }
  if (LDBL_MANT_DIG < 64) return;
  compute_powers(TSR_F32, NULL, x, y, N, out);
  for (int i = 0; i < N; i++) {
    long double exact = powl((long double)x[i], (long double)y[i]);
    int exponent;
    if (isinf((float)exact) || fabsl(exact) < 0x1p-126L) continue;
    frexpl(exact, &exponent);
    double error = (double)(fabsl((long double)out[i] - exact) / ldexpl(1, exponent - 24));
    if (error > 0.55)
      FAIL("%a ** %a is %a, expected %La: %.4f ULP", (double)x[i], (double)y[i], (double)out[i],
           exact, error);
    if (error > worst) worst = error;
  }
  if (getenv("SHOW_ULP")) fprintf(stderr, "pow of f32: %.4f ULP\n", worst);
}

TEST(functions_at_their_ends)
{
  const double inf = INFINITY, nan = NAN;
  const struct {
    tsr__op op;
    double x, y;
  } end[] = {
    { TSR__OP_EXP, 0, 1 },
    { TSR__OP_EXP, -0.0, 1 },
    { TSR__OP_EXP, inf, inf },
    { TSR__OP_EXP, -inf, 0 },
    { TSR__OP_EXP, nan, nan },
    { TSR__OP_EXP, 710, inf },
    { TSR__OP_EXP, 1e300, inf },
    { TSR__OP_EXP, -1e300, 0 },
    { TSR__OP_EXP, -746, 0 },
    { TSR__OP_EXP, 709.79, inf },
    { TSR__OP_EXP, 5e-324, 1 },
    { TSR__OP_LOG, 1, 0 },
    { TSR__OP_LOG, 0, -inf },
    { TSR__OP_LOG, -0.0, -inf },
    { TSR__OP_LOG, -1, nan },
    { TSR__OP_LOG, -inf, nan },
    { TSR__OP_LOG, inf, inf },
    { TSR__OP_LOG, nan, nan },
    { TSR__OP_LOG, -5e-324, nan },
    { TSR__OP_LOG1P, 0, 0 },
    { TSR__OP_LOG1P, -0.0, -0.0 },
    { TSR__OP_LOG1P, -1, -inf },
    { TSR__OP_LOG1P, -1.5, nan },
    { TSR__OP_LOG1P, inf, inf },
    { TSR__OP_LOG1P, -inf, nan },
    { TSR__OP_LOG1P, nan, nan },
    { TSR__OP_LOG1P, 5e-324, 5e-324 },
    { TSR__OP_LOG2, 0, -inf },
    { TSR__OP_LOG2, -1, nan },
    { TSR__OP_LOG2, inf, inf },
    { TSR__OP_LOG2, 1, 0 },
    { TSR__OP_LOG2, 5e-324, -1074 },
    { TSR__OP_LOG10, 1, 0 },
    { TSR__OP_LOG10, -0.0, -inf },
    { TSR__OP_LOG10, nan, nan },
    { TSR__OP_LOG10, inf, inf },
    { TSR__OP_TANH, -0.0, -0.0 },
    { TSR__OP_TANH, inf, 1 },
    { TSR__OP_TANH, -inf, -1 },
    { TSR__OP_TANH, nan, nan },
    { TSR__OP_TANH, 1e300, 1 },
    { TSR__OP_TANH, 5e-324, 5e-324 },
    { TSR__OP_ASINH, 0, 0 },
    { TSR__OP_ASINH, -0.0, -0.0 },
    { TSR__OP_ASINH, inf, inf },
    { TSR__OP_ASINH, -inf, -inf },
    { TSR__OP_ASINH, nan, nan },
    { TSR__OP_ASINH, 5e-324, 5e-324 },
    { TSR__OP_ACOSH, 1, 0 },
    { TSR__OP_ACOSH, 1 - DBL_EPSILON, nan },
    { TSR__OP_ACOSH, -5, nan },
    { TSR__OP_ACOSH, -inf, nan },
    { TSR__OP_ACOSH, inf, inf },
    { TSR__OP_ACOSH, nan, nan },
    { TSR__OP_ATANH, -0.0, -0.0 },
    { TSR__OP_ATANH, 5e-324, 5e-324 },
    { TSR__OP_ATANH, 1, inf },
    { TSR__OP_ATANH, -1, -inf },
    { TSR__OP_ATANH, 1 + DBL_EPSILON, nan },
    { TSR__OP_ATANH, -inf, nan },
    { TSR__OP_ATANH, nan, nan },
    { TSR__OP_EXP2, -0.0, 1 },
    { TSR__OP_EXP2, 10, 1024 },
    { TSR__OP_EXP2, -1074, 5e-324 },
    { TSR__OP_EXP2, 1024, inf },
    { TSR__OP_EXP2, inf, inf },
    { TSR__OP_EXP2, -inf, 0 },
    { TSR__OP_EXP2, nan, nan },
    { TSR__OP_EXPM1, 0, 0 },
    { TSR__OP_EXPM1, -0.0, -0.0 },
    { TSR__OP_EXPM1, 5e-324, 5e-324 },
    { TSR__OP_EXPM1, -inf, -1 },
    { TSR__OP_EXPM1, -800, -1 },
    { TSR__OP_EXPM1, inf, inf },
    { TSR__OP_EXPM1, 710, inf },
    { TSR__OP_EXPM1, nan, nan },
    { TSR__OP_SIN, -0.0, -0.0 },
    { TSR__OP_SIN, inf, nan },
    { TSR__OP_SIN, nan, nan },
    { TSR__OP_SIN, 5e-324, 5e-324 },
    { TSR__OP_COS, 0, 1 },
    { TSR__OP_COS, -inf, nan },
    { TSR__OP_COS, 5e-324, 1 },
    { TSR__OP_TAN, -0.0, -0.0 },
    { TSR__OP_TAN, inf, nan },
    { TSR__OP_TAN, -5e-324, -5e-324 },
    { TSR__OP_ERF, -0.0, -0.0 },
    { TSR__OP_ERF, inf, 1 },
    { TSR__OP_ERF, -inf, -1 },
    { TSR__OP_ERF, nan, nan },
    { TSR__OP_ERFC, inf, 0 },
    { TSR__OP_ERFC, -inf, 2 },
    { TSR__OP_ERFC, nan, nan },
    { TSR__OP_SIGMOID, 0, 0.5 },
    { TSR__OP_SIGMOID, inf, 1 },
    { TSR__OP_SIGMOID, -inf, 0 },
    { TSR__OP_SIGMOID, nan, nan },
    { TSR__OP_GELU, -0.0, -0.0 },
    { TSR__OP_GELU, inf, inf },
    { TSR__OP_GELU, nan, nan },
    /* of f32 */
    { TSR__OP_EXP2, 128, 0x1p128 },
    { TSR__OP_EXP2, -149, 0x1p-149 },
    { TSR__OP_EXP2, -150, 0x1p-150 },
    { TSR__OP_LOG2, 0x1p-149, -149 },
    { TSR__OP_LOG10, 1e10, 10 },
    { TSR__OP_LOG1P, 0x1p-149, 0x1p-149 },
    { TSR__OP_EXPM1, -0x1p-149, -0x1p-149 },
    { TSR__OP_TANH, 0x1p-149, 0x1p-149 },
    { TSR__OP_TANH, -0x1p-127, -0x1p-127 },
    { TSR__OP_TANH, 0x1p127, 1 },
    { TSR__OP_SIN, 0x1p-149, 0x1p-149 },
    { TSR__OP_COS, 0x1p-149, 1 },
    { TSR__OP_TAN, -0x1p-149, -0x1p-149 },
    { TSR__OP_ASINH, 0x1p-149, 0x1p-149 },
    { TSR__OP_ATANH, 0x1p-149, 0x1p-149 },
  };
  for (size_t i = 0; i < sizeof end / sizeof end[0]; i++) {
    double y;
    compute(end[i].op, TSR_F64, NULL, &end[i].x, 1, &y);
    CHECK_F64_BITS(y, end[i].y);
    float narrow = (float)end[i].x, out;
    if (!is_f32(end[i].x)) continue;
    compute(end[i].op, TSR_F32, NULL, &narrow, 1, &out);
    CHECK_F32_BITS(out, (float)end[i].y);
  }
}

static void same_bits_of_f32(tsr__op op, test_rng *rng)
{
  enum { N = 20003 };
  static float x[N], first[N], y[N];
  for (int i = 0; i < N; i++) {
    uint32_t bits = (uint32_t)test_random(rng);
    memcpy(&x[i], &bits, sizeof bits);
    if (i % 3) x[i] = (float)((test_uniform(rng) - 0.3) * (i % 2 ? 1 : 90));
  }
  compute(op, TSR_F32, isas[0], x, N, first);
  for (int i = 1; i < 3; i++) {
    if (!kernel_has(isas[i])) continue;
    compute(op, TSR_F32, isas[i], x, N, y);
    for (int k = 0; k < N; k++)
      if (!isnan(y[k]) || !isnan(first[k])) CHECK_F32_BITS(y[k], first[k]);
  }
}

/* Hundreds of thousands of random bits: every instruction set gives the same. */
TEST(same_bits_on_every_instruction_set)
{
  enum { N = 20000 };
  static double x[N], y[3][N];
  test_rng rng = test_seeded(4);
  bool has[3];
  for (int i = 0; i < 3; i++) has[i] = kernel_has(isas[i]);
  for (int op = 0; op < TSR__OPS; op++) {
    if (tsr__ops[op].lowering != TSR__LOW_FORMULA) continue;
    for (int i = 0; i < N; i++) {
      x[i] = i % 3 ? test_any_f64(&rng) : (test_uniform(&rng) - 0.3) * (i % 2 ? 1 : 700);
      if (i % 1000 == 0) x[i] = INFINITY;
    }
    for (int i = 0; i < 3; i++)
      if (has[i]) compute((tsr__op)op, TSR_F64, isas[i], x, N, y[i]);
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < N && has[i]; k++) {
        if (y[i][k] != y[i][k] && y[0][k] != y[0][k]) continue;
        if (memcmp(&y[i][k], &y[0][k], 8)) CHECK_F64_BITS(y[i][k], y[0][k]);
      }
  }
  for (int op = 0; op < TSR__OPS; op++)
    if (tsr__ops[op].lowering == TSR__LOW_FORMULA) same_bits_of_f32((tsr__op)op, &rng);
  static double exponent[N];
  for (int i = 0; i < N; i++) {
    draw_power(&rng, &x[i], &exponent[i]);
    if (i % 4 == 0) exponent[i] = test_any_f64(&rng);
  }
  for (int i = 0; i < 3; i++)
    if (has[i]) compute_powers(TSR_F64, isas[i], x, exponent, N, y[i]);
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < N && has[i]; k++)
      if (!isnan(y[i][k]) || !isnan(y[0][k])) CHECK_F64_BITS(y[i][k], y[0][k]);
}
