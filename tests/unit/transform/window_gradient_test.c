/* Gradients of pools and of convolutions with borders by what goes in, on one device and cut: those
 * of loops, of whatever sizes. Runs at each ISA. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

typedef struct sizes {
  int64_t n, h, w, c, down, across; /* x [n, h, w, c]; of a window */
} sizes;

/* Equal numbers are not rare, so that windows have ties. */
static float number(int64_t i, uint64_t salt)
{
  uint64_t bits = (uint64_t)(i + 1) * UINT64_C(0x9E3779B97F4A7C15) + salt;
  bits = (bits ^ bits >> 31) * UINT64_C(0xBF58476D1CE4E5B9);
  return (float)((int)(bits >> 40) % 23 - 11) / 8;
}

static float *numbers(int64_t count, uint64_t salt)
{
  float *x = calloc((size_t)count, sizeof *x);
  CHECK(x);
  for (int64_t i = 0; i < count; i++) x[i] = number(i, salt);
  return x;
}

typedef struct job {
  tsr_array *(*make)(tsr_array *x, tsr_array *f, const sizes *p);
  const sizes *p;
} job;

static tsr_array *weighed(tsr_scope *s, tsr_array *const *in, void *user)
{
  const job *j = user;
  (void)s;
  return tsr_sum(tsr_mul(j->make(in[0], in[1], j->p), in[2]));
}

/* The slope by x, where `due` comes to what is made of it. */
static void check_slope(tsr_runtime *rt, const job *j, const char *on, float *const in[3],
                        tsr_shape due, const float *expected)
{
  const sizes *p = j->p;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *x = tsr_put(s, in[0], TSR_F32, TSR_SHAPE(p->n, p->h, p->w, p->c), tsr_on(mesh, on));
  tsr_array *f =
      tsr_put(s, in[1], TSR_F32, TSR_SHAPE(p->down, p->across, p->c, 3), (tsr_sharding){ 0 });
  tsr_array *d = tsr_put(s, in[2], TSR_F32, due, (tsr_sharding){ 0 });
  tsr_function *slope = tsr_grad(tsr_function_make(s, weighed, .user = (void *)j));
  int64_t count = p->n * p->h * p->w * p->c;
  float *found = calloc((size_t)count, sizeof *found);
  CHECK(found);
  CHECK_STATUS(tsr_read(tsr_call(slope, x, f, d), found, (size_t)count * sizeof *found), TSR_OK, s);
  for (int64_t i = 0; i < count; i++)
    if (found[i] != expected[i])
      FAIL("[%d,%d,%d,%d] in windows of %d by %d on \"%s\" at %lld: found %a, expected %a",
           (int)p->n, (int)p->h, (int)p->w, (int)p->c, (int)p->down, (int)p->across, on,
           (long long)i, (double)found[i], (double)expected[i]);
  free(found);
  tsr_scope_close(s);
}

