/* Functions against 60-digit arithmetic (tests/golden/functions.txt), at their ends, and
 * with the same bits from every instruction set and operand length. */
#include "harness.h"

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

static void compute(tsr__op op, tsr_dtype dtype, const char *isa, const void *x, int64_t n,
                    void *out)
{
  kernel_fixture k;
  kernel_open(&k, 1, isa, 1);
  int y = kernel_op(&k, op, kernel_leaf(&k, dtype, TSR_SHAPE(n), false, x), -1, -1);
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
  };
  for (size_t i = 0; i < sizeof end / sizeof end[0]; i++) {
    double y;
    compute(end[i].op, TSR_F64, NULL, &end[i].x, 1, &y);
    CHECK_F64_BITS(y, end[i].y);
  }
}

TEST(f32_goes_through_f64)
{
  enum { N = 2000 };
  static float x[N], y[N];
  static double wide[N], exact[N];
  const tsr__op ops[] = { TSR__OP_EXP,  TSR__OP_LOG, TSR__OP_LOG1P, TSR__OP_LOG2, TSR__OP_LOG10,
                          TSR__OP_TANH, TSR__OP_SIN, TSR__OP_COS,   TSR__OP_TAN };
  test_rng rng = test_seeded(3);
  for (int i = 0; i < N; i++) {
    x[i] = (float)(test_uniform(&rng) * 80);
    wide[i] = (double)x[i];
  }
  for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
    compute(ops[o], TSR_F32, NULL, x, N, y);
    compute(ops[o], TSR_F64, NULL, wide, N, exact);
    for (int i = 0; i < N; i++) CHECK_F32_BITS(y[i], (float)exact[i]);
  }
}

/* Hundreds of thousands of random bits: every instruction set gives the same. */
TEST(same_bits_on_every_instruction_set)
{
  enum { N = 20000 };
  static double x[N], y[3][N];
  const tsr__op ops[] = { TSR__OP_EXP,  TSR__OP_LOG, TSR__OP_LOG1P, TSR__OP_LOG2, TSR__OP_LOG10,
                          TSR__OP_TANH, TSR__OP_SIN, TSR__OP_COS,   TSR__OP_TAN };
  test_rng rng = test_seeded(4);
  bool has[3];
  for (int i = 0; i < 3; i++) has[i] = kernel_has(isas[i]);
  for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
    for (int i = 0; i < N; i++) {
      x[i] = i % 3 ? test_any_f64(&rng) : (test_uniform(&rng) - 0.3) * (i % 2 ? 1 : 700);
      if (i % 1000 == 0) x[i] = INFINITY;
    }
    for (int i = 0; i < 3; i++)
      if (has[i]) compute(ops[o], TSR_F64, isas[i], x, N, y[i]);
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < N && has[i]; k++) {
        if (y[i][k] != y[i][k] && y[0][k] != y[0][k]) continue;
        if (memcmp(&y[i][k], &y[0][k], 8)) CHECK_F64_BITS(y[i][k], y[0][k]);
      }
  }
}
