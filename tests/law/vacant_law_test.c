/* The law of columns that hold nothing: one of nothing but nulls, or of no rows, is in every query
 * what a column of nulls of the needed type is, whatever its own type was guessed to be. It takes
 * no digit from what it meets. */
#include "tessera.h"

#include "harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMATS = 4, TYPES = 7, ROWS = 5 };

typedef struct type {
  const char *name, *value[ROWS]; /* as CSV has them */
  const char *queries[12];        /* of v, which holds nothing, w of the type and k 0, 1, ... */
} type;

#define NUMBERS                                                                           \
  "=v + w", "=w - v", "=v * 2", "=coalesce(v, w)", "=if(k > 2, v, w)", "=greatest(w, v)", \
      "?v == w", "?v > 3 or k == 1", "?v in (1, 2)", "+min(v), n = count(v), d = max(w) - max(v)"

/* A letter, then a formula: = of a new column, ? of a filter, + of aggregates, also by k. */
static const type types[TYPES] = {
  { "i64",
    { "9007199254740993", "-3", "9223372036854775807", "0", "2" },
    { NUMBERS, "+s = sum(v) == 0" } },
  { "u64", { "18446744073709551615", "3", "7", "0", "2" }, { NUMBERS } },
  { "f64", { "1.5", "-0.25", "1e300", "-0.0", "2.0" }, { NUMBERS, "=round(v, 1)", "=sqrt(v)" } },
  { "bool",
    { "true", "false", "true", "true", "false" },
    { "?v", "?not v", "?v or w", "?v == w", "=coalesce(v, w)", "=if(v, 1, 2)",
      "+any(v), all(v)" } },
  { "date",
    { "2013-01-01", "1960-02-29", "2013-01-03", "2020-12-31", "1970-01-01" },
    { "?v < '2013-01-01'", "=w - v", "=v - w", "=year(v)", "=date_trunc('month', v)", "=v + 3",
      "=coalesce(v, w)", "?v in ('2013-01-01')", "+n = count(v), a = min(v) == max(w)" } },
  { "time",
    { "2013-01-01T06:00:00Z", "1960-02-29T00:00:00.000001Z", "2013-01-03T00:00:00Z",
      "2020-12-31T23:59:59Z", "1970-01-01T00:00:00Z" },
    { "?v >= w", "=w - v", "=hour(v)", "=date(v)", "=coalesce(v, w)", "=least(v, w)",
      "+n = count(v), a = min(v) == max(w)" } },
  { "text",
    { "x", "yy", "'", "abc", "ß" },
    { "?v == 'abc'", "?v != w", "?v in ('x')", "=length(v)", "=lower(v)", "=concat(v, w)",
      "?starts_with(v, 'x')", "=coalesce(v, w)", "=replace(v, 'x', 'y')", "=slice(v, 0, 1)",
      "+min(v), nunique(v), n = count(v)" } },
};

/* ---- the frames ------------------------------------------------------------------------------ */

/* Columns k, w and, unless `bare`, v. */
static const char *write_rows(const type *t, int format, int rows, bool bare)
{
  bool json = format == 2, quoted = json && (t->name[0] == 'd' || t->name[0] == 't');
  const char *path = test_tmp(json ? "rows.jsonl" : "rows.csv");
  FILE *out = fopen(path, "w");
  if (!json) fputs(bare ? "k,w\n" : "k,w,v\n", out);
  for (int r = 0; r < rows; r++) {
    const char *q = quoted ? "\"" : "";
    if (json) fprintf(out, "{\"k\":%d,\"w\":%s%s%s,\"v\":null}\n", r, q, t->value[r], q);
    else fprintf(out, "%d,%s%s\n", r, t->value[r], bare ? "" : ",");
  }
  CHECK_I64(fclose(out), 0);
  return path;
}

/* From 0: a file of nulls, one without rows, JSON lines, and a column made of null. */
static tsr_frame *vacant(tsr_scope *s, const type *t, int format, int rows)
{
  char forced[40];
  snprintf(forced, sizeof forced, "k i64, w %s", t->name);
  const char *path = write_rows(t, format, rows, format == 3);
  if (format == 2) return tsr_frame_read_json(s, path, .types = forced);
  tsr_frame *df = tsr_frame_read_csv(s, path, .types = forced, .text_nulls = true);
  return format == 3 ? tsr_frame_assign(df, "v", "null") : df;
}

