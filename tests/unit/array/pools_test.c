/* A shard lives in its own device's pool: with every strange byte of every pool poisoned, results
 * are the same, and each device holds exactly its part. */
#include <stdlib.h>
#include <string.h>

#include "execute/execute.h"
#include "harness.h"
#include "kernel/device/cpu.h"
#include "tessera.h"

static void poison_all(tsr_runtime *rt, bool on)
{
  const tsr__cpu *cpu = tsr__cpu_of(rt);
  for (int d = 0; d < cpu->base.count; d++) tsr__pool_poison(cpu->pools[d], on);
}

/* Something of everything: broadcasts, masks, reductions over one and both dims, resharding. */
static void work(tsr_runtime *rt, double out[40])
{
  double data[35];
  for (int i = 0; i < 35; i++) data[i] = i * 0.75 - 9;
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=2,y=4");
  tsr_array *a = tsr_put(s, data, TSR_F64, TSR_SHAPE(5, 7), tsr_on(mesh, "x,y"));
  tsr_array *b = tsr_reshard(tsr_add(a, 1), tsr_on(mesh, "-,x+y"));
  tsr_array *c = tsr_where(tsr_gt(a, 0), b, tsr_mean(a, .dims = TSR_DIMS(0)));
  CHECK_STATUS(tsr_read(c, out, 35 * sizeof(double)), TSR_OK, s);
  CHECK_STATUS(tsr_read_scalar(tsr_std(c), &out[35]), TSR_OK, s);
  CHECK_STATUS(tsr_read_scalar(tsr_sum(c, .where = tsr_lt(c, 5)), &out[36]), TSR_OK, s);
  CHECK_STATUS(tsr_read_scalar(tsr_max(tsr_sum(c, .dims = TSR_DIMS(1))), &out[37]), TSR_OK, s);
  CHECK_STATUS(tsr_read_scalar(tsr_count(tsr_eq(c, b)), &out[38]), TSR_OK, s);
  out[39] = 0;
  tsr_scope_close(s);
}

TEST(poisoned_strangers_change_nothing)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:8");
  double clean[40], poisoned[40];
  work(rt, clean);
  poison_all(rt, true);
  for (int round = 0; round < 3; round++) {
    work(rt, poisoned);
    CHECK_BYTES(poisoned, clean, sizeof clean);
  }
  tsr_runtime_close(rt);
}

TEST(each_device_holds_its_part_and_no_view_of_another)
{
  tsr_runtime *rt = tsr_runtime_open("cpu:4");
  tsr_scope *s = tsr_scope_open(rt);
  tsr_mesh *mesh = tsr_mesh_default(rt, "x");
  tsr_array *x = tsr_iota(s, TSR_F64, TSR_SHAPE(4096), 0, tsr_on(mesh, "x"));
  CHECK_STATUS(tsr_eval(&x, 1), TSR_OK, s);
  tsr_shard shards[4];
  for (int p = 0; p < 4; p++) CHECK_STATUS(tsr_shard_view(x, p, &shards[p]), TSR_OK, s);
  int64_t expected = tsr_device_memory(rt, 0).now;
  for (int p = 0; p < 4; p++) {
    CHECK_I64(shards[p].device, p);
    CHECK_I64(tsr_device_memory(rt, p).now, expected);
    for (int q = 0; q < p; q++) {
      const char *a = shards[p].data, *b = shards[q].data;
      CHECK(a + 8192 <= b || b + 8192 <= a);
    }
  }
  tsr_scope_close(s);
  tsr_runtime_close(rt);
}
