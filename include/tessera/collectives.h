/* Collectives by name: what a body that is mapped over named axes (mapping.h) does together with
 * the others that run it.
 *
 * An axis is named by its text, several as "x,y", of which the first is the major one: together
 * they are one axis of all their places. Each call is made of a reduction or a move of a whole
 * array that lies along the axis; tsr_explain shows which and why. Errors of all: TSR_EAXIS for an
 * axis that nothing around is mapped over. */
#ifndef TESSERA_COLLECTIVES_H
#define TESSERA_COLLECTIVES_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What collectives take; those that do not speak of a field do not look at it. */
typedef struct tsr_collective_args {
  size_t size;
  tsr_array *x;
  const char *axis TSR_REST_BY_NAME;
  int dim;           /* all_gather: where places come to lie; psum_scatter: what is dealt out;
                        all_to_all: where pieces are put together */
  int split;         /* all_to_all: the dim that is dealt out */
  bool tiled;        /* pieces of the dim that is there, in the place of a dim of its own */
  const int *groups; /* places, group after group, each once; NULL: all are one group */
  int group_count;   /* how many groups of one size; 0: none are given */
} tsr_collective_args;

/* The sum over all places of an axis, or of each group: exact, and the same at all of them.
 * tsr_psum(x, "i"), tsr_psum(x, "i", .groups = (int[]){ 0, 1, 2, 3 }, .group_count = 2). Errors:
 * TSR_EARG (groups). Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_psum_at(const tsr_collective_args *args, const char *site);
/* The mean over all places; see tsr_psum_at. Local. */
TSR_API tsr_array *tsr_pmean_at(const tsr_collective_args *args, const char *site);
/* The largest over all places; see tsr_psum_at. Local. */
TSR_API tsr_array *tsr_pmax_at(const tsr_collective_args *args, const char *site);
/* The smallest over all places; see tsr_psum_at. Local. */
TSR_API tsr_array *tsr_pmin_at(const tsr_collective_args *args, const char *site);

/* What all places of the axis, or of a group in the order that lists it, have: along a new dim
 * `dim`, or, tiled, one behind the other along that dim. Errors: TSR_EARG. Returns an array owned
 * as results are. Local. */
TSR_API tsr_array *tsr_all_gather_at(const tsr_collective_args *args, const char *site);
/* A sum over all places of which each gets one element along `dim`, which is left away, or, tiled,
 * one piece. Errors: TSR_ESHAPE, TSR_EARG. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_psum_scatter_at(const tsr_collective_args *args, const char *site);
/* Each place deals out its elements (tiled: pieces) along `split` and puts together what it gets
 * along `dim`. Errors: TSR_ESHAPE, TSR_EARG. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_all_to_all_at(const tsr_collective_args *args, const char *site);

/* Each place deals out the elements (tiled: pieces) of `dim` and has those that it gets there: as
 * tsr_all_to_all_at with `split` the same. Local. */
TSR_API tsr_array *tsr_pswapaxes_at(const tsr_collective_args *args, const char *site);

typedef struct tsr_ragged_args {
  size_t size;
  tsr_array *x; /* rows along dim 0 */
  const char *axis TSR_REST_BY_NAME;
  tsr_array *to; /* what rows are put into: what nobody sends stays as it is here */
  /* One integer for each place: from which row of x on, how many, and to which row there on. */
  tsr_array *starts, *sizes, *places;
} tsr_ragged_args;

/* Sends some rows to each place: tsr_ragged_all_to_all(x, "i", .to = to, .starts = starts, .sizes =
 * sizes, .places = places). Where two send to one row, that of the later place stays. Errors:
 * TSR_ESHAPE, TSR_EARG; rows that x or `to` has not, and a size below 0, fail the run. Returns an
 * array like `to`, owned as results are. Local. */
TSR_API tsr_array *tsr_ragged_all_to_all_at(const tsr_ragged_args *args, const char *site);

/* From which place to which. */
typedef struct tsr_pair {
  int from, to;
} tsr_pair;

typedef struct tsr_permute_args {
  size_t size;
  tsr_array *x;
  const char *axis;
  const tsr_pair *pairs;
  int count;
} tsr_permute_args;

