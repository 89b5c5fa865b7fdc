/* The calls whose work is a device routine's: most of them go along one dim of an array. */
#include "array/array_room.h"

/* Dims count from the end where they are negative; what is no dim then, inference says. */
static tsr_array *along(tsr__op op, tsr__operands in, int dim, const char *site)
{
  const tsr_array *x = in.at[0];
  if (x && !x->inert && dim < 0) dim += x->shape.rank;
  return tsr__make(NULL, op, in, &(tsr__ask){ TSR__ATTR(tsr__dim_attr, .dim = dim) }, site);
}

#define ALONG(name, OP)                                               \
  tsr_array *tsr_##name##_at(tsr_array *a, int dim, const char *site) \
  {                                                                   \
    return along(TSR__OP_##OP, TSR__IN(a), dim, site);                \
  }
ALONG(cumsum, CUMSUM)
ALONG(cumprod, CUMPROD)
ALONG(cummax, CUMMAX)
ALONG(cummin, CUMMIN)
#undef ALONG

/* Values and places are two results of one node: asked for both, it sorts once. Bools sort as
 * numbers. */
static tsr_array *sorted(tsr__op op, tsr_array *a, tsr__top_attr attr, int result, const char *site)
{
  bool truth = a && !a->inert && a->dtype == TSR_BOOL;
  if (truth) a = tsr_cast_at(a, TSR_U8, site);
  if (a && !a->inert && attr.dim < 0) attr.dim += a->shape.rank;
  tsr__ask ask = { .attr = &attr, .attr_bytes = tsr__attrs[tsr__ops[op].attr].bytes };
  tsr_array *both = tsr__make(NULL, op, TSR__IN(a), &ask, site);
  tsr_array *out = tsr__make(NULL, TSR__OP_RESULT, TSR__IN(both),
                             &(tsr__ask){ TSR__ATTR(tsr__index_attr, .index = result) }, site);
  return truth && !result ? tsr_cast_at(out, TSR_BOOL, site) : out;
}

tsr_array *tsr_sort_at(tsr_array *a, int dim, const char *site)
{
  return sorted(TSR__OP_SORT, a, (tsr__top_attr){ .dim = dim }, 0, site);
}

tsr_array *tsr_argsort_at(tsr_array *a, int dim, const char *site)
{
  return sorted(TSR__OP_SORT, a, (tsr__top_attr){ .dim = dim }, 1, site);
}

tsr_array *tsr_top_k_at(tsr_array *a, int64_t count, int dim, const char *site)
{
  return sorted(TSR__OP_TOP_K, a, (tsr__top_attr){ .dim = dim, .count = count }, 0, site);
}

tsr_array *tsr_arg_top_k_at(tsr_array *a, int64_t count, int dim, const char *site)
{
  return sorted(TSR__OP_TOP_K, a, (tsr__top_attr){ .dim = dim, .count = count }, 1, site);
}
