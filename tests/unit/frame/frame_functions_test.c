/* What the functions of expressions give at their corners, on meshes of several sizes; the golden
 * file compares them at large (expr_golden_test.c). */
#include "tessera.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const meshes[] = { "data=1", "data=3", "data=8", "a=2,b=2" };
enum { MESHES = 4 };

/* ---- correlation --------------------------------------------------------------------------- */

enum { ROWS = 24 };

/* x: large beside its spread, with a NaN in group 3; y: null in each sixth row; g: 0..3 by rows;
 * n: 0 but for one row. */
static tsr_frame *pairs(tsr_scope *s, tsr_sharding at)
{
  double x[ROWS], y[ROWS];
  int64_t g[ROWS], z[ROWS];
  for (int i = 0; i < ROWS; i++) {
    g[i] = i % 4;
    x[i] = g[i] == 3 && i > 18 ? (double)NAN : 1e9 + (i * 7 % 11) / 8.0;
    y[i] = i % 6 == 5 ? -999 : (i * 5 % 13) / 4.0;
    z[i] = i == 7;
  }
  tsr_frame *df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(ROWS), at) },
                                { "raw", tsr_put(s, y, TSR_F64, TSR_SHAPE(ROWS), at) },
                                { "g", tsr_put(s, g, TSR_I64, TSR_SHAPE(ROWS), at) },
                                { "z", tsr_put(s, z, TSR_I64, TSR_SHAPE(ROWS), at) });
  return tsr_frame_assign(df, "y", "if(raw < 0, null, raw)");
}

/* The same in long double, in two passes. */
static double expected_corr(int group)
{
  long double sum[2] = { 0, 0 }, xx = 0, yy = 0, xy = 0;
  int n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < ROWS; i++) {
      if (i % 6 == 5 || i % 4 != group) continue;
      long double x = 1e9L + (i * 7 % 11) / 8.0L, y = (i * 5 % 13) / 4.0L;
      n += !pass;
      if (!pass) sum[0] += x, sum[1] += y;
      long double dx = x - sum[0] / n, dy = y - sum[1] / n;
      if (pass) xx += dx * dx, yy += dy * dy, xy += dx * dy;
    }
  return (double)(xy / sqrtl(xx * yy));
}

/* Integers that f64 does not hold beside floats, and u64 beside i64; by exact fractions. */
TEST(correlations_of_large_integers)
{
  const int64_t x[] = { 9007199254740993, 9007199254740994, 9007199254740995, 9007199254740996 };
  const double y[] = { 1.5, 2.5, 3.5, 5.5 };
  const uint64_t u[] = { UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 2, UINT64_MAX - 5 };
  const uint8_t g[] = { 0, 0, 0, 0 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_table *t;
  tsr_shape shape = TSR_SHAPE(4);
  tsr_frame *df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_I64, shape, (tsr_sharding){ 0 }) },
                                { "y", tsr_put(s, y, TSR_F64, shape, (tsr_sharding){ 0 }) },
                                { "u", tsr_put(s, u, TSR_U64, shape, (tsr_sharding){ 0 }) },
                                { "g", tsr_put(s, g, TSR_BOOL, shape, (tsr_sharding){ 0 }) });
  const char *asked = "a = corr(x, y), b = corr(y, x), c = corr(u, y), d = corr(x, u), "
                      "e = corr(x, cast(y, 'f32')), f = corr(x, if(x % 2 == 1, y, null))";
  const tsr_formula text = { .text = asked };
  for (int groups = 0; groups < 2; groups++) {
    tsr_frame *all = groups ? tsr_frame_group_agg_at(df, "g", &text, TSR_HERE)
                            : tsr_frame_agg_at(df, &text, TSR_HERE);
    CHECK_STATUS(tsr_frame_collect(all, &t), TSR_OK, s);
    CHECK(fabs(tsr_table_f64(t, 0, groups + 0) - 0.9827076298239908) < 4e-16);
    CHECK(fabs(tsr_table_f64(t, 0, groups + 1) - 0.9827076298239908) < 4e-16);
    CHECK(fabs(tsr_table_f64(t, 0, groups + 2) + 0.9938586931957764) < 4e-16);
    CHECK(fabs(tsr_table_f64(t, 0, groups + 3) + 0.9561828874675149) < 4e-16);
    CHECK(fabs(tsr_table_f64(t, 0, groups + 4) - 0.9827076298239908) < 4e-16);
    CHECK_F64_BITS(tsr_table_f64(t, 0, groups + 5), 1);
  }
  tsr_runtime_close(rt);
}

