/* The general hash table, against a plain list: what is found, growth, crowds, clearing,
 * refusals. */
#include "base/hash_table.h"

#include <stdlib.h>

#include "base/base.h"
#include "harness.h"

enum { MOST = 20000 };

/* Every number of the list from `from` on is found under its hash, and none of another one. */
static void check_all(const tsr__table *table, const uint64_t *hashes, int from, int count)
{
  CHECK_I64(table->count, count - from);
  for (int i = from; i < count; i++) {
    bool found = false;
    int32_t n;
    TSR_FOR_HASHED (table, hashes[i], n) {
      CHECK(n >= from && n < count);
      CHECK_U64(hashes[n], hashes[i]);
      found |= n == i;
    }
    CHECK(found);
  }
}

/* Hashes as an owner may give them: mixed, crowding in few places of the low half, equal. */
static uint64_t hash_at(test_rng *rng, int kind, int i)
{
  uint64_t mixed = test_random(rng);
  switch (kind) {
  case 0: return mixed;
  case 1: return (mixed >> 32 << 32) | (uint32_t)(2 * i); /* one after the other */
  case 2: return (mixed >> 32 << 32) | 7;                 /* all in one place */
  default: return tsr__hash(&(uint64_t){ mixed % 500 }, 8, 0);
  }
}

TEST(what_was_added_is_found)
{
  static uint64_t hashes[MOST];
  int counts[] = { 0, 1, 31, 32, 33, 1000, MOST };
  for (int kind = 0; kind < 4; kind++)
    for (int c = 0; c < 7; c++) {
      test_rng rng = test_seeded((uint64_t)(kind * 7 + c));
      tsr__heap heap;
      tsr__heap_init(&heap, NULL);
      tsr__table table = { .heap = &heap };
      for (int i = 0; i < counts[c]; i++) {
        hashes[i] = hash_at(&rng, kind, i);
        CHECK(tsr__table_add(&table, hashes[i], i));
      }
      check_all(&table, hashes, 0, counts[c]);
      for (int i = 0; i < 100; i++) {
        int32_t n;
        TSR_FOR_HASHED (&table, test_random(&rng), n) CHECK(kind == 3);
      }
      tsr__table_free(&table);
      CHECK_I64(atomic_load(&heap.live), 0);
    }
}

TEST(clearing_leaves_nothing_behind)
{
  static uint64_t hashes[MOST];
  test_rng rng = test_seeded(5);
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__table table = { .heap = &heap };
  tsr__table_clear(&table);
  for (int round = 0; round < 40; round++) {
    /* The last rounds come to where stamps begin anew. */
    if (round == 30) table.stamp = UINT32_MAX - 5;
    if (round == 30) memset(table.slot, 0, table.room * sizeof *table.slot);
    int from = round % 3, count = from + (int)test_range(&rng, 0, 500);
    for (int i = from; i < count; i++) {
      hashes[i] = hash_at(&rng, round % 4, i);
      CHECK(tsr__table_add(&table, hashes[i], i));
    }
    check_all(&table, hashes, from, count);
    tsr__table_clear(&table);
    int32_t n;
    for (int i = from; i < count; i++)
      TSR_FOR_HASHED (&table, hashes[i], n) CHECK(false);
  }
  tsr__table_free(&table);
  CHECK_I64(atomic_load(&heap.live), 0);
}

TEST(a_refusal_changes_nothing)
{
  static uint64_t hashes[200];
  for (int at = 1; at < 5; at++) {
    struct test_alloc state = { .fail_at = at };
    tsr_allocator failing = test_allocator(&state);
    tsr__heap heap;
    tsr__heap_init(&heap, &failing);
    tsr__table table = { .heap = &heap };
    int count = 0, refused = 0;
    for (int i = 0; i < 200; i++) {
      hashes[count] = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
      if (tsr__table_add(&table, hashes[count], count)) count++;
      else refused++;
    }
    CHECK_I64(refused, 1); /* the table grows to 64, 128, 256, 512 slots; the next try fits */
    check_all(&table, hashes, 0, count);
    tsr__table_free(&table);
  }
}

TEST(an_arena_may_hold_it)
{
  static uint64_t hashes[3000];
  test_rng rng = test_seeded(9);
  tsr__heap heap;
  tsr__heap_init(&heap, NULL);
  tsr__arena arena;
  tsr__arena_init(&arena, &heap);
  tsr__table table = { .arena = &arena };
  for (int i = 0; i < 3000; i++) {
    hashes[i] = test_random(&rng);
    CHECK(tsr__table_add(&table, hashes[i], i));
  }
  check_all(&table, hashes, 0, 3000);
  tsr__arena_free(&arena);
  CHECK_I64(atomic_load(&heap.live), 0);
}
