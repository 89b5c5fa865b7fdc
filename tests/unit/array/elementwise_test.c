/* Elementwise functions as users call them, against 60-digit arithmetic
 * (tests/golden/elementwise.txt) and at their ends, as C11's Annex F has them. Runs at each ISA. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/row_columns.h"
#include "tessera.h"

/* A function as it is called; its row of the table of operations says what is promised of it. */
typedef struct function {
  const char *name;
  tsr_array *(*one)(tsr_array *a, const char *site);
  tsr_array *(*two)(tsr_array *a, tsr_operand b, const char *site);
} function;

static const function functions[] = {
  { "cbrt", tsr_cbrt_at, NULL },
  { "asin", tsr_asin_at, NULL },
  { "acos", tsr_acos_at, NULL },
  { "atan", tsr_atan_at, NULL },
  { "sinh", tsr_sinh_at, NULL },
  { "cosh", tsr_cosh_at, NULL },
  { "erf", tsr_erf_at, NULL },
  { "erfc", tsr_erfc_at, NULL },
  { "erfinv", tsr_erfinv_at, NULL },
  { "lgamma", tsr_lgamma_at, NULL },
  { "sigmoid", tsr_sigmoid_at, NULL },
  { "gelu", tsr_gelu_at, NULL },
  { "hypot", NULL, tsr_hypot_at },
  { "atan2", NULL, tsr_atan2_at },
  { "logaddexp", NULL, tsr_logaddexp_at },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, MOST = 200 };

static void apply(const function *f, tsr_dtype dtype, int n, const void *x, const void *y,
                  void *out)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  tsr_sharding on = tsr_on(mesh, "x");
  tsr_array *a = tsr_put(s, x, dtype, TSR_SHAPE(n), on),
            *b = tsr_put(s, y, dtype, TSR_SHAPE(n), on);
  tsr_array *r = f->one ? f->one(a, TSR_HERE) : f->two(a, tsr_operand_array(b), TSR_HERE);
  CHECK_STATUS(tsr_read(r, out, (size_t)n * tsr_dtype_size(dtype)), TSR_OK, s);
  tsr_runtime_close(rt);
}

static double from_bits(const char *text)
{
  uint64_t bits = strtoull(text, NULL, 16);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

typedef struct golden {
  int count, unit[MOST];
  double x[MOST], y[MOST], near[MOST], rest[MOST];
} golden;

static void read_golden(const char *name, golden *g)
{
  char *text = test_read(test_file("golden/elementwise.txt"), NULL), *save;
  g->count = 0;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    char called[16], bits[3][20];
    int n = g->count;
    if (sscanf(line, "%15s %19s %19s %19s %lf %d", called, bits[0], bits[1], bits[2], &g->rest[n],
               &g->unit[n]) != 6 ||
        strcmp(called, name))
      continue;
    CHECK(n < MOST);
    g->x[n] = from_bits(bits[0]);
    g->y[n] = from_bits(bits[1]);
    g->near[n] = from_bits(bits[2]);
    g->count++;
  }
  free(text);
  CHECK(g->count >= 50);
}

TEST(functions_are_within_what_is_stated)
{
  static golden g;
  static double out[MOST];
  for (int f = 0; f < FUNCTIONS; f++) {
    double worst = 0, limit = row_ulp(functions[f].name, TSR_F64);
    read_golden(functions[f].name, &g);
    apply(&functions[f], TSR_F64, g.count, g.x, g.y, out);
    for (int i = 0; i < g.count; i++) {
      double error = fabs(ldexp(out[i] - g.near[i], -g.unit[i]) - ldexp(g.rest[i], -g.unit[i]));
      if (!(error <= limit))
        FAIL("%s(%a, %a) is %a, expected %a: %.2f ULP", functions[f].name, g.x[i], g.y[i], out[i],
             g.near[i], error);
      if (error > worst) worst = error;
    }
    if (getenv("SHOW_ULP")) fprintf(stderr, "%s: %.3f ULP\n", functions[f].name, worst);
  }
}

