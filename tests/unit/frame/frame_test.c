/* Frames: what is refused, what is computed in how many passes, files, nulls, overflow, and what
 * follows an aggregate. The law test compares values at large; here are the corners.
 * Guards the devices. */
#include "support/first_axis.h"
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 100 };

struct fixture {
  tsr_runtime *rt;
  tsr_mesh *mesh;
  tsr_scope *s;
  tsr_frame *df; /* k: 0..99, v: k / 4, g: k % 7, who: ann bob null, all over 8 devices */
};

static tsr_frame *make_frame(tsr_scope *s, tsr_sharding at)
{
  int64_t k[N], g[N];
  double v[N];
  const char *who[N];
  for (int i = 0; i < N; i++) {
    k[i] = i;
    g[i] = i % 7;
    v[i] = i / 4.0;
    who[i] = i % 3 == 0 ? "ann" : i % 3 == 1 ? "bob" : NULL;
  }
  tsr_frame *df = tsr_frame_new(s, { "k", tsr_put(s, k, TSR_I64, TSR_SHAPE(N), at) },
                                { "v", tsr_put(s, v, TSR_F64, TSR_SHAPE(N), at) },
                                { "g", tsr_put(s, g, TSR_I64, TSR_SHAPE(N), at) });
  return tsr_frame_text_column(df, "who", who, N);
}

static void open_fixture(struct fixture *f)
{
  f->rt = tsr_runtime_open("cpu:8");
  f->mesh = tsr_mesh_make(f->rt, "data=8");
  f->s = tsr_scope_open(f->rt);
  f->df = make_frame(f->s, tsr_on(f->mesh, "data"));
  CHECK_STR(tsr_message(f->s), "");
}

static void close_fixture(struct fixture *f)
{
  tsr_runtime_close(f->rt);
}

/* Checks that a scope has an error whose text has `part`, and forgets it. */
static void expect(tsr_scope *s, tsr_status status, const char *part)
{
  CHECK_STATUS(tsr_scope_status(s), status, s);
  CHECK_STR_HAS(tsr_message(s), part);
  tsr_scope_clear(s);
}

static double number(tsr_frame *df, const char *name)
{
  tsr_row *row = tsr_frame_row(df);
  CHECK_STATUS(tsr_row_status(row), TSR_OK, df->node.scope);
  return tsr_row_f64(row, name);
}

/* ---- making ------------------------------------------------------------------------------ */

TEST(frame_new_refuses)
{
  struct fixture f;
  open_fixture(&f);
  double data[6] = { 0 };
  tsr_array *x = tsr_put(f.s, data, TSR_F64, TSR_SHAPE(6), (tsr_sharding){ 0 });
  tsr_array *y = tsr_put(f.s, data, TSR_F64, TSR_SHAPE(5), (tsr_sharding){ 0 });
  tsr_array *z = tsr_put(f.s, data, TSR_F64, TSR_SHAPE(2, 3), (tsr_sharding){ 0 });
  tsr_frame_new(f.s, { "a", x }, { "b", y });
  expect(f.s, TSR_ESHAPE, "column 'b' has 5 rows, expected 6 as in 'a'");
  tsr_frame_new(f.s, { "a", z });
  expect(f.s, TSR_ESHAPE, "column 'a' has rank 2, expected 1");
  tsr_frame_new(f.s, { "a", x }, { "a", x });
  expect(f.s, TSR_ECOLUMN, "two columns are named 'a'");
  tsr_frame_new(f.s, { NULL, x });
  expect(f.s, TSR_ECOLUMN, "a column's name is NULL");
  tsr_frame_new(f.s, { "", x });
  expect(f.s, TSR_ECOLUMN, "a column's name is empty");
  tsr_frame_new(f.s, { "\xff", x });
  expect(f.s, TSR_ECOLUMN, "not UTF-8");
  tsr_frame_new(f.s, { "a", NULL });
  expect(f.s, TSR_EARG, "the array of column 'a' is NULL");
  tsr_frame_new_at(f.s, NULL, 0, TSR_HERE);
  expect(f.s, TSR_ECOLUMN, "no columns");
  const char *texts[2] = { "x", "\xc3" };
  tsr_frame_text_column(f.df, "t", texts, 2);
  expect(f.s, TSR_ESHAPE, "2 texts, expected 100");
  tsr_frame_text_column(
      tsr_frame_new(f.s, { "a", tsr_put(f.s, data, TSR_F64, TSR_SHAPE(2), (tsr_sharding){ 0 }) }),
      "t", texts, 2);
  expect(f.s, TSR_EPARSE, "text 1 is not UTF-8");
  close_fixture(&f);
}

TEST(frame_inert_goes_on_inert)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *bad = tsr_frame_filter(f.df, "nothing > 1");
  CHECK(tsr_frame_is_inert(bad));
  CHECK_STR_HAS(tsr_message(f.s), "no column 'nothing'");
  CHECK_STR_HAS(tsr_message(f.s), "frame_test.c:");
  tsr_frame *all[] = {
    tsr_frame_filter(bad, "k > 1"),
    tsr_frame_assign(bad, "z", "k"),
    tsr_frame_select(bad, "k"),
    tsr_frame_head(bad, 1),
    tsr_frame_agg(bad, "sum(k)"),
    tsr_frame_group_agg(bad, "k", "sum(v)"),
    tsr_frame_add(bad, 1),
    tsr_frame_add(f.df, bad),
    tsr_frame_mean(bad),
    tsr_frame_text_column(bad, "x", NULL, 0),
  };
  int64_t rows = 7;
  tsr_table *table = NULL;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    CHECK(tsr_frame_is_inert(all[i]));
    CHECK_I64(tsr_frame_column_count(all[i]), 0);
    CHECK_STATUS(tsr_frame_collect(all[i], &table), TSR_ECOLUMN, NULL);
    CHECK_STATUS(tsr_frame_row_count(all[i], &rows), TSR_ECOLUMN, NULL);
    CHECK_STR_HAS(tsr_frame_text(all[i]), "nothing");
    CHECK_STR_HAS(tsr_frame_explain(all[i]), "nothing");
    CHECK_STR_HAS(tsr_frame_devices(all[i]), "nothing");
    CHECK_STR_HAS(tsr_frame_schema(all[i]), "nothing");
    CHECK(tsr_is_inert(tsr_frame_column(all[i], "k")));
    CHECK_STATUS(tsr_row_status(tsr_frame_row(all[i])), TSR_ECOLUMN, NULL);
  }
  CHECK(!table && rows == 7);
  tsr_scope_clear(f.s);
  CHECK_F64_BITS(number(tsr_frame_agg(f.df, "sum(k)"), "sum(k)"), 4950);
  close_fixture(&f);
}

