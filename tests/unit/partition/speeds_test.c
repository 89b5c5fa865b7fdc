/* Meshes whose axes have speeds: where the planner puts arrays as speeds change, what a move costs,
 * and what explanations say. The last test runs programs: speeds change no bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/leaf_fixture.h"
#include "tessera.h"

typedef struct fixture {
  tsr_runtime *rt;
  tsr_mesh *mesh;
  tsr_scope *s;
  tsr__program p;
  tsr__partitioned parts;
  int64_t along[2]; /* bytes of all notes */
} fixture;

static fixture open_fixture(const char *mesh)
{
  fixture f = { .rt = fixture_devices("cpu:8") };
  f.mesh = tsr_mesh_make(f.rt, mesh);
  CHECK_STR(tsr_mesh_message(f.mesh), "");
  f.s = tsr_scope_open(f.rt);
  tsr__program_init(&f.p, &f.rt->heap);
  return f;
}

static tsr_array *on(fixture *f, tsr_shape shape, const char *spec)
{
  return fixture_leaf(f->s, TSR_F32, shape, f->mesh, spec);
}

static tsr_array *moved(fixture *f, tsr_array *a, const char *spec)
{
  tsr_sharding at = tsr_on(f->mesh, spec);
  return tsr__make(f->s, TSR__OP_RESHARD, TSR__IN(a), &(tsr__ask){ .sharding = &at }, NULL);
}

/* Plans a program of one root and sums the bytes along both axes; returns its explanation. */
static const char *plan(fixture *f, tsr_array *root)
{
  static char text[8000]; /* read before the next plan */
  tsr__error error = { .status = TSR_OK };
  tsr__text out;
  tsr__text_init(&out, &f->rt->heap);
  tsr__program_clear(&f->p);
  if (tsr__program_trace(&f->p, &root, 1, &error)) FAIL("%s", error.text);
  if (tsr__partition(&f->p, &f->rt->heap, &f->parts, &error)) FAIL("%s", error.text);
  tsr__explain_print(&f->parts, NULL, NULL, &out);
  snprintf(text, sizeof text, "%s", tsr__text_get(&out));
  tsr__text_free(&out);
  memset(f->along, 0, sizeof f->along);
  for (int i = 0; i < f->parts.note_count; i++)
    for (int a = 0; a < 2; a++) f->along[a] += f->parts.notes[i].along[a];
  tsr__partitioned_free(&f->parts, &f->rt->heap);
  return text;
}

/* ---- the choice follows the speeds ---- */

/* Rows are cut by x or by y, and as many bytes move either way: along the fast axis. */
TEST(the_operand_on_the_fast_axis_moves)
{
  static const struct {
    const char *mesh;
    int fast;
  } rows[] = { { "x=2@1e9,y=2@30e9", 1 }, { "x=2@30e9,y=2@1e9", 0 } };
  for (int i = 0; i < 2; i++) {
    fixture f = open_fixture(rows[i].mesh);
    tsr_array *a = on(&f, TSR_SHAPE(4096), "x"), *b = on(&f, TSR_SHAPE(4096), "y");
    plan(&f, fixture_make(TSR__OP_ADD, a, b, NULL, NULL));
    CHECK_I64(f.along[!rows[i].fast], 0);
    CHECK(f.along[rows[i].fast] > 0);
  }
}

/* A layer in data parallel (x f32[m,k]@(data,-)) with weights cut by their rows along model. Either
 * the weights are gathered along model, or each device multiplies its part of k, and the sums of
 * [m,n] are added along model; both are 4 bytes an element. Along data the weights' copies need
 * nothing. */
static const char *layer(fixture *f, int64_t m, int64_t k, int64_t n)
{
  tsr_array *x = on(f, TSR_SHAPE(m, k), "data,-"), *w = on(f, TSR_SHAPE(k, n), "model,-");
  return plan(f, tsr_matmul(x, w));
}

TEST(a_layer_keeps_the_slow_axis_free)
{
  fixture f = open_fixture("data=2@1e9,model=4@36e9");
  layer(&f, 512, 256, 64);
  CHECK_I64(f.along[0], 0);
  CHECK(f.along[1] > 0);
}

