/* Thirteen element types through the public calls: casts and arithmetic against JAX, and every way
 * in and out. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden_arrays.h"
#include "tessera.h"

enum { MOST = 80, LINE = 8192 };

static const tsr_dtype dtypes[] = { TSR_BOOL, TSR_I8,  TSR_I16, TSR_I32,  TSR_I64, TSR_U8, TSR_U16,
                                    TSR_U32,  TSR_U64, TSR_F16, TSR_BF16, TSR_F32, TSR_F64 };
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static bool is_real(tsr_dtype dtype)
{
  return dtype >= TSR_F16;
}

/* "1f,0,80" as elements of `size` bytes; how many. */
static int64_t take_bits(char *text, size_t size, void *out)
{
  int64_t count = 0;
  char *rest = NULL;
  for (char *v = strtok_r(text, ",", &rest); v; v = strtok_r(NULL, ",", &rest), count++) {
    uint64_t bits = strtoull(v, NULL, 16);
    CHECK(count < MOST);
    memcpy((char *)out + (size_t)count * size, &bits, size);
  }
  return count;
}

static tsr_array *apply(const char *what, tsr_dtype to, tsr_array *a, tsr_array *b)
{
  if (!strcmp(what, "cast")) return tsr_cast(a, to);
  if (!strcmp(what, "add")) return tsr_add(a, b);
  if (!strcmp(what, "sub")) return tsr_sub(a, b);
  if (!strcmp(what, "mul")) return tsr_mul(a, b);
  if (!strcmp(what, "div")) return tsr_div(a, b);
  if (!strcmp(what, "floordiv")) return tsr_floordiv(a, b);
  if (!strcmp(what, "mod")) return tsr_mod(a, b);
  if (!strcmp(what, "lt")) return tsr_lt(a, b);
  if (!strcmp(what, "maximum")) return tsr_maximum(a, b);
  if (!strcmp(what, "sum")) return tsr_sum(a);
  if (!strcmp(what, "min")) return tsr_min(a);
  if (!strcmp(what, "max")) return tsr_max(a);
  FAIL("no operation %s", what);
}

/* "what dtype result operand [operand] bits" */
static void check_case(tsr_scope *outer, const tsr_mesh *mesh, char *line)
{
  char *rest = NULL, *field[6] = { NULL };
  int count = 0;
  for (char *f = strtok_r(line, " \n", &rest); f && count < 6; f = strtok_r(NULL, " \n", &rest))
    field[count++] = f;
  CHECK(count >= 5);
  tsr_dtype from = golden_dtype(field[1]), to = golden_dtype(field[2]);
  uint64_t in[2][MOST], want[MOST];
  tsr_scope *s = tsr_scope_open(outer);
  tsr_array *x[2] = { NULL, NULL };
  int64_t n = 0;
  for (int i = 0; i < count - 4; i++) {
    n = take_bits(field[3 + i], tsr_dtype_size(from), in[i]);
    x[i] = tsr_put(s, in[i], from, TSR_SHAPE(n), tsr_on(mesh, "x"));
  }
  int64_t results = take_bits(field[count - 1], tsr_dtype_size(to), want);
  tsr_array *y = apply(field[0], to, x[0], x[1]);
  CHECK_STR(tsr_dtype_name(tsr_dtype_of(y)), tsr_dtype_name(to));
  char what[80];
  snprintf(what, sizeof what, "%s of %s", field[0], field[1]);
  golden_check_bits(what, s, y, results, want);
  tsr_scope_close(s);
}

