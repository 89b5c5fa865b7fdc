/* Elementwise calls that are made of the operations of operations.h, or take more than two
 * operands.
 *
 * Shapes broadcast and dtypes meet as of tsr_add; a result is owned as results are (base.h). */
#ifndef TESSERA_ELEMENTWISE_H
#define TESSERA_ELEMENTWISE_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arithmetic ---- */

/* a * b + c rounded once, in the float that they meet in; integers become f64. Local. */
TSR_API tsr_array *tsr_fma_at(tsr_array *a, tsr_operand b, tsr_operand c, const char *site);
/* The same where the left operand may be a number, as of tsr_binary_at. Local. */
TSR_API tsr_array *tsr_fma_of_at(tsr_operand a, tsr_operand b, tsr_operand c, const char *site);
/* a * a. Error: TSR_EDTYPE for bool. Local. */
TSR_API tsr_array *tsr_square_at(tsr_array *a, const char *site);
/* 1 / a; integers become f64. Local. */
TSR_API tsr_array *tsr_reciprocal_at(tsr_array *a, const char *site);
/* tsr_floordiv in out[0] and tsr_mod in out[1], inert after an error. Local. */
TSR_API void tsr_divmod_at(tsr_array *a, tsr_operand b, tsr_array *out[2], const char *site);
/* The same where the left operand may be a number, as of tsr_binary_at. Local. */
TSR_API void tsr_divmod_of_at(tsr_operand a, tsr_operand b, tsr_array *out[2], const char *site);
/* -1, 0 or 1 as the sign says, in the dtype of `a`; NaN of NaN, 0 of -0. Error: TSR_EDTYPE for
 * bool. Local. */
TSR_API tsr_array *tsr_sign_at(tsr_array *a, const char *site);
/* Elements below `low` become it, those above `high` that; NaN stays: the minimum of `high` and the
 * maximum of `low` and a. Local. */
TSR_API tsr_array *tsr_clip_at(tsr_array *a, tsr_operand low, tsr_operand high, const char *site);
/* The smaller one, or the other one where one is NaN. Local. */
TSR_API tsr_array *tsr_fmin_at(tsr_array *a, tsr_operand b, const char *site);
/* The larger one, or the other one where one is NaN. Local. */
TSR_API tsr_array *tsr_fmax_at(tsr_array *a, tsr_operand b, const char *site);
/* 0 below 0, 1 above, `at_zero` at 0, NaN of NaN; integers become f64. Local. */
TSR_API tsr_array *tsr_heaviside_at(tsr_array *a, tsr_operand at_zero, const char *site);
/* Degrees as radians; integers become f64. Local. */
TSR_API tsr_array *tsr_deg2rad_at(tsr_array *a, const char *site);
/* Radians as degrees; integers become f64. Local. */
TSR_API tsr_array *tsr_rad2deg_at(tsr_array *a, const char *site);

/* Arguments of tsr_round. */
typedef struct tsr_round_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  int decimals; /* digits behind the point; negative: that many digits before it become 0 */
} tsr_round_args;

/* Rounds to the nearest number of so many decimals, ties to even: tsr_round(x, .decimals = 2).
 * Floats are scaled by a power of ten, rounded and scaled back, as in NumPy; integers are exact,
 * and wrap where the result does not fit. Errors: TSR_EARG beyond 308 decimals, TSR_EDTYPE for
 * bool. Local. */
TSR_API tsr_array *tsr_round_at(const tsr_round_args *args, const char *site);

/* ---- questions ---- */

/* Whether each element is neither infinite nor NaN, as bool. Local. */
TSR_API tsr_array *tsr_isfinite_at(tsr_array *a, const char *site);
/* Whether each element is infinite, as bool. Local. */
TSR_API tsr_array *tsr_isinf_at(tsr_array *a, const char *site);
/* Whether each element has the sign -, of -0 and NaN too, as bool. Local. */
TSR_API tsr_array *tsr_signbit_at(tsr_array *a, const char *site);
/* Whether both are not 0, as bool. Local. */
TSR_API tsr_array *tsr_logical_and_at(tsr_array *a, tsr_operand b, const char *site);
/* Whether one at least is not 0, as bool. Local. */
TSR_API tsr_array *tsr_logical_or_at(tsr_array *a, tsr_operand b, const char *site);
/* Whether one alone is not 0, as bool. Local. */
TSR_API tsr_array *tsr_logical_xor_at(tsr_array *a, tsr_operand b, const char *site);
/* Whether each element is 0, as bool. Local. */
TSR_API tsr_array *tsr_logical_not_at(tsr_array *a, const char *site);

/* What takes the place of numbers that are none. */
typedef struct tsr_nan_to_num_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  tsr_operand nan;            /* TSR_OPERAND(1.5); not given: 0 */
  tsr_operand posinf, neginf; /* not given: the largest and the smallest number of the dtype */
} tsr_nan_to_num_args;

/* The elements of `x` with numbers in place of NaN and infinities: tsr_nan_to_num(x, .nan =
 * TSR_OPERAND(-1)). Integers and bools stay. Local. */
TSR_API tsr_array *tsr_nan_to_num_at(const tsr_nan_to_num_args *args, const char *site);

/* ---- special functions ---- */

/* The slope of tsr_lgamma where a is above 0: d/da log(gamma(a)); NaN at 0 and below at integers.
 * Within 4e-15 of it or of 1, whichever is larger, f32 within 2e-6; near integers below 0 within
 * that of what a has left to the integer. Integers become f64. Local. */
TSR_API tsr_array *tsr_digamma_at(tsr_array *a, const char *site);

/* ---- of neural networks ---- */

/* a where it is above 0, else 0; NaN stays. Error: TSR_EDTYPE for bool. Local. */
TSR_API tsr_array *tsr_relu_at(tsr_array *a, const char *site);
/* a * sigmoid(a), each rounded to the dtype; integers become f64. Local. */
TSR_API tsr_array *tsr_silu_at(tsr_array *a, const char *site);
/* log(1 + exp(a)); integers become f64. Local. */
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
