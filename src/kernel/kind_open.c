/* The functions that open the devices of each kind, in a file of their own as their names are
 * (topology/kinds.c). */
#include "kernel/fallback/fallback.h"

static const struct {
  const char *name;
  tsr_status (*open)(tsr_runtime *rt, int first, int count);
} kinds[] = {
#define KIND(name) { #name, tsr__open_##name },
#include "topology/kinds.def"
};

tsr_status tsr__kind_open(tsr_runtime *rt, const char *kind, int first, int count)
{
  size_t k = 0;
  while (strcmp(kinds[k].name, kind) != 0) k++; /* the topology has kinds of kinds.def alone */
  return kinds[k].open(rt, first, count);
}
