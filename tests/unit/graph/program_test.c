/* Tracing: order, merging, what becomes a leaf, what is refused; programs as keys; their text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/leaf_fixture.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_mesh *mesh;
  tsr_scope *s;
  tsr__program p;
  tsr__error error;
} fixture;

static fixture open_fixture(void)
{
  fixture f = { .rt = fixture_devices("cpu:8") };
  f.mesh = tsr_mesh_make(f.rt, "x=2,y=4");
  f.s = tsr_scope_open(f.rt);
  tsr__program_init(&f.p, &f.rt->heap);
  return f;
}

/* Process `index` of two that hold four devices each. */
static fixture open_process(int index)
{
  fixture f = { .rt = fixture_devices("cpu:4") };
  CHECK(tsr__topology_spread(f.rt, 2, index));
  f.mesh = tsr_mesh_make(f.rt, "x=2,y=4");
  CHECK_STATUS(tsr_mesh_status(f.mesh), TSR_OK, NULL);
  f.s = tsr_scope_open(f.rt);
  tsr__program_init(&f.p, &f.rt->heap);
  return f;
}

static void trace(fixture *f, tsr_array *const *roots, int count)
{
  tsr__program_clear(&f->p);
  f->error = (tsr__error){ .status = TSR_OK };
  tsr_status status = tsr__program_trace(&f->p, roots, count, &f->error);
  if (status) FAIL("trace: %s", f->error.text);
  status = tsr__program_verify(&f->p, &f->error);
  if (status) FAIL("verify: %s", f->error.text);
}

static int count_op(const tsr__program *p, int op)
{
  int count = 0;
  for (int n = 0; n < p->node_count; n++) count += p->nodes[n].op == op;
  return count;
}

TEST(operands_stand_before_users)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8, 8), f.mesh, "x,y");
  tsr_array *a = fixture_make(TSR__OP_MUL, x, fixture_number(f.s, TSR_F64, 2), NULL, "a.c:1");
  tsr_array *mean = fixture_reduce(TSR__OP_MEAN, x, NULL, 0, "a.c:1");
  tsr_array *r = fixture_make(TSR__OP_DIV, a, mean, NULL, "a.c:1");
  trace(&f, &r, 1);
  CHECK_I64(f.p.node_count, 5);
  CHECK_I64(r->mark - 1, 4);
  CHECK_I64(f.p.nodes[4].flags, TSR__ROOT);
  CHECK(f.p.arrays[0] == x);
  CHECK_I64(f.p.nodes[0].flags, TSR__PLACED);
  CHECK_I64(f.p.nodes[0].sharding, 1);
  CHECK_I64(f.p.sharding_count, 2);
  CHECK_I64(f.p.param_count, 1);
  CHECK_F64_BITS(f.p.params[0].f, 2);
  CHECK_STR(f.p.sites[4], "a.c:1");
}

TEST(equal_nodes_are_one)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL),
            *two = fixture_number(f.s, TSR_F64, 2);
  tsr_array *a = fixture_make(TSR__OP_MUL, x, two, NULL, "a.c:1");
  tsr_array *b = fixture_make(TSR__OP_MUL, x, two, NULL, "a.c:2");
  tsr_array *r[3] = { fixture_make(TSR__OP_ADD, a, b, NULL, "a.c:3"),
                      fixture_reduce(TSR__OP_SUM, a, NULL, 0, "a.c:4"),
                      fixture_reduce(TSR__OP_SUM, b, NULL, 1, "a.c:5") };
  trace(&f, r, 3);
  CHECK_I64(count_op(&f.p, TSR__OP_MUL), 1);
  CHECK_I64(count_op(&f.p, TSR__OP_SUM), 1);
  CHECK_I64(r[1]->mark, r[2]->mark);
  const tsr__gnode *sum = &f.p.nodes[r[0]->mark - 1];
  CHECK_I64(tsr__in(&f.p, sum, 0), tsr__in(&f.p, sum, 1));
}

