/* One array of several and several of one, made of concats, slices and broadcasts.
 *
 *   stack     each operand gets a dim of size 1, then concat along it
 *   repeat    a dim of size 1 behind, broadcast, both dims as one
 *
 * Calls that give several arrays write all of `out`, inert ones on an error. */
#include "array/array_room.h"
#include "tessera/indexing.h"
#include "tessera/shape.h"
#include "tessera/sorting.h"

/* What a call gives where something is wrong with its operands. */
static void refuse_all(tsr_scope *scope, const tsr__error *error, int count, tsr_array **out,
                       const char *site)
{
  tsr__fail_error(scope, site, error);
  for (int i = 0; i < count; i++) out[i] = tsr__make_inert(scope, site);
}

/* The first of the operands that cannot be used; NULL: all can. */
static tsr_array *const *bad_one(tsr_array *const *arrays, int count)
{
  for (int i = 0; i < count; i++)
    if (!arrays[i] || arrays[i]->inert) return &arrays[i];
  return NULL;
}

/* ---- stack, split ---- */

tsr_array *tsr_stack_at(tsr_array *const *arrays, int count, int dim, const char *site)
{
  TSR__CALL(tsr__home_of((tsr__operands){ arrays, arrays && count > 0 ? count : 0 }), "stack");
  tsr__error error = { .status = TSR_OK };
  /* Nothing to stack, or something that cannot be: concat says so, and where its scope is found. */
  if (!arrays || count <= 0 || bad_one(arrays, count))
    return tsr_concat_at(arrays, count, dim, site);
  tsr_array *first = arrays[0];
  int rank = first->shape.rank + 1, at = dim < 0 ? dim + rank : dim;
  /* The list lives only while the concat is made, which copies it. */
  tsr__heap *heap = &first->node.scope->rt->heap;
  size_t bytes = (size_t)count * sizeof(tsr_array *);
  for (int i = 0; i < count && !error.status; i++)
    if (arrays[i]->shape.rank != rank - 1 ||
        memcmp(arrays[i]->shape.dims, first->shape.dims, (size_t)(rank - 1) * sizeof(int64_t)))
      tsr__error_set(&error, TSR_ESHAPE,
                     "tsr_stack: operand %d is %s, expected the shape of operand 1, %s", i + 1,
                     tsr_type_of(arrays[i]), tsr_type_of(first));
  if (!error.status && rank > TSR_MAX_RANK)
    tsr__error_set(&error, TSR_EARG,
                   "tsr_stack: the result would have one dim more than %s, the most is %d dims",
                   tsr_type_of(first), TSR_MAX_RANK);
  if (!error.status && (at < 0 || at >= rank))
    tsr__error_set(&error, TSR_EARG,
                   "tsr_stack: there is no dim %d in a stack of arrays of %s; the dims of the "
                   "result are -%d..%d",
                   dim, tsr_type_of(first), rank, rank - 1);
  tsr_array **parts = error.status ? NULL : tsr__new(heap, bytes);
  if (!parts && !error.status)
    tsr__error_set(&error, TSR_ENOMEM, "tsr_stack: no memory for a list of %d arrays", count);
  if (error.status) return tsr__refused(first, &error, site);
  /* A view, so nothing moves but what concat moves. */
  for (int i = 0; i < count; i++)
    parts[i] = tsr_expand_dims_at(arrays[i], (tsr_dims){ .bits = UINT32_C(1) << at }, site);
  tsr_array *out = tsr_concat_at(parts, count, at, site);
  tsr__del(heap, parts, bytes);
  return out;
}

void tsr_split_at(tsr_array *a, int count, int dim, tsr_array **out, const char *site)
{
  TSR__CALL(tsr__home(a), "split");
  tsr__error error = { .status = TSR_OK };
  if (!out || count <= 0) {
    tsr__fail(tsr__home(a), site, TSR_EARG,
              "tsr_split: %d parts%s; give one or more, and an array that holds them", count,
              out ? "" : " to an output that is NULL");
    return;
  }
  if (!a || a->inert) {
    for (int i = 0; i < count; i++) out[i] = tsr_slice_at(a, NULL, 0, site);
    return;
  }
  if (tsr__find_dim(a, &dim, "tsr_split", &error)) {
    refuse_all(tsr__home(a), &error, count, out, site);
    return;
  }
  int64_t size = a->shape.dims[dim], at = 0;
  /* NumPy's array_split: the first parts take one more each of what is left over. */
  for (int i = 0; i < count; i++) {
    /* A size that is not known is refused by the slice. */
    int64_t some = size < 0 ? 1 : size / count + (i < size % count);
    out[i] = tsr__part(a, dim, TSR_RANGE(at, at + some), site);
    at += some;
  }
}

