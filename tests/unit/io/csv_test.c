/* The CSV reader against goldens of Python's csv module, against itself for every way to cut a
 * file, and against hostile files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "support/csv_golden.h"

/* ---- goldens ------------------------------------------------------------------------------- */

/* Calls `check` with each case of csv_cases.txt: its file, the golden columns at `*at`. */
static void each_case(void (*check)(const char *name, const char *path, char *columns))
{
  char *text = test_read(test_file("golden/csv_cases.txt"), NULL), *at = text, *line;
  int cases = 0;
  while ((line = golden_line(&at))) {
    char name[64];
    int used;
    if (strncmp(line, "case ", 5) != 0) continue;
    CHECK_I64(sscanf(line, "case %63s %*d %*d %n", name, &used), 1);
    size_t length = golden_unhex(line + used);
    const char *path = test_tmp("case.csv");
    test_write(path, line + used, length);
    check(name, path, at);
    cases++;
  }
  CHECK(cases >= 40);
  free(text);
}

static void check_golden(const char *name, const char *path, char *columns)
{
  tsr_runtime *rt = table_runtime(NULL, 1);
  struct table t;
  tsr__error error = { 0 };
  if (table_read(rt, path, NULL, &t, &error)) FAIL("%s: %s", name, error.text);
  /* A copy: check_column writes into the text. */
  char *copy = strdup(columns), *at = copy;
  for (int c = 0; c < t.columns; c++) golden_column(&t, c, name, &at);
  if (strncmp(at, "case ", 5) != 0 && *at) FAIL("%s: %s is left over", name, at);
  free(copy);
  table_free(&t);
  tsr_runtime_close(rt);
}

TEST(reads_what_python_reads)
{
  each_case(check_golden);
}

/* ---- cutting -------------------------------------------------------------------------------- */

static void check_same(tsr_runtime *rt, const char *name, const char *path,
                       const struct table_how *how, const struct table *expected)
{
  struct table t;
  tsr__error error = { 0 };
  if (table_read(rt, path, how, &t, &error)) FAIL("%s: %s", name, error.text);
  const char *differs = table_differs(&t, expected);
  if (differs)
    FAIL("%s: granule %" PRId64 ", %d stripes, %d parts, seed %" PRIu64 ", sample %" PRId64 ": %s",
         name, how->opts.granule, how->opts.stripes, how->parts, how->seed, how->opts.sample,
         differs);
  table_free(&t);
}

/* Every granule up to the file's size puts a border at every byte. */
static void check_cuts(const char *name, const char *path, char *columns)
{
  (void)columns;
  static const char *const isas[] = { "baseline", "avx2", "avx512" };
  size_t length;
  free(test_read(path, &length));
  tsr_runtime *rt = table_runtime(NULL, 1);
  struct table expected;
  tsr__error error = { 0 };
  if (table_read(rt, path, NULL, &expected, &error)) FAIL("%s: %s", name, error.text);
  int step = test_quick() ? 7 : 1;
  for (int i = 0; i < 3; i++) {
    tsr_runtime *other = table_runtime(isas[i], 1 + i % 2);
    for (int g = 1; g <= (int)length && g < 150; g += step)
      check_same(other, name, path, &(struct table_how){ .opts = { .granule = g } }, &expected);
    tsr_runtime_close(other);
  }
  for (int parts = 1; parts <= 8; parts++)
    for (int stripes = 1; stripes <= 5; stripes += 2) {
      struct table_how how = { .opts = { .granule = 33, .stripes = stripes, .batch_rows = 64 },
                               .parts = parts };
      check_same(rt, name, path, &how, &expected);
      how.seed = (uint64_t)(parts * 10 + stripes);
      check_same(rt, name, path, &how, &expected);
    }
  table_free(&expected);
  tsr_runtime_close(rt);
}

TEST_TIMEOUT(cuts_do_not_show, 240)
{
  each_case(check_cuts);
}

/* A small sample guesses types wrongly; what is read must not depend on it. */
static void check_sample(const char *name, const char *path, char *columns)
{
  (void)columns;
  tsr_runtime *rt = table_runtime(NULL, 2);
  struct table expected;
  tsr__error error = { 0 };
  if (table_read(rt, path, NULL, &expected, &error)) FAIL("%s: %s", name, error.text);
  CHECK_I64(expected.retypes, 0);
  for (int sample = 1; sample < 200; sample += 13)
    check_same(rt, name, path, &(struct table_how){ .opts = { .sample = sample, .stripes = 3 } },
               &expected);
  table_free(&expected);
  tsr_runtime_close(rt);
}

TEST(samples_do_not_show)
{
  each_case(check_sample);
}

/* ---- real data ------------------------------------------------------------------------------- */

static uint64_t checksum(const struct table *t, int c)
{
  uint64_t sum = 0;
  for (int64_t r = 0; r < t->rows; r++) {
    const struct table_cell *cell = &t->cells[c * t->rows + r];
    sum = sum * 1000003 + (cell->null ? UINT64_MAX : cell->bits);
  }
  return sum;
}

static void check_weather(const struct table *t)
{
  char *text = test_read(test_file("golden/csv_weather.txt"), NULL), *at = text;
  char *line = golden_line(&at);
  CHECK_I64(t->rows, strtoll(line + 5, NULL, 10));
  for (int c = 0; c < t->columns; c++) {
    char name[64], type[8], first[64], last[64];
    int64_t nulls;
    uint64_t sum;
    line = golden_line(&at);
    CHECK_I64(sscanf(line, "%63s %7s %" SCNd64 " %63s %63s %" SCNx64, name, type, &nulls, first,
                     last, &sum),
              6);
    CHECK_STR(t->schema[c].name, name);
    CHECK_STR(table_type_name(t->schema[c].type), type);
    CHECK_I64(t->nulls[c], nulls);
    CHECK(golden_cell_is(&t->cells[c * t->rows], first));
    CHECK(golden_cell_is(&t->cells[(c + 1) * t->rows - 1], last));
    CHECK_U64(checksum(t, c), sum);
  }
  CHECK(!golden_line(&at));
  free(text);
}

TEST(reads_the_weather)
{
  const char *path = test_file("../examples/data/weather.csv");
  static const char *const isas[] = { "baseline", "avx2", "avx512" };
  for (int i = 0; i < 3; i++)
    for (int threads = 1; threads <= 2; threads++) {
      tsr_runtime *rt = table_runtime(isas[i], threads);
      struct table t;
      tsr__error error = { 0 };
      struct table_how how = { .parts = 3 * i + threads };
      if (threads == 2) how.opts.sample = 64 << 10;
      if (table_read(rt, path, &how, &t, &error)) FAIL("%s", error.text);
      check_weather(&t);
      table_free(&t);
      tsr_runtime_close(rt);
    }
}
