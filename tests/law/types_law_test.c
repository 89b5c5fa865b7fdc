/* The law of element types: what a verb says of a column of a narrow type is what it says of the
 * same values in i64 or f64, rounded where the result is narrow; and where a value of the wide
 * result does not fit the narrow one, the verb is refused. Runs at each ISA. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/topology_fixture.h"
#include "tessera.h"

enum { MOST = 400 };

static const tsr_dtype narrow_types[] = { TSR_I8,  TSR_I16, TSR_U8,  TSR_U16,
                                          TSR_U32, TSR_U64, TSR_F16, TSR_BF16 };

/* The same rows twice: x and y of a type, and of the widest of its kind. */
typedef struct trial {
  test_rng rng;
  tsr_dtype dtype;
  int64_t rows;
  bool small; /* values of which products fit i8 */
  uint8_t ok[MOST];
  int64_t k[MOST];
  uint64_t narrow[2][MOST]; /* elements, densely */
  uint64_t wide[2][MOST];
} trial;

static bool is_real(const trial *t)
{
  return t->dtype == TSR_F16 || t->dtype == TSR_BF16;
}

static int64_t whole(trial *t)
{
  bool natural =
      t->dtype == TSR_U8 || t->dtype == TSR_U16 || t->dtype == TSR_U32 || t->dtype == TSR_U64;
  int bits = 8 * (int)tsr_dtype_size(t->dtype) - !natural;
  int64_t most = t->small ? 11 : INT64_MAX >> (63 - (bits < 50 ? bits : 50));
  int64_t least = natural ? 0 : -most - !t->small;
  if (!test_range(&t->rng, 0, 3)) return test_corner(&t->rng, least, most);
  return test_range(&t->rng, least, most);
}

static double real(trial *t)
{
  static const double odd[] = { NAN, INFINITY, -INFINITY, -0.0 };
  if (!t->small && !test_range(&t->rng, 0, 15)) return odd[test_range(&t->rng, 0, 3)];
  return (double)test_range(&t->rng, -2000, 2000) / 64;
}

static void fill(trial *t)
{
  for (int64_t r = 0; r < t->rows; r++) {
    t->ok[r] = test_range(&t->rng, 0, 5) != 0;
    t->k[r] = test_range(&t->rng, 0, test_range(&t->rng, 0, 1) ? 3 : 60);
    for (int c = 0; c < 2; c++) {
      if (is_real(t)) {
        tsr__dtype_put_real(t->dtype, t->narrow[c], r, real(t));
        double value = tsr__dtype_get_real(t->dtype, t->narrow[c], r);
        memcpy(&t->wide[c][r], &value, sizeof value);
      } else {
        int64_t value = whole(t);
        tsr__dtype_put_whole(t->dtype, t->narrow[c], r, value);
        memcpy(&t->wide[c][r], &value, sizeof value);
      }
    }
  }
}

static tsr_frame *frame_of(trial *t, tsr_scope *s, tsr_sharding at, bool wide)
{
  tsr_shape shape = TSR_SHAPE(t->rows);
  tsr_dtype dtype = !wide ? t->dtype : is_real(t) ? TSR_F64 : TSR_I64;
  tsr_frame *df =
      tsr_frame_new(s, { "x", tsr_put(s, wide ? t->wide[0] : t->narrow[0], dtype, shape, at) },
                    { "y", tsr_put(s, wide ? t->wide[1] : t->narrow[1], dtype, shape, at) },
                    { "k", tsr_put(s, t->k, TSR_I64, shape, at) },
                    { "ok", tsr_put(s, t->ok, TSR_BOOL, shape, at) });
  return tsr_frame_assign(df, "x", "if(ok, x, null)");
}

/* ---- what is asked --------------------------------------------------------------------------- */

/* Of rows. Those behind the NULL are of integers. */
static const char *const expressions[] = { "x + y",
                                           "x - y",
                                           "x * y",
                                           "x / y",
                                           "-x",
                                           "x * 3",
                                           "x + 1",
                                           "abs(x)",
                                           "sign(x)",
                                           "floor(x)",
                                           "ceil(x)",
                                           "round(x)",
                                           "x ** 2",
                                           "sqrt(y)",
                                           "least(x, y)",
                                           "greatest(x, y)",
                                           "coalesce(x, 7)",
                                           "coalesce(x, y)",
                                           "if(k > 2, x, y)",
                                           "x < y",
                                           "x == y",
                                           "x >= 3",
                                           "x != 5",
                                           "x in (1, 2, 3)",
                                           "between(x, 1, 9)",
                                           "x is null",
                                           "is_nan(y)",
                                           "cast(x, 'f64')",
                                           "cast(x, 'f32')",
                                           "try_cast(x, 'i8')",
                                           "try_cast(x, 'u16')",
                                           "try_cast(x, 'i64')",
                                           "try_cast(x, 'u64')",
                                           "cast(x, 'bool')",
                                           "x * cast(y, 'f64')",
                                           NULL,
                                           "try_cast(x, 'date')",
                                           "x // y",
                                           "x % y",
                                           "x // 3",
                                           "x % 7",
                                           "round(x, -1)",
                                           "cast(x, 'text')",
                                           "try_cast(cast(y, 'text'), 'i64')",
                                           "x ** 3",
                                           "x - 1",
                                           "x * y - 1" };
