/* Dtype and shape rules by tables written by hand (promotion as JAX's with 64-bit types on,
 * broadcasting as NumPy's), and the wording of what goes wrong. */
#include <string.h>

#include "support/leaf_fixture.h"

static tsr_scope *open_scope(void)
{
  return tsr_scope_open(fixture_devices("cpu:8"));
}

static tsr_array *plain(tsr_scope *s, tsr_dtype dtype, tsr_shape shape)
{
  return fixture_leaf(s, dtype, shape, NULL, NULL);
}

/* ---- dtypes ---- */

#define B TSR_BOOL
#define I TSR_I32
#define L TSR_I64
#define F TSR_F32
#define D TSR_F64
static const tsr_dtype all[5] = { B, I, L, F, D };

TEST(dtypes_meet_as_in_jax)
{
  static const tsr_dtype expected[5][5] = {
    { B, I, L, F, D }, { I, I, L, F, D }, { L, L, L, F, D }, { F, F, F, F, D }, { D, D, D, D, D },
  };
  for (int a = 0; a < 5; a++)
    for (int b = 0; b < 5; b++) CHECK_I64(tsr__promote(all[a], all[b]), expected[a][b]);
}

/* Result dtypes of operations on one dtype; 0 = refused. */
static const struct {
  tsr__op op;
  tsr_dtype result[5]; /* of bool, i32, i64, f32, f64 */
} unary[] = {
  { TSR__OP_NEG, { 0, I, L, F, D } },    { TSR__OP_ABS, { 0, I, L, F, D } },
  { TSR__OP_SQRT, { D, D, D, F, D } },   { TSR__OP_EXP, { D, D, D, F, D } },
  { TSR__OP_RINT, { 0, I, L, F, D } },   { TSR__OP_FLOOR, { 0, I, L, F, D } },
  { TSR__OP_NOT, { B, I, L, 0, 0 } },    { TSR__OP_ISNAN, { B, B, B, B, B } },
  { TSR__OP_SUM, { L, L, L, F, D } },    { TSR__OP_PROD, { L, L, L, F, D } },
  { TSR__OP_MEAN, { D, D, D, F, D } },   { TSR__OP_VAR, { D, D, D, F, D } },
  { TSR__OP_STD, { D, D, D, F, D } },    { TSR__OP_MIN, { B, I, L, F, D } },
  { TSR__OP_MAX, { B, I, L, F, D } },    { TSR__OP_ANY, { B, B, B, B, B } },
  { TSR__OP_ALL, { B, B, B, B, B } },    { TSR__OP_COUNT, { L, L, L, L, L } },
  { TSR__OP_ARGMIN, { L, L, L, L, L } }, { TSR__OP_ARGMAX, { L, L, L, L, L } },
};

TEST(results_of_one_operand)
{
  for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
    for (int d = 0; d < 5; d++) {
      tsr_scope *s = open_scope();
      tsr_array *r = fixture_make(unary[i].op, plain(s, all[d], TSR_SHAPE(3)), NULL, NULL, "a.c:1");
      CHECK_I64(r->inert ? 0 : r->dtype, unary[i].result[d]);
      CHECK_I64(tsr_scope_status(s), r->inert ? TSR_EDTYPE : TSR_OK);
    }
}

static const struct {
  tsr__op op;
  tsr_dtype left, right, result;
} binary[] = {
  { TSR__OP_ADD, L, F, F },     { TSR__OP_ADD, I, D, D },    { TSR__OP_ADD, B, I, I },
  { TSR__OP_ADD, B, B, B },     { TSR__OP_SUB, B, B, 0 },    { TSR__OP_DIV, I, I, D },
  { TSR__OP_DIV, I, F, F },     { TSR__OP_DIV, B, B, D },    { TSR__OP_FLOORDIV, L, I, L },
  { TSR__OP_MOD, F, D, D },     { TSR__OP_POW, B, B, 0 },    { TSR__OP_MINIMUM, B, B, B },
  { TSR__OP_MAXIMUM, F, L, F }, { TSR__OP_LT, I, D, B },     { TSR__OP_EQ, B, B, B },
  { TSR__OP_EQ, B, F, B },      { TSR__OP_AND, B, B, B },    { TSR__OP_AND, B, I, I },
  { TSR__OP_OR, F, B, 0 },      { TSR__OP_XOR, I, L, L },    { TSR__OP_ADDOVF, I, L, B },
  { TSR__OP_MULOVF, I, F, 0 },  { TSR__OP_SUBOVF, B, B, 0 },
};

