/* Indexing arrays by arrays: gathers, scatters, selection by conditions, searches, counts.
 *
 * Indices are integers of any dtype. As in NumPy, negative ones count from the end of their dim.
 * The call's `.mode` decides about an index out of range. Every index is checked, even where the
 * result has no elements. */
#ifndef TESSERA_INDEXING_H
#define TESSERA_INDEXING_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The treatment of an index out of range. */
typedef enum tsr_index_mode {
  TSR_INDEX_ERROR,                 /* fail the terminal with TSR_EVALUE */
  TSR_INDEX_CLAMP,                 /* use the first or the last index */
  TSR_INDEX_FILL,                  /* use `.fill` */
  TSR_INDEX_DROP = TSR_INDEX_FILL, /* in a scatter: leave out the update */
} tsr_index_mode;

/* ---- taking ------------------------------------------------------------------------------ */

/* Arguments of tsr_take and tsr_take_along_dim. */
typedef struct tsr_take_args {
  size_t size;
  tsr_array *x, *indices;
  int dim TSR_REST_BY_NAME; /* negative: from the end */
  tsr_index_mode mode;
  tsr_operand fill; /* TSR_OPERAND(-1), a number or an array of rank 0; by default NaN for floats,
                     * the smallest signed integer, the largest unsigned one, true for bools */
} tsr_take_args;

/* Returns the elements of `x` along `dim` at `indices` (NumPy's take), of shape x.dims[..dim] +
 * indices.dims + x.dims[dim+1..]. tsr_take(x, at, 0, .mode = TSR_INDEX_CLAMP). Errors: TSR_EDTYPE
 * for indices that are not integers, TSR_EARG for a dim out of range, TSR_ESHAPE, TSR_EUNSUPPORTED
 * for another mode along rows whose number is known only at run time. Returns an array owned as
 * results are. Local. */
TSR_API tsr_array *tsr_take_at(const tsr_take_args *args, const char *site);

/* Returns, for each line of `x` along `dim`, the elements at that line's `indices`, whose other
 * dims are those of `x` or broadcast with them (NumPy's take_along_axis). Errors and ownership as
 * tsr_take. Local. */
TSR_API tsr_array *tsr_take_along_dim_at(const tsr_take_args *args, const char *site);

/* Arguments of tsr_gather. */
typedef struct tsr_gather_args {
  size_t size;
  tsr_array *x;
  /* Indices of dim 0, dim 1, ..., which broadcast; the first NULL ends them. */
  tsr_array *at[TSR_MAX_RANK] TSR_REST_BY_NAME;
  tsr_index_mode mode;
  tsr_operand fill; /* as in tsr_take_args */
} tsr_gather_args;

/* Returns the elements of `x` at indices of its leading dims (NumPy's x[i, j]), of the shape of i
 * and j broadcast, then the other dims of `x`. tsr_gather(x, { i, j }, .mode = TSR_INDEX_FILL).
 * Errors and ownership as tsr_take. Local. */
TSR_API tsr_array *tsr_gather_at(const tsr_gather_args *args, const char *site);

/* ---- putting ----------------------------------------------------------------------------- */

/* The value of an element of `x` and of the updates at its index. */
typedef enum tsr_scatter_how {
  TSR_SCATTER_SET, /* the last update in the order of the indices */
  TSR_SCATTER_ADD, /* the sum: for floats exact and rounded once, for integers wrapping, for bools
                    * the logical or */
  TSR_SCATTER_MUL, /* the product: for floats in order, in f64, rounded once; for bools the logical
                    * and */
  TSR_SCATTER_MIN, /* the smallest: NaN wins, -0 < +0 */
  TSR_SCATTER_MAX  /* the largest: NaN wins, -0 < +0 */
} tsr_scatter_how;

/* Arguments of tsr_scatter. */
typedef struct tsr_scatter_args {
  size_t size;
  tsr_array *x, *indices;
  tsr_operand updates;      /* of the shape of tsr_take at `indices`, or broadcast to it */
  int dim TSR_REST_BY_NAME; /* negative: from the end */
  tsr_scatter_how how;
  tsr_index_mode mode; /* TSR_INDEX_DROP leaves out updates out of range */
} tsr_scatter_args;

