/* Gradients: functions made from functions.
 *
 *   tsr_function *f = tsr_function_make(s, loss);
 *   tsr_function *g = tsr_value_and_grad(f, .wrt = TSR_ARGS(0));
 *   tsr_array *both = tsr_call(g, parameters, x, y);
 *   tsr_array *l = tsr_item(both, 0), *slope = tsr_item(both, 1);
 *
 * A gradient is a function like any other: it is traced once a signature, takes arrays and trees,
 * and has gradients itself. The gradient of a tree is a tree of its form. A function is
 * differentiated by its arguments only: arrays from outside have no gradient. At ties, minimum,
 * maximum and their reductions share the gradient, as in JAX. */
#ifndef TESSERA_GRADIENT_H
#define TESSERA_GRADIENT_H

#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of calls that make gradients: the function, and the arguments to differentiate by. */
typedef struct tsr_gradient_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  tsr_dims wrt; /* argument numbers, TSR_ARGS(0, 2), from 0 on; zeros: argument 0 */
} tsr_gradient_args;

/* Makes the gradient of a function: it takes the function's arguments and returns the gradient of
 * the result by the argument in `.wrt`, with that argument's form, dtypes and shapes; by several
 * arguments, the tuple of their gradients in order. A gradient has the sharding of the array that
 * it is by. The function's result must be one float of rank 0, or a tree whose first array is one.
 * Errors: TSR_EARG; at the call those of the function, TSR_EDTYPE for an argument in `.wrt` that is
 * not a float, TSR_ESHAPE for a result that is not a single number, TSR_EUNSUPPORTED for an
 * operation without a gradient. Returns a function owned by the scope of `function`. Local. */
TSR_API tsr_function *tsr_grad_at(const tsr_gradient_args *args, const char *site);
/* Makes a function as tsr_grad does that returns the tuple (value, gradient). Where the function
 * returns a tree, its first array is differentiated and the whole tree is the value. Local. */
TSR_API tsr_function *tsr_value_and_grad_at(const tsr_gradient_args *args, const char *site);

/* Makes the vector-Jacobian product of a function (reverse mode): it takes the function's arguments
 * and then a cotangent, an array or tree of the form of the result. The product returns the tuple
 * of the function's result and the gradient of the arguments in `.wrt`: the cotangent times the
 * Jacobian matrix. The cotangent of an integer or a bool is ignored. The result may have any shape.
 * Errors and ownership as tsr_grad. Local. */
TSR_API tsr_function *tsr_vjp_at(const tsr_gradient_args *args, const char *site);
/* Makes the Jacobian-vector product of a function (forward mode): it takes the function's arguments
 * and then a tangent of the form of each argument in `.wrt`. The product returns the tuple of the
 * function's result and the result's tangent: the Jacobian matrix times the tangents. The tangent
 * of an integer or a bool in the result is zeros of its dtype and shape (JAX has an array of
 * float0). Errors and ownership as tsr_vjp. Local. */
TSR_API tsr_function *tsr_jvp_at(const tsr_gradient_args *args, const char *site);
/* Makes the Hessian-vector product of a function: it takes the function's arguments and then
 * tangents as tsr_jvp does, and returns the tangent of the gradient. Errors and ownership as
 * tsr_grad. Local. */
TSR_API tsr_function *tsr_hvp_at(const tsr_gradient_args *args, const char *site);

/* Makes the Jacobian matrix of a function: it takes the function's arguments and returns an array
 * whose dims are those of the result, then those of the argument: the derivative of each element of
 * the result by each element of the argument. For an argument that is a tree it returns a tree of
 * these arrays; for several arguments a tuple; for a result that is a tree, a tree of its form. The
 * function maps (mapping.h) one backward pass over each element of the result, or one forward pass
 * over each element of the argument where these are fewer. Errors and ownership as tsr_vjp;
 * TSR_EDTYPE for an array of the result that is not a float. Local. */
TSR_API tsr_function *tsr_jacobian_at(const tsr_gradient_args *args, const char *site);

/* Arguments of tsr_linearize: the function, and the point. */
typedef struct tsr_linearize_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  tsr_dims wrt; /* as in tsr_gradient_args */
  /* The function's arguments at the point, up to the first NULL; the list has room for one NULL
   * more. */
  tsr_array *at[TSR_MAX_ARGS + 1];
} tsr_linearize_args;

/* Makes the jvp of a function at a point: it takes tangents only and returns the result's tangent.
 * Nodes that do not depend on tangents are evaluated here, once, so this call is a terminal. Errors
 * as tsr_jvp, and those of a run. Returns a function owned by the scope of `function`, which keeps
 * the evaluated values. Local. */
