/* Mapped functions and collectives in C++: see tessera.hpp; mapping.h and collectives.h document
 * the calls.
 *
 *   tessera::function rows = vmap(f, { 0, TSR_UNMAPPED });
 *   tessera::array centred = shard_map(mesh, [](array x) { return x - pmean(x, "data"); },
 *                                      { x }, { "data" }, { "data" }); */
#ifndef TESSERA_MAPPING_HPP
#define TESSERA_MAPPING_HPP

#include "functions.hpp"
#include "mapping.h"

namespace tessera {

namespace detail {

/* Copies a list to a struct's array of TSR_MAX_ARGS. */
template <class T> void put_list(std::initializer_list<T> from, T *to)
{
  if (from.size() > TSR_MAX_ARGS) throw error(TSR_EARG, "a list is longer than 16");
  for (const T &item : from) *to++ = item;
}

} // namespace detail

/* in_dims has the mapped dim of each argument, by default the first; `more` has the rest. */
#define TESSERA_MAPPED_(name)                                                          \
  inline function name(const function &f, std::initializer_list<int> in_dims = {},     \
                       tsr_##name##_args more = {}, location at = location::current()) \
  {                                                                                    \
    more.function = f.raw();                                                           \
    detail::put_list(in_dims, more.in_dims);                                           \
    more = detail::sized(more);                                                        \
    return function(tsr_##name##_at(&more, detail::site(at)), f.home());               \
  }
TESSERA_MAPPED_(vmap)
TESSERA_MAPPED_(pmap)
#undef TESSERA_MAPPED_

/* Maps over named dims: xmap(f, { "batch,features" }, { "batch" }). */
inline function xmap(const function &f, std::initializer_list<const char *> in_axes,
                     std::initializer_list<const char *> out_axes, tsr_xmap_args more = {},
                     location at = location::current())
{
  more.function = f.raw();
  detail::put_list(in_axes, more.in_axes);
  detail::put_list(out_axes, more.out_axes);
  more = detail::sized(more);
  return function(tsr_xmap_at(&more, detail::site(at)), f.home());
}

/* Runs a body on each device of a mesh, on its shards; the call traces the body. */
template <class Body>
array shard_map(const mesh &on, Body body, const std::vector<array> &in,
                std::initializer_list<const char *> in_specs,
                std::initializer_list<const char *> out_specs, tsr_shard_map_args more = {},
                location at = location::current())
{
  auto user = detail::bodies_of(detail::home(), std::move(body));
  if (in.size() > TSR_MAX_ARGS) throw error(TSR_EARG, "tessera::shard_map: too many arrays");
  for (std::size_t i = 0; i < in.size(); i++) more.in[i] = in[i].raw();
  detail::put_list(in_specs, more.in_specs);
  detail::put_list(out_specs, more.out_specs);
  more = detail::sized(more);
  return array(
      tsr_shard_map_at(on.raw(), detail::run_body<0, Body>, &user, &more, detail::site(at)));
}

/* ---- collectives, in bodies that are mapped over an axis ------------------------------------- */

#define TESSERA_COLLECTIVE_(name)                                                    \
  inline array name(const array &x, const char *axis, tsr_collective_args more = {}, \
                    location at = location::current())                               \
  {                                                                                  \
    more.x = x.raw();                                                                \
    more.axis = axis;                                                                \
    more = detail::sized(more);                                                      \
    return array(tsr_##name##_at(&more, detail::site(at)));                          \
  }
TESSERA_COLLECTIVE_(psum)
TESSERA_COLLECTIVE_(pmean)
TESSERA_COLLECTIVE_(pmax)
TESSERA_COLLECTIVE_(pmin)
TESSERA_COLLECTIVE_(all_gather)
TESSERA_COLLECTIVE_(psum_scatter)
TESSERA_COLLECTIVE_(all_to_all)
TESSERA_COLLECTIVE_(pswapaxes)
#undef TESSERA_COLLECTIVE_

inline array ppermute(const array &x, const char *axis, const std::vector<tsr_pair> &pairs,
                      location at = location::current())
{
  tsr_permute_args args = {};
  args.x = x.raw();
  args.axis = axis;
  args.pairs = pairs.data();
  args.count = detail::count_of(pairs.size());
  args = detail::sized(args);
  return array(tsr_ppermute_at(&args, detail::site(at)));
}

inline array pbroadcast(const array &x, const char *axis, int source,
                        location at = location::current())
{
  return array(tsr_pbroadcast_at(x.raw(), axis, source, detail::site(at)));
}

inline array pvary(const array &x, const char *axis, location at = location::current())
{
  return array(tsr_pvary_at(x.raw(), axis, detail::site(at)));
}

/* Returns the position along an axis. */
inline array axis_index(const char *axis, location at = location::current())
{
  return array(tsr_axis_index_at(detail::home()->raw, axis, detail::site(at)));
}

inline std::int64_t axis_size(const char *axis, location at = location::current())
{
  std::int64_t size = tsr_axis_size_at(detail::home()->raw, axis, detail::site(at));
  if (!size) detail::raise(TSR_EAXIS);
  return size;
}

} // namespace tessera

#endif