/* Returns `x` with `updates` written at `indices` along `dim`; `how` combines updates of one
 * element (JAX's x.at[indices].add(updates)). tsr_scatter(x, at, 1, 0, .how = TSR_SCATTER_ADD).
 * Dtypes promote as in arithmetic; a number takes the dtype of `x`. Errors: as tsr_take, and
 * TSR_EARG for an unknown `how`. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_scatter_at(const tsr_scatter_args *args, const char *site);

/* Arguments of tsr_scatter_nd. */
typedef struct tsr_scatter_nd_args {
  size_t size;
  tsr_array *x;
  tsr_operand updates;                          /* of the shape of tsr_gather, or broadcast to it */
  tsr_array *at[TSR_MAX_RANK] TSR_REST_BY_NAME; /* as in tsr_gather_args */
  tsr_scatter_how how;
  tsr_index_mode mode;
} tsr_scatter_nd_args;

/* Returns `x` as tsr_scatter does, with updates at indices of the leading dims: x.at[i,
 * j].add(updates) is tsr_scatter_nd(x, updates, { i, j }, .how = TSR_SCATTER_ADD). Local. */
TSR_API tsr_array *tsr_scatter_nd_at(const tsr_scatter_nd_args *args, const char *site);

/* ---- choosing by conditions ---------------------------------------------------------------- */

/* Arguments of tsr_select. */
typedef struct tsr_select_args {
  size_t size;
  tsr_array *const *conditions, *const *choices; /* bools; `count` each, which broadcast */
  int count TSR_REST_BY_NAME;
  tsr_operand otherwise; /* TSR_OPERAND(x); by default 0 */
} tsr_select_args;

/* Returns, for each element, the first choice whose condition is true, else `otherwise` (NumPy's
 * select). Errors: TSR_EARG for a count of 0, TSR_EDTYPE for conditions that are not bools,
 * TSR_ESHAPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_select_at(const tsr_select_args *args, const char *site);

/* Arguments of tsr_compress, tsr_nonzero and tsr_unique, whose results have a given size: further
 * elements are left out, missing ones filled in. */
typedef struct tsr_find_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  tsr_array *mask; /* tsr_compress: a bool for each element of the dim, or for each of x */
  int64_t count TSR_REST_BY_NAME; /* size of the result along the dim */
  int dim;                        /* tsr_compress; negative: from the end */
  tsr_operand fill;               /* by default 0 */
} tsr_find_args;

/* Returns the first `count` elements of `x` along `dim` where `mask` is true; with a mask of x's
 * shape, the first `count` of all dims in C order (NumPy's x[mask]). tsr_compress(x, mask, 10, .dim
 * = 1). Errors: TSR_EARG, TSR_EDTYPE for a mask that is not bool, TSR_ESHAPE for one of another
 * size. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_compress_at(const tsr_find_args *args, const char *site);

/* Returns the indices (i64, in C order) of the first `count` nonzero elements of `x`: NumPy's
 * flatnonzero, and nonzero for one dim. tsr_nonzero(x, .count = 10). Error: TSR_EARG. Returns an
 * array owned as results are. Local. */
TSR_API tsr_array *tsr_nonzero_at(const tsr_find_args *args, const char *site);

/* Writes the indices of the first `count` nonzero elements as one array per dim of `x` (NumPy's
 * nonzero) to `out`, which has an element per dim: tsr_gather takes these indices.
 * tsr_nonzero_dims(x, out, 10, .fill = TSR_OPERAND(-1)). Error: TSR_EARG; then the arrays are
 * inert. Local. */
TSR_API void tsr_nonzero_dims_at(const tsr_find_args *args, tsr_array **out, const char *site);

/* ---- finding ------------------------------------------------------------------------------- */

/* Returns the indices (i64, of the shape of x) at which elements of `x` would be inserted into the
 * ascending `sorted`, of one dim, to keep its order (NumPy's searchsorted): before equal elements,
 * or with `right` after them. NaN sorts last. Errors: TSR_ESHAPE. Returns an array owned as results
 * are. Local. */
TSR_API tsr_array *tsr_searchsorted_at(tsr_array *sorted, tsr_array *x, bool right,
                                       const char *site);

/* Returns the bin (i64) of each element of `x` (NumPy's digitize): i where bins[i - 1] <= x <
 * bins[i], with `right` bins[i - 1] < x <= bins[i]; for descending bins, i where bins[i - 1] > x >=
 * bins[i], with `right` bins[i - 1] >= x > bins[i]. Errors and ownership as tsr_searchsorted.
 * Local. */
TSR_API tsr_array *tsr_digitize_at(tsr_array *x, tsr_array *bins, bool right, const char *site);

/* Returns whether each element of `x` equals an element of `among`, of one dim, as bool (NumPy's
 * isin). Errors and ownership as tsr_searchsorted. Local. */
TSR_API tsr_array *tsr_isin_at(tsr_array *x, tsr_array *among, const char *site);

