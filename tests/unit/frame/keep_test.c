/* Frames kept in another scope. */
#include "tessera.h"

#include "frame/chain/chain.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

static tsr_frame *chain(tsr_scope *s)
{
  static const char text[] = "k,a,b\nx,1,0.5\ny,2,\nx,3,2.5\nz,,4\ny,5,5.5\n";
  test_write(test_tmp("keep.csv"), text, sizeof text - 1);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("keep.csv"));
  df = tsr_frame_filter(df, "a is null or a > 1");
  return tsr_frame_assign(df, "c", "a * 2");
}

TEST(a_kept_frame_outlives_its_chain)
{
  for (int devices = 1; devices <= 8; devices += devices < 3 ? 1 : 5) {
    char names[16];
    snprintf(names, sizeof names, "cpu:%d", devices);
    tsr_runtime *rt = tsr_runtime_open(names);
    tsr_scope *outer = tsr_scope_open(rt), *inner = tsr_scope_open(outer);
    tsr_frame *kept = tsr_frame_keep(outer, chain(inner));
    CHECK_STR(tsr_message(inner), "");
    tsr_scope_close(inner);
    CHECK_STR(tsr_message(outer), "");
    CHECK(!tsr_frame_is_inert(kept));
    CHECK_STR(tsr_frame_schema(kept), "k  text\na  i64\nb  f64\nc  i64\n");
    tsr_frame *more = tsr_frame_group_agg(kept, "k", "n = count(), s = sum(c)");
    more = tsr_frame_sort(more, "n desc, s");
    tsr_table *t = NULL;
    CHECK_I64(tsr_frame_collect(more, &t), TSR_OK);
    CHECK_I64(tsr_table_row_count(t), 3);
    CHECK_STR(tsr_table_text(t, 0, 0), "y");
    CHECK_I64(tsr_table_i64(t, 0, 2), 14);
    CHECK_STR(tsr_table_text(t, 1, 0), "z");
    CHECK_STR(tsr_table_text(t, 2, 0), "x");
    CHECK_I64(tsr_frame_collect(kept, &t), TSR_OK);
    CHECK_I64(tsr_table_row_count(t), 4);
    CHECK(tsr_table_is_null(t, 2, 1) && tsr_table_is_null(t, 0, 2) && tsr_table_is_null(t, 2, 3));
    tsr_scope_close(outer);
    tsr_runtime_close(rt);
  }
}

TEST(a_kept_row_is_broadcast)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt), *inner = tsr_scope_open(s);
  double x[4] = { 1, 2, 3, 6 };
  tsr_frame *df =
      tsr_frame_new(inner, { "x", tsr_put(inner, x, TSR_F64, TSR_SHAPE(4), (tsr_sharding){ 0 }) });
  tsr_frame *mean = tsr_frame_keep(s, tsr_frame_mean(df));
  tsr_frame *shared = tsr_frame_keep(s, df);
  tsr_scope_close(inner);
  tsr_table *t = NULL;
  CHECK_I64(tsr_frame_collect(tsr_frame_div(shared, mean), &t), TSR_OK);
  CHECK(tsr_table_f64(t, 3, 0) == 2.0);
  CHECK(tsr_row_f64(tsr_frame_row(mean), "x") == 3.0);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(keeping_again_and_again_takes_no_memory_of_the_source)
{
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .allocator = &allocator);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *kept = tsr_frame_keep(s, chain(s));
  int64_t blocks = 0;
  for (int step = 0; step < 2000; step++) {
    tsr_scope *beside = tsr_scope_open(rt);
    CHECK(!tsr_frame_is_inert(tsr_frame_keep(beside, kept)));
    tsr_scope_close(beside);
    if (step == 50) blocks = state.live;
  }
  CHECK_I64(state.live, blocks);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

TEST(what_cannot_be_kept_says_why)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:1"), *other = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt), *inner = tsr_scope_open(s), *far = tsr_scope_open(other);
  CHECK(tsr_frame_is_inert(tsr_frame_keep(s, NULL)));
  CHECK_I64(tsr_scope_status(s), TSR_EARG);
  tsr_scope_clear(s);
  CHECK(tsr_frame_is_inert(tsr_frame_keep(s, tsr_frame_filter(chain(inner), "none > 1"))));
  CHECK_I64(tsr_scope_status(s), TSR_ECOLUMN);
  tsr_scope_clear(s);
  tsr_scope_clear(inner);
  CHECK(tsr_frame_is_inert(tsr_frame_keep(far, chain(inner))));
  CHECK_I64(tsr_scope_status(far), TSR_EARG);
  remove(test_tmp("keep.csv"));
  tsr_frame *df = chain(inner);
  remove(test_tmp("keep.csv"));
  tsr_frame *kept = tsr_frame_keep(s, df);
  (void)kept;
  tsr_scope_close(inner);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  tsr_scope_close(far);
  tsr_runtime_close(other);
}

/* A frame has its columns in use while it is there, and nobody else has: no more and no less. */
TEST(a_kept_frame_uses_its_columns)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *kept = tsr_frame_keep(s, chain(s));
  tsr_array *column[4];
  CHECK_STATUS(tsr_scope_status(s), TSR_OK, s);
  CHECK_I64(kept->schema.count, 4);
  for (int i = 0; i < 4; i++) {
    column[i] = kept->source->col[i].values;
    CHECK_I64(tsr__array_users(column[i]), 1);
  }
  kept->node.release(&kept->node);
  for (int i = 0; i < 4; i++) CHECK_I64(tsr__array_users(column[i]), 0);
  tsr_runtime_close(rt);
}
