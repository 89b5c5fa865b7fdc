/* The ragged all-to-all: rows of columns from every device to every other, in counts known only at
 * run time. Relational operators move rows between devices only by it.
 *
 *   device 0   |to 0 |to 1   |      rows of each sender keep their order
 *   device 1   |to 0  |to 1 |
 *                v
 *   device 0   |of 0 |of 1  |       rows arrive in order of the senders: global order stays
 */
#ifndef TSR_EXECUTE_EXCHANGE_H
#define TSR_EXECUTE_EXCHANGE_H

#include "execute/execute.h"
#include "kernel/rows/columns.h"

/* The traffic of an exchange between different devices, as the copy routine counts it. */
typedef struct tsr__moved {
  int64_t rows, bytes;
} tsr__moved;

typedef struct tsr__exchange {
  tsr_runtime *rt;
  const tsr__parts *from; /* senders and receivers are the same devices */
  /* Over several processes (`apart`) other processes' parts have no rows here: rows are read in
   * place, while all processes are in the same exchange. */
  bool apart;
  int64_t *counts; /* counts[from * parts + to]; apart: those of other processes are filled in */
  /* The destination of each row, u16 a part. Or, by destination, rows of the senders in any
   * order, of which `from` counts how many are sent. If both are NULL, rows already lie by
   * destination. */
  tsr__buffer *const *dest;
  const tsr__index *order;
  int column_count;
  const tsr__colparts *columns;
  /* out: [column * parts + to], fresh buffers of the receivers; valid NULL where no part has
   * nulls */
  tsr__buffer **values, **valid;
  int64_t *rows;     /* out: [to]; apart: 0 for those of other processes */
  tsr__moved *moved; /* added to */
} tsr__exchange;

tsr_status tsr__exchange_rows(const tsr__exchange *ask, tsr__error *error);

#endif
