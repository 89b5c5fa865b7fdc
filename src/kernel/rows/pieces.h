/* The rows of all parts cut into pieces, a task each, so that one large part keeps
 * all workers busy as eight small ones do.
 *
 *   part 0  |piece 0 |piece 1 |2 |      a piece lies within its part and starts at a multiple of
 *   part 1  |piece 3 |4|                the size; of whole words, so that bits are nobody else's
 */
#ifndef TSR_KERNEL_PIECES_H
#define TSR_KERNEL_PIECES_H

#include "kernel/rows/columns.h"

enum { TSR__PIECE_ROWS = 65536 };

typedef struct tsr__piece {
  int part;
  int64_t start, count;
} tsr__piece;

static inline int64_t tsr__piece_count(const tsr__parts *parts, int64_t size)
{
  int64_t count = 0;
  for (int p = 0; p < parts->count; p++) count += (parts->rows[p] + size - 1) / size;
  return count;
}

static inline tsr__piece tsr__piece_of(const tsr__parts *parts, int64_t size, int64_t task)
{
  int p = 0;
  for (int64_t here; task >= (here = (parts->rows[p] + size - 1) / size); p++) task -= here;
  int64_t start = task * size, rest = parts->rows[p] - start;
  return (tsr__piece){ p, start, rest < size ? rest : size };
}

#endif
