/* Fields as other dtypes: what casts of arrays give, in every bit, and scales as plain C has them.
 * Runs at each ISA. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

enum { COUNT = 96, MOST = 8 * COUNT };

/* Whether an element is NaN, of which the payload is nobody's promise. */
static bool is_nan(tsr_dtype dtype, const char *at)
{
  uint16_t half;
  float narrow;
  double wide;
  memcpy(&half, at, sizeof half);
  if (dtype == TSR_F16) return (half & 0x7fff) > 0x7c00;
  if (dtype == TSR_BF16) return (half & 0x7fff) > 0x7f80;
  if (dtype == TSR_F32) memcpy(&narrow, at, sizeof narrow);
  if (dtype == TSR_F64) memcpy(&wide, at, sizeof wide);
  return dtype == TSR_F32 ? narrow != narrow : dtype == TSR_F64 && wide != wide;
}

/* The field "x" of all records of a source, as bytes. */
static void read_all(tsr_source *source, void *out, size_t bytes)
{
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = tsr_source_count(source));
  tsr_batch *b = tsr_pipeline_next(p);
  CHECK(b);
  CHECK_STATUS(tsr_read(tsr_batch_field(b, "x"), out, bytes), TSR_OK, tsr_batch_scope(b));
  tsr_batch_release(b);
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, NULL);
}

/* Numbers of a dtype: patterns of bits, so that all kinds of floats come, and small ones. */
static void draw(test_rng *rng, tsr_dtype dtype, char *to)
{
  size_t size = tsr_dtype_size(dtype);
  for (int i = 0; i < COUNT; i++) {
    int64_t bits = test_range(rng, INT64_MIN / 2, INT64_MAX / 2);
    double small = (double)test_range(rng, -300, 300) / 4;
    float narrow = (float)small;
    if (dtype == TSR_BOOL) bits = test_range(rng, 0, 1);
    else if (dtype == TSR_F64 && i % 2) memcpy(&bits, &small, sizeof bits);
    else if (dtype == TSR_F32 && i % 2) memcpy(&bits, &narrow, sizeof narrow);
    else if (i % 3 == 0) bits = i % 2 ? -1 : INT64_MIN + i / 3;
    memcpy(to + (size_t)i * size, &bits, size);
  }
}

TEST(casts_are_those_of_arrays)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  test_rng rng = test_seeded(3);
  for (int from = TSR_BOOL; from <= TSR_F64; from++)
    for (int to = TSR_BOOL; to <= TSR_F64; to++) {
      tsr_dtype a = (tsr_dtype)from, b = (tsr_dtype)to;
      if (tsr_dtype_name(a)[0] == '?' || tsr_dtype_name(b)[0] == '?') continue;
      tsr_scope *s = tsr_scope_open(rt);
      _Alignas(8) char in[MOST] = { 0 }, expected[MOST] = { 0 }, found[MOST] = { 0 };
      size_t bytes = COUNT * tsr_dtype_size(b);
      draw(&rng, a, in);
      tsr_array *x = tsr_put(s, in, a, TSR_SHAPE(COUNT), tsr_on(tsr_mesh_default(rt, "d"), "d"));
      CHECK_STATUS(tsr_read(tsr_cast(x, b), expected, bytes), TSR_OK, s);
      tsr_source *records = tsr_source_memory(s, COUNT / 3, { "x", a, TSR_SHAPE(3), in });
      read_all(tsr_source_cast(records, "x", .dtype = b), found, bytes);
      for (size_t i = 0; i < COUNT; i++) {
        size_t size = tsr_dtype_size(b);
        if (is_nan(b, found + i * size) && is_nan(b, expected + i * size)) continue;
        if (memcmp(found + i * size, expected + i * size, size) != 0)
          FAIL("element %zu of %s as %s differs", i, tsr_dtype_name(a), tsr_dtype_name(b));
      }
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}

