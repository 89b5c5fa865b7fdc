/* Who holds which part: borders and boxes written by hand. */
#include <stdio.h>

#include "support/topology_fixture.h"

/* The sizes of dim 0 at each position. */
struct split {
  const char *mesh, *spec;
  int64_t size;
  int count;
  int64_t sizes[8];
};

TEST(shards_have_their_true_size)
{
  static const struct split rows[] = {
    { "data=4", "data", 10, 4, { 3, 3, 2, 2 } },
    { "data=2,model=2", "data+model", 10, 4, { 3, 2, 3, 2 } },
    { "data=2,model=2", "data", 10, 4, { 5, 5, 5, 5 } },
    { "data=2,model=2", "model+data", 10, 4, { 3, 3, 2, 2 } },
    { "d=8", "d", 100, 8, { 13, 13, 13, 13, 12, 12, 12, 12 } },
    { "d=8", "d", 3, 8, { 1, 1, 1, 0, 0, 0, 0, 0 } },
    { "d=8", "d", 0, 8, { 0, 0, 0, 0, 0, 0, 0, 0 } },
    { "d=8", "d", 1, 8, { 1, 0, 0, 0, 0, 0, 0, 0 } },
    { "a=2,b=2,c=2", "a+b+c", 5, 8, { 1, 1, 1, 0, 1, 0, 1, 0 } },
    { "a=2,b=2,c=2", "b", 5, 8, { 3, 3, 2, 2, 3, 3, 2, 2 } },
    { "a=2,b=2,c=2", "c+a", 7, 8, { 2, 2, 2, 2, 2, 1, 2, 1 } },
    { "a=2,b=2,c=2", "", 7, 8, { 7, 7, 7, 7, 7, 7, 7, 7 } },
    { "a=2,b=1,c=2", "a+b+c", 6, 4, { 2, 1, 2, 1 } },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_sharding sharding = tsr_on(tsr_mesh_make(rt, rows[i].mesh), rows[i].spec);
    CHECK_I64(tsr__positions(&sharding), rows[i].count);
    for (int p = 0; p < rows[i].count; p++) {
      tsr_box box;
      CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(rows[i].size, 3), p, &box), TSR_OK, NULL);
      CHECK_I64(box.size[0], rows[i].sizes[p]);
      CHECK_I64(box.start[1], 0);
      CHECK_I64(box.size[1], 3);
    }
  }
  tsr_runtime_close(rt);
}

TEST(starts_are_global)
{
  static const int64_t minor_first[] = { 0, 5, 3, 8 }, minor_size[] = { 3, 3, 2, 2 };
  static const int64_t major_first[] = { 0, 3, 5, 8 }, major_size[] = { 3, 2, 3, 2 };
  tsr_runtime *rt = fixture_devices("cpu:4");
  tsr_mesh *mesh = tsr_mesh_make(rt, "data=2,model=2");
  tsr_sharding major = tsr_on(mesh, "data+model"), minor = tsr_on(mesh, "model+data");

  for (int p = 0; p < 4; p++) {
    int64_t start, length;
    tsr__dim_part(&major, 0, 10, p, &start, &length);
    CHECK_I64(start, major_first[p]);
    CHECK_I64(length, major_size[p]);
    CHECK_I64(tsr__dim_index(&major, 0, p), p);
    CHECK_I64(tsr__dim_index(&major, 1, p), 0);
    tsr__dim_part(&minor, 0, 10, p, &start, &length);
    CHECK_I64(start, minor_first[p]);
    CHECK_I64(length, minor_size[p]);
    CHECK_I64(tsr__dim_index(&minor, 0, p), p % 2 * 2 + p / 2);
  }
  tsr_runtime_close(rt);
}

