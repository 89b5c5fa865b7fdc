/* Training besides gradients: losses, initial values, learning rates, optimiser steps and metrics.
 *
 *   tsr_array *state = tsr_adam_state(model);
 *   ...
 *   tsr_array *next = tsr_adam(model, gradient, state, .rate = TSR_OPERAND(1e-3));
 *   model = tsr_item(next, 0), state = tsr_item(next, 1);
 *
 * A model is a tree of floats, its gradient is a tree of the same form, and an optimiser's state is
 * a tree too: all three pass through functions like other arrays. Layers are functions of the
 * program. All calls here are made of operations: results take the sharding of their operands, and
 * their numbers are the same on any mesh. */
#ifndef TESSERA_TRAIN_H
#define TESSERA_TRAIN_H

#include "random.h"
#include "tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- losses ------------------------------------------------------------------------------- */

typedef struct tsr_cross_entropy_args {
  size_t size;
  tsr_array *scores; /* floats [..., classes] */
  /* Integers [...], the class; or floats [..., classes], the probability of each class. */
  tsr_array *truth TSR_REST_BY_NAME;
  double smoothing; /* the share of the truth that is spread over all classes, 0 to 1 */
} tsr_cross_entropy_args;

/* Returns the cross-entropy of `scores` (logits) and `truth`, an array of the shape of `scores`
 * without its last dim, owned as results are: tsr_cross_entropy(scores, digits),
 * tsr_cross_entropy(scores, digits, .smoothing = 0.1). Each element is -log(softmax(scores)) at the
 * true class, or summed with the probabilities of classes as weights; tsr_mean of it is the usual
 * loss. A class out of range counts as 0 and has no gradient. Errors: TSR_EDTYPE, TSR_ESHAPE,
 * TSR_EARG for a smoothing out of range. Local. */
TSR_API tsr_array *tsr_cross_entropy_at(const tsr_cross_entropy_args *args, const char *site);

/* ---- initial values ----------------------------------------------------------------------- */

/* The variance of initial values of an array [..., in, out]. The dims before these are a window
 * with so many positions; `ins` is in times positions, and `outs` is out times positions. */
typedef enum tsr_initial_rule {
  TSR_GLOROT, /* 2 / (ins + outs) */
  TSR_HE,     /* 2 / ins */
  TSR_LECUN   /* 1 / ins */
} tsr_initial_rule;

typedef enum tsr_initial_law {
  TSR_INITIAL_UNIFORM,
  TSR_INITIAL_NORMAL,
  TSR_INITIAL_TRUNCATED /* a normal cut at two of its deviations, then scaled to the variance */
} tsr_initial_law;

/* Returns random initial values of mean 0 with the variance of JAX's initializers, owned as results
 * are: tsr_initial(s, TSR_HE, TSR_INITIAL_NORMAL, .key = 1, .shape = TSR_SHAPE(784, 512), .dtype =
 * TSR_F32). Errors: those of tsr_uniform, TSR_ESHAPE for fewer than two dims, TSR_EARG for an
 * unknown rule or law. Local. */
TSR_API tsr_array *tsr_initial_at(tsr_scope *scope, tsr_initial_rule rule, tsr_initial_law law,
                                  const tsr_random_args *args, const char *site);

/* ---- learning rates ----------------------------------------------------------------------- */

typedef enum tsr_schedule_kind {
  TSR_SCHEDULE_CONSTANT, /* .rate */
  /* half a cosine wave from .rate to .end, which it reaches at step .steps */
  TSR_SCHEDULE_COSINE,
  TSR_SCHEDULE_STEPS /* .rate, multiplied by .factor after each .every steps */
} tsr_schedule_kind;

typedef struct tsr_schedule_args {
  size_t size;
  tsr_array *step; /* an integer, counted from 0: tsr_field(state, "step") */
  tsr_schedule_kind kind TSR_REST_BY_NAME;
  double rate;
  /* first steps, in which the rate rises from 0 to .rate; `kind` applies after them */
  int64_t warmup;
  int64_t steps; /* for TSR_SCHEDULE_COSINE: with the warm-up */
  double end;
  int64_t every; /* for TSR_SCHEDULE_STEPS */
  double factor;
} tsr_schedule_args;

/* Returns the learning rate at a step, a scalar f64 owned as results are: tsr_schedule(step,
 * TSR_SCHEDULE_COSINE, .rate = 0.1, .warmup = 100, .steps = 1000). Errors: TSR_EDTYPE for a step
 * that is not an integer, TSR_EARG for numbers out of range. Local. */
