/* Products in C++: see tessera.hpp; products.h documents the calls. */
#ifndef TESSERA_PRODUCTS_HPP
#define TESSERA_PRODUCTS_HPP

#include "array.hpp"
#include "products.h"

namespace tessera {

/* The two operands are converted to `dtype`, if it is given. */
#define TESSERA_PRODUCT_(name)                                            \
  inline array name(const array &a, const array &b, tsr_dtype dtype = {}, \
                    location at = location::current())                    \
  {                                                                       \
    tsr_product_args args = {};                                           \
    args.a = a.raw();                                                     \
    args.b = b.raw();                                                     \
    args.dtype = dtype;                                                   \
    args = detail::sized(args);                                           \
    return array(tsr_##name##_at(&args, detail::site(at)));               \
  }
TESSERA_PRODUCT_(matmul)
TESSERA_PRODUCT_(dot)
TESSERA_PRODUCT_(inner)
TESSERA_PRODUCT_(outer)
TESSERA_PRODUCT_(vdot)
TESSERA_PRODUCT_(kron)
#undef TESSERA_PRODUCT_

/* Contracts the last `count` dims of `a` with the first of `b`. */
inline array tensordot(const array &a, const array &b, int count, tsr_dtype dtype = {},
                       location at = location::current())
{
  tsr_tensordot_args args = {};
  args.a = a.raw();
  args.b = b.raw();
  args.count = count;
  args.dtype = dtype;
  args = detail::sized(args);
  return array(tsr_tensordot_at(&args, detail::site(at)));
}

/* Contracts dims of `a` with dims of `b`, pair by pair. */
inline array tensordot(const array &a, const array &b, std::initializer_list<int> a_dims,
                       std::initializer_list<int> b_dims, tsr_dtype dtype = {},
                       location at = location::current())
{
  if (a_dims.size() != b_dims.size())
    throw error(TSR_EARG, "tessera::tensordot: another number of dims of the left operand");
  tsr_tensordot_args args = {};
  args.a = a.raw();
  args.b = b.raw();
  args.count = detail::count_of(a_dims.size());
  args.a_dims = a_dims.begin();
  args.b_dims = b_dims.begin();
  args.dtype = dtype;
  args = detail::sized(args);
  return array(tsr_tensordot_at(&args, detail::site(at)));
}

inline array einsum(const char *text, const std::vector<array> &arrays, tsr_dtype dtype = {},
                    location at = location::current())
{
  detail::raws raw(arrays);
  tsr_einsum_args args = {};
  args.text = text;
  args.arrays = raw.data();
  args.count = raw.count();
  args.dtype = dtype;
  args = detail::sized(args);
  return array(tsr_einsum_at(&args, detail::site(at)));
}

inline array trace(const array &x, std::int64_t offset = 0, int first = 0, int second = 1,
                   location at = location::current())
{
  tsr_trace_args args = {};
  args.x = x.raw();
  args.offset = offset;
  args.dims[0] = first;
  args.dims[1] = second;
  args = detail::sized(args);
  return array(tsr_trace_at(&args, detail::site(at)));
}

} // namespace tessera

#endif
