/* The law of chains: a random chain of all that frames can do (filters, sorts, joins, groups,
 * limits, samples, distinct, concat, placing ...) gives the same table on every mesh as on one
 * device: the same rows in the same order, the same names and types, every bit of every value, or
 * the same error. Steps are drawn anew from one seed on each mesh; since schemas are equal, so are
 * the draws. On one device they are written out besides: chained comparisons by `and`, and what is
 * computed for a key as a column before. Steps on a row of aggregates give what they give on that
 * row as data. */
#include "tessera.h"

#include "harness.h"
#include "support/guarded_devices.h"
#include "support/law_fixture.h"
#include "support/topology_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 400, MOST_STEPS = 7, MOST_COLUMNS = 14 };

typedef struct trial {
  test_rng rng;
  uint64_t seed;
  const char *side; /* of the file names */
  tsr_runtime *rt;
  tsr_scope *s;
  const tsr_mesh *mesh;
  bool written_out;
  int files; /* that were written */
  char said[4000];
} trial;

static int64_t pick(trial *t, int64_t first, int64_t last)
{
  return test_range(&t->rng, first, last);
}

static void say(trial *t, const char *what, const char *more)
{
  size_t used = strlen(t->said);
  snprintf(t->said + used, sizeof t->said - used, "%s(%s) ", what, more);
}

/* ---- sources ----------------------------------------------------------------------------- */

static const char *const words[] = { "",    "a",          "ab",         "abc",        "b",
                                     "Zoe", "zo\xc3\xa9", "abcdefghij", "abcdefghik", NULL };
enum { WORDS = 10 };

static tsr_sharding random_place(trial *t)
{
  int64_t way = pick(t, 0, 9);
  if (!t->mesh) return (tsr_sharding){ 0 };
  if (way == 0) return (tsr_sharding){ 0 };
  if (way == 1) return tsr_on(t->mesh, "-");
  if (way == 2 && tsr_mesh_axis_count(t->mesh) > 1) return tsr_on(t->mesh, "y");
  if (way == 3 && tsr_mesh_axis_count(t->mesh) > 1) return tsr_on(t->mesh, "x+y");
  return tsr_on(t->mesh, "x");
}

/* A number of any type: a quarter of it for floats, its size where nothing is below 0. */
static void put_any(tsr_dtype dtype, void *out, int64_t at, int64_t value)
{
  bool down = tsr__dtype_info_of(dtype)->kind == TSR__DTYPE_INT;
  if (dtype == TSR_BOOL) value &= 1;
  if (tsr__dtype_is_real(dtype)) tsr__dtype_put_real(dtype, out, at, (double)value / 4);
  else tsr__dtype_put_whole(dtype, out, at, value < 0 && !down ? -value : value);
}

/* The frame as a file has it, read again: of no rows a column is text there. */
static tsr_frame *of_a_file(trial *t, tsr_frame *df, tsr_sharding at)
{
  char name[40];
  snprintf(name, sizeof name, "%s_%d.csv", t->side, t->files++);
  if (tsr_frame_write_csv(df, test_tmp(name))) return df;
  return tsr_frame_read_csv(t->s, test_tmp(name), .on = at);
}

