/* Errors, runtimes, meshes, operands and arrays: see tessera.hpp. */
#ifndef TESSERA_ARRAY_HPP
#define TESSERA_ARRAY_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__has_include)
#if __has_include(<source_location>)
#include <source_location>
#endif
#endif

#include "array.h"
#include "inspect.h"
#include "statistics.h"

namespace tessera {

#if defined(__cpp_lib_source_location)
using location = std::source_location;
#else
/* The part of std::source_location that is needed here. */
class location {
public:
  static constexpr location current(const char *file = __builtin_FILE(),
                                    unsigned line = __builtin_LINE())
  {
    location at;
    at.file_ = file;
    at.line_ = line;
    return at;
  }
  constexpr const char *file_name() const
  {
    return file_;
  }
  constexpr unsigned line() const
  {
    return line_;
  }

private:
  const char *file_ = "";
  unsigned line_ = 0;
};
#endif

/* An error of a call of the library; what() is tsr_message, "file.cc:12: TSR_ESHAPE: ...". */
class error : public std::runtime_error {
public:
  error(tsr_status status, const std::string &message)
      : std::runtime_error(message), status_(status)
  {
  }
  tsr_status status() const
  {
    return status_;
  }

private:
  tsr_status status_;
};

/* Owns devices, meshes and cached plans; outlives its scopes. */
class runtime {
public:
  explicit runtime(const char *devices, const tsr_runtime_opts *opts = nullptr)
      : raw_(tsr_runtime_open_with(devices, opts))
  {
    if (!tsr_runtime_status(raw_)) return;
    error why(tsr_runtime_status(raw_), tsr_runtime_message(raw_));
    tsr_runtime_close(raw_);
    throw why;
  }
  runtime(const runtime &) = delete;
  runtime &operator=(const runtime &) = delete;
  ~runtime()
  {
    tsr_runtime_close(raw_);
  }
  tsr_runtime *raw() const
  {
    return raw_;
  }
  int device_count() const
  {
    return tsr_device_count(raw_);
  }
  const char *device_kind(int device) const
  {
    return tsr_device_kind(raw_, device);
  }

private:
  tsr_runtime *raw_;
};

/* A grid of devices, owned by the runtime. */
class mesh {
public:
  mesh(const runtime &rt, const char *axes) : raw_(tsr_mesh_make(rt.raw(), axes))
  {
    if (tsr_mesh_status(raw_)) throw error(tsr_mesh_status(raw_), tsr_mesh_message(raw_));
  }
  tsr_mesh *raw() const
  {
    return raw_;
  }
  /* Returns the sharding of a spec, "data,-"; the call that uses it reports a bad one. */
  tsr_sharding on(const char *spec) const
  {
    return tsr_on_with(raw_, spec, nullptr);
  }

private:
  tsr_mesh *raw_;
};

class array;
class frame;

namespace detail {

/* A scope that this thread has open, newest first; raise() searches this list for errors. */
struct open_scope {
  tsr_scope *raw;
  tsr_runtime *rt;
  open_scope *outer;
  std::vector<std::shared_ptr<void>> kept = {}; /* bodies of its functions, freed after it */
};
inline thread_local open_scope *newest = nullptr;

/* The exception of a body on its way through the library to the caller, and the number of running
 * bodies: an exception that a call of the C interface left is not thrown by another call. */
inline thread_local std::exception_ptr thrown = nullptr;
inline thread_local int bodies_running = 0;

/* Drops an old exception before a call that may run bodies. */
inline void forget_thrown()
{
  if (!bodies_running) thrown = nullptr;
}

inline std::string place(const location &at)
{
  return std::string(at.file_name()) + ":" + std::to_string(at.line());
}

inline const char *site(const location &at)
{
  return newest ? tsr_runtime_site(newest->rt, place(at).c_str()) : nullptr;
}

/* Throws a body's exception, or the newest error that a scope of this thread has. */
[[noreturn]] inline void raise(tsr_status status)
{
  if (thrown) {
    for (open_scope *s = newest; s; s = s->outer) tsr_scope_clear(s->raw);
    std::rethrow_exception(std::exchange(thrown, nullptr));
  }
  for (open_scope *s = newest; s; s = s->outer) {
    if (!tsr_scope_status(s->raw)) continue;
    error why(tsr_scope_status(s->raw), tsr_message(s->raw));
    for (open_scope *also = s; also; also = also->outer) tsr_scope_clear(also->raw);
    throw why;
  }
  throw error(status ? status : TSR_ESTATE, tsr_status_text(status ? status : TSR_ESTATE));
}

inline void check(tsr_status status)
{
  if (status) raise(status);
}

template <class T> struct dtype;
template <> struct dtype<std::int8_t> : std::integral_constant<tsr_dtype, TSR_I8> {
};
template <> struct dtype<std::int16_t> : std::integral_constant<tsr_dtype, TSR_I16> {
};
template <> struct dtype<std::int32_t> : std::integral_constant<tsr_dtype, TSR_I32> {
};
template <> struct dtype<std::int64_t> : std::integral_constant<tsr_dtype, TSR_I64> {
};
template <> struct dtype<std::uint8_t> : std::integral_constant<tsr_dtype, TSR_U8> {
};
template <> struct dtype<std::uint16_t> : std::integral_constant<tsr_dtype, TSR_U16> {
};
template <> struct dtype<std::uint32_t> : std::integral_constant<tsr_dtype, TSR_U32> {
};
template <> struct dtype<std::uint64_t> : std::integral_constant<tsr_dtype, TSR_U64> {
};
template <> struct dtype<float> : std::integral_constant<tsr_dtype, TSR_F32> {
};
template <> struct dtype<double> : std::integral_constant<tsr_dtype, TSR_F64> {
};

template <class T> tsr_scalar scalar(T value)
{
  static_assert(!std::is_same<T, long double>::value, "long double would lose digits: cast it");
  if constexpr (std::is_same<T, bool>::value) return tsr_scalar_bool(value);
  else if constexpr (std::is_floating_point<T>::value) return tsr_scalar_float(value);
  else if constexpr (std::is_unsigned<T>::value) return tsr_scalar_uint(value);
  else return tsr_scalar_int(value);
}

template <class T> using if_number = std::enable_if_t<std::is_arithmetic<T>::value, int>;

} // namespace detail

/* A number, bool or text: a value of a `?`, or a replacement of nulls. */
class value {
public:
  template <class T, detail::if_number<T> = 0> value(T number) : raw_(detail::scalar(number))
  {
  }
  value(const char *text) : raw_(tsr_scalar_text(text))
  {
  }
  tsr_scalar raw() const
  {
    return raw_;
  }

private:
  tsr_scalar raw_;
};

/* A shape as an argument: { 8, 8 }, or the result of array::shape(). */
class shape {
public:
  shape(std::initializer_list<std::int64_t> dims) : raw_()
  {
    if (dims.size() > TSR_MAX_RANK) throw error(TSR_ESHAPE, "tessera::shape: too many dims");
    for (std::int64_t n : dims) raw_.dims[raw_.rank++] = n;
  }
  shape(const tsr_shape &raw) : raw_(raw)
  {
  }
  tsr_shape raw() const
  {
    return raw_;
  }
  std::size_t count() const
  {
    std::size_t n = 1;
    for (int d = 0; d < raw_.rank; d++) n *= static_cast<std::size_t>(raw_.dims[d]);
    return n;
  }

private:
  tsr_shape raw_;
};

/* An operand of array arithmetic, and its source line. */
class operand {
public:
  template <class T, detail::if_number<T> = 0>
  operand(T number, location at = location::current())
      : raw_{ nullptr, detail::scalar(number) }, at_(at)
  {
  }
  inline operand(const array &a, location at = location::current());
  tsr_operand raw() const
  {
    return raw_;
  }
  const char *site() const
  {
    return detail::site(at_);
  }

private:
  tsr_operand raw_;
  location at_;
};

/* A left operand that is a number: 1 - x. */
class number {
public:
  template <class T, detail::if_number<T> = 0>
  number(T value, location at = location::current()) : raw_(detail::scalar(value)), at_(at)
  {
  }
  tsr_operand raw() const
  {
    return tsr_operand{ nullptr, raw_ };
  }
  const char *site() const
  {
    return detail::site(at_);
  }
  /* Calls an operation of two operands with this number as the left one. */
  inline array beside(tsr_binary_fn *call, const array &right) const;

private:
  tsr_scalar raw_;
  location at_;
};

/* Options of a reduction beside its dims. Only elements where the bool array `where` is true count;
 * its handle is borrowed for the call. */
struct reduce_opts {
  bool keep_dims = false;
  int ddof = 0; /* var, std */
  const array *where = nullptr;
  bool skip_nan = false;
  bool no_dims = false;                /* an empty list of dims means no dims instead of all */
  tsr_dtype dtype = {};                /* sum, prod, mean, var, std: the dtype to compute in */
  std::optional<operand> initial = {}; /* sum, prod, min, max: joined to the result */
};

namespace detail {

/* Returns a set of dims; an empty list means all. */
inline tsr_dims dim_set(std::initializer_list<int> dims)
{
  return dims.size() ? tsr_dims_of(dims.begin(), static_cast<int>(dims.size())) : tsr_dims();
}

inline int count_of(std::size_t size)
{
  return static_cast<int>(size);
}

} // namespace detail

/* An immutable global array; copies of the handle are the same array. */
class array {
public:
  /* Takes the result of a call of the C interface; throws if the call failed. */
  explicit array(tsr_array *raw) : raw_(raw)
  {
    if (tsr_is_inert(raw)) detail::raise(TSR_ESTATE);
  }
  tsr_array *raw() const
  {
    return raw_;
  }
  tsr_shape shape() const
  {
    return tsr_shape_of(raw_);
  }
  tsr_dtype dtype() const
  {
    return tsr_dtype_of(raw_);
  }
  std::string type() const
  {
    return tsr_type_of(raw_);
  }

#define TESSERA_REDUCTION_(name)                                                            \
  array name(std::initializer_list<int> dims = {}, location at = location::current()) const \
  {                                                                                         \
    return reduce(tsr_##name##_at, dims, reduce_opts(), at);                                \
  }                                                                                         \
  array name(std::initializer_list<int> dims, const reduce_opts &opts,                      \
             location at = location::current()) const                                       \
  {                                                                                         \
    return reduce(tsr_##name##_at, dims, opts, at);                                         \
  }
  TESSERA_REDUCTION_(sum)
  TESSERA_REDUCTION_(prod)
  TESSERA_REDUCTION_(mean)
  TESSERA_REDUCTION_(var)
  TESSERA_REDUCTION_(std)
  TESSERA_REDUCTION_(min)
  TESSERA_REDUCTION_(max)
  TESSERA_REDUCTION_(argmin)
  TESSERA_REDUCTION_(argmax)
  TESSERA_REDUCTION_(any)
  TESSERA_REDUCTION_(all)
  TESSERA_REDUCTION_(count)
  TESSERA_REDUCTION_(ptp)
  TESSERA_REDUCTION_(norm)
  TESSERA_REDUCTION_(logsumexp)
#undef TESSERA_REDUCTION_
  array cast(tsr_dtype dtype, location at = location::current()) const
  {
    return array(tsr_cast_at(raw_, dtype, detail::site(at)));
  }
  array reshard(tsr_sharding on, location at = location::current()) const
  {
    return array(tsr_reshard_at(raw_, on, detail::site(at)));
  }
  array constrain(tsr_sharding on, location at = location::current()) const
  {
    return array(tsr_constrain_at(raw_, on, detail::site(at)));
  }
  tsr_sharding sharding() const
  {
    return tsr_sharding_of(raw_);
  }
  /* Evaluates. */
  void eval(location at = location::current()) const
  {
    detail::check(tsr_eval_at(&raw_, 1, detail::site(at)));
  }
  /* Starts evaluating without waiting; wait() and any read of the value waits. */
  void start(location at = location::current()) const
  {
    detail::check(tsr_start_at(&raw_, 1, detail::site(at)));
  }
  void wait(location at = location::current()) const
  {
    detail::check(tsr_wait_at(raw_, detail::site(at)));
  }

  /* Evaluates and returns the values as NumPy prints them. */
  std::string text(location at = location::current()) const
  {
    const char *out = nullptr;
    detail::check(tsr_text_into_at(raw_, &out, detail::site(at)));
    return out;
  }
  /* Evaluates and returns one line per device with its shard. */
  std::string devices(location at = location::current()) const
  {
    const char *out = nullptr;
    detail::check(tsr_devices_into_at(raw_, &out, detail::site(at)));
    return out;
  }
  /* Evaluates and draws which devices hold which shard. */
  std::string visualize(tsr_draw_opts opts = {}, location at = location::current()) const
  {
    eval(at);
    return tsr_visualize_with(raw_, &opts, detail::site(at));
  }
  /* Returns the program that evaluating the array would run. */
  std::string dump(location at = location::current()) const
  {
    const char *out = nullptr;
    detail::check(tsr_dump_into_at(raw_, &out, detail::site(at)));
    return out;
  }
  /* Returns the traffic of evaluating the array, with reasons; runs nothing. */
  std::string explain(location at = location::current()) const
  {
    const char *out = nullptr;
    detail::check(tsr_explain_into_at(&raw_, 1, &out, detail::site(at)));
    return out;
  }
  /* Evaluates and returns the only element as a double. */
  double value(location at = location::current()) const
  {
    double out = 0;
    detail::check(tsr_read_scalar_at(raw_, &out, detail::site(at)));
    return out;
  }
  /* Evaluates and returns all elements in C order, cast to T. */
  template <class T> std::vector<T> read(location at = location::current()) const
  {
    const char *site = detail::site(at);
    array same(tsr_cast_at(raw_, detail::dtype<T>::value, site));
    std::size_t count = tessera::shape(shape()).count();
    std::vector<T> out(count);
    detail::check(tsr_read_at(same.raw_, out.data(), count * sizeof(T), site));
    return out;
  }

private:
  using reduction = tsr_array *(*)(const tsr_reduce_args *, const char *);
  array reduce(reduction call, std::initializer_list<int> dims, const reduce_opts &opts,
               const location &at) const
  {
    tsr_reduce_args args = {};
    args.size = sizeof args;
    args.x = raw_;
    args.dims = detail::dim_set(dims);
    if (opts.no_dims && !dims.size()) args.dims.none = true;
    args.keep_dims = opts.keep_dims;
    args.ddof = opts.ddof;
    args.where = opts.where ? opts.where->raw_ : nullptr;
    args.skip_nan = opts.skip_nan;
    args.dtype = opts.dtype;
    if (opts.initial) args.initial = opts.initial->raw();
    return array(call(&args, detail::site(at)));
  }
  tsr_array *raw_;
};

namespace detail {

/* The handles of arrays, for calls of the C interface. */
class raws {
public:
  raws(const std::vector<array> &arrays)
  {
    for (const array &a : arrays) raw_.push_back(a.raw());
  }
  /* Takes handles that a call wrote. */
  raws(const std::vector<tsr_array *> &raw) : raw_(raw)
  {
  }
  tsr_array **data()
  {
    return raw_.data();
  }
  int count() const
  {
    return count_of(raw_.size());
  }
  /* Returns the handles as arrays, also those that a call wrote in their place. */
  std::vector<array> arrays() const
  {
    std::vector<array> out;
    for (tsr_array *raw : raw_) out.emplace_back(raw);
    return out;
  }

private:
  std::vector<tsr_array *> raw_;
};

/* Returns a struct of arguments with its size set, as the library expects it. */
template <class Args> Args sized(Args args)
{
  args.size = sizeof args;
  return args;
}

} // namespace detail

inline operand::operand(const array &a, location at) : raw_{ a.raw(), tsr_scalar() }, at_(at)
{
}

inline array number::beside(tsr_binary_fn *call, const array &right) const
{
  return array(tsr_binary_at(call, raw(), tsr_operand_array(right.raw()), site()));
}

#define TESSERA_BINARY_(sign, name)                            \
  inline array operator sign(const array &a, operand b)        \
  {                                                            \
    return array(tsr_##name##_at(a.raw(), b.raw(), b.site())); \
  }                                                            \
  inline array operator sign(number a, const array &b)         \
  {                                                            \
    return a.beside(tsr_##name##_at, b);                       \
  }
TESSERA_BINARY_(+, add)
TESSERA_BINARY_(-, sub)
TESSERA_BINARY_(*, mul)
TESSERA_BINARY_(/, div)
TESSERA_BINARY_(%, mod)
TESSERA_BINARY_(==, eq)
TESSERA_BINARY_(!=, ne)
TESSERA_BINARY_(<, lt)
TESSERA_BINARY_(<=, le)
TESSERA_BINARY_(>, gt)
TESSERA_BINARY_(>=, ge)
TESSERA_BINARY_(&, and)
TESSERA_BINARY_(|, or)
TESSERA_BINARY_(^, xor)
#undef TESSERA_BINARY_

/* ~a: the logical not of bools, the bitwise not of integers. */
inline array operator~(const array &a)
{
  return array(tsr_not_at(a.raw(), nullptr));
}

inline array operator-(const array &a)
{
  return array(tsr_neg_at(a.raw(), nullptr));
}

/* Returns elements of `a` where the condition is true, else of `b`. */
inline array where(const array &condition, operand a, operand b, location at = location::current())
{
  return array(tsr_where_at(condition.raw(), a.raw(), b.raw(), detail::site(at)));
}

/* Evaluates several arrays as one program. */
inline void eval(const std::vector<array> &arrays, location at = location::current())
{
  detail::raws raw(arrays);
  detail::check(tsr_eval_at(raw.data(), raw.count(), detail::site(at)));
}

/* Starts evaluating several arrays as one program, without waiting. */
inline void start(const std::vector<array> &arrays, location at = location::current())
{
  detail::raws raw(arrays);
  detail::check(tsr_start_at(raw.data(), raw.count(), detail::site(at)));
}

} // namespace tessera

#endif
