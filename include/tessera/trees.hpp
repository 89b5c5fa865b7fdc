/* Trees in C++: see tessera.hpp; tree.h documents the calls.
 *
 *   tessera::array model = tessera::tree({ { "w", w }, { "b", b } });
 *   tessera::array w = field(model, "w"), both = tessera::tuple({ w, b });
 *   auto [loss, slope] = tessera::items<2>(value_and_slope(model, x));
 *
 * A tree is an array handle, as in C. An empty tree belongs to the thread's newest scope, any other
 * as results are (base.h). */
#ifndef TESSERA_TREES_HPP
#define TESSERA_TREES_HPP

#include <array>

#include "scope.hpp"

namespace tessera {

/* A named item of a tree. */
class part {
public:
  part(const char *name, const array &a) : raw_{ name, a.raw() }
  {
  }
  tsr_field_args raw() const
  {
    return raw_;
  }

private:
  tsr_field_args raw_;
};

inline array tree(std::initializer_list<part> parts, location at = location::current())
{
  std::vector<tsr_field_args> raw;
  for (const part &p : parts) raw.push_back(p.raw());
  if (!detail::newest) detail::raise(TSR_ESTATE);
  return array(
      tsr_tree_at(detail::newest->raw, raw.data(), detail::count_of(raw.size()), detail::site(at)));
}

inline array tuple(const std::vector<array> &arrays, location at = location::current())
{
  detail::raws raw(arrays);
  if (!detail::newest) detail::raise(TSR_ESTATE);
  return array(tsr_tuple_at(detail::newest->raw, raw.data(), raw.count(), detail::site(at)));
}

inline array item(const array &tree, int index, location at = location::current())
{
  return array(tsr_item_at(tree.raw(), index, detail::site(at)));
}

/* Returns the item at a path, "layer1.w". */
inline array field(const array &tree, const char *path, location at = location::current())
{
  return array(tsr_field_at(tree.raw(), path, detail::site(at)));
}

inline int item_count(const array &tree)
{
  return tsr_item_count(tree.raw());
}

inline bool is_tree(const array &a)
{
  return tsr_is_tree(a.raw());
}

/* Returns the form of a tree as text, "(w, b: (x, y))". */
inline std::string tree_text(const array &tree)
{
  const char *text = tsr_tree_text(tree.raw());
  if (!text) detail::raise(TSR_ENOMEM);
  return text;
}

namespace detail {
template <std::size_t... I>
std::array<array, sizeof...(I)> items(const array &tree, const location &at,
                                      std::index_sequence<I...>)
{
  return { item(tree, static_cast<int>(I), at)... };
}
} // namespace detail

/* Returns the N items of a tree, for auto [a, b] = items<2>(tree). */
template <std::size_t N>
std::array<array, N> items(const array &tree, location at = location::current())
{
  if (item_count(tree) != static_cast<int>(N))
    throw error(TSR_EARG, detail::place(at) + ": tessera::items: the tree has " +
                              std::to_string(item_count(tree)) + " parts, expected " +
                              std::to_string(N));
  return detail::items(tree, at, std::make_index_sequence<N>());
}

/* Returns all arrays of a tree, depth first. */
inline std::vector<array> leaves(const array &tree)
{
  std::vector<tsr_array *> raw(static_cast<std::size_t>(tsr_leaf_count(tree.raw())));
  tsr_tree_leaves(tree.raw(), raw.data(), detail::count_of(raw.size()));
  return detail::raws(raw).arrays();
}

/* Returns a tree of the form of another one with other arrays. */
inline array tree_like(const array &like, const std::vector<array> &arrays,
                       location at = location::current())
{
  detail::raws raw(arrays);
  return array(tsr_tree_like_at(like.raw(), raw.data(), raw.count(), detail::site(at)));
}

} // namespace tessera

#endif