static tsr_frame *source(trial *t)
{
  static const int64_t sizes[] = { 0, 1, 2, 7, 30, 120, MOST_ROWS };
  int64_t rows = sizes[pick(t, 0, 6)];
  int64_t k[MOST_ROWS];
  int32_t i[MOST_ROWS];
  double x[MOST_ROWS], d[MOST_ROWS];
  bool b[MOST_ROWS];
  uint64_t p[MOST_ROWS], q[MOST_ROWS]; /* of any two types, densely */
  tsr_dtype types[2] = { fixture_dtype(pick(t, 0, 99)), fixture_dtype(pick(t, 0, 99)) };
  const char *u[MOST_ROWS], *v[MOST_ROWS];
  tsr_sharding at = random_place(t);
  int64_t range = pick(t, 0, 1) ? 4 : 100000;
  for (int64_t r = 0; r < rows; r++) {
    k[r] = pick(t, -range, range);
    i[r] = (int32_t)pick(t, -5, 5);
    int64_t way = pick(t, 0, 9);
    x[r] = way == 0 ? (double)NAN : way == 1 ? -0.0 : way == 2 ? 0.0 : (double)pick(t, -8, 8) / 4;
    d[r] = test_any_f64(&t->rng);
    b[r] = pick(t, 0, 1);
    put_any(types[0], p, r, pick(t, -5, 5));
    put_any(types[1], q, r, pick(t, -40, 40));
    u[r] = words[pick(t, 0, WORDS - 1)];
    v[r] = words[pick(t, 0, WORDS - 2)];
  }
  tsr_shape shape = { 1, { rows } };
  tsr_frame *df = tsr_frame_new(t->s, { "k", tsr_put(t->s, k, TSR_I64, shape, at) },
                                { "i", tsr_put(t->s, i, TSR_I32, shape, at) },
                                { "x", tsr_put(t->s, x, TSR_F64, shape, at) },
                                { "d", tsr_put(t->s, d, TSR_F64, shape, at) },
                                { "b", tsr_put(t->s, b, TSR_BOOL, shape, at) },
                                { "p", tsr_put(t->s, p, types[0], shape, at) },
                                { "q", tsr_put(t->s, q, types[1], shape, at) });
  df = tsr_frame_text_column(df, "u", u, rows);
  df = tsr_frame_text_column(df, "v", v, rows);
  if (pick(t, 0, 1)) df = tsr_frame_assign(df, "x", "if(i == 3, null, x)");
  if (pick(t, 0, 1)) df = tsr_frame_assign(df, "k", "if(i == -2, null, k)");
  if (pick(t, 0, 1)) df = tsr_frame_assign(df, "q", "if(i == 2, null, q)");
  bool file = pick(t, 0, 5) == 0 && tsr_process_count(t->rt) == 1;
  return file ? of_a_file(t, df, at) : df;
}

/* ---- steps ------------------------------------------------------------------------------- */

static bool numeric(tsr_coltype type)
{
  return type > TSR_COL_BOOL && type < TSR_COL_DATE;
}

static bool whole(tsr_coltype type)
{
  return tsr__dtype_integer((tsr_dtype)type);
}

static bool any(tsr_coltype type)
{
  return type != 0;
}

static bool not_text(tsr_coltype type)
{
  return type != TSR_COL_TEXT && type != 0;
}

/* A column's name as it is written; "" where none fits. */
static void column(trial *t, const tsr_frame *df, bool (*fits)(tsr_coltype), char *out, size_t room)
{
  int fitting[64], count = 0, all = tsr_frame_column_count(df);
  for (int c = 0; c < all && count < 64; c++)
    if (fits(tsr_frame_column_type(df, c))) fitting[count++] = c;
  *out = 0;
  if (count)
    snprintf(out, room, "\"%s\"", tsr_frame_column_name(df, fitting[pick(t, 0, count - 1)]));
}

/* "a, b desc nulls first" */
static void keys(trial *t, const tsr_frame *df, bool ordered, char *out, size_t room)
{
  static const char *const order[] = {
    "", " asc", " desc", " desc nulls first", " nulls first", " desc nulls last"
  };
  int64_t count = pick(t, 1, 3);
  *out = 0;
  for (int64_t n = 0; n < count; n++) {
    char name[200];
    column(t, df, any, name, sizeof name);
    if (!ordered && strstr(out, name)) continue;
    size_t used = strlen(out);
    snprintf(out + used, room - used, "%s%s%s", used ? ", " : "", name,
             ordered ? order[pick(t, 0, 5)] : "");
  }
}

static tsr_frame *filter(trial *t, tsr_frame *df)
{
  char name[200], text[500];
  int64_t way = pick(t, 0, 3);
  column(t, df, way < 2 ? numeric : any, name, sizeof name);
  if (!*name) return df;
  if (way == 0) snprintf(text, sizeof text, "%s > %lld", name, (long long)pick(t, -4, 2));
  else if (way == 1) snprintf(text, sizeof text, "%s <= %lld or %s is null", name, 2LL, name);
  else snprintf(text, sizeof text, "%s is %snull", name, pick(t, 0, 3) ? "not " : "");
  say(t, "filter", text);
  return tsr_frame_filter(df, text);
}

/* A chain of comparisons in which literals are read as what they stand beside, and the same by
 * `and`. */