/* Contracted dims: a's k lies along data, b's along model. The one that is cut by the fast axis is
 * gathered or moved; both arrays have as many bytes. */
TEST(a_product_moves_the_operand_on_the_fast_axis)
{
  static const char *const meshes[] = { "data=2@1e9,model=2@36e9", "data=2@36e9,model=2@1e9" };
  for (int i = 0; i < 2; i++) {
    fixture f = open_fixture(meshes[i]);
    tsr_array *a = on(&f, TSR_SHAPE(256, 256), "-,data"),
              *b = on(&f, TSR_SHAPE(256, 256), "model,-");
    plan(&f, tsr_matmul(a, b));
    CHECK(f.along[i] < f.along[!i]);
  }
}

/* Fully sharded weights: the gradient [k,n] of a batch that data cuts may lie anywhere. Adding it
 * to weights cut by data moves parts of sums along data only; no gather follows. */
TEST(gradients_meet_where_the_weights_lie)
{
  fixture f = open_fixture("data=4@1e9,model=2@36e9");
  tsr_array *x = on(&f, TSR_SHAPE(64, 128), "-,data"), *g = on(&f, TSR_SHAPE(128, 96), "data,-");
  tsr_array *w = on(&f, TSR_SHAPE(64, 96), "data,-");
  const char *text = plan(&f, tsr_sub(w, tsr_matmul(x, g)));
  CHECK_STR_HAS(text, "reduce-scatter");
  /* Each of 4 devices sends parts of 3/4 of the result; where model cuts the columns, half of it.
   * */
  CHECK(f.along[0] <= 2 * 3 * 64 * 96 * 4);
}

/* One program on three meshes. Weights w[k,n] that data cuts, as fully sharded training has them,
 * with k of the batch x[m,k] along model: the weights are gathered along data, and each device
 * multiplies its part of k; sums of parts meet along model. Where model is slow, k of x is moved
 * along model once, and no sums meet. The second product adds parts over both axes; where data is
 * slow, only what model gathered meets along data. */
TEST(the_form_of_a_product_follows_the_speeds)
{
  static const struct {
    const char *mesh, *left, *right, *has, *lacks;
    int64_t k;
  } rows[] = {
    { "data=2,model=4", "data,model", "data,-", "reduce-scatter over model=4", "all-to-all", 2048 },
    { "data=2@1e9,model=4@36e9", "data,model", "data,-", "reduce-scatter over model=4",
      "all-to-all", 2048 },
    { "data=2@36e9,model=4@1e9", "data,model", "data,-", "all-to-all over model=4",
      "reduce-scatter", 2048 },
    { "data=2,model=4", "-,data+model", "data,-", "reduce-scatter over data=2,model=4", "step",
      4096 },
    { "data=2@1e9,model=4@36e9", "-,data+model", "data,-",
      "reduce-scatter over data=2:", "data=2,model=4", 4096 },
    { "data=2@36e9,model=4@1e9", "-,data+model", "data,-",
      "all-gather over data=2:", "reduce-scatter", 4096 },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f = open_fixture(rows[i].mesh);
    tsr_array *x = on(&f, TSR_SHAPE(512, rows[i].k), rows[i].left);
    const char *text = plan(&f, tsr_matmul(x, on(&f, TSR_SHAPE(rows[i].k, 512), rows[i].right)));
    CHECK_STR_HAS(text, rows[i].has);
    if (strstr(text, rows[i].lacks)) FAIL("row %zu: %s in\n%s", i, rows[i].lacks, text);
  }
}

/* ---- moves in two steps, and sums cut further ---- */

