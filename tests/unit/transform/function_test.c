/* Functions: traced once a signature, called many times, with the values that the same calls have
 * without them; trees in and out; what bodies may not do. */
#include <pthread.h>
#include <string.h>

#include "harness.h"
#include "support/mesh_fixture.h"
#include "tessera.h"

static tsr_array *numbers(fixture *f, tsr_shape shape, const char *spec)
{
  tsr_array *a = tsr_arange(f->s, 0, 24, .dtype = TSR_F64);
  return tsr_reshard(tsr_reshape(tsr_mod(a, 7), shape), tsr_on(f->mesh, spec));
}

static void check_same(tsr_array *a, tsr_array *b)
{
  double x[64], y[64];
  size_t bytes = (size_t)tsr_shape_of(a).dims[0] * sizeof *x;
  for (int d = 1; d < tsr_shape_of(a).rank; d++) bytes *= (size_t)tsr_shape_of(a).dims[d];
  CHECK_STATUS(tsr_read(a, x, bytes), TSR_OK, NULL);
  CHECK_STATUS(tsr_read(b, y, bytes), TSR_OK, NULL);
  CHECK(!memcmp(x, y, bytes));
}

/* ---- one body -------------------------------------------------------------------------------- */

static tsr_array *scaled(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  ++*(int *)user;
  return tsr_tanh(tsr_add(tsr_mul(in[0], 2), tsr_mean(in[1])));
}

TEST(a_body_is_traced_once_a_signature)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  int traces = 0;
  tsr_function *fn = tsr_function_make(f.s, scaled, .user = &traces, .name = "scaled");
  tsr_array *a = numbers(&f, TSR_SHAPE(4, 6), "x,y"), *b = numbers(&f, TSR_SHAPE(6, 4), "x");
  tsr_array *want = tsr_tanh(tsr_add(tsr_mul(a, 2), tsr_mean(b)));
  for (int i = 0; i < 3; i++) check_same(tsr_call(fn, a, b), want);
  CHECK_I64(traces, 1);
  CHECK_I64(tsr_trace_count(fn), 1);
  check_same(tsr_call(fn, b, a), tsr_tanh(tsr_add(tsr_mul(b, 2), tsr_mean(a))));
  CHECK_I64(traces, 2);
  tsr_call(fn, tsr_cast(a, TSR_F32), b);
  CHECK_I64(tsr_trace_count(fn), 3);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  close_fixture(&f);
}

static void count_line(const char *line, void *user)
{
  (void)line;
  ++*(int *)user;
}

static tsr_array *two_results(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *seen = tsr_print(tsr_sum(in[1]), "{}", .write = count_line, .user = user);
  return tsr_tuple(s, tsr_matmul(in[0], in[1]), tsr_neg(in[0]), seen);
}

static tsr_array *second_result(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_item(tsr_call((tsr_function *)user, in[0], in[1]), 1);
}

/* But what is shown on the way is shown. */
TEST(results_that_nobody_reads_are_not_computed)
{
  fixture f = open_fixture("cpu:2", "x=2");
  int lines = 0;
  tsr_function *both = tsr_function_make(f.s, two_results, .user = &lines);
  tsr_function *second = tsr_function_make(f.s, second_result, .user = both);
  tsr_array *a = numbers(&f, TSR_SHAPE(4, 6), "x"), *b = numbers(&f, TSR_SHAPE(6, 4), "-");
  tsr_array *out = tsr_call(second, a, b);
  CHECK(!strstr(tsr_explain(&out, 1), "dot"));
  CHECK(strstr(tsr_explain((tsr_array *[]){ tsr_item(tsr_call(both, a, b), 0) }, 1), "dot"));
  check_same(out, tsr_neg(a));
  CHECK_I64(lines, 1);
  close_fixture(&f);
}

static tsr_array *many_sums(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *out = in[0];
  for (int i = 0; i < 50; i++) out = tsr_add(out, 1);
  return out;
}

/* One of several threads that call a function for the first time at once. */
typedef struct caller {
  tsr_scope *s;
  tsr_function *fn;
  pthread_barrier_t *start;
} caller;

