/* Device memory: reuse, limits, accounting, slack, huge blocks, steady state without faults. */
#include "harness.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "base/base.h"

#define MB ((size_t)1 << 20)

static tsr__heap heap;

static tsr__pool *open_pool(int64_t limit)
{
  tsr__heap_init(&heap, NULL);
  tsr__pool *pool = tsr__pool_open(&heap, limit);
  CHECK(pool);
  return pool;
}

static void close_pool(tsr__pool *pool)
{
  CHECK_I64(tsr__pool_memory(pool).now, 0);
  tsr__pool_close(pool);
  CHECK_I64(heap.live, 0);
}

static void check_filled(const void *block, unsigned char with, size_t size)
{
  const unsigned char *bytes = block;
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != with) FAIL("byte %zu of %zu is %#x, expected %#x", i, size, bytes[i], with);
}

TEST(blocks_are_aligned_with_readable_slack)
{
  tsr__pool *pool = open_pool(0);
  for (size_t bytes = 0; bytes < 9 * MB; bytes += bytes / 7 + 1) {
    char *block = tsr__pool_take(pool, bytes);
    CHECK(block);
    CHECK_U64((uintptr_t)block % (bytes >= 2 * MB ? 2 * MB : 64), 0);
    memset(block, 0x11, bytes + 64); /* under ASan a short block would show here */
    tsr__pool_give(pool, block, bytes);
  }
  close_pool(pool);
}

TEST(freed_blocks_come_back_newest_first)
{
  tsr__pool *pool = open_pool(0);
  void *a = tsr__pool_take(pool, 1000), *b = tsr__pool_take(pool, 1000);
  CHECK(a != b);
  tsr__pool_give(pool, a, 1000);
  tsr__pool_give(pool, b, 1000);
  CHECK(tsr__pool_take(pool, 1020) == b); /* 1000 and 1020 are of one class: 897 to 1024 */
  CHECK(tsr__pool_take(pool, 900) == a);
  void *c = tsr__pool_take(pool, 1000);
  CHECK(c != a && c != b);
  tsr__pool_give(pool, b, 1020);
  tsr__pool_give(pool, a, 900);
  tsr__pool_give(pool, c, 1000);
  tsr__pool_give(pool, NULL, 5);
  close_pool(pool);
}

/* Of a block that is larger than it must be the whole counts as kept and as held, what was asked
 * for as used; given back it is as large as it was. */
TEST(larger_blocks_are_lent_within_four_times_the_size)
{
  tsr__pool *pool = open_pool(0);
  char *large = tsr__pool_take(pool, 16 * MB);
  tsr__pool_give(pool, large, 16 * MB);
  char *far = tsr__pool_take(pool, 3 * MB); /* less than a quarter */
  CHECK(far && (far < large || far >= large + 16 * MB));
  CHECK(tsr__pool_take(pool, 6 * MB) == large);
  CHECK_I64(tsr__pool_memory(pool).now, (int64_t)(9 * MB));
  CHECK_I64(tsr__pool_memory(pool).cached, 0);
  char *other = tsr__pool_take(pool, 6 * MB);
  CHECK(other && other != large);
  memset(large, 0x11, 6 * MB + 64);
  tsr__pool_give(pool, large, 6 * MB);
  CHECK_I64(tsr__pool_memory(pool).cached, (int64_t)(16 * MB));
  CHECK(tsr__pool_take(pool, 15 * MB) == large);
  memset(large, 0x22, 15 * MB + 64);
  tsr__pool_give(pool, other, 6 * MB);
  tsr__pool_give(pool, large, 15 * MB);
  CHECK(tsr__pool_take(pool, 6 * MB) == other); /* its own class before larger ones */
  char *small = tsr__pool_take(pool, MB / 2);
  CHECK(small && small != large); /* small ones are made */
  tsr__pool_give(pool, small, MB / 2);
  tsr__pool_give(pool, other, 6 * MB);
  tsr__pool_give(pool, far, 3 * MB);
  close_pool(pool);
}