/* f64 has more digits than needed. Terms count where they cancel. */
TEST(f32_is_within_what_is_stated)
{
  static golden g;
  static float x[MOST], y[MOST], out[MOST];
  static double wide[2][MOST], exact[MOST];
  for (int f = 0; f < FUNCTIONS; f++) {
    double worst = 0, limit = row_ulp(functions[f].name, TSR_F32);
    read_golden(functions[f].name, &g);
    for (int i = 0; i < g.count; i++) {
      wide[0][i] = (double)(x[i] = (float)g.x[i]);
      wide[1][i] = (double)(y[i] = (float)g.y[i]);
    }
    apply(&functions[f], TSR_F32, g.count, x, y, out);
    apply(&functions[f], TSR_F64, g.count, wide[0], wide[1], exact);
    for (int i = 0; i < g.count; i++) {
      int exponent;
      double size = fabs(exact[i]);
      if (isnan(exact[i]) || isinf((float)exact[i])) {
        CHECK_F32_BITS(out[i], (float)exact[i]);
        continue;
      }
      if (functions[f].two == tsr_logaddexp_at) size = fmax(size, fmax(wide[0][i], wide[1][i]));
      frexp(size, &exponent);
      double error = fabs((double)out[i] - exact[i]) / fmax(ldexp(1, exponent - 24), 0x1p-149);
      if (!(error <= limit))
        FAIL("%s(%a, %a) of f32 is %a, expected %a: %.2f ULP", functions[f].name, wide[0][i],
             wide[1][i], (double)out[i], exact[i], error);
      if (error > worst) worst = error;
    }
    if (getenv("SHOW_ULP")) fprintf(stderr, "%s of f32: %.3f ULP\n", functions[f].name, worst);
  }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static const double inf = (double)INFINITY, nan_ = (double)NAN, low = 5e-324, top = DBL_MAX;

static const function *named(const char *name)
{
  for (int f = 0; f < FUNCTIONS; f++)
    if (!strcmp(functions[f].name, name)) return &functions[f];
  FAIL("no function %s", name);
}

/* Bits of doubles; any NaN is one. */
static bool same(double a, double b)
{
  return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof a);
}

typedef struct end {
  const char *name;
  double x, y, is;
} end;

static void check_ends(const end *list, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    double found;
    apply(named(list[i].name), TSR_F64, 1, &list[i].x, &list[i].y, &found);
    if (!same(found, list[i].is))
      FAIL("%s(%a, %a) is %a, expected %a", list[i].name, list[i].x, list[i].y, found, list[i].is);
  }
}