/* A line of golden/correlations.txt against row `r` of a table of which `first` columns are keys.
 * Correlations are quotients of three numbers that are rounded; spreads are exact. */
static const char *check_exactly(const char *line, const tsr_table *t, int r, int first)
{
  enum { CORRELATIONS = 4, RESULTS = 8 };
  char *end;
  strtol(line, &end, 10);
  for (int k = 0; k < RESULTS; k++) {
    uint64_t bits = strtoull(end, &end, 16);
    double want, found = tsr_table_f64(t, r, first + k);
    memcpy(&want, &bits, sizeof want);
    bool near = fabs(found - want) <= (k < CORRELATIONS ? 1e-15 * fabs(want) : 0);
    if (!near) FAIL("row %d, result %d: %.17g, expected %.17g", r, k, found, want);
  }
  return end + 1;
}

/* Groups that lie far from the column's least are as exact as the others. */
TEST(correlations_of_groups_that_lie_far_apart)
{
  enum { GROUPS = 6 };
  static const char asked[] = "a = corr(x, y), b = corr(u, y), c = corr(x, u), d = corr(w, x), "
                              "e = var(x), f = std(x), g = var(u), h = std(u)";
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  char *text = test_read(test_file("golden/correlations.txt"), NULL);
  for (int m = 0; m < MESHES; m++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_make(rt, meshes[m]);
    tsr_frame *df =
        tsr_frame_read_csv(s, test_file("golden/correlations.csv"), .types = "x i64, u u64",
                           .on = tsr_on(mesh, m == 3 ? "a" : "data"));
    tsr_table *t = NULL;
    const char *line = text;
    const tsr_formula formula = { .text = asked };
    tsr_frame *groups = tsr_frame_group_agg_at(df, "k = g", &formula, TSR_HERE);
    CHECK_STATUS(tsr_frame_collect(tsr_frame_sort(groups, "k"), &t), TSR_OK, s);
    CHECK_I64(tsr_table_row_count(t), GROUPS);
    for (int g = 0; g < GROUPS; g++) line = check_exactly(line, t, g, 1);
    CHECK_STATUS(tsr_frame_collect(tsr_frame_agg_at(df, &formula, TSR_HERE), &t), TSR_OK, s);
    check_exactly(line, t, 0, 0);
    tsr_scope_close(s);
  }
  free(text);
  tsr_runtime_close(rt);
}

TEST(frame_corr)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int m = 0; m < MESHES; m++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_make(rt, meshes[m]);
    tsr_frame *df = pairs(s, tsr_on(mesh, m == 3 ? "a" : "data"));
    tsr_table *t = NULL;
    tsr_frame *groups = tsr_frame_group_agg(df, "g", "corr(x, y), corr(x, 3), corr(z, y)");
    CHECK_STATUS(tsr_frame_collect(groups, &t), TSR_OK, s);
    CHECK_I64(tsr_table_row_count(t), 4);
    for (int g = 0; g < 3; g++) {
      CHECK(fabs(tsr_table_f64(t, g, 1) - expected_corr(g)) < 4e-15);
      CHECK(isnan(tsr_table_f64(t, g, 2)) && !tsr_table_is_null(t, g, 2)); /* constant */
    }
    CHECK(isnan(tsr_table_f64(t, 3, 1)) && !tsr_table_is_null(t, 3, 1)); /* a NaN among them */
    tsr_table *by_rows =
        NULL; /* medians need the rows of groups together: another path, same bits */
    groups = tsr_frame_group_agg(df, "g", "median(x), corr(x, y), corr(x, 3)");
    CHECK_STATUS(tsr_frame_collect(groups, &by_rows), TSR_OK, s);
    for (int g = 0; g < 4; g++) {
      if (g < 3) CHECK_F64_BITS(tsr_table_f64(by_rows, g, 2), tsr_table_f64(t, g, 1));
      else CHECK(isnan(tsr_table_f64(by_rows, g, 2)));
      CHECK(isnan(tsr_table_f64(by_rows, g, 3)) && !tsr_table_is_null(by_rows, g, 3));
    }
    tsr_row *row = tsr_frame_row(tsr_frame_agg(
        tsr_frame_filter(df, "x < 2e9"),
        "one = corr(x, -x), same = corr(y, y), n = corr(x, if(z == 1, y, null)), r = corr(x, y)"));
    CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
    CHECK_F64_BITS(tsr_row_f64(row, "one"), -1.0);
    CHECK_F64_BITS(tsr_row_f64(row, "same"), 1.0);
    CHECK(tsr_row_is_null(row, "n"));
    CHECK(!tsr_row_is_null(row, "r"));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- casts --------------------------------------------------------------------------------- */