TEST(the_limit_is_of_what_was_asked_for_of_a_lent_block)
{
  tsr__pool *pool = open_pool((int64_t)(20 * MB));
  char *large = tsr__pool_take(pool, 16 * MB);
  tsr__pool_give(pool, large, 16 * MB);
  CHECK(tsr__pool_take(pool, 5 * MB) == large);
  char *rest = tsr__pool_take(pool, 15 * MB);
  CHECK(rest);
  CHECK(!tsr__pool_take(pool, 1));
  tsr__pool_give(pool, rest, 15 * MB);
  tsr__pool_give(pool, large, 5 * MB);
  CHECK_I64(tsr__pool_memory(pool).now, 0);
  CHECK_I64(tsr__pool_memory(pool).peak, (int64_t)(20 * MB));
  CHECK_I64(tsr__pool_memory(pool).cached, (int64_t)(32 * MB));
  close_pool(pool);
}

TEST(figures_count_the_bytes_asked_for)
{
  tsr__pool *pool = open_pool(1 << 20);
  void *a = tsr__pool_take(pool, 100), *b = tsr__pool_take(pool, 5000);
  tsr_memory memory = tsr__pool_memory(pool);
  CHECK_I64(memory.now, 5100);
  CHECK_I64(memory.peak, 5100);
  CHECK_I64(memory.limit, 1 << 20);
  CHECK_I64(memory.cached, 0);
  tsr__pool_give(pool, b, 5000);
  memory = tsr__pool_memory(pool);
  CHECK_I64(memory.now, 100);
  CHECK_I64(memory.peak, 5100);
  CHECK(memory.cached >= 5000 && memory.cached <= 5000 + 5000 / 4);
  b = tsr__pool_take(pool, 5000);
  CHECK_I64(tsr__pool_memory(pool).cached, 0);
  tsr__pool_give(pool, a, 100);
  tsr__pool_give(pool, b, 5000);
  close_pool(pool);
}

TEST(the_limit_refuses_and_says_so)
{
  tsr__pool *pool = open_pool(10000);
  void *a = tsr__pool_take(pool, 6000);
  CHECK(tsr__pool_would_fit(pool, 4000));
  CHECK(!tsr__pool_would_fit(pool, 4001));
  CHECK(!tsr__pool_take(pool, 4001));
  CHECK(!tsr__pool_take(pool, SIZE_MAX));
  CHECK(!tsr__pool_would_fit(pool, SIZE_MAX));
  CHECK_I64(tsr__pool_memory(pool).peak, 6000);
  void *b = tsr__pool_take(pool, 4000); /* exactly the limit is allowed */
  CHECK(b);
  tsr__pool_give(pool, a, 6000);
  tsr__pool_give(pool, b, 4000);
  close_pool(pool);
}

TEST(the_cache_makes_room_under_the_limit)
{
  tsr__pool *pool = open_pool((int64_t)(4 * MB));
  void *small[8];
  for (int i = 0; i < 8; i++) CHECK(small[i] = tsr__pool_take(pool, MB / 2));
  for (int i = 0; i < 8; i++) tsr__pool_give(pool, small[i], MB / 2);
  CHECK_I64(tsr__pool_memory(pool).cached, (int64_t)(4 * MB));
  void *big = tsr__pool_take(pool, 4 * MB);
  CHECK(big);
  CHECK_I64(tsr__pool_memory(pool).cached, 0);
  tsr__pool_give(pool, big, 4 * MB);
  close_pool(pool);
}

TEST(the_cache_stays_bounded_without_a_limit)
{
  tsr__pool *pool = open_pool(0);
  for (size_t bytes = 3 * MB; bytes < 64 * MB; bytes += MB) {
    void *block = tsr__pool_take(pool, bytes);
    CHECK(block);
    tsr__pool_give(pool, block, bytes);
    CHECK(tsr__pool_memory(pool).cached <= (int64_t)(4 * 64 * MB));
  }
  close_pool(pool);
}

