/* Names of values, and what checkpoints keep by them: how much is computed again, how much memory
 * that takes, and that a name is nothing to a plan.
 *
 * JAX with save_only_these_names keeps the same values (print_saved_residuals). It computes again
 * what a kept value is made of where a derivative reads that, as of a tanh under a name, and so has
 * more products. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

enum { WIDTH = 256 };

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
} fixture;

static fixture open_fixture(void)
{
  fixture f = { .rt = tsr_runtime_open("cpu:2", .threads = 2) };
  f.s = tsr_scope_open(f.rt);
  return f;
}

static void close_fixture(fixture *f)
{
  tsr_scope_close(f->s);
  tsr_runtime_close(f->rt);
}

static tsr_array *square(tsr_scope *s)
{
  return tsr_abstract(s, TSR_F64, TSR_SHAPE(WIDTH, WIDTH), (tsr_sharding){ 0 });
}

/* ---- how much is computed again -------------------------------------------------------------- */

static tsr_array *times(tsr_array *a, tsr_array *b)
{
  return tsr_matmul(a, b, .reproducible = true);
}

/* Two layers: x, weights, weights. */
static tsr_array *mlp(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *h = tsr_named(tsr_tanh(times(in[0], in[1])), "first");
  return tsr_sum(tsr_sin(tsr_named(times(h, in[2]), "second")));
}

/* x, and the weights of queries, keys and values. */
static tsr_array *attention(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *q = tsr_named(times(in[0], in[1]), "qkv"), *k = tsr_named(times(in[0], in[2]), "qkv");
  tsr_array *v = tsr_named(times(in[0], in[3]), "qkv");
  tsr_array *scores = tsr_exp(tsr_mul(times(q, tsr_transpose(k)), 0.01));
  tsr_array *whole = tsr_sum(scores, .dims = TSR_DIMS(1), .keep_dims = true);
  tsr_array *weights = tsr_named(tsr_div(scores, whole), "weights");
  return tsr_sum(tsr_tanh(tsr_named(times(weights, v), "out")));
}

enum { STEPS = 5 };

static tsr_array *block(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *wide = tsr_named(tsr_tanh(times(in[0], in[1])), "wide");
  return tsr_named(tsr_tanh(times(wide, tsr_transpose(in[1]))), "narrow");
}

static tsr_array *block_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_call((tsr_function *)user, in[0], in[1]);
  return tsr_tuple(s, x, tsr_sum(x));
}

/* x, and a weight for each step. `user`: what a step calls. */
static tsr_array *scan_of_blocks(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_sum(tsr_item(tsr_scan(block_step, user, in[0], .xs = in[1]), 0));
}

/* The products of a plan: all else of it is small beside them. */
static double products(const tsr_figures *figures)
{
  double own = 2.0 * WIDTH * WIDTH * WIDTH;
  return (double)(int)(figures->flops / own + 0.25);
}

typedef struct cost {
  double products;
  int64_t peak;
} cost;

static cost cost_of(tsr_scope *s, tsr_function *f, tsr_dims wrt, tsr_array *const *in, int count)
{
  tsr_compiled *c = tsr_compile_at(tsr_value_and_grad(f, .wrt = wrt), in, count, TSR_HERE);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_figures figures = tsr_compiled_figures(c);
  return (cost){ products(&figures), figures.peak_bytes };
}

TEST(two_layers_compute_again_what_is_not_kept)
{
  fixture f = open_fixture();
  tsr_array *in[] = { square(f.s), square(f.s), square(f.s) };
  tsr_function *plain = tsr_function_make(f.s, mlp);
  tsr_function *again = tsr_checkpoint(plain);
  tsr_function *first = tsr_checkpoint(plain, .keep = { "first" });
  tsr_function *both = tsr_checkpoint(plain, .keep = { "first", "second" });
  tsr_dims all = TSR_ARGS(0, 1, 2);
  /* Two products forward and four back. */
  CHECK_F64_BITS(cost_of(f.s, plain, all, in, 3).products, 6);
  CHECK_F64_BITS(cost_of(f.s, again, all, in, 3).products, 8);
  CHECK_F64_BITS(cost_of(f.s, first, all, in, 3).products, 7);
  CHECK_F64_BITS(cost_of(f.s, both, all, in, 3).products, 6);
  close_fixture(&f);
}

