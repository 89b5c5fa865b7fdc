/* Inside kernel/: products over indices. The caller names the indices of a product and the steps
 * between its elements; blocks, packing and workers are here.
 *
 *   out[batch, row, column] = the sum over depth of left[batch, row, depth]
 *                                                 * right[batch, depth, column]
 *
 * Each of the four is a list of indices, the last of them counting fastest, and an index has a step
 * in each array that has it. So a transposed operand is other steps, a diagonal the sum of two, and
 * a window two indices along one dim. */
#ifndef TSR_KERNEL_PRODUCT_H
#define TSR_KERNEL_PRODUCT_H

#include "kernel/routine/routine.h"

enum tsr__product_side { TSR__BATCH, TSR__ROWS, TSR__COLUMNS, TSR__DEPTH, TSR__SIDES };
enum { TSR__PRODUCT_INDICES = 2 * TSR_MAX_RANK };

/* Steps are in elements, 0 where the array does not have the index. */
typedef struct tsr__product_index {
  int64_t size, left, right, out;
} tsr__product_index;

typedef struct tsr__product_list {
  int count;
  int64_t size; /* product of the sizes of all indices */
  tsr__product_index at[TSR__PRODUCT_INDICES];
} tsr__product_list;

/* A device's part of a product. */
typedef struct tsr__product_part {
  const void *left, *right;
  void *out;
  /* The first part with the same operand in every byte, possibly this part: an operand that several
   * devices hold whole is packed once for all of them. */
  int left_as, right_as;
  bool turned; /* rows and columns have changed places */
  tsr__product_list list[TSR__SIDES];
} tsr__product_part;

typedef struct tsr__product_call {
  tsr_runtime *rt;
  const char *name;  /* the operation, for messages */
  bool adds;         /* the result is an addend: no products give -0, not 0 */
  int64_t leaf;      /* so many products are a chain, and chains a tree; 0: all are one chain */
  tsr_dtype in, out; /* in: dtype of both operands */
  int part_count;
  tsr__product_part *parts; /* rows and columns may change places */
} tsr__product_call;

void tsr__product_add(tsr__product_part *part, int side, tsr__product_index index);
tsr_status tsr__product_run(const tsr__product_call *call, tsr__error *error);

#endif
