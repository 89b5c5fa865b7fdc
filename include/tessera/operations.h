/* Operations on arrays, each from a row of src/graph/ops.def. Written by scripts/ops.py. */
#ifndef TESSERA_OPERATIONS_H
#define TESSERA_OPERATIONS_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise, one operand -------------------------------------------------------------- */

/* Returns a, which gradients treat as a constant. Local. */
TSR_API tsr_array *tsr_stop_gradient_at(tsr_array *a, const char *site);
/* Returns -a. Integers wrap. Error: TSR_EDTYPE for bool. Local. */
TSR_API tsr_array *tsr_neg_at(tsr_array *a, const char *site);
/* Returns |a|. Integers wrap. Local. */
TSR_API tsr_array *tsr_abs_at(tsr_array *a, const char *site);
/* Returns a rounded to the nearest integer, ties to even. Local. */
TSR_API tsr_array *tsr_rint_at(tsr_array *a, const char *site);
/* Returns a rounded down to an integer. Local. */
TSR_API tsr_array *tsr_floor_at(tsr_array *a, const char *site);
/* Returns a rounded up to an integer. Local. */
TSR_API tsr_array *tsr_ceil_at(tsr_array *a, const char *site);
/* Returns a rounded towards zero to an integer. Local. */
TSR_API tsr_array *tsr_trunc_at(tsr_array *a, const char *site);
/* Returns the logical not of bools, the bitwise not of integers. Error: TSR_EDTYPE for floats.
 * Local. */
TSR_API tsr_array *tsr_not_at(tsr_array *a, const char *site);
/* Returns the number of 1 bits of an integer, a negative one in two's complement; in its dtype.
 * Error: TSR_EDTYPE for other dtypes. Local. */
TSR_API tsr_array *tsr_popcount_at(tsr_array *a, const char *site);
/* Returns the number of leading 0 bits of an integer, all its bits for 0; in its dtype. Error:
 * TSR_EDTYPE for other dtypes. Local. */
TSR_API tsr_array *tsr_clz_at(tsr_array *a, const char *site);
/* Returns whether each element is NaN, as bool. Local. */
TSR_API tsr_array *tsr_isnan_at(tsr_array *a, const char *site);
/* Returns the square root, correctly rounded; integers become f64. Local. */
TSR_API tsr_array *tsr_sqrt_at(tsr_array *a, const char *site);
/* Returns e to the a, within 1 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_exp_at(tsr_array *a, const char *site);
/* Returns 2 to the a, within 1 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_exp2_at(tsr_array *a, const char *site);
/* Returns e to the a minus 1, within 4 ULP near 0 too; integers become f64. Local. */
TSR_API tsr_array *tsr_expm1_at(tsr_array *a, const char *site);
/* Returns the natural logarithm, within 1 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_log_at(tsr_array *a, const char *site);
/* Returns log(1 + a), within 2 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_log1p_at(tsr_array *a, const char *site);
/* Returns the logarithm to base 2, within 1 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_log2_at(tsr_array *a, const char *site);
/* Returns the logarithm to base 10, within 1 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_log10_at(tsr_array *a, const char *site);
/* Returns the hyperbolic tangent, within 2 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_tanh_at(tsr_array *a, const char *site);
/* Returns the inverse hyperbolic sine, within 4 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_asinh_at(tsr_array *a, const char *site);
/* Returns the inverse hyperbolic cosine, within 4 ULP; NaN below 1; integers become f64. Local. */
TSR_API tsr_array *tsr_acosh_at(tsr_array *a, const char *site);
/* Returns the inverse hyperbolic tangent, within 4 ULP; NaN beyond 1; integers become f64. Local.
 * */
