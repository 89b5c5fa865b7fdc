/* Elementwise calls that are composed of the operations of operations.h, or take more than two
 * operands.
 *
 * Shapes broadcast and dtypes promote as in tsr_add; results are owned as results are (base.h). */
#ifndef TESSERA_ELEMENTWISE_H
#define TESSERA_ELEMENTWISE_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arithmetic ---- */

/* Returns a * b + c rounded once, in the float dtype that the operands promote to; integers become
 * f64. Local. */
TSR_API tsr_array *tsr_fma_at(tsr_array *a, tsr_operand b, tsr_operand c, const char *site);
/* Returns tsr_fma of a left operand that may be a number, as in tsr_binary_at. Local. */
TSR_API tsr_array *tsr_fma_of_at(tsr_operand a, tsr_operand b, tsr_operand c, const char *site);
/* Returns a * a. Error: TSR_EDTYPE for bool. Local. */
TSR_API tsr_array *tsr_square_at(tsr_array *a, const char *site);
/* Returns 1 / a; integers become f64. Local. */
TSR_API tsr_array *tsr_reciprocal_at(tsr_array *a, const char *site);
/* Writes tsr_floordiv to out[0] and tsr_mod to out[1]; both are inert after an error. Local. */
TSR_API void tsr_divmod_at(tsr_array *a, tsr_operand b, tsr_array *out[2], const char *site);
/* Writes tsr_divmod of a left operand that may be a number, as in tsr_binary_at. Local. */
TSR_API void tsr_divmod_of_at(tsr_operand a, tsr_operand b, tsr_array *out[2], const char *site);
/* Returns -1, 0 or 1 by the sign of `a`, in its dtype; NaN for NaN, 0 for -0. Error: TSR_EDTYPE for
 * bool. Local. */
TSR_API tsr_array *tsr_sign_at(tsr_array *a, const char *site);
/* Returns `a` limited to the range from `low` to `high`: the minimum of `high` and the maximum of
 * `low` and a; NaN stays. Local. */
TSR_API tsr_array *tsr_clip_at(tsr_array *a, tsr_operand low, tsr_operand high, const char *site);
/* Returns the smaller operand, or the other one where one is NaN. Local. */
TSR_API tsr_array *tsr_fmin_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the larger operand, or the other one where one is NaN. Local. */
TSR_API tsr_array *tsr_fmax_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns 0 where a is below 0, 1 where it is above, `at_zero` where it is 0, NaN for NaN; integers
 * become f64. Local. */
TSR_API tsr_array *tsr_heaviside_at(tsr_array *a, tsr_operand at_zero, const char *site);
/* Returns degrees converted to radians; integers become f64. Local. */
TSR_API tsr_array *tsr_deg2rad_at(tsr_array *a, const char *site);
/* Returns radians converted to degrees; integers become f64. Local. */
TSR_API tsr_array *tsr_rad2deg_at(tsr_array *a, const char *site);

/* Arguments of tsr_round. */
typedef struct tsr_round_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  int decimals; /* digits after the point; negative: that many digits before it become 0 */
} tsr_round_args;

/* Returns x rounded to the nearest number of `decimals` digits, ties to even: tsr_round(x,
 * .decimals = 2). Floats are scaled by a power of ten, rounded and scaled back, as in NumPy;
 * integers are exact, and wrap where the result does not fit. Errors: TSR_EARG beyond 308 decimals,
 * TSR_EDTYPE for bool. Local. */
TSR_API tsr_array *tsr_round_at(const tsr_round_args *args, const char *site);

/* ---- tests of elements ---- */

/* Returns whether each element is neither infinite nor NaN, as bool. Local. */
TSR_API tsr_array *tsr_isfinite_at(tsr_array *a, const char *site);
/* Returns whether each element is infinite, as bool. Local. */
TSR_API tsr_array *tsr_isinf_at(tsr_array *a, const char *site);
/* Returns whether the sign bit of each element is set, also for -0 and NaN, as bool. Local. */
TSR_API tsr_array *tsr_signbit_at(tsr_array *a, const char *site);
/* Returns whether both operands are nonzero, as bool. Local. */
TSR_API tsr_array *tsr_logical_and_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns whether at least one operand is nonzero, as bool. Local. */
TSR_API tsr_array *tsr_logical_or_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns whether exactly one operand is nonzero, as bool. Local. */
TSR_API tsr_array *tsr_logical_xor_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns whether each element is 0, as bool. Local. */
TSR_API tsr_array *tsr_logical_not_at(tsr_array *a, const char *site);

