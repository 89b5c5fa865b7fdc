/* What steers gradients: constants, rules of users, checkpoints; and derivatives as functions of
 * directions and as arrays. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "support/gradient_check.h"
#include "tessera.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_sharding on;
} fixture;

static fixture open_fixture(const char *devices, const char *axes)
{
  fixture f = { .rt = tsr_runtime_open(devices, .threads = 2) };
  f.s = tsr_scope_open(f.rt);
  f.on = tsr_on(tsr_mesh_make(f.rt, axes), "x");
  return f;
}

static tsr_array *vector(const fixture *f, const double *data, int64_t count)
{
  return tsr_put(f->s, data, TSR_F64, TSR_SHAPE(count), f->on);
}

static void check_f64(tsr_scope *s, tsr_array *a, int count, const double *expected)
{
  double found[32];
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_STATUS(tsr_read(a, found, (size_t)count * sizeof *found), TSR_OK, s);
  for (int i = 0; i < count; i++) CHECK_F64_ULP(found[i], expected[i], 4);
}

static void close_fixture(fixture *f)
{
  tsr_scope_close(f->s);
  tsr_runtime_close(f->rt);
}

/* ---- constants ------------------------------------------------------------------------------- */

/* x^2 of which one factor is a constant. */
static tsr_array *half_square(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_mul(in[0], tsr_stop_gradient(in[0])));
}

TEST(nothing_flows_back_through_a_stop)
{
  fixture f = open_fixture("cpu:3", "x=3");
  tsr_array *x = vector(&f, (double[]){ 3, -2, 5, 0.5 }, 4);
  tsr_function *g = tsr_function_make(f.s, half_square);
  check_f64(f.s, tsr_call(tsr_grad(g), x), 4, (double[]){ 3, -2, 5, 0.5 });
  close_fixture(&f);
}

