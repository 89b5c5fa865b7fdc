/* The calls that work along one dim of an array by a device routine. */
#include "array/array_room.h"

/* Dims count from the end where they are negative; what is no dim then, inference says. */
static tsr_array *along(tsr__op op, tsr__operands in, int dim, const char *site)
{
  const tsr_array *x = in.at[0];
  if (x && !x->inert && dim < 0) dim += x->shape.rank;
  return tsr__make(NULL, op, in, &(tsr__ask){ TSR__ATTR(tsr__dim_attr, .dim = dim) }, site);
}

tsr_array *tsr_cumsum_at(tsr_array *a, int dim, const char *site)
{
  return along(TSR__OP_CUMSUM, TSR__IN(a), dim, site);
}
