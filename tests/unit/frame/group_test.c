/* Groups: order, null keys, ranges, dates, and errors. */
#include "support/first_axis.h"
#include "tessera.h"

#include "harness.h"

#include <stdio.h>
#include <string.h>

struct fixture {
  tsr_runtime *rt;
  tsr_mesh *mesh;
  tsr_scope *s;
};

static void open_fixture(struct fixture *f)
{
  f->rt = tsr_runtime_open("cpu:8");
  f->mesh = tsr_mesh_make(f->rt, "data=8");
  f->s = tsr_scope_open(f->rt);
}

static tsr_frame *csv(struct fixture *f, const char *text)
{
  const char *path = test_tmp("groups.csv");
  test_write(path, text, strlen(text));
  return tsr_frame_read_csv(f->s, path, .on = first_axis(f->mesh));
}

static const char *const people = "city,ok,n,day,x\n"
                                  "Rome,true,5,2013-01-31,1.5\n"
                                  "Bonn,false,-2,2012-02-29,2\n"
                                  "Rome,,5,2013-01-31,NA\n"
                                  "Kyiv,true,NA,2013-02-01,4\n"
                                  "Bonn,false,-2,NA,8\n"
                                  "Rome,true,1,2012-02-29,NA\n";

TEST(group_order_is_that_of_first_rows)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df =
      tsr_frame_group_agg(csv(&f, people), "city", "n = count(), sum(n), mean(x), max(x)");
  CHECK_STR(tsr_frame_text(df), "┌──────┬──────┬────────┬─────────┬────────┐\n"
                                "│ city │    n │ sum(n) │ mean(x) │ max(x) │\n"
                                "│ text │  i64 │    i64 │     f64 │    f64 │\n"
                                "├──────┼──────┼────────┼─────────┼────────┤\n"
                                "│ Rome │    3 │     11 │     1.5 │    1.5 │\n"
                                "│ Bonn │    2 │     -4 │       5 │      8 │\n"
                                "│ Kyiv │    1 │      0 │       4 │      4 │\n"
                                "└──────┴──────┴────────┴─────────┴────────┘\n"
                                "3 rows, 5 columns\n");
  df = tsr_frame_filter(csv(&f, people), "city != 'Rome'");
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(df, "city", "count()"), &table), TSR_OK, f.s);
  CHECK_I64(tsr_table_row_count(table), 2);
  CHECK_STR(tsr_table_text(table, 0, 0), "Bonn");
  CHECK_STR(tsr_table_text(table, 1, 0), "Kyiv");
  tsr_runtime_close(f.rt);
}

TEST(group_null_keys_are_a_group)
{
  struct fixture f;
  open_fixture(&f);
  CHECK_STR(tsr_frame_text(tsr_frame_group_agg(csv(&f, people), "ok, n", "x = sum(x)")),
            "┌───────┬──────┬──────┐\n"
            "│ ok    │    n │    x │\n"
            "│ bool  │  i64 │  f64 │\n"
            "├───────┼──────┼──────┤\n"
            "│ true  │    5 │  1.5 │\n"
            "│ false │   -2 │   10 │\n"
            "│ null  │    5 │    0 │\n"
            "│ true  │ null │    4 │\n"
            "│ true  │    1 │    0 │\n"
            "└───────┴──────┴──────┘\n"
            "5 rows, 3 columns\n");
  CHECK_STR(tsr_frame_text(tsr_frame_group_agg(csv(&f, people), "day", "n = count(), any(ok)")),
            "┌────────────┬──────┬─────────┐\n"
            "│ day        │    n │ any(ok) │\n"
            "│ date       │  i64 │ bool    │\n"
            "├────────────┼──────┼─────────┤\n"
            "│ 2013-01-31 │    2 │ true    │\n"
            "│ 2012-02-29 │    2 │ true    │\n"
            "│ 2013-02-01 │    1 │ true    │\n"
            "│ null       │    1 │ false   │\n"
            "└────────────┴──────┴─────────┘\n"
            "4 rows, 3 columns\n");
  tsr_runtime_close(f.rt);
}