static void *call_at_once(void *user)
{
  const caller *c = user;
  double data[4] = { 0, 1, 2, 3 }, out[4];
  tsr_scope *own = tsr_scope_nest_at(c->s, TSR_HERE);
  tsr_array *x = tsr_put(own, data, TSR_F64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  pthread_barrier_wait(c->start);
  for (int i = 0; i < 10; i++) {
    tsr_array *y = tsr_call(c->fn, x);
    CHECK(tsr_trace_count(c->fn) >= 1);
    CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, own);
    for (int k = 0; k < 4; k++) CHECK_F64_BITS(out[k], data[k] + 50);
  }
  tsr_scope_close(own);
  return NULL;
}

/* A trace that another thread finishes is seen whole or not at all; that it is not read while it is
 * written shows under the thread sanitizer. */
TEST(threads_call_a_function_that_nobody_traced)
{
  enum { THREADS = 4 };
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  for (int round = 0; round < (test_quick() ? 10 : 40); round++) {
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    tsr_scope *root = tsr_scope_open(f.rt);
    caller c = { root, tsr_function_make(root, many_sums), &start };
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, call_at_once, &c);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(tsr_trace_count(c.fn) <= THREADS);
    pthread_barrier_destroy(&start);
    tsr_scope_close(root);
  }
  close_fixture(&f);
}

static tsr_array *power(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  tsr_array *out = in[0];
  for (int i = 1; i < *(int *)user; i++) out = tsr_mul(out, in[0]);
  return out;
}

TEST(bytes_beside_the_arrays_are_arguments)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  int n = 2;
  tsr_function *fn = tsr_function_make(f.s, power, .user = &n, .user_bytes = sizeof n);
  tsr_array *a = numbers(&f, TSR_SHAPE(24), "x");
  check_same(tsr_call(fn, a), tsr_mul(a, a));
  n = 3;
  check_same(tsr_call(fn, a), tsr_mul(tsr_mul(a, a), a));
  n = 2;
  check_same(tsr_call(fn, a), tsr_mul(a, a));
  CHECK_I64(tsr_trace_count(fn), 2);
  close_fixture(&f);
}

/* ---- trees, captured arrays, functions in functions ---------------------------------------- */

typedef struct capturer {
  tsr_scope *s;
  tsr_array *shared;
  pthread_barrier_t *start;
  bool explicit_places;
} capturer;

static tsr_array *with_shared(tsr_scope *s, tsr_array *const *in, void *user)
{
  const capturer *c = user;
  return tsr_tuple(s, c->shared, tsr_add(in[0], tsr_mul(c->shared, 2)));
}

static void *capture_at_once(void *user)
{
  capturer *c = user;
  tsr_scope *own = tsr_scope_nest_at(c->s, TSR_HERE);
  double data[8] = { 3, 1, 4, 1, 5, 9, 2, 6 }, found[8];
  tsr_array *x = tsr_reshard(tsr_put(own, data, TSR_F64, TSR_SHAPE(8), (tsr_sharding){ 0 }),
                             tsr_sharding_of(c->shared));
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, own);
  tsr_function *fn =
      tsr_function_make(own, with_shared, .user = c, .explicit_shardings = c->explicit_places);
  pthread_barrier_wait(c->start);
  tsr_array *out = tsr_call(fn, x);
  CHECK_STATUS(tsr_read(tsr_item(out, 0), found, sizeof found), TSR_OK, own);
  for (int i = 0; i < 8; i++) CHECK_F64_BITS(found[i], i);
  CHECK_STATUS(tsr_read(tsr_item(out, 1), found, sizeof found), TSR_OK, own);
  for (int i = 0; i < 8; i++) CHECK_F64_BITS(found[i], data[i] + 2 * i);
  tsr_scope_close(own);
  return NULL;
}

/* Each traces a function of its own, of which one result is what they all captured. */
TEST(threads_trace_bodies_that_capture_one_array)
{
  enum { THREADS = 4 };
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *shared = tsr_reshard(tsr_arange(f.s, 0, 8, .dtype = TSR_F64), tsr_on(f.mesh, "x"));
  CHECK_STATUS(tsr_eval(&shared, 1), TSR_OK, f.s);
  for (int round = 0; round < (test_quick() ? 10 : 100); round++) {
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    capturer c = { f.s, shared, &start, round % 2 };
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, capture_at_once, &c);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
  }
  close_fixture(&f);
}

