/* The first rows of a sort are the same whether or not the rest was sorted: random columns with
 * ties, nulls, NaN and text, random keys, random chains before and after, on random meshes. Beside
 * it the sort that was kept whole and then cut. Runs at each ISA. */
#include "tessera.h"

#include "frame/out/out.h"
#include "harness.h"
#include "support/law_fixture.h"
#include "support/topology_fixture.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ROWS = 30000 };

static tsr_frame *make(tsr_scope *s, test_rng *rng, tsr_sharding at, int64_t rows)
{
  static const char *const words[] = { "", "ann", "bob", NULL, "zo\xc3\xa9", "annabel" };
  tsr_shape shape = TSR_SHAPE(rows);
  size_t room = (size_t)rows + 1;
  double *v = malloc(room * sizeof *v);
  float *h = malloc(room * sizeof *h);
  int64_t *n = malloc(room * sizeof *n), *row = malloc(room * sizeof *row);
  int32_t *i = malloc(room * sizeof *i);
  bool *b = malloc(room * sizeof *b);
  const char **t = malloc(room * sizeof *t);
  CHECK(v && h && n && row && i && b && t);
  int64_t many = (int64_t)1 << test_range(rng, 0, 40), odd = test_range(rng, 0, 20);
  for (int64_t r = 0; r < rows; r++) {
    row[r] = r;
    n[r] = test_range(rng, -many, many);
    i[r] = (int32_t)test_range(rng, 0, test_range(rng, 0, 3) ? 5 : 1000);
    v[r] = ldexp((double)n[r], (int)test_range(rng, -40, 5));
    if (!test_range(rng, 0, odd)) v[r] = test_range(rng, 0, 1) ? (double)NAN : -0.0;
    h[r] = (float)i[r] / 3;
    b[r] = test_range(rng, 0, 1);
    t[r] = words[test_range(rng, 0, 5)];
  }
  tsr_frame *df = tsr_frame_new(
      s, { "row", tsr_put(s, row, TSR_I64, shape, at) }, { "n", tsr_put(s, n, TSR_I64, shape, at) },
      { "i", tsr_put(s, i, TSR_I32, shape, at) }, { "v", tsr_put(s, v, TSR_F64, shape, at) },
      { "h", tsr_put(s, h, TSR_F32, shape, at) }, { "b", tsr_put(s, b, TSR_BOOL, shape, at) });
  df = tsr_frame_text_column(df, "t", t, rows);
  /* A column of any type, from where casts cut or wrap nothing. */
  char any[60];
  snprintf(any, sizeof any, "cast(i %% 100, '%s')",
           tsr_dtype_name(fixture_dtype(test_range(rng, 0, 99))));
  df = tsr_frame_assign(df, "z", any);
  df = tsr_frame_assign(df, "w", "if(i == 3, null, n * 0.5)");
  void *all[] = { v, h, n, row, i, b, (void *)t };
  for (int k = 0; k < 7; k++) free(all[k]);
  return df;
}

static const char *const keys[] = { "n",         "v",         "v desc",
                                    "i, v desc", "w",         "w desc nulls first",
                                    "t, n",      "b, t desc", "h desc, b",
                                    "n + i",     "i",         "w, t nulls first, v, n, h desc",
                                    "z",         "z desc, n" };
enum { KEYS = 14 };

/* What stands before the sort, and behind the first rows of it. */
static tsr_frame *before(tsr_frame *df, int which)
{
  switch (which) {
  case 1: return tsr_frame_filter(df, "i != 2");
  case 2: return tsr_frame_filter(df, "n > 0 or b");
  case 3: return tsr_frame_head(df, 20000);
  default: return df;
  }
}

static tsr_frame *behind(tsr_frame *df, int which)
{
  switch (which) {
  case 1: return tsr_frame_filter(df, "b");
  case 2: return tsr_frame_sort(df, "row desc");
  case 3: return tsr_frame_tail(df, 3);
  case 4: return tsr_frame_assign(df, "more", "row + 1");
  case 5: return tsr_frame_group_agg(df, "i", "sum(v), count(), first = min(row)");
  case 6: return tsr_frame_head(tsr_frame_sort(df, "i, row"), 2);
  default: return df;
  }
}

static void check(uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  law_mesh on = law_open(&rng);
  tsr_scope *s = tsr_scope_open(on.rt);
  int64_t rows = test_range(&rng, 0, test_range(&rng, 0, 2) ? MOST_ROWS : 50);
  tsr_sharding at = tsr_on(on.mesh, test_range(&rng, 0, 4) ? "x" : "-");
  tsr_frame *df = make(s, &rng, at, rows);
  df = before(df, (int)test_range(&rng, 0, 4));
  const char *by = keys[test_range(&rng, 0, KEYS - 1)];
  int64_t first = test_range(&rng, 0, 2) ? 0 : test_range(&rng, 0, 40);
  int64_t count = test_range(&rng, 0, test_range(&rng, 0, 1) ? 20 : rows);
  int then = (int)test_range(&rng, 0, 8);
  tsr_frame *sorted = tsr_frame_sort(df, by);
  tsr_frame *top = tsr_frame_limit(sorted, first, count);
  CHECK(count == 0 || top->parent->count == first + count); /* the law is about something */
  tsr_table *found = NULL, *want = NULL;
  CHECK_STATUS(tsr_frame_collect(behind(top, then), &found), TSR_OK, s);
  int64_t alone = -1;
  CHECK_STATUS(tsr_frame_row_count(top, &alone), TSR_OK, s);
  tsr_frame *whole = tsr_frame_keep(s, sorted);
  tsr_frame *cut = tsr_frame_limit(whole, first, count);
  CHECK_STATUS(tsr_frame_collect(behind(cut, then), &want), TSR_OK, s);
  const char *differs = law_differs(found, want);
  if (differs) FAIL("sorted by %s: %s", by, differs);
  int64_t expected = -1;
  CHECK_STATUS(tsr_frame_row_count(cut, &expected), TSR_OK, s);
  CHECK_I64(alone, expected);
  tsr_runtime_close(on.rt);
}

TEST_TIMEOUT(first_rows_are_those_of_the_whole_sort, 300)
{
  law_each_seed(1, test_quick() ? 40 : 600, check);
}
