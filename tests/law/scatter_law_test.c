/* Sharded dims are reduced and the result is wanted sharded: nothing is all-reduced and then cut.
 *
 * The law: whatever is reduced, wherever the operand lies and the result is wanted, on every mesh,
 * the values are those of unplaced data, bit for bit, and the bytes counted are those explained. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"

enum { MOST = 70000 };

static const tsr_dtype dtypes[] = { TSR_I32, TSR_I64, TSR_F32, TSR_F64, TSR_U8, TSR_BF16 };

/* One of the reductions, each with an accumulator of its own kind. */
static tsr_array *reduce(tsr_array *a, int which, const int *dims, int count)
{
  tsr_dims over = tsr_dims_of(dims, count);
  switch (which) {
  case 0: return tsr_sum(a, .dims = over);
  case 1: return tsr_mean(a, .dims = over);
  case 2: return tsr_max(a, .dims = over, .keep_dims = true);
  case 3: return tsr_std(a, .dims = over);
  case 4: return tsr_argmin(a, .dims = over);
  default: return tsr_mean(a, .dims = over, .where = tsr_gt(a, 3));
  }
}

static int random_dims(test_rng *rng, int rank, int dims[TSR_MAX_RANK])
{
  int count = 0;
  for (int d = 0; d < rank; d++)
    if (test_range(rng, 0, 1) || (d == rank - 1 && !count)) dims[count++] = d;
  return count;
}

/* Values that need more than a double, so that a sum in parts would show. */
static void fill(test_rng *rng, tsr_dtype dtype, double *out, size_t count)
{
  bool wide = dtype == TSR_F64 && test_range(rng, 0, 1);
  for (size_t i = 0; i < count; i++)
    out[i] = wide ? test_any_f64(rng) * 1e-10 : (double)test_range(rng, 0, 100);
}

typedef struct trial {
  tsr_scope *s;
  tsr_array *whole, *placed; /* the result of unplaced data, and of placed, wanted somewhere */
} trial;

static trial random_trial(test_rng *rng, tsr_runtime *rt)
{
  static double data[MOST];
  trial t = { .s = tsr_scope_open(rt) };
  tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(rng, 0, LAW_MESHES - 1)]);
  tsr_shape shape = { .rank = (int)test_range(rng, 2, 3) };
  size_t elements = 1;
  int dims[TSR_MAX_RANK], which = (int)test_range(rng, 0, 5);
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = test_range(rng, 1, d ? d + 8 : 64);
  if (test_range(rng, 0, 31) == 0) shape = law_large(rng, 2, 3);
  for (int d = 0; d < shape.rank; d++) {
    if (!shape.dims[d]) shape.dims[d] = 1; /* there is no largest of none */
    elements *= (size_t)shape.dims[d];
  }
  tsr_dtype dtype = dtypes[test_range(rng, 0, 5)];
  fill(rng, dtype, data, elements);
  tsr_array *x = tsr_cast(tsr_put(t.s, data, TSR_F64, shape, (tsr_sharding){ 0 }), dtype);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, t.s);
  tsr_array *y = tsr_reshard(x, law_sharding(rng, mesh, shape.rank));
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, t.s);
  int count = random_dims(rng, shape.rank, dims);
  t.whole = reduce(x, which, dims, count);
  tsr_array *z = reduce(y, which, dims, count);
  t.placed = tsr_constrain(z, law_sharding(rng, mesh, tsr_shape_of(z).rank));
  if (test_range(rng, 0, 3) == 0) t.placed = tsr_add(t.placed, t.placed);
  else return t;
  t.whole = tsr_add(t.whole, t.whole);
  return t;
}