TEST(a_stop_is_the_same_bits_of_all_dtypes)
{
  fixture f = open_fixture("cpu:3", "x=3");
  double in[5] = { -0.0, NAN, 1, -INFINITY, 3 };
  for (int dtype = TSR_BOOL; dtype <= TSR_F64; dtype++) {
    if (!tsr_dtype_size((tsr_dtype)dtype)) continue;
    tsr_array *x = tsr_cast(vector(&f, in, 5), (tsr_dtype)dtype);
    char a[40], b[40];
    size_t bytes = 5 * (size_t)tsr_dtype_size((tsr_dtype)dtype);
    CHECK_STATUS(tsr_read(x, a, bytes), TSR_OK, f.s);
    CHECK_STATUS(tsr_read(tsr_stop_gradient(x), b, bytes), TSR_OK, f.s);
    CHECK_BYTES(b, a, bytes);
  }
  close_fixture(&f);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* (x y, sin x) of a tree of x and y. */
static tsr_array *pair(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_field(in[0], "x"), *y = tsr_field(in[0], "y");
  (void)user;
  return tsr_tree(s, { "product", tsr_mul(x, y) }, { "sine", tsr_sin(x) });
}

/* Its gradient, each part of it times a number of the user. */
static tsr_array *pair_rule(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_field(in[0], "x"), *y = tsr_field(in[0], "y");
  tsr_array *product = tsr_field(in[2], "product"), *sine = tsr_field(in[2], "sine");
  double by = *(double *)user;
  CHECK_STR(tsr_tree_text(in[1]), "(product: *, sine: *)");
  tsr_array *to_x = tsr_add(tsr_mul(product, y), tsr_mul(sine, tsr_cos(x)));
  return tsr_tuple(s, tsr_mul(to_x, by), tsr_mul(tsr_mul(product, x), by));
}

static tsr_array *use_pair(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *both = tsr_call(user, tsr_tree(s, { "x", in[0] }, { "y", in[1] }));
  return tsr_sum(tsr_mul(tsr_field(both, "product"), tsr_add(tsr_field(both, "sine"), 2)));
}

TEST(a_rule_takes_the_place_of_a_gradient)
{
  fixture f = open_fixture("cpu:2", "x=2");
  double by = 1, x[3] = { 0.5, 1, -2 }, y[3] = { 3, -1, 4 };
  for (int k = 0; k < 2; k++, by = 3) {
    double to_x[3], to_y[3];
    for (int i = 0; i < 3; i++) {
      to_x[i] = by * ((sin(x[i]) + 2) * y[i] + x[i] * y[i] * cos(x[i]));
      to_y[i] = by * (x[i] * (sin(x[i]) + 2));
    }
    tsr_function *own =
        tsr_custom_vjp(tsr_function_make(f.s, pair), .backward = pair_rule, .user = &by);
    tsr_function *g = tsr_function_make(f.s, use_pair, .user = own);
    tsr_array *slopes =
        tsr_call(tsr_grad(g, .wrt = TSR_ARGS(0, 1)), vector(&f, x, 3), vector(&f, y, 3));
    check_f64(f.s, tsr_item(slopes, 0), 3, to_x);
    check_f64(f.s, tsr_item(slopes, 1), 3, to_y);
  }
  close_fixture(&f);
}

TEST(a_rule_is_differentiated_itself)
{
  fixture f = open_fixture("cpu:2", "x=2");
  double by = 1;
  tsr_function *own =
      tsr_custom_vjp(tsr_function_make(f.s, pair), .backward = pair_rule, .user = &by);
  tsr_array *in[] = { vector(&f, (double[]){ 0.5, 1, -2 }, 3),
                      vector(&f, (double[]){ 3, -1, 4 }, 3) };
  gradient_check(&(gradient_case){ "pair", f.s, use_pair, own, in, 2, 2, 1e-6, 5 });
  tsr_function *plain = tsr_function_make(f.s, use_pair, .user = tsr_function_make(f.s, pair));
  tsr_function *ruled = tsr_function_make(f.s, use_pair, .user = own);
  double out[3];
  tsr_array *expected = tsr_call(tsr_hvp(plain), in[0], in[1], in[1]);
  CHECK_STATUS(tsr_read(expected, out, sizeof out), TSR_OK, f.s);
  check_f64(f.s, tsr_call(tsr_hvp(ruled), in[0], in[1], in[1]), 3, out);
  close_fixture(&f);
}

/* One result of two is used; what the user captured is an argument of both bodies. */
static tsr_array *with_outer(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_tuple(s, tsr_mul(in[0], (tsr_array *)user), tsr_exp(in[0]));
}

static tsr_array *with_outer_rule(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_add(tsr_mul(tsr_item(in[2], 0), tsr_mul((tsr_array *)user, 10)), tsr_item(in[2], 1));
}

static tsr_array *first_of(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_sum(tsr_item(tsr_call((tsr_function *)user, in[0]), 0));
}

TEST(both_bodies_may_take_arrays_from_outside)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_array *a = vector(&f, (double[]){ 2, 3, 5 }, 3), *b = vector(&f, (double[]){ 7, 1, 4 }, 3);
  CHECK_STATUS(tsr_eval((tsr_array *[]){ a, b }, 2), TSR_OK, f.s);
  tsr_function *own = tsr_custom_vjp(tsr_function_make(f.s, with_outer, .user = a),
                                     .backward = with_outer_rule, .user = b);
  tsr_function *g = tsr_function_make(f.s, first_of, .user = own);
  tsr_array *x = vector(&f, (double[]){ 1, 1, 2 }, 3);
  check_f64(f.s, tsr_call(g, x), 1, (double[]){ 15 });
  check_f64(f.s, tsr_call(tsr_grad(g), x), 3, (double[]){ 70, 10, 40 });
  close_fixture(&f);
}

/* ---- rules that go forward ------------------------------------------------------------------- */

/* How `pair` changes in a direction, times a number of the user. */
static tsr_array *pair_forward(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_field(in[0], "x"), *y = tsr_field(in[0], "y");
  tsr_array *dx = tsr_field(in[2], "x"), *dy = tsr_field(in[2], "y");
  double by = *(double *)user;
  CHECK_STR(tsr_tree_text(in[1]), "(product: *, sine: *)");
  CHECK(!in[3]);
  tsr_array *product = tsr_add(tsr_mul(dx, y), tsr_mul(x, dy));
  return tsr_tuple(s, tsr_mul(product, by), tsr_mul(tsr_mul(dx, tsr_cos(x)), by));
}

static void check_like(tsr_scope *s, tsr_array *a, tsr_array *like, int count)
{
  double expected[32];
  CHECK_STATUS(tsr_read(like, expected, (size_t)count * sizeof *expected), TSR_OK, s);
  check_f64(s, a, count, expected);
}

