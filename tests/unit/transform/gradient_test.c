/* Gradients as functions: of a network on real digits, on one device and on eight; vjp, jvp and
 * second derivatives; what has none. */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "support/gradient_check.h"
#include "tessera.h"
#include "transform/backward.h"

/* ---- the table ------------------------------------------------------------------------------- */

TEST(every_row_has_a_rule_or_says_why_not)
{
  int rules = 0, zero = 0, none = 0, waiting = 0;
  for (int op = 0; op < TSR__OPS; op++) {
    const char *kind = tsr__gradient_kind(op);
    if (!kind) FAIL("%s has no column GRADIENT", tsr__ops[op].name);
    if (!strcmp(kind, "rule")) rules++;
    else if (!strcmp(kind, "zero")) zero++;
    else if (strstr(kind, "not yet written")) waiting++;
    else none++;
  }
  CHECK_I64(rules + zero + none + waiting, TSR__OPS);
  CHECK_I64(none, 7);
  CHECK_I64(waiting, 0);
}

/* ---- a network on digits --------------------------------------------------------------------- */

enum { IMAGES = 256, PIXELS = 64, HIDDEN = 16, CLASSES = 10 };

static float images[IMAGES][PIXELS];
static int64_t labels[IMAGES];

static void read_digits(void)
{
  char *text = test_read(test_file("golden/digits.txt"), NULL);
  int n = 0;
  for (char *line = strtok(text, "\n"); line && n < IMAGES; line = strtok(NULL, "\n")) {
    if (line[0] == '#') continue;
    for (int i = 0; i < PIXELS; i++) images[n][i] = (float)(line[i] - 'a') / 16;
    labels[n++] = line[PIXELS + 1] - '0';
  }
  CHECK_I64(n, IMAGES);
}

static tsr_array *layer(tsr_array *p, tsr_array *x, bool reproducible)
{
  return tsr_add(tsr_matmul(x, tsr_field(p, "w"), .reproducible = reproducible), tsr_field(p, "b"));
}

/* The mean of minus the logarithm of what the network gives the true class. `user`: products of any
 * order will do. */
static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *hidden = tsr_tanh(layer(tsr_field(in[0], "one"), in[1], !user));
  tsr_array *scores = layer(tsr_field(in[0], "two"), hidden, !user);
  tsr_array *truth = tsr_one_hot(in[2], CLASSES, tsr_dtype_of(scores));
  (void)s;
  return tsr_neg(
      tsr_mean(tsr_sum(tsr_mul(tsr_log_softmax(scores, 1), truth), .dims = TSR_DIMS(1))));
}

static tsr_array *even(tsr_scope *s, tsr_shape shape, double scale)
{
  tsr_shape flat = { .rank = 1, .dims = { 1 } };
  for (int d = 0; d < shape.rank; d++) flat.dims[0] *= shape.dims[d];
  tsr_array *at = tsr_iota(s, TSR_F64, flat, 0, (tsr_sharding){ 0 });
  return tsr_reshape(tsr_mul(tsr_sin(tsr_mul(at, 12.9898)), scale), shape);
}

static tsr_array *parameters(tsr_scope *s, tsr_dtype dtype)
{
  tsr_array *w1 = tsr_cast(even(s, TSR_SHAPE(PIXELS, HIDDEN), 0.25), dtype);
  tsr_array *b1 = tsr_cast(even(s, TSR_SHAPE(HIDDEN), 0.1), dtype);
  tsr_array *w2 = tsr_cast(even(s, TSR_SHAPE(HIDDEN, CLASSES), 0.25), dtype);
  tsr_array *b2 = tsr_cast(even(s, TSR_SHAPE(CLASSES), 0.1), dtype);
  return tsr_tree(s, { "one", tsr_tree(s, { "w", w1 }, { "b", b1 }) },
                  { "two", tsr_tree(s, { "w", w2 }, { "b", b2 }) });
}

/* The digits, cut over so many devices. */
static void put_digits(tsr_scope *s, const tsr_mesh *mesh, tsr_dtype dtype, tsr_array **out)
{
  tsr_sharding rows = tsr_on(mesh, "data");
  out[0] = tsr_cast(tsr_put(s, images, TSR_F32, TSR_SHAPE(IMAGES, PIXELS), rows), dtype);
  out[1] = tsr_put(s, labels, TSR_I64, TSR_SHAPE(IMAGES), rows);
}

