/* The wording of explanations, whole texts: wording is API. */
#include <stdio.h>
#include <string.h>

#include "support/leaf_fixture.h"
#include "tessera.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_mesh *mesh;
  tsr_scope *s;
  tsr__program p;
  tsr__partitioned parts;
} fixture;

static fixture open_fixture(void)
{
  fixture f = { .rt = fixture_devices("cpu:8") };
  f.mesh = tsr_mesh_make(f.rt, "x=2,y=4");
  f.s = tsr_scope_open(f.rt);
  tsr__program_init(&f.p, &f.rt->heap);
  return f;
}

static tsr_array *on(fixture *f, tsr_shape shape, const char *spec, const char *site)
{
  tsr_array *a = fixture_leaf(f->s, TSR_F64, shape, spec ? f->mesh : NULL, spec);
  a->node.site = site;
  return a;
}

static tsr_array *moved(fixture *f, tsr__op op, tsr_array *a, const char *spec, const char *site)
{
  tsr_sharding at = tsr_on(f->mesh, spec);
  tsr__operands in = TSR__IN(a);
  return tsr__make(f->s, op, in, &(tsr__ask){ .sharding = &at }, site);
}

static void check_explained(fixture *f, tsr_array *const *roots, int count,
                            const int64_t (*counted)[2], const char *expected)
{
  tsr__error error = { .status = TSR_OK };
  tsr__text text;
  tsr__text_init(&text, &f->rt->heap);
  tsr__program_clear(&f->p);
  if (tsr__program_trace(&f->p, roots, count, &error)) FAIL("%s", error.text);
  if (tsr__partition(&f->p, &f->rt->heap, &f->parts, &error)) FAIL("%s", error.text);
  tsr__explain_print(&f->parts, counted, NULL, &text);
  CHECK_STR(tsr__text_get(&text), expected);
  tsr__text_free(&text);
  tsr__partitioned_free(&f->parts, &f->rt->heap);
}

TEST(nothing_to_say)
{
  fixture f = open_fixture();
  tsr_array *r = fixture_make(TSR__OP_NEG, on(&f, TSR_SHAPE(8), "x", NULL), NULL, NULL, NULL);
  check_explained(&f, &r, 1, NULL, "nothing moves between devices\n");
}

TEST(the_example_of_the_guide)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8, 8), "x,y", "dir/normalise.c:12");
  tsr_array *a =
      fixture_make(TSR__OP_MUL, x, fixture_number(f.s, TSR_F64, 2), NULL, "normalise.c:13");
  tsr_array *mean = fixture_reduce(TSR__OP_MEAN, x, NULL, 0, "normalise.c:13");
  tsr_array *z = fixture_make(TSR__OP_DIV, a, mean, NULL, "normalise.c:13");
  tsr_array *sum = fixture_reduce(TSR__OP_SUM, z, NULL, 0, "normalise.c:14");
  check_explained(&f, &sum, 1, NULL,
                  "all-reduce over x=2,y=4: 1988 bytes\n"
                  "    because mean at normalise.c:13 reduces sharded dims of %0 f64[8,8]@(x,y)\n"
                  "all-reduce over x=2,y=4: 1988 bytes\n"
                  "    because sum at normalise.c:14 reduces sharded dims of %3 f64[8,8]@(x,y)\n");
}

TEST(what_travels_together_is_counted)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8), "x+y", NULL);
  tsr_array *r[3] = { fixture_reduce(TSR__OP_SUM, x, NULL, 0, "agg.c:3"),
                      fixture_reduce(TSR__OP_MIN, x, NULL, 0, "agg.c:3"),
                      fixture_reduce(TSR__OP_STD, x, NULL, 0, "agg.c:3") };
  static const int64_t counted[1][2] = { { 7924 + 3 * 552, 3 * 552 } };
  check_explained(
      &f, r, 3, NULL,
      "all-reduce over x=2,y=4: 5992 bytes\n"
      "    because sum at agg.c:3 reduces sharded dims of %0 f64[8]@(x+y), min at agg.c:3 those of "
      "%0 f64[8]@(x+y) and std at agg.c:3 those of %0 f64[8]@(x+y); 3 partial results travel "
      "together\n");
  check_explained(&f, r, 3, counted,
                  "all-reduce over x=2,y=4: 5992 bytes, 9580 counted of which 1656 for sums too "
                  "wide for their fixed form\n    because sum at agg.c:3 reduces sharded dims of "
                  "%0 f64[8]@(x+y), min at agg.c:3 those of %0 f64[8]@(x+y) and std at agg.c:3 "
                  "those of %0 f64[8]@(x+y); 3 partial results travel together\n");
}