TEST(a_rule_forward_is_used_forward_and_its_transpose_backward)
{
  fixture f = open_fixture("cpu:2", "x=2");
  double by = 3, one = 1;
  tsr_function *plain = tsr_function_make(f.s, pair);
  tsr_function *own = tsr_custom_jvp(plain, .forward = pair_forward, .user = &by);
  tsr_array *x = vector(&f, (double[]){ 0.5, 1, -2 }, 3);
  tsr_array *y = vector(&f, (double[]){ 3, -1, 4 }, 3), *at[] = { x, y };
  tsr_array *in = tsr_tree(f.s, { "x", x }, { "y", y });
  tsr_array *to = tsr_tree(f.s, { "x", tsr_mul(y, y) }, { "y", tsr_exp(x) });
  tsr_array *went = tsr_item(tsr_call(tsr_jvp(own), in, to), 1);
  tsr_array *should = tsr_item(tsr_call(tsr_jvp(plain), in, to), 1);
  tsr_array *linear = tsr_call(tsr_linearize(own, .at = { in }), to);
  tsr_array *back = tsr_item(tsr_call(tsr_vjp(own), in, tsr_tuple(f.s, y, x)), 1);
  tsr_array *plain_back = tsr_item(tsr_call(tsr_vjp(plain), in, tsr_tuple(f.s, y, x)), 1);
  for (int i = 0; i < 2; i++) {
    check_like(f.s, tsr_item(went, i), tsr_mul(tsr_item(should, i), by), 3);
    check_like(f.s, tsr_item(linear, i), tsr_mul(tsr_item(should, i), by), 3);
    check_like(f.s, tsr_item(back, i), tsr_mul(tsr_item(plain_back, i), by), 3);
  }
  check_like(f.s, tsr_item(tsr_call(own, in), 0), tsr_mul(x, y), 3);
  /* Of the true slope, so that differences find it, also of what is made of it. */
  own = tsr_custom_jvp(plain, .forward = pair_forward, .user = &one);
  gradient_check(&(gradient_case){ "pair", f.s, use_pair, own, at, 2, 2, 1e-6, 5 });
  tsr_function *whole = tsr_function_make(f.s, use_pair, .user = plain);
  tsr_function *ruled = tsr_function_make(f.s, use_pair, .user = own);
  check_like(f.s, tsr_call(tsr_hvp(ruled), x, y, y), tsr_call(tsr_hvp(whole), x, y, y), 3);
  close_fixture(&f);
}

/* log(1 + exp x) of numbers whose exp is no number any more, each times as often as `n` says. */
static tsr_array *log1pexp(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(tsr_log1p(tsr_exp(in[0])), in[1]);
}

static tsr_array *log1pexp_forward(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  CHECK_I64(tsr_dtype_of(in[4]), TSR_I64);
  return tsr_mul(tsr_mul(in[3], tsr_sigmoid(in[0])), in[1]);
}

static tsr_array *sum_of(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_sum(tsr_call((tsr_function *)user, in[0], in[1]));
}

static tsr_array *on_shard(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *f = tsr_function_make(s, sum_of, .user = user);
  return tsr_call(tsr_grad(f), in[0], in[1]);
}

TEST(a_rule_forward_is_mapped_and_stands_on_shards)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_mesh *mesh = tsr_mesh_make(f.rt, "x=2");
  double at[4] = { 1000, 0, -1000, 2 }, slope[4], each[4][4] = { { 0 } };
  int64_t times[4] = { 1, 2, 3, 4 };
  for (int i = 0; i < 4; i++) each[i][i] = slope[i] = (double)times[i] / (1 + exp(-at[i]));
  tsr_function *plain = tsr_function_make(f.s, log1pexp), *ends = plain;
  tsr_function *own = tsr_custom_jvp(plain, .forward = log1pexp_forward);
  tsr_array *x = vector(&f, at, 4), *n = tsr_put(f.s, times, TSR_I64, TSR_SHAPE(4), f.on);
  double found;
  ends = tsr_grad(tsr_function_make(f.s, sum_of, .user = plain));
  tsr_array *first = tsr_slice(tsr_call(ends, x, n), { 0, 1, 1 });
  CHECK_STATUS(tsr_read(first, &found, sizeof found), TSR_OK, f.s);
  CHECK(isnan(found));
  check_f64(f.s, tsr_call(tsr_grad(tsr_function_make(f.s, sum_of, .user = own)), x, n), 4, slope);
  check_f64(f.s, tsr_call(tsr_vmap(tsr_grad(own)), x, n), 4, slope);
  check_f64(f.s, tsr_call(tsr_grad(tsr_function_make(f.s, sum_of, .user = tsr_vmap(own))), x, n), 4,
            slope);
  check_f64(f.s, tsr_call(tsr_jacobian(own), x, n), 16, each[0]);
  check_f64(f.s,
            tsr_shard_map(mesh, on_shard, own, .in = { x, n }, .in_specs = { "x", "x" },
                          .out_specs = { "x" }),
            4, slope);
  close_fixture(&f);
}

