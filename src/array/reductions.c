/* The reduction calls: dims are a set, empty meaning all; `where` is a mask that fuses into the
 * reduction, so nothing is ever compacted. */
#include "array/array_room.h"

tsr_dims tsr_dims_of(const int *dims, int count)
{
  tsr_dims set = { 0 };
  if (!dims || count < 0) set.invalid = true;
  for (int i = 0; dims && i < count; i++) {
    if (dims[i] >= 0 && dims[i] < TSR_MAX_RANK) set.bits |= 1u << dims[i];
    else if (dims[i] < 0 && dims[i] >= -TSR_MAX_RANK) set.negative |= 1u << (-dims[i] - 1);
    else set.invalid = true;
  }
  return set;
}

/* The set of dims for an array of `rank`; all when none is named. False: one is out of range. */
static bool resolve_dims(tsr_dims dims, int rank, uint32_t *out)
{
  uint32_t bits = dims.bits, all = rank ? (1u << rank) - 1 : 0;
  for (int d = 0; d < TSR_MAX_RANK; d++) {
    if (!(dims.negative >> d & 1)) continue;
    if (d >= rank) return false;
    bits |= 1u << (rank - 1 - d);
  }
  if (dims.invalid || bits & ~all) return false;
  *out = bits ? bits : all;
  return true;
}

static tsr_array *reduce(tsr__op op, const tsr_reduce_args *args, bool needs_one)
{
  tsr_array *x = args->x;
  char what[24] = "tsr_";
  strncat(what, tsr__ops[op].name, sizeof what - 5);
  if (!x || x->inert) return tsr__make(NULL, op, TSR__IN(x), &(tsr__ask){ 0 }, args->site);
  tsr_scope *scope = tsr__home_of(TSR__IN(x, args->where));
  uint32_t bits;
  if (!resolve_dims(args->dims, x->shape.rank, &bits)) {
    tsr__fail(scope, args->site, TSR_EARG,
              "%s: .dims names a dim that %s has not; dims are -%d..%d", what, tsr_type_of(x),
              x->shape.rank, x->shape.rank - 1);
    return tsr__make_inert(scope, args->site);
  }
  for (int d = 0; needs_one && !args->where && d < x->shape.rank; d++) {
    if (!(bits >> d & 1) || x->shape.dims[d] != 0) continue;
    tsr__fail(scope, args->site, TSR_ESHAPE, "%s: dim %d of %s is empty and has no %s element",
              what, d, tsr_type_of(x), tsr__ops[op].name);
    return tsr__make_inert(scope, args->site);
  }
  tsr__ask ask = { .dtype = TSR_I64,
                   TSR__ATTR(tsr__reduce_attr, .dims = bits, .keep = args->keep_dims,
                             .ddof = args->ddof) };
  return tsr__make(scope, op, TSR__IN(x, args->where), &ask, args->site);
}

#define REDUCTION(name, OP, needs_one)             \
  tsr_array *tsr_##name##_at(tsr_reduce_args args) \
  {                                                \
    return reduce(TSR__OP_##OP, &args, needs_one); \
  }
REDUCTION(sum, SUM, false)
REDUCTION(prod, PROD, false)
REDUCTION(mean, MEAN, false)
REDUCTION(var, VAR, false)
REDUCTION(std, STD, false)
REDUCTION(min, MIN, true)
REDUCTION(max, MAX, true)
REDUCTION(any, ANY, false)
REDUCTION(all, ALL, false)
REDUCTION(count, COUNT, false)
#undef REDUCTION
