/* Different values that expressions ask for before their nodes can be made: wherever such an
 * expression stands, and however many of them, rows are what the C library's printf makes of the
 * values. */
#include "tessera.h"

#include "harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 6000, WIDE = 300 };

typedef struct fixture {
  tsr_runtime *rt;
  tsr_scope *s;
  tsr_frame *df;
} fixture;

/* a: 0, 7, 14 ... below 300; b: 0 .. 299 again and again; c: a fifth of the rows' numbers. */
static int64_t a_of(int64_t i)
{
  return i * 7 % WIDE;
}

static void open_frame(fixture *f, int devices)
{
  char names[16], axis[16];
  snprintf(names, sizeof names, "cpu:%d", devices);
  snprintf(axis, sizeof axis, "data=%d", devices);
  int64_t a[ROWS], b[ROWS], c[ROWS];
  for (int i = 0; i < ROWS; i++) {
    a[i] = a_of(i);
    b[i] = i % WIDE;
    c[i] = i / 5;
  }
  f->rt = tsr_runtime_open(names);
  f->s = tsr_scope_open(f->rt);
  tsr_sharding at = tsr_on(tsr_mesh_make(f->rt, axis), "data");
  tsr_shape shape = { 1, { ROWS } };
  f->df = tsr_frame_new(f->s, { "a", tsr_put(f->s, a, TSR_I64, shape, at) },
                        { "b", tsr_put(f->s, b, TSR_I64, shape, at) },
                        { "c", tsr_put(f->s, c, TSR_I64, shape, at) });
}

static tsr_table *rows_of(const fixture *f, tsr_frame *df, int64_t rows)
{
  tsr_table *t = NULL;
  tsr_status status = tsr_frame_collect(df, &t);
  CHECK_STR(tsr_message(f->s), "");
  CHECK_I64(status, TSR_OK);
  CHECK_I64(tsr_table_row_count(t), rows);
  return t;
}

static void check_text(const tsr_table *t, int64_t row, int column, const char *form, ...)
    __attribute__((format(printf, 4, 5)));

static void check_text(const tsr_table *t, int64_t row, int column, const char *form, ...)
{
  char text[100];
  va_list args;
  va_start(args, form);
  vsnprintf(text, sizeof text, form, args);
  va_end(args);
  CHECK_STR(tsr_table_text(t, row, column), text);
}

/* Several in one step, and some of what others made: more than 65,536 pairs may occur. */
static void asks_in_rows(const fixture *f)
{
  tsr_frame *df =
      tsr_frame_select(f->df,
                       "x = cast(a, 'text'), y = concat(cast(a, 'text'), '-', cast(b, 'text')), "
                       "z = concat(cast(a, 'text'), cast(b, 'text'), cast(c, 'text')), a");
  tsr_table *t = rows_of(f, df, ROWS);
  for (int i = 0; i < ROWS; i++) {
    long long a = a_of(i), b = i % WIDE, c = i / 5;
    check_text(t, i, 0, "%lld", a);
    check_text(t, i, 1, "%lld-%lld", a, b);
    check_text(t, i, 2, "%lld%lld%lld", a, b, c);
    CHECK_I64(tsr_table_i64(t, i, 3), a);
  }
  /* Of rows that a filter left, itself of such a text. */
  df = tsr_frame_filter(f->df, "concat(cast(b, 'text'), cast(c, 'text')) == '299179'");
  df = tsr_frame_assign(df, "t", "cast(a + b, 'text')");
  t = rows_of(f, df, 1);
  check_text(t, 0, 3, "%lld", (long long)(a_of(899) + 299));
}

/* Among keys and around aggregates. */
static void asks_in_groups(const fixture *f)
{
  tsr_frame *df = tsr_frame_group_agg(
      f->df, "k = cast(b % 3, 'text')",
      "n = count(), most = cast(max(b), 'text'), last = max(cast(b % 7, 'text'))");
  tsr_table *t = rows_of(f, df, 3);
  for (int k = 0; k < 3; k++) {
    check_text(t, k, 0, "%d", k);
    CHECK_I64(tsr_table_i64(t, k, 1), ROWS / 3);
    check_text(t, k, 2, "%d", WIDE - 3 + k);
    CHECK_STR(tsr_table_text(t, k, 3), "6");
  }
  t = rows_of(f, tsr_frame_agg(f->df, "t = cast(sum(b), 'text')"), 1);
  check_text(t, 0, 0, "%d", ROWS * (WIDE - 1) / 2);
  tsr_frame *few = tsr_frame_filter(f->df, "b < 10");
  t = rows_of(f, tsr_frame_agg(few, "t = concat(cast(sum(b), 'text'), '/', cast(max(a), 'text'))"),
              1);
  check_text(t, 0, 0, "%d/%d", ROWS / WIDE * 45, 63);
  t = rows_of(f, tsr_frame_distinct(tsr_frame_filter(f->df, "b < 40"), "cast(b // 10, 'text')"), 4);
  for (int k = 0; k < 4; k++) CHECK_I64(tsr_table_i64(t, k, 1), 10 * k);
}

