/* The counted front of the allocator: alignment, zeroing, counting, refusals. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/base.h"
#include "base/watched.h"

static bool is_zero(const void *block, size_t size)
{
  const char *bytes = block;
  for (size_t i = 0; i < size; i++)
    if (bytes[i]) return false;
  return true;
}

TEST(every_heap_has_a_seed_of_its_own)
{
  tsr__heap a, b;
  tsr__heap_init(&a, NULL);
  tsr__heap_init(&b, NULL);
  CHECK(a.seed != b.seed);
}

TEST(blocks_are_aligned_zeroed_and_counted)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  CHECK(tsr__heap_is_default(&heap));
  static const size_t sizes[] = { 0, 1, 7, 64, 65, 4096, 100001 };
  enum { COUNT = sizeof sizes / sizeof *sizes };
  void *block[COUNT];
  for (int round = 0; round < 2; round++) { /* the second round reuses dirty memory */
    for (int i = 0; i < COUNT; i++) {
      block[i] = tsr__new(&heap, sizes[i]);
      CHECK(block[i]);
      CHECK_U64((uintptr_t)block[i] % (sizes[i] > 512 ? 64 : _Alignof(max_align_t)), 0);
      CHECK(is_zero(block[i], sizes[i]));
      memset(block[i], 0xFF, sizes[i]);
      CHECK_I64(heap.live, i + 1);
    }
    for (int i = 0; i < COUNT; i++) tsr__del(&heap, block[i], sizes[i]);
    CHECK_I64(heap.live, 0);
  }
  tsr__del(&heap, NULL, 10);
  CHECK_I64(heap.live, 0);
}

TEST(absurd_sizes_are_refused)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  CHECK(!tsr__new(&heap, SIZE_MAX));
  CHECK(!tsr__new_raw(&heap, SIZE_MAX - 63));
  CHECK(!tsr__new_raw(&heap, (size_t)PTRDIFF_MAX));
  CHECK_I64(heap.live, 0);
}

TEST(the_users_allocator_gets_every_call)
{
  struct test_alloc state = { .fail_at = 3 };
  tsr_allocator user = test_allocator(&state);
  tsr__heap heap;
  tsr__heap_init(&heap, &user);
  CHECK(!tsr__heap_is_default(&heap));
  void *a = tsr__new(&heap, 100), *b = tsr__new_raw(&heap, 0);
  CHECK(a && b);
  CHECK(!tsr__new(&heap, 8));
  CHECK_I64(heap.live, 2);
  CHECK_I64(state.live, 2);
  void *c = tsr__new(&heap, 8);
  CHECK(c);
  CHECK_I64(state.count, 4);
  tsr__del(&heap, a, 100);
  tsr__del(&heap, b, 0);
  tsr__del(&heap, c, 8);
  CHECK_I64(state.live, 0);
  CHECK_I64(state.bytes, 0); /* sizes at release are those asked for */
}

TEST(a_heap_has_a_limit)
{
  enum { LIMIT = 100000, BLOCK = 30000 };
  char says[300];
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  heap.limit = LIMIT;
  void *block[4], *pooled = tsr__new_pooled(&heap, LIMIT);
  CHECK(pooled); /* a pool counts its own */
  for (int i = 0; i < 3; i++) CHECK(block[i] = tsr__new(&heap, BLOCK));
  CHECK_I64(heap.used, 3 * BLOCK);
  tsr__heap_tell(&heap, says, sizeof says);
  CHECK_STR(says, "");
  CHECK(!tsr__new(&heap, BLOCK));
  CHECK_I64(heap.used, 3 * BLOCK);
  CHECK_I64(heap.live, 4);
  block[3] = tsr__new(&heap, LIMIT - 3 * BLOCK); /* to the byte */
  CHECK(block[3] && !tsr__new(&heap, 5000));
  void *small = tsr__new(&heap, 100);
  CHECK(small);
  tsr__heap_tell(&heap, says, sizeof says);
  CHECK_STR_HAS(says,
                "would hold 105000 bytes beside the devices, but .memory_limit allows 100000");
  tsr__heap_tell(&heap, says, sizeof says);
  CHECK_STR(says, "");
  for (int i = 0; i < 3; i++) tsr__del(&heap, block[i], BLOCK);
  tsr__del(&heap, block[3], LIMIT - 3 * BLOCK);
  tsr__del(&heap, small, 100);
  tsr__del_pooled(&heap, pooled, LIMIT);
  CHECK_I64(heap.used, 0);
  CHECK_I64(heap.live, 0);
}

TEST(a_heap_without_functions_refuses)
{
  tsr__heap heap = { 0 };
  CHECK(!tsr__new(&heap, 8));
  CHECK_I64(heap.live, 0);
}

/* An allocator whose memory is never zero by chance. */
static void *take_dirty(size_t size, size_t alignment, void *user)
{
  (void)user;
  void *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (block) memset(block, 0xFF, size);
  return block;
}

static void give_back(void *pointer, size_t size, void *user)
{
  (void)size;
  (void)user;
  free(pointer);
}

