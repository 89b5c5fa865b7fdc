/* Arrays made from memory and callbacks in C++, for the scope that owns them: see tessera.hpp. */
#ifndef TESSERA_SOURCES_HPP
#define TESSERA_SOURCES_HPP

#include <exception>
#include <memory>
#include <utility>

#include "array.hpp"

namespace tessera {
namespace detail {

/* The `user` of a C callback: the caller's function, and its exception, which must not cross the
 * library. */
template <class T, class Fill> struct filler {
  Fill &fill;
  std::exception_ptr thrown;

  static tsr_status call(const tsr_box *box, void *out, void *user)
  {
    auto *self = static_cast<filler *>(user);
    try {
      self->fill(*box, static_cast<T *>(out));
      return TSR_OK;
    } catch (...) {
      self->thrown = std::current_exception();
      return TSR_ESTATE;
    }
  }
};

template <class T, class Fill>
array from_callback(tsr_scope *scope, const shape &dims, Fill &fill, tsr_sharding on,
                    const char *site)
{
  filler<T, Fill> user = { fill, nullptr };
  tsr_callback_args args = {};
  args.fill = filler<T, Fill>::call;
  args.user = &user;
  args.dtype = dtype<T>::value;
  args.shape = dims.raw();
  args.on = on;
  args = sized(args);
  tsr_array *made = tsr_from_callback_at(scope, &args, site);
  if (!user.thrown) return array(made);
  tsr_scope_clear(scope);
  std::rethrow_exception(user.thrown);
}

template <class T>
array from_shards(tsr_scope *scope, const std::vector<std::vector<T>> &shards, const shape &dims,
                  tsr_sharding on, const char *site)
{
  std::vector<const void *> parts;
  for (const std::vector<T> &part : shards) parts.push_back(part.data());
  tsr_shards_args args = {};
  args.shards = parts.data();
  args.count = count_of(parts.size());
  args.dtype = dtype<T>::value;
  args.shape = dims.raw();
  args.on = on;
  args = sized(args);
  return array(tsr_from_shards_at(scope, &args, site));
}

/* The library keeps the vector as long as it uses its memory. */
template <class T>
array adopt(tsr_scope *scope, std::vector<T> &&data, const shape &dims, tsr_sharding on,
            const char *site)
{
  auto kept = std::make_unique<std::vector<T>>(std::move(data));
  tsr_adopt_args args = {};
  args.data = kept->data();
  args.dtype = dtype<T>::value;
  args.shape = dims.raw();
  args.on = on;
  args.release = [](void *, void *user) { delete static_cast<std::vector<T> *>(user); };
  args.user = kept.release();
  args = sized(args);
  return array(tsr_adopt_at(scope, &args, site));
}

} // namespace detail
} // namespace tessera

#endif