TEST(frame_null_arguments)
{
  struct fixture f;
  open_fixture(&f);
  int64_t rows;
  tsr_table *table = NULL;
  CHECK(tsr_frame_is_inert(tsr_frame_filter(NULL, "a")));
  CHECK(tsr_frame_is_inert(tsr_frame_add(NULL, 1)));
  CHECK(tsr_frame_is_inert(tsr_frame_text_column(NULL, "a", NULL, 0)));
  CHECK(tsr_frame_is_inert(tsr_frame_new(NULL, { "a", NULL })));
  CHECK(tsr_frame_is_inert(tsr_frame_read_csv(NULL, "a.csv")));
  CHECK_STATUS(tsr_frame_row_count(NULL, &rows), TSR_EARG, NULL);
  CHECK_STATUS(tsr_frame_collect(NULL, &table), TSR_EARG, NULL);
  CHECK_STATUS(tsr_frame_print(NULL, stdout), TSR_EARG, NULL);
  CHECK(tsr_frame_text(NULL) && tsr_frame_explain(NULL) && tsr_frame_schema(NULL));
  CHECK(tsr_frame_devices(NULL) != NULL);
  CHECK_STATUS(tsr_row_status(tsr_frame_row(NULL)), TSR_EARG, NULL);
  CHECK(tsr_row_is_null(NULL, "a") && isnan(tsr_row_f64(NULL, "a")) && !tsr_row_text(NULL, "a"));
  CHECK(tsr_table_row_count(NULL) == 0 && tsr_table_column_count(NULL) == 0 &&
        !tsr_table_name(NULL, 0));
  CHECK(tsr_table_is_null(NULL, 0, 0) && tsr_table_find(NULL, "a") == -1);
  tsr_frame *missing = NULL;
  expect(f.s, TSR_EARG, "tsr_frame_filter: the frame is NULL; give one");
  CHECK(tsr_frame_is_inert(tsr_frame_join(f.df, missing, "k")));
  expect(f.s, TSR_EARG, "tsr_frame_join: frame 2 of 2 is NULL; check the call");
  CHECK(tsr_frame_is_inert(tsr_frame_join(missing, f.df, "k")));
  expect(f.s, TSR_EARG, "tsr_frame_join: frame 1 of 2 is NULL");
  CHECK(tsr_frame_is_inert(tsr_frame_concat(f.df, f.df, missing)));
  expect(f.s, TSR_EARG, "tsr_frame_concat: frame 3 of 3 is NULL");
  CHECK(tsr_frame_is_inert(tsr_frame_concat(missing, f.df)));
  expect(f.s, TSR_EARG, "tsr_frame_concat: frame 1 of 2 is NULL");
  CHECK(tsr_frame_is_inert(tsr_frame_add(f.df, missing)));
  expect(f.s, TSR_EARG, "tsr_frame_add: frame 2 of 2 is NULL");
  CHECK(tsr_frame_is_inert(tsr_frame_sub(missing, f.df)));
  expect(f.s, TSR_EARG, "tsr_frame_sub: frame 1 of 2 is NULL");
  CHECK(tsr_frame_is_inert(tsr_frame_div(f.df, missing)));
  expect(f.s, TSR_EARG, "tsr_frame_div: frame 2 of 2 is NULL");
  CHECK(tsr_frame_is_inert(tsr_frame_concat(missing, missing)));
  expect(f.s, TSR_EARG, "tsr_frame_concat: frame 1 of 2 is NULL");
  tsr_frame_filter_at(f.df, NULL, NULL);
  expect(f.s, TSR_EARG, "the expression is NULL");
  tsr_frame_filter(f.df, NULL);
  expect(f.s, TSR_EARG, "the expression is NULL");
  tsr_frame_assign(f.df, NULL, "k");
  expect(f.s, TSR_ECOLUMN, "a column's name is NULL");
  tsr_frame_group_agg(f.df, NULL, "count()");
  expect(f.s, TSR_EARG, "the keys are NULL");
  CHECK_STATUS(tsr_frame_row_count(f.df, NULL), TSR_EARG, NULL);
  tsr_scope_clear(f.s);
  CHECK_STATUS(tsr_frame_collect(f.df, NULL), TSR_EARG, NULL);
  tsr_scope_clear(f.s);
  CHECK(tsr_is_inert(tsr_frame_column(f.df, NULL)));
  tsr_scope_clear(f.s);
  CHECK_STATUS(tsr_frame_print(f.df, NULL), TSR_EIO, NULL);
  close_fixture(&f);
}

TEST(frame_chains_refuse)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame_filter(f.df, "k + 1");
  expect(f.s, TSR_EDTYPE, "a filter needs bool, found i64");
  tsr_frame_select(f.df, "k, v, k");
  expect(f.s, TSR_ECOLUMN, "the name 'k' is taken");
  tsr_frame_agg(f.df, "sum(k), sum( k )");
  expect(f.s, TSR_ECOLUMN,
         "the name 'sum(k)' is taken; give one of the two another name: 'other = ...'\n    sum(k), "
         "sum( k )\n            ^~~~~~~~");
  tsr_frame_agg(f.df, "k");
  expect(f.s, TSR_EDTYPE, "column 'k' stands outside of an aggregate");
  tsr_frame_head(f.df, -1);
  expect(f.s, TSR_EARG, "-1 rows, expected 0 or more");
  tsr_frame_group_agg(f.df, "nope", "count()");
  expect(f.s, TSR_ECOLUMN, "no column 'nope'");
  tsr_frame_group_agg(f.df, "who + 1", "count()");
  expect(f.s, TSR_EDTYPE, "'+' needs numbers, found text");
  tsr_frame_group_agg(f.df, "k, k", "count()");
  expect(f.s, TSR_ECOLUMN, "the name 'k' is taken");
  tsr_frame_group_agg(f.df, "k desc nulls sometimes", "count()");
  expect(f.s, TSR_EPARSE, "found sometimes where 'first' or 'last' after 'nulls' was expected");
  tsr_frame_sort(f.df, "k down");
  expect(f.s, TSR_EPARSE, "found down where an operator, 'asc', 'desc', 'nulls', ',' or the end");
  tsr_frame_sort(f.df, "");
  expect(f.s, TSR_EPARSE, "tsr_frame_sort: the expression is empty; write one");
  tsr_frame_sort(f.df, "sum(k)");
  expect(f.s, TSR_EDTYPE, "reduces rows and cannot stand here");
  tsr_frame_limit(f.df, -2, 3);
  expect(f.s, TSR_EARG, "tsr_frame_limit: -2 rows, expected 0 or more");
  tsr_frame_tail(f.df, -1);
  expect(f.s, TSR_EARG, "tsr_frame_tail: -1 rows");
  tsr_frame_sample(f.df, .rows = 3, .fraction = 0.5);
  expect(f.s, TSR_EARG, "are both given");
  tsr_frame_sample(f.df, .fraction = 1.5);
  expect(f.s, TSR_EARG, "not between 0 and 1");
  tsr_frame_distinct(f.df, "k desc");
  expect(f.s, TSR_EPARSE, "as rows keep their order");
  tsr_frame_group_head(f.df, "k", -1);
  expect(f.s, TSR_EARG, "tsr_frame_group_head: -1 rows");
  tsr_frame_with_row_index(f.df, "k");
  expect(f.s, TSR_ECOLUMN, "there is a column 'k'");
  tsr_frame_concat(f.df, tsr_frame_select(f.df, "k"));
  expect(f.s, TSR_ECOLUMN, "frame 2 has no column 'v'");
  tsr_frame_concat(tsr_frame_select(f.df, "k"), tsr_frame_select(f.df, "k = who"));
  expect(f.s, TSR_EDTYPE, "column 'k' is text in frame 2 and i64 in the frames before");
  tsr_frame_join(f.df, f.df, "k = nope");
  expect(f.s, TSR_ECOLUMN, "the right frame has no column 'nope'");
  tsr_frame_join(f.df, f.df, "k = who");
  expect(f.s, TSR_EDTYPE, "the key is i64 in the left frame and text in the right");
  tsr_frame_join(tsr_frame_assign(f.df, "v_right", "1"), f.df, "k");
  expect(f.s, TSR_ECOLUMN, "'v_right' is taken too");
  tsr_frame_scatter(f.df, tsr_on(f.mesh, "data,data"));
  tsr_scope_clear(f.s);
  tsr_frame_group_agg(f.df, "k", "k = count()");
  expect(f.s, TSR_ECOLUMN, "the name 'k' is taken");
  tsr_frame_add(f.df, 1);
  expect(f.s, TSR_EDTYPE, "column 'who' is text, expected a number or bool");
  tsr_frame_mean(f.df);
  expect(f.s, TSR_EDTYPE, "tsr_frame_mean: column 'who' is text");
  tsr_frame *k = tsr_frame_select(f.df, "k"), *v = tsr_frame_select(f.df, "v");
  tsr_frame_add(k, v);
  expect(f.s, TSR_ECOLUMN, "the right frame has no column 'k'");
  tsr_frame_add(k, tsr_frame_select(f.df, "k, v"));
  expect(f.s, TSR_ECOLUMN, "the left frame has 1 columns, the right frame has 2");
  tsr_frame_add(tsr_frame_filter(k, "k > 3"), tsr_frame_filter(k, "k > 4"));
  expect(f.s, TSR_ESHAPE, "different filters");
  CHECK_STATUS(tsr_row_status(tsr_frame_row(f.df)), TSR_ESHAPE, NULL);
  expect(f.s, TSR_ESHAPE, "the frame has 100 rows, expected 1");
  tsr_row *row = tsr_frame_row(tsr_frame_agg(f.df, "sum(k)"));
  CHECK(isnan(tsr_row_f64(row, "sum(v)")));
  expect(f.s, TSR_ECOLUMN, "no column 'sum(v)'; columns: sum(k); did you mean 'sum(k)'?");
  close_fixture(&f);
}