TEST(results_of_two_operands)
{
  for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) {
    tsr_scope *s = open_scope();
    tsr_array *a = plain(s, binary[i].left, TSR_SHAPE(3)),
              *b = plain(s, binary[i].right, TSR_SHAPE(3));
    tsr_array *r = fixture_make(binary[i].op, a, b, NULL, "a.c:1");
    CHECK_I64(r->inert ? 0 : r->dtype, binary[i].result);
  }
}

/* Operands come in the dtype that the operation computes with. */
TEST(casts_stand_between)
{
  tsr_scope *s = open_scope();
  tsr_array *a = plain(s, TSR_I64, TSR_SHAPE(3)), *b = plain(s, TSR_F32, TSR_SHAPE(3));
  tsr_array *r = fixture_make(TSR__OP_LT, a, b, NULL, "a.c:1");
  CHECK_I64(r->in[0]->op, TSR__OP_CAST);
  CHECK_I64(r->in[0]->dtype, TSR_F32);
  CHECK(r->in[0]->in[0] == a);
  CHECK(r->in[1] == b);
  tsr_array *c = plain(s, TSR_BOOL, TSR_SHAPE(3));
  tsr_array *w = fixture_make(TSR__OP_WHERE, c, a, b, "a.c:2");
  CHECK_I64(w->dtype, TSR_F32);
  CHECK_I64(w->in[1]->op, TSR__OP_CAST);
  tsr_array *sum = fixture_reduce(TSR__OP_SUM, plain(s, TSR_I32, TSR_SHAPE(3)), NULL, 0, "a.c:3");
  CHECK_I64(sum->in[0]->dtype, TSR_I64);
  tsr_array *count = fixture_reduce(TSR__OP_COUNT, a, NULL, 0, "a.c:4");
  CHECK_I64(count->in[0]->dtype, TSR_BOOL);
}

/* Tables are looked into as registers hold them, of any dtype. */
TEST(tables_come_in_dtypes_of_registers)
{
  for (int d = TSR_BOOL; d <= TSR_F64; d++) {
    tsr_scope *s = open_scope();
    tsr_dtype dtype = (tsr_dtype)d;
    tsr__operands in = TSR__IN(plain(s, dtype, TSR_SHAPE(5)), plain(s, dtype, TSR_SHAPE(3)));
    tsr_array *r = tsr__make(s, TSR__OP_SEARCH, in, &(tsr__ask){ .dtype = TSR_I64 }, "a.c:1");
    int want = tsr_dtype_size(dtype) >= 4    ? d
               : tsr__dtype_is_real(dtype)   ? TSR_F32
               : d >= TSR_U8 && d <= TSR_U16 ? TSR_U32
                                             : TSR_I32;
    CHECK_I64(r->in[0]->dtype, want);
    CHECK_I64(r->in[1]->dtype, want);
  }
}

/* A number is converted at the call, by the rules of docs/NUMERICS.md. */
TEST(numbers_are_converted_at_once)
{
  static const struct {
    tsr_dtype from;
    double number;
    tsr_dtype to;
    double expected;
  } cases[] = {
    { TSR_F64, 2.9, TSR_I32, 2 },
    { TSR_F64, -2.9, TSR_I64, -2 },
    { TSR_F64, 1e300, TSR_I32, 2147483647 },
    { TSR_F64, -1e300, TSR_I32, -2147483648.0 },
    { TSR_F64, 0.5, TSR_BOOL, 1 },
    { TSR_I64, 4294967297.0, TSR_I32, 1 },
    { TSR_I64, 16777217, TSR_F32, 16777216 },
    { TSR_F64, 0.1, TSR_F32, (double)0.1f },
    { TSR_BOOL, 1, TSR_F64, 1 },
    { TSR_F64, 0.0 / 0.0, TSR_I64, 0 },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_scope *s = open_scope();
    tsr_array *number = fixture_number(s, cases[i].from, cases[i].number);
    tsr_array *r = tsr__make(s, TSR__OP_FULL, TSR__IN(number),
                             &(tsr__ask){ .dtype = cases[i].to, .shape = TSR_SHAPE(2) }, "a.c:1");
    CHECK(!r->inert);
    CHECK_I64(r->in[0]->op, TSR__OP_CONST);
    tsr__num got = r->in[0]->numbers[0];
    CHECK_F64_BITS(tsr__dtype_is_real(cases[i].to) ? got.f : (double)got.i, cases[i].expected);
  }
}