/* (x * scale - mean) / std as a product and a sum, each rounded to f32. */
static float by_hand(float x, double scale, double mean, double std)
{
  volatile float product = x * (float)(scale / std);
  return product + (mean == 0 ? 0 : (float)(-mean / std));
}

TEST(scales_by_channel)
{
  static const double mean[4] = { 0.485, 0.456, 0.406, 0.5 }, std[4] = { 0.229, 0.224, 0.225, 0.2 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  for (int64_t pixels = 0; pixels < 40; pixels++)
    for (int64_t channels = 1; channels <= 4; channels++) {
      tsr_scope *s = tsr_scope_open(rt);
      uint8_t in[2 * 160];
      float found[2 * 160], expected[2 * 160];
      int64_t count = 2 * pixels * channels;
      for (int64_t i = 0; i < count; i++) {
        in[i] = (uint8_t)(i * 37 + pixels);
        expected[i] = by_hand(in[i], 1.0 / 255, mean[i % channels], std[i % channels]);
      }
      tsr_source *x = tsr_source_memory(s, 2, { "x", TSR_U8, TSR_SHAPE(pixels, channels), in });
      tsr_source *made = tsr_source_cast(x, "x", .scale = 1.0 / 255,
                                         .mean = { mean[0], mean[1], mean[2], mean[3] },
                                         .std = { std[0], std[1], std[2], std[3] });
      read_all(made, found, (size_t)count * sizeof *found);
      CHECK_BYTES(found, expected, (size_t)count * sizeof *found);
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}

TEST(scales_of_other_types)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  static const int32_t whole[4] = { -3, 0, 16777217, 5 };
  static const double real[2] = { 0.1, 1e300 };
  double wide[2];
  float narrow[4];
  tsr_source *w = tsr_source_memory(s, 2, { "x", TSR_I32, TSR_SHAPE(2), whole });
  read_all(tsr_source_cast(w, "x", .scale = 0.1, .mean = { 1, 1, 1, 1 }), narrow, sizeof narrow);
  for (int i = 0; i < 4; i++) CHECK_F64_BITS(narrow[i], by_hand((float)whole[i], 0.1, 1, 1));
  tsr_source *r = tsr_source_memory(s, 2, { "x", TSR_F64, TSR_SCALAR, real });
  read_all(tsr_source_cast(r, "x", .dtype = TSR_F64, .scale = 3), wide, sizeof wide);
  for (int i = 0; i < 2; i++) CHECK_F64_BITS(wide[i], real[i] * 3);
  CHECK_STR(tsr_source_text(tsr_source_cast(w, "x", .scale = 0.5, .mean = { 2, 2, 2, 2 })),
            "memory(2 of x i32[2]) > cast(x as f32, by 0.5 plus -2)");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* The call in a scope of its own, whose message has the words. */
#define REFUSED(status, words, ...)                                                   \
  do {                                                                                \
    tsr_scope *inner = tsr_scope_open(rt);                                            \
    tsr_source_cast(tsr_source_memory(inner, 1, { "x", TSR_U8, TSR_SHAPE(6), data }), \
                    __VA_ARGS__);                                                     \
    CHECK_STATUS(tsr_scope_status(inner), (status), inner);                           \
    CHECK_STR_HAS(tsr_message(inner), (words));                                       \
    tsr_scope_close(inner);                                                           \
  } while (0)

TEST(wrong_casts)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  static const uint8_t data[6] = { 1 };
  REFUSED(TSR_EARG, "no field 'y'", "y");
  REFUSED(TSR_EDTYPE, "give floats, but .dtype is i32", "x", .dtype = TSR_I32, .scale = 2);
  REFUSED(TSR_ESHAPE, "has 6 channels in its last dim, expected 4 at most", "x", .mean = { 1, 2 });
  REFUSED(TSR_EARG, ".std above 0", "x", .std = { -1, -1, -1, -1 });
  REFUSED(TSR_EDTYPE, "is not a dtype", "x", .dtype = (tsr_dtype)99);
  tsr_runtime_close(rt);
}
