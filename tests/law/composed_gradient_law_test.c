/* Gradients of random functions are central differences, and so are theirs: elements (every row of
 * the table of operations that says where it may be drawn), sums,
 * products, views, look-ups, prefixes, loops, choices and functions mapped over rows, one made of
 * another, on any mesh. LAW_SEED=n tries one; TEST_FULL=1 tries thousands. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/gradient_check.h"
#include "support/law_fixture.h"
#include "support/row_columns.h"
#include "support/wrapped.h"
#include "tessera.h"

enum { MOST = 12, ARRAYS = 2 };

/* A function by its seed: a body does the same each time it is traced. */
typedef struct composed {
  uint64_t seed;
  int steps;
  const tsr_mesh *mesh;
  bool bare; /* nothing stands around its steps */
} composed;

/* What is made so far, all of one square shape, with values about -1 to 1. */
typedef struct making {
  tsr_scope *s;
  const composed *of;
  test_rng rng;
  tsr_array *at[MOST];
  int count;
} making;

static tsr_array *any(making *m)
{
  return m->at[test_range(&m->rng, 0, m->count - 1)];
}

static tsr_array *damped(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_tanh(tsr_add(tsr_mul(in[0], 0.8), tsr_mul(tsr_sin(in[1]), 0.3)));
}

static tsr_array *counted(tsr_scope *s, tsr_array *const *in, void *user)
{
  return damped(s, (tsr_array *const[]){ in[1], tsr_div(in[1], tsr_add(in[0], 2)) }, user);
}

static tsr_array *squared(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_square(in[0]);
}

static tsr_array *sine(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sin(in[0]);
}

/* Any row of the table that has derivatives, and no jumps that two steps could lead to. */
static tsr__op draw_op(making *m)
{
  for (;;) {
    int op = (int)test_range(&m->rng, 0, TSR__OPS - 1);
    if (!row_has_range(op) || row_columns_of[op].jumps) continue;
    if (strcmp(row_columns_of[op].rule, "zero") != 0) return (tsr__op)op;
  }
}

/* It is given numbers from where it has them, of one sign where it has none near 0, and what it
 * makes of them is brought back to about -1 to 1. */
static tsr_array *of_table(making *m, tsr_array *a, tsr_array *b)
{
  tsr_array *put[] = { a, b, a };
  tsr__op op = draw_op(m);
  int count = tsr__ops[op].least;
  for (int i = 0; i < count; i++) {
    row_range range = row_range_of((int)op, i);
    if (row_columns_of[op].away > 0) range.least = row_columns_of[op].away;
    double half = (range.most - range.least) / 2;
    put[i] = tsr_add(tsr_mul(tsr_tanh(put[i]), half), range.least + half);
  }
  tsr_array *out = tsr__make(NULL, op, (tsr__operands){ put, count }, &(tsr__ask){ 0 }, TSR_HERE);
  return tsr_tanh(tsr_mul(out, 0.5));
}

static tsr_array *elements(making *m, tsr_array *a, tsr_array *b)
{
  if (test_range(&m->rng, 0, 1)) return of_table(m, a, b);
  switch (test_range(&m->rng, 0, 7)) {
  case 0: return tsr_tanh(tsr_mul(a, 1.5));
  case 1: return tsr_mul(a, b);
  case 2: return tsr_sub(tsr_sin(a), tsr_mul(b, 0.5));
  case 3: return tsr_div(a, tsr_add(tsr_square(b), 1));
  case 4: return tsr_sub(tsr_sigmoid(a), 0.5);
  case 5: return tsr_sub(tsr_logaddexp(a, b), 1);
  case 6: return tsr_mul(tsr_exp(tsr_sub(a, 1)), b);
  default: return tsr_atan2(a, tsr_add(tsr_square(b), 0.5));
  }
}

