/* The arrays in trees, for whoever takes trees where arrays are expected. */
#ifndef TSR_GRAPH_LEAVES_H
#define TSR_GRAPH_LEAVES_H

#include "graph/graph.h"

static inline bool tsr__is_tree(const tsr_array *a)
{
  return a && !a->inert && a->op == TSR__OP_TREE;
}

/* Arrays, as they are taken out of trees. */
typedef struct tsr__leaves {
  tsr_array **at;
  int count, room;
} tsr__leaves;

/* How many arrays are in a tree, all the way down; of an array 1, of NULL 0. */
int tsr__leaf_count(const tsr_array *tree);
/* Writes the first `room` of them in order; returns how many there are. */
int tsr__leaves_write(tsr_array *tree, tsr_array **out, int room);
/* Adds the arrays of a tree in order; `out` grows in the arena. False: out of memory. */
bool tsr__leaves_of(tsr__arena *arena, tsr_array *tree, tsr__leaves *out);

#endif
