/* Queries on the weather file against pandas and rational arithmetic (golden/make_frames.py), on
 * meshes of several sizes: every bit of every value. */
#include "tessera.h"

#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
  char *line; /* the current one, without its newline; NULL at the end */
  char *next;
} reader;

static void step(reader *r)
{
  r->line = r->next && *r->next ? r->next : NULL;
  if (!r->line) return;
  char *end = strchr(r->line, '\n');
  r->next = end ? end + 1 : NULL;
  if (end) *end = 0;
}

/* What follows a word at the start of the current line; NULL if the line is another. */
static char *after(const reader *r, const char *word)
{
  size_t length = strlen(word);
  if (!r->line || strncmp(r->line, word, length) || r->line[length] != ' ') return NULL;
  return r->line + length + 1;
}

static tsr_frame *build(tsr_frame *df, reader *r)
{
  char *text;
  if ((text = after(r, "where"))) {
    df = tsr_frame_filter(df, text);
    step(r);
  }
  if ((text = after(r, "with"))) {
    char *expr = strchr(text, ' ');
    *expr++ = 0;
    df = tsr_frame_assign(df, text, expr);
    step(r);
  }
  char *keys = after(r, "by");
  if (keys) step(r);
  text = after(r, "agg");
  CHECK(text != NULL);
  step(r);
  return keys ? tsr_frame_group_agg(df, keys, text) : tsr_frame_agg(df, text);
}

static void hex_text(const char *hex, char *out)
{
  for (hex++; hex[0] && hex[1]; hex += 2) {
    char pair[3] = { hex[0], hex[1], 0 };
    *out++ = (char)strtol(pair, NULL, 16);
  }
  *out = 0;
}

static void check_value(const tsr_table *table, int64_t row, int column, const char *word)
{
  char text[200];
  tsr_coltype type = tsr_table_type(table, column);
  if (!strcmp(word, "null")) {
    CHECK(tsr_table_is_null(table, row, column));
    return;
  }
  if (tsr_table_is_null(table, row, column))
    FAIL("row %" PRId64 " of %s is null, expected %s", row, tsr_table_name(table, column), word);
  if (word[0] == 'x') {
    hex_text(word, text);
    CHECK_STR(tsr_table_text(table, row, column), text);
  } else if (type == TSR_COL_F64) {
    uint64_t bits = strtoull(word, NULL, 16);
    double expected;
    memcpy(&expected, &bits, sizeof expected);
    CHECK_F64_BITS(tsr_table_f64(table, row, column), expected);
  } else {
    CHECK_I64(tsr_table_i64(table, row, column), strtoll(word, NULL, 10));
  }
}

static void check_query(tsr_scope *s, tsr_frame *weather, reader *r)
{
  tsr_table *table = NULL;
  step(r);
  tsr_frame *df = build(weather, r);
  CHECK_STATUS(tsr_frame_collect(df, &table), TSR_OK, s);
  CHECK_I64(tsr_table_columns(table), atoi(after(r, "columns")));
  int64_t row = 0;
  for (step(r); after(r, "row"); step(r), row++) {
    CHECK(row < tsr_table_rows(table));
    char *rest = NULL, *word = strtok_r(after(r, "row"), " ", &rest);
    for (int c = 0; c < tsr_table_columns(table); c++) {
      CHECK(word != NULL);
      check_value(table, row, c, word);
      word = strtok_r(NULL, " ", &rest);
    }
  }
  CHECK_I64(tsr_table_rows(table), row);
}

TEST(frame_queries_give_what_pandas_and_fractions_give)
{
  static const char *const meshes[] = { "data=1", "data=3", "data=8" };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  for (int m = 0; m < 3; m++) {
    char *text = test_read(test_file("golden/frames.txt"), NULL);
    reader r = { .next = text };
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *weather = tsr_frame_read_csv(s, test_file("../examples/data/weather.csv"),
                                            .mesh = tsr_mesh_make(rt, meshes[m]));
    int queries = 0;
    for (step(&r); after(&r, "query"); queries++) check_query(s, weather, &r);
    CHECK_I64(queries, 8);
    CHECK(!r.line);
    tsr_scope_close(s);
    free(text);
  }
  tsr_runtime_close(rt);
}
