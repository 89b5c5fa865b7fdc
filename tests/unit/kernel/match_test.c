/* Matching rows by packed keys, against loops over all pairs: direct and hashed tables, duplicates
 * on both sides, nulls, empty sides, several parts and words, one worker and two. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "kernel/rows/columns.h"
#include "kernel/rows/match.h"
#include "topology/topology.h"

enum { MOST_PARTS = 4, MOST_ROWS = 400 };

static tsr_runtime *runtime(int devices, tsr_runtime_opts opts)
{
  char text[] = "cpu:1";
  text[4] = (char)('0' + devices);
  opts.size = sizeof opts;
  tsr_runtime *rt = tsr__runtime_new(&opts);
  tsr__topology_install(rt, text);
  tsr__devices_install(rt);
  return rt;
}

/* One side: packed keys in memory of its own. */
typedef struct side {
  int device[MOST_PARTS];
  int64_t rows[MOST_PARTS];
  uint64_t *word[MOST_PARTS], *null[MOST_PARTS];
  tsr__parts parts;
  tsr__packed_keys packed;
} side;

static void side_new(side *s, int parts, int words, const int64_t *rows)
{
  memset(s, 0, sizeof *s);
  for (int p = 0; p < parts; p++) {
    s->device[p] = p;
    s->rows[p] = rows[p];
    s->word[p] = calloc((size_t)(rows[p] * words + 1), sizeof(uint64_t));
    s->null[p] = calloc((size_t)(rows[p] / 64 + 1), sizeof(uint64_t));
  }
  s->parts = (tsr__parts){ parts, s->device, s->rows };
  s->packed =
      (tsr__packed_keys){ .parts = parts, .words = words, .word = s->word, .null = s->null };
}

static void side_free(side *s)
{
  for (int p = 0; p < s->parts.count; p++) {
    free(s->word[p]);
    free(s->null[p]);
  }
}

/* Keys below `distinct`, spread over 64 bits where `wide`; some null. */
static void side_fill(side *s, test_rng *rng, int64_t distinct, bool wide)
{
  bool nulls = test_range(rng, 0, 1);
  for (int p = 0; p < s->parts.count; p++)
    for (int64_t r = 0; r < s->rows[p]; r++) {
      for (int w = 0; w < s->packed.words; w++) {
        uint64_t key = (uint64_t)test_range(rng, 0, distinct - 1);
        s->word[p][w * s->rows[p] + r] = wide ? key * UINT64_C(0x9E3779B97F4A7C15) : key + 77;
      }
      if (nulls && !test_range(rng, 0, 9)) s->null[p][r / 64] |= UINT64_C(1) << (r % 64);
    }
}

static bool equal(const side *a, int64_t i, const side *b, int64_t k, int p)
{
  for (int w = 0; w < a->packed.words; w++)
    if (a->word[p][w * a->rows[p] + i] != b->word[p][w * b->rows[p] + k]) return false;
  return !(a->null[p][i / 64] >> (i % 64) & 1) && !(b->null[p][k / 64] >> (k % 64) & 1);
}

/* The pairs of part p by the book; returns how many. */
static int64_t naive(const side *a, const side *b, int p, int how, uint32_t *pairs, bool *repeats)
{
  int64_t n = 0;
  for (int64_t i = 0; i < a->rows[p]; i++) {
    int64_t found = 0;
    for (int64_t k = 0; k < b->rows[p]; k++) {
      if (!equal(a, i, b, k, p)) continue;
      found++;
      if (how == TSR__MATCH_SEMI || how == TSR__MATCH_ANTI) continue;
      pairs[2 * n] = (uint32_t)i;
      pairs[2 * n++ + 1] = (uint32_t)k;
    }
    *repeats = *repeats || found > 1;
    bool alone = (how == TSR__MATCH_LEFT || how == TSR__MATCH_ANTI) && !found;
    if (!alone && !(how == TSR__MATCH_SEMI && found)) continue;
    pairs[2 * n] = (uint32_t)i;
    pairs[2 * n++ + 1] = TSR__NO_ROW;
  }
  return n;
}

typedef struct paired {
  tsr__index left, right; /* right: empty for SEMI and ANTI */
  bool repeats;
} paired;

/* Matches and fills the index vectors, as a join does. */
static tsr_status match_rows(tsr_runtime *rt, const tsr__match_ask *ask, paired *out,
                             tsr__error *error)
{
  tsr__matched m;
  *out = (paired){ .repeats = false };
  tsr_status status = tsr__match_find(rt, ask, &m, error);
  if (status) return status;
  bool both = ask->how == TSR__MATCH_INNER || ask->how == TSR__MATCH_LEFT;
  status = tsr__match_left(&m, &out->left, error);
  if (!status && both) {
    status = tsr__match_right(&m, &out->right, error);
    if (status) tsr__index_free(rt, &out->left);
  }
  out->repeats = m.repeats;
  tsr__match_free(&m);
  return status;
}