TEST_TIMEOUT(casts_and_arithmetic_are_as_in_jax, 200)
{
  static char line[LINE];
  for (int devices = 1; devices <= 3; devices += 2) {
    char text[16];
    snprintf(text, sizeof text, "cpu:%d", devices);
    tsr_runtime *rt = tsr_runtime_open(text);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_mesh *mesh = tsr_mesh_default(rt, "x");
    FILE *file = fopen(test_file("golden/dtypes.txt"), "r");
    CHECK(file);
    int cases = 0;
    for (; fgets(line, sizeof line, file); cases++) check_case(s, mesh, line);
    CHECK(cases > 200);
    fclose(file);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
}

/* Just above the middle between two neighbours: rounded to f32 on the way they would become
 * ties. */
TEST(casts_to_16_bits_round_once)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  double x[2] = { 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40 };
  int64_t i[1] = { (INT64_C(1) << 33) + (INT64_C(1) << 25) + 1 };
  uint16_t f16[2], bf16[2], whole[1];
  tsr_array *a = tsr_put(s, x, TSR_F64, TSR_SHAPE(2), (tsr_sharding){ 0 });
  tsr_array *b = tsr_put(s, i, TSR_I64, TSR_SHAPE(1), (tsr_sharding){ 0 });
  CHECK_STATUS(tsr_read(tsr_cast(a, TSR_F16), f16, sizeof f16), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_cast(a, TSR_BF16), bf16, sizeof bf16), TSR_OK, s);
  CHECK_STATUS(tsr_read(tsr_cast(b, TSR_BF16), whole, sizeof whole), TSR_OK, s);
  CHECK_I64(f16[0], 0x3c01);
  CHECK_I64(bf16[1], 0x3f81);
  CHECK_I64(whole[0], 0x5001);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* As NumPy prints them; next to a power of two the shortest text is not the nearest one. */
