/* Tessera for C++17: owners that close themselves, operators, exceptions that name the caller's
 * line.
 *
 *   tessera::runtime rt("cpu:8");
 *   tessera::mesh mesh(rt, "x=2,y=4");
 *   tessera::scope s(rt);
 *   tessera::array x = s.put(data, { 8, 8 }, mesh.on("x,y"));
 *   double total = ((x * 2 + 1) / x.mean()).sum().value();
 *
 * runtime and scope own; mesh, array, frame, row and table are handles as in C and live as long as
 * what owns them (base.h). What fails throws tessera::error at the call that is wrong, with the
 * status, and the scope forgets it. Lines come from std::source_location, or before C++20 from the
 * compiler: an operator's from its right operand. `raw()` gives the handle for any call of the C
 * interface. */
#ifndef TESSERA_HPP
#define TESSERA_HPP

#include "tessera.h"
#include "tessera/array.hpp"
#include "tessera/operations.hpp"
#include "tessera/frame.hpp"

namespace tessera {

/* Owns the arrays and frames made while it is the newest of its thread; scopes close in turn. */
class scope {
public:
  explicit scope(const runtime &rt, location at = location::current())
      : scope(tsr_scope_open_at(rt.raw(), named(rt.raw(), at)), rt.raw())
  {
  }
  /* A scope inside this one, which closes no later. */
  scope nest(location at = location::current()) const
  {
    return scope(tsr_scope_nest_at(raw(), named(here_.rt, at)), here_.rt);
  }
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;
  ~scope()
  {
    detail::newest = here_.outer;
    tsr_scope_close(here_.raw);
  }
  tsr_scope *raw() const
  {
    return here_.raw;
  }

  template <class T>
  array put(const std::vector<T> &data, std::initializer_list<std::int64_t> dims,
            tsr_sharding on = {}, location at = location::current()) const
  {
    tsr_shape shape = {};
    std::size_t count = 1;
    if (dims.size() > TSR_MAX_RANK) throw error(TSR_ESHAPE, "tessera::scope::put: too many dims");
    for (std::int64_t n : dims) {
      shape.dims[shape.rank++] = n;
      count *= static_cast<std::size_t>(n);
    }
    if (count != data.size())
      throw error(TSR_ESHAPE, "tessera::scope::put: the data has another number of elements");
    return array(
        tsr_put_at(raw(), data.data(), detail::dtype<T>::value, shape, on, detail::site(at)));
  }
  frame read_csv(const char *path, tsr_csv_opts opts = {}, location at = location::current()) const
  {
    return frame(tsr_frame_read_csv_with(raw(), path, &opts, detail::site(at)));
  }

private:
  scope(tsr_scope *raw, tsr_runtime *rt) : here_{ raw, rt, detail::newest }
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
  static const char *named(tsr_runtime *rt, const location &at)
  {
    return tsr_runtime_site(rt, detail::place(at).c_str());
  }
  detail::open_scope here_;
};

} // namespace tessera

#endif
