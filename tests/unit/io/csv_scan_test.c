/* Counting and flattening by masks against the plainest loops, on random bytes that are mostly
 * quotes, newlines and separators, at every instruction set. */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "io/csv/csv_inner.h"
#include "support/csv_table.h"

enum { BEFORE = 2, SIZE = 4200 };

static const tsr__csv_scan *scan_of(const char *isa)
{
  tsr_runtime *rt = table_runtime(isa, 1);
  const tsr__csv_scan *scan = tsr__csv_scan_for(rt);
  tsr_runtime_close(rt);
  return scan;
}

/* ---- the plainest loops ---------------------------------------------------------------------- */

static bool in_set(const tsr__csv_dialect *d, char c)
{
  return c == d->separator || c == d->newline || c == '"';
}

static bool may_close(const tsr__csv_dialect *d, const char *next)
{
  return in_set(d, *next) || (*next == '\r' && next[1] == d->newline);
}

static bool ends_blank(const tsr__csv_dialect *d, const char *at)
{
  return at[-1] == d->newline || (d->newline == '\n' && at[-1] == '\r' && at[-2] == '\n');
}

static tsr__csv_granule plain_count(const tsr__csv_dialect *d, const char *from, const char *to)
{
  tsr__csv_granule out = { 0 };
  for (int start = 0; start < 2; start++) {
    bool inside = start;
    for (const char *at = from; at < to; at++) {
      if (*at == '"') {
        if (inside ? !may_close(d, at + 1) : !in_set(d, at[-1])) out.stray[start] = 1;
        inside = !inside;
      }
      if (*at != d->newline || inside) continue;
      out.ends[start] += !(d->skip_blank && ends_blank(d, at));
    }
    out.flips = inside != start;
  }
  return out;
}

static size_t plain_flatten(const tsr__csv_dialect *d, const char *from, const char *to,
                            tsr__csv_flat *flat)
{
  size_t count = 0;
  bool inside = false;
  flat->newlines = 0;
  for (const char *at = from; at < to && count < flat->want; at++) {
    if (*at == '"') inside = !inside;
    if (inside || (*at != d->newline && *at != d->separator)) continue;
    flat->newlines += *at == d->newline;
    flat->ends[count++] = (uint32_t)(at - from);
  }
  return count;
}

/* ---- random bytes ---------------------------------------------------------------------------- */

/* `plain` letters among the marks; 0: words full of marks; -1: of separators and newlines. */
static void fill(test_rng *rng, char *bytes, size_t size, int plain)
{
  static const char marks[] = ",\"\n\r,\n\x8c\xff";
  for (size_t i = 0; i < size; i++) {
    bool letter = plain > 0 && test_range(rng, 0, plain);
    bytes[i] = letter ? (char)test_range(rng, 'a', 'z')
                      : marks[plain < 0 ? 4 + test_range(rng, 0, 1) : test_range(rng, 0, 7)];
  }
}

static void check_once(const tsr__csv_scan *scan, test_rng *rng, char *bytes)
{
  static const int plains[] = { -1, 0, 1, 5, 40 };
  fill(rng, bytes, BEFORE + SIZE + TSR__CSV_PAD, plains[test_range(rng, 0, 4)]);
  tsr__csv_dialect d = { .separator = ',',
                         .newline = test_range(rng, 0, 3) ? '\n' : '\r',
                         .skip_blank = test_range(rng, 0, 1) };
  const char *from = bytes + BEFORE + test_range(rng, 0, 130);
  /* Short ones too: in long ones some quote is always out of place. */
  int64_t most = test_range(rng, 0, 1) ? 70 : bytes + BEFORE + SIZE - from;
  const char *to = from + test_range(rng, 0, most);
  tsr__csv_granule found, expected = plain_count(&d, from, to);
  scan->count(&d, from, to, &found);
  CHECK_I64(found.ends[0], expected.ends[0]);
  CHECK_I64(found.ends[1], expected.ends[1]);
  CHECK_I64(found.flips, expected.flips);
  CHECK_I64(found.stray[0], expected.stray[0]);
  CHECK_I64(found.stray[1], expected.stray[1]);

  uint32_t *a = calloc(SIZE + TSR__CSV_SLACK, 4), *b = calloc(SIZE + TSR__CSV_SLACK, 4);
  tsr__csv_flat flat = { .ends = a, .want = (size_t)test_range(rng, 0, SIZE) };
  tsr__csv_flat plain = { .ends = b, .want = flat.want };
  size_t count = scan->flatten(&d, from, to, &flat);
  CHECK_U64(count, plain_flatten(&d, from, to, &plain));
  CHECK_U64(flat.newlines, plain.newlines);
  CHECK_BYTES(a, b, count * 4);
  free(a);
  free(b);
}