typedef struct outside {
  tsr_array *bias;
  tsr_function *inner;
} outside;

static tsr_array *layer(tsr_scope *s, tsr_array *const *in, void *user)
{
  outside *o = user;
  tsr_array *h = tsr_matmul(in[1], tsr_field(in[0], "w"));
  tsr_array *sum = tsr_add(tsr_add(h, tsr_field(in[0], "more.b")), o->bias);
  return tsr_tree(s, { "out", tsr_call(o->inner, sum, sum) }, { "pair", tsr_tuple(s, h, in[1]) });
}

TEST(trees_go_in_and_come_out_and_outer_arrays_are_captured)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  int traces = 0;
  outside o = { numbers(&f, TSR_SHAPE(4, 6), "y"),
                tsr_function_make(f.s, scaled, .user = &traces) };
  tsr_array *w = numbers(&f, TSR_SHAPE(6, 4), "x"), *x = numbers(&f, TSR_SHAPE(4, 6), "x");
  tsr_array *w2 = tsr_matmul(w, x), *b = tsr_mean(w, .dims = TSR_DIMS(1));
  tsr_array *more = tsr_tree(f.s, { "b", b }), *p = tsr_tree(f.s, { "w", w2 }, { "more", more });
  tsr_function *fn = tsr_function_make(f.s, layer, .user = &o, .name = "layer", .mesh = f.mesh,
                                       .in_specs = { "-", "x" }, .out_specs = { "y,x" });
  CHECK_STATUS(tsr_eval(&o.bias, 1), TSR_OK, f.s);
  CHECK_STR(tsr_tree_text(p), "(w: *, more: (b: *))");
  tsr_array *y = tsr_call(fn, p, x);
  CHECK_STR(tsr_tree_text(y), "(out: *, pair: (*, *))");
  tsr_array *h = tsr_matmul(x, w2), *sum = tsr_add(tsr_add(h, b), o.bias);
  check_same(tsr_field(y, "out"), tsr_tanh(tsr_add(tsr_mul(sum, 2), tsr_mean(sum))));
  check_same(tsr_field(y, "pair.0"), h);
  check_same(tsr_item(tsr_item(y, 1), 1), x);
  tsr_sharding at = tsr_sharding_of(tsr_field(y, "out"));
  char spec[32];
  tsr_sharding_text(&at, 2, spec, sizeof spec);
  CHECK_STR(spec, "(y,x)");
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  close_fixture(&f);
}

/* ---- what bodies may not do ---------------------------------------------------------------- */

typedef struct trouble {
  int kind;
  tsr_function *self;
  tsr_array *kept;
  tsr_scope *around;
} trouble;

enum { TROUBLES = 7, KEEPS, NO_TROUBLE };

static tsr_array *troubled(tsr_scope *s, tsr_array *const *in, void *user)
{
  trouble *t = user;
  double out[24];
  switch (t->kind) {
  case 0: return NULL;
  case 1: return tsr_matmul(in[0], tsr_slice(in[0], { 0, 3, 1 }));
  case 2: CHECK(tsr_read(in[0], out, sizeof out) != TSR_OK); return in[0];
  case 3: return tsr_call(t->self, in[0]);
  case 4: {
    tsr_scope *inner = tsr_scope_open(s);
    tsr_array *gone = tsr_mul(tsr_full(inner, 2, TSR_F64, TSR_SHAPE(3), tsr_on(s, "")), 2);
    return gone;
  }
  case 5: tsr_scope_close(s); return in[0];
  case 6: tsr_scope_close(t->around); return in[0];
  case KEEPS: t->kept = in[0]; return in[0];
  default: return tsr_add(in[0], 1);
  }
}

