/* Operations on arrays, each from a row of src/graph/ops.def. Written by scripts/ops.py. */
#include "array/array_room.h"

tsr_array *tsr_stop_gradient_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_STOP, a, site);
}

tsr_array *tsr_neg_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_NEG, a, site);
}

tsr_array *tsr_abs_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ABS, a, site);
}

tsr_array *tsr_rint_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_RINT, a, site);
}

tsr_array *tsr_floor_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_FLOOR, a, site);
}

tsr_array *tsr_ceil_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_CEIL, a, site);
}

tsr_array *tsr_trunc_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_TRUNC, a, site);
}

tsr_array *tsr_not_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_NOT, a, site);
}

tsr_array *tsr_popcount_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_POPCOUNT, a, site);
}

tsr_array *tsr_clz_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_CLZ, a, site);
}

tsr_array *tsr_isnan_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ISNAN, a, site);
}

tsr_array *tsr_sqrt_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_SQRT, a, site);
}

tsr_array *tsr_exp_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_EXP, a, site);
}

tsr_array *tsr_exp2_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_EXP2, a, site);
}

tsr_array *tsr_expm1_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_EXPM1, a, site);
}

tsr_array *tsr_log_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_LOG, a, site);
}

tsr_array *tsr_log1p_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_LOG1P, a, site);
}

tsr_array *tsr_log2_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_LOG2, a, site);
}

tsr_array *tsr_log10_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_LOG10, a, site);
}

tsr_array *tsr_tanh_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_TANH, a, site);
}

tsr_array *tsr_asinh_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ASINH, a, site);
}

tsr_array *tsr_acosh_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ACOSH, a, site);
}

tsr_array *tsr_atanh_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ATANH, a, site);
}

tsr_array *tsr_sin_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_SIN, a, site);
}

tsr_array *tsr_cos_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_COS, a, site);
}

tsr_array *tsr_tan_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_TAN, a, site);
}

tsr_array *tsr_cbrt_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_CBRT, a, site);
}

tsr_array *tsr_asin_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ASIN, a, site);
}

tsr_array *tsr_acos_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ACOS, a, site);
}

tsr_array *tsr_atan_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ATAN, a, site);
}

tsr_array *tsr_sinh_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_SINH, a, site);
}

tsr_array *tsr_cosh_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_COSH, a, site);
}

tsr_array *tsr_erf_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ERF, a, site);
}

tsr_array *tsr_erfc_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ERFC, a, site);
}

tsr_array *tsr_erfinv_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_ERFINV, a, site);
}

tsr_array *tsr_lgamma_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_LGAMMA, a, site);
}

tsr_array *tsr_sigmoid_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_SIGMOID, a, site);
}

tsr_array *tsr_gelu_at(tsr_array *a, const char *site)
{
  return tsr__unary(TSR__OP_GELU, a, site);
}

tsr_array *tsr_add_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_ADD, a, b, site);
}

tsr_array *tsr_sub_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_SUB, a, b, site);
}

tsr_array *tsr_mul_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_MUL, a, b, site);
}

tsr_array *tsr_div_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_DIV, a, b, site);
}

tsr_array *tsr_floordiv_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_FLOORDIV, a, b, site);
}

tsr_array *tsr_mod_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_MOD, a, b, site);
}

tsr_array *tsr_fmod_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_FMOD, a, b, site);
}

tsr_array *tsr_pow_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_POW, a, b, site);
}

tsr_array *tsr_minimum_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_MINIMUM, a, b, site);
}

tsr_array *tsr_maximum_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_MAXIMUM, a, b, site);
}

tsr_array *tsr_copysign_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_COPYSIGN, a, b, site);
}

tsr_array *tsr_nextafter_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_NEXTAFTER, a, b, site);
}

tsr_array *tsr_atan2_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_ATAN2, a, b, site);
}

tsr_array *tsr_hypot_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_HYPOT, a, b, site);
}

tsr_array *tsr_logaddexp_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_LOGADDEXP, a, b, site);
}

tsr_array *tsr_eq_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_EQ, a, b, site);
}

tsr_array *tsr_ne_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_NE, a, b, site);
}

tsr_array *tsr_lt_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_LT, a, b, site);
}

tsr_array *tsr_le_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_LE, a, b, site);
}

tsr_array *tsr_gt_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_GT, a, b, site);
}

tsr_array *tsr_ge_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_GE, a, b, site);
}

tsr_array *tsr_and_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_AND, a, b, site);
}

tsr_array *tsr_or_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_OR, a, b, site);
}

tsr_array *tsr_xor_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_XOR, a, b, site);
}

tsr_array *tsr_left_shift_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_LEFT_SHIFT, a, b, site);
}

tsr_array *tsr_right_shift_at(tsr_array *a, tsr_operand b, const char *site)
{
  return tsr__binary(TSR__OP_RIGHT_SHIFT, a, b, site);
}

tsr_array *tsr_sum_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_SUM, args, site);
}

tsr_array *tsr_prod_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_PROD, args, site);
}

tsr_array *tsr_mean_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_MEAN, args, site);
}

tsr_array *tsr_var_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_VAR, args, site);
}

tsr_array *tsr_std_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_STD, args, site);
}

tsr_array *tsr_min_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_MIN, args, site);
}

tsr_array *tsr_max_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_MAX, args, site);
}

tsr_array *tsr_argmin_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_ARGMIN, args, site);
}

tsr_array *tsr_argmax_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_ARGMAX, args, site);
}

tsr_array *tsr_any_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_ANY, args, site);
}

tsr_array *tsr_all_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_ALL, args, site);
}

tsr_array *tsr_count_at(const tsr_reduce_args *args, const char *site)
{
  return tsr__reduction(TSR__OP_COUNT, args, site);
}