TSR_API tsr_array *tsr_atanh_at(tsr_array *a, const char *site);
/* Returns the sine of radians, within 1 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_sin_at(tsr_array *a, const char *site);
/* Returns the cosine of radians, within 1 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_cos_at(tsr_array *a, const char *site);
/* Returns the tangent of radians, within 2 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_tan_at(tsr_array *a, const char *site);
/* Returns the cube root, also of negative numbers, within 1 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_cbrt_at(tsr_array *a, const char *site);
/* Returns the inverse sine in radians, within 2 ULP; NaN beyond 1; integers become f64. Local. */
TSR_API tsr_array *tsr_asin_at(tsr_array *a, const char *site);
/* Returns the inverse cosine in radians, within 2 ULP; NaN beyond 1; integers become f64. Local. */
TSR_API tsr_array *tsr_acos_at(tsr_array *a, const char *site);
/* Returns the inverse tangent in radians, within 2 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_atan_at(tsr_array *a, const char *site);
/* Returns the hyperbolic sine, within 3 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_sinh_at(tsr_array *a, const char *site);
/* Returns the hyperbolic cosine, within 3 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_cosh_at(tsr_array *a, const char *site);
/* Returns the error function, within 2 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_erf_at(tsr_array *a, const char *site);
/* Returns 1 minus the error function, within 4 ULP however small; integers become f64. Local. */
TSR_API tsr_array *tsr_erfc_at(tsr_array *a, const char *site);
/* Returns the inverse error function, within 4 ULP; NaN beyond 1; integers become f64. Local. */
TSR_API tsr_array *tsr_erfinv_at(tsr_array *a, const char *site);
/* Returns the logarithm of the absolute value of the gamma function, within 4 ULP, below 0 of its
 * largest term (docs/NUMERICS.md); integers become f64. Local. */
TSR_API tsr_array *tsr_lgamma_at(tsr_array *a, const char *site);
/* Returns 1 / (1 + exp(-a)), within 3 ULP; integers become f64. Local. */
TSR_API tsr_array *tsr_sigmoid_at(tsr_array *a, const char *site);
/* Returns a times the normal distribution function of a (not the tanh form), within 5 ULP; integers
 * become f64. Local. */
TSR_API tsr_array *tsr_gelu_at(tsr_array *a, const char *site);

/* ---- elementwise, two operands ------------------------------------------------------------- */

/* Returns a + b. All elementwise operations broadcast as in NumPy and round once. Dtypes promote as
 * in JAX with 64-bit types on (i64 with f32 is f32); a number takes the array's dtype where it can.
 * Integers wrap; div is true division (integers give f64). Each operation returns an array owned as
 * results are (base.h). Errors: TSR_ESHAPE, TSR_EDTYPE (also for a number that does not fit).
 * Local. */
TSR_API tsr_array *tsr_add_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a - b; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_sub_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a * b; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_mul_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a / b, true division; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_div_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the quotient rounded down, as Python's // (1 // 0.1 is 9); for integers 0 for a zero
 * divisor; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_floordiv_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the remainder of floordiv, exact and with the sign of b, as Python's %; for integers 0
 * for a zero divisor. Local. */
TSR_API tsr_array *tsr_mod_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the remainder of the division truncated towards zero, exact and with the sign of a, as
 * C's fmod; for integers 0 for a zero divisor. Local. */
TSR_API tsr_array *tsr_fmod_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a to the b, within 1 ULP; for integers exact, wrapping; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_pow_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the smaller operand; NaN wins, -0 < +0; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_minimum_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the larger operand; NaN wins, -0 < +0; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_maximum_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the absolute value of a with the sign of b, also that of 0 and NaN; integers become f64.
 * Local. */
TSR_API tsr_array *tsr_copysign_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the next number of the dtype after a towards b; b where they are equal; integers become
 * f64. Local. */
TSR_API tsr_array *tsr_nextafter_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the angle of the point (b, a), -pi to pi, within 3 ULP; signs of 0 and infinities as in
 * C's atan2; integers become f64. Local. */
TSR_API tsr_array *tsr_atan2_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns sqrt(a * a + b * b) within 2 ULP, without overflow on the way; integers become f64.
 * Local. */
TSR_API tsr_array *tsr_hypot_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns log(exp(a) + exp(b)), within 4 ULP of the largest term; integers become f64. Local. */
TSR_API tsr_array *tsr_logaddexp_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a == b, as bool; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_eq_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a != b, as bool; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_ne_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a < b, as bool; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_lt_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a <= b, as bool; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_le_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a > b, as bool; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_gt_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns a >= b, as bool; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_ge_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the logical and of bools, the bitwise and of integers; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_and_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the logical or of bools, the bitwise or of integers; see tsr_add_at. Local. */
TSR_API tsr_array *tsr_or_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the exclusive or of bools, the bitwise exclusive or of integers; see tsr_add_at. Local.
 * */
TSR_API tsr_array *tsr_xor_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the bits of a shifted left by b; 0 where b is negative or not below the number of bits.
 * Error: TSR_EDTYPE for dtypes other than integers. Local. */