static bool one_trial(tsr_runtime *rt, uint64_t seed)
{
  test_rng rng = test_seeded(seed);
  trial t = random_trial(&rng, rt);
  static double expected[MOST], found[MOST];
  char text[4096];
  memset(expected, 0, sizeof expected);
  memset(found, 0, sizeof found);
  snprintf(text, sizeof text, "%s", tsr_explain(&t.placed, 1));
  CHECK_STATUS(tsr_eval(&t.placed, 1), TSR_OK, t.s);
  tsr_run_stats stats = tsr_last_run(t.s);
  if (stats.bytes_counted != stats.bytes_explained + stats.bytes_escaped)
    FAIL("seed %llu: %lld bytes counted, %lld explained\n%s", (unsigned long long)seed,
         (long long)stats.bytes_counted, (long long)stats.bytes_explained, text);
  tsr_shape shape = tsr_shape_of(t.whole);
  size_t bytes = tsr_dtype_size(tsr_dtype_of(t.whole));
  for (int d = 0; d < shape.rank; d++) bytes *= (size_t)shape.dims[d];
  CHECK_STATUS(tsr_read(t.whole, expected, bytes), TSR_OK, t.s);
  CHECK_STATUS(tsr_read(t.placed, found, bytes), TSR_OK, t.s);
  if (memcmp(expected, found, bytes)) FAIL("seed %llu differs\n%s", (unsigned long long)seed, text);
  bool scattered = strstr(text, "reduce-scatter");
  tsr_scope_close(t.s);
  return scattered;
}

TEST_TIMEOUT(wanted_sharded_is_what_it_was_whole, 300)
{
  law_each_seed_on_8(1, test_quick() ? 400 : 6000, 0.03, one_trial);
}

/* What travels is each partial but a device's own piece of it; nothing comes back. */
TEST(a_wanted_cut_is_not_all_reduced)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4");
  static double data[64][64];
  double found[64];
  for (int i = 0; i < 64 * 64; i++) data[i / 64][i % 64] = i;
  tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(64, 64), tsr_on(mesh, "x,-"));
  tsr_array *sum = tsr_constrain(tsr_sum(a, .dims = TSR_DIMS(0)), tsr_on(mesh, "x"));
  const char *text = tsr_explain(&sum, 1);
  CHECK(strstr(text, "reduce-scatter over x=4: 4608 bytes")); /* 3 * 64 * 24 */
  CHECK(!strstr(text, "all-reduce") && !strstr(text, "all-to-all"));
  CHECK_STATUS(tsr_read(sum, found, sizeof found), TSR_OK, s);
  for (int i = 0; i < 64; i++) CHECK_F64_BITS(found[i], 64.0 * i + 64 * 2016);
  CHECK_I64(tsr_last_run(s).bytes_counted - tsr_last_run(s).bytes_escaped, 4608);
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}

/* ---- over some of the axes ---- */

/* What a sum over the rows of an array is cut by: its rows by axes that meet, its columns by
 * others; of the result the columns also by some of those that meet, and it is left unreduced over
 * some. */
typedef struct some {
  char from[80], to[80];
  int64_t members, copies, groups; /* of a group, that get each element, that do the same */
  bool cut;
} some;

static void add_axis(char *list, const char *name)
{
  strcat(list, *list ? "+" : "");
  strcat(list, name);
}

static some random_some(test_rng *rng, const tsr_mesh *mesh)
{
  some out = { .members = 1, .copies = 1, .groups = 1 };
  char rows[32] = "", columns[32] = "", kept[32] = "", sums[32] = "";
  for (int turn = 0; turn < 2; turn++) /* what columns are cut by comes first */
    for (int a = 0; a < tsr_mesh_axis_count(mesh); a++) {
      const char *name = tsr_mesh_axis_name(mesh, a);
      int64_t size = tsr_mesh_axis_size(mesh, name);
      if (!turn && test_range(rng, 0, 4) == 0) add_axis(columns, name), add_axis(kept, name);
      if (!turn || strstr(kept, name)) continue;
      if (test_range(rng, 0, 5) == 0) {
        out.groups *= size;
        continue;
      }
      int64_t what = test_range(rng, 0, 2);
      add_axis(rows, name);
      out.members *= size;
      if (what == 0) add_axis(columns, name);
      if (what == 1) add_axis(sums, name);
      if (what == 2) out.copies *= size;
      out.cut |= what == 0;
    }
  snprintf(out.from, sizeof out.from, "%s,%s", *rows ? rows : "-", *kept ? kept : "-");
  snprintf(out.to, sizeof out.to, "%s%s%s%s", *columns ? columns : "-", *sums ? ";sum(" : "", sums,
           *sums ? ")" : "");
  return out;
}

/* Partials of each element go to one of their group, and the result to who wants it: neither more
 * than that, nor more than if all got all. */
