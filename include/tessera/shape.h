/* Reshaping, reordering, stacking and splitting arrays, beside the views of array.h (slice,
 * transpose, flip, pad, concat ...). The results are such views or made of them: they cost nothing
 * until a computation reads them, and it reads them in place. */
#ifndef TESSERA_SHAPE_H
#define TESSERA_SHAPE_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- other shapes ---------------------------------------------------------------------------- */

/* Returns the elements of `a`, in C order, in another shape of the same size; one dim may be -1 and
 * takes the size that the others leave. A dim that is split or merged stays sharded where its major
 * dim is. Where another dim is sharded, or borders do not match (an uneven size), elements move, as
 * tsr_explain shows. Errors: TSR_ESHAPE, TSR_EUNSUPPORTED for rows whose number is known only at
 * run time. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_reshape_at(tsr_array *a, tsr_shape shape, const char *site);
/* Returns the elements of `a` along one dim, as tsr_reshape does. Local. */
TSR_API tsr_array *tsr_ravel_at(tsr_array *a, const char *site);
/* Returns `a` with new dims of size 1 at `dims` of the result: TSR_DIMS(0, -1). Error: TSR_EARG for
 * a dim out of range or too many dims. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_expand_dims_at(tsr_array *a, tsr_dims dims, const char *site);
/* Returns `a` without `dims`, which must have size 1 (zeros: all dims of size 1). Errors: TSR_EARG,
 * TSR_ESHAPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_squeeze_at(tsr_array *a, tsr_dims dims, const char *site);
/* Returns `a` with at least `rank` dims, 1 to 3, as NumPy's atleast_1d, _2d, _3d: [n] becomes [1,n]
 * and [1,n,1], [m,n] becomes [m,n,1]. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_atleast_at(tsr_array *a, int rank, const char *site);

/* ---- other orders ---------------------------------------------------------------------------- */

/* Returns the elements shifted by `shifts[i]` along `dims[i]`, for each of `count`; elements that
 * leave the end re-enter at the start. A dim may be named several times; negative dims count from
 * the end. Error: TSR_EARG. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_roll_at(tsr_array *a, const int64_t *shifts, const int *dims, int count,
                               const char *site);
/* Returns `a` with dim `from` moved to index `to`, the other dims in their order. Error: TSR_EARG.
 * Local. */
TSR_API tsr_array *tsr_moveaxis_at(tsr_array *a, int from, int to, const char *site);
/* Returns `a` with dims `one` and `other` exchanged. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_swapaxes_at(tsr_array *a, int one, int other, const char *site);
/* Returns `a` rotated by `times` quarter turns in the plane of dims `first` and `second`, from the
 * first towards the second. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_rot90_at(tsr_array *a, int64_t times, int first, int second,
                                const char *site);

/* ---- one of several, several of one ---------------------------------------------------------- */

/* Returns arrays of one shape along a new dim, `dim` of the result (negative: from its end); dtypes
 * promote as in arithmetic. Errors: TSR_EARG, TSR_ESHAPE. Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_stack_at(tsr_array *const *arrays, int count, int dim, const char *site);
/* Splits `a` along `dim` into `count` arrays whose sizes differ by at most 1, larger ones first,
 * and writes them to `out`, which has `count` elements. Error: TSR_EARG; then the arrays are inert.
 * Local. */
TSR_API void tsr_split_at(tsr_array *a, int count, int dim, tsr_array **out, const char *site);
/* Returns `a` repeated `times[i]` times along each of the last `count` dims; a larger `count` adds
 * leading dims. Errors: TSR_EARG, TSR_ESHAPE. Local. */
TSR_API tsr_array *tsr_tile_at(tsr_array *a, const int64_t *times, int count, const char *site);
/* Returns `a` with each element along `dim` repeated `times` times in a row. Errors: TSR_EARG,
 * TSR_ESHAPE. Local. */
TSR_API tsr_array *tsr_repeat_at(tsr_array *a, int64_t times, int dim, const char *site);
/* Returns `a` with element i along `dim` repeated `counts[i]` times (integers of rank 1), `total`
 * elements in all. If the counts sum to less, the last element fills the rest; if to more, the end
 * is left out. Errors: TSR_EARG, TSR_ESHAPE, TSR_EDTYPE. Local. */
TSR_API tsr_array *tsr_repeat_each_at(tsr_array *a, tsr_array *counts, int64_t total, int dim,
                                      const char *site);
/* Writes `count` arrays, broadcast to their common shape, to `out`, which may be `arrays`. Error:
 * TSR_ESHAPE; then the arrays are inert. Local. */
TSR_API void tsr_broadcast_arrays_at(tsr_array *const *arrays, int count, tsr_array **out,
                                     const char *site);