/* Arithmetic of bools is logic. */
TEST(bools_compute_by_logic)
{
  static const struct {
    tsr__op op, outer, left, right;
  } cases[] = {
    { TSR__OP_ADD, TSR__OP_OR, TSR__OP_LEAF, TSR__OP_LEAF },
    { TSR__OP_MUL, TSR__OP_AND, TSR__OP_LEAF, TSR__OP_LEAF },
    { TSR__OP_NE, TSR__OP_XOR, TSR__OP_LEAF, TSR__OP_LEAF },
    { TSR__OP_EQ, TSR__OP_NOT, TSR__OP_XOR, TSR__OP_LEAF },
    { TSR__OP_LT, TSR__OP_AND, TSR__OP_NOT, TSR__OP_LEAF },
    { TSR__OP_LE, TSR__OP_OR, TSR__OP_NOT, TSR__OP_LEAF },
    { TSR__OP_GT, TSR__OP_AND, TSR__OP_LEAF, TSR__OP_NOT },
    { TSR__OP_GE, TSR__OP_OR, TSR__OP_LEAF, TSR__OP_NOT },
  };
  tsr_scope *s = open_scope();
  tsr_array *a = plain(s, TSR_BOOL, TSR_SHAPE(3)), *b = plain(s, TSR_BOOL, TSR_SHAPE(3));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_array *r = fixture_make(cases[i].op, a, b, NULL, "a.c:1");
    CHECK_I64(r->op, cases[i].outer);
    CHECK_I64(r->in[0]->op, cases[i].left);
    if (r->in_count > 1) CHECK_I64(r->in[1]->op, cases[i].right);
  }
  CHECK_I64(fixture_reduce(TSR__OP_MIN, a, NULL, 0, "a.c:2")->op, TSR__OP_ALL);
  CHECK_I64(fixture_reduce(TSR__OP_MAX, a, NULL, 0, "a.c:2")->op, TSR__OP_ANY);
}

/* ---- shapes ---- */

static void check_shape(const tsr_array *a, tsr_shape expected)
{
  CHECK(!a->inert);
  CHECK_I64(a->shape.rank, expected.rank);
  for (int d = 0; d < expected.rank; d++) CHECK_I64(a->shape.dims[d], expected.dims[d]);
}

TEST(shapes_broadcast_as_in_numpy)
{
  static const struct {
    tsr_shape a, b, r;
  } cases[] = {
    { { 1, { 3 } }, { 1, { 3 } }, { 1, { 3 } } },
    { { 0, { 0 } }, { 2, { 2, 3 } }, { 2, { 2, 3 } } },
    { { 3, { 8, 1, 5 } }, { 2, { 3, 1 } }, { 3, { 8, 3, 5 } } },
    { { 1, { 1 } }, { 1, { 0 } }, { 1, { 0 } } },
    { { 2, { 0, 3 } }, { 1, { 1 } }, { 2, { 0, 3 } } },
    { { 2, { 1, 1 } }, { 1, { 1 } }, { 2, { 1, 1 } } },
  };
  tsr_scope *s = open_scope();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_array *a = plain(s, TSR_F64, cases[i].a), *b = plain(s, TSR_F64, cases[i].b);
    check_shape(fixture_make(TSR__OP_ADD, a, b, NULL, "a.c:1"), cases[i].r);
    check_shape(fixture_make(TSR__OP_ADD, b, a, NULL, "a.c:1"), cases[i].r);
  }
  tsr_array *c = plain(s, TSR_BOOL, TSR_SHAPE(4, 1)), *x = plain(s, TSR_F64, TSR_SHAPE(5));
  check_shape(fixture_make(TSR__OP_WHERE, c, x, fixture_number(s, TSR_F64, 0), "a.c:2"),
              TSR_SHAPE(4, 5));
}

