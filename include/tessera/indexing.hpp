/* Indexing arrays by arrays in C++: see tessera.hpp; indexing.h documents the calls.
 *
 * Options are the structs of C; operands that are parameters here are set in them. */
#ifndef TESSERA_INDEXING_HPP
#define TESSERA_INDEXING_HPP

#include "array.hpp"
#include "indexing.h"

namespace tessera {

/* ---- taking and putting ---- */

inline array take(const array &x, const array &indices, int dim, tsr_take_args more = {},
                  location at = location::current())
{
  more.x = x.raw();
  more.indices = indices.raw();
  more.dim = dim;
  more = detail::sized(more);
  return array(tsr_take_at(&more, detail::site(at)));
}

inline array take_along_dim(const array &x, const array &indices, int dim, tsr_take_args more = {},
                            location at = location::current())
{
  more.x = x.raw();
  more.indices = indices.raw();
  more.dim = dim;
  more = detail::sized(more);
  return array(tsr_take_along_dim_at(&more, detail::site(at)));
}

namespace detail {

/* The indices of leading dims, for C's structs of arguments. */
inline void put_indices(const std::vector<array> &from, tsr_array *(&to)[TSR_MAX_RANK])
{
  if (from.size() > TSR_MAX_RANK) throw error(TSR_EARG, "tessera: indices of too many dims");
  for (std::size_t d = 0; d < from.size(); d++) to[d] = from[d].raw();
}

} // namespace detail

inline array gather(const array &x, const std::vector<array> &indices, tsr_gather_args more = {},
                    location at = location::current())
{
  more.x = x.raw();
  detail::put_indices(indices, more.at);
  more = detail::sized(more);
  return array(tsr_gather_at(&more, detail::site(at)));
}

inline array scatter(const array &x, const array &indices, operand updates, int dim,
                     tsr_scatter_how how = TSR_SCATTER_SET, tsr_index_mode mode = TSR_INDEX_ERROR,
                     location at = location::current())
{
  tsr_scatter_args args = {};
  args.x = x.raw();
  args.indices = indices.raw();
  args.updates = updates.raw();
  args.dim = dim;
  args.how = how;
  args.mode = mode;
  args = detail::sized(args);
  return array(tsr_scatter_at(&args, detail::site(at)));
}

inline array scatter_nd(const array &x, operand updates, const std::vector<array> &indices,
                        tsr_scatter_how how = TSR_SCATTER_SET,
                        tsr_index_mode mode = TSR_INDEX_ERROR, location at = location::current())
{
  tsr_scatter_nd_args args = {};
  args.x = x.raw();
  args.updates = updates.raw();
  detail::put_indices(indices, args.at);
  args.how = how;
  args.mode = mode;
  args = detail::sized(args);
  return array(tsr_scatter_nd_at(&args, detail::site(at)));
}

/* ---- choosing and finding ---- */

inline array select(const std::vector<array> &conditions, const std::vector<array> &choices,
                    operand otherwise = 0, location at = location::current())
{
  detail::raws when(conditions), what(choices);
  if (when.count() != what.count())
    throw error(TSR_EARG, "tessera::select: another number of conditions than of choices");
  tsr_select_args args = {};
  args.conditions = when.data();
  args.choices = what.data();
  args.count = when.count();
  args.otherwise = otherwise.raw();
  args = detail::sized(args);
  return array(tsr_select_at(&args, detail::site(at)));
}

inline array compress(const array &x, const array &mask, std::int64_t count, int dim = 0,
                      operand fill = 0, location at = location::current())
{
  tsr_find_args args = {};
  args.x = x.raw();
  args.mask = mask.raw();
  args.count = count;
  args.dim = dim;
  args.fill = fill.raw();
  args = detail::sized(args);
  return array(tsr_compress_at(&args, detail::site(at)));
}

inline array nonzero(const array &x, std::int64_t count, operand fill = 0,
                     location at = location::current())
{
  tsr_find_args args = {};
  args.x = x.raw();
  args.count = count;
  args.fill = fill.raw();
  args = detail::sized(args);
  return array(tsr_nonzero_at(&args, detail::site(at)));
}

/* Returns an array of indices per dim, which gather takes. */
inline std::vector<array> nonzero_dims(const array &x, std::int64_t count, operand fill = 0,
                                       location at = location::current())
{
  tsr_find_args args = {};
  args.x = x.raw();
  args.count = count;
  args.fill = fill.raw();
  args = detail::sized(args);
  std::vector<tsr_array *> found(static_cast<std::size_t>(x.shape().rank));
  tsr_nonzero_dims_at(&args, found.data(), detail::site(at));
  return detail::raws(found).arrays();
}

/* Results of tsr_unique. */
struct unique_parts {
  array values, index, inverse, counts;
};

inline unique_parts unique(const array &x, tsr_find_args more, location at = location::current())
{
  more.x = x.raw();
  more = detail::sized(more);
  tsr_unique_parts found = tsr_unique_at(&more, detail::site(at));
  return { array(found.values), array(found.index), array(found.inverse), array(found.counts) };
}

inline unique_parts unique(const array &x, std::int64_t count, location at = location::current())
{
  tsr_find_args args = {};
  args.count = count;
  return unique(x, args, at);
}

inline array searchsorted(const array &sorted, const array &x, bool right = false,
                          location at = location::current())
{
  return array(tsr_searchsorted_at(sorted.raw(), x.raw(), right, detail::site(at)));
}

inline array digitize(const array &x, const array &bins, bool right = false,
                      location at = location::current())
{
  return array(tsr_digitize_at(x.raw(), bins.raw(), right, detail::site(at)));
}

inline array isin(const array &x, const array &among, location at = location::current())
{
  return array(tsr_isin_at(x.raw(), among.raw(), detail::site(at)));
}

inline array interp(const array &x, const array &xp, const array &fp, tsr_interp_args more = {},
                    location at = location::current())
{
  more.x = x.raw();
  more.xp = xp.raw();
  more.fp = fp.raw();
  more = detail::sized(more);
  return array(tsr_interp_at(&more, detail::site(at)));
}

/* ---- counting ---- */

inline array one_hot(const array &indices, std::int64_t classes, tsr_dtype dtype = {},
                     location at = location::current())
{
  return array(tsr_one_hot_at(indices.raw(), classes, dtype, detail::site(at)));
}

inline array bincount(const array &x, std::int64_t length, location at = location::current())
{
  return array(tsr_bincount_at(x.raw(), length, nullptr, detail::site(at)));
}

inline array bincount(const array &x, std::int64_t length, const array &weights,
                      location at = location::current())
{
  return array(tsr_bincount_at(x.raw(), length, weights.raw(), detail::site(at)));
}

/* Results of tsr_histogram. */
struct histogram_parts {
  array counts, edges;
};

inline histogram_parts histogram(const array &x, tsr_histogram_args more = {},
                                 location at = location::current())
{
  more.x = x.raw();
  more = detail::sized(more);
  tsr_histogram_parts made = tsr_histogram_at(&more, detail::site(at));
  return { array(made.counts), array(made.edges) };
}

} // namespace tessera

#endif