TSR_API tsr_array *tsr_left_shift_at(tsr_array *a, tsr_operand b, const char *site);
/* Returns the bits of a shifted right by b, with copies of the sign shifted in: a / 2^b rounded
 * down; 0 or -1 where b is negative or not below the number of bits. Error: TSR_EDTYPE for dtypes
 * other than integers. Local. */
TSR_API tsr_array *tsr_right_shift_at(tsr_array *a, tsr_operand b, const char *site);

/* ---- reductions ---------------------------------------------------------------------------- */

/* Returns the sum, exact and rounded once; bools and signed integers sum in i64, unsigned integers
 * in u64; integers wrap at the end. The sum of no elements is 0. Returns an array owned as results
 * are. Local. */
TSR_API tsr_array *tsr_sum_at(const tsr_reduce_args *args, const char *site);
/* Returns the product; float products may depend on the mesh (docs/NUMERICS.md). The product of no
 * elements is 1. Local. */
TSR_API tsr_array *tsr_prod_at(const tsr_reduce_args *args, const char *site);
/* Returns the exact sum divided by the count, rounded once; NaN for no elements. Local. */
TSR_API tsr_array *tsr_mean_at(const tsr_reduce_args *args, const char *site);
/* Returns the variance, from exact sums, rounded once; NaN where count <= ddof. Local. */
TSR_API tsr_array *tsr_var_at(const tsr_reduce_args *args, const char *site);
/* Returns the square root of the exact variance, rounded once. Local. */
TSR_API tsr_array *tsr_std_at(const tsr_reduce_args *args, const char *site);
/* Returns the smallest element; NaN wins, -0 < +0. For no elements an error at the call, or, with
 * `where`, the largest value of the dtype (+inf for floats). Local. */
TSR_API tsr_array *tsr_min_at(const tsr_reduce_args *args, const char *site);
/* Returns the largest element; see tsr_min_at. Local. */
TSR_API tsr_array *tsr_max_at(const tsr_reduce_args *args, const char *site);
/* Returns the index (i64) of the smallest element: the first of equal ones (-0 equals +0), or the
 * first NaN; over several dims the index in their C order. For no elements an error at the call,
 * or, with `where`, -1. Local. */
