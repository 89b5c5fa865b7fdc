/* Elementwise calls that are compositions of operations: no kernels of their own, one fused loop as
 * what they are made of.
 *
 * Operands that cannot be used go straight to the first operation of the composition, which says so
 * in the name of the call (TSR__CALL): no check stands twice. */
#include "tessera/elementwise.h"

#include "array/array_room.h"

#include <math.h>

typedef tsr_array array;

static bool is_natural(const array *a)
{
  return tsr__dtype_info_of((tsr_dtype)a->dtype)->kind == TSR__DTYPE_UINT;
}

/* A float number in the dtype that `beside` has or, of integers, becomes. */
static array *real_beside(array *beside, double value, const char *site)
{
  tsr_dtype dtype = tsr__of_floats(beside) ? (tsr_dtype)beside->dtype : TSR_F64;
  return tsr__number_node(tsr__home(beside), tsr_scalar_float(value), dtype, NULL, site);
}

/* ---- arithmetic ---- */

array *tsr_fma_at(array *a, tsr_operand b, tsr_operand c, const char *site)
{
  /* What broadcasts and what is promoted is the row's affair; numbers follow the dtype of `a`, or
   * of the first array if that is one. */
  tsr_scope *scope = tsr__home_of(TSR__IN(a, b.array, c.array));
  array *lead = a;
  if (tsr__usable(a) && a->weak && (b.array || c.array)) lead = b.array ? b.array : c.array;
  array *by = tsr__operand_node(scope, lead, b, site),
        *more = tsr__operand_node(scope, lead, c, site);
  return tsr__make(scope, TSR__OP_FMA, TSR__IN(a, by, more), &(tsr__ask){ 0 }, site);
}

array *tsr_fma_of_at(tsr_operand a, tsr_operand b, tsr_operand c, const char *site)
{
  return tsr_fma_at(tsr__left_node(a, TSR__IN(b.array, c.array), site), b, c, site);
}

array *tsr_square_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "square");
  return tsr_mul_at(a, tsr__of(a), site);
}

array *tsr_reciprocal_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "reciprocal");
  return tsr_div_at(!tsr__usable(a) ? a : real_beside(a, 1, site), tsr__of(a), site);
}

void tsr_divmod_at(array *a, tsr_operand b, array *out[2], const char *site)
{
  TSR__CALL(tsr__home(a), "divmod");
  /* Both before either is written: `out` may hold operands. */
  array *both[2] = { tsr_floordiv_at(a, b, site), tsr_mod_at(a, b, site) };
  memcpy(out, both, sizeof both);
}

void tsr_divmod_of_at(tsr_operand a, tsr_operand b, array *out[2], const char *site)
{
  tsr_divmod_at(tsr__left_node(a, TSR__IN(b.array), site), b, out, site);
}

array *tsr_sign_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "sign");
  if (!tsr__usable(a)) return tsr_neg_at(a, site);
  if (a->dtype == TSR_BOOL) return tsr_neg_at(a, site); /* refuses it */
  /* Of unsigned numbers 0 or 1. */
  if (is_natural(a)) return tsr_minimum_at(a, tsr_operand_int(1), site);
  /* The comparisons leave NaN and 0 over; what they leave is a + 0, since -0 becomes 0. A gradient
   * sees no way through either. */
  array *zero = tsr_add_at(tsr_stop_gradient_at(a, site), tsr_operand_int(0), site);
  array *below = tsr_lt_at(a, tsr_operand_int(0), site);
  array *rest = tsr_where_at(below, tsr_operand_int(-1), tsr__of(zero), site);
  return tsr_where_at(tsr_gt_at(a, tsr_operand_int(0), site), tsr_operand_int(1), tsr__of(rest),
                      site);
}

array *tsr_clip_at(array *a, tsr_operand low, tsr_operand high, const char *site)
{
  TSR__CALL(tsr__home(a), "clip");
  a = tsr__settled(a, low.array ? low.array : high.array, site);
  /* In this order an empty range gives `high`, as in NumPy. */
  return tsr_minimum_at(tsr_maximum_at(a, low, site), high, site);
}

/* The right operand as an array. */
static array *right_of(array *a, tsr_operand b, const char *site)
{
  array *right = tsr__operand_node(tsr__home_of(TSR__IN(a, b.array)), a, b, site);
  return tsr__settled(right, a, site);
}

/* Of two NaN one is left, as each gives way to the other. */
static array *extreme(tsr__op op, array *a, tsr_operand b, const char *site)
{
  a = tsr__settled(a, b.array, site);
  array *right = right_of(a, b, site);
  array *both = tsr__binary(op, a, tsr__of(right), site);
  if (!tsr__usable(a) || !tsr__usable(right) || !tsr__usable(both) || !tsr__of_floats(both))
    return both;
  /* NaN gives way to a number: minimum and maximum alone would keep it. */
  both = tsr_where_at(tsr_isnan_at(right, site), tsr__of(a), tsr__of(both), site);
  return tsr_where_at(tsr_isnan_at(a, site), tsr__of(right), tsr__of(both), site);
}

