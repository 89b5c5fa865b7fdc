/* Metrics: what is known of numbers that came in batches of any size, on any mesh, is what an exact
 * sum of all of them says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/dealt.h"
#include "tessera.h"

enum { NUMBERS = 500 };

__extension__ typedef __int128 wide_int;

static const tsr_metric kinds[] = { TSR_METRIC_MEAN, TSR_METRIC_SUM, TSR_METRIC_COUNT,
                                    TSR_METRIC_MIN, TSR_METRIC_MAX };

/* Floats of many sizes, whose sum has more digits than f64; of both signs, so that they cancel. */
static void make_numbers(float *out, uint64_t seed)
{
  for (int i = 0; i < NUMBERS; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    float digits = (float)(int32_t)(seed >> 40 | 1) / 0x1p24f;
    out[i] = ldexpf(seed >> 39 & 1 ? digits : -digits, (int)(seed >> 33 & 31) - 16);
  }
}

/* The five numbers by integers: multiples of 2^-60 are exact in 128 bits, and one rounding makes
 * f64 of their sum. */
static void expect(const float *numbers, const bool *mask, double out[5])
{
  wide_int sum = 0;
  double count = 0, least = INFINITY, most = -INFINITY;
  for (int i = 0; i < NUMBERS; i++) {
    if (mask && !mask[i]) continue;
    sum += (wide_int)ldexp((double)numbers[i], 60);
    count++;
    least = fmin(least, (double)numbers[i]);
    most = fmax(most, (double)numbers[i]);
  }
  out[1] = ldexp((double)sum, -60);
  out[0] = out[1] / count;
  out[2] = count;
  out[3] = least;
  out[4] = most;
}

static void compare(tsr_array *known, const double expected[5], const char *what)
{
  for (int k = 0; k < 5; k++) {
    double found;
    if (tsr_read_scalar(tsr_metric_of(known, kinds[k]), &found))
      FAIL("%s, number %d cannot be read", what, k);
    if (memcmp(&found, &expected[k], sizeof found) != 0 && !(isnan(found) && isnan(expected[k])))
      FAIL("%s, number %d: %.17g, expected %.17g", what, k, found, expected[k]);
  }
}

/* What a pipeline's batches of so many make known. */
static tsr_array *from_batches(tsr_scope *s, const float *numbers, int64_t size, tsr_sharding on)
{
  tsr_source *source = tsr_source_memory(s, NUMBERS, { "x", TSR_F32, TSR_SCALAR, numbers });
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = size, .shuffle = true, .seed = 5,
                                      .remainder = TSR_PAD_AND_MASK, .on = on);
  tsr_array *known = tsr_metric_start(s);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b))
    known = tsr_tree_keep(s, tsr_metric_add(known, tsr_batch_field(b, "x"),
                                            .where = tsr_batch_mask(b)));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  return known;
}

TEST(batches_and_meshes_do_not_show)
{
  const dealt_devices devices[] = { dealt(1), dealt(3), dealt(8) };
  static const int64_t sizes[] = { 1, 3, 7, 64, 499, 500, 513 };
  float numbers[NUMBERS];
  double expected[5];
  for (size_t d = 0; d < 3; d++) {
    tsr_runtime *rt = tsr_runtime_open(devices[d].text);
    tsr_sharding on = tsr_on(tsr_mesh_default(rt, "data"), "data");
    for (size_t k = d > 0; k < sizeof sizes / sizeof *sizes; k++) {
      tsr_scope *s = tsr_scope_open(rt);
      char what[64];
      make_numbers(numbers, 1 + k);
      expect(numbers, NULL, expected);
      snprintf(what, sizeof what, "%s, batches of %d", devices[d].text, (int)sizes[k]);
      compare(from_batches(s, numbers, sizes[k], on), expected, what);
      tsr_scope_close(s);
    }
    tsr_runtime_close(rt);
  }
}

