/* Functions, each row of the table of operations that is a FORMULA: within the ULP that the row
 * states, against 60-digit arithmetic (tests/golden/functions.txt) and against long double over
 * every binade of f64 and every part of f32; at their ends; and with the same bits from every
 * instruction set and operand length. A row without an exact function below fails by its name. */
#include "harness.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/kernel_fixture.h"
#include "support/row_columns.h"

enum { MOST = 4096 };

static bool is_formula(int op)
{
  return tsr__ops[op].lowering == TSR__LOW_FORMULA;
}

typedef struct cases {
  const char *name;
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
}

/* Elements of one type, of two operands of as many. */
typedef struct pairs {
  tsr_dtype dtype;
  const void *x, *y;
  int64_t count;
} pairs;

static void compute_pairs(tsr__op op, const char *isa, pairs in, void *out)
{
  kernel_fixture k;
  kernel_open(&k, 1, isa, 1);
  int a = kernel_leaf(&k, in.dtype, TSR_SHAPE(in.count), false, in.x), b = -1;
  if (tsr__ops[op].least == 2) b = kernel_leaf(&k, in.dtype, TSR_SHAPE(in.count), false, in.y);
  int result = kernel_op(&k, op, a, b, -1);
  kernel_root(&k, result);
  if (kernel_run(&k)) FAIL("%s does not run", tsr__ops[op].name);
  kernel_read(&k, result, out);
  kernel_close(&k);
}

/* Of two operands both are x. */
static void compute(tsr__op op, tsr_dtype dtype, const char *isa, const void *x, int64_t n,
                    void *out)
{
  compute_pairs(op, isa, (pairs){ dtype, x, x, n }, out);
}

static const char *const isas[] = { "baseline", "avx2", "avx512" };

static void check_golden(tsr__op op, const cases *c)
{
  static double y[MOST];
  double worst = 0, stated = row_columns_of[op].ulp.f64;
  for (int i = 0; i < 3; i++) {
    if (!kernel_has(isas[i])) continue;
    compute(op, TSR_F64, isas[i], c->x, c->count, y);
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
      if (!(error <= stated))
        FAIL("%s(%a) is %a, expected %a: %.2f ULP, stated is %g", c->name, c->x[k], y[k],
             c->near[k], error, stated);
    }
  }
  if (getenv("SHOW_ULP")) fprintf(stderr, "%s: %.3f ULP\n", c->name, worst);
}

TEST_TIMEOUT(functions_are_within_what_is_stated_of_60_digits, 300)
{
  static cases c;
  int met = 0;
  for (int op = 0; op < TSR__OPS; op++) {
    if (!is_formula(op)) continue;
    c.name = tsr__ops[op].name, c.count = 0;
    read_cases(&c);
    if (!c.count) continue;
    check_golden((tsr__op)op, &c);
    met += c.count;
  }
  CHECK(met > 900);
}

/* ---- many draws against long double ---------------------------------------------------------- */

/* The exact function of a row, and where its errors are looked for beside every binade. */
typedef struct oracle {
  long double (*exact)(long double);
  double (*close)(double);       /* the same to some ULP of f64, ten times as fast, or NULL */
  double (*draw)(test_rng *rng); /* where the formula changes and where it ends, or NULL */
  /* The same of two numbers. */
  long double (*exact_2)(long double x, long double y);
  void (*draw_2)(test_rng *rng, double *x, double *y);
  /* Of which size an error is some ULP, where it is not that of the result. */
  long double (*term)(long double x, long double y);
} oracle;

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

/* 1 / Gamma has zeros at 0, -1, ...: below 0 the logarithms of what it is made of cancel. */
static long double gamma_term(long double x, long double y)
{
  (void)y;
  long double pi = 3.141592653589793238462643383279502884L, off = x - rintl(x);
  if (!(x < 0)) return 0;
  return fmaxl(fmaxl(logl(pi), fabsl(logl(fabsl(sinl(pi * off))))), fabsl(lgammal(1 - x)));
}

static long double exact_logaddexp(long double x, long double y)
{
  long double high = fmaxl(x, y), low = fminl(x, y);
  if (isnan(x) || isnan(y)) return NAN;
  return isinf(high) || isinf(low) ? high : high + log1pl(expl(low - high));
}

static long double larger_operand(long double x, long double y)
{
  return fabsl(fmaxl(x, y));
}