array *tsr_fmin_at(array *a, tsr_operand b, const char *site)
{
  TSR__CALL(tsr__home(a), "fmin");
  return extreme(TSR__OP_MINIMUM, a, b, site);
}

array *tsr_fmax_at(array *a, tsr_operand b, const char *site)
{
  TSR__CALL(tsr__home(a), "fmax");
  return extreme(TSR__OP_MAXIMUM, a, b, site);
}

array *tsr_heaviside_at(array *a, tsr_operand at_zero, const char *site)
{
  TSR__CALL(tsr__home(a), "heaviside");
  a = tsr__settled(a, at_zero.array, site);
  if (!tsr__usable(a)) return tsr_neg_at(a, site);
  if (!tsr__of_floats(a)) a = tsr_cast_at(a, TSR_F64, site);
  array *right = right_of(a, at_zero, site);
  array *zero = tsr_eq_at(a, tsr_operand_int(0), site);
  array *rest = tsr_where_at(zero, tsr__of(right), tsr__of(a), site); /* NaN stays */
  rest =
      tsr_where_at(tsr_gt_at(a, tsr_operand_int(0), site), tsr_operand_int(1), tsr__of(rest), site);
  return tsr_where_at(tsr_lt_at(a, tsr_operand_int(0), site), tsr_operand_int(0), tsr__of(rest),
                      site);
}

static array *scaled(array *a, double by, const char *site)
{
  return tsr_mul_at(a, !tsr__usable(a) ? tsr__of(a) : tsr__of(real_beside(a, by, site)), site);
}

array *tsr_deg2rad_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "deg2rad");
  return scaled(a, 0x1.1df46a2529d39p-6, site); /* pi / 180 */
}

array *tsr_rad2deg_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "rad2deg");
  return scaled(a, 0x1.ca5dc1a63c1f8p+5, site);
}

/* ---- rounding ---- */

/* To multiples of 10^digits, exactly: the quotient rounded down, and one more where more than half
 * is left, or half beside an odd one. Quotient and rest are those of a division rounded down, so
 * the rest is 0 .. unit - 1 for negative numbers, too. 25 to tens: two tens and a rest of 5, as far
 * as to the next: a tie, which stays with the even quotient; 35 goes up to 40. */
static array *round_whole(array *x, int digits, const char *site)
{
  tsr_dtype dtype = (tsr_dtype)x->dtype, wide = dtype == TSR_U64 ? TSR_U64 : TSR_I64;
  uint64_t unit = 1;
  /* The nearest multiple of more than 10^18 is 0, or no number of the dtype. */
  if (digits > (dtype == TSR_U64 ? 19 : 18)) return tsr_mul_at(x, tsr_operand_int(0), site);
  for (int i = 0; i < digits; i++) unit *= 10;
  tsr_operand by = tsr_operand_uint(unit);
  array *value = tsr_cast_at(x, wide, site), *quotient = tsr_floordiv_at(value, by, site);
  array *rest = tsr_mod_at(value, by, site);
  /* What is missing to the next multiple: compared instead of half the unit, which may be no
   * integer. */
  array *other = tsr_add_at(tsr_neg_at(rest, site), by, site);
  array *odd = tsr_cast_at(tsr_and_at(quotient, tsr_operand_int(1), site), TSR_BOOL, site);
  array *tie = tsr_and_at(tsr_eq_at(rest, tsr__of(other), site), tsr__of(odd), site);
  array *up = tsr_or_at(tsr_gt_at(rest, tsr__of(other), site), tsr__of(tie), site);
  quotient = tsr_add_at(quotient, tsr__of(tsr_cast_at(up, wide, site)), site);
  return tsr_cast_at(tsr_mul_at(quotient, by, site), dtype, site);
}

