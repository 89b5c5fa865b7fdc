/* What calls do with their operands before any node is made of them. */
#include "array/array_room.h"

tsr_array *tsr__as_float(tsr_array *a, const char *site)
{
  /* Integers and bools are computed with as f64. */
  return tsr__of_floats(a) ? a : tsr_cast_at(a, TSR_F64, site);
}

/* The error goes to where a result would belong, so that whoever reads the result finds it
 * there. */
tsr_array *tsr__refused_of(tsr__operands in, const tsr__error *error, const char *site)
{
  tsr_scope *scope = tsr__home_of(in);
  tsr__fail_error(scope, site, error);
  return tsr__make_inert(scope, site);
}

tsr_array *tsr__refused(tsr_array *a, const tsr__error *error, const char *site)
{
  return tsr__refused_of(TSR__IN(a), error, site);
}

/* A negative dim counts from the end; `dim` is written where it is found alone. */
tsr_status tsr__find_dim(tsr_array *a, int *dim, const char *what, tsr__error *error)
{
  int rank = a->shape.rank, d = *dim < 0 ? *dim + rank : *dim;
  if (d < 0 || d >= rank)
    return tsr__no_dim(error, what + strlen("tsr_"), *dim, tsr_type_of(a), rank);
  *dim = d;
  return TSR_OK;
}