/* As keys of an order and of a join; tails and samples of what stands on them. */
static void asks_in_breakers(const fixture *f)
{
  tsr_frame *few = tsr_frame_filter(f->df, "c < 20");
  tsr_frame *df = tsr_frame_tail(tsr_frame_sort(few, "cast(c, 'text') desc, b"), 5);
  tsr_table *t = rows_of(f, df, 5);
  for (int i = 0; i < 5; i++) CHECK_I64(tsr_table_i64(t, i, 1), i); /* "0" is the least */
  tsr_frame *names = tsr_frame_select(tsr_frame_head(f->df, 10), "name = cast(b, 'text'), c2 = c");
  df = tsr_frame_join(few, names, "cast(b % 10, 'text') = name");
  t = rows_of(f, df, 100);
  for (int i = 0; i < 100; i++) CHECK_I64(tsr_table_i64(t, i, 3), i % 10 / 5);
}

/* Both zeros, no number and the infinities are their own texts, wherever their rows lie. */
TEST(floats_that_are_alike_and_not)
{
  static const double values[] = { 0.0, -0.0, 1.5, -0.0, 0.0, -2.25, 1.5, 0.0 };
  static const char *const texts[] = { "0", "-0", "1.5", "-0", "0", "-2.25", "1.5", "0" };
  enum { COUNT = 8 };
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding at = tsr_on(tsr_mesh_make(rt, "data=4"), "data");
  tsr_shape shape = { 1, { COUNT } };
  double x[COUNT], y[COUNT];
  for (int i = 0; i < COUNT; i++) {
    x[i] = values[i];
    y[i] = i % 3 == 0 ? (double)NAN : i % 3 == 1 ? (double)INFINITY : -(double)INFINITY;
  }
  tsr_frame *df = tsr_frame_new(s, { "x", tsr_put(s, x, TSR_F64, shape, at) },
                                { "y", tsr_put(s, y, TSR_F64, shape, at) });
  tsr_table *t = NULL;
  df = tsr_frame_select(df, "a = cast(x, 'text'), b = cast(y, 'text')");
  CHECK_I64(tsr_frame_collect(df, &t), TSR_OK);
  for (int i = 0; i < COUNT; i++) {
    CHECK_STR(tsr_table_text(t, i, 0), texts[i]);
    CHECK_STR(tsr_table_text(t, i, 1), i % 3 == 0 ? "nan" : i % 3 == 1 ? "inf" : "-inf");
  }
  tsr_runtime_close(rt);
}

TEST(what_is_asked_is_found_wherever_it_stands)
{
  static const int devices[] = { 1, 3, 8 };
  for (int i = 0; i < 3; i++) {
    fixture f;
    open_frame(&f, devices[i]);
    asks_in_rows(&f);
    asks_in_groups(&f);
    asks_in_breakers(&f);
    tsr_runtime_close(f.rt);
  }
}

/* All that a step asks for is found in one run. */
TEST(what_a_step_asks_for_is_one_run)
{
  fixture f;
  open_frame(&f, 4);
  rows_of(&f, tsr_frame_select(f.df, "x = cast(a + 1, 'text')"), ROWS);
  tsr_run_stats one = tsr_last_run(f.s);
  rows_of(&f,
          tsr_frame_select(
              f.df, "x = cast(a + 1, 'text'), y = cast(b + 1, 'text'), z = cast(c + 1, 'text')"),
          ROWS);
  tsr_run_stats three = tsr_last_run(f.s);
  CHECK_I64(one.programs, 2);
  CHECK_I64(three.programs, 2);
  tsr_runtime_close(f.rt);
}
