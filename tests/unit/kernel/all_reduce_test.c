/* Partials that meet: what travels is what explain says, empty parts, errors, escapes. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "support/kernel_fixture.h"

/* What the notes of partition/ are made of: (members - 1) * (partials + result). */
static int64_t said(const kernel_fixture *k, const int *finals, int count)
{
  int64_t bytes = 0;
  for (int a = 0; a < k->schedule.accum_count; a++) {
    const tsr__accum *accum = &k->schedule.accums[a];
    const tsr__gnode *g = &k->program.nodes[accum->node];
    tsr_shape shape = tsr__gnode_shape(g);
    bytes += tsr__accum_bytes(accum, tsr__shape_count(&shape));
  }
  for (int f = 0; f < count; f++) {
    const tsr__gnode *g = &k->program.nodes[finals[f]];
    tsr_shape shape = tsr__gnode_shape(g);
    int64_t elements = tsr__shape_count(&shape);
    bytes += g->dtype == TSR_BOOL ? (elements + 7) / 8
                                  : elements * (int64_t)tsr_dtype_size((tsr_dtype)g->dtype);
  }
  return bytes * (k->positions - 1);
}

TEST(counted_bytes_are_the_wire_bytes)
{
  static const tsr__op ops[] = { TSR__OP_SUM,  TSR__OP_MEAN,  TSR__OP_VAR,    TSR__OP_STD,
                                 TSR__OP_PROD, TSR__OP_MIN,   TSR__OP_MAX,    TSR__OP_ANY,
                                 TSR__OP_ALL,  TSR__OP_COUNT, TSR__OP_ARGMIN, TSR__OP_ARGMAX };
  static char data[60 * 8 + 8];
  TSR__FOR_DTYPES(dtype)
  for (int o = 0; o < 12; o++)
    for (int shape = 0; shape < 2; shape++)
      for (int devices = 2; devices <= 8; devices += 3) {
        bool wants_bool = o >= 7 && o < 10,
             number = dtype == TSR_I64 || dtype == TSR_F32 || dtype == TSR_F64;
        bool extreme = o == 5 || o == 6 || o >= 10;
        if (wants_bool ? dtype != TSR_BOOL : !number && !(extreme && dtype == TSR_I32)) continue;
        kernel_fixture k;
        kernel_open(&k, devices, NULL, 1);
        int x = kernel_leaf(&k, (tsr_dtype)dtype, TSR_SHAPE(12, 5), true, data);
        tsr__ask ask = { .dtype = o == 9 ? TSR_I64 : 0,
                         TSR__ATTR(tsr__reduce_attr, .dims = shape ? 1 : 3) };
        int r = kernel_node(&k, ops[o], TSR__LINKS(x), &ask, true);
        kernel_root(&k, r);
        CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
        CHECK_I64(k.traffic.bytes, said(&k, &r, 1));
        CHECK_I64(k.traffic.escapes, 0);
        kernel_close(&k);
      }
}

TEST(one_device_sends_nothing)
{
  double x[10] = { 1, 2, 3 };
  kernel_fixture k;
  kernel_open(&k, 1, NULL, 1);
  int sum = kernel_op(&k, TSR__OP_SUM, kernel_leaf(&k, TSR_F64, TSR_SHAPE(10), false, x), -1, -1);
  kernel_root(&k, sum);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  CHECK_I64(k.traffic.bytes, 0);
  kernel_close(&k);
}

/* Values 600 orders of magnitude apart do not fit three doubles; what escapes is counted apart. */
TEST(escapes_travel_and_are_counted)
{
  double x[16][2], y[2];
  kernel_fixture k;
  kernel_open(&k, 4, NULL, 1);
  for (int i = 0; i < 16; i++) {
    const double far[4] = { 1e300, 1, 1e-150, 1e-300 };
    x[i][0] = i < 8 ? far[i % 4] : -far[i % 4];
    x[i][1] = i;
  }
  x[15][0] = 3;
  int leaf = kernel_leaf(&k, TSR_F64, TSR_SHAPE(16, 2), true, x);
  int sum = kernel_node(&k, TSR__OP_SUM, TSR__LINKS(leaf),
                        &(tsr__ask){ TSR__ATTR(tsr__reduce_attr, .dims = 1) }, true);
  kernel_root(&k, sum);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  kernel_read(&k, sum, y);
  CHECK_F64_BITS(y[0], 3);
  CHECK_F64_BITS(y[1], 120);
  CHECK(k.traffic.escapes > 0);
  CHECK_I64(k.traffic.bytes - k.traffic.escapes, said(&k, &sum, 1));
  kernel_close(&k);
}