TSR_API tsr_array *tsr_argmin_at(const tsr_reduce_args *args, const char *site);
/* Returns the index (i64) of the largest element; see tsr_argmin_at. Local. */
TSR_API tsr_array *tsr_argmax_at(const tsr_reduce_args *args, const char *site);
/* Returns whether any element is nonzero, as bool. Local. */
TSR_API tsr_array *tsr_any_at(const tsr_reduce_args *args, const char *site);
/* Returns whether all elements are nonzero, as bool. Local. */
TSR_API tsr_array *tsr_all_at(const tsr_reduce_args *args, const char *site);
/* Returns the number of nonzero elements, i64. Local. */
TSR_API tsr_array *tsr_count_at(const tsr_reduce_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define tsr_stop_gradient(a) tsr_stop_gradient_at((a), TSR_HERE)
#define tsr_neg(a) tsr_neg_at((a), TSR_HERE)
#define tsr_abs(a) tsr_abs_at((a), TSR_HERE)
#define tsr_rint(a) tsr_rint_at((a), TSR_HERE)
#define tsr_floor(a) tsr_floor_at((a), TSR_HERE)
#define tsr_ceil(a) tsr_ceil_at((a), TSR_HERE)
#define tsr_trunc(a) tsr_trunc_at((a), TSR_HERE)
#define tsr_not(a) tsr_not_at((a), TSR_HERE)
#define tsr_popcount(a) tsr_popcount_at((a), TSR_HERE)
#define tsr_clz(a) tsr_clz_at((a), TSR_HERE)
#define tsr_isnan(a) tsr_isnan_at((a), TSR_HERE)
#define tsr_sqrt(a) tsr_sqrt_at((a), TSR_HERE)
#define tsr_exp(a) tsr_exp_at((a), TSR_HERE)
#define tsr_exp2(a) tsr_exp2_at((a), TSR_HERE)
#define tsr_expm1(a) tsr_expm1_at((a), TSR_HERE)
#define tsr_log(a) tsr_log_at((a), TSR_HERE)
#define tsr_log1p(a) tsr_log1p_at((a), TSR_HERE)
#define tsr_log2(a) tsr_log2_at((a), TSR_HERE)
#define tsr_log10(a) tsr_log10_at((a), TSR_HERE)
#define tsr_tanh(a) tsr_tanh_at((a), TSR_HERE)
#define tsr_asinh(a) tsr_asinh_at((a), TSR_HERE)
#define tsr_acosh(a) tsr_acosh_at((a), TSR_HERE)
#define tsr_atanh(a) tsr_atanh_at((a), TSR_HERE)
#define tsr_sin(a) tsr_sin_at((a), TSR_HERE)
#define tsr_cos(a) tsr_cos_at((a), TSR_HERE)
#define tsr_tan(a) tsr_tan_at((a), TSR_HERE)
#define tsr_cbrt(a) tsr_cbrt_at((a), TSR_HERE)
#define tsr_asin(a) tsr_asin_at((a), TSR_HERE)
#define tsr_acos(a) tsr_acos_at((a), TSR_HERE)
#define tsr_atan(a) tsr_atan_at((a), TSR_HERE)
#define tsr_sinh(a) tsr_sinh_at((a), TSR_HERE)
#define tsr_cosh(a) tsr_cosh_at((a), TSR_HERE)
#define tsr_erf(a) tsr_erf_at((a), TSR_HERE)
#define tsr_erfc(a) tsr_erfc_at((a), TSR_HERE)
#define tsr_erfinv(a) tsr_erfinv_at((a), TSR_HERE)
#define tsr_lgamma(a) tsr_lgamma_at((a), TSR_HERE)
#define tsr_sigmoid(a) tsr_sigmoid_at((a), TSR_HERE)
#define tsr_gelu(a) tsr_gelu_at((a), TSR_HERE)
#define tsr_add(a, b) TSR_BINARY_(tsr_add_at, a, b)
#define tsr_sub(a, b) TSR_BINARY_(tsr_sub_at, a, b)
#define tsr_mul(a, b) TSR_BINARY_(tsr_mul_at, a, b)
#define tsr_div(a, b) TSR_BINARY_(tsr_div_at, a, b)
#define tsr_floordiv(a, b) TSR_BINARY_(tsr_floordiv_at, a, b)
#define tsr_mod(a, b) TSR_BINARY_(tsr_mod_at, a, b)
#define tsr_fmod(a, b) TSR_BINARY_(tsr_fmod_at, a, b)
#define tsr_pow(a, b) TSR_BINARY_(tsr_pow_at, a, b)
#define tsr_minimum(a, b) TSR_BINARY_(tsr_minimum_at, a, b)
#define tsr_maximum(a, b) TSR_BINARY_(tsr_maximum_at, a, b)
#define tsr_copysign(a, b) TSR_BINARY_(tsr_copysign_at, a, b)
#define tsr_nextafter(a, b) TSR_BINARY_(tsr_nextafter_at, a, b)
#define tsr_atan2(a, b) TSR_BINARY_(tsr_atan2_at, a, b)
#define tsr_hypot(a, b) TSR_BINARY_(tsr_hypot_at, a, b)
#define tsr_logaddexp(a, b) TSR_BINARY_(tsr_logaddexp_at, a, b)
#define tsr_eq(a, b) TSR_BINARY_(tsr_eq_at, a, b)
#define tsr_ne(a, b) TSR_BINARY_(tsr_ne_at, a, b)
#define tsr_lt(a, b) TSR_BINARY_(tsr_lt_at, a, b)
#define tsr_le(a, b) TSR_BINARY_(tsr_le_at, a, b)
#define tsr_gt(a, b) TSR_BINARY_(tsr_gt_at, a, b)
#define tsr_ge(a, b) TSR_BINARY_(tsr_ge_at, a, b)
#define tsr_and(a, b) TSR_BINARY_(tsr_and_at, a, b)
#define tsr_or(a, b) TSR_BINARY_(tsr_or_at, a, b)
#define tsr_xor(a, b) TSR_BINARY_(tsr_xor_at, a, b)
#define tsr_left_shift(a, b) TSR_BINARY_(tsr_left_shift_at, a, b)
#define tsr_right_shift(a, b) TSR_BINARY_(tsr_right_shift_at, a, b)
#define tsr_sum(...) tsr_sum_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_prod(...) tsr_prod_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_mean(...) tsr_mean_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_var(...) tsr_var_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_std(...) tsr_std_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_min(...) tsr_min_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_max(...) tsr_max_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_argmin(...) tsr_argmin_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_argmax(...) tsr_argmax_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_any(...) tsr_any_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_all(...) tsr_all_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_count(...) tsr_count_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#endif

#endif