TEST(a_refusing_allocator_costs_the_cache_first)
{
  struct test_alloc state = { 0 };
  tsr_allocator user = test_allocator(&state);
  tsr__heap_init(&heap, &user);
  tsr__pool *pool = tsr__pool_open(&heap, 0);
  void *a = tsr__pool_take(pool, 3 * MB);
  CHECK(a);
  CHECK(state.bytes > (int64_t)(3 * MB)); /* big blocks come from the user as well */
  tsr__pool_give(pool, a, 3 * MB);
  state.fail_at = state.count + 1; /* once: with the cache gone the second try succeeds */
  void *b = tsr__pool_take(pool, 100);
  CHECK(b);
  CHECK_I64(tsr__pool_memory(pool).cached, 0);
  state.fail_at = state.count + 1;
  state.stay = true;
  CHECK(!tsr__pool_take(pool, 200));
  CHECK(!tsr__pool_take(pool, 5 * MB));
  CHECK(tsr__pool_would_fit(pool, 200));
  CHECK_I64(tsr__pool_memory(pool).now, 100);
  CHECK_I64(tsr__pool_memory(pool).peak, (int64_t)(3 * MB));
  tsr__pool_give(pool, b, 100);
  close_pool(pool);
  CHECK_I64(state.live, 0);
  CHECK(!tsr__pool_open(&heap, 0));
}

TEST(more_than_the_machine_has_is_refused)
{
  tsr__pool *pool = open_pool(0);
  CHECK(!tsr__pool_take(pool, (size_t)1 << 60));
  CHECK(!tsr__pool_take(pool, ((size_t)1 << 46) + 1));
  CHECK(!tsr__pool_take(pool, SIZE_MAX - 100));
  CHECK(tsr__pool_would_fit(pool, SIZE_MAX - 100)); /* no limit: it is memory that refuses */
  CHECK_I64(tsr__pool_memory(pool).peak, 0);
  close_pool(pool);
}

