/* Buffers, copies of boxes, rows by mask, instruction sets. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/device/staging.h"
#include "support/kernel_fixture.h"
#include "topology/topology.h"

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

/* ---- copies of boxes ---- */

static tsr__box_copy box_copy(tsr_dtype dtype, int rank, const int64_t *const from[2],
                              const int64_t *const to[2], const int64_t *size)
{
  return (tsr__box_copy){ dtype, rank, from[0], from[1], to[0], to[1], size, NULL, 0, NULL, false };
}

/* A random box of a random array goes to the device, on to another and back; every element is where
 * it should be and nothing else was touched. */
static void check_copy(kernel_fixture *k, test_rng *rng, tsr_dtype dtype)
{
  enum { MOST = 4096 };
  static unsigned char host[MOST * 8], back[MOST * 8];
  const tsr__device_ops *ops = tsr__devices_of(k->rt)->ops;
  int rank = (int)test_range(rng, 1, 3);
  int64_t a[3] = { 1, 1, 1 }, b[3], at_a[3], at_b[3], size[3], zero[3] = { 0 }, count = 1,
          moved = 1;
  for (int d = 0; d < rank; d++) {
    a[d] = test_range(rng, 1, rank == 1 ? 300 : 13);
    b[d] = a[d] + test_range(rng, 0, 3);
    size[d] = test_range(rng, 0, 3) ? a[d] : test_range(rng, 0, a[d]);
    at_a[d] = test_range(rng, 0, a[d] - size[d]);
    at_b[d] = test_range(rng, 0, b[d] - size[d]);
    count *= b[d];
    moved *= size[d];
  }
  size_t item = tsr_dtype_size(dtype);
  for (size_t i = 0; i < MOST * 8; i++)
    host[i] = dtype == TSR_BOOL ? test_random(rng) & 1 : (unsigned char)test_random(rng);
  tsr__traffic traffic = { 0 };
  tsr__buffer *one = ops->take(k->rt, 0, tsr__device_bytes(dtype, a[0] * a[1] * a[2]), &k->error);
  tsr__buffer *two = ops->take(k->rt, 1, tsr__device_bytes(dtype, count), &k->error);
  CHECK(one && two);
  memset(tsr__cpu_data(two), 0, two->bytes);
  tsr__box_copy in =
      box_copy(dtype, rank, (const int64_t *[]){ a, zero }, (const int64_t *[]){ a, zero }, a);
  ops->from_host(&in, host, one);
  tsr__box_copy over =
      box_copy(dtype, rank, (const int64_t *[]){ a, at_a }, (const int64_t *[]){ b, at_b }, size);
  ops->copy(&over, one, two, &traffic);
  CHECK_I64(traffic.bytes, dtype == TSR_BOOL ? (moved + 7) / 8 : moved * (int64_t)item);
  tsr__box_copy out =
      box_copy(dtype, rank, (const int64_t *[]){ b, zero }, (const int64_t *[]){ b, zero }, b);
  memset(back, 0xEE, sizeof back);
  ops->to_host(&out, two, back);
  for (int64_t i = 0, rest; i < count; i++) {
    int64_t from = 0, index[3];
    bool inside = true;
    rest = i;
    for (int d = rank - 1; d >= 0; d--) {
      index[d] = rest % b[d] - at_b[d];
      rest /= b[d];
      inside = inside && index[d] >= 0 && index[d] < size[d];
    }
    for (int d = 0; d < rank; d++) from = from * a[d] + at_a[d] + index[d];
    static const unsigned char nothing[8];
    CHECK_BYTES(back + (size_t)i * item, inside ? host + (size_t)from * item : nothing, item);
  }
  CHECK_U64(back[(size_t)count * item], 0xEE);
  tsr__buffer_release(one);
  tsr__buffer_release(two);
}

TEST(boxes_are_copied_and_counted)
{
  kernel_fixture k;
  test_rng rng = test_seeded(9);
  kernel_open(&k, 2, NULL, 1);
  for (int i = 0; i < 600; i++) check_copy(&k, &rng, fixture_dtype(i));
  kernel_close(&k);
}

/* ---- rows by mask ---- */

