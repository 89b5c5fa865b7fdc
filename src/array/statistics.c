/* Statistics that are compositions: of exact sums, extremes, sorts and products. Sums are exact, so
 * norms and averages do not depend on how an array is cut; a covariance is a product, which does
 * not where .reproducible is asked for. */
#include "tessera/statistics.h"

#include "array/products_room.h"
#include "tessera/products.h"
#include "tessera/shape.h"
#include "tessera/sorting.h"

#include <math.h>

typedef tsr_array array;

/* Takes the fields of a struct of arguments; what is wrong gives an inert array. */
static array *take(const char *what, const void *given, void *own, size_t known, array *x,
                   const char *site)
{
  tsr__error error = { .status = TSR_OK };
  if (!tsr__usable(x)) return tsr_abs_at(x, site);
  return tsr__take_opts(what, given, own, known, &error) ? tsr__refused(x, &error, site) : NULL;
}

static tsr_reduce_args over(array *x, uint32_t dims, bool keep)
{
  return (tsr_reduce_args){ .x = x, .dims = { .bits = dims }, .keep_dims = keep };
}

/* ---- reductions ---- */

array *tsr_ptp_at(const tsr_reduce_args *args, const char *site)
{
  TSR__CALL(tsr__home(args ? args->x : NULL), "ptp");
  /* NumPy refuses to subtract bools; so does a negation here. */
  if (args && tsr__usable(args->x) && args->x->dtype == TSR_BOOL)
    return tsr_neg_at(args->x, site); /* refuses it */
  return tsr_sub_at(tsr_max_at(args, site), tsr__of(tsr_min_at(args, site)), site);
}

/* The exact sum of the squares of f64, rounded once: each is two summands along a dim in front. */
static array *sum_of_pairs(const tsr_reduce_args *given, array *wide, const char *site)
{
  tsr_reduce_args args = *given;
  uint32_t dims = tsr__dims_or_all(given->dims, wide->shape.rank);
  args.x = tsr__exact_terms(wide, wide, site);
  /* The dims move by one for the pairs' own, which is reduced, too. */
  args.dims = (tsr_dims){ .bits = dims << 1 | 1, .invalid = dims >> wide->shape.rank };
  if (args.where) args.where = tsr_broadcast_to_at(args.where, args.x->shape, site);
  array *sum = tsr_sum_at(&args, site);
  if (!args.keep_dims || sum->inert) return sum;
  tsr_shape shape = { .rank = wide->shape.rank };
  memcpy(shape.dims, sum->shape.dims + 1, (size_t)shape.rank * sizeof *shape.dims);
  /* The pairs' dim is of size 1 in front, which the caller did not ask to keep. */
  return tsr_reshape_at(sum, shape, site);
}

/* A type that stands for an array where it is only asked whether a call is right: what is made of
 * it reads nothing. */
static array *stand_in(array *a)
{
  if (!tsr__usable(a)) return a;
  const tsr_sharding *at = a->placed || a->value ? &a->sharding : NULL;
  return tsr__make_leaf(tsr__home(a), (tsr_dtype)a->dtype, &a->shape, at, NULL, a->node.site);
}

/* Squares of f32 and less are exact in f64. What is wrong with dims and mask is said of x, as a sum
 * of it would: that of the squares sees another dtype. */
array *tsr_norm_at(const tsr_reduce_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "norm");
  tsr_reduce_args args = { .size = sizeof args };
  array *x = given ? given->x : NULL, *bad = take("tsr_norm", given, &args, sizeof args, x, site);
  if (bad) return bad;
  /* One that is wrong in dims or mask is refused here, in words about x. */
  tsr_reduce_args plain = args;
  plain.x = stand_in(x);
  plain.where = stand_in(args.where);
  plain.initial = (tsr_operand){ .array = NULL };
  if (tsr_is_inert(bad = tsr_sum_at(&plain, site))) return bad;
  tsr_dtype dtype = (tsr_dtype)tsr__as_float(x, site)->dtype;
  array *wide = tsr_cast_at(x, TSR_F64, site);
  /* Squares of f64 do not fit f64: each becomes two summands, for which a dim must be free. */
  bool pairs = dtype == TSR_F64 && x->shape.rank > 0 && x->shape.rank < TSR_MAX_RANK;
  args.x = pairs ? wide : tsr_mul_at(wide, tsr__of(wide), site);
  array *sum = pairs ? sum_of_pairs(&args, wide, site) : tsr_sum_at(&args, site);
  return tsr_cast_at(tsr_sqrt_at(sum, site), dtype, site);
}

/* Weights of the dims that go, where they have just those: as they stand among the dims of x.
 * Weights of 3 for dim 1 of x[2,3,4] come as [1,3,1]. */