/* Numbers are those of tsr_dump: u is %3 there, whatever was put between. */
TEST(operands_that_lie_differently)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8, 8), "x,y", "a.c:1"),
            *y = on(&f, TSR_SHAPE(8, 8), "y", "a.c:2");
  tsr_array *u = on(&f, TSR_SHAPE(8), NULL, "a.c:3");
  tsr_array *r = fixture_make(TSR__OP_ADD, x, y, NULL, "a.c:4");
  r = fixture_make(TSR__OP_MUL, r, u, NULL, "a.c:5");
  check_explained(
      &f, &r, 1, NULL,
      "all-to-all over y=4: 384 bytes\n    %1 f64[8,8]@(y,-) -> f64[8,8]@(x,y), because add at "
      "a.c:4 needs its operand in this sharding\n    cheaper: put %1 with spec x,y (0 "
      "bytes)\nbroadcast over x=2,y=4: 112 bytes\n    %3 f64[8] -> f64[8]@(y), because mul at "
      "a.c:5 combines unplaced data with placed data\n    cheaper: put %3 with spec y (0 bytes)\n");
}

TEST(moves_that_were_asked_for)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8, 8), "-", "a.c:1");
  tsr_array *sliced = moved(&f, TSR__OP_CONSTRAIN, x, "x,y", "a.c:2");
  tsr_array *r = moved(&f, TSR__OP_RESHARD, fixture_make(TSR__OP_NEG, sliced, NULL, NULL, "a.c:3"),
                       "x+y", "a.c:4");
  check_explained(
      &f, &r, 1, NULL,
      "slice: 0 bytes\n    %0 f64[8,8]@(-,-) -> %1 f64[8,8]@(x,y), because reshard at a.c:2 asks "
      "for this sharding\nall-to-all over y=4: 384 bytes\n    %2 f64[8,8]@(x,y) -> %3 "
      "f64[8,8]@(x+y,-), because reshard at a.c:4 asks for this sharding\n");
}

/* Where a constraint is met before, it is the constraint that says why. */
TEST(constraints_answer_for_what_moves_before_them)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F32, TSR_SHAPE(8), f.mesh, "x");
  tsr__operands in = TSR__IN(x);
  tsr_array *wide = tsr__make(f.s, TSR__OP_CAST, in, &(tsr__ask){ .dtype = TSR_F64 }, "a.c:1");
  tsr_array *r = moved(&f, TSR__OP_CONSTRAIN, fixture_make(TSR__OP_NEG, wide, NULL, NULL, "a.c:2"),
                       "y", "a.c:3");
  check_explained(&f, &r, 1, NULL,
                  "all-gather over x=2: 32 bytes\n    %0 f32[8]@(x) -> f32[8]@(y), because reshard "
                  "at a.c:3 asks for this sharding\n    cheaper: put %0 with spec y (0 bytes)\n");
}

TEST(tables_meshes_and_rows)
{
  fixture f = open_fixture();
  tsr_mesh *other = tsr_mesh_make(f.rt, "a=4,b=2");
  tsr_array *t = on(&f, TSR_SHAPE(4), "x", "a.c:1");
  tsr_array *i = fixture_leaf(f.s, TSR_I64, TSR_SHAPE(16), f.mesh, "y");
  tsr_array *take = fixture_make(TSR__OP_TAKE, t, i, NULL, "a.c:2");
  tsr_array *big = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(2, 16), other, "-,a");
  tsr_array *m = fixture_leaf(f.s, TSR_BOOL, TSR_SHAPE(16), f.mesh, "y");
  tsr_array *kept = fixture_make(TSR__OP_COMPACT, i, m, NULL, "a.c:4");
  tsr_array *r[2] = { fixture_make(TSR__OP_ADD, take, big, NULL, "a.c:3"),
                      fixture_make(TSR__OP_REBALANCE, kept, NULL, NULL, "a.c:5") };
  check_explained(
      &f, r, 2, NULL,
      "all-gather over x=2: 128 bytes\n    %0 f64[4]@(x) -> f64[4]@(-), because take at a.c:2 "
      "needs dim 0 whole on every device\n    cheaper: put %0 with spec - (0 bytes)\npermute over "
      "a=4,b=2: 192 bytes\n    %2 f64[16]@(y) -> f64[16]@(a), because add at a.c:3 has operands on "
      "two meshes\nrebalance over y=4: bytes known after the run\n    %6 i64[?]@(y) -> %7 "
      "i64[?]@(y), because rebalance at a.c:5 evens out the rows that a filter left\n");
}

