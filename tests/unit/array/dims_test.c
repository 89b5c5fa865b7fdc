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

/* ---- as many dims as there can be ------------------------------------------------------------ */

/* 48 numbers over all dims that an array may have. */
static const tsr_shape full = { .rank = TSR_MAX_RANK,
                                .dims = { 1, 2, 1, 1, 3, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2 } };

static tsr_array *full_numbers(tsr_scope *s)
{
  return tsr_reshape(tsr_arange(s, .stop = 48, .dtype = TSR_F64), full);
}

/* Each call gives of the first dims of all what it gives of a matrix. */
TEST(calls_take_arrays_of_all_dims)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  const char *specs[TSR_MAX_RANK] = { [4] = "x", [15] = "y" };
  for (int i = 0; i < CALLS; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    bool shapes = calls[i].call == expand || calls[i].call == squeeze || calls[i].call == flip;
    tsr_array *x = full_numbers(s), *flat = tsr_reshape(x, TSR_SHAPE(6, 8));
    x = tsr_reshard(x, tsr_on_dims(mesh, TSR_MAX_RANK, specs));
    if (calls[i].call == expand) x = tsr_squeeze(x, TSR_DIMS(0));
    if (shapes) flat = tsr_reshape(x, TSR_SHAPE(48));
    tsr_dims dims = shapes ? TSR_DIMS(0) : TSR_DIMS(0, 1, 2, 3, 4);
    tsr_array *a = calls[i].call(x, dims), *b = shapes ? flat : calls[i].call(flat, TSR_DIMS(0));
    if (tsr_scope_status(s)) FAIL("%s: %s", calls[i].name, tsr_message(s));
    int64_t equal = 0;
    a = tsr_reshape(a, tsr_shape_of(b));
    CHECK_STATUS(tsr_read_i64(tsr_array_equal(a, b, .equal_nan = true), &equal), TSR_OK, s);
    if (!equal) FAIL("%s of all dims gives something else", calls[i].name);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

typedef tsr_array *beyond_fn(tsr_scope *s, tsr_array *x);

static tsr_array *beyond_expand(tsr_scope *s, tsr_array *x)
{
  (void)s;
  return tsr_expand_dims(x, TSR_DIMS(3));
}

static tsr_array *beyond_stack(tsr_scope *s, tsr_array *x)
{
  (void)s;
  return tsr_stack(((tsr_array *[]){ x, x }), 2, 0);
}

static tsr_array *beyond_take(tsr_scope *s, tsr_array *x)
{
  return tsr_take(x, tsr_full(s, 0, TSR_I64, TSR_SHAPE(1, 1), (tsr_sharding){ 0 }), 0);
}

static tsr_array *beyond_tensordot(tsr_scope *s, tsr_array *x)
{
  return tsr_tensordot(x, tsr_full(s, 1, TSR_F64, TSR_SHAPE(2), (tsr_sharding){ 0 }), 0);
}

static tsr_array *beyond_full(tsr_scope *s, tsr_array *x)
{
  tsr_shape more = full;
  (void)x;
  more.rank = TSR_MAX_RANK + 1;
  return tsr_full(s, 1, TSR_F64, more, (tsr_sharding){ 0 });
}

static tsr_array *beyond_reshape(tsr_scope *s, tsr_array *x)
{
  tsr_shape more = full;
  (void)s;
  more.rank = TSR_MAX_RANK + 1;
  return tsr_reshape(x, more);
}

static tsr_array *beyond_einsum(tsr_scope *s, tsr_array *x)
{
  tsr_shape nine = { .rank = 9, .dims = { 1, 1, 1, 1, 1, 1, 1, 1, 1 } };
  tsr_array *a = tsr_full(s, 1, TSR_F64, nine, (tsr_sharding){ 0 });
  (void)x;
  return tsr_einsum("abcdefghi,jklmnopqr->abcdefghijklmnopqr", a, a);
}

static tsr_array *beyond_one_hot(tsr_scope *s, tsr_array *x)
{
  (void)s;
  return tsr_one_hot(tsr_cast(x, TSR_I64), 3, TSR_F64);
}

static tsr_array *added(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_add(in[0], in[1]);
}

/* Elements of all dims: their results have one more, that which is mapped over. */
static tsr_array *beyond_map(tsr_scope *s, tsr_array *x)
{
  tsr_array *numbers = tsr_arange(s, .stop = 3, .dtype = TSR_F64);
  tsr_function *f = tsr_function_make(s, added);
  return tsr_call(tsr_vmap(f, .in_dims = { TSR_UNMAPPED, 0 }), x, numbers);
}

/* An array of all dims is one of elements of one less. */
static tsr_array *mapped_over(tsr_scope *s, tsr_array *x)
{
  tsr_function *f = tsr_function_make(s, added);
  return tsr_call(tsr_vmap(f, .in_dims = { 4, 4 }, .out_dims = { 4 }), x, x);
}

TEST(one_dim_more_is_refused)
{
  static const struct {
    const char *says;
    beyond_fn *call;
    tsr_status status;
  } rows[] = {
    { "tsr_expand_dims: ", beyond_expand, TSR_EARG },
    { "tsr_stack: ", beyond_stack, TSR_EARG },
    { "tsr_take: ", beyond_take, TSR_ESHAPE },
    { "tsr_tensordot: ", beyond_tensordot, TSR_ESHAPE },
    { "tsr_full: ", beyond_full, TSR_ESHAPE },
    { "tsr_reshape: ", beyond_reshape, TSR_ESHAPE },
    { "tsr_einsum: ", beyond_einsum, TSR_ESHAPE },
    { "tsr_one_hot: ", beyond_one_hot, TSR_EARG },
    { "tsr_add: ", beyond_map, TSR_ESHAPE },
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_array *a = rows[i].call(s, full_numbers(s));
    if (!tsr_is_inert(a)) FAIL("%s is not refused", rows[i].says);
    if (tsr_scope_status(s) != rows[i].status) FAIL("%s: %s", rows[i].says, tsr_message(s));
    CHECK_STR_HAS(tsr_message(s), rows[i].says);
    /* Indices are told how many they may have. */
    CHECK_STR_HAS(tsr_message(s), rows[i].call == beyond_one_hot ? "at most 15 dims" : "16");
    tsr_scope_clear(s);
  }
  tsr_array *x = full_numbers(s), *twice = mapped_over(s, x);
  int64_t equal = 0;
  CHECK_STATUS(tsr_read_i64(tsr_array_equal(twice, tsr_mul(x, 2)), &equal), TSR_OK, s);
  CHECK_I64(equal, 1);
  tsr_runtime_close(rt);
}
