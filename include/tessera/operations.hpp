/* Operations on arrays as functions of C++. Written by scripts/ops.py from src/graph/ops.def.
 * operations.h documents them. */
#ifndef TESSERA_OPERATIONS_HPP
#define TESSERA_OPERATIONS_HPP

#include "array.hpp"

namespace tessera {

inline array stop_gradient(const array &a, location at = location::current())
{
  return array(tsr_stop_gradient_at(a.raw(), detail::site(at)));
}
inline array neg(const array &a, location at = location::current())
{
  return array(tsr_neg_at(a.raw(), detail::site(at)));
}
inline array abs(const array &a, location at = location::current())
{
  return array(tsr_abs_at(a.raw(), detail::site(at)));
}
inline array rint(const array &a, location at = location::current())
{
  return array(tsr_rint_at(a.raw(), detail::site(at)));
}
inline array floor(const array &a, location at = location::current())
{
  return array(tsr_floor_at(a.raw(), detail::site(at)));
}
inline array ceil(const array &a, location at = location::current())
{
  return array(tsr_ceil_at(a.raw(), detail::site(at)));
}
inline array trunc(const array &a, location at = location::current())
{
  return array(tsr_trunc_at(a.raw(), detail::site(at)));
}
inline array popcount(const array &a, location at = location::current())
{
  return array(tsr_popcount_at(a.raw(), detail::site(at)));
}
inline array clz(const array &a, location at = location::current())
{
  return array(tsr_clz_at(a.raw(), detail::site(at)));
}
inline array isnan(const array &a, location at = location::current())
{
  return array(tsr_isnan_at(a.raw(), detail::site(at)));
}
inline array sqrt(const array &a, location at = location::current())
{
  return array(tsr_sqrt_at(a.raw(), detail::site(at)));
}
inline array exp(const array &a, location at = location::current())
{
  return array(tsr_exp_at(a.raw(), detail::site(at)));
}
inline array exp2(const array &a, location at = location::current())
{
  return array(tsr_exp2_at(a.raw(), detail::site(at)));
}
inline array expm1(const array &a, location at = location::current())
{
  return array(tsr_expm1_at(a.raw(), detail::site(at)));
}
inline array log(const array &a, location at = location::current())
{
  return array(tsr_log_at(a.raw(), detail::site(at)));
}
inline array log1p(const array &a, location at = location::current())
{
  return array(tsr_log1p_at(a.raw(), detail::site(at)));
}
inline array log2(const array &a, location at = location::current())
{
  return array(tsr_log2_at(a.raw(), detail::site(at)));
}
inline array log10(const array &a, location at = location::current())
{
  return array(tsr_log10_at(a.raw(), detail::site(at)));
}
inline array tanh(const array &a, location at = location::current())
{
  return array(tsr_tanh_at(a.raw(), detail::site(at)));
}
inline array asinh(const array &a, location at = location::current())
{
  return array(tsr_asinh_at(a.raw(), detail::site(at)));
}
inline array acosh(const array &a, location at = location::current())
{
  return array(tsr_acosh_at(a.raw(), detail::site(at)));
}
inline array atanh(const array &a, location at = location::current())
{
  return array(tsr_atanh_at(a.raw(), detail::site(at)));
}
inline array sin(const array &a, location at = location::current())
{
  return array(tsr_sin_at(a.raw(), detail::site(at)));
}
inline array cos(const array &a, location at = location::current())
{
  return array(tsr_cos_at(a.raw(), detail::site(at)));
}
inline array tan(const array &a, location at = location::current())
{
  return array(tsr_tan_at(a.raw(), detail::site(at)));
}
inline array cbrt(const array &a, location at = location::current())
{
  return array(tsr_cbrt_at(a.raw(), detail::site(at)));
}
inline array asin(const array &a, location at = location::current())
{
  return array(tsr_asin_at(a.raw(), detail::site(at)));
}
inline array acos(const array &a, location at = location::current())
{
  return array(tsr_acos_at(a.raw(), detail::site(at)));
}
inline array atan(const array &a, location at = location::current())
{
  return array(tsr_atan_at(a.raw(), detail::site(at)));
}
inline array sinh(const array &a, location at = location::current())
{
  return array(tsr_sinh_at(a.raw(), detail::site(at)));
}
inline array cosh(const array &a, location at = location::current())
{
  return array(tsr_cosh_at(a.raw(), detail::site(at)));
}
inline array erf(const array &a, location at = location::current())
{
  return array(tsr_erf_at(a.raw(), detail::site(at)));
}
inline array erfc(const array &a, location at = location::current())
{
  return array(tsr_erfc_at(a.raw(), detail::site(at)));
}
inline array erfinv(const array &a, location at = location::current())
{
  return array(tsr_erfinv_at(a.raw(), detail::site(at)));
}
inline array lgamma(const array &a, location at = location::current())
{
  return array(tsr_lgamma_at(a.raw(), detail::site(at)));
}
inline array sigmoid(const array &a, location at = location::current())
{
  return array(tsr_sigmoid_at(a.raw(), detail::site(at)));
}
inline array gelu(const array &a, location at = location::current())
{
  return array(tsr_gelu_at(a.raw(), detail::site(at)));
}
inline array add(const array &a, operand b)
{
  return array(tsr_add_at(a.raw(), b.raw(), b.site()));
}
inline array add(number a, const array &b)
{
  return a.beside(tsr_add_at, b);
}
inline array sub(const array &a, operand b)
{
  return array(tsr_sub_at(a.raw(), b.raw(), b.site()));
}
inline array sub(number a, const array &b)
{
  return a.beside(tsr_sub_at, b);
}
inline array mul(const array &a, operand b)
{
  return array(tsr_mul_at(a.raw(), b.raw(), b.site()));
}
inline array mul(number a, const array &b)
{
  return a.beside(tsr_mul_at, b);
}
inline array div(const array &a, operand b)
{
  return array(tsr_div_at(a.raw(), b.raw(), b.site()));
}
inline array div(number a, const array &b)
{
  return a.beside(tsr_div_at, b);
}
inline array floordiv(const array &a, operand b)
{
  return array(tsr_floordiv_at(a.raw(), b.raw(), b.site()));
}
inline array floordiv(number a, const array &b)
{
  return a.beside(tsr_floordiv_at, b);
}
inline array mod(const array &a, operand b)
{
  return array(tsr_mod_at(a.raw(), b.raw(), b.site()));
}
inline array mod(number a, const array &b)
{
  return a.beside(tsr_mod_at, b);
}
inline array fmod(const array &a, operand b)
{
  return array(tsr_fmod_at(a.raw(), b.raw(), b.site()));
}
inline array fmod(number a, const array &b)
{
  return a.beside(tsr_fmod_at, b);
}
inline array pow(const array &a, operand b)
{
  return array(tsr_pow_at(a.raw(), b.raw(), b.site()));
}
inline array pow(number a, const array &b)
{
  return a.beside(tsr_pow_at, b);
}
inline array minimum(const array &a, operand b)
{
  return array(tsr_minimum_at(a.raw(), b.raw(), b.site()));
}
inline array minimum(number a, const array &b)
{
  return a.beside(tsr_minimum_at, b);
}
inline array maximum(const array &a, operand b)
{
  return array(tsr_maximum_at(a.raw(), b.raw(), b.site()));
}
inline array maximum(number a, const array &b)
{
  return a.beside(tsr_maximum_at, b);
}
inline array copysign(const array &a, operand b)
{
  return array(tsr_copysign_at(a.raw(), b.raw(), b.site()));
}
inline array copysign(number a, const array &b)
{
  return a.beside(tsr_copysign_at, b);
}
inline array nextafter(const array &a, operand b)
{
  return array(tsr_nextafter_at(a.raw(), b.raw(), b.site()));
}
inline array nextafter(number a, const array &b)
{
  return a.beside(tsr_nextafter_at, b);
}
inline array atan2(const array &a, operand b)
{
  return array(tsr_atan2_at(a.raw(), b.raw(), b.site()));
}
inline array atan2(number a, const array &b)
{
  return a.beside(tsr_atan2_at, b);
}
inline array hypot(const array &a, operand b)
{
  return array(tsr_hypot_at(a.raw(), b.raw(), b.site()));
}
inline array hypot(number a, const array &b)
{
  return a.beside(tsr_hypot_at, b);
}
inline array logaddexp(const array &a, operand b)
{
  return array(tsr_logaddexp_at(a.raw(), b.raw(), b.site()));
}
inline array logaddexp(number a, const array &b)
{
  return a.beside(tsr_logaddexp_at, b);
}
inline array eq(const array &a, operand b)
{
  return array(tsr_eq_at(a.raw(), b.raw(), b.site()));
}
inline array eq(number a, const array &b)
{
  return a.beside(tsr_eq_at, b);
}
inline array ne(const array &a, operand b)
{
  return array(tsr_ne_at(a.raw(), b.raw(), b.site()));
}
inline array ne(number a, const array &b)
{
  return a.beside(tsr_ne_at, b);
}
inline array lt(const array &a, operand b)
{
  return array(tsr_lt_at(a.raw(), b.raw(), b.site()));
}
inline array lt(number a, const array &b)
{
  return a.beside(tsr_lt_at, b);
}
inline array le(const array &a, operand b)
{
  return array(tsr_le_at(a.raw(), b.raw(), b.site()));
}
inline array le(number a, const array &b)
{
  return a.beside(tsr_le_at, b);
}
inline array gt(const array &a, operand b)
{
  return array(tsr_gt_at(a.raw(), b.raw(), b.site()));
}
inline array gt(number a, const array &b)
{
  return a.beside(tsr_gt_at, b);
}
inline array ge(const array &a, operand b)
{
  return array(tsr_ge_at(a.raw(), b.raw(), b.site()));
}
inline array ge(number a, const array &b)
{
  return a.beside(tsr_ge_at, b);
}
inline array left_shift(const array &a, operand b)
{
  return array(tsr_left_shift_at(a.raw(), b.raw(), b.site()));
}
inline array left_shift(number a, const array &b)
{
  return a.beside(tsr_left_shift_at, b);
}
inline array right_shift(const array &a, operand b)
{
  return array(tsr_right_shift_at(a.raw(), b.raw(), b.site()));
}
inline array right_shift(number a, const array &b)
{
  return a.beside(tsr_right_shift_at, b);
}

} // namespace tessera

#endif