/* Those of which only a part is read from somewhere on, and no others. */
TEST(dims_that_must_be_whole_are_named)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(8, 8), "x,y", "a.c:1");
  tsr_array *i = fixture_leaf(f.s, TSR_I64, TSR_SHAPE(2), f.mesh, "-");
  tsr_array *r[2] = { tsr_dynamic_slice_at(x, i, TSR_SHAPE(2, 8), "a.c:2"),
                      tsr_dynamic_slice_at(x, i, TSR_SHAPE(2, 2), "a.c:3") };
  check_explained(&f, &r[0], 1, NULL,
                  "all-gather over x=2: 512 bytes\n"
                  "    %0 f64[8,8]@(x,y) -> f64[8,8]@(-,y), because dynamic_slice at a.c:2 needs "
                  "dim 0 whole on every device\n"
                  "    cheaper: put %0 with spec -,y (0 bytes)\n");
  check_explained(&f, &r[1], 1, NULL,
                  "all-gather over x=2,y=4: 3584 bytes\n"
                  "    %0 f64[8,8]@(x,y) -> f64[8,8]@(-,-), because dynamic_slice at a.c:3 needs "
                  "dims 0 and 1 whole on every device\n"
                  "    cheaper: put %0 with spec -,- (0 bytes)\n");
}

TEST(tilings_with_nothing_in_common_are_warned_about)
{
  fixture f = open_fixture();
  tsr_mesh *other = tsr_mesh_make(f.rt, "a=8");
  tsr_array *x = on(&f, TSR_SHAPE(8, 8), "x,y", NULL);
  tsr_sharding at = tsr_on(other, "-,a");
  tsr__operands in = TSR__IN(fixture_make(TSR__OP_NEG, x, NULL, NULL, NULL));
  tsr_array *r = tsr__make(f.s, TSR__OP_RESHARD, in, &(tsr__ask){ .sharding = &at }, "a.c:2");
  /* each device gets a column of 8; devices 0 and 7 hold 4 elements of theirs */
  check_explained(
      &f, &r, 1, NULL,
      "rematerialise over a=8: 448 bytes\n    %1 f64[8,8]@(x,y) -> %2 f64[8,8]@(-,a), because "
      "reshard at a.c:2 asks for this sharding\n    warning: the two shardings have nothing in "
      "common, so nearly all elements move\n    cheaper: put %0 with spec -,a (0 bytes)\n");
}

/* Another dim could have been cut instead. */
TEST(a_cheaper_cut_for_a_reduction)
{
  fixture f = open_fixture();
  tsr_array *r =
      fixture_reduce(TSR__OP_SUM, on(&f, TSR_SHAPE(64, 64), "-,y", NULL), NULL, 2, "a.c:2");
  check_explained(&f, &r, 1, NULL,
                  "all-reduce over y=4: 12288 bytes\n"
                  "    because sum at a.c:2 reduces sharded dims of %0 f64[64,64]@(-,y)\n"
                  "    cheaper: put %0 with spec y,- (0 bytes)\n");
}

/* Elementwise steps on the way do not hide the put; a second user of it does. */
TEST(the_put_behind_elementwise_steps_is_named)
{
  fixture f = open_fixture();
  tsr_array *x = on(&f, TSR_SHAPE(16, 8), "x", NULL), *y = on(&f, TSR_SHAPE(8), "x", NULL);
  tsr_array *step = fixture_make(TSR__OP_MUL, y, fixture_number(f.s, TSR_F64, 2), NULL, NULL);
  step = fixture_make(TSR__OP_NEG, step, NULL, NULL, NULL);
  tsr_array *r[2] = { fixture_make(TSR__OP_ADD, x, step, NULL, "a.c:1"),
                      fixture_make(TSR__OP_NEG, y, NULL, NULL, NULL) };
  check_explained(
      &f, r, 1, NULL,
      "all-gather over x=2: 256 bytes\n    %3 f64[8]@(x) -> f64[8]@(-), because add at a.c:1 needs "
      "its operand in this sharding\n    cheaper: put %1 with spec - (0 bytes)\n");
  check_explained(&f, r, 2, NULL,
                  "all-gather over x=2: 256 bytes\n    %3 f64[8]@(x) -> f64[8]@(-), because add at "
                  "a.c:1 needs its operand in this sharding\n");
}

/* Prose folds at the last blank that fits, what continues a line stands four deeper; what has no
 * blanks is cut; columns of a terminal count, not bytes. */
