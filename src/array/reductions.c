/* What the calls of reductions (operations.c) have in common: dims are a set, zero meaning all;
 * `where` is a mask that fuses into the reduction, so nothing is ever compacted.
 *
 * A set of dims:
 *   dims      { 0, -1 }     bits 001, negative 001     of rank 3: 101
 *
 * Options that the node does not know are compositions around it: a dtype is a cast before and
 * after, skip_nan a mask, an initial value one operation on the result. */
#include "array/array_room.h"
#include "tessera/shape.h"

tsr_dims tsr_dims_of(const int *dims, int count)
{
  tsr_dims set = { .none = count == 0 };
  if (count < 0 || (count && !dims)) set.invalid = true;
  for (int i = 0; dims && i < count; i++) {
    /* Each dim a bit; counted from the end in a set of its own, since the rank is not known yet. */
    bool backwards = dims[i] < 0;
    int d = backwards ? -(dims[i] + 1) : dims[i];
    uint32_t *bits = backwards ? &set.negative : &set.bits;
    if (d >= TSR_MAX_RANK) {
      set.invalid = true;
      continue;
    }
    set.twice = set.twice || (*bits >> d & 1);
    *bits |= UINT32_C(1) << d;
  }
  return set;
}

uint32_t tsr__dims_bits(tsr_dims dims, int rank)
{
  const uint32_t beyond = UINT32_C(1) << TSR_MAX_RANK;
  /* One that cannot be is a bit beyond all dims, which inference refuses. */
  uint32_t bits = dims.bits | (dims.invalid ? beyond : 0);
  /* Counted from the end, as the rank is known now. */
  for (int d = 0; d < TSR_MAX_RANK; d++)
    if (dims.negative >> d & 1) bits |= d < rank ? UINT32_C(1) << (rank - 1 - d) : beyond;
  return bits;
}

uint32_t tsr__dims_or_all(tsr_dims dims, int rank)
{
  uint32_t bits = tsr__dims_bits(dims, rank);
  return bits || dims.none ? bits : (UINT32_C(1) << rank) - 1;
}

bool tsr__dims_twice(tsr_dims dims, int rank)
{
  /* Of dims that are there those that fell together are fewer than were named. */
  int named = __builtin_popcount(dims.bits) + __builtin_popcount(dims.negative);
  uint32_t bits = tsr__dims_bits(dims, rank);
  return dims.twice || (!(bits >> rank) && __builtin_popcount(bits) < named);
}

tsr_status tsr__dims_once(const char *what, tsr_dims dims, tsr_array *a, tsr__error *error)
{
  if (!tsr__dims_twice(dims, a->shape.rank)) return TSR_OK;
  return tsr__error_set(error, TSR_EARG, "%s: a dim of %s is named twice; name each once", what,
                        tsr_type_of(a));
}

/* Where elements count; NULL: everywhere. */
static tsr_array *mask_of(const tsr_reduce_args *args, const char *site)
{
  /* NaN is left out by the mask, so it costs no pass of its own. */
  if (!args->skip_nan || !tsr__dtype_has_nan((tsr_dtype)args->x->dtype)) return args->where;
  tsr_array *number = tsr_not_at(tsr_isnan_at(args->x, site), site);
  if (!args->where) return number;
  return tsr_and_at(number, tsr_operand_array(args->where), site);
}

/* Options that a reduction has not. */
static tsr_status check_options(tsr__op op, const tsr_reduce_args *args, tsr__error *error)
{
  const tsr__opinfo *row = &tsr__ops[op];
  /* Those that compute with elements; a largest element has the dtype that elements have. */
  bool counts = row->dtype_rule == TSR__DT_SUM || row->dtype_rule == TSR__DT_FLOAT;
  if (tsr__is_given(args->initial) && !row->joins)
    return tsr__error_set(error, TSR_EARG, "tsr_%s: the reduction takes no .initial; leave it out",
                          row->name);
  if (args->dtype && !counts)
    return tsr__error_set(error, TSR_EARG,
                          "tsr_%s: the reduction takes no .dtype; convert the result with tsr_cast",
                          row->name);
  tsr_array *initial = args->initial.array;
  if (tsr__usable(initial) && initial->shape.rank)
    return tsr__error_set(error, TSR_ESHAPE, "tsr_%s: .initial is %s, expected one number",
                          row->name, tsr_type_of(initial));
  return TSR_OK;
}

