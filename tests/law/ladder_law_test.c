/* From any spec to any spec: a reshard moves to each device the elements that it lacks, and nothing
 * else. No way over other placements can move fewer bytes, so none gathers what it need not.
 *
 * The least is counted here, from the boxes of every device, without the planner's help. What the
 * plan explains must be that, and what the copies count, and the elements must arrive. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/law_fixture.h"

enum { MOST = 8 * 11 * 11 * 11 }; /* law_deep makes it up to 8 times as large */

static const tsr_dtype dtypes[] = { TSR_I8, TSR_U16, TSR_F32, TSR_F64 };

static int64_t elements_of(const tsr_box *box, int rank)
{
  int64_t count = 1;
  for (int d = 0; d < rank; d++) count *= box->size[d];
  return count;
}

static int64_t common(const tsr_box *a, const tsr_box *b, int rank)
{
  int64_t count = 1;
  for (int d = 0; d < rank; d++) {
    int64_t end_a = a->start[d] + a->size[d], end_b = b->start[d] + b->size[d];
    int64_t start = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
    int64_t size = (end_a < end_b ? end_a : end_b) - start;
    count *= size > 0 ? size : 0;
  }
  return count;
}

/* Elements that the devices lack, all together; both specs are on one mesh. */
static int64_t lacking(const tsr_sharding *from, const tsr_sharding *to, tsr_shape shape)
{
  int64_t count = 0;
  for (int p = 0; p < tsr_mesh_device_count(to->mesh); p++) {
    tsr_box have, want;
    CHECK_I64(tsr_shard_box(from, shape, p, &have), TSR_OK);
    CHECK_I64(tsr_shard_box(to, shape, p, &want), TSR_OK);
    count += elements_of(&want, shape.rank) - common(&have, &want, shape.rank);
  }
  return count;
}

static bool one_pair(tsr_runtime *rt, uint64_t seed)
{
  static unsigned char data[8 * MOST], found[8 * MOST];
  test_rng rng = test_seeded(seed);
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, law_meshes[test_range(&rng, 0, LAW_MESHES - 1)]);
  tsr_shape shape = { .rank = (int)test_range(&rng, 1, 3) };
  for (int d = 0; d < shape.rank; d++) shape.dims[d] = test_range(&rng, 0, 11);
  shape = law_deep(&rng, shape, TSR_MAX_RANK);
  tsr_dtype dtype = dtypes[test_range(&rng, 0, 3)];
  tsr_sharding from = law_placed(&rng, mesh, shape.rank), to = law_placed(&rng, mesh, shape.rank);
  int64_t size = (int64_t)tsr_dtype_size(dtype), count = 1;
  for (int d = 0; d < shape.rank; d++) count *= shape.dims[d];
  for (int64_t i = 0; i < count * size; i++) data[i] = (unsigned char)test_range(&rng, 0, 100);
  tsr_array *x = tsr_put(s, data, dtype, shape, from);
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  tsr_array *y = tsr_reshard(x, to);
  char text[2048];
  snprintf(text, sizeof text, "%s", tsr_explain(&y, 1));
  CHECK_STATUS(tsr_eval(&y, 1), TSR_OK, s);
  tsr_run_stats stats = tsr_last_run(s);
  int64_t least = size * lacking(&from, &to, shape);
  CHECK_I64(stats.bytes_counted, stats.bytes_explained);
  /* A move in two steps takes more bytes and less time; the last line sums their times. */
  if (strstr(text, "\nmoves on "))
    CHECK(stats.bytes_counted >= least && strchr(tsr_mesh_text(mesh), '@'));
  else if (stats.bytes_explained != least)
    FAIL("seed %llu: %lld bytes explained, %lld counted, the least are %lld\n%s",
         (unsigned long long)seed, (long long)stats.bytes_explained, (long long)stats.bytes_counted,
         (long long)least, text);
  CHECK_STATUS(tsr_read(y, found, (size_t)(count * size)), TSR_OK, s);
  CHECK_BYTES(found, data, (size_t)(count * size));
  /* The ladder's free rung has no other name. */
  bool moves = least > 0;
  CHECK(moves || !strstr(text, "all-") || strstr(text, ": 0 bytes"));
  tsr_scope_close(s);
  return moves;
}

TEST_TIMEOUT(reshards_move_what_devices_lack, 300)
{
  law_each_seed_on_8(1, test_quick() ? 1000 : 20000, 0.3, one_pair);
}

/* A constraint cuts what it says; dims left open stay as they lie, and the values arrive. */
TEST(open_dims_are_the_planners)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=2");
  double data[6][8], found[6][8];
  for (int i = 0; i < 48; i++) data[i / 8][i % 8] = i;
  tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(6, 8), tsr_on(mesh, "x,y"));
  tsr_array *same = tsr_constrain(a, tsr_on(mesh, "?,?"));
  tsr_array *whole = tsr_constrain(tsr_add(a, 1), tsr_on(mesh, "-,?"));
  CHECK(strstr(tsr_explain(&same, 1), "nothing moves"));
  CHECK(strstr(tsr_explain(&whole, 1), "all-gather over x=2: 384 bytes")); /* 24 elements, twice */
  CHECK_STATUS(tsr_read(whole, found, sizeof found), TSR_OK, s);
  for (int i = 0; i < 48; i++) CHECK_F64_BITS(found[i / 8][i % 8], i + 1);
  /* Data that is put or moved needs a place. */
  tsr_array *moved = tsr_reshard(a, tsr_on(mesh, "-,?"));
  CHECK_I64(tsr_eval(&moved, 1), TSR_EAXIS);
  CHECK(strstr(tsr_message(s), "leaves dim 1 to the planner"));
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
