/* The jobs. Each is small: a few dozen rows, so that thousands of failures can be tried, yet enough
 * for every device to have some and for keys to repeat.
 *
 * Invariant: a job goes on after a failure, as users' code does that asks at the end. */
#include "verb_cases.h"
#include "support/first_axis.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROWS = 60 };

/* ---- seeing results -------------------------------------------------------------------------- */

static void mix(struct verb_run *r, const void *bytes, size_t length)
{
  const unsigned char *at = bytes;
  for (size_t i = 0; i < length; i++) r->hash = (r->hash ^ at[i]) * UINT64_C(0x100000001b3);
}

static void see_status(struct verb_run *r, tsr_status status)
{
  if (!r->status) r->status = status;
}

static void see_i64(struct verb_run *r, int64_t value)
{
  mix(r, &value, sizeof value);
}

static void see_f64(struct verb_run *r, double value)
{
  mix(r, &value, sizeof value);
}

/* Texts are messages where something failed. */
static void see_text(struct verb_run *r, const char *text)
{
  CHECK(text != NULL);
  mix(r, text, strlen(text));
}

static void see(struct verb_run *r, tsr_frame *df)
{
  tsr_table *t = NULL;
  tsr_status status = tsr_frame_collect(df, &t);
  CHECK((status == TSR_OK) == (t != NULL));
  see_status(r, status);
  if (status) return;
  for (int c = 0; c < tsr_table_column_count(t); c++) {
    see_text(r, tsr_table_name(t, c));
    see_i64(r, tsr_table_type(t, c));
    for (int64_t row = 0; row < tsr_table_row_count(t); row++) {
      bool null = tsr_table_is_null(t, row, c);
      const char *text = tsr_table_text(t, row, c);
      size_t length = 0;
      if (!text && !null) see_status(r, TSR_ENOMEM);
      if (!tsr_table_bytes(t, row, c, &length) && !null) see_status(r, TSR_ENOMEM);
      see_i64(r, (int64_t)length);
      see_text(r, text ? text : "\xff");
      see_f64(r, tsr_table_f64(t, row, c));
      see_i64(r, tsr_table_i64(t, row, c));
    }
  }
  see_i64(r, tsr_table_find(t, "f"));
}

void (*verb_look)(tsr_array *a, const char *job);

void verb_see_array(struct verb_run *r, tsr_array *a)
{
  char bytes[4096];
  if (verb_look) verb_look(a, r->job);
  size_t need = tsr_dtype_size(tsr_dtype_of(a));
  tsr_shape shape = tsr_shape_of(a);
  for (int d = 0; d < shape.rank; d++) need *= (size_t)shape.dims[d];
  if (tsr_is_inert(a)) need = 8;
  CHECK(need <= sizeof bytes);
  tsr_status status = tsr_read(a, bytes, need);
  see_status(r, status);
  if (!status) mix(r, bytes, need);
}

static void see_row(struct verb_run *r, tsr_frame *df, const char *name)
{
  tsr_row *row = tsr_frame_row(df);
  see_status(r, tsr_row_status(row));
  if (tsr_row_status(row)) return;
  const char *text = tsr_row_text(row, name);
  size_t length = 0;
  tsr_row_bytes(row, name, &length);
  see_i64(r, (int64_t)length);
  see_i64(r, tsr_row_is_null(row, name));
  see_text(r, text ? text : "\xff");
  see_f64(r, tsr_row_f64(row, name));
  see_i64(r, tsr_row_i64(row, name));
}

/* A nested scope keeps its own error. */
static void close_inner(struct verb_run *r, tsr_scope *inner)
{
  tsr_status status = tsr_scope_status(inner);
  see_status(r, status);
  if (status && !tsr_scope_status(r->s)) tsr_fail(r->s, status, "%s", tsr_message(inner));
  tsr_scope_close(inner);
}

/* ---- what the jobs begin with ---------------------------------------------------------------- */

/* k: integers that repeat; i: numbers of the rows; f: floats with a NaN; m: with nulls; d: dates;
 * t: text with nulls. */
static tsr_frame *rows_frame(struct verb_run *r)
{
  static const char *const words[7] = { "pear", "fig", NULL, "\xc3\xa4pfel", "", "fig tree", "12" };
  int64_t k[ROWS], i[ROWS];
  double f[ROWS];
  const char *t[ROWS];
  for (int row = 0; row < ROWS; row++) {
    k[row] = row * 7 % 11;
    i[row] = row;
    f[row] = row == 13 ? NAN : row * 37 % 23 / 4.0 - 2;
    t[row] = words[row * 5 % 7];
  }
  tsr_frame *df = tsr_frame_new(r->s, { "k", tsr_put(r->s, k, TSR_I64, TSR_SHAPE(ROWS), r->at) },
                                { "i", tsr_put(r->s, i, TSR_I64, TSR_SHAPE(ROWS), r->at) },
                                { "f", tsr_put(r->s, f, TSR_F64, TSR_SHAPE(ROWS), r->at) });
  df = tsr_frame_text_column(df, "t", t, ROWS);
  df = tsr_frame_assign(df, "m", "if(i % 4 == 1, null, f * 2)");
  return tsr_frame_assign(df, "d", "cast(cast(k * 40, 'i32'), 'date')");
}

