/* What each process has of an array, in pretended processes: tables of JAX's, and counting. */
#include <stdio.h>
#include <stdlib.h>

#include "support/topology_fixture.h"
#include "tessera/process_data.h"
#include "topology/portions.h"

static tsr_runtime *pretend(int processes, int devices_each, int index)
{
  char text[16];
  snprintf(text, sizeof text, "cpu:%d", devices_each);
  tsr_runtime *rt = fixture_devices(text);
  CHECK(tsr__topology_spread(rt, processes, index));
  return rt;
}

/* A mesh over rows of "1234/2143": whose each device is; a host's devices come in their order. */
static tsr_mesh *mesh_of_hosts(tsr_runtime *rt, const char *text, int devices_each)
{
  int ids[64], next[10] = { 0 }, count = 0;
  tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = 2, .names = { "r", "c" } };
  for (const char *c = text; *c; c++) {
    opts.sizes[0] += c == text || *c == '/';
    if (*c == '/') continue;
    int host = *c - '1';
    ids[count++] = host * devices_each + next[host]++;
  }
  opts.sizes[1] = count / opts.sizes[0];
  opts.devices = ids;
  tsr_mesh *mesh = tsr_mesh_make_with(rt, &opts);
  CHECK_STR(tsr_mesh_message(mesh), "");
  return mesh;
}

/* Each host's number and how many there are along a dim; {0, 0} where blocks overlap. */
static void check_numbers(tsr_sharding on, int dim, const int (*expected)[2], int hosts)
{
  for (int p = 0; p < hosts; p++) {
    tsr_process_part part;
    CHECK_STATUS(tsr_process_part_of(&on, TSR_SHAPE(8, 8), p, &part), TSR_OK, NULL);
    CHECK_I64(part.index[dim], expected[p][0]);
    CHECK_I64(part.count[dim], expected[p][1]);
  }
}

TEST(numbers_of_blocks_are_those_of_jax)
{
  static const int one[4][2] = { { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } };
  static const int halves[4][2] = { { 0, 2 }, { 0, 2 }, { 1, 2 }, { 1, 2 } };
  static const int turns[4][2] = { { 0, 2 }, { 1, 2 }, { 0, 2 }, { 1, 2 } };
  static const int none[2][2] = { { 0, 0 }, { 0, 0 } };
  tsr_runtime *rt = pretend(4, 2, 0);
  tsr_sharding on = tsr_on(mesh_of_hosts(rt, "1234/2143", 2), "r,c");
  check_numbers(on, 0, one, 4);
  check_numbers(on, 1, halves, 4);
  on = tsr_on(mesh_of_hosts(rt, "1212/3434", 2), "r,c");
  check_numbers(on, 0, halves, 4);
  check_numbers(on, 1, turns, 4);
  tsr_runtime_close(rt);
  rt = pretend(2, 8, 0);
  on = tsr_on(mesh_of_hosts(rt, "1122/2121/1121/1222", 8), "r,c");
  check_numbers(on, 0, one, 2);
  check_numbers(on, 1, none, 2);
  tsr_runtime_close(rt);
}

/* What of a dim a process's devices hold, counted element by element. */
static int64_t counted(tsr_sharding on, tsr_shape shape, int dim, int process)
{
  int64_t count = 0;
  for (int64_t i = 0; i < shape.dims[dim]; i++) {
    bool held = false;
    for (int p = 0; p < tsr_mesh_device_count(on.mesh); p++) {
      tsr_box box;
      CHECK_STATUS(tsr_shard_box(&on, shape, p, &box), TSR_OK, NULL);
      held |= tsr_device_process(on.mesh->rt, tsr_mesh_device(on.mesh, p)) == process &&
              i >= box.start[dim] && i < box.start[dim] + box.size[dim];
    }
    count += held;
  }
  return count;
}

/* Elements of an array that a process has on some device. */
static int64_t elements_of(tsr_sharding on, tsr_shape shape, int process)
{
  int64_t count = 0;
  for (int64_t i = 0; i < shape.dims[0] * shape.dims[1]; i++) {
    bool held = false;
    for (int p = 0; p < tsr_mesh_device_count(on.mesh) && !held; p++) {
      tsr_box box;
      int64_t r = i / shape.dims[1], c = i % shape.dims[1];
      CHECK_STATUS(tsr_shard_box(&on, shape, p, &box), TSR_OK, NULL);
      held = tsr_device_process(on.mesh->rt, tsr_mesh_device(on.mesh, p)) == process &&
             r >= box.start[0] && r < box.start[0] + box.size[0] && c >= box.start[1] &&
             c < box.start[1] + box.size[1];
    }
    count += held;
  }
  return count;
}

TEST(blocks_are_what_the_devices_hold)
{
  static const char *const specs[] = { "x,y", "y,x", "x+y", "y+x", "-,x", "-", "y,-", "-,y+x" };
  unsigned seed = 1;
  for (int round = 0; round < 40; round++) {
    tsr_runtime *rt = pretend(4, 2, 0);
    int ids[8];
    for (int i = 0; i < 8; i++) ids[i] = i;
    for (int i = 7; i > 0 && round; i--) {
      int j = rand_r(&seed) % (i + 1), keep = ids[i];
      ids[i] = ids[j];
      ids[j] = keep;
    }
    tsr_mesh_opts opts = { .size = sizeof opts, .axis_count = 2, .names = { "x", "y" } };
    opts.sizes[0] = round % 2 ? 2 : 4;
    opts.sizes[1] = 8 / opts.sizes[0];
    opts.devices = ids;
    tsr_mesh *mesh = tsr_mesh_make_with(rt, &opts);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
      tsr_sharding on = tsr_on(mesh, specs[i]);
      tsr_shape shape = TSR_SHAPE(1 + rand_r(&seed) % 11, 8 + rand_r(&seed) % 9);
      for (int p = 0; p < 4; p++) {
        tsr_process_part part;
        CHECK_STATUS(tsr_process_part_of(&on, shape, p, &part), TSR_OK, NULL);
        for (int d = 0; d < 2; d++) CHECK_I64(part.shape.dims[d], counted(on, shape, d, p));
        int64_t all = part.shape.dims[0] * part.shape.dims[1];
        if (part.whole) CHECK_I64(elements_of(on, shape, p), all);
        else if (shape.dims[0] > 7) CHECK(elements_of(on, shape, p) < all);
      }
    }
    tsr_runtime_close(rt);
  }
}