static void check(tsr_runtime *rt, const side *a, const side *b, int how)
{
  tsr__error error = { .status = TSR_OK };
  paired found;
  bool expected = false;
  bool pairs = how == TSR__MATCH_INNER || how == TSR__MATCH_LEFT;
  tsr__match_ask ask = { &a->parts, &b->parts, &a->packed, &b->packed, how };
  CHECK_STATUS(match_rows(rt, &ask, &found, &error), TSR_OK, NULL);
  for (int p = 0; p < a->parts.count; p++) {
    uint32_t *want = malloc((size_t)((a->rows[p] + 1) * (b->rows[p] + 1)) * 8);
    int64_t n = naive(a, b, p, how, want, &expected);
    CHECK_I64(found.left.rows[p], n);
    if (pairs) CHECK_I64(found.right.rows[p], n);
    for (int64_t i = 0; i < n; i++) {
      CHECK_I64(found.left.at[p] ? found.left.at[p][i] : i, want[2 * i]);
      if (pairs) CHECK_I64(found.right.at[p][i], want[2 * i + 1]);
    }
    free(want);
  }
  CHECK(found.repeats == expected);
  tsr__index_free(rt, &found.left);
  if (pairs) tsr__index_free(rt, &found.right);
}

TEST(pairs_are_those_of_nested_loops)
{
  test_rng rng = test_seeded(11);
  for (int round = 0; round < (test_quick() ? 60 : 400); round++) {
    int parts = (int)test_range(&rng, 1, MOST_PARTS), words = (int)test_range(&rng, 1, 2);
    tsr_runtime *rt = runtime(parts, (tsr_runtime_opts){ .threads = (int)test_range(&rng, 1, 2) });
    int64_t rows[2][MOST_PARTS], distinct = INT64_C(1) << test_range(&rng, 0, 10);
    for (int i = 0; i < 2 * MOST_PARTS; i++) {
      int64_t most = test_range(&rng, 0, 3) ? MOST_ROWS : 1;
      rows[i % 2][i / 2] = test_range(&rng, 0, most);
    }
    side a, b;
    side_new(&a, parts, words, rows[0]);
    side_new(&b, parts, words, rows[1]);
    bool wide = test_range(&rng, 0, 1);
    side_fill(&a, &rng, distinct, wide);
    side_fill(&b, &rng, distinct, wide);
    for (int how = TSR__MATCH_INNER; how <= TSR__MATCH_ANTI; how++) check(rt, &a, &b, how);
    side_free(&a);
    side_free(&b);
    tsr_runtime_close(rt);
  }
}

/* Tables large enough to be filled in ranges by both workers; every key has `copies` rows in
 * order. */
static void check_large(int64_t rows, int64_t copies, bool wide, int words)
{
  tsr_runtime *rt = runtime(1, (tsr_runtime_opts){ .threads = 2 });
  tsr__error error = { .status = TSR_OK };
  side a, b;
  side_new(&a, 1, words, &rows);
  side_new(&b, 1, words, &rows);
  int64_t distinct = rows / copies;
  uint64_t spread = wide ? UINT64_C(0xD1342543DE82EF95) : 1;
  for (int64_t r = 0; r < rows; r++)
    for (int w = 0; w < words; w++) {
      a.word[0][w * rows + r] = (uint64_t)((r * 7 + 3) % (2 * distinct)) * spread;
      b.word[0][w * rows + r] = (uint64_t)(r * 11 % distinct) * spread;
    }
  paired found;
  tsr__match_ask ask = { &a.parts, &b.parts, &a.packed, &b.packed, TSR__MATCH_INNER };
  CHECK_STATUS(match_rows(rt, &ask, &found, &error), TSR_OK, NULL);
  CHECK(found.repeats == (copies > 1));
  int64_t at = 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t key = (r * 7 + 3) % (2 * distinct), last = -1;
    for (int64_t c = 0; key < distinct && c < copies; c++, at++) {
      CHECK_I64(found.left.at[0][at], r);
      CHECK((int64_t)found.right.at[0][at] > last);
      last = found.right.at[0][at];
      CHECK_I64(last * 11 % distinct, key);
    }
  }
  CHECK_I64(found.left.rows[0], at);
  tsr__index_free(rt, &found.left);
  tsr__index_free(rt, &found.right);
  side_free(&a);
  side_free(&b);
  tsr_runtime_close(rt);
}

