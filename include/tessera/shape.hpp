/* Views and other shapes in C++: see tessera.hpp; array.h and shape.h document the calls. */
#ifndef TESSERA_SHAPE_HPP
#define TESSERA_SHAPE_HPP

#include "array.hpp"
#include "shape.h"

namespace tessera {

/* A range along a dim, as Python's: { 2, 5 }, { 0, TSR_END, 3 }, {} for all. */
class range {
public:
  range(std::int64_t start = 0, std::int64_t stop = TSR_END, std::int64_t step = 1)
      : raw_{ start, stop, step }
  {
  }
  tsr_range raw() const
  {
    return raw_;
  }

private:
  tsr_range raw_;
};

/* ---- views ---- */

inline array slice(const array &a, std::initializer_list<range> ranges,
                   location at = location::current())
{
  std::vector<tsr_range> raw;
  for (const range &one : ranges) raw.push_back(one.raw());
  return array(tsr_slice_at(a.raw(), raw.data(), detail::count_of(raw.size()), detail::site(at)));
}

/* An empty list reverses all dims. */
inline array transpose(const array &a, std::initializer_list<int> dims = {},
                       location at = location::current())
{
  return array(
      tsr_transpose_at(a.raw(), dims.begin(), detail::count_of(dims.size()), detail::site(at)));
}

/* An empty list means all dims. */
inline array flip(const array &a, std::initializer_list<int> dims = {},
                  location at = location::current())
{
  return array(tsr_flip_at(a.raw(), detail::dim_set(dims), detail::site(at)));
}

inline array broadcast_to(const array &a, const shape &to, location at = location::current())
{
  return array(tsr_broadcast_to_at(a.raw(), to.raw(), detail::site(at)));
}

/* `more` has the borders and their value. */
inline array pad(const array &a, tsr_pad_args more, location at = location::current())
{
  more.x = a.raw();
  more = detail::sized(more);
  return array(tsr_pad_at(&more, detail::site(at)));
}

inline array pad_like(tsr_pad_mode mode, const array &a, tsr_pad_args more,
                      location at = location::current())
{
  more.x = a.raw();
  more = detail::sized(more);
  return array(tsr_pad_like_at(&more, mode, detail::site(at)));
}

inline array concat(const std::vector<array> &arrays, int dim = 0,
                    location at = location::current())
{
  detail::raws raw(arrays);
  return array(tsr_concat_at(raw.data(), raw.count(), dim, detail::site(at)));
}

/* ---- other shapes ---- */

inline array reshape(const array &a, const shape &to, location at = location::current())
{
  return array(tsr_reshape_at(a.raw(), to.raw(), detail::site(at)));
}

inline array ravel(const array &a, location at = location::current())
{
  return array(tsr_ravel_at(a.raw(), detail::site(at)));
}

inline array expand_dims(const array &a, std::initializer_list<int> dims,
                         location at = location::current())
{
  return array(tsr_expand_dims_at(a.raw(), detail::dim_set(dims), detail::site(at)));
}

/* An empty list means all dims of size 1. */
inline array squeeze(const array &a, std::initializer_list<int> dims = {},
                     location at = location::current())
{
  return array(tsr_squeeze_at(a.raw(), detail::dim_set(dims), detail::site(at)));
}

inline array atleast(const array &a, int rank, location at = location::current())
{
  return array(tsr_atleast_at(a.raw(), rank, detail::site(at)));
}

/* ---- other orders ---- */

inline array roll(const array &a, std::int64_t shift, int dim, location at = location::current())
{
  return array(tsr_roll_at(a.raw(), &shift, &dim, 1, detail::site(at)));
}

/* Rolls along several dims, with a shift for each. */
inline array roll(const array &a, std::initializer_list<std::int64_t> shifts,
                  std::initializer_list<int> dims, location at = location::current())
{
  if (shifts.size() != dims.size())
    throw error(TSR_EARG, "tessera::roll: another number of shifts than of dims");
  return array(tsr_roll_at(a.raw(), shifts.begin(), dims.begin(), detail::count_of(dims.size()),
                           detail::site(at)));
}

inline array moveaxis(const array &a, int from, int to, location at = location::current())
{
  return array(tsr_moveaxis_at(a.raw(), from, to, detail::site(at)));
}

inline array swapaxes(const array &a, int one, int other, location at = location::current())
{
  return array(tsr_swapaxes_at(a.raw(), one, other, detail::site(at)));
}

inline array rot90(const array &a, std::int64_t times = 1, int first = 0, int second = 1,
                   location at = location::current())
{
  return array(tsr_rot90_at(a.raw(), times, first, second, detail::site(at)));
}

/* ---- one of several, several of one ---- */

inline array stack(const std::vector<array> &arrays, int dim = 0, location at = location::current())
{
  detail::raws raw(arrays);
  return array(tsr_stack_at(raw.data(), raw.count(), dim, detail::site(at)));
}

inline std::vector<array> split(const array &a, int count, int dim = 0,
                                location at = location::current())
{
  detail::raws parts(std::vector<array>(static_cast<std::size_t>(count > 0 ? count : 1), a));
  tsr_split_at(a.raw(), count, dim, parts.data(), detail::site(at));
  if (count <= 0) detail::raise(TSR_EARG);
  return parts.arrays();
}

inline array tile(const array &a, std::initializer_list<std::int64_t> times,
                  location at = location::current())
{
  return array(
      tsr_tile_at(a.raw(), times.begin(), detail::count_of(times.size()), detail::site(at)));
}

inline array repeat(const array &a, std::int64_t times, int dim, location at = location::current())
{
  return array(tsr_repeat_at(a.raw(), times, dim, detail::site(at)));
}

inline array repeat_each(const array &a, const array &counts, std::int64_t total, int dim,
                         location at = location::current())
{
  return array(tsr_repeat_each_at(a.raw(), counts.raw(), total, dim, detail::site(at)));
}

inline std::vector<array> broadcast_arrays(const std::vector<array> &arrays,
                                           location at = location::current())
{
  detail::raws raw(arrays);
  tsr_broadcast_arrays_at(raw.data(), raw.count(), raw.data(), detail::site(at));
  return raw.arrays();
}

inline std::vector<array> meshgrid(const std::vector<array> &arrays, bool swapped = false,
                                   location at = location::current())
{
  detail::raws raw(arrays), out(arrays);
  tsr_meshgrid_at(raw.data(), raw.count(), swapped, out.data(), detail::site(at));
  return out.arrays();
}

/* ---- at indices in arrays ---- */

inline array dynamic_slice(const array &a, const array &starts, const shape &sizes,
                           location at = location::current())
{
  return array(tsr_dynamic_slice_at(a.raw(), starts.raw(), sizes.raw(), detail::site(at)));
}

inline array dynamic_update_slice(const array &a, const array &update, const array &starts,
                                  location at = location::current())
{
  return array(tsr_dynamic_update_slice_at(a.raw(), update.raw(), starts.raw(), detail::site(at)));
}

/* ---- differences, matrices ---- */

inline array diff(const array &a, int times = 1, int dim = -1, location at = location::current())
{
  return array(tsr_diff_at(a.raw(), times, dim, detail::site(at)));
}

inline array tril(const array &a, std::int64_t k = 0, location at = location::current())
{
  return array(tsr_tril_at(a.raw(), k, detail::site(at)));
}

inline array triu(const array &a, std::int64_t k = 0, location at = location::current())
{
  return array(tsr_triu_at(a.raw(), k, detail::site(at)));
}

inline array diag(const array &a, std::int64_t k = 0, location at = location::current())
{
  return array(tsr_diag_at(a.raw(), k, detail::site(at)));
}

} // namespace tessera

#endif
