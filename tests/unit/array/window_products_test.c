/* Convolutions of shapes whose rows are read where they lie, and gradients of their filters: the
 * chains of fused products that NUMERICS.md promises, bit for bit. Runs at each ISA. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

/* x [b, h, w, in] by f [down, across, in, out]. */
typedef struct windows {
  int64_t b, h, w, in, down, across, out;
} windows;

/* Few bits of mantissa less than there are, so that products round. */
static double number(int64_t i, uint64_t salt)
{
  uint64_t bits = (uint64_t)(i + 1) * UINT64_C(0x9E3779B97F4A7C15) + salt;
  bits = (bits ^ bits >> 31) * UINT64_C(0xBF58476D1CE4E5B9);
  return (double)(int64_t)(bits >> 12) * 0x1p-51 - 1;
}

static tsr_array *put(tsr_scope *s, tsr_shape shape, uint64_t salt, tsr_dtype dtype)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  double *x = calloc((size_t)count, sizeof *x);
  CHECK(x);
  for (int64_t i = 0; i < count; i++) x[i] = number(i, salt);
  tsr_array *a = tsr_put(s, x, TSR_F64, shape, (tsr_sharding){ 0 });
  free(x);
  a = tsr_cast(dtype == TSR_I32 ? tsr_mul(a, 1e6) : a, dtype);
  CHECK_STATUS(tsr_wait(a), TSR_OK, s);
  return a;
}

static double *read_all(tsr_scope *s, tsr_array *a, int64_t count)
{
  double *x = calloc((size_t)count, sizeof *x);
  CHECK(x);
  CHECK_STATUS(tsr_read(tsr_cast(a, TSR_F64), x, (size_t)count * sizeof *x), TSR_OK, s);
  return x;
}

/* A chain that goes on by x * y. */
static void step(double *sum, double x, double y, tsr_dtype dtype)
{
  if (dtype == TSR_F64) *sum = fma(x, y, *sum);
  else if (dtype == TSR_F32) *sum = fmaf((float)x, (float)y, (float)*sum);
  else *sum = (int32_t)((uint32_t)(int64_t)*sum + (uint32_t)(int64_t)x * (uint32_t)(int64_t)y);
}

static double begin(tsr_dtype dtype)
{
  return dtype == TSR_I32 ? 0 : -0.0;
}

static int64_t place(const windows *p, int64_t n, int64_t y, int64_t x, int64_t c)
{
  return ((n * p->h + y) * p->w + x) * p->in + c;
}

/* Element `i` of the convolution: of its window, then of the channels. */
static double shown(const windows *p, const double *x, const double *f, int64_t i, tsr_dtype dtype)
{
  int64_t o = i % p->out, wide = p->w - p->across + 1, high = p->h - p->down + 1;
  int64_t column = i / p->out % wide, row = i / p->out / wide % high, n = i / p->out / wide / high;
  double sum = begin(dtype);
  for (int64_t v = 0, k = 0; v < p->down; v++)
    for (int64_t u = 0; u < p->across; u++)
      for (int64_t c = 0; c < p->in; c++, k++)
        step(&sum, x[place(p, n, row + v, column + u, c)], f[k * p->out + o], dtype);
  return sum;
}

/* Element `i` of the filter's gradient, where `due` came to the convolution. */
static double carried(const windows *p, const double *x, const double *due, int64_t i,
                      tsr_dtype dtype)
{
  int64_t o = i % p->out, c = i / p->out % p->in, u = i / p->out / p->in % p->across;
  int64_t v = i / p->out / p->in / p->across, k = 0;
  double sum = begin(dtype);
  for (int64_t n = 0; n < p->b; n++)
    for (int64_t row = 0; row + p->down <= p->h; row++)
      for (int64_t column = 0; column + p->across <= p->w; column++, k++)
        step(&sum, x[place(p, n, row + v, column + u, c)], due[k * p->out + o], dtype);
  return sum;
}

typedef double expect_fn(const windows *p, const double *x, const double *y, int64_t i,
                         tsr_dtype dtype);

static void check_all(tsr_scope *s, const windows *p, tsr_array *const arrays[3], expect_fn *expect)
{
  double *values[3];
  int64_t counts[3];
  for (int a = 0; a < 3; a++) {
    tsr_shape shape = tsr_shape_of(arrays[a]);
    counts[a] = shape.dims[0] * shape.dims[1] * shape.dims[2] * shape.dims[3];
    values[a] = read_all(s, arrays[a], counts[a]);
  }
  for (int64_t i = 0; i < counts[2]; i++) {
    double expected = expect(p, values[0], values[1], i, tsr_dtype_of(arrays[2]));
    if (memcmp(&values[2][i], &expected, sizeof expected))
      FAIL("%s [%d,%d,%d,%d] by [%d,%d,%d] at %lld: found %a, expected %a",
           tsr_dtype_name(tsr_dtype_of(arrays[2])), (int)p->b, (int)p->h, (int)p->w, (int)p->in,
           (int)p->down, (int)p->across, (int)p->out, (long long)i, values[2][i], expected);
  }
  for (int a = 0; a < 3; a++) free(values[a]);
}

static tsr_array *weighed(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_mul(tsr_conv(in[0], in[1]), in[2]));
}

static void check_windows(tsr_scope *outer, const windows *p, tsr_dtype dtype)
{
  tsr_scope *s = tsr_scope_open(outer);
  int64_t high = p->h - p->down + 1, wide = p->w - p->across + 1;
  tsr_array *x = put(s, TSR_SHAPE(p->b, p->h, p->w, p->in), 1, dtype);
  tsr_array *f = put(s, TSR_SHAPE(p->down, p->across, p->in, p->out), 2, dtype);
  check_all(s, p, (tsr_array *[]){ x, f, tsr_conv(x, f) }, shown);
  if (dtype != TSR_I32) {
    tsr_array *due = put(s, TSR_SHAPE(p->b, high, wide, p->out), 3, dtype);
    tsr_function *slope = tsr_grad(tsr_function_make(s, weighed), .wrt = TSR_ARGS(1));
    check_all(s, p, (tsr_array *[]){ x, due, tsr_call(slope, x, f, due) }, carried);
  }
  tsr_scope_close(s);
}

/* Rows of windows by a few panels of columns: rows that are whole panels, or lack little or much of
 * one; columns that are whole panels or not; channels that are many, few or one. */
static const windows shapes[] = {
  { 2, 9, 9, 3, 3, 3, 32 },   { 3, 8, 8, 16, 3, 3, 40 },   { 1, 6, 20, 5, 1, 1, 64 },
  { 2, 7, 7, 1, 2, 3, 33 },   { 1, 3, 16, 2, 3, 3, 32 },   { 4, 10, 10, 32, 3, 3, 64 },
  { 1, 30, 30, 7, 5, 5, 8 },  { 2, 8, 12, 4, 3, 1, 130 },  { 8, 18, 18, 8, 3, 3, 32 },
  { 1, 5, 5, 300, 3, 3, 32 }, { 1, 6, 6, 1024, 2, 2, 16 }, { 2, 5, 1026, 1, 2, 3, 16 },
};

static void check_shapes(tsr_dtype dtype)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_windows(s, &shapes[i], dtype);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(f32_windows_are_chains_whatever_their_shape, 120)
{
  check_shapes(TSR_F32);
}

TEST_TIMEOUT(f64_windows_are_chains_whatever_their_shape, 120)
{
  check_shapes(TSR_F64);
}

TEST_TIMEOUT(i32_windows_wrap_whatever_their_shape, 120)
{
  check_shapes(TSR_I32);
}