static tsr_frame *filter_chain(trial *t, tsr_frame *df)
{
  static const char *const forms[][2] = {
    { "cast(%s, 'date') < '1970-01-02' < '1970-1'",
      "cast(%s, 'date') < '1970-01-02' and '1970-01-02' < '1970-1'" },
    { "'1969-12-30' <= cast(%s, 'date') < '1970-01-03' != 'a'",
      "'1969-12-30' <= cast(%s, 'date') and cast(%s, 'date') < '1970-01-03' and '1970-01-03' != "
      "'a'" },
    { "between('1970-01-01', cast(%s, 'date'), '1970-01-03')",
      "'1970-01-01' >= cast(%s, 'date') and '1970-01-01' <= '1970-01-03'" },
    { "0 < %s + 1 <= 3 == i", "0 < %s + 1 and %s + 1 <= 3 and 3 == i" },
    { "-2 <= %s is not null", "-2 <= %s and %s is not null" },
    { "%s in (1, 2, 3) == b", "(%s in (1, 2, 3)) == b" },
  };
  char name[200], text[900];
  int64_t form = pick(t, 0, 5);
  column(t, df, whole, name, sizeof name);
  const char *chain = forms[form][t->written_out];
  size_t used = 0;
  if (!*name) return df;
  for (; *chain; chain++) {
    if (chain[0] == '%') used += (size_t)snprintf(text + used, sizeof text - used, "%s", name);
    else text[used++] = *chain;
    chain += chain[0] == '%';
  }
  text[used] = 0;
  say(t, "filter", text);
  tsr_frame *out = tsr_frame_filter(df, text);
  if (!tsr_frame_is_inert(out)) return out;
  tsr_scope_clear(t->s); /* no column i or b */
  return df;
}

static tsr_frame *assign(trial *t, tsr_frame *df)
{
  char a[200], b[200], text[900], name[20];
  column(t, df, numeric, a, sizeof a);
  column(t, df, numeric, b, sizeof b);
  if (!*a || tsr_frame_column_count(df) >= MOST_COLUMNS) return df;
  int64_t way = pick(t, 0, 2);
  if (way == 0) snprintf(text, sizeof text, "%s * 0.5 + %s", a, b);
  else if (way == 1) snprintf(text, sizeof text, "if(%s > %s, %s, null)", a, b, a);
  else snprintf(text, sizeof text, "%lld", (long long)pick(t, 0, 9));
  snprintf(name, sizeof name, "n%lld", (long long)pick(t, 0, 4));
  say(t, "assign", text);
  return tsr_frame_assign(df, name, text);
}

static tsr_frame *some_rows(trial *t, tsr_frame *df)
{
  char text[60];
  int64_t first = pick(t, 0, 20), count = pick(t, 0, 60), way = pick(t, 0, 4);
  snprintf(text, sizeof text, "%lld, %lld, %lld", (long long)way, (long long)first,
           (long long)count);
  say(t, "rows", text);
  switch (way) {
  case 0: return tsr_frame_head(df, count);
  case 1: return tsr_frame_tail(df, count);
  case 2: return tsr_frame_limit(df, first, count);
  case 3: return tsr_frame_sample(df, .rows = count, .seed = (uint64_t)first);
  default: return tsr_frame_sample(df, .fraction = 0.7, .seed = (uint64_t)first);
  }
}

static tsr_frame *firsts(trial *t, tsr_frame *df)
{
  char text[700];
  keys(t, df, false, text, sizeof text);
  int64_t way = pick(t, 0, 3), count = pick(t, 0, 3);
  say(t, way == 0 ? "distinct all" : way == 1 ? "distinct" : "group_head", text);
  if (way == 0) return tsr_frame_distinct(df, NULL);
  return way == 1 ? tsr_frame_distinct(df, text) : tsr_frame_group_head(df, text, count);
}

static tsr_frame *sort(trial *t, tsr_frame *df)
{
  char text[700];
  keys(t, df, true, text, sizeof text);
  say(t, "sort", text);
  return tsr_frame_sort(df, text);
}

static tsr_frame *number(trial *t, tsr_frame *df)
{
  char name[20];
  if (tsr_frame_column_count(df) >= MOST_COLUMNS) return df;
  snprintf(name, sizeof name, "row%d", tsr_frame_column_count(df));
  for (int c = 0; c < tsr_frame_column_count(df); c++)
    if (!strcmp(name, tsr_frame_column_name(df, c))) return df;
  say(t, "row_index", name);
  return tsr_frame_with_row_index(df, name);
}

static tsr_frame *place(trial *t, tsr_frame *df)
{
  int64_t way = pick(t, 0, 2);
  test_rng before = t->rng;
  tsr_sharding to = random_place(t);
  t->rng = before; /* a mesh draws more than none: the same numbers follow */
  say(t, way == 0 ? "gather" : way == 1 ? "rebalance" : "scatter", "");
  if (way == 0) return tsr_frame_gather(df);
  return way == 1 ? tsr_frame_rebalance(df) : tsr_frame_scatter(df, to);
}

