/* Functions compiled ahead of time: figures against those counted by hand and by a run, plans that
 * calls find, meshes without devices, types that stand for arrays. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/mesh_fixture.h"
#include "tessera.h"

/* tanh(x w), and its mean. */
static tsr_array *layer(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *out = tsr_tanh(tsr_matmul(in[0], in[1]));
  return tsr_tuple(s, out, tsr_mean(out));
}

static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_item(layer(s, in, user), 1);
}

static tsr_array *values(fixture *f, tsr_shape shape, const char *spec)
{
  tsr_array *a = tsr_arange(f->s, 0, (double)(shape.dims[0] * shape.dims[1]), .dtype = TSR_F32);
  tsr_array *out = tsr_reshard(tsr_reshape(tsr_mod(a, 5), shape), tsr_on(f->mesh, spec));
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f->s);
  return out;
}

static int64_t bytes_of(const tsr_figures *f, const char *kind)
{
  for (int k = 0; k < f->kind_count; k++)
    if (!strcmp(f->kinds[k].kind, kind)) return f->kinds[k].bytes;
  return 0;
}

TEST(figures_are_those_counted_by_hand)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_function *fn = tsr_function_make(f.s, layer, .name = "layer");
  tsr_array *x = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(64, 16), tsr_on(f.mesh, "x"));
  tsr_array *w = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(16, 32), tsr_on(f.mesh, ""));
  tsr_figures got = tsr_compiled_figures(tsr_compile(fn, x, w));
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  CHECK(got.flops == 2.0 * 64 * 16 * 32 + 64 * 32 + 64 * 32);
  CHECK(got.device_flops == got.flops / 4);
  CHECK_I64(got.argument_bytes, 16 * 16 * 4 + 16 * 32 * 4);
  CHECK_I64(got.result_bytes, 16 * 32 * 4 + 4);
  CHECK(got.peak_bytes >= got.argument_bytes + 2 * 16 * 32 * 4);
  CHECK_I64(bytes_of(&got, "all-reduce"), got.bytes_moved);
  CHECK_I64(got.collectives, 1);
  CHECK(strstr(tsr_compiled_text(tsr_compile(fn, x, w)), "1 all-reduce: "));
  close_fixture(&f);
}

TEST(a_call_finds_the_plan_and_moves_what_was_said)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_function *fn = tsr_function_make(f.s, layer);
  tsr_array *x = values(&f, TSR_SHAPE(64, 16), "x,y"), *w = values(&f, TSR_SHAPE(16, 32), "y");
  tsr_array *types[] = { tsr_abstract(f.s, TSR_F32, TSR_SHAPE(64, 16), tsr_on(f.mesh, "x,y")),
                         tsr_abstract(f.s, TSR_F32, TSR_SHAPE(16, 32), tsr_on(f.mesh, "y")) };
  tsr_compiled *c = tsr_compile(fn, types[0], types[1]);
  tsr_figures said = tsr_compiled_figures(c);
  tsr_array *both = tsr_compiled_call(c, x, w);
  tsr_array *leaves[] = { tsr_item(both, 0), tsr_item(both, 1) };
  CHECK_STATUS(tsr_eval(leaves, 2), TSR_OK, f.s);
  tsr_run_stats run = tsr_last_run(f.s);
  CHECK(run.cached);
  CHECK_I64(tsr_trace_count(fn), 1);
  CHECK_I64(run.bytes_counted - run.bytes_escaped, said.bytes_moved);
  CHECK_I64(run.collectives, said.collectives);
  CHECK_I64(run.kernels, said.kernels);
  double got, want;
  CHECK_STATUS(tsr_read_scalar(leaves[1], &got), TSR_OK, f.s);
  CHECK_STATUS(tsr_read_scalar(tsr_item(tsr_call(fn, x, w), 1), &want), TSR_OK, f.s);
  CHECK(got == want);
  close_fixture(&f);
}

TEST(the_most_memory_is_what_a_run_comes_to)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_function *fn = tsr_function_make(f.s, layer);
  tsr_array *x = values(&f, TSR_SHAPE(512, 256), "x"), *w = values(&f, TSR_SHAPE(256, 512), "");
  int64_t before = tsr_device_memory(f.rt, 0).now;
  tsr_figures said = tsr_compiled_figures(tsr_compile(fn, x, w));
  tsr_array *both = tsr_call(fn, x, w);
  tsr_array *leaves[] = { tsr_item(both, 0), tsr_item(both, 1) };
  CHECK_STATUS(tsr_eval(leaves, 2), TSR_OK, f.s);
  int64_t peak = tsr_device_memory(f.rt, 0).peak - before, more = said.peak_bytes;
  more -= said.argument_bytes;
  CHECK(more > 0 && more <= peak && peak < more + more / 4);
  close_fixture(&f);
}

