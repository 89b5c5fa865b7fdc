/* A pretend topology of several processes: device ids run over the processes in order, and who
 * holds what is the same pure function in each of them. */
#include <stdio.h>

#include "support/topology_fixture.h"

enum { PROCESSES = 2, EACH = 4, ALL = PROCESSES * EACH };

static tsr_runtime *pretend(int index)
{
  tsr_runtime *rt = fixture_devices("cpu:4");

  CHECK(tsr__topology_spread(rt, PROCESSES, index));
  return rt;
}

TEST(ids_run_over_the_processes_in_order)
{
  for (int index = 0; index < PROCESSES; index++) {
    tsr_runtime *rt = pretend(index);
    const tsr__topology *topology = tsr__topology_of(rt);
    CHECK_I64(fixture_count(rt), ALL);
    CHECK_I64(topology->per_process, EACH);
    CHECK_I64(topology->process_count, PROCESSES);
    CHECK_I64(topology->process_index, index);
    for (int id = 0; id < ALL; id++) {
      CHECK_I64(tsr__device_process(topology, id), id / 4);
      CHECK_I64(tsr__device_local(topology, id), (id >= 4) == (index == 1));
    }
    CHECK_I64(tsr__device_process(topology, ALL), -1);
    CHECK_I64(tsr__device_process(topology, -1), -1);
    CHECK(!tsr__device_local(topology, ALL) && !tsr__device_local(topology, -1));
    tsr_runtime_close(rt);
  }
}

TEST(one_process_holds_all_devices)
{
  tsr_runtime *rt = fixture_devices("cpu:4");
  const tsr__topology *topology = tsr__topology_of(rt);

  for (int id = 0; id < EACH; id++) CHECK(tsr__device_local(topology, id));
  CHECK(!tsr__device_local(topology, EACH));
  CHECK_I64(tsr__device_process(NULL, 0), -1);
  CHECK(!tsr__device_local(NULL, 0));
  tsr_runtime_close(rt);
}

/* All that processes must agree on: mesh numbers, texts, devices and boxes. */
static size_t describe(tsr_runtime *rt, char *out, size_t room)
{
  static const char *const meshes[] = { "data=4,model=2", "bad=9", "d=8", "x=2,y=2", "d=8" };
  static const char *const specs[] = { "", "data", "model+data", "-,d", "d", "y,x" };
  tsr_shape shape = TSR_SHAPE(10, 7);
  size_t n = 0;

  for (int m = 0; m < 5; m++) {
    tsr_mesh *mesh = tsr_mesh_make(rt, meshes[m]);
    n += (size_t)snprintf(out + n, room - n, "\n%d %s%s:", mesh->id, tsr_mesh_text(mesh),
                          tsr_mesh_message(mesh));
    for (int k = 0; k < 6; k++) {
      tsr_sharding sharding = tsr_on(mesh, specs[k]);
      tsr_box box;
      for (int p = 0; !fixture_bad_spec(sharding) && p < tsr__positions(&sharding); p++) {
        tsr__box(&sharding, &shape, p, &box);
        n += (size_t)snprintf(out + n, room - n, " %d:%d+%d,%d+%d",
                              tsr__position_device(&sharding, p), (int)box.start[0],
                              (int)box.size[0], (int)box.start[1], (int)box.size[1]);
      }
    }
  }
  CHECK(n < room);
  return n;
}

TEST(all_processes_see_the_same_boxes)
{
  static char texts[PROCESSES][16384], alone[16384];

  for (int index = 0; index < PROCESSES; index++) {
    tsr_runtime *rt = pretend(index);
    describe(rt, texts[index], sizeof texts[index]);
    tsr_runtime_close(rt);
  }
  CHECK_STR(texts[1], texts[0]);
  CHECK_STR_HAS(texts[0], " 7:8+2,0+7"); /* data: 3,3,2,2 */
  CHECK_STR_HAS(texts[0], " 7:9+1,0+7"); /* model+data: 5,5, each then 2,1,1,1 */
  /* And so does one process with all the devices. */
  tsr_runtime *rt = fixture_devices("cpu:8");
  describe(rt, alone, sizeof alone);
  CHECK_STR(texts[0], alone);
  tsr_runtime_close(rt);
}

/* The parts of a process: rows 10 over 8 devices are 2,2,1,1,1,1,1,1. */
TEST(a_process_loops_over_its_own_shards)
{
  static const int64_t starts[PROCESSES][EACH] = { { 0, 2, 4, 5 }, { 6, 7, 8, 9 } };

  for (int index = 0; index < PROCESSES; index++) {
    tsr_runtime *rt = pretend(index);
    tsr_sharding sharding = tsr_on(tsr_mesh_default(rt, NULL), "data");
    int local = 0;
    for (int p = 0; p < tsr__positions(&sharding); p++) {
      tsr_box box;
      if (!tsr__device_local(tsr__topology_of(rt), tsr__position_device(&sharding, p))) continue;
      CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(10), p, &box), TSR_OK, NULL);
      CHECK_I64(box.start[0], starts[index][local++]);
    }
    CHECK_I64(local, EACH);
    tsr_runtime_close(rt);
  }
}

TEST(devices_of_other_processes_are_devices)
{
  tsr_runtime *rt = pretend(0);
  tsr_sharding far = tsr_on_device(rt, 6), beyond = tsr_on_device(rt, 8);
  tsr__error error = { .status = TSR_OK };

  CHECK(!fixture_bad_spec(far));
  CHECK_I64(tsr__position_device(&far, 0), 6);
  CHECK_STATUS(tsr__sharding_check(&beyond, &TSR_SHAPE(1), &error), TSR_EARG, NULL);
  CHECK_STR(error.text, "there is no device 8; the runtime's devices are 0 to 7");
  tsr_runtime_close(rt);
}

TEST(pretending_has_limits)
{
  tsr_runtime *rt = fixture_devices("cpu:4");

  CHECK(!tsr__topology_spread(NULL, 2, 0));
  CHECK(!tsr__topology_spread(rt, 0, 0));
  CHECK(!tsr__topology_spread(rt, 2, 2));
  CHECK(!tsr__topology_spread(rt, 2, -1));
  CHECK(!tsr__topology_spread(rt, 1025, 0)); /* 4100 devices */
  CHECK_I64(fixture_count(rt), 4);
  CHECK(tsr__topology_spread(rt, 1024, 1023));
  CHECK_I64(fixture_count(rt), 4096);
  tsr_mesh_make(rt, "x=2");
  CHECK(!tsr__topology_spread(rt, 2, 0)); /* meshes are not made anew */
  tsr_runtime_close(rt);
}
