/* Numbers beside arrays, on either side: their kind counts and not their dtype, as in JAX. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera.h>

#include "topology/topology.h"

/* Every macro of two operands; the headers say how many there are. */
static const struct {
  const char *name;
  tsr_binary_fn *call;
} calls[] = {
#define CALL(name)         \
  {                        \
#name, tsr_##name##_at \
  }
  CALL(add),         CALL(sub),         CALL(mul),   CALL(div),       CALL(floordiv),
  CALL(mod),         CALL(fmod),        CALL(pow),   CALL(minimum),   CALL(maximum),
  CALL(copysign),    CALL(nextafter),   CALL(atan2), CALL(hypot),     CALL(logaddexp),
  CALL(eq),          CALL(ne),          CALL(lt),    CALL(le),        CALL(gt),
  CALL(ge),          CALL(and),         CALL(or),    CALL(xor),       CALL(left_shift),
  CALL(right_shift), CALL(fmin),        CALL(fmax),  CALL(heaviside), CALL(logical_and),
  CALL(logical_or),  CALL(logical_xor),
#undef CALL
};
enum { CALLS = sizeof calls / sizeof *calls };

static const tsr_sharding nowhere = { 0 };

static int calls_in(const char *header)
{
  FILE *file = fopen(test_file(header), "r");
  char line[256];
  int count = 0;
  CHECK(file);
  while (fgets(line, sizeof line, file))
    count += !strncmp(line, "#define tsr_", 12) && strstr(line, "TSR_BINARY_(") != NULL;
  fclose(file);
  return count;
}

TEST(every_call_of_two_operands_is_tried)
{
  CHECK_I64(CALLS, calls_in("../include/tessera/operations.h") +
                       calls_in("../include/tessera/elementwise.h"));
}

static tsr_operand number(char kind)
{
  if (kind == 'i') return tsr_operand_int(2);
  return kind == 'f' ? tsr_operand_float(2.5) : tsr_operand_bool(true);
}

static int dtype_named(const char *name)
{
  TSR__FOR_DTYPES(dtype)
  if (strcmp(tsr_dtype_name((tsr_dtype)dtype), name) == 0) return dtype;
  return 0;
}

/* A call of an array and a number, which stands on a side as itself or as an array of tsr_num. */
static tsr_array *made(tsr_scope *s, tsr_binary_fn *call, tsr_array *x, char kind, bool left,
                       bool wrapped)
{
  tsr_operand n = number(kind), of_x = tsr_operand_array(x);
  if (wrapped) n = tsr_operand_array(tsr_num_at(s, n.number, TSR_HERE));
  return left ? tsr_binary_at(call, n, of_x, TSR_HERE) : tsr_binary_at(call, of_x, n, TSR_HERE);
}

/* The same bytes from both. */
static void check_same(tsr_array *a, tsr_array *b)
{
  char left[64] = { 0 }, right[64] = { 0 };
  size_t bytes = 2 * tsr_dtype_size(tsr_dtype_of(a));
  CHECK(tsr_dtype_of(a) == tsr_dtype_of(b));
  CHECK_I64(tsr_read(a, left, bytes), TSR_OK);
  CHECK_I64(tsr_read(b, right, bytes), TSR_OK);
  CHECK_BYTES(left, right, bytes);
}

TEST(dtypes_are_those_of_jax)
{
  FILE *file = fopen(test_file("golden/weak.txt"), "r");
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  char name[16], dtype[16], side[16], kind[16], expected[16];
  int cases = 0, refused = 0;
  CHECK(file);
  while (fscanf(file, "%15s %15s %15s %15s %15s", name, dtype, side, kind, expected) == 5) {
    tsr_scope *s = tsr_scope_open(rt);
    int i = 0;
    while (i < CALLS && strcmp(calls[i].name, name) != 0) i++;
    CHECK(i < CALLS && dtype_named(dtype));
    bool left = side[0] == 'l';
    tsr_array *x = tsr_full(s, 1, (tsr_dtype)dtype_named(dtype), TSR_SHAPE(2), nowhere);
    tsr_array *plain = made(s, calls[i].call, x, kind[0], left, false);
    tsr_array *wrapped = made(s, calls[i].call, x, kind[0], left, true);
    cases++;
    if (tsr_is_inert(plain)) {
      /* What is refused is refused on both sides, and says why. */
      CHECK(tsr_is_inert(made(s, calls[i].call, x, kind[0], !left, false)));
      CHECK(tsr_is_inert(wrapped) && tsr_message(s)[0]);
      refused++;
    } else {
      if (strcmp(tsr_dtype_name(tsr_dtype_of(plain)), expected) != 0)
        test_fail(TEST_SITE_("dtype"), "%s of %s, %s %s: %s, expected %s", name, dtype, side, kind,
                  tsr_type_of(plain), expected);
      check_same(plain, wrapped);
    }
    tsr_scope_close(s);
  }
  fclose(file);
  tsr_runtime_close(rt);
  CHECK(cases > 2000 && refused < 100);
}