/* ---- loops and what they work in ------------------------------------------------------------- */

enum { TURNS = 7 };

/* x = tanh(x w) less its mean over all devices. */
static tsr_array *turn(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *out = tsr_tanh(tsr_matmul(in[1], in[2]));
  return tsr_sub(out, tsr_mean(out));
}

static tsr_array *turns(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_fori(0, *(int *)user, turn, NULL, in[0], .with = in[1]);
}

/* The arrays at the peak are listed by size and add up to it. */
static void check_peak(const tsr_compiled *c)
{
  int count = -1;
  const tsr_peak_array *at = tsr_compiled_peak(c, &count);
  int64_t all = 0;
  for (int i = 0; i < count; i++) {
    CHECK(at[i].bytes > 0 && at[i].role && at[i].type && at[i].operation);
    CHECK(!i || at[i].bytes <= at[i - 1].bytes);
    all += at[i].bytes;
  }
  if (all != tsr_compiled_figures(c).peak_bytes)
    FAIL("%lld bytes are listed of %s", (long long)all, tsr_compiled_text(c));
}

/* What a run counted against what was said before. */
static void check_said(fixture *f, tsr_function *fn, tsr_array *x, tsr_array *w, double flops)
{
  tsr_compiled *c = tsr_compile(fn, x, w);
  tsr_figures said = tsr_compiled_figures(c);
  tsr_array *out = tsr_call(fn, x, w);
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f->s);
  tsr_run_stats run = tsr_last_run(f->s);
  check_peak(c);
  CHECK(said.flops == flops);
  CHECK_I64(run.bytes_explained, said.bytes_moved);
  CHECK_I64(run.bytes_counted - run.bytes_escaped, said.bytes_moved);
  CHECK_I64(run.collectives, said.collectives);
  CHECK_I64(run.kernels, said.kernels);
  int count = 0;
  int64_t bytes = 0;
  for (int k = 0; k < said.kind_count; k++) {
    count += said.kinds[k].count;
    bytes += said.kinds[k].bytes;
  }
  CHECK_I64(count, said.collectives);
  CHECK_I64(bytes, said.bytes_moved);
}

TEST(a_loop_counts_once_a_step)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  const char *const specs[] = { "x", "x,y", "", "-,x" };
  for (int i = 0; i < 4; i++)
    for (int n = 0; n < TURNS; n += 3) {
      tsr_array *x = values(&f, TSR_SHAPE(64, 16), specs[i]);
      tsr_array *w = values(&f, TSR_SHAPE(16, 16), "");
      tsr_function *fn = tsr_function_make(f.s, turns, .user = &n, .user_bytes = sizeof n);
      double step = 2.0 * 64 * 16 * 16 + 3 * 64 * 16;
      check_said(&f, fn, x, w, n * step);
    }
  close_fixture(&f);
}

/* A loop in a loop, and stacks. */
static tsr_array *deeper(tsr_scope *s, tsr_array *const *in, void *user)
{
  int inner = 2;
  tsr_array *const given[] = { in[0], in[2] };
  tsr_array *next = turns(s, given, &inner);
  (void)user;
  return tsr_tuple(s, next, tsr_mul(next, in[1]));
}

static tsr_array *stacked(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user, (void)s;
  tsr_array *by = tsr_full(s, 2, TSR_F32, TSR_SHAPE(TURNS), (tsr_sharding){ 0 });
  return tsr_item(tsr_scan(deeper, NULL, in[0], .xs = by, .with = in[1]), 1);
}

TEST(loops_in_loops_count_all_their_steps)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = values(&f, TSR_SHAPE(64, 16), "x"), *w = values(&f, TSR_SHAPE(16, 16), "");
  double step = 2.0 * 64 * 16 * 16 + 3 * 64 * 16;
  check_said(&f, tsr_function_make(f.s, stacked), x, w, TURNS * (2 * step + 64 * 16));
  close_fixture(&f);
}

static tsr_array *moves(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sub(in[0], tsr_mean(in[0]));
}