static tsr_array *over_dims(making *m, tsr_array *a, tsr_array *b)
{
  int dim = (int)test_range(&m->rng, 0, 1);
  double n = (double)tsr_shape_of(a).dims[0];
  switch (test_range(&m->rng, 0, 5)) {
  case 0: return tsr_sub(a, tsr_mean(b, .dims = TSR_DIMS(dim), .keep_dims = true));
  case 1: return tsr_softmax(a, dim);
  case 2: return tsr_div(tsr_cumsum(a, dim, .reverse = dim), n);
  case 3: return tsr_mul(tsr_norm(a), tsr_mul(b, 0.2));
  case 4: return tsr_div(tsr_matmul(a, b, .reproducible = dim), n);
  default: return tsr_div(tsr_einsum("ij,kj->ki", a, b), n);
  }
}

static tsr_array *moved(making *m, tsr_array *a)
{
  int64_t n = tsr_shape_of(a).dims[0], by = test_range(&m->rng, 1, n - 1);
  int dim = (int)test_range(&m->rng, 0, 1);
  tsr_array *places = tsr_mod(tsr_arange(m->s, 0, (double)n, .dtype = TSR_I64), by);
  switch (test_range(&m->rng, 0, 5)) {
  case 0: return tsr_transpose(a);
  case 1: return tsr_roll(a, by, dim);
  case 2: return tsr_pad(tsr_slice(a, TSR_RANGE(by, n)), .low = { by });
  case 3: return tsr_take(a, places, dim);
  case 4: return tsr_mul(tsr_scatter_add(a, places, a, dim), 0.3);
  default: return tsr_reshard(a, law_sharding(&m->rng, m->of->mesh, 2));
  }
}

static tsr_array *together(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *by = tsr_sin(tsr_add(tsr_axis_index(s, "x"), 1));
  return tsr_add(tsr_pmean(tsr_mul(tsr_tanh(in[0]), by), "x"), tsr_mul(in[1], 0.3));
}

/* A step of a body on devices, which is the same at all of them. */
typedef struct shared {
  wrapping around;
  bool bare;
} shared;

static tsr_array *shared_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  const shared *h = user;
  return h->bare ? together(s, in, NULL) : wrapped(h->around, s, together, NULL, in, 2);
}

static tsr_array *on_places(making *m, tsr_array *a, tsr_array *b)
{
  shared h = { wrapping_draw(&m->rng, true), m->of->bare };
  return tsr_shard_map(m->of->mesh, shared_body, &h, .in = { a, b }, .in_specs = { "", "" },
                       .out_specs = { "" });
}

static tsr_array *nested(making *m, tsr_array *a, tsr_array *b)
{
  /* Not against 0, which sums of centred arrays are but for their rounding. */
  tsr_array *up = tsr_gt(tsr_sum(tsr_stop_gradient(b)), 0.31415);
  tsr_function *f = tsr_function_make(m->s, damped);
  switch (test_range(&m->rng, 0, 4)) {
  case 0: return tsr_call(f, a, b);
  case 3: return on_places(m, a, b);
  case 1: return tsr_call(tsr_vmap(f), a, b);
  case 2: return tsr_fori(0, 3, counted, NULL, a);
  default: return tsr_cond(up, sine, squared, NULL, a);
  }
}

/* A step on two values. A body does the same each time it is traced, so that a step has numbers of
 * its own. */
typedef struct one_step {
  const composed *of;
  uint64_t seed;
} one_step;

static tsr_array *step_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  const one_step *o = user;
  making m = { .s = s, .of = o->of, .rng = test_seeded(o->seed) };
  switch (test_range(&m.rng, 0, 5)) {
  case 0: return over_dims(&m, in[0], in[1]);
  case 1: return moved(&m, in[0]);
  case 2: return nested(&m, in[0], in[1]);
  default: return elements(&m, in[0], in[1]);
  }
}

