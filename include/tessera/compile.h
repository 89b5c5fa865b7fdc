/* Functions inspected and planned before there are arrays to call them on.
 *
 *   tsr_mesh *pod = tsr_mesh_abstract(rt, "data=64,model=8");
 *   tsr_array *x = tsr_abstract(s, TSR_F32, TSR_SHAPE(65536, 512), tsr_on(pod, "data"));
 *   puts(tsr_compiled_text(tsr_compile(step, w, x)));
 *
 * A type stands for an array: nodes made from it are planned, explained and dumped as for an array
 * with elements, also on meshes without devices. tsr_explain and tsr_dump of tsr_call(f, x)
 * describe a function, its gradient and any function made of functions. */
#ifndef TESSERA_COMPILE_H
#define TESSERA_COMPILE_H

#include "function.h"
#include "inspect.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns an array that is only a type: a dtype, a shape and a sharding, without elements. The
 * mesh may be abstract. Reading a value computed from it is TSR_ESTATE; a body may not capture it.
 * Errors: TSR_EDTYPE, TSR_ESHAPE, TSR_EAXIS. Owned by the scope. Local. */
TSR_API tsr_array *tsr_abstract_at(tsr_scope *scope, tsr_dtype dtype, tsr_shape shape,
                                   tsr_sharding sharding, const char *site);

typedef struct tsr_compiled tsr_compiled;

/* Traces and plans a function for the types of its arguments, which may be arrays, types
 * (tsr_abstract), and trees of them. The plan computes all results at once. The bytes at .user
 * count with their present values. Errors: those of tsr_call and of planning. The result lives
 * until the innermost scope of the function and the arguments closes; NULL only for a NULL function
 * and out of memory. Local. */
TSR_API tsr_compiled *tsr_compile_at(tsr_function *function, tsr_array *const *arguments, int count,
                                     const char *site);

/* Calls a compiled function on arguments of the types that it was compiled for; never traces.
 * Errors: TSR_EARG for other types. Returns the result of tsr_call. Local. */
TSR_API tsr_array *tsr_compiled_call_at(tsr_compiled *compiled, tsr_array *const *arguments,
                                        int count, const char *site);

/* Returns the cost of a run by its plan; zeros where compiling failed. Local. */
TSR_API tsr_figures tsr_compiled_figures(const tsr_compiled *compiled);

/* Returns the figures, the largest arrays at the peak, and the explanation of the traffic as text,
 * owned by the compiled function; where compiling failed, the message. Local. */
TSR_API const char *tsr_compiled_text(const tsr_compiled *compiled);

/* Returns the arrays in memory at the plan's peak, the largest first, on the device that holds the
 * most of each: their bytes add up to .peak_bytes of the figures. Writes their number to `*count`,
 * which may be NULL; where compiling failed the list is NULL. Owned by the compiled function.
 * Local. */
TSR_API const tsr_peak_array *tsr_compiled_peak(const tsr_compiled *compiled, int *count);

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
