/* Arrays as users meet them: the design's example, errors and their messages, lifetimes, views,
 * text as NumPy prints it, memory. Guards the devices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

TEST(the_first_example_gives_its_number)
{
  float data[64];
  double total = 0;
  for (int i = 0; i < 64; i++) data[i] = (float)i;
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, data, TSR_F32, TSR_SHAPE(8, 8), tsr_on(mesh, "x,y"));
  tsr_array *z = tsr_div(tsr_add(tsr_mul(x, 2), 1), tsr_mean(x));
  CHECK_STATUS(tsr_read_scalar(tsr_sum(z), &total), TSR_OK, s);
  float expected = 0;
  double exact = 0;
  for (int i = 0; i < 64; i++) exact += (double)(((float)i * 2 + 1) / 31.5f);
  expected = (float)exact;
  CHECK_F64_BITS(total, (double)expected);
  CHECK_STR(tsr_type_of(x), "f32[8,8]@(x,y)");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(first_error_is_kept_with_its_line)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  double data[64] = { 0 }, total = 42;
  tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(8, 8), tsr_on(mesh, "x,y"));
  tsr_array *b = tsr_put(s, data, TSR_F64, TSR_SHAPE(7), (tsr_sharding){ 0 });
  tsr_array *bad = tsr_add(a, b);
  CHECK(tsr_is_inert(bad));
  tsr_array *worse = tsr_sum(tsr_mul(bad, 2));
  CHECK(tsr_is_inert(worse));
  CHECK_STATUS(tsr_read_scalar(worse, &total), TSR_ESHAPE, NULL);
  CHECK_F64_BITS(total, 42);
  CHECK_STR_HAS(tsr_message(s), "array_test.c:");
  CHECK_STR_HAS(tsr_message(s), "TSR_ESHAPE: tsr_add");
  CHECK_STR_HAS(tsr_message(s), "f64[8,8]@(x,y)");
  CHECK_STR_HAS(tsr_message(s), "f64[7]");
  /* Unrelated work goes on. */
  CHECK_STATUS(tsr_read_scalar(tsr_sum(a), &total), TSR_OK, s);
  CHECK_F64_BITS(total, 0);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_status put_with(tsr_runtime *rt, tsr_dtype dtype, tsr_shape shape, tsr_sharding sharding,
                           const char *part)
{
  static double data[64];
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *a = tsr_put(s, data, dtype, shape, sharding);
  CHECK(tsr_is_inert(a));
  tsr_status status = tsr_scope_status(s);
  CHECK_STR_HAS(tsr_message(s), part);
  tsr_scope_close(s);
  return status;
}

TEST(bad_puts_say_what_is_wrong)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  tsr_sharding none = { 0 };
  CHECK_STATUS(put_with(rt, TSR_F64, TSR_SHAPE(8, 8), tsr_on(mesh, "x,z"), "x=2,y=4"), TSR_EAXIS,
               NULL);
  CHECK_STATUS(put_with(rt, TSR_F64, TSR_SHAPE(8), tsr_on(mesh, "x,y"), "names 2 dims"), TSR_ESHAPE,
               NULL);
  CHECK_STATUS(put_with(rt, TSR_F64, TSR_SHAPE(7), tsr_on(mesh, "x", .strict = true), "nearest"),
               TSR_ESHAPE, NULL);
  CHECK_STATUS(put_with(rt, (tsr_dtype)77, TSR_SHAPE(7), none, "77"), TSR_EDTYPE, NULL);
  CHECK_STATUS(put_with(rt, TSR_F64, TSR_SHAPE(-1), none, "-1"), TSR_ESHAPE, NULL);
  CHECK_STATUS(put_with(rt, TSR_F64, TSR_SHAPE(INT64_MAX, 4), none, "63 bits"), TSR_ESHAPE, NULL);
  CHECK_STATUS(put_with(rt, TSR_F64, TSR_SHAPE(INT64_MAX / 32), none, ""), TSR_ENOMEM, NULL);
  tsr_runtime_close(rt);
}

