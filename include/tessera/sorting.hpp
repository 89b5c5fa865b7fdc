/* Sorts and prefix sums along a dim in C++: see tessera.hpp; sorting.h documents the calls. */
#ifndef TESSERA_SORTING_HPP
#define TESSERA_SORTING_HPP

#include "array.hpp"
#include "sorting.h"

namespace tessera {

#define TESSERA_SORT_(name)                                                \
  inline array name(const array &x, int dim = -1, bool descending = false, \
                    location at = location::current())                     \
  {                                                                        \
    tsr_sort_args args = {};                                               \
    args.x = x.raw();                                                      \
    args.dim = dim;                                                        \
    args.descending = descending;                                          \
    args = detail::sized(args);                                            \
    return array(tsr_##name##_at(&args, detail::site(at)));                \
  }
TESSERA_SORT_(sort)
TESSERA_SORT_(argsort)
#undef TESSERA_SORT_

#define TESSERA_SCAN_(name)                                        \
  inline array name(const array &x, int dim, bool reverse = false, \
                    location at = location::current())             \
  {                                                                \
    tsr_scan_args args = {};                                       \
    args.x = x.raw();                                              \
    args.dim = dim;                                                \
    args.reverse = reverse;                                        \
    args = detail::sized(args);                                    \
    return array(tsr_##name##_at(&args, detail::site(at)));        \
  }
TESSERA_SCAN_(cumsum)
TESSERA_SCAN_(cumprod)
TESSERA_SCAN_(cummax)
TESSERA_SCAN_(cummin)
TESSERA_SCAN_(nancumsum)
TESSERA_SCAN_(nancumprod)
#undef TESSERA_SCAN_

/* n is the `count` or `kth` of the call. */
#define TESSERA_SOME_(name)                                           \
  inline array name(const array &x, std::int64_t n, int dim = -1,     \
                    location at = location::current())                \
  {                                                                   \
    return array(tsr_##name##_at(x.raw(), n, dim, detail::site(at))); \
  }
TESSERA_SOME_(top_k)
TESSERA_SOME_(arg_top_k)
TESSERA_SOME_(partition)
TESSERA_SOME_(argpartition)
#undef TESSERA_SOME_

inline array lexsort(const std::vector<array> &keys, int dim = -1,
                     location at = location::current())
{
  detail::raws raw(keys);
  return array(tsr_lexsort_at(raw.data(), raw.count(), dim, detail::site(at)));
}

} // namespace tessera

#endif
