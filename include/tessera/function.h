/* Functions: a C callback traced once for each kind of arguments and called many times.
 *
 *   static tsr_array *loss(tsr_scope *s, tsr_array *const *in, void *user)
 *   {
 *     return tsr_mean(tsr_square(tsr_sub(tsr_matmul(in[1], in[0]), in[2])));
 *   }
 *   tsr_function *f = tsr_function_make(s, loss);
 *   tsr_array *l = tsr_call(f, w, x, y);
 *
 * The body runs when a call brings arguments of a signature (dtypes, shapes, shardings, forms of
 * trees) that was not seen before: it sees arrays without values and makes others of them, and what
 * it returns is the function's program. Later calls add one node. The body must do the same each
 * time, and may not read arrays. Numbers in it are constants; arrays from outside become operands
 * of every call, with the value they have when the body is traced. What a body makes ends when it
 * returns: to use an array or a function of it that was kept is TSR_ESTATE, as long as the
 * function's scope is open. */
#ifndef TESSERA_FUNCTION_H
#define TESSERA_FUNCTION_H

#include "tree.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_function tsr_function;

/* Makes a function's result of its arguments `in`, in `scope`, where all it makes lives. Several
 * arrays are returned as a tree, tsr_tuple(scope, a, b). `user` is the function's. */
typedef tsr_array *tsr_body_fn(tsr_scope *scope, tsr_array *const *in, void *user);

enum { TSR_MAX_ARGS = 16 }; /* arguments of a function; trees count as one */

typedef struct tsr_function_args {
  size_t size;
  tsr_body_fn *body TSR_REST_BY_NAME;
  void *user; /* passed to the body, borrowed as long as the function lives */
  /* So many bytes at `user` are arguments that are no arrays: when they change, the body is traced
   * again; 0: none. */
  size_t user_bytes;
  const char *name;     /* in messages and explanations, copied; NULL: "function" */
  const tsr_mesh *mesh; /* of the specs below; NULL: the scope's default */
  /* How arguments lie, all arrays of a tree alike, and the arrays of the result, in their order;
   * NULL: as they come. A spec without its array is TSR_EARG at the call. */
  const char *in_specs[TSR_MAX_ARGS], *out_specs[TSR_MAX_ARGS];
  /* How each array of the body lies follows from its operands (shardings are part of types), and so
   * do the results: nothing is left to the planner. What operands leave open is TSR_EAXIS at the
   * call, with the choices: contracted dims that are cut on both sides, operands cut differently,
   * one axis for two dims, slices that cut unevenly, routines along a cut dim. tsr_reshard and
   * tsr_constrain choose. What the body calls is part of it, and gradients lie as what they are by;
   * a loop's carry lies as it began, or, if it was whole, as the first step leaves it. */
  bool explicit_shardings;
} tsr_function_args;

/* Makes a function that lives until `scope` closes. Errors: TSR_EARG, those of specs. Returns NULL
 * only for a scope that is none; a function that could not be made returns inert arrays. Local. */
TSR_API tsr_function *tsr_function_make_at(tsr_scope *scope, const tsr_function_args *args,
                                           const char *site);

/* Calls a function on arrays or trees. Errors: TSR_EARG, those of the body (the text has the lines
 * of both), TSR_ESTATE for a body that calls its function on the same arguments. Returns an array
 * or a tree, owned as results are. Local. */
TSR_API tsr_array *tsr_call_at(tsr_function *function, tsr_array *const *arguments, int count,
                               const char *site);

/* How many signatures a function was traced for. Local. */
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
