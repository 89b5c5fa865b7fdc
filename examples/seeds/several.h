/* For the blocks that run as several processes: `tessera run -n 2` starts them. */
#ifndef EXAMPLES_SEVERAL_H
#define EXAMPLES_SEVERAL_H

#include "check.h"

/* Compares what each process says of itself with an output of one number a process, on all. */
static inline void several_each(check *c, const char *name, tsr_scope *s, int mine)
{
  const int32_t number = mine;
  tsr_array *own = tsr_put(s, &number, TSR_I32, TSR_SCALAR, (tsr_sharding){ .mesh = NULL });
  check_array(c, name, tsr_process_gather(own));
  if (tsr_scope_status(s)) check_fail(c, "%s", tsr_message(s));
}

/* The part of a process of f32[8,8] = 0, 1, 2 ...: so many rows, from its own on. */
static inline int several_rows(tsr_runtime *rt, float data[64])
{
  int rows = 8 / tsr_process_count(rt), first = rows * tsr_process_index(rt);
  for (int i = 0; i < rows * 8; i++) data[i] = (float)(first * 8 + i);
  return rows;
}

#endif
