/* Joined frames: names, types, placements, repeats; values at large are compared by
 * relations_test.c and by the law of chains. Guards the devices. */
#include "support/first_axis.h"
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_mesh *mesh;
  tsr_frame *left, *right;
};

static void open_fixture(struct fixture *f)
{
  int64_t k[6] = { 3, 1, 2, 3, 9, 1 }, id[4] = { 1, 2, 3, 7 };
  int32_t small[6] = { 30, 10, 20, 30, 90, 10 }, price[4] = { 10, 20, 30, 70 };
  float x[6] = { 1, 2, 3, 4, 5, 6 };
  const char *who[6] = { "cy", "ann", "bob", "cy", NULL, "zed" };
  const char *name[4] = { "ann", NULL, "cy", "dan" };
  f->rt = tsr_runtime_open("cpu:4");
  f->s = tsr_scope_open(f->rt);
  f->mesh = tsr_mesh_make(f->rt, "x=4");
  tsr_sharding at = tsr_on(f->mesh, "x");
  f->left = tsr_frame_new(f->s, { "k", tsr_put(f->s, k, TSR_I64, TSR_SHAPE(6), at) },
                          { "small", tsr_put(f->s, small, TSR_I32, TSR_SHAPE(6), at) },
                          { "x", tsr_put(f->s, x, TSR_F32, TSR_SHAPE(6), at) });
  f->left = tsr_frame_text_column(f->left, "who", who, 6);
  f->right = tsr_frame_new(f->s, { "id", tsr_put(f->s, id, TSR_I64, TSR_SHAPE(4), at) },
                           { "x", tsr_put(f->s, price, TSR_I32, TSR_SHAPE(4), at) });
  f->right = tsr_frame_text_column(f->right, "name", name, 4);
  CHECK_STR(tsr_message(f->s), "");
}

/* The schema and the rows as one text: "k i64 ...; 3 ...; ". */
static void check(struct fixture *f, tsr_frame *df, const char *expected)
{
  tsr_table *table = NULL;
  char text[2000] = "";
  size_t used = 0;
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, f->s);
  for (int c = 0; c < tsr_table_column_count(table); c++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %s", c ? ", " : "",
                             tsr_table_name(table, c), tsr_coltype_name(tsr_table_type(table, c)));
  for (int64_t r = 0; r < tsr_table_row_count(table); r++)
    for (int c = 0; c < tsr_table_column_count(table); c++) {
      const char *value = tsr_table_text(table, r, c);
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", c ? " " : "; ",
                               value ? value : "-");
    }
  CHECK_STR(text, expected);
}

TEST(join_names_and_types)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *left = tsr_frame_select(f.left, "k, x");
  check(&f, tsr_frame_join(left, f.right, "k = id"),
        "k i64, x f32, x_right i32, name text; 3 1 30 cy; 1 2 10 ann; 2 3 20 -; 3 4 30 cy; 1 6 10 "
        "ann");
  check(&f, tsr_frame_join(left, f.right, "k = id", .how = TSR_JOIN_LEFT, .suffix = "2"),
        "k i64, x f32, x2 i32, name text; 3 1 30 cy; 1 2 10 ann; 2 3 20 -; 3 4 30 cy; 9 5 - -; "
        "1 6 10 ann");
  check(&f, tsr_frame_join(left, f.right, "k = id", .how = TSR_JOIN_SEMI),
        "k i64, x f32; 3 1; 1 2; 2 3; 3 4; 1 6");
  check(&f, tsr_frame_join(left, f.right, "k = id", .how = TSR_JOIN_ANTI), "k i64, x f32; 9 5");
  /* i32 meets i64, and f32 meets i32 in f64. */
  check(&f, tsr_frame_join(tsr_frame_select(f.left, "small"), f.right, "small = x"),
        "small i32, id i64, name text; 30 3 cy; 10 1 ann; 20 2 -; 30 3 cy; 10 1 ann");
  check(&f, tsr_frame_join(left, tsr_frame_select(f.right, "id"), "x = id"),
        "k i64, x f32; 3 1; 1 2; 2 3");
  tsr_runtime_close(f.rt);
}