TEST(attention_computes_again_what_is_not_kept)
{
  fixture f = open_fixture();
  tsr_array *in[] = { square(f.s), square(f.s), square(f.s), square(f.s) };
  tsr_function *plain = tsr_function_make(f.s, attention);
  tsr_dims all = TSR_ARGS(0, 1, 2, 3);
  /* Five products forward and ten back. */
  CHECK_F64_BITS(cost_of(f.s, plain, all, in, 4).products, 15);
  CHECK_F64_BITS(cost_of(f.s, tsr_checkpoint(plain), all, in, 4).products, 20);
  tsr_function *qkv = tsr_checkpoint(plain, .keep = { "qkv" });
  CHECK_F64_BITS(cost_of(f.s, qkv, all, in, 4).products, 17);
  tsr_function *most = tsr_checkpoint(plain, .keep = { "out", "qkv" });
  CHECK_F64_BITS(cost_of(f.s, most, all, in, 4).products, 16);
  close_fixture(&f);
}

static tsr_array *stack_of_squares(tsr_scope *s)
{
  return tsr_abstract(s, TSR_F64, TSR_SHAPE(STEPS, WIDTH, WIDTH), (tsr_sharding){ 0 });
}

/* In JAX 40 in all of them, where no derivative of tanh is found under its name. */
TEST(steps_of_a_scan_keep_their_own)
{
  fixture f = open_fixture();
  tsr_array *in[] = { square(f.s), stack_of_squares(f.s) };
  tsr_function *one = tsr_function_make(f.s, block);
  tsr_function *kinds[] = { one, tsr_checkpoint(one), tsr_checkpoint(one, .keep = { "wide" }),
                            tsr_checkpoint(one, .keep = { "wide", "narrow" }) };
  const double expected[] = { 40, 40, 35, 30 };
  int64_t stack = (int64_t)sizeof(double) * STEPS * WIDTH * WIDTH, before = 0;
  for (int i = 0; i < 4; i++) {
    tsr_function *scan = tsr_function_make(f.s, scan_of_blocks, .user = kinds[i]);
    cost c = cost_of(f.s, scan, TSR_ARGS(0, 1), in, 2);
    CHECK_F64_BITS(c.products, expected[i]);
    /* A stack of what each step keeps, and a slice of it. */
    if (i > 1) CHECK_I64(c.peak - before, stack + stack / STEPS);
    before = c.peak;
  }
  close_fixture(&f);
}

/* The checkpoint stands around the scan, which runs again: without it a scan keeps its carries. */
TEST(names_in_the_body_of_a_scan_are_kept_around_it)
{
  fixture f = open_fixture();
  tsr_array *in[] = { square(f.s), stack_of_squares(f.s) };
  tsr_function *one = tsr_function_make(f.s, block);
  tsr_function *scan = tsr_function_make(f.s, scan_of_blocks, .user = one);
  tsr_function *kinds[] = { tsr_checkpoint(scan), tsr_checkpoint(scan, .keep = { "wide" }),
                            tsr_checkpoint(scan, .keep = { "wide", "narrow" }) };
  const double expected[] = { 50, 40, 30 };
  for (int i = 0; i < 3; i++) {
    cost c = cost_of(f.s, kinds[i], TSR_ARGS(0, 1), in, 2);
    CHECK_F64_BITS(c.products, expected[i]);
  }
  close_fixture(&f);
}

static tsr_array *as_it_is(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[0], in[1]);
}

static tsr_array *called(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_call((tsr_function *)user, in[0], in[1]);
}

static tsr_array *choice(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_sum(tsr_cond(tsr_gt(tsr_sum(in[0]), 0), called, as_it_is, user, in[0], in[1]));
}

/* A choice counts its most expensive body. */
TEST(bodies_of_a_choice_keep_their_own)
{
  fixture f = open_fixture();
  tsr_array *in[] = { square(f.s), square(f.s) };
  tsr_function *one = tsr_function_make(f.s, block);
  tsr_function *plain = tsr_function_make(f.s, choice, .user = one);
  tsr_function *inner = tsr_checkpoint(one, .keep = { "wide", "narrow" });
  tsr_function *kept = tsr_function_make(f.s, choice, .user = inner);
  CHECK_F64_BITS(cost_of(f.s, plain, TSR_ARGS(0, 1), in, 2).products, 8);
  CHECK_F64_BITS(cost_of(f.s, kept, TSR_ARGS(0, 1), in, 2).products, 6);
  tsr_function *outer = tsr_checkpoint(plain, .keep = { "narrow", "wide" });
  CHECK_F64_BITS(cost_of(f.s, outer, TSR_ARGS(0, 1), in, 2).products, 6);
  close_fixture(&f);
}