TEST(reductions_remove_dims)
{
  tsr_scope *s = open_scope();
  tsr_array *x = plain(s, TSR_F64, TSR_SHAPE(2, 3, 4));
  check_shape(fixture_reduce(TSR__OP_SUM, x, NULL, 0, "a.c:1"), TSR_SCALAR);
  check_shape(fixture_reduce(TSR__OP_SUM, x, NULL, 2, "a.c:1"), TSR_SHAPE(2, 4));
  tsr__ask keep = { TSR__ATTR(tsr__reduce_attr, .dims = 5, .keep = 1) };
  check_shape(tsr__make(s, TSR__OP_MAX, TSR__IN(x), &keep, "a.c:1"), TSR_SHAPE(1, 3, 1));
  tsr_array *codes = plain(s, TSR_I32, TSR_SHAPE(2, 3, 4));
  tsr__ask groups = { TSR__ATTR(tsr__reduce_attr, .groups = 7) };
  check_shape(tsr__make(s, TSR__OP_MEAN, TSR__IN(x, NULL, codes), &groups, "a.c:1"), TSR_SHAPE(7));
}

/* A mask that broadcasts is spread to its operand's shape. */
TEST(masks_take_the_shape_of_their_operand)
{
  tsr_scope *s = open_scope();
  tsr_array *x = plain(s, TSR_F64, TSR_SHAPE(2, 3)), *m = plain(s, TSR_BOOL, TSR_SHAPE(3));
  tsr_array *r = fixture_reduce(TSR__OP_SUM, x, m, 0, "a.c:1");
  CHECK(!r->inert);
  check_shape(r->in[1], TSR_SHAPE(2, 3));
  CHECK_I64(r->in[1]->dtype, TSR_BOOL);
}

TEST(takes_replace_a_dim)
{
  tsr_scope *s = open_scope();
  tsr_array *t = plain(s, TSR_F32, TSR_SHAPE(5, 6, 7)), *i = plain(s, TSR_I32, TSR_SHAPE(2, 9));
  tsr_array *r = tsr__make(s, TSR__OP_TAKE, TSR__IN(t, i),
                           &(tsr__ask){ TSR__ATTR(tsr__span_attr, .dim = 1) }, "a.c:1");
  check_shape(r, TSR_SHAPE(5, 2, 9, 7));
  CHECK_I64(r->dtype, TSR_F32);
  CHECK_I64(r->in[1]->dtype, TSR_I64);
}

TEST(indices_of_batch_dims_are_those_of_the_table)
{
  tsr_scope *s = open_scope();
  tsr_array *t = plain(s, TSR_F32, TSR_SHAPE(5, 6, 7)), *i = plain(s, TSR_I32, TSR_SHAPE(5, 2, 9));
  tsr__ask one = { TSR__ATTR(tsr__span_attr, .dim = 2, .batch = 1) };
  tsr__ask two = { TSR__ATTR(tsr__span_attr, .dim = 2, .batch = 2) };
  tsr__ask into = { TSR__ATTR(tsr__scatter_attr, .dim = 2, .batch = 1) };
  check_shape(tsr__make(s, TSR__OP_TAKE, TSR__IN(t, i), &one, "a.c:1"), TSR_SHAPE(5, 6, 2, 9));
  tsr_array *u = plain(s, TSR_F32, TSR_SHAPE(5, 6, 2, 9));
  check_shape(tsr__make(s, TSR__OP_SCATTER, TSR__IN(t, i, u), &into, "a.c:2"), t->shape);
  CHECK(tsr__make(s, TSR__OP_TAKE, TSR__IN(t, i), &two, "a.c:3")->inert);
  CHECK_STR_HAS(tsr_message(s),
                "a.c:3: TSR_ESHAPE: tsr_take: the first 2 dims of f32[5,6,7] and of "
                "the indices i32[5,2,9] differ, expected the same before dim 2");
}

