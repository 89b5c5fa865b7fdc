/* Frames as trees (tree.h): a tree of their columns under their names, wherever one is taken.
 *
 *   static tsr_array *double_it(tsr_scope *s, tsr_array *const *in, void *user)
 *   {
 *     tsr_frame *df = tsr_frame_from_tree(in[0]);
 *     return tsr_frame_to_tree(tsr_frame_assign(df, "z", "2 * x + y"));
 *   }
 *   tsr_frame *out = tsr_frame_call(tsr_function_make(s, double_it), df);
 *
 * So functions of frames are functions of trees: they are traced, called and differentiated as
 * others are. Columns are arrays where they hold numbers or bools and no nulls; text, dates and
 * times are none. In a body a frame takes expressions (assign, select, arithmetic of whole frames,
 * reductions) and maps over columns; verbs that change which rows there are, or their order, are
 * refused there. Rows have no numbers in a body: where integers are too large there they wrap, as
 * those of arrays do. */
#ifndef TESSERA_FRAME_TREE_H
#define TESSERA_FRAME_TREE_H

#include "frame.h"
#include "function.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The columns of a frame as a tree of arrays, in their order and under their names (letters,
 * digits, _ and -; tsr_frame_rename gives others). They are evaluated, together; in a function's
 * body nothing is. Rows left by a filter are spread evenly over the devices again; a frame of one
 * row that an aggregate made gives arrays of rank 0 in a body. Errors: TSR_EDTYPE for text, dates
 * and times, TSR_EVALUE for nulls, TSR_EARG for a name. Returns a tree owned by df's scope.
 * Collective. */
TSR_API tsr_array *tsr_frame_to_tree_at(tsr_frame *df, const char *site);
/* Makes a frame of a tree of arrays with names, of rank 1 and equal length, as tsr_frame_new does.
 * Errors: those of tsr_frame_new, TSR_EARG for an array or a tree without names. Returns a frame
 * owned as results are. Local. */
TSR_API tsr_frame *tsr_frame_from_tree_at(tsr_array *tree, const char *site);

/* Makes a frame of what `fn` makes of each column, as tsr_tree_map of its tree does. Errors: those
 * of tsr_frame_to_tree, tsr_frame_from_tree and of `fn`. Returns a frame owned by df's scope.
 * Collective. */
TSR_API tsr_frame *tsr_frame_map_at(tsr_frame *df, tsr_tree_fn *fn, void *user, const char *site);
/* Calls a function on the tree of a frame and makes a frame of the tree that it gives. Errors:
 * those of tsr_call, tsr_frame_to_tree and tsr_frame_from_tree. Returns a frame owned by df's
 * scope. Collective. */
TSR_API tsr_frame *tsr_frame_call_at(tsr_function *function, tsr_frame *df, const char *site);

#define tsr_frame_to_tree(df) tsr_frame_to_tree_at((df), TSR_HERE)
#define tsr_frame_from_tree(tree) tsr_frame_from_tree_at((tree), TSR_HERE)
#define tsr_frame_map(df, fn, user) tsr_frame_map_at((df), (fn), (user), TSR_HERE)
#define tsr_frame_call(function, df) tsr_frame_call_at((function), (df), TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
