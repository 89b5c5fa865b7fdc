/* Functions as text: saved, read by people, loaded and called again.
 *
 *   tsr_function_save(f, "loss.tsr", w, x);
 *   tsr_function *again = tsr_function_load(s, "loss.tsr");    in another program
 *   tsr_array *loss = tsr_call(again, w, x);                   the same bits
 *
 * A text has the program of a function for one signature: its nodes with types, attributes and
 * source lines, the regions that it calls or loops over, numbers exactly, arrays from outside with
 * all elements, and meshes by their axes, over the first devices. Operations with callbacks of this
 * process are refused by name: tsr_callback, tsr_print, tsr_inspect_sharding. */
#ifndef TESSERA_SAVED_H
#define TESSERA_SAVED_H

#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the text of a function for the types of arguments, which may be arrays or types, to `out`.
 * Owned by the function's scope; `out` is untouched on failure. Errors: those of tsr_call,
 * TSR_EUNSUPPORTED for a function that has no text, such as one with more than 1024 arrays as
 * arguments or results. All processes take part in reading arrays from outside; without such arrays
 * no process waits for another. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_function_text_into_at(tsr_function *function, const char **out,
                                                          tsr_array *const *arguments, int count,
                                                          const char *site);

/* Writes the text of tsr_function_text_into to a file, whole or not at all; names that end in .gz
 * or .zst are compressed. Each process writes a file. Errors: TSR_EIO, too. Collective. */
TSR_API TSR_MUST_USE tsr_status tsr_function_save_at(tsr_function *function, const char *path,
                                                     tsr_array *const *arguments, int count,
                                                     const char *site);

/* Makes a function from a text. The function takes arguments of the dtypes, shapes and forms that
 * it was saved for: others are TSR_EARG at the call. The call reshards them to the saved specs, on
 * the arguments' own mesh, which must have the same axes (else TSR_EAXIS), or on a mesh of the
 * first devices; an argument that was unplaced stays where it is. A function for more devices than
 * there are can be planned, not run. Saved again it has the same text. Errors: TSR_EPARSE with line
 * and column, those of tsr_mesh_make; the function then returns inert arrays. Lives until `scope`
 * closes; NULL only for a NULL or inert scope and out of memory. Local. */
TSR_API tsr_function *tsr_function_from_text_at(tsr_scope *scope, const char *text,
                                                const char *site);

/* Makes a function as tsr_function_from_text does, from a file. Errors: TSR_EIO, too. Local. */
TSR_API tsr_function *tsr_function_load_at(tsr_scope *scope, const char *path, const char *site);

/* Writes a description of a loaded function to `out`: its number of operations, its meshes, and a
 * line for each array of its arguments, of its result and from outside, with types, specs and
 * bytes. The lines of results have the specs that were asked for. Owned by the function's scope;
 * `out` is untouched on failure. Errors: TSR_EARG for a function of a callback. Local. */
TSR_API TSR_MUST_USE tsr_status tsr_function_about_into_at(tsr_function *function, const char **out,
                                                           const char *site);

/* Writes the arguments that a loaded function was saved for, as types (tsr_abstract) and trees of
 * them, to `out`, at most `room` of them. Returns the number of arguments, at most TSR_MAX_ARGS; 0
 * on failure. Errors: TSR_EARG for a function of a callback. Owned by the function's scope.
 * Local. */
TSR_API int tsr_function_arguments_at(tsr_function *function, tsr_array **out, int room,
                                      const char *site);

/* tsr_function_text_into(f, &text, x, y), tsr_function_save(f, "f.tsr", x, y) */
#define TSR_ARRAYS_(...)               \
  (tsr_array *const[]){ __VA_ARGS__ }, \
      (int)(sizeof((tsr_array *const[]){ __VA_ARGS__ }) / sizeof(tsr_array *))
#define tsr_function_text_into(function, out, ...) \
  tsr_function_text_into_at((function), (out), TSR_ARRAYS_(__VA_ARGS__), TSR_HERE)
#define tsr_function_save(function, path, ...) \
  tsr_function_save_at((function), (path), TSR_ARRAYS_(__VA_ARGS__), TSR_HERE)
#define tsr_function_from_text(scope, text) tsr_function_from_text_at((scope), (text), TSR_HERE)
#define tsr_function_load(scope, path) tsr_function_load_at((scope), (path), TSR_HERE)
#define tsr_function_about_into(...) tsr_function_about_into_at(__VA_ARGS__, TSR_HERE)
#define tsr_function_arguments(...) tsr_function_arguments_at(__VA_ARGS__, TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
