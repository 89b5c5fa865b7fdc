/* Slices and updates at places that are numbers of arrays: their sizes are known, their starts only
 * when they run. */
#include "array/array_room.h"
#include "tessera/shape.h"

tsr_array *tsr_dynamic_slice_at(tsr_array *a, tsr_array *starts, tsr_shape sizes, const char *site)
{
  tsr__slice_attr attr = { .start = { 0 } };
  tsr__ask ask = { .attr = &attr, .attr_bytes = sizeof attr };
  tsr__error error = { .status = TSR_OK };
  if (a && !a->inert && sizes.rank != a->shape.rank) {
    tsr__error_set(&error, TSR_EARG, "tsr_dynamic_slice: %d sizes for %s; give one size per dim",
                   sizes.rank, tsr_type_of(a));
    return tsr__refused(a, &error, site);
  }
  for (int d = 0; a && !a->inert && d < sizes.rank; d++) {
    /* A dim that is taken whole needs no start, and may stay as it is cut. */
    if (sizes.dims[d] == a->shape.dims[d]) continue;
    attr.step[d] = 1;
    attr.size[d] = sizes.dims[d];
  }
  return tsr__make(NULL, TSR__OP_DYNAMIC_SLICE, TSR__IN(a, starts), &ask, site);
}

tsr_array *tsr_dynamic_update_slice_at(tsr_array *a, tsr_array *update, tsr_array *starts,
                                       const char *site)
{
  if (tsr__usable(a) && !update) { /* the row counts it last */
    tsr__error error = { .status = TSR_OK };
    tsr__error_set(&error, TSR_EARG, "tsr_dynamic_update_slice: the update is NULL; give an array");
    return tsr__refused(a, &error, site);
  }
  return tsr__make(NULL, TSR__OP_DYNAMIC_UPDATE, TSR__IN(a, starts, update),
                   &(tsr__ask){ .dtype = 0 }, site);
}
