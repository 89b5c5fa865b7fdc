/* A tree by hashes, of what is kept until the runtime closes: each branch takes two bits of the
 * hash.
 *
 *   hash 01 11 ..      top --01--> branch --11--> branch --> .. a free place: *at is NULL
 *
 * Unlike a table it has no memory beside what it holds. So whoever keeps something under a lock
 * makes it before, without the lock: memory is the user's allocator's, which may wait for a thread
 * that waits for the lock.
 *
 *   for (at = &tree->top, path = hash; *at; at = tsr__branch_below(*at, &path))
 *     if ((*at)->hash == hash && it is equal) return *at;
 *   tsr__branch_put(tree, at, new); */
#ifndef TSR_BASE_HASH_TREE_H
#define TSR_BASE_HASH_TREE_H

#include <stdint.h>

/* First in what is kept; zero but for its hash, which is well mixed. */
typedef struct tsr__branch {
  struct tsr__branch *below[4], *older;
  uint64_t hash;
} tsr__branch;

typedef struct tsr__hash_tree {
  tsr__branch *top, *newest;
} tsr__hash_tree;

/* Where a search goes on. Past all bits of a hash, among equal ones, it is a list. */
static inline tsr__branch **tsr__branch_below(tsr__branch *branch, uint64_t *path)
{
  tsr__branch **below = &branch->below[*path >> 62];
  *path <<= 2;
  return below;
}

/* At the free place where a search ended. */
static inline void tsr__branch_put(tsr__hash_tree *tree, tsr__branch **at, tsr__branch *fresh)
{
  fresh->older = tree->newest;
  *at = tree->newest = fresh;
}

#endif