/* ---- tile, repeat ---- */

/* Parts of a concat, so that what is cut stays so; many of them by halves. For instance 35 copies,
 * where the halves are one array that is used twice:
 *
 *    35 = 17 + 17 + 1      17 = 8 + 8 + 1      8 in one concat */
static tsr_array *tile_dim(tsr_array *a, int64_t times, int dim, const char *site)
{
  enum { FEW = 16 };
  /* Of a number that is odd the third one is the array itself. */
  tsr_array *parts[FEW] = { a, a, a };
  if (times == 0) return tsr__part(a, dim, TSR_RANGE(0, 0), site);
  /* By halves: a thousand copies are a few concats, not one of a thousand operands. */
  if (times > FEW) {
    parts[0] = parts[1] = tile_dim(a, times / 2, dim, site);
    return tsr_concat_at(parts, 2 + (int)(times % 2), dim, site);
  }
  for (int i = 0; i < times; i++) parts[i] = a;
  return tsr_concat_at(parts, (int)times, dim, site);
}

tsr_array *tsr_tile_at(tsr_array *a, const int64_t *times, int count, const char *site)
{
  TSR__CALL(tsr__home(a), "tile");
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return tsr_slice_at(a, NULL, 0, site);
  if (count < 0 || count > TSR_MAX_RANK || (count && !times))
    tsr__error_set(&error, TSR_EARG, "tsr_tile: %d repeat counts%s for %s; give at most %d", count,
                   times ? "" : " that are NULL", tsr_type_of(a), TSR_MAX_RANK);
  for (int i = 0; i < count && !error.status; i++)
    if (times[i] < 0)
      tsr__error_set(&error, TSR_EARG, "tsr_tile: %lld repeats of %s, expected 0 or more",
                     (long long)times[i], tsr_type_of(a));
  if (error.status) return tsr__refused(a, &error, site);
  /* New dims in front, as NumPy has it. */
  if (count > a->shape.rank)
    a = tsr_expand_dims_at(a, (tsr_dims){ .bits = (UINT32_C(1) << (count - a->shape.rank)) - 1 },
                           site);
  for (int i = 0; i < count && !a->inert; i++)
    if (times[i] != 1) a = tile_dim(a, times[i], a->shape.rank - count + i, site);
  return a;
}

/* The elements along a dim at indices, the last one beyond it. So `total` may be more than the
 * counts come to, and nothing is read from outside. */
static tsr_array *taken(tsr_array *a, tsr_array *at, int dim, const char *site)
{
  tsr_take_args args = {
    .size = sizeof args, .x = a, .indices = at, .dim = dim, .mode = TSR_INDEX_CLAMP
  };
  return tsr_take_at(&args, site);
}

/* The index along a dim of `total` as an array. */
static tsr_array *counting(tsr_array *a, int64_t total, const char *site)
{
  tsr_shape shape = { .rank = 1, .dims = { total } };
  return tsr_iota_at(tsr__home(a), TSR_I64, shape, 0, (tsr_sharding){ .mesh = NULL }, site);
}

static tsr_status check_repeat(tsr_array *a, int64_t times, int *dim, const char *what,
                               tsr__error *error)
{
  if (times >= 0) return tsr__find_dim(a, dim, what, error);
  return tsr__error_set(error, TSR_EARG,
                        "%s: %lld repeats of each element of %s, expected 0 or more", what,
                        (long long)times, tsr_type_of(a));
}

/* A dim of size 1 behind `dim`, broadcast to `times`, and both merged: cut along the major one. 1 2
 * twice each:
 *
 *    [1 2]  ->  [[1] [2]]  ->  [[1 1] [2 2]]  ->  [1 1 2 2] */