/* ---- one pass ------------------------------------------------------------------------------ */

static void expect_kernels(tsr_frame *df, int kernels, int combines)
{
  tsr__plan_shape shape;
  CHECK_STATUS(tsr__frame_plan_shape(df, &shape), TSR_OK, df->node.scope);
  CHECK_I64(shape.kernels, kernels);
  CHECK_I64(shape.combines, combines);
  CHECK_I64(shape.reshards, 0);
  CHECK_I64(shape.operators, 0);
}

TEST(frame_filter_assign_agg_is_one_pass)
{
  static const char *const predicates[] = {
    "v > 5",
    "v > 5 and g != 3",
    "who == 'ann'",
    "who is not null and v < 20",
    "who in ('bob', 'x')",
    "who < 'b' or v > 3",
    "not (who > 'b') and k % 2 == 0",
    "coalesce(v / g, 1.0) > 0.5",
  };
  struct fixture f;
  open_fixture(&f);
  for (size_t i = 0; i < sizeof predicates / sizeof *predicates; i++) {
    tsr_frame *df = tsr_frame_filter(f.df, predicates[i]);
    df = tsr_frame_assign(df, "r", "v / k");
    df = tsr_frame_filter(df, "g < ?", 6);
    df = tsr_frame_agg(df, "sum(v), sum(k), mean(r), min(v), max(r), count(), std(v), any(r > 2)");
    expect_kernels(df, 1, 1);
  }
  /* Checked arithmetic and nulls made on the way stay in it. */
  tsr_frame *df = tsr_frame_assign(f.df, "w", "if(g == 2, null, k * 3 + g)");
  expect_kernels(tsr_frame_agg(tsr_frame_filter(df, "w // 2 > 5"), "sum(w), mean(w), count(w)"), 1,
                 1);
  /* The same sums by group. */
  expect_kernels(tsr_frame_group_agg(tsr_frame_filter(df, "v > 1"), "who", "sum(w), mean(v)"), 1,
                 1);
  /* Several aggregates of several frames' arithmetic. */
  tsr_frame *k = tsr_frame_select(f.df, "k, v");
  expect_kernels(tsr_frame_sum(tsr_frame_add(tsr_frame_mul(k, 2), 1)), 1, 1);
  expect_kernels(tsr_frame_div(k, tsr_frame_mean(k)), 2, 1);
  close_fixture(&f);
}

/* ---- terminals --------------------------------------------------------------------------- */

TEST(frame_rows_stay_on_their_devices)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = tsr_frame_filter(f.df, "k >= 10 and k < 15");
  CHECK_STR(tsr_frame_devices(df), "device 0: 3 of 13 rows\ndevice 1: 2 of 13 rows\n"
                                   "device 2: 0 of 13 rows\ndevice 3: 0 of 13 rows\n"
                                   "device 4: 0 of 12 rows\ndevice 5: 0 of 12 rows\n"
                                   "device 6: 0 of 12 rows\ndevice 7: 0 of 12 rows\n");
  CHECK_STR_HAS(tsr_frame_devices(f.df), "device 3: 13 rows\ndevice 4: 12 rows\n");
  int64_t rows = 0;
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, f.s);
  CHECK_I64(rows, 5);
  /* As an array they are spread evenly again. */
  tsr_array *x = tsr_frame_column(df, "v");
  double values[5];
  CHECK_STATUS(tsr_read(x, values, sizeof values), TSR_OK, f.s);
  CHECK_F64_BITS(values[0], 2.5);
  CHECK_F64_BITS(values[4], 3.5);
  tsr_shard shard;
  CHECK_STATUS(tsr_shard_view(x, 4, &shard), TSR_OK, f.s);
  CHECK_I64(shard.box.start[0], 4);
  CHECK_I64(shard.box.size[0], 1);
  CHECK_F64_BITS(*(const double *)shard.data, 3.5);
  CHECK_STR(tsr_message(f.s), "");
  close_fixture(&f);
}

TEST(frame_columns_as_arrays)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = tsr_frame_assign(f.df, "n", "if(g == 1, null, k)");
  df = tsr_frame_assign(df, "b", "if(g == 1, null, k > 50)");
  CHECK(tsr_is_inert(tsr_frame_column(df, "n")));
  expect(f.s, TSR_EVALUE, "column 'n' has 15 nulls");
  CHECK(tsr_is_inert(tsr_frame_column(df, "who")));
  expect(f.s, TSR_EDTYPE, "column 'who' is text");
  CHECK(tsr_is_inert(tsr_frame_column(df, "m")));
  expect(f.s, TSR_ECOLUMN, "no column 'm'");
  int64_t n[N];
  bool b[N];
  CHECK_STATUS(tsr_read(tsr_frame_column(df, "n", .null_value = TSR_VALUE(-1)), n, sizeof n),
               TSR_OK, f.s);
  CHECK_STATUS(tsr_read(tsr_frame_column(df, "b", .null_value = TSR_VALUE((bool)1)), b, sizeof b),
               TSR_OK, f.s);
  for (int i = 0; i < N; i++) {
    CHECK_I64(n[i], i % 7 == 1 ? -1 : i);
    CHECK_I64(b[i], i % 7 == 1 || i > 50);
  }
  /* Filtered, there are none left; and arrays go back into frames. */
  tsr_array *x = tsr_frame_column(tsr_frame_filter(df, "n is not null"), "n");
  CHECK_I64(tsr_shape_of(x).dims[0], 85);
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_new(f.s, { "x", x }), "s = sum(x)"), "s"), 4200);
  close_fixture(&f);
}

