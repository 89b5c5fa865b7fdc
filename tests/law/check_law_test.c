/* The law of checks: whatever an expression must not do (leave the range of an integer, cast what
 * cannot be cast) is an error wherever the expression stands, as a column, a condition, a key, the
 * argument of an aggregate or a term of aggregates; and where rows are at hand the error names the
 * row.
 *
 *   kinds      a + 1, -m, cast(x, 'i64'), ...      each fails in row BAD of the frame alone
 *   places     each frame kind that takes expressions, and what stands on such a column
 *
 * What a kind does is known from how its row was made, not from the code under test. */
#include "frame/out/out.h"
#include "tessera.h"

#include "harness.h"
#include "support/dealt.h"
#include "support/law_fixture.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 9, BAD = 5, LONGEST = 900 };

/* ---- kinds ----------------------------------------------------------------------------------- */

/* `$` stands before a column: among aggregates it becomes max(...) of the bad row's value. */
static const struct kind {
  const char *text;
  const char *said;
} kinds[] = {
  { "$a + 1", "overflows" },
  { "$m - 1", "overflows" },
  { "$a - $m", "overflows" },
  { "$a * 2", "overflows" },
  { "-$m", "overflows" },
  { "abs($m)", "overflows" },
  { "$m // $n", "overflows" },
  { "$a ** 2", "overflows" },
  { "round($a, -1)", "overflows" },
  { "$i + 1", "overflows" },
  { "$j - 1", "overflows" },
  { "$i * 2", "overflows" },
  { "-$j", "overflows" },
  { "abs($j)", "overflows" },
  { "$j // cast($n, 'i32')", "overflows" },
  { "$i ** 3", "overflows" },
  { "round($i, -1)", "overflows" },
  { "cast($i, 'date') + 1", "overflows" },
  { "cast($j, 'date') - 1", "overflows" },
  { "date_trunc('year', cast($j, 'date'))", "overflows" },
  { "cast($a, 'time') + 1", "overflows" },
  { "cast($a, 'time') - cast($m, 'time')", "overflows" },
  { "date_trunc('year', cast($m, 'time'))", "overflows" },
  { "date_trunc('hour', cast($m, 'time'))", "overflows" },
  { "cast($i, 'date') == cast($a, 'time')", "overflows" },
  { "cast(cast($i, 'date'), 'time')", "is not a valid time" },
  { "cast($x, 'i64')", "is not a valid i64" },
  { "cast($x, 'i32')", "is not a valid i32" },
  { "cast($h, 'i64')", "is not a valid i64" },
  { "cast($a, 'i32')", "is not a valid i32" },
  { "cast($a, 'date')", "is not a valid date" },
  { "cast($w, 'i64')", "is not a valid i64" },
  { "cast($w, 'i32')", "is not a valid i32" },
  { "cast($w, 'f64')", "is not a valid f64" },
  { "cast($w, 'f32')", "is not a valid f32" },
  { "cast($v, 'bool')", "is not a valid bool" },
  { "cast($v, 'date')", "is not a valid date" },
  { "cast($v, 'time')", "is not a valid time" },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* a, m: the largest and the least i64 in the bad row; i, j of i32; n -1; x, h no number; w, v no
 * text of any type. Elsewhere nothing fails. */
static tsr_frame *frame_of(tsr_scope *s, tsr_sharding at)
{
  int64_t a[ROWS], m[ROWS], n[ROWS], r[ROWS];
  int32_t i[ROWS], j[ROWS];
  double x[ROWS];
  float h[ROWS];
  bool ok[ROWS];
  const char *w[ROWS], *v[ROWS];
  for (int k = 0; k < ROWS; k++) {
    bool bad = k == BAD;
    r[k] = k;
    ok[k] = !bad;
    a[k] = bad ? INT64_MAX : k;
    m[k] = bad ? INT64_MIN : k;
    n[k] = bad ? -1 : 2;
    i[k] = bad ? INT32_MAX : k;
    j[k] = bad ? INT32_MIN : k;
    x[k] = bad ? (double)__builtin_nanf("") : k;
    h[k] = bad ? __builtin_inff() : (float)k;
    w[k] = bad ? "x7" : "7";
    v[k] = NULL;
  }
  v[BAD] = "x";
  tsr_shape shape = { 1, { ROWS } };
  tsr_frame *df = tsr_frame_new(
      s, { "a", tsr_put(s, a, TSR_I64, shape, at) }, { "m", tsr_put(s, m, TSR_I64, shape, at) },
      { "n", tsr_put(s, n, TSR_I64, shape, at) }, { "r", tsr_put(s, r, TSR_I64, shape, at) },
      { "i", tsr_put(s, i, TSR_I32, shape, at) }, { "j", tsr_put(s, j, TSR_I32, shape, at) },
      { "x", tsr_put(s, x, TSR_F64, shape, at) }, { "h", tsr_put(s, h, TSR_F32, shape, at) },
      { "ok", tsr_put(s, ok, TSR_BOOL, shape, at) });
  df = tsr_frame_text_column(df, "w", w, ROWS);
  return tsr_frame_text_column(df, "v", v, ROWS);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Frame kinds of which no expression is asked; all others stand in `places`. */
static const bool asks_nothing[TSR__FRAME_KINDS] = {
  [TSR__FRAME_ARRAYS] = true, [TSR__FRAME_FILE] = true,     [TSR__FRAME_TEXT] = true,
  [TSR__FRAME_HEAD] = true,   [TSR__FRAME_TAIL] = true,     [TSR__FRAME_SAMPLE] = true,
  [TSR__FRAME_ARITH] = true,  [TSR__FRAME_REDUCE] = true,   [TSR__FRAME_INDEX] = true,
  [TSR__FRAME_CONCAT] = true, [TSR__FRAME_DESCRIBE] = true, [TSR__FRAME_PLACE] = true,
  [TSR__FRAME_KEEP] = true,
};
/* A new kind of frame says above that it asks for no expression, or gets a place below. */
_Static_assert(TSR__FRAME_KINDS == 21, "a kind of frame that no check knows");

/* Whether rows are at hand, so that the error names one. */
enum where { IN_ROWS, AROUND };

static const char *with(char *out, const char *form, const char *expr)
{
  size_t used = 0;
  for (const char *at = form; *at; at++) {
    if (*at == '#') used += (size_t)snprintf(out + used, LONGEST - used, "(%s)", expr);
    else out[used++] = *at;
  }
  out[used] = 0;
  return out;
}

typedef struct place {
  const char *name;
  uint8_t kind; /* of the frame that computes the expression */
  enum where where;
  const char *form, *more; /* `#` is the expression */
  tsr_frame *(*make)(tsr_frame *df, const char *text, const char *more);
} place;

static tsr_frame *filter(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  return tsr_frame_filter(df, text);
}

static tsr_frame *assign(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  return tsr_frame_assign(df, "z", text);
}

static tsr_frame *select_them(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  return tsr_frame_select(df, text);
}

/* Nulls of the expression's type, which it fills where the frame is bad. */
static tsr_frame *fill(tsr_frame *df, const char *text, const char *more)
{
  return tsr_frame_fill_null(tsr_frame_assign(df, "z", more), "z", text);
}

static tsr_frame *agg(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  return tsr_frame_agg(df, text);
}

static tsr_frame *group(tsr_frame *df, const char *text, const char *more)
{
  return tsr_frame_group_agg(df, text, more);
}

static tsr_frame *counts(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  return tsr_frame_value_counts(df, text);
}

static tsr_frame *sort(tsr_frame *df, const char *text, const char *more)
{
  tsr_frame *out = tsr_frame_sort(df, text);
  return more ? tsr_frame_head(out, 2) : out;
}

static tsr_frame *distinct(tsr_frame *df, const char *text, const char *more)
{
  return more ? tsr_frame_group_head(df, text, 1) : tsr_frame_distinct(df, text);
}

static tsr_frame *join_left(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  return tsr_frame_join(df, tsr_frame_filter(df, "ok"), text, .how = TSR_JOIN_SEMI);
}

static tsr_frame *join_right(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  return tsr_frame_join(tsr_frame_filter(df, "ok"), df, text, .how = TSR_JOIN_LEFT);
}

/* What is built on such a column. */
static tsr_frame *then_group(tsr_frame *df, const char *text, const char *more)
{
  return tsr_frame_group_agg(tsr_frame_assign(df, "z", text), more, "count()");
}

static tsr_frame *then_sort(tsr_frame *df, const char *text, const char *more)
{
  return tsr_frame_sort(tsr_frame_assign(df, "z", text), more);
}

static tsr_frame *then_concat(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  df = tsr_frame_assign(df, "z", text);
  return tsr_frame_concat(df, df);
}

static tsr_frame *then_describe(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  return tsr_frame_describe(tsr_frame_select(df, text));
}

static tsr_frame *then_gather(tsr_frame *df, const char *text, const char *more)
{
  (void)more;
  return tsr_frame_gather(tsr_frame_assign(df, "z", text));
}

static const place places[] = {
  { "filter", TSR__FRAME_FILTER, IN_ROWS, "# is not null", NULL, filter },
  { "assign", TSR__FRAME_ASSIGN, IN_ROWS, "#", NULL, assign },
  { "a branch", TSR__FRAME_ASSIGN, IN_ROWS, "if(r == 5, #, null)", NULL, assign },
  { "a comparison", TSR__FRAME_ASSIGN, IN_ROWS, "# == # == #", NULL, assign },
  { "logic", TSR__FRAME_ASSIGN, IN_ROWS, "(ok or (# == #)) == ok", NULL, assign },
  { "select", TSR__FRAME_SELECT, IN_ROWS, "r, z = #", NULL, select_them },
  { "fill_null", TSR__FRAME_SELECT, IN_ROWS, "#", "if(ok, #, null)", fill },
  { "agg, an argument", TSR__FRAME_AGG, IN_ROWS, "count(), max(#)", NULL, agg },
  { "agg, the rows of a group", TSR__FRAME_AGG, IN_ROWS, "nunique(#)", NULL, agg },
  { "agg, around", TSR__FRAME_AGG, AROUND, "z = #", NULL, agg },
  { "agg, around a median", TSR__FRAME_AGG, AROUND, "median(r), z = #", NULL, agg },
  { "group, a key", TSR__FRAME_GROUP, IN_ROWS, "z = #", "count()", group },
  { "group, a key of few codes", TSR__FRAME_GROUP, IN_ROWS, "z = # == #", "count()", group },
  { "group, a key in order", TSR__FRAME_GROUP, IN_ROWS, "z = # desc", "count()", group },
  { "group, two keys", TSR__FRAME_GROUP, IN_ROWS, "ok, # is null, r", "sum(n)", group },
  { "group, a key of rows", TSR__FRAME_GROUP, IN_ROWS, "z = #", "median(r)", group },
  { "group, a key of few rows", TSR__FRAME_GROUP, IN_ROWS, "# is null", "median(r)", group },
  { "group, an argument", TSR__FRAME_GROUP, IN_ROWS, "ok", "max(#)", group },
  { "group, an argument of rows", TSR__FRAME_GROUP, IN_ROWS, "r", "z = nunique(#)", group },
  { "group, around", TSR__FRAME_GROUP, AROUND, "ok", "z = #", group },
  { "group, around by rows", TSR__FRAME_GROUP, AROUND, "r", "median(n), z = #", group },
  { "value_counts", TSR__FRAME_GROUP, IN_ROWS, "z = #", NULL, counts },
  { "value_counts of few", TSR__FRAME_GROUP, IN_ROWS, "z = # is null, ok", NULL, counts },
  { "sort", TSR__FRAME_SORT, IN_ROWS, "ok, # desc", NULL, sort },
  { "sort, the first rows", TSR__FRAME_SORT, IN_ROWS, "#", "head", sort },
  { "distinct", TSR__FRAME_FIRSTS, IN_ROWS, "#", NULL, distinct },
  { "group_head", TSR__FRAME_FIRSTS, IN_ROWS, "ok, # is null", "head", distinct },
  { "join, the left key", TSR__FRAME_JOIN, IN_ROWS, "# = #", NULL, join_left },
  { "join, the right key", TSR__FRAME_JOIN, IN_ROWS, "# = #", NULL, join_right },
  { "then group", TSR__FRAME_ASSIGN, IN_ROWS, "#", "z", then_group },
  { "then group by few", TSR__FRAME_ASSIGN, IN_ROWS, "# is null", "z", then_group },
  { "then sort", TSR__FRAME_ASSIGN, IN_ROWS, "#", "z", then_sort },
  { "then concat", TSR__FRAME_ASSIGN, IN_ROWS, "#", NULL, then_concat },
  { "then describe", TSR__FRAME_SELECT, IN_ROWS, "z = #", NULL, then_describe },
  { "then gather", TSR__FRAME_ASSIGN, IN_ROWS, "#", NULL, then_gather },
};
enum { PLACES = sizeof places / sizeof *places };

TEST(every_kind_of_frame_that_asks_has_a_place)
{
  for (int kind = 0; kind <= TSR__FRAME_KEEP; kind++) {
    bool found = asks_nothing[kind];
    for (int i = 0; i < PLACES; i++) found = found || places[i].kind == kind;
    if (!found) FAIL("frame kind %d has no place here", kind);
  }
}

/* ---- the law --------------------------------------------------------------------------------- */

/* The expression of a kind for a place: among aggregates columns are those of the bad row. */
static const char *expression(char *out, const struct kind *kind, enum where where)
{
  size_t used = 0;
  for (const char *at = kind->text; *at; at++) {
    if (*at != '$') out[used++] = *at;
    else if (where == AROUND)
      used += (size_t)snprintf(out + used, LONGEST - used, "max(if(ok, null, %c))", *++at);
  }
  out[used] = 0;
  return out;
}

static void check(const place *p, const struct kind *kind, tsr_runtime *rt, const char *mesh)
{
  char expr[LONGEST], text[LONGEST], more[LONGEST], row[40];
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding at = mesh ? tsr_on(tsr_mesh_make(rt, mesh), "x") : (tsr_sharding){ 0 };
  expression(expr, kind, p->where);
  with(text, p->form, expr);
  if (p->more) with(more, p->more, expr);
  tsr_frame *df = p->make(frame_of(s, at), text, p->more ? more : NULL);
  tsr_table *table = NULL;
  tsr_status status = tsr_frame_collect(df, &table);
  const char *said = tsr_message(s);
  snprintf(row, sizeof row, " in row %d", BAD);
  bool named = p->where == AROUND ? !strstr(said, " in row ") : strstr(said, row) != NULL;
  if (status != TSR_EVALUE || !strstr(said, kind->said) || !named)
    FAIL("%s: %s (%s) on %s: %s, expected an error that says '%s'%s\n%s", p->name, text,
         p->more ? more : "", mesh ? mesh : "one device", tsr_status_name(status), kind->said,
         p->where == AROUND ? "" : row, said);
  tsr_scope_close(s);
}

static void check_place(const place *p)
{
  for (int m = 0; m < 2; m++) {
    char mesh[32];
    tsr_runtime *rt = tsr_runtime_open(dealt(m ? 3 : 1).text, .threads = 1);
    snprintf(mesh, sizeof mesh, "x=%d", tsr_device_count(rt));
    for (int k = 0; k < KINDS; k++) check(p, &kinds[k], rt, m ? mesh : NULL);
    tsr_runtime_close(rt);
  }
}

TEST(what_must_not_happen_is_an_error_wherever_it_stands)
{
  for (int i = 0; i < PLACES; i++) check_place(&places[i]);
}

/* The same kinds where they do not fail: nothing is refused that need not be. */
TEST(rows_that_are_left_out_raise_nothing)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:2", .threads = 1);
  char expr[LONGEST], text[LONGEST], more[LONGEST];
  for (int i = 0; i < PLACES; i++) {
    const place *p = &places[i];
    if (p->where == AROUND) continue;
    for (int k = 0; k < KINDS; k++) {
      tsr_scope *s = tsr_scope_open(rt);
      expression(expr, &kinds[k], IN_ROWS);
      with(text, p->form, expr);
      if (p->more) with(more, p->more, expr);
      tsr_sharding at = tsr_on(tsr_mesh_make(rt, "x=2"), "x");
      tsr_frame *df = tsr_frame_filter(frame_of(s, at), "ok");
      tsr_table *table = NULL;
      tsr_status status = tsr_frame_collect(p->make(df, text, p->more ? more : NULL), &table);
      if (status) FAIL("%s: %s: %s", p->name, text, tsr_message(s));
      tsr_scope_close(s);
    }
  }
  tsr_runtime_close(rt);
}
