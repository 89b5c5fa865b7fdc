/* Element types, shapes and the notation of types. */
#include <stdio.h>

#include "support/topology_fixture.h"

static const char *type_of(tsr_dtype dtype, tsr_shape shape, const tsr_sharding *sharding,
                           char out[512])
{
  int length = tsr_type_text(dtype, shape, sharding, out, 512);

  CHECK_I64(length, (int64_t)strlen(out));
  return out;
}

TEST(dtypes_have_names_and_sizes)
{
  static const struct {
    tsr_dtype dtype;
    const char *name;
    int size;
  } rows[] = { { TSR_BOOL, "bool", 1 }, { TSR_I8, "i8", 1 },     { TSR_I16, "i16", 2 },
               { TSR_I32, "i32", 4 },   { TSR_I64, "i64", 8 },   { TSR_U8, "u8", 1 },
               { TSR_U16, "u16", 2 },   { TSR_U32, "u32", 4 },   { TSR_U64, "u64", 8 },
               { TSR_F16, "f16", 2 },   { TSR_BF16, "bf16", 2 }, { TSR_F32, "f32", 4 },
               { TSR_F64, "f64", 8 } };

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK_STR(tsr_dtype_name(rows[i].dtype), rows[i].name);
    CHECK_I64((int64_t)tsr_dtype_size(rows[i].dtype), rows[i].size);
  }
}

TEST(no_dtype_is_a_question_mark)
{
  static const int strangers[] = { 0, 14, 255, -1, INT32_MAX, INT32_MIN };

  for (int i = 0; i < 6; i++) {
    CHECK_STR(tsr_dtype_name((tsr_dtype)strangers[i]), "?");
    CHECK_I64((int64_t)tsr_dtype_size((tsr_dtype)strangers[i]), 0);
  }
}

TEST(shapes_count_their_elements)
{
  CHECK_I64(tsr__shape_count(&TSR_SCALAR), 1);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(7)), 7);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(8, 9, 10)), 720);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(8, 0, 10)), 0);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(INT64_MAX)), INT64_MAX);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(INT64_MAX, 2)), -1);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(INT64_C(1) << 32, INT64_C(1) << 31)), -1);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(INT64_C(1) << 32, (INT64_C(1) << 31) - 1)),
            INT64_MAX - (INT64_C(1) << 32) + 1);
  /* An empty dim does not excuse the others (NumPy refuses such shapes too). */
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(INT64_MAX, INT64_MAX, 0)), -1);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(0, INT64_MAX, INT64_MAX)), -1);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(0, INT64_MAX)), 0);
  /* A size known only at run time. */
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(-1)), -1);
  CHECK_I64(tsr__shape_count(&TSR_SHAPE(0, -1)), -1);
}

TEST(bad_shapes_say_what_is_wrong)
{
  static const struct {
    tsr_shape shape;
    const char *text;
  } rows[] = {
    { { .rank = 17 }, "a shape has 0 to 16 dims, not 17" },
    { { .rank = -1 }, "a shape has 0 to 16 dims, not -1" },
    { { 2, { 4, -3 } }, "dim 1 of shape [4,-3] is -3; sizes are 0 or more" },
    { { 2, { -1, 3 } }, "dim 0 of shape [?,3] is -1; sizes are 0 or more" },
    { { 2, { INT64_MAX, 3 } },
      "shape [9223372036854775807,3] has more elements than 63 bits can count; give "
      "smaller sizes" },
  };

  for (int i = 0; i < 5; i++) {
    tsr__error error = { .status = TSR_OK };
    CHECK_STATUS(tsr__shape_check(&rows[i].shape, &error), TSR_ESHAPE, NULL);
    CHECK_STR(error.text, rows[i].text);
  }
}

