/* The order of rows by packed words, against a stable merge sort, over words that are spread in
 * unpleasant ways. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "support/parts_fixture.h"

enum { WORDS_MOST = 3 };

/* ---- words ---- */

enum spread {
  ALL_BITS,
  FEW,
  ONE,
  TWO,
  HIGH_AND_LOW,
  CROWDED,
  EXPONENTS,
  HIGHEST,
  SORTED,
  NEARLY,
  SPREADS
};

static uint64_t word_of(test_rng *rng, int spread, int64_t row)
{
  uint64_t r = test_random(rng);
  switch (spread) {
  case ALL_BITS: return r;
  case FEW: return r % 100000;
  case ONE: return 77;
  case TWO: return r % 20 ? UINT64_C(1) << 40 : r >> 63;
  case HIGH_AND_LOW: return r % 1000 ? r % 60000 : UINT64_MAX - r % 5;
  case CROWDED: return r % 3 ? 5000000 : r >> (r % 64);
  case EXPONENTS: return (r >> 8) >> (r % 50);
  case HIGHEST: return r % 2 ? UINT64_MAX : r % 3 ? UINT64_MAX - 1 : r;
  case NEARLY: return row % 100000 == 99999 ? (uint64_t)row - 7 : (uint64_t)row / 3;
  default: return (uint64_t)row / 3;
  }
}

static void fill(test_rng *rng, int spread, uint64_t *word, int64_t rows)
{
  for (int64_t i = 0; i < rows; i++) word[i] = word_of(rng, spread, i);
}

/* ---- the order, by merging ---- */

static bool less(const uint64_t *word, int words, int64_t rows, const uint32_t at[2])
{
  for (int w = 0; w < words; w++) {
    uint64_t a = word[w * rows + at[0]], b = word[w * rows + at[1]];
    if (a != b) return a < b;
  }
  return false;
}

static void merge_sort(const uint64_t *word, int words, int64_t rows, uint32_t *order)
{
  uint32_t *from = order, *to = malloc((size_t)(rows + 1) * sizeof *to), *spare = to;
  for (int64_t i = 0; i < rows; i++) order[i] = (uint32_t)i;
  for (int64_t width = 1; width < rows; width *= 2) {
    for (int64_t low = 0; low < rows; low += 2 * width) {
      int64_t middle = low + width < rows ? low + width : rows;
      int64_t end = low + 2 * width < rows ? low + 2 * width : rows;
      for (int64_t a = low, b = middle, i = low; i < end; i++) {
        bool second = a == middle;
        if (!second && b < end)
          second = less(word, words, rows, (const uint32_t[]){ from[b], from[a] });
        to[i] = second ? from[b++] : from[a++];
      }
    }
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != order) memcpy(order, from, (size_t)rows * sizeof *order);
  free(spare);
}

/* ---- checks ---- */

typedef struct sort_case {
  int words;
  int spread[WORDS_MOST];
} sort_case;

static tsr_status sort_parts(parts_fixture *f, test_rng *rng, const sort_case *c, bool check)
{
  tsr__packed_keys keys = { .parts = f->parts.count, .words = c->words, .bits = 64 * c->words };
  uint64_t *word[PARTS_MOST], *null[PARTS_MOST] = { NULL };
  keys.word = word;
  keys.null = null;
  for (int p = 0; p < f->parts.count; p++) {
    int64_t rows = f->rows[p];
    word[p] = malloc((size_t)(rows * c->words + 1) * sizeof(uint64_t));
    for (int w = 0; w < c->words; w++) fill(rng, c->spread[w], word[p] + w * rows, rows);
  }
  tsr__index index;
  tsr_status status = tsr__sort_rows(f->rt, &f->parts, &keys, &index, &f->error);
  for (int p = 0; p < f->parts.count; p++) {
    size_t bytes = (size_t)f->rows[p] * sizeof(uint32_t);
    uint32_t *order = malloc(bytes + 1);
    if (!status && check) {
      merge_sort(word[p], c->words, f->rows[p], order);
      CHECK_I64(index.rows[p], f->rows[p]);
      CHECK_BYTES(index.at[p], order, bytes);
    }
    free(order);
    free(word[p]);
  }
  if (!status) tsr__index_free(f->rt, &index);
  return status;
}