/* Thousands of nodes whose newest operand is the same one, each made twice. */
TEST(equal_nodes_are_one_however_many_share_an_operand)
{
  enum { N = 3000 };
  fixture f = open_fixture();
  tsr_array **roots = malloc((3 * N + 1) * sizeof *roots);
  for (int i = 0; i <= N; i++) roots[i] = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL);
  for (int i = 0; i < 2 * N; i++)
    roots[N + 1 + i] = fixture_make(TSR__OP_ADD, roots[i % N], roots[N], NULL, NULL);
  trace(&f, roots, 3 * N + 1);
  CHECK_I64(f.p.node_count, 2 * N + 1);
  for (int i = 0; i < N; i++) CHECK_I64(roots[N + 1 + i]->mark, roots[2 * N + 1 + i]->mark);
  free(roots);
}

/* Equal numbers at two places may differ in the next run, which must find the same plan. */
TEST(numbers_are_never_merged_by_value)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL);
  tsr_array *a = fixture_make(TSR__OP_MUL, x, fixture_number(f.s, TSR_F64, 2), NULL, "a.c:1");
  tsr_array *b = fixture_make(TSR__OP_MUL, x, fixture_number(f.s, TSR_F64, 2), NULL, "a.c:1");
  tsr_array *r = fixture_make(TSR__OP_ADD, a, b, NULL, "a.c:3");
  trace(&f, &r, 1);
  CHECK_I64(count_op(&f.p, TSR__OP_MUL), 2);
  CHECK_I64(count_op(&f.p, TSR__OP_CONST), 2);
  tsr__ask ask = { .dtype = TSR_F64, .shape = TSR_SHAPE(8), TSR__NUMBERS({ .i = 7 }, { .i = 1 }) };
  tsr_array *u = tsr__make(f.s, TSR__OP_UNIFORM, TSR__IN_NONE, &ask, "a.c:4");
  tsr_array *v = tsr__make(f.s, TSR__OP_UNIFORM, TSR__IN_NONE, &ask, "a.c:4");
  r = fixture_make(TSR__OP_ADD, u, v, NULL, "a.c:5");
  trace(&f, &r, 1);
  CHECK_I64(count_op(&f.p, TSR__OP_UNIFORM), 2);
  CHECK_I64(f.p.param_count, 4);
}

TEST(a_number_alone_is_held_by_an_array)
{
  fixture f = open_fixture();
  tsr_array *n = fixture_number(f.s, TSR_I64, 5), *roots[2] = { n, n };
  trace(&f, roots, 2);
  CHECK_I64(f.p.node_count, 2);
  CHECK_I64(f.p.nodes[n->mark - 1].op, TSR__OP_FULL);
  CHECK_I64(f.p.nodes[n->mark - 1].flags, TSR__ROOT);
}

/* An evaluated node stands for itself: nothing below it is traced. */
TEST(evaluated_nodes_are_leaves)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), f.mesh, "x");
  tsr_array *a = fixture_make(TSR__OP_NEG, x, NULL, NULL, "a.c:1");
  tsr_array *r = fixture_reduce(TSR__OP_SUM, a, NULL, 0, "a.c:2");
  a->value = x->value;
  tsr__value_hold(a->value);
  a->sharding = x->sharding;
  trace(&f, &r, 1);
  CHECK_I64(f.p.node_count, 2);
  CHECK_I64(f.p.nodes[0].op, TSR__OP_LEAF);
  CHECK(f.p.arrays[0] == a);
  CHECK_I64(f.p.nodes[0].flags, TSR__PLACED);
}

/* Rows as a filter left them: the size is not in the plan's key. */
TEST(ragged_leaves_have_a_size_known_at_run_time)
{
  fixture f = open_fixture();
  static const int64_t rows[8] = { 3, 1, 0, 0, 2, 2, 2, 2 };
  tsr_array *x = fixture_ragged(f.s, TSR_F64, TSR_SHAPE(12), f.mesh, "x+y", rows);
  tsr_array *r = fixture_make(TSR__OP_ADD, x, x, NULL, "a.c:1");
  CHECK_I64(r->shape.dims[0], TSR__DYNAMIC);
  trace(&f, &r, 1);
  CHECK_I64(f.p.nodes[0].flags, TSR__PLACED | TSR__RAGGED);
  CHECK_I64(f.p.nodes[0].dims[0], TSR__DYNAMIC);
}

