/* Inside kernel/: records put in order of their bits, of all parts side by side. */
#ifndef TSR_KERNEL_RADIX_H
#define TSR_KERNEL_RADIX_H

#include "kernel/rows/columns.h"

typedef struct tsr__radix {
  const tsr__parts *parts; /* rows: how many records each has */
  int size;                /* bytes of a record: 4 or 8 */
  const uint64_t *differ;  /* a part: the bits that count and in which records may differ */
  void **at, **spare; /* a part: the records, and as much room; aligned to 64 bytes. They change
                            * places with each digit */
} tsr__radix;

/* Stable in the bits that count. */
tsr_status tsr__radix_sort(tsr_runtime *rt, const tsr__radix *job, tsr__error *error);

#endif