/* Gradients at the first parameters, as f32, in the order of the tree. */
typedef struct slopes {
  float w1[PIXELS * HIDDEN], b1[HIDDEN], w2[HIDDEN * CLASSES], b2[CLASSES], loss;
} slopes;

static void find_slopes(const char *devices, const char *axes, slopes *out)
{
  tsr_runtime *rt = tsr_runtime_open(devices, .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, axes);
  tsr_array *data[2];
  put_digits(s, mesh, TSR_F32, data);
  tsr_function *g = tsr_value_and_grad(tsr_function_make(s, loss, .name = "loss"));
  tsr_array *both = tsr_call(g, parameters(s, TSR_F32), data[0], data[1]);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_STR(tsr_tree_text(both), "(*, (one: (w: *, b: *), two: (w: *, b: *)))");
  CHECK_STATUS(tsr_read(tsr_item(both, 0), &out->loss, sizeof out->loss), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_field(both, "1.one.w"), out->w1, sizeof out->w1), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_field(both, "1.one.b"), out->b1, sizeof out->b1), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_field(both, "1.two.w"), out->w2, sizeof out->w2), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_field(both, "1.two.b"), out->b2, sizeof out->b2), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(gradients_of_a_network_have_the_same_bits_on_one_and_on_eight_devices)
{
  static slopes one, eight, uneven;
  read_digits();
  find_slopes("cpu:1", "data=1", &one);
  find_slopes("cpu:8", "data=8", &eight);
  find_slopes("cpu:3", "data=3", &uneven);
  CHECK(one.loss > 1 && one.loss < 10);
  CHECK_BYTES(&eight, &one, sizeof one);
  CHECK_BYTES(&uneven, &one, sizeof one);
}

/* The loss of one small tree of parameters, by all of them as one array. */
static tsr_array *flat_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *const *data = user;
  tsr_array *p = parameters(s, TSR_F64), *leaves[4];
  int at = 0;
  tsr_tree_leaves(p, leaves, 4);
  for (int i = 0; i < 4; i++) {
    tsr_shape shape = tsr_shape_of(leaves[i]);
    int size = (int)(shape.rank == 2 ? shape.dims[0] * shape.dims[1] : shape.dims[0]);
    leaves[i] = tsr_reshape(tsr_slice(in[0], TSR_RANGE(at, at + size)), shape);
    at += size;
  }
  tsr_array *all[] = { tsr_tree_like(p, leaves, 4), data[0], data[1] };
  return loss(s, all, NULL);
}

TEST(gradients_of_a_network_are_central_differences)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=8");
  tsr_array *data[2];
  read_digits();
  put_digits(s, mesh, TSR_F64, data);
  CHECK_STATUS(tsr_eval(data, 2), TSR_OK, s);
  enum { ALL = PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES };
  tsr_array *p = even(s, TSR_SHAPE(ALL), 0.3);
  for (uint64_t seed = 0; seed < 3; seed++)
    gradient_check(&(gradient_case){ "network", s, flat_loss, data, &p, 1, 2, 1e-6, seed });
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_array *step(tsr_scope *s, tsr_array *const *leaves, void *user)
{
  (void)s;
  return tsr_sub(leaves[0], tsr_mul(leaves[1], *(double *)user));
}

/* How a network is trained, and how its losses go; not `exact`: by products of any order. */
typedef struct course {
  const char *devices, *axes;
  bool exact;
  int steps;
  float losses[40];
} course;

/* Data along one axis; weights are cut along the other one, if there is one. */
static tsr_array *placed(tsr_array *p, const tsr_mesh *mesh)
{
  tsr_array *leaves[4];
  if (tsr_mesh_axis_count(mesh) < 2) return p;
  tsr_tree_leaves(p, leaves, 4);
  leaves[0] = tsr_reshard(leaves[0], tsr_on(mesh, "-,model"));
  leaves[1] = tsr_reshard(leaves[1], tsr_on(mesh, "model"));
  leaves[2] = tsr_reshard(leaves[2], tsr_on(mesh, "model,-"));
  return tsr_tree_like(p, leaves, 4);
}