/* A rebalanced array that was evaluated has a size now, and so has what was made of it before. */
TEST(sizes_that_became_known_are_used)
{
  fixture f = open_fixture();
  static const int64_t rows[8] = { 3, 1, 0, 0, 2, 2, 2, 2 };
  tsr_array *x = fixture_ragged(f.s, TSR_F64, TSR_SHAPE(12), f.mesh, "x+y", rows);
  tsr_array *even = fixture_make(TSR__OP_REBALANCE, x, NULL, NULL, "a.c:1");
  tsr_array *r = fixture_make(TSR__OP_NEG, even, NULL, NULL, "a.c:2");
  CHECK_I64(r->shape.dims[0], TSR__DYNAMIC);
  tsr_array *known = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(12), f.mesh, "x+y");
  even->value = known->value;
  tsr__value_hold(even->value);
  even->shape = known->shape;
  even->sharding = known->sharding;
  trace(&f, &r, 1);
  CHECK_I64(f.p.nodes[r->mark - 1].dims[0], 12);
}

/* Marks of an earlier program, or of another one, mean nothing. */
TEST(programs_do_not_disturb_each_other)
{
  fixture f = open_fixture();
  tsr__program other;
  tsr__program_init(&other, &f.rt->heap);
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL);
  tsr_array *a = fixture_make(TSR__OP_NEG, x, NULL, NULL, "a.c:1");
  tsr_array *b = fixture_make(TSR__OP_ABS, a, NULL, NULL, "a.c:2");
  tsr_array *c = fixture_make(TSR__OP_ADD, b, a, NULL, "a.c:3");
  for (int i = 0; i < 100; i++) {
    trace(&f, i & 1 ? &b : &c, 1);
    CHECK_I64(f.p.node_count, i & 1 ? 3 : 4);
    tsr__program_clear(&other);
    CHECK_STATUS(tsr__program_trace(&other, &a, 1, &f.error), TSR_OK, NULL);
    CHECK_I64(other.node_count, 2);
  }
}

TEST_TIMEOUT(deep_chains_trace_without_recursion, 20)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), f.mesh, "x"), *a = x;
  int depth = 100000;
  for (int i = 0; i < depth; i++)
    a = fixture_make(i & 1 ? TSR__OP_NEG : TSR__OP_ABS, a, NULL, NULL, "a.c:1");
  trace(&f, &a, 1);
  CHECK_I64(f.p.node_count, depth + 1);
  CHECK(tsr__program_hash(&f.p) != 0);
}

/* Twice the sum of two equal halves, 40 times over: 2^40 paths, 41 nodes. */
TEST(shared_nodes_are_visited_once)
{
  fixture f = open_fixture();
  tsr_array *a = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL);
  for (int i = 0; i < 40; i++) a = fixture_make(TSR__OP_ADD, a, a, NULL, "a.c:1");
  trace(&f, &a, 1);
  CHECK_I64(f.p.node_count, 41);
}

/* ---- refusals ---- */

static void check_refused(fixture *f, tsr_array *root, tsr_status status, const char *text)
{
  tsr__program_clear(&f->p);
  f->error = (tsr__error){ .status = TSR_OK };
  CHECK_STATUS(tsr__program_trace(&f->p, &root, 1, &f->error), status, NULL);
  CHECK_STR(f->error.text, text);
}

TEST(inert_roots_report_their_scopes_error)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL);
  x->node.site = NULL;
  tsr_array *bad = fixture_make(TSR__OP_NOT, x, NULL, NULL, "bad.c:1");
  check_refused(
      &f, bad, TSR_EDTYPE,
      "a call before failed: bad.c:1: TSR_EDTYPE: tsr_not: the operand is f64[8], expected "
      "a bool or an integer; convert it with tsr_cast");
  tsr_scope_clear(f.s);
  check_refused(&f, bad, TSR_ESTATE,
                "the array made at bad.c:1 is the result of a failed call whose error was cleared");
  check_refused(&f, tsr__make_inert(NULL, NULL), TSR_EARG,
                "an array was made in a scope that is NULL or was never opened");
  check_refused(&f, NULL, TSR_EARG, "array 1 is NULL; give an array");
}

