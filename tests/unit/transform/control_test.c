/* Loops and choices inside programs: the values of the same steps written out, on one device and on
 * eight, nested and in functions; what bodies may not return. */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "support/mesh_fixture.h"
#include "tessera.h"

static size_t bytes_of(tsr_array *a)
{
  size_t bytes = tsr_dtype_size(tsr_dtype_of(a));
  for (int d = 0; d < tsr_shape_of(a).rank; d++) bytes *= (size_t)tsr_shape_of(a).dims[d];
  return bytes;
}

static void check_same(tsr_array *a, tsr_array *b)
{
  double x[512], y[512];
  CHECK(bytes_of(a) == bytes_of(b) && bytes_of(a) <= sizeof x);
  CHECK_STATUS(tsr_read(a, x, bytes_of(a)), TSR_OK, NULL);
  CHECK_STATUS(tsr_read(b, y, bytes_of(b)), TSR_OK, NULL);
  CHECK(!memcmp(x, y, bytes_of(a)));
}

/* ---- scan ------------------------------------------------------------------------------------ */

/* h = tanh(h * 0.5 + x), y = h * x */
static tsr_array *recur(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *h = tsr_tanh(tsr_add(tsr_mul(in[0], 0.5), in[1]));
  return tsr_tuple(s, h, tsr_mul(h, in[1]));
}

static void check_recurrence(fixture *f, tsr_sharding h_at, tsr_sharding x_at)
{
  enum { STEPS = 9, N = 16 };
  double x[STEPS][N], h[N], ys[STEPS][N], got_h[N], got[STEPS][N];
  for (int k = 0; k < STEPS; k++)
    for (int i = 0; i < N; i++) x[k][i] = (k * 7 + i * 3) % 11 * 0.125 - 0.5;
  for (int i = 0; i < N; i++) h[i] = i * 0.25 - 1;
  tsr_array *a = tsr_put(f->s, h, TSR_F64, TSR_SHAPE(N), h_at);
  tsr_array *b = tsr_put(f->s, x, TSR_F64, TSR_SHAPE(STEPS, N), x_at), *c = a;
  tsr_array *made = tsr_scan(recur, NULL, a, .xs = b);
  for (int k = 0; k < STEPS; k++) {
    tsr_array *row = tsr_put(f->s, x[k], TSR_F64, TSR_SHAPE(N), h_at), *in[] = { c, row, NULL };
    tsr_array *both = recur(f->s, in, NULL);
    c = tsr_item(both, 0);
    CHECK_STATUS(tsr_read(tsr_item(both, 1), ys[k], sizeof ys[k]), TSR_OK, f->s);
  }
  CHECK_STATUS(tsr_read(c, h, sizeof h), TSR_OK, f->s);
  CHECK_STATUS(tsr_read(tsr_item(made, 0), got_h, sizeof got_h), TSR_OK, f->s);
  CHECK_STATUS(tsr_read(tsr_item(made, 1), got, sizeof got), TSR_OK, f->s);
  CHECK(!memcmp(h, got_h, sizeof h));
  CHECK(!memcmp(ys, got, sizeof got));
}

TEST(a_scan_is_its_steps_written_out)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  const char *const specs[][2] = {
    { "", "" }, { "x", "-,x" }, { "x+y", "-,x+y" }, { "x", "x,y" }, { "y", "x" }, { "x", "-" },
  };
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    check_recurrence(&f, tsr_on(f.mesh, specs[i][0]), tsr_on(f.mesh, specs[i][1]));
  tsr_scope *one = f.s;
  check_recurrence(&f, (tsr_sharding){ 0 }, (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_scope_status(one), TSR_OK, one);
  close_fixture(&f);
}

/* ---- fori ------------------------------------------------------------------------------------ */

static tsr_array *add_number(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(tsr_mul(in[1], 3), in[0]);
}

