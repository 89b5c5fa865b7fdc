/* Trees: ordered, named, nested containers of arrays, for what belongs together, such as the
 * parameters of a model. A tree is an array handle like any other: functions take and return
 * trees (function.h); tsr_eval, tsr_start, tsr_wait, tsr_explain, tsr_delete and tsr_donate take
 * the arrays in them; what computes with elements refuses them. */
#ifndef TESSERA_TREE_H
#define TESSERA_TREE_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A named part of a tree: an array, or a tree again. */
typedef struct tsr_field_args {
  const char *name; /* letters, digits, "_" and "-" */
  tsr_array *array;
} tsr_field_args;

/* Makes a tree of `count` named parts, in that order; names are copied. tsr_tree(s, { "w", w },
 * { "b", b }). Errors: TSR_EARG (a name twice, or of other characters). Returns a tree owned as
 * results are. Local. */
TSR_API tsr_array *tsr_tree_at(tsr_scope *scope, const tsr_field_args *fields, int count,
                               const char *site);
/* Makes a tree of parts that have no names: tsr_tuple(s, a, b). Returns a tree owned as results
 * are. Local. */
TSR_API tsr_array *tsr_tuple_at(tsr_scope *scope, tsr_array *const *arrays, int count,
                                const char *site);

/* The part of a tree at `index`, counted from 0. Errors: TSR_EARG. Returns what the tree was made
 * of. Local. */
TSR_API tsr_array *tsr_item_at(tsr_array *tree, int index, const char *site);
/* The part of a tree that `path` leads to: names, or indices where there are none, with points
 * between, "layer1.w", "0.1". Errors: TSR_EARG, which names what is there. Returns what the tree
 * was made of. Local. */
TSR_API tsr_array *tsr_field_at(tsr_array *tree, const char *path, const char *site);

/* How many parts a tree has; 0 of an array that is none, which tsr_is_tree tells. Local. */
TSR_API int tsr_item_count(const tsr_array *tree);
/* The name of a part, borrowed from the tree's scope; NULL where it has none. Local. */
TSR_API const char *tsr_item_name(const tsr_array *tree, int index);
/* Whether an array is a tree. Local. */
TSR_API bool tsr_is_tree(const tsr_array *array);

/* How many arrays are in a tree, all the way down; of an array, 1. Local. */
TSR_API int tsr_leaf_count(const tsr_array *tree);
/* The arrays of a tree in order, depth first, into `out` with room for `room`; returns how many
 * there are. Of an array, itself. Local. */
TSR_API int tsr_tree_leaves(tsr_array *tree, tsr_array **out, int room);
/* A tree of the form of `like` with other arrays in it, as many as tsr_leaf_count(like). Errors:
 * TSR_EARG. Returns a tree owned as results are. Local. */
TSR_API tsr_array *tsr_tree_like_at(tsr_array *like, tsr_array *const *leaves, int count,
                                    const char *site);

/* What is made of one array each of `count` trees, at the same place in all of them. */
typedef tsr_array *tsr_tree_fn(tsr_scope *scope, tsr_array *const *leaves, void *user);
/* Calls `fn` for each place of trees of one form, in order, and makes a tree of that form of what
 * it returns. Errors: TSR_EARG (other forms; the text names the first place where they differ), and
 * those of `fn`. Returns a tree owned as results are. Local. */
TSR_API tsr_array *tsr_tree_map_at(tsr_tree_fn *fn, void *user, tsr_array *const *trees, int count,
                                   const char *site);

/* Evaluates all arrays of a tree as one program and moves them to an outer scope, as tsr_keep does
 * with one: what a step of a loop made outlives the step's scope. Of an array, tsr_keep. Returns a
 * tree owned by `outer`, inert on error (the error is recorded in both scopes). Collective. */
TSR_API tsr_array *tsr_tree_keep_at(tsr_scope *outer, tsr_array *tree, const char *site);

/* The form of a tree as text, "(w, b: (x, y))"; of an array "*". Lives as long as the tree's scope;
 * NULL out of memory. Local. */
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