TEST(frame_heads)
{
  struct fixture f;
  open_fixture(&f);
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_head(f.df, 10), "s = sum(k)"), "s"), 45);
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_head(f.df, 1000), "s = sum(k)"), "s"), 4950);
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_head(f.df, 0), "s = sum(k)"), "s"), 0);
  tsr_frame *odd = tsr_frame_filter(f.df, "k % 2 == 1");
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_head(odd, 30), "s = sum(k)"), "s"), 900);
  tsr_frame *late = tsr_frame_filter(tsr_frame_head(odd, 30), "k > 50");
  CHECK_F64_BITS(number(tsr_frame_agg(late, "s = sum(k)"), "s"), 275);
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_head(late, 2), "s = sum(k)"), "s"), 51 + 53);
  close_fixture(&f);
}

/* ---- whole frames ------------------------------------------------------------------------ */

TEST(frame_whole_frame_arithmetic)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = tsr_frame_select(f.df, "k, v"), *kept = tsr_frame_filter(df, "k >= 50");
  CHECK_I64(tsr_frame_column_type(tsr_frame_mul(df, 2), 0), TSR_COL_I64);
  CHECK_I64(tsr_frame_column_type(tsr_frame_mul(df, 0.5), 0), TSR_COL_F64);
  CHECK_I64(tsr_frame_column_type(tsr_frame_div(df, 2), 0), TSR_COL_F64);
  CHECK_F64_BITS(number(tsr_frame_sum(tsr_frame_add(df, df)), "k"), 9900);
  CHECK_F64_BITS(number(tsr_frame_sum(tsr_frame_sub(df, 100)), "k"), 4950 - 10000);
  CHECK_F64_BITS(number(tsr_frame_max(tsr_frame_div(df, tsr_frame_mean(df))), "k"), 2);
  CHECK_F64_BITS(number(tsr_frame_sum(tsr_frame_sub(tsr_frame_mean(df), df)), "v"), 0);
  CHECK_F64_BITS(number(tsr_frame_div(tsr_frame_sum(df), tsr_frame_count(df)), "k"), 49.5);
  CHECK_F64_BITS(number(tsr_frame_count(tsr_frame_sub(kept, tsr_frame_min(kept))), "k"), 50);
  CHECK_F64_BITS(number(tsr_frame_min(tsr_frame_sub(kept, tsr_frame_min(kept))), "v"), 0);
  CHECK_F64_BITS(number(tsr_frame_var(df), "k"), 841.66666666666663);
  CHECK_F64_BITS(number(tsr_frame_std(df), "k"), 29.011491975882016);
  tsr_frame *twice = df;
  for (int i = 0; i < 40; i++)
    twice = tsr_frame_add(twice, twice); /* each bound once, not 2^40 times */
  CHECK_F64_BITS(number(tsr_frame_max(twice), "k"), 99 * 0x1p40);
  close_fixture(&f);
}

TEST(frame_sharded_and_unsharded_mix)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *here = tsr_frame_select(make_frame(f.s, (tsr_sharding){ 0 }), "k, v");
  tsr_frame *there = tsr_frame_select(f.df, "k, v");
  CHECK_F64_BITS(number(tsr_frame_sum(tsr_frame_add(there, here)), "k"), 9900);
  CHECK_F64_BITS(number(tsr_frame_sum(tsr_frame_add(here, there)), "v"), 2475);
  CHECK_STR(tsr_message(f.s), "");
  close_fixture(&f);
}

TEST(frame_what_follows_an_aggregate)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *one = tsr_frame_agg(f.df, "s = sum(k), n = count(), m = mean(if(k < 0, v, null))");
  CHECK_F64_BITS(number(tsr_frame_assign(one, "q", "s / n"), "q"), 49.5);
  CHECK_F64_BITS(number(tsr_frame_select(one, "t = s * 2, u = coalesce(m, -1.5)"), "u"), -1.5);
  int64_t rows = -1;
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(one, "s > 10"), &rows), TSR_OK, f.s);
  CHECK_I64(rows, 1);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(one, "m > 10"), &rows), TSR_OK, f.s);
  CHECK_I64(rows, 0);
  CHECK_STATUS(tsr_frame_row_count(one, &rows), TSR_OK, f.s);
  CHECK_I64(rows, 1);
  CHECK_F64_BITS(number(tsr_frame_agg(one, "max(s)"), "max(s)"), 4950);
  tsr_frame *by = tsr_frame_group_agg(f.df, "who", "n = count(), s = sum(k)");
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_filter(by, "who is null"), "x = sum(s)"), "x"),
                 1650);
  CHECK_F64_BITS(number(tsr_frame_agg(by, "x = max(n)"), "x"), 34);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_head(by, 2), &rows), TSR_OK, f.s);
  CHECK_I64(rows, 2);
  CHECK_F64_BITS(
      number(tsr_frame_agg(tsr_frame_group_agg(by, "n", "c = count()"), "x = max(c)"), "x"), 2);
  CHECK_STR(tsr_message(f.s), "");
  close_fixture(&f);
}

/* ---- nulls, NaN, text ---------------------------------------------------------------------- */

static double count_where(struct fixture *f, const char *predicate)
{
  return number(tsr_frame_agg(tsr_frame_filter(f->df, predicate), "n = count()"), "n");
}

TEST(frame_text_predicates)
{
  struct fixture f;
  open_fixture(&f);
  CHECK_F64_BITS(count_where(&f, "who == 'ann'"), 34);
  CHECK_F64_BITS(count_where(&f, "'ann' == who"), 34);
  CHECK_F64_BITS(count_where(&f, "who != 'ann'"), 33);
  CHECK_F64_BITS(count_where(&f, "not who == 'ann'"), 33);
  CHECK_F64_BITS(count_where(&f, "who == 'nobody'"), 0);
  CHECK_F64_BITS(count_where(&f, "who != 'nobody'"), 67);
  CHECK_F64_BITS(count_where(&f, "who < 'b'"), 34);
  CHECK_F64_BITS(count_where(&f, "'b' < who"), 33);
  CHECK_F64_BITS(count_where(&f, "who in ('bob', 'ann', 'x')"), 67);
  CHECK_F64_BITS(count_where(&f, "who not in ('bob')"), 34);
  CHECK_F64_BITS(count_where(&f, "who is null"), 33);
  CHECK_F64_BITS(count_where(&f, "who is null or who == 'bob'"), 66);
  CHECK_F64_BITS(count_where(&f, "who == who"), 67);
  CHECK_F64_BITS(count_where(&f, "who <= who"), 67);
  CHECK_F64_BITS(count_where(&f, "coalesce(who, 'zed') == 'zed'"), 33);
  CHECK_F64_BITS(count_where(&f, "coalesce(who, 'bob') > who"), 0);
  CHECK_F64_BITS(count_where(&f, "if(k < 50, who, 'zed') >= who"), 67);
  CHECK_F64_BITS(count_where(&f, "'a' < 'b'"), 100);
  tsr_frame *none = tsr_frame_filter(f.df, "who == ?", "ann");
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(tsr_frame_assign(none, "t", "coalesce(null, who, 'q')"), &table),
               TSR_OK, f.s);
  CHECK_STR(tsr_table_text(table, 3, tsr_table_find(table, "t")), "ann");
  close_fixture(&f);
}

