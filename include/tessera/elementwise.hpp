/* Composed elementwise calls in C++: see tessera.hpp; elementwise.h documents the calls. */
#ifndef TESSERA_ELEMENTWISE_HPP
#define TESSERA_ELEMENTWISE_HPP

#include <utility>

#include "array.hpp"
#include "elementwise.h"

namespace tessera {

#define TESSERA_UNARY_(name)                                           \
  inline array name(const array &a, location at = location::current()) \
  {                                                                    \
    return array(tsr_##name##_at(a.raw(), detail::site(at)));          \
  }
#define TESSERA_BINARY_(name)                                  \
  inline array name(const array &a, operand b)                 \
  {                                                            \
    return array(tsr_##name##_at(a.raw(), b.raw(), b.site())); \
  }                                                            \
  inline array name(number a, const array &b)                  \
  {                                                            \
    return a.beside(tsr_##name##_at, b);                       \
  }
TESSERA_UNARY_(square)
TESSERA_UNARY_(reciprocal)
TESSERA_UNARY_(sign)
TESSERA_UNARY_(deg2rad)
TESSERA_UNARY_(rad2deg)
TESSERA_UNARY_(isfinite)
TESSERA_UNARY_(isinf)
TESSERA_UNARY_(signbit)
TESSERA_UNARY_(logical_not)
TESSERA_UNARY_(relu)
TESSERA_UNARY_(digamma)
TESSERA_UNARY_(silu)
TESSERA_UNARY_(softplus)
TESSERA_BINARY_(fmin)
TESSERA_BINARY_(fmax)
TESSERA_BINARY_(heaviside)
TESSERA_BINARY_(logical_and)
TESSERA_BINARY_(logical_or)
TESSERA_BINARY_(logical_xor)
#undef TESSERA_UNARY_
#undef TESSERA_BINARY_

inline array fma(const array &a, operand b, operand c, location at = location::current())
{
  return array(tsr_fma_at(a.raw(), b.raw(), c.raw(), detail::site(at)));
}

inline array fma(number a, const array &b, operand c, location at = location::current())
{
  return array(tsr_fma_of_at(a.raw(), tsr_operand_array(b.raw()), c.raw(), detail::site(at)));
}

inline array clip(const array &a, operand low, operand high, location at = location::current())
{
  return array(tsr_clip_at(a.raw(), low.raw(), high.raw(), detail::site(at)));
}

/* Returns the quotient and the remainder. */
inline std::pair<array, array> divmod(const array &a, operand b)
{
  tsr_array *out[2];
  tsr_divmod_at(a.raw(), b.raw(), out, b.site());
  return { array(out[0]), array(out[1]) };
}

inline std::pair<array, array> divmod(number a, const array &b)
{
  tsr_array *out[2];
  tsr_divmod_of_at(a.raw(), tsr_operand_array(b.raw()), out, a.site());
  return { array(out[0]), array(out[1]) };
}

inline array round(const array &a, int decimals = 0, location at = location::current())
{
  tsr_round_args args = {};
  args.x = a.raw();
  args.decimals = decimals;
  args = detail::sized(args);
  return array(tsr_round_at(&args, detail::site(at)));
}

inline array nan_to_num(const array &a, tsr_nan_to_num_args more = {},
                        location at = location::current())
{
  more.x = a.raw();
  more = detail::sized(more);
  return array(tsr_nan_to_num_at(&more, detail::site(at)));
}

} // namespace tessera

#endif