/* ---- rules that are wrong -------------------------------------------------------------------- */

enum { TOO_MANY, OTHER_SHAPE, OTHER_DTYPE, FAILS, NOTHING };

static tsr_array *product(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], in[1]);
}

static tsr_array *wrong_rule(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = tsr_mul(in[3], in[1]), *y = tsr_mul(in[3], in[0]);
  switch (*(int *)user) {
  case TOO_MANY: return tsr_tuple(s, x, y, x);
  case OTHER_SHAPE: return tsr_tuple(s, x, tsr_sum(y));
  case OTHER_DTYPE: return tsr_tuple(s, tsr_cast(x, TSR_F32), y);
  case FAILS: return tsr_tuple(s, tsr_reshape(x, TSR_SHAPE(7)), y);
  default: return NULL;
  }
}

static tsr_array *wrong_forward(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *d = tsr_add(tsr_mul(in[3], in[1]), tsr_mul(in[4], in[0]));
  switch (*(int *)user) {
  case TOO_MANY: return tsr_tuple(s, d, d, d);
  case OTHER_SHAPE: return tsr_tuple(s, d, tsr_sum(d));
  case OTHER_DTYPE: return tsr_cast(d, TSR_F32);
  case FAILS: return tsr_reshape(d, TSR_SHAPE(7));
  default: return NULL;
  }
}

TEST(rules_that_are_wrong_say_so)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_array *x = vector(&f, (double[]){ 2, 3, 5 }, 3);
  static const char *const said[] = {
    "the rule of product returns 3 arrays, expected 2, one for each array of its arguments",
    "the rule of product returns f64[] for array 1 of its arguments, expected f64[3]",
    "the rule of product returns f32[3] for array 0 of its arguments, expected f64[3]",
    "tsr_reshape: ", "returned NULL"
  };
  for (int kind = TOO_MANY; kind <= NOTHING; kind++) {
    tsr_function *own = tsr_custom_vjp(tsr_function_make(f.s, product, .name = "product"),
                                       .backward = wrong_rule, .user = &kind);
    CHECK(tsr_is_inert(tsr_call(own, x, x)));
    CHECK_STR_HAS(tsr_message(f.s), said[kind]);
    tsr_scope_clear(f.s);
  }
  static const char *const forward[] = {
    "the rule of product returns 3 arrays, expected 1, one for each array of its result",
    "the rule of product returns 2 arrays, expected 1",
    "the rule of product returns f32[3] for array 0 of its result, expected f64[3]",
    "tsr_reshape: ", "returned NULL"
  };
  for (int kind = TOO_MANY; kind <= NOTHING; kind++) {
    tsr_function *own = tsr_custom_jvp(tsr_function_make(f.s, product, .name = "product"),
                                       .forward = wrong_forward, .user = &kind);
    CHECK(tsr_is_inert(tsr_call(own, x, x)));
    CHECK_STR_HAS(tsr_message(f.s), forward[kind]);
    CHECK_STR_HAS(tsr_message(f.s), "custom_test.c:");
    tsr_scope_clear(f.s);
  }
  CHECK(tsr_is_inert(tsr_call(tsr_custom_jvp(tsr_function_make(f.s, product)), x, x)));
  CHECK_STR_HAS(tsr_message(f.s), "tsr_custom_jvp: the rule is NULL; give .forward");
  tsr_scope_clear(f.s);
  CHECK(tsr_is_inert(tsr_call(tsr_custom_vjp(tsr_function_make(f.s, product)), x, x)));
  CHECK_STR_HAS(tsr_message(f.s), "tsr_custom_vjp: the rule is NULL; give .backward");
  CHECK(!tsr_custom_vjp(NULL) && !tsr_custom_jvp(NULL) && !tsr_checkpoint(NULL));
  CHECK(tsr_jacobian(NULL) == NULL && tsr_linearize(NULL) == NULL);
  tsr_scope_clear(f.s);
  check_f64(f.s, tsr_mul(x, x), 3, (double[]){ 4, 9, 25 });
  close_fixture(&f);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

