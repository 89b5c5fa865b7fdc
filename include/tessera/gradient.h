/* Gradients: functions made of functions.
 *
 *   tsr_function *f = tsr_function_make(s, loss);
 *   tsr_function *g = tsr_value_and_grad(f, .wrt = TSR_ARGS(0));
 *   tsr_array *both = tsr_call(g, parameters, x, y);
 *   tsr_array *l = tsr_item(both, 0), *slope = tsr_item(both, 1);
 *
 * What is made is a function like any other: it is traced once a signature, is called with
 * arrays and trees, and has gradients itself. The gradient of a tree is a tree of its form. There
 * is none of an array that lies there already: what is to be differentiated by is an argument.
 * At ties minimum, maximum and reductions of them share, as in JAX. */
#ifndef TESSERA_GRADIENT_H
#define TESSERA_GRADIENT_H

#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of which function, and by which of its arguments. */
typedef struct tsr_gradient_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  tsr_dims wrt; /* TSR_ARGS(0, 2), counted from 0; none named: argument 0 */
} tsr_gradient_args;

/* Makes the function of the gradient: it takes what the function takes, and gives what the
 * gradient of its result by an argument is, which has that argument's form, dtypes and shapes; by
 * several arguments it is a tuple of these, in their order. The result is one float of rank 0, or
 * a tree whose first array is one. Errors: TSR_EARG; at the call those of the function, TSR_EDTYPE
 * by an argument that is no float, TSR_ESHAPE for a result that is no single number,
 * TSR_EUNSUPPORTED for an operation that has no gradient. Returns a function owned by that one's
 * scope. Local. */
TSR_API tsr_function *tsr_grad_at(const tsr_gradient_args *args, const char *site);
/* As tsr_grad, with what the function gives: the result is the tuple of both, (value, gradient).
 * Where the function gives a tree, its first array is the one that is differentiated; the others
 * come along. Local. */
TSR_API tsr_function *tsr_value_and_grad_at(const tsr_gradient_args *args, const char *site);

/* Makes the function that carries back: it takes what the function takes, and behind that one
 * array or tree more, of the form of the function's result. It gives a tuple of the function's
 * result and of the sum of that with the derivatives: a vector times the Jacobian matrix. What is
 * carried of an integer or a bool is not looked at. Errors and ownership as tsr_grad; the result
 * may be of any shape. Local. */
TSR_API tsr_function *tsr_vjp_at(const tsr_gradient_args *args, const char *site);
/* Makes the function that carries forward: it takes what the function takes, and behind that a
 * direction for each of the arguments that are named, of its form. It gives a tuple of the
 * function's result and of how that changes in the direction: the Jacobian matrix times a vector.
 * An integer or a bool in the result does not change: its place has zeros of its dtype and shape
 * (JAX has an array of float0). Errors and ownership as tsr_vjp. Local. */
TSR_API tsr_function *tsr_jvp_at(const tsr_gradient_args *args, const char *site);
/* Makes the function of products of second derivatives: it takes what the function takes, and
 * behind that a direction as tsr_jvp does, and gives how the gradient changes in it. Errors and
 * ownership as tsr_grad. Local. */
TSR_API tsr_function *tsr_hvp_at(const tsr_gradient_args *args, const char *site);

/* Makes the function of all first derivatives: it takes what the function takes, and gives an array
 * whose dims are those of the result, then those of the argument: how each element of the one
 * changes with each of the other. Of an argument that is a tree it is a tree of these, by several
 * arguments a tuple; of a result that is a tree, one of its form, with each of these for an array
 * of it. It goes back once for each element of the result, or forward for each of the argument
 * where these are fewer, mapped over them all (mapping.h). Errors and ownership as tsr_vjp;
 * TSR_EDTYPE for an array of the result that is no float. Local. */
TSR_API tsr_function *tsr_jacobian_at(const tsr_gradient_args *args, const char *site);

/* Where a function is to be linear. */
typedef struct tsr_linearize_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  tsr_dims wrt; /* as tsr_gradient_args has it */
  /* Its arguments; behind the last NULL. One place more than a function has arguments. */
  tsr_array *at[TSR_MAX_ARGS + 1];
} tsr_linearize_args;

/* Makes the function of a jvp at a point: it takes directions alone and gives how the result
 * changes in them. What does not depend on directions is evaluated here, once, so this is a
 * terminal. Errors as tsr_jvp, and those of a run. Returns a function owned by that one's scope,
 * which keeps what was evaluated. Local. */
TSR_API tsr_function *tsr_linearize_at(const tsr_linearize_args *args, const char *site);