TEST(deleted_arrays_are_refused_unless_nodes_were_made_before)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), NULL, NULL);
  tsr_array *r = fixture_make(TSR__OP_NEG, x, NULL, NULL, "a.c:2");
  x->node.site = "a.c:1";
  x->deleted = 1;
  check_refused(&f, x, TSR_ESTATE, "the array made at a.c:1 was deleted; use it before tsr_delete");
  trace(&f, &r, 1); /* it still has its value */
  tsr__value_release(x->value);
  x->value = NULL;
  check_refused(&f, r, TSR_ESTATE, "the array made at a.c:1 was deleted; use it before tsr_delete");
}

TEST(no_memory_is_an_error_and_loses_nothing)
{
  fixture f = open_fixture();
  tsr_array *a = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8), f.mesh, "x");
  for (int i = 0; i < 200; i++) a = fixture_make(TSR__OP_NEG, a, NULL, NULL, "a.c:1");
  for (int64_t fail = 1, done = 0; !done; fail++) {
    struct test_alloc state = { .fail_at = fail };
    tsr_allocator allocator = test_allocator(&state);
    tsr__heap heap;
    tsr__heap_init(&heap, &allocator);
    tsr__program p, copy;
    tsr__program_init(&p, &heap);
    tsr__program_init(&copy, &heap);
    tsr__error error = { .status = TSR_OK };
    tsr_status status = tsr__program_trace(&p, &a, 1, &error);
    if (!status) status = tsr__program_copy(&copy, &p, &heap);
    CHECK(status == TSR_OK || status == TSR_ENOMEM);
    done = status == TSR_OK;
    tsr__program_free(&copy);
    tsr__program_free(&p);
    CHECK_I64(state.live, 0);
  }
}

/* ---- keys ---- */

static tsr_array *formula(fixture *f, double number, tsr_mesh *mesh, const char *spec)
{
  tsr_array *x = fixture_leaf(f->s, TSR_F64, TSR_SHAPE(8, 8), mesh, spec);
  tsr_array *a = fixture_make(TSR__OP_MUL, x, fixture_number(f->s, TSR_F64, number), NULL, "a.c:1");
  return fixture_reduce(TSR__OP_SUM, a, NULL, 1, "a.c:2");
}

TEST(keys_depend_on_structure_and_not_on_values)
{
  fixture f = open_fixture();
  tsr__program q;
  tsr__program_init(&q, &f.rt->heap);
  tsr_mesh *other = tsr_mesh_make(f.rt, "a=2,b=4");
  static const struct {
    double number;
    bool other_mesh;
    const char *spec;
    bool same;
  } cases[] = { { 2, false, "x,y", true },
                { 3, false, "x,y", true },
                { 2, false, "y,x", false },
                { 2, false, "x", false },
                { 2, true, "a,b", false } };
  tsr_array *first = formula(&f, 2, f.mesh, "x,y");
  CHECK_STATUS(tsr__program_trace(&q, &first, 1, &f.error), TSR_OK, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_array *r =
        formula(&f, cases[i].number, cases[i].other_mesh ? other : f.mesh, cases[i].spec);
    trace(&f, &r, 1);
    CHECK(tsr__program_same(&f.p, &q) == cases[i].same);
    CHECK((tsr__program_hash(&f.p) == tsr__program_hash(&q)) == cases[i].same);
  }
}

TEST(copies_are_equal_and_bound_to_nothing)
{
  fixture f = open_fixture();
  tsr__program copy;
  tsr_array *r = formula(&f, 2, f.mesh, "x,y");
  trace(&f, &r, 1);
  CHECK_STATUS(tsr__program_copy(&copy, &f.p, &f.rt->heap), TSR_OK, NULL);
  CHECK(tsr__program_same(&copy, &f.p));
  CHECK_U64(tsr__program_hash(&copy), tsr__program_hash(&f.p));
  CHECK(!copy.params && !copy.arrays && !copy.sites);
  copy.attrs[0] ^= 1;
  CHECK(!tsr__program_same(&copy, &f.p));
  CHECK(tsr__program_hash(&copy) != tsr__program_hash(&f.p));
  tsr__program_free(&copy);
}

