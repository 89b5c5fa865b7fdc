/* The accumulators against tests/golden/exact.txt, which rational arithmetic wrote, and against
 * each other: in any order and split, through the wire form, past normalisation. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/exact/exact.h"
#include "kernel/exact/exact_rows.h"

enum { MAX_VALUES = 64 };

/* One case of the golden file. Results: f64 and f32 bits of sum, mean, var and std by ddof. */
typedef struct golden {
  int line, count;
  bool integers;
  double value[MAX_VALUES];
  int64_t whole[MAX_VALUES];
  double sum64, mean64, var64[2], std64[2];
  float sum32, mean32, var32[2], std32[2];
} golden;

static double read_f64(const char *text)
{
  if (!strcmp(text, "nan")) return NAN;
  uint64_t bits = strtoull(text, NULL, 16);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float read_f32(const char *text)
{
  if (!strcmp(text, "nan")) return NAN;
  uint32_t bits = (uint32_t)strtoul(text, NULL, 16);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void read_values(golden *out, char *rest)
{
  for (char *save, *word = strtok_r(rest, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    CHECK(out->count < MAX_VALUES);
    if (out->integers) out->whole[out->count++] = strtoll(word, NULL, 10);
    else out->value[out->count++] = read_f64(word);
  }
}

static void read_result(golden *out, const char *key, char *rest)
{
  char wide[32], narrow[32];
  CHECK(sscanf(rest, "%31s %31s", wide, narrow) == 2);
  double f64 = read_f64(wide);
  float f32 = read_f32(narrow);
  int ddof = key[3] == '1';
  if (!strcmp(key, "sum")) {
    out->sum64 = f64;
    out->sum32 = f32;
  } else if (!strcmp(key, "mean")) {
    out->mean64 = f64;
    out->mean32 = f32;
  } else if (!strncmp(key, "var", 3)) {
    out->var64[ddof] = f64;
    out->var32[ddof] = f32;
  } else {
    CHECK(!strncmp(key, "std", 3));
    out->std64[ddof] = f64;
    out->std32[ddof] = f32;
  }
}

/* Calls `check` with every case; fails when there is none. */
static void each_golden(void (*check)(const golden *))
{
  char *text = test_read(test_file("golden/exact.txt"), NULL);
  golden now = { 0 };
  int line = 0, cases = 0;
  for (char *save, *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
    line++;
    char *rest = strchr(at, ' ');
    if (rest) *rest++ = '\0';
    if (!strcmp(at, "v") || !strcmp(at, "i")) {
      now.integers = *at == 'i';
      read_values(&now, rest);
    } else if (!strcmp(at, "end")) {
      now.line = line;
      check(&now);
      memset(&now, 0, sizeof now);
      cases++;
    } else if (*at != '#') {
      read_result(&now, at, rest);
    }
  }
  free(text);
  CHECK(cases > 300);
}

static void check_sums(const golden *g, const tsr__acc *sum, const tsr__acc2 *squares)
{
  CHECK_F64_BITS(tsr__acc_sum(sum, TSR_F64), g->sum64);
  CHECK_F32_BITS((float)tsr__acc_sum(sum, TSR_F32), g->sum32);
  CHECK_F64_BITS(tsr__acc_mean(sum, g->count, TSR_F64), g->mean64);
  CHECK_F32_BITS((float)tsr__acc_mean(sum, g->count, TSR_F32), g->mean32);
  for (int ddof = 0; ddof < 2; ddof++) {
    CHECK_F64_BITS(tsr__acc_var(sum, squares, g->count, ddof, TSR_F64), g->var64[ddof]);
    CHECK_F32_BITS((float)tsr__acc_var(sum, squares, g->count, ddof, TSR_F32), g->var32[ddof]);
    CHECK_F64_BITS(tsr__acc_std(sum, squares, g->count, ddof, TSR_F64), g->std64[ddof]);
    CHECK_F32_BITS((float)tsr__acc_std(sum, squares, g->count, ddof, TSR_F32), g->std32[ddof]);
  }
}

static void golden_floats(const golden *g)
{
  if (g->integers) return;
  tsr__acc sum = { 0 };
  tsr__acc2 squares = { 0 };
  for (int i = 0; i < g->count; i++) {
    tsr__acc_add(&sum, g->value[i]);
    tsr__acc2_add_square(&squares, g->value[i]);
  }
  check_sums(g, &sum, &squares);
}

TEST(floats_equal_rational_arithmetic)
{
  each_golden(golden_floats);
}

static void golden_integers(const golden *g)
{
  if (!g->integers && g->count) return;
  tsr__i128 sum = 0;
  tsr__isq squares = { 0 };
  for (int i = 0; i < g->count; i++) {
    sum += g->whole[i];
    tsr__isq_add(&squares, g->whole[i]);
  }
  CHECK_F64_BITS(tsr__mean_i128(sum, g->count, TSR_F64), g->mean64);
  CHECK_F32_BITS((float)tsr__mean_i128(sum, g->count, TSR_F32), g->mean32);
  for (int ddof = 0; ddof < 2; ddof++) {
    CHECK_F64_BITS(tsr__var_i128(sum, &squares, g->count, ddof, TSR_F64), g->var64[ddof]);
    CHECK_F32_BITS((float)tsr__var_i128(sum, &squares, g->count, ddof, TSR_F32), g->var32[ddof]);
    CHECK_F64_BITS(tsr__std_i128(sum, &squares, g->count, ddof, TSR_F64), g->std64[ddof]);
    CHECK_F32_BITS((float)tsr__std_i128(sum, &squares, g->count, ddof, TSR_F32), g->std32[ddof]);
  }
}

TEST(integers_equal_rational_arithmetic)
{
  each_golden(golden_integers);
}

/* The values in random order over three accumulators, each sent over the wire and merged in
 * random order. */
static void golden_split(const golden *g)
{
  if (g->integers) return;
  test_rng rng = test_seeded((uint64_t)g->line);
  tsr__acc sum[3] = { 0 };
  tsr__acc2 squares[3] = { 0 };
  int order[MAX_VALUES];
  for (int i = 0; i < g->count; i++) {
    int k = (int)test_range(&rng, 0, i);
    order[i] = order[k];
    order[k] = i;
  }
  for (int i = 0; i < g->count; i++) {
    int64_t to = test_range(&rng, 0, 2);
    tsr__acc_add(&sum[to], g->value[order[i]]);
    tsr__acc2_add_square(&squares[to], g->value[order[i]]);
  }
  tsr__acc total = { 0 };
  tsr__acc2 total2 = { 0 };
  int64_t first = test_range(&rng, 0, 2);
  for (int i = 0; i < 3; i++) {
    unsigned char wire[TSR__ACC_WIRE], wire2[TSR__ACC2_WIRE];
    tsr__acc_pack(&sum[(first + i) % 3], wire);
    tsr__acc2_pack(&squares[(first + i) % 3], wire2);
    tsr__acc one;
    tsr__acc2 one2;
    tsr__acc_unpack(&one, wire);
    tsr__acc2_unpack(&one2, wire2);
    tsr__acc_merge(&total, &one);
    tsr__acc2_merge(&total2, &one2);
  }
  check_sums(g, &total, &total2);
}

TEST(order_split_and_wire_do_not_show)
{
  each_golden(golden_split);
}

TEST(equal_sums_have_equal_wire_bytes)
{
  const double one[] = { 3.5, -2.25, 1e300, 0x1p-1074, -1e300 };
  const double two[] = { 0x1p-1074, 1.25 };
  unsigned char a[TSR__ACC_WIRE], b[TSR__ACC_WIRE];
  tsr__acc left = { 0 }, right = { 0 };
  for (int i = 0; i < 5; i++) tsr__acc_add(&left, one[i]);
  for (int i = 0; i < 2; i++) tsr__acc_add(&right, two[i]);
  tsr__acc_pack(&left, a);
  tsr__acc_pack(&right, b);
  CHECK_BYTES(a, b, sizeof a);
}

__extension__ typedef __int128 whole128;

/* Sums of two values that are not far apart, which a few words hold, against the machine's own
 * conversion of a number of 128 bits; every other one is halfway between two results, or a last bit
 * beside it. */
TEST(sums_of_a_few_words_round_once)
{
  test_rng rng = test_seeded(1);
  for (int i = 0; i < 40000; i++) {
    tsr__acc acc = { .adds = 0 };
    int shift = (int)(test_random(&rng) % 48), at = (int)(test_random(&rng) % 40) - 20;
    int64_t high = (int64_t)(test_random(&rng) >> 17), low = (int64_t)(test_random(&rng) >> 12);
    /* 53 bits and a bit more, or 24: halves of the last place of f64 or f32. */
    if (i & 1) high = (i & 2 ? INT64_C(1) << 46 : INT64_C(1) << 23) | (high & 0x7fff), shift = 40;
    if (i & 1) low = (INT64_C(1) << (i & 2 ? 33 : 39)) + (int64_t)(i >> 4 & 3) - 1;
    if ((i & 3) == 3) low += (int64_t)(i >> 6 & 1) << 34;
    if (i & 4) high = -high;
    if (i & 8) low = -low;
    whole128 sum = (whole128)high * ((whole128)1 << shift) + low;
    tsr__acc_add(&acc, ldexp((double)high, shift + at));
    tsr__acc_add(&acc, ldexp((double)low, at));
    CHECK_F64_BITS(tsr__acc_sum(&acc, TSR_F64), ldexp((double)sum, at));
    CHECK_F64_BITS(tsr__acc_sum(&acc, TSR_F32), ldexp((double)(float)sum, at));
  }
}

/* At both ends of the range: infinities, results that are denormal, and those below. */
TEST(sums_of_a_few_words_end_where_types_do)
{
  static const struct {
    double a, b, f64, f32;
  } rows[] = {
    { 0x1.fffffep127, 0x1p102, 0x1.fffffep127 + 0x1p102, 0x1.fffffep127 },
    { 0x1.fffffep127, 0x1p103, 0x1.fffffep127 + 0x1p103, INFINITY },
    { -0x1.fffffep127, -0x1p103, -0x1.fffffep127 - 0x1p103, -INFINITY },
    { 0x1.fffffffffffffp1023, 0x1p969, 0x1.fffffffffffffp1023, INFINITY },
    { 0x1.fffffffffffffp1023, 0x1p970, INFINITY, INFINITY },
    { 0x1p-149, 0x1p-150, 0x1.8p-149, 0x1p-148 },
    { 0x1p-150, 0x0p0, 0x1p-150, 0 },
    { 0x1p-150, 0x1p-200, 0x1p-150 + 0x1p-200, 0x1p-149 },
    { -0x1p-151, -0x1p-200, -0x1p-151 - 0x1p-200, -0.0 },
    { 0x1p-1074, 0x1p-1074, 0x1p-1073, 0 },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr__acc acc = { .adds = 0 };
    tsr__acc_add(&acc, rows[i].a);
    tsr__acc_add(&acc, rows[i].b);
    CHECK_F64_BITS(tsr__acc_sum(&acc, TSR_F64), rows[i].f64);
    CHECK_F64_BITS(tsr__acc_sum(&acc, TSR_F32), rows[i].f32);
  }
}

/* Carries are moved up in the middle of a run, and merging alone reaches the bound too. */
TEST(words_never_overflow)
{
  tsr__acc acc = { 0 };
  tsr__acc_add(&acc, 0x1.fffffffffffffp+1023);
  tsr__acc one = acc;
  for (int i = 0; i < 62; i++) { /* 2^62 of the largest value */
    tsr__acc_merge(&acc, &acc);
    CHECK(acc.adds < (uint32_t)1 << 30);
  }
  CHECK_F64_BITS(tsr__acc_mean(&acc, (int64_t)1 << 62, TSR_F64), 0x1.fffffffffffffp+1023);
  CHECK_F64_BITS(tsr__acc_sum(&acc, TSR_F64), INFINITY);
  tsr__acc sink = { 0 };
  sink.adds = ((uint32_t)1 << 29) - 3;
  for (int i = 0; i < 8; i++) tsr__acc_add(&sink, i % 2 ? 1.5 : -0x1p-1074);
  CHECK_F64_BITS(tsr__acc_sum(&sink, TSR_F64), 6.0);
  CHECK(sink.adds < 10);
  CHECK_F64_BITS(tsr__acc_sum(&one, TSR_F64), 0x1.fffffffffffffp+1023);
}

TEST(a_sum_in_a_wide_accumulator_gives_the_same_spread)
{
  const double x[] = { -0.4921875, 0.3564453125, 0.181640625 };
  tsr__acc sum = { 0 };
  tsr__acc2 wide = { 0 }, squares = { 0 };
  for (int i = 0; i < 3; i++) {
    tsr__acc_add(&sum, x[i]);
    tsr__acc2_add(&wide, x[i]);
    tsr__acc2_add_square(&squares, x[i]);
  }
  tsr__spread_read how = { .n = 3 };
  CHECK_F64_BITS(tsr__acc2_spread(&wide, &squares, &how, TSR_F64),
                 tsr__acc_var(&sum, &squares, 3, 0, TSR_F64));
}

/* Adds x to a sum and its square to another, one element each. */
static void add_both(tsr__rows *sum, tsr__rows *square, double x)
{
  tsr__rows_add(sum, 0, x);
  tsr__rows_add_product(square, 0, x, x);
}

static double variance(const double *x, int n, tsr__rows_read how)
{
  tsr__rows sum, square;
  double memory[6], out;
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__rows_init(&sum, &heap, memory, 1);
  tsr__rows_init(&square, &heap, memory + 3, 1);
  for (int i = 0; i < n; i++) add_both(&sum, &square, x[i]);
  how.n = n;
  tsr__rows_spread(&sum, &square, &how, &out);
  tsr__rows_free(&sum);
  tsr__rows_free(&square);
  return tsr__dtype_get_real(how.to, &out, 0);
}

/* Of 0 and 2 x the variance is x x, whose last bit is half of what the result holds, or is beside
 * the middle by the smallest amount: x x + y y is that of x + y, x - y, -x + y, -x - y. */
TEST(variances_halfway_between_two_values)
{
  const double wide = 0x1p27 - 1, narrow = 0x1.001p0, least = 0x1p-26, tiny = 0x1p-30;
  const tsr__rows_read to_f64 = { .to = TSR_F64 }, to_f32 = { .to = TSR_F32 };
  CHECK_F64_BITS(variance((double[]){ 0, 2 * wide }, 2, to_f64), 0x1p54 - 0x1p28);
  CHECK_F64_BITS(variance((double[]){ 0, 2 * narrow }, 2, to_f32), 0x1.002p0);
  CHECK_F64_BITS(variance((double[]){ wide + least, wide - least, least - wide, -wide - least }, 4,
                          to_f64),
                 0x1p54 - 0x1p28 + 2);
  CHECK_F64_BITS(variance((double[]){ wide, -wide, 0x1p-60, -0x1p-60 }, 4, to_f64),
                 0x1p53 - 0x1p27 + 1);
  CHECK_F64_BITS(variance((double[]){ narrow + tiny, narrow - tiny, tiny - narrow, -narrow - tiny },
                          4, to_f32),
                 0x1.002002p0);
  CHECK_F64_BITS(
      variance((double[]){ 0, 2 * narrow }, 2, (tsr__rows_read){ TSR_F64, .root = true }), narrow);
}

/* Far from zero nearly all of n S2 - S1 S1 cancels; of equal values all of it does. */
TEST(variances_of_values_far_from_zero)
{
  const double far[] = { 0x1p40, 0x1p40 + 1, 0x1p40 + 2 }, same[] = { 0.1, 0.1, 0.1 };
  CHECK_F64_BITS(variance(far, 3, (tsr__rows_read){ .to = TSR_F64, .ddof = 1 }), 1.0);
  CHECK_F64_BITS(variance(same, 3, (tsr__rows_read){ .to = TSR_F32 }), 0.0);
  CHECK_F64_BITS(variance(same, 1, (tsr__rows_read){ .to = TSR_F32, .ddof = 1 }), NAN);
  CHECK_F64_BITS(variance((double[]){ 0x1p-600, 0x1p-600 * 3 }, 2,
                          (tsr__rows_read){ TSR_F64, .root = true }),
                 0x1p-600);
  CHECK_F64_BITS(variance((double[]){ 0x1p600, 0x1p600 * 3 }, 2,
                          (tsr__rows_read){ TSR_F64, .root = true }),
                 0x1p600);
}

TEST(squares_and_integers_join)
{
  tsr__acc2 wide = { 0 }, direct = { 0 };
  tsr__acc2_add(&wide, 0x1p-1074);
  tsr__acc2_add(&wide, 9.0);
  tsr__acc2_add_square(&direct, 3.0);
  tsr__acc2_add_square(&direct, 0x1p-537);
  unsigned char a[TSR__ACC2_WIRE], b[TSR__ACC2_WIRE];
  tsr__acc2_pack(&wide, a);
  tsr__acc2_pack(&direct, b);
  CHECK_BYTES(a, b, sizeof a);

  CHECK_F64_BITS(tsr__i128_f64(-((tsr__i128)1 << 100) - 1), -0x1p100);
}
