/* From names to numbers.
 *
 * Invariant: a name is there once; numbers are what the caller gave. */
#include "base/base.h"
#include "frame/expr/expr.h"

struct tsr__named {
  const char *name;
  int number;
};

/* By the runtime's seed: names come from files, and could be chosen to meet in one place. */
static uint64_t hash_of(const tsr__names *names, const char *name)
{
  return tsr__hash(name, strlen(name), names->table.arena->heap->seed);
}

int tsr__names_find(const tsr__names *names, const char *name)
{
  int32_t at;
  TSR_FOR_HASHED (&names->table, hash_of(names, name), at)
    if (!strcmp(names->list[at].name, name)) return names->list[at].number;
  return -1;
}

/* The old list stays in the arena: all of them together are as large as the last. */
static bool widen(tsr__names *names)
{
  int room = names->room ? 2 * names->room : 32;
  struct tsr__named *list = tsr__arena_new(names->table.arena, (size_t)room * sizeof *list);
  if (!list) return false;
  if (names->count) memcpy(list, names->list, (size_t)names->count * sizeof *list);
  names->list = list;
  names->room = room;
  return true;
}

void tsr__names_add(tsr__names *names, const char *name, int number)
{
  if (names->count == names->room && !widen(names)) names->failed = true;
  if (names->failed) return;
  names->list[names->count] = (struct tsr__named){ name, number };
  if (tsr__table_add(&names->table, hash_of(names, name), names->count)) names->count++;
  else names->failed = true;
}