/* The roots of one of several programs, some of which are equal but for numbers and arrays. */
static int some_roots(fixture *f, int which, tsr_array *r[3])
{
  tsr_dtype dtype = which == 2 ? TSR_F32 : TSR_F64;
  tsr_shape shape = which == 3 ? TSR_SHAPE(8, 16) : TSR_SHAPE(8, 8);
  tsr_array *x = fixture_leaf(f->s, dtype, shape, f->mesh, which == 4 ? "y,x" : "x,y");
  tsr_array *y = which == 5 ? x : fixture_leaf(f->s, dtype, shape, f->mesh, "x,y");
  tsr_array *n = fixture_number(f->s, dtype, which + 2);
  tsr_array *a = fixture_make(which == 6 ? TSR__OP_ADD : TSR__OP_MUL, x, n, NULL, "a.c:1");
  tsr_array *b = which == 7 ? fixture_make(TSR__OP_SUB, y, a, NULL, "a.c:2")
                            : fixture_make(TSR__OP_SUB, a, y, NULL, "a.c:2");
  tsr_array *sum = fixture_reduce(TSR__OP_SUM, b, NULL, which == 8 ? 1 : 2, "a.c:3");
  tsr_array *twice = fixture_reduce(TSR__OP_SUM, b, NULL, 2, "a.c:4"); /* equal to `sum` */
  r[0] = which == 9 ? a : which == 10 ? twice : sum;
  r[1] = which == 11 ? a : r[0];
  r[2] = which == 12 ? twice : which == 13 ? a : b;
  return which < 11 ? 1 : which == 11 ? 2 : 3;
}

/* Following is tracing: it says yes where the traces are equal, and leaves the same behind. */
TEST(following_a_program_is_tracing_it)
{
  enum { PROGRAMS = 15 };
  fixture f = open_fixture();
  tsr__program key, traced;
  int followed = 0;
  tsr__program_init(&traced, &f.rt->heap);
  for (int i = 0; i < PROGRAMS; i++) {
    tsr_array *known[3], *r[3];
    trace(&f, known, some_roots(&f, i, known));
    CHECK_STATUS(tsr__program_copy(&key, &f.p, &f.rt->heap), TSR_OK, NULL);
    int roots = tsr__program_followable(&f.p);
    /* Two equal sums are one node of it. */
    CHECK((roots == 0) == (i == 12));
    for (int k = 0; k < PROGRAMS && roots; k++) {
      int count = some_roots(&f, k, r);
      tsr__followed of = { &key, roots, false };
      bool same = tsr__program_follow(&f.p, &of, (tsr__operands){ r, count }, &f.error);
      uint32_t marks[3];
      for (int n = 0; n < count; n++) marks[n] = r[n]->mark;
      tsr__program_clear(&traced);
      CHECK_STATUS(tsr__program_trace(&traced, r, count, &f.error), TSR_OK, NULL);
      /* What merges when it is traced is not followed, whatever comes of it. */
      CHECK(same == (k != 12 && tsr__program_same(&key, &traced)));
      followed += same;
      if (!same) continue;
      CHECK_I64(f.p.node_count, traced.node_count);
      CHECK_I64(f.p.param_count, traced.param_count);
      CHECK(!memcmp(f.p.params, traced.params, (size_t)f.p.param_count * sizeof *f.p.params));
      CHECK(!memcmp(f.p.arrays, traced.arrays, (size_t)f.p.node_count * sizeof *f.p.arrays));
      CHECK_I64(f.p.visited_count, traced.visited_count);
      for (int n = 0; n < count; n++) CHECK_I64(marks[n], r[n]->mark);
      of.keep = true; /* then roots would be others */
      CHECK(!tsr__program_follow(&f.p, &of, (tsr__operands){ r, count }, &f.error));
    }
    tsr__program_free(&key);
  }
  CHECK(followed > PROGRAMS);
}