TEST(arrays_grow_and_keep_their_contents)
{
  tsr__heap heap;
  tsr__heap_init(&heap, &(tsr_allocator){ take_dirty, give_back, NULL });
  void *array = NULL;
  size_t capacity = 0;
  CHECK(tsr__grow(&heap, &array, &capacity, 0, sizeof(int)));
  CHECK(!array);
  for (int i = 0; i < 5000; i++) {
    CHECK(tsr__grow(&heap, &array, &capacity, (size_t)i + 1, sizeof(int)));
    CHECK(capacity > (size_t)i);
    int *numbers = array;
    CHECK_I64(numbers[i], 0);
    numbers[i] = i;
  }
  for (int i = 0; i < 5000; i++) CHECK_I64(((int *)array)[i], i);
  CHECK_I64(heap.live, 1);
  tsr__del(&heap, array, capacity * sizeof(int));
  CHECK_I64(heap.live, 0);
}

TEST(a_refused_growth_changes_nothing)
{
  struct test_alloc state = { .fail_at = 2 };
  tsr_allocator user = test_allocator(&state);
  tsr__heap heap;
  tsr__heap_init(&heap, &user);
  void *array = NULL;
  size_t capacity = 0;
  CHECK(tsr__grow(&heap, &array, &capacity, 3, 8));
  void *before = array;
  size_t old = capacity;
  CHECK(!tsr__grow(&heap, &array, &capacity, old + 1, 8));
  CHECK(array == before && capacity == old);
  CHECK(!tsr__grow(&heap, &array, &capacity, SIZE_MAX / 4, 8)); /* the product overflows */
  CHECK(!tsr__grow(&heap, &array, &capacity, SIZE_MAX, 1));
  CHECK(array == before && capacity == old);
  tsr__del(&heap, array, capacity * 8);
  CHECK_I64(state.live, 0);
}

TEST(reserved_addresses_become_a_block)
{
  enum { MOST = 64 << 20, KEPT = (9 << 20) + 5 };
  tsr__heap heap;
  tsr__reserve reserve;
  tsr__heap_init(&heap, NULL);
  for (size_t size = 5; size <= KEPT; size += KEPT - 5) {
    size_t kept = size;
    CHECK(tsr__reserve_open(&reserve, &heap, MOST));
    CHECK_I64(heap.used, 0);
    CHECK(tsr__reserve_take(&reserve, size));
    CHECK_I64(heap.used, (int64_t)size);
    memset(reserve.at, 7, size);
    char *block = tsr__reserve_keep(&reserve, &kept);
    CHECK(block && !reserve.at && kept >= size && kept < size + (1 << 16));
    CHECK(block[0] == 7 && block[size - 1] == 7);
    CHECK_I64(heap.used, (int64_t)kept);
    CHECK_I64(heap.live, 1);
    tsr__del_once(&heap, block, kept);
    CHECK_I64(heap.used, 0);
    CHECK_I64(heap.live, 0);
  }
}

/* Page faults of this process so far. */
static long faults(void)
{
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/* Pages come back with what was written to them: as a block, and below what is reserved. */
/* Where threads are watched, each write brings pages of the watcher's own. */
#ifdef __SANITIZE_THREAD__
enum { SHADOWED = 1 };
#else
enum { SHADOWED = 0 };
#endif

TEST(pages_are_kept_for_the_next_block)
{
  enum { SIZE = 32 << 20 };
  tsr__heap heap;
  tsr__reserve reserve;
  tsr__heap_init(&heap, NULL);
  for (int round = 0; round < 3; round++) {
    char *block = tsr__new_once(&heap, SIZE);
    long before = faults();
    memset(block, round + 1, SIZE);
    if (round && !TSR__WATCHED && !SHADOWED) CHECK(faults() - before < 8);
    tsr__del_once(&heap, block, SIZE);
    CHECK_I64(heap.used, 0);
    CHECK_I64(heap.live, 0);
  }
  size_t kept = SIZE / 2;
  CHECK(tsr__reserve_open(&reserve, &heap, SIZE * (size_t)4));
  /* Nothing that was written is replaced by a page. */
  for (size_t end = 1 << 20; end <= SIZE * (size_t)2; end += 1 << 20) {
    CHECK(tsr__reserve_take(&reserve, end));
    memset(reserve.at + end - (1 << 20), 9, 1 << 20);
  }
  CHECK_I64(heap.used, SIZE * (int64_t)2);
  for (size_t at = 0; at < SIZE * (size_t)2; at += 4096) CHECK_I64(reserve.at[at], 9);
  char *block = tsr__reserve_keep(&reserve, &kept);
  CHECK_I64(heap.used, SIZE / 2);
  tsr__del_once(&heap, block, kept);
  CHECK(tsr__heap_trim(&heap) == !TSR__WATCHED);
  CHECK(!tsr__heap_trim(&heap));
  /* With a limit nothing is kept that it does not count. */
  heap.limit = INT64_MAX;
  tsr__del_once(&heap, tsr__new_once(&heap, SIZE), SIZE);
  CHECK(!tsr__heap_trim(&heap));
  CHECK_I64(heap.live, 0);
}

TEST(reserved_addresses_count_against_the_limit)
{
  tsr__heap heap;
  tsr__reserve reserve;
  tsr__heap_init(&heap, NULL);
  heap.limit = 1 << 20;
  CHECK(tsr__reserve_open(&reserve, &heap, (size_t)1 << 30));
  CHECK(tsr__reserve_take(&reserve, 900000));
  CHECK(!tsr__reserve_take(&reserve, 1800000));
  CHECK_I64(heap.used, 900000);
  tsr__reserve_close(&reserve);
  tsr__reserve_close(&reserve);
  CHECK_I64(heap.used, 0);
  CHECK_I64(heap.live, 0);
}