static const char *const words[] = { "12", "-7", "no", "12", NULL, "3.5", "", "12" };
enum { WORDS = 8 };

static tsr_frame *word_frame(tsr_scope *s, tsr_sharding at)
{
  double x[WORDS] = { 1.5, -2.5, 1e10, NAN, 0, 3e9, INFINITY, 7 };
  int64_t row[WORDS] = { 0, 1, 2, 3, 4, 5, 6, 7 };
  tsr_frame *df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(WORDS), at) },
                                { "row", tsr_put(s, row, TSR_I64, TSR_SHAPE(WORDS), at) });
  return tsr_frame_text_column(df, "w", words, WORDS);
}

static void expect_collect(tsr_scope *s, tsr_frame *df, tsr_status status, const char *part)
{
  tsr_table *t = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &t), status, s);
  if (part) CHECK_STR_HAS(tsr_message(s), part);
  tsr_scope_clear(s);
}

TEST(frame_cast_names_what_it_cannot_take)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int m = 0; m < MESHES; m++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = word_frame(s, tsr_on(tsr_mesh_make(rt, meshes[m]), m == 3 ? "a" : "data"));
    expect_collect(s, tsr_frame_assign(df, "z", "cast(w, 'i64')"), TSR_EVALUE,
                   "tsr_frame_assign: cast(w, 'i64'): 'no' in row 2 is not a valid i64; use "
                   "try_cast, which gives null");
    expect_collect(s, tsr_frame_assign(tsr_frame_filter(df, "row > 2"), "z", "1 + cast(w, 'i64')"),
                   TSR_EVALUE, "cast(w, 'i64'): '3.5' in row 5 is not a valid i64");
    expect_collect(s, tsr_frame_filter(df, "cast(x, 'i32') > 0"), TSR_EVALUE,
                   "tsr_frame_filter: cast(x, 'i32'): 10000000000 in row 2 is not a valid i32");
    expect_collect(s, tsr_frame_agg(tsr_frame_filter(df, "row == 3"), "sum(cast(x, 'i64'))"),
                   TSR_EVALUE, "cast(x, 'i64'): nan in row 3 is not a valid i64");
    expect_collect(s, tsr_frame_agg(df, "sum(cast(w, 'i64'))"), TSR_EVALUE, "'no' in row 2");
    expect_collect(s, tsr_frame_agg(df, "cast(sum(row) * 1e10, 'i32')"), TSR_EVALUE,
                   "280000000000 is not a valid i32");
    expect_collect(s, tsr_frame_group_agg(df, "w", "n = cast(max(x), 'i32')"), TSR_EVALUE,
                   "nan is not a valid i32");
    expect_collect(s, tsr_frame_assign(df, "z", "cast('x', 'i64')"), TSR_EVALUE,
                   "'x' is not a valid i64");
    /* Rows that were dropped, branches not taken and columns not needed say nothing. */
    expect_collect(s, tsr_frame_assign(tsr_frame_filter(df, "row < 2"), "z", "cast(w, 'i64')"),
                   TSR_OK, NULL);
    expect_collect(s, tsr_frame_select(df, "z = if(w in ('12', '-7'), cast(w, 'i64'), 0)"), TSR_OK,
                   NULL);
    expect_collect(s, tsr_frame_select(tsr_frame_assign(df, "z", "cast(w, 'i64')"), "x"), TSR_OK,
                   NULL);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- pairs of texts, and different values, of which there are many --------------------------- */

enum { MANY = 900 };

