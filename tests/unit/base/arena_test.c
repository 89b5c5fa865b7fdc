/* Arenas: what is handed out is aligned, zeroed and its own; nothing stays behind. */
#include "harness.h"

#include <string.h>

#include "base/base.h"

TEST(pieces_are_aligned_zeroed_and_disjoint)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__arena arena;
  tsr__arena_init(&arena, &heap);
  test_rng rng = test_seeded(1);
  enum { COUNT = 3000 };
  static unsigned char *piece[COUNT];
  static size_t size[COUNT];
  for (int i = 0; i < COUNT; i++) {
    size[i] = (size_t)test_range(&rng, 0, i % 100 ? 300 : 200000);
    piece[i] = tsr__arena_new(&arena, size[i]);
    CHECK(piece[i]);
    CHECK_U64((uintptr_t)piece[i] % 16, 0);
    for (size_t k = 0; k < size[i]; k++) CHECK(!piece[i][k]);
    memset(piece[i], i & 0xFF, size[i]);
  }
  for (int i = 0; i < COUNT; i++)
    for (size_t k = 0; k < size[i]; k++) CHECK_I64(piece[i][k], i & 0xFF);
  tsr__arena_free(&arena);
  CHECK_I64(heap.live, 0);
}

TEST(a_first_block_is_used_before_the_heap)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__arena arena;
  tsr__arena_init(&arena, &heap);
  char first[256];
  memset(first, 0xAA, sizeof first);
  tsr__arena_reset(&arena, first + 1, sizeof first - 1);
  char *a = tsr__arena_new(&arena, 100);
  CHECK(a > first && a + 100 <= first + sizeof first);
  CHECK_U64((uintptr_t)a % 16, 0);
  CHECK(!a[0] && !a[99]);
  CHECK_I64(heap.live, 0);
  char *b = tsr__arena_new(&arena, 200);
  CHECK(b && (b < first || b >= first + sizeof first));
  CHECK_I64(heap.live, 1);
  tsr__arena_reset(&arena, first, sizeof first); /* keeps the one block for the next round */
  CHECK_I64(heap.live, 1);
  CHECK(tsr__arena_new(&arena, 200) == first || (uintptr_t)first % 16);
  CHECK(tsr__arena_new(&arena, 200) == b);
  CHECK_I64(heap.live, 1);
  tsr__arena_free(&arena);
  CHECK_I64(heap.live, 0);
}

TEST(a_big_piece_leaves_the_current_block_in_use)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__arena arena;
  tsr__arena_init(&arena, &heap);
  char *a = tsr__arena_new(&arena, 16);
  CHECK(tsr__arena_new(&arena, 1 << 20));
  char *b = tsr__arena_new(&arena, 16);
  CHECK(b == a + 16);
  CHECK_I64(heap.live, 2);
  tsr__arena_reset(&arena, NULL, 0); /* the newest block is too big to be worth keeping */
  CHECK_I64(heap.live, 0);
  CHECK(tsr__arena_new(&arena, 16));
  tsr__arena_free(&arena);
  CHECK_I64(heap.live, 0);
}

TEST(texts_are_copied_with_their_nul)
{
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__arena arena;
  tsr__arena_init(&arena, &heap);
  char *a = tsr__arena_text(&arena, "hello world", 5), *b = tsr__arena_text(&arena, NULL, 0);
  CHECK_STR(a, "hello");
  CHECK_STR(b, "");
  tsr__arena_free(&arena);
}

TEST(refusals_return_null_and_leave_the_arena_usable)
{
  struct test_alloc state = { .fail_at = 2 };
  tsr_allocator user = test_allocator(&state);
  tsr__heap heap;
  tsr__heap_init(&heap, &user);
  tsr__arena arena;
  tsr__arena_init(&arena, &heap);
  CHECK(tsr__arena_new(&arena, 16));
  CHECK(!tsr__arena_new(&arena, 5000));
  CHECK(!tsr__arena_new(&arena, SIZE_MAX));
  CHECK(!tsr__arena_new(&arena, SIZE_MAX - 15));
  CHECK(!tsr__arena_text(&arena, "", SIZE_MAX));
  CHECK(tsr__arena_new(&arena, 16));
  CHECK(tsr__arena_new(&arena, 5000));
  tsr__arena_free(&arena);
  CHECK_I64(state.live, 0);
}
