/* The general hash table: growth and clearing. What it keeps to stands in its header. */
#include "base/hash_table.h"

#include "base/base.h"

/* Where an entry goes: the first slot of its search that is free. */
static void put(tsr__table *table, tsr__entry entry)
{
  size_t step = 0, at;
  /* A table is half empty at least (tsr__table_add), so the search ends. */
  do at = tsr__table_place(table, entry.hash, step++);
  while (table->slot[at].stamp == table->stamp);
  table->slot[at] = entry;
}

static bool grow(tsr__table *table)
{
  tsr__table wider = *table;
  wider.room = table->room ? 2 * table->room : 64;
  wider.stamp = 1; /* fresh slots are zero */
  size_t size = wider.room * sizeof *wider.slot;
  wider.slot = table->arena ? tsr__arena_new(table->arena, size) : tsr__new(table->heap, size);
  /* The old table is whole still, and full as it is. */
  if (!wider.slot) return false;
  for (size_t i = 0; i < table->room; i++) {
    tsr__entry entry = table->slot[i];
    /* Entries of before a clearing are there but do not count. */
    if (entry.stamp != table->stamp) continue;
    entry.stamp = wider.stamp;
    put(&wider, entry);
  }
  if (!table->arena) tsr__del(table->heap, table->slot, table->room * sizeof *table->slot);
  *table = wider;
  return true;
}

bool tsr__table_add(tsr__table *table, uint64_t hash, int32_t number)
{
  if (2 * ((size_t)table->count + 1) > table->room && !grow(table)) return false;
  put(table, (tsr__entry){ hash, table->stamp, number });
  table->count++;
  return true;
}

void tsr__table_clear(tsr__table *table)
{
  table->count = 0;
  /* Clearing is one step: slots of older stamps are free. */
  if (!table->room || ++table->stamp) return;
  /* After 2^32 clearings stamps begin anew: none of the old ones may be left. */
  memset(table->slot, 0, table->room * sizeof *table->slot);
  table->stamp = 1;
}

/* Only of one whose slots are the heap's: an arena's go with the arena. */
void tsr__table_free(tsr__table *table)
{
  tsr__del(table->heap, table->slot, table->room * sizeof *table->slot);
  *table = (tsr__table){ .heap = table->heap };
}