/* A mask of rows covers all elements of its rows. */
TEST(masks_of_rows)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_default(rt, "data"), "data");
  float numbers[NUMBERS];
  bool mask[NUMBERS], wide[NUMBERS / 5];
  double expected[5];
  make_numbers(numbers, 9);
  for (int i = 0; i < NUMBERS; i++) mask[i] = wide[i / 5] = i / 5 % 3 != 0;
  expect(numbers, mask, expected);
  tsr_array *x = tsr_put(s, numbers, TSR_F32, TSR_SHAPE(NUMBERS / 5, 5), rows);
  tsr_array *one = tsr_put(s, wide, TSR_BOOL, TSR_SHAPE(NUMBERS / 5), rows);
  tsr_array *all = tsr_put(s, mask, TSR_BOOL, TSR_SHAPE(NUMBERS / 5, 5), rows);
  compare(tsr_metric_add(tsr_metric_start(s), x, .where = one), expected, "a mask of rows");
  compare(tsr_metric_add(tsr_metric_start(s), x, .where = all), expected, "a mask of elements");
  /* Integers and bools count as numbers. */
  double share[5] = { 0, 0, NUMBERS / 5, 0, 1 };
  for (int i = 0; i < NUMBERS / 5; i++) share[1] += wide[i];
  share[0] = share[1] / share[2];
  compare(tsr_metric_add(tsr_metric_start(s), one), share, "a share");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(parts_are_joined)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding free_place = { 0 };
  float numbers[NUMBERS];
  double expected[5];
  make_numbers(numbers, 4);
  expect(numbers, NULL, expected);
  tsr_array *all = tsr_metric_start(s);
  for (int first = 0; first < NUMBERS; first += 50) {
    tsr_array *x = tsr_put(s, numbers + first, TSR_F32, TSR_SHAPE(50), free_place);
    all = tsr_metric_join(tsr_metric_add(tsr_metric_start(s), x), all);
  }
  compare(all, expected, "ten parts");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Of none there is no mean; NaN and infinities stay what they are. */
TEST(odd_numbers)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding free_place = { 0 };
  const double none[5] = { NAN, 0, 0, INFINITY, -INFINITY };
  const double up[5] = { INFINITY, INFINITY, 3, 1, INFINITY };
  const double unknown[5] = { NAN, NAN, 4, NAN, NAN };
  const float numbers[] = { 1, INFINITY, 2, NAN };
  bool nobody[4] = { false };
  tsr_array *start = tsr_metric_start(s);
  tsr_array *four = tsr_put(s, numbers, TSR_F32, TSR_SHAPE(4), free_place);
  tsr_array *mask = tsr_put(s, nobody, TSR_BOOL, TSR_SHAPE(4), free_place);
  compare(start, none, "none");
  compare(tsr_metric_add(start, four, .where = mask), none, "all masked");
  tsr_array *three = tsr_metric_add(start, tsr_slice(four, TSR_RANGE(0, 3)));
  compare(three, up, "an infinite one");
  compare(tsr_metric_add(three, tsr_slice(four, TSR_RANGE(3, 4))), unknown, "a NaN");
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

static tsr_array *add_one(tsr_scope *s, tsr_array *const *in, void *user)
{
  (void)s, (void)user;
  return tsr_metric_add(in[0], in[1], .where = in[2]);
}

/* As a part of a step: traced for what lies nowhere yet, and for what the first step made. */
TEST(within_functions)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  float numbers[NUMBERS];
  double expected[5];
  make_numbers(numbers, 12);
  expect(numbers, NULL, expected);
  tsr_function *f = tsr_function_make(s, add_one);
  tsr_source *source = tsr_source_memory(s, NUMBERS, { "x", TSR_F32, TSR_SCALAR, numbers });
  tsr_pipeline *p = tsr_pipeline_open(source, .batch_size = 64, .remainder = TSR_PAD_AND_MASK,
                                      .on = tsr_on(tsr_mesh_default(rt, "data"), "data"));
  tsr_array *known = tsr_metric_start(s);
  for (tsr_batch *b; (b = tsr_pipeline_next(p)); tsr_batch_release(b))
    known = tsr_tree_keep(s, tsr_call(f, known, tsr_batch_field(b, "x"), tsr_batch_mask(b)));
  CHECK_STATUS(tsr_pipeline_close(p), TSR_OK, s);
  compare(known, expected, "a function");
  CHECK_I64(tsr_trace_count(f), 2);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
