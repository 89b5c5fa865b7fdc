/* Sorted frames: keys of every type, ties, nulls and NaN, and what follows a sort. */
#include "tessera.h"

#include "frame/plan.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 12 };

struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_frame *df;
};

static const char *const meshes[] = { "data=1", "data=5", "data=8", "data=2,more=2" };
enum { MESHES = 4 };

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

static void open_fixture(struct fixture *f, int mesh)
{
  f->rt = tsr_runtime_open("cpu:8");
  f->s = tsr_scope_open(f->rt);
  f->df = make_frame(f->s, tsr_on(tsr_mesh_make(f->rt, meshes[mesh]), "data"));
  CHECK_STR(tsr_message(f->s), "");
}

static void check_rows(struct fixture *f, tsr_frame *df, const char *expected)
{
  tsr_table *table = NULL;
  char text[1000] = "";
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, f->s);
  int column = tsr_table_find(table, "k");
  for (int64_t i = 0; i < tsr_table_rows(table); i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", i ? " " : "",
             (long long)tsr_table_i64(table, i, column));
  CHECK_STR(text, expected);
}

#define ON_EACH_MESH(f)                                                 \
  for (int mesh = 0; mesh < MESHES && (open_fixture(&(f), mesh), true); \
       tsr_runtime_close((f).rt), mesh++)

TEST(sort_by_each_type)
{
  struct fixture f;
  ON_EACH_MESH(f)
  {
    check_rows(&f, tsr_frame_sort(f.df, "i"), "1 4 10 3 6 7 11 9 0 2 8 5");
    check_rows(&f, tsr_frame_sort(f.df, "i desc"), "5 0 2 8 9 11 3 6 7 1 4 10");
    check_rows(&f, tsr_frame_sort(f.df, "v"), "6 5 10 2 3 11 0 7 9 4 1 8");
    check_rows(&f, tsr_frame_sort(f.df, "v desc"), "1 8 4 9 0 7 11 2 3 5 10 6");
    check_rows(&f, tsr_frame_sort(f.df, "b, k desc"), "11 9 7 5 4 1 10 8 6 3 2 0");
    check_rows(&f, tsr_frame_sort(f.df, "who"), "3 8 11 10 1 5 0 9 4 7 2 6");
    check_rows(&f, tsr_frame_sort(f.df, "who desc"), "7 4 0 9 1 5 10 11 8 3 2 6");
    check_rows(&f, tsr_frame_sort(f.df, "who asc nulls first"), "2 6 3 8 11 10 1 5 0 9 4 7");
    check_rows(&f, tsr_frame_sort(f.df, "who desc nulls first, k"), "2 6 7 4 0 9 1 5 10 11 8 3");
  }
}

TEST(sort_by_expressions)
{
  struct fixture f;
  ON_EACH_MESH(f)
  {
    check_rows(&f, tsr_frame_sort(f.df, "k % 3, abs(i) desc"), "0 9 3 6 1 4 10 7 5 2 8 11");
    check_rows(&f, tsr_frame_sort(f.df, "if(k < 3, null, i) nulls first, k desc"),
               "2 1 0 10 4 7 6 3 11 9 8 5");
    check_rows(&f, tsr_frame_sort(f.df, "null"), "0 1 2 3 4 5 6 7 8 9 10 11");
  }
}

TEST(sort_and_what_follows)
{
  struct fixture f;
  ON_EACH_MESH(f)
  {
    tsr_frame *sorted = tsr_frame_sort(tsr_frame_filter(f.df, "b or i > 3"), "i desc, k desc");
    check_rows(&f, sorted, "5 8 2 0 6 3 10");
    check_rows(&f, tsr_frame_head(sorted, 3), "5 8 2");
    check_rows(&f, tsr_frame_tail(sorted, 2), "3 10");
    check_rows(&f, tsr_frame_filter(tsr_frame_limit(sorted, 1, 4), "k < 7"), "2 0 6");
    check_rows(&f, tsr_frame_sort(sorted, "b"), "5 8 2 0 6 3 10");
    check_rows(&f, tsr_frame_sort(sorted, "who"), "3 8 10 5 0 2 6");
    check_rows(&f, tsr_frame_sort(tsr_frame_with_row_index(sorted, "row"), "row desc"),
               "10 3 6 0 2 8 5");
    check_rows(&f, tsr_frame_add(tsr_frame_select(sorted, "k"), tsr_frame_select(sorted, "k = i")),
               "12 13 7 5 6 3 7");
    check_rows(&f, tsr_frame_agg(sorted, "k = sum(k)"), "34");
    check_rows(&f, tsr_frame_group_agg(sorted, "b", "k = sum(k)"), "5 29");
    check_rows(&f, tsr_frame_group_agg(f.df, "i desc", "k = sum(k)"), "5 10 9 11 16 15");
    check_rows(&f, tsr_frame_group_agg(f.df, "odd = k % 2 == 1, b desc", "k = max(k)"),
               "10 3 11 4");
    tsr_array *k = tsr_frame_column(sorted, "k");
    int64_t values[7];
    CHECK_STATUS(tsr_read(k, values, sizeof values), TSR_OK, f.s);
    CHECK_I64(values[0], 5);
    CHECK_I64(values[6], 10);
    int64_t rows;
    CHECK_STATUS(tsr_frame_rows(sorted, &rows), TSR_OK, f.s);
    CHECK_I64(rows, 7);
  }
}

/* Columns that a later terminal needs are made then, and lie as the others. */
TEST(sort_makes_columns_as_they_are_needed)
{
  struct fixture f;
  ON_EACH_MESH(f)
  {
    tsr_frame *sorted = tsr_frame_sort(f.df, "i");
    check_rows(&f, tsr_frame_select(sorted, "k"), "1 4 10 3 6 7 11 9 0 2 8 5");
    CHECK(sorted->source->col[0].values && !sorted->source->col[2].values);
    check_rows(&f, tsr_frame_filter(sorted, "v > 0"), "4 7 11 9 0");
  }
}