TEST(frame_text_extremes)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = tsr_frame_assign(f.df, "w", "if(k == 98, 'aa', if(k == 3, 'zoe', who))");
  tsr_row *row = tsr_frame_row(tsr_frame_agg(
      df, "min(w), max(w), a = max(w) == 'zoe', b = coalesce(max(if(k < 0, w, null)), 'none')"));
  CHECK_STATUS(tsr_row_status(row), TSR_OK, f.s);
  CHECK_STR(tsr_row_text(row, "min(w)"), "aa");
  CHECK_STR(tsr_row_text(row, "max(w)"), "zoe");
  CHECK_STR(tsr_row_text(row, "a"), "true");
  CHECK_STR(tsr_row_text(row, "b"), "none");
  tsr_frame *by = tsr_frame_group_agg(df, "g", "low = min(w), high = max(if(g == 3, w, null))");
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(by, &table), TSR_OK, f.s);
  CHECK_STR(tsr_table_text(table, 0, 1), "aa");
  CHECK_STR(tsr_table_text(table, 1, 1), "ann");
  CHECK_STR(tsr_table_text(table, 3, 2), "zoe");
  CHECK(tsr_table_is_null(table, 0, 2));
  int64_t rows = -1;
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(by, "high > 'b'"), &rows), TSR_OK, f.s);
  CHECK_I64(rows, 1);
  CHECK_STATUS(tsr_frame_row_count(tsr_frame_filter(by, "high is null or high == 'x'"), &rows),
               TSR_OK, f.s);
  CHECK_I64(rows, 6);
  row = tsr_frame_row(tsr_frame_max(tsr_frame_select(df, "w, k")));
  CHECK_STR(tsr_row_text(row, "w"), "zoe");
  CHECK_STR(tsr_message(f.s), "");
  close_fixture(&f);
}

TEST(frame_text_without_any)
{
  struct fixture f;
  open_fixture(&f);
  const char *texts[N] = { 0 };
  f.df = tsr_frame_text_column(f.df, "none", texts, N);
  CHECK_F64_BITS(count_where(&f, "none is null"), 100);
  CHECK_F64_BITS(count_where(&f, "none == 'x' or none != 'x' or none < 'x' or none in ('x')"), 0);
  CHECK_F64_BITS(count_where(&f, "coalesce(none, who) == 'ann'"), 34);
  int64_t rows = 0;
  tsr_frame *by = tsr_frame_group_agg(f.df, "none", "n = count()");
  CHECK_STATUS(tsr_frame_row_count(by, &rows), TSR_OK, f.s);
  CHECK_I64(rows, 1);
  CHECK_STR_HAS(tsr_frame_text(by), "null");
  close_fixture(&f);
}

TEST(frame_nan_is_a_value)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = tsr_frame_assign(f.df, "z", "if(k < 3, (v - v) / (v - v), if(k < 6, null, v))");
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "min(z), max(z), sum(z), n = count(z), mean(z)"));
  CHECK_F64_BITS(tsr_row_f64(row, "min(z)"), 1.5);
  CHECK(isnan(tsr_row_f64(row, "max(z)")) && !tsr_row_is_null(row, "max(z)"));
  CHECK(isnan(tsr_row_f64(row, "sum(z)")) && isnan(tsr_row_f64(row, "mean(z)")));
  CHECK_I64(tsr_row_i64(row, "n"), 97);
  row = tsr_frame_row(tsr_frame_agg(tsr_frame_filter(df, "k < 6"), "min(z), max(z)"));
  CHECK(isnan(tsr_row_f64(row, "min(z)")) && !tsr_row_is_null(row, "min(z)"));
  row = tsr_frame_row(
      tsr_frame_agg(tsr_frame_filter(df, "k > 2 and k < 6"), "min(z), max(z), sum(z)"));
  CHECK(tsr_row_is_null(row, "min(z)") && tsr_row_is_null(row, "max(z)"));
  CHECK_F64_BITS(tsr_row_f64(row, "sum(z)"), 0);
  tsr_frame *nan = tsr_frame_filter(df, "is_nan(z)");
  CHECK_F64_BITS(number(tsr_frame_agg(nan, "n = count()"), "n"), 3);
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_filter(df, "z == z"), "n = count()"), "n"), 94);
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_filter(df, "z != z"), "n = count()"), "n"), 3);
  close_fixture(&f);
}

TEST(frame_without_rows)
{
  struct fixture f;
  open_fixture(&f);
  tsr_sharding at = tsr_on(f.mesh, "data");
  tsr_frame *df = tsr_frame_new(f.s, { "x", tsr_put(f.s, NULL, TSR_F64, TSR_SHAPE(0), at) },
                                { "n", tsr_put(f.s, NULL, TSR_I64, TSR_SHAPE(0), at) });
  df = tsr_frame_text_column(df, "t", NULL, 0);
  for (int way = 0; way < 2; way++) {
    tsr_row *row = tsr_frame_row(tsr_frame_agg(
        df, "sum(x), sum(n), mean(x), min(n), max(x), var(x), count(), any(x > 1), all(x > 1)"));
    CHECK_STATUS(tsr_row_status(row), TSR_OK, f.s);
    CHECK_F64_BITS(tsr_row_f64(row, "sum(x)"), 0);
    CHECK_I64(tsr_row_i64(row, "sum(n)"), 0);
    CHECK(tsr_row_is_null(row, "mean(x)") && tsr_row_is_null(row, "min(n)"));
    CHECK(tsr_row_is_null(row, "max(x)") && tsr_row_is_null(row, "var(x)"));
    CHECK_I64(tsr_row_i64(row, "count()"), 0);
    CHECK(!tsr_row_i64(row, "any(x > 1)") && tsr_row_i64(row, "all(x > 1)"));
    int64_t rows = 5;
    CHECK_STATUS(tsr_frame_row_count(tsr_frame_group_agg(df, "t, n", "sum(x)"), &rows), TSR_OK,
                 f.s);
    CHECK_I64(rows, 0);
    CHECK_STR_HAS(tsr_frame_text(df), "0 rows, 3 columns");
    CHECK_I64(tsr_shape_of(tsr_frame_column(df, "x")).dims[0], 0);
    df = tsr_frame_filter(df, "x > 0");
  }
  CHECK_STR(tsr_message(f.s), "");
  close_fixture(&f);
}

/* ---- overflow ---------------------------------------------------------------------------- */

static void overflows(struct fixture *f, tsr_frame *df, const char *part)
{
  tsr_table *table = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_EVALUE, NULL);
  CHECK(!table);
  expect(f->s, TSR_EVALUE, part);
}