/* Calls that scripts/ops.py wrote, one of each family and those of functions. */
TEST(generated_calls_make_their_operation)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  double bits[3] = { 1, 2, 4 };
  tsr_array *x = tsr_put(s, bits, TSR_F64, TSR_SHAPE(3), (tsr_sharding){ 0 });
  CHECK_STR(tsr_text_of(tsr_neg(x)), "[-1. -2. -4.]");
  CHECK_STR(tsr_text_of(tsr_log2(x)), "[0. 1. 2.]");
  CHECK_STR(tsr_text_of(tsr_log10(tsr_pow(tsr_num(s, 10.0), x))), "[1. 2. 4.]");
  CHECK_STR(tsr_text_of(tsr_pow(x, 3)), "[ 1.  8. 64.]");
  CHECK_STR(tsr_text_of(tsr_pow(tsr_cast(x, TSR_I32), 3)), "[ 1  8 64]");
  CHECK_STR(tsr_text_of(tsr_ge(x, 2)), "[False  True  True]");
  tsr_array *zero = tsr_mul(x, 0);
  CHECK_STR(tsr_text_of(tsr_add(tsr_sin(zero), tsr_tan(zero))), "[0. 0. 0.]");
  CHECK_STR(tsr_text_of(tsr_add(tsr_cos(zero), tsr_tanh(zero))), "[1. 1. 1.]");
  CHECK_STR(tsr_text_of(tsr_prod(x, .keep_dims = true)), "[8.]");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(numbers_take_the_dtype_of_their_array)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding none = { 0 };
  tsr_array *i = tsr_iota(s, TSR_I64, TSR_SHAPE(3), 0, none);
  tsr_array *f = tsr_cast(i, TSR_F32);
  CHECK(tsr_dtype_of(tsr_mul(i, 2)) == TSR_I64);
  CHECK(tsr_dtype_of(tsr_mul(i, 2.5)) == TSR_F64);
  CHECK(tsr_dtype_of(tsr_mul(f, 2.5)) == TSR_F32);
  CHECK(tsr_dtype_of(tsr_add(i, f)) == TSR_F32);
  CHECK(tsr_dtype_of(tsr_div(i, 2)) == TSR_F64);
  int64_t big = 0;
  tsr_array *large = tsr_add(tsr_mul(tsr_sum(i), 0), INT64_C(9007199254740993));
  CHECK_STATUS(tsr_read_i64(large, &big), TSR_OK, s);
  CHECK_I64(big, INT64_C(9007199254740993));
  CHECK(tsr_is_inert(tsr_add(tsr_cast(i, TSR_I32), INT64_C(5000000000))));
  CHECK_STATUS(tsr_scope_status(s), TSR_EDTYPE, NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(zero_and_one_beside_bools_are_bools)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *bits = tsr_put(s, (uint8_t[]){ 1, 0, 1 }, TSR_BOOL, TSR_SHAPE(3), (tsr_sharding){ 0 });
  CHECK_STR(tsr_text_of(tsr_xor(bits, true)), "[False  True False]");
  CHECK_STR(tsr_text_of(tsr_and(bits, 0)), "[False False False]");
  CHECK_STR(tsr_text_of(tsr_eq(bits, 1)), "[ True False  True]");
  CHECK(tsr_dtype_of(tsr_or(bits, 2)) == TSR_I64); /* bit by bit */
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(what_comes_of_a_cleared_error_says_so)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *bad = tsr_full(s, 1, TSR_F64, TSR_SHAPE(-1), (tsr_sharding){ 0 });
  double x;
  tsr_scope_clear(s);
  CHECK_STATUS(tsr_read_scalar(bad, &x), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "whose error was cleared");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(a_full_array_is_like_another)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding at = tsr_on(tsr_mesh_default(rt, "x"), "x");
  tsr_array *x = tsr_full(s, 1.0, TSR_I16, TSR_SHAPE(10, 2), at);
  tsr_array *like = tsr_full_like(x, 7);
  CHECK_STR(tsr_type_of(like), "i16[10,2]@(x,-)");
  CHECK_STATUS(tsr_eval(&like, 1), TSR_OK, s);
  double total = 0;
  CHECK_STATUS(tsr_read_scalar(tsr_sum(like), &total), TSR_OK, s);
  CHECK_F64_BITS(total, 140);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(kept_values_outlive_their_scope)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *outer = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *x = tsr_full(outer, 1.0, TSR_F64, TSR_SHAPE(10), tsr_on(mesh, "x"));
  for (int step = 0; step < 20; step++) {
    tsr_scope *inner = tsr_scope_open(outer);
    tsr_array *next = tsr_mul(tsr_keep(inner, x), 2);
    x = tsr_keep(outer, next);
    tsr_scope_close(inner);
  }
  double total = 0;
  CHECK_STATUS(tsr_read_scalar(tsr_sum(x), &total), TSR_OK, outer);
  CHECK_F64_BITS(total, 10.0 * 1048576);
  tsr_scope_close(outer);
  tsr_runtime_close(rt);
}

