/* The ragged all-to-all: rows of columns from every device to every other, in counts known only
 * when it happens. The one way in which relational operators move rows between devices.
 *
 *   device 0   |to 0 |to 1   |      rows of each sender keep their order
 *   device 1   |to 0  |to 1 |
 *                v
 *   device 0   |of 0 |of 1  |       what arrives lies in order of the senders: global order stays
 */
#ifndef TSR_EXECUTE_EXCHANGE_H
#define TSR_EXECUTE_EXCHANGE_H

#include "execute/execute.h"
#include "kernel/rows/columns.h"

/* What an exchange moved between different devices: counted by the copy routine. */
typedef struct tsr__moved {
  int64_t rows, bytes;
} tsr__moved;

typedef struct tsr__exchange {
  tsr_runtime *rt;
  const tsr__parts *from; /* senders and receivers are the same devices */
  /* Over several processes (`apart`) parts of others have no rows here: they are read where they
   * lie, while all processes are in the same exchange. */
  bool apart;
  int64_t *counts; /* counts[from * parts + to]; apart: those of other processes are filled in */
  /* Where each row goes, u16 a part. Or, by destination, rows of the senders in any order, of which
   * `from` counts how many are sent. Neither: rows already lie by destination. */
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
