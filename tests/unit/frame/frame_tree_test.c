/* Frames as trees: what goes through a function is the frame that comes of the same calls without
 * one; gradients by columns; what is refused in a body, and which columns are no arrays. */
#include "harness.h"
#include "support/gradient_check.h"
#include "tessera.h"

enum { ROWS = 13 };

static tsr_runtime *rt;
static tsr_scope *s;
static tsr_frame *df;

/* Uneven on its four devices. */
static void open_world(void)
{
  int64_t k[ROWS];
  double x[ROWS];
  float y[ROWS];
  for (int i = 0; i < ROWS; i++) k[i] = i * 7 % 5, x[i] = 0.25 * i - 1, y[i] = (float)(i % 4);
  rt = tsr_runtime_open("cpu:8", .threads = 2);
  s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, "x=4,y=2"), "x");
  df = tsr_frame_new(s, { "k", tsr_put(s, k, TSR_I64, TSR_SHAPE(ROWS), on) },
                     { "x", tsr_put(s, x, TSR_F64, TSR_SHAPE(ROWS), on) },
                     { "y", tsr_put(s, y, TSR_F32, TSR_SHAPE(ROWS), on) });
}

static void close_world(void)
{
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Names, types and values are the same. */
static void check_same(tsr_frame *found, tsr_frame *expected)
{
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_STR(tsr_frame_schema(found), tsr_frame_schema(expected));
  for (int i = 0; i < tsr_frame_column_count(expected); i++) {
    const char *name = tsr_frame_column_name(expected, i);
    tsr_array *a = tsr_frame_column(found, name), *b = tsr_frame_column(expected, name);
    char one[8 * ROWS] = "", two[8 * ROWS] = "";
    size_t bytes = (size_t)tsr_shape_of(b).dims[0] * tsr_dtype_size(tsr_dtype_of(b));
    CHECK_STATUS(tsr_read(a, one, bytes), TSR_OK, s);
    CHECK_STATUS(tsr_read(b, two, bytes), TSR_OK, s);
    CHECK_BYTES(one, two, bytes);
    CHECK_I64(tsr_dtype_of(a), tsr_dtype_of(b));
    CHECK_I64(tsr_shape_of(a).dims[0], tsr_shape_of(b).dims[0]);
  }
}

/* Expressions, whole frames, numbers of rows, reductions that give one row. */
static tsr_frame *steps(tsr_frame *in)
{
  tsr_frame *out = tsr_frame_assign(in, "z", "if(k > 2, x * y, -x) + ?", 0.5);
  out = tsr_frame_assign(out, "small", "x < 0.75 and k != 1");
  out = tsr_frame_select(out, "k, z, small, w = k * 3 + cast(small, 'i64')");
  out = tsr_frame_rename(tsr_frame_drop(out, "w"), "kk = k");
  out = tsr_frame_select(tsr_frame_with_row_index(out, "row"), "row, kk, z");
  out = tsr_frame_sub(tsr_frame_mul(out, 2), tsr_frame_sum(out));
  return tsr_frame_sub(out, tsr_frame_mean(out));
}

static tsr_array *steps_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope, (void)user;
  return tsr_frame_to_tree(steps(tsr_frame_from_tree(in[0])));
}

TEST(a_function_of_a_frame_gives_what_its_calls_give)
{
  open_world();
  tsr_function *f = tsr_function_make(s, steps_body, .name = "steps");
  check_same(tsr_frame_call(f, df), steps(df));
  tsr_frame *fewer = tsr_frame_filter(df, "k > 1");
  check_same(tsr_frame_call(f, fewer), steps(fewer));
  check_same(tsr_frame_call(f, df), steps(df));
  CHECK_I64(tsr_trace_count(f), 2);
  close_world();
}

TEST(a_frame_comes_back_from_its_tree)
{
  open_world();
  tsr_frame *made = tsr_frame_assign(df, "b", "x > 0");
  tsr_array *tree = tsr_frame_to_tree(made);
  CHECK_STR(tsr_tree_text(tree), "(k: *, x: *, y: *, b: *)");
  check_same(tsr_frame_from_tree(tree), made);
  close_world();
}

static tsr_array *halved(tsr_scope *scope, tsr_array *const *column, void *user)
{
  (void)scope;
  return tsr_div(column[0], *(double *)user);
}

TEST(a_map_of_columns_is_a_frame)
{
  open_world();
  double two = 2;
  tsr_frame *half = tsr_frame_map(df, halved, &two);
  check_same(half, tsr_frame_select(df, "k = k / 2, x = x / 2, y = y / cast(2, 'f32')"));
  close_world();
}