TEST(more_devices_than_rows)
{
  double x[3] = { 5, -1, 2.5 }, sum, least;
  kernel_fixture k;
  kernel_open(&k, 8, NULL, 2);
  int leaf = kernel_leaf(&k, TSR_F64, TSR_SHAPE(3), true, x);
  int s = kernel_op(&k, TSR__OP_SUM, leaf, -1, -1), m = kernel_op(&k, TSR__OP_MIN, leaf, -1, -1);
  kernel_root(&k, s);
  kernel_root(&k, m);
  CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
  kernel_read(&k, s, &sum);
  kernel_read(&k, m, &least);
  CHECK_F64_BITS(sum, 6.5);
  CHECK_F64_BITS(least, -1);
  kernel_close(&k);
}

TEST(no_rows_at_all)
{
  static const tsr__op ops[] = { TSR__OP_SUM, TSR__OP_MEAN, TSR__OP_VAR, TSR__OP_PROD };
  static const double expected[] = { 0, NAN, NAN, 1 };
  for (int o = 0; o < 4; o++)
    for (int devices = 1; devices <= 3; devices += 2) {
      double x = 7;
      kernel_fixture k;
      kernel_open(&k, devices, NULL, 1);
      int r = kernel_op(&k, ops[o], kernel_leaf(&k, TSR_F64, TSR_SHAPE(0), true, &x), -1, -1);
      kernel_root(&k, r);
      CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
      kernel_read(&k, r, &x);
      CHECK_F64_BITS(x, expected[o]);
      kernel_close(&k);
    }
}

TEST(a_checked_sum_past_i64_is_an_error)
{
  int64_t x[2] = { INT64_MAX, INT64_MAX }, wrapped;
  for (int checked = 0; checked < 2; checked++) {
    kernel_fixture k;
    kernel_open(&k, 2, NULL, 1);
    int leaf = kernel_leaf(&k, TSR_I64, TSR_SHAPE(2), true, x);
    int sum = kernel_node(
        &k, TSR__OP_SUM, TSR__LINKS(leaf),
        &(tsr__ask){ TSR__ATTR(tsr__reduce_attr, .dims = 1, .checked = (uint16_t)checked) }, true);
    kernel_root(&k, sum);
    CHECK_STATUS(kernel_run(&k), checked ? TSR_EVALUE : TSR_OK, NULL);
    if (checked) {
      CHECK_STR_HAS(k.error.text, "does not fit i64");
    } else {
      kernel_read(&k, sum, &wrapped);
      CHECK_I64(wrapped, -2);
    }
    kernel_close(&k);
  }
}

/* Infinities and NaN in every part, signed zeros alone. */
TEST(specials_meet)
{
  const double inf = INFINITY;
  const double in[5][4] = { { inf, 1, inf, 2 },
                            { inf, 1, -inf, 2 },
                            { NAN, 1, 2, 3 },
                            { -0.0, -0.0, -0.0, -0.0 },
                            { -0.0, 0.0, -0.0, -0.0 } };
  const double sums[5] = { inf, NAN, NAN, -0.0, 0.0 };
  const double mins[5] = { 1, -inf, NAN, -0.0, -0.0 }, maxs[5] = { inf, inf, NAN, -0.0, 0.0 };
  for (int i = 0; i < 5; i++)
    for (int devices = 1; devices <= 4; devices++) {
      double found[3];
      kernel_fixture k;
      kernel_open(&k, devices, NULL, 1);
      int leaf = kernel_leaf(&k, TSR_F64, TSR_SHAPE(4), true, in[i]);
      int r[3] = { kernel_op(&k, TSR__OP_SUM, leaf, -1, -1),
                   kernel_op(&k, TSR__OP_MIN, leaf, -1, -1),
                   kernel_op(&k, TSR__OP_MAX, leaf, -1, -1) };
      for (int j = 0; j < 3; j++) kernel_root(&k, r[j]);
      CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
      for (int j = 0; j < 3; j++) kernel_read(&k, r[j], &found[j]);
      CHECK_F64_BITS(found[0], sums[i]);
      CHECK_F64_BITS(found[1], mins[i]);
      CHECK_F64_BITS(found[2], maxs[i]);
      kernel_close(&k);
    }
}
