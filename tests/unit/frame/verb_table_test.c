/* What the rows of frame/chain/verbs.def say of rows and columns holds of frames that run: their
 * numbers of rows, counted, and their columns, read back. */
#include "tessera.h"

#include "frame/chain/chain.h"
#include "harness.h"

enum { ROWS = 60, MAX = 2 * ROWS, FRAMES = 24 };

static tsr_frame *base_of(tsr_runtime *rt, tsr_scope *s)
{
  int64_t k[ROWS];
  double x[ROWS];
  for (int i = 0; i < ROWS; i++) {
    k[i] = i % 4;
    x[i] = 0.5 * i;
  }
  tsr_shape shape = { 1, { ROWS } };
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=4");
  tsr_sharding at = tsr_on(mesh, "data");
  return tsr_frame_new(s, { "k", tsr_put(s, k, TSR_I64, shape, at) },
                       { "x", tsr_put(s, x, TSR_F64, shape, at) });
}

/* One frame a verb that stands on another frame; INDEX twice, on all rows and on some. */
static int frames_of(tsr_frame *df, tsr_frame **out)
{
  int n = 0;
  static const char *const words[ROWS] = { "a", "b" };
  tsr_frame *some = tsr_frame_filter(df, "x > 3");
  out[n++] = tsr_frame_text_column(df, "word", words, ROWS);
  out[n++] = tsr_frame_assign(some, "x", "x + k");
  out[n++] = tsr_frame_assign(df, "y", "x");
  out[n++] = tsr_frame_select(some, "twice = 2 * x, x, k");
  out[n++] = tsr_frame_add(some, 1);
  out[n++] = tsr_frame_with_row_index(df, "row");
  out[n++] = tsr_frame_with_row_index(some, "row");
  out[n++] = some;
  out[n++] = tsr_frame_head(some, 5);
  out[n++] = tsr_frame_tail(some, 5);
  out[n++] = tsr_frame_sample(some, .rows = 7);
  out[n++] = tsr_frame_distinct(some, "k");
  out[n++] = tsr_frame_agg(some, "sum(x)");
  out[n++] = tsr_frame_agg(some, "median(x)");
  out[n++] = tsr_frame_max(some);
  out[n++] = tsr_frame_group_agg(some, "k", "mean(x)");
  out[n++] = tsr_frame_describe(some);
  out[n++] = tsr_frame_sort(some, "x desc");
  out[n++] = tsr_frame_rebalance(some);
  out[n++] = tsr_frame_join(some, df, "k", .suffix = "_other");
  out[n++] = tsr_frame_concat(df, some);
  CHECK(n <= FRAMES);
  return n;
}

static int64_t rows_of(tsr_frame *df)
{
  int64_t rows = -1;
  CHECK_I64(tsr_frame_row_count(df, &rows), TSR_OK);
  return rows;
}

TEST(rows_are_what_the_table_says)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *all[FRAMES], *df = base_of(rt, s);
  int count = frames_of(df, all);
  for (int i = 0; i < count; i++) {
    int64_t rows = rows_of(all[i]), before = rows_of(all[i]->parent);
    bool same = tsr__frame_same_count(all[i]);
    switch (tsr__verb_of(all[i])->rows) {
    case TSR__ROWS_KEEPS:
    case TSR__ROWS_MAPS:
    case TSR__ROWS_NUMBERS:
    case TSR__ROWS_MOVES: CHECK(same && rows == before); break;
    case TSR__ROWS_PAIRS: CHECK(rows == before); break;
    case TSR__ROWS_MASKS: CHECK(!same && rows < before && tsr__frame_masked(all[i])); break;
    case TSR__ROWS_ONE: CHECK(!same && rows == 1 && all[i]->one_row); break;
    case TSR__ROWS_MAKES: CHECK(!same && rows != before && !tsr__frame_masked(all[i])); break;
    default: FAIL("a source that stands on a frame");
    }
  }
  tsr_runtime_close(rt);
}

/* The values of a column, as f64, where it has numbers. */
static int64_t read_column(tsr_frame *df, int at, double *out)
{
  tsr_table *table = NULL;
  CHECK_I64(tsr_frame_collect(df, &table), TSR_OK);
  int64_t rows = tsr_table_row_count(table);
  CHECK(rows <= MAX);
  for (int64_t i = 0; i < rows; i++) out[i] = tsr_table_f64(table, i, at);
  return rows;
}

TEST(columns_come_from_where_the_table_says)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *all[FRAMES], *df = base_of(rt, s);
  int count = frames_of(df, all), traced = 0, made = 0;
  for (int i = 0; i < count; i++) {
    const tsr__verb *verb = tsr__verb_of(all[i]);
    bool goes_on = tsr__frame_same_count(all[i]) && verb->rows != TSR__ROWS_MOVES;
    for (int c = 0; goes_on && c < all[i]->schema.count; c++) {
      double here[MAX], there[MAX];
      tsr__origin from = verb->origin(all[i], c);
      made += from.column < 0;
      if (from.column < 0) continue;
      int64_t rows = read_column(all[i], c, here);
      CHECK_I64(read_column(all[i]->parent, from.column, there), rows);
      CHECK(memcmp(here, there, (size_t)rows * sizeof *here) == 0);
      traced++;
    }
  }
  CHECK_I64(made, 5); /* word, x + k, 2 * x, and twice the numbers of rows */
  CHECK_I64(traced, 12);
  tsr_runtime_close(rt);
}