TSR_API tsr_array *tsr_schedule_at(const tsr_schedule_args *args, const char *site);

/* ---- gradients ---------------------------------------------------------------------------- */

/* Returns the square root of the sum of squares of all elements of a tree of floats, a scalar of
 * the dtype of its first array, owned as results are. Error: TSR_EDTYPE. Local. */
TSR_API tsr_array *tsr_global_norm_at(tsr_array *tree, const char *site);
/* Returns a tree scaled down so that its tsr_global_norm is `limit`, or unchanged if the norm is
 * smaller; owned as results are. Errors: TSR_EDTYPE, TSR_EARG for a limit that is not positive.
 * Local. */
TSR_API tsr_array *tsr_clip_norm_at(tsr_array *tree, double limit, const char *site);

/* ---- optimisers --------------------------------------------------------------------------- */

/* Returns the first state of tsr_sgd for a model, (step, velocity), owned as results are: the
 * number of steps made, and a tree of the model's form. The state of bf16 and f16 elements is f32.
 * Error: TSR_EDTYPE for a model that is not of floats. Local. */
TSR_API tsr_array *tsr_sgd_state_at(tsr_array *model, const char *site);
/* Returns the first state of tsr_adam for a model, (step, mean, square); otherwise as
 * tsr_sgd_state. Local. */
TSR_API tsr_array *tsr_adam_state_at(tsr_array *model, const char *site);

typedef struct tsr_sgd_args {
  size_t size;
  tsr_array *model, *gradient, *state TSR_REST_BY_NAME;
  tsr_operand rate; /* TSR_OPERAND(0.1), or a scalar such as a result of tsr_schedule */
  double momentum;
  bool nesterov;
  double decay; /* weight decay: decay * model is added to the gradient */
} tsr_sgd_args;

/* Returns the model and state after one step of stochastic gradient descent, as PyTorch's SGD:
 * velocity = momentum * velocity + gradient, model -= rate * velocity. tsr_sgd(model, gradient,
 * state, .rate = TSR_OPERAND(0.1), .momentum = 0.9). The result is a tuple (model, state), owned as
 * results are; the new model takes the sharding of a placed `model`. Errors: TSR_EARG (trees of
 * other forms, no rate, numbers out of range), TSR_ESHAPE, TSR_EDTYPE. Local. */
TSR_API tsr_array *tsr_sgd_at(const tsr_sgd_args *args, const char *site);

typedef struct tsr_adam_args {
  size_t size;
  tsr_array *model, *gradient, *state TSR_REST_BY_NAME;
  tsr_operand rate;            /* as for tsr_sgd */
  double beta1, beta2, smooth; /* betas below 1; 0: 0.9, 0.999 and 1e-8 */
  double decay;                /* AdamW: rate * decay * model is subtracted from the model too */
} tsr_adam_args;

/* Returns the model and state after one step of Adam, or with .decay of AdamW, as PyTorch's: mean
 * and square are moving averages of the gradient and its square, corrected for their start at 0,
 * and model -= rate * mean / (sqrt(square) + smooth). Result and errors as of tsr_sgd. Local. */
TSR_API tsr_array *tsr_adam_at(const tsr_adam_args *args, const char *site);

/* ---- metrics ------------------------------------------------------------------------------ */

/* A metric state summarises numbers that come batch by batch: a tree of five scalars of f64, which
 * passes from step to step, through functions and checkpoints, like any other tree:
 *
 *   state = tsr_metric_start(s);
 *   state = tsr_metric_add(state, losses, .where = tsr_batch_mask(b));     for each batch
 *   tsr_read_scalar(tsr_metric_of(state, TSR_METRIC_MEAN), &mean);
 *
 * Arrays are global, so the numbers of all devices and processes count, each once. The sum of a
 * batch is exact and rounded once to f64; sums of batches are added in twice the precision of f64.
 * So the mesh changes no bit of a result, and for f32 numbers, except extreme ones, neither do the
 * batches. */

typedef enum tsr_metric {
  TSR_METRIC_MEAN, /* NaN for no numbers */
  TSR_METRIC_SUM,
  TSR_METRIC_COUNT,
  TSR_METRIC_MIN, /* inf for no numbers */
  TSR_METRIC_MAX  /* -inf for no numbers */
} tsr_metric;

/* Returns the metric state of no numbers, a tree owned by the scope. Local. */
TSR_API tsr_array *tsr_metric_start_at(tsr_scope *scope, const char *site);