TEST(join_texts_of_two_dictionaries)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *left = tsr_frame_select(f.left, "who, k");
  check(&f, tsr_frame_join(left, tsr_frame_select(f.right, "name, id"), "who = name"),
        "who text, k i64, id i64; cy 3 3; ann 1 1; cy 3 3");
  check(&f,
        tsr_frame_join(left, tsr_frame_select(f.right, "name"), "who = name", .how = TSR_JOIN_ANTI),
        "who text, k i64; bob 2; - 9; zed 1");
  check(&f, tsr_frame_join(tsr_frame_filter(left, "k == 3"), left, "who", .how = TSR_JOIN_LEFT),
        "who text, k i64, k_right i64; cy 3 3; cy 3 3; cy 3 3; cy 3 3");
  tsr_runtime_close(f.rt);
}

TEST(join_of_frames_that_lie_anywhere)
{
  static const char *const places[] = { "x", "-", NULL };
  struct fixture f;
  open_fixture(&f);
  tsr_mesh *other = tsr_mesh_make(f.rt, "a=2,b=2");
  tsr_frame *left = tsr_frame_select(f.left, "k"), *right = tsr_frame_select(f.right, "id, x");
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 4; b++) {
      tsr_frame *l =
          places[a] ? tsr_frame_scatter(left, tsr_on(f.mesh, places[a])) : tsr_frame_gather(left);
      tsr_frame *r = b == 3      ? tsr_frame_scatter(right, tsr_on(other, "b"))
                     : places[b] ? tsr_frame_scatter(right, tsr_on(f.mesh, places[b]))
                                 : tsr_frame_gather(right);
      check(&f, tsr_frame_join(l, r, "k = id", .how = TSR_JOIN_LEFT),
            "k i64, x i32; 3 30; 1 10; 2 20; 3 30; 9 -; 1 10");
    }
  tsr_runtime_close(f.rt);
}

TEST(join_unique)
{
  struct fixture f;
  open_fixture(&f);
  tsr_table *table = NULL;
  tsr_frame *left = tsr_frame_select(f.left, "k"), *right = tsr_frame_select(f.left, "k, who");
  CHECK_STATUS(tsr_frame_collect(tsr_frame_join(left, f.right, "k = id", .unique = true), &table),
               TSR_OK, f.s);
  CHECK_STATUS(tsr_frame_collect(tsr_frame_join(left, right, "k", .unique = true), &table),
               TSR_EVALUE, f.s);
  CHECK_STR_HAS(tsr_message(f.s), "has the key k = 3 more than once");
  tsr_scope_clear(f.s);
  /* A repeat that nobody meets is none. */
  tsr_frame *two = tsr_frame_filter(left, "k == 2 or k == 9");
  CHECK_STATUS(tsr_frame_collect(tsr_frame_join(two, right, "k", .unique = true), &table), TSR_OK,
               f.s);
  tsr_frame *by = tsr_frame_join(tsr_frame_select(f.left, "who"), right, "who", .unique = true);
  CHECK_STATUS(tsr_frame_collect(by, &table), TSR_EVALUE, f.s);
  CHECK_STR_HAS(tsr_message(f.s), "the key who = 'cy' more than once");
  tsr_runtime_close(f.rt);
}

/* A key is an expression of its own frame's columns; only a column that is a key leaves the
 * right. */
