/* Functions: a C callback traced once per signature and called many times.
 *
 *   static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
 *   {
 *     return tsr_mean(tsr_square(tsr_sub(tsr_matmul(in[1], in[0]), in[2])));
 *   }
 *   tsr_function *f = tsr_function_make(s, loss);
 *   tsr_array *l = tsr_call(f, w, x, y);
 *
 * The body is traced when a call has arguments of a new signature (dtypes, shapes, shardings, forms
 * of trees): it gets arrays without values, makes nodes from them, and returns the result of the
 * function's program. Later calls only add one node. The body must make the same nodes each time,
 * and may not read arrays. Numbers in it are constants. Arrays from outside become operands of
 * every call, with their value at the time of the trace. Arrays and functions that a body makes end
 * when it returns: to use one later is TSR_ESTATE, as long as the function's scope is open. */
#ifndef TESSERA_FUNCTION_H
#define TESSERA_FUNCTION_H

#include "tree.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_function tsr_function;

/* Makes the result of a function from its arguments `in`, with all nodes in `scope`. Several arrays
 * are returned as a tree, tsr_tuple(scope, a, b). `user` is the function's. */
typedef tsr_array *tsr_body_fn(tsr_scope *scope, tsr_array *const *in, void *user);

enum { TSR_MAX_ARGS = 16 }; /* most arguments of a function; a tree counts as one */

typedef struct tsr_function_args {
  size_t size;
  tsr_body_fn *body TSR_REST_BY_NAME;
  void *user; /* passed to the body, borrowed as long as the function lives */
  /* Number of bytes at `user` that are arguments too, though no arrays: when they change, the body
   * is traced again; 0: none. */
  size_t user_bytes;
  const char *name;     /* in messages and explanations, copied; NULL: "function" */
  const tsr_mesh *mesh; /* mesh of the specs below; NULL: the scope's default */
  /* Shardings of the arguments, one for all arrays of a tree, and of the arrays of the result, in
   * their order; NULL: as they come. A spec without its array is TSR_EARG at the call. */
  const char *in_specs[TSR_MAX_ARGS], *out_specs[TSR_MAX_ARGS];
  /* The sharding of each array in the body follows from its operands (shardings are part of types),
   * and so do those of the results: the planner decides nothing. Operands that leave a choice are
   * TSR_EAXIS at the call, and the message has the choices: contracted dims that are sharded on
   * both sides, operands sharded differently, one axis for two dims, slices with uneven borders,
   * routines along a sharded dim. tsr_reshard and tsr_constrain choose. The rule holds for
   * functions that the body calls, and gradients have the shardings of their arguments. A loop's
   * carry keeps its first sharding, or, if it was replicated, takes the one that the first step
   * gives it. */
  bool explicit_shardings;
} tsr_function_args;

/* Makes a function that lives until `scope` closes. Errors: TSR_EARG, those of specs. A function
 * that could not be made returns inert arrays. Returns NULL only for a NULL or inert scope and out
 * of memory. Local. */
TSR_API tsr_function *tsr_function_make_at(tsr_scope *scope, const tsr_function_args *args,
                                           const char *site);

/* Calls a function on arrays or trees. Errors: TSR_EARG, those of the body (the text has the source
 * lines of both), TSR_ESTATE for a body that calls its own function on the same arguments. Returns
 * an array or a tree, owned as results are. Local. */
TSR_API tsr_array *tsr_call_at(tsr_function *function, tsr_array *const *arguments, int count,
                               const char *site);

/* Returns the number of signatures that a function was traced for without an error. Local. */
TSR_API int tsr_trace_count(const tsr_function *function);

/* tsr_function_make(s, body), tsr_function_make(s, body, .user = &model), tsr_call(f, x, y) */
#define TSR_FUNCTION_MAKE_(scope, body_, ...)                                                 \
  tsr_function_make_at((scope),                                                               \
                       &(tsr_function_args){                                                  \
                           .size = sizeof(tsr_function_args), .body = (body_), __VA_ARGS__ }, \
                       TSR_HERE)
#define tsr_function_make(...) \
  TSR_NEEDS_2_("tsr_function_make(scope, body)", TSR_FUNCTION_MAKE_, __VA_ARGS__)
#define tsr_call(function, ...)                                \
  tsr_call_at((function), (tsr_array *const[]){ __VA_ARGS__ }, \
              (int)(sizeof((tsr_array *const[]){ __VA_ARGS__ }) / sizeof(tsr_array *)), TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