TEST(fori_gives_its_body_each_number)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  int64_t start[16], want[16], got[16];
  for (int i = 0; i < 16; i++) start[i] = want[i] = i;
  for (int64_t k = 5; k < 12; k++)
    for (int i = 0; i < 16; i++) want[i] = want[i] * 3 + k;
  const char *const specs[] = { "", "x", "x+y", "y" };
  for (int i = 0; i < 4; i++) {
    tsr_array *a = tsr_put(f.s, start, TSR_I64, TSR_SHAPE(16), tsr_on(f.mesh, specs[i]));
    CHECK_STATUS(tsr_read(tsr_fori(5, 12, add_number, NULL, a), got, sizeof got), TSR_OK, f.s);
    CHECK(!memcmp(want, got, sizeof got));
    CHECK_STATUS(tsr_read(tsr_fori(5, 3, add_number, NULL, a), got, sizeof got), TSR_OK, f.s);
    CHECK(!memcmp(start, got, sizeof got));
  }
  close_fixture(&f);
}

/* A loop in a loop, whose inner one has *user steps. */
static tsr_array *add_numbers(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_fori(0, *(int *)user, add_number, NULL, tsr_add(in[1], in[0]));
}

/* A carry alone: nothing is stacked. */
static tsr_array *scan_number(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_tuple(s, add_number(s, (tsr_array *const[]){ in[1], in[0] }, user),
                   tsr_tuple_at(s, NULL, 0, TSR_HERE));
}

static int64_t written_out(int64_t x, int outer, int inner)
{
  for (int k = 0; k < outer; k++) {
    x += k;
    for (int i = 0; i < inner; i++) x = x * 3 + i;
  }
  return x;
}

static int64_t read_one(fixture *f, tsr_array *a, bool cached)
{
  int64_t got = 0;
  CHECK_STATUS(tsr_read(a, &got, sizeof got), TSR_OK, f->s);
  CHECK_I64(tsr_last_run(f->s).cached, cached);
  return got;
}

TEST(loops_of_any_length_share_a_plan)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  int64_t start = 2, backward = 2, forward = 2;
  tsr_array *a = tsr_put(f.s, &start, TSR_I64, TSR_SCALAR, tsr_on(f.mesh, ""));
  const int counts[] = { 4, 5, 0, 1, 17 };
  for (int i = 0; i < 5; i++) {
    int n = counts[i];
    tsr_array *out = tsr_fori(0, n, add_number, NULL, a);
    CHECK_I64(read_one(&f, out, i > 0), written_out(2, 1, n));
  }
  for (int i = 0; i < 4; i++) {
    int n = counts[i], m = i + 1;
    tsr_array *out = tsr_fori(0, m, add_numbers, &n, a);
    CHECK_I64(read_one(&f, out, i > 0), written_out(2, m, n));
  }
  for (int n = 1; n < 6; n++) {
    tsr_array *out = tsr_scan(scan_number, NULL, a, .length = n);
    forward = forward * 3 + n - 1;
    CHECK_I64(read_one(&f, tsr_item(out, 0), true), forward); /* it is the fori's program */
    backward = 2;
    for (int k = n - 1; k >= 0; k--) backward = backward * 3 + k;
    out = tsr_scan(scan_number, NULL, a, .length = n, .reverse = true);
    CHECK_I64(read_one(&f, tsr_item(out, 0), n > 1), backward);
  }
  /* Two in one program are two all the same. */
  tsr_array *both =
      tsr_sub(tsr_fori(0, 5, add_number, NULL, a), tsr_fori(0, 4, add_number, NULL, a));
  CHECK_I64(read_one(&f, both, false), written_out(2, 1, 5) - written_out(2, 1, 4));
  close_fixture(&f);
}

/* ---- while, cond, switch --------------------------------------------------------------------- */

static tsr_array *below(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_lt(tsr_sum(in[0]), 1000);
}

static tsr_array *twice(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[0], 2);
}