static void check_everywhere(const job *j, float *const in[3], tsr_shape due, const float *expected)
{
  static const char *const on[] = { "x,-,-,-", "-,x,-,-", "-,-,x,-" };
  tsr_runtime *one = tsr_runtime_open("cpu:1", .threads = 2);
  check_slope(one, j, "-,-,-,-", in, due, expected);
  tsr_runtime_close(one);
  tsr_runtime *four = tsr_runtime_open("cpu:4", .threads = 2);
  for (int i = 0; i < 3; i++) check_slope(four, j, on[i], in, due, expected);
  tsr_runtime_close(four);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static tsr_array *pooled(tsr_array *x, tsr_array *f, const sizes *p)
{
  (void)f;
  return tsr_max_pool(x, .window = { p->down, p->across });
}

/* The first of the largest of a window has all that is due to it. */
static void pool_back(const sizes *p, const float *x, const float *due, float *out)
{
  int64_t high = p->h / p->down, wide = p->w / p->across;
  for (int64_t i = 0; i < p->n * high * wide * p->c; i++) {
    int64_t c = i % p->c, column = i / p->c % wide, row = i / p->c / wide % high;
    int64_t n = i / p->c / wide / high, best = -1;
    for (int64_t v = 0; v < p->down; v++)
      for (int64_t u = 0; u < p->across; u++) {
        int64_t at = row * p->down + v, along = column * p->across + u;
        int64_t place = ((n * p->h + at) * p->w + along) * p->c + c;
        if (best < 0 || x[place] > x[best]) best = place;
      }
    out[best] += due[i];
  }
}

TEST_TIMEOUT(of_a_window_the_first_of_the_largest_has_the_slope, 120)
{
  static const sizes all[] = {
    { 4, 8, 8, 32, 2, 2 },  { 5, 9, 7, 3, 2, 2 },   { 4, 12, 12, 16, 3, 2 }, { 2, 6, 40, 5, 1, 4 },
    { 3, 16, 16, 1, 2, 2 }, { 4, 7, 10, 64, 3, 3 }, { 1, 2, 2, 7, 2, 2 },    { 2, 4, 4, 300, 2, 2 },
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const sizes *p = &all[i];
    tsr_shape due = TSR_SHAPE(p->n, p->h / p->down, p->w / p->across, p->c);
    float *in[3] = { numbers(p->n * p->h * p->w * p->c, 1),
                     numbers(p->down * p->across * p->c * 3, 2),
                     numbers(due.dims[0] * due.dims[1] * due.dims[2] * due.dims[3], 3) };
    float *expected = calloc((size_t)(p->n * p->h * p->w * p->c), sizeof *expected);
    CHECK(expected);
    pool_back(p, in[0], in[2], expected);
    check_everywhere(&(job){ pooled, p }, in, due, expected);
    for (int k = 0; k < 3; k++) free(in[k]);
    free(expected);
  }
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static tsr_array *same(tsr_array *x, tsr_array *f, const sizes *p)
{
  (void)p;
  return tsr_conv(x, f, .same = true);
}

/* Numbers are small enough for f32 to hold all sums. */
static void same_back(const sizes *p, const float *f, const float *due, float *out)
{
  int64_t low = (p->down - 1) / 2, left = (p->across - 1) / 2;
  for (int64_t i = 0; i < p->n * p->h * p->w * 3; i++) {
    int64_t o = i % 3, column = i / 3 % p->w, row = i / 3 / p->w % p->h, n = i / 3 / p->w / p->h;
    for (int64_t v = 0; v < p->down; v++)
      for (int64_t u = 0; u < p->across; u++) {
        int64_t y = row + v - low, x = column + u - left;
        if (y < 0 || y >= p->h || x < 0 || x >= p->w) continue;
        for (int64_t c = 0; c < p->c; c++)
          out[((n * p->h + y) * p->w + x) * p->c + c] +=
              due[i] * f[((v * p->across + u) * p->c + c) * 3 + o];
      }
  }
}

TEST_TIMEOUT(borders_of_windows_have_no_slope_to_give, 120)
{
  static const sizes all[] = {
    { 4, 8, 8, 32, 3, 3 },
    { 5, 9, 7, 3, 2, 3 },
    { 4, 6, 6, 16, 5, 1 },
    { 4, 5, 5, 1, 4, 4 },
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const sizes *p = &all[i];
    tsr_shape due = TSR_SHAPE(p->n, p->h, p->w, 3);
    float *in[3] = { numbers(p->n * p->h * p->w * p->c, 1),
                     numbers(p->down * p->across * p->c * 3, 2),
                     numbers(p->n * p->h * p->w * 3, 3) };
    float *expected = calloc((size_t)(p->n * p->h * p->w * p->c), sizeof *expected);
    CHECK(expected);
    same_back(p, in[1], in[2], expected);
    check_everywhere(&(job){ same, p }, in, due, expected);
    for (int k = 0; k < 3; k++) free(in[k]);
    free(expected);
  }
}