static void check_spreads(int devices, int64_t most)
{
  test_rng rng = test_seeded(51);
  parts_fixture f;
  parts_open(&f, devices, NULL);
  for (int spread = 0; spread < SPREADS; spread++) {
    for (int words = 1; words <= WORDS_MOST; words++) {
      sort_case c = { words, { spread, FEW, ALL_BITS } };
      if (words == 2) c = (sort_case){ 2, { TWO, spread } };
      for (int p = 0; p < devices; p++) f.rows[p] = test_range(&rng, 0, most);
      CHECK_STATUS(sort_parts(&f, &rng, &c, true), TSR_OK, NULL);
    }
  }
  parts_close(&f);
}

TEST(short_parts_are_sorted)
{
  for (int i = 0; i < 20; i++) check_spreads(1 + i % PARTS_MOST, i < 10 ? 1 + i * 7 : 3000);
}

TEST(long_parts_are_sorted)
{
  check_spreads(1, test_quick() ? 200000 : 700000);
  check_spreads(3, 150000);
}

/* Nine of ten words are alike, again and again within what is left: rounds within rounds. */
TEST(rounds_within_rounds)
{
  enum { ROWS = 1000000 };
  test_rng rng = test_seeded(52);
  parts_fixture f;
  parts_open(&f, 1, NULL);
  parts_set(&f, (const int64_t[]){ ROWS });
  uint64_t *word = malloc(ROWS * sizeof *word), *none[1] = { NULL };
  uint32_t *order = malloc(ROWS * sizeof *order);
  for (int shift = 3; shift < 64; shift += 12) {
    for (int64_t i = 0; i < ROWS; i++) {
      uint64_t r = test_random(&rng);
      int level = 0;
      while (level < 60 && test_range(&rng, 0, 9)) level++;
      word[i] = (r & 0xFF) << (shift > level ? shift - level : 0);
    }
    tsr__packed_keys keys = { 1, 1, 64, &word, none, NULL };
    tsr__index index;
    CHECK_STATUS(tsr__sort_rows(f.rt, &f.parts, &keys, &index, &f.error), TSR_OK, NULL);
    merge_sort(word, 1, ROWS, order);
    CHECK_BYTES(index.at[0], order, ROWS * sizeof *order);
    tsr__index_free(f.rt, &index);
  }
  free(order);
  free(word);
  parts_close(&f);
}

/* ---- failures ---- */

TEST(a_sort_without_memory_leaks_nothing)
{
  sort_case c = { 2, { TWO, ALL_BITS } };
  int64_t failures = 0;
  for (int64_t n = 1; n < 200; n++) {
    test_rng rng = test_seeded(53);
    struct test_alloc state = { 0 };
    tsr_allocator allocator = test_allocator(&state);
    parts_fixture f;
    parts_open(&f, 2,
               &(tsr_runtime_opts){ .size = sizeof(tsr_runtime_opts), .allocator = &allocator });
    parts_set(&f, (const int64_t[]){ 90000, 200 });
    state.fail_at = state.count + n;
    tsr_status status = sort_parts(&f, &rng, &c, false);
    bool failed = state.count >= state.fail_at;
    parts_close(&f);
    CHECK_I64(state.live, 0);
    failures += status == TSR_ENOMEM;
    if (!failed) {
      CHECK(failures > 10);
      return;
    }
    CHECK(status == TSR_OK || status == TSR_ENOMEM);
  }
  FAIL("the sort never ran out of failures");
}

static bool never(const char *what, int64_t done, int64_t total, void *user)
{
  (void)what, (void)done, (void)total, (void)user;
  return false;
}

TEST(a_sort_can_be_cancelled)
{
  test_rng rng = test_seeded(54);
  sort_case c = { 1, { ALL_BITS } };
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  parts_fixture f;
  tsr_runtime_opts opts = { .size = sizeof opts, .allocator = &allocator, .progress = never };
  parts_open(&f, 1, &opts);
  f.rt->progress_gap = 0;
  parts_set(&f, (const int64_t[]){ 500000 });
  CHECK_STATUS(sort_parts(&f, &rng, &c, false), TSR_ECANCELLED, NULL);
  parts_close(&f);
  CHECK_I64(state.live, 0);
}
