/* Windows over arrays: convolutions, pooling, reductions of every window.
 *
 * A window lies at every `stride`-th place where all of it is inside the padded array. */
#ifndef TESSERA_WINDOWS_H
#define TESSERA_WINDOWS_H

#include "array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A convolution; by spatial dim, 0 is 1 (of borders 0). tsr_conv(x, kernel, .stride = { 2, 2 }) */
typedef struct tsr_conv_args {
  size_t size;
  tsr_array *x; /* [batch, 1 to 3 spatial dims, channels] */
  /* [the same spatial dims, channels / groups, channels of the result] */
  tsr_array *kernel TSR_REST_BY_NAME;
  int64_t stride[3];
  int64_t low[3], high[3];   /* zeros before and after each spatial dim */
  bool same;                 /* as many zeros as give ceil(size / stride), the odd one after */
  int64_t dilation[3];       /* steps between elements of a window */
  int64_t input_dilation[3]; /* x with so many - 1 zeros between its elements */
  int64_t groups;            /* channels in so many groups, each with its part of the kernel's */
  tsr_dtype dtype;           /* operands are converted to it; 0: what both promote to */
  bool reproducible;         /* as in tsr_product_args */
} tsr_conv_args;

/* Sums of products in every window, the kernel as it lies (not flipped): [batch, windows, channels
 * of the kernel]. Numbers as those of products. Errors: TSR_ESHAPE, TSR_EARG, TSR_EDTYPE. Returns
 * an array owned as results are. Local. */
TSR_API tsr_array *tsr_conv_at(const tsr_conv_args *args, const char *site);

/* What is kept of a window. */
typedef enum tsr_window_op {
  TSR_WINDOW_SUM,
  TSR_WINDOW_MAX,
  TSR_WINDOW_MIN,
  TSR_WINDOW_PROD
} tsr_window_op;

/* Windows by dims of `x`; 0 is 1 (of borders 0). What stands in borders changes no result. */
typedef struct tsr_window_args {
  size_t size;
  tsr_array *x;
  tsr_window_op op TSR_REST_BY_NAME;
  int64_t window[TSR_MAX_RANK], stride[TSR_MAX_RANK];
  int64_t low[TSR_MAX_RANK], high[TSR_MAX_RANK]; /* elements around each dim that do not count */
  int64_t dilation[TSR_MAX_RANK];                /* steps between elements of a window */
} tsr_window_args;

/* The sum, largest, smallest or product of every window, in the dtype of `x`; floats are added and
 * multiplied in f64 in an order that the window's size gives (docs/NUMERICS.md). Errors:
 * TSR_ESHAPE, TSR_EARG. Returns an array owned as results are. Local. */
TSR_API tsr_array *tsr_reduce_window_at(const tsr_window_args *args, const char *site);

/* Pooling by spatial dim of [batch, 1 to 3 spatial dims, channels]; a stride of 0 is the window. */
typedef struct tsr_pool_args {
  size_t size;
  tsr_array *x TSR_REST_BY_NAME;
  int64_t window[3], stride[3], low[3], high[3];
  bool inside; /* avg_pool: divide by how many elements are inside, not by the window's size */
} tsr_pool_args;

/* The largest of every window. Errors: TSR_ESHAPE, TSR_EARG. Returns an array owned as results are.
 * Local. */
TSR_API tsr_array *tsr_max_pool_at(const tsr_pool_args *args, const char *site);

/* The mean of every window, borders counting as zeros; of integers f64. Errors: TSR_ESHAPE,
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