static tsr_array *stays(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(tsr_mul(in[0], 2), 1);
}

static tsr_array *choice(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user, (void)s;
  return tsr_cond(tsr_gt(in[1], 0), moves, stays, NULL, in[0]);
}

static tsr_array *small(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user, (void)s;
  return tsr_lt(tsr_max(in[0]), 1000);
}

static tsr_array *grows(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user, (void)s;
  return tsr_while(small, stays, NULL, in[0]);
}

/* A choice is said by the most of its bodies, a while by a turn. */
TEST(what_elements_decide_is_said_as_a_bound)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = values(&f, TSR_SHAPE(64, 16), "x");
  tsr_function *fn = tsr_function_make(f.s, choice);
  for (int k = 0; k < 2; k++) {
    double sign = k ? 1 : -1;
    tsr_array *on = tsr_put(f.s, &sign, TSR_F64, TSR_SCALAR, tsr_on(f.mesh, ""));
    tsr_array *out = tsr_call(fn, x, on);
    tsr_compiled *c = tsr_compile(fn, x, on);
    tsr_figures said = tsr_compiled_figures(c);
    check_peak(c);
    CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f.s);
    tsr_run_stats run = tsr_last_run(f.s);
    CHECK(said.flops == 2.0 * 64 * 16 + 2);
    CHECK(said.bytes_moved > 0);
    CHECK_I64(run.bytes_explained, said.bytes_moved);
    CHECK_I64(run.bytes_counted - run.bytes_escaped, k ? said.bytes_moved : 0);
    CHECK_I64(run.collectives, k ? said.collectives : 0);
    CHECK(strstr(tsr_explain(&(tsr_array *){ tsr_call(fn, x, on) }, 1), "at most once, in body 1"));
  }
  fn = tsr_function_make(f.s, grows);
  tsr_figures said = tsr_compiled_figures(tsr_compile(fn, x));
  tsr_array *out = tsr_call(fn, x);
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f.s);
  tsr_run_stats run = tsr_last_run(f.s);
  /* 0..4 is asked nine times before it is a thousand. */
  CHECK_I64(run.bytes_explained, said.bytes_moved);
  CHECK_I64(run.bytes_counted, 9 * said.bytes_moved);
  CHECK(strstr(tsr_explain(&(tsr_array *){ tsr_call(fn, x) }, 1), "before each step of while"));
  close_fixture(&f);
}

/* What a device holds at once while a function runs is at most what was said, and not much less. */
static tsr_array *put_values(fixture *f, tsr_shape shape, const char *spec)
{
  size_t count = (size_t)(shape.dims[0] * shape.dims[1]);
  float *data = malloc(count * sizeof *data);
  for (size_t i = 0; i < count; i++) data[i] = (float)(i % 5);
  tsr_array *out = tsr_put(f->s, data, TSR_F32, shape, tsr_on(f->mesh, spec));
  free(data);
  return out;
}

static void check_memory(const char *what, tsr_body_fn *body, const char *spec, double tight)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_function *fn = tsr_function_make(f.s, body);
  tsr_array *x = put_values(&f, TSR_SHAPE(1024, 256), spec);
  tsr_array *w = put_values(&f, TSR_SHAPE(256, 256), "");
  tsr_compiled *c = tsr_compile(fn, x, w);
  tsr_figures said = tsr_compiled_figures(c);
  check_peak(c);
  int64_t before = tsr_device_memory(f.rt, 0).now;
  tsr_array *out = tsr_call(fn, x, w);
  CHECK_STATUS(tsr_eval(&out, 1), TSR_OK, f.s);
  int64_t peak = tsr_device_memory(f.rt, 0).peak - before;
  int64_t most = said.peak_bytes - said.argument_bytes;
  if (peak > most || (double)peak < tight * (double)most)
    FAIL("%s on \"%s\": said %lld, was %lld", what, spec, (long long)most, (long long)peak);
  close_fixture(&f);
}

static tsr_array *columns(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_mul(in[0], in[0]), .dims = TSR_DIMS(0));
}

static tsr_array *many_turns(tsr_scope *s, tsr_array *const *in, void *user)
{
  int n = 3;
  (void)user;
  return turns(s, in, &n);
}

static tsr_array *keep_all(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)user;
  tsr_array *next = tsr_tanh(tsr_matmul(in[0], in[2]));
  return tsr_tuple(s, next, next);
}

