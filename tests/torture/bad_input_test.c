/* The library in hostile hands: missing pointers, shapes that overflow, texts that are nothing,
 * files that lie. Never a crash, always a status where there is one, and not a byte printed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/bad_input.h"

/* ---- NULL everywhere ---- */

static void nothing_but_null(void)
{
  tsr_runtime *rt = tsr_runtime_open_with(NULL, NULL);
  FAILS(tsr_runtime_status(rt));
  CHECK(strlen(tsr_runtime_message(rt)) > 0);
  tsr_scope *s = tsr_scope_open_at(rt, NULL);
  FAILS(tsr_scope_status(s));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  tsr_runtime_close(NULL);
  FAILS(tsr_runtime_status(NULL));
  CHECK(strlen(tsr_runtime_message(NULL)) > 0);
  CHECK_I64(tsr_device_count(NULL), 0);
  CHECK_STR(tsr_device_kind(NULL, 0), "");
  CHECK_I64(tsr_device_memory(NULL, 0).now, 0);
  CHECK(tsr_isa(NULL));

  s = tsr_scope_open_at(NULL, NULL);
  CHECK(s);
  FAILS(tsr_scope_status(s));
  FAILS(tsr_fail(s, TSR_EARG, "%s", "x"));
  tsr_scope_clear(s);
  CHECK_I64(tsr_scope_node_count(s), 0);
  tsr_scope_close(s);
  s = tsr_scope_nest_at(NULL, NULL);
  FAILS(tsr_scope_status(s));
  tsr_scope_close(s);
  tsr_scope_close(NULL);
  CHECK(tsr_message(NULL));
  tsr_scope_clear(NULL);
  CHECK_I64(tsr_scope_node_count(NULL), 0);
  FAILS(tsr_fail(NULL, TSR_EARG, "x"));
  CHECK(tsr_status_name((tsr_status)99) && tsr_status_text((tsr_status)-1));

  CHECK(!tsr_mesh_make(NULL, "x=1"));
  CHECK(!tsr_mesh_make_with(NULL, NULL));
  CHECK(!tsr_mesh_default(NULL, NULL));
  FAILS(tsr_mesh_status(NULL));
  CHECK(tsr_mesh_message(NULL) && tsr_mesh_text(NULL));
  CHECK_I64(tsr_mesh_axis_count(NULL), 0);
  CHECK(!tsr_mesh_axis_name(NULL, 0));
  CHECK_I64(tsr_mesh_axis_size(NULL, NULL), 0);
  CHECK_I64(tsr_mesh_device_count(NULL), 0);
  CHECK_I64(tsr_mesh_device(NULL, 0), -1);

  char text[64];
  tsr_box box;
  tsr_sharding none = tsr_on_with(NULL, NULL, NULL);
  tsr_sharding bad[] = { tsr_on_with(NULL, "x", NULL), tsr_on_dims(NULL, 3, NULL),
                         tsr_on_dims(NULL, -1, NULL), tsr_on_device(NULL, 0),
                         tsr_on_dims(NULL, 1, (const char *const[]){ NULL }) };
  CHECK(tsr_sharding_text(NULL, 1, text, sizeof text) >= 0);
  CHECK(tsr_sharding_text(&none, 1, NULL, 0) >= 0);
  CHECK(tsr_sharding_text(&none, -3, text, sizeof text) >= 0);
  CHECK(tsr_type_text((tsr_dtype)77, (tsr_shape){ .rank = 99 }, NULL, text, sizeof text) >= 0);
  CHECK(tsr_type_text(TSR_F32, TSR_SHAPE(1), NULL, NULL, 0) >= 0);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tsr_sharding_text(&bad[i], 8, text, sizeof text);
    tsr_sharding_text(&bad[i], 1000, text, 1);
    tsr_status status = tsr_shard_box(&bad[i], TSR_SHAPE(4), 0, &box);
    CHECK(status == TSR_OK || !bad[i].mesh || tsr_mesh_status(bad[i].mesh));
  }
  tsr_shard_box(NULL, TSR_SHAPE(4), 0, &box);
  FAILS(tsr_shard_box(&none, TSR_SHAPE(4), 0, NULL));
  FAILS(tsr_shard_box(&none, TSR_SHAPE(4), -1, &box));
  FAILS(tsr_shard_box(&none, (tsr_shape){ .rank = TSR_MAX_RANK + 1 }, 0, &box));
  FAILS(tsr_shard_box(&none, (tsr_shape){ .rank = -1 }, 0, &box));
  FAILS(tsr_shard_box(&none, TSR_SHAPE(-4), 0, &box));
  tsr_sharding_same(NULL, NULL, TSR_SHAPE(4));
  tsr_sharding_same(&none, NULL, TSR_SHAPE(4));
  tsr_sharding_same(&none, &none, (tsr_shape){ .rank = 100 });
  CHECK(tsr_dims_of(NULL, 3).invalid || !tsr_dims_of(NULL, 3).bits);
  tsr_dims_of((int[]){ 99, -99 }, 2);
  tsr_dims_of((int[]){ 1 }, -1);
}

