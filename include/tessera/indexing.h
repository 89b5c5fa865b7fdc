/* Indexing arrays by arrays: taking elements at indices, putting them there, choosing by
 * conditions, finding and counting.
 *
 * Indices are integers of any dtype. As in NumPy negative ones count from the end of their dim;
 * what becomes of one that is out of range is the call's `.mode`. Each index that is given is
 * checked, though the result may have no elements. */
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
  int dim TSR_REST_BY_NAME; /* negative: from the end */
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
  /* Of dim 0, dim 1, ...: they broadcast; the first NULL ends them. */
  tsr_array *at[TSR_MAX_RANK] TSR_REST_BY_NAME;
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
  tsr_operand updates;      /* of the shape that tsr_take gives at `indices`, or broadcast to it */
  int dim TSR_REST_BY_NAME; /* negative: from the end */
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
  tsr_operand updates; /* of the shape that tsr_gather gives, or broadcast to it */
  tsr_array *at[TSR_MAX_RANK] TSR_REST_BY_NAME; /* as of tsr_gather */
  tsr_scatter_how how;
  tsr_index_mode mode;
} tsr_scatter_nd_args;

/* As tsr_scatter at indices of the leading dims: x.at[i, j].add(updates) is tsr_scatter_nd(x,
 * updates, { i, j }, .how = TSR_SCATTER_ADD). Local. */
TSR_API tsr_array *tsr_scatter_nd_at(const tsr_scatter_nd_args *args, const char *site);

/* ---- choosing by conditions ---------------------------------------------------------------- */

/* Of tsr_select. */
typedef struct tsr_select_args {
  size_t size;
  tsr_array *const *conditions, *const *choices; /* bools; `count` each, which broadcast */
  int count TSR_REST_BY_NAME;
  tsr_operand otherwise; /* TSR_OPERAND(x); by default 0 */
} tsr_select_args;

/* Elements of the first choice whose condition is true there, else of `otherwise`: NumPy's select.
 * Errors: TSR_EARG for no choices, TSR_EDTYPE for conditions that are no bools, TSR_ESHAPE. Returns
 * an array owned as results are. Local. */
TSR_API tsr_array *tsr_select_at(const tsr_select_args *args, const char *site);

/* Of tsr_compress and tsr_nonzero, whose results have a size that is said beforehand: what is more
 * is left out, what is missing filled in. */
typedef struct tsr_find_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  tsr_array *mask; /* tsr_compress: a bool for each element of the dim, or for each of x */
  int64_t count TSR_REST_BY_NAME; /* of the result along the dim */
  int dim;                        /* tsr_compress; negative: from the end */
  tsr_operand fill;               /* by default 0 */
} tsr_find_args;

/* The first `count` of the elements of `x` along `dim` where `mask` is true; of a mask of its shape
 * those of all dims in C order, NumPy's x[mask]. tsr_compress(x, mask, 10, .dim = 1). Errors:
 * TSR_EARG, TSR_EDTYPE for a mask that is no bool, TSR_ESHAPE for one of another size. Returns an
 * array owned as results are. Local. */
TSR_API tsr_array *tsr_compress_at(const tsr_find_args *args, const char *site);

/* Where the first `count` elements that are not 0 stand in `x`, in C order, as i64: NumPy's
 * flatnonzero, which of one dim is nonzero. tsr_nonzero(x, .count = 10). Error: TSR_EARG. Returns
 * an array owned as results are. Local. */
TSR_API tsr_array *tsr_nonzero_at(const tsr_find_args *args, const char *site);

/* The same places as an index of each dim of `x`, as NumPy's nonzero, to `out`, which has room for
 * them: tsr_gather finds the elements again. tsr_nonzero_dims(x, out, 10, .fill = TSR_OPERAND(-1)).
 * Error: TSR_EARG: then they are inert. Local. */
TSR_API void tsr_nonzero_dims_at(const tsr_find_args *args, tsr_array **out, const char *site);

/* ---- finding ------------------------------------------------------------------------------- */

