/* Arrays in other shapes: the calls that come down to RESHAPE. Elements stay in C order, so each
 * only finds the dims; whether the number of elements is the same inference sees.
 *
 * expand_dims and squeeze, split_dim and join_dims are each other's way back:
 *
 *    3 4, new dims 0 and 2     1 3 1 4
 *    12 by 3                   3 4
 *    5 at least three dims     1 5 1 */
#include "array/array_room.h"
#include "tessera/shape.h"

static tsr_array *reshape(tsr_array *a, tsr_shape shape, const char *site)
{
  return tsr__make(NULL, TSR__OP_RESHAPE, TSR__IN(a), &(tsr__ask){ .shape = shape }, site);
}

/* The size of the dim that is -1; TSR_ESHAPE where there is none. */
static tsr_status fill_in(const tsr_array *a, tsr_shape *shape, tsr__error *error)
{
  int64_t count = tsr__shape_count(&a->shape), known = 1;
  int open = -1, rank = shape->rank;
  if (rank < 0 || rank > TSR_MAX_RANK || count < 0) return TSR_OK; /* inference says */
  /* -1 is the open dim; anything else below 0 is told by inference, in its own words. */
  for (int d = 0; d < rank; d++) {
    if (shape->dims[d] != -1) {
      if (shape->dims[d] < 0 || __builtin_mul_overflow(known, shape->dims[d], &known))
        return TSR_OK;
    } else if (open < 0) {
      open = d;
    } else {
      return tsr__error_set(error, TSR_ESHAPE,
                            "tsr_reshape: dims %d and %d are both -1; leave only one dim open",
                            open, d);
    }
  }
  if (open < 0) return TSR_OK;
  /* An empty array, or sizes that do not divide: no size of the open dim is the one. */
  if (!known || count % known)
    return tsr__error_set(
        error, TSR_ESHAPE,
        "tsr_reshape: the %lld elements of %s are no multiple of %lld, the product of the other "
        "dims; give sizes that divide the number of elements",
        (long long)count, tsr_type_of((tsr_array *)a), (long long)known);
  shape->dims[open] = count / known;
  return TSR_OK;
}

tsr_array *tsr_reshape_at(tsr_array *a, tsr_shape shape, const char *site)
{
  tsr__error error = { .status = TSR_OK };
  if (a && !a->inert && fill_in(a, &shape, &error)) return tsr__refused(a, &error, site);
  return reshape(a, shape, site);
}

/* The new dim of `parts` stands in front of what is left of the old one. */
tsr_array *tsr__split_dim(tsr_array *a, int dim, int64_t parts, const char *site)
{
  if (a->inert) return a;
  tsr_shape shape = a->shape;
  shape.rank++; /* one too many is refused: there is no room for its size */
  /* From behind, as the list is moved within itself. */
  for (int d = shape.rank - 1 < TSR_MAX_RANK ? shape.rank - 1 : TSR_MAX_RANK - 1; d > dim; d--)
    shape.dims[d] = a->shape.dims[d - 1];
  shape.dims[dim] = parts;
  if (dim + 1 < TSR_MAX_RANK) shape.dims[dim + 1] = a->shape.dims[dim] / parts;
  return tsr_reshape_at(a, shape, site);
}

tsr_array *tsr__join_dims(tsr_array *a, int dim, const char *site)
{
  if (a->inert) return a;
  tsr_shape shape = a->shape;
  /* Two neighbours in C order: their product counts both. */
  shape.dims[dim] *= shape.dims[dim + 1];
  for (int d = dim + 1; d + 1 < shape.rank; d++) shape.dims[d] = shape.dims[d + 1];
  /* Sizes behind the rank stay 0. */
  shape.dims[--shape.rank] = 0;
  return tsr_reshape_at(a, shape, site);
}

tsr_array *tsr_ravel_at(tsr_array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "ravel");
  tsr_shape shape = { .rank = 1 };
  if (a && !a->inert) shape.dims[0] = tsr__shape_count(&a->shape);
  return reshape(a, shape, site);
}

tsr_array *tsr_expand_dims_at(tsr_array *a, tsr_dims dims, const char *site)
{
  TSR__CALL(tsr__home(a), "expand_dims");
  tsr_shape shape = { .rank = 0 };
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return reshape(a, shape, site);
  if (dims.twice && tsr__dims_once("tsr_expand_dims", dims, a, &error))
    return tsr__refused(a, &error, site);
  /* The rank of the result is known before the dims are, which count in it. */
  int more = __builtin_popcount(dims.bits) + __builtin_popcount(dims.negative);
  int rank = a->shape.rank + more;
  uint32_t bits = tsr__dims_bits(dims, rank);
  if (rank > TSR_MAX_RANK || bits >> rank || tsr__dims_twice(dims, rank)) {
    tsr__error_set(&error, TSR_EARG,
                   "tsr_expand_dims: %d more dims for %s; name each once, at most %d dims in all, "
                   "from -%d to %d",
                   more, tsr_type_of(a), TSR_MAX_RANK, rank, rank - 1);
    return tsr__refused(a, &error, site);
  }
  shape.rank = rank;
  for (int d = 0, from = 0; d < rank; d++)
    shape.dims[d] = bits >> d & 1 ? 1 : a->shape.dims[from++];
  return reshape(a, shape, site);
}

tsr_array *tsr_squeeze_at(tsr_array *a, tsr_dims dims, const char *site)
{
  TSR__CALL(tsr__home(a), "squeeze");
  tsr_shape shape = { .rank = 0 };
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return reshape(a, shape, site);
  int rank = a->shape.rank;
  uint32_t bits = tsr__dims_bits(dims, rank), all = 0;
  for (int d = 0; d < rank; d++) all |= (uint32_t)(a->shape.dims[d] == 1) << d;
  if (tsr__dims_once("tsr_squeeze", dims, a, &error)) return tsr__refused(a, &error, site);
  /* Without names all dims of size 1 go. */
  if (!bits && !dims.none) bits = all;
  if (bits & ~all) {
    bool there = !(bits >> rank);
    tsr__error_set(&error, there ? TSR_ESHAPE : TSR_EARG,
                   there ? "tsr_squeeze: dim %d of %s is larger than 1; take one element of that "
                           "dim with tsr_slice first"
                         : "tsr_squeeze: there is no dim %d in %s; name dims of the array",
                   __builtin_ctz(bits & ~all), tsr_type_of(a));
    return tsr__refused(a, &error, site);
  }
  for (int d = 0; d < rank; d++)
    if (!(bits >> d & 1)) shape.dims[shape.rank++] = a->shape.dims[d];
  return reshape(a, shape, site);
}

tsr_array *tsr_atleast_at(tsr_array *a, int rank, const char *site)
{
  TSR__CALL(tsr__home(a), "atleast");
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return reshape(a, (tsr_shape){ .rank = 0 }, site);
  if (rank < 1 || rank > 3) {
    tsr__error_set(&error, TSR_EARG, "tsr_atleast: %d dims for %s, expected 1, 2 or 3", rank,
                   tsr_type_of(a));
    return tsr__refused(a, &error, site);
  }
  /* As NumPy: a row gets a dim in front, then a matrix one behind. */
  tsr_shape shape = a->shape;
  while (shape.rank < rank) {
    bool behind = shape.rank == 2; /* of a matrix; in front of a row */
    for (int d = shape.rank; d > 0 && !behind; d--) shape.dims[d] = shape.dims[d - 1];
    shape.dims[behind ? 2 : 0] = 1;
    shape.rank++;
  }
  return reshape(a, shape, site);
}