TEST(good_shapes_pass)
{
  tsr__error error = { .status = TSR_OK };

  CHECK_STATUS(tsr__shape_check(&TSR_SCALAR, &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__shape_check(&TSR_SHAPE(0, 5), &error), TSR_OK, NULL);
  CHECK_STATUS(tsr__shape_check(&TSR_SHAPE(1, 2, 3, 4, 5, 6, 7, 8), &error), TSR_OK, NULL);
  CHECK_I64(error.status, TSR_OK);
}

TEST(types_are_written_in_the_one_notation)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4,model=2");
  tsr_sharding rows = tsr_on(mesh, "data"), both = tsr_on(mesh, "-,data+model");
  tsr_sharding unplaced = { .mesh = NULL }, bad = tsr_on(mesh, "nope");
  char out[512];

  CHECK_STR(type_of(TSR_F32, TSR_SHAPE(1024, 32), &rows, out), "f32[1024,32]@(data,-)");
  CHECK_STR(type_of(TSR_BOOL, TSR_SHAPE(3, 5, 7), &both, out), "bool[3,5,7]@(-,data+model,-)");
  CHECK_STR(type_of(TSR_F64, TSR_SCALAR, NULL, out), "f64[]");
  CHECK_STR(type_of(TSR_F64, TSR_SCALAR, &unplaced, out), "f64[]");
  CHECK_STR(type_of(TSR_I64, TSR_SHAPE(0), &unplaced, out), "i64[0]");
  CHECK_STR(type_of(TSR_I32, TSR_SHAPE(-1, 2), &rows, out), "i32[?,2]@(data,-)");
  CHECK_STR(type_of(TSR_F64, TSR_SHAPE(8), &bad, out), "f64[8]@(?)");
  CHECK_STR(type_of((tsr_dtype)0, TSR_SHAPE(8), NULL, out), "?[8]");
  CHECK_STR(type_of((tsr_dtype)77, TSR_SHAPE(8), NULL, out), "?[8]");
  CHECK_STR(type_of(TSR_F64, TSR_SHAPE(INT64_MAX, INT64_MIN), NULL, out),
            "f64[9223372036854775807,-9223372036854775808]");
  tsr_runtime_close(rt);
}

TEST(a_type_text_is_cut_to_its_buffer)
{
  char out[8] = "xxxxxxx";

  CHECK_I64(tsr_type_text(TSR_F32, TSR_SHAPE(1024, 32), NULL, out, 6), 12);
  CHECK_STR(out, "f32[1");
  CHECK_I64(out[6], 'x');
  CHECK_I64(tsr_type_text(TSR_F32, TSR_SHAPE(1024, 32), NULL, NULL, 0), 12);
  CHECK_I64(tsr_type_text(TSR_F32, TSR_SHAPE(1024, 32), NULL, NULL, 9), 12);
  CHECK_I64(tsr_type_text(TSR_F32, TSR_SHAPE(1024, 32), NULL, out, 0), 12);
  CHECK_STR(out, "f32[1");
}

TEST(ranks_out_of_range_are_written_without_harm)
{
  tsr_shape high = { .rank = 1000, .dims = { 1, 2, 3, 4, 5, 6, 7, 8 } }, low = { .rank = -5 };
  char out[512];

  CHECK_STR(type_of(TSR_F32, high, NULL, out), "f32[1,2,3,4,5,6,7,8,0,0,0,0,0,0,0,0]");
  CHECK_STR(type_of(TSR_F32, low, NULL, out), "f32[]");
}

TEST(the_longest_type_fits)
{
  tsr_runtime *rt = fixture_devices("cpu:1");
  tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = 8 };
  char names[8][32], out[1024], expected[1024];
  tsr_shape shape = { .rank = 8 };
  size_t n = 0;

  for (int a = 0; a < 8; a++) {
    memset(names[a], 'a' + a, 31);
    names[a][31] = '\0';
    opts.names[a] = names[a];
    opts.sizes[a] = 1;
    shape.dims[a] = INT64_MIN;
  }
  tsr_sharding sharding = tsr_on_dims(tsr_mesh_make_with(rt, &opts), 8, opts.names);
  n += (size_t)sprintf(expected, "bool[");
  for (int a = 0; a < 8; a++)
    n += (size_t)sprintf(expected + n, "%s-9223372036854775808", a ? "," : "");
  n += (size_t)sprintf(expected + n, "]@(");
  for (int a = 0; a < 8; a++) n += (size_t)sprintf(expected + n, "%s%s", a ? "," : "", names[a]);
  sprintf(expected + n, ")");
  CHECK_I64(tsr_type_text(TSR_BOOL, shape, &sharding, out, sizeof out), (int64_t)strlen(expected));
  CHECK_STR(out, expected);
  tsr_runtime_close(rt);
}

TEST(types_go_into_text_builders)
{
  tsr_runtime *rt = fixture_devices("cpu:2");
  tsr_sharding sharding = tsr_on(tsr_mesh_make(rt, "x=2"), "x");
  tsr_shape shape = TSR_SHAPE(9, 4);
  tsr__text text;

  tsr__text_init(&text, NULL);
  tsr__text_add(&text, "a ");
  tsr__type_add(&text, TSR_I32, &shape, &sharding);
  CHECK_STR(tsr__text_get(&text), "a i32[9,4]@(x,-)");
  tsr__text_free(&text);
  tsr_runtime_close(rt);
}
