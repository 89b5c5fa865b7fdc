/* DLPack in C++: see tessera.hpp; what the calls do stands in dlpack.h. */
#ifndef TESSERA_DLPACK_HPP
#define TESSERA_DLPACK_HPP

#include <memory>

#include "array.hpp"
#include "dlpack.h"

namespace tessera {

namespace detail {

/* Calls a tensor's own deleter, which may be missing. */
struct dl_deleter {
  template <class Tensor> void operator()(Tensor *tensor) const
  {
    if (tensor && tensor->deleter) tensor->deleter(tensor);
  }
};

} // namespace detail

/* A tensor that is owned; `release()` hands it to whoever takes a DLManagedTensor. */
using dl_tensor = std::unique_ptr<tsr_dl_managed, detail::dl_deleter>;
/* The same of the struct since version 1. */
using dl_versioned = std::unique_ptr<tsr_dl_versioned, detail::dl_deleter>;

/* Evaluates; the shard at a position of the mesh as a tensor of host memory, which may outlive the
 * scope, but not the runtime. */
inline dl_tensor to_dlpack(const array &x, int position = 0, location at = location::current())
{
  tsr_dl_managed *out = nullptr;
  detail::check(tsr_to_dlpack_at(x.raw(), position, &out, detail::site(at)));
  return dl_tensor(out);
}

inline dl_versioned to_dlpack_versioned(const array &x, int position = 0,
                                        location at = location::current())
{
  tsr_dl_versioned *out = nullptr;
  detail::check(tsr_to_dlpack_versioned_at(x.raw(), position, &out, detail::site(at)));
  return dl_versioned(out);
}

} // namespace tessera

#endif