static void check_rows(kernel_fixture *k, test_rng *rng, tsr_dtype dtype, int64_t rows,
                       int64_t wide)
{
  const tsr__device_ops *ops = tsr__devices_of(k->rt)->ops;
  static unsigned char host[20000], flags[1000], found[20000], expected[20000];
  size_t item = tsr_dtype_size(dtype);
  int64_t kept = 0, first = test_range(rng, 0, rows);
  int density = (int)test_range(rng, 0, 4);
  for (size_t i = 0; i < sizeof host; i++)
    host[i] = dtype == TSR_BOOL ? test_random(rng) & 1 : (unsigned char)test_random(rng);
  for (int64_t r = 0; r < rows; r++) {
    flags[r] = density == 4 || test_range(rng, 0, 3) < density;
    if (flags[r])
      memcpy(expected + (size_t)(kept++ * wide) * item, host + (size_t)(r * wide) * item,
             (size_t)wide * item);
  }
  int64_t dims[2] = { rows, wide }, zero[2] = { 0 }, out_dims[2] = { kept, wide };
  tsr__buffer *mask = ops->take(k->rt, 0, tsr__device_bytes(TSR_BOOL, rows), &k->error);
  tsr__buffer *from = ops->take(k->rt, 0, tsr__device_bytes(dtype, rows * wide), &k->error);
  tsr__buffer *to = ops->take(k->rt, 0, tsr__device_bytes(dtype, kept * wide), &k->error);
  tsr__buffer *some = ops->take(k->rt, 0, tsr__device_bytes(TSR_BOOL, rows), &k->error);
  memset(tsr__cpu_data(mask), 0xFF, mask->bytes); /* bits after the last row are undefined */
  tsr__box_copy one = { TSR_BOOL, 1, dims, zero, dims, zero, dims, NULL, 0, NULL, false };
  tsr__box_copy all = { dtype, 2, dims, zero, dims, zero, dims, NULL, 0, NULL, false };
  tsr__box_copy out = { dtype, 2, out_dims, zero, out_dims, zero, out_dims, NULL, 0, NULL, false };
  ops->from_host(&one, flags, mask);
  ops->from_host(&all, host, from);
  CHECK_I64(ops->mask_count(mask, rows), kept);
  ops->compact(&(tsr__compact){ dtype, wide, rows, mask, from, to, NULL, 0 });
  ops->to_host(&out, to, found);
  CHECK_BYTES(found, expected, (size_t)(kept * wide) * item);
  ops->mask_first(mask, rows, first, some);
  CHECK_I64(ops->mask_count(some, rows), kept < first ? kept : first);
  ops->to_host(&one, some, found);
  for (int64_t r = 0, seen = 0; r < rows; r++) {
    seen += flags[r];
    CHECK_I64(found[r], flags[r] && seen <= first);
  }
  tsr__buffer_release(mask);
  tsr__buffer_release(from);
  tsr__buffer_release(to);
  tsr__buffer_release(some);
}

TEST(rows_are_counted_and_moved_together)
{
  kernel_fixture k;
  test_rng rng = test_seeded(10);
  kernel_open(&k, 1, NULL, 1);
  for (int64_t rows = 0; rows < 300; rows++)
    check_rows(&k, &rng, fixture_dtype(rows), rows, 1 + rows % 3);
  kernel_close(&k);
}

/* ---- buffers and instruction sets ---- */

static void count_release(void *data, void *user)
{
  (void)data;
  ++*(int *)user;
}

TEST(lent_memory_is_given_back_once)
{
  kernel_fixture k;
  int released = 0;
  double data[4];
  kernel_open(&k, 1, NULL, 1);
  tsr__buffer *buffer = tsr__devices_of(k.rt)->ops->adopt(
      k.rt, 0, &(tsr__foreign){ data, sizeof data, count_release, &released });
  tsr__buffer_hold(buffer);
  tsr__buffer_release(buffer);
  CHECK_I64(released, 0);
  tsr__buffer_release(buffer);
  CHECK_I64(released, 1);
  tsr__buffer_release(NULL);
  kernel_close(&k);
}

static void *no_staging(tsr__buffer *buffer, bool keeps, tsr__error *error)
{
  (void)buffer, (void)keeps;
  tsr__error_set(error, TSR_ENOMEM, "no staging");
  return NULL;
}

/* CPU devices copy nothing, and a staging buffer that was closed stays closed. */
TEST(staging_is_the_buffers_own_memory)
{
  kernel_fixture k;
  tsr__staging staging;
  kernel_open(&k, 1, NULL, 1);
  const tsr__device_ops *ops = tsr__devices_of(k.rt)->ops;
  tsr__buffer *buffer = ops->take(k.rt, 0, 800, &k.error);
  CHECK_I64(tsr__staging_open(buffer, &staging, &k.error), TSR_OK);
  CHECK(staging.buffer == buffer && staging.memory == tsr__cpu_data(buffer));
  memset(staging.memory, 7, 800);
  tsr__staging_give(&staging);
  CHECK(!staging.buffer && !staging.memory);
  tsr__staging_give(&staging);
  tsr__staging_drop(&staging);
  CHECK_I64(tsr__staging_reopen(buffer, &staging, &k.error), TSR_OK);
  CHECK_I64(((const char *)staging.memory)[799], 7);
  tsr__staging_drop(&staging);
  CHECK_I64(tsr__staging_open(NULL, &staging, &k.error), TSR_OK);
  CHECK(!staging.buffer && !staging.memory);
  tsr__device_ops without = *ops;
  without.staging_open = no_staging;
  buffer->ops = &without;
  CHECK_I64(tsr__staging_open(buffer, &staging, &k.error), TSR_ENOMEM);
  CHECK(!staging.buffer && !staging.memory);
  CHECK_I64(tsr__staging_reopen(buffer, &staging, &k.error), TSR_ENOMEM);
  buffer->ops = ops;
  tsr__buffer_release(buffer);
  kernel_close(&k);
}

