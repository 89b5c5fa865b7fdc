/* Functions and their gradients in C++: see tessera.hpp; function.h, gradient.h, compile.h and
 * saved.h document the calls.
 *
 *   tessera::function loss(s, [](array model, array x, array y) {
 *     return (matmul(x, field(model, "w")) - y).norm();
 *   });
 *   tessera::function step = value_and_grad(loss);
 *   auto [value, slope] = tessera::items<2>(step(model, x, y));
 *
 * A body is a lambda or another callable with one parameter per argument of its function; write out
 * the parameter types, as `auto` parameters cannot be counted. A first parameter of type const
 * tessera::scope & lets the body make new arrays, (const tessera::scope &s, array x). A vector
 * parameter takes any number of arguments, (const tessera::scope &s, const std::vector<array> &in).
 * The body returns an array, or several as a vector, a pair or a std::tuple. The body is copied and
 * lives as long as the function's scope. An exception of the body is thrown by the call that ran
 * it: a tessera::error with the lines of both, any other as it is.
 *
 * A function is a handle as in C and lives as long as the scope that it was made in. */
#ifndef TESSERA_FUNCTIONS_HPP
#define TESSERA_FUNCTIONS_HPP

#include <tuple>

#include "compile.h"
#include "function.h"
#include "gradient.h"
#include "saved.h"
#include "trees.hpp"

namespace tessera {

namespace detail {

template <std::size_t> using nth_array = const array &;

inline tsr_array *returned(const array &a)
{
  return a.raw();
}
inline tsr_array *returned(const std::vector<array> &arrays)
{
  return tuple(arrays).raw();
}
template <class... Arrays> tsr_array *returned(const std::tuple<Arrays...> &arrays)
{
  return std::apply([](const auto &...a) { return tuple({ a... }).raw(); }, arrays);
}
template <class A, class B> tsr_array *returned(const std::pair<A, B> &both)
{
  return tuple({ both.first, both.second }).raw();
}

/* Calls a body if it takes as many arrays as the sequence has indices. */
template <class Body, std::size_t... I>
bool call_of(Body &body, const scope &s, const std::vector<array> &in, tsr_array **out,
             std::index_sequence<I...>)
{
  (void)s;
  if (in.size() != sizeof...(I)) return false;
  if constexpr (std::is_invocable<Body &, const scope &, nth_array<I>...>::value)
    *out = returned(body(s, in[I]...));
  else if constexpr (std::is_invocable<Body &, nth_array<I>...>::value)
    *out = returned(body(in[I]...));
  else return false;
  return true;
}

template <class Body, std::size_t... Count>
bool call_any(Body &body, const scope &s, const std::vector<array> &in, tsr_array **out,
              std::index_sequence<Count...>)
{
  return (call_of(body, s, in, out, std::make_index_sequence<Count>()) || ...);
}

template <class Body> tsr_array *call_body(Body &body, const scope &s, const std::vector<array> &in)
{
  using many = const std::vector<array> &;
  tsr_array *out = nullptr;
  if constexpr (std::is_invocable<Body &, const scope &, many>::value) return returned(body(s, in));
  else if (call_any(body, s, in, &out, std::make_index_sequence<TSR_MAX_ARGS + 1>())) return out;
  throw error(TSR_EARG, "the body takes another number of arrays than " +
                            std::to_string(in.size()) + ", which it is called on");
}

/* Lambdas as the `user` of a C body: one, or those of a loop or choice. `home` keeps the bodies of
 * functions that they make. */
template <class... Bodies> struct bodies {
  std::tuple<Bodies...> all;
  tsr_runtime *rt;
  open_scope *home;
  int leaves; /* number of arrays of a callback that gets no NULL at the end; -1 for bodies, which
               * get one */
};

/* Body number K as a C function; no exception leaves it. */
template <std::size_t K, class... Bodies>
tsr_array *run_body(tsr_scope *raw, tsr_array *const *in, void *user) noexcept
{
  auto *self = static_cast<bodies<Bodies...> *>(user);
  tsr_array *out = nullptr;
  scope s(raw, self->rt, of_body());
  bodies_running++;
  try {
    std::vector<array> arrays;
    for (int i = 0; self->leaves < 0 ? in[i] != nullptr : i < self->leaves; i++)
      arrays.emplace_back(in[i]);
    out = call_body(std::get<K>(self->all), s, arrays);
  } catch (const error &e) {
    if (!thrown) tsr_fail(raw, e.status(), "%s", e.what());
  } catch (...) {
    thrown = std::current_exception();
  }
  bodies_running--;
  for (auto &kept : s.entry()->kept) self->home->kept.push_back(std::move(kept));
  return out;
}

/* Returns the scope that owns new functions: the newest of this thread; throws without one. */
inline open_scope *home()
{
  if (!newest) raise(TSR_ESTATE);
  return newest;
}

/* Holds lambdas for the duration of a call. */
template <class... Bodies> bodies<Bodies...> bodies_of(open_scope *in, Bodies... all)
{
  forget_thrown();
  return { std::tuple<Bodies...>(std::move(all)...), in->rt, in, -1 };
}

/* Keeps a lambda in a scope, as C's `user`. */
template <class Body> void *keep_body(open_scope *in, Body body)
{
  auto kept = std::make_shared<bodies<Body>>(bodies_of(in, std::move(body)));
  in->kept.push_back(kept);
  return kept.get();
}

/* Throws the newest error of this thread's scopes, if there is one. */
inline void raise_errors()
{
  bool found = thrown != nullptr;
  for (open_scope *s = newest; s && !found; s = s->outer) found = tsr_scope_status(s->raw);
  if (found) raise(TSR_ESTATE);
}

} // namespace detail

/* The first of several arguments, and its source line. */
class argument {
public:
  argument(const array &a, location at = location::current()) : raw_(a.raw()), at_(at)
  {
  }
  tsr_array *raw() const
  {
    return raw_;
  }
  const char *site() const
  {
    return detail::site(at_);
  }

private:
  tsr_array *raw_;
  location at_;
};

class function {
public:
  /* `more` has the specs, the name and .explicit_shardings. */
  template <class Body,
            std::enable_if_t<!std::is_convertible<Body, tsr_function *>::value, int> = 0>
  function(const scope &s, Body body, tsr_function_args more = {},
           location at = location::current())
      : raw_(nullptr), home_(s.entry())
  {
    more.body = detail::run_body<0, Body>;
    more.user = detail::keep_body(home_, std::move(body));
    more.user_bytes = 0;
    more = detail::sized(more);
    raw_ = tsr_function_make_at(s.raw(), &more, detail::site(at));
    detail::raise_errors();
  }
  /* Takes the result of a call of the C interface; throws if the call failed. */
  explicit function(tsr_function *raw, detail::open_scope *home = nullptr)
      : raw_(raw), home_(home ? home : detail::home())
  {
    detail::raise_errors();
    if (!raw) detail::raise(TSR_ESTATE);
  }
  tsr_function *raw() const
  {
    return raw_;
  }
  detail::open_scope *home() const
  {
    return home_;
  }