/* Every call that makes arrays, with `a` and `b` for operands; what comes back goes to `check`. */
static void every_array_call(tsr_scope *s, tsr_array *a, tsr_array *b,
                             void (*check)(tsr_array *array, const char *call))
{
#define MADE(...) check((__VA_ARGS__), #__VA_ARGS__)
  tsr_array *(*const pairs[])(tsr_array *, tsr_operand, const char *) = {
    tsr_add_at,     tsr_sub_at,     tsr_mul_at, tsr_div_at, tsr_floordiv_at, tsr_mod_at,
    tsr_minimum_at, tsr_maximum_at, tsr_eq_at,  tsr_ne_at,  tsr_lt_at,       tsr_le_at,
    tsr_gt_at,      tsr_ge_at,      tsr_and_at, tsr_or_at,  tsr_xor_at,
  };
  tsr_array *(*const ones[])(tsr_array *, const char *) = {
    tsr_neg_at,   tsr_abs_at,  tsr_sqrt_at,  tsr_exp_at, tsr_log_at,
    tsr_log1p_at, tsr_rint_at, tsr_floor_at, tsr_not_at, tsr_isnan_at,
  };
  tsr_array *(*const reductions[])(const tsr_reduce_args *, const char *) = {
    tsr_sum_at, tsr_prod_at, tsr_mean_at, tsr_var_at,   tsr_std_at,    tsr_min_at,
    tsr_max_at, tsr_any_at,  tsr_all_at,  tsr_count_at, tsr_argmin_at, tsr_argmax_at,
  };
  tsr_sharding none = { 0 };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    MADE(pairs[i](a, tsr_operand_array(b), NULL));
    MADE(pairs[i](b, tsr_operand_array(a), NULL));
    if (!a) MADE(pairs[i](a, tsr_operand_int(1), NULL));
  }
  for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) MADE(ones[i](a, NULL));
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
    MADE(reductions[i](&(tsr_reduce_args){ .x = a }, NULL));
    MADE(reductions[i](&(tsr_reduce_args){ .x = a, .where = b }, NULL));
    MADE(reductions[i](&(tsr_reduce_args){ .x = a, .dims = TSR_DIMS(0), .keep_dims = true }, NULL));
  }
  MADE(tsr_cast_at(a, TSR_F32, NULL));
  MADE(tsr_where_at(a, tsr_operand_array(b), tsr_operand_int(1), NULL));
  MADE(tsr_where_at(a, tsr_operand_array(a), tsr_operand_array(b), NULL));
  MADE(tsr_where_at(b, tsr_operand_array(a), tsr_operand_array(a), NULL));
  MADE(tsr_take(a, b, 0));
  MADE(tsr_take(b, a, 0));
  MADE(tsr_take_along_dim(a, b, 0, .mode = TSR_INDEX_FILL));
  MADE(tsr_take_along_dim(b, a, -1));
  MADE(tsr_gather(a, { b }));
  MADE(tsr_gather(b, { a, b }, .mode = TSR_INDEX_CLAMP));
  MADE(tsr_scatter(a, b, a, 0));
  MADE(tsr_scatter(b, a, b, -1, .mode = TSR_INDEX_DROP));
  MADE(tsr_scatter(b, b, a, 3));
  MADE(tsr_scatter_nd(a, b, { a }));
  MADE(tsr_scatter_nd(b, a, { b, b }));
  MADE(tsr_select((tsr_array *[]){ a, b }, (tsr_array *[]){ b, a }, 2));
  MADE(tsr_compress(a, b, 3));
  MADE(tsr_nonzero(a, .count = 2));
  tsr_array *places[TSR_MAX_RANK];
  tsr_nonzero_dims(b, places, 3);
  MADE(tsr_searchsorted(a, b, true));
  MADE(tsr_digitize(a, b, false));
  MADE(tsr_isin(b, a));
  MADE(tsr_interp(a, b, a));
  MADE(tsr_unique(a, .count = 2).inverse);
  MADE(tsr_one_hot(a, 4, TSR_F16));
  MADE(tsr_bincount(a, 4, b));
  MADE(tsr_histogram(a, .edges = b, .density = true).counts);
  MADE(tsr_matmul_at(&(tsr_product_args){ .a = a, .b = b }, NULL));
  MADE(tsr_matmul_at(&(tsr_product_args){ .a = b, .b = a, .dtype = (tsr_dtype)77 }, NULL));
  MADE(tsr_dot_at(&(tsr_product_args){ .a = a, .b = b }, NULL));
  MADE(tsr_inner_at(&(tsr_product_args){ .a = b, .b = a }, NULL));
  MADE(tsr_outer_at(&(tsr_product_args){ .a = a, .b = a }, NULL));
  MADE(tsr_tensordot_at(&(tsr_tensordot_args){ .a = a, .b = b, .count = 3 }, NULL));
  MADE(tsr_tensordot_at(&(tsr_tensordot_args){ .a = b, .b = a, .count = -1 }, NULL));
  MADE(tsr_trace_at(&(tsr_trace_args){ .x = a, .offset = INT64_MAX }, NULL));
  MADE(tsr_trace_at(&(tsr_trace_args){ .x = b, .dims = { 9, -9 } }, NULL));
  MADE(tsr_conv_at(&(tsr_conv_args){ .x = a, .kernel = b }, NULL));
  MADE(tsr_reduce_window_at(&(tsr_window_args){ .x = a, .window = { INT64_MAX } }, NULL));
  MADE(tsr_max_pool_at(&(tsr_pool_args){ .x = a }, NULL));
  MADE(tsr_avg_pool_at(&(tsr_pool_args){ .x = b, .window = { -1 } }, NULL));
  MADE(tsr_einsum_at(
      &(tsr_einsum_args){ .text = "i,j", .arrays = (tsr_array *[]){ a, b }, .count = 2 }, NULL));
  MADE(tsr_einsum_at(&(tsr_einsum_args){ .text = NULL, .arrays = (tsr_array *[]){ b }, .count = 1 },
                     NULL));
  MADE(tsr_cumsum_at(&(tsr_scan_args){ .size = sizeof(tsr_scan_args), .x = a }, NULL));
  MADE(tsr_cumsum_at(&(tsr_scan_args){ .x = a, .dim = -9 }, NULL));
  MADE(tsr_cumprod_at(&(tsr_scan_args){ .x = a, .dim = 1 }, NULL));
  MADE(tsr_cummax_at(&(tsr_scan_args){ .x = a, .reverse = true }, NULL));
  MADE(tsr_nancumsum_at(&(tsr_scan_args){ .x = a, .dim = -1 }, NULL));
  MADE(tsr_sort_at(&(tsr_sort_args){ .x = a, .descending = true }, NULL));
  MADE(tsr_argsort_at(&(tsr_sort_args){ .x = a, .dim = 9 }, NULL));
  MADE(tsr_top_k_at(a, -1, 0, NULL));
  MADE(tsr_arg_top_k_at(a, INT64_MAX, -1, NULL));
  MADE(tsr_partition_at(a, INT64_MIN, 0, NULL));
  MADE(tsr_lexsort_at((tsr_array *const[]){ a, b }, 2, -1, NULL));
  MADE(tsr_lexsort_at(NULL, 1, 0, NULL));
  MADE(tsr_slice_at(a, &(tsr_range){ 1, TSR_END, 0 }, 1, NULL));
  MADE(tsr_slice_at(a, NULL, 0, NULL));
  MADE(tsr_transpose_at(a, NULL, 0, NULL));
  MADE(tsr_flip_at(a, TSR_DIMS(0), NULL));
  MADE(tsr_broadcast_to_at(a, TSR_SHAPE(2, 2), NULL));
  MADE(tsr_pad_at(&(tsr_pad_args){ .x = a, .low = { 1 } }, NULL));
  MADE(tsr_concat_at((tsr_array *[]){ a, b }, 2, 0, NULL));
  MADE(tsr_concat_at((tsr_array *[]){ b, a }, 2, 0, NULL));
  MADE(tsr_reshard_at(a, none, NULL));
  MADE(tsr_constrain_at(a, none, NULL));
  MADE(tsr_keep_at(s, a, NULL));
  MADE(tsr_keep_at(NULL, a, NULL));