TEST(large_tables_are_filled_by_all_workers)
{
  for (int words = 1; words <= 2; words++)
    for (int wide = 0; wide < 2; wide++) {
      check_large(300007, 1, wide, words);
      check_large(300000, 3, wide, words);
    }
}

TEST(blocks_of_rows_keep_their_order)
{
  check_large(5000000, 2, false, 1);
  check_large(5000000, 2, true, 1);
}

/* x ^ x >> shift, undone. */
static uint64_t unshift(uint64_t x, int shift)
{
  uint64_t y = x;
  for (int k = shift; k < 64; k += shift) y = x ^ y >> shift;
  return y;
}

/* The number by which x * odd is x again. */
static uint64_t inverse_of(uint64_t odd)
{
  uint64_t y = odd;
  for (int i = 0; i < 6; i++) y *= 2 - odd * y;
  return y;
}

/* Keys chosen to meet in one slot if the hash of tables were the one that says who owns a key. */
TEST(chosen_keys_do_not_crowd)
{
  int64_t rows = 20000;
  tsr_runtime *rt = runtime(1, (tsr_runtime_opts){ .threads = 2 });
  tsr__error error = { .status = TSR_OK };
  side a;
  side_new(&a, 1, 1, &rows);
  for (int64_t r = 0; r < rows; r++) {
    uint64_t x = unshift((uint64_t)r, 32) * inverse_of(UINT64_C(0xABC98388FB8FAC03));
    a.word[0][r] = unshift(unshift(x, 29) * inverse_of(UINT64_C(0xD1B54A32D192ED03)), 32);
  }
  tsr__matched found;
  tsr__match_ask ask = { &a.parts, &a.parts, &a.packed, &a.packed, TSR__MATCH_INNER };
  CHECK_STATUS(tsr__match_find(rt, &ask, &found, &error), TSR_OK, NULL);
  CHECK(!found.direct);
  CHECK_I64(found.rows[0], rows);
  CHECK(found.steps < 4 * rows);
  tsr__match_free(&found);
  side_free(&a);
  tsr_runtime_close(rt);
}

/* Keys whose hashes crowd in one range of slots. */
TEST(crowded_ranges_find_room)
{
  int64_t rows = 100000;
  tsr_runtime *rt = runtime(1, (tsr_runtime_opts){ .threads = 2 });
  tsr__error error = { .status = TSR_OK };
  side a;
  side_new(&a, 1, 1, &rows);
  uint64_t key = 0;
  tsr__key_seed seed = tsr__key_seed_of(rt->heap.seed);
  for (int64_t r = 0; r < rows; r++) {
    do a.word[0][r] = ++key * UINT64_C(1000003);
    while (tsr__key_place(seed, &a.word[0][r], 1, 1) * UINT64_C(0x9e3779b97f4a7c15) >> 63);
  }
  paired found;
  tsr__match_ask ask = { &a.parts, &a.parts, &a.packed, &a.packed, TSR__MATCH_INNER };
  CHECK_STATUS(match_rows(rt, &ask, &found, &error), TSR_OK, NULL);
  CHECK_I64(found.left.rows[0], rows);
  CHECK(!found.left.at[0]);
  for (int64_t r = 0; r < rows; r++) CHECK_I64(found.right.at[0][r], r);
  tsr__index_free(rt, &found.left);
  tsr__index_free(rt, &found.right);
  side_free(&a);
  tsr_runtime_close(rt);
}

TEST(limits_and_lost_memory_are_told)
{
  int64_t rows = 100000;
  tsr_runtime *rt = runtime(1, (tsr_runtime_opts){ .threads = 2, .memory_limit = 1 << 20 });
  tsr__error error = { .status = TSR_OK };
  side a;
  side_new(&a, 1, 1, &rows);
  for (int64_t r = 0; r < rows; r++) a.word[0][r] = (uint64_t)r;
  paired found;
  tsr__match_ask ask = { &a.parts, &a.parts, &a.packed, &a.packed, TSR__MATCH_INNER };
  CHECK_STATUS(match_rows(rt, &ask, &found, &error), TSR_ENOMEM, NULL);
  CHECK_STR_HAS(error.text, "join needs 1600004 bytes more on device 0");
  CHECK_STR_HAS(error.text, "1048576");
  CHECK_I64(tsr_device_memory(rt, 0).peak, 0);
  tsr_runtime_close(rt);
  side_free(&a);
}

