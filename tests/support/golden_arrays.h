/* Goldens of arrays: lines that the scripts of tests/golden write and tests compare.
 *
 *   op dim operand ... > result ...      an array is dtype:shape:bits, "f32:2x3:3f800000,0,..." */
#ifndef SUPPORT_GOLDEN_ARRAYS_H
#define SUPPORT_GOLDEN_ARRAYS_H

#include "tessera.h"

enum { GOLDEN_ARRAYS = 4 }; /* the most operands and results of a line */

/* Makes the results of an operation. */
typedef void golden_apply(const char *op, int dim, tsr_array *const *in, tsr_array **out);

/* Compares every bit of every line's results, but for what NaN is made of, on one device and over
 * the first dim of three. Returns how many lines there are. */
int golden_arrays_check(const char *file, golden_apply *apply);

/* The dtype of a name; fails where there is none. */
tsr_dtype golden_dtype(const char *name);

/* Dtype and shape of an array of the file, "f32:2x3:..."; returns where its elements stand. */
char *golden_type(char *text, tsr_dtype *dtype, tsr_shape *shape);

/* Compares the bits of the `count` elements of an array, but for what NaN is made of. */
void golden_check_bits(const char *what, tsr_scope *s, tsr_array *a, int64_t count,
                       const void *bits);

#endif
