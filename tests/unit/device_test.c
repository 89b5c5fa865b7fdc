/* Buffers, copies of boxes, rows by mask, instruction sets. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "support/kernel_fixture.h"

/* The smallest whole path: x * 2 + 1 summed on one device. */
TEST(one_kernel_and_its_sum)
{
  kernel_fixture k;
  double x[1000], sum, expected = 0;
  for (int i = 0; i < 1000; i++) {
    x[i] = i;
    expected += 2 * x[i] + 1;
  }
  kernel_open(&k, 1, NULL, 1);
  int leaf = kernel_leaf(&k, TSR_F64, TSR_SHAPE(1000), false, x);
  int twice = kernel_op(&k, TSR__OP_MUL, leaf, kernel_number(&k, TSR_F64, 2), -1);
  int plus = kernel_op(&k, TSR__OP_ADD, twice, kernel_number(&k, TSR_F64, 1), -1);
  int total = kernel_op(&k, TSR__OP_SUM, plus, -1, -1);
  kernel_root(&k, total);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  kernel_read(&k, total, &sum);
  CHECK_F64_BITS(sum, expected);
  CHECK_I64(k.kernels, 1);
  kernel_close(&k);
}
