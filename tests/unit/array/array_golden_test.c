/* Operations against NumPy's values, on one device and on three. Runs at each ISA. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

enum { MOST = 64 };

static tsr_dtype dtype_named(const char *name)
{
  for (int d = TSR_BOOL; d <= TSR_F64; d++)
    if (strcmp(tsr_dtype_name((tsr_dtype)d), name) == 0) return (tsr_dtype)d;
  FAIL("dtype %s", name);
}

/* Reads "1,2,3" as elements of C memory. */
static int64_t parse(char *text, tsr_dtype dtype, void *out)
{
  int64_t count = 0;
  char *rest = NULL;
  for (char *v = strtok_r(text, ",", &rest); v; v = strtok_r(NULL, ",", &rest), count++) {
    CHECK(count < MOST);
    switch (dtype) {
    case TSR_F64: ((double *)out)[count] = strtod(v, NULL); break;
    case TSR_F32: ((float *)out)[count] = (float)strtod(v, NULL); break;
    case TSR_I64: ((int64_t *)out)[count] = strtoll(v, NULL, 10); break;
    case TSR_I32: ((int32_t *)out)[count] = (int32_t)strtol(v, NULL, 10); break;
    default: ((uint8_t *)out)[count] = *v != '0';
    }
  }
  return count;
}

static tsr_array *apply(const char *op, tsr_array *a, tsr_array *b)
{
  static const struct {
    const char *name;
    tsr_array *(*one)(tsr_array *, const char *);
    tsr_array *(*two)(tsr_array *, tsr_operand, const char *);
    tsr_array *(*all)(const tsr_reduce_args *, const char *);
  } table[] = {
    { "add", NULL, tsr_add_at, NULL },   { "sub", NULL, tsr_sub_at, NULL },
    { "mul", NULL, tsr_mul_at, NULL },   { "div", NULL, tsr_div_at, NULL },
    { "lt", NULL, tsr_lt_at, NULL },     { "le", NULL, tsr_le_at, NULL },
    { "gt", NULL, tsr_gt_at, NULL },     { "ge", NULL, tsr_ge_at, NULL },
    { "eq", NULL, tsr_eq_at, NULL },     { "ne", NULL, tsr_ne_at, NULL },
    { "mod", NULL, tsr_mod_at, NULL },   { "floordiv", NULL, tsr_floordiv_at, NULL },
    { "abs", tsr_abs_at, NULL, NULL },   { "neg", tsr_neg_at, NULL, NULL },
    { "sqrt", tsr_sqrt_at, NULL, NULL }, { "floor", tsr_floor_at, NULL, NULL },
    { "rint", tsr_rint_at, NULL, NULL }, { "sum", NULL, NULL, tsr_sum_at },
    { "prod", NULL, NULL, tsr_prod_at }, { "mean", NULL, NULL, tsr_mean_at },
    { "max", NULL, NULL, tsr_max_at },   { "min", NULL, NULL, tsr_min_at },
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].name, op) != 0) continue;
    if (table[i].one) return table[i].one(a, TSR_HERE);
    if (table[i].two) return table[i].two(a, tsr_operand_array(b), TSR_HERE);
    return table[i].all(&(tsr_reduce_args){ .x = a }, TSR_HERE);
  }
  FAIL("operation %s", op);
}

static void check_values(const char *op, tsr_dtype dtype, const void *found, const void *expected,
                         int64_t count)
{
  (void)op;
  for (int64_t i = 0; i < count; i++) {
    switch (dtype) {
    case TSR_F64: CHECK_F64_BITS(((const double *)found)[i], ((const double *)expected)[i]); break;
    case TSR_F32: CHECK_F32_BITS(((const float *)found)[i], ((const float *)expected)[i]); break;
    case TSR_I64: CHECK_I64(((const int64_t *)found)[i], ((const int64_t *)expected)[i]); break;
    case TSR_I32: CHECK_I64(((const int32_t *)found)[i], ((const int32_t *)expected)[i]); break;
    default: CHECK_I64(((const uint8_t *)found)[i], ((const uint8_t *)expected)[i]);
    }
  }
}

static void run_case(tsr_runtime *rt, char *line)
{
  char *word[6] = { 0 }, *rest = NULL;
  int words = 0;
  for (char *w = strtok_r(line, " ", &rest); w && words < 6; w = strtok_r(NULL, " ", &rest))
    word[words++] = w;
  tsr_dtype in = dtype_named(word[1]), out = dtype_named(word[2]);
  int64_t memory[4][MOST] = { { 0 } };
  int64_t count = parse(word[3], in, memory[0]);
  if (words == 6) parse(word[4], in, memory[1]);
  int64_t results = parse(word[words - 1], out, memory[2]);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding rows = tsr_on(tsr_mesh_default(rt, "x"), "x");
  tsr_array *a = tsr_put(s, memory[0], in, TSR_SHAPE(count), rows);
  tsr_array *b = words == 6 ? tsr_put(s, memory[1], in, TSR_SHAPE(count), rows) : NULL;
  tsr_array *r = apply(word[0], a, b);
  CHECK(tsr_dtype_of(r) == out);
  CHECK_STATUS(tsr_read(r, memory[3], (size_t)results * tsr_dtype_size(out)), TSR_OK, s);
  check_values(word[0], out, memory[3], memory[2], results);
  tsr_scope_close(s);
}

static void run_all(const char *devices)
{
  tsr_runtime *rt = tsr_runtime_open(devices);
  char *text = test_read(test_file("golden/arrays.txt"), NULL), *rest = NULL;
  int cases = 0;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), cases++)
    run_case(rt, line);
  CHECK(cases > 60);
  free(text);
  tsr_runtime_close(rt);
}

TEST(operations_on_one_device_are_numpys)
{
  run_all("cpu:1");
}

TEST(operations_on_three_devices_are_numpys)
{
  run_all("cpu:3");
}

TEST(the_asked_for_instruction_set_runs)
{
  const char *asked = getenv("TSR_ISA");
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  if (asked) CHECK_STR(tsr_isa(rt), asked);
  tsr_runtime_close(rt);
  rt = tsr_runtime_open("cpu:1", .isa = "baseline");
  CHECK_STR(tsr_isa(rt), "baseline");
  tsr_runtime_close(rt);
  rt = tsr_runtime_open("cpu:1", .isa = "sse9");
  CHECK(tsr_runtime_status(rt) != TSR_OK);
  CHECK_STR_HAS(tsr_runtime_message(rt), "sse9");
  tsr_runtime_close(rt);
}
