/* Columns of texts that somebody chose badly: one of a gigabyte, ten million empty ones, many that
 * are equal but for their last byte, and a column whose texts begin to differ in its last block.
 * What is asked of them is known beforehand, and no time grows with the square of their number.
 * SIZES_FULL=1 (`make torture`) takes the full sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "tessera.h"

static int64_t sized(int64_t all, int64_t some)
{
  return getenv("SIZES_FULL") ? all : test_quick() ? some / 10 : some;
}

/* Rows "w,v" of a file that is written a row at a time. */
static FILE *begin(void)
{
  FILE *out = fopen(test_tmp("texts.csv"), "wb");
  fputs("w,v\n", out);
  return out;
}

static int64_t asked(tsr_frame *df, const char *formula)
{
  tsr_frame *agg = tsr_frame_agg_at(df, &(tsr_formula){ .text = formula }, TSR_HERE);
  tsr_row *row = tsr_frame_row(agg);
  return tsr_row_status(row) ? -1 : tsr_row_i64(row, "n");
}

/* Rows of the groups of w, the texts among them, those that a join with themselves finds, and the
 * last text in order; each of a frame that reads the file anew, so that one layout hides no
 * other. */
static void check(int64_t rows, int64_t different, int64_t joined, const char *last)
{
  static const char *const layouts[] = { "codes", "views", "mixed", NULL };
  for (int i = 0; i < 4; i++) {
    if (layouts[i]) setenv("TSR_TEXTS", layouts[i], 1);
    else unsetenv("TSR_TEXTS");
    tsr_runtime *rt = tsr_runtime_open("cpu:2");
    tsr_scope *s = tsr_scope_open(rt);
    tsr_frame *df = tsr_frame_read_csv(s, test_tmp("texts.csv"), .types = "w text");
    CHECK_I64(asked(df, "n = count()"), rows);
    CHECK_I64(asked(df, "n = nunique(w)"), different);
    tsr_frame *groups = tsr_frame_group_agg(df, "w", "m = count()");
    CHECK_I64(asked(groups, "n = sum(m)"), rows);
    CHECK_I64(asked(tsr_frame_join(df, groups, "w"), "n = count()"), joined);
    tsr_row *row = tsr_frame_row(tsr_frame_agg(tsr_frame_sort(df, "w"), "x = last(w)"));
    CHECK_STATUS(tsr_row_status(row), TSR_OK, s);
    if (last) CHECK_STR(tsr_row_text(row, "x"), last);
    tsr_scope_close(s);
    tsr_runtime_close(rt);
  }
  unsetenv("TSR_TEXTS");
}

TEST_TIMEOUT(empty_texts, 900)
{
  int64_t rows = sized(10000000, 400000);
  FILE *out = begin();
  for (int64_t r = 0; r < rows; r++) fputs("\"\",1\n", out);
  fclose(out);
  check(rows, 1, rows, "");
}

TEST_TIMEOUT(texts_equal_but_for_the_last_bytes, 900)
{
  int64_t rows = sized(2000000, 60000);
  char text[160], last[160] = "";
  FILE *out = begin();
  memset(text, 'x', sizeof text);
  for (int64_t r = 0; r < rows; r++) {
    snprintf(text + 120, 20, "%08lld", (long long)r);
    fprintf(out, "%s,1\n", text);
  }
  memcpy(last, text, 129);
  fclose(out);
  check(rows, rows, rows, last);
}

TEST_TIMEOUT(texts_that_differ_in_the_last_block, 900)
{
  int64_t rows = sized(8000000, 400000), from = rows - rows / 40;
  char last[32] = "";
  FILE *out = begin();
  for (int64_t r = 0; r < rows; r++) {
    snprintf(last, sizeof last, "w%09lld", (long long)(r < from ? r % 900 : r));
    fprintf(out, "%s,1\n", last);
  }
  fclose(out);
  check(rows, 900 + rows - from, rows, last);
}

/* Beside a short one, which is less. */
TEST_TIMEOUT(a_text_of_a_gigabyte, 900)
{
  int64_t length = sized((int64_t)1 << 30, 40 << 20);
  size_t piece = 1 << 20;
  char *zs = malloc(piece);
  FILE *out = begin();
  memset(zs, 'z', piece);
  fputs("short,1\n", out);
  for (int64_t done = 0; done < length; done += (int64_t)piece) {
    size_t left = length - done < (int64_t)piece ? (size_t)(length - done) : piece;
    fwrite(zs, 1, left, out);
  }
  fputs("a,2\nlast,3\n", out);
  fclose(out);
  free(zs);
  check(3, 3, 3, NULL);
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_frame *df = tsr_frame_read_csv(s, test_tmp("texts.csv"), .types = "w text");
  CHECK_I64(asked(tsr_frame_filter(df, "ends_with(upper(w), 'ZA')"), "n = sum(v)"), 2);
  CHECK_I64(asked(df, "n = max(length(w))"), length + 1);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
