/* Queries on the weather file against pandas and rational arithmetic (golden/make_frames.py), on
 * meshes of several sizes: every bit of every value. */
#include "support/first_axis.h"
#include "tessera.h"

#include "harness.h"
#include "support/golden_rows.h"

#include <stdlib.h>
#include <string.h>

static tsr_frame *build(tsr_frame *df, golden_reader *r)
{
  char *text;
  if ((text = golden_after(r, "where"))) {
    df = tsr_frame_filter(df, text);
    golden_step(r);
  }
  if ((text = golden_after(r, "with"))) {
    char *expr = strchr(text, ' ');
    *expr++ = 0;
    df = tsr_frame_assign(df, text, expr);
    golden_step(r);
  }
  char *keys = golden_after(r, "by");
  if (keys) golden_step(r);
  text = golden_after(r, "agg");
  CHECK(text != NULL);
  golden_step(r);
  return keys ? tsr_frame_group_agg(df, keys, text) : tsr_frame_agg(df, text);
}

static void check_query(tsr_scope *s, tsr_frame *weather, golden_reader *r)
{
  tsr_table *table = NULL;
  golden_step(r);
  tsr_frame *df = build(weather, r);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, s);
  golden_check_rows(r, table);
}

TEST(frame_queries_give_what_pandas_and_fractions_give)
{
  static const char *const meshes[] = { "data=1", "data=3", "data=8" };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int m = 0; m < 3; m++) {
    char *text = test_read(test_file("golden/frames.txt"), NULL);
    golden_reader r = { .next = text };
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *weather = tsr_frame_read_csv(s, test_file("../examples/data/weather.csv"),
                                            .on = first_axis(tsr_mesh_make(rt, meshes[m])));
    int queries = 0;
    for (golden_step(&r); golden_after(&r, "query"); queries++) check_query(s, weather, &r);
    CHECK_I64(queries, 8);
    CHECK(!r.line);
    tsr_scope_close(s);
    free(text);
  }
  tsr_runtime_close(rt);
}