/* The sum of squares of what is left of y. */
static tsr_array *loss(tsr_scope *scope, tsr_array *const *in, void *user)
{
  tsr_frame *of = tsr_frame_new(scope, { "x", in[0] }, { "y", in[1] });
  (void)user;
  tsr_array *rest = tsr_frame_to_tree(tsr_frame_select(of, "r = (y - 2 * x) ** 2 + sqrt(y)"));
  return tsr_sum(tsr_field(rest, "r"));
}

TEST(gradients_go_through_expressions)
{
  open_world();
  tsr_array *x = tsr_frame_column(df, "x"), *in[] = { x, tsr_add(tsr_square(x), 0.5) };
  gradient_check(&(gradient_case){ "frame", s, loss, NULL, in, 2, 2, 1e-6, 5 });
  close_world();
}

/* ---- what is refused ------------------------------------------------------------------------- */

typedef tsr_frame *verb_fn(tsr_frame *in);

static tsr_frame *filtered(tsr_frame *in)
{
  return tsr_frame_filter(in, "x > 0");
}

static tsr_frame *sorted(tsr_frame *in)
{
  return tsr_frame_sort(in, "x");
}

static tsr_frame *grouped(tsr_frame *in)
{
  return tsr_frame_group_agg(in, "k", "sum(x)");
}

static tsr_frame *shortened(tsr_frame *in)
{
  return tsr_frame_head(in, 3);
}

static tsr_frame *joined(tsr_frame *in)
{
  return tsr_frame_join(in, in, "k");
}

static tsr_frame *holed(tsr_frame *in)
{
  return tsr_frame_assign(in, "n", "if(k > 1, x, null)");
}

static tsr_array *verb_body(tsr_scope *scope, tsr_array *const *in, void *user)
{
  (void)scope;
  return tsr_frame_to_tree((*(verb_fn **)user)(tsr_frame_from_tree(in[0])));
}

static void check_refused(verb_fn *verb, const char *says)
{
  tsr_function *f = tsr_function_make(s, verb_body, .user = &verb, .name = "verb");
  if (!tsr_frame_is_inert(tsr_frame_call(f, df))) FAIL("not refused: %s", says);
  CHECK_STR_HAS(tsr_message(s), says);
  CHECK_STR_HAS(tsr_message(s), "the body of verb");
  tsr_scope_clear(s);
}

TEST(verbs_that_make_rows_are_refused_in_a_body)
{
  open_world();
  check_refused(
      filtered,
      "tsr_frame_filter: the number or order of rows cannot change in the body of a function");
  check_refused(sorted, "tsr_frame_sort: the number or order of rows cannot change in the body");
  check_refused(grouped,
                "tsr_frame_group_agg: the number or order of rows cannot change in the body");
  check_refused(shortened, "tsr_frame_head: the number or order of rows cannot change in the body");
  check_refused(joined, "tsr_frame_join: the number or order of rows cannot change in the body");
  check_refused(holed, "column 'n' may have nulls");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  check_same(tsr_frame_map(df, halved, &(double){ 1 }), tsr_frame_div(df, 1));
  close_world();
}

static tsr_array *first_rows(tsr_scope *scope, tsr_array *const *column, void *user)
{
  (void)scope, (void)user;
  return tsr_sum(column[0]);
}

TEST(what_is_no_tree_of_columns_says_so)
{
  const char *names[ROWS] = { "a" };
  open_world();
  CHECK(tsr_is_inert(tsr_frame_to_tree(tsr_frame_text_column(df, "t", names, ROWS))));
  CHECK_STR_HAS(tsr_message(s), "tsr_frame_to_tree: column 't' is text, expected numbers or bools");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_frame_to_tree(tsr_frame_assign(df, "n", "if(k > 1, x, null)"))));
  CHECK_STR_HAS(tsr_message(s), "column 'n' has");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_frame_to_tree(tsr_frame_rename(df, "\"a b\" = k"))));
  CHECK_STR_HAS(tsr_message(s), "\"a b\", expected letters, digits, _ and -");
  tsr_scope_clear(s);
  CHECK(tsr_frame_is_inert(tsr_frame_from_tree(tsr_frame_column(df, "k"))));
  CHECK_STR_HAS(tsr_message(s), "tsr_frame_from_tree: found *, expected a tree of columns");
  tsr_scope_clear(s);
  CHECK(tsr_frame_is_inert(tsr_frame_from_tree(tsr_tuple(s, tsr_frame_column(df, "k")))));
  CHECK_STR_HAS(tsr_message(s), "found (*), expected");
  tsr_scope_clear(s);
  CHECK(tsr_frame_is_inert(tsr_frame_map(df, first_rows, NULL)));
  CHECK_STR_HAS(tsr_message(s), "column 'k' has rank 0, expected 1");
  CHECK(tsr_frame_is_inert(tsr_frame_from_tree(NULL)));
  CHECK(tsr_is_inert(tsr_frame_to_tree(NULL)));
  close_world();
}