TEST(masks_say_what_plain_loops_say)
{
  static const char *const isas[] = { "baseline", "avx2", "avx512" };
  char *bytes = malloc(BEFORE + SIZE + TSR__CSV_PAD);
  for (int i = 0; i < 3; i++) {
    const tsr__csv_scan *scan = scan_of(isas[i]);
    test_rng rng = test_seeded(31);
    int rounds = test_quick() ? 300 : 3000;
    for (int r = 0; r < rounds; r++) check_once(scan, &rng, bytes);
  }
  free(bytes);
}

/* One flaw by itself, at every place of a word. */
TEST(one_odd_quote_is_seen_anywhere)
{
  static const char *const isas[] = { "baseline", "avx2", "avx512" };
  static const char *const odd[] = { ",\"x\"y\n", ",x\"y\"\n", ",\"x\"\ry\n" };
  static const char *const good[] = { ",\"x\",y\n", ",\"x\"\n", ",\"x\"\r\n", ",\"x\"\"\"\n" };
  tsr__csv_dialect d = { .separator = ',', .newline = '\n', .skip_blank = true };
  char text[512];
  tsr__csv_granule found;
  for (int i = 0; i < 3; i++)
    for (int pad = 0; pad < 200; pad++)
      for (int c = 0; c < 7; c++) {
        const char *flaw = c < 3 ? odd[c] : good[c - 3];
        memset(text, '\n', sizeof text);
        memset(text + BEFORE, 'a', (size_t)pad);
        memcpy(text + BEFORE + pad, flaw, strlen(flaw));
        const char *to = text + BEFORE + pad + strlen(flaw);
        scan_of(isas[i])->count(&d, text + BEFORE, to, &found);
        CHECK_I64(found.stray[0], c < 3);
        CHECK_I64(found.ends[0], 1);
      }
}

TEST(the_instruction_set_is_the_one_asked_for)
{
  CHECK_STR(scan_of("baseline")->isa, "baseline");
#if defined(__x86_64__)
  bool avx2 = __builtin_cpu_supports("avx2"), avx512 = __builtin_cpu_supports("avx512vbmi2");
  if (avx2) CHECK_STR(scan_of("avx2")->isa, "avx2");
  if (avx512) CHECK_STR(scan_of("avx512")->isa, "avx512");
#endif
}

/* ---- careful or not -------------------------------------------------------------------------- */

static bool reads_carefully(const char *text, int granule)
{
  const char *path = test_tmp("careful.csv");
  test_write(path, text, strlen(text));
  tsr_runtime *rt = table_runtime(NULL, 1);
  tsr__error error = { 0 };
  tsr__csv_opts opts = { .granule = granule };
  tsr__csv *csv = tsr__csv_open_with(rt, path, &opts, &error);
  int64_t rows;
  CHECK(csv != NULL);
  if (tsr__csv_count(csv, &rows, &error)) FAIL("%s", error.text);
  bool careful = csv->files[0].careful;
  tsr__csv_close(csv);
  tsr_runtime_close(rt);
  return careful;
}

/* Quotes in their places are counted by masks, wherever granules and words end; one quote out
 * of place is noticed, wherever it stands. */
TEST(only_odd_quotes_are_read_byte_by_byte)
{
  char text[512];
  for (int pad = 0; pad < 130; pad++) {
    snprintf(text, sizeof text, "a,b\n%*s1,\"x\"\n\"\"\"\",\"\n,\"\r\n\"y\"\"\",\"z\"\r\n\"\",\"\"",
             pad, "");
    CHECK(!reads_carefully(text, 0));
    CHECK(!reads_carefully(text, 1 + pad));
    snprintf(text, sizeof text, "a,b\n%*s1,x\"\"\n", pad, "");
    CHECK(reads_carefully(text, 0));
    snprintf(text, sizeof text, "a,b\n%*s1,x\n 7\" x 8\",y\n", pad, "");
    CHECK(reads_carefully(text, 1 + pad));
  }
}
