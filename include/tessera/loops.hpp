/* Loops and choices in C++: see tessera.hpp; control.h documents the calls. Bodies are as in
 * functions.hpp; they live until the call returns, since it traces them.
 *
 *   auto [last, sums] = tessera::items<2>(tessera::scan(
 *       [](array h, array x) { return std::pair(tanh(h + x), h.sum()); }, first, xs));
 *
 * `more` is C's struct of arguments for the rest, .with among it; operands that are parameters here
 * are set in it. */
#ifndef TESSERA_LOOPS_HPP
#define TESSERA_LOOPS_HPP

#include "control.h"
#include "functions.hpp"

namespace tessera {

/* body(carry, x, with) returns the next carry and the step's stacked result. */
template <class Body>
array scan(Body body, const array &carry, const array &xs, tsr_loop_args more = {},
           location at = location::current())
{
  auto user = detail::bodies_of(detail::home(), std::move(body));
  more.carry = carry.raw();
  more.xs = xs.raw();
  more = detail::sized(more);
  return array(tsr_scan_at(detail::run_body<0, Body>, &user, &more, detail::site(at)));
}

/* body(carry, number, with) runs `length` times. */
template <class Body>
array scan(Body body, const array &carry, std::int64_t length, tsr_loop_args more = {},
           location at = location::current())
{
  auto user = detail::bodies_of(detail::home(), std::move(body));
  more.carry = carry.raw();
  more.length = length;
  more = detail::sized(more);
  return array(tsr_scan_at(detail::run_body<0, Body>, &user, &more, detail::site(at)));
}

/* body(number, carry, with) returns the next carry. */
template <class Body>
array fori(std::int64_t lower, std::int64_t upper, Body body, const array &carry,
           tsr_fori_args more = {}, location at = location::current())
{
  auto user = detail::bodies_of(detail::home(), std::move(body));
  more.lower = lower;
  more.upper = upper;
  more.carry = carry.raw();
  more = detail::sized(more);
  return array(tsr_fori_at(detail::run_body<0, Body>, &user, &more, detail::site(at)));
}

/* tsr_while: goes_on(carry, with) and body(carry, with). */
template <class Test, class Body>
array while_loop(Test goes_on, Body body, const array &carry, tsr_while_args more = {},
                 location at = location::current())
{
  auto user = detail::bodies_of(detail::home(), std::move(goes_on), std::move(body));
  more.carry = carry.raw();
  more = detail::sized(more);
  return array(tsr_while_at(detail::run_body<0, Test, Body>, detail::run_body<1, Test, Body>, &user,
                            &more, detail::site(at)));
}

namespace detail {

inline tsr_switch_args given(const std::vector<array> &in)
{
  tsr_switch_args args = {};
  if (in.size() > TSR_MAX_ARGS) throw error(TSR_EARG, "too many arrays for a choice");
  for (std::size_t i = 0; i < in.size(); i++) args.in[i] = in[i].raw();
  return sized(args);
}

template <class... Bodies, std::size_t... K>
array choose(argument index, tsr_switch_args args, bodies<Bodies...> user,
             std::index_sequence<K...>)
{
  static_assert(sizeof...(K) <= TSR_MAX_BRANCHES, "too many bodies");
  tsr_body_fn *const all[] = { run_body<K, Bodies...>... };
  for (std::size_t k = 0; k < sizeof...(K); k++) args.bodies[k] = all[k];
  return array(tsr_switch_at(index.raw(), &user, &args, index.site()));
}

} // namespace detail

/* Returns the result of `yes` or `no` on arrays, chosen by a bool at run time. */
template <class Yes, class No>
array cond(const array &predicate, Yes yes, No no, const std::vector<array> &in = {},
           location at = location::current())
{
  auto user = detail::bodies_of(detail::home(), std::move(yes), std::move(no));
  tsr_switch_args args = detail::given(in);
  args.bodies[0] = detail::run_body<0, Yes, No>;
  args.bodies[1] = detail::run_body<1, Yes, No>;
  return array(tsr_cond_at(predicate.raw(), &user, &args, detail::site(at)));
}

/* Returns the result of one of several bodies, chosen by a number at run time: tsr_switch. */
template <class... Bodies>
array switch_case(argument index, const std::vector<array> &in, Bodies... bodies)
{
  return detail::choose(index, detail::given(in),
                        detail::bodies_of(detail::home(), std::move(bodies)...),
                        std::index_sequence_for<Bodies...>());
}

/* `combine` gets the earlier and the later elements; x is an array or a tree. */
template <class Body>
array associative_scan(Body combine, const array &x, tsr_prefix_args more = {},
                       location at = location::current())
{
  auto user = detail::bodies_of(detail::home(), std::move(combine));
  more.x = x.raw();
  more = detail::sized(more);
  return array(tsr_associative_scan_at(detail::run_body<0, Body>, &user, &more, detail::site(at)));
}

} // namespace tessera

#endif
