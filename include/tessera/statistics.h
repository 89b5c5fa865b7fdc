/* Statistics and comparisons of whole arrays, and softmax: compositions of the operations of
 * operations.h, with their shardings and collectives.
 *
 * Integers and bools become f64 where the result is a float. Results are owned as results are
 * (base.h). */
#ifndef TESSERA_STATISTICS_H
#define TESSERA_STATISTICS_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reductions: arguments as of tsr_sum ---- */

/* Returns the largest element minus the smallest (peak to peak). Errors as tsr_max. Local. */
TSR_API tsr_array *tsr_ptp_at(const tsr_reduce_args *args, const char *site);
/* Returns the Euclidean norm, the root of the sum of squares: squares are exact, of f64 as two
 * addends, and each sum is rounded once. The norm of no elements is 0. Local. */
TSR_API tsr_array *tsr_norm_at(const tsr_reduce_args *args, const char *site);
/* Returns log(sum(exp(x))) without overflow on the way; -inf for no elements. Local. */
TSR_API tsr_array *tsr_logsumexp_at(const tsr_reduce_args *args, const char *site);

/* Arguments of tsr_average. */
typedef struct tsr_average_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  tsr_array *weights; /* of the shape of `dims`, or broadcast to x; NULL: all 1 */
  tsr_dims dims;      /* zeros = all */
  bool keep_dims;
} tsr_average_args;

/* Returns the exact sum of x * weights divided by that of the weights: tsr_average(x, .weights =
 * w). Weights whose sum is 0 give NaN or an infinity. Local. */
TSR_API tsr_array *tsr_average_at(const tsr_average_args *args, const char *site);

/* The value of a quantile between two elements. */
typedef enum tsr_between {
  TSR_BETWEEN_LINEAR, /* linear interpolation */
  TSR_BETWEEN_LOWER,
  TSR_BETWEEN_HIGHER,
  TSR_BETWEEN_NEAREST, /* ties to the even index */
  TSR_BETWEEN_MIDPOINT
} tsr_between;

/* Arguments of tsr_quantile and its like. */
typedef struct tsr_quantile_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  double q;       /* tsr_quantile: 0..1, tsr_percentile: 0..100 */
  tsr_dims dims;  /* zeros = all */
  bool keep_dims; /* reduced dims stay with size 1 */
  tsr_between between;
  bool skip_nan; /* NaN does not count; otherwise a NaN makes the quantile NaN */
} tsr_quantile_args;

/* Returns quantile `q` of the elements along some dims: tsr_quantile(x, .q = 0.25, .dims =
 * TSR_DIMS(1)). tsr_reshape merges several dims into one. The quantile of no elements is NaN.
 * Errors: TSR_EARG for a q or a dim out of range. Local. */
TSR_API tsr_array *tsr_quantile_at(const tsr_quantile_args *args, const char *site);
/* Returns a quantile as tsr_quantile does, with q in hundredths. Local. */
TSR_API tsr_array *tsr_percentile_at(const tsr_quantile_args *args, const char *site);
/* Returns the quantile 0.5 of tsr_quantile; `q` is ignored. Local. */
TSR_API tsr_array *tsr_median_at(const tsr_quantile_args *args, const char *site);

/* Arguments of tsr_cov. */
typedef struct tsr_cov_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  bool biased;       /* divides by the number of observations, not by one less */
  bool reproducible; /* as in tsr_product_args */
} tsr_cov_args;

/* Returns the covariance matrix of the rows of x: a row is a variable, a column an observation; for
 * one dim its variance, by a matrix product (docs/NUMERICS.md). Error: TSR_ESHAPE beyond two
 * dims. Local. */
TSR_API tsr_array *tsr_cov_at(const tsr_cov_args *args, const char *site);

/* ---- comparisons of arrays ---- */

/* Arguments of tsr_isclose and its like: tsr_allclose(a, b, .rtol = 1e-3). */
typedef struct tsr_close_args {
  size_t size;
  tsr_array *a, *b TSR_REST_BY_NAME;
  double rtol;    /* relative to |b|; 0: 1e-5; negative: none */
  double atol;    /* absolute; 0: 1e-8; negative: none */
  bool equal_nan; /* NaN is close to NaN */
} tsr_close_args;

/* Returns, for each element, whether |a - b| <= atol + rtol |b|, or both are the same infinity, as
 * bool. Local. */
TSR_API tsr_array *tsr_isclose_at(const tsr_close_args *args, const char *site);
/* Returns whether all elements are close, as a bool of rank 0. Local. */
TSR_API tsr_array *tsr_allclose_at(const tsr_close_args *args, const char *site);
/* Returns whether shapes and all elements are equal, as a bool of rank 0; of the options only
 * `equal_nan` counts. Local. */
TSR_API tsr_array *tsr_array_equal_at(const tsr_close_args *args, const char *site);

/* ---- along a dim ---- */

/* Returns exp(x) divided by its sum along `dim`, without overflow on the way; integers become f64.
 * Local. */
TSR_API tsr_array *tsr_softmax_at(tsr_array *a, int dim, const char *site);
/* Returns the logarithm of tsr_softmax. Local. */
TSR_API tsr_array *tsr_log_softmax_at(tsr_array *a, int dim, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define tsr_ptp(...) tsr_ptp_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_norm(...) tsr_norm_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define tsr_logsumexp(...) tsr_logsumexp_at(TSR_REDUCE_(__VA_ARGS__), TSR_HERE)
#define TSR_AVERAGE_(array, ...) \
  (&(tsr_average_args){ .size = sizeof(tsr_average_args), .x = (array), __VA_ARGS__ })
#define tsr_average(...) tsr_average_at(TSR_AVERAGE_(__VA_ARGS__, ), TSR_HERE)
#define TSR_QUANTILE_(array, ...) \
  (&(tsr_quantile_args){ .size = sizeof(tsr_quantile_args), .x = (array), __VA_ARGS__ })
#define tsr_quantile(...) tsr_quantile_at(TSR_QUANTILE_(__VA_ARGS__, ), TSR_HERE)
#define tsr_percentile(...) tsr_percentile_at(TSR_QUANTILE_(__VA_ARGS__, ), TSR_HERE)
#define tsr_median(...) tsr_median_at(TSR_QUANTILE_(__VA_ARGS__, ), TSR_HERE)
#define TSR_COV_(array, ...) \
  (&(tsr_cov_args){ .size = sizeof(tsr_cov_args), .x = (array), __VA_ARGS__ })
#define tsr_cov(...) tsr_cov_at(TSR_COV_(__VA_ARGS__, ), TSR_HERE)
#define TSR_CLOSE_(a_, b_, ...) \
  (&(tsr_close_args){ .size = sizeof(tsr_close_args), .a = (a_), .b = (b_), __VA_ARGS__ })
#define tsr_isclose(...) \
  tsr_isclose_at(TSR_NEEDS_2_("tsr_isclose(a, b)", TSR_CLOSE_, __VA_ARGS__), TSR_HERE)
#define tsr_allclose(...) \
  tsr_allclose_at(TSR_NEEDS_2_("tsr_allclose(a, b)", TSR_CLOSE_, __VA_ARGS__), TSR_HERE)
#define tsr_array_equal(...) \
  tsr_array_equal_at(TSR_NEEDS_2_("tsr_array_equal(a, b)", TSR_CLOSE_, __VA_ARGS__), TSR_HERE)
#define tsr_softmax(a, dim) tsr_softmax_at((a), (dim), TSR_HERE)
#define tsr_log_softmax(a, dim) tsr_log_softmax_at((a), (dim), TSR_HERE)
#endif

#endif
