/* What training takes beside gradients: losses, first values, rates and steps of optimisers.
 *
 *   tsr_array *kept = tsr_adam_state(model);
 *   ...
 *   tsr_array *next = tsr_adam(model, slope, kept, .rate = TSR_OPERAND(1e-3));
 *   model = tsr_item(next, 0), kept = tsr_item(next, 1);
 *
 * A model is a tree of floats, its gradient a tree of the same form, and what an optimiser keeps
 * from step to step is a tree too: all three go through functions like any arrays. Layers are
 * functions of the program. All of this is made of operations: it lies where its operands do, and
 * its numbers are the same on any mesh. */
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
  /* Integers [...], which class; or floats [..., classes], how likely each is. */
  tsr_array *truth TSR_REST_BY_NAME;
  double smoothing; /* so much of the truth is given to all classes alike, 0 to 1 */
} tsr_cross_entropy_args;

/* What each line of `scores` says against `truth`: the logarithm of its softmax, times -1, where
 * the true class is, or summed as likely as classes are. tsr_mean of it is the usual loss. A line
 * whose class is none of those that are there counts as 0 and has no gradient.
 * tsr_cross_entropy(scores, digits), tsr_cross_entropy(scores, digits, .smoothing = 0.1). Errors:
 * TSR_EDTYPE, TSR_ESHAPE, TSR_EARG for a smoothing out of range. Returns an array of the shape of
 * `scores` without its last dim, owned as results are. Local. */
TSR_API tsr_array *tsr_cross_entropy_at(const tsr_cross_entropy_args *args, const char *site);

/* ---- first values ------------------------------------------------------------------------- */

/* What the variance of first values is: of an array [..., in, out], whose dims before these are a
 * window of so many places, `ins` is in times places, and `outs` out times places. */
typedef enum tsr_initial_rule {
  TSR_GLOROT, /* 2 / (ins + outs) */
  TSR_HE,     /* 2 / ins */
  TSR_LECUN   /* 1 / ins */
} tsr_initial_rule;

typedef enum tsr_initial_law {
  TSR_INITIAL_UNIFORM,
  TSR_INITIAL_NORMAL,
  TSR_INITIAL_TRUNCATED /* normal, none beyond two deviations of what is cut; of that variance */
} tsr_initial_law;

/* Draws first values of mean 0, as JAX's initializers scale them: tsr_initial(s, TSR_HE,
 * TSR_INITIAL_NORMAL, .key = 1, .shape = TSR_SHAPE(784, 512), .dtype = TSR_F32). Errors: those of
 * tsr_uniform, TSR_ESHAPE for fewer than two dims, TSR_EARG for another rule or law. Returns an
 * array owned as results are. Local. */
TSR_API tsr_array *tsr_initial_at(tsr_scope *scope, tsr_initial_rule rule, tsr_initial_law law,
                                  const tsr_random_args *args, const char *site);

/* ---- rates -------------------------------------------------------------------------------- */

typedef enum tsr_schedule_kind {
  TSR_SCHEDULE_CONSTANT, /* .rate */
  TSR_SCHEDULE_COSINE,   /* from .rate to .end along half a wave, which is over at step .steps */
  TSR_SCHEDULE_STEPS     /* .rate, times .factor after each .every steps */
} tsr_schedule_kind;

typedef struct tsr_schedule_args {
  size_t size;
  tsr_array *step; /* an integer, counted from 0: tsr_field(kept, "step") */
  tsr_schedule_kind kind TSR_REST_BY_NAME;
  double rate;
  int64_t warmup; /* steps in which the rate rises from 0 to .rate, before what `kind` says */
  int64_t steps;  /* of TSR_SCHEDULE_COSINE: with those of the warm-up */
  double end;
  int64_t every; /* of TSR_SCHEDULE_STEPS */
  double factor;
} tsr_schedule_args;

/* The rate at a step, a scalar f64: tsr_schedule(step, TSR_SCHEDULE_COSINE, .rate = 0.1, .warmup =
 * 100, .steps = 1000). Errors: TSR_EDTYPE for a step that is no integer, TSR_EARG for numbers that
 * cannot be. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_schedule_at(const tsr_schedule_args *args, const char *site);

/* ---- gradients ---------------------------------------------------------------------------- */

/* The square root of the sum of the squares of all elements of a tree of floats, a scalar of the
 * dtype of its first array. Error: TSR_EDTYPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_global_norm_at(tsr_array *tree, const char *site);
/* A tree times what makes its tsr_global_norm `limit`, where that is larger. Errors: TSR_EDTYPE,
 * TSR_EARG for a limit that is not positive. Returns a tree owned as results are. Local. */
TSR_API tsr_array *tsr_clip_norm_at(tsr_array *tree, double limit, const char *site);

/* ---- optimisers --------------------------------------------------------------------------- */

/* What an optimiser keeps: trees of the model's form beside the number of steps that were made,
 * (step, velocity) and (step, mean, square). Elements of bf16 and f16 are kept and counted in f32.
 * Error: TSR_EDTYPE for a model of what is no float. Returns a tree owned as results are. Local. */