TEST(own_meshes_are_blocks)
{
  for (int index = 0; index < 4; index++) {
    tsr_runtime *rt = pretend(4, 2, index);
    tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2"), *own = tsr_mesh_local(mesh);
    CHECK_STR(tsr_mesh_text(own), "x=1,y=2");
    CHECK_I64(tsr_mesh_device(own, 1), 2 * index + 1);
    CHECK(tsr_mesh_local(own) == own && tsr_mesh_local(mesh) == own);
    /* The same axes over the same devices, known to all, are another mesh. */
    CHECK(tsr_mesh_make(rt, "x=1,y=2") != own);
    CHECK_I64(tsr_mesh_process_count(mesh), 4);
    CHECK_I64(tsr_mesh_process_count(own), 1);
    tsr_mesh *few = tsr_mesh_make(rt, "x=2");
    CHECK_I64(tsr_mesh_process_count(few), 1);
    CHECK_STATUS(tsr_mesh_status(tsr_mesh_local(few)), index ? TSR_EARG : TSR_OK, NULL);
    const int across[] = { 0, 2, 4, 6, 3, 1, 7, 5 };
    tsr_mesh_opts opts = { .size = sizeof opts,
                           .axis_count = 2,
                           .names = { "x", "y" },
                           .sizes = { 2, 4 },
                           .devices = across };
    tsr_mesh *torn = tsr_mesh_local(tsr_mesh_make_with(rt, &opts));
    CHECK_STATUS(tsr_mesh_status(torn), TSR_EARG, NULL);
    CHECK_STR_HAS(tsr_mesh_message(torn), "do not form a block of mesh x=2,y=4");
    tsr_runtime_close(rt);
  }
}

TEST(own_meshes_are_numbered_alike)
{
  int first = 0;
  for (int index = 0; index < 2; index++) {
    tsr_runtime *rt = pretend(2, 2, index);
    tsr_mesh_make(rt, "x=1,y=2"); /* of process 0 the devices of its own mesh */
    tsr_mesh *own = tsr_mesh_local(tsr_mesh_make(rt, "x=2,y=2"));
    int after = tsr_mesh_make(rt, "z=4")->id;
    if (!index) first = after;
    CHECK_I64(after, first);
    CHECK_I64(own->id, -1);
    tsr_runtime_close(rt);
  }
}

TEST(devices_are_of_processes)
{
  tsr_runtime *rt = pretend(3, 2, 1);
  CHECK_I64(tsr_local_device_count(rt), 2);
  CHECK_I64(tsr_local_device(rt, 0), 2);
  CHECK_I64(tsr_local_device(rt, 1), 3);
  CHECK_I64(tsr_local_device(rt, 2), -1);
  CHECK_I64(tsr_local_device(rt, -1), -1);
  for (int d = 0; d < 6; d++) CHECK_I64(tsr_device_process(rt, d), d / 2);
  CHECK_I64(tsr_device_process(rt, 6), -1);
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, "x=6"), "x");
  CHECK_I64(tsr_local_shard_count(&on), 2);
  CHECK_I64(tsr_local_shard(&on, 1), 3);
  CHECK_I64(tsr_local_shard(&on, 2), -1);
  CHECK_I64(tsr_local_shard_count(NULL), 1);
  tsr_sharding bad = tsr_on(tsr_mesh_make(rt, "x=7"), "x");
  CHECK_I64(tsr_local_shard_count(&bad), 0);
  CHECK_I64(tsr_local_device_count(NULL), 0);
  CHECK_I64(tsr_mesh_process_count(NULL), 0);
  CHECK(tsr_mesh_local(NULL) == NULL);
  tsr_runtime_close(rt);
}

TEST(wrong_questions_are_refused)
{
  tsr_runtime *rt = pretend(2, 2, 0);
  tsr_sharding on = tsr_on(tsr_mesh_make(rt, "x=4"), "x");
  tsr_sharding sizes = tsr_on(tsr_mesh_abstract(rt, "x=4"), "x");
  tsr_process_part part;
  CHECK_STATUS(tsr_process_part_of(&on, TSR_SHAPE(8), 2, &part), TSR_EARG, NULL);
  CHECK_STATUS(tsr_process_part_of(&on, TSR_SHAPE(8), -1, &part), TSR_EARG, NULL);
  CHECK_STATUS(tsr_process_part_of(&on, TSR_SHAPE(8), 0, NULL), TSR_EARG, NULL);
  CHECK_STATUS(tsr_process_part_of(&on, TSR_SCALAR, 0, &part), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_process_part_of(&sizes, TSR_SHAPE(8), 0, &part), TSR_EAXIS, NULL);
  CHECK_STATUS(tsr_process_part_of(NULL, TSR_SHAPE(8), 0, &part), TSR_OK, NULL);
  CHECK_I64(part.shape.dims[0], 8);
  CHECK(part.whole);
  tsr_runtime_close(rt);
}