enum { ROWS = 256, WIDTH = 32, WIDE = 256, BLOCKS = 6 };

/* A wide layer inside, of which nothing is seen outside. */
static tsr_array *block(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *wide = tsr_tanh(tsr_matmul(in[0], in[1], .reproducible = true));
  (void)s, (void)user;
  return tsr_tanh(tsr_matmul(wide, tsr_transpose(in[1]), .reproducible = true));
}

static tsr_array *blocks(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *x = in[0];
  (void)s;
  for (int i = 0; i < BLOCKS; i++) x = tsr_call((tsr_function *)user, x, in[1]);
  return tsr_mean(x);
}

static double peak_of(bool checkpoint, float *slopes)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_shape shape = TSR_SHAPE(ROWS, WIDTH), weights = TSR_SHAPE(WIDTH, WIDE);
  tsr_array *x = tsr_normal(f.s, .key = 1, .shape = shape, .dtype = TSR_F32, .on = f.on);
  tsr_array *w = tsr_mul(tsr_normal(f.s, .key = 2, .shape = weights, .dtype = TSR_F32), 0.05);
  CHECK_STATUS(tsr_eval((tsr_array *[]){ x, w }, 2), TSR_OK, f.s);
  tsr_function *one = tsr_function_make(f.s, block);
  if (checkpoint) one = tsr_checkpoint(one);
  tsr_array *g = tsr_call(tsr_grad(tsr_function_make(f.s, blocks, .user = one)), x, w);
  CHECK_STATUS(tsr_read(g, slopes, sizeof(float) * ROWS * WIDTH), TSR_OK, f.s);
  double peak = (double)tsr_device_memory(f.rt, 0).peak;
  close_fixture(&f);
  return peak;
}

TEST(a_checkpoint_computes_again_instead_of_keeping)
{
  static float plain[ROWS * WIDTH], again[ROWS * WIDTH];
  double kept = peak_of(false, plain), less = peak_of(true, again);
  CHECK_BYTES(again, plain, sizeof plain);
  if (!(less < 0.6 * kept)) FAIL("peak %g with checkpoints, %g without", less, kept);
}

static tsr_array *chosen(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_where(tsr_not(in[1]), tsr_square(in[0]), in[0]));
}

/* An argument waits for what is due, as what it is. */
TEST(a_checkpoint_takes_bools)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_array *x = vector(&f, (double[]){ 3, -2, 5 }, 3), *y = tsr_lt(x, 0);
  tsr_function *g = tsr_function_make(f.s, chosen);
  check_f64(f.s, tsr_call(tsr_grad(tsr_checkpoint(g)), x, y), 3, (double[]){ 6, 1, 10 });
  close_fixture(&f);
}

static tsr_array *smooth(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sin(tsr_mul(tsr_exp(in[0]), in[0]));
}

/* ---- inside of per-device code --------------------------------------------------------------- */

typedef struct placing {
  const tsr_mesh *mesh;
  bool wraps, constrains;
} placing;

static tsr_array *meeting(tsr_scope *s, tsr_array *const *in, void *user)
{
  const placing *p = user;
  (void)s;
  tsr_array *own = p->constrains ? tsr_constrain(in[0], tsr_on(p->mesh, "x")) : in[0];
  return tsr_add(own, tsr_psum(in[1], "x"));
}

/* A call on what is the same everywhere, in a body that sees a device's part. */
static tsr_array *local(tsr_scope *s, tsr_array *const *in, void *user)
{
  const placing *p = user;
  tsr_function *f = tsr_function_make(s, meeting, .user = user);
  tsr_array *two = tsr_full(s, 2, TSR_F64, TSR_SHAPE(2), (tsr_sharding){ 0 });
  tsr_array *one = p->constrains ? in[0] : two;
  return tsr_mul(tsr_call(p->wraps ? tsr_checkpoint(f) : f, one, two), tsr_sum(in[0]));
}