/* Writes the coordinates of the grid of `count` arrays of rank 1, an array of rank `count` each, to
 * `out`: array i varies along dim i. With `swapped` the first two dims are exchanged (NumPy's
 * "xy"). Errors: TSR_EARG, TSR_ESHAPE; then the arrays are inert. Local. */
TSR_API void tsr_meshgrid_at(tsr_array *const *arrays, int count, bool swapped, tsr_array **out,
                             const char *site);

/* ---- at indices in arrays -------------------------------------------------------------------- */

/* Returns the box of `sizes`, one per dim, at `starts`: integers of rank 1, one per dim. A negative
 * start counts from the end; then it is moved so that the whole box is inside, as in JAX. Errors:
 * TSR_EARG, TSR_ESHAPE, TSR_EDTYPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_dynamic_slice_at(tsr_array *a, tsr_array *starts, tsr_shape sizes,
                                        const char *site);
/* Returns `a` with `update`, of the same rank and no larger, written over it at `starts`, which are
 * as in tsr_dynamic_slice; dtypes promote as in arithmetic. The result keeps the sharding of `a`
 * and none of its elements move. Errors: TSR_ESHAPE, TSR_EDTYPE. Returns an array owned as results
 * are. Local. */
TSR_API tsr_array *tsr_dynamic_update_slice_at(tsr_array *a, tsr_array *update, tsr_array *starts,
                                               const char *site);

/* ---- borders and differences ----------------------------------------------------------------- */

/* Borders of a padded array, for x = 1 2 3. */
typedef enum tsr_pad_mode {
  TSR_PAD_EDGE = 1,  /* 1 1 |1 2 3| 3 3 */
  TSR_PAD_WRAP,      /* 2 3 |1 2 3| 1 2 */
  TSR_PAD_REFLECT,   /* 3 2 |1 2 3| 2 1 */
  TSR_PAD_SYMMETRIC, /* 2 1 |1 2 3| 3 2 */
} tsr_pad_mode;

/* Returns an array padded as tsr_pad does, with elements of `x` in the borders; `.value` is
 * ignored. Errors as tsr_pad, TSR_EARG for negative borders or an interior, and TSR_ESHAPE for
 * borders of a dim without elements. Local. */
TSR_API tsr_array *tsr_pad_like_at(const tsr_pad_args *args, tsr_pad_mode mode, const char *site);
/* Returns the differences of neighbours along `dim`, taken `times` times: each time shortens the
 * dim by 1. For bools, returns whether neighbours differ. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_diff_at(tsr_array *a, int times, int dim, const char *site);

/* ---- matrices -------------------------------------------------------------------------------- */

/* Returns the last two dims up to diagonal `k` (0: the main one, above 0 to its right), zeros
 * beyond. Error: TSR_EARG for fewer than two dims. Local. */
TSR_API tsr_array *tsr_tril_at(tsr_array *a, int64_t k, const char *site);
/* Returns the last two dims from diagonal `k` on, zeros before; see tsr_tril_at. Local. */
TSR_API tsr_array *tsr_triu_at(tsr_array *a, int64_t k, const char *site);
/* Returns diagonal `k` of a matrix; for an array of rank 1, the matrix that has it as diagonal `k`
 * and zeros elsewhere. Error: TSR_EARG for other ranks. Local. */
TSR_API tsr_array *tsr_diag_at(tsr_array *a, int64_t k, const char *site);
/* Returns a matrix of `shape` with ones on diagonal `k`, zeros elsewhere. Owned by the scope.
 * Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_eye_at(tsr_scope *scope, tsr_dtype dtype, tsr_shape shape, int64_t k,
                              tsr_sharding sharding, const char *site);

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Arguments of tsr_arange and tsr_linspace. */
typedef struct tsr_steps_args {
  size_t size;
  double start, stop;
  double step TSR_REST_BY_NAME;   /* arange: distance between neighbours; 0 is 1 */
  int64_t count TSR_REST_BY_NAME; /* linspace: number of elements */
  bool open;                      /* linspace: without `stop` */
  tsr_dtype dtype;                /* 0 = f64; integers are rounded down */
  tsr_sharding on;                /* the result's sharding; zero = unplaced */
} tsr_steps_args;

/* Returns start, start + step ... before stop: start + i * step, in f64. Integers are exact to
 * 2^53: use tsr_iota beyond. Owned by the scope. Errors: TSR_EARG, TSR_EDTYPE for bool. Local. */
TSR_API tsr_array *tsr_arange_at(tsr_scope *scope, const tsr_steps_args *args, const char *site);
/* Returns `count` numbers from start to stop, including stop unless `open`: start + i * step, in
 * f64, and stop itself at the end, as NumPy's linspace. Owned by the scope. Errors as tsr_arange.
 * Local. */
