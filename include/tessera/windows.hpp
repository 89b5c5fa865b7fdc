/* Windows over arrays in C++: see tessera.hpp; windows.h documents the calls.
 *
 * Options are the structs of C; operands that are parameters here are set in them. */
#ifndef TESSERA_WINDOWS_HPP
#define TESSERA_WINDOWS_HPP

#include "array.hpp"
#include "windows.h"

namespace tessera {

inline array conv(const array &x, const array &kernel, tsr_conv_args more = {},
                  location at = location::current())
{
  more.x = x.raw();
  more.kernel = kernel.raw();
  more = detail::sized(more);
  return array(tsr_conv_at(&more, detail::site(at)));
}

inline array reduce_window(const array &x, tsr_window_op op, tsr_window_args more,
                           location at = location::current())
{
  more.x = x.raw();
  more.op = op;
  more = detail::sized(more);
  return array(tsr_reduce_window_at(&more, detail::site(at)));
}

#define TESSERA_POOL_(name)                                                                \
  inline array name(const array &x, tsr_pool_args more, location at = location::current()) \
  {                                                                                        \
    more.x = x.raw();                                                                      \
    more = detail::sized(more);                                                            \
    return array(tsr_##name##_at(&more, detail::site(at)));                                \
  }
TESSERA_POOL_(max_pool)
TESSERA_POOL_(avg_pool)
#undef TESSERA_POOL_

} // namespace tessera

#endif