/* Where elements of `x` would be put into the ascending `sorted`, of one dim, to keep its order:
 * before equal ones, `right`: behind them. NaN is beyond all. NumPy's searchsorted; i64 of the
 * shape of x. Errors: TSR_ESHAPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_searchsorted_at(tsr_array *sorted, tsr_array *x, bool right,
                                       const char *site);

/* Which bin elements of `x` are in: i where bins[i - 1] <= x < bins[i], with `right`
 * bins[i - 1] < x <= bins[i]; of bins that descend bins[i - 1] > x >= bins[i], with `right`
 * bins[i - 1] >= x > bins[i]. NumPy's digitize; i64. Errors
 * and ownership as tsr_searchsorted. Local. */
TSR_API tsr_array *tsr_digitize_at(tsr_array *x, tsr_array *bins, bool right, const char *site);

/* Whether each element of `x` is equal to one of `among`, of one dim. NumPy's isin; bool. Errors
 * and ownership as tsr_searchsorted. Local. */
TSR_API tsr_array *tsr_isin_at(tsr_array *x, tsr_array *among, const char *site);

/* Of tsr_interp. */
typedef struct tsr_interp_args {
  size_t size;
  tsr_array *x;
  tsr_array *xp, *fp TSR_REST_BY_NAME; /* points: ascending places and values there, of one dim */
  tsr_operand left, right; /* below the first and beyond the last point; by default its value */
} tsr_interp_args;

/* Values at `x` on the lines through points: NumPy's interp, and its bits in f64. tsr_interp(x, xp,
 * fp, .left = TSR_OPERAND(0)). Floats of the widest dtype among the operands, f64 of integers.
 * Errors: TSR_ESHAPE where xp and fp are not of one dim and size, and not empty. Returns an array
 * owned as results are. Local. */
TSR_API tsr_array *tsr_interp_at(const tsr_interp_args *args, const char *site);

/* What tsr_unique finds: arrays owned as results are. */
typedef struct tsr_unique_parts {
  tsr_array *values;  /* ascending, NaN once and last, -0 the same as 0; behind them the fill */
  tsr_array *index;   /* i64: where in C order each value stands first in x, of those missing 0 */
  tsr_array *inverse; /* i64, of the shape of x: of each element, which value it is */
  tsr_array *counts;  /* i64: how often each occurs, 0 of those that are missing */
} tsr_unique_parts;

/* The first `count` of the different elements of `x`; what is missing is `fill`, by default the
 * smallest. tsr_unique(x, .count = 10).values. What is not used costs nothing. Error: TSR_EARG;
 * then all four are inert. Local. */
TSR_API tsr_unique_parts tsr_unique_at(const tsr_find_args *args, const char *site);

/* ---- counting ------------------------------------------------------------------------------ */

/* 1 where the last dim is the index, else 0, and only 0 where there is none: shape indices.dims +
 * [classes], of `dtype`, 0 for f32. JAX's one_hot. Errors: TSR_EARG, TSR_EDTYPE for indices that
 * are no integers. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_one_hot_at(tsr_array *indices, int64_t classes, tsr_dtype dtype,
                                  const char *site);

/* How often each of 0 .. length - 1 occurs in the integers `x`, others are left out; or the sum of
 * `weights` (the shape of x; NULL: none), exact and rounded once. NumPy's bincount; i64, or the
 * dtype of a sum. Errors: TSR_EARG for a length below 1, TSR_EDTYPE, TSR_ESHAPE. Returns an array
 * owned as results are. Local. */
TSR_API tsr_array *tsr_bincount_at(tsr_array *x, int64_t length, tsr_array *weights,
                                   const char *site);

/* Of tsr_histogram. */
typedef struct tsr_histogram_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  int64_t bins;       /* of equal width; 0: 10 */
  tsr_array *edges;   /* not NULL: instead of bins, ascending, of one dim */
  double low, high;   /* of equal bins; both 0: the smallest and largest element */
  tsr_array *weights; /* the shape of x; NULL: each counts 1 */
  bool density;       /* over width and sum, so that the whole is 1: f64 */
} tsr_histogram_args;

/* What tsr_histogram makes: arrays owned as results are. */
typedef struct tsr_histogram_parts {
  tsr_array *counts; /* i64, or the dtype of a sum of weights */
  tsr_array *edges;  /* one more than bins */
} tsr_histogram_parts;

/* How many elements of `x` are in each bin; the last one has both its edges, what is in none is
 * left out. NumPy's histogram. tsr_histogram(x, .bins = 20).counts. Errors: TSR_EARG, TSR_ESHAPE,
 * TSR_EDTYPE for bools; then both are inert. Local. */
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
