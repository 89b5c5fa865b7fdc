/* Which pieces of a dim each process has, and the block that they make when they are put side by
 * side:
 *
 *    pieces      0  1  2  3         x=2,y=2 with processes along y, cut by x+y
 *    process     0  1  0  1         process 0: pieces 0 and 2, block 0 of 2 */
#ifndef TSR_TOPOLOGY_PORTIONS_H
#define TSR_TOPOLOGY_PORTIONS_H

#include "topology/topology.h"

typedef struct tsr__portions {
  const tsr_sharding *sharding; /* borrowed; on a mesh with devices */
  int dim, processes;
  int64_t parts;
  size_t words;   /* of a row of bits */
  uint64_t *bits; /* [process][word]: bit i = it has piece i */
  int *holder;    /* [piece]: a position that has it */
} tsr__portions;

/* False: out of memory. */
bool tsr__portions_open(const tsr_sharding *sharding, int dim, tsr__portions *out);
void tsr__portions_close(tsr__portions *portions);
bool tsr__portions_has(const tsr__portions *portions, int process, int64_t piece);
/* The first of the pieces of a process, -1 where it has none. */
int64_t tsr__portions_first(const tsr__portions *portions, int process);
/* Elements of a dim of `size` in the pieces of a process below `piece`; below `parts`: its block's
 * size. */
int64_t tsr__portions_before(const tsr__portions *portions, int64_t size, int process,
                             int64_t piece);
/* How many different blocks there are, 0 where some overlap; and the number of a process's among
 * them in the order of their starts, -1 of one without pieces. */
int tsr__portions_number(const tsr__portions *portions, int process, int *index);

/* Whether a process has as many different parts as its block has pieces, all dims together. */
bool tsr__has_all(const tsr_sharding *sharding, int process, int64_t pieces);

#endif