TEST(a_deleted_array_serves_the_nodes_it_has_and_no_new_ones)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_full(s, 3.0, TSR_F64, TSR_SHAPE(1 << 20), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  tsr_array *sum = tsr_sum(x);
  tsr_delete(x);
  int64_t held = tsr_device_memory(rt, 0).now;
  CHECK(held >= 8 << 20);
  double total = 0;
  CHECK_STATUS(tsr_read_scalar(sum, &total), TSR_OK, s);
  CHECK_F64_BITS(total, 3.0 * (1 << 20));
  CHECK(tsr_device_memory(rt, 0).now < 8 << 20);
  CHECK(tsr_is_inert(tsr_add(x, 1)));
  CHECK_STATUS(tsr_scope_status(s), TSR_ESTATE, NULL);
  CHECK_STR_HAS(tsr_message(s), "deleted");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(shards_have_true_sizes_and_views_show_them)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *x = tsr_iota(s, TSR_I32, TSR_SHAPE(10), 0, tsr_on(mesh, "x"));
  static const int64_t sizes[] = { 3, 3, 2, 2 };
  int32_t next = 0;
  for (int p = 0; p < 4; p++) {
    tsr_shard shard;
    CHECK_STATUS(tsr_shard_view(x, p, &shard), TSR_OK, s);
    CHECK_I64(shard.device, p);
    CHECK_I64(shard.replica, 0);
    CHECK_I64(shard.box.size[0], sizes[p]);
    for (int64_t i = 0; i < shard.box.size[0]; i++)
      CHECK_I64(((const int32_t *)shard.data)[i], next++);
  }
  CHECK_STR(tsr_devices_of(x), "device 0: [0:3] 3 elements, 12 bytes\n"
                               "device 1: [3:6] 3 elements, 12 bytes\n"
                               "device 2: [6:8] 2 elements, 8 bytes\n"
                               "device 3: [8:10] 2 elements, 8 bytes\n");
  tsr_array *whole = tsr_reshard(x, tsr_on(mesh, "-"));
  tsr_shard shard;
  CHECK_STATUS(tsr_shard_view(whole, 3, &shard), TSR_OK, s);
  CHECK_I64(shard.replica, 3);
  CHECK_I64(((const int32_t *)shard.data)[9], 9);
  CHECK_STATUS(tsr_shard_view(whole, 4, &shard), TSR_EARG, NULL);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static void count_release(void *data, void *user)
{
  (void)data;
  ++*(int *)user;
}

TEST(adopted_buffers_are_released_once_and_from_shards_puts_together)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  double *data = aligned_alloc(64, 64 * sizeof(double)), total = 0;
  int released = 0, copied = 0;
  for (int i = 0; i < 64; i++) data[i] = i;
  tsr_array *a =
      tsr_adopt(s, data, TSR_F64, TSR_SHAPE(64), .release = count_release, .user = &released);
  tsr_array *b =
      tsr_adopt(s, data, TSR_F64, TSR_SHAPE(64), tsr_on(mesh, "x"), count_release, &copied);
  CHECK_I64(released, 0);
  CHECK_I64(copied, 1);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_add(a, b)), &total), TSR_OK, s);
  CHECK_F64_BITS(total, 2 * 2016.0);
  const int32_t first[] = { 1, 2, 3 }, second[] = { 4, 5 };
  const void *shards[] = { first, second };
  tsr_array *c = tsr_from_shards(s, shards, 2, TSR_I32, TSR_SHAPE(5), tsr_on(mesh, "x"));
  int32_t out[5];
  CHECK_STATUS(tsr_read(c, out, sizeof out), TSR_OK, s);
  for (int i = 0; i < 5; i++) CHECK_I64(out[i], i + 1);
  CHECK(tsr_is_inert(tsr_from_shards(s, shards, 1, TSR_I32, TSR_SHAPE(5), tsr_on(mesh, "x"))));
  CHECK_STR_HAS(tsr_message(s), "1 shards, expected 2");
  tsr_scope_close(s);
  CHECK_I64(released, 1);
  tsr_runtime_close(rt);
  CHECK_I64(released, 1);
  free(data);
}

