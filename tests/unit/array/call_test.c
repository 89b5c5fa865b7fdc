/* How calls take what they are given: numbers with all their bits, structs that begin with their
 * size, and the line that they stand at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

/* Checks that a scope has an error whose text has `part`, and forgets it. */
static void expect(tsr_scope *s, tsr_status status, const char *part)
{
  CHECK_STATUS(tsr_scope_status(s), status, s);
  CHECK_STR_HAS(tsr_message(s), part);
  tsr_scope_clear(s);
}

TEST(unsigned_integers_keep_their_bits_or_are_refused)
{
  int64_t ones[2] = { 1, 1 };
  double halves[2] = { 0.5, 0.5 }, sum[2];
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *i = tsr_put(s, ones, TSR_I64, TSR_SHAPE(2), (tsr_sharding){ 0 });
  tsr_array *f = tsr_put(s, halves, TSR_F64, TSR_SHAPE(2), (tsr_sharding){ 0 });
  CHECK_I64(tsr_scalar_uint(UINT64_MAX).u == UINT64_MAX, 1);
  tsr_array *small = tsr_add(i, (uint64_t)INT64_MAX);
  CHECK_I64(tsr_dtype_of(small), TSR_I64);
  CHECK(tsr_is_inert(tsr_add(i, UINT64_MAX)));
  expect(s, TSR_EDTYPE, "the integer 18446744073709551615 does not fit i64");
  tsr_array *most = tsr_num(s, UINT64_MAX);
  uint64_t bits = 0;
  CHECK_STR(tsr_type_of(most), "u64[]");
  CHECK_STATUS(tsr_read(most, &bits, sizeof bits), TSR_OK, s);
  CHECK(bits == UINT64_MAX);
  CHECK(tsr_is_inert(tsr_num(s, "1")));
  expect(s, TSR_EDTYPE, "tsr_num: a text is not a number");
  CHECK_STATUS(tsr_read(tsr_mul(f, UINT64_MAX), sum, sizeof sum), TSR_OK, s);
  CHECK_F64_BITS(sum[0], 0x1p63);
  tsr_frame *df = tsr_frame_new(s, { "i", i }, { "f", f });
  CHECK(tsr_frame_is_inert(tsr_frame_mul(df, UINT64_MAX)));
  expect(s, TSR_EDTYPE, "tsr_frame_mul: the integer 18446744073709551615 does not fit i64");
  CHECK(tsr_frame_is_inert(tsr_frame_filter(df, "i < ?", UINT64_MAX)));
  expect(s, TSR_EPARSE, "the integer 18446744073709551615 given for this '?' does not fit i64");
  CHECK(!tsr_frame_is_inert(tsr_frame_filter(tsr_frame_mul(df, 2u), "i < ?", 3ul)));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* A struct of a later version: ours and a field more. */
#define LATER(type, name) \
  struct {                \
    type now;             \
    int64_t more;         \
  } name = { 0 }

TEST(structs_of_later_versions_are_taken_as_far_as_they_are_known)
{
  _Alignas(64) static double data[4] = { 1, 2, 3, 4 };
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, data, TSR_F64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  double total = 0;
  LATER(tsr_reduce_args, sum);
  LATER(tsr_random_args, draw);
  LATER(tsr_adopt_args, adopt);
  LATER(tsr_shards_args, shards);
  sum.now = (tsr_reduce_args){ .size = sizeof sum, .x = x };
  draw.now = (tsr_random_args){ .size = sizeof draw, .key = 1, .shape = TSR_SHAPE(4) };
  adopt.now = (tsr_adopt_args){
    .size = sizeof adopt, .data = data, .dtype = TSR_F64, .shape = TSR_SHAPE(4)
  };
  shards.now = (tsr_shards_args){ .size = sizeof shards,
                                  .shards = (const void *const[]){ data },
                                  .count = 1,
                                  .dtype = TSR_F64,
                                  .shape = TSR_SHAPE(4) };
  CHECK_STATUS(tsr_read_scalar(tsr_sum_at(&sum.now, NULL), &total), TSR_OK, s);
  CHECK_F64_BITS(total, 10);
  CHECK(!tsr_is_inert(tsr_uniform_at(s, &draw.now, NULL)));
  CHECK(!tsr_is_inert(tsr_adopt_at(s, &adopt.now, NULL)));
  CHECK(!tsr_is_inert(tsr_from_shards_at(s, &shards.now, NULL)));
  sum.more = draw.more = adopt.more = shards.more = 1;
  CHECK(tsr_is_inert(tsr_sum_at(&sum.now, "later.c:1")));
  expect(s, TSR_EUNSUPPORTED,
         "later.c:1: TSR_EUNSUPPORTED: tsr_sum: an option is set that version");
  CHECK(tsr_is_inert(tsr_uniform_at(s, &draw.now, NULL)));
  expect(s, TSR_EUNSUPPORTED, "tsr_uniform: an option is set");
  CHECK(tsr_is_inert(tsr_adopt_at(s, &adopt.now, NULL)));
  expect(s, TSR_EUNSUPPORTED, "tsr_adopt: an option is set");
  CHECK(tsr_is_inert(tsr_from_shards_at(s, &shards.now, NULL)));
  expect(s, TSR_EUNSUPPORTED, "tsr_from_shards: an option is set");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(structs_of_earlier_versions_have_fewer_fields)
{
  double data[4] = { 1, 2, 3, 4 }, total = 0;
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, data, TSR_F64, TSR_SHAPE(4), (tsr_sharding){ 0 });
  tsr_reduce_args sum = { .size = offsetof(tsr_reduce_args, ddof), .x = x, .ddof = 3 };
  CHECK_STATUS(tsr_read_scalar(tsr_var_at(&sum, NULL), &total), TSR_OK, s);
  CHECK_F64_BITS(total, 1.25); /* ddof 0 */
  CHECK(tsr_is_inert(tsr_sum_at(NULL, NULL)));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- lines ----------------------------------------------------------------------------------- */

#define HERE (__LINE__)

/* Checks that the scope's error stands at a line of this file, and forgets it. */
static void expect_line(tsr_scope *s, int line, tsr_status status)
{
  char place[64];
  snprintf(place, sizeof place, "call_test.c:%d: %s: ", line, tsr_status_name(status));
  CHECK_STR_HAS(tsr_message(s), place);
  tsr_scope_clear(s);
}

TEST(terminals_of_arrays_name_the_line_that_asked)
{
  int64_t few[1], *none = NULL;
  double *nothing = NULL;
  tsr_shard *no_shard = NULL;
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_iota(s, TSR_I64, TSR_SHAPE(4), 0, (tsr_sharding){ 0 });
  tsr_array *bad = tsr_take(x, tsr_num(s, 9), 0);
  tsr_status status;
  int line;
#define FAILS(expected, ...)         \
  line = HERE, status = __VA_ARGS__; \
  CHECK_I64(status, expected);       \
  expect_line(s, line, expected)
  FAILS(TSR_EARG, tsr_read(x, few, sizeof few));
  FAILS(TSR_ESHAPE, tsr_read_i64(x, few));
  FAILS(TSR_EARG, tsr_read_i64(tsr_sum(x), none));
  FAILS(TSR_EARG, tsr_read_scalar(tsr_sum(x), nothing));
  FAILS(TSR_EARG, tsr_shard_view(x, 0, no_shard));
  FAILS(TSR_EVALUE, tsr_wait(bad));
  FAILS(TSR_EVALUE, tsr_eval((tsr_array *[]){ x, bad }, 2));
  FAILS(TSR_EIO, tsr_save_npy(x, "no/such/place.npy"));
  FAILS(TSR_EIO, tsr_save_npz(s, "no/such/place.npz", { "x", x }));
  CHECK_STATUS(tsr_read_at(x, few, sizeof few, NULL), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_message(s), "call_test.c:");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(terminals_of_frames_name_the_line_that_asked)
{
  int64_t rows, *no_rows = NULL;
  tsr_table *table, **no_table = NULL;
  struct ArrowArrayStream *no_stream = NULL;
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_iota(s, TSR_I64, TSR_SHAPE(4), 0, (tsr_sharding){ 0 });
  tsr_frame *df = tsr_frame_new(s, { "x", x });
  tsr_frame *bad = tsr_frame_filter(tsr_frame_assign(df, "y", "x + 9223372036854775807"), "y > 0");
  tsr_status status;
  int line;
  FAILS(TSR_EARG, tsr_frame_row_count(df, no_rows));
  FAILS(TSR_EARG, tsr_frame_collect(df, no_table));
  FAILS(TSR_EARG, tsr_frame_to_arrow(df, no_stream));
  FAILS(TSR_EVALUE, tsr_frame_row_count(bad, &rows));
  FAILS(TSR_EVALUE, tsr_frame_collect(bad, &table));
  FAILS(TSR_EVALUE, tsr_frame_print(bad, stdout));
  FAILS(TSR_EVALUE, tsr_row_status(tsr_frame_row(bad)));
  FAILS(TSR_EARG, tsr_frame_write_csv(df, ""));
  FAILS(TSR_EIO, tsr_frame_write_json(df, "no/such/place.json"));
  FAILS(TSR_EIO, tsr_frame_write_markdown(df, "no/such/place.md"));
  FAILS(TSR_EIO, tsr_frame_write_text(df, "no/such/place.txt", .width = 40));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- tables by column ------------------------------------------------------------------------ */

TEST(columns_of_tables_are_seen_at_once)
{
  int64_t k[4] = { 1, 2, 3, 4 };
  static const char *const who[4] = { "a", NULL, "c", "d" };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_array *x = tsr_put(s, k, TSR_I64, TSR_SHAPE(4), tsr_on(tsr_mesh_default(rt, "d"), "d"));
  tsr_frame *df = tsr_frame_new(s, { "k", x });
  df = tsr_frame_assign(tsr_frame_text_column(df, "who", who, 4), "n", "if(k > 2, k * 1.5, null)");
  df = tsr_frame_select(tsr_frame_assign(df, "b", "k == 2"), "k, n, who, b");
  tsr_table *t = NULL;
  CHECK_STATUS(tsr_frame_collect(df, &t), TSR_OK, s);
  const int64_t *ints = tsr_table_values(t, 0);
  const double *reals = tsr_table_values(t, 1);
  const uint8_t *valid = tsr_table_valid(t, 1), *bools = tsr_table_values(t, 3);
  CHECK(!tsr_table_valid(t, 0) && valid && tsr_table_valid(t, 2));
  CHECK(!tsr_table_values(t, 2) && !tsr_table_values(t, 4) && !tsr_table_valid(t, -1));
  CHECK(!tsr_table_values(NULL, 0) && !tsr_table_valid(NULL, 0));
  for (int i = 0; i < 4; i++) {
    CHECK_I64(ints[i], i + 1);
    CHECK_I64(valid[i], i > 1);
    CHECK_I64(bools[i], i == 1);
    if (valid[i]) CHECK_F64_BITS(reals[i], (i + 1) * 1.5);
    CHECK_I64(!tsr_table_valid(t, 2)[i], tsr_table_is_null(t, i, 2));
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