/* Near each other, as often of one sign as of two. */
static void draw_near(test_rng *rng, double *x, double *y)
{
  *x = test_range(rng, 0, 2) ? 8 * signed_uniform(rng) : test_any_f64(rng);
  *y = test_range(rng, 0, 3) ? *x * signed_uniform(rng) * 4 : test_any_f64(rng);
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

static const oracle oracles[TSR__OPS] = {
  [TSR__OP_SIN] = { .exact = sinl, .close = sin, .draw = any_angle },
  [TSR__OP_COS] = { .exact = cosl, .close = cos, .draw = any_angle },
  [TSR__OP_TAN] = { .exact = tanl, .close = tan, .draw = any_angle },
  [TSR__OP_EXP] = { .exact = expl, .close = exp, .draw = any_power },
  [TSR__OP_EXP2] = { .exact = exp2l, .close = exp2, .draw = any_power },
  [TSR__OP_EXPM1] = { .exact = expm1l, .close = expm1, .draw = any_power },
  [TSR__OP_LOG] = { .exact = logl, .close = log, .draw = any_positive },
  [TSR__OP_LOG2] = { .exact = log2l, .close = log2, .draw = any_positive },
  [TSR__OP_LOG10] = { .exact = log10l, .close = log10, .draw = any_positive },
  [TSR__OP_LOG1P] = { .exact = log1pl, .close = log1p, .draw = any_above_minus_1 },
  [TSR__OP_TANH] = { .exact = tanhl, .close = tanh, .draw = any_bend },
  [TSR__OP_ASINH] = { .exact = asinhl, .close = asinh, .draw = any_size },
  [TSR__OP_ACOSH] = { .exact = acoshl, .close = acosh, .draw = any_above_1 },
  [TSR__OP_ATANH] = { .exact = atanhl, .close = atanh, .draw = any_within_1 },
  [TSR__OP_CBRT] = { .exact = cbrtl, .close = cbrt, .draw = test_any_f64 },
  [TSR__OP_ASIN] = { .exact = asinl, .close = asin, .draw = any_within_1 },
  [TSR__OP_ACOS] = { .exact = acosl, .close = acos, .draw = any_within_1 },
  [TSR__OP_ATAN] = { .exact = atanl, .close = atan, .draw = any_size },
  [TSR__OP_SINH] = { .exact = sinhl, .close = sinh, .draw = any_power },
  [TSR__OP_COSH] = { .exact = coshl, .close = cosh, .draw = any_power },
  [TSR__OP_ERF] = { .exact = erfl, .close = erf, .draw = any_normal },
  [TSR__OP_ERFC] = { .exact = erfcl, .close = erfc, .draw = any_normal },
  [TSR__OP_ERFINV] = { .exact = exact_erfinv, .close = close_erfinv, .draw = any_within_1 },
  [TSR__OP_SIGMOID] = { .exact = exact_sigmoid, .close = close_sigmoid, .draw = any_power },
  [TSR__OP_GELU] = { .exact = exact_gelu, .close = close_gelu, .draw = any_normal },
  [TSR__OP_LGAMMA] = { .exact = lgammal, .close = lgamma, .draw = any_gamma, .term = gamma_term },
  [TSR__OP_POW] = { .exact_2 = powl, .draw_2 = draw_power },
  [TSR__OP_ATAN2] = { .exact_2 = atan2l, .draw_2 = draw_near },
  [TSR__OP_HYPOT] = { .exact_2 = hypotl, .draw_2 = draw_near },
  [TSR__OP_LOGADDEXP] = { .exact_2 = exact_logaddexp, .draw_2 = draw_near, .term = larger_operand },
};

static long double exact_of(const oracle *o, double x, double y)
{
  return o->exact ? o->exact((long double)x) : o->exact_2((long double)x, (long double)y);
}

static long double size_of(const oracle *o, double x, double y, long double exact)
{
  long double term = o->term ? o->term((long double)x, (long double)y) : 0;
  return fmaxl(fabsl(exact), isfinite(term) ? term : 0);
}

static void need_oracle(int op)
{
  const row_columns *row = &row_columns_of[op];
  if (!(row->ulp.f64 > 0 && row->ulp.f32 > 0))
    FAIL("%s is a FORMULA: its row must state ULP(f64, f32)", tsr__ops[op].name);
  if (tsr__ops[op].least == 2 ? !oracles[op].exact_2 : !oracles[op].exact)
    FAIL("%s is a FORMULA: `oracles` must have its exact function", tsr__ops[op].name);
}

TEST(every_formula_has_an_oracle)
{
  for (int op = 0; op < TSR__OPS; op++)
    if (is_formula(op)) need_oracle(op);
}

/* ---- f64 ---- */

/* What a type holds: digits, the least unit as an exponent, the largest number. */
typedef struct format {
  int digits, lowest;
  double largest;
} format;

static const format of_f64 = { 53, -1074, DBL_MAX }, of_f32 = { 24, -149, FLT_MAX };

/* By how many ULP a result is wrong; no number in the place of one is infinitely wrong. */
static double error_of(const format *f, double y, long double exact, long double size)
{
  long double end = (long double)f->largest * (1 - ldexpl(1, 5 - f->digits));
  int exponent;
  if (isnan(exact) || isnan(y)) return isnan(exact) && isnan(y) ? 0 : (double)INFINITY;
  if (fabsl(exact) > (long double)f->largest || isinf(y)) {
    bool same = fabsl(exact) >= end && fabsl((long double)y) >= end && (exact > 0) == (y > 0);
    return same ? 0 : (double)INFINITY;
  }
  frexpl(size, &exponent);
  exponent = exponent - f->digits < f->lowest ? f->lowest : exponent - f->digits;
  return (double)ldexpl(fabsl((long double)y - exact), -exponent);
}

/* One number after the other in each binade that a type has, of both signs. */
static double in_binade(const format *f, test_rng *rng, int64_t number)
{
  int last = 0;
  frexp(f->largest, &last);
  int binades = last - f->lowest, binade = (int)(number / 2 % binades);
  double x = ldexp(1 + test_uniform(rng), f->lowest + binade);
  return number % 2 ? -x : x;
}

/* What may stand beside a number: its like, one that it is raised to or by, any. */
static double beside(const format *f, test_rng *rng, double x)
{
  switch (test_range(rng, 0, 3)) {
  case 0: return ldexp(signed_uniform(rng) * x, (int)test_range(rng, -2, 2));
  case 1: return 4 * signed_uniform(rng);
  case 2: return 1 + near_zero(rng, f->digits);
  default: return in_binade(f, rng, test_range(rng, 0, 1 << 20));
  }
}

/* Draw `number`: every second one goes through the binades, of each operand in turn. */
static void draw_operands(const oracle *o, const format *f, test_rng *rng, int64_t number,
                          double *x, double *y)
{
  *y = 0;
  if (number % 2 && o->draw) *x = o->draw(rng);
  else if (number % 2 && o->draw_2) o->draw_2(rng, x, y);
  else if (!o->exact_2) *x = in_binade(f, rng, number / 2);
  else {
    double a = in_binade(f, rng, number / 4), b = beside(f, rng, a);
    *x = number / 2 % 2 ? a : b;
    *y = number / 2 % 2 ? b : a;
  }
}

/* The largest error of a row, and where it is. */
typedef struct worst {
  double error, x, y;
} worst;

static void look(worst *w, double error, double x, double y)
{
  if (error > w->error) *w = (worst){ error, x, y };
}

static void judge(int op, const char *dtype, const worst *w, double stated)
{
  const char *name = tsr__ops[op].name;
  if (getenv("SHOW_ULP"))
    fprintf(stderr, "%s of %s: %.4f ULP at %a, %a\n", name, dtype, w->error, w->x, w->y);
  if (!(w->error <= stated) && tsr__ops[op].least == 2)
    FAIL("%s(%a, %a) of %s is wrong by %.4f ULP, stated is %g", name, w->x, w->y, dtype, w->error,
         stated);
  if (!(w->error <= stated))
    FAIL("%s(%a) of %s is wrong by %.4f ULP, stated is %g", name, w->x, dtype, w->error, stated);
}

static int64_t draws_wanted(void)
{
  const char *millions = getenv("ULP_MILLIONS");
  return millions ? atoll(millions) * 1000000 : test_quick() ? 200000 : 1000000;
}

static test_rng rng_wanted(void)
{
  const char *seed = getenv("LAW_SEED");
  return test_seeded(seed ? strtoull(seed, NULL, 0) : 5);
}

static void check_f64(int op)
{
  enum { N = 1 << 16 };
  static double x[N], y[N], out[N];
  const oracle *o = &oracles[op];
  test_rng rng = rng_wanted();
  worst w = { 0, 0, 0 };
  need_oracle(op);
  for (int64_t first = 0, end = draws_wanted(); first < end; first += N) {
    for (int i = 0; i < N; i++) draw_operands(o, &of_f64, &rng, first + i, &x[i], &y[i]);
    compute_pairs((tsr__op)op, NULL, (pairs){ TSR_F64, x, y, N }, out);
    for (int i = 0; i < N; i++) {
      long double exact = exact_of(o, x[i], y[i]);
      look(&w, error_of(&of_f64, out[i], exact, size_of(o, x[i], y[i], exact)), x[i], y[i]);
    }
  }
  judge(op, "f64", &w, row_columns_of[op].ulp.f64);
}

TEST_TIMEOUT(f64_of_functions_is_within_what_is_stated, 1200)
{
  for (int op = 0; op < TSR__OPS && LDBL_MANT_DIG >= 64; op++)
    if (is_formula(op)) check_f64(op);
}

/* ---- f32 ---- */

/* Whether f64 is enough to tell that y is no further off than `worst`: of its own error some
 * 1e-8 ULP of f32 are seen. */
static bool surely_within(const oracle *o, float x, float y, double error)
{
  double close = o->close ? o->close((double)x) : (double)INFINITY, bits = fabs(close);
  if (!o->close) return false;
  if (isnan(close)) return isnan(y);
  if (bits > 0x1p128) return (double)y == copysign(INFINITY, close);
  if (!(bits < (double)FLT_MAX) || isnan(y) || isinf(y)) return false;
  int64_t unit; /* one ULP of f32 by its bits, the smallest denormal at least */
  memcpy(&unit, &bits, sizeof unit);
  unit = (unit >> 52) - 23;
  unit = (unit < 1023 - 149 ? 1023 - 149 : unit) << 52;
  double ulp;
  memcpy(&ulp, &unit, sizeof ulp);
  return fabs((double)y - close) <= (error - 1e-6) * ulp;
}

/* Every so many f32; `make ulp`: every one. */
static void check_all_f32(int op, uint64_t step)
{
  enum { N = 1 << 16 };
  static float x[N], y[N];
  const oracle *o = &oracles[op];
  worst w = { 0, 0, 0 };
  for (uint64_t first = 0, end = UINT64_C(1) << 32; first < end; first += step * N) {
    for (uint64_t i = 0; i < N; i++) {
      uint32_t bits = (uint32_t)(first + i * step);
      memcpy(&x[i], &bits, sizeof bits);
    }
    compute((tsr__op)op, TSR_F32, NULL, x, N, y);
    for (int i = 0; i < N; i++) {
      if (surely_within(o, x[i], y[i], w.error)) continue;
      long double exact = o->exact((long double)x[i]);
      look(&w, error_of(&of_f32, (double)y[i], exact, size_of(o, (double)x[i], 0, exact)),
           (double)x[i], 0);
    }
  }
  judge(op, "f32", &w, row_columns_of[op].ulp.f32);
}

static void check_f32_pairs(int op)
{
  enum { N = 1 << 16 };
  static float x[N], y[N], out[N];
  const oracle *o = &oracles[op];
  test_rng rng = rng_wanted();
  worst w = { 0, 0, 0 };
  for (int64_t first = 0, end = draws_wanted(); first < end; first += N) {
    for (int i = 0; i < N; i++) {
      double wide[2];
      draw_operands(o, &of_f32, &rng, first + i, &wide[0], &wide[1]);
      x[i] = (float)wide[0];
      y[i] = (float)wide[1];
    }
    compute_pairs((tsr__op)op, NULL, (pairs){ TSR_F32, x, y, N }, out);
    for (int i = 0; i < N; i++) {
      double a = (double)x[i], b = (double)y[i];
      long double exact = exact_of(o, a, b);
      look(&w, error_of(&of_f32, (double)out[i], exact, size_of(o, a, b, exact)), a, b);
    }
  }
  judge(op, "f32", &w, row_columns_of[op].ulp.f32);
}

TEST_TIMEOUT(f32_of_functions_is_within_what_is_stated, 100000)
{
  const char *given = getenv("ULP_STEP");
  uint64_t step = given ? strtoull(given, NULL, 0) : test_quick() ? 65537 : 8209;
  for (int op = 0; op < TSR__OPS && LDBL_MANT_DIG >= 64; op++) {
    if (!is_formula(op)) continue;
    need_oracle(op);
    if (oracles[op].exact_2) check_f32_pairs(op);
    else check_all_f32(op, step);
  }
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* Results that are no denormals, of which docs/NUMERICS.md says more. */
TEST_TIMEOUT(powers_are_almost_rounded, 600)
{
  enum { N = 1 << 16 };
  static double x[N], y[N], out[N];
  int64_t n = draws_wanted() / 2;
  test_rng rng = test_seeded(5);
  if (LDBL_MANT_DIG < 64) return;
  for (; n > 0; n -= N) {
    for (int i = 0; i < N; i++) draw_power(&rng, &x[i], &y[i]);
    compute_pairs(TSR__OP_POW, NULL, (pairs){ TSR_F64, x, y, N }, out);
    for (int i = 0; i < N; i++) {
      long double exact = powl((long double)x[i], (long double)y[i]);
      if (!isfinite((double)exact) || fabsl(exact) < 0x1p-1022L) continue;
      double error = error_of(&of_f64, out[i], exact, exact);
      if (error > 0.55) FAIL("pow(%a, %a) is wrong by %.4f ULP", x[i], y[i], error);
    }
  }
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
  compute_pairs(TSR__OP_POW, NULL, (pairs){ TSR_F64, x, y, N }, out);
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
    compute_pairs(TSR__OP_POW, NULL, (pairs){ TSR_F64, &end[i][0], &end[i][1], 1 }, &out);
    if (isnan(end[i][2]) ? !isnan(out) : memcmp(&out, &end[i][2], 8) != 0)
      FAIL("%a ** %a is %a, expected %a", end[i][0], end[i][1], out, end[i][2]);
    float x = (float)end[i][0], y = (float)end[i][1], narrow, expected = (float)end[i][2];
    if (!is_f32(end[i][0]) || !is_f32(end[i][1])) continue;
    compute_pairs(TSR__OP_POW, NULL, (pairs){ TSR_F32, &x, &y, 1 }, &narrow);
    CHECK_F32_BITS(narrow, expected);
  }
}

TEST(powers_of_f32_stay_within_what_is_stated)
{
  enum { N = 200000 };
  static float x[N], y[N], out[N];
  double largest = 0;
  test_rng rng = test_seeded(7);
  for (int i = 0; i < N; i++) {
    x[i] = (float)(test_uniform(&rng) * (i % 2 ? 4 : 1e6));
    if (i % 5 == 0) x[i] = (float)(1 + near_zero(&rng, 24));
    float most = 126 / fabsf(log2f(x[i]));
    if (!(most < 1e6f)) most = 1e6f;
    y[i] = (float)signed_uniform(&rng) * (i % 3 ? 6 : most);
  }
  if (LDBL_MANT_DIG < 64) return;
  compute_pairs(TSR__OP_POW, NULL, (pairs){ TSR_F32, x, y, N }, out);
  for (int i = 0; i < N; i++) {
    long double exact = powl((long double)x[i], (long double)y[i]);
    int exponent;
    if (isinf((float)exact) || fabsl(exact) < 0x1p-126L) continue;
    frexpl(exact, &exponent);
    double error = (double)(fabsl((long double)out[i] - exact) / ldexpl(1, exponent - 24));
    if (error > 0.55)
      FAIL("%a ** %a is %a, expected %La: %.4f ULP", (double)x[i], (double)y[i], (double)out[i],
           exact, error);
    if (error > largest) largest = error;
  }
  if (getenv("SHOW_ULP")) fprintf(stderr, "pow of f32: %.4f ULP\n", largest);
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
    if (!is_formula(op)) continue;
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
    if (is_formula(op)) same_bits_of_f32((tsr__op)op, &rng);
  static double exponent[N];
  for (int i = 0; i < N; i++) {
    draw_power(&rng, &x[i], &exponent[i]);
    if (i % 4 == 0) exponent[i] = test_any_f64(&rng);
  }
  for (int i = 0; i < 3; i++)
    if (has[i]) compute_pairs(TSR__OP_POW, isas[i], (pairs){ TSR_F64, x, exponent, N }, y[i]);
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < N && has[i]; k++)
      if (!isnan(y[i][k]) || !isnan(y[0][k])) CHECK_F64_BITS(y[i][k], y[0][k]);
}