static tsr_array *kept(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_item(tsr_scan(keep_all, NULL, in[0], .length = 5, .with = in[1]), 1);
}

static tsr_array *sorted(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sort(tsr_ravel(in[0]), 0);
}

static tsr_array *order(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_argsort(tsr_cast(tsr_ravel(in[0]), TSR_F64), 0);
}

static tsr_array *scattered(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *at = tsr_cast(tsr_mod(tsr_ravel(in[0]), 7), TSR_I64);
  return tsr_scatter_add(tsr_ravel(in[1]), at, tsr_ravel(in[0]), 0);
}

/* A view may share what is counted here, and few sorts need all that they might. */
static tsr_array *sum_of_kept(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(kept(s, in, user));
}

static tsr_array *sum_of_stacked(tsr_scope *s, tsr_array *const *in, void *user)
{
  return tsr_sum(stacked(s, in, user));
}

/* Gradients keep what loops made, and loops give up carries. */
TEST(arrays_at_the_peak_add_up_to_it)
{
  static const char *const specs[] = { "x", "x,y", "", "-,x" };
  tsr_body_fn *const bodies[] = { layer, loss, grows, many_turns, sum_of_kept, sum_of_stacked };
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  for (int b = 0; b < 6; b++)
    for (int i = 0; i < 4; i++) {
      tsr_array *x = values(&f, TSR_SHAPE(64, 16), specs[i]);
      tsr_array *w = values(&f, TSR_SHAPE(16, 16), i % 2 ? "y" : "");
      tsr_function *fn = tsr_function_make(f.s, bodies[b]);
      check_peak(b == 2 ? tsr_compile(fn, x) : tsr_compile(fn, x, w));
      if (b == 1 || b > 3) check_peak(tsr_compile(tsr_grad(fn, .wrt = TSR_ARGS(0, 1)), x, w));
    }
  close_fixture(&f);
}

/* The largest is named with its line. */
TEST(the_largest_array_at_the_peak_is_named)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *x = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(64, 1024), tsr_on(f.mesh, "x"));
  tsr_array *w = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(1024, 1024), tsr_on(f.mesh, "x"));
  int count = 0;
  const tsr_peak_array *at =
      tsr_compiled_peak(tsr_compile(tsr_function_make(f.s, layer), x, w), &count);
  CHECK(count > 2);
  CHECK_STR(at[0].role, "argument");
  CHECK_STR(at[0].type, "f32[1024,1024]@(x,-)");
  CHECK_I64(at[0].bytes, 1 << 20);
  /* Partial products of the four devices that share a column. */
  CHECK_STR(at[1].role, "value");
  CHECK_STR(at[1].operation, "dot");
  CHECK_STR_HAS(at[1].site, "compile_test.c:14");
  CHECK_I64(at[1].bytes, 4 * 64 * 1024);
  CHECK(!tsr_compiled_peak(NULL, &count) && !count);
  close_fixture(&f);
}

TEST(the_most_memory_counts_accumulators_rooms_and_loops)
{
  check_memory("column sums", columns, "", 1);
  check_memory("column sums", columns, "x,y", 1);
  check_memory("turns", many_turns, "x", 1);
  check_memory("kept", kept, "x", 1);
  check_memory("kept", kept, "", 1);
  check_memory("sorted", sorted, "", 0.7);
  check_memory("sorted", sorted, "x", 0.7);
  check_memory("order", order, "", 0.7);
  check_memory("order", order, "x,y", 0.6);
  check_memory("scattered", scattered, "", 0.5);
}

TEST(a_mesh_needs_no_devices)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_mesh *pod = tsr_mesh_abstract(f.rt, "x=64,y=4");
  tsr_function *fn = tsr_function_make(f.s, loss, .name = "loss");
  tsr_array *x = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(6400, 64), tsr_on(pod, "x"));
  tsr_array *w = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(64, 32), tsr_on(pod, ""));
  tsr_compiled *c = tsr_compile(fn, x, w), *slope = tsr_compile(tsr_grad(fn), x, w);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  tsr_figures got = tsr_compiled_figures(c);
  CHECK_I64(got.argument_bytes, 100 * 64 * 4 + 64 * 32 * 4);
  CHECK_I64(bytes_of(&got, "all-reduce"), got.bytes_moved);
  CHECK(got.bytes_moved > 0 && tsr_compiled_figures(slope).flops > 0);
  tsr_array *placed = tsr_constrain(x, tsr_on(pod, "y"));
  const char *said = tsr_explain(&placed, 1);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  CHECK(strstr(said, "x=64"));
  double out;
  CHECK_STATUS(tsr_read_scalar(tsr_compiled_call(c, x, w), &out), TSR_ESTATE, NULL);
  CHECK(strstr(tsr_message(f.s), "is a type without elements"));
  tsr_scope_clear(f.s);
  tsr_array *there = tsr_constrain(tsr_arange(f.s, 0, 64), tsr_on(pod, "x"));
  CHECK_STATUS(tsr_eval(&there, 1), TSR_EAXIS, NULL);
  CHECK_STR_HAS(tsr_message(f.s), "mesh x=64,y=4, which is abstract");
  close_fixture(&f);
}

