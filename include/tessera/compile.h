/* Functions looked at and planned before there are arrays to call them on.
 *
 *   tsr_mesh *pod = tsr_mesh_abstract(rt, "data=64,model=8");
 *   tsr_array *x = tsr_abstract(s, TSR_F32, TSR_SHAPE(65536, 512), tsr_on(pod, "data"));
 *   puts(tsr_compiled_text(tsr_compile(step, w, x)));
 *
 * A type stands for an array: what is made of it is planned, explained and dumped as it would be of
 * one with elements, on meshes of which there are no devices, too. tsr_explain and tsr_dump of
 * tsr_call(f, x) tell of a function, of its gradient and of whatever is made of functions. */
#ifndef TESSERA_COMPILE_H
#define TESSERA_COMPILE_H

#include "function.h"
#include "inspect.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an array that is a type alone: of that dtype and shape, lying so, without elements. Its
 * mesh may be abstract. Reading what is computed of it is TSR_ESTATE; a body may not capture it.
 * Errors: TSR_EDTYPE, TSR_ESHAPE, TSR_EAXIS. Owned by the scope. Local. */
TSR_API tsr_array *tsr_abstract_at(tsr_scope *scope, tsr_dtype dtype, tsr_shape shape,
                                   tsr_sharding sharding, const char *site);

typedef struct tsr_compiled tsr_compiled;

/* Traces and plans a function for the types of arguments, which may be arrays or types, and trees
 * of them. The plan is that of all results at once. The bytes at .user count as they are now.
 * Errors: those of tsr_call, of planning. Lives until the innermost scope of the function and the
 * arguments closes; NULL only for a function that is none. Local. */
TSR_API tsr_compiled *tsr_compile_at(tsr_function *function, tsr_array *const *arguments, int count,
                                     const char *site);

/* Calls a compiled function on arguments of the types that it was compiled for: it never traces.
 * Errors: TSR_EARG for other types. Returns what tsr_call does. Local. */
TSR_API tsr_array *tsr_compiled_call_at(tsr_compiled *compiled, tsr_array *const *arguments,
                                        int count, const char *site);

/* Returns what running it takes; zeros where it could not be compiled. Local. */
TSR_API tsr_figures tsr_compiled_figures(const tsr_compiled *compiled);

/* Returns the figures and the explanation of what moves as text, owned by the compiled function; of
 * one that could not be made the message. Local. */
TSR_API const char *tsr_compiled_text(const tsr_compiled *compiled);

/* tsr_abstract(s, TSR_F32, TSR_SHAPE(8), tsr_on(mesh, "x")), tsr_compile(f, x, y) */
#define tsr_abstract(scope, dtype, shape, sharding) \
  tsr_abstract_at((scope), (dtype), (shape), (sharding), TSR_HERE)
#define tsr_compile(function, ...)                                                         \
  tsr_compile_at((function), (tsr_array *const[]){ __VA_ARGS__ },                          \
                 (int)(sizeof((tsr_array *const[]){ __VA_ARGS__ }) / sizeof(tsr_array *)), \
                 TSR_HERE)
#define tsr_compiled_call(compiled, ...)                                                         \
  tsr_compiled_call_at((compiled), (tsr_array *const[]){ __VA_ARGS__ },                          \
                       (int)(sizeof((tsr_array *const[]){ __VA_ARGS__ }) / sizeof(tsr_array *)), \
                       TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