/* ---- text as NumPy prints it ---- */

static tsr_dtype dtype_named(const char *name)
{
  for (int d = TSR_BOOL; d <= TSR_F64; d++)
    if (strcmp(tsr_dtype_name((tsr_dtype)d), name) == 0) return (tsr_dtype)d;
  FAIL("dtype %s", name);
}

static void store(void *out, tsr_dtype dtype, int64_t i, const char *text)
{
  double v = strtod(text, NULL);
  switch (dtype) {
  case TSR_F64: ((double *)out)[i] = v; break;
  case TSR_F32: ((float *)out)[i] = (float)v; break;
  case TSR_I64: ((int64_t *)out)[i] = strtoll(text, NULL, 10); break;
  case TSR_I32: ((int32_t *)out)[i] = (int32_t)v; break;
  default: ((uint8_t *)out)[i] = v != 0;
  }
}

TEST(arrays_print_as_numpy_prints_them)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  char *text = test_read(test_file("golden/print_values.txt"), NULL);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  int cases = 0;
  for (char *at = strstr(text, "--- "), *next; at; at = next, cases++) {
    next = strstr(at + 4, "\n--- ");
    if (next) *next++ = 0;
    char name[8] = "", dims[64] = "";
    char *values = strchr(at, '\n') + 1, *expected = strchr(values, '\n') + 1;
    values[-1] = expected[-1] = 0;
    sscanf(at + 4, "%7s %63s", name, dims);
    tsr_shape shape = { 0 };
    for (char *d = strtok(dims, ","); d; d = strtok(NULL, ","))
      shape.dims[shape.rank++] = strtoll(d, NULL, 10);
    double *data = malloc(strlen(values) * 8 + 8);
    int64_t count = 0;
    for (char *v = strtok(values, " "); v; v = strtok(NULL, " "))
      store(data, dtype_named(name), count++, v);
    size_t length = strlen(expected);
    if (length && expected[length - 1] == '\n') expected[length - 1] = 0;
    tsr_scope *s = tsr_scope_open(rt);
    tsr_sharding sharding = shape.rank ? tsr_on(mesh, "x") : (tsr_sharding){ 0 };
    tsr_array *a = tsr_put(s, data, dtype_named(name), shape, sharding);
    CHECK_STR(tsr_text_of(a), expected);
    tsr_scope_close(s);
    free(data);
  }
  CHECK_I64(cases, 41);
  free(text);
  tsr_runtime_close(rt);
}

/* ---- memory ---- */

TEST(devices_hold_their_shards_in_their_own_pools)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *x = tsr_full(s, 1.0, TSR_F64, TSR_SHAPE(400000), tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  for (int d = 0; d < 4; d++) {
    int64_t now = tsr_device_memory(rt, d).now;
    CHECK(now >= 800000 && now < 1100000);
  }
  tsr_scope_close(s);
  for (int d = 0; d < 4; d++) CHECK_I64(tsr_device_memory(rt, d).now, 0);
  CHECK(tsr_device_memory(rt, 0).peak >= 800000);
  tsr_runtime_close(rt);
}