static array *aligned(array *weights, const array *x, uint32_t gone, const char *site)
{
  int of_weights = 0, rank = x->shape.rank;
  if (!tsr__usable(weights) || weights->shape.rank >= rank || weights->shape.rank == 0)
    return weights;
  if (gone >> rank || __builtin_popcount(gone) != weights->shape.rank) return weights;
  for (int d = 0; d < rank; d++)
    if (gone >> d & 1 && x->shape.dims[d] != weights->shape.dims[of_weights++]) return weights;
  return tsr_expand_dims_at(weights, (tsr_dims){ .bits = ~gone & ((1u << rank) - 1) }, site);
}

array *tsr_average_at(const tsr_average_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "average");
  tsr_average_args args = { .size = sizeof args };
  array *x = given ? given->x : NULL;
  array *bad = take("tsr_average", given, &args, sizeof args, x, site);
  if (bad) return bad;
  tsr_reduce_args sum = { .x = x, .dims = args.dims, .keep_dims = args.keep_dims };
  if (!args.weights) return tsr_mean_at(&sum, site);
  args.weights = aligned(args.weights, x, tsr__dims_bits(args.dims, x->shape.rank), site);
  sum.x = tsr__as_float(tsr_mul_at(tsr__as_float(x, site), tsr__of(args.weights), site), site);
  if (!tsr__usable(sum.x)) return sum.x;
  array *total = tsr_sum_at(&sum, site);
  /* Weights spread to x, so that each is summed as often as it was used. */
  sum.x = tsr_broadcast_to_at(tsr_cast_at(args.weights, (tsr_dtype)sum.x->dtype, site),
                              sum.x->shape, site);
  return tsr_div_at(total, tsr__of(tsr_sum_at(&sum, site)), site);
}

/* Rows are variables, columns their observations. */
array *tsr_cov_at(const tsr_cov_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "cov");
  tsr_cov_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  array *x = given ? given->x : NULL, *bad = take("tsr_cov", given, &args, sizeof args, x, site);
  if (bad) return bad;
  if (x->shape.rank < 1 || x->shape.rank > 2) {
    tsr__error_set(&error, TSR_ESHAPE, "tsr_cov: %s has %d dims, expected one or two",
                   tsr_type_of(x), x->shape.rank);
    return tsr__refused(x, &error, site);
  }
  tsr_reduce_args mean = over(tsr__as_float(x, site), 1u << (x->shape.rank - 1), true);
  if (x->shape.rank == 1) {
    /* The variance of one variable is its covariance with itself. */
    mean.keep_dims = false;
    mean.ddof = !args.biased;
    return tsr_var_at(&mean, site);
  }
  /* Degrees of freedom: one less than observations, unless it is the biased one. */
  int64_t count = x->shape.dims[1] - !args.biased;
  array *apart = tsr_sub_at(mean.x, tsr__of(tsr_mean_at(&mean, site)), site);
  array *across = tsr_transpose_at(apart, NULL, 0, site);
  tsr_product_args both = { .a = apart, .b = across, .reproducible = args.reproducible };
  array *product = tsr_matmul_at(&both, site);
  /* Too few observations: over 0, NaN or infinity, as NumPy gives them. */
  return tsr_div_at(product, tsr_operand_float(count > 0 ? (double)count : 0), site);
}

/* ---- quantiles ---- */

/* One element a row of what is sorted along `dim`: that at the place `at`, and none where there is
 * no such place. The place is data, which a slice could not take. */
static array *picked(array *sorted, array *places, array *at, int dim, const char *site)
{
  tsr_reduce_args args = over(sorted, 1u << dim, true);
  args.where = tsr_eq_at(places, tsr__of(at), site);
  return tsr_max_at(&args, site);
}

/* Where between `below` and `above` a quantile at `place` lies. */
static array *between(tsr_between how, array *below, array *above, array *part, const char *site)
{
  /* Equal neighbours are the answer: infinity less infinity would be NaN. */
  array *span = tsr_sub_at(above, tsr__of(below), site),
        *even = tsr_eq_at(above, tsr__of(below), site);
  if (how == TSR_BETWEEN_LOWER) return below;
  if (how == TSR_BETWEEN_HIGHER) return above;
  if (how == TSR_BETWEEN_MIDPOINT) {
    array *none = tsr_eq_at(part, tsr_operand_int(0), site);
    span = tsr_mul_at(span, tsr_operand_float(0.5), site);
    even = tsr_or_at(even, tsr__of(none), site);
  } else {
    span = tsr_mul_at(span, tsr__of(part), site);
    even = tsr_or_at(even, tsr__of(tsr_eq_at(part, tsr_operand_int(0), site)), site);
  }
  return tsr_where_at(even, tsr__of(below), tsr__of(tsr_add_at(below, tsr__of(span), site)), site);
}