static tsr_array *spread(tsr_array *a, int64_t times, int dim, const char *site)
{
  tsr_shape shape = a->shape, wide = { .rank = shape.rank + 1 };
  for (int d = 0; d < wide.rank; d++)
    wide.dims[d] = d == dim + 1 ? times : shape.dims[d <= dim ? d : d - 1];
  /* A size beyond 64 bits is refused by the reshape, in its own words. */
  if (__builtin_mul_overflow(shape.dims[dim], times, &shape.dims[dim])) shape.dims[dim] = INT64_MAX;
  a = tsr_expand_dims_at(a, (tsr_dims){ .bits = UINT32_C(2) << dim }, site);
  return tsr_reshape_at(tsr_broadcast_to_at(a, wide, site), shape, site);
}

tsr_array *tsr_repeat_at(tsr_array *a, int64_t times, int dim, const char *site)
{
  TSR__CALL(tsr__home(a), "repeat");
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert) return tsr_slice_at(a, NULL, 0, site);
  if (check_repeat(a, times, &dim, "tsr_repeat", &error)) return tsr__refused(a, &error, site);
  if (a->shape.rank < TSR_MAX_RANK) return spread(a, times, dim, site);
  /* All dims are in use: indices take the elements instead. */
  int64_t total; /* no room for a dim more */
  if (__builtin_mul_overflow(a->shape.dims[dim], times, &total)) total = INT64_MAX;
  tsr_array *at = counting(a, total, site);
  return taken(a, tsr_floordiv_at(at, tsr_operand_int(times), site), dim, site);
}

tsr_array *tsr_repeat_each_at(tsr_array *a, tsr_array *counts, int64_t total, int dim,
                              const char *site)
{
  TSR__CALL(tsr__home(a), "repeat_each");
  tsr__error error = { .status = TSR_OK };
  if (!a || a->inert || (counts && counts->inert))
    return tsr_slice_at(!a || a->inert ? a : counts, NULL, 0, site);
  if (!counts) {
    tsr__error_set(&error, TSR_EARG, "tsr_repeat_each: operand 2 is NULL; give the counts");
    return tsr__refused(a, &error, site);
  }
  if (total < 0)
    tsr__error_set(&error, TSR_EARG, "tsr_repeat_each: the total is %lld, expected 0 or more",
                   (long long)total);
  if (error.status || tsr__find_dim(a, &dim, "tsr_repeat_each", &error))
    return tsr__refused(a, &error, site);
  /* Sizes are compared first; what the counts come to only a run tells, and `total` is taken as it
   * is: the last element fills what they leave. */
  int64_t size = a->shape.dims[dim];
  bool fits = counts->shape.rank == 1 && counts->shape.dims[0] == size;
  if (!tsr__dtype_integer((tsr_dtype)counts->dtype))
    tsr__error_set(&error, TSR_EDTYPE, "tsr_repeat_each: counts are %s, expected integers",
                   tsr_type_of(counts));
  else if (!fits || (!size && total))
    tsr__error_set(&error, TSR_ESHAPE,
                   "tsr_repeat_each: counts are %s for %lld elements along dim %d of %s; give one "
                   "count per element",
                   tsr_type_of(counts), (long long)size, dim, tsr_type_of(a));
  if (error.status) return tsr__refused(a, &error, site);
  /* The k-th element of the result is of the first whose running count is above k. */
  tsr_scan_args upto = { .size = sizeof upto, .x = tsr_cast_at(counts, TSR_I64, site) };
  tsr_array *ends = tsr_cumsum_at(&upto, site);
  tsr_array *at = tsr__make(NULL, TSR__OP_SEARCH, TSR__IN(ends, counting(a, total, site)),
                            &(tsr__ask){ .dtype = TSR_I64 }, site);
  return taken(a, at, dim, site);
}

/* ---- broadcast, meshgrid ---- */