TEST(frame_pairs_of_texts_that_occur)
{
  static char left[MANY][16], right[MANY][16];
  const char *a[MANY], *b[MANY];
  double x[MANY];
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int i = 0; i < MANY; i++) {
    snprintf(left[i], sizeof left[i], "k%d", i % 300);
    snprintf(right[i], sizeof right[i], "%d", i % 450);
    a[i] = i % 17 == 0 ? NULL : left[i];
    b[i] = right[i];
    x[i] = i % 300 / 8.0 - 10;
  }
  for (int m = 0; m < MESHES; m++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_sharding at = tsr_on(tsr_mesh_make(rt, meshes[m]), m == 3 ? "a" : "data");
    tsr_frame *df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(MANY), at) });
    df = tsr_frame_text_column(tsr_frame_text_column(df, "a", a, MANY), "b", b, MANY);
    df = tsr_frame_select(tsr_frame_filter(df, "b != '13'"),
                          "c = concat(a, '.', b), e = ends_with(a, b), v = cast(x, 'text')");
    tsr_table *t = NULL;
    CHECK_STATUS(tsr_frame_collect(df, &t), TSR_OK, s);
    int64_t row = 0;
    for (int i = 0; i < MANY; i++) {
      char text[40];
      if (i % 450 == 13) continue;
      CHECK(tsr_table_is_null(t, row, 0) == !a[i]);
      CHECK(tsr_table_is_null(t, row, 1) == !a[i]);
      snprintf(text, sizeof text, "%.15s.%.15s", left[i], right[i]);
      if (a[i]) CHECK_STR(tsr_table_text(t, row, 0), text);
      size_t n = strlen(left[i]), k = strlen(right[i]);
      if (a[i]) CHECK_I64(tsr_table_i64(t, row, 1), n >= k && !strcmp(left[i] + n - k, right[i]));
      snprintf(text, sizeof text, "%.10g", x[i]);
      CHECK_STR(tsr_table_text(t, row, 2), text);
      row++;
    }
    CHECK_I64(tsr_table_row_count(t), row);
    /* Texts that are equal are one group, wherever they came from. */
    tsr_frame *groups =
        tsr_frame_group_agg(tsr_frame_assign(df, "k", "slice(upper(c), 0, 2)"), "k", "n = count()");
    CHECK_STATUS(tsr_frame_collect(groups, &t), TSR_OK, s);
    CHECK_I64(tsr_table_row_count(t), 11); /* null, K0 ... K9 */
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- dates beyond their types ---------------------------------------------------------------- */

TEST(frame_dates_that_leave_their_range)
{
  static const char *const formulas[] = { "d + 1",
                                          "e - 1",
                                          "cast(d, 'time')",
                                          "date_trunc('year', e)",
                                          "d == m",
                                          "m + big + big",
                                          "date_trunc('year', low)",
                                          "date_trunc('second', low)",
                                          "cast(big, 'date')" };
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  int32_t d[2] = { INT32_MAX, INT32_MAX }, e[2] = { INT32_MIN, INT32_MIN };
  int64_t big[2] = { INT64_MAX, INT64_MAX }, low[2] = { INT64_MIN, INT64_MIN };
  tsr_sharding at = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_frame *df = tsr_frame_new(s, { "d", tsr_put(s, d, TSR_I32, TSR_SHAPE(2), at) },
                                { "e", tsr_put(s, e, TSR_I32, TSR_SHAPE(2), at) },
                                { "big", tsr_put(s, big, TSR_I64, TSR_SHAPE(2), at) },
                                { "low", tsr_put(s, low, TSR_I64, TSR_SHAPE(2), at) });
  df = tsr_frame_select(df,
                        "d = cast(d, 'date'), e = cast(e, 'date'), m = cast(big - 1, 'time'), big, "
                        "low = cast(low, 'time')");
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    expect_collect(s, tsr_frame_select(df, formulas[i]), TSR_EVALUE, "row 0");
  tsr_table *t = NULL;
  tsr_frame *made = tsr_frame_select(df, "a = year(d), b = year(e), c = d - e, f = year(low), "
                                         "g = weekday(e), h = hour(low), i = second(m)");
  CHECK_STATUS(tsr_frame_collect(made, &t), TSR_OK, s);
  static const int64_t expected[] = { 5881580, -5877641, 4294967295, -290308, 2, 19, 54 };
  for (int i = 0; i < 7; i++) CHECK_I64(tsr_table_i64(t, 1, i), expected[i]);
  tsr_runtime_close(rt);
}

/* ---- times one ------------------------------------------------------------------------------- */

