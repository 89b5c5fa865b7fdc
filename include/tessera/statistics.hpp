/* Statistics and comparisons of whole arrays in C++: see tessera.hpp; statistics.h documents the
 * calls. ptp, norm and logsumexp are members of array, as other reductions. */
#ifndef TESSERA_STATISTICS_HPP
#define TESSERA_STATISTICS_HPP

#include "array.hpp"
#include "statistics.h"

namespace tessera {

inline array average(const array &x, const array &weights, std::initializer_list<int> dims = {},
                     bool keep_dims = false, location at = location::current())
{
  tsr_average_args args = {};
  args.x = x.raw();
  args.weights = weights.raw();
  args.dims = detail::dim_set(dims);
  args.keep_dims = keep_dims;
  args = detail::sized(args);
  return array(tsr_average_at(&args, detail::site(at)));
}

/* `more` has the interpolation, .keep_dims and .skip_nan. */
#define TESSERA_QUANTILE_(name)                                                     \
  inline array name(const array &x, double q, std::initializer_list<int> dims = {}, \
                    tsr_quantile_args more = {}, location at = location::current()) \
  {                                                                                 \
    more.x = x.raw();                                                               \
    more.q = q;                                                                     \
    more.dims = detail::dim_set(dims);                                              \
    more = detail::sized(more);                                                     \
    return array(tsr_##name##_at(&more, detail::site(at)));                         \
  }
TESSERA_QUANTILE_(quantile)
TESSERA_QUANTILE_(percentile)
#undef TESSERA_QUANTILE_

inline array median(const array &x, std::initializer_list<int> dims = {},
                    tsr_quantile_args more = {}, location at = location::current())
{
  more.x = x.raw();
  more.dims = detail::dim_set(dims);
  more = detail::sized(more);
  return array(tsr_median_at(&more, detail::site(at)));
}

inline array cov(const array &x, bool biased = false, location at = location::current())
{
  tsr_cov_args args = {};
  args.x = x.raw();
  args.biased = biased;
  args = detail::sized(args);
  return array(tsr_cov_at(&args, detail::site(at)));
}

/* `more` has the tolerances and .equal_nan. */
#define TESSERA_CLOSE_(name)                                                  \
  inline array name(const array &a, const array &b, tsr_close_args more = {}, \
                    location at = location::current())                        \
  {                                                                           \
    more.a = a.raw();                                                         \
    more.b = b.raw();                                                         \
    more = detail::sized(more);                                               \
    return array(tsr_##name##_at(&more, detail::site(at)));                   \
  }
TESSERA_CLOSE_(isclose)
TESSERA_CLOSE_(allclose)
TESSERA_CLOSE_(array_equal)
#undef TESSERA_CLOSE_

inline array softmax(const array &a, int dim = -1, location at = location::current())
{
  return array(tsr_softmax_at(a.raw(), dim, detail::site(at)));
}

inline array log_softmax(const array &a, int dim = -1, location at = location::current())
{
  return array(tsr_log_softmax_at(a.raw(), dim, detail::site(at)));
}

} // namespace tessera

#endif
