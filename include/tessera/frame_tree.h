/* Frames as trees (tree.h): calls that take a tree can take the tree of a frame's columns.
 *
 *   static tsr_array *double_it(tsr_scope *s, tsr_array *const *in, void *user)
 *   {
 *     tsr_frame *df = tsr_frame_from_tree(in[0]);
 *     return tsr_frame_to_tree(tsr_frame_assign(df, "z", "2 * x + y"));
 *   }
 *   tsr_frame *out = tsr_frame_call(tsr_function_make(s, double_it), df);
 *
 * A function of frames is a function of trees: it is traced, called and differentiated like any
 * other function. A column becomes an array if it holds numbers or bools without nulls; columns of
 * text, dates and times do not. Inside a function's body a frame takes expressions (assign, select,
 * arithmetic of whole frames, reductions) and maps over columns. Verbs that change the set of rows
 * or their order are refused there. Rows have no numbers inside a body, so integer overflow wraps
 * there, as it does for arrays. */
#ifndef TESSERA_FRAME_TREE_H
#define TESSERA_FRAME_TREE_H

#include "frame.h"
#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the columns of a frame as a tree of arrays, in order and under their names, owned by df's
 * scope. Names have letters, digits, _ and - only; tsr_frame_rename changes them. All columns are
 * evaluated together; inside a function's body nothing is evaluated. Rows that a filter left are
 * spread evenly over the devices again. Inside a body, a frame of one row from an aggregate gives
 * arrays of rank 0. Errors: TSR_EDTYPE for text, dates and times, TSR_EVALUE for nulls, TSR_EARG
 * for a name. Collective. */
TSR_API tsr_array *tsr_frame_to_tree_at(tsr_frame *df, const char *site);
/* Returns a frame of a tree of named arrays of rank 1 and equal length, as tsr_frame_new does,
 * owned as results are. Errors: those of tsr_frame_new, TSR_EARG for an array or a tree without
 * names. Local. */
TSR_API tsr_frame *tsr_frame_from_tree_at(tsr_array *tree, const char *site);

/* Returns a frame of the results of `fn` on each column, as tsr_tree_map does for a tree, owned by
 * df's scope. Errors: those of tsr_frame_to_tree, tsr_frame_from_tree and `fn`. Collective. */
TSR_API tsr_frame *tsr_frame_map_at(tsr_frame *df, tsr_tree_fn *fn, void *user, const char *site);
/* Calls a function with the tree of a frame and returns a frame of the resulting tree, owned by
 * df's scope. Errors: those of tsr_call, tsr_frame_to_tree and tsr_frame_from_tree. Collective. */
TSR_API tsr_frame *tsr_frame_call_at(tsr_function *function, tsr_frame *df, const char *site);

#define tsr_frame_to_tree(df) tsr_frame_to_tree_at((df), TSR_HERE)
#define tsr_frame_from_tree(tree) tsr_frame_from_tree_at((tree), TSR_HERE)
#define tsr_frame_map(df, fn, user) tsr_frame_map_at((df), (fn), (user), TSR_HERE)
#define tsr_frame_call(function, df) tsr_frame_call_at((function), (df), TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
