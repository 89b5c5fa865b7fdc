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

static tsr_array *refuse(tsr_scope *scope, const tsr__error *error, const char *site)
{
  tsr__fail_error(scope, site, error);
  return tsr__make_inert(scope, site);
}

/* Checks what is asked of x; the set of dims. */
static tsr_status check(tsr__op op, const tsr_reduce_args *args, bool needs_one, uint32_t *bits,
                        tsr__error *error)
{
  tsr_array *x = args->x;
  const char *name = tsr__ops[op].name;
  if (!resolve_dims(args->dims, x->shape.rank, bits))
    return tsr__error_set(error, TSR_EARG,
                          "tsr_%s: .dims names a dim that %s has not; dims are -%d..%d", name,
                          tsr_type_of(x), x->shape.rank, x->shape.rank - 1);
  for (int d = 0; needs_one && !args->where && d < x->shape.rank; d++)
    if (*bits >> d & 1 && x->shape.dims[d] == 0)
      return tsr__error_set(error, TSR_ESHAPE,
                            "tsr_%s: dim %d of %s is empty and has no %s element", name, d,
                            tsr_type_of(x), name);
  return TSR_OK;
}

static tsr_array *reduce(tsr__op op, const tsr_reduce_args *given, bool needs_one, const char *site)
{
  tsr_reduce_args args = { .size = sizeof args };
  tsr__error error = { 0 };
  char what[24] = "tsr_";
  strncat(what, tsr__ops[op].name, sizeof what - 5);
  tsr_status status = tsr__take_opts(what, given, &args, sizeof args, &error);
  tsr_array *x = given ? given->x : NULL;
  if (!x || x->inert) return tsr__make(NULL, op, TSR__IN(x), &(tsr__ask){ 0 }, site);
  tsr_scope *scope = tsr__home_of(TSR__IN(x, args.where));
  uint32_t bits = 0;
  if (!status) status = check(op, &args, needs_one, &bits, &error);
  if (status) return refuse(scope, &error, site);
  tsr__ask ask = { .dtype = TSR_I64,
                   TSR__ATTR(tsr__reduce_attr, .dims = bits, .keep = args.keep_dims,
                             .ddof = args.ddof) };
  return tsr__make(scope, op, TSR__IN(x, args.where), &ask, site);
}

#define REDUCTION(name, OP, needs_one)                                      \
  tsr_array *tsr_##name##_at(const tsr_reduce_args *args, const char *site) \
  {                                                                         \
    return reduce(TSR__OP_##OP, args, needs_one, site);                     \
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