TSR_API tsr_array *tsr_linspace_at(tsr_scope *scope, const tsr_steps_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define tsr_reshape(a, shape) tsr_reshape_at((a), (shape), TSR_HERE)
#define tsr_ravel(a) tsr_ravel_at((a), TSR_HERE)
#define tsr_expand_dims(a, dims) tsr_expand_dims_at((a), (dims), TSR_HERE)
#define tsr_squeeze(a, dims) tsr_squeeze_at((a), (dims), TSR_HERE)
/* Along one dim: tsr_roll(a, 1, 0). */
#define tsr_roll(a, shift, dim) \
  tsr_roll_at((a), (const int64_t[]){ (shift) }, (const int[]){ (dim) }, 1, TSR_HERE)
#define tsr_atleast(a, rank) tsr_atleast_at((a), (rank), TSR_HERE)
#define tsr_moveaxis(a, from, to) tsr_moveaxis_at((a), (from), (to), TSR_HERE)
#define tsr_swapaxes(a, one, other) tsr_swapaxes_at((a), (one), (other), TSR_HERE)
#define tsr_rot90(a, times, first, second) tsr_rot90_at((a), (times), (first), (second), TSR_HERE)
/* Arguments are taken together where arrays may be compound literals. */
#define tsr_stack(...) tsr_stack_at(__VA_ARGS__, TSR_HERE)
#define tsr_split(a, count, dim, out) tsr_split_at((a), (count), (dim), (out), TSR_HERE)
/* tsr_tile(a, 2, 3) */
#define tsr_tile(a, ...)                             \
  tsr_tile_at((a), (const int64_t[]){ __VA_ARGS__ }, \
              (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), TSR_HERE)
#define tsr_repeat(a, times, dim) tsr_repeat_at((a), (times), (dim), TSR_HERE)
#define tsr_repeat_each(a, counts, total, dim) \
  tsr_repeat_each_at((a), (counts), (total), (dim), TSR_HERE)
#define tsr_broadcast_arrays(...) tsr_broadcast_arrays_at(__VA_ARGS__, TSR_HERE)
#define tsr_meshgrid(...) tsr_meshgrid_at(__VA_ARGS__, TSR_HERE)
/* tsr_pad_like(TSR_PAD_WRAP, x, .low = { 1 }) */
#define TSR_PAD_LIKE_(mode, array, ...)                                                       \
  tsr_pad_like_at(&(tsr_pad_args){ .size = sizeof(tsr_pad_args), .x = (array), __VA_ARGS__ }, \
                  (mode), TSR_HERE)
#define tsr_pad_like(...) TSR_NEEDS_2_("tsr_pad_like(mode, x)", TSR_PAD_LIKE_, __VA_ARGS__)
#define tsr_dynamic_slice(a, starts, sizes) tsr_dynamic_slice_at((a), (starts), (sizes), TSR_HERE)
#define tsr_dynamic_update_slice(a, update, starts) \
  tsr_dynamic_update_slice_at((a), (update), (starts), TSR_HERE)
#define tsr_diff(a, times, dim) tsr_diff_at((a), (times), (dim), TSR_HERE)
#define tsr_tril(a, k) tsr_tril_at((a), (k), TSR_HERE)
#define tsr_triu(a, k) tsr_triu_at((a), (k), TSR_HERE)
#define tsr_diag(a, k) tsr_diag_at((a), (k), TSR_HERE)
#define tsr_eye(scope, dtype, shape, k, sharding) \
  tsr_eye_at((scope), (dtype), (shape), (k), (sharding), TSR_HERE)
#define TSR_STEPS_(...) (&(tsr_steps_args){ .size = sizeof(tsr_steps_args), __VA_ARGS__ })
/* tsr_arange(s, .stop = 10), tsr_arange(s, 2, 10, 0.5) */
#define tsr_arange(scope, ...) tsr_arange_at((scope), TSR_STEPS_(__VA_ARGS__), TSR_HERE)
/* tsr_linspace(s, 0, 1, 5), tsr_linspace(s, 0, 1, 5, .open = true) */
#define TSR_LINSPACE_(scope, from, to, count_, ...)                  \
  tsr_linspace_at((scope),                                           \
                  &(tsr_steps_args){ .size = sizeof(tsr_steps_args), \
                                     .start = (from),                \
                                     .stop = (to),                   \
                                     .count = (count_),              \
                                     __VA_ARGS__ },                  \
                  TSR_HERE)
#define tsr_linspace(...) \
  TSR_NEEDS_4_("tsr_linspace(scope, from, to, count)", TSR_LINSPACE_, __VA_ARGS__)
#endif

#endif