/* Along one dim: sorted, NaN last, the place of a quantile among so many as count is found, and its
 * neighbours are picked out by their places. For instance q = 0.25 of four numbers: place 0.75,
 * which is between elements 0 and 1. */
static array *quantile_along(array *x, const tsr_quantile_args *args, int dim, const char *site)
{
  tsr_dtype dtype = (tsr_dtype)x->dtype;
  /* Counted without NaN: places are those among numbers, which the sort puts first. */
  array *number = tsr_not_at(tsr_isnan_at(x, site), site);
  tsr_reduce_args ask = over(number, 1u << dim, true);
  array *count = tsr_count_at(&ask, site), *whole = tsr_all_at(&ask, site);
  tsr_sort_args order = { .size = sizeof order, .x = x, .dim = dim };
  array *sorted = tsr_sort_at(&order, site);
  /* The place of the last number; a quantile is a share of the way to it. */
  array *last = tsr_sub_at(tsr_cast_at(count, TSR_F64, site), tsr_operand_int(1), site);
  array *place = tsr_mul_at(last, tsr_operand_float(args->q), site);
  /* Ties go to the even place, as in NumPy. */
  if (args->between == TSR_BETWEEN_NEAREST) place = tsr_rint_at(place, site);
  array *low = tsr_floor_at(place, site), *high = tsr_ceil_at(place, site);
  array *part = tsr_cast_at(tsr_sub_at(place, tsr__of(low), site), dtype, site);
  array *places = tsr_iota_at(tsr__home(x), TSR_I64, x->shape, dim, (tsr_sharding){ 0 }, site);
  /* At most one element passes each mask, so its largest is that element. */
  low = picked(sorted, places, tsr_cast_at(low, TSR_I64, site), dim, site);
  high = picked(sorted, places, tsr_cast_at(high, TSR_I64, site), dim, site);
  array *value = between(args->between, low, high, part, site);
  /* Without skip_nan one NaN makes the quantile NaN. */
  array *valid = args->skip_nan ? tsr_gt_at(count, tsr_operand_int(0), site) : whole;
  /* Of nothing there is no quantile: false everywhere, in the shape of the count. */
  if (x->shape.dims[dim] == 0) valid = tsr_ne_at(count, tsr__of(count), site);
  return tsr_where_at(valid, tsr__of(value), tsr_operand_float((double)NAN), site);
}

/* Some dims as one, behind the others. */
static array *last_of(array *x, uint32_t bits, const char *site)
{
  int dims[TSR_MAX_RANK] = { 0 }, rank = x->shape.rank, kept = 0, at = 0;
  tsr_shape shape = { .rank = 0 };
  int64_t size = 1;
  /* First the dims that stay, then those that become one. */
  for (int d = 0; d < rank; d++)
    if (!(bits >> d & 1)) shape.dims[kept] = x->shape.dims[d], dims[kept++] = d;
  at = kept;
  for (int d = 0; d < rank; d++)
    if (bits >> d & 1) size *= x->shape.dims[d], dims[at++] = d;
  shape.dims[kept] = size;
  shape.rank = kept + 1;
  return tsr_reshape_at(rank ? tsr_transpose_at(x, dims, rank, site) : x, shape, site);
}

/* Of one dim: where it is. */
static array *quantile_over(array *x, const tsr_quantile_args *args, uint32_t bits,
                            const char *site)
{
  /* One dim stays where it is, so what is cut along others is not moved. */
  bool one = bits && !(bits & (bits - 1));
  array *lines = one ? x : last_of(x, bits, site);
  if (!tsr__usable(lines)) return lines;
  int dim = one ? __builtin_ctz(bits) : lines->shape.rank - 1;
  array *kept = quantile_along(lines, args, dim, site);
  if (args->keep_dims && one) return kept;
  tsr_reduce_args drop = over(kept, 1u << dim, false); /* of one element: itself */
  array *out = tsr_max_at(&drop, site);
  return args->keep_dims ? tsr_expand_dims_at(out, (tsr_dims){ .bits = bits }, site) : out;
}

