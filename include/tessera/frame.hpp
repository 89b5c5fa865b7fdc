/* Frames in C++: see tessera.hpp. */
#ifndef TESSERA_FRAME_HPP
#define TESSERA_FRAME_HPP

#include "array.hpp"
#include "frame.h"
#include "io.h"

namespace tessera {

/* The text of an expression, the values of its `?`, and its source line. */
class expression {
public:
  expression(const char *text, location at = location::current()) : expression(text, {}, at)
  {
  }
  expression(const char *text, std::initializer_list<tessera::value> values,
             location at = location::current())
      : raw_(), at_(at)
  {
    raw_.text = text;
    if (values.size() > TSR_MAX_PARAMS) throw error(TSR_EARG, "too many values of an expression");
    for (const tessera::value &v : values) raw_.param[raw_.count++] = v.raw();
  }
  const tsr_formula *raw() const
  {
    return &raw_;
  }
  const char *site() const
  {
    return detail::site(at_);
  }

private:
  tsr_formula raw_;
  location at_;
};

/* A frame's rows on the host, owned by the scope. */
class table {
public:
  explicit table(tsr_table *raw) : raw_(raw)
  {
  }
  tsr_table *raw() const
  {
    return raw_;
  }
  std::int64_t row_count() const
  {
    return tsr_table_row_count(raw_);
  }
  int column_count() const
  {
    return tsr_table_column_count(raw_);
  }
  double f64(std::int64_t row, int column) const
  {
    return tsr_table_f64(raw_, row, column);
  }
  std::int64_t i64(std::int64_t row, int column) const
  {
    return tsr_table_i64(raw_, row, column);
  }
  std::string text(std::int64_t row, int column) const
  {
    return std::string(text_view(row, column));
  }
  /* Returns a text without a copy; it lives as long as the table's scope. Null is "". */
  std::string_view text_view(std::int64_t row, int column) const
  {
    std::size_t length = 0;
    const char *found = tsr_table_bytes(raw_, row, column, &length);
    return found ? std::string_view(found, length) : std::string_view();
  }
  /* Returns all values of a column of numbers of type T; the value under a null is undefined. */
  template <class T> const T *values(int column) const
  {
    if (static_cast<int>(tsr_table_type(raw_, column)) != static_cast<int>(detail::dtype<T>::value))
      throw error(TSR_EDTYPE, "tessera::table::values: the column is of another type");
    return static_cast<const T *>(tsr_table_values(raw_, column));
  }

private:
  tsr_table *raw_;
};

/* An immutable table of columns whose rows are sharded over devices. */
class frame {
public:
  /* Takes the result of a call of the C interface; throws if the call failed. */
  explicit frame(tsr_frame *raw) : raw_(raw)
  {
    if (tsr_frame_is_inert(raw)) detail::raise(TSR_ESTATE);
  }
  tsr_frame *raw() const
  {
    return raw_;
  }

  frame filter(const expression &e) const
  {
    return frame(tsr_frame_filter_at(raw_, e.raw(), e.site()));
  }
  frame assign(const char *name, const expression &e) const
  {
    return frame(tsr_frame_assign_at(raw_, name, e.raw(), e.site()));
  }
  frame select(const expression &e) const
  {
    return frame(tsr_frame_select_at(raw_, e.raw(), e.site()));
  }
  frame agg(const expression &e) const
  {
    return frame(tsr_frame_agg_at(raw_, e.raw(), e.site()));
  }
  frame group_agg(const char *keys, const expression &e) const
  {
    return frame(tsr_frame_group_agg_at(raw_, keys, e.raw(), e.site()));
  }
  frame sort(const char *keys, location at = location::current()) const
  {
    return frame(tsr_frame_sort_at(raw_, keys, detail::site(at)));
  }
  frame head(std::int64_t count, location at = location::current()) const
  {
    return frame(tsr_frame_head_at(raw_, count, detail::site(at)));
  }
  frame join(const frame &right, const char *on, tsr_join_opts opts = {},
             location at = location::current()) const
  {
    return frame(tsr_frame_join_with(raw_, right.raw_, on, &opts, detail::site(at)));
  }

  std::int64_t row_count(location at = location::current()) const
  {
    std::int64_t out = 0;
    detail::check(tsr_frame_row_count_at(raw_, &out, detail::site(at)));
    return out;
  }
  table collect(location at = location::current()) const
  {
    tsr_table *out = nullptr;
    detail::check(tsr_frame_collect_at(raw_, &out, detail::site(at)));
    return table(out);
  }
  array column(const char *name, location at = location::current()) const
  {
    return array(tsr_frame_column_with(raw_, name, nullptr, detail::site(at)));
  }
  /* Evaluates and returns the table as it is printed. */
  std::string text(location at = location::current()) const
  {
    const char *out = nullptr;
    detail::check(tsr_frame_text_into_at(raw_, nullptr, &out, detail::site(at)));
    return out;
  }
  /* Returns the explanation: the steps, traffic and reads of the frame, with reasons. */
  std::string explain(location at = location::current()) const
  {
    const char *out = nullptr;
    detail::check(tsr_frame_explain_into_at(raw_, &out, detail::site(at)));
    return out;
  }
  void print(std::FILE *out = stdout, location at = location::current()) const
  {
    detail::check(tsr_frame_print_at(raw_, out, detail::site(at)));
  }
  void write_csv(const char *path, tsr_csv_write_opts opts = {},
                 location at = location::current()) const
  {
    detail::check(tsr_frame_write_csv_with(raw_, path, &opts, detail::site(at)));
  }

private:
  tsr_frame *raw_;
};

/* The right operand of whole-frame arithmetic, and its source line. */
class frame_operand {
public:
  template <class T, detail::if_number<T> = 0>
  frame_operand(T number, location at = location::current())
      : raw_{ nullptr, detail::scalar(number) }, at_(at)
  {
  }
  frame_operand(const frame &df, location at = location::current())
      : raw_{ df.raw(), tsr_scalar() }, at_(at)
  {
  }
  tsr_frame_operand raw() const
  {
    return raw_;
  }
  const char *site() const
  {
    return detail::site(at_);
  }

private:
  tsr_frame_operand raw_;
  location at_;
};

#define TESSERA_BINARY_(sign, name)                                  \
  inline frame operator sign(const frame &a, frame_operand b)        \
  {                                                                  \
    return frame(tsr_frame_##name##_at(a.raw(), b.raw(), b.site())); \
  }
TESSERA_BINARY_(+, add)
TESSERA_BINARY_(-, sub)
TESSERA_BINARY_(*, mul)
TESSERA_BINARY_(/, div)
#undef TESSERA_BINARY_

} // namespace tessera

#endif
