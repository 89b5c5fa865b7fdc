/* What readers of rows share where several processes read a source together. All of it is within a
 * run of these processes. */
#ifndef TSR_IO_ROWS_TOGETHER_H
#define TSR_IO_ROWS_TOGETHER_H

#include "io/rows/reader.h"

/* One dictionary of a column for all, of the locals of this process and those of others, by where
 * texts were found first; fills the locals' codes. NULL with the error set. */
tsr__dict *tsr__dict_together(tsr__peers *peers, tsr__heap *heap, tsr__dict_local **locals,
                              int count, tsr__error *error);
/* The targets' numbers of nulls over all processes. */
tsr_status tsr__nulls_together(tsr__peers *peers, tsr__heap *heap, tsr__read_ask *read,
                               tsr__error *error);

#endif
