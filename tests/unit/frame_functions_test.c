/* What the functions of expressions give at their corners, on meshes of several sizes; the golden
 * file compares them at large (expr_golden_test.c). */
#include "tessera.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>

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
    CHECK_I64(tsr_table_rows(t), 4);
    for (int g = 0; g < 3; g++) {
      CHECK(fabs(tsr_table_f64(t, g, 1) - expected_corr(g)) < 4e-15);
      CHECK(isnan(tsr_table_f64(t, g, 2)) && !tsr_table_is_null(t, g, 2)); /* constant */
    }
    CHECK(isnan(tsr_table_f64(t, 3, 1)) && !tsr_table_is_null(t, 3, 1)); /* a NaN among them */
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
