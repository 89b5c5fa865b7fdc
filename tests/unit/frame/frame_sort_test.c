/* Sorted frames: keys of every type, ties, nulls and NaN, and what follows a sort. */
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"
#include "support/frame_fixture.h"

#include <math.h>
#include <stdlib.h>

enum { N = 12 };

static tsr_frame *make_frame(tsr_scope *s, tsr_sharding at)
{
  int64_t k[N] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
  int32_t i[N] = { 5, -3, 5, 0, -3, 7, 0, 0, 5, 2, -3, 1 };
  double v[N] = { 1.5,         (double)NAN, -0.0, 0.0, (double)INFINITY, -2, (double)-INFINITY, 1.5,
                  (double)NAN, 3,           -2,   0.5 };
  bool b[N] = { true, false, true, true, false, false, true, false, true, false, true, false };
  const char *who[N] = { "bob",
                         "ann",
                         NULL,
                         "",
                         "bobby",
                         "ann",
                         NULL,
                         "zo\xc3\xa9",
                         "Bob",
                         "bob",
                         "a much longer name",
                         "a much longer nam" };
  tsr_frame *df = tsr_frame_new(s, { "k", tsr_put(s, k, TSR_I64, TSR_SHAPE(N), at) },
                                { "i", tsr_put(s, i, TSR_I32, TSR_SHAPE(N), at) },
                                { "v", tsr_put(s, v, TSR_F64, TSR_SHAPE(N), at) },
                                { "b", tsr_put(s, b, TSR_BOOL, TSR_SHAPE(N), at) });
  return tsr_frame_text_column(df, "who", who, N);
}

TEST(sort_by_each_type)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    frame_check_column(&f, tsr_frame_sort(f.df, "i"), "k", "1 4 10 3 6 7 11 9 0 2 8 5");
    frame_check_column(&f, tsr_frame_sort(f.df, "i desc"), "k", "5 0 2 8 9 11 3 6 7 1 4 10");
    frame_check_column(&f, tsr_frame_sort(f.df, "v"), "k", "6 5 10 2 3 11 0 7 9 4 1 8");
    frame_check_column(&f, tsr_frame_sort(f.df, "v desc"), "k", "1 8 4 9 0 7 11 2 3 5 10 6");
    frame_check_column(&f, tsr_frame_sort(f.df, "b, k desc"), "k", "11 9 7 5 4 1 10 8 6 3 2 0");
    frame_check_column(&f, tsr_frame_sort(f.df, "who"), "k", "3 8 11 10 1 5 0 9 4 7 2 6");
    frame_check_column(&f, tsr_frame_sort(f.df, "who desc"), "k", "7 4 0 9 1 5 10 11 8 3 2 6");
    frame_check_column(&f, tsr_frame_sort(f.df, "who asc nulls first"), "k",
                       "2 6 3 8 11 10 1 5 0 9 4 7");
    frame_check_column(&f, tsr_frame_sort(f.df, "who desc nulls first, k"), "k",
                       "2 6 7 4 0 9 1 5 10 11 8 3");
  }
}

TEST(sort_by_expressions)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    frame_check_column(&f, tsr_frame_sort(f.df, "k % 3, abs(i) desc"), "k",
                       "0 9 3 6 1 4 10 7 5 2 8 11");
    frame_check_column(&f, tsr_frame_sort(f.df, "if(k < 3, null, i) nulls first, k desc"), "k",
                       "2 1 0 10 4 7 6 3 11 9 8 5");
    frame_check_column(&f, tsr_frame_sort(f.df, "null"), "k", "0 1 2 3 4 5 6 7 8 9 10 11");
  }
}

TEST(sort_and_what_follows)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    tsr_frame *sorted = tsr_frame_sort(tsr_frame_filter(f.df, "b or i > 3"), "i desc, k desc");
    frame_check_column(&f, sorted, "k", "5 8 2 0 6 3 10");
    frame_check_column(&f, tsr_frame_head(sorted, 3), "k", "5 8 2");
    frame_check_column(&f, tsr_frame_tail(sorted, 2), "k", "3 10");
    frame_check_column(&f, tsr_frame_filter(tsr_frame_limit(sorted, 1, 4), "k < 7"), "k", "2 0 6");
    frame_check_column(&f, tsr_frame_sort(sorted, "b"), "k", "5 8 2 0 6 3 10");
    frame_check_column(&f, tsr_frame_sort(sorted, "who"), "k", "3 8 10 5 0 2 6");
    frame_check_column(&f, tsr_frame_sort(tsr_frame_with_row_index(sorted, "row"), "row desc"), "k",
                       "10 3 6 0 2 8 5");
    frame_check_column(
        &f, tsr_frame_add(tsr_frame_select(sorted, "k"), tsr_frame_select(sorted, "k = i")), "k",
        "12 13 7 5 6 3 7");
    frame_check_column(&f, tsr_frame_agg(sorted, "k = sum(k)"), "k", "34");
    frame_check_column(&f, tsr_frame_group_agg(sorted, "b", "k = sum(k)"), "k", "5 29");
    frame_check_column(&f, tsr_frame_group_agg(f.df, "i desc", "k = sum(k)"), "k",
                       "5 10 9 11 16 15");
    frame_check_column(&f, tsr_frame_group_agg(f.df, "odd = k % 2 == 1, b desc", "k = max(k)"), "k",
                       "10 3 11 4");
    tsr_array *k = tsr_frame_column(sorted, "k");
    int64_t values[7];
    CHECK_STATUS(tsr_read(k, values, sizeof values), TSR_OK, f.s);
    CHECK_I64(values[0], 5);
    CHECK_I64(values[6], 10);
    int64_t rows;
    CHECK_STATUS(tsr_frame_row_count(sorted, &rows), TSR_OK, f.s);
    CHECK_I64(rows, 7);
  }
}

/* Columns that a later terminal needs are made then, and lie as the others. */
TEST(sort_makes_columns_as_they_are_needed)
{
  frame_fixture f;
  ON_EACH_MESH(f, make_frame)
  {
    tsr_frame *sorted = tsr_frame_sort(f.df, "i");
    frame_check_column(&f, tsr_frame_select(sorted, "k"), "k", "1 4 10 3 6 7 11 9 0 2 8 5");
    CHECK(sorted->source->col[0].values && !sorted->source->col[2].values);
    frame_check_column(&f, tsr_frame_filter(sorted, "v > 0"), "k", "4 7 11 9 0");
  }
}