/* ---- per-device code on sizes ---------------------------------------------------------------- */

/* Rows of a model are gathered, those of examples stay. */
static tsr_array *rows_of(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *all = tsr_all_gather(in[1], "x", .tiled = true);
  (void)s, (void)user;
  return tsr_psum(tsr_sum(tsr_square(tsr_matmul(in[0], all))), "x,y");
}

static tsr_array *shard_loss(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_shard_map((const tsr_mesh *)user, rows_of, NULL, .in = { in[0], in[1] },
                       .in_specs = { "y", "x" }, .out_specs = { "" }, .uneven = true);
}

TEST(per_device_code_is_planned_on_sizes)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_mesh *meshes[] = { f.mesh, tsr_mesh_abstract(f.rt, "x=4,y=2"),
                         tsr_mesh_abstract(f.rt, "x=32,y=16") };
  tsr_figures got[3];
  for (int i = 0; i < 3; i++) {
    tsr_array *x = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(640, 64), tsr_on(meshes[i], "y"));
    tsr_array *w = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(64, 32), tsr_on(meshes[i], "x"));
    tsr_function *fn = tsr_function_make(f.s, shard_loss, .user = meshes[i]);
    tsr_compiled *c = tsr_compile(tsr_grad(fn, .wrt = TSR_ARGS(1)), x, w);
    CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
    CHECK_STR_HAS(tsr_compiled_text(c), "reduce-scatter");
    got[i] = tsr_compiled_figures(c);
  }
  CHECK(got[1].flops == got[0].flops && got[1].bytes_moved == got[0].bytes_moved);
  CHECK_I64(got[1].peak_bytes, got[0].peak_bytes);
  CHECK(got[0].flops > 0 && got[2].device_flops < got[0].device_flops);
  CHECK(got[2].bytes_moved > got[0].bytes_moved);
  close_fixture(&f);
}

/* What is made in a body, there: zeros, draws, numbers. */
static tsr_array *made_inside(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_sharding on = tsr_on((const tsr_mesh *)user, "x,y");
  tsr_shape shape = tsr_shape_of(in[0]);
  tsr_array *drawn = tsr_normal(s, .key = 1, .shape = shape, .dtype = TSR_F32, .on = on);
  tsr_array *one = tsr_add(tsr_full(s, 1, TSR_F32, shape, on), tsr_eye(s, TSR_F32, shape, 0, on));
  tsr_array *rows = tsr_add(drawn, tsr_iota(s, TSR_F32, shape, 0, on));
  return tsr_add(tsr_mul(in[0], one), rows);
}

TEST(what_a_body_makes_is_planned_on_sizes)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_mesh *meshes[] = { f.mesh, tsr_mesh_abstract(f.rt, "x=4,y=2") };
  tsr_figures got[2];
  for (int i = 0; i < 2; i++) {
    tsr_array *x = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(16, 16), tsr_on(meshes[i], "x,y"));
    tsr_function *fn = tsr_function_make(f.s, made_inside, .user = meshes[i]);
    got[i] = tsr_compiled_figures(tsr_compile(fn, x));
    CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  }
  CHECK(got[0].flops > 0 && got[0].flops == got[1].flops && !got[1].bytes_moved);
  CHECK_I64(got[0].peak_bytes, got[1].peak_bytes);
  tsr_array *there = tsr_full(f.s, 1, TSR_F32, TSR_SHAPE(8), tsr_on(meshes[1], "x"));
  CHECK_STATUS(tsr_eval(&there, 1), TSR_EAXIS, NULL);
  CHECK_STR_HAS(tsr_message(f.s), "mesh x=4,y=2, which is abstract");
  tsr_scope_clear(f.s);
  CHECK(tsr_is_inert(tsr_put(f.s, (float[8]){ 0 }, TSR_F32, TSR_SHAPE(8), tsr_on(meshes[1], "x"))));
  CHECK_STR_HAS(tsr_message(f.s), "sizes without devices, which hold no data");
  close_fixture(&f);
}

