/* A table from names to numbers: open addressing, at most half full.
 *
 * Invariant: a name is there once; numbers are what the caller gave. */
#include "base/base.h"
#include "frame/expr/expr.h"

struct tsr__name_slot {
  const char *name; /* NULL: empty */
  int number;
};

static struct tsr__name_slot *slot_of(const tsr__names *names, const char *name)
{
  uint64_t hash = tsr__hash(name, strlen(name), names->arena->heap->seed);
  size_t mask = (size_t)names->room - 1, at = hash & mask;
  while (names->slot[at].name && strcmp(names->slot[at].name, name) != 0) at = (at + 1) & mask;
  return &names->slot[at];
}

int tsr__names_find(const tsr__names *names, const char *name)
{
  if (!names->room) return -1;
  const struct tsr__name_slot *slot = slot_of(names, name);
  return slot->name ? slot->number : -1;
}

/* The old table stays in the arena: all of them together are as large as the last. */
static void widen(tsr__names *names)
{
  tsr__names wider = { .arena = names->arena, .room = names->room ? 2 * names->room : 64 };
  wider.slot = tsr__arena_new(wider.arena, (size_t)wider.room * sizeof *wider.slot);
  if (!wider.slot) {
    names->failed = true;
    return;
  }
  for (int i = 0; i < names->room; i++)
    if (names->slot[i].name) *slot_of(&wider, names->slot[i].name) = names->slot[i];
  names->slot = wider.slot;
  names->room = wider.room;
}

void tsr__names_add(tsr__names *names, const char *name, int number)
{
  if (!names->failed && 2 * names->count >= names->room) widen(names);
  if (names->failed) return;
  *slot_of(names, name) = (struct tsr__name_slot){ name, number };
  names->count++;
}