/* A number is what an array full of it is, in the dtype that it takes. */
TEST(numbers_are_what_arrays_of_them_are)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  for (int i = 0; i < CALLS; i++) TSR__FOR_DTYPES(dtype)
  for (int k = 0; k < 3; k++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *x = tsr_cast(tsr_arange(s, .start = 1, .stop = 3), (tsr_dtype)dtype);
    char kind = "ifb"[k];
    tsr_array *one = made(s, calls[i].call, x, kind, true, false);
    /* As the call on the right side of addition, which JAX's table holds. */
    tsr_array *sum =
        tsr_add_at(tsr_full(s, 0, (tsr_dtype)dtype, TSR_SHAPE(2), nowhere), number(kind), TSR_HERE);
    tsr_array *all =
        tsr_full_at(s, number(kind), tsr_dtype_of(sum), TSR_SHAPE(2), nowhere, TSR_HERE);
    tsr_array *full = calls[i].call(all, tsr_operand_array(x), TSR_HERE);
    bool logic = dtype == TSR_BOOL;
    if (!logic) CHECK(tsr_is_inert(one) == tsr_is_inert(full));
    if (!logic && !tsr_is_inert(one)) check_same(one, full);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}

TEST(macros_take_numbers_on_the_left)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_full(s, 0.25, TSR_F32, TSR_SHAPE(2), nowhere), *out[2];
  CHECK_STR(tsr_type_of(tsr_sub(1.0, x)), "f32[2]");
  CHECK_STR(tsr_text_of(tsr_sub(1.0, x)), "[0.75 0.75]");
  CHECK_STR(tsr_text_of(tsr_div(1, tsr_mul(2, tsr_sub(1.0f, x)))), "[0.6666667 0.6666667]");
  CHECK_STR(tsr_text_of(tsr_fma(2.0, x, 1)), "[1.5 1.5]");
  CHECK_STR(tsr_type_of(tsr_fma(2.0, 0.5, x)), "f32[2]");
  CHECK_STR(tsr_type_of(tsr_fma(tsr_num(s, 2.0), x, 0.5)), "f32[2]");
  tsr_divmod(1, x, out);
  CHECK_STR(tsr_text_of(out[0]), "[4. 4.]");
  CHECK_STR(tsr_type_of(out[1]), "f32[2]");
  CHECK_STR(tsr_type_of(tsr_clip(tsr_num(s, 2.0), x, 1.0)), "f32[2]");
  CHECK_STR(tsr_type_of(tsr_where(tsr_gt(x, 0), tsr_num(s, 2.0), x)), "f32[2]");
  CHECK_STR(tsr_type_of(tsr_outer(tsr_num(s, 2.0), x)), "f32[1,2]");
  CHECK_STR(tsr_type_of(tsr_add(tsr_cast(tsr_num(s, 2.0), TSR_F64), x)), "f64[2]");
  CHECK_STR(tsr_type_of(tsr_add(tsr_num(s, 1), tsr_num(s, 2.0))), "f64[]");
  CHECK(!tsr_scope_status(s));
  tsr_array *i8 = tsr_full(s, 5, TSR_I8, TSR_SHAPE(2), nowhere);
  CHECK(tsr_is_inert(tsr_sub(300, i8)));
  CHECK_STR_HAS(tsr_message(s),
                "tsr_sub: the integer 300 does not fit i8; give a number that fits");
  tsr_scope_clear(s);
  CHECK(tsr_is_inert(tsr_sub(tsr_num(s, 300), i8)));
  CHECK_STR_HAS(tsr_message(s), "tsr_sub: the integer 300 does not fit i8");
  tsr_runtime_close(rt);
}