TEST(past_the_memory_limit_is_a_clear_error)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .memory_limit = 1 << 20);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_full(s, 1.0, TSR_F64, TSR_SHAPE(1 << 20), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_eval(&x, 1), TSR_ENOMEM, NULL);
  CHECK_STR_HAS(tsr_message(s), "limit");
  tsr_scope_clear(s);
  tsr_array *small = tsr_full(s, 1.0, TSR_F64, TSR_SHAPE(1000), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_eval(&small, 1), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(the_plan_of_equal_formulas_is_made_once)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  for (int i = 0; i < 4; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    double total = 0;
    tsr_array *x = tsr_full(s, 2, TSR_F64, TSR_SHAPE(100), tsr_on(mesh, "x"));
    CHECK_STATUS(tsr_read_scalar(tsr_sum(tsr_mul(x, i + 0.5)), &total), TSR_OK, s);
    CHECK_F64_BITS(total, 200 * (i + 0.5));
    CHECK(tsr_last_run(s).cached == (i > 0));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(bad_devices_are_told_at_the_first_use)
{
  static const char *const bad[] = { "",       "cpu:",  "cpu:0",           "cpu:-1",
                                     "cpu:8x", "gpu:1", "cpu:99999999999", "cpu:4097" };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tsr_runtime *rt = tsr_runtime_open(bad[i]);
    CHECK(tsr_runtime_status(rt) != TSR_OK);
    CHECK(strlen(tsr_runtime_message(rt)) > 10);
    tsr_scope *s = tsr_scope_open(rt);
    double x = 1;
    tsr_array *a = tsr_put(s, &x, TSR_F64, TSR_SCALAR, (tsr_sharding){ 0 });
    CHECK(tsr_is_inert(a));
    CHECK(tsr_read_scalar(a, &x) != TSR_OK);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
}

/* A text or a status: the place is untouched where there is none, and the line is the caller's. */
TEST(texts_come_with_a_status)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  int32_t values[3] = { 1, 2, 3 };
  tsr_array *x = tsr_put(s, values, TSR_I32, TSR_SHAPE(3), tsr_on(NULL, NULL));
  const char *text = "as it was", *untouched = text;
  CHECK_STATUS(tsr_text_into(x, &text), TSR_OK, NULL);
  CHECK_STR(text, "[1 2 3]");
  CHECK_STATUS(tsr_devices_into(x, &text), TSR_OK, NULL);
  CHECK_STR(text, tsr_devices_of(x));
  x = tsr_add(x, 1);
  CHECK_STATUS(tsr_dump_into(x, &text), TSR_OK, NULL);
  CHECK_STR(text, tsr_dump(x));
  CHECK_STATUS(tsr_explain_into(&x, 1, &text), TSR_OK, NULL);
  CHECK_STR(text, tsr_explain(&x, 1));
  CHECK_STATUS(tsr_text_into(x, NULL), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "array_test.c");
  CHECK_STR_HAS(tsr_message(s), "tsr_text_into: the pointer for the text is NULL");
  tsr_scope_clear(s);
  text = untouched;
  tsr_array *bad = tsr_add(x, tsr_put(s, values, TSR_I32, TSR_SHAPE(2), tsr_on(NULL, NULL)));
  CHECK_STATUS(tsr_text_into(bad, &text), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_devices_into(bad, &text), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_dump_into(bad, &text), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_explain_into(&bad, 1, &text), TSR_ESHAPE, NULL);
  CHECK(text == untouched);
  CHECK_STATUS(tsr_text_into(NULL, &text), TSR_EARG, NULL);
  CHECK_STATUS(tsr_explain_into(NULL, 1, &text), TSR_EARG, NULL);
  tsr_runtime_close(rt);
}

/* One mask for values on a mesh and on none, in one program: each mean finds its own count. */
TEST(counts_of_a_mask_are_those_of_their_mesh)
{
  static const double x[4] = { 1, 2, 3, 4 };
  static const bool m[4] = { true, false, true, true };
  static const char *const meshes[] = { "x=1", "x=2" };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int i = 0; i < 8; i++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_make(rt, meshes[i % 2]);
    tsr_sharding none = { 0 }, some = tsr_on(mesh, i & 2 ? "x" : "-");
    tsr_array *mask = tsr_put(s, m, TSR_BOOL, TSR_SHAPE(4), none);
    tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(4), i & 4 ? none : some);
    tsr_array *b = tsr_put(s, x, TSR_F64, TSR_SHAPE(4), some);
    tsr_array *all[] = { tsr_mean(a, .where = mask), tsr_mean(tsr_add(a, b), .where = mask),
                         tsr_var(b, .where = mask), tsr_cast(tsr_count(mask), TSR_F64) };
    const double expected[] = { 8.0 / 3, 16.0 / 3, 14.0 / 9, 3 };
    CHECK_STATUS(tsr_eval(all, 4), TSR_OK, s);
    for (int k = 0; k < 4; k++) {
      double found = 0;
      CHECK_STATUS(tsr_read(all[k], &found, sizeof found), TSR_OK, s);
      CHECK_F64_BITS(found, expected[k]);
    }
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

/* ---- failures are told where they are met ---- */

static const char *met(tsr_scope *here, tsr_status status)
{
  CHECK(status != TSR_OK);
  CHECK_I64(tsr_scope_status(here), status);
  return tsr_message(here);
}

/* Every terminal of an array that a call in an outer scope left inert: the inner scope, which the
 * terminal's errors are told to, has the words of the first error. */
TEST(inner_scopes_are_told_why_an_array_is_inert)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_arange(s, .stop = 6), *bad = tsr_sum(x, .dims = TSR_DIMS(3));
  double out[6];
  int64_t whole;
  const char *text;
  tsr_shard shard;
  CHECK(tsr_is_inert(bad));
  for (int i = 0; i < 9; i++) {
    tsr_scope *here = tsr_scope_open(s);
    tsr_array *y = i % 2 ? tsr_add(bad, 1) : tsr_mul(x, bad);
    tsr_status status = i == 0   ? tsr_read(y, out, sizeof *out)
                        : i == 1 ? tsr_read_scalar(y, out)
                        : i == 2 ? tsr_read_i64(y, &whole)
                        : i == 3 ? tsr_eval(&y, 1)
                        : i == 4 ? tsr_start(&y, 1)
                        : i == 5 ? tsr_wait(y)
                        : i == 6 ? tsr_text_into(y, &text)
                        : i == 7 ? tsr_devices_into(y, &text)
                                 : tsr_shard_view(y, 0, &shard);
    CHECK_STR(met(here, status), tsr_message(s));
    CHECK_STR_HAS(tsr_message(here), "array_test.c");
    CHECK_STR_HAS(tsr_message(here), "tsr_sum");
    tsr_scope_close(here);
  }
  /* Where the error was cleared something is told all the same. */
  tsr_scope_clear(s);
  tsr_scope *here = tsr_scope_open(s);
  CHECK_STR_HAS(met(here, tsr_read_scalar(tsr_add(bad, 1), out)), "whose error was cleared");
  tsr_runtime_close(rt);
}