#undef MADE
}

/* Every way to make an array of nothing, with one thing missing. */
static void every_source_fails(tsr_scope *s)
{
  float data[4] = { 0 };
  tsr_sharding none = { 0 };
  tsr_random_args random = { .shape = TSR_SHAPE(4), .dtype = (tsr_dtype)99 };
  is_inert(tsr_put_at(s, NULL, TSR_F32, TSR_SHAPE(4), none, NULL), "put NULL");
  is_inert(tsr_put_at(s, data, (tsr_dtype)0, TSR_SHAPE(4), none, NULL), "put no dtype");
  is_inert(tsr_put_at(s, data, (tsr_dtype)99, TSR_SHAPE(4), none, NULL), "put odd dtype");
  is_inert(tsr_put_at(NULL, data, TSR_F32, TSR_SHAPE(4), none, NULL), "put nowhere");
  is_inert(tsr_adopt_at(s, NULL, NULL), "adopt NULL");
  is_inert(tsr_adopt_at(s, &(tsr_adopt_args){ 0 }, NULL), "adopt nothing");
  is_inert(tsr_adopt_at(NULL, &(tsr_adopt_args){ 0 }, NULL), "adopt nowhere");
  is_inert(tsr_from_shards_at(s, NULL, NULL), "from_shards NULL");
  is_inert(tsr_from_shards_at(s, &(tsr_shards_args){ 0 }, NULL), "from_shards nothing");
  is_inert(tsr_from_shards_at(s,
                              &(tsr_shards_args){ .shards = (const void *const[]){ NULL },
                                                  .count = 1,
                                                  .dtype = TSR_F32,
                                                  .shape = TSR_SHAPE(4) },
                              NULL),
           "from_shards of NULL");
  is_inert(tsr_num_at(NULL, tsr_scalar_int(1), NULL), "number nowhere");
  is_inert(tsr_num_at(s, (tsr_scalar){ .kind = (tsr_scalar_kind)99 }, NULL), "number of no kind");
  is_inert(tsr_full_at(NULL, tsr_operand_int(1), TSR_F32, TSR_SHAPE(4), none, NULL), "full");
  is_inert(tsr_full_at(s, tsr_operand_int(1), (tsr_dtype)42, TSR_SHAPE(4), none, NULL), "full");
  is_inert(tsr_full_at(s, tsr_operand_array(NULL), TSR_F32, TSR_SHAPE(4), none, NULL), "full");
  is_inert(tsr_iota_at(NULL, TSR_F32, TSR_SHAPE(4), 0, none, NULL), "iota nowhere");
  is_inert(tsr_iota_at(s, TSR_F32, TSR_SHAPE(4), 1, none, NULL), "iota of dim 1 of 1");
  is_inert(tsr_iota_at(s, TSR_F32, TSR_SHAPE(4), -1, none, NULL), "iota of dim -1");
  is_inert(tsr_iota_at(s, TSR_F32, TSR_SCALAR, 0, none, NULL), "iota of a scalar");
  is_inert(tsr_iota_at(s, (tsr_dtype)-1, TSR_SHAPE(4), 0, none, NULL), "iota of no dtype");
  is_inert(tsr_uniform_at(s, NULL, NULL), "uniform NULL");
  is_inert(tsr_uniform_at(s, &random, NULL), "uniform of no dtype");
  is_inert(tsr_uniform_at(NULL, &random, NULL), "uniform nowhere");
  is_inert(tsr_exponential_at(s, 1, NULL, NULL), "exponential NULL");
  is_inert(tsr_poisson_at(s, tsr_operand_int(1), NULL, NULL), "poisson NULL");
  random.dtype = TSR_F64;
  const double scales[] = { 0, -1, NAN, INFINITY, -INFINITY };
  for (int i = 0; i < 5; i++)
    is_inert(tsr_exponential_at(s, scales[i], &random, NULL), "exponential of a bad scale");
  random.dtype = TSR_I64;
  const double rates[] = { -1, -1e-9, NAN, INFINITY, 1e5 };
  for (int i = 0; i < 5; i++)
    is_inert(tsr_poisson_at(s, tsr_operand_float(rates[i]), &random, NULL),
             "poisson of a bad rate");
  is_inert(tsr_load_npy_at(s, NULL, none, NULL), "npy NULL");
  is_inert(tsr_load_npy_at(NULL, "x.npy", none, NULL), "npy nowhere");
}