/* A size known only at run time has no borders yet. */
TEST(run_time_sizes_stay_unknown)
{
  tsr_runtime *rt = fixture_devices("cpu:4");
  tsr_sharding sharding = tsr_on(tsr_mesh_make(rt, "d=4"), "d");
  int64_t start, length;
  tsr_box box;

  tsr__dim_part(&sharding, 0, -1, 2, &start, &length);
  CHECK_I64(start, 0);
  CHECK_I64(length, -1);
  CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(-1), 0, &box), TSR_ESHAPE, NULL);
  tsr_runtime_close(rt);
}

/* ---- what another system's tests expect where sizes divide ----------------------------------- */

struct table {
  const char *spec;
  int64_t rows, columns; /* of a shard */
  int64_t start[8][2];
  int replica[8]; /* how many earlier positions hold the same part */
};

/* float32[8,2] over a mesh of 4 by 2. */
static const struct table tables[] = {
  { "x,y",
    2,
    1,
    { { 0, 0 }, { 0, 1 }, { 2, 0 }, { 2, 1 }, { 4, 0 }, { 4, 1 }, { 6, 0 }, { 6, 1 } },
    { 0, 0, 0, 0, 0, 0, 0, 0 } },
  { "x",
    2,
    2,
    { { 0, 0 }, { 0, 0 }, { 2, 0 }, { 2, 0 }, { 4, 0 }, { 4, 0 }, { 6, 0 }, { 6, 0 } },
    { 0, 1, 0, 1, 0, 1, 0, 1 } },
  { "y",
    4,
    2,
    { { 0, 0 }, { 4, 0 }, { 0, 0 }, { 4, 0 }, { 0, 0 }, { 4, 0 }, { 0, 0 }, { 4, 0 } },
    { 0, 0, 1, 1, 2, 2, 3, 3 } },
  { "-,y",
    8,
    1,
    { { 0, 0 }, { 0, 1 }, { 0, 0 }, { 0, 1 }, { 0, 0 }, { 0, 1 }, { 0, 0 }, { 0, 1 } },
    { 0, 0, 1, 1, 2, 2, 3, 3 } },
  { "x+y",
    1,
    2,
    { { 0, 0 }, { 1, 0 }, { 2, 0 }, { 3, 0 }, { 4, 0 }, { 5, 0 }, { 6, 0 }, { 7, 0 } },
    { 0, 0, 0, 0, 0, 0, 0, 0 } },
  { "", 8, 2, { { 0, 0 } }, { 0, 1, 2, 3, 4, 5, 6, 7 } },
};

TEST(even_shards_lie_as_tabled)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");

  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    tsr_sharding sharding = tsr_on(mesh, tables[i].spec, .strict = true);
    int replicas[8] = { 0 };
    for (int p = 0; p < 8; p++) {
      tsr_box box;
      CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(8, 2), p, &box), TSR_OK, NULL);
      CHECK_I64(box.start[0], tables[i].start[p][0]);
      CHECK_I64(box.start[1], tables[i].start[p][1]);
      CHECK_I64(box.size[0], tables[i].rows);
      CHECK_I64(box.size[1], tables[i].columns);
      int leader = tsr__replica_leader(&sharding, p);
      CHECK_I64(replicas[leader]++, tables[i].replica[p]);
      CHECK(leader <= p);
    }
  }
  tsr_runtime_close(rt);
}

TEST(shard_shapes_of_a_wider_array)
{
  static const struct {
    const char *spec;
    int64_t rows, columns;
  } rows[] = { { "x,y", 2, 2 }, { "x", 2, 4 },   { "y", 4, 4 }, { "-,y", 8, 2 },
               { "-,x", 8, 1 }, { "x+y", 1, 4 }, { "", 8, 4 } };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_mesh *mesh = tsr_mesh_make(rt, "x=4,y=2");

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_sharding sharding = tsr_on(mesh, rows[i].spec);
    tsr_box box;
    CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(8, 4), 7, &box), TSR_OK, NULL);
    CHECK_I64(box.size[0], rows[i].rows);
    CHECK_I64(box.size[1], rows[i].columns);
  }
  tsr_runtime_close(rt);
}