typedef struct tsr_metric_args {
  size_t size;
  tsr_array *known, *x TSR_REST_BY_NAME;
  tsr_array *where; /* bool, for the first dims of x: false excludes elements; NULL = all */
} tsr_metric_args;

/* Returns the metric state `known` with all elements of `x` added, in f64; a tree owned as results
 * are. Errors: TSR_EARG for a tree that is not a metric state, TSR_EDTYPE, TSR_ESHAPE. Local. */
TSR_API tsr_array *tsr_metric_add_at(const tsr_metric_args *args, const char *site);
/* Returns the metric state of the numbers of two states, such as those of processes that train
 * independently; a tree owned as results are. Errors: TSR_EARG. Local. */
TSR_API tsr_array *tsr_metric_join_at(tsr_array *a, tsr_array *b, const char *site);
/* Returns one number of a metric state, a scalar of f64 owned as results are. Errors: TSR_EARG.
 * Local. */
TSR_API tsr_array *tsr_metric_of_at(tsr_array *known, tsr_metric which, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define TSR_CROSS_ENTROPY_(scores_, truth_, ...)                      \
  (&(tsr_cross_entropy_args){ .size = sizeof(tsr_cross_entropy_args), \
                              .scores = (scores_),                    \
                              .truth = (truth_),                      \
                              __VA_ARGS__ })
#define tsr_cross_entropy(...) \
  tsr_cross_entropy_at(        \
      TSR_NEEDS_2_("tsr_cross_entropy(scores, truth)", TSR_CROSS_ENTROPY_, __VA_ARGS__), TSR_HERE)
#define tsr_initial(scope, rule, law, ...) \
  tsr_initial_at((scope), (rule), (law), TSR_RANDOM_(#__VA_ARGS__, __VA_ARGS__), TSR_HERE)
#define TSR_SCHEDULE_(step_, kind_, ...) \
  (&(tsr_schedule_args){                 \
      .size = sizeof(tsr_schedule_args), .step = (step_), .kind = (kind_), __VA_ARGS__ })
#define tsr_schedule(...) \
  tsr_schedule_at(TSR_NEEDS_2_("tsr_schedule(step, kind)", TSR_SCHEDULE_, __VA_ARGS__), TSR_HERE)
#define tsr_global_norm(tree) tsr_global_norm_at((tree), TSR_HERE)
#define tsr_clip_norm(tree, limit) tsr_clip_norm_at((tree), (limit), TSR_HERE)
#define tsr_sgd_state(model) tsr_sgd_state_at((model), TSR_HERE)
#define tsr_adam_state(model) tsr_adam_state_at((model), TSR_HERE)
/* tsr_sgd(model, gradient, state, .rate = TSR_OPERAND(0.1)) */
#define TSR_SGD_(model_, gradient_, state_, ...)  \
  (&(tsr_sgd_args){ .size = sizeof(tsr_sgd_args), \
                    .model = (model_),            \
                    .gradient = (gradient_),      \
                    .state = (state_),            \
                    __VA_ARGS__ })
#define tsr_sgd(...) \
  tsr_sgd_at(TSR_NEEDS_3_("tsr_sgd(model, gradient, state)", TSR_SGD_, __VA_ARGS__), TSR_HERE)
#define TSR_ADAM_(model_, gradient_, state_, ...)   \
  (&(tsr_adam_args){ .size = sizeof(tsr_adam_args), \
                     .model = (model_),             \
                     .gradient = (gradient_),       \
                     .state = (state_),             \
                     __VA_ARGS__ })
#define tsr_adam(...) \
  tsr_adam_at(TSR_NEEDS_3_("tsr_adam(model, gradient, state)", TSR_ADAM_, __VA_ARGS__), TSR_HERE)
#define tsr_metric_start(scope) tsr_metric_start_at((scope), TSR_HERE)
/* tsr_metric_add(state, losses, .where = mask) */
#define TSR_METRIC_ADD_(known_, x_, ...) \
  (&(tsr_metric_args){ .size = sizeof(tsr_metric_args), .known = (known_), .x = (x_), __VA_ARGS__ })
#define tsr_metric_add(...)                                                                 \
  tsr_metric_add_at(TSR_NEEDS_2_("tsr_metric_add(known, x)", TSR_METRIC_ADD_, __VA_ARGS__), \
                    TSR_HERE)
#define tsr_metric_join(a, b) tsr_metric_join_at((a), (b), TSR_HERE)
#define tsr_metric_of(known, which) tsr_metric_of_at((known), (which), TSR_HERE)
#endif

#endif