/* Integers have no decimals: they are rounded only to tens and more. */
array *tsr_round_at(const tsr_round_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "round");
  tsr_round_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_round", given, &args, sizeof args, &error);
  array *x = given ? given->x : NULL;
  if (!tsr__usable(x)) return tsr_rint_at(x, site);
  if (status) return tsr__refused(x, &error, site);
  int digits = args.decimals;
  if (digits > 308 || digits < -308) {
    tsr__error_set(&error, TSR_EARG, "tsr_round: %d decimals for %s, expected -308..308", digits,
                   tsr_type_of(x));
    return tsr__refused(x, &error, site);
  }
  if (!digits || x->dtype == TSR_BOOL) return tsr_rint_at(x, site);
  if (!tsr__of_floats(x)) return digits > 0 ? x : round_whole(x, -digits, site);
  /* A double holds 10^22 exactly, and no higher power. */
  array *scale = real_beside(x, pow(10, fabs((double)digits)), site);
  /* The power stays at least 1 either way: its inverse would be rounded. */
  if (digits > 0)
    return tsr_div_at(tsr_rint_at(tsr_mul_at(x, tsr__of(scale), site), site), tsr__of(scale), site);
  return tsr_mul_at(tsr_rint_at(tsr_div_at(x, tsr__of(scale), site), site), tsr__of(scale), site);
}

/* ---- questions ---- */

array *tsr_isfinite_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "isfinite");
  if (!tsr__usable(a)) return tsr_isnan_at(a, site);
  /* Of integers each is finite: equal to itself. */
  if (!tsr__of_floats(a)) return tsr_eq_at(a, tsr__of(a), site);
  return tsr_lt_at(tsr_abs_at(a, site), tsr_operand_float((double)INFINITY), site);
}

array *tsr_isinf_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "isinf");
  if (!tsr__usable(a)) return tsr_isnan_at(a, site);
  if (!tsr__of_floats(a)) return tsr_ne_at(a, tsr__of(a), site);
  return tsr_eq_at(tsr_abs_at(a, site), tsr_operand_float((double)INFINITY), site);
}

array *tsr_signbit_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "signbit");
  if (!tsr__usable(a)) return tsr_isnan_at(a, site);
  if (a->dtype == TSR_BOOL) return tsr_ne_at(a, tsr__of(a), site);
  /* -0 and NaN have signs, too: the sign is put on a 1, which compares. */
  if (tsr__of_floats(a)) a = tsr_copysign_at(real_beside(a, 1, site), tsr__of(a), site);
  return tsr_lt_at(a, tsr_operand_int(0), site);
}

/* Numbers count as true where they are not 0. */
static array *logical(tsr__op op, array *a, tsr_operand b, const char *site)
{
  if (!tsr__usable(a)) return tsr__binary(op, a, b, site);
  array *right = right_of(a, b, site);
  if (right) right = tsr_cast_at(right, TSR_BOOL, site);
  return tsr__binary(op, tsr_cast_at(a, TSR_BOOL, site), tsr__of(right), site);
}

array *tsr_logical_and_at(array *a, tsr_operand b, const char *site)
{
  TSR__CALL(tsr__home(a), "logical_and");
  return logical(TSR__OP_AND, a, b, site);
}

array *tsr_logical_or_at(array *a, tsr_operand b, const char *site)
{
  TSR__CALL(tsr__home(a), "logical_or");
  return logical(TSR__OP_OR, a, b, site);
}

array *tsr_logical_xor_at(array *a, tsr_operand b, const char *site)
{
  TSR__CALL(tsr__home(a), "logical_xor");
  return logical(TSR__OP_XOR, a, b, site);
}

array *tsr_logical_not_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "logical_not");
  return tsr_not_at(tsr_cast_at(a, TSR_BOOL, site), site);
}

/* The largest number of a float dtype. Of f32, whose least number is 2^-149 and which has 24 bits:
 * (2 - 2^-23) * 2^127. */
static double largest_of(const array *x)
{
  const tsr__dtype_info *info = tsr__dtype_info_of((tsr_dtype)x->dtype);
  /* The exponent of the smallest normal number; 1 less it is that of the largest. */
  int first = info->lowest + info->precision - 1;
  return ldexp(2 - ldexp(1, 1 - info->precision), 1 - first);
}

/* `x` with `value`, or where that is not given `other`, in the place of what `test` names. */
static array *replaced(array *x, array *test, tsr_operand value, double other, const char *site)
{
  if (!tsr__is_given(value)) value = tsr_operand_float(other);
  return tsr_where_at(test, value, tsr__of(x), site);
}

array *tsr_nan_to_num_at(const tsr_nan_to_num_args *given, const char *site)
{
  TSR__CALL(tsr__home(given ? given->x : NULL), "nan_to_num");
  tsr_nan_to_num_args args = { .size = sizeof args };
  tsr__error error = { .status = TSR_OK };
  tsr_status status = tsr__take_opts("tsr_nan_to_num", given, &args, sizeof args, &error);
  array *x = given ? given->x : NULL;
  if (!tsr__usable(x)) return tsr_neg_at(x, site);
  if (status) return tsr__refused(x, &error, site);
  if (!tsr__of_floats(x)) return x;
  double top = largest_of(x), inf = (double)INFINITY;
  /* Tests look at `x` itself, so that what one replacement put in is not taken for another. */
  array *out = replaced(x, tsr_isnan_at(x, site), args.nan, 0, site);
  out = replaced(out, tsr_eq_at(x, tsr_operand_float(inf), site), args.posinf, top, site);
  return replaced(out, tsr_eq_at(x, tsr_operand_float(-inf), site), args.neginf, -top, site);
}

