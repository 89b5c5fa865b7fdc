/* Element types: the table, and promotion against JAX's. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#include "topology/topology.h"

static int dtype_named(const char *name)
{
  TSR__FOR_DTYPES(dtype)
  if (strcmp(tsr_dtype_name((tsr_dtype)dtype), name) == 0) return dtype;
  return 0;
}

TEST(pairs_meet_as_in_jax)
{
  FILE *file = fopen(test_file("golden/promote.txt"), "r");
  char a[16], b[16], meet[16];
  int met = 0, known = 0;
  CHECK(file);
  while (fscanf(file, "%15s %15s %15s", a, b, meet) == 3) {
    int left = dtype_named(a), right = dtype_named(b);
    if (!left || !right) continue; /* not ours */
    met++;
    CHECK_STR(tsr_dtype_name(tsr__promote((tsr_dtype)left, (tsr_dtype)right)), meet);
  }
  fclose(file);
  TSR__FOR_DTYPES(dtype) known++;
  CHECK_I64(met, known * known);
}

TEST(rows_agree_with_themselves)
{
  TSR__FOR_DTYPES(dtype)
  {
    const tsr__dtype_info *row = tsr__dtype_info_of((tsr_dtype)dtype);
    const tsr__dtype_info *computes = tsr__dtype_info_of((tsr_dtype)row->computes);
    CHECK_I64(computes->computes, row->computes);
    CHECK(computes->kind == row->kind && computes->precision >= row->precision);
    CHECK_I64((int64_t)tsr_dtype_size((tsr_dtype)dtype) * 8, row->bits);
    CHECK_I64(tsr__promote((tsr_dtype)dtype, (tsr_dtype)0), dtype);
  }
}

/* kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLBool 6 of dlpack.h. */
TEST(types_have_their_codes_of_dlpack)
{
  static const struct {
    const char *name;
    int code, bits;
  } rows[] = { { "bool", 6, 8 }, { "i8", 0, 8 },   { "i16", 0, 16 },  { "i32", 0, 32 },
               { "i64", 0, 64 }, { "u8", 1, 8 },   { "u16", 1, 16 },  { "u32", 1, 32 },
               { "u64", 1, 64 }, { "f16", 2, 16 }, { "bf16", 4, 16 }, { "f32", 2, 32 },
               { "f64", 2, 64 } };
  int known = 0;
  TSR__FOR_DTYPES(dtype) known++;
  CHECK_I64(known, (int64_t)(sizeof rows / sizeof *rows));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const tsr__dtype_info *info = tsr__dtype_info_of((tsr_dtype)dtype_named(rows[i].name));
    CHECK_I64(info->dlpack, rows[i].code);
    CHECK_I64(info->bits, rows[i].bits);
  }
}

TEST(what_is_no_dtype_has_no_name)
{
  CHECK_STR(tsr_dtype_name((tsr_dtype)0), "?");
  CHECK_STR(tsr_dtype_name((tsr_dtype)99), "?");
  CHECK_I64((int64_t)tsr_dtype_size((tsr_dtype)-1), 0);
  CHECK(!tsr__dtype_known((tsr_dtype)3000));
  CHECK_I64(tsr__dtype_least((tsr_dtype)0), 0);
  CHECK_I64((int64_t)tsr__dtype_most((tsr_dtype)0), 0);
}