TEST(filters_leave_a_size_known_at_run_time)
{
  tsr_scope *s = open_scope();
  tsr_array *x = plain(s, TSR_F32, TSR_SHAPE(5, 6)), *m = plain(s, TSR_BOOL, TSR_SHAPE(5));
  tsr_array *r = fixture_make(TSR__OP_COMPACT, x, m, NULL, "a.c:1");
  check_shape(r, (tsr_shape){ .rank = 2, .dims = { TSR__DYNAMIC, 6 } });
  check_shape(fixture_make(TSR__OP_ADD, r, r, NULL, "a.c:2"), r->shape);
  check_shape(fixture_make(TSR__OP_SUM, r, NULL, NULL, "a.c:3"), TSR_SCALAR);
  CHECK(fixture_make(TSR__OP_ADD, r, x, NULL, "a.c:4")->inert);
  CHECK_STR_HAS(tsr_message(s), "the sizes of dim -2 are ? (known only at run time) and 5");
}

/* ---- wording ---- */

TEST(broadcast_errors_name_types_and_lines)
{
  tsr_scope *s = open_scope();
  tsr_mesh *mesh = tsr_mesh_make(s->rt, "x=2,y=4");
  tsr_array *a = fixture_leaf(s, TSR_F64, TSR_SHAPE(8, 8), mesh, "x,y");
  tsr_array *b = plain(s, TSR_F64, TSR_SHAPE(7));
  a->node.site = "fail.c:22";
  b->node.site = "fail.c:23";
  CHECK(fixture_make(TSR__OP_ADD, a, b, NULL, "fail.c:24")->inert);
  CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
  CHECK_STR(tsr_message(s), "fail.c:24: TSR_ESHAPE: tsr_add: cannot broadcast f64[8,8]@(x,y) with "
                            "f64[7]: the sizes of dim -1 are 8 and 7; they must be equal, or one "
                            "of them 1\n    left  made at fail.c:22\n    right made at fail.c:23");
}

static void check_message(tsr_scope *s, const char *expected)
{
  CHECK_STR(tsr_message(s), expected);
  tsr_scope_clear(s);
}

TEST(dtype_errors_say_what_is_expected)
{
  tsr_scope *s = open_scope();
  tsr_array *f = plain(s, TSR_F64, TSR_SHAPE(2)), *b = plain(s, TSR_BOOL, TSR_SHAPE(2));
  f->node.site = b->node.site = NULL;
  fixture_make(TSR__OP_NOT, f, NULL, NULL, "a.c:1");
  check_message(s, "a.c:1: TSR_EDTYPE: tsr_not: the operand is f64[2], expected a bool or an "
                   "integer; convert it with "
                   "tsr_cast");
  fixture_make(TSR__OP_NEG, b, NULL, NULL, "a.c:1");
  check_message(s,
                "a.c:1: TSR_EDTYPE: tsr_neg: the operand is bool[2], expected a number; convert it "
                "with tsr_cast");
  fixture_make(TSR__OP_AND, b, f, NULL, "a.c:1");
  check_message(s, "a.c:1: TSR_EDTYPE: tsr_and: the second operand is f64[2], expected a bool or "
                   "an integer; convert it "
                   "with tsr_cast");
  fixture_make(TSR__OP_WHERE, f, f, f, "a.c:1");
  check_message(s,
                "a.c:1: TSR_EDTYPE: tsr_where: the condition is f64[2], expected bool; convert it "
                "with tsr_cast");
  fixture_reduce(TSR__OP_SUM, f, f, 0, "a.c:1");
  check_message(s, "a.c:1: TSR_EDTYPE: tsr_sum: the mask is f64[2], expected bool; convert it with "
                   "tsr_cast");
  fixture_make(TSR__OP_TAKE, f, f, NULL, "a.c:1");
  check_message(s,
                "a.c:1: TSR_EDTYPE: tsr_take: the index is f64[2], expected an integer; convert it "
                "with tsr_cast");
  tsr__make(s, TSR__OP_IOTA, TSR__IN_NONE, &(tsr__ask){ .dtype = B, .shape = TSR_SHAPE(2) },
            "a.c:1");
  check_message(
      s, "a.c:1: TSR_EDTYPE: tsr_iota: the requested dtype is bool, expected a number's dtype");
}

