/* Groups of packed keys against a naive numbering: every table (direct, hashed, one word, several),
 * every shape of rows over parts, and memory that ends. */
#include "harness.h"
#include "kernel/rows/columns.h"
#include "kernel/rows/key_hash.h"
#include "tessera.h"

#include <stdlib.h>
#include <string.h>

/* Hand-made keys: rows[p] of parts, each key `words` words. */
typedef struct made {
  tsr__parts parts;
  tsr__packed_keys packed;
  int device[8];
  int64_t rows[8];
  uint64_t *word[8];
} made;

static void make(made *m, int parts, const int64_t *rows, int words, int bits)
{
  memset(m, 0, sizeof *m);
  for (int p = 0; p < parts; p++) {
    m->device[p] = p;
    m->rows[p] = rows[p];
    m->word[p] = calloc((size_t)(rows[p] * words) + 1, sizeof(uint64_t));
  }
  m->parts = (tsr__parts){ parts, m->device, m->rows };
  m->packed = (tsr__packed_keys){ .parts = parts, .words = words, .bits = bits, .word = m->word };
}

static void unmake(made *m)
{
  for (int p = 0; p < m->parts.count; p++) free(m->word[p]);
}

/* One of `distinct` keys: its last word is `key` spread over the bits, earlier words repeat
 * often. */
static void set_key(made *m, int p, int64_t r, uint64_t key)
{
  int words = m->packed.words;
  int64_t rows = m->rows[p];
  for (int w = 0; w < words - 1; w++) m->word[p][w * rows + r] = key % (uint64_t)(w + 2);
  bool wide = m->packed.bits > 32;
  m->word[p][(words - 1) * rows + r] = wide ? key * UINT64_C(0x9e3779b97f4a7c15) : key;
}

static bool equal(const made *m, int p, int64_t a, int64_t b)
{
  for (int w = 0; w < m->packed.words; w++)
    if (m->word[p][w * m->rows[p] + a] != m->word[p][w * m->rows[p] + b]) return false;
  return true;
}

/* Every row has the number of the group whose first row equals it; first rows ascend and are the
 * first of their number. With ascending firsts that differ from each other, numbers are unique. */
static void check(const made *m, const tsr__grouped *g)
{
  CHECK_I64(g->parts, m->parts.count);
  for (int p = 0; p < g->parts; p++) {
    int64_t next = 0;
    CHECK_I64(g->first.rows[p], g->count[p]);
    for (int64_t r = 0; r < m->rows[p]; r++) {
      int64_t number = g->group[p][r];
      CHECK(number <= next && number < g->count[p]);
      int64_t first = g->first.at[p][number];
      if (number == next) {
        CHECK_I64(first, r);
        next++;
      }
      CHECK(equal(m, p, r, first));
    }
    CHECK_I64(next, g->count[p]);
  }
}

/* Keys in a random order, each of them at least once where rows allow. */
static void fill(made *m, uint64_t keys, uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  for (int p = 0; p < m->parts.count; p++)
    for (int64_t r = 0; r < m->rows[p]; r++)
      set_key(m, p, r, (uint64_t)r < keys ? keys - 1 - (uint64_t)r : test_random(&rng) % keys);
}

static void group_and_check(const char *devices, int threads, made *m, uint64_t keys)
{
  tsr_runtime *rt = tsr_runtime_open(devices, .threads = threads);
  tsr__error error = { 0 };
  tsr__grouped g;
  CHECK_I64(tsr__group_rows(rt, &m->parts, &m->packed, &g, &error), TSR_OK);
  check(m, &g);
  for (int p = 0; p < m->parts.count; p++)
    if (m->rows[p] >= (int64_t)keys) CHECK_I64(g.count[p], (int64_t)keys);
  tsr__grouped_free(rt, &g);
  tsr_runtime_close(rt);
}

static void each_way(int parts, const int64_t *rows, uint64_t keys)
{
  static const int words[] = { 1, 1, 2, 3 };
  for (int k = 0; k < 4; k++) {
    made m;
    int bits = 0;
    while (keys > UINT64_C(1) << bits) bits++;
    make(&m, parts, rows, words[k], k ? 64 : bits);
    fill(&m, keys, keys + (uint64_t)k);
    for (int threads = 1; threads <= 3; threads++)
      group_and_check(parts > 1 ? "cpu:8" : "cpu", threads, &m, keys);
    unmake(&m);
  }
}

TEST(groups_of_one_part_are_numbered_by_first_row)
{
  static const uint64_t keys[] = { 1, 2, 7, 1000, 30000 };
  static const int64_t rows[] = { 0, 1, 63, 64, 65, 5000, 70000, 300001 };
  for (int k = 0; k < 5; k++)
    for (int r = 0; r < 8; r++) each_way(1, &rows[r], keys[k]);
}

TEST(parts_are_grouped_each_for_itself)
{
  static const int64_t rows[] = { 1000, 0, 1, 40000, 64, 17, 0, 150000 };
  each_way(8, rows, 3);
  each_way(8, rows, 900);
  each_way(3, rows, 100000);
}