static int64_t faults(void)
{
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(steady_state_has_no_page_faults)
{
  tsr__pool *pool = open_pool(0);
  int64_t before = 0;
  for (int i = 0; i < 101; i++) {
    if (i == 1) before = faults();
    char *a = tsr__pool_take(pool, 8 * MB), *b = tsr__pool_take(pool, 8 * MB);
    memset(a, i, 8 * MB);
    memset(b, i, 8 * MB);
    tsr__pool_give(pool, a, 8 * MB);
    tsr__pool_give(pool, b, 8 * MB);
  }
  int64_t after = faults();
  CHECK(after - before < 50); /* a cold 8 MB block alone costs 2048 small pages, or 4 huge ones */
  close_pool(pool);
}

TEST(poison_fills_new_and_reused_blocks)
{
  tsr__pool *pool = open_pool(0);
  void *old = tsr__pool_take(pool, 300);
  memset(old, 0, 300);
  tsr__pool_give(pool, old, 300);
  tsr__pool_poison(pool, true);
  for (size_t bytes = 64; bytes < 5 * MB; bytes *= 9) {
    for (int round = 0; round < 2; round++) {
      unsigned char *block = tsr__pool_take(pool, bytes);
      check_filled(block, 0xCB, bytes);
      memset(block, 0, bytes);
      tsr__pool_give(pool, block, bytes);
    }
  }
  close_pool(pool);
}

/* Each thread fills its blocks with its own byte: a block handed out twice shows. */
struct hammer {
  tsr__pool *pool;
  int seed;
};

static void *hammer(void *argument)
{
  struct hammer *h = argument;
  test_rng rng = test_seeded((uint64_t)h->seed);
  char *block[16] = { 0 };
  size_t bytes[16] = { 0 };
  for (int i = 0; i < 20000; i++) {
    size_t at = (size_t)test_range(&rng, 0, 15);
    if (block[at]) {
      check_filled(block[at], (unsigned char)h->seed, bytes[at]);
      tsr__pool_give(h->pool, block[at], bytes[at]);
      block[at] = NULL;
    } else {
      bytes[at] = (size_t)test_range(&rng, 1, 2000);
      block[at] = tsr__pool_take(h->pool, bytes[at]);
      if (block[at]) memset(block[at], h->seed, bytes[at]);
    }
  }
  for (int at = 0; at < 16; at++) tsr__pool_give(h->pool, block[at], bytes[at]);
  return NULL;
}

/* Blocks that are expected lie side by side, are taken and given as others are, and go back as a
 * whole once none of them is live. */
TEST(expected_blocks_share_large_pages)
{
  enum { COUNT = 4 };
  static const size_t sizes[] = { 384 << 10, 1000000, 3 << 20, 600 << 10 };
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    size_t bytes = sizes[k];
    char *block[COUNT + 1];
    tsr__pool *pool = open_pool(0);
    tsr__pool_poison(pool, k % 2);
    tsr__pool_expect(pool, bytes, COUNT);
    int64_t cached = tsr__pool_memory(pool).cached;
    CHECK(cached >= COUNT * (int64_t)bytes && cached <= 2 * COUNT * (int64_t)bytes + (4 << 20));
    tsr__pool_expect(pool, bytes, COUNT); /* they are there */
    CHECK_I64(tsr__pool_memory(pool).cached, cached);
    for (int i = 0; i < COUNT; i++) {
      block[i] = tsr__pool_take(pool, bytes);
      CHECK_U64((uintptr_t)block[i] % 64, 0);
      if (k % 2) check_filled(block[i], 0xCB, bytes + 64);
      memset(block[i], i, bytes + 64);
      if (i) CHECK(block[i] > block[i - 1]);
      if (i) CHECK((size_t)(block[i] - block[i - 1]) <= bytes + bytes / 4 + 8192);
    }
    for (int i = 0; i < COUNT; i++) check_filled(block[i], (unsigned char)i, bytes + 64);
    CHECK_I64(tsr__pool_memory(pool).now, COUNT * (int64_t)bytes);
    /* The newest is the next, and what is kept goes, but for the slab while one of it is live. */
    for (int i = 0; i < COUNT - 1; i++) tsr__pool_give(pool, block[i], bytes);
    CHECK(tsr__pool_take(pool, bytes) == block[COUNT - 2]);
    tsr__pool_poison(pool, true); /* drops what is kept */
    CHECK(tsr__pool_memory(pool).cached > 0);
    memset(block[COUNT - 1], 1, bytes);
    tsr__pool_give(pool, block[COUNT - 2], bytes);
    tsr__pool_give(pool, block[COUNT - 1], bytes);
    tsr__pool_poison(pool, true);
    CHECK_I64(tsr__pool_memory(pool).cached, 0);
    CHECK_I64(heap.live, 1); /* the pool */
    close_pool(pool);
  }
}

TEST(what_is_expected_is_no_promise)
{
  tsr__pool *pool = open_pool(4 * (int64_t)MB);
  tsr__pool_expect(pool, 2 * MB, 4); /* more than the limit */
  tsr__pool_expect(pool, 1000, 4);   /* not worth it */
  tsr__pool_expect(pool, (size_t)1 << 50, 2);
  tsr__pool_expect(pool, MB, 0);
  CHECK_I64(tsr__pool_memory(pool).cached, 0);
  /* Two classes at once, of which one is dropped for another's sake. */
  tsr__pool_expect(pool, MB / 2, 3);
  tsr__pool_expect(pool, MB / 4, 4);
  char *half = tsr__pool_take(pool, MB / 2), *large = tsr__pool_take(pool, 3 * MB);
  CHECK(half && large);
  memset(half, 1, MB / 2), memset(large, 2, 3 * MB);
  check_filled(half, 1, MB / 2);
  tsr__pool_give(pool, half, MB / 2);
  tsr__pool_give(pool, large, 3 * MB);
  close_pool(pool);
}

TEST(threads_share_a_pool)
{
  tsr__pool *pool = open_pool(60000); /* small enough that the limit is hit now and then */
  pthread_t thread[4];
  struct hammer h[4];
  for (int i = 0; i < 4; i++) {
    h[i] = (struct hammer){ pool, i + 1 };
    CHECK(!pthread_create(&thread[i], NULL, hammer, &h[i]));
  }
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  CHECK(tsr__pool_memory(pool).peak <= 60000);
  close_pool(pool);
}