/* ---- special functions ---- */

/* log z - 1/(2z) - 1/(12z^2) + 1/(120z^4) - ..., of z at least 10: the rest is below the last bit.
 * The numbers are Bernoulli's, B(2k) / 2k. */
static array *digamma_far(array *z, const char *site)
{
  static const double terms[] = { 1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                  5.0 / 660, -691.0 / 32760, 1.0 / 12 };
  int last = (int)(sizeof terms / sizeof *terms) - 1;
  array *one = tsr_reciprocal_at(z, site), *square = tsr_mul_at(one, tsr__of(one), site);
  array *sum = tsr_mul_at(square, tsr_operand_float(terms[last]), site);
  /* By Horner in 1 / z^2, from the last term. */
  for (int i = last - 1; i >= 0; i--) {
    sum = tsr_add_at(sum, tsr_operand_float(terms[i]), site);
    sum = tsr_mul_at(sum, tsr__of(square), site);
  }
  sum = tsr_add_at(sum, tsr__of(tsr_mul_at(one, tsr_operand_float(0.5), site)), site);
  return tsr_sub_at(tsr_log_at(z, site), tsr__of(sum), site);
}

/* Ten steps up, from where it is close to its series; below 1/2 it is mirrored:
 * digamma(a) = digamma(1 - a) - pi / tan(pi a). */
array *tsr_digamma_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "digamma");
  if (!tsr__usable(a)) return tsr_lgamma_at(a, site);
  tsr_dtype dtype = tsr__of_floats(a) ? (tsr_dtype)a->dtype : TSR_F64;
  /* In f32 at least: formulas of few bits would lose most of them. */
  array *x = tsr_cast_at(a, dtype == TSR_F64 ? TSR_F64 : TSR_F32, site);
  array *low = tsr_lt_at(x, tsr_operand_float(0.5), site);
  array *other = tsr_add_at(tsr_neg_at(x, site), tsr_operand_int(1), site);
  array *z = tsr_where_at(low, tsr__of(other), tsr__of(x), site), *steps = NULL;
  /* digamma(z) = digamma(z + 10) - 1/z - 1/(z + 1) - ... - 1/(z + 9). */
  for (int i = 9; i >= 0; i--) {
    array *at = tsr_add_at(z, tsr_operand_float(i), site);
    array *step = tsr_reciprocal_at(at, site);
    steps = steps ? tsr_add_at(steps, tsr__of(step), site) : step;
  }
  array *up = digamma_far(tsr_add_at(z, tsr_operand_float(10), site), site);
  array *out = tsr_sub_at(up, tsr__of(steps), site);
  /* The tangent is taken of what is left of `x` beside its nearest whole number, which is exact,
   * since tan has the period pi; where nothing is left digamma has a pole. Elements that are not
   * mirrored get some harmless angle. */
  array *turn = tsr_sub_at(x, tsr__of(tsr_rint_at(x, site)), site);
  turn = tsr_where_at(low, tsr__of(turn), tsr_operand_float(0.25), site);
  tsr_operand pi = tsr_operand_float(0x1.921fb54442d18p+1);
  array *slope = tsr_reciprocal_at(tsr_tan_at(tsr_mul_at(turn, pi, site), site), site);
  slope = tsr_mul_at(slope, pi, site);
  array *whole = tsr_eq_at(turn, tsr_operand_int(0), site);
  slope = tsr_where_at(whole, tsr_operand_float((double)NAN), tsr__of(slope), site);
  out = tsr_where_at(low, tsr__of(tsr_sub_at(out, tsr__of(slope), site)), tsr__of(out), site);
  return tsr_cast_at(out, dtype, site);
}

/* ---- of neural networks ---- */

array *tsr_relu_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "relu");
  if (!tsr__usable(a) || a->dtype == TSR_BOOL) return tsr_maximum_at(a, tsr_operand_int(0), site);
  array *below = tsr_le_at(a, tsr_operand_int(0), site); /* at 0 it is flat, as in JAX */
  return tsr_where_at(below, tsr_operand_int(0), tsr__of(a), site);
}

array *tsr_silu_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "silu");
  return tsr_mul_at(tsr_sigmoid_at(a, site), tsr__of(a), site);
}

array *tsr_softplus_at(array *a, const char *site)
{
  TSR__CALL(tsr__home(a), "softplus");
  return tsr_logaddexp_at(a, tsr_operand_int(0), site);
}