TSR_API tsr_function *tsr_linearize_at(const tsr_linearize_args *args, const char *site);

/* Arguments of tsr_custom_vjp and tsr_custom_jvp: a function, and the rule that replaces its
 * gradient. */
typedef struct tsr_custom_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  /* The rule of tsr_custom_vjp: called with the function's arguments, then its result, then the
   * result's cotangent, of the same form. The rule returns the cotangents of the arguments: an
   * array like each array of them, in their order, as tsr_tuple if they are several. The cotangent
   * of an integer is ignored. */
  tsr_body_fn *backward;
  void *user; /* passed to the rule, borrowed as long as the function lives */
  /* The rule of tsr_custom_jvp: called with the function's arguments, then its result, then a
   * tangent of the form of each argument (zeros for an integer). The rule returns the result's
   * tangent: an array like each array of the result, in their order, as tsr_tuple if they are
   * several. */
  tsr_body_fn *forward;
} tsr_custom_args;

/* Makes a function that computes what `function` does, with the rule `.backward` in place of its
 * gradient. The rule is traced with the function, at the first call of a signature; a gradient of a
 * gradient, or a jvp, differentiates the rule. In a body on devices (mapping.h), the cotangent of a
 * result that is the same at all positions of an axis is the same at all of them, too. An argument
 * that is the same at all positions gets the sum of the rule's values at each position, or, where
 * the rule's value is the same at all of them, that value. Errors: TSR_EARG; at the call those of
 * both bodies, TSR_EARG for a rule that returns a wrong number of arrays, TSR_ESHAPE and TSR_EDTYPE
 * for an array unlike its argument. Returns a function owned by the scope of `function`. Local. */
TSR_API tsr_function *tsr_custom_vjp_at(const tsr_custom_args *args, const char *site);
/* Makes a function that computes what `function` does, with the rule `.forward` in place of its
 * jvp. The rule is linear in the tangents, so a gradient uses its transpose (for a rule that is not
 * linear, the transpose of its slope at zero tangents). Errors and ownership as tsr_custom_vjp;
 * TSR_EARG for a rule that returns another number of arrays than the function, TSR_ESHAPE and
 * TSR_EDTYPE for an array unlike its result. Local. */
TSR_API tsr_function *tsr_custom_jvp_at(const tsr_custom_args *args, const char *site);
/* Returns an array under a name, by which tsr_checkpoint keeps the value; a tree gives a tree of
 * arrays of that name. Several values may have one name. A name changes no value and no sharding,
 * and no operation computes it; outside of a checkpoint it does nothing. `name`: 1 to 63 bytes,
 * copied. Errors: TSR_EARG. The array belongs to the scope of `x`. Local. */
TSR_API tsr_array *tsr_named_at(tsr_array *x, const char *name, const char *site);

enum { TSR_MAX_KEPT = 16 }; /* most names in .keep */

/* Arguments of tsr_checkpoint: the function, and what its gradient keeps. */
typedef struct tsr_checkpoint_args {
  size_t size;
  tsr_function *function TSR_REST_BY_NAME;
  /* Names of values (tsr_named) in the function, up to the first NULL; the list has room for one
   * NULL more. */
  const char *keep[TSR_MAX_KEPT + 1];
} tsr_checkpoint_args;

/* Makes a function that computes what `function` does, and whose gradient keeps only the arguments
 * and the values named in `.keep`: the backward pass computes the other residuals again. The
 * gradient takes more time and less memory (tsr_compile tells how much); the gradient has the same
 * bits. Values are found in functions that the function calls, in loops and choices, whose steps
 * each keep their own, and in checkpoints, whose own `.keep` counts in the backward pass alone;
 * not in the bodies of tsr_while, nor in functions of tsr_custom_vjp and tsr_custom_jvp. An
 * operation without a gradient, such as tsr_while, is an error only where a gradient passes through
 * it. Errors: TSR_EARG; at the call those of the function, TSR_EARG for a name that no value has,
 * with the names that there are. Returns a function owned by the scope of `function`. Local. */
TSR_API tsr_function *tsr_checkpoint_at(const tsr_checkpoint_args *args, const char *site);

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
#define tsr_named(x, name) tsr_named_at((x), (name), TSR_HERE)
/* tsr_checkpoint(f), tsr_checkpoint(f, .keep = { "attention" }) */
#define TSR_CHECKPOINT_(function_, ...) \
  (&(tsr_checkpoint_args){              \
      .size = sizeof(tsr_checkpoint_args), .function = (function_), __VA_ARGS__ })
#define tsr_checkpoint(...) tsr_checkpoint_at(TSR_CHECKPOINT_(__VA_ARGS__, ), TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
