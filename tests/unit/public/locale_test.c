/* Nothing depends on the locale: whatever prints or parses gives the same bytes in the C locale and
 * in those whose decimal point is a comma (de_DE) or takes two bytes (ps_AF), whose letters change
 * otherwise (tr_TR) or whose texts have another order (cs_CZ). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "support/locales.h"
#include "tessera.h"

/* All that was printed. */
struct log {
  char *text;
  size_t length, room;
};

static void note(struct log *log, const char *name, const char *text)
{
  size_t more = strlen(name) + strlen(text) + 8;
  if (log->length + more > log->room) {
    log->room = log->room * 2 + more;
    log->text = realloc(log->text, log->room);
  }
  log->length += (size_t)sprintf(log->text + log->length, "%s: %s\n", name, text);
}

static void note_message(struct log *log, tsr_scope *s, const char *name)
{
  if (!tsr_scope_status(s)) FAIL("%s: no error", name);
  note(log, name, tsr_message(s));
  tsr_scope_clear(s);
}

static void note_file(struct log *log, const char *name)
{
  char *text = test_read(test_tmp(name), NULL);
  note(log, name, text);
  free(text);
}

static void note_arrays(struct log *log, tsr_scope *s)
{
  static const double d[6] = { 1.5, -0.25, 1e-7, 123456789.125, 2.0 / 3, 5e-324 };
  static const float f[6] = { 1.5f, -0.1f, 3e38f, 1e-6f, 0.3f, 16777216 };
  static const int64_t i[3] = { 1234567, -9000000000, 0 };
  tsr_sharding at = { 0 };
  for (int n = 1; n <= 6; n++) {
    note(log, "f64", tsr_text_of(tsr_put(s, d, TSR_F64, TSR_SHAPE(n), at)));
    note(log, "f32", tsr_text_of(tsr_put(s, f, TSR_F32, TSR_SHAPE(n), at)));
    note(log, "scalar", tsr_text_of(tsr_num(s, d[n - 1])));
  }
  note(log, "rows", tsr_text_of(tsr_put(s, d, TSR_F64, TSR_SHAPE(2, 3), at)));
  note(log, "i64", tsr_text_of(tsr_put(s, i, TSR_I64, TSR_SHAPE(3), at)));
  tsr_array *a = tsr_add(tsr_put(s, d, TSR_F64, TSR_SHAPE(6), at), 0.5);
  note(log, "dump", tsr_dump(a));
  note(log, "explain", tsr_explain(&a, 1));
  note(log, "devices", tsr_devices_of(a));
  note(log, "type", tsr_type_of(a));
  tsr_exponential(s, -1.5, .shape = TSR_SHAPE(2), .key = 1);
  note_message(log, s, "exponential");
  tsr_poisson(s, -0.25, .shape = TSR_SHAPE(2), .key = 1);
  note_message(log, s, "poisson");
  tsr_full(s, 1.5, TSR_I32, TSR_SHAPE(2), at);
  note_message(log, s, "number");
}

static const char table_text[] = "name,x,day,at,big\n"
                                 "Ida,1.5,2013-01-02,2013-01-02T03:04:05.25Z,9007199254740993.5\n"
                                 "ida,-2.25e-3,2012-02-29,2013-01-02T03:04:05Z,4503599627370497.5\n"
                                 "chata,1234.5,2013-01-01,1969-12-31T23:59:59Z,1e-320\n"
                                 "\xc4\xb1\xc4\xb0 Ij,NA,2013-01-01,,179769313486231580793e289\n";

static void note_frame(struct log *log, tsr_frame *df, const char *name)
{
  if (tsr_frame_is_inert(df)) FAIL("%s: %s", name, tsr_frame_text(df));
  note(log, name, tsr_frame_text(df));
  note(log, "schema", tsr_frame_schema(df));
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("o.csv")), TSR_OK, NULL);
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("o.jsonl")), TSR_OK, NULL);
  CHECK_STATUS(tsr_frame_write_json(df, test_tmp("o.json")), TSR_OK, NULL);
  CHECK_STATUS(tsr_frame_write_markdown(df, test_tmp("o.md")), TSR_OK, NULL);
  CHECK_STATUS(tsr_frame_write_text(df, test_tmp("o.txt")), TSR_OK, NULL);
  static const char *const files[] = { "o.csv", "o.jsonl", "o.json", "o.md", "o.txt" };
  for (int i = 0; i < 5; i++) note_file(log, files[i]);
}