enum { ROWS = 256, NARROW = 32, WIDE = 256, BLOCKS = 6 };

static tsr_array *blocks(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = in[0];
  (void)s;
  for (int i = 0; i < BLOCKS; i++) x = tsr_call((tsr_function *)user, x, in[1]);
  return tsr_mean(x);
}

TEST(memory_is_what_is_kept)
{
  fixture f = open_fixture();
  tsr_array *in[] = { tsr_abstract(f.s, TSR_F32, TSR_SHAPE(ROWS, NARROW), (tsr_sharding){ 0 }),
                      tsr_abstract(f.s, TSR_F32, TSR_SHAPE(NARROW, WIDE), (tsr_sharding){ 0 }) };
  tsr_function *one = tsr_function_make(f.s, block);
  tsr_function *kinds[] = { one, tsr_checkpoint(one, .keep = { "wide" }), tsr_checkpoint(one) };
  double flops[3];
  int64_t peak[3];
  for (int i = 0; i < 3; i++) {
    tsr_function *g = tsr_value_and_grad(tsr_function_make(f.s, blocks, .user = kinds[i]));
    tsr_figures figures = tsr_compiled_figures(tsr_compile_at(g, in, 2, TSR_HERE));
    flops[i] = figures.flops;
    peak[i] = figures.peak_bytes;
  }
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  if (!(flops[0] < flops[1] && flops[1] < 0.9 * flops[2]))
    FAIL("flops: %g, keeping %g, again %g", flops[0], flops[1], flops[2]);
  if (!(peak[2] < peak[1]) || !(peak[1] <= peak[0] + 8 * ROWS * WIDE))
    FAIL("peak: %lld, keeping %lld, again %lld", (long long)peak[0], (long long)peak[1],
         (long long)peak[2]);
  close_fixture(&f);
}

/* ---- a name is nothing to a plan ------------------------------------------------------------- */

static tsr_array *maybe(tsr_array *x, const void *name)
{
  return name ? tsr_named(x, name) : x;
}

static tsr_array *several(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = maybe(in[0], user),
            *half = maybe(tsr_full(s, 0.5, TSR_F32, TSR_SCALAR, (tsr_sharding){ 0 }), user);
  tsr_array *h = maybe(tsr_add(tsr_matmul(x, tsr_transpose(x)), half), user);
  tsr_array *top = maybe(tsr_sort(maybe(tsr_reshape(h, TSR_SHAPE(64)), user), 0), user);
  return tsr_tuple(s, maybe(tsr_sum(maybe(tsr_exp(h), user), .dims = TSR_DIMS(0)), user),
                   maybe(top, user), maybe(in[0], user));
}

TEST(a_name_changes_no_plan)
{
  fixture f = open_fixture();
  const tsr_mesh *mesh = tsr_mesh_make(f.rt, "x=2");
  tsr_array *x = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(8, 4), tsr_on(mesh, "x"));
  char name[] = "value", *text[2];
  for (int i = 0; i < 2; i++) {
    tsr_function *g = tsr_function_make(f.s, several, .user = i ? name : NULL);
    text[i] = strdup(tsr_compiled_text(tsr_compile(g, x)));
  }
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  CHECK_STR(text[1], text[0]);
  for (int i = 0; i < 2; i++) free(text[i]);
  close_fixture(&f);
}

TEST(names_stand_anywhere)
{
  fixture f = open_fixture();
  float got[4], data[] = { 1, -2, 3, 4 };
  tsr_array *x = tsr_put(f.s, data, TSR_F32, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_array *tree = tsr_named(tsr_tree(f.s, { "a", x }, { "b", tsr_neg(x) }), "both");
  CHECK_STATUS(tsr_read(tsr_named(tsr_named(x, "a"), "b"), got, sizeof got), TSR_OK, f.s);
  CHECK_BYTES(got, data, sizeof data);
  tsr_array *sum = tsr_add(tsr_field(tree, "a"), tsr_field(tree, "b"));
  CHECK_STATUS(tsr_read(sum, got, sizeof got), TSR_OK, f.s);
  for (int i = 0; i < 4; i++) CHECK(got[i] == 0);
  CHECK_STR(tsr_type_of(tsr_add(x, tsr_named(tsr_num(f.s, 0.5), "half"))), "f32[4]");
  close_fixture(&f);
}

/* ---- forward --------------------------------------------------------------------------------- */

static tsr_array *goes_on(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_sum(tsr_square(in[0])), 100);
}