/* What is refused is refused with the same words, and what only a run knows is followed by none. */
TEST(following_refuses_as_tracing_does)
{
  fixture f = open_fixture();
  tsr__program key;
  tsr_array *known[3], *r[3];
  trace(&f, known, some_roots(&f, 0, known));
  CHECK_STATUS(tsr__program_copy(&key, &f.p, &f.rt->heap), TSR_OK, NULL);
  tsr__followed of = { &key, tsr__program_followable(&f.p), false };
  some_roots(&f, 0, r);
  tsr__array_delete(r[0]);
  CHECK(!tsr__program_follow(&f.p, &of, (tsr__operands){ r, 1 }, &f.error));
  CHECK_STR_HAS(f.error.text, "was deleted");
  tsr__program_free(&key);
  static const int64_t rows[8] = { 4, 4, 4, 4, 1, 1, 1, 1 };
  tsr_array *ragged = fixture_ragged(f.s, TSR_F64, TSR_SHAPE(5), f.mesh, "x", rows);
  trace(&f, &ragged, 1);
  CHECK_I64(tsr__program_followable(&f.p), 0);
}

/* Two processes trace the same calls and must get the same bytes. */
TEST(keys_are_the_same_in_every_process)
{
  fixture f = open_process(0), g = open_process(1);
  tsr_array *r = formula(&f, 2, f.mesh, "x,y"), *q = formula(&g, 2, g.mesh, "x,y");
  trace(&f, &r, 1);
  trace(&g, &q, 1);
  CHECK_BYTES(f.p.nodes, g.p.nodes, (size_t)g.p.node_count * sizeof *g.p.nodes);
  CHECK_U64(tsr__program_hash(&f.p), tsr__program_hash(&g.p));
}

/* ---- text ---- */

TEST(programs_print_one_line_a_node)
{
  fixture f = open_fixture();
  tsr_array *x = fixture_leaf(f.s, TSR_F64, TSR_SHAPE(8, 8), f.mesh, "x,y");
  x->node.site = "/home/me/normalise.c:12";
  tsr_array *one = fixture_number(f.s, TSR_F64, 1);
  tsr_array *a =
      fixture_make(TSR__OP_MUL, x, fixture_number(f.s, TSR_F64, 2), NULL, "normalise.c:13");
  a = fixture_make(TSR__OP_ADD, a, one, NULL, "normalise.c:13");
  tsr_array *mean = fixture_reduce(TSR__OP_MEAN, x, NULL, 0, "normalise.c:13");
  tsr_array *z = fixture_make(TSR__OP_DIV, a, mean, NULL, "normalise.c:13");
  tsr_array *mask = fixture_make(TSR__OP_GT, x, one, NULL, "normalise.c:14");
  tsr_array *roots[2] = { fixture_reduce(TSR__OP_SUM, z, mask, 2, "normalise.c:15"),
                          fixture_make(TSR__OP_NOT, mask, NULL, NULL, NULL) };
  trace(&f, roots, 2);
  tsr__text text;
  tsr__text_init(&text, &f.rt->heap);
  tsr__program_print(&f.p, &text);
  CHECK_STR(tsr__text_get(&text),
            "  %0 = put                        f64[8,8]@(x,y)  normalise.c:12\n"
            "  %1 = %0 * 2                     f64[8,8]        normalise.c:13\n"
            "  %2 = %1 + 1                     f64[8,8]        normalise.c:13\n"
            "  %3 = mean(%0)                   f64[]           normalise.c:13\n"
            "  %4 = %2 / %3                    f64[8,8]        normalise.c:13\n"
            "  %5 = %0 > 1                     bool[8,8]       normalise.c:14\n"
            "  %6 = sum(%4, where %5, dims 1)  f64[8]          normalise.c:15\n"
            "  %7 = not(%5)                    bool[8,8]\n");
  CHECK_I64(tsr__program_number(&f.p, (int)roots[0]->mark - 1), 6);
}