static void arrays_of_null(void)
{
  float data[4] = { 1, 2, 3, 4 };
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, data, TSR_F32, TSR_SHAPE(4), tsr_on(tsr_mesh_default(rt, "d"), "d"));
  every_array_call(s, NULL, x, is_inert);
  every_array_call(s, NULL, NULL, is_inert);
  every_array_call(NULL, NULL, NULL, is_inert);
  every_array_end_fails(NULL);
  FAILS(tsr_eval(NULL, 3));
  FAILS(tsr_eval(&x, -1));
  CHECK(tsr_explain(NULL, 1) && tsr_explain(&x, 0) && tsr_explain(&x, -1));
  FAILS(tsr_read(x, NULL, 16));
  FAILS(tsr_read(x, data, 15));
  FAILS(tsr_read(x, data, 0));
  FAILS(tsr_read_scalar(tsr_sum(x), NULL));
  FAILS(tsr_read_i64(tsr_count(x), NULL));
  FAILS(tsr_read_scalar(x, &(double){ 0 }));
  FAILS(tsr_read_i64(tsr_sum(x), &(int64_t){ 0 }));
  FAILS(tsr_shard_view(x, 0, NULL));
  FAILS(tsr_shard_view(x, 3, &(tsr_shard){ 0 }));
  FAILS(tsr_shard_view(x, -1, &(tsr_shard){ 0 }));
  FAILS(tsr_save_npy(x, NULL));
  FAILS(tsr_save_npy(x, ""));
  tsr_last_run(NULL);
  every_source_fails(s);
  tsr_scope_clear(s);
  every_source_fails(NULL);
  CHECK_STATUS(tsr_read(tsr_add(x, 0), data, sizeof data), TSR_OK, s);
  CHECK_F32_BITS(data[3], 4);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- after an error ---- */

