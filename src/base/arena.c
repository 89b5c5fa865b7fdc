/* Many small things that die together: a bump pointer over a chain of blocks.
 *
 *   first (borrowed, inside a scope)      blocks: newest -> ... -> oldest
 *   [used used used | at ..... end]       [header | used ..... ]
 *
 * Invariant: [at, end) is the free rest of the newest block, both of them aligned; blocks come
 * uncleared from the heap and only what is handed out is zeroed. */
#include "base/base.h"

/* What any type needs. Blocks double from SMALLEST to LARGEST; one of up to KEEP bytes is kept. */
#define ALIGN ((size_t)16)
#define SMALLEST ((size_t)4096)
#define LARGEST ((size_t)1 << 20)
#define KEEP ((size_t)1 << 16)

typedef struct tsr__arena_block {
  struct tsr__arena_block *next;
  size_t size; /* with this header */
} block;

void tsr__arena_init(tsr__arena *arena, tsr__heap *heap)
{
  *arena = (tsr__arena){ .heap = heap };
}

static void free_chain(tsr__arena *arena, block *chain)
{
  while (chain) {
    block *next = chain->next;
    tsr__del(arena->heap, chain, chain->size);
    chain = next;
  }
}

void tsr__arena_free(tsr__arena *arena)
{
  free_chain(arena, arena->blocks);
  free_chain(arena, arena->kept);
  *arena = (tsr__arena){ .heap = arena->heap };
}

/* All that was handed out is gone; `first` is not freed, as it is part of somebody else's block. */
void tsr__arena_reset(tsr__arena *arena, void *first, size_t length)
{
  block *kept = arena->kept;
  /* One block is kept, if it is not large, so that a scope that is used again and again asks for
   * no memory, and a single huge formula does not stay. */
  if (!kept && arena->blocks && arena->blocks->size <= KEEP) {
    kept = arena->blocks;
    arena->blocks = kept->next;
    kept->next = NULL;
  }
  free_chain(arena, arena->blocks);
  *arena = (tsr__arena){ .heap = arena->heap, .kept = kept };
  if (!first) return;
  /* The borrowed block may begin anywhere: both ends are put right here, once. */
  arena->at = (char *)first + (-(uintptr_t)first & (ALIGN - 1));
  arena->end = (char *)first + length;
  arena->end -= (uintptr_t)arena->end & (ALIGN - 1);
}

/* Takes a block with room for `size` bytes; a request too big for the usual block gets its own
 * and leaves the current one in use. A block that is kept but too small stays kept, for the next
 * scope. */
static block *add_block(tsr__arena *arena, size_t size)
{
  block *fresh = arena->kept;
  if (fresh && fresh->size - sizeof(block) >= size) {
    arena->kept = NULL;
  } else {
    /* Doubling up to a bound: few blocks for much, little waste for little. */
    size_t usual = arena->blocks ? arena->blocks->size * 2 : SMALLEST;
    if (usual > LARGEST) usual = LARGEST;
    if (usual - sizeof(block) < size) usual = size + sizeof(block);
    fresh = tsr__new_raw(arena->heap, usual);
    if (!fresh) return NULL;
    fresh->size = usual;
  }
  fresh->next = arena->blocks;
  arena->blocks = fresh;
  return fresh;
}

/* NULL too where the size alone would overflow what follows. */
static char *take_fresh(tsr__arena *arena, size_t size)
{
  size_t rounded = (size + ALIGN - 1) & ~(ALIGN - 1);
  if (rounded < size || rounded > PTRDIFF_MAX / 2) return NULL;
  block *fresh = add_block(arena, rounded);
  if (!fresh) return NULL;
  char *result = (char *)(fresh + 1), *end = (char *)fresh + fresh->size;
  /* Of the two free rests the larger one is gone on with. */
  if ((size_t)(end - result) - rounded >= (size_t)(arena->end - arena->at)) {
    arena->at = result + rounded;
    arena->end = end;
  }
  return result;
}

static inline char *take(tsr__arena *arena, size_t size)
{
  char *result = arena->at;
  if (size > (size_t)(arena->end - result) || !result) return take_fresh(arena, size);
  arena->at = result + ((size + ALIGN - 1) & ~(ALIGN - 1));
  return result;
}

void *tsr__arena_raw(tsr__arena *arena, size_t size)
{
  return take(arena, size);
}

void *tsr__arena_new(tsr__arena *arena, size_t size)
{
  char *result = take(arena, size);
  if (result) memset(result, 0, size);
  return result;
}

bool tsr__arena_grow(tsr__arena *arena, void **array, int *room, int count, size_t element)
{
  if (count < *room) return true;
  int wanted = 2 * *room + 8;
  void *grown = tsr__arena_raw(arena, (size_t)wanted * element);
  if (!grown) return false;
  if (count) memcpy(grown, *array, (size_t)count * element);
  *array = grown;
  *room = wanted;
  return true;
}

char *tsr__arena_text(tsr__arena *arena, const char *text, size_t length)
{
  char *copy = length < SIZE_MAX ? take(arena, length + 1) : NULL;
  if (!copy) return NULL;
  if (length) memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}