TEST(while_goes_on_as_long_as_it_is_told)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  const char *const specs[] = { "", "x", "x+y", "y" };
  for (int i = 0; i < 4; i++) {
    double got[16];
    double ones[16];
    for (int k = 0; k < 16; k++) ones[k] = 1;
    tsr_array *a = tsr_put(f.s, ones, TSR_F64, TSR_SHAPE(16), tsr_on(f.mesh, specs[i]));
    CHECK_STATUS(tsr_read(tsr_while(below, twice, NULL, a), got, sizeof got), TSR_OK, f.s);
    for (int k = 0; k < 16; k++) CHECK(got[k] == 64);
  }
  close_fixture(&f);
}

static tsr_array *less(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, tsr_sub(in[0], in[1]), tsr_sum(in[1]));
}

static tsr_array *more(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  return tsr_tuple(s, tsr_add(in[0], in[1]), tsr_max(in[0]));
}

TEST(cond_runs_what_its_predicate_says)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  const char *const specs[] = { "", "x", "x+y", "y" };
  for (int i = 0; i < 4; i++) {
    tsr_array *a = tsr_reshard(tsr_arange(f.s, 0, 16, .dtype = TSR_F64), tsr_on(f.mesh, specs[i]));
    tsr_array *b = tsr_mul(a, a);
    for (int k = 0; k < 2; k++) {
      tsr_array *p = tsr_gt(tsr_sum(a), k ? 100 : 1000), *in[] = { a, b, NULL };
      tsr_array *got = tsr_cond(p, more, less, NULL, a, b),
                *want = (k ? more : less)(f.s, in, NULL);
      check_same(tsr_item(got, 0), tsr_item(want, 0));
      check_same(tsr_item(got, 1), tsr_item(want, 1));
    }
    for (int k = -2; k < 5; k++) {
      tsr_array *at = tsr_sub(tsr_sum(tsr_cast(a, TSR_I64)), 120 - k), *in[] = { a, b, NULL };
      tsr_body_fn *bodies[] = { less, more, less };
      tsr_array *got = tsr_switch(at, NULL, .bodies = { less, more, less }, .in = { a, b });
      check_same(tsr_item(got, 0), tsr_item(bodies[k < 0 ? 0 : k > 2 ? 2 : k](f.s, in, NULL), 0));
    }
  }
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  close_fixture(&f);
}

/* ---- nested, trees, reverse ------------------------------------------------------------------ */

static tsr_array *inner_sum(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[1], tsr_mul(in[2], in[0]));
}

/* The tree (a, b) and a slice of three steps: a loop in a loop. */
static tsr_array *outer(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *a = tsr_field(in[0], "a"), *b = tsr_field(in[0], "b.0");
  tsr_array *sum = tsr_fori(1, 4, inner_sum, NULL, a, .with = in[1]);
  tsr_array *both = tsr_tree(s, { "a", sum }, { "b", tsr_tuple(s, tsr_add(b, tsr_sum(sum))) });
  return tsr_tuple(s, both, tsr_tuple(s, b, tsr_gt(sum, 20)));
}

