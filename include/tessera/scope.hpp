/* Scopes in C++, and the calls that make arrays in them: see tessera.hpp. */
#ifndef TESSERA_SCOPE_HPP
#define TESSERA_SCOPE_HPP

#include "array.hpp"
#include "dlpack.hpp"
#include "frame.hpp"
#include "random.hpp"
#include "read.h"
#include "shape.h"
#include "sources.hpp"
#include "tree.h"

namespace tessera {

namespace detail {
struct of_body {};
} // namespace detail

/* Owns the arrays and frames that are made while it is the thread's newest scope; scopes close in
 * reverse order. */
class scope {
public:
  explicit scope(const runtime &rt, location at = location::current())
      : scope(tsr_scope_open_at(rt.raw(), named(rt.raw(), at)), rt.raw())
  {
  }
  /* Opens a scope nested in this one; it must close before this one. */
  scope nest(location at = location::current()) const
  {
    return scope(tsr_scope_nest_at(raw(), named(here_.rt, at)), here_.rt);
  }
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;
  /* The scope of a body: the library opens and closes it. */
  scope(tsr_scope *raw, tsr_runtime *rt, detail::of_body) noexcept
      : here_{ raw, rt, detail::newest }, owned_(false)
  {
    detail::newest = &here_;
  }
  ~scope()
  {
    detail::newest = here_.outer;
    if (owned_) tsr_scope_close(here_.raw);
  }
  /* Exchanges the contents of two scopes: a step of a loop keeps its results in a new scope and
   * swaps, and the new scope then frees the rest of the step's arrays. */
  void swap(scope &other) noexcept
  {
    std::swap(here_.raw, other.here_.raw);
    std::swap(here_.rt, other.here_.rt);
    std::swap(here_.kept, other.here_.kept);
    std::swap(owned_, other.owned_);
  }
  tsr_scope *raw() const
  {
    return here_.raw;
  }
  /* Returns this scope's entry in the thread's list of scopes. */
  detail::open_scope *entry() const
  {
    return &here_;
  }

