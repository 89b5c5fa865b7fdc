/* Arrays in other shapes and orders, and made of several: what NumPy has around its views. All are
 * views of array.h (slice, transpose, flip, pad, concat ...) or made of them: they cost nothing
 * until something reads them, and that reads them in place. */
#ifndef TESSERA_SHAPE_H
#define TESSERA_SHAPE_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- other shapes ---------------------------------------------------------------------------- */

/* The elements of `a`, in C order, in another shape of as many; one dim may be -1: what the others
 * leave. Dims that are split or merged stay cut where the major one of each is; where another one
 * is, or borders do not meet (an uneven size), elements move, as tsr_explain says. Errors:
 * TSR_ESHAPE, TSR_EUNSUPPORTED for rows whose number is known only at run time. Returns an array
 * owned as results are. Local. */
TSR_API tsr_array *tsr_reshape_at(tsr_array *a, tsr_shape shape, const char *site);
/* The elements of `a` along one dim, as by tsr_reshape. Local. */
TSR_API tsr_array *tsr_ravel_at(tsr_array *a, const char *site);
/* `a` with dims of size 1, which are `dims` of the result: TSR_DIMS(0, -1). Error: TSR_EARG for a
 * dim that the result has not or too many of them. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_expand_dims_at(tsr_array *a, tsr_dims dims, const char *site);
/* `a` without `dims`, which must have size 1; none named: without all that have. Errors: TSR_EARG,
 * TSR_ESHAPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_squeeze_at(tsr_array *a, tsr_dims dims, const char *site);
/* `a` with at least `rank` dims, 1 to 3, as NumPy's atleast_1d, _2d, _3d: [n] becomes [1,n] and
 * [1,n,1], [m,n] becomes [m,n,1]. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_atleast_at(tsr_array *a, int rank, const char *site);

/* ---- other orders ---------------------------------------------------------------------------- */

/* The elements shifted by `shifts[i]` along `dims[i]`, for each of `count`; what leaves the end
 * comes in at the start. A dim may be named several times; negative ones count from the end.
 * Error: TSR_EARG. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_roll_at(tsr_array *a, const int64_t *shifts, const int *dims, int count,
                               const char *site);
/* Dim `from` moved to place `to`, the others in their order. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_moveaxis_at(tsr_array *a, int from, int to, const char *site);
/* Dims `one` and `other` in each other's place. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_swapaxes_at(tsr_array *a, int one, int other, const char *site);
/* Turned by `times` quarters in the plane of dims `first` and `second`, from the first towards the
 * second. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_rot90_at(tsr_array *a, int64_t times, int first, int second,
                                const char *site);

/* ---- one of several, several of one ---------------------------------------------------------- */

/* Arrays of one shape along a new dim, `dim` of the result (negative: from its end); dtypes meet as
 * in arithmetic. Errors: TSR_EARG, TSR_ESHAPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_stack_at(tsr_array *const *arrays, int count, int dim, const char *site);
/* Cuts `a` along `dim` into `count` parts whose sizes differ by 1 at most, larger ones first, and
 * writes them to `out`, which has room for them. Error: TSR_EARG: then they are inert. Local. */
TSR_API void tsr_split_at(tsr_array *a, int count, int dim, tsr_array **out, const char *site);
/* The array `times[i]` times along each of the last `count` dims; where that are more than it has,
 * it gets new ones in front. Errors: TSR_EARG, TSR_ESHAPE. Local. */
TSR_API tsr_array *tsr_tile_at(tsr_array *a, const int64_t *times, int count, const char *site);
/* Each element along `dim` so many times, one behind the other. Errors: TSR_EARG, TSR_ESHAPE.
 * Local. */
TSR_API tsr_array *tsr_repeat_at(tsr_array *a, int64_t times, int dim, const char *site);
/* Each element along `dim` as often as `counts`, integers of rank 1, say: `total` in all. Where
 * they sum to less the last element goes on, where to more they are cut. Errors: TSR_EARG,
 * TSR_ESHAPE, TSR_EDTYPE. Local. */
TSR_API tsr_array *tsr_repeat_each_at(tsr_array *a, tsr_array *counts, int64_t total, int dim,
                                      const char *site);
/* Each of `count` arrays broadcast to the shape that all have in arithmetic, to `out`, which may be
 * `arrays`. Error: TSR_ESHAPE: then they are inert. Local. */
TSR_API void tsr_broadcast_arrays_at(tsr_array *const *arrays, int count, tsr_array **out,
                                     const char *site);