TEST(a_slow_axis_carries_each_part_once)
{
  enum { BYTES = 1024 * 512 * 4 };
  fixture f = open_fixture("x=2@1e9,y=4@30e9");
  tsr_array *a = on(&f, TSR_SHAPE(1024, 512), "x,-"), *r = moved(&f, a, "-,-");
  const char *text = plan(&f, r);
  /* In one step, 8 devices fetch half of the array along x. */
  CHECK_STR_HAS(text, "step 1 of 2");
  CHECK_STR_HAS(text, "step 2 of 2");
  CHECK_I64(f.along[0], 8 * BYTES / 8);
  CHECK_I64(f.along[1], 8 * BYTES / 4 * 3);
  fixture g = open_fixture("x=2,y=4");
  r = moved(&g, on(&g, TSR_SHAPE(1024, 512), "x,-"), "-,-");
  CHECK(!strstr(plan(&g, r), "step"));
  /* No step is gained where the slow axis is the one inside. */
  fixture h = open_fixture("x=2@30e9,y=4@1e9");
  r = moved(&h, on(&h, TSR_SHAPE(1024, 512), "x,-"), "-,-");
  CHECK(!strstr(plan(&h, r), "step"));
  CHECK_I64(h.along[0], 8 * BYTES / 2);
}

/* A second step takes 10 us on each device: 4 kB along x take less in one step. */
TEST(small_arrays_move_in_one_step)
{
  fixture f = open_fixture("x=2@1e9,y=4@30e9");
  tsr_array *r = moved(&f, on(&f, TSR_SHAPE(64, 32), "x,-"), "-,-");
  CHECK(!strstr(plan(&f, r), "step"));
  CHECK_I64(f.along[0], 8 * 64 * 32 * 4 / 2);
  tsr_array *a = on(&f, TSR_SHAPE(64, 64), "x,-");
  plan(&f, fixture_reduce(TSR__OP_MAX, a, NULL, 1, NULL));
  CHECK_I64(f.along[0], 4 * 2 * 64 * 4);
}

TEST(idle_fast_axes_cut_what_meets_along_a_slow_one)
{
  enum { COLUMNS = 1 << 16 };
  fixture f = open_fixture("x=2@1e9,y=4@30e9");
  tsr_array *a = on(&f, TSR_SHAPE(64, COLUMNS), "x,-");
  plan(&f, fixture_reduce(TSR__OP_MAX, a, NULL, 1, NULL));
  /* Not cut, each of 4 groups would send all partials and get all results. */
  CHECK_I64(f.along[0], 2 * COLUMNS * 4);
}

/* ---- neighbours ---- */

/* Eight devices in a line hand something on seven times: x=2,y=4 by x+y once along x, where y
 * begins anew; by y+x four times along x alone and three times along both. */
static void check_neighbours(const char *mesh, const char *spec, int64_t along_x, int64_t along_y)
{
  fixture f = open_fixture(mesh);
  plan(&f, tsr_cumsum(on(&f, TSR_SHAPE(4096), spec), 0));
  CHECK(f.along[0] + f.along[1] > 0);
  CHECK_I64(f.along[0] * along_y, f.along[1] * along_x);
  tsr_array *view = tsr_slice(on(&f, TSR_SHAPE(4096), spec), TSR_RANGE(1, 4096));
  plan(&f, view);
  CHECK_I64(f.along[0], along_x * 4);
  CHECK_I64(f.along[1], along_y * 4);
}

TEST(neighbours_are_reached_along_the_slowest_axis)
{
  check_neighbours("x=2@1e9,y=4@30e9", "x+y", 1, 6);
  check_neighbours("x=2@30e9,y=4@1e9", "x+y", 0, 7);
  check_neighbours("x=2@1e9,y=4@30e9", "y+x", 7, 0);
  check_neighbours("x=2@30e9,y=4@1e9", "y+x", 4, 3);
}

/* ---- what explanations say ---- */