/* What `* 1` must give is what a one that only the rows know gives. */
/* Operands that stand twice are computed once: written out these are 2^12 comparisons and 3^12
 * terms. */
TEST(frame_operands_that_stand_twice)
{
  enum { DEEP = 12, LONGEST = 4000 };
  static const char *const forms[] = { "between(%s, 0, 9) + 0", "(0 <= %s <= 9) + 0",
                                       "((%s == 1 and a < 5) == (a < 9)) + 0" };
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  const int64_t a[] = { 1, 7, 12 };
  tsr_frame *df =
      tsr_frame_new(s, { "a", tsr_put(s, a, TSR_I64, TSR_SHAPE(3), (tsr_sharding){ 0 }) });
  for (int form = 0; form < 3; form++) {
    char text[LONGEST] = "a", more[LONGEST];
    for (int i = 0; i < DEEP; i++) {
      snprintf(more, sizeof more, forms[form], text);
      memcpy(text, more, sizeof text);
    }
    tsr_frame *sum = tsr_frame_agg(tsr_frame_assign(df, "z", text), "n = sum(z)");
    int64_t found = tsr_row_i64(tsr_frame_row(sum), "n");
    CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
    int64_t expected = 0;
    for (int r = 0; r < 3; r++) {
      int64_t z = a[r];
      for (int i = 0; i < DEEP; i++)
        z = form < 2 ? 0 <= z && z <= 9 : (z == 1 && a[r] < 5) == (a[r] < 9);
      expected += z;
    }
    CHECK_I64(found, expected);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static void check_column(tsr_frame *df, tsr_scope *s, const char *expr, const char *const *expected)
{
  tsr_table *table;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_select(df, expr), &table), TSR_OK, s);
  for (int64_t row = 0; row < tsr_table_row_count(table); row++)
    CHECK_STR(tsr_table_text(table, row, 0), expected[row]);
}

/* What the page says of rounding and of texts, beyond what its golden file has. */
TEST(frame_texts_of_numbers_and_dates)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  const double x[] = { 4503599627370497.0, -9007199254740993.0, 1e300, -0.0 };
  const float h[] = { 16777216, 123456792, 1e10F, -0.0F };
  const int32_t d[] = { -719529, 2932897, -719528, INT32_MAX };
  tsr_sharding at = tsr_on(tsr_mesh_make(rt, "x=2"), "x");
  tsr_frame *df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(4), at) },
                                { "h", tsr_put(s, h, TSR_F32, TSR_SHAPE(4), at) },
                                { "d", tsr_put(s, d, TSR_I32, TSR_SHAPE(4), at) });
  check_column(df, s, "round(x, 2) == x", (const char *const[]){ "true", "true", "true", "true" });
  check_column(df, s, "cast(x, 'text')",
               (const char *const[]){ "4503599627370497", "-9007199254740992", "1e+300", "-0" });
  check_column(df, s, "cast(-h, 'text')",
               (const char *const[]){ "-16777216", "-123456790", "-10000000000", "0" });
  check_column(df, s, "cast(-0.0, 'text')", (const char *const[]){ "-0", "-0", "-0", "-0" });
  check_column(df, s, "cast(cast(d, 'date'), 'text')",
               (const char *const[]){ "-0001-12-31", "10000-01-01", "0000-01-01",
                                      "5881580-07-11" });
  check_column(df, s, "try_cast(cast(cast(d, 'date'), 'text'), 'date') is null",
               (const char *const[]){ "true", "true", "false", "true" });
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(frame_times_one_is_the_column)
{
  enum { N = 6 };
  static const char *const as_is = "a = f * 1, b = 1.0 * f, c = f / 1, d = n * 1.0, e = n * 1, "
                                   "g = h * 1.0, k = n / 1, l = t * 1, m = v * 1.0, o = 1 * v";
  static const char *const by_rows = "a = f * one, b = one * f, c = f / one, d = n * one, "
                                     "e = n * whole, g = h * one, k = n / whole, l = t * whole, "
                                     "m = v * one, o = one * v";
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  double f[N] = { -0.0, 0, INFINITY, NAN, -1.5, 5e-324 }, one[N] = { 1, 1, 1, 1, 1, 1 };
  int64_t n[N] = { INT64_MIN, INT64_MAX, 0, -1, 7, 1 }, whole[N] = { 1, 1, 1, 1, 1, 1 };
  float h[N] = { -0.0f, 1e-45f, (float)NAN, 1, 3e38f, -2 };
  bool t[N] = { true, false, true, true, false, false };
  tsr_sharding at = tsr_on(tsr_mesh_default(rt, "data"), "data");
  tsr_frame *df = tsr_frame_new(s, { "f", tsr_put(s, f, TSR_F64, TSR_SHAPE(N), at) },
                                { "one", tsr_put(s, one, TSR_F64, TSR_SHAPE(N), at) },
                                { "n", tsr_put(s, n, TSR_I64, TSR_SHAPE(N), at) },
                                { "whole", tsr_put(s, whole, TSR_I64, TSR_SHAPE(N), at) },
                                { "h", tsr_put(s, h, TSR_F32, TSR_SHAPE(N), at) },
                                { "t", tsr_put(s, t, TSR_BOOL, TSR_SHAPE(N), at) });
  df = tsr_frame_assign(df, "v", "if(f < 0, null, f)");
  tsr_table *found = NULL, *want = NULL;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_select(df, as_is), &found), TSR_OK, s);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_select(df, by_rows), &want), TSR_OK, s);
  for (int c = 0; c < 10; c++) {
    for (int i = 0; i < N; i++) {
      CHECK_I64(tsr_table_is_null(found, i, c), tsr_table_is_null(want, i, c));
      if (tsr_table_is_null(want, i, c)) continue;
      if (c == 4 || c == 7) CHECK_I64(tsr_table_i64(found, i, c), tsr_table_i64(want, i, c));
      else CHECK_F64_BITS(tsr_table_f64(found, i, c), tsr_table_f64(want, i, c));
    }
  }
  tsr_runtime_close(rt);
}