static tsr_array *reduced(tsr__op op, const tsr_reduce_args *args, const char *site)
{
  tsr_array *x = args->x, *mask = mask_of(args, site);
  /* Of no elements the node refuses a largest; with an initial value there is one, so a mask that
   * nothing passes takes the refusal away. There is no element for it to look at. */
  bool none = false;
  for (int d = 0; d < x->shape.rank; d++) none = none || !x->shape.dims[d];
  /* What there is none of is left out, not missing. */
  if (none && !mask && tsr__is_given(args->initial)) mask = tsr_cast_at(x, TSR_BOOL, site);
  tsr__ask ask = { TSR__ATTR(tsr__reduce_attr, .dims = tsr__dims_bits(args->dims, x->shape.rank),
                             .keep = args->keep_dims, .ddof = args->ddof) };
  tsr_scope *scope = tsr__home_of(TSR__IN(x, args->where));
  return tsr__make(scope, op, TSR__IN(x, mask), &ask, site);
}

/* Over no dims each element is reduced by itself: along one more dim, of size 1. Arrays that have
 * as many dims as there can be are a line meanwhile. */
static tsr_array *of_each(tsr__op op, const tsr_reduce_args *given, const char *site)
{
  tsr_reduce_args args = *given;
  tsr_shape shape = args.x->shape;
  bool full = shape.rank == TSR_MAX_RANK;
  if (full && args.where)
    args.where = tsr_ravel_at(tsr_broadcast_to_at(args.where, shape, site), site);
  if (full) args.x = tsr_ravel_at(args.x, site);
  args.dims = (tsr_dims){ .bits = 1 };
  args.keep_dims = false;
  args.x = tsr_expand_dims_at(args.x, args.dims, site);
  if (!tsr__usable(args.x)) return args.x;
  tsr_array *result = reduced(op, &args, site);
  return full ? tsr_reshape_at(result, shape, site) : result;
}

tsr_array *tsr__reduction(tsr__op op, const tsr_reduce_args *given, const char *site)
{
  tsr_reduce_args args = { .size = sizeof args };
  tsr__error error;
  error.status = TSR_OK;
  char what[24] = "tsr_";
  strncat(what, tsr__ops[op].name, sizeof what - 5);
  tsr_status status = tsr__take_opts(what, given, &args, sizeof args, &error);
  tsr_array *x = given ? given->x : NULL;
  if (!x || x->inert) return tsr__make(NULL, op, TSR__IN(x), &(tsr__ask){ 0 }, site);
  if (!status) status = check_options(op, &args, &error);
  if (!status) status = tsr__dims_once(what, args.dims, x, &error);
  if (status) return tsr__refused_of(TSR__IN(x, args.where), &error, site);
  bool no_dims = !tsr__dims_or_all(args.dims, x->shape.rank) && x->shape.rank > 0;
  /* Errors of what the call is made of are said in the call's name; a plain reduction says it by
   * itself. */
  bool composed = no_dims || args.dtype || args.skip_nan || tsr__is_given(args.initial);
  TSR__CALL(composed ? tsr__home_of(TSR__IN(x, args.where)) : NULL, tsr__ops[op].name);
  if (args.dtype) args.x = tsr_cast_at(x, args.dtype, site);
  tsr_array *result = no_dims ? of_each(op, &args, site) : reduced(op, &args, site);
  /* Once more: a mean of integers, say, comes as a float. */
  if (args.dtype) result = tsr_cast_at(result, args.dtype, site);
  if (!tsr__is_given(args.initial)) return result;
  return tsr__binary((tsr__op)tsr__ops[op].joins, result, args.initial, site);
}