enum { EXPRESSIONS = sizeof expressions / sizeof *expressions };

static const char aggregates[] =
    "s = sum(x), m = mean(x), lo = min(x), hi = max(x), n = count(x), md = median(y), "
    "q = quantile(x, 0.3), u = nunique(x), f = first(x), l = last(y), any(x > 1), all(y > 1)";
static const char spreads[] = "v = var(y), d = std(x), c = corr(x, y)";

static tsr_frame *join(trial *t, tsr_frame *df)
{
  tsr_frame *right = tsr_frame_group_agg(tsr_frame_filter(df, "k > 1"), "y", "n = count()");
  tsr_frame *keys = tsr_frame_select(right, "z = y, n");
  return tsr_frame_join(df, keys, "x = z", .how = (tsr_join_how)test_range(&t->rng, 0, 3));
}

/* Both tables of a trial go the same way. */
static tsr_frame *ask(trial *t, int which, int at, tsr_frame *df)
{
  switch (which) {
  case 0: return tsr_frame_select(df, expressions[at]);
  case 1: return tsr_frame_agg(df, aggregates);
  case 2: return tsr_frame_group_agg(df, "k", aggregates);
  case 3: return tsr_frame_group_agg(df, "x", "n = count(), s = sum(y), b = max(k)");
  case 4: return tsr_frame_sort(df, at % 2 ? "x desc, k" : "k, y nulls first, x");
  case 5: return tsr_frame_distinct(df, at % 2 ? "x" : "x, k");
  case 6: return tsr_frame_value_counts(df, "x");
  case 7: return join(t, df);
  case 8: return tsr_frame_concat(df, tsr_frame_head(df, 3));
  case 9: return tsr_frame_tail(tsr_frame_filter(df, "x > 2 and k < 50"), 9);
  case 10: return tsr_frame_describe(tsr_frame_select(df, "x, y"));
  case 11: return tsr_frame_fill_null(tsr_frame_select(df, "x, y"), "x", "1");
  case 12: return tsr_frame_group_head(df, "x", 2);
  case 13: return tsr_frame_mean(tsr_frame_select(df, "x, y"));
  case 14: return tsr_frame_max(tsr_frame_select(df, "x, y"));
  case 15: return tsr_frame_sum(tsr_frame_select(df, "x, y"));
  case 16: return tsr_frame_mul(tsr_frame_select(df, "x, y"), 2);
  case 17: return tsr_frame_sample(tsr_frame_drop_nulls(df, "x"), .rows = 20, .seed = 3);
  case 18: return tsr_frame_limit(tsr_frame_sort(df, "y desc"), 2, 9);
  case 19: return tsr_frame_rebalance(tsr_frame_filter(df, "y < 5"));
  case 20: return tsr_frame_agg(df, spreads);
  case 21: return tsr_frame_group_agg(df, "k", spreads);
  case 22: return tsr_frame_rename(tsr_frame_drop(df, "ok"), "w = x, x = y");
  case 23: return tsr_frame_agg(df, "cast(max(x), 'f64') - min(x), max(y) > 3, count(x) * 2");
  case 24: return tsr_frame_group_agg(df, "k = k % 5, b = x > y", "sum(x), min(y), mean(x)");
  default: return tsr_frame_with_row_index(tsr_frame_gather(df), "at");
  }
}
enum { QUERIES = 26 };

/* ---- comparing ------------------------------------------------------------------------------- */

static bool holds(tsr_dtype dtype, int64_t value)
{
  uint64_t room = 0;
  tsr__dtype_put_whole(dtype, &room, 0, value);
  return tsr__dtype_get_whole(dtype, &room, 0) == value && (dtype != TSR_U64 || value >= 0);
}

static bool integer(tsr_coltype type)
{
  return type >= TSR_COL_I8 && type <= TSR_COL_U64;
}

/* Whether the wide rows hold a value that the narrow column cannot. */
static bool leaves(const tsr_frame *narrow, const tsr_table *wide)
{
  for (int c = 0; c < tsr_table_column_count(wide); c++) {
    tsr_coltype type = tsr_frame_column_type(narrow, c);
    for (int64_t r = 0; r < tsr_table_row_count(wide) && integer(type); r++)
      if (!tsr_table_is_null(wide, r, c) && !holds((tsr_dtype)type, tsr_table_i64(wide, r, c)))
        return true;
  }
  return false;
}