/* What is made of functions is explained and dumped like them, on types. */
/* An array with elements meets types of the same sizes without devices, or of others. */
TEST(what_lies_on_devices_meets_sizes_in_a_plan)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_array *real = tsr_iota(f.s, TSR_F32, TSR_SHAPE(64, 16), 0, tsr_on(f.mesh, "x"));
  CHECK_STATUS(tsr_eval(&real, 1), TSR_OK, f.s);
  static const char *const sizes[] = { "x=4,y=2", "x=64,y=4" };
  static const char *const says[] = { "has operands on two meshes",
                                      "the meshes have different devices" };
  for (int i = 0; i < 2; i++) {
    tsr_sharding on = tsr_on(tsr_mesh_abstract(f.rt, sizes[i]), "-,x");
    tsr_array *type = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(64, 16), on);
    tsr_array *sum = tsr_add(type, real);
    CHECK_STR_HAS(tsr_explain(&sum, 1), says[i]);
    CHECK(tsr_eval(&sum, 1));
    tsr_scope_clear(f.s);
  }
  tsr_runtime_close(f.rt);
}

TEST(gradients_are_explained_on_types)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_function *fn = tsr_function_make(f.s, loss, .name = "loss");
  tsr_array *x = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(64, 16), tsr_on(f.mesh, "x"));
  tsr_array *w = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(16, 32), tsr_on(f.mesh, ""));
  tsr_array *slope = tsr_call(tsr_grad(fn, .wrt = TSR_ARGS(1)), x, w);
  const char *said = tsr_explain(&slope, 1);
  CHECK(strstr(said, "all-reduce") || strstr(said, "reduce-scatter"));
  CHECK(strstr(said, "dot"));
  CHECK(strstr(tsr_dump(slope), "dot"));
  CHECK_STATUS(tsr_scope_status(f.s), TSR_OK, f.s);
  close_fixture(&f);
}

static tsr_array *captures(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s;
  return tsr_add(in[0], (tsr_array *)user);
}

TEST(what_does_not_fit_is_refused)
{
  fixture f = open_fixture("cpu:8", "x=4,y=2");
  tsr_function *fn = tsr_function_make(f.s, loss, .name = "loss");
  tsr_array *x = values(&f, TSR_SHAPE(64, 16), "x"), *w = values(&f, TSR_SHAPE(16, 32), "");
  tsr_compiled *c = tsr_compile(fn, x, w);
  tsr_array *wrong[] = { tsr_compiled_call(c, x, x) };
  CHECK_STATUS(tsr_eval(wrong, 1), TSR_EARG, NULL);
  CHECK(strstr(tsr_message(f.s),
               "array 1 of the arguments of loss is f32[64,16]@(x,-), but the function was "
               "compiled for f32[16,32]"));
  tsr_scope_clear(f.s);
  wrong[0] = tsr_compiled_call(c, x);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_EARG, NULL);
  tsr_scope_clear(f.s);
  wrong[0] = tsr_compiled_call(c, tsr_tuple(f.s, x, w));
  CHECK_STATUS(tsr_scope_status(f.s), TSR_EARG, NULL);
  CHECK(strstr(tsr_message(f.s), "of the forms *;*;"));
  tsr_scope_clear(f.s);
  tsr_array *type = tsr_abstract(f.s, TSR_F32, TSR_SHAPE(64, 16), tsr_on(f.mesh, "x"));
  wrong[0] = tsr_call(tsr_function_make(f.s, captures, .user = type), x);
  CHECK_STATUS(tsr_scope_status(f.s), TSR_ESTATE, NULL);
  CHECK(strstr(tsr_message(f.s), "by tsr_abstract is a type without elements"));
  tsr_scope_clear(f.s);
  tsr_compiled *bad = tsr_compile(fn, x, x);
  CHECK(strstr(tsr_compiled_text(bad), "tsr_matmul"));
  CHECK_I64(tsr_compiled_figures(bad).kernels, 0);
  close_fixture(&f);
}