TEST(what_is_made_of_nothing_is_told_to_what_stands_beside_it)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *nothing = tsr_add((tsr_array *)NULL, 1), *x = tsr_arange(s, .stop = 3);
  tsr_array *both[2] = { NULL, x };
  double out;
  CHECK(tsr_is_inert(nothing));
  CHECK_STR(tsr_text_of(nothing), "invalid argument");
  CHECK_STR_HAS(tsr_message(s), "tsr_add: operand 1 is NULL; give an array");
  tsr_scope_clear(s);
  tsr_array *y = tsr_add(nothing, x);
  CHECK(tsr_is_inert(y));
  CHECK_STR_HAS(tsr_message(s),
                "tsr_add: an operand is the result of a call with NULL; give arrays");
  CHECK(tsr_read_scalar(y, &out) == TSR_EARG);
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_mul(x, nothing)) && tsr_message(s)[0]);
  tsr_scope_clear(s);
  CHECK(tsr_eval(both, 2) == TSR_EARG);
  CHECK_STR_HAS(tsr_message(s), "tsr_eval: array 0 is NULL");
  tsr_runtime_close(rt);
}

TEST(inner_scopes_are_told_why_a_frame_is_inert)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_new(s, { "i", tsr_arange(s, .stop = 4) });
  tsr_frame *bad = tsr_frame_filter(df, "no > 1");
  int64_t rows;
  tsr_scope *here = tsr_scope_open(s);
  CHECK_STR(met(here, tsr_frame_row_count(tsr_frame_head(bad, 2), &rows)), tsr_message(s));
  tsr_scope_close(here);
  here = tsr_scope_open(s);
  tsr_table *table;
  CHECK_STR(met(here, tsr_frame_collect(bad, &table)), tsr_message(s));
  tsr_runtime_close(rt);
}