TEST(loops_in_loops_of_trees_go_back_too)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  const char *const specs[][2] = { { "", "" }, { "x", "-,x" }, { "y", "x,y" } };
  for (int i = 0; i < 3; i++) {
    tsr_array *x = tsr_reshape(tsr_arange(f.s, 0, 12, .dtype = TSR_F64), TSR_SHAPE(3, 4));
    tsr_array *at = tsr_reshard(x, tsr_on(f.mesh, specs[i][1]));
    tsr_array *a = tsr_full(f.s, 1, TSR_F64, TSR_SHAPE(4), tsr_on(f.mesh, specs[i][0]));
    tsr_array *b = tsr_full(f.s, 0, TSR_F64, TSR_SHAPE(0), tsr_on(f.mesh, ""));
    b = tsr_sum(b);
    tsr_array *made = tsr_scan(outer, NULL, tsr_tree(f.s, { "a", a }, { "b", tsr_tuple(f.s, b) }),
                               .xs = at, .reverse = true);
    double want_a[4] = { 1, 1, 1, 1 }, want_b = 0, ys[3], got_a[4], got_b, got_y[3];
    uint8_t high[3][4], got_high[3][4];
    for (int k = 2; k >= 0; k--) {
      ys[k] = want_b;
      for (int j = 0; j < 4; j++) want_a[j] += 6 * (4 * k + j);
      for (int j = 0; j < 4; j++) high[k][j] = want_a[j] > 20;
      for (int j = 0; j < 4; j++) want_b += want_a[j];
    }
    CHECK_STATUS(tsr_read(tsr_field(made, "0.a"), got_a, sizeof got_a), TSR_OK, f.s);
    CHECK_STATUS(tsr_read(tsr_field(made, "0.b.0"), &got_b, sizeof got_b), TSR_OK, f.s);
    CHECK_STATUS(tsr_read(tsr_field(made, "1.0"), got_y, sizeof got_y), TSR_OK, f.s);
    CHECK_STATUS(tsr_read(tsr_field(made, "1.1"), got_high, sizeof got_high), TSR_OK, f.s);
    CHECK(!memcmp(want_a, got_a, sizeof got_a));
    CHECK(want_b == got_b && !memcmp(ys, got_y, sizeof ys));
    CHECK(!memcmp(high, got_high, sizeof high));
  }
  close_fixture(&f);
}

/* ---- gradients ------------------------------------------------------------------------------- */

enum { STEPS = 5 };

/* h = tanh(h * w + x), y = h * h */
static tsr_array *cell(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *h = tsr_tanh(tsr_add(tsr_mul(in[0], in[2]), in[1]));
  return tsr_tuple(s, h, tsr_mul(h, h));
}

static tsr_array *loss_of_scan(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *out = tsr_scan(cell, NULL, in[0], .xs = in[1], .with = in[2]);
  return tsr_add(tsr_sum(tsr_item(out, 0)), tsr_sum(tsr_item(out, 1)));
}

static tsr_array *loss_of_steps(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *h = in[0], *sum = NULL;
  for (int k = 0; k < STEPS; k++) {
    tsr_array *row = tsr_reshape(tsr_slice(in[1], { k, k + 1, 1 }), TSR_SHAPE(8));
    tsr_array *both = cell(s, (tsr_array *[]){ h, row, in[2], NULL }, user);
    h = tsr_item(both, 0);
    sum = sum ? tsr_add(sum, tsr_sum(tsr_item(both, 1))) : tsr_sum(tsr_item(both, 1));
  }
  return tsr_add(tsr_sum(h), sum);
}

static tsr_array *power(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(in[1], tsr_add(in[2], in[0]));
}

static tsr_array *loss_of_fori(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_fori(1, 4, power, NULL, in[0], .with = in[2]));
}

static tsr_array *loss_of_products(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *h = in[0];
  for (int k = 1; k < 4; k++) h = tsr_mul(h, tsr_add(in[2], k));
  return tsr_sum(h);
}

static tsr_array *squares(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_mul(tsr_mul(in[0], in[0]), in[1]);
}

static tsr_array *sines(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sin(in[0]);
}

static tsr_array *loss_of_cond(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *p = tsr_gt(tsr_sum(in[0]), user ? -100 : 100);
  return tsr_sum(tsr_cond(p, squares, sines, NULL, in[0], in[2]));
}

static tsr_array *loss_of_choice(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum((user ? squares : sines)(s, (tsr_array *[]){ in[0], in[2], NULL }, NULL));
}

static void check_close(tsr_array *a, tsr_array *b)
{
  double x[64], y[64];
  size_t bytes = bytes_of(a);
  CHECK(bytes == bytes_of(b) && bytes <= sizeof x);
  CHECK_STATUS(tsr_read(a, x, bytes), TSR_OK, NULL);
  CHECK_STATUS(tsr_read(b, y, bytes), TSR_OK, NULL);
  for (size_t i = 0; i < bytes / sizeof *x; i++)
    if (fabs(x[i] - y[i]) > 1e-13 * (1 + fabs(y[i]))) FAIL("%zu: %.17g %.17g", i, x[i], y[i]);
}