static tsr_array *grown(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(tsr_named(tsr_exp(tsr_mul(in[0], 0.1)), "grown"), tsr_add(in[0], 0.5));
}

static tsr_array *grows(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_call((tsr_function *)user, in[0]);
}

static tsr_array *loop(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_while(goes_on, grows, user, in[0]);
}

/* A while has no gradient, and no step of it keeps anything. */
TEST(a_while_of_checkpoints_goes_forward)
{
  fixture f = open_fixture();
  double data[] = { 1, 0.5, 2 }, got[3][2][3], linear[3][3];
  tsr_array *x = tsr_put(f.s, data, TSR_F64, TSR_SHAPE(3), (tsr_sharding){ 0 }), *d = tsr_sin(x);
  tsr_function *one = tsr_function_make(f.s, grown);
  tsr_function *kinds[] = { one, tsr_checkpoint(one), tsr_checkpoint(one, .keep = { "grown" }) };
  for (int i = 0; i < 3; i++) {
    tsr_function *all = tsr_function_make(f.s, loop, .user = kinds[i]);
    tsr_array *both = tsr_call(tsr_jvp(all), x, d);
    for (int k = 0; k < 2; k++)
      CHECK_STATUS(tsr_read(tsr_item(both, k), got[i][k], sizeof got[i][k]), TSR_OK, f.s);
    CHECK_BYTES(got[i], got[0], sizeof got[0]);
    tsr_array *along = tsr_call(tsr_linearize(kinds[i], .at = { x }), d);
    CHECK_STATUS(tsr_read(along, linear[i], sizeof linear[i]), TSR_OK, f.s);
    CHECK_BYTES(linear[i], linear[0], sizeof linear[0]);
  }
  close_fixture(&f);
}

/* ---- texts ----------------------------------------------------------------------------------- */

TEST(saved_functions_have_names_and_keep_by_them)
{
  fixture f = open_fixture();
  tsr_array *in[] = { square(f.s), square(f.s), square(f.s) };
  tsr_function *both = tsr_checkpoint(tsr_function_make(f.s, mlp), .keep = { "second", "first" });
  const char *text;
  CHECK_STATUS(tsr_function_text_into(both, &text, in[0], in[1], in[2]), TSR_OK, f.s);
  CHECK_STR_HAS(text, "keep=[\"second\",\"first\"]");
  CHECK_STR_HAS(text, "text=\"first\"");
  tsr_function *back = tsr_function_from_text(f.s, text);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  CHECK_F64_BITS(cost_of(f.s, back, TSR_ARGS(0, 1, 2), in, 3).products, 6);
  tsr_function *slope = tsr_value_and_grad(both, .wrt = TSR_ARGS(0, 1, 2));
  CHECK_STATUS(tsr_function_text_into(slope, &text, in[0], in[1], in[2]), TSR_OK, f.s);
  tsr_compiled *c = tsr_compile_at(tsr_function_from_text(f.s, text), in, 3, TSR_HERE);
  tsr_figures figures = tsr_compiled_figures(c);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  CHECK_F64_BITS(products(&figures), 6);
  char *longer = malloc(strlen(text) + 100), *at = strstr(strcpy(longer, text), "first");
  memmove(at + 64, at + 5, strlen(at + 5) + 1);
  memset(at, 'a', 64);
  CHECK(tsr_is_inert(tsr_call(tsr_function_from_text(f.s, longer), in[0], in[1], in[2])));
  CHECK_STR_HAS(tsr_message(f.s), "a name has more than 63 bytes");
  free(longer);
  close_fixture(&f);
}

/* ---- bad input ------------------------------------------------------------------------------- */

static void refused(tsr_scope *s, const char *said)
{
  CHECK_I64(tsr_scope_status(s), TSR_EARG);
  CHECK_STR_HAS(tsr_message(s), said);
  tsr_scope_clear(s);
}