/* Arguments of tsr_nan_to_num: the replacements of NaN and infinities. */
typedef struct tsr_nan_to_num_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  tsr_operand nan;            /* TSR_OPERAND(1.5); not given: 0 */
  tsr_operand posinf, neginf; /* not given: the largest and the smallest number of the dtype */
} tsr_nan_to_num_args;

/* Returns `x` with numbers in place of NaN and infinities: tsr_nan_to_num(x, .nan =
 * TSR_OPERAND(-1)). Integers and bools stay. Local. */
TSR_API tsr_array *tsr_nan_to_num_at(const tsr_nan_to_num_args *args, const char *site);

/* ---- special functions ---- */

/* Returns the digamma function, d/da log(gamma(a)), the slope of tsr_lgamma where a is above 0; NaN
 * at 0 and at negative integers. The error is at most 4e-15 (f32: 2e-6) times the result or 1,
 * whichever is larger, also near negative integers. Integers become f64. Local. */
TSR_API tsr_array *tsr_digamma_at(tsr_array *a, const char *site);

/* ---- neural networks ---- */

/* Returns a where it is above 0, else 0; NaN stays. Error: TSR_EDTYPE for bool. Local. */
TSR_API tsr_array *tsr_relu_at(tsr_array *a, const char *site);
/* Returns a * sigmoid(a), each rounded to the dtype; integers become f64. Local. */
TSR_API tsr_array *tsr_silu_at(tsr_array *a, const char *site);
/* Returns log(1 + exp(a)); integers become f64. Local. */
TSR_API tsr_array *tsr_softplus_at(tsr_array *a, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define tsr_fma(a, b, c) tsr_fma_of_at(TSR_LEFT_(a), TSR_OPERAND(b), TSR_OPERAND(c), TSR_HERE)
#define tsr_square(a) tsr_square_at((a), TSR_HERE)
#define tsr_reciprocal(a) tsr_reciprocal_at((a), TSR_HERE)
#define tsr_divmod(a, b, out) tsr_divmod_of_at(TSR_LEFT_(a), TSR_OPERAND(b), (out), TSR_HERE)
#define tsr_sign(a) tsr_sign_at((a), TSR_HERE)
#define tsr_clip(a, low, high) tsr_clip_at((a), TSR_OPERAND(low), TSR_OPERAND(high), TSR_HERE)
#define tsr_fmin(a, b) TSR_BINARY_(tsr_fmin_at, a, b)
#define tsr_fmax(a, b) TSR_BINARY_(tsr_fmax_at, a, b)
#define tsr_heaviside(a, at_zero) TSR_BINARY_(tsr_heaviside_at, a, at_zero)
#define tsr_deg2rad(a) tsr_deg2rad_at((a), TSR_HERE)
#define tsr_rad2deg(a) tsr_rad2deg_at((a), TSR_HERE)
#define TSR_ROUND_(array, ...) \
  (&(tsr_round_args){ .size = sizeof(tsr_round_args), .x = (array), __VA_ARGS__ })
#define tsr_round(...) tsr_round_at(TSR_ROUND_(__VA_ARGS__, ), TSR_HERE)
#define tsr_isfinite(a) tsr_isfinite_at((a), TSR_HERE)
#define tsr_isinf(a) tsr_isinf_at((a), TSR_HERE)
#define tsr_signbit(a) tsr_signbit_at((a), TSR_HERE)
#define tsr_logical_and(a, b) TSR_BINARY_(tsr_logical_and_at, a, b)
#define tsr_logical_or(a, b) TSR_BINARY_(tsr_logical_or_at, a, b)
#define tsr_logical_xor(a, b) TSR_BINARY_(tsr_logical_xor_at, a, b)
#define tsr_logical_not(a) tsr_logical_not_at((a), TSR_HERE)
#define TSR_NAN_TO_NUM_(array, ...) \
  (&(tsr_nan_to_num_args){ .size = sizeof(tsr_nan_to_num_args), .x = (array), __VA_ARGS__ })
#define tsr_nan_to_num(...) tsr_nan_to_num_at(TSR_NAN_TO_NUM_(__VA_ARGS__, ), TSR_HERE)
#define tsr_digamma(a) tsr_digamma_at((a), TSR_HERE)
#define tsr_relu(a) tsr_relu_at((a), TSR_HERE)
#define tsr_silu(a) tsr_silu_at((a), TSR_HERE)
#define tsr_softplus(a) tsr_softplus_at((a), TSR_HERE)
#endif

#endif
