/* The hash table of the library, but for those of kernels: it finds numbers by a hash. What a
 * number stands for lies in a list of the owner, which also says whether two are equal:
 *
 *   owner:  list[0] "EWR"  list[1] "JFK" ...      table:  .. | .. | hash, 1 | .. | hash, 0 | ..
 *
 *   int32_t n;
 *   TSR_FOR_HASHED (&table, hash, n) if (!strcmp(list[n], text)) return n;
 *   if (!tsr__table_add(&table, hash, count)) out of memory
 *
 * Two places of a hash are looked at: NEAR slots from its low half on, then slot after slot
 * from its high half on. So an owner may choose the low half, for entries that are asked for
 * together to lie together; as long as the high half is well mixed, crowds there do no harm.
 *
 * Invariants: at most half of the slots are taken, so that every search meets a free one;
 * nothing is taken out but all at once, so that no search has to step over what was. */
#ifndef TSR_BASE_HASH_TABLE_H
#define TSR_BASE_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tsr__heap;
struct tsr__arena;

typedef struct tsr__entry {
  uint64_t hash;
  uint32_t stamp; /* the table's, or the slot is free */
  int32_t number;
} tsr__entry;

/* Zero but for where its memory comes from: one of the two. */
typedef struct tsr__table {
  struct tsr__heap *heap; /* tsr__table_free gives it back */
  struct tsr__arena
      *arena; /* keeps all of it: what was outgrown is together as large as the last */
  tsr__entry *slot;
  size_t room; /* 0 or a power of two */
  int32_t count;
  uint32_t stamp; /* another after each clearing, so that it touches no slot; 0: no slots yet */
} tsr__table;

/* Adds a number; equal ones of equal hash stay both. False: out of memory, nothing was added. */
bool tsr__table_add(tsr__table *table, uint64_t hash, int32_t number);
/* Takes all out, in no time; the slots stay. */
void tsr__table_clear(tsr__table *table);
void tsr__table_free(tsr__table *table);

/* The slot to be looked at after `step` others. */
static inline size_t tsr__table_place(const tsr__table *table, uint64_t hash, size_t step)
{
  enum { NEAR = 4 };
  return (step < NEAR ? (size_t)(uint32_t)hash + step : (size_t)(hash >> 32) + step) &
         (table->room - 1);
}

/* The next number that was added with a hash, -1 for no more; `step` begins at 0. */
static inline int32_t tsr__table_next(const tsr__table *table, uint64_t hash, size_t *step)
{
  while (table->room) {
    const tsr__entry *entry = &table->slot[tsr__table_place(table, hash, (*step)++)];
    if (entry->stamp != table->stamp) break;
    if (entry->hash == hash) return entry->number;
  }
  return -1;
}

/* All numbers that were added with a hash, in turn, in a variable of the caller's; one that
 * lies where both places meet comes twice. */
#define TSR_FOR_HASHED(table, hash, number) \
  for (size_t step_ = 0; ((number) = tsr__table_next((table), (hash), &step_)) >= 0;)

#endif