/* Arguments of tsr_interp. */
typedef struct tsr_interp_args {
  size_t size;
  tsr_array *x;
  tsr_array *xp, *fp TSR_REST_BY_NAME; /* the points: ascending positions, and their values, of one
                                        * dim */
  tsr_operand left, right; /* values before the first and after the last point; by default that
                            * point's value */
} tsr_interp_args;

/* Returns the piecewise linear interpolation at `x` through points: NumPy's interp, with its bits
 * in f64. tsr_interp(x, xp, fp, .left = TSR_OPERAND(0)). The result has the widest float dtype of
 * the operands, f64 for integers. Errors: TSR_ESHAPE unless xp and fp have one dim of the same
 * size, not empty. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_interp_at(const tsr_interp_args *args, const char *site);

/* Results of tsr_unique: arrays owned as results are. */
typedef struct tsr_unique_parts {
  tsr_array *values;  /* ascending, NaN once and last, -0 equal to 0; then the fill */
  tsr_array *index;   /* i64: index in C order of each value's first element in x; 0 for missing
                       * values */
  tsr_array *inverse; /* i64, of the shape of x: for each element the index of its value */
  tsr_array *counts;  /* i64: number of times that each value occurs, 0 for missing values */
} tsr_unique_parts;

/* Returns the first `count` distinct elements of `x`; missing ones are `fill`, by default the
 * smallest. tsr_unique(x, .count = 10).values. An array that is not used costs nothing. Error:
 * TSR_EARG; then all four arrays are inert. Local. */
TSR_API tsr_unique_parts tsr_unique_at(const tsr_find_args *args, const char *site);

/* ---- counting ------------------------------------------------------------------------------ */

/* Returns 1 where the index along the last dim equals `indices`, else 0 (JAX's one_hot); an index
 * out of range gives 0 everywhere. The shape is indices.dims + [classes], the dtype `dtype`, 0 for
 * f32. Errors: TSR_EARG, TSR_EDTYPE for indices that are not integers. Returns an array owned as
 * results are. Local. */
TSR_API tsr_array *tsr_one_hot_at(tsr_array *indices, int64_t classes, tsr_dtype dtype,
                                  const char *site);

/* Returns how often each of 0 .. length - 1 occurs in the integers `x` (NumPy's bincount; i64), or
 * the sum of its `weights` (of the shape of x; NULL: none), exact and rounded once, in the dtype of
 * a sum. Other integers are left out. Errors: TSR_EARG for a length below 1, TSR_EDTYPE,
 * TSR_ESHAPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_bincount_at(tsr_array *x, int64_t length, tsr_array *weights,
                                   const char *site);

/* Arguments of tsr_histogram. */
typedef struct tsr_histogram_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  int64_t bins;       /* number of bins of equal width; 0: 10 */
  tsr_array *edges;   /* edges in place of `bins`, ascending, of one dim; NULL: none */
  double low, high;   /* range of bins of equal width; both 0: the smallest and largest element */
  tsr_array *weights; /* of the shape of x; NULL: each element counts 1 */
  bool density;       /* divides by width and sum, so that the integral is 1: f64 */
} tsr_histogram_args;

/* Results of tsr_histogram: arrays owned as results are. */
typedef struct tsr_histogram_parts {
  tsr_array *counts; /* i64, or the dtype of a sum of weights */
  tsr_array *edges;  /* one more than there are bins */
} tsr_histogram_parts;

/* Returns how many elements of `x` are in each bin (NumPy's histogram); the last bin includes both
 * its edges, elements in no bin are left out. tsr_histogram(x, .bins = 20).counts. Errors:
 * TSR_EARG, TSR_ESHAPE, TSR_EDTYPE for bools; then both arrays are inert. Local. */
