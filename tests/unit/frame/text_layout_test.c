/* Columns of texts that repeat and that do not: whatever their layout, what is made of them is the
 * same, byte for byte. The layouts are forced by $TSR_TEXTS; what is chosen is told by explain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

/* More than a worker looks up before it chooses. */
enum { ROWS = 180000 };

static uint64_t mixed(uint64_t x)
{
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* Writes the text of a row; its length. */
typedef int text_fn(char *out, int row);

static int id_text(char *out, int row)
{
  return sprintf(out, "user-%016llx", (unsigned long long)mixed((uint64_t)row));
}

static int few_text(char *out, int row)
{
  return sprintf(out, "t%d", (int)(mixed((uint64_t)row) % 500));
}

/* A thousand kinds, then ids to the end. */
static int late_text(char *out, int row)
{
  return row < ROWS / 5 ? few_text(out, row) : id_text(out, row);
}

/* Ids, then what came before once more: the last texts are all there already. */
static int again_text(char *out, int row)
{
  return id_text(out, row < ROWS * 9 / 10 ? row : row - ROWS * 9 / 10);
}

/* Alike but for the last byte and the one before. */
static int alike_text(char *out, int row)
{
  memset(out, 'x', 100);
  out[100] = (char)('a' + row % 26);
  out[101] = (char)('a' + row / 26 % 26);
  return 102;
}

/* All but the first. */
static int empty_text(char *out, int row)
{
  return sprintf(out, row ? "\"\"" : "e");
}

/* Quotes, letters beyond ASCII, and texts that begin others. */
static int odd_text(char *out, int row)
{
  int n = sprintf(out, "\"\xc3\xa9t\xc3\xa9");
  for (int i = 0; i < row % 40; i++) n += sprintf(out + n, i % 7 ? "ab" : "\"\"");
  return n + sprintf(out + n, "%d\"", row % 3 ? row : 0);
}

static const char *make_file(text_fn *fn, int rows)
{
  char *text = malloc((size_t)rows * 200 + 16), *at = text + sprintf(text, "w,v\n");
  for (int row = 0; row < rows; row++) {
    at += fn(at, row);
    at += sprintf(at, ",%d\n", row % 1000);
  }
  const char *path = test_tmp("texts.csv");
  test_write(path, text, (size_t)(at - text));
  free(text);
  return path;
}

/* What is made of the column w, in rows. */
static tsr_frame *ask(int which, tsr_frame *df)
{
  switch (which) {
  case 0: return tsr_frame_group_agg(df, "w", "n = count(), x = sum(v)");
  case 1: return tsr_frame_agg(df, "n = nunique(w), a = min(w), b = max(w), c = first(w)");
  case 2: return tsr_frame_sort(df, "w, v desc");
  case 3: return tsr_frame_filter(df, "contains(w, 'a') and w != 't7' and w < 'user-8'");
  case 4:
    return tsr_frame_group_agg(tsr_frame_assign(df, "u", "slice(upper(w), -3)"), "u",
                               "n = count(), y = max(w)");
  case 5:
    return tsr_frame_join(df,
                          tsr_frame_group_agg(tsr_frame_filter(df, "v < 100"), "w", "m = sum(v)"),
                          "w");
  case 6: return tsr_frame_distinct(tsr_frame_select(df, "k = if(v > 500, w, lower(w))"), "k");
  case 7: return tsr_frame_filter(df, "w in ('t1', 't17', '') or length(w) > 90");
  default: return NULL;
  }
}

/* All that is made of a file in one layout, as CSV. */
static char *answers(const char *path, const char *layout, const char *devices, size_t *length)
{
  tsr_runtime *rt = tsr_runtime_open(devices, .threads = 1);
  char *all = NULL;
  *length = 0;
  if (layout) setenv("TSR_TEXTS", layout, 1);
  else unsetenv("TSR_TEXTS");
  for (int which = 0;; which++) {
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = ask(which, tsr_frame_read_csv(s, path));
    size_t size = 0;
    if (df) {
      const char *out = test_tmp("answer.csv");
      CHECK_STATUS(tsr_frame_write_csv(df, out), TSR_OK, s);
      char *one = test_read(out, &size);
      all = realloc(all, *length + size);
      memcpy(all + *length, one, size);
      *length += size;
      free(one);
    }
    tsr_scope_close(s);
    if (!df) break;
  }
  tsr_runtime_close(rt);
  unsetenv("TSR_TEXTS");
  return all;
}

static void check_texts(text_fn *fn, int rows)
{
  const char *path = make_file(fn, rows);
  size_t length, other;
  char *expected = answers(path, "codes", "cpu:1", &length);
  static const char *const layouts[] = { NULL, "views", "mixed", NULL };
  for (int i = 0; i < 4; i++) {
    char *found = answers(path, layouts[i], i < 3 ? "cpu:1" : "cpu:3", &other);
    CHECK_I64((int64_t)other, (int64_t)length);
    CHECK_BYTES(found, expected, length);
    free(found);
  }
  free(expected);
}

TEST_TIMEOUT(texts_that_are_all_different, 300)
{
  check_texts(id_text, ROWS);
}

TEST_TIMEOUT(texts_that_repeat, 300)
{
  check_texts(few_text, ROWS);
}

TEST_TIMEOUT(texts_that_turn_different, 300)
{
  check_texts(late_text, ROWS);
}

TEST_TIMEOUT(texts_that_come_again, 300)
{
  check_texts(again_text, ROWS);
}

TEST_TIMEOUT(texts_that_are_alike_but_at_the_end, 300)
{
  check_texts(alike_text, 40000);
}

TEST_TIMEOUT(texts_that_are_empty, 300)
{
  check_texts(empty_text, ROWS);
}

TEST_TIMEOUT(texts_of_quotes_and_accents, 300)
{
  check_texts(odd_text, 20000);
}

/* One text beside which all others are nothing. */
TEST_TIMEOUT(a_text_may_be_long, 300)
{
  enum { LONG = 30 << 20 };
  char *text = malloc(LONG + 64), *at = text + sprintf(text, "w,v\nshort,1\n");
  memset(at, 'z', LONG);
  at += LONG;
  at += sprintf(at, ",2\nlast,3\n");
  const char *path = test_tmp("long.csv");
  test_write(path, text, (size_t)(at - text));
  for (int i = 0; i < 2; i++) {
    setenv("TSR_TEXTS", i ? "views" : "codes", 1);
    tsr_runtime *rt = tsr_runtime_open("cpu:2");
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_filter(tsr_frame_read_csv(s, path), "contains(upper(w), 'ZZ')");
    tsr_row *row = tsr_frame_row(tsr_frame_agg(df, "n = count(), m = max(length(w))"));
    CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
    CHECK_I64(tsr_row_i64(row, "n"), 1);
    CHECK_I64(tsr_row_i64(row, "m"), LONG);
    tsr_runtime_close(rt);
  }
  unsetenv("TSR_TEXTS");
  free(text);
}

/* What explain says of texts, once a file of them was read. */
static void check_said(text_fn *fn, int rows, const char *layout, const char *expected)
{
  const char *path = make_file(fn, rows);
  if (layout) setenv("TSR_TEXTS", layout, 1);
  else unsetenv("TSR_TEXTS");
  for (int filtered = 0; filtered < 2; filtered++) {
    tsr_runtime *rt = tsr_runtime_open("cpu:1", .threads = 1);
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_read_csv(s, path);
    if (filtered) df = tsr_frame_filter(df, "v < 990");
    df = tsr_frame_agg(df, "n = max(w)");
    tsr_row *row = tsr_frame_row(df);
    CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
    const char *said = strstr(tsr_frame_explain(df), "    texts as");
    CHECK(said);
    CHECK_I64(strncmp(said, expected, strlen(expected)), 0);
    CHECK(strstr(said + 4, "    texts as") == NULL); /* one line for a column */
    tsr_runtime_close(rt);
  }
  unsetenv("TSR_TEXTS");
}

TEST(explain_says_which_layout_was_chosen_and_why)
{
  check_said(id_text, ROWS, NULL, "    texts as views: w (most texts are distinct)\n");
  check_said(few_text, ROWS, NULL, "    texts as codes: w (most texts repeat)\n");
  check_said(few_text, 2000, NULL, "    texts as codes: w (most texts repeat)\n");
  check_said(id_text, 2000, NULL, "    texts as codes: w (too few texts were read to choose)\n");
  check_said(id_text, 2000, "views", "    texts as views: w ($TSR_TEXTS asks for it)\n");
  check_said(id_text, 2000, "codes", "    texts as codes: w ($TSR_TEXTS asks for it)\n");
}

/* A line for each reason, in which columns stand in their order. */
TEST(explain_has_a_line_for_each_reason)
{
  static const char *const a[6] = { "x", "y", "x", "x", "y", "x" };
  static const char *const b[6] = { "1", "2", "3", "4", "5", "6" };
  static const int64_t v[6] = { 0 };
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_sharding on = tsr_on(tsr_mesh_default(rt, "x"), "x");
  tsr_frame *df = tsr_frame_new(s, { "v", tsr_put(s, v, TSR_I64, TSR_SHAPE(6), on) });
  df = tsr_frame_text_column(df, "a", a, 6);
  df = tsr_frame_text_column(df, "b", b, 6);
  df = tsr_frame_text_column(df, "c", a, 6);
  const char *path = test_tmp("three.csv");
  CHECK_STATUS(tsr_frame_write_csv(df, path), TSR_OK, s);
  df = tsr_frame_read_csv(s, path, .types = "b text");
  CHECK_STATUS(tsr_frame_write_csv(df, test_tmp("again.csv")), TSR_OK, s);
  CHECK_STR_HAS(tsr_frame_explain(df), "    texts as codes: a, c (most texts repeat)\n    texts as "
                                       "codes: b (too few texts were read to choose)\n");
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