TEST(join_on_expressions)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *left = tsr_frame_select(f.left, "k, small"), *right = tsr_frame_select(f.right, "id");
  check(&f, tsr_frame_join(left, right, "small = id * 10"),
        "k i64, small i32, id i64; 3 30 3; 1 10 1; 2 20 2; 3 30 3; 1 10 1");
  check(&f, tsr_frame_join(left, right, "cast(k, 'text') = cast(id, 'text'), small // 10 = id"),
        "k i64, small i32; 3 30; 1 10; 2 20; 3 30; 1 10");
  check(&f, tsr_frame_join(left, right, "k % 2 = id % 2, k = id", .how = TSR_JOIN_ANTI),
        "k i64, small i32; 9 90");
  tsr_frame *who = tsr_frame_select(f.left, "who");
  check(&f, tsr_frame_join(who, who, "upper(who)"),
        "who text, who_right text; cy cy; cy cy; ann ann; bob bob; cy cy; cy cy; zed zed");
  tsr_frame *names = tsr_frame_select(f.right, "who = name");
  check(&f, tsr_frame_join(who, names, "upper(who)", .how = TSR_JOIN_SEMI),
        "who text; cy; ann; cy");
  tsr_frame *texts = tsr_frame_select(f.right, "code = cast(id, 'text')");
  for (int place = 0; place < 2; place++) {
    tsr_frame *l = place ? tsr_frame_gather(left) : left;
    check(&f, tsr_frame_join(tsr_frame_filter(l, "k > 1"), texts, "k = cast(code, 'i64')"),
          "k i64, small i32, code text; 3 30 3; 2 20 2; 3 30 3");
  }
  tsr_table *table = NULL;
  tsr_frame *by = tsr_frame_join(left, f.left, "k + 1 = k + 1", .unique = true);
  CHECK_STATUS(tsr_frame_collect(by, &table), TSR_EVALUE, f.s);
  CHECK_STR_HAS(tsr_message(f.s), "the key k + 1 = 4 more than once");
  tsr_scope_clear(f.s);
  /* The row of a bad value is one of the frame that the key reads. */
  tsr_frame *bad =
      tsr_frame_join(left, tsr_frame_filter(f.right, "id < 7"), "k = cast(name, 'i64')");
  CHECK_STATUS(tsr_frame_collect(bad, &table), TSR_EVALUE, f.s);
  CHECK_STR_HAS(tsr_message(f.s),
                "tsr_frame_join: cast(name, 'i64'): 'ann' in row 0 is not a valid i64");
  tsr_runtime_close(f.rt);
}

/* What a join says of keys that it cannot use, each with what to write instead. */
TEST(join_keys_that_are_wrong)
{
  static const struct {
    const char *on, *says;
  } all[] = {
    { "k = name", "the key is i64 in the left frame and text in the right frame; write \"k = "
                  "cast(name, 'i64')\"" },
    { "who = id",
      "text in the left frame and i64 in the right frame; write \"cast(who, 'i64') = id\"" },
    { "who = x > 1", "write \"cast(who, 'bool') = x > 1\"" },
    { "k = x > 1", "write \"k = cast(x > 1, 'i64')\"" },
    { "lower(who) = id", "write \"cast(lower(who), 'i64') = id\"" },
    { "k = cast(id, 'date')", "write \"k = cast(cast(id, 'date'), 'i64')\"" },
    { "x > 1 = cast(id, 'date')", "write \"cast(x > 1, 'i64') = cast(cast(id, 'date'), 'i64')\"" },
    { "k = lower(nope)", "the right frame has no column 'nope'" },
    { "id", "the left frame has no column 'id'" },
    { "k + id = id", "the left frame has no column 'id'" },
    { "k == id", "write '=' between the left and the right key" },
    { "k = 3", "the key reads no column of its frame; to compare with a value, filter the frame" },
    { "sum(k) = id", "sum(...) reduces rows and cannot stand here" },
    { "k = id = x", "found = where" },
    { "k = ", "the expression ends where" },
    { "", "the expression is empty" },
  };
  struct fixture f;
  open_fixture(&f);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    CHECK(tsr_frame_is_inert(tsr_frame_join(f.left, f.right, all[i].on)));
    CHECK_STR_HAS(tsr_message(f.s), all[i].says);
    tsr_scope_clear(f.s);
  }
  CHECK(tsr_frame_is_inert(tsr_frame_join(f.left, f.right, NULL)));
  CHECK_STR_HAS(tsr_message(f.s), "the keys are NULL");
  tsr_runtime_close(f.rt);
}