/* Of `count` arrays of rank 1 the coordinates of their grid, an array of rank `count` each, to
 * `out`: that of array i counts along dim i. `swapped`: the first two dims are in each other's
 * place (NumPy's "xy"). Errors: TSR_EARG, TSR_ESHAPE: then they are inert. Local. */
TSR_API void tsr_meshgrid_at(tsr_array *const *arrays, int count, bool swapped, tsr_array **out,
                             const char *site);

/* ---- at places that arrays say --------------------------------------------------------------- */

/* The box of `sizes`, one for each dim, from `starts` on: integers of rank 1, one for each dim. A
 * start below 0 counts from the end; then it is moved to where all of the box lies inside, as JAX
 * does. Errors: TSR_EARG, TSR_ESHAPE, TSR_EDTYPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_dynamic_slice_at(tsr_array *a, tsr_array *starts, tsr_shape sizes,
                                        const char *site);
/* `a` with `update`, of as many dims and no larger, written over it from `starts` on, which are as
 * tsr_dynamic_slice's; dtypes meet as in arithmetic. What of `a` is cut stays so and no element of
 * it moves. Errors: TSR_ESHAPE, TSR_EDTYPE. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_dynamic_update_slice_at(tsr_array *a, tsr_array *update, tsr_array *starts,
                                               const char *site);

/* ---- borders and differences ----------------------------------------------------------------- */

/* What stands around a padded array, for x = 1 2 3. */
typedef enum tsr_pad_mode {
  TSR_PAD_EDGE = 1,  /* 1 1 |1 2 3| 3 3 */
  TSR_PAD_WRAP,      /* 2 3 |1 2 3| 1 2 */
  TSR_PAD_REFLECT,   /* 3 2 |1 2 3| 2 1 */
  TSR_PAD_SYMMETRIC, /* 2 1 |1 2 3| 3 2 */
} tsr_pad_mode;

/* As tsr_pad, with elements of `x` around it; `.value` is not looked at. Errors as tsr_pad's,
 * TSR_EARG for borders below 0 or an interior, and TSR_ESHAPE for borders of a dim without
 * elements. Local. */
TSR_API tsr_array *tsr_pad_like_at(const tsr_pad_args *args, tsr_pad_mode mode, const char *site);
/* The differences of neighbours along `dim`, taken `times` times: each makes the dim shorter by 1;
 * of bools whether they differ. Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_diff_at(tsr_array *a, int times, int dim, const char *site);

/* ---- matrices -------------------------------------------------------------------------------- */

/* The last two dims up to diagonal `k` (0: the main one, above 0 to its right), zeros beyond.
 * Error: TSR_EARG for less than two dims. Local. */
TSR_API tsr_array *tsr_tril_at(tsr_array *a, int64_t k, const char *site);
/* The last two dims from diagonal `k` on; see tsr_tril_at. Local. */
TSR_API tsr_array *tsr_triu_at(tsr_array *a, int64_t k, const char *site);
/* Of a matrix its diagonal `k`; of an array of rank 1 the matrix that has it there and zeros
 * elsewhere. Error: TSR_EARG for other ranks. Local. */
TSR_API tsr_array *tsr_diag_at(tsr_array *a, int64_t k, const char *site);
/* Ones on diagonal `k` of a matrix of `shape`, zeros elsewhere. Returns it owned by the scope.
 * Error: TSR_EARG. Local. */
TSR_API tsr_array *tsr_eye_at(tsr_scope *scope, tsr_dtype dtype, tsr_shape shape, int64_t k,
                              tsr_sharding sharding, const char *site);

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Numbers in even steps. */
typedef struct tsr_steps_args {
  size_t size;
  double start, stop;
  double step TSR_REST_BY_NAME;   /* arange: from one to the next; 0 is 1 */
  int64_t count TSR_REST_BY_NAME; /* linspace: how many */
  bool open;                      /* linspace: without `stop` */
  tsr_dtype dtype;                /* 0 = f64; of integers: rounded down */
  tsr_sharding on;                /* where it lies; zero = unplaced */
} tsr_steps_args;

/* start, start + step ... before stop: start + i * step, in f64. Integers are exact to 2^53: see
 * tsr_iota beyond. Returns it owned by the scope. Errors: TSR_EARG, TSR_EDTYPE for bool. Local. */
TSR_API tsr_array *tsr_arange_at(tsr_scope *scope, const tsr_steps_args *args, const char *site);
/* `count` numbers from start to stop, that one too unless `open`: start + i * step, in f64, and at
 * the end stop itself, as NumPy's. Returns it owned by the scope. Errors as tsr_arange. Local. */
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
