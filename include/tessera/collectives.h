/* Collectives by axis name: operations of a body that is mapped over named axes (mapping.h)
 * together with the other instances of the body.
 *
 * One name is one axis; "x,y" is several axes, x the major one, which count as one axis of all
 * their positions. The position of an instance along the axis is its index there. Each call is made
 * of a reduction or a move of a whole array that is sharded along the axis; tsr_explain shows the
 * move and its reason. Every call fails with TSR_EAXIS for an axis that no enclosing function maps
 * over. */
#ifndef TESSERA_COLLECTIVES_H
#define TESSERA_COLLECTIVES_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of collectives; a call ignores fields that its comment does not name. */
typedef struct tsr_collective_args {
  size_t size;
  tsr_array *x;
  const char *axis TSR_REST_BY_NAME;
  int dim;           /* all_gather: the dim of the gathered values; psum_scatter: the dim that is
                      * scattered; all_to_all: the dim of the result along which pieces are
                      * joined */
  int split;         /* all_to_all: the dim that is split */
  bool tiled;        /* pieces of an existing dim, instead of a dim of its own */
  const int *groups; /* positions, group after group, each once; NULL: all are one group */
  int group_count;   /* number of groups, all of one size; 0: no groups */
} tsr_collective_args;

/* Returns the sum over all positions of an axis, or of each group: exact, and the same at all of
 * them. tsr_psum(x, "i"), tsr_psum(x, "i", .groups = (int[]){ 0, 1, 2, 3 }, .group_count = 2).
 * Errors: TSR_EARG (groups). Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_psum_at(const tsr_collective_args *args, const char *site);
/* Returns the mean over all positions; see tsr_psum_at. Local. */
TSR_API tsr_array *tsr_pmean_at(const tsr_collective_args *args, const char *site);
/* Returns the largest value over all positions; see tsr_psum_at. Local. */
TSR_API tsr_array *tsr_pmax_at(const tsr_collective_args *args, const char *site);
/* Returns the smallest value over all positions; see tsr_psum_at. Local. */
TSR_API tsr_array *tsr_pmin_at(const tsr_collective_args *args, const char *site);

/* Returns the values of all positions of the axis, or of a group in its order: along a new dim
 * `dim`, or, tiled, one after the other along that dim. Errors: TSR_EARG. Returns an array owned as
 * results are. Local. */
TSR_API tsr_array *tsr_all_gather_at(const tsr_collective_args *args, const char *site);
/* Sums over all positions and returns to each position one element of the sum along `dim`, without
 * that dim, or, tiled, one piece. Errors: TSR_ESHAPE, TSR_EARG. Returns an array owned as results
 * are. Local. */
TSR_API tsr_array *tsr_psum_scatter_at(const tsr_collective_args *args, const char *site);
/* Sends to each position one element (tiled: one piece) along `split`, and returns the received
 * ones joined along `dim`. Errors: TSR_ESHAPE, TSR_EARG. Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_all_to_all_at(const tsr_collective_args *args, const char *site);

/* Exchanges the axis and dim `dim`: as tsr_all_to_all_at with `split` equal to `dim`. Local. */
TSR_API tsr_array *tsr_pswapaxes_at(const tsr_collective_args *args, const char *site);

typedef struct tsr_ragged_args {
  size_t size;
  tsr_array *x; /* the rows to send, along dim 0 */
  const char *axis TSR_REST_BY_NAME;
  tsr_array *to; /* rows of the result; a row that no position sends stays as it is here */
  /* One integer per position: the first row of x to send, the number of rows, and the first row of
   * the receiver's `to` that they replace. */
  tsr_array *starts, *sizes, *places;
} tsr_ragged_args;

/* Sends a range of rows to each position: tsr_ragged_all_to_all(x, "i", .to = to, .starts = starts,
 * .sizes = sizes, .places = places). Where two positions send to one row, the later position wins.
 * Errors: TSR_ESHAPE, TSR_EARG; a range outside x or `to`, and a negative size, fail the run.
 * Returns an array like `to`, owned as results are. Local. */
TSR_API tsr_array *tsr_ragged_all_to_all_at(const tsr_ragged_args *args, const char *site);

/* The source and the destination of a move. */
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

/* Sends the value of each source position to its destination; a position without a source gets
 * zeros. Errors: TSR_EARG (a source or a destination twice). Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_ppermute_at(const tsr_permute_args *args, const char *site);
/* Returns at position i the value of position sources[i]: tsr_pshuffle(x, "i", 1, 0). Errors:
 * TSR_EARG (not each position once). Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_pshuffle_at(tsr_array *x, const char *axis, const int *sources, int count,
                                   const char *site);
/* Returns the value of position `source` at all positions. Errors: TSR_EARG. Returns an array owned
 * as results are. Local. */
TSR_API tsr_array *tsr_pbroadcast_at(tsr_array *x, const char *axis, int source, const char *site);

/* Returns x marked as varying along an axis: the same elements, but a value of its own at each
 * position. In a gradient that the body takes, nodes made from the result count once per position,
 * and its cotangent belongs to each position alone. Without the mark, a value that is the same at
 * all positions counts once, and its cotangent is the sum over the positions.
 * tsr_pvary(tsr_all_gather(x, "i"), "i"). Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_pvary_at(tsr_array *x, const char *axis, const char *site);

/* Returns the number of positions of an axis; 0, with the error recorded, for an unknown axis.
 * Local. */
TSR_API int64_t tsr_axis_size_at(tsr_scope *scope, const char *axis, const char *site);
/* Returns the position along an axis, i64: row-major over several axes. Owned by the scope.
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