/* "y,x" on 8x4: the tiles in row-major order lie on devices 0 2 4 6 1 3 5 7. */
TEST(swapped_axes_walk_the_mesh_by_columns)
{
  static const int tile_devices[] = { 0, 2, 4, 6, 1, 3, 5, 7 };
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_sharding sharding = tsr_on(tsr_mesh_make(rt, "x=4,y=2"), "y,x");

  for (int t = 0; t < 8; t++) {
    tsr_box box;
    tsr__box(&sharding, &TSR_SHAPE(8, 4), tile_devices[t], &box);
    CHECK_I64(box.start[0], t / 4 * 4);
    CHECK_I64(box.start[1], t % 4);
    CHECK_I64(box.size[0], 4);
    CHECK_I64(box.size[1], 1);
  }
  tsr_runtime_close(rt);
}

/* [8,4,2,2] at (-,d+b,c,-) over a,b,c,d = 2 each: tile dims 1,4,2,1, replicated over a. */
TEST(two_axes_in_another_order_than_the_mesh)
{
  tsr_runtime *rt = fixture_devices("cpu:16");
  tsr_sharding sharding = tsr_on(tsr_mesh_make(rt, "a=2,b=2,c=2,d=2"), "-,d+b,c");

  for (int p = 0; p < 16; p++) {
    int b = p >> 2 & 1, c = p >> 1 & 1, d = p & 1;
    tsr_box box;
    tsr__box(&sharding, &TSR_SHAPE(8, 4, 2, 2), p, &box);
    CHECK_I64(box.start[1], d * 2 + b);
    CHECK_I64(box.size[1], 1);
    CHECK_I64(box.start[2], c);
    CHECK_I64(box.size[0] * box.size[2] * box.size[3], 8 * 1 * 2);
    CHECK_I64(tsr__replica_leader(&sharding, p), p & 7);
  }
  tsr_runtime_close(rt);
}

TEST(replication_is_seen_through_axes_of_size_one)
{
  static const struct {
    const char *mesh, *spec;
    bool replicated;
  } rows[] = {
    { "x=1,y=1", "x,y", true },       { "x=2,y=1", "", true },
    { "x=2,y=1", "-", true },         { "x=2,y=1", "-,-", true },
    { "x=1,y=2,z=4", "x,-,-", true }, { "x=1,y=1,z=4", "x,y,-", true },
    { "x=1,y=1,z=4", "x+y,-", true }, { "x=4,y=2", "x,y", false },
    { "x=2,y=1", "x,-", false },      { "x=2,y=1", "x+y,-", false },
    { "x=2,y=1", "x,-,-,-", false },
  };
  tsr_runtime *rt = fixture_devices("cpu:8");

  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tsr_sharding sharding = tsr_on(tsr_mesh_make(rt, rows[i].mesh), rows[i].spec);
    tsr_sharding canon = tsr__sharding_canon(&sharding);
    CHECK_I64(tsr__used_axes(&canon) == 0, rows[i].replicated);
  }
  tsr_runtime_close(rt);
}

/* ---- equal placements ------------------------------------------------------------------------ */

static tsr_mesh *reversed(tsr_runtime *rt, const char *axis, int count)
{
  int ids[8];
  tsr_mesh_opts opts = {
    .size = sizeof opts, .axis_count = 1, .names = { axis }, .sizes = { count }, .devices = ids
  };

  for (int i = 0; i < count; i++) ids[i] = count - 1 - i;
  return tsr_mesh_make_with(rt, &opts);
}