/* Few left rows that meet many right ones: their tasks are cut where results pile up. */
TEST(many_results_of_few_rows_are_in_order)
{
  int64_t rows[2] = { 5000, 3000 };
  for (int how = TSR__MATCH_INNER; how <= TSR__MATCH_LEFT; how++) {
    tsr_runtime *rt = runtime(1, (tsr_runtime_opts){ .threads = 2 });
    tsr__error error = { .status = TSR_OK };
    side a, b;
    side_new(&a, 1, 1, &rows[0]);
    side_new(&b, 1, 1, &rows[1]);
    for (int64_t r = 0; r < rows[0]; r++) a.word[0][r] = r % 3 == 1;
    paired found;
    tsr__match_ask ask = { &a.parts, &b.parts, &a.packed, &b.packed, how };
    CHECK_STATUS(match_rows(rt, &ask, &found, &error), TSR_OK, NULL);
    int64_t at = 0;
    for (int64_t r = 0; r < rows[0]; r++) {
      int64_t results = r % 3 != 1 ? rows[1] : how == TSR__MATCH_LEFT;
      for (int64_t k = 0; k < results; k++, at++) {
        if (found.left.at[0][at] != r) CHECK_I64(found.left.at[0][at], r);
        uint32_t want = r % 3 != 1 ? (uint32_t)k : TSR__NO_ROW;
        if (found.right.at[0][at] != want) CHECK_I64(found.right.at[0][at], want);
      }
    }
    CHECK_I64(found.left.rows[0], at);
    tsr__index_free(rt, &found.left);
    tsr__index_free(rt, &found.right);
    side_free(&a);
    side_free(&b);
    tsr_runtime_close(rt);
  }
}

/* Equal keys on both sides: more pairs than a part can number, told before any is made. */
TEST(too_many_pairs_are_refused)
{
  int64_t rows = 1000000;
  tsr_runtime *rt = runtime(1, (tsr_runtime_opts){ .threads = 2 });
  tsr__error error = { .status = TSR_OK };
  side a;
  side_new(&a, 1, 1, &rows);
  paired found;
  tsr__match_ask ask = { &a.parts, &a.parts, &a.packed, &a.packed, TSR__MATCH_INNER };
  CHECK_STATUS(match_rows(rt, &ask, &found, &error), TSR_EUNSUPPORTED, NULL);
  CHECK_STR_HAS(error.text, "1000000000000 rows");
  CHECK_I64(tsr_device_memory(rt, 0).now, 0);
  tsr_runtime_close(rt);
  side_free(&a);
}

TEST(every_allocation_may_fail)
{
  int64_t rows = 500;
  side a;
  side_new(&a, 1, 1, &rows);
  for (int64_t r = 0; r < rows; r++) a.word[0][r] = (uint64_t)(r / 2);
  bool worked = false;
  for (int64_t n = 1; !worked; n++) {
    struct test_alloc state = { 0 };
    tsr_allocator allocator = test_allocator(&state);
    tsr_runtime *rt = runtime(1, (tsr_runtime_opts){ .threads = 1, .allocator = &allocator });
    tsr__error error = { .status = TSR_OK };
    int64_t before = state.live;
    state.fail_at = state.count + n;
    paired found;
    tsr__match_ask ask = { &a.parts, &a.parts, &a.packed, &a.packed, TSR__MATCH_LEFT };
    tsr_status status = match_rows(rt, &ask, &found, &error);
    worked = status == TSR_OK;
    if (worked) {
      CHECK_I64(found.left.rows[0], 1000);
      tsr__index_free(rt, &found.left);
      tsr__index_free(rt, &found.right);
    } else {
      CHECK_STATUS(status, TSR_ENOMEM, NULL);
      CHECK_I64(tsr_device_memory(rt, 0).now, 0);
    }
    CHECK(state.live >= before);
    tsr_runtime_close(rt);
    CHECK_I64(state.live, 0);
  }
  side_free(&a);
}

static bool stop(const char *what, int64_t done, int64_t total, void *user)
{
  (void)done;
  (void)total;
  CHECK_STR(what, "join");
  return --*(int *)user > 0;
}

TEST(the_callback_cancels)
{
  int64_t rows = 3000000;
  side a;
  side_new(&a, 1, 1, &rows);
  for (int64_t r = 0; r < rows; r++) a.word[0][r] = (uint64_t)r;
  int left_calls = 1;
  tsr_runtime *rt =
      runtime(1,
              (tsr_runtime_opts){ .threads = 2, .progress = stop, .progress_user = &left_calls });
  rt->progress_gap = 0;
  tsr__error error = { .status = TSR_OK };
  paired found;
  tsr__match_ask ask = { &a.parts, &a.parts, &a.packed, &a.packed, TSR__MATCH_INNER };
  CHECK_STATUS(match_rows(rt, &ask, &found, &error), TSR_ECANCELLED, NULL);
  CHECK_I64(tsr_device_memory(rt, 0).now, 0);
  tsr_runtime_close(rt);
  side_free(&a);
}