TEST(functions_of_one_number_at_their_ends)
{
  const end list[] = {
    { "cbrt", 0, 0, 0 },
    { "cbrt", -0.0, 0, -0.0 },
    { "cbrt", inf, 0, inf },
    { "cbrt", -inf, 0, -inf },
    { "cbrt", nan_, 0, nan_ },
    { "cbrt", -27, 0, -3 },
    { "cbrt", 1e300, 0, 1e100 },
    { "cbrt", 0x1p-1074, 0, 0x1p-358 },
    { "asin", -0.0, 0, -0.0 },
    { "asin", low, 0, low },
    { "asin", 1, 0, M_PI_2 },
    { "asin", -1, 0, -M_PI_2 },
    { "asin", 1 + DBL_EPSILON, 0, nan_ },
    { "asin", -inf, 0, nan_ },
    { "asin", nan_, 0, nan_ },
    { "acos", 1, 0, 0 },
    { "acos", -1, 0, M_PI },
    { "acos", 0, 0, M_PI_2 },
    { "acos", -0.0, 0, M_PI_2 },
    { "acos", 1.5, 0, nan_ },
    { "acos", nan_, 0, nan_ },
    { "atan", 0, 0, 0 },
    { "atan", -0.0, 0, -0.0 },
    { "atan", inf, 0, M_PI_2 },
    { "atan", -inf, 0, -M_PI_2 },
    { "atan", 1, 0, M_PI_4 },
    { "atan", -low, 0, -low },
    { "atan", nan_, 0, nan_ },
    { "sinh", -0.0, 0, -0.0 },
    { "sinh", low, 0, low },
    { "sinh", inf, 0, inf },
    { "sinh", -inf, 0, -inf },
    { "sinh", 711, 0, inf },
    { "sinh", -711, 0, -inf },
    { "sinh", nan_, 0, nan_ },
    { "cosh", 0, 0, 1 },
    { "cosh", -0.0, 0, 1 },
    { "cosh", -inf, 0, inf },
    { "cosh", 711, 0, inf },
    { "cosh", nan_, 0, nan_ },
    { "erf", -0.0, 0, -0.0 },
    { "erf", inf, 0, 1 },
    { "erf", -inf, 0, -1 },
    { "erf", 7, 0, 1 },
    { "erf", nan_, 0, nan_ },
    { "erfc", inf, 0, 0 },
    { "erfc", -inf, 0, 2 },
    { "erfc", 0, 0, 1 },
    { "erfc", -0.0, 0, 1 },
    { "erfc", 27.3, 0, 0 },
    { "erfc", 1e300, 0, 0 },
    { "erfc", nan_, 0, nan_ },
    { "erfinv", 0, 0, 0 },
    { "erfinv", -0.0, 0, -0.0 },
    { "erfinv", 1, 0, inf },
    { "erfinv", -1, 0, -inf },
    { "erfinv", -1.5, 0, nan_ },
    { "erfinv", inf, 0, nan_ },
    { "erfinv", nan_, 0, nan_ },
    { "lgamma", 1, 0, 0 },
    { "lgamma", 2, 0, 0 },
    { "lgamma", 0, 0, inf },
    { "lgamma", -0.0, 0, inf },
    { "lgamma", -3, 0, inf },
    { "lgamma", inf, 0, inf },
    { "lgamma", -inf, 0, inf },
    { "lgamma", nan_, 0, nan_ },
    { "lgamma", 1e306, 0, inf },
    { "lgamma", -1e300, 0, inf },
    { "sigmoid", 0, 0, 0.5 },
    { "sigmoid", -0.0, 0, 0.5 },
    { "sigmoid", inf, 0, 1 },
    { "sigmoid", -inf, 0, 0 },
    { "sigmoid", -1e300, 0, 0 },
    { "sigmoid", nan_, 0, nan_ },
    { "gelu", 0, 0, 0 },
    { "gelu", -0.0, 0, -0.0 },
    { "gelu", inf, 0, inf },
    { "gelu", -inf, 0, -0.0 },
    { "gelu", 100, 0, 100 },
    { "gelu", top, 0, top },
    { "gelu", nan_, 0, nan_ },
  };
  check_ends(list, sizeof list / sizeof *list);
}