TSR_API tsr_array *tsr_sgd_state_at(tsr_array *model, const char *site);
/* As tsr_sgd_state. Local. */
TSR_API tsr_array *tsr_adam_state_at(tsr_array *model, const char *site);

typedef struct tsr_sgd_args {
  size_t size;
  tsr_array *model, *gradient, *state TSR_REST_BY_NAME;
  tsr_operand rate; /* TSR_OPERAND(0.1), or a scalar such as tsr_schedule makes */
  double momentum;
  bool nesterov;
  double decay; /* so much of the model is added to its gradient */
} tsr_sgd_args;

/* One step of stochastic gradient descent, as PyTorch's SGD: velocity = momentum * velocity +
 * gradient, model -= rate * velocity. tsr_sgd(model, slope, kept, .rate = TSR_OPERAND(0.1),
 * .momentum = 0.9). Errors: TSR_EARG (trees of other forms, no rate, numbers that cannot be),
 * TSR_ESHAPE, TSR_EDTYPE. Returns the tuple of the next model, which lies as `model` where that
 * lies somewhere, and the next state, owned as results are. Local. */
TSR_API tsr_array *tsr_sgd_at(const tsr_sgd_args *args, const char *site);

typedef struct tsr_adam_args {
  size_t size;
  tsr_array *model, *gradient, *state TSR_REST_BY_NAME;
  tsr_operand rate;            /* as of tsr_sgd */
  double beta1, beta2, smooth; /* below 1; 0: 0.9, 0.999 and 1e-8 */
  double decay;                /* AdamW: the model loses rate * decay of itself, too */
} tsr_adam_args;

/* One step of Adam, with .decay of AdamW, as PyTorch's: mean and square are moving means of the
 * gradient and its square, both corrected for their beginning at 0, and model -= rate * mean /
 * (sqrt(square) + smooth). Errors and result as of tsr_sgd. Local. */
TSR_API tsr_array *tsr_adam_at(const tsr_adam_args *args, const char *site);

/* ---- metrics ------------------------------------------------------------------------------ */

/* What is known of numbers that come batch by batch is a tree of five scalars of f64, which is
 * passed on from step to step, through functions and checkpoints, like any other:
 *
 *   known = tsr_metric_start(s);
 *   known = tsr_metric_add(known, losses, .where = tsr_batch_mask(b));     for each batch
 *   tsr_read_scalar(tsr_metric_of(known, TSR_METRIC_MEAN), &mean);
 *
 * Arrays are global, so numbers of all devices and processes count, and each once. The sum of a
 * batch is exact and rounded once to f64; batches are added with twice its digits. So neither the
 * mesh nor, of f32 numbers but for extreme ones, how they are cut into batches shows in a bit. */

typedef enum tsr_metric {
  TSR_METRIC_MEAN, /* NaN of none */
  TSR_METRIC_SUM,
  TSR_METRIC_COUNT,
  TSR_METRIC_MIN, /* inf of none */
  TSR_METRIC_MAX  /* -inf of none */
} tsr_metric;

/* What is known of no numbers. Returns a tree owned by the scope. Local. */
TSR_API tsr_array *tsr_metric_start_at(tsr_scope *scope, const char *site);

typedef struct tsr_metric_args {
  size_t size;
  tsr_array *known, *x TSR_REST_BY_NAME;
  tsr_array *where; /* bool, for the first dims of x: only true ones count; NULL = all */
} tsr_metric_args;

/* What is known, with all elements of `x`, counted in f64. Errors: TSR_EARG for a tree that is none
 * of metrics, TSR_EDTYPE, TSR_ESHAPE. Returns a tree owned as results are. Local. */
TSR_API tsr_array *tsr_metric_add_at(const tsr_metric_args *args, const char *site);
/* What is known of two lots of numbers, as of processes that train apart. Errors: TSR_EARG. Returns
 * a tree owned as results are. Local. */
TSR_API tsr_array *tsr_metric_join_at(tsr_array *a, tsr_array *b, const char *site);
/* One number of what is known, a scalar of f64. Errors: TSR_EARG. Returns an array owned as results
 * are. Local. */
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
/* tsr_sgd(model, slope, kept, .rate = TSR_OPERAND(0.1)) */
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
/* tsr_metric_add(known, losses, .where = mask) */
#define TSR_METRIC_ADD_(known_, x_, ...) \
  (&(tsr_metric_args){ .size = sizeof(tsr_metric_args), .known = (known_), .x = (x_), __VA_ARGS__ })
#define tsr_metric_add(...)                                                                 \
  tsr_metric_add_at(TSR_NEEDS_2_("tsr_metric_add(known, x)", TSR_METRIC_ADD_, __VA_ARGS__), \
                    TSR_HERE)
#define tsr_metric_join(a, b) tsr_metric_join_at((a), (b), TSR_HERE)
#define tsr_metric_of(known, which) tsr_metric_of_at((known), (which), TSR_HERE)
#endif

#endif