static bool same_real(tsr_coltype type, double found, double wide)
{
  double expected = tsr__dtype_round((tsr_dtype)type, wide);
  if (isnan(found) || isnan(expected)) return isnan(found) && isnan(expected);
  return memcmp(&found, &expected, sizeof found) == 0;
}

static bool same_cell(const tsr_table *found, const tsr_table *wide, int64_t r, int c)
{
  tsr_coltype type = tsr_table_type(found, c);
  if (tsr_table_is_null(found, r, c) != tsr_table_is_null(wide, r, c)) return false;
  if (tsr_table_is_null(found, r, c)) return true;
  if (type == TSR_COL_TEXT) return !strcmp(tsr_table_text(found, r, c), tsr_table_text(wide, r, c));
  if (type == TSR_COL_F16 || type == TSR_COL_BF16 || type == TSR_COL_F32 || type == TSR_COL_F64)
    return same_real(type, tsr_table_f64(found, r, c), tsr_table_f64(wide, r, c));
  return tsr_table_i64(found, r, c) == tsr_table_i64(wide, r, c);
}

static void check_same(const char *asked, tsr_dtype dtype, const tsr_table *found,
                       const tsr_table *wide)
{
  CHECK_I64(tsr_table_row_count(found), tsr_table_row_count(wide));
  CHECK_I64(tsr_table_column_count(found), tsr_table_column_count(wide));
  for (int c = 0; c < tsr_table_column_count(found); c++)
    for (int64_t r = 0; r < tsr_table_row_count(found); r++)
      if (!same_cell(found, wide, r, c))
        FAIL("%s of %s: %s, row %lld: %s (%s), wide %s (%s)", asked, tsr_dtype_name(dtype),
             tsr_table_name(found, c), (long long)r, tsr_table_text(found, r, c),
             tsr_coltype_name(tsr_table_type(found, c)), tsr_table_text(wide, r, c),
             tsr_coltype_name(tsr_table_type(wide, c)));
}

static void check_query(trial *t, int which, int at, tsr_runtime *rt, tsr_sharding on)
{
  tsr_scope *s = tsr_scope_open(rt), *other = tsr_scope_open(rt);
  char asked[80];
  snprintf(asked, sizeof asked, "%s (query %d, %d)", which ? "" : expressions[at], which, at);
  test_rng before = t->rng;
  tsr_frame *wide = ask(t, which, at, frame_of(t, other, on, true));
  t->rng = before;
  tsr_frame *narrow = ask(t, which, at, frame_of(t, s, on, false));
  tsr_table *expected = NULL, *found = NULL;
  tsr_status wide_status = tsr_frame_collect(wide, &expected);
  tsr_status status = tsr_frame_collect(narrow, &found);
  if (wide_status) FAIL("%s of %s: %s", asked, tsr_dtype_name(t->dtype), tsr_message(other));
  bool out = which != 2 && which != 3 && leaves(narrow, expected);
  if (status != (out ? TSR_EVALUE : TSR_OK))
    FAIL("%s of %s: %s", asked, tsr_dtype_name(t->dtype),
         out ? "a value left its range unseen" : tsr_message(s));
  if (!out) check_same(asked, t->dtype, found, expected);
  tsr_scope_close(s);
  tsr_scope_close(other);
}

/* Whether a query has the same answer in wide types: the text of a float does not, nor what leaves
 * the wide type itself, or the narrow one on its way. */
static bool has_law(const trial *t, int which, int at)
{
  if (which) return true;
  if (!expressions[at]) return false;
  for (int i = 0; i < at && is_real(t); i++)
    if (!expressions[i]) return false;
  bool steps = !strcmp(expressions[at], "x * y - 1") || !strcmp(expressions[at], "x ** 3");
  bool far = tsr_dtype_size(t->dtype) >= 4 && strchr(expressions[at], '*');
  return t->small || !(steps || far);
}

static void check_seed(uint64_t seed)
{
  trial t = { .rng = test_seeded(seed) };
  law_mesh on = law_open(&t.rng);
  t.dtype = narrow_types[seed % 8];
  t.rows = test_range(&t.rng, 0, 4) ? test_range(&t.rng, 1, MOST) : test_range(&t.rng, 0, 2);
  t.small = test_range(&t.rng, 0, 1);
  fill(&t);
  for (int i = 0; i < 8; i++) {
    int which = (int)test_range(&t.rng, 0, QUERIES - 1);
    int at = (int)test_range(&t.rng, 0, EXPRESSIONS - 1);
    if (i < 4) which = 0;
    if (has_law(&t, which, at)) check_query(&t, which, at, on.rt, tsr_on(on.mesh, "x"));
  }
  tsr_runtime_close(on.rt);
}

TEST_TIMEOUT(narrow_columns_say_what_wide_ones_say, 300)
{
  law_each_seed(1, test_quick() ? 400 : 3000, check_seed);
}