static tsr_frame *concat(trial *t, tsr_frame *df)
{
  tsr_frame *other = pick(t, 0, 1) ? filter(t, df) : some_rows(t, df);
  say(t, "concat", "");
  return pick(t, 0, 3) ? tsr_frame_concat(df, other) : tsr_frame_concat(other, df, other);
}

static tsr_frame *join(trial *t, tsr_frame *df)
{
  char a[200], on[500];
  tsr_frame *right = pick(t, 0, 2) ? source(t) : df;
  int64_t cut = pick(t, 1, 30);
  right = tsr_frame_head(right, cut); /* results stay small */
  tsr_coltype type;
  column(t, df, any, a, sizeof a);
  int at = -1;
  for (int c = 0; c < tsr_frame_column_count(df); c++) {
    size_t length = strlen(tsr_frame_column_name(df, c));
    if (length + 2 == strlen(a) && !strncmp(a + 1, tsr_frame_column_name(df, c), length)) at = c;
  }
  if (at < 0) return df;
  type = tsr_frame_column_type(df, at);
  const char *with = type == TSR_COL_TEXT   ? "v"
                     : type == TSR_COL_BOOL ? "b"
                     : type == TSR_COL_F64  ? "x"
                                            : "k";
  if (right == df) return df;
  bool there = false;
  for (int c = 0; c < tsr_frame_column_count(right); c++)
    there = there || !strcmp(with, tsr_frame_column_name(right, c));
  if (!there) return df;
  right = tsr_frame_select_at(right, TSR_FORMULA("x, k, v, b, w = i, z = u"), TSR_HERE);
  if (tsr_frame_is_inert(right)) tsr_scope_clear(t->s);
  if (tsr_frame_is_inert(right) || tsr_frame_column_count(df) > 8) return df;
  const char *each = pick(t, 0, 1)          ? "%s = %s"
                     : type == TSR_COL_TEXT ? "lower(%s) = lower(%s)"
                                            : "cast(%s, 'text') = cast(%s, 'text')";
  snprintf(on, sizeof on, each, a, with);
  say(t, "join", on);
  int64_t how = pick(t, 0, 3);
  tsr_frame *out =
      tsr_frame_head(tsr_frame_join(df, right, on, .how = (tsr_join_how)how, .suffix = "_r"), 900);
  if (!tsr_frame_is_inert(out)) return out;
  tsr_scope_clear(t->s); /* a name that is taken twice */
  return df;
}

static tsr_frame *group(trial *t, tsr_frame *df)
{
  static const char *const aggs[] = {
    "count()",    "sum(%s)",     "mean(%s)",          "min(%s)",
    "max(%s)",    "var(%s)",     "std(%s)",           "count(%s)",
    "median(%s)", "nunique(%s)", "quantile(%s, 0.3)", "max(%s) - min(%s) + count()"
  };
  static const char *const all[] = { "first(%s)", "last(%s)", "nunique(%s)", "min(%s)", "max(%s)" };
  char by[700], text[2000] = "";
  keys(t, df, pick(t, 0, 3) == 0, by, sizeof by);
  int64_t count = pick(t, 1, 3);
  for (int64_t n = 0; n < count; n++) {
    char name[200], one[700];
    bool numbers = pick(t, 0, 1);
    column(t, df, numbers ? numeric : not_text, name, sizeof name);
    if (!numbers && pick(t, 0, 1)) column(t, df, any, name, sizeof name);
    if (!*name) continue;
    const char *form = numbers ? aggs[pick(t, 0, 11)] : all[pick(t, 0, 4)];
    size_t used = 0;
    for (const char *at = form; *at; at++) {
      if (at[0] == '%' && at[1] == 's') {
        used += (size_t)snprintf(one + used, sizeof one - used, "%s", name);
        at++;
      } else one[used++] = *at;
    }
    one[used] = 0;
    used = strlen(text);
    snprintf(text + used, sizeof text - used, "%sa%lld = %s", used ? ", " : "", (long long)n, one);
  }
  if (!*text) return df;
  say(t, "group", by);
  say(t, "agg", text);
  tsr_frame *out = pick(t, 0, 5) ? tsr_frame_group_agg(df, by, text) : tsr_frame_agg(df, text);
  if (!tsr_frame_is_inert(out)) return out;
  tsr_scope_clear(t->s); /* a key named twice */
  return df;
}