static void note_frames(struct log *log, tsr_scope *s)
{
  test_write(test_tmp("a-b.csv"), table_text, sizeof table_text - 1);
  test_write(test_tmp("a-C.csv"), table_text, sizeof table_text - 1);
  test_write(test_tmp("a-ch.csv"), table_text, sizeof table_text - 1);
  test_write(test_tmp("comma.csv"), "x;y\n1,5;a\n-2,25e2;b\n1.5;c\n", 26);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("a-b.csv"));
  note_frame(log, df, "read");
  note_frame(log, tsr_frame_sort(df, "name"), "sort");
  note_frame(log, tsr_frame_read_csv(s, test_tmp("a-[a-z]*.csv")), "pattern");
  note_frame(log, tsr_frame_read_csv(s, test_tmp("comma.csv"), .separator = ';'), "points");
  note_frame(log,
             tsr_frame_read_csv(s, test_tmp("comma.csv"), .separator = ';', .decimal_comma = true),
             "commas");
  note_frame(log, tsr_frame_read_json(s, test_tmp("o.jsonl")), "json");
  note_frame(log, tsr_frame_describe(df), "describe");
  note_frame(log,
             tsr_frame_select(df, "u = upper(name), l = lower(name), t = cast(x, 'text'), b = "
                                  "cast('12.75', 'f64') + 0.5e1, s = trim(' a '), c = contains("
                                  "name, 'i'), y = year(day), z = sqrt(x * 1.25)"),
             "functions");
  tsr_frame *some = tsr_frame_filter(df, "x > ? and x < 1.5e3", 1.25);
  note_frame(log, tsr_frame_agg(some, "sum(x), mean(x), q = quantile(x, 0.25), std(x)"), "agg");
  note(log, "frame explain", tsr_frame_explain(some));
  note(log, "frame devices", tsr_frame_devices(df));
  tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "m = max(x), d = max(day), t = min(at)"));
  note(log, "row", tsr_row_text(row, "m"));
  note(log, "date", tsr_row_text(row, "d"));
  note(log, "time", tsr_row_text(row, "t"));
}

static void note_errors(struct log *log, tsr_scope *s)
{
  static const int64_t big[3] = { INT64_MAX, INT64_MAX, 5 };
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("a-b.csv"));
  tsr_frame_text(tsr_frame_assign(df, "y", "cast(name, 'f64')"));
  note_message(log, s, "cast");
  tsr_frame_text(tsr_frame_assign(df, "y", "cast(x * 1.5e30, 'i32')"));
  note_message(log, s, "too large");
  tsr_frame_filter(df, "x > 1,5");
  note_message(log, s, "parse");
  tsr_frame_read_csv(s, test_tmp("none.csv"));
  note_message(log, s, "no file");
  CHECK(tsr_frame_write_csv(df, test_tmp("none/o.csv")));
  note_message(log, s, "no folder");
  tsr_frame_text(tsr_frame_read_csv(s, test_tmp("a-b.csv"), .types = "name f64"));
  note_message(log, s, "forced");
  tsr_array *sums = tsr_put(s, big, TSR_I64, TSR_SHAPE(3), (tsr_sharding){ 0 });
  CHECK(tsr_row_status(tsr_frame_row(tsr_frame_agg(tsr_frame_new(s, { "n", sums }), "sum(n)"))));
  note_message(log, s, "overflow");
}

static char *all_of_it(void)
{
  struct log log = { 0 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  note_arrays(&log, s);
  note_frames(&log, s);
  note_errors(&log, s);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
  return log.text;
}

static void check_locale(const char *name)
{
  char *before = all_of_it(), number[32];
  locale_set(name);
  snprintf(number, sizeof number, "%.2f", 1.5);
  printf("# %s: %s\n", name, number);
  char *after = all_of_it();
  CHECK_STR(after, before);
  CHECK_STR_HAS(after, "f64: [1.5]\n");
  CHECK_STR_HAS(after, "No such file or directory");
  free(before);
  free(after);
}

TEST_TIMEOUT(a_decimal_comma_does_not_show, 300)
{
  check_locale("de_DE");
}

TEST_TIMEOUT(a_decimal_point_of_two_bytes_does_not_show, 300)
{
  check_locale("ps_AF");
}

TEST_TIMEOUT(letters_that_change_otherwise_do_not_show, 300)
{
  check_locale("tr_TR");
}

TEST_TIMEOUT(another_order_of_letters_does_not_show, 300)
{
  check_locale("cs_CZ");
}