static void check_gradients(fixture *f, tsr_body_fn *loop, tsr_body_fn *steps, void *user)
{
  const char *const specs[][3] = {
    { "", "", "" }, { "x", "-,x", "x" }, { "x+y", "-,x+y", "x+y" }, { "y", "x", "" }
  };
  int wrt[] = { 0, 1, 2 };
  for (int i = 0; i < 4; i++) {
    tsr_array *n = tsr_mul(tsr_arange(f->s, 0, 40, .dtype = TSR_F64), 0.02);
    tsr_array *x = tsr_reshard(tsr_reshape(n, TSR_SHAPE(STEPS, 8)), tsr_on(f->mesh, specs[i][1]));
    tsr_array *row = tsr_reshape(tsr_slice(n, { 3, 11, 1 }), TSR_SHAPE(8));
    tsr_array *h = tsr_reshard(row, tsr_on(f->mesh, specs[i][0]));
    tsr_array *w = tsr_reshard(tsr_add(tsr_mul(row, -2), 1), tsr_on(f->mesh, specs[i][2]));
    for (int k = 0; k < 3; k++) {
      tsr_function *a = tsr_function_make(f->s, loop, .user = user);
      tsr_function *b = tsr_function_make(f->s, steps, .user = user);
      tsr_array *got = tsr_call(tsr_grad(a, .wrt = tsr_dims_of(&wrt[k], 1)), h, x, w);
      check_close(got, tsr_call(tsr_grad(b, .wrt = tsr_dims_of(&wrt[k], 1)), h, x, w));
    }
  }
  CHECK_STATUS(tsr_scope_status(f->s), TSR_OK, f->s);
}

TEST(gradients_go_back_through_loops)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  check_gradients(&f, loss_of_scan, loss_of_steps, NULL);
  check_gradients(&f, loss_of_fori, loss_of_products, NULL);
  close_fixture(&f);
}

/* One scan forward and one back; the value has the bits that it has alone. */
TEST(a_value_and_its_gradient_go_forward_once)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_body_fn *const losses[] = { loss_of_scan, loss_of_fori };
  tsr_array *h = tsr_mul(tsr_arange(f.s, 0, 8, .dtype = TSR_F64), 0.1), *w = tsr_add(h, 0.25);
  tsr_array *x = tsr_sin(tsr_reshape(tsr_arange(f.s, 0, 40, .dtype = TSR_F64), TSR_SHAPE(5, 8)));
  tsr_array *all[] = { h, w, x };
  CHECK_STATUS(tsr_eval(all, 3), TSR_OK, f.s);
  for (int k = 0; k < 2; k++) {
    tsr_function *fn = tsr_function_make(f.s, losses[k]);
    tsr_array *out = tsr_call(tsr_value_and_grad(fn, .wrt = TSR_ARGS(0, 2)), h, x, w);
    int scans = 0;
    for (const char *at = tsr_dump(tsr_field(out, "1.0")); (at = strstr(at, " = scan(")); at++)
      scans++;
    CHECK_I64(scans, 2);
    check_same(tsr_item(out, 0), tsr_call(fn, h, x, w));
    int steps = k ? 3 : STEPS;
    tsr_array *each[3];
    out = tsr_call(tsr_value_and_grad(fn, .wrt = TSR_ARGS(0, 2)), h, x, w);
    for (int i = 0; i < 3; i++) each[i] = tsr_field(out, i == 0 ? "0" : i == 1 ? "1.0" : "1.1");
    CHECK_STATUS(tsr_eval(each, 3), TSR_OK, f.s);
    CHECK(tsr_last_run(f.s).kernels < 3 * steps + 3);
  }
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  close_fixture(&f);
}

TEST(gradients_go_back_through_the_choice_that_is_taken)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  check_gradients(&f, loss_of_cond, loss_of_choice, NULL);
  check_gradients(&f, loss_of_cond, loss_of_choice, &f);
  close_fixture(&f);
}

