/* Rows chosen, numbered, ordered and placed: limits, tails, samples, indices, sorts, and what
 * follows them, the same on every mesh. */
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"
#include "support/frame_fixture.h"

#include <math.h>
#include <stdio.h>

enum { N = 103 };

/* k: 0..102; v: 50 values, NaN, -0 and nulls by who; g: k % 7; who: five words and null. */
static tsr_frame *make_frame(tsr_scope *s, tsr_sharding at)
{
  static const char *const words[] = { "pear", "Apple", "apple", "apples", "" };
  int64_t k[N], g[N];
  double v[N];
  const char *who[N];
  for (int i = 0; i < N; i++) {
    k[i] = i;
    g[i] = i % 7;
    v[i] = i % 10 == 3 ? (double)NAN : i % 10 == 7 ? -0.0 : (i * 37 % 50 - 25) / 4.0;
    who[i] = i % 6 == 5 ? NULL : words[i % 6];
  }
  tsr_frame *df = tsr_frame_new(s, { "k", tsr_put(s, k, TSR_I64, TSR_SHAPE(N), at) },
                                { "v", tsr_put(s, v, TSR_F64, TSR_SHAPE(N), at) },
                                { "g", tsr_put(s, g, TSR_I64, TSR_SHAPE(N), at) });
  return tsr_frame_text_column(df, "who", who, N);
}

TEST(rows_limits_and_tails)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    tsr_frame *some = tsr_frame_filter(f.df, "k % 10 == 1");
    frame_check_column(&f, tsr_frame_limit(f.df, 40, 5), "k", "40 41 42 43 44");
    frame_check_column(&f, tsr_frame_limit(f.df, 100, 50), "k", "100 101 102");
    frame_check_column(&f, tsr_frame_limit(f.df, 500, 50), "k", "");
    frame_check_column(
        &f, tsr_frame_limit(f.df, 1, INT64_MAX), "g",
        "1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 "
        "5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 "
        "5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4 5 6 0 1 2 3 4");
    frame_check_column(&f, tsr_frame_tail(f.df, 3), "k", "100 101 102");
    frame_check_column(&f, tsr_frame_tail(f.df, 0), "k", "");
    frame_check_column(&f, tsr_frame_limit(some, 2, 3), "k", "21 31 41");
    frame_check_column(&f, tsr_frame_tail(some, 2), "k", "91 101");
    frame_check_column(&f, tsr_frame_tail(some, 200), "k", "1 11 21 31 41 51 61 71 81 91 101");
    frame_check_column(&f, tsr_frame_tail(tsr_frame_limit(some, 2, 5), 2), "k", "51 61");
    frame_check_column(&f, tsr_frame_filter(tsr_frame_tail(some, 5), "g > 3"), "k", "61 81");
    frame_check_column(&f, tsr_frame_agg(tsr_frame_tail(some, 2), "n = count(), k = sum(k)"), "k",
                       "192");
  }
}

TEST(rows_numbered)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    tsr_frame *some = tsr_frame_with_row_index(tsr_frame_filter(f.df, "k % 20 == 1"), "row");
    frame_check_column(&f, tsr_frame_filter(tsr_frame_with_row_index(f.df, "row"), "row != k"),
                       "row", "");
    CHECK_STR(tsr_frame_column_name(some, 0), "row");
    frame_check_column(&f, some, "row", "0 1 2 3 4 5");
    frame_check_column(&f, some, "k", "1 21 41 61 81 101");
    frame_check_column(&f, tsr_frame_filter(some, "row % 2 == 1"), "k", "21 61 101");
    frame_check_column(&f, tsr_frame_select(tsr_frame_filter(some, "row > 3"), "x = row * 10 + g"),
                       "x", "44 53");
    frame_check_column(&f, tsr_frame_with_row_index(tsr_frame_tail(some, 2), "again"), "again",
                       "0 1");
    frame_check_column(&f, tsr_frame_assign(some, "c", "7"), "c", "7 7 7 7 7 7");
  }
}

TEST(rows_sampled)
{
  frame_fixture f;
  char first[3][1000];
  ON_EACH_MESH(f, make_frame)
  {
    tsr_frame *some = tsr_frame_with_row_index(tsr_frame_filter(f.df, "k % 2 == 1"), "row");
    tsr_frame *const frames[] = { tsr_frame_sample(f.df, .fraction = 0.2, .seed = 5),
                                  tsr_frame_sample(tsr_frame_filter(f.df, "g > 1"), .rows = 9),
                                  tsr_frame_sample(some, .rows = 7, .seed = 1) };
    for (int i = 0; i < 3; i++) {
      tsr_table *table = NULL;
      CHECK_STATUS(tsr_frame_collect(tsr_frame_select(frames[i], "k"), &table), TSR_OK, f.s);
      char text[1000] = "";
      for (int64_t r = 0; r < tsr_table_row_count(table); r++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%lld ",
                 (long long)tsr_table_i64(table, r, 0));
      if (i == 0) CHECK(tsr_table_row_count(table) > 8 && tsr_table_row_count(table) < 35);
      else CHECK_I64(tsr_table_row_count(table), i == 1 ? 9 : 7);
      if (mesh) CHECK_STR(text, first[i]);
      else strcpy(first[i], text);
    }
    int64_t rows;
    CHECK_STATUS(tsr_frame_row_count(tsr_frame_sample(f.df, .rows = 1000), &rows), TSR_OK, f.s);
    CHECK_I64(rows, N);
    CHECK_STATUS(tsr_frame_row_count(tsr_frame_sample(f.df, .rows = 0), &rows), TSR_OK, f.s);
    CHECK_I64(rows, 0);
    CHECK_STATUS(tsr_frame_row_count(tsr_frame_sample(f.df, .fraction = 1), &rows), TSR_OK, f.s);
    CHECK_I64(rows, N);
  }
}