TEST(the_extremum_of_nothing_is_an_error)
{
  tsr_scope *s = open_scope();
  tsr_array *x = plain(s, TSR_F64, TSR_SHAPE(3, 0)), *m = plain(s, TSR_BOOL, TSR_SHAPE(3, 0));
  x->node.site = NULL;
  CHECK(fixture_reduce(TSR__OP_MIN, x, NULL, 0, "a.c:1")->inert);
  check_message(s, "a.c:1: TSR_ESHAPE: tsr_min: f64[3,0] has no elements along dim 1, so there is "
                   "no min; give .where to get the dtype's limit instead");
  CHECK(fixture_reduce(TSR__OP_ARGMIN, x, NULL, 0, "a.c:1")->inert);
  CHECK_STR_HAS(tsr_message(s), "there is no argmin; give .where to get -1 instead");
  tsr_scope_clear(s);
  CHECK(!fixture_reduce(TSR__OP_MIN, x, m, 0, "a.c:1")->inert);
  CHECK(!fixture_reduce(TSR__OP_MIN, x, NULL, 1, "a.c:1")->inert); /* no result either */
  CHECK(!fixture_reduce(TSR__OP_SUM, x, NULL, 0, "a.c:1")->inert);
}

TEST(other_shape_errors)
{
  tsr_scope *s = open_scope();
  tsr_array *x = plain(s, TSR_F64, TSR_SHAPE(3)), *m = plain(s, TSR_BOOL, TSR_SHAPE(2));
  tsr_array *wide = plain(s, TSR_F64, TSR_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1)),
            *i = plain(s, TSR_I64, TSR_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1));
  x->node.site = m->node.site = wide->node.site = i->node.site = NULL;
  fixture_reduce(TSR__OP_SUM, x, m, 0, "a.c:1");
  check_message(s, "a.c:1: TSR_ESHAPE: tsr_sum: the mask is bool[2], expected a shape that "
                   "broadcasts to the shape of the operand, f64[3]");
  fixture_reduce(TSR__OP_SUM, x, NULL, 2, "a.c:1");
  check_message(
      s,
      "a.c:1: TSR_EARG: tsr_sum: .dims names a dim that f64[3] does not have; its dims are -1..0");
  fixture_make(TSR__OP_TAKE, wide, i, NULL, "a.c:1");
  check_message(s, "a.c:1: TSR_ESHAPE: tsr_take: the result of f64[1,1,1,1,1,1,1,1,1] at indices "
                   "i64[1,1,1,1,1,1,1,1,1] would have 17 dims, the most is 16");
  fixture_make(TSR__OP_COMPACT, x, m, NULL, "a.c:1");
  check_message(
      s, "a.c:1: TSR_ESHAPE: tsr_compact: the mask is bool[2], expected one element for each "
         "row of f64[3]");
}

TEST(bad_specs_are_the_calls_error)
{
  tsr_scope *s = open_scope();
  tsr_mesh *mesh = tsr_mesh_make(s->rt, "x=2,y=4");
  tsr_sharding bad = tsr_on(mesh, "z");
  tsr_array *x = plain(s, TSR_F64, TSR_SHAPE(3));
  tsr_array *r =
      tsr__make(s, TSR__OP_RESHARD, TSR__IN(x), &(tsr__ask){ .sharding = &bad }, "a.c:1");
  CHECK(r->inert);
  CHECK_STATUS(tsr_scope_status(s), TSR_EAXIS, s);
  tsr_scope_clear(s);
  tsr_sharding long_one = tsr_on(mesh, "x,y");
  tsr__make(s, TSR__OP_RESHARD, TSR__IN(x), &(tsr__ask){ .sharding = &long_one }, "a.c:1");
  CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
  tsr_scope_clear(s);
  tsr_sharding again = tsr_on(mesh, "x");
  again = tsr__sharding_canon(&again); /* the canonical form is as good */
  CHECK(!tsr__make(s, TSR__OP_RESHARD, TSR__IN(x), &(tsr__ask){ .sharding = &again }, "a.c:1")
             ->inert);
}

/* ---- nodes ---- */