/* Groups by what is computed of a column, which may leave its range. */
static tsr_frame *group_computed(trial *t, tsr_frame *df)
{
  static const char *const forms[] = { "%s * 100000000000000", "%s %% 3", "abs(%s) // 2",
                                       "cast(if(%s < 3, '7', 'x'), 'i32')", "-%s + 1 > 0" };
  char name[200], value[300], key[20], by[400];
  column(t, df, whole, name, sizeof name);
  snprintf(value, sizeof value, forms[pick(t, 0, 4)], name);
  snprintf(key, sizeof key, "key%d", tsr_frame_column_count(df));
  if (!*name) return df;
  for (int c = 0; c < tsr_frame_column_count(df); c++)
    if (!strcmp(key, tsr_frame_column_name(df, c))) return df;
  int64_t way = pick(t, 0, 3);
  say(t, way ? "group" : "value_counts", value);
  tsr_frame *from = t->written_out ? tsr_frame_assign(df, key, value) : df;
  if (t->written_out) snprintf(by, sizeof by, "%s", key);
  else snprintf(by, sizeof by, "%s = %s", key, value);
  if (!way) return tsr_frame_value_counts(from, by);
  return tsr_frame_group_agg(from, by, way == 1 ? "i = count()" : "k = count(), u = nunique(1)");
}

/* The columns of numbers; those of texts and bools are left out. */
static tsr_frame *numbers(tsr_frame *df)
{
  char text[3000] = "";
  for (int c = 0; c < tsr_frame_column_count(df); c++) {
    size_t used = strlen(text);
    if (numeric(tsr_frame_column_type(df, c)))
      snprintf(text + used, sizeof text - used, "%s\"%s\"", used ? ", " : "",
               tsr_frame_column_name(df, c));
  }
  return *text ? tsr_frame_select(df, text) : df;
}

/* What is asked of all columns at once. */
static tsr_frame *of_all(trial *t, tsr_frame *df)
{
  char way[20];
  int64_t at = pick(t, 0, 11);
  snprintf(way, sizeof way, "%lld", (long long)at);
  say(t, "all", way);
  bool any = numbers(df) != df;
  switch (at) {
  case 0: return tsr_frame_describe(df);
  case 1: return tsr_frame_keep(t->s, df);
  case 2: return tsr_frame_drop_nulls(df, NULL);
  case 3: return any ? tsr_frame_fill_null(numbers(df), NULL, "3") : df;
  case 4: return tsr_frame_is_null(df);
  case 5: return any ? tsr_frame_sum(numbers(df)) : df;
  case 6: return any ? tsr_frame_std(numbers(df)) : df;
  case 7: return any ? tsr_frame_max(numbers(df)) : df;
  case 8: return any ? tsr_frame_mul(numbers(df), 2.5) : df;
  case 9: return any ? tsr_frame_sub(numbers(df), tsr_frame_mean(numbers(df))) : df;
  case 10: return any ? tsr_frame_add(tsr_frame_min(numbers(df)), numbers(df)) : df;
  default: return tsr_frame_count(df);
  }
}

static tsr_frame *steps(trial *t, tsr_frame *df, int64_t least)
{
  int64_t steps = pick(t, least, MOST_STEPS);
  for (int64_t n = 0; n < steps && !tsr_frame_is_inert(df); n++) {
    switch (pick(t, 0, 17)) {
    case 0:
    case 1: df = filter(t, df); break;
    case 2:
    case 3: df = assign(t, df); break;
    case 4:
    case 5: df = some_rows(t, df); break;
    case 6: df = firsts(t, df); break;
    case 7:
    case 8: df = sort(t, df); break;
    case 9: df = number(t, df); break;
    case 10: df = place(t, df); break;
    case 11: df = concat(t, df); break;
    case 12:
    case 13: df = join(t, df); break;
    case 14: df = filter_chain(t, df); break;
    case 15: df = group_computed(t, df); break;
    case 16: df = of_all(t, df); break;
    default: df = group(t, df);
    }
  }
  return df;
}

static tsr_frame *chain(trial *t)
{
  tsr_frame *df = source(t);
  return steps(t, df, 1);
}

/* ---- the law ----------------------------------------------------------------------------- */

