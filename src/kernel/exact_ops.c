/* Finds the exact reducers of an instruction set by name. */
#include "kernel/exact_tile.h"

#include <string.h>

const tsr__exact_ops *tsr__exact_ops_of(const char *isa)
{
  static const tsr__exact_ops *const tables[] = {
    &tsr__exact_ops_baseline,
#if defined(__x86_64__)
    &tsr__exact_ops_avx2,
    &tsr__exact_ops_avx512,
#endif
  };
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
    if (!strcmp(tables[i]->isa, isa)) return tables[i];
  return NULL;
}
