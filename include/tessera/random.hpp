/* Random draws by keys in C++: see tessera.hpp; random.h documents the calls.
 *
 *   tessera::array keys = random_split(s.random_key(7), 2);
 *   tessera::array x = s.normal(7, { 3, 4 }), y = s.uniform(keys, { 10 });
 *
 * Calls that need only a key are members of the scope. `more` is C's struct of arguments for the
 * dtype, the sharding, the stream and the range; key and shape are set in it. */
#ifndef TESSERA_RANDOM_HPP
#define TESSERA_RANDOM_HPP

#include "array.hpp"
#include "random.h"

namespace tessera {

/* A key: an integer, or an array of keys with a draw for each. The array's handle is borrowed for
 * the call. */
class key {
public:
  template <class T, std::enable_if_t<std::is_integral<T>::value, int> = 0>
  key(T number) : number_(static_cast<std::uint64_t>(number)), keys_(nullptr)
  {
  }
  key(const array &keys) : number_(0), keys_(keys.raw())
  {
  }
  /* Returns the arguments of a draw by this key. */
  tsr_random_args drawn(tsr_random_args more, const shape &dims) const
  {
    more.key = number_;
    more.keyed = !keys_; /* also for key 0 */
    more.keys = keys_;
    more.shape = dims.raw();
    return detail::sized(more);
  }
  /* Returns the arguments of a draw whose shape is in `more`, or given elsewhere. */
  tsr_random_args drawn(const tsr_random_args &more) const
  {
    return drawn(more, more.shape);
  }

private:
  std::uint64_t number_;
  tsr_array *keys_;
};

/* ---- keys ---- */

inline array random_split(const array &keys, std::int64_t count, location at = location::current())
{
  return array(tsr_random_split_at(keys.raw(), count, detail::site(at)));
}

inline array random_fold_in(const array &keys, operand data, location at = location::current())
{
  return array(tsr_random_fold_in_at(keys.raw(), data.raw(), detail::site(at)));
}

/* ---- draws of indices ---- */

inline array categorical(const array &logits, key by, int dim = -1, tsr_random_args more = {},
                         location at = location::current())
{
  more = by.drawn(more);
  return array(tsr_categorical_at(logits.raw(), dim, &more, detail::site(at)));
}

inline array shuffle(const array &x, key by, int dim = 0, tsr_random_args more = {},
                     location at = location::current())
{
  more = by.drawn(more);
  return array(tsr_shuffle_at(x.raw(), dim, &more, detail::site(at)));
}

/* `more` has .replace and .by; the weights are a parameter. */
inline array choice(const array &x, std::int64_t count, key by, tsr_choice_args more = {},
                    location at = location::current())
{
  more.x = x.raw();
  more.count = count;
  more.by = by.drawn(more.by);
  more = detail::sized(more);
  return array(tsr_choice_at(&more, detail::site(at)));
}

inline array choice(const array &x, std::int64_t count, key by, const array &weights,
                    tsr_choice_args more = {}, location at = location::current())
{
  more.weights = weights.raw();
  return choice(x, count, by, more, at);
}

} // namespace tessera

#endif