/* ---- two columns of texts ------------------------------------------------------------------ */

enum { TEXTS = 30000, WAYS = 5, OPS = 6 };

/* Where b's texts stand among a's: in between, before all, behind all, few of them, or nowhere.
 * Empty: a null. */
static void text_at(int way, int row, int side, char *out)
{
  static const char *const other[WAYS] = { "m", "a", "z", "m", "" };
  int of = row * 7919 % TEXTS;
  if (side && row % 3) of = row * 4001 % TEXTS * 3 / 2;
  if (side && way == 3) of %= 5;
  out[0] = 0;
  if (row % 50 == 7 || (side && way == 4)) return;
  sprintf(out, "%s%d%s", side ? other[way] : "m", of, of % 4 ? "" : " and some more");
}

static bool holds(int op, const char *a, const char *b)
{
  int order = strcmp(a, b);
  const bool is[OPS] = { order == 0, order != 0, order<0, order <= 0, order> 0, order >= 0 };
  return a[0] && b[0] && is[op];
}

TEST(columns_of_texts_compare_as_their_texts_do)
{
  static const char *const ops[OPS] = { "==", "!=", "<", "<=", ">", ">=" };
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  for (int way = 0; way < WAYS; way++) {
    const char *path = test_tmp("two.csv");
    FILE *out = fopen(path, "wb");
    int64_t expected[OPS] = { 0 }, self = 0;
    fputs("a,b\n", out);
    for (int r = 0; r < TEXTS; r++) {
      char a[40], b[40];
      text_at(way, r, 0, a);
      text_at(way, r, 1, b);
      fprintf(out, "%s,%s\n", a, b);
      for (int op = 0; op < OPS; op++) expected[op] += holds(op, a, b);
      self += a[0] != 0;
    }
    fclose(out);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_read_csv(s, path, .text_nulls = true, .types = "b text");
    for (int op = 0; op < OPS; op++)
      for (int turned = 0; turned < 3; turned++) {
        char says[40];
        snprintf(says, sizeof says, turned == 2 ? "a %s a" : turned ? "b %s a" : "a %s b", ops[op]);
        bool equal = op == 0 || op == 3 || op == 5;
        /* b < a is a > b. */
        int other = op < 2 ? op : op < 4 ? op + 2 : op - 2;
        int64_t want = turned == 2 ? (equal ? self : 0) : expected[turned ? other : op];
        tsr_row *row = tsr_frame_row(tsr_frame_agg(tsr_frame_filter(df, says), "n = count()"));
        CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
        CHECK_I64(tsr_row_i64(row, "n"), want);
      }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