static void train(course *c)
{
  tsr_runtime *rt = tsr_runtime_open(c->devices, .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, c->axes);
  tsr_array *data[2], *p = placed(parameters(s, TSR_F32), mesh);
  double rate = 0.5;
  put_digits(s, mesh, TSR_F32, data);
  tsr_function *f = tsr_function_make(s, loss, .user = c->exact ? NULL : c, .name = "loss");
  tsr_function *g = tsr_value_and_grad(f);
  for (int i = 0; i < c->steps; i++) {
    tsr_array *both = tsr_call(g, p, data[0], data[1]), *leaves[5];
    tsr_array *next[] = { p, tsr_item(both, 1) };
    p = tsr_tree_map(step, &rate, next, 2);
    CHECK_I64(tsr_tree_leaves(p, leaves, 4), 4);
    leaves[4] = tsr_item(both, 0);
    CHECK_STATUS(tsr_eval(leaves, 5), TSR_OK, s);
    CHECK_STATUS(tsr_read(leaves[4], &c->losses[i], sizeof c->losses[i]), TSR_OK, s);
  }
  CHECK(tsr_trace_count(g) <= 2); /* the first parameters lie elsewhere than what follows */
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(a_network_learns_on_eight_devices_as_on_one)
{
  course one = { "cpu:1", "data=1", true, 40, { 0 } },
         eight = { "cpu:8", "data=8", true, 40, { 0 } };
  read_digits();
  train(&eight);
  train(&one);
  CHECK(one.losses[39] < 0.35F * one.losses[0]);
  CHECK_BYTES(eight.losses, one.losses, sizeof one.losses);
}

/* NUMERICS states how far losses may go apart where products are of any order. */
TEST_TIMEOUT(losses_have_the_same_bits_on_any_mesh_and_agree_without_being_asked_to, 120)
{
  enum { MESHES = 5, STEPS = 20 };
  const char *const meshes[MESHES][2] = { { "cpu:1", "data=1" },
                                          { "cpu:2", "data=2" },
                                          { "cpu:4", "data=4" },
                                          { "cpu:8", "data=8" },
                                          { "cpu:8", "data=4,model=2" } };
  read_digits();
  for (int exact = 1; exact >= 0; exact--) {
    course first = { meshes[0][0], meshes[0][1], true, STEPS, { 0 } };
    train(&first);
    for (int m = !!exact; m < MESHES; m++) {
      course c = { meshes[m][0], meshes[m][1], exact, STEPS, { 0 } };
      train(&c);
      if (exact && memcmp(c.losses, first.losses, sizeof c.losses) != 0)
        FAIL("other bits on %s", c.axes);
      for (int i = 0; i < STEPS; i++)
        if (!(fabsf(c.losses[i] - first.losses[i]) <= 1e-6F * (1 + first.losses[i])))
          FAIL("%s, step %d: %.9g, expected %.9g", c.axes, i, c.losses[i], first.losses[i]);
    }
  }
}

/* ---- functions of functions ------------------------------------------------------------------ */

static tsr_array *cubes(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  (void)user;
  return tsr_mul(tsr_pow(in[0], 3), in[1]);
}

static tsr_array *calling(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *y = tsr_call(user, in[0], tsr_mul(in[0], 2));
  (void)s;
  return tsr_sum(tsr_call(user, y, in[1]));
}

static void check_f64(tsr_scope *s, tsr_array *a, int count, const double *expected)
{
  double found[16];
  CHECK_STATUS(tsr_read(a, found, (size_t)count * sizeof *found), TSR_OK, s);
  for (int i = 0; i < count; i++) CHECK_F64_ULP(found[i], expected[i], 4);
}

TEST(products_with_the_jacobian_go_both_ways)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, "x=2"), "x");
  double x[3] = { 1, 2, -3 }, y[3] = { 5, 7, 11 }, t[3] = { 1, 0.5, 2 };
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(3), on);
  tsr_array *b = tsr_put(s, y, TSR_F64, TSR_SHAPE(3), on);
  tsr_array *d = tsr_put(s, t, TSR_F64, TSR_SHAPE(3), on);
  tsr_function *f = tsr_function_make(s, cubes);
  tsr_array *back = tsr_call(tsr_vjp(f, .wrt = TSR_ARGS(0, 1)), a, b, d);
  check_f64(s, tsr_item(back, 0), 3, (double[]){ 5, 56, -297 });
  check_f64(s, tsr_field(back, "1.0"), 3, (double[]){ 15, 42, 594 }); /* 3 x^2 y t */
  check_f64(s, tsr_field(back, "1.1"), 3, (double[]){ 1, 4, -54 });
  tsr_array *forth = tsr_call(tsr_jvp(f), a, b, d);
  check_f64(s, tsr_item(forth, 0), 3, (double[]){ 5, 56, -297 });
  check_f64(s, tsr_item(forth, 1), 3, (double[]){ 15, 42, 594 });
  forth = tsr_call(tsr_jvp(f, .wrt = TSR_ARGS(0, 1)), a, b, d, a);
  check_f64(s, tsr_item(forth, 1), 3, (double[]){ 16, 58, 675 });
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(gradients_go_through_calls_and_twice)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, "x=2"), "x");
  double x[3] = { 1, 2, -1 }, y[3] = { 5, 7, 11 }, t[3] = { 1, 2, 3 };
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(3), on);
  tsr_array *b = tsr_put(s, y, TSR_F64, TSR_SHAPE(3), on);
  tsr_array *d = tsr_put(s, t, TSR_F64, TSR_SHAPE(3), on);
  tsr_function *f = tsr_function_make(s, calling, .user = tsr_function_make(s, cubes));
  /* (2 x^4)^3 y = 8 x^12 y */
  check_f64(s, tsr_call(tsr_grad(f), a, b), 3, (double[]){ 480, 1376256, -1056 });
  check_f64(s, tsr_call(tsr_hvp(f), a, b, d), 3, (double[]){ 5280, 15138816, 34848 });
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* x to the n, times the line's second number; `user` is both. */
typedef struct powers {
  int64_t n;
  double by;
} powers;

