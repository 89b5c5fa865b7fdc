/* Sorts, groups, joins and choices of rows give what Polars and fractions give
 * (golden/make_relations.py), on meshes of several shapes: every bit of every value. */
#include "tessera.h"

#include "harness.h"
#include "support/golden_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tsr_join_how how_of(const char *word)
{
  if (!strcmp(word, "left")) return TSR_JOIN_LEFT;
  if (!strcmp(word, "semi")) return TSR_JOIN_SEMI;
  return !strcmp(word, "anti") ? TSR_JOIN_ANTI : TSR_JOIN_INNER;
}

/* The word at the start of a text; what follows it. */
static char *split(char *text)
{
  char *rest = strchr(text, ' ');
  CHECK(rest != NULL);
  *rest = 0;
  return rest + 1;
}

static tsr_frame *one_step(tsr_frame *df, tsr_frame *right, const golden_reader *r, char **keys)
{
  char *text, *rest;
  if ((text = golden_after(r, "sort"))) return tsr_frame_sort(df, text);
  if ((text = golden_after(r, "filter"))) return tsr_frame_filter(df, text);
  if ((text = golden_after(r, "select"))) return tsr_frame_select(df, text);
  if ((text = golden_after(r, "tail"))) return tsr_frame_tail(df, atoi(text));
  if ((text = golden_after(r, "index"))) return tsr_frame_with_row_index(df, text);
  if ((text = golden_after(r, "agg"))) return tsr_frame_agg(df, text);
  if ((text = golden_after(r, "group"))) return tsr_frame_group_agg(df, *keys, text);
  if ((text = golden_after(r, "distinct")))
    return tsr_frame_distinct(df, *text == '*' ? NULL : text);
  if ((text = golden_after(r, "by"))) {
    *keys = text;
    return df;
  }
  if (golden_after(r, "concat"))
    return tsr_frame_concat(df, tsr_frame_head(tsr_frame_sort(df, "x"), 40));
  if ((text = golden_after(r, "limit"))) {
    rest = split(text);
    return tsr_frame_limit(df, atoi(text), atoi(rest));
  }
  if ((text = golden_after(r, "head_of"))) {
    rest = split(text);
    return tsr_frame_group_head(df, rest, atoi(text));
  }
  text = golden_after(r, "join");
  CHECK(text != NULL);
  rest = split(text);
  return tsr_frame_join(df, right, rest, .how = how_of(text));
}

static int check_all(tsr_scope *s, tsr_frame *left, tsr_frame *right)
{
  char *text = test_read(test_file("golden/relations.txt"), NULL);
  golden_reader r = { .next = text };
  int queries = 0;
  for (golden_step(&r); golden_after(&r, "query"); queries++) {
    const char *name = golden_after(&r, "query");
    tsr_frame *df = left;
    char *keys = NULL;
    tsr_table *table = NULL;
    for (golden_step(&r); !golden_after(&r, "columns"); golden_step(&r))
      df = one_step(df, right, &r, &keys);
    if (tsr_frame_collect(df, &table)) FAIL("query %s: %s", name, tsr_message(s));
    golden_check_rows(&r, table);
  }
  CHECK(!r.line);
  free(text);
  return queries;
}

static void check_on(const char *mesh_text, const char *rows, const char *right_place)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, mesh_text);
  tsr_frame *left =
      tsr_frame_read_csv(s, test_file("golden/relations_left.csv"), .on = tsr_on(mesh, rows));
  tsr_frame *right =
      tsr_frame_read_csv(s, test_file("golden/relations_right.csv"), .on = tsr_on(mesh, rows));
  if (right_place) right = tsr_frame_scatter(right, tsr_on(mesh, right_place));
  CHECK_I64(check_all(s, left, right), 41);
  tsr_runtime_close(rt);
}

TEST(relations_on_one_device)
{
  check_on("x=1", "x", NULL);
}

TEST(relations_on_five_devices)
{
  check_on("x=5", "x", NULL);
}

TEST(relations_on_eight_devices)
{
  check_on("x=8", "x", "x");
}

TEST(relations_with_rows_on_one_axis)
{
  check_on("x=2,y=2", "y", NULL);
}

TEST(relations_with_a_right_frame_that_is_whole)
{
  check_on("x=4", "x", "-");
}