TEST(bodies_that_do_wrong_are_told_and_not_kept)
{
  static const char *const said[][2] = {
    { "TSR_EARG: tsr_call: the body of f, made at ", "returned NULL; return an array" },
    { "TSR_ESHAPE: tsr_call: the body of f, made at ", ", failed: " },
    { ", failed: ", "an argument of a function that is being traced" },
    { "TSR_ESTATE: tsr_call: ", "calls the function again with arguments of the same types" },
    { "TSR_EARG: tsr_call: ", "returned an array of a scope that does not enclose" },
    { "TSR_ESTATE: tsr_call: ", "the library closes the scope of a body that is being traced" },
    { "TSR_ESTATE: tsr_call: ", "the library closes the scope of a body that is being traced" },
  };
  for (int kind = 0; kind < TROUBLES; kind++) {
    fixture f = open_fixture("cpu:8", "x=4,y=2");
    trouble t = { .kind = kind, .around = f.s };
    tsr_function *fn = tsr_function_make(f.s, troubled, .user = &t, .name = "f");
    t.self = fn;
    tsr_array *a = numbers(&f, TSR_SHAPE(24), "x");
    CHECK(tsr_is_inert(tsr_call(fn, a)));
    CHECK_STR_HAS(tsr_message(f.s), said[kind][0]);
    CHECK_STR_HAS(tsr_message(f.s), said[kind][1]);
    CHECK_I64(tsr_trace_count(fn), 0);
    tsr_scope_clear(f.s);
    t.kind = NO_TROUBLE;
    check_same(tsr_call(fn, a), tsr_add(a, 1));
    close_fixture(&f);
  }
}

TEST(specs_without_their_array_and_no_function_are_told)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *a = numbers(&f, TSR_SHAPE(24), "x");
  trouble t = { .kind = NO_TROUBLE };
  tsr_function *in = tsr_function_make(f.s, troubled, .user = &t, .name = "f", .mesh = f.mesh,
                                       .in_specs = { "x", "y" });
  CHECK(tsr_is_inert(tsr_call(in, a)));
  CHECK_STR_HAS(tsr_message(f.s),
                "has a spec for argument 1, but the call has 1 arguments; give the argument");
  tsr_scope_clear(f.s);
  tsr_function *out = tsr_function_make(f.s, troubled, .user = &t, .name = "f", .mesh = f.mesh,
                                        .out_specs = { "x", NULL, "y" });
  CHECK(tsr_is_inert(tsr_call(out, a)));
  CHECK_STR_HAS(tsr_message(f.s),
                "has a spec for result 2, but the body returns 1 results; leave the spec out");
  tsr_scope_clear(f.s);
  CHECK(tsr_is_inert(tsr_call((tsr_function *)NULL, a)));
  CHECK_STR_HAS(tsr_message(f.s), "TSR_EARG: tsr_call: the function is NULL; give a function");
  tsr_scope_clear(f.s);
  close_fixture(&f);
}

static tsr_array *keep_carry(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return ((trouble *)user)->kept = in[1];
}

static tsr_array *keeps_inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_fori(0, 2, keep_carry, user, in[0]);
}

TEST(arrays_of_bodies_that_returned_say_so)
{
  static tsr_body_fn *const bodies[] = { troubled, keeps_inside };
  for (int k = 0; k < 2; k++) {
    fixture f = open_fixture("cpu:8", "x=4,y=2");
    trouble t = { .kind = KEEPS };
    tsr_function *fn = tsr_function_make(f.s, bodies[k], .user = &t, .name = "keeper");
    tsr_array *a = numbers(&f, TSR_SHAPE(24), "x");
    tsr_array *got = tsr_call(fn, a);
    CHECK_STATUS(tsr_eval(&got, 1), TSR_OK, f.s);
    CHECK(tsr_is_inert(tsr_add(a, t.kept)));
    CHECK_STR_HAS(tsr_message(f.s), "computed in the body of ");
    CHECK_STR_HAS(tsr_message(f.s), "which has returned; return the array from the body");
    tsr_scope_clear(f.s);
    double out[24];
    CHECK(tsr_read(t.kept, out, sizeof out) == TSR_ESTATE);
    CHECK_STR_HAS(tsr_message(f.s), "which has returned; return the array from the body");
    tsr_scope_clear(f.s);
    check_same(tsr_call(fn, a), a);
    close_fixture(&f);
  }
}

/* ---- what is kept from a body ---------------------------------------------------------------- */

typedef struct kept_things {
  tsr_function *function, *slope;
  tsr_compiled *compiled;
} kept_things;

static tsr_array *twofold(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_mul(in[0], 2));
}

static tsr_array *keeps(tsr_scope *s, tsr_array *const *in, void *user)
{
  kept_things *kept = user;
  kept->function = tsr_function_make(s, twofold, .name = "twofold");
  kept->slope = tsr_grad(kept->function);
  kept->compiled = tsr_compile(kept->function, in[0]);
  return tsr_call(kept->function, in[0]);
}