TEST(frame_overflow_names_the_row)
{
  struct fixture f;
  open_fixture(&f);
  const char *big = "100000000000000000";
  char text[200];
  snprintf(text, sizeof text, "k * %s", big);
  tsr_frame *df = tsr_frame_assign(f.df, "z", text);
  overflows(&f, df, "tsr_frame_assign: k * 100000000000000000: an integer overflows in row 93");
  overflows(&f, tsr_frame_agg(df, "max(z)"), "in row 93");
  /* Not where it is not needed, filtered out before, null, or in a branch not taken. */
  CHECK_F64_BITS(number(tsr_frame_agg(df, "n = count()"), "n"), 100);
  tsr_frame *low = tsr_frame_filter(f.df, "k < 90");
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_assign(low, "z", text), "n = count(z)"), "n"), 90);
  snprintf(text, sizeof text, "n = count(if(k < 90, k * %s, null))", big);
  CHECK_F64_BITS(number(tsr_frame_agg(f.df, text), "n"), 90);
  snprintf(text, sizeof text, "n = count(if(k < 90, k, null) * %s)", big);
  CHECK_F64_BITS(number(tsr_frame_agg(f.df, text), "n"), 90);
  /* The wrapped products' sum leaves the range too; the row is what is told. */
  overflows(&f, tsr_frame_agg(f.df, "sum(k * 9223372036854775807)"), "in row 2");
  overflows(&f, tsr_frame_assign(f.df, "z", "0 - 9223372036854775807 - k"), "in row 2");
  overflows(&f, tsr_frame_assign(f.df, "z", "k + 9223372036854775800"), "in row 8");
  overflows(&f, tsr_frame_assign(f.df, "z", "-(if(k == 7, -9223372036854775808, k))"), "in row 7");
  overflows(&f, tsr_frame_assign(f.df, "z", "abs(if(k == 7, -9223372036854775808, k))"),
            "in row 7");
  overflows(&f, tsr_frame_assign(f.df, "z", "if(k == 7, -9223372036854775808, k) // (g - 1)"),
            "in row 7");
  overflows(&f, tsr_frame_assign(f.df, "z", "k ** 10"), "in row 79");
  overflows(&f, tsr_frame_mul(tsr_frame_select(f.df, "k"), INT64_MAX),
            "tsr_frame_mul: an integer "
            "overflows in row 2");
  overflows(&f, tsr_frame_agg(f.df, "sum(k * 4000000000000000)"), "does not fit i64");
  overflows(&f, tsr_frame_agg(f.df, "sum(k) * 4000000000000000"), "an integer overflows;");
  /* i32 columns leave the range of i32. */
  int32_t small[3] = { 1, 46341, -46341 };
  tsr_frame *narrow =
      tsr_frame_new(f.s, { "i", tsr_put(f.s, small, TSR_I32, TSR_SHAPE(3), (tsr_sharding){ 0 }) });
  overflows(&f, tsr_frame_assign(narrow, "q", "i * i"), "in row 1");
  CHECK_F64_BITS(number(tsr_frame_agg(narrow, "q = max(1.0 * i * i)"), "q") > 0, 1);
  tsr_scope_clear(f.s);
  close_fixture(&f);
}

/* ---- files ------------------------------------------------------------------------------- */

static tsr_frame *csv(struct fixture *f, const char *name, const char *text)
{
  const char *path = test_tmp(name);
  test_write(path, text, strlen(text));
  return tsr_frame_read_csv(f->s, path, .on = tsr_on(f->mesh, "data"));
}

TEST(frame_csv_types_and_nulls)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = csv(&f, "a.csv",
                      "city,n,x,day,at,ok\n"
                      "Rome,1,1.5,2013-01-31,2013-01-31T06:00:00Z,true\n"
                      "\"Bonn, Rhein\",NA,,NA,,NA\n"
                      "Rome,3,-2.25,2012-02-29,2012-02-29T23:59:59.5Z,false\n");
  CHECK_STR(tsr_frame_schema(df),
            "city  text\nn     i64\nx     f64\nday   date\nat    time\nok    bool\n");
  CHECK_STR(tsr_frame_text(df),
            "┌─────────────┬──────┬───────┬────────────┬─────────────────────────────┬───────┐\n"
            "│ city        │    n │     x │ day        │ at                          │ ok    │\n"
            "│ text        │  i64 │   f64 │ date       │ time                        │ bool  │\n"
            "├─────────────┼──────┼───────┼────────────┼─────────────────────────────┼───────┤\n"
            "│ Rome        │    1 │   1.5 │ 2013-01-31 │ 2013-01-31T06:00:00Z        │ true  │\n"
            "│ Bonn, Rhein │ null │  null │ null       │ null                        │ null  │\n"
            "│ Rome        │    3 │ -2.25 │ 2012-02-29 │ 2012-02-29T23:59:59.500000Z │ false │\n"
            "└─────────────┴──────┴───────┴────────────┴─────────────────────────────┴───────┘\n"
            "3 rows, 6 columns\n");
  f.df = df;
  CHECK_F64_BITS(count_where(&f, "day >= '2013-01-01'"), 1);
  CHECK_F64_BITS(count_where(&f, "at < '2013-01-01' and at > '2012-02-29T23:59'"), 1);
  CHECK_F64_BITS(count_where(&f, "at > day"), 2);
  CHECK_F64_BITS(count_where(&f, "day in ('2012-02-29')"), 1);
  CHECK_F64_BITS(count_where(&f, "ok"), 1);
  CHECK_F64_BITS(count_where(&f, "not ok"), 1);
  CHECK_F64_BITS(count_where(&f, "ok is null and n is null and x is null and day is null"), 1);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "min(day), max(at), any(ok), sum(n), mean(x)"));
  CHECK_STR(tsr_row_text(row, "min(day)"), "2012-02-29");
  CHECK_STR(tsr_row_text(row, "max(at)"), "2013-01-31T06:00:00Z");
  CHECK_STR(tsr_row_text(row, "any(ok)"), "true");
  CHECK_F64_BITS(tsr_row_f64(row, "mean(x)"), -0.375);
  CHECK_STR(tsr_message(f.s), "");
  close_fixture(&f);
}

TEST(frame_csv_on_any_mesh)
{
  static const char *const places[][2] = { { "data=1", "data" }, { "data=3", "data" },
                                           { "data=8", "data" }, { "x=2,y=4", "x" },
                                           { "x=2,y=4", "x+y" }, { "x=2,y=4", "y+x" } };
  struct fixture f;
  open_fixture(&f);
  char *text = malloc(40 * N + 100);
  int length = sprintf(text, "k,x,w\n");
  for (int i = 0; i < N; i++)
    length += sprintf(text + length, "%d,%g,%s\n", i, i / 8.0, i % 5 ? "odd" : "fifth");
  const char *path = test_tmp("b.csv");
  test_write(path, text, (size_t)length);
  free(text);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    tsr_mesh *mesh = tsr_mesh_make(f.rt, places[i][0]);
    tsr_frame *df = tsr_frame_read_csv(f.s, path, .on = tsr_on(mesh, places[i][1]));
    tsr_row *row = tsr_frame_row(
        tsr_frame_agg(tsr_frame_filter(df, "w == 'fifth'"), "n = count(), s = sum(k), x = sum(x)"));
    CHECK_STATUS(tsr_row_status(row), TSR_OK, f.s);
    CHECK_I64(tsr_row_i64(row, "n"), 20);
    CHECK_I64(tsr_row_i64(row, "s"), 950);
    CHECK_F64_BITS(tsr_row_f64(row, "x"), 118.75);
    tsr_table *table = NULL;
    CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, f.s);
    for (int k = 0; k < N; k++) CHECK_I64(tsr_table_i64(table, k, 0), k);
  }
  tsr_frame *all = tsr_frame_read_csv(f.s, path);
  CHECK_STR_HAS(tsr_frame_devices(all), "device 7: 12 rows\n");
  tsr_frame_read_csv(f.s, path, .on = tsr_on(f.mesh, "rows"));
  expect(f.s, TSR_EAXIS, "rows");
  tsr_frame_read_csv(f.s, "/nowhere/at/all.csv");
  expect(f.s, TSR_EIO, "/nowhere/at/all.csv");
  tsr_frame_read_csv(f.s, NULL);
  expect(f.s, TSR_EARG, "the path is NULL");
  close_fixture(&f);
}

/* A file whose last rows contradict what the sample says: large enough not to be sampled whole. */
static const char *late_file(const char *name, const char *last)
{
  enum { ROWS = 200000 };
  char *text = malloc(ROWS * 16 + 200);
  int length = sprintf(text, "k,m\n");
  for (int i = 0; i < ROWS; i++)
    length += sprintf(text + length, "%d,%s\n", i, i == ROWS * 5 / 8 ? last : "7");
  const char *path = test_tmp(name);
  test_write(path, text, (size_t)length);
  free(text);
  return path;
}

