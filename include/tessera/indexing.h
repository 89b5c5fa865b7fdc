/* Indexing arrays by arrays: taking elements at indices, and putting them there.
 *
 * Indices are integers of any dtype. As in NumPy negative ones count from the end of their dim;
 * what becomes of one that is out of range is the call's `.mode`. */
#ifndef TESSERA_INDEXING_H
#define TESSERA_INDEXING_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An index out of range ... */
typedef enum tsr_index_mode {
  TSR_INDEX_ERROR,                 /* ... fails the terminal with TSR_EVALUE, */
  TSR_INDEX_CLAMP,                 /* ... is the first or the last one, */
  TSR_INDEX_FILL,                  /* ... takes `.fill` */
  TSR_INDEX_DROP = TSR_INDEX_FILL, /* ... or, where elements are put, is left out */
} tsr_index_mode;

/* ---- taking ------------------------------------------------------------------------------ */

/* Of tsr_take and tsr_take_along_dim. */
typedef struct tsr_take_args {
  size_t size;
  tsr_array *x, *indices;
  int dim; /* negative: from the end */
  tsr_index_mode mode;
  tsr_operand fill; /* TSR_OPERAND(-1), a number or an array of rank 0; by default NaN of floats,
                       the least of signed and the largest of unsigned integers, true of bools */
} tsr_take_args;

/* Elements of `x` along `dim` at `indices`, as NumPy's take: shape x.dims[..dim] + indices.dims +
 * x.dims[dim+1..]. tsr_take(x, at, 0, .mode = TSR_INDEX_CLAMP). Errors: TSR_EDTYPE for indices that
 * are no integers, TSR_EARG for a dim that is not there, TSR_ESHAPE, TSR_EUNSUPPORTED for another
 * mode along rows whose number is known only at run time. Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_take_at(const tsr_take_args *args, const char *site);

/* In each line of `x` along `dim` the elements at that line of `indices`, whose other dims are
 * those of `x` or broadcast with them: NumPy's take_along_axis. Errors and ownership as tsr_take.
 * Local. */
TSR_API tsr_array *tsr_take_along_dim_at(const tsr_take_args *args, const char *site);

/* Of tsr_gather. */
typedef struct tsr_gather_args {
  size_t size;
  tsr_array *x;
  tsr_array *at[TSR_MAX_RANK]; /* of dim 0, dim 1, ...: they broadcast; the first NULL ends them */
  tsr_index_mode mode;
  tsr_operand fill; /* as of tsr_take */
} tsr_gather_args;

/* Elements of `x` at indices of its leading dims, as x[i, j] is in NumPy: shape that of i and j
 * broadcast, then the other dims of `x`. tsr_gather(x, { i, j }, .mode = TSR_INDEX_FILL). Errors
 * and ownership as tsr_take. Local. */
TSR_API tsr_array *tsr_gather_at(const tsr_gather_args *args, const char *site);

/* ---- putting ----------------------------------------------------------------------------- */

/* What becomes of an element that is there and of those that come to it. */
typedef enum tsr_scatter_how {
  TSR_SCATTER_SET, /* the last update in the order of the indices */
  TSR_SCATTER_ADD, /* their sum: of floats exact and rounded once, integers wrap; of bools or */
  TSR_SCATTER_MUL, /* their product: of floats in order, in f64, rounded once; of bools and */
  TSR_SCATTER_MIN, /* the smallest: NaN wins, -0 < +0 */
  TSR_SCATTER_MAX  /* the largest, likewise */
} tsr_scatter_how;

/* Of tsr_scatter. */
typedef struct tsr_scatter_args {
  size_t size;
  tsr_array *x, *indices;
  tsr_operand updates; /* of the shape that tsr_take gives at `indices`, or broadcast to it */
  int dim;             /* negative: from the end */
  tsr_scatter_how how;
  tsr_index_mode mode; /* TSR_INDEX_DROP leaves out what is out of range */
} tsr_scatter_args;

/* `x` with each element of `updates` at its place along `dim`; `how` says what is made of those
 * that meet: JAX's x.at[indices].add(updates). tsr_scatter(x, at, 1, 0, .how = TSR_SCATTER_ADD).
 * Dtypes meet as in arithmetic; a number takes that of `x`. Errors: as tsr_take, and TSR_EARG for
 * a `how` that is none. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_scatter_at(const tsr_scatter_args *args, const char *site);

/* Of tsr_scatter_nd. */
typedef struct tsr_scatter_nd_args {
  size_t size;
  tsr_array *x;
  tsr_operand updates;         /* of the shape that tsr_gather gives, or broadcast to it */
  tsr_array *at[TSR_MAX_RANK]; /* as of tsr_gather */
  tsr_scatter_how how;
  tsr_index_mode mode;
} tsr_scatter_nd_args;

/* As tsr_scatter at indices of the leading dims: x.at[i, j].add(updates) is tsr_scatter_nd(x,
 * updates, { i, j }, .how = TSR_SCATTER_ADD). Local. */
TSR_API tsr_array *tsr_scatter_nd_at(const tsr_scatter_nd_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define TSR_TAKE_(...) (&(tsr_take_args){ .size = sizeof(tsr_take_args), .x = __VA_ARGS__ })
#define tsr_take(...) tsr_take_at(TSR_TAKE_(__VA_ARGS__), TSR_HERE)
#define tsr_take_along_dim(...) tsr_take_along_dim_at(TSR_TAKE_(__VA_ARGS__), TSR_HERE)
#define tsr_gather(...) \
  tsr_gather_at(&(tsr_gather_args){ .size = sizeof(tsr_gather_args), .x = __VA_ARGS__ }, TSR_HERE)
/* tsr_scatter(x, indices, updates, dim, .how = TSR_SCATTER_MAX) */
#define tsr_scatter(array, indexes, values, ...)                        \
  tsr_scatter_at(&(tsr_scatter_args){ .size = sizeof(tsr_scatter_args), \
                                      .x = (array),                     \
                                      .indices = (indexes),             \
                                      .updates = TSR_OPERAND(values),   \
                                      .dim = __VA_ARGS__ },             \
                 TSR_HERE)

/* tsr_scatter that adds. Local. */
#define tsr_scatter_add(array, indexes, values, dim) \
  tsr_scatter(array, indexes, values, (dim), .how = TSR_SCATTER_ADD)
/* tsr_scatter_nd(x, updates, { i, j }, .how = TSR_SCATTER_MAX) */
#define tsr_scatter_nd(array, values, ...)                                       \
  tsr_scatter_nd_at(&(tsr_scatter_nd_args){ .size = sizeof(tsr_scatter_nd_args), \
                                            .x = (array),                        \
                                            .updates = TSR_OPERAND(values),      \
                                            .at = __VA_ARGS__ },                 \
                    TSR_HERE)
#endif

#endif
