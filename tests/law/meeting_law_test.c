/* The law of sums that meet with one element a device: as they are added at once and rounded, the
 * bits are those of one device, which adds by accumulators, and what is counted was explained.
 * Runs at each ISA. Guards the devices. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/law_fixture.h"
#include "support/topology_fixture.h"

enum { WIDE = 1500, MEMBERS = 8 };

static const char *const meshes[] = { "x=8", "x=4", "x=2,y=4", "x=4,y=2", "x=2,y=2,z=2" };

/* Values that make sums hard, more of one sort than of others. */
static double value(test_rng *rng, int sort)
{
  static const double edges[] = { 0,        -0.0,     0x1p-149,  -0x1p-149, 0x1p-1074, 0x1p127,
                                  -0x1p127, 0x1p1023, -0x1p1023, INFINITY,  -INFINITY, 0x1p-1022,
                                  65504,    -65504,   0x1p-24,   NAN };
  switch (sort) {
  case 0: return test_uniform(rng) - 0.5;
  case 1: return test_any_f64(rng);
  case 2: return edges[test_range(rng, 0, (int64_t)(sizeof edges / sizeof *edges) - 1)];
  case 3: return (test_range(rng, 0, 1) ? 1 : -1) * (1 + (double)test_range(rng, 0, 3) * 0x1p-24);
  case 4: return test_range(rng, 0, 1) ? 0x1p60 : 3 - (double)test_range(rng, 0, 6);
  case 5: return -0.0;
  default: return test_range(rng, 0, 200) ? test_uniform(rng) : value(rng, 2);
  }
}

/* A sum or a mean over dim 0, of which each device has one row. */
static tsr_array *meet(tsr_array *x, bool mean)
{
  return mean ? tsr_mean(x, .dims = TSR_DIMS(0)) : tsr_sum(x, .dims = TSR_DIMS(0));
}

static bool one_trial(tsr_runtime *rt, uint64_t seed)
{
  static const tsr_dtype dtypes[] = { TSR_F32, TSR_F64, TSR_F16, TSR_BF16, TSR_I64 };
  static double data[MEMBERS * WIDE];
  static char want[WIDE * 8], found[WIDE * 8], text[8192];
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, meshes[test_range(&rng, 0, 4)]);
  tsr_dtype dtype = dtypes[test_range(&rng, 0, 4)];
  bool cut = test_range(&rng, 0, 1), mean = test_range(&rng, 0, 3) == 0;
  int axis = tsr_mesh_axis_count(mesh) - 1, sort = (int)test_range(&rng, 0, 6);
  int64_t rows = mesh->sizes[0], n = test_range(&rng, 0, 3) ? test_range(&rng, 1, 40) : WIDE;
  for (int64_t i = 0; i < rows * n; i++) {
    data[i] = dtype == TSR_I64 ? (double)test_range(&rng, -9, 9) : value(&rng, sort);
    /* What was lost shows where the large ones cancel. */
    if (i >= n && test_range(&rng, 0, 2) == 0) data[i] = -data[i % n];
    if (sort != 5 && test_range(&rng, 0, 9) == 0) data[i] = data[i] * 0x1p-60;
  }
  tsr_array *x = tsr_put(s, data, TSR_F64, TSR_SHAPE(rows, n), (tsr_sharding){ 0 });
  tsr_array *a = tsr_cast(x, dtype), *b = tsr_reshard(a, tsr_on(mesh, cut && axis ? "x,y" : "x,-"));
  CHECK_STATUS(tsr_eval(&b, 1), TSR_OK, s);
  if (test_range(&rng, 0, 3) == 0) a = tsr_neg(a), b = tsr_neg(b);
  tsr_array *sums[2] = { meet(a, mean), meet(b, mean) };
  if (test_range(&rng, 0, 1)) sums[1] = tsr_constrain(sums[1], tsr_on(mesh, "x"));
  else sums[1] = tsr_constrain(sums[1], tsr_on(mesh, "-"));
  snprintf(text, sizeof text, "%s", tsr_explain(&sums[1], 1));
  CHECK_STATUS(tsr_eval(&sums[1], 1), TSR_OK, s);
  tsr_run_stats stats = tsr_last_run(s);
  CHECK_I64(stats.bytes_counted, stats.bytes_explained + stats.bytes_escaped);
  size_t bytes = (size_t)n * tsr_dtype_size(tsr_dtype_of(sums[0]));
  CHECK_STATUS(tsr_read(sums[0], want, bytes), TSR_OK, s);
  CHECK_STATUS(tsr_read(sums[1], found, bytes), TSR_OK, s);
  if (memcmp(want, found, bytes))
    FAIL("seed %llu, sort %d: %s differs\n%s", (unsigned long long)seed, sort, tsr_type_of(sums[1]),
         text);
  bool meets = strstr(text, "all-reduce") || strstr(text, "reduce-scatter");
  tsr_scope_close(s);
  return meets;
}

TEST_TIMEOUT(sums_of_one_element_a_device, 300)
{
  law_each_seed_on_8(1, test_quick() ? 100 : 600, 0.5, one_trial);
}

/* More than meet at once have partials, as ever. */
TEST(sums_over_very_many_devices)
{
  enum { MANY = 200 };
  float data[2 * MANY], want[2] = { 0 }, found[2];
  tsr_runtime *rt = tsr_runtime_open("cpu:200", .threads = 2);
  tsr_scope *s = tsr_scope_open(rt);
  for (int i = 0; i < 2 * MANY; i++) want[i % 2] += data[i] = (float)(i % 7 - i % 3);
  tsr_sharding rows = tsr_on(tsr_mesh_make(rt, "x=200"), "x,-");
  tsr_array *x = tsr_put(s, data, TSR_F32, TSR_SHAPE(MANY, 2), rows);
  CHECK_STATUS(tsr_read(meet(x, false), found, sizeof found), TSR_OK, s);
  CHECK(!memcmp(want, found, sizeof want));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