static tsr_array *composed_body(tsr_scope *s, tsr_array *const *in, void *user)
{
  const composed *c = user;
  making m = { .s = s, .of = c, .rng = test_seeded(c->seed), .count = ARRAYS };
  for (int i = 0; i < ARRAYS; i++) m.at[i] = in[i];
  for (int i = 0; i < c->steps; i++) {
    tsr_array *two[3] = { any(&m), any(&m), NULL };
    one_step o = { c, c->seed * 64 + (uint64_t)i };
    wrapping around = wrapping_draw(&m.rng, true);
    bool bare = test_range(&m.rng, 0, 1) || c->bare;
    m.at[m.count++] = bare ? step_body(s, two, &o) : wrapped(around, s, step_body, &o, two, 2);
  }
  return tsr_add(m.at[m.count - 1], tsr_mul(any(&m), 0.5));
}

static void trial(uint64_t seed)
{
  test_rng rng = test_seeded(seed + 4000);
  const char *axes = law_meshes[test_range(&rng, 0, LAW_MESHES - 1)];
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  composed c = { seed, (int)test_range(&rng, 2, MOST - ARRAYS), tsr_mesh_make(rt, axes), false };
  int64_t n = test_range(&rng, 2, 5);
  double data[ARRAYS][25];
  tsr_array *in[ARRAYS];
  for (int i = 0; i < ARRAYS; i++) {
    for (int k = 0; k < 25; k++) data[i][k] = 2 * test_uniform(&rng) - 1;
    in[i] = tsr_put(s, data[i], TSR_F64, TSR_SHAPE(n, n), law_sharding(&rng, c.mesh, 2));
  }
  gradient_check(&(gradient_case){ "composed", s, composed_body, &c, in, ARRAYS, 2, 1e-5, seed });
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(gradients_of_random_functions_are_central_differences, 1500)
{
  const char *full = getenv("TEST_FULL");
  law_each_seed(1, full && *full == '1' ? 4000 : test_quick() ? 15 : 120, trial);
}

/* ---- what stands around a step --------------------------------------------------------------- */

static tsr_array *summed(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(tsr_square(composed_body(s, in, user)));
}

/* The value, the gradient, a second derivative, a jvp. */
static tsr_array *asked(tsr_scope *s, tsr_array *const *in, composed *c)
{
  tsr_function *f = tsr_function_make(s, composed_body, .user = c);
  tsr_function *sum = tsr_function_make(s, summed, .user = c);
  tsr_array *way = tsr_cos(in[0]);
  tsr_array *slopes = tsr_call(tsr_grad(sum, .wrt = TSR_ARGS(0, 1)), in[0], in[1]);
  return tsr_tuple(s, tsr_call(f, in[0], in[1]), tsr_item(slopes, 0), tsr_item(slopes, 1),
                   tsr_call(tsr_hvp(sum), in[0], in[1], way),
                   tsr_item(tsr_call(tsr_jvp(f), in[0], in[1], way), 1));
}

static void wrap_trial(uint64_t seed)
{
  static const char *const names[] = { "value", "slope 0", "slope 1", "second", "jvp" };
  test_rng rng = test_seeded(seed);
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
  composed c = { seed, (int)test_range(&rng, 1, 5), mesh, false };
  int64_t n = test_range(&rng, 2, 5);
  tsr_array *in[ARRAYS], *both[2];
  for (int i = 0; i < ARRAYS; i++)
    in[i] = tsr_uniform(s, .key = seed * 2 + (uint64_t)i, .shape = TSR_SHAPE(n, n), .low = -1,
                        .high = 1, .dtype = TSR_F64, .on = law_sharding(&rng, mesh, 2));
  CHECK_STATUS(tsr_eval(in, ARRAYS), TSR_OK, s);
  for (int bare = 0; bare < 2; bare++) {
    c.bare = bare;
    both[bare] = asked(s, in, &c);
    if (tsr_is_inert(both[bare])) FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(s));
  }
  for (int i = 0; i < tsr_item_count(both[0]); i++) {
    tsr_array *found = tsr_item(both[0], i), *want = tsr_item(both[1], i);
    tsr_array *off[2] = { tsr_max(tsr_abs(tsr_sub(found, want))), tsr_max(tsr_abs(want)) };
    double by[2];
    if (tsr_read(tsr_stack(off, 2, 0), by, sizeof by))
      FAIL("seed %llu: %s: %s", (unsigned long long)seed, names[i], tsr_message(s));
    if (!(by[0] <= 1e-10 * (1 + by[1])))
      FAIL("seed %llu: the %s is off by %g of %g", (unsigned long long)seed, names[i], by[0],
           by[1]);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(what_stands_around_a_step_changes_nothing, 1500)
{
  law_each_seed(1, test_quick() ? 25 : 300, wrap_trial);
}

/* ---- where gradients lie --------------------------------------------------------------------- */

enum { LYING = 2 * ARRAYS }; /* what is differentiated by, and the gradients */

/* Arrays of a seed and the gradients by them, in `out`: placed at random if `mesh` is given, and
 * at times computed of placed ones. Without a mesh they have the same elements. */
static void gradients_of(tsr_scope *s, uint64_t seed, const tsr_mesh *mesh, composed *c,
                         tsr_array **out)
{
  test_rng rng = test_seeded(seed + 9000);
  int64_t n = test_range(&rng, 2, 5);
  for (int i = 0; i < ARRAYS; i++) {
    tsr_sharding at = law_sharding(&rng, c->mesh, 2);
    out[i] = tsr_uniform(s, .key = seed * 2 + (uint64_t)i, .shape = TSR_SHAPE(n, n), .low = -1,
                         .high = 1, .dtype = TSR_F64, .on = mesh ? at : (tsr_sharding){ 0 });
  }
  CHECK_STATUS(tsr_eval(out, ARRAYS), TSR_OK, s);
  if (test_range(&rng, 0, 1)) out[0] = tsr_mul(tsr_sin(out[0]), tsr_transpose(out[1]));
  tsr_function *sum = tsr_function_make(s, summed, .user = c);
  tsr_array *slopes = tsr_call(tsr_grad(sum, .wrt = TSR_ARGS(0, 1)), out[0], out[1]);
  for (int i = 0; i < ARRAYS; i++) out[ARRAYS + i] = tsr_item(slopes, i);
  if (tsr_eval(out, LYING)) FAIL("seed %llu: %s", (unsigned long long)seed, tsr_message(s));
}

static void lying_trial(uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  tsr_runtime *rt = tsr_runtime_open("cpu:8", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  const tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
  composed c = { seed, (int)test_range(&rng, 1, 4), mesh, test_range(&rng, 0, 1) };
  tsr_array *placed[LYING], *whole[LYING];
  gradients_of(s, seed, mesh, &c, placed);
  gradients_of(s, seed, NULL, &c, whole);
  for (int i = 0; i < ARRAYS; i++) {
    tsr_array *by = placed[i], *slope = placed[ARRAYS + i];
    tsr_sharding want = tsr_sharding_of(by), got = tsr_sharding_of(slope);
    double one[25], other[25];
    size_t bytes = (size_t)(tsr_shape_of(by).dims[0] * tsr_shape_of(by).dims[1]) * sizeof *one;
    if (want.mesh && !tsr_sharding_same(&want, &got, tsr_shape_of(by)))
      FAIL("seed %llu: the gradient by %s lies as %s", (unsigned long long)seed, tsr_type_of(by),
           tsr_type_of(slope));
    CHECK_STATUS(tsr_read(slope, one, bytes), TSR_OK, s);
    CHECK_STATUS(tsr_read(whole[ARRAYS + i], other, bytes), TSR_OK, s);
    for (size_t e = 0; e < bytes / sizeof *one; e++)
      if (!(fabs(one[e] - other[e]) <= 1e-10 * (1 + fabs(other[e]))))
        FAIL("seed %llu: element %zu of gradient %d is %g, without a mesh %g",
             (unsigned long long)seed, e, i, one[e], other[e]);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(a_gradient_lies_as_what_it_is_by, 1500)
{
  law_each_seed(1, test_quick() ? 25 : 300, lying_trial);
}
