/* Products whose contracted dims are cut: which form is taken, what moves for it, what it says, and
 * that reproducible ones have the same bits on any mesh. Runs at each ISA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

/* Small whole numbers, so that nothing rounds; or numbers that do. */
static tsr_array *draw(tsr_scope *s, tsr_dtype dtype, tsr_shape shape, tsr_sharding at, bool rounds)
{
  test_rng rng = test_seeded((uint64_t)shape.dims[0] * 1000 + (uint64_t)shape.dims[1]);
  int64_t count = shape.dims[0] * shape.dims[1];
  double *x = malloc((size_t)count * sizeof *x + 8);
  for (int64_t i = 0; i < count; i++)
    x[i] = (double)test_range(&rng, -9, 9) * (rounds ? 0.1 + (double)i * 0.37 : 1);
  tsr_array *a = tsr_cast(tsr_put(s, x, TSR_F64, shape, (tsr_sharding){ 0 }), dtype);
  free(x);
  CHECK_STATUS(tsr_wait(a), TSR_OK, s);
  return at.mesh ? tsr_reshard(a, at) : a;
}

static void check_same(tsr_scope *s, tsr_array *a, tsr_array *b)
{
  size_t size = (size_t)tsr_shape_of(a).dims[0] * (size_t)tsr_shape_of(a).dims[1] * 8;
  void *x = calloc(size, 1), *y = calloc(size, 1);
  CHECK_STATUS(tsr_read(tsr_cast(a, TSR_F64), x, size), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_cast(b, TSR_F64), y, size), TSR_OK, s);
  CHECK_BYTES(x, y, size);
  free(x);
  free(y);
}

/* ---- which form is taken --------------------------------------------------------------------- */

typedef struct form {
  int64_t m, k, n;
  const char *left, *right, *to; /* specs; to: NULL, as it comes */
  const char *says;              /* of the explanation; NULL: nothing moves */
  int64_t most;                  /* bytes */
} form;

/* On 8 devices: parts that meet count the result once and once more, what is gathered its operand
 * on 7 devices. */