/* ---- placed carries -------------------------------------------------------------------------- */

typedef struct placing {
  const tsr_mesh *mesh;
  const char *spec; /* of what a step leaves; NULL: it says nothing */
} placing;

static tsr_array *placed_step(tsr_scope *s, tsr_array *const *in, void *user)
{
  const placing *p = user;
  tsr_array *next = tsr_tanh(tsr_mul(in[0], in[1]));
  if (p->spec) next = tsr_constrain(next, tsr_on(p->mesh, p->spec));
  return tsr_tuple(s, next, tsr_sum(next));
}

static tsr_array *placed_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  const placing *p = user;
  tsr_array *begin = p->spec ? tsr_constrain(in[0], tsr_on(p->mesh, "x")) : in[0];
  tsr_array *out = tsr_scan(placed_step, user, begin, .xs = in[1]);
  (void)s;
  return tsr_add(tsr_sum(tsr_item(out, 0)), tsr_sum(tsr_item(out, 1)));
}

static tsr_array *placed_many(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_function *one = tsr_function_make(s, placed_loss, .user = user);
  return tsr_sum(tsr_call(tsr_vmap(one, .in_dims = { 0, TSR_UNMAPPED }), in[0], in[1]));
}

TEST(a_step_may_say_where_its_carry_lies)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  placing plain = { f.mesh, NULL }, same = { f.mesh, "x" }, other = { f.mesh, "y" };
  tsr_array *x = tsr_reshape(tsr_sin(tsr_arange(f.s, 0, 32, .dtype = TSR_F64)), TSR_SHAPE(2, 16));
  tsr_array *xs = tsr_reshape(tsr_cos(tsr_arange(f.s, 0, 48, .dtype = TSR_F64)), TSR_SHAPE(3, 16));
  tsr_array *row = tsr_reshape(tsr_slice(x, TSR_RANGE(1, 2)), TSR_SHAPE(16));
  for (int many = 0; many < 2; many++) {
    tsr_body_fn *body = many ? placed_many : placed_loss;
    tsr_function *f0 = tsr_function_make(f.s, body, .user = &plain);
    tsr_function *f1 = tsr_function_make(f.s, body, .user = &same);
    tsr_array *in = many ? x : row;
    check_same(tsr_call(f1, in, xs), tsr_call(f0, in, xs));
    check_same(tsr_call(tsr_grad(f1), in, xs), tsr_call(tsr_grad(f0), in, xs));
    check_same(tsr_call(tsr_hvp(f1), in, xs, in), tsr_call(tsr_hvp(f0), in, xs, in));
  }
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  CHECK(tsr_is_inert(tsr_call(tsr_function_make(f.s, placed_loss, .user = &other), row, xs)));
  CHECK_STR_HAS(tsr_message(f.s), "begins as f64[16]@(x), but the body returns f64[16]@(y)");
  close_fixture(&f);
}

static tsr_array *loss_of_while(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_while(below, twice, NULL, in[0]));
}

static tsr_array *calls_itself(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_fori(0, 2, calls_itself, user, in[1]);
}

TEST(a_loop_in_itself_ends_with_a_message)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = tsr_full(f.s, 1, TSR_F32, TSR_SHAPE(3), (tsr_sharding){ 0 });
  CHECK(tsr_is_inert(tsr_fori(0, 2, calls_itself, NULL, x)));
  CHECK_STR_HAS(tsr_message(f.s),
                "is inside of 64 others; a function that calls itself would never end");
  tsr_scope_clear(f.s);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, f.s);
  close_fixture(&f);
}

TEST(a_while_has_no_gradient_and_says_what_has)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *a = tsr_full(f.s, 1, TSR_F64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_call(tsr_grad(tsr_function_make(f.s, loss_of_while)), a);
  CHECK_I64(tsr_scope_status(f.s), TSR_EUNSUPPORTED);
  CHECK(strstr(tsr_message(f.s), "tsr_fori") && strstr(tsr_message(f.s), "tsr_scan"));
  close_fixture(&f);
}