TEST(lines_fold_at_80_columns)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr__text in, out;
  char digits[100];
  memset(digits, '7', 99);
  digits[99] = 0;
  tsr__text_init(&in, &rt->heap);
  tsr__text_init(&out, &rt->heap);
  tsr__text_add(&in, "short\n\n    %.36s %.39s end\n", digits, digits);
  tsr__text_add(&in, "  %.77s a b\n%s\nüü %.77s x\n", digits, digits, digits);
  tsr__explain_fold(&out, &in);
  char expected[1000];
  snprintf(expected, sizeof expected,
           "short\n\n    %.36s %.39s\n        end\n  %.77s\n      a b\n%.80s\n    %.19s\n"
           "üü %.77s\n"
           "    x\n",
           digits, digits, digits, digits, digits, digits);
  CHECK_STR(tsr__text_get(&out), expected);
  tsr__text_free(&in);
  tsr__text_free(&out);
  tsr_runtime_close(rt);
}

/* ---- loops ----------------------------------------------------------------------------------- */

static tsr_array *adds_up(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, tsr_add_at(in[0], tsr_operand_array(tsr_sum(in[1])), "b.c:1"), in[0]);
}

static tsr_array *twice(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], 2);
}

static tsr_array *total(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(in[0]);
}

static tsr_array *first(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_max(in[0]);
}

static fixture open_devices(void)
{
  fixture f = { .rt = tsr_runtime_open("cpu:8") };
  f.mesh = tsr_mesh_make(f.rt, "x=2,y=4");
  f.s = tsr_scope_open(f.rt);
  return f;
}

static tsr_array *steps(fixture *f, const char *spec)
{
  tsr_array *xs = tsr_full(f->s, 2, TSR_F64, TSR_SHAPE(8, 16), tsr_on(f->mesh, spec));
  CHECK_STATUS(tsr_eval(&xs, 1), TSR_OK, f->s);
  tsr_loop_args args = { .size = sizeof args,
                         .carry = tsr_full(f->s, 0, TSR_F64, (tsr_shape){ 0 }, tsr_on(f->mesh, "")),
                         .xs = xs };
  return tsr_item(tsr_scan_at(adds_up, NULL, &args, "a.c:7"), 0);
}

/* What moves inside of a loop moves: that nothing does is said only where it is so all the way
 * in. */
TEST(nothing_moves_only_where_nothing_does)
{
  fixture f = open_devices();
  tsr_array *r = steps(&f, "-,x"), *still = steps(&f, "");
  CHECK(!strstr(tsr_explain(&r, 1), "nothing moves"));
  CHECK_STR_HAS(tsr_explain(&r, 1),
                "in each of 8 steps of scan at a.c:7:\n  all-reduce over x=2: ");
  CHECK(!strncmp(tsr_explain(&still, 1), "nothing moves between devices\n", 30));
  CHECK(!strstr(tsr_explain(&still, 1), "all-reduce"));
  tsr_array *x = tsr_full(f.s, 2, TSR_F64, TSR_SHAPE(16), tsr_on(f.mesh, "x"));
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, f.s);
  tsr_array *yes = tsr_full(f.s, 1, TSR_BOOL, (tsr_shape){ 0 }, tsr_on(f.mesh, ""));
  tsr_array *one = tsr_cond(yes, total, first, NULL, x);
  CHECK(!strstr(tsr_explain(&one, 1), "nothing moves"));
  CHECK_STR_HAS(tsr_explain(&one, 1), "at most once, in body 1 of ");
  tsr_array *both = tsr_add(tsr_cond(yes, twice, twice, NULL, x), x);
  CHECK(!strncmp(tsr_explain(&both, 1), "nothing moves between devices\n", 30));
  tsr_runtime_close(f.rt);
}

/* A loop goes along what is cut: nobody asked for that, and its line is told. Nor did anybody ask
 * for what a step leaves to lie as the next one takes it. */
TEST(what_a_loop_moves_was_not_asked_for)
{
  fixture f = open_devices();
  tsr_array *r = steps(&f, "x");
  CHECK_STR_HAS(tsr_explain(&r, 1), "all-gather over x=2: ");
  CHECK_STR_HAS(tsr_explain(&r, 1),
                ", because the loop at a.c:7 reads one\n        slice of dim 0 per step");
  CHECK(!strstr(tsr_explain(&r, 1), "asks for"));
  tsr_array *at = tsr_reshard_at(r, tsr_on(f.mesh, ""), "a.c:9");
  CHECK(!strstr(tsr_explain(&at, 1),
                "a.c:9 asks for this sharding")); /* x has this sharding already */
  tsr_runtime_close(f.rt);
}