static tsr_array *full_rank(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_shape shape = { .rank = TSR_MAX_RANK };
  (void)s, (void)user;
  for (int d = 0; d < TSR_MAX_RANK; d++) shape.dims[d] = d ? 1 : WIDTH * WIDTH;
  tsr_array *x = tsr_named(tsr_sin(tsr_reshape(in[0], shape)), "full");
  return tsr_reshape(tsr_square(x), TSR_SHAPE(WIDTH, WIDTH));
}

TEST(what_has_no_room_for_steps_is_told)
{
  fixture f = open_fixture();
  tsr_array *in[] = { square(f.s), stack_of_squares(f.s) };
  tsr_function *full = tsr_function_make(f.s, full_rank);
  tsr_function *kept = tsr_checkpoint(full, .keep = { "full" });
  tsr_function *inner = tsr_grad(tsr_function_make(f.s, scan_of_blocks, .user = kept));
  tsr_function *scan = tsr_function_make(f.s, scan_of_blocks, .user = full);
  CHECK(!tsr_is_inert(tsr_call(tsr_vjp(kept), in[0], in[0])));
  for (int i = 0; i < 2; i++) {
    tsr_function *g = i ? tsr_checkpoint(scan, .keep = { "full" }) : inner;
    CHECK(tsr_is_inert(tsr_call(g, in[0], in[1])));
    CHECK_I64(tsr_scope_status(f.s), TSR_ESHAPE);
    CHECK_STR_HAS(tsr_message(f.s), "each step keeps a value named \"full\" of 16 dims");
    tsr_scope_clear(f.s);
  }
  close_fixture(&f);
}

TEST(names_that_are_wrong_say_so)
{
  fixture f = open_fixture();
  tsr_array *in[] = { square(f.s), square(f.s), square(f.s) };
  tsr_function *plain = tsr_function_make(f.s, mlp, .name = "mlp");
  tsr_function *bare = tsr_function_make(f.s, as_it_is, .name = "bare");
  char name[70] = { 0 };
  memset(name, 'n', 64);
  CHECK(tsr_is_inert(tsr_named(NULL, "a")));
  refused(f.s, "tsr_named: the array is NULL");
  CHECK(tsr_is_inert(tsr_named(in[0], NULL)));
  refused(f.s, "tsr_named: the name is NULL; give a name");
  CHECK(tsr_is_inert(tsr_named(in[0], "")));
  refused(f.s, "tsr_named: the name is empty");
  CHECK(tsr_is_inert(tsr_named(in[0], name)));
  refused(f.s, "tsr_named: the name has 64 bytes, expected at most 63");
  name[63] = 0;
  CHECK(!tsr_is_inert(tsr_named(in[0], name)));
  CHECK(tsr_checkpoint(NULL) == NULL);
  refused(f.s, "tsr_checkpoint: the function is NULL");
  CHECK(tsr_is_inert(tsr_call(tsr_checkpoint(plain, .keep = { "" }), in[0], in[1], in[2])));
  refused(f.s, "tsr_checkpoint: the name is empty");
  tsr_checkpoint_args many = { .size = sizeof many, .function = plain };
  for (int i = 0; i <= TSR_MAX_KEPT; i++) many.keep[i] = "first";
  CHECK(tsr_is_inert(tsr_call(tsr_checkpoint_at(&many, TSR_HERE), in[0], in[1], in[2])));
  refused(f.s, "tsr_checkpoint: .keep has more than 16 names");
  many.keep[TSR_MAX_KEPT] = NULL;
  CHECK(!tsr_is_inert(tsr_call(tsr_checkpoint_at(&many, TSR_HERE), in[0], in[1], in[2])));
  tsr_function *other = tsr_checkpoint(plain, .keep = { "first", "third" });
  CHECK(tsr_is_inert(tsr_call(other, in[0], in[1], in[2])));
  refused(f.s,
          "tsr_checkpoint: in mlp no value has the name \"third\" of .keep; the names there are "
          "\"first\", \"second\"");
  CHECK(tsr_is_inert(tsr_call(tsr_checkpoint(bare, .keep = { "a" }), in[0], in[1])));
  refused(f.s,
          "tsr_checkpoint: in bare no value has the name \"a\" of .keep; give a value one with "
          "tsr_named");
  close_fixture(&f);
}