TEST(frame_csv_late_values_widen)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = tsr_frame_read_csv(f.s, late_file("late.csv", "2.5"), .on = first_axis(f.mesh));
  if (tsr_frame_column_type(df, 1) == TSR_COL_I64) {
    tsr_frame *sum = tsr_frame_agg(tsr_frame_filter(df, "m > 0"), "s = sum(m), n = count()");
    CHECK_F64_BITS(number(sum, "s"), 7 * 199999 + 2.5);
    CHECK_I64(tsr_frame_column_type(sum, 0), TSR_COL_F64);
    CHECK_I64(tsr_frame_column_type(df, 1), TSR_COL_F64);
  } else {
    FAIL("the sample saw the late value: make the file larger");
  }
  /* An expression that no longer types is the terminal's error. */
  df = tsr_frame_read_csv(f.s, late_file("text.csv", "seven"), .on = first_axis(f.mesh));
  CHECK_I64(tsr_frame_column_type(df, 1), TSR_COL_I64);
  tsr_frame *bad = tsr_frame_agg(df, "sum(m + 1)");
  CHECK_STATUS(tsr_row_status(tsr_frame_row(bad)), TSR_EDTYPE, NULL);
  CHECK_STR_HAS(tsr_message(f.s), "'+' needs numbers, found text");
  CHECK_STR_HAS(tsr_message(f.s), "column 'm'");
  CHECK_STR_HAS(tsr_message(f.s), "'seven'");
  CHECK_STR_HAS(tsr_message(f.s), "row 125000");
  CHECK_STR_HAS(tsr_message(f.s), "text.csv");
  tsr_scope_clear(f.s);
  /* Others go on. */
  CHECK_F64_BITS(number(tsr_frame_agg(tsr_frame_filter(df, "m == '7'"), "n = count()"), "n"),
                 199999);
  CHECK_F64_BITS(number(tsr_frame_agg(df, "s = max(k)"), "s"), 199999);
  close_fixture(&f);
}

TEST(frame_csv_without_rows)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *df = csv(&f, "empty.csv", "a,b\n");
  int64_t rows = 7;
  CHECK_STATUS(tsr_frame_row_count(df, &rows), TSR_OK, f.s);
  CHECK_I64(rows, 0);
  CHECK_STR_HAS(tsr_frame_text(df), "0 rows, 2 columns");
  csv(&f, "none.csv", "");
  CHECK(tsr_scope_status(f.s) != TSR_OK);
  tsr_scope_clear(f.s);
  df = csv(&f, "ragged.csv", "a,b\n1,2\n3\n");
  tsr_frame_text(df);
  CHECK(tsr_scope_status(f.s) != TSR_OK);
  CHECK_STR_HAS(tsr_message(f.s), "ragged.csv");
  close_fixture(&f);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* The same on a file. */
static tsr_status file_job(tsr_scope *s, const tsr_mesh *mesh, const char *path, double *out)
{
  tsr_frame *df = tsr_frame_read_csv(s, path, .on = first_axis(mesh));
  df = tsr_frame_assign(tsr_frame_filter(df, "w in ('a', 'c') or day > '2013-01-01'"), "z",
                        "x * 2.5");
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "sum(z), max(w)"));
  tsr_status st = tsr_row_status(row);
  if (!st) *out = tsr_row_f64(row, "sum(z)");
  tsr_array *x = tsr_frame_column(df, "x", .null_value = TSR_VALUE(0));
  if (!st && tsr_is_inert(x)) st = tsr_scope_status(s);
  if (!st && !strstr(tsr_frame_devices(df), "device 1: ")) st = tsr_scope_status(s);
  return st;
}

static tsr_status small_job(tsr_runtime *rt, const char *path, double *out)
{
  double more = 0;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2");
  tsr_frame *df = make_frame(s, tsr_on(mesh, "data"));
  df = tsr_frame_filter(df, "v > ? and (who < 'b' or who is null)", 2);
  df = tsr_frame_assign(df, "r", "k * 2 / coalesce(g, 1)");
  tsr_frame *by = tsr_frame_group_agg(df, "who, g", "sum(r), n = count()");
  tsr_table *table = NULL;
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "total = sum(v), mean(r)"));
  tsr_status st = tsr_row_status(row);
  if (!st) st = tsr_frame_collect(by, &table);
  if (!st && !strstr(tsr_frame_text(by), "columns")) st = tsr_scope_status(s);
  double total = tsr_row_f64(row, "total");
  if (!st) st = file_job(s, mesh, path, &more);
  if (!st) *out = total + more;
  tsr_scope_close(s);
  return st;
}

/* One column fits and three do not: the first message tells what all three and their copies in
 * order need, and nothing is held. */
TEST(frame_reading_tells_what_all_columns_need)
{
  enum { ROWS = 8000, NEED = 3 * (ROWS * 8 + ROWS / 8) };
  char *text = malloc(ROWS * 12 + 8), need[64];
  int length = sprintf(text, "a,b,c\n");
  for (int i = 0; i < ROWS; i++) length += sprintf(text + length, "1.5,2.5,3.5\n");
  const char *path = test_tmp("wide.csv");
  test_write(path, text, (size_t)length);
  free(text);
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .memory_limit = NEED / 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_table *table = NULL;
  snprintf(need, sizeof need, "needs at least %d more bytes for its tsr_frame_sort",
           ROWS * (3 * 8 + 3 * 8 + 4));
  tsr_frame *df = tsr_frame_read_csv(s, path);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_sort(df, "a"), &table), TSR_ENOMEM, s);
  CHECK_STR_HAS(tsr_message(s), need);
  CHECK_STR_HAS(tsr_message(s), ".memory_limit");
  CHECK_I64(tsr_device_memory(rt, 0).peak, 0);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_agg(tsr_frame_read_csv(s, path), "m = mean(b)"), &table),
               TSR_OK, s);
  tsr_runtime_close(rt);
}

/* Texts that are all different, in a file of `rows` rows; the path. */
static const char *many_texts(int rows)
{
  char *text = malloc((size_t)rows * 9 + 3), *at = text + 2;
  memcpy(text, "w\n", 2);
  for (int i = 0; i < rows; i++, at += 9) sprintf(at, "t%07d\n", i);
  const char *path = test_tmp("texts.csv");
  test_write(path, text, (size_t)(at - text));
  free(text);
  return path;
}

static tsr_status largest_text(tsr_runtime *rt, const char *path, char *message)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(tsr_frame_read_csv(s, path), "m = max(w)"));
  tsr_status status = tsr_row_status(row);
  snprintf(message, 1000, "%s", status ? tsr_message(s) : tsr_row_text(row, "m"));
  tsr_scope_close(s);
  return status;
}