/* Sends what each place has to another; a place that gets nothing has zeros. Errors: TSR_EARG (a
 * source or a destination twice). Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_ppermute_at(const tsr_permute_args *args, const char *site);
/* Place i gets what place sources[i] has: tsr_pshuffle(x, "i", 1, 0). Errors: TSR_EARG (not each
 * place once). Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_pshuffle_at(tsr_array *x, const char *axis, const int *sources, int count,
                                   const char *site);
/* What place `source` has, at all of them. Errors: TSR_EARG. Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_pbroadcast_at(tsr_array *x, const char *axis, int source, const char *site);

/* x as what differs along an axis: with the same elements, but a place of its own for each. A
 * gradient taken in the body counts what is made of it once for each place, and one by it is each
 * place's own; without it what is the same at all places counts once, and gets the sum of what
 * places give. tsr_pvary(tsr_all_gather(x, "i"), "i"). Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_pvary_at(tsr_array *x, const char *axis, const char *site);

/* How many places an axis has; 0 with the error recorded where there is none. Local. */
TSR_API int64_t tsr_axis_size_at(tsr_scope *scope, const char *axis, const char *site);
/* The place along an axis, i64: row-major over several. Returns an array owned by the scope.
 * Local. */
TSR_API tsr_array *tsr_axis_index_at(tsr_scope *scope, const char *axis, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define TSR_COLLECTIVE_(x_, axis_, ...) \
  (&(tsr_collective_args){              \
      .size = sizeof(tsr_collective_args), .x = (x_), .axis = (axis_), __VA_ARGS__ })
#define tsr_psum(...) \
  tsr_psum_at(TSR_NEEDS_2_("tsr_psum(x, axis)", TSR_COLLECTIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_pmean(...) \
  tsr_pmean_at(TSR_NEEDS_2_("tsr_pmean(x, axis)", TSR_COLLECTIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_pmax(...) \
  tsr_pmax_at(TSR_NEEDS_2_("tsr_pmax(x, axis)", TSR_COLLECTIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_pmin(...) \
  tsr_pmin_at(TSR_NEEDS_2_("tsr_pmin(x, axis)", TSR_COLLECTIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_all_gather(...) \
  tsr_all_gather_at(TSR_NEEDS_2_("tsr_all_gather(x, axis)", TSR_COLLECTIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_psum_scatter(...)                                                                  \
  tsr_psum_scatter_at(TSR_NEEDS_2_("tsr_psum_scatter(x, axis)", TSR_COLLECTIVE_, __VA_ARGS__), \
                      TSR_HERE)
#define tsr_all_to_all(...) \
  tsr_all_to_all_at(TSR_NEEDS_2_("tsr_all_to_all(x, axis)", TSR_COLLECTIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_pswapaxes(...) \
  tsr_pswapaxes_at(TSR_NEEDS_2_("tsr_pswapaxes(x, axis)", TSR_COLLECTIVE_, __VA_ARGS__), TSR_HERE)
#define TSR_RAGGED_(x_, axis_, ...) \
  (&(tsr_ragged_args){ .size = sizeof(tsr_ragged_args), .x = (x_), .axis = (axis_), __VA_ARGS__ })
#define tsr_ragged_all_to_all(...) \
  tsr_ragged_all_to_all_at(        \
      TSR_NEEDS_2_("tsr_ragged_all_to_all(x, axis)", TSR_RAGGED_, __VA_ARGS__), TSR_HERE)
#define tsr_pshuffle(x, axis, ...)                           \
  tsr_pshuffle_at((x), (axis), (const int[]){ __VA_ARGS__ }, \
                  (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)), TSR_HERE)
/* tsr_ppermute(x, "i", { 0, 1 }, { 1, 0 }) */
#define tsr_ppermute(array, name, ...)                                                            \
  tsr_ppermute_at(&(tsr_permute_args){ .size = sizeof(tsr_permute_args),                          \
                                       .x = (array),                                              \
                                       .axis = (name),                                            \
                                       .pairs = (const tsr_pair[]){ __VA_ARGS__ },                \
                                       .count = (int)(sizeof((const tsr_pair[]){ __VA_ARGS__ }) / \
                                                      sizeof(tsr_pair)) },                        \
                  TSR_HERE)
#define tsr_pbroadcast(x, axis, source) tsr_pbroadcast_at((x), (axis), (source), TSR_HERE)
#define tsr_pvary(x, axis) tsr_pvary_at((x), (axis), TSR_HERE)
#define tsr_axis_size(scope, axis) tsr_axis_size_at((scope), (axis), TSR_HERE)
#define tsr_axis_index(scope, axis) tsr_axis_index_at((scope), (axis), TSR_HERE)
#endif

#endif