/* As without a rule: axes have their names there, and devices their places. */
TEST(rules_stand_in_per_device_code)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_mesh *mesh = tsr_mesh_make(f.rt, "x=2");
  for (int k = 0; k < 4; k++) {
    placing p = { mesh, k & 1, k & 2 };
    double got[4];
    tsr_array *x = tsr_arange(f.s, 0, 4, .dtype = TSR_F64);
    tsr_array *out =
        tsr_shard_map(mesh, local, &p, .in = { x }, .in_specs = { "x" }, .out_specs = { "x" });
    tsr_status status = tsr_read(out, got, sizeof got);
    if (p.constrains) CHECK_STR_HAS(tsr_message(f.s), "axis x is manual here");
    CHECK_I64(status, p.constrains ? TSR_EAXIS : TSR_OK);
    tsr_scope_clear(f.s);
    for (int i = 0; i < 4 && !p.constrains; i++) CHECK(got[i] == (i < 2 ? 6 : 30));
  }
  close_fixture(&f);
}

TEST(checkpoints_are_differentiated_twice_and_mapped)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_function *one = tsr_checkpoint(tsr_checkpoint(tsr_function_make(f.s, smooth)));
  tsr_array *x = vector(&f, (double[]){ 0.5, 0.25, -1 }, 3);
  tsr_function *each = tsr_vmap(one);
  double plain[3];
  CHECK_STATUS(tsr_read(smooth(f.s, &x, NULL), plain, sizeof plain), TSR_OK, f.s);
  check_f64(f.s, tsr_call(one, x), 3, plain);
  check_f64(f.s, tsr_call(each, x), 3, plain);
  close_fixture(&f);
}

/* ---- derivatives as functions and arrays ----------------------------------------------------- */

static tsr_array *mixes(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(tsr_sum(tsr_square(in[0])), tsr_take(in[0], in[1]));
}

static void check_jacobian(int64_t results)
{
  fixture f = open_fixture("cpu:2", "x=2");
  double x[3] = { 1, 2, -3 }, expected[32];
  int64_t at[6] = { 2, 0, 1, 1, 0, 2 };
  for (int i = 0; i < results; i++)
    for (int k = 0; k < 3; k++) expected[3 * i + k] = 2 * x[k] * x[at[i]] + (at[i] == k ? 14 : 0);
  tsr_array *a = vector(&f, x, 3);
  tsr_array *places = tsr_put(f.s, at, TSR_I64, TSR_SHAPE(results), f.on);
  tsr_array *all = tsr_call(tsr_jacobian(tsr_function_make(f.s, mixes)), a, places);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  CHECK(tsr_shape_of(all).rank == 2 && tsr_shape_of(all).dims[0] == results);
  check_f64(f.s, all, (int)results * 3, expected);
  close_fixture(&f);
}

TEST(jacobians_go_back_or_forward)
{
  check_jacobian(2);
  check_jacobian(6);
}

TEST(jacobians_of_trees_and_of_several_arguments)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_array *x = vector(&f, (double[]){ 1, 2 }, 2), *y = vector(&f, (double[]){ 3, 5 }, 2);
  tsr_function *j = tsr_jacobian(tsr_function_make(f.s, product), .wrt = TSR_ARGS(0, 1));
  tsr_array *both = tsr_call(j, x, y);
  check_f64(f.s, tsr_item(both, 0), 4, (double[]){ 3, 0, 0, 5 });
  check_f64(f.s, tsr_item(both, 1), 4, (double[]){ 1, 0, 0, 2 });
  close_fixture(&f);
}

/* Each array of the result by each of the argument, as jax.jacobian nests them. */
TEST(jacobians_of_trees_are_trees_of_them)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_array *x = vector(&f, (double[]){ 1, 2 }, 2), *y = vector(&f, (double[]){ 3, 5 }, 2);
  tsr_function *j = tsr_jacobian(tsr_function_make(f.s, pair));
  tsr_array *all = tsr_call(j, tsr_tree(f.s, { "x", x }, { "y", y }));
  CHECK_STR(tsr_tree_text(all), "(product: (x: *, y: *), sine: (x: *, y: *))");
  check_f64(f.s, tsr_field(all, "product.x"), 4, (double[]){ 3, 0, 0, 5 });
  check_f64(f.s, tsr_field(all, "product.y"), 4, (double[]){ 1, 0, 0, 2 });
  check_f64(f.s, tsr_field(all, "sine.x"), 4, (double[]){ cos(1), 0, 0, cos(2) });
  check_f64(f.s, tsr_field(all, "sine.y"), 4, (double[]){ 0, 0, 0, 0 });
  close_fixture(&f);
}