TEST(placements_are_compared_by_what_lies_where)
{
  tsr_runtime *rt = fixture_devices("cpu:8");
  tsr_sharding grid = tsr_on(tsr_mesh_make(rt, "x=2,y=4"), "x+y");
  tsr_sharding line = tsr_on(tsr_mesh_make(rt, "d=8"), "d");
  tsr_sharding back = tsr_on(reversed(rt, "d", 8), "d"), spread = tsr_on(back.mesh, "");
  tsr_sharding all = tsr_on(grid.mesh, ""), one = tsr_on_device(rt, 0), two = tsr_on_device(rt, 2);
  tsr_sharding unplaced = { .mesh = NULL }, single = tsr_on(tsr_mesh_make(rt, "x=1"), "x");
  tsr_sharding bad = tsr_on(grid.mesh, "nope");

  CHECK(tsr_sharding_same(&grid, &line, TSR_SHAPE(16)));
  CHECK(tsr_sharding_same(&grid, &line, TSR_SHAPE(8, 3)));
  CHECK(
      !tsr_sharding_same(&grid, &line, TSR_SHAPE(10))); /* 2,1,1,1 twice against 2,2,1,1,1,1,1,1 */
  CHECK(tsr_sharding_same(&grid, &line, TSR_SHAPE(10, 0)));
  CHECK(!tsr_sharding_same(&line, &back, TSR_SHAPE(8)));
  CHECK(tsr_sharding_same(&all, &spread, TSR_SHAPE(8)));
  CHECK(!tsr_sharding_same(&all, &one, TSR_SHAPE(8)));
  CHECK(!tsr_sharding_same(&all, &grid, TSR_SHAPE(8)));
  CHECK(!tsr_sharding_same(&one, &two, TSR_SHAPE(8)));
  CHECK(tsr_sharding_same(&one, &single, TSR_SHAPE(8)));
  CHECK(tsr_sharding_same(&one, &unplaced, TSR_SHAPE(8)));
  CHECK(tsr_sharding_same(NULL, &unplaced, TSR_SHAPE(8)));
  CHECK(!tsr_sharding_same(&bad, &bad, TSR_SHAPE(8)));
  CHECK(!tsr_sharding_same(&grid, &grid, (tsr_shape){ .rank = TSR_MAX_RANK + 1 }));
  CHECK(!tsr_sharding_same(&grid, &grid, TSR_SCALAR)); /* names a dim that is not there */
  tsr_runtime_close(rt);
}

/* ---- bad arguments --------------------------------------------------------------------------- */

TEST(boxes_of_bad_arguments)
{
  tsr_runtime *rt = fixture_devices("cpu:4");
  tsr_sharding sharding = tsr_on(tsr_mesh_make(rt, "d=4"), "d"), bad = tsr_on(sharding.mesh, "q");
  tsr_sharding strict = tsr_on(sharding.mesh, "d", .strict = true);
  tsr_box box = { .start = { 77 } };

  CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(4), 4, &box), TSR_EARG, NULL);
  CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(4), -1, &box), TSR_EARG, NULL);
  CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(4), 0, NULL), TSR_EARG, NULL);
  CHECK_STATUS(tsr_shard_box(&sharding, TSR_SCALAR, 0, &box), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_shard_box(&sharding, TSR_SHAPE(-4), 0, &box), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_shard_box(&sharding, (tsr_shape){ .rank = TSR_MAX_RANK + 1 }, 0, &box),
               TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_shard_box(&sharding, (tsr_shape){ .rank = -9 }, 0, &box), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_shard_box(&strict, TSR_SHAPE(5), 0, &box), TSR_ESHAPE, NULL);
  CHECK_STATUS(tsr_shard_box(&bad, TSR_SHAPE(4), 0, &box), TSR_EAXIS, NULL);
  CHECK_I64(box.start[0], 77);
  CHECK_STATUS(tsr_shard_box(NULL, TSR_SHAPE(4), 0, &box), TSR_OK, NULL);
  CHECK_I64(box.size[0], 4);
  CHECK_STATUS(tsr_shard_box(NULL, TSR_SHAPE(4), 1, &box), TSR_EARG, NULL);
  CHECK_I64(tsr__position_device(&sharding, 3), 3);
  CHECK_I64(tsr__position_device(&sharding, 4), -1);
  CHECK_I64(tsr__position_device(&sharding, -1), -1);
  tsr_runtime_close(rt);
}
