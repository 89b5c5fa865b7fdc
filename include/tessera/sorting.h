/* Sorts and prefix sums along a dim of an array. Results are the same on every mesh. */
#ifndef TESSERA_SORTING_H
#define TESSERA_SORTING_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Negative dims count from the end. Results are owned as results are (base.h). */

/* ---- order ----------------------------------------------------------------------------- */

/* Arguments of tsr_sort and tsr_argsort: tsr_sort(x, 0), tsr_sort(x, -1, .descending = true). */
typedef struct tsr_sort_args {
  size_t size;
  tsr_array *x;
  int dim TSR_REST_BY_NAME;
  bool descending;
} tsr_sort_args;

/* Returns the elements sorted along `dim` in ascending or descending order, of x's shape and dtype:
 * NaN last in both orders, -0 equal to 0, stable. Error: TSR_EARG for a dim out of range. Local. */
TSR_API tsr_array *tsr_sort_at(const tsr_sort_args *args, const char *site);

/* Returns the indices (i64) that sort x along `dim` as tsr_sort does. A program that needs both
 * sorts once. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_argsort_at(const tsr_sort_args *args, const char *site);

/* Returns the indices (i64) that sort along `dim` by the last of `count` keys; ties by the key
 * before it, and so on (NumPy's lexsort). Keys have one shape and may differ in dtype. Errors:
 * TSR_ESHAPE, TSR_EARG for a NULL key or a dim out of range. Local. */
TSR_API tsr_array *tsr_lexsort_at(tsr_array *const *keys, int count, int dim, const char *site);

/* Returns the `count` largest elements along `dim` in descending order: NaN first, stable. Error:
 * TSR_EARG for a count above the dim's size. Local. */
TSR_API tsr_array *tsr_top_k_at(tsr_array *a, int64_t count, int dim, const char *site);

/* Returns the indices (i64) along `dim` of the elements of tsr_top_k. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_arg_top_k_at(tsr_array *a, int64_t count, int dim, const char *site);

/* Returns the elements partitioned along `dim`: the element at `kth` (negative: from the end) is
 * the one that a sort puts there, none before it is larger and none after it smaller. The others
 * are sorted, too: of all partitions this one does not depend on the algorithm. Error: TSR_EARG for
 * an index or a dim out of range. Local. */
TSR_API tsr_array *tsr_partition_at(tsr_array *a, int64_t kth, int dim, const char *site);

/* Returns the indices (i64) along `dim` of the elements of tsr_partition. Error: TSR_EARG.
 * Local. */
TSR_API tsr_array *tsr_argpartition_at(tsr_array *a, int64_t kth, int dim, const char *site);

/* ---- prefixes -------------------------------------------------------------------------- */

/* Arguments of prefix sums and their like: tsr_cumsum(x, 0), tsr_cumsum(x, 0, .reverse = true). */
typedef struct tsr_scan_args {
  size_t size;
  tsr_array *x;
  int dim TSR_REST_BY_NAME;
  bool reverse; /* from the last element on: each result covers the elements after it */
} tsr_scan_args;

/* Returns the prefix sums along `dim`, each with its own element: integers and bools as i64
 * (unsigned ones u64), wrapping; floats exact and rounded once each. Error: TSR_EARG for a dim out
 * of range, as in all calls below. Local. */
TSR_API tsr_array *tsr_cumsum_at(const tsr_scan_args *args, const char *site);

/* Returns the prefix products along `dim`; dtypes as in tsr_cumsum. Floats are multiplied in order,
 * in f64, and rounded to their dtype. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_cumprod_at(const tsr_scan_args *args, const char *site);

/* Returns the largest element so far along `dim`; NaN wins, -0 < +0. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_cummax_at(const tsr_scan_args *args, const char *site);

/* Returns the smallest element so far along `dim`; NaN wins, -0 < +0. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_cummin_at(const tsr_scan_args *args, const char *site);

/* Returns the prefix sums of tsr_cumsum with NaN counted as 0. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_nancumsum_at(const tsr_scan_args *args, const char *site);

/* Returns the prefix products of tsr_cumprod with NaN counted as 1. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_nancumprod_at(const tsr_scan_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define TSR_SORT_(x_, dim_, ...) \
  (&(tsr_sort_args){ .size = sizeof(tsr_sort_args), .x = (x_), .dim = (dim_), __VA_ARGS__ })
#define tsr_sort(...) \
  tsr_sort_at(TSR_NEEDS_2_("tsr_sort(x, dim)", TSR_SORT_, __VA_ARGS__), TSR_HERE)
#define tsr_argsort(...) \
  tsr_argsort_at(TSR_NEEDS_2_("tsr_argsort(x, dim)", TSR_SORT_, __VA_ARGS__), TSR_HERE)
/* Arguments are taken together, so that keys may be a compound literal. */
#define tsr_lexsort(...) tsr_lexsort_at(__VA_ARGS__, TSR_HERE)
#define tsr_top_k(a, count, dim) tsr_top_k_at((a), (count), (dim), TSR_HERE)
#define tsr_arg_top_k(a, count, dim) tsr_arg_top_k_at((a), (count), (dim), TSR_HERE)
#define tsr_partition(a, kth, dim) tsr_partition_at((a), (kth), (dim), TSR_HERE)
#define tsr_argpartition(a, kth, dim) tsr_argpartition_at((a), (kth), (dim), TSR_HERE)
#define TSR_CUMULATIVE_(x_, dim_, ...) \
  (&(tsr_scan_args){ .size = sizeof(tsr_scan_args), .x = (x_), .dim = (dim_), __VA_ARGS__ })
#define tsr_cumsum(...) \
  tsr_cumsum_at(TSR_NEEDS_2_("tsr_cumsum(x, dim)", TSR_CUMULATIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_cumprod(...) \
  tsr_cumprod_at(TSR_NEEDS_2_("tsr_cumprod(x, dim)", TSR_CUMULATIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_cummax(...) \
  tsr_cummax_at(TSR_NEEDS_2_("tsr_cummax(x, dim)", TSR_CUMULATIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_cummin(...) \
  tsr_cummin_at(TSR_NEEDS_2_("tsr_cummin(x, dim)", TSR_CUMULATIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_nancumsum(...) \
  tsr_nancumsum_at(TSR_NEEDS_2_("tsr_nancumsum(x, dim)", TSR_CUMULATIVE_, __VA_ARGS__), TSR_HERE)
#define tsr_nancumprod(...) \
  tsr_nancumprod_at(TSR_NEEDS_2_("tsr_nancumprod(x, dim)", TSR_CUMULATIVE_, __VA_ARGS__), TSR_HERE)
#endif

#endif