TEST(past_the_limit_is_an_error_that_says_so)
{
  tsr_runtime_opts opts = { .size = sizeof opts, .memory_limit = 1 << 20 };
  tsr_runtime *rt = tsr__runtime_new(&opts);
  tsr__error error = { .status = TSR_OK };
  CHECK_STATUS(tsr__topology_install(rt, "cpu:1"), TSR_OK, NULL);
  CHECK_STATUS(tsr__devices_install(rt), TSR_OK, NULL);
  CHECK(!tsr__devices_of(rt)->ops->take(rt, 0, 2 << 20, &error));
  CHECK_STATUS(error.status, TSR_ENOMEM, NULL);
  CHECK_STR_HAS(error.text, ".memory_limit");
  tsr_runtime_close(rt);
}

TEST(an_unknown_instruction_set_is_an_error)
{
  tsr_runtime_opts opts = { .size = sizeof opts, .isa = "mmx" };
  tsr_runtime *rt = tsr__runtime_new(&opts);
  CHECK_STATUS(tsr__topology_install(rt, "cpu:1"), TSR_OK, NULL);
  CHECK_STATUS(tsr__devices_install(rt), TSR_EARG, NULL);
  CHECK_STR_HAS(tsr_runtime_message(rt), "'mmx', expected baseline, avx2 or avx512");
  tsr_runtime_close(rt);
}

TEST(an_index_out_of_range_names_the_first_place)
{
  double table[5] = { 0 };
  int64_t index[10] = { 0, 1, -5, 4, 2, 3, 9, 1, -6, 0 };
  for (int devices = 1; devices <= 5; devices += 4) {
    kernel_fixture k;
    kernel_open(&k, devices, NULL, 1);
    int t = kernel_leaf(&k, TSR_F64, TSR_SHAPE(5), false, table);
    int i = kernel_leaf(&k, TSR_I64, TSR_SHAPE(10), true, index);
    kernel_root(&k, kernel_op(&k, TSR__OP_TAKE, t, i, -1));
    CHECK_STATUS(kernel_run(&k), TSR_EVALUE, NULL);
    CHECK_STR_HAS(k.error.text, "index 9 at position 6");
    CHECK_STR_HAS(k.error.text, "expected -5 to 4");
    kernel_close(&k);
  }
}

TEST(take_along_any_dim)
{
  static const int64_t shape[3] = { 4, 6, 5 };
  double table[120], out[4 * 6 * 5 * 6];
  int64_t index[6] = { 3, 0, -1, 2, 1, 1 };
  for (int i = 0; i < 120; i++) table[i] = i;
  for (int dim = 1; dim < 3; dim++)
    for (int devices = 1; devices <= 4; devices += 3)
      for (int rank = 0; rank < 3; rank++) {
        kernel_fixture k;
        tsr_shape at = rank == 0 ? TSR_SCALAR : rank == 1 ? TSR_SHAPE(6) : TSR_SHAPE(2, 3);
        int count = rank ? 6 : 1;
        kernel_open(&k, devices, NULL, 1);
        int t = kernel_leaf(&k, TSR_F64, TSR_SHAPE(4, 6, 5), true, table);
        int i = kernel_leaf(&k, TSR_I64, at, false, index);
        int y = kernel_node(&k, TSR__OP_TAKE, TSR__LINKS(t, i),
                            &(tsr__ask){ TSR__ATTR(tsr__span_attr, .dim = dim) }, true);
        kernel_root(&k, y);
        CHECK_STATUS(kernel_run(&k), TSR_OK, NULL);
        kernel_read(&k, y, out);
        int64_t inner = dim == 1 ? shape[2] : 1, outer = dim == 1 ? 4 : 24, place = 0;
        for (int64_t a = 0; a < outer; a++)
          for (int c = 0; c < count; c++)
            for (int64_t b = 0; b < inner; b++) {
              int64_t entry = index[c] < 0 ? index[c] + shape[dim] : index[c];
              CHECK_F64_BITS(out[place++], table[(a * shape[dim] + entry) * inner + b]);
            }
        kernel_close(&k);
      }
}