/* The shape that arrays have in arithmetic. */
static tsr_status meet_shapes(tsr_array *const *arrays, int count, tsr_shape *out,
                              tsr__error *error)
{
  tsr_shape shape = { .rank = 0 };
  for (int i = 0; i < count; i++)
    if (arrays[i]->shape.rank > shape.rank) shape.rank = arrays[i]->shape.rank;
  /* Aligned at the last dim, sizes equal or 1, as in NumPy. */
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = 1;
  for (int i = 0; i < count; i++) {
    const tsr_shape *x = &arrays[i]->shape;
    for (int k = 0; k < x->rank; k++) {
      int64_t *size = &shape.dims[shape.rank - x->rank + k];
      if (x->dims[k] == 1 || x->dims[k] == *size) continue;
      if (*size != 1)
        return tsr__error_set(
            error, TSR_ESHAPE,
            "tsr_broadcast_arrays: dim %d of operand %d, %s, does not match size %lld of the "
            "others; aligned at the last dim, sizes must be equal or 1",
            k, i + 1, tsr_type_of(arrays[i]), (long long)*size);
      *size = x->dims[k];
    }
  }
  *out = shape;
  return TSR_OK;
}

/* Whether there is something to do; what cannot be used is given on, and said where it is NULL. */
static bool usable(tsr_array *const *arrays, int count, tsr_array **out, const char *site)
{
  /* NULL among them is said by concat, which names its place. */
  tsr_array *const *bad = arrays && out && count > 0 ? bad_one(arrays, count) : NULL;
  if (!arrays || count <= 0)
    tsr__fail(NULL, site, TSR_EARG,
              "tsr_concat: the count of arrays is %d%s; give at least one array", count,
              arrays ? "" : ", but the list is NULL");
  for (int i = 0; !arrays && out && i < count; i++) out[i] = tsr__make_inert(NULL, site);
  if (!arrays || !out || count <= 0) return false;
  if (!bad) return true;
  tsr_array *inert = *bad ? *bad : tsr_concat_at(arrays, count, 0, site);
  for (int i = 0; i < count; i++) out[i] = inert;
  return false;
}

void tsr_broadcast_arrays_at(tsr_array *const *arrays, int count, tsr_array **out, const char *site)
{
  TSR__CALL(tsr__home_of((tsr__operands){ arrays, arrays && count > 0 ? count : 0 }),
            "broadcast_arrays");
  tsr__error error = { .status = TSR_OK };
  tsr_shape shape;
  if (!usable(arrays, count, out, site)) return;
  if (meet_shapes(arrays, count, &shape, &error)) {
    refuse_all(tsr__home(arrays[0]), &error, count, out, site);
    return;
  }
  for (int i = 0; i < count; i++) out[i] = tsr_broadcast_to_at(arrays[i], shape, site);
}

void tsr_meshgrid_at(tsr_array *const *arrays, int count, bool swapped, tsr_array **out,
                     const char *site)
{
  TSR__CALL(tsr__home_of((tsr__operands){ arrays, arrays && count > 0 ? count : 0 }), "meshgrid");
  tsr__error error = { .status = TSR_OK };
  tsr_shape shape = { .rank = count };
  if (!usable(arrays, count, out, site)) return;
  for (int i = 0; i < count && !error.status; i++) {
    /* "xy" order: the first two dims change places. */
    int d = swapped && i < 2 && count > 1 ? 1 - i : i;
    if (count > TSR_MAX_RANK || arrays[i]->shape.rank != 1)
      tsr__error_set(&error, TSR_EARG,
                     "tsr_meshgrid: operand %d of %d is %s, expected at most %d arrays of rank 1",
                     i + 1, count, tsr_type_of(arrays[i]), TSR_MAX_RANK);
    else shape.dims[d] = arrays[i]->shape.dims[0];
  }
  if (error.status) {
    refuse_all(tsr__home(arrays[0]), &error, count, out, site);
    return;
  }
  /* Each gets size 1 along all dims but its own. */
  uint32_t all = (UINT32_C(1) << count) - 1;
  for (int i = 0; i < count; i++) {
    int d = swapped && i < 2 && count > 1 ? 1 - i : i;
    tsr_dims others = { .bits = all & ~(UINT32_C(1) << d) };
    out[i] = tsr_broadcast_to_at(tsr_expand_dims_at(arrays[i], others, site), shape, site);
  }
}