TEST(numbers_print_as_those_of_their_dtype)
{
  static const struct {
    tsr_dtype dtype;
    tsr__num number;
    const char *text;
  } cases[] = {
    { TSR_F64, { .f = 0.1 }, "0.1" },
    { TSR_F32, { .f = 0.1 }, "0.1" },
    { TSR_F16, { .f = 0.1 }, "0.099975586" },  /* 1638 / 2^14 */
    { TSR_BF16, { .f = 0.1 }, "0.100097656" }, /* 205 / 2^11 */
    { TSR_BF16, { .f = 2 }, "2" },
    { TSR_U64, { .i = -1 }, "18446744073709551615" },
    { TSR_I64, { .i = -1 }, "-1" },
    { TSR_U8, { .i = 200 }, "200" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fixture f = open_fixture();
    tsr_array *x = fixture_leaf(f.s, cases[i].dtype, TSR_SHAPE(8), NULL, NULL);
    tsr_array *number = tsr__make_const(f.s, cases[i].dtype, cases[i].number, NULL);
    tsr_array *root = fixture_make(TSR__OP_ADD, x, number, NULL, NULL);
    trace(&f, &root, 1);
    tsr__text text;
    tsr__text_init(&text, &f.rt->heap);
    tsr__program_print(&f.p, &text);
    char line[64];
    snprintf(line, sizeof line, "%%1 = %%0 + %s ", cases[i].text);
    CHECK_STR_HAS(tsr__text_get(&text), line);
    tsr__text_free(&text);
  }
}

/* ---- verify ---- */

TEST(verify_finds_broken_promises)
{
  fixture f = open_fixture();
  tsr_array *r = formula(&f, 2, f.mesh, "x,y");
  trace(&f, &r, 1);
  tsr__gnode *nodes = f.p.nodes, good[8];
  int count = f.p.node_count;
  int32_t *operands = f.p.operands, good_operands[16];
  char *attrs = f.p.attrs, good_attrs[64];
  CHECK(count <= 8 && f.p.operand_count <= 16 && f.p.attr_count <= 64);
  memcpy(good, nodes, (size_t)count * sizeof *nodes);
  memcpy(good_operands, operands, (size_t)f.p.operand_count * sizeof *operands);
  memcpy(good_attrs, attrs, (size_t)f.p.attr_count);
#define BROKEN(change)                                                             \
  do {                                                                             \
    tsr__error error = { .status = TSR_OK };                                       \
    change;                                                                        \
    CHECK(tsr__program_verify(&f.p, &error) == TSR_ESTATE);                        \
    memcpy(nodes, good, (size_t)count * sizeof *nodes);                            \
    memcpy(operands, good_operands, (size_t)f.p.operand_count * sizeof *operands); \
    memcpy(attrs, good_attrs, (size_t)f.p.attr_count);                             \
    error.status = TSR_OK;                                                         \
    CHECK(tsr__program_verify(&f.p, &error) == TSR_OK);                            \
  } while (0)
  int32_t *in = &operands[nodes[2].first_in], *x = &in[0], *number = &in[1];
  BROKEN(*x = 3);
  BROKEN(*number = -1);
  BROKEN(nodes[2].in_count = 1);
  BROKEN(nodes[2].in_count = 3);
  BROKEN(nodes[2].first_in = f.p.operand_count - 1);
  BROKEN(nodes[2].first_in = -1);
  BROKEN(nodes[2].op = TSR__OPS);
  BROKEN(nodes[2].dtype = TSR_F32);
  BROKEN(nodes[1].dtype = TSR_F32);
  BROKEN(nodes[1].param = -1);
  BROKEN(nodes[1].param_count = 2);
  BROKEN(nodes[3].dims[0] = 7);
  BROKEN(nodes[3].rank = 2);
  BROKEN(attrs[0] = 8);
  BROKEN(nodes[3].attr = (uint32_t)f.p.attr_count);
  BROKEN(nodes[3].attr = 4);
  BROKEN(nodes[3].attr_bytes = 8);
  BROKEN(nodes[2].attr_bytes = 8);
  BROKEN(nodes[2].sharding = 9);
  BROKEN(nodes[3].reduce_axes = 1);
}