static tsr_status run(trial *t, tsr_runtime *rt, const char *mesh, tsr_table **out)
{
  t->rng = test_seeded(t->seed);
  t->rt = rt;
  t->s = tsr_scope_open(rt);
  t->mesh = mesh ? tsr_mesh_make(rt, mesh) : NULL;
  t->said[0] = 0;
  tsr_frame *df = chain(t);
  tsr_status status = tsr_frame_collect(df, out);
  if (status) return status;
  int64_t rows = 0;
  tsr_status counted = tsr_frame_row_count(df, &rows);
  CHECK_STATUS(counted, TSR_OK, t->s);
  if (!counted) CHECK_I64(rows, tsr_table_row_count(*out));
  return status;
}

/* Whether the chain gave rows. */
static bool try_one(tsr_runtime *rt, uint64_t seed)
{
  static const char *const meshes[] = { "x=1", "x=2", "x=3", "x=5", "x=8", "x=2,y=2", "x=2,y=3" };
  trial one = { .seed = seed, .side = "one", .written_out = true };
  trial many = { .seed = seed, .side = "many" };
  tsr_table *expected = NULL, *found = NULL;
  tsr_status status = run(&one, rt, NULL, &expected);
  const char *mesh = meshes[seed % 7];
  /* A limit that is never reached is none. */
  bool limited = seed / 7 % 4 == 0 && tsr_process_count(rt) == 1;
  tsr_runtime *on = limited ? tsr_runtime_open("cpu:8", .memory_limit = INT64_C(1) << 33) : rt;
  tsr_status other = run(&many, on, mesh, &found);
  if (status != other)
    FAIL("seed %llu on %s: %s (%s), expected %s (%s)\n%s", (unsigned long long)seed, mesh,
         tsr_status_name(other), tsr_message(many.s), tsr_status_name(status), tsr_message(one.s),
         many.said);
  const char *differs = status ? NULL : law_differs(found, expected);
  if (differs) FAIL("seed %llu on %s: %s\n%s", (unsigned long long)seed, mesh, differs, many.said);
  bool some = !status && tsr_table_row_count(expected) > 0;
  tsr_scope_close(many.s);
  tsr_scope_close(one.s);
  if (limited) tsr_runtime_close(on);
  return some;
}

TEST_TIMEOUT(chains_give_the_same_on_every_mesh, 900)
{
  law_each_seed_on_8(5000, guard_asked() ? 100 : test_quick() ? 300 : 4000, 1.0 / 2, try_one);
}

/* ---- a row of aggregates ------------------------------------------------------------------- */

/* What may be asked of rows in one, by the name of the result: numbers that only a run tells, such
 * as plans know, constants and nulls, in any mixture. */
enum { ASKED = 9, WAYS = 6 };
static const struct {
  const char *name, *by[WAYS];
} asked[ASKED] = {
  { "k", { "sum(k)", "min(k)", "count()", "nunique(u)", "7", "if(count() < 0, 1, null)" } },
  { "i", { "max(i)", "count(x)", "first(i)", "sum(i) - count()", "-2", "last(i)" } },
  { "x", { "mean(x)", "max(x)", "median(x)", "std(x)", "0.5", "sum(x)" } },
  { "d",
    { "var(x)", "min(d)", "sum(k) / (count() + 1)", "if(count() > 2, null, 1.5)", "mean(i)",
      "1e300" } },
  { "b", { "any(b)", "all(b)", "count() > 3", "true", "min(k) is null", "x is null" } },
  { "p", { "count(p)", "max(p)", "min(p)", "nunique(p)", "sum(p)", "mean(p)" } },
  { "q", { "max(q)", "min(q)", "count(q)", "last(q)", "first(q)", "mean(q)" } },
  { "u",
    { "max(u)", "min(v)", "first(u)", "'abc'", "lower(max(u))", "if(count() > 2, 'a', null)" } },
  { "v", { "min(u)", "last(v)", "'Zoe'", "max(v)", "last(u)", "max(u)" } },
};

/* A row of aggregates of a source, some rows of which may be left out. Inert where an aggregate
 * does not take a column of its type. */
static tsr_frame *totals(trial *t)
{
  char text[1000] = "";
  tsr_frame *df = source(t);
  switch (pick(t, 0, 5)) {
  case 0: df = filter(t, df); break;
  case 1: df = some_rows(t, df); break;
  case 2: df = sort(t, df); break;
  case 3: df = place(t, df); break;
  case 4: df = firsts(t, df); break;
  default: break;
  }
  int64_t way = pick(t, 0, 7);
  if (way == 0) return tsr_frame_max(tsr_frame_select(df, "k, i, x, d, q"));
  if (way == 1) return tsr_frame_mean(tsr_frame_select(df, "x, k, i, d"));
  for (int a = 0; a < ASKED; a++) {
    size_t used = strlen(text);
    const char *by = asked[a].by[pick(t, 0, WAYS - 1)];
    if (!pick(t, 0, 3) && used) continue;
    snprintf(text + used, sizeof text - used, "%s%s = %s", used ? ", " : "", asked[a].name, by);
  }
  say(t, "totals", text);
  return tsr_frame_agg(df, text);
}

