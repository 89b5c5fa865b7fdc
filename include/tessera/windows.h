/* Windows over arrays: convolutions, pooling, reductions of every window.
 *
 * Windows start at every `stride`-th element where the whole window is inside the padded array. */
#ifndef TESSERA_WINDOWS_H
#define TESSERA_WINDOWS_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of tsr_conv, per spatial dim; 0 is 1 (0 for borders). tsr_conv(x, kernel, .stride = {
 * 2, 2 }) */
typedef struct tsr_conv_args {
  size_t size;
  tsr_array *x; /* [batch, 1 to 3 spatial dims, channels] */
  /* [the same spatial dims, channels / groups, channels of the result] */
  tsr_array *kernel TSR_REST_BY_NAME;
  int64_t stride[3];
  int64_t low[3], high[3];   /* zeros before and after each spatial dim */
  bool same;                 /* as many border zeros as give ceil(size / stride), the odd one
                              * after */
  int64_t dilation[3];       /* distance between elements of a window */
  int64_t input_dilation[3]; /* distance between elements of x, with zeros between them */
  int64_t groups;            /* number of groups of channels, each with its part of the kernel's */
  tsr_dtype dtype;           /* operands are converted to it; 0: the dtype that both promote to */
  bool reproducible;         /* as in tsr_product_args */
} tsr_conv_args;

/* Returns the sums of products in every window, [batch, windows, channels of the kernel]; the
 * kernel is not flipped. Rounding as in matrix products. Errors: TSR_ESHAPE, TSR_EARG, TSR_EDTYPE.
 * Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_conv_at(const tsr_conv_args *args, const char *site);

/* The reduction of a window. */
typedef enum tsr_window_op {
  TSR_WINDOW_SUM,
  TSR_WINDOW_MAX,
  TSR_WINDOW_MIN,
  TSR_WINDOW_PROD
} tsr_window_op;

/* Arguments of tsr_reduce_window, per dim of `x`; 0 is 1 (0 for borders). Border elements change no
 * result. */
typedef struct tsr_window_args {
  size_t size;
  tsr_array *x;
  tsr_window_op op TSR_REST_BY_NAME;
  int64_t window[TSR_MAX_RANK], stride[TSR_MAX_RANK];
  int64_t low[TSR_MAX_RANK], high[TSR_MAX_RANK]; /* border elements of each dim */
  int64_t dilation[TSR_MAX_RANK];                /* distance between elements of a window */
} tsr_window_args;

/* Returns the sum, largest, smallest or product of every window, in the dtype of `x`; floats are
 * added and multiplied in f64 in an order that depends only on the window's size
 * (docs/NUMERICS.md). Errors: TSR_ESHAPE, TSR_EARG. Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_reduce_window_at(const tsr_window_args *args, const char *site);

/* Arguments of pooling, per spatial dim of [batch, 1 to 3 spatial dims, channels]; a stride of 0 is
 * the window. */
typedef struct tsr_pool_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  int64_t window[3], stride[3], low[3], high[3];
  bool inside; /* avg_pool: divides by the number of elements inside x, not by the window's size */
} tsr_pool_args;

/* Returns the largest element of every window. Errors: TSR_ESHAPE, TSR_EARG. Returns an array owned
 * as results are. Local. */
TSR_API tsr_array *tsr_max_pool_at(const tsr_pool_args *args, const char *site);

/* Returns the mean of every window, with borders as zeros; integers become f64. Errors: TSR_ESHAPE,
 * TSR_EARG. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_avg_pool_at(const tsr_pool_args *args, const char *site);

#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#define TSR_CONV_(x_, kernel_, ...) \
  (&(tsr_conv_args){ .size = sizeof(tsr_conv_args), .x = (x_), .kernel = (kernel_), __VA_ARGS__ })
#define tsr_conv(...) \
  tsr_conv_at(TSR_NEEDS_2_("tsr_conv(x, kernel)", TSR_CONV_, __VA_ARGS__), TSR_HERE)
/* tsr_reduce_window(x, TSR_WINDOW_MAX, .window = { 1, 3 }) */
#define TSR_WINDOW_(array, ...) \
  (&(tsr_window_args){ .size = sizeof(tsr_window_args), .x = (array), __VA_ARGS__ })
#define tsr_reduce_window(...) tsr_reduce_window_at(TSR_WINDOW_(__VA_ARGS__, ), TSR_HERE)
#define TSR_POOL_(array, ...) \
  (&(tsr_pool_args){ .size = sizeof(tsr_pool_args), .x = (array), __VA_ARGS__ })
#define tsr_max_pool(...) tsr_max_pool_at(TSR_POOL_(__VA_ARGS__, ), TSR_HERE)
#define tsr_avg_pool(...) tsr_avg_pool_at(TSR_POOL_(__VA_ARGS__, ), TSR_HERE)
#endif

#endif