TEST(functions_of_a_body_end_with_it_and_say_so)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  kept_things kept = { 0 };
  tsr_array *x = tsr_arange(s, 0, 4, .dtype = TSR_F64);
  double got;
  tsr_array *made = tsr_call(tsr_function_make(s, keeps, .user = &kept, .name = "keeps"), x);
  CHECK_STATUS(tsr_read_scalar(made, &got), TSR_OK, s);
  CHECK(got == 12);
  for (int k = 0; k < 4; k++) {
    tsr_array *again = k == 0   ? tsr_call(kept.function, x)
                       : k == 1 ? tsr_call(kept.slope, x)
                       : k == 2 ? tsr_compiled_call(kept.compiled, x)
                                : tsr_call(tsr_vmap(kept.function), x);
    CHECK(tsr_is_inert(again));
    CHECK_STATUS(tsr_scope_status(s), TSR_ESTATE, NULL);
    CHECK_STR_HAS(tsr_message(s), k == 2 ? ": tsr_compiled_call: the function " : "the function ");
    CHECK_STR_HAS(tsr_message(s), "was made in the body of keeps, made at ");
    CHECK_STR_HAS(tsr_message(s), "which has returned; make the function outside");
    tsr_scope_clear(s);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- arguments of a later version ------------------------------------------------------------ */

static void *later(const void *args, size_t known)
{
  static union {
    size_t size;
    unsigned char bytes[4096];
  } all;
  memcpy(&all, args, known);
  memset(all.bytes + known, 1, sizeof all - known);
  all.size = sizeof all;
  return &all;
}

#define LATER(type, ...) later(&(type){ __VA_ARGS__ }, sizeof(type))

static void check_later(tsr_scope *s, bool inert, const char *call)
{
  CHECK(inert);
  CHECK_STATUS(tsr_scope_status(s), TSR_EUNSUPPORTED, NULL);
  CHECK_STR_HAS(tsr_message(s), call);
  CHECK_STR_HAS(tsr_message(s), "an option is set that version");
  tsr_scope_clear(s);
}

TEST(options_of_a_later_version_are_refused_by_all_that_take_bodies)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_arange(s, 0, 4, .dtype = TSR_F64), *on = tsr_any(tsr_gt(x, 1));
  tsr_function *f = tsr_function_make(s, twofold);
  const char *at = TSR_HERE;
#define BODY(call, type, ...) \
  check_later(s, tsr_is_inert(call##_at(twofold, NULL, LATER(type, __VA_ARGS__), at)), #call)
#define MADE(call, type, ...) \
  check_later(s, tsr_is_inert(tsr_call(call##_at(LATER(type, __VA_ARGS__), at), x)), #call)
  BODY(tsr_scan, tsr_loop_args, .carry = x);
  BODY(tsr_fori, tsr_fori_args, .carry = x);
  BODY(tsr_associative_scan, tsr_prefix_args, .x = x);
  check_later(
      s, tsr_is_inert(tsr_while_at(twofold, twofold, NULL, LATER(tsr_while_args, .carry = x), at)),
      "tsr_while");
  check_later(s,
              tsr_is_inert(tsr_switch_at(tsr_cast(on, TSR_I64), NULL,
                                         LATER(tsr_switch_args, .in = { x }), at)),
              "tsr_switch");
  check_later(s, tsr_is_inert(tsr_cond_at(on, NULL, LATER(tsr_switch_args, .in = { x }), at)),
              "tsr_cond");
  check_later(s,
              tsr_is_inert(tsr_shard_map_at(tsr_mesh_make(rt, "x=1"), twofold, NULL,
                                            LATER(tsr_shard_map_args, .in = { x }), at)),
              "tsr_shard_map");
  MADE(tsr_vmap, tsr_vmap_args, .function = f);
  MADE(tsr_pmap, tsr_pmap_args, .function = f);
  MADE(tsr_xmap, tsr_xmap_args, .function = f);
  MADE(tsr_grad, tsr_gradient_args, .function = f);
  MADE(tsr_jacobian, tsr_gradient_args, .function = f);
  MADE(tsr_custom_vjp, tsr_custom_args, .function = f);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