TEST(group_arithmetic_and_nulls_of_groups)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df =
      tsr_frame_group_agg(csv(&f, people), "city",
                          "max(x) - min(x), r = sum(n) / count(n), var(x), k = count(x)");
  CHECK_STR(tsr_frame_text(df), "┌──────┬─────────────────┬──────────┬────────┬──────┐\n"
                                "│ city │ max(x) - min(x) │        r │ var(x) │    k │\n"
                                "│ text │             f64 │      f64 │    f64 │  i64 │\n"
                                "├──────┼─────────────────┼──────────┼────────┼──────┤\n"
                                "│ Rome │               0 │ 3.666667 │   null │    1 │\n"
                                "│ Bonn │               6 │       -2 │     18 │    2 │\n"
                                "│ Kyiv │               0 │      nan │   null │    1 │\n"
                                "└──────┴─────────────────┴──────────┴────────┴──────┘\n"
                                "3 rows, 5 columns\n");
  tsr_runtime_close(f.rt);
}

TEST(group_ranges)
{
  struct fixture f;
  open_fixture(&f);
  int64_t wide[4] = { 0, 65536, 7, 65536 }, huge[4] = { INT64_MIN, INT64_MAX, 0, INT64_MAX };
  int32_t far[4] = { INT32_MIN, INT32_MIN + 1, INT32_MIN, INT32_MIN + 65535 };
  tsr_sharding at = tsr_on(f.mesh, "data");
  tsr_frame *df = tsr_frame_new(f.s, { "wide", tsr_put(f.s, wide, TSR_I64, TSR_SHAPE(4), at) },
                                { "huge", tsr_put(f.s, huge, TSR_I64, TSR_SHAPE(4), at) },
                                { "far", tsr_put(f.s, far, TSR_I32, TSR_SHAPE(4), at) });
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(df, "wide", "n = count()"), &table), TSR_OK,
               f.s);
  CHECK_I64(tsr_table_row_count(table), 3);
  CHECK_I64(tsr_table_i64(table, 1, 0), 65536);
  CHECK_I64(tsr_table_i64(table, 1, 1), 2);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(df, "huge, wide", "n = count()"), &table),
               TSR_OK, f.s);
  CHECK_I64(tsr_table_row_count(table), 3);
  CHECK_I64(tsr_table_i64(table, 1, 0), INT64_MAX);
  CHECK_I64(tsr_table_i64(table, 1, 2), 2);
  /* What a filter dropped does not count. */
  tsr_frame *low = tsr_frame_filter(df, "wide < 10");
  CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(low, "wide", "count()"), &table), TSR_OK, f.s);
  CHECK_I64(tsr_table_row_count(table), 2);
  CHECK_I64(tsr_table_i64(table, 1, 0), 7);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(df, "far", "n = count()"), &table), TSR_OK,
               f.s);
  CHECK_I64(tsr_table_row_count(table), 3);
  CHECK_I64(tsr_table_i64(table, 2, 0), INT32_MIN + 65535);
  CHECK_I64(tsr_table_i64(table, 0, 1), 2);
  tsr_runtime_close(f.rt);
}

/* The same bits on every mesh: values of all sizes, cancelling. */
TEST(group_sums_do_not_depend_on_the_mesh)
{
  enum { ROWS = 5000 };
  static double x[ROWS];
  static int64_t key[ROWS];
  double expected[11] = { 0 };
  test_rng rng = test_seeded(5);
  for (int i = 0; i < ROWS; i++) {
    x[i] = test_any_f64(&rng) / 1e10;
    key[i] = test_range(&rng, -5, 5);
  }
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  static const char *const meshes[] = { "data=1", "data=2", "data=3", "data=7", "data=8" };
  for (int m = 0; m < 5; m++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_sharding at = tsr_on(tsr_mesh_make(rt, meshes[m]), "data");
    tsr_frame *df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(ROWS), at) },
                                  { "key", tsr_put(s, key, TSR_I64, TSR_SHAPE(ROWS), at) });
    tsr_table *table = NULL;
    CHECK_STATUS(tsr_frame_collect(tsr_frame_group_agg(df, "key", "sum(x), mean(x)"), &table),
                 TSR_OK, s);
    CHECK_I64(tsr_table_row_count(table), 11);
    for (int g = 0; g < 11; g++) {
      double sum = tsr_table_f64(table, g, 1);
      if (m) CHECK_F64_BITS(sum, expected[g]);
      expected[g] = sum;
    }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
