/* Arrays in other shapes and orders, and made of several: what NumPy has around its views. All are
 * views of array.h (slice, transpose, flip, pad, concat ...) or made of them: they cost nothing
 * until something reads them, and that reads them in place. */
#ifndef TESSERA_SHAPE_H
#define TESSERA_SHAPE_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- other shapes ---------------------------------------------------------------------------- */

/* The elements of `a`, in C order, in another shape of as many; one dim may be -1: what the others
 * leave. Dims that are split or merged stay cut where the major one of each is; where another one
 * is, or borders do not meet (an uneven size), elements move, as tsr_explain says. Errors:
 * TSR_ESHAPE, TSR_EUNSUPPORTED for rows whose number is known only at run time. Returns an array
 * owned as results are. Local. */
TSR_API tsr_array *tsr_reshape_at(tsr_array *a, tsr_shape shape, const char *site);
/* The elements of `a` along one dim, as by tsr_reshape. Local. */
TSR_API tsr_array *tsr_ravel_at(tsr_array *a, const char *site);
/* `a` with dims of size 1, which are `dims` of the result: TSR_DIMS(0, -1). Error: TSR_EARG for a
 * dim that the result has not or too many of them. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_expand_dims_at(tsr_array *a, tsr_dims dims, const char *site);
/* `a` without `dims`, which must have size 1; none named: without all that have. Errors: TSR_EARG,
 * TSR_ESHAPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_squeeze_at(tsr_array *a, tsr_dims dims, const char *site);

/* ---- other orders ---------------------------------------------------------------------------- */

/* The elements shifted by `shifts[i]` along `dims[i]`, for each of `count`; what leaves the end
 * comes in at the start. A dim may be named several times; negative ones count from the end.
 * Error: TSR_EARG. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_roll_at(tsr_array *a, const int64_t *shifts, const int *dims, int count,
                               const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define tsr_reshape(a, shape) tsr_reshape_at((a), (shape), TSR_HERE)
#define tsr_ravel(a) tsr_ravel_at((a), TSR_HERE)
#define tsr_expand_dims(a, dims) tsr_expand_dims_at((a), (dims), TSR_HERE)
#define tsr_squeeze(a, dims) tsr_squeeze_at((a), (dims), TSR_HERE)
/* Along one dim: tsr_roll(a, 1, 0). */
#define tsr_roll(a, shift, dim) \
  tsr_roll_at((a), (const int64_t[]){ (shift) }, (const int[]){ (dim) }, 1, TSR_HERE)
#endif

#endif