TEST(join_frames_of_two_scopes)
{
  struct fixture f;
  open_fixture(&f);
  tsr_scope *inner = tsr_scope_open(f.s);
  tsr_table *table = NULL;
  int64_t k[1] = { 3 };
  tsr_frame *small =
      tsr_frame_new(inner, { "k", tsr_put(inner, k, TSR_I64, TSR_SHAPE(1), (tsr_sharding){ 0 }) });
  tsr_frame *both = tsr_frame_join(f.left, small, "k", .how = TSR_JOIN_SEMI);
  CHECK(both->node.scope == inner);
  CHECK(tsr_frame_concat(tsr_frame_select(f.left, "k"), small)->node.scope == inner);
  CHECK_STATUS(tsr_frame_collect(both, &table), TSR_OK, inner);
  CHECK_I64(tsr_table_row_count(table), 2);
  tsr_scope_close(inner);
  tsr_scope *beside = tsr_scope_open(f.s), *other = tsr_scope_open(f.s);
  tsr_frame *a =
      tsr_frame_new(beside,
                    { "k", tsr_put(beside, k, TSR_I64, TSR_SHAPE(1), (tsr_sharding){ 0 }) });
  tsr_frame *b =
      tsr_frame_new(other, { "k", tsr_put(other, k, TSR_I64, TSR_SHAPE(1), (tsr_sharding){ 0 }) });
  CHECK(tsr_frame_is_inert(tsr_frame_join(a, b, "k")));
  tsr_runtime_close(f.rt);
}

/* Rows are made once, and only the columns that are asked for. */
TEST(join_makes_what_is_needed)
{
  struct fixture f;
  open_fixture(&f);
  tsr_frame *both = tsr_frame_join(f.left, f.right, "k = id");
  int64_t rows = 0;
  CHECK_STATUS(tsr_frame_row_count(both, &rows), TSR_OK, f.s);
  CHECK_I64(rows, 5);
  check(&f, tsr_frame_agg(tsr_frame_filter(both, "x_right > 10"), "total = sum(x_right)"),
        "total i64; 80");
  int right = tsr_frame_column_count(f.left);
  CHECK(both->source->col[right].values && !both->source->col[right + 1].values);
  CHECK(!both->source->col[1].values && both->making.done);
  CHECK_I64(both->making.rows_in, 6);
  CHECK_I64(both->making.other_rows, 4);
  CHECK_I64(both->making.rows_out, 5);
  tsr_runtime_close(f.rt);
}

/* A value late in a file turns a number into text beneath a sort and a join. */
TEST(join_of_columns_that_a_file_retypes)
{
  struct fixture f;
  open_fixture(&f);
  const char *path = test_tmp("late.csv");
  FILE *file = fopen(path, "w");
  fprintf(file, "id,code,n\n");
  for (int i = 0; i < 200000; i++)
    fprintf(file, "%d,%s,%d\n", i, i == 60000 ? "late" : i % 2 ? "17" : "4", i % 9);
  fclose(file);
  tsr_frame *df = tsr_frame_read_csv(f.s, path, .on = first_axis(f.mesh));
  CHECK_STR(tsr_coltype_name(tsr_frame_column_type(df, 1)), "i64");
  tsr_frame *sorted = tsr_frame_sort(tsr_frame_filter(df, "id >= 59999"), "n desc, id");
  int64_t rows = 0;
  CHECK_STATUS(tsr_frame_row_count(sorted, &rows), TSR_OK, f.s);
  CHECK_I64(rows, 140001);
  tsr_frame *some =
      tsr_frame_head(tsr_frame_sort(tsr_frame_select(sorted, "id, code"), "code desc"), 2);
  tsr_frame *all =
      tsr_frame_join(some, tsr_frame_select(df, "code, n"), "code", .how = TSR_JOIN_SEMI);
  check(&f, all, "id i64, code text; 60000 late; 60002 4");
  tsr_runtime_close(f.rt);
}