TEST(functions_of_two_numbers_at_their_ends)
{
  const end list[] = {
    { "atan2", 0, -0.0, M_PI },
    { "atan2", -0.0, -0.0, -M_PI },
    { "atan2", 0, 0, 0 },
    { "atan2", -0.0, 0, -0.0 },
    { "atan2", 0, -1, M_PI },
    { "atan2", -0.0, -1, -M_PI },
    { "atan2", 0, 1, 0 },
    { "atan2", -0.0, 1, -0.0 },
    { "atan2", -1, 0, -M_PI_2 },
    { "atan2", 1, -0.0, M_PI_2 },
    { "atan2", 1, -inf, M_PI },
    { "atan2", -1, -inf, -M_PI },
    { "atan2", 1, inf, 0 },
    { "atan2", -1, inf, -0.0 },
    { "atan2", inf, 1, M_PI_2 },
    { "atan2", -inf, -1, -M_PI_2 },
    { "atan2", inf, -inf, 3 * M_PI_4 },
    { "atan2", -inf, -inf, -3 * M_PI_4 },
    { "atan2", inf, inf, M_PI_4 },
    { "atan2", -inf, inf, -M_PI_4 },
    { "atan2", nan_, 1, nan_ },
    { "atan2", 1, nan_, nan_ },
    { "atan2", inf, nan_, nan_ },
    { "hypot", 3, -4, 5 },
    { "hypot", -0.0, 0, 0 },
    { "hypot", inf, nan_, inf },
    { "hypot", nan_, -inf, inf },
    { "hypot", nan_, 1, nan_ },
    { "hypot", top, top, inf },
    { "hypot", top, 0, top },
    { "hypot", low, 0, low },
    { "hypot", 3 * low, 4 * low, 5 * low },
    { "hypot", 0x1.8p1023, -0.0, 0x1.8p1023 },
    { "logaddexp", -inf, -inf, -inf },
    { "logaddexp", inf, inf, inf },
    { "logaddexp", inf, -inf, inf },
    { "logaddexp", -inf, 3, 3 },
    { "logaddexp", 0, 0, M_LN2 },
    { "logaddexp", nan_, 1, nan_ },
    { "logaddexp", inf, nan_, nan_ },
    { "logaddexp", 1e300, -1e300, 1e300 },
  };
  check_ends(list, sizeof list / sizeof *list);
}

/* ---- options and messages -------------------------------------------------------------------- */

static void check_read(tsr_array *a, const double *expected, int n)
{
  double found[8];
  CHECK_STATUS(tsr_read(tsr_cast(a, TSR_F64), found, (size_t)n * sizeof *found), TSR_OK, NULL);
  for (int i = 0; i < n; i++)
    if (!same(found[i], expected[i]))
      FAIL("element %d is %a, expected %a", i, found[i], expected[i]);
}

TEST(options_are_taken)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  const double x[] = { -2.345, nan_, inf, -inf, 2.5, 250.5 };
  const int32_t y[] = { 15, 25, -15, 149, 150, -151 };
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(6), (tsr_sharding){ 0 });
  tsr_array *b = tsr_put(s, y, TSR_I32, TSR_SHAPE(6), (tsr_sharding){ 0 });
  check_read(tsr_round(a), (double[]){ -2, nan_, inf, -inf, 2, 250 }, 6);
  check_read(tsr_round(a, .decimals = 2), (double[]){ -2.35, nan_, inf, -inf, 2.5, 250.5 }, 6);
  check_read(tsr_round(a, .decimals = -2), (double[]){ -0.0, nan_, inf, -inf, 0, 300 }, 6);
  check_read(tsr_round(b, .decimals = -1), (double[]){ 20, 20, -20, 150, 150, -150 }, 6);
  check_read(tsr_round(b, .decimals = -2), (double[]){ 0, 0, 0, 100, 200, -200 }, 6);
  check_read(tsr_nan_to_num(a, .nan = TSR_OPERAND(7), .neginf = TSR_OPERAND(-1.5)),
             (double[]){ -2.345, 7, top, -1.5, 2.5, 250.5 }, 6);
  check_read(tsr_clip(b, -15, 25), (double[]){ 15, 25, -15, 25, 25, -15 }, 6);
  check_read(tsr_heaviside(tsr_sub(b, 15), 0.5), (double[]){ 0.5, 1, 0, 1, 1, 0 }, 6);
  check_read(tsr_fma(b, 2, 0.5), (double[]){ 30.5, 50.5, -29.5, 298.5, 300.5, -301.5 }, 6);
  check_read(tsr_logical_or(a, 0), (double[]){ 1, 1, 1, 1, 1, 1 }, 6);
  tsr_array *both[2];
  tsr_divmod(b, 10, both);
  check_read(both[0], (double[]){ 1, 2, -2, 14, 15, -16 }, 6);
  check_read(both[1], (double[]){ 5, 5, 5, 9, 0, 9 }, 6);
  tsr_runtime_close(rt);
}
