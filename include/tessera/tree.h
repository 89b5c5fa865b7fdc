/* Trees: ordered, named, nested containers of arrays, such as the parameters of a model. A tree is
 * an array handle: functions take and return trees (function.h); tsr_eval, tsr_start, tsr_wait,
 * tsr_explain, tsr_delete and tsr_donate take all arrays of a tree; operations on elements refuse
 * trees. */
#ifndef TESSERA_TREE_H
#define TESSERA_TREE_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A named item of a tree: an array or a tree. */
typedef struct tsr_field_args {
  const char *name; /* letters, digits, "_" and "-" */
  tsr_array *array;
} tsr_field_args;

/* Returns a tree of `count` named items, in that order; names are copied. tsr_tree(s, { "w", w }, {
 * "b", b }). Errors: TSR_EARG (a repeated name, or other characters). Returns a tree owned as
 * results are. Local. */
TSR_API tsr_array *tsr_tree_at(tsr_scope *scope, const tsr_field_args *fields, int count,
                               const char *site);
/* Returns a tree of items without names: tsr_tuple(s, a, b). Returns a tree owned as results are.
 * Local. */
TSR_API tsr_array *tsr_tuple_at(tsr_scope *scope, tsr_array *const *arrays, int count,
                                const char *site);

/* Returns the item of a tree at `index`, from 0 on: the handle that the tree was made with. Errors:
 * TSR_EARG. Local. */
TSR_API tsr_array *tsr_item_at(tsr_array *tree, int index, const char *site);
/* Returns the item of a tree at `path`: names, or indices of items without names, with points
 * between, "layer1.w", "0.1". The item is the handle that the tree was made with. Errors: TSR_EARG;
 * the message lists the items. Local. */
TSR_API tsr_array *tsr_field_at(tsr_array *tree, const char *path, const char *site);

/* Returns the number of items of a tree; 0 for an array that is not a tree (tsr_is_tree). Local. */
TSR_API int tsr_item_count(const tsr_array *tree);
/* Returns the name of an item, borrowed from the tree's scope; NULL without a name. Local. */
TSR_API const char *tsr_item_name(const tsr_array *tree, int index);
/* Returns whether an array is a tree. Local. */
TSR_API bool tsr_is_tree(const tsr_array *array);

/* Returns the number of arrays in a tree and its subtrees; 1 for an array. Local. */
TSR_API int tsr_leaf_count(const tsr_array *tree);
/* Writes the arrays of a tree in order, depth first, to `out`, which has `room` elements; returns
 * the number of arrays. An array is its own only leaf. Local. */
TSR_API int tsr_tree_leaves(tsr_array *tree, tsr_array **out, int room);
/* Returns a tree of the form of `like` with other arrays, as many as tsr_leaf_count(like). Errors:
 * TSR_EARG. Returns a tree owned as results are. Local. */
TSR_API tsr_array *tsr_tree_like_at(tsr_array *like, tsr_array *const *leaves, int count,
                                    const char *site);

/* Returns an array made from one leaf of each of `count` trees, all at the same position. */
typedef tsr_array *tsr_tree_fn(tsr_scope *scope, tsr_array *const *leaves, void *user);
/* Calls `fn` for each leaf position of trees of one form, in order, and returns a tree of that form
 * of its results. Errors: TSR_EARG (different forms; the message has the first difference), and
 * those of `fn`. Returns a tree owned as results are. Local. */
TSR_API tsr_array *tsr_tree_map_at(tsr_tree_fn *fn, void *user, tsr_array *const *trees, int count,
                                   const char *site);

/* Evaluates all arrays of a tree as one program and moves them to an outer scope, as tsr_keep does
 * with an array: the results of a step of a loop outlive the step's scope. An array is kept by
 * tsr_keep. Returns a tree owned by `outer`, inert on error, which both scopes record.
 * Collective. */
TSR_API tsr_array *tsr_tree_keep_at(tsr_scope *outer, tsr_array *tree, const char *site);

/* Returns the form of a tree as text, "(w, b: (x, y))"; "*" for an array. The text lives as long as
 * the tree's scope; NULL out of memory. Local. */
TSR_API const char *tsr_tree_text(tsr_array *tree);

/* tsr_tree(s, { "w", w }, { "b", b }), tsr_tuple(s, a, b) */
#define tsr_tree(scope, ...)                                                                   \
  tsr_tree_at((scope), (const tsr_field_args[]){ __VA_ARGS__ },                                \
              (int)(sizeof((const tsr_field_args[]){ __VA_ARGS__ }) / sizeof(tsr_field_args)), \
              TSR_HERE)
#define tsr_tuple(scope, ...)                                \
  tsr_tuple_at((scope), (tsr_array *const[]){ __VA_ARGS__ }, \
               (int)(sizeof((tsr_array *const[]){ __VA_ARGS__ }) / sizeof(tsr_array *)), TSR_HERE)
#define tsr_item(tree, index) tsr_item_at((tree), (index), TSR_HERE)
#define tsr_field(tree, path) tsr_field_at((tree), (path), TSR_HERE)
#define tsr_tree_like(...) tsr_tree_like_at(__VA_ARGS__, TSR_HERE)
#define tsr_tree_keep(outer, tree) tsr_tree_keep_at((outer), (tree), TSR_HERE)
#define tsr_tree_map(...) tsr_tree_map_at(__VA_ARGS__, TSR_HERE)

#ifdef __cplusplus
}
#endif

#endif