TEST(a_key_in_nearly_every_row_of_a_bin_grows_its_table)
{
  int64_t rows = 200000;
  each_way(1, &rows, 200000);
}

TEST(keys_without_bits_are_one_group)
{
  int64_t rows[2] = { 100, 0 };
  made m;
  make(&m, 2, rows, 1, 0);
  m.packed.word = NULL;
  tsr_runtime *rt = tsr_runtime_open("cpu:2");
  tsr__error error = { 0 };
  tsr__grouped g;
  CHECK_I64(tsr__group_rows(rt, &m.parts, &m.packed, &g, &error), TSR_OK);
  CHECK_I64(g.count[0], 1);
  CHECK_I64(g.count[1], 0);
  for (int r = 0; r < 100; r++) CHECK_I64(g.group[0][r], 0);
  tsr__grouped_free(rt, &g);
  tsr_runtime_close(rt);
  unmake(&m);
}

TEST(equal_hashes_of_different_keys_stay_apart)
{
  /* Words that differ only where a fold of the words would cancel. */
  int64_t rows = 40000;
  made m;
  make(&m, 1, &rows, 2, 64);
  for (int64_t r = 0; r < rows; r++) {
    m.word[0][r] = (uint64_t)(r % 200);
    m.word[0][rows + r] = (uint64_t)(r % 200) ^ (uint64_t)(r % 7);
  }
  group_and_check("cpu", 2, &m, (uint64_t)rows + 1);
  unmake(&m);
}

/* Keys chosen to meet in one slot if the hash of tables were the one that says who owns a key. */
TEST(chosen_keys_do_not_crowd)
{
  int64_t rows = 2000;
  made m;
  make(&m, 1, &rows, 1, 64);
  uint64_t key = 0;
  for (int64_t r = 0; r < rows; r++) {
    do m.word[0][r] = ++key;
    while (tsr__key_hash(&key, 1, 1) & 16383);
  }
  tsr_runtime *rt = tsr_runtime_open("cpu");
  tsr__error error = { 0 };
  tsr__grouped g;
  CHECK_I64(tsr__group_rows(rt, &m.parts, &m.packed, &g, &error), TSR_OK);
  CHECK_I64(g.count[0], rows);
  CHECK(g.steps < 2 * rows);
  tsr__grouped_free(rt, &g);
  tsr_runtime_close(rt);
  unmake(&m);
}

static bool stop(const char *work, int64_t done, int64_t total, void *user)
{
  (void)work;
  (void)done;
  (void)total;
  return (*(int *)user)-- > 0;
}

TEST(the_progress_callback_cancels)
{
  int64_t rows = 400000;
  int left = 0;
  made m;
  make(&m, 1, &rows, 1, 64);
  fill(&m, 50000, 1);
  tsr_runtime *rt = tsr_runtime_open("cpu", .threads = 1, .progress = stop, .progress_user = &left);
  tsr__error error = { 0 };
  tsr__grouped g;
  CHECK_I64(tsr__group_rows(rt, &m.parts, &m.packed, &g, &error), TSR_ECANCELLED);
  CHECK_STR_HAS(error.text, "cancelled");
  CHECK_I64(tsr_device_memory(rt, 0).now, 0);
  tsr_runtime_close(rt);
  unmake(&m);
}

static void fail_each(int bits, int words, int64_t rows)
{
  made m;
  make(&m, 1, &rows, words, bits);
  fill(&m, 3000, 1);
  struct test_alloc state = { 0 };
  tsr_allocator allocator = test_allocator(&state);
  int failures = 0;
  for (int64_t n = 1;; n++) {
    tsr_runtime *rt = tsr_runtime_open("cpu", .threads = 2, .allocator = &allocator);
    tsr__error error = { 0 };
    tsr__grouped g;
    state.count = 0;
    state.fail_at = n;
    tsr_status status = tsr__group_rows(rt, &m.parts, &m.packed, &g, &error);
    bool over = state.count < n;
    state.fail_at = 0;
    if (status == TSR_OK) {
      check(&m, &g);
      tsr__grouped_free(rt, &g);
    } else {
      CHECK_I64(status, TSR_ENOMEM);
      CHECK(error.text[0]);
      failures++;
    }
    tsr_runtime_close(rt);
    CHECK_I64(state.live, 0);
    if (over) break;
  }
  CHECK(failures > 8);
  unmake(&m);
}

TEST(any_allocation_may_fail)
{
  fail_each(12, 1, 5000);
  fail_each(64, 1, 5000);
  fail_each(64, 2, 40000);
}

TEST(a_limit_refuses_with_a_reason)
{
  int64_t rows = 200000;
  made m;
  make(&m, 1, &rows, 1, 64);
  fill(&m, 5000, 1);
  tsr_runtime *rt = tsr_runtime_open("cpu", .memory_limit = 1 << 20);
  tsr__error error = { 0 };
  tsr__grouped g;
  CHECK_I64(tsr__group_rows(rt, &m.parts, &m.packed, &g, &error), TSR_ENOMEM);
  CHECK_STR_HAS(error.text, "memory_limit");
  CHECK_I64(tsr_device_memory(rt, 0).now, 0);
  tsr_runtime_close(rt);
  unmake(&m);
}