/* The only row of a table as data, in the order of its columns. */
static tsr_frame *given(trial *t, const tsr_table *row)
{
  tsr_column columns[ASKED];
  char order[200] = "";
  int numbers = 0, count = tsr_table_column_count(row);
  tsr_sharding at = random_place(t);
  for (int c = 0; c < count; c++) {
    tsr_coltype type = tsr_table_type(row, c);
    snprintf(order + strlen(order), sizeof order - strlen(order), "%s%s", c ? ", " : "",
             tsr_table_name(row, c));
    if (type == TSR_COL_TEXT) continue;
    uint64_t value = 0;
    double real = tsr_table_f64(row, 0, c);
    if (type == TSR_COL_F64) memcpy(&value, &real, sizeof real); /* a NaN as it is */
    else if (tsr__dtype_is_real((tsr_dtype)type))
      tsr__dtype_put_real((tsr_dtype)type, &value, 0, real);
    else tsr__dtype_put_whole((tsr_dtype)type, &value, 0, tsr_table_i64(row, 0, c));
    columns[numbers++] = (tsr_column){ tsr_table_name(row, c),
                                       tsr_put(t->s, &value, (tsr_dtype)type, TSR_SHAPE(1), at) };
  }
  bool any = numbers > 0;
  if (!any)
    columns[numbers++] = (tsr_column){ "none", tsr_full(t->s, 1, TSR_I64, TSR_SHAPE(1), at) };
  tsr_frame *df = tsr_frame_new_at(t->s, columns, numbers, TSR_HERE);
  for (int c = 0; c < count; c++) {
    const char *text = tsr_table_is_null(row, 0, c) ? NULL : tsr_table_text(row, 0, c);
    if (tsr_table_type(row, c) == TSR_COL_TEXT)
      df = tsr_frame_text_column(df, tsr_table_name(row, c), &text, 1);
  }
  for (int c = 0; c < count; c++) {
    char null[100];
    const char *name = tsr_table_name(row, c);
    snprintf(null, sizeof null, "if(\"%s\" is null, \"%s\", null)", name, name);
    if (tsr_table_type(row, c) != TSR_COL_TEXT && tsr_table_is_null(row, 0, c))
      df = tsr_frame_assign(df, name, null);
  }
  return tsr_frame_select(df, order);
}

/* What a frame is as a file, "" where it cannot be written. */
static void as_a_file(tsr_frame *df, const char *name, char *out, size_t room)
{
  size_t length = 0;
  FILE *in = tsr_frame_write_csv(df, test_tmp(name)) ? NULL : fopen(test_tmp(name), "rb");
  if (in) length = fread(out, 1, room - 1, in);
  if (in) fclose(in);
  out[length] = 0;
}

/* As a stream of Arrow, read again on one device. */
static tsr_status as_a_stream(tsr_scope *s, tsr_frame *df, tsr_table **out)
{
  struct ArrowArrayStream stream = { 0 };
  tsr_status status = tsr_frame_to_arrow(df, &stream);
  return status ? status : tsr_frame_collect(tsr_frame_from_arrow(s, &stream), out);
}

/* Whether arrays of the same columns, without nulls, hold the same. */
static bool same_arrays(tsr_frame *a, tsr_frame *b, const tsr_table *table)
{
  uint64_t found[1000] = { 0 }, expected[1000] = { 0 };
  for (int c = 0; c < tsr_table_column_count(table); c++) {
    if (tsr_table_type(table, c) > TSR_COL_F64 || tsr_table_row_count(table) > 1000) continue;
    const char *name = tsr_table_name(table, c);
    size_t bytes =
        (size_t)tsr_table_row_count(table) * tsr_dtype_size((tsr_dtype)tsr_table_type(table, c));
    tsr_array *of[2] = { tsr_frame_column(a, name, .null_value = TSR_VALUE(1)),
                         tsr_frame_column(b, name, .null_value = TSR_VALUE(1)) };
    if (tsr_read(of[0], found, bytes) || tsr_read(of[1], expected, bytes)) return false;
    if (memcmp(found, expected, bytes) != 0) return false;
  }
  return true;
}