TEST(inert_operands_make_inert_results_silently)
{
  tsr_scope *s = open_scope();
  tsr_array *x = plain(s, TSR_F64, TSR_SHAPE(3));
  tsr_array *bad = fixture_make(TSR__OP_NOT, x, NULL, NULL, "first.c:1");
  tsr_array *worse = fixture_make(TSR__OP_ADD, x, bad, NULL, "second.c:2");
  CHECK(bad->inert && worse->inert);
  CHECK_STR_HAS(tsr_message(s), "first.c:1");
  CHECK(worse == bad); /* whose scope has the reason, wherever the result would have lived */
  CHECK(!fixture_make(TSR__OP_ADD, x, x, NULL, "third.c:3")->inert);
}

TEST(null_and_deleted_operands_are_errors)
{
  tsr_scope *s = open_scope();
  tsr_array *x = plain(s, TSR_F64, TSR_SHAPE(3));
  CHECK(fixture_make(TSR__OP_ADD, x, NULL, NULL, "a.c:1")->inert);
  check_message(s, "a.c:1: TSR_EARG: tsr_add: operand 2 is NULL; give an array");
  x->deleted = 1;
  x->node.site = "a.c:7";
  CHECK(fixture_make(TSR__OP_NEG, x, NULL, NULL, "a.c:8")->inert);
  check_message(s,
                "a.c:8: TSR_ESTATE: tsr_neg: operand 1, made at a.c:7, was deleted; use it before "
                "tsr_delete");
  CHECK(tsr__make(NULL, TSR__OP_NEG, TSR__IN_NONE, &(tsr__ask){ 0 }, "a.c:9")->inert);
}

TEST(results_live_in_the_innermost_scope)
{
  tsr_scope *outer = open_scope(), *inner = tsr_scope_open(outer);
  tsr_array *a = plain(outer, TSR_F64, TSR_SHAPE(3)), *b = plain(inner, TSR_F32, TSR_SHAPE(3));
  CHECK(fixture_make(TSR__OP_ADD, a, b, NULL, "a.c:1")->node.scope == inner);
  CHECK(fixture_make(TSR__OP_ADD, b, a, NULL, "a.c:1")->node.scope == inner);
  CHECK(fixture_make(TSR__OP_ADD, a, a, NULL, "a.c:1")->node.scope == outer);
}

TEST(runtimes_do_not_mix)
{
  tsr_scope *s = open_scope(), *other = open_scope();
  tsr_array *a = plain(s, TSR_F64, TSR_SHAPE(3)), *b = plain(other, TSR_F64, TSR_SHAPE(3));
  CHECK(fixture_make(TSR__OP_ADD, a, b, NULL, "a.c:1")->inert);
  check_message(s, "a.c:1: TSR_EARG: tsr_add: operand 2 belongs to another runtime; read the array "
                   "there and place it here with tsr_put");
}

/* A square is a product: rounded once, and as fast. */
TEST(powers_of_two_are_products)
{
  tsr_scope *s = open_scope();
  tsr_array *x = plain(s, TSR_F64, TSR_SHAPE(3)), *i = plain(s, TSR_I32, TSR_SHAPE(3));
  tsr_array *real = fixture_make(TSR__OP_POW, x, fixture_number(s, TSR_F64, 2), NULL, "a.c:1");
  CHECK(real->op == TSR__OP_MUL && real->in[0] == x && real->in[1] == x);
  CHECK_I64(fixture_make(TSR__OP_POW, i, fixture_number(s, TSR_I32, 2), NULL, NULL)->op,
            TSR__OP_MUL);
  tsr_array *wide = fixture_make(TSR__OP_POW, i, fixture_number(s, TSR_I64, 2), NULL, "a.c:1");
  CHECK(wide->op == TSR__OP_POW && wide->dtype == TSR_I64);
  CHECK_I64(fixture_make(TSR__OP_POW, x, fixture_number(s, TSR_F64, 3), NULL, NULL)->op,
            TSR__OP_POW);
  CHECK_I64(fixture_make(TSR__OP_POW, x, x, NULL, NULL)->op, TSR__OP_POW);
}

TEST(integers_are_their_own_rounding)
{
  tsr_scope *s = open_scope();
  tsr_array *x = plain(s, TSR_I64, TSR_SHAPE(3));
  CHECK(fixture_make(TSR__OP_FLOOR, x, NULL, NULL, "a.c:1") == x);
}
