/* The names of kinds.def, in a file of their own: tests define this function for kinds of theirs,
 * and a call from another file finds that one. */
#include "topology/topology.h"

static const char *const kind_names[] = {
#define KIND(name) #name,
#include "topology/kinds.def"
  NULL
};

const char *const *tsr__kind_names(void)
{
  return kind_names;
}