static bool one_of_some(tsr_runtime *rt, uint64_t seed)
{
  static const char *const meshes[] = { "x=2,y=2,z=2", "x=4,y=2", "x=3,y=2", "x=2,y=2" };
  static double data[64 * 40], expected[40], found[40];
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, meshes[test_range(&rng, 0, 3)]);
  tsr_shape shape = TSR_SHAPE(test_range(&rng, 1, 64), test_range(&rng, 2, 40));
  some on = random_some(&rng, mesh);
  fill(&rng, TSR_F64, data, (size_t)(shape.dims[0] * shape.dims[1]));
  tsr_array *x = tsr_put(s, data, TSR_F64, shape, (tsr_sharding){ 0 });
  tsr_array *y = tsr_put(s, data, TSR_F64, shape, tsr_on(mesh, on.from));
  tsr_array *whole = tsr_sum(x, .dims = TSR_DIMS(0));
  tsr_array *z = tsr_constrain(tsr_sum(y, .dims = TSR_DIMS(0)), tsr_on(mesh, on.to));
  char text[4096];
  snprintf(text, sizeof text, "%s", tsr_explain(&z, 1));
  CHECK_STATUS(tsr_eval(&z, 1), TSR_OK, s);
  tsr_run_stats stats = tsr_last_run(s);
  int64_t most = on.groups * shape.dims[1] * ((on.members - 1) * 24 + (on.copies - 1) * 8);
  if (stats.bytes_counted != stats.bytes_explained + stats.bytes_escaped ||
      stats.bytes_explained > most)
    FAIL("seed %llu, %s to %s: %lld bytes counted, %lld explained, at most %lld\n%s",
         (unsigned long long)seed, on.from, on.to, (long long)stats.bytes_counted,
         (long long)stats.bytes_explained, (long long)most, text);
  size_t bytes = 8 * (size_t)shape.dims[1];
  CHECK_STATUS(tsr_read(whole, expected, bytes), TSR_OK, s);
  CHECK_STATUS(tsr_read(z, found, bytes), TSR_OK, s);
  if (memcmp(expected, found, bytes))
    FAIL("seed %llu differs, %s to %s", (unsigned long long)seed, on.from, on.to);
  tsr_scope_close(s);
  return on.cut && on.copies > 1;
}

TEST_TIMEOUT(some_axes_scatter_and_others_copy, 300)
{
  law_each_seed_on_8(1, test_quick() ? 400 : 6000, 0.1, one_of_some);
}

/* Seven partials of each element, and of the result each piece to the one that has it, too. */
TEST(a_wanted_cut_by_some_axes_is_not_all_reduced)
{
  static double data[64][64];
  static const struct {
    const char *to, *text;
    int64_t bytes;
  } cases[] = { { "x", "reduce-scatter over x=4,y=2: 11264 bytes", 7 * 64 * 24 + 64 * 8 },
                { "y", "reduce-scatter over x=4,y=2: 12288 bytes", 7 * 64 * 24 + 3 * 64 * 8 },
                { "y;sum(x)", "reduce-scatter over x=4,y=2: 10752 bytes", 7 * 64 * 24 },
                { "-;sum(y)", "all-reduce over x=4,y=2: 12288 bytes", 7 * 64 * 24 + 3 * 64 * 8 } };
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");
  for (int i = 0; i < 64 * 64; i++) data[i / 64][i % 64] = i;
  for (int k = 0; k < 4; k++) {
    double found[64];
    tsr_scope *s = tsr_scope_open(rt);
    tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(64, 64), tsr_on(mesh, "x+y,-"));
    tsr_array *sum = tsr_constrain(tsr_sum(a, .dims = TSR_DIMS(0)), tsr_on(mesh, cases[k].to));
    CHECK_STR_HAS(tsr_explain(&sum, 1), cases[k].text);
    CHECK_STATUS(tsr_eval(&sum, 1), TSR_OK, s);
    CHECK_I64(tsr_last_run(s).bytes_counted - tsr_last_run(s).bytes_escaped, cases[k].bytes);
    CHECK_STATUS(tsr_read(sum, found, sizeof found), TSR_OK, s);
    for (int i = 0; i < 64; i++) CHECK_F64_BITS(found[i], 64.0 * i + 64 * 2016);
    tsr_scope_close(s);
  }
  tsr_runtime_close(rt);
}
