/* Training in C++: see tessera.hpp; train.h documents the calls.
 *
 *   tessera::array kept = adam_state(model);
 *   auto [next, state] = adam(model, slope, kept, 1e-3); */
#ifndef TESSERA_TRAINING_HPP
#define TESSERA_TRAINING_HPP

#include "train.h"
#include "trees.hpp"

namespace tessera {

inline array cross_entropy(const array &scores, const array &truth, double smoothing = 0,
                           location at = location::current())
{
  tsr_cross_entropy_args args = {};
  args.scores = scores.raw();
  args.truth = truth.raw();
  args.smoothing = smoothing;
  args = detail::sized(args);
  return array(tsr_cross_entropy_at(&args, detail::site(at)));
}

/* Returns initial values of a layer, in the scope. */
inline array initial(const scope &s, tsr_initial_rule rule, tsr_initial_law law, key by,
                     const shape &dims, tsr_random_args more = {},
                     location at = location::current())
{
  more = by.drawn(more, dims);
  return array(tsr_initial_at(s.raw(), rule, law, &more, detail::site(at)));
}

/* `more` has the rate and its changes. */
inline array schedule(const array &step, tsr_schedule_kind kind, tsr_schedule_args more = {},
                      location at = location::current())
{
  more.step = step.raw();
  more.kind = kind;
  more = detail::sized(more);
  return array(tsr_schedule_at(&more, detail::site(at)));
}

inline array global_norm(const array &tree, location at = location::current())
{
  return array(tsr_global_norm_at(tree.raw(), detail::site(at)));
}

inline array clip_norm(const array &tree, double limit, location at = location::current())
{
  return array(tsr_clip_norm_at(tree.raw(), limit, detail::site(at)));
}

inline array sgd_state(const array &model, location at = location::current())
{
  return array(tsr_sgd_state_at(model.raw(), detail::site(at)));
}

inline array adam_state(const array &model, location at = location::current())
{
  return array(tsr_adam_state_at(model.raw(), detail::site(at)));
}

inline array metric_start(const scope &s, location at = location::current())
{
  return array(tsr_metric_start_at(s.raw(), detail::site(at)));
}

/* `more` has the mask. */
inline array metric_add(const array &known, const array &x, tsr_metric_args more = {},
                        location at = location::current())
{
  more.known = known.raw();
  more.x = x.raw();
  more = detail::sized(more);
  return array(tsr_metric_add_at(&more, detail::site(at)));
}

inline array metric_join(const array &a, const array &b, location at = location::current())
{
  return array(tsr_metric_join_at(a.raw(), b.raw(), detail::site(at)));
}

inline array metric_of(const array &known, tsr_metric which, location at = location::current())
{
  return array(tsr_metric_of_at(known.raw(), which, detail::site(at)));
}

/* Results of a step of an optimiser. */
struct stepped {
  array model, state;
};

/* The rate is a number or a scalar, such as the result of schedule; `more` has the rest. */
#define TESSERA_OPTIMISER_(name)                                                                   \
  inline stepped name(const array &model, const array &gradient, const array &state, operand rate, \
                      tsr_##name##_args more = {})                                                 \
  {                                                                                                \
    more.model = model.raw();                                                                      \
    more.gradient = gradient.raw();                                                                \
    more.state = state.raw();                                                                      \
    more.rate = rate.raw();                                                                        \
    more = detail::sized(more);                                                                    \
    array both(tsr_##name##_at(&more, rate.site()));                                               \
    return { item(both, 0), item(both, 1) };                                                       \
  }
TESSERA_OPTIMISER_(sgd)
TESSERA_OPTIMISER_(adam)
#undef TESSERA_OPTIMISER_

} // namespace tessera

#endif