TEST(the_cheapest_form_of_a_product_is_taken)
{
  static const form forms[] = {
    /* both cut along k, which is long: the parts meet, 7 and 7 times 16 x 24 */
    { 16, 4096, 24, "-,x", "x,-", "-,-", "sums products over dims that are sharded", 2 * 7 * 1536 },
    { 16, 4096, 24, "-,x", "x,-", "x,-", "reduce-scatter over x=8: 10752 bytes", 7 * 1536 },
    /* only one is cut: the other is sliced where it lies */
    { 16, 4096, 24, "-,x", "-,-", "-,-", "sums products over", 2 * 7 * 1536 },
    /* k is short: gathering both is cheaper than parts of the result, */
    { 400, 8, 400, "-,x", "x,-", "x,-", "because", 7 * 400 * 4 + 7 * 400 * 8 * 4 },
    /* rows stay where they are, columns too */
    { 64, 64, 64, "x,-", "-,-", "x,-", NULL, 0 },
    { 64, 64, 64, "-,-", "-,x", "-,x", NULL, 0 },
    /* the smaller operand is gathered */
    { 4096, 64, 8, "x,-", "x,-", "x,-", "all-gather", 7 * 64 * 8 * 4 },
    { 8, 64, 4096, "-,x", "-,x", "-,x", "all-gather", 7 * 64 * 8 * 4 },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=8");
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const form *f = &forms[i];
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = draw(s, TSR_F32, TSR_SHAPE(f->m, f->k), (tsr_sharding){ 0 }, false);
    tsr_array *b = draw(s, TSR_F32, TSR_SHAPE(f->k, f->n), (tsr_sharding){ 0 }, false);
    tsr_array *x = tsr_reshard(a, tsr_on(mesh, f->left)),
              *y = tsr_reshard(b, tsr_on(mesh, f->right));
    CHECK_STATUS(tsr_eval((tsr_array *[]){ x, y }, 2), TSR_OK, s);
    tsr_array *c = tsr_constrain(tsr_matmul(x, y), tsr_on(mesh, f->to));
    const char *text = tsr_explain(&c, 1);
    CHECK_STR_HAS(text, f->says ? f->says : "nothing moves between devices");
    CHECK_STATUS(tsr_wait(c), TSR_OK, s);
    tsr_run_stats stats = tsr_last_run(s);
    CHECK_I64(stats.bytes_counted, stats.bytes_explained);
    if (stats.bytes_counted > f->most)
      FAIL("form %d: %lld bytes, at most %lld\n%s", (int)i, (long long)stats.bytes_counted,
           (long long)f->most, text);
    check_same(s, c, tsr_matmul(a, b));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* A step of an optimiser: weights that all devices have, slopes that meet. It is made where slopes
 * are added up, whichever layer it is of, and nothing is gathered; a product that is asked for
 * itself lies whole, as before. */
TEST(what_is_made_of_slopes_is_made_where_they_meet)
{
  static const int64_t sizes[][2] = { { 96, 64 }, { 64, 64 }, { 64, 8 }, { 64, 72 }, { 9, 16 } };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=8");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int64_t in = sizes[i][0], out = sizes[i][1], bytes = in * out * 4;
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *x = draw(s, TSR_F32, TSR_SHAPE(1024, in), tsr_on(mesh, "x,-"), false);
    tsr_array *d = draw(s, TSR_F32, TSR_SHAPE(1024, out), tsr_on(mesh, "x,-"), false);
    tsr_array *w = draw(s, TSR_F32, TSR_SHAPE(in, out), tsr_on(mesh, "-,-"), false);
    CHECK_STATUS(tsr_eval((tsr_array *[]){ x, d, w }, 3), TSR_OK, s);
    tsr_array *next = tsr_sub(w, tsr_mul(tsr_matmul(tsr_transpose(x), d), 0.5));
    CHECK(!strstr(tsr_explain(&next, 1), "all-gather"));
    CHECK_STATUS(tsr_wait(next), TSR_OK, s);
    CHECK_STR_HAS(tsr_type_of(next), in >= out ? "@(x,-)" : "@(-,x)");
    CHECK_I64(tsr_last_run(s).bytes_counted, 7 * bytes);
    CHECK_I64(tsr_last_run(s).bytes_explained, 7 * bytes);
    tsr_array *slope = tsr_matmul(tsr_transpose(x), d);
    CHECK_STATUS(tsr_wait(slope), TSR_OK, s);
    CHECK_STR_HAS(tsr_type_of(slope), "@(-,-)");
    check_same(s, next, tsr_sub(w, tsr_mul(slope, 0.5)));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* JAX's matmul_reduce_scatter: a (z,y), b (y,-), the result cut by both. */
TEST(parts_are_scattered_over_two_axes)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2,z=2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = draw(s, TSR_I32, TSR_SHAPE(8, 8), tsr_on(mesh, "z,y"), false);
  tsr_array *b = draw(s, TSR_I32, TSR_SHAPE(8, 8), tsr_on(mesh, "y,-"), false);
  CHECK_STATUS(tsr_eval((tsr_array *[]){ a, b }, 2), TSR_OK, s);
  tsr_array *c = tsr_constrain(tsr_matmul(a, b), tsr_on(mesh, "z+y,-"));
  CHECK_STR_HAS(tsr_explain(&c, 1), "reduce-scatter over y=2");
  tsr_array *whole = tsr_matmul(draw(s, TSR_I32, TSR_SHAPE(8, 8), (tsr_sharding){ 0 }, false),
                                draw(s, TSR_I32, TSR_SHAPE(8, 8), (tsr_sharding){ 0 }, false));
  check_same(s, c, whole);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Parts meet over all their axes; what is wanted cut by some of them is gathered along the rest,
 * and only on the first where it is left unreduced. */
TEST(parts_are_scattered_over_some_axes)
{
  static const struct {
    const char *to, *says;
    int64_t most;
  } cases[] = { { "x,-", "all-gather over y=2: 1536 bytes", 7 * 1536 + 1536 },
                { "y,-", "all-gather", 7 * 1536 + 3 * 1536 },
                { "x,-;sum(y)", "because", 7 * 1536 + 768 },
                { "-,-;sum(x+y)", "because", 7 * 1536 + 7 * 192 } };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  for (int i = 0; i < 4; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = draw(s, TSR_I32, TSR_SHAPE(16, 4096), (tsr_sharding){ 0 }, false);
    tsr_array *b = draw(s, TSR_I32, TSR_SHAPE(4096, 24), (tsr_sharding){ 0 }, false);
    tsr_array *x = tsr_reshard(a, tsr_on(mesh, "-,x+y")), *y = tsr_reshard(b, tsr_on(mesh, "x+y"));
    CHECK_STATUS(tsr_eval((tsr_array *[]){ x, y }, 2), TSR_OK, s);
    tsr_array *c = tsr_constrain(tsr_matmul(x, y), tsr_on(mesh, cases[i].to));
    const char *text = tsr_explain(&c, 1);
    CHECK_STR_HAS(text, "reduce-scatter over x=4,y=2: 10752 bytes");
    CHECK_STR_HAS(text, cases[i].says);
    CHECK_STATUS(tsr_wait(c), TSR_OK, s);
    CHECK_I64(tsr_last_run(s).bytes_counted, cases[i].most);
    check_same(s, c, tsr_matmul(a, b));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- parts that are added up ----------------------------------------------------------------- */

enum {
  HIGH = 61,
  WIDE = 37,
  PARTS = 8,
  LONG = 5 * 840 /* of any number of parts each is as long */
};

static void read_floats(tsr_scope *s, tsr_array *a, float *out, int64_t count)
{
  CHECK_STATUS(tsr_read(a, out, (size_t)count * sizeof *out), TSR_OK, s);
}

/* Neighbours are added, then their sums, until one is left. */
static float tree_of(float *parts, int count)
{
  for (; count > 1; count = (count + 1) / 2) {
    for (int i = 0; i < count / 2; i++) parts[i] = parts[2 * i] + parts[2 * i + 1];
    if (count % 2) parts[count / 2] = parts[count - 1];
  }
  return parts[0];
}

static void check_parts(const float *a, const float *b, const float *c, int devices)
{
  int64_t each = LONG / devices;
  for (int64_t i = 0; i < HIGH; i++)
    for (int64_t j = 0; j < WIDE; j++) {
      float parts[PARTS];
      for (int p = 0; p < devices; p++) {
        parts[p] = -0.0f;
        for (int64_t k = p * each; k < (p + 1) * each; k++)
          parts[p] = fmaf(a[i * LONG + k], b[k * WIDE + j], parts[p]);
      }
      float sum = tree_of(parts, devices);
      if (memcmp(&sum, &c[i * WIDE + j], sizeof sum) != 0)
        FAIL("%d devices: %a at %d, %d, expected %a", devices, (double)c[i * WIDE + j], (int)i,
             (int)j, (double)sum);
    }
}

/* The result is larger than what is added up at a time, and whatever number of devices has parts
 * of it, they are read where they lie: all that moves is counted. */
TEST(parts_are_added_up_as_a_tree)
{
  static float x[HIGH * LONG], y[LONG * WIDE], z[HIGH * WIDE];
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int devices = 2; devices <= PARTS; devices++)
    for (int cut = 0; cut < 2; cut++) {
      char axes[8];
      snprintf(axes, sizeof axes, "x=%d", devices);
      tsr_mesh *mesh = tsr_mesh_make(rt, axes);
      tsr_scope *s = tsr_scope_open(rt);
      tsr_array *a = draw(s, TSR_F32, TSR_SHAPE(HIGH, LONG), tsr_on(mesh, "-,x"), true);
      tsr_array *b = draw(s, TSR_F32, TSR_SHAPE(LONG, WIDE), tsr_on(mesh, "x,-"), true);
      CHECK_STATUS(tsr_eval((tsr_array *[]){ a, b }, 2), TSR_OK, s);
      tsr_array *c = tsr_constrain(tsr_matmul(a, b), tsr_on(mesh, cut ? "x,-" : "-,-"));
      CHECK_STR_HAS(tsr_explain(&c, 1), "sums products over dims that are sharded");
      CHECK_STATUS(tsr_wait(c), TSR_OK, s);
      tsr_run_stats stats = tsr_last_run(s);
      CHECK_I64(stats.bytes_counted, stats.bytes_explained);
      read_floats(s, a, x, HIGH * LONG);
      read_floats(s, b, y, LONG * WIDE);
      read_floats(s, c, z, HIGH * WIDE);
      check_parts(x, y, z, devices);
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}

/* ---- work that is not repeated --------------------------------------------------------------- */

static tsr_array *layers(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *x = tsr_relu(tsr_matmul(in[0], in[2]));
  x = tsr_relu(tsr_matmul(x, in[3]));
  return tsr_mean(tsr_cross_entropy(tsr_matmul(x, in[4]), in[1]));
}

static tsr_array *windows(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  tsr_array *x = tsr_max_pool(tsr_relu(tsr_conv(in[0], in[2], .same = true)), .window = { 2, 2 });
  x = tsr_max_pool(tsr_relu(tsr_conv(x, in[3], .same = true)), .window = { 2, 2 });
  x = tsr_reshape(x, TSR_SHAPE(128, 8 * 8 * 64));
  return tsr_mean(tsr_cross_entropy(tsr_matmul(x, in[4]), in[1]));
}

/* Products and sums of a step on so many devices, of all of them together. */
static double work_of(tsr_runtime *rt, bool images, int devices)
{
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_abstract(rt, devices == 1 ? "data=1" : "data=8");
  tsr_sharding rows = tsr_on(mesh, "data"), whole = tsr_on(mesh, "");
  tsr_function *slope =
      tsr_value_and_grad(tsr_function_make(s, images ? windows : layers), .wrt = TSR_ARGS(2, 3, 4));
  const tsr_shape shapes[2][5] = { { TSR_SHAPE(1024, 784), TSR_SHAPE(1024), TSR_SHAPE(784, 512),
                                     TSR_SHAPE(512, 512), TSR_SHAPE(512, 10) },
                                   { TSR_SHAPE(128, 32, 32, 3), TSR_SHAPE(128),
                                     TSR_SHAPE(3, 3, 3, 32), TSR_SHAPE(3, 3, 32, 64),
                                     TSR_SHAPE(4096, 10) } };
  tsr_array *given[5];
  for (int i = 0; i < 5; i++)
    given[i] = tsr_abstract(s, i == 1 ? TSR_I32 : TSR_F32, shapes[images][i], i < 2 ? rows : whole);
  double flops =
      tsr_compiled_figures(tsr_compile(slope, given[0], given[1], given[2], given[3], given[4]))
          .device_flops;
  CHECK_STR(tsr_message(s), "");
  tsr_scope_close(s);
  return flops * devices;
}

/* Steps of training, of examples cut over devices. It is fewer bytes to have all examples, or all
 * slopes of a layer's results, on every device than to have slopes of weights meet. */
TEST(no_device_repeats_the_products_of_others)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int images = 0; images < 2; images++) {
    double alone = work_of(rt, images, 1), together = work_of(rt, images, 8);
    CHECK(alone > 1e8);
    if (together > 1.05 * alone) FAIL("%g operations, of one device %g", together, alone);
  }
  tsr_runtime_close(rt);
}

/* ---- reproducible ---------------------------------------------------------------------------- */

/* Long and odd dims, on meshes whose borders fall anywhere in leaves. */
TEST_TIMEOUT(reproducible_products_have_the_same_bits_on_any_mesh, 120)
{
  static const char *const meshes[] = { "x=1", "x=2", "x=3", "x=5", "x=8", "x=2,y=4" };
  static const int64_t depths[] = { 1, 31, 33, 100, 257, 1000 };
  static const tsr_dtype dtypes[] = { TSR_F32, TSR_F64, TSR_BF16, TSR_F16 };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
    for (size_t k = 0; k < sizeof depths / sizeof *depths; k++) {
      tsr_scope *s = tsr_scope_open(rt);
      tsr_array *a = draw(s, dtypes[t], TSR_SHAPE(17, depths[k]), (tsr_sharding){ 0 }, true);
      tsr_array *b = draw(s, dtypes[t], TSR_SHAPE(depths[k], 40), (tsr_sharding){ 0 }, true);
      tsr_array *first = tsr_matmul(a, b, .reproducible = true);
      CHECK_STATUS(tsr_wait(first), TSR_OK, s);
      for (size_t m = 0; m < sizeof meshes / sizeof *meshes; m++) {
        tsr_mesh *mesh = tsr_mesh_make(rt, meshes[m]);
        tsr_array *x = tsr_reshard(a, tsr_on(mesh, m == 5 ? "x,y" : "-,x"));
        tsr_array *y = tsr_reshard(b, tsr_on(mesh, m == 5 ? "y,-" : "x,-"));
        CHECK_STATUS(tsr_eval((tsr_array *[]){ x, y }, 2), TSR_OK, s);
        tsr_array *c = tsr_matmul(x, y, .reproducible = true);
        CHECK_STATUS(tsr_wait(c), TSR_OK, s);
        tsr_run_stats stats = tsr_last_run(s);
        CHECK_I64(stats.bytes_counted, stats.bytes_explained);
        check_same(s, c, first);
      }
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}

TEST(moved_borders_are_explained)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  tsr_array *a = draw(s, TSR_F32, TSR_SHAPE(2, 1000), tsr_on(mesh, "-,x"), true);
  tsr_array *b = draw(s, TSR_F32, TSR_SHAPE(1000, 2), tsr_on(mesh, "x,-"), true);
  CHECK_STATUS(tsr_eval((tsr_array *[]){ a, b }, 2), TSR_OK, s);
  tsr_array *c = tsr_matmul(a, b, .reproducible = true);
  const char *text = tsr_explain(&c, 1);
  /* 250 a device, wanted 256, 256, 256, 232: 6, 12 and 18 of the next one's columns */
  CHECK_STR_HAS(text, "exchange over x=4: 576 bytes");
  CHECK_STR_HAS(text, "splits its sums at borders that are the same on any");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Each device takes what its windows show of others, and no more. */
TEST(windows_take_halos)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  static const char *const meshes[] = { "x=1", "x=2", "x=3", "x=4", "x=8" };
  for (int m = 0; m < 5; m++)
    for (int64_t rows = 5; rows < 20; rows += 3)
      for (int64_t stride = 1; stride < 4; stride++)
        for (int64_t dilation = 1; dilation < 3; dilation++) {
          tsr_scope *s = tsr_scope_open(rt);
          tsr_sharding at = tsr_on(tsr_mesh_make(rt, meshes[m]), "-,x,-");
          tsr_array *x = draw(s, TSR_F32, TSR_SHAPE(rows, 2), (tsr_sharding){ 0 }, true);
          tsr_array *k = draw(s, TSR_F32, TSR_SHAPE(3, 6), (tsr_sharding){ 0 }, true);
          x = tsr_reshape(x, TSR_SHAPE(1, rows, 2));
          k = tsr_reshape(k, TSR_SHAPE(3, 2, 3));
          tsr_array *one = tsr_conv(x, k, .stride = { stride }, .dilation = { dilation });
          tsr_array *y = tsr_reshard(x, at);
          CHECK_STATUS(tsr_wait(y), TSR_OK, s);
          tsr_array *c = tsr_conv(y, k, .stride = { stride }, .dilation = { dilation });
          CHECK_STATUS(tsr_wait(c), TSR_OK, s);
          tsr_run_stats stats = tsr_last_run(s);
          CHECK_I64(stats.bytes_counted, stats.bytes_explained);
          int64_t places = tsr_shape_of(one).dims[1];
          check_same(s, tsr_reshape(c, TSR_SHAPE(places, 3)),
                     tsr_reshape(one, TSR_SHAPE(places, 3)));
          tsr_scope_close(s);
        }
  tsr_runtime_close(rt);
}