static tsr_array *power(tsr_scope *s, tsr_array *const *in, void *user)
{
  const powers *p = user;
  (void)s;
  return tsr_mul(tsr_pow(in[0], p->n), p->by);
}

/* The bytes at .user are arguments of all that is made of a function: what it was differentiated
 * for before holds for these bytes alone. */
TEST(bytes_of_a_function_are_arguments_of_its_gradients)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  powers p = { 3, 2 };
  tsr_array *x =
      tsr_put(s, (double[]){ 2, 3 }, TSR_F64, TSR_SHAPE(2), tsr_on(tsr_mesh_make(rt, "x=2"), "x"));
  tsr_array *one = tsr_slice(x, TSR_RANGE(0, 1)), *scalar = tsr_reshape(one, (tsr_shape){ 0 });
  tsr_function *f = tsr_function_make(s, power, .user = &p, .user_bytes = sizeof p);
  tsr_function *each = tsr_vmap(tsr_grad(f)), *back = tsr_vjp(f), *all = tsr_jacobian(f);
  tsr_function *second = tsr_hvp(f), *twice = tsr_grad(tsr_grad(f));
  for (int i = 0; i < 4; i++) { /* 2 x^3, 5 x^2, 2 x^3 ... */
    p = i % 2 ? (powers){ 2, 5 } : (powers){ 3, 2 };
    bool cube = i % 2 == 0;
    check_f64(s, tsr_call(each, x), 2, cube ? (double[]){ 24, 54 } : (double[]){ 20, 30 });
    check_f64(s, tsr_item(tsr_call(back, x, x), 1), 2,
              cube ? (double[]){ 48, 162 } : (double[]){ 40, 90 });
    check_f64(s, tsr_call(all, scalar), 1, cube ? (double[]){ 24 } : (double[]){ 20 });
    check_f64(s, tsr_call(second, scalar, scalar), 1, cube ? (double[]){ 48 } : (double[]){ 20 });
    check_f64(s, tsr_call(twice, scalar), 1, cube ? (double[]){ 24 } : (double[]){ 10 });
  }
  CHECK_I64(tsr_trace_count(each), 2);
  CHECK_I64(tsr_trace_count(twice), 2);
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- what has no gradient -------------------------------------------------------------------- */

static tsr_array *whole(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  (void)user;
  return in[0];
}

TEST(what_has_no_gradient_says_so)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_arange(s, 0, 4, .dtype = TSR_F32), *i = tsr_arange(s, 0, 4, .dtype = TSR_I32);
  tsr_function *f = tsr_function_make(s, whole, .name = "f");
  CHECK(tsr_is_inert(tsr_call(tsr_grad(f), i)));
  CHECK_STR_HAS(tsr_message(s), "tsr_grad: array 0 of argument 0 of f is i32[4]");
  CHECK_STR_HAS(tsr_message(s), "which has no gradient");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_call(tsr_grad(f), a)));
  CHECK_STR_HAS(tsr_message(s), "the result of f is f32[4], expected one float of rank 0");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_call(tsr_grad(f, .wrt = TSR_ARGS(1)), a)));
  CHECK_STR_HAS(tsr_message(s), "fewer arguments than .wrt names");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_call(tsr_vjp(f), a, i)));
  CHECK_STR_HAS(tsr_message(s), "array 0 of the cotangent is i32[4], expected f32[4]");
  tsr_scope_clear(s);
  CHECK(tsr_grad(NULL) == NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