static void inert_arrays(void)
{
  float data[4] = { 1, 2, 3, 4 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt), *inner = tsr_scope_open(s);
  tsr_array *x = tsr_put(s, data, TSR_F32, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_array *bad = tsr_sub(x, tsr_put(inner, data, TSR_F32, TSR_SHAPE(3), (tsr_sharding){ 0 }));
  CHECK(tsr_is_inert(bad));
  CHECK_STATUS(tsr_scope_status(inner), TSR_ESHAPE, NULL);
  char *first = strdup(tsr_message(inner));
  every_array_call(inner, bad, x, is_inert);
  every_array_call(s, bad, bad, is_inert);
  every_array_end_fails(bad);
  CHECK_STR(tsr_message(inner), first);
  tsr_scope_close(inner);
  free(first);

  /* Runtimes that could not be opened, and scopes on nothing: inert from the start. */
  tsr_runtime *shut = tsr_runtime_open("gpu:many");
  tsr_scope *scopes[] = { tsr_scope_open(shut), tsr_scope_open((tsr_runtime *)NULL),
                          tsr_scope_open((tsr_scope *)NULL) };
  for (int i = 0; i < 3; i++) {
    tsr_array *none = tsr_num(scopes[i], 1);
    tsr_frame *df = tsr_frame_read_csv(scopes[i], "x.csv");
    every_source_fails(scopes[i]);
    every_array_call(scopes[i], none, none, is_inert);
    every_array_call(scopes[i], none, x, is_inert);
    every_array_end_fails(none);
    CHECK(tsr_frame_is_inert(df));
    tsr_scope_close(scopes[i]);
  }
  tsr_runtime_close(shut);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- strangers ---- */

static void count_release(void *data, void *user)
{
  (void)data;
  ++*(int *)user;
}

TEST(adopted_memory_is_released_once_whatever_happens)
{
  _Alignas(64) static float data[16];
  int released = 0;
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_adopt_args args = { .data = data,
                          .dtype = TSR_F32,
                          .shape = TSR_SHAPE(-16),
                          .release = count_release,
                          .user = &released };
  is_inert(tsr_adopt_at(s, &args, NULL), "adopt of a bad shape");
  CHECK_I64(released, 1);
  args.shape = TSR_SHAPE(15);
  args.on = tsr_on(tsr_mesh_default(rt, "d"), "d", .strict = true);
  is_inert(tsr_adopt_at(s, &args, NULL), "adopt of an uneven shape");
  CHECK_I64(released, 2);
  is_inert(tsr_adopt_at(NULL, &args, NULL), "adopt nowhere");
  CHECK_I64(released, 3);
  tsr_scope_clear(s);
  args.on = (tsr_sharding){ 0 };
  CHECK(!tsr_is_inert(tsr_adopt_at(s, &args, NULL)));
  CHECK_I64(released, 3);
  tsr_scope_close(s);
  CHECK_I64(released, 4);
  tsr_runtime_close(rt);
}

TEST(arrays_of_two_runtimes_do_not_mix)
{
  tsr_runtime *rt[2] = { tsr_runtime_open("cpu:2"), tsr_runtime_open("cpu:2") };
  tsr_scope *s[2];
  tsr_array *x[2];
  for (int i = 0; i < 2; i++) {
    s[i] = tsr_scope_open(rt[i]);
    x[i] = tsr_iota(s[i], TSR_F64, TSR_SHAPE(4), 0, tsr_on(tsr_mesh_default(rt[i], "d"), "d"));
  }
  is_inert(tsr_add(x[0], x[1]), "add");
  CHECK_STR_HAS(tsr_message(s[0]), "another runtime");
  tsr_scope_clear(s[0]);
  is_inert(tsr_sum(x[0], .where = tsr_gt(x[1], 1)), "sum where");
  tsr_mesh *mesh = tsr_mesh_default(rt[1], "d");
  is_inert(tsr_put(s[0], &(float){ 1 }, TSR_F32, TSR_SHAPE(1), tsr_on(mesh, "d")), "put");
  is_inert(tsr_reshard(x[0], tsr_on(mesh, "-")), "reshard");
  is_inert(tsr_constrain(x[0], tsr_on(mesh, "-")), "constrain");
  is_inert(tsr_keep(s[1], x[0]), "keep");
  CHECK_STATUS(tsr_eval((tsr_array *[]){ x[1], x[0] }, 2), TSR_EARG, NULL);
  CHECK(strlen(tsr_explain((tsr_array *[]){ x[1], x[0] }, 2)) > 0);
  tsr_frame *df = tsr_frame_new(s[0], { "a", x[0] }, { "b", x[1] });
  CHECK(tsr_frame_is_inert(df));
  df = tsr_frame_new(s[1], { "a", x[0] });
  CHECK(tsr_frame_is_inert(df));
  tsr_frame *one = tsr_frame_new(s[0], { "a", x[0] }), *two = tsr_frame_new(s[1], { "a", x[1] });
  CHECK(tsr_frame_is_inert(tsr_frame_add(one, two)));
  for (int i = 0; i < 2; i++) {
    tsr_scope_close(s[i]);
    tsr_runtime_close(rt[i]);
  }
}

/* Neither scope lies in the other, so a result of both could outlive an operand. */
TEST(arrays_of_scopes_apart_do_not_mix)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *outer = tsr_scope_open(rt), *s[2] = { tsr_scope_open(outer), tsr_scope_open(rt) };
  tsr_sharding rows = tsr_on(tsr_mesh_default(rt, "d"), "d");
  tsr_array *x = tsr_iota(s[0], TSR_F64, TSR_SHAPE(4), 0, rows);
  tsr_array *y = tsr_iota(s[1], TSR_F64, TSR_SHAPE(4), 0, rows);
  is_inert(tsr_add(x, y), "add");
  is_inert(tsr_where(tsr_gt(x, 1), y, 0), "where");
  is_inert(tsr_sum(x, .where = tsr_gt(y, 1)), "sum");
  tsr_frame *a = tsr_frame_new(s[0], { "a", x }), *b = tsr_frame_new(s[1], { "a", y });
  CHECK(tsr_frame_is_inert(tsr_frame_new(s[0], { "a", x }, { "b", y })));
  CHECK(tsr_frame_is_inert(tsr_frame_add(a, b)));
  CHECK(tsr_frame_is_inert(tsr_frame_new(outer, { "a", y })));
  CHECK_STR_HAS(tsr_message(s[0]), "tsr_keep");
  tsr_scope_clear(s[0]);
  tsr_array *both = tsr_add(x, tsr_keep(outer, y));
  tsr_scope_close(s[1]);
  double out[4];
  CHECK_STATUS(tsr_read(both, out, sizeof out), TSR_OK, s[0]);
  CHECK_F64_BITS(out[3], 6);
  tsr_scope_close(outer);
  tsr_runtime_close(rt);
}

/* ---- shapes ---- */

TEST(shapes_that_overflow_are_errors)
{
  const int64_t big = INT64_MAX, half = INT64_MAX / 2 + 1, root = (int64_t)1 << 32;
  const tsr_shape shapes[] = {
    TSR_SHAPE(big),
    TSR_SHAPE(root, root),
    TSR_SHAPE(half, 4),
    TSR_SHAPE(-1),
    TSR_SHAPE(2, INT64_MIN),
    TSR_SHAPE(INT64_MIN, 0),
    TSR_SHAPE(root, root, 0),
    TSR_SHAPE(0, root, root),
    TSR_SHAPE(root, root, root, root, root, root, root, root),
    { .rank = -1 },
    { .rank = TSR_MAX_RANK + 1 },
    { .rank = INT32_MAX },
  };
  float data[4] = { 0 };
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_mesh *mesh = tsr_mesh_default(rt, "d");
  const tsr_sharding places[] = { { 0 }, tsr_on(mesh, "d"), tsr_on(mesh, "-") };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int p = 0; p < 3; p++) {
      tsr_scope *s = tsr_scope_open(rt);
      tsr_sharding at = places[p];
      tsr_random_args random = { .key = 1, .shape = shapes[i], .on = at };
      is_inert(tsr_put(s, data, TSR_F32, shapes[i], at), "put");
      CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
      is_inert(tsr_full(s, 1, TSR_F32, shapes[i], at), "full");
      is_inert(tsr_iota(s, TSR_F32, shapes[i], 0, at), "iota");
      is_inert(tsr_uniform_at(s, &random, NULL), "uniform");
      is_inert(tsr_exponential_at(s, 1, &random, NULL), "exponential");
      is_inert(tsr_poisson_at(s, tsr_operand_int(1), &random, NULL), "poisson");
      is_inert(tsr_adopt(s, data, TSR_F32, shapes[i], at, .user = NULL), "adopt");
      is_inert(tsr_from_shards(s, (const void *const[]){ data }, 1, TSR_F32, shapes[i], at),
               "from_shards");
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}

/* Broadcasting and take can make shapes that no operand has. */
TEST(results_that_overflow_are_errors)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .memory_limit = 1 << 20);
  tsr_scope *s = tsr_scope_open(rt);
  int64_t many = (int64_t)1 << 40;
  double out = 7;
  tsr_array *row = tsr_full(s, 1, TSR_F64, TSR_SHAPE(1, many), (tsr_sharding){ 0 });
  tsr_array *column = tsr_full(s, 1, TSR_F64, TSR_SHAPE(many, 1), (tsr_sharding){ 0 });
  tsr_array *sum = tsr_sum(tsr_add(row, column));
  CHECK(tsr_read_scalar(sum, &out) != TSR_OK && out == 7);
  CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
  tsr_scope_clear(s);

  tsr_array *index = tsr_full(s, 0, TSR_I64, TSR_SHAPE(many), (tsr_sharding){ 0 });
  is_inert(tsr_take(tsr_full(s, 1, TSR_F64, TSR_SHAPE(2, many), (tsr_sharding){ 0 }), index, 0),
           "take of 2^80 elements");
  CHECK_STATUS(tsr_scope_status(s), TSR_ESHAPE, s);
  tsr_scope_clear(s);

  /* Too much for the devices, not for arithmetic: a clear end at the terminal. */
  tsr_array *large = tsr_full(s, 1, TSR_F64, TSR_SHAPE(many), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_eval(&large, 1), TSR_ENOMEM, NULL);
  CHECK_STR_HAS(tsr_message(s), "memory");
  CHECK(!strstr(tsr_message(s), "(null)"));
  tsr_scope_clear(s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Every operation, reduction and question on one shape and placing. */
static void use_all(tsr_scope *s, tsr_shape shape, tsr_sharding at)
{
  int64_t count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  size_t bytes = (size_t)count * sizeof(double);
  double *data = calloc((size_t)count + 1, sizeof *data), *out = calloc((size_t)count + 1, 8);
  for (int64_t i = 0; i < count; i++) data[i] = (double)i + 1;
  tsr_array *x = tsr_put(s, data, TSR_F64, shape, at);
  tsr_array *y = tsr_full(s, 2, TSR_I64, shape, at), *mask = tsr_gt(x, 1);
  tsr_array *made[64];
  int n = 0;
  tsr_array *(*const pairs[])(tsr_array *, tsr_operand, const char *) = {
    tsr_add_at,     tsr_sub_at,     tsr_mul_at, tsr_div_at, tsr_floordiv_at, tsr_mod_at,
    tsr_minimum_at, tsr_maximum_at, tsr_eq_at,  tsr_ne_at,  tsr_lt_at,       tsr_ge_at,
  };
  tsr_array *(*const ones[])(tsr_array *,
                             const char *) = { tsr_neg_at,  tsr_abs_at,   tsr_sqrt_at,
                                               tsr_exp_at,  tsr_log_at,   tsr_log1p_at,
                                               tsr_rint_at, tsr_floor_at, tsr_isnan_at };
  tsr_array *(*const reductions[])(const tsr_reduce_args *, const char *) = {
    tsr_sum_at, tsr_prod_at,  tsr_mean_at, tsr_var_at, tsr_std_at,    tsr_any_at,
    tsr_all_at, tsr_count_at, tsr_min_at,  tsr_max_at, tsr_argmin_at, tsr_argmax_at,
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    made[n++] = pairs[i](x, tsr_operand_array(y), NULL);
  for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) made[n++] = ones[i](x, NULL);
  made[n++] = tsr_where(mask, x, y);
  made[n++] = tsr_cast(x, TSR_BOOL);
  made[n++] = tsr_reshard(x, (tsr_sharding){ .mesh = at.mesh });
  made[n++] = tsr_uniform(s, .key = 1, .shape = shape, .on = at);
  made[n++] = tsr_poisson(s, 3, .key = 1, .shape = shape, .on = at);
  if (shape.rank && shape.dims[0]) {
    made[n++] = tsr_take(x, tsr_full(s, 0, TSR_I64, TSR_SHAPE(0), (tsr_sharding){ 0 }), 0);
    if (shape.rank < TSR_MAX_RANK) made[n++] = tsr_take(x, tsr_num(s, -1), 0);
  }
  for (int i = 0; i < n; i++)
    if (tsr_is_inert(made[i])) FAIL("%d of rank %d: %s", i, shape.rank, tsr_message(s));
  CHECK_STATUS(tsr_eval(made, n), TSR_OK, s);
  CHECK_STATUS(tsr_read(made[0], out, bytes), TSR_OK, s);
  for (int64_t i = 0; i < count; i++) CHECK_F64_BITS(out[i], (double)i + 3);
  size_t kinds = sizeof reductions / sizeof *reductions;
  for (size_t i = 0; i < kinds - (count ? 0 : 4); i++) /* those that need one */
    for (int how = 0; how < 4; how++) {
      tsr_reduce_args args = { .x = x, .keep_dims = how & 1, .where = how & 2 ? mask : NULL };
      tsr_array *all = reductions[i](&args, NULL);
      args.dims = TSR_DIMS(-1);
      tsr_array *last = shape.rank ? reductions[i](&args, NULL) : all;
      CHECK_STATUS(tsr_eval((tsr_array *[]){ all, last }, 2), TSR_OK, s);
      CHECK(strlen(tsr_text_of(last)) > 0 && strlen(tsr_text_of(all)) > 0);
    }
  for (int i = 0; i < n; i++) {
    CHECK(strlen(tsr_text_of(made[i])) > 0);
    CHECK(strlen(tsr_type_of(made[i])) > 0 && tsr_devices_of(made[i]) && tsr_dump(made[i]));
  }
  int64_t least = 7;
  CHECK_STATUS(tsr_read_i64(tsr_count(x), &least), TSR_OK, s);
  CHECK_I64(least, count);
  CHECK_STATUS(tsr_save_npy(x, test_tmp("x.npy")), TSR_OK, s);
  tsr_array *again = tsr_load_npy(s, test_tmp("x.npy"), at);
  CHECK_STATUS(tsr_read(again, out, bytes), TSR_OK, s);
  CHECK_BYTES(out, data, bytes);
  free(data);
  free(out);
}

TEST_TIMEOUT(ranks_up_to_the_most_and_dims_of_0, 300)
{
  static const tsr_shape shapes[] = {
    { .rank = 0 },
    { 1, { 0 } },
    { 1, { 1 } },
    { 2, { 0, 3 } },
    { 2, { 3, 0 } },
    { 2, { 0, 0 } },
    { 3, { 2, 0, 5 } },
    { 8, { 1, 2, 1, 3, 1, 2, 1, 2 } },
    { 8, { 2, 1, 1, 0, 1, 2, 1, 2 } },
    { 8, { 0, 0, 0, 0, 0, 0, 0, 0 } },
    { TSR_MAX_RANK, { 2, 1, 1, 1, 3, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2 } },
    { TSR_MAX_RANK, { 2, 1, 1, 1, 0, 1, 2 } },
    { 8, { 1, 1, 1, 1, 1, 1, 1, 1 } },
  };
  static const char *const specs[] = { "-", "a", "a+b", "b,a" };
  tsr_runtime *rt = tsr_runtime_open("cpu:6");
  tsr_mesh *mesh = tsr_mesh_make(rt, "a=2,b=3");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int p = -1; p < 4; p++) {
      if (p > 0 && shapes[i].rank < (p == 3 ? 2 : 1)) continue;
      tsr_scope *s = tsr_scope_open(rt);
      use_all(s, shapes[i], p < 0 ? (tsr_sharding){ 0 } : tsr_on(mesh, specs[p]));
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}

TEST(the_least_of_nothing_is_an_error)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *none = tsr_full(s, 1, TSR_F64, TSR_SHAPE(3, 0), (tsr_sharding){ 0 });
  double out;
  is_inert(tsr_min(none), "min");
  CHECK_STR_HAS(tsr_message(s), "min");
  tsr_scope_clear(s);
  is_inert(tsr_max(none, .dims = TSR_DIMS(1)), "max");
  tsr_scope_clear(s);
  CHECK(!tsr_is_inert(tsr_max(none, .dims = TSR_DIMS(0))));
  is_inert(tsr_sum(none, .dims = TSR_DIMS(2)), "sum of dim 2");
  is_inert(tsr_sum(none, .dims = TSR_DIMS(-3)), "sum of dim -3");
  is_inert(tsr_sum(none, .dims = TSR_DIMS(99)), "sum of dim 99");
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_read_scalar(tsr_min(none, .where = tsr_gt(none, 0)), &out), TSR_OK, s);
  CHECK_F64_BITS(out, INFINITY);
  CHECK_STATUS(tsr_read_scalar(tsr_mean(none), &out), TSR_OK, s);
  CHECK(isnan(out));
  CHECK_STATUS(tsr_read_scalar(none, &out), TSR_ESHAPE, NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(deleted_arrays_through_everything)
{
  double out[4] = { 7 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_iota(s, TSR_F64, TSR_SHAPE(4), 0, tsr_on(tsr_mesh_default(rt, "d"), "d"));
  tsr_array *y = tsr_add(x, 1), *kept = tsr_frame_column(tsr_frame_new(s, { "a", x }), "a");
  tsr_frame *df = tsr_frame_new(s, { "a", x });
  CHECK(!tsr_is_inert(kept));
  tsr_delete(x);
  tsr_delete(x);
  every_array_call(s, x, y, is_inert);
  CHECK_STATUS(tsr_scope_status(s), TSR_ESTATE, s);
  CHECK_STATUS(tsr_read(x, out, sizeof out), TSR_ESTATE, NULL);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_ESTATE, NULL);
  CHECK(out[0] == 7);
  CHECK(tsr_type_of(x) && tsr_text_of(x) && tsr_devices_of(x) && tsr_dump(x) && tsr_explain(&x, 1));
  tsr_table *table = NULL;
  CHECK((tsr_frame_collect(df, &table) == TSR_OK) == !!table);
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_read(y, out, sizeof out), TSR_OK, s);
  CHECK_F64_BITS(out[3], 4);
  table = NULL;
  CHECK((tsr_frame_collect(df, &table) == TSR_OK) == !!table);
  CHECK_STATUS(tsr_read(kept, out, sizeof out), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- the tests ---- */

TEST(null_for_everything_of_base_and_topology)
{
  nothing_but_null();
}

TEST(null_for_everything_of_arrays)
{
  arrays_of_null();
}

TEST(inert_arrays_through_everything)
{
  inert_arrays();
}

/* The library prints nothing, whatever it is asked. */
TEST_TIMEOUT(nothing_is_printed, 300)
{
  check_silent(nothing_but_null);
  check_silent(arrays_of_null);
  check_silent(inert_arrays);
}