/* Codes have room on the device; their dictionary has none beside it. */
TEST_TIMEOUT(frame_dictionaries_count_towards_the_limit, 300)
{
  enum { ROWS = 6000000, FEW = 100000 };
  char message[1000];
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .memory_limit = 32 << 20, .threads = 2);
  const char *path = many_texts(FEW);
  CHECK_STATUS(largest_text(rt, path, message), TSR_OK, NULL);
  CHECK_STR(message, "t0099999");
  int64_t used = rt->heap.used, live = rt->heap.live;
  for (int round = 0; round < 2; round++) {
    CHECK_STATUS(largest_text(rt, many_texts(ROWS), message), TSR_ENOMEM, NULL);
    CHECK_STR_HAS(message, "but .memory_limit allows 268435456");
    CHECK(rt->heap.used <= used + (16 << 20) &&
          rt->heap.live <= live + 64); /* what is kept for reuse */
  }
  int64_t kept = rt->heap.used;
  CHECK_STATUS(largest_text(rt, many_texts(FEW), message), TSR_OK, NULL);
  CHECK_STR(message, "t0099999");
  CHECK(rt->heap.used <= kept + (1 << 20));
  tsr_runtime_close(rt);
}

/* Rows have room on the devices; a table of them has none on the host. */
TEST(frame_tables_count_towards_the_limit)
{
  enum { ROWS = 100000 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .memory_limit = 1 << 30);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_iota(s, TSR_I64, TSR_SHAPE(ROWS), 0, tsr_on(NULL, ""));
  tsr_frame *df = tsr_frame_new(s, { "x", x }, { "y", tsr_mul(x, 3) });
  tsr_table *table = NULL;
  rt->heap.limit = rt->heap.used + ROWS * 8;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_ENOMEM, s);
  CHECK_STR_HAS(tsr_message(s), "but .memory_limit allows ");
  tsr_scope_clear(s);
  rt->heap.limit = rt->heap.used + 3 * ROWS * 8;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, s);
  CHECK_I64(tsr_table_i64(table, ROWS - 1, 1), 3 * (ROWS - 1));
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(frame_every_allocation_may_fail, 300)
{
  static const char text[] = "w,x,day\na,1,2013-01-02\nb,NA,2012-05-06\nc,3,NA\na,4.5,2013-02-03\n";
  const char *path = test_tmp("small.csv");
  test_write(path, text, sizeof text - 1);
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  double out = 0;
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .allocator = &allocator, .threads = 1);
  CHECK_STATUS(small_job(rt, path, &out), TSR_OK, NULL);
  tsr_runtime_close(rt);
  CHECK_I64(state.live, 0);
  int64_t all = state.count, step = test_quick() ? 7 : 1;
  double expected = out;
  for (int64_t n = 1; n <= all; n += step) {
    state = (struct test_alloc){ .fail_at = n };
    out = -1;
    rt = tsr_runtime_open("cpu:2", .allocator = &allocator, .threads = 1);
    tsr_status st = small_job(rt, path, &out);
    tsr_runtime_close(rt);
    if (state.live)
      FAIL("allocation %lld of %lld: %lld blocks leaked", (long long)n, (long long)all,
           (long long)state.live);
    if (st && st != TSR_ENOMEM)
      FAIL("allocation %lld of %lld: status %s", (long long)n, (long long)all, tsr_status_name(st));
    if (!st) CHECK_F64_BITS(out, expected);
    else CHECK_F64_BITS(out, -1);
  }
}

/* What steers a terminal is blank in a table that is drawn: controls of ASCII and C1, separators of
 * lines, turns of direction. */
TEST(tables_do_not_steer_terminals)
{
  static const char *const hostile[] = { "\x1b",         "\x07",        "\x7f",     "\xc2\x80",
                                         "\xc2\x9b",     "\xc2\x9d",    "\xc2\x9f", "\xe2\x80\xa8",
                                         "\xe2\x80\xae", "\xe2\x81\xa6" };
  static const char *const kind[] = { "\xc2\xa0", "\xc3\xa9", "\xe2\x80\x8d", "\xf0\x9f\x98\x80" };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  for (int i = 0; i < 10; i++) {
    char name[16], text[16], row[64];
    snprintf(name, sizeof name, "n%sn", i < 7 ? " " : hostile[i]); /* controls are no names */
    snprintf(text, sizeof text, "a%sb", hostile[i]);
    snprintf(row, sizeof row, "│ a b  │\n│ %s", i < 4 ? kind[i] : "x");
    const char *texts[2] = { text, i < 4 ? kind[i] : "x" };
    static const double d[2] = { 1, 2 };
    tsr_frame *df =
        tsr_frame_new(s, { "d", tsr_put(s, d, TSR_F64, TSR_SHAPE(2), (tsr_sharding){ 0 }) });
    df = tsr_frame_drop(tsr_frame_text_column(df, name, texts, 2), "d");
    const char *shown = tsr_frame_text(df);
    CHECK(!strstr(shown, hostile[i]));
    CHECK_STR_HAS(shown, row);
    CHECK_STR_HAS(shown, "│ n n  │");
    tsr_frame_filter(df, "nosuch > 1");
    CHECK(!strstr(tsr_message(s), hostile[i])); /* names that are near, the row at fault */
    tsr_scope_clear(s);
    tsr_frame_assign(df, "y", "cast(x, 'i64')");
    CHECK(!strstr(tsr_message(s), hostile[i]));
    tsr_scope_clear(s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Texts may hold NULs: their bytes are counted. */
TEST(texts_with_nuls_have_a_length)
{
  static const char csv[] = "t,n\nab\0cd,1\n\"\",2\nplain,\n";
  static const char nul[] = "ab\0cd";
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_table *table = NULL;
  size_t length = 99;
  test_write(test_tmp("nul.csv"), csv, sizeof csv - 1);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("nul.csv"));
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, s);
  CHECK_BYTES(tsr_table_bytes(table, 0, 0, &length), nul, sizeof nul);
  CHECK_U64(length, 5);
  CHECK_STR(tsr_table_text(table, 0, 0), "ab");
  CHECK_STR(tsr_table_bytes(table, 1, 0, &length), "");
  CHECK_U64(length, 0);
  CHECK_STR(tsr_table_bytes(table, 0, 1, &length), "1");
  CHECK_U64(length, 1);
  length = 99;
  CHECK(!tsr_table_bytes(table, 2, 1, &length)); /* null */
  CHECK_U64(length, 0);
  length = 99;
  CHECK(!tsr_table_bytes(table, 9, 0, &length) && !tsr_table_bytes(NULL, 0, 0, NULL));
  CHECK_U64(length, 0);
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "m = min(t), f = first(t)"));
  CHECK_BYTES(tsr_row_bytes(row, "f", &length), nul, sizeof nul);
  CHECK_U64(length, 5);
  CHECK_STR(tsr_row_bytes(row, "m", &length), "");
  CHECK_U64(length, 0);
  length = 99;
  CHECK(!tsr_row_bytes(row, "nosuch", &length) && !tsr_row_bytes(NULL, "f", NULL));
  CHECK_U64(length, 0);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Of a column with nulls the codes may find memory and the validity none. */
TEST(frame_text_columns_are_whole_or_inert)
{
  static const char *const texts[] = { "a", NULL, "b", NULL };
  const double x[4] = { 0 };
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .allocator = &allocator, .threads = 1);
  int ended = 0;
  for (int64_t n = 1; n < 100; n++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(4),
                                                    tsr_on(tsr_mesh_default(rt, "x"), "x")) });
    CHECK(!tsr_frame_is_inert(df));
    state.fail_at = state.count + n;
    df = tsr_frame_text_column(df, "t", texts, 4);
    state.fail_at = 0;
    CHECK(tsr_frame_is_inert(df) == (tsr_scope_status(s) != TSR_OK));
    ended += tsr_frame_is_inert(df);
    tsr_scope_close(s);
  }
  CHECK(ended > 5);
  tsr_runtime_close(rt);
}
