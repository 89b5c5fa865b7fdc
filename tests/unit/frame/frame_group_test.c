/* Groups that direct codes do not reach: keys of floats and wide ranges, aggregates that need the
 * rows of a group together, keys that are expressions. Values at large: relations_test.c. */
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"
#include "support/frame_fixture.h"

#include <math.h>

enum { N = 24 };

/* k: 0..23; f: 0, -0, NaN, 1.5, null by turns; w: far apart, 5 values; v: k * k / 4 with nulls. */
static tsr_frame *make_frame(tsr_scope *s, tsr_sharding at)
{
  int64_t k[N], w[N];
  double z[N], v[N];
  const char *who[N];
  for (int i = 0; i < N; i++) {
    static const double values[] = { 0.0, -0.0, (double)NAN, 1.5, 7 };
    k[i] = i;
    w[i] = (i % 5 - 2) * INT64_C(4000000000000000000);
    z[i] = values[i % 5];
    v[i] = i * i / 4.0;
    who[i] = i % 7 == 3 ? NULL : i % 3 ? "b" : "a";
  }
  tsr_frame *df = tsr_frame_new(s, { "k", tsr_put(s, k, TSR_I64, TSR_SHAPE(N), at) },
                                { "w", tsr_put(s, w, TSR_I64, TSR_SHAPE(N), at) },
                                { "f", tsr_put(s, z, TSR_F64, TSR_SHAPE(N), at) },
                                { "v", tsr_put(s, v, TSR_F64, TSR_SHAPE(N), at) });
  df = tsr_frame_text_column(df, "who", who, N);
  df = tsr_frame_assign(df, "f", "if(f == 7, null, f)");
  df = tsr_frame_assign(df, "v", "if(k % 6 == 5, null, v)");
  return df;
}

TEST(group_by_floats)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    frame_check_rows(&f, tsr_frame_group_agg(f.df, "f", "n = count(), s = sum(k), l = last(k)"),
                     "0 10 105 21; nan 5 60 22; 1.5 5 65 23; - 4 46 19");
    frame_check_rows(&f, tsr_frame_group_agg(tsr_frame_filter(f.df, "k > 100"), "f", "n = count()"),
                     "");
    frame_check_rows(&f, tsr_frame_group_agg(f.df, "f desc nulls first", "n = count()"),
                     "- 4; nan 5; 1.5 5; 0 10");
  }
}

TEST(group_by_wide_keys)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    frame_check_rows(&f, tsr_frame_group_agg(tsr_frame_filter(f.df, "k < 9"), "w", "s = sum(k)"),
                     "-8000000000000000000 5; -4000000000000000000 7; 0 9; 4000000000000000000 11; "
                     "8000000000000000000 4");
    frame_check_rows(
        &f, tsr_frame_group_agg(f.df, "w asc, who", "n = count(), m = max(who)"),
        "-8000000000000000000 a 2 a; -8000000000000000000 b 2 b; -8000000000000000000 - 1 -; "
        "-4000000000000000000 b 3 b; -4000000000000000000 a 2 a; 0 b 3 b; 0 a 1 a; 0 - 1 -; "
        "4000000000000000000 - 1 -; 4000000000000000000 b 3 b; 4000000000000000000 a 1 a; "
        "8000000000000000000 b 3 b; 8000000000000000000 a 1 a");
  }
}

/* The sum of each device's rows fits i64, that of all does not. */
TEST(group_sums_of_devices_leave_i64)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    tsr_table *table = NULL;
    tsr_frame *wide = tsr_frame_assign(tsr_frame_assign(f.df, "g", "k % 2 * 0.5"), "x",
                                       "k * 0 + 1000000000000000000");
    CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(wide, "g", "s = sum(x)"), &table),
                 TSR_EVALUE, f.s);
    tsr_scope_clear(f.s);
    wide = tsr_frame_assign(wide, "x", "if(k % 4 < 2, x, -x)");
    frame_check_rows(&f, tsr_frame_group_agg(wide, "g", "s = sum(x)"), "0 0; 0.5 0");
  }
}

TEST(group_aggregates_by_rows)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    frame_check_rows(&f,
                     tsr_frame_group_agg(f.df, "odd = k % 2 == 1",
                                         "median(k), quantile(v, 0.25), first(v), "
                                         "last(v), nunique(who)"),
                     "false 11 7.75 0 121 2; true 12 9.75 0.25 - 2");
    frame_check_rows(
        &f, tsr_frame_agg(f.df, "median(v), nunique(f), x = median(k) * 2 + count(), first(who)"),
        "30.5 3 47 a");
    frame_check_rows(
        &f, tsr_frame_agg(tsr_frame_filter(f.df, "k < 0"), "median(v), nunique(f), last(k)"),
        "- 0 -");
    tsr_row *row = tsr_frame_row(
        tsr_frame_sub(tsr_frame_select(f.df, "k"), tsr_frame_agg(f.df, "k = median(k)")));
    CHECK_STATUS(tsr_row_status(row), TSR_ESHAPE, NULL);
    tsr_scope_clear(f.s);
    tsr_frame *centred =
        tsr_frame_sub(tsr_frame_select(f.df, "k"), tsr_frame_agg(f.df, "k = median(k)"));
    frame_check_rows(&f, tsr_frame_agg(centred, "sum(k), min(k)"), "0 -11.5");
    frame_check_rows(&f, tsr_frame_filter(tsr_frame_agg(f.df, "m = median(k)"), "m > 3"), "11.5");
  }
}

/* The same whatever the keys are. */
TEST(group_correlation_by_rows)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    tsr_table *direct = NULL, *rows = NULL;
    CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(f.df, "g = k % 4", "c = corr(k, v)"),
                                   &direct),
                 TSR_OK, f.s);
    CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(f.df, "g = (k % 4) * 0.5",
                                                       "c = corr(k, v), corr(v, k) * 2"),
                                   &rows),
                 TSR_OK, f.s);
    CHECK_I64(tsr_table_row_count(rows), 4);
    for (int64_t r = 0; r < 4; r++) {
      CHECK_F64_BITS(tsr_table_f64(rows, r, 1), tsr_table_f64(direct, r, 1));
      CHECK_F64_BITS(tsr_table_f64(rows, r, 2), 2 * tsr_table_f64(direct, r, 1));
    }
    frame_check_rows(&f,
                     tsr_frame_group_agg(tsr_frame_filter(f.df, "k == 3"), "f", "c = corr(k, v)"),
                     "1.5 -");
  }
}

/* Groups of rows that a join left ragged, by direct codes. */
TEST(group_of_ragged_rows)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    tsr_frame *both =
        tsr_frame_join(tsr_frame_assign(f.df, "g", "k % 3"),
                       tsr_frame_select(tsr_frame_filter(f.df, "k < 2"), "g = k, t = v"), "g");
    frame_check_rows(&f, tsr_frame_group_agg(both, "g", "n = count(), s = sum(k), t = max(t)"),
                     "0 8 84 0; 1 8 92 0.25");
    frame_check_rows(&f, tsr_frame_group_agg(tsr_frame_filter(both, "k > 10"), "g", "n = count()"),
                     "0 4; 1 4");
    frame_check_rows(&f,
                     tsr_frame_group_agg(tsr_frame_group_agg(both, "f, g", "n = count()"), "n",
                                         "c = count()"),
                     "4 1; 3 1; 2 3; 1 3");
  }
}
