/* DLPack in C++: see tessera.hpp; dlpack.h documents the calls. */
#ifndef TESSERA_DLPACK_HPP
#define TESSERA_DLPACK_HPP

#include <memory>

#include "array.hpp"
#include "dlpack.h"

namespace tessera {

namespace detail {

/* Calls a tensor's own deleter, which may be NULL. */
struct dl_deleter {
  template <class Tensor> void operator()(Tensor *tensor) const
  {
    if (tensor && tensor->deleter) tensor->deleter(tensor);
  }
};

} // namespace detail

/* An owned tensor; `release()` hands it to a consumer of a DLManagedTensor. */
using dl_tensor = std::unique_ptr<tsr_dl_managed, detail::dl_deleter>;
/* An owned tensor in the struct since version 1. */
using dl_versioned = std::unique_ptr<tsr_dl_versioned, detail::dl_deleter>;

/* Evaluates and returns the shard at a position of the mesh as a tensor of host memory, which may
 * outlive the scope and the runtime. */
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