TEST(floats_of_16_bits_print_as_in_numpy)
{
  static const struct {
    uint16_t bits[4];
    int64_t count;
    const char *text;
  } cases[] = {
    { { 0x2400 }, 1, "[0.01563]" },
    { { 0x2e66, 0x2400, 0x3555 }, 3, "[0.1     0.01563 0.3333 ]" },
    { { 0x7bff, 0x0001 }, 2, "[6.55e+04 5.96e-08]" },
    { { 0x3400, 0x2400, 0xa400, 0x2c01 }, 4, "[ 0.25     0.01563 -0.01563  0.06256]" }
  };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECK_STR(tsr_text_of(tsr_put(s, cases[i].bits, TSR_F16, TSR_SHAPE(cases[i].count),
                                  (tsr_sharding){ 0 })),
              cases[i].text);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* Element i of any type: small whole numbers, which all have. */
static void fill(tsr_dtype dtype, int64_t n, void *out)
{
  static const uint16_t f16[] = { 0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600 };
  static const uint16_t bf16[] = { 0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0 };
  for (int64_t i = 0; i < n; i++) {
    int64_t whole = dtype == TSR_BOOL ? i % 2 : i % 7;
    float f32 = (float)whole;
    double f64 = (double)whole;
    const void *from = dtype == TSR_F16    ? (const void *)&f16[whole]
                       : dtype == TSR_BF16 ? (const void *)&bf16[whole]
                       : dtype == TSR_F32  ? (const void *)&f32
                       : dtype == TSR_F64  ? (const void *)&f64
                                           : (const void *)&whole;
    memcpy((char *)out + (size_t)i * tsr_dtype_size(dtype), from, tsr_dtype_size(dtype));
  }
}

TEST(what_goes_in_comes_out)
{
  enum { N = 1003 };
  static uint64_t in[N], out[N];
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  for (int d = 0; d < DTYPES; d++) {
    tsr_scope *s = tsr_scope_open(rt);
    size_t bytes = N * tsr_dtype_size(dtypes[d]);
    fill(dtypes[d], N, in);
    tsr_array *x = tsr_put(s, in, dtypes[d], TSR_SHAPE(N), tsr_on(mesh, "x"));
    CHECK_STATUS(tsr_read(x, out, bytes), TSR_OK, s);
    CHECK_BYTES(out, in, bytes);
    tsr_array *same = tsr_cast(tsr_cast(x, TSR_F64), dtypes[d]);
    CHECK_STATUS(tsr_read(tsr_reshard(same, tsr_on(mesh, "-")), out, bytes), TSR_OK, s);
    CHECK_BYTES(out, in, bytes);
    double total = 0, want = dtypes[d] == TSR_BOOL ? 501 : N / 7 * 21 + 1;
    tsr_array *wide = is_real(dtypes[d]) ? tsr_cast(x, TSR_F64) : x;
    CHECK_STATUS(tsr_read_scalar(tsr_sum(wide), &total), TSR_OK, s);
    CHECK_F64_BITS(total, want);
    CHECK_STATUS(tsr_read_scalar(tsr_max(x), &total), TSR_OK, s);
    CHECK_F64_BITS(total, dtypes[d] == TSR_BOOL ? 1 : 6);
    CHECK_STATUS(tsr_read_scalar(tsr_mean(x), &total), TSR_OK, s);
    CHECK(fabs(total - want / N) < 0.02);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(files_keep_types)
{
  enum { N = 50 };
  static uint64_t in[N], out[N];
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2");
  for (int d = 0; d < DTYPES; d++) {
    if (dtypes[d] == TSR_BF16) continue;
    tsr_scope *s = tsr_scope_open(rt);
    fill(dtypes[d], N, in);
    tsr_array *x = tsr_put(s, in, dtypes[d], TSR_SHAPE(N), tsr_on(mesh, "x"));
    const char *path = test_tmp("x.npy");
    CHECK_STATUS(tsr_save_npy(x, path), TSR_OK, s);
    tsr_array *y = tsr_load_npy(s, path, tsr_on(mesh, "x"));
    CHECK(tsr_dtype_of(y) == dtypes[d]);
    CHECK_STATUS(tsr_read(y, out, N * tsr_dtype_size(dtypes[d])), TSR_OK, s);
    CHECK_BYTES(out, in, N * tsr_dtype_size(dtypes[d]));
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(values_print_as_their_type_has_them)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_full(s, 0.1, TSR_F16, TSR_SHAPE(2), (tsr_sharding){ 0 });
  CHECK_STR(tsr_text_of(x), "[0.1 0.1]");
  CHECK_STR(tsr_text_of(tsr_full(s, 65504, TSR_F16, TSR_SHAPE(1), (tsr_sharding){ 0 })),
            "[65500.]");
  CHECK_STR(tsr_text_of(tsr_full(s, 3.14159, TSR_BF16, TSR_SHAPE(1), (tsr_sharding){ 0 })),
            "[3.14]");
  uint64_t large[2] = { UINT64_MAX, 5 };
  CHECK_STR(tsr_text_of(tsr_put(s, large, TSR_U64, TSR_SHAPE(2), (tsr_sharding){ 0 })),
            "[18446744073709551615                    5]");
  int8_t small[2] = { -128, 7 };
  CHECK_STR(tsr_text_of(tsr_put(s, small, TSR_I8, TSR_SHAPE(2), (tsr_sharding){ 0 })),
            "[-128    7]");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(draws_of_few_bits_stay_below_1)
{
  enum { N = 100000 };
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=3");
  for (int d = 0; d < DTYPES; d++) {
    if (!is_real(dtypes[d])) continue;
    tsr_array *u = tsr_uniform(s, .key = 5, .dtype = dtypes[d], .shape = TSR_SHAPE(N),
                               .on = tsr_on(mesh, "x"));
    double most = 2, mean = 0;
    CHECK_STATUS(tsr_read_scalar(tsr_max(u), &most), TSR_OK, s);
    CHECK(most < 1 && most > 0.98);
    CHECK_STATUS(tsr_read_scalar(tsr_mean(tsr_cast(u, TSR_F64)), &mean), TSR_OK, s);
    CHECK(fabs(mean - 0.5) < 0.01);
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(numbers_must_fit)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  int8_t small[2] = { -128, 7 };
  tsr_array *x = tsr_put(s, small, TSR_I8, TSR_SHAPE(2), (tsr_sharding){ 0 });
  CHECK(tsr_is_inert(tsr_add(x, 200)));
  CHECK_STR_HAS(tsr_message(s), "the integer 200 does not fit i8");
  tsr_scope_close(s);
  s = tsr_scope_open(rt);
  uint8_t bytes[2] = { 3, 4 };
  tsr_array *b = tsr_put(s, bytes, TSR_U8, TSR_SHAPE(2), (tsr_sharding){ 0 });
  CHECK(tsr_is_inert(tsr_sub(b, -1)));
  CHECK_STR_HAS(tsr_message(s), "the integer -1 does not fit u8");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