/* A function and the rule that takes the place of its gradient. */
typedef struct tsr_custom_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  /* Called with the function's arguments, then its result, then what is due to that, of the same
   * form; it returns what is due to the arguments: an array like each array of them, in their
   * order, as tsr_tuple if they are several. What it gives for an integer is not looked at. */
  tsr_body_fn *backward;
  void *user; /* passed to the rule, borrowed as long as the function lives */
  /* Of tsr_custom_jvp: called with the function's arguments, then its result, then a direction for
   * each argument, of its form (zeros for an integer); it returns how the result changes in these:
   * an array like each array of the result, in their order, as tsr_tuple if they are several. */
  tsr_body_fn *forward;
} tsr_custom_args;

/* Makes a function that computes what `function` does, and whose gradient is what a rule says. The
 * rule is traced with the function, at the first call of a signature, and is differentiated itself
 * where a gradient of a gradient is asked for, or a jvp. In a body on devices (mapping.h) what is
 * due to a result that is the same at all places of an axis is so, too; an argument that is gets
 * the sum of what the rule gives at each place, or, where that is the same, what it gives. Errors:
 * TSR_EARG; at the call those of both bodies, TSR_EARG for a rule that gives another number of
 * arrays, TSR_ESHAPE and TSR_EDTYPE for one that is not like its argument. Returns a function owned
 * by that one's scope. Local. */
TSR_API tsr_function *tsr_custom_vjp_at(const tsr_custom_args *args, const char *site);
/* The same of a rule that goes forward. It is linear in the directions, so what a gradient needs is
 * its transpose, which is made of it (where it is not linear, its slope at directions of 0 counts).
 * Errors and ownership as tsr_custom_vjp; TSR_EARG for a rule that gives another number of arrays
 * than the function, TSR_ESHAPE and TSR_EDTYPE for one that is not like its result. Local. */
TSR_API tsr_function *tsr_custom_jvp_at(const tsr_custom_args *args, const char *site);
/* Makes a function that computes what `function` does, and of which a gradient keeps nothing but
 * the arguments: what lies between is computed again on the way back. Slower by that, and smaller
 * by what would be kept (tsr_device_memory tells). The gradient has the same bits. What has no
 * gradient, as tsr_while, is refused only where one is asked for that leads through it. Errors:
 * those of the function. Returns a function owned by that one's scope. Local. */
TSR_API tsr_function *tsr_checkpoint_at(tsr_function *function, const char *site);

/* tsr_grad(f), tsr_grad(f, .wrt = TSR_ARGS(0, 2)) */
#define TSR_ARGS(...) TSR_DIMS(__VA_ARGS__)
#define TSR_GRADIENT_(...) TSR_GRADIENT_OF_(__VA_ARGS__, ), TSR_HERE
#define TSR_GRADIENT_OF_(function_, ...)                                    \
  &(tsr_gradient_args)                                                      \
  {                                                                         \
    .size = sizeof(tsr_gradient_args), .function = (function_), __VA_ARGS__ \
  }
#define tsr_grad(...) tsr_grad_at(TSR_GRADIENT_(__VA_ARGS__))
#define tsr_value_and_grad(...) tsr_value_and_grad_at(TSR_GRADIENT_(__VA_ARGS__))
#define tsr_vjp(...) tsr_vjp_at(TSR_GRADIENT_(__VA_ARGS__))
#define tsr_jvp(...) tsr_jvp_at(TSR_GRADIENT_(__VA_ARGS__))
#define tsr_hvp(...) tsr_hvp_at(TSR_GRADIENT_(__VA_ARGS__))
#define tsr_jacobian(...) tsr_jacobian_at(TSR_GRADIENT_(__VA_ARGS__))
#define TSR_LINEARIZE_(function_, ...) \
  (&(tsr_linearize_args){              \
      .size = sizeof(tsr_linearize_args), .function = (function_), __VA_ARGS__ })
#define tsr_linearize(...) tsr_linearize_at(TSR_LINEARIZE_(__VA_ARGS__, ), TSR_HERE)
#define TSR_CUSTOM_(...) TSR_CUSTOM_OF_(__VA_ARGS__, ), TSR_HERE
#define TSR_CUSTOM_OF_(function_, ...)                                    \
  &(tsr_custom_args)                                                      \
  {                                                                       \
    .size = sizeof(tsr_custom_args), .function = (function_), __VA_ARGS__ \
  }
#define tsr_custom_vjp(...) tsr_custom_vjp_at(TSR_CUSTOM_(__VA_ARGS__))
#define tsr_custom_jvp(...) tsr_custom_jvp_at(TSR_CUSTOM_(__VA_ARGS__))
#define tsr_checkpoint(function) tsr_checkpoint_at((function), TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
