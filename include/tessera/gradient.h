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
  tsr_function *function;
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
 * result and of the sum of that with the derivatives: a vector times the Jacobian matrix.
 * Errors and ownership as tsr_grad; the result may be of any shape. Local. */
TSR_API tsr_function *tsr_vjp_at(const tsr_gradient_args *args, const char *site);
/* Makes the function that carries forward: it takes what the function takes, and behind that a
 * direction for each of the arguments that are named, of its form. It gives a tuple of the
 * function's result and of how that changes in the direction: the Jacobian matrix times a vector.
 * Errors and ownership as tsr_vjp. Local. */
TSR_API tsr_function *tsr_jvp_at(const tsr_gradient_args *args, const char *site);
/* Makes the function of products of second derivatives: it takes what the function takes, and
 * behind that a direction as tsr_jvp does, and gives how the gradient changes in it. Errors and
 * ownership as tsr_grad. Local. */
TSR_API tsr_function *tsr_hvp_at(const tsr_gradient_args *args, const char *site);

/* tsr_grad(f), tsr_grad(f, .wrt = TSR_ARGS(0, 2)) */
#define TSR_ARGS(...) TSR_DIMS(__VA_ARGS__)
#define TSR_GRADIENT_(...) \
  &(tsr_gradient_args){ .size = sizeof(tsr_gradient_args), .function = __VA_ARGS__ }, TSR_HERE
#define tsr_grad(...) tsr_grad_at(TSR_GRADIENT_(__VA_ARGS__))
#define tsr_value_and_grad(...) tsr_value_and_grad_at(TSR_GRADIENT_(__VA_ARGS__))
#define tsr_vjp(...) tsr_vjp_at(TSR_GRADIENT_(__VA_ARGS__))
#define tsr_jvp(...) tsr_jvp_at(TSR_GRADIENT_(__VA_ARGS__))
#define tsr_hvp(...) tsr_hvp_at(TSR_GRADIENT_(__VA_ARGS__))

#ifdef __cplusplus
}
#endif

#endif