  array operator()(location at = location::current()) const
  {
    detail::forget_thrown();
    return array(tsr_call_at(raw_, nullptr, 0, detail::site(at)));
  }
  template <class... Rest> array operator()(argument first, const Rest &...rest) const
  {
    static_assert((std::is_same<Rest, array>::value && ...), "arguments are arrays");
    tsr_array *raw[] = { first.raw(), rest.raw()... };
    detail::forget_thrown();
    return array(tsr_call_at(raw_, raw, detail::count_of(sizeof...(Rest) + 1), first.site()));
  }
  array call(const std::vector<array> &arguments, location at = location::current()) const
  {
    detail::raws raw(arguments);
    detail::forget_thrown();
    return array(tsr_call_at(raw_, raw.data(), raw.count(), detail::site(at)));
  }
  int trace_count() const
  {
    return tsr_trace_count(raw_);
  }

  /* Returns the function's text for the types of arguments; save() writes it to a file. */
  std::string text(const std::vector<array> &arguments, location at = location::current()) const
  {
    detail::raws raw(arguments);
    const char *out = nullptr;
    detail::forget_thrown();
    detail::check(tsr_function_text_into_at(raw_, &out, raw.data(), raw.count(), detail::site(at)));
    return out;
  }
  void save(const char *path, const std::vector<array> &arguments,
            location at = location::current()) const
  {
    detail::raws raw(arguments);
    detail::forget_thrown();
    detail::check(tsr_function_save_at(raw_, path, raw.data(), raw.count(), detail::site(at)));
  }

private:
  tsr_function *raw_;
  detail::open_scope *home_;
};

/* ---- gradients ------------------------------------------------------------------------------ */

/* Differentiates by argument 0, or by the given ones: grad(f, { 0, 2 }). */
#define TESSERA_GRADIENT_(name)                                                \
  inline function name(const function &f, std::initializer_list<int> wrt = {}, \
                       location at = location::current())                      \
  {                                                                            \
    tsr_gradient_args args = {};                                               \
    args.function = f.raw();                                                   \
    args.wrt = detail::dim_set(wrt);                                           \
    args = detail::sized(args);                                                \
    return function(tsr_##name##_at(&args, detail::site(at)), f.home());       \
  }
TESSERA_GRADIENT_(grad)
TESSERA_GRADIENT_(value_and_grad)
TESSERA_GRADIENT_(vjp)
TESSERA_GRADIENT_(jvp)
TESSERA_GRADIENT_(hvp)
TESSERA_GRADIENT_(jacobian)
#undef TESSERA_GRADIENT_

/* Evaluates the nodes that do not depend on tangents. */
inline function linearize(const function &f, const std::vector<array> &at_point,
                          std::initializer_list<int> wrt = {}, location at = location::current())
{
  tsr_linearize_args args = {};
  if (at_point.size() > TSR_MAX_ARGS) throw error(TSR_EARG, "tessera::linearize: too many arrays");
  args.function = f.raw();
  args.wrt = detail::dim_set(wrt);
  for (std::size_t i = 0; i < at_point.size(); i++) args.at[i] = at_point[i].raw();
  args = detail::sized(args);
  detail::forget_thrown();
  return function(tsr_linearize_at(&args, detail::site(at)), f.home());
}

/* `backward` is a body of the arguments, the result and the result's cotangent. */
template <class Body>
function custom_vjp(const function &f, Body backward, location at = location::current())
{
  tsr_custom_args args = {};
  args.function = f.raw();
  args.backward = detail::run_body<0, Body>;
  args.user = detail::keep_body(f.home(), std::move(backward));
  args = detail::sized(args);
  return function(tsr_custom_vjp_at(&args, detail::site(at)), f.home());
}

/* `forward` is a body of the arguments, the result and a tangent per argument. */
template <class Body>
function custom_jvp(const function &f, Body forward, location at = location::current())
{
  tsr_custom_args args = {};
  args.function = f.raw();
  args.forward = detail::run_body<0, Body>;
  args.user = detail::keep_body(f.home(), std::move(forward));
  args = detail::sized(args);
  return function(tsr_custom_jvp_at(&args, detail::site(at)), f.home());
}

/* `keep`: names of values in the function, which its gradient keeps. */
inline function checkpoint(const function &f, std::initializer_list<const char *> keep = {},
                           location at = location::current())
{
  tsr_checkpoint_args args = {};
  args.function = f.raw();
  int count = 0;
  for (const char *name : keep)
    if (count <= TSR_MAX_KEPT) args.keep[count++] = name;
  args = detail::sized(args);
  return function(tsr_checkpoint_at(&args, detail::site(at)), f.home());
}

inline array named(const array &x, const char *name, location at = location::current())
{
  return array(tsr_named_at(x.raw(), name, detail::site(at)));
}

/* ---- ahead of time, and as text ------------------------------------------------------------- */

/* A function compiled for types; lives as long as the function. */
class compiled {
public:
  explicit compiled(tsr_compiled *raw) : raw_(raw)
  {
    detail::raise_errors();
  }
  tsr_compiled *raw() const
  {
    return raw_;
  }
  tsr_figures figures() const
  {
    return tsr_compiled_figures(raw_);
  }
  /* Returns the arrays in memory at the peak, the largest first. */
  std::vector<tsr_peak_array> peak() const
  {
    int count = 0;
    const tsr_peak_array *at = tsr_compiled_peak(raw_, &count);
    return { at, at + count };
  }
  /* Returns the figures, the arrays at the peak, and the explanation of the traffic. */
  std::string text() const
  {
    return tsr_compiled_text(raw_);
  }
  array call(const std::vector<array> &arguments, location at = location::current()) const
  {
    detail::raws raw(arguments);
    return array(tsr_compiled_call_at(raw_, raw.data(), raw.count(), detail::site(at)));
  }

private:
  tsr_compiled *raw_;
};

/* Compiles a function; arguments may be types of tsr_abstract. */
inline compiled compile(const function &f, const std::vector<array> &arguments,
                        location at = location::current())
{
  detail::raws raw(arguments);
  detail::forget_thrown();
  return compiled(tsr_compile_at(f.raw(), raw.data(), raw.count(), detail::site(at)));
}

inline function load_function(const scope &s, const char *path, location at = location::current())
{
  return function(tsr_function_load_at(s.raw(), path, detail::site(at)), s.entry());
}

inline function function_from_text(const scope &s, const std::string &text,
                                   location at = location::current())
{
  return function(tsr_function_from_text_at(s.raw(), text.c_str(), detail::site(at)), s.entry());
}

/* ---- over the arrays of trees --------------------------------------------------------------- */

/* `fn` gets the leaves at one position of each tree. */
template <class Fn>
array tree_map(Fn fn, const std::vector<array> &trees, location at = location::current())
{
  detail::raws raw(trees);
  auto user = detail::bodies_of(detail::home(), std::move(fn));
  user.leaves = raw.count();
  return array(
      tsr_tree_map_at(detail::run_body<0, Fn>, &user, raw.data(), raw.count(), detail::site(at)));
}

} // namespace tessera

#endif