/* Keys of other order and number, for joins. */
static tsr_frame *other_frame(struct verb_run *r)
{
  static const int64_t key[9] = { 9, 3, 7, 3, 40, 1, 9, 2, 0 };
  static const double x[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
  static const char *const t[9] = { "fig", "x", NULL, "12", "", "fig", "pear", "y", "z" };
  tsr_frame *df = tsr_frame_new(r->s, { "k", tsr_put(r->s, key, TSR_I64, TSR_SHAPE(9), r->at) },
                                { "x", tsr_put(r->s, x, TSR_F64, TSR_SHAPE(9), r->at) });
  return tsr_frame_text_column(df, "t", t, 9);
}

void verb_no_memory(struct verb_run *r)
{
  if (!tsr_scope_status(r->s)) tsr_fail(r->s, TSR_ENOMEM, "no memory");
  if (!r->status) r->status = TSR_ENOMEM;
}

tsr_array *verb_matrix(struct verb_run *r)
{
  double x[24];
  for (int i = 0; i < 24; i++) x[i] = i * 5 % 7 - 2.5;
  return tsr_put(r->s, x, TSR_F64, TSR_SHAPE(6, 4), r->at);
}

/* ---- frames: chains -------------------------------------------------------------------------- */

static void filter_assign_select(struct verb_run *r)
{
  tsr_frame *df = tsr_frame_filter(rows_frame(r), "f > ? and (t != ? or t is null)", -1.5, "fig");
  df = tsr_frame_assign(df, "g", "f * ? + i", 3);
  see(r, tsr_frame_select(df, "g, h = k % 3 == 0, i, b = between(f, 0, 2)"));
}

static void params(struct verb_run *r)
{
  double big = 0x1p63;
  see(r, tsr_frame_filter(rows_frame(r), "k < ? and f < ? and t == ? and (i > 1) == ?", big, 99.5,
                          "fig", (bool)true));
}

static void head_limit_tail(struct verb_run *r)
{
  see(r, tsr_frame_head(rows_frame(r), 5));
  see(r, tsr_frame_limit(tsr_frame_filter(rows_frame(r), "k > 2"), 3, 7));
  see(r, tsr_frame_tail(tsr_frame_filter(rows_frame(r), "k > 2"), 4));
}

static void sort_one(struct verb_run *r)
{
  see(r, tsr_frame_sort(rows_frame(r), "f desc"));
}

static void sort_several(struct verb_run *r)
{
  see(r, tsr_frame_sort(rows_frame(r), "t nulls first, m desc, k + 1"));
}

static void sample(struct verb_run *r)
{
  see(r, tsr_frame_sample(rows_frame(r), .rows = 9, .seed = 4));
  see(r, tsr_frame_sample(rows_frame(r), .fraction = 0.3, .seed = 4));
}

static void distinct(struct verb_run *r)
{
  see(r, tsr_frame_distinct(rows_frame(r), "t, k"));
  see(r, tsr_frame_distinct(tsr_frame_select(rows_frame(r), "m"), NULL));
}

static void group_head(struct verb_run *r)
{
  see(r, tsr_frame_group_head(tsr_frame_sort(rows_frame(r), "f"), "t", 2));
}

static void nulls(struct verb_run *r)
{
  see(r, tsr_frame_drop_nulls(rows_frame(r), "m, t"));
  see(r, tsr_frame_fill_null(rows_frame(r), "m", "f + ?", 0.5));
  see(r, tsr_frame_fill_null(rows_frame(r), "t", "'none'"));
  see(r, tsr_frame_is_null(rows_frame(r)));
}

static void names(struct verb_run *r)
{
  tsr_frame *df = tsr_frame_drop(rows_frame(r), "d, t");
  df = tsr_frame_with_row_index(tsr_frame_rename(df, "kk = k, ff = f"), "row");
  see_text(r, tsr_frame_schema(df));
  see_i64(r, tsr_frame_column_count(df));
  see_i64(r, tsr_frame_column_type(df, 1));
  see_text(r, tsr_frame_is_inert(df) ? "" : tsr_frame_column_name(df, 1));
  see(r, df);
}

static void row_index_of_some(struct verb_run *r)
{
  see(r, tsr_frame_with_row_index(tsr_frame_filter(rows_frame(r), "k == 3"), "row"));
}

/* ---- frames: expressions --------------------------------------------------------------------- */

static void text_functions(struct verb_run *r)
{
  tsr_frame *df = tsr_frame_select(
      rows_frame(r), "a = concat(lower(t), '-', cast(k, 'text')), b = length(t), c = "
                     "replace(upper(t), 'I', 'cc'), e = slice(t, 1, 2), g = starts_with(t, 'f'), h "
                     "= contains(t, 'e'), j = ends_with(t, 'r')");
  see(r, tsr_frame_filter(df, "c != a or e == 'ig'"));
}

static void casts(struct verb_run *r)
{
  see(r, tsr_frame_select(rows_frame(r),
                          "a = try_cast(t, 'i64'), b = cast(f, 'text'), c = cast(i, 'f32'), e = "
                          "cast(d, 'text'), g = coalesce(m, f, 0), h = if(k > 4, t, 'few')"));
}

static void dates(struct verb_run *r)
{
  see(r, tsr_frame_group_agg(rows_frame(r), "y = year(d), mo = month(d) desc",
                             "n = count(), last = max(d), w = min(weekday(d))"));
}

static void mathematics(struct verb_run *r)
{
  see(r,
      tsr_frame_select(rows_frame(r), "a = sqrt(abs(f)), b = exp(f) + log(i + 1), c = round(f, 1), "
                                      "e = floor(f / 2), g = k // 3, h = k % 4, j = k in (1, "
                                      "2, 3), l = sin(f)"));
}

/* ---- frames: aggregates ---------------------------------------------------------------------- */

static void agg_fused(struct verb_run *r)
{
  tsr_frame *df =
      tsr_frame_agg(rows_frame(r), "a = sum(f), b = mean(m), c = min(i), e = max(k), n = "
                                   "count(), o = count(m), v = var(i), s = std(i), y = "
                                   "any(k > 3), z = all(k > 3), q = corr(i, k)");
  see(r, df);
  see_row(r, df, "s");
}

/* One aggregate a job where rows of a group are needed together. */
#define AGG_OF_ALL(id, text)                           \
  static void agg_##id(struct verb_run *r)             \
  {                                                    \
    see(r, tsr_frame_agg(rows_frame(r), "a = " text)); \
  }
#define AGG_OF_GROUPS(id, text)                                           \
  static void group_##id(struct verb_run *r)                              \
  {                                                                       \
    see(r, tsr_frame_group_agg(rows_frame(r), "t", "a = " text));         \
    see(r, tsr_frame_group_agg(rows_frame(r), "m, k desc", "a = " text)); \
  }
#define AGGREGATES(X)              \
  X(sum, "sum(m)")                 \
  X(mean, "mean(f)")               \
  X(min, "min(f)")                 \
  X(max, "max(d)")                 \
  X(count, "count(t)")             \
  X(var, "var(f)")                 \
  X(std, "std(m)")                 \
  X(any, "any(k > 3)")             \
  X(all, "all(k > 3)")             \
  X(median, "median(m)")           \
  X(quantile, "quantile(f, 0.25)") \
  X(nunique, "nunique(t)")         \
  X(first, "first(t)")             \
  X(last, "last(m)")               \
  X(corr, "corr(f, i)")            \
  X(text_max, "max(t)")            \
  X(mixed, "median(i) + sum(k) / count()")
AGGREGATES(AGG_OF_ALL)
AGGREGATES(AGG_OF_GROUPS)

static void group_by_many_keys(struct verb_run *r)
{
  see(r, tsr_frame_group_agg(rows_frame(r), "t, k, d, f, b = i > 30", "n = count(), x = sum(m)"));
}

static void value_counts(struct verb_run *r)
{
  see(r, tsr_frame_value_counts(rows_frame(r), "t, k"));
}

static void describe(struct verb_run *r)
{
  see(r, tsr_frame_describe(rows_frame(r)));
}

static void whole_frames(struct verb_run *r)
{
  tsr_frame *df = tsr_frame_select(rows_frame(r), "i, f, m");
  see(r, tsr_frame_add(df, 2));
  see(r, tsr_frame_sub(df, tsr_frame_mean(df)));
  see(r, tsr_frame_mul(df, df));
  see(r, tsr_frame_div(df, 2.5));
}

static void whole_reductions(struct verb_run *r)
{
  tsr_frame *df = tsr_frame_select(rows_frame(r), "i, f, m");
  see(r, tsr_frame_sum(df));
  see(r, tsr_frame_min(df));
  see(r, tsr_frame_max(df));
  see(r, tsr_frame_count(df));
  see(r, tsr_frame_var(df));
  see(r, tsr_frame_std(df));
}

/* ---- frames: several, and where rows lie ----------------------------------------------------- */

static void concat(struct verb_run *r)
{
  tsr_frame *a = tsr_frame_select(rows_frame(r), "k, t, x = f");
  see(r, tsr_frame_concat(a, other_frame(r), tsr_frame_head(a, 3)));
}

static void join_inner(struct verb_run *r)
{
  see(r, tsr_frame_join(rows_frame(r), other_frame(r), "k"));
}

static void join_left_of_text(struct verb_run *r)
{
  see(r, tsr_frame_join(rows_frame(r), other_frame(r), "t", .how = TSR_JOIN_LEFT, .suffix = "_2"));
}

static void join_semi_anti(struct verb_run *r)
{
  see(r, tsr_frame_join(rows_frame(r), other_frame(r), "k, t", .how = TSR_JOIN_SEMI));
  see(r, tsr_frame_join(rows_frame(r), other_frame(r), "k, f = x", .how = TSR_JOIN_ANTI));
}

static void join_of_large(struct verb_run *r)
{
  tsr_frame *b = tsr_frame_rename(rows_frame(r), "j = i");
  see(r, tsr_frame_join(rows_frame(r), b, "i = j", .unique = true));
}

static void join_of_replicated(struct verb_run *r)
{
  tsr_frame *b = tsr_frame_scatter(tsr_frame_distinct(other_frame(r), "k"), tsr_on(r->mesh, "-"));
  see(r, tsr_frame_join(rows_frame(r), b, "k", .unique = true));
}

static void moved(struct verb_run *r)
{
  tsr_frame *df = tsr_frame_filter(rows_frame(r), "k > 3");
  tsr_frame *one = tsr_frame_gather(df);
  see_text(r, tsr_frame_devices(one));
  see(r, one);
  see(r, tsr_frame_rebalance(df));
  see(r, tsr_frame_scatter(one, r->at));
  see_i64(r, tsr_frame_sharding(one).rank);
  const char *why = tsr_frame_incompatible(one, rows_frame(r));
  see_text(r, why ? why : "none");
}

/* ---- frames: terminals ----------------------------------------------------------------------- */

static void keep_frame(struct verb_run *r)
{
  tsr_scope *inner = tsr_scope_open(r->s);
  struct verb_run in = *r;
  in.s = inner;
  tsr_frame *kept = tsr_frame_keep(r->s, tsr_frame_sort(rows_frame(&in), "f"));
  close_inner(r, inner);
  see(r, tsr_frame_filter(kept, "k > 2"));
}

static void rows_and_column(struct verb_run *r)
{
  int64_t count = 0;
  tsr_frame *df = tsr_frame_filter(rows_frame(r), "k != 4");
  see_status(r, tsr_frame_row_count(df, &count));
  see_i64(r, count);
  verb_see_array(r, tsr_frame_column(df, "f"));
  verb_see_array(r, tsr_frame_column(df, "m", .null_value = TSR_VALUE(0.0)));
}

/* A text that a terminal wrote to its place, or its status. */
static void see_into(struct verb_run *r, tsr_status status, const char *const *text)
{
  see_status(r, status);
  if (!status) see_text(r, *text);
}

static void drawn(struct verb_run *r)
{
  const char *text = NULL;
  tsr_frame *df = tsr_frame_filter(rows_frame(r), "k != 4");
  see_text(r, tsr_frame_text(df));
  see_text(r,
           tsr_frame_text_with(df, &(tsr_show_opts){ .size = sizeof(tsr_show_opts), .rows = 4 }));
  see_into(r, tsr_frame_text_into(df, NULL, &text), &text);
  see_into(r, tsr_frame_devices_into(df, &text), &text);
  FILE *out = fopen("/dev/null", "w");
  see_status(r, tsr_frame_print(df, out));
  fclose(out);
}

static void explained(struct verb_run *r)
{
  tsr_frame *df = tsr_frame_join(tsr_frame_filter(rows_frame(r), "f > 0"), other_frame(r), "k");
  df = tsr_frame_sort(tsr_frame_group_agg(df, "t", "n = count(), x = median(x)"), "n");
  const char *text = NULL;
  see_into(r, tsr_frame_explain_into(df, &text), &text);
  see_text(r, tsr_frame_explain(df));
  see(r, df);
  tsr_frame_explain(df); /* measured: holds times */
}

static void columns_over_a_mesh_of_two_axes(struct verb_run *r)
{
  tsr_mesh *two = tsr_mesh_make(r->rt, "x=2,y=2");
  tsr_frame *df = tsr_frame_scatter(rows_frame(r), tsr_on(two, "y"));
  see(r, tsr_frame_sort(tsr_frame_group_agg(df, "t, m", "a = sum(f), b = median(k)"), "a"));
}

/* ---- files ----------------------------------------------------------------------------------- */

#define READ_CSV(id, ...)                                                     \
  static void id(struct verb_run *r)                                          \
  {                                                                           \
    see(r, tsr_frame_read_csv(r->s, __VA_ARGS__, .on = first_axis(r->mesh))); \
  }
READ_CSV(csv_plain, test_tmp("t.csv"))
READ_CSV(csv_gzip, test_tmp("t.csv.gz"))
READ_CSV(csv_zstd, test_tmp("t.csv.zst"))
READ_CSV(csv_pattern, test_tmp("part-*.csv"))

static void csv_widened(struct verb_run *r)
{
  tsr_frame *df = tsr_frame_read_csv(r->s, test_tmp("wide.csv"), .on = first_axis(r->mesh));
  see(r, tsr_frame_tail(df, 3));
  see(r, tsr_frame_agg(df, "n = nunique(a), m = sum(b)"));
}

READ_CSV(csv_choice, test_tmp("t.csv"), .columns = "t, k", .types = "k f64", .nulls = "NA, fig")
READ_CSV(csv_bad_rows, test_tmp("bad.csv"), .bad_rows = TSR_BAD_ROWS_SKIP)
READ_CSV(csv_named, test_tmp("t.csv"), .skip_rows = 1, .no_header = true, .names = "a,b,c,e,g,h")

static void csv_agg(struct verb_run *r)
{
  tsr_frame *df = tsr_frame_read_csv(r->s, test_tmp("t.csv"), .on = first_axis(r->mesh));
  df = tsr_frame_filter(df, "k > 3");
  see(r, tsr_frame_agg(df, "a = sum(f), b = count(t)"));
  see(r, tsr_frame_group_agg(df, "t", "a = sum(i)"));
  see(r, tsr_frame_head(df, 3));
}

static void json_plain(struct verb_run *r)
{
  see(r, tsr_frame_read_json(r->s, test_tmp("t.jsonl"), .on = first_axis(r->mesh)));
}

static void json_packed(struct verb_run *r)
{
  see(r, tsr_frame_read_json(r->s, test_tmp("t.jsonl.gz"), .columns = "t, m, i", .types = "i text",
                             .bad_rows = TSR_BAD_ROWS_NULL));
}

static void json_pattern(struct verb_run *r)
{
  see(r, tsr_frame_read_json(r->s, test_tmp("part-*.jsonl"), .on = first_axis(r->mesh)));
}

#define WRITE(id, call)                                    \
  static void id(struct verb_run *r)                       \
  {                                                        \
    tsr_frame *df = tsr_frame_sort(rows_frame(r), "t, i"); \
    tsr_status status = call;                              \
    see_status(r, status);                                 \
    if (!status) see_i64(r, (int64_t)verb_out_hash());     \
  }
static const char *out_path(const char *name);
WRITE(write_csv, tsr_frame_write_csv(df, out_path("o")))
WRITE(write_csv_gzip, tsr_frame_write_csv(df, out_path("o.gz"), .separator = ';', .null = "-"))
WRITE(write_csv_zstd, tsr_frame_write_csv(df, out_path("o.zst"), .no_header = true))
WRITE(write_json, tsr_frame_write_json(df, out_path("o")))
WRITE(write_json_zstd, tsr_frame_write_json(df, out_path("o.zst")))
WRITE(write_json_array, tsr_frame_write_json(df, out_path("o.json")))
WRITE(write_markdown, tsr_frame_write_markdown(df, out_path("o")))
WRITE(write_text, tsr_frame_write_text(df, out_path("o.gz")))
WRITE(write_npz, tsr_save_npz(r->s, out_path("o"), { "x", verb_matrix(r) },
                              { "i", tsr_frame_column(df, "i") }, { "e", tsr_num(r->s, 3) }))

static void write_npy(struct verb_run *r)
{
  tsr_status status = tsr_save_npy(tsr_mul(verb_matrix(r), 2), out_path("o"));
  see_status(r, status);
  if (!status) see_i64(r, (int64_t)verb_out_hash());
}

static void npy(struct verb_run *r)
{
  verb_see_array(r, tsr_load_npy(r->s, test_tmp("m.npy"), r->at));
  verb_see_array(r, tsr_load_npy(r->s, test_tmp("m.npy"), tsr_on(r->mesh, "-,data")));
  verb_see_array(r, tsr_load_npy(r->s, test_tmp("odd.npy"), r->at));
}

static void npz_of(struct verb_run *r, const char *path)
{
  tsr_npz *npz = tsr_load_npz(r->s, path);
  see_i64(r, tsr_npz_count(npz));
  for (int i = 0; i < tsr_npz_count(npz); i++) {
    see_text(r, tsr_npz_name(npz, i));
    verb_see_array(r, tsr_npz_array(npz, tsr_npz_name(npz, i), tsr_on(r->mesh, "-")));
  }
}

static void npz(struct verb_run *r)
{
  npz_of(r, test_tmp("a.npz"));
}

static void npz_deflated(struct verb_run *r)
{
  npz_of(r, test_file("golden/files/numpy_deflated.npz"));
}

static void arrow(struct verb_run *r)
{
  struct ArrowArrayStream stream = { 0 };
  tsr_status status = tsr_frame_to_arrow(tsr_frame_filter(rows_frame(r), "k > 1"), &stream);
  CHECK((status == TSR_OK) == (stream.release != NULL));
  see_status(r, status);
  if (status) return;
  tsr_frame *df = tsr_frame_from_arrow(r->s, &stream);
  CHECK(!stream.release);
  see(r, tsr_frame_sort(tsr_frame_assign(df, "z", "length(t) + k"), "t, i"));
}

static void arrow_one_batch(struct verb_run *r)
{
  struct ArrowArrayStream stream = { 0 };
  see_status(r, tsr_frame_to_arrow(tsr_frame_gather(rows_frame(r)), &stream));
  if (!stream.release) return;
  tsr_frame *df = tsr_frame_from_arrow(r->s, &stream, .on = first_axis(r->mesh));
  see(r, tsr_frame_agg(df, "a = sum(f), b = nunique(t), c = sum(k)"));
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static void elementwise(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *y = tsr_add(tsr_mul(x, 3), tsr_sub(x, 1));
  verb_see_array(r, tsr_div(y, tsr_maximum(tsr_abs(x), 1)));
  verb_see_array(r, tsr_mod(tsr_floordiv(y, 2), tsr_minimum(y, 5)));
  verb_see_array(r, tsr_exp(tsr_log1p(tsr_sqrt(tsr_abs(tsr_neg(x))))));
  verb_see_array(r, tsr_pow(tsr_tanh(tsr_sin(x)), tsr_cos(tsr_tan(y))));
  verb_see_array(r, tsr_log2(tsr_log10(tsr_add(tsr_abs(x), 3))));
  verb_see_array(r, tsr_log(tsr_add(tsr_floor(tsr_abs(x)), tsr_rint(tsr_abs(y)))));
}

static void functions(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *a = tsr_abs(x);
  verb_see_array(r, tsr_add(tsr_sin(x), tsr_mul(tsr_cos(x), tsr_tan(x))));
  verb_see_array(r, tsr_sub(tsr_tanh(x), tsr_asinh(tsr_ceil(x))));
  verb_see_array(r, tsr_div(tsr_log2(tsr_add(a, 1)), tsr_log10(tsr_add(a, 2))));
  verb_see_array(r, tsr_pow(a, tsr_trunc(x)));
  verb_see_array(r, tsr_mul(tsr_exp2(x), tsr_expm1(x)));
  verb_see_array(r, tsr_add(tsr_acosh(tsr_add(a, 1)), tsr_atanh(tsr_div(x, tsr_add(a, 1)))));
}

static void views(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *y = tsr_transpose(tsr_slice(x, TSR_RANGE(1, TSR_END), TSR_ALL));
  tsr_shape wide = tsr_shape_of(x);
  verb_see_array(r, y);
  verb_see_array(r, tsr_add(tsr_flip(x, TSR_DIMS(0)), 1));
  verb_see_array(r, tsr_broadcast_to(tsr_sum(x, .dims = TSR_DIMS(0), .keep_dims = true), wide));
  verb_see_array(r, tsr_pad(x, .low = { 1 }, .high = { 0, 2 }, .value = TSR_OPERAND(7)));
  verb_see_array(r, tsr_concat((tsr_array *[]){ x, tsr_neg(x) }, 2, 1));
}

static void comparisons(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r);
  tsr_array *a = tsr_and(tsr_lt(x, 2), tsr_ge(x, -1)), *b = tsr_or(tsr_eq(x, 0), tsr_ne(x, 1.5));
  verb_see_array(r, tsr_xor(a, tsr_not(b)));
  verb_see_array(r, tsr_where(tsr_or(tsr_gt(x, 1), tsr_le(x, -2)), x,
                              tsr_cast(tsr_isnan(x), TSR_F64)));
}

static void reductions(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *few = tsr_gt(x, 0);
  verb_see_array(r, tsr_sum(x));
  verb_see_array(r, tsr_prod(x, .dims = TSR_DIMS(0)));
  verb_see_array(r, tsr_mean(x, .dims = TSR_DIMS(1), .keep_dims = true));
  verb_see_array(r, tsr_var(x, .ddof = 1, .where = few));
  verb_see_array(r, tsr_std(x, .dims = TSR_DIMS(0)));
  verb_see_array(r, tsr_min(x, .where = few));
  verb_see_array(r, tsr_max(x, .dims = TSR_DIMS(1)));
  verb_see_array(r, tsr_argmin(x, .where = few));
  verb_see_array(r, tsr_argmax(x, .dims = TSR_DIMS(1)));
  verb_see_array(r, tsr_any(few, .dims = TSR_DIMS(0)));
  verb_see_array(r, tsr_all(few));
  verb_see_array(r, tsr_count(few, .dims = TSR_DIMS(1)));
}

static void made_arrays(struct verb_run *r)
{
  verb_see_array(r, tsr_full(r->s, 2.5, TSR_F64, TSR_SHAPE(7), r->at));
  verb_see_array(r, tsr_full_like(verb_matrix(r), 1.5));
  verb_see_array(r, tsr_take(verb_matrix(r), tsr_iota(r->s, TSR_I64, TSR_SHAPE(3), 0, r->at), 0));
  verb_see_array(r, tsr_add(tsr_num(r->s, 4), tsr_num(r->s, 2)));
}

static void along_dims(struct verb_run *r)
{
  static const int64_t places[3] = { 1, 0, 1 };
  verb_see_array(r, tsr_cumsum(verb_matrix(r), 0));
  verb_see_array(r, tsr_cumprod(verb_matrix(r), 1));
  verb_see_array(r, tsr_cummax(verb_matrix(r), 0));
  verb_see_array(r, tsr_cummin(verb_matrix(r), -1));
  verb_see_array(r, tsr_sort(verb_matrix(r), 0));
  verb_see_array(r, tsr_argsort(verb_matrix(r), 1));
  verb_see_array(r, tsr_top_k(verb_matrix(r), 2, 0));
  verb_see_array(r, tsr_arg_top_k(verb_matrix(r), 3, 1));
  tsr_array *x = verb_matrix(r), *at = tsr_put(r->s, places, TSR_I64, TSR_SHAPE(3), r->at);
  verb_see_array(r, tsr_scatter_add(x, at, tsr_take(x, at, 0), 0));
  tsr_array *right = tsr_full(r->s, 2, TSR_F64, TSR_SHAPE(4, 2), (tsr_sharding){ 0 });
  verb_see_array(r, tsr_matmul(x, right));
}

static void products(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *y = tsr_transpose(x);
  verb_see_array(r, tsr_dot(x, y));
  verb_see_array(r, tsr_inner(x, x));
  verb_see_array(r, tsr_outer(tsr_sum(x, .dims = TSR_DIMS(1)), x));
  verb_see_array(r, tsr_tensordot(x, y, 2, (int[]){ 0, 1 }, (int[]){ 1, 0 }));
  verb_see_array(r, tsr_einsum("ij,ik->jk", x, x));
  verb_see_array(r, tsr_trace(tsr_matmul(x, y), .offset = 1));
}

static void windows(struct verb_run *r)
{
  tsr_array *x = verb_matrix(r), *image = tsr_broadcast_to(x, TSR_SHAPE(2, 6, 4));
  tsr_array *kernel = tsr_full(r->s, 2, TSR_F64, TSR_SHAPE(2, 4, 3), (tsr_sharding){ 0 });
  verb_see_array(r, tsr_conv(image, kernel, .low = { 1 }));
  verb_see_array(r, tsr_reduce_window(x, TSR_WINDOW_PROD, .window = { 2, 3 }));
  verb_see_array(r, tsr_max_pool(image, .window = { 2 }));
  verb_see_array(r, tsr_avg_pool(image, .window = { 2 }, .stride = { 1 }));
}

static void give_back(void *data, void *user)
{
  (void)data;
  ++*(int *)user;
}

static void adopted(struct verb_run *r)
{
  static _Alignas(64) double x[16] = { 1, 2, 3, 4, 5, 6, 7, 8 };
  int released = 0;
  tsr_scope *s = tsr_scope_open(r->s);
  tsr_array *a =
      tsr_adopt(s, x, TSR_F64, TSR_SHAPE(16), tsr_on_device(r->rt, 0), give_back, &released);
  tsr_array *b = tsr_adopt(s, x, TSR_F64, TSR_SHAPE(16), r->at, give_back, &released);
  verb_see_array(r, tsr_sum(a));
  verb_see_array(r, tsr_sum(b));
  close_inner(r, s);
  CHECK_I64(released, 2);
}

static void shards(struct verb_run *r)
{
  static const int64_t x[4] = { 1, 2, 3, 4 };
  const void *parts[16];
  int count = tsr_device_count(r->rt);
  for (int i = 0; i < count; i++) parts[i] = x;
  tsr_array *a = tsr_from_shards(r->s, parts, count, TSR_I64, TSR_SHAPE(4 * (int64_t)count), r->at);
  verb_see_array(r, a);
  tsr_shard shard = { 0 };
  tsr_status status = tsr_shard_view(a, 0, &shard);
  see_status(r, status);
  if (!status) mix(r, shard.data, sizeof x);
}

static void placed(struct verb_run *r)
{
  tsr_mesh *two = tsr_mesh_make(r->rt, "x=2,y=2");
  tsr_array *x = tsr_reshard(verb_matrix(r), tsr_on(two, "x,y"));
  tsr_array *y = tsr_reshard(x, tsr_on(two, "y+x,-"));
  verb_see_array(r, tsr_add(tsr_constrain(tsr_mul(y, 2), tsr_on(two, "-,x")), x));
  see_text(r, tsr_explain(&y, 1));
  see_text(r, tsr_dump(y));
  see_text(r, tsr_text_of(y));
  see_text(r, tsr_devices_of(x));
  see_text(r, tsr_type_of(x));
  const char *text = NULL;
  see_into(r, tsr_explain_into(&y, 1, &text), &text);
  see_into(r, tsr_dump_into(y, &text), &text);
  see_into(r, tsr_text_into(y, &text), &text);
  see_into(r, tsr_devices_into(x, &text), &text);
}

static void kept_arrays(struct verb_run *r)
{
  tsr_scope *inner = tsr_scope_open(r->s);
  struct verb_run in = *r;
  in.s = inner;
  tsr_array *x = tsr_mul(verb_matrix(&in), 2), *kept = tsr_keep(r->s, x);
  see_status(r, tsr_eval(&x, 1));
  see_status(r, tsr_wait(x));
  tsr_delete(x);
  close_inner(r, inner);
  double sum = 0;
  int64_t count = 0;
  see_status(r, tsr_read_scalar(tsr_sum(kept), &sum));
  see_f64(r, sum);
  see_status(r, tsr_read_i64(tsr_count(tsr_gt(kept, 0)), &count));
  see_i64(r, count);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define CASE(id) \
  {              \
#id, id      \
  }
#define CASE_OF_ALL(id, text) { "agg_" #id, agg_##id },
#define CASE_OF_GROUPS(id, text) { "group_" #id, group_##id },
const struct verb_case verb_cases[] = {
  CASE(filter_assign_select),
  CASE(params),
  CASE(head_limit_tail),
  CASE(sort_one),
  CASE(sort_several),
  CASE(sample),
  CASE(distinct),
  CASE(group_head),
  CASE(nulls),
  CASE(names),
  CASE(row_index_of_some),
  CASE(text_functions),
  CASE(casts),
  CASE(dates),
  CASE(mathematics),
  CASE(agg_fused),
  AGGREGATES(CASE_OF_ALL) AGGREGATES(CASE_OF_GROUPS) CASE(group_by_many_keys),
  CASE(value_counts),
  CASE(describe),
  CASE(whole_frames),
  CASE(whole_reductions),
  CASE(concat),
  CASE(join_inner),
  CASE(join_left_of_text),
  CASE(join_semi_anti),
  CASE(join_of_large),
  CASE(join_of_replicated),
  CASE(moved),
  CASE(keep_frame),
  CASE(rows_and_column),
  CASE(drawn),
  CASE(explained),
  CASE(columns_over_a_mesh_of_two_axes),
  CASE(csv_plain),
  CASE(csv_gzip),
  CASE(csv_zstd),
  CASE(csv_pattern),
  CASE(csv_widened),
  CASE(csv_choice),
  CASE(csv_bad_rows),
  CASE(csv_named),
  CASE(csv_agg),
  CASE(json_plain),
  CASE(json_packed),
  CASE(json_pattern),
  CASE(write_csv),
  CASE(write_csv_gzip),
  CASE(write_csv_zstd),
  CASE(write_json),
  CASE(write_json_zstd),
  CASE(write_json_array),
  CASE(write_markdown),
  CASE(write_text),
  CASE(write_npy),
  CASE(write_npz),
  CASE(npy),
  CASE(npz),
  CASE(npz_deflated),
  CASE(arrow),
  CASE(arrow_one_batch),
  CASE(elementwise),
  CASE(functions),
  CASE(views),
  { "more_functions", verb_more_functions },
  { "more_elements", verb_more_elements },
  { "statistics", verb_statistics },
  { "products of parts", verb_parts_of_products },
  { "shapes", verb_shapes },
  { "more_shapes", verb_more_shapes },
  { "indexing", verb_indexing },
  { "finding", verb_finding },
  { "elsewhere", verb_elsewhere },
  { "trees", verb_trees },
  { "functions", verb_functions },
  { "compiled", verb_compiled },
  { "taps", verb_taps },
  { "profiled", verb_profiled },
  { "saved", verb_saved },
  { "meeting", verb_meeting },
  { "checkpoints", verb_checkpoints },
  { "pipelines", verb_pipelines },
  { "more_sources", verb_more_sources },
  { "stages", verb_stages },
  { "images", verb_images },
  { "gradients", verb_gradients },
  { "rules", verb_rules },
  { "mapping", verb_mapping },
  { "shard_maps", verb_shard_maps },
  { "training", verb_training },
  { "loops", verb_loops },
  { "named", verb_named },
  { "donated", verb_donated },
  { "frame_trees", verb_frame_trees },
  CASE(comparisons),
  CASE(reductions),
  CASE(made_arrays),
  CASE(along_dims),
  CASE(products),
  CASE(windows),
  { "draws", verb_draws },
  { "more_draws", verb_more_draws },
  CASE(adopted),
  CASE(shards),
  CASE(placed),
  CASE(kept_arrays),
  { "process_data", verb_process_data },
};
const int verb_case_count = (int)(sizeof verb_cases / sizeof *verb_cases);

/* ---- running one ----------------------------------------------------------------------------- */

static char last_message[600];

const char *verb_message(void)
{
  return last_message;
}

tsr_status verb_run(const struct verb_case *job, tsr_runtime *rt, uint64_t *hash)
{
  struct verb_run r = {
    .job = job->name, .rt = rt, .mesh = tsr_mesh_default(rt, "data"), .hash = 14695981039346656037u
  };
  r.s = tsr_scope_open(rt);
  r.at = tsr_on(r.mesh, "data");
  job->run(&r);
  if (!r.status) r.status = tsr_scope_status(r.s);
  if (r.status && !*tsr_message(r.s) && !tsr_scope_status(r.s) && !tsr_runtime_status(rt))
    FAIL("%s: failed with %s, and no message", job->name, tsr_status_name(r.status));
  snprintf(last_message, sizeof last_message, "%s", tsr_message(r.s));
  tsr_scope_close(r.s);
  *hash = r.hash;
  return r.status;
}

/* ---- files ----------------------------------------------------------------------------------- */

static char out_name[64] = "o";

/* The one file that jobs write; its name tells how it is packed. */
static const char *out_path(const char *name)
{
  char local[80];
  snprintf(out_name, sizeof out_name, "%s", name);
  snprintf(local, sizeof local, "out/%s", name);
  return test_tmp(local);
}

void verb_out_reset(void)
{
  static const char *const names[] = { "o", "o.gz", "o.zst", "o.json" };
  for (int i = 0; i < 4; i++) test_write(out_path(names[i]), "before", 6);
}

static uint64_t hash_of(const char *path)
{
  struct verb_run r = { .hash = 1469598103934665603u };
  size_t length;
  char *text = test_read(path, &length);
  mix(&r, text, length);
  free(text);
  return r.hash;
}

uint64_t verb_out_hash(void)
{
  char local[80];
  snprintf(local, sizeof local, "out/%s", out_name);
  return hash_of(test_tmp(local));
}

void verb_out_check(const char *job, uint64_t whole)
{
  DIR *folder = opendir(test_tmp("out"));
  struct verb_run before = { .hash = 1469598103934665603u };
  mix(&before, "before", 6);
  for (struct dirent *e; (e = readdir(folder));) {
    if (e->d_name[0] == '.') continue;
    bool ours = !strcmp(e->d_name, "o") || !strncmp(e->d_name, "o.", 2);
    if (!ours) FAIL("%s: leaves %s behind", job, e->d_name);
    char local[400];
    snprintf(local, sizeof local, "out/%s", e->d_name);
    uint64_t found = hash_of(test_tmp(local));
    if (found != before.hash && found != whole) FAIL("%s: leaves half of %s", job, e->d_name);
  }
  closedir(folder);
}

static const char table_text[] =
    "k,i,f,t,m,d\n1,0,0.5,pear,,2013-01-01\n2,1,-2.25,fig,1.5,2013-01-02\n"
    "3,2,3.0,,2.5,2013-02-01\n5,3,1e3,\"a\"\"b\n,c\",,\n"
    "8,4,NA,fig,4.5,2014-01-01\n13,5,7,\xc3\xa4,5.5,2014-01-02\n";

/* A number becomes a text in the last row, after the sample. */
static void write_wide(void)
{
  enum { LINES = 30000 };
  char *text = malloc(LINES * 16 + 64), *at = text;
  at += sprintf(at, "a,b\n");
  for (int i = 0; i < LINES; i++) at += sprintf(at, "%d,%d\n", i % 7, i % 3);
  at += sprintf(at, "last,2\n");
  test_write(test_tmp("wide.csv"), text, (size_t)(at - text));
  free(text);
}

void verb_files(void)
{
  static const char npy_odd[] = "\x93NUMPY\x01\x00\x3a\x00{'descr': '<f8', 'fortran_order': False, "
                                "'shape': (2,), }\n\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40";
  mkdir(test_tmp("out"), 0777);
  verb_out_reset();
  test_write(test_tmp("t.csv"), table_text, sizeof table_text - 1);
  test_write(test_tmp("part-1.csv"), table_text, sizeof table_text - 1);
  test_write(test_tmp("part-2.csv"), "t,k,i,f,d,m\nlate,7,7,7,2015-01-01,0.5\n", 38);
  test_write(test_tmp("bad.csv"), "a,b\n1,2\n3\n4,5,6\n7,8\n", 21);
  test_write(test_tmp("part-1.jsonl"), "{\"a\":1,\"t\":\"x\"}\n{\"a\":2.5}\n", 26);
  test_write(test_tmp("part-2.jsonl"), "{\"t\":null,\"b\":[1]}\n", 19);
  test_write(test_tmp("odd.npy"), npy_odd, sizeof npy_odd - 1);
  write_wide();
  tsr_runtime *rt = tsr_runtime_open("cpu:1");
  tsr_scope *s = tsr_scope_open(rt);
  struct verb_run r = { .rt = rt, .s = s };
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("t.csv"));
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("t.csv.gz")), TSR_OK, s);
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("t.csv.zst")), TSR_OK, s);
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("t.jsonl")), TSR_OK, s);
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("t.jsonl.gz")), TSR_OK, s);
  CHECK_STATUS(tsr_save_npy(verb_matrix(&r), test_tmp("m.npy")), TSR_OK, s);
  CHECK_STATUS(tsr_save_npz(s, test_tmp("records.npz"), { "m", verb_matrix(&r) }), TSR_OK, s);
  CHECK_STATUS(tsr_save_npz(s, test_tmp("a.npz"), { "x", verb_matrix(&r) }, { "y", tsr_num(s, 2) }),
               TSR_OK, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
