/* Sets of dims: each once, or none at all, in every call that takes them. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include <tessera.h>

/* A call of x[2,3] and a set. */
typedef tsr_array *call_fn(tsr_array *x, tsr_dims dims);

#define CALL(name)                                           \
  static tsr_array *call_##name(tsr_array *x, tsr_dims dims) \
  {                                                          \
    return tsr_##name(x, .dims = dims);                      \
  }
CALL(sum)
CALL(prod)
CALL(mean)
CALL(var)
CALL(std)
CALL(min)
CALL(max)
CALL(argmin)
CALL(argmax)
CALL(any)
CALL(all)
CALL(count)
CALL(ptp)
CALL(norm)
CALL(logsumexp)
CALL(average)
CALL(quantile)
CALL(median)
CALL(percentile)
#undef CALL

static tsr_array *weighted(tsr_array *x, tsr_dims dims)
{
  return tsr_average(x, .dims = dims, .weights = tsr_full_like(x, 2));
}

static tsr_array *masked(tsr_array *x, tsr_dims dims)
{
  return tsr_sum(x, .dims = dims, .where = tsr_ge(x, 0), .skip_nan = true, .dtype = TSR_F64);
}

static tsr_array *flip(tsr_array *x, tsr_dims dims)
{
  return tsr_flip(x, dims);
}

static tsr_array *squeeze(tsr_array *x, tsr_dims dims)
{
  return tsr_squeeze(x, dims);
}

static tsr_array *expand(tsr_array *x, tsr_dims dims)
{
  return tsr_expand_dims(x, dims);
}

/* What NumPy gives of no dims, element by element: itself (v), 0, 1 or whether it is not 0 (t). */
static const struct {
  const char *name;
  call_fn *call;
  char each;
} calls[] = {
  { "tsr_sum", call_sum, 'v' },
  { "tsr_prod", call_prod, 'v' },
  { "tsr_mean", call_mean, 'v' },
  { "tsr_var", call_var, '0' },
  { "tsr_std", call_std, '0' },
  { "tsr_min", call_min, 'v' },
  { "tsr_max", call_max, 'v' },
  { "tsr_argmin", call_argmin, '0' },
  { "tsr_argmax", call_argmax, '0' },
  { "tsr_any", call_any, 't' },
  { "tsr_all", call_all, 't' },
  { "tsr_count", call_count, 't' },
  { "tsr_ptp", call_ptp, '0' },
  { "tsr_norm", call_norm, 'a' },
  { "tsr_logsumexp", call_logsumexp, 'v' },
  { "tsr_average", call_average, 'v' },
  { "tsr_quantile", call_quantile, 'v' },
  { "tsr_median", call_median, 'v' },
  { "tsr_percentile", call_percentile, 'v' },
  { "tsr_average", weighted, 'v' },
  { "tsr_sum", masked, 'p' },
  { "tsr_flip", flip, 'v' },
  { "tsr_squeeze", squeeze, 'v' },
  { "tsr_expand_dims", expand, 'v' },
};
enum { CALLS = sizeof calls / sizeof *calls };

static const double values[6] = { 3, -1, 0, 2, 5, -4 };

static double expected(char each, double v)
{
  switch (each) {
  case 'v': return v;
  case 'a': return v < 0 ? -v : v;
  case 'p': return v < 0 ? 0 : v;
  case 't': return v < 0 || v > 0;
  default: return 0;
  }
}

static void check_twice(tsr_scope *s, int i, tsr_array *x, tsr_dims dims)
{
  CHECK(tsr_is_inert(calls[i].call(x, dims)));
  CHECK(tsr_scope_status(s) == TSR_EARG);
  CHECK_STR_HAS(tsr_message(s), calls[i].name);
  tsr_scope_clear(s);
}

TEST(a_dim_twice_is_refused)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, values, TSR_F64, TSR_SHAPE(2, 3), (tsr_sharding){ 0 });
  for (int i = 0; i < CALLS; i++) {
    bool more = calls[i].call == expand; /* whose dims are those of the result */
    check_twice(s, i, x, TSR_DIMS(0, 0));
    check_twice(s, i, x, TSR_DIMS(-1, 1, -1));
    check_twice(s, i, x, more ? TSR_DIMS(0, -4) : TSR_DIMS(0, -2));
    check_twice(s, i, x, more ? TSR_DIMS(1, -3) : TSR_DIMS(-1, 0, 1));
    check_twice(s, i, x, TSR_DIMS(9));
  }
  CHECK(tsr_is_inert(tsr_transpose(x, 0, 0)) && tsr_is_inert(tsr_trace(x, .dims = { 1, 1 })));
  tsr_runtime_close(rt);
}

/* Also of as many dims as there can be, and of none. */
TEST(no_dims_leave_each_element)
{
  const tsr_shape shapes[] = { TSR_SHAPE(2, 3), TSR_SHAPE(6), TSR_SHAPE(1, 2, 1, 1, 3, 1, 1, 1) };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int n = 0; n < 3; n++)
    for (int i = 0; i < CALLS; i++)
      for (int k = 0; k < 2; k++) {
        tsr_scope *s = tsr_scope_open(rt);
        tsr_array *x = tsr_put(s, values, TSR_F64, shapes[n], (tsr_sharding){ 0 });
        tsr_array *out = calls[i].call(x, k ? TSR_NO_DIMS : tsr_dims_of(NULL, 0));
        double found[6];
        CHECK_STATUS(tsr_read(tsr_cast(out, TSR_F64), found, sizeof found), TSR_OK, s);
        CHECK_I64(tsr_shape_of(out).rank, shapes[n].rank);
        for (int e = 0; e < 6; e++) {
          double want = expected(calls[i].each, values[e]);
          CHECK(found[e] > want - 1e-12 && found[e] < want + 1e-12);
        }
        tsr_scope_close(s);
      }
  tsr_scope *s = tsr_scope_open(rt);
  CHECK_STR(tsr_text_of(tsr_sum(tsr_num(s, 3), .dims = TSR_NO_DIMS)), "3");
  CHECK_STR(tsr_text_of(tsr_sum(tsr_arange(s, .stop = 4), .dims = (tsr_dims){ 0 })), "6.0");
  CHECK(tsr_dims_of(NULL, 1).invalid && tsr_dims_of(NULL, -1).invalid);
  tsr_runtime_close(rt);
}

static tsr_array *square(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_sum(tsr_mul(in[0], in[1]));
}

TEST(arguments_of_a_gradient_are_named_once)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_arange(s, .stop = 3);
  tsr_function *f = tsr_function_make(s, square);
  tsr_grad(f, .wrt = TSR_ARGS(0, 0));
  CHECK_STR_HAS(tsr_message(s), "tsr_grad: .wrt names an argument twice");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_call(tsr_grad(f, .wrt = TSR_ARGS(0, -2)), x, x)));
  CHECK_STR_HAS(tsr_message(s), ".wrt names an argument twice");
  tsr_runtime_close(rt);
}