static array *quantile(const char *what, const tsr_quantile_args *given, double scale,
                       const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), what + strlen("tsr_"));
  tsr_quantile_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  array *x = given ? given->x : NULL, *bad = take(what, given, &args, sizeof args, x, site);
  if (bad) return bad;
  int rank = x->shape.rank;
  uint32_t bits = tsr__dims_or_all(args.dims, rank);
  /* The message shows what was given, not the share that it was turned into. */
  char given_q[32];
  tsr__text_f64(given_q, args.q);
  /* The median has no q of its own. */
  args.q = scale > 0 ? args.q / scale : 0.5;
  if (!(args.q >= 0 && args.q <= 1))
    tsr__error_set(&error, TSR_EARG, "%s: q is %s, expected 0 to %d", what, given_q, (int)scale);
  else if (bits >> rank)
    tsr__error_set(&error, TSR_EARG, "%s: .dims names a dim that %s does not have; %s", what,
                   tsr_type_of(x), tsr__dims_text(rank).text);
  if (error.status || tsr__dims_once(what, args.dims, x, &error))
    return tsr__refused(x, &error, site);
  x = tsr__as_float(x, site);
  /* Of no dims one more is made, for which arrays of as many as there can be have no room. */
  if (bits || rank < TSR_MAX_RANK || !tsr__usable(x)) return quantile_over(x, &args, bits, site);
  array *line = quantile_over(tsr_ravel_at(x, site), &args, bits, site);
  return tsr_reshape_at(line, x->shape, site);
}

array *tsr_quantile_at(const tsr_quantile_args *args, const char *site)
{
  return quantile("tsr_quantile", args, 1, site);
}

array *tsr_percentile_at(const tsr_quantile_args *args, const char *site)
{
  return quantile("tsr_percentile", args, 100, site);
}

array *tsr_median_at(const tsr_quantile_args *args, const char *site)
{
  return quantile("tsr_median", args, 0, site);
}

/* ---- comparisons ---- */

/* Equal, or both NaN where that counts. */
static array *same(array *a, array *b, bool equal_nan, const char *site)
{
  array *even = tsr_eq_at(a, tsr__of(b), site);
  if (!equal_nan) return even;
  array *both = tsr_and_at(tsr_isnan_at(a, site), tsr__of(tsr_isnan_at(b, site)), site);
  return tsr_or_at(even, tsr__of(both), site);
}

static array *close(const char *what, const tsr_close_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->a : NULL), what + strlen("tsr_"));
  tsr_close_args args = { .size = sizeof args };
  array *a = given ? given->a : NULL, *bad = take(what, given, &args, sizeof args, a, site);
  if (bad) return bad;
  if (!tsr__usable(args.b)) return tsr_eq_at(a, tsr__of(args.b), site);
  a = tsr__as_float(tsr__settled(a, args.b, site), site);
  array *b = tsr__as_float(tsr__settled(args.b, a, site), site), *size = tsr_abs_at(b, site);
  /* 0 is a field that was left out; a negative one asks for 0. */
  double rtol = args.rtol < 0 ? 0 : args.rtol > 0 ? args.rtol : 1e-5;
  double atol = args.atol < 0 ? 0 : args.atol > 0 ? args.atol : 1e-8;
  array *apart = tsr_abs_at(tsr_sub_at(a, tsr__of(b), site), site);
  array *most = tsr_mul_at(size, tsr_operand_float(rtol), site);
  most = tsr_add_at(most, tsr_operand_float(atol), site);
  array *near = tsr_le_at(apart, tsr__of(most), site);
  /* Within a tolerance of infinity everything would be close to it; equal infinities are, below. */
  array *finite = tsr_lt_at(size, tsr_operand_float((double)INFINITY), site);
  near = tsr_and_at(near, tsr__of(finite), site);
  return tsr_or_at(near, tsr__of(same(a, b, args.equal_nan, site)), site);
}

static array *all_of(array *a, const char *site)
{
  return tsr_all_at(&(tsr_reduce_args){ .x = a }, site);
}

array *tsr_isclose_at(const tsr_close_args *args, const char *site)
{
  return close("tsr_isclose", args, site);
}

array *tsr_allclose_at(const tsr_close_args *args, const char *site)
{
  return all_of(close("tsr_allclose", args, site), site);
}

array *tsr_array_equal_at(const tsr_close_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->a : NULL), "array_equal");
  tsr_close_args args = { .size = sizeof args };
  array *a = given ? given->a : NULL;
  array *bad = take("tsr_array_equal", given, &args, sizeof args, a, site);
  if (bad) return bad;
  if (!tsr__usable(args.b)) return tsr_eq_at(a, tsr__of(args.b), site);
  bool alike = a->shape.rank == args.b->shape.rank;
  for (int d = 0; alike && d < a->shape.rank; d++)
    alike = a->shape.dims[d] == args.b->shape.dims[d];
  /* Other shapes are no error, they are another answer. */
  if (!alike)
    return tsr__strong_number(tsr__home_of(TSR__IN(a, args.b)), tsr_scalar_bool(false), site);
  return all_of(same(a, args.b, args.equal_nan, site), site);
}