TSR_API tsr_histogram_parts tsr_histogram_at(const tsr_histogram_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define TSR_TAKE_(x_, indices_, ...) \
  (&(tsr_take_args){ .size = sizeof(tsr_take_args), .x = (x_), .indices = (indices_), __VA_ARGS__ })
#define tsr_take(...) \
  tsr_take_at(TSR_NEEDS_2_("tsr_take(x, indices)", TSR_TAKE_, __VA_ARGS__), TSR_HERE)
#define tsr_take_along_dim(...)                                                                 \
  tsr_take_along_dim_at(TSR_NEEDS_2_("tsr_take_along_dim(x, indices)", TSR_TAKE_, __VA_ARGS__), \
                        TSR_HERE)
#define TSR_GATHER_(array, ...) \
  (&(tsr_gather_args){ .size = sizeof(tsr_gather_args), .x = (array), .at = __VA_ARGS__ })
#define tsr_gather(...) \
  tsr_gather_at(TSR_NEEDS_2_("tsr_gather(x, { indices })", TSR_GATHER_, __VA_ARGS__), TSR_HERE)
/* tsr_scatter(x, indices, updates, dim, .how = TSR_SCATTER_MAX) */
#define TSR_SCATTER_(x_, indices_, updates_, dim_, ...)   \
  (&(tsr_scatter_args){ .size = sizeof(tsr_scatter_args), \
                        .x = (x_),                        \
                        .indices = (indices_),            \
                        .updates = TSR_OPERAND(updates_), \
                        .dim = (dim_),                    \
                        __VA_ARGS__ })
#define tsr_scatter(...)                                                                           \
  tsr_scatter_at(TSR_NEEDS_4_("tsr_scatter(x, indices, updates, dim)", TSR_SCATTER_, __VA_ARGS__), \
                 TSR_HERE)

/* tsr_scatter with TSR_SCATTER_ADD. Local. */
#define tsr_scatter_add(array, indexes, values, dim) \
  tsr_scatter(array, indexes, values, (dim), .how = TSR_SCATTER_ADD)
/* tsr_scatter_nd(x, updates, { i, j }, .how = TSR_SCATTER_MAX) */
#define tsr_scatter_nd(array, values, ...)                                       \
  tsr_scatter_nd_at(&(tsr_scatter_nd_args){ .size = sizeof(tsr_scatter_nd_args), \
                                            .x = (array),                        \
                                            .updates = TSR_OPERAND(values),      \
                                            .at = __VA_ARGS__ },                 \
                    TSR_HERE)
/* tsr_select(conditions, choices, 2, .otherwise = TSR_OPERAND(-1)) */
#define tsr_select(...)                                                                           \
  tsr_select_at(&(tsr_select_args){ .size = sizeof(tsr_select_args), .conditions = __VA_ARGS__ }, \
                TSR_HERE)
#define TSR_FIND_(array, ...) \
  (&(tsr_find_args){ .size = sizeof(tsr_find_args), .x = (array), __VA_ARGS__ })
#define TSR_COMPRESS_(x_, mask_, count_, ...) \
  (&(tsr_find_args){                          \
      .size = sizeof(tsr_find_args), .x = (x_), .mask = (mask_), .count = (count_), __VA_ARGS__ })
#define tsr_compress(...)                                                                   \
  tsr_compress_at(TSR_NEEDS_3_("tsr_compress(x, mask, count)", TSR_COMPRESS_, __VA_ARGS__), \
                  TSR_HERE)
#define tsr_nonzero(...) tsr_nonzero_at(TSR_FIND_(__VA_ARGS__, ), TSR_HERE)
#define TSR_NONZERO_DIMS_(array, out, count_, ...)                     \
  tsr_nonzero_dims_at(&(tsr_find_args){ .size = sizeof(tsr_find_args), \
                                        .x = (array),                  \
                                        .count = (count_),             \
                                        __VA_ARGS__ },                 \
                      (out), TSR_HERE)
#define tsr_nonzero_dims(...) \
  TSR_NEEDS_3_("tsr_nonzero_dims(x, out, count)", TSR_NONZERO_DIMS_, __VA_ARGS__)
#define tsr_unique(...) tsr_unique_at(TSR_FIND_(__VA_ARGS__, ), TSR_HERE)
#define tsr_searchsorted(sorted, x, right) tsr_searchsorted_at((sorted), (x), (right), TSR_HERE)
#define tsr_digitize(x, bins, right) tsr_digitize_at((x), (bins), (right), TSR_HERE)
#define tsr_isin(x, among) tsr_isin_at((x), (among), TSR_HERE)
#define TSR_INTERP_(x_, xp_, fp_, ...) \
  (&(tsr_interp_args){                 \
      .size = sizeof(tsr_interp_args), .x = (x_), .xp = (xp_), .fp = (fp_), __VA_ARGS__ })
#define tsr_interp(...) \
  tsr_interp_at(TSR_NEEDS_3_("tsr_interp(x, xp, fp)", TSR_INTERP_, __VA_ARGS__), TSR_HERE)
#define tsr_one_hot(indices, classes, dtype) tsr_one_hot_at((indices), (classes), (dtype), TSR_HERE)
#define tsr_bincount(x, length, weights) tsr_bincount_at((x), (length), (weights), TSR_HERE)
#define TSR_HISTOGRAM_(array, ...) \
  (&(tsr_histogram_args){ .size = sizeof(tsr_histogram_args), .x = (array), __VA_ARGS__ })
#define tsr_histogram(...) tsr_histogram_at(TSR_HISTOGRAM_(__VA_ARGS__, ), TSR_HERE)
#endif

#endif