/* Makes the row once more, so that nothing of it is there, or goes on with the one that was
 * read. */
static tsr_frame *totals_again(trial *t, tsr_frame *made)
{
  test_rng before = t->rng;
  if (t->seed / 7 % 2) return made;
  t->rng = test_seeded(t->seed);
  t->said[0] = 0;
  made = totals(t);
  t->rng = before;
  return made;
}

/* What leaves as a file, and as a stream, of which each of several processes would have a part. */
static void compare_outputs(trial *t, trial *g, tsr_frame *found, tsr_frame *expected)
{
  static char text[2][1 << 20];
  tsr_table *stream[2] = { NULL, NULL };
  as_a_file(found, "found.csv", text[0], sizeof text[0]);
  as_a_file(expected, "expected.csv", text[1], sizeof text[1]);
  if (strcmp(text[0], text[1]) != 0)
    FAIL("seed %llu: '%s', expected '%s'\n%s", (unsigned long long)t->seed, text[0], text[1],
         t->said);
  CHECK_STATUS(as_a_stream(t->s, found, &stream[0]), TSR_OK, t->s);
  CHECK_STATUS(as_a_stream(g->s, expected, &stream[1]), TSR_OK, g->s);
  const char *differs = law_differs(stream[0], stream[1]);
  if (differs) FAIL("seed %llu: as a stream %s\n%s", (unsigned long long)t->seed, differs, t->said);
}

static void compare_totals(trial *t, trial *g, tsr_frame *found, tsr_frame *expected)
{
  tsr_table *table[2] = { NULL, NULL };
  int64_t rows = -1;
  tsr_status status = tsr_frame_collect(expected, &table[1]);
  tsr_status other = tsr_frame_collect(found, &table[0]);
  const char *differs = status || other ? NULL : law_differs(table[0], table[1]);
  if (status != other)
    FAIL("seed %llu: '%s', expected '%s'\n%s", (unsigned long long)t->seed, tsr_message(t->s),
         tsr_message(g->s), t->said);
  if (differs) FAIL("seed %llu: %s\n%s", (unsigned long long)t->seed, differs, t->said);
  if (status) return;
  CHECK_STATUS(tsr_frame_row_count(found, &rows), TSR_OK, t->s);
  CHECK_I64(rows, tsr_table_row_count(table[1]));
  CHECK_STR(tsr_frame_text(found), tsr_frame_text(expected));
  CHECK(*tsr_frame_explain(found) && *tsr_frame_devices(found));
  if (!same_arrays(found, expected, table[1]))
    FAIL("seed %llu: arrays differ: '%s' '%s'\n%s", (unsigned long long)t->seed, tsr_message(t->s),
         tsr_message(g->s), t->said);
  if (tsr_process_count(t->rt) == 1) compare_outputs(t, g, found, expected);
}

/* Steps on a row of aggregates, and the same steps on that row as data. */
static bool try_totals(tsr_runtime *rt, uint64_t seed)
{
  static const char *const meshes[] = { NULL, "x=1", "x=2", "x=3", "x=8", "x=2,y=2", "x=2,y=3" };
  const char *mesh = meshes[seed % 7];
  trial t = {
    .seed = seed, .side = "t", .rng = test_seeded(seed), .rt = rt, .s = tsr_scope_open(rt)
  };
  trial g = { .seed = seed, .side = "g", .rt = rt, .s = tsr_scope_open(rt) };
  tsr_table *row = NULL;
  t.mesh = mesh ? tsr_mesh_make(rt, mesh) : NULL;
  tsr_frame *made = totals(&t);
  bool some = !tsr_frame_is_inert(made) && !tsr_frame_collect(made, &row);
  if (some) {
    made = totals_again(&t, made);
    g.mesh = pick(&t, 0, 1) ? t.mesh : NULL;
    g.rng = t.rng;
    tsr_frame *data = given(&g, row);
    CHECK_STATUS(tsr_scope_status(g.s), TSR_OK, g.s);
    g.rng = t.rng;
    tsr_frame *expected = steps(&g, data, 1);
    compare_totals(&t, &g, steps(&t, made, 1), expected);
  }
  tsr_scope_close(g.s);
  tsr_scope_close(t.s);
  return some;
}

TEST_TIMEOUT(a_row_of_aggregates_is_a_row, 900)
{
  law_each_seed_on_8(25000, guard_asked() ? 30 : test_quick() ? 200 : 2500, 1.0 / 3, try_totals);
}