  template <class T>
  array put(const std::vector<T> &data, const shape &dims, tsr_sharding on = {},
            location at = location::current()) const
  {
    check_count(data.size(), dims, "tessera::scope::put: the data has another number of elements");
    return array(
        tsr_put_at(raw(), data.data(), detail::dtype<T>::value, dims.raw(), on, detail::site(at)));
  }
  /* Moves from the vector, without a copy where one device holds the whole array and it is aligned
   * to 64 bytes. */
  template <class T>
  array adopt(std::vector<T> &&data, const shape &dims, tsr_sharding on = {},
              location at = location::current()) const
  {
    check_count(data.size(), dims,
                "tessera::scope::adopt: the data has another number of elements");
    return detail::adopt(raw(), std::move(data), dims, on, detail::site(at));
  }
  /* Makes an array of one vector per device, in order of mesh positions, each of the size that
   * tsr_shard_box gives. */
  template <class T>
  array from_shards(const std::vector<std::vector<T>> &shards, const shape &dims, tsr_sharding on,
                    location at = location::current()) const
  {
    check_parts(shards, dims, on);
    return detail::from_shards(raw(), shards, dims, on, detail::site(at));
  }
  /* from_callback<float>({ 8, 8 }, fill, on): `fill(box, out)` writes the shard at `box` to a float
   * * and is called once per device; an exception of it is thrown here. */
  template <class T, class Fill>
  array from_callback(const shape &dims, Fill fill, tsr_sharding on = {},
                      location at = location::current()) const
  {
    return detail::from_callback<T>(raw(), dims, fill, on, detail::site(at));
  }
  /* Takes a tensor over, also after an error. */
  array from_dlpack(dl_tensor tensor, tsr_sharding on = {}, location at = location::current()) const
  {
    tsr_dlpack_opts opts = detail::sized(tsr_dlpack_opts{ 0, on });
    return array(tsr_from_dlpack_with(raw(), tensor.release(), &opts, detail::site(at)));
  }
  array from_dlpack(dl_versioned tensor, tsr_sharding on = {},
                    location at = location::current()) const
  {
    tsr_dlpack_opts opts = detail::sized(tsr_dlpack_opts{ 0, on });
    return array(tsr_from_dlpack_versioned_with(raw(), tensor.release(), &opts, detail::site(at)));
  }
  /* Returns an array of rank 0. */
  array num(value number, location at = location::current()) const
  {
    return array(tsr_num_at(raw(), number.raw(), detail::site(at)));
  }
  array full(operand value, tsr_dtype dtype, const shape &dims, tsr_sharding on = {},
             location at = location::current()) const
  {
    return array(tsr_full_at(raw(), value.raw(), dtype, dims.raw(), on, detail::site(at)));
  }
  /* Returns the index of each element along a dim. */
  array iota(tsr_dtype dtype, const shape &dims, int dim = 0, tsr_sharding on = {},
             location at = location::current()) const
  {
    return array(tsr_iota_at(raw(), dtype, dims.raw(), dim, on, detail::site(at)));
  }
  array eye(tsr_dtype dtype, const shape &dims, std::int64_t k = 0, tsr_sharding on = {},
            location at = location::current()) const
  {
    return array(tsr_eye_at(raw(), dtype, dims.raw(), k, on, detail::site(at)));
  }
  /* `more` has the dtype and the sharding. */
  array arange(double start, double stop, double step = 1, tsr_steps_args more = {},
               location at = location::current()) const
  {
    more.start = start;
    more.stop = stop;
    more.step = step;
    more = detail::sized(more);
    return array(tsr_arange_at(raw(), &more, detail::site(at)));
  }
  array linspace(double start, double stop, std::int64_t count, tsr_steps_args more = {},
                 location at = location::current()) const
  {
    more.start = start;
    more.stop = stop;
    more.count = count;
    more = detail::sized(more);
    return array(tsr_linspace_at(raw(), &more, detail::site(at)));
  }
  array random_key(std::uint64_t seed, location at = location::current()) const
  {
    return array(tsr_random_key_at(raw(), seed, detail::site(at)));
  }
#define TESSERA_DRAW_(name)                                        \
  array name(key by, const shape &dims, tsr_random_args more = {}, \
             location at = location::current()) const              \
  {                                                                \
    more = by.drawn(more, dims);                                   \
    return array(tsr_##name##_at(raw(), &more, detail::site(at))); \
  }
  TESSERA_DRAW_(random_bits)
  TESSERA_DRAW_(uniform)
  TESSERA_DRAW_(normal)
#undef TESSERA_DRAW_
  array exponential(double scale, key by, const shape &dims, tsr_random_args more = {},
                    location at = location::current()) const
  {
    more = by.drawn(more, dims);
    return array(tsr_exponential_at(raw(), scale, &more, detail::site(at)));
  }
  /* The first parameter is the rate, shape or probability: a number, or an array that broadcasts to
   * the draws. */
#define TESSERA_DRAW_(name)                                                    \
  array name(operand of, key by, const shape &dims, tsr_random_args more = {}, \
             location at = location::current()) const                          \
  {                                                                            \
    more = by.drawn(more, dims);                                               \
    return array(tsr_##name##_at(raw(), of.raw(), &more, detail::site(at)));   \
  }
  TESSERA_DRAW_(poisson)
  TESSERA_DRAW_(gamma)
  TESSERA_DRAW_(bernoulli)
#undef TESSERA_DRAW_
  /* Draws lie between two numbers. */
#define TESSERA_DRAW_(name, type)                                                       \
  array name(type low, type high, key by, const shape &dims, tsr_random_args more = {}, \
             location at = location::current()) const                                   \
  {                                                                                     \
    more = by.drawn(more, dims);                                                        \
    return array(tsr_##name##_at(raw(), low, high, &more, detail::site(at)));           \
  }
  TESSERA_DRAW_(randint, std::int64_t)
  TESSERA_DRAW_(truncated_normal, double)
#undef TESSERA_DRAW_
  array permutation(std::int64_t count, key by, tsr_random_args more = {},
                    location at = location::current()) const
  {
    more = by.drawn(more);
    return array(tsr_permutation_at(raw(), count, &more, detail::site(at)));
  }
  /* Evaluates an array or a tree of a nested scope and moves the values to this scope. */
  array keep(const array &a, location at = location::current()) const
  {
    return array(tsr_tree_keep_at(raw(), a.raw(), detail::site(at)));
  }
  frame read_csv(const char *path, tsr_csv_opts opts = {}, location at = location::current()) const
  {
    return frame(tsr_frame_read_csv_with(raw(), path, &opts, detail::site(at)));
  }

private:
  scope(tsr_scope *raw, tsr_runtime *rt) : here_{ raw, rt, detail::newest }, owned_(true)
  {
    detail::newest = &here_;
    if (tsr_scope_status(raw)) unopened();
  }
  [[noreturn]] void unopened()
  {
    error why(tsr_scope_status(here_.raw), tsr_message(here_.raw));
    detail::newest = here_.outer;
    tsr_scope_close(here_.raw);
    throw why;
  }
  static void check_count(std::size_t count, const shape &dims, const char *what)
  {
    if (dims.count() != count) throw error(TSR_ESHAPE, what);
  }
  /* Checks the lengths of the vectors, which C's pointers do not have. */
  template <class T>
  static void check_parts(const std::vector<std::vector<T>> &shards, const shape &dims,
                          const tsr_sharding &on)
  {
    for (std::size_t p = 0; p < shards.size(); p++) {
      tsr_box box;
      if (tsr_shard_box(&on, dims.raw(), detail::count_of(p), &box))
        return; /* the call reports the
                                                                              * error */
      std::size_t count = 1;
      for (int d = 0; d < dims.raw().rank; d++) count *= static_cast<std::size_t>(box.size[d]);
      if (shards[p].size() != count)
        throw error(TSR_ESHAPE, "tessera::scope::from_shards: vector " + std::to_string(p) +
                                    " has another number of elements than its part");
    }
  }
  static const char *named(tsr_runtime *rt, const location &at)
  {
    return tsr_runtime_site(rt, detail::place(at).c_str());
  }
  mutable detail::open_scope here_; /* has the bodies of functions */
  bool owned_;
};

} // namespace tessera

#endif