/* The same with a typed column. */
static tsr_frame *typed(tsr_scope *s, const type *t, int rows)
{
  char forced[40], null[40];
  snprintf(forced, sizeof forced, "k i64, w %s", t->name);
  snprintf(null, sizeof null, "cast(null, '%s')", t->name);
  const char *path = write_rows(t, 0, rows, true);
  tsr_frame *df = tsr_frame_read_csv(s, path, .types = forced, .text_nulls = true);
  return tsr_frame_assign_at(df, "v", &(tsr_formula){ .text = null }, TSR_HERE);
}

/* ---- what is asked --------------------------------------------------------------------------- */

static tsr_frame *ask(tsr_frame *df, const char *query, bool groups)
{
  const tsr_formula text = { .text = query + 1 };
  if (*query == '?') return tsr_frame_filter_at(df, &text, TSR_HERE);
  if (*query == '=') return tsr_frame_assign_at(df, "z", &text, TSR_HERE);
  return groups ? tsr_frame_group_agg_at(df, "k", &text, TSR_HERE)
                : tsr_frame_agg_at(df, &text, TSR_HERE);
}

static char *text_of(tsr_scope *s, tsr_frame *df, const char *what)
{
  const char *path = test_tmp("out.csv");
  if (tsr_frame_write_csv(df, path)) FAIL("%s: %s", what, tsr_message(s));
  return test_read(path, NULL);
}

static void check_same(tsr_scope *s, const char *what, tsr_frame *df, tsr_frame *expected)
{
  char *a = text_of(s, df, what), *b = text_of(s, expected, what);
  if (strcmp(a, b) != 0) FAIL("%s:\n%s\nexpected\n%s", what, a, b);
  free(a);
  free(b);
}

static const char *name_of(const type *t, int format, const char *query)
{
  static char out[200];
  snprintf(out, sizeof out, "%s, format %d: %s", t->name, format, query);
  return out;
}

static void check_queries(tsr_scope *s, const type *t, int format, int rows)
{
  for (int q = 0; q < 12 && t->queries[q]; q++)
    for (int groups = 0; groups <= (t->queries[q][0] == '+'); groups++) {
      const char *query = t->queries[q];
      check_same(s, name_of(t, format, query), ask(vacant(s, t, format, rows), query, groups),
                 ask(typed(s, t, rows), query, groups));
    }
}

/* Beside the typed column in every place where two frames meet. */
static void check_meetings(tsr_scope *s, const type *t, int format, int rows)
{
  static const tsr_join_how hows[] = { TSR_JOIN_INNER, TSR_JOIN_LEFT, TSR_JOIN_SEMI,
                                       TSR_JOIN_ANTI };
  tsr_frame *empty = tsr_frame_select(vacant(s, t, format, rows), "k, x = v");
  tsr_frame *null = tsr_frame_select(typed(s, t, rows), "k, x = v");
  tsr_frame *full = tsr_frame_select(typed(s, t, ROWS), "k, x = w");
  for (int turn = 0; turn < 2; turn++) {
    tsr_frame *found[] = { turn ? full : empty, turn ? empty : full };
    tsr_frame *expected[] = { turn ? full : null, turn ? null : full };
    check_same(s, name_of(t, format, "concat"), tsr_frame_concat_at(found, 2, TSR_HERE),
               tsr_frame_concat_at(expected, 2, TSR_HERE));
    for (int h = 0; h < 4; h++)
      check_same(s, name_of(t, format, "join"),
                 tsr_frame_join(found[0], found[1], "x", .how = hows[h]),
                 tsr_frame_join(expected[0], expected[1], "x", .how = hows[h]));
  }
}

TEST_TIMEOUT(what_holds_nothing_is_of_any_type, 240)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:3");
  for (int i = 0; i < TYPES; i++)
    for (int format = 0; format < FORMATS; format++) {
      int rows = format == 1 ? 0 : ROWS;
      tsr_scope *s = tsr_scope_open(rt);
      check_queries(s, &types[i], format, rows);
      check_meetings(s, &types[i], format, rows);
      tsr_scope_close(s);
    }
  tsr_runtime_close(rt);
}