/* ---- results that are no floats -------------------------------------------------------------- */

/* A loss, where the largest is, and whether all are above 0. */
static tsr_array *with_count(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tree(s, { "loss", tsr_sum(tsr_square(in[0])) }, { "most", tsr_argmax(in[0]) },
                  { "above", tsr_gt(in[0], 0) });
}

static void check_still(const fixture *f, tsr_array *change)
{
  int64_t most = 7;
  char above[3] = { 1, 1, 1 };
  CHECK_STATUS(tsr_scope_status(f->s), TSR_OK, f->s);
  CHECK_STR(tsr_tree_text(change), "(loss: *, most: *, above: *)");
  check_f64(f->s, tsr_field(change, "loss"), 1, (double[]){ 2 * (1 * 3 + 2 * 5 - 3 * 1) });
  CHECK_STATUS(tsr_read(tsr_field(change, "most"), &most, sizeof most), TSR_OK, f->s);
  CHECK_STATUS(tsr_read(tsr_field(change, "above"), above, sizeof above), TSR_OK, f->s);
  CHECK_I64(most, 0);
  for (int i = 0; i < 3; i++) CHECK(!above[i]);
}

TEST(what_is_no_float_does_not_change_in_a_direction)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_array *x = vector(&f, (double[]){ 1, 2, -3 }, 3), *d = vector(&f, (double[]){ 3, 5, 1 }, 3);
  tsr_function *g = tsr_function_make(f.s, with_count);
  check_still(&f, tsr_item(tsr_call(tsr_jvp(g), x, d), 1));
  check_still(&f, tsr_item(tsr_call(tsr_jvp(tsr_checkpoint(g)), x, d), 1));
  check_still(&f, tsr_call(tsr_linearize(g, .at = { x }), d));
  /* of a jvp too: how what changes changes */
  tsr_array *twice = tsr_call(tsr_jvp(tsr_jvp(g), .wrt = TSR_ARGS(0)), x, d, d);
  check_f64(f.s, tsr_field(twice, "1.1.loss"), 1, (double[]){ 2 * (9 + 25 + 1) });
  close_fixture(&f);
}

/* ---- who is told ----------------------------------------------------------------------------- */

static tsr_array *goes_on(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_sum(in[0]), 9);
}

static tsr_array *twice(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], 2);
}

/* Nothing goes back through it. */
static tsr_array *loops(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_while(goes_on, twice, NULL, in[0]));
}

enum { WRONG_CALLS = 10 };

static const char *const wrong_names[WRONG_CALLS] = {
  "tsr_grad", "tsr_value_and_grad", "tsr_vjp",      "tsr_hvp", "tsr_jacobian", "tsr_vjp", "tsr_jvp",
  "tsr_hvp",  "tsr_jacobian",       "tsr_linearize"
};

static tsr_array *wrong_call(const fixture *f, int kind)
{
  tsr_array *x = vector(f, (double[]){ 1, 1 }, 2), *n = tsr_cast(x, TSR_I64);
  tsr_function *g = tsr_function_make(f->s, loops);
  switch (kind) {
  case 0: return tsr_call(tsr_grad(g), x);
  case 1: return tsr_call(tsr_value_and_grad(g), x);
  case 2: return tsr_call(tsr_vjp(g), x, tsr_num(f->s, 1.0));
  case 3: return tsr_call(tsr_hvp(g), x, x);
  case 4: return tsr_call(tsr_jacobian(g), x); /* of one number it goes back */
  case 5: return tsr_call(tsr_vjp(g), n, n);
  case 6: return tsr_call(tsr_jvp(g), n, n);
  case 7: return tsr_call(tsr_hvp(g), n, n);
  case 8: return tsr_call(tsr_jacobian(tsr_function_make(f->s, twice)), n);
  default: return tsr_call(tsr_linearize(g, .at = { n }), n);
  }
}

