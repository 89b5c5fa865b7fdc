/* Along a dim of an array: order, and prefixes. Whatever mesh it lies on, results are the same. */
#ifndef TESSERA_SORTING_H
#define TESSERA_SORTING_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Negative dims count from the end. Results are owned as results of operations are. */

/* ---- order ----------------------------------------------------------------------------- */

/* What is sorted: tsr_sort(x, 0), tsr_sort(x, -1, .descending = true). */
typedef struct tsr_sort_args {
  size_t size;
  tsr_array *x;
  int dim TSR_REST_BY_NAME;
  bool descending;
} tsr_sort_args;

/* The elements along `dim` in ascending or descending order, of x's shape and dtype: NaN last in
 * both, -0 and 0 equal, equal ones as they were. Error: TSR_EARG for a dim that x has not.
 * Local. */
TSR_API tsr_array *tsr_sort_at(const tsr_sort_args *args, const char *site);

/* Where the elements that tsr_sort gives were along `dim`, as i64. Asked for both, it sorts once.
 * Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_argsort_at(const tsr_sort_args *args, const char *site);

/* The places, as i64, that put the last of `count` keys in ascending order along `dim`, where it is
 * equal the one before, and so on: NumPy's lexsort. Keys have one shape and may differ in dtype.
 * Errors: TSR_ESHAPE, TSR_EARG for a key that is NULL or a dim that they have not. Local. */
TSR_API tsr_array *tsr_lexsort_at(tsr_array *const *keys, int count, int dim, const char *site);

/* The `count` largest elements along `dim` in descending order: NaN first, equal ones as they were.
 * Error: TSR_EARG for more than there are. Local. */
TSR_API tsr_array *tsr_top_k_at(tsr_array *a, int64_t count, int dim, const char *site);

/* Where the elements that tsr_top_k gives were along `dim`, as i64. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_arg_top_k_at(tsr_array *a, int64_t count, int dim, const char *site);

/* The elements along `dim` so that the one at `kth` (negative: from the end) is where a sort puts
 * it, none before it larger and none behind it smaller. The others are in order, too: of all that a
 * partition may give it is the one that does not depend on how it is made. Error: TSR_EARG for a
 * place or a dim that there is not. Local. */
TSR_API tsr_array *tsr_partition_at(tsr_array *a, int64_t kth, int dim, const char *site);

/* Where the elements that tsr_partition gives were along `dim`, as i64. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_argpartition_at(tsr_array *a, int64_t kth, int dim, const char *site);

/* ---- prefixes -------------------------------------------------------------------------- */

/* What goes along a dim: tsr_cumsum(x, 0), tsr_cumsum(x, 0, .reverse = true). */
typedef struct tsr_scan_args {
  size_t size;
  tsr_array *x;
  int dim TSR_REST_BY_NAME;
  bool reverse; /* from the last element on: each is made of those behind it */
} tsr_scan_args;

/* The sums of all elements up to each along `dim`, that one included; integers and bools as i64
 * (unsigned ones u64), wrapping, floats exactly and rounded once each. Error: TSR_EARG for a dim
 * that x has not, as of all that follow. Local. */
TSR_API tsr_array *tsr_cumsum_at(const tsr_scan_args *args, const char *site);

/* The products of all elements up to each; dtypes as of tsr_cumsum. Floats are multiplied in order,
 * in f64, and rounded to their dtype. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_cumprod_at(const tsr_scan_args *args, const char *site);

/* The largest of all elements up to each along `dim`; NaN wins, -0 < +0. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_cummax_at(const tsr_scan_args *args, const char *site);

/* The smallest of all elements up to each along `dim`; NaN wins, -0 < +0. Error: TSR_EARG.
 * Local. */
TSR_API tsr_array *tsr_cummin_at(const tsr_scan_args *args, const char *site);

/* As tsr_cumsum where NaN counts as 0. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_nancumsum_at(const tsr_scan_args *args, const char *site);

/* As tsr_cumprod where NaN counts as 1. Error: TSR_EARG. Local. */
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