TEST(explanations_name_times)
{
  fixture f = open_fixture("x=2@25e9,y=4@900e9");
  tsr_array *a = on(&f, TSR_SHAPE(2048, 1024), "x,-"), *r = moved(&f, a, "-,-");
  static const char said[] =
      "all-gather over x=2: 8388608 bytes\n"
      "    about 41.9 us: 1.05 MB a device along x at 25 GB/s\n"
      "    %0 f32[2048,1024]@(x,-) -> f32[2048,1024]@(y,-), step 1 of 2, because reshard asks for "
      "this sharding\n"
      "    cheaper: put %0 with spec -,- (0 bytes)\n"
      "all-gather over y=4: 50331648 bytes\n"
      "    about 6.99 us: 6.29 MB a device along y at 900 GB/s\n"
      "    f32[2048,1024]@(y,-) -> %1 f32[2048,1024]@(-,-), step 2 of 2, because reshard asks for "
      "this sharding\n"
      "moves on x=2@25e9,y=4@900e9 take about 48.9 us: 41.9 us along x, 6.99 us along y\n";
  CHECK_STR(plan(&f, r), said);
}

TEST(small_and_large_quantities_are_short)
{
  fixture f = open_fixture("x=2@3,y=4@999e12");
  tsr_array *r = moved(&f, on(&f, TSR_SHAPE(6), "x"), "-");
  const char *text = plan(&f, r);
  CHECK_STR_HAS(text, "along x at 3 bytes/s");
  CHECK(!strstr(text, "1000 "));
}

/* ---- bits ---- */

/* Two layers and a loss; products that are not reproducible follow the plan. */
static tsr_array *loss_of(tsr_scope *s, tsr_array *const *in, void *user)
{
  tsr_array *hidden = tsr_tanh(tsr_matmul(in[2], in[0], .reproducible = true));
  (void)s, (void)user;
  return tsr_mean(tsr_square(tsr_matmul(hidden, in[1], .reproducible = true)));
}

enum { VALUES = 1 + 24 * 40 + 40 * 16 };

/* Writes the bits of the loss and of both gradients. */
static void write_step(tsr_runtime *rt, const char *text, const char *const specs[3], float *out)
{
  static const int64_t sizes[3][2] = { { 24, 40 }, { 40, 16 }, { 64, 24 } };
  tsr_mesh *mesh = tsr_mesh_make(rt, text);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *given[3];
  for (int i = 0; i < 3; i++) {
    float values[64 * 40];
    tsr_shape shape = TSR_SHAPE(sizes[i][0], sizes[i][1]);
    for (int64_t k = 0; k < shape.dims[0] * shape.dims[1]; k++)
      values[k] = (float)((k * 7919 + i * 31) % 101 - 50) / 37;
    given[i] = tsr_put(s, values, TSR_F32, shape, tsr_on(mesh, specs[i]));
  }
  tsr_function *step = tsr_value_and_grad(tsr_function_make(s, loss_of), .wrt = TSR_ARGS(0, 1));
  tsr_array *all = tsr_call(step, given[0], given[1], given[2]);
  tsr_array *results[] = { tsr_item(all, 0), tsr_field(all, "1.0"), tsr_field(all, "1.1") };
  CHECK_STATUS(tsr_eval(results, 3), TSR_OK, s);
  tsr_run_stats stats = tsr_last_run(s);
  CHECK_I64(stats.bytes_counted - stats.bytes_escaped, stats.bytes_explained);
  for (int i = 0; i < 3; i++) {
    int count = i ? (int)(sizes[i - 1][0] * sizes[i - 1][1]) : 1;
    CHECK_STATUS(tsr_read(results[i], out, (size_t)count * sizeof *out), TSR_OK, s);
    out += count;
  }
  tsr_scope_close(s);
}

TEST(speeds_change_no_bits)
{
  static const char *const meshes[] = { "data=2,model=4", "data=2@1e9,model=4@36e9",
                                        "data=2@36e9,model=4@1e9", "data=2@5e9,model=4@7e9" };
  static const char *const specs[][3] = {
    { "-,model", "model,-", "data,-" },
    { "data,model", "model,data", "data,-" },
    { "data+model,-", "-,data", "-,model" },
    { "-,-", "data,-", "data+model,-" },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int i = 0; i < 4; i++) {
    float plain[VALUES], other[VALUES];
    write_step(rt, meshes[0], specs[i], plain);
    for (int k = 1; k < 4; k++) {
      write_step(rt, meshes[k], specs[i], other);
      CHECK_BYTES(other, plain, sizeof plain);
    }
  }
  tsr_runtime_close(rt);
}