TEST(messages_name_the_call_that_was_made)
{
  for (int kind = 0; kind < WRONG_CALLS; kind++) {
    fixture f = open_fixture("cpu:2", "x=2");
    CHECK(tsr_is_inert(wrong_call(&f, kind)));
    CHECK_STR_HAS(tsr_message(f.s), wrong_names[kind]);
    for (int k = 0; k < WRONG_CALLS; k++) {
      bool other = strcmp(wrong_names[k], wrong_names[kind]) != 0;
      char said[64];
      snprintf(said, sizeof said, "%s: ", wrong_names[k]);
      if (other && strstr(tsr_message(f.s), said))
        FAIL("%s: %s", wrong_names[kind], tsr_message(f.s));
    }
    close_fixture(&f);
  }
}

/* ---- by any argument ------------------------------------------------------------------------- */

static tsr_array *of_sixteen(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *sum = tsr_num(s, 0.0);
  for (int i = 0; i < TSR_MAX_ARGS; i++) sum = tsr_add(sum, tsr_mul(tsr_square(in[i]), i + 1));
  return sum;
}

TEST(a_gradient_is_by_any_argument)
{
  fixture f = open_fixture("cpu:2", "x=2");
  tsr_array *in[TSR_MAX_ARGS];
  tsr_function *g = tsr_function_make(f.s, of_sixteen);
  for (int i = 0; i < TSR_MAX_ARGS; i++) in[i] = tsr_num(f.s, 1.0 + i);
  for (int i = 0; i < TSR_MAX_ARGS; i++) {
    tsr_dims one = tsr_dims_of(&i, 1);
    tsr_array *slope = tsr_call_at(tsr_grad(g, .wrt = one), in, TSR_MAX_ARGS, TSR_HERE);
    check_f64(f.s, slope, 1, (double[]){ 2.0 * (i + 1) * (i + 1) });
  }
  tsr_function *last = tsr_value_and_grad(g, .wrt = TSR_ARGS(3, 15, -2));
  tsr_array *three = tsr_item(tsr_call_at(last, in, TSR_MAX_ARGS, TSR_HERE), 1);
  CHECK_I64(tsr_item_count(three), 3);
  check_f64(f.s, tsr_item(three, 1), 1, (double[]){ 2.0 * 15 * 15 });
  check_f64(f.s, tsr_item(three, 2), 1, (double[]){ 2.0 * 16 * 16 });
  close_fixture(&f);
}

TEST(a_linear_function_takes_directions_at_a_point)
{
  fixture f = open_fixture("cpu:2", "x=2");
  double x[3] = { 0.5, 0.25, -1 }, expected[3];
  double d[2][3] = { { 1, 2, -3 }, { 0, 0.5, 1 } };
  tsr_function *at = tsr_linearize(tsr_function_make(f.s, smooth), .at = { vector(&f, x, 3) });
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 3; i++)
      expected[i] = cos(x[i] * exp(x[i])) * (x[i] * exp(x[i]) + exp(x[i])) * d[k][i];
    check_f64(f.s, tsr_call(at, vector(&f, d[k], 3)), 3, expected);
  }
  CHECK_I64(tsr_trace_count(at), 1);
  CHECK(tsr_is_inert(tsr_call(at, vector(&f, x, 2))));
  CHECK_STR_HAS(tsr_message(f.s), "tsr_linearize: tangent 0 is f64[2]");
  tsr_scope_clear(f.s);
  close_fixture(&f);
}

/* ---- digamma --------------------------------------------------------------------------------- */

TEST(digamma_is_the_slope_of_lgamma)
{
  fixture f = open_fixture("cpu:2", "x=2");
  /* As mpmath has it: 1, 1/2, 10, -1/2, -3.25, 1e6, 1.4616321449683623 (its root), 2^-20, 0.75 */
  double x[9] = { 1, 0.5, 10, -0.5, -3.25, 1e6, 1.4616321449683623, 0x1p-20, 0.75 }, found[9];
  double expected[9] = { -0.57721566490153286,
                         -1.9635100260214235,
                         2.2517525890667211,
                         0.036489973978576520,
                         4.4662758723502800,
                         13.815510057964191,
                         0,
                         -1048576.5772140961,
                         -1.0858608797864722 };
  tsr_array *out = tsr_digamma(vector(&f, x, 9));
  CHECK_STATUS(tsr_read(out, found, sizeof found), TSR_OK, f.s);
  for (int i = 0; i < 9; i++)
    if (!(fabs(found[i] - expected[i]) <= 4e-15 * fmax(1, fabs(expected[i]))))
      FAIL("digamma(%g) = %.17g, expected %.17g", x[i], found[i], expected[i]);
  close_fixture(&f);
}
